"""`libcai.testing`: its own tests and the project's producers, on the simulated driver, and `python -m libcai check`."""

import json
import os
import sys

import pytest
from commands import ROOT, run, simulated
from xml.etree import ElementTree

from libcai.__main__ import main

SELF = ROOT / "python/libcai/testing/test_self.py"
PYTHONPATH = {"PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'cuda-sim/python'}:{ROOT / 'tests/python'}", "PYTHONDONTWRITEBYTECODE": "1"}


def test_self_and_own_producers(library_path):
    files = [SELF, ROOT / "tests/python/testing_inside.py"]
    done = simulated(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, devices=2,
                     check=False, env={**PYTHONPATH, "CAI_LIBRARY": library_path})  # fmt: skip
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout + done.stderr


FLOATS = """
from libcai.testing.test_self import VIEW, Sound, current, on

class Flat(Sound):
    def dictionary(self):
        return {**super().dictionary(), "strides": None, "stream": 1}

def take(obj):
    return VIEW(obj, current[-1])
"""


def test_command(library_path, tmp_path):
    (tmp_path / "floats.py").write_text(FLOATS)

    def check(*words, races="error"):
        command = ["env", f"CUDASIM_RACES={races}", sys.executable, "-m", "libcai", "check", *words]
        return simulated(*command, cwd=tmp_path, check=False, env={**PYTHONPATH, "CAI_LIBRARY": library_path})

    flat = check("floats:Flat", "--on=floats:on", "--junit=flat.xml", f"--library={library_path}")
    assert flat.returncode == 1 and flat.stdout.startswith("floats:Flat: 2 faults"), flat.stdout + flat.stderr
    assert [line.split()[1] for line in flat.stdout.splitlines() if "FAIL" in line] == ["strides:", "order-dict:"]
    assert ElementTree.parse(tmp_path / "flat.xml").getroot().get("name") == "floats:Flat"
    unchecked = check("floats:Flat", "--on=floats:on", f"--library={library_path}", races="off")
    assert "Order was not checked" in unchecked.stdout and "skipped  order-dict" in unchecked.stdout
    taken = check("--consumer", "floats:take", "--on=floats:on", "--json", f"--library={library_path}")
    said = {result["check"]: result["status"] for result in json.loads(taken.stdout)["results"]}
    assert taken.returncode == 0 and said["waits"] == said["takes-layout"] == "pass", taken.stdout + taken.stderr


@pytest.mark.parametrize("words, said", [
    (["test_testing:none"], "LookupError: no device"),
    (["test_testing:none", "--known=strides"], "the reason is missing"),
    (["numpy:zeros", "--known=stride=why"], "there is no check 'stride'"),
    (["test_testing:none", "--consumer", "--late=test_testing:none"], "goes with --on and --done"),
    (["test_testing:lost"], "NameError"),
    (["test_testing"], "is not MODULE:EXPRESSION"),
    ([], "MODULE:EXPRESSION is missing"),
])  # fmt: skip
def test_wrong_words(library_path, capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        main(["check", *words, f"--library={library_path}"])
    assert ended.value.code == 2 and said in capsys.readouterr().err


def none(shape, dtype):
    raise LookupError("no device")


def test_rules(capsys):
    assert main(["check", "--rules"]) == 0
    table = capsys.readouterr().out
    assert "| `order-dict` | must |" in table and table in (ROOT / "docs/src/specification.md").read_text()


def test_without_a_driver(library_path, tmp_path):
    """Only what needs none runs, and the report says so."""
    (tmp_path / "floats.py").write_text(FLOATS)
    done = run(sys.executable, "-m", "libcai", "check", "floats:Flat", f"--library={library_path}", cwd=tmp_path, check=False,
               env={**PYTHONPATH, "CAI_LIBRARY": library_path, "LD_LIBRARY_PATH": os.devnull})  # fmt: skip
    assert done.returncode == 1 and "Order was not checked" in done.stdout, done.stdout + done.stderr
