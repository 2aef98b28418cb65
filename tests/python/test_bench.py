"""The runner of the bench, with programs that print what they were told to."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import run  # noqa: E402

PAGE = """<!-- figures: one -->
old
<!-- end of figures --> and <!-- ns: a group / ours -->7 ns<!-- -->
<!-- figures: another -->
kept
<!-- end of figures -->
"""


def rounds(*rows):
    return "printf '" + "".join(f"{group}\\t{name}\\t{ns}\\n" for group, name, found in rows for ns in found) + "'"


@pytest.fixture
def measured(tmp_path, monkeypatch, capsys):
    """Runs one program, with goals; returns what is printed, and the page."""
    (tmp_path / "file").write_text("of the bench")

    def measured(command, goals="", pages=1):
        monkeypatch.setattr(run, "PROCESSES", 2)
        monkeypatch.setattr(run, "GOALS", list(run.goals(goals)))
        page = tmp_path / "page.md"
        page.write_text(PAGE)
        run.main(str(tmp_path), *["--write", str(page)] * pages, f"one=test -f file && {command}")
        return capsys.readouterr().out, page.read_text()

    return measured


ROWS = ("a group", "by hand", [10, 20, 40]), ("a group", "ours", [20, 30, 40])


@pytest.mark.parametrize(
    "goal, shown",
    [
        ("ours <= 1.5 x", "1.50x"),
        ("ours <= 1.4 x", "1.40x missed"),
        ("* <= 30 ns", "30.0 ns"),
        ("o* <= 2 ns + 1 x by hand", "22.0 ns missed"),
        ("ours <= 40 ns\nours <= 1 ns", "40.0 ns"),
        ("[other]\nours <= 1 ns", ""),
    ],
)
def test_ratios_and_goals(measured, goal, shown):
    """The ratio is that of each round: 2, 1.5 and 1, in both processes."""
    out, page = measured(rounds(*ROWS), f"[a *]\n{goal}\n")
    ours = next(line for line in out.splitlines() if line.startswith("  ours"))
    assert ours.split()[:5] == ["ours", "30.0", "20.0", "1.50x", "1.00"] and ours.partition(" to  2.00")[2].strip() == shown
    assert ours in page and "30.0 ns<!-- -->" in page and "old" not in page and "kept" in page


def test_items_of_two_ways_share_a_line(measured):
    out, _ = measured(rounds(*((group, f"an item | {name}", ns) for group, name, ns in ROWS)), "[a group]\n* | ours <= 1 x * | by hand\n", 0)
    title, item, *_ = out.splitlines()
    assert title.split()[2:7] == ["by", "hand", "ours", "ratio", "quartiles"]
    assert item.split()[:5] == ["an", "item", "20.0", "30.0", "1.50x"] and item.endswith("20.0 ns missed")


def test_what_is_missing_keeps_the_page_as_it_was(measured):
    with pytest.raises(SystemExit, match="make interop"):
        measured(rounds(*ROWS) + "; printf 'without\\tNumPy\\n'")
    out, page = measured(rounds(*ROWS) + "; printf 'without\\tNumPy\\n'", pages=0)
    assert out.endswith("left out: NumPy\n") and page == PAGE


def test_a_goal_of_no_row_is_noticed(measured):
    with pytest.raises(SystemExit, match="other <= 1 ns: there is no such row"):
        measured(rounds(*ROWS), "[a group]\nother <= 1 ns\n")


def test_a_program_that_fails_ends_the_bench(measured):
    with pytest.raises(SystemExit, match="one: .*3"):
        measured("exit 3")
