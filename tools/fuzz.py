"""Builds the fuzz targets with AddressSanitizer and runs them, several at once, each from its checked-in corpus.

    python tools/fuzz.py --seconds 20              all targets, as CI does
    python tools/fuzz.py --seconds 600 array       one of them
    python tools/fuzz.py --count                   adds the inputs tried since the last count to fuzz/README.md
    python tools/fuzz.py --again FILE array        runs one input, such as one that failed
    python tools/fuzz.py --minimize                makes the checked-in corpus anew, of all that is known

What a run finds new is kept in build/fuzz/corpus, and the next run starts from it too. An input that fails is written to
build/fuzz/failures. Needs cargo and a C++ compiler. The sanitizer and the coverage need flags that are unstable in rustc,
which RUSTC_BOOTSTRAP allows on a stable compiler.
"""

import argparse
import concurrent.futures
import io
import itertools
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUZZ = ROOT / "fuzz"
WORK = ROOT / "build/fuzz"
PAGE = FUZZ / "README.md"
TRIED = WORK / "tried.json"
# Those that have CPython inside come last.
TARGETS = [
    "typestr", "descr_text", "array", "dlpack", "arrow", "owners", "ipc", "channel", "import_options", "exchange_tables",
]  # fmt: skip
WITH_PYTHON = ["import_options", "exchange_tables"]
COVERAGE = ["coverage-level=4", "coverage-inline-8bit-counters", "coverage-pc-table", "coverage-trace-compares"]
FLAGS = ["--cfg fuzzing", "-Cpasses=sancov-module", *(f"-Cllvm-args=-sanitizer-{flag}" for flag in COVERAGE), "-Zsanitizer=address",
         "-Ccodegen-units=4"]  # fmt: skip
# Inputs of all targets, in a folder for each, and how many bytes those of one may have.
CORPUS = FUZZ / "corpus.tar.xz"
LARGEST = 30_000


def libpython():
    """The shared library of the Python that runs this, or None."""
    folders = [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL")]
    names = [sysconfig.get_config_var("INSTSONAME"), sysconfig.get_config_var("LDLIBRARY")]
    paths = [pathlib.Path(folder, name) for folder in folders if folder for name in names if name and ".so" in name]
    return next((path for path in paths if path.exists()), None)


def build():
    triple = f"{platform.machine()}-unknown-linux-gnu"
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": " ".join(FLAGS)}
    tested, lock = ROOT / "Cargo.lock", FUZZ / "Cargo.lock"
    if not lock.exists() or lock.stat().st_mtime < tested.stat().st_mtime:
        shutil.copy(tested, lock)
    command = [os.environ.get("CARGO", "cargo"), "build", "-q", "--release", "--target", triple, "--target-dir", WORK / "target"]
    subprocess.run(command, cwd=FUZZ, env=environment, check=True)
    (WORK / "bin").mkdir(exist_ok=True)
    for target in TARGETS:
        built = WORK / "target" / triple / "release" / target
        link = WORK / "bin" / target
        link.unlink(missing_ok=True)
        link.symlink_to(built)


def environment(target):
    python = libpython()
    # CPython leaves things behind at the end, and so does the cache of types each time that it is emptied.
    options = {"ASAN_OPTIONS": f"detect_leaks={int(target not in WITH_PYTHON)}:allocator_may_return_null=1"}
    if python is None:
        return {**os.environ, **options}
    found = {"CAI_FUZZ_LIBPYTHON": str(python), "PYTHONHOME": sys.base_prefix, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    return {**os.environ, **found, **options}


def fuzz(target, seconds):
    """Returns how many inputs were tried, how many are known, and the report of a failure."""
    corpus, seeds, failures = WORK / "corpus" / target, unpack(target), WORK / "failures"
    for folder in (corpus, failures):
        folder.mkdir(parents=True, exist_ok=True)
    command = [WORK / "bin" / target, corpus, seeds, f"-max_total_time={seconds}", "-rss_limit_mb=3000",
               "-print_final_stats=1", "-timeout=20", f"-artifact_prefix={failures}/{target}-"]  # fmt: skip
    leaks = [] if target not in WITH_PYTHON else ["-detect_leaks=0"]
    done = subprocess.run([*map(str, command), *leaks], env=environment(target), capture_output=True, text=True, errors="replace")
    tried = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    known = re.findall(r"corp: (\d+)/", done.stderr)
    tried, known = int(tried[1]) if tried else 0, int(known[-1]) if known else 0
    checked_in = len(list(seeds.iterdir()))
    if done.returncode == 0 and (checked_in == 0 or tried <= checked_in):
        return tried, known, f"ERROR: {checked_in} inputs are checked in, and nothing new was tried\n{done.stderr}"
    return tried, known, done.stderr if done.returncode else ""


def unpack(target):
    """A folder with the checked-in inputs of a target."""
    folder = WORK / "seeds" / target
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in packed().items():
        if name.startswith(f"{target}/"):
            (WORK / "seeds" / name).write_bytes(data)
    return folder


def packed():
    with tarfile.open(CORPUS) as archive:
        return {file.name: archive.extractfile(file).read() for file in archive}


def pack(target, inputs):
    """Replaces the checked-in inputs of a target. Equal inputs make an equal archive."""
    known = {name: data for name, data in packed().items() if not name.startswith(f"{target}/")}
    known |= {f"{target}/{number:04}": data for number, data in enumerate(inputs)}
    with tarfile.open(CORPUS, "w:xz") as archive:
        for name, data in sorted(known.items()):
            file = tarfile.TarInfo(name)
            file.size = len(data)
            archive.addfile(file, io.BytesIO(data))


def minimize(target):
    """Keeps the smallest inputs that together reach all that is reached, up to a size."""
    seeds = unpack(target)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        command = [WORK / "bin" / target, "-merge=1", folder, WORK / "corpus" / target, seeds, "-detect_leaks=0"]
        (WORK / "corpus" / target).mkdir(parents=True, exist_ok=True)
        subprocess.run([*map(str, command)], env=environment(target), check=True, capture_output=True)
        inputs = sorted((path.read_bytes() for path in pathlib.Path(folder).iterdir()), key=lambda data: (len(data), data))
    sizes = itertools.accumulate(map(len, inputs))
    inputs = [data for data, size in zip(inputs, sizes) if size <= LARGEST]
    pack(target, inputs)
    return len(inputs)


def remember(tried):
    """Adds to what was tried since the last count."""
    known = json.loads(TRIED.read_text()) if TRIED.exists() else {}
    TRIED.write_text(json.dumps({target: known.get(target, 0) + tried.get(target, 0) for target in TARGETS}))


def count():
    """Adds what was tried since the last count to the last column of its table."""
    tried = json.loads(TRIED.read_text()) if TRIED.exists() else {}
    lines = PAGE.read_text().split("\n")
    for index, line in enumerate(lines):
        cells = line.split("|")
        name = cells[1].strip().strip("`") if len(cells) > 2 else ""
        if line.startswith("| `") and name in tried:
            cells[-2] = f" {int(cells[-2].replace(',', '').strip() or 0) + tried[name]:,} "
            lines[index] = "|".join(cells)
    PAGE.write_text("\n".join(lines))
    TRIED.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", os.cpu_count() or 1)), help="targets at once")
    parser.add_argument("--count", action="store_true", help="add what was tried to fuzz/README.md, and fuzz nothing")
    parser.add_argument("--again", metavar="FILE", help="run the target with this input")
    parser.add_argument("--minimize", action="store_true", help="make the checked-in corpus anew, and fuzz nothing")
    options = parser.parse_args()
    if options.count:
        return count()
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(unknown)}")
    targets = options.targets or TARGETS
    if libpython() is None:
        print(f"this Python has no shared library: left out are {', '.join(WITH_PYTHON)}")
        targets = [target for target in targets if target not in WITH_PYTHON]
        if os.environ.get("CI") or not targets:
            return 1
    WORK.mkdir(parents=True, exist_ok=True)
    build()
    if options.again:
        (target,) = targets
        command = [WORK / "bin" / target, "-detect_leaks=0", options.again]
        return subprocess.run([*map(str, command)], env=environment(target)).returncode
    if options.minimize:
        for target in targets:
            print(f"{target}: {minimize(target)} inputs", flush=True)
        return 0
    failed, tried = [], {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for target, (inputs, known, report) in zip(targets, pool.map(lambda target: fuzz(target, options.seconds), targets)):
            tried[target] = inputs
            print(f"{target}: {inputs:,} inputs tried, {known:,} kept" + (", FAILED" if report else ""), flush=True)
            if report:
                failed.append(target)
                start = max(0, min((report.find(word) for word in ("panicked at", "ERROR: ") if word in report), default=0) - 200)
                print(report[start : start + 6000], flush=True)
    remember(tried)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
