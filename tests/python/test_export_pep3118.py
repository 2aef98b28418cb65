"""The buffer protocol of exported arrays in host memory, and of views."""

import ctypes as c
import gc
import itertools
import sys

import cai_python as P
import numpy as np
import pytest
from cai_python import give, make, take
from test_import_pep3118 import SWAPPED
from test_view import view

GET, RELEASE = c.pythonapi.PyObject_GetBuffer, c.pythonapi.PyBuffer_Release


class View(c.Structure):
    _fields_ = [
        ("buf", c.c_void_p), ("obj", c.c_void_p), ("len", c.c_ssize_t), ("itemsize", c.c_ssize_t), ("readonly", c.c_int),
        ("ndim", c.c_int), ("format", c.c_char_p), ("shape", c.POINTER(c.c_ssize_t)), ("strides", c.POINTER(c.c_ssize_t)),
        ("suboffsets", c.c_void_p), ("internal", c.c_void_p),
    ]  # fmt: skip


GET.argtypes, RELEASE.argtypes = [c.py_object, c.POINTER(View), c.c_int], [c.POINTER(View)]
WRITABLE, FORMAT, ND, STRIDES, C, F, ANY, INDIRECT = 1, 4, 8, 0x18, 0x38, 0x58, 0x98, 0x118


def exported(array):
    """An object of the library for an array of NumPy."""
    with take(array, host=True) as taken:
        return give(taken)


def host(typestr="<f4", **others):
    return make(typestr=typestr, device=(P.CPU, 0), **others)


# Every type of NumPy that a format names, in both orders.
TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S1", "S5", "U1", "U12"]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", TYPES)
def test_formats(kind, order):
    """NumPy and the import read the format as the same type."""
    array = np.zeros((2, 3), np.dtype(kind).newbyteorder(order))
    array.view("u1")[...] = np.arange(array.nbytes, dtype="u1").reshape(2, -1) % 2
    obj = exported(array)
    lent = memoryview(obj)
    assert (lent.shape, lent.strides, lent.readonly, lent.itemsize) == (array.shape, array.strides, False, array.itemsize)
    assert lent.obj is obj and lent.nbytes == array.nbytes and lent.tobytes() == array.tobytes()
    again = np.asarray(lent)
    assert again.dtype == array.dtype and again.tobytes() == array.tobytes()
    assert again.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    with take(lent, host=True, protocols=[P.PEP3118]) as taken:
        assert taken.typestr == array.dtype.str


def test_long_doubles():
    array = np.zeros(2, "g")
    assert memoryview(exported(array)).format == memoryview(array).format == "g"


@pytest.mark.parametrize(
    "typestr, more",
    [("<M8[s]", {}), ("<m8", {}), ("|V8", {}), ("|O", {}), ("|t8", {}), ("|t1", {}), (SWAPPED + "f16", {}),
     ("<V2", dict(dtype_code=P.BFLOAT16))],
)  # fmt: skip
def test_types_without_a_format(typestr, more):
    with host(typestr, shape=(8,), **more) as array:
        obj = give(array)
    with pytest.raises(BufferError, match="Py_buffer.format: found a type that no format names"):
        memoryview(obj)
    view = View()
    if typestr == "|t1":
        with pytest.raises(BufferError, match="Py_buffer.format"):
            GET(obj, view, 0)
    else:
        GET(obj, view, STRIDES)
        assert view.format is None and view.len == 8 * view.itemsize
        RELEASE(view)


def test_arrays_that_are_not_lent():
    for device in ((P.CUDA, 0), (P.CUDA_HOST, 0), (P.UNKNOWN, 0), (P.OPENCL, -1)):
        with make(device=device) as array:
            obj = give(array)
        with pytest.raises(BufferError, match="Py_buffer: found an array on device"):
            memoryview(obj)
    with host(mask=host("|b1")) as array:
        obj = give(array)
    with pytest.raises(BufferError, match="Py_buffer: found an array with a mask"):
        memoryview(obj)


BASE = np.arange(24, dtype="i4").reshape(2, 3, 4)
ARRAYS = {
    "C": BASE,
    "F": np.asfortranarray(BASE),
    "gaps": BASE[:, ::2],
    "reversed": BASE[::-1],
    "broadcast": np.broadcast_to(BASE[:1], (2, 3, 4)),
    "one": BASE[:1, :1, :1],
    "none": np.array(5, "i4"),
    "empty": BASE[:, :0],
    "row": BASE[0, 0],
}


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
def test_what_a_consumer_asks_for(name, readonly):
    """For every request, NumPy's own array lends the same, or refuses as well."""
    array = ARRAYS[name].view() if name == "broadcast" else ARRAYS[name].copy("K") if name in "CF" else ARRAYS[name]
    array = array.view()
    array.flags.writeable = not readonly and name != "broadcast"
    obj = exported(array)
    count = sys.getrefcount(obj)
    for layout, writable, format in itertools.product((0, ND, STRIDES, C, F, ANY, INDIRECT), (0, WRITABLE), (0, FORMAT)):
        flags = layout | writable | format
        if format and not layout:
            with pytest.raises(BufferError, match="PyBUF_FORMAT without PyBUF_ND|read-only|another order"):
                GET(obj, View(), flags)
            continue
        expected, found = View(), View()
        try:
            GET(array, expected, flags)
        except (BufferError, ValueError):
            with pytest.raises(BufferError, match="Py_buffer"):
                GET(obj, found, flags)
            assert not found.obj
            continue
        GET(obj, found, flags)
        assert (found.len, found.itemsize, found.readonly) == (expected.len, expected.itemsize, expected.readonly)
        assert found.buf == expected.buf if array.size else found.buf
        assert found.obj == id(obj) and found.suboffsets is None
        assert (found.format, bool(format)) == (b"i" if format else None, bool(expected.format))
        ndim = array.ndim
        assert found.ndim == (ndim if layout else 1)
        assert bool(found.shape) == (layout != 0 and ndim > 0) and bool(found.strides) == (layout > ND and ndim > 0)
        if found.shape:
            assert tuple(found.shape[:ndim]) == array.shape
        if found.strides and array.size:
            steps = [(step, own) for step, own, extent in zip(found.strides[:ndim], array.strides, array.shape) if extent > 1]
            assert all(step == own for step, own in steps)
        RELEASE(expected)
        RELEASE(found)
    assert sys.getrefcount(obj) == count


def test_read_only_arrays():
    for readonly, hidden in itertools.product((False, True), repeat=2):
        array = host(readonly=readonly, data=c.addressof(c.create_string_buffer(64)))
        obj = give(array, hide_readonly=hidden)
        array.release()
        assert memoryview(obj).readonly == (readonly and not hidden)


def test_the_consumer_keeps_the_array():
    array = host()
    obj = give(array)
    array.release()
    lent = memoryview(obj)
    part = lent[1:]
    del obj, lent
    gc.collect()
    assert array.counted.gone == 0
    part.release()
    del part
    gc.collect()
    assert array.counted.gone == 1


def test_numpy_falls_back():
    """What the buffer protocol cannot have, the dictionary describes."""
    array = np.zeros(3, "M8[s]")
    assert np.asarray(exported(array)).dtype == array.dtype
    pairs = np.zeros(3, [("a", "i4"), ("b", "f4")])
    assert np.asarray(exported(pairs)).dtype == pairs.dtype
    with pytest.raises(BufferError, match="no format names"):
        memoryview(exported(pairs))


def test_views():
    """A view lends through the object that offers its array, which keeps the memory after the release."""
    for lender in (bytearray(b"abcdef"), np.arange(6.0).reshape(2, 3)):
        with view(lender) as seen:
            lent = memoryview(seen)
            own = memoryview(lender)
            assert lent == own and lent.shape == own.shape and lent.readonly is False
            assert type(lent.obj).__name__ == "Array"
        assert lent == own
        with pytest.raises(ValueError, match="released"):
            memoryview(seen)
        lent.release()
        own.release()
    with view(b"abc") as seen:
        with pytest.raises(BufferError, match="Py_buffer.readonly"):
            GET(seen, View(), WRITABLE)
    lender = bytearray(b"abc")
    seen = view(lender)
    lent = memoryview(seen)
    seen.release()
    with pytest.raises(BufferError):
        lender.append(1)
    lent.release()
    del lent, seen
    gc.collect()
    lender.append(1)
