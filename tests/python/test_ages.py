"""Python objects of two ages of the library: today's, and a later one that tools/later_age.py makes; and the programs that
are kept of each release. Programs in C and C++ of two ages are in capi-tests (`run: ages`)."""

import re
import sys

import pytest
from abi_symbols import NAMES, UNSTABLE
from commands import BUILT, ROOT, SANITIZE, compile, kept_programs, library_folder, run, sanitized_library


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Shared libraries of both ages, instrumented. In the later one, the unstable functions have another version."""
    tree = ROOT / "target/ages/tree"
    run(sys.executable, ROOT / "tools/later_age.py", tree)
    static = {"today": sanitized_library(), "later": sanitized_library(tree, ROOT / "target/ages")}
    folder, shared = tmp_path_factory.mktemp("libraries"), {}
    for age, library in static.items():
        shared[age] = folder / age / "libcai.so.1"
        shared[age].parent.mkdir()
        script = folder / f"{age}.map"
        script.write_text(run(ROOT / "abi/map.sh", *[ROOT / "abi/symbols.txt", 1, 7] * (age == "later")).stdout)
        run("gcc", "-shared", *SANITIZE, "-Wl,--whole-archive", library, "-Wl,--no-whole-archive",
            f"-Wl,--version-script={script}", "-Wl,-Bsymbolic", "-o", shared[age], "-lpthread", "-ldl", "-lm")  # fmt: skip
    return shared


# CPython releases its own memory through one allocator or another; leaks are not looked for.
INSTRUMENTED = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}


def instrumented():
    return {**INSTRUMENTED, "LD_PRELOAD": run("gcc", "-print-file-name=libasan.so").stdout.strip()}


def test_python_objects_of_two_ages(libraries):
    """tests/python/two_ages.py, with both libraries in one interpreter."""
    command = [sys.executable, "-B", ROOT / "tests/python/two_ages.py", *libraries.values()]
    out = run(*command, env=instrumented()).stdout
    assert out.splitlines()[-1] == "all ages agree", out


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    found = kept_programs(tmp_path_factory.mktemp("kept"))
    return found or pytest.skip("no programs are kept for this machine")


def test_what_is_kept_calls_every_core_function():
    called = re.findall(r"\b(cai_\w+)\(", (ROOT / "tests/kept/core.c").read_text())
    assert not NAMES - UNSTABLE - set(called)


def test_kept_programs(kept, libraries):
    """What was compiled with each release uses the core of today's library, and of a later one."""
    for programs in kept.values():
        command = [sys.executable, "-B", ROOT / "tests/python/kept_inside.py", programs["core"]]
        for library, environment in ((library_folder(), {}), (libraries["later"].parent, instrumented())):
            out = run(*command, env={**environment, "LD_LIBRARY_PATH": str(library)}).stdout
            assert out == "kept\n", (library, out)


def test_kept_programs_exchange_arrays(kept, tmp_path):
    """A plug-in of each release, on today's shared library, and one of today that bundles the static library."""
    source = ROOT / "capi-tests/special"
    today = compile(source / "copy.c", tmp_path / "today.so", "-shared", "-fvisibility=hidden", "-I", ROOT / "capi-tests",
                    BUILT / "libcai.a", "-Wl,--exclude-libs,ALL", "-lm", library=None)  # fmt: skip
    main = compile(source / "copies.c", tmp_path / "main", "-I", ROOT / "capi-tests", "-ffunction-sections",
                   "-Wl,--gc-sections", library=None)  # fmt: skip
    for programs in kept.values():
        run(main, programs["copy"], today)
        run(main, today, programs["copy"])
