"""Modules that carry a runtime library inside, under `cuda-sim run`: their functions become the replacement's."""

import pathlib
import re
import struct
import sys
import sysconfig

import pytest

from commands import COMMAND, SIM, run

SOURCES = SIM / "redirect/tests"
NVIDIA = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
RUNTIME = {"12": NVIDIA / "cuda_runtime", "13": NVIDIA / "cu13"}
ALL = "start 1 main 1 library 1 plugins 1 threads 1"
NONE = "start 0 main 0 library 0 plugins 0 threads 0"


def explain(*command, **more):
    return run(COMMAND, "run", "--print=exit", "--explain", "--", *command, **more)


def build(target, source, major="13", flags=(), libraries=()):
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *flags]
    include = ["-isystem", RUNTIME[major] / "include", "-isystem", RUNTIME["13"] / "include"]  # crt/ is in one
    run("gcc", *flags, *include, source, "-o", target, *libraries, "-lpthread", "-ldl", "-Wl,-rpath,$ORIGIN")
    return target


def plugin(folder, name, major="13", flags=()):
    return build(folder / name, SOURCES / "plugin.c", major, ["-shared", "-fPIC", *flags])


@pytest.fixture(scope="module", params=["12", "13"])
def program(request, tmp_path_factory):
    """A program, a library that it is linked to, and two plug-ins of different major versions."""
    folder = tmp_path_factory.mktemp("inside")
    library = plugin(folder, "liblinked.so", request.param)
    made = build(folder / "program", SOURCES / "program.c", request.param, libraries=[library])
    return [made, plugin(folder, "first.so", "12"), plugin(folder, "second.so", "13")]


def test_every_module(program):
    """The program, its library, whose initializer runs first, and plug-ins, which use it while they are loaded."""
    done = explain(*program)
    assert done.stdout.strip() == ALL, done.stderr
    lines = [line for line in done.stderr.splitlines() if "carries the runtime library of CUDA" in line]
    for path in [program[0], program[0].parent / "liblinked.so", *program[1:]]:
        assert any(f"cuda-sim: {path} carries" in line for line in lines), done.stderr
    assert all("8 functions redirected; missing in the replacement: cudaOfTheProgram" in line for line in lines)


def test_without_the_command(program):
    """The program really has functions of its own."""
    assert run(*program).stdout.strip() == NONE


@pytest.mark.parametrize("flags", [["-no-pie"], ["-pie", "-Wl,-z,now"], ["-fcf-protection=none"]], ids=str)
def test_kinds_of_programs(tmp_path, flags):
    library = plugin(tmp_path, "liblinked.so")
    made = build(tmp_path / "program", SOURCES / "program.c", flags=flags, libraries=[library])
    assert explain(made, library).stdout.strip() == ALL


def test_no_message_without_explain(program):
    done = run(COMMAND, "run", "--", *program)
    assert done.stdout.strip() == ALL and done.stderr == ""


def test_stripped(program, tmp_path):
    """A stripped module cannot be served, and the message says what to do."""
    library = plugin(tmp_path, "liblinked.so")
    made = build(tmp_path / "program", SOURCES / "program.c", libraries=[library])
    run("strip", library)
    done = explain(made, program[1])
    assert done.stdout.strip() == "start 1 main 1 library 0 plugins 1 threads 1"
    line = next(line for line in done.stderr.splitlines() if f"{library} " in line)
    assert "without a symbol table" in line and "do not run strip" in line


@pytest.mark.parametrize("flag, reason", [("-DOLD", "its version is older than 12"), ("-DUNKNOWN", "its version is unknown")])
def test_versions(tmp_path, flag, reason):
    library = plugin(tmp_path, "liblinked.so", flags=[flag])
    done = explain(build(tmp_path / "program", SOURCES / "program.c", libraries=[library]))
    assert done.stdout.split()[5] == "0"
    assert f"{library} carries a runtime library that cannot be redirected: {reason}" in done.stderr


def test_functions_that_load_a_library_stay(tmp_path):
    """Some modules have a function for each of the runtime's that loads the library and calls it."""
    library = plugin(tmp_path, "liblinked.so", flags=["-DLOADS"])
    done = explain(build(tmp_path / "program", SOURCES / "program.c", libraries=[library]))
    assert done.stdout.split()[5] == "0" and f"{library} loads a runtime library by itself" in done.stderr


def test_exported_functions_stay(tmp_path):
    """A library that exports the functions is a runtime library itself: the dynamic linker decides who uses it."""
    library = plugin(tmp_path, "liblinked.so", flags=["-Dvisibility(x)=used"])
    done = explain(build(tmp_path / "program", SOURCES / "program.c", libraries=[library]))
    assert done.stdout.split()[5] == "0" and f"{library} is " in done.stderr


def test_missing_functions_are_listed(program):
    done = run(COMMAND, "--missing", *program, check=False)
    assert f"cudaOfTheProgram (carried by {program[1]})" in done.stdout and done.returncode == 1


def test_dynamic_libraries_are_named(tmp_path):
    (tmp_path / "dynamic.c").write_text(
        "#include <cuda_runtime_api.h>\nint main(void) { int n; return cudaGetDeviceCount(&n); }\n"
    )
    made = build(tmp_path / "dynamic", tmp_path / "dynamic.c", libraries=[RUNTIME["13"] / "lib/libcudart.so.13"])
    done = explain(made, check=False, env={"LD_LIBRARY_PATH": str(RUNTIME["13"] / "lib")})
    assert f"{made} needs libcudart.so.13" in done.stderr and "use --runtime=13" in done.stderr
    done = run(COMMAND, "run", "--runtime", "--explain", "--", made)
    assert "is a replacement of libcudart.so.13" in done.stderr
    done = run(COMMAND, "--missing", "--runtime", "--", made)
    assert "the program ended with exit status: 0" in done.stdout


@pytest.mark.parametrize("major", ["12", "13"])
def test_nvidias_static_library(tmp_path, major):
    """A program that is linked to NVIDIA's own libcudart_static.a."""
    (tmp_path / "real.c").write_text(r"""
        #include <cuda_runtime_api.h>
        #include <stdio.h>
        int main(void) {
            int version = 0, from = 5, to = 0;
            int *memory = NULL;
            cudaStream_t stream;
            cudaError_t error = cudaRuntimeGetVersion(&version);
            if (!error) error = cudaStreamCreate(&stream);
            if (!error) error = cudaMallocAsync((void **)&memory, sizeof(int), stream);
            if (!error) error = cudaMemcpyAsync(memory, &from, sizeof(int), cudaMemcpyHostToDevice, stream);
            if (!error) error = cudaMemcpyAsync(&to, memory, sizeof(int), cudaMemcpyDeviceToHost, stream);
            if (!error) error = cudaStreamSynchronize(stream);
            printf("%d %d %d\n", error, version / 1000, to);
            return 0;
        }
    """)
    static = RUNTIME[major] / "lib/libcudart_static.a"
    done = explain(build(tmp_path / "real", tmp_path / "real.c", major, libraries=[static, "-lrt"]))
    assert done.stdout == f"0 {major} 5\n" and "functions redirected" in done.stderr, done.stderr
    assert "missing in the replacement" not in done.stderr
    # Without its symbols it cannot be redirected: the user learns why without an option.
    run("strip", tmp_path / "real")
    done = run(COMMAND, "run", "--", tmp_path / "real")
    assert "`cuda-sim run --explain` names the module" in done.stderr
    assert "without a symbol table" in explain(tmp_path / "real").stderr


def test_reports_name_the_runtime(tmp_path):
    """Its functions, wherever it was built and the program runs, and not the descriptor that it was loaded from."""
    (tmp_path / "module.c").write_text(r"""
        #include <cuda_runtime_api.h>
        static int *memory;
        static cudaStream_t streams[2];
        int start(void) {
            cudaStreamCreateWithFlags(&streams[0], cudaStreamNonBlocking);
            cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking);
            return cudaMalloc((void **)&memory, 64);
        }
        int fill(int stream) { return cudaMemsetAsync(memory, 7, 64, streams[stream]); }
    """)
    static = RUNTIME["13"] / "lib/libcudart_static.a"
    made = build(tmp_path / "module.so", tmp_path / "module.c", flags=["-shared", "-fPIC"], libraries=[static, "-lrt"])
    (tmp_path / "race.py").write_text(
        f"import ctypes\nmodule = ctypes.CDLL({str(made)!r})\n"
        "assert module.start() == 0\nassert module.fill(0) == 0\nassert module.fill(1) == 0\n"
    )
    for folder in (tmp_path, SIM):
        words = [COMMAND, "run", "--print=exit", "--", sys.executable, tmp_path / "race.py"]
        done = run(*words, check=False, cwd=folder)
        through = re.findall(r"through (.*)", done.stdout + done.stderr)
        assert done.returncode == 66 and len(through) == 2, done
        for line in through:
            assert line.split("; ")[-1] == "cudaMemsetAsync", line
            assert not re.search(r"(^|; )\d+(;|$)|memory\.c", line), line
        done = run(COMMAND, "run", "--native", *words[2:], check=False, cwd=folder)
        assert "cudaMemsetAsync" in done.stdout + done.stderr


def damaged(path, number):
    """Writes wrong numbers into the section table, which the dynamic linker does not read."""
    data = bytearray(path.read_bytes())
    (table,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
    values = [0, 1, 0x7FFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF, len(data) - 1, 1 << 40]
    value = values[number % len(values)]
    target = number // len(values)
    if target == 0:
        struct.pack_into("<Q", data, 40, value)  # where the table is
    elif target == 1:
        struct.pack_into("<HH", data, 58, value & 0xFFFF, (value >> 3) & 0xFFFF)
    else:
        for section in range(count):
            field, form = [(24, "<Q"), (32, "<Q"), (40, "<I"), (4, "<I")][target - 2]
            struct.pack_into(form, data, table + section * size + field, value & (0xFFFF_FFFF if form == "<I" else (1 << 64) - 1))
    path.write_bytes(data)


@pytest.mark.parametrize("number", range(36))
def test_damaged_tables(tmp_path, number):
    """A wrong file is never the end of the program that loads it."""
    library = plugin(tmp_path, "liblinked.so")
    made = build(tmp_path / "program", SOURCES / "program.c", libraries=[library])
    damaged(library, number)
    assert explain(made).stdout.split()[:4] == ["start", "1", "main", "1"]


def test_wrong_symbols(tmp_path):
    """Addresses of functions beyond the code, in other segments, and on top of each other change nothing."""
    library = plugin(tmp_path, "liblinked.so")
    made = build(tmp_path / "program", SOURCES / "program.c", libraries=[library])
    original = library.read_bytes()
    (table,), (size, count) = struct.unpack_from("<Q", original, 40), struct.unpack_from("<HH", original, 58)
    kinds = [struct.unpack_from("<I", original, table + i * size + 4)[0] for i in range(count)]
    start, length = struct.unpack_from("<QQ", original, table + kinds.index(2) * size + 24)
    for value in (0, 8, 1 << 20, 0x7FFF_FFFF_FFFF_FFF0, 0xFFFF_FFFF_FFFF_FFF0):
        data = bytearray(original)
        for at in range(start, start + length, 24):
            struct.pack_into("<Q", data, at + 8, value)
        library.write_bytes(data)
        done = explain(made)
        assert done.stdout.split()[5] == "0" and "cannot be redirected" in done.stderr, (value, done.stderr)
