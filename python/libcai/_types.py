"""Element types: the grammar of NumPy's array interface, and DLPack's codes."""

import re
import sys

from . import _abi

NATIVE = "<" if sys.byteorder == "little" else ">"
_LETTERS = "".join(_abi.KINDS)
_TYPESTR = re.compile(rf"([<>|])([{_LETTERS}])(\d{{1,18}}|(?<=O))(\[\w+\])?\Z")
# Format characters of Python's struct module, which some producers write instead.
_FORMATS = {"?": "b1", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8",
            "q": "i8", "Q": "u8", "e": "f2", "f": "f4", "d": "f8"}  # fmt: skip

_DLPACK_NAMES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "bool"}
# Names of types that NumPy's grammar does not have, as libraries call them.
OPAQUE = re.compile(rf"(?:\w+\.)*({'|'.join(name for name, code, *_ in _abi.DTYPES if code)})\Z")


class Type:
    """A typestr, taken apart. `itemsize` is None for bit fields and for what has no size."""

    def __init__(self, order, kind, size, unit=""):
        self.kind = kind
        self.itemsize = None if kind == "t" else size * 4 if kind == "U" else size
        swappable = kind == "U" or (kind in "iufcmM" and size > 1)
        self.order = (NATIVE if order == "|" else order) if swappable else "|"
        self.stated = order
        self.ordered = swappable
        self.key = (self.order, kind, size, unit)


def parse(typestr):
    """The type, and what is wrong with the text; either may be None."""
    found = _TYPESTR.match(typestr)
    if found:
        # NumPy writes the type of Python objects without a size.
        order, kind, size, unit = found[1], found[2], int(found[3] or 8), found[4] or ""
        if _abi.KINDS[kind] and size not in _abi.KINDS[kind]:
            return None, f"there is no type {kind!r} of {size} bytes"
        return Type(order, kind, size, unit), None
    bare = typestr.lstrip("<>|=")
    if bare in _FORMATS:
        return (
            Type(NATIVE, _FORMATS[bare][0], int(_FORMATS[bare][1:])),
            "this is a format character of Python's struct module",
        )
    found = _TYPESTR.match("|" + bare)
    if found and typestr[:1] in ("", "=", *_LETTERS):
        return Type(NATIVE, found[2], int(found[3] or 8), found[4] or ""), "the byte order is missing"
    return None, "expected byte order, kind and size, as in '<f4'"


def has_objects(descr):
    """Whether a field with these rows, or one inside it, is of Python objects. May raise what `descr` raises."""
    return any(
        row[1][1:2] == "O" if isinstance(row[1], str) else has_objects(row[1]) for row in descr
    )


def descr_size(descr):
    """Bytes of an element with these fields; None where it cannot be said. May raise what `descr` raises."""
    total = 0
    for row in descr:
        kind = row[1]
        if isinstance(kind, str):
            parsed, _ = parse(kind)
            size = parsed.itemsize if parsed else None
        else:
            size = descr_size(kind)
        if size is None:
            return None
        shape = row[2] if len(row) > 2 else ()
        for extent in (shape,) if isinstance(shape, int) else shape:
            size *= extent
        total += size
    return total


def of_dlpack(code, bits, lanes):
    """typestr, name and bytes of a DLPack type; the typestr is None where NumPy has nothing like it."""
    for name, number, kind, size, theirs in _abi.DTYPES:
        if theirs == (code, bits, lanes) and kind != "t":
            typestr = f"{'|' if size == 1 else NATIVE}{kind}{size}"
            return typestr, name if number else None, size
    name = f"{_DLPACK_NAMES.get(code, f'code {code}, ')}{bits}"
    size = bits * lanes // 8 if bits * lanes % 8 == 0 else None
    if lanes != 1:
        return None, f"{name} x {lanes}", size
    return (f"{'|' if size == 1 else NATIVE}V{size}" if size else None), name, size
