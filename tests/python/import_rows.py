"""The rules of an import as a table: the entries of a dictionary, and what comes of them in each mode.

Each row runs through every way of import_ways.py in which it makes sense: as a dictionary, one of a derived class,
another mapping, a dictionary without its object, a mask, NumPy's dictionary, SYCL's, the buffer interface, and, if its
values are plain integers, the structures of C. hostile.py takes its values from here as well. `Row` explains the
columns; a new rule is a line in this table.
"""

import collections
import types

import cai_python as P
from import_ways import QUEUE, Derived, Mask, Row, capsule
from importing import ADDRESS, MISSING, Boom, Index, Raises
from producers import STREAM, DelayedPointerTuple, StfCai

try:
    import numpy as np
except ImportError:
    np = None

UNKNOWN, LEGACY = P.STREAM_UNKNOWN, P.STREAM_LEGACY


class Sequence(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class OnlyItems:
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]


class ChainMap(collections.ChainMap):
    def __init__(self, entries):
        super().__init__({}, entries)


class Stf(StfCai):
    def __init__(self, entries):
        super().__init__(**entries)


class Text(str):
    pass


class Int(int):
    pass


class Undecided:
    """Neither true nor false."""

    def __bool__(self):
        raise BOOM


class RaisesItem(Sequence):
    def __getitem__(self, i):
        raise BOOM


class Wrong(Sequence):
    """A sequence of another length than it says."""

    def __init__(self, length, *items):
        super().__init__(*items)
        self.length, self.text = length, f" {length}"

    def __len__(self):
        return self.length


def keys_of_another_class(entries):
    return {Text(key): value for key, value in entries.items()}


def keys_made_at_run_time(entries):
    """Texts that are equal, and others than the interned ones."""
    return {"".join(list(key)): value for key, value in entries.items()}


Point = collections.namedtuple("Point", "a b")
BOOM = Boom()
WHOLE = [Derived, collections.OrderedDict]  # mappings that strict mode takes
MAPPINGS = [collections.UserDict, types.MappingProxyType, OnlyItems, ChainMap, Stf]  # and those that it does not take
ROWS_OF = [lambda row: Sequence(*row), collections.deque, list]
INTEGERS = [Index]
BOOLEANS = [(1, True), (0, False)]
NOT_INTEGERS = [True, False, 1.0, 1.5, "4", b"4", None, (4,), 4j, object()]
EMPTY = [(0,), (0, 4), (3, 0), (0, 0), (2, 0, 2**62)]
BFLOAT16 = dict(typestr="<V2", dtype_code=P.BFLOAT16)
BYTES = [("a", "|i1"), ("b", "|i1")]
OTHERS = "cuda host buffer"  # all but SYCL's, whose strict mode refuses other types, and whose strides count elements
NOT_ROWS = [3, "34", b"34", {3: 1, 4: 1}, {3, 4}, object(), 1.5, iter((3, 4))]
HUGE = [2**63, 2**64, 2**200, -(2**63) - 1, -(2**200)]
NOT_TEXTS = [None, b"<f4", float, 4, ("<f4",)]
if np:
    ROWS_OF.append(np.array)
    INTEGERS += [np.int8, np.uint16, np.int64, np.uint64]
    BOOLEANS += [(np.True_, True), (np.False_, False)]
    NOT_INTEGERS += [np.float64(4)]
    NOT_INTEGERS += [] if hasattr(np.True_, "__index__") else [np.True_]  # older NumPys count with it
    NOT_TEXTS += [np.dtype("f4")]


def integers(value):
    """A number in the objects that may hold it: small types hold small ones only."""
    signed = [kind for kind in INTEGERS if value >= 0 or not kind.__name__.startswith("uint")]
    return [kind(value) for kind in signed if kind is Index or value < 100 or kind.__name__ in ("int64", "uint64")]


DICTIONARIES = [
    Row({}, {}),
    *[Row({"": kind}, {}) for kind in WHOLE],
    *[Row({"": kind}, {}, strict="TYPE") for kind in MAPPINGS],
    *[
        Row({"": found}, "TYPE", only="cuda host sycl", says="a dictionary")
        for found in (None, 3, "shape", b"shape", [("shape", (3,))], ("shape",), {"shape"}, object(), len)
    ],
    Row({"": Raises(BOOM)}, BOOM, strict="TYPE"),
    Row(dict(shape=MISSING), "KEY"),
    Row(dict(typestr=MISSING), "KEY"),
    Row(dict(data=MISSING), "KEY"),
    # What else is in it.
    Row({"pitch": object(), 7: 8, None: None, ("a",): 1, "Shape": (9,), "event": 3}, {}, only="cuda host sycl"),
    Row(dict(strides=None, descr=None, mask=None), {}, strict="TYPE ['descr']", only="cuda host"),
    Row(dict(strides=None, mask=None, stream=None), {}),
    Row({"": keys_of_another_class}, {}),
    Row({"": keys_made_at_run_time}, {}),
]

SHAPES = [
    *[Row(dict(shape=kind((3, 4)), strides=kind((16, 4))), dict(strides=(16, 4)), strict="TYPE") for kind in ROWS_OF],
    Row(dict(shape=Point(3, 4), strides=Point(16, 4)), dict(strides=(16, 4))),
    Row(dict(shape=[3, 4]), {}, strict="TYPE"),
    Row(dict(strides=[16, 4]), dict(strides=(16, 4)), strict="TYPE"),
    *[Row({key: found}, "TYPE") for key in ("shape", "strides") for found in NOT_ROWS],
    Row(dict(shape=None), "TYPE"),
    Row(dict(shape=Wrong(5, 3, 4)), IndexError, strict="TYPE"),
    Row(dict(shape=Wrong(-1, 3, 4)), ValueError, strict="TYPE"),
    Row(dict(shape=Raises(BOOM)), BOOM, strict="TYPE"),
    Row(dict(strides=Raises(BOOM)), BOOM, strict="TYPE"),
    *[Row(dict(shape=(3, found)), "TYPE [1]") for found in NOT_INTEGERS],
    *[Row(dict(strides=(16, found)), "TYPE [1]") for found in NOT_INTEGERS],
    *[Row(dict(shape=(found, 4)), "VALUE [0]") for found in HUGE],
    *[Row(dict(strides=(found, 4)), "VALUE [0]") for found in HUGE],
    Row(dict(shape=(3, -1)), "SHAPE_NEGATIVE [1]", says="[1]: found -1, expected at least 0"),
    *[Row(dict(shape=(three, 4)), {}, strict="TYPE [0]") for three in integers(3)],
    *[Row(dict(strides=(stride, 4)), dict(strides=(64, 4)), strict="TYPE [0]") for stride in integers(64)],
    Row(dict(shape=(Int(3), 4), strides=(Int(64), 4)), dict(strides=(64, 4))),
    Row(dict(shape=(Index(BOOM), 4)), "TYPE [0]"),
    Row(dict(shape=(Raises(BOOM), 4)), BOOM, strict="TYPE [0]"),
    Row(dict(strides=(Raises(BOOM), 4)), BOOM, strict="TYPE [0]"),
    *[Row(dict(shape=(1,) * ndim, strides=(4,) * ndim), {}) for ndim in (1, 8, 63, 64)],
    Row(dict(shape=(1,) * 65), "NDIM"),
    Row(dict(shape=(1,) * 1000), "NDIM"),
    Row(dict(strides=None), dict(contiguous=True)),
    Row(dict(strides=MISSING), dict(contiguous=True)),
    *[Row(dict(strides=found), "VALUE") for found in ((), (4,), (64, 16, 4))],
    Row(dict(shape=(), strides=(4,)), "VALUE ['strides']"),
    Row(dict(shape=(), strides=()), dict(strides=None, contiguous=True)),
    Row(dict(shape=()), dict(contiguous=True)),
    # What the strides make of the array.
    *[
        Row(dict(shape=shape, strides=strides, data=(ADDRESS + 4096, False)), dict(contiguous=dense))
        for shape, strides, dense in [
            ((3, 4), (16, 4), True), ((3, 4), (4, 12), False), ((3, 4), (32, 4), False), ((3, 4), (0, 4), False),
            ((3, 4), (0, 0), False), ((3, 4), (16, 0), False), ((3, 4), (-16, 4), False), ((3, 4), (-16, 8), False),
            ((3, 4), (17, 5), False), ((1, 4), (999, 4), True), ((3, 1), (4, -7), True), ((1, 1), (0, 0), True),
            ((4,), (-4,), False),
        ]
    ],
    Row(dict(shape=(0, 4), strides=(7, 9), data=(0, False)), dict(contiguous=True)),
    # How far they reach.
    Row(dict(shape=(2**62, 4)), "SIZE_OVERFLOW [1]"),
    Row(dict(shape=(2**32, 2**32)), "SIZE_OVERFLOW [1]"),
    Row(dict(shape=(2**61,), typestr="<f8"), "SIZE_OVERFLOW"),
    Row(dict(shape=(3, 2), strides=(2**62, 4)), "SPAN_OVERFLOW ['strides'][0]"),
    Row(dict(shape=(4, 2), strides=(-(2**62), 4)), "SPAN_OVERFLOW ['strides'][0]"),
    Row(dict(shape=(2, 2), strides=(-(2**63), 4)), "ADDRESS_RANGE ['data']", only="cuda host"),
    Row(dict(data=(2**64 - 47, False), typestr="<f4"), "ADDRESS_RANGE"),
    Row(dict(data=(8, False), shape=(4,), strides=(-4,)), "ADDRESS_RANGE"),
]

VERSIONS = [
    *[
        Row(dict(version=number, stream=MISSING), dict(version=number, stream=stream), only="cuda")
        for number, stream in [(0, UNKNOWN), (1, UNKNOWN), (2, UNKNOWN), (3, None)]
    ],
    *[
        Row(dict(version=two, stream=MISSING), dict(version=2, stream=UNKNOWN), strict="TYPE", only="cuda")
        for two in integers(2)
    ],
    Row(dict(version=MISSING, stream=MISSING), dict(version=2, stream=UNKNOWN), strict="KEY", only="cuda"),
    Row(dict(version=MISSING), {}, strict="KEY"),
    Row(dict(version=4), {}, strict="VERSION"),
    Row(dict(version=100), {}, strict="VERSION"),
    Row(dict(version=-1), "VERSION"),
    Row(dict(version=2), "VERSION", lenient="VERSION", only="host"),
    Row(dict(version=0), "VERSION", only="host sycl"),
    Row(dict(version=2), {}, strict="VERSION", only="sycl"),
    Row(dict(version=2**70), "VALUE"),
    Row(dict(version=-(2**70)), "VALUE"),
    *[Row(dict(version=found), "TYPE") for found in (True, "3", 3.0, None, (3,), b"3")],
    Row(dict(version=Raises(BOOM)), BOOM, strict="TYPE"),
]

DATA = [
    Row(dict(data=[ADDRESS, False]), {}, strict="TYPE"),
    Row(dict(data=DelayedPointerTuple(ADDRESS)), {}, strict="TYPE"),
    Row(dict(data=Point(ADDRESS, False)), {}),
    *[Row(dict(data=found), "TYPE") for found in (None, ADDRESS, "ab", {0: ADDRESS, 1: False}, {ADDRESS, 0})],
    Row(dict(data=b"ab"), "TYPE", only="cuda sycl buffer"),
    Row(dict(data=b"ab"), "VALUE", only="host"),  # NumPy's interface allows memory there
    *[Row(dict(data=found), "VALUE") for found in ((), (ADDRESS,), (ADDRESS, False, 0))],
    Row(dict(data=Raises(BOOM)), BOOM, strict="TYPE"),
    Row(dict(data=(Raises(BOOM), False)), BOOM, strict="TYPE [0]"),
    *[
        Row(dict(data=(address, False)), {})
        for address in (1, 2**31, 2**32 + 1, 2**47, 2**63, 2**63 + 4096, 2**64 - 64)
    ],
    *[Row(dict(data=(address, False)), {}, strict="TYPE [0]") for address in integers(ADDRESS)],
    *[Row(dict(data=(found, False)), "TYPE [0]") for found in (True, 1.5, "4096", b"x", (1,), object(), None)],
    *[Row(dict(data=(found, False)), "VALUE [0]") for found in (-1, -ADDRESS, 2**64, 2**200)],
    Row(dict(data=(0, False)), "DATA_NULL [0]"),
    Row(dict(data=(0, False), shape=()), "DATA_NULL [0]"),
    # Without elements there is nothing that an address could point to: versions 2 and 3 say so, 0 and 1 leave it open.
    *[Row(dict(data=(0, False), shape=shape), {}) for shape in EMPTY],
    *[
        Row(dict(data=(address, False), shape=shape), {}, strict="DATA_NOT_NULL [0]")
        for shape in EMPTY
        for address in (1, ADDRESS, 0xDEAD_BEEF, 2**64 - 1)
    ],
    *[Row(dict(data=(None, False), shape=shape), dict(data=0), strict="TYPE [0]") for shape in EMPTY],
    Row(dict(data=(0, True), shape=(0, 4), strides=(2**62,) * 2), {}, only="cuda host"),
    *[
        Row(
            dict(data=(ADDRESS, False), shape=(0, 4), version=version, stream=MISSING),
            dict(version=version, stream=UNKNOWN),
            only="cuda",
            **strict,
        )
        for version, strict in [(0, {}), (1, {}), (2, dict(strict="DATA_NOT_NULL [0]"))]
    ],
    # The flag.
    Row(dict(data=(ADDRESS, True)), {}),
    Row(dict(data=(ADDRESS, True)), "READONLY =data", options=dict(writable=True)),
    Row(dict(data=(ADDRESS, False)), {}, options=dict(writable=True)),
    *[Row(dict(data=(ADDRESS, flag)), dict(readonly=value), strict="TYPE [1]") for flag, value in BOOLEANS],
    *[Row(dict(data=(ADDRESS, found)), "TYPE [1]") for found in (None, "False", b"", 0.0, ())],
    Row(dict(data=(ADDRESS, Undecided())), BOOM, strict="TYPE [1]"),
]

STREAMS = [
    *[Row(dict(stream=stream), {}) for stream in (1, 2, 3, STREAM, 2**63 - 1, 2**63, 2**64 - 3)],
    *[Row(dict(stream=stream), dict(stream=STREAM), strict="TYPE") for stream in integers(STREAM)],
    # That there is one decides, not the version; strict mode wants none before version 3.
    *[
        Row(dict(stream=stream, version=version), {}, strict="STREAM_VERSION", says=f"version {version}")
        for version in (0, 1, 2)
        for stream in (None, 1, 2, STREAM, 2**63)
    ],
    # Those versions have no such key, so a 0 says nothing.
    *[
        Row(dict(stream=zero, version=version), dict(stream=UNKNOWN, version=version), strict="STREAM_VERSION")
        for version in (0, 1, 2)
        for zero in (0, *integers(0))
    ],
    Row(dict(stream=0), "STREAM_ZERO", lenient=dict(stream=LEGACY)),
    *[Row(dict(stream=zero), "STREAM_ZERO", lenient=dict(stream=LEGACY), strict="TYPE") for zero in integers(0)],
    Row(dict(stream=MISSING), dict(stream=None)),
    # DLPack's number for "order nothing", which CV-CUDA writes. It says that no work is pending, in any version.
    Row(dict(stream=-1), dict(stream=None), strict="VALUE"),
    *[Row(dict(stream=found), dict(stream=None), strict="TYPE") for found in integers(-1)],
    *[Row(dict(stream=-1, version=version), dict(stream=None, version=3), strict="STREAM_VERSION") for version in (0, 1, 2)],
    *[Row(dict(stream=found), "VALUE") for found in (-2, -(2**63), 2**64, 2**200, -(2**200), 2**64 - 1, 2**64 - 2)],
    *[Row(dict(stream=found), "VALUE", strict="TYPE") for found in integers(-2)],
    *[Row(dict(stream=found), "TYPE") for found in (True, False, 1.0, "1", (1,), object())],
    Row(dict(stream=Raises(BOOM)), BOOM, strict="TYPE"),
]



def version_4(entries, outcome, options=None, strict="VERSION ['version']"):
    """A row with keys of the proposed version 4, which the options ask for. Strict mode has no such version."""
    return Row({**entries, "version": 4}, outcome, options=dict(version_4=True, **(options or {})), only="cuda", strict=strict)


BF16 = dict(dtype="bfloat16", typestr="<V2")
EVENT = 0x6000_0000
NUMBERS_OF_4 = ("context", "stream_id", "event")
VERSION_4 = [
    version_4({}, dict(version=3)),
    version_4(dict(version=4, stream=STREAM), dict(version=3)),
    # Another version has no such keys, and without the option no version has them.
    Row(dict(device=object(), context=-1, event="x", dtype=4, version=3), {}, options=dict(version_4=True), only="cuda"),
    Row(dict(device=object(), context=-1, event="x", dtype=4, version=4), dict(version=3), strict="VERSION ['version']", only="cuda"),
    # A producer that does not know its stream.
    *[
        Row(dict(version=version, event=EVENT, stream=MISSING, **BF16),
            dict(version=2 if version is MISSING else version, event=EVENT, stream=UNKNOWN, dtype_code=P.BFLOAT16),
            options=dict(version_4=True), only="cuda", strict="KEY" if version is MISSING else dict(version=version, stream=UNKNOWN))
        for version in (1, 2, MISSING)
    ],
    # A stream, whatever the version is.
    *[
        Row(dict(version=version, event=EVENT, stream=STREAM, stream_id=7, data=(ADDRESS, True)),
            dict(version=3, event=EVENT, stream=STREAM, stream_id=7),
            options=dict(version_4=True), only="cuda", strict="KEY" if version is MISSING else "STREAM_VERSION ['stream']")
        for version in (1, 2, MISSING)
    ],
    *[version_4(dict(device=(kind, 1)), dict(device=(kind, 1))) for kind in (P.CUDA, P.CUDA_HOST, P.CUDA_MANAGED)],
    *[version_4(dict(device=(kind, 0)), "DEVICE_TYPE [0]") for kind in (P.CPU, 0, 10, P.ONEAPI, -1, 2**31, 2**70)],
    version_4(dict(device=(P.CUDA, -1)), "DEVICE_ID .id"),
    *[version_4(dict(device=(P.CUDA, id)), "DEVICE_ID [1]") for id in (2**31, -(2**31) - 1, 2**64)],
    *[version_4(dict(device=found), "TYPE") for found in ("cuda:0", 0, [P.CUDA, 0], (P.CUDA,), (P.CUDA, 0, 0), object())],
    *[version_4(dict(device=(P.CUDA, found)), "TYPE [1]") for found in (None, "0", True, 0.0)],
    version_4(dict(device=(P.CUDA, Raises(BOOM))), BOOM),
    version_4(dict(context=QUEUE, stream=2, stream_id=7), dict(context=QUEUE, stream_id=7)),
    version_4(dict(event=EVENT, stream=STREAM, stream_id=7, data=(ADDRESS, True)), dict(event=EVENT, stream_id=7)),
    *[version_4({key: None, "stream": STREAM}, {}) for key in (*NUMBERS_OF_4, "device", "dtype")],
    *[version_4({key: found, "stream": STREAM}, "VALUE") for key in NUMBERS_OF_4 for found in (0, -1, 2**64, -(2**64))],
    *[version_4({key: found, "stream": STREAM}, "TYPE") for key in NUMBERS_OF_4 for found in ("7", True, 7.0, (7,), object())],
    *[version_4({key: Raises(BOOM), "stream": STREAM}, BOOM) for key in NUMBERS_OF_4],
    version_4(dict(stream_id=7, stream=None), "STREAM_ID"),
    version_4(dict(event=EVENT, stream=MISSING), "EVENT"),
    version_4(BF16, dict(dtype_code=P.BFLOAT16)),
    version_4(dict(dtype="float8_e4m3fn", typestr="|V1"), dict(dtype_code=P.FLOAT8_E4M3FN)),
    version_4(dict(dtype="float8_e5m2", typestr="|u1"), dict(dtype_code=P.FLOAT8_E5M2)),
    version_4(dict(dtype="float32"), {}),
    # A name of a later version: the typestr says how many bytes there are.
    version_4(dict(dtype="float7_later"), {}),
    *[version_4(dict(dtype=name), "DTYPE_CODE") for name in ("bfloat16", "float64", "float8_e5m2")],
    version_4(dict(dtype="float32", typestr="|V4"), "DTYPE_CODE"),
    *[version_4(dict(dtype=found), "TYPE") for found in (4, b"bfloat16", float, ("bfloat16",))],
    version_4({"": Derived, **BF16}, dict(dtype_code=P.BFLOAT16)),
    version_4({"": collections.UserDict, **BF16}, dict(dtype_code=P.BFLOAT16), strict="TYPE"),
    version_4(dict(mask=Mask(version=4, device=(P.CUDA, 2))), dict(mask=dict(device=(P.CUDA, 2))), options=dict(allow_mask=True)),
    version_4(dict(mask=Mask(version=4, event=-1)), "VALUE .*['event']", options=dict(allow_mask=True)),
]

ASCII_CONTROL = "x\x1b[2J\n\r\x07\x7f\x85\x9b\u061c\u200b\u200f\u2028\u202e\u2066\ufeff\U000e0041"
NAMED = type(ASCII_CONTROL, (), {})
LONG_NAMED = type("x" * 5000, (), {})

TYPES = [
    *[
        Row(dict(typestr=typestr), {})
        for typestr in (
            "<f4", ">f4", "|f4", "|i8", "|u2", "<u1", "<b1", "|b1", "|u1", "<i4", "<f2", "<c8", "<c16", "<M8[us]",
            "<M8[s]", "<m8[s]", "<V2", "|V3", "|V4", "<W4", "|S4", "|S5", "<U1", "<U2", "<U4", "<t1", "|t8", "<f1",
        )
    ],
    *[
        Row(dict(typestr=letters), dict(typestr=meant), strict=f"TYPESTR_{strict}")
        for letters, meant, strict in [
            ("B", "|u1", "ORDER"), ("b", "|i1", "ORDER"), ("f", "<f4", "ORDER"), ("d", "<f8", "ORDER"),
            ("i", "<i4", "ORDER"), ("?", "|b1", "ORDER"), ("f4", "<f4", "ORDER"), ("<f", "<f4", "SIZE"),
        ]
    ],
    *[
        Row(dict(typestr=text), f"TYPESTR_{status}")
        for text, status in [
            ("", "LENGTH"), ("x", "ORDER"), ("<f3", "SIZE"), ("<", "KIND"), ("<f4 ", "SIZE"), (" <f4", "ORDER"),
            ("<f4\0", "SIZE"), ("<f4\0\0", "SIZE"), ("f\0", "ORDER"), ("<f4,<f4", "SIZE"), ("float32x", "ORDER"),
            ("ä", "ORDER"), ("\ud800", "LENGTH"), ("<" + "f4" * 20, "LENGTH"), ("<" + "x" * 10_000, "LENGTH"),
            ("<q9", "KIND"), ("<W8", "SIZE"), (ASCII_CONTROL, "LENGTH"),
        ]
    ],
    Row(dict(typestr="float32"), "TYPESTR_ORDER", says='(not relevant): did you mean "<f4"?'),
    *[Row(dict(typestr=found), "TYPE") for found in (*NOT_TEXTS, NAMED())],
    Row(dict(typestr=Text("<f4")), {}),
    *([Row(dict(typestr=np.str_("<f4")), {})] if np else []),
    Row(dict(typestr="|V0"), "ITEMSIZE"),
    Row(dict(typestr="|S0"), "ITEMSIZE"),
    # What the caller demands.
    *[Row(dict(typestr=typestr), {}, options=dict(native=True)) for typestr in ("<f4", "|f4", "|u1", ">u1", "|V4")],
    Row(dict(typestr=">f4"), "CONVERT_BYTE_ORDER =typestr", options=dict(native=True)),
    Row(
        dict(typestr="|V4", descr=[("a", ">i4")]), "CONVERT_BYTE_ORDER =descr[0].typestr", options=dict(native=True), only=OTHERS
    ),
    *[
        Row(dict(typestr=typestr), dict(dtype_code=code), options=options)
        for typestr, options, code in [
            ("<V2", dict(opaque_16bit=P.BFLOAT16), P.BFLOAT16), ("|V2", dict(opaque_16bit=P.BFLOAT16), P.BFLOAT16),
            ("<V1", dict(opaque_8bit=P.FLOAT8_E4M3FN), P.FLOAT8_E4M3FN),
            ("<f1", dict(opaque_8bit=P.FLOAT8_E5M2), P.FLOAT8_E5M2), ("<V1", dict(opaque_16bit=P.BFLOAT16), 0),
            ("<V2", dict(opaque_8bit=P.FLOAT8_E5M2), 0), ("<V4", dict(opaque_16bit=P.BFLOAT16), 0),
            ("<f4", dict(opaque_8bit=P.FLOAT8_E5M2, opaque_16bit=P.BFLOAT16), 0),
            ("<u2", dict(opaque_16bit=P.BFLOAT16), 0), ("<f2", dict(opaque_16bit=P.BFLOAT16), 0),
            ("|u1", dict(opaque_8bit=P.FLOAT8_E4M3FN), 0),
        ]
    ],
    *[
        Row(dict(typestr=typestr), {} if fits else "CONVERT_TYPE =typestr", options=dict(typestr=wanted))
        for typestr, wanted, fits in [
            ("<f4", "<f4", True), ("<f4", "|f4", True), ("|f4", "<f4", True), ("|u1", "<u1", True),
            ("<f4", ">f4", False), ("<f4", "<f8", False), ("<f4", "<i4", False), ("<i8", "<u8", False),
            ("<M8[us]", "<M8[us]", True), ("<V2", "|V2", True),
        ]
    ],
    Row(dict(typestr="<M8[us]"), "CONVERT_TYPE =typestr", options=dict(typestr="<M8[ns]"), only=OTHERS),
    Row(dict(typestr="f"), dict(typestr="<f4"), strict="TYPESTR_ORDER", options=dict(typestr="<f4")),
    Row(dict(typestr="<V2"), dict(dtype_code=P.BFLOAT16), options=dict(BFLOAT16, opaque_16bit=P.BFLOAT16)),
    Row(dict(typestr="<V2"), "CONVERT_TYPE =typestr", options=BFLOAT16, only=OTHERS),
    *[Row(dict(typestr=typestr), {}, options=dict(no_objects=True)) for typestr in ("<f4", "|V8")],
    *[Row(dict(typestr=typestr), {}) for typestr in ("|O", "|O8")],
    *[
        Row(changes, "CONVERT_TYPE =typestr", options=dict(no_objects=True), only=OTHERS, says="contains Python objects")
        for changes in [
            dict(typestr="|O"), dict(typestr="|O8"), dict(typestr="|V12", descr=[("a", "<i4"), ("b", "|O")]),
            dict(typestr="|V12", descr=[("a", "<i4"), ("b", [("c", "|O", (1,))])]),
        ]
    ],
]

TWO = [("x", "<f4"), ("y", "<i4")]
NAME_AND_TYPE = collections.namedtuple("NAME_AND_TYPE", "name type")
NAME_TYPE_SHAPE = collections.namedtuple("NAME_TYPE_SHAPE", "name type shape")


def fields(descr, meant=None, typestr="|V8", strict=None):
    """A row of fields that come in. They are those of `meant`, and none if that is empty."""
    meant = descr if meant is None else meant
    taken = dict(descr=meant or None)
    return Row(dict(descr=descr, typestr=typestr), taken, strict=taken if strict is None else strict)


def no_fields(descr, outcome):
    """Rows of what is refused where it is used: with kind V, and with every type in strict mode."""
    yield Row(dict(descr=descr, typestr="|V8"), outcome)
    for typestr in ("<f8", "<M8[s]", "|S8"):
        yield Row(dict(descr=descr, typestr=typestr), {}, strict=outcome)


DESCRS = [
    fields(TWO),
    fields([NAME_AND_TYPE("x", "<f4"), NAME_AND_TYPE("y", "<i4")], TWO),
    fields([("x", "<f4", 2)], [("x", "<f4", (2,))]),
    fields([("x", "<f4", Index(2))], [("x", "<f4", (2,))], strict="TYPE [0].shape"),
    fields([("x", "<f4", (Index(2),))], [("x", "<f4", (2,))], strict="TYPE [0].shape[0]"),
    fields([NAME_TYPE_SHAPE("x", "<i2", (Index(2), Index(2)))], [("x", "<i2", (2, 2))], strict="TYPE [0].shape[0]"),
    fields([("x", "<f4", [2, 1])], [("x", "<f4", (2, 1))], strict="TYPE [0].shape"),
    fields([("x", "<f4", (1,)), ("y", "<i4", ())], [("x", "<f4", (1,)), ("y", "<i4")]),
    fields([["x", "<f4"], ["y", "<i4"]], TWO, strict="TYPE [0]"),
    fields([["x", "<f4"], ("y", "<i4")], TWO, strict="TYPE [0]"),
    fields(tuple(TWO), TWO, strict="TYPE"),
    fields([(("title", "x"), "<f4"), ((None, "y"), "<i4")], [(("title", "x"), "<f4"), ("y", "<i4")]),
    fields([(("t", Text("x")), "<f8")], [(("t", "x"), "<f8")]),
    fields([(["t", "x"], "<f8")], [(("t", "x"), "<f8")], strict="TYPE [0].name"),
    fields([("n", TWO)]),
    fields([("n", tuple(TWO))], [("n", TWO)], strict="TYPE [0].typestr"),
    fields([("n", [("i", "<f4")], 2)], [("n", [("i", "<f4")], (2,))]),
    fields([("a", "<i4"), ("", "|V4")]),
    fields([("a", "<i4"), ("b", "|i1"), ("", "|V3")]),
    fields([("a", "<i4"), ("b", "|i1"), ("", "|V3")], typestr="<V8"),
    fields([("x", "f4"), ("y", "i")], TWO, strict="TYPESTR_ORDER [0].typestr"),
    fields([("x", "f8")], [("x", "<f8")], strict="TYPESTR_ORDER [0].typestr"),
    fields([("é'\"\\\n", "<f8")]),
    fields([("O", "<i4"), ("b", "<f8")], typestr="|V12"),
    *([
        fields([(np.str_("x"), "<f4"), ("y", np.str_("<i4"))], TWO),
        fields([("x", "<f4", (np.int64(2),))], [("x", "<f4", (2,))], strict="TYPE [0].shape[0]"),
        fields([("x", "<i2", (np.int32(2), np.uint8(2)))], [("x", "<i2", (2, 2))], strict="TYPE [0].shape[0]"),
        fields([("x", "<f4", np.int64(2))], [("x", "<f4", (2,))], strict="TYPE [0].shape"),
        fields([("x", "<f4", np.array(2))], [("x", "<f4", (2,))], strict="TYPE [0].shape"),
        fields([("x", "<f4", np.array([2, 1]))], [("x", "<f4", (2, 1))], strict="TYPE [0].shape"),
        fields([(np.str_(""), np.str_("|V8"))], []),
    ] if np else []),
    # One row without a name adds nothing if it only repeats the type.
    fields([("", "|V8")], []),
    fields([("", "<V8")], []),
    fields([["", "|V8"]], [], strict="TYPE [0]"),
    fields([("", "|V4")], [], typestr="|V4"),
    *[fields([row]) for row in [("", "<f8"), ("", "|V4", (2,)), ("", "|V8", (1,)), ("", [("x", "<f8")])]],
    *[fields([row]) for row in [(("t", ""), "|V8"), ("x", "|V8")]],
    Row(dict(descr=None, typestr="|V8"), {}, strict="TYPE", only="cuda host sycl"),
    # The typestr says what other kinds are.
    *[
        Row(dict(descr=descr, typestr=typestr), {})
        for typestr, descr in [
            ("<f4", [("", "<f4")]), ("<f4", [("a", "<f4")]), ("<f8", [("a", ">i4"), ("b", ">i4")]),
            (">c8", [("a", ">i4"), ("b", ">i4")]), ("<i8", [("", "<i8")]), ("|S8", [("a", ">i4"), ("b", ">i4")]),
            ("<U2", [("", "<U2")]), ("<M8[s]", [("", "<M8[s]")]), ("|b1", [("a", "|i1")]),
        ]
    ],
    Row(dict(descr=None), {}, strict="TYPE"),
    # A code says what opaque bytes are, and fields do.
    Row(dict(descr=[("", "<V2")], typestr="<V2"), dict(dtype_code=P.BFLOAT16), options=dict(opaque_16bit=P.BFLOAT16)),
    Row(dict(descr=BYTES, typestr="|V2"), dict(descr=BYTES), options=dict(opaque_16bit=P.BFLOAT16)),
    *[
        row
        for descr, outcome in [
            (42, "TYPE"), ("text", "TYPE"), ({"x": "<f8"}, "TYPE"), (object(), "TYPE"), ([42], "TYPE [0]"),
            (["xy"], "TYPE [0]"), ([("x",)], "DESCR_SYNTAX [0]"), ([("x", "<f8", 1, 1)], "DESCR_SYNTAX [0]"),
            ([("a", "<i4"), (42, "<i4")], "TYPE [1].name"), ([((1, 2, 3), "<f8")], "TYPE [0].name"),
            ([((5, "x"), "<f8")], "TYPE [0].title"), ([(("t", 5), "<f8")], "TYPE [0].name"),
            ([("\ud800", "<f8")], "DESCR_NAME [0].name"), ([("a\0b", "<f8")], "DESCR_NAME [0].name"),
            ([("x", 42)], "TYPE [0].typestr"), ([("x", "")], "TYPESTR_LENGTH [0].typestr"),
            ([("x", "<f3")], "TYPESTR_SIZE [0].typestr"), ([("x", "nonsense")], "TYPESTR_ORDER [0].typestr"),
            ([("x", "<" + "1" * 40)], "TYPESTR_LENGTH [0].typestr"), ([("x", "<f8", None)], "TYPE [0].shape"),
            ([("x", "<f8", True)], "TYPE [0].shape"), ([("x", "<f8", "1")], "TYPE [0].shape"),
            ([("x", "<f8", (1, 1.0))], "TYPE [0].shape[1]"), ([("x", "<f8", (1, -1))], "DESCR_SHAPE [0].shape[1]"),
            ([("x", "<f8", (2**63,))], "DESCR_SHAPE [0].shape[0]"), ([("x", "<f8", 2**70)], "DESCR_SHAPE [0].shape"),
            ([("x", "|V0", (1,) * 65)], "DESCR_SHAPE [0].shape"),
            ([("n", [("x", "<f4"), ("y", 3)])], "TYPE [0].nested[1].typestr"), ([("x", "<f4")], "DESCR_SIZE"),
            ([("", "<f4")], "DESCR_SIZE"), ([("", "<f4", (1,))], "DESCR_SIZE"), ([], "DESCR_SIZE"),
            ([("a", "<i4"), ("b", "|i1")], "DESCR_SIZE"), ([("x", "<f4"), ("x", "<f4")], "DESCR_NAME [1].name"),
            ([(ASCII_CONTROL, "<q9")], "TYPESTR_KIND [0].typestr"),
            ([("a", ASCII_CONTROL)], "TYPESTR_LENGTH [0].typestr"),
        ]
        for row in no_fields(descr, outcome)
    ],
    Row(dict(descr=[("x", "<f8", Raises(BOOM))], typestr="|V8"), BOOM, strict="TYPE [0].shape", only=OTHERS),
    Row(dict(descr=[("x", "<f8", (1, Raises(BOOM)))], typestr="|V8"), BOOM, strict="TYPE [0].shape[1]", only=OTHERS),
    Row(dict(descr=[RaisesItem(1, 2)], typestr="|V8"), BOOM, strict="TYPE [0]", only=OTHERS),
    Row(dict(descr=[Raises(BOOM)], typestr="|V8"), BOOM, strict="TYPE [0]", only=OTHERS),
]

MASKED = dict(allow_mask=True)
PACKED = dict(MASKED, packed_mask=True)
MASKS = [
    Row(dict(mask=None), {}),
    *[
        Row(dict(mask=Mask(typestr=typestr)), dict(mask=dict(typestr=typestr, data=ADDRESS + 1024)), options=MASKED)
        for typestr in ("|b1", "<b1", "|u1", "|i1", "<i4")
    ],
    *[
        Row(dict(mask=Mask(typestr=typestr)), dict(mask=dict(typestr=typestr, shape=(3, 4))), options=MASKED, only="cuda host")
        for typestr in ("|t1", "<t1", "|t8")
    ],
    Row(dict(mask=Mask(typestr="|t8")), dict(mask=dict(typestr="|t8")), strict="TYPESTR_KIND .*['typestr']", options=MASKED, only="sycl"),
    Row(dict(mask=Mask(stream=STREAM), stream=2), dict(stream=2, mask=dict(stream=STREAM)), options=MASKED),
    Row(dict(mask=Mask(mask=Mask(shape=(4,)))), dict(mask=dict(shape=(3, 4))), options=MASKED),
    Row(dict(mask=Mask(), typestr="|V8", descr=TWO), dict(mask=dict(typestr="|b1"), descr=TWO), options=MASKED),
    # Who does not ask for masks gets no array that has one, and the mask is not even looked at.
    *[Row(dict(mask=mask), "CONVERT_MASK") for mask in (Mask(), Mask(typestr="<f4"), 3, NAMED(), Raises(BOOM))],
    *[Row(dict(mask=mask), "NO_PROTOCOL", options=MASKED) for mask in (3, "mask", object(), {}, True, NAMED())],
    *[
        Row(dict(mask=Mask(**changes)), outcome, options=MASKED)
        for changes, outcome in [
            (dict(typestr="<f4"), "MASK_TYPE .typestr"), (dict(shape=(4, 3)), "MASK_SHAPE .shape[0]"),
            (dict(shape=(2, 3, 4)), "MASK_SHAPE .ndim"), (dict(shape=MISSING), "KEY .*['shape']"),
            (dict(data=(0, False)), "DATA_NULL .*['data'][0]"), (dict(typestr=7), "TYPE .*['typestr']"),
            (dict(shape=(3, -1)), "SHAPE_NEGATIVE .*['shape'][1]"),
            (dict(shape=(3, -2)), "SHAPE_NEGATIVE .*['shape'][1]"),
        ]
    ],
    # The bits of -0.0 are not those of false: who wants floats compares them with 0 first.
    *[
        Row(dict(mask=Mask(typestr=typestr)), "MASK_TYPE .typestr", options=MASKED, says="mask != 0")
        for typestr in ("<f4", "<f8", "<c8")
    ],
    Row(
        dict(mask=Mask(stream=0)), "STREAM_ZERO .*['stream']", lenient=dict(mask=dict(stream=LEGACY)), options=MASKED, only="cuda"
    ),
    Row(dict(mask=Mask(), version=0, stream=MISSING), "MASK_VERSION", options=MASKED, only="cuda"),
    # Bytes, and, if the caller allows it, bits that call themselves bytes.
    Row(dict(mask=Mask(typestr="|u1", shape=(64,)), shape=(64,)), dict(mask=dict(typestr="|u1")), options=MASKED),
    *[
        row
        for extent, count in [(100, 64), (96, 12)]
        for entries in [dict(mask=Mask(typestr="|u1", shape=(count,)), shape=(extent,))]
        for row in (
            Row(entries, "MASK_SHAPE .shape[0]", options=MASKED),
            Row(entries, dict(mask=dict(typestr="|t1", shape=(extent,))), strict="MASK_SHAPE .shape[0]", options=PACKED),
        )
    ],
    Row(dict(mask=Mask(typestr="|u1", shape=(12,)), shape=(100,)), "MASK_SHAPE .shape[0]", options=PACKED),
    Row(
        dict(mask=Mask(typestr="|u1", shape=(64,)), shape=(0,), data=(0, False)), dict(mask=dict(typestr="|t1", shape=(0,), data=0)),
        strict="MASK_SHAPE .shape[0]", options=PACKED,
    ),
    Row(
        dict(mask=Mask(typestr="|u1", shape=(12,), stream=0), shape=(96,)), "STREAM_ZERO .*['stream']",
        lenient=dict(mask=dict(typestr="|t1", stream=LEGACY)), options=PACKED, only="cuda",
    ),
    Row(dict(mask=Mask(typestr="|u1", shape=(12,)), shape=(100,)), "MASK_SHAPE .shape[0]", options=MASKED),
    *[
        Row(dict(mask=Mask(typestr="|u1", shape=(12,), strides=(stride,)), shape=(96,)), "MASK_SHAPE .shape[0]", options=MASKED)
        for stride in (0, 2, -1)
    ],
]

ORDERED = dict(require_stream=True)
DEMANDS = [
    *[
        Row(
            dict(shape=shape, strides=strides),
            {} if fits else "CONVERT_CONTIGUOUS =strides",
            options=dict(c_contiguous="c" in wanted, f_contiguous="f" in wanted),
            only=None if fits else OTHERS,
        )
        for shape, strides, orders in [
            ((3, 4), None, "c"), ((3, 4), (4, 12), "f"), ((3, 4), (32, 8), ""), ((4,), None, "cf"), ((), None, "cf"),
            ((1, 4), (4, 4), "cf"),
        ]
        for wanted in ("c", "f", "cf")
        for fits in [bool(set(wanted) & set(orders))]
    ],
    *[
        Row(dict(shape=(0, 4), strides=(1, 1), data=(0, False)), {}, options={order: True}, only="cuda host")
        for order in ("c_contiguous", "f_contiguous")
    ],
    *[Row(dict(shape=(1,) * ndim), {}, options=dict(ndim=ndim)) for ndim in (0, 1, 8, 63, 64)],
    *[Row(dict(shape=(1,) * ndim), "CONVERT_NDIM =shape", options=dict(ndim=ndim + 1)) for ndim in (0, 1, 8, 63)],
    Row(dict(shape=(1,) * 64), "CONVERT_NDIM =shape", options=dict(ndim=0)),
    Row(dict(shape=(0, 4), data=(0, False)), dict(device=(P.CUDA, 0)), options=dict(device=True), only="cuda"),
    *[Row(dict(stream=stream), {}, options=ORDERED) for stream in (None, 1, 2, STREAM)],
    Row(dict(stream=MISSING), dict(stream=None), options=ORDERED),
    Row({}, {}, options=ORDERED, only="host sycl"),
    *[
        Row(dict(stream=MISSING, **changes), "CONVERT_STREAM =stream", options=ORDERED, only="cuda", says="version 3")
        for version in (0, 1, 2)
        for changes in (dict(version=version), dict(version=version, shape=(0,), data=(0, False)))
    ],
    Row(dict(version=2, stream=0), "CONVERT_STREAM =stream", strict="STREAM_VERSION ['stream']", options=ORDERED, only="cuda"),
    Row(dict(syclobj=capsule("SyclContextRef")), "CONVERT_STREAM =stream", options=ORDERED, only="sycl"),
    Row({}, "CONVERT_STREAM =stream", options=ORDERED, only="buffer"),
    Row(dict(mask=Mask()), dict(mask=dict(stream=None)), options=dict(MASKED, **ORDERED), only="cuda host"),
    *[
        Row(dict(mask=mask), f"CONVERT_STREAM ={path}", options=dict(MASKED, **ORDERED), only="cuda")
        for mask, path in [
            (Mask(version=2, stream=MISSING), "mask.stream"),
            (Mask(mask=Mask(version=1, stream=MISSING)), "mask.mask.stream"),
        ]
    ],
]

# What does not fit into a message, and what must not act on the terminal that shows it.
MESSAGES = [
    Row(dict(version=10**4000), "VALUE"),
    Row(dict(shape=(10**4000,)), "VALUE [0]"),
    Row(dict(stream=-(10**4000)), "VALUE"),
    *[Row(dict(shape=found), "TYPE") for found in (LONG_NAMED(), ASCII_CONTROL, NAMED())],
    *[Row({key: ASCII_CONTROL}, "TYPE") for key in ("version", "stream", "strides")],
    Row(dict(strides=NAMED()), "TYPE"),
    Row(dict(data=NAMED()), "TYPE"),
    Row({"": NAMED()}, "TYPE", only="cuda host sycl"),
    *[
        Row(dict(stream=stream), "VALUE" if stream else "STREAM_ZERO", lenient="VALUE" if stream else dict(stream=LEGACY),
            says=f"found {stream}, expected None, 1 (legacy default stream), 2 (per-thread default stream) or a cudaStream_t")
        for stream in (-2, 0, 2**64 - 1)
    ],
    Row(dict(shape=(3, "x")), "TYPE [1]", says="['shape'][1]: found 'x', expected "),
    Row(dict(version=7), {}, strict="VERSION", says="found 7, expected "),
]

# What only SYCL's dictionary has, whose strides and offset count elements.
SYCL = [
    Row(dict(strides=(8, -2), offset=7, data=(ADDRESS, True)), dict(strides=(32, -8), data=ADDRESS + 28), only="sycl"),
    Row(dict(strides=MISSING, offset=MISSING), {}, only="sycl"),
    Row(dict(shape=(0, 4), offset=3), dict(data=0), only="sycl"),
    Row(dict(offset=None), {}, only="sycl"),
    Row(dict(typestr="|i8", strides=[4, 1]), dict(strides=(32, 8)), strict="TYPE ['strides']", only="sycl"),
    Row(dict(strides=(2**62, 1)), "SPAN_OVERFLOW [0]", only="sycl"),
    Row(dict(offset=2**62), "SPAN_OVERFLOW", only="sycl"),
    Row(dict(offset=2**63), "VALUE", only="sycl"),
    Row(dict(offset=-(2**61)), "SPAN_OVERFLOW", only="sycl"),
    *[Row(dict(offset=found), "TYPE", only="sycl") for found in (1.5, True, "1", (1,))],
    Row(dict(offset=Index(7)), dict(data=ADDRESS + 28), strict="TYPE", only="sycl"),
    Row(dict(syclobj=MISSING), "KEY", only="sycl"),
    *[Row(dict(syclobj=found), "TYPE", only="sycl") for found in (None, 3, object(), capsule("other"))],
    Row(dict(syclobj=capsule("SyclContextRef")), dict(context=QUEUE, stream=UNKNOWN), only="sycl"),
]

# What only the buffer interface has. A type may be an object of NumPy.
BUFFERS = [
    *[Row(dict(dtype=dtype), {}, only="buffer") for dtype in ("<f4", types.SimpleNamespace(str="<f4"))],
    *([Row(dict(dtype=np.dtype("f4")), {}, only="buffer")] if np else []),
    Row(dict(dtype="f"), {}, strict="TYPESTR_ORDER", only="buffer"),
    Row(dict(dtype="float7"), "TYPESTR_ORDER", only="buffer"),
    Row(dict(dtype=float), "TYPE", only="buffer", says="found the class float"),
    Row(dict(dtype=7), "TYPE", only="buffer", says="found an object of type int"),
    Row(dict(dtype=types.SimpleNamespace(str="|V8", fields={"a": 1})), "CONVERT_TYPE", only="buffer"),
    Row(dict(offset=16), dict(byte_offset=16), only="buffer"),
    Row(dict(offset=None), {}, strict="TYPE", only="buffer"),
    Row(dict(offset=MISSING), {}, strict="KEY", only="buffer"),
    Row(dict(offset=-4), "VALUE", only="buffer", says="found -4, expected at least 0"),
    Row(dict(offset=2**64), "VALUE", only="buffer", says="found an integer of more than 64 bits"),
    Row(dict(offset=1.5), "TYPE", only="buffer", says="found an object of type float"),
    Row(dict(offset=True), "TYPE", only="buffer"),
    Row(dict(offset=2**64 - 8), "ADDRESS_RANGE", only="buffer"),
    Row(dict(_ptr=0), "DATA_NULL ['buffer'][0]", only="buffer"),
    Row(dict(_ptr=-1), "VALUE", only="buffer", says="found -1"),
    Row(dict(_ptr=2**64), "VALUE", only="buffer"),
    Row(dict(buffer=None, shape=(0, 4)), dict(data=0), only="buffer"),
    *[
        Row(entries, "NO_PROTOCOL =object", only="buffer")
        for entries in (dict(dtype=MISSING), dict(shape=MISSING), dict(buffer=object()), dict(_ptr="x"))
    ],
]

ROWS = DICTIONARIES + SHAPES + VERSIONS + DATA + STREAMS + VERSION_4 + TYPES + DESCRS + MASKS + DEMANDS + MESSAGES + SYCL + BUFFERS
