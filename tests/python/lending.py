"""Objects that lend memory as a Py_buffer of PEP 3118 describes it, whatever that is. For every CPython, so in ctypes."""

import ctypes as c


class View(c.Structure):
    """Py_buffer"""

    _fields_ = [
        ("buf", c.c_void_p), ("obj", c.c_void_p), ("len", c.c_ssize_t), ("itemsize", c.c_ssize_t), ("readonly", c.c_int),
        ("ndim", c.c_int), ("format", c.c_char_p), ("shape", c.POINTER(c.c_ssize_t)), ("strides", c.POINTER(c.c_ssize_t)),
        ("suboffsets", c.POINTER(c.c_ssize_t)), ("internal", c.c_void_p),
    ]  # fmt: skip


class Slot(c.Structure):
    _fields_ = [("slot", c.c_int), ("function", c.c_void_p)]


class Spec(c.Structure):
    """PyType_Spec"""

    _fields_ = [
        ("name", c.c_char_p), ("basicsize", c.c_int), ("itemsize", c.c_int), ("flags", c.c_uint), ("slots", c.POINTER(Slot)),
    ]  # fmt: skip


@c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(View), c.c_int)
def get(lender, view, flags):
    c.memmove(view, c.byref(lender.view), c.sizeof(View))
    c.pythonapi.Py_IncRef(c.py_object(lender))
    view[0].obj = id(lender)
    lender.lent += 1
    return 0


@c.PYFUNCTYPE(None, c.py_object, c.POINTER(View))
def release(lender, view):
    # The view is the one that was filled, where it was filled.
    assert view[0].obj == id(lender)
    lender.lent -= 1


def lending():
    default, base_type, get_slot, release_slot = 1 << 18, 1 << 10, 1, 2
    slots = (Slot * 3)((get_slot, c.cast(get, c.c_void_p)), (release_slot, c.cast(release, c.c_void_p)))
    make = c.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = c.py_object, [c.POINTER(Spec)]
    return make(Spec(b"lending.Lending", object.__basicsize__, 0, default | base_type, slots))


class Lender(lending()):
    """Lends what is described. `lent` counts the views that were not released."""

    def __init__(self, address, format=b"B", itemsize=1, ndim=1, shape=(1,), strides=None, suboffsets=None, readonly=False):
        row = lambda values: values and (c.c_ssize_t * len(values))(*values)  # noqa: E731
        self.view = View(address, None, 0, itemsize, readonly, ndim, format, row(shape), row(strides), row(suboffsets))
        self.lent = 0
