"""The simulated driver in this process, by the table of functions that cudasim.h describes."""

from __future__ import annotations

import ctypes
import json
import math
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuda_sim import Memory
    from cuda_sim.reports import Race

VERSION = 4
LAUNCH, NAME_STREAM, LABEL, RACES, ACCESSES, SIMULATED = 1, 7, 8, 9, 15, 16
TAKE_JSON, SYNCHRONIZE = 17, 18
NOT_READY = 600

READ, WRITE = 1, 2
MAX_NDIM = 8

_found: _Api | None = None


class Access(ctypes.Structure):
    """As cudasim_access in cudasim.h."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("mode", ctypes.c_uint32),
        ("ndim", ctypes.c_uint32),
        ("count", ctypes.c_int64 * MAX_NDIM),
        ("stride", ctypes.c_int64 * MAX_NDIM),
    ]


def access(memory: Memory, mode: int) -> Access:
    """Returns an access to an array, or to the bytes that a pair of address and size names."""
    if isinstance(memory, tuple):
        address, nbytes = memory
        if nbytes < 0:
            raise ValueError(f"found {nbytes} bytes, expected at least 0")
        return Access(address=address, nbytes=nbytes, mode=mode)
    interface = memory.__cuda_array_interface__
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    size = int(interface["typestr"][2:])
    made = Access(address=interface["data"][0], nbytes=size, mode=mode)
    if strides is None or 0 in shape:
        made.nbytes = size * math.prod(shape)
        return made
    if len(shape) > MAX_NDIM:
        raise ValueError(f"found strides of {len(shape)} dimensions, expected at most {MAX_NDIM}")
    made.ndim = len(shape)
    made.count[: len(shape)] = shape
    made.stride[: len(shape)] = tuple(strides)
    return made


class _Api:
    """The functions that the package uses.

    ctypes releases the interpreter lock during each call: functions of the program that run on a
    thread of the driver may need it.
    """

    def __init__(self, address: int) -> None:
        functions = ctypes.cast(address + 8, ctypes.POINTER(ctypes.c_void_p))
        self._take_json = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)(
            functions[TAKE_JSON]
        )
        self._synchronize = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(functions[SYNCHRONIZE])

        self.races = ctypes.CFUNCTYPE(ctypes.c_size_t)(functions[RACES])
        self.simulated = ctypes.CFUNCTYPE(ctypes.c_int)(functions[SIMULATED])
        pointer, chars, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        listed = (ctypes.POINTER(Access), size)
        launch = ctypes.CFUNCTYPE(ctypes.c_int, pointer, chars, pointer, pointer, size, *listed)
        self._launch = launch(functions[LAUNCH])
        self._accesses = ctypes.CFUNCTYPE(None, pointer, chars, *listed)(functions[ACCESSES])
        text = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        self.label = text(functions[LABEL])
        name = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
        self.name_stream = name(functions[NAME_STREAM])

    def kernel(self, stream: int, name: bytes, accesses: list[Access]) -> None:
        """Enqueues a kernel that has no function, or declares one beside a real driver."""
        count = len(accesses)
        listed = (Access * count)(*accesses)
        if not self.simulated():
            self._accesses(stream, name, listed, count)
            return
        status: int = self._launch(stream, name, None, None, 0, listed, count)
        if status:
            raise RuntimeError(f"cuda_sim.kernel: error {status} of the driver")

    def take(self) -> list[Race]:
        """Returns the races found since the last call, and clears them."""
        size = self._take_json(None, 0)
        while size:
            text = ctypes.create_string_buffer(size)
            needed = self._take_json(text, size)
            # Another thread may have found one more in between.
            if needed <= size:
                found: list[Race] = json.loads(text.value.decode("utf-8", "replace")) if needed else []
                return found
            size = needed
        return []

    def wait(self, seconds: float) -> int:
        """Waits for all work. Returns 0, `NOT_READY` if some is left, or another error."""
        status: int = self._synchronize(int(seconds * 1000))
        return status


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
    """Returns the driver of this process, or None if it has not loaded one.

    Under `cuda-sim run`, which states a schedule, it is loaded: nothing is lost that comes before
    the program's own use.
    """
    global _found
    if _found is None:
        load = 0 if "CUDASIM_SCHEDULE" in os.environ else os.RTLD_NOLOAD
        try:
            library = ctypes.CDLL("libcuda.so.1", mode=load | os.RTLD_LAZY)
        except OSError:
            return None
        address = _get(library)
        _found = _Api(address) if address else None
    return _found
