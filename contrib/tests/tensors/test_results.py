"""`cai::empty_like` in functions bound with pybind11 and nanobind: results of the library of the argument, in the order of
its stream, in memory of its pool."""

import gc
import importlib.util
import weakref

import cupy
import numpy as np
import pytest
import torch
from commands import PYTHON, ROOT, SITE, compile

FLAGS = ["-shared", "-O1", "-fvisibility=hidden", "-Wall", "-Wextra", "-isystem", PYTHON]
NANOBIND = SITE / "nanobind"


@pytest.fixture(scope="module", params=["pybind11", "nanobind"])
def m(request, tmp_path_factory):
    name, flags = f"results_{request.param}", [*FLAGS, "-isystem", SITE / request.param / "include"]
    if request.param == "nanobind":
        flags += ["-DUSE_NANOBIND", "-isystem", NANOBIND / "ext/robin_map/include", "-fno-strict-aliasing"]
        flags += ["-x", "c++", NANOBIND / "src/nb_combined.cpp", "-x", "none"]
    source = ROOT / "contrib/tests/tensors/results.cpp"
    built = compile(source, tmp_path_factory.mktemp(name) / f"{name}.so", *flags, cuda=True)
    spec = importlib.util.spec_from_file_location(name, built)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CuPy:
    array = cupy.ndarray

    @staticmethod
    def stream():
        return cupy.cuda.Stream(non_blocking=True)

    @staticmethod
    def made(values):
        return cupy.asarray(values)

    @staticmethod
    def address(array):
        return array.data.ptr

    host = staticmethod(cupy.asnumpy)


class PyTorch:
    array = torch.Tensor
    stream = torch.cuda.Stream

    @staticmethod
    def made(values):
        # The copy from pageable memory is done when it returns.
        return torch.from_numpy(values).to("cuda")

    @staticmethod
    def address(array):
        return array.data_ptr()

    @staticmethod
    def host(array):
        return array.cpu().numpy()


VALUES = np.arange(5, dtype="f4")


@pytest.mark.parametrize("function", ["copy_like", "any_like"])
@pytest.mark.parametrize("library", [CuPy, PyTorch])
def test_results_on_a_device(m, library, function):
    """The argument is written on the library's stream, copied on another one, and read on the library's."""
    given, stream = library.made(VALUES), library.stream()
    address = None
    for _ in range(3):
        made = getattr(m, function)(given, stream)
        assert type(made) is library.array and tuple(made.shape) == (5,) and made.device == given.device
        assert library.address(made) != library.address(given)
        # The memory of the one before, which its pool gives away.
        assert address in (None, library.address(made))
        address = library.address(made)
        assert np.array_equal(library.host(made), VALUES)
        del made
    getattr(m, function)(given, stream)  # dropped at once
    del given
    gc.collect()


@pytest.mark.parametrize("library", [CuPy, PyTorch])
def test_a_result_that_fails(m, library):
    given, stream = library.made(VALUES), library.stream()
    with pytest.raises(RuntimeError, match="own"):
        m.fail_like(given, stream)
    made = m.copy_like(given, stream)
    gone = weakref.ref(made)
    del made
    assert gone() is None


def test_results_in_host_memory(m):
    """One function takes both kinds of memory."""
    made = m.any_like(VALUES, 1)
    assert type(made) is np.ndarray and made is not VALUES and np.array_equal(made, VALUES)
    made = m.any_like(torch.from_numpy(VALUES), 1)
    assert type(made) is torch.Tensor and made.device.type == "cpu" and np.array_equal(made.numpy(), VALUES)
    with pytest.raises((BufferError, TypeError), match="host memory|incompatible"):
        m.copy_like(VALUES, 1)
