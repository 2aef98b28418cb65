"""PyTorch's CUDA tensors on the replacement runtime libraries. Its kernels cannot run here: copies can."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("the replacement runtime library is not loaded", allow_module_level=True)


class Exporter:
    def __init__(self, interface):
        self.__cuda_array_interface__ = interface


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


def test_a_forgotten_wait_is_found(simulator):
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(a):
        d = torch.zeros(1000, device="cuda")
    with torch.cuda.stream(b):
        d.clone()
    count, text = simulator.take_report()
    assert count >= 1 and "read" in text, text
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


def test_array_interface():
    t = torch.arange(12, dtype=torch.int16).cuda().reshape(3, 4)
    interface = t.t().__cuda_array_interface__
    assert interface["version"] == 2 and interface["shape"] == (4, 3) and interface["strides"] == (2, 8)
    again = torch.as_tensor(Exporter(interface), device="cuda")
    assert again.data_ptr() == t.data_ptr() and torch.equal(again.cpu(), t.t().cpu())
    assert torch.from_dlpack(t).data_ptr() == t.data_ptr()


def test_numpy_of_what_was_copied():
    t = torch.full((5,), 3.0).cuda().cpu().numpy()
    assert (t == np.full(5, 3.0, np.float32)).all()


def test_kernels_are_refused_and_nothing_breaks():
    t = torch.arange(10.0).cuda()
    with pytest.raises(RuntimeError, match="not supported"):
        t + 1
    assert torch.equal(t.cpu(), torch.arange(10.0))
