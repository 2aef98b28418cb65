"""Exports: the OpenCL/CUDA buffer interface."""

import gc
import threading

import cai_python as P
import pytest
from cai_python import give, make, take
from importing import Index

HANDLE = 0x6161_0000
NAMES = ("buffer", "_ptr", "int_ptr", "offset", "release")


def opencl(*args, device=(P.OPENCL, -1), **others):
    return make(*args, data=HANDLE, device=device, **others)


def test_the_buffer_states_what_it_is():
    """A `_ptr` alone may be a CUDA address: readers need an option for it."""
    with opencl(byte_offset=8) as array:
        obj = give(array)
    assert obj.buffer.int_ptr == HANDLE and type(obj.buffer.int_ptr) is int
    with take(obj, protocols=[P.OPENCL_BUFFER]) as again:
        assert (again.device, again.data, again.byte_offset) == ((P.OPENCL, -1), HANDLE, 8)


def test_arrays_that_do_not_offer_it():
    def absent(array, text, **options):
        obj = give(array, **options)
        array.release()
        for name in NAMES:
            with pytest.raises(AttributeError, match=text):
                getattr(obj, name)

    for device in ((P.CUDA, 0), (P.UNKNOWN, 0), (P.CPU, 0), (P.ONEAPI, 0), (7, 0)):
        absent(make(device=device), "OpenCL")
    absent(opencl(mask=opencl(typestr="|b1")), "mask")
    absent(opencl(readonly=True), "read-only")
    absent(opencl(typestr="<V2", dtype_code=P.BFLOAT16), "numpy.dtype")
    absent(opencl(typestr="|t1"), "numpy.dtype")
    with opencl(readonly=True) as array:
        assert give(array, hide_readonly=True).buffer._ptr == HANDLE


def test_the_buffer_keeps_the_memory():
    array = opencl()
    obj = give(array)
    array.release()
    buffer = obj.buffer
    del obj
    gc.collect()
    assert array.counted.gone == 0 and buffer._ptr == HANDLE
    del buffer
    gc.collect()
    assert array.counted.gone == 1


def test_release():
    """The object gives up its reference, once; arrays and tensors that were made of it have their own."""
    array = opencl(device=(P.OPENCL, 0))
    obj, other = give(array), give(array)
    array.release()
    taken, capsule = take(obj), obj.__dlpack__()
    other.release()
    assert obj.release() is None
    obj.release()
    for name in ("buffer", "_ptr", "int_ptr", "offset", "shape", "strides", "dtype", "device"):
        with pytest.raises(AttributeError, match="released"):
            getattr(obj, name)
    with pytest.raises((BufferError, ValueError)):
        obj.__dlpack__()
    with pytest.raises((BufferError, ValueError, TypeError)):
        take(obj)
    assert repr(obj) == "<libcai.Array, empty>"
    assert array.counted.gone == 0 and taken.data == HANDLE
    taken.release()
    del capsule
    gc.collect()
    assert array.counted.gone == 1
    release = obj.release
    del obj
    gc.collect()
    release()
    assert array.counted.gone == 1


def test_release_during_a_call():
    """A call that reads the array keeps it until the end."""
    array = opencl(device=(P.OPENCL, 0))
    obj = give(array)
    array.release()

    class Releases(Index):
        def __index__(self):
            obj.release()
            assert array.counted.gone == 0
            return super().__index__()

    capsule = obj.__dlpack__(max_version=(Releases(1), 0))
    assert array.counted.gone == 0
    del capsule
    gc.collect()
    assert array.counted.gone == 1


def test_release_by_many_threads():
    for _ in range(50):
        array = opencl((64,) * 8)
        obj = give(array)
        array.release()
        start = threading.Barrier(4)

        def read():
            start.wait()
            for _ in range(20):
                try:
                    assert obj.shape == (64,) * 8 and obj.buffer is obj
                except AttributeError:
                    pass

        def release():
            start.wait()
            obj.release()

        P.at_once(read, read, release, release)
        assert array.counted.gone == 1
