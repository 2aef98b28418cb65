"""The example for Cython: built, and run on the simulated driver with the race checker."""

import os

import pytest

from test_stream_export import python
from commands import CUDA, PYTHON, ROOT, SIM, cython_module

RUNTIME = SIM / "lib/cuda-sim/runtime"
EXAMPLE = ROOT / "examples-py/cython/clear.pyx"

needs_headers = pytest.mark.skipif(not (PYTHON / "Python.h").exists(), reason="Python's headers are not installed")


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cython")
    cython_module(EXAMPLE, folder, "-isystem", CUDA, RUNTIME / "libcudart.so.13", f"-Wl,-rpath,{RUNTIME}")
    return folder


@needs_headers
@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_the_example(built, clear, schedule):  # noqa: F811
    python(built, """
        from clear import clear

        class Stream:
            def __init__(self, handle):
                self.handle = handle
            def __cuda_stream__(self):
                return (0, self.handle)

        theirs, mine, data = stream(), stream(), buffer()
        array = produced(data, theirs)
        obj = give(array)
        for on in (mine, Stream(mine), None, 2, Stream(0)):
            fill(data, 1, theirs)
            clear(obj, on)
            assert bytes_of(data, theirs) == {0}
        for wrong, what, on in ((ValueError, obj, 0), (TypeError, obj, "1"), (TypeError, object(), mine)):
            try:
                clear(what, on)
            except wrong as why:
                assert str(why)
            else:
                raise AssertionError(wrong)
        readonly = give(make((SIZE,), "|u1", data, readonly=True, stream=theirs))
        try:
            clear(readonly, mine)
        except BufferError as why:
            assert "read-only" in str(why)
        assert array.counted.gone == 0
        array.release()
        del obj
        gc.collect()
        assert P.soon(lambda: array.counted.gone == 1)  # the library's thread releases after the work
        """, schedule, PYTHONPATH=f"{clear}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
