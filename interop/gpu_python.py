"""Python's GPU libraries on this machine's real driver: objects in and out, streams, lifetime, read-only, masks.

    python3 interop/gpu_python.py FOLDER [LIBRARY...]

FOLDER holds libcai (`make gpu-programs`). LIBRARY is one of cupy, numba.cuda, torch, jax, cuda.core, mpi4py; without
one, all are tried. Exit status: 0 if all checks pass, 1 if one fails, 77 if no library is available or no driver.
"""

import ctypes as c
import gc
import importlib
import os
import pathlib
import sys
import traceback
import weakref

ROOT = pathlib.Path(__file__).resolve().parents[1]
READ, WRITE = 1, 2
NOT_AVAILABLE = 77


class NotOffered(Exception):
    """The library has no such thing."""


class Driver:
    """What a consumer calls: a stream of its own, copies on it."""

    def __init__(self):
        self.cuda = c.CDLL(os.environ.get("CAI_CUDA_DRIVER", "libcuda.so.1"))
        self.check(self.cuda.cuInit(0))
        self.context = c.c_void_p()
        self.check(self.cuda.cuDevicePrimaryCtxRetain(c.byref(self.context), 0))
        self.check(self.cuda.cuCtxSetCurrent(self.context))
        self.stream = c.c_void_p()
        self.check(self.cuda.cuStreamCreate(c.byref(self.stream), 1))  # CU_STREAM_NON_BLOCKING

    @staticmethod
    def check(code):
        if code != 0:
            raise RuntimeError(f"the driver answered {code}")

    def read(self, P, taken, count, number=c.c_float):
        """The first numbers of an array, read on a stream that waits for the producer."""
        to = (number * count)()
        stream = c.c_uint64(self.stream.value)
        error = P.T.Error()
        assert P.held.cai_array_consume_begin(c.byref(taken.array), stream, READ, c.byref(error)) == 0, error.message
        size = c.c_size_t(c.sizeof(to))
        self.check(self.cuda.cuMemcpyDtoHAsync_v2(to, c.c_uint64(taken.data), size, self.stream))
        assert P.held.cai_array_consume_end(c.byref(taken.array), stream, READ, c.byref(error)) == 0, error.message
        self.check(self.cuda.cuStreamSynchronize(self.stream))
        return list(to)


# --- libraries: those of adapters.py, and how each keeps a stream busy ------------------------------------------------


def kinds():
    adapters = importlib.import_module("adapters")

    class Jax(adapters.Library):
        name, ways = "jax", {"default": []}

        def __init__(self):
            self.lib, self.numpy = importlib.import_module("jax"), importlib.import_module("jax.numpy")
            if self.lib.default_backend() != "gpu":
                raise ImportError("without CUDA")
            self.backs = {"asarray": self.numpy.asarray, "from_dlpack": self.lib.dlpack.from_dlpack}

        def array(self, values):
            return self.numpy.asarray(values).block_until_ready()

        def address(self, array):
            return array.unsafe_buffer_pointer()

    class Mpi(adapters.Library):
        name = "mpi4py"

        def __init__(self):
            self.backs = {"Get_address": importlib.import_module("mpi4py.MPI").Get_address}

        def address(self, found):
            return found

    return {
        "cupy": adapters.CuPy, "numba.cuda": adapters.Numba, "torch": adapters.TorchOnDevice, "jax": Jax,
        "cuda.core": adapters.CudaCore, "mpi4py": Mpi,
    }  # fmt: skip


def late_cupy(library, stream, current, n, value):
    source = """extern "C" __global__ void spin(long long cycles, float *to, float value, int n) {
        long long start = clock64(); while (clock64() - start < cycles) {}
        for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = value; }"""
    with current:
        array = library.lib.zeros(n, dtype=library.lib.float32)
        library.lib.RawKernel(source, "spin")((1,), (32,), (400_000_000, array, library.lib.float32(value), n))
    return array


def late_torch(library, stream, current, n, value):
    with current:
        array = library.lib.zeros(n, dtype=library.lib.float32, device="cuda")
        library.lib.cuda._sleep(400_000_000)
        array.fill_(value)
    return array


def late_numba(library, stream, current, n, value):
    lib = library.lib

    @lib.jit
    def spin(to, value):
        for _ in range(400):
            lib.nanosleep(1_000_000)
        for i in range(to.shape[0]):
            to[i] = value

    array = lib.device_array(n, dtype="f4", stream=stream)
    spin[1, 1, stream](array, value)
    return array


LATE = {"cupy": late_cupy, "torch": late_torch, "numba.cuda": late_numba}


# --- what is tried ----------------------------------------------------------------------------------------------------


def produced(library, n):
    if not library.ways:
        raise NotOffered
    return library.array(importlib.import_module("numpy").arange(n, dtype="f4"))


def backs(library):
    """Those that take an object."""
    return {name: take for name, take in library.backs.items() if callable(take)}


def take_in(P, driver, library):
    array = produced(library, 16)
    with P.take(array, device=True) as taken:
        assert taken.shape == (16,) and taken.typestr == "<f4" and taken.data == library.address(array), taken
        assert taken.device[0] in (P.CUDA, P.CUDA_MANAGED), taken
        assert driver.read(P, taken, 16) == [float(i) for i in range(16)]


def source(P, driver, n=16):
    """An array of ours, in memory of the driver."""
    address = c.c_uint64()
    driver.check(driver.cuda.cuMemAlloc_v2(c.byref(address), c.c_size_t(4 * n)))
    values = (c.c_float * n)(*range(n))
    driver.check(driver.cuda.cuMemcpyHtoD_v2(address, values, c.c_size_t(4 * n)))
    return address.value


def hand_out(P, driver, library):
    for how, take in backs(library).items():
        address = source(P, driver)
        ours = P.make((16,), "<f4", address)
        obj = P.give(ours)
        theirs = take(obj)
        assert library.address(theirs) == address, how
        ours.release()
        del obj
        gc.collect()
        assert ours.counted.gone == 0 or library.name == "mpi4py", f"{how}: the memory went too early"
        del theirs
        gc.collect()
        assert P.soon(lambda: ours.counted.gone == 1), f"{how}: the memory is kept for good"
        driver.check(driver.cuda.cuMemFree_v2(c.c_uint64(address)))


def round_trip(P, driver, library):
    array = produced(library, 16)
    with P.take(array) as taken:
        for take in backs(library).values():
            again = take(P.give(taken, hide_readonly=taken.readonly))
            assert library.address(again) == library.address(array)


def lifetime(P, driver, library):
    array = produced(library, 1 << 20)
    gone = weakref.ref(array)
    taken = P.take(array)
    del array
    gc.collect()
    assert gone() is not None
    assert driver.read(P, taken, 4) == [0.0, 1.0, 2.0, 3.0]
    taken.release()
    gc.collect()
    assert P.soon(lambda: gone() is None)


def streams(P, driver, library):
    """A slow kernel is still writing on the producer's stream: a consumer that does not wait reads zeros."""
    if library.late is None:
        raise NotOffered
    late, (stream, _, current) = library.late, library.new_stream()
    late(library, stream, current, 1024, 1.0)
    driver.check(driver.cuda.cuCtxSynchronize())  # compiled, and warm
    array = late(library, stream, current, 1024, 7.0)
    with current:
        taken = P.take(array)
    with taken:
        assert taken.stream not in (None, P.STREAM_UNKNOWN), f"no stream: {taken.stream}"
        assert driver.cuda.cuStreamQuery(c.c_void_p(taken.stream)) == 600, "the kernel finished too early for this test"
        assert driver.read(P, taken, 1024) == [7.0] * 1024


def read_only(P, driver, library):
    results = []
    for how, take in backs(library).items():
        address = source(P, driver)
        ours = P.make((16,), "<f4", address, readonly=True)
        try:
            theirs = take(P.give(ours))
        except (TypeError, BufferError, ValueError) as error:
            results.append(f"{how}: refused: {str(error)[:60]}")
            theirs = take(P.give(ours, hide_readonly=True))
        else:
            results.append(f"{how}: taken")
        assert library.address(theirs) == address
        del theirs
        gc.collect()
        ours.release()
        driver.check(driver.cuda.cuCtxSynchronize())
        driver.check(driver.cuda.cuMemFree_v2(c.c_uint64(address)))
    return "; ".join(results)


def masks(P, driver, library):
    """Who cannot do masks must say so, and must not lose them in silence."""
    results = []
    for how, take in backs(library).items():
        address = source(P, driver)
        mask = P.make((16,), "|b1", address)
        ours = P.make((16,), "<f4", address, mask=mask)
        try:
            take(P.give(ours))
        except Exception as error:  # each library has its own
            results.append(f"{how}: refused: {type(error).__name__}")
        else:
            results.append(f"{how}: the mask is ignored there")
        gc.collect()
        ours.release()
        mask.release()
        driver.check(driver.cuda.cuMemFree_v2(c.c_uint64(address)))
    return "; ".join(results)


def main(folder, *wanted):
    found = next(iter(sorted(pathlib.Path(folder).resolve().glob("libcai.so.*"))), None)
    if found:
        os.environ.setdefault("CAI_LIBRARY", str(found))
    sys.path[:0] = [str(ROOT / "interop"), str(ROOT / "tests/python")]
    try:
        driver = Driver()
    except (OSError, RuntimeError, AttributeError) as error:
        print(f"Python: no driver is available ({error})")
        return NOT_AVAILABLE
    P = importlib.import_module("cai_python")
    try:
        found = kinds()
    except ImportError as error:
        print(f"Python: {error}")
        return NOT_AVAILABLE
    tried = failed = 0
    for name, kind in found.items():
        if wanted and name not in wanted:
            continue
        try:
            library = kind()
            library.late = LATE.get(name)
        except Exception as error:  # not installed, or without CUDA
            print(f"{name}: not available ({str(error)[:80]})")
            continue
        tried += 1
        for test in (take_in, hand_out, round_trip, lifetime, streams, read_only, masks):
            try:
                result = test(P, driver, library) or "ok"
            except NotOffered:
                continue
            except Exception:
                failed += 1
                result = "FAILED\n" + traceback.format_exc()
            print(f"{name}: {test.__name__.replace(chr(95), chr(32))}: {result}", flush=True)
    return 1 if failed else 0 if tried else NOT_AVAILABLE


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [ROOT / "build/gpu"])))
