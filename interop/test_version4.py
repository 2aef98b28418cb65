"""Dictionaries of the proposed version 4: readers of version 3 take them as such."""

import types

import cupy
import numpy as np
import pytest
import torch
from cai_python import give, make, take
from cuda.core.utils import StridedMemoryView
from numba import cuda

import cai_python as P

HOST = np.arange(12, dtype=np.float32)
# How each reads an object, and the address that it then has.
READERS = {
    "cupy": (cupy.asarray, lambda found: found.data.ptr),
    "numba": (cuda.as_cuda_array, lambda found: found.device_ctypes_pointer.value),
    "torch": (lambda obj: torch.as_tensor(obj, device="cuda"), lambda found: found.data_ptr()),
    "cuda.core": (lambda obj: StridedMemoryView.from_cuda_array_interface(obj, stream_ptr=-1), lambda found: found.ptr),
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_of_version_3(reader):
    memory, stream = cupy.asarray(HOST), cupy.cuda.Stream()
    event = cupy.cuda.Event(disable_timing=True)
    event.record(stream)
    with make((12,), "<f4", memory.data.ptr, stream=stream.ptr, event=event.ptr) as array:
        dictionary = give(array, version_4=True).__cuda_array_interface__
        assert dictionary["version"] == 4 and dictionary["event"] == event.ptr and dictionary["device"] == (P.CUDA, 0)
        read, address = READERS[reader]
        found = read(types.SimpleNamespace(__cuda_array_interface__=dictionary))
        assert address(found) == memory.data.ptr and tuple(found.shape) == (12,)
        del found
        with take(types.SimpleNamespace(__cuda_array_interface__=dictionary), version_4=True) as again:
            assert (again.event, again.stream, again.device) == (event.ptr, stream.ptr, (P.CUDA, 0))
    cupy.cuda.runtime.deviceSynchronize()
