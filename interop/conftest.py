"""Tests of real, unmodified clients on the simulated driver. `make interop` starts pytest under `cuda-sim run`."""

import gc
import pathlib
import sys

import pytest

# The package, the tests' helpers, and the modules with cai/torch.h: some libraries exchange arrays through that as well.
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "cuda-sim/python"), str(ROOT / "tests/python"), str(ROOT / "contrib/tests/tensors")]
from race_checker import no_races, simulator  # noqa: E402, F401

# Need no simulator, and have environments of their own; ports have a program of their own, Ray a conftest.
collect_ignore = ["browser", "host", "nvcc", "ports", "ray"]


def pytest_collection_finish():
    """What exists before the first test is no garbage, and so much that each collection took long."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def device():
    """Of cuda.core."""
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def memory(device):
    """A buffer of cuda.core, and its stream."""
    stream = device.create_stream()
    buffer = device.allocate(4096, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    yield buffer, stream
    buffer.close(stream)
    stream.sync()
