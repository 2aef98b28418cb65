"""Imports: masks, types, fields and numbers of a dictionary."""

import gc
import os
import subprocess
import sys
import weakref

import cai_python as P
import numpy as np
import pytest
from cai_python import ERRORS, Exporter, even, give, make, take
from commands import CUDA_SIM
from importing import (
    CAI,
    MISSING,
    Boom,
    Index,
    Property,
    exporter,
    interface,
    mask_of,
    refused,
)
from parameter_ids import stable_id
from producers import ADDRESS, STREAM
from test_import_protocols import Dlpack

# --- 13: masks


@pytest.mark.parametrize("typestr", ["|b1", "<b1", "|t1", "<t1", "|u1", "|i1", "<i4", "|t8"])
def test_mask(typestr):
    mask = mask_of(typestr=typestr, stream=STREAM)
    obj = exporter(mask=mask, stream=2)
    with even(obj, mask), take(obj, allow_mask=True) as taken:
        assert taken.stream == 2 and taken.mask.stream == STREAM
        assert (
            taken.mask.shape == (3, 4)
            and taken.mask.typestr == typestr
            and taken.mask.data == ADDRESS + 1024
        )


def test_masks_must_be_allowed():
    """Who does not ask for masks gets no array that has one, and the mask is not even looked at."""
    with take(exporter(mask=None)) as taken:
        assert taken.mask is None
    for mask in (mask_of(), mask_of(typestr="<f4"), 3, Property(Boom())):
        refused(exporter(mask=mask), BufferError, "['mask']", "CONVERT_MASK")
    masked = make((3, 4), mask=make((3, 4), "|b1"))
    obj = give(masked)
    for protocols in ([], [P.EXCHANGE], [P.CUDA_ARRAY_INTERFACE]):
        with even(obj):
            refused(obj, BufferError, "mask", "CONVERT_MASK", protocols=protocols)
            with take(obj, protocols=protocols, allow_mask=True) as taken:
                assert taken.mask.typestr == "|b1"
    masked.release()
    del obj
    gc.collect()
    assert masked.counted.gone == 1


def test_strict_masks_have_the_interface_of_the_array():
    """The specification wants an object with `__cuda_array_interface__`; a mask of another protocol is an extension."""
    bits = make((3, 4), "|b1")
    tensor = Dlpack(bits)
    host = numpy_like(mask=numpy_like(typestr="|b1"))
    with take(exporter(mask=tensor), allow_mask=True) as taken:
        assert taken.mask.typestr == "|b1"
    refused(
        exporter(mask=tensor), TypeError, "expected an object with __cuda_array_interface__, or None", "NO_PROTOCOL",
        allow_mask=True, strict=True,
    )  # fmt: skip
    for mask in (mask_of(), give(bits)):
        take(exporter(mask=mask), allow_mask=True, strict=True).release()
    take(host, allow_mask=True, strict=True, host=True).release()
    refused(
        numpy_like(mask=tensor), TypeError, "expected an object with __array_interface__, or None", "NO_PROTOCOL",
        allow_mask=True, strict=True, host=True,
    )  # fmt: skip
    bits.release()


def numpy_like(**changes):
    class Host:
        __array_interface__ = interface(**changes) | {"version": 3}

    return Host()


def test_mask_is_kept_alive():
    class Fresh(Exporter):
        """Only the array holds the mask that this object makes."""

        @property
        def __cuda_array_interface__(self):
            mask = mask_of()
            self.alive = weakref.ref(mask)
            return interface(mask=mask)

        def __init__(self):
            self.alive = None

    obj = Fresh()
    taken = take(obj, allow_mask=True)
    gc.collect()
    assert obj.alive() is not None
    # It can be kept by itself, longer than the array.
    mask = taken.mask.share()
    taken.release()
    gc.collect()
    assert obj.alive() is not None and mask.data == ADDRESS + 1024
    mask.release()
    gc.collect()
    assert obj.alive() is None


def test_masks_of_masks():
    innermost = mask_of(shape=(4,))
    middle = mask_of(mask=innermost, stream=2)
    obj = exporter(mask=middle)
    with even(obj, middle, innermost), take(obj, allow_mask=True) as taken:
        assert (
            taken.mask.mask.shape == (4,)
            and taken.mask.mask.mask is None
            and taken.mask.stream == 2
        )


def test_masks_that_go_on():
    chain = mask_of()
    for _ in range(7):
        chain = mask_of(mask=chain)
    take(exporter(mask=chain), allow_mask=True).release()
    chain = mask_of(mask=chain)
    refused(exporter(mask=chain), ValueError, "['mask']", "MASK_DEPTH", allow_mask=True)
    round_and_round = mask_of()
    round_and_round.__cuda_array_interface__["mask"] = round_and_round
    for obj in (exporter(mask=round_and_round), round_and_round):
        with pytest.raises(ValueError, match="mask"):
            take(obj, allow_mask=True)
        assert take.error.code in (ERRORS["MASK_DEPTH"], ERRORS["MASK_CYCLE"])
    del round_and_round.__cuda_array_interface__["mask"]

    class Endless:
        @property
        def __cuda_array_interface__(self):
            return interface(typestr="|b1", mask=Endless())

    with pytest.raises(ValueError, match="mask"):
        take(Endless(), allow_mask=True)


@pytest.mark.parametrize(
    "changes, kind, status",
    [(dict(typestr="<f4"), ValueError, "MASK_TYPE"), (dict(shape=(4, 3)), ValueError, "MASK_SHAPE"),
     (dict(shape=(2, 3, 4)), ValueError, "MASK_SHAPE"), (dict(shape=MISSING), KeyError, "KEY"),
     (dict(stream=0), ValueError, "STREAM_ZERO"), (dict(data=(0, False)), ValueError, "DATA_NULL"),
     (dict(typestr=7), TypeError, "TYPE"), (dict(shape=(3, -1)), ValueError, "SHAPE_NEGATIVE")],
)  # fmt: skip
def test_masks_that_are_none(changes, kind, status):
    mask = mask_of(**changes)
    with even(mask):
        refused(exporter(mask=mask), kind, "['mask']", status, allow_mask=True)


@pytest.mark.parametrize("mask", [3, "mask", object(), {}, True])
def test_masks_without_a_dictionary(mask):
    refused(exporter(mask=mask), TypeError, f"{CAI}['mask']", allow_mask=True)


def test_version_0_has_no_mask():
    refused(
        exporter(version=0, stream=MISSING, mask=mask_of()),
        ValueError,
        "mask",
        "MASK_VERSION",
        allow_mask=True,
    )


def test_a_mask_in_host_memory():
    """A kernel that reads the array could not read it, and no dictionary could carry it on."""
    given = exporter(mask=np.ones((3, 4), bool))
    words = refused(given, ValueError, f"{CAI}['mask'].device", "MASK_DEVICE", allow_mask=True, host=True)
    assert "host memory" in words and "CUDA" in words
    refused(given, BufferError, f"{CAI}['mask']", "HOST_MEMORY", allow_mask=True)
    # A mask of a mask, too.
    deep = exporter(mask=mask_of(mask=np.ones((3, 4), bool)))
    refused(deep, ValueError, f"['mask'].{CAI}['mask'].device", "MASK_DEVICE", allow_mask=True, host=True)

    class Masked:
        """An array in host memory, as its mask is."""

        def __init__(self, mask):
            self.array = np.zeros((3, 4), "f4")
            self.__array_interface__ = dict(self.array.__array_interface__, mask=mask)

    with take(Masked(np.ones((3, 4), bool)), allow_mask=True, host=True) as taken:
        assert taken.mask.device == (P.CPU, 0)


def test_the_driver_is_asked_about_masks():
    done = subprocess.run(
        [CUDA_SIM, "run", "--print=exit", "--devices=2", "--",
         sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/python/masks_inside.py"],
        cwd=P.ROOT, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": "tests/python"},
    )  # fmt: skip
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("typestr", ["<f4", "<f8", "<c8"])
def test_a_mask_of_floats(typestr):
    """The bits of -0.0 are not those of false: who wants floats compares them with 0 first."""
    words = refused(exporter(mask=mask_of(typestr=typestr)), ValueError, "['mask']", "MASK_TYPE", allow_mask=True)
    assert "mask != 0" in words


def test_a_mask_that_raises():
    error = Boom()
    with pytest.raises(Boom) as info:
        take(exporter(mask=Property(error)), allow_mask=True)
    assert info.value is error


def test_mask_of_bytes():
    """cuDF's masks are bytes of eight elements each, and call themselves bytes: test_producers.py. From others, as many
    bytes as elements are one flag each, and other numbers are refused."""
    with take(
        exporter(shape=(64,), mask=mask_of(typestr="|u1", shape=(64,))), allow_mask=True
    ) as taken:
        assert taken.mask.typestr == "|u1" and taken.mask.shape == (64,)
    given = exporter(shape=(100,), mask=mask_of(typestr="|u1", shape=(64,)))
    refused(given, ValueError, "['mask']", "MASK_SHAPE", allow_mask=True)
    with take(given, lenient=True, allow_mask=True) as taken:
        assert taken.mask.typestr == "|t1" and taken.mask.shape == (100,)
    # Exactly as many bits as elements.
    given = exporter(shape=(96,), mask=mask_of(typestr="|u1", shape=(12,)))
    with take(given, lenient=True, allow_mask=True) as taken:
        assert taken.mask.typestr == "|t1" and taken.mask.shape == (96,)
    given = exporter(shape=(100,), mask=mask_of(typestr="|u1", shape=(12,)))
    refused(given, ValueError, "['mask']", "MASK_SHAPE", lenient=True, allow_mask=True)


@pytest.mark.parametrize("stride", [0, 2, -1])
def test_masks_of_bytes_with_gaps_are_not_bits(stride):
    class Cudf(Exporter):
        __module__ = "cudf.core.buffer.buffer"

    def mask(count):
        return interface(typestr="|u1", shape=(count,), strides=(stride,))

    for kind, lenient in ((Cudf, False), (Exporter, True)):
        given = exporter(shape=(96,), mask=kind(mask(12)))
        refused(given, ValueError, "['mask']", "MASK_SHAPE", lenient=lenient, allow_mask=True)
    # As many bytes as elements are one flag each.
    with take(exporter(shape=(96,), mask=Cudf(mask(96))), allow_mask=True) as taken:
        assert (taken.mask.typestr, taken.mask.strides) == ("|u1", (stride,))


# --- 14, 15: types


@pytest.mark.parametrize(
    "typestr",
    [
        "<f4",
        ">f4",
        "|f4",
        "|i8",
        "|u2",
        "<u1",
        "<b1",
        "|b1",
        "<c8",
        "<M8[us]",
        "<V2",
        "|V3",
        "|S5",
        "<U2",
        "<t1",
        "<f1",
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_types(typestr, strict):
    with take(exporter(typestr=typestr), strict=strict) as taken:
        assert taken.typestr == typestr and taken.dtype_code == 0


@pytest.mark.parametrize(
    "typestr, meant",
    [("B", "|u1"), ("b", "|i1"), ("f", "<f4"), ("d", "<f8"), ("|i", "<i4"), ("?", "|b1")],
)
def test_types_without_order_or_size(typestr, meant):
    with take(exporter(typestr=typestr), typestr=meant) as taken:
        assert taken.typestr[1:] == meant[1:]
    refused(exporter(typestr=typestr), ValueError, f"{CAI}['typestr']", strict=True)


@pytest.mark.parametrize(
    "typestr",
    [
        "",
        "x",
        "<f",
        "<f3",
        "<",
        "<f4 ",
        " <f4",
        "<f4\0",
        "<f4\0\0",
        "f\0",
        "<f4,<f4",
        "float32x",
        "ä",
        "\ud800",
        "<" + "f4" * 20,
    ],
)
def test_types_that_do_not_exist(typestr):
    if typestr == "\ud800":
        with pytest.raises(ValueError):
            take(exporter(typestr=typestr))
    elif typestr != "<f":
        refused(exporter(typestr=typestr), ValueError, f"{CAI}['typestr']")


@pytest.mark.parametrize("typestr", [None, b"<f4", np.dtype("f4"), float, 4, ("<f4",)])
def test_no_text_of_a_type(typestr):
    refused(exporter(typestr=typestr), TypeError, f"{CAI}['typestr']", "TYPE")


def test_texts_of_other_classes():
    class Text(str):
        pass

    with take(exporter(typestr=Text("<f4"))) as taken:
        assert taken.typestr == "<f4"
    take(exporter(typestr=np.str_("<f4"))).release()
    given = {Text(key): value for key, value in interface(stream=STREAM).items()}
    with take(Exporter(given)) as taken:
        assert taken.stream == STREAM


def test_elements_without_bytes():
    for typestr in ("|V0", "|S0"):
        refused(exporter(typestr=typestr), ValueError, f"{CAI}['typestr']", "ITEMSIZE")


def test_foreign_byte_order():
    refused(exporter(typestr=">f4"), BufferError, "typestr", "CONVERT_BYTE_ORDER", native=True)
    for typestr in ("<f4", "|f4", "|u1", ">u1", "|V4"):
        take(exporter(typestr=typestr), native=True).release()
    fields = exporter(typestr="|V4", descr=[("a", ">i4")])
    refused(fields, BufferError, "", "CONVERT_BYTE_ORDER", native=True)


@pytest.mark.parametrize(
    "typestr, options, code",
    [("<V2", dict(opaque_16bit=P.BFLOAT16), P.BFLOAT16), ("|V2", dict(opaque_16bit=P.BFLOAT16), P.BFLOAT16),
     ("<V1", dict(opaque_8bit=P.FLOAT8_E4M3FN), P.FLOAT8_E4M3FN), ("<f1", dict(opaque_8bit=P.FLOAT8_E5M2), P.FLOAT8_E5M2),
     ("<V1", dict(opaque_16bit=P.BFLOAT16), 0), ("<V2", dict(opaque_8bit=P.FLOAT8_E5M2), 0), ("<V4", dict(opaque_16bit=P.BFLOAT16), 0),
     ("<f4", dict(opaque_8bit=P.FLOAT8_E5M2, opaque_16bit=P.BFLOAT16), 0), ("<u2", dict(opaque_16bit=P.BFLOAT16), 0),
     ("<f2", dict(opaque_16bit=P.BFLOAT16), 0), ("|u1", dict(opaque_8bit=P.FLOAT8_E4M3FN), 0)],
)  # fmt: skip
def test_opaque_types(typestr, options, code):
    with take(exporter(typestr=typestr), **options) as taken:
        assert taken.typestr == typestr and taken.dtype_code == code


def test_opaque_types_with_fields_are_not_opaque():
    given = exporter(typestr="|V2", descr=[("a", "|i1"), ("b", "|i1")])
    with take(given, opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == 0 and taken.descr
    # A row without a name says no more than the typestr: that is how CuPy writes bfloat16.
    with take(exporter(typestr="<V2", descr=[("", "<V2")]), opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == P.BFLOAT16 and taken.descr is None


@pytest.mark.parametrize(
    "typestr, options",
    [
        ("<V1", dict(opaque_8bit=P.BFLOAT16)),
        ("<V2", dict(opaque_16bit=P.FLOAT8_E5M2)),
        ("<V1", dict(opaque_8bit=9999)),
        ("<V2", dict(opaque_16bit=1)),
    ],
)
def test_codes_of_another_size(typestr, options):
    with pytest.raises(ValueError, match="options->"):
        take(exporter(typestr=typestr), **options)
    assert take.error.code in (ERRORS["ARGUMENT"], ERRORS["DTYPE_CODE"])


@pytest.mark.parametrize(
    "typestr, wanted, fits",
    [("<f4", "<f4", True), ("<f4", "|f4", True), ("|f4", "<f4", True), ("|u1", "<u1", True), ("f", "<f4", True),
     ("<f4", ">f4", False), ("<f4", "<f8", False), ("<f4", "<i4", False), ("<i8", "<u8", False), ("<M8[us]", "<M8[ns]", False),
     ("<M8[us]", "<M8[us]", True), ("<V2", "|V2", True)],
)  # fmt: skip
def test_the_type_that_is_demanded(typestr, wanted, fits):
    given = exporter(typestr=typestr)
    if fits:
        take(given, typestr=wanted).release()
    else:
        refused(given, BufferError, "typestr", "CONVERT_TYPE", typestr=wanted)


def test_the_code_that_is_demanded():
    given = exporter(typestr="<V2")
    with take(given, typestr="<V2", dtype_code=P.BFLOAT16, opaque_16bit=P.BFLOAT16) as taken:
        assert taken.dtype_code == P.BFLOAT16
    refused(given, BufferError, "", "CONVERT_TYPE", typestr="<V2", dtype_code=P.BFLOAT16)
    for wanted in ("nonsense", "f4", "<f3"):
        with pytest.raises(Exception):
            take(given, typestr=wanted)
        assert take.error.code in (ERRORS["ARGUMENT"], 241, 242, 243)


# --- 16: fields


def test_fields():
    kind = np.dtype(
        [("a", "i4"), ("b", "i1"), ("c", "f8", (2,)), (("title", "d"), "u2")], align=True
    )
    given = exporter(typestr=kind.str, descr=kind.descr)
    with take(given) as taken:
        assert np.dtype(eval(taken.descr)) == np.dtype(kind.descr)
        assert np.dtype(eval(taken.descr)).itemsize == kind.itemsize
    nested = np.dtype([("x", [("y", "<i4"), ("z", ">f8")]), ("w", "|S3")])
    with take(exporter(typestr=nested.str, descr=nested.descr)) as taken:
        assert np.dtype(eval(taken.descr)) == nested


@pytest.mark.parametrize("typestr", ["<f4", "<i8", "|u1"])
@pytest.mark.parametrize("descr", [[("", "<f4")], [("a", "|i1")], "nonsense", 3, []])
def test_fields_of_plain_types_are_ignored(typestr, descr):
    with take(exporter(typestr=typestr, descr=descr)) as taken:
        assert taken.descr is None


@pytest.mark.parametrize("typestr", ["|V8", "<V8"])
def test_padding(typestr):
    rows = [("a", "<i4"), ("b", "|i1"), ("", "|V3")]
    with take(exporter(typestr=typestr, descr=rows)) as taken:
        assert eval(taken.descr) == rows
    refused(exporter(typestr=typestr, descr=rows[:2]), ValueError, f"{CAI}['descr']", "DESCR_SIZE")
    refused(exporter(typestr=typestr, descr=rows * 2), ValueError, f"{CAI}['descr']")


@pytest.mark.parametrize("descr", [3, "text", {"a": "<i4"}, object()])
def test_no_fields(descr):
    refused(exporter(typestr="|V8", descr=descr), TypeError, f"{CAI}['descr']", "TYPE")


@pytest.mark.parametrize(
    "descr",
    [
        [3],
        [("a",)],
        [("a", "<i4", 2, 3)],
        [("a", "<i3")],
        [("a", 7)],
        [(7, "<i8")],
        [("a", "<i4"), ("a", "<i4")],
    ],
)
def test_malformed_fields(descr):
    with pytest.raises((TypeError, ValueError), match="descr"):
        take(exporter(typestr="|V8", descr=descr))


def test_fields_that_contain_themselves():
    rows = []
    rows.append(("a", rows))
    with pytest.raises(ValueError, match="descr"):
        take(exporter(typestr="|V8", descr=rows))
    deep = [("a", "<i8")]
    for _ in range(3000):
        deep = [("a", deep)]
    with pytest.raises((ValueError, RecursionError)):
        take(exporter(typestr="|V8", descr=deep))


def test_no_descr():
    with take(exporter(typestr="|V8", descr=None)) as taken:
        assert taken.descr is None
    with take(exporter(typestr="|V8")) as taken:
        assert taken.descr is None


# --- 18: numbers

NOT_NUMBERS = [True, False, 1.0, 1.5, "4", b"4", None, (4,), np.float64(4), 4j, object()]

NOT_NUMBERS += [] if hasattr(np.True_, "__index__") else [np.True_]  # older NumPys count with it

HUGE = [2**63, 2**64, 2**200, -(2**63) - 1, -(2**200)]


@pytest.mark.parametrize("found", NOT_NUMBERS, ids=stable_id)
@pytest.mark.parametrize("key", ["shape", "strides"])
def test_items_that_are_no_numbers(key, found):
    row = (3, found) if key == "shape" else (16, found)
    refused(exporter(**{key: row}), TypeError, f"{CAI}['{key}'][1]", "TYPE")


@pytest.mark.parametrize("found", HUGE, ids=stable_id)
@pytest.mark.parametrize("key", ["shape", "strides"])
def test_huge_items(key, found):
    refused(exporter(**{key: (found, 4)}), ValueError, f"{CAI}['{key}'][0]")


def test_a_negative_extent():
    text = refused(exporter(shape=(3, -1)), ValueError, status="SHAPE_NEGATIVE")
    assert text == f"{CAI}['shape'][1]: found -1, expected at least 0"


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64, Index])
def test_numbers_by_index(kind):
    with take(
        exporter(shape=(kind(3), 4), strides=(kind(64), 4), data=(np.uint64(ADDRESS), False))
    ) as taken:
        assert taken.shape == (3, 4) and taken.strides == (64, 4) and taken.data == ADDRESS


@pytest.mark.parametrize("where", ["shape", "strides", "data", "stream", "version"])
def test_a_number_that_raises(where):
    class Bad:
        def __index__(self):
            raise error

    error = Boom()
    given = dict(
        shape=(Bad(), 4), strides=(Bad(), 4), data=(Bad(), False), stream=Bad(), version=Bad()
    )[where]
    with pytest.raises(Boom) as info:
        take(exporter(**{where: given}))
    assert info.value is error


@pytest.mark.parametrize("found", [True, 1.5, "4096", b"x", (1,), object()], ids=stable_id)
def test_addresses_that_are_no_numbers(found):
    refused(exporter(data=(found, False)), TypeError, f"{CAI}['data'][0]", "TYPE")


@pytest.mark.parametrize("found", [-1, -ADDRESS, 2**64, 2**200])
def test_addresses_out_of_range(found):
    refused(exporter(data=(found, False)), ValueError, f"{CAI}['data'][0]")


@pytest.mark.parametrize("address", [1, 2**31, 2**32 + 1, 2**47, 2**63, 2**63 + 4096, 2**64 - 64])
def test_addresses(address):
    with take(exporter(data=(address, False))) as taken:
        assert taken.data == address


@pytest.mark.parametrize(
    "changes, key, status",
    [(dict(shape=(2**62, 4)), "shape", "SIZE_OVERFLOW"), (dict(shape=(2**32, 2**32)), "shape", "SIZE_OVERFLOW"),
     (dict(shape=(2**61,), typestr="<f8"), "shape", "SIZE_OVERFLOW"),
     (dict(shape=(3, 2), strides=(2**62, 4)), "strides", "SPAN_OVERFLOW"),
     (dict(shape=(4, 2), strides=(-(2**62), 4)), "strides", "SPAN_OVERFLOW"),
     (dict(shape=(2, 2), strides=(-(2**63), 4)), "data", "ADDRESS_RANGE"),
     (dict(data=(2**64 - 47, False)), "data", "ADDRESS_RANGE"),
     (dict(data=(8, False), shape=(4,), strides=(-4,)), "data", "ADDRESS_RANGE")],
)  # fmt: skip
def test_reach(changes, key, status):
    refused(exporter(**changes), ValueError, f"{CAI}['{key}']", status)


@pytest.mark.parametrize("ndim", [0, 1, 8, 63, 64])
def test_dimensions(ndim):
    with take(exporter(shape=(1,) * ndim, strides=(4,) * ndim), ndim=ndim) as taken:
        assert taken.ndim == ndim
    refused(exporter(shape=(1,) * ndim), BufferError, "shape", "CONVERT_NDIM", ndim=ndim + 1)


@pytest.mark.parametrize("ndim", [65, 1000])
def test_too_many_dimensions(ndim):
    refused(exporter(shape=(1,) * ndim), ValueError, f"{CAI}['shape']", "NDIM")
