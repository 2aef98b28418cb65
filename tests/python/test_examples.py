"""The examples, compiled by hand as their first lines say, and the demo on files of many kinds."""

import re
import shutil
import sys

import numpy as np
import pytest
from commands import CUDA_SIM, LIBRARY, PYTHON, ROOT, SIM, STRICT, compile, run, simulated

pytestmark = pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")

OUTPUT = {
    "01_consume.c": "CAI_ERR_STREAM_ZERO\n  stream: found 0, .*\nsum 21\nthe data released\n",
    "02_produce.c": "3 x 4 of <f8, bytes -128 to 32 around its data\n",
    "03_own_owner.c": "100 elements still there\nbuffer freed\n",
    "04_header_only.c": "3 elements of <f4, 1 reference\n0 references\n",
    "05_view.cpp": "sum 21\ntypestr: found <f4, expected <f8\n",
}


# Those that need a driver run on the simulated one.
ON_A_DEVICE = {
    "06_streams.c": "driver: /.*\nconsumer: the sum is 3145728, expected 3145728\nproducer: buffer and stream are gone\n",
    "07_kernel.cu": "1 3 3\n",
    "09_two_processes.c": "server: the client has ended\nclient: the sum is 1024\nserver: the client is done\n"
    "server: the array is released\nserver: the memory holds 2\n",
}
ON_A_DEVICE["11_channel.c"] = ON_A_DEVICE["09_two_processes.c"]


def test_every_example_is_tested():
    extensions = {"08_python.c", "10_python_type.c"}
    assert {path.name for path in (ROOT / "examples-c").glob("[0-9]*")} == set(OUTPUT) | set(ON_A_DEVICE) | extensions


def test_extension_in_plain_c(tmp_path):
    flags = ["-std=c99", *STRICT, "-g", "-shared", "-isystem", PYTHON]
    compile("examples-c/08_python.c", tmp_path / "plain.so", *flags, cuda=True)
    for schedule in ("lazy", "eager", "threads"):
        done = simulated(sys.executable, "examples-c/demo/python.py", tmp_path, schedule=schedule)
        assert "sum of it: 18.0; of half of it, which another library made: 9.0" in done.stdout
        assert "ValueError: __cuda_array_interface__['shape'][1]: found -3" in done.stdout


USE_TYPE = """
import ctypes as c, sys
sys.path[:0] = sys.argv[1:5]
import cai_python as P, numpy
cuda, context = c.CDLL("libcuda.so.1"), c.c_void_p()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0), cuda.cuCtxSetCurrent(context)
from floats import Floats
from libcai.testing import check_producer
found = check_producer(lambda: Floats(12, 2.5), late=lambda: Floats(12, 2.5), library=sys.argv[5])
assert found.checker and found.count("pass") > 20, found
made = Floats(3, 2.5)
count = sys.getrefcount(made)
with P.take(made, protocols=[P.EXCHANGE]) as taken:
    assert sys.getrefcount(made) == count, "the owner is that of the memory"
    assert taken.array.data == made.__cuda_array_interface__["data"][0] and taken.array.stream_id
assert made.__dlpack_device__() == (2, 0)
print(numpy.from_dlpack(made, device="cpu"))
for count in 0, -1:
    try:
        raise SystemExit(Floats(count, 1.0))
    except ValueError as error:
        print(error)
"""


def test_type_in_plain_c(tmp_path):
    flags = ["-std=c99", *STRICT, "-g", "-shared", "-isystem", PYTHON]
    compile("examples-c/10_python_type.c", tmp_path / "floats.so", *flags, cuda=True)
    folders = [tmp_path, ROOT / "tests/python", ROOT / "python", ROOT / "cuda-sim/python"]
    for schedule in ("lazy", "eager", "threads"):
        done = simulated(sys.executable, "-c", USE_TYPE, *folders, LIBRARY, schedule=schedule)
        assert done.stdout == "[2.5 2.5 2.5]\n" + 2 * "expected a count of 1 to 2^30\n"


def build_on_a_device(name, tmp_path):
    standard = ["-std=c99"] if str(name).endswith(".c") else []
    return compile(ROOT / "examples-c" / name, tmp_path / "program", *standard, *STRICT, "-g", cuda=True)


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_example_on_a_device(tmp_path, name):
    program = build_on_a_device(name, tmp_path)
    for schedule in ("lazy", "eager", "threads"):
        done = run(SIM / "bin/cai-race", f"--schedule={schedule}", "--", program)
        assert re.fullmatch(ON_A_DEVICE[name], done.stdout)
        assert "R" not in done.stderr.replace("cai-race", "")


def test_the_example_that_forgets(tmp_path):
    program = build_on_a_device("06_streams.c", tmp_path)
    done = run(SIM / "bin/cai-race", "--", program, "forget", check=False)
    assert done.returncode == 66
    assert "rule R3" in done.stderr and "cai_array_consume_begin(array, " in done.stderr and "read_all" in done.stderr


def test_a_client_that_does_not_wait(tmp_path):
    """The race is found in a process that ends by _exit, whose status the server ignores."""
    source = (ROOT / "examples-c/09_two_processes.c").read_text()
    call = "    CAI(cai_unstable_array_copy_to_host("
    assert source.count(call) == 1
    nothing_pending = "    array.stream = CAI_STREAM_NONE, array.event = NULL, array.stream_id = 0;\n"
    (tmp_path / "racy.c").write_text(source.replace(call, nothing_pending + call))
    program = build_on_a_device(tmp_path / "racy.c", tmp_path)
    for schedule in ("lazy", "eager", "threads"):
        done = run(CUDA_SIM, "run", f"--schedule={schedule}", "--", program, check=False)
        assert done.returncode == 66 and "cuMemcpyDtoHAsync" in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("name", OUTPUT)
def test_example(tmp_path, name):
    standard = [] if name.endswith("cpp") else ["-std=c99"]
    library = None if name == "04_header_only.c" else LIBRARY
    program = compile(f"examples-c/{name}", tmp_path / "program", *standard, *STRICT, "-g", library=library)
    assert re.fullmatch(OUTPUT[name], run(program).stdout)
    if shutil.which("valgrind"):
        run("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=all", program)


def test_the_example_of_a_copied_header(tmp_path):
    """It needs cai/abi.h and nothing else, as the page about packaging promises."""
    (tmp_path / "cai").mkdir()
    shutil.copy(ROOT / "include/cai/abi.h", tmp_path / "cai")
    run("cc", "-std=c99", *STRICT, "-I", tmp_path, ROOT / "examples-c/04_header_only.c", "-o", tmp_path / "program")
    assert run(tmp_path / "program").stdout == OUTPUT["04_header_only.c"]


@pytest.fixture(scope="session")
def demo():
    """Built once, as `make demo` builds it; then run on a file."""
    run("make", "demo")

    def show(path, check=True):
        return run(
            ROOT / "build/venv/bin/python", "examples-c/demo/demo.py", "build/demo", path, check=check
        )

    return show


@pytest.mark.parametrize("name", ["producer", "consumer", "statistics", "table"])
def test_the_plugins_compile_without_warnings(tmp_path, name):
    compile(f"examples-c/demo/{name}.c", tmp_path / "object.o", "-std=c99", *STRICT, "-O2", "-fPIC", "-c")


def table(output, title):
    """The rows of a table as dictionaries by column. Columns lie where their heads do: two blanks apart."""
    lines = output[output.index(title) :].splitlines()[2:]
    head, body = lines[0], lines[2:]
    if "" in body:
        body = body[: body.index("")]
    words = [(word.start(), word.end()) for word in re.finditer(r"\S+( \S+)*", head)]
    rows = []
    for line in body:
        cells = {}
        # A cell reaches beyond its head on one side only, and two blanks part it from the next.
        for cell in re.finditer(r"[^\s✓]\S*( \S+)*", line[3:]):
            start, end = cell.start() + 3, cell.end() + 3
            at = next(w for w in words if w[0] < end and start < w[1])
            cells[head[slice(*at)]] = cell.group()
        rows.append(cells)
    return rows


def handed(output):
    return {row["array"]: row for row in table(output, "The arrays that the consumer accepted")}


def results(output):
    """(array, field) -> row; the field of an array's own row is ""."""
    found, array = {}, ""
    for row in table(output, "What it computed"):
        name = row["array"]
        if name == "...":
            continue
        array = array if name.startswith(".") else name
        found[array, name.lstrip(".") if name.startswith(".") else ""] = row
    return found


def assert_numbers(row, values):
    """Six digits, as the demo prints them; nothing where there are no numbers."""
    values = values.astype(float)
    values = values[~np.isnan(values)]
    if values.size == 0:
        assert "mean" not in row
        return
    for column, value in (("least", values.min()), ("mean", values.mean()), ("most", values.max())):
        assert np.isclose(float(row[column]), value, rtol=1e-5, atol=1e-12), (column, row, value)


def assert_let_go(done):
    made, gone = map(int, re.search(r"Owners: (\d+) made, (\d+) released; NumPy's array is free", done.stdout).groups())
    assert made == gone >= 2 and "FAILED" not in done.stdout


def test_the_demo_itself(demo):
    done = run("make", "demo")
    output = done.stdout
    assert "temperatures.npy: float32, shape (7, 24), in host memory" in output
    assert_let_go(done)
    for status in ("CAI_ERR_STREAM_ZERO", "CAI_ERR_SHAPE_NEGATIVE", "CAI_ERR_MASK_SHAPE"):
        assert len(re.findall(f"✗ .*{status}", output)) == 1
    assert output.count("✗") == 3
    week = np.load(ROOT / "examples-c/demo/data/temperatures.npy")
    rows, found = handed(output), results(output)
    assert list(rows) == ["as loaded", "sliced, backwards", "masked", "structured", "empty", "read-only"]
    sliced = rows["sliced, backwards"]
    assert (sliced["shape"], sliced["strides"], sliced["order"]) == ("(4, 24)", "(192, -4)", "-")
    assert sliced["bytes"] == "[-92, 580)" and sliced["stream"] == "none"
    assert [row["mode"] for row in rows.values()] == ["rw"] * 5 + ["r"]
    assert found["masked", ""]["valid"] == f"{np.isfinite(week).sum()} of 168"
    assert found["as loaded", ""]["remark"] == f"{np.isnan(week).sum()} NaN left out"
    for name in ("as loaded", "masked", "read-only"):
        assert_numbers(found[name, ""], week)
    assert_numbers(found["sliced, backwards", ""], week[::2, ::-1])
    assert_numbers(found["structured", "value"], week.ravel()[:24])
    assert_numbers(found["structured", "index"], np.arange(24))
    # The timelines come last.
    exchange, race = re.findall(r"^    producer: stream 6 +consumer: stream 7\n(.*?)\n\n", output, re.M | re.S)
    assert "stream 7 waits ──────▶\n" in exchange and "◀────── stream 6 waits" in exchange and "no wait" in race
    assert race.endswith("cuMemcpyDtoDAsync  ← race") and (ROOT / "build/demo/exchange.html").exists()
    # Nothing wider than a terminal, but what has the names of files.
    assert max(len(line) for line in output.splitlines() if "/" not in line) <= 80


FILES = {
    "doubles": np.linspace(-1, 2, 30).reshape(5, 6),
    "fortran": np.asfortranarray(np.arange(24, dtype="<f4").reshape(4, 6)),
    "foreign order": np.arange(12, dtype=">i4").reshape(3, 4),
    "foreign doubles": np.linspace(-1, 2, 30).astype(">f8"),
    "half": np.arange(9, dtype="<f2"),
    "not numbers": np.array([[np.nan, 1, np.nan], [2, np.inf, 5]]),
    "nothing but NaN": np.full(4, np.nan, "<f4"),
    "booleans": np.array([[True, False, True]]),
    "five dimensions": np.arange(2 * 3 * 1 * 4 * 2, dtype="<u2").reshape(2, 3, 1, 4, 2),
    "all dimensions": np.full((1,) * 64, 3.0),
    "no dimensions": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "huge and empty": np.zeros((2**40, 0)),
    "one": np.zeros((1, 1, 1), "|i1"),
    "bytes": np.arange(256, dtype="|u1"),
    "large numbers": np.array([-(2**62), 2**62, 5]),
}
NOT_NUMBERS = {
    "complex": np.arange(4, dtype="<c8"),
    "dates": np.array(["2018-06-13", "2026-11-20"], "<M8[D]"),
    "times": np.arange(3, dtype="<m8"),
    "text": np.array(["ab", "cde"]),
    "raw": np.array([b"ab", b"cde"], "|V3"),
    "long double": np.arange(3, dtype=np.longdouble),
}
FIELDS = {
    "structured": np.array([(1, 2.5), (3, 4.5)], np.dtype([("a", "<i2"), ("b", "<f8")], align=True)),
    "nested": np.array(
        [(([1, 2], [3, 4]), [[5, 6], [7, 8]]), (([9, 10], [11, 12]), [[13, 14], [15, 16]])],
        [("p", [("x", "<f4", (2,)), ("y", ">i2", (2,))]), (("title", "q"), "<i4", (2, 2))],
    ),
    "array of records": np.array([[([(1, 2), (3, 4)],), ([(5, 6), (7, 8)],)]], [("r", [("u", "|u1"), ("v", "<f4")], (2,))]),
    "holes": np.ones(5, {"names": ["a", "b"], "formats": ["|u1", "<f8"], "offsets": [3, 16], "itemsize": 40}),
    "names": np.ones(2, [('it\'s "q"\n\x1b[31m', "<f4"), ("温度", "<f4")]),
    "no records": np.zeros((0, 4), [("a", "<i2"), ("s", "|S3")]),
    "many": np.zeros(2, [(f"f{i}", "<i2") for i in range(300)]),
    "deep": np.ones(2, eval("[('a', " * 16 + "'<f4'" + ")]" * 16)),
}


# Nested fields, sub-arrays and arrays of records, each number of which is found.
LEAVES = {"structured": ["a", "b"], "nested": ["p.x", "p.y", "q"], "array of records": ["r.u", "r.v"], "holes": ["a", "b"]}


@pytest.mark.parametrize("name", [*FILES, *NOT_NUMBERS, *FIELDS])
def test_the_demo_on(demo, tmp_path, name):
    array = {**FILES, **NOT_NUMBERS, **FIELDS}[name]
    path = tmp_path / "given file.npy"
    np.save(path, array)
    done = demo(path)
    assert_let_go(done)
    assert "\x1b" not in done.stdout  # also of names that would steer a terminal
    rows, found = handed(done.stdout), results(done.stdout)
    loaded, result = rows["as loaded"], found["as loaded", ""]
    assert len(rows) == 6 and done.stdout.count("✗") == 3
    assert loaded["type"] == array.dtype.str and result["valid"] == f"{array.size} of {array.size}"
    order = {(True, True): "C, F", (True, False): "C", (False, True): "F", (False, False): "-"}
    assert loaded["order"] == order[array.flags.c_contiguous, array.flags.f_contiguous]
    if array.ndim < 6:
        assert loaded["shape"] == str(array.shape)
    if 0 < array.ndim < 6 and array.size > 0:
        assert loaded["strides"] == str(array.strides)
    if array.ndim > 0:
        sliced = array[::2, ..., ::-1] if array.ndim > 1 else array[::-1]
        assert found["sliced, backwards", ""]["valid"] == f"{sliced.size} of {sliced.size}"
    if name in FILES:
        assert_numbers(result, array)
        if array.ndim > 0:
            assert_numbers(found["sliced, backwards", ""], sliced)
        flat = array.ravel().astype(float)
        valid = ~np.isnan(flat) if array.dtype.kind == "f" else np.arange(array.size) % 7 != 6
        assert_numbers(found["masked", ""], flat[valid])
        assert found["masked", ""]["valid"] == f"{valid.sum()} of {array.size}"
    if name in NOT_NUMBERS:
        assert "mean" not in result
    if name in FIELDS:
        assert "mean" not in result and any(field for _, field in found)
        for field in LEAVES.get(name, []):
            values = array
            for part in field.split("."):
                values = values[part]
            assert found["as loaded", field]["valid"] == f"{values.size} of {values.size}"
            assert_numbers(found["as loaded", field], values)
            assert_numbers(found["sliced, backwards", field], values)
    if name not in FIELDS:
        assert found["structured", "index"]["valid"] == f"{min(array.size, 24)} of {min(array.size, 24)}"


def test_the_demo_refuses_what_is_no_array(demo, tmp_path):
    bad = tmp_path / "bad.npy"
    np.save(bad, np.zeros(3))
    good = bad.read_bytes()
    for content in (b"", good[:40], good.replace(b"(3,)", b"(-3,)")):
        bad.write_bytes(content)
        done = demo(bad, check=False)
        assert done.returncode == 1 and "NumPy cannot load" in done.stderr and "Traceback" not in done.stderr
    for path in (tmp_path / "missing.npy", tmp_path):
        done = demo(path, check=False)
        assert done.returncode == 1 and "NumPy cannot load" in done.stderr
    np.savez(tmp_path / "several.npz", a=1, b=2)
    done = demo(tmp_path / "several.npz", check=False)
    assert done.returncode == 1 and "several arrays" in done.stderr
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    assert demo(tmp_path / "objects.npy", check=False).returncode == 1
    np.save(tmp_path / "nothing.npy", np.zeros(3, "|V0"))
    done = demo(tmp_path / "nothing.npy", check=False)
    assert done.returncode == 1 and "elements of 0 bytes" in done.stderr
    # A type whose name is longer than any typestr: the producer says so.
    np.save(tmp_path / "long.npy", np.zeros(2, "<M8[2147483647us]"))
    done = demo(tmp_path / "long.npy", check=False)
    assert done.returncode == 1 and "at most 15 characters" in done.stderr
