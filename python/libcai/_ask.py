"""Careful access to foreign objects, without an exception.

Whatever a producer does becomes a finding. Functions take `add(severity, rule, message)`.
"""

import inspect
import operator

from ._report import plain


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


def items_of(value, keys):
    """The entries of a mapping with these keys, or None if they cannot be read."""
    entries = {}
    for key in keys:
        got, error = ask(operator.getitem, value, key)
        if error is None:
            entries[key] = got
        elif not isinstance(error, KeyError):
            return None
    return entries
