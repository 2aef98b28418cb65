"""Views on streams: each case is a process on the simulated driver with the race checker, which ends the process with
an error if work on a view is not ordered."""

import pytest

import test_stream_export

VIEWS = """
    sys.path.insert(0, str(P.ROOT / "python"))
    from libcai import _view
    view = _view.function(str(P.LIBRARY))

    class Stream:
        def __init__(self, handle, device=None):
            self.handle = handle
            if device is not None:
                self.device_id = device
        def __cuda_stream__(self):
            return (0, self.handle)
"""


def python(built, body, *more, **others):
    return test_stream_export.python(built, VIEWS + body, *more, **others)


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
@pytest.mark.parametrize("kind", ["int", "Stream"])
@pytest.mark.parametrize("end", ["with view(obj, on) as seen: work()", "seen = view(obj, on); work(); seen.release()"])
def test_begin_and_end(built, schedule, kind, end):
    """The producer writes, the view's stream reads and writes, the producer writes again."""
    python(built, f"""
    theirs, mine, data, out = stream(), stream(), buffer(), buffer()
    fill(data, 1, theirs)
    obj, on = give(produced(data, theirs)), {kind}(mine)
    def work():
        copy(out, data, mine)
        fill(data, 2, mine)
    {end}
    copy(data, out, theirs)
    assert bytes_of(data, theirs) == {{1}}
    """, schedule)


HOST = """
    host = (c.c_ubyte * SIZE)()
    theirs, mine, data = stream(), stream(), buffer()
    fill(data, 1, theirs)
    obj = give(make((SIZE,), "|u1", data, stream={stream}))
    with view(obj, {on}) as seen:
        {work}
        seen.synchronize()
        ok(cuda.cuMemcpyDtoH_v2(host, c.c_uint64(data), c.c_size_t(SIZE)))  # waits for no other stream
    assert set(host) == {{{byte}}}
"""


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
@pytest.mark.parametrize(
    "stream, on, work, byte",
    [("theirs", -1, "pass", 1), ("P.STREAM_UNKNOWN", -1, "pass", 1), ("theirs", "mine", "fill(data, 2, mine)", 2)],
)
def test_a_wait_of_the_host(built, schedule, stream, on, work, byte):
    """For the producer, also where its stream is not known, and for the work on the view's stream."""
    python(built, HOST.format(stream=stream, on=on, work=work, byte=byte), schedule)


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_a_view_as_an_argument(built, schedule):
    """The consumer waits for the work on the view's stream, which it learns through each protocol; released in the end,
    the view makes the producer wait for both."""
    python(built, """
    theirs, mine, other, data, out = stream(), stream(), stream(), buffer(), buffer()
    fill(data, 1, theirs)
    for protocol in (P.CUDA_ARRAY_INTERFACE, P.DLPACK):
        with view(give(produced(data, theirs)), mine) as seen:
            fill(data, 2, mine)
            assert seen.__cuda_array_interface__["stream"] == mine
            with view(seen, other):
                copy(out, data, other)
                fill(data, 3, other)
            taken = P.take(seen, protocols=[protocol], stream=other)
            assert taken.array.data == seen.ptr
            taken.release()
        fill(data, 4, theirs)
    assert bytes_of(out, other) == {2} and bytes_of(data, theirs) == {4}
    """, schedule)


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
@pytest.mark.parametrize("known", ["NONE", "UNKNOWN"])
@pytest.mark.parametrize("end", ["seen.release(); seen.release()", "with seen: pass"])
def test_a_producer_that_cannot_wait(built, schedule, known, end):
    """Its memory is freed, and used again, when the work on the view's stream is done."""
    python(built, f"""
    class Reused(P.Counted):
        def _let_go(self, _):
            use(0)
            fill(data, 2, theirs)
            super()._let_go(_)
    theirs, mine, data, out = stream(), stream(), buffer(), buffer()
    fill(data, 1, mine)
    def viewed(counted, on, shape=(SIZE,)):
        array = make(shape, "|u1", data, stream={known}, counted=counted)
        seen = view(give(array), on)
        array.release()
        return seen
    counted = Reused()
    seen = viewed(counted, mine)
    copy(out, data, mine)
    {end}
    assert repr(seen) == "<libcai.View, released>"
    assert bytes_of(out, mine) == {{1}}
    while not counted.gone:
        time.sleep(0.001)
    ok(cuda.cuStreamSynchronize(c.c_void_p(theirs)))
    # No work is pending, or nothing is known of it.
    for on, shape in ((-1, (SIZE,)), (mine, (0,))):
        counted = P.Counted()
        viewed(counted, on, shape).release()
        assert counted.gone
    """, schedule)


def test_the_checker_sees_what_is_not_ordered(built):
    """That the others are silent means something."""
    done = python(built, """
    theirs, mine, data, out = stream(), stream(), buffer(), buffer()
    fill(data, 1, theirs)
    seen = view(give(produced(data, theirs)), -1)
    fill(data, 2, mine)
    """, check=False)
    assert done.returncode != 0 and "race" in done.stdout + done.stderr


def test_read_only_views_do_not_wait_for_readers(built):
    """A view that only reads is begun for reading, and still makes the producer wait."""
    python(built, """
    theirs, mine, data, out = stream(), stream(), buffer(), buffer()
    fill(data, 1, theirs)
    with view(give(produced(data, theirs)), mine, readonly=True) as seen:
        assert seen.readonly
        copy(out, data, mine)
    fill(data, 2, theirs)
    assert bytes_of(out, mine) == {1} and bytes_of(data, theirs) == {2}
    """)


def test_calls_of_the_driver(built):
    """None for -1, for the producer's own stream, and for a view that is only dropped."""
    python(built, """
    theirs, mine, data = stream(), stream(), buffer()
    obj = give(produced(data, theirs))
    for on in (theirs, mine):
        view(obj, on).release()
    def calls(body):
        return counted(body)[1]
    assert calls(lambda: view(obj, -1).release()) == 0
    assert calls(lambda: view(obj, theirs).release()) == 0
    begin = calls(lambda: view(obj, mine))
    assert 0 < begin < calls(lambda: view(obj, mine).release())
    seen = view(obj, mine)
    def drop():
        global seen
        del seen
    assert calls(drop) == 0
    """)


def test_the_device_of_a_dictionary(built):
    python(built, """
    use(1)
    class Array:
        __cuda_array_interface__ = dict(shape=(SIZE,), typestr="|u1", data=(buffer(), False), version=3, stream=None)
    use(0)
    assert view(Array(), -1).device_id == 1
    """)


def test_default_streams_of_another_device(built):
    """They would be looked for in the current context."""
    python(built, """
    obj = give(produced(buffer(), stream()))
    for wrong in (Stream(0, 1), Stream(1, 1), Stream(2, 1)):
        try:
            view(obj, wrong)
        except ValueError as why:
            assert str(why).startswith("stream: found a default stream of device 1, while the current context is of 0")
        else:
            raise AssertionError(wrong.handle)
    for right in (Stream(0, 0), Stream(1, -1), Stream(2), Stream(stream(), 1), 1):
        view(obj, right).release()
    """)


def test_an_end_that_fails_can_be_repeated(built):
    python(built, """
    data = buffer()
    array = produced(data, 1)
    obj = give(array)
    seen = view(obj, stream())
    ok(cuda.cuCtxSetCurrent(None))
    use(0)
    graph = c.c_void_p()
    captured = stream()
    other = view(obj, captured)
    ok(cuda.cuStreamBeginCapture_v2(c.c_void_p(captured), 2))
    try:
        other.release()
    except RuntimeError as why:
        assert "captur" in str(why)
    else:
        raise AssertionError
    assert other.ptr == data
    ok(cuda.cuStreamEndCapture(c.c_void_p(captured), c.byref(graph)))
    other.release()
    seen.release()
    """)
