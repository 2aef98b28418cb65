"""How tests run commands, and compile and run programs on the simulated driver: the one place for it."""

import concurrent.futures
import hashlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

SIM = pathlib.Path(__file__).resolve().parents[2]
# Where cargo builds, as the Makefile exports it.
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or SIM / "target")
BUILT = TARGET / "release"
COMMAND = BUILT / "cuda-sim"
PLUGIN = SIM / "python"
SITE = pathlib.Path(sysconfig.get_path("purelib"))
HEADERS = {"12": SITE / "nvidia/cuda_runtime/include", "13": SITE / "nvidia/cu13/include"}
WORKERS = os.cpu_count() or 1
SCHEDULES = ["eager", "lazy", "random:7", "threads"]


def run(*command, check=True, env=None, timeout=600, **more):
    """The ended command, with its output as text, as from a shell in the folder of cuda-sim: make's own variables are not
    for what it starts. `env` is added to the environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    own = {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment = {**inherited, **own, **(env or {})}
    more = {"capture_output": True, "text": True, "cwd": SIM, **more}
    done = subprocess.run([str(word) for word in command], env=environment, timeout=timeout, **more)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def libdir():
    """The folder of the simulated libcuda."""
    return run(COMMAND, "libdir").stdout.strip()


def sim(*arguments, **more):
    return run(COMMAND, "run", "--print=exit", *arguments, **more)


PROGRAM = ["-include", SIM / "tests/program.h"]
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror"]


def compile_program(driver, target, sources, major="13", flags=()):
    include = ["-isystem", HEADERS[major], "-I", SIM / "include"]
    run("gcc", *FLAGS, "-rdynamic", *flags, *include, *sources, "-o", target, "-L", driver, "-lcuda", "-lpthread", "-ldl")
    return target


def compile_text(driver, target, text, flags=()):
    """A program whose source is written beside it."""
    source = target.with_name(target.name + ".c")
    source.write_text(text)
    return compile_program(driver, target, [source], flags=[*PROGRAM, *flags])


def compile_once(driver, name, sources, major="13"):
    """A program of many sources: each is compiled once, on all cores, and kept in build/ for all test processes."""
    include = ["-isystem", HEADERS[major], "-I", SIM / "include"]
    read = [*sources, *sorted(sources[0].parent.glob("*.h")), SIM / "include/cudasim.h", SIM / "tests/ok.h"]
    # The path as well: programs find the files beside their sources.
    digest = hashlib.sha256(repr((FLAGS, sources[0].parent)).encode())
    for path in read:
        digest.update(path.read_bytes())
    target = SIM / "build/test-programs" / f"{name}-{major}-{digest.hexdigest()[:16]}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            objects = [pathlib.Path(folder) / f"{source.stem}.o" for source in sources]
            with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
                done = [
                    pool.submit(run, "gcc", *FLAGS, *include, "-c", source, "-o", made)
                    for source, made in zip(sources, objects)
                ]
                [one.result() for one in done]
            made = pathlib.Path(folder) / "program"
            run("gcc", "-rdynamic", *objects, "-o", made, "-L", driver, "-lcuda", "-lpthread", "-ldl")
            made.rename(target)
    return target
