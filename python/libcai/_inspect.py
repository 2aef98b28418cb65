"""All protocols of one object, what each returns, and where they disagree."""

from . import _ask, _checks, _compare, _library, _protocols
from ._report import Findings, Inspection, Protocol, plain


def inspect(obj, library=None):
    findings = Findings()
    protocols = []
    for name, via, reader in _protocols.READERS:
        protocol = Protocol(name, via)
        protocol.state, protocol.message, protocol.array = _guarded(
            reader, obj, findings.about(name)
        )
        protocols.append(protocol)
        if protocol.array:
            _checks.tensor(obj, findings.about(name))
    _compare.compare(protocols, findings)
    asked, problem = _library.find(library)
    if asked:
        for protocol in protocols:
            protocol.library = asked.result(obj, protocol.via)
            # What only the library can read.
            if (
                protocol.name == "__cai_exchange_api__"
                and protocol.array
                and protocol.library.array
            ):
                version, protocol.array = protocol.array.version, protocol.library.array
                protocol.array.version = version
    if all(protocol.state == "absent" for protocol in protocols):
        findings.about("object")("error", "no-protocol", "it offers no protocol for arrays")
    findings.number()
    # A metaclass may say anything, or nothing.
    name, _ = _ask.ask(lambda kind: f"{kind.__module__}.{kind.__qualname__}", type(obj))
    return Inspection(
        plain(name or type.__repr__(type(obj))), protocols, findings, asked.path if asked else problem
    )


def _guarded(reader, obj, add):
    """The last line of defence: an object can be hostile in more ways than the readers know."""
    answer, error = _ask.ask(reader, obj, add)
    if error is None:
        return answer
    add("error", "unreadable", f"reading it ended in {_ask.describe(error)}")
    return "failed", _ask.describe(error), None
