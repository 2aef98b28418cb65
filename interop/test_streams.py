"""Real libraries as producers and consumers of arrays that libcai orders: PyTorch's, numba's and cuda-bindings' streams
wait for each other through cai_array_produce, cai_array_consume_begin and cai_array_consume_end, and for nothing else."""

import ctypes

import numpy as np
import pytest
import torch
from cai_ctypes import Error, new_array
from cai_python import free as cai
from cuda.bindings import driver
from numba import cuda as numba_cuda

READ = 1


def check(status, error):
    assert status == 0, error.message.decode()


def described(interface, shape):
    """The dictionary, as a structure. `shape` must outlive it."""
    array = new_array(data=interface["data"][0], ndim=1, typestr=interface["typestr"].encode())
    array.shape = ctypes.cast(shape, type(array.shape))
    return array


def exports(array, *streams):
    error = Error()
    names = (ctypes.c_uint64 * len(streams))(*streams)
    check(cai.cai_array_produce(ctypes.byref(array), names, len(streams), streams[-1], 0, ctypes.byref(error)), error)


class Uses:
    """A consumer's work, between begin and end."""

    def __init__(self, array, stream, access=READ):
        self.array, self.stream, self.access = array, ctypes.c_uint64(stream), access

    def __enter__(self):
        error = Error()
        check(cai.cai_array_consume_begin(ctypes.byref(self.array), self.stream, self.access, ctypes.byref(error)), error)

    def __exit__(self, *_):
        error = Error()
        check(cai.cai_array_consume_end(ctypes.byref(self.array), self.stream, self.access, ctypes.byref(error)), error)


def new_stream():
    result, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    assert result == driver.CUresult.CUDA_SUCCESS
    return stream


def copy(target, source, nbytes, stream):
    (result,) = driver.cuMemcpyDtoDAsync(target, source, nbytes, stream)
    assert result == driver.CUresult.CUDA_SUCCESS


def exported_by_pytorch(producer):
    """A tensor that is written at last on the producer's stream, as an array that says so."""
    shape = (ctypes.c_int64 * 1)(1000)
    with torch.cuda.stream(producer):
        tensor = torch.arange(1000, dtype=torch.int32).pin_memory().to("cuda", non_blocking=True)
    array = described(tensor.__cuda_array_interface__, shape)
    exports(array, producer.cuda_stream)
    return tensor, array, shape


@pytest.mark.parametrize("begins", [True, False])
def test_pytorch_to_the_driver(simulator, begins):
    """PyTorch's dictionary names no stream. Its current one is known here, and exported with the tensor. The same without
    begin is a race, and is called R3."""
    producer, consumer = torch.cuda.Stream(), new_stream()
    out = torch.zeros(1000, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    tensor, array, _shape = exported_by_pytorch(producer)
    if begins:
        with Uses(array, int(consumer)):
            copy(out.data_ptr(), tensor.data_ptr(), 4000, consumer)
        with torch.cuda.stream(producer):
            tensor.zero_()  # at once: ordered after the consumer's copy
        driver.cuStreamSynchronize(consumer)
        assert out.cpu().tolist() == list(range(1000))
    else:
        copy(out.data_ptr(), tensor.data_ptr(), 4000, consumer)
        count, text = simulator.take_report()
        assert count >= 1 and "rule R3" in text, text
    torch.cuda.synchronize()
    driver.cuStreamSynchronize(consumer)


def test_numba_to_pytorch():
    producer, consumer = numba_cuda.stream(), torch.cuda.Stream()
    shape = (ctypes.c_int64 * 1)(100)
    host = numba_cuda.pinned_array(100, dtype=np.float32)
    host[:] = 7
    target = torch.zeros(100, device="cuda")
    torch.cuda.synchronize()
    source = numba_cuda.to_device(host, stream=producer)
    array = described(source.__cuda_array_interface__, shape)
    exports(array, int(producer.handle))
    assert array.stream == int(producer.handle) and array.stream_id != 0 and array.context
    with Uses(array, consumer.cuda_stream):
        copy(target.data_ptr(), source.__cuda_array_interface__["data"][0], 400, consumer.cuda_stream)
    with torch.cuda.stream(consumer):
        assert target.cpu().tolist() == [7.0] * 100
    producer.synchronize()
