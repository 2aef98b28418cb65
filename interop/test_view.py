"""`libcai.view` beside cuda.core's StridedMemoryView: the same values, and streams of every library."""

import ctypes

import numpy as np
import pytest
from cuda.core.utils import StridedMemoryView

import cai_python as P
from cai_python import give, make
from libcai import _abi, _view

view = _view.function(str(P.LIBRARY))
NAMES = "ptr shape strides dtype device_id is_device_accessible readonly size exporting_obj".split()


class Array:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


def same(ours, theirs):
    for name in NAMES:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine is other or (mine == other and type(mine) is type(other)), name


@pytest.mark.parametrize("typestr", ["|b1", "|u1", "<i2", "<f2", "<f4", "<f8", "<c8", "<c16"])
@pytest.mark.parametrize(
    "shape, strides", [((3, 4), None), ((3, 4), (4, 1)), ((3, 2), (4, 2)), ((3, 4), (-4, -1)), ((), None), ((5,), (0,))]
)
@pytest.mark.parametrize("readonly", [False, True])
def test_dictionaries(memory, typestr, shape, strides, readonly):
    size = int(typestr[2:])
    steps = None if strides is None else tuple(step * size for step in strides)
    array = Array(shape=shape, typestr=typestr, strides=steps, data=(int(memory[0].handle) + 1024, readonly), version=3)
    on = int(memory[1].handle)
    same(view(array, on), StridedMemoryView.from_cuda_array_interface(array, stream_ptr=on))


def test_empty(memory):
    array = Array(shape=(0, 4), typestr="<f4", strides=None, data=(0, False), version=3)
    ours, theirs = view(array, -1), StridedMemoryView.from_cuda_array_interface(array, stream_ptr=-1)
    assert (ours.ptr, ours.shape, ours.size) == (theirs.ptr, theirs.shape, theirs.size) == (0, (0, 4), 0)


def test_host_arrays():
    for array in (np.arange(12.0).reshape(3, 4), np.arange(24, dtype="<i2").reshape(4, 6)[::2, ::3], np.float32(3)[None]):
        same(view(array), StridedMemoryView.from_any_interface(array, stream_ptr=-1))


def test_buffers_and_our_objects(memory):
    buffer, stream = memory
    on = int(stream.handle)
    same(view(buffer, stream), StridedMemoryView.from_any_interface(buffer, stream_ptr=on))
    with make((3, 4), "<f4", int(buffer.handle), device=(P.CUDA, 0), stream=on) as array:
        obj = give(array)
        same(view(obj, stream), StridedMemoryView.from_cuda_array_interface(obj, stream_ptr=on))


def of(obj):
    library = _abi.declare(ctypes.PyDLL(str(P.LIBRARY)), ["cai_unstable_stream_from_python"])
    out, device = ctypes.c_uint64(), ctypes.c_int32()
    assert library.cai_unstable_stream_from_python(obj, 0, 0, out, device, None) == 0
    return out.value, device.value


def test_streams_of_cuda_core(device):
    stream = device.create_stream()
    assert of(stream) == (int(stream.handle), 0)
    assert of(stream.handle)[0] == int(stream.handle)  # a CUstream of cuda-bindings
    assert of(device.default_stream)[0] in (1, 2)


def test_streams_of_numba(device):
    from numba import cuda

    stream = cuda.stream()
    assert of(stream)[0] == int(stream.handle)
    assert of(cuda.default_stream())[0] == 1
    assert of(cuda.legacy_default_stream())[0] == 1 and of(cuda.per_thread_default_stream())[0] == 2
    # As its releases without `__cuda_stream__` have it, and what is no stream.
    with pytest.raises(TypeError):
        of(cuda.event())


def test_streams_of_pytorch(device):
    import torch

    stream = torch.cuda.Stream()
    assert of(stream) == (stream.cuda_stream, 0)
    assert of(torch.cuda.default_stream()) == (1, 0)
    with pytest.raises(TypeError):
        of(torch.cuda.Event())


def test_events_and_buffers_are_no_streams(device, memory):
    for wrong in (device.create_stream().record(), memory[0], device):
        with pytest.raises(TypeError, match="^stream: found an object of type "):
            of(wrong)


@pytest.mark.parametrize("kind", ["object", "handle", "int"])
def test_ordered(device, memory, kind):
    """The view's stream waits for the producer's, and the producer's for the view's."""
    buffer, producer = memory
    consumer = device.create_stream()
    on = {"object": consumer, "handle": consumer.handle, "int": int(consumer.handle)}[kind]
    other = device.allocate(4096, stream=consumer)
    with make((4096,), "|u1", int(buffer.handle), stream=int(producer.handle)) as array:
        buffer.fill(9, stream=producer)
        with view(give(array), on):
            buffer.copy_to(other, stream=consumer)
        buffer.fill(3, stream=producer)
    consumer.sync()
    producer.sync()
    other.close(consumer)
    consumer.sync()


def test_not_ordered(device, memory, simulator):
    """With -1, the same is a race."""
    buffer, producer = memory
    consumer = device.create_stream()
    other = device.allocate(4096, stream=consumer)
    with make((4096,), "|u1", int(buffer.handle), stream=int(producer.handle)) as array:
        buffer.fill(9, stream=producer)
        with view(give(array), -1):
            buffer.copy_to(other, stream=consumer)
    assert simulator.take_report()[0] > 0
    consumer.sync()
    producer.sync()
    other.close(consumer)
    consumer.sync()
