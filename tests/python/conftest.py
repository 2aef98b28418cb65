"""Where the tests find the library: the release build of this tree (`make lib`)."""

import ctypes
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def library_path():
    path = ROOT / "target/release/libcai.so"
    assert path.exists(), "run `make lib` first"
    return str(path)


@pytest.fixture(scope="session")
def cai(library_path):
    """The library through ctypes, with the structures of cai.h written by hand as a stranger would."""
    import cai_ctypes

    return cai_ctypes.declare(ctypes.CDLL(library_path))
