"""Runs everything that needs a real CUDA driver, and writes one report.

    python3 tools/gpu_test.py [--programs FOLDER] [--report FILE] [--limit SECONDS] [--nvcc FILE]

FOLDER holds the prebuilt programs (`make gpu-programs`); neither cargo nor a compiler for the host is needed. All
parts run, whatever an earlier part finds. A part that exceeds its time limit is ended and counts as failed. A part
whose requirement is missing (a driver, a Python library, nvcc, compute-sanitizer) is skipped. The report is rewritten
after each part, so that an interrupted run leaves the results so far.

Exit status: 0 if no part failed, 1 otherwise.
"""

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
PASSED, FAILED, SKIPPED, WAITING = "passed", "FAILED", "skipped", "not run"
PYTHON_LIBRARIES = ("cupy", "numba.cuda", "torch", "jax", "cuda.core", "mpi4py")
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck")
# Exit status of gpu_python.py if the library cannot be imported or has no device.
NOT_AVAILABLE = 77
# Exit status of `cuda-sim run` if a race was reported.
RACE_REPORTED = 66
LONGEST_OUTPUT = 6000

# Runs in a process of its own: a driver that crashes while it starts must not end this program.
PROBE = """
import ctypes, json
cu = ctypes.CDLL("libcuda.so.1")
code = cu.cuInit(0)
number, found = ctypes.c_int(), []
if code == 0:
    cu.cuDeviceGetCount(ctypes.byref(number))
    for device in range(number.value):
        name, value, capability = ctypes.create_string_buffer(256), ctypes.c_int(), []
        cu.cuDeviceGetName(name, 256, device)
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
            cu.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            capability.append(value.value)
        found.append({"name": name.value.decode(), "capability": capability})
cu.cuDriverGetVersion(ctypes.byref(number))
print(json.dumps({"code": code, "devices": found, "version": number.value, "simulated": hasattr(cu, "cudasim_get_api")}))
"""


class Failure(Exception):
    """The part failed, with the reason."""


class Skip(Exception):
    """The part cannot run here, with the reason."""


class Part:
    """One row of the report: a function that returns a summary, or raises Failure or Skip."""

    def __init__(self, name, limit, function, needs_driver=True):
        self.name, self.limit, self.function, self.needs_driver = name, limit, function, needs_driver
        self.state, self.summary, self.seconds, self.details = WAITING, "", 0.0, []

    def run(self, bench):
        began = time.monotonic()
        bench.part, bench.deadline = self, began + min(self.limit, bench.limit)
        try:
            if self.needs_driver and not bench.driver:
                raise Skip(bench.no_driver)
            self.summary = self.function(bench)
            self.state = PASSED
        except Skip as reason:
            self.state, self.summary = SKIPPED, str(reason)
        except Failure as reason:
            self.state, self.summary = FAILED, str(reason)
        except Exception:
            self.state, self.summary = FAILED, "error in the runner"
            self.details.append(fenced(traceback.format_exc()))
        self.seconds = time.monotonic() - began


class Bench:
    """The machine, the folder of programs, and how commands run there."""

    def __init__(self, folder, limit, nvcc):
        self.folder, self.limit = folder, limit
        self.part, self.deadline = None, time.monotonic() + 60
        self.nvcc = find_nvcc() if nvcc is None else shutil.which(nvcc)
        self.sanitizer = find_tool("compute-sanitizer", self.nvcc)
        self.driver, self.no_driver = {}, ""
        self.examples = []
        probe = self.run([sys.executable, "-c", PROBE])
        try:
            self.driver = json.loads(probe.stdout)
        except ValueError:
            self.no_driver = "no CUDA driver: " + (last_line(probe.stderr) or f"exit status {probe.returncode}")
        if self.driver and (self.driver["code"] != 0 or not self.driver["devices"]):
            self.no_driver = f"no CUDA device: cuInit returned {self.driver['code']}"
            self.driver = {}

    def run(self, command, at_most=None, **variables):
        """Runs a command and records it in the part's details. Raises Failure if the part's time is over."""
        command = [str(word) for word in command]
        left = self.deadline - time.monotonic()
        limit = max(0.0, left if at_most is None else min(left, at_most))
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Failure(f"{command[0]}: {error.strerror}") from error
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            # The whole group: a program that hangs may have started others.
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.record(command, out + err, "ended after its time limit")
            raise Failure(f"{pathlib.Path(command[0]).name}: not finished after {limit:.0f} s") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def record(self, command, output, note=""):
        """Adds a command and its output to the part's details."""
        if self.part is not None:
            shown = " ".join(shlex.quote(word) for word in command).replace(str(self.folder) + "/", "")
            self.part.details.append(fenced(f"$ {shown}{'  # ' + note if note else ''}\n{output}"))

    def check(self, command, expected=0, **more):
        """Runs and records a command; raises Failure if its exit status is not the expected one."""
        done = self.run(command, **more)
        self.record(done.args, done.stdout + done.stderr, f"exit status {done.returncode}")
        if done.returncode != expected:
            raise Failure(f"{pathlib.Path(done.args[0]).name}: exit status {done.returncode}, expected {expected}")
        return done


def fenced(text):
    if len(text) > LONGEST_OUTPUT:
        text = text[: LONGEST_OUTPUT // 2] + "\n[...]\n" + text[-LONGEST_OUTPUT // 2 :]
    return f"```text\n{text.rstrip().replace('```', chr(39) * 3)}\n```"


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def find_nvcc():
    """The CUDA compiler: of CUDA_HOME, of PATH, of the usual folders, or of Python's packages."""
    home = [pathlib.Path(os.environ["CUDA_HOME"]) / "bin/nvcc"] if os.environ.get("CUDA_HOME") else []
    named = [pathlib.Path(found) for found in [shutil.which("nvcc")] if found]
    usual = [pathlib.Path("/usr/local/cuda/bin/nvcc"), *sorted(pathlib.Path("/usr/local").glob("cuda-*/bin/nvcc"))[::-1]]
    packages = sorted(pathlib.Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin/nvcc"))[::-1]
    return next((str(path) for path in [*home, *named, *usual, *packages] if os.access(path, os.X_OK)), None)


def find_headers():
    """The folder of cuda.h among Python's packages."""
    found = sorted(pathlib.Path(sysconfig.get_path("purelib")).glob("nvidia/*/include/cuda.h"))
    return found[-1].parent if found else None


def find_tool(name, nvcc):
    """Another tool of the CUDA toolkit, in PATH or beside nvcc."""
    beside = pathlib.Path(nvcc).resolve().with_name(name) if nvcc else None
    return shutil.which(name) or (str(beside) if beside and os.access(beside, os.X_OK) else None)


# --- parts, in the order of the report --------------------------------------------------------------------------------


def conformance(bench):
    """The rules of the driver, on the real one and on the simulated one."""
    program = bench.folder / "conformance"
    path = ":".join(filter(None, [str(bench.folder / "simulated"), os.environ.get("LD_LIBRARY_PATH", "")]))
    # A real device runs beside the host; a dry run compares the simulated driver with itself.
    schedule = "eager" if bench.driver["simulated"] else "threads"
    simulated = {"LD_LIBRARY_PATH": path, "CUDASIM_SCHEDULE": schedule, "CUDASIM_RACES": "off"}
    found = {}
    for driver, more in (("simulated", simulated), ("real", {})):
        (bench.folder / f"{driver}.json").unlink(missing_ok=True)
        found[driver] = bench.run([program, "--json", bench.folder / f"{driver}.json"], **more)
    real = found["real"]
    failed = [line for line in real.stdout.splitlines() if not line.startswith("ok ")]
    bench.record(real.args, "\n".join(failed) + "\n" + real.stderr, f"exit status {real.returncode}, without rules that hold")
    compare = [bench.folder / "compare.py", bench.folder / "real.json", bench.folder / "simulated.json"]
    table = bench.run([sys.executable, *compare])
    rows = table.stdout.splitlines()
    bench.part.details.append("\n".join([*rows[:2], *(row for row in rows[2:] if row.endswith("DIFFERS |"))]))
    summary = f"{last_line(real.stdout)}; {last_line(table.stdout) or last_line(table.stderr)}"
    if real.returncode != 0 or table.returncode != 0:
        raise Failure(summary)
    return summary


def programs_with_cases():
    """The programs about streams that also run on a GPU, as their first comments state."""
    for path in sorted((ROOT / "capi-tests/sync").glob("*.c")):
        text = path.read_text()
        if re.search(r"^ \* run: .*\bgpu\b", text, re.MULTILINE) and "run_cases(" in text:
            yield path.stem


def stream_program(name):
    """All test cases of a program about streams, each in a process, with the library's driver calls counted."""

    def run(bench):
        shim = {"CAI_CUDA_DRIVER": bench.folder / "libshim.so"}
        cases = bench.check([bench.folder / name, "list"], at_most=60).stdout.split()
        bench.part.details.clear()
        failed = []
        for case in cases:
            try:
                bench.check([bench.folder / name, case], at_most=60, **shim)
                bench.part.details.pop()
            except Failure as reason:
                failed.append(f"{case} ({reason})")
        if failed or not cases:
            raise Failure(f"{len(failed)} of {len(cases)} cases failed: {', '.join(failed)[:300]}")
        return f"cases: {len(cases)}"

    return run


def program(name, *arguments):
    """A program that is run once; the last line of its output is the summary."""

    def run(bench):
        return last_line(bench.check([bench.folder / name, *arguments]).stdout)

    return run


def measured(*commands):
    """Programs of the bench; a dry run is to show that they run."""

    def run(bench):
        once = {"BENCH_PROCESSES": "1", "BENCH_ROUNDS": "1" if bench.driver["simulated"] else "21"}
        bench.check([sys.executable, ROOT / "bench/run.py", bench.folder, *commands], **once)
        return f"{len(commands)} program{'s' if len(commands) > 1 else ''}"

    return run


def python_library(name):
    """One Python library: import, export, streams, lifetime, read-only arrays, masks."""

    def run(bench):
        done = bench.run([sys.executable, ROOT / "interop/gpu_python.py", bench.folder, name])
        if done.returncode == NOT_AVAILABLE:
            raise Skip(last_line(done.stdout).removeprefix(f"{name}: ") or "not available")
        bench.record(done.args, done.stdout + done.stderr, f"exit status {done.returncode}")
        if done.returncode != 0:
            raise Failure(f"exit status {done.returncode}")
        return f"checks: {len(done.stdout.splitlines())}"

    return run


def cu_examples(bench):
    """The .cu examples, compiled with the nvcc of this machine and run."""
    library = next(iter(sorted(bench.folder.glob("libcai.so.*"))), None)
    if library is None:
        raise Failure(f"no libcai.so.* in {bench.folder}")
    options = ["-std=c++17", "-I", ROOT / "include", "-I", bench.folder / "include"]
    link = [library, bench.folder / "simulated/libcuda.so.1"]
    if bench.driver["simulated"]:
        # A simulated device runs host functions: the examples compile with a C++ compiler as well.
        compiler, headers = shutil.which("g++"), find_headers()
        if compiler is None or headers is None:
            raise Skip("simulated driver, and no g++ or no cuda.h")
        build = [compiler, "-x", "c++", "-isystem", headers, *options]
        link = ["-x", "none", *link, f"-Wl,-rpath,{bench.folder}", "-ldl"]
    else:
        if bench.nvcc is None:
            raise Skip("no nvcc in CUDA_HOME, PATH, /usr/local/cuda* or Python's packages")
        major, minor = bench.driver["devices"][0]["capability"]
        build = [bench.nvcc, f"-arch=sm_{major}{minor}", "-lineinfo", *options]
        link = [*link, "-Xlinker", f"-rpath={bench.folder}", "-ldl"]
    failed = []
    sources = sorted((ROOT / "examples-c").glob("*.cu"))
    for source in sources:
        target = bench.folder / source.stem
        try:
            bench.check([*build, source, "-o", target, *link])
            bench.check([target], at_most=60)
            bench.examples.append(target)
        except Failure as reason:
            failed.append(f"{source.name}: {reason}")
    if failed or not sources:
        raise Failure("; ".join(failed) or "no .cu example")
    return f"{len(sources)} compiled with {pathlib.Path(build[0]).name} and run"


def sanitizer(tool):
    """compute-sanitizer over the .cu examples."""

    def run(bench):
        if bench.sanitizer is None:
            raise Skip("no compute-sanitizer in PATH or beside nvcc")
        if not bench.examples:
            raise Skip("no .cu example was built")
        for example in bench.examples:
            bench.check([bench.sanitizer, "--tool", tool, "--error-exitcode", "9", example])
        return f"examples: {len(bench.examples)}"

    return run


def shadow_checker(bench):
    """The race checker beside the real driver: nothing to report, and one race to report."""
    command = [bench.folder / "cuda-sim", "run", "--shadow", "--print=exit", "--", bench.folder / "race"]
    bench.check([*command, "ordered"])
    done = bench.check([*command, "racy"], expected=RACE_REPORTED)
    return last_line(done.stderr)


def all_parts():
    return [
        Part("conformance", 300, conformance),
        *(Part(f"streams: {name}", 240, stream_program(name)) for name in programs_with_cases()),
        Part("streams: stress", 180, program("stress", "32", "20000")),
        Part("begin and end, against the same calls by hand", 120, measured("streams=./streams")),
        Part("events against blocking (pingpong)", 180, measured(*(f"{n}=./pingpong {n}" for n in (65536, 1 << 20, 1 << 26)))),
        *(Part(f"Python: {name}", 180, python_library(name)) for name in PYTHON_LIBRARIES),
        Part(".cu examples", 240, cu_examples),
        *(Part(f"compute-sanitizer: {tool}", 180, sanitizer(tool)) for tool in SANITIZER_TOOLS),
        Part("race checker beside the driver", 120, shadow_checker),
    ]


# --- the report -------------------------------------------------------------------------------------------------------


def version_of(bench, command, word):
    """The line of a tool's --version output that contains a word."""
    if command is None:
        return "not found"
    try:
        text = bench.run([command, "--version"], at_most=30).stdout
    except Failure as reason:
        return str(reason)
    return next((line.strip() for line in text.splitlines() if word.lower() in line.lower()), last_line(text))


def machine(bench):
    """The rows of the first table."""
    rows = [("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"))]
    smi = shutil.which("nvidia-smi")
    listed = ""
    if smi:
        query = [smi, "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"]
        try:
            listed = bench.run(query, at_most=30).stdout.strip()
        except Failure as reason:
            listed = str(reason)
    devices = [f"{d['name']} ({d['capability'][0]}.{d['capability'][1]})" for d in bench.driver.get("devices", [])]
    rows.append(("GPU", "; ".join(devices) or bench.no_driver))
    rows.append(("nvidia-smi", "; ".join(listed.splitlines()) or "not found"))
    version = bench.driver.get("version", 0)
    simulated = ", simulated by cuda-sim" if bench.driver.get("simulated") else ""
    rows.append(("CUDA of the driver", f"{version // 1000}.{version % 1000 // 10}{simulated}" if version else "none"))
    rows.append(("nvcc", version_of(bench, bench.nvcc, "release")))
    rows.append(("compute-sanitizer", version_of(bench, bench.sanitizer, "version")))
    rows.append(("Python", f"{platform.python_version()}, {platform.platform()}"))
    installed = [name for name in PYTHON_LIBRARIES if importlib.util.find_spec(name.split(".")[0])]
    rows.append(("Python libraries", ", ".join(installed) or "none"))
    return rows


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def report(rows, parts):
    lines = ["# Results on a GPU", "", "Written by `make gpu-test` (`tools/gpu_test.py`).", "", "| machine | |", "|---|---|"]
    lines += [f"| {name} | {cell(value)} |" for name, value in rows]
    lines += ["", "## Parts", "", "| part | result | seconds | summary |", "|---|---|---:|---|"]
    lines += [f"| {part.name} | {part.state} | {part.seconds:.1f} | {cell(part.summary)} |" for part in parts]
    lines += ["", "## Details"]
    for part in parts:
        lines += ["", f"### {part.name}", "", f"{part.state}: {part.summary or 'nothing to report'}"]
        for detail in part.details:
            lines += ["", detail]
    return "\n".join(lines) + "\n"


def main(arguments):
    parser = argparse.ArgumentParser(description="Runs everything that needs a real CUDA driver; writes one report.")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/gpu", help="the prebuilt programs")
    parser.add_argument("--report", type=pathlib.Path, help="the report (default: gpu.md among the programs)")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds that no part may exceed")
    parser.add_argument("--nvcc", help="the CUDA compiler; without this option it is searched for")
    options = parser.parse_args(arguments)
    folder = options.programs.resolve()
    target = options.report or folder / "gpu.md"
    bench = Bench(folder, options.limit, options.nvcc)
    rows, parts = machine(bench), all_parts()
    for part in parts:
        target.write_text(report(rows, parts), encoding="utf-8")
        part.run(bench)
        print(f"{part.state:8} {part.name}: {cell(part.summary)}", flush=True)
    target.write_text(report(rows, parts), encoding="utf-8")
    states = [part.state for part in parts]
    print(f"{states.count(PASSED)} passed, {states.count(FAILED)} failed, {states.count(SKIPPED)} skipped: {target}")
    return 1 if FAILED in states else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
