"""Other projects' readers of the array interface, replaced by this library: builds each and runs its own tests.

    python interop/ports/run.py FOLDER       with the interpreter of an environment that has what a port needs

A port is a folder here with what takes the place of files in the project's source package, which pip fetches into
FOLDER. Prints the lines of code of both, without comments and blank lines. Where one file replaces one, the difference is
written as a patch beside the sources.
"""

import ast
import difflib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))
from commands import CUDA_SIM  # noqa: E402

BUILT = ROOT / "target/release"


def run(*command, **more):
    env = {**os.environ, **more.pop("env", {})}
    done = subprocess.run([str(word) for word in command], env=env, **more)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command[:6])}: ended with {done.returncode}")


def code_lines(text):
    """Lines that are neither blank nor a comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


def fetch(name, version, folder):
    """A fresh copy of the sources."""
    package = folder / f"{name}-{version}.tar.gz"
    if not package.exists():
        run(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", name,
            "-d", folder, f"{name}=={version}")  # fmt: skip
    shutil.rmtree(folder / f"{name}-{version}", ignore_errors=True)
    with tarfile.open(package) as archive:
        archive.extractall(folder)
    return folder / f"{name}-{version}"


def write_patch(file, path, before, after):
    file.write_text("".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")))


def replace(name, sources, path, ours):
    before, after = (sources / path).read_text(), ours.read_text()
    write_patch(sources.parent / f"{name}.patch", path, before, after)
    (sources / path).write_text(after)
    print(f"{name}: {path}: {code_lines(before)} lines of code before, {code_lines(after)} after", flush=True)


def mpi4py(folder):
    sources, here = fetch("mpi4py", "4.1.2", folder), HERE / "mpi4py"
    replace("mpi4py", sources, "src/mpi4py/MPI.src/ascaibuf.pxi", here / "ascaibuf.pxi")
    programs = pathlib.Path(sys.executable).parent
    build = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MPICC": str(programs / "mpicc"),
        # Cython finds declarations in the path of modules.
        "PYTHONPATH": str(ROOT / "include"),
        "CFLAGS": f"-O0 -I{ROOT / 'include'}",
        "LDFLAGS": f"-L{BUILT} -Wl,--no-as-needed -lcai -Wl,-rpath,{folder}",
    }
    site = folder / "mpi4py-site"
    run(sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
        "--upgrade", "--target", site, sources, env=build)  # fmt: skip
    shutil.copy(here / "test_port.py", sources / "test")
    # Expects a TypeError for a `descr` that is no list, beside a typestr that needs none: this library ignores it.
    left_out = "not testDescrType"
    run(CUDA_SIM, "run", "--print=exit", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "test_port.py", "test_msgspec.py", "test_buffer.py", "test_p2p_buf.py", "test_cco_buf.py", "-k", left_out, cwd=sources / "test",
        env={"PYTHONPATH": str(site), "PATH": build["PATH"]})  # fmt: skip


def without(source, names):
    """A Python module without some of its functions, and what was left out."""
    lines, gone = source.splitlines(True), []
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            end = node.end_lineno
            while end < len(lines) and not lines[end].strip():
                end += 1
            gone += lines[node.lineno - 1 : end]
            del lines[node.lineno - 1 : end]
    return "".join(lines), "".join(gone)


def xgboost(folder):
    """Four functions of the Python package; its library stays as it is installed."""
    installed, here, site = pathlib.Path(importlib.util.find_spec("xgboost").origin).parent, HERE / "xgboost", folder / "xgboost-site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(installed, site / "xgboost", ignore=shutil.ignore_patterns("lib", "__pycache__"))
    (site / "xgboost/lib").symlink_to(installed / "lib")
    path, ours = site / "xgboost/_data_utils.py", (here / "_cai.py").read_text()
    before = path.read_text()
    functions = ("array_interface", "array_interface_dict", "cuda_array_interface", "cuda_array_interface_dict")
    after, gone = without(before, functions)
    first = "from ._typing import"
    assert after.count(f"\n{first}") == 1 and gone
    after = after.replace(f"\n{first}", f"\nfrom ._cai import {', '.join(functions)}\n{first}")
    path.write_text(after)
    (site / "xgboost/_cai.py").write_text(ours)
    write_patch(folder / "xgboost.patch", "xgboost/_data_utils.py", before, after)
    print(f"xgboost: _data_utils.py: {code_lines(gone)} lines of code before, {code_lines(ours) + 1} after", flush=True)
    # As an installed package lies.
    shutil.copytree(ROOT / "python/libcai", site / "libcai", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "libcai/lib").mkdir()
    (site / "libcai/lib/libcai.so.1").symlink_to(BUILT / "libcai.so")
    pytest = (CUDA_SIM, "run", "--print=exit", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--confcutdir={here}")
    run(*pytest, here / "test_assertions.py", here / "test_port.py", cwd=folder, env={"PYTHONPATH": str(site)})


def main(folder):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "libcai.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(BUILT / "libcai.so")
    mpi4py(folder)
    xgboost(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
