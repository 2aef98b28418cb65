"""numba.cuda: device arrays, streams, events, copies, kinds of memory. Its kernels cannot run here."""

import numpy as np
from cai_python import give, take
from numba import cuda

import cai_python as P


def test_copies():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    d = cuda.to_device(a)
    assert (d.copy_to_host() == a).all()
    assert (d[1].copy_to_host() == a[1]).all()
    f = cuda.to_device(np.asfortranarray(a))
    assert (f.copy_to_host() == a).all()


def test_stream_copies():
    stream = cuda.stream()
    host = cuda.pinned_array(1000, np.float64)
    host[:] = 5
    d = cuda.to_device(host, stream=stream)
    back = cuda.pinned_array(1000, np.float64)
    d.copy_to_host(back, stream=stream)
    stream.synchronize()
    assert (back == 5).all()


def test_the_host_reads_too_early(simulator):
    stream = cuda.stream()
    host = cuda.pinned_array(1000, np.float64)
    d = cuda.device_array(1000, np.float64)
    cuda.synchronize()
    d.copy_to_host(host, stream=stream)
    simulator.host_read(host.ctypes.data, host.nbytes)
    count, text = simulator.take_report()
    assert count == 1 and "cuStreamSynchronize" in text, text
    stream.synchronize()
    simulator.host_read(host.ctypes.data, host.nbytes)


def test_events():
    stream = cuda.stream()
    start, end = cuda.event(), cuda.event()
    start.record(stream)
    d = cuda.to_device(np.zeros(1000), stream=stream)
    end.record(stream)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    stream.synchronize()
    assert d.size == 1000


def test_managed_and_pinned_memory():
    managed = cuda.managed_array(10, np.float64)
    managed[:] = 3
    assert cuda.as_cuda_array(managed).copy_to_host().sum() == 30
    with take(managed, device=True) as taken:
        assert taken.device[0] == P.CUDA_MANAGED
    mapped = cuda.mapped_array(10, np.float64)
    with take(mapped, device=True) as taken:
        assert taken.device[0] == P.CUDA_HOST


def test_ipc_handles():
    d = cuda.to_device(np.arange(10))
    assert d.get_ipc_handle() is not None


def test_requirements():
    fortran = cuda.to_device(np.asfortranarray(np.zeros((3, 4))))
    with take(fortran, f_contiguous=True, device=True) as taken:
        assert taken.strides == (8, 24) and taken.device == (P.CUDA, 0)


def test_the_stream_of_an_array():
    """Goes through an object of ours."""
    stream = cuda.stream()
    with take(cuda.device_array((3, 4), np.float32, stream=stream)) as taken:
        again = cuda.as_cuda_array(give(taken))
        assert int(again.__cuda_array_interface__["stream"]) == int(stream.handle)
    stream.synchronize()


def test_structures():
    kind = np.dtype([("a", "i4"), ("b", "i1"), ("c", "f8", (2,))], align=True)
    with take(cuda.device_array(5, kind)) as taken:
        assert taken.typestr == kind.str and taken.descr is None  # Numba writes no fields
