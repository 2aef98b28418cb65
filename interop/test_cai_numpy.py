"""NumPy and the library, in host memory: in by four protocols, out by three, and back."""

import gc
import pathlib
import sys
import weakref

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))
import cai_python as P  # noqa: E402
from cai_python import give, make, take  # noqa: E402

WAYS = [[], [P.DLPACK], [P.ARRAY_STRUCT], [P.ARRAY_INTERFACE]]


@pytest.mark.parametrize("protocols", WAYS)
@pytest.mark.parametrize("index", [np.s_[:], np.s_[::2, 1:], np.s_[::-1], np.s_[1], np.s_[:0], np.s_[1, 2]])
def test_there_and_back(index, protocols):
    array = np.arange(12, dtype="i4").reshape(3, 4)[index] if index != np.s_[1, 2] else np.array(7, "i4")
    with take(array, host=True, protocols=protocols) as taken:
        assert taken.shape == array.shape and taken.device == (P.CPU, 0) and taken.stream is None
        obj = give(taken)
    for back in (np.asarray(obj), np.from_dlpack(obj)):
        assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all()
        assert not array.size or back.ctypes.data == array.ctypes.data
    if array.size and array.ndim:
        np.asarray(obj)[...] = 5
        assert (array == 5).all()


def test_object_dropped_first():
    class Mine(np.ndarray):
        pass

    array = np.arange(1000.0).view(Mine)
    alive = weakref.ref(array)
    taken = take(array, host=True)
    obj = give(taken)
    view = np.asarray(obj)
    del array, obj
    taken.release()
    gc.collect()
    assert alive() is not None and view[999] == 999
    del view
    gc.collect()
    assert alive() is None


def test_readonly():
    array = np.arange(12.0)
    array.flags.writeable = False
    for protocols in WAYS:
        with take(array, host=True, protocols=protocols) as taken:
            obj = give(taken)
            assert taken.readonly and not np.asarray(obj).flags.writeable and not np.from_dlpack(obj).flags.writeable


def test_numpy_does_not_take_device_memory():
    with make() as array:
        with pytest.raises((TypeError, ValueError, RuntimeError, BufferError)):
            np.from_dlpack(give(array))
        with pytest.raises(TypeError, match="expected host memory: copy it"):
            np.asarray(give(array))
