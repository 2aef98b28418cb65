"""Imports: options, the ABI boundary, exchange tables and messages."""

import ctypes as c

import cai_ctypes as T
import cai_python as P
import pytest
from cai_python import ERRORS, even, give, make, take
from dlpack_ctypes import CAI_FROM_OBJECT, CaiTable, address_of
from import_ways import OfTable, Row, capsule
from importing import KEPT, exporter, interface, publish, refused, share
from producers import STREAM

# --- requirements, and the rest of the ABI boundary


BOTH = P.IMPORT["strict"] | P.IMPORT["lenient"]
STRICT_AND_PACKED = P.IMPORT["strict"] | P.IMPORT["packed_mask"]
STRICT_AND_4 = P.IMPORT["strict"] | P.IMPORT["version_4"]


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("obj", [exporter, lambda: give(make())], ids=["dictionary", "own"])
@pytest.mark.parametrize(
    "member, value, status, path",
    [
        *[("struct_size", size, "STRUCT_SIZE", "") for size in (0, 1, 8, 520, 5000)],
        ("flags", 1 << 28, "NEWER_CALLER", ""), ("flags", BOTH, "ARGUMENT", ""),
        ("flags", STRICT_AND_PACKED, "ARGUMENT", ""), ("flags", STRICT_AND_4, "ARGUMENT", ""), ("reserved", (0, 1, 0), "NEWER_CALLER", ""),
        ("dlpack_stream", 0, "STREAM_ZERO", ""),  # which could mean either default stream, in the options as everywhere
        ("protocols", (len(P.PROTOCOLS) + 1,), "NEWER_CALLER", "[0]"), ("protocols", (3, 200), "NEWER_CALLER", "[1]"),
        ("protocols", (3, 255, 1), "NEWER_CALLER", "[1]"), ("protocols", (3,) * 15 + (200,), "NEWER_CALLER", "[15]"),
        ("typestr", b"nonsense", "TYPESTR_ORDER", ""), ("typestr", b"f4", "TYPESTR_ORDER", ""), ("typestr", b"<f3", "TYPESTR_SIZE", ""),
        ("opaque_8bit", P.BFLOAT16, "DTYPE_CODE", ""), ("opaque_8bit", 9999, "DTYPE_CODE", ""),
        ("opaque_16bit", P.FLOAT8_E5M2, "DTYPE_CODE", ""), ("opaque_16bit", 1, "DTYPE_CODE", ""),
    ],
)  # fmt: skip
def test_wrong_options(member, value, status, path, obj, quiet):
    """What is not understood is not followed, in no part: there is an exception."""
    options, array, error = P.import_options(quiet=quiet), T.new_array(), T.Error()
    if isinstance(value, tuple):
        value = type(getattr(options, member))(*value)
    setattr(options, member, value | options.flags if member == "flags" else value)
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(obj(), c.byref(options), c.byref(array), c.byref(error))
    assert error.code == ERRORS[status] and error.field.decode() == f"options->{member}{path}" and not array.owner


@pytest.mark.parametrize("stream, event, fits", [(P.STREAM_UNKNOWN, 0, False), (P.STREAM_UNKNOWN, STREAM, True), (P.STREAM_NONE, 0, True)])
def test_a_required_stream(stream, event, fits):
    """An event is as good as a stream. What is refused is released."""
    table = OfTable()
    array = table.make(Row({}, {}))
    array.array.stream, array.array.event = stream, event
    if fits:
        table.take(array, require_stream=True).release()
    else:
        refused(array, BufferError, "stream", "CONVERT_STREAM", require_stream=True)
    assert table.counted.gone == table.given == (1 if fits else 2)


def test_null():
    array, error = T.new_array(), T.Error()
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(c.py_object(), None, c.byref(array), c.byref(error))
    assert error.code == ERRORS["NULL_ARGUMENT"] and error.field == b"object"
    with pytest.raises(ValueError):
        P.held.cai_array_from_python(exporter(), None, None, c.byref(error))
    assert error.code == ERRORS["NULL_ARGUMENT"] and error.field == b"out"
    with pytest.raises(TypeError):
        P.held.cai_array_from_python(None, None, c.byref(array), None)  # no words are wanted


@pytest.mark.parametrize("size", [*range(128, 513, 8)])
def test_structures_of_every_size(size):
    """What a later header has behind the library's last member is zero; nothing is written past the size."""
    memory = c.create_string_buffer(b"\x5a" * 600, 600)
    array = T.Array.from_buffer(memory)
    array.struct_size = size
    assert P.held.cai_array_from_python(exporter(stream=STREAM), None, c.byref(array), None) == 0
    assert array.stream == STREAM and array.struct_size == size
    assert memory.raw[128:size] == bytes(size - 128) and memory.raw[size:] == b"\x5a" * (600 - size)
    with take(P.give(array)) as taken:
        assert taken.array.struct_size == 128 and taken.stream == STREAM
    P.held.cai_array_release(c.byref(array))
    assert memory.raw[4:size] == bytes(size - 4) and memory.raw[size:] == b"\x5a" * (600 - size)


def test_options_of_a_newer_caller():
    """A tail is refused unless it is zero: it may be a requirement."""
    memory = c.create_string_buffer(600)
    options, array, error = P.ImportOptions.from_buffer(memory), T.new_array(), T.Error()
    options.dlpack_stream = P.STREAM_UNKNOWN
    known = c.sizeof(P.ImportOptions)
    for size in range(known, 513, 8):
        options.struct_size = size
        assert P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), None) == 0
        P.held.cai_array_release(c.byref(array))
        memory[size] = b"\1"  # behind the structure: not read
        assert P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), None) == 0
        P.held.cai_array_release(c.byref(array))
        memory[size] = b"\0"
        for position in {known, size - 1} if size > known else ():
            memory[position] = b"\1"
            with pytest.raises(ValueError):
                P.held.cai_array_from_python(exporter(), c.byref(options), c.byref(array), c.byref(error))
            assert error.code == ERRORS["NEWER_CALLER"] and error.field == b"options" and not array.owner
            memory[position] = b"\0"


# --- exchange tables


def test_exchange_tables():
    array, seen = make((7,)), []

    class Native:
        __cuda_array_interface__ = interface()

    class Derived(Native):
        pass

    with take(Native()) as taken:  # before there is a table: the type is remembered as one without
        assert taken.shape == (3, 4)

    assert publish(Native, share(array, seen))[0] == 0
    assert "cai_exchange_api_1" in repr(Native.__cai_exchange_api__)
    for kind in (Native, Derived):
        obj = kind()
        with even(obj), take(obj) as taken:
            assert taken.shape == (7,) and seen.pop() is kind and not seen
        with take(obj, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
            assert taken.shape == (3, 4) and not seen
        refused(obj, BufferError, status="CONVERT_NDIM", ndim=2)
        seen.clear()
    array.release()


def test_an_exchange_table_that_sets_no_stream():
    array = make((7,))

    class Native:
        pass

    def describe(obj, out, error):
        before = out.contents.stream
        status = P.held.cai_array_share(c.byref(array.array), out, error)
        out.contents.stream = before
        return status

    assert publish(Native, describe)[0] == 0
    refused(Native(), ValueError, "__cai_exchange_api__.stream", "STREAM_ZERO")
    array.release()
    assert array.counted.gone == 1


@pytest.mark.parametrize("size, data_abi, kind", [(8, 1, None), (0, 1, None), (None, 0, None), (None, 2, None), (None, 1, int)])
def test_tables_that_are_not_published(size, data_abi, kind):
    """Short ones, those of another data ABI, and those of types that take no attributes."""
    kind = kind or type("Native", (), {})
    with pytest.raises(Exception):
        publish(kind, lambda *_: 0, size, data_abi)
    assert not hasattr(kind, "__cai_exchange_api__")


@pytest.mark.parametrize("size, data_abi, function", [(8, 1, 1), (24, 0, 1), (24, 2, 1), (24, 1, None), (24, 1, 1)])
def test_the_value_for_the_body_of_a_type(size, data_abi, function):
    """Made of the tables that a type may publish, and of no others."""
    table, out, error = CaiTable(size, data_abi, function, None), c.c_void_p(), T.Error()
    KEPT.append(table)
    make_value = P.held.cai_unstable_python_table
    if (size, data_abi, function) == (24, 1, 1):
        assert make_value(c.byref(table), c.byref(out), c.byref(error)) == 0
        assert "capsule object \"cai_exchange_api_1\"" in repr(P.adopt(out))
        return
    with pytest.raises(ValueError, match="__cai_exchange_api__"):
        make_value(c.byref(table), c.byref(out), c.byref(error))
    assert error.code == ERRORS["EXCHANGE_TABLE"] and not out.value


@pytest.mark.parametrize("status", [105, ERRORS["STRUCT_SIZE"], ERRORS["NEWER_CALLER"], ERRORS["FLAGS"]])
def test_a_table_that_refuses_leaves_the_object_to_the_next_protocol(status):
    class Native:
        __cuda_array_interface__ = interface()

    def fail(obj, out, error):
        if error:
            error.contents.code, error.contents.message = status, b"not this one"
        return status

    assert publish(Native, fail)[0] == 0
    with take(Native()) as taken:
        assert taken.shape == (3, 4)
    with pytest.raises(Exception, match="not this one"):
        take(Native(), protocols=[P.EXCHANGE])
    assert take.error.code == status


def test_tables_for_two_data_abis():
    """A capsule for another data ABI has another name. A type that serves both publishes a tuple."""
    array = make((7,))
    seen = []
    from_object = CAI_FROM_OBJECT(share(array, seen))
    ours, theirs = (CaiTable(c.sizeof(CaiTable), number, address_of(from_object), None) for number in (1, 2))
    KEPT.extend([ours, theirs])
    first, second = (
        capsule(f"cai_exchange_api_{number}", c.addressof(table)) for number, table in ((1, ours), (2, theirs))
    )
    # A table of another data ABI under the usual name is not used either.
    misnamed = capsule("cai_exchange_api_1", c.addressof(theirs))
    for value, uses in [
        (second, 0), ((second,), 0), ((second, first), 1), ((first, second), 1), ((5, first), 1), ((), 0), (misnamed, 0),
    ]:  # fmt: skip
        kind = type("Native", (), {"__cai_exchange_api__": value, "__cuda_array_interface__": interface()})
        seen.clear()
        with take(kind()) as taken:
            assert taken.shape == ((7,) if uses else (3, 4))
        assert len(seen) == uses
    array.release()


@pytest.mark.parametrize("found", [None, 3, "text"])
def test_attributes_that_are_no_tables(found):
    class Native:
        __cai_exchange_api__ = found

    with pytest.raises(Exception):
        take(Native())
    assert take.error.code in (ERRORS["EXCHANGE_TABLE"], ERRORS["NO_PROTOCOL"])


def test_raise():
    """cai_python_raise says a status in Python."""
    kinds = {"KEY": KeyError, "TYPE": TypeError, "VALUE": ValueError, "CONVERT_NDIM": BufferError, "READONLY": BufferError,
             "SHAPE_NEGATIVE": ValueError, "NO_PROTOCOL": TypeError}  # fmt: skip
    for name, kind in kinds.items():
        error = T.Error(code=ERRORS[name], field=b"x", message=b"x: found 1, expected 2")
        with pytest.raises(kind) as info:
            P.held.cai_python_raise(c.byref(error))
        assert info.value.args[0] == "x: found 1, expected 2"
    for code, kind in ((601, MemoryError), (305, RuntimeError)):
        with pytest.raises(kind):
            P.held.cai_python_raise(c.byref(T.Error(code=code, message=b"words")))
    P.free.cai_python_raise(c.byref(T.Error(code=506, message=b"words")))  # without the lock: nothing
