"""Where the protocols of one object disagree."""

from __future__ import annotations

from collections.abc import Callable

from ._report import Add, Array, Findings, Protocol
from ._rules import Severity

Differ = Callable[[str, str, object, object], None]

_HOST = ("__array_interface__", "__array_struct__")
_ON_HOST = ("cpu",)


def compare(protocols: list[Protocol], findings: Findings) -> None:
    # The most complete one: the dictionary, or the first in the library's order.
    readable = [
        (protocol.name, protocol.array)
        for protocol in protocols
        if protocol.array and protocol.array.shape is not None
    ]
    readable.sort(key=lambda named: named[0] != "__cuda_array_interface__")
    for name, other in readable[1:]:
        known = any(finding.rule == "type-lost" for finding in findings)
        _pair(*readable[0], other, findings.about(name), known)
    _devices(protocols, findings)


def _pair(name: str, a: Array, b: Array, add: Add, known: bool) -> None:
    def differ(rule: str, what: str, mine: object, theirs: object, severity: Severity | None = None) -> None:
        add(rule, f"{what}: {theirs} here, {mine} in {name}", severity)

    if a.shape != b.shape:
        differ("shape-differs", "shape", a.shape, b.shape)
    elif (
        a.strides is not None
        and b.strides is not None
        and not (a.copied or b.copied)
        and not a.same_strides(b.strides)
    ):
        differ("strides-differ", "strides", _strides(a), _strides(b))
    _types_of(a, b, add, differ, known)
    # The same memory may have two addresses; two addresses on the same side of the bus are two pieces of memory.
    same_side = (a.device in _ON_HOST) == (b.device in _ON_HOST)
    comparable = bool(a.handle) == bool(b.handle) and not (a.copied or b.copied)
    if a.elements and comparable and a.pointer is not None and b.pointer is not None and a.pointer != b.pointer:
        differ("pointer-differs", "pointer", f"{a.pointer:#x}", f"{b.pointer:#x}", None if same_side else "note")
    if a.readonly is not None and b.readonly is not None and a.readonly != b.readonly:
        say = {True: "read-only", False: "writable"}
        differ("readonly-differs", "the read-only flag", say[a.readonly], say[b.readonly]
        )


def _strides(array: Array) -> str:
    return (
        str(array.strides)
        if array.strides_stated
        else f"None, which is C-contiguous: {array.strides},"
    )


def _types_of(a: Array, b: Array, add: Add, differ: Differ, known: bool) -> None:
    if a.type_name and b.type_name and a.type_name != b.type_name:
        differ("type-differs", "type", a.type_name, b.type_name)
    elif bool(a.type_name) != bool(b.type_name):
        # The one that names the type, and the one that has bytes for it.
        plain, named = (b, a) if a.type_name else (a, b)
        carries = plain.kind in "VWu" or (plain.kind == "f" and plain.itemsize == 1)
        if a.itemsize != b.itemsize or not carries:
            differ("type-differs", "type", a.type_name or a.typestr, b.type_name or b.typestr)
        elif not known:
            add("type-lost",
                f"{named.type_name} travels as {plain.typestr}: the type is lost, consumers need to know it")  # fmt: skip
    elif not a.type_name and (a.kind, a.itemsize, a.native, a.unit) != (b.kind, b.itemsize, b.native, b.unit):
        differ("type-differs", "type", a.typestr, b.typestr)


def _devices(protocols: list[Protocol], findings: Findings) -> None:
    found = {protocol.name: protocol.array for protocol in protocols if protocol.array}
    for name in ("__dlpack__", "__dlpack_c_exchange_api__"):
        tensor = found.get(name)
        if tensor is None or tensor.device is None:
            continue
        add = findings.about(name)
        if tensor.device == "cpu" and "__cuda_array_interface__" in found:
            add("device-host",
                "the tensor is in host memory; __cuda_array_interface__ is for memory that devices reach",
            )
        if tensor.device.partition(":")[0] in ("cuda", "rocm") and any(
            host in found for host in _HOST
        ):
            add("device-host",
                f"the tensor is on {tensor.device}; NumPy's protocols are for host memory",
            )
    both = [found[name] for name in ("__dlpack__", "__dlpack_c_exchange_api__") if name in found]
    if len(both) == 2 and both[0].device != both[1].device:
        findings.about("__dlpack__")("device-differs",
            f"device: {both[0].device} here, {both[1].device} in the exchange table",
        )
