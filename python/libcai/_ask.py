"""Careful access to foreign objects: attributes, numbers and sequences, read without an exception.

Whatever a producer does becomes a finding. Functions take `add(severity, rule, message)`.
"""

import inspect
import operator
from collections.abc import Mapping

from ._report import plain

MAX_NDIM = 64
MAX_MASKS = 8
ADDRESSES = 1 << 64


def describe(error):
    """An exception in a line."""
    return plain(f"{type(error).__name__}: {safely(str, error)[:1000]}").rstrip(": ")


def show(value):
    """A value in a few characters."""
    text = plain(safely(repr, value)[:1000])
    return text if len(text) <= 60 else text[:57] + "..."


def safely(function, value):
    try:
        return str(function(value))
    except Exception:
        return plain(f"<{type(value).__name__}>")


class Refused(Exception):
    """Ends the reading of a protocol; what is wrong has been added to the findings."""


def ask(function, *arguments, **keywords):
    """What a producer's code answers, and what it raised: one of the two is None."""
    try:
        return function(*arguments, **keywords), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what other languages' panics become
        # Without the traceback, whose frames would keep the object alive.
        return None, error.with_traceback(None)


def attribute(obj, name, add):
    """An attribute, once: its value, or None and the state and the message that say why there is none."""
    value, error = ask(getattr, obj, name)
    if error is None:
        return value, "offered", None
    if isinstance(error, AttributeError):
        known, _ = ask(inspect.getattr_static, obj, name, None)
        # Without a property of that name, the words are Python's own, or those of __getattr__: no reason.
        return (None, "absent", None) if known is None else (None, "declined", describe(error))
    add(
        "error",
        "attribute-raises",
        f"reading it raises {describe(error)}; without AttributeError, hasattr() raises too",
    )
    return None, "failed", describe(error)


def whole(value, what, add, low=None, high=None):
    """A whole number, or None. Accepts what has __index__, as all careful consumers do."""
    if isinstance(value, bool):
        add("error", "not-a-number", f"{what} is {value}: a bool instead of a number")
        return None
    number, error = ask(operator.index, value)
    if error is not None:
        add(
            "error", "not-a-number", f"{what} is {show(value)}, {article(value)}, instead of an int"
        )
        return None
    if not isinstance(value, int):
        add(
            "warning",
            "not-an-int",
            f"{what} is {article(value)}: the specification asks for an int",
        )
    if (low is not None and number < low) or (high is not None and number > high):
        add(
            "error",
            "number-range",
            f"{what} is {show(number)}, which is {'below ' + str(low) if number < low else 'too high'}",
        )
        return None
    return number


def article(value):
    name = plain(type(value).__name__)
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def items(value, what, add):
    """The elements of what should be a tuple; refuses what is no sequence."""
    if isinstance(value, (str, bytes, Mapping)) or not (
        hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__")
    ):
        add(
            "error",
            "not-a-tuple",
            f"{what} is {show(value)}, {article(value)}: the specification asks for a tuple",
        )
        raise Refused
    if isinstance(value, list):
        add(
            "warning",
            "list-for-tuple",
            f"{what} is a list: the specification asks for a tuple, and some consumers insist",
        )
    elif not isinstance(value, tuple):
        add(
            "warning",
            "sequence-for-tuple",
            f"{what} is {article(value)}: the specification asks for a tuple, and some consumers insist",
        )
    length, error = ask(len, value)
    if error is None and length > MAX_NDIM:
        add(
            "error",
            "ndim",
            f"{what} has {length} elements: more than {MAX_NDIM} dimensions are too many",
        )
        raise Refused
    got = []
    for index in range(length or 0):
        element, error = ask(operator.getitem, value, index)
        if error is not None:
            break
        got.append(element)
    if error is not None:
        add("error", "not-a-tuple", f"{what} cannot be read: {describe(error)}")
        raise Refused
    return got
