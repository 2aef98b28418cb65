"""What `make dist` packs, as far as it needs no downloads: Debian packages, the list of what is linked, sums. The
packages are installed and used by `make dist-test`."""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys

import abi_symbols
import pytest
from commands import ROOT, run

TOOLS = ROOT / "tools/dist"
SIM = ROOT / "cuda-sim"
if not SIM.exists():
    pytest.skip("make dist packs libcai and cuda-sim: cuda-sim/ is not here", allow_module_level=True)
VERSION, SIM_VERSION = (
    re.search(r'^version = "([\d.]+)"', (folder / "Cargo.toml").read_text(), re.M)[1] for folder in (ROOT, SIM)
)
TRIPLET = f"{os.uname().machine}-linux-gnu"
# Of the sources, where they are no checkout.
NOW = {"SOURCE_DATE_EPOCH": "1700000000"}


@pytest.fixture(scope="module")
def debs(tmp_path_factory):
    """Made twice, of what is installed in two places."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb is not here")
    made = []
    for umask in (0o022, 0o077):
        stage, folder = tmp_path_factory.mktemp("stage"), tmp_path_factory.mktemp("debs")
        previous = os.umask(umask)
        try:
            run("make", "-C", ROOT, "install", "install-sim", "PREFIX=/usr", f"DESTDIR={stage}")
            run(TOOLS / "deb.sh", folder, env={**NOW, "LIBCAI_ROOT": f"{stage}/usr", "CUDASIM_ROOT": f"{stage}/usr"})
        finally:
            os.umask(previous)
        made.append({path.name.split("_")[0]: path for path in folder.iterdir()})
    for name, path in made[0].items():
        assert path.read_bytes() == made[1][name].read_bytes(), f"{name} differs between two builds"
    return made[0]


def listing(deb):
    """Mode, owner and target of each path."""
    lines = [line.split(maxsplit=5) for line in run("dpkg-deb", "-c", deb).stdout.splitlines()]
    return {line[5].removeprefix("./"): (line[0], line[1]) for line in lines}


def test_packages(debs):
    assert set(debs) == {"libcai1", "libcai-dev", "cuda-sim"}
    files = {name: {path for path in listing(deb) if path and path[-1] != "/"} for name, deb in debs.items()}
    lib = f"usr/lib/{TRIPLET}"

    def documents(name):
        return {f"usr/share/doc/{name}/{file}" for file in ("copyright", "changelog.gz", "changelog.Debian.gz")}

    assert files["libcai1"] == documents("libcai1") | {
        f"{lib}/libcai.so.{VERSION}",
        f"{lib}/libcai.so.1 -> libcai.so.{VERSION}",
    }
    assert {"usr/include/cai/cai.cdef", "usr/include/cai/cai.pxd"} < files["libcai-dev"]
    assert files["libcai-dev"] == documents("libcai-dev") | {
        *(f"usr/{name}" for name in abi_symbols.HEADERS),
        f"{lib}/libcai.a",
        f"{lib}/libcai.so -> libcai.so.1",
        f"{lib}/pkgconfig/cai.pc",
        *(f"{lib}/cmake/cai/{name}.cmake" for name in ("caiConfig", "caiConfigVersion", "caiTargets")),
    }
    assert {"usr/bin/cuda-sim", "usr/lib/cuda-sim/driver/libcuda.so.1", "usr/share/man/man1/cuda-sim.1.gz"} < files["cuda-sim"]
    for deb in debs.values():
        entries = listing(deb)
        assert {owner for _, owner in entries.values()} == {"root/root"}
        for path, (mode, _) in entries.items():
            executable = path[-1:] in ("", "/") or path == "usr/bin/cuda-sim"
            assert mode[0] == "l" or mode[1:] == ("rwxr-xr-x" if executable else "rw-r--r--"), path


def field(deb, name):
    return run("dpkg-deb", "-f", deb, name).stdout.strip()


def test_what_packages_need(debs):
    assert field(debs["libcai-dev"], "Depends") == f"libcai1 (= {VERSION}-1)"
    for name in ("libcai1", "cuda-sim"):
        assert re.fullmatch(r"libc6 \(>= 2\.\d+\), libgcc-s1 \(.*\) \| libgcc1 \(.*\)", field(debs[name], "Depends"))
    for name, deb in debs.items():
        assert field(deb, "Version") == f"{SIM_VERSION if name == 'cuda-sim' else VERSION}-1"


def test_symbols_file(debs, tmp_path):
    """A program that is built against libcai1 depends on the first release that has what it uses."""
    run("dpkg-deb", "-e", debs["libcai1"], tmp_path)
    head, *lines = (tmp_path / "symbols").read_text().splitlines()
    assert head == "libcai.so.1 libcai1 #MINVER#"
    symbols = dict(re.fullmatch(r" (\w+@CAI_[\w.]+|CAI_[\w.]+@CAI_[\w.]+) ([\d.]+)", line).groups() for line in lines)
    nodes = dict(line.split() for line in (ROOT / "abi/nodes.txt").read_text().splitlines() if line[0] != "#")
    assert set(nodes) == set(re.findall(r"^(CAI_[\w.]+) \{", run(ROOT / "abi/map.sh").stdout, re.M))
    names = {symbol.split("@")[0] for symbol in symbols} - set(nodes)
    assert names == abi_symbols.NAMES
    assert all(since == nodes[symbol.split("@")[1]] for symbol, since in symbols.items())
    assert (tmp_path / "triggers").read_text() == "activate-noawait ldconfig\n"
    assert (tmp_path / "shlibs").read_text() == f"libcai 1 libcai1 (>= {VERSION})\n"


def test_unpacked(debs, tmp_path):
    """The sums are right; the CMake package and pkg-config find the files in Debian's folders."""
    for name, deb in debs.items():
        control = tmp_path / f"{name}.control"
        run("dpkg-deb", "-x", deb, tmp_path / "root")
        run("dpkg-deb", "-e", deb, control)
        for line in (control / "md5sums").read_text().splitlines():
            md5, path = line.split("  ")
            assert hashlib.md5((tmp_path / "root" / path).read_bytes()).hexdigest() == md5
        doc = tmp_path / "root/usr/share/doc" / name
        assert (doc / "changelog.gz").exists() and "0BSD" in (doc / "copyright").read_text() or name != "cuda-sim"
        source = f"cuda-sim ({SIM_VERSION}-1)" if name == "cuda-sim" else f"libcai ({VERSION}-1)"
        assert source in gzip.decompress((doc / "changelog.Debian.gz").read_bytes()).decode()
    lib = tmp_path / f"root/usr/lib/{TRIPLET}"
    assert f"libdir=${{prefix}}/lib/{TRIPLET}\n" in (lib / "pkgconfig/cai.pc").read_text()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user C)\nfind_package(cai CONFIG REQUIRED)\n"
        "get_target_property(where cai::cai IMPORTED_LOCATION)\n"
        "get_target_property(headers cai::cai INTERFACE_INCLUDE_DIRECTORIES)\n"
        'file(WRITE "${CMAKE_BINARY_DIR}/found" "${where}\n${headers}\n")\n'
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dcai_DIR={lib / 'cmake/cai'}")
    where, headers = (tmp_path / "build/found").read_text().split()
    assert pathlib.Path(where) == lib / f"libcai.so.{VERSION}"
    assert pathlib.Path(headers) == tmp_path / "root/usr/include"


def test_bill_of_materials(tmp_path):
    run(TOOLS / "sbom.sh", tmp_path / "one", env=NOW)
    run(TOOLS / "sbom.sh", tmp_path / "two", env=NOW)
    for product, version, folder in (("libcai", VERSION, ROOT), ("cuda-sim", SIM_VERSION, SIM)):
        name = f"{product}-{version}.cdx.json"
        locked = (folder / "Cargo.lock").read_text()
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        bill = json.loads((tmp_path / "one" / name).read_text())
        assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
        parts = {part["name"]: part for part in bill["components"]}
        references = {part["bom-ref"] for part in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
        for row in bill["dependencies"]:
            assert {row["ref"], *row["dependsOn"]} <= references
        assert {row["ref"] for row in bill["dependencies"]} == references
        for part in bill["components"]:
            assert part["licenses"][0]["expression"] != "NOASSERTION"
            if "hashes" in part:
                assert part["hashes"][0]["content"] in locked
        # What is linked, and neither what runs at build time nor what only tests use.
        assert "rust-std" in parts and "libc" in parts
        assert not {"cbindgen", "cc", "proptest", "loom", "serde_derive", "syn"} & set(parts)
    assert {"backtrace", "serde_json", "cudasim-core"} <= set(parts)


def test_notices():
    """A licence that wants its text with the binary has it there."""
    text = run(sys.executable, TOOLS / "sbom.py", "--notices", "libcai").stdout
    assert re.search(r"^libloading [\d.]+: ISC$", text, re.M)
    assert re.search(r"^---- libloading [\d.]+, LICENSE ----\n\nCopyright", text, re.M)
    assert "cudarc" in text and "---- cudarc" not in text


@pytest.mark.parametrize("product, folder", [("libcai", ROOT), ("cuda-sim", ROOT / "cuda-sim")])
def test_notices_of_archives_and_wheels(product, folder):
    """The file that every archive and wheel carries has the notice of everything that is linked."""
    text = run(sys.executable, TOOLS / "sbom.py", "--notices", product).stdout
    _, *notices = re.split(r"^---- .* ----$", text, flags=re.M)
    carried = (folder / "LICENSE-THIRD-PARTY").read_text()
    assert notices and all(notice.strip() in carried for notice in notices)
