"""Arrays between processes: capi-tests/sync/ipc*.c, which start the other process themselves, on the simulated driver."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/release"
SITE = Path(sysconfig.get_path("purelib"))


def run(*command, check=True, timeout=120):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="session", params=["ipc", "ipc_masks"])
def program(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "libcai.so.1").symlink_to(BUILT / "libcai.so")
    driver = run(BUILT / "cuda-sim", "libdir").stdout.strip()
    run(
        "gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic",
        "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include", "-I", ROOT / "cuda-sim/include",
        ROOT / f"capi-tests/sync/{request.param}.c", "-o", folder / "ipc", "-L", BUILT, "-lcai", "-L", driver, "-lcuda",
        "-lpthread", "-ldl", f"-Wl,-rpath,{folder}",
    )  # fmt: skip
    return folder / "ipc"


@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads", "random:7"])
def test_two_processes(program, schedule):
    simulated = [BUILT / "cuda-sim", "run", "--print=exit", f"--schedule={schedule}", "--devices=2", "--"]
    cases = run(*simulated, program, "list").stdout.split()
    assert len(cases) >= 15
    for case in cases:
        done = run(*simulated, program, case, check=False)
        assert done.returncode == 0, f"{case}: {done.returncode}\n{done.stdout}\n{done.stderr}"


def test_the_page(tmp_path):
    """Its first program runs, and prints what the page states."""
    page = (ROOT / "docs/src/ipc.md").read_text()
    (tmp_path / "page.c").write_text(re.search("```c\n(.*?)```", page, re.S)[1])
    driver = run(BUILT / "cuda-sim", "libdir").stdout.strip()
    run(
        "gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include",
        tmp_path / "page.c", "-o", tmp_path / "page", BUILT / "libcai.so", "-L", driver, "-lcuda",
    )  # fmt: skip
    (tmp_path / "libcai.so.1").symlink_to(BUILT / "libcai.so")
    for schedule in ("lazy", "threads"):
        simulated = [BUILT / "cuda-sim", "run", "--print=exit", f"--schedule={schedule}", "--"]
        done = run("env", f"LD_LIBRARY_PATH={tmp_path}", *simulated, tmp_path / "page")
        assert f"It prints `{done.stdout.strip()}`" in page
