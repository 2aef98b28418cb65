"""CuPy: what works of it without kernels, its kinds of memory, and its own tests of arrays, memory and streams.

Its sources, which `make interop` puts beside the environment, have the tests. Those that need a compiler for kernels
or one of NVIDIA's mathematical libraries fail because that library is not there; each other failure is listed."""

import collections
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import cupy
import numpy as np
import pytest
from cai_python import take

import cai_python as P

SOURCES = pathlib.Path(sys.prefix) / "cupy-14.2.0/tests"
FILES = [
    *("core_tests/test_dlpack.py", "core_tests/test_ndarray_cuda_array_interface.py"),
    *("core_tests/test_ndarray_owndata.py", "cuda_tests/memory_hooks_tests", "cuda_tests/test_device.py"),
    *("cuda_tests/test_driver.py", "cuda_tests/test_graph.py", "cuda_tests/test_memory.py"),
    *("cuda_tests/test_memory_hook.py", "cuda_tests/test_pinned_memory.py", "cuda_tests/test_runtime.py"),
    "cuda_tests/test_stream.py",
]
# No kernels are compiled here, and the libraries, some of half a gigabyte, are not installed.
LIBRARIES = {"nvrtc", "nvJitLink", "curand", "cublasLt"}
# Tests that fail for another reason.
KEPT = "its pool keeps freed memory; the simulated one, whose release threshold is 0, does not"
FAILING = {
    "test_free_all_blocks_large_chunk": KEPT,
    "test_free_bytes2": KEPT,
    "test_total_bytes2": KEPT,
    "test_total_bytes_stream": KEPT,
    "test_managed_memory_prefetch_basic": "a device that does not exist is accepted",
    "test_stream_thread": "compiles a kernel in a thread and reports only that it failed",
}


def test_runtime_library():
    """The functions of its copy of the runtime library are the replacement's."""
    assert cupy.cuda.runtime.runtimeGetVersion() // 1000 == 13
    assert cupy.cuda.runtime.getDeviceCount() >= 1
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice"):
        cupy.cuda.Device(99).use()


def test_copies_and_events():
    host = np.arange(1000.0)
    stream, before, after = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), cupy.cuda.Event()
    with stream:
        before.record()
        array = cupy.asarray(host)
        after.record()
        assert (cupy.asnumpy(array, stream=stream) == host).all()
    after.synchronize()
    assert after.done and cupy.cuda.get_elapsed_time(before, after) >= 0
    stream.synchronize()


def test_capture():
    stream = cupy.cuda.Stream(non_blocking=True)
    source, target = cupy.asarray(np.arange(10.0)), cupy.empty(10)
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        stream.begin_capture()
        kind = cupy.cuda.runtime.memcpyDeviceToDevice
        cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, kind, stream.ptr)
        graph = stream.end_capture()
        graph.launch()
        assert (target.get() == np.arange(10.0)).all()
    stream.synchronize()


def test_kinds_of_memory():
    managed = cupy.ndarray(3, "f4", cupy.cuda.malloc_managed(12))
    with take(managed, device=True, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
        assert taken.device[0] == P.CUDA_MANAGED
    pool = cupy.cuda.MemoryAsyncPool()
    ordered = cupy.ndarray(3, "f4", pool.malloc(12))
    with take(ordered, device=True) as taken:
        assert taken.device == (P.CUDA, 0)
    del ordered
    cupy.cuda.runtime.deviceSynchronize()


@pytest.mark.skipif(not SOURCES.exists(), reason="CuPy's sources are not there")
def test_its_own_tests(tmp_path):
    report = tmp_path / "report.xml"
    # In four places memory is freed while its last use is not ordered before: races, which are reported only.
    environment = {**os.environ, "CUDASIM_DEVICES": "2", "CUDASIM_RACES": "warn", "CUDASIM_PRINT": "exit"}
    # CuPy would take the empty libraries that PyTorch is given for real ones.
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    environment["LD_LIBRARY_PATH"] = ":".join(name for name in folders if pathlib.Path(name).name != "stubs")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
    files = [f"cupy_tests/{name}" for name in FILES]
    done = subprocess.run(
        [*command, f"--junitxml={report}", *files], cwd=SOURCES, env=environment, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    counts, wrong = collections.Counter(), []
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        failures = [part.text or "" for part in case if part.tag in ("failure", "error")]
        if not failures:
            counts["skipped" if case.find("skipped") is not None else "passed"] += 1
            continue
        library = re.search(r'Failure finding "lib(\w+)\.so', failures[0])
        if library and library.group(1) in LIBRARIES:
            counts[library.group(1)] += 1
        elif case.get("name") in FAILING:
            counts["listed"] += 1
        else:
            wrong.append(f"{case.get('classname')}.{case.get('name')}: {failures[0][-500:]}")
    assert not wrong, "\n".join(wrong)
    assert counts["passed"] >= 195, counts
