"""Kernels that a text file declares: `cuda-sim kernels` writes it, `--kernels` reads it."""

import pytest

from commands import COMMAND, SIM, compile_text, run, sim

# The program launches one kernel on two halves of its arrays, on two streams.
PROGRAM = r"""
#define PARAM "\n.param .u64 .ptr .align 1 "
static const char image[] = ".visible .entry _ZN2ns5scaleEfPKfPfii(\n.param .f32 a," PARAM "x," PARAM "y,"
                            "\n.param .u32 first,\n.param .u32 n\n)\n{ ret; }"
                            ".visible .entry plain(" PARAM "x,\n.param .align 8 .b8 s[24]\n)\n{ ret; }";

int main(void) {
    CUcontext context; CUmodule module; CUfunction scale; CUdeviceptr x, y; CUstream streams[2];
    float a = 2, result[100];
    int n = 50;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuModuleLoadData(&module, image);
    if (cuModuleGetFunction(&scale, module, "_ZN2ns5scaleEfPKfPfii")) return 3;
    cuMemAlloc(&x, 400);
    cuMemAlloc(&y, 400);
    cuMemsetD32(x, 0, 100);
    cuMemsetD32(y, 0x3f800000, 100);
    cuCtxSynchronize();
    for (int i = 0; i < 2; ++i) {
        int first = 50 * i;
        void *args[] = {&a, &x, &y, &first, &n};
        cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
        cuLaunchKernel(scale, 2, 1, 1, 25, 1, 1, 0, streams[i], args, NULL);
    }
    cuCtxSynchronize();
    cuMemcpyDtoH(result, y, 400);
    printf("%g %g\n", result[0], result[99]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    return compile_text(driver, folder / "program", PROGRAM)


def test_the_list_is_a_file_as_it_is(program, tmp_path):
    listed = run(COMMAND, "kernels", program).stdout
    assert listed == "ns::scale(float, const float*, float*, int, int)\nplain(void*, byte[24])\n"
    (tmp_path / "kernels.txt").write_text(listed)
    # Whole allocations: each launch writes all of y.
    done = sim("--kernels=kernels.txt", program, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (66, "-nan -nan\n")
    assert "write by _ZN2ns5scaleEfPKfPfii" in done.stderr and "race on 400 bytes" in done.stderr
    # From the environment, as in a program that another one starts.
    done = run(program, env={"CUDASIM_KERNELS": str(tmp_path / "kernels.txt"), "LD_LIBRARY_PATH": run(COMMAND, "libdir").stdout.strip()})
    assert "1 race found" in done.stderr
    assert sim(program, check=False).returncode == 3
    assert run(COMMAND, "kernels", SIM / "README.md").stdout == "# no kernel was found\n"


ORDERED, RACE = 0, 66


@pytest.mark.parametrize(
    "line, status, printed",
    [
        ("ns::scale(float, const float* x[first : n], float* y[first : n], int first, int n)", ORDERED, "-nan -nan"),
        ("_ZN2ns5scaleEfPKfPfii(float, float const*, float* y[first:blocks*threads] = 0, int first, int)", ORDERED, "0 0"),
        ("__global__ void ns::scale(float a, const float *x, float *y = same, int first, int n);", RACE, "1 1"),
        ("ns::scale(float, const float*, float* y[first + 1] = 0, int first, int n)  # [0, 51)", RACE, "0 1"),
        ("ns::scale(float, const float*, const float*, int, int)", ORDERED, "1 1"),
    ],
)
def test_accesses(program, tmp_path, line, status, printed):
    (tmp_path / "kernels.txt").write_text(f"# declared by hand\n\n{line}\n")
    done = sim(f"--kernels={tmp_path}/kernels.txt", program, check=False)
    assert (done.returncode, done.stdout.strip()) == (status, printed), done.stderr


def test_a_file_with_a_fault_starts_nothing(program, tmp_path):
    (tmp_path / "kernels.txt").write_text("ns::scale(float, P)\n")
    done = sim(f"--kernels={tmp_path}/kernels.txt", program, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert "kernels.txt:1: the size of P is not known: write byte[SIZE]" in done.stderr
    done = sim(f"--kernels={tmp_path}/none.txt", program, check=False)
    assert done.returncode == 2 and "none.txt: " in done.stderr
    done = run(COMMAND, "kernels", check=False)
    assert done.returncode == 2 and "expected a program or a library" in done.stderr
