"""The build backend of the package `cuda-sim` (PEP 517).

Calls make for the command and the libraries.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent
NAME = "cuda_sim"

METADATA = """\
Metadata-Version: 2.4
Name: cuda-sim
Version: {version}
Summary: A simulated CUDA driver that runs anywhere, moves real bytes, and finds races
License-Expression: MIT OR Apache-2.0
Keywords: cuda,gpu,simulator,race-detector,testing,pytest
Classifier: Framework :: Pytest
Classifier: Intended Audience :: Developers
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Classifier: Topic :: Software Development :: Testing
Requires-Python: >=3.9
Provides-Extra: pytest
Requires-Dist: pytest>=8; extra == "pytest"
Description-Content-Type: text/markdown

"""
ENTRY_POINTS = """\
[console_scripts]
cuda-sim = cuda_sim:_cuda_sim
cai-race = cuda_sim:_cai_race

[pytest11]
cuda_sim = cuda_sim.pytest_plugin
"""


class Lacking(SystemExit):
    """What is lacking, without a traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(f"cuda-sim: {text}")


def workspace(key: str) -> str:
    text = (SOURCE / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(rf'^{key} = "([\d.]+)"', text, re.M)
    assert found
    return found[1]


def version() -> str:
    return workspace("version")


def run(*command: object, cwd: pathlib.Path = SOURCE) -> None:
    # Variables of a make that called pip would be taken for this one's.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment)
    if done.returncode:
        raise Lacking(f"{' '.join(str(word) for word in command)} failed: see above")


def build() -> dict[str, pathlib.Path | bytes]:
    """Builds everything. Returns the files of the wheel: their names in it, and their paths."""
    if not sys.platform.startswith("linux"):
        raise Lacking("it simulates the driver of Linux, and this is another system")
    for program, what in {
        "cargo": f"Rust {workspace('rust-version')} or newer",
        "make": "GNU make",
        os.environ.get("CC", "gcc"): "a C compiler",
    }.items():
        if shutil.which(program) is None:
            raise Lacking(f"it is built from source, and {program} is not in the PATH: {what}")
    run("make", "-s", "sim", "QUIET=--locked")
    target = SOURCE / (os.environ.get("CARGO_TARGET_DIR") or "target")
    built = target.resolve() / "release"
    libraries = "cuda_sim/lib/cuda-sim"
    files: dict[str, pathlib.Path | bytes] = {
        "cuda_sim/bin/cuda-sim": built / "cuda-sim",
        f"{libraries}/libcudasim_threads.so": built / "libcudasim_threads.so",
        f"{libraries}/libcudasim_redirect.so": built / "libcudasim_redirect.so",
        f"{libraries}/driver/libcuda.so.1": built / "libcuda.so",
        f"{libraries}/driver/libcudasim_host.a": built / "libcudasim_host.a",
        f"{libraries}/shadow/libcuda.so.1": built / "libcudasim_shadow.so",
        # Wheels have no links: linkers read this instead.
        f"{libraries}/driver/libcuda.so": b"INPUT(libcuda.so.1)\n",
        "cuda_sim/include/cudasim.h": SOURCE / "include/cudasim.h",
        "cuda_sim/include/cudasim_mpi.c": SOURCE / "include/cudasim_mpi.c",
    }
    for major in ("12", "13"):
        files[f"{libraries}/runtime/libcudart.so.{major}"] = built / f"runtime/libcudart.so.{major}"
    for path in sorted([*(HERE / NAME).glob("*.py"), HERE / NAME / "py.typed"]):
        files[f"{NAME}/{path.name}"] = path
    return files


def metadata() -> str:
    text = METADATA.format(version=version())
    return text + (SOURCE / "README.md").read_text(encoding="utf-8")


def about() -> tuple[str, dict[str, str]]:
    """Returns the files of the folder `.dist-info`, but for the list of files."""
    tag = f"py3-none-linux_{platform.machine()}"
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME}_build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    found = {"METADATA": metadata(), "WHEEL": wheel, "entry_points.txt": ENTRY_POINTS}
    for path in sorted(SOURCE.glob("LICENSE-*")):
        found[f"licenses/{path.name}"] = path.read_text(encoding="utf-8")
    return tag, found


def write_wheel(folder: str, files: dict[str, pathlib.Path | bytes]) -> str:
    """Writes a wheel of files, which are paths or bytes."""
    tag, texts = about()
    info = f"{NAME}-{version()}.dist-info"
    files = {**files, **{f"{info}/{name}": text.encode() for name, text in texts.items()}}
    record = io.StringIO()
    name = f"{NAME}-{version()}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(path: str, data: bytes, mode: int) -> None:
            # The same sources give the same file.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)

        for path, source in files.items():
            data = source if isinstance(source, bytes) else source.read_bytes()
            program = any(part in path for part in ("/bin/", ".so.", "/libcudasim_"))
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.write(f"{path},sha256={digest},{len(data)}\n")
            add(path, data, 0o755 if program else 0o644)
        record.write(f"{info}/RECORD,,\n")
        add(f"{info}/RECORD", record.getvalue().encode(), 0o644)
    return name


# --- the hooks of PEP 517 ---


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    info = f"{NAME}-{version()}.dist-info"
    for name, text in about()[1].items():
        path = pathlib.Path(metadata_directory) / info / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return info


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None
) -> str:
    return write_wheel(wheel_directory, build())


def build_editable(
    wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None
) -> str:
    """The Python files of these sources, with the command that cargo built beside them."""
    build()
    return write_wheel(wheel_directory, {f"{NAME}.pth": f"{HERE}\n".encode()})


# What is not a source.
LEFT_OUT = re.compile(r"(^|/)(__pycache__|build|dist|target|\.git)(/|$)|\.(pyc|o|so)$")


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    base = f"{NAME}-{version()}"
    files = sorted(path for path in SOURCE.rglob("*") if path.is_file())
    files = [path for path in files if not LEFT_OUT.search(str(path.relative_to(SOURCE)))]
    with tarfile.open(pathlib.Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as archive:
        for path in files:
            archive.add(path, f"{base}/{path.relative_to(SOURCE)}", recursive=False)
        entry, text = tarfile.TarInfo(f"{base}/PKG-INFO"), metadata().encode()
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return f"{base}.tar.gz"
