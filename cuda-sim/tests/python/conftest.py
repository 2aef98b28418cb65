"""Where the tests find cuda-sim: what `make sim` built."""

import pytest

from commands import COMMAND, libdir

# Files that take long come first: the processes of `make test` take whole files, in this order.
LONG = ["test_cuda_sim", "test_cuda_sim_memory", "test_shadow", "test_cuda_sim_host_order", "test_cuda_sim_wheel"]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="session")
def driver():
    """A folder with the simulated libcuda.so, for the linker."""
    assert COMMAND.exists(), "run `make sim` first"
    return libdir()
