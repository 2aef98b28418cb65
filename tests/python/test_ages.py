"""Two ages of headers and library: today's, and a later one that tools/later_age.py makes.

Programs of one age run with the library of the other, both under AddressSanitizer; two copies of different ages
exchange arrays in one process, in C and as Python objects.
"""

import fcntl
import sys

import pytest
from commands import ROOT, run

BUILT = ROOT / "target/ages"
TREE = BUILT / "tree"
HEADERS = {"today": ROOT / "include", "later": TREE / "include"}
SANITIZE = ["-g", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
LINK = ["-lpthread", "-ldl", "-lm"]

# The programs whose structures cross the ABI boundary in both directions.
PROGRAMS = [
    "abi/sizes.c", "array_lifetime.c", "owner_lifetime.c", "descr_fields.c", "dlpack_export.c", "dlpack_import.c", "validate_rules.c",
    "cpp_array.cpp", "cpp_owner.cpp", "cpp_view.cpp",
]  # fmt: skip


@pytest.fixture(scope="session")
def libraries():
    """Static libraries of both ages, instrumented. rustc's option is unstable, which RUSTC_BOOTSTRAP allows."""
    triple = run("rustc", "-vV").stdout.split("host: ")[1].split()[0]
    environment = {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address"}
    found = {}
    BUILT.mkdir(parents=True, exist_ok=True)
    with open(BUILT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run in several processes
        run(sys.executable, ROOT / "tools/later_age.py", TREE)
        # Today's is the one that the C programs under sanitizers use.
        for age, source, target in (("today", ROOT, ROOT / "target/asan"), ("later", TREE, BUILT)):
            run("cargo", "rustc", "-q", "--lib", "--crate-type", "staticlib", "--target", triple, "--target-dir", target,
                cwd=source, env=environment)  # fmt: skip
            found[age] = target / triple / "debug/libcai.a"
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ages")


def compiler(source, header):
    names = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu99"]
    # Without warnings: initializers of today do not name the later members.
    return [*names, "-w", *SANITIZE, "-I", HEADERS[header], "-I", ROOT / "capi-tests"]


@pytest.mark.parametrize("header, library", [("today", "later"), ("later", "today")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_one_age_with_a_library_of_another(libraries, folder, name, header, library):
    source = ROOT / "capi-tests" / name
    program = folder / f"{source.stem}-{header}-{library}"
    run(*compiler(source, header), source, libraries[library], "-o", program, *LINK)
    assert "__asan_init" in run("nm", program).stdout
    run(program)


@pytest.mark.parametrize("age", ["today", "later"])
def test_structures_of_every_size(libraries, folder, age):
    source = ROOT / "capi-tests/abi/sizes.c"
    program = folder / f"sizes-{age}"
    run(*compiler(source, age), source, libraries[age], "-o", program, *LINK)
    run(program)


def test_two_copies_of_different_ages(libraries, folder):
    """Each plug-in has headers and library of its age, and takes, keeps and releases the other's arrays."""
    special = ROOT / "capi-tests/special"
    plugins = []
    for age in ("today", "later"):
        plugin = folder / f"copy-{age}.so"
        run(*compiler(special / "copy.c", age), "-shared", "-fPIC", "-fvisibility=hidden", "-DCAI_STATIC",
            special / "copy.c", libraries[age], "-o", plugin, "-Wl,--exclude-libs,ALL", *LINK)  # fmt: skip
        plugins.append(plugin)
    main = folder / "copies"
    run(*compiler(special / "copies.c", "today"), "-ffunction-sections", "-Wl,--gc-sections", special / "copies.c", "-o", main,
        "-ldl")  # fmt: skip
    run(main, *plugins)
    run(main, *reversed(plugins))


def test_python_objects_of_two_ages(libraries, folder):
    """tests/python/two_ages.py, with both libraries in one interpreter."""
    script = folder / "map"
    script.write_text("{ global: cai_*; local: *; };\n")
    shared = []
    for age, library in libraries.items():
        target = folder / f"lib{age}.so"
        run("gcc", "-shared", *SANITIZE, "-Wl,--whole-archive", library, "-Wl,--no-whole-archive",
            f"-Wl,--version-script={script}", "-Wl,-Bsymbolic", "-o", target, *LINK)  # fmt: skip
        shared.append(target)
    preloaded = run("gcc", "-print-file-name=libasan.so").stdout.strip()
    # CPython releases its own memory through one allocator or another; leaks are not looked for.
    environment = {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    out = run(sys.executable, "-B", ROOT / "tests/python/two_ages.py", *shared, env=environment).stdout
    assert out.splitlines()[-1] == "all ages agree", out
