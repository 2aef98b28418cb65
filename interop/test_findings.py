"""Faults of libraries, without the checks that found them (findings.md): each test fails when the library is mended."""

import ctypes as c

import pytest


def test_cupy_negative_strides():
    cp = pytest.importorskip("cupy")
    from libcai import _dlpack

    capsule = cp.zeros((3, 4), "f4")[::-1].__dlpack__()
    tensor = _dlpack.capsule_at(capsule, _dlpack.Managed).tensor
    assert tensor.strides[0] == (1 << 62) - 4  # expected -4


def test_numba_zero_strides():
    cuda = pytest.importorskip("numba.cuda")

    class Repeated:
        row = cuda.device_array(4, "f4")
        __cuda_array_interface__ = {**row.__cuda_array_interface__, "shape": (5, 4), "strides": (0, 4)}

    again = cuda.as_cuda_array(Repeated())
    assert again.strides == (0, 4) and again.__cuda_array_interface__["strides"] is None


def test_torch_copy():
    torch = pytest.importorskip("torch")
    from libcai import _dlpack

    tensor = torch.zeros(3, device="cuda")
    capsule = tensor.__dlpack__(max_version=(1, 0), copy=True)
    managed = _dlpack.capsule_at(capsule, _dlpack.ManagedVersioned)
    assert managed.tensor.data != tensor.data_ptr() and managed.flags == 0  # expected IS_COPIED, 2


class Offered:
    """Four bytes of device memory, as a dictionary says."""

    def __init__(self, pointer, **more):
        said = {"shape": (4,), "typestr": "|u1", "data": (pointer, False), "version": 3, "stream": None}
        self.__cuda_array_interface__ = {**said, **more}


def test_torch_byte_order_and_mask():
    torch = pytest.importorskip("torch")
    memory = torch.tensor([0, 0, 0, 1], dtype=torch.uint8).cuda()
    big = torch.as_tensor(Offered(memory.data_ptr(), shape=(1,), typestr=">i4"), device="cuda")
    assert int(big.cpu()) == 1 << 24  # expected 1, or an exception
    mask = Offered(memory.data_ptr(), typestr="|b1")
    masked = torch.as_tensor(Offered(memory.data_ptr(), mask=mask), device="cuda")
    assert masked.shape == (4,)  # expected an exception: three elements are invalid


def test_torch_ignores_the_stream(simulator):
    torch = pytest.importorskip("torch")
    work, mine = torch.cuda.Stream(), torch.cuda.Stream()
    memory = torch.zeros(16, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(work):
        memory.zero_()
    with torch.cuda.stream(mine):
        array = torch.as_tensor(Offered(memory.data_ptr(), shape=(16,), stream=work.cuda_stream), device="cuda")
        copy_on(mine.cuda_stream, array.data_ptr())
    assert simulator.take_report()[0] == 1  # expected a wait for `work`
    torch.cuda.synchronize()


def copy_on(stream, pointer):
    """Reads 16 bytes on a stream."""
    cuda, to = c.CDLL("libcuda.so.1"), c.c_uint64()
    assert cuda.cuMemAlloc_v2(c.byref(to), 16) == 0
    assert cuda.cuMemcpyDtoDAsync_v2(to, c.c_uint64(pointer), 16, c.c_void_p(stream)) == 0
    assert cuda.cuStreamSynchronize(c.c_void_p(stream)) == 0


def test_cupy_later(simulator):
    cp = pytest.importorskip("cupy")
    work, mine = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    array = cp.zeros(4, "f4")
    cp.cuda.Device().synchronize()
    with work:
        array.data.memset_async(1, 16)
    assert array.__cuda_array_interface__["stream"] == 1  # expected a stream that waits for `work`
    array.__dlpack__(stream=mine.ptr)
    copy_on(mine.ptr, array.data.ptr)
    assert simulator.take_report()[0] == 1
    work.synchronize()


def test_cupy_stream():
    cp = pytest.importorskip("cupy")
    with cp.cuda.Stream(non_blocking=True) as stream:
        array = cp.zeros(4, "f4")
        handle, before, after = array.__cuda_array_interface__["stream"], c.c_uint64(), c.c_uint64()
    cuda = c.CDLL("libcuda.so.1")
    assert cuda.cuStreamGetId(c.c_void_p(handle), c.byref(before)) == 0
    del stream
    # Expected the same stream as long as there is `array`.
    assert cuda.cuStreamGetId(c.c_void_p(handle), c.byref(after)) != 0 or before.value != after.value


def test_torch_later(simulator):
    torch = pytest.importorskip("torch")
    work, mine = torch.cuda.Stream(), torch.cuda.Stream()
    array = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(work):
        array.zero_()
    array.__dlpack__(stream=mine.cuda_stream)
    copy_on(mine.cuda_stream, array.data_ptr())
    assert simulator.take_report()[0] == 1
    torch.cuda.synchronize()


@pytest.mark.parametrize("major, kind", [(2, 2), (1, 99)])
def test_cuda_core_version_and_device(memory, major, kind):
    from cuda.core.utils import StridedMemoryView
    from libcai import _dlpack

    class Altered:
        __dlpack_device__ = memory[0].__dlpack_device__

        def __dlpack__(self, **options):
            capsule = memory[0].__dlpack__(max_version=(1, 0))
            managed = _dlpack.capsule_at(capsule, _dlpack.ManagedVersioned)
            managed.version.major, managed.tensor.device.type = major, kind
            return capsule

    view = StridedMemoryView.from_dlpack(Altered(), stream_ptr=-1)
    assert view.ptr == int(memory[0].handle)  # expected an exception


def test_cuda_core_stream(device, simulator):
    work, mine = device.create_stream(), device.create_stream()
    buffer = device.allocate(16, stream=work)
    buffer.fill(1, stream=work)
    buffer.__dlpack__(stream=int(mine.handle))
    copy_on(int(mine.handle), int(buffer.handle))
    assert simulator.take_report()[0] == 1
    work.sync()
    buffer.close(work)
    work.sync()
