"""cai_array_from_python: real libraries' dictionaries, and every rule of the import."""

import collections
import ctypes as c
import gc
import itertools
import subprocess
import sys
import textwrap
import threading
import types
import weakref

import numpy as np
import pytest

import cai_ctypes as T
import cai_python as P
from cai_python import ERRORS, Exporter, Refused, even, give, make, soon, take
from dlpack_ctypes import CAI_FROM_OBJECT, CaiTable, address_of
from producers import ADDRESS, STREAM, DelayedPointerTuple, StfCai

CAI = "__cuda_array_interface__"
MISSING = object()


def interface(**changes):
    found = dict(shape=(3, 4), typestr="<f4", data=(ADDRESS, False), version=3, strides=None, stream=None)
    found.update(changes)
    return {key: value for key, value in found.items() if value is not MISSING}


def exporter(**changes):
    return Exporter(interface(**changes))


def refused(obj, kind, text="", status=None, **options):
    """The exception, the key it names, the status; the same status when no exception is wanted; nothing is held."""

    def attempt(**more):
        try:
            take(obj, **options, **more).release()
        except BaseException as error:
            # Without its traceback, which holds everything.
            return type(error), str(error.args[0]), getattr(error, "code", None)
        pytest.fail("it came in")

    with even(obj):
        found, words, _ = attempt()
    assert found is kind, (found, words)
    assert text in words and words == take.error.message.decode(), words
    code, field = take.error.code, take.error.field
    assert status is None or code == ERRORS[status], words
    with even(obj):
        found, _, quiet_code = attempt(quiet=True)
    assert found is Refused and quiet_code == code and take.error.field == field
    return words


class Index:
    """A number that is none of the built-in ones."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Boom(Exception):
    pass


class Raises:
    """Raises whatever is done with it."""

    def __init__(self, error):
        self.error = error

    def _raise(self, *_):
        raise self.error

    __index__ = __len__ = __getitem__ = __bool__ = __iter__ = __int__ = _raise


# --- 1: one look, and only AttributeError means no ------------------------------------------------------------------


@pytest.mark.parametrize("obj", [None, 3, "text", b"bytes", (), [], {}, object(), object, len, types, 1.5, {1}])
def test_objects_that_offer_nothing(obj):
    refused(obj, TypeError, status="NO_PROTOCOL")


class Property:
    def __init__(self, found):
        self.found, self.reads = found, 0

    @property
    def __cuda_array_interface__(self):
        self.reads += 1
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


class Own(AttributeError):
    pass


@pytest.mark.parametrize("error", [AttributeError("none here"), Own("neither")])
def test_attribute_error_means_no(error):
    obj = Property(error)
    with pytest.raises(TypeError) as info:
        take(obj)
    assert take.error.code == ERRORS["NO_PROTOCOL"] and info.value.__cause__ is None
    assert obj.reads == 1


@pytest.mark.parametrize(
    "error",
    [RuntimeError("requires grad"), KeyError("float8"), ValueError("bf16"), TypeError("categorical"), MemoryError(), Boom(),
     NotImplementedError(), KeyboardInterrupt(), SystemExit(3), StopIteration(), BufferError("no")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize("quiet", [False, True])
def test_every_other_exception_passes_through(error, quiet):
    obj = Property(error)
    with pytest.raises(type(error)) as info:
        take(obj, quiet=quiet)
    assert info.value is error and error.__cause__ is None and error.__context__ is None
    assert take.error.code == ERRORS["PYTHON_EXCEPTION"]
    assert obj.reads == 1


def test_exceptions_of_a_property_end_the_search():
    class Both(Property):
        def __dlpack__(self, **_):
            raise AssertionError("is not asked")

        def __dlpack_device__(self):
            return (2, 0)

    error = Boom()
    with pytest.raises(Boom) as info:
        take(Both(error))
    assert info.value is error


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


def test_a_class_is_no_array():
    refused(Property, TypeError, CAI)


# --- 2: read once, and never changed --------------------------------------------------------------------------------


def test_the_property_is_read_once():
    obj = Property(interface())
    take(obj).release()
    assert obj.reads == 1
    obj = Property(interface(shape=[3, 4], strides=[16, 4], typestr="f"))
    take(obj).release()
    assert obj.reads == 1


def test_fields_are_a_picture():
    given = interface(shape=[3, 4], strides=[16, 4])
    with take(Exporter(given)) as taken:
        given["shape"][0] = 7
        given.clear()
        again = P.Taken(taken.array, owned=False)
        assert again.shape == (3, 4) and again.strides == (16, 4) and again.typestr == "<f4"


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.UserDict])
def test_the_dictionary_is_not_changed(kind):
    given = kind(interface())
    before, keys = dict(given), list(given)
    take(Exporter(given)).release()
    assert dict(given) == before and list(given) == keys
    del given["shape"]
    with pytest.raises(KeyError):
        take(Exporter(given))
    assert list(given) == keys[1:]


def test_a_dictionary_that_makes_up_what_it_lacks_is_not_changed():
    given = collections.defaultdict(lambda: 0, interface(strides=MISSING, stream=MISSING))
    with take(Exporter(given)) as taken:
        assert taken.strides is None and taken.stream is None
    assert list(given) == ["shape", "typestr", "data", "version"]


# --- 3: who is kept alive -------------------------------------------------------------------------------------------


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


def test_references():
    obj = exporter()
    with even(obj):
        many = [take(obj) for _ in range(100)]
        shared = [taken.share() for taken in many]
        for taken in many + shared:
            taken.release()
            taken.release()  # the second one does nothing


def test_release_by_another_thread_of_python():
    obj = exporter()
    alive = weakref.ref(obj)
    taken = take(obj)
    del obj
    thread = threading.Thread(target=taken.release)
    thread.start()
    thread.join()
    assert alive() is None


def test_release_without_the_lock():
    """ctypes.CDLL gives the lock up: the object goes as soon as the interpreter gets to it."""
    obj = exporter()
    alive = weakref.ref(obj)
    taken = take(obj)
    del obj
    taken.release(P.free)
    assert soon(lambda: alive() is None)
    assert not taken.array.owner


def test_release_without_the_lock_by_many_threads():
    objects = [exporter() for _ in range(64)]
    alive = [weakref.ref(obj) for obj in objects]
    taken = [take(obj) for obj in objects]
    del objects
    threads = [threading.Thread(target=lambda some=taken[i::8]: [one.release(P.free) for one in some]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert soon(lambda: not any(ref() for ref in alive))


def test_what_was_left_goes_at_the_next_import():
    """At the latest."""
    gone = []
    for _ in range(1000):
        obj = exporter()
        weakref.finalize(obj, gone.append, 1)
        taken = take(obj)
        del obj
        taken.release(P.free)
    take(exporter()).release()
    assert soon(lambda: len(gone) == 1000)


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


def test_many_threads_take_at_once():
    obj, failed = exporter(), []

    def work():
        for _ in range(500):
            try:
                with take(obj) as taken:
                    assert taken.shape == (3, 4)
                with pytest.raises(TypeError):
                    take(None)
            except BaseException as error:
                failed.append(error)
                raise

    with even(obj):
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del threads, thread
    assert not failed


# Releases what lies in an array of structures, one after another: while the interpreter ends, and when it is gone.
LATE = r"""
#include <cai/cai.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static cai_array *arrays;
static int count, interval;
static void *run(void *unused) {
    for (int i = 0; i < count; ++i) {
        usleep(interval);
        cai_inline_release(&arrays[i]);
    }
    return unused;
}
static pthread_t thread;
static void join(void) {
    pthread_join(thread, NULL);
    puts("joined");
}
void start(cai_array *these, int how_many, int microseconds, int wait) {
    arrays = these, count = how_many, interval = microseconds;
    if (wait) atexit(join); /* after the interpreter: this runs in exit() */
    pthread_create(&thread, NULL, run, NULL);
}
void at_exit(cai_array *these, int how_many) {
    arrays = these, count = how_many, interval = 0;
    atexit((void (*)(void))(void *)run);
}
"""


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    (folder / "late.c").write_text(LATE)
    command = ["gcc", "-std=gnu11", "-O1", "-g", "-shared", "-fPIC", "-I", P.ROOT / "include", folder / "late.c"]
    subprocess.run([*command, "-o", folder / "liblate.so", "-lpthread"], check=True)
    return folder / "liblate.so"


def python(text, *arguments):
    program = "import sys; sys.path.insert(0, sys.argv[1])\n" + BEGIN + textwrap.dedent(text)
    folder = str(P.ROOT / "tests/python")
    done = subprocess.run([sys.executable, "-c", program, folder, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
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


def test_the_interpreter_ends_while_arrays_are_held():
    assert python("kept = pinned(some(100)); print('end')") == "end\n"


def test_release_at_the_end_of_the_process(late):
    """In exit(), after the interpreter: nothing is done, and nothing breaks."""
    program = "late = c.CDLL(sys.argv[2]); late.at_exit(pinned(some(100)), 100); print('end')"
    assert python(program, late) == "end\n"


@pytest.mark.parametrize("microseconds", [0, 1, 20, 200])
@pytest.mark.parametrize("wait", [0, 1])
def test_release_while_the_interpreter_ends(late, microseconds, wait):
    """A thread that Python knows nothing of goes on while everything around it is torn down."""
    program = f"late = c.CDLL(sys.argv[2]); late.start(pinned(some(2000)), 2000, {microseconds}, {wait}); print('end')"
    assert python(program, late) == "end\n" + "joined\n" * wait


def test_release_by_atexit_and_by_daemons():
    python(
        """
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
        """
    )


def test_release_by_a_thread_that_python_does_not_know(late):
    """While the main thread runs on, or sleeps."""
    text = python(
        """
        late = c.CDLL(sys.argv[2])
        obj = Big()
        alive = weakref.ref(obj)
        arrays = (T.Array * 1)(T.new_array())
        assert P.held.cai_array_from_python(obj, None, c.byref(arrays[0]), None) == 0
        del obj
        late.start(arrays, 1, 1000, 0)
        end = time.monotonic() + 5
        while alive() is not None and time.monotonic() < end:
            time.sleep(0.01)
        print(alive())
        """,
        late,
    )
    assert text == "None\n"


def test_release_in_a_child():
    python(
        """
        arrays = some(4)
        child = os.fork()
        if child == 0:
            P.free.cai_array_release(c.byref(arrays[0]))
            P.held.cai_array_release(c.byref(arrays[1]))
            assert P.take(Big()).shape == (3, 4)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )


def test_the_lock_must_be_held():
    array, error = T.new_array(), T.Error()
    before = bytes(array)
    assert P.free.cai_array_from_python(exporter(), None, c.byref(array), c.byref(error)) == ERRORS["PYTHON_LOCK"]
    assert bytes(array) == before and error.code == ERRORS["PYTHON_LOCK"]


# --- 4: containers --------------------------------------------------------------------------------------------------


class Mapping(collections.abc.Mapping):
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class OnlyItems:
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]


class Sub(dict):
    pass


MAPPINGS = [dict, Sub, collections.OrderedDict, collections.UserDict, types.MappingProxyType, Mapping, OnlyItems,
            lambda entries: collections.ChainMap({}, entries), lambda entries: StfCai(**entries)]  # fmt: skip


@pytest.mark.parametrize("kind", MAPPINGS)
def test_mappings(kind):
    with take(Exporter(kind(interface(stream=STREAM)))) as taken:
        assert (taken.shape, taken.typestr, taken.data, taken.stream) == ((3, 4), "<f4", ADDRESS, STREAM)
    for key in ("shape", "typestr", "data"):
        refused(Exporter(kind(interface(**{key: MISSING}))), KeyError, f"{CAI}['{key}']", "KEY")


@pytest.mark.parametrize("kind", [Mapping, OnlyItems, collections.UserDict])
def test_strict_wants_a_dictionary(kind):
    refused(Exporter(kind(interface())), TypeError, CAI, "TYPE", strict=True)


@pytest.mark.parametrize("found", [None, 3, "shape", b"shape", [("shape", (3,))], ("shape",), {"shape"}, object(), len])
def test_no_mapping(found):
    refused(Exporter(found), TypeError, CAI, "TYPE")


def test_a_mapping_that_raises():
    error = Boom()
    with pytest.raises(Boom) as info:
        take(Exporter(Raises(error)))
    assert info.value is error


class Row(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


Point = collections.namedtuple("Point", "a b")
ROW_KINDS = [list, lambda row: Row(*row), lambda row: Point(*row), np.array, collections.deque]


@pytest.mark.parametrize("kind", ROW_KINDS, ids=["list", "sequence", "namedtuple", "numpy", "deque"])
def test_rows(kind):
    with take(exporter(shape=kind((3, 4)), strides=kind((-16, 8)), data=(ADDRESS + 64, False))) as taken:
        assert taken.shape == (3, 4) and taken.strides == (-16, 8)


@pytest.mark.parametrize("key", ["shape", "strides"])
@pytest.mark.parametrize("found", [3, "34", b"34", {3: 1, 4: 1}, {3, 4}, object(), 1.5, iter((3, 4))])
def test_no_row(key, found):
    refused(exporter(**{key: found}), TypeError, f"{CAI}['{key}']", "TYPE")


def test_no_shape():
    refused(exporter(shape=None), TypeError, f"{CAI}['shape']", "TYPE")


def test_strict_wants_tuples():
    for key, found in (("shape", [3, 4]), ("strides", [16, 4]), ("data", [ADDRESS, False])):
        refused(exporter(**{key: found}), TypeError, f"{CAI}['{key}']", "TYPE", strict=True)


@pytest.mark.parametrize("kind", [tuple, list, lambda pair: DelayedPointerTuple(pair[0]), lambda pair: Point(*pair)])
def test_data(kind):
    with take(exporter(data=kind((ADDRESS, False)))) as taken:
        assert taken.data == ADDRESS and not taken.readonly


@pytest.mark.parametrize("found", [None, ADDRESS, "ab", b"ab", {0: ADDRESS, 1: False}, {ADDRESS, False}])
def test_no_data(found):
    refused(exporter(data=found), TypeError, f"{CAI}['data']", "TYPE")


@pytest.mark.parametrize("found", [(), (ADDRESS,), (ADDRESS, False, 0)])
def test_data_of_another_length(found):
    refused(exporter(data=found), ValueError, f"{CAI}['data']", "VALUE")


def test_a_row_that_raises():
    for key in ("shape", "strides", "data"):
        error = Boom()
        with pytest.raises(Boom) as info:
            take(exporter(**{key: Raises(error)}))
        assert info.value is error


def test_rows_that_change_while_they_are_read():
    """Numbers may run code. Whatever it does to the rows and to the dictionary, it ends in an answer."""

    class Clears:
        def __init__(self, what, value):
            self.what, self.value = what, value

        def __index__(self):
            self.what.clear()
            gc.collect()
            return self.value

    for key in ("shape", "strides", "data"):
        row = []
        row += [Clears(row, ADDRESS if key == "data" else 4), 4]
        given = interface(**{key: row})
        try:
            take(Exporter(given)).release()
        except (IndexError, ValueError, TypeError):
            pass
        given = interface()
        given["shape"] = [Clears(given, 3), 4]
        try:
            take(Exporter(given)).release()
        except KeyError:
            pass
    # A length that is not the length.
    class Long(Row):
        def __len__(self):
            return 5

    with pytest.raises(IndexError):
        take(exporter(shape=Long(3, 4)))

    class Negative(Row):
        def __len__(self):
            return -1

    with pytest.raises(ValueError):
        take(exporter(shape=Negative(3, 4)))


# --- 5: versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, np.int64(2), Index(3)])
def test_versions(version):
    number = version.__index__()
    with take(exporter(version=version, stream=MISSING)) as taken:
        assert taken.version == number
        assert taken.stream == (None if number == 3 else P.STREAM_UNKNOWN)


def test_no_version():
    with take(exporter(version=MISSING, stream=MISSING)) as taken:
        assert taken.stream == P.STREAM_UNKNOWN
    refused(exporter(version=MISSING), KeyError, f"{CAI}['version']", "KEY", strict=True)


@pytest.mark.parametrize("version", [4, 100, -1, 2**70, -(2**70)])
def test_versions_that_do_not_exist(version):
    refused(exporter(version=version), ValueError, f"{CAI}['version']")


@pytest.mark.parametrize("version", [True, "3", 3.0, None, (3,), b"3"])
def test_no_number_of_a_version(version):
    refused(exporter(version=version), TypeError, f"{CAI}['version']", "TYPE")


# --- 6: strides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strides", [None, MISSING])
def test_no_strides(strides):
    with take(exporter(strides=strides), c_contiguous=True) as taken:
        assert taken.strides is None and taken.contiguous()


@pytest.mark.parametrize(
    "shape, strides, dense",
    [((3, 4), (16, 4), True), ((3, 4), (4, 12), False), ((3, 4), (32, 4), False), ((3, 4), (0, 4), False),
     ((3, 4), (0, 0), False), ((3, 4), (16, 0), False), ((3, 4), (-16, 4), False), ((3, 4), (17, 5), False),
     ((1, 4), (999, 4), True), ((3, 1), (4, -7), True), ((1, 1), (0, 0), True), ((0, 4), (7, 9), True),
     ((4,), (-4,), False), ((), (), True)],
)  # fmt: skip
def test_strides(shape, strides, dense):
    given = exporter(shape=shape, strides=strides, data=(ADDRESS + 4096, False))
    with take(given) as taken:
        assert taken.shape == shape and taken.contiguous() == dense
        assert taken.strides == strides or (dense and taken.strides is None)
    if dense:
        take(given, c_contiguous=True).release()
    else:
        refused(given, BufferError, "strides", "CONVERT_CONTIGUOUS", c_contiguous=True)


@pytest.mark.parametrize("strides", [(), (4,), (64, 16, 4)])
def test_another_number_of_strides(strides):
    refused(exporter(strides=strides), ValueError, f"{CAI}['strides']")


def test_scalars_have_no_strides():
    with take(exporter(shape=(), strides=())) as taken:
        assert taken.ndim == 0 and taken.shape == () and taken.contiguous()
    refused(exporter(shape=(), strides=(4,)), ValueError, f"{CAI}['strides']")


# --- 7: out again, where 0-stride dimensions are not contiguous: test_to_python.py -----------------------------------
# --- 8: empty arrays ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (0, 0), (2, 0, 2**62)])
@pytest.mark.parametrize("pointer", [0, None, ADDRESS, 0xDEAD_BEEF, 2**64 - 1])
def test_empty(shape, pointer):
    with take(exporter(shape=shape, data=(pointer, False), strides=None), device=True) as taken:
        assert taken.data == 0 and taken.shape == shape
    given = exporter(shape=shape, data=(pointer, True), strides=(2**62,) * len(shape))
    with take(given) as taken:
        assert taken.data == 0 and taken.readonly


def test_elements_need_an_address():
    refused(exporter(data=(0, False)), ValueError, f"{CAI}['data'][0]", "DATA_NULL")
    refused(exporter(data=(None, False)), TypeError, f"{CAI}['data'][0]", "TYPE")
    refused(exporter(shape=(), data=(0, False)), ValueError, f"{CAI}['data'][0]", "DATA_NULL")


# --- 9, 10: streams -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [1, 2, 3, STREAM, 2**63 - 1, 2**63, 2**64 - 3, Index(STREAM), np.uint64(2**63 + 5)])
@pytest.mark.parametrize("version", [2, 3])
def test_streams(stream, version):
    """That there is one decides, not the version."""
    with take(exporter(stream=stream, version=version)) as taken:
        assert taken.stream == stream.__index__() and taken.version == 3


def test_no_stream():
    for version, stream in ((3, None), (3, MISSING), (2, None)):
        with take(exporter(stream=stream, version=version)) as taken:
            assert taken.stream is None
    for version in (0, 1, 2):
        with take(exporter(stream=MISSING, version=version)) as taken:
            assert taken.stream == P.STREAM_UNKNOWN


@pytest.mark.parametrize("stream", [0, Index(0), np.int64(0)])
def test_stream_zero(stream):
    refused(exporter(stream=stream), ValueError, f"{CAI}['stream']", "STREAM_ZERO")
    with take(exporter(stream=stream), lenient=True) as taken:
        assert taken.stream == P.STREAM_LEGACY


@pytest.mark.parametrize("stream", [-1, 2**64, 2**200, -(2**200), 2**64 - 1, 2**64 - 2])
@pytest.mark.parametrize("lenient", [False, True])
def test_streams_out_of_range(stream, lenient):
    refused(exporter(stream=stream), ValueError, f"{CAI}['stream']", lenient=lenient)


@pytest.mark.parametrize("stream", [True, False, 1.0, "1", (1,), object()])
def test_no_number_of_a_stream(stream):
    refused(exporter(stream=stream), TypeError, f"{CAI}['stream']", "TYPE")


# --- 12: read-only --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False, 1, 0, np.True_, np.False_])
def test_readonly(flag):
    given = exporter(data=(ADDRESS, flag))
    with take(given) as taken:
        assert taken.readonly == bool(flag)
    if flag:
        refused(given, BufferError, "data", "READONLY", writable=True)
    else:
        take(given, writable=True).release()


@pytest.mark.parametrize("flag", [None, "False", b"", 0.0, ()])
def test_no_flag(flag):
    refused(exporter(data=(ADDRESS, flag)), TypeError, f"{CAI}['data'][1]", "TYPE")


def test_strict_wants_a_bool():
    refused(exporter(data=(ADDRESS, 0)), TypeError, f"{CAI}['data'][1]", "TYPE", strict=True)


def test_a_flag_that_raises():
    class Undecided:
        def __bool__(self):
            raise error

    error = Boom()
    with pytest.raises(Boom) as info:
        take(exporter(data=(ADDRESS, Undecided())))
    assert info.value is error


# --- 13: masks ------------------------------------------------------------------------------------------------------


def mask_of(**changes):
    return exporter(**(dict(typestr="|b1", data=(ADDRESS + 1024, False)) | changes))


@pytest.mark.parametrize("typestr", ["|b1", "<b1", "|t1", "<t1", "|u1", "|i1", "<i4", "|t8"])
def test_mask(typestr):
    mask = mask_of(typestr=typestr, stream=STREAM)
    obj = exporter(mask=mask, stream=2)
    with even(obj, mask), take(obj, allow_mask=True) as taken:
        assert taken.stream == 2 and taken.mask.stream == STREAM
        assert taken.mask.shape == (3, 4) and taken.mask.typestr == typestr and taken.mask.data == ADDRESS + 1024


def test_masks_must_be_allowed():
    """Who does not ask for masks gets no array that has one, and the mask is not even looked at."""
    with take(exporter(mask=None)) as taken:
        assert taken.mask is None
    for mask in (mask_of(), mask_of(typestr="<f4"), 3, Property(Boom())):
        refused(exporter(mask=mask), BufferError, "['mask']", "CONVERT_MASK")
    masked = make((3, 4), mask=make((3, 4), "|b1"))
    obj = give(masked)
    for protocols in ([], [P.EXCHANGE], [P.CUDA_ARRAY_INTERFACE]):
        with even(obj):
            refused(obj, BufferError, "mask", "CONVERT_MASK", protocols=protocols)
            with take(obj, protocols=protocols, allow_mask=True) as taken:
                assert taken.mask.typestr == "|b1"
    masked.release()
    del obj
    gc.collect()
    assert masked.counted.gone == 1


def test_mask_is_kept_alive():
    class Fresh(Exporter):
        """Nobody but the array holds the mask that this object makes."""

        @property
        def __cuda_array_interface__(self):
            mask = mask_of()
            self.alive = weakref.ref(mask)
            return interface(mask=mask)

        def __init__(self):
            self.alive = None

    obj = Fresh()
    taken = take(obj, allow_mask=True)
    gc.collect()
    assert obj.alive() is not None
    # It can be kept by itself, longer than the array.
    mask = taken.mask.share()
    taken.release()
    gc.collect()
    assert obj.alive() is not None and mask.data == ADDRESS + 1024
    mask.release()
    gc.collect()
    assert obj.alive() is None


def test_masks_of_masks():
    innermost = mask_of(shape=(4,))
    middle = mask_of(mask=innermost, stream=2)
    obj = exporter(mask=middle)
    with even(obj, middle, innermost), take(obj, allow_mask=True) as taken:
        assert taken.mask.mask.shape == (4,) and taken.mask.mask.mask is None and taken.mask.stream == 2


def test_masks_that_go_on():
    chain = mask_of()
    for _ in range(7):
        chain = mask_of(mask=chain)
    take(exporter(mask=chain), allow_mask=True).release()
    chain = mask_of(mask=chain)
    refused(exporter(mask=chain), ValueError, "['mask']", "MASK_DEPTH", allow_mask=True)
    round_and_round = mask_of()
    round_and_round.__cuda_array_interface__["mask"] = round_and_round
    for obj in (exporter(mask=round_and_round), round_and_round):
        with pytest.raises(ValueError, match="mask"):
            take(obj, allow_mask=True)
        assert take.error.code in (ERRORS["MASK_DEPTH"], ERRORS["MASK_CYCLE"])
    del round_and_round.__cuda_array_interface__["mask"]

    class Endless:
        @property
        def __cuda_array_interface__(self):
            return interface(typestr="|b1", mask=Endless())

    with pytest.raises(ValueError, match="mask"):
        take(Endless(), allow_mask=True)


@pytest.mark.parametrize(
    "changes, kind, status",
    [(dict(typestr="<f4"), ValueError, "MASK_TYPE"), (dict(shape=(4, 3)), ValueError, "MASK_SHAPE"),
     (dict(shape=(2, 3, 4)), ValueError, "MASK_SHAPE"), (dict(shape=MISSING), KeyError, "KEY"),
     (dict(stream=0), ValueError, "STREAM_ZERO"), (dict(data=(0, False)), ValueError, "DATA_NULL"),
     (dict(typestr=7), TypeError, "TYPE"), (dict(shape=(3, -1)), ValueError, "SHAPE_NEGATIVE")],
)  # fmt: skip
def test_masks_that_are_none(changes, kind, status):
    mask = mask_of(**changes)
    with even(mask):
        refused(exporter(mask=mask), kind, "['mask']", status, allow_mask=True)


@pytest.mark.parametrize("mask", [3, "mask", object(), {}, True])
def test_masks_without_a_dictionary(mask):
    refused(exporter(mask=mask), TypeError, f"{CAI}['mask']", allow_mask=True)


def test_version_0_has_no_mask():
    refused(exporter(version=0, stream=MISSING, mask=mask_of()), ValueError, "mask", "MASK_VERSION", allow_mask=True)


def test_a_mask_that_raises():
    error = Boom()
    with pytest.raises(Boom) as info:
        take(exporter(mask=Property(error)), allow_mask=True)
    assert info.value is error


def test_mask_of_bytes():
    """cuDF's masks are bytes of eight elements each, and call themselves bytes: test_producers.py. From others, as many
    bytes as elements are one flag each, and other numbers are refused."""
    with take(exporter(shape=(64,), mask=mask_of(typestr="|u1", shape=(64,))), allow_mask=True) as taken:
        assert taken.mask.typestr == "|u1" and taken.mask.shape == (64,)
    given = exporter(shape=(100,), mask=mask_of(typestr="|u1", shape=(64,)))
    refused(given, ValueError, "['mask']", "MASK_SHAPE", allow_mask=True)
    with take(given, lenient=True, allow_mask=True) as taken:
        assert taken.mask.typestr == "|t1" and taken.mask.shape == (100,)
    given = exporter(shape=(100,), mask=mask_of(typestr="|u1", shape=(12,)))
    refused(given, ValueError, "['mask']", "MASK_SHAPE", lenient=True, allow_mask=True)


# --- 14, 15: types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typestr", ["<f4", ">f4", "|f4", "|i8", "|u2", "<u1", "<b1", "|b1", "<c8", "<M8[us]", "<V2", "|V3", "|S5", "<U2", "<t1", "<f1"]
)
@pytest.mark.parametrize("strict", [False, True])
def test_types(typestr, strict):
    with take(exporter(typestr=typestr), strict=strict) as taken:
        assert taken.typestr == typestr and taken.dtype_code == 0


@pytest.mark.parametrize("typestr, meant", [("B", "|u1"), ("b", "|i1"), ("f", "<f4"), ("d", "<f8"), ("|i", "<i4"), ("?", "|b1")])
def test_types_without_order_or_size(typestr, meant):
    with take(exporter(typestr=typestr), typestr=meant) as taken:
        assert taken.typestr[1:] == meant[1:]
    refused(exporter(typestr=typestr), ValueError, f"{CAI}['typestr']", strict=True)


@pytest.mark.parametrize("typestr", ["", "x", "<f", "<f3", "<", "<f4 ", " <f4", "<f4\0", "<f4\0\0", "f\0", "<f4,<f4", "float32x", "ä", "\ud800", "<" + "f4" * 20])
def test_types_that_do_not_exist(typestr):
    if typestr == "\ud800":
        with pytest.raises(ValueError):
            take(exporter(typestr=typestr))
    elif typestr != "<f":
        refused(exporter(typestr=typestr), ValueError, f"{CAI}['typestr']")


@pytest.mark.parametrize("typestr", [None, b"<f4", np.dtype("f4"), float, 4, ("<f4",)])
def test_no_text_of_a_type(typestr):
    refused(exporter(typestr=typestr), TypeError, f"{CAI}['typestr']", "TYPE")


def test_texts_of_other_classes():
    class Text(str):
        pass

    with take(exporter(typestr=Text("<f4"))) as taken:
        assert taken.typestr == "<f4"
    take(exporter(typestr=np.str_("<f4"))).release()
    given = {Text(key): value for key, value in interface(stream=STREAM).items()}
    with take(Exporter(given)) as taken:
        assert taken.stream == STREAM


def test_elements_without_bytes():
    for typestr in ("|V0", "|S0"):
        refused(exporter(typestr=typestr), ValueError, f"{CAI}['typestr']", "ITEMSIZE")


def test_foreign_byte_order():
    refused(exporter(typestr=">f4"), BufferError, "typestr", "CONVERT_BYTE_ORDER", native=True)
    for typestr in ("<f4", "|f4", "|u1", ">u1", "|V4"):
        take(exporter(typestr=typestr), native=True).release()
    fields = exporter(typestr="|V4", descr=[("a", ">i4")])
    refused(fields, BufferError, "", "CONVERT_BYTE_ORDER", native=True)


@pytest.mark.parametrize(
    "typestr, options, code",
    [("<V2", dict(opaque_16bit=P.BFLOAT16), P.BFLOAT16), ("|V2", dict(opaque_16bit=P.BFLOAT16), P.BFLOAT16),
     ("<V1", dict(opaque_8bit=P.FLOAT8_E4M3FN), P.FLOAT8_E4M3FN), ("<f1", dict(opaque_8bit=P.FLOAT8_E5M2), P.FLOAT8_E5M2),
     ("<V1", dict(opaque_16bit=P.BFLOAT16), 0), ("<V2", dict(opaque_8bit=P.FLOAT8_E5M2), 0), ("<V4", dict(opaque_16bit=P.BFLOAT16), 0),
     ("<f4", dict(opaque_8bit=P.FLOAT8_E5M2, opaque_16bit=P.BFLOAT16), 0), ("<u2", dict(opaque_16bit=P.BFLOAT16), 0),
     ("<f2", dict(opaque_16bit=P.BFLOAT16), 0), ("|u1", dict(opaque_8bit=P.FLOAT8_E4M3FN), 0)],
)  # fmt: skip
def test_opaque_types(typestr, options, code):
    with take(exporter(typestr=typestr), **options) as taken:
        assert taken.typestr == typestr and taken.dtype_code == code


def test_opaque_types_with_fields_are_not_opaque():
    given = exporter(typestr="|V2", descr=[("a", "|i1"), ("b", "|i1")])
    with take(given, opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == 0 and taken.descr
    # A row without a name says no more than the typestr: that is how CuPy writes bfloat16.
    with take(exporter(typestr="<V2", descr=[("", "<V2")]), opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == P.BFLOAT16 and taken.descr is None


@pytest.mark.parametrize("typestr, options", [("<V1", dict(opaque_8bit=P.BFLOAT16)), ("<V2", dict(opaque_16bit=P.FLOAT8_E5M2)), ("<V1", dict(opaque_8bit=9999)), ("<V2", dict(opaque_16bit=1))])
def test_codes_of_another_size(typestr, options):
    with pytest.raises(ValueError, match="options->"):
        take(exporter(typestr=typestr), **options)
    assert take.error.code in (ERRORS["ARGUMENT"], ERRORS["DTYPE_CODE"])


@pytest.mark.parametrize(
    "typestr, wanted, fits",
    [("<f4", "<f4", True), ("<f4", "|f4", True), ("|f4", "<f4", True), ("|u1", "<u1", True), ("f", "<f4", True),
     ("<f4", ">f4", False), ("<f4", "<f8", False), ("<f4", "<i4", False), ("<i8", "<u8", False), ("<M8[us]", "<M8[ns]", False),
     ("<M8[us]", "<M8[us]", True), ("<V2", "|V2", True)],
)  # fmt: skip
def test_the_type_that_is_demanded(typestr, wanted, fits):
    given = exporter(typestr=typestr)
    if fits:
        take(given, typestr=wanted).release()
    else:
        refused(given, BufferError, "typestr", "CONVERT_TYPE", typestr=wanted)


def test_the_code_that_is_demanded():
    given = exporter(typestr="<V2")
    with take(given, typestr="<V2", dtype_code=P.BFLOAT16, opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == P.BFLOAT16
    refused(given, BufferError, "", "CONVERT_TYPE", typestr="<V2", dtype_code=P.BFLOAT16)
    for wanted in ("nonsense", "f4", "<f3"):
        with pytest.raises(Exception):
            take(given, typestr=wanted)
        assert take.error.code in (ERRORS["ARGUMENT"], 241, 242, 243)


# --- 16: fields -----------------------------------------------------------------------------------------------------


def test_fields():
    kind = np.dtype([("a", "i4"), ("b", "i1"), ("c", "f8", (2,)), (("title", "d"), "u2")], align=True)
    given = exporter(typestr=kind.str, descr=kind.descr)
    with take(given) as taken:
        assert np.dtype(eval(taken.descr)) == np.dtype(kind.descr)
        assert np.dtype(eval(taken.descr)).itemsize == kind.itemsize
    nested = np.dtype([("x", [("y", "<i4"), ("z", ">f8")]), ("w", "|S3")])
    with take(exporter(typestr=nested.str, descr=nested.descr)) as taken:
        assert np.dtype(eval(taken.descr)) == nested


@pytest.mark.parametrize("typestr", ["<f4", "<i8", "|u1"])
@pytest.mark.parametrize("descr", [[("", "<f4")], [("a", "|i1")], "nonsense", 3, []])
def test_fields_of_plain_types_are_ignored(typestr, descr):
    with take(exporter(typestr=typestr, descr=descr)) as taken:
        assert taken.descr is None


@pytest.mark.parametrize("typestr", ["|V8", "<V8"])
def test_padding(typestr):
    rows = [("a", "<i4"), ("b", "|i1"), ("", "|V3")]
    with take(exporter(typestr=typestr, descr=rows)) as taken:
        assert eval(taken.descr) == rows
    refused(exporter(typestr=typestr, descr=rows[:2]), ValueError, f"{CAI}['descr']", "DESCR_SIZE")
    refused(exporter(typestr=typestr, descr=rows * 2), ValueError, f"{CAI}['descr']")


@pytest.mark.parametrize("descr", [3, "text", {"a": "<i4"}, object()])
def test_no_fields(descr):
    refused(exporter(typestr="|V8", descr=descr), TypeError, f"{CAI}['descr']", "TYPE")


@pytest.mark.parametrize("descr", [[3], [("a",)], [("a", "<i4", 2, 3)], [("a", "<i3")], [("a", 7)], [(7, "<i8")], [("a", "<i4"), ("a", "<i4")]])
def test_malformed_fields(descr):
    with pytest.raises((TypeError, ValueError), match="descr"):
        take(exporter(typestr="|V8", descr=descr))


def test_fields_that_contain_themselves():
    rows = []
    rows.append(("a", rows))
    with pytest.raises(ValueError, match="descr"):
        take(exporter(typestr="|V8", descr=rows))
    deep = [("a", "<i8")]
    for _ in range(3000):
        deep = [("a", deep)]
    with pytest.raises((ValueError, RecursionError)):
        take(exporter(typestr="|V8", descr=deep))


def test_no_descr():
    with take(exporter(typestr="|V8", descr=None)) as taken:
        assert taken.descr is None
    with take(exporter(typestr="|V8")) as taken:
        assert taken.descr is None


# --- 18: numbers ----------------------------------------------------------------------------------------------------

NOT_NUMBERS = [True, False, 1.0, 1.5, "4", b"4", None, (4,), np.float64(4), 4j, object()]
NOT_NUMBERS += [] if hasattr(np.True_, "__index__") else [np.True_]  # older NumPys count with it
HUGE = [2**63, 2**64, 2**200, -(2**63) - 1, -(2**200)]


@pytest.mark.parametrize("found", NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize("key", ["shape", "strides"])
def test_items_that_are_no_numbers(key, found):
    row = (3, found) if key == "shape" else (16, found)
    refused(exporter(**{key: row}), TypeError, f"{CAI}['{key}'][1]", "TYPE")


@pytest.mark.parametrize("found", HUGE, ids=str)
@pytest.mark.parametrize("key", ["shape", "strides"])
def test_huge_items(key, found):
    refused(exporter(**{key: (found, 4)}), ValueError, f"{CAI}['{key}'][0]")


def test_a_negative_extent():
    text = refused(exporter(shape=(3, -1)), ValueError, status="SHAPE_NEGATIVE")
    assert text == f"{CAI}['shape'][1]: found -1, expected at least 0"


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64, Index])
def test_numbers_by_index(kind):
    with take(exporter(shape=(kind(3), 4), strides=(kind(64), 4), data=(np.uint64(ADDRESS), False))) as taken:
        assert taken.shape == (3, 4) and taken.strides == (64, 4) and taken.data == ADDRESS


@pytest.mark.parametrize("where", ["shape", "strides", "data", "stream", "version"])
def test_a_number_that_raises(where):
    class Bad:
        def __index__(self):
            raise error

    error = Boom()
    given = dict(shape=(Bad(), 4), strides=(Bad(), 4), data=(Bad(), False), stream=Bad(), version=Bad())[where]
    with pytest.raises(Boom) as info:
        take(exporter(**{where: given}))
    assert info.value is error


@pytest.mark.parametrize("found", [True, 1.5, "4096", b"x", (1,), object()], ids=repr)
def test_addresses_that_are_no_numbers(found):
    refused(exporter(data=(found, False)), TypeError, f"{CAI}['data'][0]", "TYPE")


@pytest.mark.parametrize("found", [-1, -ADDRESS, 2**64, 2**200])
def test_addresses_out_of_range(found):
    refused(exporter(data=(found, False)), ValueError, f"{CAI}['data'][0]")


@pytest.mark.parametrize("address", [1, 2**31, 2**32 + 1, 2**47, 2**63, 2**63 + 4096, 2**64 - 64])
def test_addresses(address):
    with take(exporter(data=(address, False))) as taken:
        assert taken.data == address


@pytest.mark.parametrize(
    "changes, key, status",
    [(dict(shape=(2**62, 4)), "shape", "SIZE_OVERFLOW"), (dict(shape=(2**32, 2**32)), "shape", "SIZE_OVERFLOW"),
     (dict(shape=(2**61,), typestr="<f8"), "shape", "SIZE_OVERFLOW"),
     (dict(shape=(3, 2), strides=(2**62, 4)), "strides", "SPAN_OVERFLOW"),
     (dict(shape=(4, 2), strides=(-(2**62), 4)), "strides", "SPAN_OVERFLOW"),
     (dict(shape=(2, 2), strides=(-(2**63), 4)), "data", "ADDRESS_RANGE"),
     (dict(data=(2**64 - 47, False)), "data", "ADDRESS_RANGE"),
     (dict(data=(8, False), shape=(4,), strides=(-4,)), "data", "ADDRESS_RANGE")],
)  # fmt: skip
def test_reach(changes, key, status):
    refused(exporter(**changes), ValueError, f"{CAI}['{key}']", status)


@pytest.mark.parametrize("ndim", [0, 1, 8, 63, 64])
def test_dimensions(ndim):
    with take(exporter(shape=(1,) * ndim, strides=(4,) * ndim), ndim=ndim) as taken:
        assert taken.ndim == ndim
    refused(exporter(shape=(1,) * ndim), BufferError, "shape", "CONVERT_NDIM", ndim=ndim + 1)


@pytest.mark.parametrize("ndim", [65, 1000])
def test_too_many_dimensions(ndim):
    refused(exporter(shape=(1,) * ndim), ValueError, f"{CAI}['shape']", "NDIM")


# --- 19: what else is in the dictionary, and what else the object offers ------------------------------------------------


def test_unknown_keys():
    given = {"pitch": object(), 7: 8, None: None, ("a",): 1, "Shape": (9,), **interface(stream=STREAM), "event": 3, "shape2": 1}
    with take(Exporter(given)) as taken:
        assert taken.shape == (3, 4) and taken.stream == STREAM
    take(Exporter(given), strict=True).release()


def test_optional_keys_that_are_none():
    with take(exporter(strides=None, descr=None, mask=None, stream=None)) as taken:
        assert (taken.strides, taken.descr, taken.mask, taken.stream) == (None,) * 4


def test_order_of_keys():
    entries = list(interface(stream=STREAM, descr=[("", "<f4")]).items())
    for order in itertools.islice(itertools.permutations(entries), 0, 5040, 97):
        with take(Exporter(dict(order))) as taken:
            assert (taken.shape, taken.typestr, taken.data, taken.stream) == ((3, 4), "<f4", ADDRESS, STREAM)


def test_keys_that_compare_as_they_like():
    class Key:
        def __init__(self, error=None):
            self.error = error

        def __hash__(self):
            return hash("shape")

        def __eq__(self, other):
            if self.error:
                raise self.error
            return False

    take(Exporter({Key(): 1, **interface()})).release()
    with pytest.raises(Boom):
        take(Exporter({Key(Boom()): 1, **{k: v for k, v in interface().items() if k != "shape"}}))


class Dlpack:
    """An object with `__dlpack__`, which says how it was called."""

    def __init__(self, array, device=(2, 0), **others):
        self.source, self.device, self.calls = give(array), device, []
        self.__dict__.update(others)

    def __dlpack__(self, **options):
        self.calls.append(options)
        return self.source.__dlpack__(max_version=options.get("max_version"), stream=-1)

    def __dlpack_device__(self):
        return self.device


def test_both_protocols():
    array = make((5,), data=0x1234_0000)
    both = Dlpack(array, __cuda_array_interface__=interface())
    with take(both) as taken:
        assert taken.shape == (3, 4) and not both.calls
    with take(both, protocols=[P.CUDA_ARRAY_INTERFACE, P.DLPACK]) as taken:
        assert taken.shape == (3, 4) and not both.calls
    for protocols in ([P.DLPACK, P.CUDA_ARRAY_INTERFACE], [P.DLPACK]):
        with take(both, protocols=protocols) as taken:
            assert taken.shape == (5,) and taken.data == 0x1234_0000
    del both.__cuda_array_interface__
    with take(both) as taken:
        assert taken.shape == (5,)
    refused(both, TypeError, status="NO_PROTOCOL", protocols=[P.CUDA_ARRAY_INTERFACE])
    refused(exporter(), TypeError, status="NO_PROTOCOL", protocols=[P.DLPACK, P.SYCL_USM, P.BUFFER])


@pytest.mark.parametrize("stream, asked", [(P.STREAM_UNKNOWN, 1), (1, 1), (2, 2), (STREAM, STREAM)])
def test_dlpack_is_told_the_stream(stream, asked):
    obj = Dlpack(make((5,)))
    with take(obj, protocols=[P.DLPACK], stream=stream) as taken:
        assert taken.stream == asked and taken.device == (P.CUDA, 0)
    (call,) = obj.calls
    assert call["stream"] == asked and call["max_version"][0] == 1
    assert type(call["stream"]) is int and type(call["max_version"]) is tuple


def test_dlpack_without_versions():
    """Producers that know no `max_version` are asked again without it."""

    class Old(Dlpack):
        def __dlpack__(self, stream=None):
            self.calls.append(stream)
            return self.source.__dlpack__(stream=-1)

    obj = Old(make((5,)))
    with take(obj, protocols=[P.DLPACK], stream=STREAM) as taken:
        assert taken.shape == (5,) and taken.stream == STREAM
    assert obj.calls == [STREAM]


def test_dlpack_that_raises():
    for error in (Boom(), RuntimeError(), BufferError(), TypeError("mine")):

        class Bad(Dlpack):
            def __dlpack__(self, **_):
                raise error

        with pytest.raises(type(error)) as info:
            take(Bad(make((5,))), protocols=[P.DLPACK])
        assert info.value is error


def test_dlpack_lifetime():
    array = make((5,))
    obj = Dlpack(array)
    array.release()
    taken = take(obj, protocols=[P.DLPACK])
    del obj
    gc.collect()
    assert array.counted.gone == 0
    taken.release(P.free)
    assert soon(lambda: array.counted.gone == 1)


def test_dlpack_capsules_that_are_none():
    class Bad(Dlpack):
        def __dlpack__(self, **_):
            return self.found

    capsule = give(make((5,))).__dlpack__()
    api = c.pythonapi
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
    for found in (None, 3, object(), api.PyCapsule_New(ADDRESS, b"used_dltensor", None), api.PyCapsule_New(ADDRESS, b"other", None)):
        with pytest.raises((TypeError, ValueError)):
            take(Bad(make((5,)), found=found), protocols=[P.DLPACK])
    take(Bad(make((5,)), found=capsule), protocols=[P.DLPACK]).release()


@pytest.mark.parametrize("protocols", [[9], [3, 200], [3, 255, 1]])
def test_protocols_that_do_not_exist(protocols):
    with pytest.raises(Exception):
        take(exporter(), protocols=protocols)
    assert take.error.code == ERRORS["NEWER_CALLER"] and take.error.field.startswith(b"options->protocols[")


# --- relatives: SYCL, buffers ---------------------------------------------------------------------------------------


class Usm:
    def __init__(self, **changes):
        found = dict(data=(ADDRESS, False), shape=(3, 4), strides=None, typestr="|f4", version=1, syclobj=capsule("SyclQueueRef"), offset=0)
        found.update(changes)
        self.__sycl_usm_array_interface__ = {key: value for key, value in found.items() if value is not MISSING}


NAMES = {}


def capsule(name, address=0x5151_0000):
    api = c.pythonapi
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
    NAMES.setdefault(name, name.encode())
    return api.PyCapsule_New(address, NAMES[name], None)


class HasCapsule:
    def __init__(self, name):
        self.name = name

    def _get_capsule(self):
        return capsule(self.name)


@pytest.mark.parametrize("kind", [capsule, HasCapsule])
def test_sycl(kind):
    obj = Usm(syclobj=kind("SyclQueueRef"))
    with even(obj), take(obj) as taken:
        assert taken.device[0] == P.ONEAPI and taken.data == ADDRESS and taken.shape == (3, 4) and taken.typestr == "|f4"
        assert taken.stream == 0x5151_0000
    with take(Usm(syclobj=kind("SyclContextRef"))) as taken:
        assert taken.context == 0x5151_0000 and taken.stream in (None, P.STREAM_UNKNOWN)


def test_sycl_counts_elements():
    with take(Usm(strides=(8, -2), offset=7, data=(ADDRESS, True))) as taken:
        assert taken.strides == (32, -8) and taken.data == ADDRESS + 28 and taken.readonly and taken.byte_offset == 0
    with take(Usm(offset=MISSING, strides=MISSING)) as taken:
        assert taken.data == ADDRESS and taken.strides is None
    with take(Usm(shape=(0, 4), offset=3)) as taken:
        assert taken.data == 0


@pytest.mark.parametrize(
    "changes, kind",
    [(dict(version=2), ValueError), (dict(shape=MISSING), KeyError), (dict(typestr=MISSING), KeyError),
     (dict(data=MISSING), KeyError), (dict(strides=(2**62, 1)), ValueError), (dict(offset=2**62), ValueError),
     (dict(offset=1.5), TypeError), (dict(syclobj=3), TypeError), (dict(syclobj=capsule("other")), (TypeError, ValueError))],
)  # fmt: skip
def test_malformed_sycl(changes, kind):
    with pytest.raises(kind, match="__sycl_usm_array_interface__"):
        take(Usm(**changes))


class Handle:
    def __init__(self, pointer):
        self.int_ptr = pointer


class OpenCl:
    """pyopencl.array.Array: `data` raises where there is an offset, so `base_data` it is."""

    def __init__(self, shape=(3, 4), strides=(16, 4), offset=0, handle=0x6161_0000, dtype="f4"):
        self.base_data, self.offset, self.shape, self.strides = Handle(handle), offset, shape, strides
        self.dtype = np.dtype(dtype)


@pytest.mark.parametrize("offset", [0, 16])
def test_opencl(offset):
    obj = OpenCl(offset=offset)
    with even(obj), take(obj) as taken:
        assert taken.device[0] == P.OPENCL and taken.data == 0x6161_0000 and taken.byte_offset == offset
        assert taken.shape == (3, 4) and taken.typestr == "<f4" and taken.contiguous()


# --- host memory ----------------------------------------------------------------------------------------------------

WAYS = [[], [P.DLPACK], [P.ARRAY_STRUCT], [P.ARRAY_INTERFACE]]
HOST_ARRAYS = {
    "dense": lambda: np.arange(12, dtype="f4").reshape(3, 4),
    "fortran": lambda: np.asfortranarray(np.arange(12, dtype="i8").reshape(3, 4)),
    "backwards": lambda: np.arange(12, dtype="u2")[::-2],
    "part": lambda: np.zeros((8, 8), "c16")[1:5, ::3],
    "broadcast": lambda: np.broadcast_to(np.arange(4, dtype="f8"), (3, 4)),
    "scalar": lambda: np.array(3.5),
    "empty": lambda: np.zeros((0, 4), "i4"),
    "bools": lambda: np.zeros(7, bool),
    "half": lambda: np.zeros(7, "f2"),
}


@pytest.mark.parametrize("protocols", WAYS)
@pytest.mark.parametrize("name", HOST_ARRAYS)
def test_numpy(name, protocols):
    array = HOST_ARRAYS[name]()
    with even(array), take(array, host=True, protocols=protocols) as taken:
        assert taken.shape == array.shape and taken.device == (P.CPU, 0) and taken.stream is None
        assert taken.data == (array.ctypes.data if array.size else 0)
        assert np.dtype(taken.typestr) == array.dtype
        assert taken.contiguous() == array.flags.c_contiguous
        if taken.strides is not None and array.size:
            assert taken.strides == array.strides
        assert taken.readonly == (not array.flags.writeable)


@pytest.mark.parametrize("protocols", [[P.ARRAY_INTERFACE], [P.ARRAY_STRUCT, P.ARRAY_INTERFACE]])
@pytest.mark.parametrize("dtype", [">f4", "<M8[us]", "<m8[D]", "S5", "<U3", "V7", "i4,f8", "f4,(2,3)i2,S3", "g"])
def test_numpy_types(dtype, protocols):
    """DLPack cannot name them, and NumPy's exception ends the search where `__dlpack__` is asked first."""
    array = np.zeros(5, dtype)
    with take(array, host=True, protocols=protocols) as taken:
        assert np.dtype(taken.typestr).itemsize == array.dtype.itemsize
        if array.dtype.names:
            assert np.dtype(eval(taken.descr)) == array.dtype
        else:
            assert np.dtype(taken.typestr) == array.dtype


@pytest.mark.parametrize("protocols", WAYS)
def test_numpy_readonly(protocols):
    array = np.arange(12.0)
    array.flags.writeable = False
    with take(array, host=True, protocols=protocols) as taken:
        assert taken.readonly
    with pytest.raises(BufferError):
        take(array, host=True, writable=True, protocols=protocols)
    assert take.error.code == ERRORS["READONLY"]


def test_host_memory_must_be_asked_for():
    array = np.arange(12.0)
    refused(array, BufferError, status="HOST_MEMORY")
    for protocol in (P.DLPACK, P.ARRAY_STRUCT, P.ARRAY_INTERFACE):
        refused(array, BufferError, status="HOST_MEMORY", protocols=[protocol])


@pytest.mark.parametrize("protocols", WAYS)
def test_numpy_is_kept_alive(protocols):
    class Mine(np.ndarray):
        pass

    array = np.arange(1000.0).view(Mine)
    alive = weakref.ref(array)
    taken = take(array, host=True, protocols=protocols)
    del array
    gc.collect()
    assert alive() is not None
    assert c.cast(taken.data + 8 * 999, c.POINTER(c.c_double))[0] == 999
    taken.release()
    gc.collect()
    assert alive() is None


def test_what_only_offers_numpys_dictionary():
    class Plain:
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    array = np.arange(12.0).reshape(3, 4)[:, ::2]
    with take(Plain(array), host=True) as taken:
        assert taken.shape == (3, 2) and taken.strides == (32, 16) and taken.data == array.ctypes.data
    refused(Plain(array), TypeError, status="NO_PROTOCOL")


# --- requirements, and the rest of the ABI boundary


@pytest.mark.parametrize(
    "shape, strides, c_order, f_order",
    [((3, 4), None, True, False), ((3, 4), (4, 12), False, True), ((3, 4), (32, 8), False, False), ((4,), None, True, True),
     ((), None, True, True), ((0, 4), (1, 1), True, True), ((1, 4), (4, 4), True, True)],
)  # fmt: skip
def test_contiguity(shape, strides, c_order, f_order):
    given = exporter(shape=shape, strides=strides)
    for c_wanted, f_wanted in ((True, False), (False, True), (True, True)):
        fits = (c_wanted and c_order) or (f_wanted and f_order)
        if fits:
            take(given, c_contiguous=c_wanted, f_contiguous=f_wanted).release()
        else:
            refused(given, BufferError, "", "CONVERT_CONTIGUOUS", c_contiguous=c_wanted, f_contiguous=f_wanted)


def test_demands_do_not_leak():
    demands = [dict(writable=True), dict(c_contiguous=True), dict(native=True), dict(ndim=3), dict(typestr="<i4")]
    mask = mask_of()
    obj = exporter(shape=(3, 4), strides=(4, 12), typestr=">f4", data=(ADDRESS, True), mask=mask)
    with even(obj, mask):
        for demand in demands:
            with pytest.raises(BufferError):
                take(obj, allow_mask=True, **demand)
        with pytest.raises(BufferError):
            take(obj)


def test_options_of_another_size():
    options, array, error = P.import_options(), T.new_array(), T.Error()
    for size in (0, 1, 8, 5000):
        options.struct_size = size
        with pytest.raises(Exception):
            status = P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), c.byref(error))
            raise Refused(status, "")
        assert error.code == ERRORS["STRUCT_SIZE"] and not array.owner


def test_unknown_flags():
    options, array, error = P.import_options(), T.new_array(), T.Error()
    options.flags = 1 << 30 | P.IMPORT["quiet"]  # what is not understood is not followed, in no part
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), c.byref(error))
    assert error.code == ERRORS["NEWER_CALLER"] and error.field == b"options->flags"
    options = P.import_options()
    options.reserved[1] = 1
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), c.byref(error))
    assert error.code == ERRORS["NEWER_CALLER"] and error.field == b"options->reserved"
    with pytest.raises(ValueError):
        take(exporter(), strict=True, lenient=True)
    assert take.error.code == ERRORS["ARGUMENT"] and take.error.field == b"options->flags"


def test_stream_zero_is_no_stream():
    """0 could mean either default stream, in the options as everywhere."""
    with pytest.raises(ValueError, match="CAI_STREAM_UNKNOWN"):
        take(exporter(), stream=0)
    assert take.error.code == ERRORS["STREAM_ZERO"] and take.error.field == b"options->stream"


def test_null():
    array, error = T.new_array(), T.Error()
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(c.py_object(), None, c.byref(array), c.byref(error))
    assert error.code == ERRORS["NULL_ARGUMENT"] and error.field == b"object"
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(exporter(), None, None, c.byref(error))
    assert error.code == ERRORS["NULL_ARGUMENT"] and error.field == b"out"
    with pytest.raises(TypeError):
        P.held.cai_array_from_python(None, None, c.byref(array), None)  # no words are wanted


def test_failure_changes_nothing():
    array = T.new_array(stream=77, ndim=5, typestr=b"junk")
    before = bytes(array)
    options = P.import_options(quiet=True)
    for obj in (None, exporter(shape=(-1,)), exporter(mask=3), exporter(typestr="x"), exporter(data=(0, False))):
        assert P.held.cai_array_from_python(obj, c.byref(options), c.byref(array), None) != 0
        assert bytes(array) == before


@pytest.mark.parametrize("size", [*range(128, 513, 8)])
def test_structures_of_every_size(size):
    """What a later header has behind the library's last member is zero; nothing is written past the size."""
    memory = c.create_string_buffer(b"\x5a" * 600, 600)
    array = T.Array.from_buffer(memory)
    array.struct_size = size
    assert P.held.cai_array_from_python(exporter(stream=STREAM), None, c.byref(array), None) == 0
    assert array.stream == STREAM and array.struct_size == size
    assert memory.raw[128:size] == bytes(size - 128) and memory.raw[size:] == b"\x5a" * (600 - size)
    obj = P.give(array)
    with take(obj) as taken:
        assert taken.array.struct_size == 128 and taken.stream == STREAM
    P.held.cai_array_release(c.byref(array))
    assert memory.raw[4:size] == bytes(size - 4) and memory.raw[size:] == b"\x5a" * (600 - size)


@pytest.mark.parametrize("size", [0, 16, 88, 120, 127, 132, 520, 4096])
def test_structures_of_no_size(size):
    array, error = T.new_array(), T.Error()
    array.struct_size = size
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(exporter(), None, c.byref(array), c.byref(error))
    assert error.code == ERRORS["STRUCT_SIZE"] and not array.owner


def test_options_of_a_newer_caller():
    """A tail is refused unless it is zero: it may be a requirement."""
    memory = c.create_string_buffer(600)
    options, array, error = P.ImportOptions.from_buffer(memory), T.new_array(), T.Error()
    options.stream = P.STREAM_UNKNOWN
    known = c.sizeof(P.ImportOptions)
    for size in range(known, 513, 8):
        options.struct_size = size
        assert P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), None) == 0
        P.held.cai_array_release(c.byref(array))
        memory[size] = b"\1"  # behind the structure: not read
        assert P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), None) == 0
        P.held.cai_array_release(c.byref(array))
        memory[size] = b"\0"
        for position in {known, size - 1} if size > known else ():
            memory[position] = b"\1"
            with pytest.raises(ValueError):
                P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), c.byref(error))
            assert error.code == ERRORS["NEWER_CALLER"] and error.field == b"options" and not array.owner
            memory[position] = b"\0"


# --- exchange tables ------------------------------------------------------------------------------------------------

KEPT = []


def publish(kind, function, size=None, data_abi=1, to=None):
    from_object = CAI_FROM_OBJECT(function)
    table = CaiTable(size or c.sizeof(CaiTable), data_abi, address_of(from_object), to)
    KEPT.append((table, from_object))
    error = T.Error()
    status = P.held.cai_python_publish(kind, c.byref(table), c.byref(error))
    return status, error


def test_exchange_tables():
    array, seen = make((7,)), []

    class Native:
        __cuda_array_interface__ = interface()

    class Derived(Native):
        pass

    with take(Native()) as taken:  # before there is a table: the type is remembered as one without
        assert taken.shape == (3, 4)

    def describe(obj, out, error):
        seen.append(type(obj))
        return P.held.cai_array_share(c.byref(array.array), out, error)

    assert publish(Native, describe)[0] == 0
    assert "cai_exchange_api" in repr(Native.__cai_exchange_api__)
    for kind in (Native, Derived):
        obj = kind()
        with even(obj), take(obj) as taken:
            assert taken.shape == (7,) and seen.pop() is kind and not seen
        with take(obj, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
            assert taken.shape == (3, 4) and not seen
        refused(obj, BufferError, status="CONVERT_NDIM", ndim=2)
        seen.clear()
    array.release()


def test_exchange_tables_that_fail():
    class Native:
        pass

    def fail(obj, out, error):
        if error:
            error.contents.code = 105
            error.contents.message = b"not this one"
        return 105

    assert publish(Native, fail)[0] == 0
    with pytest.raises(Exception, match="not this one"):
        take(Native())
    assert take.error.code == 105


@pytest.mark.parametrize("size, data_abi", [(8, 1), (0, 1), (None, 0), (None, 2)])
def test_exchange_tables_of_others(size, data_abi):
    class Native:
        pass

    from_object = CAI_FROM_OBJECT(lambda *_: 0)
    table = CaiTable(c.sizeof(CaiTable) if size is None else size, data_abi, address_of(from_object), None)
    KEPT.append(table)
    error = T.Error()
    with pytest.raises(Exception):
        P.held.cai_python_publish(Native, c.byref(table), c.byref(error))
    assert error.code == ERRORS["EXCHANGE_TABLE"] and not hasattr(Native, "__cai_exchange_api__")


def test_longer_exchange_tables():
    array = make((7,))

    class Native:
        pass

    def describe(obj, out, error):
        return P.held.cai_array_share(c.byref(array.array), out, error)

    assert publish(Native, describe, size=32)[0] == 0
    take(Native()).release()
    array.release()


@pytest.mark.parametrize("status", [105, ERRORS["STRUCT_SIZE"], ERRORS["NEWER_CALLER"], ERRORS["FLAGS"]])
def test_a_table_that_refuses_leaves_the_object_to_the_next_protocol(status):
    class Native:
        __cuda_array_interface__ = interface()

    assert publish(Native, lambda obj, out, error: status)[0] == 0
    with take(Native()) as taken:
        assert taken.shape == (3, 4)
    with pytest.raises(Exception):
        take(Native(), protocols=[P.EXCHANGE])
    assert take.error.code == status


def capsule_of(table, name):
    new = c.pythonapi.PyCapsule_New
    new.restype, new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
    return new(c.addressof(table), name, None)


def test_tables_for_two_data_abis():
    """A capsule for another data ABI has another name. A type that serves both publishes a tuple."""
    array = make((7,))
    seen = []

    def describe(obj, out, error):
        seen.append(obj)
        return P.held.cai_array_share(c.byref(array.array), out, error)

    from_object = CAI_FROM_OBJECT(describe)
    ours, theirs = (CaiTable(c.sizeof(CaiTable), number, address_of(from_object), None) for number in (1, 2))
    names = [c.c_char_p(b"cai_exchange_api_1"), c.c_char_p(b"cai_exchange_api_2")]
    KEPT.extend([ours, theirs, names])
    first, second = capsule_of(ours, names[0]), capsule_of(theirs, names[1])
    for value, uses in [(second, 0), ((second,), 0), ((second, first), 1), ((first, second), 1), ((5, first), 1), ((), 0)]:
        kind = type("Native", (), {"__cai_exchange_api__": value, "__cuda_array_interface__": interface()})
        seen.clear()
        with take(kind()) as taken:
            assert taken.shape == ((7,) if uses else (3, 4))
        assert len(seen) == uses
    # A table of another data ABI under the usual name is not used either.
    kind = type("Native", (), {"__cai_exchange_api__": capsule_of(theirs, names[0]), "__cuda_array_interface__": interface()})
    with take(kind()) as taken:
        assert taken.shape == (3, 4)
    array.release()


def test_publish_on_what_takes_no_attributes():
    with pytest.raises(TypeError):
        publish(int, lambda *_: 0)
    assert not hasattr(int, "__cai_exchange_api__")


@pytest.mark.parametrize("found", [None, 3, "text"])
def test_attributes_that_are_no_tables(found):
    class Native:
        __cai_exchange_api__ = found

    with pytest.raises(Exception):
        take(Native())
    assert take.error.code in (ERRORS["EXCHANGE_TABLE"], ERRORS["NO_PROTOCOL"])


def test_types_come_and_go():
    """Types are remembered by what they offered. Another type at the same address is another type."""
    for i in range(3000):
        kind = type("Kind", (), {CAI: interface(shape=(i % 7 + 1, 4))} if i % 3 else {})
        obj = kind()
        if i % 3:
            with take(obj) as taken:
                assert taken.shape == (i % 7 + 1, 4)
        else:
            with pytest.raises(TypeError):
                take(obj)
    del obj, kind
    gc.collect()


# --- 20: words ------------------------------------------------------------------------------------------------------


def test_words():
    cases = [
        (exporter(shape=MISSING), f"{CAI}['shape']: "),
        (exporter(shape=(3, "x")), f"{CAI}['shape'][1]: found 'x', expected "),
        (exporter(version=7), f"{CAI}['version']: found 7, expected 0 to 3"),
        (exporter(stream=0), f"{CAI}['stream']: found 0, expected "),
        (exporter(mask=mask_of(shape=(3, -2))), f"{CAI}['mask']"),
    ]
    for obj, text in cases:
        with pytest.raises(Exception) as info:
            take(obj, allow_mask=True)
        assert str(info.value.args[0]).startswith(text), info.value
        assert take.error.field.decode() == text.split(": ")[0] or "mask" in text


def test_long_things_fit():
    for changes in (dict(typestr="<" + "x" * 10000), dict(version=10**4000), dict(shape=(10**4000,)), dict(stream=-(10**4000))):
        with pytest.raises(ValueError):
            take(exporter(**changes))
        assert 0 < len(take.error.message) < 408
    words = type("x" * 5000, (), {})
    with pytest.raises(TypeError):
        take(words())
    with pytest.raises(TypeError):
        take(exporter(shape=words()))


def test_raise():
    """cai_python_raise says a status in Python."""
    kinds = {"KEY": KeyError, "TYPE": TypeError, "VALUE": ValueError, "CONVERT_NDIM": BufferError, "READONLY": BufferError,
             "SHAPE_NEGATIVE": ValueError, "NO_PROTOCOL": TypeError}  # fmt: skip
    for name, kind in kinds.items():
        error = T.Error(code=ERRORS[name], field=b"x", message=b"x: found 1, expected 2")
        with pytest.raises(kind) as info:
            P.held.cai_python_raise(c.byref(error))
        assert info.value.args[0] == "x: found 1, expected 2"
    for code, kind in ((601, MemoryError), (305, RuntimeError)):
        with pytest.raises(kind):
            P.held.cai_python_raise(c.byref(T.Error(code=code, message=b"words")))
    P.free.cai_python_raise(c.byref(T.Error(code=506, message=b"words")))  # without the lock: nothing
