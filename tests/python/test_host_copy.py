"""Copies to the host through `__dlpack__(dl_device=(1, 0))` and `copy=True`, which `numpy.from_dlpack(x, device="cpu")`
asks for. Those of arrays on a device are in host_copy_inside.py, on the simulated driver."""

import sys

import cai_python as P
import pytest
from cai_python import give, make
from commands import output_of, simulated
from exporting import versioned

np = pytest.importorskip("numpy")
IS_COPIED = 2


@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads", "random:3"])
@pytest.mark.parametrize("name", ["host_copy_inside", "dlpack_inside", "masks_inside"])
def test_on_the_simulated_driver(name, schedule):
    """One race, and the exit code is 66."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/python/{name}.py"]
    done = simulated(*command, schedule=schedule, devices=2, check=False, env={"PYTHONPATH": "tests/python"})
    assert done.returncode == 0 and " passed" in done.stdout, output_of(done)


def host(view, **others):
    return make(view.shape, view.dtype.str, view.ctypes.data, view.strides, device=(P.CPU, 0), **others)


def test_host_memory_is_copied_when_that_is_wanted():
    values = np.arange(24, dtype="<i4").reshape(4, 6)
    for view in (values, values[:, ::2], values[::-1], values.T):
        with host(view) as array:
            obj = give(array)
            for options in (dict(), dict(dl_device=(1, 0)), dict(copy=False), dict(copy=False, dl_device=(1, 0))):
                tensor = versioned(obj.__dlpack__(max_version=(1, 0), **options))
                assert tensor.tensor.data == view.ctypes.data and not tensor.flags & IS_COPIED
            for options in (dict(copy=True), dict(copy=True, dl_device=(1, 0))):
                capsule = obj.__dlpack__(max_version=(1, 0), **options)
                tensor = versioned(capsule)
                assert tensor.tensor.data != view.ctypes.data and tensor.flags & IS_COPIED
                assert tensor.tensor.data % 64 == 0
            copy = np.from_dlpack(obj, copy=True)
            assert copy.tolist() == view.tolist() and copy.flags.c_contiguous
            values[0, 0] += 1
            assert copy.tolist() != view.tolist()
            values[0, 0] -= 1


def test_a_copy_is_writable():
    values = np.arange(3, dtype="<i4")
    with host(values, readonly=True) as array:
        obj = give(array)
        assert versioned(obj.__dlpack__(max_version=(1, 0))).flags & 1
        assert not versioned(obj.__dlpack__(max_version=(1, 0), copy=True)).flags & 1
        obj.__dlpack__(copy=True)  # the older structure, too


def test_packed_bits():
    bits = np.array([0x35, 0xF0, 0x01], "|u1")
    with make((20,), "|t1", bits.ctypes.data, device=(P.CPU, 0)) as array:
        capsule = give(array).__dlpack__(max_version=(1, 0), copy=True)
        tensor = versioned(capsule).tensor
        assert (tensor.code, tensor.bits, tensor.shape[0]) == (1, 1, 20)
        assert P.c.string_at(tensor.data, 3) == bits.tobytes()


def test_more_than_there_is_memory():
    one = np.zeros(1, "<i8")
    with make((1 << 40, 1 << 19), "<i8", one.ctypes.data, (0, 0), device=(P.CPU, 0)) as array:
        with pytest.raises(MemoryError):
            give(array).__dlpack__(copy=True)
