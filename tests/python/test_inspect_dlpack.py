"""`libcai.inspect` on DLPack: tensors, refusals, exchange tables, and protocols that disagree."""

import ctypes
import ctypes.util
import enum

import pytest
from inspecting import DESTRUCTOR, P, cai, look, new_capsule, rules
from libcai import _dlpack
from parameter_ids import stable_id


class Tensor:
    """Exports its arguments, and counts the capsules that were released."""

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
    # The library reads it, then what the library does not report. Each destructor has run, and nothing was ordered.
    assert obj.destroyed == 2 and obj.calls == [(-1, (1, 3))] * 2
    on_host = Tensor(device=(1, 0))
    look(on_host)
    assert {stream for stream, _ in on_host.calls} == {None}


TENSORS = [
    ({"version": None}, {"dlpack-unversioned"}),
    ({"strides": None}, set()),
    ({"strides": None, "version": (1, 3)}, {"dlpack-strides"}),
    ({"version": (2, 0)}, {"CAI_ERR_DLPACK_VERSION"}),
    ({"name": b"used_dltensor"}, {"CAI_ERR_TYPE"}),
    ({"says": (1, 0)}, {"dlpack-device"}),
    ({"says": (2,)}, {"CAI_ERR_TYPE"}),
    ({"says": (enum.IntEnum("Kind", {"CUDA": 2}).CUDA, 0)}, set()),
    ({"lanes": 4}, {"CAI_ERR_CONVERT_TYPE"}),
    ({"offset": 64}, {"dlpack-byte-offset"}),
    ({"shape": (0, 3)}, {"dlpack-empty-pointer"}),
    ({"shape": (0, 3), "pointer": None}, set()),
    ({"shape": (-2, 3)}, {"CAI_ERR_SHAPE_NEGATIVE"}),
    ({"strides": (-3, 1)}, {"strides-negative"}),
    ({"flags": 2}, {"dlpack-copied"}),
]


@pytest.mark.parametrize("change, expected", TENSORS, ids=stable_id)
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
    assert rules(found) == {"dlpack-unversioned", "dlpack-arguments"} and {*obj.calls} == {(-1, None)}

    class Bare(Tensor):
        def __dlpack__(self):
            return super().__dlpack__()

    assert rules(look(Bare())) == {"dlpack-raises"}

    # The exception of the call that its arguments fit is the one that counts.
    for error, later in (
        (RuntimeError("mine"), None),
        (TypeError("mine"), None),
        (RuntimeError("mine"), BufferError("too")),
    ):

        class OlderRefuses(Tensor):
            def __dlpack__(self, *, stream=None):
                raise error if stream == -1 else later or error

        assert "mine" in look(OlderRefuses())["__dlpack__"].message

    class Wary(Tensor):
        def __dlpack__(self, stream=None, max_version=None):
            if max_version:
                raise BufferError("not of that version")
            return super().__dlpack__(stream=stream)

    assert look(Wary())["__dlpack__"].state == "declined"


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

    assert rules(look(NoDevice())) == {"CAI_ERR_NO_PROTOCOL"}
    assert rules(look(type("NoTensor", (), {"__dlpack_device__": lambda self: (1, 0)})())) == {"no-protocol"}
    assert rules(look(type("Withdrawn", (), {"__dlpack__": None, "__dlpack_device__": None})())) == {"dlpack-raises"}


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


@pytest.mark.parametrize("change, tensor, expected", DISAGREEMENTS, ids=stable_id)
def test_disagreements(change, tensor, expected):
    said = {**cai((2, 3), "<f4", (P, False), 3, stream=None), **change}

    class Both(Tensor):
        @property
        def __cuda_array_interface__(self):
            return dict(said)

    assert rules(look(Both(**tensor))) == expected


class ExchangeTable(ctypes.Structure):
    _fields_ = [("version", _dlpack.Version), *((name, ctypes.c_void_p) for name in (
        "previous", "allocator", "managed_from_object", "managed_to_object", "tensor_from_object", "current_work_stream"))]  # fmt: skip


def test_the_exchange_table():
    source = Tensor()
    deleted = []

    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def deleter(tensor):
        deleted.append(True)

    source.managed.deleter = ctypes.cast(deleter, ctypes.c_void_p)

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
    def managed_from_object(obj, out):
        out[0] = ctypes.addressof(source.managed)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def current_work_stream(kind, number, out):
        out[0] = 0x5555
        return 0

    def table(**functions):
        functions = {name: ctypes.cast(function, ctypes.c_void_p) for name, function in functions.items()}
        return ExchangeTable(version=_dlpack.Version(1, 3), **functions)

    def publish(made, name=b"dlpack_exchange_api"):
        capsule = new_capsule(ctypes.addressof(made), name, None)
        return type("Published", (), {"__dlpack_c_exchange_api__": capsule})()

    good = table(managed_from_object=managed_from_object, current_work_stream=current_work_stream)
    found = look(publish(good))
    said = found["__dlpack_c_exchange_api__"].array
    assert (said.shape, said.strides, said.device, said.stream) == ((2, 3), (12, 4), "cuda:0", 0x5555)
    assert rules(found) == set() and deleted == [True]

    assert rules(look(publish(table()))) == {"CAI_ERR_NO_PROTOCOL"}
    assert rules(look(publish(good, b"dltensor"))) == {"CAI_ERR_NO_PROTOCOL"}
    assert rules(look(type("Number", (), {"__dlpack_c_exchange_api__": 3})())) == {"CAI_ERR_NO_PROTOCOL"}
