"""DLPack's structures through ctypes, and Python's capsules."""

import ctypes as c

from . import _abi, _types
from ._report import Array

# Those whose `stream` argument may be -1: nothing shall be ordered.
WITH_STREAMS = (_abi.CAI_DEVICE_CUDA, _abi.CAI_DEVICE_ROCM, _abi.CAI_DEVICE_CUDA_MANAGED)
READONLY, COPIED = 1, 2


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class Tensor(c.Structure):
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
    _fields_ = [("tensor", Tensor), ("context", c.c_void_p), ("deleter", c.c_void_p)]


class Version(c.Structure):
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32)]


class ManagedVersioned(c.Structure):
    _fields_ = [
        ("version", Version),
        ("context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", Tensor),
    ]


class ExchangeHeader(c.Structure):
    _fields_ = [("version", Version), ("previous", c.c_void_p)]


class ExchangeTable(c.Structure):
    _fields_ = [
        ("header", ExchangeHeader),
        ("allocator", c.c_void_p),
        ("managed_from_object", c.c_void_p),
        ("managed_to_object", c.c_void_p),
        ("tensor_from_object", c.c_void_p),
        ("current_work_stream", c.c_void_p),
    ]


# These hold the interpreter's lock, and an exception that they set is raised.
FROM_OBJECT = c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(c.POINTER(ManagedVersioned)))
CURRENT_STREAM = c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p))
DELETER = c.PYFUNCTYPE(None, c.POINTER(ManagedVersioned))

_capsule_name = c.PYFUNCTYPE(c.c_char_p, c.py_object)(("PyCapsule_GetName", c.pythonapi))
_capsule_pointer = c.PYFUNCTYPE(c.c_void_p, c.py_object, c.c_char_p)(
    ("PyCapsule_GetPointer", c.pythonapi)
)


def is_capsule(obj):
    return type(obj).__name__ == "PyCapsule" and type(obj).__module__ == "builtins"


def capsule_name(capsule):
    """Its name, or None where it has none."""
    name = _capsule_name(capsule)
    return name if name is None else name.decode("ascii", "replace")


def capsule_at(capsule, structure):
    """What a capsule points to. It lives as long as the capsule does."""
    return structure.from_address(_capsule_pointer(capsule, _capsule_name(capsule)))


def device_name(kind, number):
    # CPU 0 is the only one, and "cpu:0" is not customary.
    name = _abi.DEVICES.get(kind, f"device type {kind}")
    # A negative number is not known.
    return name if number < 0 or (kind == 1 and number == 0) else f"{name}:{number}"


def read(tensor, add, where):
    """An `Array` with the contents of a tensor. Copies all of it: nothing points into the tensor afterwards."""
    array = Array()
    array.device = device_name(tensor.device.type, tensor.device.id)
    array.handle = tensor.device.type in _abi.HANDLES
    array.typestr, array.type_name, array.itemsize = _types.of_dlpack(
        tensor.code, tensor.bits, tensor.lanes
    )
    if tensor.lanes != 1:
        add(
            "warning",
            "dlpack-lanes",
            f"{where} has {tensor.lanes} lanes: hardly any consumer takes more than 1",
        )
    elif tensor.bits % 8:
        add(
            "note",
            "dlpack-bits",
            f"{where} has elements of {tensor.bits} bits: their packing is not described",
        )
    data = tensor.data or 0
    if array.handle:
        array.pointer, array.byte_offset = data, tensor.byte_offset
    else:
        array.pointer = data + tensor.byte_offset
    if tensor.byte_offset:
        add(
            "note",
            "dlpack-byte-offset",
            f"{where} has a byte_offset of {tensor.byte_offset}: some consumers ignore it",
        )
    if not 0 <= tensor.ndim <= 64 or (tensor.ndim and not tensor.shape):
        add(
            "error",
            "dlpack-shape",
            f"{where} has {tensor.ndim} dimensions, and {'a' if tensor.shape else 'no'} shape",
        )
        return array
    array.shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    if any(extent < 0 for extent in array.shape):
        add(
            "error",
            "shape-negative",
            f"{where} has the shape {array.shape}: extents are at least 0",
        )
        return array
    array.strides_stated = bool(tensor.strides) or not tensor.ndim
    if array.itemsize:
        if tensor.strides:
            array.strides = tuple(
                stride * array.itemsize for stride in tensor.strides[: tensor.ndim]
            )
        else:
            array.strides = c_strides(array.shape, array.itemsize)
    if array.elements == 0 and data:
        add(
            "note",
            "dlpack-empty-pointer",
            f"{where} has no elements, and data {data:#x}: DLPack asks for NULL",
        )
    elif array.elements and not data:
        add("error", "null-pointer", f"{where} has {array.elements} elements, and data NULL")
    return array


def c_strides(shape, itemsize):
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= max(extent, 1)
    return tuple(reversed(strides))
