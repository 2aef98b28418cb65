"""Checks that hold for an array of any protocol."""

from . import _types
from ._ask import ADDRESSES, ask, safely


def layout(array, add):
    """Shape, strides and pointer together."""
    shape, strides, itemsize = array.shape, array.strides, array.itemsize
    if shape is None or strides is None or not itemsize:
        return
    if array.elements * itemsize >= ADDRESSES // 2:
        add(
            "error",
            "size",
            f"{array.elements} elements of {itemsize} bytes are more than there are addresses",
        )
        return
    if not array.elements:
        return
    used = [(extent, stride) for extent, stride in zip(shape, strides) if extent > 1]
    low = sum((extent - 1) * stride for extent, stride in used if stride < 0)
    high = sum((extent - 1) * stride for extent, stride in used if stride > 0) + itemsize
    if (
        array.pointer
        and not array.handle
        and (array.pointer + low < 0 or array.pointer + high > ADDRESSES)
    ):
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
        add(
            "note",
            "strides-zero",
            f"strides {strides}: several indices share an element; writing is not safe",
        )


def same_strides(array, other):
    """Whether the strides that are used are equal."""
    return not array.elements or all(
        extent == 1 or mine == theirs
        for extent, mine, theirs in zip(array.shape, array.strides, other.strides)
    )


def tensor(obj, add):
    """What a tensor states beside its memory, and a library that refuses it for that."""
    for name, rule, message in _STATES:
        if ask(getattr, type(obj), name, None)[0] is None:
            continue
        state, _ = ask(getattr, obj, name, None)
        if name != "requires_grad" and callable(state):
            state, _ = ask(state)
        if state is True:
            add("warning", rule, message)


_STATES = (
    (
        "requires_grad",
        "requires-grad",
        "the tensor requires grad: what is written to it changes the results of automatic differentiation without a"
        " trace; libcai refuses it unless CAI_IMPORT_ALLOW_GRAD is set; pass tensor.detach()",
    ),
    (
        "is_conj",
        "computed-later",
        "the tensor's values are the conjugates of those in memory: libcai refuses it; pass tensor.resolve_conj()",
    ),
    (
        "is_neg",
        "computed-later",
        "the tensor's values are the negatives of those in memory: libcai refuses it; pass tensor.resolve_neg()",
    ),
)


def opaque_type(obj, array, add):
    """The meaning of opaque bytes according to the object's `dtype`."""
    parsed = _types.parse(array.typestr)[0] if array.typestr else None
    if parsed is None or parsed.kind not in "Vfu" or array.has_fields:
        return
    dtype, _ = ask(getattr, obj, "dtype", None)
    found = _types.OPAQUE.match(safely(str, dtype)) if dtype is not None else None
    if found:
        array.type_name = found[1]
        add(
            "warning",
            "type-lost",
            f"{found[1]} travels as {array.typestr}: the type is lost, consumers need to know it",
        )
    elif parsed.kind == "V":
        add(
            "warning",
            "typestr-opaque",
            f"typestr is {array.typestr!r}: opaque bytes; consumers need to know what they mean",
        )
