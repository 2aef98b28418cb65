"""`libcai.view`: attributes, arguments, release, references. Order on streams is in test_view_streams.py."""

import gc
import inspect
import re
import sys
import threading
import weakref

import cai_python as P
import pytest
from cai_python import ROOT, give, make
from producers import ADDRESS

from libcai import _view

view = _view.function(str(P.LIBRARY))
View = view.__self__


class Array:
    def __init__(self, **changes):
        interface = dict(shape=(3, 4), typestr="<f4", data=(ADDRESS, False), version=3, strides=None, stream=None)
        interface.update(changes)
        self.__cuda_array_interface__ = {key: value for key, value in interface.items() if value is not ...}


def test_attributes():
    numpy = pytest.importorskip("numpy")
    array = Array()
    seen = view(array, stream=-1)
    assert type(seen) is View and View.__name__ == "View" and View.__module__ == "libcai"
    assert seen.ptr == ADDRESS and type(seen.ptr) is int
    assert seen.shape == (3, 4) and seen.strides is None and seen.size == 12
    assert seen.dtype is numpy.dtype("<f4") and seen.dtype is view(Array(), -1).dtype
    assert seen.is_device_accessible is True and seen.readonly is False
    assert seen.exporting_obj is array
    assert repr(seen) == f"<libcai.View shape=(3, 4) typestr='<f4' data={ADDRESS:#x} stream=None>"
    with pytest.raises(AttributeError):
        seen.ptr = 1
    with pytest.raises(AttributeError):
        seen.other = 1


@pytest.mark.parametrize(
    "shape, typestr, strides, expected, size",
    [
        ((3, 4), "<f4", (16, 4), (4, 1), 12),
        ((3, 4), "<f4", (16, -4), (4, -1), 12),
        ((3, 4), "<f4", (0, 4), (0, 1), 12),
        ((3,), "<c16", (32,), (2,), 3),
        ((), "<f4", None, None, 1),
        ((0, 4), "<f4", None, None, 0),
        ((16,), "|t1", None, None, 16),
    ],
)
def test_strides_are_in_elements(shape, typestr, strides, expected, size):
    data = (ADDRESS if size else 0, False)
    seen = view(Array(shape=shape, typestr=typestr, strides=strides, data=data), -1)
    assert seen.shape == shape and seen.strides == expected and seen.size == size


@pytest.mark.parametrize(
    "shape, typestr, strides, nbytes, c, f",
    [
        ((3, 4), "<f4", None, 48, True, False),
        ((3, 4), "<f4", (4, 12), 48, False, True),
        ((3, 4), "<f4", (32, 8), 48, False, False),
        ((), "<f8", None, 8, True, True),
        ((0, 4), "<f4", (1, 1), 0, True, True),
        ((17,), "|t1", None, 3, True, True),
    ],
)
def test_bytes_and_contiguity(shape, typestr, strides, nbytes, c, f):
    seen = view(Array(shape=shape, typestr=typestr, strides=strides, data=(ADDRESS if nbytes else 0, False)), -1)
    assert (seen.nbytes, seen.c_contiguous, seen.f_contiguous) == (nbytes, c, f)


def test_what_a_view_offers():
    """What its array can have, on the view's stream, until the release; the memory as long as the view."""
    with make((3, 4), device=(P.CUDA, 0), stream=12345) as array:
        obj = give(array)
    for stream, exported in ((-1, 12345), (12345, 12345)):
        seen = view(obj, stream)
        assert seen.__cuda_array_interface__ == {**obj.__cuda_array_interface__, "stream": exported}
        assert seen.__dlpack_device__() == (2, 0)
        assert not hasattr(seen, "__array_interface__")
        again = view(seen, -1)
        assert again.ptr == seen.ptr and again.exporting_obj is seen
        again.release()
        seen.release()
        for name in PROTOCOLS:
            assert not hasattr(seen, name)
    assert view(obj, -1, readonly=True).__cuda_array_interface__["data"][1] is True
    del again, obj
    gc.collect()
    assert array.counted.gone == 0  # a consumer of the dictionary keeps the view, and nothing else
    del seen
    gc.collect()
    assert array.counted.gone == 1


def test_what_a_view_of_host_memory_offers():
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(12.0).reshape(3, 4)[:, ::2]
    seen = view(array, 1)  # a stream orders nothing there
    for read in (numpy.asarray, numpy.from_dlpack):
        back = read(seen)
        assert back.ctypes.data == array.ctypes.data and back.tolist() == array.tolist()
    assert seen.synchronize() is None and not hasattr(seen, "__cuda_array_interface__")
    references = sys.getrefcount(array)
    for _ in range(100):
        numpy.asarray(view(array))
    assert sys.getrefcount(array) == references


def test_asked_by_many_threads_at_once():
    with make((3, 4)) as array:
        obj = give(array)
    for _ in range(20):
        seen, start = view(obj, -1), threading.Barrier(4)

        def ask():
            start.wait()
            assert seen.__dlpack_device__()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.release()
    del seen, ask, obj
    gc.collect()
    assert array.counted.gone == 1


def test_strides_that_are_no_elements():
    seen = view(Array(strides=(18, 4)), -1)
    with pytest.raises(BufferError, match=r"strides\[0\]: found 18 bytes, expected a multiple .*, 4"):
        seen.strides


def test_host_memory_needs_no_stream():
    numpy = pytest.importorskip("numpy")
    for array in (numpy.arange(12.0).reshape(3, 4), numpy.zeros((2, 3), "<i2")[:, ::2]):
        for arguments in ((), (None,), (-1,), (1,)):
            seen = view(array, *arguments)
            assert seen.ptr == array.ctypes.data and seen.shape == array.shape and seen.dtype is array.dtype
            assert seen.device_id == -1 and not seen.is_device_accessible and seen.exporting_obj is array
    array.flags.writeable = False
    assert view(array).readonly


@pytest.mark.parametrize(
    "device, number, accessible",
    [((P.CPU, 0), -1, False), ((P.CUDA, 3), 3, True), ((P.CUDA_HOST, 0), 0, True), ((P.CUDA_MANAGED, 1), 1, True),
     ((10, 2), 2, True)],
)  # fmt: skip
def test_devices(device, number, accessible):
    with make(device=device) as array:
        seen = view(give(array), -1)
        assert seen.device_id == number and seen.is_device_accessible is accessible


def test_a_device_that_is_not_known():
    with pytest.raises((RuntimeError, BufferError)):
        view(Array(), -1).device_id


def test_readonly():
    assert view(Array(data=(ADDRESS, True)), -1).readonly is True
    assert view(Array(), -1, readonly=True).readonly is True
    assert view(Array(data=(ADDRESS, True)), -1, readonly=False).readonly is True
    with pytest.raises(ZeroDivisionError):
        view(Array(), -1, readonly=type("Bad", (), {"__bool__": lambda self: 1 / 0})())


@pytest.mark.parametrize(
    "arguments, keywords, error, text",
    [
        ((), {}, TypeError, "found 0 positional arguments"),
        ((1, 2, 3), {}, TypeError, "found 3 positional arguments"),
        ((Array(), -1), {"stream": -1}, TypeError, "found a keyword stream, expected stream, if it is not passed by pos"),
        ((Array(), -1), {"nothing": -1}, TypeError, "found a keyword nothing"),
        ((Array(),), {}, ValueError, "stream: found None, for an array in device memory, expected the stream on which"),
        ((Array(), None), {}, ValueError, "stream: found None"),
        ((Array(), 0), {}, ValueError, "stream: found 0, which may be any default stream, or none, expected 1 "),
        ((Array(), "1"), {}, TypeError, "stream: found '1', expected"),
        ((7, -1), {}, TypeError, "int is not an array. It has none of"),
        ((Array(shape=(-1,)), -1), {}, ValueError, r"__cuda_array_interface__\['shape'\]\[0\]: found -1"),
    ],
)
def test_wrong_arguments(arguments, keywords, error, text):
    with pytest.raises(error, match=text):
        view(*arguments, **keywords)


def test_keywords_of_any_origin():
    """Names that are not interned are compared by their characters."""
    assert view(Array(), **{"".join(["str", "eam"]): -1}).ptr == ADDRESS
    assert view(Array(), **{"".join(["read", "only"]): True, "stream": -1}).readonly


def test_masks_and_handles_are_refused():
    with make((3, 4), mask=make((3, 4), "|b1")) as array, pytest.raises(BufferError):
        view(give(array), -1)
    with make(device=(P.OPENCL, 0)) as array, pytest.raises(BufferError, match="memory behind a handle, opencl"):
        view(give(array), -1)


def test_the_type_makes_no_objects():
    with pytest.raises((TypeError, ValueError)):
        View().ptr
    with pytest.raises(TypeError):
        type("Derived", (View,), {})
    assert str(inspect.signature(view)) == "(obj, /, stream=None, *, readonly=False)"
    assert view.__name__ == "view" and view.__module__ == "libcai" and _view.function(str(P.LIBRARY)) is view


NAMES = (
    "ptr shape strides dtype device_id is_device_accessible readonly size nbytes c_contiguous f_contiguous exporting_obj"
).split()
PROTOCOLS = (
    "__cuda_array_interface__ __dlpack__ __dlpack_device__ __array_interface__ __sycl_usm_array_interface__"
).split()


def test_release():
    with make((3, 4)) as array:
        obj = give(array)
    seen = view(obj, -1)
    with seen as same:
        assert same is seen and seen.shape == (3, 4)
    assert repr(seen) == "<libcai.View, released>"
    for name in NAMES:
        with pytest.raises(ValueError, match="view: found one that was released"):
            getattr(seen, name)
    with pytest.raises(ValueError), seen:
        pass
    with pytest.raises(ValueError):
        seen.synchronize()
    assert seen.release() is None and seen.__exit__(None, None, None) is None
    assert array.counted.gone == 0
    del obj
    gc.collect()
    assert array.counted.gone == 1


def test_references():
    """The view holds the array and the object, once each, and gives both up."""
    for end in (lambda seen: seen.release(), lambda seen: None, lambda seen: seen.__exit__()):
        # Bound outside any `with`: from CPython 3.14 on, calls take a reference to a name that may be unbound, only.
        array = make((3, 4))
        obj = give(array)
        array.release()
        before = sys.getrefcount(obj)
        seen = view(obj, -1)
        reference = weakref.ref(seen)
        assert reference() is seen and sys.getrefcount(obj) == before + 1
        end(seen)
        del seen
        assert reference() is None and sys.getrefcount(obj) == before
        assert array.counted.gone == 0
        del obj
        gc.collect()
        assert array.counted.gone == 1


def test_failures_leave_nothing():
    array, stream = Array(), 2**63 + 5
    for wrong in (0, None, "x"):
        before = sys.getrefcount(array), sys.getrefcount(wrong)
        for _ in range(100):
            with pytest.raises((TypeError, ValueError)):
                view(array, wrong)
        del _
        gc.collect()
        assert (sys.getrefcount(array), sys.getrefcount(wrong)) == before
    # The order fails, where there is no driver, after the view was made.
    waiting = Array(stream=7)
    before = sys.getrefcount(waiting), sys.getrefcount(stream)
    for _ in range(100):
        with pytest.raises(Exception):
            view(waiting, stream)
    gc.collect()
    assert (sys.getrefcount(waiting), sys.getrefcount(stream)) == before


def test_the_stream_object_is_kept_until_the_release():
    class Stream:
        def __cuda_stream__(self):
            return (0, 12345)

    stream = Stream()
    before = sys.getrefcount(stream)
    seen = view(Array(stream=12345), stream)  # the same stream: no driver is needed
    assert sys.getrefcount(stream) == before + 1
    seen.release()
    assert sys.getrefcount(stream) == before
    view(Array(stream=12345), stream)
    assert sys.getrefcount(stream) == before


def test_released_while_others_read():
    with make((3, 4)) as array:
        obj = give(array)
    for _ in range(50):
        seen = view(obj, -1)
        start = threading.Barrier(3)

        def read():
            start.wait()
            for _ in range(50):
                try:
                    assert seen.shape == (3, 4) and seen.exporting_obj is obj
                except ValueError:
                    return

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        seen.release()
        for thread in threads:
            thread.join()
    del seen, read
    assert array.counted.gone == 0
    del obj
    gc.collect()
    assert array.counted.gone == 1


def test_the_page():
    """The attributes in its table are those of the type."""
    page = (ROOT / "docs/src/python.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.partition("| attribute |")[2].partition("\n\n")[0], re.M)
    listed = re.findall(r"\w+", " ".join(rows))
    methods = {"release", "synchronize"}
    assert sorted(listed) == sorted(NAMES) == sorted({name for name in dir(View) if name[0] != "_"} - methods)


def test_the_package_has_it(monkeypatch):
    """The library is loaded when the function is asked for, and not before."""
    import libcai

    monkeypatch.setattr("libcai._paths.library", lambda: str(P.LIBRARY))
    for name in ("view", "View", "empty_like"):
        libcai.__dict__.pop(name, None)
    assert libcai.View is View and libcai.view is view and {"view", "empty_like"} <= set(libcai.__all__)
    assert libcai.empty_like is View._empty_like
    for name in ("view", "View", "empty_like"):
        libcai.__dict__.pop(name, None)
    with pytest.raises(AttributeError, match="no attribute 'views'"):
        libcai.views
