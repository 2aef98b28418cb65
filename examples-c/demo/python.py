"""The second part of `make demo`: passes its own arrays and those of other objects to a Python extension in C,
examples-c/08_python.c.

    make demo                                             builds the extension and runs this file
    cuda-sim run python3 python.py FOLDER                 FOLDER contains plain.so
"""

import sys
import textwrap

sys.path.insert(0, sys.argv[1])
import plain  # noqa: E402


class Half:
    """An object of another library: half of an array, without a copy."""

    def __init__(self, whole):
        self.whole = whole

    @property
    def __cuda_array_interface__(self):
        whole = self.whole.__cuda_array_interface__
        rows, columns = whole["shape"]
        return {**whole, "shape": (rows // 2, columns)}


def refused(given):
    try:
        plain.sum(given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise SystemExit("this should have been refused")


def say(text):
    print(textwrap.fill(text, 80, initial_indent=" " * 4, subsequent_indent=" " * 6, break_on_hyphens=False))


def main():
    array = plain.full((4, 3), 1.5)
    say(f"{array!r}")
    say(f"its dictionary: {array.__cuda_array_interface__}")
    say(f"sum of it: {plain.sum(array)}; of half of it, which another library made: {plain.sum(Half(array))}")

    class Wrong:
        __cuda_array_interface__ = {**array.__cuda_array_interface__, "shape": (4, -3)}

    say(f"a wrong one: {refused(Wrong())}")
    Wrong.__cuda_array_interface__ = {**array.__cuda_array_interface__, "typestr": "<f8", "shape": (2, 3)}
    say(f"one of another type: {refused(Wrong())}")
    return 0 if (plain.sum(array), plain.sum(Half(array))) == (18.0, 9.0) else 1


sys.exit(main())
