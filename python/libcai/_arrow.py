"""`libcai.arrow_batches` and `libcai.arrow_stream`: record batches as arrays, and arrays as record batches."""

from __future__ import annotations

import ctypes as c
import functools
import os
import reprlib
from typing import TYPE_CHECKING, Any

from . import _abi, _paths, _view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._annotations import ArrayLike, HostArrayLike

    from ._native import Array

_GET, _TEXT, _RELEASE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p), c.CFUNCTYPE(c.c_char_p, c.c_void_p), c.CFUNCTYPE(None, c.c_void_p)


class _Structure(c.Structure):
    release: Any

    def end(self) -> None:
        """Releases it, unless it was released or moved."""
        if self.release:
            self.release(c.addressof(self))
            self.release = _RELEASE()  # also where the producer forgets it


class _HostStream(_Structure):
    _fields_ = [("get_schema", _GET), ("get_next", _GET), ("get_last_error", _TEXT), ("release", _RELEASE), ("private_data", c.c_void_p)]


class _DeviceStream(_Structure):
    _fields_ = [("device_type", c.c_int32), *_HostStream._fields_]


class _Schema(_Structure):
    format: bytes | None
    name: bytes | None
    n_children: int
    children: Any


_Schema._fields_ = [
    ("format", c.c_char_p), ("name", c.c_char_p), ("metadata", c.c_void_p), ("flags", c.c_int64), ("n_children", c.c_int64),
    ("children", c.POINTER(c.POINTER(_Schema))), ("dictionary", c.c_void_p), ("release", _RELEASE), ("private_data", c.c_void_p),
]  # fmt: skip


class _Batch(_Structure):
    """ArrowDeviceArray, which begins with an ArrowArray."""

    _fields_ = [
        ("numbers", c.c_int64 * 5), ("pointers", c.c_void_p * 3), ("release", _RELEASE), ("private_data", c.c_void_p),
        ("device_id", c.c_int64), ("device_type", c.c_int32), ("sync_event", c.c_void_p), ("reserved", c.c_int64 * 3),
    ]  # fmt: skip


@functools.cache
def _loaded(path: str) -> c.PyDLL:
    names = (
        "cai_unstable_arrays_from_arrow", "cai_unstable_arrow_stream_to_python", "cai_array_from_python", "cai_array_to_python",
        "cai_array_release", "cai_python_raise",
    )  # fmt: skip
    return _abi.declare(c.PyDLL(path), names)


def _empty() -> _abi.cai_array:
    return _abi.cai_array(struct_size=c.sizeof(_abi.cai_array), version=_abi.CAI_INTERFACE_VERSION)


def _moved(obj: Any) -> Any:
    """The stream of an object, moved out of its capsule."""
    for method, name, kind in [
        ("__arrow_c_device_stream__", b"arrow_device_array_stream", _DeviceStream),
        ("__arrow_c_stream__", b"arrow_array_stream", _HostStream),
    ]:
        if hasattr(obj, method):
            capsule = getattr(obj, method)()
            pointer = c.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
            place = kind.from_address(pointer(capsule, name))
            if not place.release:
                raise ValueError(f"{method}: found a stream that was released or moved, expected a new one")
            stream = kind.from_buffer_copy(place)
            place.release = _RELEASE()
            return stream
    raise TypeError(f"{type(obj).__name__} has neither __arrow_c_device_stream__ nor __arrow_c_stream__")


class ArrowBatches:
    """Iterator of record batches: each is a dictionary of arrays by the names of its columns."""

    def __init__(self, obj: object, columns: Iterable[str] | None = None, path: str | None = None):
        self._schema = _Schema()
        self._stream: Any = None
        self._library = _loaded(path or _paths.library())
        self._stream = _moved(obj)
        try:
            self._get("get_schema", self._schema)
            if self._schema.format != b"+s":
                found = (self._schema.format or b"").decode(errors="replace")
                raise TypeError(f"found elements of Arrow's format {found!r}, expected record batches (+s): put a column into a table")
            names = [(self._schema.children[index][0].name or b"").decode() for index in range(self._schema.n_children)]
            wanted = names if columns is None else list(columns)
            for name in wanted:
                if names.count(name) != 1:
                    raise ValueError(f"found {names.count(name)} columns named {name!r} in {reprlib.repr(names)}, expected 1")
            self._names = [name if name in wanted else None for name in names]
        except BaseException:
            self.close()
            raise

    def _get(self, what: str, to: _Structure) -> None:
        code = getattr(self._stream, what)(c.addressof(self._stream), c.addressof(to))
        if code:
            text = self._stream.get_last_error(c.addressof(self._stream))
            raise OSError(code, text.decode(errors="replace") if text else os.strerror(code))

    def close(self) -> None:
        """Releases the stream. Arrays that it has given stay valid."""
        for structure in (self._schema, self._stream):
            if structure is not None:
                structure.end()
        self._stream = None

    __del__ = close

    def __enter__(self) -> ArrowBatches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> ArrowBatches:
        return self

    def __next__(self) -> dict[str, Array]:
        if self._stream is None:
            raise StopIteration
        batch = _Batch(device_id=-1, device_type=_abi.CAI_DEVICE_CPU)
        self._get("get_next", batch)
        if not batch.release:
            self.close()
            raise StopIteration
        try:
            return self._arrays(batch)
        finally:
            batch.end()

    def _arrays(self, batch: _Batch) -> dict[str, Array]:
        found = {name: _empty() for name in self._names if name is not None}
        places = (c.POINTER(_abi.cai_array) * len(self._names))()
        for index, name in enumerate(self._names):
            if name is not None:
                places[index] = c.pointer(found[name])
        error = _abi.cai_error()
        if self._library.cai_unstable_arrays_from_arrow(c.addressof(batch), c.addressof(self._schema), len(places), places, error):
            self._library.cai_python_raise(error)  # raises
        try:
            result: dict[str, Array] = {}
            for name, array in found.items():
                made = c.py_object()
                self._library.cai_array_to_python(array, None, made, None)  # raises the exception that the library sets
                result[name] = _view.taken(made)
            return result
        finally:
            for array in found.values():
                self._library.cai_array_release(array)


class ArrowStream:
    """Record batches of arrays, for consumers of Arrow's streams."""

    def __init__(self, names: list[str], arrays: list[_abi.cai_array], tensors: bool, library: c.PyDLL):
        self._names, self._arrays, self._library = names, arrays, library
        self._flags = _abi.CAI_UNSTABLE_ARROW_TENSOR if tensors else 0

    def _capsule(self, flags: int) -> Any:
        names = (c.c_char_p * len(self._names))(*(name.encode() for name in self._names))
        arrays = (c.POINTER(_abi.cai_array) * len(self._arrays))(*map(c.pointer, self._arrays))
        made = c.py_object()
        self._library.cai_unstable_arrow_stream_to_python(
            arrays, names, len(names), len(arrays) // len(names), flags | self._flags, made, None
        )  # raises the exception that the library sets
        return _view.taken(made)

    def __arrow_c_device_stream__(self, requested_schema: object = None, **_: object) -> Any:
        return self._capsule(0)

    def __del__(self) -> None:
        for array in self._arrays:
            self._library.cai_array_release(array)


class HostArrowStream(ArrowStream):
    """The same in host memory."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._capsule(_abi.CAI_UNSTABLE_ARROW_HOST)


def _name(name: object) -> str:
    if not isinstance(name, str) or "\0" in name:
        raise ValueError(f"found a column named {name!r}, expected a text without NUL")
    return name


def arrow_stream(batches: Any, *, tensors: bool = False, path: str | None = None) -> ArrowStream:
    """As `libcai.arrow_stream`, through the shared library `path`, by default that of this package."""
    library = _loaded(path or _paths.library())
    options = _abi.cai_import_options(
        struct_size=c.sizeof(_abi.cai_import_options),
        flags=_abi.CAI_IMPORT_ALLOW_MASK | _abi.CAI_IMPORT_ALLOW_HOST | _abi.CAI_IMPORT_QUERY_DEVICE,
        dlpack_stream=_abi.CAI_STREAM_UNKNOWN)  # fmt: skip
    found: list[Mapping[str, ArrayLike | HostArrayLike]] = [batches] if hasattr(batches, "keys") else list(batches)
    names = [_name(name) for name in found[0]] if found else []
    if not names:
        raise ValueError("found no columns, expected a mapping of names and arrays, or several")
    arrays: list[_abi.cai_array] = []
    made = ArrowStream(names, arrays, tensors, library)
    for batch in found:
        if list(batch) != names:
            raise ValueError(f"found columns {list(batch)}, expected {names}, as in the first batch")
        for name in names:
            array = _empty()
            library.cai_array_from_python(batch[name], options, array, None)  # raises the exception that the library sets
            arrays.append(array)
    if all(array.device.type == _abi.CAI_DEVICE_CPU for array in arrays):
        made.__class__ = HostArrowStream
    return made
