"""cuda.core: devices, streams, events, buffers, and views."""

import ctypes

import numpy as np
import pytest
from cai_python import give, make, take
from cuda.core import EventOptions, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView

import cai_python as P


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


def test_version_2_is_refused(memory):
    with make((3, 4), "<i2", int(memory[0].handle), stream=P.STREAM_UNKNOWN) as array, pytest.raises(BufferError):
        StridedMemoryView.from_cuda_array_interface(give(array), stream_ptr=int(memory[1].handle))


def test_buffers_by_dlpack(memory):
    """cuda.core's buffers offer DLPack, and come in by it."""
    buffer, stream = memory
    with take(buffer, stream=int(stream.handle)) as taken:
        assert taken.data == int(buffer.handle) and taken.shape == (4096,) and taken.device == (P.CUDA, 0)
        assert taken.stream == int(stream.handle)
