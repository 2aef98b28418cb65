"""Uses the installed Python package, on a machine without a driver: package.py (called by test_inside.sh)

Needs nothing but Python; with NumPy, its arrays as well.
"""

import array
import json
import platform
import subprocess
import sys

import libcai


def module(*arguments):
    return subprocess.run([sys.executable, "-m", "libcai", *arguments], check=True, capture_output=True, text=True).stdout


class Device:
    """What a GPU library exports."""

    __cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (0x7000, False), "version": 3, "stream": 1}


class Host:
    """What NumPy exports."""

    memory = array.array("f", range(12))
    __array_interface__ = {
        "shape": (3, 2),
        "typestr": "<f4",
        "data": (memory.buffer_info()[0], True),
        "strides": (16, 8),
        "version": 3,
    }


assert libcai.load().cai_abi_version() >> 16 == 1
report = json.loads(module("--json"))
assert report["libcai"]["library"]["version"] == libcai.__version__ and "message" in report["driver"], report
assert libcai.includedir() in module("--cflags") and libcai.libdir() in module("--libs")

host = Host()
with libcai.view(host, readonly=True) as view:
    assert (view.ptr, view.shape, view.strides, view.size) == (Host.memory.buffer_info()[0], (3, 2), (4, 2), 6)
    assert view.readonly and not view.is_device_accessible and view.exporting_obj is host
try:
    libcai.view(object())
except TypeError as error:
    assert "object" in str(error), error
else:
    raise AssertionError("expected a TypeError")
with libcai.view(Device(), -1) as view:
    assert (view.ptr, view.shape) == (0x7000, (2, 3))

try:
    import numpy
except ImportError:
    numpy = None
else:
    strided = numpy.arange(12, dtype="f4").reshape(3, 4)[:, ::-2]
    with libcai.view(strided) as view:
        assert view.ptr == strided.ctypes.data and view.strides == (4, -2) and view.dtype == strided.dtype
    assert "0 errors" in module("inspect", "numpy:ones(3, 'f4')")
print(f"Python {platform.python_version()} on {platform.machine()}{', NumPy ' + numpy.__version__ if numpy else ''}: passed")
