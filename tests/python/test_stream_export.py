"""Streams that go out to Python objects and come in from them: 1 and 2, which mean something only in the right context
and thread; identities; the policy of producers. Each case is a process on the simulated driver with the race checker."""

import pathlib
import sys
import textwrap

import pytest

from commands import run, simulated

PRELUDE = """
import ctypes as c, gc, os, sys, threading, time
sys.path.insert(0, {folder!r})
import cai_ctypes as T, cai_python as P
from cai_python import ERRORS, Exporter, Refused, give, held as cai, make, take
READ, WRITE, NONE, UNKNOWN = 1, 2, P.STREAM_NONE, P.STREAM_UNKNOWN
DICT, SIZE = [P.CUDA_ARRAY_INTERFACE], 64
cuda = c.CDLL("libcuda.so.1")
shim = c.CDLL(os.environ["CAI_CUDA_DRIVER"])
shim.shim_count.argtypes, shim.shim_count.restype = [c.c_char_p], c.c_long
error = T.Error()
assert cuda.cuInit(0) == 0
contexts = []
for number in range(2):
    context = c.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(c.byref(context), number) == 0
    contexts.append(context.value)

def ok(code):
    assert code == 0, code

def use(number):
    ok(cuda.cuCtxSetCurrent(c.c_void_p(contexts[number])))

def stream():
    made = c.c_void_p()
    ok(cuda.cuStreamCreate(c.byref(made), 1))
    return made.value

def buffer():
    made = c.c_uint64()
    ok(cuda.cuMemAlloc_v2(c.byref(made), c.c_size_t(SIZE)))
    ok(cuda.cuMemsetD8_v2(made, 0, c.c_size_t(SIZE)))
    ok(cuda.cuCtxSynchronize())
    return made.value

def fill(to, value, on):
    for byte in [9] * 7 + [value]:
        ok(cuda.cuMemsetD8Async(c.c_uint64(to), c.c_ubyte(byte), c.c_size_t(SIZE), c.c_void_p(on)))

def copy(to, source, on):
    ok(cuda.cuMemcpyDtoDAsync_v2(c.c_uint64(to), c.c_uint64(source), c.c_size_t(SIZE), c.c_void_p(on)))

def bytes_of(source, after):
    host = (c.c_ubyte * SIZE)()
    ok(cuda.cuStreamSynchronize(c.c_void_p(after)))
    ok(cuda.cuMemcpyDtoH_v2(host, c.c_uint64(source), c.c_size_t(SIZE)))
    return set(host)

def produced(data, *streams, flags=0):
    array = make((SIZE,), "|u1", data)
    ok(cai.cai_array_produce(c.byref(array.array), (c.c_uint64 * len(streams))(*streams), len(streams), streams[0], flags,
                             c.byref(error)))
    return array

def begin(taken, consumer, flags=READ):
    return cai.cai_array_consume_begin(c.byref(taken.array), consumer, flags, c.byref(error))

def read(taken, to, consumer):
    assert begin(taken, consumer) == 0, error.message
    copy(to, taken.data, consumer)
    code = cai.cai_array_consume_end(c.byref(taken.array), consumer, READ, c.byref(error))
    assert code == 0, error.message

class Thread:
    # A thread that runs what it is given, one after another.
    def __init__(self):
        self.todo, self.done, self.more = None, threading.Event(), threading.Event()
        threading.Thread(target=self.loop, daemon=True).start()
    def loop(self):
        while True:
            self.more.wait()
            self.more.clear()
            try:
                self.result, self.failure = self.todo(), None
            except BaseException as failure:
                self.result, self.failure = None, failure
            self.done.set()
    def __call__(self, todo):
        self.todo = todo
        self.more.set()
        self.done.wait()
        self.done.clear()
        if self.failure is not None:
            raise self.failure
        return self.result

def of_stream_2():
    use(0)
    data = buffer()
    fill(data, 1, 2)
    return produced(data, 2)

def reason(obj):
    assert not hasattr(obj, "__cuda_array_interface__")
    try:
        obj.__cuda_array_interface__
    except AttributeError as why:
        return str(why)

def count(name=None):
    return shim.shim_count(name.encode() if name else None)

def counted(body):
    shim.shim_reset()
    shim.shim_arm(1)
    result = body()
    shim.shim_arm(0)
    return result, count()

use(0)
"""


def python(built, body, schedule="lazy", check=True, **env):
    text = PRELUDE.format(folder=str(pathlib.Path(__file__).parent)) + textwrap.dedent(body)
    env = {"CAI_CUDA_DRIVER": str(built.shim), **env}
    return simulated(sys.executable, "-c", text, schedule=schedule, devices=2, check=check, env=env)


# --- streams that go out ----------------------------------------------------------------------------------------

ANOTHER_THREAD = """
    thread = Thread()
    array = thread(of_stream_2)
    assert array.array.stream == 2 and array.array.stream_id != 0
    obj, out, consumer = give(array), buffer(), stream()
    taken = take(obj, protocols={protocols})
    read(taken, out, consumer)
    thread(lambda: fill(array.data, 2, 2))  # waits for the reader
    assert bytes_of(out, consumer) == {{1}}
"""


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
@pytest.mark.parametrize(
    "protocols", ["DICT", "[P.EXCHANGE]", "[]"], ids=["dictionary", "table", "default"]
)
def test_per_thread_stream_of_another_thread(built, schedule, protocols):
    """It has no name there: the legacy stream, which waits for it and for which it waits, takes its place."""
    python(built, ANOTHER_THREAD.format(protocols=protocols) + "    assert taken.stream == 1\n", schedule)


def test_dlpack_of_another_threads_stream(built):
    """The consumer's stream waits; the end is the consumer's, which does not return before it is done."""
    python(built, """
        obj, out, consumer = give(Thread()(of_stream_2)), buffer(), stream()
        taken = take(obj, protocols=[P.DLPACK], stream=consumer)
        copy(out, taken.data, consumer)
        assert bytes_of(out, consumer) == {1}
        """)


UNNAMED = """
    class Producer:  # its dictionary has no stream, and its `__dlpack__` orders the work
        def __init__(self, array):
            self.source = give(array)
        @property
        def __cuda_array_interface__(self):
            return {{"shape": (SIZE,), "typestr": "|u1", "data": (data, False), "version": 2}}
        def __dlpack__(self, **options):
            return self.source.__dlpack__(**options)
        def __dlpack_device__(self):
            return (2, 0)

    data, out, producer, consumer = buffer(), buffer(), stream(), stream()
    fill(data, 1, producer)
    obj = Producer(produced(data, producer))
    for wished in (consumer, UNKNOWN):
        taken = take(obj, require_stream={required}, stream=wished)
        read(taken, out, consumer)
        assert bytes_of(out, consumer) == {{1}}
        taken.release()
"""


@pytest.mark.parametrize("required", [True, False])
def test_a_dictionary_without_a_stream(built, required):
    done = python(built, UNNAMED.format(required=required), check=required)
    assert required or done.returncode != 0


def test_streams_of_this_thread_and_context_go_out_as_they_are(built):
    python(built, """
        data, out, consumer = buffer(), buffer(), stream()
        for own in (1, 2, consumer):
            fill(data, own % 64, own)
            obj = give(produced(data, own))
            assert obj.__cuda_array_interface__["stream"] == own
            read(take(obj, protocols=DICT), out, consumer)
            assert bytes_of(out, consumer) == {own % 64}
        # A handle needs no query, unless the array also states whose handle it was.
        assert counted(lambda: obj.__cuda_array_interface__)[1] == count("cuStreamIsCapturing") + count("cuStreamGetId") == 2
        obj = give(make((SIZE,), "|u1", data, stream=consumer))
        assert counted(lambda: obj.__cuda_array_interface__)[1] == 0
        """)


def test_per_thread_stream_without_an_identity(built):
    """The program has not said whose stream it is."""
    python(built, """
        data, out, consumer = Thread()(of_stream_2).data, buffer(), stream()
        obj = give(make((SIZE,), "|u1", data, stream=2))
        assert obj.__cuda_array_interface__["stream"] == 1
        read(take(obj, protocols=DICT), out, consumer)
        assert bytes_of(out, consumer) == {1}
        """)


@pytest.mark.parametrize("own", [1, 2])
def test_default_streams_of_another_context(built, own):
    """A reader would look for it in the context of the memory, or in the current one."""
    python(built, f"""
        data, out, consumer, source = buffer(), buffer(), stream(), buffer()
        fill(source, 1, consumer)
        ok(cuda.cuStreamSynchronize(c.c_void_p(consumer)))
        use(1)
        copy(data, source, {own})
        array = produced(data, {own})
        assert array.array.context == contexts[1]
        obj = give(array)
        for current in (0, 1):
            use(current)
            why = reason(obj)
            assert "stream" in why and hex(contexts[1]) in why and hex(contexts[0]) in why, why
        use(0)
        # Other protocols state the context, or order the reader.
        for protocols in ([P.EXCHANGE], [P.DLPACK]):
            taken = take(obj, protocols=protocols, stream=consumer)
            read(taken, out, consumer)
            assert bytes_of(out, consumer) == {{1}}
            taken.release()
        # The memory's own context, which is not the current one.
        there = buffer()
        obj = give(make((SIZE,), "|u1", there, stream={own}))
        use(1)
        assert "current" in reason(obj)
        use(0)
        assert obj.__cuda_array_interface__["stream"] == 1
        """)


IN_EITHER_CONTEXT = """
    data = buffer()
    use(1)
    ok(cuda.cuCtxEnablePeerAccess(c.c_void_p(contexts[0]), 0))
    out, consumer = buffer(), stream()

    def fill_halves(value):
        # The first half in the memory's context.
        for number in range(2):
            use(number)
            for byte in [9] * 7 + [value]:
                ok(cuda.cuMemsetD8Async(c.c_uint64(data + number * SIZE // 2), c.c_ubyte(byte), c.c_size_t(SIZE // 2),
                                        c.c_void_p({own})))
"""


@pytest.mark.parametrize("own", [1, 2])
def test_default_streams_in_either_context(built, own):
    """A dictionary does not state which one: that of the memory, or the one that is current. Both are ordered."""
    python(
        built,
        IN_EITHER_CONTEXT.format(own=own)
        + f"""
    fill_halves(1)
    taken = take(Exporter(dict(shape=(SIZE,), typestr="|u1", data=(data, False), version=3, stream={own})))
    read(taken, out, consumer)
    fill_halves(2)
    assert bytes_of(out, consumer) == {{1}}
    taken.release()
    # What passes it on states neither. A dictionary may have readers that look in one of them only.
    for protocols in ([P.EXCHANGE], [P.DLPACK]):
        obj = give(make((SIZE,), "|u1", data, stream={own}))
        fill_halves(3)
        assert "current" in reason(obj)
        taken = take(obj, protocols=protocols, stream=consumer)
        read(taken, out, consumer)
        assert bytes_of(out, consumer) == {{3}}
        taken.release()
    """,
    )


@pytest.mark.parametrize("protocols", ["[P.EXCHANGE]", "[P.DLPACK]"], ids=["table", "dlpack"])
def test_per_thread_stream_of_another_thread_in_either_context(built, protocols):
    python(
        built,
        IN_EITHER_CONTEXT.format(own=2)
        + f"""
    Thread()(lambda: fill_halves(1))
    obj = give(make((SIZE,), "|u1", data, stream=2))
    taken = take(obj, protocols={protocols}, stream=consumer)
    read(taken, out, consumer)
    assert bytes_of(out, consumer) == {{1}}
    """,
    )


def test_a_tensor_of_another_threads_stream_is_released_after_it(built):
    python(built, """
        array = make((SIZE,), "|u1", buffer())
        def consume():
            use(0)
            taken = take(give(array), protocols=[P.DLPACK], stream=2)
            fill(taken.data, 1, 2)
            return taken
        thread = Thread()
        taken, counted = thread(consume), array.counted
        array.release()
        taken.release()
        assert P.soon(lambda: counted.gone)
        assert thread(lambda: cuda.cuStreamQuery(c.c_void_p(2))) == 0
        """)


def test_beside_a_capture(built):
    """The legacy stream cannot be used beside a capture of a blocking stream: a reason, and the capture goes on."""
    python(built, """
        obj = give(Thread()(of_stream_2))
        blocking, graph = c.c_void_p(), c.c_void_p()
        ok(cuda.cuStreamCreate(c.byref(blocking), 0))
        ok(cuda.cuStreamBeginCapture_v2(blocking, 0))
        assert "IMPLICIT" in reason(obj)
        ok(cuda.cuStreamEndCapture(blocking, c.byref(graph)))
        assert graph.value and obj.__cuda_array_interface__["stream"] == 1
        """)


def test_masks_too(built):
    python(built, """
        mask = Thread()(of_stream_2)
        obj = give(make((SIZE,), "|u1", buffer(), mask=mask))
        assert obj.__cuda_array_interface__["mask"].__cuda_array_interface__["stream"] == 1
        """)


# --- the policy of producers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["environment", "process"])
def test_export_none_reaches_python(built, how):
    """CAI 3: "Producers may provide a configuration option to always set stream to None"."""
    python(built, f"""
        if {how == "process"}:
            ok(cai.cai_sync_policy_set(32, None))
        own = stream()
        for value in (own, 1, 2, UNKNOWN):
            obj = give(make((SIZE,), "|u1", buffer(), stream=value))
            found, calls = counted(lambda: obj.__cuda_array_interface__)
            assert found["version"] == 3 and found["stream"] is None and calls == 0, (value, found, calls)
            with take(obj, protocols=[P.EXCHANGE]) as taken:
                assert taken.stream is None and not taken.array.stream_id
            capsule, calls = counted(lambda: obj.__dlpack__(stream=stream(), max_version=(1, 0)))
            assert calls == 0
        assert "stream" not in give(make((SIZE,), "|u1", buffer(), stream=own), version_2=True).__cuda_array_interface__
        """, CAI_SYNC="export-none" if how == "environment" else "")


def test_producers_order_whatever_consumers_ignore(built):
    python(built, """
        own = stream()
        obj = give(make((SIZE,), "|u1", buffer(), stream=own))
        assert obj.__cuda_array_interface__["stream"] == own
        counted(lambda: obj.__dlpack__(stream=stream(), max_version=(1, 0)))
        assert count("cuStreamWaitEvent") == 1
        """, CAI_SYNC="ignore")


# --- streams that come in ---------------------------------------------------------------------------------------

DICTIONARY = 'dict(shape=(SIZE,), typestr="|u1", data=(data, False), version=3, stream={stream})'


def test_imports_state_whose_stream_2_is(built):
    python(built, f"""
        data, consumer = buffer(), stream()
        taken = take(Exporter({DICTIONARY.format(stream=2)}))
        assert taken.stream == 2 and taken.context == contexts[0] and taken.array.stream_id != 0
        assert begin(taken, consumer) == 0

        def elsewhere():
            use(0)
            return begin(taken, consumer)

        assert Thread()(elsewhere) == ERRORS["STREAM_THREAD"]
        # A mask of its own.
        mask = Exporter({DICTIONARY.format(stream=2)})
        with take(Exporter(dict({DICTIONARY.format(stream="None")}, mask=mask)), allow_mask=True) as masked:
            assert masked.array.mask.contents.stream_id == taken.array.stream_id
        """)


def test_imports_state_whose_stream_1_is_when_asked(built):
    """The context of the memory, unless another one is current, which may be meant as well. The driver is asked once,
    and not by each begin and end."""
    python(built, f"""
        data, consumer = buffer(), stream()
        use(1)
        obj = Exporter({DICTIONARY.format(stream=1)})
        plain, calls = counted(lambda: take(obj))
        assert calls == 0 and plain.array.stream_id == 0 and plain.context is None
        # A begin finds the contexts by itself.
        assert counted(lambda: begin(plain, consumer))[0] == 0 and count("cuEventRecord") == 2
        for stream in (1, 2):
            either = take(Exporter({DICTIONARY.format(stream="stream")}), identify_stream=True)
            assert either.context is None and either.array.stream_id != 0
            assert counted(lambda: begin(either, consumer))[0] == 0 and count("cuEventRecord") == 2
        use(0)
        taken = take(obj, identify_stream=True)
        assert taken.context == contexts[0] and taken.array.stream_id != 0
        use(1)
        counted(lambda: begin(taken, consumer))
        assert count("cuPointerGetAttributes") == 0
        ok(cuda.cuCtxPopCurrent_v2(c.byref(c.c_void_p())))
        # What nothing is known about stays as it is.
        data = 0x7000_0000
        taken = take(Exporter({DICTIONARY.format(stream=2)}))
        assert taken.context is None and taken.array.stream_id == 0
        """)


def test_imports_state_handles_when_asked(built):
    python(
        built,
        f"""
        data, consumer, producer = buffer(), stream(), stream()
        obj = Exporter({DICTIONARY.format(stream="producer")})
        plain, calls = counted(lambda: take(obj))
        assert calls == 0 and plain.array.stream_id == 0 and plain.context is None
        taken = take(obj, identify_stream=True)
        assert taken.context == contexts[0] and taken.array.stream_id != 0
        assert begin(taken, consumer) == 0
        ok(cuda.cuStreamDestroy_v2(c.c_void_p(producer)))
        assert stream() == producer
        assert begin(taken, consumer) == ERRORS["STREAM_STALE"] and begin(plain, consumer) == 0
        # Where there is no stream, there is nothing to ask.
        obj = Exporter({DICTIONARY.format(stream="None")})
        taken, calls = counted(lambda: take(obj, identify_stream=True))
        assert calls == 0 and taken.stream is None
        try:
            data = 0x7000_0000
            take(Exporter({DICTIONARY.format(stream="0x1230")}), identify_stream=True)
        except RuntimeError as why:
            assert "INVALID_HANDLE" in str(why), why
        else:
            assert False
        """,
        CUDASIM_EXCHANGES="hidden",  # the checker would report the destroyed stream, too
    )


def test_a_destroyed_stream_is_not_exported(built):
    """Its handle may be that of another stream by now, for which readers would wait in vain."""
    python(
        built,
        """
        data, consumer, producer = buffer(), stream(), stream()
        array = produced(data, producer)
        masked = make((SIZE,), "|u1", data, mask=array)
        obj, over_mask = give(array), give(masked)

        def to_json(of):
            return cai.cai_unstable_array_to_json(c.byref(of.array), None, 0, None, c.byref(error))

        assert obj.__cuda_array_interface__["stream"] == producer
        obj.__dlpack__(stream=consumer, max_version=(1, 0))
        assert to_json(array) == to_json(masked) == 0
        ok(cuda.cuStreamDestroy_v2(c.c_void_p(producer)))
        for status in ("STREAM_HANDLE", "STREAM_STALE"):
            if status == "STREAM_STALE":
                assert stream() == producer  # which gives the handle to another stream
            alive = "alive" if status == "STREAM_HANDLE" else "the stream was destroyed"
            assert alive in reason(obj)
            assert alive in reason(over_mask.__cuda_array_interface__["mask"])
            for asked in (consumer, producer, None, 1):
                try:
                    obj.__dlpack__(stream=asked, max_version=(1, 0))
                except RuntimeError as why:
                    assert alive in str(why) or "INVALID_HANDLE" in str(why), why
                else:
                    raise AssertionError(f"{status}: ordered after a destroyed stream, for {asked}")
            obj.__dlpack__(stream=-1, max_version=(1, 0))  # its consumer orders nothing
            for of in (array, masked):
                assert to_json(of) == ERRORS[status], (error.code, error.message)
            # Without a stream there is nothing to wait for in vain.
            assert "stream" not in give(array, version_2=True).__cuda_array_interface__
        """,
        CUDASIM_EXCHANGES="hidden",  # the checker would report the destroyed stream, too
    )


@pytest.mark.parametrize("value", [1, 2, 0x5000])
def test_an_import_loads_no_driver(built, value):
    here = str(pathlib.Path(__file__).parent)
    text = f"""
import sys
sys.path.insert(0, {here!r})
from cai_python import Exporter, take
data, SIZE = 0x7000_0000, 4
for _ in range(3):
    taken = take(Exporter({DICTIONARY.format(stream=value)}))
    assert taken.stream == {value} and taken.array.stream_id == 0 and taken.context is None
assert "libcuda" not in open("/proc/self/maps").read()
"""
    run(sys.executable, "-c", text, env={"LD_LIBRARY_PATH": built.driver, "CAI_CUDA_DRIVER": built.driver + "/libcuda.so.1"})


@pytest.mark.parametrize("invalidates", [False, True])
def test_a_tensor_is_released_after_the_work_beside_a_capture(built, invalidates):
    """The consumer's work is on the legacy stream, which cannot be used while a blocking stream is captured: the tensor
    stays until the capture has ended, and then until the work is done."""
    python(built, f"""
        use(0)
        counted, data, gate, opener, blocking, graph = P.Counted(), buffer(), buffer(), stream(), c.c_void_p(), c.c_void_p()
        array = make((SIZE,), "|u1", data, counted=counted)
        obj = give(array)
        taken = take(obj, protocols=[P.DLPACK], stream=1)
        array.release()
        del obj
        ok(cuda.cuStreamWaitValue32_v2(c.c_void_p(1), c.c_uint64(gate), 1, 0))
        fill(data, 1, 1)
        ok(cuda.cuStreamCreate(c.byref(blocking), 0))
        ok(cuda.cuStreamBeginCapture_v2(blocking, 0))
        if {invalidates}:
            assert cuda.cuStreamSynchronize(blocking) != 0
        taken.release()
        gc.collect()

        def stays():
            for _ in range(10):
                time.sleep(0.001)
                assert counted.gone == 0

        stays()
        assert (cuda.cuStreamEndCapture(blocking, c.byref(graph)) != 0) == {invalidates}
        stays()
        ok(cuda.cuStreamWriteValue32_v2(c.c_void_p(opener), c.c_uint64(gate), 1, 0))
        ok(cuda.cuStreamSynchronize(c.c_void_p(opener)))
        assert P.soon(lambda: counted.gone == 1, 20)
        """)


@pytest.mark.parametrize("own", [1, 2])
def test_a_tensor_is_released_after_the_work_in_the_context_of_the_import(built, own):
    """The consumer works on a default stream of its current context, which is not that of the memory, and the tensor is
    released in a thread with another one."""
    python(built, f"""
        counted, managed, gate = P.Counted(), c.c_uint64(), buffer()
        ok(cuda.cuMemAllocManaged(c.byref(managed), c.c_size_t(SIZE), 1))
        array = make((SIZE,), "|u1", managed.value, counted=counted, device=(P.CUDA_MANAGED, 0))
        obj = give(array)
        use(1)
        taken, opener = take(obj, protocols=[P.DLPACK], stream={own}), stream()
        array.release()
        del obj
        ok(cuda.cuStreamWaitValue32_v2(c.c_void_p({own}), c.c_uint64(gate), 1, 0))
        fill(taken.data, 1, {own})

        def release():
            use(0)
            taken.release()

        Thread()(release)
        gc.collect()
        for _ in range(20):
            time.sleep(0.001)
            assert counted.gone == 0
        ok(cuda.cuStreamWriteValue32_v2(c.c_void_p(opener), c.c_uint64(gate), 1, 0))
        ok(cuda.cuStreamSynchronize(c.c_void_p(opener)))
        assert P.soon(lambda: counted.gone == 1, 20)
        """)


def test_imports_while_the_consumer_captures(built):
    """The table of streams.md: what each protocol does at the import and at the begin. The capture goes on."""
    python(built, """
    WAYS = {"exchange": P.EXCHANGE, "tensors": P.DLPACK_EXCHANGE, "dictionary": P.CUDA_ARRAY_INTERFACE, "dlpack": P.DLPACK,
            "arrow": P.ARROW, "unknown": P.CUDA_ARRAY_INTERFACE}
    class Unknown:
        def __init__(self, obj):
            values = dict(obj.__cuda_array_interface__)
            self.obj, self.__cuda_array_interface__ = obj, {**values, "version": 2}
            del self.__cuda_array_interface__["stream"]
    ALONE = "a capture of the producer's stream alone"
    EXPECTED = {
        # the producer's stream is the consumer's, is in the same graph, is not captured
        "exchange": ["begun", "begun", "CAPTURE_CONSUMER"], "dictionary": ["begun", "begun", "CAPTURE_CONSUMER"],
        "dlpack": ["begun", "begun", "a capture of the consumer's stream alone"], "tensors": [ALONE, ALONE, "CAPTURE_CONSUMER"],
        "arrow": ["a stream that is being captured"] * 2 + ["CAPTURE_CONSUMER"], "unknown": ["begun"] * 3,
    }

    def attempt(way, case):
        mine, theirs, data, graph, event = stream(), stream(), buffer(), c.c_void_p(), c.c_void_p()
        ok(cuda.cuEventCreate(c.byref(event), 2))
        def after(one, other):
            ok(cuda.cuEventRecord(event, c.c_void_p(one)))
            ok(cuda.cuStreamWaitEvent(c.c_void_p(other), event, 0))
        producer = theirs if case else mine
        if case == 2:
            fill(data, 1, producer)
        ok(cuda.cuStreamBeginCapture_v2(c.c_void_p(mine), 2))
        if case == 1:
            after(mine, theirs)
        if case < 2:
            fill(data, 1, producer)
        obj = give(make((SIZE,), "|u1", data, stream=producer))
        if way == "unknown":
            obj = Unknown(obj)
        try:
            taken = take(obj, protocols=[WAYS[way]], stream=mine)
            code = begin(taken, mine)
            found = P.STATUS[code] if code else "begun"
            if way == "unknown":
                assert begin(taken, mine, READ | T.abi.CAI_SYNC_CONSERVATIVE) == ERRORS["CAPTURE_CONSUMER"]
            elif not code:
                copy(buffer_to_read, data, mine)
        except RuntimeError as why:
            found = str(why)
        if case == 1:
            after(theirs, mine)
        ok(cuda.cuStreamEndCapture(c.c_void_p(mine), c.byref(graph)))
        return found

    buffer_to_read = buffer()
    for way, all in EXPECTED.items():
        for case, expected in enumerate(all):
            found = attempt(way, case)
            assert expected in found, (way, case, found)
    """)


# --- batches and dictionaries with an event ---------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_batches_of_arrow(built, schedule):
    """A batch has the event of one stream; the host waited for the other."""
    python(built, """
        sys.path.insert(0, str(P.ROOT / "python"))
        from libcai import _arrow
        own, other, mine, target = stream(), stream(), stream(), buffer()
        x, y = make((SIZE,), "|u1", buffer(), stream=own), make((SIZE,), "|u1", buffer(), stream=other)
        fill(x.data, 1, own), fill(y.data, 2, other)
        batches = _arrow.arrow_stream({"x": give(x), "y": give(y), "z": give(x)}, path=str(P.LIBRARY))
        assert not hasattr(batches, "__arrow_c_stream__")
        batch, = _arrow.ArrowBatches(batches, path=str(P.LIBRARY))
        del batches
        for name, value in [("x", 1), ("y", 2), ("z", 1)]:
            with take(batch[name]) as taken:
                assert taken.event and taken.stream == UNKNOWN and taken.readonly and taken.device == (P.CUDA, 0)
                read(taken, target, mine)
            assert bytes_of(target, mine) == {value}
        x.release(), y.release()
        assert x.counted.gone == y.counted.gone == 0
        del batch, taken
        gc.collect()
        assert P.soon(lambda: x.counted.gone == y.counted.gone == 1, 5)
        """, schedule=schedule)


def test_an_event_in_a_dictionary(built):
    """Version 4 orders a reader that version 3 could not: the stream is not known."""
    python(built, """
        own, mine, target, event = stream(), stream(), buffer(), c.c_void_p()
        ok(cuda.cuEventCreate(c.byref(event), 2))
        data = buffer()
        fill(data, 3, own)
        ok(cuda.cuEventRecord(event, c.c_void_p(own)))
        obj = give(make((SIZE,), "|u1", data, stream=UNKNOWN, event=event.value, readonly=True), version_4=True)
        assert obj.__cuda_array_interface__["version"] == 2
        taken = take(obj, protocols=DICT, version_4=True)
        read(taken, target, mine)
        assert bytes_of(target, mine) == {3}
        """)
