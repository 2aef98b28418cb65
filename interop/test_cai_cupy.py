"""CuPy's arrays in, ours out, and back. Its wheel carries NVIDIA's runtime library, which `cuda-sim run` redirects."""

import gc
import pathlib
import sys
import weakref

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))
import cai_python as P  # noqa: E402
from cai_python import give, make, take  # noqa: E402

cupy = pytest.importorskip("cupy")

WAYS = {"default": [], "dictionary": [P.CUDA_ARRAY_INTERFACE], "dlpack": [P.DLPACK]}
BACK = {"dictionary": cupy.asarray, "dlpack": cupy.from_dlpack}
TYPES = ["<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1", "<c8", "<c16"]


@pytest.fixture(autouse=True)
def nothing_pending():
    yield
    cupy.cuda.runtime.deviceSynchronize()


def fresh(dtype="<f4"):
    array = cupy.asarray(np.arange(12).astype(dtype).reshape(3, 4))
    cupy.cuda.runtime.deviceSynchronize()
    return array


def copy(to, source, stream):
    kind = cupy.cuda.runtime.memcpyDeviceToDevice
    cupy.cuda.runtime.memcpyAsync(to.data.ptr, source.data.ptr, source.nbytes, kind, stream.ptr)


def test_what_it_writes():
    found = fresh().__cuda_array_interface__
    assert list(found) == ["shape", "typestr", "descr", "stream", "version", "strides", "data"]
    assert found["version"] == 3 and found["stream"] == P.STREAM_LEGACY and found["strides"] is None


@pytest.mark.parametrize("way", WAYS)
def test_in(way):
    array = fresh()
    device = (P.CUDA, 0) if way == "dlpack" else (P.UNKNOWN, 0)  # its dictionary names no device
    with take(array, protocols=WAYS[way]) as taken:
        assert taken.shape == (3, 4) and taken.typestr == "<f4" and taken.data == array.data.ptr
        assert taken.stream == P.STREAM_LEGACY and not taken.readonly and taken.contiguous()
        assert taken.device == device
    with take(array[:, ::2], protocols=WAYS[way]) as taken:
        assert taken.shape == (3, 2) and taken.strides == (16, 8)
    with take(array.T, protocols=WAYS[way]) as taken:
        assert taken.shape == (4, 3) and taken.strides == (4, 16)
    with take(array[1:, 2], protocols=WAYS[way]) as taken:
        assert taken.shape == (2,) and taken.data == array.data.ptr + 24
    with take(cupy.empty((0, 4)), protocols=WAYS[way]) as taken:
        assert taken.shape == (0, 4) and taken.data == 0
    with take(cupy.broadcast_to(array[0], (2, 4)), protocols=WAYS[way]) as taken:
        assert taken.strides == (0, 4) and not taken.contiguous()


def test_negative_strides():
    """CuPy divides them by the size of an element without a sign for DLPack: a fault of CuPy, which is refused."""
    array = fresh()[:, ::-1]
    with take(array) as taken:
        assert taken.strides == (16, -4) and taken.data == array.data.ptr
        assert cupy.from_dlpack(give(taken)).strides == (16, -4)
    with pytest.raises(ValueError, match="stride"):
        take(array, protocols=[P.DLPACK])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("typestr", TYPES)
def test_types(typestr, way):
    array = fresh(typestr)
    with take(array, protocols=WAYS[way]) as taken:
        assert taken.typestr == typestr
        for back in BACK.values():
            found = back(give(taken))
            assert found.dtype == np.dtype(typestr) and (found.get() == array.get()).all()


@pytest.mark.parametrize("way", BACK)
@pytest.mark.parametrize("index", [np.s_[:], np.s_[:, ::2], np.s_[1], np.s_[1:, 1], np.s_[::-1, ::-1]], ids=str)
def test_there_and_back(index, way):
    array = fresh()[index]
    with take(array) as taken:
        back = BACK[way](give(taken))
    assert back.data.ptr == array.data.ptr and back.shape == array.shape and back.strides == array.strides


@pytest.mark.parametrize("way", BACK)
def test_empty(way):
    with make((0, 4)) as array:
        assert BACK[way](give(array)).shape == (0, 4)


@pytest.mark.parametrize("way", BACK)
def test_object_dropped_first(way):
    array = fresh()
    alive = weakref.ref(array)
    taken = take(array)
    obj = give(taken)
    back = BACK[way](obj)
    taken.release()
    del array, obj
    gc.collect()
    assert alive() is not None and back.get().sum() == 66
    del back
    gc.collect()
    assert alive() is None


def test_stream():
    """CuPy writes the current stream of the thread, and its imports wait for ours."""
    array, stream = fresh(), cupy.cuda.Stream(non_blocking=True)
    with stream, take(array, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
        assert taken.stream == stream.ptr
        assert give(taken).__cuda_array_interface__["stream"] == stream.ptr


@pytest.mark.parametrize("way", BACK)
def test_cupy_waits_for_our_stream(way):
    producer, consumer = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    source, array, found = fresh(), cupy.empty((3, 4), "f4"), cupy.empty((3, 4), "f4")
    cupy.cuda.runtime.deviceSynchronize()
    copy(array, source, producer)
    with make((3, 4), "<f4", array.data.ptr, stream=producer.ptr) as described, consumer:
        copy(found, BACK[way](give(described)), consumer)
    consumer.synchronize()
    assert (found.get(stream=consumer) == source.get(stream=consumer)).all()


def test_without_the_wait_there_is_a_race(simulator):
    producer, consumer = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    source, array, found = fresh(), cupy.empty((3, 4), "f4"), cupy.empty((3, 4), "f4")
    cupy.cuda.runtime.deviceSynchronize()
    copy(array, source, producer)
    copy(found, array, consumer)
    cupy.cuda.runtime.deviceSynchronize()
    count, text = simulator.take_report()
    assert count == 1 and "cudaMemcpyAsync" in text, text


def test_dlpack_is_asked_to_order():
    """The array's work on its stream comes before ours: without that, the copy below is a race."""
    producer, consumer = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    source, array, found = fresh(), cupy.empty((3, 4), "f4"), cupy.empty((3, 4), "f4")
    cupy.cuda.runtime.deviceSynchronize()
    with producer:
        copy(array, source, producer)
        with take(array, protocols=[P.DLPACK], stream=consumer.ptr) as taken:
            assert taken.stream == consumer.ptr
            copy(found, array, consumer)
            consumer.synchronize()
    assert (found.get(stream=consumer) == source.get(stream=consumer)).all()


def test_masks_and_readonly():
    """CuPy refuses masks, and has no arrays that are read-only: the dictionary's flag is not kept."""
    array = fresh()
    with make((3, 4), data=array.data.ptr, mask=make((3, 4), "|b1")) as masked, pytest.raises(ValueError):
        cupy.asarray(give(masked))
    with make((3, 4), data=array.data.ptr, readonly=True) as readonly:
        back = cupy.asarray(give(readonly))
        assert back.data.ptr == array.data.ptr and not back.__cuda_array_interface__["data"][1]


def test_kinds_of_memory():
    managed = cupy.ndarray(3, "f4", cupy.cuda.malloc_managed(12))
    with take(managed, device=True, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
        assert taken.device[0] == P.CUDA_MANAGED
    pool = cupy.cuda.MemoryAsyncPool()
    ordered = cupy.ndarray(3, "f4", pool.malloc(12))
    with take(ordered, device=True) as taken:
        assert taken.device == (P.CUDA, 0)
    del ordered
