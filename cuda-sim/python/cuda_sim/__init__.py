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
    from collections.abc import Generator, Iterable, Mapping
    from typing import Any, Literal, Protocol, SupportsInt, Union

    from cuda_sim.reports import Race

    class HasInterface(Protocol):
        """An array with the CUDA Array Interface."""

        @property
        def __cuda_array_interface__(self) -> Mapping[str, Any]: ...

    class HasStream(Protocol):
        def __cuda_stream__(self) -> tuple[int, int]: ...

    # An address and a number of bytes, or an array.
    Memory = Union[tuple[int, int], HasInterface]
    Stream = Union[SupportsInt, HasStream]

__all__ = [
    "command",
    "driver",
    "includedir",
    "kernel",
    "label",
    "libdir",
    "name_stream",
    "races",
    "take",
    "wait",
]
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
    """Names the operations of a block in reports. Does nothing on a driver that is not simulated."""
    from cuda_sim import _driver

    outer = getattr(_labels, "newest", None)
    driver = _driver.loaded()
    _labels.newest = text.encode()
    if driver:
        driver.label(_labels.newest)
    try:
        yield
    finally:
        _labels.newest = outer
        driver = _driver.loaded()
        if driver:
            driver.label(outer)


def _handle(stream: Stream) -> int:
    method = getattr(stream, "__cuda_stream__", None)
    return int(method()[1] if method is not None else stream)  # type: ignore[arg-type]


def name_stream(stream: Stream, text: str) -> None:
    """Names a stream in reports. `stream`: its handle, or an object with `__cuda_stream__`."""
    from cuda_sim import _driver

    driver = _driver.loaded()
    if driver:
        driver.name_stream(_handle(stream), text.encode())


def kernel(
    stream: Stream,
    reads: Iterable[Memory] = (),
    writes: Iterable[Memory] = (),
    name: str = "a kernel",
) -> None:
    """Enqueues a kernel that reads and writes these bytes, for the race checker.

    `stream` is a handle, or an object with `__cuda_stream__`. `reads` and `writes` have arrays with
    `__cuda_array_interface__`, or pairs of an address and a number of bytes; memory in both is read
    and then written. `name` is the name in reports. Bytes that are written become 0xff, because the
    result of the kernel is not known. Beside a real driver (`--shadow`) nothing is enqueued: call
    it next to the launch of a real kernel. Does nothing on a driver that is not simulated.

    Raises `RuntimeError` with the number of the driver's error, for example 400 for an invalid
    stream, and `ValueError` for an array that cannot be described. Thread-safe.
    """
    from cuda_sim import _driver

    driver = _driver.loaded()
    if driver:
        accesses = [_driver.access(memory, _driver.READ) for memory in reads]
        accesses += [_driver.access(memory, _driver.WRITE) for memory in writes]
        driver.kernel(_handle(stream), name.encode(), accesses)


def driver() -> Literal["simulated", "shadow", ""]:
    """Returns which driver this process has: the simulated one, or a real one with the checker beside it.

    The empty string: neither, so that nothing here has an effect.
    """
    from cuda_sim import _driver

    found = _driver.loaded()
    return "" if found is None else "simulated" if found.simulated() else "shadow"


def races() -> int:
    """Returns the number of races that were found and not taken. 0 without the checker."""
    from cuda_sim import _driver

    driver = _driver.loaded()
    return driver.races() if driver else 0


def take() -> list[Race]:
    """Returns the races found since the last call, and removes them from the reports.

    They do not count for the exit status, and a test in which they were found does not fail. Remarks
    are among them.
    """
    from cuda_sim import _driver

    driver = _driver.loaded()
    return driver.take() if driver else []


def wait(seconds: float = 10.0) -> bool:
    """Waits until all work on all streams is done, at most for a time.

    Returns False if work is left, or if the driver is a real one. What is done happens before
    everything that this thread does afterwards.
    """
    from cuda_sim import _driver

    driver = _driver.loaded()
    return driver is not None and driver.wait(seconds) == 0


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
