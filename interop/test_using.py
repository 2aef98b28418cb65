"""The commands for libraries on the page of the simulator, where the library is installed."""

import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[1] / "cuda-sim/docs/using.md"
COMMANDS = re.findall(r'^\| [\w.-]+ \| `"((?:import|from) (\w+).*)"` \|', PAGE.read_text(), re.M)


def test_there_are_commands():
    assert {module for _, module in COMMANDS} == {"cupy", "numba", "torch", "cuda", "warp"}


@pytest.mark.parametrize("code, module", COMMANDS)
def test_command(code, module):
    pytest.importorskip(module)
    assert subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout
