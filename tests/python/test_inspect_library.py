"""`libcai.inspect` on hostile objects, beside the library itself, and from the shell."""

import ctypes
import ctypes.util
import json
import re
import shlex
import subprocess
import sys

import numpy
import pytest
from commands import block
from inspecting import LIBRARY, P, ROOT, Raises, cai, look, rules, shared

from libcai import _abi, _protocols


# --- hostile objects --------------------------------------------------------------------------------------


class Anything:
    """Has every attribute, and each of them is callable, empty and of no use."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *arguments, **keywords):
        return Anything()


class Explodes:
    def __getattribute__(self, name):
        raise ZeroDivisionError(name)


class Panics(BaseException):
    pass


class BadRepr(dict):
    def __repr__(self):
        raise RuntimeError("no words")


class BadItems(dict):
    def __getitem__(self, key):
        raise RuntimeError(key)


class Endless(tuple):
    def __len__(self):
        return 1 << 62


class BadIndex:
    def __index__(self):
        raise OverflowError("later")


class LyingClass:
    @property
    def __class__(self):
        raise RuntimeError("who am I")


class Meta(type):
    @property
    def __module__(cls):
        raise RuntimeError("nowhere")


HOSTILE = [
    Anything(),
    Explodes(),
    LyingClass(),
    Meta("Nowhere", (), {})(),
    Raises(Panics("a panic")),
    Raises(SystemExit(3)),
    shared(3),
    shared("text"),
    shared([("shape", (3,))]),
    shared(BadRepr(cai((3,), BadRepr(), (P, False), 3))),
    shared(BadItems(cai((3,), "<f4", (P, False), 3))),
    shared(cai(Endless((3,)), "<f4", (P, False), 3)),
    shared(cai((BadIndex(),), "<f4", (BadIndex(), BadIndex()), BadIndex(), stream=BadIndex())),
    shared(cai((3,), "<f4" * 10000, (P, False), 3)),
    shared(cai((3,), "<f99999999999999999999", (P, False), 3)),
    shared(cai((10**5000,), "<f4", (10**5000, False), 10**5000)),
    shared({3: 4, None: 5, **cai((3,), "<f4", (P, False), 3, stream=0)}),
    shared(cai((3,), "|V8", (P, False), 3, descr=[("a",)], mask=Explodes())),
    shared(cai((3,), "\033[2J\n\ud800", (P, False), 3, descr=[("a", "<f4", 10**5000)])),
    Raises(ValueError("\033[2J" * 100000)),
    type("\033[2J\n", (), {})(),
    type("Class", (), {}),
    None,
    ...,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_objects(number):  # by number: pytest looks into what it is given
    found = look(HOSTILE[number])
    assert any(finding.severity == "error" for finding in found.findings)


def test_nothing_is_kept():
    class Watched(Raises):
        gone = False

        def __del__(self):
            Watched.gone = True

    found = look(Watched(RuntimeError("kept in its traceback")))
    assert Watched.gone and found.findings


# --- the library itself -----------------------------------------------------------------------------------


def test_protocols_have_the_numbers_of_the_header():
    numbers = [number for name, number in vars(_abi).items() if "_PROTOCOL_" in name]
    assert sorted(number for _, number in _protocols.NAMES) == sorted(numbers)


def test_the_library_is_asked(library_path):
    found = look(numpy.zeros((3, 4), "<f4"), library_path)
    assert found.library == library_path
    for protocol in found.protocols:
        result = protocol.library
        assert result.status.startswith("CAI_")
        if result.status == "CAI_OK":
            assert (result.array.shape, result.array.typestr) == ((3, 4), "<f4")
            assert result.array.pointer == protocol.array.pointer
        else:
            assert result.message
    # A producer's exception stays in the table.
    look(Raises(RuntimeError("no")), library_path)
    for obj in HOSTILE:
        look(obj, library_path)


def test_what_the_object_declines_is_no_refusal(library_path):
    class OnTheHost(Raises):
        """As PyTorch's tensors in host memory: NumPy's interface, and a property that says no."""

        @property
        def __array_interface__(self):
            return numpy.zeros(3).__array_interface__

    found = look(OnTheHost(AttributeError("not CUDA")), library_path)
    assert found["__cuda_array_interface__"].state == "declined"
    assert "__cuda_array_interface__ declined: " in str(found) and "library: takes all that is offered" in str(found)
    assert "library: has nothing to take" in str(look(Raises(AttributeError("not CUDA")), library_path))
    # But what is offered, and cannot be taken, is.
    assert "library: refuses" in str(look(Raises(RuntimeError("no")), library_path))


def test_without_a_library(tmp_path):
    for path in (str(tmp_path / "none.so"), ctypes.util.find_library("m")):
        found = look(numpy.zeros(3), path)
        assert found["__dlpack__"].state == "offered" and found["__dlpack__"].library is None
        assert "library: not asked: " in str(found) and rules(found) == {"no-library"}
    found = look(numpy.zeros(3), False)
    assert "library: not asked\n" in str(found) and "offered: __dlpack__, " in str(found) and rules(found) == set()


# --- the shell --------------------------------------------------------------------------------------------


def shell(*arguments, **more):
    command = [sys.executable, "-m", "libcai", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "python")}, **more)


def test_the_command():
    done = shell("inspect", "--library", LIBRARY, "numpy:zeros((2, 3))")
    assert done.returncode == 0 and "numpy.ndarray" in done.stdout and "(24, 8)" in done.stdout
    assert shell("inspect", "--no-library", "numpy:zeros(3)").returncode == 0
    done = shell("inspect", "numpy:zeros(3)", "--json")
    assert json.loads(done.stdout)["type"] == "numpy.ndarray"
    assert shell("inspect", "builtins:3").returncode == 1
    for wrong in ("numpy", "numpy:", ":3", "no_such_module:3", "numpy:1/0", "numpy:("):
        done = shell("inspect", wrong)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "EVALUATED" in shell("inspect", "--help").stdout
    done = shell("inspct", "numpy:zeros(3)")
    assert done.returncode == 2 and "there is no command 'inspct'; did you mean 'inspect'?" in done.stderr


@pytest.mark.parametrize(
    "expression, name",
    [
        ("numpy:ma.array([1, 2], mask=[0, 1])", "numpy.ma.MaskedArray"),  # NumPy imports `ma` when it is asked for
        ("xml:etree.ElementTree.Element('a')", "xml.etree.ElementTree.Element"),  # two submodules
        ("os:numpy.zeros(3)", "numpy.ndarray"),
        ("numpy:[zeros(json) for json in (1, 2)]", "builtins.list"),
        ("numpy:(lambda size: zeros(size))(len('abc'))", "numpy.ndarray"),
        ("numpy: zeros(3)", "numpy.ndarray"),
    ],
)
def test_what_an_expression_may_name(expression, name):
    done = shell("inspect", "--no-library", "--json", expression)
    assert json.loads(done.stdout)["type"] == name, done.stderr


def test_a_wrong_name_imports_nothing(tmp_path):
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')")
    done = shell("inspect", "--no-library", "numpy:(lambda mine: zeros(mine))(3)", cwd=tmp_path)
    assert "numpy.ndarray" in done.stdout, done.stderr
    done = shell("inspect", "numpy:zeross(3)")
    assert done.returncode == 2 and "NameError: name 'zeross' is not defined" in done.stderr


def test_a_module_of_the_current_folder(tmp_path):
    (tmp_path / "mine.py").write_text("class A:\n    __cuda_array_interface__ = {'shape': (3,), 'typestr': '<f4',\n"
                                      "        'data': (4096, False), 'version': 3, 'stream': 0}\n\na = A()\n")  # fmt: skip
    done = shell("inspect", "--library", LIBRARY, "mine:a", cwd=tmp_path)
    assert done.returncode == 1 and "[CAI_ERR_STREAM_ZERO]" in done.stdout


def test_the_page_of_the_book(tmp_path):
    """The output that the page shows of its class is there, to the letter."""
    program, rest = block((ROOT / "docs/src/python.md").read_text(), "# frames.py")
    command, output = re.search(r"```sh\npython3 -m libcai (.*?) \|\| .*?```text\n(.*?)exit status 1\n```", rest, re.S).groups()
    (tmp_path / "frames.py").write_text(program)
    done = shell(*shlex.split(command), "--library", LIBRARY, cwd=tmp_path)
    assert output in done.stdout and done.returncode == 1
