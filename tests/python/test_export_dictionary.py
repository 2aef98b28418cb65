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


def test_dictionary():
    with make((3, 4), "<f8", ADDRESS) as array:
        found = seen(array)
        exact(found)
        assert {key: found[key] for key in ("shape", "typestr", "data", "version", "strides")} == {
            "shape": (3, 4), "typestr": "<f8", "data": (ADDRESS, False), "version": 3, "strides": None,
        }  # fmt: skip
        assert found.get("stream") is None and found.get("mask") is None
        assert set(found) <= {
            "shape",
            "typestr",
            "data",
            "version",
            "strides",
            "stream",
            "descr",
            "mask",
        }


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


@pytest.mark.parametrize(
    "shape, strides, dense",
    [((3, 4), None, True), ((3, 4), (16, 4), True), ((3, 4), (4, 12), False), ((3, 4), (0, 4), False), ((3, 4), (0, 0), False),
     ((4, 3), (16, 4), False), ((4,), (-4,), False), ((1, 4), (7, 4), True), ((1, 1), (0, 0), True), ((0, 4), (3, 3), True),
     ((), None, True), ((), (), True), ((3, 4), (17, 5), False), ((1, 4), (4, 0), False)],
)  # fmt: skip
def test_strides_are_none_exactly_when_dense(shape, strides, dense):
    with make(shape, strides=strides) as array:
        found = seen(array)
        exact(found)
        assert found["shape"] == shape and found["strides"] == (None if dense else strides)
        stated = seen(array, strides=True)["strides"]
        assert type(stated) is tuple and len(stated) == len(shape)
        if strides is not None:
            relevant = [i for i in range(len(shape)) if shape[i] > 1 and 0 not in shape]
            assert all(stated[i] == strides[i] for i in relevant)
        else:
            assert stated == np.zeros(shape, "f4").strides


@pytest.mark.parametrize("stream", [1, 2, 3, STREAM, 2**63 + 1, 2**64 - 3])
def test_streams(stream):
    with make(stream=stream) as array:
        found = seen(array)
        assert found["stream"] == stream and type(found["stream"]) is int and found["version"] == 3
        assert (
            "stream" not in seen(array, version_2=True)
            and seen(array, version_2=True)["version"] == 2
        )


def test_no_stream():
    with make(stream=P.STREAM_NONE) as array:
        found = seen(array)
        assert found["version"] == 3 and found.get("stream") is None
        assert seen(array, version_2=True)["version"] == 2 and "stream" not in seen(
            array, version_2=True
        )


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_stream_that_is_not_known(version):
    """Version 3 without a stream would state that nothing is pending, which is not known."""
    with make(stream=P.STREAM_UNKNOWN, version=version) as array:
        found = seen(array)
        assert found["version"] == 2 and "stream" not in found
        with take(give(array), protocols=[P.CUDA_ARRAY_INTERFACE]) as again:
            assert again.stream == P.STREAM_UNKNOWN


def test_readonly():
    with make(readonly=True, data=ADDRESS) as array:
        assert seen(array)["data"] == (ADDRESS, True) and seen(array)["data"][1] is True
        assert seen(array, hide_readonly=True)["data"] == (ADDRESS, False)
    with make(data=ADDRESS) as array:
        assert seen(array)["data"][1] is False


@pytest.mark.parametrize("address", [1, 2**31, 2**32 + 8, 2**63, 2**63 + 4096, 2**64 - 32])
def test_addresses(address):
    with make((2, 3), data=address) as array:
        assert seen(array)["data"] == (address, False)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_empty(shape):
    with make(shape) as array:
        found = seen(array)
        assert found["data"] == (0, False) and found["shape"] == shape and found["strides"] is None


def test_scalar():
    with make((), "<i8") as array:
        found = seen(array)
        assert (
            found["shape"] == ()
            and found["strides"] is None
            and seen(array, strides=True)["strides"] == ()
        )


def test_many_dimensions():
    with make((1,) * 64) as array:
        assert seen(array)["shape"] == (1,) * 64


@pytest.mark.parametrize(
    "typestr",
    [
        "<f4",
        ">f4",
        "|f4",
        "|b1",
        "|u1",
        "<c16",
        "<M8[25us]",
        "|S5",
        "<U3",
        "|V7",
        "<V2",
        "<f1",
        "|t1",
    ],
)
def test_types(typestr):
    with make(typestr=typestr) as array:
        found = seen(array)
        exact(found)
        assert found["typestr"] == typestr


def test_bfloat16():
    with make(typestr="<V2", dtype_code=P.BFLOAT16) as array:
        found = seen(array)
        exact(found)
        assert found["typestr"] == "<V2"
        # What else there is says no more than that.
        assert found.get("descr", [("", "<V2")]) == [("", "<V2")]
        with take(give(array)) as again:  # by the table on the type, nothing is lost
            assert again.dtype_code == P.BFLOAT16
        with take(
            give(array), protocols=[P.CUDA_ARRAY_INTERFACE], opaque_16bit=P.BFLOAT16
        ) as again:
            assert again.dtype_code == P.BFLOAT16


STRUCTURES = [
    np.dtype([("a", "<i4"), ("b", "|i1")], align=True),
    np.dtype([("x", "<f8", (2, 3)), (("title", "y"), "|S3")]),
    np.dtype([("o", [("i", ">i2"), ("j", [("k", "<M8[us]")])]), ("ä", "|u1")]),
    np.dtype([("it's", "<i4"), ('"', "<i4"), ("back\\slash", "<U2")]),
]


@pytest.mark.parametrize("kind", STRUCTURES, ids=str)
def test_structures(kind):
    with make((3,), kind.str, descr=repr(kind.descr)) as array:
        found = seen(array)
        exact(found)
        assert found["descr"] == kind.descr and found["typestr"] == kind.str
        assert np.dtype(found["descr"]) == np.dtype(kind.descr)
        with take(give(array), protocols=[P.CUDA_ARRAY_INTERFACE]) as again:
            assert again.descr == array.descr


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
    assert (
        inner["data"] == (ADDRESS + 64, False)
        and inner["typestr"] == "|b1"
        and inner["stream"] == STREAM
    )
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
            again.mask.typestr == "|u1"
            and again.mask.mask.typestr == "|t1"
            and again.mask.mask.data == ADDRESS + 128
        )
    for one in (array, mask, inner):
        one.release()
        assert one.counted.gone == 1


# --- devices


@pytest.mark.parametrize(
    "device", [(P.UNKNOWN, 0), (P.CUDA, 0), (P.CUDA, 3), (P.CUDA_HOST, 0), (P.CUDA_MANAGED, 0)]
)
def test_devices_of_cuda(device):
    with make(device=device) as array:
        obj = give(array)
        assert obj.__cuda_array_interface__["shape"] == (2, 3)
        assert not hasattr(obj, HOST) or device[0] in (P.CUDA_HOST, P.CUDA_MANAGED)
        assert not hasattr(obj, SYCL)
        if device[0] != P.UNKNOWN:
            assert tuple(obj.__dlpack_device__()) == device


def test_devices_without_a_dictionary():
    with make(device=(P.OPENCL, 0), data=0x6161_0000) as array:
        obj = give(array)
        for name in (CAI, HOST, SYCL):
            assert not hasattr(obj, name)
            with pytest.raises(AttributeError) as info:
                getattr(obj, name)
            assert str(info.value)
        assert tuple(obj.__dlpack_device__()) == (P.OPENCL, 0)


def test_host_memory():
    memory = np.arange(12, dtype="<i4").reshape(3, 4)
    array = make((3, 4), "<i4", memory.ctypes.data, device=(P.CPU, 0))
    obj = give(array)
    array.release()
    assert not hasattr(obj, CAI) and not hasattr(obj, SYCL)
    found = obj.__array_interface__
    exact(found)
    assert (
        found["version"] == 3
        and found["shape"] == (3, 4)
        and found["data"] == (memory.ctypes.data, False)
    )
    view = np.asarray(obj)
    assert (view == memory).all() and view.ctypes.data == memory.ctypes.data
    view[1, 1] = 77
    assert memory[1, 1] == 77
    again = np.from_dlpack(obj)
    assert (
        again.ctypes.data == memory.ctypes.data
        and again.dtype == memory.dtype
        and again.shape == memory.shape
    )
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
    with make(
        (3, 4), "<f4", memory.ctypes.data + 256, strides, device=(P.CPU, 0), readonly=readonly
    ) as array:
        expected = np.lib.stride_tricks.as_strided(memory[64:], (3, 4), strides)
        for found in (np.asarray(give(array)), np.from_dlpack(give(array))):
            assert (
                (found == expected).all()
                and found.strides == strides
                and found.flags.writeable == (not readonly)
            )


def test_numpy_reads_structures():
    kind = np.dtype([("a", "<i4"), ("b", "|i1"), ("c", "<f8", (2,))], align=True)
    memory = np.zeros(3, kind)
    memory["a"], memory["c"][:, 1] = [1, 2, 3], 5
    with make(
        (3,), kind.str, memory.ctypes.data, descr=repr(kind.descr), device=(P.CPU, 0)
    ) as array:
        found = np.asarray(give(array))
        assert (found["a"] == memory["a"]).all() and (found["c"] == memory["c"]).all()


def test_sycl():
    """A SYCL dictionary has a queue or a context; an array without one has no dictionary."""
    with make(
        (3, 4), strides=(32, -4), device=(P.ONEAPI, 0), data=ADDRESS + 64, context=0x5151_0000
    ) as array:
        obj = give(array)
        assert not hasattr(obj, CAI) and not hasattr(obj, HOST)
        found = obj.__sycl_usm_array_interface__
        assert found["version"] == 1 and found["shape"] == (3, 4) and found["strides"] == (8, -1)
        assert found["data"] == (ADDRESS + 64 - 12, False) and found["offset"] == 3
        assert "SyclContextRef" in repr(found["syclobj"])
        with take(obj, protocols=[P.SYCL_USM]) as again:
            assert again.strides == (32, -4) and again.context == 0x5151_0000
    with make((3, 4), strides=(33, 4), device=(P.ONEAPI, 0), context=0x5151_0000) as array:
        assert not hasattr(give(array), SYCL)  # steps are no whole number of elements
    with make((3, 4), device=(P.ONEAPI, 0)) as array:
        assert not hasattr(give(array), SYCL)


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
            P.held.cai_array_to_python(
                c.byref(array.array), c.byref(options), c.byref(out), c.byref(error)
            )
        assert error.code == ERRORS["NEWER_CALLER"]
        options = P.export_options()
        options.struct_size = 4
        with pytest.raises(ValueError):
            P.held.cai_array_to_python(
                c.byref(array.array), c.byref(options), c.byref(out), c.byref(error)
            )
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
        status = P.free.cai_array_to_python(
            c.byref(array.array), None, c.byref(out), c.byref(error)
        )
    assert status == error.code == ERRORS["PYTHON_LOCK"] and out.value == 77


# --- round trips

ARRAYS = {
    "dense": dict(shape=(3, 4)),
    "strided": dict(shape=(3, 4), strides=(64, -4)),
    "broadcast": dict(shape=(3, 4), strides=(0, 4)),
    "scalar": dict(shape=()),
    "empty": dict(shape=(0, 4)),
    "readonly": dict(readonly=True),
    "stream": dict(stream=STREAM),
    "unknown": dict(stream=P.STREAM_UNKNOWN, version=2),
    "structure": dict(shape=(3,), typestr="|V8", descr="[('a', '<i4'), ('b', '|i1'), ('', '|V3')]"),
    "big": dict(typestr=">f8"),
    "managed": dict(device=(P.CUDA_MANAGED, 1)),
}


@pytest.mark.parametrize("protocols", [[], [P.CUDA_ARRAY_INTERFACE]], ids=["table", "dictionary"])
@pytest.mark.parametrize("name", ARRAYS)
def test_round_trips(name, protocols):
    array = make(**{"data": ADDRESS + 1024, **ARRAYS[name]})
    obj = give(array)
    array.release()
    for _ in range(3):
        taken = take(obj, protocols=protocols)
        obj = give(taken)
        taken.release()
    gc.collect()
    assert array.counted.gone == 0
    with take(obj, protocols=protocols) as last:
        for field in ("shape", "typestr", "data", "readonly", "stream", "descr"):
            assert getattr(last, field) == getattr(array, field), field
        assert last.strides == array.strides
        if not protocols:
            assert last.device == array.device
    del obj
    gc.collect()
    assert array.counted.gone == 1


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
