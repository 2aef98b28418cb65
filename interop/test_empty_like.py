"""`libcai.empty_like` with the libraries themselves: types, devices, and memory that their pools use again."""

import ctypes as c

import numpy as np
import pytest

import cai_ctypes as T
import cai_python as P
from libcai import _view

empty_like = _view.function(str(P.LIBRARY)).__self__._empty_like
cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")

MAKE = {
    "numpy": lambda: np.zeros((2, 3), "f4"),
    "cupy": lambda: cupy.empty((2, 3), "f4"),
    "torch": lambda: torch.zeros(2, 3),
    "torch.cuda": lambda: torch.empty(2, 3, device="cuda"),
}
STREAMS = {
    "cupy": (lambda: cupy.cuda.Stream(non_blocking=True), lambda stream: stream.ptr, cupy.cuda.get_current_stream),
    "torch.cuda": (torch.cuda.Stream, lambda stream: stream.cuda_stream, torch.cuda.current_stream),
}


def call(prototype, stream=0):
    """The object that the C function makes, and its array."""
    made, array, error = c.c_void_p(), T.new_array(), T.Error()
    function = P.held.cai_unstable_python_empty_like
    function.argtypes = [
        c.py_object, c.c_void_p, c.c_uint64, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(T.Array),
        c.POINTER(T.Error),
    ]  # fmt: skip
    assert function(prototype, None, stream, None, None, made, array, error) == 0, error.message
    result = c.cast(made, c.py_object).value
    c.pythonapi.Py_DecRef(c.py_object(result))
    return result, P.Taken(array)


def write(address, stream):
    assert c.CDLL("libcuda.so.1").cuMemsetD8Async(c.c_uint64(address), c.c_ubyte(3), c.c_size_t(24), c.c_void_p(stream)) == 0


@pytest.mark.parametrize("library", MAKE)
def test_same_library(library):
    given = MAKE[library]()
    made, other = empty_like(given), empty_like(given, 4, "<i8")
    assert type(made) is type(other) is type(given) and made.dtype == given.dtype and tuple(made.shape) == (2, 3)
    assert tuple(other.shape) == (4,) and "int64" in str(other.dtype) and made.device == other.device == given.device
    assert "int16" in str(empty_like(given, dtype="int16").dtype) and tuple(empty_like(given, ()).shape) == ()
    assert empty_like(given, dtype=other.dtype).dtype == other.dtype
    made, taken = call(given)
    pointer = made.ctypes.data if library == "numpy" else made.data.ptr if library == "cupy" else made.data_ptr()
    assert taken.data == pointer and taken.shape == (2, 3) and not taken.readonly
    taken.release()


def test_types_of_torch():
    for name in ("bool", "uint8", "float16", "bfloat16", "complex64", "float8_e4m3fn", "uint16"):
        assert empty_like(torch.zeros(2), dtype=name).dtype is getattr(torch, name)
    parameter = torch.nn.Parameter(torch.zeros(2))
    assert not empty_like(parameter).requires_grad and type(empty_like(parameter)) is torch.Tensor


@pytest.mark.parametrize("library", STREAMS)
def test_streams(library):
    """Memory of the current stream, or of the one that is passed; the current stream stays what it was."""
    make, number, current = STREAMS[library]
    given, stream, before = MAKE[library](), make(), number(current())
    for asked, expected in ((0, 1), (1, 1), (number(stream), number(stream))):
        _, taken = call(given, asked)
        assert taken.stream == expected and number(current()) == before
        taken.release()
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        empty_like(given, (-1,), stream=stream)
    assert number(current()) == before


@pytest.mark.parametrize("library", STREAMS)
@pytest.mark.parametrize("passed", [False, True])
def test_a_pool_that_uses_the_memory_again(library, passed):
    """A function writes on its stream and returns; the result is dropped, and the next allocation gets its memory."""
    make, number, current = STREAMS[library]
    given, stream = MAKE[library](), make()
    address = None
    for _ in range(3):
        made, taken = call(given, number(stream) if passed else 0)
        array, error = taken.array, T.Error()
        for step in ("begin", "end"):
            assert getattr(P.held, f"cai_array_consume_{step}")(array, number(stream), 2, error) == 0, error.message
            if step == "begin":
                write(taken.data, number(stream))
        assert address in (None, taken.data)  # of the pool
        address = taken.data
        taken.release()
        del made
    # The library's own work on the memory, on the stream to which its pool gives it.
    if passed:
        with stream if library == "cupy" else torch.cuda.stream(stream):
            again = empty_like(given)
            write(address, number(stream))
    else:
        again = empty_like(given)
        write(address, number(current()))
    assert (again.data.ptr if library == "cupy" else again.data_ptr()) == address
