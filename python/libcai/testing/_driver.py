"""The driver of this process, and the race checker behind it: the one place that knows cuda-sim.

Nothing here needs a GPU library. Without a checker, accesses are not declared and no race is found.
"""

from __future__ import annotations

import ctypes as c
import functools
import json
from collections.abc import Sequence
from typing import Any

READ, WRITE = 1, 2
# Members of cudasim_api, behind two numbers of 4 bytes.
_NAME_STREAM, _LABEL, _ACCESSES, _SIMULATED, _TAKE_JSON, _VERSION = 7, 8, 15, 16, 17, 4
_DEVICE_ORDINAL = 9  # CUpointer_attribute
_NON_BLOCKING, _DISABLE_TIMING, _THREAD_LOCAL = 1, 2, 1


class _Access(c.Structure):
    """As cudasim_access in cudasim.h."""

    _fields_ = [
        ("address", c.c_uint64), ("nbytes", c.c_uint64), ("mode", c.c_uint32), ("ndim", c.c_uint32),
        ("count", c.c_int64 * 8), ("stride", c.c_int64 * 8),
    ]  # fmt: skip


class DriverError(Exception):
    """A call of the driver failed."""


class Driver:
    """Device 0 is current after `done`. Streams are not destroyed: an array may still name them."""

    def __init__(self, cuda: c.CDLL) -> None:
        self._cuda = cuda
        self._api: Any = None
        get = getattr(cuda, "cudasim_get_api", None)
        if get is not None:
            get.restype, get.argtypes = c.c_void_p, [c.c_uint32]
            address = get(_VERSION)
            self._api = c.cast(address + 8, c.POINTER(c.c_void_p)) if address else None
        self.checker = "" if self._api is None else "cuda-sim"
        self.simulated = self._api is not None and bool(self._member(_SIMULATED, c.c_int)())
        count = c.c_int()
        self._call("cuDeviceGetCount", c.byref(count))
        self._contexts = [c.c_void_p() for _ in range(count.value)]
        for number, context in enumerate(self._contexts):
            self._call("cuDevicePrimaryCtxRetain", c.byref(context), number)
        self.devices = count.value
        self._streams: dict[str, int] = {}
        self._labels = 0
        self._kept: list[bytes] = []

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise DriverError(f"{name} returned {status}")

    def _member(self, number: int, result: Any, *arguments: Any) -> Any:
        return c.CFUNCTYPE(result, *arguments)(self._api[number])

    def current(self, device: int) -> None:
        self._call("cuCtxSetCurrent", self._contexts[device])

    def current_device(self) -> int | None:
        device = c.c_int()
        return None if self._cuda.cuCtxGetDevice(c.byref(device)) else device.value

    def device_of(self, pointer: int) -> int | None:
        """The device of an address, None where the driver does not know it."""
        device = c.c_int()
        failed = self._cuda.cuPointerGetAttribute(c.byref(device), _DEVICE_ORDINAL, c.c_uint64(pointer))
        return None if failed else device.value

    def allocate(self, nbytes: int) -> int:
        """Memory of device 0 that is never freed."""
        pointer = c.c_uint64()
        self._call("cuMemAlloc_v2", c.byref(pointer), c.c_size_t(nbytes))
        return pointer.value

    def stream(self, name: str) -> int:
        """A stream that waits for no default stream: one for each name."""
        if name not in self._streams:
            handle = c.c_void_p()
            self._call("cuStreamCreate", c.byref(handle), _NON_BLOCKING)
            self._streams[name] = handle.value or 0
            if self._api is not None:
                self._member(_NAME_STREAM, None, c.c_void_p, c.c_char_p)(handle, name.encode())
        return self._streams[name]

    def stream_id(self, handle: int) -> int | None:
        """What tells a stream from a later one with its handle. Only the simulator takes those of destroyed streams."""
        number = c.c_uint64()
        failed = not self.simulated or self._cuda.cuStreamGetId(c.c_void_p(handle), c.byref(number))
        return None if failed else number.value

    def wait(self, waiter: int, on: int) -> None:
        """Makes a stream wait for what is on another one now."""
        event = c.c_void_p()
        self._call("cuEventCreate", c.byref(event), _DISABLE_TIMING)
        self._call("cuEventRecord", event, c.c_void_p(on))
        self._call("cuStreamWaitEvent", c.c_void_p(waiter), event, 0)
        self._call("cuEventDestroy_v2", event)

    def begin_capture(self, stream: int) -> None:
        self._call("cuStreamBeginCapture_v2", c.c_void_p(stream), _THREAD_LOCAL)

    def end_capture(self, stream: int) -> bool:
        """Returns whether the capture was intact."""
        graph = c.c_void_p()
        failed = self._cuda.cuStreamEndCapture(c.c_void_p(stream), c.byref(graph))
        if not failed and graph:
            self._cuda.cuGraphDestroy(graph)
        return not failed

    def host_wait(self, stream: int) -> None:
        self._call("cuStreamSynchronize", c.c_void_p(stream))

    def done(self, label: str = "") -> None:
        """Waits for all work, and begins a new attempt."""
        for device in reversed(range(self.devices)):
            self.current(device)
            self._call("cuCtxSynchronize")
        if label and self._api is not None:
            # One race is reported for each label and place in the code.
            self._labels += 1
            self._kept.append(f"{label} #{self._labels}".encode())
            self._member(_LABEL, None, c.c_char_p)(self._kept[-1])

    def touch(
        self, stream: int, mode: int, pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int
    ) -> None:
        """Declares a kernel that reads or writes an array, to the checker."""
        if self._api is None or 0 in shape or not pointer:
            return
        access = _Access(address=pointer, nbytes=itemsize, mode=mode, ndim=len(shape))
        access.count[: len(shape)], access.stride[: len(shape)] = tuple(shape), tuple(strides)
        text = f"{'read' if mode == READ else 'write'} #{self._labels}".encode()
        self._kept.append(text)
        declare = self._member(_ACCESSES, None, c.c_void_p, c.c_char_p, c.c_void_p, c.c_size_t)
        declare(stream, text, c.addressof(access), 1)

    def races(self) -> list[str]:
        """The races since the last call, in a line each."""
        if self._api is None:
            return []
        take = self._member(_TAKE_JSON, c.c_size_t, c.c_char_p, c.c_size_t)
        size = take(None, 0)
        while size:
            text = c.create_string_buffer(size)
            needed = take(text, size)
            # Another thread may have found one more in between.
            if needed <= size:
                found: list[dict[str, Any]] = json.loads(text.value.decode("utf-8", "replace")) if needed else []
                return [_line(race) for race in found if not race.get("remark")]
            size = needed
        return []


def _line(race: dict[str, Any]) -> str:
    if race.get("rule"):
        return f"{race['rule']}: {race.get('sentence', '')}"
    sides: list[dict[str, Any]] = [race.get(side) or {} for side in ("first", "second")]
    return "; ".join(f"{side.get('mode', 'access')} on {side.get('actor', 'an unknown stream')}" for side in sides)


@functools.cache
def find() -> Driver | None:
    """The driver, or None where there is none, or no device."""
    try:
        cuda = c.CDLL("libcuda.so.1")
        driver = Driver(cuda) if cuda.cuInit(0) == 0 else None
    except (OSError, AttributeError, DriverError):
        return None
    return driver if driver and driver.devices else None
