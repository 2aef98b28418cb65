"""C++ headers of two ages, two settings of the default stream and several shared objects in one
process; and the part of the headers that needs no library."""

import re

import cpp_ages
import pytest
from commands import CLANG, ROOT, SLOW, clang_with_libstdcxx, kept_programs, linked, run

SOURCES = ROOT / "capi-tests/abi"
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow".split()
STRICT += ["-Wold-style-cast", "-Werror"]
# Without optimization nothing is inlined: every function of the headers is a weak symbol, of which
# the linker keeps one.
PLAIN = ["g++", "-std=c++17", "-O0", "-g", *STRICT]
SANITIZED = [*PLAIN, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CLANGXX = [*clang_with_libstdcxx(), "-std=c++17", *STRICT]
OWN_RUNTIME = [*CLANG, "c++", "-std=c++17", *STRICT]
PER_THREAD = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"


@pytest.fixture(scope="session")
def ages(tmp_path_factory):
    """Folders of today's headers and of later ones."""
    folder = tmp_path_factory.mktemp("ages")
    cpp_ages.write(folder)
    return folder


@pytest.fixture(scope="session")
def main(ages, tmp_path_factory):
    """Compiles the file with `main`, once by each compiler."""
    folder, made = tmp_path_factory.mktemp("mains"), {}

    def compile(compiler, name):
        key = (name, *compiler)
        if key not in made:
            made[key] = folder / f"{len(made)}.o"
            run(*compiler, "-I", ages / "today", "-c", SOURCES / f"{name}.cpp", "-o", made[key])
        return made[key]

    return compile


def compiled(compiler, ages, folder, name, age, *options):
    output = folder / f"{name}.o"
    run(*compiler, "-fPIC", "-I", ages / age, f"-DAGE={name}", *options, "-c", SOURCES / "cpp_age.cpp", "-o", output)
    return output


@pytest.mark.parametrize("first, second", [("today", "later"), ("later", "today")])
@pytest.mark.parametrize("compiler", [PLAIN, SANITIZED, CLANGXX], ids=["plain", "sanitized", "clang"])
def test_two_ages_in_one_program(tmp_path, ages, main, compiler, first, second):
    """The linker keeps functions of the first file; the second one has another default stream."""
    objects = [
        compiled(compiler, ages, tmp_path, first, first),
        compiled(compiler, ages, tmp_path, second, second, PER_THREAD),
    ]
    program = tmp_path / "ages"
    run(*compiler, main(compiler, "cpp_ages"), *objects, "-o", program, *linked())
    run(program)


def test_the_program_finds_headers_without_an_inline_namespace(tmp_path, ages, main):
    """The test above can fail: with one namespace, the linker merges functions of both ages."""
    merged = tmp_path / "merged"
    for age in ("today", "later"):
        (merged / age / "cai/unstable").mkdir(parents=True)
        for header in (ages / age / "cai").rglob("*.h*"):
            text = re.sub(r"(#define CAI_PRIVATE_NAMESPACE) .*", r"\1 merged", header.read_text())
            (merged / header.relative_to(ages)).write_text(text)
    objects = [compiled(SANITIZED, merged, tmp_path, name, name) for name in ("later", "today")]
    program = tmp_path / "ages"
    run(*SANITIZED, main(SANITIZED, "cpp_ages"), *objects, "-o", program, *linked())
    assert run(program, check=False).returncode != 0


# Two C++ libraries: one must not export its symbols to the other.
BOTH = pytest.param("hidden", [PLAIN, OWN_RUNTIME, OWN_RUNTIME], marks=pytest.mark.skipif(not SLOW, reason="slow"))


@pytest.mark.parametrize(
    "visibility, compilers",
    [("default", [PLAIN] * 3), ("hidden", [PLAIN] * 3), ("default", [CLANGXX] * 3), BOTH],
    ids=["gcc", "gcc hidden", "clang", "both hidden"],
)
def test_shared_objects_in_one_process(tmp_path, ages, main, visibility, compilers):
    """Two of one age, one of another, built with exported symbols or without, by one compiler or by two; and those that
    are kept of each release."""
    plugins = []
    of_ages = (("a", "today", []), ("b", "today", [PER_THREAD]), ("c", "later", []))
    for compiler, (name, age, options) in zip(compilers, of_ages, strict=True):
        source = tmp_path / f"{name}.cpp"
        source.write_text(
            f'#include "{SOURCES}/cpp_ages.h"\nextern const age AGE;\n'
            'extern "C" __attribute__((visibility("default"))) const age plugin;\n'
            "#define AGE plugin\n"
            f'#include "{SOURCES}/cpp_age.cpp"\n'
        )
        plugins.append(tmp_path / f"{name}.so")
        if compiler == OWN_RUNTIME:
            options = [*options, "-DOWN_RUNTIME"]
        run(*compiler, f"-fvisibility={visibility}", "-shared", "-fPIC", "-I", ages / age, *options,
            source,
            "-o", plugins[-1], *linked())  # fmt: skip
        names = run("readelf", "--dyn-syms", "-W", plugins[-1]).stdout
        assert "UNIQUE" not in [word for line in names.splitlines() if "cai" in line for word in line.split()]
    program = tmp_path / "plugins"
    run(*PLAIN, "-rdynamic", main(PLAIN, "cpp_plugins"), "-o", program, "-ldl")
    if "g++" in [compiler[0] for compiler in compilers]:
        plugins += [programs["cpp"] for programs in kept_programs(tmp_path).values()]
    for order in (plugins, plugins[::-1]):
        run(program, *order)


def test_without_the_library(tmp_path, ages, main):
    """abi.h and abi.hpp alone in a folder, and nothing linked."""
    folders = {}
    for age in ("today", "later"):
        folders[age] = tmp_path / age
        (folders[age] / "cai").mkdir(parents=True)
        for name in ("abi.h", "abi.hpp"):
            (folders[age] / "cai" / name).write_text((ages / age / "cai" / name).read_text())
    objects = [compiled(SANITIZED, tmp_path, tmp_path, name, name, "-DWITHOUT_LIBRARY") for name in folders]
    program = tmp_path / "alone"
    run(*SANITIZED, main(SANITIZED, "cpp_ages"), *objects, "-o", program)
    run(program)
    plain = compiled(PLAIN, tmp_path, tmp_path, "plain", "today", "-DWITHOUT_LIBRARY")
    assert " cai_" not in run("nm", "-u", plain).stdout


@pytest.mark.parametrize("standard", ["c++17", "c++20", "c++23"])
@pytest.mark.parametrize("compiler", [["g++"], [*CLANG, "c++"]], ids=["gcc", "clang"])
@pytest.mark.parametrize("header", ["abi.hpp", "cai.hpp"])
def test_a_header_alone_and_twice(tmp_path, ages, compiler, standard, header):
    source = tmp_path / "alone.cpp"
    source.write_text(f"#include <cai/{header}>\n" * 2 + "cai::array f() { return {}; }\n")
    run(*compiler, f"-std={standard}", *STRICT, "-I", ages / "today", "-c", source, "-o", tmp_path / "alone.o")


@pytest.mark.parametrize("compiler", [["g++"], [*CLANG, "c++"]], ids=["gcc", "clang"])
@pytest.mark.parametrize("header", ["abi.hpp", "cai.hpp"])
def test_before_cpp17(tmp_path, ages, compiler, header):
    """The first error is the one that names the option."""
    source = tmp_path / "old.cpp"
    source.write_text(f"#include <cai/{header}>\n")
    done = run(*compiler, "-std=c++14", "-I", ages / "today", "-c", source, "-o", tmp_path / "old.o", check=False)
    first = next(line for line in done.stderr.splitlines() if "error" in line)
    assert done.returncode != 0 and "require C++17: compile with -std=c++17" in first


def test_no_array_is_passed_by_value():
    """Its size depends on the version of the header."""
    for header in sorted((ROOT / "include/cai").rglob("*.h*")):
        text = re.sub(
            r"/\*.*?\*/|//[^\n]*|\b(?:[A-Z_]+|sizeof|offsetof)\(cai_array\b", "", header.read_text(), flags=re.DOTALL
        )
        found = re.findall(r"\bcai_array(?: \w+)?\s*[,)]|\bcai_array (?:\w+::)?\w+\(", text)
        assert not found, header


def test_two_versions_in_one_file_are_refused(tmp_path, ages):
    """A vendored abi.hpp of another version, included before cai.hpp."""
    vendored = tmp_path / "vendored/cai"
    vendored.mkdir(parents=True)
    (vendored / "abi.h").write_text((ages / "today/cai/abi.h").read_text())
    text = (ages / "today/cai/abi.hpp").read_text()
    (vendored / "abi.hpp").write_text(cpp_ages.replaced(text, r"(#define CAI_PRIVATE_HPP) \w+", r"\1 0"))
    source = tmp_path / "two.cpp"
    source.write_text(f'#include "{vendored}/abi.hpp"\n#include <cai/cai.hpp>\n')
    done = run("g++", "-std=c++17", "-I", ages / "today", "-fsyntax-only", source, check=False)
    assert done.returncode != 0 and "include cai/cai.hpp first" in done.stderr


@pytest.mark.parametrize("compiler", [["g++"], [*CLANG, "c++"]], ids=["gcc", "clang"])
def test_what_throws_is_refused_without_exceptions(tmp_path, compiler):
    source = tmp_path / "throws.cpp"
    source.write_text("#include <cai/cai.hpp>\nvoid f(const cai::array &a) { cai::host_view<float, 1> v(a); }\n")
    flags = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-I", ROOT / "include", "-c", source, "-o", tmp_path / "throws.o"]
    done = run(*compiler, *flags, check=False)
    assert done.returncode != 0 and "exceptions are off: use the form try_" in done.stderr
    source.write_text("#include <cai/cai.hpp>\nvoid f(const cai::array &a, cai::array &b) { (void)a.try_share(b); }\n")
    run(*compiler, *flags, "-Werror")


def test_a_plug_in_that_is_closed_before_its_owners(tmp_path):
    """Its code is gone, unless -z nodelete keeps it, or the owner is one of the library with a function that stays."""
    program, flags = tmp_path / "unload", ["-fvisibility=hidden", "-shared", "-fPIC", "-I", ROOT / "include"]
    run("gcc", "-rdynamic", "-I", ROOT / "include", ROOT / "capi-tests/package/unload.c", "-o", program, "-ldl")
    for name, options, works in (("crashes", ["-DHEADER_ONLY"], False), ("stays", ["-DHEADER_ONLY", "-Wl,-z,nodelete"], True),
                                 ("library", [], True)):  # fmt: skip
        plugin = tmp_path / f"{name}.so"
        run(*PLAIN, *flags, SOURCES / "closed.cpp", "-o", plugin, *options, *linked())
        done = run(program, plugin, check=False)
        assert (done.returncode == 0 and done.stdout == "destroyed 1\n") == works, name
