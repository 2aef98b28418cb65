"""Every header and every .cu file under nvcc, for the oldest and the newest architecture that it supports, as C++17 and
C++20, with warnings as errors. Nothing is run: a kernel needs a GPU."""

import pathlib
import re
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = pathlib.Path(sysconfig.get_path("purelib"))
CUDA = SITE / "nvidia/cu13"
NVCC = CUDA / "bin/nvcc"
INCLUDES = [
    "-I", ROOT / "include", "-I", ROOT / "cuda-sim/include",
    "-isystem", CUDA / "include", "-isystem", CUDA / "include/cccl", "-isystem", sysconfig.get_path("include"),
    "-isystem", SITE / "pybind11/include", "-isystem", SITE / "nanobind/include",
]  # fmt: skip
STRICT = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wshadow,-Wconversion,-Werror"]

HEADERS = sorted(path.name for path in (ROOT / "include/cai").glob("*.h*"))
KERNELS = sorted([*(ROOT / "examples-c").glob("*.cu"), *(ROOT / "interop/nvcc").glob("*.cu")])
PYTHON = ("arguments.hpp", "nanobind.hpp", "pybind11.hpp")


def nvcc(*arguments):
    return subprocess.run([str(a) for a in (NVCC, *arguments)], capture_output=True, text=True)


@pytest.fixture(scope="session")
def architectures():
    found = re.findall(r"compute_(\d+)$", nvcc("--list-gpu-arch").stdout, re.MULTILINE)
    numbers = sorted(int(number) for number in found)
    assert len(numbers) > 5
    return {"oldest": f"sm_{numbers[0]}", "newest": f"sm_{numbers[-1]}"}


standards = pytest.mark.parametrize("standard", ["c++17", "c++20"])
ages = pytest.mark.parametrize("age", ["oldest", "newest"])


@standards
@ages
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.name)
def test_kernels(tmp_path, architectures, kernel, age, standard):
    done = nvcc(f"-arch={architectures[age]}", f"-std={standard}", *STRICT, *INCLUDES, "-c", kernel, "-o",
                tmp_path / "kernel.o")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    sections = subprocess.run(["readelf", "-SW", tmp_path / "kernel.o"], capture_output=True, text=True).stdout
    assert ".nv_fatbin" in sections


@standards
@ages
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_alone_and_twice(tmp_path, architectures, header, age, standard):
    if header in PYTHON and not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("Python's headers are not installed")
    source = tmp_path / "alone.cu"
    source.write_text(f"#include <cai/{header}>\n#include <cai/{header}>\n__global__ void nothing() {{}}\n")
    done = nvcc(f"-arch={architectures[age]}", f"-std={standard}", *STRICT, *INCLUDES, "-c", source, "-o",
                tmp_path / "alone.o")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("where", ["device", "host"])
def test_elements_of_device_memory_are_accessible_in_device_code_only(tmp_path, where):
    source = tmp_path / "access.cu"
    access = "cai::view<float, 1> x, cai::contiguous_view<float> y) { x(0) = 1; y[0] = 2; }\n"
    function = {"device": "__global__ void f(", "host": "void f("}[where]
    source.write_text(f"#include <cai/cai.hpp>\n{function}{access}")
    done = nvcc("-std=c++17", *INCLUDES, "-c", source, "-o", tmp_path / "access.o")
    assert (done.returncode == 0) == (where == "device"), done.stderr
    if where == "host":
        assert len(re.findall(r"error: calling a __device__ function", done.stderr)) == 2
