"""Every header and every .cu file under nvcc, for the oldest and the newest architecture that it
supports, as C++17 and C++20, with warnings as errors. Nothing is run: a kernel needs a GPU."""

import pathlib
import re
import sys
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))
from commands import INCLUDES as OURS, SIM  # noqa: E402

SITE = pathlib.Path(sysconfig.get_path("purelib"))
CUDA = SITE / "nvidia/cu13"
NVCC = CUDA / "bin/nvcc"
INCLUDES = [
    *OURS, "-I", SIM / "include",
    "-isystem", CUDA / "include", "-isystem", CUDA / "include/cccl",
    "-isystem", sysconfig.get_path("include"),
    "-isystem", SITE / "pybind11/include", "-isystem", SITE / "nanobind/include",
]  # fmt: skip
STRICT = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wshadow,-Wconversion,-Werror"]

# These need the headers of a framework, and are compiled beside it.
FRAMEWORKS = ("mpi.h", "mpi_check.h", "mpi_types.h", "torch.h", "tvm_ffi.h", "xla_ffi.h")
FOLDERS = (ROOT / "include/cai", ROOT / "contrib/include/cai")
HEADERS = sorted(str(path.relative_to(folder)) for folder in FOLDERS for path in folder.rglob("*.h*"))
HEADERS = [name for name in HEADERS if name not in FRAMEWORKS]
KERNELS = sorted([*(ROOT / "examples-c").glob("*.cu"), *(ROOT / "interop/nvcc").glob("*.cu"), *(ROOT / "contrib/tests").rglob("*.cu")])
PYTHON = ("arguments.hpp", "nanobind.hpp", "pybind11.hpp")


def nvcc(*arguments):
    return subprocess.run([str(a) for a in (NVCC, *arguments)], capture_output=True, text=True)


@pytest.fixture(scope="session")
def architectures():
    """Options that compile for the oldest and for the newest, at once."""
    found = re.findall(r"compute_(\d+)$", nvcc("--list-gpu-arch").stdout, re.MULTILINE)
    numbers = sorted(int(number) for number in found)
    assert len(numbers) > 5
    return [
        "--threads=2",
        *(f"-gencode=arch=compute_{n},code=sm_{n}" for n in (numbers[0], numbers[-1])),
    ]


standards = pytest.mark.parametrize("standard", ["c++17", "c++20"])


@standards
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.name)
def test_kernels(tmp_path, architectures, kernel, standard):
    output = tmp_path / "kernel.o"
    done = nvcc(*architectures, f"-std={standard}", *STRICT, *INCLUDES, "-c", kernel, "-o", output)
    assert done.returncode == 0, done.stdout + done.stderr
    sections = subprocess.run(["readelf", "-SW", output], capture_output=True, text=True).stdout
    assert ".nv_fatbin" in sections


@standards
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_alone_and_twice(tmp_path, architectures, header, standard):
    if header in PYTHON and not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("Python's headers are not installed")
    source = tmp_path / "alone.cu"
    source.write_text(f"#include <cai/{header}>\n" * 2 + "__global__ void nothing() {}\n")
    done = nvcc(
        *architectures,
        f"-std={standard}",
        *STRICT,
        *INCLUDES,
        "-c",
        source,
        "-o",
        tmp_path / "alone.o",
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("access", ["x(0) = 1", "y[0] = 2"])
def test_elements_of_device_memory_are_accessible_in_device_code_only(tmp_path, access):
    source = tmp_path / "access.cu"
    for function, compiles in (("__global__ void f", True), ("void f", False)):
        source.write_text(
            "#include <cai/cai.hpp>\n"
            f"{function}(cai::view<float, 1> x, cai::contiguous_view<float> y)\n"
            f"{{ (void)x; (void)y; {access}; }}\n"
        )
        done = nvcc("-std=c++17", *INCLUDES, "-c", source, "-o", tmp_path / "access.o")
        assert (done.returncode == 0) == compiles, done.stderr
        assert compiles or "error: calling a __device__ function" in done.stderr


PROGRAM = r"""
#include <cstdio>

__global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
template <class T> __global__ void fill(T *out, T value, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}
struct pair { const float *from; float *to; };
namespace { __global__ void move(pair all) { all.to[threadIdx.x] = all.from[threadIdx.x]; } }
extern "C" __global__ void twice(double *data, int n) { if (threadIdx.x < n) data[threadIdx.x] *= 2; }

int main() {
    float *x, *y;
    cudaStream_t first, second;
    cudaMalloc(&x, 4000);
    cudaMalloc(&y, 4000);
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    fill<<<4, 256, 0, first>>>(x, 1.0f, 1000);
    saxpy<<<4, 256, 0, second>>>(2, x, y, 1000);
    move<<<1, 32, 0, second>>>({x, y});
    twice<<<1, 32, 0, second>>>((double *)y, 32);
    std::puts(cudaGetErrorString(cudaDeviceSynchronize()));
}
"""


@pytest.mark.parametrize("compression", ["none", "size"])
def test_kernels_of_a_program(tmp_path, compression):
    """`cuda-sim kernels` reads what nvcc writes, also without a symbol table, and the program runs unchanged."""
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "libcudart.so").symlink_to(CUDA / "lib/libcudart.so.13")
    flags = [f"-Xfatbin=-compress-mode={compression}", "-cudart=shared", f"-L{tmp_path}"]
    done = nvcc(*flags, tmp_path / "program.cu", "-o", tmp_path / "program")
    assert done.returncode == 0, done.stderr

    def sim(*words):
        return subprocess.run([SIM / "bin/cuda-sim", *words], cwd=tmp_path, capture_output=True, text=True)

    others = (
        "# (anonymous namespace)::move(pair)\nmove(byte[16])\nfill(float*, float, unsigned long)\n"
        "saxpy(float, const float*, float*, int)\n"
    )
    listed = sim("kernels", "program").stdout
    assert listed == others + "twice(double*, int)\n"
    (tmp_path / "kernels.txt").write_text(listed)
    done = sim("run", "--runtime", "--kernels=kernels.txt", "./program")
    assert done.returncode == 66 and done.stdout == "no error\n", done.stderr
    assert "write by _Z4fillIfEvPT_S0_m" in done.stderr and "1 race found" in done.stderr
    subprocess.run(["strip", tmp_path / "program"], check=True)
    assert sim("kernels", "program").stdout == others + "twice(void*, unsigned)\n"
