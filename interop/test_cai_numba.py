"""numba.cuda's arrays in, ours out, and back."""

import gc
import pathlib
import sys
import weakref

import numpy as np
import pytest
from numba import cuda

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))
import cai_python as P  # noqa: E402
from cai_python import give, make, take  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_pending():
    yield
    cuda.synchronize()


def fresh(*args, **kwargs):
    array = cuda.to_device(np.arange(12, dtype=np.float32).reshape(3, 4), *args, **kwargs)
    cuda.synchronize()
    return array


def test_what_it_writes():
    found = fresh().__cuda_array_interface__
    assert list(found) == ["shape", "strides", "data", "typestr", "stream", "version"]
    assert found["version"] == 3 and found["stream"] is None and found["strides"] is None


def test_in():
    array = fresh()
    with take(array) as taken:
        assert taken.shape == (3, 4) and taken.typestr == "<f4" and taken.stream is None and taken.version == 3
        assert taken.data == array.device_ctypes_pointer.value and taken.device == (P.UNKNOWN, 0)
    with take(array, device=True) as taken:
        assert taken.device == (P.CUDA, 0)
    with take(array[:, ::2]) as taken:
        assert taken.shape == (3, 2) and taken.strides == (16, 8)
    with take(cuda.device_array((0, 4), np.float32)) as taken:
        assert taken.shape == (0, 4) and taken.data == 0
    with take(cuda.to_device(np.asfortranarray(np.zeros((3, 4)))), f_contiguous=True) as taken:
        assert taken.strides == (8, 24)


def test_stream():
    stream = cuda.stream()
    array = cuda.device_array((3, 4), np.float32, stream=stream)
    with take(array) as taken:
        assert taken.stream == int(stream.handle)
        assert give(taken).__cuda_array_interface__["stream"] == int(stream.handle)
        again = cuda.as_cuda_array(give(taken))
        assert int(again.__cuda_array_interface__["stream"]) == int(stream.handle)
    stream.synchronize()


def test_numba_waits_for_our_stream():
    """On the host, so that the consumer's stream needs no event. test_numba.py has what happens without."""
    producer, consumer = cuda.stream(), cuda.stream()
    host, array = cuda.pinned_array(1000, np.int32), cuda.device_array(1000, np.int32)
    host[:] = 3
    cuda.synchronize()
    array.copy_to_device(host, stream=producer)
    with make((1000,), "<i4", array.device_ctypes_pointer.value, stream=int(producer.handle)) as described:
        theirs = cuda.as_cuda_array(give(described))
        found = cuda.pinned_array(1000, np.int32)
        theirs.copy_to_host(found, stream=consumer)
        consumer.synchronize()
    assert (found == 3).all()
    producer.synchronize()


def test_there_and_back():
    for index in (np.s_[:], np.s_[:, ::2], np.s_[1], np.s_[1:, 1]):
        array = fresh()[index]
        with take(array) as taken:
            back = cuda.as_cuda_array(give(taken))
        assert back.device_ctypes_pointer.value == array.device_ctypes_pointer.value and back.shape == array.shape
        assert (back.copy_to_host() == array.copy_to_host()).all()


def test_object_dropped_first():
    array = fresh()
    alive = weakref.ref(array)
    taken = take(array)
    obj = give(taken)
    back = cuda.as_cuda_array(obj)
    taken.release()
    del array, obj
    gc.collect()
    assert alive() is not None and back.copy_to_host().sum() == 66
    del back
    gc.collect()
    assert alive() is None


def test_structures():
    kind = np.dtype([("a", "i4"), ("b", "i1"), ("c", "f8", (2,))], align=True)
    array = cuda.device_array(5, kind)
    with take(array) as taken:
        assert taken.typestr == kind.str and taken.descr is None  # Numba writes no fields


def test_empty():
    with make((0, 4)) as array:
        assert cuda.as_cuda_array(give(array)).shape == (0, 4)


def test_mask():
    """Numba refuses masks rather than to ignore them."""
    array = fresh()
    with make((3, 4), data=array.device_ctypes_pointer.value, mask=make((3, 4), "|b1")) as masked:
        with pytest.raises(NotImplementedError):
            cuda.as_cuda_array(give(masked))


def test_broadcast():
    """Our dictionary has strides. Numba reads them, and exports the array as contiguous: a fault of Numba."""
    array = fresh()
    with make((3, 4), data=array.device_ctypes_pointer.value, strides=(0, 4)) as broadcast:
        obj = give(broadcast)
        assert obj.__cuda_array_interface__["strides"] == (0, 4)
        theirs = cuda.as_cuda_array(obj)
        assert theirs.strides == (0, 4)


def test_managed_and_pinned_memory():
    managed = cuda.managed_array(10, np.float64)
    with take(managed, device=True) as taken:
        assert taken.device[0] == P.CUDA_MANAGED
    mapped = cuda.mapped_array(10, np.float64)
    with take(mapped, device=True) as taken:
        assert taken.device[0] == P.CUDA_HOST
