"""Exports: the dictionary, masks, devices, refusals and round trips."""

import ctypes as c
import gc
import sys

import cai_ctypes as T
import cai_python as P
import ml_dtypes
import numpy as np
import pytest
from cai_python import ERRORS, give, make, take
from exporting import CAI, HOST, SYCL, exact, seen, versioned
from producers import ADDRESS, STREAM

# --- the dictionary


def test_each_reading_makes_a_new_one():
    with make() as array:
        obj = give(array)
        first = obj.__cuda_array_interface__
        second = obj.__cuda_array_interface__
        assert first is not second and first == second
        # Nothing else refers to it. From CPython 3.14 on, a call refers to a local variable without a reference.
        mine = dict(second)
        assert sys.getrefcount(first) == sys.getrefcount(mine)
        first.clear()
        assert obj.__cuda_array_interface__ == second


@pytest.mark.parametrize("typestr", ["<f1", "|t1"])
def test_types_that_numpy_does_not_have(typestr):
    with make(typestr=typestr) as array:
        exact(found := seen(array))
        assert found["typestr"] == typestr


@pytest.mark.parametrize("stream, version", [(STREAM, 4), (P.STREAM_UNKNOWN, 2)])
def test_version_4(stream, version):
    """What is known besides comes in again. Readers of version 3 find their keys, and no other version than they know."""
    event, context = 0x6000_0000, 0x5151_0000
    mask = make((2, 3), "|b1", ADDRESS + 64, device=(P.CUDA_MANAGED, 0))
    array = make((2, 3), "|V1", ADDRESS, stream=stream, event=event, context=context, device=(P.CUDA_MANAGED, 0),
                 dtype_code=P.FLOAT8_E4M3FN, mask=mask)  # fmt: skip
    mask.release()
    with array:
        obj = give(array, version_4=True)
        exact(found := obj.__cuda_array_interface__)
        more = dict(device=(P.CUDA_MANAGED, 0), context=context, event=event, dtype="float8_e4m3fn")
        of_3 = {key: value for key, value in found.items() if key not in (*more, "mask", "version")}
        assert found.items() >= more.items() and found["version"] == version
        assert of_3.items() <= give(array).__cuda_array_interface__.items()
        of_mask = found["mask"].__cuda_array_interface__
        assert of_mask["device"] == more["device"] and of_mask["version"] == 4
        options = dict(protocols=[P.CUDA_ARRAY_INTERFACE], allow_mask=True, version_4=True)
        with take(obj, **options) as again:
            for field in ("stream", "event", "context", "device", "dtype_code"):
                assert getattr(again, field) == getattr(array, field), field
            assert again.mask.device == (P.CUDA_MANAGED, 0)


# --- masks


def test_mask():
    mask = make((3, 4), "|b1", ADDRESS + 64, stream=STREAM)
    array = make((3, 4), mask=mask, stream=2)
    mask.release()
    obj = give(array)
    array.release()
    found = obj.__cuda_array_interface__
    exact(found)
    inner = found["mask"].__cuda_array_interface__
    assert inner["data"] == (ADDRESS + 64, False) and inner["typestr"] == "|b1" and inner["stream"] == STREAM
    assert inner["shape"] == (3, 4) and found["stream"] == 2
    # The mask alone keeps its memory, and what it may need of the array's.
    kept = found["mask"]
    del obj, found, inner
    gc.collect()
    assert mask.counted.gone == 0
    with take(kept) as again:
        assert again.data == ADDRESS + 64
    del kept
    gc.collect()
    assert mask.counted.gone == 1 and array.counted.gone == 1


def test_masks_of_masks():
    inner = make((4,), "|t1", ADDRESS + 128)
    mask = make((3, 4), "|u1", ADDRESS + 64, mask=inner)
    array = make((3, 4), mask=mask)
    with take(give(array), protocols=[P.CUDA_ARRAY_INTERFACE], allow_mask=True) as again:
        assert (
            again.mask.typestr == "|u1" and again.mask.mask.typestr == "|t1" and again.mask.mask.data == ADDRESS + 128
        )
    for one in (array, mask, inner):
        one.release()
        assert one.counted.gone == 1


# --- devices


@pytest.mark.parametrize("device", [(P.UNKNOWN, 0), (P.CUDA, 0), (P.CUDA, 3), (P.CUDA_HOST, 0), (P.CUDA_MANAGED, 0)])
def test_devices_of_cuda(device):
    with make(device=device) as array:
        obj = give(array)
        assert obj.__cuda_array_interface__["shape"] == (2, 3)
        assert not hasattr(obj, HOST) or device[0] in (P.CUDA_HOST, P.CUDA_MANAGED)
        assert not hasattr(obj, SYCL)
        if device[0] != P.UNKNOWN:
            assert tuple(obj.__dlpack_device__()) == device
        with take(obj) as again, take(give(again)) as last:
            assert again.device == last.device == device


@pytest.mark.parametrize("device", [(P.OPENCL, 0), (P.ONEAPI, 0)])
def test_devices_without_a_dictionary(device):
    """SYCL's has a queue or a context, which this array lacks."""
    with make(device=device, data=0x6161_0000) as array:
        obj = give(array)
        for name in (CAI, HOST, SYCL):
            assert not hasattr(obj, name)
            with pytest.raises(AttributeError) as info:
                getattr(obj, name)
            assert str(info.value)
        assert tuple(obj.__dlpack_device__()) == device


def test_host_memory():
    memory = np.arange(12, dtype="<i4").reshape(3, 4)
    array = make((3, 4), "<i4", memory.ctypes.data, device=(P.CPU, 0))
    obj = give(array)
    array.release()
    assert not hasattr(obj, CAI) and not hasattr(obj, SYCL)
    found, view, again = obj.__array_interface__, np.asarray(obj), np.from_dlpack(obj)
    assert view.ctypes.data == again.ctypes.data == memory.ctypes.data
    view[1, 1] = 77
    assert memory[1, 1] == 77
    del obj
    gc.collect()
    assert array.counted.gone == 0
    del view, found
    gc.collect()
    assert array.counted.gone == 0
    del again
    gc.collect()
    assert array.counted.gone == 1


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("strides", [(16, 4), (4, 12), (-16, -4), (32, 8), (0, 4)])
def test_numpy_reads_host_memory(strides, readonly):
    memory = np.arange(200, dtype="<f4")
    with make((3, 4), "<f4", memory.ctypes.data + 256, strides, device=(P.CPU, 0), readonly=readonly) as array:
        expected = np.lib.stride_tricks.as_strided(memory[64:], (3, 4), strides)
        for found in (np.asarray(give(array)), np.from_dlpack(give(array))):
            assert (found == expected).all() and found.strides == strides and found.flags.writeable == (not readonly)


def test_numpy_reads_structures():
    kind = np.dtype([("a", "<i4"), ("b", "|i1"), ("c", "<f8", (2,))], align=True)
    memory = np.zeros(3, kind)
    memory["a"], memory["c"][:, 1] = [1, 2, 3], 5
    with make((3,), kind.str, memory.ctypes.data, descr=repr(kind.descr), device=(P.CPU, 0)) as array:
        found = np.asarray(give(array))
        assert (found["a"] == memory["a"]).all() and (found["c"] == memory["c"]).all()


# --- refusals


def test_borrowed():
    shape = (c.c_int64 * 2)(2, 3)
    array = T.new_array(typestr=b"<f4", data=ADDRESS, stream=P.STREAM_NONE, ndim=2)
    array.shape = c.cast(shape, c.POINTER(c.c_int64))
    with pytest.raises(ValueError):
        give(array)
    assert give.error.code == ERRORS["BORROWED"]


def test_what_is_no_array():
    with make() as good:
        for name, value, status in (
            ("stream", 0, 220),
            ("typestr", b"x", None),
            ("ndim", -1, 204),
            ("data", None, 210),
            ("flags", 1 << 20, 202),
        ):
            array = T.Array.from_buffer_copy(good.array)
            setattr(array, name, value)
            with pytest.raises((ValueError, TypeError)):
                give(array)
            assert status is None or give.error.code == status


def test_options():
    error, out = T.Error(), c.c_void_p(77)
    with make() as array:
        options = P.export_options()
        options.flags = 1 << 20
        with pytest.raises(ValueError):
            P.held.cai_array_to_python(c.byref(array.array), c.byref(options), c.byref(out), c.byref(error))
        assert error.code == ERRORS["NEWER_CALLER"]
        options = P.export_options(version_2=True, version_4=True)
        with pytest.raises(ValueError):
            P.held.cai_array_to_python(c.byref(array.array), c.byref(options), c.byref(out), c.byref(error))
        assert error.code == ERRORS["ARGUMENT"] and error.field == b"options->flags"
        options = P.export_options()
        options.struct_size = 4
        with pytest.raises(ValueError):
            P.held.cai_array_to_python(c.byref(array.array), c.byref(options), c.byref(out), c.byref(error))
        assert error.code == ERRORS["STRUCT_SIZE"]
        with pytest.raises(ValueError):
            P.held.cai_array_to_python(c.byref(array.array), None, None, c.byref(error))
        assert error.code == ERRORS["NULL_ARGUMENT"] and error.field == b"out"
    with pytest.raises((ValueError, TypeError)):
        P.held.cai_array_to_python(None, None, c.byref(out), c.byref(error))
    assert error.code == ERRORS["NULL_ARGUMENT"] and error.field == b"array"
    assert out.value == 77


def test_the_lock_must_be_held():
    error, out = T.Error(), c.c_void_p(77)
    with make() as array:
        status = P.free.cai_array_to_python(c.byref(array.array), None, c.byref(out), c.byref(error))
    assert status == error.code == ERRORS["PYTHON_LOCK"] and out.value == 77


# --- round trips


def test_types_of_ml_dtypes():
    for kind, code in (
        (ml_dtypes.bfloat16, P.BFLOAT16),
        (ml_dtypes.float8_e5m2, P.FLOAT8_E5M2),
        (ml_dtypes.float8_e4m3fn, P.FLOAT8_E4M3FN),
    ):
        dtype = np.dtype(kind)
        memory = np.arange(6).astype(dtype)
        with take(memory, host=True, protocols=[P.ARRAY_INTERFACE], opaque_8bit=code if dtype.itemsize == 1 else 0, opaque_16bit=code if dtype.itemsize == 2 else 0) as taken:  # fmt: skip
            assert taken.dtype_code == code and taken.typestr == dtype.str
            t = versioned(capsule := give(taken).__dlpack__(max_version=(1, 3))).tensor
            assert t.code == code and t.bits == 8 * dtype.itemsize and capsule
