"""cai_array_to_python: what others see of our arrays."""

import copy
import ctypes as c
import gc
import pickle
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import cai_ctypes as T
import cai_python as P
from cai_python import ERRORS, give, make, soon, take
from dlpack_ctypes import (
    CAI_FROM_OBJECT,
    CAI_TO_OBJECT,
    DLPACK_FROM_OBJECT,
    DLPACK_STREAM,
    DLPACK_TO_OBJECT,
    DLPACK_VIEW,
    CaiTable,
    DlpackTable,
    Tensor,
    Versioned,
)
from producers import ADDRESS, STREAM

CAI, HOST, SYCL = "__cuda_array_interface__", "__array_interface__", "__sycl_usm_array_interface__"


def seen(array, **options):
    return give(array, **options).__cuda_array_interface__


def exact(value):
    """Only built-in types, no classes derived from them."""
    assert type(value) in (dict, tuple, list, str, int, bool, type(None)), type(value)
    if type(value) is dict:
        for key, item in value.items():
            assert type(key) is str
            if key != "mask":
                exact(item)
    elif type(value) in (tuple, list):
        for item in value:
            exact(item)


# --- the dictionary -------------------------------------------------------------------------------------------------


def test_dictionary():
    with make((3, 4), "<f8", ADDRESS) as array:
        found = seen(array)
        exact(found)
        assert {key: found[key] for key in ("shape", "typestr", "data", "version", "strides")} == {
            "shape": (3, 4), "typestr": "<f8", "data": (ADDRESS, False), "version": 3, "strides": None,
        }  # fmt: skip
        assert found.get("stream") is None and found.get("mask") is None
        assert set(found) <= {"shape", "typestr", "data", "version", "strides", "stream", "descr", "mask"}


def test_each_reading_makes_a_new_one():
    with make() as array:
        obj = give(array)
        first = obj.__cuda_array_interface__
        second = obj.__cuda_array_interface__
        assert first is not second and first == second
        assert sys.getrefcount(first) == 2
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
        assert "stream" not in seen(array, version_2=True) and seen(array, version_2=True)["version"] == 2


def test_no_stream():
    with make(stream=P.STREAM_NONE) as array:
        found = seen(array)
        assert found["version"] == 3 and found.get("stream") is None
        assert seen(array, version_2=True)["version"] == 2 and "stream" not in seen(array, version_2=True)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_stream_that_is_not_known(version):
    """Version 3 without a stream would say that nothing is pending, which nobody knows."""
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
        assert found["shape"] == () and found["strides"] is None and seen(array, strides=True)["strides"] == ()


def test_many_dimensions():
    with make((1,) * 64) as array:
        assert seen(array)["shape"] == (1,) * 64


@pytest.mark.parametrize("typestr", ["<f4", ">f4", "|f4", "|b1", "|u1", "<c16", "<M8[25us]", "|S5", "<U3", "|V7", "<V2", "<f1", "|t1"])
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
        with take(give(array), protocols=[P.CUDA_ARRAY_INTERFACE], opaque_16bit=P.BFLOAT16) as again:
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


# --- masks ----------------------------------------------------------------------------------------------------------


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
        assert again.mask.typestr == "|u1" and again.mask.mask.typestr == "|t1" and again.mask.mask.data == ADDRESS + 128
    for one in (array, mask, inner):
        one.release()
        assert one.counted.gone == 1


# --- devices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [(P.UNKNOWN, 0), (P.CUDA, 0), (P.CUDA, 3), (P.CUDA_HOST, 0), (P.CUDA_MANAGED, 0)])
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
    assert found["version"] == 3 and found["shape"] == (3, 4) and found["data"] == (memory.ctypes.data, False)
    view = np.asarray(obj)
    assert (view == memory).all() and view.ctypes.data == memory.ctypes.data
    view[1, 1] = 77
    assert memory[1, 1] == 77
    again = np.from_dlpack(obj)
    assert again.ctypes.data == memory.ctypes.data and again.dtype == memory.dtype and again.shape == memory.shape
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


def test_sycl():
    """A SYCL dictionary has a queue or a context; an array without one has no dictionary."""
    with make((3, 4), strides=(32, -4), device=(P.ONEAPI, 0), data=ADDRESS + 64, context=0x5151_0000) as array:
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


# --- DLPack ---------------------------------------------------------------------------------------------------------


PYCAPSULE = c.pythonapi
PYCAPSULE.PyCapsule_GetPointer.restype = c.c_void_p
PYCAPSULE.PyCapsule_GetPointer.argtypes = [c.py_object, c.c_char_p]
PYCAPSULE.PyCapsule_GetName.restype = c.c_char_p
PYCAPSULE.PyCapsule_GetName.argtypes = [c.py_object]


def name_of(capsule):
    return PYCAPSULE.PyCapsule_GetName(capsule)


def versioned(capsule):
    return c.cast(PYCAPSULE.PyCapsule_GetPointer(capsule, b"dltensor_versioned"), c.POINTER(Versioned)).contents


def test_dlpack():
    with make((3, 4), "<i2", ADDRESS, (16, 4), readonly=True) as array:
        obj = give(array)
        capsule = obj.__dlpack__(max_version=(1, 0))
        tensor = versioned(capsule)
        assert tensor.major == 1 and tensor.flags & 1
        t = tensor.tensor
        assert (t.data or 0) + t.byte_offset == ADDRESS and (t.device_type, t.device_id) == (2, 0)
        assert (t.ndim, t.code, t.bits, t.lanes) == (2, 0, 16, 1)
        assert t.shape[:2] == [3, 4] and t.strides[:2] == [8, 2]


def test_dlpack_versions():
    with make() as array:
        obj = give(array)
        assert name_of(obj.__dlpack__()) == b"dltensor"
        assert name_of(obj.__dlpack__(max_version=None)) == b"dltensor"
        assert name_of(obj.__dlpack__(max_version=(0, 8))) == b"dltensor"
        for version in ((1, 0), (1, 3), (2, 0), (9, 9)):
            assert name_of(obj.__dlpack__(max_version=version)) == b"dltensor_versioned"
        for version in (1, "1.0", (1,), ("a", "b"), (1, 0, 0)):
            with pytest.raises((TypeError, ValueError)):
                obj.__dlpack__(max_version=version)


def test_dlpack_keywords():
    with make() as array:
        obj = give(array)
        obj.__dlpack__(stream=None, max_version=(1, 0), dl_device=None, copy=None)
        obj.__dlpack__(stream=-1, dl_device=(2, 0), copy=False)
        for stream in (1, 2, STREAM):
            obj.__dlpack__(stream=stream)  # no work is pending, so nothing has to be ordered
        for wrong in (dict(copy=True), dict(dl_device=(1, 0)), dict(dl_device=(2, 1))):
            with pytest.raises(BufferError):
                obj.__dlpack__(**wrong)
        for wrong in (dict(stream=0), dict(stream=-2), dict(stream="1"), dict(stream=1.5), dict(dl_device=2), dict(dl_device="ab")):
            with pytest.raises((TypeError, ValueError, BufferError)):
                obj.__dlpack__(**wrong)
        with pytest.raises(TypeError):
            obj.__dlpack__(nonsense=1)


def test_dlpack_on_the_arrays_own_stream():
    """No driver is needed where the receiver works on the same stream, or says that it takes care."""
    with make(stream=STREAM) as array:
        obj = give(array)
        obj.__dlpack__(stream=STREAM)
        obj.__dlpack__(stream=-1)


def test_dlpack_cannot_say_it():
    refusals = [
        make((3, 4), ">f4"), make((3, 4), "|V8"), make((3, 4), "<M8[us]"), make((3, 4), "<U2"), make((3, 4), "<V2"),
        make((3, 4), "<f4", strides=(17, 4)), make((3, 4), mask=make((3, 4), "|b1")),
    ]  # fmt: skip
    for array in refusals:
        obj = give(array)
        with pytest.raises(BufferError):
            obj.__dlpack__(max_version=(1, 3))
        assert obj.__cuda_array_interface__["shape"] == (3, 4)
        del obj
        array.release()
        assert array.counted.gone == 1
    with make(readonly=True) as array:
        with pytest.raises(BufferError):
            give(array).__dlpack__()
        give(array).__dlpack__(max_version=(1, 0))
        give(array, hide_readonly=True).__dlpack__()


@pytest.mark.parametrize("typestr, code, expected", [("<V2", P.BFLOAT16, (4, 16)), ("<V1", P.FLOAT8_E4M3FN, (10, 8)), ("|b1", 0, (6, 8)), ("<c8", 0, (5, 64)), ("|f4", 0, (2, 32))])
def test_dlpack_types(typestr, code, expected):
    with make(typestr=typestr, dtype_code=code) as array:
        capsule = give(array).__dlpack__(max_version=(1, 3))
        t = versioned(capsule).tensor
        assert (t.code, t.bits) == expected


def test_capsules_that_nobody_uses():
    array = make()
    obj = give(array)
    capsules = [obj.__dlpack__(), obj.__dlpack__(max_version=(1, 0))]
    array.release()
    del obj
    gc.collect()
    assert array.counted.gone == 0
    capsules.pop()
    assert array.counted.gone == 0
    capsules.pop()
    assert array.counted.gone == 1


def test_dlpack_round_trip():
    array = make((3, 4), "<f2", ADDRESS, (64, 2))
    obj = give(array)
    array.release()
    taken = take(obj, protocols=[P.DLPACK], stream=STREAM)
    del obj
    assert taken.shape == (3, 4) and taken.strides == (64, 2) and taken.data == ADDRESS and taken.stream == STREAM
    assert taken.device == (P.CUDA, 0) and array.counted.gone == 0
    taken.release()
    assert array.counted.gone == 1


def test_dlpack_of_empty_arrays_and_scalars():
    for shape in ((0, 4), (), (1, 1)):
        with make(shape, "<i4") as array, take(give(array), protocols=[P.DLPACK]) as again:
            assert again.shape == shape and again.data == (0 if 0 in shape else array.data)


# --- the tables on the type -----------------------------------------------------------------------------------------


def dlpack_table(obj):
    pointer = PYCAPSULE.PyCapsule_GetPointer(type(obj).__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return c.cast(pointer, c.POINTER(DlpackTable)).contents


def test_dlpacks_table():
    array = make((3, 4), "<i2", ADDRESS, (16, 4), readonly=True)
    obj = give(array)
    table = dlpack_table(obj)
    assert table.major == 1
    tensor = c.POINTER(Versioned)()
    assert DLPACK_FROM_OBJECT(table.from_object)(obj, c.byref(tensor)) == 0
    t = tensor.contents.tensor
    assert t.shape[:2] == [3, 4] and t.strides[:2] == [8, 2] and t.data + t.byte_offset == ADDRESS
    assert tensor.contents.flags & 1
    if table.view:
        borrowed = Tensor()
        assert DLPACK_VIEW(table.view)(obj, c.byref(borrowed)) == 0
        assert borrowed.data == ADDRESS and borrowed.shape[:2] == [3, 4] and borrowed.bits == 16
    array.release()
    del obj
    assert array.counted.gone == 0
    # And an object of a tensor, which is taken over.
    if table.to_object:
        out = c.c_void_p()
        assert DLPACK_TO_OBJECT(table.to_object)(tensor, c.byref(out)) == 0
        again = c.cast(out, c.py_object).value
        PYCAPSULE.Py_DecRef(c.py_object(again))
        assert array.counted.gone == 0
        assert again.__cuda_array_interface__["data"] == (ADDRESS, True)
        del again
    else:
        tensor.contents.delete()
    del t
    assert array.counted.gone == 1


def test_dlpacks_table_refuses():
    with make((3, 4), ">f4") as array:
        obj = give(array)
        tensor = c.POINTER(Versioned)()
        with pytest.raises(BufferError):
            DLPACK_FROM_OBJECT(dlpack_table(obj).from_object)(obj, c.byref(tensor))
        assert not tensor


def our_table(obj):
    pointer = PYCAPSULE.PyCapsule_GetPointer(type(obj).__cai_exchange_api__, b"cai_exchange_api_1")
    return c.cast(pointer, c.POINTER(CaiTable)).contents


def test_our_table():
    array = make((3, 4), "<V2", ADDRESS, stream=STREAM, dtype_code=P.BFLOAT16, mask=make((3, 4), "|t1"), readonly=True)
    obj = give(array)
    table = our_table(obj)
    assert table.struct_size >= c.sizeof(CaiTable) and table.data_abi == 1
    out, error = T.new_array(), T.Error()
    assert CAI_FROM_OBJECT(table.from_object)(obj, c.byref(out), c.byref(error)) == 0
    taken = P.Taken(out)
    for name in ("shape", "typestr", "data", "stream", "dtype_code", "readonly", "device"):
        assert getattr(taken, name) == getattr(array, name)
    assert taken.mask.typestr == "|t1"
    del obj
    array.release()
    made = c.c_void_p()
    assert CAI_TO_OBJECT(table.to_object)(c.byref(out), c.byref(made), c.byref(error)) == 0
    again = c.cast(made, c.py_object).value
    PYCAPSULE.Py_DecRef(c.py_object(again))
    taken.release()
    assert array.counted.gone == 0
    assert again.__cuda_array_interface__["stream"] == STREAM
    del again
    assert array.counted.gone == 1


def test_the_way_through_the_table_gives_the_array_itself():
    array = make((3, 4), stream=STREAM)
    obj = give(array)
    before = sys.getrefcount(obj)
    with take(obj) as taken:
        assert taken.array.owner == array.array.owner or sys.getrefcount(obj) == before + 1
    del obj
    array.release()
    assert array.counted.gone == 1


# --- the object -----------------------------------------------------------------------------------------------------


def test_repr_and_type():
    with make((3, 4), "<f4") as array:
        obj = give(array)
        assert "<f4" in repr(obj) or "array" in repr(obj).lower()
        kind = type(obj)
        assert kind.__name__ in repr(kind) and str(obj)
        assert type(give(array)) is kind
        for make_one in (lambda: type("Sub", (kind,), {}), lambda: copy.copy(obj), lambda: pickle.dumps(obj)):
            with pytest.raises(TypeError):
                make_one()
        for make_one in (kind, lambda: object.__new__(kind)):
            if sys.version_info >= (3, 10):
                with pytest.raises(TypeError):
                    make_one()
                continue
            # Python 3.9 cannot forbid it. Such an object has nothing and does nothing.
            nothing = make_one()
            assert repr(nothing) and not hasattr(nothing, CAI)
            with pytest.raises((TypeError, ValueError, BufferError)):
                take(nothing)
        with pytest.raises((AttributeError, TypeError)):
            obj.__cuda_array_interface__ = {}
        with pytest.raises(AttributeError):
            obj.nonsense
        assert obj == obj and obj != give(array) and hash(obj) == hash(obj)
        assert dir(obj)


def test_weakref():
    array = make()
    obj = give(array)
    called = []
    alive = weakref.ref(obj, called.append)
    assert alive() is obj
    del obj
    assert alive() is None and called == [alive]
    array.release()


def test_lifetime():
    array = make()
    objects = [give(array) for _ in range(100)]
    array.release()
    gc.collect()
    assert array.counted.gone == 0
    found = objects[0].__cuda_array_interface__
    del objects[1:]
    assert array.counted.gone == 0
    del objects[:]
    # The dictionary keeps nothing: that is what the protocol says.
    assert array.counted.gone == 1 and found["shape"] == (2, 3)


def test_lifetime_in_threads():
    arrays = [make() for _ in range(50)]

    def work(some):
        for array in some:
            for _ in range(20):
                obj = give(array)
                assert obj.__cuda_array_interface__["shape"] == (2, 3)
                with take(obj) as taken:
                    assert taken.shape == (2, 3)
                del obj
            array.release(P.free)

    threads = [threading.Thread(target=work, args=(arrays[i::5],)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert soon(lambda: all(array.counted.gone == 1 for array in arrays))


def test_readers_at_once():
    with make((3, 4), mask=make((3, 4), "|b1")) as array:
        obj, failed = give(array), []

        def work():
            for _ in range(300):
                if obj.__cuda_array_interface__["mask"].__cuda_array_interface__["shape"] != (3, 4):
                    failed.append(1)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed


# --- refusals -------------------------------------------------------------------------------------------------------


def test_borrowed():
    shape = (c.c_int64 * 2)(2, 3)
    array = T.new_array(typestr=b"<f4", data=ADDRESS, stream=P.STREAM_NONE, ndim=2)
    array.shape = c.cast(shape, c.POINTER(c.c_int64))
    with pytest.raises(ValueError):
        give(array)
    assert give.error.code == ERRORS["BORROWED"]


def test_what_is_no_array():
    with make() as good:
        for name, value, status in (("stream", 0, 220), ("typestr", b"x", None), ("ndim", -1, 204), ("data", None, 210), ("flags", 1 << 20, 202)):
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


# --- round trips ----------------------------------------------------------------------------------------------------


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
    for kind, code in ((ml_dtypes.bfloat16, P.BFLOAT16), (ml_dtypes.float8_e5m2, P.FLOAT8_E5M2), (ml_dtypes.float8_e4m3fn, P.FLOAT8_E4M3FN)):
        dtype = np.dtype(kind)
        memory = np.arange(6).astype(dtype)
        with take(memory, host=True, protocols=[P.ARRAY_INTERFACE], opaque_8bit=code if dtype.itemsize == 1 else 0, opaque_16bit=code if dtype.itemsize == 2 else 0) as taken:  # fmt: skip
            assert taken.dtype_code == code and taken.typestr == dtype.str
            t = versioned(capsule := give(taken).__dlpack__(max_version=(1, 3))).tensor
            assert t.code == code and t.bits == 8 * dtype.itemsize and capsule
