"""`pytest --cuda-sim`: sessions of their own, in subprocesses, whose tests call the driver through ctypes."""

import os
import re
import subprocess
import sys

import pytest

from commands import COMMAND, PLUGIN

DRIVER = """
import ctypes, functools, os, subprocess, sys, threading
import pytest

@functools.lru_cache(None)
def driver():
    cu = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cu.cuCtxSetCurrent(context) == 0
    cu.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
    return cu

def stream():
    made = ctypes.c_void_p()
    assert driver().cuStreamCreate(ctypes.byref(made), 1) == 0
    return made

def memory():
    made = ctypes.c_uint64()
    assert driver().cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(4096)) == 0
    return made.value

def fill(pointer, on):
    assert driver().cuMemsetD8Async(pointer, 1, 4096, on) == 0

def race():
    pointer = memory()
    fill(pointer, stream())
    fill(pointer, stream())

RACE = "import world; world.race()"

def child(code=RACE):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    return subprocess.run([sys.executable, "-c", code], env=environment).returncode
"""


@pytest.fixture
def session(tmp_path):
    """Runs pytest on some tests. Returns the outcome of each test, and what was printed."""
    (tmp_path / "world.py").write_text(DRIVER)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(tests, *options, command=None, plugin=("-p", "cuda_sim.pytest_plugin"), **more):
        (tmp_path / "test_it.py").write_text(f"from world import *\n{tests}")
        words = command or [sys.executable, "-m", "pytest", *plugin, "--cuda-sim"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CUDASIM_"))}
        # So that each outcome has a line of its own, which does not depend on the width of a terminal.
        environment = {**inherited, "PYTHONPATH": f"{PLUGIN}:{tmp_path}", "COLUMNS": "400", **more.pop("env", {})}
        done = subprocess.run(
            [*map(str, words), "-rA", "-p", "no:cacheprovider", *options], cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=120, **more,
        )  # fmt: skip
        done.outcomes = {}
        for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|XFAIL|XPASS|SKIPPED) test_it\.py::(\w+)", done.stdout, re.M):
            done.outcomes[name] = f"{done.outcomes[name]} {outcome}" if name in done.outcomes else outcome
        done.text = done.stdout + done.stderr
        return done

    return run


TESTS = """
def test_fine(): pass
def test_racy(): race()
def test_the_same_again(): race()
shared = []
def test_leaves_work():
    shared.append(memory())
    fill(shared[0], stream())
def test_uses_it():
    if shared: fill(shared[0], stream())
@pytest.mark.cuda_sim(races="allow")
def test_allowed(): race()
@pytest.mark.cuda_sim(races="require")
def test_required(): race()
@pytest.mark.cuda_sim(races="require")
def test_required_and_absent(): pass
@pytest.mark.xfail(strict=True)
def test_expected(): race()
def test_own_failure():
    race()
    assert 0
@pytest.fixture
def early(): race()
def test_setup(early): pass
@pytest.fixture
def late():
    yield
    race()
def test_teardown(late): pass
@pytest.mark.cuda_sim(rases="allow")
def test_typing_error(): pass
@pytest.mark.cuda_sim(timeout="long")
def test_timeout_is_no_number(): pass
def test_skipped_after_a_race():
    race()
    pytest.skip("later")
@pytest.fixture
def skipping():
    race()
    pytest.skip("later")
def test_skipped_in_setup(skipping): pass
@pytest.mark.cuda_sim(races="require")
def test_skipped(): pytest.skip("at once")
"""
OUTCOMES = {
    "test_fine": "PASSED", "test_racy": "FAILED", "test_the_same_again": "FAILED", "test_leaves_work": "PASSED",
    "test_uses_it": "PASSED", "test_allowed": "PASSED", "test_required": "PASSED", "test_required_and_absent": "FAILED",
    "test_expected": "XFAIL", "test_own_failure": "FAILED", "test_setup": "ERROR", "test_teardown": "PASSED ERROR",
    "test_typing_error": "ERROR", "test_timeout_is_no_number": "ERROR", "test_skipped_after_a_race": "FAILED",
    "test_skipped_in_setup": "ERROR",
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random:7", "threads"])
def test_outcomes(session, schedule):
    done = session(TESTS, f"--schedule={schedule}")
    assert done.outcomes == OUTCOMES, done.text
    assert done.returncode == 1
    assert f"cuda-sim: simulated driver, schedule {schedule}, races fail" in done.stdout
    assert "cuda-sim: 1 race in this test" in done.stdout and "missing: cuEventRecord" in done.stdout
    assert re.search("1 skipped", done.stdout), done.stdout  # the one without a race
    # A test that fails by itself has the report in a section.
    assert "Captured races call" in done.stdout and "cuda_sim has no argument 'rases'" in done.stdout


def test_workers(session):
    done = session(TESTS, "-n", "2", "--schedule", "lazy")
    # Tests that share memory may run in different processes.
    assert done.outcomes == OUTCOMES, done.text


def test_forked(session):
    pytest.importorskip("pytest_forked")
    if int(pytest.__version__.split(".")[0]) > 8:
        pytest.skip("no test passes under pytest-forked 1.7 and this pytest")
    done = session(TESTS, "--forked")
    assert done.outcomes == OUTCOMES, done.text


@pytest.mark.parametrize("options", [["-s"], ["--capture=sys"], ["-p", "no:capture"], ["-p", "no:xdist"]])
def test_other_plugins(session, options):
    done = session("def test_racy(): race()", *options)
    assert done.returncode == 1, done.text
    assert "1 race in this test" in done.stdout


def test_report_only(session):
    done = session("def test_racy(): race()\ndef test_fine(): pass", "--races=report")
    assert done.returncode == 0 and set(done.outcomes.values()) == {"PASSED"}
    assert "in test_it.py::test_racy:" in done.stdout and "cuda-sim: 1 race in 1 test" in done.stdout
    done = session("def test_racy(): race()", "--races=off")
    assert done.returncode == 0 and "race on" not in done.stdout
    done = session("@pytest.mark.cuda_sim(races='report')\ndef test_racy(): race()")
    assert done.returncode == 0 and "in test_it.py::test_racy:" in done.stdout


PROCESSES = """
def test_racy_child(): assert child() == 66
def test_fine(): pass
def test_correct_child(): assert child("import world; world.fill(world.memory(), world.stream())") == 0
@pytest.mark.cuda_sim(races="allow")
def test_allowed_child(): assert child() == 0
def test_after(): pass
"""


def test_processes(session):
    """Races of a process are those of the test that started it."""
    done = session(PROCESSES)
    expected = {"test_racy_child": "FAILED", "test_fine": "PASSED", "test_correct_child": "PASSED"}
    assert done.outcomes == {**expected, "test_allowed_child": "PASSED", "test_after": "PASSED"}, done.text
    assert "No such file" not in done.text


def test_outside_of_tests(session):
    """An import that races fails the session, not a test."""
    done = session("race()\ndef test_fine(): pass")
    assert done.outcomes == {"test_fine": "PASSED"} and done.returncode == 1
    assert "outside of tests:" in done.stdout
    done = session("race()\ndef test_fine(): pass\ndef test_other(): pass", "-n", "2")
    assert set(done.outcomes.values()) == {"PASSED"} and "outside of tests:" in done.stdout and done.returncode == 1


API = """
import cuda_sim

class Array:
    def __init__(self, at, shape, strides, typestr="|u1"):
        self.__cuda_array_interface__ = {"data": (at, False), "shape": shape, "strides": strides, "typestr": typestr}

class Stream:
    def __init__(self): self.handle = stream().value
    def __cuda_stream__(self): return 0, self.handle

def test_race():
    a, b, p = stream().value, Stream(), memory()
    cuda_sim.name_stream(b, "two")
    with cuda_sim.label("one"):
        cuda_sim.kernel(a, writes=[(p, 64)], name="fill")
    assert cuda_sim.races() == 0
    cuda_sim.kernel(b, [(p + 32, 64)])
    assert cuda_sim.races() == 1
    (race,) = cuda_sim.take()
    assert race["first"]["label"] == "one (fill)" and race["first"]["stack"][0].startswith("test_it.py:")
    assert race["second"]["label"] == "a kernel" and '"two"' in race["second"]["actor"]
    assert (race["address"], race["nbytes"], race["more_ranges"]) == (p + 32, 32, 0)
    assert (race["first"]["mode"], race["second"]["mode"]) == ("write", "read")
    assert cuda_sim.races() == 0 and cuda_sim.take() == [] and cuda_sim.driver() == "simulated"

@pytest.mark.parametrize("shape, strides, typestr, touched", [
    ((), None, "<f4", "0123"),
    ((3,), None, "<f4", "0123456789ab"),
    ((2, 2), (6, 2), "|i1", "0268"),
    ((3,), (-4,), "<i2", "014589"),
    ((0, 3), (1, 1), "<f8", ""),
    ((1,) * 9, None, "<i2", "01"),
])
def test_arrays(shape, strides, typestr, touched):
    p, at = memory(), 8 if strides == (-4,) else 0
    a, b = stream().value, stream().value
    cuda_sim.kernel(a, writes=[Array(p + at, shape, strides, typestr)])
    found = ""
    for byte in range(16):
        with cuda_sim.label(f"byte {byte:x}"):
            cuda_sim.kernel(b, [(p + byte, 1)])
        # Beside one that was not taken, later races are its consequences.
        found += "".join(race["second"]["label"][5] for race in cuda_sim.take())
    assert found == touched

def test_what_it_writes_is_not_known():
    p, s = memory(), stream()
    fill(p, s)
    cuda_sim.kernel(s.value, writes=[(p, 4), (p + 8, 4)])
    cuda_sim.kernel(s.value, reads=[(p, 16)])
    assert cuda_sim.wait(5)
    assert ctypes.string_at(p, 13) == bytes.fromhex("ffffffff 01010101 ffffffff 01")

def test_refused():
    with pytest.raises(RuntimeError, match="error 400"): cuda_sim.kernel(4096)
    with pytest.raises(ValueError, match="9 dimensions"): cuda_sim.kernel(0, [Array(0, (1,) * 9, (1,) * 9)])
    with pytest.raises(ValueError, match="found -1 bytes"): cuda_sim.kernel(0, [(0, -1)])

def test_work_is_left():
    flag = memory()
    s = stream()
    assert driver().cuStreamWaitValue32_v2(s, ctypes.c_uint64(flag), ctypes.c_uint32(77), 1) == 0
    assert not cuda_sim.wait(0.05)
    ctypes.memset(flag, 77, 1)
    assert cuda_sim.wait()

def test_a_kernel_is_not_declared():
    module = ctypes.c_void_p()
    assert driver().cuModuleLoadData(ctypes.byref(module), b"any image") == 0
    assert driver().cuModuleGetFunction(ctypes.byref(module), module, b"scale") == 500
"""


def test_functions_of_the_package(session):
    done = session(API, "--schedule=lazy")
    assert done.returncode == 0 and done.outcomes["test_race"] == "PASSED", done.text
    assert "\ncuda-sim: kernels that are not declared were not launched: scale\n" in done.stdout, done.text


def test_functions_of_the_package_without_the_driver():
    code = "import cuda_sim as c; c.kernel(0, [(1, 2)]); assert (c.races(), c.take(), c.wait(), c.driver()) == (0, [], False, '')"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(PLUGIN)}, check=True)


def test_work_is_left(session):
    tests = """
    import ctypes
    @pytest.mark.cuda_sim(timeout=0.1)
    def test_waits_for_ever():
        flag = memory()
        assert driver().cuStreamWaitValue32_v2(stream(), ctypes.c_uint64(flag), ctypes.c_uint32(77), 1) == 0
    def test_next(): pass
    """.replace("\n    ", "\n")
    done = session(tests, "--schedule=lazy")
    assert set(done.outcomes.values()) == {"PASSED"} and "work is left on streams 0.1 s after the test" in done.stdout


def test_order_between_tests_can_be_kept_apart(session):
    tests = "@pytest.mark.cuda_sim(synchronize=False)\n" + TESTS[TESTS.index("shared") - 1 :].lstrip()
    tests = tests.replace("@pytest.mark.cuda_sim(synchronize=False)\nshared = []", "shared = []\n@pytest.mark.cuda_sim(synchronize=False)")
    done = session(tests, "-k", "leaves or uses")
    assert done.outcomes == {"test_leaves_work": "PASSED", "test_uses_it": "FAILED"}, done.text


def test_options_of_the_project(session, tmp_path):
    """A project's own option wins; the plug-in's has a longer name, too."""
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--devices')")
    tests = "def test_count(request):\n    n = ctypes.c_int()\n    driver().cuDeviceGetCount(ctypes.byref(n))\n"
    tests += "    assert n.value == 3 and request.config.getoption('--devices') is None"
    done = session(tests, "--cuda-sim-devices=3")
    assert done.outcomes == {"test_count": "PASSED"}, done.text
    # Without --cuda-sim, no option is added but that one.
    done = session("def test_it(): pass", command=[sys.executable, "-m", "pytest", "-p", "cuda_sim.pytest_plugin", "--devices=7"])
    assert done.outcomes == {"test_it": "PASSED"}, done.text


def test_runtime_takes_no_path(session):
    done = session("def test_it(): ctypes.CDLL('libcudart.so.13')", "--runtime", "test_it.py")
    assert done.outcomes == {"test_it": "PASSED"}, done.text


def test_refusals(session, tmp_path):
    done = session("def test_it(): pass", "--schedule=lasy")
    assert done.returncode == 2 and "expected --schedule=" in done.stderr
    done = session("def test_it(): pass", "--races=maybe")
    assert done.returncode not in (0, 1) and "--races" in done.stderr
    (tmp_path / "program.py").write_text("import sys, pytest\nsys.exit(pytest.main(['-p', 'cuda_sim.pytest_plugin', '--cuda-sim']))")
    done = session("def test_it(): pass", command=[sys.executable, "program.py"])
    assert done.returncode == 4 and "pytest was called by a program" in done.stderr and "run --print=exit -- PROGRAM" in done.stderr


def test_under_the_command(session, tmp_path):
    """A session that the command started already has the driver."""
    command = [COMMAND, "run", "--print=exit", "--devices=2", "--", sys.executable, "-m", "pytest"]
    command += ["-p", "cuda_sim.pytest_plugin", "--cuda-sim"]
    assert session(TESTS, command=command).outcomes == OUTCOMES
    done = session(TESTS, "--devices=4", command=command)
    assert done.returncode == 4 and "--devices=4" in done.stderr
    # A program that calls pytest is started so.
    (tmp_path / "program.py").write_text("import sys, pytest\nsys.exit(pytest.main(['-p', 'cuda_sim.pytest_plugin', '--cuda-sim', '-rA']))")
    done = session("def test_racy(): race()", command=[*command[:6], "program.py"])
    assert done.outcomes == {"test_racy": "FAILED"}, done.text


def test_help(session):
    done = session("", "--help")
    assert done.returncode == 0 and all(f"--{name}" in done.stdout for name in ("races", "schedule", "host-threads", "report"))
    done = session("", command=[sys.executable, "-m", "pytest", "-p", "cuda_sim.pytest_plugin", "--help"])
    assert "--cuda-sim " in done.stdout and "--schedule" not in done.stdout
    assert "cuda_sim(races=None" in session("", "--markers").stdout


def test_options_are_those_of_the_command():
    """In the same words; without those that make no sense for a session."""
    sys.path.insert(0, str(PLUGIN))
    try:
        from cuda_sim.pytest_plugin import OWN_OPTIONS, run_options
    finally:
        sys.path.remove(str(PLUGIN))
    usage = subprocess.run([COMMAND, "--help"], capture_output=True, text=True).stdout
    words = set(re.findall(r"^        --([a-z-]+)", usage, re.M))
    assert OWN_OPTIONS < words and words - OWN_OPTIONS == set(run_options())
