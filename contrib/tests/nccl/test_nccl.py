"""cai/nccl.h with the real nccl.h, and a replacement for NCCL itself, which needs a GPU for each rank. The simulated driver
checks the order."""

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


@pytest.fixture(scope="module")
def replacement(tmp_path_factory):
    made = tmp_path_factory.mktemp("nccl") / "nccl.o"
    return compile(HERE / "nccl_sockets.c", made, "-c", "-g", "-Wall", "-Wextra", "-Werror", *HEADERS, cuda=True)


@pytest.mark.parametrize("compiler, flags", [("gcc", []), ("g++", ["-fpermissive"])], ids=["C", "C++"])
@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads"])
def test_calls(replacement, tmp_path, compiler, flags, schedule):
    flags = [*flags, "-g", "-Wall", "-Wextra", *HEADERS, replacement]
    program = compile(HERE / "nccl_calls.c", tmp_path / "it", *flags, cuda=True, compiler=compiler)
    assert simulated(program, schedule=schedule).stdout == "passed\n"


def run_the_example(replacement, folder, schedule="lazy", without=None):
    text = (ROOT / "contrib/examples/nccl_sum.c").read_text()
    include = "#include <cai/nccl.h>\n"
    assert text.count(include) == 1
    if without is not None:
        text = text.replace(include, f"#include <cai/sync.h>\n#define {without}(...) CAI_OK\n{include}")
    (folder / "program.c").write_text(text)
    flags = ["-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", *HEADERS, replacement]
    libraries = [SITE / "nvidia/cu13/lib/libcudart.so.13", f"-Wl,-rpath,{libdir()}"]
    program = compile(folder / "program.c", folder / "program", *flags, *libraries, cuda=True)
    options = ["--print=exit", "--runtime=13", "--devices=2", f"--schedule={schedule}"]
    return run(CUDA_SIM, "run", *options, "--", program, check=False, timeout=60)


@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads"])
def test_example(replacement, tmp_path, schedule):
    """Two processes, and data from one to the other."""
    done = run_the_example(replacement, tmp_path, schedule)
    assert (done.returncode, done.stdout) == (0, "2 4 6\n"), done.stderr


@pytest.mark.parametrize("call", ["cai_array_consume_begin", "cai_array_consume_end"])
def test_the_example_needs_both_calls(replacement, tmp_path, call):
    """Without one of them, the simulated driver reports a race."""
    assert run_the_example(replacement, tmp_path, without=call).returncode == 66
