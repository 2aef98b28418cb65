"""The recipes, filled for archives of these sources and run as far as they can be without a package index.

`make recipes` runs this.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import fill
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERSION = fill.version()
MAJOR = re.search(r"ABI_MAJOR: i32 = (\d+)", (ROOT / "src/abi/version.rs").read_text())[1]
BIN = pathlib.Path(sys.executable).parent
# What is tested is the recipes: an optimized library would take a minute for each.
QUICKLY = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_NET_OFFLINE": "true",
}


def run(*command, check=True, **more):
    environment = {**os.environ, **QUICKLY, "PATH": f"{BIN}:{os.environ['PATH']}", **more.pop("env", {})}
    environment.pop("CARGO_TARGET_DIR", None)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, **more)
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def pack(archive, folder):
    with tarfile.open(archive, "w:xz", preset=0) as tar:
        tar.add(folder, folder.name)
    return archive


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """A folder as a release has it: the sources, and the files of `make install`."""
    folder = tmp_path_factory.mktemp("release")
    made = ROOT / f"dist/libcai-{VERSION}.tar.xz"
    if made.exists() and os.environ.get("CAI_DIST"):
        for path in (ROOT / "dist").glob("libcai-*.tar.xz"):
            shutil.copy(path, folder)
        return folder
    tree = folder / f"libcai-{VERSION}"
    for name in run("git", "ls-files", cwd=ROOT).stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("interop/", "fuzz/", "docs/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    pack(folder / f"libcai-{VERSION}.tar.xz", tree)
    prefix = folder / f"libcai-{VERSION}-x86_64-linux-gnu"
    build = folder / "build"
    run("cmake", "-S", tree, "-B", build, "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DCMAKE_INSTALL_LIBDIR=lib",
        "-DCAI_BUILD_EXAMPLES=OFF")  # fmt: skip
    run("cmake", "--build", build)
    run("cmake", "--install", build)
    pack(folder / f"libcai-{VERSION}-x86_64-linux-gnu.tar.xz", prefix)
    return folder


@pytest.fixture(scope="session")
def recipes(release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    run(
        sys.executable, ROOT / "packaging/fill.py", "--url", release.as_uri(),
        "--source", release / f"libcai-{VERSION}.tar.xz",
        "--binary", release / f"libcai-{VERSION}-x86_64-linux-gnu.tar.xz", folder,
    )  # fmt: skip
    for path in folder.rglob("*"):
        assert path.is_dir() or not re.search(r"@[A-Z0-9_]+@(?<!@PRIVATE_DIR@)(?<!@OUTPUT@)", path.read_text()), path
    return folder


def needed(program):
    return run("readelf", "-d", program).stdout


def test_cmake_takes_the_binary_archive(recipes, tmp_path):
    assert "Warning" not in run("cmake", "-S", recipes / "cmake", "-B", tmp_path, "-G", "Ninja").stderr
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "mine").stdout.startswith(f"libcai {VERSION}: ")
    assert f"[libcai.so.{MAJOR}]" in needed(tmp_path / "mine")


@pytest.mark.parametrize("shared", [True, False])
def test_conan(recipes, tmp_path, shared):
    home = {"CONAN_HOME": str(tmp_path / "conan")}
    run("conan", "profile", "detect", env=home)
    done = run(
        "conan", "create", recipes / "conan", "--version", VERSION, "--no-remote", "-o", f"libcai/*:shared={shared}",
        "-c", "tools.cmake.cmaketoolchain:generator=Ninja", env=home,
    )  # fmt: skip
    assert f"libcai {VERSION}: " in done.stdout + done.stderr


MESON = """
project('mine', 'c')
cai = dependency('cai', version: '>=0.10')
mine = executable('mine', 'mine.c', dependencies: cai)
plugin = shared_module('plugin', 'plugin.c', dependencies: cai, gnu_symbol_visibility: 'hidden', name_prefix: '')
test('mine', mine)
"""


def test_meson(recipes, release, tmp_path):
    project = tmp_path / "mine"
    shutil.copytree(recipes / "meson", project / "subprojects")
    (project / "meson.build").write_text(MESON)
    shutil.copy(recipes / "cmake/mine.c", project)
    shutil.copy(ROOT / "capi-tests/package/extension.c", project / "plugin.c")
    # Meson takes an archive from this folder, and compares its sum.
    (project / "subprojects/packagecache").mkdir()
    shutil.copy(release / f"libcai-{VERSION}.tar.xz", project / "subprojects/packagecache")
    build = tmp_path / "build"
    run("meson", "setup", build, project, "--buildtype=release", env={"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": "/none"})
    run("meson", "compile", "-C", build)
    assert run(build / "mine").stdout.startswith(f"libcai {VERSION}: ")
    run("meson", "test", "-C", build)
    assert "[libcai" not in needed(build / "mine") and "NODELETE" in needed(build / "plugin.so")
    names = run("nm", "-D", "--defined-only", build / "plugin.so").stdout
    assert " cai_" not in names and "rust" not in names
    # Nothing is linked again when nothing has changed.
    assert "Linking" not in run("meson", "compile", "-C", build).stdout


def test_cargo_c(tmp_path):
    if not shutil.which("cargo-cinstall"):
        pytest.skip("cargo-c is not installed")
    run("cargo-cinstall", "cinstall", "--release", "--locked", "-p", "libcai-c", "--prefix=/usr", "--libdir=lib",
        f"--destdir={tmp_path}", "--target-dir", tmp_path / "target", cwd=ROOT)  # fmt: skip
    lib = tmp_path / "usr/lib"
    headers = {path.relative_to(ROOT) for path in (ROOT / "include").rglob("*.*")}
    assert {path.relative_to(tmp_path / "usr") for path in (tmp_path / "usr/include").rglob("*.*")} == headers
    dynamic = needed(lib / "libcai.so")
    assert f"[libcai.so.{MAJOR}]" in dynamic and "NODELETE" in dynamic
    flags = run("pkg-config", "--cflags", "--libs", "cai", env={
        "PKG_CONFIG_PATH": str(lib / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}).stdout.split()  # fmt: skip
    program = tmp_path / "mine"
    run("cc", ROOT / "packaging/cmake/mine.c", "-o", program, *flags)
    assert run(program, env={"LD_LIBRARY_PATH": str(lib)}).stdout.startswith(f"libcai {VERSION}: ")


@pytest.mark.parametrize("schema, files", [
    ("github-workflows", [".github/workflows/ci.yml", ".github/workflows/dist.yml"]),
    ("github-issue-forms", [f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "idea", "library")]),
    ("github-issue-config", [".github/ISSUE_TEMPLATE/config.yml"]),
    ("citation-file-format", ["CITATION.cff"]),
])  # fmt: skip
def test_files_of_the_repository(schema, files):
    run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *(ROOT / file for file in files))
