"""DLPack's structures, NumPy's, and the exchange tables for ctypes. Functions are addresses: the prototypes below call them."""

import ctypes as c

import cai_ctypes as T

DELETER = c.CFUNCTYPE(None, c.c_void_p)


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
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


class Versioned(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", Tensor),
    ]

    def delete(self):
        DELETER(self.deleter)(c.addressof(self))


class ArrayInterface(c.Structure):
    """PyArrayInterface"""

    _fields_ = [
        ("two", c.c_int), ("nd", c.c_int), ("typekind", c.c_char), ("itemsize", c.c_int), ("flags", c.c_int),
        ("shape", c.POINTER(c.c_ssize_t)), ("strides", c.POINTER(c.c_ssize_t)), ("data", c.c_void_p), ("descr", c.c_void_p),
    ]  # fmt: skip


class DlpackTable(c.Structure):
    """DLPackExchangeAPI"""

    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("previous", c.c_void_p),
        ("allocator", c.c_void_p),
        ("from_object", c.c_void_p),
        ("to_object", c.c_void_p),
        ("view", c.c_void_p),
        ("stream", c.c_void_p),
    ]


DLPACK_FROM_OBJECT = c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(c.POINTER(Versioned)))
DLPACK_TO_OBJECT = c.PYFUNCTYPE(c.c_int, c.POINTER(Versioned), c.POINTER(c.c_void_p))
DLPACK_VIEW = c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(Tensor))
DLPACK_STREAM = c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p))


class CaiTable(c.Structure):
    """cai_unstable_exchange_api"""

    _fields_ = [
        ("struct_size", c.c_uint32),
        ("data_abi", c.c_uint32),
        ("from_object", c.c_void_p),
        ("to_object", c.c_void_p),
    ]


CAI_FROM_OBJECT = c.PYFUNCTYPE(c.c_int32, c.py_object, c.POINTER(T.Array), c.POINTER(T.Error))
CAI_TO_OBJECT = c.PYFUNCTYPE(c.c_int32, c.POINTER(T.Array), c.POINTER(c.c_void_p), c.POINTER(T.Error))


new_capsule = c.PYFUNCTYPE(c.py_object, c.c_void_p, c.c_char_p, c.c_void_p)(("PyCapsule_New", c.pythonapi))
capsule_name = c.PYFUNCTYPE(c.c_char_p, c.py_object)(("PyCapsule_GetName", c.pythonapi))
pointer_in = c.PYFUNCTYPE(c.c_void_p, c.py_object, c.c_char_p)(("PyCapsule_GetPointer", c.pythonapi))
rename_capsule = c.PYFUNCTYPE(c.c_int, c.py_object, c.c_char_p)(("PyCapsule_SetName", c.pythonapi))


def address_of(function):
    return c.cast(function, c.c_void_p).value
