"""The buffer protocol of PEP 3118: formats, real objects, and how long they lend their memory."""

import array
import ctypes as c
import mmap
import sys

import cai_python as P
import numpy as np
import pytest
from cai_python import take
from importing import ADDRESS, refused
from lending import Lender

ONLY = dict(host=True, protocols=[P.PEP3118])
NATIVE, SWAPPED = "<>" if sys.byteorder == "little" else "><"
LONG, SIZE = c.sizeof(c.c_long), c.sizeof(c.c_ssize_t)
# Formats of both kinds of sizes, and what follows the byte order of the typestr.
COMMON = {
    b"h": "i2", b"H": "u2", b"i": "i4", b"I": "u4", b"q": "i8", b"Q": "u8", b"e": "f2", b"f": "f4", b"d": "f8", b"Zf": "c8",
    b"Zd": "c16", b"w": "U1", b"3w": "U3",
}  # fmt: skip
OF_BYTES = {b"?": "|b1", b"b": "|i1", b"B": "|u1", b"c": "|S1", b"s": "|S1", b"5s": "|S5"}
FORMATS = {
    **{prefix + item: NATIVE + kind for prefix in (b"", b"@", b"^", b"=") for item, kind in COMMON.items()},
    **{prefix + item: order + kind for prefix, order in zip((b"<", b">", b"!"), "<>>") for item, kind in COMMON.items()},
    **{prefix + item: kind for prefix in (b"", b"@", b"=", b"<", b">", b"!") for item, kind in OF_BYTES.items()},
    b"l": f"{NATIVE}i{LONG}", b"@L": f"{NATIVE}u{LONG}", b"<l": "<i4", b">L": ">u4", b"=l": f"{NATIVE}i4",
    b"n": f"{NATIVE}i{SIZE}", b"@N": f"{NATIVE}u{SIZE}", b"g": f"{NATIVE}f16", b"Zg": f"{NATIVE}c32",
}  # fmt: skip


@pytest.mark.parametrize("format", FORMATS, ids=bytes.decode)
def test_formats(format):
    typestr = FORMATS[format]
    lender = Lender(ADDRESS, format, np.dtype(typestr).itemsize, shape=(3,))
    with take(lender, **ONLY) as taken:
        assert (taken.typestr, taken.shape, taken.strides, taken.data) == (typestr, (3,), None, ADDRESS)
        assert lender.lent == 1
    assert lender.lent == 0


@pytest.mark.parametrize("format", [b"", b"@", b"x", b"7x", b"T{i:a:}", b"O", b"P", b"p", b"3f", b"(2,2)f", b"ff", b"<n", b"=N",
                                    b"Z", b"Zi", b"+5s", b"-5s", b"5000000000s", b"u", b"<\xff", b" f", b"&<f"])  # fmt: skip
def test_formats_that_are_refused(format):
    lender = Lender(ADDRESS, format, 4)
    refused(lender, BufferError, "Py_buffer.format", "CONVERT_TYPE", **ONLY)
    assert lender.lent == 0


@pytest.mark.parametrize(
    "given, kind, path, status",
    [
        (dict(format=b"d", itemsize=4), ValueError, "Py_buffer.itemsize: found 4, expected the size of the format 'd'", "VALUE"),
        (dict(format=None, itemsize=4), ValueError, "Py_buffer.itemsize", "VALUE"),
        (dict(itemsize=-1), ValueError, "Py_buffer.itemsize", "VALUE"),
        (dict(format=b"g", itemsize=3), ValueError, "Py_buffer.typestr", "TYPESTR_SIZE"),
        (dict(ndim=-1), ValueError, "Py_buffer.ndim", "NDIM"),
        (dict(ndim=65, shape=(1,) * 65), ValueError, "Py_buffer.ndim", "NDIM"),
        (dict(shape=None), ValueError, "Py_buffer.shape", "SHAPE_NULL"),
        (dict(shape=(-1,)), ValueError, "Py_buffer.shape[0]", "SHAPE_NEGATIVE"),
        (dict(address=0), ValueError, "Py_buffer.data", "DATA_NULL"),
        (dict(suboffsets=(0,)), BufferError, "Py_buffer.suboffsets", "CONVERT_STRIDES"),
    ],
)  # fmt: skip
def test_views_that_are_refused(given, kind, path, status):
    lender = Lender(**{"address": ADDRESS, **given})
    count = sys.getrefcount(lender)
    refused(lender, kind, path, status, **ONLY)
    assert lender.lent == 0 and sys.getrefcount(lender) == count


class Pair(c.Structure):
    _fields_ = [("a", c.c_int), ("b", c.c_float)]


# What lends memory, and the shape, strides, typestr and flag that are expected.
OBJECTS = {
    "bytes": (lambda: b"abc", (3,), (1,), "|u1", True),
    "empty": (lambda: b"", (0,), (1,), "|u1", True),
    "bytearray": (lambda: bytearray(b"abc"), (3,), (1,), "|u1", False),
    "mmap": (lambda: mmap.mmap(-1, 10), (10,), (1,), "|u1", False),
    "array": (lambda: array.array("d", [1, 2]), (2,), (8,), NATIVE + "f8", False),
    "memoryview": (lambda: memoryview(b"abcdefgh")[::-3], (3,), (-3,), "|u1", True),
    "cast": (lambda: memoryview(bytearray(24)).cast("i", (2, 3)), (2, 3), (12, 4), NATIVE + "i4", False),
    "scalar": (lambda: memoryview(bytearray(8)).cast("d", ()), (), None, NATIVE + "f8", False),
    "ctypes": (lambda: (c.c_short * 3 * 2)(), (2, 3), None, NATIVE + "i2", False),
    "numpy": (lambda: np.zeros((3, 4), SWAPPED + "f4")[::2, ::-1], (2, 4), (32, -4), SWAPPED + "f4", False),
}


@pytest.mark.parametrize("protocols", [[], [P.PEP3118]], ids=["any", "only"])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name, protocols):
    make, *expected = OBJECTS[name]
    obj = make()
    count = sys.getrefcount(obj)
    with take(obj, host=True, protocols=protocols) as taken:
        strides = taken.strides if expected[1] else None
        assert [taken.shape, strides, taken.typestr, taken.readonly] == expected
        assert taken.device == (P.CPU, 0) and taken.stream is None
        assert taken.data == (np.asarray(memoryview(obj)).__array_interface__["data"][0] if 0 not in taken.shape else 0)
    assert sys.getrefcount(obj) == count


def test_what_other_protocols_have_to_take():
    """A type that the format cannot name, and memory that is not lent."""
    pairs = np.zeros(3, [("a", "i4"), ("b", "f4")])
    with take(pairs, host=True, protocols=[P.PEP3118, P.ARRAY_INTERFACE]) as taken:
        assert taken.descr is not None
    refused((Pair * 2)(), BufferError, "Py_buffer.format", "CONVERT_TYPE", host=True)
    refused(object(), TypeError, "object is not an array. It has none of Py_buffer", "NO_PROTOCOL", **ONLY)


def test_without_host_memory():
    """Only where the protocol is asked for: an object that lends bytes is rarely meant for an array."""
    refused(b"abc", BufferError, status="HOST_MEMORY", protocols=[P.PEP3118])
    refused(b"abc", TypeError, status="NO_PROTOCOL")


def test_requests_that_raise():
    released = memoryview(b"abc")
    released.release()
    for options in (ONLY, dict(host=True)):
        with pytest.raises(ValueError, match="released memoryview"):
            take(released, **options)
    assert take.error.code == P.ERRORS["PYTHON_EXCEPTION"]


def test_requests_that_raise_buffer_error():
    """Another protocol may take the object; otherwise the exception is the failure."""
    test = pytest.importorskip("_testbuffer")
    fails = test.ndarray([1, 2], shape=[2], format="i", flags=test.ND_GETBUF_FAIL)
    for protocols in ([P.PEP3118], [P.PEP3118, P.ARRAY_INTERFACE], []):
        with pytest.raises(BufferError, match="forced test exception"):
            take(fails, host=True, protocols=protocols)
    rows = test.ndarray(list(range(6)), shape=[2, 3], format="i", flags=test.ND_PIL)
    refused(rows, BufferError, "Py_buffer.suboffsets", "CONVERT_STRIDES", **ONLY)


def test_lifetime():
    """The memory stays where it is until the last reference is released, with the interpreter's lock or without it."""

    def is_lent(lender):
        try:
            lender.append(0)
        except BufferError:
            return True
        lender.pop()
        return False

    for library in (P.held, P.free):
        lender = bytearray(b"abc")
        count = sys.getrefcount(lender)
        taken = take(lender, **ONLY)
        again = taken.share()
        taken.release()
        assert is_lent(lender) and sys.getrefcount(lender) == count + 1
        again.release(library)
        assert P.soon(lambda: not is_lent(lender), 5)
        assert sys.getrefcount(lender) == count


def device_array(address=0x7F0000000000):
    """The dictionary of an array in device memory."""
    return dict(shape=(3,), typestr="<f4", data=(address, False), version=3, strides=None, stream=None)


class Slotless(bytearray):
    __slots__ = ()


class WithDict(bytearray):
    pass


class WithHook(bytearray):
    __slots__ = ()

    def __getattr__(self, name):
        if name == "__cuda_array_interface__":
            return device_array()
        raise AttributeError(name)


class Meta(type):
    __dictoffset__ = 0


class WithMeta(bytearray, metaclass=Meta):
    pass


def of_device(obj):
    with take(obj, host=True) as taken:
        return taken.device[0] != P.CPU


def test_lenders_that_come_to_have_more():
    """What is known of a type ends with its next change, and does not count for attributes of an object's own."""
    derived = type("Derived", (Slotless,), {"__slots__": ()})
    lender = derived(b"abc")
    for kind in (derived, Slotless, derived):
        assert not of_device(lender)
        kind.__cuda_array_interface__ = property(lambda self: device_array())
        assert of_device(lender)
        del kind.__cuda_array_interface__
    assert not of_device(lender)
    derived.__getattr__ = WithHook.__getattr__
    assert of_device(lender)
    for kind in (WithDict, WithMeta):
        plain, lender = kind(b"abc"), kind(b"abc")
        for _ in range(3):
            assert not of_device(plain)
        lender.__cuda_array_interface__ = device_array()
        assert of_device(lender) and not of_device(plain)
    for _ in range(2):
        assert of_device(WithHook(b"abc"))


def test_lenders_that_change_while_they_are_read():
    """Code of a producer that a protocol ran may give the type what it lacked before."""

    class Changing(bytearray):
        __slots__ = ()

        @property
        def __dlpack_device__(self):
            type(self).__array_interface__ = property(lambda self: np.zeros(2, "i2").__array_interface__)
            raise AttributeError

    lender = Changing(b"abc")
    with take(lender, host=True) as taken:
        assert taken.typestr == NATIVE + "i2"


class Owned(np.ndarray):
    pass


class Slots(np.ndarray):
    """Without attributes of its own."""

    __slots__ = ()


def complaint(name):
    def raises(self, *_, **__):
        raise RuntimeError(f"my own {name}")

    return raises


def hook(self, name):
    if name == "__dlpack__":
        raise RuntimeError("my own hook")
    return object.__getattribute__(self, name)


# What makes an object of a class that derives from NumPy's differ from one of NumPy's own.
OWN = {
    "a method": lambda array: array.view(type("", (Slots,), dict(__slots__=(), __dlpack__=complaint("__dlpack__")))),
    "a device": lambda array: array.view(
        type("", (Slots,), dict(__slots__=(), __dlpack_device__=complaint("__dlpack_device__")))
    ),
    "a buffer": lambda array: array.view(type("", (Slots,), dict(__slots__=(), buffer=property(complaint("buffer"))))),
    "a queue": lambda array: array.view(
        type("", (Slots,), dict(__slots__=(), __sycl_usm_array_interface__=property(complaint("queue"))))
    ),
    "a hook": lambda array: array.view(type("", (Slots,), dict(__slots__=(), __getattribute__=hook))),
    "a method of an object": lambda array: with_own(array, "__dlpack__"),
    "a device of an object": lambda array: with_own(array, "__dlpack_device__"),
}


def with_own(array, name):
    array = array.view(Owned)
    setattr(array, name, complaint(name).__get__(array))
    return array


@pytest.mark.parametrize("own", OWN)
def test_arrays_that_differ_from_those_of_numpy(own):
    """As if all protocols were listed, also after the first import: then NumPy's come in through another protocol."""

    def answer(array, **options):
        try:
            with take(array, host=True, **options) as taken:
                return taken.typestr, taken.shape, taken.device, taken.data
        except RuntimeError as error:
            return str(error)

    # DLPack has no swapped bytes, so the protocols behind it are asked, too.
    for dtype in ("f8", SWAPPED + "f8"):
        array = OWN[own](np.zeros(2, dtype))
        listed = answer(array, protocols=range(1, 10))
        assert [answer(array) for _ in range(3)] == [listed] * 3
    assert "my own" in listed


def test_arrays_of_numpy():
    """Without __dlpack__, unless an object may have other protocols."""
    for array in (np.arange(6.0).reshape(2, 3), np.arange(6)[::-2], np.arange(4).astype(SWAPPED + "i4"), np.ones(2, bool)):
        array.flags.writeable = False
        for kind in (np.ndarray, Owned, Slots):
            array = array.view(kind)
            with take(array, host=True) as taken:
                assert (taken.typestr, taken.shape, taken.readonly) == (array.dtype.str, array.shape, True)
                assert taken.device == (P.CPU, 0) and taken.data == array.__array_interface__["data"][0]
    lender = np.zeros(2).view(Owned)
    lender.__cuda_array_interface__ = device_array()
    assert of_device(lender)
    with take(np.zeros(2, "M8[s]"), host=True) as taken:
        assert taken.typestr == NATIVE + "M8[s]"
