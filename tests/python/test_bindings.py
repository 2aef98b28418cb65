"""The declarations for other languages, as shipped: each names what the headers name, and is
loaded."""

import ctypes
import gc
import importlib.util
import re
import sys

import abi_symbols
import cai_python as P
import numpy
import pytest
from cai_ctypes import abi as _abi
from commands import PYTHON, ROOT, block, compile, cython_module, run

INCLUDE = ROOT / "include"


def exported():
    return abi_symbols.NAMES


def test_all_know_every_function():
    assert set(_abi.FUNCTIONS) == exported()
    for names in (["cai.cdef"], ["cai.pxd", "unstable.pxd"]):
        text = "".join((INCLUDE / "cai" / name).read_text() for name in names)
        declared = set(re.findall(r"\b(cai_\w+)\(", text)) - set(re.findall(r"\b(cai_inline_\w+|cai_check)\b", text))
        assert declared == exported(), names


def test_ctypes_has_the_layouts_and_numbers_of_c(tmp_path):
    structures = [
        value for value in vars(_abi).values() if isinstance(value, type) and issubclass(value, ctypes.Structure)
    ]
    numbers = {name: value for name, value in vars(_abi).items() if name.startswith("CAI_")}
    assert len(structures) >= 14 and len(numbers) > 200
    lines = [f'printf("%llu\\n", (unsigned long long){name});' for name in numbers]
    for structure in structures:
        name = structure.__name__
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field, *_ in structure._fields_]
    unstable = [path.relative_to(INCLUDE) for path in sorted((INCLUDE / "cai/unstable").glob("*.h"))]
    includes = "".join(f"#include <{name}>\n" for name in ("cai/cai.h", "stdio.h", *unstable))
    source = tmp_path / "layouts.c"
    source.write_text(includes + "int main(void) {" + "\n".join(lines) + "}\n")
    found = run(compile(source, tmp_path / "layouts", library=None)).stdout.split()
    expected = list(numbers.values())
    for structure in structures:
        expected.append(ctypes.sizeof(structure))
        expected += [getattr(structure, field).offset for field, *_ in structure._fields_]
    assert [int(number) for number in found] == expected


def test_the_page_states_the_sizes():
    page = (ROOT / "docs/src/languages.md").read_text()
    stated = re.findall(r"`(cai_\w+)` \| (\d+) \|", page)
    assert len(stated) == 10
    assert {name: int(size) for name, size in stated} == {name: ctypes.sizeof(getattr(_abi, name)) for name, _ in stated}


def test_no_structure_is_passed_by_value():
    """To functions and callbacks: other languages could not, and the size depends on the version of the header."""
    structures = [kind for kind in vars(_abi).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)]
    callbacks = [kind for structure in structures for _, kind in structure._fields_ if hasattr(kind, "_argtypes_")]
    calls = [*_abi.FUNCTIONS.values(), *((kind._restype_, kind._argtypes_) for kind in (_abi.DESTROY, *callbacks))]
    assert len(callbacks) >= 4
    for result, parameters in calls:
        assert not {result, *parameters} & set(structures)


def test_ctypes_through_declare(library_path):
    library = _abi.declare(ctypes.PyDLL(library_path))
    array, error = _abi.init(library, _abi.cai_array), _abi.cai_error()
    assert library.cai_array_validate(array, _abi.CAI_CHECK_LAYOUT, error) != _abi.CAI_OK
    assert library.cai_status_name(error.code).startswith(b"CAI_ERR_")
    options = _abi.init(library, _abi.cai_import_options, flags=_abi.CAI_IMPORT_ALLOW_HOST)
    numbers = numpy.arange(12.0).reshape(3, 4)
    assert library.cai_array_from_python(numbers, options, array, error) == 0, error.message
    assert array.shape[:2] == [3, 4] and array.data == numbers.ctypes.data
    library.cai_array_release(array)


def test_the_library_knows_the_statuses_of_the_headers(library_path):
    """Names, and texts: the first paragraph of the comment."""
    library = _abi.declare(ctypes.CDLL(library_path), ["cai_status_name", "cai_status_message"])
    headers = "".join((INCLUDE / "cai" / name).read_text() for name in ("abi.h", "status.h"))
    found = re.findall(r"((?:///.*\n)+)#define (CAI_OK|CAI_ERR_\w+) (\d+)\n", headers)
    assert {name: int(number) for _, name, number in found} == {
        name: number for name, number in vars(_abi).items() if name == "CAI_OK" or name.startswith("CAI_ERR_")
    }
    for comment, name, number in found:
        assert library.cai_status_name(int(number)) == name.encode()
        text = " ".join(comment.partition("///\n")[0].replace("///", "").split())
        assert library.cai_status_message(int(number)) == text.encode(), name


def test_cffi_knows_the_numbers(library_path):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef((INCLUDE / "cai/cai.cdef").read_text())
    library = ffi.dlopen(library_path)
    for name, number in vars(_abi).items():
        if name.startswith("CAI_") and number < 2**31:
            assert getattr(library, name) == number, name
    for name in exported():
        assert getattr(library, name)
    for structure in (_abi.cai_array, _abi.cai_pointer_info, _abi.cai_import_options):
        assert ffi.sizeof(structure.__name__) == ctypes.sizeof(structure)


def cython(pyx, folder):
    """The module of a file in Cython."""
    name = pyx.stem
    module = cython_module(pyx, folder)
    spec = importlib.util.spec_from_file_location(name, module)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


needs_headers = pytest.mark.skipif(not (PYTHON / "Python.h").exists(), reason="Python's headers are not installed")


@needs_headers
def test_the_class_of_the_page(tmp_path):
    """A static type, whose objects come in through its exchange table: the arrays are those of the class, also where a
    derived class has a dictionary."""
    page = (ROOT / "docs/src/languages.md").read_text()
    pyx = tmp_path / "buffers.pyx"
    pyx.write_text(block(page, "# buffers.pyx")[0])
    Buffer = cython(pyx, tmp_path).Buffer
    with pytest.raises(TypeError, match="immutable type|can't set attributes"):
        Buffer.other = 1
    numbers = numpy.arange(12.0).reshape(3, 4)
    references = sys.getrefcount(numbers)
    made = Buffer(numbers)
    assert numpy.asarray(made).ctypes.data == numpy.from_dlpack(made).ctypes.data == numbers.ctypes.data

    class Derived(Buffer):
        __array_interface__ = property(lambda self: 1 / 0)

    for each in (made, Derived(numbers)):
        with P.take(each, host=True, protocols=[P.EXCHANGE]) as taken:
            assert taken.array.data == numbers.ctypes.data
    del made, each, taken
    gc.collect()
    assert sys.getrefcount(numbers) == references


@needs_headers
def test_cython(tmp_path):
    client = cython(ROOT / "tests/python/cython_client.pyx", tmp_path)
    assert client.once() == 1
    numbers = numpy.arange(12.0).reshape(3, 4)
    references = sys.getrefcount(numbers)
    there = client.exchange(numbers)
    assert there.__array_interface__["data"][0] == numbers.ctypes.data
    del there
    assert client.through_dlpack(numbers) == ([3, 4], b"C")
    gc.collect()
    assert sys.getrefcount(numbers) == references
