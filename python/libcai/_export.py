"""`libcai.export`: every protocol, from a dictionary of an object."""

from __future__ import annotations

import ctypes as c
import functools
from typing import TYPE_CHECKING

from . import _abi, _paths, _view

if TYPE_CHECKING:
    from ._native import Array


@functools.cache
def _loaded(path: str) -> c.PyDLL:
    names = "cai_array_from_python", "cai_array_to_python", "cai_array_release"
    return _abi.declare(c.PyDLL(path), names)


def export(obj: object, path: str | None = None) -> Array:
    """As `libcai.export`, through the shared library `path`, by default that of this package."""
    library = _loaded(path or _paths.library())
    options = _abi.cai_import_options(
        struct_size=c.sizeof(_abi.cai_import_options),
        flags=_abi.CAI_IMPORT_ALLOW_MASK | _abi.CAI_IMPORT_ALLOW_HOST,
        dlpack_stream=_abi.CAI_STREAM_UNKNOWN)  # fmt: skip
    # Only the dictionaries: `__dlpack__` of `obj` may be what calls this function.
    options.protocols[0] = _abi.CAI_PROTOCOL_CUDA_ARRAY_INTERFACE
    options.protocols[1] = _abi.CAI_PROTOCOL_ARRAY_INTERFACE
    array = _abi.cai_array(struct_size=c.sizeof(_abi.cai_array), version=_abi.CAI_INTERFACE_VERSION)
    made = c.py_object()
    # Both raise the exception that the library sets.
    library.cai_array_from_python(obj, options, array, None)
    try:
        library.cai_array_to_python(array, None, made, None)
    finally:
        library.cai_array_release(array)
    array_object: Array = _view.taken(made)
    return array_object
