"""The package as strangers use it: installed through DESTDIR, moved elsewhere, then found by CMake and by
pkg-config, shared and static; and from the build tree and the sources. Nothing but the project's own tools.
"""

import ctypes
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

import abi_symbols
import pytest
from commands import BIN, ROOT, VERSION, copy_of_builds, copy_of_sources, run

PACKAGE = ROOT / "capi-tests/package"
MAJOR, MINOR = re.findall(r"ABI_M\w+: i32 = (\d+)", (ROOT / "src/abi/version.rs").read_text())


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Installed into one place, moved to another: nothing may remember where it was."""
    stage = tmp_path_factory.mktemp("stage")
    # As on a machine without CMake: the Makefile finds the one in the environment.
    path = ":".join(folder for folder in os.environ["PATH"].split(":") if pathlib.Path(folder).resolve() != BIN)
    command = ["make", "-C", ROOT, "install", "PREFIX=/opt/was here", f"DESTDIR={stage}"]
    run(*command, env={"PATH": path})
    moved = tmp_path_factory.mktemp("moved") / "else where"
    shutil.move(stage / "opt/was here", moved)
    return moved


def exported(library):
    lines = run("nm", "-D", "--defined-only", library).stdout.splitlines()
    # A symbol version is a symbol of its own, with an absolute value.
    return {line.split()[-1].split("@")[0] for line in lines if " A " not in line}


def test_what_is_installed(prefix):
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    assert {"include/cai/cai.cdef", "include/cai/cai.pxd"} < files
    assert files == {
        *(f"{name}" for name in abi_symbols.HEADERS),
        "lib/libcai.a",
        "lib/libcai.so",
        "lib/libcai.so.1",
        f"lib/libcai.so.{VERSION}",
        "lib/pkgconfig/cai.pc",
        "lib/cmake/cai/caiConfig.cmake",
        "lib/cmake/cai/caiConfigVersion.cmake",
        "lib/cmake/cai/caiTargets.cmake",
        "share/licenses/cai/LICENSE-MIT",
        "share/licenses/cai/LICENSE-APACHE",
        "share/licenses/cai/LICENSE-THIRD-PARTY",
    }
    for path in prefix.rglob("*"):
        if path.suffix in {".cmake", ".pc"}:
            assert str(ROOT) not in path.read_text() and "was here" not in path.read_text()
    # The links hold wherever they lie.
    for link in (prefix / "lib/libcai.so", prefix / "lib/libcai.so.1"):
        assert os.readlink(link) == f"libcai.so.{VERSION}"


def test_the_shared_library(prefix, tmp_path):
    library = prefix / "lib/libcai.so"
    dynamic = run("readelf", "-d", library).stdout
    assert re.search(r"SONAME.*\[libcai\.so\.1\]", dynamic)
    assert "NODELETE" in dynamic and "STATIC_TLS" not in dynamic
    loaded = {line.split()[0].split("/")[-1].split(".")[0] for line in run("ldd", library).stdout.splitlines()}
    assert {"libc"} <= loaded <= {"libc", "libgcc_s", "linux-vdso", "ld-linux-x86-64", "ld-linux-aarch64"}
    names = abi_symbols.NAMES
    assert exported(library) == names and all(name.startswith("cai_") for name in names)
    stripped = tmp_path / "libcai.so"
    run("strip", "-o", stripped, library)
    assert stripped.stat().st_size < 10 << 17


@pytest.mark.parametrize("built", ["Makefile", "CMake"])
def test_symbol_versions(prefix, built):
    """Each function has the version that abi/symbols.txt states, and nothing else is exported."""
    library = {"CMake": prefix / "lib/libcai.so", "Makefile": ROOT / "target/release/libcai.so"}[built]
    versions = re.search(r"'\.gnu\.version_d'.*?(?=\n\n)", run("readelf", "-V", library).stdout, re.S)[0]
    assert re.findall(r"Name: (\S+)", versions) == [f"libcai.so.{MAJOR}", "CAI_1", f"CAI_UNSTABLE_{MAJOR}_{MINOR}"]
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", library).stdout.splitlines()
    found = {line.split()[-1] for line in lines if " A " not in line}
    unstable = f"CAI_UNSTABLE_{MAJOR}_{MINOR}"
    assert found == {f"{name}@@{unstable if name in abi_symbols.UNSTABLE else 'CAI_1'}" for name in abi_symbols.NAMES}


def test_an_unstable_function_of_another_minor_version_is_not_found(prefix, tmp_path):
    """A program that uses one fails to start with a later library, by name; one that uses core functions starts."""
    (tmp_path / "core.c").write_text("#include <cai/cai.h>\nint main(void) { return cai_version() == NULL; }\n")
    (tmp_path / "ring.c").write_text("#include <cai/cai.h>\n#include <cai/unstable/release.h>\n"
        "int main(void) { cai_unstable_array_release_in_order(NULL); return 0; }\n")  # fmt: skip
    for name in ("core", "ring"):
        run("cc", "-I", prefix / "include", tmp_path / f"{name}.c", "-o", tmp_path / name, prefix / "lib/libcai.so")
    (tmp_path / "abi").mkdir()
    (tmp_path / "src/abi").mkdir(parents=True)
    for name in ("link.sh", "map.sh", "symbols.txt"):
        shutil.copy(ROOT / "abi" / name, tmp_path / "abi")
    version = (ROOT / "src/abi/version.rs").read_text()
    (tmp_path / "src/abi/version.rs").write_text(version.replace(f"MINOR: i32 = {MINOR};", "MINOR: i32 = 7;"))
    run(tmp_path / "abi/link.sh", prefix / "lib/libcai.a", tmp_path / f"libcai.so.{MAJOR}", "cc")
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    run(tmp_path / "core", env=env)
    done = run(tmp_path / "ring", env=env, check=False)
    assert done.returncode and f"`CAI_UNSTABLE_{MAJOR}_{MINOR}' not found" in done.stderr


def test_a_program_of_0_9_does_not_start(prefix, tmp_path):
    """It would pass arguments in the order of 0.9. Its node of symbols was another one."""
    (tmp_path / "library.c").write_text("int cai_array_strides(void) { return 0; }\n")
    (tmp_path / "nodes.map").write_text("CAI_1.0 { global: cai_array_strides; local: *; };\n")
    (tmp_path / "old.c").write_text("int cai_array_strides(void); int main(void) { return cai_array_strides(); }\n")
    (tmp_path / "old").mkdir()
    library = tmp_path / f"old/libcai.so.{MAJOR}"
    run("cc", "-shared", "-fPIC", tmp_path / "library.c", "-o", library, f"-Wl,-soname,libcai.so.{MAJOR}",
        f"-Wl,--version-script={tmp_path / 'nodes.map'}")  # fmt: skip
    run("cc", tmp_path / "old.c", "-o", tmp_path / "program", library)
    run(tmp_path / "program", env={"LD_LIBRARY_PATH": str(library.parent)})
    done = run(tmp_path / "program", env={"LD_LIBRARY_PATH": str(prefix / "lib")}, check=False)
    assert done.returncode and "`CAI_1.0' not found" in done.stderr


def test_native_libraries(prefix, tmp_path):
    """What the package links beside the static library is what rustc says of a static library that has only this one."""
    run("cargo", "build", "-q", "--lib")
    (tmp_path / "only.rs").write_text("extern crate cai;\n")
    library = ["--extern", f"cai={ROOT}/target/debug/libcai.rlib", "-L", ROOT / "target/debug/deps"]
    done = run("rustc", "--crate-type=staticlib", tmp_path / "only.rs", *library, "--print=native-static-libs", cwd=tmp_path)
    said = re.search(r"native-static-libs: (.*)", done.stderr)[1].split()
    private = re.search(r"Libs.private: (.*)", (prefix / "lib/pkgconfig/cai.pc").read_text())[1].split()
    assert [flag for flag in private if not flag.startswith("-Wl,")] == said
    config = (prefix / "lib/cmake/cai/caiConfig.cmake").read_text()
    wanted = ";".join(flag.removeprefix("-l") for flag in said)
    assert f'set(CAI_NATIVE_LIBS "{wanted}")' in config


def test_one_version(prefix):
    """Cargo.toml states the version; crates, library, packages and the tools that make them have it from there. The texts
    that repeat it are those of tools/release.py."""
    crates = json.loads(run("cargo", "metadata", "--no-deps", "--offline", "--format-version", "1").stdout)["packages"]
    versions = {crate["name"]: crate["version"] for crate in crates}
    assert versions["libcai-c"] == versions["libcai"] == VERSION
    library = ctypes.CDLL(str(prefix / f"lib/libcai.so.{VERSION}"))
    library.cai_version.restype = ctypes.c_char_p
    assert library.cai_version() == VERSION.encode()
    for name, pattern in [
        ("pkgconfig/cai.pc", r"^Version: (.*)$"),
        ("cmake/cai/caiConfig.cmake", r'CAI_VERSION "(.*)"'),
        ("cmake/cai/caiConfigVersion.cmake", r'PACKAGE_VERSION "(.*)"'),
    ]:
        assert re.search(pattern, (prefix / "lib" / name).read_text(), re.M)[1] == VERSION
    wheel = re.search(r"^input = \"(.*)\"\nregex = '(.*)'$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert re.search(wheel[2], (ROOT / wheel[1]).read_text(), re.M)["value"] == VERSION
    for name in ("deb.sh", "source.sh", "target.sh"):
        read = re.search(r"^version=\$\((.*)\)$", (ROOT / "tools/dist" / name).read_text(), re.M)[1]
        assert run("sh", "-c", read).stdout.strip() == VERSION


def test_what_an_extension_grows_by(prefix):
    """The script for adopters. Its table is that of the page, with some room for other compilers."""
    *_, head, _, validate, imports, both, everything = run(ROOT / "tools/sizes.sh", prefix).stdout.splitlines()
    page = (ROOT / "docs/src/packaging.md").read_text()
    for row in (validate, imports, both, everything):
        name, *found = (cell.strip() for cell in row.strip("|").split("|"))
        stated = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", page, re.M)[1].replace(",", "").split("|")
        for number, limit in zip(map(int, found), map(int, stated[: len(found)]), strict=True):
            assert number <= max(limit * 1.1, 10_000), (name, found, stated)
    assert [cell.strip() for cell in head.strip("|").split("|")][1:] == ["shared library", "static library", "static, not stripped"]
    # No debug information of Rust's standard library.
    assert ".debug_" not in run("readelf", "-SW", prefix / "lib/libcai.a").stdout


def check_extension(extension):
    """It bundles the library, exports what it declares and nothing else, works, and stays mapped."""
    assert exported(extension) == {"extension_check", "extension_owner"}
    dynamic = run("readelf", "-d", extension).stdout
    assert "NODELETE" in dynamic and "[libcai" not in dynamic and "STATIC_TLS" not in dynamic
    # In a process of its own: an empty description is refused.
    code = f"import ctypes; print(ctypes.CDLL({str(extension)!r}).extension_check(None))"
    assert int(run(sys.executable, "-c", code).stdout) != 0


def static_flags(prefix):
    """How pkg-config links the archive, where there is also a shared library."""
    done = run("pkg-config", "--cflags", "--libs", "--static", "cai", env={"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")})
    return ["-l:libcai.a" if flag == "-lcai" else flag for flag in shlex.split(done.stdout)]


def test_another_rust_archive(prefix, tmp_path):
    """Each of two static libraries has a Rust standard library; one program links both, in either order."""
    other = tmp_path / "libanother.a"
    run("rustc", "--edition=2024", "-O", "--crate-type=staticlib", PACKAGE / "another.rs", "-o", other)
    flags = static_flags(prefix)
    for options in ([], ["-Wl,--gc-sections"]):
        for archives in ([other, *flags], [*flags, other, "-lgcc_s", "-lpthread", "-lm", "-ldl"]):
            run("gcc", PACKAGE / "another.c", "-I", prefix / "include", "-o", tmp_path / "program", *archives, *options)
            assert run(tmp_path / "program").stdout == "typestr 14 -1\n"


@pytest.mark.parametrize("links", ["shared", "static"])
def test_an_extension_loaded_late(prefix, tmp_path, links):
    """There is no room for static TLS any more, which a library that is loaded early may use."""
    (tmp_path / "filler.c").write_text(
        '_Thread_local char bytes[SIZE] __attribute__((tls_model("initial-exec")));\nchar *use(void) { return bytes; }\n'
    )
    fillers = []
    for size in (512, 64, 8):
        made = [tmp_path / f"filler{size}_{index}.so" for index in range(16)]
        run("gcc", "-shared", "-fPIC", "-fvisibility=hidden", f"-DSIZE={size}", tmp_path / "filler.c", "-o", made[0])
        for filler in made[1:]:
            shutil.copy(made[0], filler)
        fillers += made
    run("gcc", PACKAGE / "late.c", "-I", prefix / "include", "-o", tmp_path / "late", "-ldl", "-lpthread")
    library = {"shared": ["-I", prefix / "include", prefix / "lib/libcai.so"], "static": static_flags(prefix)}[links]
    run("gcc", PACKAGE / "extension.c", "-shared", "-fPIC", "-fvisibility=hidden", "-o", tmp_path / "e.so", *library)
    done = run(tmp_path / "late", tmp_path / "e.so", *fillers, env={"LD_LIBRARY_PATH": str(prefix / "lib")})
    assert done.stdout == "destroyed 2\n"


def build_and_run(folder, *options):
    run("cmake", "-S", PACKAGE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options)
    run("cmake", "--build", folder)
    for kind in ("cai", "cai_static"):
        for program in (f"consumer_{kind}", f"consumer_cpp_{kind}"):
            assert run(folder / program).stdout == f"ok {VERSION}\n"
    needed = run("readelf", "-d", folder / "consumer_cai").stdout
    assert "[libcai.so.1]" in needed
    assert "[libcai" not in run("readelf", "-d", folder / "consumer_cai_static").stdout
    for name in ("cai_static", "objects", "wrapped"):
        check_extension(folder / f"extension_{name}.so")
    assert "NODELETE" in run("readelf", "-d", folder / "extension_cai.so").stdout
    assert exported(folder / "extension_cai.so") == {"extension_check", "extension_owner"}
    # Closed with dlclose while an owner lives whose last release calls it.
    for name in ("cai", "cai_static", "objects", "wrapped"):
        assert run(folder / "unload", folder / f"extension_{name}.so").stdout == "destroyed 1\n"
    # Nothing is built again when nothing has changed.
    again = run("cmake", "--build", folder).stdout
    assert "Linking" not in again


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """The folder of a build."""
    folder = tmp_path_factory.mktemp("tree")
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DCAI_BUILD_EXAMPLES=OFF", f"-DCAI_CARGO_TARGET_DIR={ROOT / 'target'}"]
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *options)
    run("cmake", "--build", folder)
    return folder


CONSUMERS = [
    ("find_package", "CMAKE_PREFIX_PATH={prefix}"), ("find_package", "cai_DIR={tree}"), ("add_subdirectory", f"CAI_SOURCE={ROOT}"),
    ("FetchContent", f"CAI_SOURCE={ROOT}"),
]  # fmt: skip


@pytest.mark.parametrize("how, where", CONSUMERS)
def test_cmake(prefix, tree, tmp_path, how, where):
    where = where.format(prefix=prefix, tree=tree)
    build_and_run(tmp_path, f"-DCAI_FROM={how}", f"-D{where}", f"-DCAI_CARGO_TARGET_DIR={ROOT / 'target'}")


def test_sources_that_change(prefix, tmp_path):
    """From a copy of the sources: offline, in debug, static only, writing nothing into them. Then with another
    major version, which one file states: what depends on it is made anew."""
    source, folder = copy_of_sources(tmp_path / "cai"), tmp_path / "build"
    target = copy_of_builds(tmp_path / "target")
    before = sorted(source.rglob("*"))
    offline = {"CARGO_NET_OFFLINE": "true"}

    def build(*options):
        run(
            "cmake", "-S", PACKAGE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCAI_FROM=add_subdirectory",
            f"-DCAI_SOURCE={source}", f"-DCAI_CARGO_TARGET_DIR={target}", *options, env=offline,
        )  # fmt: skip
        # Wanting the program is enough: the library is built for it.
        return run("cmake", "--build", folder, "--target", "consumer_cai", env=offline).stdout

    build("-DCAI_BUILD_SHARED=OFF")
    assert run(folder / "consumer_cai").stdout == f"ok {VERSION}\n"
    assert "[libcai" not in run("readelf", "-d", folder / "consumer_cai").stdout
    assert sorted(source.rglob("*")) == before

    # A checkout has no declarations for other languages: they are made.
    made = ("include/cai/cai.cdef", "include/cai/cai.pxd", "include/cai/unstable.pxd", "python/libcai/_abi.py")
    for name in made[:3]:
        (source / name).unlink()
    build()
    for name in made:
        assert (source / name).read_bytes() == (ROOT / name).read_bytes()

    def state_major(name, prefix):
        text = (source / name).read_text()
        assert f"{prefix}1" in text
        (source / name).write_text(text.replace(f"{prefix}1", f"{prefix}7"))

    # The new library beside the old header: linked again, and the program finds the difference.
    state_major("src/abi/version.rs", "CAI_ABI_MAJOR: i32 = ")
    assert "Linking" in build()
    assert run(folder / "consumer_cai", check=False).returncode == 1
    state_major("include/cai/status.h", "#define CAI_ABI_MAJOR ")
    build("-DCAI_BUILD_SHARED=ON")
    assert "[libcai.so.7]" in run("readelf", "-d", folder / "consumer_cai").stdout
    assert run(folder / "consumer_cai").stdout == f"ok {VERSION}\n"


# Installed version, request, whether the request is fulfilled.
REQUESTS = [
    ("0.9.0", "", True),
    ("0.9.0", "0.9", True),
    ("0.9.0", "0.9.0 EXACT", True),
    ("0.9.1", "0.9 EXACT", False),
    ("0.9.0", "0.9.1", False),
    ("0.9.0", "0.10", False),
    ("0.9.0", "1.0", False),
    ("0.10.0", "0.9", True),
    ("0.10.0", "0.10", True),
    ("0.10.0", "1", False),
    ("1.0.0", "0.9", True),
    ("1.0.0", "0.10", True),
    ("1.0.0", "1", True),
    ("1.0.0", "1.1", False),
    ("1.0.0", "2", False),
    ("1.12.3", "0.9", True),
    ("1.12.3", "1.2", True),
    ("1.12.3", "1.12.4", False),
    ("2.0.0", "0.9", False),
    ("2.0.0", "1.0", False),
    ("2.1.0", "2.0", True),
    ("10.0.0", "1", False),
    ("0.9.0", "0.9...<0.9.1", True),
    ("0.9.0", "0.1...<0.9", False),
    ("0.9.0", "0.1...0.9", True),
    ("0.10.0", "0.9...<1", True),
    ("1.0.0", "0.9...<1", False),
    ("1.5.0", "0.9...<2", True),
    ("1.5.0", "1.6...<2", False),
    ("2.0.0", "1.0...<2", False),
    ("2.0.0", "1.0...2.0", True),
]  # fmt: skip


def test_requests(tmp_path):
    """A request is for an ABI: versions 0.x are candidates of ABI 1. One script asks for all of them."""
    lines = ["cmake_minimum_required(VERSION 3.19)", "set(CMAKE_SIZEOF_VOID_P 8)"]
    for version in {version for version, _, _ in REQUESTS}:
        (tmp_path / version).mkdir()
        (tmp_path / version / "caiConfig.cmake").touch()
        template, made = ROOT / "cmake/caiConfigVersion.cmake.in", tmp_path / version / "caiConfigVersion.cmake"
        lines.append(f'set(CAI_VERSION {version})\nconfigure_file("{template}" "{made}" @ONLY)')
    for version, wanted, _ in REQUESTS:
        lines.append(f"set(cai_DIR {tmp_path / version})\nfind_package(cai {wanted} CONFIG QUIET)")
        lines.append('message("${cai_FOUND} ${cai_VERSION}")\nunset(cai_VERSION)')
    # Pointers of another size.
    lines.append("set(CMAKE_SIZEOF_VOID_P 4)\nset(cai_DIR " + f"{tmp_path / '1.0.0'})\nfind_package(cai CONFIG QUIET)")
    lines.append('message("${cai_FOUND}")')
    (tmp_path / "ask.cmake").write_text("\n".join(lines) + "\n")
    *answers, other_size = run("cmake", "-P", tmp_path / "ask.cmake").stderr.splitlines()
    found = [(version, wanted, answer.startswith("1 ")) for (version, wanted, _), answer in zip(REQUESTS, answers, strict=True)]
    assert found == REQUESTS
    assert all(answer == f"1 {version}" for (version, _, yes), answer in zip(REQUESTS, answers, strict=True) if yes)
    assert other_size == "0"


REFUSED = [("9", f"version: {VERSION}"), ("0.9 COMPONENTS nonsense", "libcai has no components")]


@pytest.mark.parametrize("wanted, message", REFUSED)
def test_what_is_refused(prefix, tmp_path, wanted, message):
    """What the package cannot give is refused, and the message says what it is instead."""
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(v LANGUAGES NONE)\nfind_package(cai {wanted} CONFIG REQUIRED)\n"
    )
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", check=False)
    assert done.returncode and message in done.stderr


MESON = """
project('stranger', 'c', default_options: ['c_std=gnu99', 'werror=true'])
cai = dependency('cai', version: '>=0.10', method: '@METHOD@', modules: @MODULES@, static: @STATIC@)
executable('consumer', 'consumer.c', dependencies: cai)
shared_module('extension', 'extension.c', dependencies: cai, gnu_symbol_visibility: 'hidden', name_prefix: '')
"""


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("method", ["pkg-config", "cmake"])
def test_meson(prefix, tmp_path, method, static):
    """Meson finds the package by both ways, and links what it says: nothing there is for CMake alone."""
    for name in ("consumer.c", "extension.c"):
        shutil.copy(PACKAGE / name, tmp_path)
    text = MESON.replace("@METHOD@", method).replace("@STATIC@", str(static).lower())
    module = ["cai::cai_static" if static else "cai::cai"] if method == "cmake" else []
    (tmp_path / "meson.build").write_text(text.replace("@MODULES@", repr(module)))
    build = tmp_path / "build"
    env = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "CMAKE_PREFIX_PATH": str(prefix)}
    warnings = [line for line in run("meson", "setup", build, tmp_path, env=env).stdout.splitlines() if "WARNING" in line]
    # The unwinder of C programs is a shared library, whatever they wish.
    assert all("'gcc_s' not found" in line for line in warnings), warnings
    run("meson", "compile", "-C", build)
    assert run(build / "consumer", env={"LD_LIBRARY_PATH": str(prefix / "lib")}).stdout == f"ok {VERSION}\n"
    assert ("[libcai.so.1]" in run("readelf", "-d", build / "consumer").stdout) == (not static)
    if static:
        check_extension(build / "extension.so")
    else:
        assert "NODELETE" in run("readelf", "-d", build / "extension.so").stdout


def test_pkg_config(prefix, tmp_path):
    environment = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}

    def flags(*options):
        return shlex.split(run("pkg-config", *options, "cai", env=environment).stdout)

    def make(name, compiler, source, *options):
        run(compiler, PACKAGE / source, "-o", tmp_path / name, *options)
        return tmp_path / name

    assert flags("--modversion") == [VERSION]
    shared = flags("--cflags", "--libs")
    static = static_flags(prefix)
    for name, compiler, source in (("c", "gcc", "consumer.c"), ("cpp", "g++", "consumer.cpp")):
        program = make(name, compiler, source, *shared)
        assert run(program, env={"LD_LIBRARY_PATH": str(prefix / "lib")}).stdout == f"ok {VERSION}\n"
        program = make(f"{name}_static", compiler, source, *static)
        assert run(program).stdout == f"ok {VERSION}\n"
        assert "[libcai" not in run("readelf", "-d", program).stdout
    unload = make("unload", "gcc", "unload.c", flags("--cflags")[0], "-ldl")
    library = {"LD_LIBRARY_PATH": str(prefix / "lib")}
    for name, options in (("sharing", shared), ("bundling", static)):
        extension = make(f"{name}.so", "gcc", "extension.c", "-shared", "-fPIC", "-fvisibility=hidden", *options)
        assert run(unload, extension, env=library).stdout == "destroyed 1\n"
    check_extension(extension)
