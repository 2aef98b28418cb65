"""The recipes, filled for archives of these sources and run as far as they can be without a package index.

`make recipes` runs this. docs/src/packaging.md lists what was not run.
"""

import filecmp
import json
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
ARCHITECTURE = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "other")  # as vcpkg names it
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


def test_the_programs_are_the_same():
    one, other = "packaging/cmake/mine.c", "packaging/conan/test_package/test_package.c"
    assert filecmp.cmp(ROOT / one, ROOT / other, shallow=False)


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
cai = dependency('cai', version: '>=0.9')
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


def test_conda(recipes):
    """Parsed and rendered. Building needs a channel."""
    import rattler_build

    recipe = rattler_build.Stage0Recipe.from_file(recipes / "conda/recipe.yaml")
    versions = {"c_compiler": ["gcc"], "rust_compiler": ["rust"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.17"]}
    (variant,) = recipe.render(rattler_build.VariantConfig(versions))
    rendered = variant.recipe.to_dict()
    assert rendered["package"] == {"name": "libcai", "version": VERSION}
    assert rendered["about"]["license"] == "MIT OR Apache-2.0"


# What vcpkg's own functions do, as its documentation describes them, in a few lines.
VCPKG = """
cmake_minimum_required(VERSION 3.18)
function(vcpkg_download_distfile variable)
  cmake_parse_arguments(PARSE_ARGV 1 a "" "FILENAME;SHA512" "URLS")
  file(DOWNLOAD "${a_URLS}" "${WORK}/${a_FILENAME}" EXPECTED_HASH "SHA512=${a_SHA512}")
  set(${variable} "${WORK}/${a_FILENAME}" PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive variable)
  cmake_parse_arguments(PARSE_ARGV 1 a "" "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT "${a_ARCHIVE}" DESTINATION "${WORK}/src")
  file(GLOB folder "${WORK}/src/*")
  set(${variable} "${folder}" PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 a "" "SOURCE_PATH" "OPTIONS")
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${a_SOURCE_PATH}" -B "${WORK}/build" -G Ninja ${a_OPTIONS}
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_SYSTEM_NAME=Linux
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --target install COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 a "" "PACKAGE_NAME;CONFIG_PATH" "")
  file(RENAME "${CURRENT_PACKAGES_DIR}/${a_CONFIG_PATH}" "${CURRENT_PACKAGES_DIR}/share/${a_PACKAGE_NAME}")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake")
  set(config "${CURRENT_PACKAGES_DIR}/share/${a_PACKAGE_NAME}/${a_PACKAGE_NAME}Config.cmake")
  file(READ "${config}" text)
  string(REPLACE [[${CMAKE_CURRENT_LIST_DIR}/../../../]] [[${CMAKE_CURRENT_LIST_DIR}/../../]] text "${text}")
  file(WRITE "${config}" "${text}")
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 a "" "" "FILE_LIST")
  file(INSTALL ${a_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
endfunction()
include("${PORT_FOLDER}/portfile.cmake")
"""


@pytest.mark.parametrize("linkage", ["dynamic", "static"])
def test_vcpkg(recipes, tmp_path, linkage):
    """The port's own lines. vcpkg itself is in no package index."""
    port = recipes / "vcpkg/libcai"
    manifest = json.loads((port / "vcpkg.json").read_text())
    assert manifest["version"] == VERSION
    (tmp_path / "run.cmake").write_text(VCPKG)
    prefix = tmp_path / "installed"
    (prefix / "share").mkdir(parents=True)
    run(
        "cmake", f"-DWORK={tmp_path / 'work'}", f"-DCURRENT_PACKAGES_DIR={prefix}", f"-DVERSION={VERSION}", "-DPORT=libcai",
        f"-DPORT_FOLDER={port}", f"-DVCPKG_LIBRARY_LINKAGE={linkage}", f"-DVCPKG_TARGET_ARCHITECTURE={ARCHITECTURE}",
        "-P", tmp_path / "run.cmake",
    )  # fmt: skip
    assert {path.name for path in (prefix / "share").iterdir()} == {"cai", "libcai"}
    assert (prefix / "lib/libcai.so").exists() == (linkage == "dynamic")
    assert (prefix / "lib/libcai.a").exists() == (linkage == "static")
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(recipes / "cmake/mine.c", project)
    usage = re.search(r"^    find_package.*", (port / "usage").read_text(), re.M | re.S)[0].replace("main", "mine")
    lines = usage.strip().splitlines()
    (project / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(mine C)\n{lines[0]}\nadd_executable(mine mine.c)\n{lines[1]}\n"
    )
    run("cmake", "-S", project, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "b")
    assert run(tmp_path / "b/mine").stdout.startswith(f"libcai {VERSION}: ")


def test_homebrew(recipes):
    """The syntax. Homebrew itself is in no package index."""
    ruby = os.environ.get("RUBY") or shutil.which("ruby")
    if not ruby:
        pytest.skip("ruby is not installed (or named by RUBY)")
    assert "Syntax OK" in run(ruby, "-c", recipes / "homebrew/libcai.rb").stdout


def test_cargo_c(tmp_path):
    if not shutil.which("cargo-cinstall"):
        pytest.skip("cargo-c is not installed")
    run("cargo-cinstall", "cinstall", "--release", "--locked", "-p", "libcai-c", "--prefix=/usr", "--libdir=lib",
        f"--destdir={tmp_path}", "--target-dir", tmp_path / "target", cwd=ROOT)  # fmt: skip
    lib, include = tmp_path / "usr/lib", tmp_path / "usr/include/cai"
    assert {path.name for path in include.iterdir()} == {path.name for path in (ROOT / "include/cai").iterdir()}
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
