"""Headers that do not fit the memory that arrived. interop/host/test_dask.py passes whole ones between workers of Dask."""

import gc
import weakref

import cai_python as P
import numpy as np
import pytest

import libcai.dask
from libcai import _paths


@pytest.mark.parametrize(
    "header, what",
    [
        (((3,), None, b"<f4", 0, None), None),
        (((3,), (4,), b"<f4", 0, None), None),
        (((4,), None, b"<f4", 0, None), "from byte 0 to 16, expected one within the 12 bytes"),
        (((2, 2), (8, 4), b"<f4", 0, None), "from byte 0 to 16"),
        (((3,), (-4,), b"<f4", 0, None), "from byte -8 to 4"),
        (((3, 1), (4,), b"<f4", 0, None), "strides: found 1, expected 2"),
        (((1 << 62,), None, b"<f4", 0, None), "shape"),
        (((-1,), None, b"<f4", 0, None), "shape"),
        (((3,), None, b"<f5", 0, None), "typestr"),
        (((3,), None, b"|V4", 0, b"["), "text: found the end"),
    ],
)
def test_headers(monkeypatch, header, what):
    monkeypatch.setattr(_paths, "library", lambda: str(P.LIBRARY))
    memory = np.zeros(12, "u1")
    gone = weakref.ref(memory)
    if what is None:
        array = libcai.dask._deserialize(np.asarray, header, [memory])
        assert array.shape == (3,) and array.ctypes.data == memory.ctypes.data
        del array
    else:
        with pytest.raises((ValueError, TypeError, OverflowError)) as error:
            libcai.dask._deserialize(np.asarray, header, [memory])
        assert what in str(error.value)
        del error
    del memory
    gc.collect()
    assert gone() is None
