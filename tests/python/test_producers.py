"""Arrays as libraries write them come in with every field right, or are refused for the reason that their library gave."""

import gc
import sys
import weakref

import pytest

import cai_ctypes as T
import cai_python as P
import producer_cases
import producers
from cai_python import even, give, take

ROWS = [pytest.param(*row[1:], id=row[0]) for row in producer_cases.PRODUCERS]
REFUSALS = [pytest.param(*row[1:], id=row[0]) for row in producer_cases.REFUSALS]
FIELDS = "shape strides typestr data readonly stream version device dtype_code context byte_offset descr mask event".split()


def same_type(a, b):
    """Whether two typestrs mean the same; NumPy's letters mean this machine's type."""
    letters = {"f": "<f4", "d": "<f8", "i": "<i4", "B": "|u1"}
    types = T.Dtype(), T.Dtype()
    for text, dtype in zip((a, b), types):
        assert P.held.cai_dtype_parse(letters.get(text, text).encode(), dtype, None) == 0
    return P.held.cai_dtype_equal(*types)


def check(taken, expected):
    given = dict(
        shape=(3, 4), strides=None, typestr="<f4", data=producers.ADDRESS, readonly=False, device=(P.UNKNOWN, 0),
        dtype_code=0, context=None, byte_offset=0, descr=None, mask=None, event=None,
    )  # fmt: skip
    given |= expected
    for name in FIELDS:
        if name == "typestr":
            assert same_type(taken.typestr, given["typestr"])
            # A text that the specification allows stays as it was written.
            assert taken.typestr == given["typestr"] or given["typestr"][0] not in "<>|"
        elif name == "mask" and given["mask"]:
            assert {key: getattr(taken.mask, key) for key in given["mask"]} == given["mask"]
        elif name in given:
            assert getattr(taken, name) == given[name], name


@pytest.mark.parametrize("new, expected", ROWS)
def test_comes_in(new, expected):
    obj = new()
    with even(obj):
        with take(obj, allow_mask=True) as taken:
            check(taken, expected)
    reads = obj.__dict__["reads"]
    assert reads == 1
    assert producers.text_of(obj.last) == obj.before


@pytest.mark.parametrize("new, expected", ROWS)
def test_is_kept_alive(new, expected):
    obj = new()
    alive = weakref.ref(obj)
    taken = take(obj, allow_mask=True)
    del obj
    gc.collect()
    assert alive() is not None
    check(taken, expected)
    other = taken.share()
    taken.release()
    gc.collect()
    assert alive() is not None
    check(other, expected)
    other.release()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("new, expected", ROWS)
def test_does_not_hang_on_the_dictionary(new, expected):
    """A dictionary that its producer hands out again, or changes, is not held and not looked at later."""
    obj = new()
    first = obj.__cuda_array_interface__
    before = sys.getrefcount(first)
    with take(obj, allow_mask=True) as taken:
        if obj.last is first:
            assert sys.getrefcount(first) == before
        if type(obj.last) is dict:
            obj.last.clear()
        check(taken, expected)


@pytest.mark.parametrize("new, expected", ROWS)
def test_goes_on(new, expected):
    """In and out and in again: nothing is lost, the flag that forbids writing least of all."""
    with take(new(), allow_mask=True) as first:
        obj = give(first)
        with take(obj, allow_mask=True) as second:
            for name in FIELDS:
                if name not in ("version", "mask"):
                    assert getattr(second, name) == getattr(first, name), name
        if first.device == (P.UNKNOWN, 0):
            with take(obj, protocols=[P.CUDA_ARRAY_INTERFACE], allow_mask=True) as third:
                assert third.stream == first.stream and third.readonly == first.readonly and third.data == first.data
                assert third.shape == first.shape and same_type(third.typestr, first.typestr)
                assert third.descr == first.descr and third.contiguous() == first.contiguous()


@pytest.mark.parametrize("new, kind, text", REFUSALS)
def test_is_refused(new, kind, text):
    obj = new()
    with even(obj):
        try:
            take(obj, allow_mask=True)
        except Exception as error:
            # Its own exception, not one of a class derived from it, with the text first.
            assert type(error) is kind and text in str(error), error
            del error
        else:
            pytest.fail("it came in")
    assert obj.__dict__["reads"] == 1


def test_the_stream_of_a_surface_that_is_0():
    with take(producers.Vali(), lenient=True) as taken:
        assert taken.stream == P.STREAM_LEGACY
    # Of version 2, which has no such key: then it does not say which stream that is.
    for lenient in (False, True):
        with take(producers.Spdl(), lenient=lenient) as taken:
            assert taken.stream == P.STREAM_UNKNOWN and taken.version == 2


def test_strict_takes_what_follows_the_specification():
    """The dictionaries that break it are these, and no others."""
    refused = set()
    for name, new, _ in producer_cases.PRODUCERS:
        try:
            take(new(), strict=True, allow_mask=True).release()
        except Exception:
            refused.add(name)
    assert refused == {
        "cudf", "cudf-3", "cudf-empty", "cudf-mask", "cudf-3-mask",  # `data` is no tuple
        "vpf",  # the shape is a list, the type a letter
        "hoomd", "hoomd-double", "hoomd-int", "hoomd-empty",  # letters
        "stf", "stf-argument", "stf-empty",  # no dictionary
        "spdl", "spdl-u2",  # a stream in version 2
    }  # fmt: skip
