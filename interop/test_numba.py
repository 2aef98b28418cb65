"""numba.cuda: device arrays, streams, events, copies, and arrays of others. Its kernels cannot run here."""

import numpy as np
import pytest
from numba import cuda


class Exporter:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


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


@pytest.mark.parametrize("sync", [True, False])
def test_consumes_what_is_on_a_stream(simulator, sync):
    producer = cuda.stream()
    d = cuda.device_array(1000, np.int32)
    cuda.synchronize()
    d.copy_to_device(np.arange(1000, dtype=np.int32), stream=producer)
    interface = dict(d.__cuda_array_interface__, stream=int(producer.handle))
    taken = cuda.from_cuda_array_interface(interface, sync=sync)
    consumer = cuda.stream()
    host = cuda.pinned_array(1000, np.int32)
    taken.copy_to_host(host, stream=consumer)
    consumer.synchronize()
    count, text = simulator.take_report()
    assert count == (0 if sync else 1), text
    if sync:
        assert (host == np.arange(1000)).all()
    producer.synchronize()


def test_exports():
    stream = cuda.stream()
    d = cuda.device_array((3, 4), np.complex64, stream=stream)
    interface = d.__cuda_array_interface__
    assert interface["version"] == 3 and interface["typestr"] == "<c8" and interface["shape"] == (3, 4)
    assert interface["stream"] not in (None, 0)
    x = cuda.as_cuda_array(Exporter(**interface))
    assert x.device_ctypes_pointer.value == interface["data"][0] and x.shape == (3, 4)


def test_managed_memory():
    m = cuda.managed_array(10, np.float64)
    m[:] = 3
    assert cuda.as_cuda_array(m).copy_to_host().sum() == 30


def test_ipc_handles():
    d = cuda.to_device(np.arange(10))
    assert d.get_ipc_handle() is not None
