"""Messages that say what to do next: each test asserts the text."""

import ctypes as c

import cai_ctypes as T
import cai_python as P
import pytest
from cai_python import make, take
from importing import interface, refused


def message(call, *arguments):
    """The message of a failing function of the library."""
    error = T.Error()
    assert call(*arguments, c.byref(error)) != 0
    return error.message.decode()


def parsed(text):
    return message(P.held.cai_dtype_parse, text, c.byref(T.Dtype()))


# --- 1: no protocol


@pytest.mark.parametrize("obj, name", [([1, 2], "list"), (1.5, "float"), ("x", "str"), (object(), "object")])
def test_an_object_without_any_protocol(obj, name):
    words = refused(obj, TypeError, status="NO_PROTOCOL")
    assert words.startswith(f"{name} is not a GPU array; convert it, e.g. cupy.asarray(x). It has none of ")
    assert "__cuda_array_interface__, __dlpack__" in words and words.endswith(", buffer of OpenCL, __arrow_c_device_array__")
    assert take.error.field == b"object"


def test_an_object_with_half_of_dlpack():
    """The message must not deny the half that is there."""
    words = refused(type("Half", (), {"__dlpack__": lambda self, stream=None: None})(), TypeError, status="NO_PROTOCOL")
    assert ", __dlpack_device__, " in words and "__dlpack__" not in words


# --- 2: host memory


def test_host_memory():
    numpy = pytest.importorskip("numpy")
    expected = (
        "object: found an array in host memory, of type ndarray, expected an array in device memory: copy it first, "
        "e.g. cupy.asarray(x), or allow host memory (CAI_IMPORT_ALLOW_HOST)"
    )
    assert refused(numpy.zeros(3), BufferError, status="HOST_MEMORY") == expected


# --- 3: types


@pytest.mark.parametrize(
    "text, meant",
    [
        ("f4", "<f4"), ("float32", "<f4"), ("torch.float32", "<f4"), ("float64", "<f8"), ("double", "<f8"), ("half", "<f2"),
        ("int8", "|i1"), ("uint16", "<u2"), ("int64", "<i8"), ("complex64", "<c8"), ("bool", "|b1"), ("f", "<f4"),
        ("<d", "<f8"), ("=f4", "<f4"),
    ],
)  # fmt: skip
def test_names_of_types(text, meant):
    assert parsed(text.encode()).endswith(f'did you mean "{meant}"?')


@pytest.mark.parametrize("text", ["float", "float33", "int7", "nonsense", "<q9", "", "float32x", "uint999999999999999999999"])
def test_nothing_is_guessed(text):
    assert "did you mean" not in parsed(text.encode())


# --- 4: streams of dictionaries


@pytest.mark.parametrize("stream", [-2, 0, -(2**70)])
def test_a_stream_for_dlpack_that_is_none(stream):
    with make() as array:
        with pytest.raises(ValueError) as raised:
            P.give(array).__dlpack__(stream=stream)
    words = str(raised.value)
    assert "None or 1 (legacy default stream), 2 (per-thread default stream), -1 (no order) or a cudaStream_t" in words


# --- 7: a method instead of a property


def test_a_method_instead_of_a_property():
    class Method:
        def __cuda_array_interface__(self):
            return interface()

    words = refused(Method(), TypeError, status="TYPE")
    assert words == "__cuda_array_interface__: found method, expected a dictionary: make it a property"


def test_a_class_instead_of_an_instance():
    class Property:
        @property
        def __cuda_array_interface__(self):
            return interface()

    words = refused(Property, TypeError, status="TYPE")
    assert words == "__cuda_array_interface__: found property, expected a dictionary: pass an instance, not the class"


# --- 8: flags by name


def test_flags_of_functions_that_order_streams():
    array = T.new_array()
    array.stream = T.STREAM_NONE
    begin = P.held.cai_array_consume_begin
    access = "CAI_ACCESS_READ, CAI_ACCESS_WRITE or both, and only "
    others = "CAI_SYNC_IGNORE | CAI_SYNC_CONSERVATIVE | CAI_SYNC_THIS_CALL | CAI_CAPTURE_JOIN | CAI_UNSTABLE_CAPTURE_EXTERNAL"
    with make() as array:
        raw = c.byref(array.array)
        assert message(begin, raw, 1, 0) == (
            f"flags: found neither CAI_ACCESS_READ nor CAI_ACCESS_WRITE, expected {access}{others}"
        )
        read, none = T.abi.CAI_ACCESS_READ, T.abi.CAI_SYNC_EXPORT_NONE
        assert message(begin, raw, 1, read | none) == (
            f"flags: found CAI_SYNC_EXPORT_NONE, expected {access}{others}"
        )
        assert message(begin, raw, 1, read | none | 1 << 31) == (
            f"flags: found CAI_SYNC_EXPORT_NONE | 0x80000000, expected {access}{others}"
        )


def test_flags_of_other_functions():
    with make() as array:
        raw = c.byref(array.array)
        assert message(P.held.cai_array_validate, raw, 1 << 30) == (
            "checks: found 0x40000000, expected only CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT | CAI_CHECK_DEVICE | "
            "CAI_CHECK_STREAM | CAI_CHECK_NATIVE"
        )
        options = P.export_options()
        options.flags = 1 << 20
        with pytest.raises(ValueError) as raised:
            P.held.cai_array_to_python(raw, c.byref(options), c.byref(c.c_void_p()), None)
        assert str(raised.value) == (
            "options->flags: found 0x100000, expected only CAI_EXPORT_VERSION_2 | CAI_EXPORT_STRIDES | "
            "CAI_EXPORT_HIDE_READONLY | CAI_UNSTABLE_EXPORT_VERSION_4"
        )
        array.array.flags |= 0x80
        assert message(P.held.cai_array_validate, raw, 1) == (
            "flags: found 0x80, expected CAI_ARRAY_READONLY or 0, the flags that this version knows"
        )
        array.array.flags &= ~0x80


# --- 9: devices by name


def test_devices_by_name():
    with make(device=(P.ONEAPI, 0)) as array:
        with pytest.raises(AttributeError) as raised:
            P.give(array).__cuda_array_interface__
        assert str(raised.value) == (
            "__cuda_array_interface__: found an array on device oneapi, expected a CUDA device"
        )
    with make(device=(P.UNKNOWN, 0)) as array:
        with pytest.raises(AttributeError) as raised:
            P.give(array).__array_interface__
        assert str(raised.value) == (
            "__array_interface__: found an array on device unknown, expected an array in host memory"
        )


# --- names of others

HOSTILE = "x\x1b[2J\n\r\x07\x7f\x85\x9b\u061c\u200b\u200f\u2028\u202e\u2066\ufeff\U000e0041"


@pytest.mark.parametrize("name", [None, "__sycl_usm_array_interface__"])
def test_foreign_names_cannot_act_on_a_terminal(name):
    """The name of a class, and a filter string; entries of dictionaries are in import_rows.py."""
    obj = type(HOSTILE, (), {name: {**interface(version=1), "syclobj": HOSTILE}} if name else {})()
    with pytest.raises((TypeError, ValueError)) as caught:
        take(obj)
    assert str(caught.value).isprintable(), ascii(str(caught.value))
    assert take.error.message.decode().isprintable() and take.error.field.decode().isprintable()


def test_texts_of_c_callers_cannot_act_on_a_terminal():
    error = T.Error()
    P.held.cai_error_set(c.byref(error), 10001, b"a\x9b\xff[0]", b"found \xc3(\x1b[m")
    assert error.field == rb"a\x9b\xff[0]" and error.message == rb"a\x9b\xff[0]: found \xc3(\u{1b}[m"
    P.held.cai_error_set(c.byref(error), 10001, b"a", HOSTILE.encode())
    assert error.message.decode().isprintable() and error.message.startswith(rb"a: x\u{1b}[2J\u{a}")
    for text in (HOSTILE.encode(), b"<\xff4", b"\x9b31m"):
        assert parsed(text).isprintable()
    # Cut at the end, and still a text.
    P.held.cai_error_set(c.byref(error), 10001, None, ("x" * 300 + HOSTILE * 40).encode())
    assert error.message.decode().isprintable() and error.message.endswith(b"...")
