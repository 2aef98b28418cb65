"""The declarations of cai/cai.h for ctypes.

Structures have the names and members of the C headers; a `cai_owner *` is a `c_void_p`. `declare`
sets the types of a loaded library's functions. Those in `PYTHON_FUNCTIONS` need a `ctypes.PyDLL`.

Generated from the sources of libcai: do not edit.
"""

import ctypes as c

# The type of functions that owners call after their last reference was released.
DESTROY = c.CFUNCTYPE(None, c.c_void_p)

CAI_ABI_MAJOR = 1
CAI_ABI_MINOR = 0
CAI_DATA_ABI = 1
CAI_INTERFACE_VERSION = 3
CAI_TYPESTR_SIZE = 16
CAI_MAX_NDIM = 64
CAI_MAX_MASKS = 8
CAI_MAX_FIELDS = 65536
CAI_MAX_DESCR_DEPTH = 16
CAI_ARRAY_READONLY = 1
CAI_DEVICE_UNKNOWN = 0
CAI_DEVICE_CPU = 1
CAI_DEVICE_CUDA = 2
CAI_DEVICE_CUDA_HOST = 3
CAI_DEVICE_OPENCL = 4
CAI_DEVICE_VULKAN = 7
CAI_DEVICE_METAL = 8
CAI_DEVICE_VPI = 9
CAI_DEVICE_ROCM = 10
CAI_DEVICE_ROCM_HOST = 11
CAI_DEVICE_EXT_DEV = 12
CAI_DEVICE_CUDA_MANAGED = 13
CAI_DEVICE_ONEAPI = 14
CAI_DEVICE_WEBGPU = 15
CAI_DEVICE_HEXAGON = 16
CAI_DEVICE_MAIA = 17
CAI_DEVICE_TRN = 18
CAI_DTYPE_NONE = 0
CAI_DTYPE_BFLOAT16 = 4
CAI_DTYPE_FLOAT8_E3M4 = 7
CAI_DTYPE_FLOAT8_E4M3 = 8
CAI_DTYPE_FLOAT8_E4M3B11FNUZ = 9
CAI_DTYPE_FLOAT8_E4M3FN = 10
CAI_DTYPE_FLOAT8_E4M3FNUZ = 11
CAI_DTYPE_FLOAT8_E5M2 = 12
CAI_DTYPE_FLOAT8_E5M2FNUZ = 13
CAI_DTYPE_FLOAT8_E8M0FNU = 14
CAI_DTYPE_FLOAT6_E2M3FN = 15
CAI_DTYPE_FLOAT6_E3M2FN = 16
CAI_DTYPE_FLOAT4_E2M1FN = 17
CAI_DTYPE_INT4 = 256
CAI_DTYPE_UINT4 = 257
CAI_DTYPE_INT2 = 258
CAI_DTYPE_UINT2 = 259
CAI_DTYPE_FLOAT4_E2M1FN_X2 = 260
CAI_DTYPE_INT1 = 261
CAI_DTYPE_UINT1 = 262
CAI_ERROR_FIELD_SIZE = 96
CAI_ERROR_MESSAGE_SIZE = 408
CAI_CHECK_LAYOUT = 1
CAI_CHECK_ALIGNMENT = 2
CAI_CHECK_DEVICE = 4
CAI_CHECK_STREAM = 8
CAI_LAYOUT_C_CONTIGUOUS = 1
CAI_LAYOUT_F_CONTIGUOUS = 2
CAI_UNIT_GENERIC = 0
CAI_UNIT_YEAR = 1
CAI_UNIT_MONTH = 2
CAI_UNIT_WEEK = 3
CAI_UNIT_DAY = 4
CAI_UNIT_HOUR = 5
CAI_UNIT_MINUTE = 6
CAI_UNIT_SECOND = 7
CAI_UNIT_MILLISECOND = 8
CAI_UNIT_MICROSECOND = 9
CAI_UNIT_NANOSECOND = 10
CAI_UNIT_PICOSECOND = 11
CAI_UNIT_FEMTOSECOND = 12
CAI_UNIT_ATTOSECOND = 13
CAI_ACCESS_READ = 1
CAI_ACCESS_WRITE = 2
CAI_SYNC_IGNORE = 16
CAI_SYNC_EXPORT_NONE = 32
CAI_SYNC_CONSERVATIVE = 64
CAI_SYNC_THIS_CALL = 128
CAI_CAPTURE_JOIN = 256
CAI_CAPTURE_EXTERNAL = 512
CAI_DRIVER_PATH_SIZE = 448
CAI_DLPACK_HIDE_READONLY = 4
CAI_IPC_SIZE = 16384
CAI_IPC_FIELDS = 4096
CAI_PROTOCOL_EXCHANGE = 1
CAI_PROTOCOL_DLPACK_EXCHANGE = 2
CAI_PROTOCOL_CUDA_ARRAY_INTERFACE = 3
CAI_PROTOCOL_DLPACK = 4
CAI_PROTOCOL_SYCL_USM = 5
CAI_PROTOCOL_BUFFER = 6
CAI_PROTOCOL_ARRAY_STRUCT = 7
CAI_PROTOCOL_ARRAY_INTERFACE = 8
CAI_IMPORT_STRICT = 1
CAI_IMPORT_ALLOW_STREAM_ZERO = 2
CAI_IMPORT_REQUIRE_WRITABLE = 4
CAI_IMPORT_REQUIRE_C_CONTIGUOUS = 8
CAI_IMPORT_REQUIRE_F_CONTIGUOUS = 16
CAI_IMPORT_REQUIRE_NATIVE = 32
CAI_IMPORT_REQUIRE_NDIM = 64
CAI_IMPORT_ALLOW_MASK = 128
CAI_IMPORT_ALLOW_HOST = 256
CAI_IMPORT_QUERY_DEVICE = 512
CAI_IMPORT_NO_EXCEPTION = 1024
CAI_IMPORT_REFUSE_OBJECTS = 2048
CAI_IMPORT_ALLOW_GRAD = 4096
CAI_IMPORT_BUFFER_OPENCL = 8192
CAI_IMPORT_BUFFER_CUDA = 16384
CAI_IMPORT_IDENTIFY_STREAM = 32768
CAI_EXPORT_VERSION_2 = 1
CAI_EXPORT_STRIDES = 2
CAI_EXPORT_HIDE_READONLY = 4
CAI_STREAM_LEGACY = 1
CAI_STREAM_PER_THREAD = 2
CAI_STREAM_NONE = 18446744073709551615
CAI_STREAM_UNKNOWN = 18446744073709551614
CAI_STATUS_THIRD_PARTY = 65536
CAI_OK = 0
CAI_ERR_NULL_ARGUMENT = 101
CAI_ERR_ARGUMENT = 102
CAI_ERR_BUFFER_SIZE = 103
CAI_ERR_NEWER_CALLER = 104
CAI_ERR_UNSUPPORTED = 105
CAI_ERR_STRUCT_SIZE = 201
CAI_ERR_FLAGS = 202
CAI_ERR_VERSION = 203
CAI_ERR_NDIM = 204
CAI_ERR_SHAPE_NULL = 205
CAI_ERR_SHAPE_NEGATIVE = 206
CAI_ERR_SIZE_OVERFLOW = 207
CAI_ERR_SPAN_OVERFLOW = 208
CAI_ERR_ADDRESS_RANGE = 209
CAI_ERR_DATA_NULL = 210
CAI_ERR_DATA_NOT_NULL = 211
CAI_ERR_BIT_STRIDES = 212
CAI_ERR_ITEMSIZE = 213
CAI_ERR_ALIGNMENT = 214
CAI_ERR_BORROWED = 215
CAI_ERR_OWNER_OPS = 216
CAI_ERR_STREAM_ZERO = 220
CAI_ERR_STREAM_VERSION = 221
CAI_ERR_STREAM_ID = 222
CAI_ERR_EVENT = 223
CAI_ERR_DEVICE_TYPE = 224
CAI_ERR_DEVICE_ID = 225
CAI_ERR_BYTE_OFFSET = 226
CAI_ERR_READONLY = 227
CAI_ERR_MASK_VERSION = 230
CAI_ERR_MASK_TYPE = 231
CAI_ERR_MASK_SHAPE = 232
CAI_ERR_MASK_CYCLE = 233
CAI_ERR_MASK_DEPTH = 234
CAI_ERR_MASK_DEVICE = 235
CAI_ERR_TYPESTR_LENGTH = 240
CAI_ERR_TYPESTR_ORDER = 241
CAI_ERR_TYPESTR_KIND = 242
CAI_ERR_TYPESTR_SIZE = 243
CAI_ERR_TYPESTR_UNIT = 244
CAI_ERR_DTYPE_CODE = 245
CAI_ERR_DESCR_STRUCT = 250
CAI_ERR_DESCR_NAME = 251
CAI_ERR_DESCR_FIELD = 252
CAI_ERR_DESCR_SHAPE = 253
CAI_ERR_DESCR_SIZE = 254
CAI_ERR_DESCR_DEPTH = 255
CAI_ERR_DESCR_COUNT = 256
CAI_ERR_DESCR_SYNTAX = 257
CAI_ERR_DESCR_NO_FIELD = 258
CAI_ERR_DESCR_BIT_OFFSET = 259
CAI_ERR_NO_DRIVER = 301
CAI_ERR_DRIVER_FUNCTION = 302
CAI_ERR_FORKED = 303
CAI_ERR_DRIVER_EXIT = 304
CAI_ERR_DRIVER = 305
CAI_ERR_DEVICE_LOST = 306
CAI_ERR_NO_CONTEXT = 307
CAI_ERR_CONTEXT_DESTROYED = 308
CAI_ERR_STREAM_HANDLE = 310
CAI_ERR_STREAM_STALE = 311
CAI_ERR_STREAM_THREAD = 312
CAI_ERR_STREAM_DETACHED = 313
CAI_ERR_STREAM_DEVICE = 314
CAI_ERR_STREAM_CONTEXT = 315
CAI_ERR_NOT_DEVICE_POINTER = 320
CAI_ERR_DEVICE_MISMATCH = 321
CAI_ERR_OUT_OF_ALLOCATION = 322
CAI_ERR_NOT_ACCESSIBLE = 323
CAI_ERR_CAPTURE_PRODUCER = 401
CAI_ERR_CAPTURE_CONSUMER = 402
CAI_ERR_CAPTURE_MERGE = 403
CAI_ERR_CAPTURE_INVALIDATED = 404
CAI_ERR_CAPTURE_LEGACY = 405
CAI_ERR_CAPTURE_HOST = 406
CAI_ERR_CAPTURE_STREAMS = 407
CAI_ERR_CAPTURE = 408
CAI_ERR_NO_PYTHON = 501
CAI_ERR_PYTHON_VERSION = 502
CAI_ERR_PYTHON_LOCK = 503
CAI_ERR_PYTHON_EXCEPTION = 504
CAI_ERR_NO_PROTOCOL = 505
CAI_ERR_KEY = 506
CAI_ERR_TYPE = 507
CAI_ERR_VALUE = 508
CAI_ERR_EXCHANGE_TABLE = 509
CAI_ERR_NO_MEMORY = 601
CAI_ERR_THREAD = 602
CAI_ERR_ENVIRONMENT = 603
CAI_ERR_HOST_MEMORY = 701
CAI_ERR_CONVERT_MASK = 702
CAI_ERR_CONVERT_TYPE = 703
CAI_ERR_CONVERT_BYTE_ORDER = 704
CAI_ERR_CONVERT_STRIDES = 705
CAI_ERR_CONVERT_CONTIGUOUS = 706
CAI_ERR_CONVERT_NDIM = 707
CAI_ERR_CONVERT_READONLY = 708
CAI_ERR_CONVERT_DEVICE = 709
CAI_ERR_CONVERT_GRAD = 711
CAI_ERR_DLPACK_VERSION = 710
CAI_ERR_ARROW = 712
CAI_ERR_CONVERT_BIT_OFFSET = 713
CAI_ERR_IPC_MEMORY = 720
CAI_ERR_IPC_BYTES = 721
CAI_ERR_IPC_VERSION = 722
CAI_ERR_IPC_DEVICE = 723
CAI_ERR_INTERNAL = 901


class cai_device(c.Structure):
    pass


class cai_owner(c.Structure):
    pass


class cai_owner_ops(c.Structure):
    pass


class cai_field(c.Structure):
    pass


class cai_descr(c.Structure):
    pass


class cai_array(c.Structure):
    pass


class cai_error(c.Structure):
    pass


class cai_dtype(c.Structure):
    pass


class cai_layout(c.Structure):
    pass


class cai_driver_info(c.Structure):
    pass


class cai_pointer_info(c.Structure):
    pass


class cai_import_options(c.Structure):
    pass


class cai_export_options(c.Structure):
    pass


class cai_exchange_api(c.Structure):
    pass


cai_device._fields_ = [
    ("type", c.c_int32),
    ("id", c.c_int32),
]


cai_owner._fields_ = [
    ("ops", c.c_void_p),
]


cai_owner_ops._fields_ = [
    ("struct_size", c.c_uint32),
    ("reserved", c.c_uint32),
    ("retain", c.CFUNCTYPE(None, c.c_void_p)),
    ("release", c.CFUNCTYPE(None, c.c_void_p)),
]


cai_field._fields_ = [
    ("name", c.c_char_p),
    ("title", c.c_char_p),
    ("typestr", c.c_char * 16),
    ("nested", c.POINTER(cai_descr)),
    ("shape", c.POINTER(c.c_int64)),
    ("ndim", c.c_int32),
    ("dtype_code", c.c_uint16),
    ("reserved", c.c_uint16),
]


cai_descr._fields_ = [
    ("struct_size", c.c_uint32),
    ("field_size", c.c_uint32),
    ("count", c.c_uint64),
    ("fields", c.POINTER(cai_field)),
]


cai_array._fields_ = [
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
    ("descr", c.POINTER(cai_descr)),
    ("mask", c.POINTER(cai_array)),
    ("stream", c.c_uint64),
    ("stream_id", c.c_uint64),
    ("event", c.c_void_p),
    ("device", cai_device),
    ("context", c.c_void_p),
    ("byte_offset", c.c_uint64),
]


cai_error._fields_ = [
    ("code", c.c_int32),
    ("driver_code", c.c_int32),
    ("field", c.c_char * 96),
    ("message", c.c_char * 408),
]


cai_dtype._fields_ = [
    ("kind", c.c_char),
    ("byte_order", c.c_char),
    ("code", c.c_uint16),
    ("unit", c.c_int32),
    ("unit_count", c.c_int32),
    ("reserved", c.c_uint16 * 2),
    ("itemsize", c.c_int64),
    ("bits", c.c_int64),
]


cai_layout._fields_ = [
    ("count", c.c_int64),
    ("nbytes", c.c_int64),
    ("lower", c.c_int64),
    ("upper", c.c_int64),
    ("flags", c.c_uint32),
    ("reserved", c.c_uint32 * 7),
]


cai_driver_info._fields_ = [
    ("version", c.c_int32),
    ("devices", c.c_int32),
    ("reserved", c.c_uint64 * 7),
    ("path", c.c_char * 448),
]


cai_pointer_info._fields_ = [
    ("device", cai_device),
    ("context", c.c_void_p),
    ("device_pointer", c.c_void_p),
    ("host_pointer", c.c_void_p),
    ("base", c.c_void_p),
    ("size", c.c_uint64),
    ("buffer_id", c.c_uint64),
    ("pool", c.c_void_p),
    ("host_accessible", c.c_bool),
    ("managed", c.c_bool),
    ("mapped", c.c_bool),
    ("reserved", c.c_uint8 * 61),
]


cai_import_options._fields_ = [
    ("struct_size", c.c_uint32),
    ("flags", c.c_uint32),
    ("protocols", c.c_uint8 * 8),
    ("stream", c.c_uint64),
    ("ndim", c.c_int32),
    ("dtype_code", c.c_uint16),
    ("opaque_8bit", c.c_uint16),
    ("opaque_16bit", c.c_uint16),
    ("reserved", c.c_uint16 * 3),
    ("typestr", c.c_char * 16),
]


cai_export_options._fields_ = [
    ("struct_size", c.c_uint32),
    ("flags", c.c_uint32),
]


cai_exchange_api._fields_ = [
    ("struct_size", c.c_uint32),
    ("data_abi", c.c_uint32),
    ("from_object", c.CFUNCTYPE(
        c.c_int32,
        c.c_void_p,
        c.POINTER(cai_array),
        c.POINTER(cai_error),
    )),
    ("to_object", c.CFUNCTYPE(
        c.c_int32,
        c.POINTER(cai_array),
        c.POINTER(c.c_void_p),
        c.POINTER(cai_error),
    )),
]

# Name, result and parameters of every function.
FUNCTIONS = {
    "cai_abi_version": (c.c_uint32, []),
    "cai_version": (c.c_char_p, []),
    "cai_status_name": (c.c_char_p, [c.c_int32]),
    "cai_status_message": (c.c_char_p, [c.c_int32]),
    "cai_error_set": (c.c_int32, [c.POINTER(cai_error), c.c_int32, c.c_char_p, c.c_char_p]),
    "cai_dtype_parse": (c.c_int32, [c.c_char_p, c.POINTER(cai_dtype), c.POINTER(cai_error)]),
    "cai_dtype_format": (
        c.c_int32,
        [
            c.POINTER(cai_dtype),
            c.c_char_p,
            c.c_size_t,
            c.POINTER(c.c_size_t),
            c.POINTER(cai_error),
        ],
    ),
    "cai_dtype_equal": (c.c_bool, [c.POINTER(cai_dtype), c.POINTER(cai_dtype)]),
    "cai_dtype_is_native": (c.c_bool, [c.POINTER(cai_dtype)]),
    "cai_array_dtype": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(cai_dtype),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_is_native": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(c.c_bool),
            c.POINTER(cai_error),
        ],
    ),
    "cai_descr_itemsize": (
        c.c_int32,
        [
            c.POINTER(cai_descr),
            c.POINTER(c.c_int64),
            c.POINTER(cai_error),
        ],
    ),
    "cai_descr_equal": (
        c.c_int32,
        [
            c.POINTER(cai_descr),
            c.POINTER(cai_descr),
            c.POINTER(c.c_bool),
            c.POINTER(cai_error),
        ],
    ),
    "cai_descr_find": (
        c.c_int32,
        [
            c.POINTER(cai_descr),
            c.c_char_p,
            c.POINTER(c.POINTER(cai_field)),
            c.POINTER(c.c_int64),
            c.POINTER(cai_error),
        ],
    ),
    "cai_field_dtype": (
        c.c_int32,
        [
            c.POINTER(cai_field),
            c.POINTER(cai_dtype),
            c.POINTER(cai_error),
        ],
    ),
    "cai_field_nbytes": (
        c.c_int32,
        [
            c.POINTER(cai_field),
            c.POINTER(c.c_int64),
            c.POINTER(cai_error),
        ],
    ),
    "cai_descr_parse": (
        c.c_int32,
        [
            c.c_char_p,
            c.POINTER(c.POINTER(cai_descr)),
            c.POINTER(c.c_void_p),
            c.POINTER(cai_error),
        ],
    ),
    "cai_descr_format": (
        c.c_int32,
        [
            c.POINTER(cai_descr),
            c.c_char_p,
            c.c_size_t,
            c.POINTER(c.c_size_t),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_layout": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(cai_layout),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_strides": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_int32,
            c.POINTER(c.c_int64),
            c.POINTER(cai_error),
        ],
    ),
    "cai_layout_strides": (
        c.c_int32,
        [
            c.c_char,
            c.c_int32,
            c.POINTER(c.c_int64),
            c.c_int64,
            c.POINTER(c.c_int64),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_may_overlap": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(cai_array),
            c.POINTER(c.c_bool),
            c.POINTER(cai_error),
        ],
    ),
    "cai_owner_create": (
        c.c_int32,
        [
            c.c_void_p,
            DESTROY,
            c.POINTER(c.c_void_p),
            c.POINTER(cai_error),
        ],
    ),
    "cai_owner_retain": (c.c_int32, [c.c_void_p, c.POINTER(cai_error)]),
    "cai_owner_release": (None, [c.c_void_p]),
    "cai_array_retain": (c.c_int32, [c.POINTER(cai_array), c.POINTER(cai_error)]),
    "cai_array_release": (None, [c.POINTER(cai_array)]),
    "cai_array_share": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_create": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_void_p,
            DESTROY,
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_attach": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_void_p,
            DESTROY,
            c.POINTER(cai_error),
        ],
    ),
    "cai_driver_info_get": (c.c_int32, [c.POINTER(cai_driver_info), c.POINTER(cai_error)]),
    "cai_pointer_info_get": (
        c.c_int32,
        [
            c.c_void_p,
            c.POINTER(cai_pointer_info),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_validate": (c.c_int32, [c.POINTER(cai_array), c.c_uint32, c.POINTER(cai_error)]),
    "cai_array_consume_begin": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint64,
            c.c_uint32,
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_consume_end": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint64,
            c.c_uint32,
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_synchronize": (c.c_int32, [c.POINTER(cai_array), c.c_uint32, c.POINTER(cai_error)]),
    "cai_array_produce": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(c.c_uint64),
            c.c_size_t,
            c.c_uint64,
            c.c_uint32,
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_identify": (c.c_int32, [c.POINTER(cai_array), c.POINTER(cai_error)]),
    "cai_owner_release_after": (c.c_int32, [c.c_void_p, c.c_uint64, c.POINTER(cai_error)]),
    "cai_array_release_after": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint64,
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_release_in_order": (None, [c.POINTER(cai_array)]),
    "cai_sync_policy_set": (c.c_int32, [c.c_uint32, c.POINTER(cai_error)]),
    "cai_sync_policy_get": (c.c_int32, [c.POINTER(c.c_uint32), c.POINTER(cai_error)]),
    "cai_array_copy_to_host": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint64,
            c.c_uint32,
            c.c_void_p,
            c.c_size_t,
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_copy_from_host": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint64,
            c.c_uint32,
            c.c_void_p,
            c.c_size_t,
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_from_dlpack": (
        c.c_int32,
        [
            c.c_void_p,
            c.c_uint64,
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_from_dlpack_unversioned": (
        c.c_int32,
        [
            c.c_void_p,
            c.c_uint64,
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_to_dlpack": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint32,
            c.POINTER(c.c_void_p),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_to_dlpack_unversioned": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint32,
            c.POINTER(c.c_void_p),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_from_arrow": (
        c.c_int32,
        [
            c.c_void_p,
            c.c_void_p,
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_to_arrow": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint32,
            c.c_void_p,
            c.c_void_p,
            c.POINTER(cai_error),
        ],
    ),
    "cai_ipc_export": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_uint32,
            c.c_void_p,
            c.c_size_t,
            c.POINTER(c.c_size_t),
            c.POINTER(c.c_int32),
            c.POINTER(c.c_void_p),
            c.POINTER(cai_error),
        ],
    ),
    "cai_ipc_import": (
        c.c_int32,
        [
            c.c_void_p,
            c.c_size_t,
            c.c_int32,
            c.c_uint32,
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_to_json": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.c_char_p,
            c.c_size_t,
            c.POINTER(c.c_size_t),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_from_python": (
        c.c_int32,
        [
            c.py_object,
            c.POINTER(cai_import_options),
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_from_python_dict": (
        c.c_int32,
        [
            c.py_object,
            c.py_object,
            c.POINTER(cai_import_options),
            c.POINTER(cai_array),
            c.POINTER(cai_error),
        ],
    ),
    "cai_array_to_python": (
        c.c_int32,
        [
            c.POINTER(cai_array),
            c.POINTER(cai_export_options),
            c.POINTER(c.py_object),
            c.POINTER(cai_error),
        ],
    ),
    "cai_stream_from_python": (
        c.c_int32,
        [
            c.py_object,
            c.c_uint64,
            c.c_uint32,
            c.POINTER(c.c_uint64),
            c.POINTER(c.c_int32),
            c.POINTER(cai_error),
        ],
    ),
    "cai_python_view": (c.c_int32, [c.POINTER(c.py_object), c.POINTER(cai_error)]),
    "cai_python_raise": (c.py_object, [c.POINTER(cai_error)]),
    "cai_python_publish": (
        c.c_int32,
        [
            c.py_object,
            c.POINTER(cai_exchange_api),
            c.POINTER(cai_error),
        ],
    ),
}

PYTHON_FUNCTIONS = (
    "cai_array_from_python",
    "cai_array_from_python_dict",
    "cai_array_to_python",
    "cai_stream_from_python",
    "cai_python_view",
    "cai_python_raise",
    "cai_python_publish",
)


def init(cls, **members):
    """An array or options as the `_INIT` macros of C make them."""
    value = cls(struct_size=c.sizeof(cls))
    if cls is cai_array:
        value.version = CAI_INTERFACE_VERSION
    if cls is cai_import_options:
        value.stream = CAI_STREAM_UNKNOWN
    for name, member in members.items():
        setattr(value, name, member)
    return value


def declare(library, names=tuple(FUNCTIONS)):
    """Sets the types of functions of a library that `ctypes` has loaded. Returns the library."""
    for name in names:
        function = getattr(library, name)
        function.restype, function.argtypes = FUNCTIONS[name]
    return library
