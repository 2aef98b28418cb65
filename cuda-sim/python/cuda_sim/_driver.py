"""The simulated driver in this process, by the table of functions that cudasim.h describes."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

VERSION = 4
NAME_STREAM, LABEL, TAKE_JSON, SYNCHRONIZE = 7, 8, 17, 18
NOT_READY = 600

_found: _Api | None = None


class _Api:
    """The functions that the plug-in uses.

    ctypes releases the interpreter lock during each call: functions of the program that run on a
    thread of the driver may need it.
    """

    def __init__(self, address: int) -> None:
        functions = ctypes.cast(address + 8, ctypes.POINTER(ctypes.c_void_p))
        self._take_json = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)(
            functions[TAKE_JSON]
        )
        self._synchronize = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(functions[SYNCHRONIZE])

        text = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        self.label = text(functions[LABEL])
        name = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
        self.name_stream = name(functions[NAME_STREAM])

    def take(self) -> list[dict[str, Any]]:
        """Returns the races found since the last call, and clears them."""
        size = self._take_json(None, 0)
        while size:
            text = ctypes.create_string_buffer(size)
            needed = self._take_json(text, size)
            # Another thread may have found one more in between.
            if needed <= size:
                found: list[dict[str, Any]] = json.loads(text.value.decode("utf-8", "replace")) if needed else []
                return found
            size = needed
        return []

    def synchronize(self, seconds: float) -> bool:
        """Waits for all work. Returns False if some is left."""
        status: int = self._synchronize(int(seconds * 1000))
        return status != NOT_READY


def _get(library: ctypes.CDLL) -> int | None:
    get = getattr(library, "cudasim_get_api", None)
    if get is None:
        return None
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_uint32]
    address: int | None = get(VERSION)
    return address


def present() -> bool:
    """Returns whether libcuda.so.1 is the simulated driver, or the checker, for this process."""
    try:
        return _get(ctypes.CDLL("libcuda.so.1")) is not None
    except OSError:
        return False


def loaded() -> _Api | None:
    """Returns the driver of this process, or None if it has not loaded one."""
    global _found
    if _found is None:
        try:
            library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            return None
        address = _get(library)
        _found = _Api(address) if address else None
    return _found
