"""The last part of `make demo`: runs examples-c/06_streams.c correctly, and then without one wait, which the race checker
reports. Draws the timelines of both runs, from the checker's report.

On a machine with a GPU, both runs use the GPU, and the race checker follows the real driver.

    make demo                                             builds the program and runs this file
    python streams.py cuda-sim PROGRAM
"""

import ctypes
import json
import pathlib
import subprocess
import sys
import textwrap

WIDTH = 32  # of a column


def has_device():
    """Returns whether there is a CUDA driver with a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def show(command):
    sys.stdout.flush()
    done = subprocess.run(command, capture_output=True, text=True)
    for line in (done.stdout + done.stderr).splitlines():
        indent = " " * (4 + len(line) - len(line.lstrip()))
        print(textwrap.fill(line.strip(), 80, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False))
    return done.returncode


def arrow(first, second, dash, text):
    """Returns a line from one column to another."""
    start, end = f" {text} ".center(WIDTH - 4, dash), WIDTH * min(first, second) + 2
    return " " * end + (f"└{start}▶" if first < second else f"◀{start}┘")


def draw(rows):
    """Prints the timeline of the two libraries' streams."""
    lanes = list(dict.fromkeys(row["lane"] for row in rows if "non-blocking stream" in row.get("lane", "")))
    names = [f"{owner}: {lane.removeprefix('non-blocking ').split(' of ')[0]}" for owner, lane in zip(("producer", "consumer"), lanes)]
    lines = ["".join(name.ljust(WIDTH) for name in names)]
    for row in rows:
        if row.get("lane") in lanes:
            column = lanes.index(row["lane"])
            if row["access"] == "second":
                lines.append(arrow(0, column, "╌", "no wait"))
            lines.append(" " * WIDTH * column + row["label"] + ("  ← race" if row["access"] == "second" else ""))
        elif row.get("from") in lanes and row.get("to") in lanes:
            first, second = lanes.index(row["from"]), lanes.index(row["to"])
            lines.append(arrow(first, second, "─", f"stream {lanes[second].split()[2]} waits"))
    print("\n".join(f"    {line}".rstrip() for line in lines))


def main():
    command, program = sys.argv[1], pathlib.Path(sys.argv[2])
    real = has_device()
    command = [command, "run", "--rules=strict", "--print=exit", *(["--shadow"] if real else [])]
    timelines, results = [], []
    where = "on this machine's GPU" if real else "on the simulated driver, because this machine has no GPU"
    for name, arguments, title in (
        ("exchange", [], f"Two libraries with streams of their own,\n{where}:"),
        ("race", ["forget"], "The same with one call left out, cai_array_consume_begin:"),
    ):
        print(f"\n{title}\n")
        reports = [program.with_name(f"{name}{suffix}") for suffix in (".json", ".html")]
        results.append(show([*command, *(f"--report={report}" for report in reports), "--", program, *arguments]))
        found = json.loads(reports[0].read_text().splitlines()[0])
        timelines.append([row for race in found["races"] for row in race["timeline"]] or found["timeline"])
    if results != [0, 66]:
        print(f"\nThis was not expected: exit codes {results}, instead of 0 and 66.")
        return 1
    print("\nThe timeline of the exchange; time goes down:\n")
    draw(timelines[0])
    print("\nThe timeline of the race, which ends the program with code 66:\n")
    draw(timelines[1])
    print(f"\nAs pages, with the call stacks of the race: {program.parent}/exchange.html, race.html.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
