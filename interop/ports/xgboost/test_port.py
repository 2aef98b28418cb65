"""What XGBoost reads with this reader, besides its own assertions. This build of it has no CUDA, so that the arrays it reads
lie in host memory."""

import ctypes
import json

import numpy as np
import pytest
import xgboost
from xgboost import _data_utils
from xgboost.core import _LIB

MEMORY = np.arange(12, dtype="f4").reshape(3, 4)


class Exporter:
    def __init__(self, **members):
        interface = {
            "version": 3, "data": (MEMORY.ctypes.data, False), "typestr": "<f4", "shape": (3, 4), "stream": None, **members,
        }  # fmt: skip
        self.__cuda_array_interface__ = {key: value for key, value in interface.items() if value != "missing"}


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


def test_a_mask_and_its_producer():
    """The dictionary of the producer stays as it is."""
    mask = Exporter(typestr="|b1")
    masked = Exporter(mask=mask)
    for _ in range(2):
        assert json.loads(_data_utils.cuda_array_interface(masked))["mask"]["typestr"] == "|b1"
    assert masked.__cuda_array_interface__["mask"] is mask
