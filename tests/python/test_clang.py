"""The C++ tests with clang's library, which has std::mdspan. The clang is that of zig."""

import os
import re
import sys

from commands import ROOT, run

STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror".split()
CLANG = [sys.executable, "-m", "ziglang"]
CPP = [*CLANG, "c++"]


def test_cpp_with_mdspan(tmp_path):
    program = tmp_path / "cpp_array"
    includes = ["-I", ROOT / "include", "-I", ROOT / "capi-tests"]
    macros = run(
        *CPP,
        "-std=c++23",
        *includes,
        "-include",
        "cai/cai.hpp",
        "-x",
        "c++",
        "-E",
        "-dM",
        os.devnull,
    ).stdout
    assert "__cpp_lib_mdspan" in macros
    (tmp_path / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    run(
        *CPP, "-std=c++23", *STRICT, *includes, ROOT / "capi-tests/cpp_array.cpp", "-o", program,
        ROOT / "target/release/libcai.so", f"-Wl,-rpath,{tmp_path}",
    )  # fmt: skip
    run(program)


def test_mdspan(tmp_path):
    """cai/mdspan.hpp with std::mdspan, and the program on its page."""
    includes = ["-I", ROOT / "include", "-I", ROOT / "capi-tests"]
    page = (ROOT / "docs/src/frameworks.md").read_text()
    sample = next(text for text in re.findall(r"```cpp\n(.*?)```", page, re.S) if "cai/mdspan.hpp" in text)
    (tmp_path / "sample.cpp").write_text(sample)
    (tmp_path / "libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    run(
        *CPP, "-std=c++23", *STRICT, *includes, tmp_path / "sample.cpp",
        "-o", tmp_path / "sample", ROOT / "target/release/libcai.so", f"-Wl,-rpath,{tmp_path}",
    )  # fmt: skip
    printed = re.search(r"```text\n(.*?)```", page[page.index(sample) :], re.S)[1]
    assert run(tmp_path / "sample").stdout == printed
    run(
        *CPP, "-std=c++23", "-DFAMILY=1", *STRICT, *includes, ROOT / "capi-tests/special/mdspan.cpp",
        "-o", tmp_path / "mdspan", ROOT / "target/release/libcai.so", f"-Wl,-rpath,{tmp_path}",
    )  # fmt: skip
    run(tmp_path / "mdspan")
