"""The examples, compiled by hand as their first lines say, and the demo on files of many kinds."""

import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()


def run(*command, check=True):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


OUTPUT = {
    "01_consume.c": "CAI_ERR_STREAM_ZERO\n  stream: found 0, .*\nsum 21\nthe data let go\n",
    "02_produce.c": "3 x 4 of <f8, bytes -128 to 32 around its data\n",
    "03_own_owner.c": "100 elements still there\nbuffer freed\n",
    "04_header_only.c": "3 elements, 1 references\n0 references\n",
    "05_view.cpp": "sum 21\ntypestr: found <f4, expected kind f of 8 bytes\n",
}


def test_every_example_is_tested():
    assert {path.name for path in (ROOT / "examples-c").glob("0*")} == set(OUTPUT)


@pytest.mark.parametrize("name", OUTPUT)
def test_example(tmp_path, name):
    compiler = ["g++", "-std=c++17"] if name.endswith("cpp") else ["gcc", "-std=c99"]
    (tmp_path / "libcai.so.0").symlink_to(ROOT / "target/release/libcai.so")
    library = [] if name == "04_header_only.c" else [ROOT / "target/release/libcai.so", f"-Wl,-rpath,{tmp_path}"]
    program = tmp_path / "program"
    run(*compiler, *STRICT, "-g", "-I", "include", f"examples-c/{name}", "-o", program, *library)
    assert re.fullmatch(OUTPUT[name], run(program).stdout)
    if shutil.which("valgrind"):
        run("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=all", program)


@pytest.fixture(scope="session")
def demo():
    """Built once, as `make demo` builds it; then run on a file."""
    run("make", "demo")

    def show(path, check=True):
        return run(
            ROOT / "build/venv/bin/python", "examples-c/demo/demo.py", "build/demo", path, check=check
        )

    return show


def row(output, name):
    """The columns of an array's row behind its name: typestr, then shape and strides, then the rest."""
    line = next(line for line in output.splitlines() if line.startswith(f"✓ {name}"))
    return line[22:]


def test_the_demo_itself(demo):
    done = run("make", "demo")
    output = done.stdout
    assert "temperatures.npy: float32, shape (7, 24)" in output
    assert len(re.findall("^✓", output, re.M)) == 6 and len(re.findall("^✗", output, re.M)) == 3
    for status in ("CAI_ERR_STREAM_ZERO", "CAI_ERR_SHAPE_NEGATIVE", "CAI_ERR_MASK_SHAPE"):
        assert status in output
    assert "3 owners made, 3 let go; NumPy's array is free." in output
    week = np.load(ROOT / "examples-c/demo/data/temperatures.npy")
    assert "168/168" in row(output, "as loaded") and f"{np.nanmean(week):.5g}" in row(output, "as loaded")
    assert f"{np.isfinite(week).sum()}/168" in row(output, "masked")
    backwards = week[::2, ::-1]
    assert f"{np.nanmean(backwards.astype(float)):.5g}" in row(output, "sliced")
    assert "[-92, 580)" in row(output, "sliced")


FILES = {
    "doubles": np.linspace(-1, 2, 30).reshape(5, 6),
    "fortran": np.asfortranarray(np.arange(24, dtype="<f4").reshape(4, 6)),
    "foreign order": np.arange(12, dtype=">i4").reshape(3, 4),
    "half": np.arange(9, dtype="<f2"),
    "booleans": np.array([[True, False, True]]),
    "five dimensions": np.arange(2 * 3 * 1 * 4 * 2, dtype="<u2").reshape(2, 3, 1, 4, 2),
    "no dimensions": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "one": np.zeros((1, 1, 1), "|i1"),
    "bytes": np.arange(256, dtype="|u1"),
}
NOT_NUMBERS = {
    "complex": np.arange(4, dtype="<c8"),
    "dates": np.array(["2018-06-13", "2026-11-20"], "<M8[D]"),
    "text": np.array(["ab", "cde"]),
    "raw": np.array([b"ab", b"cde"], "|V3"),
    "long double": np.arange(3, dtype=np.longdouble),
    "structured": np.array([(1, 2.5), (3, 4.5)], np.dtype([("a", "<i2"), ("b", "<f8")], align=True)),
    "nested": np.zeros(3, [("p", [("x", "<f4"), ("y", "<f4")]), (("title", "q"), "<i4", (2, 2))]),
}


@pytest.mark.parametrize("name", [*FILES, *NOT_NUMBERS])
def test_the_demo_on(demo, tmp_path, name):
    array = {**FILES, **NOT_NUMBERS}[name]
    path = tmp_path / "given file.npy"
    np.save(path, array)
    done = demo(path)
    assert "let go; NumPy's array is free." in done.stdout and "FAILED" not in done.stdout
    assert len(re.findall("^✓", done.stdout, re.M)) == 6
    loaded = row(done.stdout, "as loaded")
    assert loaded.startswith(array.dtype.str) and f"{array.size}/{array.size}" in loaded
    if name in FILES and array.size:
        wide = array.astype(float)
        for value in (wide.min(), wide.mean(), wide.max()):
            assert re.search(rf"\s{re.escape(f'{value:.5g}')}(\s|$)", loaded), (value, loaded)
    order = {(True, True): "C, F", (True, False): "C", (False, True): "F", (False, False): "-"}
    assert re.search(rf"[)-] +{order[array.flags.c_contiguous, array.flags.f_contiguous]} +rw", loaded) or array.ndim > 3


def test_the_demo_on_fields(demo, tmp_path):
    path = tmp_path / "s.npy"
    np.save(path, NOT_NUMBERS["structured"])
    output = demo(path).stdout
    assert re.search(r"\.a +<i2 +1 +2 +3\n", output) and re.search(r"\.b +<f8 +2.5 +3.5 +4.5\n", output)


def test_the_demo_refuses_what_is_no_array(demo, tmp_path):
    bad = tmp_path / "bad.npy"
    bad.write_bytes(b"\x93NUMPY garbage")
    for path in (bad, tmp_path / "missing.npy"):
        done = demo(path, check=False)
        assert done.returncode == 1 and "NumPy cannot load" in done.stderr
    np.savez(tmp_path / "several.npz", a=1, b=2)
    done = demo(tmp_path / "several.npz", check=False)
    assert done.returncode == 1 and "several arrays" in done.stderr
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    assert demo(tmp_path / "objects.npy", check=False).returncode == 1
    # A type whose name is longer than any typestr: the producer says so.
    np.save(tmp_path / "long.npy", np.zeros(2, "<M8[2147483647us]"))
    done = demo(tmp_path / "long.npy", check=False)
    assert done.returncode == 1 and "at most 15 characters" in done.stderr
