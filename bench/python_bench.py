"""Exchange with Python objects: prints what each row takes, for run.py, which says how a row is added.

Runs in a folder with the compiled module (python.c) and a copy of the library. With `stored`, only what needs no
other library: the rows for other versions of CPython.
"""

import array
import ctypes
import gc
import mmap
import os
import sys
import sysconfig
import tempfile
from importlib import metadata

sys.path.insert(0, os.getcwd())
import python_ways as ways  # noqa: E402

ROUNDS, ROUND_NS = int(os.environ.get("BENCH_ROUNDS", 15)), float(os.environ.get("BENCH_NS", 2e6))
WRITABLE, C_CONTIGUOUS, NATIVE, NDIM, MASK, HOST, DEVICE = 4, 8, 32, 64, 128, 256, 512  # CAI_IMPORT_ bits
DLPACK = 4 << 32  # CAI_PROTOCOL_DLPACK
LISTED = HOST | 3 << 32 | 9 << 40  # CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, CAI_PROTOCOL_PEP3118
CURRENT = (-1,)  # a stream for which nothing is to be ordered


class Object:
    """Holds a dictionary that was made once."""

    def __init__(self, interface):
        self.__cuda_array_interface__ = interface


class Property:
    """Makes it anew each time, as CuPy does, with its keys in the order of CuPy."""

    def __init__(self, interface):
        self.shape, self.typestr, self.data = interface["shape"], interface["typestr"], interface["data"]

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "descr": [("", self.typestr)],
            "stream": 1,
            "version": 3,
            "strides": None,
            "data": self.data,
        }


def module(name, package):
    try:
        found = __import__(name, fromlist=["_"])
    except ImportError:
        print(f"without\t{package}")
        return None
    print(f"with\t{package} {metadata.version(package)}")
    return found


def address():
    """Memory that the driver knows, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("without\ta driver")
        return None
    context, data = ctypes.c_void_p(), ctypes.c_uint64()
    calls = (
        driver.cuInit(0)
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        or driver.cuCtxSetCurrent(context)
        or driver.cuMemAlloc_v2(ctypes.byref(data), ctypes.c_size_t(4096))
    )
    return None if calls else data.value


def view():
    """`libcai.view`, of the copy of the library that is measured."""
    make = ctypes.PyDLL("./libcai.so.1").cai_unstable_python_view
    made = ctypes.py_object()
    make(ctypes.byref(made), None)
    return made.value


class Row:
    """What python.c's `kind` takes for `thing`. `wrong`: things that it must refuse."""

    def __init__(self, name, kind, thing, more=None, wrong=()):
        self.name, self.kind, self.thing, self.more, self.wrong = name, kind, thing, more, wrong

    def ns(self, times):
        return ways.ns(self.kind, times, self.thing, self.more)

    def prepare(self):
        for wrong in self.wrong:
            try:
                ways.ns(self.kind, 1, wrong, self.more)
            except Exception:
                continue
            raise SystemExit(f"{self.name}: accepted {getattr(wrong, '__dict__', wrong)}, which is wrong")
        try:
            once = min(self.ns(64) for _ in range(3))
        except Exception as error:
            raise SystemExit(f"{self.name}: {error!r}")
        self.times = max(64, int(ROUND_NS / max(once, 1)))


def call(name, function, *positional, keywords=None, attributes=None, wrong=()):
    """A Python function, called from C; `attributes` of what it returns are read."""
    row = Row(name, "call", function, (positional, keywords, attributes))
    for arguments in wrong:
        try:
            function(*arguments, **(keywords or {}))
        except Exception:
            continue
        raise SystemExit(f"{name}: accepted what is wrong")
    return row


def native(name, library, symbol, thing, wrong=()):
    """A C function `int symbol(PyObject *)` of another library in the folder."""
    function = getattr(ctypes.PyDLL(f"./{library}"), symbol)
    return Row(name, "native", thing, ctypes.cast(function, ctypes.c_void_p).value, wrong)


def changed(interface, changes):
    return {key: value for key, value in (interface | changes).items() if value is not ...}


def spoiled(interface):
    """Wrong dictionaries, beside a right one."""
    return [Object(interface | wrong) for wrong in ({"shape": (-1, 4)}, {"typestr": 4}, {"data": (1,)})]


# Arrays as producers describe them: what differs from three by four floats in C order. `...`: the key is left out.
SHAPES = {
    "floats, 3 by 4": {},
    "with strides: every other column": {"strides": (32, 8)},
    "with strides: reversed": {"strides": (16, -4)},
    "with strides and a stream": {"strides": (32, 4), "stream": 1},
    "as CuPy: a stream, a descr that adds nothing": {"stream": 1, "descr": [("", "<f4")]},
    "version 2, no stream": {"version": 2, "stream": ...},
    "read-only": {"data": (0x7F0000000000, True)},
    "bool": {"typestr": "|b1"},
    "int8": {"typestr": "|i1"},
    "float16": {"typestr": "<f2"},
    "float64": {"typestr": "<f8"},
    "complex64": {"typestr": "<c8"},
    "complex128": {"typestr": "<c16"},
    "bfloat16": {"typestr": "<V2"},
    "times": {"typestr": "<M8[ns]"},
    "opaque, with a descr that adds nothing": {"typestr": "<V2", "descr": [("", "<V2")]},
    "floats, with a descr that adds nothing": {"descr": [("", "<f4")]},
    "no dimensions": {"shape": ()},
    "one element": {"shape": (1,)},
    "no elements": {"shape": (0, 4), "data": (0, False)},
    "no elements, with an address": {"shape": (0, 4)},
    "1 dimension": {"shape": (12,)},
    "4 dimensions": {"shape": (2, 3, 4, 5)},
    "8 dimensions": {"shape": (2,) * 8},
    "8 dimensions with strides": {"shape": (2,) * 8, "strides": (512, 256, 128, 64, 32, 16, 8, 4)},
    "64 dimensions": {"shape": (1,) * 64},
    "a list as shape": {"shape": [3, 4]},
    "lists as shape and strides": {"shape": [3, 4], "strides": [16, 4]},
    "two fields (by hand: not read)": {"typestr": "|V8", "descr": [("x", "<f4"), ("y", "<i4")]},
    "an array as field (by hand: not read)": {"typestr": "|V24", "descr": [("x", "<f4", (2, 3))]},
    "a mask (by hand: not read)": {"mask": ...},
    "NumPy's integers in a tuple": {"shape": "integers"},
    "NumPy's integers in a list": {"shape": "integers"},
}  # fmt: skip


def shapes(plain, numpy):
    """(name, object, flags that it needs, requirements of a C++ function on its argument)."""
    for name, changes in SHAPES.items():
        interface = changed(plain, changes)
        flags = NATIVE | NDIM
        if "mask" in changes:
            interface["mask"] = Object(plain | {"typestr": "|b1"})
            flags |= MASK
        if interface["shape"] == "integers":
            if not numpy:
                continue
            interface["shape"] = (tuple if "tuple" in name else list)((numpy.int64(3), numpy.int64(4)))
        if not interface["data"][1]:
            flags |= WRITABLE
        if interface["strides"] is None:
            flags |= C_CONTIGUOUS
        kind = interface["typestr"][1]
        typestr = interface["typestr"] if kind in "biufc" or name == "bfloat16" else ""
        yield name, Object(interface), flags & MASK, (flags, len(interface["shape"]), typestr)


def lenders(numpy):
    """What lends memory to a program that moves bytes."""
    yield "bytes", b"0123456789abcdef"
    yield "bytearray", bytearray(16)
    yield "mmap", mmap.mmap(-1, 4096)
    yield "memoryview", memoryview(bytearray(16))
    yield "array.array", array.array("d", [1, 2, 3])
    if numpy:
        yield "numpy.ndarray, 2 dimensions", numpy.zeros((3, 4), "f4")
        yield "numpy.ndarray, every other column", numpy.zeros((3, 8), "f4")[:, ::2]
        yield "numpy.memmap", numpy.memmap(tempfile.TemporaryFile(), "u1", shape=64)


def arguments(driver, plain, wrong, numpy, tensor):
    """Functions in C++ that take arrays as arguments."""
    bound, nano = __import__("pybind11_casters"), __import__("nanobind_casters")
    calls = [(thing,) for thing in (*wrong, 3)]
    if numpy:
        zeros = numpy.zeros((3, 4), "f4")
        yield "an argument: NumPy's array", [
            call("nanobind: nb::ndarray", nano.own, zeros, wrong=[(3,)]),
            call("nanobind: cai::from_python", nano.anywhere, zeros, wrong=calls),
            call("pybind11: py::array_t", bound.own, zeros, wrong=[("three",)]),
            call("pybind11: cai::from_python", bound.anywhere, zeros, wrong=calls),
        ]
    tvm = module("tvm_ffi", "apache-tvm-ffi") if tensor is not None else None
    if tvm:
        grads = [(tensor.clone().requires_grad_(),)]
        yield "an argument: PyTorch's CUDA tensor", [
            call("tvm_ffi: TensorView", tvm.load_module("./tvm_casters.so")["take"], tensor, wrong=[(object(),)]),
            call("nanobind: cai::array", nano.array, tensor, wrong=calls + grads),
            call("pybind11: cai::array", bound.array, tensor, wrong=calls + grads),
            call("nanobind: nb::ndarray", nano.own, tensor, wrong=[(3,)]),
            call("nanobind: cai::view, ordered", nano.view, tensor, wrong=calls + grads),
            call("pybind11: cai::view, ordered", bound.view, tensor, wrong=calls + grads),
        ]
    if driver:
        cupy, flat = Property(plain), Property(plain | {"shape": (12,)})
        others = [*calls, (flat,), (Property(plain | {"typestr": "<i4"}),)]
        yield "an argument: an object with CuPy's property", [
            call("pybind11: by hand, five keys", bound.by_hand, cupy, wrong=[(3,)]),
            call("pybind11: cai::view, ordered", bound.view, cupy, wrong=others),
            call("nanobind: cai::view, ordered", nano.view, cupy, wrong=others),
            call("pybind11: cai::array", bound.array, cupy, wrong=calls),
        ]


def stored_groups(plain, numpy=None, producers={}):
    """What is compared under every CPython."""
    stored, wrong = Object(plain), spoiled(plain)
    yield "in: a dictionary without its object", [
        Row("by hand: read with Python.h", "dict_by_hand", plain),
        Row("libcai: cai_array_from_python_dict, release", "dict", plain),
    ]
    rows = [
        row
        for name, thing, flags, _ in shapes(plain, numpy)
        for row in (
            Row(f"{name} | by hand", "by_hand", thing, None, wrong),
            Row(f"{name} | libcai", "libcai_options" if flags else "libcai", thing, flags, wrong),
        )
    ]
    yield "in: stored dictionaries", rows
    rows = [
        row
        for name, thing, flags, required in shapes(plain, numpy)
        for row in (
            Row(f"{name} | libcai", "libcai_options" if flags else "libcai", thing, flags, wrong),
            Row(f"{name} | required", "libcai_options", thing, required, [*wrong, Object(plain | {"shape": (1, 1, 1)})]),
        )
    ]
    yield "in: the same with a caster's requirements", rows
    required, rows = (NATIVE | WRITABLE | NDIM, 2, "<f4"), []
    for name, thing in {"a dictionary": Object(plain), "a property, as CuPy has it": Property(plain), **producers}.items():
        rows += [
            Row(f"{name} | by hand", "by_hand", thing, None, wrong),
            Row(f"{name} | libcai", "libcai", thing, None, wrong),
            Row(f"{name} | libcai, required", "libcai_options", thing, required, wrong),
        ]
    yield "in: objects of producers", rows


def groups():
    """(title, rows). The first row, or the first of the same item, is the measure of the others."""
    driver = address()
    core = module("cuda.core.utils", "cuda-core") if driver else None
    numba = module("numba.cuda", "numba-cuda") if driver else None
    cupy = module("cupy", "cupy-cuda13x") if driver else None
    numpy, torch = module("numpy", "numpy"), module("torch", "torch")
    cuda_torch = torch is not None and driver is not None and torch.cuda.is_available()
    plain = dict(shape=(3, 4), typestr="<f4", data=(driver or 0x7F0000000000, False), version=3, strides=None, stream=None)
    stored, wrong = Object(plain), spoiled(plain)
    producers = {}
    if cupy:
        producers["CuPy's array"] = cupy.ndarray((3, 4), "f4")
    if numba:
        producers["Numba's array"] = numba.device_array((3, 4), "f4")
    if cuda_torch:
        producers["PyTorch's tensor"] = torch.empty((3, 4), device="cuda")
    yield from stored_groups(plain, numpy, producers)

    rows = [
        Row("by hand: read with Python.h", "by_hand", stored, None, wrong),
        Row("libcai: import, release", "libcai", stored, None, wrong),
        native("pybind11: attr, cast, five keys", "pybind11_ways.so", "read_with_pybind11", stored, wrong[1:2]),
    ]
    fields = ("ptr", "shape", "strides", "dtype", "readonly", "device_id")
    if core:
        view_of = core.StridedMemoryView.from_cuda_array_interface
        any_of = core.StridedMemoryView.from_any_interface
        rows += [
            call("cuda.core: from_cuda_array_interface", view_of, stored, -1),
            call("cuda.core: from_any_interface", any_of, stored, keywords={"stream_ptr": -1}),
        ]
    if numba:
        rows += [call("Numba: as_cuda_array, sync=False", numba.as_cuda_array, stored, keywords={"sync": False})]
    if cuda_torch:
        rows += [call("PyTorch: as_tensor", torch.as_tensor, stored, keywords={"device": "cuda"})]
    yield "in: a stored dictionary", rows

    make, wrong_calls = view(), [(thing, -1) for thing in wrong]
    rows = [call("libcai.view", make, stored, -1, wrong=wrong_calls)]
    if driver:
        rows += [call("libcai.view, six fields read", make, stored, -1, attributes=fields, wrong=wrong_calls)]
    if core:
        rows += [
            call("cuda.core: StridedMemoryView", view_of, stored, -1),
            call("cuda.core: StridedMemoryView, six fields read", view_of, stored, -1, attributes=fields),
        ]
    yield "a view of a stored dictionary, released", rows

    rows = []
    for name, lender in lenders(numpy):
        rows += [
            Row(f"{name} | by hand", "buffer_by_hand", lender, None, [stored]),
            Row(f"{name} | libcai", "mover", lender, HOST, [*wrong, 3]),
            Row(f"{name} | libcai, two protocols listed", "mover", lender, LISTED, [*wrong, 3]),
        ]
    yield "a mover of host memory: import, wait, layout", rows

    own, tensor = ways.to_python(stored, 0), ways.Tensor()
    yield "in: this library's table", [
        Row("the table's function by hand, release", "own_table", own),
        Row("libcai: import, release", "libcai", own, None, wrong),
    ]
    yield "in: DLPack's table", [
        Row("by hand: a tensor, its stream, its deleter", "dlpack_tensor", tensor, None, [ways.WrongTensor()]),
        Row("by hand: a borrowed tensor, its stream", "dlpack_view", tensor),
        Row("libcai: import, release", "libcai", tensor, None, [ways.WrongTensor()]),
    ]
    if torch:
        host = torch.zeros(3, 4)
        rows = [
            Row("by hand: a tensor, its deleter", "dlpack_tensor", host, None, [ways.WrongTensor()]),
            Row("by hand: a borrowed tensor", "dlpack_view", host),
            Row("libcai: import, release", "libcai_options", host, HOST, [ways.WrongTensor()]),
            call("PyTorch: torch.utils.dlpack.from_dlpack", torch.utils.dlpack.from_dlpack, host),
        ]
        if numpy:
            rows += [call("NumPy: from_dlpack", numpy.from_dlpack, host)]
        if core:
            rows += [call("cuda.core: from_dlpack", core.StridedMemoryView.from_dlpack, host, keywords={"stream_ptr": -1})]
        yield "in: a tensor of PyTorch in host memory", rows
    if cuda_torch:
        tensor = torch.empty((3, 4), device="cuda")
        rows = [
            Row("by hand: a tensor, its stream, its deleter", "dlpack_tensor", tensor, None, [ways.WrongTensor()]),
            Row("libcai: import, release", "libcai", tensor, None, [ways.WrongTensor()]),
        ]
        if core:
            rows += [call("cuda.core: from_any_interface", any_of, tensor, keywords={"stream_ptr": -1})]
        yield "in: a CUDA tensor of PyTorch", rows
    yield from arguments(driver, plain, wrong, numpy, tensor if cuda_torch else None)

    rows = [
        Row("by hand: a dictionary", "dictionary_by_hand", stored, 0),
        Row("libcai: an object", "out", stored, 0, wrong),
        Row("libcai: an object, its dictionary read", "out_and_read", stored, 0, wrong),
    ]
    if numpy:
        rows += [Row("NumPy: __array_interface__", "attribute", numpy.zeros((3, 4), "f4"), "__array_interface__")]
    if numba:
        theirs = numba.as_cuda_array(stored, sync=False)
        rows += [Row("Numba: __cuda_array_interface__", "attribute", theirs, "__cuda_array_interface__")]
    if cuda_torch:
        rows += [Row("PyTorch: __cuda_array_interface__", "attribute", tensor, "__cuda_array_interface__")]
    yield "out", rows

    rows = [
        Row("libcai: out, in through the table", "out_and_in", stored, 0, wrong),
        Row("libcai: release on a thread without the lock", "release_elsewhere", stored, None, wrong),
    ]
    if numpy:
        zeros = numpy.zeros((3, 4), "f4")
        rows += [
            Row("libcai: NumPy's array, in and released", "libcai_options", zeros, HOST, wrong),
            call("libcai: NumPy's from_dlpack of our object", numpy.from_dlpack, ways.to_python(zeros, HOST)),
            call("NumPy: from_dlpack of its own", numpy.from_dlpack, zeros),
        ]
    yield "there and back", rows

    # The library's own function, and libcai's, which finds out what library that is.
    rows, ours, arrays = [], make.__self__._empty_like, {}
    if numpy:
        arrays["NumPy's array, empty_like"] = zeros, numpy.empty_like, zeros
    if cupy:
        arrays["CuPy's array, empty_like"] = producers["CuPy's array"], cupy.empty_like, producers["CuPy's array"]
    for place, like in ("host", torch and torch.zeros(3, 4)), ("device", producers.get("PyTorch's tensor")):
        if like is not None:
            arrays[f"PyTorch's tensor in {place} memory, new_empty"] = like, like.new_empty, like.shape
    for name, (like, function, argument) in arrays.items():
        rows += [
            call(f"{name} | its library", function, argument),
            call(f"{name} | libcai", ours, like, wrong=[(3,), (like, (-1,))]),
        ]
    if rows:
        yield "libcai.empty_like, the result released", rows

    if driver:
        theirs = ways.to_python(stored, DEVICE)
        rows = [
            Row("libcai: import with CAI_IMPORT_QUERY_DEVICE, release", "libcai_options", stored, DEVICE, wrong),
            call("libcai: __dlpack__, the capsule released", theirs.__dlpack__, keywords={"stream": -1, "max_version": (1, 3)}),
            Row("libcai: __dlpack__ of its object, in and released", "libcai_options", theirs, DLPACK, wrong),
        ]
        if core:
            rows.insert(0, call("cuda.core: from_cuda_array_interface", view_of, stored, -1))
        yield "with the device, which the driver says", rows


def main(only=None):
    plain = dict(shape=(3, 4), typestr="<f4", data=(0x7F0000000000, False), version=3, strides=None, stream=None)
    print(f"with\tCPython {sys.version.split()[0]}")
    free = ", free-threaded" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    ways.on_one_core()
    for title, rows in stored_groups(plain) if only else groups():
        for row in rows:
            row.prepare()
        gc.disable()
        times = [[row.ns(row.times) for row in rows] for _ in range(ROUNDS)]
        gc.enable()
        for found in times:
            for row, ns in zip(rows, found):
                print(f"{title}{free}\t{row.name}\t{ns:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    # Peers that were started on a simulated driver need no orderly end.
    os._exit(0)
