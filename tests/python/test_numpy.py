"""The parsers and the layout functions held against NumPy, over thousands of generated cases.

NumPy's constructor takes more than the array-interface grammar (names, omitted byte orders, lists in one
text), and GPU libraries write types that NumPy does not have. DIFFERENCES lists all of it; a difference that
is not listed fails.
"""

import ctypes
import itertools
import pathlib
import random
import re

import ml_dtypes
import numpy as np
import pytest

import cai_ctypes as T

pytestmark = pytest.mark.filterwarnings("ignore:Data type alias:DeprecationWarning")

# How many reasons `explained` gives.
REASONS = 13
ROOT = pathlib.Path(__file__).resolve().parents[2]

UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]


def is_pinned(package):
    """Whether it is the version that `make test` installs. Not every Python has it."""
    wanted = f"{package.__name__}=={package.__version__}"
    return wanted in (ROOT / "tools/requirements.txt").read_text().split()


def numpy_dtype(text):
    try:
        found = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        return None
    # NumPy 2.0 takes sizes of 2^31 bytes and more, and has a negative one then.
    return found if found.itemsize >= 0 else None


def parse(cai, text):
    dtype = T.Dtype()
    status = cai.cai_dtype_parse(text.encode(), dtype, None)
    return dtype if status == 0 else None


def explained(text, ours, numpys):
    """Why we and NumPy differ on whether this is a type; None if there is no good reason."""
    if ours:
        if re.fullmatch(r"[<>|]t[1-9]\d*", text):
            return "bit fields are in the grammar, but NumPy does not implement them"
        if re.fullmatch(r"[<>|](f1|c4|[iu]16|f12|c24)", text):
            return "GPU libraries and other platforms have these; this NumPy does not"
        if re.fullmatch(r"[<>|][SUV]\d+", text):
            return "NumPy limits sizes to 2^31 - 1 bytes"
    else:
        if not re.match(r"[<>|]", text):
            return "the array interface demands a byte order; NumPy assumes one"
        if re.fullmatch(r"[<>|][a-zA-Z?]", text):
            return "the array interface demands a size; NumPy assumes one"
        if re.fullmatch(r"[<>|]a\d+", text):
            return "NumPy's old name for S"
        if re.search(r"[a-zA-Z]0\d", text) or re.search(r"\[0\d*", text):
            return "leading zeros and multiples of zero are never written"
        if re.fullmatch(r"[<>|]O\d+", text):
            return "NumPy takes any size for a Python object; it is that of a pointer"
        if "generic" in text or "/" in text or "μ" in text:
            return "NumPy's other spellings of units, which it does not write itself"
        if len(text) > 15:
            return "a typestr has at most 15 characters"
        if re.match(r"[<>|]\s*\d", text):
            return "a number before the kind repeats it: a sub-array, which only fields have"
        if re.search(r"\s", text):
            return "no typestr has blanks"
        if "," in text:
            return "a list of types in one text is no typestr"
    return None


def all_short_texts():
    orders = ["<", ">", "|", "=", "", "!"]
    kinds = list("tbiufcmMOSUVaeldqBgGFDhHIQLpPnN?x4[ ")
    sizes = ["", "0", "1", "2", "3", "4", "5", "6", "7", "8", "12", "16", "24", "32", "64", "128", "00", "08", "8 ", " 8"]
    yield from ("".join(parts) for parts in itertools.product(orders, kinds, sizes))
    counts = ["", "1", "2", "25", "07", "0", "-3", "99999999", "2147483647", "2147483648"]
    for order, kind, size, count, unit in itertools.product(
        "<>|", "mMi", ["8", "4"], counts, UNITS + ["", "B", "μs", "generic", "x", "S", "ms ", "D/2"]
    ):
        yield f"{order}{kind}{size}[{count}{unit}]"
    yield from ["<M8[s", "<M8s]", "<M8[s]x", "<M8[[s]]", "<i4,<i4", "<U2147483647", "<S2147483647", "|V4294967296"]
    yield from (f"{order}{kind}{size}" for order in "<>|" for kind in "SUV" for size in range(0, 300, 7))


def random_texts(count):
    source = random.Random(20180613)
    for _ in range(count):
        yield "".join(source.choices("<>|=tbiufcmMOSUV0123456789[]sDh ,x", k=source.randrange(0, 8)))


def test_typestrs(cai):
    agreed = taken = 0
    unexplained = []
    reasons = {}
    for text in set(all_short_texts()) | set(random_texts(20000)):
        ours, theirs = parse(cai, text), numpy_dtype(text)
        if (ours is None) != (theirs is None):
            why = explained(text, ours is not None, theirs is not None)
            if why is None:
                unexplained.append((text, theirs))
            reasons.setdefault(why, text)
            continue
        agreed += 1
        if ours is None:
            continue
        taken += 1
        # U, S and V have sizes; O has the pointer's; everything has the same bytes and meaning.
        assert ours.itemsize == theirs.itemsize, text
        assert ours.kind.decode() == theirs.kind, text
        assert bool(cai.cai_dtype_is_native(ours)) == (theirs.isnative or theirs.itemsize == 0 or theirs.kind in "SVO"), text
        if theirs.kind in "mM":
            unit, step = np.datetime_data(theirs)
            assert ours.unit == (0 if unit == "generic" else UNITS.index(unit) + 1), text
            assert ours.unit_count == step, text
        # What NumPy writes for it is a typestr that means the same to us.
        again = parse(cai, theirs.str)
        assert again is not None and cai.cai_dtype_equal(ours, again), text
    assert not unexplained, unexplained[:20]
    assert agreed > 10000 and taken > 400
    # Every listed difference was met: a stale one would hide new ones.
    # Other versions of NumPy have some of them.
    assert len(reasons) == REASONS or (not is_pinned(np) and len(reasons) < REASONS), reasons


SCALARS = ["|b1", "|i1", "<i2", ">i4", "<u8", "<f2", ">f8", "<c8", "|S3", "<U2", ">U5", "|V7", "<M8[25us]", ">m8[D]", "|O"]
NAMES = ["x", "y", "velocity", "it's", 'two "quotes"', "back\\slash", "ä", "日本", "tab\there", "a.b", "😀", "q\x7fz"]


def random_dtype(source, scalars, extents, depth=0):
    names = source.sample(NAMES, source.randrange(1, 6))
    fields = []
    for name in names:
        if depth < 3 and source.random() < 0.25:
            kind = random_dtype(source, scalars, extents, depth + 1)
        else:
            kind = source.choice(scalars)
        if source.random() < 0.15:
            name = ("title of " + name, name)
        if source.random() < 0.3:
            fields.append((name, kind, tuple(source.choices(extents, k=source.randrange(1, 4)))))
        else:
            fields.append((name, kind))
    # Packed and aligned ones; the aligned ones have padding rows. Object arrays cannot be padded by hand.
    return np.dtype(fields, align=source.random() < 0.5)


def to_struct(descr, keep):
    """A cai_descr as a C program would fill it."""
    rows = (T.Field * max(1, len(descr)))()
    for row, (name, kind, *shape) in zip(rows, descr):
        if isinstance(name, tuple):
            row.title, name = name[0].encode(), name[1]
        row.name = name.encode()
        if isinstance(kind, str):
            row.typestr = kind.encode()
        else:
            row.nested = ctypes.pointer(to_struct(kind, keep))
        if shape:
            extents = (ctypes.c_int64 * len(shape[0]))(*shape[0])
            row.shape, row.ndim = extents, len(shape[0])
            keep.append(extents)
    keep.append(rows)
    return T.Descr(ctypes.sizeof(T.Descr), ctypes.sizeof(T.Field), len(descr), rows)


def check_offsets(cai, struct, dtype):
    for name in dtype.names:
        field, offset = ctypes.POINTER(T.Field)(), ctypes.c_int64()
        assert cai.cai_descr_find(struct, name.encode(), field, offset, None) == 0
        inner, expected = dtype.fields[name][:2]
        assert offset.value == expected and field.contents.name.decode() == name
        if inner.base.names:
            check_offsets(cai, field.contents.nested, inner.base)


def test_descrs(cai):
    source = random.Random(4876)
    error = T.Error()
    padded = nested = 0
    for _ in range(4000):
        dtype = random_dtype(source, SCALARS, [1, 2, 3, 0])
        descr = dtype.descr
        keep = []
        struct = to_struct(descr, keep)
        size = ctypes.c_int64(-1)
        assert cai.cai_descr_itemsize(struct, size, error) == 0, (descr, error.message)
        assert size.value == dtype.itemsize, descr
        check_offsets(cai, struct, dtype)

        # The text that NumPy prints reads as the same fields, and what is written reads back in Python.
        parsed, owner = ctypes.POINTER(T.Descr)(), ctypes.c_void_p()
        assert cai.cai_descr_parse(repr(descr).encode(), parsed, owner, error) == 0, (descr, error.message)
        same = ctypes.c_bool()
        assert cai.cai_descr_equal(struct, parsed, same, error) == 0 and same.value, descr
        text = ctypes.create_string_buffer(1 << 16)
        assert cai.cai_descr_format(parsed, text, len(text), None, error) == 0
        assert eval(text.value.decode()) == descr
        cai.cai_owner_release(owner)

        # As the type of an array; one byte more or less is refused.
        if dtype.itemsize:
            array = T.new_array(
                data=4096, typestr=f"|V{dtype.itemsize}".encode(), descr=ctypes.pointer(struct), stream=T.STREAM_NONE
            )
            assert cai.cai_array_validate(array, T.CHECK_LAYOUT, error) == 0, (descr, error.message)
            assert (cai.cai_array_validate(array, T.CHECK_NATIVE, error) == 0) == all_native(dtype), descr
            array.typestr = f"|V{dtype.itemsize + 1}".encode()
            status = cai.cai_array_validate(array, T.CHECK_LAYOUT, error)
            assert cai.cai_status_name(status) == b"CAI_ERR_DESCR_SIZE"
        padded += any(name == "" for name, *_ in descr)
        nested += any(not isinstance(kind, str) for _, kind, *_ in descr)
    assert padded > 300 and nested > 300


def all_native(dtype):
    if dtype.subdtype:
        return all_native(dtype.base)
    if dtype.names:
        return all(all_native(dtype.fields[name][0]) for name in dtype.names)
    return dtype.isnative or dtype.kind in "SVO"


def random_view(source, types):
    """A random view of an array: sliced, reversed, transposed, broadcast, with extents of 0 and 1."""
    shape = tuple(source.choices([0, 1, 1, 2, 3, 4, 7], k=source.randrange(0, 6)))
    array = np.zeros(shape, source.choice(types), order=source.choice("CF"))
    for _ in range(source.randrange(0, 4)):
        move = source.randrange(4)
        if move == 0 and array.ndim:
            array = array[tuple(slice(None, None, source.choice([1, 2, -1, -3])) for _ in array.shape)]
        elif move == 1:
            array = array.transpose(source.sample(range(array.ndim), array.ndim))
        elif move == 2 and array.ndim < 6:
            array = np.broadcast_to(array, (source.choice([1, 2, 5]), *array.shape))
        elif array.ndim < 6:
            array = np.expand_dims(array, source.randrange(0, array.ndim + 1))
    return array


def to_array(array, keep):
    shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    strides = (ctypes.c_int64 * max(1, array.ndim))(*array.strides)
    keep += [shape, strides]
    return T.new_array(
        data=array.ctypes.data if array.size else None,
        shape=shape,
        strides=strides,
        ndim=array.ndim,
        typestr=array.dtype.str.encode(),
        stream=T.STREAM_NONE,
        flags=0 if array.flags.writeable else T.FLAG_READONLY,
    )


def test_layouts(cai):
    """Contiguity, spans, sizes and overlap of what NumPy makes, against what NumPy says of it."""
    source = random.Random(99)
    truth, layout = ctypes.c_bool(), T.Layout()
    error = T.Error()
    previous = None
    for _ in range(6000):
        array = random_view(source, ["|i1", "<f4", ">c16", "|V3", "<U2", "|b1", "<M8[s]"])
        keep = []
        ours = to_array(array, keep)
        assert cai.cai_array_validate(ours, T.CHECK_LAYOUT, error) == 0, error.message
        assert cai.cai_array_layout(ours, layout, None) == 0
        flags = array.flags.c_contiguous * T.LAYOUT_C_CONTIGUOUS | array.flags.f_contiguous * T.LAYOUT_F_CONTIGUOUS
        assert layout.flags == flags, (array.shape, array.strides)
        assert (layout.count, layout.nbytes) == (array.size, array.nbytes)
        if array.size:
            start, end = np.lib.array_utils.byte_bounds(array)
            address = array.ctypes.data
            assert (address + layout.lower, address + layout.upper) == (start, end)
        else:
            assert (layout.lower, layout.upper) == (0, 0)
        if previous is not None:
            other, theirs, _ = previous
            assert cai.cai_array_may_overlap(ours, theirs, truth, None) == 0
            assert truth.value == np.may_share_memory(array, other)
        previous = (array, ours, keep)


def test_opaque_types(cai):
    """Types that NumPy cannot name: what ml_dtypes writes for each is taken with its code, and with no other size."""
    header = (pathlib.Path(__file__).resolve().parents[2] / "include/cai/abi.h").read_text()
    codes = {name: int(code) for name, code in re.findall(r"#define CAI_DTYPE_(\w+) (\d+)", header)}
    met = 0
    for name, code in codes.items():
        if not hasattr(ml_dtypes, name.lower()):
            # Older versions do not have all of them.
            assert name in {"NONE", "FLOAT4_E2M1FN_X2"} or not is_pinned(ml_dtypes), name
            continue
        dtype = np.dtype(getattr(ml_dtypes, name.lower()))
        ours = T.new_array(data=4096, typestr=dtype.str.encode(), dtype_code=code, stream=T.STREAM_NONE)
        assert cai.cai_array_validate(ours, T.CHECK_LAYOUT, None) == 0, (name, dtype.str)
        ours.typestr = b"<V3"
        assert cai.cai_status_name(cai.cai_array_validate(ours, T.CHECK_LAYOUT, None)) == b"CAI_ERR_DTYPE_CODE"
        met += 1
    # And there is a code for every type of theirs.
    theirs = {name for name in dir(ml_dtypes) if re.fullmatch(r"b?float\d+\w*|u?int\d", name)}
    assert {name.lower() for name in codes} >= theirs, theirs - {name.lower() for name in codes}
    assert met == len(codes) - 2 or not is_pinned(ml_dtypes)
