"""Imports: which protocol is read, how often, and what it keeps alive."""

import collections
import gc
import sys
import textwrap
import types
import weakref

import cai_python as P
import pytest
from cai_python import ERRORS, Exporter, give, make, soon, take
from commands import run
from importing import ADDRESS, CAI, MISSING, REMEMBERS_TYPES, Boom, Property, exporter, interface, refused

# --- 1: one look, and only AttributeError means no


class Own(AttributeError):
    pass


@pytest.mark.parametrize("error", [AttributeError("none here"), Own("neither")])
def test_attribute_error_means_no(error):
    obj = Property(error)
    with pytest.raises(TypeError) as info:
        take(obj)
    assert take.error.code == ERRORS["NO_PROTOCOL"] and info.value.__cause__ is None
    assert obj.reads == 1


class Both(Property):
    def __dlpack__(self, **_):
        raise AssertionError("is not asked")

    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("requires grad"), KeyError("float8"), ValueError("bf16"), TypeError("categorical"), MemoryError(), Boom(),
     NotImplementedError(), KeyboardInterrupt(), SystemExit(3), StopIteration(), BufferError("no")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize("quiet", [False, True])
def test_every_other_exception_passes_through(error, quiet):
    """And ends the search."""
    obj = Both(error)
    with pytest.raises(type(error)) as info:
        take(obj, quiet=quiet)
    assert info.value is error and error.__cause__ is None and error.__context__ is None
    assert take.error.code == ERRORS["PYTHON_EXCEPTION"]
    assert obj.reads == 1


def test_where_the_attribute_is_found():
    class Slot:
        __slots__ = [CAI]

    slot = Slot()
    slot.__cuda_array_interface__ = interface()
    take(slot).release()
    refused(Slot(), TypeError, status="NO_PROTOCOL")

    class Dynamic:
        def __getattr__(self, name):
            if name == CAI:
                return interface()
            raise AttributeError(name)

    take(Dynamic()).release()

    class OnClass:
        __cuda_array_interface__ = interface()

    take(OnClass()).release()
    take(types.SimpleNamespace(__cuda_array_interface__=interface())).release()


# --- 2: read once, and never changed


class Size(tuple):
    """As `torch.Size`."""


@pytest.mark.parametrize("kind", [tuple, list, Size])
@pytest.mark.parametrize("keys", [["shape"], ["strides"], ["data"], ["stream"], ["version"], ["shape", "data", "stream"], "all"])
def test_an_integer_whose_code_empties_the_dictionary(keys, kind):
    """What was in the dictionary is read on. The code of each integer runs once."""
    calls = []

    class Integer:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            calls.append(1)
            entries.clear()
            gc.collect()
            return self.value

    values = {
        "version": Integer(3),
        "shape": kind([Integer(16), 4]),
        "strides": kind([Integer(16), 4]),
        "data": kind([Integer(ADDRESS), True]),
        "stream": Integer(1 << 40),
    }
    plain = {"shape": (16, 4), "strides": (16, 4), "data": (ADDRESS, True), "stream": 1 << 40}
    chosen = values if keys == "all" else {key: values[key] for key in keys}
    entries = interface(**plain | {"typestr": "".join(["<f", "4"])} | chosen)
    count = len(chosen)
    del values, chosen
    stored = Property(entries)
    with take(stored) as taken:
        assert (taken.shape, taken.strides, taken.typestr) == ((16, 4), (16, 4), "<f4")
        assert (taken.data, taken.readonly, taken.stream) == (ADDRESS, True, 1 << 40)
    assert len(calls) == count and not entries


def test_a_dictionary_that_makes_up_what_it_lacks_is_not_changed():
    given = collections.defaultdict(lambda: 0, interface(strides=MISSING, stream=MISSING))
    with take(Exporter(given)) as taken:
        assert taken.strides is None and taken.stream is None
    assert list(given) == ["shape", "typestr", "data", "version"]


# --- 3: who is kept alive


def test_the_object_is_kept_not_the_dictionary():
    class Value:
        pass

    value, obj = Value(), exporter()
    obj.__cuda_array_interface__["something"] = value
    alive, value_alive = weakref.ref(obj), weakref.ref(value)
    taken = take(obj)
    obj.__cuda_array_interface__ = None
    del value
    gc.collect()
    assert value_alive() is None
    del obj
    gc.collect()
    assert alive() is not None
    taken.release()
    assert alive() is None


@pytest.mark.parametrize("stream", [P.STREAM_NONE, P.STREAM_LEGACY, P.STREAM_PER_THREAD])
@pytest.mark.parametrize("protocols", [[], [P.EXCHANGE], [P.EXCHANGE, P.DLPACK]])
def test_own_objects(stream, protocols):
    """What is taken keeps the array alive, and so does the object, in whichever order they go."""
    array = make((7,), device=(P.ONEAPI, 0), stream=stream)
    obj = give(array)
    first, second = take(obj, protocols=protocols), take(obj, protocols=protocols)
    array.release()
    first.release()
    del obj
    gc.collect()
    assert array.counted.gone == 0 and second.stream == array.stream
    second.release()
    assert array.counted.gone == 1


OWN = [dict(writable=True), dict(ndim=2), dict(typestr="<f4"), dict(native=True), dict(c_contiguous=True), dict(require_stream=True)]


@pytest.mark.parametrize("options", [*OWN, {name: value for one in OWN for name, value in one.items()}])
def test_own_objects_that_meet_requirements(options):
    obj = give(make((2, 3)))
    with take(obj, **options) as first, take(obj, quiet=True, **options) as second:
        assert first.shape == second.shape == (2, 3)


@pytest.mark.parametrize(
    "array, options, kind, status",
    [
        (dict(readonly=True), dict(writable=True), BufferError, "READONLY"),
        ({}, dict(ndim=1), BufferError, "CONVERT_NDIM"),
        ({}, dict(typestr="<f8"), BufferError, "CONVERT_TYPE"),
        (dict(typestr=">f4"), dict(native=True), BufferError, "CONVERT_BYTE_ORDER"),
        (dict(strides=(4, 8)), dict(c_contiguous=True), BufferError, "CONVERT_CONTIGUOUS"),
        (dict(stream=P.STREAM_UNKNOWN), dict(require_stream=True), BufferError, "CONVERT_STREAM"),
        (dict(typestr="|O8"), dict(no_objects=True), BufferError, "CONVERT_TYPE"),
        ({}, dict(protocols=[P.SYCL_USM]), TypeError, "NO_PROTOCOL"),
    ],
)  # fmt: skip
def test_own_objects_that_do_not_meet_them(array, options, kind, status):
    refused(give(make((2, 3), **array)), kind, "", status, **options)


def test_own_objects_of_opaque_elements():
    obj = give(make((2, 3), typestr="<V2"))
    with take(obj, opaque_16bit=P.BFLOAT16) as named, take(obj) as plain:
        assert (named.array.dtype_code, plain.array.dtype_code) == (P.BFLOAT16, 0)


def test_own_objects_in_host_memory():
    obj = give(make((7,), device=(P.CPU, 0)))
    refused(obj, BufferError, "", "HOST_MEMORY")
    take(obj, host=True).release()


def test_release_without_the_lock_by_many_threads():
    """ctypes.CDLL gives the lock up: the objects go as soon as the interpreter gets to it."""
    objects = [exporter() for _ in range(64)]
    alive = [weakref.ref(obj) for obj in objects]
    taken = [take(obj) for obj in objects]
    del objects
    P.at_once(*(lambda some=taken[i::8]: [one.release(P.free) for one in some] for i in range(8)))
    assert soon(lambda: not any(ref() for ref in alive))


def test_a_destructor_that_takes_and_releases():
    """Letting an object go runs its code, which may call the library again."""
    seen = []

    class Busy(Exporter):
        def __del__(self):
            with take(exporter()) as taken:
                seen.append(taken.shape)

    for library in (P.held, P.free):
        obj = Busy(interface())
        taken = take(obj)
        del obj
        taken.release(library)
        assert soon(lambda: seen == [(3, 4)])
        seen.clear()


def python(text, *arguments):
    program = "import sys; sys.path.insert(0, sys.argv[1])\n" + BEGIN + textwrap.dedent(text)
    done = run(sys.executable, "-c", program, P.ROOT / "tests/python", *arguments, timeout=120)
    assert not done.stderr, done.stderr
    return done.stdout


BEGIN = """
import ctypes as c, gc, os, threading, time, weakref
import cai_ctypes as T
import cai_python as P
from producers import ADDRESS
class Big(P.Exporter):
    def __init__(self):
        super().__init__(dict(shape=(3, 4), typestr="<f4", data=(ADDRESS, False), version=3), more=[[] for _ in range(10)])
def some(count):
    arrays = (T.Array * count)()
    for array in arrays:
        array.struct_size = c.sizeof(T.Array)
        assert P.held.cai_array_from_python(Big(), None, c.byref(array), None) == 0
    return arrays
libc = c.CDLL(None)
def pinned(arrays):
    # ctypes' memory goes with its object; this stays.
    libc.malloc.restype = c.c_void_p
    place = libc.malloc(c.sizeof(arrays))
    c.memmove(place, arrays, c.sizeof(arrays))
    return c.c_void_p(place)
"""


def test_own_objects_after_other_types_at_their_address():
    """The type of own objects is made at the first export. A type that offered nothing may have had its address."""
    found = python("""
    seen = set()
    def other():
        class Other(P.Exporter):
            __slots__ = ()
        seen.add(id(Other))
        P.take(Other(dict(shape=(3,), typestr="<f4", data=(ADDRESS, False), version=3))).release()
    for _ in range(100):
        other()
    gc.collect()
    obj = P.give(P.make(stream=ADDRESS, stream_id=7))
    taken = P.take(obj, ndim=2)  # with options, which the fast path of own objects does not read
    assert taken.array.stream_id == 7
    print(id(type(obj)) in seen)
    """)
    assert found in ("True\n", "False\n")


class Count(str):
    """In the dictionary of a type, counts how often the type is asked for the name. It has no attribute of the name."""

    __hash__ = str.__hash__
    asked = 0

    def __eq__(self, other):
        Count.asked += 1
        return False


@pytest.mark.parametrize("offered", [{}, {"requires_grad": False}], ids=["nothing", "grad"])
def test_each_of_many_types_is_asked_once(offered):
    """CPython itself remembers too few attributes for so many types. Each time if types are not remembered."""
    members = {Count("is_conj"): None, **offered}
    objects = [type("Many", (Exporter,), members)(interface()) for _ in range(3000)]

    def asked():
        Count.asked = 0
        for obj in objects:
            take(obj).release()
        return Count.asked

    # One look into a dictionary may compare a name twice or four times: hashes differ in each process.
    first, *later = [asked() for _ in range(6)]
    assert first >= len(objects)
    if REMEMBERS_TYPES:
        assert sum(later) < 0.2 * first
    else:
        assert later == [first] * 5


# Threads that Python does not know, child processes, and the end of the process: test_life.py.


def test_the_interpreter_ends_while_arrays_are_held():
    assert python("kept = pinned(some(100)); print('end')") == "end\n"


def test_release_by_atexit_and_by_daemons():
    python("""
        import atexit
        arrays = some(3)
        atexit.register(P.free.cai_array_release, c.byref(arrays[0]))
        atexit.register(P.held.cai_array_release, c.byref(arrays[1]))
        many = some(5000)
        def work():
            for array in many:
                P.free.cai_array_release(c.byref(array))
        for _ in range(2):
            threading.Thread(target=lambda some=many: work(), daemon=True).start()
        """)
