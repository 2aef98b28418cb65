"""A million imports, good and bad: all reference counts are even afterwards, and the memory is as it was."""

import builtins
import ctypes as c
import gc
import os
import pathlib
import sys
import sysconfig

import cai_python as P
import dlpack_ctypes as D
import pytest
from commands import compile
from lending import Lender

from libcai import _view

HERE = pathlib.Path(__file__).resolve().parent
TIMES = int(os.environ.get("CAI_LEAK_TIMES", "50000"))
# The first call loads a module, whose objects must not be counted.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
QUIET, HOST, MASK, STRICT, LANES, NDIM = 1024, 256, 128, 1, 1 << 30, 64


@pytest.fixture(scope="module")
def leaks(tmp_path_factory, library_path):
    path = tmp_path_factory.mktemp("leaks") / "leaks.so"
    compile(HERE / "leaks.c", path, "-shared", "-O2", "-Wall", "-Wextra", "-Werror", P.LIBRARY, library=None)
    # The library is in the process already, under the name that is asked for.
    library = c.PyDLL(str(path))
    library.leaks_import.restype = library.leaks_export.restype = library.leaks_share.restype = c.c_long
    library.leaks_import.argtypes = [c.py_object, c.c_long, c.c_uint, c.c_int]
    library.leaks_export.argtypes = library.leaks_share.argtypes = [c.py_object, c.c_long]
    library.leaks_lend.restype, library.leaks_lend.argtypes = c.c_long, [c.py_object, c.c_long, c.c_int]
    library.leaks_publish.restype, library.leaks_publish.argtypes = c.c_long, [c.py_object, c.c_int]
    return library


def interface(**changes):
    return dict(shape=(2, 3), typestr="<f4", data=(0x7000_0000, False), version=3) | changes


def plain(**changes):
    return P.Exporter(interface(**changes))


class Raises:
    @property
    def __cuda_array_interface__(self):
        raise OSError


class Whole:
    def __init__(self, found):
        self.__cuda_array_interface__ = found


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, int):
            return self.value
        # A new one each time: an exception that is raised again keeps the traceback of each time.
        raise type(self.value)(*self.value.args)


class Dlpack:
    def __init__(self, device, capsule, streams=True):
        self.device, self.capsule, self.streams = device, capsule, streams

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None, **_):
        if not self.streams and stream is not None or self.capsule is None:
            raise RuntimeError("no streams")
        return self.capsule


def published(leaks, table, **attributes):
    kind = type(f"Published{table}", (), attributes)
    assert leaks.leaks_publish(kind, table) == 0
    return kind()


class Tensor:
    """Its table gives one tensor of three elements, of one float or more, again and again."""

    def __init__(self, lanes, flags=0):
        self.given, self.shape, self.memory = 0, (c.c_int64 * 1)(3), (c.c_float * 6)()
        self.tensor, self.table = D.Versioned(major=1, minor=1, flags=flags), D.DlpackTable(major=1, minor=3)
        self.tensor.tensor = D.Tensor(data=c.addressof(self.memory), device_type=1, ndim=1, code=2, bits=32, lanes=lanes,
                                      shape=self.shape)  # fmt: skip
        self.functions = [D.DELETER(self.delete), D.DLPACK_FROM_OBJECT(self.give)]
        self.tensor.deleter, self.table.from_object = map(D.address_of, self.functions)
        capsule = D.new_capsule(c.addressof(self.table), b"dlpack_exchange_api", None)
        self.kind = type("Kind", (), {"__dlpack_c_exchange_api__": capsule})

    def give(self, _, out):
        self.given += 1
        out[0] = c.pointer(self.tensor)
        return 0

    def delete(self, _):
        self.given -= 1


def nested(depth):
    mask = None
    for _ in range(depth):
        mask = plain(typestr="|b1", mask=mask)
    return plain(mask=mask)


def missing(key):
    values = interface()
    del values[key]
    return P.Exporter(values)


def kinds(leaks):
    """Name, object, status, flags, protocol, how many times fewer."""
    E = P.ERRORS
    wrong = D.new_capsule(0x5000, b"wrong", None)
    host = P.give(P.make(device=(P.CPU, 0)))
    mask = plain(typestr="|b1")
    also = {"__cuda_array_interface__": interface()}
    return [
        ("usual", plain(), 0, 0, 0, 1),
        ("strides", plain(strides=(12, 4), stream=1), 0, 0, 0, 1),
        ("the slow path", plain(shape=[2, Index(3)], data=[0x7000_0000, False]), 0, 0, 0, 1),
        ("a mapping", Whole(dict_of(interface())), 0, 0, 0, 1),
        ("fields", plain(typestr="|V8", descr=[("x", "<f4"), ("y", "<i4")]), 0, 0, 0, 4),
        ("mask", plain(mask=mask), 0, MASK, 0, 2),
        ("masks", nested(4), 0, MASK, 0, 8),
        ("mask that is not allowed", plain(mask=mask), E["CONVERT_MASK"], 0, 0, 1),
        ("exported", P.give(P.make()), 0, 0, 0, 1),
        ("capsule", host, 0, HOST, P.DLPACK, 2),
        ("DLPack's table", host, 0, HOST, P.DLPACK_EXCHANGE, 1),
        ("Arrow's capsules", host, 0, HOST, P.ARROW, 2),
        ("buffer", bytearray(b"abc"), 0, HOST, P.PEP3118, 1),
        ("buffer with a format that is refused", memoryview((c.c_void_p * 2)()), E["CONVERT_TYPE"], HOST, P.PEP3118, 1),
        ("buffer of no sense", Lender(0), E["DATA_NULL"], HOST, P.PEP3118, 2),
        ("table", published(leaks, 3), 0, 0, 0, 1),
        ("nothing", object(), E["NO_PROTOCOL"], 0, 0, 1),
        ("nothing, quiet", object(), E["NO_PROTOCOL"], QUIET, 0, 1),
        ("raises", Raises(), E["PYTHON_EXCEPTION"], 0, 0, 1),
        ("no dictionary", Whole(5), E["TYPE"], 0, 0, 1),
        ("no shape", missing("shape"), E["KEY"], 0, 0, 1),
        ("no typestr", missing("typestr"), E["KEY"], QUIET, 0, 1),
        ("shape of texts", plain(shape=("x",)), E["TYPE"], 0, 0, 1),
        ("negative", plain(shape=(-1, 2)), E["SHAPE_NEGATIVE"], 0, 0, 1),
        ("huge", plain(shape=(10**40,)), E["VALUE"], 0, 0, 1),
        ("index raises", plain(shape=[Index(OSError("x"))]), E["PYTHON_EXCEPTION"], 0, 0, 1),
        ("no type", plain(typestr="<q9"), None, 0, 0, 1),
        ("type without text", plain(typestr="\ud800"), None, 0, 0, 1),
        ("key without text", P.Exporter(interface() | {"\ud800": 1}), 0, 0, 0, 1),
        ("data", plain(data=(0, False)), E["DATA_NULL"], 0, 0, 1),
        ("flag", plain(data=(4096, "x")), E["TYPE"], 0, 0, 1),
        ("version", plain(version=-1), E["VERSION"], 0, 0, 1),
        ("stream", plain(stream=0), E["STREAM_ZERO"], 0, 0, 1),
        ("overflow", plain(shape=(2**40, 2**40)), None, 0, 0, 1),
        ("fields without sense", plain(typestr="|V8", descr=[("x", "junk")]), None, 0, 0, 2),
        ("mask without sense", plain(mask=5), None, MASK, 0, 1),
        ("mask of another shape", plain(mask=plain(typestr="|b1", shape=(7,))), None, MASK, 0, 1),
        ("masks on masks", nested(30), E["MASK_DEPTH"], MASK, 0, 8),
        ("read-only", plain(data=(4096, True)), E["READONLY"], 4, 0, 1),
        ("strict", Whole(dict_of(interface())), E["TYPE"], STRICT, 0, 1),
        ("options", plain(), E["ARGUMENT"], 3, 0, 1),
        ("host", host, E["HOST_MEMORY"], 0, 0, 1),
        ("no device", Dlpack(5, None), E["TYPE"], 0, P.DLPACK, 1),
        ("no capsule", Dlpack((2, 0), 5), E["TYPE"], 0, P.DLPACK, 1),
        ("no streams, no capsule", Dlpack((2, 0), 5, streams=False), E["TYPE"], 0, P.DLPACK, 1),
        ("raises for every stream", Dlpack((2, 0), None), E["PYTHON_EXCEPTION"], 0, P.DLPACK, 2),
        ("wrong capsule", Dlpack((2, 0), wrong), E["TYPE"], 0, P.DLPACK, 1),
        ("table that fails", published(leaks, 0), E["VALUE"], 0, 0, 1),
        ("table that raises", published(leaks, 1), E["PYTHON_EXCEPTION"], 0, 0, 1),
        ("table that is silent", published(leaks, 2), E["EXCHANGE_TABLE"], 0, 0, 1),
        ("table that declines", published(leaks, 6), E["PYTHON_EXCEPTION"], 0, 0, 1),
        ("table that fails, and a dictionary", published(leaks, 0, **also), 0, 0, 0, 1),
        ("table that declines, and a dictionary", published(leaks, 6, **also), 0, 0, 0, 1),
        ("table that lies", published(leaks, 4), E["NDIM"], 0, 0, 1),
        ("table that borrows", published(leaks, 5), E["BORROWED"], 0, 0, 1),
    ]


def dict_of(values):
    return type("Mapping", (), {"__getitem__": lambda me, key: values[key], "__len__": lambda me: 4})()


def parts(obj, found=None):
    """The object and everything that hangs on it."""
    found = [] if found is None else found
    if any(obj is other for other in found) or len(found) > 200:
        return found
    found.append(obj)
    if isinstance(obj, dict):
        inner = [*obj.keys(), *obj.values()]
    elif isinstance(obj, (list, tuple)):
        inner = list(obj)
    else:
        inner = [*(getattr(obj, "__dict__", None) or {}).values(), type(obj)] if not isinstance(obj, type) else []
    for part in inner:
        parts(part, found)
    return found


WATCHED = [None, True, False, Ellipsis, KeyError, TypeError, ValueError, BufferError, OSError, AttributeError, dict, tuple, str,
           int, *map(sys.intern, ["shape", "typestr", "data", "version", "strides", "mask", "__cuda_array_interface__",
                                  "__dlpack__", "__name__", "stream"])]  # fmt: skip


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def even(run, objects, about="", slack=1 << 20):
    """Counts, blocks and memory are as before; a leak of one in a hundred would show."""
    limit = max(40, TIMES // 100)
    run(300)
    gc.collect()
    before = [sys.getrefcount(obj) for obj in objects]
    watched = [sys.getrefcount(obj) for obj in WATCHED]
    blocks, memory = sys.getallocatedblocks(), resident()
    run(TIMES)
    gc.collect()
    after = [sys.getrefcount(obj) for obj in objects]
    for obj, old, new in zip(objects, before, after):
        common = isinstance(obj, (int, str, type(None))) or obj in vars(builtins).values()
        # A free-threaded build defers references to classes: a collection changes by one what it shows of them.
        deferred = FREE_THREADED and isinstance(obj, type)
        assert abs(new - old) <= (limit if common else deferred), (about, obj, old, new)
    for obj, old in zip(WATCHED, watched):
        assert abs(sys.getrefcount(obj) - old) <= limit, (about, obj, old, sys.getrefcount(obj))
    # A free-threaded build counts blocks that were freed, until all threads have passed a certain point.
    more = 4 * limit if FREE_THREADED else limit
    assert abs(sys.getallocatedblocks() - blocks) <= more, (about, sys.getallocatedblocks() - blocks)
    # Half a byte for each import.
    assert resident() - memory < slack + TIMES // 2, (about, resident() - memory)


def test_imports(leaks):
    for name, obj, status, flags, via, share in kinds(leaks):

        def run(times):
            found = leaks.leaks_import(obj, max(100, times // share), flags, via)
            assert found > 0 if status is None else found == status, (name, found)

        even(run, parts(obj), name)


def test_tensors(leaks):
    E, WRITABLE = P.ERRORS, 4
    rows = [
        (Tensor(1), HOST, 0),
        (Tensor(1), HOST | WRITABLE, 0),
        (Tensor(1), HOST | NDIM, E["CONVERT_NDIM"]),
        (Tensor(1), 0, E["HOST_MEMORY"]),
        (Tensor(1, flags=1), HOST | WRITABLE, E["READONLY"]),
        (Tensor(1, flags=8), HOST, E["FLAGS"]),
        (Tensor(2), HOST | LANES, 0),
        (Tensor(2), HOST, E["CONVERT_TYPE"]),
        (Tensor(2), HOST | LANES | NDIM, E["CONVERT_NDIM"]),
    ]
    for tensor, flags, status in rows:
        obj = tensor.kind()

        def run(times):
            assert leaks.leaks_import(obj, max(100, times // 4), flags, 0) == status, flags
            assert tensor.given == 0

        even(run, parts(obj), flags)


def lenders():
    """Name, object, what the consumer asks for, whether it is lent."""
    host = dict(device=(P.CPU, 0), data=c.addressof(MEMORY))
    view = _view.function(str(P.LIBRARY))
    exported, read_only = P.give(P.make(**host)), P.give(P.make(readonly=True, **host))
    gaps = P.give(P.make(shape=(2, 2), strides=(16, 4), **host))
    released = view(exported)
    released.release()
    return [
        ("exported", exported, FULL, True),
        ("bytes", exported, 0, True),
        ("many dimensions", P.give(P.make(shape=(1,) * 40, **host)), FULL, True),
        ("no elements", P.give(P.make(shape=(0,), data=0, device=(P.CPU, 0))), FULL, True),
        ("a view", view(exported), FULL, True),
        ("a view of bytes", view(b"abc"), FULL, True),
        ("read-only", read_only, FULL | 1, False),
        ("gaps", gaps, 8, False),
        ("no format", P.give(P.make(typestr="|V4", **host)), FULL, False),
        ("another device", P.give(P.make()), FULL, False),
        ("a read-only view", view(b"abc"), FULL | 1, False),
        ("a released view", released, FULL, False),
    ]


# PyBUF_FULL_RO
FULL, MEMORY = 0x11C, (c.c_char * 64)()


def test_lent_memory(leaks):
    for name, obj, flags, is_lent in lenders():

        def run(times):
            assert leaks.leaks_lend(obj, times // 2, flags) == is_lent, name

        even(run, parts(obj), name)
    lent = memoryview(P.give(P.make(device=(P.CPU, 0), data=c.addressof(MEMORY))))
    part = lent[1:]
    lent.release()

    def hold(times):
        for _ in range(times // 10):
            # Dropped, not released.
            assert memoryview(part)[:1].nbytes == 12

    even(hold, parts(part.obj), "memoryview")


def test_exports(leaks):
    obj = plain()

    def run(times):
        assert leaks.leaks_export(obj, times // 4) == 0

    even(run, parts(obj))


def test_threads(leaks):
    """Eight of Python's threads import, and two that Python does not know release."""
    obj = plain(mask=plain(typestr="|b1"))
    failures = []

    def work(times):
        if leaks.leaks_share(obj, times) != 0:
            failures.append(1)

    def run(times):
        leaks.leaks_begin()
        P.at_once(*[lambda: work(times * 2)] * 8)
        leaks.leaks_end()
        # What is left goes at the next call.
        P.take(obj, allow_mask=True).release()

    # 800,000 imports. malloc keeps memory for each of ten threads, and so does the heap of a free-threaded build.
    even(run, parts(obj), "threads", slack=(8 if FREE_THREADED else 4) << 20)
    assert not failures
