"""Writes the pages that are made from programs: pages.py CUDA_SIM CONFORMANCE FOLDER

entry_points.md comes from the command `entries`, driver_rules.md from the list of the conformance program.
"""

import pathlib
import re
import subprocess
import sys

# That of the headers in requirements.txt.
NEWEST = "13.5"
RULES = """\
# Rules of the driver

This page lists the rules that the conformance suite checks on the simulated driver, and, with `make gpu-test`, on a
real one. The last columns are the source of a rule and the version of CUDA whose text it is. The name of a function
stands for its documentation in cuda.h, "synchronization" for the chapter on API synchronization behavior, "capture" for
that on stream capture, and "allocation" for that of the Programming Guide on stream-ordered allocation. "observed"
means that others report it of real drivers, and "undocumented" that no documentation states it. Some rules only
record what happens.
"""
ENTRY_POINTS = """\
# Entry points

This page lists every function of the driver that cuda.h of CUDA 12.9 and 13.5 declares, in each of its forms. All can be
linked and looked up. Functions without a mark return `CUDA_ERROR_NOT_SUPPORTED`, and are listed at exit.
{simulated} of {all} are simulated.

| symbol | since | simulated |
|---|---|---|
"""


def rules(lines):
    text, theme = RULES, None
    for line in sorted(lines, key=lambda line: line.split("/")[0]):
        of, name, rule, source = re.fullmatch(r"([^/]+)/(\S+): (.*) \[(.*)\]", line).groups()
        if of != theme:
            theme = of
            text += f"\n## {theme}\n\n| test | rule | source | version |\n|---|---|---|---|\n"
        text += f"| {name} | {rule} | {source} | {version(source)} |\n"
    return text


def version(source):
    """The version of the text: that which the source names, or the newest that was read."""
    named = re.search(r" (\d+\.\d+)", source)
    if named:
        return named[1]
    return "" if source in ("observed", "undocumented", "measured") else NEWEST


def entry_points(lines):
    rows = [re.fullmatch(r"(\S+) \(\S+ since (\S+)\): (.*)", line).groups() for line in lines]
    marked = [(symbol, since, "yes" if state == "simulated" else "") for symbol, since, state in rows]
    text = ENTRY_POINTS.format(simulated=sum(1 for *_, mark in marked if mark), all=len(rows))
    return text + "".join(f"| {symbol} | {since} | {mark} |\n" for symbol, since, mark in marked)


def main(command, conformance, folder):
    def lines(*words):
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()

    folder = pathlib.Path(folder)
    (folder / "entry_points.md").write_text(entry_points(lines(command, "entries")))
    listed = lines(command, "run", "--races=off", "--", conformance, "list")
    (folder / "driver_rules.md").write_text(rules(listed))


main(*sys.argv[1:])
