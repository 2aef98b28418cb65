"""Imports: other keys, other protocols, SYCL, OpenCL buffers and host memory."""

import ast
import ctypes as c
import gc
import pickle
import sys
import types
import weakref

import cai_python as P
import numpy as np
import pytest
from cai_python import even, give, make, take
from import_ways import QUEUE, capsule
from importing import MISSING, REMEMBERS_TYPES, Boom, exporter, interface, refused
from producers import ADDRESS, STREAM

# --- 19: what else is in the dictionary, and what else the object offers


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
    refused(exporter(), TypeError, status="NO_PROTOCOL", protocols=[P.DLPACK, P.SYCL_USM, P.OPENCL_BUFFER])


NO_STREAM = dict(stream=MISSING, version=2)
BOTH = [P.CUDA_ARRAY_INTERFACE, P.DLPACK]


@pytest.mark.parametrize("protocols", [[], BOTH])
@pytest.mark.parametrize("stream", [P.STREAM_UNKNOWN, STREAM])
def test_a_required_stream_that_the_dictionary_lacks(protocols, stream):
    """JAX's: its `__dlpack__` orders the work. What the dictionary says of read-only memory still holds."""
    for readonly in (False, True):
        both = Dlpack(make((5,)), __cuda_array_interface__=interface(data=(ADDRESS, readonly), **NO_STREAM))
        with take(both, protocols=protocols) as taken:
            assert taken.shape == (3, 4) and taken.stream == P.STREAM_UNKNOWN and not both.calls
        with even(both), take(both, protocols=protocols, stream=stream, require_stream=True) as taken:
            asked = 1 if stream == P.STREAM_UNKNOWN else stream
            assert taken.shape == (5,) and taken.stream == asked == both.calls[0]["stream"] and taken.readonly == readonly
        if readonly:
            refused(both, BufferError, "data", "READONLY", protocols=protocols, require_stream=True, writable=True)


def test_a_required_stream_that_no_protocol_names():
    """The first refusal is reported."""

    class Declines(Dlpack):
        def __dlpack__(self, **options):
            raise BufferError("not this one")

    interfaces = dict(__cuda_array_interface__=interface(**NO_STREAM))
    for both in (Declines(make((5,)), **interfaces), Dlpack(make((5,)), device=(1, 0), **interfaces), exporter(**NO_STREAM)):
        refused(both, BufferError, "stream: ", "CONVERT_STREAM", require_stream=True)
    both = Dlpack(make((5,)), **interfaces)
    refused(both, BufferError, "stream: ", "CONVERT_STREAM", require_stream=True, stream=P.STREAM_NONE)
    refused(both, BufferError, "stream: ", "CONVERT_STREAM", require_stream=True, protocols=[P.CUDA_ARRAY_INTERFACE])


def test_a_required_stream_does_not_lose_a_mask():
    for changes in (NO_STREAM, {}):
        both = Dlpack(make((3, 4)), __cuda_array_interface__=interface(mask=exporter(typestr="|b1", **NO_STREAM), **changes))
        path = "stream: " if changes else "mask.stream: "
        refused(both, BufferError, path, "CONVERT_STREAM", require_stream=True, allow_mask=True)
        assert not both.calls


def test_a_required_type_that_the_dictionary_lacks():
    """Its typestr is opaque, and DLPack names the type."""
    both = Dlpack(make((5,), typestr="<V2", dtype_code=P.BFLOAT16), __cuda_array_interface__=interface(typestr="<V2"))
    wanted = dict(typestr="<V2", dtype_code=P.BFLOAT16)
    with even(both), take(both, **wanted) as taken:
        assert taken.shape == (5,) and taken.array.dtype_code == P.BFLOAT16
    with take(both, opaque_16bit=P.BFLOAT16, **wanted) as taken:
        assert taken.shape == (3, 4) and taken.array.dtype_code == P.BFLOAT16
    refused(exporter(typestr="<V2"), BufferError, "typestr: found <V2, expected <V2 with", "CONVERT_TYPE", **wanted)
    refused(both, BufferError, "typestr: found <V2, expected <f4", "CONVERT_TYPE", typestr="<f4")


def test_writable_memory_that_arrow_lacks():
    """Its arrays are read-only, and the buffer protocol is tried after it."""
    with take(np.arange(3), host=True) as taken:
        pair = give(taken).__arrow_c_array__
    for kind in (bytearray, bytes):
        obj = type("Lender", (kind,), {"__arrow_c_array__": lambda self: pair()})(5)
        with take(obj, host=True) as taken:
            assert taken.readonly and taken.shape == (3,)
        if kind is bytes:
            refused(obj, BufferError, "data: ", "READONLY", host=True, writable=True)
            continue
        with even(obj), take(obj, host=True, writable=True) as taken:
            assert not taken.readonly and taken.shape == (5,)


class Lends:
    """NumPy's interface with an object that lends the memory, made for each reading."""

    def __init__(self, make, **changes):
        self.make, self.changes = make, changes

    @property
    def __array_interface__(self):
        return {"shape": (2, 3), "typestr": "<i2", "version": 3, "data": self.make(), **self.changes}


def test_memory_that_an_object_in_data_lends():
    """Pillow's images have such a dictionary."""
    source = bytes(range(16))
    for kind, readonly in ((bytes, True), (bytearray, False), (memoryview, True), (np.frombuffer, True)):
        obj, values = Lends(lambda kind=kind: kind(source), offset=4), np.frombuffer(source, "<i2", 6, 4)
        for protocols in ([P.ARRAY_INTERFACE], []):
            with even(source), even(obj), take(obj, host=True, protocols=protocols) as taken:
                gc.collect()
                assert taken.readonly == readonly and taken.device == (P.CPU, 0)
                assert np.asarray(give(taken)).tolist() == values.reshape(2, 3).tolist()
    assert np.asarray(Lends(lambda: source, offset=4)).tolist() == values.reshape(2, 3).tolist()
    with take(Lends(lambda: source, strides=(-6, 2), offset=6), host=True) as taken:
        assert np.asarray(give(taken))[1, 0] == np.frombuffer(source, "<i2")[0]
    with take(Lends(bytes, shape=(0, 3)), host=True) as taken:
        assert not taken.data


def test_numpys_interface_before_arrow():
    """Pillow's images have both, and no rows and columns in Arrow."""
    with take(np.arange(16), host=True) as taken:
        image = Lends(lambda: bytes(16))
        image.__arrow_c_array__ = give(taken).__arrow_c_array__
    with take(image, host=True) as taken:
        assert (taken.shape, taken.typestr) == ((2, 3), "<i2")


@pytest.mark.parametrize("make, changes, words, status", [
    (lambda: bytes(11), {}, "a buffer of 11 bytes, expected one that contains the array, which extends from byte 0 to 12", "VALUE"),
    (lambda: bytes(16), {"offset": 5}, "extends from byte 5 to 17", "VALUE"),
    (lambda: bytes(16), {"strides": (-6, 2)}, "extends from byte -6 to 6", "VALUE"),
    (lambda: bytes(16), {"offset": 17}, "['offset']: found 17, expected 0 to 16", "VALUE"),
    (lambda: bytes(16), {"offset": -1}, "['offset']: found -1", "VALUE"),
    (lambda: bytes(16), {"shape": (1 << 40, 1 << 40)}, "['shape'][1]", "SIZE_OVERFLOW"),
    (lambda: memoryview(bytes(32))[::2], {}, "another order, or gaps", "CONVERT_CONTIGUOUS"),
])  # fmt: skip
def test_wrong_memory_in_data(make, changes, words, status):
    obj = Lends(make, **changes)
    error = BufferError if status.startswith("CONVERT") else ValueError
    refused(obj, error, words, status, host=True, protocols=[P.ARRAY_INTERFACE])


def test_a_type_error_of_dlpack_beside_arrow():
    """PyArrow's: nulls and some types, which Arrow's own protocol has."""

    class Declines(Dlpack):
        def __dlpack__(self, **options):
            self.calls.append(options)
            raise TypeError("no nulls")

    with take(np.arange(3), host=True) as taken:
        pair = give(taken).__arrow_c_array__
    obj = Declines(make((5,)), device=(1, 0), __arrow_c_array__=pair)
    with even(obj), take(obj, host=True) as taken:
        assert taken.shape == (3,) and obj.calls
    with take(give(make(typestr="|u1", shape=(8,), mask=make(typestr="|t1", shape=(8,)))), allow_mask=True) as taken:
        pair = give(taken).__arrow_c_device_array__
    refused(Declines(make((5,)), __arrow_c_device_array__=pair), BufferError, "found a mask", "CONVERT_MASK")
    for others in ({}, {"__arrow_c_array__": lambda: pair()[::-1]}):
        with pytest.raises(TypeError, match="no nulls|capsule"):
            take(Declines(make((5,)), device=(1, 0), **others), host=True)


@pytest.mark.parametrize("kind", ["M8[s]", "U3", "S3", "m8", "O", [("a", "i4")]])
def test_types_that_array_struct_cannot_name(kind):
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(3, kind)
    words = refused(
        array, BufferError, "__array_struct__.typekind", "CONVERT_TYPE", host=True, protocols=[P.ARRAY_STRUCT]
    )
    assert f"'{array.dtype.kind}'" in words and "__array_interface__" in words
    for protocols in ([], [P.ARRAY_STRUCT, P.ARRAY_INTERFACE]):
        with take(array, host=True, protocols=protocols) as taken:
            assert taken.typestr == array.dtype.str


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


@pytest.mark.parametrize("stream", [P.STREAM_UNKNOWN, P.STREAM_NONE, 1, 2, STREAM])
def test_dlpack_without_streams(stream):
    """TensorFlow 2.21 raises for every stream: it blocks the host. No stream means the legacy one."""

    class Blocking(Dlpack):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            self.calls.append(stream)
            if stream is not None:
                raise RuntimeError("tf.Tensor does not support DLPack export with a non-None stream")
            return self.source.__dlpack__(stream=-1)

    obj = Blocking(make((5,)))
    with take(obj, protocols=[P.DLPACK], stream=stream) as taken:
        assert taken.shape == (5,) and taken.stream == 1
    assert len(obj.calls) == 2 and obj.calls[1] is None


def test_dlpack_that_raises_twice():
    """Of two exceptions, the first is raised, unless the second is no Exception."""
    for second in (RuntimeError("second"), KeyboardInterrupt(), BufferError(), Boom()):
        errors = [RuntimeError("first"), second]

        class Bad(Dlpack):
            def __dlpack__(self, **options):
                self.calls.append(options.get("stream"))
                raise errors[len(self.calls) - 1]

        obj = Bad(make((5,)))
        with pytest.raises(BaseException) as info:
            take(obj, protocols=[P.DLPACK])
        assert info.value is errors[not isinstance(second, Exception)] and obj.calls == [1, None]
    # The host has no stream to leave out.
    errors, obj = [RuntimeError("first")], Bad(make((5,)), device=(1, 0))
    with pytest.raises(RuntimeError):
        take(obj, host=True, protocols=[P.DLPACK])
    assert obj.calls == [None]


def test_dlpack_that_raises():
    for error in (Boom(), RuntimeError(), BufferError(), TypeError("mine")):

        class Bad(Dlpack):
            def __dlpack__(self, **_):
                raise error

        with pytest.raises(type(error)) as info:
            take(Bad(make((5,))), protocols=[P.DLPACK])
        assert info.value is error


def test_dlpack_capsules_that_are_none():
    class Bad(Dlpack):
        def __dlpack__(self, **_):
            return self.found

    fresh = give(make((5,))).__dlpack__()
    for found in (None, 3, object(), capsule("used_dltensor", ADDRESS), capsule("other", ADDRESS)):
        with pytest.raises((TypeError, ValueError)):
            take(Bad(make((5,)), found=found), protocols=[P.DLPACK])
    once = Bad(make((5,)), found=fresh)
    take(once, protocols=[P.DLPACK]).release()
    for consumed in (fresh, capsule("used_dltensor_versioned", ADDRESS)):
        once.found = consumed
        words = refused(once, TypeError, status="TYPE", protocols=[P.DLPACK])
        assert words == "__dlpack__: found a capsule that was already consumed, expected a new capsule from each call"


@pytest.mark.parametrize(
    "device, kind, found",
    [
        ((1, None), TypeError, "__dlpack_device__[1]: found an object of type NoneType, expected an integer"),
        (("2", 0), TypeError, "__dlpack_device__[0]: found an object of type str, expected an integer"),
        ((99, 0), ValueError, "__dlpack_device__: found (99, 0), expected a device type of DLPack"),
        ((0, 0), ValueError, "__dlpack_device__: found (0, 0), "),
        ((-1, 0), ValueError, "__dlpack_device__: found (-1, 0), "),
        ((2, -1), ValueError, "__dlpack_device__: found (2, -1), "),
        ((2**32 + 2, 0), ValueError, "__dlpack_device__: found (4294967298, 0), "),
        ((2, 2**40), ValueError, "__dlpack_device__: found (2, 1099511627776), "),
        ((2, 0, 0), TypeError, "__dlpack_device__: found an object of type tuple, expected a tuple of two integers"),
        ([2, 0], TypeError, "__dlpack_device__: found an object of type list, expected a tuple of two integers"),
        (None, TypeError, "__dlpack_device__: found an object of type NoneType, "),
    ],
)  # fmt: skip
def test_dlpack_device_of_nonsense(device, kind, found):
    obj = Dlpack(make((5,)), device=device)
    words = refused(obj, kind, found, protocols=[P.DLPACK])
    assert words.startswith(found) and not obj.calls


# --- relatives: SYCL, buffers


class Usm:
    def __init__(self, **changes):
        own = dict(typestr="|f4", version=1, stream=MISSING, syclobj=capsule("SyclQueueRef"), offset=0)
        self.__sycl_usm_array_interface__ = interface(**{**own, **changes})


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
            taken.device[0] == P.ONEAPI and taken.data == ADDRESS and taken.shape == (3, 4) and taken.typestr == "|f4"
        )
        assert taken.stream == QUEUE
    with take(Usm(syclobj=kind("SyclContextRef"))) as taken:
        assert taken.context == QUEUE and taken.stream in (None, P.STREAM_UNKNOWN)


@pytest.mark.parametrize("mapping", [dict, type("Mapping", (dict,), {})], ids=["dict", "derived"])
def test_a_mask_in_a_sycl_dictionary(mapping):
    """The interface does not name the key, but a producer that uses it means what the others mean."""

    def masked(mask):
        obj = Usm()
        obj.__sycl_usm_array_interface__ = mapping(obj.__sycl_usm_array_interface__, mask=mask)
        return obj

    mask = Usm(typestr="|b1", data=(ADDRESS + 1024, False))
    refused(masked(mask), BufferError, "__sycl_usm_array_interface__['mask']", "CONVERT_MASK")
    refused(masked(3), TypeError, "__sycl_usm_array_interface__['mask']", "NO_PROTOCOL", allow_mask=True)
    for strict in False, mapping is dict:
        with take(masked(mask), allow_mask=True, strict=strict) as taken:
            assert taken.mask.typestr == "|b1" and taken.mask.data == ADDRESS + 1024
    take(masked(None)).release()


@pytest.mark.parametrize("kind", ["SyclQueueRef", "SyclContextRef"])
def test_the_device_of_a_sycl_dictionary_is_not_known(kind):
    """The dictionary has no number, and a capsule has none either: it is not device 0."""
    with take(Usm(syclobj=capsule(kind))) as taken:
        assert taken.device == (P.ONEAPI, -1)
        assert "oneapi:" not in repr(give(taken)) and "oneapi" in repr(give(taken))
        # DLPack requires a number.
        for call in (give(taken).__dlpack_device__, give(taken).__dlpack__):
            with pytest.raises(BufferError, match="not known"):
                call()
        with take(give(taken)) as again:
            assert again.device == (P.ONEAPI, -1)


class SyclDevice:
    """dpctl's, as far as it is used here."""

    number = 3

    def __init__(self, selector="gpu"):
        if selector == "tpu":
            raise ValueError("no device of that kind")
        self.sycl_platform = types.SimpleNamespace(default_context=HasCapsule("SyclContextRef"))

    def get_device_id(self):
        if self.number is None:
            raise ValueError("a sub-device")
        return self.number


@pytest.mark.parametrize("number, expected", [(0, 0), (3, 3), (None, -1), (-1, -1), (2**40, -1), ("3", -1), (2.0, -1)])
def test_the_device_of_a_queue(number, expected):
    queue = HasCapsule("SyclQueueRef")
    queue.sycl_device = SyclDevice()
    queue.sycl_device.number = number
    obj = Usm(syclobj=queue)
    with even(obj, queue, queue.sycl_device), take(obj) as taken:
        assert taken.device == (P.ONEAPI, expected) and taken.stream == QUEUE


@pytest.mark.parametrize(
    "answer, expected",
    [((14, 2), 2), ((14, 0), 0), ((14, -1), -1), ((2, 5), -1), ((14, None), -1), ((14,), -1), (None, -1),
     (BufferError("a sub-device"), -1)],
)  # fmt: skip
def test_the_device_that_dlpack_states(answer, expected):
    class Both(Usm):
        def __dlpack_device__(self):
            if isinstance(answer, Exception):
                raise answer
            return answer

    with take(Both(), protocols=[P.SYCL_USM]) as taken:
        assert taken.device == (P.ONEAPI, expected)

    class Ends(Usm):
        def __dlpack_device__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(Ends(), protocols=[P.SYCL_USM])


def test_filter_strings(monkeypatch):
    """Only SYCL's runtime finds the device of a filter string, and its context: it is asked, or the array is refused."""
    monkeypatch.setitem(sys.modules, "dpctl", None)
    words = refused(Usm(syclobj="level_zero:gpu:0"), ValueError, "['syclobj']", "VALUE")
    assert "'level_zero:gpu:0'" in words and "dpctl" in words
    dpctl = types.ModuleType("dpctl")
    monkeypatch.setitem(sys.modules, "dpctl", dpctl)
    refused(Usm(syclobj="gpu"), ValueError, "['syclobj']", "VALUE")
    dpctl.SyclDevice = SyclDevice
    obj = Usm(syclobj="level_zero:gpu:3")
    with even(obj), take(obj) as taken:
        assert taken.device == (P.ONEAPI, 3) and taken.context == QUEUE
        assert taken.stream == P.STREAM_UNKNOWN
    with pytest.raises(ValueError, match="no device of that kind"):
        take(Usm(syclobj="tpu"))
    dpctl.SyclDevice = lambda selector: types.SimpleNamespace(sycl_platform=None)
    refused(Usm(syclobj="gpu"), ValueError, "['syclobj']", "VALUE")


def test_what_made_the_capsule_is_kept_alive():
    """The reference in a capsule belongs to the object that made it."""

    class Queue(HasCapsule):
        pass

    class Fresh:
        """Its dictionary, and the queue in it, are made anew each time."""

        @property
        def __sycl_usm_array_interface__(self):
            queue = Queue("SyclQueueRef")
            self.queue = weakref.ref(queue)
            return Usm(syclobj=queue).__sycl_usm_array_interface__

    obj = Fresh()
    taken = take(obj)
    gc.collect()
    assert obj.queue() is not None
    taken.release()
    gc.collect()
    assert obj.queue() is None


def test_the_context_of_a_filter_string_is_kept_alive(monkeypatch):
    class Context(HasCapsule):
        pass

    class Device(SyclDevice):
        def __init__(self, selector):
            context = Context("SyclContextRef")
            contexts.append(weakref.ref(context))
            self.sycl_platform = types.SimpleNamespace(default_context=context)

    contexts = []
    dpctl = types.ModuleType("dpctl")
    dpctl.SyclDevice = Device
    monkeypatch.setitem(sys.modules, "dpctl", dpctl)
    taken = take(Usm(syclobj="gpu"))
    gc.collect()
    assert contexts[0]() is not None
    taken.release()
    gc.collect()
    assert contexts[0]() is None


class DpnpArray(Dlpack):
    """DLPack beside the dictionary, which stands on the instance."""

    def __init__(self, **others):
        super().__init__(make((5,), device=(P.ONEAPI, 2)), device=(P.ONEAPI, 2), **others)


def test_a_sycl_dictionary_before_dlpack():
    """It names the queue: also where it stands on the instance, or is made by `__getattr__`."""
    on_instance = DpnpArray(__sycl_usm_array_interface__=Usm().__sycl_usm_array_interface__)

    class Dynamic(DpnpArray):
        def __getattr__(self, name):
            if name == "__sycl_usm_array_interface__":
                return Usm().__sycl_usm_array_interface__
            raise AttributeError(name)

    class OnType(DpnpArray):
        @property
        def __sycl_usm_array_interface__(self):
            return Usm().__sycl_usm_array_interface__

    for obj in (on_instance, Dynamic(), OnType()):
        with take(obj) as taken:
            assert taken.shape == (3, 4) and taken.stream == QUEUE and not obj.calls
            assert taken.device == (P.ONEAPI, 2)
        with take(obj, protocols=[P.DLPACK, P.SYCL_USM]) as taken:
            assert taken.shape == (5,)


def test_dlpack_without_a_sycl_dictionary():
    """A property that declines leaves the array to DLPack."""

    class Declines(DpnpArray):
        @property
        def __sycl_usm_array_interface__(self):
            raise AttributeError("not this one")

    for obj in (DpnpArray(), Declines()):
        with take(obj) as taken:
            assert taken.shape == (5,) and taken.device == (P.ONEAPI, 2)


class Handle:
    def __init__(self, pointer):
        self.int_ptr = pointer


class OpenCl:
    """pyopencl.array.Array: `data` raises where there is an offset, so `base_data` it is."""

    def __init__(self, shape=(3, 4), strides=(16, 4), offset=0, handle=0x6161_0000, dtype="f4"):
        self.base_data, self.offset, self.shape, self.strides = (Handle(handle), offset, shape, strides)
        self.dtype = np.dtype(dtype)


@pytest.mark.parametrize("offset", [0, 16])
def test_opencl(offset):
    obj = OpenCl(offset=offset)
    with even(obj), take(obj) as taken:
        assert taken.device[0] == P.OPENCL and taken.data == 0x6161_0000 and taken.byte_offset == offset
        assert taken.shape == (3, 4) and taken.typestr == "<f4" and taken.contiguous()


class Pointer:
    def __init__(self, pointer):
        self._ptr = pointer


class Buffer:
    """What the proposal of the interface names, and nothing else."""

    def __init__(self, pointer=0x6161_0000, **changes):
        found = dict(buffer=Pointer(pointer), offset=0, dtype=np.dtype("f4"), shape=(3, 4), strides=(16, 4))
        found.update(changes)
        self.__dict__.update((name, value) for name, value in found.items() if value is not MISSING)

    def release(self):
        pass


def test_a_buffer_does_not_state_what_it_is():
    """`_ptr` is a cl_mem or a CUDA address: the caller states which, or the object is refused."""
    for obj in (Buffer(), Buffer(offset=16), Buffer(shape=(0, 4), buffer=None)):
        words = refused(obj, BufferError, "['buffer']", "CONVERT_DEVICE")
        assert "CAI_IMPORT_OPENCL_BUFFER_CL_MEM" in words and "CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS" in words
    obj = Buffer(offset=16)
    with even(obj, obj.buffer), take(obj, opencl=True) as taken:
        assert taken.device == (P.OPENCL, -1) and taken.stream == P.STREAM_UNKNOWN
        assert taken.data == 0x6161_0000 and taken.byte_offset == 16 and taken.context is None
        assert taken.strides == (16, 4) and taken.typestr == "<f4"
    with take(Buffer(), cuda=True) as taken:
        assert taken.device[0] == P.UNKNOWN and taken.data == 0x6161_0000 and taken.byte_offset == 0
    with take(Buffer(shape=(0, 4), buffer=None), opencl=True) as taken:
        assert taken.device[0] == P.OPENCL and taken.data == 0
    refused(Buffer(offset=16), ValueError, "['offset']", "VALUE", cuda=True)
    with pytest.raises(ValueError, match="CAI_IMPORT_OPENCL_BUFFER_CL_MEM and"):
        take(Buffer(), cuda=True, opencl=True)


def test_a_buffer_that_states_what_it_is():
    """The options decide nothing then."""
    for options in ({}, {"cuda": True}, {"opencl": True}):
        with take(OpenCl(), **options) as taken:
            assert taken.device == (P.OPENCL, -1)
        with take(Buffer(queue=Handle(0x7171_0000)), **options) as taken:
            assert taken.device == (P.OPENCL, -1) and taken.stream == 0x7171_0000
        with take(Buffer(context=Handle(0x7272_0000)), **options) as taken:
            assert taken.device == (P.OPENCL, -1) and taken.context == 0x7272_0000


def test_fields_of_a_buffer():
    """A structured dtype keeps its fields, or is refused."""
    kind = np.dtype([("a", "<i4"), ("b", "|i1"), (("title", "c"), "<f8", (2,))], align=True)
    obj = Buffer(dtype=kind, strides=(4 * kind.itemsize, kind.itemsize))
    with even(obj), take(obj, opencl=True) as taken:
        assert np.dtype(ast.literal_eval(taken.descr)) == np.dtype(kind.descr) and taken.typestr == kind.str
        assert taken.device == (P.OPENCL, -1) and taken.data == 0x6161_0000
    with take(Buffer(dtype=np.dtype("V7"), strides=None), cuda=True) as taken:
        assert taken.descr is None and taken.typestr == "|V7"
    overlapping = np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2]})
    with pytest.raises(ValueError, match="descr|overlapping"):
        take(Buffer(dtype=overlapping, strides=None), opencl=True)


# --- host memory

WAYS = [[], [P.DLPACK], [P.ARRAY_STRUCT], [P.ARRAY_INTERFACE], [P.PEP3118]]

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


def described(array, **options):
    """What an import says of an array, and how many references it holds."""
    before = sys.getrefcount(array)
    with take(array, host=True, **options) as taken:
        what = taken.shape, taken.strides, taken.typestr, taken.data, taken.readonly, taken.device, taken.stream
        return what, sys.getrefcount(array) - before


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "<i2", ">u4", "<i8", "<f2", ">f4", "<f8", ">c8", "<c16", "g"])
def test_numpy_in_place(dtype):
    """Once NumPy's type and the dtype are known, an array is read without `__array_struct__`, which says the same. Where
    types are not remembered, `__dlpack__` comes first, which may leave the strides out: only `__array_struct__` is read."""
    options = {} if REMEMBERS_TYPES else {"protocols": [P.ARRAY_STRUCT]}
    whole = np.zeros((6, 5, 4), dtype)
    locked = whole[1:]
    locked.flags.writeable = False
    warning = np.broadcast_arrays(whole[:1], whole)[0]  # a write to it warns: it counts as read-only
    arrays = [whole, whole[::2, ::-1], whole[0, 0, 0:1], whole.T, whole[..., 1], whole[:0], np.array(3, dtype), locked]
    described(whole, **options)
    for array in [*arrays, warning]:
        in_place, held = described(array, **options)
        asked, held_by_both = described(array, protocols=[P.ARRAY_STRUCT])
        # Twice: an array with two references may be resized.
        assert in_place == asked and held == held_by_both == 2
    grown = np.zeros(3, dtype)
    described(grown, **options)
    grown.resize((2, 4), refcheck=False)
    assert described(grown, **options)[0] == described(grown, protocols=[P.ARRAY_STRUCT])[0]
    with pytest.raises(ValueError), take(grown, host=True, **options):
        grown.resize(9)
    box = [np.zeros(3, dtype)]
    with take(box[0], host=True, **options), pytest.raises(ValueError):
        box.pop().resize(9)


def test_numpy_dtypes_in_one_place():
    """What is known of a dtype is found by its address, at which those of others may be."""
    options = {} if REMEMBERS_TYPES else {"protocols": [P.ARRAY_STRUCT]}
    for _ in range(2):  # its type first
        described(np.zeros((3, 2)), **options)
    for array in [np.zeros(3, np.dtype("u4").newbyteorder()) for _ in range(1000)]:
        assert described(array, **options)[0][2] == array.dtype.str


def test_numpy_dtypes_that_may_change():
    """An unpickled array has a dtype of its own, which anything may change."""
    array = pickle.loads(pickle.dumps(np.arange(4.0)))
    assert described(array)[0][2] == described(array)[0][2] == "<f8"
    array.dtype.__setstate__((3, ">", None, None, None, -1, -1, 0))
    assert described(array)[0][2] == ">f8"


@pytest.mark.parametrize("protocols", [[P.ARRAY_INTERFACE], [P.ARRAY_STRUCT, P.ARRAY_INTERFACE]])
@pytest.mark.parametrize("dtype", [">f4", "<M8[us]", "<m8[D]", "S5", "<U3", "V7", "i4,f8", "f4,(2,3)i2,S3", "g"])
def test_numpy_types(dtype, protocols):
    """DLPack cannot name them, and NumPy's exception ends the search where `__dlpack__` is asked first."""
    array = np.zeros(5, dtype)
    with take(array, host=True, protocols=protocols) as taken:
        assert np.dtype(taken.typestr).itemsize == array.dtype.itemsize
        if array.dtype.names:
            assert np.dtype(eval(taken.descr)) == array.dtype
        else:
            assert np.dtype(taken.typestr) == array.dtype


def test_host_memory_must_be_asked_for():
    array = np.arange(12.0)
    refused(array, BufferError, status="HOST_MEMORY")
    for protocol in (P.DLPACK, P.ARRAY_STRUCT, P.ARRAY_INTERFACE, P.PEP3118):
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
