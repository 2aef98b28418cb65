"""Readers of the three dictionaries: `__cuda_array_interface__` and its relatives of NumPy and SYCL.

Each returns a state, a message and an `Array` or None.
"""

import operator

from . import _dlpack, _types
from ._ask import (
    ADDRESSES,
    MAX_MASKS,
    Refused,
    article,
    ask,
    attribute,
    describe,
    items,
    show,
    whole,
)
from ._checks import layout, opaque_type, same_strides
from ._report import Array


class Flavour:
    """What distinguishes the three dictionaries."""

    def __init__(self, versions, required, optional, counts_elements=False, device=None):
        self.versions = versions
        self.required = required
        self.optional = optional
        self.counts_elements = counts_elements
        self.device = device


CUDA = Flavour(
    range(4), ("shape", "typestr", "data", "version"), ("strides", "descr", "mask", "stream")
)
NUMPY = Flavour(
    (3,),
    ("shape", "typestr", "version"),
    ("data", "strides", "descr", "mask", "offset"),
    device="cpu",
)
SYCL = Flavour(
    (1,),
    ("shape", "typestr", "data", "syclobj", "version"),
    ("strides", "offset"),
    counts_elements=True,
    device="oneapi",
)


def cuda_array_interface(obj, add):
    name = "__cuda_array_interface__"
    state, message, array = _dictionary(obj, name, CUDA, add)
    if array is None:
        return state, message, array
    _own_strides(obj, array, add)
    first, _ = ask(getattr, obj, name)
    second, error = ask(getattr, obj, name)
    if error is not None:
        add("warning", "dict-changes", f"a later reading raises {describe(error)}")
    elif first is second:
        add(
            "note",
            "dict-shared",
            "every reading returns the same dictionary: a change by one reader is visible to all",
        )
    else:
        again, _ = ask(read_dictionary, second, CUDA, lambda *_: None)
        # The mask is another array; the name of the type comes from elsewhere.
        fields = [field for field in Array.FIELDS if again and field not in ("mask", "type_name")]
        changed = [field for field in fields if getattr(array, field) != getattr(again, field)]
        if changed:
            add("warning", "dict-changes", f"two readings differ in {', '.join(changed)}")
    return state, message, array


def _own_strides(obj, array, add):
    """strides None, of an object whose own attribute differs: zero strides are easily mistaken for contiguous."""
    own, error = ask(getattr, obj, "strides", None)
    if (
        array.strides_stated
        or array.strides is None
        or error is not None
        or not isinstance(own, tuple)
    ):
        return
    if len(own) != len(array.shape) or not all(type(stride) is int for stride in own):
        return
    # Some libraries count elements.
    if not any(
        same_strides(array, _with_strides(array, own, unit)) for unit in (1, array.itemsize)
    ):
        add(
            "error",
            "strides-none",
            f"strides is None, which means C-contiguous; the object's own strides are {own}",
        )


def _with_strides(array, strides, unit):
    other = Array()
    other.shape, other.strides = array.shape, tuple(stride * unit for stride in strides)
    return other


def array_interface(obj, add):
    return _dictionary(obj, "__array_interface__", NUMPY, add)


def sycl_usm_array_interface(obj, add):
    return _dictionary(obj, "__sycl_usm_array_interface__", SYCL, add)


def _dictionary(obj, name, flavour, add):
    value, state, message = attribute(obj, name, add)
    if state != "offered":
        return state, message, None
    try:
        array = read_dictionary(value, flavour, add)
    except Refused:
        return "failed", "what it answers cannot be read", None
    opaque_type(obj, array, add)
    return state, message, array


def read_dictionary(value, flavour, add, masks=()):
    """An `Array` of a dictionary. Reads each key once, and changes nothing."""
    entries = _snapshot(value, flavour, add)
    array = Array()
    array.device = flavour.device
    for key in flavour.required:
        if key not in entries:
            add("error", "key-missing", f"{key!r} is missing: the specification demands it")
    _version(entries, flavour, array, add)
    _shape(entries, array, add)
    _typestr(entries, flavour, array, add)
    _descr(entries, flavour, array, add)
    _strides(entries, flavour, array, add)
    _data(entries, flavour, array, add)
    if flavour is CUDA:
        _stream(entries, array, add)
    if flavour is not SYCL:
        _mask(entries, flavour, array, add, masks)
    layout(array, add)
    return array


def _snapshot(value, flavour, add):
    known = (*flavour.required, *flavour.optional)
    if not isinstance(value, dict):
        if isinstance(value, (str, bytes)) or not hasattr(type(value), "__getitem__"):
            add(
                "error",
                "not-a-dict",
                f"it is {show(value)}, {article(value)}: the specification asks for a dict",
            )
            raise Refused
        add(
            "warning",
            "not-a-dict",
            f"it is {article(value)}: the specification asks for a dict since version 2, and most consumers insist",
        )
    entries = {}
    for key in known:
        got, error = ask(operator.getitem, value, key)
        if error is None:
            entries[key] = got
        elif not isinstance(error, KeyError):
            add("error", "not-a-dict", f"reading {key!r} of it raises {describe(error)}")
            raise Refused
    others, error = ask(lambda: [key for key in value if key not in known])
    if error is None and others:
        names = ", ".join(show(key) for key in others[:8])
        add(
            "note",
            "key-unknown",
            f"{names}: the specification does not know this; a few consumers refuse it",
        )
    return entries


def _version(entries, flavour, array, add):
    if "version" not in entries:
        return
    array.version = whole(entries["version"], "version", add, 0, 1 << 31)
    if array.version is None:
        return
    if array.version not in flavour.versions:
        severity = "warning" if flavour is CUDA else "error"
        add(
            severity,
            "version",
            f"version is {array.version}: the newest that is specified is {max(flavour.versions)}",
        )
    elif flavour is CUDA and array.version < 2:
        add(
            "note",
            "version-old",
            f"version {array.version} leaves strides of C-contiguous arrays and pointers of empty ones open",
        )
    if flavour is CUDA and array.version == 0 and entries.get("mask") is not None:
        add("warning", "mask-version", "a mask in version 0, which does not know masks")


def _shape(entries, array, add):
    if "shape" not in entries:
        return
    extents = items(entries["shape"], "shape", add)
    shape = tuple(
        whole(extent, f"shape[{i}]", add, 0, ADDRESSES // 2 - 1) for i, extent in enumerate(extents)
    )
    array.shape = None if None in shape else shape


def _typestr(entries, flavour, array, add):
    if "typestr" not in entries:
        return
    typestr = entries["typestr"]
    if not isinstance(typestr, str):
        add(
            "error",
            "typestr-type",
            f"typestr is {show(typestr)}, {article(typestr)}: the specification asks for a str",
        )
        return
    parsed, problem = _types.parse(typestr)
    array.typestr = typestr
    if parsed is None:
        add("error", "typestr", f"typestr is {typestr!r}: {problem}")
        return
    if problem:
        add(
            "warning",
            "typestr",
            f"typestr is {typestr!r}: {problem}; consumers read it through NumPy, or refuse it",
        )
    array.itemsize = parsed.itemsize
    if parsed.order not in ("|", _types.NATIVE):
        add(
            "warning",
            "typestr-order",
            f"typestr is {typestr!r}, not this machine's byte order: some consumers do not look",
        )
    if parsed.ordered and parsed.stated == "|" and typestr.startswith("|"):
        add(
            "note",
            "typestr-order-missing",
            f"typestr is {typestr!r}: '|' means that byte order does not matter, but it does",
        )
    if parsed.kind == "t":
        add(
            "note",
            "typestr-bits",
            f"typestr is {typestr!r}: bit fields are in the specification, but NumPy does not know them",
        )
    if parsed.kind == "f" and parsed.itemsize == 1:
        add(
            "warning",
            "typestr-opaque",
            f"typestr is {typestr!r}: which of the 8-bit floats remains open, and NumPy knows none of them",
        )
    if parsed.kind == "O":
        _objects("the elements", flavour, add)
    if flavour is SYCL and parsed.kind not in "biufc":
        add("error", "typestr", f"typestr is {typestr!r}: this interface has only b, i, u, f and c")


def _objects(what, flavour, add):
    add(
        "warning" if flavour is not NUMPY else "note",
        "typestr-object",
        f"{what} are Python objects: nothing but Python can use them; libcai imports the bytes unless"
        " CAI_IMPORT_REFUSE_OBJECTS is set",
    )


def _descr(entries, flavour, array, add):
    descr = entries.get("descr")
    if descr is None:
        return
    array.descr = show(descr)
    named, _ = ask(lambda: any(row[0] != "" for row in descr))
    array.has_fields = bool(named)
    size, error = ask(_types.descr_size, descr)
    if error is not None or not isinstance(descr, list):
        add(
            "error",
            "descr",
            f"descr is {show(descr)}, expected a list of (name, type) or (name, type, shape)",
        )
        return
    if ask(_types.has_objects, descr)[0]:
        _objects("fields", flavour, add)
    if size is not None and array.itemsize is not None and size != array.itemsize:
        add(
            "error",
            "descr-size",
            f"descr has {show(size)} bytes, typestr {array.typestr!r} has {array.itemsize}",
        )


def _strides(entries, flavour, array, add):
    strides = entries.get("strides")
    if strides is None:
        array.strides_stated = False
        if array.shape is not None and array.itemsize:
            array.strides = _dlpack.c_strides(array.shape, array.itemsize)
        return
    array.strides_stated = True
    got = tuple(whole(stride, f"strides[{i}]", add, -ADDRESSES // 2, ADDRESSES // 2 - 1)
                for i, stride in enumerate(items(strides, "strides", add)))  # fmt: skip
    if None in got:
        return
    if array.shape is not None and len(got) != len(array.shape):
        add(
            "error",
            "strides-length",
            f"strides has {len(got)} elements, shape has {len(array.shape)}",
        )
        return
    if flavour.counts_elements:
        got = tuple(stride * array.itemsize for stride in got) if array.itemsize else None
    array.strides = got


def _data(entries, flavour, array, add):
    data = entries.get("data")
    if "data" not in entries or (data is None and flavour is NUMPY):
        return  # NumPy's dictionary may leave it to the buffer protocol
    if flavour is NUMPY and not isinstance(data, (tuple, list)):
        return  # an object with the buffer protocol
    pair = items(data, "data", add)
    if len(pair) != 2:
        add("error", "data", f"data has {len(pair)} elements, expected (pointer, read-only)")
        return
    pointer, readonly = pair
    if isinstance(readonly, bool):
        array.readonly = readonly
    else:
        add(
            "warning",
            "readonly-type",
            f"the read-only flag, data[1], is {show(readonly)}, expected a bool",
        )
        truth, _ = ask(bool, readonly)
        array.readonly = truth
    if pointer is None:
        severity = "warning" if array.elements == 0 else "error"
        add(
            severity,
            "pointer-none",
            "the pointer, data[0], is None, expected an int, which is 0 if there are no elements",
        )
        return
    array.pointer = whole(pointer, "the pointer, data[0],", add, 0, ADDRESSES - 1)
    if array.pointer is None:
        return
    if array.elements == 0 and array.pointer and flavour is CUDA:
        add(
            "warning",
            "empty-pointer",
            f"the pointer is {array.pointer:#x} for an array without elements: the specification demands 0",
        )
    if array.elements and not array.pointer:
        add("error", "null-pointer", f"the pointer is 0 for an array of {array.elements} elements")
    if flavour is SYCL:
        offset = whole(entries.get("offset") or 0, "offset", add, -ADDRESSES // 2, ADDRESSES // 2)
        array.pointer += (offset or 0) * (array.itemsize or 0)


def _stream(entries, array, add):
    version = array.version
    if "stream" not in entries:
        array.stream = "unknown" if version is None or version < 3 else "none"
        if version is not None and version < 3:
            add(
                "warning",
                "version-no-stream",
                f"version {version} has no stream on which work may be pending: the producer must wait for the"
                " work",
            )
        elif version is not None:
            add(
                "note",
                "stream-absent",
                "version 3 without a stream means that no synchronization is needed",
            )
        return
    if version is not None and version < 3:
        add(
            "warning",
            "stream-version",
            f"a stream in version {version}, which does not know streams: some consumers do not look",
        )
    stream = entries["stream"]
    if stream is None:
        array.stream = "none"
        return
    array.stream = whole(stream, "stream", add, 0, ADDRESSES - 1)
    if array.stream == 0:
        add(
            "error",
            "stream-zero",
            "stream is 0: the specification forbids it; 1 is the legacy default stream, 2 the per-thread one, None is"
            " nothing to wait for",
        )


def _mask(entries, flavour, array, add, masks):
    mask = entries.get("mask")
    if mask is None:
        return
    if len(masks) >= MAX_MASKS or any(mask is other for other in masks):
        add("error", "mask-depth", "masks hang on one another in a circle, or too deep")
        return
    name = "__cuda_array_interface__" if flavour is CUDA else "__array_interface__"

    def add_to_mask(severity, rule, message):
        # That the mask is of an old version has been entries of the array.
        if severity != "note" and rule != "version-no-stream":
            add(severity, rule, f"mask: {message}")

    add("note", "mask", "it has a mask: most consumers refuse masks, and some do not look")
    if isinstance(mask, dict):
        add(
            "error",
            "mask-type",
            "mask is a dict: the specification asks for an object that offers the interface",
        )
        return
    value, state, message = attribute(mask, name, add_to_mask)
    if state != "offered":
        add("error", "mask-type", f"mask is {article(mask)} that does not offer {name}")
        return
    try:
        array.mask = read_dictionary(value, flavour, add_to_mask, (*masks, mask))
    except Refused:
        return
    _mask_fits(array, array.mask, add)


def _mask_fits(array, mask, add):
    parsed = _types.parse(mask.typestr)[0] if mask.typestr else None
    if parsed and parsed.kind not in "biut":
        add(
            "error",
            "mask-kind",
            f"mask has elements of {mask.typestr!r}, expected booleans: consumers do not agree on -0.0; pass mask != 0",
        )
    if mask.shape is None or array.shape is None:
        return
    bits = (array.elements + 7) // 8
    if (
        mask.typestr in ("|u1", "<u1")
        and mask.shape != array.shape
        and len(mask.shape) == 1
        and mask.shape[0] >= bits
    ):
        add(
            "warning",
            "mask-packed",
            f"mask has {mask.shape[0]} bytes for {array.elements} elements: probably packed bits, which the type does not state",
        )
        return
    behind = array.shape[len(array.shape) - len(mask.shape) :]
    if len(mask.shape) > len(array.shape) or any(
        m not in (1, a) for m, a in zip(mask.shape, behind)
    ):
        add(
            "error",
            "mask-shape",
            f"mask has the shape {mask.shape}, which does not fit {array.shape}",
        )
