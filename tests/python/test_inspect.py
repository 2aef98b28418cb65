"""`libcai.inspect`: objects that answer what real libraries answer, objects that answer nonsense, and NumPy itself.

Each stand-in returns to the letter what the library of its name returns; the rules beside it are all that is found.
"""

import ctypes
import ctypes.util
import enum
import json
import pathlib
import re
import shlex
import subprocess
import sys

import ml_dtypes
import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import libcai  # noqa: E402
from libcai import _dlpack, _library  # noqa: E402

P = 0x7F0000000000


def look(obj, library=False):
    found = libcai.inspect(obj, library)
    text = str(found)
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) <= 100
    json.loads(found.to_json())
    assert [finding.number for finding in found.findings] == list(range(1, len(found.findings) + 1))
    return found


def rules(found, protocol=None):
    return {finding.rule for finding in found.findings if protocol in (None, finding.protocol)}


class Fresh:
    """A new dictionary for each reading, as most libraries make it."""

    def __init__(self, said, **attributes):
        self._said = said
        vars(self).update(attributes)

    @property
    def __cuda_array_interface__(self):
        return dict(self._said)


class Raises:
    def __init__(self, error):
        self._error = error

    @property
    def __cuda_array_interface__(self):
        raise self._error


class Delayed:
    """A sequence that is no tuple, as cuDF's pointers that are not known yet."""

    def __init__(self, *items):
        self._items = items

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        return self._items[index]


def cai(shape, typestr, data, version, **more):
    return {"shape": shape, "typestr": typestr, "data": data, "version": version, **more}


def shared(said):
    holder = type("Holder", (), {})()
    holder.__cuda_array_interface__ = said
    return holder


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
    ({"typestr": "|O8"}, {"typestr-object": "error"}),
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
    ({"strides": (-4,), "data": (4, False)}, {"strides-negative": "note", "address-range": "error"}),
    ({"strides": ((1 << 63) - 4,)}, {"address-range": "error"}),
    ({"stream": "1"}, {"not-a-number": "error"}),
    ({"stream": True}, {"not-a-number": "error"}),
    ({"stream": -1}, {"number-range": "error"}),
    ({"stream": 0}, {"stream-zero": "error"}),
    ({"mask": {"shape": (3,)}}, {"mask": "note", "mask-type": "error"}),
    ({"mask": 3}, {"mask": "note", "mask-type": "error"}),
    ({"mask": Fresh(cai((4,), "|b1", (P, True), 3, stream=None))}, {"mask": "note", "mask-shape": "error"}),
    ({"mask": Fresh(cai((3,), "|b1", (P, True), 3, stream=None))}, {"mask": "note"}),
    ({"mask": Fresh(cai((1,), "|b1", (P, True), 3, stream=0))}, {"mask": "note", "stream-zero": "error"}),
    ({"mask": Fresh(cai((3,), "<f4", (P, True), 3, stream=None))}, {"mask": "note", "mask-kind": "warning"}),
    ({"mask": None, "descr": None, "strides": None}, {}),
    ({"color": "red"}, {"key-unknown": "note"}),
]


@pytest.mark.parametrize("change, expected", WRONG, ids=lambda value: str(value)[:40])
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


# --- DLPack -----------------------------------------------------------------------------------------------

api = ctypes.pythonapi
new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", api)
)
DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Tensor:
    """Exports what it is told to export, and counts the capsules that were let go."""

    def __init__(self, shape=(2, 3), strides=(3, 1), code=2, bits=32, lanes=1, device=(2, 0), pointer=P, flags=0,
                 version=(1, 1), name=None, says=None, offset=0):  # fmt: skip
        self.destroyed = 0
        self.calls = []
        self.says = says or device
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        tensor = _dlpack.Tensor(
            data=pointer, device=_dlpack.Device(*device), ndim=len(shape), code=code, bits=bits, lanes=lanes,
            shape=self.shape, strides=self.strides, byte_offset=offset,
        )  # fmt: skip
        if version:
            self.managed = _dlpack.ManagedVersioned(version=_dlpack.Version(*version), flags=flags, tensor=tensor)
        else:
            self.managed = _dlpack.Managed(tensor=tensor)
        self.name = ctypes.create_string_buffer(name or (b"dltensor_versioned" if version else b"dltensor"))
        self.destructor = DESTRUCTOR(self.destroy)

    def destroy(self, capsule):
        self.destroyed += 1

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.calls.append((stream, max_version))
        return new_capsule(ctypes.addressof(self.managed), self.name, ctypes.cast(self.destructor, ctypes.c_void_p))

    def __dlpack_device__(self):
        return self.says


def test_a_tensor():
    obj = Tensor(flags=1)
    found = look(obj)
    said = found["__dlpack__"].array
    assert (said.shape, said.strides, said.typestr, said.pointer) == ((2, 3), (12, 4), "<f4", P)
    assert (said.device, said.readonly, said.version) == ("cuda:0", True, "1.1")
    assert rules(found) == set()
    # Its destructor has run, once, and the producer was asked to order nothing.
    assert obj.destroyed == 1 and obj.calls == [(-1, (1, 3))]
    on_host = Tensor(device=(1, 0))
    look(on_host)
    assert on_host.calls == [(None, (1, 3))]


TENSORS = [
    ({"version": None}, {"dlpack-unversioned"}),
    ({"strides": None}, set()),
    ({"strides": None, "version": (1, 3)}, {"dlpack-strides"}),
    ({"version": (2, 0)}, {"dlpack-version"}),
    ({"name": b"used_dltensor"}, {"dlpack-capsule"}),
    ({"says": (1, 0)}, {"dlpack-device"}),
    ({"says": (2,)}, {"dlpack-device"}),
    ({"says": 2}, {"not-a-tuple"}),
    ({"says": [2, 0]}, {"list-for-tuple"}),
    ({"says": ("cuda", 0)}, {"not-a-number", "dlpack-device"}),
    ({"says": (enum.IntEnum("Kind", {"CUDA": 2}).CUDA, 0)}, set()),
    ({"lanes": 4}, {"dlpack-lanes"}),
    ({"code": 17, "bits": 4}, {"dlpack-bits"}),
    ({"offset": 64}, {"dlpack-byte-offset"}),
    ({"shape": (0, 3)}, {"dlpack-empty-pointer"}),
    ({"shape": (0, 3), "pointer": None}, set()),
    ({"pointer": None}, {"null-pointer"}),
    ({"shape": (-2, 3)}, {"shape-negative"}),
    ({"shape": (1 << 40, 1 << 40)}, {"size"}),
    ({"strides": (-3, 1)}, {"strides-negative"}),
    ({"flags": 2}, {"dlpack-copied"}),
]


@pytest.mark.parametrize("change, expected", TENSORS, ids=str)
def test_tensors(change, expected):
    obj = Tensor(**change)
    assert rules(look(obj)) == expected
    assert obj.destroyed == len(obj.calls)


def test_fewer_arguments():
    class Older(Tensor):
        def __dlpack__(self, stream=None):
            return super().__dlpack__(stream=stream)

    obj = Older(version=None)
    found = look(obj)
    assert rules(found) == {"dlpack-unversioned", "dlpack-arguments"} and obj.calls == [(-1, None)]

    class Bare(Tensor):
        def __dlpack__(self):
            return super().__dlpack__()

    assert "dlpack-arguments" in rules(look(Bare()))

    class Wary(Tensor):
        def __dlpack__(self, stream=None, max_version=None):
            if max_version:
                raise BufferError("not of that version")
            return super().__dlpack__(stream=stream)

    assert look(Wary())["__dlpack__"].state == "offered"


@pytest.mark.parametrize(
    "error, state, expected",
    [
        (BufferError("requires gradient"), "declined", set()),
        (RuntimeError("no"), "failed", {"dlpack-raises"}),
        (TypeError("no"), "failed", {"dlpack-raises"}),
    ],
)
def test_tensors_that_are_refused(error, state, expected):
    class Refuses(Tensor):
        def __dlpack__(self, **keywords):
            raise error

    found = look(Refuses())
    assert found["__dlpack__"].state == state and rules(found) == expected
    assert str(error) in found["__dlpack__"].message


def test_half_of_dlpack():
    class NoDevice:
        def __dlpack__(self, **keywords):
            return 3

    assert rules(look(NoDevice())) == {"dlpack-half", "dlpack-capsule"}
    assert rules(look(type("NoTensor", (), {"__dlpack_device__": lambda self: (1, 0)})())) >= {"dlpack-half"}
    assert rules(look(type("Withdrawn", (), {"__dlpack__": None, "__dlpack_device__": None})())) >= {"dlpack-device"}


DISAGREEMENTS = [
    ({}, {}, set()),
    ({"shape": (3, 2)}, {}, {"shape-differs"}),
    ({"strides": (4, 8)}, {}, {"strides-differ"}),
    ({"strides": None}, {"strides": (0, 1)}, {"strides-differ", "strides-zero"}),
    ({"typestr": "<i4"}, {}, {"type-differs"}),
    ({"typestr": "|f4"}, {}, {"typestr-order-missing"}),
    ({"typestr": "<V2"}, {"code": 4, "bits": 16}, {"typestr-opaque", "type-lost"}),
    ({"typestr": "<u2"}, {"code": 4, "bits": 16}, {"type-lost"}),
    ({"typestr": "<f2"}, {"code": 4, "bits": 16}, {"type-differs"}),
    ({"typestr": "|V1"}, {"code": 10, "bits": 8}, {"typestr-opaque", "type-lost"}),
    ({"data": (P + 4, False)}, {}, {"pointer-differs"}),
    ({"data": (P + 64, False)}, {"offset": 64}, {"dlpack-byte-offset"}),
    ({}, {"flags": 1}, {"readonly-differs"}),
    ({"data": (P, True)}, {"flags": 1}, set()),
    ({}, {"device": (1, 0)}, {"device-host"}),
    ({}, {"device": (13, 0)}, set()),
    ({"data": (P + 4, False)}, {"flags": 2}, {"dlpack-copied"}),
]


@pytest.mark.parametrize("change, tensor, expected", DISAGREEMENTS, ids=str)
def test_disagreements(change, tensor, expected):
    said = {**cai((2, 3), "<f4", (P, False), 3, stream=None), **change}

    class Both(Tensor):
        @property
        def __cuda_array_interface__(self):
            return dict(said)

    assert rules(look(Both(**tensor))) == expected


def test_the_exchange_table():
    source = Tensor()
    deleted = []

    @_dlpack.DELETER
    def deleter(tensor):
        deleted.append(True)

    source.managed.deleter = ctypes.cast(deleter, ctypes.c_void_p)

    @_dlpack.FROM_OBJECT
    def managed_from_object(obj, out):
        out[0] = ctypes.pointer(source.managed)
        return 0

    @_dlpack.CURRENT_STREAM
    def current_work_stream(kind, number, out):
        out[0] = 0x5555
        return 0

    def table(**functions):
        functions = {name: ctypes.cast(function, ctypes.c_void_p) for name, function in functions.items()}
        header = _dlpack.ExchangeHeader(version=_dlpack.Version(1, 3))
        return _dlpack.ExchangeTable(header=header, **functions)

    def publish(made, name=b"dlpack_exchange_api"):
        capsule = new_capsule(ctypes.addressof(made), name, None)
        return type("Published", (), {"__dlpack_c_exchange_api__": capsule})()

    good = table(managed_from_object=managed_from_object, current_work_stream=current_work_stream)
    found = look(publish(good))
    said = found["__dlpack_c_exchange_api__"].array
    assert (said.shape, said.strides, said.device, said.stream) == ((2, 3), (12, 4), "cuda:0", 0x5555)
    assert rules(found) == set() and deleted == [True]

    assert rules(look(publish(table()))) == {"exchange-table"}
    assert rules(look(publish(good, b"dltensor"))) == {"exchange-table"}
    assert rules(look(type("Number", (), {"__dlpack_c_exchange_api__": 3})())) == {"exchange-table"}


# --- NumPy, SYCL, OpenCL ----------------------------------------------------------------------------------


def test_numpy():
    found = look(numpy.zeros((3, 4), "<i4")[::2, ::-1])
    offered = {protocol.name for protocol in found.protocols if protocol.state == "offered"}
    assert offered == {"__dlpack__", "__array_interface__", "__array_struct__"}
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
    assert rules(look(numpy.zeros(3, "V5"))) == {"typestr-opaque"}
    assert rules(look(numpy.zeros((2, 0)))) <= {"dlpack-empty-pointer"}
    assert rules(look(numpy.float64(3))) <= {"readonly-differs", "pointer-differs", "key-unknown"}


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"])
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
    assert (said.strides, said.pointer, said.device) == ((8,), P, "oneapi") and rules(found) == set()
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
    assert (said.pointer, said.byte_offset, said.typestr, said.device) == (0x1234, 16, "<f4", "opencl")
    assert rules(found) == {"buffer-name"}
    assert rules(look(pyopencl(base_data=object()))) == {"buffer-name", "buffer-pointer"}
    plain = pyopencl(buffer=type("Buffer", (), {"_ptr": 7})(), base_data=None)
    assert rules(look(plain)) == set()
    assert look(memoryview(b"abc"))["buffer"].state == "absent"


# --- hostile objects --------------------------------------------------------------------------------------


class Anything:
    """Has every attribute, and each of them is callable, empty and of no use."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *arguments, **keywords):
        return Anything()


class Explodes:
    def __getattribute__(self, name):
        raise ZeroDivisionError(name)


class Panics(BaseException):
    pass


class BadRepr(dict):
    def __repr__(self):
        raise RuntimeError("no words")


class BadItems(dict):
    def __getitem__(self, key):
        raise RuntimeError(key)


class Endless(tuple):
    def __len__(self):
        return 1 << 62


class BadIndex:
    def __index__(self):
        raise OverflowError("later")


class LyingClass:
    @property
    def __class__(self):
        raise RuntimeError("who am I")


class Meta(type):
    @property
    def __module__(cls):
        raise RuntimeError("nowhere")


HOSTILE = [
    Anything(),
    Explodes(),
    LyingClass(),
    Meta("Nowhere", (), {})(),
    Raises(Panics("a panic")),
    Raises(SystemExit(3)),
    shared(3),
    shared("text"),
    shared([("shape", (3,))]),
    shared(BadRepr(cai((3,), BadRepr(), (P, False), 3))),
    shared(BadItems(cai((3,), "<f4", (P, False), 3))),
    shared(cai(Endless((3,)), "<f4", (P, False), 3)),
    shared(cai((BadIndex(),), "<f4", (BadIndex(), BadIndex()), BadIndex(), stream=BadIndex())),
    shared(cai((3,), "<f4" * 10000, (P, False), 3)),
    shared(cai((3,), "<f99999999999999999999", (P, False), 3)),
    shared(cai((10**5000,), "<f4", (10**5000, False), 10**5000)),
    shared({3: 4, None: 5, **cai((3,), "<f4", (P, False), 3, stream=0)}),
    shared(cai((3,), "|V8", (P, False), 3, descr=[("a",)], mask=Explodes())),
    shared(cai((3,), "\033[2J\n\ud800", (P, False), 3, descr=[("a", "<f4", 10**5000)])),
    Raises(ValueError("\033[2J" * 100000)),
    type("\033[2J\n", (), {})(),
    type("Class", (), {}),
    None,
    ...,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_objects(number):  # by number: pytest looks into what it is given
    found = look(HOSTILE[number])
    assert any(finding.severity == "error" for finding in found.findings)


def test_nothing_is_kept():
    class Watched(Raises):
        gone = False

        def __del__(self):
            Watched.gone = True

    found = look(Watched(RuntimeError("kept in its traceback")))
    assert Watched.gone and found.findings


# --- the library itself -----------------------------------------------------------------------------------


def test_structures_are_those_of_the_header(tmp_path):
    mirrors = {
        "cai_import_options": (_library.Options, {}),
        "cai_error": (_library.Error, {}),
        "cai_array": (_library.CaiArray, {}),
    }
    lines = []
    for name, (mirror, _) in mirrors.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{f[0]} %zu\\n", offsetof({name}, {f[0]}));' for f in mirror._fields_]
    values = {
        "CAI_ABI_MAJOR": _library.ABI_MAJOR, "CAI_IMPORT_ALLOW_HOST": _library.IMPORT_HOST,
        "CAI_IMPORT_NO_EXCEPTION": _library.IMPORT_QUIET, "CAI_ARRAY_READONLY": _library.FLAG_READONLY,
        "CAI_STREAM_NONE": _library.STREAM_NONE, "CAI_STREAM_UNKNOWN": _library.STREAM_UNKNOWN,
        **{f"CAI_PROTOCOL_{name}": number for name, number in VIA.items()},
    }  # fmt: skip
    lines += [f'printf("{name} %llu\\n", (unsigned long long){name});' for name in values]
    source = tmp_path / "sizes.c"
    source.write_text("#include <cai/cai.h>\n#include <stdio.h>\nint main(void) {" + "\n".join(lines) + "}\n")
    subprocess.run(["gcc", "-I", ROOT / "include", source, "-o", tmp_path / "sizes"], check=True)
    said = dict(
        line.split() for line in subprocess.run([tmp_path / "sizes"], capture_output=True, text=True).stdout.splitlines()
    )
    for name, (mirror, _) in mirrors.items():
        assert int(said.pop(name)) == ctypes.sizeof(mirror)
        for field in mirror._fields_:
            assert int(said.pop(f"{name}.{field[0]}")) == getattr(mirror, field[0]).offset, field
    assert {name: int(number) for name, number in said.items()} == values


VIA = {
    "EXCHANGE": 1, "DLPACK_EXCHANGE": 2, "CUDA_ARRAY_INTERFACE": 3, "DLPACK": 4, "SYCL_USM": 5, "BUFFER": 6,
    "ARRAY_STRUCT": 7, "ARRAY_INTERFACE": 8,
}  # fmt: skip


def test_the_library_is_asked(library_path):
    found = look(numpy.zeros((3, 4), "<f4"), library_path)
    assert found.library == library_path
    for protocol in found.protocols:
        verdict = protocol.library
        assert verdict.status.startswith("CAI_")
        if verdict.status == "CAI_OK":
            assert (verdict.array.shape, verdict.array.typestr) == ((3, 4), "<f4")
            assert verdict.array.pointer == protocol.array.pointer
        else:
            assert verdict.message
    # A producer's exception stays in the table.
    look(Raises(RuntimeError("no")), library_path)
    for obj in HOSTILE:
        look(obj, library_path)


def test_what_the_object_declines_is_no_refusal(library_path):
    class OnTheHost(Raises):
        """As PyTorch's tensors in host memory: NumPy's interface, and a property that says no."""

        @property
        def __array_interface__(self):
            return numpy.zeros(3).__array_interface__

    found = look(OnTheHost(AttributeError("not CUDA")), library_path)
    assert found["__cuda_array_interface__"].state == "declined"
    assert "__cuda_array_interface__ declined: " in str(found) and "library: takes all that is offered" in str(found)
    assert "library: has nothing to take" in str(look(Raises(AttributeError("not CUDA")), library_path))
    # But what is offered, and cannot be taken, is.
    assert "library: refuses" in str(look(Raises(RuntimeError("no")), library_path))


def test_without_a_library(tmp_path):
    for path in (str(tmp_path / "none.so"), ctypes.util.find_library("m")):
        found = look(numpy.zeros(3), path)
        assert found["__dlpack__"].state == "offered" and found["__dlpack__"].library is None
        assert "library: not asked: " in str(found)
    assert "library: not asked\n" in str(look(numpy.zeros(3)))


# --- the shell --------------------------------------------------------------------------------------------


def shell(*arguments, **more):
    command = [sys.executable, "-m", "libcai", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "python")}, **more)


def test_the_command():
    done = shell("inspect", "--no-library", "numpy:zeros((2, 3))")
    assert done.returncode == 0 and "numpy.ndarray" in done.stdout and "(24, 8)" in done.stdout
    done = shell("inspect", "numpy:zeros(3)", "--json")
    assert json.loads(done.stdout)["type"] == "numpy.ndarray"
    assert shell("inspect", "builtins:3").returncode == 1
    for wrong in ("numpy", "numpy:", ":3", "no_such_module:3", "numpy:1/0", "numpy:("):
        done = shell("inspect", wrong)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "EVALUATED" in shell("inspect", "--help").stdout


def test_a_module_of_the_current_folder(tmp_path):
    (tmp_path / "mine.py").write_text("class A:\n    __cuda_array_interface__ = {'shape': (3,), 'typestr': '<f4',\n"
                                      "        'data': (4096, False), 'version': 3, 'stream': 0}\n\na = A()\n")  # fmt: skip
    done = shell("inspect", "mine:a", cwd=tmp_path)
    assert done.returncode == 1 and "[stream-zero]" in done.stdout


def test_the_page_of_the_book(tmp_path):
    """The program and the output that the page shows belong together."""
    page = (ROOT / "docs/src/python_package.md").read_text()
    program = re.search(r"```python\n# frames.py\n(.*?)```", page, re.S)[1]
    command, output = re.search(r"```text\n\$ python -m libcai (inspect .*?)\n(.*?)```", page, re.S).groups()
    (tmp_path / "frames.py").write_text(program)
    assert shell(*shlex.split(command), cwd=tmp_path).stdout == output
    # Every rule that the page names, and every protocol.
    sources = "".join(path.read_text() for path in (ROOT / "python/libcai").glob("_*.py"))
    rows = re.findall(r"^\| `([\w-]+)` ", page, re.M)
    assert len(rows) > 5 and all(f'"{row}"' in sources for row in rows)


def test_the_page_s_program_in_ctypes(library_path, monkeypatch, capsys):
    page = (ROOT / "docs/src/python_package.md").read_text()
    program = re.search(r"```python\n(import ctypes as c\n.*?)```", page, re.S)[1]
    monkeypatch.setattr(libcai, "library", lambda: library_path)
    names = {"tensor": Fresh(cai((2, 3), "<f4", (P, False), 3, stream=None))}
    exec(program, names)
    assert capsys.readouterr().out == f"b'<f4' [2, 3] {P} {_library.STREAM_NONE}\n"
    assert ctypes.sizeof(names["Array"]) == ctypes.sizeof(_library.CaiArray) and names["array"].owner is None
    with pytest.raises(TypeError):
        exec(program, {"tensor": 3})
