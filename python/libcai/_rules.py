"""The rules that producers and consumers follow: one table for `libcai.testing`, `inspect` and the documentation."""

from __future__ import annotations

from typing import Literal, NamedTuple

# "must": the text of the source demands it. "known": so does the text, and large libraries follow another convention.
# "optional": the source recommends or allows it, or nothing but experience does.
Level = Literal["must", "known", "optional"]
# Of findings of `inspect`: wrong, breaks some consumers, good to know.
Severity = Literal["error", "warning", "note"]


class Rule(NamedTuple):
    """One rule. `id` stays. `names`: findings of `libcai.inspect` that are about it: with "!", errors; with "?", warnings;
    else notes. `after`: a fault of that rule is the likely cause."""

    id: str
    level: Level
    text: str
    source: str
    mend: str
    names: str = ""
    after: str = ""


_CAI, _DLPACK, _STANDARD = "CUDA Array Interface", "DLPack", "array API standard, __dlpack__"

RULES = (
    Rule("offered", "must", "A protocol describes the array, or raises AttributeError (BufferError in `__dlpack__`).", _CAI + ", " + _STANDARD,
         "Offer a protocol. For an array that cannot be exported, raise AttributeError in a property, and BufferError in `__dlpack__`.",
         "!no-protocol !no-library !unreadable !attribute-raises ?dlpack-raises"),
    Rule("entries", "must", "The library can read every entry.", "the rule behind the status, in the specification",
         "Correct the entry that the message names."),
    Rule("shape", "must", "`shape` is that of the array.", _CAI + " \"shape\"; " + _DLPACK,
         "Export the shape of this array, not of its base."),
    Rule("strides", "must", "`strides` are the distances in bytes (in elements in DLPack), and None only in C order.",
         _CAI + " \"strides\"; " + _DLPACK, "Write the strides; None only if the array is C-contiguous.", "!strides-none"),
    Rule("pointer", "must", "`data` is the address of the element at index zero.", _CAI + " \"data\"; " + _DLPACK,
         "Add the offset of the part to the address of its base."),
    Rule("type", "must", "The type is that of the elements.", _CAI + " \"typestr\"; " + _DLPACK,
         "Derive the typestr and DLPack's code and bits from the same type.",
         "?type-lost ?typestr-object typestr-order-missing ?typestr-order typestr-bits ?typestr-opaque"),
    Rule("memory", "must", "The driver knows the memory, and it contains the whole array.", _CAI + " \"data\"",
         "Export an address that a CUDA device can access, inside one allocation.", "", "shape strides pointer type"),
    Rule("agreement", "must", "All protocols of an object describe the same array.", _DLPACK + ", " + _CAI,
         "Derive all protocols from one description, as `libcai.export` does.",
         "!shape-differs !strides-differ !type-differs !pointer-differs ?readonly-differs !device-differs ?device-host"
         " !dlpack-device", "shape strides pointer type"),
    Rule("same-again", "optional", "Another reading describes the same array, in a dictionary of its own.", _CAI,
         "Make a new dictionary in each reading, of values that do not change.", "?dict-changes dict-shared"),
    Rule("names-the-work", "optional", "A dictionary of version 3 names the stream of pending work.", _CAI + " \"stream\"",
         "Export version 3 with `stream`, or wait for the work before the export.",
         "?version-no-stream version-old stream-absent"),
    Rule("layout", "optional", "Every consumer accepts the layout.", "experience",
         "Mention in your documentation that some consumers refuse it.",
         "?pointer-unaligned strides-not-multiple strides-negative strides-zero key-unknown"),
    Rule("mask", "optional", "A mask states one element for each element.", _CAI + " \"mask\"",
         "Export packed bits as '|t1'. Most consumers refuse masks.", "mask ?mask-packed"),
    Rule("buffer", "optional", "The OpenCL/CUDA buffer interface has all its attributes.", "OpenCL/CUDA buffer interface",
         "Add the attributes that are missing.", "?buffer-offset buffer-name"),
    Rule("tensor", "optional", "A tensor follows the newest recommendations.", "dlpack.h",
         "Make tensors of DLPack 1.x, with strides, NULL for no elements, and without byte_offset.",
         "dlpack-unversioned dlpack-copied ?dlpack-strides dlpack-byte-offset dlpack-bits dlpack-empty-pointer"),
    Rule("no-trace", "must", "Reading the dictionary has no effect on the lifetime of the object.", _CAI + " \"Lifetime management\"",
         "Release what a reading takes."),
    Rule("dlpack-arguments", "optional", "`__dlpack__` takes stream, max_version, dl_device and copy, by keyword only.", _STANDARD,
         "def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None)", "dlpack-arguments"),
    Rule("dlpack-stream", "optional", "`stream` is None, -1, 1, 2 or a handle; 0 is disallowed, because it is ambiguous.", _STANDARD,
         "Raise for 0, for other negative numbers and for other types."),
    Rule("dlpack-default", "must", "`stream=None` is accepted.", _STANDARD, "Take None as the legacy default stream."),
    Rule("dlpack-unasked", "optional", "Without max_version, the tensor is of the older kind.", _STANDARD,
         "Return a capsule named \"dltensor\", or raise BufferError."),
    Rule("dlpack-version", "must", "A tensor is of a version that exists, and has the capsule's name of its kind.", "dlpack.h, " + _STANDARD,
         "Set version to {1, x} in every DLManagedTensorVersioned."),
    Rule("dlpack-copy", "must", "`copy=True` returns a copy with the flag IS_COPIED, or raises BufferError.", _STANDARD + "; dlpack.h",
         "Copy and set DLPACK_FLAG_BITMASK_IS_COPIED, or raise BufferError."),
    Rule("dlpack-no-copy", "must", "`copy=False` never copies.", _STANDARD, "Raise BufferError if only a copy is possible."),
    Rule("dlpack-device", "must", "The tensor is on the device that dl_device asks for, or BufferError is raised.", _STANDARD,
         "Raise BufferError for every device but your own and those that you copy to."),
    Rule("dlpack-error", "optional", "What cannot be exported raises BufferError.", _STANDARD, "Raise BufferError."),
    Rule("dlpack-host", "optional", "`dl_device=(1, 0)` returns a copy in host memory.", _STANDARD,
         "Copy to the host, as `libcai.export` does."),
    Rule("lifetime-tensor", "must", "A tensor keeps the memory until its deleter is called.", "dlpack.h",
         "Hold a reference to the memory in manager_ctx."),
    Rule("lifetime-release", "must", "The deleter, which a capsule that nobody used also calls, releases the object.", "dlpack.h, Python specification",
         "Give the capsule a destructor that calls the deleter.", "", "no-trace"),
    Rule("lifetime-thread", "must", "The deleter may be called on any thread, without the interpreter's lock.", "dlpack.h, Python specification",
         "Take the lock in the deleter (PyGILState_Ensure) before you release an object.", "", "lifetime-release"),
    Rule("lifetime-stream", "must", "The exported stream lives as long as the exporting object.", _CAI + " \"Lifetime management\"",
         "Hold a reference to the stream in the array."),
    Rule("order-dict", "must", "A wait for the exported stream includes all work on the data.", _CAI + " \"Interface Requirements\"",
         "Export the stream of the work, or make the exported stream wait for it."),
    Rule("order-dict-later", "known", "So it does if another stream has become the library's current one.", _CAI + " \"Interface Requirements\"",
         "Remember the stream of the last work in the array.", "", "order-dict"),
    Rule("order-dlpack", "must", "`__dlpack__` makes the consumer's stream wait for all work on the data.", _STANDARD,
         "Record an event behind your work, and make `stream` wait for it (None: the legacy default stream).", "", "order-dict"),
    Rule("order-dlpack-later", "known", "So it does if another stream has become the library's current one.", _STANDARD,
         "Remember the stream of the last work in the array.", "", "order-dlpack order-dict order-dict-later"),
    Rule("order-unnamed", "optional", "A dictionary without a stream needs work that is done.", _CAI + " \"Interface Requirements\"",
         "Export version 3 with `stream`, or wait for the work before the export.", "", "names-the-work"),
    Rule("order-table", "optional", "current_work_stream of the exchange table is the library's current stream.", "dlpack.h",
         "Return the current stream of the device."),
    Rule("order-reuse", "must", "Memory is freed and used again after the work that the exported stream waits for.", _CAI + " \"Interface Requirements\"",
         "Free the memory in the order of the exported stream.", "", "order-dict"),
    Rule("order-own", "must", "The work of the type itself has no race.", "CUDA", "Order the two operations that the report names.", "",
         "order-dict order-reuse"),
    Rule("capture", "optional", "Reading an array does not break a capture of its stream.", "no text: experience",
         "Do not synchronize, and make streams wait by events only.", "", "order-dict order-unnamed"),
    Rule("threads", "optional", "Any thread may read an array, also several at once.", "no text: experience",
         "Protect what a reading changes."),
    Rule("device", "must", "The device is that of the memory, whichever is current.", _STANDARD + "; " + _DLPACK,
         "Ask the array, not the current context."),
    Rule("device-current", "optional", "Reading works, and changes nothing, while another device is current.", "no text: experience",
         "Make the array's device current for the call, and restore the other one."),
    # Of consumers.
    Rule("takes-layout", "must", "A consumer's array has the shape, strides and address of what it took.", _CAI + "; " + _DLPACK,
         "Read the strides and the offset, or refuse what you do not support."),
    Rule("takes-type", "must", "It has the type of what it took.", _CAI + " \"typestr\"; " + _DLPACK, "Refuse types that you do not have."),
    Rule("takes-entries", "must", "Older versions, absent entries and byte orders mean what the text says.", _CAI,
         "Read `strides` and `typestr`, byte order included, or raise."),
    Rule("takes-mask", "must", "A mask is applied or refused.", _CAI + " \"mask\"", "Raise if there is a mask that is not None."),
    Rule("takes-offset", "must", "The elements begin at data + byte_offset.", "dlpack.h", "Add byte_offset."),
    Rule("keeps-readonly", "optional", "Read-only arrays stay so.", _CAI + " \"data\"; dlpack.h", "Refuse them, or keep the flag."),
    Rule("keeps-object", "optional", "The producer's object lives as long as the consumer's array.", _CAI + " \"Lifetime management\"",
         "Keep a reference to the object that you read the dictionary of."),
    Rule("refuses-entries", "optional", "Wrong dictionaries are refused.", "no text: experience", "Check the entries that you use."),
    Rule("refuses-version", "must", "Tensors of another major version are refused.", "dlpack.h",
         "Compare version.major before you read anything but version, manager_ctx, deleter and flags."),
    Rule("refuses-tensor", "must", "Tensors of unknown types, lanes and devices are refused.", "dlpack.h", "Check device, code, bits and lanes."),
    Rule("deletes-once", "must", "The deleter is called once, when the array is no longer used.", "dlpack.h, Python specification",
         "Rename the capsule, and call the deleter when your array ends."),
    Rule("waits", "must", "A consumer's stream waits for the work of the producer.", _CAI + " \"Interface Requirements\"; " + _STANDARD,
         "Wait for the exported `stream`; pass your own stream to `__dlpack__`."),
    Rule("waits-back", "must", "After the end of a use, the producer's stream waits for the consumer's.", _CAI + " \"Interface Requirements\"",
         "Record an event behind your work, and make the exported stream wait for it.", "", "waits"),
    Rule("takes-in-capture", "optional", "Taking an array does not break a capture of the stream that it names.", "no text: experience",
         "Do not synchronize, and make streams wait by events only."),
)  # fmt: skip

RULE = {rule.id: rule for rule in RULES}
_SEVERITIES: dict[str, Severity] = {"!": "error", "?": "warning"}
_OF_FINDING: dict[str, tuple[Rule, Severity]] = {
    name.lstrip("!?"): (rule, _SEVERITIES.get(name[0], "note")) for rule in RULES for name in rule.names.split()
}


def of_finding(name: str) -> Rule:
    """The rule that a finding of `libcai.inspect` is about. Statuses of the library have one for all."""
    return RULE["entries"] if name.isupper() else _OF_FINDING[name][0]


def severity_of(name: str, protocol: str) -> Severity:
    """Of a finding. A conversion that the library refuses may be of a sound array, and `__array_struct__` knows few types."""
    if name.startswith("CAI_ERR_CONVERT_"):
        return "note" if protocol == "__array_struct__" else "warning"
    return "error" if name.isupper() else _OF_FINDING[name][1]


def table() -> str:
    """All rules, as a table in Markdown, with the findings of `inspect`."""
    rows = ["| check | level | rule | source | findings of `inspect` |", "|---|---|---|---|---|"]
    for rule in RULES:
        found = ", ".join(f"`{name}` ({level})" for name, (of, level) in _OF_FINDING.items() if of is rule)
        rows.append(f"| `{rule.id}` | {rule.level} | {rule.text} | {rule.source} | {found or '-'} |")
    return "\n".join(rows)
