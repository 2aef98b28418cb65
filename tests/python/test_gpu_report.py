"""The runner of `make gpu-test`, with replaced programs: every part runs, the report is complete, the exit status is
right. What the programs themselves find is tested elsewhere."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

DRIVER = r"""
#include <string.h>
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGetName(char *name, int length, int device) { return (void)length, (void)device, strcpy(name, "Test GPU"), 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { return (void)device, *value = which == 75 ? 9 : 0, 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
"""

CONFORMANCE = """
[ "$1" = --json ] || exit 2
cat > "$2" <<END
{"theme": "events", "name": "one", "rule": "a rule", "source": "-", "result": "${RESULT:-ok}", "output": ""}
END
echo "1 rules, ${FAILED:-0} failed, 0 skipped"
exit ${FAILED:-0}
"""
# Of two files with one rule.
COMPARE = """import sys
one, other = (open(name).read() for name in sys.argv[1:])
print("| rule | real | simulated | |\\n|---|---|---|---|")
if one != other:
    print("| events/one: a rule | fail | ok | DIFFERS |")
print(f"{int(one != other)} of 1 rules differ.")
sys.exit(one != other)
"""
CASES = 'case "$1" in list) echo "first second" ;; *) exit 0 ;; esac'
PROGRAMS = {
    "conformance": CONFORMANCE,
    "exchange": CASES,
    "produce": CASES,
    "capture": CASES,
    "events": CASES,
    "many": CASES,
    "arrow": CASES,
    "stress": "echo 32 pairs",
    "streams": "printf 'group\\tway\\t1.0\\n'",
    "pingpong": "printf 'group\\tway\\t1.0\\n'",
    # Writes a program into the file after -o.
    "nvcc": 'while [ $# -gt 0 ]; do [ "$1" = -o ] && target=$2; shift; done\n'
    '[ -n "$target" ] || { echo release 13.0; exit 0; }\nprintf "#!/bin/sh\\n" > "$target" && chmod +x "$target"',
    "compute-sanitizer": 'echo "$@" >> "$(dirname "$0")/sanitized"',
    "cuda-sim": 'for last; do :; done\n[ "$last" = racy ] || exit 0\necho "cuda-sim: 1 race found" >&2\nexit 66',
}
PARTS = [
    "conformance", "streams: arrow", "streams: capture", "streams: events", "streams: exchange", "streams: many",
    "streams: produce", "streams: stress",
    "begin and end, against the same calls by hand", "events against blocking (pingpong)",
    "Python: cupy", "Python: numba.cuda", "Python: torch", "Python: jax", "Python: cuda.core", "Python: mpi4py",
    ".cu examples", "compute-sanitizer: memcheck", "compute-sanitizer: racecheck", "compute-sanitizer: initcheck",
    "race checker beside the driver",
]  # fmt: skip


@pytest.fixture
def runner():
    """The module, fresh for each test: it is a script, and tests change its time limits."""
    spec = importlib.util.spec_from_file_location("gpu_test", ROOT / "tools/gpu_test.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The programs, a driver that only reports a device, and a library."""
    (tmp_path / "driver.c").write_text(DRIVER)
    source = [tmp_path / "driver.c", "-o", tmp_path / "libcuda.so.1"]
    subprocess.run(["gcc", "-shared", "-fPIC", *source], check=True)
    (tmp_path / "libcai.so.1").touch()
    (tmp_path / "compare.py").write_text(COMPARE)
    for name, text in PROGRAMS.items():
        write(tmp_path, name, text)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_HOME", "")
    return tmp_path


def write(folder, name, text):
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def run(runner, folder, *more):
    """The exit status, and the state and the summary of each part as the report has them."""
    status = runner.main(["--programs", str(folder), "--nvcc", str(folder / "nvcc"), *more])
    text = (folder / "gpu.md").read_text()
    rows = re.findall(r"^\| (.*) \| (passed|FAILED|skipped|not run) \| [\d.]+ \| (.*) \|$", text, re.M)
    assert [name for name, _, _ in rows] == PARTS
    assert re.findall(r"^### (.*)$", text, re.M) == PARTS
    return status, {name: (state, summary) for name, state, summary in rows}, text


def states(rows):
    return {name: state for name, (state, _) in rows.items() if not name.startswith("Python")}


def test_all_parts_pass(runner, folder):
    status, rows, text = run(runner, folder)
    assert status == 0 and set(states(rows).values()) == {"passed"}, text
    # The driver of this test has none of the functions that the Python libraries need.
    assert {rows[name][0] for name in PARTS if name.startswith("Python")} == {"skipped"}
    for row in ("| GPU | Test GPU (9.0) |", "| CUDA of the driver | 13.0 |", "| nvcc | release 13.0 |"):
        assert row in text
    assert re.search(r"^\| date \| \d{4}-\d\d-\d\d \d\d:\d\d UTC \|$", text, re.M)
    assert rows["conformance"][1] == "1 rules, 0 failed, 0 skipped; 0 of 1 rules differ."
    examples = len(list((ROOT / "examples-c").glob("*.cu")))
    sanitized = (folder / "sanitized").read_text().splitlines()
    tools = [line.split()[1] for line in sanitized if "--version" not in line]
    assert tools == [tool for tool in ("memcheck", "racecheck", "initcheck") for _ in range(examples)]


def test_every_failure_is_reported_and_stops_nothing(runner, folder):
    # Only the run on the simulated driver sets this variable.
    write(folder, "conformance", f'[ -n "$CUDASIM_RACES" ] || {{ RESULT=fail; FAILED=1; }}\n{CONFORMANCE}')
    write(folder, "produce", 'case "$1" in list) echo "first second" ;; second) echo "the reason"; exit 3 ;; esac')
    write(folder, "stress", "sleep 600 & wait")
    (folder / "pingpong").unlink()
    write(folder, "nvcc", "echo 'error: no such thing' >&2; exit 2")
    write(folder, "cuda-sim", "exit 0")
    parts = runner.all_parts()
    for part in parts:
        part.limit = 1 if part.name == "streams: stress" else 600
    runner.all_parts = lambda: parts
    status, rows, text = run(runner, folder)
    assert status == 1
    assert {name: summary for name, (state, summary) in rows.items() if state == "FAILED"} == {
        "conformance": "1 rules, 1 failed, 0 skipped; 1 of 1 rules differ.",
        "streams: produce": "1 of 2 cases failed: second (produce: exit status 3, expected 0)",
        "streams: stress": "stress: not finished after 1 s",
        "events against blocking (pingpong)": f"{pathlib.Path(sys.executable).name}: exit status 1, expected 0",
        ".cu examples": rows[".cu examples"][1],
        "race checker beside the driver": "cuda-sim: exit status 0, expected 66",
    }
    assert [rows[f"streams: {name}"][0] for name in ("exchange", "capture", "events", "arrow")] == ["passed"] * 4
    assert rows["compute-sanitizer: memcheck"] == ("skipped", "no .cu example was built")
    for line in ("| events/one: a rule | fail | ok | DIFFERS |", "the reason", "error: no such thing"):
        assert line in text


def test_without_a_driver_nothing_runs(runner, folder):
    (folder / "libcuda.so.1").write_text("not a library")
    status, rows, text = run(runner, folder)
    assert status == 0 and {state for state, _ in rows.values()} == {"skipped"}
    assert "no CUDA driver" in rows["conformance"][1] and "| GPU | no CUDA driver" in text
