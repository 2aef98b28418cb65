"""Where the tests find the library: the release build of this tree (`make lib`)."""

import ctypes
import gc
import os
import pathlib
import sys

import pytest

from commands import ROOT, Built, libdir, run, sanitized_library
from parameter_ids import stable_id

assert (ROOT / "python/libcai/_abi.py").exists(), "run `make bindings` first"
# `libcai` is the package of this tree.
sys.path.insert(0, str(ROOT / "python"))


def pytest_make_parametrize_id(val):
    """Addresses differ between processes, and names of tests must not."""
    return stable_id(val) if type(val) in (int, tuple) and "ADDRESS" in stable_id(val) else None


# Files with few tests that take long. The processes of `make test` take whole files, in this order.
LONG = ["test_casters", "test_rust", "test_pages", "test_ages", "test_package", "test_wheel", "test_life", "test_cpp_ages",
        "test_headers", "test_docs", "test_hostile", "test_dist", "test_install"]  # fmt: skip


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="module", autouse=True)
def short_collections():
    """Many tests collect garbage before they count references. What exists before the first test of a file is none, and
    there is so much of it (pytest's items for all tests) that each collection took 50 ms: they leave it out from now on."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def library_path():
    path = pathlib.Path(os.environ.get("CAI_LIBRARY", ROOT / "target/release/libcai.so"))
    assert path.exists(), "run `make lib` first"
    return str(path)


@pytest.fixture(scope="session")
def cai(library_path):
    """The library through ctypes, with the structures of cai.h written by hand as a stranger would."""
    import cai_ctypes

    return cai_ctypes.declare(ctypes.CDLL(library_path))


@pytest.fixture(scope="session")
def driver():
    """A folder with the simulated libcuda.so, for the linker."""
    return libdir()


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Drivers that fail on demand, and programs that are compiled when a test wants them."""
    return Built(tmp_path_factory.mktemp("sync"))


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory):
    """The library with the sanitizer in it, as a shared object, and what a process needs to load it."""
    # Each testing process links its own copy, under the name that programs load: another may be using an older one.
    library = tmp_path_factory.mktemp("sanitized") / "libcai.so.1"
    run(ROOT / "abi/link.sh", sanitized_library(), library, "gcc", "-fsanitize=address")
    runtime = run("gcc", "-print-file-name=libasan.so").stdout.strip()
    return os.environ | {
        "CAI_LIBRARY": str(library),
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:max_free_fill_size=4096:free_fill_byte=221:detect_stack_use_after_return=1",
        "PYTHONMALLOC": "malloc",
        # Texts that hash alike in each run: the same seed makes the same objects.
        "PYTHONHASHSEED": "0",
    }
