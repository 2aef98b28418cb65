"""The page "Find a race in ten minutes": its programs run, and print what it says."""

import json
import os
import re
import subprocess

import pytest

from commands import BUILT, COMMAND, HEADERS, PLUGIN, SIM, run

PAGE = (SIM / "docs/find_races.md").read_text()
# A Python that has Numba: `make test-python NUMBA=...`.
NUMBA = os.environ.get("NUMBA")


def sample(name):
    """Returns a program, which has its name in its first line, as on the page."""
    (text,) = re.findall(rf"```\w+\n((?://|#) {re.escape(name)}\n.*?)```", PAGE, re.S)
    return text


def expected(after):
    """Returns the lines that the page shows next, without what differs between runs."""
    text = PAGE[PAGE.index(after) :]
    return [clean(line) for line in re.search(r"```text\n(.*?)```", text, re.S)[1].splitlines()]


def clean(line):
    line = re.sub(r"0x[0-9a-f]+", "0x", line)
    return re.sub(r"\S*/", "", line).strip()


@pytest.fixture(params=["built", "installed"])
def command(request, tmp_path):
    """The command where cargo builds it, and as installed by make."""
    if request.param == "built":
        return [COMMAND, "run"]
    run("make", "install", "PREFIX=/opt", f"DESTDIR={tmp_path}", timeout=300)
    return [tmp_path / "opt/bin/cuda-sim", "run"]


def test_cpp(tmp_path, command):
    def build(text):
        (tmp_path / "blur.cpp").write_text(text)
        flags = ["-std=c++17", "-g", "-Wall", "-Wextra", "-Werror", "-isystem", HEADERS["13"]]
        run("g++", *flags, "blur.cpp", "-o", "blur", BUILT / "libcudart.so.13", cwd=tmp_path)

    command = [*command, "--runtime", "--report=races.html", "./blur"]
    build(sample("blur.cpp"))
    done = run(*command, check=False, cwd=tmp_path)
    assert done.returncode == 66
    # All lines, so that the stacks are as on the page. Their order differs from that of a terminal.
    printed = [clean(line) for line in (done.stdout + done.stderr).splitlines()]
    assert sorted(printed) == sorted(expected("races.html ./blur"))
    assert "for what came before the first access" in (tmp_path / "races.html").read_text()
    # As the page mends it.
    record = "    cudaEventRecord(loaded, load);\n"
    copy = "    cudaMemcpyAsync(frame, image.data(), bytes, cudaMemcpyHostToDevice, load);\n"
    build(sample("blur.cpp").replace(record + copy, copy + record))
    done = run(*command, cwd=tmp_path)
    assert done.stdout == "1\n" and done.stderr == ""


@pytest.mark.skipif(not NUMBA, reason="no Python with Numba is given")
def test_suite(tmp_path):
    (tmp_path / "test_pipeline.py").write_text(sample("test_pipeline.py"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CUDASIM_"))}
    words = ["-m", "pytest", "-p", "cuda_sim.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [NUMBA, *words, "--cuda-sim", "--report=races.sarif"], cwd=tmp_path,
        env={**inherited, "PYTHONPATH": str(PLUGIN), "COLUMNS": "200"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = [clean(line) for line in done.stdout.splitlines()]
    for line in expected("pytest --cuda-sim"):
        assert any(one.startswith(line) for one in found), f"{line}\n\n{done.stdout}"
    (result,) = json.loads((tmp_path / "races.sarif").read_text())["runs"][0]["results"]
    assert result["properties"]["test"] == "test_pipeline.py::test_unordered"
    # Of the test, not of Numba or the interpreter.
    places = [one["physicalLocation"] for one in (*result["locations"], *result["relatedLocations"])]
    assert [place["artifactLocation"]["uri"] for place in places] == ["test_pipeline.py"] * 2
    assert [place["region"]["startLine"] for place in places] == [15, 10]


def test_options_on_the_page_exist():
    usage = run(COMMAND, "--help").stdout
    for option in set(re.findall(r"(?:cuda-sim run|--cuda-sim)[^\n`]*?(--[a-z-]+)", PAGE)):
        assert option in usage or option == "--cuda-sim", option
