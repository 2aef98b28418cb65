"""The driver of this process; the package cuda_sim has the race checker behind it.

Nothing here needs a GPU library. Without a checker, accesses are not declared and no race is found.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes as c
import functools
import importlib
import os
from collections.abc import Sequence
from typing import Any

READ, WRITE = "reads", "writes"
NO_CHECKER = "there is no race checker; pip install 'libcai[check]', and run it under `cuda-sim run`, without --races=off"
_DEVICE_ORDINAL = 9  # CUpointer_attribute
_NON_BLOCKING, _DISABLE_TIMING, _THREAD_LOCAL = 1, 2, 1


class Offered:
    """An object with a dictionary, and nothing else. Entries that are `...` are absent."""

    def __init__(self, **entries: Any) -> None:
        self.__cuda_array_interface__ = {key: value for key, value in entries.items() if value is not ...}


class DriverError(Exception):
    """A call of the driver failed."""


class Driver:
    """Device 0 is current after `done`. Streams are not destroyed: an array may still name them."""

    def __init__(self, cuda: c.CDLL) -> None:
        self._cuda = cuda
        self._sim: Any = None
        with contextlib.suppress(ImportError):
            self._sim = importlib.import_module("cuda_sim")
        kind = self._sim.driver() if self._sim else ""
        self.simulated = kind == "simulated"
        races = os.environ.get("CUDASIM_RACES" if self.simulated else "CUDASIM_SHADOW_RACES")
        self.checker = "cuda-sim" if kind and races != "off" else ""
        count = c.c_int()
        self._call("cuDeviceGetCount", c.byref(count))
        self._contexts = [c.c_void_p() for _ in range(count.value)]
        for number, context in enumerate(self._contexts):
            self._call("cuDevicePrimaryCtxRetain", c.byref(context), number)
        self.devices = count.value
        self._streams: dict[str, int] = {}
        self._attempt = 0
        self._label = contextlib.ExitStack()
        atexit.register(self._label.close)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise DriverError(f"{name} returned {status}")

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
            if self.checker:
                self._sim.name_stream(self._streams[name], name)
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
        if label and self.checker:
            # One race is reported for each label and place in the code.
            self._attempt += 1
            self._label.close()
            self._label.enter_context(self._sim.label(f"{label} #{self._attempt}"))

    def touch(
        self, stream: int, mode: str, pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int
    ) -> None:
        """Enqueues a kernel that reads or writes an array, for the checker."""
        if self.checker and pointer and 0 not in shape:
            memory = Offered(shape=shape, strides=strides, typestr=f"|V{itemsize}", data=(pointer, False))
            self._sim.kernel(stream, **{mode: [memory]}, name=f"{mode[:-1]} #{self._attempt}")

    def races(self) -> list[str]:
        """The races since the last call, in a line each."""
        return [_line(race) for race in self._sim.take() if not race.get("remark")] if self.checker else []


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
