"""cai/nccl.h with the real nccl.h, on functions in place of NCCL's that record their arguments: NCCL itself needs a
GPU. The simulated driver checks the order."""

import pathlib
import sysconfig

import pytest
from commands import CUDA_SIM, ROOT, compile, libdir, run, simulated

HERE = pathlib.Path(__file__).resolve().parent
SITE = pathlib.Path(sysconfig.get_path("purelib"))
FOLDERS = (SITE / "nvidia/nccl/include", SITE / "nvidia/cu13/include", SITE / "nvidia/cu13/include/cccl")
HEADERS = ["-I", ROOT / "capi-tests", *(f"-isystem{folder}" for folder in FOLDERS)]
STRICT = """-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Wformat=2
    -Wnull-dereference -Werror""".split()
RING = "const cai_array *a, ncclComm_t c, cai_stream s"
EXAMPLE = ROOT / "contrib/examples/nccl_sum.c"


@pytest.mark.parametrize("nccl", [True, False], ids=["nccl.h", "codes"])
@pytest.mark.parametrize("standard", ["c99", "c11", "c2x", "c++11", "c++17", "c++23"])
def test_strict_warnings(standard, nccl, tmp_path):
    """With NCCL's header, whose C++ needs 17 or so, and without it; with the program of the first comment."""
    cpp = "++" in standard
    text = (ROOT / "contrib/include/cai/nccl.h").read_text()
    shown = text[text.index(" *     #include") : text.index(" * Order:")]
    program = "".join(line[7:] + "\n" if line[:7] == " *     " else "\n" for line in shown.splitlines())
    source = tmp_path / f"program.{'cpp' if cpp else 'c'}"
    source.write_text(
        ("#include <nccl.h>\n" if nccl else "")
        + program
        + "int use(const cai_array *a, cai_stream s, int *n);\n"
        + "int use(const cai_array *a, cai_stream s, int *n) { return add_up(a, s, NULL) + can_move(a, n); }\n"
        + (f"cai_status ring({RING});\ncai_status ring({RING}) {{ return step(a, a, 0, 2, c, s, NULL); }}\n" if nccl else "")
    )
    compile(source, tmp_path / "it.o", f"-std={standard}", *STRICT, "-O2", *HEADERS, "-c")


@pytest.mark.parametrize("compiler, flags", [("gcc", []), ("g++", ["-fpermissive"])], ids=["C", "C++"])
@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads"])
def test_in_stream_order(tmp_path, compiler, flags, schedule):
    flags = [*flags, "-g", "-Wall", "-Wextra", *HEADERS]
    program = compile(HERE / "nccl_recording.c", tmp_path / "it", *flags, cuda=True, compiler=compiler)
    assert simulated(program, schedule=schedule).stdout == "passed\n"


def run_the_example(tmp_path, devices=1, change=lambda text: text):
    source = tmp_path / "program.c"
    source.write_text(change(EXAMPLE.read_text()))
    program = compile(
        source, tmp_path / "program", "-g", "-Wall", "-Wextra", "-Werror", *HEADERS, HERE / "nccl_sums.c",
        SITE / "nvidia/cu13/lib/libcudart.so.13", f"-Wl,-rpath,{libdir()}",
    )  # fmt: skip
    return run(CUDA_SIM, "run", "--print=exit", "--runtime=13", f"--devices={devices}", "--", program, check=False)


@pytest.mark.parametrize("devices", [1, 2])
def test_example(tmp_path, devices):
    done = run_the_example(tmp_path, devices)
    assert (done.returncode, done.stdout) == (0, f"{devices}\n"), done.stderr


BEGIN = "cai_nccl_begin(&array[d], CAI_NCCL_SUM, cai_inline_stream(reducer[d]), access,"
END = "CHECK(cai_array_consume_end("


@pytest.mark.parametrize(
    "call, instead",
    [(BEGIN, "cai_nccl_elements(&array[d], CAI_NCCL_SUM,"), (END, "(void)(1 || cai_array_consume_end(")],
    ids=["begin", "end"],
)
def test_the_example_needs_both_calls(tmp_path, call, instead):
    """Without one of them, the simulated driver reports a race."""

    def change(text):
        assert text.count(call) == 1
        return text.replace(call, instead)

    assert run_the_example(tmp_path, change=change).returncode == 66
