"""The programs of other languages that the page about them links. Go and LuaJIT are packages of Debian, unpacked below
build/languages (540 MB); Zig's compiler is the one of pip, beside the tests' own packages."""

import re
import shutil
import subprocess

import pytest
from commands import BIN, LIBRARY, ROOT, library_folder, run

HERE = ROOT / "interop/languages"
FOLDER = ROOT / "build/languages"
SHARED = library_folder() / "libcai.so.1"


@pytest.fixture(scope="module")
def tools():
    """The folder `usr` of the packages. Their programs need no newer C library than any machine has."""
    if not (FOLDER / "ready").exists():
        if not shutil.which("apt-get"):
            pytest.skip("apt-get is not here")
        run(ROOT / "tools/debian/unpack.sh", FOLDER, "bookworm", "golang-1.19-go", "luajit")
        (FOLDER / "ready").touch()
    return FOLDER / "root/usr"


def test_luajit(tools):
    assert run(tools / "bin/luajit", HERE / "array.lua", ROOT / "include/cai/cai.cdef", LIBRARY).stdout == "24\n"


def test_go(tools, tmp_path):
    environment = {
        "GOROOT": str(tools / "lib/go-1.19"), "GOCACHE": str(FOLDER / "cache"), "GOPATH": str(tmp_path), "GO111MODULE": "off",
        "CGO_CFLAGS": f"-I{ROOT / 'include'}", "CGO_LDFLAGS": f"{SHARED} -Wl,-rpath,{SHARED.parent}",
    }  # fmt: skip
    assert run(tools / "lib/go-1.19/bin/go", "run", HERE / "array.go", env=environment).stdout == "24\n"


def test_zig(tmp_path):
    program = tmp_path / "array"
    run(BIN / "python", "-m", "ziglang", "build-exe", HERE / "array.zig", SHARED, "-lc", f"-femit-bin={program}", cwd=tmp_path)
    done = subprocess.run([program], env={"LD_LIBRARY_PATH": str(SHARED.parent)}, timeout=60)
    assert done.returncode == 24


def test_the_page_shows_their_calls():
    page = (ROOT / "docs/src/languages.md").read_text()
    rows = re.findall(r"(?m)^\| \[.*?\]\((\S+/interop/languages/\S+)\) \| `(.*)` \|$", page)
    assert len(rows) == len(list(HERE.iterdir()))
    for program, call in rows:
        assert call in (ROOT / "docs/src" / program).read_text()
