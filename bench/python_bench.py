"""What exchange with Python objects costs, side by side in one run: `python_bench.py FOLDER [BOOK]`.

FOLDER has the compiled module (bench/python.c). With BOOK, the table goes into BOOK/performance.md, from which
docs/chart.py draws for the site. Every way runs in every round, in turn, on one core; the figures are medians of the
rounds, the ratios medians of each round's ratio to the group's first row. The rounds are those of several processes,
each with a copy of the library's file of its own: where code and memory happen to lie changes figures by a third for
as long as a process lives, and with the place of the file in memory for as long as the file does.
"""

import array
import ctypes
import gc
import json
import mmap
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap

PROCESSES, ROUNDS, ROUND_NS = 5, 9, 2e6
HOST, DEVICE, DLPACK = 256, 512, 4 << 32  # CAI_IMPORT_ALLOW_HOST, CAI_IMPORT_QUERY_DEVICE, CAI_PROTOCOL_DLPACK
LISTED = HOST | 3 << 32 | 9 << 40  # CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, CAI_PROTOCOL_PEP3118


class Object:
    """Holds a dictionary that was made once."""

    def __init__(self, interface):
        self.__cuda_array_interface__ = interface


class Property:
    """Makes it anew each time, as most libraries do."""

    def __init__(self, interface):
        self.shape, self.typestr, self.data = interface["shape"], interface["typestr"], interface["data"]

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": self.data,
            "version": 3,
            "strides": None,
            "stream": None,
        }


def module(name):
    try:
        return __import__(name, fromlist=["_"])
    except ImportError:
        return None


def address():
    """Memory that the driver knows, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    context, data = ctypes.c_void_p(), ctypes.c_uint64()
    calls = (
        driver.cuInit(0)
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        or driver.cuCtxSetCurrent(context)
        or driver.cuMemAlloc_v2(ctypes.byref(data), ctypes.c_size_t(4096))
    )
    return None if calls else data.value


def views(ways):
    """`libcai.view`, of the copy of the library that is measured."""
    make = ctypes.PyDLL(str(pathlib.Path(ways.__file__).parent / "libcai.so.1")).cai_unstable_python_view
    made = ctypes.py_object()
    make(ctypes.byref(made), None)
    return made.value


def call(function, *positional, keywords=None, attributes=None):
    """A function of a peer: what `ns` takes for it."""
    return ("call", function, (positional, keywords, attributes))


# Arrays as producers describe them: what differs from three by four floats in C order.
SHAPES = {
    "floats, 3 by 4": {},
    "with strides: every other column": {"strides": (32, 8)},
    "with strides: reversed": {"strides": (16, -4)},
    "with strides and a stream": {"strides": (32, 4), "stream": 1},
    "version 2, no stream": {"version": 2, "stream": ...},
    "complex64": {"typestr": "<c8"},
    "complex128": {"typestr": "<c16"},
    "float64": {"typestr": "<f8"},
    "int8": {"typestr": "|i1"},
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
    "a list as shape": {"shape": [3, 4]},
    "lists as shape and strides": {"shape": [3, 4], "strides": [16, 4]},
    "two fields (by hand: not read)": {"typestr": "|V8", "descr": [("x", "<f4"), ("y", "<i4")]},
}

PAIRED = "in: stored dictionaries of other arrays"
MOVER = "a mover of host memory: import, wait, layout"
LISTED_MOVER = "the same with two protocols listed"


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


def movers(numpy, options):
    """Two rows for each object: code for host memory alone, and one import of any object."""
    for name, lender in lenders(numpy):
        yield (name, "other", ("buffer_by_hand", lender, None))
        yield (name, "ours", ("mover", lender, options))


def shapes(plain, numpy):
    """Two rows for each array: by hand, and with the library."""
    cases = dict(SHAPES)
    if numpy:
        three, four = numpy.int64(3), numpy.int64(4)
        cases["NumPy's integers in a tuple"] = {"shape": (three, four)}
        cases["NumPy's integers in a list"] = {"shape": [three, four]}
    for name, changes in cases.items():
        changed = {key: value for key, value in (plain | changes).items() if value is not ...}
        stored = Object(changed)
        yield (name, "other", ("by_hand", stored, None))
        yield (name, "ours", ("libcai", stored, None))


def groups(ways):
    """(title, rows); a row is (name, what it is for the chart, (kind, object, with)). The first is the measure."""
    driver = address()
    core = module("cuda.core.utils") if driver else None
    numba = module("numba.cuda") if driver else None
    numpy, torch = module("numpy"), module("torch")
    cuda_torch = torch is not None and driver is not None and torch.cuda.is_available()
    peers = {"cuda.core": core, "Numba": numba, "NumPy": numpy, "PyTorch": torch, "PyTorch with CUDA": cuda_torch}
    left_out = [name for name, there in peers.items() if not there] + ([] if driver else ["a driver"])
    data = (driver or 0x7F0000000000, False)

    plain = dict(shape=(3, 4), typestr="<f4", data=data, version=3, strides=None, stream=None)
    stored = Object(plain)
    rows = [
        ("by hand, nothing checked", "other", ("by_hand", stored, None)),
        ("libcai: import, release", "ours", ("libcai", stored, None)),
        ("pybind11: attr, cast, five keys", "other", ("pybind11", stored, None)),
    ]
    if core:
        view = core.StridedMemoryView
        fields = ("ptr", "shape", "strides", "dtype", "readonly", "device_id")
        rows += [
            ("cuda.core: from_cuda_array_interface", "other",
             call(view.from_cuda_array_interface, stored, keywords={"stream_ptr": -1})),
            ("cuda.core: from_any_interface", "other",
             call(view.from_any_interface, stored, keywords={"stream_ptr": -1})),
            ("cuda.core: the first, six fields read", "other",
             call(view.from_cuda_array_interface, stored, keywords={"stream_ptr": -1}, attributes=fields)),
        ]  # fmt: skip
    if numba:
        rows += [("Numba: as_cuda_array, sync=False", "other",
                  call(numba.as_cuda_array, stored, keywords={"sync": False}))]  # fmt: skip
    if cuda_torch:
        rows += [("PyTorch: as_tensor", "other", call(torch.as_tensor, stored, keywords={"device": "cuda"}))]
    yield "in: a stored dictionary", rows

    make, fields = views(ways), ("ptr", "shape", "strides", "dtype", "readonly", "device_id")
    rows = [("libcai.view", "ours", call(make, stored, -1))]
    if driver:
        rows += [("libcai.view, six fields read", "ours", call(make, stored, -1, attributes=fields))]
    if core:
        view = core.StridedMemoryView
        rows += [
            ("cuda.core: StridedMemoryView", "other",
             call(view.from_cuda_array_interface, stored, -1)),
            ("cuda.core: StridedMemoryView, six fields read", "other",
             call(view.from_cuda_array_interface, stored, -1, attributes=fields)),
        ]  # fmt: skip
    yield "a view of a stored dictionary, released", rows

    strided = Object(plain | {"strides": (32, 4), "stream": 1})
    yield "in: with strides and a stream", [
        ("by hand, nothing checked", "other", ("by_hand", strided, None)),
        ("libcai: import, release", "ours", ("libcai", strided, None)),
        ("pybind11: attr, cast, five keys", "other", ("pybind11", strided, None)),
    ]
    yield PAIRED, list(shapes(plain, numpy))
    yield MOVER, list(movers(numpy, HOST))
    yield LISTED_MOVER, list(movers(numpy, LISTED))
    second = Object(dict(typestr="<f4", shape=(3, 4), strides=None, data=data, version=2))
    yield "in: version 2, as PyTorch writes it", [
        ("by hand, nothing checked", "other", ("by_hand", second, None)),
        ("libcai: import, release", "ours", ("libcai", second, None)),
        ("pybind11: attr, cast, five keys", "other", ("pybind11", second, None)),
    ]
    fresh = Property(plain)
    yield "in: a property that makes the dictionary", [
        ("by hand, nothing checked", "other", ("by_hand", fresh, None)),
        ("libcai: import, release", "ours", ("libcai", fresh, None)),
        ("pybind11: attr, cast, five keys", "other", ("pybind11", fresh, None)),
        ("  part: the property", "other", ("attribute", fresh, "__cuda_array_interface__")),
    ]

    own, tensor = ways.to_python(stored, 0), ways.Tensor()
    yield "in: this library's table", [
        ("the table's function by hand, release", "other", ("own_table", own, None)),
        ("libcai: import, release", "ours", ("libcai", own, None)),
    ]
    yield "in: DLPack's table", [
        ("by hand: a tensor, its stream, its deleter", "other", ("dlpack_tensor", tensor, None)),
        ("by hand: a borrowed tensor, its stream", "other", ("dlpack_view", tensor, None)),
        ("libcai: import, release", "ours", ("libcai", tensor, None)),
    ]
    if torch:
        host = torch.zeros(3, 4)
        rows = [
            ("by hand: a tensor, its deleter", "other", ("dlpack_tensor", host, None)),
            ("by hand: a borrowed tensor", "other", ("dlpack_view", host, None)),
            ("libcai: import, release", "ours", ("libcai_options", host, HOST)),
            ("PyTorch: torch.utils.dlpack.from_dlpack", "other", call(torch.utils.dlpack.from_dlpack, host)),
        ]
        if numpy:
            rows += [("NumPy: from_dlpack", "other", call(numpy.from_dlpack, host))]
        if core:
            rows += [("cuda.core: from_dlpack", "other",
                      call(core.StridedMemoryView.from_dlpack, host, keywords={"stream_ptr": -1}))]  # fmt: skip
        yield "in: a tensor of PyTorch in host memory", rows
    if cuda_torch:
        tensor = torch.empty((3, 4), device="cuda")
        rows = [
            ("by hand: a tensor, its stream, its deleter", "other", ("dlpack_tensor", tensor, None)),
            ("libcai: import, release", "ours", ("libcai", tensor, None)),
        ]
        if core:
            rows += [("cuda.core: from_any_interface", "other",
                      call(core.StridedMemoryView.from_any_interface, tensor, keywords={"stream_ptr": -1}))]  # fmt: skip
        yield "in: a CUDA tensor of PyTorch", rows

    rows = [
        ("a dictionary made by hand", "other", ("dictionary_by_hand", stored, 0)),
        ("libcai: an object", "ours", ("out", stored, 0)),
        ("libcai: an object, its dictionary read", "ours", ("out_and_read", stored, 0)),
        ("  part: the dictionary", "ours", ("attribute", own, "__cuda_array_interface__")),
    ]
    if numpy:
        rows += [("NumPy: __array_interface__", "other",
                  ("attribute", numpy.zeros((3, 4), "f4"), "__array_interface__"))]  # fmt: skip
    if numba:
        theirs = numba.as_cuda_array(stored, sync=False)
        rows += [("Numba: __cuda_array_interface__", "other", ("attribute", theirs, "__cuda_array_interface__"))]
    if cuda_torch:
        rows += [("PyTorch: __cuda_array_interface__", "other",
                  ("attribute", tensor, "__cuda_array_interface__"))]  # fmt: skip
    yield "out", rows

    rows = [
        ("libcai: out, in through the table", "ours", ("out_and_in", stored, 0)),
        ("libcai: release on a thread without the lock", "ours", ("release_elsewhere", stored, None)),
        ("  part: the object released afterwards", "ours", ("released_afterwards", stored, None)),
    ]
    if numpy:
        zeros = numpy.zeros((3, 4), "f4")
        rows += [("libcai: NumPy's array, in and released", "ours", ("libcai_options", zeros, HOST))]
        theirs = ways.to_python(zeros, HOST)
        rows += [
            ("libcai: NumPy's from_dlpack of our object", "ours", call(numpy.from_dlpack, theirs)),
            ("NumPy: from_dlpack of its own", "other", call(numpy.from_dlpack, zeros)),
        ]
    yield "there and back", rows

    if driver:
        theirs = ways.to_python(stored, DEVICE)
        rows = [
            ("libcai: import with CAI_IMPORT_QUERY_DEVICE, release", "ours", ("libcai_options", stored, DEVICE)),
            ("libcai: __dlpack__, the capsule released", "ours",
             call(theirs.__dlpack__, keywords={"stream": -1, "max_version": (1, 3)})),
            ("libcai: __dlpack__ of its object, in and released", "ours", ("libcai_options", theirs, DLPACK)),
            ("  part: three attributes of an address", "other", ("ask_driver", driver, None)),
        ]  # fmt: skip
        if core:
            rows.insert(0, ("cuda.core: from_cuda_array_interface", "other",
                            call(view.from_cuda_array_interface, stored, keywords={"stream_ptr": -1})))  # fmt: skip
        yield "with the device, which the driver says", rows
    yield None, left_out


def measure(ways, rows):
    """For each row the figures of all rounds."""
    jobs = []
    for name, _, (kind, thing, more) in rows:
        try:
            once = min(ways.ns(kind, 64, thing, more) for _ in range(3))
        except Exception as error:
            raise SystemExit(f"{name}: {error!r}")
        jobs.append((kind, max(64, int(ROUND_NS / max(once, 1))), thing, more))
    times = [[] for _ in rows]
    gc.disable()
    for _ in range(ROUNDS):
        for job, found in zip(jobs, times):
            found.append(ways.ns(*job))
    gc.enable()
    return times


def table(title, rows, times):
    """Lines, and the medians."""
    if title in (PAIRED, MOVER, LISTED_MOVER):
        return paired(title, rows, times)
    base = times[0]
    lines = [f"{title:<52} {'median ns':>9} {'least ns':>9} {'ratio':>8}"]
    for (name, _), found in zip(rows, times):
        ratio = statistics.median(mine / first for mine, first in zip(found, base))
        lines.append(f"{'  ' + name:<52} {statistics.median(found):9.1f} {min(found):9.1f} {ratio:7.2f}x")
    return lines


def paired(title, rows, times):
    """A line for each two rows: what the first takes, what the second takes, and the ratio."""
    lines = [f"{title:<52} {'by hand':>9} {'libcai':>9} {'ratio':>8}"]
    for (name, _), first, mine in zip(rows[::2], times[::2], times[1::2]):
        ratio = statistics.median(ours / theirs for ours, theirs in zip(mine, first))
        medians = statistics.median(first), statistics.median(mine)
        lines.append(f"{'  ' + name:<52} {medians[0]:9.1f} {medians[1]:9.1f} {ratio:7.2f}x")
    return lines


BEGIN, END = "<!-- figures: made by `make bench-docs` -->\n", "<!-- end of figures -->\n"


def write(book, lines):
    page = book / "performance.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n```text\n" + "\n".join(lines) + f"\n```\n\n{END}{after}")


def one_process(folder):
    """Measures all, and prints it for the process that asked."""
    sys.path.insert(0, folder)
    ways = __import__("python_ways")
    ways.one_core()
    found = []
    for title, rows in groups(ways):
        if title is None:
            found.append((None, rows, None))
        else:
            found.append((title, [(name, whose) for name, whose, _ in rows], measure(ways, rows)))
    print(json.dumps(found))


def main(folder, book=None):
    if book == "--one-process":
        return one_process(folder)
    measured = []
    for _ in range(PROCESSES):
        with tempfile.TemporaryDirectory() as copies:
            for name in ("python_ways.so", "libcai.so.1"):
                shutil.copy(pathlib.Path(folder) / name, copies)
            command = [sys.executable, "-B", __file__, copies, "--one-process"]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        left_out = found.pop()[1]
        for index, (title, rows, times) in enumerate(found):
            if index == len(measured):
                measured.append((title, rows, times))
            else:
                for all_times, more in zip(measured[index][2], times):
                    all_times += more
    lines = []
    for title, rows, times in measured:
        lines += ["", *table(title, rows, times)]
    lines = lines[1:]
    print("\n".join(lines))
    if left_out:
        print("\n".join(textwrap.wrap("not there, and left out: " + ", ".join(left_out), 110)))
    if book:
        if left_out:
            raise SystemExit("the book gets figures with all peers only: run `make interop` first")
        write(pathlib.Path(book), lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    # Peers that were started on a simulated driver need no orderly end.
    os._exit(0)
