"""Other projects' readers of the array interface, replaced by this library: builds each and runs its own tests.

    python interop/ports/run.py FOLDER       with the interpreter of an environment that has what a port needs

A port is a folder here with the file that takes the place of one in the project's source package, which pip fetches into
FOLDER. Prints the lines of code of both files, without comments and blank lines, and writes the difference as a patch
beside the sources.
"""

import difflib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILT = ROOT / "target/release"


def run(*command, **more):
    env = {**os.environ, **more.pop("env", {})}
    done = subprocess.run([str(word) for word in command], env=env, **more)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command[:6])}: ended with {done.returncode}")


def code_lines(text):
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


def replace(name, sources, path, ours):
    before, after = (sources / path).read_text(), ours.read_text()
    patch = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    (sources.parent / f"{name}.patch").write_text("".join(patch))
    (sources / path).write_text(after)
    print(f"{name}: {path}: {code_lines(before)} lines of code before, {code_lines(after)} after", flush=True)


def mpi4py(folder):
    sources, here = fetch("mpi4py", "4.1.2", folder), HERE / "mpi4py"
    replace("mpi4py", sources, "src/mpi4py/MPI.src/ascaibuf.pxi", here / "ascaibuf.pxi")
    link = folder / "libcai.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(BUILT / "libcai.so")
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
    run(BUILT / "cuda-sim", "run", "--print=exit", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "test_port.py", "test_msgspec.py", "test_buffer.py", "test_p2p_buf.py", "test_cco_buf.py", "-k", left_out, cwd=sources / "test",
        env={"PYTHONPATH": str(site), "PATH": build["PATH"]})  # fmt: skip


def main(folder):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    mpi4py(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
