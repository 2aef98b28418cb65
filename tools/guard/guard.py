"""Compares the names of all test cases, and of all mutants, with those of another commit.

    python tools/guard/guard.py [COMMIT]          of HEAD's parent, or of COMMIT, with the files as they are
    python tools/guard/guard.py --killed LOG      a run of `make mutants` with killed.txt, which an earlier one wrote

A case may leave only where the commit that removes it names the proof that survives. A mutant that died must not
survive. Temporary: it goes when the tree has its new shape.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# In C: cases, rules, race programs, and rows of tables that expand to cases. A name belongs to no file, so moving it is
# no change.
IN_C = re.compile(r"(?:^|\s)(CASE|SHARED_CASE|PART|RULE|RACY|CORRECT|REMARK|ONE|OTHERS|OWNS|MORE_MODES)\(([^){]+)\)", re.MULTILINE)
# Rows of the tables in capi-tests, each with what it tests.
IN_TABLES = re.compile(
    r"^    +(REFUSED\w*|PASSES|CHECKED|ALIGNED|MISALIGNED|IS|FAILS|UNSOUND|OVERLAP|STEPS|BROKEN|UNFORMATTABLE|REFUSES|takes|refuses"
    r"|same|native|code|parses|does_not_parse|finds|strides_of)\((.*?)\);",
    re.MULTILINE | re.DOTALL,
)
# How a program runs.
HOW = re.compile(r"^(?: \*|//) run: (.*?)(?: \*/)?$", re.MULTILINE)
IN_ROWS = re.compile(r"^(\w+) (racy|correct|remark)\b", re.MULTILINE)
IN_RUST = re.compile(r"#\[test\]\s+(?:#\[[^\]]+\]\s+)*(?:pub )?fn (\w+)")
IN_PYTHON = re.compile(r"^def (test_\w+)", re.MULTILINE)
MUTANT = re.compile(r'^    \(\s*"([^"]+)", |^  (\S.*?) \|(?: |$)', re.MULTILINE)


def output(*command, cwd):
    return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False).stdout


def names(root):
    found = set()
    for path in output("git", "ls-files", "-co", "--exclude-standard", cwd=root).splitlines():
        file = root / path
        if not file.is_file() or file.suffix not in {".c", ".cpp", ".h", ".rs", ".py", ".txt"}:
            continue
        text = file.read_text(errors="replace")
        if file.suffix in {".c", ".cpp", ".h"}:
            found |= {f"run {file.name} {word}" for line in HOW.findall(text) for word in re.split("[ ;]+", line)}
            found |= {f"{kind.lower().replace('shared_', '')} {' '.join(words.split())}" for kind, words in IN_C.findall(text)}
            if path.startswith("capi-tests/"):
                found |= {f"row {kind.lower()} {' '.join(words.split())}" for kind, words in IN_TABLES.findall(text)}
        elif file.suffix == ".txt":
            found |= {f"{verdict} {name}" for name, verdict in IN_ROWS.findall(text) if file.parent.name == "litmus"}
            if path.startswith("tools/mutants"):
                found |= {f"mutant {name}" for _, name in MUTANT.findall(text)}
        elif file.suffix == ".rs":
            found |= {f"rust {name}" for name in IN_RUST.findall(text)}
        elif path.startswith("tools/mutants"):
            found |= {f"mutant {name}" for name, _ in MUTANT.findall(text)}
        elif not path.startswith(("tests/python/", "cuda-sim/tests/python/")):
            found |= {f"python {name}" for name in IN_PYTHON.findall(text)}
    for folder in (root, root / "cuda-sim"):
        collected = output(sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/python", cwd=folder)
        found |= {"python " + line.partition("::")[2] for line in collected.splitlines() if "::" in line}
    return found


def killers(log):
    return dict(re.findall(r"^killed: (.+?) \((.*)\)$", pathlib.Path(log).read_text(), re.MULTILINE))


def main():
    if sys.argv[1:2] == ["--killed"]:
        before, now = killers(HERE / "killed.txt"), killers(sys.argv[2])
        lost = sorted(set(before) - set(now))
        print(*(f"- {name} ({before[name]})" for name in lost), f"{len(now)} killed, before {len(before)}", sep="\n")
        return
    commit = sys.argv[1] if sys.argv[1:] else "HEAD~1"
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", other, commit], cwd=ROOT, check=True)
        try:
            for name in ("target", "build", "python/libcai/_abi.py"):
                (other / name).symlink_to(ROOT / name)
            before, now = names(other), names(ROOT)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", other], cwd=ROOT, check=True)
    print(*(f"- {name}" for name in sorted(before - now)), *(f"+ {name}" for name in sorted(now - before)), sep="\n")
    print(f"{len(now)} names, before {len(before)}")


main()
