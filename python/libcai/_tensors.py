"""Readers of DLPack: the method `__dlpack__` and the exchange table of a type.

Each returns a state, a message and an `Array` or None.
"""

import ctypes as c

from . import _abi, _dlpack
from ._ask import Refused, article, ask, attribute, describe, items, show, whole
from ._checks import layout

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
            return "declined", describe(error), None
        add(
            "warning",
            "dlpack-raises",
            f"it raises {describe(error)}, expected BufferError if an array cannot be exported",
        )
        return "failed", describe(error), None
    if not _dlpack.is_capsule(capsule):
        add("error", "dlpack-capsule", f"it returns {article(capsule)}, expected a capsule")
        return "failed", "no capsule", None
    name = _dlpack.capsule_name(capsule)
    if name not in ("dltensor", "dltensor_versioned"):
        add(
            "error",
            "dlpack-capsule",
            f"the capsule's name is {name!r}, expected 'dltensor' or 'dltensor_versioned'",
        )
        return "failed", f"a capsule {name!r}", None
    # The capsule is only read. Its destructor, when this function is left, lets the tensor go.
    if name == "dltensor":
        array = _dlpack.read(_dlpack.capsule_at(capsule, _dlpack.Managed).tensor, add, "the tensor")
        array.version = "before 1.0"
        add(
            "note",
            "dlpack-unversioned",
            "the tensor is of the older kind, which cannot say that it is read-only",
        )
    else:
        managed = _dlpack.capsule_at(capsule, _dlpack.ManagedVersioned)
        array = _dlpack_versioned(managed, add)
        if array is None:
            return "failed", f"DLPack {managed.version.major}.{managed.version.minor}", None
    if device is not None and array.device != device:
        add(
            "error",
            "dlpack-device",
            f"__dlpack_device__ returns {device}, the tensor has {array.device}",
        )
    layout(array, add)
    return "offered", None, array


def _dlpack_device(function, add):
    pair, error = ask(function)
    if error is not None:
        add("error", "dlpack-device", f"__dlpack_device__ raises {describe(error)}")
        return None
    try:
        got = items(pair, "what __dlpack_device__ returns", add)
    except Refused:
        return None
    numbers = [
        whole(value, "a number that __dlpack_device__ returns", add, -(1 << 31), 1 << 31)
        for value in got
    ]
    if len(numbers) != 2 or None in numbers:
        add(
            "error", "dlpack-device", f"__dlpack_device__ returns {show(pair)}, expected (type, id)"
        )
        return None
    return _dlpack.device_name(*numbers)


def _dlpack_call(method, device, add):
    """Calls `__dlpack__` with all that the standard knows, and with less where that is refused."""
    streams = {_abi.DEVICES[kind] for kind in _dlpack.WITH_STREAMS}
    # -1: nothing shall be ordered; nothing is going to touch the data.
    stream = {"stream": -1 if device and device.partition(":")[0] in streams else None}
    version = {"max_version": NEWEST}
    refusals = []
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
        refusals.append(error)
        if not isinstance(error, (BufferError, TypeError)):
            break
    return None, min(refusals, key=_is_about_the_call)


def _is_about_the_call(error):
    """Sorts exceptions: a TypeError may only mean that a keyword is not known, in Python's words."""
    return isinstance(error, TypeError) + (isinstance(error, TypeError) and "argument" in describe(error))


def _dlpack_versioned(managed, add):
    version = managed.version
    if version.major != 1:
        add(
            "error",
            "dlpack-version",
            f"the tensor is of DLPack {version.major}.{version.minor}: at most {NEWEST[0]}.{NEWEST[1]} was requested",
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
            f"it is {show(capsule)}, expected a capsule with the name 'dlpack_exchange_api'",
        )
        return "failed", "no table", None
    table = _dlpack.capsule_at(capsule, _dlpack.ExchangeTable)
    for _ in range(8):  # newest first
        if table.header.version.major == NEWEST[0] or not table.header.previous:
            break
        table = _dlpack.ExchangeTable.from_address(table.header.previous)
    version = table.header.version
    if version.major != NEWEST[0] or not table.managed_from_object:
        add(
            "error",
            "exchange-table",
            f"the table is of DLPack {version.major}.{version.minor}, or lacks a function",
        )
        return "failed", "a table that cannot be used", None
    tensor = c.POINTER(_dlpack.ManagedVersioned)()
    status, error = ask(_dlpack.FROM_OBJECT(table.managed_from_object), obj, c.byref(tensor))
    if error is not None:
        return "declined", describe(error), None
    if status or not tensor:
        add(
            "error",
            "exchange-table",
            f"the table's function returns {status}, sets no exception and gives no tensor",
        )
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
        status, error = ask(
            _dlpack.CURRENT_STREAM(table.current_work_stream), kind, number, c.byref(stream)
        )
        if error is None and status == 0:
            # NULL is the legacy default stream here; in the dictionary that is 1.
            array.stream = stream.value or 1
        else:
            add(
                "warning",
                "exchange-stream",
                f"the table does not name the current stream: {describe(error) if error else status}",
            )
    return "offered", None, array
