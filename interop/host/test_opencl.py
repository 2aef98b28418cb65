"""pyopencl's arrays, on PoCL: what their handles are good for, in and out."""

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from adapters import PyOpenCL
from cai_python import give, take


@pytest.fixture(scope="module")
def queue():
    return PyOpenCL().queue


@pytest.fixture
def array(queue):
    return pyopencl.array.to_device(queue, np.arange(12, dtype="f4").reshape(3, 4))


def test_queue_and_context(array, queue):
    with take(array) as taken:
        assert taken.stream == queue.int_ptr and taken.context == queue.context.int_ptr


def test_parts(array):
    """`data` of such a part raises in pyopencl; the buffer and the offset are there."""
    part = array[1:, ::2]
    with pytest.raises(pyopencl.array.ArrayHasOffsetError):
        part.data
    with take(part) as taken:
        assert (taken.data, taken.byte_offset) == (array.base_data.int_ptr, part.offset)


def test_empty(queue):
    empty = pyopencl.array.zeros(queue, (0, 3), "f4")
    assert empty.base_data is None
    with take(empty) as taken:
        assert taken.shape == (0, 3) and taken.data == 0 and taken.byte_offset == 0


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
