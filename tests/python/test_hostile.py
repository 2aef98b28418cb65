"""cai_array_from_python and cai_array_to_python against hostile objects, with the library under AddressSanitizer.

The interpreter itself is not instrumented; its memory comes from malloc, and what is freed is overwritten, so that it stumbles over
memory that the library releases too early. CAI_FUZZ_SECONDS: for how long (`make fuzz`).
"""

import os
import pathlib
import subprocess
import sys

import hostile
import pytest

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = float(os.environ.get("CAI_FUZZ_SECONDS", "4"))
SEEDS = os.environ.get("CAI_FUZZ_SEEDS", "1,2").split(",")

CASES = [case.__name__ for case in hostile.CASES]


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
    text = "import cai_python as P, ctypes as c; b = c.create_string_buffer(16); b[:4] = (64).to_bytes(4, 'little')\n"
    text += "m = c.CDLL(None); m.malloc.restype = c.c_void_p; p = m.malloc(16); c.memmove(p, b, 16)\n"
    text += "P.held.cai_array_from_python(1, c.cast(p, c.POINTER(P.ImportOptions)), P.T.new_array(), None)\n"
    found = subprocess.run([sys.executable, "-c", text], env=sanitized | {"PYTHONPATH": str(HERE)}, capture_output=True, text=True)
    assert "heap-buffer-overflow" in found.stderr, found.stderr
