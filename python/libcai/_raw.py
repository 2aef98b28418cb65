"""`cai_array` as `libcai.ray` and `libcai.dask` hold it: read from an object, and made over memory that came from another
process."""

from __future__ import annotations

import ctypes as c
import threading
from typing import Any, NamedTuple

from . import _abi, _paths, _view


class _Libraries:
    """The library twice: `held` is called with the interpreter's lock, `free` without it, for calls that wait for a
    stream, whose host functions may need the lock."""

    def __init__(self) -> None:
        path = _paths.library()
        self.held = _abi.declare(c.PyDLL(path))
        self.free = _abi.declare(c.CDLL(path), [name for name in _abi.FUNCTIONS if name not in _abi.PYTHON_FUNCTIONS])
        self.owner_release = _abi.DESTROY(("cai_owner_release", self.held))


_libraries: _Libraries | None = None
_lock = threading.Lock()


def lib() -> _Libraries:
    global _libraries
    with _lock:
        if _libraries is None:
            _libraries = _Libraries()
        return _libraries


def check(status: int, error: _abi.cai_error) -> None:
    if status:
        lib().held.cai_python_raise(error)  # raises the exception of the status


def new() -> _abi.cai_array:
    return _abi.cai_array(struct_size=c.sizeof(_abi.cai_array), version=_abi.CAI_INTERFACE_VERSION)


def read(obj: object) -> _abi.cai_array:
    flags = _abi.CAI_IMPORT_ALLOW_MASK | _abi.CAI_IMPORT_ALLOW_HOST
    flags |= _abi.CAI_IMPORT_QUERY_DEVICE | _abi.CAI_IMPORT_IDENTIFY_STREAM
    options = _abi.cai_import_options(
        struct_size=c.sizeof(_abi.cai_import_options), flags=flags, dlpack_stream=_abi.CAI_STREAM_UNKNOWN
    )
    array = new()
    lib().held.cai_array_from_python(obj, options, array, None)  # raises the exception that the library sets
    return array


class Description(NamedTuple):
    """What the bytes of an array mean."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    typestr: bytes
    dtype_code: int
    fields: bytes | None


def description(array: _abi.cai_array, with_strides: bool) -> Description:
    fields, error = None, _abi.cai_error()
    if array.descr:
        text = c.create_string_buffer(_abi.CAI_UNSTABLE_IPC_FIELDS)
        check(lib().held.cai_descr_format(array.descr, text, len(text), None, error), error)
        fields = text.value
    shape = tuple(array.shape[: array.ndim]) if array.ndim else ()
    strides = tuple(array.strides[: array.ndim]) if with_strides and array.strides else None
    return Description(shape, strides, array.typestr, array.dtype_code, fields)


def _numbers(values: tuple[int, ...]) -> c._Pointer[c.c_int64]:
    return c.cast((c.c_int64 * len(values))(*values), c.POINTER(c.c_int64))


def over(memory: _abi.cai_array, described: Description) -> _abi.cai_array:
    """Returns an array over the memory of another, whose reference it takes. ValueError if it does not fit there."""
    held, error = lib().held, _abi.cai_error()
    descr, descr_owner = c.POINTER(_abi.cai_descr)(), c.c_void_p()
    room, needed = _abi.cai_layout(), _abi.cai_layout()
    made, array = new(), new()
    try:
        if described.fields is not None:
            check(held.cai_descr_parse(described.fields, descr, descr_owner, error), error)
        for name in ("data", "flags", "device", "context", "stream", "stream_id", "event"):
            setattr(made, name, getattr(memory, name))
        made.ndim = len(described.shape)
        made.shape = _numbers(described.shape)
        if described.strides is not None:
            if len(described.strides) != made.ndim:
                raise ValueError(f"strides: found {len(described.strides)}, expected {made.ndim}, as in the shape")
            made.strides = _numbers(described.strides)
        made.typestr, made.dtype_code, made.descr = described.typestr, described.dtype_code, descr
        check(held.cai_array_layout(memory, room, error), error)
        check(held.cai_array_layout(made, needed, error), error)
        if needed.lower < 0 or needed.upper > room.nbytes:
            raise ValueError(
                f"found an array from byte {needed.lower} to {needed.upper}, expected one within the {room.nbytes} bytes that arrived"
            )
        # The array's owner has the memory's.
        check(held.cai_array_create(made, memory.owner, lib().owner_release, array, error), error)
        memory.owner = None
    finally:
        held.cai_array_release(memory)
        held.cai_owner_release(descr_owner)
    return array


def to_python(array: _abi.cai_array) -> Any:
    """An object that offers the array through every protocol, and keeps it."""
    made: c.py_object[Any] = c.py_object()
    lib().held.cai_array_to_python(array, None, made, None)  # raises the exception that the library sets
    return _view.taken(made)


def release(array: _abi.cai_array) -> None:
    if _libraries is not None:  # at the end of the interpreter, when a module's names are None
        _libraries.held.cai_array_release(array)
