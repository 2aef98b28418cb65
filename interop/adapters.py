"""Real libraries, one adapter each: how a library makes an array and a stream, takes an array, and what it cannot.
test_exchange.py tries each in every way. An adapter imports its library when it is made."""

import contextlib
import ctypes as c
import importlib
import importlib.util
import weakref

import numpy as np

import cai_ctypes as T
import cai_python as P
from cai_python import give, take
from dlpack_ctypes import new_capsule, pointer_in, rename_capsule

WHOLE = np.arange(12, dtype="f4").reshape(3, 4)
# Views of an array of that shape. NumPy's are the expected ones.
LAYOUTS = {
    "whole": np.s_[:], "columns": np.s_[:, ::2], "rows": np.s_[::2, 1:], "part": np.s_[1:, 1:], "row": np.s_[1],
    "end of row": np.s_[2, 1:], "column": np.s_[:, 3], "end of column": np.s_[1:, 2], "element": np.s_[1, 2, ...],
    "no rows": np.s_[:0], "no columns": np.s_[:, :0], "more": np.s_[None, :, None], "one row": np.s_[2:3],
    "reversed": np.s_[::-1, ::-1], "reversed rows": np.s_[::-1], "reversed columns": np.s_[1:, ::-2],
    "transposed": lambda array, _: array.T,
    "repeated": lambda array, broadcast: broadcast(array[:1], (3, 4)),
    "repeated columns": lambda array, broadcast: broadcast(array[:, :1], (3, 5)),
    "repeated whole": lambda array, broadcast: broadcast(array, (2, 3, 4)),
}  # fmt: skip
BACKWARDS = {"reversed", "reversed rows", "reversed columns"}
REPEATED = {"repeated", "repeated columns", "repeated whole"}
# As NumPy names them, as an array has them, and their codes.
NUMBERS = {
    "bool": ("|b1", 0), "int8": ("|i1", 0), "int16": ("<i2", 0), "int32": ("<i4", 0), "int64": ("<i8", 0),
    "uint8": ("|u1", 0), "uint16": ("<u2", 0), "uint32": ("<u4", 0), "uint64": ("<u8", 0), "float16": ("<f2", 0),
    "float32": ("<f4", 0), "float64": ("<f8", 0), "complex64": ("<c8", 0), "complex128": ("<c16", 0),
}  # fmt: skip


def view(array, layout, broadcast=np.broadcast_to):
    index = LAYOUTS[layout]
    return index(array, broadcast) if callable(index) else array[index]


def refusals(*rows):
    """By way or back, and layout, type, "mask" or "read-only": which exception it raises, the library's or ours."""
    return {(name, what): exception for names, whats, exception in rows for name in names for what in whats}


class Library:
    device = (P.CUDA, 0)
    # Options of each import.
    options = {}
    # Imports, by name: the protocols of cai_array_from_python. "made" is no import: the array is described by hand.
    ways = {}
    # Exports, by name: functions of the library that take an object of ours.
    backs = {}
    types = NUMBERS
    # Ways that name no device, and ways whose types are opaque unless the options have their code.
    deviceless, opaque = set(), set()
    # Layouts that its arrays cannot have.
    without = set()
    refuses = {}
    # Backs that copy.
    copies = set()
    # Backs that ignore that an array is read-only, or its mask.
    ignores = set()
    # The stream that an array without pending work has, by way; and the keys of the dictionary.
    streams, keys = {}, ""

    def take(self, way, array, **options):
        return take(array, protocols=self.ways[way], **{**self.options, **options})

    def back(self, back, taken):
        return self.backs[back](give(taken))

    def backs_of(self, way):
        return list(self.backs)

    def place(self, whole, offset):
        """The address of an element, and what an import has as its offset."""
        return self.address(whole) + offset, 0

    def typestr(self, way, typestr):
        return typestr

    def typed(self, numbers, name):
        """An array of 3 x 4 elements with these bytes."""
        return self.array(numbers.view(name).reshape(3, 4))

    def values(self, array):
        """As NumPy's array, or None where the library cannot copy to the host."""

    def bytes(self, array):
        return self.values(array).tobytes() if self.values(array) is not None else None

    def weak(self, array):
        return weakref.ref(array)

    def readonly(self, array, way=None):
        return False

    def strides(self, array):
        return array.strides

    def type_of(self, array):
        return str(np.dtype(array.dtype))

    def is_where_it_was(self, array):
        """On the adapter's device, where the library says so."""
        return True

    def settle(self):
        pass


class NumPy(Library):
    name = "numpy"
    device, options = (P.CPU, 0), {"host": True}
    ways = {"default": [], "dlpack": [P.DLPACK], "struct": [P.ARRAY_STRUCT], "dictionary": [P.ARRAY_INTERFACE],
            "buffer": [P.PEP3118]}  # fmt: skip
    backs = {"asarray": np.asarray, "from_dlpack": np.from_dlpack}
    streams = dict.fromkeys(ways)
    refuses = refusals((["from_dlpack"], ["mask"], BufferError))
    ignores = {("asarray", "mask")}

    def array(self, values):
        return values.copy().view(type("Weak", (np.ndarray,), {}))

    def view(self, array, layout):
        return view(array, layout)

    def values(self, array):
        return np.asarray(array)

    def address(self, array):
        return array.ctypes.data

    def readonly(self, array, way=None):
        return not array.flags.writeable


class OnDevice(Library):
    """Streams: `new_stream` gives one, its handle, and what makes it the current one.

    `pending` is an array that is being filled on a stream, `copied` a copy that is being made."""

    # Ways whose stream is the library's current one, and backs that order that one after ours.
    current, waits = set(), set()
    # Part of the report of a race.
    reported = "not ordered after it: read by"

    def settle(self):
        assert c.CDLL("libcuda.so.1").cuCtxSynchronize() == 0


class CuPy(OnDevice):
    """Its wheel carries NVIDIA's runtime library, which `cuda-sim run` redirects."""

    name = "cupy"
    ways = {"default": [], "dictionary": [P.CUDA_ARRAY_INTERFACE], "dlpack": [P.DLPACK]}
    streams = dict.fromkeys(ways, P.STREAM_LEGACY)
    keys = "shape typestr descr stream version strides data"
    deviceless = {"default", "dictionary"}
    # It divides strides by the size of an element without a sign.
    refuses = refusals(
        (["dlpack"], BACKWARDS, ValueError), (["asarray"], ["mask"], ValueError),
        (["from_dlpack"], ["mask"], BufferError),
    )  # fmt: skip
    ignores = {("asarray", "read-only"), ("from_dlpack", "read-only")}
    current = {"default", "dictionary"}
    waits = {"asarray", "from_dlpack"}
    reported = "cudaMemcpyAsync"

    def __init__(self):
        self.lib = importlib.import_module("cupy")
        self.backs = {"asarray": self.lib.asarray, "from_dlpack": self.lib.from_dlpack}

    def array(self, values):
        return self.lib.asarray(values)

    def view(self, array, layout):
        return view(array, layout, self.lib.broadcast_to)

    def values(self, array):
        return array.get()

    def address(self, array):
        return array.data.ptr

    def new_stream(self):
        stream = self.lib.cuda.Stream(non_blocking=True)
        return stream, stream.ptr, stream

    def copied(self, source, stream):
        with stream:
            to = self.lib.empty(source.shape, source.dtype)
        kind = self.lib.cuda.runtime.memcpyDeviceToDevice
        self.lib.cuda.runtime.memcpyAsync(to.data.ptr, source.data.ptr, source.nbytes, kind, stream.ptr)
        return to

    pending = copied


class Numba(OnDevice):
    name = "numba"
    ways = {"default": [], "dictionary": [P.CUDA_ARRAY_INTERFACE]}
    streams = dict.fromkeys(ways)
    keys = "shape strides data typestr stream version"
    deviceless = set(ways)
    current = set(ways)
    waits = {"as_cuda_array"}
    refuses = refusals((["as_cuda_array", "without sync"], ["mask"], NotImplementedError))
    ignores = {("as_cuda_array", "read-only"), ("without sync", "read-only")}
    # Its own transposition is a kernel.
    without = {"more", "element", "transposed"} | REPEATED | BACKWARDS

    def __init__(self):
        self.lib = importlib.import_module("numba.cuda")
        self.backs = {
            "as_cuda_array": self.lib.as_cuda_array,
            "without sync": lambda obj: self.lib.as_cuda_array(obj, sync=False),
        }

    def array(self, values):
        array = self.lib.to_device(np.asarray(values))
        self.lib.synchronize()
        return array

    def view(self, array, layout):
        return view(array, layout)

    def values(self, array):
        return array.copy_to_host()

    def address(self, array):
        return array.device_ctypes_pointer.value

    def new_stream(self):
        stream = self.lib.stream()
        return stream, int(stream.handle), contextlib.nullcontext()

    def pending(self, source, stream):
        to = self.lib.device_array(source.shape, source.dtype, stream=stream)
        to.copy_to_device(source, stream=stream)
        return to

    def copied(self, source, stream):
        to = self.lib.device_array(source.shape, source.dtype)
        to.copy_to_device(source, stream=stream)
        return to


FRESH, USED = b"dltensor_versioned", b"used_dltensor_versioned"
HEADERS = {"torch.h": "2.15", "torch.h for 2.11": "2.11"}


class Torch(Library):
    """On the host. Beside the protocols, DLPack's tensors in C: "tensor"; and cai/torch.h."""

    name = "torch"
    where, device, options = "cpu", (P.CPU, 0), {"host": True}
    ways = {"default": [], "table": [P.DLPACK_EXCHANGE], "dlpack": [P.DLPACK], "tensor": None, **HEADERS}
    streams = dict.fromkeys(ways)
    without = BACKWARDS
    refuses = refusals(
        (["from_dlpack", "tensor"], BACKWARDS, RuntimeError), (HEADERS, [*BACKWARDS, "read-only"], BufferError),
        (["from_dlpack", "tensor", *HEADERS], ["mask"], BufferError),
    )  # fmt: skip
    ignores = {("from_dlpack", "read-only"), ("tensor", "read-only")}
    small = {
        "float8_e4m3fn": ("<V1", 10), "float8_e4m3fnuz": ("<V1", 11), "float8_e5m2": ("<V1", 12),
        "float8_e5m2fnuz": ("<V1", 13), "float8_e8m0fnu": ("<V1", 14), "float4_e2m1fn_x2": ("<V1", 260),
    }  # fmt: skip
    types = {**NUMBERS, "complex32": ("<c4", 0), "bfloat16": ("<V2", 4), **small}

    def __init__(self):
        self.lib = importlib.import_module("torch")
        self.backs = {"from_dlpack": self.lib.from_dlpack, "tensor": None, **HEADERS}

    def backs_of(self, way):
        if way in HEADERS:
            return ["from_dlpack", way]
        return [back for back in self.backs if way == "made" or back not in HEADERS]

    def take(self, way, array, **options):
        if way in HEADERS:
            return importlib.import_module("torch_header").build(HEADERS[way]).look(array)
        if way != "tensor":
            return super().take(way, array, **options)
        stream = options.get("stream", P.STREAM_LEGACY)
        capsule = array.__dlpack__(max_version=(1, 0), **({"stream": stream} if array.is_cuda else {}))
        out, error = T.new_array(), T.Error()
        assert P.held.cai_array_from_dlpack(pointer_in(capsule, FRESH), stream, 0, out, error) == 0, error.message
        rename_capsule(capsule, USED)
        return P.Taken(out)

    def back(self, back, taken):
        if back in HEADERS:
            return importlib.import_module("torch_header").build(HEADERS[back]).give(taken)
        if back != "tensor":
            return super().back(back, taken)
        tensor, error = c.c_void_p(), T.Error()
        if P.held.cai_array_to_dlpack(taken.array, 0, tensor, error):
            raise BufferError(error.message)
        return self.lib.utils.dlpack.from_dlpack(new_capsule(tensor, FRESH, None))

    def array(self, values):
        return self.ready(self.lib.from_numpy(np.asarray(values).copy()))

    def ready(self, tensor):
        return tensor

    def typed(self, numbers, name):
        return self.ready(self.lib.from_numpy(numbers.copy()).view(getattr(self.lib, name)).reshape(3, 4))

    def view(self, array, layout):
        return view(array, layout, lambda tensor, shape: tensor.expand(shape))

    def values(self, array):
        return array.cpu().numpy()

    def bytes(self, array):
        return array.cpu().reshape(-1).view(self.lib.uint8).numpy().tobytes()

    def address(self, array):
        return array.data_ptr()

    def strides(self, array):
        return tuple(step * array.itemsize for step in array.stride())

    def type_of(self, array):
        return str(array.dtype).partition(".")[2]

    def is_where_it_was(self, array):
        return array.device.type == self.where and (array.device.index or 0) == 0


class TorchOnDevice(Torch, OnDevice):
    name = "torch on the device"
    where, device, options = "cuda", (P.CUDA, 0), {}
    ways = {**Torch.ways, "dictionary": [P.CUDA_ARRAY_INTERFACE]}
    streams = {**dict.fromkeys(ways, P.STREAM_LEGACY), "dictionary": P.STREAM_UNKNOWN}
    keys = "typestr shape strides data version"
    deviceless = opaque = {"dictionary"}
    current = {"default", "table", *HEADERS}
    waits = {"from_dlpack", ("dictionary", "from_dlpack"), *HEADERS}
    refuses = Torch.refuses | refusals(
        (["as_tensor"], BACKWARDS, RuntimeError), (["as_tensor"], ["read-only"], TypeError),
        # It does not read what it writes.
        (["as_tensor"], ["bfloat16", *Torch.small], TypeError), (["as_tensor"], ["complex32"], ValueError),
        (["dictionary"], ["complex32", *Torch.small], KeyError),
    )  # fmt: skip
    ignores = {*Torch.ignores, ("as_tensor", "mask")}

    def __init__(self):
        super().__init__()
        assert self.lib.cuda.is_available(), "the replacement runtime library is not loaded"
        self.backs["as_tensor"] = lambda obj: self.lib.as_tensor(obj, device="cuda")

    def ready(self, tensor):
        tensor = tensor.cuda()
        self.lib.cuda.synchronize()
        return tensor

    def new_stream(self):
        stream = self.lib.cuda.Stream()
        return stream, stream.cuda_stream, self.lib.cuda.stream(stream)

    def copied(self, source, stream):
        with self.lib.cuda.stream(stream):
            return source.clone()

    pending = copied


class CudaCore(OnDevice):
    """Its views take arrays. Its buffers are bytes, so that arrays are described by hand."""

    name = "cuda.core"
    waits = {"from_cuda_array_interface", "from_dlpack", "from_any_interface"}
    refuses = refusals((waits, ["mask"], BufferError))

    def __init__(self):
        name = "cuda.core" if hasattr(importlib.import_module("cuda.core"), "Device") else "cuda.core.experimental"
        self.lib, utils = importlib.import_module(name), importlib.import_module(f"{name}.utils")
        self.gpu = self.lib.Device(0)
        self.gpu.set_current()
        self.own = self.on = self.gpu.create_stream()
        self.backs = {
            name: lambda obj, make=getattr(utils.StridedMemoryView, name): make(obj, stream_ptr=int(self.on.handle))
            for name in sorted(self.waits)
        }

    def array(self, values):
        """A buffer, freed when it goes."""
        pinned = self.lib.LegacyPinnedMemoryResource().allocate(max(values.nbytes, 1))
        c.memmove(int(pinned.handle), np.ascontiguousarray(values).ctypes.data, values.nbytes)
        buffer = self.gpu.allocate(max(values.nbytes, 1), stream=self.own)
        pinned.copy_to(buffer, stream=self.own)
        self.own.sync()
        return buffer

    def address(self, array):
        return int(array.handle) if hasattr(array, "handle") else array.ptr

    def strides(self, array):
        return tuple(step * array.dtype.itemsize for step in array.strides) if array.strides else None

    def type_of(self, array):
        return array.dtype.name

    def is_where_it_was(self, array):
        return array.device_id == 0 and array.is_device_accessible

    def readonly(self, array, way=None):
        return array.readonly

    def new_stream(self):
        stream = self.gpu.create_stream()
        return stream, int(stream.handle), self.using(stream)

    @contextlib.contextmanager
    def using(self, stream):
        self.on, before = stream, self.on
        yield
        self.on = before

    def copied(self, source, stream):
        if not hasattr(source, "handle"):
            source = self.lib.Buffer.from_handle(source.ptr, WHOLE.nbytes)
        to = self.gpu.allocate(source.size, stream=stream)
        source.copy_to(to, stream=stream)
        return to

    pending = copied


class Queue:
    """Any queue, or a copy of it."""

    def __eq__(self, stream):
        return stream not in (None, P.STREAM_UNKNOWN)


class Dpnp(Library):
    """On Intel's runtime for processors."""

    name = "dpnp"
    ways = {"default": [], "sycl": [P.SYCL_USM], "dlpack": [P.DLPACK]}
    streams = {"default": Queue(), "sycl": Queue(), "dlpack": P.STREAM_UNKNOWN}
    copies, ignores = {"asarray"}, {("from_dlpack", "read-only")}
    # Its empty arrays have an address, which ours have not.
    without = {"made"}
    refuses = refusals(
        (["asarray"], ["no rows", "no columns"], ValueError), (["from_dlpack"], ["no rows", "no columns"], TypeError),
        # It leaves out the offset to the first element.
        (["asarray", "from_dlpack"], BACKWARDS, ValueError),
    )  # fmt: skip

    def __init__(self):
        self.lib = importlib.import_module("dpnp")
        self.backs = {"asarray": self.lib.asarray, "from_dlpack": self.lib.from_dlpack}
        self.device = tuple(self.array(WHOLE).__dlpack_device__())

    def weak(self, array):
        """It has no weak references."""
        return lambda: self

    def backs_of(self, way):
        return ["from_dlpack"] if way == "dlpack" else list(self.backs)

    def readonly(self, array, way=None):
        """Its DLPack tensors without dimensions."""
        return way == "dlpack" and array.ndim == 0

    def typestr(self, way, typestr):
        return typestr if way == "dlpack" else f"|{typestr[1:]}"

    def array(self, values):
        return self.lib.asarray(values)

    def view(self, array, layout):
        return view(array, layout, self.lib.broadcast_to)

    def values(self, array):
        return self.lib.asnumpy(array)

    def address(self, array):
        found = array.__sycl_usm_array_interface__
        return found["data"][0] + found["offset"] * array.itemsize


class PyOpenCL(Library):
    """On PoCL. Handles, with an offset to the first element. Takes no arrays."""

    name = "pyopencl"
    device = (P.OPENCL, -1)
    ways = {"default": []}
    streams = {"default": Queue()}
    without = {"made"} | REPEATED

    def __init__(self):
        self.cl, self.lib = importlib.import_module("pyopencl"), importlib.import_module("pyopencl.array")
        (found,) = [platform for platform in self.cl.get_platforms() if "Portable" in platform.name]
        self.queue = self.cl.CommandQueue(self.cl.Context(found.get_devices()[:1]))

    def array(self, values):
        return self.lib.to_device(self.queue, values)

    def view(self, array, layout):
        return view(array, layout)

    def address(self, array):
        return array.base_data.int_ptr

    def place(self, whole, offset):
        return self.address(whole), offset


ON_THE_SIMULATOR = NumPy, CuPy, Numba, Torch, TorchOnDevice, CudaCore
ON_THE_HOST = Dpnp, PyOpenCL


def of_this_environment():
    return [kind() for kind in (ON_THE_HOST if importlib.util.find_spec("dpctl") else ON_THE_SIMULATOR)]
