"""How tests run commands, and compile and run programs on the simulated driver: the one place for it."""

import os
import pathlib
import subprocess
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/release"
# The simulator, as a user has it: `make sim` installs it there.
SIM = pathlib.Path(os.environ.get("CUDA_SIM_ROOT") or ROOT / "build/sim")
CUDA_SIM = SIM / "bin/cuda-sim"
SITE = pathlib.Path(sysconfig.get_path("purelib"))
BIN = ROOT / "build/venv/bin"
TESTS = ROOT / "capi-tests/sync"
HEADERS = ["-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include", "-I", SIM / "include"]
STRICT = ["-g", "-O1", "-Wall", "-Wextra", "-Werror"]


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


def output_of(done):
    return f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def libdir():
    """The folder of the simulated libcuda."""
    return run(CUDA_SIM, "libdir").stdout.strip()


class Built:
    """The programs of capi-tests/sync and drivers that fail on demand, built in a folder, and how to run them."""

    def __init__(self, folder, driver):
        self.folder = folder
        self.driver = driver
        self.shim = folder / "libshim.so"
        (folder / "libcai.so.1").symlink_to(BUILT / "libcai.so")
        self.compile_shim(self.shim)
        self.hip = folder / "libhip.so"
        self.compile_shim(self.hip, "-DHIP", TESTS / "hip_on_cuda.c", *HEADERS[:2], "-L", driver, "-lcuda")
        self.drivers = {"CAI_CUDA_DRIVER": str(self.shim), "CAI_HIP_DRIVER": str(self.hip)}

    def compile_shim(self, target, *flags):
        run("gcc", "-std=gnu11", *STRICT, "-shared", "-fPIC", TESTS / "shim.c", *flags, "-o", target, "-ldl")

    def shim_without(self, function):
        """A driver that lacks a function."""
        target = self.folder / f"libshim_without_{function}.so"
        if not target.exists():
            self.compile_shim(target, f"-D{function}=without_{function}")
        return target

    def program(self, name):
        target = self.folder / name
        return target if target.exists() else self.compile(TESTS / f"{name}.c", target)

    def compile(self, source, target):
        language = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu11"]
        run(
            *language, *STRICT, "-rdynamic", *HEADERS, "-I", TESTS, source, "-o", target, "-L", BUILT, "-lcai",
            "-L", self.driver, "-lcuda", "-lpthread", "-ldl", f"-Wl,-rpath,{self.folder}",
        )  # fmt: skip
        return target

    def run(self, program, *words, schedule="lazy", devices=2, check=True, **env):
        return run(
            CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", f"--devices={devices}", "--",
            self.program(program), *words, check=check, timeout=120, env={**self.drivers, **env},
        )  # fmt: skip

    def cases(self, program):
        return self.run(program, "list").stdout.split()
