"""PyTorch's CUDA tensors on the replacement runtime libraries, and tensors that are more than memory.

Its kernels cannot run here: copies can."""

import weakref

import numpy as np
import pytest
import torch
from cai_python import give, take

import cai_python as P

assert torch.cuda.is_available(), "the replacement runtime library is not loaded"
WAYS = {"default": [], "table": [P.DLPACK_EXCHANGE], "dlpack": [P.DLPACK]}


@pytest.fixture(autouse=True)
def nothing_pending():
    yield
    torch.cuda.synchronize()


def test_devices():
    assert torch.cuda.get_device_name(0) == "cuda-sim"
    assert torch.cuda.get_device_capability(0) == (9, 0)
    assert torch.cuda.mem_get_info()[1] == 8 << 30


def test_round_trip():
    x = torch.arange(1000, dtype=torch.float64)
    assert torch.equal(x.cuda().cpu(), x)
    assert torch.equal(torch.zeros(10, device="cuda").cpu(), torch.zeros(10))
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert torch.equal(pinned.to("cuda", non_blocking=True).cpu(), x)


def test_streams_and_events():
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.arange(1000, dtype=torch.float32)
    with torch.cuda.stream(a):
        d = x.cuda()
        done = a.record_event()
    b.wait_event(done)
    with torch.cuda.stream(b):
        e = d.clone()
    d.record_stream(b)
    b.synchronize()
    assert torch.equal(e.cpu(), x)
    torch.cuda.synchronize()


def test_graph():
    source, target = torch.arange(10.0).cuda(), torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(source)
    assert torch.equal(target.cpu(), torch.zeros(10))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(target.cpu(), torch.arange(10.0))


def test_numpy_of_what_was_copied():
    t = torch.full((5,), 3.0).cuda().cpu().numpy()
    assert (t == np.full(5, 3.0, np.float32)).all()


def test_kernels_are_refused_and_nothing_breaks():
    t = torch.arange(10.0).cuda()
    with pytest.raises(RuntimeError, match="not supported"):
        t + 1
    assert torch.equal(t.cpu(), torch.arange(10.0))


@pytest.mark.parametrize("way", WAYS)
def test_host_memory_is_refused_unless_allowed(way):
    with pytest.raises(BufferError):
        take(torch.zeros(3), protocols=WAYS[way])


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


def test_held_without_the_lock():
    tensor = torch.zeros(3, 4, device="cuda")
    alive = weakref.ref(tensor)
    taken = take(tensor)
    del tensor
    taken.release(P.free)
    assert P.soon(lambda: alive() is None)


def test_exceptions_pass_through():
    tensor = torch.zeros(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        take(tensor, protocols=[P.CUDA_ARRAY_INTERFACE])
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        take(torch.zeros(3), protocols=[P.CUDA_ARRAY_INTERFACE])


def test_strides_that_dlpack_cannot_say():
    tensor = torch.zeros(3, 4, device="cuda")
    with P.make((3, 2), "<f4", tensor.data_ptr(), (17, 4)) as array:
        with pytest.raises(BufferError):
            torch.from_dlpack(give(array))
        with pytest.raises(ValueError):
            torch.as_tensor(give(array), device="cuda")
