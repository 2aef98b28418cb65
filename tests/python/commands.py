"""How tests run commands, and compile and run programs on the simulated driver: the one place for it."""

import contextlib
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/release"
# The simulator, as a user has it: `make sim` installs it there.
SIM = pathlib.Path(os.environ.get("CUDA_SIM_ROOT") or ROOT / "build/sim")
CUDA_SIM = SIM / "bin/cuda-sim"
LIBRARY = pathlib.Path(os.environ.get("CAI_LIBRARY", BUILT / "libcai.so"))
BIN = ROOT / "build/venv/bin"
# Its packages have the headers of CUDA, whichever Python runs the tests.
SITE = next(BIN.parent.glob("lib/python*/site-packages"), pathlib.Path(sysconfig.get_path("purelib")))
TESTS = ROOT / "capi-tests/sync"
CUDA = SITE / "nvidia/cu13/include"
VERSION = re.search(r'^version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
PYTHON = pathlib.Path(sysconfig.get_path("include"))
INCLUDES = ["-I", ROOT / "include", "-I", ROOT / "contrib/include"]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
CLANG = [sys.executable, "-m", "ziglang"]
# For programs that it links: undefined behavior, which zig looks for, ends them with a signal. To compile the library that
# would print what it was takes zig 40 seconds of a core.
TRAPS = "-fsanitize-trap=undefined"
# Also what takes as long as all other tests.
SLOW = "SLOW_TESTS" in os.environ
SANITIZE = ["-g", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def run(*command, check=True, env=None, timeout=600, **more):
    """The ended command, with its output as text, as from a shell in the root of the tree: make's own variables are not
    for what it starts. `env` is added to the environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    own = {"PATH": f"{BIN}:{os.environ['PATH']}", "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build/zig")}
    environment = {**inherited, **own, **(env or {})}
    more = {"capture_output": True, "text": True, "cwd": ROOT, **more}
    done = subprocess.run([str(word) for word in command], env=environment, timeout=timeout, **more)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def clang_with_libstdcxx():
    """A command that compiles C++ by clang, with gcc's C++ library: to compile its own takes zig three minutes of a core."""
    found = run("g++", "-E", "-v", "-x", "c++", "/dev/null").stderr.split()
    folders = [word for word in found if word.startswith("/") and "c++" in word and pathlib.Path(word).is_dir()]
    libraries = [run("g++", f"-print-file-name={name}").stdout.strip() for name in ("libstdc++.so", "libgcc_s.so.1")]
    return [*CLANG, "cc", TRAPS, "-nostdinc++", *(f"-I{folder}" for folder in folders), *libraries]


def output_of(done):
    return f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def libdir():
    """The folder of the simulated libcuda."""
    return run(CUDA_SIM, "libdir").stdout.strip()


def library_folder(library=LIBRARY):
    """A folder that has the library under the name by which programs load it."""
    folder = ROOT / "build/python-tests" / hashlib.sha256(str(library).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "libcai.so.1").symlink_to(library)
    return folder


def linked(library=LIBRARY):
    """Flags for programs that load libcai."""
    folder = library_folder(library)
    return [folder / "libcai.so.1", f"-Wl,-rpath,{folder}"]


def compile(source, target, *flags, library=LIBRARY, cuda=False, compiler=None):
    """Compiles a file of C or C++: a program, with `-shared` a shared object, with `-c` an object. It is linked with
    libcai, unless `library` is None. With `cuda`, it sees the headers of NVIDIA and of the simulator, and is linked with
    the simulated driver. Flags come last, so they may replace the standard, and may be further files. Returns the target."""
    source, links = pathlib.Path(source), "-c" not in flags
    compiler = str(compiler or ("gcc" if source.suffix == ".c" else "g++"))
    command = [compiler, "-std=c++17", "-x", "c++", source, "-x", "none"] if compiler.endswith("++") else [compiler, "-std=gnu11", source]
    command += [*INCLUDES, *flags, "-o", target]
    if "-shared" in flags:
        command.append("-fPIC")
    if cuda:
        command += ["-I", SIM / "include", "-isystem", CUDA]
    if links and library is not None:
        command += linked(library)
    if links and cuda:
        command += ["-L", libdir(), "-lcuda"]
    # What the simulator preloads into this process is not for compilers.
    run(*command, *(["-lpthread", "-ldl"] if links else []), env={"LD_PRELOAD": ""})
    return target


def block(text, containing=""):
    """The first block of code in a page's text that contains another, and the text after it."""
    found = next(found for found in re.finditer(r"```\w+\n(.*?)```", text, re.S) if containing in found[0])
    return found[1], text[found.end() :]


def python_of(example):
    """The program after `python -c` in the first comment of an example."""
    lines = iter(example.read_text().splitlines())
    next(line for line in lines if line.endswith('python -c "'))
    text = "\n".join(line.lstrip("/* ") for line in lines)
    return text[: text.index('"')]


def kept_programs(folder):
    """What tools/keep_programs.sh has kept of each release, as shared objects: {release: {name: path}}. Linking fails if
    the library lacks a function under its symbol version."""
    kept = {}
    for archive in sorted((ROOT / "tests/kept").glob(f"*-{platform.machine()}.tar.xz")):
        release = folder / archive.name.partition("-")[0]
        release.mkdir()
        run("tar", "-xJf", archive, "-C", release)
        made = kept[release.name] = {}
        for source in sorted(release.glob("*.s")):
            compiler = "g++" if source.stem.startswith("cpp") else "gcc"
            made[source.stem] = source.with_suffix(".so")
            run(compiler, "-shared", "-Wl,-z,defs", source, "-o", made[source.stem], *linked())
    return kept


def cython_module(source, folder, *flags):
    """The module of a file in Cython."""
    source, made = pathlib.Path(source), folder / f"{pathlib.Path(source).stem}.c"
    run(sys.executable, "-m", "cython", "-I", ROOT / "include", source, "-o", made)
    return compile(made, made.with_suffix(".so"), "-shared", "-O1", "-Wall", "-Werror", "-isystem", PYTHON, *flags)


def simulated(*command, schedule="lazy", devices=1, check=True, **more):
    """Runs a command on the simulated driver. A race makes it fail, also one that an allocation or a free would order."""
    options = ["--print=exit", "--docs=11", f"--schedule={schedule}", f"--devices={devices}"]
    return run(CUDA_SIM, "run", *options, "--", *command, check=check, **more)


def sanitized_library(tree=ROOT, target=ROOT / "target/asan"):
    """The static library with AddressSanitizer in its Rust: rustc's option is unstable, which RUSTC_BOOTSTRAP allows. Its
    reports need lines; with all else that debuggers read, it is twice as large."""
    triple = f"{platform.machine()}-unknown-linux-gnu"
    run("cargo", "rustc", "-q", "--lib", "--crate-type", "staticlib", "--target", triple, "--target-dir", target,
        cwd=tree, env={"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address", "CARGO_PROFILE_DEV_DEBUG": "line-tables-only"})  # fmt: skip
    return target / triple / "debug/libcai.a"


# What the library and the program that makes its declarations are built of.
BUILT_OF = (
    "cudarc libc libloading cfg[-_]if rustix bitflags errno linux[-_]raw[-_]sys syn quote proc[-_]macro2 unicode[-_]ident"
    " cai[-_]headers"
).split()


def copy_of_builds(target):
    """Another folder for cargo's results, with what this tree's builds have left for others: packages of the registry, by
    which builds of other sources are shorter, and the optimized library. Cargo takes them for fresh, by its fingerprints."""
    for profile, packages in ("debug", BUILT_OF), ("release", [*BUILT_OF, "(libcai-c|cai)"]):
        wanted = re.compile(rf"(lib)?({'|'.join(packages)})-[0-9a-f]{{16}}\b")
        for folder in (".fingerprint", "build", "deps"):
            (target / profile / folder).mkdir(parents=True)
            for found in filter(lambda found: wanted.match(found.name), (ROOT / "target" / profile / folder).iterdir()):
                (shutil.copytree if found.is_dir() else shutil.copy2)(found, target / profile / folder / found.name)
    return target


def copy_of_sources(folder):
    """What the build of the library reads."""
    folder.mkdir()
    for name in ("CMakeLists.txt", "Cargo.toml", "Cargo.lock", "build.rs", "LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY"):
        shutil.copy(ROOT / name, folder)
    for name in ("abi", "cmake", "contrib", "include", "rust", "src", "tests/programs", "tools/headers"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


class Built:
    """Programs of capi-tests/sync and drivers that fail on demand, built in a folder, and how to run them."""

    def __init__(self, folder):
        self.folder = folder
        self.driver = libdir()
        self.shim = self.compile_shim("libshim.so")
        self.hip = self.compile_shim("libhip.so", "-DHIP", TESTS / "hip_on_cuda.c", cuda=True)
        self.drivers = {"CAI_CUDA_DRIVER": str(self.shim), "CAI_HIP_DRIVER": str(self.hip)}

    def compile_shim(self, name, *flags, cuda=False):
        target = self.folder / name
        return target if target.exists() else compile(TESTS / "shim.c", target, "-shared", *flags, library=None, cuda=cuda)

    def shim_without(self, function):
        """A driver that lacks a function."""
        return self.compile_shim(f"libshim_without_{function}.so", f"-D{function}=without_{function}")

    def compile(self, source, target):
        return compile(source, target, "-g", "-O1", "-rdynamic", "-I", TESTS, cuda=True)

    def run(self, program, *words, schedule="lazy", devices=2, check=True, **env):
        target = self.folder / program
        if not target.exists():
            self.compile(TESTS / f"{program}.c", target)
        return simulated(target, *words, schedule=schedule, devices=devices, check=check, env={**self.drivers, **env})
