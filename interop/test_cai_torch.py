"""PyTorch's tensors in and out, on the processor and on the simulated device."""

import gc
import pathlib
import sys
import weakref

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))
import cai_python as P  # noqa: E402
from cai_python import give, take  # noqa: E402

torch = pytest.importorskip("torch")
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="the replacement runtime library is not loaded")

WAYS = {"default": [], "table": [P.DLPACK_EXCHANGE], "dlpack": [P.DLPACK]}
TYPES = [
    (torch.float32, "<f4", 0), (torch.float64, "<f8", 0), (torch.int8, "|i1", 0), (torch.uint8, "|u1", 0),
    (torch.int64, "<i8", 0), (torch.bool, "|b1", 0), (torch.float16, "<f2", 0), (torch.complex64, "<c8", 0),
    (torch.bfloat16, "<V2", P.BFLOAT16), (torch.float8_e4m3fn, "<V1", P.FLOAT8_E4M3FN), (torch.float8_e5m2, None, P.FLOAT8_E5M2),
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_pending():
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


# --- on the processor -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_in_host_memory(way):
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)[:, ::2]
    with take(tensor, host=True, protocols=WAYS[way]) as taken:
        assert taken.shape == (3, 2) and taken.strides == (16, 8) and taken.data == tensor.data_ptr()
        assert taken.device == (P.CPU, 0) and taken.stream is None and not taken.readonly
        back = torch.from_dlpack(give(taken))
        assert back.data_ptr() == tensor.data_ptr() and torch.equal(back, tensor)
    with pytest.raises(BufferError):
        take(tensor, protocols=WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype, typestr, code", TYPES, ids=str)
def test_types(dtype, typestr, code, way):
    tensor = torch.zeros(5, dtype=torch.uint8).repeat(16)[: 5 * dtype.itemsize].view(dtype)
    with take(tensor, host=True, protocols=WAYS[way]) as taken:
        assert taken.typestr == typestr or typestr is None
        assert taken.dtype_code == code
        assert torch.from_dlpack(give(taken)).dtype == dtype


def test_requires_grad():
    """PyTorch's own exceptions pass through. Its table does not look, so the importer does."""
    tensor = torch.zeros(3, requires_grad=True)
    with pytest.raises((RuntimeError, BufferError), match="gradient"):
        take(tensor, host=True, protocols=[P.DLPACK])
    with pytest.raises(BufferError, match="CAI_IMPORT_ALLOW_GRAD"):
        take(tensor, host=True)
    with pytest.raises(BufferError, match="detach"):
        take(torch.nn.Parameter(torch.zeros(3)), host=True)
    with take(tensor, host=True, grad=True) as taken:
        assert taken.data == tensor.data_ptr()
    take(tensor.detach(), host=True).release()


@pytest.mark.parametrize("way", WAYS)
def test_values_that_are_computed_later(way):
    """The memory of a conjugated or negated view has other values than the view."""
    tensor = torch.zeros(3, dtype=torch.complex64)
    imaginary = tensor.conj().imag
    negated = [torch._neg_view(torch.zeros(3, dtype=dtype)) for dtype in (torch.bfloat16, torch.float32, torch.int32)]
    for view in (tensor.conj(), imaginary, imaginary.as_strided((2,), (3,)), imaginary.as_strided((3,), (1,)), *negated):
        with pytest.raises(BufferError):
            take(view, host=True, protocols=WAYS[way])
        take(view.resolve_conj().resolve_neg(), host=True, protocols=WAYS[way]).release()
    take(tensor.real, host=True, protocols=WAYS[way]).release()


@pytest.mark.parametrize("way", WAYS)
def test_no_memory(way):
    for tensor in (torch.zeros(3, device="meta"), torch.zeros(3, 3).to_sparse()):
        with pytest.raises((RuntimeError, ValueError, BufferError)):
            take(tensor, host=True, protocols=WAYS[way])


def test_a_fake_tensor():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        tensors = [torch.empty(3), torch.empty(3, device="cuda")]
    for tensor in tensors:
        for host in (False, True):
            with pytest.raises(ValueError, match="NULL.*FakeTensor"):
                take(tensor, host=host)


# --- on the device --------------------------------------------------------------------------------------------------


def fresh():
    tensor = torch.arange(12, dtype=torch.float32).cuda().reshape(3, 4)
    torch.cuda.synchronize()
    return tensor


@cuda
@pytest.mark.parametrize("way", WAYS)
def test_in(way):
    tensor = fresh()
    with take(tensor, protocols=WAYS[way]) as taken:
        assert taken.shape == (3, 4) and taken.data == tensor.data_ptr() and taken.device == (P.CUDA, 0)
        assert taken.stream == P.STREAM_LEGACY and not taken.readonly and taken.contiguous()
    with take(tensor.t(), protocols=WAYS[way]) as taken:
        assert taken.shape == (4, 3) and taken.strides == (4, 16)
    with take(tensor[:, :0], protocols=WAYS[way]) as taken:
        assert taken.shape == (3, 0) and taken.data == 0
    with take(tensor[1:, 2], protocols=WAYS[way]) as taken:
        assert taken.shape == (2,) and taken.data == tensor.data_ptr() + 24
    with take(tensor.expand(2, 3, 4), protocols=WAYS[way]) as taken:
        assert taken.strides == (0, 16, 4) and not taken.contiguous()


@cuda
def test_the_dictionary_has_no_stream():
    tensor = fresh()
    found = tensor.__cuda_array_interface__
    assert list(found) == ["typestr", "shape", "strides", "data", "version"] and found["version"] == 2
    with torch.cuda.stream(torch.cuda.Stream()), take(tensor, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
        assert taken.stream == P.STREAM_UNKNOWN and taken.version == 2 and taken.device == (P.UNKNOWN, 0)
    with take(tensor, protocols=[P.CUDA_ARRAY_INTERFACE], device=True) as taken:
        assert taken.device == (P.CUDA, 0)


@cuda
def test_the_table_has_the_stream():
    tensor, stream = fresh(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        with take(tensor) as taken:
            assert taken.stream == stream.cuda_stream
            # The object keeps it to itself: its dictionary names it, for consumers that order.
            assert give(taken).__cuda_array_interface__["stream"] == stream.cuda_stream
    with take(tensor) as taken:
        assert taken.stream == P.STREAM_LEGACY


@cuda
def test_dlpack_is_asked_to_order():
    """The tensor's work on its stream comes before ours: without that, the copy below is a race."""
    mine, theirs = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(theirs):
        tensor = torch.arange(1000, dtype=torch.float32).pin_memory().to("cuda", non_blocking=True)
        taken = take(tensor, protocols=[P.DLPACK], stream=mine.cuda_stream)
    assert taken.stream == mine.cuda_stream
    with torch.cuda.stream(mine):
        view = torch.as_tensor(give(taken), device="cuda")
        copied = view.clone()
        mine.synchronize()
        assert copied.cpu()[999] == 999
    taken.release()


def consumed(out):
    """A tensor that is filled on one stream and copied on another, handed over by an object of ours."""
    producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    host = torch.arange(1000, dtype=torch.float32).pin_memory()
    tensor = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(producer):
        tensor.copy_(host, non_blocking=True)
        taken = take(tensor)
        assert taken.stream == producer.cuda_stream
    with torch.cuda.stream(consumer):
        view = torch.as_tensor(give(taken), device="cuda") if out == "as_tensor" else torch.from_dlpack(give(taken))
        copied = view.clone()
        consumer.synchronize()
        found = copied.cpu()
    torch.cuda.synchronize()
    taken.release()
    return found


@cuda
def test_from_dlpack_waits():
    """PyTorch names its current stream, and our array's work is ordered before it."""
    assert consumed("from_dlpack")[999] == 999


@cuda
def test_as_tensor_does_not_wait(simulator):
    """PyTorch ignores the stream of a dictionary."""
    consumed("as_tensor")
    count, text = simulator.take_report()
    assert count >= 1, text


@cuda
@pytest.mark.parametrize("out", ["as_tensor", "from_dlpack"])
@pytest.mark.parametrize("way", WAYS)
def test_there_and_back(way, out):
    tensor = fresh()
    with take(tensor, protocols=WAYS[way]) as taken:
        obj = give(taken)
    back = torch.as_tensor(obj, device="cuda") if out == "as_tensor" else torch.from_dlpack(obj)
    assert back.data_ptr() == tensor.data_ptr() and back.shape == tensor.shape and torch.equal(back.cpu(), tensor.cpu())
    with take(back) as again:
        assert again.data == tensor.data_ptr()


@cuda
@pytest.mark.parametrize("out", ["as_tensor", "from_dlpack"])
def test_object_dropped_first(out):
    tensor = fresh()
    storage = weakref.ref(tensor)
    taken = take(tensor)
    obj = give(taken)
    back = torch.as_tensor(obj, device="cuda") if out == "as_tensor" else torch.from_dlpack(obj)
    address = tensor.data_ptr()
    taken.release()
    del tensor, obj
    gc.collect()
    other = fresh()
    assert other.data_ptr() != address and back.cpu().sum() == 66
    del back
    gc.collect()
    assert storage() is None


@cuda
def test_held_without_the_lock():
    tensor = fresh()
    alive = weakref.ref(tensor)
    taken = take(tensor)
    del tensor
    taken.release(P.free)
    assert P.soon(lambda: alive() is None)


@cuda
def test_bfloat16():
    tensor = torch.zeros(6, dtype=torch.bfloat16, device="cuda")
    assert tensor.__cuda_array_interface__["typestr"] == "<V2"
    with take(tensor) as taken:
        assert taken.dtype_code == P.BFLOAT16
        assert torch.from_dlpack(give(taken)).dtype == torch.bfloat16
        with pytest.raises(TypeError):
            torch.as_tensor(give(taken), device="cuda")  # PyTorch does not read its own spelling
    with take(tensor, protocols=[P.CUDA_ARRAY_INTERFACE], opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == P.BFLOAT16
    with pytest.raises(KeyError):
        take(torch.empty(6, device="cuda", dtype=torch.float8_e4m3fn), protocols=[P.CUDA_ARRAY_INTERFACE])


@cuda
def test_readonly():
    """PyTorch has no read-only tensors. It refuses the dictionary of one, and takes DLPack's flag for nothing."""
    tensor = fresh()
    with P.make((3, 4), "<f4", tensor.data_ptr(), readonly=True) as array:
        with pytest.raises(TypeError):
            torch.as_tensor(give(array), device="cuda")
        assert torch.as_tensor(give(array, hide_readonly=True), device="cuda").data_ptr() == tensor.data_ptr()


@cuda
def test_exceptions_pass_through():
    tensor = torch.zeros(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        take(tensor, protocols=[P.CUDA_ARRAY_INTERFACE])
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        take(torch.zeros(3), protocols=[P.CUDA_ARRAY_INTERFACE])


@cuda
def test_empty_and_scalar():
    for shape in ((0, 4), ()):
        tensor = torch.zeros(shape, device="cuda")
        with take(tensor) as taken:
            obj = give(taken)
        assert torch.as_tensor(obj, device="cuda").shape == shape and torch.from_dlpack(obj).shape == shape


@cuda
def test_strides_that_dlpack_cannot_say():
    tensor = fresh()
    with P.make((3, 2), "<f4", tensor.data_ptr(), (17, 4)) as array:
        with pytest.raises(BufferError):
            torch.from_dlpack(give(array))
        with pytest.raises(ValueError):
            torch.as_tensor(give(array), device="cuda")
