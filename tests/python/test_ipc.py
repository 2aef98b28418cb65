"""The page about arrays between processes. Its programs are capi-tests/sync/ipc*.c."""

import re

from commands import ROOT, compile, simulated


def test_the_page(tmp_path):
    """Its first program runs, and prints what the page states."""
    page = (ROOT / "docs/src/ipc.md").read_text()
    (tmp_path / "page.c").write_text(re.search("```c\n(.*?)```", page, re.S)[1])
    program = compile(tmp_path / "page.c", tmp_path / "page", "-std=c99", "-Wall", "-Wextra", "-Werror", cuda=True)
    for schedule in ("lazy", "threads"):
        assert simulated(program, schedule=schedule).stdout == re.search("```text\n(.*?)```", page, re.S)[1]
