"""`make release`, in a copy of the repository, and the files that people expect in one."""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import release  # noqa: E402

VERSION = release.current()
MAJOR, MINOR, PATCH = release.number(VERSION)
NEXT = f"{MAJOR}.{MINOR}.{PATCH + 1}"
ALL = " ".join(release.COMMANDS)


def git(folder, *arguments):
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are not a repository")
    return [name for name in git(ROOT, "ls-files").splitlines() if (ROOT / name).is_file()]


def commit(folder):
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "now")


@pytest.fixture
def copy(tmp_path):
    """A repository with the files of this one as they are now. Its library needs no tests: make does nothing."""
    assert set(release.COMMANDS) == {*release.PARTS_BEFORE, *release.PARTS_AFTER}
    folder = tmp_path / "copy"
    for name in tracked():
        if not name.startswith(("cuda-sim/", "capi-tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    change = folder / "CHANGELOG.md"
    change.write_text(re.sub(r"^## (\S+) \(.*\)$", r"## \1 (unreleased)", change.read_text(), count=1, flags=re.M))
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "maintainer")
    git(folder, "config", "user.email", "maintainer@example.com")
    commit(folder)
    return folder


def make_release(folder, version, *variables):
    command = ["make", "release", f"VERSION={version}", f"PYTHON={sys.executable}", *variables]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_places():
    """Each place of the version is known, so a release changes all of them."""
    known = {name for name, _ in release.PLACES} | {release.LOCK}
    # Histories, other packages' versions, and requests for a version that stay right.
    others = {"CHANGELOG.md", "abi/nodes.txt", "interop/host/requirements.txt", "interop/rules.mk", "docs/src/performance.md",
              "tests/python/test_package.py"}  # fmt: skip
    stated = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.]*\d)")
    for name in tracked():
        # cuda-sim has versions of its own.
        if name in others or name.startswith("cuda-sim/"):
            continue
        # Cargo.toml also requires a version of cargo-c.
        text = re.sub("^min_version = .*", "", (ROOT / name).read_text(errors="replace"), flags=re.M)
        found = len(stated.findall(text))
        assert not found or name in known, f"{name} states {VERSION}, and tools/release.py does not know it"
        if found and name != release.LOCK:
            counts = [len(re.findall(pattern, (ROOT / name).read_text(), re.M)) for at, pattern in release.PLACES if at == name]
            assert sum(counts) == found, name


def test_a_release(copy):
    done = make_release(copy, NEXT, f"SKIP={ALL}")
    assert done.returncode == 0, done.stderr
    assert git(copy, "cat-file", "-t", f"v{NEXT}") == "tag"
    assert git(copy, "rev-parse", f"v{NEXT}^{{commit}}") == git(copy, "rev-parse", "HEAD")
    assert git(copy, "log", "-1", "--format=%s") == f"release: {NEXT}"
    assert git(copy, "status", "--porcelain") == ""
    log = (copy / "CHANGELOG.md").read_text()
    date = re.search(rf"^## {re.escape(NEXT)} \((\d{{4}}-\d\d-\d\d)\)$", log, re.M)[1]
    assert f"version: {NEXT}\ndate-released: {date}\n" in (copy / "CITATION.cff").read_text()
    notes = (copy / "build/release-notes.md").read_text()
    assert notes.strip() and notes in log and notes.strip() in git(copy, "tag", "--list", "--format=%(contents)", f"v{NEXT}")
    for name, pattern in release.PLACES:
        assert re.search(pattern, (copy / name).read_text(), re.M)[1] == NEXT, name
    assert all(command in done.stdout for command in release.COMMANDS.values())
    assert "git push origin main" in done.stdout and "cargo publish -p libcai-c" in done.stdout
    assert "python3 packaging/fill.py --url" in done.stdout
    # Cargo agrees with its lock file.
    done = subprocess.run(["cargo", "tree", "--locked", "--offline"], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0 and f"libcai-c v{NEXT}" in done.stdout, done.stderr
    # There is nothing to release then, and nothing changes.
    again = make_release(copy, f"{MAJOR}.{MINOR}.{PATCH + 2}", f"SKIP={ALL}")
    assert again.returncode != 0 and "(unreleased)" in again.stderr and "Traceback" not in again.stderr
    assert git(copy, "tag") == f"v{NEXT}" and git(copy, "status", "--porcelain") == ""


def test_files_of_the_repository():
    folder = ROOT / ".github"
    assert {path.stem for path in (folder / "ISSUE_TEMPLATE").iterdir()} >= {"bug", "config"}
    known = subprocess.run(["make", "-np", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    targets = set(re.findall(r"^([\w-]+):", known, re.M))
    for workflow in (folder / "workflows").iterdir():
        text = workflow.read_text()
        called = set(re.findall(r"^ +- run: make ([\w-]+)", text, re.M))
        assert called and called <= targets, called - targets
        # A workflow can read the repository and nothing else.
        assert "permissions:\n  contents: read\n" in text
    assert "NOT RUN YET" in (folder / "workflows/ci.yml").read_text()


def test_recipes(tmp_path):
    """Every placeholder of the templates is filled. `make recipes` runs them."""
    archive = tmp_path / f"libcai-{VERSION}.tar.xz"
    archive.write_bytes(b"sources")
    fill = [sys.executable, ROOT / "packaging/fill.py", "--url", "https://example.com/r", "--source", archive, tmp_path / "out"]
    subprocess.run(fill, check=True)
    texts = {path.relative_to(tmp_path / "out").as_posix(): path.read_text() for path in (tmp_path / "out").rglob("*.*")
             if path.is_file()}  # fmt: skip
    for name, text in texts.items():
        assert not re.search("@(VERSION|URL|SHA256|BINARY|BINARY_SHA256)@", text), name
    for name in ("conan/conandata.yml", "meson/cai.wrap"):
        assert "https://example.com/r/libcai-" in texts[name] and hashlib.sha256(b"sources").hexdigest() in texts[name]
    # cargo-c makes the SONAME from this version.
    major = re.search(r"ABI_MAJOR: i32 = (\d+)", (ROOT / "src/abi/version.rs").read_text())[1]
    capi = (ROOT / "Cargo.toml").read_text().partition("[package.metadata.capi.library]")[2]
    assert re.search(r'^version = "(\d+)\.', capi, re.M)[1] == major
    # A program that bundles the library needs the same libraries everywhere.
    native = re.search(r"set\(CAI_NATIVE_LIBS dl ([^)]*) dl c\)", (ROOT / "CMakeLists.txt").read_text())[1].split()
    assert json.dumps([*native, "dl"]) in texts["conan/conanfile.py"]
    assert ", ".join(f"'-l{name}'" for name in [*native, "dl"]) in texts["meson/packagefiles/cai/meson.build"]
