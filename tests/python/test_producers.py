"""Arrays as libraries write them come in with every field right, or are refused for the reason that their library gave."""

import gc
import sys
import weakref

import cai_python as P
import producers
import pytest
from cai_python import ERRORS, even, give, take
from import_ways import FIELDS, WAYS, check_fields
from importing import CAI, Property, refused, same_type
from producers import PRODUCERS, RAISES

ROWS = [pytest.param(*row[1:], id=row[0]) for row in PRODUCERS]


@pytest.mark.parametrize("new, expected", ROWS)
def test_comes_in(new, expected):
    obj = new()
    with even(obj):
        with take(obj, allow_mask=True) as taken:
            check_fields(taken, expected)
    assert obj.__dict__["reads"] == 1
    assert producers.text_of(obj.last) == obj.before
    # The dictionary alone, as `numba.cuda.from_cuda_array_interface` takes it.
    with WAYS["bare"].take(obj.last, allow_mask=True) as taken:
        check_fields(taken, expected)


@pytest.mark.parametrize("new, expected", ROWS)
def test_is_kept_alive(new, expected):
    obj = new()
    alive = weakref.ref(obj)
    taken = take(obj, allow_mask=True)
    del obj
    gc.collect()
    assert alive() is not None
    check_fields(taken, expected)
    other = taken.share()
    taken.release()
    gc.collect()
    assert alive() is not None
    check_fields(other, expected)
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
        check_fields(taken, expected)


@pytest.mark.parametrize("new, expected", ROWS)
def test_goes_on(new, expected):
    """In and out and in again: nothing is lost, the flag that forbids writing least of all."""
    with take(new(), allow_mask=True) as first:
        obj = give(first)
        with take(obj, allow_mask=True) as second:
            for name in FIELDS:
                if name not in ("version", "mask"):
                    assert getattr(second, name) == getattr(first, name), name
        with take(obj, protocols=[P.CUDA_ARRAY_INTERFACE], allow_mask=True) as third:
            assert same_type(third.typestr, first.typestr) and third.contiguous() == first.contiguous()
            for name in ("shape", "data", "readonly", "stream", "descr"):
                assert getattr(third, name) == getattr(first, name), name


@pytest.mark.parametrize("name", RAISES)
def test_is_refused(name):
    """An AttributeError means that there is no dictionary; every other exception passes through."""
    error, obj = RAISES[name], Property(RAISES[name])
    if isinstance(error, AttributeError):
        assert CAI in refused(obj, TypeError, status="NO_PROTOCOL")
    else:
        with pytest.raises(type(error)) as info:
            take(obj, allow_mask=True)
        assert info.value is error and take.error.code == ERRORS["PYTHON_EXCEPTION"] and obj.reads == 1


def test_without_memory_there_is_no_attribute():
    obj = producers.made("holoscan", shape=(0,))
    refused(obj, TypeError, CAI, "NO_PROTOCOL")
    assert obj.reads == 2


@pytest.mark.parametrize("name, stream", [("vali", None), ("tensorrt", 0)])
def test_the_stream_of_a_surface_that_is_0(name, stream):
    obj = producers.made(name, stream=stream)
    refused(obj, ValueError, f"{CAI}['stream']", "STREAM_ZERO")
    with take(obj, lenient=True) as taken:
        assert taken.stream == P.STREAM_LEGACY


@pytest.mark.parametrize("lenient", [False, True])
def test_a_stream_of_0_in_version_2(lenient):
    """Which has no such key, so it does not say which stream that is."""
    with take(producers.made("spdl"), lenient=lenient) as taken:
        assert taken.stream == P.STREAM_UNKNOWN and taken.version == 2


def test_strict_takes_what_follows_the_specification():
    """The dictionaries that break it are these, and no others."""
    refused = set()
    for name, new, _ in PRODUCERS:
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
