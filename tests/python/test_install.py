"""`make install` and `make uninstall`: what they need, what they say, and that no call depends on an earlier one."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from commands import BIN, ROOT, VERSION, copy_of_builds, copy_of_sources

# Which of its variables a user has set decides what is printed.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "MAKEFLAGS", "CARGO_TARGET_DIR", "DESTDIR")
}


def make(*arguments, check=True, **variables):
    command = ["make", "-s", "-C", str(ROOT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**CLEAN, **variables})
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def bare(tmp_path):
    """A PATH with what a machine has that can compile C, with cargo, and neither CMake nor Python."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in pathlib.Path(place).iterdir():
            name = program.name
            if not name.startswith(("python", "cmake", "pip", "ninja")) and not (folder / name).exists():
                (folder / name).symlink_to(program)
    for program in ("cargo", "rustc"):
        found = shutil.which(program)
        (folder / program).unlink(missing_ok=True)
        (folder / program).symlink_to(found)
    return folder


def with_cmake(bare, tmp_path):
    """CMake's own program, from its package: that in the environment is a script in Python."""
    (program,) = BIN.parent.glob("lib/python*/site-packages/cmake/data/bin/cmake")
    folder = tmp_path / "cmake"
    folder.mkdir()
    (folder / "cmake").symlink_to(program)
    return f"{folder}:{bare}"


def test_without_python(bare, tmp_path):
    path, prefix = with_cmake(bare, tmp_path), tmp_path / "in stalled"
    assert shutil.which("python3", path=path) is None
    done = make("install", f"PREFIX={prefix}", PATH=path)
    assert {"lib/libcai.a", f"lib/libcai.so.{VERSION}", "include/cai/cai.h", "lib/pkgconfig/cai.pc"} <= files(prefix)
    for line in (
        f'export PKG_CONFIG_PATH="{prefix}/lib/pkgconfig${{PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}}"',
        f'export CMAKE_PREFIX_PATH="{prefix}${{CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}}"',
        f'export LD_LIBRARY_PATH="{prefix}/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',
    ):
        assert f"  {line}\n" in done.stdout
    # What is set already is not named; CMake looks below the folders of PATH.
    done = make(
        "install", f"PREFIX={prefix}", PATH=f"{prefix}/bin:{path}", PKG_CONFIG_PATH=f"/elsewhere:{prefix}/lib/pkgconfig",
        LD_LIBRARY_PATH=f"{prefix}/lib/",
    )  # fmt: skip
    assert "export" not in done.stdout and "Installed" in done.stdout
    # Into a folder for a package: nothing is used from there. The last call's prefix is forgotten.
    stage = tmp_path / "stage"
    done = make("install", "PREFIX=/usr", "LIBDIR=lib/somewhere", f"DESTDIR={stage}", PATH=path)
    assert "export" not in done.stdout and "ldconfig" not in done.stdout
    assert (stage / "usr/lib/somewhere/libcai.so.1").exists() and not (stage / str(prefix).lstrip("/")).exists()
    another = tmp_path / "another"
    make("install", f"DESTDIR={another}", PATH=path)
    assert set(os.listdir(another)) == {"usr"} and (another / "usr/local/lib/libcai.a").exists()
    # What others put there stays.
    (prefix / "lib/libother.so").touch()
    (prefix / "include/cai/other.h").touch()
    make("uninstall", f"PREFIX={prefix}", PATH=path)
    assert files(prefix) == {"lib/libother.so", "include/cai/other.h"}
    make("uninstall", "PREFIX=/usr", "LIBDIR=lib/somewhere", f"DESTDIR={stage}", PATH=path)
    make("uninstall", f"DESTDIR={another}", PATH=path)
    assert not files(stage) and not files(another)
    assert not (stage / "usr/include/cai").exists()


def test_the_cache_of_the_dynamic_linker(bare, tmp_path):
    """A folder that is cached needs ldconfig, until the cache has the library. Asking changes nothing on the machine."""
    prefix = tmp_path / "prefix"
    tool = bare / "ldconfig"
    tool.unlink(missing_ok=True)

    def install(listed):
        tool.write_text(
            "#!/bin/sh\n"
            f'case "$*" in "-v -N -X") echo "{prefix}/lib: (from /etc/ld.so.conf:1)"; printf "\\tlibother.so\\n" ;;\n'
            f'-p) echo "{listed}" ;; *) touch "{tmp_path}/changed" ;; esac\n'
        )
        tool.chmod(0o755)
        return make("install", f"PREFIX={prefix}", PATH=f"{bare}:{BIN}").stdout

    said = install("\tlibother.so (libc6,x86-64) => /usr/lib/libother.so")
    assert re.search(r"^  ldconfig +# as root", said, re.M) and "LD_LIBRARY_PATH" not in said
    said = install(f"\tlibcai.so.1 (libc6,x86-64) => {prefix}/lib/libcai.so.1")
    assert "ldconfig" not in said and "LD_LIBRARY_PATH" not in said and "PKG_CONFIG_PATH" in said
    assert not (tmp_path / "changed").exists()


OLD = "#!/bin/sh\necho 'cmake version 3.13.4'\n"
SHIM = "#!/bin/sh\necho 'pyenv: cmake: command not found' >&2\nexit 127\n"


@pytest.mark.parametrize("program, named", [(None, "none."), (SHIM, "none."), (OLD, "none (cmake is 3.13).")])
def test_without_cmake(bare, tmp_path, program, named):
    """The script alone: beside the repository's it would find a CMake below build/."""
    source = tmp_path / "source"
    (source / "tools").mkdir(parents=True)
    for name in ("tools/install.sh", "CMakeLists.txt"):
        shutil.copy(ROOT / name, source / name)
    if program:
        (bare / "cmake").write_text(program)
        (bare / "cmake").chmod(0o755)
    given = {"PATH": str(bare), "PREFIX": "/usr", "LIBDIR": "lib", "DESTDIR": "", "CMAKE": ""}
    done = subprocess.run([source / "tools/install.sh"], capture_output=True, text=True, env={**CLEAN, **given})
    assert done.returncode == 1 and f"needs CMake 3.18 or later, and found {named}\n" in done.stderr
    for command in ("apt install cmake", "-m pip install cmake", "CMAKE=/path/to/cmake"):
        assert command in done.stderr
    assert not (source / "build").exists()


def test_a_wrong_libdir():
    done = make("install", "LIBDIR=/usr/lib", check=False)
    assert done.returncode != 0 and "LIBDIR is /usr/lib, an absolute path" in done.stderr


def test_cargo_target_dir(bare, tmp_path):
    """Cargo builds where the environment says, for the Makefile and for CMake."""
    # The library is fresh there, but where others look for it: each build puts it there.
    target, prefix = copy_of_builds(tmp_path / "elsewhere"), tmp_path / "prefix"
    assert not list(target.glob("*/libcai.*"))
    newest = (ROOT / "target/release/libcai.a").stat().st_mtime_ns
    make("install", f"PREFIX={prefix}", PATH=f"{BIN}:{bare}", CARGO_TARGET_DIR=str(target))
    assert (prefix / "lib/libcai.a").exists() and (target / "release/libcai.a").exists()
    make("lib", CARGO_TARGET_DIR=str(target))
    assert (target / "release/libcai.so").exists()
    # All other commands name the same folder.
    for goal in ("demo", "install-sim", "bench", "gpu-programs"):
        commands = make("-n", goal, CARGO_TARGET_DIR=str(target)).stdout
        assert f"{target}/release" in commands.replace('"', "")
        assert not re.search(rf"(?<!\w)(?:{re.escape(str(ROOT))}/)?target/release", commands), goal
    command = ["cmake", "-S", ROOT, "-B", tmp_path / "build", "-DCAI_BUILD_EXAMPLES=OFF"]
    for given, expected in ((str(target), target), ("build/below", ROOT / "build/below"), ("", tmp_path / "build/cargo")):
        environment = {**CLEAN, "PATH": f"{BIN}:{CLEAN['PATH']}", "CARGO_TARGET_DIR": given}
        shutil.rmtree(tmp_path / "build", ignore_errors=True)
        if not expected.exists():
            copy_of_builds(expected)
        subprocess.run(command, check=True, capture_output=True, env=environment)
        assert f"CAI_CARGO_TARGET_DIR:PATH={expected}\n" in (tmp_path / "build/CMakeCache.txt").read_text()
    assert (ROOT / "target/release/libcai.a").stat().st_mtime_ns == newest


def test_where_tests_look(tmp_path):
    """They look in target/, which is a link to a folder elsewhere; another build that lies there is not taken for it."""

    def link(folder):
        command = ["make", "-s", "-f", ROOT / "Makefile", "-C", tmp_path, "target-link"]
        return subprocess.run(command, capture_output=True, text=True, env={**CLEAN, "CARGO_TARGET_DIR": str(folder)})

    for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        assert link(folder).returncode == 0
        assert (tmp_path / "target").resolve() == folder
    assert link("target").returncode == 0 and (tmp_path / "target").is_symlink()
    assert link("").returncode == 0 and (tmp_path / "target").is_symlink()
    (tmp_path / "target").unlink()
    (tmp_path / "target").mkdir()
    done = link(tmp_path / "a")
    assert done.returncode != 0 and "remove target/, or unset CARGO_TARGET_DIR" in done.stderr
    assert link("").returncode == 0


def test_settings_of_the_sources(tmp_path):
    """Cargo reads .cargo/config.toml of the sources wherever the build tree lies: a release archive names the folder of
    its crates there."""
    source = copy_of_sources(tmp_path / "cai")
    (source / ".cargo").mkdir()
    (source / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "nowhere"\n'
    )
    environment = {**CLEAN, "PATH": f"{BIN}:{CLEAN['PATH']}"}
    command = ["cmake", "-S", source, "-B", tmp_path / "build", "-DCAI_INSTALL=OFF", "-DCAI_BUILD_EXAMPLES=OFF"]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    done = subprocess.run(["cmake", "--build", tmp_path / "build"], capture_output=True, text=True, env=environment)
    assert done.returncode != 0 and f"{source}/nowhere" in done.stdout + done.stderr


@pytest.mark.parametrize("component", ["cai_runtime", "cai_development"])
def test_components(tmp_path, component):
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    environment = {**CLEAN, "PATH": f"{BIN}:{CLEAN['PATH']}", "CARGO_TARGET_DIR": str(ROOT / "target")}
    options = ["-DCAI_BUILD_EXAMPLES=OFF", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_LIBDIR=lib"]
    for command in (
        ["cmake", "-S", ROOT, "-B", build, *options],
        ["cmake", "--build", build],
        ["cmake", "--install", build, "--prefix", prefix, "--component", component],
    ):
        subprocess.run(command, check=True, capture_output=True, env=environment)
    licences = {f"share/licenses/cai/LICENSE-{name}" for name in ("MIT", "APACHE", "THIRD-PARTY")}
    runtime = {f"lib/libcai.so.{VERSION}", "lib/libcai.so.1", *licences}
    if component == "cai_runtime":
        assert files(prefix) == runtime
    else:
        assert {"lib/libcai.so", "lib/libcai.a", "lib/pkgconfig/cai.pc", "include/cai/cai.h"} <= files(prefix)
        assert not files(prefix) & runtime


@pytest.mark.skipif(not (ROOT / "cuda-sim").exists(), reason="cuda-sim/ is not here")
def test_the_simulator(tmp_path):
    """Staged, and removed again."""
    (tmp_path / "opt/bin").mkdir(parents=True)
    (tmp_path / "opt/bin/other").touch()
    make("install-sim", "PREFIX=/opt", f"DESTDIR={tmp_path}", CARGO_TARGET_DIR=str(ROOT / "target"))
    assert {"opt/bin/cuda-sim", "opt/bin/cai-race", "opt/lib/cuda-sim/driver/libcuda.so.1",
            "opt/share/licenses/cuda-sim/LICENSE-THIRD-PARTY"} <= files(tmp_path)  # fmt: skip
    make("uninstall-sim", "PREFIX=/opt", f"DESTDIR={tmp_path}")
    assert files(tmp_path) == {"opt/bin/other"}


def test_help():
    """Names the targets of the README's table, each on a line that fits a terminal."""
    lines = make("help").stdout.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"`make ([a-z-]+)", readme)) - {"lib"}
    assert named <= listed and {"demo", "test", "install", "uninstall", "lib", "sim", "help"} <= listed
    assert all(len(line) <= 80 for line in lines)
    # The two that a visitor starts with say how long they take.
    for target in ("demo", "test", "install"):
        assert any(re.match(rf"  {target} .*\d+ (minute|second)", line) for line in lines)


def test_what_the_demo_sets_up():
    """A part of what the tests need, in the same versions, without compilers."""
    names = {
        line.partition("#")[0].strip() for line in (ROOT / "tools/requirements-demo.txt").read_text().splitlines()
    } - {""}
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "tools/requirements.txt").read_text(), re.M))
    assert names == {"numpy", "nvidia-cuda-runtime"} and names <= set(pinned)
    for goal in ("install", "uninstall", "lib", "sim"):
        assert "requirements" not in make("-n", goal).stdout and "pip" not in make("-n", goal).stdout
