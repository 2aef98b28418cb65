"""`libcai.testing` on the arrays of libraries, on the simulated driver: each library has the faults of its row, no others.

What a fault is, and a reproducer without the checks, is in findings.md and test_findings.py.
"""

import contextlib

import cai_python as P
import numpy as np
import pytest

from libcai import _view
from libcai.testing._consumer import CAI, consumer_report
from libcai.testing._producer import producer_report

libcai_view = _view.function(str(P.LIBRARY))
LATER = "only the stream that is current at the export is ordered"


def cupy():
    cp = pytest.importorskip("cupy")
    return dict(make=cp.zeros, on=cp.cuda.ExternalStream, work=lambda a: a.data.memset_async(1, a.nbytes),
                device=cp.cuda.Device, fresh=lambda: cp.cuda.Stream(non_blocking=True),
                parts={"broadcast": lambda a: cp.broadcast_to(a[0], (5, 4))})  # fmt: skip


class Repeated:
    """A row of an array, five times."""

    def __init__(self, array):
        self.kept = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "shape": (5, 4), "strides": (0, 4)}


def current_stream(wrap):
    """A stack of streams, and the context that pushes one."""
    current = []

    @contextlib.contextmanager
    def on(handle):
        current.append(wrap(handle))
        try:
            yield
        finally:
            current.pop()

    return current, on


def numba():
    cuda = pytest.importorskip("numba.cuda")
    current, on = current_stream(cuda.external_stream)
    stream = lambda: current[-1] if current else 0
    return dict(
        make=lambda shape, dtype: cuda.device_array(shape, dtype, stream=stream()), on=on, device=lambda n: cuda.gpus[n],
        work=lambda a: a.copy_to_device(np.zeros(a.shape, a.dtype), stream=stream()),
        late=lambda: cuda.device_array((3, 4), "f4", stream=cuda.stream()),
        parts={"broadcast": lambda a: cuda.as_cuda_array(Repeated(a))},
    )  # fmt: skip


def torch():
    t = pytest.importorskip("torch")
    return dict(
        make=lambda shape, dtype: t.zeros(shape, dtype=getattr(t, dtype), device="cuda"), device=t.cuda.device,
        on=lambda handle: t.cuda.stream(t.cuda.ExternalStream(handle)), work=lambda a: a.zero_(),
        parts={"broadcast": lambda a: a[0].expand(5, 4)},
    )  # fmt: skip


def cuda_core():
    core = pytest.importorskip("cuda.core")
    from cuda.core.utils import StridedMemoryView

    current, on = current_stream(core.Stream.from_handle)

    def make(shape, dtype):
        device = core.Device()
        device.set_current()
        stream, dtype = current[-1] if current else device.default_stream, np.dtype(dtype)
        buffer = device.allocate(max(1, int(np.prod(shape))) * dtype.itemsize, stream=stream)
        return StridedMemoryView.from_buffer(buffer, shape=shape, dtype=dtype)

    return dict(make=make, on=on)


# What fails, with the reason, and what is to be considered.
LIBRARIES = {
    cupy: ({"entries": "negative strides overflow", "order-dict-later": LATER, "order-dlpack-later": LATER,
            "lifetime-stream": "it ends with its object"},
           {"dlpack-stream"}),
    numba: ({"strides": "zero strides are exported as None", "memory": "the same"}, set()),
    torch: ({"dlpack-copy": "no flag", "order-dlpack-later": LATER},
            {"names-the-work", "order-unnamed", "dlpack-stream", "dlpack-error", "device-current"}),
    cuda_core: ({"order-dlpack": "`stream` is ignored", "order-dlpack-later": "the same"},
                {"dlpack-stream", "dlpack-host", "order-table"}),
}  # fmt: skip


def is_dictionary(obj):
    return hasattr(obj, CAI)


def takes_cupy():
    cp = pytest.importorskip("cupy")
    return dict(take=lambda o: cp.asarray(o) if is_dictionary(o) else cp.from_dlpack(o), on=cp.cuda.ExternalStream)


def takes_numba():
    return dict(take=pytest.importorskip("numba.cuda").as_cuda_array, protocols=[CAI])


def takes_torch():
    t = pytest.importorskip("torch")
    t.zeros(1, device="cuda")
    return dict(take=lambda o: t.as_tensor(o, device="cuda") if is_dictionary(o) else t.from_dlpack(o),
                on=lambda handle: t.cuda.stream(t.cuda.ExternalStream(handle)))  # fmt: skip


def takes_cuda_core():
    views = pytest.importorskip("cuda.core.utils").StridedMemoryView
    current, on = current_stream(int)
    return dict(take=lambda o: views.from_any_interface(o, stream_ptr=current[-1] if current else -1), on=on,
                seen=lambda view: view if view.dtype else view)  # looked at late


class Bytes:
    """What a consumer of bytes has made of an object: its own address in place of the object's, and no mask."""

    def __init__(self, made, obj, pointer, readonly):
        self.made, self.said = made, obj if is_dictionary(obj) else libcai_view(obj, -1)
        self.__cuda_array_interface__ = {**self.said.__cuda_array_interface__, "data": (pointer, readonly), "mask": None}


def takes_ucxx():
    arr = pytest.importorskip("ucxx._lib.arr")

    def take(obj):
        made = arr.Array(obj)
        return Bytes(made, obj, made.ptr, made.readonly)

    return dict(take=take, protocols=[CAI])


def takes_mpi4py():
    buffer = pytest.importorskip("mpi4py.MPI").buffer

    def take(obj):
        made = buffer.frombuffer(obj, readonly=True)
        return Bytes(made, obj, made.address, made.readonly)

    return dict(take=take)


CONSUMERS = {
    takes_cuda_core: ({"refuses-version": "it is not looked at", "refuses-tensor": "any device"}, {"refuses-entries"}),
    takes_ucxx: ({}, {"refuses-entries"}),
    takes_mpi4py: ({}, {"refuses-entries"}),
    takes_cupy: ({}, {"keeps-readonly", "refuses-entries", "takes-in-capture"}),
    takes_numba: ({}, {"keeps-readonly", "refuses-entries", "takes-in-capture"}),
    takes_torch: ({"takes-entries": "the byte order is ignored", "takes-mask": "it is ignored", "waits": "no stream is read"},
                  {"keeps-readonly", "refuses-entries", "takes-in-capture"}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", [*LIBRARIES, *CONSUMERS])
def test_library(library):
    known, consider = {**LIBRARIES, **CONSUMERS}[library]
    check = consumer_report if library in CONSUMERS else producer_report
    found = check(**library(), known=known, library=str(P.LIBRARY), name=library.__name__)
    status = {result.rule.id: result.status for result in found.results}
    assert found.passed and {rule for rule, seen in status.items() if seen == "known"} == set(known), str(found)
    assert {rule for rule, seen in status.items() if seen == "warning"} <= consider, str(found)
