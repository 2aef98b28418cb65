"""Each protocol, asked and read. Whatever a producer does ends up in findings; nothing is raised.

Readers take the object and `add(severity, rule, message)`, and return a state, a message and an `Array` or None.
"""

import ctypes as c
import inspect
import operator
from collections.abc import Mapping

from . import _dlpack, _types
from ._report import Array, plain

MAX_NDIM = 64
MAX_MASKS = 8
ADDRESSES = 1 << 64


def told(error):
    """An exception in a line."""
    return plain(f"{type(error).__name__}: {_safely(str, error)[:1000]}").rstrip(": ")


def show(value):
    """A value in a few characters."""
    text = plain(_safely(repr, value)[:1000])
    return text if len(text) <= 60 else text[:57] + "..."


def _safely(function, value):
    try:
        return str(function(value))
    except Exception:
        return f"<{type(value).__name__}>"


class Refused(Exception):
    """Ends the reading of a protocol; what is wrong has been added to the findings."""


def ask(function, *arguments, **keywords):
    """What a producer's code answers, and what it raised: one of the two is None."""
    try:
        return function(*arguments, **keywords), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what other languages' panics become
        # Without the traceback, whose frames would keep the object alive.
        return None, error.with_traceback(None)


def attribute(obj, name, add):
    """An attribute, once: its value, or None and the state and the message that say why there is none."""
    value, error = ask(getattr, obj, name)
    if error is None:
        return value, "offered", None
    if isinstance(error, AttributeError):
        known, _ = ask(inspect.getattr_static, obj, name, None)
        # Without a property of that name, the words are Python's own, or those of __getattr__: no reason.
        return (None, "absent", None) if known is None else (None, "declined", told(error))
    add("error", "attribute-raises", f"reading it raises {told(error)}; without AttributeError, hasattr() raises too")
    return None, "failed", told(error)


def whole(value, what, add, low=None, high=None):
    """A whole number, or None. Accepts what has __index__, as all careful consumers do."""
    if isinstance(value, bool):
        add("error", "not-a-number", f"{what} is {value}: a bool where a number is asked for")
        return None
    number, error = ask(operator.index, value)
    if error is not None:
        add("error", "not-a-number", f"{what} is {show(value)}, {_article(value)}, where an int is asked for")
        return None
    if not isinstance(value, int):
        add("warning", "not-an-int", f"{what} is {_article(value)}: the specification asks for an int")
    if (low is not None and number < low) or (high is not None and number > high):
        add(
            "error",
            "number-range",
            f"{what} is {show(number)}, which is {'below ' + str(low) if number < low else 'too high'}",
        )
        return None
    return number


def _article(value):
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def items(value, what, add):
    """The elements of what should be a tuple; refuses what is no sequence."""
    if isinstance(value, (str, bytes, Mapping)) or not (
        hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__")
    ):
        add("error", "not-a-tuple", f"{what} is {show(value)}, {_article(value)}: the specification asks for a tuple")
        raise Refused
    if isinstance(value, list):
        add(
            "warning",
            "list-for-tuple",
            f"{what} is a list: the specification asks for a tuple, and some consumers insist",
        )
    elif not isinstance(value, tuple):
        add(
            "warning",
            "sequence-for-tuple",
            f"{what} is {_article(value)}: the specification asks for a tuple, and some consumers insist",
        )
    length, error = ask(len, value)
    if error is None and length > MAX_NDIM:
        add("error", "ndim", f"{what} has {length} elements: more than {MAX_NDIM} dimensions are too many")
        raise Refused
    got = []
    for index in range(length or 0):
        element, error = ask(operator.getitem, value, index)
        if error is not None:
            break
        got.append(element)
    if error is not None:
        add("error", "not-a-tuple", f"{what} cannot be read: {told(error)}")
        raise Refused
    return got


# --- dictionaries -----------------------------------------------------------------------------------------


class Flavour:
    """What distinguishes the three dictionaries."""

    def __init__(self, versions, required, optional, counts_elements=False, device=None):
        self.versions = versions
        self.required = required
        self.optional = optional
        self.counts_elements = counts_elements
        self.device = device


CUDA = Flavour(range(4), ("shape", "typestr", "data", "version"), ("strides", "descr", "mask", "stream"))
NUMPY = Flavour((3,), ("shape", "typestr", "version"), ("data", "strides", "descr", "mask", "offset"), device="cpu")
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
        add("warning", "dict-changes", f"a later reading raises {told(error)}")
    elif first is second:
        add("note", "dict-shared", "every reading gives the same dictionary: whoever changes it changes it for all")
    else:
        again, _ = ask(_read, second, CUDA, lambda *_: None)
        # The mask is another array; the name of the type comes from elsewhere.
        fields = [field for field in Array.FIELDS if again and field not in ("mask", "type_name")]
        changed = [field for field in fields if getattr(array, field) != getattr(again, field)]
        if changed:
            add("warning", "dict-changes", f"two readings differ in {', '.join(changed)}")
    return state, message, array


def _own_strides(obj, array, add):
    """strides None, of an object whose own attribute says otherwise: zeros are easily taken for contiguous."""
    own, error = ask(getattr, obj, "strides", None)
    if array.strides_stated or array.strides is None or error is not None or not isinstance(own, tuple):
        return
    if len(own) != len(array.shape) or not all(type(stride) is int for stride in own):
        return
    # Some libraries count elements.
    if not any(same_strides(array, _with_strides(array, own, unit)) for unit in (1, array.itemsize)):
        add("error", "strides-none", f"strides is None, which says C-contiguous; the object's own strides are {own}")


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
        array = _read(value, flavour, add)
    except Refused:
        return "failed", "what it answers cannot be read", None
    opaque_type(obj, array, add)
    return state, message, array


def _read(value, flavour, add, masks=()):
    """An `Array` of a dictionary. Reads each key once, and changes nothing."""
    said = _snapshot(value, flavour, add)
    array = Array()
    array.device = flavour.device
    for key in flavour.required:
        if key not in said:
            add("error", "key-missing", f"{key!r} is missing: the specification demands it")
    _version(said, flavour, array, add)
    _shape(said, array, add)
    _typestr(said, flavour, array, add)
    _descr(said, array, add)
    _strides(said, flavour, array, add)
    _data(said, flavour, array, add)
    if flavour is CUDA:
        _stream(said, array, add)
    if flavour is not SYCL:
        _mask(said, flavour, array, add, masks)
    layout(array, add)
    return array


def _snapshot(value, flavour, add):
    known = (*flavour.required, *flavour.optional)
    if not isinstance(value, dict):
        if isinstance(value, (str, bytes)) or not hasattr(type(value), "__getitem__"):
            add("error", "not-a-dict", f"it is {show(value)}, {_article(value)}: the specification asks for a dict")
            raise Refused
        add(
            "warning",
            "not-a-dict",
            f"it is {_article(value)}: the specification asks for a dict since version 2, and most consumers insist",
        )
    said = {}
    for key in known:
        got, error = ask(operator.getitem, value, key)
        if error is None:
            said[key] = got
        elif not isinstance(error, KeyError):
            add("error", "not-a-dict", f"reading {key!r} of it raises {told(error)}")
            raise Refused
    others, error = ask(lambda: [key for key in value if key not in known])
    if error is None and others:
        names = ", ".join(show(key) for key in others[:8])
        add("note", "key-unknown", f"{names}: the specification does not know this; a few consumers refuse it")
    return said


def _version(said, flavour, array, add):
    if "version" not in said:
        return
    array.version = whole(said["version"], "version", add, 0, 1 << 31)
    if array.version is None:
        return
    if array.version not in flavour.versions:
        severity = "warning" if flavour is CUDA else "error"
        add(severity, "version", f"version is {array.version}: the newest that is specified is {max(flavour.versions)}")
    elif flavour is CUDA and array.version < 2:
        add(
            "note",
            "version-old",
            f"version {array.version} says nothing on strides of C-contiguous arrays and on empty ones",
        )
    if flavour is CUDA and array.version == 0 and said.get("mask") is not None:
        add("warning", "mask-version", "a mask in version 0, which does not know masks")


def _shape(said, array, add):
    if "shape" not in said:
        return
    extents = items(said["shape"], "shape", add)
    shape = tuple(whole(extent, f"shape[{i}]", add, 0, ADDRESSES // 2 - 1) for i, extent in enumerate(extents))
    array.shape = None if None in shape else shape


def _typestr(said, flavour, array, add):
    if "typestr" not in said:
        return
    typestr = said["typestr"]
    if not isinstance(typestr, str):
        add(
            "error",
            "typestr-type",
            f"typestr is {show(typestr)}, {_article(typestr)}: the specification asks for a str",
        )
        return
    parsed, problem = _types.parse(typestr)
    array.typestr = typestr
    if parsed is None:
        add("error", "typestr", f"typestr is {typestr!r}: {problem}")
        return
    if problem:
        add("warning", "typestr", f"typestr is {typestr!r}: {problem}; consumers read it through NumPy, or refuse it")
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
            f"typestr is {typestr!r}: '|' says that byte order does not matter, and it does",
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
        add(
            "error" if flavour is not NUMPY else "note",
            "typestr-object",
            "the elements are Python objects: nothing but Python can use them",
        )
    if flavour is SYCL and parsed.kind not in "biufc":
        add("error", "typestr", f"typestr is {typestr!r}: this interface has only b, i, u, f and c")


def _descr(said, array, add):
    descr = said.get("descr")
    if descr is None:
        return
    array.descr = show(descr)
    named, _ = ask(lambda: any(row[0] != "" for row in descr))
    array.has_fields = bool(named)
    size, error = ask(_types.descr_size, descr)
    if error is not None or not isinstance(descr, list):
        add("error", "descr", f"descr is {show(descr)}: a list of (name, type) or (name, type, shape) is asked for")
    elif size is not None and array.itemsize is not None and size != array.itemsize:
        add("error", "descr-size", f"descr has {show(size)} bytes, typestr {array.typestr!r} has {array.itemsize}")


def _strides(said, flavour, array, add):
    strides = said.get("strides")
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
        add("error", "strides-length", f"strides has {len(got)} elements, shape has {len(array.shape)}")
        return
    if flavour.counts_elements:
        got = tuple(stride * array.itemsize for stride in got) if array.itemsize else None
    array.strides = got


def _data(said, flavour, array, add):
    data = said.get("data")
    if "data" not in said or (data is None and flavour is NUMPY):
        return  # NumPy's dictionary may leave it to the buffer protocol
    if flavour is NUMPY and not isinstance(data, (tuple, list)):
        return  # an object with the buffer protocol
    pair = items(data, "data", add)
    if len(pair) != 2:
        add("error", "data", f"data has {len(pair)} elements: (pointer, read-only) is asked for")
        return
    pointer, readonly = pair
    if isinstance(readonly, bool):
        array.readonly = readonly
    else:
        add("warning", "readonly-type", f"the read-only flag, data[1], is {show(readonly)}: a bool is asked for")
        truth, _ = ask(bool, readonly)
        array.readonly = truth
    if pointer is None:
        severity = "warning" if array.elements == 0 else "error"
        add(
            severity,
            "pointer-none",
            "the pointer, data[0], is None: an int is asked for, 0 where there are no elements",
        )
        return
    array.pointer = whole(pointer, "the pointer, data[0],", add, 0, ADDRESSES - 1)
    if array.pointer is None:
        return
    if array.elements == 0 and array.pointer and flavour is CUDA:
        add(
            "warning",
            "empty-pointer",
            f"the pointer is {array.pointer:#x} for an array without elements: the specification says to use 0",
        )
    if array.elements and not array.pointer:
        add("error", "null-pointer", f"the pointer is 0 for an array of {array.elements} elements")
    if flavour is SYCL:
        offset = whole(said.get("offset") or 0, "offset", add, -ADDRESSES // 2, ADDRESSES // 2)
        array.pointer += (offset or 0) * (array.itemsize or 0)


def _stream(said, array, add):
    version = array.version
    if "stream" not in said:
        array.stream = "unknown" if version is None or version < 3 else "none"
        if version is not None and version < 3:
            add(
                "warning",
                "version-no-stream",
                f"version {version} cannot say which stream work is pending on: whoever hands it over must wait for the"
                " work",
            )
        elif version is not None:
            add("note", "stream-absent", "version 3 without a stream says that there is nothing to wait for")
        return
    if version is not None and version < 3:
        add(
            "warning",
            "stream-version",
            f"a stream in version {version}, which does not know streams: some consumers do not look",
        )
    stream = said["stream"]
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


def _mask(said, flavour, array, add, masks):
    mask = said.get("mask")
    if mask is None:
        return
    if len(masks) >= MAX_MASKS or any(mask is other for other in masks):
        add("error", "mask-depth", "masks hang on one another in a circle, or too deep")
        return
    name = "__cuda_array_interface__" if flavour is CUDA else "__array_interface__"

    def add_to_mask(severity, rule, message):
        # That the mask is of an old version has been said of the array.
        if severity != "note" and rule != "version-no-stream":
            add(severity, rule, f"mask: {message}")

    add("note", "mask", "it has a mask: most consumers refuse masks, and some do not look")
    if isinstance(mask, dict):
        add("error", "mask-type", "mask is a dict: the specification asks for an object that offers the interface")
        return
    value, state, message = attribute(mask, name, add_to_mask)
    if state != "offered":
        add("error", "mask-type", f"mask is {_article(mask)} that does not offer {name}")
        return
    try:
        array.mask = _read(value, flavour, add_to_mask, (*masks, mask))
    except Refused:
        return
    _mask_fits(array, array.mask, add)


def _mask_fits(array, mask, add):
    parsed = _types.parse(mask.typestr)[0] if mask.typestr else None
    if parsed and parsed.kind not in "biut":
        add("warning", "mask-kind", f"mask has elements of {mask.typestr!r}: true and not true are asked for")
    if mask.shape is None or array.shape is None:
        return
    bits = (array.elements + 7) // 8
    if mask.typestr in ("|u1", "<u1") and mask.shape != array.shape and len(mask.shape) == 1 and mask.shape[0] >= bits:
        add(
            "warning",
            "mask-packed",
            f"mask has {mask.shape[0]} bytes for {array.elements} elements: packed bits, it seems, and nothing says so",
        )
        return
    behind = array.shape[len(array.shape) - len(mask.shape) :]
    if len(mask.shape) > len(array.shape) or any(m not in (1, a) for m, a in zip(mask.shape, behind)):
        add("error", "mask-shape", f"mask has the shape {mask.shape}, which does not fit {array.shape}")


# --- what holds for every protocol ------------------------------------------------------------------------


def layout(array, add):
    """Shape, strides and pointer together."""
    shape, strides, itemsize = array.shape, array.strides, array.itemsize
    if shape is None or strides is None or not itemsize:
        return
    if array.elements * itemsize >= ADDRESSES // 2:
        add("error", "size", f"{array.elements} elements of {itemsize} bytes are more than there are addresses")
        return
    if not array.elements:
        return
    used = [(extent, stride) for extent, stride in zip(shape, strides) if extent > 1]
    low = sum((extent - 1) * stride for extent, stride in used if stride < 0)
    high = sum((extent - 1) * stride for extent, stride in used if stride > 0) + itemsize
    if array.pointer and not array.handle and (array.pointer + low < 0 or array.pointer + high > ADDRESSES):
        add(
            "error",
            "address-range",
            f"it reaches from {low} to {high} bytes around {array.pointer:#x}: that leaves the address space",
        )
    if any(stride % itemsize for _, stride in used):
        add(
            "note",
            "strides-not-multiple",
            f"strides {strides} are not multiples of the {itemsize} bytes of an element: some consumers refuse them",
        )
    if any(stride < 0 for _, stride in used):
        add("note", "strides-negative", f"strides {strides}: some consumers refuse negative ones")
    if any(stride == 0 for _, stride in used):
        add("note", "strides-zero", f"strides {strides}: several indices share an element; writing is not safe")


def same_strides(array, other):
    """Whether the strides that are used are equal."""
    return not array.elements or all(
        extent == 1 or mine == theirs for extent, mine, theirs in zip(array.shape, array.strides, other.strides)
    )


def opaque_type(obj, array, add):
    """What the object's `dtype` says about opaque bytes."""
    parsed = _types.parse(array.typestr)[0] if array.typestr else None
    if parsed is None or parsed.kind not in "Vfu" or array.has_fields:
        return
    dtype, _ = ask(getattr, obj, "dtype", None)
    found = _types.OPAQUE.match(_safely(str, dtype)) if dtype is not None else None
    if found:
        array.type_name = found[1]
        add("warning", "type-lost", f"{found[1]} travels as {array.typestr}: the type is lost, consumers must be told")
    elif parsed.kind == "V":
        add(
            "warning",
            "typestr-opaque",
            f"typestr is {array.typestr!r}: opaque bytes; consumers must be told what they mean",
        )


# --- DLPack -----------------------------------------------------------------------------------------------

NEWEST = (1, 3)


def dlpack(obj, add):
    method, state, message = attribute(obj, "__dlpack__", add)
    where, where_state, where_message = attribute(obj, "__dlpack_device__", add)
    if state != "offered":
        if where_state == "offered":
            add("error", "dlpack-half", "the object offers __dlpack_device__, but not __dlpack__")
        return state, message, None
    device = None
    if where_state != "offered":
        add(
            "error",
            "dlpack-half",
            f"the object offers __dlpack__, but not __dlpack_device__{': ' + where_message if where_message else ''}",
        )
    else:
        device = _dlpack_device(where, add)
    capsule, error = _dlpack_call(method, device, add)
    if error is not None:
        if isinstance(error, (BufferError, AttributeError)):
            return "declined", told(error), None
        add(
            "warning",
            "dlpack-raises",
            f"it raises {told(error)}: BufferError is asked for where an array cannot be exported",
        )
        return "failed", told(error), None
    if not _dlpack.is_capsule(capsule):
        add("error", "dlpack-capsule", f"it returns {_article(capsule)}: a capsule is asked for")
        return "failed", "no capsule", None
    name = _dlpack.capsule_name(capsule)
    if name not in ("dltensor", "dltensor_versioned"):
        add(
            "error",
            "dlpack-capsule",
            f"the capsule's name is {name!r}: 'dltensor' or 'dltensor_versioned' is asked for",
        )
        return "failed", f"a capsule {name!r}", None
    # The capsule is only read. Its destructor, when this function is left, lets the tensor go.
    if name == "dltensor":
        array = _dlpack.read(_dlpack.capsule_at(capsule, _dlpack.Managed).tensor, add, "the tensor")
        array.version = "before 1.0"
        add("note", "dlpack-unversioned", "the tensor is of the older kind, which cannot say that it is read-only")
    else:
        managed = _dlpack.capsule_at(capsule, _dlpack.ManagedVersioned)
        array = _dlpack_versioned(managed, add)
        if array is None:
            return "failed", f"DLPack {managed.version.major}.{managed.version.minor}", None
    if device is not None and array.device != device:
        add("error", "dlpack-device", f"__dlpack_device__ says {device}, the tensor says {array.device}")
    layout(array, add)
    return "offered", None, array


def _dlpack_device(function, add):
    pair, error = ask(function)
    if error is not None:
        add("error", "dlpack-device", f"__dlpack_device__ raises {told(error)}")
        return None
    try:
        got = items(pair, "what __dlpack_device__ returns", add)
    except Refused:
        return None
    numbers = [whole(value, "a number that __dlpack_device__ returns", add, -(1 << 31), 1 << 31) for value in got]
    if len(numbers) != 2 or None in numbers:
        add("error", "dlpack-device", f"__dlpack_device__ returns {show(pair)}: (type, id) is asked for")
        return None
    return _dlpack.device_name(*numbers)


def _dlpack_call(method, device, add):
    """Calls `__dlpack__` with all that the standard knows, and with less where that is refused."""
    streams = {_dlpack.DEVICES[kind] for kind in _dlpack.WITH_STREAMS}
    # -1: nothing shall be ordered; nothing is going to touch the data.
    stream = {"stream": -1 if device and device.partition(":")[0] in streams else None}
    version = {"max_version": NEWEST}
    refusal = None
    for number, keywords in enumerate(({**stream, **version}, stream, version, {})):
        capsule, error = ask(method, **keywords)
        if error is None:
            if number:
                given = ", ".join(keywords) or "nothing"
                add(
                    "note",
                    "dlpack-arguments",
                    f"it takes {given} of 'stream' and 'max_version': newer keywords are refused",
                )
            return capsule, None
        if not isinstance(error, (BufferError, TypeError)):
            return None, refusal or error
        # A BufferError is a reason; a TypeError says perhaps only that a keyword is not known.
        if refusal is None or (isinstance(refusal, TypeError) and isinstance(error, BufferError)):
            refusal = error
    return None, refusal


def _dlpack_versioned(managed, add):
    version = managed.version
    if version.major != 1:
        add(
            "error",
            "dlpack-version",
            f"the tensor is of DLPack {version.major}.{version.minor}: at most {NEWEST[0]}.{NEWEST[1]} was asked for",
        )
        return None
    array = _dlpack.read(managed.tensor, add, "the tensor")
    array.version = f"{version.major}.{version.minor}"
    array.readonly = bool(managed.flags & _dlpack.READONLY)
    array.copied = bool(managed.flags & _dlpack.COPIED)
    if array.copied:
        add("note", "dlpack-copied", "the tensor is a copy, made for this call")
    if version.minor >= 2 and array.strides_stated is False:
        add(
            "warning",
            "dlpack-strides",
            f"the tensor is of DLPack {array.version} and has no strides: since 1.2 they are demanded",
        )
    return array


def dlpack_exchange(obj, add):
    capsule, state, message = attribute(type(obj), "__dlpack_c_exchange_api__", add)
    if state != "offered":
        return state, message, None
    if not _dlpack.is_capsule(capsule) or _dlpack.capsule_name(capsule) != "dlpack_exchange_api":
        add(
            "error",
            "exchange-table",
            f"it is {show(capsule)}: a capsule with the name 'dlpack_exchange_api' is asked for",
        )
        return "failed", "no table", None
    table = _dlpack.capsule_at(capsule, _dlpack.ExchangeTable)
    for _ in range(8):  # newest first
        if table.header.version.major == NEWEST[0] or not table.header.previous:
            break
        table = _dlpack.ExchangeTable.from_address(table.header.previous)
    version = table.header.version
    if version.major != NEWEST[0] or not table.managed_from_object:
        add("error", "exchange-table", f"the table is of DLPack {version.major}.{version.minor}, or lacks a function")
        return "failed", "a table that cannot be used", None
    tensor = c.POINTER(_dlpack.ManagedVersioned)()
    status, error = ask(_dlpack.FROM_OBJECT(table.managed_from_object), obj, c.byref(tensor))
    if error is not None:
        return "declined", told(error), None
    if status or not tensor:
        add("error", "exchange-table", f"the table's function returns {status}, sets no exception and gives no tensor")
        return "failed", f"status {status}", None
    try:
        array = _dlpack_versioned(tensor[0], add)
        device = tensor[0].tensor.device
        kind, number = device.type, device.id
    finally:
        if tensor[0].deleter:
            ask(_dlpack.DELETER(tensor[0].deleter), tensor)
    if array is None:
        return "failed", "a tensor that cannot be read", None
    layout(array, add)
    if kind in _dlpack.WITH_STREAMS and table.current_work_stream:
        stream = c.c_void_p()
        status, error = ask(_dlpack.CURRENT_STREAM(table.current_work_stream), kind, number, c.byref(stream))
        if error is None and status == 0:
            # NULL is the legacy default stream here; in the dictionary that is 1.
            array.stream = stream.value or 1
        else:
            add(
                "warning",
                "exchange-stream",
                f"the table does not name the current stream: {told(error) if error else status}",
            )
    return "offered", None, array


# --- the others -------------------------------------------------------------------------------------------


class _CaiTable(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("abi_major", c.c_int32)]


def cai_exchange(obj, add):
    """Only whether the table is one: what it says about the object, the library reads."""
    capsule, state, message = attribute(type(obj), "__cai_exchange_api__", add)
    if state != "offered":
        return state, message, None
    if not _dlpack.is_capsule(capsule) or _dlpack.capsule_name(capsule) != "cai_exchange_api":
        add(
            "error", "exchange-table", f"it is {show(capsule)}: a capsule with the name 'cai_exchange_api' is asked for"
        )
        return "failed", "no table", None
    table = _dlpack.capsule_at(capsule, _CaiTable)
    array = Array()
    array.version = f"table of {table.struct_size} bytes, major version {table.abi_major}"
    return "offered", None, array


class _ArrayStruct(c.Structure):
    _fields_ = [
        ("two", c.c_int),
        ("nd", c.c_int),
        ("typekind", c.c_char),
        ("itemsize", c.c_int),
        ("flags", c.c_int),
        ("shape", c.POINTER(c.c_ssize_t)),
        ("strides", c.POINTER(c.c_ssize_t)),
        ("data", c.c_void_p),
        ("descr", c.c_void_p),
    ]


_C_CONTIGUOUS, _NOTSWAPPED, _WRITEABLE, _HAS_DESCR = 0x1, 0x200, 0x400, 0x800


def array_struct(obj, add):
    capsule, state, message = attribute(obj, "__array_struct__", add)
    if state != "offered":
        return state, message, None
    if not _dlpack.is_capsule(capsule) or _dlpack.capsule_name(capsule) is not None:
        add("error", "array-struct", f"it is {show(capsule)}: a capsule without a name is asked for")
        return "failed", "no capsule", None
    said = _dlpack.capsule_at(capsule, _ArrayStruct)
    if said.two != 2 or not 0 <= said.nd <= MAX_NDIM or (said.nd and not said.shape):
        add("error", "array-struct", f"'two' is {said.two} and 'nd' {said.nd}: this is no PyArrayInterface")
        return "failed", "not the structure", None
    array = Array()
    array.device = "cpu"
    kind = said.typekind.decode("latin-1")
    size = said.itemsize // 4 if kind == "U" else said.itemsize
    foreign = {"<": ">", ">": "<"}[_types.NATIVE]
    plain = kind in "bSVOt" or said.itemsize == 1
    array.typestr = f"{'|' if plain else _types.NATIVE if said.flags & _NOTSWAPPED else foreign}{kind}{size}"
    array.itemsize = None if kind == "t" else said.itemsize
    array.shape = tuple(said.shape[: said.nd]) if said.nd else ()
    if any(extent < 0 for extent in array.shape):
        add("error", "shape-negative", f"shape is {array.shape}: extents are at least 0")
        array.shape = None
    elif said.strides or not said.nd:
        array.strides = tuple(said.strides[: said.nd]) if said.nd else ()
        array.strides_stated = True
    array.pointer = said.data or 0
    array.readonly = not said.flags & _WRITEABLE
    dtype, _ = ask(getattr, obj, "dtype", None)
    names, _ = ask(getattr, dtype, "names", None)
    # NumPy means to hand over the fields, too, but leaves out the flag that says so.
    array.has_fields = names is not None or bool(said.flags & _HAS_DESCR)
    layout(array, add)
    opaque_type(obj, array, add)
    if said.flags & _C_CONTIGUOUS and array.elements and array.strides is not None and array.itemsize:
        plain = Array()
        plain.shape, plain.strides = array.shape, _dlpack.c_strides(array.shape, array.itemsize)
        if not same_strides(array, plain):
            add("error", "array-struct", f"the flags say C-contiguous, the strides are {array.strides}")
    return "offered", None, array


def buffer(obj, add):
    """The OpenCL/CUDA buffer interface. pyopencl's arrays call `buffer` `base_data`."""

    def quiet(*_):
        """Attributes of such common names may be anything."""

    base, state, _ = attribute(obj, "buffer", quiet)
    name = "buffer"
    if state != "offered":
        base, state, _ = attribute(obj, "base_data", quiet)
        name = "base_data"
    parts = {part: attribute(obj, part, quiet) for part in ("offset", "dtype", "shape", "strides")}
    if state != "offered" or any(part[1] != "offered" for part in parts.values()):
        return "absent", None, None
    array = Array()
    try:
        said = {part: value for part, (value, _, _) in parts.items()}
        _shape(said, array, add)
        dtype = said["dtype"]
        typestr, _ = ask(getattr, dtype, "str", None)
        array.typestr = typestr if isinstance(typestr, str) else show(dtype)
        parsed, problem = _types.parse(array.typestr)
        array.itemsize = parsed.itemsize if parsed else None
        if parsed is None:
            add(
                "warning",
                "buffer-dtype",
                f"dtype is {show(dtype)}, which has no typestr: the specification leaves its type open",
            )
        _strides(said, CUDA, array, add)
        array.byte_offset = whole(said["offset"], "offset", add, 0, ADDRESSES - 1)
    except Refused:
        return "failed", "what it answers cannot be read", None
    if name == "base_data":
        add(
            "note",
            "buffer-name",
            "the attribute is called base_data, as pyopencl does; the specification calls it buffer",
        )
    if base is not None:
        array.pointer, array.handle = _buffer_pointer(base, add)
    if array.handle:
        array.device = "opencl"
    layout(array, add)
    opaque_type(obj, array, add)
    return "offered", None, array


def _buffer_pointer(base, add):
    """The handle, and whether it is a cl_mem as far as can be known."""
    opencl = "opencl" in type(base).__module__ or None
    for name in ("_ptr", "int_ptr"):
        pointer, error = ask(getattr, base, name)
        if error is None:
            if name != "_ptr":
                add("note", "buffer-name", f"the buffer has {name}, as pyopencl's do; the specification calls it _ptr")
                opencl = True
            return whole(pointer, f"{name} of the buffer", add, 0, ADDRESSES - 1), opencl
    add("error", "buffer-pointer", f"the buffer, {_article(base)}, has neither _ptr nor int_ptr")
    return None, opencl


# Names, CAI_PROTOCOL_ numbers, readers; in the order in which the library tries them.
READERS = (
    ("__cai_exchange_api__", 1, cai_exchange),
    ("__dlpack_c_exchange_api__", 2, dlpack_exchange),
    ("__cuda_array_interface__", 3, cuda_array_interface),
    ("__dlpack__", 4, dlpack),
    ("__sycl_usm_array_interface__", 5, sycl_usm_array_interface),
    ("buffer", 6, buffer),
    ("__array_struct__", 7, array_struct),
    ("__array_interface__", 8, array_interface),
)
