"""pyopencl's arrays, on PoCL: handles, with an offset to the first element."""

import gc
import weakref

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import cai_python as P
from cai_python import give, take


@pytest.fixture(scope="module")
def queue():
    found = [platform for platform in cl.get_platforms() if "Portable" in platform.name]
    return cl.CommandQueue(cl.Context(found[0].get_devices()[:1]))


@pytest.fixture
def array(queue):
    return pyopencl.array.to_device(queue, np.arange(12, dtype="f4").reshape(3, 4))


def test_whole(array, queue):
    with take(array) as taken:
        assert taken.device == (P.OPENCL, -1) and taken.data == array.base_data.int_ptr and taken.byte_offset == 0
        assert taken.shape == (3, 4) and taken.typestr == "<f4" and taken.contiguous() and not taken.readonly
        assert taken.stream == queue.int_ptr and taken.context == queue.context.int_ptr


@pytest.mark.parametrize("index", [np.s_[1:], np.s_[1:, ::2], np.s_[2, 1:], np.s_[:, 3], np.s_[1]])
def test_parts(array, index):
    """`data` of such a part raises in pyopencl; the buffer and the offset are there."""
    part = array[index]
    assert part.offset > 0
    with pytest.raises(pyopencl.array.ArrayHasOffsetError):
        part.data
    with take(part) as taken:
        assert taken.data == array.base_data.int_ptr and taken.byte_offset == part.offset
        assert taken.shape == part.shape
        assert taken.strides == part.strides or taken.contiguous()


def test_transposed(array):
    with take(array.T) as taken:
        assert taken.shape == (4, 3) and taken.strides == (4, 16)


def test_empty(queue):
    empty = pyopencl.array.zeros(queue, (0, 3), "f4")
    assert empty.base_data is None
    with take(empty) as taken:
        assert taken.shape == (0, 3) and taken.data == 0 and taken.byte_offset == 0


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f8", "c8"])
def test_types(queue, dtype):
    with take(pyopencl.array.zeros(queue, 5, dtype)) as taken:
        assert np.dtype(taken.typestr) == np.dtype(dtype)


def test_object_dropped_first(queue):
    array = pyopencl.array.to_device(queue, np.arange(12, dtype="f4"))
    alive = weakref.ref(array)
    taken = take(array)
    del array
    gc.collect()
    assert alive() is not None
    taken.release(P.free)
    assert P.soon(lambda: alive() is None)


def test_the_handle_works(array, queue):
    """What came in is the buffer: OpenCL reads the part through handle and offset alone."""
    part = array[1:, ::2]
    with take(part) as taken:
        buffer = cl.Buffer.from_int_ptr(taken.data, retain=True)
        host = np.zeros(12 - taken.byte_offset // 4, "f4")
        cl.enqueue_copy(queue, host, buffer, src_offset=taken.byte_offset)
        found = np.lib.stride_tricks.as_strided(host, taken.shape, taken.strides)
        assert (found == array.get()[1:, ::2]).all()


def test_out(array):
    """No dictionary can carry a handle: the object keeps to this library's table."""
    with take(array[1:]) as taken:
        obj = give(taken)
        for name in ("__cuda_array_interface__", "__array_interface__", "__sycl_usm_array_interface__"):
            assert not hasattr(obj, name)
        # DLPack requires the number of the device, which pyopencl does not have.
        with pytest.raises(BufferError):
            obj.__dlpack_device__()
        with take(obj) as again:
            assert again.data == taken.data and again.byte_offset == 16 and again.stream == taken.stream
