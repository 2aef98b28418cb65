"""Python lines in reports, of the interpreter that runs these tests."""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from commands import COMMAND, PLUGIN

HERE = pathlib.Path(__file__).parent
MINOR = sys.version_info[1]


def sim(folder, *arguments, options=(), env=None):
    """Under a command that keeps no time limit of its own, with the interpreter of the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CUDASIM_", "PYTEST_"))}
    paths = [str(PLUGIN), *inherited.get("PYTHONPATH", "").split(":")]
    environment = {**inherited, "PYTHONPATH": ":".join(filter(None, paths)), **(env or {})}
    command = [COMMAND, "run", "--host-threads=ordered", *options, "--", sys.executable, *arguments]
    return subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_frames(tmp_path):
    """They are those of `sys._getframe`, wherever the call is."""
    done = sim(tmp_path, HERE / "python_frames.py", options=["--races=warn"])
    assert done.returncode == 0 and "wrong: 0 of" in done.stdout, done.stdout + done.stderr[-3000:]


DRIVER = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
cu.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
context = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cu.cuCtxSetCurrent(context) == 0

def stream():
    made = ctypes.c_void_p()
    assert cu.cuStreamCreate(ctypes.byref(made), 1) == 0
    return made

def memory():
    made = ctypes.c_uint64()
    assert cu.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(64)) == 0
    return made.value

def fill(p, on):
    assert cu.cuMemsetD8Async(p, 1, 64, on) == 0

def each(run):
    for _ in range(2):
        run()
"""
PROGRAM = """
from made import driver
one, two = driver.stream(), driver.stream()

def load(p):
    driver.fill(p, one)

def store(p):
    driver.fill(p,   # the copy
                two)

def work(n, p):
    if n:
        return work(n - 1, p)
    load(p)
    driver.each(lambda: store(p))

work(BEFORE, driver.memory())
"""


@pytest.fixture
def racy(tmp_path):
    """Runs the program, which calls the driver through an installed package. Returns what was printed, and the reports."""
    package = tmp_path / "env/site-packages/made"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "driver.py").write_text(DRIVER)
    (tmp_path / "work").mkdir()

    def run(text, *options, env=None):
        (tmp_path / "work/race.py").write_text(text)
        names = ["r.json", "r.xml", "r.sarif", "r.html"]
        path = {"PYTHONPATH": f"{package.parent}", **(env or {})}
        done = sim(tmp_path / "work", "race.py", options=[*options, *(f"--report={name}" for name in names)], env=path)
        texts = {name[2:]: (tmp_path / "work" / name).read_text() for name in names}
        (line,) = [json.loads(line) for line in texts["json"].splitlines()]
        return done, line["races"], xml.etree.ElementTree.fromstring(texts["xml"]), json.loads(texts["sarif"]), texts["html"]

    return run


def side(text, title):
    """The lines of a side in the printed report, without what is C."""
    found = []
    for title in (f"  {title}", f"  rest of the stack, {title.split()[0].strip(',:')}:\n"):
        lines = text[text.index(title) :].splitlines()[1:]
        found += itertools.takewhile(lambda line: line.startswith("      "), lines)
    return [re.sub(r"; .*", "", line[6:]) for line in found]


def test_reports(racy):
    done, (race,), suites, log, page = racy(PROGRAM.replace("BEFORE", "0"))
    assert done.returncode == 66 and "cuda-sim: 1 race found" in done.stderr, done.stderr
    assert side(done.stderr, "first: write") == [
        "race.py:6   load      driver.fill(p, one)",
        "race.py:15  work      load(p)",
        "race.py:18  <module>  work(0, driver.memory())",
        "through made/driver.py:20 fill",
    ]
    report = done.stderr[done.stderr.index("cuda-sim: race on") :].splitlines()
    assert "race.py:6 " in report[2] and "race.py:9 " in report[4], report
    name = "work.<locals>.<lambda>" if MINOR > 10 else "<lambda>"
    assert side(done.stderr, "second, not") == [
        f"race.py:9   {'store':{len(name)}}  driver.fill(p,   # the copy",
        f"race.py:16  {name}  driver.each(lambda: store(p))",
        f"race.py:16  {'work':{len(name)}}  driver.each(lambda: store(p))",
        f"race.py:18  {'<module>':{len(name)}}  work(0, driver.memory())",
        "through made/driver.py:20 fill",
    ]
    frame = next(frame for frame in race["second"]["frames"] if frame.get("language") == "python" and not frame["library"])
    assert (frame["line"], frame["function"], pathlib.Path(frame["file"]).name) == (9, "store", "race.py")
    assert race["second"]["frames"][0].get("language") is None
    case = suites.find("testsuite/testcase")
    assert (case.get("file"), case.get("line")) == ("race.py", "9") and "driver.fill(p, one)" in case.find("failure").text
    (result,) = log["runs"][0]["results"]
    for found, at, function in ((result["locations"], 9, "store"), (result["relatedLocations"], 6, "load")):
        place = found[0]["physicalLocation"]
        assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("race.py", at)
        assert found[0]["logicalLocations"][0]["fullyQualifiedName"] == function
    assert "race.py:6   load      driver.fill(p, one)</li>" in page and page.count("<details>") == 2

    # In another place of the file, it is the same finding; behind more frames, and from several callers, too.
    done, (race,), _, moved, _ = racy("\n\n" + PROGRAM.replace("BEFORE", "3"))
    assert moved["runs"][0]["results"][0]["partialFingerprints"] == result["partialFingerprints"]
    assert "race.py:16  work      return work(n - 1, p)  (3 times)" in side(done.stderr, "first: write"), done.stderr
    more = PROGRAM.replace("work(BEFORE, driver.memory())", "work(0, driver.memory()); work(1, driver.memory())\nwork(2, driver.memory())")
    done, (race,), _, _, page = racy(more)
    said = "the same lines from 2 other pairs of callers"
    assert race["more_callers"] == 2 and said in race["text"] and said in page


def test_two_places_are_two_findings(racy):
    text = PROGRAM.replace("BEFORE", "0").replace("    load(p)\n", "    load(p); driver.fill(p, one)\n")
    text = text.replace("each(lambda: store(p))", "fill(p, two); load(p); driver.fill(p, two)")
    done, races, _, log, _ = racy(text)
    lines = {tuple(int(re.search(r"race\.py:(\d+)", race[name]["stack"][0])[1]) for name in ("first", "second")) for race in races}
    assert lines == {(15, 16), (6, 16), (16, 6)} and len(races) == 3, lines
    found = [result["partialFingerprints"]["cudaSimPlaces/v2"] for result in log["runs"][0]["results"]]
    assert len(set(found)) == 3


def test_all_frames(racy):
    done, (race,), *_ = racy(PROGRAM.replace("BEFORE", "0"), "--native")
    lines = side(done.stderr, "first: write")
    through = [line for line in lines if line.startswith("through ")]
    assert lines[0].startswith("race.py:6 ") and through[-1] == "through made/driver.py:20 fill" and len(through) > 1
    assert all(not re.search("PyEval|libpython", line) for line in through)


def test_pytest(tmp_path):
    """Where the test is, and nothing of pytest."""
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "test_it.py").write_text("import driver\n\ndef race():\n    p = driver.memory()\n    for _ in range(2):\n        driver.fill(p, driver.stream())\n\ndef test_it():\n    race()\n")
    words = ["-m", "pytest", "-p", "cuda_sim.pytest_plugin", "-p", "no:cacheprovider", "-q", "--cuda-sim", "test_it.py"]
    done = sim(tmp_path, *words, options=["--print=exit"])
    assert done.returncode == 1, done.stdout + done.stderr
    lines = side(done.stdout, "first: write")
    assert lines[:3] == [
        "driver.py:20  fill     assert cu.cuMemsetD8Async(p, 1, 64, on) == 0",
        "test_it.py:6  race     driver.fill(p, driver.stream())",
        "test_it.py:9  test_it  race()",
    ] and len(lines) <= 4, lines  # fmt: skip


# Versions that this interpreter is not: those with a table, one that would publish it, a preview, and a later one.
# For that of 3.9, threads of 3.15 look like threads without frames, of which nothing is said.
CLAIMS = [f"3.{minor}.1" for minor in (9, 12) if abs(minor - MINOR) > 1 and (minor, MINOR) != (9, 15)]
CLAIMS += [f"3.{14 if MINOR == 15 else 15}.1", "3.12.0rc1", "3.16.0"]


def reason(racy, folder, code, **env):
    """Why there are no Python frames, where a function of the program's is replaced."""
    library = folder / "instead.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-xc", "-", "-o", library, "-ldl"], input=code, text=True, check=True)
    text = PROGRAM.replace("BEFORE", "0") + "load(p := driver.memory()); driver.fill(p, two)\n"
    done, races, *_ = racy(text, env={"LD_PRELOAD": str(library), **env})
    assert done.returncode == 66 and races, (env, done.stderr)
    frames = [frame for race in races for name in ("first", "second") for frame in race[name]["frames"]]
    assert frames and not [frame for frame in frames if frame.get("language")], env
    assert sum("note" in race for race in races) == 1
    (said,) = re.findall(r"no Python lines: (.*)", done.stderr)
    return said


# The function of a program that contains its interpreter comes before that of a library, so the search for it is replaced.
# The last call is a jump, so that the C library sees who searches.
ANOTHER_VERSION = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *version(void) { return getenv("CLAIM"); }

void *dlsym(void *module, const char *name) {
    void *(*search)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return strcmp(name, "Py_GetVersion") == 0 ? (void *)version : search(module, name);
}
"""


def test_interpreters_that_are_not_known(racy, tmp_path):
    """They have no Python frames and are not read wrongly; one sentence says so."""
    for claim in CLAIMS:
        said = reason(racy, tmp_path, ANOTHER_VERSION, CLAIM=f"{claim} (main)")
        assert re.fullmatch(rf"(the frames of )?CPython {re.escape(claim)} (is|are) not (known|as expected)", said), said


def test_memory_that_may_not_be_read(racy, tmp_path):
    """As in a container that forbids the call."""
    said = reason(racy, tmp_path, "long process_vm_readv(void) { return -1; }")
    assert said == "this process may not call process_vm_readv"
