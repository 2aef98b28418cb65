"""Names of parameters that are the same in every process, as tests on several processes need them."""

import re


def stable_id(value):
    """Text of a value, without addresses and with the members of sets in order. The heap of an interpreter that is no
    position-independent executable begins at addresses of eight digits."""
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(repr, value))) + "}"
    return re.sub(
        r"0x[0-9a-f]{6,}|\d{8,}", "ADDRESS", str(value) if isinstance(value, str) else repr(value)
    )
