"""All protocols of one object: what the library reads through each, what it refuses, and where they disagree."""

from __future__ import annotations

from typing import Literal

from . import _abi, _ask, _compare, _dictionary, _library, _protocols
from ._report import Add, Findings, Inspection, Protocol, plain


def inspect(obj: object, library: str | Literal[False] | None = None) -> Inspection:
    findings = Findings()
    asked, problem = _library.find(library)
    protocols: list[Protocol] = []
    for name, via in _protocols.NAMES:
        protocol, add = Protocol(name, via), findings.about(name)
        _, error = _ask.ask(_protocol, obj, protocol, asked, add)
        if error is not None:
            # The last line of defence: an object can be hostile in more ways than are known here.
            protocol.state, protocol.message, protocol.array = "failed", _ask.describe(error), None
            add("unreadable", f"reading it ended in {_ask.describe(error)}")
        protocols.append(protocol)
    _compare.compare(protocols, findings)
    if problem:
        findings.about("object")("no-library", f"nothing is read: {problem}")
    if all(protocol.state == "absent" for protocol in protocols):
        findings.about("object")("no-protocol", "it offers no protocol for arrays")
    findings.number()
    # A metaclass may say anything, or nothing.
    name, _ = _ask.ask(name_of, type(obj))
    return Inspection(
        plain(name or type.__repr__(type(obj))), protocols, findings, asked.path if asked else problem
    )


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _protocol(obj: object, protocol: Protocol, library: _library.Library | None, add: Add) -> None:
    """Fills a protocol, and adds what is found."""
    name, via = protocol.name, protocol.via
    protocol.state, protocol.message = _protocols.offered(obj, name, add)
    if library is None:
        return
    if protocol.state != "offered":
        protocol.library = library.result(obj, via)
        return
    is_dictionary = name in _dictionary.KEYS
    if is_dictionary:
        result, array = _dictionary.read(library, obj, protocol, add)
    else:
        result = library.result(obj, via)
        array = result.array
        if array is None and result.raised is None:
            add(result.status, _dictionary.message_of(name, result))
        if result.status == "CAI_ERR_CONVERT_GRAD":
            array = library.result(obj, via, _abi.CAI_IMPORT_ALLOW_GRAD).array
    protocol.library, protocol.array = result, array
    if result.raised is not None:
        protocol.state, protocol.message = _protocols.raised(name, result.raised, add)
    elif array is None:
        protocol.state = "failed"
    if array is None:
        return
    if name == _protocols.ARROW:
        array.readonly = None  # all of Arrow's arrays are
    _protocols.notes(obj, name, array, add)
    if is_dictionary:
        _dictionary.notes(obj, name, array, add)
        _dictionary.mask(library, obj, protocol, array, add)
        _dictionary.changes(library, obj, protocol, array, add)
    if name not in _protocols.TENSORS:
        _dictionary.meaning(obj, array, add)
    _dictionary.strides(array, add)
    if not result.array or name in _protocols.TENSORS:
        return
    if library.result(obj, via, _abi.CAI_IMPORT_REFUSE_OBJECTS).status == "CAI_ERR_CONVERT_TYPE":
        add("typestr-object",
            "it has Python objects, which only Python can use: libcai imports their bytes unless"
            " CAI_IMPORT_REFUSE_OBJECTS is set")  # fmt: skip
