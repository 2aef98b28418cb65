"""cuda-bindings: the driver API from Python, one to one."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu


def ok(answer):
    code, *values = answer
    assert code == cu.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values


@pytest.fixture
def context():
    ok(cu.cuInit(0))
    context = ok(cu.cuDevicePrimaryCtxRetain(ok(cu.cuDeviceGet(0))))
    ok(cu.cuCtxSetCurrent(context))
    yield context
    ok(cu.cuCtxSynchronize())
    ok(cu.cuDevicePrimaryCtxRelease(0))


def stream():
    return ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))


def event():
    return ok(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))


def test_devices(context):
    assert ok(cu.cuDeviceGetCount()) >= 1
    assert ok(cu.cuDeviceGetName(64, 0)).split(b"\0")[0] == b"cuda-sim"
    major = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    assert ok(cu.cuDeviceGetAttribute(major, 0)) == 9
    assert ok(cu.cuDriverGetVersion()) >= 12000


@pytest.mark.parametrize("ordered", [True, False])
def test_two_streams(context, simulator, ordered):
    a, b, done = stream(), stream(), event()
    n = 1 << 16
    buffer = ok(cu.cuMemAlloc(n))
    host = np.zeros(n, np.uint8)
    ok(cu.cuMemsetD8Async(buffer, 42, n, a))
    if ordered:
        ok(cu.cuEventRecord(done, a))
        ok(cu.cuStreamWaitEvent(b, done, 0))
    ok(cu.cuMemcpyDtoHAsync(host.ctypes.data, buffer, n, b))
    ok(cu.cuStreamSynchronize(b))
    count, text = simulator.take_report()
    assert count == (0 if ordered else 1), text
    if ordered:
        assert (host == 42).all()
    else:
        assert "cuMemsetD8Async" in text and "cuMemcpyDtoHAsync" in text and "cuEventRecord" in text
    ok(cu.cuStreamSynchronize(a))
    ok(cu.cuMemFree(buffer))
    for made in (a, b):
        ok(cu.cuStreamDestroy(made))
    ok(cu.cuEventDestroy(done))


def test_pointer_attributes(context):
    buffer = ok(cu.cuMemAlloc(1000))
    names = [
        cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED,
    ]
    values = ok(cu.cuPointerGetAttributes(len(names), names, int(buffer) + 10))
    assert [int(value) for value in values] == [2, 0, 1000, 0]
    base, size = ok(cu.cuMemGetAddressRange(int(buffer) + 10))
    assert (int(base), size) == (int(buffer), 1000)
    ok(cu.cuMemFree(buffer))


def test_capture_and_launch(context):
    a, n = stream(), 4096
    source, target = ok(cu.cuMemAlloc(n)), ok(cu.cuMemAlloc(n))
    ok(cu.cuMemsetD8(source, 7, n))
    ok(cu.cuCtxSynchronize())
    ok(cu.cuStreamBeginCapture(a, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    ok(cu.cuMemcpyDtoDAsync(target, source, n, a))
    ok(cu.cuMemsetD8Async(source, 8, n, a))
    graph = ok(cu.cuStreamEndCapture(a))
    nodes, count = ok(cu.cuGraphGetNodes(graph, 10))
    assert count == 2 and sum(int(node) != 0 for node in nodes) == 2
    launchable = ok(cu.cuGraphInstantiate(graph, 0))
    host = np.zeros(n, np.uint8)
    for expected in (7, 8):
        ok(cu.cuGraphLaunch(launchable, a))
        ok(cu.cuMemcpyDtoHAsync(host.ctypes.data, target, n, a))
        ok(cu.cuStreamSynchronize(a))
        assert (host == expected).all()
    ok(cu.cuGraphExecDestroy(launchable))
    ok(cu.cuGraphDestroy(graph))
    ok(cu.cuMemFree(source))
    ok(cu.cuMemFree(target))


def test_host_function(context):
    a = stream()
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(data))
    ok(cu.cuLaunchHostFunc(a, cu.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value), 5))
    ok(cu.cuStreamSynchronize(a))
    assert seen == [5]
    ok(cu.cuStreamDestroy(a))


def test_stream_ordered_memory(context):
    a = stream()
    first = ok(cu.cuMemAllocAsync(1 << 20, a))
    ok(cu.cuMemFreeAsync(first, a))
    again = ok(cu.cuMemAllocAsync(1 << 20, a))
    assert int(again) == int(first)
    ok(cu.cuMemFreeAsync(again, a))
    ok(cu.cuStreamSynchronize(a))


def test_errors_have_names():
    assert ok(cu.cuGetErrorName(cu.CUresult.CUDA_ERROR_INVALID_VALUE)) == b"CUDA_ERROR_INVALID_VALUE"
    code, _ = cu.cuMemAlloc(0)
    assert code != cu.CUresult.CUDA_SUCCESS
