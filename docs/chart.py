"""Draws the charts of the page about performance from the tables on it, which `make bench-docs` writes."""

import io
import re

import matplotlib
from matplotlib.figure import Figure

CHARTED = ("in: a stored dictionary", "in: DLPack's table", "in: a tensor of PyTorch in host memory",
           "in: a CUDA tensor of PyTorch", "out")  # fmt: skip
PAPER, TEXT, OURS, OTHER = "#ffffff", "#333333", "#4c8a3d", "#8fb0d3"
# The colours of a reader who prefers dark pages.
DARK = {PAPER: "#131416", TEXT: "#dddddd", OURS: "#6fbf5b", OTHER: "#4a6f96"}
ROW = 0.23  # inches

matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "libcai", "font.size": 9, "font.family": "sans-serif",
                            "text.color": TEXT, "xtick.color": TEXT, "ytick.color": TEXT})  # fmt: skip


def tables(page, name):
    return re.search(rf"<!-- figures: {name} -->\s+```text\n(.*?)```", page, re.S)[1].split("\n\n")


def groups(page):
    """The title of each group in the table, and the name and the median of each way."""
    for group in tables(page, "python"):
        title, *rows = group.splitlines()
        title = re.sub(r" +median ns.*", "", title)
        if title in CHARTED:
            found = [re.match(r"  (\S.*?) {2,}([\d.,]+) ", row) for row in rows]
            yield title, [(row[1], float(row[2].replace(",", ""))) for row in found]


def draw(page):
    """The picture as SVG: bars, each group on a scale of its own."""
    found = list(groups(page))
    assert [title for title, _ in found] == list(CHARTED)
    heights = [len(rows) + 1.6 for _, rows in found]
    figure = Figure(figsize=(7.6, ROW * sum(heights)), facecolor=PAPER, layout="constrained")
    for axes, (title, rows) in zip(figure.subplots(len(found), height_ratios=heights), found):
        names, medians = zip(*rows)
        colours = [OURS if name.startswith("libcai") else OTHER for name in names]
        bars = axes.barh(names, medians, color=colours, height=0.7)
        axes.bar_label(bars, [f"{median:,.0f} ns" for median in medians], padding=4, color=TEXT)
        axes.set_title(title, loc="left", fontweight="bold", fontsize=9)
        axes.invert_yaxis()
        axes.set_facecolor(PAPER)
        axes.margins(x=0.16)
        axes.xaxis.set_visible(False)
        axes.tick_params(left=False)
        axes.spines[:].set_visible(False)
    return svg(figure)


def growth(page):
    """The picture as SVG: what each of N takes, in nanoseconds. What is linear is level. By hand: the other colour."""
    found = [*tables(page, "scale"), *tables(page, "threads")]
    figure = Figure(figsize=(7.6, 2.3 * (len(found) + 1) // 2), facecolor=PAPER, layout="constrained")
    places = figure.subplots((len(found) + 1) // 2, 2, squeeze=False, sharey=True).flat
    for group, axes in zip(found, places):
        (title, *sizes), *rows = (re.split(r" {2,}", row.strip()) for row in group.splitlines())
        axes.set_title(title, loc="left", fontweight="bold", fontsize=8)
        for name, *values in rows:
            points = [float(value.replace(",", "")) for value in values[:-1]]
            colour = OTHER if name.startswith("by hand") else OURS
            axes.loglog([int(size) for size in sizes[:-1]], points, color=colour, linewidth=1.2)
        axes.set_facecolor(PAPER)
        axes.tick_params(labelsize=7, which="both", color=TEXT)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in places:
        axes.set_visible(False)
    return svg(figure)


def svg(figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    rules = "".join(f'[style*="{light}"]{{fill:{dark}!important}}' for light, dark in DARK.items())
    text = out.getvalue().replace("<defs>", f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>\n <defs>", 1)
    return re.sub(r"[ \t]+\n", "\n", text[text.index("<svg") :])
