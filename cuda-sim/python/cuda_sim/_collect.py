"""Collects the races of tests: of this process, and of processes that a test started.

Each process writes its races into the file that CUDASIM_REPORT names when it finds them. Each test
has a file of its own, so that they are known to be the test's. The command `cuda-sim run` makes one
report of all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

from cuda_sim import _driver

if TYPE_CHECKING:
    from cuda_sim.reports import Race


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


class Collector:
    def __init__(self, folder: str | None) -> None:
        self.folder = pathlib.Path(folder) if folder else None
        self.number = 0
        self.file: pathlib.Path | None = None
        self.read = 0
        # Findings of other processes that were taken: one with more callers is written again.
        self.seen: set[tuple[int, int]] = set()
        self.before = {name: os.environ.get(name) for name in ("CUDASIM_REPORT", "CUDASIM_RACES")}
        # A race that is found before the first test is outside of all.
        self._next_file()

    def _next_file(self) -> None:
        self.number += 1
        self.read = 0
        self.seen = set()
        if self.folder is not None:
            self.file = self.folder / f"{os.getpid()}-{self.number:05}.json"
            os.environ["CUDASIM_REPORT"] = str(self.file)

    def begin(self, test: str, fails: bool) -> None:
        self._next_file()
        if self.before["CUDASIM_RACES"]:
            # Processes of a test that may have races end with the exit status of their own.
            os.environ["CUDASIM_RACES"] = "error" if fails else "warn"
        self._name(test)

    def end(self) -> None:
        self._next_file()

    def _name(self, test: str) -> None:
        """Records which test the processes belong to, for the command."""
        if self.folder is not None and self.file is not None:
            about = {"file": self.file.name, "process": os.getpid(), "test": test}
            with open(self.folder / f"{os.getpid()}.tests", "a", encoding="utf-8") as file:
                file.write(json.dumps(about) + "\n")

    def take(self, test: str | None, keep: bool = True) -> list[Race]:
        """Returns the races found since the last call. `keep`: the session's report has them."""
        driver = _driver.loaded()
        races = driver.take() if driver else []
        if races and keep and self.folder is not None:
            count = sum(not race["remark"] for race in races)
            line: dict[str, Any] = {
                "process": os.getpid(),
                "count": count,
                "races": races,
                "missing": {},
                "test": test,
            }
            with open(self.folder / f"{os.getpid()}-found.json", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return races + self._of_processes(keep)

    def _of_processes(self, keep: bool) -> list[Race]:
        if self.file is None or not self.file.exists():
            return []
        with open(self.file, "rb") as file:
            file.seek(self.read)
            text = file.read()
        # A line without its end is still being written.
        text = text[: text.rfind(b"\n") + 1]
        self.read += len(text)
        found = self._races(text)
        if found and not keep:
            # Processes of the test may have it open.
            os.truncate(self.file, 0)
            self.read = 0
        return found

    def _races(self, text: bytes) -> list[Race]:
        """Returns the races of other processes."""
        races: dict[tuple[int, int], Race] = {}
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # empty, or left by a process that was killed
                continue
            process = record["process"]
            if process == os.getpid():
                continue
            # What a later write may rule out is written again if none does.
            if (
                "race" in record
                and not record.get("open")
                and (process, record["id"]) not in self.seen
            ):
                races[process, record["id"]] = record["race"]
            if "taken" in record:
                taken = (process, record["taken"])
                races = {
                    key: race for key, race in races.items() if key[0] != process or key > taken
                }
        self.seen.update(races)
        return list(races.values())

    def kernels(self) -> list[str]:
        """Returns the kernels that processes of the session looked for and did not declare."""
        found: set[str] = set()
        for path in self.folder.glob("*.json") if self.folder is not None else ():
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(ValueError):  # torn
                    record: dict[str, Any] = json.loads(line) if b'"kernel"' in line else {}
                    if "kernel" in record:
                        found.add(record["kernel"])
        return sorted(found)

    def close(self) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
