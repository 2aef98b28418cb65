"""The shipped declarations for ctypes (`libcai._abi`), under the short names that the tests use."""

import ctypes
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python/libcai"))
import _abi as abi  # noqa: E402

STREAM_NONE, STREAM_UNKNOWN = abi.CAI_STREAM_NONE, abi.CAI_STREAM_UNKNOWN
FLAG_READONLY = abi.CAI_ARRAY_READONLY
CHECK_LAYOUT = abi.CAI_CHECK_LAYOUT
CHECK_NATIVE = abi.CAI_CHECK_NATIVE
DEVICE_CPU = abi.CAI_DEVICE_CPU
LAYOUT_C_CONTIGUOUS, LAYOUT_F_CONTIGUOUS = abi.CAI_LAYOUT_C_CONTIGUOUS, abi.CAI_LAYOUT_F_CONTIGUOUS

Array, Device, Descr, Field = abi.cai_array, abi.cai_device, abi.cai_descr, abi.cai_field
Dtype, Error, Layout = abi.cai_dtype, abi.cai_error, abi.cai_layout
DESTROY = abi.DESTROY
declare = abi.declare


def new_array(**members):
    """What CAI_ARRAY_INIT is in C."""
    return Array(**{"struct_size": ctypes.sizeof(Array), "version": abi.CAI_INTERFACE_VERSION, **members})
