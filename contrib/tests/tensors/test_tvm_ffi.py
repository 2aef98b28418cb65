"""cai/tvm_ffi.h: tensors of Apache TVM FFI, in functions that Python calls with NumPy's and PyTorch's arrays."""

import ctypes as c
import gc
import sys
import threading

import numpy as np
import pytest
import torch
import tvm_ffi
import tvm_header
from adapters import LAYOUTS, WHOLE, Torch, TorchOnDevice, view
from cai_python import make
from commands import ROOT, python_of, run
from torch_header import refused

import cai_python as P


@pytest.fixture(scope="module")
def library():
    return tvm_header.build()


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in Torch.without])
@pytest.mark.parametrize("way", ["look", "look_view", "through"])
def test_layouts(library, device, way, layout):
    torch_library = Torch() if device == "cpu" else TorchOnDevice()
    whole, model = torch_library.array(WHOLE), view(WHOLE, layout)
    tensor = torch_library.view(whole, layout)
    used = [d for d in range(model.ndim) if model.shape[d] > 1 and model.size]
    result = getattr(library, way)(tensor)
    if way == "through":
        back = torch.from_dlpack(result)
        assert tuple(back.shape) == model.shape and back.dtype == tensor.dtype and back.device == tensor.device
        assert [4 * back.stride(d) for d in used] == [model.strides[d] for d in used]
        assert back.data_ptr() == tensor.data_ptr() or not model.size
        return
    seen = library.last
    assert tuple(seen.shape[: seen.array.ndim]) == model.shape
    assert not seen.array.strides or [seen.strides[d] for d in used] == [model.strides[d] for d in used]
    assert (seen.array.data or 0) == (tensor.data_ptr() if model.size else 0)
    assert seen.borrowed == (way == "look_view") and seen.array.typestr == b"<f4" and seen.array.flags == 0
    assert seen.array.device.type == (P.CPU if device == "cpu" else P.CUDA)


@pytest.mark.parametrize("name", [name for name in Torch.types if name not in ("complex32", "float4_e2m1fn_x2")])
def test_types(library, name):
    tensor = Torch().typed(np.zeros(12 * int(Torch.types[name][0][2:]), "u1"), name)
    library.look(tensor)
    assert (library.last.array.typestr.decode(), library.last.array.dtype_code) == Torch.types[name]
    back = torch.from_dlpack(library.through(tensor))
    assert back.dtype == tensor.dtype and back.data_ptr() == tensor.data_ptr()


def test_the_stream_is_that_of_the_environment(library):
    tensor = torch.zeros(4, device="cuda")
    library.look(tensor)
    assert library.last.array.stream == P.STREAM_LEGACY
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        library.look(tensor)
    assert library.last.array.stream == stream.cuda_stream
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), stream.cuda_stream):
        library.look(tvm_ffi.from_dlpack(tensor))
    assert library.last.array.stream == stream.cuda_stream
    library.look(torch.zeros(4))
    assert library.last.array.stream == P.STREAM_NONE


def test_the_array_keeps_the_tensor(library):
    memory = np.arange(6.0)
    with make((6,), "<f8", memory.ctypes.data, device=(P.CPU, 0)) as array:
        tensor = library.give(array)
    library.keep(tensor)
    assert np.array_equal(np.from_dlpack(tensor), memory)
    del tensor
    gc.collect()
    assert array.counted.gone == 0
    library.keep()
    assert array.counted.gone == 1


def test_released_on_a_thread_without_a_context(simulator, library):
    """The memory stays until the work on the tensor's stream is done, wherever the last reference goes."""
    memory, read = torch.empty(1024, device="cuda"), torch.empty(1024, device="cuda")
    torch.cuda.synchronize()
    for stream in (P.STREAM_LEGACY, P.STREAM_PER_THREAD):
        with make((1024,), "<f4", memory.data_ptr(), stream=P.STREAM_NONE) as array:
            with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), stream):
                kept = [library.give(array)]
        c.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2(
            c.c_uint64(read.data_ptr()), c.c_uint64(memory.data_ptr()), c.c_size_t(4096), c.c_void_p(stream)
        )
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        P.soon(lambda: array.counted.gone == 1)
        assert array.counted.gone == 1


def test_null_arguments(library):
    assert refused(library.nothing, 0) == ("NULL_ARGUMENT", "argument")
    assert refused(library.nothing, 1) == ("NULL_ARGUMENT", "argument.v_ptr")
    assert refused(library.nothing, 2) == ("SHAPE_NULL", "shape")
    assert refused(library.nothing, 3) == ("NULL_ARGUMENT", "array")
    assert refused(library.nothing, 4) == ("NULL_ARGUMENT", "out")


def test_references_after_failures(library):
    """The output is a structure of no version: no reference to the tensor stays."""
    memory = np.arange(6.0)
    with make((6,), "<f8", memory.ctypes.data, device=(P.CPU, 0)) as array:
        tensor = library.give(array)
    assert refused(library.wrong_size, tensor)[0] == "STRUCT_SIZE"
    del tensor
    gc.collect()
    assert array.counted.gone == 1


def test_arguments_that_are_refused(library):
    look = library.look
    assert refused(look, 3) == ("ARGUMENT", "argument.type_index")
    assert refused(look, "text") == ("ARGUMENT", "argument.type_index")
    assert refused(look, None) == ("ARGUMENT", "argument.type_index")
    assert refused(library.no_strides, torch.zeros(3, 3)[:, 1]) == ("NULL_ARGUMENT", "strides")


def test_example(tmp_path):
    source = ROOT / "contrib/examples/tvm_scale.cpp"
    module = tvm_ffi.load_module(str(tvm_header.compiled(source, tmp_path)))
    scale, numbers = module.scale, np.arange(6, dtype="f4")
    shared = np.from_dlpack(module.share(tvm_ffi.from_dlpack(numbers)))
    assert np.shares_memory(shared, numbers) and shared.shape == (6,)
    scale(tvm_ffi.from_dlpack(numbers))
    assert numbers.tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(ValueError, match="expected float32"):
        scale(tvm_ffi.from_dlpack(np.zeros(3)))
    with pytest.raises(ValueError, match="expected C order"):
        scale(tvm_ffi.from_dlpack(numbers[::2]))
    with pytest.raises(ValueError, match="expected one"):
        scale()
    assert run(sys.executable, "-c", python_of(source), cwd=tmp_path).stdout == "[ 0.  2.  4.  6.  8. 10.]\n"
