"""Where the parts of the package lie: in its own folder, wherever that is installed."""

from __future__ import annotations

import os
import pathlib

TYPE_CHECKING = False  # without `typing`, whose import takes time
if TYPE_CHECKING:
    import ctypes

# The library that programs load, and the file beside the static library that the linker looks for.
_LOADED, _LINKED = ("bin/cai.dll", "lib/libcai.dll.a") if os.name == "nt" else ("lib/libcai.so.*", "lib/libcai.so")


def _find(pattern: str) -> pathlib.Path:
    # In an editable install the package has two folders: that of these sources, and that of what was built.
    from libcai import __path__ as places

    for place in places:
        for found in pathlib.Path(place).glob(pattern):
            return found
    raise FileNotFoundError(
        f"{pattern} is not in {' or '.join(places)}: libcai was imported from its sources, and is not installed"
    )


def includedir() -> str:
    """The folder for the compiler: it holds `cai/cai.h`."""
    return str(_find("include/cai/cai.h").parents[1])


def libdir() -> str:
    """The folder for the linker: it holds the shared and the static library."""
    return str(_find(_LINKED).parent)


def cmakedir() -> str:
    """What `cai_DIR` must say, so that `find_package(cai)` finds this package."""
    return str(_find("lib/cmake/cai/caiConfig.cmake").parent)


def pkgconfigdir() -> str:
    """What `PKG_CONFIG_PATH` must hold, so that `pkg-config cai` finds this package."""
    return str(_find("lib/pkgconfig/cai.pc").parent)


def library() -> str:
    """The file of the shared library, for `dlopen`."""
    # On Linux its name is the SONAME. `libcai.so` beside it is for the linker.
    return str(_find(_LOADED))


def load() -> ctypes.CDLL:
    """The shared library through ctypes.

    Functions that take Python objects need the interpreter's lock: `ctypes.PyDLL(libcai.library())` for those.
    """
    import ctypes

    return ctypes.CDLL(library())
