"""`check_producer`: does a type export its arrays correctly?"""

from __future__ import annotations

import contextlib
import ctypes as c
import gc
import inspect as python_inspect
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import libcai

from .. import _abi, _dlpack, _library, _protocols
from .._ask import ask, describe, show
from .._inspect import name_of
from .._report import Array
from .._rules import RULE, of_finding
from . import _driver
from ._driver import NO_CHECKER, READ, WRITE, Driver, Offered
from ._report import Report, Skip

CAI, DLPACK, TABLE = "__cuda_array_interface__", "__dlpack__", "__dlpack_c_exchange_api__"
_VIA = dict(_protocols.NAMES)
_SHAPE, _TYPE = (3, 4), "float32"
# One way each in which an array is offered to consumers of other libraries.
_OFFERS = (CAI, DLPACK, TABLE, "__cai_exchange_api__")


class _At:
    def __getitem__(self, index: Any) -> Callable[[Any], Any]:
        return lambda array: array[index]


_at = _At()
# Parts of an array of 3 by 4 elements of 4 bytes: how they are made; their shape, strides, and offset in bytes.
PARTS: dict[str, tuple[Callable[[Any], Any] | None, tuple[int, ...], tuple[int, ...], int]] = {
    "whole": (lambda array: array, (3, 4), (16, 4), 0),
    "row": (_at[1], (4,), (4,), 16),
    "one row": (_at[1:2], (1, 4), (16, 4), 16),
    "column": (_at[:, 1], (3,), (16,), 4),
    "steps": (_at[1:, ::2], (2, 2), (16, 8), 16),
    "reversed": (_at[::-1], (3, 4), (-16, 4), 32),
    "reversed columns": (_at[:, ::-1], (3, 4), (16, -4), 12),
    "transposed": (lambda array: array.T, (4, 3), (4, 16), 0),
    "none": (_at[2:2, 1:], (0, 3), (16, 4), 0),
    "scalar": (_at[1, 1], (), (), 20),
    "broadcast": (None, (5, 4), (0, 4), 0),
}
SHAPES = ((), (0,), (0, 4), (1, 3), (2, 1, 2))
# The names of types, and their typestr behind the byte order.
TYPES = {
    "bool": "b1", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "int64": "i8", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8",
    "complex128": "c16",
}  # fmt: skip

Make = Callable[..., Any]
Context = Callable[[int], "AbstractContextManager[Any]"]


class Faults(AssertionError):
    """A check found faults. `report` has them."""

    __module__ = "libcai.testing"

    def __init__(self, report: Report) -> None:
        super().__init__(f"\n{report}")
        self.report = report


def check_producer(
    make: Make,
    *,
    on: Context | None = None,
    work: Callable[[Any], object] | None = None,
    late: Callable[[], Any] | None = None,
    fresh: Callable[[], AbstractContextManager[Any]] | None = None,
    device: Context | None = None,
    parts: Mapping[str, Callable[[Any], Any]] | None = None,
    types: Iterable[str] = tuple(TYPES),
    shapes: Iterable[tuple[int, ...]] = SHAPES,
    known: Mapping[str, str] | None = None,
    name: str | None = None,
    library: str | None = None,
) -> Report:
    """Checks that a type exports its arrays correctly, and raises `Faults`, an AssertionError, if it does not.

    `make(shape, dtype)` returns a new array without pending work. `dtype` is a name such as "float32". What raises is
    taken as not supported. A `make` without parameters has one shape and type only.

    The order of streams is checked under cuda-sim (`cuda-sim run`, `pytest --cuda-sim`), if you pass one of these:
    - `on(stream)`: a context manager, inside of which the library's current stream is that number. `work(array)`
      enqueues writes of the whole array there; without it, the check declares a write of its own.
    - `late()` returns a new array with pending writes of all of it on a stream of its own, which only the array keeps.
      Beside `on`, it is used for the lifetime of the stream alone.
    - `fresh()`: a context manager, inside of which a new stream of the library is current. It is for that lifetime, too.

    `device(number)`: a context manager, inside of which `make` uses that device. `parts`: functions that make a part of
    an array of shape (3, 4), by names of `PARTS`; by default arrays are indexed. `known`: checks whose faults are meant,
    each with a reason, which the report repeats. `name`: how reports name it. `library`: the shared library that reads
    the arrays, by default that of this package.

    Returns the report. Raises ValueError if `known` names no check, and what `make` raises for the first array.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    report = producer_report(make, on=on, work=work, late=late, fresh=fresh, device=device, parts=parts, types=types, shapes=shapes,
                             known=known, name=name, library=library)  # fmt: skip
    if not report.passed:
        raise Faults(report)
    return report


def producer_report(make: Make, *, library: str | None = None, known: Mapping[str, str] | None = None,
                    name: str | None = None, only: str = "", **options: Any) -> Report:  # fmt: skip
    """As `check_producer`, without the exception. `only`: a part of the checks, by its name."""
    read, problem = _library.find(library)
    if read is None:
        raise RuntimeError(f"nothing can be read: {problem}")
    driver = _driver.find()
    producer = _Producer(make, read, driver, **options)
    report = Report(name or producer.name, driver.checker if driver else "", known or {})
    for part in ("layouts", "readings", "arguments", "lifetime", "order", "reuse", "capture", "threads", "devices"):
        if part in (only or part):
            getattr(producer, part)(report)
            producer.own_races(report, part)
    return report


def _is_plain(make: Make) -> bool:
    """Whether it takes no shape and type."""
    try:
        signature = python_inspect.signature(make)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(_SHAPE, _TYPE)
    except TypeError:
        return True
    return False


class _Tensor:
    """A capsule of `__dlpack__`, and the tensor in it."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule
        self.name = _dlpack.capsule_name(capsule) if _dlpack.is_capsule(capsule) else None
        self.version: tuple[int, int] | None = None
        self.flags = 0
        if self.name == "dltensor_versioned":
            versioned = _dlpack.capsule_at(capsule, _dlpack.ManagedVersioned)
            self.version, self.flags = (versioned.version.major, versioned.version.minor), versioned.flags
            managed: _dlpack.Managed | _dlpack.ManagedVersioned = versioned
        elif self.name == "dltensor":
            managed = _dlpack.capsule_at(capsule, _dlpack.Managed)
        else:
            raise Skip(f"__dlpack__ returned {show(capsule)}")
        self.deleter, self.address, tensor = managed.deleter, c.addressof(managed), managed.tensor
        self.device = (tensor.device.type, tensor.device.id)
        self.pointer = (tensor.data or 0) + tensor.byte_offset
        self.itemsize = max(1, tensor.bits * tensor.lanes // 8)
        self.shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
        strides, step = [0] * tensor.ndim, 1
        for axis in reversed(range(tensor.ndim)):
            strides[axis] = (tensor.strides[axis] if tensor.strides else step) * self.itemsize
            step *= max(1, self.shape[axis])
        self.strides = tuple(strides)


class _Producer:
    def __init__(
        self, make: Make, library: _library.Library, driver: Driver | None, on: Context | None = None,
        work: Callable[[Any], object] | None = None, late: Callable[[], Any] | None = None,
        fresh: Callable[[], AbstractContextManager[Any]] | None = None, device: Context | None = None, parts: Mapping[str, Callable[[Any], Any]] | None = None,
        types: Iterable[str] = tuple(TYPES), shapes: Iterable[tuple[int, ...]] = SHAPES,
    ) -> None:  # fmt: skip
        unknown = sorted(set(parts or ()) - set(PARTS)) + sorted(set(types) - set(TYPES))
        if unknown:
            raise ValueError(f"parts, types: {unknown[0]!r} is not known; there are {', '.join([*PARTS, *TYPES])}")
        self.make, self.library, self.driver = make, library, driver
        self.on, self.work, self.late, self.fresh, self.device = on, work, late, fresh, device
        self.plain, self.parts = _is_plain(make), parts or {}
        self.types, self.shapes = tuple(types), tuple(shapes)
        if driver:
            driver.current(0)
        sample = self.sample()
        self.name = name_of(sample.__class__)
        answers = {name: self.library.result(sample, _VIA[name]) for name in _OFFERS}
        self.has = {name for name, answer in answers.items() if answer.array is not None}
        self.lacks = {name: answer.message for name, answer in answers.items() if answer.status != "CAI_ERR_NO_PROTOCOL"}
        numbers, _ = ask(lambda: tuple(sample.__dlpack_device__()))
        # Its streams are CUDA's: then -1 means that nothing is ordered.
        self.cuda = numbers is not None and numbers[0] in (_abi.CAI_DEVICE_CUDA, _abi.CAI_DEVICE_CUDA_MANAGED)
        self.quiet: dict[str, Any] = {}
        if self.cuda and ask(sample.__dlpack__, stream=-1)[1] is None:
            self.quiet = {"stream": -1}
        if numbers is not None and ask(sample.__dlpack__, **self.quiet)[1] is None:
            self.has.add(DLPACK)  # also tensors that the library refuses

    # --- what the checks need ---

    def sample(self) -> Any:
        return self.make() if self.plain else self.make(_SHAPE, _TYPE)

    def needs_driver(self, checker: bool = False) -> Driver:
        if self.driver is None:
            raise Skip("there is no CUDA driver; run it under `cuda-sim run`")
        if checker and not self.driver.checker:
            raise Skip(NO_CHECKER)
        return self.driver

    def needs(self, name: str) -> None:
        if name not in self.has:
            raise Skip(self.lacks.get(name) or f"there is no {name}")

    def needs_new_memory(self) -> None:
        one, other = self.sample(), self.sample()
        if self.array_of(one).pointer == self.array_of(other).pointer:
            raise Skip("all arrays of `make` share their memory")

    def can_order(self) -> bool:
        return not self.cuda or self.driver is not None

    def array_of(self, obj: Any, via: str | None = None) -> Array:
        """The array as the library reads it, by the first protocol that it takes."""
        for name in (via,) if via else _OFFERS:
            array = self.library.result(obj, _VIA[name]).array
            if array is not None:
                return array
        raise Skip("the library cannot read it")

    def begin(self, label: str) -> None:
        if self.driver:
            self.driver.done(label)

    def own_races(self, report: Report, during: str) -> None:
        """Races that no check provoked."""
        if self.driver:
            self.driver.done()
            for race in self.driver.races():
                report.add(RULE["order-own"], during, race)

    def touch(self, driver: Driver, stream: int, mode: str, array: Array | _Tensor) -> None:
        driver.touch(stream, mode, array.pointer or 0, array.shape or (), array.strides or (), array.itemsize or 1)

    # --- what one array says ---

    def layouts(self, report: Report) -> None:
        static = ("shape", "strides", "pointer", "type", "offered", "entries", "agreement")
        for part, (how, shape, strides, offset) in PARTS.items():
            if self.plain and part != "whole":
                continue
            self.begin(f"layout {part}")
            variant = "" if self.plain else part
            with report.check("strides", variant):
                whole = self.sample()
                how = self.parts.get(part, how)
                if how is None:
                    raise Skip("no function for this part was passed")
                array, error = ask(how, whole)
                if error is not None:
                    raise Skip(f"it is made otherwise: {describe(error)}")
                own, _ = ask(lambda: tuple(array.shape))
                if part != "whole" and (not any(self._offers(array, name) for name in _OFFERS) or own not in (None, shape)):
                    raise Skip("indexing makes something else")
                base = None if self.plain else self.array_of(whole).pointer
                expected = None if self.plain else (shape, strides, base and base + offset)
                self._compare(report, array, variant, expected, base, None if self.plain else _TYPE)
                for rule in static:
                    report.settle(rule, variant)
        if self.plain:
            return
        for shape in self.shapes:
            with report.check("shape", f"shape {shape}"):
                array, error = ask(self.make, shape, _TYPE)
                if error is not None:
                    raise Skip(f"not made: {describe(error)}")
                self._compare(report, array, f"shape {shape}", (shape, None, None), None, _TYPE)
        for kind in self.types:
            with report.check("type", kind):
                array, error = ask(self.make, _SHAPE, kind)
                if error is not None:
                    raise Skip(f"not made: {describe(error)}")
                self._compare(report, array, kind, None, None, kind)

    @staticmethod
    def _offers(array: Any, name: str) -> bool:
        return ask(getattr, type(array) if name.endswith("_api__") else array, name)[1] is None

    def _compare(
        self, report: Report, array: Any, variant: str, expected: tuple[tuple[int, ...], Sequence[int] | None, int | None] | None,
        base: int | None, kind: str | None,
    ) -> None:  # fmt: skip
        """What `inspect` finds, and what else than expected the library reads."""
        found = libcai.inspect(array, self.library.path)
        known: set[tuple[str, str]] = set()
        for finding in found.findings:
            if finding.severity != "note":
                known.add((of_finding(finding.rule).id, finding.protocol))
                message = f"{finding.protocol}: {finding.message} [{finding.rule}]"
                report.add(of_finding(finding.rule), variant, message, "fail" if finding.severity == "error" else "warning")
        for protocol in found.protocols:
            seen, via = protocol.array, protocol.name
            if seen is None or seen.shape is None or via not in _OFFERS:
                continue
            count = seen.elements
            if kind is not None and (seen.typestr or "")[1:] != TYPES[kind]:
                report.add(RULE["type"], variant, f"{via}: type {seen.typestr}, expected {TYPES[kind]}")
            if count and self.driver and protocol.state == "offered" and (seen.device or "cuda").startswith("cuda"):
                result = self.library.result(array, protocol.via, check=_abi.CAI_CHECK_DEVICE)
                if result.status in _MEMORY:
                    report.add(RULE["memory"], variant, f"{via}: {result.message}")
                elif result.array is not None:
                    report.settle("memory", variant)
            if expected is None:
                continue
            shape, strides, pointer = expected
            # A part may be a copy, which has its own strides.
            copied = seen.copied or (base is not None and not 0 <= (seen.pointer or 0) - base < 48)
            if seen.shape != shape:
                report.add(RULE["shape"], variant, f"{via}: shape {seen.shape}, expected {shape}")
            elif count and not copied and strides is not None and not seen.same_strides(strides):
                said = seen.strides if seen.strides_stated else f"None, which is {seen.strides}"
                if ("strides", via) not in known:
                    report.add(RULE["strides"], variant, f"{via}: strides {said}, expected {tuple(strides)}")
            elif count and not copied and pointer is not None and seen.pointer != pointer:
                report.add(RULE["pointer"], variant, f"{via}: the pointer is {(seen.pointer or 0) - pointer:+d} bytes off")

    def readings(self, report: Report) -> None:
        with report.check("no-trace"):
            self.needs(CAI)
            array = self.sample()
            before = sys.getrefcount(array)
            for _ in range(100):
                getattr(array, CAI)
            gc.collect()
            grown = sys.getrefcount(array) - before
            if grown >= 50:  # a few may belong to caches
                report.add(RULE["no-trace"], "", f"100 readings leave {grown} references to the object")

    # --- the arguments of __dlpack__ ---

    def arguments(self, report: Report) -> None:
        if DLPACK not in self.has:
            with report.check("dlpack-arguments"):
                self.needs(DLPACK)
            return
        self.begin("arguments")
        call, quiet = self.sample().__dlpack__, self.quiet
        is_new = not isinstance(ask(call, max_version=(1, 0), **quiet)[1], TypeError)
        versioned = {"max_version": (1, 0)} if is_new else {}
        with report.check("dlpack-default"):
            if not self.can_order():
                self.needs_driver()
            _, error = ask(call, **versioned)
            if error is not None:
                report.add(RULE["dlpack-default"], "", f"it raises {describe(error)}")
        with report.check("dlpack-stream"):
            self._streams(report, call)
        with report.check("dlpack-unasked"):
            for version in (None, (0, 8)) if is_new else ():
                got, error = ask(call, **quiet, **({"max_version": version} if version else {}))
                if error is None and _Tensor(got).version:
                    report.add(RULE["dlpack-unasked"], f"max_version={version}", "the tensor is of the versioned kind")
        with report.check("dlpack-version"):
            for version in ((1, 0), (9, 0)) if is_new else (None,):
                got, error = ask(call, **quiet, **({"max_version": version} if version else {}))
                if error is None and (_Tensor(got).version or (1, 0))[0] != 1:
                    report.add(RULE["dlpack-version"], f"max_version={version}", f"a tensor of version {_Tensor(got).version}")
        if not is_new:
            for rule in ("dlpack-copy", "dlpack-no-copy", "dlpack-device", "dlpack-host"):
                report.add(RULE[rule], "", "__dlpack__ has the arguments of before 1.0", "skipped")
            return
        self._copies(report, call)
        self._devices_asked(report, call)

    def _streams(self, report: Report, call: Callable[..., Any]) -> None:
        driver = self.needs_driver()
        if not self.cuda:
            raise Skip("the array is not in CUDA memory")
        # A library that takes a wrong number for a handle may crash on a real driver.
        for bad in (0, -2, 1.5, "1") if driver.simulated else (0,):
            if ask(call, stream=bad)[1] is None:
                report.add(RULE["dlpack-stream"], f"stream={bad!r}", "it is accepted")
        for good in (1, 2):
            _, error = ask(call, stream=good)
            if error is not None:
                report.add(RULE["dlpack-stream"], f"stream={good}", f"it raises {describe(error)}")

    def _copies(self, report: Report, call: Callable[..., Any]) -> None:
        options = {**self.quiet, "max_version": (1, 0)}
        with report.check("dlpack-copy"):
            plain = _Tensor(call(**options))
            if not self.can_order():
                self.needs_driver()
            got, error = ask(call, **{**options, "stream": None}, copy=True)
            tensor = _Tensor(got) if error is None else None
            if tensor is None:
                self._refusal(report, "copy=True", error)
            elif tensor.pointer == plain.pointer and not plain.flags & _dlpack.COPIED:
                report.add(RULE["dlpack-copy"], "", "no copy was made")
            elif tensor.version and not tensor.flags & _dlpack.COPIED:
                report.add(RULE["dlpack-copy"], "", "the tensor is a copy without the flag IS_COPIED")
        with report.check("dlpack-no-copy"):
            plain = _Tensor(call(**options))
            got, error = ask(call, **options, copy=False)
            if error is not None:
                if not plain.flags & _dlpack.COPIED:
                    report.add(RULE["dlpack-no-copy"], "", f"it raises {describe(error)}, and without it no copy is made", "warning")
            elif _Tensor(got).flags & _dlpack.COPIED or _Tensor(got).pointer != plain.pointer:
                report.add(RULE["dlpack-no-copy"], "", "the tensor is a copy")

    def _refusal(self, report: Report, variant: str, error: BaseException | None) -> None:
        """What is not supported: BufferError, or TypeError from an old signature."""
        if isinstance(error, TypeError):
            report.add(RULE["dlpack-arguments"], variant, f"it raises {describe(error)}")
        elif not isinstance(error, BufferError):
            report.add(RULE["dlpack-error"], variant, f"it raises {describe(error or Exception())}")

    def _devices_asked(self, report: Report, call: Callable[..., Any]) -> None:
        options = {**self.quiet, "max_version": (1, 0)}
        with report.check("dlpack-device"):
            for device in ((_abi.CAI_DEVICE_METAL, 0), (_abi.CAI_DEVICE_CUDA, 77)):
                got, error = ask(call, **options, dl_device=device)
                if error is not None:
                    self._refusal(report, f"dl_device={device}", error)
                elif _Tensor(got).device != device:
                    report.add(RULE["dlpack-device"], f"dl_device={device}", f"the tensor is on {_Tensor(got).device}")
            report.settle("dlpack-error")
            report.settle("dlpack-arguments")
        with report.check("dlpack-host"):
            if not self.can_order():
                self.needs_driver()
            got, error = ask(call, max_version=(1, 0), dl_device=(_abi.CAI_DEVICE_CPU, 0))
            if error is not None:
                report.add(RULE["dlpack-host"], "", f"it raises {describe(error)}")
            elif _Tensor(got).device[0] not in _ON_HOST:
                report.add(RULE["dlpack-device"], "dl_device=(1, 0)", f"the tensor is on {_Tensor(got).device}")

    # --- lifetime ---

    def lifetime(self, report: Report) -> None:
        with report.check("lifetime-tensor"):
            self.needs(DLPACK)
            self.needs_new_memory()
            array = self.sample()
            tensor = _Tensor(array.__dlpack__(**self.quiet))
            was = self.driver.device_of(tensor.pointer) if self.driver else None
            del array
            gc.collect()
            others = [self.sample() for _ in range(8)]
            if tensor.pointer and tensor.pointer in [self.array_of(other).pointer for other in others]:
                report.add(RULE["lifetime-tensor"], "", "a new array got the memory while a tensor held it")
            elif was is not None and self.driver and self.driver.device_of(tensor.pointer) is None:
                report.add(RULE["lifetime-tensor"], "", "the memory was freed while a tensor held it")
        for rule, in_thread in (("lifetime-release", False), ("lifetime-thread", True)):
            with report.check(rule):
                self.needs(DLPACK)
                alive = self._watched(self.sample())
                if not self._gone(alive):
                    raise Skip("the object lives on without a tensor")
                array = self.sample()
                alive, tensor = self._watched(array), _Tensor(array.__dlpack__(**self.quiet))
                del array
                if in_thread:
                    self._delete(tensor)
                del tensor
                if not self._gone(alive):
                    report.add(RULE[rule], "", "the object lives on after its tensor")
        with report.check("lifetime-stream"):
            driver = self.needs_driver()
            self.needs(CAI)
            if not driver.simulated:
                raise Skip("only the simulator can be asked about a stream that may be destroyed")
            with self.fresh() if self.fresh else contextlib.nullcontext():
                array = self.late() if self.late and not self.fresh else self.sample()
                handle = getattr(array, CAI).get("stream")
                if not isinstance(handle, int) or handle in (1, 2):
                    raise Skip("the array exports no stream of its own; pass late= or fresh=")
                known = driver.stream_id(handle)
            gc.collect()
            if known is None or driver.stream_id(handle) != known:
                report.add(RULE["lifetime-stream"], "", f"stream {handle:#x} is destroyed while the array lives")

    @staticmethod
    def _watched(array: Any) -> weakref.ref[Any]:
        try:
            return weakref.ref(array)
        except TypeError:
            raise Skip("the type has no weak references") from None

    def _gone(self, alive: weakref.ref[Any]) -> bool:
        """Whether an object ends: releases may wait for a stream."""
        for _ in range(50):
            gc.collect()
            if alive() is None:
                return True
            if self.driver:
                self.driver.done()
            time.sleep(0.01)
        return False

    @staticmethod
    def _delete(tensor: _Tensor) -> None:
        """Takes the tensor over, as a consumer does, and deletes it on another thread, without the lock."""
        used = {"dltensor": b"used_dltensor"}.get(tensor.name or "", b"used_dltensor_versioned")
        _rename(tensor.capsule, used)
        deleter = tensor.deleter
        if deleter:
            thread = threading.Thread(target=lambda: c.CFUNCTYPE(None, c.c_void_p)(deleter)(tensor.address))
            thread.start()
            thread.join()

    # --- order ---

    def _current(self, stream: int) -> AbstractContextManager[Any]:
        return self.on(stream) if self.on else contextlib.nullcontext()

    def _pending(self, driver: Driver, stream: int, beside: bool = False) -> Any:
        """An array that is being written: on the library's current stream, or on one that only the type knows, with
        nothing else to do, or beside other work."""
        if self.late and not self.on:
            return self.late()
        array = self.sample()
        if not beside:
            driver.done()
        if self.work:
            self.work(array)
        else:
            self.touch(driver, stream, WRITE, self.array_of(array))
        return array

    def order(self, report: Report) -> None:
        for rule, later in (("order-dict", False), ("order-dict-later", True)):
            with report.check(rule):
                driver = self._orders(report, rule)
                self.needs(CAI)
                self._after_dictionary(report, driver, rule, later)
        for rule, later in (("order-dlpack", False), ("order-dlpack-later", True)):
            for target in ("a stream", "1", "2", "None"):
                with report.check(rule, f"stream={target}"):
                    driver = self._orders(report, rule)
                    self.needs(DLPACK)
                    if not self.cuda:
                        raise Skip("the array is not in CUDA memory")
                    self._after_dlpack(report, driver, rule, target, later)
        with report.check("order-table"):
            driver = self._orders(report, "order-dict-later")
            self.needs(TABLE)
            stream = driver.stream("producer")
            with self._current(stream):
                said = self.array_of(self.sample(), TABLE).stream
            if said != stream:
                report.add(RULE["order-table"], "", f"current_work_stream is {said}, and the current stream {stream}")

    def _orders(self, report: Report, rule: str) -> Driver:
        driver = self.needs_driver(checker=True)
        if not (self.on or self.late):
            raise Skip("pass on= or late=")
        if rule.endswith("-later") and not self.on:
            raise Skip("pass on=")
        self.own_races(report, "make")
        driver.done(rule)
        return driver

    def _after_dictionary(self, report: Report, driver: Driver, rule: str, later: bool) -> None:
        theirs, mine = driver.stream("producer"), driver.stream("consumer")
        with self._current(theirs):
            array = self._pending(driver, theirs)
            value = getattr(array, CAI)
        if later:
            value = getattr(array, CAI)
        stream = value.get("stream")
        if stream is not None:
            driver.wait(mine, stream)
        seen = self.array_of(Offered(**value), CAI)
        self.touch(driver, mine, READ, seen)
        races = self._settled(driver, array)
        if not races:
            return
        if stream is None and value.get("version", 3) < 3:
            rule = "order-unnamed"
        said = f"stream is {stream if stream in (None, 1, 2) else 'another one'}" if "stream" in value else "there is no stream"
        report.add(RULE[rule], "", f"{said} in the dictionary: {races[0]}")

    def _after_dlpack(self, report: Report, driver: Driver, rule: str, target: str, later: bool) -> None:
        mine = {"1": 1, "2": 2, "None": 1}.get(target) or driver.stream("consumer")
        asked = None if target == "None" else mine
        theirs = driver.stream("producer")
        with self._current(theirs):
            array = self._pending(driver, theirs)
            got, error = (None, None) if later else ask(array.__dlpack__, stream=asked)
        if later:
            got, error = ask(array.__dlpack__, stream=asked)
        if error is not None:
            self._settled(driver, array)
            raise Skip(f"it raises {describe(error)}")
        tensor = _Tensor(got)
        self.touch(driver, mine, READ, tensor)
        races = self._settled(driver, array)
        if races:
            report.add(RULE[rule], f"stream={target}", races[0])

    @staticmethod
    def _settled(driver: Driver, array: Any) -> list[str]:
        """The races so far. All work is done before the array can end, which is no work of the type."""
        races = driver.races()
        driver.done()
        driver.races()
        del array
        return races

    def reuse(self, report: Report) -> None:
        with report.check("order-reuse"):
            driver = self._orders(report, "order-reuse")
            self.needs(CAI)
            self.needs_new_memory()
            theirs, mine = driver.stream("producer"), driver.stream("consumer")
            with self._current(theirs):
                array = self._pending(driver, theirs)
                value = getattr(array, CAI)
                seen, stream = self.array_of(Offered(**value), CAI), value.get("stream")
                # What the dictionary orders is another check.
                driver.wait(mine, stream if stream is not None and not self.on else theirs)
                driver.races()
                self.touch(driver, mine, READ, seen)
                driver.races()
                if stream is None:
                    driver.host_wait(mine)
                else:
                    driver.wait(stream, mine)
                del array, value
                gc.collect()
                kept = [self._pending(driver, theirs, beside=True) for _ in range(4)]
            del kept
            races = driver.races()
            if races:
                report.add(RULE["order-reuse"], "", races[0])

    # --- captures, threads, devices ---

    def capture(self, report: Report) -> None:
        with report.check("capture"):
            driver = self.needs_driver()
            if not self.on:
                raise Skip("pass on=")
            stream = driver.stream("capturing")
            with self.on(stream):
                array = self.sample()
                driver.done("capture")
                driver.begin_capture(stream)
                tried: list[tuple[str, BaseException | None]] = []
                if CAI in self.has:
                    tried.append(("the dictionary", ask(getattr, array, CAI)[1]))
                if DLPACK in self.has and self.cuda:
                    tried.append(("stream=-1", ask(array.__dlpack__, stream=-1)[1]))
                    tried.append(("the capturing stream", ask(array.__dlpack__, stream=stream)[1]))
                intact = driver.end_capture(stream)
            for what, error in tried:
                if error is not None:
                    report.add(RULE["capture"], what, f"it raises {describe(error)}")
            if not intact:
                report.add(RULE["capture"], "", "the capture is invalid afterwards")

    def threads(self, report: Report) -> None:
        with report.check("threads"):
            array, errors, seen = self.sample(), list[BaseException](), set[Any]()
            start = threading.Barrier(4, timeout=10)

            def read() -> None:
                try:
                    if self.driver:
                        self.driver.current(0)
                    start.wait()
                    for _ in range(50):
                        if CAI in self.has:
                            seen.add(getattr(array, CAI)["data"][0])
                        if DLPACK in self.has and (self.quiet or not self.cuda):
                            seen.add(_Tensor(array.__dlpack__(**self.quiet)).pointer)
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if errors and isinstance(errors[0], Skip):
                raise errors[0]
            if errors:
                report.add(RULE["threads"], "", f"a reading raises {describe(errors[0])}")
            elif len(seen) > 1 and len({self.array_of(array).pointer for _ in range(3)}) == 1:
                report.add(RULE["threads"], "", f"four threads read {len(seen)} different addresses")

    def devices(self, report: Report) -> None:
        for rule in ("device", "device-current"):
            with report.check(rule):
                driver = self.needs_driver()
                if not self.device or driver.devices < 2:
                    raise Skip("pass device=, and run it with two devices")
                with self.device(1):
                    array = self.sample()
                driver.current(0)
                if rule == "device":
                    self._device_of(report, driver, array)
                else:
                    self._from_another(report, driver, array)

    def _device_of(self, report: Report, driver: Driver, array: Any) -> None:
        for name in self.has & {DLPACK, TABLE, "__cai_exchange_api__"}:
            result = self.library.result(array, _VIA[name])
            driver.current(0)
            if result.array is None or result.array.device is None:
                continue
            there = driver.device_of(result.array.pointer or 0)
            if there is not None and result.array.device not in (f"cuda:{there}", f"cuda_managed:{there}"):
                report.add(RULE["device"], name, f"it says {result.array.device}, the memory is on device {there}")

    def _from_another(self, report: Report, driver: Driver, array: Any) -> None:
        for name, read in ((CAI, lambda: getattr(array, CAI)), (DLPACK, lambda: array.__dlpack__(**self.quiet))):
            if name in self.has:
                _, error = ask(read)
                if error is not None:
                    report.add(RULE["device-current"], name, f"it raises {describe(error)}")
                if driver.current_device() != 0:
                    report.add(RULE["device-current"], name, f"device {driver.current_device()} is current afterwards")
                driver.current(0)


_MEMORY = ("CAI_ERR_NOT_DEVICE_POINTER", "CAI_ERR_NOT_ACCESSIBLE", "CAI_ERR_OUT_OF_ALLOCATION", "CAI_ERR_DEVICE_MISMATCH")
_ON_HOST = (_abi.CAI_DEVICE_CPU, _abi.CAI_DEVICE_CUDA_HOST, _abi.CAI_DEVICE_ROCM_HOST)
# Names of capsules are not copied.
_USED = {name: c.create_string_buffer(name) for name in (b"used_dltensor", b"used_dltensor_versioned")}


def _rename(capsule: object, name: bytes) -> None:
    rename = c.PYFUNCTYPE(c.c_int, c.py_object, c.c_char_p)(("PyCapsule_SetName", c.pythonapi))
    rename(capsule, c.cast(_USED[name], c.c_char_p))
