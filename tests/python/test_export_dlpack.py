"""Exports: DLPack, the tables on the type, and the object itself."""

import copy
import ctypes as c
import gc
import pickle
import sys
import threading
import weakref

import cai_ctypes as T
import cai_python as P
import pytest
from cai_python import give, make, soon, take
from dlpack_ctypes import CAI_FROM_OBJECT, CAI_TO_OBJECT, DLPACK_FROM_OBJECT, DLPACK_TO_OBJECT, DLPACK_VIEW
from dlpack_ctypes import CaiTable, DlpackTable, Tensor, Versioned, capsule_name, pointer_in
from exporting import CAI
from producers import ADDRESS, STREAM

# --- DLPack


def test_dlpack_versions():
    with make() as array:
        obj = give(array)
        assert capsule_name(obj.__dlpack__()) == b"dltensor"
        assert capsule_name(obj.__dlpack__(max_version=None)) == b"dltensor"
        assert capsule_name(obj.__dlpack__(max_version=(0, 8))) == b"dltensor"
        for version in ((1, 0), (1, 3), (2, 0), (9, 9)):
            assert capsule_name(obj.__dlpack__(max_version=version)) == b"dltensor_versioned"
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
        for wrong in (
            dict(stream=0),
            dict(stream=-2),
            dict(stream="1"),
            dict(stream=1.5),
            dict(dl_device=2),
            dict(dl_device="ab"),
        ):
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
    """Types and strides: test_export_rows.py."""
    refusals = [make((3, 4), ">f4"), make((3, 4), mask=make((3, 4), "|b1"))]
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


def test_unused_capsules():
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


# --- the tables on the type


def dlpack_table(obj):
    return DlpackTable.from_address(pointer_in(type(obj).__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


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
        again = P.adopt(out)
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
    return CaiTable.from_address(pointer_in(type(obj).__cai_exchange_api__, b"cai_exchange_api_1"))


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
    again = P.adopt(made)
    taken.release()
    assert array.counted.gone == 0
    assert again.__cuda_array_interface__["stream"] == STREAM
    del again
    assert array.counted.gone == 1


# --- the object


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

    P.at_once(*(lambda some=arrays[i::5]: work(some) for i in range(5)))
    assert soon(lambda: all(array.counted.gone == 1 for array in arrays))


def test_keywords_that_another_thread_changes():
    """C code may pass a dictionary that others have. In a free-threaded build it changes during the call."""
    call = c.PYFUNCTYPE(c.py_object, c.py_object, c.py_object, c.py_object)(("PyObject_Call", c.pythonapi))
    keywords, done = {}, []

    def change():
        while not done:
            # New objects, which nothing else refers to.
            keywords["max_version"], keywords["dl_device"] = (int("1000"), int("500")), tuple([P.CPU, 0])
            keywords.clear()

    with make(device=(P.CPU, 0)) as array:
        export = give(array).__dlpack__
        thread = threading.Thread(target=change)
        thread.start()
        try:
            assert all(capsule_name(call(export, (), keywords)).startswith(b"dltensor") for _ in range(100_000))
        finally:
            done.append(True)
            thread.join()
