"""Arrays between processes: capi-tests/sync/ipc.c, which starts the other process itself, on the simulated driver."""

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


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ipc")
    (folder / "libcai.so.1").symlink_to(BUILT / "libcai.so")
    driver = run(BUILT / "cuda-sim", "libdir").stdout.strip()
    run(
        "gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic",
        "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include", "-I", ROOT / "cuda-sim/include",
        ROOT / "capi-tests/sync/ipc.c", "-o", folder / "ipc", "-L", BUILT, "-lcai", "-L", driver, "-lcuda",
        "-lpthread", "-ldl", f"-Wl,-rpath,{folder}",
    )  # fmt: skip
    return folder / "ipc"


@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads", "random:7"])
def test_two_processes(program, schedule):
    simulated = [BUILT / "cuda-sim", "run", "--print=exit", f"--schedule={schedule}", "--devices=2", "--"]
    cases = run(*simulated, program, "list").stdout.split()
    assert len(cases) >= 16
    for case in cases:
        done = run(*simulated, program, case, check=False)
        assert done.returncode == 0, f"{case}: {done.returncode}\n{done.stdout}\n{done.stderr}"
