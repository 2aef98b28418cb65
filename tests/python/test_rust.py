"""The crate for Rust programs: a library that uses it exports nothing of it, cargo can pack it, and it exchanges
arrays with plug-ins in C and with NumPy."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import tempfile

import numpy
import pytest
from commands import CUDA_SIM, ROOT, VERSION, compile, copy_of_builds, run

CARGO = os.environ.get("CARGO", "cargo")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The example, as a stranger's project: of its own workspace, with the versions that this one has tested."""
    folder = tmp_path_factory.mktemp("stranger") / "extension"
    shutil.copytree(ROOT / "examples-rs/extension", folder, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    shutil.copy(ROOT / "Cargo.lock", folder)
    manifest = (folder / "Cargo.toml").read_text()
    assert "../../rust" in manifest
    (folder / "Cargo.toml").write_text(manifest.replace("../../rust", str(ROOT / "rust")))
    return folder


@pytest.fixture(scope="module")
def extension(project):
    target = ROOT / "target/examples-rs"
    if not target.exists():
        copy_of_builds(target)
    run(CARGO, "build", "-q", cwd=project, env={"CARGO_TARGET_DIR": str(target)})
    return target / "debug/libextension.so"


def test_a_library_exports_its_own_functions_only(extension):
    lines = run("nm", "-D", "--defined-only", extension).stdout.splitlines()
    assert sorted(line.split()[-1] for line in lines) == ["extension_device_copy", "extension_row_sums"]
    dynamic = run("readelf", "-d", extension).stdout
    assert "SONAME" not in dynamic and "libcai" not in dynamic and "libcuda" not in dynamic


def test_the_c_library_exports_all():
    """cargo alone builds it as well, with the feature that is on by default."""
    features = run(CARGO, "tree", "-q", "-p", "libcai-c", "-e", "features,no-dev", "-f", "{p} {f}", cwd=ROOT).stdout
    assert "libcai-c" in features.splitlines()[0] and "exports" in features.splitlines()[0]
    features = run(CARGO, "tree", "-q", "-p", "libcai", "-e", "normal", "-f", "{p} {f}", cwd=ROOT).stdout
    assert "libcai-c" in features and "exports" not in features


@pytest.mark.parametrize("cuda", ["11040", "13010"])
def test_versions_of_cuda(project, tmp_path, cuda):
    """A program chooses the version of cudarc's types, also an older or a newer one than the library, and panics may end it."""
    manifest = (project / "Cargo.toml").read_text()
    folder = tmp_path / "chosen"
    shutil.copytree(project, folder)
    (folder / "Cargo.toml").write_text(
        manifest.replace("cuda-12090", f"cuda-{cuda}") + '\n[profile.dev]\npanic = "abort"\n'
    )
    run(CARGO, "check", "-q", cwd=folder, env={"CARGO_TARGET_DIR": str(ROOT / "target/examples-rs")})


def test_samples_of_the_page(project, tmp_path):
    """Whole programs of the book, each as a program of the stranger's; the first prints the page's output."""
    folder = tmp_path / "page"
    shutil.copytree(project, folder)
    page = (ROOT / "docs/src/rust.md").read_text()
    samples = re.findall(r"```rust\n(.*?)```", page, re.S)
    # pyo3 is not among the packages that this workspace has tested.
    samples = [sample for sample in samples if "pyo3" not in sample]
    assert samples
    (folder / "src/bin").mkdir()
    for index, sample in enumerate(samples):
        (folder / f"src/bin/sample{index}.rs").write_text(sample)
    for index in range(len(samples)):
        command = [CARGO, "run", "-q", "--bin", f"sample{index}"]
        done = run(*command, cwd=folder, env={"CARGO_TARGET_DIR": str(ROOT / "target/examples-rs")})
        if index == 0:
            assert done.stdout == re.search(r"```text\n(.*?)```", page, re.S)[1]


def test_arrays_of_numpy(extension):
    library = ctypes.PyDLL(str(extension))
    row_sums = library.extension_row_sums
    row_sums.argtypes, row_sums.restype = [ctypes.py_object], ctypes.py_object
    table = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    for array in (table, table.T, table[::-1, ::2], table[:0], table[0], numpy.float32(3).reshape(())):
        sums = numpy.asarray(row_sums(array))
        assert sums.tolist() == (array.sum(axis=-1).tolist() if array.ndim else array.tolist())
    with pytest.raises(BufferError, match="typestr: found <f8, expected <f4"):
        row_sums(table.astype(float))
    with pytest.raises(TypeError):
        row_sums(3)


def test_plug_ins_in_c(tmp_path):
    """Those of the demo, as `make demo` builds them, but that they are linked to this folder's library."""
    for name, more in [("producer", []), ("consumer", ["statistics", "table"])]:
        sources = [ROOT / f"examples-c/demo/{part}.c" for part in [name, *more]]
        compile(sources[0], tmp_path / f"{name}.so", "-std=c99", "-shared", "-fvisibility=hidden", *sources[1:], "-lm")
    command = [CARGO, "run", "-q", "-p", "libcai", "--example", "c_plugin", "--"]
    out = run(*command, tmp_path / "producer.so", tmp_path / "consumer.so", cwd=ROOT).stdout
    assert "while the plug-in has them: 2" in out and "after it has closed: 1" in out
    assert re.search(r"squares, a Vec +<f8 +12 of 12 +0 +42.1667 +121", out)
    assert re.search(r"^as loaded: .*shape: \[2, 3\].* sum 21$", out, re.M)
    assert re.search(r"^sliced, backwards: .*strides: \[48, -8\].* sum 6$", out, re.M)
    assert "forgot its stream: CAI_ERR_STREAM_ZERO: stream: found 0" in out


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_slices_of_cudarc(schedule):
    """The example on the simulated driver, whose race checker ends it with a status if an order is missing."""
    run(CARGO, "build", "-q", "-p", "libcai", "--example", "streams", "--features", "cudarc", cwd=ROOT)
    command = [CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", "--"]
    out = run(*command, ROOT / "target/debug/examples/streams").stdout
    assert out.splitlines() == [
        "shared: [7.0, 7.0, 7.0]",
        "written by the second library: [9.0, 9.0, 9.0]",
        "refused: typestr: found <f4, expected <i4",
        "refused: flags: found CAI_ARRAY_READONLY, expected a writable array, because flags contain CAI_ACCESS_WRITE",
        "copied to the host: [9.0, 9.0, 9.0]",
    ]


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:7", "threads"])
def test_what_slices_of_cudarc_need(schedule):
    """The tests that need a driver, on the simulated one."""
    build = [CARGO, "test", "-p", "libcai", "--features", "cudarc", "--test", "slices", "--no-run"]
    messages = map(json.loads, run(*build, "--message-format=json", cwd=ROOT).stdout.splitlines())
    [program] = [message["executable"] for message in messages if message.get("executable")]
    # One test at a time: all of them use the default streams of one context.
    run(CUDA_SIM, "run", f"--schedule={schedule}", "--devices=2", "--", program, "--test-threads=1")


def test_what_must_not_compile():
    """The samples of the module for cudarc. Only a compiler that takes unstable options compares the codes of errors."""
    command = [CARGO, "test", "-q", "-p", "libcai", "--features", "cudarc", "--doc", "cudarc"]
    out = run(*command, cwd=ROOT, env={"RUSTC_BOOTSTRAP": "1"}).stdout
    codes = re.findall(r"^/// ```compile_fail,(E\d+)$", (ROOT / "rust/src/cudarc.rs").read_text(), re.M)
    assert len(codes) == len(set(codes)) == 6 and "running 6 tests" in out


@pytest.mark.parametrize("package, folder, names", [
    ("libcai-c", "", ("src/", "include/", "contrib/include/", "build.rs", "README.md", "LICENSE-")),
    ("libcai", "rust/", ("src/", "examples/", "benches/", "README.md", "LICENSE-")),
])  # fmt: skip
def test_what_cargo_packs(package, folder, names):
    """What the repository has of the package, and the declarations that are made, although files of the same names lie below build/, as those of other
    projects do after `make interop`."""
    with tempfile.TemporaryDirectory(prefix="packed", dir=ROOT / "build") as planted:
        for name in ("README.md", "LICENSE-MIT", "build.rs", "src/lib.rs", "include/cai/cai.h"):
            path = pathlib.Path(planted) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        packed = set(run(CARGO, "package", "--list", "--allow-dirty", "-p", package, cwd=ROOT).stdout.split())
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", f"{folder}.", cwd=ROOT).stdout.split()
    if package == "libcai-c":
        tracked += ["include/cai/cai.cdef", "include/cai/cai.pxd", "include/cai/unstable.pxd"]
    expected = {name.removeprefix(folder) for name in tracked if name.removeprefix(folder).startswith(names)}
    assert packed - {"Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"} == expected
    assert {"src/lib.rs", "README.md", "LICENSE-MIT", "LICENSE-APACHE"} <= packed


def test_cargo_packs_both(tmp_path):
    """Each package is built from what is packed. Until cargo 1.90, a package whose dependency is in no registry cannot
    be built in this way."""
    number = tuple(map(int, re.search(r"(\d+)\.(\d+)", run(CARGO, "--version").stdout).groups()))
    if number < (1, 90):
        pytest.skip("this cargo packs one package at a time")
    run(CARGO, "package", "-q", "--allow-dirty", "-p", "libcai-c", "-p", "libcai", "--target-dir", tmp_path, cwd=ROOT,
        env={"CARGO_PROFILE_DEV_DEBUG": "0"})  # fmt: skip
    for name in ("libcai-c", "libcai"):
        listed = run("tar", "-tf", tmp_path / f"package/{name}-{VERSION}.crate").stdout.split()
        files = {line.partition("/")[2] for line in listed}
        assert {"Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"} <= files
        assert not any(file.startswith(("target", "build/", "tests")) for file in files)
