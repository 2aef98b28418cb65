"""PyTorch's tensors through DLPack: every type that it exports, on the host and on the device, in and out again."""

import ctypes as c
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))
import cai_ctypes as T  # noqa: E402

torch = pytest.importorskip("torch")
cai = T.declare(c.CDLL(str(ROOT / "target/release/libcai.so")))

get_pointer, set_name, new = c.pythonapi.PyCapsule_GetPointer, c.pythonapi.PyCapsule_SetName, c.pythonapi.PyCapsule_New
get_pointer.argtypes, get_pointer.restype = [c.py_object, c.c_char_p], c.c_void_p
set_name.argtypes = [c.py_object, c.c_char_p]
new.argtypes, new.restype = [c.c_void_p, c.c_char_p, c.c_void_p], c.py_object
FRESH, USED = b"dltensor_versioned", b"used_dltensor_versioned"
LEGACY = 1

# PyTorch's name, and ours.
TYPES = {
    "bool": (b"|b1", 0),
    "int8": (b"|i1", 0),
    "uint16": (b"<u2", 0),
    "int64": (b"<i8", 0),
    "float16": (b"<f2", 0),
    "float32": (b"<f4", 0),
    "float64": (b"<f8", 0),
    "complex32": (b"<c4", 0),
    "complex128": (b"<c16", 0),
    "bfloat16": (b"<V2", 4),
    "float8_e4m3fn": (b"<V1", 10),
    "float8_e4m3fnuz": (b"<V1", 11),
    "float8_e5m2": (b"<V1", 12),
    "float8_e5m2fnuz": (b"<V1", 13),
    "float8_e8m0fnu": (b"<V1", 14),
    "float4_e2m1fn_x2": (b"<V1", 260),
}


def taken(tensor, stream):
    on_device = {"stream": stream} if tensor.is_cuda else {}
    capsule = tensor.__dlpack__(max_version=(1, 0), **on_device)
    array, error = T.new_array(), T.Error()
    assert cai.cai_array_from_dlpack(get_pointer(capsule, FRESH), stream, array, error) == 0, error.message
    set_name(capsule, USED)
    return array


def given(array):
    tensor, error = c.c_void_p(), T.Error()
    assert cai.cai_array_to_dlpack(array, 0, tensor, error) == 0, error.message
    return torch.utils.dlpack.from_dlpack(new(tensor, FRESH, None))


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", TYPES)
def test_there_and_back(name, device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("the replacement runtime library is not loaded")
    dtype = getattr(torch, name)
    whole = torch.zeros(6 * 4 * dtype.itemsize, dtype=torch.uint8).to(device).view(dtype).reshape(6, 4)
    for source in (whole, whole.t(), whole[1::2, 1:], whole[2:3], whole[3:3], whole[0, 0], whole[:1].expand(3, 4)):
        array = taken(source, LEGACY)
        assert (array.typestr, array.dtype_code) == TYPES[name]
        assert (array.data or 0) == (source.data_ptr() if source.numel() else 0)
        assert (array.device.type, array.device.id) == ((2, 0) if device == "cuda" else (1, 0))
        assert array.stream == (LEGACY if device == "cuda" else T.STREAM_NONE)
        assert tuple(array.shape[: array.ndim]) == source.shape
        back = given(array)
        cai.cai_array_release(array)
        assert back.dtype == source.dtype and back.shape == source.shape and back.device == source.device
        if source.numel():
            assert back.data_ptr() == source.data_ptr()
            pairs = zip(source.shape, back.stride(), source.stride())
            assert all(ours == theirs for extent, ours, theirs in pairs if extent > 1)


def test_memory_is_shared_and_kept():
    source = torch.zeros(5)
    array = taken(source, LEGACY)
    back = given(array)
    cai.cai_array_release(array)
    back[2] = 7
    assert source[2] == 7
    del source
    assert back.tolist() == [0, 0, 7, 0, 0]
