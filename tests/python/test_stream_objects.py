"""`cai_unstable_stream_from_python`: what is a stream, which device it is of, and what is refused."""

import ctypes as c
import sys

import cai_python as P
import pytest
from cai_ctypes import abi as _abi

library = _abi.declare(c.PyDLL(str(P.LIBRARY)))
ZERO, QUIET = _abi.CAI_IMPORT_ALLOW_STREAM_ZERO, _abi.CAI_IMPORT_NO_EXCEPTION
HANDLE = 0x7F00_1234_5678


def stream(obj, none=0, flags=0):
    """The stream and the device; nothing is written on failure."""
    out, device = c.c_uint64(77), c.c_int32(77)
    try:
        assert library.cai_unstable_stream_from_python(obj, none, flags, out, device, None) == 0
    except Exception:
        assert (out.value, device.value) == (77, 77)
        raise
    return out.value, device.value


class Has:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Stream(Has):
    pass


class Protocol:
    def __init__(self, pair, **attributes):
        self.pair = pair
        self.__dict__.update(attributes)

    def __cuda_stream__(self):
        return self.pair


class Index(Has):
    def __index__(self):
        return self.number


class Old:
    __cuda_stream__ = (0, HANDLE)


@pytest.mark.parametrize(
    "obj, expected",
    [
        (1, (1, -1)),
        (2, (2, -1)),
        (HANDLE, (HANDLE, -1)),
        (2**64 - 3, (2**64 - 3, -1)),
        (Index(number=HANDLE), (HANDLE, -1)),
        (Protocol((0, HANDLE)), (HANDLE, -1)),
        (Protocol([0, Index(number=2)]), (2, -1)),
        (Protocol((0, 0)), (1, -1)),
        (Protocol((0, HANDLE), cuda_stream=5, device=Has(device_id=3)), (HANDLE, 3)),  # cuda.core
        (Old(), (HANDLE, -1)),
        (Has(cuda_stream=HANDLE, device_index=1), (HANDLE, 1)),  # PyTorch
        (Has(cuda_stream=0, device_index=1), (1, 1)),
        (Stream(ptr=HANDLE, device_id=2), (HANDLE, 2)),  # CuPy
        (Stream(ptr=0, device_id=-1), (1, -1)),
        (Stream(ptr=2, device_id=-1), (2, -1)),
        (Stream(handle=c.c_void_p(HANDLE)), (HANDLE, -1)),  # Numba, of several ages
        (Stream(handle=c.c_void_p(), context=Has(device=Has(id=4))), (1, 4)),
        (Stream(handle=Index(number=HANDLE)), (HANDLE, -1)),
        (Has(cuda_stream=HANDLE, device=Has(index=None)), (HANDLE, -1)),
        (Has(cuda_stream=HANDLE, device_index=2**40), (HANDLE, -1)),
    ],
)
def test_streams(obj, expected):
    assert stream(obj) == expected
    before = sys.getrefcount(obj)
    for _ in range(10):
        stream(obj)
    assert sys.getrefcount(obj) == before
    assert library.cai_unstable_stream_from_python(obj, 0, 0, c.c_uint64(), None, None) == 0


def test_none():
    assert stream(None, none=1) == (1, -1) and stream(None, none=HANDLE) == (HANDLE, -1)
    assert stream(None, none=_abi.CAI_STREAM_NONE)[0] == _abi.CAI_STREAM_NONE
    assert stream(None, none=_abi.CAI_STREAM_UNKNOWN)[0] == _abi.CAI_STREAM_UNKNOWN
    with pytest.raises(TypeError, match=r"^stream: found None, expected 1 \(legacy default stream\), 2 "):
        stream(None)


def test_zero():
    with pytest.raises(ValueError, match="stream: found 0, which may be any default stream, or none, expected 1 .*"
                       "or the stream object itself instead of its number"):  # fmt: skip
        stream(0)
    assert stream(0, flags=ZERO) == (1, -1)


@pytest.mark.parametrize(
    "obj, error, text",
    [
        (-1, ValueError, "stream: found -1, expected 1 "),
        (2**64, ValueError, "stream: found 18446744073709551616, expected"),
        (2**64 - 1, ValueError, "expected 1 "),
        (2**64 - 2, ValueError, "expected 1 "),
        (True, TypeError, "found True"),
        (1.0, TypeError, "found 1.0"),
        ("1", TypeError, "found '1'"),
        (object(), TypeError, "found an object of type object"),
        (Has(ptr=HANDLE), TypeError, "found an object of type Has"),  # an event, a buffer
        (Has(handle=HANDLE), TypeError, "found an object of type Has"),
        (Stream(ptr="1"), TypeError, "found an object of type Stream"),
        (Stream(ptr=-1), TypeError, "found an object of type Stream"),
        (Has(cuda_stream=True), TypeError, "found an object of type Has"),
        (Protocol((1, HANDLE)), ValueError, r"stream.__cuda_stream__\(\)\[0\]: found 1, expected 0, the version"),
        (Protocol(("0", HANDLE)), ValueError, r"\[0\]: found '0'"),
        (Protocol((0, -1)), ValueError, r"\[1\]: found -1, expected a cudaStream_t"),
        (Protocol((0, HANDLE, 1)), TypeError, "expected a tuple of the protocol's version and a handle"),
        (Protocol(HANDLE), TypeError, r"stream.__cuda_stream__\(\): found 139638282147448, expected a tuple"),
    ],
)
def test_refused(obj, error, text):
    with pytest.raises(error, match=text):
        stream(obj, flags=ZERO)
    why = _abi.cai_error()
    assert library.cai_unstable_stream_from_python(obj, 0, QUIET, c.c_uint64(), None, why) == why.code != 0
    assert text.replace("\\", "") in why.message.decode() or "\\" in text


@pytest.mark.parametrize("name", ["__cuda_stream__", "cuda_stream", "ptr", "handle", "device_index", "device"])
def test_exceptions_of_the_object_pass_through(name):
    def fail(self):
        raise LookupError("mine")

    attributes = {name: property(fail)}
    if name.startswith("device"):
        attributes["cuda_stream"] = HANDLE
    bad = type("BadStream", (), attributes)()
    for flags in (0, QUIET):
        with pytest.raises(LookupError, match="mine"):
            stream(bad, flags=flags)


def test_wrong_arguments():
    error = _abi.cai_error()
    assert library.cai_unstable_stream_from_python(1, 0, QUIET, None, None, error) == _abi.CAI_ERR_NULL_ARGUMENT
    assert error.field == b"out"
    out = c.c_uint64(5)
    assert library.cai_unstable_stream_from_python(1, 0, QUIET | 1, out, None, error) == _abi.CAI_ERR_NEWER_CALLER
    assert error.field == b"flags" and out.value == 5
    with pytest.raises(ValueError):
        stream(1, flags=1)
