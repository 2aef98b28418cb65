"""`libcai.view`: a function that the library makes for the interpreter."""

from __future__ import annotations

import ctypes as c
from typing import Any

from . import _paths


def function(path: str | None = None) -> Any:
    """The function of the shared library `path`, by default that of this package."""
    make = c.PyDLL(path or _paths.library()).cai_unstable_python_view
    make.argtypes, make.restype = [c.POINTER(c.py_object), c.c_void_p], c.c_int
    made = c.py_object()
    make(c.byref(made), None)  # raises the exception that the library sets
    return taken(made)


def taken(made: c.py_object[Any]) -> Any:
    """Returns the object in a `py_object` that the library wrote, with the library's reference to it."""
    result = made.value
    # ctypes added a reference of its own.
    c.pythonapi.Py_DecRef(c.py_object(result))
    return result
