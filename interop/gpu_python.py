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


# --- libraries: each says how it makes an array, takes one, and keeps a stream busy -----------------------------------


class CuPy:
    name = "cupy"

    def __init__(self):
        self.lib = importlib.import_module("cupy")
        source = """extern "C" __global__ void spin(long long cycles, float *to, float value, int n) {
            long long start = clock64(); while (clock64() - start < cycles) {}
            for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = value; }"""
        self.kernel = self.lib.RawKernel(source, "spin")

    def make(self, n):
        return self.lib.arange(n, dtype=self.lib.float32)

    def take(self, obj):
        return self.lib.asarray(obj)

    def address(self, array):
        return array.data.ptr

    def late(self, n, value):
        stream = self.lib.cuda.Stream(non_blocking=True)
        with stream:
            array = self.lib.zeros(n, dtype=self.lib.float32)
            self.kernel((1,), (32,), (400_000_000, array, self.lib.float32(value), n))
            return array, stream, stream


class Torch:
    name = "torch"

    def __init__(self):
        self.lib = importlib.import_module("torch")
        if not self.lib.cuda.is_available():
            raise ImportError("without CUDA")

    def make(self, n):
        return self.lib.arange(n, dtype=self.lib.float32).cuda()

    def take(self, obj):
        return self.lib.as_tensor(obj, device="cuda")

    def take_dlpack(self, obj):
        return self.lib.from_dlpack(obj)

    def address(self, array):
        return array.data_ptr()

    def late(self, n, value):
        stream = self.lib.cuda.Stream()
        context = self.lib.cuda.stream(stream)
        with context:
            array = self.lib.zeros(n, dtype=self.lib.float32, device="cuda")
            self.lib.cuda._sleep(400_000_000)
            array.fill_(value)
        # Its current stream is what its table names: the array is taken inside of it.
        return array, stream, self.lib.cuda.stream(stream)


class Numba:
    name = "numba.cuda"

    def __init__(self):
        self.lib = importlib.import_module("numba.cuda")
        self.numpy = importlib.import_module("numpy")
        if not self.lib.is_available():
            raise ImportError("without CUDA")

    def make(self, n):
        return self.lib.to_device(self.numpy.arange(n, dtype=self.numpy.float32))

    def take(self, obj):
        return self.lib.as_cuda_array(obj)

    def address(self, array):
        return array.device_ctypes_pointer.value

    def late(self, n, value):
        lib = self.lib

        @lib.jit
        def spin(to, value):
            for _ in range(400):
                lib.nanosleep(1_000_000)
            for i in range(to.shape[0]):
                to[i] = value

        stream = lib.stream()
        array = lib.device_array(n, dtype=self.numpy.float32, stream=stream)
        spin[1, 1, stream](array, value)
        return array, stream, None


class Jax:
    name = "jax"

    def __init__(self):
        self.lib = importlib.import_module("jax")
        self.numpy = importlib.import_module("jax.numpy")
        if self.lib.default_backend() != "gpu":
            raise ImportError("without CUDA")

    def make(self, n):
        return self.numpy.arange(n, dtype=self.numpy.float32).block_until_ready()

    def take(self, obj):
        return self.numpy.asarray(obj)

    def take_dlpack(self, obj):
        return self.lib.dlpack.from_dlpack(obj)

    def address(self, array):
        return array.unsafe_buffer_pointer()


class CudaCore:
    name = "cuda.core"
    takes_only = True

    def __init__(self):
        try:
            self.lib = importlib.import_module("cuda.core.utils")
        except ImportError:
            self.lib = importlib.import_module("cuda.core.experimental.utils")

    def take(self, obj):
        return self.lib.StridedMemoryView.from_any_interface(obj, stream_ptr=-1)

    def address(self, view):
        return view.ptr


class Mpi:
    name = "mpi4py"
    takes_only = True

    def __init__(self):
        self.lib = importlib.import_module("mpi4py.MPI")

    def take(self, obj):
        return self.lib.memory.fromaddress, self.lib.Get_address(obj)

    def address(self, found):
        return found[1]


# --- what is tried ----------------------------------------------------------------------------------------------------


def producing(library):
    if getattr(library, "takes_only", False):
        raise NotOffered
    return library


def take_in(P, driver, library):
    array = producing(library).make(16)
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
    for how in ("take", "take_dlpack"):
        take = getattr(library, how, None)
        if take is None:
            continue
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
    array = producing(library).make(16)
    with P.take(array) as taken:
        again = library.take(P.give(taken, hide_readonly=taken.readonly))
        assert library.address(again) == library.address(array)


def lifetime(P, driver, library):
    array = producing(library).make(1 << 20)
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
    late = getattr(producing(library), "late", None)
    if late is None:
        raise NotOffered
    late(1024, 1.0)
    driver.check(driver.cuda.cuCtxSynchronize())  # compiled, and warm
    array, stream, current = late(1024, 7.0)
    if current is None:
        taken = P.take(array)
    else:
        with current:
            taken = P.take(array)
    with taken:
        assert taken.stream not in (None, P.STREAM_UNKNOWN), f"no stream: {taken.stream}"
        assert driver.cuda.cuStreamQuery(c.c_void_p(taken.stream)) == 600, "the kernel finished too early for this test"
        assert driver.read(P, taken, 1024) == [7.0] * 1024
    del stream


def read_only(P, driver, library):
    address = source(P, driver)
    ours = P.make((16,), "<f4", address, readonly=True)
    try:
        theirs = library.take(P.give(ours))
    except (TypeError, BufferError, ValueError) as error:
        result = f"refused: {str(error)[:60]}"
        theirs = library.take(P.give(ours, hide_readonly=True))
    else:
        result = "taken"
    assert library.address(theirs) == address
    del theirs
    gc.collect()
    ours.release()
    driver.check(driver.cuda.cuCtxSynchronize())
    driver.check(driver.cuda.cuMemFree_v2(c.c_uint64(address)))
    return result


def masks(P, driver, library):
    """Who cannot do masks must say so, and must not lose them in silence."""
    address = source(P, driver)
    mask = P.make((16,), "|b1", address)
    ours = P.make((16,), "<f4", address, mask=mask)
    try:
        library.take(P.give(ours))
    except Exception as error:  # each library has its own
        result = f"refused: {type(error).__name__}"
    else:
        result = "the mask is ignored there"
    gc.collect()
    ours.release()
    mask.release()
    driver.check(driver.cuda.cuMemFree_v2(c.c_uint64(address)))
    return result


def main(folder, *wanted):
    found = next(iter(sorted(pathlib.Path(folder).resolve().glob("libcai.so.*"))), None)
    if found:
        os.environ.setdefault("CAI_LIBRARY", str(found))
    sys.path.insert(0, str(ROOT / "tests/python"))
    try:
        driver = Driver()
    except (OSError, RuntimeError, AttributeError) as error:
        print(f"Python: no driver is available ({error})")
        return NOT_AVAILABLE
    P = importlib.import_module("cai_python")
    tried = failed = 0
    for kind in (CuPy, Numba, Torch, Jax, CudaCore, Mpi):
        if wanted and kind.name not in wanted:
            continue
        try:
            library = kind()
        except Exception as error:  # not installed, or without CUDA
            print(f"{kind.name}: not available ({str(error)[:80]})")
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
            print(f"{kind.name}: {test.__name__.replace(chr(95), chr(32))}: {result}", flush=True)
    return 1 if failed else 0 if tried else NOT_AVAILABLE


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [ROOT / "build/gpu"])))
