"""The headers under clang as well as gcc, alone, twice, as every standard that they promise; and the C++ tests
with clang's library, which has std::mdspan. The clang is the one inside the zig package."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror".split()
CLANG = [sys.executable, "-m", "ziglang"]
C, CPP = [*CLANG, "cc"], [*CLANG, "c++"]


def run(*command):
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build/zig")}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "compiler, standard",
    [(["gcc"], s) for s in ("c99", "c11", "c17", "c2x")]
    + [(["g++"], s) for s in ("c++11", "c++14", "c++17", "c++20", "c++23")]
    + [(C, s) for s in ("c99", "c11", "c17", "c23")]
    + [(CPP, s) for s in ("c++11", "c++17", "c++23")],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_the_header_alone_and_twice(tmp_path, compiler, standard):
    language = "cpp" if "++" in standard else "c"
    source = tmp_path / f"alone.{language}"
    source.write_text(
        "#include <cai/cai.h>\n#include <cai/cai.h>\n"
        "int main(void) { cai_array a = CAI_ARRAY_INIT; a.stream = CAI_STREAM_NONE; a.flags |= CAI_ARRAY_READONLY;\n"
        "a.device.type = CAI_DEVICE_CUDA; cai_inline_release(&a); return a.stream == 0 ? 0 : 1; }\n"
    )
    strict = [*STRICT, "-Wold-style-cast"] if language == "cpp" else [*STRICT, "-Wcast-qual", "-Wcast-align"]
    run(*compiler, f"-std={standard}", *strict, "-I", ROOT / "include", "-c", source, "-o", tmp_path / "alone.o")


def test_cpp_with_mdspan(tmp_path):
    program = tmp_path / "cpp_array"
    includes = ["-I", ROOT / "include", "-I", ROOT / "capi-tests"]
    macros = run(*CPP, "-std=c++23", *includes, "-include", "cai/cai.hpp", "-x", "c++", "-E", "-dM", os.devnull)
    assert "__cpp_lib_mdspan" in macros
    (tmp_path / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    run(
        *CPP, "-std=c++23", *STRICT, *includes, ROOT / "capi-tests/cpp_array.cpp", "-o", program,
        ROOT / "target/release/libcai.so", f"-Wl,-rpath,{tmp_path}",
    )  # fmt: skip
    run(program)
