"""`libcai.arrow_batches` and `libcai.arrow_stream`, without a library of Arrow's: what goes out comes in again."""

import ctypes as c
import errno
import gc
import weakref

import numpy as np
import pytest
from cai_python import LIBRARY
from libcai import _arrow

DEVICE, HOST = "__arrow_c_device_stream__", "__arrow_c_stream__"


def arrow_batches(obj, columns=None):
    return _arrow.ArrowBatches(obj, columns, str(LIBRARY))


def arrow_stream(batches, **options):
    return _arrow.arrow_stream(batches, path=str(LIBRARY), **options)


class Weak(np.ndarray):
    pass


class Offers:
    def __init__(self, name, capsule):
        setattr(self, name, lambda: capsule)


def numbers(count=6):
    array = np.arange(count, dtype="f4").view(Weak)
    return array, weakref.ref(array)


def collected(gone):
    gc.collect()
    return gone() is None


@pytest.mark.parametrize("name", [DEVICE, HOST])
def test_columns_come_back(name):
    x, y = np.arange(6, dtype="i8"), np.arange(36.0).reshape(6, 2, 3).transpose(0, 2, 1)
    stream = arrow_stream([{"x": x, "y": y}, {"x": x[:2], "y": y[:2]}])
    for _ in range(2):  # each call makes a new stream
        first, second = arrow_batches(Offers(name, getattr(stream, name)()))
        assert list(first) == list(second) == ["x", "y"]
        for ours, theirs in zip((first["x"], first["y"], second["x"], second["y"]), (x, y, x[:2], y[:2])):
            assert np.array_equal(np.asarray(ours), theirs) and not np.asarray(ours).flags.writeable
            assert np.asarray(ours).ctypes.data == theirs.ctypes.data


def test_some_columns():
    stream = arrow_stream({"x": np.arange(3), "y": np.arange(3.0)})
    with arrow_batches(stream, ["y"]) as batches:
        assert list(next(batches)) == ["y"]
    assert list(batches) == []
    for columns in (["z"], ["x", "z"]):
        with pytest.raises(ValueError, match=r"found 0 columns named 'z' in \['x'"):
            arrow_batches(stream, columns)


@pytest.mark.parametrize("name", [DEVICE, HOST])
@pytest.mark.parametrize("used", ["not at all", "opened", "first", "all"])
def test_owners(name, used):
    """Each array ends once: with the capsule, the stream, or the last column of its batch."""
    (x, one), (y, other) = numbers(), numbers()
    stream = arrow_stream([{"x": x, "y": np.arange(6)}, {"x": y, "y": np.arange(6)}])
    del x, y
    capsule = getattr(stream, name)()
    del stream
    assert not collected(one) and not collected(other)
    if used != "not at all":
        batches = arrow_batches(Offers(name, capsule))
        del capsule
        if used == "opened":
            batches.close()
        else:
            first = next(batches)
            if used == "all":
                rest = list(batches)
                assert len(rest) == 1 and not collected(other)
                del rest
            batches.close()
            assert collected(other) and not collected(one)
            column = first["y"]
            del first
            # Its batch, not the column itself.
            assert not collected(one)
            del column
        del batches
    else:
        del capsule
    assert collected(one) and collected(other)


def test_a_stream_is_moved_once():
    for name in (DEVICE, HOST):
        offers = Offers(name, getattr(arrow_stream({"x": np.arange(3)}), name)())
        assert len(list(arrow_batches(offers))) == 1
        with pytest.raises(ValueError, match="released or moved"):
            arrow_batches(offers)


@pytest.mark.parametrize(
    "batches, error, text",
    [
        ([], ValueError, "no columns"),
        ({}, ValueError, "no columns"),
        ([{"x": np.arange(3)}, {"y": np.arange(3)}], ValueError, r"columns \['y'\]"),
        # It would end at the NUL.
        ({"x\0y": np.arange(3)}, ValueError, r"a column named 'x\\x00y'"),
        ({3: np.arange(3)}, ValueError, "a column named 3"),
        ([{"x": np.arange(3)}, {"x": np.arange(3.0)}], BufferError, r"batches\[1\].columns\[0\]"),
        ([{"x": np.ones((3, 2))}, {"x": np.ones((3, 4))}], BufferError, r"batches\[1\].columns\[0\]"),
        ({"x": np.arange(3), "y": np.arange(4)}, ValueError, r"columns\[1\].shape\[0\]: found 4"),
        ({"x": np.arange(3) * 1j}, BufferError, r"columns\[0\].typestr"),
        ({"x": np.float64(3)}, BufferError, r"columns\[0\].ndim"),
        ({"x": 3}, TypeError, "array"),
    ],
)
def test_what_is_no_batch(batches, error, text):
    (kept, gone) = numbers(3)
    if batches and isinstance(batches, dict):
        batches = {"w": kept, **batches} if "x" in batches and isinstance(batches["x"], int) else batches
    with pytest.raises(error, match=text):
        getattr(arrow_stream(batches), HOST)()
    del kept, batches
    assert collected(gone)


def test_a_frame():
    """What has keys and columns is enough: the values of a data frame are no method."""

    class Frame:
        columns, values = {"x": np.arange(3), "y": np.arange(3.0)}, None
        keys = __iter__ = lambda self: iter(self.columns)
        __getitem__ = lambda self, name: self.columns[name]

    (batch,) = arrow_batches(arrow_stream(Frame()))
    assert np.array_equal(batch["x"], np.arange(3)) and np.array_equal(batch["y"], np.arange(3.0))


def test_what_is_no_stream():
    for wrong in (3, np.arange(3)):
        with pytest.raises(TypeError, match="neither"):
            arrow_batches(wrong)
    with pytest.raises(ValueError):
        arrow_batches(Offers(HOST, arrow_stream({"x": np.arange(3)}).__arrow_c_device_stream__()))


class Producer:
    """A stream in host memory whose functions are Python's. `fails` names one that fails, with a text or without."""

    def __init__(self, fails=None, text=None, format=b"+s", forgets=False):
        self.released, self.forgets = {"stream": 0, "schema": 0}, forgets
        self.fails, self.text, self.format = fails, text and c.create_string_buffer(text), format
        self.get_text = c.CFUNCTYPE(c.c_void_p, c.c_void_p)(lambda _: self.text and c.addressof(self.text))
        self.stream = _arrow._HostStream()
        self.stream.get_schema = _arrow._GET(self.get_schema)
        self.stream.get_next = _arrow._GET(lambda *_: errno.EIO if fails == "get_next" else 0)
        self.stream.get_last_error = c.cast(self.get_text, _arrow._TEXT)
        self.stream.release = self.release(_arrow._HostStream, "stream")

    def release(self, kind, name):
        def release(place):
            if not self.forgets:
                kind.from_address(place).release = _arrow._RELEASE()
            self.released[name] += 1

        return _arrow._RELEASE(release)

    def get_schema(self, _, to):
        if self.fails == "get_schema":
            return errno.EIO
        schema = _arrow._Schema.from_address(to)
        schema.format, schema.n_children, self.kept = self.format, 0, self.release(_arrow._Schema, "schema")
        schema.release = self.kept
        return 0

    def __arrow_c_stream__(self):
        make = c.pythonapi.PyCapsule_New
        make.restype, make.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
        return make(c.addressof(self.stream), b"arrow_array_stream", None)


@pytest.mark.parametrize("fails", ["get_schema", "get_next"])
@pytest.mark.parametrize("text", [None, b"what the producer says"])
def test_producers_that_fail(fails, text):
    producer = Producer(fails, text)
    with pytest.raises(OSError) as raised:
        next(arrow_batches(producer))
    assert raised.value.errno == errno.EIO
    assert raised.value.strerror == (text.decode() if text else "Input/output error")
    del raised
    gc.collect()
    assert producer.released == {"stream": 1, "schema": int(fails == "get_next")}


@pytest.mark.parametrize(("format", "shown"), [(b"l", "'l'"), (None, "''"), (b"\xff", "'\ufffd'")])
def test_a_stream_of_other_arrays(format, shown):
    producer = Producer(format=format)
    with pytest.raises(TypeError, match=f"format {shown}.*: put a column into a table"):
        arrow_batches(producer)
    assert producer.released == {"stream": 1, "schema": 1}


def test_a_producer_that_forgets_to_clear_release():
    producer = Producer(forgets=True)
    assert list(arrow_batches(producer)) == []
    gc.collect()
    assert producer.released == {"stream": 1, "schema": 1}
