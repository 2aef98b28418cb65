"""What XGBoost gains with this reader, and that its text says what the producer says. For device memory, the text is what can
be tested: this build of XGBoost has no CUDA, so that the arrays it reads lie in host memory."""

import ctypes
import json
import sys

import numpy as np
import pytest
import xgboost
from xgboost import _data_utils
from xgboost.core import _LIB

cuda = ctypes.CDLL("libcuda.so.1")
MEMORY = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.fixture(scope="module", autouse=True)
def context():
    current = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(current), 0) == 0
    assert cuda.cuCtxSetCurrent(current) == 0


@pytest.fixture
def stream():
    made = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(made), 0) == 0
    yield made.value
    assert cuda.cuStreamDestroy_v2(made) == 0


@pytest.fixture
def address():
    made = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(48)) == 0
    yield made.value
    assert cuda.cuMemFree_v2(made) == 0


class Exporter:
    def __init__(self, **members):
        interface = {
            "version": 3, "data": (MEMORY.ctypes.data, False), "typestr": "<f4", "shape": (3, 4), "stream": None, **members,
        }  # fmt: skip
        self.__cuda_array_interface__ = {key: value for key, value in interface.items() if value != "missing"}


def text_of(**members):
    return json.loads(_data_utils.cuda_array_interface(Exporter(**members)))


def values_of(text):
    """What XGBoost's library reads."""
    handle, config = ctypes.c_void_p(), b'{"missing": NaN, "nthread": 1}'
    assert _LIB.XGDMatrixCreateFromDense(text, config, ctypes.byref(handle)) == 0, _LIB.XGBGetLastError()
    matrix = xgboost.DMatrix.__new__(xgboost.DMatrix)
    matrix.handle = handle
    return matrix.get_data().toarray()


def test_this_is_the_port():
    for name in ("array_interface", "array_interface_dict", "cuda_array_interface", "cuda_array_interface_dict"):
        assert getattr(_data_utils, name).__module__ == "xgboost._cai"


@pytest.mark.parametrize("which", ["none", "legacy", "per-thread", "handle"])
def test_device_memory_and_streams(address, stream, which):
    number = {"none": None, "legacy": 1, "per-thread": 2, "handle": stream}[which]
    said = text_of(data=(address, True), stream=number)
    assert said == {
        "data": [address, True], "shape": [3, 4], "strides": None, "typestr": "<f4", "version": 3, "stream": number,
    }  # fmt: skip


def test_a_column_of_a_data_frame(address):
    said = _data_utils.cuda_array_interface_dict(Exporter(data=(address, False), shape=(3,), strides=(16,)))
    assert said["shape"] == [3] and said["strides"] == [16]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"mask": None},
        {"shape": (np.int64(3), np.int64(4))},
        {"data": (np.uint64(MEMORY.ctypes.data), np.bool_(False))},
        {"owner": object()},
        {"version": "missing", "stream": "missing"},
    ],
    ids=lambda members: "-".join(members),
)
def test_what_is_read(members):
    """Each but the first ends with an exception in XGBoost's own reader, or its library."""
    assert (values_of(_data_utils.cuda_array_interface(Exporter(**members))) == MEMORY).all()


def test_other_layouts():
    transposed = _data_utils.cuda_array_interface(Exporter(shape=(4, 3), strides=(4, 16)))
    assert (values_of(transposed) == MEMORY.T).all()


def test_a_mask_and_its_producer():
    """The dictionary of the producer stays as it is."""
    mask = Exporter(typestr="|b1")
    masked = Exporter(mask=mask)
    for _ in range(2):
        assert json.loads(_data_utils.cuda_array_interface(masked))["mask"]["typestr"] == "|b1"
    assert masked.__cuda_array_interface__["mask"] is mask


@pytest.mark.parametrize(
    "members",
    [
        {"typestr": ">f4"},
        {"shape": (-3, -4)},
        {"data": (0, False)},
        {"typestr": "<i3"},
        {"typestr": "|O"},
        {"shape": (1 << 40, 1 << 40)},
        {"data": ((1 << 64) - 8, False)},
        {"stream": 0},
        {"typestr": "|V8", "shape": (2,), "descr": [("x", "<f4"), ("y", "<f4")]},
    ],
    ids=str,
)
def test_what_is_refused(members):
    with pytest.raises((BufferError, ValueError)):
        text_of(**members)


@pytest.mark.parametrize("typestr", [">f4", ">f8", ">i4"])
def test_another_byte_order_is_not_read_as_this_one(typestr):
    """XGBoost takes the bytes for numbers of the machine's order."""
    swapped = MEMORY.astype(typestr)
    with pytest.raises(BufferError, match="byte order"):
        xgboost.DMatrix(swapped)
    with pytest.raises(BufferError, match="byte order"):
        xgboost.DMatrix(MEMORY, label=swapped[:, 0])


def test_references(address):
    exporter, foreign = Exporter(data=(address, False)), Exporter(data=(address, False), typestr=">f4")
    before = sys.getrefcount(exporter), sys.getrefcount(foreign)
    for _ in range(10):
        _data_utils.cuda_array_interface(exporter)
        with pytest.raises(BufferError):
            _data_utils.cuda_array_interface(foreign)
    assert (sys.getrefcount(exporter), sys.getrefcount(foreign)) == before
