"""What an array keeps on its way through each protocol: the table of docs/src/specification.md, which tools/hops.py makes,
and random arrays through one protocol and then another, which the table must predict."""

import os
import sys

import pytest
from commands import simulated

# Older versions of NumPy refuse arrays without elements at address 0, and the table states what NumPy refuses.
pytest.importorskip("numpy", "2.4")


def hops(what, schedule, seed):
    assert "came back" in simulated(sys.executable, "tools/hops.py", what, "400", seed, schedule=schedule).stdout


def test_generated_table():
    hops("write" if os.environ.get("CAI_BLESS") else "check", "lazy", 1)


@pytest.mark.parametrize("schedule", ["eager", "threads"])
def test_random_arrays_under_other_schedules(schedule):
    hops("check", schedule, 2 if schedule == "eager" else 3)
