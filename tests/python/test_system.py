"""`python -m libcai` without arguments: complete, and the exit code 0, whatever is missing or broken."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from commands import CUDA_SIM, ROOT, compile

# The command, with the library of the repository in place of the package's.
COMMAND = """if True:
    import sys
    from libcai import __main__, _paths
    library = sys.argv[1]
    if library != "none":
        _paths.library = lambda: library
    sys.exit(__main__.main(sys.argv[2:]))
"""


@pytest.fixture
def report(library_path, tmp_path):
    def run(*arguments, library=library_path, before=(), path=(), **environment):
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", *path))),
            "CAI_CUDA_DRIVER": str(tmp_path / "no_driver.so"),
            **{name: str(value) for name, value in environment.items() if value is not None},
        }
        command = [*before, sys.executable, "-c", COMMAND, library, *arguments]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path)
        said = done.stdout.decode()  # fails if it is not UTF-8
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr.decode()
        return said

    return run


def build(folder, name, source):
    (folder / f"{name}.c").write_text(source)
    return compile(folder / f"{name}.c", folder / f"{name}.so", "-shared", library=None)


def test_without_a_driver(report, library_path):
    found = json.loads(report("--json"))
    assert list(found) == ["libcai", "python", "driver", "hip", "policy", "libraries", "variables"]
    assert found["libcai"]["library"]["path"] == library_path and found["libcai"]["library"]["abi"] == "1.0"
    assert found["driver"]["status"] == "CAI_ERR_NO_DRIVER" and "no_driver.so" in found["driver"]["message"]
    assert found["policy"] == {"flags": []}
    text = report()
    assert "CAI_ERR_NO_DRIVER" in text and "CAI_SYNC        not set" in text
    assert max(map(len, report(CAI_CUDA_DRIVER="x").splitlines())) <= 100


def test_with_a_driver(report):
    simulated = [CUDA_SIM, "run", "--devices=2", "--"]
    found = json.loads(report("--json", before=simulated, CAI_CUDA_DRIVER=""))
    driver = found["driver"]
    assert driver["path"].endswith("libcuda.so.1") and re.fullmatch(r"\d+\.\d", driver["cuda"])
    assert driver["devices"] == [{"name": "cuda-sim", "compute_capability": "9.0", "memory": 8 << 30}] * 2
    assert found["variables"]["CUDASIM_DEVICES"] == "2"
    assert "device 1  cuda-sim, compute capability 9.0, 8.0 GiB" in report(before=simulated, CAI_CUDA_DRIVER="")


@pytest.mark.parametrize("end, expected", [
    ("abort()", "SIGABRT"), ("raise(11)", "SIGSEGV"), ("_exit(3)", "exited with 3"),
])  # fmt: skip
def test_a_driver_that_ends_the_process(report, tmp_path, end, expected):
    driver = build(tmp_path, "driver", f"""
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) {{ {end}; }}
""")
    found = json.loads(report("--json", CAI_CUDA_DRIVER=driver))
    assert expected in found["driver"]["message"]
    assert found["policy"] == {"flags": []} and "not asked" in found["hip"]["message"]
    assert expected in report(CAI_CUDA_DRIVER=driver)


def test_a_driver_without_functions(report, tmp_path):
    found = json.loads(report("--json", CAI_CUDA_DRIVER=build(tmp_path, "driver", "int nothing;")))
    assert found["driver"]["status"].startswith("CAI_ERR_") and found["driver"]["message"]


def test_a_driver_that_never_returns(report, tmp_path, monkeypatch):
    driver = build(tmp_path, "driver", """
#include <unistd.h>
__attribute__((constructor)) static void start(void) { for (;;) pause(); }
""")
    monkeypatch.setitem(globals(), "COMMAND", "import libcai._system\nlibcai._system.TIMEOUT = 2\n" + COMMAND)
    found = json.loads(report("--json", CAI_CUDA_DRIVER=driver))
    assert found["driver"]["message"] == "no answer within 2 seconds"
    assert found["libcai"]["library"]["abi"] == "1.0"


def test_hip(report, tmp_path):
    runtime = build(tmp_path, "hip", """
int hipRuntimeGetVersion(int *version) { *version = 60443484; return 0; }
int hipGetDeviceCount(int *count) { *count = 3; return 0; }
""")
    found = json.loads(report("--json", CAI_HIP_DRIVER=runtime))
    assert found["hip"] == {"file": str(runtime), "version": 60443484, "devices": 3}
    empty = build(tmp_path, "empty", "int nothing;")
    assert "hipRuntimeGetVersion" in json.loads(report("--json", CAI_HIP_DRIVER=empty))["hip"]["message"]
    assert json.loads(report("--json", CAI_HIP_DRIVER=tmp_path / "none"))["hip"]["message"]


@pytest.mark.parametrize("value, flags", [
    ("1", []), ("ignore", ["IGNORE"]), ("0", ["IGNORE", "EXPORT_NONE"]), ("conservative", ["CONSERVATIVE"]),
])  # fmt: skip
def test_the_policy(report, value, flags):
    found = json.loads(report("--json", CAI_SYNC=value))
    assert found["policy"] == {"flags": [f"CAI_SYNC_{flag}" for flag in flags]}
    assert found["variables"]["CAI_SYNC"] == value
    text = report(CAI_SYNC=value)
    assert all(f"CAI_SYNC_{flag}" in text for flag in flags)


def test_a_misspelt_policy(report):
    assert 'CAI_ERR_ENVIRONMENT: CAI_SYNC: found "off"' in report(CAI_SYNC="off")


def test_libraries_are_not_imported(report, tmp_path):
    """Found by their files, also inside packages, under any of their distributions' names; and nothing runs."""
    site = tmp_path / "site"
    for module in ("cupy", "cuda", "cuda/core", "nvidia/dali"):
        folder = site / module
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise SystemExit('imported')")
    for name, version in (("cupy_cuda12x", "13.3.0"), ("cuda.core", "0.4"), ("warp-lang", "1.8")):
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "jax").mkdir()  # a folder, and no package
    found = {one["name"]: one for one in json.loads(report("--json", path=[site]))["libraries"]}
    assert found["CuPy"]["distributions"] == {"cupy-cuda12x": "13.3.0"}
    assert found["CuPy"]["path"] == str(site / "cupy/__init__.py")
    assert found["cuda.core"]["path"] == str(site / "cuda/core/__init__.py")
    assert found["DALI"]["path"] and not found["DALI"]["distributions"]
    assert found["Warp"]["path"] is None
    assert {"JAX", "PyTorch", "cuda.bindings"}.isdisjoint(found)
    text = report(path=[site])
    assert "13.3.0 (cupy-cuda12x)" in text and "its module warp is missing" in text and "unknown version" in text


def test_broken_metadata(report, tmp_path):
    info = tmp_path / "site/cupy-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_bytes(b"\xff\xfe")
    report(path=[tmp_path / "site"])


@pytest.mark.parametrize("library", ["none", "/no/such/library.so", "libm.so.6"])
def test_without_the_library(report, library):
    found = json.loads(report("--json", library=library))
    assert found["libcai"]["library"]["message"] and "not asked" in found["driver"]["message"]
    assert "not asked" in report(library=library)


def test_unprintable_values(report):
    text = report(CAI_SYNC="\033[2J", LD_LIBRARY_PATH=os.fsdecode(b"/\xff"), LC_ALL="C", PYTHONUTF8="0")
    assert "\033" not in text and "\\x1b[2J" in text


def test_the_page_lists_every_variable():
    """Those that the library and the package read, and those that users give to make."""
    sources = [*(ROOT / "src").rglob("*.rs"), *(ROOT / "python/libcai").glob("*.py")]
    read = re.findall(r'(?:c"|environ(?:\.get\(|\[)"|^OWN = .*?")(CAI_(?!ERR_)[A-Z_]+)"', "\n".join(map(pathlib.Path.read_text, sources)), re.M)
    made = re.findall(r"^([A-Z_]+) *\?=", (ROOT / "Makefile").read_text(), re.M)
    page = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs/src/commands.md").read_text()))
    assert len(set(read)) >= 3 and len(made) >= 5 and not {*read, *made} - page
