"""cai/torch.h and cai/tvm_ffi.h: what arrays they refuse as tensors, how long both live, and in which order."""

import gc
import os

import pytest
import torch
import torch_header
import tvm_header
from cai_python import make
from commands import Built
from torch_header import refused

import cai_python as P

ROCM = 10
HEADERS = {
    "torch": lambda: torch_header.build("2.15"), "torch for 2.11": lambda: torch_header.build("2.11"),
    "torch for ROCm": lambda: torch_header.build("rocm"), "tvm_ffi": tvm_header.build,
}  # fmt: skip


@pytest.fixture(scope="module")
def rocm(tmp_path_factory):
    """As for a PyTorch of ROCm: its streams are HIP's, for which those of the simulated driver stand."""
    os.environ["CAI_HIP_DRIVER"] = str(Built(tmp_path_factory.mktemp("rocm")).hip)
    yield
    del os.environ["CAI_HIP_DRIVER"]


@pytest.fixture(scope="module", params=["torch", "torch for 2.11", "tvm_ffi"])
def header(request):
    return HEADERS[request.param]()


@pytest.mark.parametrize(
    "options, access, status, field",
    [
        ({"typestr": ">f4"}, 1, "CONVERT_BYTE_ORDER", "typestr"),
        ({"typestr": "|V4"}, 1, "CONVERT_TYPE", "typestr"),
        ({"typestr": "<M8[s]", "shape": (3, 2)}, 1, "CONVERT_TYPE", "typestr"),
        ({"typestr": "|S4"}, 1, "CONVERT_TYPE", "typestr"),
        ({"strides": (6, 4)}, 1, "CONVERT_STRIDES", "strides"),
        ({"readonly": True}, 2, "READONLY", None),
        ({}, 0, "ARGUMENT", None),
        ({"device": (P.ONEAPI, 0)}, 1, "CONVERT_DEVICE", "device.type"),
        ({"mask": True}, 1, "CONVERT_MASK", "mask"),
    ],
    ids=str,
)
def test_arrays_that_are_refused(header, options, access, status, field):
    memory = torch.zeros(3, 4)
    where = {"data": memory.data_ptr(), "device": (P.CPU, 0)}
    with make((3, 4), "|b1", **where) as mask:
        if "mask" in options:
            options = {"mask": mask}
        with make(**{"shape": (3, 4), **where, **options}) as array:
            found = refused(header.give, array, access)
        assert found[0] == status and found[1].startswith(field or "")
        assert array.counted.gone == 1


def test_the_tensor_keeps_the_array(header):
    memory = torch.arange(6)
    with make((6,), "<i8", memory.data_ptr(), device=(P.CPU, 0)) as array:
        tensor = header.give(array)
    part = header.as_torch(tensor)[2:4]
    del tensor
    gc.collect()
    assert array.counted.gone == 0 and part.tolist() == [2, 3]
    del part
    gc.collect()
    assert array.counted.gone == 1


def test_read_only_arrays_may_be_read(header):
    memory = torch.arange(6)
    with make((6,), "<i8", memory.data_ptr(), device=(P.CPU, 0), readonly=True) as array:
        assert header.as_torch(header.give(array, 1)).tolist() == memory.tolist()
    gc.collect()
    assert array.counted.gone == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_arrays_without_elements(header, device, shape):
    """PyTorch calls no deleter for memory at NULL."""
    where = {"device": (P.CPU, 0)} if device == "cpu" else {"device": (P.CUDA, 0), "stream": P.STREAM_LEGACY}
    with make(shape, "<f4", **where) as array:
        tensor = header.give(array)
    shared = header.as_torch(tensor)
    assert shared.shape == shape and shared.device.type == device
    del tensor, shared
    gc.collect()
    assert P.soon(lambda: array.counted.gone == 1)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("name", ["torch", "torch for ROCm", "tvm_ffi"])
def test_order(rocm, simulator, name, ends):
    """The tensor's stream waits for the array's, the memory is kept while it works, then the array's waits for it."""
    header, device = HEADERS[name](), ROCM if "ROCm" in name else P.CUDA
    memory, read = torch.empty(1024, device="cuda"), torch.empty(1024, device="cuda")
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        memory.zero_()
    with make((1024,), "<f4", memory.data_ptr(), stream=first.cuda_stream, device=(device, 0)) as array:
        with header.current(second):
            tensor = header.give(array)
            read.copy_(header.as_torch(tensor))
            if ends:
                tensor = None  # otherwise its release, which waits for the work, may order the streams
                header.end(array, second.cuda_stream)
    with torch.cuda.stream(first):
        memory.zero_()
    torch.cuda.synchronize()
    del tensor
    assert P.soon(lambda: array.counted.gone == 1)
    assert (simulator.take_report()[0] > 0) == (not ends)


def test_a_build_for_rocm(rocm):
    tensor, newest, other = torch.zeros(3, 4, device="cuda"), HEADERS["torch"](), HEADERS["torch for ROCm"]()
    with other.look(tensor) as taken:
        assert taken.device == (ROCM, 0) and taken.stream == P.STREAM_LEGACY
        assert other.give(taken).data_ptr() == tensor.data_ptr()
        assert refused(newest.give, taken) == ("CONVERT_DEVICE", "device.type")
    with newest.look(tensor) as taken:
        assert refused(other.give, taken) == ("CONVERT_DEVICE", "device.type")
