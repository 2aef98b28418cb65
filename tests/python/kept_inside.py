"""Runs the core program of another release: python kept_inside.py PROGRAM. It ends the process where it finds a fault."""

import ctypes as c
import sys


class Lender:
    def __init__(self):
        self.__cuda_array_interface__ = {
            "shape": (2, 3), "typestr": "<f4", "data": (0x7000_0000, False), "strides": None, "version": 3,
        }  # fmt: skip


program = c.PyDLL(sys.argv[1])
program.kept_core.restype = None
program.kept_core()

program.kept_python.restype, program.kept_python.argtypes = c.py_object, [c.py_object, c.py_object]
lender = Lender()
count = sys.getrefcount(lender)
made = program.kept_python(lender, lender.__cuda_array_interface__)
found = made.__cuda_array_interface__
assert found["shape"] == (2, 3) and found["typestr"] == "<f4" and found["data"] == (0x7000_0000, False), found
assert found["strides"] == (12, 4), found
assert sys.getrefcount(lender) == count + 1
del made, found
assert sys.getrefcount(lender) == count

program.kept_raise.restype = c.py_object
try:
    program.kept_raise()
    sys.exit("cai_python_raise raised nothing")
except ValueError as error:
    assert "raised" in str(error)
print("kept")
