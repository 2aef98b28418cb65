"""`libcai.inspect` on dictionaries, NumPy, SYCL and OpenCL."""

import ctypes
import ctypes.util

import ml_dtypes
import numpy
import producers
import pytest
from inspecting import P, Fresh, Raises, cai, look, new_capsule, rules
from parameter_ids import stable_id


# What is found of the dictionaries of libraries (producers.py), and nothing else.
FOUND = {
    "": """numba cupy pycuda nvimagecodec tensorrt pyamrex genn slangpy isaac-teleop xgboost numba-strided numba-stream numba-empty
        numba-scalar cupy-stream cupy-per-thread cupy-empty cupy-strided cupy-datetime cupy-structured pycuda-empty
        nvimagecodec-image nvimagecodec-pitch tensorrt-stream vali pyamrex-fortran""",
    "version-no-stream": "cupy-2 torch jax jax-ffi dali mirheo paddle torch-strided torch-empty torch-scalar jax-ffi-argument ucxx",
    "dict-shared": "pylibcudf holoscan cucim cucim-image",
    "stream-absent": "pylibraft ctranslate2 cuvec pylibraft-strided",
    "dict-shared version-no-stream": "warp cv-cuda warp-vec3 warp-bfloat16 warp-empty cv-cuda-image",
    "CAI_ERR_TYPESTR_ORDER version-no-stream": "hoomd hoomd-double hoomd-int hoomd-empty",
    "CAI_ERR_TYPE": "stf stf-argument stf-empty",
    "strides-negative": "cupy-backwards",
    "strides-zero": "cupy-broadcast",
    "typestr-opaque": "cupy-bfloat16 slangpy-bfloat16",
    "strides-zero version-no-stream": "torch-expanded",
    "typestr-opaque version-no-stream": "torch-bfloat16 jax-ffi-bfloat16",
    "version-no-stream version-old": "rmm rmm-empty",
    "CAI_ERR_TYPE version-no-stream version-old": "cudf cudf-empty",
    "CAI_ERR_TYPE stream-absent": "cudf-3",
    "CAI_ERR_TYPE mask mask-packed version-no-stream version-old": "cudf-mask",
    "CAI_ERR_TYPE mask mask-packed stream-absent": "cudf-3-mask",
    "CAI_ERR_TYPE CAI_ERR_TYPESTR_ORDER version-no-stream": "vpf",
    "CAI_ERR_STREAM_VERSION typestr-order-missing": "spdl spdl-u2",
}


@pytest.mark.parametrize("name, new", [row[:2] for row in producers.PRODUCERS])
def test_producers(name, new):
    assert name in FOUND[" ".join(sorted(rules(look(new()))))].split()


# Beside the dictionary, the object itself matters; the attribute may raise.
OBJECTS = [
    (Fresh(cai((3, 4), "<f4", (P, False), 3, strides=None, stream=None), strides=(4, 0)), {"strides-none"}),
    (Fresh(cai((5,), "<V2", (P, False), 3, strides=None, stream=1, descr=[("", "<V2")]), dtype="bfloat16"), {"type-lost"}),
    (Fresh(cai((2, 3), "<V2", (P, False), 2, strides=None), dtype="torch.bfloat16"), {"version-no-stream", "type-lost"}),
    (Raises(RuntimeError("Can't get it")), {"attribute-raises"}), (Raises(AttributeError("not CUDA")), set()),
    (Fresh(cai((4,), "<f1", (P, False), 3, stream=None)), {"typestr-opaque"}),
    (Fresh(cai((4, 4, 3), "|u1", (P, False), 3, strides=(12, 3, 1), stream=0)), {"CAI_ERR_STREAM_ZERO"}),
]


@pytest.mark.parametrize("number", range(len(OBJECTS)))
def test_objects(number):
    obj, expected = OBJECTS[number]
    assert rules(look(obj)) == expected


# What is wrong with one array, next to a sound one: the change, and the rules and severities that are found. The
# statuses are the library's (import_rows.py): one is enough for each entry, severity and way to go on after it.
WRONG = [
    ({"shape": None}, {"CAI_ERR_TYPE": "error"}),
    ({"shape": (-1,)}, {"CAI_ERR_SHAPE_NEGATIVE": "error"}),
    ({"shape": (1 << 62, 4)}, {"CAI_ERR_SIZE_OVERFLOW": "error"}),
    ({"typestr": "i4"}, {"CAI_ERR_TYPESTR_ORDER": "warning"}),
    ({"typestr": "float32"}, {"CAI_ERR_TYPESTR_ORDER": "error"}),
    ({"typestr": ">f4"}, {"typestr-order": "warning"}),
    ({"typestr": "|t1"}, {"typestr-bits": "note"}),
    ({"typestr": "|O"}, {"typestr-object": "warning"}),
    ({"typestr": "|V12", "descr": [("a", [("c", "|O8", (1,))]), ("b", "<i4")]}, {"typestr-object": "warning"}),
    ({"typestr": "|V8", "descr": [("a", "<f4")]}, {"CAI_ERR_DESCR_SIZE": "error"}),
    ({"typestr": "|V8", "descr": 3}, {"CAI_ERR_TYPE": "error"}),
    ({"typestr": "|V8", "descr": [("a", "<f4", (2,))]}, {}),
    ({"data": [P, False]}, {"CAI_ERR_TYPE": "warning"}),
    ({"data": (P, 0)}, {"CAI_ERR_TYPE": "warning"}),
    ({"data": (True, False)}, {"CAI_ERR_TYPE": "error"}),
    ({"shape": (0,), "data": (P, False)}, {"CAI_ERR_DATA_NOT_NULL": "warning"}),
    ({"version": 4}, {"CAI_ERR_VERSION": "warning"}),
    ({"strides": (4, 4)}, {"CAI_ERR_VALUE": "error"}),
    ({"strides": [4]}, {"CAI_ERR_TYPE": "warning"}),
    ({"data": (P + 2, False)}, {"pointer-unaligned": "warning"}),
    ({"data": (P + 8, False), "typestr": "<c16"}, {}),
    ({"strides": (6,)}, {"strides-not-multiple": "note"}),
    ({"strides": (-4,)}, {"strides-negative": "note"}),
    ({"strides": (0,)}, {"strides-zero": "note"}),
    ({"strides": (-4,), "data": (4, False)}, {"CAI_ERR_ADDRESS_RANGE": "error"}),
    ({"strides": ((1 << 63) - 4,)}, {"CAI_ERR_SPAN_OVERFLOW": "error"}),
    ({"stream": 0}, {"CAI_ERR_STREAM_ZERO": "error"}),
    ({"stream": -1}, {"CAI_ERR_VALUE": "warning"}),
    ({"stream": -2}, {"CAI_ERR_VALUE": "error"}),
    ({"mask": 3}, {"CAI_ERR_NO_PROTOCOL": "error", "mask": "note"}),
    ({"mask": Fresh(cai((3,), "|b1", (P, True), 3, stream=None))}, {"mask": "note"}),
    ({"mask": None, "descr": None, "strides": None}, {"CAI_ERR_TYPE": "warning"}),
    ({"color": "red"}, {"key-unknown": "note"}),
]


@pytest.mark.parametrize("change, expected", WRONG, ids=lambda value: stable_id(value)[:40])
def test_what_is_wrong(change, expected):
    found = look(Fresh({**cai((3,), "<f4", (P, False), 3, stream=None), **change}))
    assert {finding.rule: finding.severity for finding in found.findings} == expected


@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version"])
def test_missing_keys(key):
    said = cai((3,), "<f4", (P, False), 3, stream=None)
    del said[key]
    found = look(Fresh(said))
    assert rules(found) == {"CAI_ERR_KEY"} and repr(key) in found.findings[0].message


def test_what_is_said():
    found = look(Fresh(cai((2, 3), "<f4", (P, True), 3, stream=7)))
    said = found["__cuda_array_interface__"].as_dict()["array"]
    assert said == {
        "shape": (2, 3), "strides": (12, 4), "strides_stated": False, "typestr": "<f4", "itemsize": 4, "pointer": P,
        "readonly": True, "stream": 7, "version": 3,
    }  # fmt: skip
    assert found["__cuda_array_interface__"].state == "offered"
    assert found["__dlpack__"].state == "absent"
    declined = look(Raises(AttributeError("only for GPU buffers")))["__cuda_array_interface__"]
    assert declined.state == "declined" and "only for GPU" in declined.message


def test_masks_in_a_circle():
    said = cai((3,), "|b1", (P, False), 3, stream=None)
    obj = Fresh(said)
    said["mask"] = obj
    assert "CAI_ERR_MASK_DEPTH" in rules(look(obj))


def test_a_dictionary_that_changes():
    class Moves:
        pointer = P

        @property
        def __cuda_array_interface__(self):
            self.pointer += 4
            return cai((3,), "<f4", (self.pointer, False), 3, stream=None)

    found = look(Moves())
    assert rules(found) == {"dict-changes"} and "pointer" in found.findings[0].message


# --- NumPy, SYCL, OpenCL ----------------------------------------------------------------------------------


def test_numpy():
    found = look(numpy.zeros((3, 4), "<i4")[::2, ::-1])
    offered = {protocol.name for protocol in found.protocols if protocol.state == "offered"}
    assert offered == {"__dlpack__", "__array_interface__", "__array_struct__", "Py_buffer"}
    for name in offered:
        said = found[name].array
        assert (said.shape, said.strides, said.typestr, said.device) == ((2, 4), (32, -4), "<i4", "cpu")
    assert rules(found) == {"strides-negative"}

    frozen = numpy.arange(3.0)
    frozen.flags.writeable = False
    found = look(frozen)
    assert found["__array_interface__"].array.readonly is True and "readonly-differs" not in rules(found)
    assert rules(look(numpy.zeros(3, ">f8"))) == {"typestr-order"}
    assert rules(look(numpy.array(3.0))) == set()
    assert "typestr-opaque" not in rules(look(numpy.zeros(3, [("a", "i4"), ("b", "f8")])))
    assert rules(look(numpy.zeros(3, "V5"))) == {"typestr-opaque", "CAI_ERR_CONVERT_TYPE"}
    assert rules(look(numpy.zeros((2, 0)))) <= {"dlpack-empty-pointer"}
    assert rules(look(numpy.float64(3))) <= {"readonly-differs", "pointer-differs", "key-unknown"}


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"])
def test_ml_dtypes(name):
    found = look(numpy.zeros(4, getattr(ml_dtypes, name)))
    assert "type-lost" in rules(found)
    assert name in str(found)


def test_array_struct():
    obj = type("NoCapsule", (), {"__array_struct__": 3})()
    assert rules(look(obj)) == {"CAI_ERR_TYPE"}


QUEUE = ctypes.create_string_buffer(b"SyclQueueRef")


def usm(**change):
    said = {"data": (P, False), "shape": (10,), "strides": None, "typestr": "<i8", "version": 1, "syclobj": new_capsule(P, QUEUE, None),
            "offset": 0, **change}  # fmt: skip
    return type("Usm", (), {"__sycl_usm_array_interface__": property(lambda self: dict(said))})()


def test_sycl():
    found = look(usm())
    said = found["__sycl_usm_array_interface__"].array
    assert (said.strides, said.pointer, said.device) == ((8,), P, "oneapi") and rules(found) == set()
    # Strides and offset count elements.
    said = look(usm(shape=(2, 5), strides=(1, 2), offset=3))["__sycl_usm_array_interface__"].array
    assert (said.strides, said.pointer) == ((8, 16), P + 24)
    assert rules(look(usm(typestr="|i8"))) == {"typestr-order-missing"}
    assert rules(look(usm(version=2))) == {"CAI_ERR_VERSION"}
    assert rules(look(usm(typestr="|V8"))) == {"CAI_ERR_TYPESTR_KIND", "typestr-opaque"}


MISSING = object()


def test_opencl():
    def pyopencl(**change):
        said = {"base_data": type("Buffer", (), {"int_ptr": 0x1234})(), "offset": 16, "dtype": numpy.dtype("f4"),
                "shape": (4, 5), "strides": (20, 4), **change}  # fmt: skip
        return type("Array", (), {name: value for name, value in said.items() if value is not MISSING})()

    found = look(pyopencl())
    said = found["buffer"].array
    assert (said.pointer, said.byte_offset, said.typestr, said.device) == (0x1234, 16, "<f4", "opencl")
    assert rules(found) == {"buffer-name"}
    assert rules(look(pyopencl(base_data=object()))) == {"CAI_ERR_NO_PROTOCOL"}
    plain = pyopencl(buffer=type("Buffer", (), {"_ptr": 7})(), base_data=MISSING)
    assert rules(look(plain)) == {"CAI_ERR_CONVERT_DEVICE"}
    for name in ("queue", "context"):
        known = pyopencl(buffer=type("Buffer", (), {"_ptr": 7})(), base_data=MISSING)
        setattr(known, name, type("Queue", (), {"int_ptr": 8})())
        assert rules(look(known)) == set() and look(known)["buffer"].array.device == "opencl"
    assert rules(look(pyopencl(dtype=numpy.float32))) == {"CAI_ERR_TYPE"}
    assert rules(look(pyopencl(offset=None))) == {"buffer-name", "buffer-offset"}


def test_tensors():
    """What their type states beside the memory."""

    class Tensor(Fresh):
        requires_grad = False

        def is_conj(self):
            return self._conj

        is_neg = is_conj

    def tensor(**attributes):
        return Tensor(cai((3,), "<c8", (P, False), 3, stream=None), **attributes)

    assert rules(look(tensor(_conj=False))) == set()
    assert rules(look(tensor(_conj=False, requires_grad=True))) == {"CAI_ERR_CONVERT_GRAD"}
    assert rules(look(tensor(_conj=True))) == {"CAI_ERR_CONVERT_TYPE"}
    # An attribute of the object alone is not one of a tensor.
    assert rules(look(Fresh(cai((3,), "<f4", (P, False), 3, stream=None), requires_grad=True))) == set()
    assert look(memoryview(b"abc"))["buffer"].state == "absent"


def test_a_protocol_that_does_not_exist():
    found = look(object())
    assert found["__dlpack__"].name == "__dlpack__"
    with pytest.raises(KeyError) as raised:
        found["nope"]
    assert raised.value.args == ("nope",)


def test_names_that_act_on_a_terminal_are_escaped():
    name = "x\x1b[2J\n\x07\x7f\x9b\u202e\u2066"

    def fail(*arguments, **keywords):
        raise RuntimeError(name)

    attributes = {
        "__cuda_array_interface__": property(fail),
        "__dlpack__": fail,
        "__dlpack_device__": lambda self: (2, 0),
    }
    for found in (look(type(name, (), {})()), look(type(name, (), attributes)())):
        for text in (*str(found).split("\n"), repr(found), *found.to_json().split("\n")):
            assert text.isprintable(), ascii(text)
