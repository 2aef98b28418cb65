"""`__arrow_c_device_array__` and `__arrow_c_array__`, in and out, without a library of Arrow's."""

import ctypes as c
import gc
import weakref

import cai_python as P
import numpy as np
import pytest
from cai_python import give, make, take
from dlpack_ctypes import new_capsule
from importing import refused

ONLY = dict(host=True, protocols=[P.ARROW])
DEVICE, HOST = "__arrow_c_device_array__", "__arrow_c_array__"


class Weak(np.ndarray):
    pass


class Offers:
    """An object with one method, which returns what is given."""

    def __init__(self, name, result):
        setattr(self, name, result if callable(result) else lambda: result)


def exported(array):
    with take(array, host=True) as taken:
        return give(taken)


@pytest.mark.parametrize("name", [DEVICE, HOST])
@pytest.mark.parametrize("consumed", [False, True])
def test_an_array_lives_as_long_as_its_capsules(name, consumed):
    numbers = np.arange(12, dtype="f4").reshape(3, 4).view(Weak)
    address, gone = numbers.__array_interface__["data"][0], weakref.ref(numbers)
    pair = getattr(exported(numbers), name)(requested_schema=None)
    del numbers
    gc.collect()
    assert gone() is not None
    if consumed:
        with take(Offers(name, pair), **ONLY) as taken:
            del pair
            gc.collect()
            assert (taken.shape, taken.typestr, taken.data, taken.readonly) == ((3, 4), "<f4", address, True)
            assert gone() is not None
        del taken
    else:
        del pair
    gc.collect()
    assert gone() is None


def test_an_array_is_moved_once():
    for name in (DEVICE, HOST):
        pair = getattr(exported(np.arange(3)), name)()
        take(Offers(name, pair), **ONLY).release()
        refused(Offers(name, pair), BufferError, f"{name}.array.release: found NULL", "ARROW", **ONLY)


def test_only_host_memory_has_the_method_for_the_host():
    with make(device=(P.CUDA, 0)) as array:
        obj = give(array)
    assert hasattr(obj, DEVICE) and not hasattr(obj, HOST)
    with take(obj, protocols=[P.ARROW]) as taken:
        assert (taken.device, taken.shape) == ((P.CUDA, 0), array.shape)
    # In the default order, too.
    with take(Offers(DEVICE, getattr(obj, DEVICE))) as taken:
        assert taken.device == (P.CUDA, 0)
    host = exported(np.arange(3))
    refused(Offers(DEVICE, getattr(host, DEVICE)), BufferError, "host memory", "HOST_MEMORY")
    refused(Offers(HOST, getattr(host, HOST)), TypeError, "", "NO_PROTOCOL")


def test_what_arrow_cannot_express():
    for typestr, shape, text in (("<c8", (3,), "expected a type of Arrow"), ("<f4", (), "expected at least 1")):
        with make(typestr=typestr, shape=shape, device=(P.CPU, 0)) as array:
            obj = give(array)
        for name in (DEVICE, HOST):
            with pytest.raises(BufferError, match=text):
                getattr(obj, name)()


WRONG = {
    "no tuple": (5, "an object of type int"),
    "too short": ((5,), "an object of type tuple"),
    "no capsules": ((5, 6), "an object of type int"),
    "in the wrong order": (exported(np.arange(3)).__arrow_c_device_array__()[::-1], "expected a capsule named arrow_schema"),
    "for the host": (exported(np.arange(3)).__arrow_c_array__(), "expected a capsule named arrow_device_array"),
    "of another name": ((new_capsule(8, b"x", None),) * 2, "a capsule named arrow_schema"),
}


@pytest.mark.parametrize("name", WRONG)
def test_results_that_are_no_structures(name):
    result, text = WRONG[name]
    refused(Offers(DEVICE, result), TypeError, text, "TYPE", **ONLY)


def test_a_method_that_raises():
    def fails():
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        take(Offers(DEVICE, fails), **ONLY)


def test_a_mask_must_be_wanted():
    """A refusal releases what was moved."""
    with make(typestr="|u1", shape=(8,), mask=make(typestr="|t1", shape=(8,))) as array:
        obj = give(array)
    refused(obj, BufferError, "array.buffers[0]: found a mask", "CONVERT_MASK", protocols=[P.ARROW])
    with take(obj, allow_mask=True, protocols=[P.ARROW]) as taken:
        assert taken.mask.typestr == "|t1"
    assert array.counted.gone == 0
    del obj
    gc.collect()
    assert array.counted.gone == 1
