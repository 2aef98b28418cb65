"""cai/tvm_ffi.h: tensors of Apache TVM FFI, in functions that Python calls with NumPy's and PyTorch's arrays."""

import ctypes as c
import gc
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
import tvm_ffi
from adapters import LAYOUTS, WHOLE, Torch, TorchOnDevice, view
from cai_python import make
from tvm_ffi import libinfo

import cai_ctypes as T
import cai_python as P

ROOT = pathlib.Path(__file__).resolve().parents[1]
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()
INCLUDE = ["-I", ROOT / "include", "-isystem", libinfo.find_include_path(), "-isystem", libinfo.find_dlpack_include_path()]


class Seen(c.Structure):
    _fields_ = [("array", T.Array), ("shape", c.c_int64 * 8), ("strides", c.c_int64 * 8), ("error", T.Error),
                ("borrowed", c.c_int32)]  # fmt: skip


class Library:
    def __init__(self, path):
        self.module = tvm_ffi.load_module(str(path))
        self.last = Seen.in_dll(c.CDLL(str(path)), "last")

    def __getattr__(self, name):  # the module's functions
        return getattr(self.module, name)

    def refuses(self, function, *arguments):
        with pytest.raises(ValueError) as raised:
            function(*arguments)
        assert self.last.error.message.decode() in str(raised.value)
        return {number: name for name, number in P.ERRORS.items()}[self.last.error.code], self.last.error.field.decode()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tvm")
    tvm = pathlib.Path(libinfo.find_libtvm_ffi())
    command = ["g++", "-std=c++17", *STRICT, "-fPIC", "-shared", *INCLUDE, ROOT / "interop/frameworks/tvm_ffi.cpp", P.LIBRARY, tvm]
    (folder / "libcai.so.1").symlink_to(P.LIBRARY)
    made = folder / "functions.so"
    subprocess.run([str(a) for a in (*command, f"-Wl,-rpath,{folder}:{tvm.parent}", "-o", made)], check=True)
    return Library(made)


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    yield request.param
    if request.param == "cuda":
        torch.cuda.synchronize()


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
        tensor = library.give(c.addressof(array.array), 3)
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
                kept = [library.give(c.addressof(array.array), 3)]
        c.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2(
            c.c_uint64(read.data_ptr()), c.c_uint64(memory.data_ptr()), c.c_size_t(4096), c.c_void_p(stream)
        )
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        P.soon(lambda: array.counted.gone == 1)
        assert array.counted.gone == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_arrays_without_elements(library, shape):
    with make(shape, "<f4", device=(P.CPU, 0)) as array:
        tensor = library.give(c.addressof(array.array), 3)
        assert tuple(tensor.shape) == shape
        del tensor
    assert array.counted.gone == 1


def test_null_arguments(library):
    assert library.refuses(library.nothing, 0) == ("NULL_ARGUMENT", "argument")
    assert library.refuses(library.nothing, 1) == ("NULL_ARGUMENT", "argument.v_ptr")
    assert library.refuses(library.nothing, 2) == ("SHAPE_NULL", "shape")
    assert library.refuses(library.nothing, 3) == ("NULL_ARGUMENT", "array")
    assert library.refuses(library.nothing, 4) == ("NULL_ARGUMENT", "out")


def test_references_after_failures(library):
    """The output is a structure of no version: no reference to the tensor stays."""
    memory = np.arange(6.0)
    with make((6,), "<f8", memory.ctypes.data, device=(P.CPU, 0)) as array:
        tensor = library.give(c.addressof(array.array), 3)
    assert library.refuses(library.wrong_size, tensor)[0] == "STRUCT_SIZE"
    del tensor
    gc.collect()
    assert array.counted.gone == 1


@pytest.mark.parametrize("ends", [True, False])
def test_order(library, simulator, ends):
    """The tensor's stream waits for the array's, the memory is kept while it works, and the array's then waits for it."""
    memory, read = torch.empty(1024, device="cuda"), torch.empty(1024, device="cuda")
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        memory.zero_()
    with make((1024,), "<f4", memory.data_ptr(), stream=first.cuda_stream) as array:
        with torch.cuda.stream(second), tvm_ffi.use_torch_stream():
            tensor = library.give(c.addressof(array.array), 3)
            read.copy_(torch.from_dlpack(tensor))
            if ends:
                tensor = None  # otherwise its release, which waits for the work, may order the streams
                library.end(c.addressof(array.array), 3)
    with torch.cuda.stream(first):
        memory.zero_()
    torch.cuda.synchronize()
    del tensor
    P.soon(lambda: array.counted.gone == 1)
    assert array.counted.gone == 1
    assert (simulator.take_report()[0] > 0) == (not ends)


def test_arguments_that_are_refused(library):
    look = library.look
    assert library.refuses(look, 3) == ("ARGUMENT", "argument.type_index")
    assert library.refuses(look, "text") == ("ARGUMENT", "argument.type_index")
    assert library.refuses(look, None) == ("ARGUMENT", "argument.type_index")
    assert library.refuses(library.no_strides, torch.zeros(3, 3)[:, 1]) == ("NULL_ARGUMENT", "strides")


def test_arrays_that_are_refused(library):
    memory = np.zeros((3, 4), "f4")

    def give(access=1, dtype="<f4", device=(P.CPU, 0), **options):
        with make((3, 4), dtype, memory.ctypes.data, device=device, **options) as array:
            result = library.refuses(library.give, c.addressof(array.array), access)
        assert array.counted.gone == 1
        return result

    assert give(dtype=">f4") == ("CONVERT_BYTE_ORDER", "typestr")
    assert give(dtype="|V4") == ("CONVERT_TYPE", "typestr")
    assert give(dtype="<M8[s]") == ("CONVERT_TYPE", "typestr")
    assert give(strides=(6, 4), access=1)[0] == "CONVERT_STRIDES"
    assert give(access=2, readonly=True)[0] == "READONLY"
    assert give(access=0)[0] == "ARGUMENT"
    assert give(device=(P.ONEAPI, 0)) == ("CONVERT_DEVICE", "device.type")
    mask = make((3, 4), "|b1", memory.ctypes.data, device=(P.CPU, 0))
    assert give(mask=mask) == ("CONVERT_MASK", "mask")
    mask.release()


def test_read_only_arrays_may_be_read(library):
    memory = np.arange(3.0)
    with make((3,), "<f8", memory.ctypes.data, device=(P.CPU, 0), readonly=True) as array:
        tensor = library.give(c.addressof(array.array), 1)
        assert np.array_equal(np.from_dlpack(tensor), memory)
        del tensor
    assert array.counted.gone == 1


def test_page(tmp_path):
    """The program on the page about frameworks runs."""
    page = (ROOT / "docs/src/frameworks.md").read_text()
    sample = next(text for text in re.findall(r"```c\w*\n(.*?)```", page, re.S) if "#include <cai/tvm_ffi.h>" in text)
    (tmp_path / "sample.cpp").write_text(sample)
    (tmp_path / "libcai.so.1").symlink_to(P.LIBRARY)
    tvm = pathlib.Path(libinfo.find_libtvm_ffi())
    command = ["g++", "-std=c++17", *STRICT, *INCLUDE, "-fPIC", "-shared", tmp_path / "sample.cpp", P.LIBRARY, tvm]
    subprocess.run([str(a) for a in (*command, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "scale.so")], check=True)
    scale = tvm_ffi.load_module(str(tmp_path / "scale.so")).scale
    numbers = np.arange(6, dtype="f4")
    scale(tvm_ffi.from_dlpack(numbers))
    assert numbers.tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(ValueError, match="expected float32"):
        scale(tvm_ffi.from_dlpack(np.zeros(3)))
    with pytest.raises(ValueError, match="expected C order"):
        scale(tvm_ffi.from_dlpack(numbers[::2]))
    with pytest.raises(ValueError, match="expected one"):
        scale()
    after = page[page.index(sample) :]
    program = re.search(r"```python\n(.*?)```", after, re.S)[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == re.search(r"```text\n(.*?)```", after, re.S)[1]
