"""The binary interface beside that of the last release, in abi/released: names, layout, and what libabigail finds in the
debug information of a build."""

import difflib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "abi"
SCRIPT = "tools/dist/abi.sh"

ABIGAIL = pathlib.Path(os.environ.get("ABIGAIL", ROOT / "build/abigail"))
with_libabigail = pytest.mark.skipif(
    not shutil.which("abidiff") and not (ABIGAIL / "root/usr/bin/abidiff").exists() or os.uname().machine != "x86_64",
    reason=f"libabigail is not here ({SCRIPT} tools unpacks it), or this is no x86_64",
)


def compare(sources, target):
    environment = {**os.environ, "ABIGAIL": str(ABIGAIL), "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run([sources / SCRIPT, "compare"], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def without_comments(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_names_only_grow():
    released = (ABI / "released/symbols.txt").read_text().split()
    assert released and set(released) <= set((ABI / "symbols.txt").read_text().split())
    dumped = re.findall(r"<elf-symbol name='(\w+)' version='(\w+\.\w+)'", (ABI / "released/libcai.abi").read_text())
    assert sorted(name for name, _ in dumped) == released


def vanished(old, new):
    return [line[2:] for line in difflib.ndiff(old, new) if line.startswith("- ")]


def test_layout_only_grows():
    """Lines that vanish are those of abi/accepted.txt."""
    released, present = ((ABI / name).read_text().splitlines() for name in ("released/layout.txt", "layout.txt"))
    accepted = {*without_comments(ABI / "accepted.txt")}
    gone = {line for line in vanished(released, present) if not line.startswith("CAI_ABI_MINOR =")}
    assert gone == accepted
    # A member that goes away is noticed.
    member = "    8    8  const char *title"
    assert vanished(released, [line for line in released if line != member]) == [member]


@with_libabigail
def test_this_build_has_the_interface_of_the_last_release():
    status, report = compare(ROOT, ROOT / "target")
    assert status == 0, report


@with_libabigail
def test_a_moved_member_is_reported(tmp_path):
    """Two members of cai_field change places: the library compiles, and every program breaks."""
    tree = tmp_path / "tree"
    unneeded = {".git", "build", "target", "dist", "docs", "interop"}
    shutil.copytree(ROOT, tree, ignore=lambda folder, _: unneeded if pathlib.Path(folder) == ROOT else ())
    source = tree / "src/abi/core.rs"
    member = r"((?: *///[^\n]*\n)*    pub %s: [^\n]*\n)"
    text, count = re.subn(member % "name" + member % "title", r"\2\1", source.read_text())
    assert count == 1
    source.write_text(text)
    status, report = compare(tree, ROOT / "target/abi-moved")
    assert status == 1, report
    assert re.search(r"'i8\* name' offset changed from 0 to 64", report)
    assert "not that of abi/released" in report
