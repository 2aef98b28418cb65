"""The package `cuda-sim` as strangers use it: built by pip, installed, from its command and from pytest."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from commands import HEADERS, SIM, TARGET

VERSION = re.search(r'^version = "([\d.]+)"', (SIM / "Cargo.toml").read_text(), re.M)[1]


def run(*command, check=True, **more):
    # Nothing is inherited from the pytest that runs this: neither its options nor what it loads.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON", "CUDASIM_"))}
    environment = {**inherited, "CARGO_NET_OFFLINE": "true", **more.pop("env", {})}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, **more)
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def pip(*arguments, **more):
    # Nothing is downloaded: there is no index.
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, **more)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built with isolation, in which nothing is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-index", "-w", folder, SIM, env={"CARGO_TARGET_DIR": str(TARGET)}, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("in stalled") / "site"
    pip("install", "--no-index", "--no-deps", "--target", folder, wheel)
    return folder


def test_what_is_in_it(wheel):
    assert wheel.name == f"cuda_sim-{VERSION}-py3-none-linux_{os.uname().machine}.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
        assert archive.testzip() is None
        assert not any(str(SIM).encode() in archive.read(name) for name in files if name.endswith((".py", "METADATA")))
        metadata = archive.read(f"cuda_sim-{VERSION}.dist-info/METADATA").decode()
    libraries = {f"cuda_sim/lib/cuda-sim/{name}" for name in (
        "driver/libcuda.so.1", "driver/libcuda.so", "driver/libcudasim_host.a", "shadow/libcuda.so.1", "libcudasim_threads.so", "libcudasim_redirect.so",
        "runtime/libcudart.so.12", "runtime/libcudart.so.13")}  # fmt: skip
    sources = {f"cuda_sim/{path.name}" for path in (SIM / "python/cuda_sim").iterdir() if path.is_file()}
    assert "cuda_sim/py.typed" in sources
    assert files == libraries | sources | {"cuda_sim/bin/cuda-sim", "cuda_sim/include/cudasim.h", "cuda_sim/include/cudasim_mpi.c"} | {
        f"cuda_sim-{VERSION}.dist-info/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE-MIT", "licenses/LICENSE-APACHE",
                     "licenses/LICENSE-THIRD-PARTY")
    }
    # The command needs no other package.
    assert re.findall(r"^Requires-Dist: (.*)", metadata, re.M) == ['pytest>=8; extra == "pytest"']


def test_the_command(site, tmp_path):
    done = run(site / "bin/cuda-sim", "--version", env={"PYTHONPATH": str(site)})
    assert done.stdout.startswith(f"cuda-sim {VERSION} ")
    module = [sys.executable, "-m", "cuda_sim"]
    package = site / "cuda_sim"
    folder = run(*module, "libdir", env={"PYTHONPATH": str(site)}, cwd=tmp_path).stdout.strip()
    assert pathlib.Path(folder).resolve() == package / "lib/cuda-sim/driver"
    code = "import cuda_sim; print(cuda_sim.__version__, cuda_sim.command(), cuda_sim.libdir(), cuda_sim.includedir(), sep='\\n')"
    done = run(sys.executable, "-c", code, env={"PYTHONPATH": str(site)}, cwd=tmp_path)
    expected = [VERSION, package / "bin/cuda-sim", package / "lib/cuda-sim/driver", package / "include"]
    assert done.stdout.splitlines() == list(map(str, expected))


def test_a_program(site, tmp_path):
    """Compiled against the package, and run by its command, with and without the runtime library."""
    from test_cuda_sim import RUNTIME

    (tmp_path / "program.c").write_text(
        '#include <cuda.h>\n#include <cudasim.h>\nint main(void) { return cuInit(0) || !cudasim_present(); }\n'
    )
    (tmp_path / "runtime.c").write_text(RUNTIME)
    package = site / "cuda_sim"
    headers = ["-isystem", HEADERS["13"], "-I", package / "include"]
    run("gcc", "-g", *headers, tmp_path / "program.c", "-o", tmp_path / "program", "-L", package / "lib/cuda-sim/driver", "-lcuda", "-ldl")
    run("gcc", "-g", *headers, tmp_path / "runtime.c", "-o", tmp_path / "runtime", package / "lib/cuda-sim/runtime/libcudart.so.13")
    command = [site / "bin/cuda-sim", "run", "--print=exit"]
    environment = {"PYTHONPATH": str(site)}
    run(*command, tmp_path / "program", env=environment)
    run(*command, "--runtime", tmp_path / "runtime", env=environment)
    assert run(*command, "--runtime", tmp_path / "runtime", "race", check=False, env=environment).returncode == 66


def test_the_plug_in(site, tmp_path):
    """Found by its entry point."""
    from test_cuda_sim_pytest import DRIVER

    (tmp_path / "world.py").write_text(DRIVER)
    (tmp_path / "test_it.py").write_text("from world import *\ndef test_racy(): race()\ndef test_fine(): stream()")
    environment = {"PYTHONPATH": f"{site}:{tmp_path}"}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = run(*words, "--cuda-sim", "--schedule=threads", check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout and "1 race in this test" in done.stdout
    assert "--cuda-sim" not in run(*words, "-p", "no:cuda_sim", "--help", env=environment, cwd=tmp_path).stdout


def backend(code, folder, **more):
    return run(sys.executable, "-c", f"import cuda_sim_build as b; {code}", check=False, cwd=folder, **more)


def test_the_source_distribution(wheel, tmp_path):
    """It holds the sources and nothing that was built."""
    done = backend(f"print(b.build_sdist({str(tmp_path)!r}))", SIM / "python")
    assert done.returncode == 0, done.stderr
    name = f"cuda_sim-{VERSION}"
    with tarfile.open(tmp_path / f"{name}.tar.gz") as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    assert {"Cargo.toml", "pyproject.toml", "PKG-INFO", "Makefile", "entry_points.txt", "docs/entry_points.md", "docs/driver_rules.md", "cuda-sim.1", "python/cuda_sim/__init__.py"} <= names
    assert not any(re.search(r"__pycache__|^target|\.so$|\.o$", one) for one in names)


def test_a_wheel_of_the_source_distribution(wheel, tmp_path):
    """pip makes it in an empty folder. Not optimized: it is the same code."""
    done = backend(f"print(b.build_sdist({str(tmp_path)!r}))", SIM / "python")
    assert done.returncode == 0, done.stderr
    (tmp_path / "empty").mkdir()
    quick = {f"CARGO_PROFILE_RELEASE_{name}": value for name, value in (("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "0"))}
    archive = tmp_path / f"cuda_sim-{VERSION}.tar.gz"
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index", "--no-cache-dir", "-w", "made", archive]
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, cwd=tmp_path / "empty",
        env={**environment, "CARGO_NET_OFFLINE": "true", **quick},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (made,) = (tmp_path / "empty/made").iterdir()
    with zipfile.ZipFile(made) as new, zipfile.ZipFile(wheel) as old:
        assert made.name == wheel.name and set(new.namelist()) == set(old.namelist())
        new.extractall(tmp_path / "site")
    command = tmp_path / "site/cuda_sim/bin/cuda-sim"
    command.chmod(0o755)
    assert run(command, "--version").stdout.startswith(f"cuda-sim {VERSION} ")


def test_what_is_lacking_is_said(tmp_path):
    (tmp_path / "bin").mkdir()
    done = backend(f"b.build_wheel({str(tmp_path)!r})", SIM / "python", env={"PATH": str(tmp_path / "bin")})
    assert done.returncode == 1 and "cargo is not in the PATH" in done.stderr and "Traceback" not in done.stderr
