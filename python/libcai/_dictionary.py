"""What consumers meet in dictionaries that the library accepts, or accepts unless it is strict."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, cast

from . import _abi
from ._ask import ask, describe, items_of, safely, show
from ._library import Library
from ._report import Add, Array, Protocol, Result, counted
from ._rules import Severity

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

KEYS = {
    "__cuda_array_interface__": ("shape", "typestr", "data", "version", "strides", "descr", "mask", "stream"),
    "__array_interface__": ("shape", "typestr", "data", "version", "strides", "descr", "mask", "offset"),
    "__sycl_usm_array_interface__": ("shape", "typestr", "data", "version", "strides", "offset", "syclobj"),
}  # fmt: skip
# Entries without which the rest of a dictionary can be read, and the version that it is then taken for.
_OPTIONAL = ("strides", "descr", "mask", "stream")
_VERSIONS = {"__sycl_usm_array_interface__": 1}


def read(library: Library, obj: object, protocol: Protocol, add: Add) -> tuple[Result, Array | None]:
    """Reports every entry that the library refuses, and those that it refuses if it is strict.

    The library names one at a time. The next call is about the same dictionary with another value in its place: the
    one that the library read, or one that changes nothing. Returns the first result, and the array of the last.
    """
    name, via = protocol.name, protocol.via
    first: Result | None = None
    array: Array | None = None
    entries: dict[str, Any] | None = None
    reported: set[tuple[str, str | None]] = set()
    unread: set[str] = set()
    passes: tuple[tuple[int, Severity | None], ...] = ((0, None), (_abi.CAI_IMPORT_STRICT, "warning"))
    for flags, severity in passes:
        tried: set[str | None] = set()
        while True:
            given = obj if entries is None else _Holder.of(name, entries)
            result = library.result(given, via, flags)
            first = first or result
            array = result.array or array
            if result.array or result.raised is not None:
                break
            path = re.match(rf"{name}(?:\['(\w+)'\])?", result.message or "")
            key = path and path[1]
            if (result.status, key) not in reported:
                add(result.status, message_of(name, result), severity)
            reported.add((result.status, key))
            if key in tried:
                break
            tried.add(key)
            entries = entries or items_of(ask(getattr, obj, name)[0], KEYS[name])
            # Without `data`, NumPy's dictionary leaves it to the object's buffer.
            if entries is None or "data" not in entries or not _replace(name, entries, key, array, unread):
                break
        if array is None:
            break
    assert first is not None
    if array is None:
        return first, None
    for key in unread:
        setattr(array, key, None)
    # What the bytes are is open, but not for the lack of fields.
    array.has_fields |= "descr" in unread
    return first, array


def message_of(name: str, result: Result) -> str:
    """The library's message, without the name of the protocol before the path."""
    return re.sub(rf"\A{name}(?:: |(?=[\[.]))", "", result.message or "")


class _Holder:
    """An object with one attribute."""

    @classmethod
    def of(cls, name: str, entries: dict[str, Any]) -> _Holder:
        made = cls()
        setattr(made, name, dict(entries))
        return made


def _replace(name: str, entries: dict[str, Any], key: str | None, array: Array | None, unread: set[str]) -> bool:
    """Replaces what was refused. Without a key, it is the object and not its dictionary."""
    if key is None:
        return True
    if array is None:
        unread.add(key)
    if key in _OPTIONAL and (array is None or key != "strides"):
        entries.pop(key, None)
    elif key == "version":
        entries[key] = _VERSIONS.get(name, 3) if array is None else array.version
    elif array is None or key not in ("shape", "strides", "typestr", "data"):
        return False
    elif key == "data":
        entries[key] = (array.pointer, array.readonly)
    else:
        entries[key] = getattr(array, key) if key != "strides" or array.strides_stated else None
    return True


def notes(obj: object, name: str, array: Array, add: Add) -> None:
    """What the library accepts and some consumers do not, or read in another way."""
    value, _ = ask(getattr, obj, name)
    others, error = ask(lambda: [key for key in value if key not in KEYS[name]])
    if error is None and others:
        names = ", ".join(show(key) for key in others[:8])
        add("key-unknown", f"{names}: the specification does not know this; a few consumers refuse it")
    if name != "__cuda_array_interface__":
        return
    version, (has_stream, _) = array.version, ask(operator.contains, value, "stream")
    number = version if isinstance(version, int) else None
    if number is not None and number < 2:
        add("version-old",
            f"version {version} leaves strides of C-contiguous arrays and pointers of empty ones open")  # fmt: skip
    if number is not None and number < 3 and has_stream is False:
        add("version-no-stream",
            f"version {version} has no stream on which work may be pending: the producer must wait for the work")  # fmt: skip
    elif number == 3 and has_stream is False:
        add("stream-absent", "version 3 without a stream means that no synchronization is needed")
    _own_strides(obj, array, add)


def changes(library: Library, obj: object, protocol: Protocol, array: Array, add: Add) -> None:
    """Two readings of the attribute."""
    name = protocol.name
    if name != "__cuda_array_interface__":
        return
    first, _ = ask(getattr, obj, name)
    second, error = ask(getattr, obj, name)
    if error is not None:
        add("dict-changes", f"a later reading raises {describe(error)}")
    elif first is second:
        add("dict-shared",
            "every reading returns the same dictionary: a change by one reader is visible to all")  # fmt: skip
    else:
        # Not `array`, which may be of a dictionary with entries in place of refused ones.
        one, again = (library.result(obj, protocol.via).array for _ in range(2))
        # The mask is another array; the name of the type comes from elsewhere.
        fields = [field for field in array.FIELDS if one and again and field not in ("mask", "type_name")]
        changed = [field for field in fields if getattr(one, field) != getattr(again, field)]
        if changed:
            add("dict-changes", f"two readings differ in {', '.join(changed)}")


def _own_strides(obj: object, array: Array, add: Add) -> None:
    """strides None, of an object whose own attribute differs: zero strides are easily mistaken for contiguous."""
    own, error = ask(getattr, obj, "strides", None)
    if array.strides_stated or array.strides is None or error is not None or not _is_ints(own):
        return
    if len(own) != len(array.strides):
        return
    # Some libraries count elements.
    if not any(array.same_strides(tuple(stride * unit for stride in own)) for unit in (1, array.itemsize or 1)):
        add("strides-none",
            f"strides is None, which means C-contiguous; the object's own strides are {own}")  # fmt: skip


def _is_ints(value: object) -> TypeGuard[tuple[int, ...]]:
    if not isinstance(value, tuple):
        return False
    return all(type(item) is int for item in cast("tuple[object, ...]", value))


def mask(library: Library, obj: object, protocol: Protocol, array: Array, add: Add) -> None:
    """A mask, and whether it may be packed bits."""
    value, _ = ask(getattr, obj, protocol.name)
    of, error = ask(operator.getitem, value, "mask")
    if error is not None or of is None:
        return
    add("mask", "it has a mask: most consumers refuse masks, and some do not look")
    found = library.result(of, protocol.via).array
    size = ((array.elements or 0) + 7) // 8
    if found and found.shape and found.kind == "u" and found.itemsize == 1 and found.shape != array.shape:
        if len(found.shape) == 1 and found.shape[0] >= size:
            add("mask-packed",
                f"mask has {counted(found.shape[0], 'byte')} for {counted(array.elements or 0, 'element')}: probably"
                " packed bits, which the type"
                " does not state")  # fmt: skip


def meaning(obj: object, array: Array, add: Add) -> None:
    """The type of an array whose typestr does not say it."""
    if array.kind in "iufcmMU" and (array.itemsize or 0) > 1 and (array.typestr or "").startswith("|"):
        add("typestr-order-missing",
            f"typestr is {array.typestr!r}: '|' means that byte order does not matter, but it does")  # fmt: skip
    if not array.native:
        add("typestr-order",
            f"typestr is {array.typestr!r}, not this machine's byte order: some consumers do not look")  # fmt: skip
    if array.kind == "t":
        add("typestr-bits",
            f"typestr is {array.typestr!r}: bit fields are in the specification, but NumPy does not know them")  # fmt: skip
    if array.type_name or array.has_fields or array.kind not in "VWfu":
        return
    dtype, _ = ask(getattr, obj, "dtype", None)
    found = _OPAQUE.match(safely(str, dtype)) if dtype is not None else None
    if found:
        array.type_name = found[1]
        add("type-lost",
            f"{found[1]} travels as {array.typestr}: the type is lost, consumers need to know it")  # fmt: skip
    elif array.kind in "VW" or (array.kind == "f" and array.itemsize == 1):
        add("typestr-opaque",
            f"typestr is {array.typestr!r}: opaque bytes; consumers need to know what they mean")  # fmt: skip


_OPAQUE = re.compile(rf"(?:\w+\.)*({'|'.join(name for name, code, *_ in _abi.DTYPES if code)})\Z")


def strides(array: Array, add: Add) -> None:
    """Addresses and strides that some consumers refuse."""
    if not array.elements or array.shape is None or array.strides is None:
        return
    size = (array.itemsize or 1) // (2 if array.kind == "c" else 1)
    if array.kind in "iufcmM" and array.device != "opencl" and (array.pointer or 0) % size:
        add("pointer-unaligned",
            f"the address {array.pointer:#x} is not a multiple of {counted(size, 'byte')}: kernels that load elements of"
            f" {array.typestr} fail")  # fmt: skip
    used = [stride for extent, stride in zip(array.shape, array.strides) if extent > 1]
    if any(stride % (array.itemsize or 1) for stride in used):
        add("strides-not-multiple",
            f"strides {array.strides} are not multiples of the {counted(array.itemsize or 1, 'byte')} of an element: some consumers"
            " refuse them")  # fmt: skip
    if any(stride < 0 for stride in used):
        add("strides-negative", f"strides {array.strides}: some consumers refuse negative ones")
    if any(stride == 0 for stride in used):
        add("strides-zero",
            f"strides {array.strides}: several indices share an element; writing is not safe")  # fmt: skip
