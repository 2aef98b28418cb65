"""Draws the time lines of the book: `python tools/timelines.py docs/src`.

A picture has lanes (streams and threads) from top to bottom and time from left to right. Boxes are work or calls;
arrows say that one comes after the other, dashed red ones that nothing makes it so.
"""

import pathlib
import sys
from html import escape

LANE, TOP, LEFT, UNIT = 64, 34, 150, 82
STYLE = (
    ".p{fill:#fff}.t{fill:#333}.m{fill:#666;font-size:12px}.ty{fill:#2d8a4e}.tn{fill:#c0392b}.l{stroke:#999;stroke-width:1.5}"
    ".work{fill:#dbe9f6;stroke:#4a7ab0}.call{fill:#e7f3e4;stroke:#4c8a3d}.bad{fill:#f9dcdc;stroke:#c0392b}"
    ".wait{fill:#f2f2f2;stroke:#999;stroke-dasharray:3 3}.keep{fill:#fdf1d3;stroke:#b08a2e}"
    ".yes{stroke:#2d8a4e;stroke-width:2;fill:none}.no{stroke:#c0392b;stroke-width:2;stroke-dasharray:6 4;fill:none}"
    "@media (prefers-color-scheme: dark){.p{fill:#131416}.t{fill:#ddd}.m{fill:#aaa}.ty{fill:#6fcf97}.tn{fill:#ff7f74}"
    ".work{fill:#1d3550}.call{fill:#1f3a1b}.bad{fill:#4d1f1b}.wait{fill:#2a2a2a}.keep{fill:#463814}}"
)


def draw(lanes, boxes, arrows, notes=(), width=9):
    """`boxes`: name -> (lane, from, to, text, kind); `arrows`: (box, box, kind, text)."""
    high, wide = TOP + LANE * len(lanes), LEFT + UNIT * width + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="13">',
        f'  <style>{STYLE}</style><rect class="p" width="{wide}" height="{high}"/>',
        '  <defs><marker id="y" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#2d8a4e"/></marker><marker id="n" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#c0392b"/></marker></defs>',
    ]
    middle = [TOP + LANE * i + LANE // 2 - 10 for i in range(len(lanes))]
    for y, lane in zip(middle, lanes):
        out.append(f'  <text class="t" x="10" y="{y + 4}">{escape(lane)}</text>')
        out.append(f'  <line class="l" x1="{LEFT}" y1="{y}" x2="{wide - 8}" y2="{y}"/>')
    place = {}
    for name, (lane, start, end, text, kind) in boxes.items():
        x, y, w = LEFT + start * UNIT + 3, middle[lane] - 14, (end - start) * UNIT - 6
        place[name] = (x, y, w)
        out.append(f'  <rect class="{kind}" x="{x:g}" y="{y}" width="{w:g}" height="28" rx="4"/>')
        out.append(f'  <text class="t" x="{x + w / 2:g}" y="{y + 18}" text-anchor="middle">{escape(text)}</text>')
    for first, second, kind, text in arrows:
        (x1, y1, w1), (x2, y2, _) = place[first], place[second]
        down = y2 > y1
        sx, sy = x1 + w1 - 8, y1 + (28 if down else 0)
        ex, ey = x2 + 8, y2 + (0 if down else 28)
        marker = "y" if kind == "yes" else "n"
        bend = (sy + ey) / 2
        out.append(f'  <path class="{kind}" d="M{sx:g} {sy} C {sx:g} {bend:g} {ex:g} {bend:g} {ex:g} {ey}" '
                   f'marker-end="url(#{marker})"/>')  # fmt: skip
        if text:
            color = "ty" if kind == "yes" else "tn"
            x, anchor = (ex + 8, "start") if ex > sx else (ex - 8, "end")
            out.append(f'  <text class="{color}" x="{x:g}" y="{bend + 4:g}" text-anchor="{anchor}">{escape(text)}</text>')
    for x, lane, text in notes:
        out.append(f'  <text class="m" x="{LEFT + x * UNIT:g}" y="{middle[lane] + 34}">{escape(text)}</text>')
    return "\n".join([*out, "</svg>", ""])


PICTURES = {
    "exchange": draw(
        ["producer's stream", "consumer's stream", "owner's references"],
        {
            "w": (0, 0, 2, "writes the data", "work"),
            "n": (0, 6.6, 8.9, "writes again, or frees", "work"),
            "r": (1, 3, 5.6, "reads the data", "work"),
            "1": (2, 0.6, 2.4, "1: producer", "keep"),
            "2": (2, 2.5, 4.2, "2: both", "keep"),
            "3": (2, 4.3, 6.1, "1: consumer", "keep"),
            "0": (2, 6.2, 8.1, "0: destroyed", "bad"),
        },
        [("w", "r", "yes", "consume_begin"), ("r", "n", "yes", "consume_end"), ("r", "0", "yes", "release_after")],
    ),
    "streams_begin_end": draw(
        ["host thread", "producer's stream", "consumer's stream"],
        {
            "p": (0, 0, 1.6, "cai_array_produce", "call"),
            "b": (0, 1.7, 3.6, "cai_array_consume_begin", "call"),
            "k": (0, 3.7, 4.9, "launch", "call"),
            "e": (0, 5, 6.8, "cai_array_consume_end", "call"),
            "g": (0, 6.9, 8.9, "producer continues", "call"),
            "w": (1, 0.2, 3, "producer's kernel", "work"),
            "n": (1, 6.9, 8.9, "next kernel", "work"),
            "r": (2, 3.8, 6, "consumer's kernel", "work"),
        },
        [("w", "r", "yes", "begin"), ("r", "n", "yes", "end")],
        [(3.9, 0, "the host never waits")],
    ),
    "streams_readers": draw(
        ["producer's stream", "reader 1", "reader 2", "writer"],
        {
            "w": (0, 0, 1.8, "kernel", "work"),
            "e": (0, 1.9, 2.8, "event", "call"),
            "1": (1, 3.2, 6, "reads", "work"),
            "2": (2, 3.2, 4.8, "reads", "work"),
            "j": (0, 6.2, 7, "joined", "wait"),
            "x": (3, 7.2, 8.8, "writes", "work"),
        },
        [("e", "1", "yes", ""), ("e", "2", "yes", ""), ("1", "j", "yes", ""), ("2", "j", "yes", ""), ("j", "x", "yes", "")],
        [(3.2, 0, "no reader waits for another")],
    ),
    "streams_release_after": draw(
        ["host thread", "consumer's stream", "library's thread"],
        {
            "k": (0, 0, 1.2, "launch", "call"),
            "a": (0, 1.3, 3.9, "cai_array_release_after", "call"),
            "o": (0, 4, 5.6, "continues", "call"),
            "r": (1, 1.3, 5.8, "kernel still reads", "work"),
            "d": (2, 6.3, 8.8, "release: destroy(...)", "call"),
        },
        [("r", "d", "yes", "event")],
    ),
    "streams_mistakes": draw(
        ["producer's stream", "consumer's stream", "producer's stream", "consumer's stream", "host thread", "consumer's stream"],
        {
            "w": (0, 0, 3, "writes", "work"),
            "r": (1, 1.6, 3.6, "reads", "bad"),
            "r2": (3, 3.4, 6.4, "reads", "work"),
            "n": (2, 4.6, 7, "writes again", "bad"),
            "r3": (5, 4.8, 8.8, "reads", "work"),
            "f": (4, 6.2, 8, "release, free", "bad"),
        },
        [("w", "r", "no", "no begin"), ("r2", "n", "no", "no end"), ("r3", "f", "no", "released too early")],
    ),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for name, text in PICTURES.items():
        (folder / f"{name}.svg").write_text(text)
