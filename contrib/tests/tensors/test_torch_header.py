"""cai/torch.h alone: tensors that it refuses, references, devices, the page about it."""

import ctypes as c
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest
import torch
import torch_header
from cai_python import make
from commands import ROOT, python_of, run
from torch_header import STATUS, refused

import cai_ctypes as T
import cai_python as P


@pytest.fixture(scope="module", params=["2.11", "2.15"])
def library(request):
    return torch_header.build(request.param)


@pytest.mark.parametrize("dtype", ["bits8", "uint4", "quint8"])
def test_types_of_pytorch_only(library, dtype):
    tensor = torch.empty(8, dtype=torch.uint8).view(getattr(torch, dtype)) if dtype == "bits8" else None
    if dtype == "uint4":
        tensor = torch.empty(8, dtype=torch.uint4)
    if dtype == "quint8":
        tensor = torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.quint8)
    assert refused(library.look, tensor) == ("CONVERT_TYPE", "dtype")


def test_tensors_that_are_refused(library):
    assert refused(library.look, torch.zeros(3, 3).to_sparse()) == ("CONVERT_STRIDES", "layout")
    assert refused(library.look, torch.zeros(3, device="meta")) == ("CONVERT_DEVICE", "device")
    tensor = torch.zeros(3, dtype=torch.complex64)
    assert refused(library.look, tensor.conj()) == ("CONVERT_TYPE", "tensor")
    assert refused(library.look, tensor.conj().imag) == ("CONVERT_TYPE", "tensor")
    for dtype in (torch.bfloat16, torch.int32):
        assert refused(library.look, torch._neg_view(torch.zeros(3, dtype=dtype))) == ("CONVERT_TYPE", "tensor")
    library.look(tensor.conj().resolve_conj()).release()
    library.look(tensor.imag).release()
    for function in (library.c.undefined, library.c.none):
        assert STATUS[function(c.byref(T.new_array()), c.byref(library.error))] == "NULL_ARGUMENT"


def test_devices_and_strides_that_are_refused(library):
    memory = torch.zeros(3, 4)
    with make((3, 4), "<f4", memory.data_ptr(), device=(P.CUDA_HOST, 0)) as array:
        assert refused(library.give, array) == ("CONVERT_DEVICE", "device.type")
    with make((3, 4), "<f4", memory.data_ptr() + 12, (16, -4), device=(P.CPU, 0)) as array:
        assert refused(library.give, array) == ("CONVERT_STRIDES", "strides")


def test_an_array_without_an_owner(library):
    memory, shape = torch.zeros(3), (c.c_int64 * 1)(3)
    array = T.new_array(typestr=b"<f4", stream=P.STREAM_NONE, ndim=1)
    array.data, array.shape, array.device.type = memory.data_ptr(), shape, P.CPU
    made = c.c_void_p()
    assert STATUS[library.c.to_torch(c.byref(array), 1, c.byref(made), c.byref(library.error))] == "BORROWED"
    assert not made.value


class Memory(bytearray):
    """A weak reference to it ends with the last tensor of it."""


def test_references_after_failures(library):
    memory = Memory(4000)
    alive, out = weakref.ref(memory), T.new_array()
    tensor = torch.frombuffer(memory, dtype=torch.float32)
    out.struct_size = 7
    assert STATUS[library.c.from_torch(c.py_object(tensor), c.byref(out), c.byref(library.error))] == "STRUCT_SIZE"
    with library.look(tensor) as taken:
        del memory, tensor
        assert alive() is not None and taken.shape == (1000,)
    assert alive() is None


def test_a_device_that_does_not_exist(library):
    memory = torch.zeros(3, device="cuda")
    with make((3,), "<f4", memory.data_ptr(), device=(P.CUDA, 99)) as array:
        assert refused(library.give, array)[0] == "ARGUMENT"
    assert array.counted.gone == 1


def test_the_array_keeps_the_tensor(library):
    tensor = torch.arange(1000)
    address = tensor.data_ptr()
    taken = library.look(tensor)
    del tensor
    gc.collect()
    assert torch.arange(1000).data_ptr() != address
    back = library.give(taken)
    taken.release()
    assert back.sum() == 499500


def test_strides_that_are_not_used(library):
    tensor = torch.zeros(3).as_strided((1, 3), (2**62, 1))
    with library.look(tensor) as taken:
        assert taken.shape == (1, 3) and taken.strides == (4, 4)
        assert library.give(taken).shape == (1, 3)


def test_no_place_for_a_tensor(library):
    with make((0,), "<f4", device=(P.CPU, 0)) as array:
        status = library.c.cai_array_to_torch_of(c.byref(array.array), 1, None, c.byref(library.error))
        assert (STATUS[status], library.error.field) == ("NULL_ARGUMENT", b"out")
    assert array.counted.gone == 1


def test_released_on_a_thread_without_a_context(simulator, library):
    """The memory stays until the work on the tensor's stream is done, wherever the last reference goes."""
    memory, read = torch.empty(1024, device="cuda"), torch.empty(1024, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with make((1024,), "<f4", memory.data_ptr(), stream=stream.cuda_stream, device=(P.CUDA, 0)) as array:
        kept = [library.give(array)]
    read.copy_(kept[0])
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    P.soon(lambda: array.counted.gone == 1)
    assert array.counted.gone == 1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="test_two_devices starts this with two devices")
def test_with_two_devices(library):
    """A default stream is that of the current device."""
    memory = torch.empty(16, device="cuda:1")
    with make((16,), "<f4", memory.data_ptr(), stream=P.STREAM_LEGACY, device=(P.CUDA, 1)) as array:
        assert refused(library.give, array) == ("STREAM_DEVICE", "device.id")
        with torch.cuda.stream(torch.cuda.Stream("cuda:1")), torch.cuda.device(0):
            assert library.give(array).device == memory.device
        with torch.cuda.device(1):
            assert library.give(array).device == memory.device
    torch.cuda.synchronize(1)
    P.soon(lambda: array.counted.gone == 1)
    assert array.counted.gone == 1
    with library.look(memory) as taken:
        assert (taken.device, taken.stream) == ((P.CUDA, 1), P.STREAM_LEGACY)


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are two devices")
def test_two_devices():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::test_with_two_devices"]
    done = subprocess.run(command, env={**os.environ, "CUDASIM_DEVICES": "2"}, capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_stream_of_a_device(library):
    stream, found = torch.cuda.Stream(), c.c_uint64()
    with torch.cuda.stream(stream):
        assert library.c.stream_of(0, c.byref(found)) == 0 and found.value == stream.cuda_stream


def test_a_device_that_is_not_known(library):
    tensor = torch.zeros(4, device="cuda")
    with make((4,), "<f4", tensor.data_ptr(), device=(P.UNKNOWN, 0)) as array:
        assert library.give(array).device == tensor.device
    with make((0,), "<f4", device=(P.UNKNOWN, 0)) as array:
        assert library.give(array).device == tensor.device


def test_example(tmp_path):
    source = ROOT / "contrib/examples/torch_fill.cpp"
    torch.ops.load_library(str(torch_header.compiled(source, tmp_path)))
    with pytest.raises(RuntimeError, match="expected a CUDA tensor"):
        torch.ops.mine.fill(torch.zeros(2, 3), 1)
    tensor = torch.empty(4, 6, device="cuda").copy_(torch.ones(4, 6))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.ops.mine.fill(tensor[::2, 1:4], 0)
        found = tensor.cpu()
    expected = torch.ones(4, 6)
    expected[::2, 1:4] = 0
    assert torch.equal(found, expected)
    for memory in (tensor, torch.ones(2)):
        shared = torch.ops.mine.share(memory)
        assert shared.data_ptr() == memory.data_ptr() and torch.equal(shared.cpu(), memory.cpu())
    torch.ops.mine.fill(tensor[:, :0], 0)
    with pytest.raises(RuntimeError, match="expected rows without gaps"):
        torch.ops.mine.fill(tensor[:, ::2], 0)
    assert run(sys.executable, "-c", python_of(source), cwd=tmp_path).stdout == "18.0\n"
