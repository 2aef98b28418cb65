"""cai.h for ctypes: what a user of the library from Python writes down, and nothing more."""

import ctypes as c

STREAM_NONE = 2**64 - 1
STREAM_UNKNOWN = 2**64 - 2
FLAG_READONLY = 1
CHECK_LAYOUT = 1
DEVICE_CPU = 1


class Error(c.Structure):
    _fields_ = [
        ("code", c.c_int32),
        ("driver_code", c.c_int32),
        ("field", c.c_char * 96),
        ("message", c.c_char * 408),
    ]


class Dtype(c.Structure):
    _fields_ = [
        ("kind", c.c_char),
        ("byte_order", c.c_char),
        ("code", c.c_uint16),
        ("unit", c.c_int32),
        ("unit_count", c.c_int32),
        ("reserved", c.c_uint16 * 2),
        ("itemsize", c.c_int64),
        ("bits", c.c_int64),
    ]


class Descr(c.Structure):
    pass


class Field(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("title", c.c_char_p),
        ("typestr", c.c_char * 16),
        ("nested", c.POINTER(Descr)),
        ("shape", c.POINTER(c.c_int64)),
        ("ndim", c.c_int32),
        ("dtype_code", c.c_uint16),
        ("reserved", c.c_uint16),
    ]


Descr._fields_ = [
    ("struct_size", c.c_uint32),
    ("field_size", c.c_uint32),
    ("count", c.c_uint64),
    ("fields", c.POINTER(Field)),
]


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class Array(c.Structure):
    pass


Array._fields_ = [
    ("struct_size", c.c_uint32),
    ("flags", c.c_uint32),
    ("owner", c.c_void_p),
    ("data", c.c_void_p),
    ("shape", c.POINTER(c.c_int64)),
    ("strides", c.POINTER(c.c_int64)),
    ("ndim", c.c_int32),
    ("version", c.c_uint16),
    ("dtype_code", c.c_uint16),
    ("typestr", c.c_char * 16),
    ("descr", c.POINTER(Descr)),
    ("mask", c.POINTER(Array)),
    ("stream", c.c_uint64),
    ("stream_id", c.c_uint64),
    ("event", c.c_void_p),
    ("device", Device),
    ("context", c.c_void_p),
    ("byte_offset", c.c_uint64),
]


class Layout(c.Structure):
    _fields_ = [
        ("count", c.c_int64),
        ("nbytes", c.c_int64),
        ("lower", c.c_int64),
        ("upper", c.c_int64),
        ("flags", c.c_uint32),
        ("reserved", c.c_uint32 * 7),
    ]


LAYOUT_C_CONTIGUOUS, LAYOUT_F_CONTIGUOUS = 1, 2

DESTROY = c.CFUNCTYPE(None, c.c_void_p)


def new_array(**fields):
    """What CAI_ARRAY_INIT is in C."""
    array = Array(struct_size=c.sizeof(Array), version=3)
    for name, value in fields.items():
        setattr(array, name, value)
    return array


def declare(library):
    P = c.POINTER
    for name, result, arguments in [
        ("cai_version", c.c_char_p, []),
        ("cai_status_name", c.c_char_p, [c.c_int32]),
        ("cai_dtype_parse", c.c_int32, [c.c_char_p, P(Dtype), P(Error)]),
        ("cai_dtype_format", c.c_int32, [P(Dtype), c.c_char_p, c.c_size_t, P(c.c_size_t), P(Error)]),
        ("cai_dtype_is_native", c.c_bool, [P(Dtype)]),
        ("cai_dtype_equal", c.c_bool, [P(Dtype), P(Dtype)]),
        ("cai_descr_parse", c.c_int32, [c.c_char_p, P(P(Descr)), P(c.c_void_p), P(Error)]),
        ("cai_descr_format", c.c_int32, [P(Descr), c.c_char_p, c.c_size_t, P(c.c_size_t), P(Error)]),
        ("cai_descr_itemsize", c.c_int32, [P(Descr), P(c.c_int64), P(Error)]),
        ("cai_descr_equal", c.c_int32, [P(Descr), P(Descr), P(c.c_bool), P(Error)]),
        ("cai_descr_find", c.c_int32, [P(Descr), c.c_char_p, P(P(Field)), P(c.c_int64), P(Error)]),
        ("cai_array_is_native", c.c_int32, [P(Array), P(c.c_bool), P(Error)]),
        ("cai_array_layout", c.c_int32, [P(Array), P(Layout), P(Error)]),
        ("cai_array_strides", c.c_int32, [P(Array), c.c_int32, P(c.c_int64), P(Error)]),
        ("cai_array_may_overlap", c.c_int32, [P(Array), P(Array), P(c.c_bool), P(Error)]),
        ("cai_array_validate", c.c_int32, [P(Array), c.c_uint32, P(Error)]),
        ("cai_array_retain", c.c_int32, [P(Array), P(Error)]),
        ("cai_array_release", None, [P(Array)]),
        ("cai_array_share", c.c_int32, [P(Array), P(Array), P(Error)]),
        ("cai_array_create", c.c_int32, [P(Array), c.c_void_p, DESTROY, P(Array), P(Error)]),
        ("cai_array_from_dlpack", c.c_int32, [c.c_void_p, c.c_uint64, P(Array), P(Error)]),
        ("cai_array_from_dlpack_unversioned", c.c_int32, [c.c_void_p, c.c_uint64, P(Array), P(Error)]),
        ("cai_array_to_dlpack", c.c_int32, [P(Array), c.c_uint32, P(c.c_void_p), P(Error)]),
        ("cai_array_to_dlpack_unversioned", c.c_int32, [P(Array), c.c_uint32, P(c.c_void_p), P(Error)]),
        ("cai_owner_create", c.c_int32, [c.c_void_p, DESTROY, P(c.c_void_p), P(Error)]),
        ("cai_owner_retain", c.c_int32, [c.c_void_p, P(Error)]),
        ("cai_owner_release", None, [c.c_void_p]),
    ]:
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
