"""Runs the programs of a bench and prints what they measured: `run.py FOLDER [--write FILE]... NAME=COMMAND...`.

How a row is added: a program prints `group<TAB>row<TAB>ns` for every round of every row. In C, that is a line in a table
for bench() of timing.h; in Python, a line in groups() of python_bench.py, whose ways are functions of python.c, or any
Python function (`call`), or a C function of another module (`native`). All rows of a group run in every round, in turn;
the first is the measure of the others. Rows named `item | way` have a measure each: the first way of the same item.
Input that is wrong must be refused by every row that checks, before it is timed: `refuses` in C, `wrong` in Python.
`with<TAB>NumPy 2.4.6` names a version for the book; `without<TAB>NumPy` says what is left out, because it is not there.
A goal is a line in goals.txt. A new program is a rule in rules.mk, which puts it into FOLDER and names its command in
BENCH_PROGRAMS; the command runs in a copy of FOLDER. The book shows a program's tables between `<!-- figures: NAME -->`
and `<!-- end of figures -->`, and the median of a row between `<!-- ns: GROUP / ROW -->` and `<!-- -->`.

The rounds are those of several processes, each with copies of all files: where code and memory happen to lie changes
figures by a third for as long as a process lives, and with the place of the file in memory for as long as the file does.
Ratios are medians of each round's ratio, with their quartiles. BENCH_PROCESSES, BENCH_ROUNDS and BENCH_NS, the time of
one row in a round, are in the environment.
"""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap

PROCESSES = int(os.environ.get("BENCH_PROCESSES", 5))
END = "<!-- end of figures -->"


def goals():
    """(names of groups, names of rows, goal) for each line."""
    group = None
    for line in pathlib.Path(__file__).with_name("goals.txt").read_text().splitlines():
        if line.startswith("["):
            group = line[1:-1]
        elif " <= " in line:
            yield group, *line.split(" <= ")


GOALS = list(goals())


def pattern(text):
    return re.compile("(.*)".join(map(re.escape, text.split("*"))))


class Row:
    """A row's rounds, those of its measure, and its goal: how it is shown, and the most of each round."""

    def __init__(self, group, name, times, rows):
        self.item, _, self.way = name.rpartition(" | ")
        self.name, self.times = name, times
        self.base = next(found for other, found in rows.items() if other.rpartition(" | ")[0] == self.item)
        self.median = statistics.median(times)
        self.goal = next((found for line in GOALS if (found := self.limit(group, rows, *line))), None)

    def limit(self, group, rows, groups, names, goal):
        found = pattern(names).fullmatch(self.name)
        if not found or not pattern(groups).fullmatch(group):
            return None
        limits, ratio = [0] * len(self.times), re.fullmatch(r"([\d.]+) x", goal)
        for term in goal.split(" + "):
            number, unit, peer = re.fullmatch(r"([\d.]+) (ns|x) ?(.*)", term).groups()
            for star in found.groups():
                peer = peer.replace("*", star, 1)
            peers = [1] * len(limits) if unit == "ns" else rows[peer] if peer else self.base
            limits = [limit + float(number) * ns for limit, ns in zip(limits, peers)]
        return f"{float(ratio[1]):.2f}x" if ratio else f"{figure(statistics.median(limits))} ns", limits

    def columns(self):
        """Ratio, quartiles, goal."""
        if self.base is self.times:
            return ""
        ratios = [mine / other for mine, other in zip(self.times, self.base)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        shown = f" {middle:7.2f}x {low:5.2f} to {high:5.2f}"
        if self.goal:
            text, limits = self.goal
            missed = statistics.median(mine / limit for mine, limit in zip(self.times, limits)) > 1
            shown += f"  {text:>8}" + " missed" * missed
        return shown


def figure(ns):
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}" if ns >= 1 else f"{ns:.3f}"


def table(group, rows):
    """Lines: one for each row, or one for each item where every item has two ways."""
    items = [row.item for row in rows]
    last = f" {'ratio':>8} {'quartiles':>14}" + f"  {'goal':>8}" * any(row.goal for row in rows)
    if all(item and items.count(item) == 2 for item in items):
        ways = rows[0].way, rows[1].way
        lines = [(one.item, (one.median, two.median), two.columns()) for one, two in zip(rows[::2], rows[1::2])]
    else:
        ways = "median ns", "least ns"
        lines = [(row.name, (row.median, min(row.times)), row.columns()) for row in rows]
    widths = [max(9, len(way)) for way in ways]
    names = max(48, len(group), *(len(name) + 2 for name, *_ in lines))
    yield f"{group:<{names}} " + " ".join(f"{way:>{width}}" for way, width in zip(ways, widths)) + last
    for name, values, columns in lines:
        yield f"  {name:<{names - 2}} " + " ".join(f"{figure(ns):>{width}}" for ns, width in zip(values, widths)) + columns


def measure(folder, commands):
    """For each program its groups, for each group its rows, for each row all rounds; and notes."""
    found, notes = {name: {} for name in commands}, {"with": {}, "without": {}}
    for _ in range(PROCESSES):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as copies:
                for path in pathlib.Path(folder).iterdir():
                    if path.is_file():
                        shutil.copy(path, copies)
                done = subprocess.run(command, shell=True, cwd=copies, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(f"{name}: {command}: {done.returncode}\n{done.stdout[-2000:]}")
            for line in done.stdout.splitlines():
                words = line.split("\t")
                if len(words) == 3:
                    found[name].setdefault(words[0], {}).setdefault(words[1], []).append(float(words[2]))
                elif words[0] in notes:
                    notes[words[0]][words[1]] = True
    return {
        name: {group: [Row(group, row, times, rows) for row, times in rows.items()] for group, rows in groups.items()}
        for name, groups in found.items()
    }, notes


def write(path, programs, notes):
    """Replaces what is between the marks of a page."""

    def block(found):
        lines = [line for group, rows in programs[found[2]].items() for line in ["", *table(group, rows)]]
        return f"{found[1]}\n```text\n" + "\n".join(lines[1:]) + f"\n```\n\n{END}"

    def median(found):
        rows = next(groups[found[2]] for groups in programs.values() if found[2] in groups)
        return f"{found[1]}{figure(next(row.median for row in rows if row.name == found[3]))} ns<!-- -->"

    text = path.read_text()
    text = re.sub(rf"(<!-- figures: (.*?) -->\n).*?{END}", block, text, flags=re.S)
    text = re.sub(r"(<!-- ns: (.*?) / (.*?) -->).*?<!-- -->", median, text)
    text = re.sub(r"(<!-- with -->).*?(<!-- -->)", rf"\1{', '.join(notes['with'])}\2", text, flags=re.S)
    path.write_text(text)


def main(folder, *words):
    pages, commands = [], {}
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--write":
            pages.append(pathlib.Path(words.pop(0)))
        else:
            name, _, commands[name] = word.partition("=")
    programs, notes = measure(folder, commands)
    for groups in programs.values():
        for group, rows in groups.items():
            print("\n".join([*table(group, rows), ""]))
    if notes["without"]:
        print("\n".join(textwrap.wrap("not there, and left out: " + ", ".join(notes["without"]), 110)))
    if pages and notes["without"]:
        raise SystemExit("the book gets figures with all peers only: run `make interop` first")
    for page in pages:
        write(page, programs, notes)


if __name__ == "__main__":
    main(*sys.argv[1:])
