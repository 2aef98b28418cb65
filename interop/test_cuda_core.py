"""cuda.core: devices, streams, events, buffers, and views of other people's arrays."""

import ctypes

import numpy as np
import pytest
from cuda.core import Device, EventOptions, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView


class Exporter:
    """An array of another library, on its own stream."""

    def __init__(self, buffer, shape, typestr, stream, strides=None, readonly=False):
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (int(buffer.handle), readonly),
            "version": 3,
            "strides": strides,
            "stream": int(stream.handle) if stream is not None else None,
        }


@pytest.fixture
def device():
    device = Device(0)
    device.set_current()
    return device


def copy_out(buffer, host, stream):
    """cuda.core copies between buffers; the host's side is pinned."""
    pinned = LegacyPinnedMemoryResource().allocate(host.nbytes)
    buffer.copy_to(pinned, stream=stream)
    stream.sync()
    ctypes.memmove(host.ctypes.data, int(pinned.handle), host.nbytes)
    pinned.close()


def test_streams_and_events(device):
    a, b = device.create_stream(), device.create_stream()
    assert int(a.handle) != int(b.handle) and a.is_nonblocking
    done = a.record()
    b.wait(done)
    b.sync()
    assert done.is_done
    timed = EventOptions(timing_enabled=True)
    start, end = a.record(options=timed), a.record(options=timed)
    a.sync()
    assert end - start >= 0
    b.wait(a)
    a.close(), b.close()


def test_buffers(device):
    a = device.create_stream()
    buffer, other = device.allocate(4096, stream=a), device.allocate(4096, stream=a)
    buffer.fill(3, stream=a)
    buffer.copy_to(other, stream=a)
    host = np.zeros(4096, np.uint8)
    copy_out(other, host, a)
    assert (host == 3).all()
    buffer.close(a), other.close(a)
    a.sync()


@pytest.mark.parametrize("same", [True, False])
def test_view_orders_streams(device, same, simulator):
    producer = device.create_stream()
    consumer = producer if same else device.create_stream()
    buffer = device.allocate(4096, stream=producer)
    buffer.fill(9, stream=producer)
    array = Exporter(buffer, (32, 32), "<f4", producer)
    view = StridedMemoryView.from_cuda_array_interface(array, stream_ptr=int(consumer.handle))
    assert view.ptr == int(buffer.handle) and tuple(view.shape) == (32, 32) and view.dtype == np.float32
    other = device.allocate(4096, stream=consumer)
    buffer.copy_to(other, stream=consumer)
    host = np.zeros(4096, np.uint8)
    copy_out(other, host, consumer)
    assert (host == 9).all()
    other.close(consumer)
    # The producer waits for its consumer before it lets the memory go.
    producer.wait(consumer)
    buffer.close(producer)
    producer.sync()


def test_a_producer_that_hides_its_stream_races(device, simulator):
    producer, consumer = device.create_stream(), device.create_stream()
    buffer = device.allocate(4096, stream=producer)
    buffer.fill(9, stream=producer)
    consumer.wait(producer)
    buffer.fill(10, stream=producer)
    array = Exporter(buffer, (4096,), "|u1", None)
    StridedMemoryView.from_cuda_array_interface(array, stream_ptr=int(consumer.handle))
    other = device.allocate(4096, stream=consumer)
    buffer.copy_to(other, stream=consumer)
    consumer.sync()
    count, text = simulator.take_report()
    assert count == 1 and "read" in text, text
    producer.sync()
    other.close(consumer)
    buffer.close(producer)


def test_strided_and_read_only_views(device):
    a = device.create_stream()
    buffer = device.allocate(4096, stream=a)
    view = StridedMemoryView.from_cuda_array_interface(
        Exporter(buffer, (4, 8), "<i2", a, strides=(64, 4), readonly=True), stream_ptr=int(a.handle)
    )
    assert view.readonly and tuple(view.strides) == (32, 2)
    buffer.close(a)
    a.sync()
