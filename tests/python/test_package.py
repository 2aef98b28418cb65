"""The package as strangers use it: installed through DESTDIR, moved elsewhere, then found by CMake and by
pkg-config, shared and static; and from the build tree and the sources. Nothing but the project's own tools.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "capi-tests/package"
BIN = ROOT / "build/venv/bin"
VERSION = re.search(r'^version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def run(*command, check=True, **more):
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **more.pop("env", {})}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, **more)
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Installed into one place, moved to another: nothing may remember where it was."""
    stage = tmp_path_factory.mktemp("stage")
    run("make", "-C", ROOT, "install", "PREFIX=/opt/was here", f"DESTDIR={stage}")
    moved = tmp_path_factory.mktemp("moved") / "else where"
    shutil.move(stage / "opt/was here", moved)
    return moved


def exported(library):
    lines = run("nm", "-D", "--defined-only", library).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def test_what_is_installed(prefix):
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    assert files == {
        "include/cai/cai.h",
        "include/cai/cai.hpp",
        "lib/libcai.a",
        "lib/libcai.so",
        "lib/libcai.so.0",
        f"lib/libcai.so.{VERSION}",
        "lib/pkgconfig/cai.pc",
        "lib/cmake/cai/caiConfig.cmake",
        "lib/cmake/cai/caiConfigVersion.cmake",
        "lib/cmake/cai/caiTargets.cmake",
        "share/licenses/cai/LICENSE-MIT",
        "share/licenses/cai/LICENSE-APACHE",
    }
    for path in prefix.rglob("*"):
        if path.suffix in {".cmake", ".pc"}:
            assert str(ROOT) not in path.read_text() and "was here" not in path.read_text()


def test_the_shared_library(prefix, tmp_path):
    library = prefix / "lib/libcai.so"
    dynamic = run("readelf", "-d", library).stdout
    assert re.search(r"SONAME.*\[libcai\.so\.0\]", dynamic)
    assert "NODELETE" in dynamic
    assert set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic)) <= {"libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
    names = set((ROOT / "abi/symbols.txt").read_text().split())
    assert exported(library) == names
    stripped = tmp_path / "libcai.so"
    run("strip", "-o", stripped, library)
    assert stripped.stat().st_size < 1 << 20


def test_native_libraries(prefix):
    """What the package links beside the static library is what rustc says."""
    done = run(
        "cargo", "rustc", "-q", "--release", "--lib", "--crate-type", "staticlib", "--target-dir",
        ROOT / "target/native-libs", "--", "--print", "native-static-libs", cwd=ROOT,
    )  # fmt: skip
    said = re.search(r"native-static-libs: (.*)", done.stderr)
    if said is None:  # nothing was compiled, so nothing was printed
        shutil.rmtree(ROOT / "target/native-libs")
        return test_native_libraries(prefix)
    pc = (prefix / "lib/pkgconfig/cai.pc").read_text()
    assert re.search(r"Libs.private: (.*)", pc)[1].split() == said[1].split()
    config = (prefix / "lib/cmake/cai/caiConfig.cmake").read_text()
    wanted = ";".join(flag.removeprefix("-l") for flag in said[1].split())
    assert f'set(CAI_NATIVE_LIBS "{wanted}")' in config


def build_and_run(folder, *options):
    run("cmake", "-S", PACKAGE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options)
    run("cmake", "--build", folder)
    for kind in ("cai", "cai_static"):
        for program in (f"consumer_{kind}", f"consumer_cpp_{kind}"):
            assert run(folder / program).stdout == f"ok {VERSION}\n"
    needed = run("readelf", "-d", folder / "consumer_cai").stdout
    assert "[libcai.so.0]" in needed
    assert "libcai" not in run("readelf", "-d", folder / "consumer_cai_static").stdout.replace("RUNPATH", "")
    assert exported(folder / "extension.so") == {"extension_check"}
    # Nothing is built again when nothing has changed.
    again = run("cmake", "--build", folder).stdout
    assert "Linking" not in again


def test_find_package(prefix, tmp_path):
    build_and_run(tmp_path, "-DCAI_FROM=find_package", f"-DCMAKE_PREFIX_PATH={prefix}")


def test_build_tree(tmp_path):
    tree = tmp_path / "tree"
    run(
        "cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCAI_BUILD_EXAMPLES=OFF",
        f"-DCAI_CARGO_TARGET_DIR={ROOT / 'target'}",
    )  # fmt: skip
    run("cmake", "--build", tree)
    build_and_run(tmp_path / "stranger", "-DCAI_FROM=find_package", f"-Dcai_DIR={tree}")


@pytest.mark.parametrize("way", ["add_subdirectory", "FetchContent"])
def test_sources(tmp_path, way):
    build_and_run(
        tmp_path, f"-DCAI_FROM={way}", f"-DCAI_SOURCE={ROOT}", f"-DCAI_CARGO_TARGET_DIR={ROOT / 'target'}"
    )


@pytest.mark.parametrize("wanted, good", [("0.1", True), ("0.1.0", True), ("0.2", False), ("9", False)])
def test_versions(prefix, tmp_path, wanted, good):
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(v LANGUAGES NONE)\nfind_package(cai {wanted} CONFIG REQUIRED)\n"
    )
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", check=False)
    assert (done.returncode == 0) == good
    assert good or f"version: {VERSION}" in done.stderr


def test_pkg_config(prefix, tmp_path):
    environment = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}

    def flags(*options):
        text = run("pkg-config", *options, "cai", env=environment).stdout
        return text.replace("\\ ", "\0").split()

    def link(name, source, *options, compiler="gcc"):
        command = [compiler, PACKAGE / source, "-o", tmp_path / name, *options]
        run(*[str(word).replace("\0", " ") for word in command])
        return run(tmp_path / name, env={"LD_LIBRARY_PATH": str(prefix / "lib")}).stdout

    assert run("pkg-config", "--modversion", "cai", env=environment).stdout.strip() == VERSION
    assert link("shared", "consumer.c", *flags("--cflags", "--libs")) == f"ok {VERSION}\n"
    assert link("cpp", "consumer.cpp", "-std=c++17", *flags("--cflags", "--libs"), compiler="g++") == f"ok {VERSION}\n"
    static = ["-Wl,-Bstatic", "-lcai", "-Wl,-Bdynamic"]
    rest = [flag for flag in flags("--cflags", "--libs", "--static") if flag != "-lcai"]
    assert link("static", "consumer.c", *static[:0], *rest[:2], *static, *rest[2:]) == f"ok {VERSION}\n"
    assert "libcai" not in run("readelf", "-d", tmp_path / "static").stdout
