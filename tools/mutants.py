"""Breaks one thing at a time in the library, and looks whether a test fails.

    make mutants                                  all of them; `python tools/mutants.py NAME...` for some
    python tools/mutants.py --random 20           some, which CI runs; --seed repeats them
    python tools/mutants.py --check               only whether each text still occurs once in its file

tools/mutants.txt lists the mutants. Each is built in a copy of the tree under build/mutants. Then the tests of its suite run
until one fails: for streams the programs of capi-tests/sync under two schedules, for plain the programs of capi-tests, for
unit the tests in the library's sources, for python the tests in tests/python. Prints what survived, and fails if anything did.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPY = ROOT / "build/mutants"
LIST = ROOT / "tools/mutants.txt"


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", **more)


def build():
    profile = {"lto": "false", "opt-level": "0", "codegen-units": "64", "incremental": "true"}
    options = [word for name, value in profile.items() for word in ("--config", f"profile.release.{name}={value}")]
    done = run("cargo", "rustc", "-q", "--release", "--lib", "--crate-type", "cdylib", *options,
               cwd=COPY, env={**os.environ, "CARGO_TARGET_DIR": str(COPY / "target")})  # fmt: skip
    return done.returncode == 0, done.stderr


class Programs:
    """The programs of capi-tests, which tests/programs runs: it ends with the first that fails."""

    def __init__(self, mutants):
        command = ["cargo", "test", "-q", "--no-run", "--test", "programs", "--message-format=json"]
        lines = run(*command, cwd=ROOT).stdout.splitlines()
        found = [json.loads(line).get("executable") for line in lines if line.startswith("{")]
        self.runner = next(path for path in reversed(found) if path)
        self.all = self.jobs(sorted({name for mutant in mutants for name in mutant[5] or self.PROGRAMS}))

    def test(self, job):
        own = {"FAIL_FAST": "1", "SLOW_TESTS": "1", "PROGRAMS": job}
        env = {**os.environ, "CAI_LIBRARY": str(COPY / "target/release/libcai.so"), **own}
        done = run(self.runner, "--test-threads", os.environ.get("JOBS", os.cpu_count() or 1), env=env)
        failed = re.search("^failed: (.*)", done.stdout, re.MULTILINE)
        assert failed or done.returncode == 0, done.stdout + done.stderr
        return failed and failed[1]


class Streams(Programs):
    """Those of capi-tests/sync, on the simulated driver."""

    PROGRAMS = ["exchange", "produce", "capture", "events", "release", "hip"]
    # Some things show only where the driver refuses.
    REFUSALS = ["exchange::legacy_consumer", "capture::graph_keeps_an_owner", "hip::handles",
                "release::IN_ORDER_HANDLE_NO_CAPTURE_GLOBAL"]  # fmt: skip

    def jobs(self, tests):
        wanted = tests or self.PROGRAMS
        # Half of the runs are observed by the race checker; in the other half the library takes its fast path.
        ways = [(name, way) for name in wanted for way in ("lazy" if name.startswith("ipc") else "hidden", "threads")]
        names = [f"sync/{name}::*::{way}::2" for name, way in ways]
        return [" ".join(names + [f"sync/{case}::refuse" for case in self.REFUSALS if case.partition(":")[0] in wanted])]


class Plain(Programs):
    """Those that need no driver. The ones that show most changes of a module run first."""

    PROGRAMS = []

    def jobs(self, tests):
        return [" ".join(f"{name}::plain" for name in tests), "*::plain"] if tests else ["*::plain"]


class Unit:
    """The tests in the library's sources that a mutant names."""

    def __init__(self, mutants):
        self.all = sorted({name for mutant in mutants for name in mutant[5]})

    def jobs(self, tests):
        return tests

    def test(self, name):
        done = run("cargo", "test", "-q", "--lib", name, cwd=COPY, env={**os.environ, "CARGO_TARGET_DIR": str(COPY / "target")})
        assert re.search("[1-9] (passed|failed)", done.stdout), done.stdout + done.stderr
        return name if done.returncode else None


class Python:
    """The tests of Python objects that a mutant names."""

    def __init__(self, mutants):
        # Each list as it is: a test may pass only after those of another list.
        self.all = sorted({mutant[5] for mutant in mutants})

    def jobs(self, tests):
        return [tests]

    def test(self, tests):
        names = [f"tests/python/test_{name}.py" for name in tests]
        done = run(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *names, cwd=ROOT, timeout=600,
                   env={**os.environ, "CAI_LIBRARY": str(COPY / "libcai.so.1")})  # fmt: skip
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode == 0:
            return None
        return failed[0].split(" - ")[0] if failed else f"pytest ends with {done.returncode}"


def first_failure(suite, jobs):
    return next(filter(None, map(suite.test, jobs)), None)


def every_mutant():
    """(name, file, regular expression of the text, what takes its place, suite, tests)"""
    suites = {"streams": Streams, "plain": Plain, "unit": Unit, "python": Python}
    # A deeper line continues the one before.
    for line in re.sub(r"\n {4,}", " ", LIST.read_text()).splitlines():
        if line.startswith("  "):
            name, patch = line.strip().split(" | ", 1)
            text = re.sub(r"\[-(.*?)-\]", r"\1", re.sub(r"\{\+.*?\+\}", "", patch))
            instead = re.sub(r"\{\+(.*?)\+\}", r"\1", re.sub(r"\[-.*?-\]", "", patch))
            yield name, path, r"\s+".join(map(re.escape, text.split())), instead, suites[suite], tests
        elif not line.startswith("#"):
            path, suite, *tests = line.split()
            tests = tuple(tests)


def stale():
    """Mutants whose text is not in the file, or more than once; and names that are used twice."""
    seen = set()
    for name, path, text, *_ in every_mutant():
        count = len(re.findall(text, (ROOT / path).read_text()))
        if count != 1:
            yield f"{name}: the text occurs {count} times in {path}"
        if name in seen:
            yield f"{name}: two mutants have this name"
        seen.add(name)


def set_up():
    """A fresh copy of the sources. What cargo built before is kept, so that only changes are compiled."""
    COPY.mkdir(parents=True, exist_ok=True)
    for part in ("src", "include", "rust", "tests/programs", "tools/headers"):
        shutil.rmtree(COPY / part, ignore_errors=True)
        shutil.copytree(ROOT / part, COPY / part, ignore=shutil.ignore_patterns("target"))
    for part in ("Cargo.toml", "Cargo.lock", "build.rs", "README.md"):
        shutil.copy(ROOT / part, COPY / part)
    good, why = build()
    assert good, why
    link = COPY / "libcai.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(COPY / "target/release/libcai.so")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--random", type=int, metavar="COUNT")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--part", help="only files whose path begins so, such as src/validate")
    options = parser.parse_args()
    wrong = list(stale())
    print("\n".join(wrong), end="\n" if wrong else "")
    if options.check or wrong:
        return 1 if wrong else 0
    mutants = [mutant for mutant in every_mutant() if not options.names or mutant[0] in options.names]
    mutants = [mutant for mutant in mutants if mutant[1].startswith(options.part or "")]
    if options.random:
        mutants = random.Random(options.seed).sample(mutants, min(options.random, len(mutants)))
        print(f"Mutants: {len(mutants)}: --random {options.random} --seed {options.seed}", flush=True)
    set_up()
    suites = {kind: kind([mutant for mutant in mutants if mutant[4] is kind]) for kind in {mutant[4] for mutant in mutants}}
    for suite in suites.values():
        failing = first_failure(suite, suite.all)
        assert not failing, f"without a mutant: {failing}"
    killed, survived, other = 0, [], []
    for name, path, text, instead, kind, tests in mutants:
        original = (COPY / path).read_text()
        (COPY / path).write_text(re.sub(text, lambda _: instead, original))
        good, why = build()
        if not good:
            other.append(f"{name}: does not build: {why[:160]}")
        else:
            found = first_failure(suites[kind], suites[kind].jobs(tests))
            print(f"{'killed' if found else 'SURVIVED'}: {name}{f' ({found})' if found else ''}", flush=True)
            killed += found is not None
            survived += [] if found else [name]
        (COPY / path).write_text(original)
    print(f"{killed} killed, {len(survived)} survived: {survived}")
    print("\n".join(other))
    return 1 if survived or other else 0


if __name__ == "__main__":
    sys.exit(main())
