"""The library's answer: `cai_array_from_python`, with one protocol at a time."""

from __future__ import annotations

import ctypes as c
import sys
from typing import Literal

from . import _abi, _paths
from ._ask import ask, describe
from ._report import Array, Result

NATIVE = "<" if sys.byteorder == "little" else ">"
_STREAMS = {_abi.CAI_STREAM_NONE: "none", _abi.CAI_STREAM_UNKNOWN: "unknown"}
_NAMES = {code: name for name, code, *_ in _abi.DTYPES if code}


class Library:
    """The library, loaded so that it is called with the interpreter's lock."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = c.PyDLL(path)
        if self._library.cai_abi_version() >> 16 != _abi.CAI_ABI_MAJOR:
            raise OSError(f"{path} has another major version of the binary interface")
        _abi.declare(self._library, (
            "cai_array_init", "cai_import_options_init", "cai_array_from_python", "cai_array_release", "cai_array_dtype", "cai_array_layout", "cai_array_strides",
            "cai_array_validate", "cai_descr_format", "cai_status_name"))  # fmt: skip

    def result(self, obj: object, via: int, flags: int = 0, check: int = 0) -> Result:
        # The stream is "none": nothing will touch the data, so no producer needs to order its work.
        options = _abi.init(
            self._library,
            _abi.cai_import_options,
            flags=_abi.CAI_IMPORT_ALLOW_MASK | _abi.CAI_IMPORT_ALLOW_HOST | _abi.CAI_IMPORT_NO_EXCEPTION | flags,
            protocols=(via,),
            dlpack_stream=_abi.CAI_STREAM_NONE,
        )  # fmt: skip
        array, error = _abi.init(self._library, _abi.cai_array), _abi.cai_error()
        status, raised = ask(self._library.cai_array_from_python, obj, c.byref(options), c.byref(array), c.byref(error))
        if raised is not None:
            # The producer's exception, which the library passes on.
            return Result(self._status(error.code), describe(raised), raised=raised)
        if status:
            return Result(self._status(status), error.message.decode("utf-8", "replace"))
        try:
            if check and (status := self._library.cai_array_validate(array, check, error)):
                return Result(self._status(status), error.message.decode("utf-8", "replace"))
            return Result("CAI_OK", None, self._read(array))
        finally:
            self._library.cai_array_release(c.byref(array))

    def _status(self, number: int) -> str:
        name: bytes | None = self._library.cai_status_name(number)
        return (name or b"").decode() or str(number)

    def _read(self, said: _abi.cai_array) -> Array:
        array, dtype, layout = Array(), _abi.cai_dtype(), _abi.cai_layout()
        self._library.cai_array_dtype(said, dtype, None)
        self._library.cai_array_layout(said, layout, None)
        array.shape = tuple(said.shape[: said.ndim]) if said.ndim else ()
        array.strides_stated = bool(said.strides)
        if dtype.itemsize:
            strides = (c.c_int64 * _abi.CAI_MAX_NDIM)()
            self._library.cai_array_strides(said, strides, len(strides), None)
            array.strides = tuple(strides[: said.ndim])
        array.typestr = said.typestr.decode()
        array.type_name = _NAMES.get(said.dtype_code)
        array.kind = dtype.kind.decode()
        array.itemsize = dtype.itemsize or None
        array.unit = (dtype.unit, dtype.unit_count)
        array.native = self._library.cai_array_validate(said, _abi.CAI_CHECK_NATIVE, None) == 0
        array.has_fields = bool(said.descr)
        text = c.create_string_buffer(4096)
        if said.descr and self._library.cai_descr_format(said.descr, text, len(text), None, None) == 0:
            array.descr = text.value.decode()
        array.pointer = said.data or 0
        array.handle = said.device.type in _abi.HANDLES or None
        array.byte_offset = said.byte_offset or None
        array.readonly = bool(said.flags & _abi.CAI_ARRAY_READONLY)
        array.device = device_name(said.device.type, said.device.id) if said.device.type else None
        array.stream = _STREAMS.get(said.stream, said.stream)
        array.version = said.version
        array.mask = self._read(said.mask[0]) if said.mask else None
        return array


def find(path: str | Literal[False] | None = None) -> tuple[Library | None, str | None]:
    """The library, or the reason why there is none; neither if `path` is False."""
    if path is False:
        return None, None
    try:
        return Library(path or _paths.library()), None
    except (OSError, AttributeError) as error:  # no file, not a library, or one without the function
        return None, str(error)


def device_name(kind: int, number: int) -> str:
    # CPU 0 is the only one, and "cpu:0" is not customary.
    name = _abi.DEVICES.get(kind, f"device type {kind}")
    # A negative number is not known.
    return name if number < 0 or (kind == _abi.CAI_DEVICE_CPU and number == 0) else f"{name}:{number}"
