"""The Python package as strangers use it: a wheel, installed; from CMake, pkg-config, a setup.py and a compiler's
command line; the source distribution and the editable install."""

import json
import os
import pathlib
import re
import shlex
import shutil
import stat
import sys
import tarfile
import zipfile

import abi_symbols
import pytest
from commands import BIN, CLANG, ROOT, TRAPS, VERSION, copy_of_builds, run
from test_package import MAJOR, PACKAGE, build_and_run

# Cargo builds where it has built before. The build requirements are those of this environment.
SHARED = f"--config-settings=cmake.define.CAI_CARGO_TARGET_DIR={ROOT / 'target'}"


def pip(*arguments, **more):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, **more)


def build_wheel(source, folder, *options, **more):
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", folder, *options, source, **more)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"), SHARED)


@pytest.fixture(scope="session")
def site(wheel, tmp_path_factory):
    """Installed, into a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("in stalled") / "site"
    pip("install", "--no-deps", "--target", folder, wheel)
    return folder


@pytest.fixture
def cai(site, tmp_path):
    """`python -m libcai`, from somewhere else."""

    def command(*arguments, check=True):
        return run(sys.executable, "-m", "libcai", *arguments, check=check, env={"PYTHONPATH": str(site)}, cwd=tmp_path)

    return command


def test_what_is_in_it(wheel):
    assert wheel.name == f"libcai-{VERSION}-py3-none-linux_{os.uname().machine}.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename for info in archive.infolist()}
        assert not any(stat.S_ISLNK(info.external_attr >> 16) for info in archive.infolist())
        texts = {name: archive.read(name).decode() for name in files if name.endswith((".cmake", ".pc", "libcai.so"))}
        metadata = archive.read(f"libcai-{VERSION}.dist-info/METADATA").decode()
    assert {"libcai/_abi.py", "libcai/include/cai/cai.cdef", "libcai/include/cai/cai.pxd"} < files
    assert {"libcai/py.typed", "libcai/_native.pyi"} < files
    folder = ROOT / "python"
    sources = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in str(path)}
    headers = {f"libcai/{name}" for name in abi_symbols.HEADERS}
    package = {f"libcai/lib/cmake/cai/{name}.cmake" for name in ("caiConfig", "caiConfigVersion", "caiTargets")}
    libraries = {f"libcai/lib/{name}" for name in (f"libcai.so.{MAJOR}", "libcai.so", "libcai.a", "pkgconfig/cai.pc")}
    about = {f"libcai-{VERSION}.dist-info/{name}" for name in (
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE-MIT", "licenses/LICENSE-APACHE",
        "licenses/LICENSE-THIRD-PARTY")}  # fmt: skip
    assert files == sources | headers | package | libraries | about
    # Nothing remembers where it was built.
    assert len(texts) == 5
    for name, text in texts.items():
        for place in (str(ROOT), "/tmp", "/usr/local", str(pathlib.Path.home())):
            assert place not in text, (name, place)
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert "Requires-Python: >=3.9" in metadata and [line.split()[1] for line in required] == ["cuda-sim>=0.9;", "pytest>=7;", "ray>=2.55;"], required
    assert "License-Expression: MIT OR Apache-2.0" in metadata


def test_the_options(cai, site):
    package = site / "libcai"
    expected = {
        "--cmakedir": package / "lib/cmake/cai",
        "--pkgconfigdir": package / "lib/pkgconfig",
        "--includedir": package / "include",
        "--libdir": package / "lib",
        "--library": package / f"lib/libcai.so.{MAJOR}",
        "--version": VERSION,
    }
    for option, value in expected.items():
        assert cai(option).stdout == f"{value}\n"
    assert cai("--version", "--libdir").stdout == f"{VERSION} {package / 'lib'}\n"
    assert (package / "include/cai/cai.h").exists() and (package / "lib/pkgconfig/cai.pc").exists()
    assert cai("--json", "--version", check=False).returncode == 2
    help_text = cai("--help").stdout
    assert all(option in help_text for option in (*expected, "--cflags", "--libs", "--static", "inspect"))


def test_the_module(site):
    # From the root of the repository, whose folders are not the package.
    code = """if True:
        import sys
        before = set(sys.modules)
        import libcai
        assert not {"ctypes", "numpy"} & (set(sys.modules) - before)
        print(libcai.__file__, libcai.cmakedir(), libcai.includedir(), libcai.libdir(), libcai.pkgconfigdir(),
              libcai.library(), libcai.__version__, libcai.load().cai_abi_version() >> 16, sep="\\n")
        """
    done = run(sys.executable, "-c", code, cwd=ROOT, env={"PYTHONPATH": str(site)})
    *places, version, major = done.stdout.splitlines()
    assert all(place.startswith(str(site)) for place in places)
    assert (version, major) == (VERSION, MAJOR)
    assert run(sys.executable, "-c", "import libcai", cwd=ROOT, check=False).returncode == 1


def test_from_the_sources():
    """Where nothing was built, that is said."""
    environment = {"PYTHONPATH": str(ROOT / "python")}
    done = run(sys.executable, "-m", "libcai", "--libdir", check=False, env=environment)
    assert done.returncode == 1 and "not installed" in done.stderr and "Traceback" not in done.stderr


def test_the_report(cai, site):
    assert cai().stdout.startswith(f"libcai {VERSION}\n")
    found = json.loads(cai("--json").stdout)["libcai"]
    library = str(site / f"libcai/lib/libcai.so.{MAJOR}")
    assert found["version"] == VERSION and found["package"] == str(site / "libcai")
    assert found["library"] == {"path": library, "version": VERSION, "abi": f"{MAJOR}.0"}


def test_inspect(cai):
    done = cai("inspect", "numpy:zeros(3)", "--json", check=False)
    found = json.loads(done.stdout)
    assert found["type"] == "numpy.ndarray" and found["library"].endswith(f"lib/libcai.so.{MAJOR}")
    assert all(protocol["library"]["status"].startswith("CAI_") for protocol in found["protocols"])


# Differences that are none, for stubtest.
NO_DIFFERENCES = r"""
libcai\._native\.view  # a function whose __self__ is a class
libcai\._native\.\w+\.__(release_)?buffer__  # attributes since CPython 3.12
libcai\.(_arrow|_export)\._loaded  # functools.cache
libcai\._arrow\._(Batch|DeviceStream|HostStream|Schema)\.\w+  # fields of ctypes
libcai\.(_report\.State|_rules\.(Level|Severity)|testing\._report\.Status)  # stubtest expects a Union
libcai\.testing\._driver\.find  # functools.cache
"""

TYPED = """
import libcai

class Floats:
    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {}
    def __dlpack__(self, **options: object) -> object:
        return libcai.export(self).__dlpack__()
    def __dlpack_device__(self) -> tuple[int, int]:
        return libcai.export(self).__dlpack_device__()

def use(array: libcai.ArrayLike, stream: libcai.StreamLike | None = None) -> libcai.View:
    with libcai.view(array, stream, readonly=True) as view:
        numbers: tuple[int, tuple[int, ...], tuple[int, ...] | None] = view.ptr, view.shape, view.strides
        print(numbers, libcai.view(view, -1).dtype)
    return view

class Stream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 1

use(Floats(), Stream())
use(libcai.export(Floats()), 1)
libcai.view(bytearray(4)).release()
found: libcai.Inspection = libcai.inspect(Floats(), library=False)
findings: list[libcai.Finding] = found.findings
for finding in findings:
    print(finding.severity, found["__dlpack__"].state)
libcai.load().cai_abi_version()

use("text")  # wrong
use(bytearray(4))  # wrong
use(Floats(), "text")  # wrong
libcai.view(array=Floats())  # wrong
libcai.view(Floats()).adress  # wrong
libcai.inspekt  # wrong
libcai.inspect(1, library=True)  # wrong
if finding.severity == "severe":  # wrong
    pass
"""


def test_the_checks(cai, site, tmp_path):
    """`libcai.testing` tests itself where it is installed."""
    env = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "libcai.testing", env=env, cwd=tmp_path)
    assert " passed" in done.stdout
    assert "0 faults" in cai("check", "numpy:zeros").stdout
    assert "libcai = libcai.__main__:_run" in next(site.glob("*.dist-info/entry_points.txt")).read_text()


def test_types(site, tmp_path):
    """The types are those of the implementation, and type checkers find them in the installed package."""
    env = {"PYTHONPATH": str(site), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    allowed = tmp_path / "allowed"
    allowed.write_text(NO_DIFFERENCES)
    run(sys.executable, "-m", "mypy.stubtest", "libcai", "--allowlist", allowed, env=env, cwd=tmp_path)
    (tmp_path / "use.py").write_text(TYPED)
    words = ["--strict", "--python-version=3.10", "--no-error-summary", "use.py"]
    done = run(sys.executable, "-m", "mypy", *words, env=env, cwd=tmp_path, check=False)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    expected = {number for number, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# wrong")}
    assert found == expected, done.stdout + done.stderr


def test_find_package(cai, tmp_path):
    build_and_run(tmp_path / "build", "-DCAI_FROM=find_package", f"-Dcai_DIR={cai('--cmakedir').stdout.strip()}")


LINKERS = {**{name: ["gcc", f"-fuse-ld={name}"] for name in ("bfd", "gold", "lld")}, "zig": [*CLANG, "cc", TRAPS]}


@pytest.mark.parametrize("linker", LINKERS)
def test_pkg_config(cai, tmp_path, linker):
    """Linkers understand what stands in for a link. The static library: test_find_package."""
    if linker in ("gold", "lld") and not shutil.which(f"ld.{linker}"):
        pytest.skip(f"there is no ld.{linker}")
    folder, libdir = (cai(option).stdout.strip() for option in ("--pkgconfigdir", "--libdir"))
    flags = run("pkg-config", "--cflags", "--libs", "cai", env={"PKG_CONFIG_PATH": folder}).stdout
    program = tmp_path / "shared"
    run(*LINKERS[linker], PACKAGE / "consumer.c", "-o", program, *shlex.split(flags))
    assert f"[libcai.so.{MAJOR}]" in run("readelf", "-d", program).stdout
    assert run(program, cwd="/", env={"LD_LIBRARY_PATH": libdir}).stdout == f"ok {VERSION}\n"


def test_a_compiler(cai, tmp_path):
    """cc program.c $(python -m libcai --cflags --libs): without any variable afterwards."""
    flags = shlex.split(cai("--cflags", "--libs").stdout)
    program = tmp_path / "program"
    run("gcc", PACKAGE / "consumer.c", "-o", program, *flags)
    assert run(program, cwd="/").stdout == f"ok {VERSION}\n"


def test_a_compiler_and_the_static_library(cai, tmp_path):
    """With --static: a program, and an extension, which exports nothing of the library and stays mapped."""
    flags = shlex.split(cai("--cflags", "--libs", "--static").stdout)
    program, extension = tmp_path / "program", tmp_path / "extension.so"
    run("gcc", PACKAGE / "consumer.c", "-o", program, *flags)
    assert run(program, cwd="/").stdout == f"ok {VERSION}\n"
    run("gcc", "-shared", "-fPIC", PACKAGE / "consumer.c", "-o", extension, *flags)
    for binary in (program, extension):
        assert "libcai" not in run("readelf", "-d", binary).stdout
    assert "NODELETE" in run("readelf", "-d", extension).stdout
    assert " cai_" not in run("nm", "-D", "--defined-only", extension).stdout
    for wrong in (["--static"], ["--static", "--cflags"], ["--static", "inspect", "numpy:zeros(3)"]):
        assert cai(*wrong, check=False).returncode == 2


MODULE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cai/cai.h>
static PyObject *version(PyObject *self, PyObject *unused) { return PyUnicode_FromString(cai_version()); }
static PyMethodDef methods[] = {{"version", version, METH_NOARGS, ""}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "stranger", "", -1, methods};
PyMODINIT_FUNC PyInit_stranger(void) { return PyModule_Create(&module); }
"""


def test_setuptools(site, tmp_path):
    pytest.importorskip("setuptools")
    (tmp_path / "stranger.c").write_text(MODULE)
    (tmp_path / "setup.py").write_text("""
import libcai
from setuptools import Extension, setup
setup(name="stranger", version="1", ext_modules=[Extension("stranger", ["stranger.c"],
    include_dirs=[libcai.includedir()], library_dirs=[libcai.libdir()], libraries=["cai"],
    runtime_library_dirs=[libcai.libdir()])])
""")
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=tmp_path, env={"PYTHONPATH": str(site)})
    done = run(sys.executable, "-c", "import stranger; print(stranger.version())", cwd=tmp_path)
    assert done.stdout == f"{VERSION}\n"


def test_scikit_build_core(site, tmp_path):
    """A project that names libcai as a build requirement finds it by itself."""
    (tmp_path / "stranger.c").write_text(MODULE)
    (tmp_path / "pyproject.toml").write_text("""
[build-system]
requires = ["scikit-build-core", "libcai"]
build-backend = "scikit_build_core.build"
[project]
name = "stranger"
version = "1"
""")
    (tmp_path / "CMakeLists.txt").write_text("""
cmake_minimum_required(VERSION 3.18)
project(stranger LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(cai 0.10 CONFIG REQUIRED)
Python_add_library(stranger MODULE stranger.c WITH_SOABI)
target_link_libraries(stranger PRIVATE cai::cai_static)
install(TARGETS stranger DESTINATION .)
""")
    wheel = build_wheel(tmp_path, tmp_path / "out", env={"PYTHONPATH": str(site)})
    pip("install", "--no-deps", "--target", tmp_path / "site", wheel)
    done = run(
        sys.executable, "-c", "import stranger; print(stranger.version())", cwd="/", env={"PYTHONPATH": str(tmp_path / "site")}
    )
    assert done.stdout == f"{VERSION}\n"


def test_the_source_distribution(wheel, tmp_path):
    """A wheel from it holds what one from the repository holds; building writes nothing into the sources, and needs
    no network."""
    code = f"import scikit_build_core.build as b; print(b.build_sdist({str(tmp_path)!r}))"
    run(sys.executable, "-c", code, cwd=ROOT)
    archive = tmp_path / f"libcai-{VERSION}.tar.gz"
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    sources = {"Cargo.lock", "CMakeLists.txt", "src/lib.rs", "python/libcai/__init__.py"}
    made = {"include/cai/cai.cdef", "include/cai/cai.pxd", "include/cai/unstable.pxd", "python/libcai/_abi.py"}
    assert sources | made | {"LICENSE-MIT", "LICENSE-THIRD-PARTY"} <= names
    assert not any(name.startswith(("target/", "build/", ".git/")) for name in names)
    shutil.unpack_archive(archive, tmp_path)
    source = tmp_path / f"libcai-{VERSION}"
    before = sorted(source.rglob("*"))
    # What is compared is which files there are: an optimized library would take longer.
    options = (f"cmake.define.CAI_CARGO_TARGET_DIR={copy_of_builds(tmp_path / 'target')}", "cmake.build-type=Debug")
    settings = [f"--config-settings={option}" for option in options]
    built = build_wheel(source, tmp_path / "out", *settings, env={"CARGO_NET_OFFLINE": "true"})
    assert sorted(source.rglob("*")) == before
    with zipfile.ZipFile(built) as mine, zipfile.ZipFile(wheel) as theirs:
        assert mine.namelist() == theirs.namelist()


@pytest.fixture
def environment(tmp_path):
    """An environment of its own, with this one's packages for the build."""
    folder = tmp_path / "environment"
    made = run(sys.executable, "-m", "venv", "--without-pip", folder, check=False)
    if made.returncode:
        pytest.skip("this Python cannot make environments")
    return folder / "bin/python"


def test_editable(environment, tmp_path):
    """The Python files are those of the repository; what was built lies beside them in the environment."""
    where = run(environment, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    own = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    pip(
        "--python", environment, "install", "--no-deps", "--no-build-isolation", SHARED, "-e", ROOT, env={"PYTHONPATH": own}
    )
    code = "import libcai; print(libcai.__file__, libcai.library(), libcai.cmakedir(), libcai.__version__, sep='\\n')"
    done = run(environment, "-c", code, cwd=tmp_path)
    source, library, package, version = done.stdout.splitlines()
    assert pathlib.Path(source).parent == ROOT / "python/libcai" and version == VERSION
    assert library == f"{where}/libcai/lib/libcai.so.{MAJOR}" and package == f"{where}/libcai/lib/cmake/cai"
    assert not {path.suffix for path in (ROOT / "python/libcai").iterdir() if path.is_file()} - {".py", ".pyi", ".typed"}


def test_without_cargo(tmp_path):
    nowhere = {"PATH": f"{BIN}:/usr/bin:/bin", "CARGO_HOME": str(tmp_path), "HOME": str(tmp_path)}
    if any(pathlib.Path(folder, "cargo").exists() for folder in ("/usr/bin", "/bin")):
        pytest.skip("cargo is installed system-wide")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    done = run(*command, check=False, env=nowhere)
    assert done.returncode != 0
    said = re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert "libcai is written in Rust, and cargo was not found: install Rust 1.85 or newer." in said
