"""DLPack against NumPy, which has both ends of it, and the devices that only the driver knows, on the simulated one."""

import ctypes as c
import random
import sys
import textwrap

import numpy as np
import pytest

import cai_ctypes as T
from dlpack_ctypes import Versioned, new_capsule, pointer_in, rename_capsule  # noqa: F401
from test_driver import python
from test_numpy import random_view

# Each protocol's name for its capsules, before and after its content was taken.
NAMES = {True: (b"dltensor_versioned", b"used_dltensor_versioned"), False: (b"dltensor", b"used_dltensor")}


def taken(cai, source, versioned=True):
    """What `source.__dlpack__()` gives, as an array of ours."""
    fresh, used = NAMES[versioned]
    capsule = source.__dlpack__(max_version=(1, 0)) if versioned else source.__dlpack__()
    array = T.new_array()
    take = cai.cai_array_from_dlpack if versioned else cai.cai_array_from_dlpack_unversioned
    error = T.Error()
    status = take(pointer_in(capsule, fresh), T.STREAM_UNKNOWN, 0, array, error)
    assert status == 0, error.message
    rename_capsule(capsule, used)
    return array


class Given:
    """An array of ours, for `numpy.from_dlpack`."""

    def __init__(self, cai, array, versioned=True):
        self.cai, self.array, self.versioned = cai, array, versioned

    def __dlpack__(self, **_):
        tensor = c.c_void_p()
        give = self.cai.cai_array_to_dlpack if self.versioned else self.cai.cai_array_to_dlpack_unversioned
        error = T.Error()
        assert give(self.array, 0, tensor, error) == 0, error.message
        return new_capsule(tensor, NAMES[self.versioned][0], None)

    def __dlpack_device__(self):
        return (1, 0)


def steps(cai, array):
    out = (c.c_int64 * max(array.ndim, 1))()
    assert cai.cai_array_strides(array, out, array.ndim, None) == 0
    return tuple(out[: array.ndim])


def same(cai, array, source):
    """Does our array say what NumPy's array interface says?"""
    interface = source.__array_interface__
    address, readonly = interface["data"]
    assert array.typestr.decode() == interface["typestr"] and array.dtype_code == 0
    assert tuple(array.shape[: array.ndim]) == interface["shape"]
    assert (array.data or 0) == (address if source.size else 0)
    assert array.flags == (T.FLAG_READONLY if readonly else 0)
    assert (array.device.type, array.device.id, array.stream) == (T.DEVICE_CPU, 0, T.STREAM_NONE)
    if source.size:
        ours = zip(array.shape[: array.ndim], steps(cai, array), source.strides)
        assert all(step == theirs for extent, step, theirs in ours if extent > 1)
    assert cai.cai_array_validate(array, T.CHECK_LAYOUT, None) == 0


TYPES = ["?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "f", "d", "F", "D"]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_random_views(cai, seed, versioned):
    numbers = random.Random(seed)
    for _ in range(250):
        source = random_view(numbers, TYPES)
        if numbers.random() < 0.2:
            source.flags.writeable = False
        if not versioned and not source.flags.writeable:
            continue  # NumPy refuses, for the older structure cannot say it
        references = sys.getrefcount(source)
        array = taken(cai, source, versioned)
        same(cai, array, source)
        back = np.from_dlpack(Given(cai, array, versioned))
        np.testing.assert_array_equal(back, source)
        assert back.shape == source.shape and back.dtype == source.dtype
        # NumPy makes memory of its own where there is nothing to point to, and believes nothing of the older structure.
        if source.size:
            assert back.flags.writeable == (source.flags.writeable and versioned)
            assert back.__array_interface__["data"][0] == source.__array_interface__["data"][0]
            steps_of = zip(back.shape, back.strides, source.strides)
            assert all(ours == theirs for extent, ours, theirs in steps_of if extent > 1)
        # The last one of array and tensor releases NumPy's.
        cai.cai_array_release(array)
        assert sys.getrefcount(source) == references + 1
        del back
        assert sys.getrefcount(source) == references


OUT = """
import test_dlpack as D
owner = c.c_void_p()
assert cai.cai_owner_create(None, cai_ctypes.DESTROY(), c.byref(owner), None) == 0
def out(address, count=4, device=(0, 0)):
    a = array(NONE)
    a.data, a.owner, a.device.type, a.device.id = address, owner, *device
    a.shape = (c.c_int64 * 1)(count)
    tensor = c.c_void_p()
    status = cai.cai_array_to_dlpack(c.byref(a), 0, c.byref(tensor), c.byref(error))
    if status:
        assert not tensor.value
        return status, error.field.decode()
    made = D.Versioned.from_address(tensor.value)
    answer = made.tensor.device_type, made.tensor.device_id
    assert (made.tensor.data or 0) == (address or 0)
    made.delete()
    return answer
"""


def where(body, **env):
    python(OUT + textwrap.dedent(body), **env)


def test_the_driver_is_asked(driver):
    where("""
        driver = Driver()
        cuda = driver.cuda
        context, second = c.c_void_p(), c.c_void_p()
        assert cuda.cuCtxGetCurrent(c.byref(context)) == 0
        memory, other, pinned, managed = c.c_uint64(), c.c_uint64(), c.c_void_p(), c.c_uint64()
        assert cuda.cuMemAlloc_v2(c.byref(memory), c.c_size_t(4096)) == 0
        assert cuda.cuMemAllocHost_v2(c.byref(pinned), c.c_size_t(4096)) == 0
        assert cuda.cuMemAllocManaged(c.byref(managed), c.c_size_t(4096), 1) == 0
        assert cuda.cuDevicePrimaryCtxRetain(c.byref(second), 1) == 0
        assert cuda.cuCtxSetCurrent(second) == 0
        assert cuda.cuMemAlloc_v2(c.byref(other), c.c_size_t(4096)) == 0
        assert out(memory.value) == (2, 0)
        assert out(memory.value + 16) == (2, 0)
        assert out(other.value) == (2, 1)
        assert out(pinned.value) == (3, 0)
        assert out(managed.value) == (13, 0)
        # It is not known, and the stated device is believed.
        assert out(c.addressof(data)) == (709, "device.type")
        assert out(c.addressof(data), device=(1, 7)) == (1, 0)
        assert out(c.addressof(data), device=(2, 7)) == (2, 7)
        assert out(None, count=0) == (2, 1)  # the device of the current context
        """, LD_LIBRARY_PATH=driver, CUDASIM_DEVICES="2")


def test_no_driver_to_ask():
    where("""
        assert out(c.addressof(data)) == (301, "driver")
        assert out(None, count=0) == (2, 0)
        assert out(c.addressof(data), device=(2, 1)) == (2, 1)
        assert not is_loaded("libcuda.so")
        """, CAI_CUDA_DRIVER="/nowhere/libcuda.so.1")
