"""What a check results in: every attempt, merged into one entry for each rule; as text, JSON and JUnit."""

from __future__ import annotations

import contextlib
import json
import re
import textwrap
from collections.abc import Generator, Mapping
from typing import Any, Literal
from xml.etree import ElementTree

from .._ask import describe
from .._report import WIDTH, counted, plain
from .._rules import RULE, RULES, Rule
from ._driver import NO_CHECKER

# "fail": a fault. "error": the check could not be run to its end. "known": a fault that the caller has given a reason for.
Status = Literal["fail", "error", "warning", "known", "pass", "skipped"]
STATUSES: tuple[Status, ...] = ("fail", "error", "warning", "known", "pass", "skipped")


# Tuples, addresses and other numbers in messages.
_NUMBERS = re.compile(r"\([-\d, ]*\)|\b0x[0-9a-f]+|[-+]?\b\d+")


class Skip(Exception):
    """The object does not offer what a check needs. The text says what."""


class Seen:
    """What one attempt found: `variant` is the layout, type or stream that was tried."""

    def __init__(self, status: Status, rule: Rule, variant: str, message: str) -> None:
        self.status = status
        self.rule = rule
        self.variant = variant
        self.message = plain(message)


class Result:
    """One rule, and what was seen of it. `causes`: rules of this report whose fault is the likely cause."""

    def __init__(self, rule: Rule, seen: list[Seen]) -> None:
        self.rule = rule
        self.status = min((one.status for one in seen), key=STATUSES.index)
        self.seen = [one for one in seen if one.status == self.status]
        self.attempts = len(seen)
        self.causes: list[str] = []
        self.reason: str | None = None

    def messages(self) -> dict[str, list[str]]:
        """The variants of each message. Those that differ in numbers are one, with those of the first variant."""
        found: dict[str, dict[str, list[str]]] = {}
        for one in self.seen:
            found.setdefault(_NUMBERS.sub("#", one.message), {}).setdefault(one.message, []).append(one.variant)
        merged: dict[str, list[str]] = {}
        for alike in found.values():
            first, variants = next(iter(alike)), [variant for several in alike.values() for variant in several if variant]
            merged[f"{first} ({variants[0]})" if len(alike) > 1 and variants else first] = list(dict.fromkeys(variants))
        return merged

    def as_dict(self) -> dict[str, Any]:
        seen = [{"message": message, "variants": variants} for message, variants in self.messages().items() if message]
        return {
            "check": self.rule.id, "status": self.status, "level": self.rule.level, "rule": self.rule.text,
            "source": self.rule.source, "mend": self.rule.mend, "seen": seen, "attempts": self.attempts,
            "causes": self.causes, "reason": self.reason,
        }  # fmt: skip


class Report:
    """What `check_producer` has found. `str()` is for the author of the type; `to_json()` and `to_junit()` for programs.

    `results`: one for each rule, faults first. `passed`: there is neither a fault nor a check that could not be run.
    """

    def __init__(self, name: str, checker: str, known: Mapping[str, str]) -> None:
        self.name = plain(name)
        self.checker = checker
        self.known = dict(known)
        self._seen: list[Seen] = []
        unknown = sorted(set(known) - set(RULE))
        if unknown:
            raise ValueError(f"known: there is no check {unknown[0]!r}; there are {', '.join(RULE)}")

    def add(self, rule: Rule, variant: str, message: str, status: Status | None = None) -> None:
        """Adds something that was seen. Without a status, the level of the rule decides."""
        status = status or ("warning" if rule.level == "optional" else "fail")
        if rule.id in self.known and status in ("fail", "error", "warning"):
            status = "known"
        self._seen.append(Seen(status, rule, variant, message))

    @contextlib.contextmanager
    def check(self, rule: str, variant: str = "") -> Generator[None, None, None]:
        """An attempt: it passes, unless something is added about its rule, it is skipped, or it raises."""
        before = len(self._seen)
        try:
            yield
        except Skip as reason:
            self.add(RULE[rule], variant, str(reason), "skipped")
        except Exception as error:
            self.add(RULE[rule], variant, f"the check ended in {describe(error)}", "error")
        if not any(one.rule.id == rule for one in self._seen[before:]):
            self.add(RULE[rule], variant, "", "pass")

    def settle(self, rule: str, variant: str = "") -> None:
        """What was tried and not reported has passed."""
        if not any(one.rule.id == rule and one.variant == variant for one in self._seen):
            self.add(RULE[rule], variant, "", "pass")

    @property
    def results(self) -> list[Result]:
        found = [Result(rule, seen) for rule in RULES if (seen := [one for one in self._seen if one.rule == rule])]
        status = {result.rule.id: result.status for result in found}
        for result in found:
            if result.status in ("fail", "warning"):
                worse = {"fail", result.status}
                result.causes = [id for id in result.rule.after.split() if status.get(id) in worse]
            if result.status == "known":
                result.reason = self.known[result.rule.id]
        return sorted(found, key=lambda result: STATUSES.index(result.status))

    @property
    def passed(self) -> bool:
        return all(one.status not in ("fail", "error") for one in self._seen)

    def count(self, status: Status) -> int:
        return sum(result.status == status for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "race checker": self.checker,
            "passed": self.passed,
            "results": [result.as_dict() for result in self.results],
        }

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.as_dict(), indent=indent)

    def to_junit(self) -> str:
        """A test suite in JUnit's XML, with a test case for each rule."""
        counts = {"tests": len(self.results), "failures": self.count("fail"), "errors": self.count("error")}
        counts["skipped"] = self.count("skipped")
        said = {"name": self.name, **{name: str(count) for name, count in counts.items()}}
        suite = ElementTree.Element("testsuite", said)
        for result in self.results:
            case = ElementTree.SubElement(suite, "testcase", classname=self.name, name=result.rule.id)
            lines = _lines(result)
            if result.status in ("fail", "error", "skipped"):
                kind = {"fail": "failure"}.get(result.status, result.status)
                ElementTree.SubElement(case, kind, message=next(iter(result.messages()))).text = "\n".join(lines)
            elif result.status != "pass":
                ElementTree.SubElement(case, "system-out").text = "\n".join(lines)
        return ElementTree.tostring(suite, "unicode")

    def __str__(self) -> str:
        results = self.results
        causes = {result.rule.id: result.causes for result in results}
        follow: dict[str, list[str]] = {}
        for result in results:
            root = result.rule.id
            while causes[root]:
                root = causes[root][0]
            if root != result.rule.id:
                follow.setdefault(root, []).append(result.rule.id)
        words = {"error": "not run to the end", "warning": "to consider", "known": "known", "pass": "passed", "skipped": "skipped"}
        roots = [result for result in results if not result.causes]
        head = [counted(sum(result.status == "fail" for result in roots), "fault")]
        for status, word in words.items():
            count = sum(result.status == status for result in roots)
            head += [f"{count} {word}"] if count or status == "pass" else []
        lines = textwrap.wrap(f"{self.name}: {', '.join(head)}", WIDTH)
        for result in roots:
            if result.status not in ("pass", "skipped"):
                lines += _lines(result)
                if result.rule.id in follow:
                    lines += _wrapped(" " * 11, f"This may follow from it: {', '.join(follow[result.rule.id])}.")
        needless = [result.rule.id for result in results if result.status == "pass" and result.rule.id in self.known]
        if needless:
            lines += _wrapped("  known    ", f"{', '.join(needless)}: passed, so no reason is needed")
        skipped: dict[str, list[str]] = {}
        for result in results:
            if result.status == "skipped":
                skipped.setdefault(next(iter(result.messages())), []).append(result.rule.id)
        for reason, ids in skipped.items():
            lines += _wrapped("  skipped  ", f"{', '.join(ids)}: {reason}")
        if not self.checker:
            lines += _wrapped("  ", f"Order was not checked: {NO_CHECKER}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<libcai.testing.Report of {self.name}: {counted(self.count('fail'), 'fault')}>"


def _lines(result: Result) -> list[str]:
    """A fault: the rule, what was seen, and what to do about it."""
    word = {"fail": "FAIL", "error": "ERROR", "warning": "consider"}.get(result.status, result.status)
    lines: list[str] = []
    found = list(result.messages().items())
    for message, variants in found[:3]:
        message = message if len(message) <= 240 else message[:237] + "..."
        shown = ", ".join(variants[:6]) + (f" and {len(variants) - 6} more" if len(variants) > 6 else "")
        head = f"  {word:9}{result.rule.id}: " if not lines else " " * 11
        lines += _wrapped(head, f"{shown}: {message}" if shown else message)
    if len(found) > 3:
        lines.append(f"{' ' * 11}and {len(found) - 3} more")
    if result.reason is not None:
        return lines + _wrapped(" " * 11, f"Reason: {result.reason}")
    if result.status in ("fail", "warning"):
        lines += _wrapped(" " * 11, f"Rule: {result.rule.text} ({result.rule.source})")
        lines += _wrapped(" " * 11, f"Mend: {result.rule.mend}")
    if result.rule.level == "known" and result.status == "fail":
        lines += _wrapped(" " * 11, f"If this is on purpose and documented: known={{\"{result.rule.id}\": \"the reason\"}}.")
    return lines


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * 11, break_on_hyphens=False
    )
