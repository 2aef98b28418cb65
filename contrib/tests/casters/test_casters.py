"""The casters of pybind11 and nanobind, and the example extensions: built by CMake as adopters build them, and used
from Python on the simulated driver under several schedules. The tests are in inside.py and ages.py."""

import pathlib
import shutil
import sys

import cpp_ages
import pytest
from commands import CUDA_SIM, INCLUDES, PYTHON, ROOT, SITE, compile, linked, run

HERE = pathlib.Path(__file__).resolve().parent
CUDA = SITE / "nvidia/cu13"
LIBRARIES = ["pybind11", "nanobind"]

pytestmark = pytest.mark.skipif(not (PYTHON / "Python.h").exists(), reason="Python's headers are not installed")


def cmake(source, folder, *options):
    run("cmake", "-S", source, "-B", folder, "-G", "Ninja", *options)
    run("cmake", "--build", folder)


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    """Folders with the extensions."""
    folder = tmp_path_factory.mktemp("casters")
    library = folder / "cai"
    shared = ["-DCAI_BUILD_EXAMPLES=OFF", "-DCMAKE_BUILD_TYPE=Release", f"-DCAI_CARGO_TARGET_DIR={ROOT / 'target'}"]
    cmake(ROOT, library, *shared)
    options = [f"-Dcai_DIR={library}", f"-DCUDA_DIR={CUDA}", f"-DPython_EXECUTABLE={sys.executable}"]
    for name in LIBRARIES:
        asked = "--cmakedir" if name == "pybind11" else "--cmake_dir"
        options.append(f"-D{name}_DIR={run(sys.executable, '-m', name, asked).stdout.strip()}")
    cpp_ages.write(folder)
    options.append(f"-DLATER_DIR={folder}/later")
    # Nanobind's own twelve files as one.
    options += ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]
    cmake(HERE, folder / "casters", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=", *options)
    for name in LIBRARIES:
        cmake(ROOT / "examples-py" / name, folder / name, "-DCMAKE_BUILD_TYPE=Release", *options)
    return [folder / name for name in ("casters", *LIBRARIES)]


INSIDE = [*(("inside", schedule) for schedule in ("lazy", "eager", "threads", "random:7")), ("ages", "lazy")]


@pytest.mark.parametrize("file, schedule", INSIDE)
def test_on_the_simulated_driver(modules, file, schedule):
    """The race checker watches: one race or broken rule, and the exit code is 66. ages.py has extensions of two ages."""
    done = run(
        CUDA_SIM, "run", "--runtime=13", "--print=exit", f"--schedule={schedule}", "--",
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / f"{file}.py",
        env={"PYTHONPATH": ":".join(map(str, modules))},
    )  # fmt: skip
    assert " passed" in done.stdout and "skipped" not in done.stdout


USE = """
import casters_{library} as m
import libcai

class Floats:
    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {{}}

class Stream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 1

m.fill(Floats(), 3)
m.fill(Floats(), 3, stream=Stream())
m.fill(Floats(), 3, None)
m.fill_after(2, 3, m.buffer(4))
m.maybe(None)
m.named_copy(Floats(), Floats(), 1)
array: libcai.Array = m.echo(Floats())
number: int = m.size(array) + m.stream(array)
m.count([array, m.buffer(4)])

m.fill("text", 3)  # wrong
m.fill(Floats(), 3, stream="text")  # wrong
m.size(None)  # wrong
m.named_copy(Floats(), 5, 1)  # wrong
m.count([3])  # wrong
m.echo(Floats()).adress  # wrong
"""


@pytest.mark.parametrize("library", LIBRARIES)
def test_signatures_are_annotations(modules, library, tmp_path):
    """The stub that each library's generator makes of the docstrings is accepted by mypy, and finds wrong arguments."""
    name = f"casters_{library}"
    # As installed: pybind11-stubgen looks for the names in libcai.
    package = tmp_path / "site/libcai"
    shutil.copytree(ROOT / "python/libcai", package)
    (package / "lib").mkdir()
    (package / "lib/libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
    # The type of the attribute that cai::publish sets has no name in Python.
    (tmp_path / "patterns").write_text("__cai_exchange_api__$:\n\n")
    tools = {
        "pybind11": ["pybind11_stubgen", "--exit-code", "-o", tmp_path],
        "nanobind": ["nanobind.stubgen", "-q", "-O", tmp_path, "-p", tmp_path / "patterns", "-m"],
    }
    run(sys.executable, "-m", *tools[library], name, env={"PYTHONPATH": f"{modules[0]}:{package.parent}"})
    source = USE.format(library=library)
    (tmp_path / "use.py").write_text(source)
    env = {"MYPYPATH": f"{tmp_path}:{ROOT / 'python'}", "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    # Overloads that differ in the types of elements are the same for type checkers; both generators write **kwargs and
    # Callable without types.
    ignored = ("overload-cannot-match", "no-untyped-def", "type-arg")
    words = ["--strict", "--python-version=3.10", "--no-error-summary", *(f"--disable-error-code={code}" for code in ignored)]
    done = run(sys.executable, "-m", "mypy", *words, "use.py", f"{name}.pyi", env=env, cwd=tmp_path, check=False)
    found = [line.split(":")[1] for line in done.stdout.splitlines() if ": error: " in line]
    expected = [str(number) for number, line in enumerate(source.splitlines(), 1) if line.endswith("# wrong")]
    assert found == expected, done.stdout + done.stderr


def test_the_examples_hold_all_they_need(modules):
    for folder, name in zip(modules[1:], LIBRARIES):
        extension = next(folder.glob(f"cut_{name}*.so"))
        dynamic = run("readelf", "-d", extension).stdout
        assert "[libcai" not in dynamic and "NODELETE" in dynamic
        names = run("nm", "-D", "--defined-only", extension).stdout
        assert f"PyInit_cut_{name}" in names and " cai_" not in names


@pytest.mark.parametrize("name", LIBRARIES)
def test_views_in_containers_do_not_compile(tmp_path, name):
    """They would outlive their arrays. Those of arrays do: casters.cpp has some."""
    stl = {"pybind11": "#include <pybind11/stl.h>", "nanobind": "#include <nanobind/stl/vector.h>"}[name]
    module = {"pybind11": "PYBIND11_MODULE", "nanobind": "NB_MODULE"}[name]
    source = tmp_path / "module.cpp"
    source.write_text(
        f"#include <cai/{name}.hpp>\n{stl}\n"
        f'{module}(x, m) {{ m.def("f", [](std::vector<cai::view<float, 1>> v) {{ return v.size(); }}); }}\n'
    )
    done = run("g++", "-std=c++17", "-fsyntax-only", *INCLUDES, *includes(), source, check=False)
    assert done.returncode and "views would outlive their arrays" in done.stderr, done.stderr


def includes():
    """The headers of both libraries and of Python, for the compiler."""
    return [word for folder in [PYTHON, *(SITE / name / "include" for name in LIBRARIES)] for word in ("-isystem", folder)]


BOTH = """
template <class Module> void bind(Module &m) { cai::def(m, "size", [](cai::view<float, 1> v) { return v.size(); }); }
template void bind(pybind11::module_ &);
template void bind(nanobind::module_ &);
"""


def test_both_in_one_file(tmp_path):
    """`cai::def` finds the library of the module."""
    source = tmp_path / "both.cpp"
    source.write_text("".join(f"#include <cai/{name}.hpp>\n" for name in LIBRARIES) + BOTH)
    compile(source, tmp_path / "both.o", "-Wall", "-Wextra", "-Werror", *includes(), "-c", "-fsyntax-only")


MIXED = """
#include <cai/pybind11.hpp>
PYBIND11_MODULE(mixed, m) {
    m.def("size", [](cai::view<float, 1> v) { return v.size(); });
    m.def("size_on", [](cai::view<float, 1> v, cai::stream) { return v.size(); });
    m.def("handle", [](cai::stream s) { return s.get(); });
}
"""
USE_MIXED = """
import mixed, pytest
class Empty:
    __cuda_array_interface__ = {"version": 3, "shape": (0,), "typestr": "<f4", "data": (0, False)}
assert mixed.size_on(Empty(), 1) == 0 and mixed.handle(2) == 2
with pytest.raises(ValueError, match="stream: found the default stream"):
    mixed.size(Empty())
with pytest.raises(ValueError, match="stream: found None"):
    mixed.handle(None)
"""


def test_files_of_different_default_streams(tmp_path):
    """The casters are shared by the files of an extension: neither default would be right."""
    objects = []
    for name, text, options in (
        ("module", MIXED, []),
        ("other", "#include <cai/pybind11.hpp>\n", ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]),
    ):
        source = tmp_path / f"{name}.cpp"
        source.write_text(text)
        objects.append(compile(source, source.with_suffix(".o"), "-O0", "-fPIC", *options, *includes(), "-c"))
    run("g++", "-shared", *objects, *linked(), "-o", tmp_path / "mixed.so")
    run(sys.executable, "-c", USE_MIXED, env={"PYTHONPATH": str(tmp_path)})
