"""Python objects of two ages of the library: today's, and a later one that tools/later_age.py makes. Programs in C and
C++ of two ages are in capi-tests (`run: ages`)."""

import sys

import pytest
from commands import ROOT, SANITIZE, run, sanitized_library


@pytest.fixture(scope="session")
def libraries():
    """Static libraries of both ages, instrumented."""
    tree = ROOT / "target/ages/tree"
    run(sys.executable, ROOT / "tools/later_age.py", tree)
    return {"today": sanitized_library(), "later": sanitized_library(tree, ROOT / "target/ages")}


def test_python_objects_of_two_ages(libraries, tmp_path):
    """tests/python/two_ages.py, with both libraries in one interpreter."""
    script = tmp_path / "map"
    script.write_text("{ global: cai_*; local: *; };\n")
    shared = []
    for age, library in libraries.items():
        target = tmp_path / f"lib{age}.so"
        run("gcc", "-shared", *SANITIZE, "-Wl,--whole-archive", library, "-Wl,--no-whole-archive",
            f"-Wl,--version-script={script}", "-Wl,-Bsymbolic", "-o", target, "-lpthread", "-ldl", "-lm")  # fmt: skip
        shared.append(target)
    preloaded = run("gcc", "-print-file-name=libasan.so").stdout.strip()
    # CPython releases its own memory through one allocator or another; leaks are not looked for.
    environment = {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    out = run(sys.executable, "-B", ROOT / "tests/python/two_ages.py", *shared, env=environment).stdout
    assert out.splitlines()[-1] == "all ages agree", out
