"""A simulated CUDA driver that runs anywhere, moves real bytes, and finds races between streams.

The package has the command `cuda-sim`, the libraries that it runs programs with, the header
`cudasim.h`, and a plug-in for pytest (`pytest --cuda-sim`).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import threading

TYPE_CHECKING = False  # without `typing`, whose import takes time
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import SupportsInt

__all__ = ["command", "includedir", "label", "libdir", "name_stream"]
__version__ = "0.9.0"

_PACKAGE = pathlib.Path(__file__).resolve().parent


def command() -> str:
    """Returns the path of the program `cuda-sim`."""
    # Installed; or of the source tree, where cargo puts it.
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or _PACKAGE.parents[1] / "target")
    places = [_PACKAGE / "bin/cuda-sim", target / "release/cuda-sim"]
    for path in places:
        if path.exists():
            return str(path)
    raise FileNotFoundError(
        f"cuda-sim is not installed: there is no {places[0]}; pip install ./cuda-sim"
    )


def libdir() -> str:
    """Returns the folder of the simulated libcuda.so.1, for LD_LIBRARY_PATH or a linker's -L."""
    installed = _PACKAGE / "lib/cuda-sim/driver"
    return str(
        installed if installed.exists() else pathlib.Path(command()).parent / "cuda-sim-driver"
    )


def includedir() -> str:
    """Returns the folder of cudasim.h."""
    installed = _PACKAGE / "include"
    return str(installed if installed.exists() else _PACKAGE.parents[1] / "include")


_labels = threading.local()


@contextlib.contextmanager
def label(text: str) -> Generator[None, None, None]:
    """Names the operations of a block in reports, with the place of the caller.

    Call stacks in reports have the functions of the interpreter, not those of Python. Does nothing
    on a driver that is not simulated.
    """
    from cuda_sim import _driver

    # Behind this function and the context manager's own.
    caller = sys._getframe(2)
    file = os.path.relpath(caller.f_code.co_filename)
    # A file elsewhere would be a long text in each report.
    file = os.path.basename(file) if file.startswith("..") else file
    place = f"{file}:{caller.f_lineno}"
    outer = getattr(_labels, "newest", None)
    driver = _driver.loaded()
    _labels.newest = f"{text} at {place}".encode()
    if driver:
        driver.label(_labels.newest)
    try:
        yield
    finally:
        _labels.newest = outer
        driver = _driver.loaded()
        if driver:
            driver.label(outer)


def name_stream(stream: SupportsInt, text: str) -> None:
    """Names a stream in reports. `stream`: its handle, a number."""
    from cuda_sim import _driver

    driver = _driver.loaded()
    if driver:
        driver.name_stream(int(stream), text.encode())


def _run(name: str) -> None:
    """Runs the program in place of this process."""
    try:
        path = command()
    except FileNotFoundError as error:
        sys.exit(f"{name}: {error}")
    os.execv(path, [name, *sys.argv[1:]])


# The commands `cuda-sim` and `cai-race` of the package.
def _cuda_sim() -> None:  # pyright: ignore[reportUnusedFunction]
    _run("cuda-sim")


def _cai_race() -> None:  # pyright: ignore[reportUnusedFunction]
    _run("cai-race")
