"""Copies to the host through `__dlpack__`, called by test_host_copy.py within a process on the simulated driver, whose
race checker watches."""

import ctypes as c
import threading

import cai_python as P
import numpy as np
import pytest
import race_checker
from cai_python import Counted, give, make, take

COUNT = 4096


class Driver(race_checker.Driver):
    def memory(self, values, managed=False):
        """Memory on the device with these values."""
        pointer = c.c_uint64()
        if managed:
            self.call("cuMemAllocManaged", c.byref(pointer), c.c_size_t(values.nbytes), 1)
        else:
            self.call("cuMemAlloc_v2", c.byref(pointer), c.c_size_t(values.nbytes))
        self.call("cuMemcpyHtoD_v2", pointer, c.c_void_p(values.ctypes.data), c.c_size_t(values.nbytes))
        self.call("cuCtxSynchronize")
        return pointer.value

    def free(self, pointer):
        self.call("cuMemFree_v2", c.c_uint64(pointer))

    def fill(self, pointer, byte, count, stream):
        self.call("cuMemsetD8Async", c.c_uint64(pointer), byte, c.c_size_t(count), c.c_void_p(stream))


driver = Driver()


@pytest.fixture(scope="module")
def source():
    values = np.arange(COUNT, dtype="<f4")
    pointer = driver.memory(values)
    yield values, pointer
    driver.free(pointer)


def on_device(view, values, pointer, **others):
    """The same view, of the memory on the device."""
    offset = view.ctypes.data - values.ctypes.data
    return make(view.shape, view.dtype.str, pointer + offset, view.strides, device=(P.CUDA, 0), **others)


VIEWS = {
    "all": lambda a: a,
    "every other": lambda a: a[::2],
    "backwards": lambda a: a[::-1],
    "two dimensions": lambda a: a.reshape(64, 64),
    "columns": lambda a: a.reshape(64, 64)[:, 3:9],
    "one column": lambda a: a.reshape(64, 64)[:, 5],
    "Fortran order": lambda a: a.reshape(64, 64).T,
    "part in Fortran order": lambda a: a.reshape(16, 16, 16).transpose(2, 0, 1)[1:5, ::3, ::-2],
    "broadcast": lambda a: np.broadcast_to(a[:7], (5, 7)),
    "broadcast inside": lambda a: np.broadcast_to(a[:7].reshape(7, 1), (7, 3)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[:100], 9),
    "four dimensions": lambda a: a.reshape(8, 8, 8, 8)[::2, 1:4, ::-1, ::3],
    "one element": lambda a: a[17:18],
    "no dimensions": lambda a: a[9:10].reshape(()),
    "empty": lambda a: a[:0].reshape(0, 4),
    "not aligned": lambda a: np.ndarray((10,), "<f4", a, offset=4, strides=(10,)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_layout(source, name):
    values, pointer = source
    view = VIEWS[name](values)
    array = on_device(view, values, pointer)
    obj = give(array)
    copy = np.from_dlpack(obj, device="cpu")
    assert copy.dtype == view.dtype and copy.shape == view.shape and copy.flags.c_contiguous
    assert copy.tobytes() == view.tobytes()
    copy = np.from_dlpack(obj, device="cpu", copy=True)
    assert copy.tobytes() == view.tobytes() and copy.flags.writeable
    before = copy.tobytes()
    array.release()
    del obj
    assert array.counted.gone == 1
    assert copy.tobytes() == before  # it is NumPy's own


def test_managed_memory():
    values = np.arange(64, dtype="<f4")
    pointer = driver.memory(values, managed=True)
    with make((32,), "<f4", pointer, (8,), device=(P.CUDA_MANAGED, 0)) as array:
        assert np.from_dlpack(give(array), device="cpu").tolist() == values[::2].tolist()
    driver.free(pointer)


def test_memory_whose_device_is_not_known(source):
    values, pointer = source
    with make((COUNT,), "<f4", pointer, device=(P.UNKNOWN, 0)) as array:
        obj = give(array)
        assert obj.device == "cuda:0"
        assert np.from_dlpack(obj, device="cpu").tolist() == values.tolist()


@pytest.mark.parametrize("kind", ["handle", "legacy", "unknown"])
def test_it_waits_for_pending_work(kind):
    """In stream order: without the wait, the copy has other bytes, and the race checker reports it."""
    pointer = driver.memory(np.zeros(1 << 16, "|u1"))
    stream = driver.stream()
    driver.fill(pointer, 7, 1 << 16, stream if kind != "legacy" else 1)
    stated = {"handle": stream, "legacy": 1, "unknown": P.STREAM_UNKNOWN}[kind]
    version = 2 if kind == "unknown" else 3
    with make((1 << 16,), "|u1", pointer, device=(P.CUDA, 0), stream=stated, version=version) as array:
        copy = np.from_dlpack(give(array), device="cpu")
    driver.fill(pointer, 9, 1 << 16, stream)
    assert set(copy.tolist()) == {7}
    driver.call("cuCtxSynchronize")
    driver.free(pointer)


def test_without_a_current_context(source):
    """On a thread that has none: the device is found from the array's memory."""
    values, pointer = source
    found = []

    def run():
        with make((COUNT,), "<f4", pointer, device=(P.CUDA, 0)) as array:
            found.append(np.from_dlpack(give(array), device="cpu").tolist())
        context = c.c_void_p(1)
        driver.call("cuCtxGetCurrent", c.byref(context))
        found.append(context.value)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [values.tolist(), None]


def test_other_threads_run_meanwhile():
    """A function that a stream calls needs the interpreter's lock: with the lock held, this would never end."""
    pointer = driver.memory(np.zeros(16, "|u1"))
    stream = driver.stream()
    called = []
    function = c.CFUNCTYPE(None, c.c_void_p)(lambda _: called.append(True))
    driver.call("cuLaunchHostFunc", c.c_void_p(stream), function, None)
    driver.fill(pointer, 5, 16, stream)
    with make((16,), "|u1", pointer, device=(P.CUDA, 0), stream=stream) as array:
        assert np.from_dlpack(give(array), device="cpu").tolist() == [5] * 16
    assert called == [True]
    driver.free(pointer)


def test_a_tensor_without_a_version(source):
    values, pointer = source
    with make((4,), "<f4", pointer, device=(P.CUDA, 0), readonly=True) as array:
        obj = give(array)
        with pytest.raises(BufferError):
            obj.__dlpack__()  # read-only, which it cannot express

        class Older:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **_):
                return obj.__dlpack__(dl_device=(1, 0))

        with take(Older(), protocols=[P.DLPACK], host=True) as taken:
            assert taken.device == (P.CPU, 0) and not taken.readonly and taken.data != pointer
            assert c.string_at(taken.data, 16) == values[:4].tobytes()


def test_what_is_refused(source):
    _, pointer = source
    with make((4,), "<f4", pointer, device=(P.CUDA, 0)) as array:
        obj = give(array)
        for options, words in [
            (dict(copy=True), "copy: found True, expected None, False, or a copy in host memory: dl_device=(1, 0)"),
            (dict(dl_device=(1, 0), copy=False), "copy: found False, for an array on device (2, 0)"),
            (dict(dl_device=(2, 1)), "dl_device: found (2, 1), expected (2, 0), where the data is, or (1, 0)"),
            (dict(dl_device=(1, 1)), "dl_device: found (1, 1)"),
        ]:
            with pytest.raises(BufferError) as raised:
                obj.__dlpack__(**options)
            assert str(raised.value).startswith(words)
    mask = make((4,), "|b1", pointer, device=(P.CUDA, 0))
    with make((4,), "<f4", pointer, device=(P.CUDA, 0), mask=mask) as array, pytest.raises(BufferError, match="mask"):
        give(array).__dlpack__(dl_device=(1, 0))
    with make((4,), ">f4", pointer, device=(P.CUDA, 0)) as array, pytest.raises(BufferError, match="typestr"):
        give(array).__dlpack__(dl_device=(1, 0))
    with make((4,), "<f4", 0x1000, device=(P.ONEAPI, 0)) as array, pytest.raises(BufferError, match="oneapi"):
        give(array).__dlpack__(dl_device=(1, 0))


def test_failures_leak_nothing():
    """Memory that the driver does not know, and a stream that it does not know."""
    counted = Counted()
    with make((4,), "<f4", 0x1000, counted=counted, device=(P.CUDA, 0)) as array:
        for _ in range(20):
            with pytest.raises(BufferError):
                give(array).__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    assert counted.gone == 1
