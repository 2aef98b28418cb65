"""cai/nccl.h with the real nccl.h, on functions in place of NCCL's that record their arguments: NCCL itself needs a
GPU. The simulated driver checks the order."""

import pathlib
import subprocess
import sysconfig

import commands
import pytest
from commands import CUDA_SIM, ROOT

HERE = pathlib.Path(__file__).resolve().parent
SITE = pathlib.Path(sysconfig.get_path("purelib"))
FOLDERS = (SITE / "nvidia/nccl/include", SITE / "nvidia/cu13/include", SITE / "nvidia/cu13/include/cccl")
INCLUDES = [*commands.INCLUDES, *(f"-isystem{folder}" for folder in FOLDERS)]
STRICT = """-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Wformat=2
    -Wnull-dereference -Werror""".split()


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
        + "int main(int n, char **w) { return n > 9 ? add_up(NULL, w == NULL, NULL) : 0; }\n"
    )
    run("g++" if cpp else "gcc", f"-std={standard}", *STRICT, "-O2", *INCLUDES, "-c", source, "-o", tmp_path / "it.o")


@pytest.mark.parametrize("compiler", ["gcc -std=gnu11", "g++ -std=c++17 -x c++ -fpermissive"])
@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads"])
def test_in_stream_order(tmp_path, compiler, schedule):
    (tmp_path / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    driver = run(CUDA_SIM, "libdir").strip()
    run(
        *compiler.split(), "-g", "-Wall", "-Wextra", *INCLUDES, HERE / "nccl_recording.c", "-o",
        tmp_path / "it", "-x", "none", ROOT / "target/release/libcai.so", f"{driver}/libcuda.so.1",
        *(f"-Wl,-rpath,{path}" for path in (tmp_path, driver)),
    )  # fmt: skip
    command = [CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", "--", tmp_path / "it"]
    assert run(*command) == "passed\n"


def run_the_program_of_the_page(tmp_path, devices=1, change=lambda text: text):
    page = (ROOT / "contrib/docs/nccl.md").read_text()
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(change(page[page.index("```c\n") + 5 : page.index("\n```\n") + 1]))
    driver = run(CUDA_SIM, "libdir").strip()
    (tmp_path / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    run(
        "gcc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", *INCLUDES, source, HERE / "nccl_sums.c",
        "-o", program, ROOT / "target/release/libcai.so", SITE / "nvidia/cu13/lib/libcudart.so.13",
        *(f"-Wl,-rpath,{path}" for path in (tmp_path, driver)),
    )  # fmt: skip
    simulated = [CUDA_SIM, "run", "--print=exit", "--runtime=13", f"--devices={devices}", "--"]
    return subprocess.run([str(c) for c in (*simulated, program)], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("devices", [1, 2])
def test_the_program_of_the_page(tmp_path, devices):
    page = (ROOT / "contrib/docs/nccl.md").read_text()
    printed = page[page.index("```text\n") + 8 :].partition("```")[0] if devices == 1 else f"{devices}\n"
    done = run_the_program_of_the_page(tmp_path, devices)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


BEGIN = "cai_nccl_begin(&array[d], CAI_NCCL_SUM, cai_inline_stream(reducer[d]),\n" + " " * 29 + "access,"
END = "CHECK(cai_array_consume_end("


@pytest.mark.parametrize(
    "call, instead",
    [(BEGIN, "cai_nccl_elements(&array[d], CAI_NCCL_SUM,"), (END, "(void)(1 || cai_array_consume_end(")],
    ids=["begin", "end"],
)
def test_the_program_of_the_page_needs_both_calls(tmp_path, call, instead):
    """Without one of them, the simulated driver reports a race."""

    def change(text):
        assert text.count(call) == 1
        return text.replace(call, instead)

    assert run_the_program_of_the_page(tmp_path, change=change).returncode == 66
