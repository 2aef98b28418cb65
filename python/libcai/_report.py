"""What an inspection results in: protocols, findings, and both as text and JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol as Kind

from ._rules import Severity, severity_of

WIDTH = 100
State = Literal["offered", "absent", "declined", "failed"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Add(Kind):
    """Adds a finding: rule, message; a severity only where it is not that of the rule."""

    def __call__(self, rule: str, message: str, severity: Severity | None = None, /) -> None: ...


class Array:
    """An array as one protocol describes it, in one form for all protocols. None: not stated, or not readable.

    `strides` are in bytes, also where the protocol leaves them out (`strides_stated` is False then) or counts
    elements. `stream` is a number, "none" (nothing to wait for) or "unknown". `pointer` is the element with index
    zero; where `handle` is True, it is a handle and `byte_offset` counts from the start of what it stands for.
    """

    FIELDS = (
        "shape", "strides", "strides_stated", "typestr", "type_name", "itemsize", "descr", "pointer", "handle",
        "byte_offset", "device", "readonly", "stream", "version", "mask", "copied",
    )  # fmt: skip

    def __init__(self) -> None:
        self.shape: tuple[int, ...] | None = None
        self.strides: tuple[int, ...] | None = None
        self.strides_stated: bool | None = None
        self.typestr: str | None = None
        self.type_name: str | None = None
        self.itemsize: int | None = None
        self.descr: str | None = None
        self.pointer: int | None = None
        self.handle: bool | None = None
        self.byte_offset: int | None = None
        self.device: str | None = None
        self.readonly: bool | None = None
        self.stream: int | str | None = None
        # A number; that of DLPack is a text.
        self.version: int | str | None = None
        self.mask: Array | None = None
        self.copied: bool | None = None
        self.kind = ""
        self.native = True
        self.unit: tuple[int, int] | None = None
        self.has_fields = False

    @property
    def elements(self) -> int | None:
        """How many there are; None where the shape cannot be read."""
        if self.shape is None or any(extent < 0 for extent in self.shape):
            return None
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def same_strides(self, strides: Sequence[int]) -> bool:
        """Whether the strides that are used are equal to these."""
        return not self.elements or all(
            extent == 1 or mine == theirs
            for extent, mine, theirs in zip(self.shape or (), self.strides or (), strides)
        )

    def as_dict(self) -> dict[str, Any]:
        said = {field: getattr(self, field) for field in self.FIELDS}
        said["mask"] = self.mask and self.mask.as_dict()
        return {field: value for field, value in said.items() if value is not None}


class Protocol:
    """One protocol, and the object's behaviour when it is read.

    `state`: "offered"; "absent"; "declined": the object knows it, but not for this array (`message` has the reason);
    "failed": it raised what it must not, or returned what cannot be read.
    `library`: what `cai_array_from_python` answers.
    """

    def __init__(self, name: str, via: int) -> None:
        self.name = name
        self.via = via
        self.state: State = "absent"
        self.message: str | None = None
        self.array: Array | None = None
        self.library: Result | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "message": self.message,
            "array": self.array and self.array.as_dict(),
            "library": self.library and self.library.as_dict(),
        }


class Result:
    """What the library answers when it may use one protocol only. `raised`: the producer's exception, or None."""

    def __init__(
        self, status: str, message: str | None, array: Array | None = None, raised: BaseException | None = None
    ) -> None:
        self.status = status
        self.message = message
        self.array = array
        self.raised = raised

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "message": self.message,
            "array": self.array and self.array.as_dict(),
        }


class Finding:
    """Something that is wrong ("error"), that breaks some consumers ("warning"), or that is good to know ("note").

    `rule` is its name, which stays; `number` its place in this inspection.
    """

    def __init__(self, severity: Severity, protocol: str, rule: str, message: str) -> None:
        self.number = 0
        self.severity: Severity = severity
        self.protocol = protocol
        self.rule = rule
        self.message = message

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"<{self.number} {self.severity} {self.protocol} [{self.rule}] {self.message}>"


class Findings(list[Finding]):
    """Findings about one protocol at a time."""

    def about(self, protocol: str) -> Add:
        def add(rule: str, message: str, severity: Severity | None = None, /) -> None:
            # Several elements of one tuple can be wrong in the same way; the same words say nothing new.
            if not any((f.protocol, f.rule, f.message) == (protocol, rule, message) for f in self):
                self.append(Finding(severity or severity_of(rule, protocol), protocol, rule, message))

        return add

    def number(self) -> None:
        self.sort(key=lambda finding: SEVERITIES.index(finding.severity))
        for number, finding in enumerate(self, 1):
            finding.number = number


class Inspection:
    """What `libcai.inspect` found. `str()` is a table of at most 100 columns.

    `library`: the file of the library that was asked, or why none was; None where this was not wanted.
    """

    def __init__(self, name: str, protocols: list[Protocol], findings: Findings, library: str | None) -> None:
        self.type_name = name
        self.protocols = protocols
        self.findings = findings
        self.library = library

    def __getitem__(self, name: str) -> Protocol:
        for protocol in self.protocols:
            if protocol.name == name:
                return protocol
        raise KeyError(name)

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": self.type_name,
            "library": self.library,
            "protocols": [protocol.as_dict() for protocol in self.protocols],
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.as_dict(), indent=indent)

    def __repr__(self) -> str:
        return f"<libcai.Inspection of {self.type_name}: {self._counts()}>"

    def __str__(self) -> str:
        lines = [_cut(self.type_name, WIDTH), ""]
        read = [protocol for protocol in self.protocols if protocol.array]
        for start in range(0, len(read), 3):
            lines += [*_columns(read[start : start + 3]), ""]
        unread = [protocol.name for protocol in self.protocols if protocol.state == "offered" and not protocol.array]
        if unread:
            lines += _wrap("offered: ", ", ".join(unread))
        for protocol in self.protocols:
            if protocol.state in ("declined", "failed"):
                lines += _wrap(f"{protocol.name} {protocol.state}: ", protocol.message or "see below")
        absent = [protocol.name for protocol in self.protocols if protocol.state == "absent"]
        if absent:
            lines += _wrap("not offered: ", ", ".join(absent))
        lines += ["", *self._results(), "", self._counts()]
        for finding in self.findings:
            head = f"{finding.number:3} {finding.severity:8}"
            lines += _wrap(head, f"{finding.protocol}: {finding.message} [{finding.rule}]")
        return "\n".join(lines)

    def _results(self) -> list[str]:
        """Where the library takes the array there is nothing to add to the table."""
        if not any(protocol.library for protocol in self.protocols):
            return (
                _wrap("library: not asked: ", self.library)
                if self.library
                else ["library: not asked"]
            )
        if all(protocol.state in ("absent", "declined") for protocol in self.protocols):
            return ["library: has nothing to take"]
        # What the object itself declines is listed above, with its reason: no library refuses anything there.
        refused = [
            protocol.name
            for protocol in self.protocols
            if protocol.library
            and protocol.library.status != "CAI_OK"
            and protocol.state not in ("absent", "declined")
        ]
        if not refused:
            return ["library: takes all that is offered"]
        return _wrap("library: refuses ", ", ".join(refused))

    def _counts(self) -> str:
        counts = [
            (sum(f.severity == severity for f in self.findings), severity)
            for severity in SEVERITIES
        ]
        return ", ".join(counted(count, severity) for count, severity in counts)


def _columns(protocols: list[Protocol]) -> list[str]:
    rows = [("", [protocol.name for protocol in protocols])]
    for label, cell in _ROWS:
        cells = [cell(protocol.array) for protocol in protocols if protocol.array]
        if any(cells):
            rows.append((label, cells))
    if any(protocol.library for protocol in protocols):
        rows.append(
            (
                "library",
                [protocol.library.status if protocol.library else "" for protocol in protocols],
            )
        )
    return [
        "".join(f"{text:{width}}" for text, width in _fit(label, cells)).rstrip()
        for label, cells in rows
    ]


def _fit(label: str, cells: list[str]) -> list[tuple[str, int]]:
    return [(label, 11), *((_cut(cell, 28), 29) for cell in cells)]


def _strides(array: Array) -> str:
    if array.strides is None:
        return "None" if array.strides_stated is False else ""
    return str(array.strides) if array.strides_stated else f"None: {array.strides}"


def _type(array: Array) -> str:
    typestr = array.typestr or ""
    return f"{typestr} {array.type_name}".strip() if array.type_name else typestr


def _pointer(array: Array) -> str:
    if array.pointer is None:
        return ""
    return f"{array.pointer:#x}" + (f" + {array.byte_offset}" if array.byte_offset else "")


def _mask(array: Array) -> str:
    return "" if array.mask is None else f"{array.mask.typestr} {array.mask.shape}"


_ROWS: tuple[tuple[str, Callable[[Array], str]], ...] = (
    ("shape", lambda a: "" if a.shape is None else str(a.shape)),
    ("strides", _strides),
    ("type", _type),
    ("pointer", _pointer),
    ("device", lambda a: a.device or ""),
    ("read-only", lambda a: "" if a.readonly is None else "yes" if a.readonly else "no"),
    ("stream", lambda a: "" if a.stream is None else str(a.stream)),
    ("version", lambda a: "" if a.version is None else str(a.version)),
    ("mask", _mask),
)


def counted(count: int, thing: str) -> str:
    """A number of things: "1 error", "2 errors"."""
    return f"{count} {thing}{'s' * (count != 1)}"


def plain(text: str) -> str:
    """In one line, and nothing that a terminal would take for a command."""
    text = " ".join(text.split())
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    )


def _cut(text: str, width: int) -> str:
    text = plain(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def _wrap(head: str, text: str) -> list[str]:
    text = _cut(text, 600)
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * min(len(head), 13)
    ) or [head]
