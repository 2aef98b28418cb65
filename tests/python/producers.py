"""What libraries put into `__cuda_array_interface__`, with their keys, types, containers, version, stream, pointer of
empty arrays, read-only flag and mask; and what must come in. REFUSALS lists what their attributes raise instead."""

import collections.abc
import ctypes

from cai_ctypes import STREAM_UNKNOWN as UNKNOWN

# The data is never read: an address of the host serves as one of the device.
MEMORY = ctypes.create_string_buffer(1 << 16)
ADDRESS = (ctypes.addressof(MEMORY) + 255) // 256 * 256
STREAM = 0x7F12_3456_7890


class DelayedPointerTuple(collections.abc.Sequence):
    """cuDF's `data` of a buffer that can be spilled: no tuple, and the pointer comes when it is looked at."""

    def __init__(self, pointer, readonly=False):
        self.items = pointer, readonly

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.items[i]


class StfCai:
    """cuda.stf's dictionary is none."""

    def __init__(self, **entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def get(self, key, default=None):
        return self.entries.get(key, default)

    def keys(self):
        return self.entries.keys()

    def items(self):
        return self.entries.items()


# How an entry is written, where that is not how the array has it: of the array, or the same for all.
HOW = {
    "shape=list": lambda array: list(array.shape),
    "strides=given": lambda array: array.strides,
    "strides=dense": lambda array: array.strides if array.strides is not None else array.dense,
    "strides=flat": lambda array: array.dense[-1:],
    "data": lambda array: (array.pointer, array.readonly),
    "data=readonly": lambda array: (array.pointer, True),
    "data=delayed": lambda array: DelayedPointerTuple(array.pointer),
    "data=or-None": lambda array: (array.pointer or None, array.readonly),
    "typestr=letter": lambda array: {"<f4": "f", "<f8": "d", "<i4": "i", "|u1": "B"}[array.typestr],
    "stream=or-None": lambda array: array.stream,
    "stream=or-1": lambda array: array.stream or 1,
    "stream=or-0": lambda array: array.stream or 0,
    "stream=STREAM": lambda array: STREAM,
    "descr": lambda array: array.descr or [("", array.typestr)],
}


class Producer:
    """An array of a library. Counts how often the dictionary is asked for, and remembers what it was."""

    keys, flags = "", ""

    def __init__(self, shape=(3, 4), typestr="<f4", strides=None, stream=None, readonly=False, descr=None, mask=None, data=ADDRESS):
        self.shape, self.typestr, self.strides, self.stream = shape, typestr, strides, stream
        self.readonly, self.descr, self.mask = readonly, descr, mask
        self.pointer = 0 if 0 in shape else data
        self.dense, size = (), int(typestr.split("[")[0].lstrip("<>|biufcmMV"))
        for extent in reversed(shape):
            self.dense = (size, *self.dense)
            size *= max(extent, 1)
        self.reads, self.last, self.before = 0, None, None
        if "handed-out" in self.flags:
            self.cache = self.write()
        if "attribute" in self.flags and self.pointer:
            self.__dict__["__cuda_array_interface__"] = self.write()

    def write(self):
        found = {}
        for word in self.keys.split():
            key, _, value = word.partition("=")
            if word in HOW:
                found[key] = HOW[word](self)
            elif key != "mask" or self.mask is not None or value:
                found[key] = {"None": None}[value] if value == "None" else int(value) if value else getattr(self, key)
        return StfCai(**found) if "no-dictionary" in self.flags else found

    def __getattribute__(self, name):
        if name != "__cuda_array_interface__":
            return super().__getattribute__(name)
        self.reads += 1
        if "attribute" in self.flags:
            found = super().__getattribute__(name)
        else:
            found = self.cache if "handed-out" in self.flags else self.write()
        self.last, self.before = found, text_of(found)
        return found


def text_of(mapping):
    return repr([(key, mapping[key]) for key in mapping.keys()]) + repr(type(mapping))


def library(keys, flags="", module=__name__, **expected):
    return type("Array", (Producer,), {"keys": keys, "flags": flags, "__module__": module}), expected


COMMON = "shape strides=given data typestr"
# The keys in their order, and what comes in, but for the shape, type, strides and flag that an array is made with.
LIBRARIES = {
    "numba": library("shape strides=given data typestr stream=or-None version=3", stream=None),
    "cupy": library("shape typestr descr stream=or-1 version=3 strides=given data", stream=1),  # the current stream
    "cupy-2": library("shape typestr descr version=2 strides=given data", version=2, stream=UNKNOWN),
    "torch": library("typestr shape strides=given data version=2", version=2, stream=UNKNOWN),
    "jax": library("shape typestr data=readonly version=2", version=2, stream=UNKNOWN, readonly=True),
    "jax-ffi": library("shape typestr data version=2", version=2, stream=UNKNOWN),
    "rmm": library("data shape strides=None typestr version=0", version=0, stream=UNKNOWN),  # and cuDF's buffers
    "cudf": library("shape strides=flat typestr data=delayed version=1 mask", module="cudf.core.column.numerical",
                    version=1, stream=UNKNOWN, strides=(4,)),
    "cudf-3": library("shape strides=flat typestr data=delayed version=3 mask", module="cudf.core.column.numerical",
                      stream=None, strides=(4,)),
    "cudf-buffer": library("data shape strides=None typestr version=0", module="cudf.core.buffer.buffer",
                           version=0, stream=UNKNOWN),
    "pylibcudf": library("data shape strides=None typestr version=3 stream=STREAM", "handed-out", stream=STREAM),  # its source's
    "pylibraft": library("data strides=given descr typestr shape version=3", stream=None),  # NumPy's, with another pointer
    "dali": library("typestr shape data version=2 strides=None", version=2, stream=UNKNOWN),
    "pycuda": library("shape strides=dense data typestr stream=None version=3", stream=None),
    "warp": library("data shape strides=dense typestr version=2", "handed-out", version=2, stream=UNKNOWN),
    "cv-cuda": library("shape strides=dense data typestr version=2", "handed-out", version=2, stream=UNKNOWN),
    "nvimagecodec": library("shape strides=given typestr data version=3 stream=or-1", stream=1),
    "holoscan": library("shape typestr descr data version=3 strides=dense mask=None stream=1", "attribute", stream=1),
    "cucim": library("data strides=None descr typestr shape version=3 mask=None stream=1", "attribute", stream=1),
    "tensorrt": library("shape typestr data version=3 strides=dense stream=or-None", stream=None),
    "vpf": library("shape=list strides=None typestr=letter data version=2", version=2, stream=UNKNOWN),
    "vali": library("shape typestr data version=3 strides=dense stream=or-0", stream=None),
    "spdl": library("version=2 shape typestr data strides=None stream=or-0", stream=None),  # of version 2, with a stream
    "hoomd": library("data typestr=letter version=2 shape strides=dense", version=2, stream=UNKNOWN),
    "mirheo": library("shape typestr data version=2 strides=dense", version=2, stream=UNKNOWN),
    "ctranslate2": library("shape typestr data version=3", stream=None),
    "pyamrex": library("data version=3 shape strides=dense typestr stream=None", stream=None),  # whatever is pending
    "genn": library("shape typestr data strides=None stream=None version=3", stream=None),
    "cuvec": library("data strides=given descr typestr shape version=3", stream=None),
    "slangpy": library("shape strides=dense typestr data version=3 stream=None", stream=None),
    "ucxx": library("data shape typestr version=2", version=2, stream=UNKNOWN),
    "isaac-teleop": library("shape typestr data version=3 strides=dense stream=or-1", stream=1),
    "stf": library("version=3 shape typestr data=or-None strides=given stream=None descr", "no-dictionary", stream=None),
    "paddle": library("shape typestr strides=given data version=2", version=2, stream=UNKNOWN),
    "xgboost": library("data=readonly strides=None typestr shape version=3 stream=2", stream=2, readonly=True),
}

BYTES = dict(shape=(4, 6, 3), typestr="|u1")
FIELDS = [("a", "<i4"), ("b", "|i1"), ("", "|V3")]


def mask_of(count):
    """As many bytes as fill 64, and one bit for each element."""
    return LIBRARIES["cudf-buffer"][0]((count,), "|u1", data=ADDRESS + 4096)


BITS = dict(shape=(100,), typestr="|t1", data=ADDRESS + 4096)
# (name, library, the array that is made, what else comes in)
CASES = [
    *[(name, name, {}, {}) for name in LIBRARIES if name not in ("rmm", "ucxx", "cudf", "cudf-3", "cudf-buffer", "vpf", "vali", "spdl")],
    ("numba-strided", "numba", dict(shape=(4, 3), strides=(4, 16)), {}),
    ("numba-stream", "numba", dict(stream=STREAM), dict(stream=STREAM)),
    ("numba-empty", "numba", dict(shape=(0, 4)), {}),
    ("numba-scalar", "numba", dict(shape=()), {}),
    ("cupy-stream", "cupy", dict(stream=STREAM), dict(stream=STREAM)),
    ("cupy-per-thread", "cupy", dict(stream=2), dict(stream=2)),
    ("cupy-empty", "cupy", dict(shape=(0,)), {}),
    ("cupy-strided", "cupy", dict(shape=(3, 2), strides=(4, 48)), {}),
    ("cupy-backwards", "cupy", dict(shape=(4,), strides=(-4,)), {}),
    ("cupy-broadcast", "cupy", dict(strides=(0, 4)), {}),
    ("cupy-bfloat16", "cupy", dict(typestr="<V2"), {}),
    ("cupy-datetime", "cupy", dict(typestr="<M8[us]"), {}),
    ("cupy-structured", "cupy", dict(typestr="|V8", descr=FIELDS), dict(descr=FIELDS)),
    ("torch-strided", "torch", dict(shape=(4, 3), strides=(4, 16)), {}),
    ("torch-expanded", "torch", dict(strides=(0, 4)), {}),
    ("torch-bfloat16", "torch", dict(typestr="<V2"), {}),
    ("torch-empty", "torch", dict(shape=(0, 4)), {}),
    ("torch-scalar", "torch", dict(shape=()), {}),
    ("jax-ffi-bfloat16", "jax-ffi", dict(typestr="<V2"), {}),
    ("jax-ffi-argument", "jax-ffi", dict(readonly=True), {}),
    ("rmm", "rmm", dict(shape=(100,), typestr="|u1"), {}),
    ("rmm-empty", "rmm", dict(shape=(0,), typestr="|u1"), {}),
    ("cudf", "cudf", dict(shape=(5,)), {}),
    ("cudf-3", "cudf-3", dict(shape=(5,)), {}),
    ("cudf-empty", "cudf", dict(shape=(0,)), {}),
    ("cudf-mask", "cudf", dict(shape=(100,), mask=mask_of(64)), dict(mask=BITS)),
    ("cudf-3-mask", "cudf-3", dict(shape=(100,), mask=mask_of(64)), dict(mask=BITS)),
    ("pylibraft-strided", "pylibraft", dict(shape=(4, 3), strides=(4, 16)), {}),
    ("pycuda-empty", "pycuda", dict(shape=(0, 4)), {}),
    ("warp-vec3", "warp", dict(shape=(10, 3)), {}),
    ("warp-bfloat16", "warp", dict(typestr="<u2"), {}),
    ("warp-empty", "warp", dict(shape=(0,)), {}),
    ("cv-cuda-image", "cv-cuda", dict(shape=(1, 4, 6, 3), typestr="|u1"), {}),
    ("nvimagecodec-image", "nvimagecodec", BYTES, {}),
    ("nvimagecodec-pitch", "nvimagecodec", dict(BYTES, strides=(32, 3, 1), stream=STREAM), dict(stream=STREAM)),
    ("cucim-image", "cucim", BYTES, {}),
    ("tensorrt-stream", "tensorrt", dict(stream=STREAM), dict(stream=STREAM)),
    ("vpf", "vpf", dict(shape=(6, 4), typestr="|u1"), dict(typestr="B")),
    ("vali", "vali", dict(BYTES, stream=STREAM), dict(stream=STREAM)),
    ("spdl", "spdl", dict(shape=(4, 6), typestr="|f4", stream=STREAM), dict(stream=STREAM)),
    ("spdl-u2", "spdl", dict(shape=(4, 6), typestr="|u2", stream=STREAM), dict(stream=STREAM)),
    ("hoomd-double", "hoomd", dict(typestr="<f8", readonly=True), {}),
    ("hoomd-int", "hoomd", dict(typestr="<i4"), {}),
    ("hoomd-empty", "hoomd", dict(shape=(0,)), {}),
    ("pyamrex-fortran", "pyamrex", dict(strides=(4, 12)), {}),
    ("slangpy-bfloat16", "slangpy", dict(typestr="<V2"), {}),
    ("ucxx", "ucxx", dict(shape=(100,), typestr="|u1"), {}),
    ("stf-argument", "stf", dict(readonly=True), {}),
    ("stf-empty", "stf", dict(shape=(0, 4)), {}),
]


def made(name, **given):
    return LIBRARIES[name][0](**given)


def expected(name, given, more):
    kind, common = LIBRARIES[name]
    array = kind(**given)
    strides = array.dense if "strides=dense" in kind.keys and array.strides is None else array.strides
    taken = dict(shape=array.shape, typestr=array.typestr, strides=strides, data=array.pointer, readonly=array.readonly)
    return {**taken, **common, **more}


PRODUCERS = [(name, lambda of=of, given=given: made(of, **given), expected(of, given, more)) for name, of, given, more in CASES]

# What the attribute of a library raises where it has no dictionary to give.
RAISES = {
    "cupy-on-hip": AttributeError("HIP/ROCm does not support cuda array interface"),
    "cupy-version-1": ValueError("CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION can only be set to 3 (default) or 2, found 1"),
    "torch-on-cpu": AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor"),
    "torch-requires-grad": RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad."),
    "torch-float8": KeyError("float8_e4m3fn"),
    "jax-on-cpu": AttributeError("__cuda_array_interface__ is only defined for NVidia GPU buffers."),
    "jax-ffi-on-cpu": RuntimeError("UNIMPLEMENTED: Unsupported platform: Host"),
    "cudf-strings": NotImplementedError("Strings are not yet supported via `__cuda_array_interface__`"),
    "cudf-categorical": TypeError("Categorical does not support `__cuda_array_interface__`."),
    "warp-on-cpu": AttributeError("__cuda_array_interface__ not supported because this array is on a CPU device"),
    "nvimagecodec-on-host": RuntimeError("cuda_array_interface not supported for host buffer"),
    "tensorrt-bfloat16": ValueError("Data type bfloat16 is not supported by the CUDA array interface"),
    "genn-on-cpu": RuntimeError("Only arrays of the CUDA backend have __cuda_array_interface__"),
    "isaac-teleop-null": RuntimeError("The frame has no device memory"),
}
