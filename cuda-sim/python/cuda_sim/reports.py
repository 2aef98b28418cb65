"""Types of the findings that `cuda_sim.take` returns and that a report in JSON has."""

from __future__ import annotations

from typing import Optional, TypedDict


class Frame(TypedDict, total=False):
    """A frame of a call stack: `file` and `line`, or else the `module`."""

    function: str
    file: str
    line: int
    module: str
    language: str
    """`python`, of a Python frame, which also has the next entry"""
    library: bool
    """not the user's code: of the standard library or an installed package"""
    source: str
    """text of the line, of the user's Python code"""


class Side(TypedDict):
    """One of the two accesses."""

    mode: str
    """`read`, `write` or `read and write`"""
    actor: str
    """the stream or the host thread"""
    label: str
    """name of the function, the kernel, or of `cuda_sim.label`"""
    host_thread: int
    stack: list[str]
    """as the terminal has it"""
    frames: list[Frame]
    """all, from the innermost: native ones, then those of Python"""


class Allocation(TypedDict):
    address: int
    nbytes: int
    device: int
    """-1 for host memory"""
    kind: str


class _Finding(TypedDict):
    rule: Optional[str]
    """the broken rule of array exchange"""
    remark: bool
    """not a fault"""
    second: Side
    missing: str
    """what would order the accesses"""
    text: str
    """the report on the terminal"""


class Race(_Finding, total=False):
    """A race, or a broken rule of array exchange. Absent entries do not apply."""

    first: Side
    address: int
    nbytes: int
    offset: int
    """of the bytes in the allocation"""
    more_ranges: int
    """number of other ranges on which the same accesses race"""
    more_callers: int
    """number of other pairs of call stacks with the same two places"""
    allocation: Allocation
    sentence: str
    """text of the rule"""
    note: str
    """order that the checker may not have observed"""
    record: Side
    """with `wait`: the record that may run after the wait for it"""
    wait: Side
