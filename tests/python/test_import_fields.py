"""Imports: `descr` is read from Python objects, used for kind V only, and checked in strict mode."""

import collections
import ctypes as c
import gc
import random
from ast import literal_eval

import cai_python as P
import numpy as np
import pytest
from cai_python import Exporter, give, make, take
from importing import Index, exporter, interface, refused
from test_numpy import random_dtype

Row = collections.namedtuple("Row", "name type")
RowWithShape = collections.namedtuple("RowWithShape", "name type shape")
TWO = [("x", "<f4"), ("y", "<i4")]

HOST = np.zeros(64, "u1")


def fields_of(typestr, descr, **options):
    with take(exporter(typestr=typestr, descr=descr), **options) as taken:
        return taken.descr


# --- the objects that NumPy reads back

KINDS = ["|i1", "<u2", ">i4", "<f8", "<c8", "|S3", "<U2", "<M8[ns]", "|b1", "|V5"]


def disguised(rng, descr):
    """The same fields in other objects."""

    def text(value):
        return np.str_(value) if rng.random() < 0.5 else value

    rows = []
    for name, kind, *shape in descr:
        name = tuple(map(text, name)) if isinstance(name, tuple) else text(name)
        kind = disguised(rng, kind) if isinstance(kind, list) else text(kind)
        shape = [tuple(rng.choice([int, np.int64, np.uint8, Index])(n) for n in s) for s in shape]
        row = (name, kind, *shape)
        if rng.random() < 0.3:
            row = (RowWithShape if shape else Row)(*row)
        elif rng.random() < 0.3:
            row = list(row)
        rows.append(row)
    return rows


@pytest.mark.parametrize("seed", range(60))
def test_random_types(seed):
    rng = random.Random(seed)
    kind = random_dtype(rng, KINDS, [1, 2, 3])
    for descr in (kind.descr, disguised(rng, kind.descr)):
        with take(exporter(typestr=kind.str, descr=descr)) as taken:
            assert literal_eval(taken.descr) == kind.descr
            again = give(taken)
            assert again.__cuda_array_interface__["descr"] == kind.descr
            assert np.dtype(again.__cuda_array_interface__["descr"]) == np.dtype(kind.descr)
    assert literal_eval(fields_of(kind.str, kind.descr, strict=True)) == kind.descr


class Rows(list):
    """Rows that are read one by one: a plain list of a few plain rows is read in one go."""


def read(descr, typestr):
    try:
        return True, fields_of(typestr, descr)
    except Exception as error:
        return False, repr(error)


@pytest.mark.parametrize("seed", range(20))
def test_plain_lists_are_read_as_any_other(seed):
    rng = random.Random(seed)
    names = ["x", "y", "x", "", "é", "a name that is longer", "a\0b", "\ud800"]
    types = ["<f4", ">i4", "|V4", "|S3", "<M8[25us]", "<V2", "f4", "|t8", "|q4", "", "<" + "1" * 40]
    shapes = [(), (), (2,), (2, 3), (1, 1, 1, 1, 1), 3, (0,), (-1,), (2**63,), (1 << 62, 4), True, None]
    taken = refused = 0
    for _ in range(100):
        count = rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 9])
        usual = rng.random() < 0.7
        descr = []
        for place in range(count):
            name = f"f{place}" if usual else rng.choice(names)
            kind = rng.choice(types[: 5 if usual else None])
            descr.append((name, kind, *rng.choices(shapes[: 4 if usual else None], k=rng.choice([0, 0, 1]))))
        try:
            size = np.dtype(descr).itemsize
        except Exception:
            size = 8
        typestr = f"|V{size or 8}"
        found = read(descr, typestr)
        assert found == read(Rows(descr), typestr), descr
        taken, refused = taken + found[0], refused + (not found[0])
    assert taken > 20 and refused > 10


def test_nothing_is_formatted():
    def refuse(*_):
        raise AssertionError("formatted")

    methods = {"__repr__": refuse, "__str__": refuse, "__iter__": refuse}
    text = type("Text", (str,), methods)
    row = type("Row", (tuple,), methods)
    rows = type("Rows", (list,), {"__repr__": refuse, "__str__": refuse})
    number = type("Number", (int,), methods)
    descr = rows([row((text("x"), text("<f4"), row((number(2),))))])
    assert fields_of("|V8", descr) == "[('x', '<f4', (2,))]"


@pytest.mark.parametrize("count", [1, 3, 4, 5, 40, 3000])
def test_many_fields(count):
    descr = [(f"field {n}" * 3, "|i1", (1, 1)) for n in range(count)]
    assert literal_eval(fields_of(f"|V{count}", descr)) == descr


# --- one rule for other kinds


@pytest.mark.parametrize("typestr", ["<f8", "<i8", ">c8", "|S8", "<U2", "<M8[s]", "|b1"])
def test_the_typestr_says_what_other_kinds_are(typestr):
    """Fields of other kinds are not used: going out, and for the byte order. Coming in: import_rows.py."""
    size = np.dtype(typestr).itemsize
    fields = [("a", ">i4"), ("b", ">i4")] if size == 8 else [("a", "|i1")]
    with make((3,), typestr, descr=repr(fields)) as array:
        assert "descr" not in give(array).__cuda_array_interface__
        status = P.held.cai_array_validate(c.byref(array.array), P.T.CHECK_NATIVE, None)
        assert (status == 0) == (typestr[0] != ">")
    with make((3,), typestr, HOST.ctypes.data, device=(P.CPU, 0), descr=repr(fields)) as array:
        assert "descr" not in give(array).__array_interface__
        assert np.asarray(give(array)).dtype == np.dtype(typestr)


def test_a_code_says_what_opaque_bytes_are():
    with make((3,), "<V2", dtype_code=P.BFLOAT16, descr="[('', '<V2')]") as array:
        assert "descr" not in give(array).__cuda_array_interface__


# --- hostile lists


def test_lists_that_contain_themselves():
    rows = []
    rows.append(("a", rows))
    refused(exporter(typestr="|V8", descr=rows), ValueError, "descr", "DESCR_DEPTH")
    pair = []
    pair += [("a", pair), ("b", pair)]
    refused(exporter(typestr="|V8", descr=pair), ValueError, "descr", "DESCR_DEPTH")
    name = []
    name += [name, name]
    refused(exporter(typestr="|V8", descr=[(name, "<f8")]), TypeError, "descr", "TYPE")
    shape = []
    shape.append(shape)
    refused(exporter(typestr="|V8", descr=[("x", "<f8", shape)]), TypeError, "descr", "TYPE")
    doubled = [("x", "<f4")]
    for level in range(14):
        doubled = [("a", doubled), ("b", doubled)]
    assert fields_of(f"|V{4 << 14}", doubled).count("<f4") == 1 << 14
    doubled = [("a", doubled), ("b", doubled)]
    refused(exporter(typestr="|V8", descr=[("n", doubled)]), ValueError, "descr", "DESCR_DEPTH")
    wide = [(f"f{n}", [(f"g{m}", "|V0") for m in range(300)]) for n in range(300)]
    refused(exporter(typestr="|V8", descr=wide), ValueError, "descr", "DESCR_COUNT")


def test_deep_lists():
    deep = [("x", "<f8")]
    for _ in range(15):
        deep = [("n", deep)]
    assert fields_of("|V8", deep).count("n") == 15
    for _ in range(100_000):
        deep = [("n", deep)]
    refused(exporter(typestr="|V8", descr=deep), ValueError, "descr", "DESCR_DEPTH")
    while deep:  # without recursion
        deep = deep[0][1] if isinstance(deep[0][1], list) else None


@pytest.mark.parametrize("where", ["extent", "shape", "length", "item"])
def test_lists_that_change_while_they_are_read(where):
    """Numbers and sequences may run code. Whatever it does to the lists, it ends in an answer."""

    class Number:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            act()
            return self.value

    class Shape(collections.abc.Sequence):
        def __len__(self):
            act() if where == "length" else None
            return 1

        def __getitem__(self, index):
            act() if where == "item" else None
            return 2

    changes = [
        lambda: rows.clear(),
        lambda: rows.append(("added", "<f4")),
        lambda: rows.insert(0, ("inserted", "<f4")),
        lambda: rows.__setitem__(slice(None), [("other", "<f8")]),
        lambda: given.clear(),
        lambda: [gc.collect(), rows.reverse(), given.pop("descr", None), gc.collect()],
    ]
    for change in changes:
        acts = []

        def act():
            if not acts:
                acts.append(1)
                change()

        shape = {"extent": (Number(2),), "shape": Number(2)}.get(where) or Shape()
        rows = [("x", "<f4", shape), ("y" * 1000, "|V8"), ("z" * 1000, "|V8")]
        given = interface(typestr="|V24", descr=rows)
        try:
            take(Exporter(given)).release()
        except (ValueError, TypeError):
            pass
        assert acts


def test_a_list_that_grows_for_ever():
    class Rows(list):
        def __len__(self):
            self.append((f"f{list.__len__(self)}", "|i1"))
            return list.__len__(self)

    class Number:
        def __index__(self):
            rows.append((f"f{len(rows)}", "|i1", Number()))
            return 1

    rows = [("x", "|i1", Number())]
    refused(exporter(typestr="|V8", descr=rows), ValueError, "descr", "DESCR_COUNT")
    try:
        take(exporter(typestr="|V8", descr=Rows([("x", "<f8")]))).release()
    except ValueError:
        pass
