"""What the tests of exports share."""

from cai_python import give
from dlpack_ctypes import Versioned, pointer_in

CAI, HOST, SYCL = "__cuda_array_interface__", "__array_interface__", "__sycl_usm_array_interface__"


def seen(array, **options):
    return give(array, **options).__cuda_array_interface__


def exact(value):
    """Only built-in types, no classes derived from them."""
    assert type(value) in (dict, tuple, list, str, int, bool, type(None)), type(value)
    if type(value) is dict:
        for key, item in value.items():
            assert type(key) is str
            if key != "mask":
                exact(item)
    elif type(value) in (tuple, list):
        for item in value:
            exact(item)


def versioned(capsule):
    return Versioned.from_address(pointer_in(capsule, b"dltensor_versioned"))
