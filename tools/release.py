"""`make release VERSION=x.y.z`: everything up to the upload. Pushes and uploads nothing.

1. Checks: a branch, a clean tree, a new tag, the same version in all places, an unreleased section in CHANGELOG.md.
2. Writes the version into all places, and the date into the change log and CITATION.cff.
3. Runs `make lint` and `make test`, and records the interface in abi/layout.txt and tests/kept (`abi`); commits; runs
   `make dist` and `make dist-test`, which take what is committed.
4. Makes an annotated tag, writes the release notes, and prints the commands that publish them.

--dry-run (DRY_RUN=1) stops after the checks and shows what would change. --skip (SKIP="test dist") leaves parts out.
"""

import argparse
import datetime
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS_BEFORE = ("lint", "test", "abi")
PARTS_AFTER = ("dist", "dist-test")
COMMANDS = {
    **{part: f"make {part}" for part in ("lint", "test", "dist", "dist-test")},
    "abi": "cargo run -q -p cai-headers --features headers -- release && tools/keep_programs.sh",
}
VERSION = r"(\d+\.\d+\.\d+)"

# Every place of the version: file, and a pattern whose one group is the version.
PLACES = [
    ("Cargo.toml", rf'^\[workspace\.package\]\nversion = "{VERSION}"$'),
    ("rust/Cargo.toml", rf'^libcai-c = .*version = "{VERSION}"'),
    ("CITATION.cff", rf"^version: {VERSION}$"),
    ("README.md", rf"^\| \*\*Version\*\* \| {VERSION},"),
    ("src/ffi/library.rs", rf'as text: `"{VERSION}"`'),
    ("include/cai/status.h", rf'as text: `"{VERSION}"`'),
    ("docs/src/versions.md", rf"^\| library version, `{VERSION}` \|"),
]
HEADING = re.compile(r"^## (\S+) \(unreleased\)$", re.M)
LOCK = "Cargo.lock"
MEMBER = re.compile(rf'^(name = "(?:libcai|libcai-c)"\nversion = ")({VERSION})"$', re.M)


class Refused(Exception):
    pass


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"git {shlex.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def read(name):
    return (ROOT / name).read_text()


def current():
    """The version that all places state. Raises Refused if they differ."""
    found = {}
    for name, pattern in PLACES:
        match = re.search(pattern, read(name), re.M)
        if not match:
            raise Refused(f"{name}: found nothing that matches {pattern}")
        found.setdefault(match[1], []).append(name)
    for match in MEMBER.finditer(read(LOCK)):
        found.setdefault(match[2], []).append(LOCK)
    if len(found) > 1:
        said = "; ".join(f"{version} in {', '.join(sorted(set(names)))}" for version, names in found.items())
        raise Refused(f"the places of the version differ: {said}")
    return next(iter(found))


def number(version):
    return tuple(map(int, version.split(".")))


def check(version):
    """Returns the version before. Raises Refused if there can be no release now."""
    if not re.fullmatch(VERSION, version):
        raise Refused(f"VERSION: found {version!r}, expected three numbers, as in make release VERSION=1.2.3")
    before = current()
    if number(version) < number(before):
        raise Refused(f"VERSION: found {version}, expected {before} or later")
    if git("status", "--porcelain"):
        raise Refused("the tree has changes that are not committed (git status)")
    if not git("branch", "--show-current"):
        raise Refused("HEAD is on no branch: check out the one to release")
    if git("tag", "--list", f"v{version}"):
        raise Refused(f"the tag v{version} exists")
    if not HEADING.search(read("CHANGELOG.md")):
        raise Refused("CHANGELOG.md: expected a section with the heading '## VERSION (unreleased)'")
    if not notes(HEADING.search(read("CHANGELOG.md"))[1]).strip():
        raise Refused("CHANGELOG.md: the unreleased section is empty")
    return before


def notes(version):
    """The section of the change log about a version, without its heading."""
    match = re.search(rf"^## {re.escape(version)} \([^)]*\)$\n(.*?)(?=^## |\Z)", read("CHANGELOG.md"), re.M | re.S)
    if not match:
        raise Refused(f"CHANGELOG.md has no section about {version}")
    return match[1].strip() + "\n"


def changes(version, date):
    """The new texts of the files that change, by name."""
    texts = {}

    def change(name, replace):
        before = texts.get(name, read(name))
        after = replace(before)
        if after != read(name):
            texts[name] = after

    def put(match):
        start, end = (edge - match.start() for edge in match.span(1))
        return match[0][:start] + version + match[0][end:]

    for name, pattern in PLACES:
        change(name, lambda text, pattern=pattern: re.sub(pattern, put, text, flags=re.M))
    change(LOCK, lambda text: MEMBER.sub(lambda match: f'{match[1]}{version}"', text))
    change("CHANGELOG.md", lambda text: HEADING.sub(f"## {version} ({date})", text, count=1))

    def released(text):
        text = re.sub(r"^date-released: .*\n", "", text, flags=re.M)
        return re.sub(r"^(version: .*\n)", rf"\g<1>date-released: {date}\n", text, flags=re.M)

    change("CITATION.cff", released)
    return texts


def show(texts):
    for name, after in texts.items():
        print(f"  {name}")
        lines = difflib.unified_diff(read(name).splitlines(), after.splitlines(), n=0, lineterm="")
        print(*(f"    {line}" for line in lines if not line.startswith(("---", "+++", "@@"))), sep="\n")


def run(part):
    print(f"--- {COMMANDS[part]}", flush=True)
    # The job server of the calling make is not for these.
    own = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VERSION", "SKIP", "DRY_RUN")
    environment = {key: value for key, value in os.environ.items() if key not in own}
    if subprocess.run(COMMANDS[part], cwd=ROOT, env=environment, shell=True).returncode:
        raise Refused(f"{COMMANDS[part]}: failed")


def publishing(version):
    """What the maintainer types to publish, in this order."""
    branch = git("branch", "--show-current")
    return [
        f"git push origin {branch} v{version}",
        "cargo publish -p libcai-c --allow-dirty",
        "cargo publish -p libcai",
        f"python3 -m twine upload dist/*.whl dist/libcai-{version}.tar.gz",
        f"gh release create v{version} dist/* --verify-tag --notes-file build/release-notes.md"
        + (" --prerelease" if version.startswith("0.") else ""),
        f"python3 packaging/fill.py --url URL-OF-THE-RELEASE --source dist/libcai-{version}.tar.xz"
        f" --binary dist/libcai-{version}-x86_64-linux-gnu.tar.xz build/filled",
    ]


def release(version, skip):
    before = git("rev-parse", "HEAD")
    try:
        for name, text in changes(version, datetime.date.today().isoformat()).items():
            (ROOT / name).write_text(text)
        if current() != version:
            raise Refused(f"the places of the version do not state {version}")
        for part in PARTS_BEFORE:
            if part not in skip:
                run(part)
        text = f"release: {version}\n\nCHANGELOG.md lists what is new, and how to move from the version before."
        git("add", "tests/kept")
        git("commit", "--all", "--message", text)
        for part in PARTS_AFTER:
            if part not in skip:
                run(part)
        text = notes(version)
        (ROOT / "build").mkdir(exist_ok=True)
        (ROOT / "build/release-notes.md").write_text(text)
        git("tag", "--annotate", f"v{version}", "--cleanup=whitespace", "--message", f"libcai {version}\n\n{text}")
    except Refused as refused:
        raise Refused(f"{refused}\nnothing was tagged; undo the release with: git reset --hard {before}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="for example 1.2.3")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--skip", default="", help=f"some of: {' '.join(PARTS_BEFORE + PARTS_AFTER)}")
    options = parser.parse_args(arguments)
    skip = options.skip.split()
    try:
        for part in skip:
            if part not in PARTS_BEFORE + PARTS_AFTER:
                raise Refused(f"SKIP: found {part!r}, expected some of {' '.join(PARTS_BEFORE + PARTS_AFTER)}")
        before = check(options.version)
        if options.dry_run:
            print(f"{before} becomes {options.version}; a dry run changes nothing. Files that would change:")
            show(changes(options.version, datetime.date.today().isoformat()))
            left = [COMMANDS[part] for part in PARTS_BEFORE + PARTS_AFTER if part not in skip]
            print(f"It would run: {', '.join(left) or 'nothing'}")
            return 0
        release(options.version, skip)
    except Refused as refused:
        print(f"release: {refused}", file=sys.stderr)
        return 1
    print(f"Tagged v{options.version}. dist/SHA256SUMS lists the artefacts.")
    if skip:
        print(f"Not run: {', '.join(COMMANDS[part] for part in skip)}")
    print("Nothing was pushed or uploaded. To publish:")
    for line in publishing(options.version):
        print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
