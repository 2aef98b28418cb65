"""cai/torch.h: PyTorch's tensors through its stable C interface, on the processor and on the simulated device."""

import ctypes as c
import gc
import os
import pathlib
import re
import subprocess
import sys
import threading
import weakref

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))
import cai_ctypes as T  # noqa: E402
import cai_python as P  # noqa: E402
from cai_python import Taken, make  # noqa: E402

torch = pytest.importorskip("torch")
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="the replacement runtime library is not loaded")
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()
TORCH = pathlib.Path(torch.__file__).parent
ROCM = 10
STATUS = {number: name for name, number in P.ERRORS.items()}


class Library:
    def __init__(self, path):
        self.c = c.PyDLL(str(path))
        self.c.measure.restype = c.c_double
        self.error = T.Error()

    def look(self, tensor):
        out = T.new_array()
        status = self.c.from_torch(c.py_object(tensor), c.byref(out), c.byref(self.error))
        if status:
            raise BufferError(STATUS[status], self.error.field.decode(), self.error.message.decode())
        return Taken(out)

    def give(self, array, access=3):
        made = c.c_void_p()
        status = self.c.to_torch(c.byref(array.array), access, c.byref(made), c.byref(self.error))
        if status:
            raise BufferError(STATUS[status], self.error.field.decode(), self.error.message.decode())
        tensor = c.cast(made, c.py_object).value
        c.pythonapi.Py_DecRef(c.py_object(tensor))
        return tensor


def build(folder, version):
    (folder / "libcai.so.1").symlink_to(P.LIBRARY)
    include = ["-I", ROOT / "include", "-isystem", TORCH / "include"]
    made = folder / "functions.so"
    options, libraries = [], []
    if version == "2.11":
        options = ["-DTORCH_TARGET_VERSION=0x020B000000000000", "-DUSE_CUDA", "-DPYTHON_BY_HAND"]
        libraries = ["-ltorch_cuda"]
    if version == "rocm":
        options = ["-DUSE_ROCM"]
    command = ["g++", "-std=c++17", "-O1", *STRICT, *options, "-fPIC", "-shared", *include,
               ROOT / "interop/frameworks/torch_abi.cpp", P.LIBRARY, f"-Wl,-rpath,{folder}:{TORCH / 'lib'}", "-o", made,
               "-L", TORCH / "lib", "-ltorch_cpu", *libraries, "-Wl,--allow-shlib-undefined"]  # fmt: skip
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([str(a) for a in command], check=True, env=plain)
    return Library(made)


@pytest.fixture(scope="module")
def newest(tmp_path_factory):
    return build(tmp_path_factory.mktemp("torch"), "2.15")


@pytest.fixture(scope="module", params=["2.11", "2.15"])
def library(request, newest, tmp_path_factory):
    """For the oldest release that the header takes, as far as its Python functions allow, and for this one."""
    return newest if request.param == "2.15" else build(tmp_path_factory.mktemp("torch"), request.param)


@pytest.fixture(scope="module")
def rocm(tmp_path_factory):
    """As for a PyTorch of ROCm: its streams are HIP's, for which those of the simulated driver stand."""
    folder = tmp_path_factory.mktemp("rocm")
    driver = re.search(r"/\S*/libcuda\.so\S*", pathlib.Path("/proc/self/maps").read_text())[0]
    command = ["gcc", "-std=gnu11", "-w", "-shared", "-fPIC", "-DHIP", ROOT / "capi-tests/sync/shim.c",
               ROOT / "capi-tests/sync/hip_on_cuda.c", "-isystem", TORCH.parent / "nvidia/cu13/include", "-o", folder / "libhip.so",
               driver, "-ldl"]  # fmt: skip
    subprocess.run([str(a) for a in command], check=True)
    os.environ["CAI_HIP_DRIVER"] = str(folder / "libhip.so")
    yield build(folder, "rocm")
    del os.environ["CAI_HIP_DRIVER"]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=cuda)])
def device(request):
    yield request.param
    if request.param == "cuda":
        torch.cuda.synchronize()


def refused(function, *arguments):
    with pytest.raises(BufferError) as raised:
        function(*arguments)
    return raised.value.args[:2]


LAYOUTS = {
    "whole": lambda t: t, "step": lambda t: t[:, ::2], "part": lambda t: t[1:, 1:], "one": lambda t: t[1, 2],
    "none": lambda t: t[:0], "column": lambda t: t[:, 1], "transposed": lambda t: t.t(), "more": lambda t: t[None, :, None],
    "expanded": lambda t: t[:, :1].expand(3, 5),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(library, device, layout):
    tensor = LAYOUTS[layout](torch.zeros(3, 4, device=device))
    with library.look(tensor) as taken:
        assert taken.shape == tuple(tensor.shape) and taken.typestr == "<f4" and not taken.readonly
        assert taken.data == (tensor.data_ptr() if tensor.numel() else 0)
        assert taken.strides == (tuple(4 * step for step in tensor.stride()) or None)
        assert taken.device == ((P.CPU, 0) if device == "cpu" else (P.CUDA, 0))
        assert taken.stream == (None if device == "cpu" else P.STREAM_LEGACY)
        back = library.give(taken)
    assert type(back) is torch.Tensor and back.shape == tensor.shape and back.dtype == tensor.dtype
    assert back.device == tensor.device
    if tensor.numel():
        assert back.data_ptr() == tensor.data_ptr()
        assert all(a == b for a, b, n in zip(back.stride(), tensor.stride(), tensor.shape) if n > 1)


TYPES = [
    ("float32", "<f4", 0), ("float64", "<f8", 0), ("float16", "<f2", 0), ("int8", "|i1", 0), ("uint8", "|u1", 0),
    ("int16", "<i2", 0), ("uint16", "<u2", 0), ("int32", "<i4", 0), ("uint32", "<u4", 0), ("int64", "<i8", 0),
    ("uint64", "<u8", 0), ("bool", "|b1", 0), ("complex32", "<c4", 0), ("complex64", "<c8", 0), ("complex128", "<c16", 0),
    ("bfloat16", "<V2", 4), ("float8_e4m3fn", "<V1", 10), ("float8_e4m3fnuz", "<V1", 11), ("float8_e5m2", "<V1", 12),
    ("float8_e5m2fnuz", "<V1", 13), ("float8_e8m0fnu", "<V1", 14), ("float4_e2m1fn_x2", "<V1", 260),
]  # fmt: skip


@pytest.mark.parametrize("dtype, typestr, code", TYPES, ids=[row[0] for row in TYPES])
def test_types(library, dtype, typestr, code):
    tensor = torch.zeros(16, dtype=torch.uint8).view(getattr(torch, dtype))
    with library.look(tensor) as taken:
        assert (taken.typestr, taken.dtype_code) == (typestr, code)
        back = library.give(taken)
    assert back.dtype == tensor.dtype and back.shape == tensor.shape and back.data_ptr() == tensor.data_ptr()


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


def test_arrays_that_are_refused(library):
    memory = torch.zeros(3, 4)

    def give(access=1, shape=(3, 4), dtype="<f4", device=(P.CPU, 0), **options):
        with make(shape, dtype, memory.data_ptr(), device=device, **options) as array:
            result = refused(library.give, array, access)
        assert array.counted.gone == 1
        return result

    assert give(dtype=">f4") == ("CONVERT_BYTE_ORDER", "typestr")
    assert give(dtype="|V4") == ("CONVERT_TYPE", "typestr")
    assert give(dtype="<M8[s]", shape=(3, 2)) == ("CONVERT_TYPE", "typestr")
    assert give(dtype="|S4") == ("CONVERT_TYPE", "typestr")
    assert give(strides=(6, 4)) == ("CONVERT_STRIDES", "strides")
    assert give(strides=(16, -4)) == ("CONVERT_STRIDES", "strides")
    assert give(access=2, readonly=True)[0] == "READONLY"
    assert give(access=0)[0] == "ARGUMENT"
    assert give(device=(P.ONEAPI, 0)) == ("CONVERT_DEVICE", "device.type")
    assert give(device=(P.CUDA_HOST, 0)) == ("CONVERT_DEVICE", "device.type")
    mask = make((3, 4), "|b1", memory.data_ptr(), device=(P.CPU, 0))
    assert give(mask=mask) == ("CONVERT_MASK", "mask")
    mask.release()


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


@cuda
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


def test_the_tensor_keeps_the_array(library):
    memory = torch.arange(6)
    with make((6,), "<i8", memory.data_ptr(), device=(P.CPU, 0)) as array:
        tensor = library.give(array)
    part = tensor[2:4]
    del tensor
    gc.collect()
    assert array.counted.gone == 0 and part.tolist() == [2, 3]
    del part
    gc.collect()
    assert array.counted.gone == 1


def test_read_only_arrays_may_be_read(library):
    memory = torch.arange(6)
    with make((6,), "<i8", memory.data_ptr(), device=(P.CPU, 0), readonly=True) as array:
        assert library.give(array, 1).tolist() == memory.tolist()
    gc.collect()
    assert array.counted.gone == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_arrays_without_elements(library, device, shape):
    """PyTorch calls no deleter for memory at NULL."""
    where = {"device": (P.CPU, 0)} if device == "cpu" else {"device": (P.CUDA, 0), "stream": P.STREAM_LEGACY}
    with make(shape, "<f4", **where) as array:
        tensor = library.give(array)
    assert tensor.shape == shape and tensor.device.type == device
    del tensor
    gc.collect()
    assert array.counted.gone == 1


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


@cuda
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


@cuda
@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are two devices")
def test_two_devices():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::test_with_two_devices"]
    done = subprocess.run(command, env={**os.environ, "CUDASIM_DEVICES": "2"}, capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@cuda
def test_the_stream_is_the_current_one(library):
    tensor, stream, found = torch.zeros(4, device="cuda"), torch.cuda.Stream(), c.c_uint64()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        library.look(tensor).release()
        assert library.look(tensor).stream == stream.cuda_stream
        assert library.c.stream_of(0, c.byref(found)) == 0 and found.value == stream.cuda_stream
    assert library.look(tensor).stream == P.STREAM_LEGACY


@cuda
def test_a_build_for_rocm(rocm, newest):
    tensor = torch.zeros(3, 4, device="cuda")
    with rocm.look(tensor) as taken:
        assert taken.device == (ROCM, 0) and taken.stream == P.STREAM_LEGACY
        assert rocm.give(taken).data_ptr() == tensor.data_ptr()
        assert refused(newest.give, taken) == ("CONVERT_DEVICE", "device.type")
    with newest.look(tensor) as taken:
        assert refused(rocm.give, taken) == ("CONVERT_DEVICE", "device.type")


@cuda
def test_a_device_that_is_not_known(library):
    tensor = torch.zeros(4, device="cuda")
    with make((4,), "<f4", tensor.data_ptr(), device=(P.UNKNOWN, 0)) as array:
        assert library.give(array).device == tensor.device
    with make((0,), "<f4", device=(P.UNKNOWN, 0)) as array:
        assert library.give(array).device == tensor.device


@cuda
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("device", [P.CUDA, ROCM])
def test_order(request, simulator, device, ends):
    """The tensor's stream waits for the array's, the memory is kept while it works, and the array's then waits for it."""
    library = request.getfixturevalue("rocm" if device == ROCM else "newest")
    memory, read = torch.empty(1024, device="cuda"), torch.empty(1024, device="cuda")
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        memory.zero_()
    with make((1024,), "<f4", memory.data_ptr(), stream=first.cuda_stream, device=(device, 0)) as array:
        with torch.cuda.stream(second):
            tensor = library.give(array)
            read.copy_(tensor)
            if ends:
                tensor = None  # otherwise its release, which waits for the work, may order the streams
                error = T.Error()
                assert P.held.cai_array_consume_end(c.byref(array.array), second.cuda_stream, 3, c.byref(error)) == 0
    with torch.cuda.stream(first):
        memory.zero_()
    torch.cuda.synchronize()
    del tensor
    P.soon(lambda: array.counted.gone == 1)
    assert array.counted.gone == 1
    assert (simulator.take_report()[0] > 0) == (not ends)


def sample():
    page = (ROOT / "docs/src/frameworks.md").read_text()
    return next(text for text in re.findall(r"```c\w*\n(.*?)```", page, re.S) if "#include <cai/torch.h>" in text)


def test_page(tmp_path):
    """The program on the page about frameworks is an operator of PyTorch."""
    (tmp_path / "sample.cpp").write_text(sample())
    (tmp_path / "libcai.so.1").symlink_to(P.LIBRARY)
    driver = re.search(r"/\S*/libcuda\.so\S*", pathlib.Path("/proc/self/maps").read_text())[0]
    include = ["-I", ROOT / "include", "-isystem", TORCH / "include", "-isystem", TORCH.parent / "nvidia/cu13/include"]
    command = ["g++", "-std=c++17", *STRICT, *include, "-fPIC", "-shared", tmp_path / "sample.cpp", P.LIBRARY, driver, "-L", TORCH / "lib",
               "-ltorch_cpu", "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "sample.so"]  # fmt: skip
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([str(a) for a in command], check=True, env=plain)
    torch.ops.load_library(str(tmp_path / "sample.so"))
    with pytest.raises(RuntimeError, match="expected a CUDA tensor"):
        torch.ops.mine.fill(torch.zeros(2, 3), 1)
    if not torch.cuda.is_available():
        return
    tensor = torch.empty(4, 6, device="cuda").copy_(torch.ones(4, 6))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.ops.mine.fill(tensor[::2, 1:4], 0)
        found = tensor.cpu()
    expected = torch.ones(4, 6)
    expected[::2, 1:4] = 0
    assert torch.equal(found, expected)
    torch.ops.mine.fill(tensor[:, :0], 0)
    with pytest.raises(RuntimeError, match="expected rows without gaps"):
        torch.ops.mine.fill(tensor[:, ::2], 0)
