"""What the casters of pybind11 and nanobind do, called by test_casters.py within a process on the simulated
driver. Nothing here is a GPU library: arrays are objects with a dictionary."""

import ctypes
import gc
import importlib
import math
import pathlib
import re
import sys
import threading
import time
import types
import weakref

import numpy
import pytest
import race_checker

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY = str(ROOT / "target/release/libcai.so")
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "cuda-sim/python")]
from libcai.testing._consumer import consumer_report  # noqa: E402
from libcai.testing._producer import producer_report  # noqa: E402


class Driver(race_checker.Driver):
    def allocate(self, nbytes):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def synchronize(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def write(self, array, byte, stream):
        self.call(
            "cuMemsetD8Async", ctypes.c_uint64(array.address), ctypes.c_ubyte(byte), ctypes.c_size_t(array.nbytes),
            ctypes.c_void_p(stream),
        )  # fmt: skip

    def read(self, array):
        """The first byte, once everything is done."""
        self.call("cuCtxSynchronize")
        byte = ctypes.create_string_buffer(1)
        self.call("cuMemcpyDtoH_v2", byte, ctypes.c_uint64(array.address), ctypes.c_size_t(1))
        return byte.raw[0]

    def take_races(self):
        self.call("cuCtxSynchronize")
        return self.take_report()


class Array:
    """A foreign GPU array."""

    def __init__(self, shape=(4,), typestr="<f4", **more):
        count = 1
        for extent in shape:
            count *= max(extent, 0)
        self.nbytes = count * int(typestr[2:])
        self.address = driver.allocate(max(self.nbytes, 256)) if count else 0
        self.fields = {"version": 3, "shape": shape, "typestr": typestr, "data": (self.address, False), **more}

    @property
    def __cuda_array_interface__(self):
        return dict(self.fields)


driver = Driver()
# pytest's own objects, which each collection would look at.
gc.freeze()


@pytest.fixture(params=["pybind11", "nanobind"])
def m(request):
    return importlib.import_module(f"casters_{request.param}")


@pytest.fixture
def is_pybind11(m):
    return "pybind11" in m.__name__


@pytest.fixture(autouse=True)
def no_races():
    """A correct program is silent. Tests that provoke a race take the report."""
    yield
    count, text = driver.take_races()
    assert count == 0, text


class Pooled(Array):
    """An array of a library whose memory belongs to its current stream, on which it is freed at once."""

    live = 0

    def __init__(self, shape, typestr, stream):
        super().__init__((0,), typestr)
        self.stream, self.shape, self.dtype, self.device = stream, shape, typestr, "here"
        self.nbytes = 4 * math.prod(shape)
        address = ctypes.c_uint64()
        driver.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(self.nbytes), ctypes.c_void_p(stream))
        self.address = address.value
        driver.write(self, 1, stream)
        self.fields |= {"shape": shape, "data": (self.address, False), "stream": stream}
        Pooled.live += 1

    def __del__(self):
        Pooled.live -= 1
        driver.call("cuMemFreeAsync", ctypes.c_uint64(self.address), ctypes.c_void_p(self.stream))

    def __array_namespace__(self):
        return types.SimpleNamespace(float32="<f4", empty=lambda shape, dtype, device: Pooled(shape, dtype, self.stream))


# --- arrays ------------------------------------------------------------------------------------------------------


def test_an_array_is_kept_and_released(m):
    given = Array()
    gone = weakref.ref(given)
    m.keep(given)
    del given
    gc.collect()
    assert gone() is not None
    m.drop()  # without the interpreter's lock: the object is released later, on the main thread
    assert eventually(lambda: gone() is None)


@pytest.mark.parametrize("name", ["echo", "pass_on"])
def test_an_array_comes_back(m, name):
    given = Array((2, 3), data_owner=None, stream=1)
    back = getattr(m, name)(given)
    said = back.__cuda_array_interface__
    assert (said["data"], said["shape"], said["typestr"]) == (given.fields["data"], (2, 3), "<f4")
    assert said["stream"] == 1 and said["version"] == 3
    gone = weakref.ref(given)
    del given
    gc.collect()
    assert gone() is not None
    del back
    gc.collect()
    assert gone() is None


def test_read_only_stays_read_only(m):
    given = Array()
    given.fields["data"] = (given.address, True)
    assert m.echo(given).__cuda_array_interface__["data"] == (given.address, True)


def test_masks_are_shown_to_functions_that_take_masked_arrays(m):
    assert m.has_mask(Array(mask=Array(typestr="|b1"))) is True
    assert m.has_mask(Array()) is False
    # A function that does not ask for them cannot ignore them.
    for function in (m.echo, m.maybe_array, m.size, m.flat):
        with pytest.raises((BufferError, TypeError), match="mask|incompatible"):
            function(Array(mask=Array(typestr="|b1")))


def test_the_stream_of_an_array(m):
    assert m.stream(Array(stream=1)) == 1
    assert m.stream(Array(stream=None)) == 2**64 - 1


def test_lists_and_none(m):
    assert m.count([Array(), Array((1, 2))]) == 2
    assert m.maybe_array(Array((5,))) == 5
    assert m.maybe_array(None) == m.maybe_array() == -1
    with pytest.raises(TypeError):
        m.echo(None)


def test_no_array_cannot_be_returned(m):
    with pytest.raises((ValueError, BufferError), match="typestr|owner"):
        m.nothing()


def test_errors_of_the_body(m):
    with pytest.raises((BufferError, ValueError, TypeError), match="ndim: found 2, expected 3 dimensions|typestr: found <f4, expected <f8"):
        m.view_inside(Array((1, 2, 3)))
    with pytest.raises((BufferError, ValueError, TypeError), match="buffer: found no elements"):
        m.buffer(0).__cuda_array_interface__


def test_a_caster_of_the_extension(m, is_pybind11):
    """It takes arrays with its options. What is not its own is left to other overloads; the rest has a reason."""
    assert m.own(Array()) == m.own(Array((0,))) == m.from_python(Array()) == 0
    assert m.own_or(Array()) == "own" and m.own_or("x") == "text"
    for other in (5, None, "x", object()):
        assert m.from_python(other) == -2
        with pytest.raises(TypeError, match="incompatible function arguments"):
            m.own(other)
    broken = Array(typestr="<q8")
    with pytest.raises(ValueError, match="^argument \\(Array\\): .*typestr"):
        m.from_python(broken)
    with pytest.raises(ValueError if is_pybind11 else TypeError, match="typestr" if is_pybind11 else "incompatible"):
        m.own(broken)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        m.own_or(broken)

    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        m.from_python(Raises())
    with pytest.raises(ZeroDivisionError if is_pybind11 else TypeError):
        m.own(Raises())


# --- views -------------------------------------------------------------------------------------------------------


def test_views(m):
    assert m.size(Array()) == 4
    assert m.size2(Array((2, 3))) == 6
    assert m.size_mutable(Array()) == 4
    assert m.size(Array((0,))) == 0
    assert m.size(Array((3,), strides=(-4,))) == 3
    assert m.bytes(Array((9,), "|i1")) == m.bytes(Array((9,), "|u1")) == 9
    assert m.brains(Array((3,), "<V2")) == 3
    assert m.complexes(Array((), "<c16")) is None
    assert m.released(Array()) == 4


def test_contiguous_views(m):
    assert m.flat(Array((2, 3, 4))) == m.flat(Array((24,))) == 24
    assert m.flat(Array(())) == 1 and m.flat(Array((0, 3))) == 0
    assert m.flat(Array((2, 3), strides=(12, 4))) == m.flat2(Array((2, 3))) == 6
    assert m.flat_mutable(Array((2, 3))) == 2
    assert m.maybe_flat(None) == m.maybe_flat() == -1 and m.maybe_flat(Array((2, 3))) == 6
    theirs, mine = driver.stream(), driver.stream()
    given = Array((1 << 8, 1 << 8), stream=theirs)
    driver.write(given, 1, theirs)
    m.fill_flat(given, 2, mine)
    driver.write(given, 3, theirs)
    assert driver.read(given) == 3


def read_only():
    array = Array()
    array.fields["data"] = (array.address, True)
    return array


WRONG = [
    ("size", lambda: Array(typestr="<f8"), r"typestr.*found '?<f8'?, expected '?<f4"),
    ("size", lambda: Array(typestr=">f4"), r"typestr.*>f4"),
    ("size", lambda: Array((2, 2)), r"found 2.*expected 1"),
    ("size", lambda: Array(mask=Array(typestr="|b1")), r"mask"),
    ("size_mutable", read_only, r"data.*read-only|read-only|data.*\[1\]"),
    ("flat", lambda: Array((2, 3), strides=(4, 8)), r"strides.*expected a C-contiguous array"),
    ("flat", lambda: Array((2, 3), "<f8"), r"typestr.*found '?<f8'?, expected '?<f4"),
    ("flat2", lambda: Array((6,)), r"found 1.*expected 2"),
    ("flat_mutable", read_only, r"read-only"),
    ("maybe_flat", lambda: Array((2, 3), strides=(4, 8)), r"strides"),
    ("bytes", lambda: Array(), r"typestr: found <f4, expected elements of 1 byte"),
    ("brains", lambda: Array(typestr="<f2"), r"typestr.*<f2"),
    ("complexes", lambda: Array((1,), "<c16"), r"found 1.*expected 0"),
    ("maybe", lambda: Array(typestr="<i4"), r"typestr.*<i4"),
    ("echo", lambda: Array((-1,)), r"__cuda_array_interface__\['shape'\]\[0\]: found -1, expected at least 0"),
    ("echo", lambda: Array(typestr="<q8"), r"typestr"),
]


@pytest.mark.parametrize("name, make, text", WRONG, ids=range(len(WRONG)))
def test_an_array_that_does_not_fit_raises_the_reason(m, name, make, text):
    for _ in range(3):
        with pytest.raises((BufferError, TypeError, ValueError), match=text) as caught:
            getattr(m, name)(make())
        assert "incompatible function arguments" not in str(caught.value)
        assert re.match(r"argument \(Array(\[.*?\])?\): ", str(caught.value))


def message(function, *arguments, **keywords):
    with pytest.raises((BufferError, TypeError, ValueError)) as caught:
        function(*arguments, **keywords)
    return str(caught.value)


def test_messages_name_the_argument(m):
    good, wide = Array(), Array(typestr="<f8")
    assert m.named_copy(good, Array(), 1) is None
    found = "typestr: found <f8, expected <f4"
    assert message(m.named_copy, wide, good, 1) == f'argument 1 ("source"): {found}'
    assert message(m.named_copy, good, wide, 1) == f'argument 2 ("to"): {found}'
    assert message(m.named_copy, source=good, to=wide, stream=1) == f'argument 2 ("to"): {found}'
    assert message(m.named_copy, good, good, -1) == (
        'argument 3 ("stream"): found -1, expected None, 1 (legacy default stream), 2 (per-thread default stream), '
        "a cudaStream_t or an object with __cuda_stream__"
    )
    assert m.unnamed(3, good) == 12
    assert message(m.unnamed, 3, wide) == f"argument 2 (Array[float32, 1]): {found}"


def test_messages_name_arguments_of_all_kinds(m):
    good, negative = Array(), Array((-1,))
    assert m.named_lambda(0.5, good) == 5.5
    assert m.named_lambda(0.5, good, good, 2) == m.named_lambda(0.5, a=good, b=good, s=2) == 10.5
    assert message(m.named_lambda, 1.0, negative) == (
        "argument 2 (\"a\"): __cuda_array_interface__['shape'][0]: found -1, expected at least 0"
    )
    assert message(m.named_lambda, 1.0, good, Array((2, 3))).startswith('argument 3 ("b"): shape: found 2 dimensions')
    assert message(m.named_lambda, 1.0, good, None, "x").startswith("argument 4 (\"s\"): found 'x', expected None, 1")


def test_messages_name_arguments_of_methods(m):
    buffer = m.buffer(4)
    assert buffer.same_size(Array()) and not buffer.same_size(Array((3,)))
    assert message(buffer.same_size, Array(typestr="<f8")) == (
        'argument 1 ("other"): typestr: found <f8, expected <f4'
    )


def test_methods_of_a_base_that_is_not_bound(m):
    """`&derived::plus` is a pointer to a member of the base, which Python does not know."""
    made = m.Derived()
    assert made.plus(Array()) == 5 and made.grow(v=Array()) == 5 and made.plus(Array()) == 9
    for method in (made.plus, made.grow):
        assert message(method, Array(typestr="<f8")) == 'argument 1 ("v"): typestr: found <f8, expected <f4'


def test_a_function_that_is_bound_twice(m):
    """Its casters do not know which of the two is called: no message has the name or the number of the other one."""
    wide, found = Array(typestr="<f8"), "typestr: found <f8, expected <f4"
    assert m.length(Array()) == m.length_again(v=Array()) == m.length_x(x=Array()) == m.length_y(y=Array()) == 4
    for function in (m.length, m.length_again):
        assert message(function, wide) == f'argument 1 ("v"): {found}'
    for function in (m.length_x, m.length_y):
        assert message(function, wide) == f"argument 1 (Array[float32, 1]): {found}"
    made = m.Derived()
    assert made.plus_bound_twice(Array()) == m.plus(made, Array()) == 5
    for function in (made.plus_bound_twice, lambda v: m.plus(made, v)):
        assert message(function, wide) == f"argument (Array[float32, 1]): {found}"


def test_messages_name_lists_of_arrays(m, is_pybind11):
    assert m.named_total([Array()], [Array(), Array()]) == 3
    for position, name in ((1, "arrays"), (2, "masked")):
        given = [[Array()], [Array()]]
        given[position - 1] = [Array(), Array((-1,))]
        found = message(m.named_total, *given)
        if is_pybind11:  # nanobind's casters of containers convert nothing: the signature
            assert found.startswith(f'argument {position} ("{name}"): __cuda_array_interface__[\'shape\'][0]: found -1')


def test_overloads_of_named_functions(m):
    assert m.named_which(Array()) == "float32" and m.named_which(Array(typestr="<f8")) == "float64"
    assert "incompatible function arguments" in message(m.named_which, Array(typestr="<i4"))


def test_a_refusal_of_one_function_is_not_that_of_another(m):
    """What the first pass over overloads refuses is refused silently in the second one: but in no other call."""
    wide, found = Array(typestr="<f8"), "typestr: found <f8, expected <f4"
    assert m.view_or_array(wide) == "array"
    assert message(m.size, wide) == f"argument (Array[float32, 1]): {found}"
    assert "incompatible function arguments" in message(m.named_strict, wide)
    assert message(m.length, wide) == f'argument 1 ("v"): {found}'


def test_calls_inside_of_named_functions(m):
    """The argument of the outer call is not that of a call that a producer makes."""

    class Nested(Array):
        @property
        def __cuda_array_interface__(self):
            self.said = message(m.size, Array(typestr="<f8"))
            return super().__cuda_array_interface__

    nested = Nested()
    assert m.named_copy(Array(), nested, 1) is None
    assert nested.said == "argument (Array[float32, 1]): typestr: found <f8, expected <f4"


def test_a_key_that_is_missing(m):
    given = Array()
    del given.fields["shape"]
    for function in (m.echo, m.size):
        with pytest.raises(KeyError, match="shape"):
            function(given)


def test_what_is_no_array(m):
    """The exception names the signature."""
    for function, text in (
        (m.size, r"Annotated\[libcai.ArrayLike, \"float32, 1\"\]"),
        (m.size_mutable, r"Annotated\[libcai.ArrayLike, \"float32, 1, writable\"\]"),
        (m.echo, "libcai.ArrayLike"),
        (m.maybe, r"\"float32, 1\"\] \| None"),
    ):
        for wrong in (5, "text", object()):
            with pytest.raises(TypeError, match="incompatible function arguments") as caught:
                function(wrong)
            assert caught.match(text)


def test_host_memory_is_not_taken(m):
    numpy = pytest.importorskip("numpy")
    with pytest.raises((TypeError, BufferError)):
        m.size(numpy.zeros(4, "f4"))
    with pytest.raises((TypeError, BufferError)):
        m.echo(numpy.zeros(4, "f4"))


class Failing:
    def __init__(self, exception):
        self.exception = exception

    @property
    def __cuda_array_interface__(self):
        raise self.exception


@pytest.mark.parametrize("name", ["echo", "size", "maybe", "maybe_array", "which", "device_of"])
def test_the_exception_of_a_producer_is_its_own(m, is_pybind11, name):
    raised = RuntimeError("requires grad")
    arguments = (1.0,) if name == "which" else ()
    if name == "maybe_array" and not is_pybind11:
        # nanobind's own caster of std::optional knows no exceptions.
        with pytest.raises(TypeError, match="incompatible"):
            m.maybe_array(Failing(raised))
        return
    with pytest.raises(RuntimeError) as caught:
        getattr(m, name)(Failing(raised), *arguments)
    assert caught.value is raised


def test_none(m):
    assert m.maybe(None) == m.maybe() == -1
    assert m.maybe(Array()) == 4
    with pytest.raises(TypeError, match="incompatible"):
        m.size(None)


def test_a_second_argument_that_is_wrong(m):
    with pytest.raises(TypeError, match="incompatible"):
        m.size_or(Array(), "no")
    assert m.size_or(Array(), 3) == m.size_or(Array()) == 4


def test_signatures(m):
    for function, text in [
        (m.fill, "float32, 1, writable"), (m.flat, "float32, contiguous"), (m.flat2, "float32, 2, contiguous"),
        (m.flat_mutable, "float32, contiguous, writable"), (m.bytes, "byte, 1"), (m.brains, "bfloat16, 1"),
        (m.complexes, "complex128, 0, writable"),
    ]:  # fmt: skip
        assert f'typing.Annotated[libcai.ArrayLike, "{text}"]' in function.__doc__
    assert "stream: libcai.StreamLike | None = None" in m.fill.__doc__
    assert ": libcai.ArrayLike" in m.echo.__doc__ and "-> libcai.Array" in m.echo.__doc__
    assert "libcai.StreamLike | None" in m.fill_maybe.__doc__ and "| None | None" not in m.fill_maybe.__doc__
    assert "-> int" in m.stream.__doc__


# --- overloads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scalar", [1.0, 1])  # an int is converted, in a second pass over the overloads
def test_overloads(m, scalar):
    assert m.which(Array(), scalar) == "float32"
    assert m.which(Array(typestr="<f8"), scalar) == "float64"
    assert m.which(Array((2, 2)), scalar) == "float32, 2"
    assert m.device_of(Array()) == "gpu"
    assert m.device_of(Array(typestr="<f8")) == "any"
    assert m.device_of(7) == "any"
    assert m.scalar_first(scalar, Array(typestr="<f8")) == "float64"
    assert m.scalar_first(scalar, Array()) == "float32"


def test_overloads_where_another_argument_is_converted_first(m, is_pybind11):
    """The one case that needs noconvert(), see cpp.md. pybind11 does not call it a conversion."""
    wide = Array(typestr="<f8")
    assert m.scalar_first_plain(1.0, wide) == "float64"
    if is_pybind11:
        assert m.scalar_first_plain(1, wide) == "float64"
    else:
        with pytest.raises((BufferError, TypeError, ValueError), match="typestr: found <f8, expected <f4"):
            m.scalar_first_plain(1, wide)


def test_no_overload_fits(m):
    for wrong in (Array(typestr="<i4"), Array((1, 1, 1)), 3):
        with pytest.raises(TypeError, match="incompatible function arguments") as caught:
            m.which(wrong, 1.0)
        for text in ('"float32, 1"', '"float64, 1"', '"float32, 2"'):
            assert text in str(caught.value)


def test_precise_again_after_overloads(m):
    given = Array(typestr="<f8")
    for scalar in (1.0, 1):
        assert m.which(given, scalar) == "float64"
        with pytest.raises((BufferError, TypeError, ValueError), match="typestr"):
            m.size(given)
    given = Array(typestr="<i4")
    with pytest.raises(TypeError, match="incompatible"):
        m.which(given, 1.0)
    with pytest.raises((BufferError, TypeError, ValueError), match="typestr"):
        m.size(given)


# --- references --------------------------------------------------------------------------------------------------


def eventually(true):
    for _ in range(500):
        gc.collect()
        if true():
            return True
        time.sleep(0.01)
    return False


def counts(*objects):
    return [sys.getrefcount(it) for it in objects]


def test_reference_counts(m):
    good, wrong, mask = Array(), Array(typestr="<i8"), Array(mask=Array(typestr="|b1"))
    stream, busy = driver.stream(), Array(stream=driver.stream())
    failing = Failing(RuntimeError("no"))

    class Stream:
        ptr = stream

    holder = Stream()
    before = counts(good, wrong, mask, failing, holder, busy, None)
    for _ in range(1000):
        m.size(good)
        m.echo(good)
        m.maybe(good)
        m.which(good, 1)
        m.fill(busy, 1, holder)
        m.has_mask(mask)
        for function in (m.size, m.maybe):
            try:
                function(wrong)
            except (BufferError, TypeError, ValueError):
                pass
        try:
            m.which(wrong, 1)
        except TypeError:
            pass
        try:
            m.size(failing)
        except RuntimeError:
            pass
    failing.exception.__traceback__ = None

    # An array without a stream is released by a thread of the library, once the work on it is done.
    driver.call("cuCtxSynchronize")
    assert eventually(lambda: counts(good, wrong, mask, failing, holder, busy) == before[:6])
    after = counts(good, wrong, mask, failing, holder, busy, None)
    assert abs(after[6] - before[6]) < 500  # the interpreter's own uses come and go


def test_a_temporary_array_outlives_the_work(m):
    """Without a stream, its producer would free it while the function's work is still under way."""
    mine = driver.stream()
    given = Array((1 << 16,))
    gone = weakref.ref(given)
    weakref.finalize(given, driver.call, "cuMemFree_v2", ctypes.c_uint64(given.address))
    m.fill(given, 1, mine)
    del given
    driver.synchronize(mine)
    assert eventually(lambda: gone() is None)


# --- order -------------------------------------------------------------------------------------------------------


class CupyStream:
    def __init__(self, handle):
        self.ptr = handle


class TorchStream:
    def __init__(self, handle):
        self.cuda_stream = handle


class CudaCoreStream:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


KINDS = [int, CupyStream, TorchStream, CudaCoreStream]


@pytest.mark.parametrize("kind", KINDS)
def test_streams(m, kind):
    assert m.handle(kind(12345)) == 12345
    assert m.handle(kind(0)) == 1
    assert m.handle(kind(2)) == 2
    assert m.handle(None) == 1


def test_what_is_no_stream(m):
    expected = (
        "expected None, 1 (legacy default stream), 2 (per-thread default stream), a cudaStream_t or an object with "
        "__cuda_stream__"
    )
    for wrong in (-1, 2**64, 2**64 - 1, True, 1.0, "1", CupyStream("1"), object()):
        found = repr(wrong) if isinstance(wrong, (int, float, str)) else f"an object of type {type(wrong).__name__}"
        for _ in range(3):
            with pytest.raises(TypeError) as caught:
                m.handle(wrong)
            assert str(caught.value) == f"argument (Stream): found {found}, {expected}"

    class Bad:
        def __cuda_stream__(self):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        m.handle(Bad())


@pytest.mark.parametrize("name", ["fill", "fill_after", "fill_maybe", "by_hand"])
@pytest.mark.parametrize("kind", KINDS)
def test_ordered_on_the_stream_among_the_arguments(m, name, kind):
    """The producer writes, the function writes, the producer writes again: three streams' worth of waits."""
    theirs, mine = driver.stream(), driver.stream()
    given = Array((1 << 16,), stream=theirs)
    driver.write(given, 1, theirs)
    if name == "fill_after":
        m.fill_after(kind(mine), 2, given)
    else:
        getattr(m, name)(given, 2, kind(mine))
    assert driver.read(given) == 2
    driver.write(given, 3, theirs)
    assert driver.read(given) == 3


def test_ordered_on_the_default_stream(m):
    theirs = driver.stream()
    given = Array((1 << 16,), stream=theirs)
    for fill in (
        lambda byte: m.fill_default(given, byte),
        lambda byte: m.fill(given, byte),
        lambda byte: m.fill_maybe(given, byte, None),
    ):
        driver.write(given, 1, theirs)
        fill(2)
        driver.write(given, 3, theirs)
        fill(4)
        assert driver.read(given) == 4


@pytest.mark.parametrize("name", ["copy", "copy_released"])
def test_two_arrays_of_two_producers(m, name):
    first, second, mine = driver.stream(), driver.stream(), driver.stream()
    source, target = Array((1 << 16,), stream=first), Array((1 << 16,), stream=second)
    driver.write(source, 5, first)
    driver.write(target, 6, second)
    getattr(m, name)(source, target, mine)
    driver.write(source, 7, first)
    driver.write(target, 8, second)
    assert (driver.read(source), driver.read(target)) == (7, 8)


def test_the_checker_sees_what_is_not_ordered(m):
    """That the others are silent means something."""
    theirs, mine = driver.stream(), driver.stream()
    given = Array((1 << 16,), stream=theirs)
    driver.write(given, 1, theirs)
    m.unordered(given, 2, mine)
    assert driver.take_races()[0] > 0


def test_a_function_called_by_the_body_has_its_own_stream(m):
    theirs, mine, third = driver.stream(), driver.stream(), driver.stream()
    outer, inner = Array((1 << 16,), stream=theirs), Array((1 << 16,), stream=theirs)
    for work in (lambda: m.fill_default(inner, 4), lambda: m.fill(inner, 4, third)):
        driver.write(inner, 1, theirs)
        m.call_back(outer, 2, mine, work)
        driver.write(inner, 5, theirs)
        m.fill(outer, 6, mine)
        assert driver.read(inner) == 5


def test_a_function_called_while_an_argument_is_read(m):
    theirs, mine = driver.stream(), driver.stream()
    other = Array((1 << 16,), stream=theirs)

    class Busy(Array):
        @property
        def __cuda_array_interface__(self):
            driver.write(other, 1, theirs)
            m.fill_default(other, 2)
            driver.write(other, 3, theirs)
            return dict(self.fields)

    given = Busy((1 << 16,), stream=theirs)
    driver.write(given, 1, theirs)
    m.fill(given, 2, mine)
    m.fill_after(mine, 2, given)
    driver.write(given, 3, theirs)
    assert driver.read(given) == 3


def test_a_stream_is_forgotten_where_a_call_fails(m):
    theirs, mine = driver.stream(), driver.stream()
    given = Array((1 << 16,), stream=theirs)
    with pytest.raises((BufferError, TypeError, ValueError)):
        m.fill_after(mine, 2, Array(typestr="<i4"))
    driver.write(given, 1, theirs)
    m.fill_default(given, 2)
    driver.write(given, 3, theirs)


def test_a_stream_that_cannot_be_waited_for(m):
    """The error of the order, not of the loading."""
    given = Array()
    given.fields["stream"] = 0
    with pytest.raises((ValueError, RuntimeError, BufferError), match="stream"):
        m.fill(given, 1)


def test_several_threads(m):
    problems = []

    def work():
        try:
            driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context := ctypes.c_void_p()), 0)
            driver.call("cuCtxSetCurrent", context)
            theirs, mine = driver.stream(), driver.stream()
            given = Array((1 << 12,), stream=theirs)
            for _ in range(100):
                driver.write(given, 1, theirs)
                m.fill(given, 2, mine)
            driver.synchronize(theirs)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


# --- producers ---------------------------------------------------------------------------------------------------


def test_a_published_class(m):
    buffer = m.buffer(6)
    assert hasattr(type(buffer), "__cai_exchange_api__")
    assert m.size(buffer) == m.size_mutable(buffer) == 6
    said = buffer.__cuda_array_interface__
    assert said["shape"] == (6,) and said["typestr"] == "<f4" and said["data"][0] != 0
    assert m.which(buffer, 1) == "float32"
    back = m.echo(buffer)
    del buffer
    gc.collect()
    assert m.size(back) == 6
    assert m.maybe(m.buffer(2)) == 2


def test_a_published_class_that_cannot_describe(m):
    for function in (m.size, m.echo):
        with pytest.raises((BufferError, ValueError, TypeError), match="buffer: found no elements"):
            function(m.buffer(0))


def test_a_published_class_goes_between_modules():
    one, other = (importlib.import_module(f"casters_{name}") for name in ("pybind11", "nanobind"))
    assert other.size(one.buffer(3)) == one.size(other.buffer(3)) == 3


# --- the examples ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["pybind11", "nanobind"])
def cut(request):
    return importlib.import_module(f"cut_{request.param}").cut


def test_example(cut):
    theirs, mine = driver.stream(), CupyStream(driver.stream())
    image = Array((32, 64), stream=theirs)
    driver.write(image, 7, theirs)
    piece = cut(image, 8, 16, mine)
    driver.write(image, 9, theirs)
    said = piece.__cuda_array_interface__
    assert said["shape"] == (8, 16) and said["stream"] == mine.ptr and not said["data"][1]
    driver.synchronize(mine.ptr)
    byte = ctypes.create_string_buffer(1)
    driver.call("cuMemcpyDtoH_v2", byte, ctypes.c_uint64(said["data"][0]), ctypes.c_size_t(1))
    assert byte.raw == b"\x07"
    rest = cut(piece, 2, 2, stream=None)
    assert rest.__cuda_array_interface__["shape"] == (2, 2)
    del piece, rest


def test_example_refuses(cut):
    image = Array((4, 4))
    with pytest.raises(ValueError, match="rows without gaps"):
        cut(image, 5, 5)
    with pytest.raises((BufferError, TypeError, ValueError), match="<f8"):
        cut(Array((4, 4), "<f8"), 1, 1)
    with pytest.raises((BufferError, TypeError, ValueError), match="found 1.*expected 2"):
        cut(Array((4,)), 1, 1)


# --- what libcai.testing says of both -----------------------------------------------------------------------------


def test_example_is_a_sound_producer(cut):
    """The image is still being written on another stream."""

    def late():
        image = Array((8, 16), stream=driver.stream())
        driver.write(image, 7, image.fields["stream"])
        return cut(image, 3, 4, CupyStream(driver.stream()))

    found = producer_report(lambda: cut(Array((8, 16)), 3, 4), late=late, library=LIBRARY)
    assert found.passed and found.count("pass") > 20, str(found)


def test_caster_is_a_sound_consumer(m):
    found = consumer_report(m.echo, library=LIBRARY)
    assert found.passed and found.count("pass") > 8, str(found)


# --- host or device, and results of the argument's library ---------------------------------------------------------


def test_either_kind_of_memory(m):
    host, device = numpy.zeros(4, "f4"), Array()
    assert m.fill_any(host, 3) == "host" and host.tolist() == [3] * 4
    assert m.fill_any(device, 3) == "device" and driver.read(device) == 3
    assert m.maybe_any(host) == m.maybe_any(device) == 4 and m.maybe_any() == m.maybe_any(None) == -1
    with pytest.raises(BufferError, match=r'^argument 1 \("to"\): .*found <f8, expected <f4'):
        m.fill_any(numpy.zeros(4), 3)
    host.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        m.fill_any(host, 3)
    with pytest.raises((BufferError, TypeError), match="host memory|incompatible"):
        m.copy_like(host, 1)  # the view is of device memory


def test_a_result_of_numpy(m):
    given = numpy.arange(3.0)
    made = m.twice(given)
    assert type(made) is numpy.ndarray and made.tolist() == [0, 2, 4]
    gone = weakref.ref(made)
    del made
    assert gone() is None


def test_a_result_in_order(m):
    """The library's stream before the call's, and that before whatever the library's does next: its pool frees."""
    theirs, ours = driver.stream(), driver.stream()
    given = Pooled((4,), "<f4", theirs)
    for shape, make in (((4,), lambda: m.copy_like(given, ours)), ((3, 4), lambda: m.rows_like(given, 3, ours))):
        made = make()
        assert type(made) is Pooled and made.shape == shape
        driver.write(made, 5, theirs)
        assert Pooled.live == 2
        del made
    m.copy_like(given, ours)  # dropped at once
    assert Pooled.live == 1
    driver.call("cuCtxSynchronize")


def test_a_result_that_fails(m):
    """Nothing is kept, and the exception is that of the library or of the function."""
    stream = driver.stream()
    given = Pooled((4,), "<f4", stream)
    with pytest.raises(RuntimeError, match="own"):
        m.fail_like(given, stream)
    with pytest.raises(AttributeError, match="bfloat16"):
        m.brain_like(given, stream)
    with pytest.raises((TypeError, ValueError), match="new_empty or __array_namespace__"):
        m.copy_like(Array(), stream)
    assert Pooled.live == 1
    del given
    assert Pooled.live == 0
