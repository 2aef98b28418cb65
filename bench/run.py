"""Runs the programs of a bench and prints what they measured: `run.py FOLDER [--write FILE]... NAME=COMMAND...`.

How a row is added: a program prints `group<TAB>row<TAB>ns` for every round of every row. In C, that is a line in a table
for bench() of timing.h; in Python, a line in groups() of python_bench.py, whose ways are functions of python.c, or any
Python function (`call`), or a C function of another module (`native`). All rows of a group run in every round, in turn;
the first is the measure of the others. Rows named `item | way` have a measure each: the first way of the same item.
Where the ways are numbers, the row is what so many things take: the table has the least for each, and how it grows.
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

import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap

PROCESSES = int(os.environ.get("BENCH_PROCESSES", 9))
END = "<!-- end of figures -->"


def goals(text):
    """(names of groups, names of rows, goal, what the book calls it) for each line."""
    group = None
    for line in text.splitlines():
        if line.startswith("["):
            group = line[1:-1]
        elif group and " <= " in line:
            line, _, title = line.partition(" # ")
            yield pattern(group), *line.split(" <= "), title


def pattern(text):
    return re.compile("(.*)".join(map(re.escape, text.split("*"))))


GOALS = list(goals(pathlib.Path(__file__).with_name("goals.txt").read_text()))


class Row:
    """A row's rounds, those of its measure, and its goal."""

    def __init__(self, group, name, times, rows):
        self.item, _, self.way = name.rpartition(" | ")
        self.name, self.times, self.median = name, times, statistics.median(times)
        self.first = next(other for other in rows if other.rpartition(" | ")[0] == self.item)
        self.ratios = [mine / other for mine, other in zip(times, rows[self.first])]
        self.ratio, self.peer = statistics.median(self.ratios), statistics.median(rows[self.first])
        self.goal = self.missed = self.title = ""
        for groups, names, goal, title in GOALS:
            found = pattern(names).fullmatch(name)
            if found and groups.fullmatch(group) and name != self.first:
                self.title = title
                return self.compare(goal, found.groups(), rows)

    def compare(self, goal, stars, rows):
        limits, ratio = [0] * len(self.times), re.fullmatch(r"([\d.]+) x", goal)
        for term in goal.split(" + "):
            number, unit, peer = re.fullmatch(r"([\d.]+) (ns|x) ?(.*)", term).groups()
            for star in stars:
                peer = peer.replace("*", star, 1)
            peers = [1] * len(limits) if unit == "ns" else rows[peer or self.first]
            limits = [limit + float(number) * ns for limit, ns in zip(limits, peers)]
        self.goal = f"{float(ratio[1]):.2f}x" if ratio else f"{figure(statistics.median(limits))} ns"
        self.missed = " missed" * (statistics.median(mine / limit for mine, limit in zip(self.times, limits)) > 1)

    def columns(self):
        """Ratio, quartiles, goal."""
        if self.name == self.first:
            return ""
        low, _, high = statistics.quantiles(self.ratios, n=4) if len(self.ratios) > 1 else self.ratios * 3
        return f" {self.ratio:7.2f}x {low:5.2f} to {high:5.2f}" + (f"  {self.goal:>8}{self.missed}" if self.goal else "")


def figure(ns):
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}" if ns >= 1 else f"{ns:.3f}"


def exponent(points):
    """The slope of the upper half of the sizes, both on a logarithmic scale: 1 is linear."""
    upper = [(math.log(size), math.log(ns)) for size, ns in points[len(points) // 2 :]]
    return statistics.linear_regression(*zip(*upper)).slope


def growth(group, rows):
    """Lines: one for each item, with what each of N takes, for all N."""
    items = {}
    for row in rows:
        items.setdefault(row.item, []).append((int(row.way), min(row.times)))
    names = max(map(len, [group, *items])) + 2
    yield f"{group:<{names}}" + "".join(f" {size:>8}" for size, _ in items[rows[0].item]) + "  exponent"
    for item, points in items.items():
        yield f"  {item:<{names - 2}}" + "".join(f" {figure(ns / size):>8}" for size, ns in points) + f"{exponent(points):10.2f}"


def table(group, rows):
    """Lines: one for each row, or one for each item where every item has two ways."""
    items = [row.item for row in rows]
    if all(row.way.isdigit() for row in rows):
        yield from growth(group, rows)
        return
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


def show(groups):
    for group, rows in groups.items():
        print("\n".join([*table(group, rows), ""]))


def measure(folder, commands):
    """For each program its groups, for each group its rows, for each row all rounds; and notes."""
    processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    found, notes = {name: {} for name in commands}, {"with": {processor[1]: True} if processor else {}, "without": {}}
    for _ in range(PROCESSES):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as copies:
                shutil.copytree(folder, copies, dirs_exist_ok=True)
                done = subprocess.run(command, shell=True, cwd=copies, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(f"{name}: {command}: {done.returncode}\n{done.stdout[-2000:]}")
            for line in done.stdout.splitlines():
                words = line.split("\t")
                if len(words) == 3:
                    found[name].setdefault(words[0], {}).setdefault(words[1], []).append(float(words[2]))
                elif words[0] in notes:
                    notes[words[0]][" ".join(words[1].split())] = True
    return {
        name: {group: [Row(group, row, times, rows) for row, times in rows.items()] for group, rows in groups.items()}
        for name, groups in found.items()
    }, notes


def summary(programs):
    """The rows of goals that the book names."""
    yield "| operation | libcai | compared with | ratio | goal |"
    yield "|---|---|---|---|---|"
    rows = [row for groups in programs.values() for found in groups.values() for row in found]
    for title in [title for *_, title in GOALS if title]:
        row = next((row for row in rows if row.title == title), None)
        if row is None:
            continue
        peer = row.first.rpartition(" | ")[2].partition(":")[0]
        yield f"| {title} | {figure(row.median)} ns | {peer}: {figure(row.peer)} ns | {row.ratio:.2f} | {row.goal}{row.missed} |"


def texts(programs, notes):
    """What the book has between marks: by the name of a block, or by group and row."""
    found, goals = {}, list(summary(programs))
    if len(goals) > 2:
        found = {"goals": "\n".join(goals), "with": textwrap.fill("Measured with " + ", ".join(notes["with"]) + ".", 120)}
    for name, groups in programs.items():
        tables = ("\n".join(table(group, rows)) for group, rows in groups.items())
        found[name] = "```text\n" + "\n\n".join(tables) + "\n```"
        found |= {f"{group} / {row.name}": f"{figure(row.median)} ns" for group, rows in groups.items() for row in rows}
    return found


def write(path, made):
    """Replaces what was measured; the rest of the page stays."""

    def block(found):
        return f"{found[1]}\n{made[found[2]]}\n\n{END}" if found[2] in made else found[0]

    def median(found):
        return f"{found[1]}{made[found[2]]}<!-- -->" if found[2] in made else found[0]

    text = re.sub(rf"(<!-- figures: (.*?) -->\n).*?{END}", block, path.read_text(), flags=re.S)
    path.write_text(re.sub(r"(<!-- ns: (.*?) -->).*?<!-- -->", median, text))


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
        show(groups)
    if notes["without"]:
        print("\n".join(textwrap.wrap("not there, and left out: " + ", ".join(notes["without"]), 110)))
    if pages and notes["without"]:
        raise SystemExit("the book gets figures with all peers only: run `make interop` first")
    found = [(group, row.name) for groups in programs.values() for group, rows in groups.items() for row in rows]
    for groups, names, goal, _ in GOALS if pages else ():
        fits = [pattern(names).fullmatch(row) for group, row in found if groups.fullmatch(group)]
        if fits and not any(fits):
            raise SystemExit(f"{names} <= {goal}: there is no such row")
    for page in pages:
        write(page, texts(programs, notes))


if __name__ == "__main__":
    main(*sys.argv[1:])
