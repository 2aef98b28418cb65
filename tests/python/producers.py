"""What libraries put into `__cuda_array_interface__`: each class writes the dictionary as its model does, with its keys,
types, containers, version, stream, pointer of empty arrays, read-only flag and mask, or refuses as it does.

PRODUCERS lists one or several arrays of each, with what must come in. REFUSALS lists what must not, and why. `real`
names those that were compared with the library itself (the folder interop/).
"""

import collections.abc
import ctypes


# The data is never read: an address of the host serves as one of the device.
MEMORY = ctypes.create_string_buffer(1 << 16)
ADDRESS = (ctypes.addressof(MEMORY) + 255) // 256 * 256
STREAM = 0x7F12_3456_7890
TYPES = {"f4": 4, "f8": 8, "i4": 4, "u1": 1, "V2": 2, "M8": 8}


def itemsize(typestr):
    return int(typestr.split("[")[0].lstrip("<>|biufcmMV"))


def dense(shape, size):
    strides = []
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= max(extent, 1)
    return tuple(strides)


class Producer:
    """Counts how often the dictionary is asked for, and remembers what it was."""

    def __init__(
        self, shape=(3, 4), typestr="<f4", strides=None, stream=None, data=ADDRESS, readonly=False
    ):
        self.shape, self.typestr, self.stream, self.readonly = shape, typestr, stream, readonly
        self.size = 1
        for extent in shape:
            self.size *= extent
        self.pointer = data if self.size else 0
        self.given = strides
        self.strides = strides if strides is not None else dense(shape, itemsize(typestr))
        self.reads, self.last, self.before = 0, None, None

    def __getattribute__(self, name):
        if name != "__cuda_array_interface__":
            return super().__getattribute__(name)
        self.reads += 1
        found = super().__getattribute__(name)
        self.last, self.before = found, text_of(found)
        return found


def text_of(mapping):
    return repr([(key, mapping[key]) for key in mapping.keys()]) + repr(type(mapping))


class Numba(Producer):
    """numba.cuda's DeviceNDArray, old and new."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": tuple(self.shape),
            "strides": None if self.given is None else tuple(self.strides),
            "data": (self.pointer, False),
            "typestr": self.typestr,
            "stream": int(self.stream) if self.stream else None,
            "version": 3,
        }


class CuPy(Producer):
    """cupy.ndarray: the stream is the current one, as it is when the property is read."""

    version = 3
    descr = None

    @property
    def __cuda_array_interface__(self):
        found = {
            "shape": self.shape,
            "typestr": self.typestr,
            "descr": self.descr or [("", self.typestr)],
        }
        if self.version == 3:
            found["stream"] = self.stream or 1
        elif self.version != 2:
            raise ValueError(
                f"CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION can only be set to 3 (default) or 2, found {self.version}"
            )
        found["version"] = self.version
        found["strides"] = self.given
        found["data"] = (self.pointer, False)
        return found


class CuPyOnHip(Producer):
    @property
    def __cuda_array_interface__(self):
        raise AttributeError("HIP/ROCm does not support cuda array interface")


class Torch(Producer):
    """torch.Tensor: no stream, whatever it was computed on."""

    requires_grad, is_cuda, scalar = False, True, "float32"

    @property
    def __cuda_array_interface__(self):
        if not self.is_cuda:
            raise AttributeError(
                "Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor If CUDA data is required "
                "use tensor.cuda() to copy tensor to device memory."
            )
        if self.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
                "var.detach() to get Variable that doesn't require grad."
            )
        typestr = {"float32": "<f4", "float64": "<f8", "bfloat16": "<V2", "uint8": "|u1"}[
            self.scalar
        ]
        return dict(
            typestr=typestr, shape=tuple(self.shape), strides=self.given, data=(self.pointer, False), version=2
        )  # fmt: skip


class Jax(Producer):
    """jax.Array: read-only, no strides."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "typestr": self.typestr, "data": (self.pointer, True), "version": 2,
        }  # fmt: skip


class JaxOnCpu(Producer):
    @property
    def __cuda_array_interface__(self):
        raise AttributeError("__cuda_array_interface__ is only defined for NVidia GPU buffers.")


class JaxFfi(Producer):
    """jax.ffi's Buffer. Elsewhere than on CUDA it raises another exception than AttributeError."""

    platform = "CUDA"

    @property
    def __cuda_array_interface__(self):
        if self.platform != "CUDA":
            raise RuntimeError("UNIMPLEMENTED: Unsupported platform: Host")
        return {
            "shape": self.shape, "typestr": self.typestr, "data": (self.pointer, self.readonly), "version": 2,
        }  # fmt: skip


class Rmm(Producer):
    """rmm.DeviceBuffer: bytes, version 0; and cuDF's Buffer."""

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.pointer, False), "shape": (self.size,), "strides": None, "typestr": "|u1", "version": 0,
        }  # fmt: skip


class DelayedPointerTuple(collections.abc.Sequence):
    """cuDF's `data` of a buffer that can be spilled: no tuple, and the pointer comes when it is looked at."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i == 0:
            return self.pointer
        if i == 1:
            return False
        raise IndexError("tuple index out of range")


class CudfBuffer(Rmm):
    """Bits that call themselves bytes, where it is a mask."""

    __module__ = "cudf.core.buffer.buffer"


class CudfColumn(Producer):
    __module__ = "cudf.core.column.numerical"
    mask = None

    @property
    def __cuda_array_interface__(self):
        found = {
            "shape": self.shape,
            "strides": (itemsize(self.typestr),),
            "typestr": self.typestr,
            "data": DelayedPointerTuple(self.pointer),
            "version": 1,
        }
        if self.mask is not None:
            found["mask"] = self.mask
        return found


class CudfColumn3(CudfColumn):
    """The same, as newer ones call it."""

    __module__ = "cudf.core.column.numerical"

    @property
    def __cuda_array_interface__(self):
        return dict(super().__cuda_array_interface__, version=3)


class CudfStrings(Producer):
    @property
    def __cuda_array_interface__(self):
        raise NotImplementedError("Strings are not yet supported via `__cuda_array_interface__`")


class CudfCategorical(Producer):
    @property
    def __cuda_array_interface__(self):
        raise TypeError(
            "Categorical does not support `__cuda_array_interface__`. Please consider using `.codes` or `.categories`"
        )


class Pylibcudf(Producer):
    """gpumemoryview: hands out its source's dictionary, the object itself."""

    @property
    def __cuda_array_interface__(self):
        if "source" not in self.__dict__:
            self.source = {
                "data": (self.pointer, False),
                "shape": self.shape,
                "strides": None,
                "typestr": self.typestr,
                "version": 3,
                "stream": STREAM,
            }
        return self.source


class Pylibraft(Producer):
    """device_ndarray: NumPy's dictionary with another pointer; the version is NumPy's, too."""

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.pointer, False),
            "strides": self.given,
            "descr": [("", self.typestr)],
            "typestr": self.typestr,
            "shape": self.shape,
            "version": 3,
        }


class Dali(Producer):
    @property
    def __cuda_array_interface__(self):
        return {
            "typestr": self.typestr, "shape": self.shape, "data": (self.pointer, False), "version": 2, "strides": None,
        }  # fmt: skip


class PyCuda(Producer):
    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "strides": self.strides,
            "data": (int(self.pointer), False),
            "typestr": self.typestr,
            "stream": None,
            "version": 3,
        }


class Warp(Producer):
    """wp.array: one dictionary for the array's life, handed out itself."""

    on_cpu = False

    @property
    def __cuda_array_interface__(self):
        if self.on_cpu:
            raise AttributeError(
                "__cuda_array_interface__ not supported because this array is on a CPU device"
            )
        if "_array_interface" not in self.__dict__:
            self._array_interface = {
                "data": (self.pointer if self.pointer is not None else 0, False),
                "shape": self.shape,
                "strides": self.strides,
                "typestr": self.typestr,
                "version": 2,
            }
        return self._array_interface


class CvCuda(Producer):
    """ExternalBuffer: one dictionary, too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cache = {
            "shape": self.shape, "strides": self.strides, "data": (self.pointer, False), "typestr": self.typestr,
            "version": 2,
        }  # fmt: skip

    @property
    def __cuda_array_interface__(self):
        return self.cache


class NvImageCodec(Producer):
    on_host = False

    @property
    def __cuda_array_interface__(self):
        if self.on_host:
            raise RuntimeError("cuda_array_interface not supported for host buffer")
        return {
            "shape": self.shape,
            "strides": self.given,
            "typestr": self.typestr,
            "data": (self.pointer, False),
            "version": 3,
            "stream": self.stream or 1,
        }


class Holoscan(Producer):
    """Tensor: the attribute is the instance's, and is deleted when there is no data."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.pointer:
            self.__dict__["__cuda_array_interface__"] = {
                "shape": self.shape,
                "typestr": self.typestr,
                "descr": [("", self.typestr)],
                "data": (self.pointer, False),
                "version": 3,
                "strides": self.strides,
                "mask": None,
                "stream": 1,
            }


class CuCim(Producer):
    """CuImage: a picture of how it was when the instance's attribute was set."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__["__cuda_array_interface__"] = {
            "data": (self.pointer, False),
            "strides": None,
            "descr": [("", self.typestr)],
            "typestr": self.typestr,
            "shape": self.shape,
            "version": 3,
            "mask": None,
            "stream": 1,
        }


class TensorRt(Producer):
    """A plugin's tensor."""

    scalar = "FLOAT"

    @property
    def __cuda_array_interface__(self):
        if self.scalar == "BF16":
            raise ValueError("Data type bfloat16 is not supported by the CUDA array interface")
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.pointer, False),  # torch does not support read_only flag
            "version": 3,
            "strides": self.strides,
            "stream": self.stream,
        }


class Vpf(Producer):
    """VideoProcessingFramework: a list for a shape, a letter for a type."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": list(self.shape), "strides": None, "typestr": "B", "data": (self.pointer, False), "version": 2,
        }  # fmt: skip


class Vali(Producer):
    """Surface: the stream as it is, so that the default one is 0."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.pointer, False),
            "version": 3,
            "strides": self.strides,
            "stream": self.stream or 0,
        }


class Spdl(Producer):
    """CUDABuffer: version 2, and a stream."""

    @property
    def __cuda_array_interface__(self):
        return {
            "version": 2,
            "shape": tuple(self.shape),
            "typestr": self.typestr,
            "data": (self.pointer, False),
            "strides": None,
            "stream": self.stream or 0,
        }


class Hoomd(Producer):
    """HOOMDGPUArray: the type as a character of the buffer protocol."""

    @property
    def __cuda_array_interface__(self):
        empty = self.size == 0
        return {
            "data": (0 if empty else self.pointer, self.readonly),
            "typestr": self.typestr[1:]
            if len(self.typestr) == 2
            else {"<f4": "f", "<f8": "d", "<i4": "i"}[self.typestr],
            "version": 2,
            "shape": (0,) if empty else self.shape,
            "strides": (0,) if empty else self.strides,
        }


class Mirheo(Producer):
    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "typestr": self.typestr, "data": (self.pointer, False), "version": 2,
            "strides": self.strides,
        }  # fmt: skip


class CTranslate2(Producer):
    """StorageView: neither strides nor stream."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "typestr": self.typestr, "data": (self.pointer, False), "version": 3,
        }  # fmt: skip


class PyAmrex(Producer):
    """Array4: Fortran order; the stream is said to be none, though work may be pending."""

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (int(self.pointer), False), "version": 3, "shape": self.shape, "strides": self.strides,
            "typestr": self.typestr, "stream": None,
        }  # fmt: skip


class Genn(Producer):
    backend = "CUDA"

    @property
    def __cuda_array_interface__(self):
        if self.backend != "CUDA":
            raise RuntimeError("Only arrays of the CUDA backend have __cuda_array_interface__")
        return {
            "shape": self.shape, "typestr": self.typestr, "data": (self.pointer, False), "strides": None,
            "stream": None, "version": 3,
        }  # fmt: skip


class CuVec(Producer):
    """Managed memory: NumPy's dictionary under another name."""

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.pointer, False), "strides": self.given, "descr": [("", self.typestr)],
            "typestr": self.typestr, "shape": self.shape, "version": 3,
        }  # fmt: skip


class SlangPy(Producer):
    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "strides": self.strides, "typestr": self.typestr, "data": (self.pointer, False),
            "version": 3, "stream": None,
        }  # fmt: skip


class Ucxx(Producer):
    """CCCLBufferWrapper"""

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.pointer, False),
            "shape": (self.size,),
            "typestr": "|u1",
            "version": 2,
        }


class IsaacTeleop(Producer):
    @property
    def __cuda_array_interface__(self):
        if not self.pointer:
            raise RuntimeError("The frame has no device memory")
        return {
            "shape": self.shape, "typestr": self.typestr, "data": (self.pointer, False), "version": 3,
            "strides": self.strides, "stream": self.stream or 1,
        }  # fmt: skip


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


class Stf(Producer):
    """No stream on purpose, and no address where there are no elements."""

    @property
    def __cuda_array_interface__(self):
        return StfCai(
            version=3,
            shape=self.shape,
            typestr=self.typestr,
            data=(self.pointer or None, self.readonly),
            strides=self.given,
            stream=None,
            descr=[("", self.typestr)],
        )


class Paddle(Producer):
    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "typestr": self.typestr, "strides": self.given, "data": (self.pointer, False),
            "version": 2,
        }  # fmt: skip


class XgBoost(Producer):
    """What it makes of its own results."""

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.pointer, True), "strides": None, "typestr": self.typestr, "shape": self.shape, "version": 3,
            "stream": 2,
        }  # fmt: skip
