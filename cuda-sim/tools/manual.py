"""Prints the manual page of cuda-sim, which is made of its help:

    cuda-sim --help | python3 manual.py

cuda-sim/cuda-sim.1 is this page. `make header` renews it, and a test compares both.
"""

import re
import sys


def escape(text):
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def usage(line):
    """A command in bold, up to what stands for a value."""
    return r"\fB" + re.sub(r"(\[.*)$", r"\\fR\1", escape(line), count=1) + r"\fR"


def page(help):
    """Indentation gives the kinds of lines: 4 a command, 8 text or an option, more the text beside
    an option."""
    title, *lines = help.rstrip().splitlines()
    out, synopsis, depth = [], [], 0
    for line in lines:
        indent, text = len(line) - len(line.lstrip()), line.strip()
        head, _, rest = (part.strip() for part in re.match(r"(.*?)(  +|$)(.*)", text).groups())
        if not text:
            continue
        # A list within the text of an option, and its end.
        if (indent > 34) != (depth > 34):
            out.append(".RS" if indent > 34 else ".RE")
        depth = indent
        if indent == 4:
            synopsis.append(head)
            out += [f".SS {usage(head)}", *([escape(rest)] if rest else [])]
        elif (head.startswith("-") and rest) or indent > 34:
            out += [".TP", rf"\fB{escape(head)}\fR", escape(rest)]
        else:
            out.append(escape(text))
    if depth > 34:
        out.append(".RE")
    name, about = title.split(": ")
    start = [
        '.\\" Generated from the output of cuda-sim --help by cuda-sim/tools/manual.py.',
        f".TH {name.upper()} 1",
        ".SH NAME",
        rf"{escape(name)}, cai\-race \- {escape(about)}",
        ".SH SYNOPSIS",
        "\n.br\n".join(map(usage, synopsis)),
        ".SH DESCRIPTION",
        "The simulated driver executes memory, streams, events, copies and graphs on a machine "
        "without a GPU. Kernels are\nnot executed. The race checker reports every missing wait "
        "between two streams.",
        ".SH COMMANDS",
    ]
    return "\n".join([*start, *out]) + "\n"


if __name__ == "__main__":
    print(page(sys.stdin.read()), end="")
