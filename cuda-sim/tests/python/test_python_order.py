"""The order that `cuda-sim run` observes between threads of this Python, whose locks differ between versions."""

import concurrent.futures
import subprocess
import sys
import sysconfig

import pytest

from commands import COMMAND, SIM

PROGRAM = SIM / "tests/host_order/python.py"
# Without an interpreter lock, a lock of Python that is free is taken by an atomic operation, which is not observed.
OPTIONS = ["--host-threads=ordered"] * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def python(*arguments):
    command = [COMMAND, "run", *OPTIONS, "--", sys.executable, PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("racy", [False, True])
def test_work_that_is_handed_on(racy):
    """Correct programs have no race, and each of them has one if the first thread does not wait for its stream."""
    names = python().stdout.split()
    assert len(names) == 13
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda name: python(name, *["racy"] * racy), names))
    wrong = {name: one.stderr[-2000:] for name, one in zip(names, done) if one.returncode != (66 if racy else 0)}
    assert not wrong and all(one.stdout == "done\n" for one in done)
