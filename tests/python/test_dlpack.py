"""DLPack against NumPy, which has both ends of it; random tensors against a reference with big numbers; and the
devices that only the driver knows, on the simulated one."""

import ctypes as c
import math
import random
import sys
import textwrap
import threading

import numpy as np
import pytest

import cai_ctypes as T
from dlpack_ctypes import DELETER, Tensor, Versioned, address_of
from test_driver import python

# Each protocol's name for its capsules, before and after its content was taken.
NAMES = {True: (b"dltensor_versioned", b"used_dltensor_versioned"), False: (b"dltensor", b"used_dltensor")}

pythonapi = c.pythonapi
pythonapi.PyCapsule_GetPointer.argtypes = [c.py_object, c.c_char_p]
pythonapi.PyCapsule_GetPointer.restype = c.c_void_p
pythonapi.PyCapsule_SetName.argtypes = [c.py_object, c.c_char_p]
pythonapi.PyCapsule_New.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
pythonapi.PyCapsule_New.restype = c.py_object

def taken(cai, source, versioned=True):
    """What `source.__dlpack__()` gives, as an array of ours."""
    fresh, used = NAMES[versioned]
    capsule = source.__dlpack__(max_version=(1, 0)) if versioned else source.__dlpack__()
    array = T.new_array()
    take = cai.cai_array_from_dlpack if versioned else cai.cai_array_from_dlpack_unversioned
    error = T.Error()
    status = take(pythonapi.PyCapsule_GetPointer(capsule, fresh), T.STREAM_UNKNOWN, array, error)
    assert status == 0, error.message
    pythonapi.PyCapsule_SetName(capsule, used)
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
        return pythonapi.PyCapsule_New(tensor, NAMES[self.versioned][0], None)

    def __dlpack_device__(self):
        return (1, 0)


def steps(cai, array):
    out = (c.c_int64 * max(array.ndim, 1))()
    assert cai.cai_array_strides(array, array.ndim, out, None) == 0
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


BASE = np.arange(2 * 3 * 4 * 5, dtype=np.int16).reshape(2, 3, 4, 5)
LAYOUTS = {
    "dense": BASE,
    "transposed": BASE.T,
    "steps": BASE[:, ::2, 1::3],
    "negative": BASE[::-1, :, ::-2],
    "none": np.array(7.0),
    "one": np.ones((1, 1, 1), dtype=np.float32),
    "empty": np.empty((3, 0, 2)),
    "empty slice": BASE[:, 3:3, ::-1],
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "column": BASE[0, 0, :, 2:3],
    "fortran": np.asfortranarray(np.arange(6, dtype=np.uint64).reshape(2, 3)),
}
TYPES = ["?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "f", "d", "F", "D"]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("versioned", [True, False])
def test_layouts(cai, name, versioned):
    source = LAYOUTS[name]
    if not versioned and not source.flags.writeable:
        pytest.skip("NumPy refuses, for the older structure cannot say it")
    references = sys.getrefcount(source)
    array = taken(cai, source, versioned)
    assert sys.getrefcount(source) == references + 1
    same(cai, array, source)
    back = np.from_dlpack(Given(cai, array, versioned))
    np.testing.assert_array_equal(back, source)
    assert back.shape == source.shape and back.dtype == source.dtype
    # NumPy makes memory of its own where there is nothing to point to, and believes nothing of the older structure.
    if source.size:
        assert back.flags.writeable == (source.flags.writeable and versioned)
        assert back.__array_interface__["data"][0] == source.__array_interface__["data"][0]
    # The last one of array and tensor lets NumPy's go.
    cai.cai_array_release(array)
    assert sys.getrefcount(source) == references + 1
    del back
    assert sys.getrefcount(source) == references


@pytest.mark.parametrize("code", TYPES)
def test_types(cai, code):
    source = np.zeros((2, 3), dtype=code)
    source[...] = [[0, 1, 1], [1, 0, 1]]
    array = taken(cai, source)
    same(cai, array, source)
    back = np.from_dlpack(Given(cai, array))
    assert back.dtype == source.dtype
    np.testing.assert_array_equal(back, source)
    cai.cai_array_release(array)


def test_readonly(cai):
    source = np.arange(5)
    source.flags.writeable = False
    array = taken(cai, source)
    same(cai, array, source)
    tensor, error = c.c_void_p(), T.Error()
    assert cai.cai_array_to_dlpack_unversioned(array, 0, tensor, error) == 708 and error.field == b"flags"
    assert not np.from_dlpack(Given(cai, array)).flags.writeable
    cai.cai_array_release(array)


def test_written_through(cai):
    source = np.zeros((3, 4))
    array = taken(cai, source)
    np.from_dlpack(Given(cai, array))[1, 2] = 5
    assert source[1, 2] == 5
    cai.cai_array_release(array)


def test_not_taken_twice(cai):
    """The capsule that was taken frees nothing."""
    source = np.arange(3)
    references = sys.getrefcount(source)
    for _ in range(100):
        array = taken(cai, source)
        cai.cai_array_release(array)
        assert sys.getrefcount(source) == references


def test_refused_stays_with_the_capsule(cai):
    source = np.arange(3)
    references = sys.getrefcount(source)
    capsule = source.__dlpack__(max_version=(1, 0))
    pointer = pythonapi.PyCapsule_GetPointer(capsule, NAMES[True][0])
    tensor = Versioned.from_address(pointer)
    tensor.major = 2
    array = T.new_array()
    assert cai.cai_array_from_dlpack(pointer, T.STREAM_NONE, array, None) == 710
    assert not array.owner
    tensor.major = 1
    del capsule
    assert sys.getrefcount(source) == references


def random_view(numbers):
    """A view of some array: sliced, reversed, transposed, broadcast, with extents of 0 and 1 among them."""
    extents = [numbers.choice([0, 1, 1, 2, 3, 4, 7]) for _ in range(numbers.randrange(6))]
    dtype = np.dtype(numbers.choice(TYPES))
    base = np.zeros(extents, dtype=dtype, order=numbers.choice("CF"))
    base.reshape(-1)[...] = np.arange(base.size) % 2
    view = base
    for axis in range(base.ndim):
        step = numbers.choice([1, 1, 1, 2, 3, -1, -2])
        view = view[(slice(None),) * axis + (slice(None, None, step),)]
    view = view.transpose(numbers.sample(range(view.ndim), view.ndim))
    if numbers.random() < 0.2:
        view = np.broadcast_to(view, (numbers.randrange(1, 4), *view.shape))
    elif numbers.random() < 0.2:
        view = view.view()
        view.flags.writeable = False
    return view


@pytest.mark.parametrize("seed", range(8))
def test_random_views(cai, seed):
    numbers = random.Random(seed)
    for _ in range(250):
        source = random_view(numbers)
        references = sys.getrefcount(source)
        array = taken(cai, source)
        same(cai, array, source)
        back = np.from_dlpack(Given(cai, array))
        np.testing.assert_array_equal(back, source)
        assert back.shape == source.shape and back.dtype == source.dtype
        if source.size:
            assert back.flags.writeable == source.flags.writeable
            steps_of = zip(back.shape, back.strides, source.strides)
            assert all(ours == theirs for extent, ours, theirs in steps_of if extent > 1)
        cai.cai_array_release(array)
        del back
        assert sys.getrefcount(source) == references


# --- any numbers at all -----------------------------------------------------------------------------------------

MOST, LEAST = 2**63 - 1, -(2**63)
SHAPE_NEGATIVE, SIZE_OVERFLOW, SPAN_OVERFLOW, ADDRESS_RANGE = 206, 207, 208, 209


def reference(shape, strides, itemsize, address):
    """Which statuses fit a tensor, in numbers without end; none: it is sound."""
    if min(shape, default=0) < 0:
        return {SHAPE_NEGATIVE}
    if math.prod(shape) == 0:
        return set()
    wrong = set()
    if math.prod(shape) * itemsize > MOST:
        wrong.add(SIZE_OVERFLOW)
    if strides is None:
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    taken_steps = [(extent - 1, step * itemsize) for extent, step in zip(shape, strides) if extent > 1]
    low = sum(count * step for count, step in taken_steps if step < 0)
    high = sum(count * step for count, step in taken_steps if step > 0) + itemsize
    if low < LEAST or high > MOST or any(not LEAST <= step <= MOST for _, step in taken_steps):
        wrong.add(SPAN_OVERFLOW)
    if address + low < 0 or address + high >= 2**64:
        wrong.add(ADDRESS_RANGE)
    return wrong


def some_number(numbers):
    if numbers.random() < 0.8:
        return numbers.choice([0, 1, 1, 2, 3, 5, 8])
    near = 2 ** numbers.randrange(64) + numbers.randrange(-2, 3)
    return min(near, MOST)


@pytest.mark.parametrize("seed", range(4))
def test_random_numbers(cai, seed):
    numbers = random.Random(seed)
    deleted = []
    deleter = DELETER(deleted.append)  # kept alive by this name
    seen = dict.fromkeys(range(5), 0)
    for _ in range(3000):
        ndim = numbers.randrange(5)
        shape = [some_number(numbers) * numbers.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, -1]) for _ in range(ndim)]
        strides = [some_number(numbers) * numbers.choice([1, 1, -1]) for _ in range(ndim)]
        strides = strides if numbers.random() < 0.8 else None
        itemsize = numbers.choice([1, 2, 4, 8, 16])
        offset = numbers.choice([0, 0, 64])
        address = numbers.choice([1 << 46, 4096, 2**64 - 4096, 2**63])
        tensor = Versioned(major=1, minor=numbers.randrange(9), deleter=address_of(deleter))
        tensor.tensor = Tensor(
            data=address, device_type=2, ndim=ndim, code=0, bits=8 * itemsize, lanes=1,
            shape=(c.c_int64 * 5)(*shape), byte_offset=offset,
        )  # fmt: skip
        if strides is not None:
            tensor.tensor.strides = (c.c_int64 * 5)(*strides)
        expected = reference(shape, strides, itemsize, address + offset)
        array, error = T.new_array(), T.Error()
        status = cai.cai_array_from_dlpack(c.byref(tensor), 1, array, error)
        assert status in (expected or {0}), (shape, strides, itemsize, address, status, error.message, expected)
        seen[status - 205 if status else 0] += 1
        if status:
            assert not array.owner and not deleted
            continue
        assert tuple(array.shape[:ndim]) == tuple(shape)
        empty = 0 in shape
        assert (array.data or 0) == (0 if empty else address + offset)
        if strides is not None and not empty:
            ours = zip(shape, array.strides[:ndim], strides)
            assert all(step == theirs * itemsize for extent, step, theirs in ours if extent > 1)
        # And out again: the same where it matters, and always there.
        out = c.c_void_p()
        assert cai.cai_array_to_dlpack(array, 0, out, error) == 0, error.message
        back = Versioned.from_address(out.value)
        assert (back.major, back.minor, back.flags) == (1, 3, 0)
        assert tuple(back.tensor.shape[:ndim]) == tuple(shape)
        dense = [math.prod(max(extent, 1) for extent in shape[axis + 1 :]) for axis in range(ndim)]
        for extent, step, theirs in zip(shape, back.tensor.strides[:ndim], strides or dense):
            assert empty or extent == 1 or step == theirs
        cai.cai_array_release(array)
        assert not deleted
        back.delete()
        assert deleted == [c.addressof(tensor)]
        deleted.clear()
    assert all(count > 20 for count in seen.values()), seen


# --- from any thread ----------------------------------------------------------------------------------------------


def test_deleted_by_other_threads(cai):
    source = np.arange(1000)
    references = sys.getrefcount(source)
    array = taken(cai, source)
    tensors = []
    for _ in range(200):
        tensor = c.c_void_p()
        assert cai.cai_array_to_dlpack(array, 0, tensor, None) == 0
        tensors.append(tensor)
    cai.cai_array_release(array)

    def delete(some):
        for tensor in some:
            Versioned.from_address(tensor.value).delete()

    threads = [threading.Thread(target=delete, args=(tensors[start::4],)) for start in range(4)]
    assert sys.getrefcount(source) == references + 1
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.getrefcount(source) == references


# --- where the memory is -------------------------------------------------------------------------------------------

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
    where(
        """
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
        """,
        LD_LIBRARY_PATH=driver,
        CUDASIM_DEVICES="2",
    )


def test_no_driver_to_ask():
    where(
        """
        assert out(c.addressof(data)) == (301, "driver")
        assert out(None, count=0) == (2, 0)
        assert out(c.addressof(data), device=(2, 1)) == (2, 1)
        assert not is_loaded("libcuda.so")
        """,
        CAI_CUDA_DRIVER="/nowhere/libcuda.so.1",
    )
