"""The remaining protocols, and the list of all of them in the order in which the library tries them."""

import ctypes as c

from . import _abi, _dlpack, _types
from ._ask import ADDRESSES, MAX_NDIM, Refused, article, ask, attribute, show, whole
from ._checks import layout, opaque_type, same_strides
from ._dictionaries import (
    CUDA,
    _shape,
    _strides,
    array_interface,
    cuda_array_interface,
    sycl_usm_array_interface,
)
from ._report import Array
from ._tensors import dlpack, dlpack_exchange


def cai_exchange(obj, add):
    """Checks only that the table is one; the library reads its arrays."""
    capsule, state, message = attribute(type(obj), "__cai_exchange_api__", add)
    if state != "offered":
        return state, message, None
    if not _dlpack.is_capsule(capsule) or _dlpack.capsule_name(capsule) != "cai_exchange_api_1":
        add(
            "error",
            "exchange-table",
            f"it is {show(capsule)}, expected a capsule with the name 'cai_exchange_api_1'",
        )
        return "failed", "no table", None
    table = _dlpack.capsule_at(capsule, _abi.cai_exchange_api)
    array = Array()
    array.version = f"table of {table.struct_size} bytes, data ABI {table.data_abi}"
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
        add("error", "array-struct", f"it is {show(capsule)}, expected a capsule without a name")
        return "failed", "no capsule", None
    entries = _dlpack.capsule_at(capsule, _ArrayStruct)
    if entries.two != 2 or not 0 <= entries.nd <= MAX_NDIM or (entries.nd and not entries.shape):
        add(
            "error",
            "array-struct",
            f"'two' is {entries.two} and 'nd' {entries.nd}: this is no PyArrayInterface",
        )
        return "failed", "not the structure", None
    array = Array()
    array.device = "cpu"
    kind = entries.typekind.decode("latin-1")
    size = entries.itemsize // 4 if kind == "U" else entries.itemsize
    foreign = {"<": ">", ">": "<"}[_types.NATIVE]
    plain = kind in "bSVOt" or entries.itemsize == 1
    array.typestr = (
        f"{'|' if plain else _types.NATIVE if entries.flags & _NOTSWAPPED else foreign}{kind}{size}"
    )
    array.itemsize = None if kind == "t" else entries.itemsize
    array.shape = tuple(entries.shape[: entries.nd]) if entries.nd else ()
    if any(extent < 0 for extent in array.shape):
        add("error", "shape-negative", f"shape is {array.shape}: extents are at least 0")
        array.shape = None
    elif entries.strides or not entries.nd:
        array.strides = tuple(entries.strides[: entries.nd]) if entries.nd else ()
        array.strides_stated = True
    array.pointer = entries.data or 0
    array.readonly = not entries.flags & _WRITEABLE
    dtype, _ = ask(getattr, obj, "dtype", None)
    names, _ = ask(getattr, dtype, "names", None)
    # NumPy passes the fields, too, but does not set the flag for them.
    array.has_fields = names is not None or bool(entries.flags & _HAS_DESCR)
    layout(array, add)
    opaque_type(obj, array, add)
    if (
        entries.flags & _C_CONTIGUOUS
        and array.elements
        and array.strides is not None
        and array.itemsize
    ):
        plain = Array()
        plain.shape, plain.strides = array.shape, _dlpack.c_strides(array.shape, array.itemsize)
        if not same_strides(array, plain):
            add(
                "error",
                "array-struct",
                f"the flags say C-contiguous, the strides are {array.strides}",
            )
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
    entries = {part: value for part, (value, found, _) in parts.items() if found == "offered"}
    if state != "offered" or "dtype" not in entries or "shape" not in entries:
        return "absent", None, None
    array = Array()
    try:
        _shape(entries, array, add)
        dtype = entries["dtype"]
        typestr = dtype if isinstance(dtype, str) else ask(getattr, dtype, "str", None)[0]
        array.typestr = typestr if isinstance(typestr, str) else show(dtype)
        parsed, problem = _types.parse(array.typestr)
        array.itemsize = parsed.itemsize if parsed else None
        if parsed is None:
            add(
                "error",
                "buffer-dtype",
                f"dtype is {show(dtype)}, which has no typestr: expected one such as numpy.dtype('float32')",
            )
        _strides(entries, CUDA, array, add)
        array.byte_offset = 0
        if entries.get("offset") is not None:
            array.byte_offset = whole(entries["offset"], "offset", add, 0, ADDRESSES - 1)
        else:
            add("warning", "buffer-offset", "there is no offset: the specification asks for it")
    except Refused:
        return "failed", "what it answers cannot be read", None
    if name == "base_data":
        add(
            "note",
            "buffer-name",
            "the attribute is called base_data, as pyopencl does; the specification calls it buffer",
        )
    if base is not None:
        array.pointer, array.handle = _buffer_pointer(obj, base, add)
    if array.handle:
        array.device = "opencl"
    layout(array, add)
    opaque_type(obj, array, add)
    return "offered", None, array


def _buffer_pointer(obj, base, add):
    """The handle, and whether it is a cl_mem: True, or None where the object does not state it."""
    opencl = _is_opencl(obj, base)
    for name in ("int_ptr", "_ptr"):
        pointer, error = ask(getattr, base, name)
        if error is None:
            if name != "_ptr":
                add(
                    "note",
                    "buffer-name",
                    f"the buffer has {name}, as pyopencl's do; the specification calls it _ptr",
                )
                opencl = True
            if not opencl:
                add(
                    "warning",
                    "buffer-ambiguous",
                    "_ptr is a cl_mem or a CUDA address, and the object does not state which: libcai refuses it unless"
                    " CAI_IMPORT_BUFFER_OPENCL or CAI_IMPORT_BUFFER_CUDA is set",
                )
            return whole(pointer, f"{name} of the buffer", add, 0, ADDRESSES - 1), opencl
    add("error", "buffer-pointer", f"the buffer, {article(base)}, has neither _ptr nor int_ptr")
    return None, opencl


def _is_opencl(obj, base):
    """Whether the object is of pyopencl, or has a queue or a context with a handle."""
    for one in (obj, base):
        module, _ = ask(getattr, type(one), "__module__", None)
        if isinstance(module, str) and module.partition(".")[0] == "pyopencl":
            return True
    for name in ("queue", "context"):
        handle, _ = ask(lambda name=name: getattr(getattr(obj, name), "int_ptr"))
        if handle is not None:
            return True
    return None


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
