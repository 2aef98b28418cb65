"""Draws what `build/bench/grow` prints: time and memory of programs of growing size.

    make bench | python bench/plot.py >docs/growth.svg
"""

import math
import re
import sys

ROW = re.compile(r"  (\S.*?) +(\d+) +([\d.]+) us each +[\d.]+ to end +([\d.]+) MB")
COLOURS = {
    "live streams in a chain": "#4a7ab0", "live streams in a star": "#2d8a4e", "captures": "#b07a1f", "short threads": "#c0392b",
    "records, waits and fills": "#7d5ba6", "the same, each of other bytes": "#3aa0a8",
}  # fmt: skip
STYLE = (
    ".t{fill:#333}.g{stroke:#ccc}.l{fill:none;stroke-width:2}.p{fill:#fff}"
    "@media(prefers-color-scheme:dark){.t{fill:#ddd}.g{stroke:#555}.p{fill:#1b1b1b}}"
)
WIDTH, HEIGHT, LEFT, TOP, LEGEND = 380, 250, 40, 40, 45
SIZES = (100, 1_000_000)


def read(lines):
    """The points of each program with the checker, (number, microseconds, megabytes)."""
    rows, checked = {}, False
    for line in lines:
        if line.startswith("checker "):
            checked = line.split()[1] != "off"
        elif checked and (found := ROW.match(line)):
            name, *values = found.groups()
            rows.setdefault(name, []).append(tuple(map(float, values)))
    return rows


def panel(rows, value, title, lowest, highest, x0):
    def at(number, amount):
        x = math.log(number / SIZES[0]) / math.log(SIZES[1] / SIZES[0])
        y = math.log(max(amount, lowest) / lowest) / math.log(highest / lowest)
        return x0 + LEFT + x * (WIDTH - LEFT - 15), HEIGHT - 30 - y * (HEIGHT - TOP - 30)

    yield f'<text class="t" x="{x0 + LEFT}" y="20" font-weight="bold">{title}</text>'
    for number in (100, 10_000, 1_000_000):
        (x, _), anchor = at(number, lowest), "end" if number == SIZES[1] else "middle"
        yield f'<text class="t" x="{x:.0f}" y="{HEIGHT - 10}" text-anchor="{anchor}">{number:,}</text>'
    amount = lowest
    while amount <= highest:
        (x, y), (end, _) = at(SIZES[0], amount), at(SIZES[1], amount)
        yield f'<path class="g" d="M{x:.0f} {y:.0f}H{end:.0f}"/>'
        yield f'<text class="t" x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{amount:g}</text>'
        amount *= 10
    for name, colour in COLOURS.items():
        path = "L".join("{:.1f} {:.1f}".format(*at(point[0], point[value])) for point in rows[name])
        yield f'<path class="l" stroke="{colour}" d="M{path}"/>'


def legend():
    for index, (name, colour) in enumerate(COLOURS.items()):
        x, y = LEFT + index % 3 * 240, HEIGHT + 15 + index // 3 * 18
        yield f'<path class="l" stroke="{colour}" d="M{x} {y - 4}h20"/><text class="t" x="{x + 26}" y="{y}">{name}</text>'


def main():
    rows = read(sys.stdin)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT + LEGEND}" font-family="sans-serif" font-size="12">')
    print(f'<style>{STYLE}</style><rect class="p" width="{2 * WIDTH}" height="{HEIGHT + LEGEND}"/>')
    print(*panel(rows, 1, "microseconds for each of N", 1, 1000, 0), sep="\n")
    print(*panel(rows, 2, "megabytes for N", 0.1, 1000, WIDTH), sep="\n")
    print(*legend(), sep="\n")
    print("</svg>")


main()
