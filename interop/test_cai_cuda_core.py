"""cuda.core's views of our objects."""

import gc
import pathlib
import sys

import numpy as np
import pytest
from core_memory import device, memory  # noqa: F401
from cuda.core.utils import StridedMemoryView

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))
import cai_python as P  # noqa: E402
from cai_python import give, make  # noqa: E402


def address(memory):
    return int(memory[0].handle)


@pytest.mark.parametrize("function", ["from_cuda_array_interface", "from_dlpack", "from_any_interface"])
def test_views(memory, function):
    array = make((3, 4), "<i2", address(memory), (32, 4))
    obj = give(array)
    array.release()
    view = getattr(StridedMemoryView, function)(obj, stream_ptr=int(memory[1].handle))
    assert view.ptr == address(memory) and tuple(view.shape) == (3, 4) and tuple(view.strides) == (16, 2)
    assert view.dtype == np.int16 and not view.readonly and view.device_id == 0 and view.is_device_accessible
    del obj
    gc.collect()
    assert array.counted.gone == 0
    del view
    gc.collect()
    assert array.counted.gone == 1


@pytest.mark.parametrize("function", ["from_cuda_array_interface", "from_dlpack"])
def test_readonly_stays(memory, function):
    with make((3, 4), "<i2", address(memory), readonly=True) as array:
        assert getattr(StridedMemoryView, function)(give(array), stream_ptr=int(memory[1].handle)).readonly


@pytest.mark.parametrize("function", ["from_cuda_array_interface", "from_dlpack"])
def test_empty(memory, function):
    with make((0, 4)) as array:
        view = getattr(StridedMemoryView, function)(give(array), stream_ptr=int(memory[1].handle))
        assert tuple(view.shape) == (0, 4) and view.ptr == 0


@pytest.mark.parametrize("function", ["from_cuda_array_interface", "from_dlpack"])
def test_streams_are_ordered(device, memory, simulator, function):
    """The view's stream waits for the array's, whether cuda.core sees to it or we do."""
    buffer, producer = memory
    consumer = device.create_stream()
    with make((4096,), "|u1", address(memory), stream=int(producer.handle)) as array:
        buffer.fill(9, stream=producer)
        getattr(StridedMemoryView, function)(give(array), stream_ptr=int(consumer.handle))
        other = device.allocate(4096, stream=consumer)
        buffer.copy_to(other, stream=consumer)
        consumer.sync()
        other.close(consumer)
        consumer.sync()
    producer.wait(consumer)
    producer.sync()


def test_version_2_and_masks_are_refused(memory):
    with make((3, 4), "<i2", address(memory), stream=P.STREAM_UNKNOWN) as array, pytest.raises(BufferError):
        StridedMemoryView.from_cuda_array_interface(give(array), stream_ptr=int(memory[1].handle))
    with make((3, 4), "<i2", address(memory), mask=make((3, 4), "|b1")) as array, pytest.raises(BufferError):
        StridedMemoryView.from_cuda_array_interface(give(array), stream_ptr=int(memory[1].handle))


def test_buffers_by_dlpack(memory):
    """cuda.core's buffers offer DLPack, and come in by it."""
    buffer, stream = memory
    with P.take(buffer, stream=int(stream.handle)) as taken:
        assert taken.data == address(memory) and taken.shape == (4096,) and taken.device == (P.CUDA, 0)
        assert taken.stream == int(stream.handle)
