"""What DLPack has to do with the driver, called by test_host_copy.py within a process on the simulated driver."""

import ctypes as c

import cai_ctypes as T
import cai_python as P
import numpy as np
import pytest
from cai_python import ERRORS, Counted, give, make, soon, take
from host_copy_inside import driver
from importing import exporter

EMPTY = dict(shape=(0, 4), data=(0, False))


@pytest.fixture
def second_device():
    """Its primary context is current during the test."""
    context = c.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", c.byref(context), 1)
    driver.call("cuCtxSetCurrent", context)
    yield context.value
    driver.call("cuCtxSetCurrent", driver.context)
    driver.call("cuDevicePrimaryCtxRelease_v2", 1)


def empty(context=None):
    return make((0, 4), device=(P.UNKNOWN, 0), context=context)


def test_empty_arrays_are_on_the_current_device():
    with take(exporter(**EMPTY), device=True) as taken:
        assert taken.device == (P.CUDA, 0)
    with empty() as array:
        assert give(array).__dlpack_device__() == (2, 0) and give(array).device == "cuda:0"


def test_empty_arrays_on_another_device(second_device):
    with take(exporter(**EMPTY), device=True) as taken:
        assert taken.device == (P.CUDA, 1)
    with empty() as array:
        assert give(array).__dlpack_device__() == (2, 1) and give(array).device == "cuda:1"
        with take(give(array), protocols=[P.DLPACK]) as again:
            assert again.device == (P.CUDA, 1)


def test_empty_arrays_with_a_context(second_device):
    driver.call("cuCtxSetCurrent", driver.context)
    with empty(second_device) as array:
        assert give(array).__dlpack_device__() == (2, 1)
    with empty(driver.context.value) as array:
        assert give(array).__dlpack_device__() == (2, 0)


def test_empty_arrays_without_a_context():
    driver.call("cuCtxSetCurrent", None)
    try:
        with take(exporter(**EMPTY), device=True) as taken, empty() as array:
            assert taken.device == (P.CUDA, 0) and give(array).__dlpack_device__() == (2, 0)
    finally:
        driver.call("cuCtxSetCurrent", driver.context)


class Dlpack:
    """An object with nothing but `__dlpack__`."""

    def __init__(self, array):
        self.source = give(array)

    def __dlpack__(self, **options):
        return self.source.__dlpack__(**options)

    def __dlpack_device__(self):
        return (2, 0)


def blocking_stream():
    stream = c.c_void_p()
    driver.call("cuStreamCreate", c.byref(stream), 0)
    return stream.value


def imported(stream, counted, pointer):
    array = make((16,), "|u1", pointer, counted=counted, device=(P.CUDA, 0))
    taken = take(Dlpack(array), protocols=[P.DLPACK], stream=stream)
    array.release()
    return taken


def test_the_stream_of_an_import_is_identified():
    pointer, stream, counted = driver.memory(np.zeros(16, "|u1")), blocking_stream(), Counted()
    number = c.c_uint64()
    driver.call("cuStreamGetId", c.c_void_p(stream), c.byref(number))
    with imported(stream, counted, pointer) as taken:
        assert taken.stream == stream and taken.array.stream_id == number.value != 0
    driver.call("cuCtxSynchronize")
    assert soon(lambda: counted.gone == 1)
    driver.call("cuStreamDestroy_v2", c.c_void_p(stream))
    driver.free(pointer)


def test_a_stream_that_did_not_outlive_the_array():
    """Its handle belongs to another stream then: a begin fails, and the deleter does not wait for that one."""
    pointer, stream, counted = driver.memory(np.zeros(16, "|u1")), blocking_stream(), Counted()
    taken = imported(stream, counted, pointer)
    driver.fill(pointer, 7, 16, stream)
    driver.call("cuStreamDestroy_v2", c.c_void_p(stream))
    others = [blocking_stream()]
    while others[-1] != stream:
        others.append(blocking_stream())
        assert len(others) < 100, "handles are not reused"
    error, consumer = T.Error(), blocking_stream()
    status = P.held.cai_array_consume_begin(c.byref(taken.array), c.c_uint64(consumer), 1, c.byref(error))
    assert status == ERRORS["STREAM_STALE"], error.message
    taken.release()
    driver.call("cuCtxSynchronize")
    assert soon(lambda: counted.gone == 1)
    driver.free(pointer)


def test_a_stream_that_is_being_captured():
    """Its identity is asked for without a call that would invalidate the capture."""
    pointer, stream, counted = driver.memory(np.zeros(16, "|u1")), blocking_stream(), Counted()
    array = make((16,), "|u1", pointer, counted=counted, device=(P.CUDA, 0), stream=P.STREAM_NONE)
    obj, graph = Dlpack(array), c.c_void_p()
    driver.call("cuStreamBeginCapture_v2", c.c_void_p(stream), 2)
    taken = take(obj, protocols=[P.DLPACK], stream=stream)
    driver.call("cuStreamEndCapture", c.c_void_p(stream), c.byref(graph))
    del obj
    array.release()
    taken.release()
    driver.call("cuCtxSynchronize")
    assert soon(lambda: counted.gone == 1)


# --- messages that need a driver


def begin(stream, consumer):
    error = T.Error()
    with make((16,), "|u1", 0x1000, device=(P.CUDA, 0), stream=stream) as array:
        status = P.held.cai_array_consume_begin(c.byref(array.array), c.c_uint64(consumer), 1, c.byref(error))
    return status, error.message.decode()


def test_a_stream_that_is_not_alive():
    consumer, gone = driver.stream(), driver.stream()
    driver.call("cuStreamDestroy_v2", c.c_void_p(gone))
    status, words = begin(gone, consumer)
    assert status == ERRORS["STREAM_HANDLE"] and "CUDA_ERROR_INVALID_HANDLE" in words
    assert words.endswith(", expected a stream or event that is alive: it must live as long as every array that names it")


def test_no_current_context():
    stream = driver.stream()
    driver.call("cuCtxSetCurrent", None)
    try:
        status, words = begin(stream, 1)
    finally:
        driver.call("cuCtxSetCurrent", driver.context)
    assert status == ERRORS["NO_CONTEXT"]
    assert words == (
        "stream: found no current context in this thread, expected a context for the default stream: call cuCtxSetCurrent "
        "or cudaSetDevice in this thread first"
    )
