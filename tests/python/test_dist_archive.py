"""The archive of `make dist`, made of what `make install` installs here: its bytes, and programs that use it. The real
ones are tried on other systems by `make dist-test`."""

import shutil
import tarfile

import pytest
from commands import ROOT, run

TOOLS = ROOT / "tools/dist"
NAME = "libcai-test-platform"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Packed twice, of two copies whose files have other times and modes."""
    stage = tmp_path_factory.mktemp("stage")
    run("make", "install", "PREFIX=/usr", f"DESTDIR={stage}")
    copy = tmp_path_factory.mktemp("copy") / "usr"
    shutil.copytree(stage / "usr", copy, symlinks=True, copy_function=shutil.copy)
    for path in copy.rglob("*.h"):
        path.chmod(0o600)
    packed = []
    for root in (stage / "usr", copy):
        folder = tmp_path_factory.mktemp("packed")
        run(TOOLS / "pack.sh", root, NAME, folder, env={"SOURCE_DATE_EPOCH": "1700000000"})
        (file,) = folder.iterdir()
        packed.append(file)
    assert packed[0].read_bytes() == packed[1].read_bytes()
    return packed[0]


def test_one_folder_and_no_owner(archive):
    assert archive.name == f"{NAME}.tar.xz"
    with tarfile.open(archive) as members:
        for member in members:
            assert member.name.split("/")[0] == NAME
            assert (member.uid, member.gid, member.mtime) == (0, 0, 1700000000)
            assert member.mode & 0o022 == 0 or member.issym()


def test_programs(archive, tmp_path):
    with tarfile.open(archive) as members:
        # Archives of one's own; the safest filter is the default of newer versions of Python only.
        members.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    assert "programs passed" in run(TOOLS / "programs.sh", tmp_path / NAME, tmp_path / "programs", "gcc").stdout
