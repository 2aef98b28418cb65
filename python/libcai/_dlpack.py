"""Tensors of `__dlpack__`: their structures through ctypes, and what the library does not report of them."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from typing import Any, TypeVar

from . import _abi
from ._ask import ask, show
from ._library import device_name
from ._report import Add, Array, counted

Structure = TypeVar("Structure", bound=c.Structure)

# Those whose `stream` argument may be -1: nothing shall be ordered.
_WITH_STREAMS = (_abi.CAI_DEVICE_CUDA, _abi.CAI_DEVICE_ROCM, _abi.CAI_DEVICE_CUDA_MANAGED)
COPIED = 2
_NEWEST = (1, 3)


class Device(c.Structure):
    type: int
    id: int
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class Tensor(c.Structure):
    data: int | None
    device: Device
    ndim: int
    code: int
    bits: int
    lanes: int
    shape: c._Pointer[c.c_int64]
    strides: c._Pointer[c.c_int64]
    byte_offset: int
    _fields_ = [
        ("data", c.c_void_p),
        ("device", Device),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class Managed(c.Structure):
    tensor: Tensor
    context: int | None
    deleter: int | None
    _fields_ = [("tensor", Tensor), ("context", c.c_void_p), ("deleter", c.c_void_p)]


class Version(c.Structure):
    major: int
    minor: int
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32)]


class ManagedVersioned(c.Structure):
    version: Version
    context: int | None
    deleter: int | None
    flags: int
    tensor: Tensor
    _fields_ = [
        ("version", Version),
        ("context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", Tensor),
    ]


_capsule_name = c.PYFUNCTYPE(c.c_char_p, c.py_object)(("PyCapsule_GetName", c.pythonapi))
_capsule_pointer = c.PYFUNCTYPE(c.c_void_p, c.py_object, c.c_char_p)(
    ("PyCapsule_GetPointer", c.pythonapi)
)


def is_capsule(obj: object) -> bool:
    return type(obj).__name__ == "PyCapsule" and type(obj).__module__ == "builtins"


def capsule_name(capsule: object) -> str | None:
    """Its name, or None where it has none."""
    name: bytes | None = _capsule_name(capsule)
    return name if name is None else name.decode("ascii", "replace")


def capsule_at(capsule: object, structure: type[Structure]) -> Structure:
    """What a capsule points to. It lives as long as the capsule does."""
    return structure.from_address(_capsule_pointer(capsule, _capsule_name(capsule)))


def notes(obj: Any, array: Array, add: Add) -> None:
    """What is allowed and not every consumer takes. Only reads the tensor; the capsule's destructor releases it."""
    device, _ = ask(lambda: tuple(obj.__dlpack_device__()))
    capsule = _call(obj.__dlpack__, device, add)
    name = capsule_name(capsule) if is_capsule(capsule) else None
    if name == "dltensor":
        tensor, version = capsule_at(capsule, Managed).tensor, None
        array.version = "before 1.0"
        add("dlpack-unversioned", "the tensor is of the older kind, which cannot say that it is read-only")
    elif name == "dltensor_versioned":
        managed = capsule_at(capsule, ManagedVersioned)
        tensor, version = managed.tensor, (managed.version.major, managed.version.minor)
        array.version = "{}.{}".format(*version)
        array.copied = bool(managed.flags & COPIED)
        if array.copied:
            add("dlpack-copied", "the tensor is a copy, made for this call")
    else:
        return
    if device is not None and device != (tensor.device.type, tensor.device.id):
        there = device_name(tensor.device.type, tensor.device.id)
        add("dlpack-device", f"__dlpack_device__ returns {show(device)}, the tensor is on {there}")
    if version and version >= (1, 2) and tensor.ndim and not tensor.strides:
        add("dlpack-strides",
            f"the tensor is of DLPack {array.version} and has no strides: since 1.2 they are demanded")  # fmt: skip
    if tensor.byte_offset:
        add("dlpack-byte-offset",
            f"the tensor has a byte_offset of {tensor.byte_offset}: some consumers ignore it")  # fmt: skip
    if tensor.bits * tensor.lanes % 8:
        add("dlpack-bits",
            f"the tensor has elements of {counted(tensor.bits, 'bit')}: some consumers ignore how they are packed")  # fmt: skip
    if array.elements == 0 and tensor.data:
        add("dlpack-empty-pointer",
            f"the tensor has no elements, and data {tensor.data:#x}: DLPack asks for NULL")  # fmt: skip


def _call(method: Callable[..., Any], device: tuple[Any, ...] | None, add: Add) -> Any:
    """Calls `__dlpack__` as the library does: with `max_version`, and without it if that is refused."""
    # -1: nothing shall be ordered; nothing is going to touch the data.
    stream = -1 if device and device[0] in _WITH_STREAMS else None
    capsule, error = ask(method, stream=stream, max_version=_NEWEST)
    if isinstance(error, TypeError):
        add("dlpack-arguments", "it takes 'stream', and not 'max_version', which DLPack 1.0 added")
    return capsule if error is None else ask(method, stream=stream)[0]
