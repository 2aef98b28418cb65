"""Libraries of two ages in one interpreter exchange Python objects: run by test_ages.py.

    python two_ages.py TODAY LATER
"""

import ctypes as c
import sys

import cai_ctypes as T
import cai_python as P
from dlpack_ctypes import pointer_in

LATER = 16
NEWER_CALLER, STRUCT_SIZE = P.ERRORS["NEWER_CALLER"], P.ERRORS["STRUCT_SIZE"]


def longer(base):
    """A structure with the members that the later headers have behind those of today's."""
    return type(f"Later{base.__name__}", (base,), {"_fields_": [("later", c.c_uint64 * (LATER // 8))]})


class Age:
    """A library, and the structures of its headers."""

    def __init__(self, path, is_later):
        self.library = P.declare(c.PyDLL(path))
        kinds = (T.Array, P.ImportOptions, P.ExportOptions)
        self.array, self.import_options, self.export_options = (longer(kind) if is_later else kind for kind in kinds)
        # Structures of another age are passed as they are.
        for name in ("cai_array_from_python", "cai_array_to_python", "cai_array_share", "cai_array_create", "cai_array_release"):
            function = getattr(self.library, name)
            function.argtypes = [c.py_object if kind is c.py_object else c.c_void_p for kind in function.argtypes]

    def take(self, obj, array=None, options=None):
        """Status and structure. The structure lies in front of bytes that must stay."""
        kind = array or self.array
        memory = c.create_string_buffer(b"\x5a" * 1024, 1024)
        out, error = kind.from_buffer(memory), T.Error()
        c.memset(c.addressof(out), 0, c.sizeof(kind))
        out.struct_size, out.version = c.sizeof(kind), 3
        try:
            status = self.library.cai_array_from_python(obj, options and c.byref(options), c.byref(out), c.byref(error))
        except Exception as exception:
            assert error.code != 0, exception
            status = error.code
        assert memory.raw[c.sizeof(kind) :] == b"\x5a" * (1024 - c.sizeof(kind)), "written past the end"
        assert out.struct_size == c.sizeof(kind)
        return status, out

    def give(self, array, options=None):
        out = c.py_object()
        self.library.cai_array_to_python(c.byref(array), options and c.byref(options), c.byref(out), None)
        made = out.value
        c.pythonapi.Py_DecRef(c.py_object(made))
        return made

    def release(self, array):
        self.library.cai_array_release(c.byref(array))
        assert not array.owner


def sized(size):
    """An array of any size: the members of today, and bytes."""
    return type(f"Array{size}", (T.Array,), {"_fields_": [("tail", c.c_uint8 * (size - 128))] if size > 128 else []})


def table_of(obj):
    """The exchange table of an object's type, as far as the first release describes it."""
    return Table.from_address(pointer_in(type(obj).__cai_exchange_api__, b"cai_exchange_api_1"))


FROM = c.PYFUNCTYPE(c.c_int32, c.py_object, c.c_void_p, c.c_void_p)
TO = c.PYFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(c.py_object), c.c_void_p)


class Table(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("data_abi", c.c_uint32), ("from_object", FROM), ("to_object", TO)]


def source(age, destroyed):
    """An array of an age's own size, with an owner."""
    shape = (c.c_int64 * 2)(2, 3)
    owner = c.c_void_p()
    destroy = T.DESTROY(lambda _: destroyed.append(age))
    assert age.library.cai_owner_create(None, destroy, c.byref(owner), None) == 0
    array = age.array(struct_size=c.sizeof(age.array), version=3, owner=owner.value, data=0x7000_0000, ndim=2)
    array.shape, array.typestr, array.stream = shape, b"<f4", T.STREAM_NONE
    array.device.type = P.CUDA
    made = age.array(struct_size=c.sizeof(age.array), version=3)
    assert age.library.cai_array_create(c.byref(array), None, T.DESTROY(), c.byref(made), None) == 0
    age.release(array)
    KEPT.extend([shape, destroy])
    return made


KEPT = []


def check(array):
    assert array.data == 0x7000_0000 and list(array.shape[:2]) == [2, 3] and array.stream == T.STREAM_NONE
    assert array.typestr == b"<f4" and array.owner


def objects_both_ways(giver, taker):
    destroyed = []
    array = source(giver, destroyed)
    obj = giver.give(array)
    giver.release(array)
    only_table = P.import_options(protocols=[P.EXCHANGE])
    for options in (None, only_table):
        for size in (128, 136, 144, 152, 512):
            status, taken = taker.take(obj, sized(size), options)
            assert status == 0, (status, size, options)
            check(taken)
            again = taker.give(taken)
            giver.release(taken)
            status, back = giver.take(again, None, options)
            assert status == 0
            check(back)
            taker.release(back)
            del again
    # The table itself, as any compiled code would use it.
    table = table_of(obj)
    assert table.data_abi == 1 and table.struct_size >= 24
    for size in (128, 136, 144, 512):
        kind = sized(size)
        out = kind(struct_size=size, version=3)
        assert table.from_object(obj, c.byref(out), None) == 0
        assert out.struct_size == size
        check(out)
        made = c.py_object()
        assert table.to_object(c.byref(out), c.byref(made), None) == 0
        new = made.value
        c.pythonapi.Py_DecRef(c.py_object(new))
        taker.release(out)
        status, taken = taker.take(new)
        assert status == 0
        check(taken)
        giver.release(taken)
        del new
    for size in (0, 16, 88, 120, 520):
        out = T.Array(struct_size=size, version=3)
        assert table.from_object(obj, c.byref(out), None) == STRUCT_SIZE and not out.owner
    assert not destroyed
    del obj
    assert len(destroyed) == 1


def published_tables(publisher, taker):
    destroyed = []
    array = source(publisher, destroyed)
    share = publisher.library.cai_array_share

    def describe(obj, out, error):
        return share(c.byref(array), out, error)

    for size in (24, 32, 64):
        kind = type("Native", (), {})
        memory = c.create_string_buffer(size)
        table = Table.from_buffer(memory)
        table.struct_size, table.data_abi, table.from_object = size, 1, FROM(describe)
        KEPT.extend([memory, table])
        assert publisher.library.cai_unstable_python_publish(kind, c.addressof(table), None) == 0
        status, taken = taker.take(kind())
        assert status == 0
        check(taken)
        taker.release(taken)
    publisher.release(array)
    assert len(destroyed) == 1


def options_of_both_ages(today, later):
    destroyed = []
    array = source(later, destroyed)
    obj = later.give(array)
    for age in (today, later):
        for caller in (today, later):
            options = caller.import_options(struct_size=c.sizeof(caller.import_options), dlpack_stream=T.STREAM_UNKNOWN)
            status, taken = age.take(obj, None, options)
            assert status == 0
            age.release(taken)
            exported = caller.export_options(struct_size=c.sizeof(caller.export_options))
            assert age.give(array, exported).__cuda_array_interface__["shape"] == (2, 3)
    # What only the later library understands, today's refuses.
    options = later.import_options(struct_size=c.sizeof(later.import_options), dlpack_stream=T.STREAM_UNKNOWN)
    options.later[1] = 1
    assert today.take(obj, None, options)[0] == NEWER_CALLER
    status, taken = later.take(obj, None, options)
    assert status == 0
    later.release(taken)
    exported, out = later.export_options(struct_size=c.sizeof(later.export_options)), c.py_object()
    exported.later[1] = 1
    for age, expected in ((today, NEWER_CALLER), (later, 0)):
        error = T.Error()
        try:
            age.library.cai_array_to_python(c.byref(array), c.byref(exported), c.byref(out), c.byref(error))
        except Exception as exception:
            assert error.code != 0, exception
        assert error.code == expected
    c.pythonapi.Py_DecRef(c.py_object(out.value))
    del obj, out
    later.release(array)
    assert len(destroyed) == 1


def main(today, later):
    ages = Age(today, False), Age(later, True)
    for first in ages:
        for second in ages:
            objects_both_ways(first, second)
            published_tables(first, second)
    options_of_both_ages(*ages)
    print("all ages agree")


if __name__ == "__main__":
    main(*sys.argv[1:])
