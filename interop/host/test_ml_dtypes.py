"""NumPy arrays of ml_dtypes' types. Their texts say how large they are, rarely what they are; the options do."""

import ml_dtypes
import numpy as np
import pytest

import cai_python as P
from cai_python import give, take

TYPES = [
    (ml_dtypes.bfloat16, "<V2", 4), (ml_dtypes.float8_e5m2, "<f1", 12), (ml_dtypes.float8_e4m3fn, "<V1", 10),
    (ml_dtypes.float8_e4m3, "<V1", 8), (ml_dtypes.float8_e3m4, "<V1", 7), (ml_dtypes.float8_e4m3fnuz, "<V1", 11),
    (ml_dtypes.float8_e4m3b11fnuz, "<V1", 9), (ml_dtypes.float8_e5m2fnuz, "<V1", 13), (ml_dtypes.float8_e8m0fnu, "<V1", 14),
    (ml_dtypes.int4, "<V1", 256), (ml_dtypes.uint4, "<V1", 257), (ml_dtypes.int2, "<V1", 258), (ml_dtypes.uint2, "<V1", 259),
    (ml_dtypes.float4_e2m1fn, "<V1", 17), (ml_dtypes.float6_e2m3fn, "<V1", 15), (ml_dtypes.float6_e3m2fn, "<V1", 16),
]  # fmt: skip


@pytest.mark.parametrize("kind, typestr, code", TYPES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_types(kind, typestr, code):
    array = np.zeros(6, kind)
    assert array.dtype.str == typestr
    meant = {"opaque_16bit" if array.dtype.itemsize == 2 else "opaque_8bit": code}
    with take(array, host=True, protocols=[P.ARRAY_INTERFACE]) as taken:
        assert taken.typestr == typestr and taken.dtype_code == 0
    with take(array, host=True, protocols=[P.ARRAY_INTERFACE], **meant) as taken:
        assert taken.typestr == typestr and taken.dtype_code == code
        with take(give(taken), host=True) as again:
            assert again.dtype_code == code
        if typestr == "<f1":
            # NumPy writes this for the type, and does not read it.
            with pytest.raises(TypeError):
                np.dtype("<f1")
            return
        back = np.asarray(give(taken))
        assert back.ctypes.data == array.ctypes.data and back.dtype.itemsize == array.dtype.itemsize
        assert (back.view(kind) == array).all()


def test_dlpack_is_refused_by_ml_dtypes():
    array = np.zeros(6, ml_dtypes.bfloat16)
    with pytest.raises(BufferError):
        array.__dlpack__()


def test_demanded():
    array = np.zeros(6, ml_dtypes.bfloat16)
    options = dict(host=True, protocols=[P.ARRAY_INTERFACE], typestr="<V2", dtype_code=P.BFLOAT16)
    take(array, opaque_16bit=P.BFLOAT16, **options).release()
    with pytest.raises(BufferError):
        take(array, **options)
