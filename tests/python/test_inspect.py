"""`libcai.inspect` on dictionaries, NumPy, SYCL and OpenCL.

Each producer returns exactly what the library of its name returns; the rules beside it are all that is found.
"""

import ctypes
import ctypes.util

import ml_dtypes
import numpy
import pytest
from inspecting import P, Delayed, Fresh, Raises, cai, look, rules, shared
from parameter_ids import stable_id


packed = Fresh(cai((64,), "|u1", (P + 512, False), 3, strides=None))
PRODUCERS = {
    "numba": (Fresh(cai((2, 3), "<f4", (P, False), 3, strides=None, stream=None)), set()),
    "numba, a stream": (Fresh(cai((2, 3), "<f4", (P, False), 3, strides=None, stream=0x5555)), set()),
    "numba, broadcast": (
        Fresh(cai((3, 4), "<f4", (P, False), 3, strides=None, stream=None), strides=(4, 0)),
        {"strides-none"},
    ),
    "numba, empty": (Fresh(cai((0,), "<f4", (0, False), 3, strides=None, stream=None)), set()),
    "CuPy": (Fresh(cai((5,), "<f8", (P, False), 3, strides=None, stream=1, descr=[("", "<f8")])), set()),
    "CuPy, bfloat16": (
        Fresh(cai((5,), "<V2", (P, False), 3, strides=None, stream=1, descr=[("", "<V2")]), dtype="bfloat16"),
        {"type-lost"},
    ),
    "CuPy, records": (
        Fresh(cai((5,), "|V8", (P, False), 3, strides=None, stream=1, descr=[("a", "<i4"), ("", "|V4")])),
        set(),
    ),
    "PyTorch": (
        Fresh(cai((2, 3), "<f4", (P, False), 2, strides=(4, 8)), dtype="torch.float32"),
        {"version-no-stream"},
    ),
    "PyTorch, bfloat16": (
        Fresh(cai((2, 3), "<V2", (P, False), 2, strides=None), dtype="torch.bfloat16"),
        {"version-no-stream", "type-lost"},
    ),
    "PyTorch, requires_grad": (Raises(RuntimeError("Can't get it")), {"attribute-raises"}),
    "PyTorch, 8-bit floats": (Raises(KeyError("torch.float8_e4m3fn")), {"attribute-raises"}),
    "PyTorch, on the host": (Raises(AttributeError("not CUDA")), set()),
    "JAX": (Fresh(cai((4,), "<f4", (P, True), 2)), {"version-no-stream"}),
    "RMM": (Fresh(cai((256,), "|u1", (P, False), 0, strides=None)), {"version-no-stream", "version-old"}),
    "cuDF": (Fresh(cai((4,), "<i8", (P, False), 3, strides=(8,))), {"stream-absent"}),
    "cuDF, spillable": (
        Fresh(cai((4,), "<i8", Delayed(P, False), 3, strides=(8,))),
        {"stream-absent", "sequence-for-tuple"},
    ),
    "cuDF, nulls": (
        Fresh(cai((40,), "<i8", (P, False), 3, strides=(8,), mask=packed)),
        {"stream-absent", "mask", "mask-packed"},
    ),
    "pylibraft": (
        Fresh(cai((2, 2), "<f4", (P, False), 3, strides=None, descr=[("", "<f4")])),
        {"stream-absent"},
    ),
    "DALI": (Fresh(cai((2,), "|u1", (P, False), 2, strides=None)), {"version-no-stream"}),
    "PyCUDA": (Fresh(cai((2, 3), "<f4", (P, False), 3, strides=(12, 4), stream=None)), set()),
    "Warp": (shared(cai((8, 3), "<f4", (P, False), 2, strides=(12, 4))), {"version-no-stream", "dict-shared"}),
    "Holoscan": (
        shared(cai((8,), "<f4", (P, False), 3, strides=(4,), descr=[("", "<f4")], mask=None, stream=1)),
        {"dict-shared"},
    ),
    "nvImageCodec, on the host": (Raises(RuntimeError("host")), {"attribute-raises"}),
    "TensorRT, bfloat16": (Raises(ValueError("bfloat16")), {"attribute-raises"}),
    "VPF": (
        Fresh(cai([1080, 1920], "B", (P, False), 2)),
        {"version-no-stream", "list-for-tuple", "typestr"},
    ),
    "VALI": (Fresh(cai((4, 4, 3), "|u1", (P, False), 3, strides=(12, 3, 1), stream=0)), {"stream-zero"}),
    "spdl": (
        Fresh(cai((4,), "|f4", (P, False), 2, strides=None, stream=0)),
        {"stream-zero", "stream-version", "typestr-order-missing"},
    ),
    "hoomd": (
        Fresh(cai((0,), "d", (0, True), 2, strides=(0,))),
        {"version-no-stream", "typestr"},
    ),
    "CTranslate2": (Fresh(cai((4,), "<f4", (P, False), 3)), {"stream-absent"}),
    "cuda.stf": (
        type("Stf", (), {"__cuda_array_interface__": property(lambda self: Keyed(
            cai((0,), "<f4", (None, True), 3, strides=None, stream=None)))})(),
        {"not-a-dict", "pointer-none"},
    ),
    "XGBoost": (Fresh(cai((4,), "<f4", (P, True), 3, strides=None, stream=2)), set()),
    "slangpy": (Fresh(cai((4,), "<V2", (P, False), 3, strides=None, stream=None)), {"typestr-opaque"}),
    "ml_dtypes, e5m2": (Fresh(cai((4,), "<f1", (P, False), 3, stream=None)), {"typestr-opaque"}),
}  # fmt: skip


class Keyed:
    """Like a dictionary, and none."""

    def __init__(self, said):
        self._said = said

    def __getitem__(self, key):
        return self._said[key]

    def __iter__(self):
        return iter(self._said)


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers(name):
    obj, expected = PRODUCERS[name]
    assert rules(look(obj)) == expected


def test_there_are_many():
    assert len({name.partition(",")[0] for name in PRODUCERS}) >= 20


# What is wrong with one array, next to a sound one: the change, and the rules and severities that are found.
WRONG = [
    ({"shape": None}, {"not-a-tuple": "error"}),
    ({"shape": "33"}, {"not-a-tuple": "error"}),
    ({"shape": 3}, {"not-a-tuple": "error"}),
    ({"shape": {}}, {"not-a-tuple": "error"}),
    ({"shape": (1,) * 65}, {"ndim": "error"}),
    ({"shape": (-1,)}, {"number-range": "error"}),
    ({"shape": (1.5,)}, {"not-a-number": "error"}),
    ({"shape": (True,)}, {"not-a-number": "error"}),
    ({"shape": (numpy.int64(3),)}, {"not-an-int": "warning"}),
    ({"shape": (1 << 62, 4)}, {"size": "error"}),
    ({"typestr": "i4"}, {"typestr": "warning"}),
    ({"typestr": "float32"}, {"typestr": "error"}),
    ({"typestr": "<f3"}, {"typestr": "error"}),
    ({"typestr": b"<f4"}, {"typestr-type": "error"}),
    ({"typestr": numpy.dtype("f4")}, {"typestr-type": "error"}),
    ({"typestr": ">f4"}, {"typestr-order": "warning"}),
    ({"typestr": "|t1"}, {"typestr-bits": "note"}),
    ({"typestr": "|O8"}, {"typestr-object": "warning"}),
    ({"typestr": "|O"}, {"typestr-object": "warning"}),
    ({"typestr": "|V12", "descr": [("a", "|O"), ("b", "<i4")]}, {"typestr-object": "warning"}),
    ({"typestr": "|V12", "descr": [("a", [("c", "|O8", (1,))]), ("b", "<i4")]}, {"typestr-object": "warning"}),
    ({"typestr": "|V16", "descr": [("a", "|O"), ("b", "<i4")]}, {"typestr-object": "warning", "descr-size": "error"}),
    ({"typestr": "|V8", "descr": [("a", "<f4")]}, {"descr-size": "error"}),
    ({"typestr": "|V8", "descr": 3}, {"descr": "error", "typestr-opaque": "warning"}),
    ({"typestr": "|V8", "descr": [("a", "<f4", (2,))]}, {}),
    ({"typestr": "|V8", "descr": [("a", [("b", "<i4"), ("c", "<i4")])]}, {}),
    ({"data": P}, {"not-a-tuple": "error"}),
    ({"data": [P, False]}, {"list-for-tuple": "warning"}),
    ({"data": (P,)}, {"data": "error"}),
    ({"data": (P, 0)}, {"readonly-type": "warning"}),
    ({"data": (0, False)}, {"null-pointer": "error"}),
    ({"data": (None, False)}, {"pointer-none": "error"}),
    ({"data": (-8, False)}, {"number-range": "error"}),
    ({"data": (1 << 64, False)}, {"number-range": "error"}),
    ({"data": (True, False)}, {"not-a-number": "error"}),
    ({"data": (ctypes.c_void_p(P), False)}, {"not-a-number": "error"}),
    ({"data": (numpy.uint64(P), False)}, {"not-an-int": "warning"}),
    ({"shape": (0,), "data": (P, False)}, {"empty-pointer": "warning"}),
    ({"shape": (0,), "data": (None, False)}, {"pointer-none": "warning"}),
    ({"version": "3"}, {"not-a-number": "error"}),
    ({"version": 4}, {"version": "warning"}),
    ({"version": -1}, {"number-range": "error"}),
    ({"strides": (4, 4)}, {"strides-length": "error"}),
    ({"strides": 4}, {"not-a-tuple": "error"}),
    ({"strides": (4.0,)}, {"not-a-number": "error"}),
    ({"strides": [4]}, {"list-for-tuple": "warning"}),
    ({"strides": (6,)}, {"strides-not-multiple": "note"}),
    ({"strides": (-4,)}, {"strides-negative": "note"}),
    ({"strides": (0,)}, {"strides-zero": "note"}),
    (
        {"strides": (-4,), "data": (4, False)},
        {"strides-negative": "note", "address-range": "error"},
    ),
    ({"strides": ((1 << 63) - 4,)}, {"address-range": "error"}),
    ({"stream": "1"}, {"not-a-number": "error"}),
    ({"stream": True}, {"not-a-number": "error"}),
    ({"stream": -1}, {"number-range": "error"}),
    ({"stream": 0}, {"stream-zero": "error"}),
    ({"mask": {"shape": (3,)}}, {"mask": "note", "mask-type": "error"}),
    ({"mask": 3}, {"mask": "note", "mask-type": "error"}),
    (
        {"mask": Fresh(cai((4,), "|b1", (P, True), 3, stream=None))},
        {"mask": "note", "mask-shape": "error"},
    ),
    ({"mask": Fresh(cai((3,), "|b1", (P, True), 3, stream=None))}, {"mask": "note"}),
    (
        {"mask": Fresh(cai((1,), "|b1", (P, True), 3, stream=0))},
        {"mask": "note", "stream-zero": "error"},
    ),
    (
        {"mask": Fresh(cai((3,), "<f4", (P, True), 3, stream=None))},
        {"mask": "note", "mask-kind": "error"},
    ),
    ({"mask": None, "descr": None, "strides": None}, {}),
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
    assert rules(found) == {"key-missing"} and repr(key) in found.findings[0].message


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
    assert "mask-depth" in rules(look(obj))


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
    assert offered == {"__dlpack__", "__array_interface__", "__array_struct__"}
    for name in offered:
        said = found[name].array
        assert (said.shape, said.strides, said.typestr, said.device) == (
            (2, 4),
            (32, -4),
            "<i4",
            "cpu",
        )
    assert rules(found) == {"strides-negative"}

    frozen = numpy.arange(3.0)
    frozen.flags.writeable = False
    found = look(frozen)
    assert found["__array_interface__"].array.readonly is True and "readonly-differs" not in rules(
        found
    )
    assert rules(look(numpy.zeros(3, ">f8"))) == {"typestr-order"}
    assert rules(look(numpy.array(3.0))) == set()
    assert "typestr-opaque" not in rules(look(numpy.zeros(3, [("a", "i4"), ("b", "f8")])))
    assert rules(look(numpy.zeros(3, "V5"))) == {"typestr-opaque"}
    assert rules(look(numpy.zeros((2, 0)))) <= {"dlpack-empty-pointer"}
    assert rules(look(numpy.float64(3))) <= {"readonly-differs", "pointer-differs", "key-unknown"}


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"]
)
def test_ml_dtypes(name):
    found = look(numpy.zeros(4, getattr(ml_dtypes, name)))
    assert "type-lost" in rules(found)
    assert name in str(found)


def test_array_struct():
    obj = type("NoCapsule", (), {"__array_struct__": 3})()
    assert rules(look(obj)) == {"array-struct"}


class Queue:
    pass


def usm(**change):
    said = {"data": (P, False), "shape": (10,), "strides": None, "typestr": "<i8", "version": 1, "syclobj": Queue(),
            "offset": 0, **change}  # fmt: skip
    return type("Usm", (), {"__sycl_usm_array_interface__": property(lambda self: dict(said))})()


def test_sycl():
    found = look(usm())
    said = found["__sycl_usm_array_interface__"].array
    assert (said.strides, said.pointer, said.device) == ((8,), P, "oneapi") and rules(
        found
    ) == set()
    # Strides and offset count elements.
    said = look(usm(shape=(2, 5), strides=(1, 2), offset=3))["__sycl_usm_array_interface__"].array
    assert (said.strides, said.pointer) == ((8, 16), P + 24)
    assert rules(look(usm(typestr="|i8"))) == {"typestr-order-missing"}
    assert rules(look(usm(version=2))) == {"version"}
    assert rules(look(usm(typestr="|V8"))) >= {"typestr"}


def test_opencl():
    def pyopencl(**change):
        said = {"base_data": type("Buffer", (), {"int_ptr": 0x1234})(), "offset": 16, "dtype": numpy.dtype("f4"),
                "shape": (4, 5), "strides": (20, 4), **change}  # fmt: skip
        return type("Array", (), said)()

    found = look(pyopencl())
    said = found["buffer"].array
    assert (said.pointer, said.byte_offset, said.typestr, said.device) == (
        0x1234,
        16,
        "<f4",
        "opencl",
    )
    assert rules(found) == {"buffer-name"}
    assert rules(look(pyopencl(base_data=object()))) == {"buffer-name", "buffer-pointer"}
    plain = pyopencl(buffer=type("Buffer", (), {"_ptr": 7})(), base_data=None)
    assert rules(look(plain)) == {"buffer-ambiguous"}
    for name in ("queue", "context"):
        known = pyopencl(buffer=type("Buffer", (), {"_ptr": 7})(), base_data=None)
        setattr(known, name, type("Queue", (), {"int_ptr": 8})())
        assert rules(look(known)) == set() and look(known)["buffer"].array.device == "opencl"
    assert rules(look(pyopencl(dtype=numpy.float32))) == {"buffer-name", "buffer-dtype"}
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
    assert rules(look(tensor(_conj=False, requires_grad=True))) == {"requires-grad"}
    assert rules(look(tensor(_conj=True))) == {"computed-later"}
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

    attributes = {"__cuda_array_interface__": property(fail), "__dlpack__": fail, "__dlpack_device__": lambda self: (2, 0)}
    for found in (look(type(name, (), {})()), look(type(name, (), attributes)())):
        for text in (*str(found).split("\n"), repr(found), *found.to_json().split("\n")):
            assert text.isprintable(), ascii(text)
