"""`libcai.view`: a function that the library makes for the interpreter."""

import ctypes as c

from . import _paths


def function(path=None):
    """The function of the shared library `path`, by default that of this package."""
    make = c.PyDLL(path or _paths.library()).cai_python_view
    make.argtypes, make.restype = [c.POINTER(c.py_object), c.c_void_p], c.c_int
    made = c.py_object()
    make(c.byref(made), None)  # raises the exception that the library sets
    view = made.value
    # ctypes adds a reference; that of the library is given up.
    c.pythonapi.Py_DecRef(c.py_object(view))
    return view
