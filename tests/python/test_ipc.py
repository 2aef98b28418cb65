"""Arrays between processes: capi-tests/sync/ipc*.c, which start the other process themselves, on the simulated driver."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from commands import CUDA_SIM, SIM

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/release"
SITE = Path(sysconfig.get_path("purelib"))


def run(*command, check=True, timeout=120):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def built(folder, name):
    (folder / "libcai.so.1").symlink_to(BUILT / "libcai.so")
    driver = run(CUDA_SIM, "libdir").stdout.strip()
    run(
        "gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic",
        "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include", "-I", SIM / "include",
        ROOT / f"capi-tests/sync/{name}.c", "-o", folder / name, "-L", BUILT, "-lcai", "-L", driver, "-lcuda",
        "-lpthread", "-ldl", f"-Wl,-rpath,{folder}",
    )  # fmt: skip
    return folder / name


@pytest.fixture(scope="session", params=["ipc", "ipc_masks"])
def program(request, tmp_path_factory):
    return built(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("schedule", ["lazy", "eager", "threads", "random:7"])
def test_two_processes(program, schedule):
    simulated = [CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", "--devices=2", "--"]
    cases = run(*simulated, program, "list").stdout.split()
    assert len(cases) >= 15
    for case in cases:
        done = run(*simulated, program, case, check=False)
        assert done.returncode == 0, f"{case}: {done.returncode}\n{done.stdout}\n{done.stderr}"


def test_refusals(tmp_path):
    """Every call of the driver fails once: the functions give back what they had taken."""
    program, shim = built(tmp_path, "ipc_faults"), tmp_path / "libshim.so"
    run("gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", ROOT / "capi-tests/sync/shim.c", "-o", shim, "-ldl")
    simulated = ["env", f"CAI_CUDA_DRIVER={shim}", CUDA_SIM, "run", "--print=exit", "--"]
    cases = run(*simulated, program, "list").stdout.split()
    lines = []
    for case in cases:
        calls = re.findall(r"called (\w+) (\d+)", run(*simulated, program, case, "calls").stdout)
        if case == "plain_memory_in_another_process":
            # The other process makes the calls.
            calls = [("cuIpcOpenMemHandle_v2", 2), ("cuIpcOpenEventHandle", 1), ("cuIpcCloseMemHandle", 2),
                     ("cuPointerGetAttributes", 2), ("cuDeviceGetUuid_v2", 2)]  # fmt: skip
        assert len(calls) >= 5
        lines += [f"{case} {name}:{number + 1}:{code}" for name, count in calls for number in range(int(count)) for code in (2, 999)]
    done = subprocess.run([str(word) for word in [*simulated, program, "each"]], input="\n".join(lines), capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    ends = re.findall(r"^ended (\d+) (-?\d+)$", done.stdout, re.M)
    assert len(ends) == len(lines) > 200
    failed = [lines[int(number)] for number, status in ends if status != "0"]
    assert not failed, (failed, done.stdout[-2000:])


def test_the_page(tmp_path):
    """Its first program runs, and prints what the page states."""
    page = (ROOT / "docs/src/ipc.md").read_text()
    (tmp_path / "page.c").write_text(re.search("```c\n(.*?)```", page, re.S)[1])
    driver = run(CUDA_SIM, "libdir").stdout.strip()
    run(
        "gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include",
        tmp_path / "page.c", "-o", tmp_path / "page", BUILT / "libcai.so", "-L", driver, "-lcuda",
    )  # fmt: skip
    (tmp_path / "libcai.so.1").symlink_to(BUILT / "libcai.so")
    for schedule in ("lazy", "threads"):
        simulated = [CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", "--"]
        done = run("env", f"LD_LIBRARY_PATH={tmp_path}", *simulated, tmp_path / "page")
        assert done.stdout == re.search("```text\n(.*?)```", page, re.S)[1]
