"""Pages that are programs: what a reader pastes from them, in their order, prints what they say.

A block whose first line is a comment with a file name is saved under that name. All `sh` blocks run in one shell, the
first in the repository, in a home folder of their own. Each line of a `text` block is one that the `sh` block before it
printed, but for addresses and folders, which differ. Their order is that of a terminal, where nothing is buffered.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NAMED = re.compile(r"(?:/\*|//|#) (\S+\.\w+)(?: \*/)?\n")
PAGES = ["first_exchange"]


def pasted(page):
    """The script of the page, and what each of its parts must print."""
    script, expected = ["set -eu"], []
    for language, text in BLOCK.findall(page):
        named = NAMED.match(text)
        if named:
            script.append(f"cat > {named[1]} <<'END_OF_FILE'\n{text}END_OF_FILE")
        elif language == "sh":
            script.append(f"echo '--- part {len(expected)}'\n{text}")
            expected.append([])
        elif language == "text":
            expected[-1] = clean(text)
    return "\n".join(script), expected


def clean(text):
    return [re.sub(r"\S*/(?=\w)", "", re.sub(r"0x[0-9a-f]+", "0x", line)) for line in text.splitlines()]


def as_reader(home):
    """The environment of a reader with another home folder, who has Rust and the Python of the tests."""
    real = pathlib.Path.home()
    return os.environ | {
        "HOME": str(home),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(real / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(real / ".rustup")),
    }


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_says_is_printed(name, tmp_path):
    script, expected = pasted((ROOT / f"docs/src/{name}.md").read_text())
    assert any(expected)
    command = ["bash", "-c", f"exec 2>&1\n{script}"]
    done = subprocess.run(command, cwd=ROOT, env=as_reader(tmp_path), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout
    printed = re.split(r"^--- part \d+\n", done.stdout, flags=re.M)[1:]
    assert len(printed) == len(expected)
    for lines, text in zip(expected, printed):
        assert not set(lines) - set(clean(text)), text
