"""Imports: other keys, other protocols, SYCL, OpenCL buffers and host memory."""

import ctypes as c
import gc
import itertools
import weakref

import cai_python as P
import numpy as np
import pytest
from cai_python import ERRORS, Exporter, even, give, make, soon, take
from importing import MISSING, Boom, exporter, interface, refused
from producers import ADDRESS, STREAM

# --- 19: what else is in the dictionary, and what else the object offers


def test_unknown_keys():
    given = {
        "pitch": object(),
        7: 8,
        None: None,
        ("a",): 1,
        "Shape": (9,),
        **interface(stream=STREAM),
        "event": 3,
        "shape2": 1,
    }
    with take(Exporter(given)) as taken:
        assert taken.shape == (3, 4) and taken.stream == STREAM
    take(Exporter(given), strict=True).release()


def test_optional_keys_that_are_none():
    with take(exporter(strides=None, descr=None, mask=None, stream=None)) as taken:
        assert (taken.strides, taken.descr, taken.mask, taken.stream) == (None,) * 4


def test_order_of_keys():
    entries = list(interface(stream=STREAM, descr=[("", "<f4")]).items())
    for order in itertools.islice(itertools.permutations(entries), 0, 5040, 97):
        with take(Exporter(dict(order))) as taken:
            assert (taken.shape, taken.typestr, taken.data, taken.stream) == (
                (3, 4),
                "<f4",
                ADDRESS,
                STREAM,
            )


def test_keys_that_compare_as_they_like():
    class Key:
        def __init__(self, error=None):
            self.error = error

        def __hash__(self):
            return hash("shape")

        def __eq__(self, other):
            if self.error:
                raise self.error
            return False

    take(Exporter({Key(): 1, **interface()})).release()
    with pytest.raises(Boom):
        take(Exporter({Key(Boom()): 1, **{k: v for k, v in interface().items() if k != "shape"}}))


class Dlpack:
    """An object with `__dlpack__`, which says how it was called."""

    def __init__(self, array, device=(2, 0), **others):
        self.source, self.device, self.calls = give(array), device, []
        self.__dict__.update(others)

    def __dlpack__(self, **options):
        self.calls.append(options)
        return self.source.__dlpack__(max_version=options.get("max_version"), stream=-1)

    def __dlpack_device__(self):
        return self.device


def test_both_protocols():
    array = make((5,), data=0x1234_0000)
    both = Dlpack(array, __cuda_array_interface__=interface())
    with take(both) as taken:
        assert taken.shape == (3, 4) and not both.calls
    with take(both, protocols=[P.CUDA_ARRAY_INTERFACE, P.DLPACK]) as taken:
        assert taken.shape == (3, 4) and not both.calls
    for protocols in ([P.DLPACK, P.CUDA_ARRAY_INTERFACE], [P.DLPACK]):
        with take(both, protocols=protocols) as taken:
            assert taken.shape == (5,) and taken.data == 0x1234_0000
    del both.__cuda_array_interface__
    with take(both) as taken:
        assert taken.shape == (5,)
    refused(both, TypeError, status="NO_PROTOCOL", protocols=[P.CUDA_ARRAY_INTERFACE])
    refused(exporter(), TypeError, status="NO_PROTOCOL", protocols=[P.DLPACK, P.SYCL_USM, P.BUFFER])


@pytest.mark.parametrize("stream, asked", [(P.STREAM_UNKNOWN, 1), (1, 1), (2, 2), (STREAM, STREAM)])
def test_dlpack_receives_the_stream(stream, asked):
    obj = Dlpack(make((5,)))
    with take(obj, protocols=[P.DLPACK], stream=stream) as taken:
        assert taken.stream == asked and taken.device == (P.CUDA, 0)
    (call,) = obj.calls
    assert call["stream"] == asked and call["max_version"][0] == 1
    assert type(call["stream"]) is int and type(call["max_version"]) is tuple


def test_dlpack_without_versions():
    """Producers that know no `max_version` are asked again without it."""

    class Old(Dlpack):
        def __dlpack__(self, stream=None):
            self.calls.append(stream)
            return self.source.__dlpack__(stream=-1)

    obj = Old(make((5,)))
    with take(obj, protocols=[P.DLPACK], stream=STREAM) as taken:
        assert taken.shape == (5,) and taken.stream == STREAM
    assert obj.calls == [STREAM]


def test_dlpack_that_raises():
    for error in (Boom(), RuntimeError(), BufferError(), TypeError("mine")):

        class Bad(Dlpack):
            def __dlpack__(self, **_):
                raise error

        with pytest.raises(type(error)) as info:
            take(Bad(make((5,))), protocols=[P.DLPACK])
        assert info.value is error


def test_dlpack_lifetime():
    array = make((5,))
    obj = Dlpack(array)
    array.release()
    taken = take(obj, protocols=[P.DLPACK])
    del obj
    gc.collect()
    assert array.counted.gone == 0
    taken.release(P.free)
    assert soon(lambda: array.counted.gone == 1)


def test_dlpack_capsules_that_are_none():
    class Bad(Dlpack):
        def __dlpack__(self, **_):
            return self.found

    capsule = give(make((5,))).__dlpack__()
    api = c.pythonapi
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = (
        c.py_object,
        [c.c_void_p, c.c_char_p, c.c_void_p],
    )
    for found in (
        None,
        3,
        object(),
        api.PyCapsule_New(ADDRESS, b"used_dltensor", None),
        api.PyCapsule_New(ADDRESS, b"other", None),
    ):
        with pytest.raises((TypeError, ValueError)):
            take(Bad(make((5,)), found=found), protocols=[P.DLPACK])
    take(Bad(make((5,)), found=capsule), protocols=[P.DLPACK]).release()


@pytest.mark.parametrize("protocols", [[9], [3, 200], [3, 255, 1]])
def test_protocols_that_do_not_exist(protocols):
    with pytest.raises(Exception):
        take(exporter(), protocols=protocols)
    assert take.error.code == ERRORS["NEWER_CALLER"] and take.error.field.startswith(
        b"options->protocols["
    )


# --- relatives: SYCL, buffers


class Usm:
    def __init__(self, **changes):
        found = dict(
            data=(ADDRESS, False),
            shape=(3, 4),
            strides=None,
            typestr="|f4",
            version=1,
            syclobj=capsule("SyclQueueRef"),
            offset=0,
        )
        found.update(changes)
        self.__sycl_usm_array_interface__ = {
            key: value for key, value in found.items() if value is not MISSING
        }


NAMES = {}


def capsule(name, address=0x5151_0000):
    api = c.pythonapi
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = (
        c.py_object,
        [c.c_void_p, c.c_char_p, c.c_void_p],
    )
    NAMES.setdefault(name, name.encode())
    return api.PyCapsule_New(address, NAMES[name], None)


class HasCapsule:
    def __init__(self, name):
        self.name = name

    def _get_capsule(self):
        return capsule(self.name)


@pytest.mark.parametrize("kind", [capsule, HasCapsule])
def test_sycl(kind):
    obj = Usm(syclobj=kind("SyclQueueRef"))
    with even(obj), take(obj) as taken:
        assert (
            taken.device[0] == P.ONEAPI
            and taken.data == ADDRESS
            and taken.shape == (3, 4)
            and taken.typestr == "|f4"
        )
        assert taken.stream == 0x5151_0000
    with take(Usm(syclobj=kind("SyclContextRef"))) as taken:
        assert taken.context == 0x5151_0000 and taken.stream in (None, P.STREAM_UNKNOWN)


def test_sycl_counts_elements():
    with take(Usm(strides=(8, -2), offset=7, data=(ADDRESS, True))) as taken:
        assert (
            taken.strides == (32, -8)
            and taken.data == ADDRESS + 28
            and taken.readonly
            and taken.byte_offset == 0
        )
    with take(Usm(offset=MISSING, strides=MISSING)) as taken:
        assert taken.data == ADDRESS and taken.strides is None
    with take(Usm(shape=(0, 4), offset=3)) as taken:
        assert taken.data == 0


@pytest.mark.parametrize(
    "changes, kind",
    [(dict(version=2), ValueError), (dict(shape=MISSING), KeyError), (dict(typestr=MISSING), KeyError),
     (dict(data=MISSING), KeyError), (dict(strides=(2**62, 1)), ValueError), (dict(offset=2**62), ValueError),
     (dict(offset=1.5), TypeError), (dict(syclobj=3), TypeError), (dict(syclobj=capsule("other")), (TypeError, ValueError))],
)  # fmt: skip
def test_malformed_sycl(changes, kind):
    with pytest.raises(kind, match="__sycl_usm_array_interface__"):
        take(Usm(**changes))


class Handle:
    def __init__(self, pointer):
        self.int_ptr = pointer


class OpenCl:
    """pyopencl.array.Array: `data` raises where there is an offset, so `base_data` it is."""

    def __init__(self, shape=(3, 4), strides=(16, 4), offset=0, handle=0x6161_0000, dtype="f4"):
        self.base_data, self.offset, self.shape, self.strides = (
            Handle(handle),
            offset,
            shape,
            strides,
        )
        self.dtype = np.dtype(dtype)


@pytest.mark.parametrize("offset", [0, 16])
def test_opencl(offset):
    obj = OpenCl(offset=offset)
    with even(obj), take(obj) as taken:
        assert (
            taken.device[0] == P.OPENCL
            and taken.data == 0x6161_0000
            and taken.byte_offset == offset
        )
        assert taken.shape == (3, 4) and taken.typestr == "<f4" and taken.contiguous()


# --- host memory

WAYS = [[], [P.DLPACK], [P.ARRAY_STRUCT], [P.ARRAY_INTERFACE]]

HOST_ARRAYS = {
    "dense": lambda: np.arange(12, dtype="f4").reshape(3, 4),
    "fortran": lambda: np.asfortranarray(np.arange(12, dtype="i8").reshape(3, 4)),
    "backwards": lambda: np.arange(12, dtype="u2")[::-2],
    "part": lambda: np.zeros((8, 8), "c16")[1:5, ::3],
    "broadcast": lambda: np.broadcast_to(np.arange(4, dtype="f8"), (3, 4)),
    "scalar": lambda: np.array(3.5),
    "empty": lambda: np.zeros((0, 4), "i4"),
    "bools": lambda: np.zeros(7, bool),
    "half": lambda: np.zeros(7, "f2"),
}


@pytest.mark.parametrize("protocols", WAYS)
@pytest.mark.parametrize("name", HOST_ARRAYS)
def test_numpy(name, protocols):
    array = HOST_ARRAYS[name]()
    with even(array), take(array, host=True, protocols=protocols) as taken:
        assert taken.shape == array.shape and taken.device == (P.CPU, 0) and taken.stream is None
        assert taken.data == (array.ctypes.data if array.size else 0)
        assert np.dtype(taken.typestr) == array.dtype
        assert taken.contiguous() == array.flags.c_contiguous
        if taken.strides is not None and array.size:
            assert taken.strides == array.strides
        assert taken.readonly == (not array.flags.writeable)


@pytest.mark.parametrize("protocols", [[P.ARRAY_INTERFACE], [P.ARRAY_STRUCT, P.ARRAY_INTERFACE]])
@pytest.mark.parametrize(
    "dtype", [">f4", "<M8[us]", "<m8[D]", "S5", "<U3", "V7", "i4,f8", "f4,(2,3)i2,S3", "g"]
)
def test_numpy_types(dtype, protocols):
    """DLPack cannot name them, and NumPy's exception ends the search where `__dlpack__` is asked first."""
    array = np.zeros(5, dtype)
    with take(array, host=True, protocols=protocols) as taken:
        assert np.dtype(taken.typestr).itemsize == array.dtype.itemsize
        if array.dtype.names:
            assert np.dtype(eval(taken.descr)) == array.dtype
        else:
            assert np.dtype(taken.typestr) == array.dtype


@pytest.mark.parametrize("protocols", WAYS)
def test_numpy_readonly(protocols):
    array = np.arange(12.0)
    array.flags.writeable = False
    with take(array, host=True, protocols=protocols) as taken:
        assert taken.readonly
    with pytest.raises(BufferError):
        take(array, host=True, writable=True, protocols=protocols)
    assert take.error.code == ERRORS["READONLY"]


def test_host_memory_must_be_asked_for():
    array = np.arange(12.0)
    refused(array, BufferError, status="HOST_MEMORY")
    for protocol in (P.DLPACK, P.ARRAY_STRUCT, P.ARRAY_INTERFACE):
        refused(array, BufferError, status="HOST_MEMORY", protocols=[protocol])


@pytest.mark.parametrize("protocols", WAYS)
def test_numpy_is_kept_alive(protocols):
    class Mine(np.ndarray):
        pass

    array = np.arange(1000.0).view(Mine)
    alive = weakref.ref(array)
    taken = take(array, host=True, protocols=protocols)
    del array
    gc.collect()
    assert alive() is not None
    assert c.cast(taken.data + 8 * 999, c.POINTER(c.c_double))[0] == 999
    taken.release()
    gc.collect()
    assert alive() is None


def test_what_only_offers_numpys_dictionary():
    class Plain:
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    array = np.arange(12.0).reshape(3, 4)[:, ::2]
    with take(Plain(array), host=True) as taken:
        assert (
            taken.shape == (3, 2) and taken.strides == (32, 16) and taken.data == array.ctypes.data
        )
    refused(Plain(array), TypeError, status="NO_PROTOCOL")
