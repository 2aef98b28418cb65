"""Rows for run.py about growth: `ITEM | N` is what N of the group's things take together. `scale.py threads`: those of threads.

Runs in a folder with scale.so, which bench/scale.c makes, under any CPython.
"""

import ctypes
import pathlib
import sys
import sysconfig
import threading
import time

FILE = str(pathlib.Path("scale.so").resolve())
# With the interpreter's lock held, and without.
HELD, FREE = ctypes.PyDLL(FILE), ctypes.CDLL(FILE)
HELD.scale.restype, HELD.scale.argtypes = ctypes.c_double, [ctypes.c_char_p, ctypes.c_long]
HELD.import_each.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
HELD.get_each.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.py_object]
HELD.import_many.argtypes = [ctypes.py_object, ctypes.c_long]
FREE.release_many.argtypes, FREE.release_many.restype = [ctypes.c_long], None

ROUNDS = 3
POWERS = [10**power for power in range(7)]
DIMENSIONS = "N dimensions", [1, 2, 4, 8, 16, 32, 64]
FIELDS = "N fields", [1, 16, 64, 256, 1024, 4096, 16384, 65536]
OWNERS = "N live owners", POWERS
PENDING = "N releases without the lock", POWERS[:6]
TYPES = "objects of N types", [1, 16, 64, 256, 1024, 4096, 10000]
THREADS = [1, 2, 4, 8, 16]
NAME = "__cuda_array_interface__"
IN_C = [
    (*DIMENSIONS, ["validate", "layout", "copy, release"]),
    (*FIELDS, ["parse", "format", "find the last", "compare", "validate an array", "copy an array, release"]),
    (*OWNERS, ["libcai: create, share, release", "by hand: the same"]),
]


class Object:
    pass


def make(kind=Object, **more):
    made = kind()
    plain = {"shape": (2, 2), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3, "strides": None, "stream": None}
    made.__cuda_array_interface__ = {**plain, **more}
    return made


def of_dimensions(n):
    return make(shape=(2,) * min(n, 40) + (1,) * max(n - 40, 0))


def of_fields(n):
    return make(shape=(2,), typestr=f"|V{4 * n}", descr=[(f"f{i}", "<f4") for i in range(n)])


def handles(objects):
    return (ctypes.py_object * len(objects))(*objects)


def spent(run, times=1, clock=time.thread_time_ns):
    """The least of three runs, for one time."""
    found = []
    for _ in range(3):
        begun = clock()
        assert run() in (0, None)
        found.append((clock() - begun) / times)
    return min(found)


def imports(objects):
    """What the imports of all take, in nanoseconds."""
    given = handles(objects)
    assert HELD.import_each(given, len(objects), 1) == 0
    begun = time.thread_time_ns()
    assert HELD.import_each(given, len(objects), 1) == 0
    times = int(1e6 / (time.thread_time_ns() - begun + 1)) + 1
    return spent(lambda: HELD.import_each(given, len(objects), times), times)


def attributes(objects):
    given, times = handles(objects), 10000 // len(objects)
    return spent(lambda: HELD.get_each(given, len(objects), times, NAME), times)


def pending(n):
    lent, found = make(), []
    other = handles([make()])
    before = sys.getrefcount(lent)
    for _ in range(3):
        assert HELD.import_many(lent, n) == 0
        begun = time.thread_time_ns()
        FREE.release_many(n)
        assert HELD.import_each(other, 1, 1) == 0
        found.append(time.thread_time_ns() - begun)
        assert sys.getrefcount(lent) == before
    return min(found)


def by_threads(n, objects, run=lambda given, times: HELD.import_each(given, 1, times), times=2000, calls=10):
    """The processor time of `n` threads, for one import of each thread, or for one of what else `run` does."""
    found = []
    for _ in range(3):
        start = threading.Barrier(n + 1)

        def work(given):
            start.wait()
            for _ in range(calls):
                assert run(given, times) == 0

        threads = [threading.Thread(target=work, args=[handles([obj])]) for obj in objects]
        for thread in threads:
            thread.start()
        start.wait()
        begun = time.process_time_ns()
        for thread in threads:
            thread.join()
        found.append((time.process_time_ns() - begun) / (times * calls))
    return min(found)


def wrong():
    """What is measured is refused if it is wrong."""
    for bad in (make(typestr="<f3"), make(descr=[("x", "<f4"), ("x", "<f4")], typestr="|V8"), make(shape=(1,) * 65)):
        try:
            HELD.import_each(handles([bad]), 1, 1)
        except ValueError:
            continue
        raise SystemExit(f"accepted: {bad.__cuda_array_interface__}")


def rows(which):
    if which == ["threads"]:
        free = "free-threaded " * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        group = f"N threads of {free}CPython {sys.version_info[0]}.{sys.version_info[1]}"
        attribute = lambda given, times: HELD.get_each(given, 1, times, NAME)  # noqa: E731
        for n in THREADS:
            yield group, "the same object", n, lambda n: by_threads(n, [make()] * n)
            yield group, "the same object, by hand: the attribute", n, lambda n: by_threads(n, [make()] * n, attribute)
            yield group, "an object for each", n, lambda n: by_threads(n, [make() for _ in range(n)])
        return
    for group, sizes, names in IN_C:
        for name in names:
            for n in sizes:
                yield group, name, n, lambda n, name=name.encode(): HELD.scale(name, n)
    for (group, sizes), one in ((DIMENSIONS, of_dimensions), (FIELDS, of_fields)):
        for n in sizes:
            yield group, "import, release", n, lambda n, one=one: imports([one(n)])
    for n in PENDING[1]:
        yield PENDING[0], "release all, drain", n, pending
    many = [make(type(f"Type{i}", (), {})) for i in range(TYPES[1][-1])]
    for n in TYPES[1]:
        yield TYPES[0], "libcai: import, release", n, lambda n: imports(many[:n])
        yield TYPES[0], "by hand: the attribute alone", n, lambda n: attributes(many[:n])


wrong()
found = list(rows(sys.argv[1:]))
for _ in range(ROUNDS):
    for group, name, n, measure in found:
        took = measure(n)
        assert took > 0, (group, name, n)
        print(f"{group}\t{name} | {n}\t{took:.1f}")
