"""The plug-in for pytest: `pytest --cuda-sim` runs the tests on the simulated driver.

A race that is found during a test fails that test, and its report is part of the test's. After each
test all work on streams is waited for, so that it does not race with a later test.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Generator
from typing import Any, TypedDict, TypeVar

import pytest

import cuda_sim
from cuda_sim import _driver
from cuda_sim._collect import Collector, plural

# Options of `cuda-sim run` that a session decides.
OWN_OPTIONS = {"races", "print", "stub", "explain", "undeclared"}
RACES = {"fail": "error", "error": "error", "report": "warn", "warn": "warn", "off": "off"}
# Set for the interpreter that replaces this one.
STARTED = "CUDASIM_PYTEST"

Result = TypeVar("Result")


class Settings(TypedDict):
    """Arguments of the marker of a test."""

    races: str
    synchronize: bool
    timeout: float


class Found(TypedDict):
    """Races that a report of a test has."""

    count: int
    text: str


class State:
    """A test that runs: races by the phase in which they were found."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.found: dict[str, Found] = {}
        self.required = 0


STATE = pytest.StashKey[State]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cuda-sim", "simulated CUDA driver")
    group.addoption(
        "--cuda-sim",
        action="store_true",
        dest="cuda_sim",
        help="Run the tests on a simulated CUDA driver; a race fails the test that has it. "
        "See pytest --cuda-sim --help for its options.",
    )


@functools.lru_cache(maxsize=None)
def run_options() -> dict[str, tuple[str | None, str]]:
    """Returns the other options of `cuda-sim run`: a text for the value, None for a flag, and help."""
    try:
        listing = subprocess.run([cuda_sim.command(), "options"], stdout=subprocess.PIPE, check=True)
    except FileNotFoundError:
        return {}  # `start` reports it.
    rows = [line.split("\t") for line in listing.stdout.decode().splitlines()]
    return {
        name: (value.strip("[=]") or None, text)
        for name, value, text in rows
        if name not in OWN_OPTIONS
    }


def names_of(name: str) -> tuple[str, str]:
    return f"--{name}", f"--cuda-sim-{name}"


def add_options(add: Callable[..., None]) -> None:
    add(
        "races",
        metavar="KIND",
        choices=list(RACES),
        help="what a race does: fail (the test), report, off",
    )
    for name, (metavar, text) in run_options().items():
        if metavar is None:
            add(name, action="store_true", help=text)
        else:
            add(name, action="append", metavar=metavar, help=text)


def dest_of(name: str) -> str:
    return "cuda_sim_" + name.replace("-", "_")


def parse(args: list[str]) -> argparse.Namespace:
    """Returns the options for the driver, before conftest files are imported, which may need it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog="pytest")

    def add(name: str, **more: Any) -> None:
        parser.add_argument(*names_of(name), dest=dest_of(name), **more)

    add_options(add)
    found, _ = parser.parse_known_args(args)
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, Result, Result]:
    # As a wrapper, this runs before the capture of output begins, and before the import of
    # conftest files.
    known = early_config.known_args_namespace
    active = getattr(known, "cuda_sim", False)
    if active:
        # A value is optional: without this, the next argument would be taken for it.
        for at, word in enumerate(args):
            if word in names_of("runtime"):
                args[at] = word + "=any"
        if not (known.help or known.version):
            start(early_config, parse(args))
    result = yield
    if active:
        register_options(parser)
    return result


def register_options(parser: pytest.Parser) -> None:
    """Adds the options of the driver: only where it was asked for, and after the project's own.

    A name that another one has can be written with the prefix `--cuda-sim-`.
    """
    groups = [*getattr(parser, "_groups", ()), getattr(parser, "_anonymous", None)]
    taken = {
        name
        for group in groups
        if group is not None
        for option in group.options
        for name in option.names()
    }
    group = parser.getgroup("cuda-sim")

    def add(name: str, **more: Any) -> None:
        names = [one for one in names_of(name) if one not in taken]
        group.addoption(*names, dest=dest_of(name), **more)

    add_options(add)


def start(config: pytest.Config, options: argparse.Namespace) -> None:
    """Gives this process the simulated driver: replaces the interpreter, if necessary."""
    if _driver.present():
        if STARTED not in os.environ and not is_worker():
            refuse_other_options(options)
        return
    if is_worker():
        raise pytest.UsageError(
            "--cuda-sim: this worker has no simulated driver; only local workers (-n) inherit it"
        )
    if os.environ.get(STARTED) == "1":
        raise pytest.UsageError(
            "--cuda-sim: the interpreter does not find the simulated driver, although "
            f"LD_LIBRARY_PATH names it: {os.environ.get('LD_LIBRARY_PATH')}"
        )
    if not sys.platform.startswith("linux"):
        raise pytest.UsageError("--cuda-sim: the simulated driver needs Linux")
    words = command_line()
    if tuple(config.invocation_params.args) != tuple(sys.argv[1:]) or words is None:
        raise pytest.UsageError(
            "--cuda-sim: pytest was called by a program, which cannot be started again in its "
            f"place; start that program with: {cuda_sim.command()} run --print=exit -- PROGRAM"
        )
    try:
        program = cuda_sim.command()
    except FileNotFoundError as error:
        raise pytest.UsageError(f"--cuda-sim: {error}") from None
    os.environ[STARTED] = "1"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(
        program,
        ["cuda-sim", "run", "--print=exit", *as_words(options), "--", sys.executable, *words],
    )


def refuse_other_options(options: argparse.Namespace) -> None:
    """The driver was chosen by the command that started this process, and with it its options."""
    words = [
        word for word in as_words(options) if not word.startswith(("--races", "--undeclared"))
    ]
    if words:
        raise pytest.UsageError(
            "--cuda-sim: this process already has a simulated driver, which was started without "
            f"{words[0]}: that is an option for `cuda-sim run` then"
        )


def as_words(options: argparse.Namespace) -> list[str]:
    """Returns the options as those of `cuda-sim run`."""
    # Whether a test passes without a kernel is for the test to say.
    words = [f"--races={RACES[options.cuda_sim_races or 'fail']}", "--undeclared=warn"]
    for name, (metavar, _) in run_options().items():
        value = getattr(options, dest_of(name))
        if metavar is None:
            words += [f"--{name}"] if value else []
        else:
            words += [f"--{name}" if one == "any" else f"--{name}={one}" for one in value or ()]
    return words


def is_worker() -> bool:
    """Returns whether pytest-xdist started this process. Processes of its tests are not workers."""
    return "PYTEST_XDIST_WORKER" in os.environ and "-c" in (command_line() or ())


def command_line() -> list[str] | None:
    """Returns the arguments that this interpreter was started with."""
    if hasattr(sys, "orig_argv"):
        return sys.orig_argv[1:] or None
    try:
        return (
            pathlib.Path("/proc/self/cmdline")
            .read_bytes()
            .decode(errors="surrogateescape")
            .split("\0")[1:-1]
            or None
        )
    except OSError:
        return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "cuda_sim(races=None, synchronize=True, timeout=10): what cuda-sim does in this test. "
        'races: "fail"; "report"; "allow" ignores races; "require" fails without one. '
        "synchronize: whether to wait for all "
        "work on streams after the test, at most for `timeout` seconds.",
    )
    if config.getoption("cuda_sim", False) and not (config.option.help or config.option.version):
        config.pluginmanager.register(Session(config), "cuda-sim-session")


class Session:
    """The hooks of a session on the simulated driver."""

    def __init__(self, config: pytest.Config) -> None:
        races = RACES[config.getoption(dest_of("races"), None) or races_of_environment()]
        self.config = config
        self.mode = {"error": "fail", "warn": "report", "off": "off"}[races]
        # Only `cuda-sim run` can remove the folder: this process writes into it when it ends.
        self.collector = Collector(os.environ.get("CUDASIM_REPORT_FOLDER"))
        self.outside: list[str] = []

    # --- before and after ---

    def pytest_report_header(self) -> str:
        schedule = os.environ.get("CUDASIM_SCHEDULE", "eager")
        return f"cuda-sim: simulated driver, schedule {schedule}, races {self.mode}"

    def pytest_unconfigure(self) -> None:
        self.collector.close()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.take_outside()
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["cuda_sim_outside"] = self.outside
        elif self.outside and self.mode == "fail" and session.exitstatus in (0, 5):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.outside += getattr(node, "workeroutput", {}).get("cuda_sim_outside", [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts: list[tuple[str, str, Found, bool]] = []
        for reports in list(terminalreporter.stats.values()):
            for report in reports:
                found = getattr(report, "cuda_sim", None)
                if found and (report.nodeid, report.when) not in [one[:2] for one in counts]:
                    shown = report.passed or report.skipped and not hasattr(report, "wasxfail")
                    counts.append((report.nodeid, report.when, found, shown))
        shown = [one for one in counts if one[3] and one[2]["text"]]
        if shown or self.outside:
            terminalreporter.section("races")
        for nodeid, _, found, _ in shown:
            terminalreporter.write_line(f"in {nodeid}:")
            terminalreporter.write_line(found["text"])
        if self.outside:
            terminalreporter.write_line("outside of tests:")
        for text in self.outside:
            terminalreporter.write_line(text)
        kernels = self.collector.kernels()
        if kernels:
            text = f"cuda-sim: kernels that are not declared were not launched: {', '.join(kernels)}"
            terminalreporter.write_line(text, yellow=True)
        races = sum(one[2]["count"] for one in counts)
        if races or self.outside:
            tests = len({one[0] for one in counts})
            terminalreporter.write_line(
                f"cuda-sim: {plural(races, 'race')} in {plural(tests, 'test')}", red=True
            )

    # --- tests ---

    def take_outside(self) -> None:
        """Takes what was found outside of all tests: by imports, and by fixtures of the session."""
        if self.mode != "off":
            self.outside += [
                race["text"] for race in self.collector.take(None) if not race["remark"]
            ]

    def settings(self, item: pytest.Item) -> Settings:
        """Returns what the marker of a test says."""
        found: dict[str, Any] = {"races": self.mode, "synchronize": True, "timeout": 10}
        for marker in reversed(list(item.iter_markers("cuda_sim"))):
            unknown = sorted(set(marker.kwargs) - set(found))
            if marker.args or unknown:
                raise pytest.UsageError(
                    f"{item.nodeid}: cuda_sim has no argument {[*unknown, *marker.args][0]!r}; "
                    "it has races, synchronize and timeout; options of the driver are those of "
                    "the session"
                )
            found.update(marker.kwargs)
        if found["races"] not in ("fail", "report", "allow", "require", "off"):
            raise pytest.UsageError(
                f"{item.nodeid}: cuda_sim(races={found['races']!r}): expected fail, report, "
                "allow or require"
            )
        timeout = found["timeout"]
        if not isinstance(timeout, (int, float)) or not 0 <= timeout <= 1e6:
            raise pytest.UsageError(
                f"{item.nodeid}: cuda_sim(timeout={timeout!r}): expected a number of seconds"
            )
        if self.mode == "off":
            found["races"] = "off"
        return Settings(
            races=found["races"], synchronize=found["synchronize"], timeout=timeout
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Result, Result]:
        self.take_outside()
        item.stash[STATE] = state = State()
        refused = None
        try:
            state.settings = settings = self.settings(item)
            self.collector.begin(item.nodeid, fails=settings["races"] == "fail")
        except pytest.UsageError as error:
            refused = str(error)
        try:
            result = yield
        except BaseException as error:
            self.check_after(item, "setup", error)
            raise
        if refused is not None:
            pytest.fail(refused, pytrace=False)
        self.check(item, "setup", failed=False)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Result, Result]:
        try:
            result = yield
        except BaseException as error:
            self.check_after(item, "call", error)
            raise
        self.check(item, "call", failed=False)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Result, Result]:
        try:
            result = yield
        except BaseException:
            self.end(item, failed=True)
            raise
        self.end(item, failed=False)
        return result

    def end(self, item: pytest.Item, failed: bool) -> None:
        state = item.stash.get(STATE, None)
        settings = state and state.settings
        driver = _driver.loaded()
        if (
            settings
            and settings["synchronize"]
            and driver
            and driver.wait(settings["timeout"]) == _driver.NOT_READY
        ):
            item.warn(
                pytest.PytestWarning(
                    f"cuda-sim: work is left on streams {settings['timeout']} s after the test"
                )
            )
        try:
            self.check(item, "teardown", failed)
        finally:
            self.collector.end()

    def check_after(self, item: pytest.Item, when: str, error: BaseException) -> None:
        """As `check`, after an exception. A race fails a test that then skips itself, too."""
        skipped = isinstance(error, pytest.skip.Exception)
        self.check(item, when, failed=not skipped, skipped=skipped)

    def check(self, item: pytest.Item, when: str, failed: bool, skipped: bool = False) -> None:
        """Takes the races of this phase of a test. Fails it, if it has not failed already."""
        state = item.stash.get(STATE, None)
        settings = state and state.settings
        if not state or not settings or settings["races"] == "off":
            return
        races = self.collector.take(item.nodeid, keep=settings["races"] not in ("allow", "require"))
        count = sum(not race["remark"] for race in races)
        text = "\n".join(race["text"] for race in races)
        state.required += count
        if races and settings["races"] in ("fail", "report"):
            state.found[when] = {"count": count, "text": text}
        if (
            when == "call"
            and settings["races"] == "require"
            and not state.required
            and not failed
            and not skipped
        ):
            pytest.fail("no race was found, and the marker requires one", pytrace=False)
        if not races or settings["races"] in ("allow", "require"):
            return
        if failed or settings["races"] == "report" or not count:
            item.add_report_section(when, "races", text)
        else:
            pytest.fail(f"cuda-sim: {plural(count, 'race')} in this test\n\n{text}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        state = item.stash.get(STATE, None)
        found = state and state.found.get(call.when)
        if found and found["count"]:
            # Plain values: reports travel between processes.
            setattr(report, "cuda_sim", found)
        return report


def races_of_environment() -> str:
    """Returns what `cuda-sim run` was asked for, when it started this process."""
    value = os.environ.get("CUDASIM_RACES") or os.environ.get("CUDASIM_SHADOW_RACES") or "error"
    return value if value in RACES else "error"
