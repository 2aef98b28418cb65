"""What the tests of pybind11_cuda_array_interface assert, of a module that is written with cai/pybind11.hpp: with its own
arrays in place of CuPy's, and the exceptions of this library. Where the behaviour differs on purpose, the test says so."""

import array
import ctypes
import gc
from types import SimpleNamespace

import pycai
import pytest

cuda = ctypes.CDLL("libcuda.so.1")


@pytest.fixture(scope="module", autouse=True)
def context():
    current = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(current), 0) == 0
    assert cuda.cuCtxSetCurrent(current) == 0


def numbers(*values):
    return pycai.return_cuda_array_interface_with_memory_copy(vec=values)


def values_of(obj):
    interface = obj.__cuda_array_interface__
    count = 1
    for extent in interface["shape"]:
        count *= extent
    out = array.array("f", [0] * count)
    address = ctypes.c_uint64(interface["data"][0])
    assert cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(out.buffer_info()[0]), address, ctypes.c_size_t(4 * count)) == 0
    return list(out)


def dictionary(**members):
    interface = {"shape": (5,), "typestr": "<f4", "version": 3, "data": (1 << 40, False), "stream": None, **members}
    return SimpleNamespace(__cuda_array_interface__={key: value for key, value in interface.items() if value != "missing"})


def receive(obj):
    return pycai.receive_and_return_cuda_array_interface_float(obj)


def test_saxpy():
    s = numbers(0, 0, 0)
    pycai.saxpy(s, numbers(2, 3, 5), numbers(7, 11, 13), 17)
    assert values_of(s) == [41, 62, 98]


def test_there_and_back():
    given = numbers(41, 62, 98)
    returned = receive(given)
    assert values_of(returned) == [41, 62, 98]
    for key in ("shape", "typestr", "data", "version"):
        assert returned.__cuda_array_interface__[key] == given.__cuda_array_interface__[key]


def test_integers():
    given = dictionary(typestr="<i4")
    assert pycai.receive_and_return_cuda_array_interface_int(given).__cuda_array_interface__["typestr"] == "<i4"
    for wrong in (lambda: pycai.receive_and_return_cuda_array_interface_int(numbers(1, 2)), lambda: receive(given)):
        with pytest.raises(BufferError, match="typestr"):
            wrong()


def test_an_object_without_the_interface():
    with pytest.raises(TypeError):
        receive(array.array("f", [1]))


@pytest.mark.parametrize("key", ["shape", "typestr", "data"])
def test_missing_members(key):
    with pytest.raises((KeyError, TypeError)):
        receive(dictionary(**{key: "missing"}))


def test_a_dictionary_without_version_is_read():
    """Refused there. Producers of the first versions have none."""
    assert receive(dictionary(version="missing")).__cuda_array_interface__["shape"] == (5,)


@pytest.mark.parametrize(
    "members",
    [{"data": (None, False)}, {"shape": (-2,)}, {"shape": (1.5,)}, {"typestr": "<R4"}, {"typestr": "[f4"}, {"typestr": "<f0"},
     {"typestr": "qw"}],
    ids=str,
)  # fmt: skip
def test_dictionaries_that_are_refused(members):
    with pytest.raises((TypeError, ValueError)):
        receive(dictionary(**members))


@pytest.mark.parametrize("shape", [(), (0,)])
def test_no_dimensions_and_no_elements(shape):
    """Refused there."""
    data = (1 << 40 if shape == () else 0, False)
    assert receive(dictionary(shape=shape, data=data)).__cuda_array_interface__["shape"] == shape


def test_strides_are_not_ignored():
    """There, the elements between those of the array are taken for its own."""
    with pytest.raises(BufferError):
        receive(dictionary(strides=(8,)))


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 2)])
@pytest.mark.parametrize("readonly", [False, True])
def test_arrays_made_in_cpp(shape, readonly):
    interface = pycai.return_cuda_array_interface(shape=shape, readonly=readonly).__cuda_array_interface__
    assert interface["shape"] == shape and interface["version"] == 3
    assert interface["data"][1] == readonly


def test_a_read_only_array_is_not_written():
    with pytest.raises(BufferError):
        pycai.return_cuda_array_interface_with_memory_copy(readonly=True)
    with pytest.raises(BufferError):
        pycai.saxpy(pycai.return_cuda_array_interface(shape=(3,), readonly=True), numbers(1, 2, 3), numbers(1, 2, 3), 1)


def test_a_million_numbers():
    made = numbers(*range(1000000))
    assert made.__cuda_array_interface__["shape"] == (1000000,) and values_of(made)[-1] == 999999


def test_memory_lives_as_long_as_what_uses_it():
    made = numbers(1, 2, 3)
    returned = receive(made)
    del made
    gc.collect()
    assert values_of(returned) == [1, 2, 3]
    address, base = ctypes.c_uint64(returned.__cuda_array_interface__["data"][0]), ctypes.c_uint64()
    del returned
    gc.collect()
    # Gone with its last user.
    assert cuda.cuMemGetAddressRange_v2(ctypes.byref(base), None, address) != 0
