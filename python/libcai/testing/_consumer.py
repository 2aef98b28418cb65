"""`check_consumer`: does a function take the arrays of others correctly?"""

from __future__ import annotations

import ctypes as c
import gc
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _dlpack, _export, _library, _protocols
from .._ask import ask, describe
from .._report import Array
from .._rules import RULE
from . import _driver
from ._driver import NO_CHECKER, READ, WRITE, Driver, Offered
from ._producer import CAI, DLPACK, PARTS, TABLE, TYPES, Context, Faults
from ._report import Report, Skip

_SIZE = 48
_DELETER = c.CFUNCTYPE(None, c.c_void_p)
_FOREVER: list[Any] = []


# What a dictionary may say, and what it may not.
_ENTRIES: dict[str, dict[str, Any]] = {
    "version 0": {"version": 0, "stream": ...}, "version 1": {"version": 1, "stream": ...},
    "version 2": {"version": 2, "stream": ...}, "strides None": {"strides": None}, "no strides": {"strides": ...},
    "no stream": {"stream": ...}, "byte order": {"typestr": ">f4"},
}  # fmt: skip
_WRONG_ENTRIES: dict[str, dict[str, Any]] = {
    "no shape": {"shape": ...}, "no typestr": {"typestr": ...}, "no data": {"data": ...},
    "a negative extent": {"shape": (3, -4)}, "one stride of two": {"strides": (4,)}, "typestr q9": {"typestr": "<q9"},
    "no address": {"data": (0, False)}, "stream 0": {"stream": 0},
}  # fmt: skip
_WRONG_TENSORS: list[tuple[str, str, Callable[[Any], object]]] = [
    ("refuses-version", "", lambda managed: setattr(managed.version, "major", 2)),
    ("refuses-tensor", "2 lanes", lambda managed: setattr(managed.tensor, "lanes", 2)),
    ("refuses-tensor", "type 99", lambda managed: setattr(managed.tensor, "code", 99)),
    ("refuses-tensor", "device 99", lambda managed: setattr(managed.tensor.device, "type", 99)),
]


def _move(managed: Any) -> None:
    managed.tensor.data, managed.tensor.byte_offset = managed.tensor.data - 256, 256


class _Tensor:
    """Offers DLPack only: the tensor of a dictionary, which `alter` may change. Notes how it is asked."""

    def __init__(self, dictionary: Offered, library: str, alter: Callable[[Any], object] | None = None) -> None:
        self._array, self._alter = _export.export(dictionary, library), alter
        self.asked: list[dict[str, Any]] = []
        self.deleted = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        if self._alter is not None:
            options["max_version"] = (1, 0)
        capsule: object = self._array.__dlpack__(**options)
        is_versioned = _dlpack.capsule_name(capsule) == "dltensor_versioned"
        managed = _dlpack.capsule_at(capsule, _dlpack.ManagedVersioned if is_versioned else _dlpack.Managed)
        theirs = managed.deleter

        def delete(address: int) -> None:
            self.deleted += 1
            if theirs:
                _DELETER(theirs)(address)

        _FOREVER.append(_DELETER(delete))
        managed.deleter = c.cast(_FOREVER[-1], c.c_void_p).value
        if self._alter is not None:
            self._alter(managed)
        return capsule


def check_consumer(
    take: Callable[[Any], Any],
    *,
    seen: Callable[[Any], Any] | None = None,
    on: Context | None = None,
    done: Callable[[Any], object] | None = None,
    protocols: Iterable[str] = (CAI, DLPACK),
    types: Iterable[str] = tuple(TYPES),
    known: Mapping[str, str] | None = None,
    name: str | None = None,
    library: str | None = None,
) -> Report:
    """Checks that a function takes arrays of other libraries as they are, and raises `Faults` if it does not.

    `take(obj)` returns an array of the library over the memory of `obj`, as `cupy.asarray` does, or raises: what is
    refused is no fault. `seen(array)` returns an object that offers what the library made of it, by default the array.
    `on(stream)`: a context manager, inside of which the library's current stream is that number; with it, and under
    cuda-sim, the order of streams is checked. `done(array)` ends the use, as the end of a `with` block does; without
    it, nothing is expected of the producer's stream. `protocols`: those that `take` reads. Other arguments are as in
    `check_producer`. Needs a CUDA driver, which may be the simulated one.

    Returns the report. Raises ValueError if `known` names no check, and RuntimeError without a driver.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    report = consumer_report(take, protocols, known, name, library, seen=seen, on=on, done=done, types=types)
    if not report.passed:
        raise Faults(report)
    return report


def consumer_report(
    take: Callable[[Any], Any], protocols: Iterable[str] = (CAI, DLPACK), known: Mapping[str, str] | None = None,
    name: str | None = None, library: str | None = None, types: Iterable[str] = tuple(TYPES), **functions: Any,
) -> Report:  # fmt: skip
    """As `check_consumer`, without the exception."""
    read, problem = _library.find(library)
    driver = _driver.find()
    if read is None or driver is None:
        raise RuntimeError(problem or "there is no CUDA driver; run it under `cuda-sim run`")
    driver.current(0)
    report = Report(name or str(getattr(take, "__qualname__", "the function")), driver.checker, known or {})
    consumer = _Consumer(take, read, driver, **functions)
    for protocol in protocols:
        consumer.values(report, protocol, tuple(types))
        consumer.order(report, protocol)
    if CAI in protocols:
        consumer.dictionaries(report)
        consumer.capture(report)
    if DLPACK in protocols:
        consumer.tensors(report)
    return report


class _Consumer:
    def __init__(
        self, take: Callable[[Any], Any], library: _library.Library, driver: Driver, seen: Callable[[Any], Any] | None = None,
        on: Context | None = None, done: Callable[[Any], object] | None = None,
    ) -> None:  # fmt: skip
        self.take, self.library, self.driver, self.seen, self.on, self.done = take, library, driver, seen, on, done
        self.base = driver.allocate(4096) + 1024

    def dictionary(self, **more: Any) -> Offered:
        entries = {"shape": (3, 4), "strides": (16, 4), "typestr": "<f4", "data": (self.base, False), "version": 3, "stream": None}
        return Offered(**{**entries, **more})

    def offer(self, protocol: str, dictionary: Offered) -> Any:
        return dictionary if protocol == CAI else _Tensor(dictionary, self.library.path)

    def taken(self, obj: Any) -> tuple[Any, Array]:
        """The library's array of an object, and what it is. What is refused ends the attempt."""
        made, error = ask(self.take, obj)
        if error is not None:
            raise Skip(f"it refuses: {describe(error)}")
        shown, error = ask(self.seen, made) if self.seen else (made, None)
        for name in (CAI, DLPACK, TABLE):
            array = self.library.result(shown, dict(_protocols.NAMES)[name]).array
            if array is not None:
                return made, array
        raise Skip(describe(error) if error else "what it made cannot be read; pass seen=")

    def compare(self, report: Report, rule: str, variant: str, dictionary: Offered, obj: Any) -> None:
        """Whether the result is what was offered: the dictionary as the library reads it."""
        made, got = self.taken(obj)
        want = self.library.result(dictionary, dict(_protocols.NAMES)[CAI]).array
        assert want is not None and want.strides is not None
        if got.shape != want.shape:
            report.add(RULE[rule], variant, f"shape {want.shape} became {got.shape}")
        elif (got.typestr or "")[1:] != (want.typestr or "")[1:] or got.native != want.native:
            report.add(RULE[rule], variant, f"type {want.typestr} became {got.typestr}")
        elif want.elements and abs((got.pointer or 0) - self.base) >= 1024:
            raise Skip("it makes a copy")
        elif want.elements and got.pointer != want.pointer:
            report.add(RULE[rule], variant, f"the pointer is {(got.pointer or 0) - (want.pointer or 0):+d} bytes off")
        elif not got.same_strides(want.strides):
            if ask(lambda: tuple(made.strides))[0] == want.strides:
                raise Skip("what it made exports other strides than it has: a fault of producers")
            report.add(RULE[rule], variant, f"strides {want.strides} became {got.strides}")

    def values(self, report: Report, protocol: str, types: tuple[str, ...]) -> None:
        short = "dictionary" if protocol == CAI else "tensor"
        for part, (_, shape, strides, offset) in PARTS.items():
            with report.check("takes-layout", f"{short}, {part}"):
                pointer = 0 if 0 in shape else self.base + offset
                said = self.dictionary(shape=shape, strides=strides, data=(pointer, False))
                self.compare(report, "takes-layout", f"{short}, {part}", said, self.offer(protocol, said))
        for kind in types:
            with report.check("takes-type", f"{short}, {kind}"):
                order = "|" if TYPES[kind][1:] == "1" else "<"
                said = self.dictionary(typestr=order + TYPES[kind], strides=None)
                self.compare(report, "takes-type", f"{short}, {kind}", said, self.offer(protocol, said))
        with report.check("keeps-readonly", short):
            obj = self.offer(protocol, self.dictionary(data=(self.base, True)))
            _, got = self.taken(obj)
            if got.readonly is False:
                report.add(RULE["keeps-readonly"], short, "the array is writable")

    def dictionaries(self, report: Report) -> None:
        for variant, entries in _ENTRIES.items():
            with report.check("takes-entries", variant):
                said = self.dictionary(**entries)
                self.compare(report, "takes-entries", variant, said, said)
        with report.check("takes-mask"):
            mask = self.dictionary(typestr="|b1", strides=None, data=(self.base + 512, False))
            _, got = self.taken(self.dictionary(mask=mask))
            if got.mask is None:
                report.add(RULE["takes-mask"], "", "the mask is ignored")
        with report.check("keeps-object"):
            obj = self.dictionary()
            lives = weakref.ref(obj)
            made, got = self.taken(obj)
            if got.pointer != self.base:
                raise Skip("it makes a copy")
            del obj
            gc.collect()
            if lives() is None:
                report.add(RULE["keeps-object"], "", "the object is gone while the array lives")
            del made
        for variant, entries in _WRONG_ENTRIES.items():
            self._refuses(report, "refuses-entries", variant, self.dictionary(**entries))

    def tensors(self, report: Report) -> None:
        for rule, variant, change in _WRONG_TENSORS:
            self._refuses(report, rule, variant, _Tensor(self.dictionary(), self.library.path, change))
        with report.check("takes-offset"):
            said = self.dictionary()
            self.compare(report, "takes-offset", "", said, _Tensor(said, self.library.path, _move))
        with report.check("deletes-once"):
            obj = _Tensor(self.dictionary(), self.library.path)
            made, _ = self.taken(obj)
            if obj.deleted:
                report.add(RULE["deletes-once"], "", "the deleter was called while the array lives")
            del made
            for _ in range(50):
                gc.collect()
                if obj.deleted:
                    break
                self.driver.done()
                time.sleep(0.01)
            if obj.deleted != len(obj.asked):
                report.add(RULE["deletes-once"], "", f"{obj.deleted} calls of the deleter for {len(obj.asked)} tensors")

    def _refuses(self, report: Report, rule: str, variant: str, obj: Any) -> None:
        """A refusal may come late: it is the result that counts."""
        with report.check(rule, variant):
            made, error = ask(self.take, obj)
            if error is None and self.seen:
                _, error = ask(self.seen, made)
            if error is None:
                report.add(RULE[rule], variant, "it is accepted")

    def order(self, report: Report, protocol: str) -> None:
        short = "dictionary" if protocol == CAI else "tensor"
        for target in ("a stream", "1", "2"):
            variant = f"{short} on {target}"
            with report.check("waits", variant):
                theirs = int(target) if target.isdigit() else self.driver.stream("producer")
                races, asked = self._used(protocol, variant, theirs)
                if races:
                    report.add(RULE["waits"], variant, races[0] + asked)
                elif protocol == CAI and self.done:
                    report.settle("waits-back", variant)
                    back, _ = self._used(protocol, f"{variant}, back", theirs, self.done)
                    if back:
                        report.add(RULE["waits-back"], variant, back[0])

    def _used(
        self, protocol: str, variant: str, theirs: int, done: Callable[[Any], object] | None = None
    ) -> tuple[list[str], str]:
        """Takes an array with pending work and reads it; with `done`, it is written again afterwards. Returns the races."""
        if not self.on or not self.driver.checker:
            raise Skip("pass on=" if self.driver.checker else NO_CHECKER)
        mine = self.driver.stream("consumer")
        self.driver.done(variant)
        self.driver.races()
        self.driver.touch(theirs, WRITE, self.base, (_SIZE,), (1,), 1)
        obj = self.offer(protocol, self.dictionary(stream=theirs))
        with self.on(mine):
            made, got = self.taken(obj)
            self.driver.touch(mine, READ, got.pointer or 0, (_SIZE,), (1,), 1)
            if done:
                done(made)
        if done:
            self.driver.touch(theirs, WRITE, self.base, (_SIZE,), (1,), 1)
        races = self.driver.races()
        self.driver.done()
        self.driver.races()
        del made
        return races, f"; it asks for stream={obj.asked[0].get('stream')!r}" if protocol == DLPACK and obj.asked else ""

    def capture(self, report: Report) -> None:
        with report.check("takes-in-capture"):
            if not self.on:
                raise Skip("pass on=")
            stream = self.driver.stream("capturing")
            obj = self.dictionary(stream=stream)
            self.driver.done("capture")
            with self.on(stream):
                self.driver.begin_capture(stream)
                made, error = ask(self.take, obj)
                intact = self.driver.end_capture(stream)
            del made
            if error is not None or not intact:
                report.add(RULE["takes-in-capture"], "", describe(error) if error else "the capture is invalid afterwards")
