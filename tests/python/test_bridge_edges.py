"""Ownership and order at the edges of the bridges: tensors that are taken once, long chains, exceptions of others."""

import collections
import ctypes as c
import functools
import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

import cai_python as P
from cai_python import Exporter, give, make, soon, take
import dlpack_ctypes as D
from dlpack_ctypes import address_of, capsule_name, new_capsule, pointer_in
from test_stream_export import python

np = pytest.importorskip("numpy")


def interface(**others):
    return {"shape": (3, 4), "typestr": "<f4", "data": (0x7000_0000, False), "version": 3, **others}


class Tensors:
    """Managed tensors over host memory that count their deletions."""

    def __init__(self):
        self.deleted, self.threads, self._kept = 0, [], []
        self._deleter = D.DELETER(self._delete)

    def _delete(self, _):
        self.deleted += 1
        self.threads.append(threading.get_ident())

    def new(self, shape=(2, 3), device=1, lanes=1, flags=0, code=2, bits=32, has_memory=True):
        managed = D.Versioned()
        managed.major, managed.minor, managed.flags = 1, 1, flags
        extents, memory = (c.c_int64 * len(shape))(*shape), (c.c_float * 64)()
        tensor = managed.tensor
        tensor.data, tensor.device_type, tensor.ndim = c.addressof(memory) if has_memory else None, device, len(shape)
        tensor.code, tensor.bits, tensor.lanes = code, bits, lanes
        tensor.shape = c.cast(extents, c.POINTER(c.c_int64))
        managed.deleter = c.cast(self._deleter, c.c_void_p).value
        self._kept.append((managed, extents, memory))
        return managed

    def capsule(self, **others):
        return new_capsule(c.addressof(self.new(**others)), b"dltensor_versioned", None)


class Producer:
    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device, self.asked = capsule, device, None

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        self.asked = asked
        return self.capsule


def table_type(tensors, view=None, stream=0, **others):
    """A type with DLPack's table in C's clothes."""

    def from_object(obj, out):
        out[0] = c.pointer(tensors.new(**others))
        return 0

    def current(device, number, out):
        out[0] = stream
        return 0

    table = D.DlpackTable()
    table.major, table.minor = 1, 3
    kept = [table, D.DLPACK_FROM_OBJECT(from_object), D.DLPACK_STREAM(current)]
    table.from_object = address_of(kept[1])
    table.stream = address_of(kept[2])
    if view is not None:
        kept.append(D.DLPACK_VIEW(view))
        table.view = address_of(kept[3])
    tensors._kept.append(kept)
    return type("Table", (), {"__dlpack_c_exchange_api__": new_capsule(c.addressof(table), b"dlpack_exchange_api", None)})


def test_a_capsule_is_taken_once():
    """DLPack: the consumer of a tensor renames its capsule, so that it is consumed once."""
    base = np.arange(6, dtype="f4")
    producer = Producer(base.__dlpack__(max_version=(1, 0)))
    with take(producer, host=True, protocols=[P.DLPACK]):
        assert capsule_name(producer.capsule) == b"used_dltensor_versioned"
        with pytest.raises((ValueError, BufferError, TypeError)):
            np.from_dlpack(producer)
        with pytest.raises(TypeError, match="capsule"):
            take(producer, host=True, protocols=[P.DLPACK])
    producer = Producer(base.__dlpack__())
    with take(producer, host=True, protocols=[P.DLPACK]):
        assert capsule_name(producer.capsule) == b"used_dltensor"


def test_the_deleter_runs_once_without_help_of_the_capsule():
    tensors = Tensors()
    taken = take(Producer(tensors.capsule()), host=True, protocols=[P.DLPACK])
    assert tensors.deleted == 0
    taken.release()
    assert tensors.deleted == 1
    # What is refused after it was taken is deleted, too.
    with pytest.raises(BufferError, match="lanes"):
        take(Producer(tensors.capsule(lanes=3)), host=True, protocols=[P.DLPACK])
    assert tensors.deleted == 2


@pytest.mark.parametrize("way", ["capsule", "table"])
def test_lanes_as_a_dimension(way):
    tensors, made = Tensors(), 0

    def produced(**others):
        return Producer(tensors.capsule(**others)) if way == "capsule" else table_type(tensors, **others)()

    required = dict(ndim=2, c_contiguous=True)
    for shape, lanes, options in [((2, 3), 2, {}), ((2, 3), 3, {}), ((2,), 4, required), ((), 2, {}), ((0, 3), 2, {})]:
        with take(produced(shape=shape, lanes=lanes, has_memory=0 not in shape), host=True, lanes=True, **options) as taken:
            assert (taken.shape, taken.strides, taken.typestr) == ((*shape, lanes), None, "<f4")
            assert tensors.deleted == made
        made += 1
    refusals = [(32, {}, "IMPORT_LANES"), (32, dict(lanes=True, ndim=1), "dimensions"), (24, dict(lanes=True), "one lane$")]
    for bits, options, text in refusals:
        with pytest.raises(BufferError, match=text):
            take(produced(shape=(2,), lanes=2, bits=bits), host=True, **options)
        made += 1
    assert tensors.deleted == made


@pytest.mark.parametrize("way", ["capsule", "table"])
def test_the_deleter_runs_with_the_lock(way):
    """Without the lock, the tensor waits for the interpreter: its deleter may be Python's."""
    tensors = Tensors()
    obj = Producer(tensors.capsule()) if way == "capsule" else table_type(tensors)()
    taken = take(obj, host=True)
    thread = threading.Thread(target=taken.release, args=[P.free])
    thread.start()
    thread.join()
    take(Exporter(interface())).release()  # the next call releases those that wait
    assert soon(lambda: tensors.deleted == 1) and tensors.threads == [threading.get_ident()]


def test_the_deleter_of_a_tensor_that_waited_sees_no_exception():
    """`int` raises, and its argument ends: a capsule of this library, which comes upon the tensor."""
    tensors = Tensors()
    taken = take(Producer(tensors.capsule()), host=True)
    with make(device=(P.CPU, 0)) as array:
        given = give(array)
        leave = functools.partial(P.free.cai_array_release, c.byref(taken.array))
        with pytest.raises(TypeError, match="int"):
            # No code of Python runs between the two calls: it would delete the tensor at once.
            collections.deque(map(functools.partial.__call__, [leave, functools.partial(int, [given.__dlpack__()])]))
    assert tensors.deleted == 1


def test_a_view_is_not_kept():
    """DLPack: a tensor that a table lends is good for one call, and has no flags. Read-only would be lost."""
    tensors, asked = Tensors(), []

    def view(obj, out):
        asked.append(obj)
        return -1

    obj = table_type(tensors, view=view, flags=1)()
    with take(obj, host=True) as taken:
        assert taken.readonly and not asked
    assert tensors.deleted == 1
    with pytest.raises(BufferError):
        take(obj, host=True, writable=True)
    assert tensors.deleted == 2


def test_a_table_that_is_refused_lets_the_tensor_go():
    tensors = Tensors()
    with pytest.raises(BufferError, match="host memory"):
        take(table_type(tensors)())
    assert tensors.deleted == 1
    with pytest.raises(BufferError, match="lanes"):
        take(table_type(tensors, lanes=3)(), host=True)
    assert tensors.deleted == 2


@pytest.mark.parametrize("way", ["capsule", "table"])
@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("device", [1, 2])
def test_a_tensor_without_memory(way, host, device):
    """As those of PyTorch's FakeTensorMode: it is neither in host memory nor somewhere else."""
    tensors = Tensors()
    others = dict(device=device, has_memory=False)
    for _ in range(2):
        by_capsule = way == "capsule" and (host or device == 2)
        obj = Producer(tensors.capsule(**others), (device, 0)) if by_capsule else table_type(tensors, **others)()
        with pytest.raises(ValueError, match=".data: found NULL.*FakeTensor"):
            take(obj, host=host)
    assert tensors.deleted == 2
    # Without elements there is nothing to miss.
    tensors = Tensors()
    with take(table_type(tensors, shape=(0, 3), **others)(), host=True) as taken:
        assert taken.shape == (0, 3)


def test_streams_of_a_table():
    tensors = Tensors()
    for device, stream, expected in [(2, 0, 1), (2, 0x5000, 0x5000), (13, 0, 1), (3, 0x5000, P.STREAM_UNKNOWN)]:
        with take(table_type(tensors, device=device, stream=stream)()) as taken:
            assert taken.stream == expected, device


@pytest.mark.parametrize("device, asked", [(2, 1), (13, 1), (3, None), (14, None)])
def test_the_stream_that_a_producer_is_asked_for(device, asked):
    """Page-locked memory is the host's: PyTorch refuses a stream there."""
    tensors = Tensors()
    producer = Producer(tensors.capsule(device=device), (device, 0))
    with take(producer, protocols=[P.DLPACK]) as taken:
        assert producer.asked.get("stream") == asked
        assert taken.stream == (P.STREAM_UNKNOWN if asked is None else asked)


def test_a_table_takes_the_tensor_whatever_becomes_of_it():
    tensors = Tensors()
    capsule = type(give(make())).__dlpack_c_exchange_api__
    table = D.DlpackTable.from_address(pointer_in(capsule, b"dlpack_exchange_api"))
    to_object = c.PYFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_void_p))(table.to_object)
    out = c.c_void_p()
    with pytest.raises(BufferError):
        to_object(c.addressof(tensors.new(lanes=3)), c.byref(out))
    assert tensors.deleted == 1
    assert to_object(c.addressof(tensors.new()), c.byref(out)) == 0
    obj = P.adopt(out)
    assert obj.__array_interface__["shape"] == (2, 3) and tensors.deleted == 1
    del obj
    assert tensors.deleted == 2


class Lazy:
    """What PyTorch's tensors say of themselves."""

    def __init__(self, conj, neg, **interface_):
        self._conj, self._neg = conj, neg
        self.__cuda_array_interface__ = interface(**interface_)

    def is_conj(self):
        return self._conj

    def is_neg(self):
        return self._neg


@pytest.mark.parametrize(
    "more",
    [{}, {"shape": [3, 4]}, {"strides": [32, 8]}, {"data": [0x7000_0000, False]}, {"shape": (1,)}, {"shape": (1,), "strides": (8,)},
     {"shape": ()}, {"shape": (5,), "strides": (8,)}, {"shape": (2,), "strides": (12,)}, {"typestr": "<V2"}, {"typestr": "<i4"},
     {"typestr": "|b1"}],
    ids=str,
)  # fmt: skip
def test_values_that_are_computed_later(more):
    """PyTorch negates views of any type lazily, such as the imaginary part of a conjugate, and of any strides."""
    if "typestr" not in more:
        with pytest.raises(BufferError, match="conjugate"):
            take(Lazy(True, False, **{"typestr": "<c8", **more}))
    with pytest.raises(BufferError, match="negative"):
        take(Lazy(False, True, **more))
    take(Lazy(False, False, **more)).release()


@pytest.mark.parametrize(
    "kind", [dict(code=5, bits=64), dict(shape=(1,)), dict(shape=(4,)), dict(code=4, bits=16)],
    ids=["complex", "one element", "C order", "bfloat16"],
)  # fmt: skip
def test_a_table_does_not_express_values_that_are_computed_later(kind):
    tensors = Tensors()
    cls = table_type(tensors, device=2, **kind)
    cls.is_conj = cls.is_neg = lambda self: self.later
    obj = cls()
    obj.later = True
    for protocols in [], [P.DLPACK_EXCHANGE]:
        with pytest.raises(BufferError, match="bit: its values"):
            take(obj, protocols=protocols)
    assert tensors.deleted == 2
    obj.later = False
    take(obj).release()


def test_unordered_work_does_not_leave_as_ordered():
    """A dictionary of version 2 says nothing of its work; through DLPack that has to be waited for, or declined."""
    taken = take(Exporter(interface(version=2)))
    obj = give(taken)
    assert taken.stream == P.STREAM_UNKNOWN
    assert obj.__cuda_array_interface__["version"] == 2
    script = f"""
import os, sys
os.environ["CAI_CUDA_DRIVER"] = "/nowhere/libcuda.so.1"
sys.path[:0] = {sys.path!r}
import cai_python as P
obj = P.give(P.make(stream=P.STREAM_UNKNOWN))
obj.__dlpack__(max_version=(1, 0), stream=-1)
for stream in (None, 1, 77):
    try:
        obj.__dlpack__(max_version=(1, 0), stream=stream)
    except RuntimeError as error:
        assert "driver" in str(error), error
    else:
        raise AssertionError("ordered without a driver")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    taken.release()


def test_long_chains():
    """Each array keeps the object that it was made of: taking 200,000 of them apart needs no deep stack."""
    obj = Exporter(interface())
    for _ in range(200_000):
        taken = take_quick(obj)
        obj = give(taken)
        P.held.cai_array_release(c.byref(taken))
    del obj
    gc.collect()


@pytest.mark.parametrize("kind", ["object", "capsule"])
def test_an_owner_that_goes_while_an_exception_is_set(kind):
    """Its `destroy` may be Python's, which fails if an exception of others is set; that one stays."""
    counted = P.Counted()
    array = make(counted=counted)

    def last(_):
        obj = give(array)
        P.held.cai_array_release(c.byref(getattr(array, "array", array)))
        return obj if kind == "object" else obj.__dlpack__()

    # The exception is set before the list goes that has the only reference.
    with pytest.raises(TypeError, match="expected str instance"):
        "".join(map(last, [0]))
    assert counted.gone == 1


def test_chains_after_finalizers_that_give_the_lock_up():
    """Owners that go in several threads at once do not count as owners inside of one another afterwards."""

    class Sleeps:
        def __init__(self):
            self.__cuda_array_interface__ = interface()

        def __del__(self):
            time.sleep(0.0002)

    def chain(obj, length):
        for _ in range(length):
            taken = take_quick(obj)
            obj = give(taken)
            P.held.cai_array_release(c.byref(taken))
        return obj

    def work():
        for _ in range(60):
            chain(Sleeps(), 3)

    P.at_once(*[work] * 8)
    for length in (1, 20, 30, 100):
        last = Exporter(interface())
        gone = weakref.ref(last)
        obj = chain(last, length)
        del last, obj
        assert gone() is None, length


def take_quick(obj, options=P.import_options(protocols=[P.CUDA_ARRAY_INTERFACE])):
    array = P.T.new_array()
    assert P.held.cai_array_from_python(obj, c.byref(options), c.byref(array), None) == 0
    return array


def test_words_that_were_cut_in_a_character():
    error = P.T.Error(code=508)
    error.message = "ä".encode()[:1] + b" cut"
    with pytest.raises(ValueError, match="cut"):
        P.held.cai_python_raise(c.byref(error))


def test_other_things_with_a_buffer():
    class Reader:
        buffer, dtype, shape, strides = b"", "<f4", (3,), None

        def offset(self):
            pass

    with pytest.raises(TypeError, match="Reader is not a GPU array"):
        take(Reader())


def test_only_types_publish():
    table = (c.c_uint32 * 6)(24, 0)
    for found in (make, 5, c):
        with pytest.raises((TypeError, ValueError)):
            P.held.cai_unstable_python_publish(found, c.addressof(table), None)


def test_raising_nothing_says_so():
    for error in (None, c.byref(P.T.Error()), c.byref(P.T.Error(code=504))):
        with pytest.raises(SystemError, match="did not fail"):
            P.held.cai_python_raise(error)


SCHEDULES = pytest.mark.parametrize("schedule", ["lazy", "eager", "threads"])


@SCHEDULES
def test_a_tensor_goes_after_the_work_on_it(built, schedule):
    """`__dlpack__` does not notify the producer when the receiver is done: memory must not be freed before."""
    python(built, """
        import dlpack_ctypes as D
        kept, freed, mine = [], [], stream()

        def delete(managed):
            use(0)
            freed.append(D.Versioned.from_address(c.cast(managed, c.c_void_p).value).tensor.data)
            ok(cuda.cuMemFree_v2(c.c_uint64(freed[-1])))

        deleter = D.DELETER(delete)

        class Producer:
            def __dlpack_device__(self):
                return (2, 0)
            def __dlpack__(self, **asked):
                managed, extents = D.Versioned(major=1, deleter=D.address_of(deleter)), (c.c_int64 * 1)(SIZE)
                managed.tensor = D.Tensor(data=buffer(), device_type=2, ndim=1, code=1, bits=8, lanes=1, shape=extents)
                kept.append((managed, extents))
                return D.new_capsule(c.addressof(managed), b"dltensor_versioned", None)

        for own in (mine, UNKNOWN):
            for library in (P.held, P.free):
                taken = take(Producer(), stream=own)
                assert begin(taken, mine, READ | WRITE) == 0
                fill(taken.data, 7, mine)
                ok(cai.cai_array_consume_end(c.byref(taken.array), mine, READ | WRITE, None))
                before = len(freed)
                P.at_once(lambda: taken.release(library))
                ok(cuda.cuStreamSynchronize(c.c_void_p(mine)))
                assert P.soon(lambda: len(freed) == before + 1, 20), freed
        ok(cuda.cuCtxSynchronize())
        """, schedule)


@SCHEDULES
def test_what_the_producer_does_after_a_consumer_let_go_is_its_own(built, schedule):
    """A checker that takes the producer's later reads for the consumer's would be switched off."""
    python(built, """
        data, legacy = buffer(), 1
        producer = Exporter(dict(shape=(SIZE,), typestr="|u1", data=(data, False), version=3, stream=None))
        for _ in range(10):
            taken = take(producer)
            assert begin(taken, legacy, READ | WRITE) == 0
            fill(data, 7, legacy)
            ok(cai.cai_array_consume_end(c.byref(taken.array), legacy, READ | WRITE, None))
            ok(cai.cai_array_release_after(c.byref(taken.array), c.c_uint64(legacy), None))
            assert bytes_of(data, legacy) == {7}
        time.sleep(0.05)
        """, schedule)
