"""cai_from_python and cai_to_python against hostile objects, with the library under AddressSanitizer.

The interpreter itself is not instrumented; its memory comes from malloc, and what is freed is overwritten, so that it stumbles over
whatever the library lets go too early. CAI_FUZZ_SECONDS: for how long (`make fuzz`).
"""

import os
import pathlib
import platform
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = float(os.environ.get("CAI_FUZZ_SECONDS", "8"))
SEEDS = os.environ.get("CAI_FUZZ_SEEDS", "1,2").split(",")

CASES = ["keys_without_text", "types_without_text", "types_that_vanish", "tables_of_others", "tables_that_say_nothing",
         "words_that_change", "big_versions", "deep_recursion"]  # fmt: skip


@pytest.fixture(scope="module")
def sanitized():
    """The library with the sanitizer in it, as a shared object, and what a process needs to load it."""
    triple = f"{platform.machine()}-unknown-linux-gnu"
    subprocess.run(
        [os.environ.get("CARGO", "cargo"), "rustc", "-q", "--lib", "--crate-type", "staticlib", "--target", triple,
         "--target-dir", "target/asan"],
        cwd=ROOT, check=True, env=os.environ | {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address"},
    )  # fmt: skip
    folder = ROOT / "target/asan" / triple / "debug"
    names = folder / "python.map"
    names.write_text("{ global: cai_*; local: *; };\n")
    # One of its own for each process that tests: another may be using the old one.
    library = folder / f"libcai_python_{os.getpid()}.so"
    subprocess.run(
        ["gcc", "-shared", "-fsanitize=address", "-o", library, "-Wl,--whole-archive", folder / "libcai.a",
         "-Wl,--no-whole-archive", f"-Wl,--version-script={names}", "-lpthread", "-ldl", "-lm"],
        check=True,
    )  # fmt: skip
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    yield os.environ | {
        "CAI_LIBRARY": str(library),
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:max_free_fill_size=4096:free_fill_byte=221:detect_stack_use_after_return=1",
        "PYTHONMALLOC": "malloc",
        # Texts that hash alike in each run: the same seed makes the same objects.
        "PYTHONHASHSEED": "0",
    }
    library.unlink()


def run(environment, *arguments):
    command = [sys.executable, str(HERE / "hostile.py"), *map(str, arguments)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=SECONDS + 300)
    return found.returncode, found.stdout[-4000:] + found.stderr[:12000]


@pytest.mark.parametrize("case", CASES)
def test_cases(sanitized, case):
    code, text = run(sanitized, "--case", case)
    assert code == 0, text


@pytest.mark.parametrize("seed", SEEDS)
def test_random_objects(sanitized, seed, tmp_path):
    progress = tmp_path / "progress"
    code, text = run(sanitized, "--seed", seed, "--seconds", SECONDS, "--progress", progress)
    assert code == 0, f"hostile.py --seed {seed} --only {progress.read_text().strip()}\n{text}"


def test_random_objects_in_threads(sanitized):
    code, text = run(sanitized, "--seed", SEEDS[0], "--seconds", SECONDS / 2, "--threads")
    assert code == 0, f"hostile.py --seed {SEEDS[0]} --threads\n{text}"


def test_the_sanitizer_is_there(sanitized):
    """A read behind the options shows that the instrumented library is the one that runs."""
    text = "import cai_python as P, ctypes as c; b = c.create_string_buffer(16); b[:4] = (48).to_bytes(4, 'little')\n"
    text += "m = c.CDLL(None); m.malloc.restype = c.c_void_p; p = m.malloc(16); c.memmove(p, b, 16)\n"
    text += "P.held.cai_from_python(1, c.cast(p, c.POINTER(P.ImportOptions)), P.T.new_array(), None)\n"
    found = subprocess.run([sys.executable, "-c", text], env=sanitized | {"PYTHONPATH": str(HERE)}, capture_output=True, text=True)
    assert "heap-buffer-overflow" in found.stderr, found.stderr
