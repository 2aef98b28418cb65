"""Arrays as JSON text, read by XGBoost's C functions; and what its reader would misread, which is refused."""

import ctypes as c
import importlib.util
import json
import pathlib

import numpy as np
import pytest

import cai_ctypes as T
import cai_python as P
from cai_python import held, take

# The package's Python modules are not needed: only the library, and its C functions.
FOLDER = pathlib.Path(importlib.util.find_spec("xgboost").origin).parent
XGBOOST = c.CDLL(str(FOLDER / "lib/libxgboost.so"))
XGBOOST.XGBGetLastError.restype = c.c_char_p
CONFIG = json.dumps({"missing": float("nan"), "nthread": 1}).encode()


def text_of(taken):
    """cai_unstable_array_to_json, which is asked for the length first."""
    size, error = c.c_size_t(), T.Error()
    if held.cai_unstable_array_to_json(c.byref(taken.array), None, 0, c.byref(size), c.byref(error)):
        raise P.Refused(error.code, error.message.decode())
    text = c.create_string_buffer(size.value + 1)
    assert held.cai_unstable_array_to_json(c.byref(taken.array), text, len(text), None, None) == 0
    return text.value


def read_by_xgboost(text):
    """The values of a dense matrix, row by row, as its C functions give them back."""
    matrix = c.c_void_p()
    assert XGBOOST.XGDMatrixCreateFromDense(text, CONFIG, c.byref(matrix)) == 0, XGBOOST.XGBGetLastError()
    rows, columns = c.c_uint64(), c.c_uint64()
    assert XGBOOST.XGDMatrixNumRow(matrix, c.byref(rows)) == 0
    assert XGBOOST.XGDMatrixNumCol(matrix, c.byref(columns)) == 0
    starts = np.zeros(rows.value + 1, np.uint64)
    indices = np.zeros(rows.value * columns.value, np.uint32)
    values = np.zeros(rows.value * columns.value, np.float32)
    pointer = lambda array: array.ctypes.data_as(c.c_void_p)  # noqa: E731
    assert XGBOOST.XGDMatrixGetDataAsCSR(matrix, b"{}", pointer(starts), pointer(indices), pointer(values)) == 0
    assert XGBOOST.XGDMatrixFree(matrix) == 0
    return values.reshape(rows.value, columns.value)


WHOLE = np.arange(60).reshape(6, 10)
VIEWS = {
    "contiguous": lambda a: a, "columns": lambda a: a[:, ::3], "rows": lambda a: a[::2], "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1], "one": lambda a: a[:1, :1], "fortran": np.asfortranarray,
}  # fmt: skip
TYPES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_xgboost_reads_what_numpy_has(dtype, view):
    array = VIEWS[view](WHOLE.astype(dtype))
    with take(array, host=True) as taken:
        text = text_of(taken)
    read = json.loads(text)
    theirs = array.__array_interface__
    assert read["data"] == [theirs["data"][0], False] and tuple(read["shape"]) == array.shape
    assert read["typestr"] == theirs["typestr"] and read["version"] == 3 and "stream" not in read
    assert read["strides"] is None or tuple(read["strides"]) == array.strides
    assert np.array_equal(read_by_xgboost(text), array.astype(np.float32))


def test_a_foreign_byte_order_is_refused():
    array = WHOLE.astype(">f4")
    with take(array, host=True) as taken:
        with pytest.raises(P.Refused) as refused:
            text_of(taken)
        assert refused.value.code == P.ERRORS["CONVERT_BYTE_ORDER"]
    # XGBoost would not have noticed.
    text = json.dumps({**array.__array_interface__, "strides": None, "descr": None}).encode()
    assert not np.array_equal(read_by_xgboost(text), array.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.dtype([("x", "f4"), ("y", "i4")])])
def test_fields_are_refused(dtype):
    with take(np.zeros((2, 3), dtype), host=True) as taken, pytest.raises(P.Refused) as refused:
        text_of(taken)
    assert refused.value.code == P.ERRORS["CONVERT_TYPE"]
