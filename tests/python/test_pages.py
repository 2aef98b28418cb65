"""Pages that are programs: what a reader pastes from them, in their order, prints what they say.

A block whose first line is a comment with a file name is saved under that name. All `sh` blocks run in one shell, in a
home folder of their own. Each line of a `text` block is one that the `sh` block before it printed, but for addresses and
folders, which differ. Their order is that of a terminal, where nothing is buffered. A line of output may also stand in
a sentence: "It prints `all 3`".

The section "Install" of a tutorial is pasted once, in the repository; how-to pages begin after it. Programs are also
edited to have mistakes that their page names and that the race checker reports.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|[Pp]rints\s+`([^`]+)`", re.M | re.S)
NAMED = re.compile(r"(?:/\*|//|#) (\S+\.\w+)(?: \*/)?\n")
REPORTED = 66  # exit status of `cuda-sim run` with a race

# Each page, and the tutorial whose section "Install" comes before its programs.
PAGES = {
    "README": "README",
    "first_exchange": "first_exchange",
    "exchange": "first_exchange",
    "cpp": "first_exchange",
    "ownership": "first_exchange",
    "elsewhere": "first_exchange",
    "packaging": "first_exchange",
    "streams": "first_exchange",
    "extensions": "extensions",
    "protocols": "extensions",
    "languages": "extensions",
    "python": "extensions",
}
INSTALL = re.compile(r"^## Install\n.*?(?=^## )", re.M | re.S)
# Edits of programs: the page, a line's part, and what it becomes.
MISTAKES = [
    ("exchange", "cai_array_consume_begin(&kept, mine, CAI_ACCESS_WRITE, error)", "CAI_OK"),
    ("exchange", "cai_array_consume_end(&kept, mine, CAI_ACCESS_WRITE, error)", "CAI_OK"),
    ("exchange", "(size_t)layout.count, stream)", "(size_t)layout.count, NULL)"),
    ("exchange", "cai_array_synchronize(array, CAI_ACCESS_READ, error)", "CAI_OK"),
    ("exchange", "cai_array_produce(&array, &pending, 1,", "cai_array_produce(&array, &pending, 0,"),
    ("exchange", "0x40200000, 1000, self->stream)", "0x40200000, 1000, NULL)"),
    ("streams", "cai_array_consume_begin(&self->array, mine, CAI_ACCESS_WRITE, error)", "CAI_OK"),
    ("streams", "cai_array_consume_end(&self->array, mine, CAI_ACCESS_WRITE, error)", "CAI_OK"),
    ("streams", "cai_array_produce(&array, pending, 2,", "cai_array_produce(&array, pending, 1,"),
    ("protocols", "cai_array_consume_begin(&array, mine, CAI_ACCESS_WRITE, &error)", "CAI_OK"),
    ("protocols", "cai_array_consume_end(&array, mine, CAI_ACCESS_WRITE, NULL)", "CAI_OK"),
    ("protocols", "(size_t)layout.nbytes,\n                        stream)", "layout.nbytes, NULL)"),
    ("protocols", "options.dlpack_stream = mine;", "options.dlpack_stream = CAI_STREAM_NONE;"),
    ("protocols", '"stream": theirs.value', '"stream": None'),
    ("python", ', "stream": self.stream.value}', "}"),
    ("python", "bits, c.c_size_t(count), self.stream)", "bits, c.c_size_t(count), None)"),
    ("README", "cai_array_consume_begin(array, mine, CAI_ACCESS_READ, error)", "CAI_OK"),
    ("first_exchange", "cai_array_consume_begin(array, mine, CAI_ACCESS_READ, error)", "CAI_OK"),
]


def text_of(name):
    return (ROOT / "README.md" if name == "README" else ROOT / f"docs/src/{name}.md").read_text()


def pasted(page):
    """The script of the page, and what each of its parts must print."""
    script, expected = ["set -eu"], []
    for language, text, printed in BLOCK.findall(page):
        named = NAMED.match(text)
        if named:
            script.append(f"cat > {named[1]} <<'END_OF_FILE'\n{text}END_OF_FILE")
        elif language == "sh":
            script.append(f"echo '--- part {len(expected)}'\n{text}")
            expected.append([])
        elif language == "text" or printed:
            expected[-1] = clean(text or printed)
    return "\n".join(script), expected


def clean(text):
    lines = (re.sub(r"0x[0-9a-f]+|(?<=\[)\d{5,}", "0x", line) for line in text.splitlines())
    return [re.sub(r"\S*/(?=\w)", "", line) for line in lines]


def as_reader(home):
    """The environment of a reader with another home folder, who has Rust and the Python of the tests."""
    real = pathlib.Path.home()
    return os.environ | {
        "HOME": str(home),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        # Built already, and where cargo finds it again.
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")),
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(real / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(real / ".rustup")),
        # What was downloaded for the tests.
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(real / ".cache/pip")),
    }


def paste(script, folder, environment, status=0):
    command = ["bash", "-c", f"exec 2>&1\n{script}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == status, done.stdout
    return done.stdout


def compare(printed, expected):
    parts = re.split(r"^--- part \d+\n", printed, flags=re.M)[1:]
    assert len(parts) == len(expected) and any(expected)
    for lines, text in zip(expected, parts):
        assert not set(lines) - set(clean(text)), text


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The environment after the installation of a tutorial, which is pasted once."""
    after = {}

    def install(tutorial):
        if tutorial not in after:
            home = tmp_path_factory.mktemp(tutorial)
            script, _ = pasted(INSTALL.search(text_of(tutorial))[0])
            paste(f'{script}\nenv -0 > "$HOME/environment"', ROOT, as_reader(home))
            lines = (home / "environment").read_text().split("\0")
            after[tutorial] = dict(line.split("=", 1) for line in lines if line)
        return after[tutorial]

    return install


def after_installation(name):
    return pasted(INSTALL.sub("", text_of(name)))


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_says_is_printed(name, tmp_path, installed):
    script, expected = after_installation(name)
    environment = installed(PAGES[name])
    # A tutorial goes on where its installation ended, but not in the repository.
    folder = environment["PWD"] if name == PAGES[name] and environment["PWD"] != str(ROOT) else tmp_path
    compare(paste(script, folder, environment), expected)


@pytest.mark.parametrize("name, right, wrong", MISTAKES, ids=[f"{one[0]}-{one[2]}" for one in MISTAKES])
def test_a_mistake_is_reported(name, right, wrong, tmp_path, installed):
    script, _ = after_installation(name)
    assert right in script
    printed = paste(script.replace(right, wrong), tmp_path, installed(PAGES[name]), REPORTED)
    assert "missing: " in printed, printed
