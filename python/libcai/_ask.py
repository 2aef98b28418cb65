"""Careful access to foreign objects, without an exception.

Whatever a producer does becomes a finding. Functions take `add(rule, message)`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

from ._report import Add, State, plain


def describe(error: BaseException) -> str:
    """An exception in a line."""
    return plain(f"{type(error).__name__}: {safely(str, error)[:1000]}").rstrip(": ")


def show(value: object) -> str:
    """A value in a few characters."""
    text = plain(safely(repr, value)[:1000])
    return text if len(text) <= 60 else text[:57] + "..."


def safely(function: Callable[[Any], str], value: object) -> str:
    try:
        return str(function(value))
    except Exception:
        return plain(f"<{type(value).__name__}>")


def ask(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[Any, BaseException | None]:
    """What a producer's code answers, and what it raised: one of the two is None."""
    try:
        return function(*arguments, **keywords), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what other languages' panics become
        # Without the traceback, whose frames would keep the object alive.
        return None, error.with_traceback(None)


def attribute(obj: object, name: str, add: Add) -> tuple[Any, State, str | None]:
    """An attribute, once: its value, or None and the state and the message that say why there is none."""
    value, error = ask(getattr, obj, name)
    if error is None:
        return value, "offered", None
    if isinstance(error, AttributeError):
        known, _ = ask(inspect.getattr_static, obj, name, None)
        # Without a property of that name, the words are Python's own, or those of __getattr__: no reason.
        return (None, "absent", None) if known is None else (None, "declined", describe(error))
    add("attribute-raises",
        f"reading it raises {describe(error)}; without AttributeError, hasattr() raises too",
    )
    return None, "failed", describe(error)


def items_of(value: Any, keys: Iterable[str]) -> dict[str, Any] | None:
    """The entries of a mapping with these keys, or None if they cannot be read."""
    entries: dict[str, Any] = {}
    for key in keys:
        got, error = ask(operator.getitem, value, key)
        if error is None:
            entries[key] = got
        elif not isinstance(error, KeyError):
            return None
    return entries
