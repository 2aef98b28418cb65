"""The checks themselves: each deliberate fault is reported under its rule, and correct types have none.

`pytest --pyargs libcai.testing` runs this; with `--cuda-sim --devices=2`, also what needs a driver.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import gc
import json
import os
import threading
from collections.abc import Callable, Generator
from typing import Any
from xml.etree import ElementTree

import pytest

from libcai import _dlpack, _export, _view
from libcai._rules import RULE
from libcai.testing import Faults, check_producer
from libcai.testing._consumer import consumer_report
from libcai.testing._driver import WRITE, Offered, find
from libcai.testing._producer import TYPES, producer_report
from libcai.testing._report import Report

LIBRARY = os.environ.get("CAI_LIBRARY")
DRIVER = find()
CUDA: Any = DRIVER and c.CDLL("libcuda.so.1")
# The library's current stream, and its current device.
current = [1]


class Memory:
    """Device memory, or host memory where there is no driver: then nothing reads it."""

    def __init__(self, size: int, stream: int) -> None:
        self.pointer, self.stream = c.c_uint64(), stream
        self.device = (DRIVER and DRIVER.current_device()) or 0
        if DRIVER:
            assert CUDA.cuMemAllocAsync(c.byref(self.pointer), c.c_size_t(size), c.c_void_p(stream)) == 0
        else:
            self.host = (c.c_char * (size + 256))()
            self.pointer.value = (c.addressof(self.host) + 255) // 256 * 256

    def __del__(self) -> None:
        if DRIVER:
            before = DRIVER.current_device() or 0
            DRIVER.current(self.device)
            CUDA.cuMemFreeAsync(self.pointer, c.c_void_p(self.stream))
            DRIVER.current(before)


class Sound:
    """A correct array: indexable, on the stream that is current where it is made."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.itemsize, self.typestr = int(TYPES[dtype][1:]), ("|" if TYPES[dtype][1:] == "1" else "<") + TYPES[dtype]
        self.shape, strides, size = shape, [0] * len(shape), self.itemsize
        for axis in reversed(range(len(shape))):
            strides[axis], size = size, size * shape[axis]
        self.strides = tuple(strides)
        self.stream = current[-1]
        self.memory = Memory(max(1, size), self.stream)
        self.offset = 0
        if DRIVER and self.stream != 1:
            DRIVER.wait(1, self.stream)  # `make` has nothing pending: the legacy stream is what the checks wait for

    def part(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Sound:
        part = type(self).__new__(type(self))
        vars(part).update(vars(self), shape=shape, strides=strides, offset=self.offset + offset)
        return part

    def __getitem__(self, at: Any) -> Sound:
        index: Any = at if hasattr(at, "__len__") else (at,)
        shape, strides, offset = list[int](), list[int](), 0
        for axis, extent in enumerate(self.shape):
            at = index[axis] if axis < len(index) else slice(None)
            step = self.strides[axis]
            if isinstance(at, slice):
                chosen = range(extent)[at]
                shape.append(len(chosen))
                strides.append(step * chosen.step)
                offset += step * chosen.start if chosen else 0
            else:
                offset += step * at
        return self.part(tuple(shape), tuple(strides), offset)

    @property
    def T(self) -> Sound:
        return self.part(self.shape[::-1], self.strides[::-1], 0)

    def dictionary(self) -> dict[str, Any]:
        pointer = 0 if 0 in self.shape else (self.memory.pointer.value or 0) + self.offset
        return {"shape": self.shape, "strides": self.strides, "typestr": self.typestr, "data": (pointer, False),
                "version": 3, "stream": self.stream}  # fmt: skip

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.dictionary()

    def tensor(self, **options: Any) -> Any:
        return _export.export(self, LIBRARY).__dlpack__(**options)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        return self.tensor(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _export.export(self, LIBRARY).__dlpack_device__()


@contextlib.contextmanager
def on(stream: int) -> Generator[None, None, None]:
    current.append(stream)
    try:
        yield
    finally:
        current.pop()


def broadcast(array: Sound) -> Sound:
    return array.part((5, 4), (0, 4), 0)


def report(kind: type[Sound], **options: Any) -> Report:
    options = {"on": on, "parts": {"broadcast": broadcast}, "library": LIBRARY, **options}
    return producer_report(kind, **options)


def seen(found: Report) -> dict[str, str]:
    return {result.rule.id: result.status for result in found.results if result.status not in ("pass", "skipped")}




# --- one fault each ---


class Wrong(Sound):
    """A correct array, but for entries of its dictionary that a subclass sets, or the tensor that it alters."""

    def entries(self) -> dict[str, Any]:
        return {}

    def dictionary(self) -> dict[str, Any]:
        return {key: value for key, value in {**super().dictionary(), **self.entries()}.items() if value is not ...}

    def alter(self, capsule: Any) -> None:
        pass

    def tensor(self, **options: Any) -> Any:
        capsule = super().tensor(**options)
        self.alter(capsule)
        return capsule


def entries(make: Callable[[Wrong], dict[str, Any]]) -> type[Sound]:
    return type("Wrong", (Wrong,), {"entries": make})


def altered(change: Callable[[Any], object], versioned: bool = True) -> type[Sound]:
    """With a change of what the capsule of a tensor points to."""

    def alter(_: Wrong, capsule: Any) -> None:
        if _dlpack.capsule_name(capsule) == "dltensor_versioned":
            change(_dlpack.capsule_at(capsule, _dlpack.ManagedVersioned))
        elif not versioned:
            change(_dlpack.capsule_at(capsule, _dlpack.Managed))

    return type("Wrong", (Wrong,), {"alter": alter})


def asked(change: Callable[[dict[str, Any]], object], *types: type[BaseException]) -> type[Sound]:
    """With other arguments for `__dlpack__` than asked for."""

    def tensor(self: Sound, **options: Any) -> Any:
        try:
            change(options)
            return Sound.tensor(self, **options)
        except types:
            raise ValueError("no") from None

    return type("Wrong", (Sound,), {"tensor": tensor})


def refuse(condition: Callable[[dict[str, Any]], bool]) -> type[Sound]:
    def change(options: dict[str, Any]) -> None:
        if condition(options):
            raise BufferError("no")

    return asked(change)


class Raises(Sound):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("no")


class Changes(Sound):
    readings = 0

    def dictionary(self) -> dict[str, Any]:
        self.readings += 1
        said = super().dictionary()
        return {**said, "data": (said["data"][0], self.readings % 2 == 0)}


class Leaks(Sound):
    kept: list[Any] = []

    def dictionary(self) -> dict[str, Any]:
        self.kept.append(self)
        return super().dictionary()


class OldArguments(Sound):
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.tensor(stream=stream, max_version=max_version)


class Copy:
    def __init__(self, value: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = value


class KeepsNothing(Sound):
    def tensor(self, **options: Any) -> Any:
        return _export.export(Copy(self.dictionary()), LIBRARY).__dlpack__(**options)


class Unflagged(Sound):
    def tensor(self, **options: Any) -> Any:
        copy = Sound((3, 4), "float32") if options["copy"] else self
        return Sound.tensor(copy, **{**options, "copy": None})


class KeptByTensor(Sound):
    kept: list[Any] = []

    def tensor(self, **options: Any) -> Any:
        self.kept.append(self)
        return super().tensor(**options)


DELETER = c.CFUNCTYPE(None, c.c_void_p)
DELETERS: list[Any] = []


def only_here(managed: Any) -> None:
    """A deleter that does nothing on another thread than the one that made the tensor."""
    theirs, thread = managed.deleter, threading.get_ident()

    def delete(address: int) -> None:
        if threading.get_ident() == thread:
            DELETER(theirs)(address)

    DELETERS.append(DELETER(delete))
    managed.deleter = c.cast(DELETERS[-1], c.c_void_p)


class FreedElsewhere(Sound):
    """Frees its memory on a stream that does not wait for the exported one."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        super().__init__(shape, dtype)
        if DRIVER:
            self.memory.stream = DRIVER.stream("frees")


class Synchronizes(Sound):
    def dictionary(self) -> dict[str, Any]:
        if CUDA and CUDA.cuStreamSynchronize(c.c_void_p(self.stream)):
            raise RuntimeError("cannot wait")
        return super().dictionary()


class OneAtATime(Sound):
    busy = False

    def dictionary(self) -> dict[str, Any]:
        if OneAtATime.busy:
            raise RuntimeError("busy")
        OneAtATime.busy = True
        try:
            threading.Event().wait(0.0005)
            return super().dictionary()
        finally:
            OneAtATime.busy = False


class ChangesDevice(Sound):
    def dictionary(self) -> dict[str, Any]:
        if DRIVER:
            DRIVER.current(self.memory.device)
        return super().dictionary()


@contextlib.contextmanager
def device(number: int) -> Generator[None, None, None]:
    assert DRIVER
    DRIVER.current(number)
    try:
        yield
    finally:
        DRIVER.current(0)


def late(destroyed: bool = False) -> Sound:
    """An array with pending work on a stream of its own."""
    assert DRIVER
    with on(DRIVER.stream("destroyed" if destroyed else "own")):
        array = Sound((3, 4), "float32")
    DRIVER.touch(array.stream, WRITE, array.memory.pointer.value or 0, (3, 4), (16, 4), 4)
    if destroyed:
        CUDA.cuStreamDestroy_v2(c.c_void_p(array.stream))
    return array


OLD = {"version": 2, "stream": ...}
# The rule, the part of the checks that sees its violation, and the faulty type.
FAULTS: list[tuple[str, str, type[Sound]]] = [
    ("shape", "layouts", entries(lambda self: {"shape": (3, 4), "strides": None})),
    ("strides", "layouts", entries(lambda self: {"strides": None})),
    ("pointer", "layouts", entries(lambda self: {"data": (self.memory.pointer.value, False)})),
    ("type", "layouts", entries(lambda self: {"typestr": "<f4"})),
    ("offered", "layouts", Raises),
    ("entries", "layouts", entries(lambda self: {"stream": 0})),
    ("same-again", "layouts", Changes),
    ("names-the-work", "layouts", entries(lambda self: OLD)),
    ("no-trace", "readings", Leaks),
    ("threads", "threads", OneAtATime),
    # What follows needs a driver.
    ("memory", "layouts", entries(lambda self: {"data": (1 << 46, False)})),
    ("agreement", "layouts", altered(lambda managed: setattr(managed.tensor, "byte_offset", 4))),
    ("tensor", "layouts", altered(lambda managed: setattr(managed.tensor, "strides", None))),
    ("dlpack-arguments", "arguments", OldArguments),
    ("dlpack-stream", "arguments", asked(lambda options: options.update(stream=options["stream"] or 1))),
    ("dlpack-default", "arguments", refuse(lambda options: options["stream"] is None)),
    ("dlpack-unasked", "arguments", asked(lambda options: options.update(max_version=(1, 0)))),
    ("dlpack-version", "arguments", altered(lambda managed: setattr(managed.version, "major", 2))),
    ("dlpack-copy", "arguments", asked(lambda options: options.update(copy=None))),
    ("dlpack-copy", "arguments", Unflagged),
    ("dlpack-no-copy", "arguments", asked(lambda options: options.update(copy=options["copy"] is not None))),
    ("dlpack-device", "arguments", asked(lambda options: options.update(dl_device=None))),
    ("dlpack-error", "arguments", asked(lambda options: None, BufferError)),
    ("dlpack-host", "arguments", refuse(lambda options: options["dl_device"] == (1, 0))),
    ("lifetime-tensor", "lifetime", KeepsNothing),
    ("lifetime-release", "lifetime", KeptByTensor),
    ("lifetime-thread", "lifetime", altered(only_here, versioned=False)),
    ("capture", "capture", Synchronizes),
    ("device", "devices", altered(lambda managed: setattr(managed.tensor.device, "id", 0))),
    ("device-current", "devices", ChangesDevice),
    # And this, the race checker.
    ("order-dict", "order", entries(lambda self: {"stream": 1})),
    ("order-dict-later", "order", entries(lambda self: {"stream": current[-1]})),
    ("order-dlpack", "order", asked(lambda options: options.update(stream=-1))),
    ("order-dlpack-later", "order", entries(lambda self: {"stream": current[-1]})),
    ("order-unnamed", "order", entries(lambda self: OLD)),
    ("order-reuse", "reuse", FreedElsewhere),
    ("order-own", "reuse", FreedElsewhere),
]  # fmt: skip
SIMULATED = DRIVER is not None and DRIVER.simulated and DRIVER.devices > 1


@pytest.fixture(autouse=True, scope="module")
def what_exists_is_no_garbage() -> None:
    gc.freeze()  # the checks collect it often


def test_sound() -> None:
    found = report(Sound, device=device)
    assert found.passed and seen(found) == {}, str(found)


@pytest.mark.parametrize("rule, part, kind", FAULTS)
def test_fault(rule: str, part: str, kind: type[Sound]) -> None:
    if not SIMULATED and (part not in ("layouts", "readings", "threads") or rule in ("memory", "agreement", "tensor")):
        pytest.skip("needs cuda-sim with two devices")
    found = report(kind, device=device, only=part)
    level = {"must": "fail", "known": "fail", "optional": "warning"}[RULE[rule].level]
    assert seen(found).get(rule) == level or rule == "dlpack-no-copy", str(found)


@pytest.mark.skipif(not SIMULATED, reason="needs cuda-sim with two devices")
def test_own_stream() -> None:
    options: dict[str, Any] = {"late": late, "library": LIBRARY, "types": (), "shapes": ()}
    sound = producer_report(Sound, **options)
    assert sound.passed and seen(sound) == {} and sound.count("skipped") < 7, str(sound)
    options["late"] = lambda: late(destroyed=True)
    destroyed = producer_report(Sound, **options, only="lifetime")
    assert seen(destroyed) == {"lifetime-stream": "fail"}, str(destroyed)


# What no fault of this file provokes: notes, and what only types in C have.
NOT_HERE = {"layout", "mask", "buffer", "order-table"}


def test_each_rule_has_a_fault() -> None:
    rules = {rule for rule, _, _ in FAULTS} | {rule for rule, *_ in CONSUMERS}
    assert rules | NOT_HERE | {"lifetime-stream"} == set(RULE)


# --- consumers ---

VIEW: Any = _view.function(LIBRARY)


class Meddled:
    """What a faulty consumer makes of an object: another dictionary, or a tensor with a change."""

    def __init__(self, obj: Any, entries: dict[str, Any], change: Callable[[Any], object]) -> None:
        self.obj, self.change = obj, change
        if hasattr(obj, "__cuda_array_interface__"):
            self.__cuda_array_interface__ = {**obj.__cuda_array_interface__, **entries}
        else:
            self.__dlpack_device__ = obj.__dlpack_device__

    def __getattr__(self, name: str) -> Any:
        if name == "__dlpack__" and hasattr(self.obj, name):
            return self.tensor
        raise AttributeError(name)

    def tensor(self, **options: Any) -> Any:
        capsule = self.obj.__dlpack__(**options)
        if _dlpack.capsule_name(capsule) == "dltensor_versioned":
            self.change(_dlpack.capsule_at(capsule, _dlpack.ManagedVersioned))
        return capsule


KEPT: list[Any] = []
# The rule, the entries that the consumer takes for others, the change of a tensor.
CONSUMERS: list[tuple[str, dict[str, Any], Callable[[Any], object]]] = [
    ("takes-layout", {"strides": None}, lambda managed: None),
    ("takes-type", {"typestr": "<i4", "strides": None}, lambda managed: None),
    ("takes-entries", {"typestr": "<f4"}, lambda managed: None),
    ("takes-mask", {"mask": None}, lambda managed: None),
    ("takes-offset", {}, lambda managed: setattr(managed.tensor, "byte_offset", 0)),
    ("keeps-readonly", {}, lambda managed: setattr(managed, "flags", 0)),
    ("keeps-object", {}, lambda managed: None),
    ("refuses-entries", {"stream": 1}, lambda managed: None),
    ("refuses-version", {}, lambda managed: setattr(managed.version, "major", 1)),
    ("refuses-tensor", {}, lambda managed: setattr(managed.tensor.device, "type", 2)),
    ("deletes-once", {}, KEPT.append),
    ("waits", {"stream": None}, lambda managed: None),
    ("waits-back", {}, lambda managed: None),
    ("takes-in-capture", {}, lambda managed: None),
]


def consumer(take: Callable[[Any], Any], done: Callable[[Any], object] = lambda made: made.release()) -> Report:
    return consumer_report(take, on=on, done=done, library=LIBRARY, types=("float32", "int8"))


@pytest.mark.skipif(not SIMULATED, reason="needs cuda-sim with two devices")
def test_sound_consumer() -> None:
    found = consumer(lambda obj: VIEW(obj, current[-1]))
    assert found.passed and seen(found) == {} and found.count("pass") == 13, str(found)


@pytest.mark.skipif(not SIMULATED, reason="needs cuda-sim with two devices")
@pytest.mark.parametrize("rule, entries, change", CONSUMERS)
def test_faulty_consumer(rule: str, entries: dict[str, Any], change: Callable[[Any], object]) -> None:
    def take(obj: Any) -> Any:
        if rule == "takes-in-capture":
            assert CUDA.cuStreamSynchronize(c.c_void_p(current[-1])) == 0
        if rule == "keeps-object" and hasattr(obj, "__cuda_array_interface__"):
            obj = Offered(**obj.__cuda_array_interface__)
        made = VIEW(Meddled(obj, entries, change), current[-1])
        if change == KEPT.append:
            KEPT.append(made)
        return made

    level = {"must": "fail", "optional": "warning"}[RULE[rule].level]
    found = consumer(take, KEPT.append) if rule == "waits-back" else consumer(take)
    assert seen(found).get(rule) == level, str(found)


# --- reports ---


def faulty(shape: tuple[int, ...], dtype: str) -> Sound:
    return FAULTS[1][2](shape, dtype)


def test_what_is_reported() -> None:
    with pytest.raises(Faults) as raised:
        check_producer(faulty, library=LIBRARY, name="mine", types=(), known={"dlpack-host": "no copies"})
    found = raised.value.report
    lines = str(found).splitlines()
    assert lines[0].startswith("mine: ") and " fault" in lines[0] and max(map(len, lines)) <= 100
    assert str(found) in str(raised.value)
    # Pytest shows the line of the call, and the public name.
    shown = str(raised.getrepr(style="long"))
    assert "def check_producer" not in shown and "libcai.testing.Faults" in shown
    text = " ".join(" ".join(lines).split())
    assert "FAIL strides: column, steps, reversed, reversed columns, transposed: " in text
    assert f"Rule: {RULE['strides'].text}" in text and f"Mend: {RULE['strides'].mend}" in text
    said = json.loads(found.to_json())
    assert said["name"] == "mine" and not said["passed"]
    strides = next(result for result in said["results"] if result["check"] == "strides")
    assert strides["status"] == "fail" and "steps" in strides["seen"][0]["variants"]
    suite = ElementTree.fromstring(found.to_junit())
    case = next(case for case in suite if case.get("name") == "strides")
    assert suite.get("failures") == str(found.count("fail")) and case.find("failure") is not None
    with pytest.raises(ValueError, match="no check 'order'"):
        check_producer(faulty, library=LIBRARY, known={"order": "why"})


def test_known() -> None:
    known = dict.fromkeys(["strides", "memory", "shape"], "consumers know it")
    found = check_producer(faulty, library=LIBRARY, known=known)
    assert seen(found)["strides"] == "known" and "Reason: consumers know it" in str(found)
    assert "shape: passed, so no reason is needed" in str(found)


def test_what_has_one_shape() -> None:
    one = Sound((12,), "float32")
    for make in (lambda: Sound((12,), "float32"), lambda: one):
        found = check_producer(make, library=LIBRARY)
        assert [result.attempts for result in found.results if result.rule.id == "strides"] == [1]


def test_what_makes_no_tensors() -> None:
    """One fault, and no other name for it."""

    def five(_: Sound, **options: object) -> int:
        return 5

    found = report(type("NoTensors", (Sound,), {"__dlpack__": five}), only="threads")
    assert seen(found) == {}, str(found)


def test_what_raises() -> None:
    def make(shape: tuple[int, ...], dtype: str) -> Sound:
        raise LookupError("no device")

    with pytest.raises(LookupError):
        check_producer(make, library=LIBRARY)
