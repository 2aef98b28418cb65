"""The result of the library itself: `cai_array_from_python`, with one protocol at a time."""

import ctypes as c

from . import _abi, _dlpack, _paths
from ._ask import ask, describe
from ._report import Array, Result


class Library:
    """The library, loaded so that it is called with the interpreter's lock."""

    def __init__(self, path):
        self.path = path
        self._library = c.PyDLL(path)
        if self._library.cai_abi_version() >> 16 != _abi.CAI_ABI_MAJOR:
            raise OSError(f"{path} has another major version of the binary interface")
        names = ("cai_array_from_python", "cai_array_release", "cai_status_name")
        _abi.declare(self._library, names)

    def result(self, obj, via):
        # The stream is "none": nothing will touch the data, so no producer needs to order its work.
        options = _abi.init(
            _abi.cai_import_options,
            flags=_abi.CAI_IMPORT_ALLOW_MASK
            | _abi.CAI_IMPORT_ALLOW_HOST
            | _abi.CAI_IMPORT_NO_EXCEPTION,
            protocols=(via,),
            stream=_abi.CAI_STREAM_NONE,
        )
        array, error = _abi.init(_abi.cai_array), _abi.cai_error()
        status, raised = ask(
            self._library.cai_array_from_python,
            obj,
            c.byref(options),
            c.byref(array),
            c.byref(error),
        )
        if raised is not None:
            # The producer's exception, which the library passes on.
            return Result(self._status(error.code), describe(raised))
        if status:
            return Result(self._status(status), error.message.decode("utf-8", "replace"))
        try:
            return Result("CAI_OK", None, _read(array))
        finally:
            self._library.cai_array_release(c.byref(array))

    def _status(self, number):
        return (self._library.cai_status_name(number) or b"").decode() or str(number)


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
    array.readonly = bool(said.flags & _abi.CAI_ARRAY_READONLY)
    array.device = (
        _dlpack.device_name(said.device.type, said.device.id) if said.device.type else None
    )
    streams = {_abi.CAI_STREAM_NONE: "none", _abi.CAI_STREAM_UNKNOWN: "unknown"}
    array.stream = streams.get(said.stream, said.stream)
    array.version = said.version
    array.mask = _read(said.mask[0]) if said.mask else None
    return array
