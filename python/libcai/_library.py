"""The result of the library itself: `cai_array_from_python`, with one protocol at a time."""

import ctypes as c

from . import _dlpack, _paths
from ._ask import ask, describe
from ._report import Array, Result

# As in cai.h, which tests/python/test_inspect.py compares this with.
ABI_MAJOR = 1
IMPORT_ALLOW_MASK, IMPORT_ALLOW_HOST, IMPORT_NO_EXCEPTION = 128, 256, 1024
STREAM_NONE, STREAM_UNKNOWN = (1 << 64) - 1, (1 << 64) - 2
FLAG_READONLY = 1


class Options(c.Structure):
    _fields_ = [
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


class Error(c.Structure):
    _fields_ = [
        ("code", c.c_int32),
        ("driver_code", c.c_int32),
        ("field", c.c_char * 96),
        ("message", c.c_char * 408),
    ]


class CaiArray(c.Structure):
    pass


CaiArray._fields_ = [
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
    ("descr", c.c_void_p),
    ("mask", c.POINTER(CaiArray)),
    ("stream", c.c_uint64),
    ("stream_id", c.c_uint64),
    ("event", c.c_void_p),
    ("device", _dlpack.Device),
    ("context", c.c_void_p),
    ("byte_offset", c.c_uint64),
]


class Library:
    """The library, loaded so that it is called with the interpreter's lock."""

    def __init__(self, path):
        self.path = path
        self._library = c.PyDLL(path)
        if self._library.cai_abi_version() >> 16 != ABI_MAJOR:
            raise OSError(f"{path} has another major version of the binary interface")
        self._import = self._library.cai_array_from_python
        self._import.argtypes = [
            c.py_object,
            c.POINTER(Options),
            c.POINTER(CaiArray),
            c.POINTER(Error),
        ]
        self._release = self._library.cai_array_release
        self._release.argtypes = [c.POINTER(CaiArray)]
        self._release.restype = None
        self._name = self._library.cai_status_name
        self._name.argtypes = [c.c_int32]
        self._name.restype = c.c_char_p

    def result(self, obj, via):
        # The stream is "none": nothing is going to touch the data, so no producer needs to order anything.
        options = Options(
            struct_size=c.sizeof(Options),
            flags=IMPORT_ALLOW_MASK | IMPORT_ALLOW_HOST | IMPORT_NO_EXCEPTION,
            protocols=(via,),
            stream=STREAM_NONE,
        )
        array, error = CaiArray(struct_size=c.sizeof(CaiArray), version=3), Error()
        status, raised = ask(self._import, obj, c.byref(options), c.byref(array), c.byref(error))
        if raised is not None:
            # The producer's exception, which the library passes on.
            return Result(self._status(error.code), describe(raised))
        if status:
            return Result(self._status(status), error.message.decode("utf-8", "replace"))
        try:
            return Result("CAI_OK", None, _read(array))
        finally:
            self._release(c.byref(array))

    def _status(self, number):
        return (self._name(number) or b"").decode() or str(number)


def find(path=None):
    """The library, or the reason why there is none; neither if `path` is False."""
    if path is False:
        return None, None
    try:
        return Library(path or _paths.library()), None
    except (
        OSError,
        AttributeError,
    ) as error:  # no file, not a library, or one without the function
        return None, str(error)


def _read(said):
    array = Array()
    array.shape = tuple(said.shape[: said.ndim]) if said.ndim else ()
    array.strides_stated = bool(said.strides)
    if said.strides:
        array.strides = tuple(said.strides[: said.ndim])
    array.typestr = said.typestr.decode()
    array.pointer = said.data or 0
    array.byte_offset = said.byte_offset or None
    array.readonly = bool(said.flags & FLAG_READONLY)
    array.device = (
        _dlpack.device_name(said.device.type, said.device.id) if said.device.type else None
    )
    array.stream = {STREAM_NONE: "none", STREAM_UNKNOWN: "unknown"}.get(said.stream, said.stream)
    array.version = said.version
    array.mask = _read(said.mask[0]) if said.mask else None
    return array
