"""Imports: containers, versions, strides, empty arrays, streams and the read-only flag of a dictionary."""

import collections
import gc
import types

import cai_python as P
import numpy as np
import pytest
from cai_python import Exporter, take
from importing import CAI, MISSING, Boom, Index, Raises, exporter, interface, refused
from producers import ADDRESS, STREAM, DelayedPointerTuple, StfCai

# --- 4: containers


class Mapping(collections.abc.Mapping):
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class OnlyItems:
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]


class Sub(dict):
    pass


MAPPINGS = [dict, Sub, collections.OrderedDict, collections.UserDict, types.MappingProxyType, Mapping, OnlyItems,
            lambda entries: collections.ChainMap({}, entries), lambda entries: StfCai(**entries)]  # fmt: skip


@pytest.mark.parametrize("kind", MAPPINGS)
def test_mappings(kind):
    with take(Exporter(kind(interface(stream=STREAM)))) as taken:
        assert (taken.shape, taken.typestr, taken.data, taken.stream) == (
            (3, 4),
            "<f4",
            ADDRESS,
            STREAM,
        )
    for key in ("shape", "typestr", "data"):
        refused(Exporter(kind(interface(**{key: MISSING}))), KeyError, f"{CAI}['{key}']", "KEY")


@pytest.mark.parametrize("kind", [Mapping, OnlyItems, collections.UserDict])
def test_strict_wants_a_dictionary(kind):
    refused(Exporter(kind(interface())), TypeError, CAI, "TYPE", strict=True)


@pytest.mark.parametrize(
    "found", [None, 3, "shape", b"shape", [("shape", (3,))], ("shape",), {"shape"}, object(), len]
)
def test_no_mapping(found):
    refused(Exporter(found), TypeError, CAI, "TYPE")


def test_a_mapping_that_raises():
    error = Boom()
    with pytest.raises(Boom) as info:
        take(Exporter(Raises(error)))
    assert info.value is error


class Row(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


Point = collections.namedtuple("Point", "a b")

ROW_KINDS = [list, lambda row: Row(*row), lambda row: Point(*row), np.array, collections.deque]


@pytest.mark.parametrize(
    "kind", ROW_KINDS, ids=["list", "sequence", "namedtuple", "numpy", "deque"]
)
def test_rows(kind):
    with take(
        exporter(shape=kind((3, 4)), strides=kind((-16, 8)), data=(ADDRESS + 64, False))
    ) as taken:
        assert taken.shape == (3, 4) and taken.strides == (-16, 8)


@pytest.mark.parametrize("key", ["shape", "strides"])
@pytest.mark.parametrize(
    "found", [3, "34", b"34", {3: 1, 4: 1}, {3, 4}, object(), 1.5, iter((3, 4))]
)
def test_no_row(key, found):
    refused(exporter(**{key: found}), TypeError, f"{CAI}['{key}']", "TYPE")


def test_no_shape():
    refused(exporter(shape=None), TypeError, f"{CAI}['shape']", "TYPE")


def test_strict_wants_tuples():
    for key, found in (("shape", [3, 4]), ("strides", [16, 4]), ("data", [ADDRESS, False])):
        refused(exporter(**{key: found}), TypeError, f"{CAI}['{key}']", "TYPE", strict=True)


@pytest.mark.parametrize(
    "kind", [tuple, list, lambda pair: DelayedPointerTuple(pair[0]), lambda pair: Point(*pair)]
)
def test_data(kind):
    with take(exporter(data=kind((ADDRESS, False)))) as taken:
        assert taken.data == ADDRESS and not taken.readonly


@pytest.mark.parametrize(
    "found", [None, ADDRESS, "ab", b"ab", {0: ADDRESS, 1: False}, {ADDRESS, False}]
)
def test_no_data(found):
    refused(exporter(data=found), TypeError, f"{CAI}['data']", "TYPE")


@pytest.mark.parametrize("found", [(), (ADDRESS,), (ADDRESS, False, 0)])
def test_data_of_another_length(found):
    refused(exporter(data=found), ValueError, f"{CAI}['data']", "VALUE")


def test_a_row_that_raises():
    for key in ("shape", "strides", "data"):
        error = Boom()
        with pytest.raises(Boom) as info:
            take(exporter(**{key: Raises(error)}))
        assert info.value is error


def test_rows_that_change_while_they_are_read():
    """Numbers may run code. Whatever it does to the rows and to the dictionary, it ends in an answer."""

    class Clears:
        def __init__(self, what, value):
            self.what, self.value = what, value

        def __index__(self):
            self.what.clear()
            gc.collect()
            return self.value

    for key in ("shape", "strides", "data"):
        row = []
        row += [Clears(row, ADDRESS if key == "data" else 4), 4]
        given = interface(**{key: row})
        try:
            take(Exporter(given)).release()
        except (IndexError, ValueError, TypeError):
            pass
        given = interface()
        given["shape"] = [Clears(given, 3), 4]
        try:
            take(Exporter(given)).release()
        except KeyError:
            pass

    # A length that is not the length.
    class Long(Row):
        def __len__(self):
            return 5

    with pytest.raises(IndexError):
        take(exporter(shape=Long(3, 4)))

    class Negative(Row):
        def __len__(self):
            return -1

    with pytest.raises(ValueError):
        take(exporter(shape=Negative(3, 4)))


# --- 5: versions


@pytest.mark.parametrize("version", [0, 1, 2, 3, np.int64(2), Index(3)])
def test_versions(version):
    number = version.__index__()
    with take(exporter(version=version, stream=MISSING)) as taken:
        assert taken.version == number
        assert taken.stream == (None if number == 3 else P.STREAM_UNKNOWN)


def test_no_version():
    with take(exporter(version=MISSING, stream=MISSING)) as taken:
        assert taken.stream == P.STREAM_UNKNOWN
    refused(exporter(version=MISSING), KeyError, f"{CAI}['version']", "KEY", strict=True)


@pytest.mark.parametrize("version", [4, 100, -1, 2**70, -(2**70)])
def test_versions_that_do_not_exist(version):
    refused(exporter(version=version), ValueError, f"{CAI}['version']")


@pytest.mark.parametrize("version", [True, "3", 3.0, None, (3,), b"3"])
def test_no_number_of_a_version(version):
    refused(exporter(version=version), TypeError, f"{CAI}['version']", "TYPE")


# --- 6: strides


@pytest.mark.parametrize("strides", [None, MISSING])
def test_no_strides(strides):
    with take(exporter(strides=strides), c_contiguous=True) as taken:
        assert taken.strides is None and taken.contiguous()


@pytest.mark.parametrize(
    "shape, strides, dense",
    [((3, 4), (16, 4), True), ((3, 4), (4, 12), False), ((3, 4), (32, 4), False), ((3, 4), (0, 4), False),
     ((3, 4), (0, 0), False), ((3, 4), (16, 0), False), ((3, 4), (-16, 4), False), ((3, 4), (17, 5), False),
     ((1, 4), (999, 4), True), ((3, 1), (4, -7), True), ((1, 1), (0, 0), True), ((0, 4), (7, 9), True),
     ((4,), (-4,), False), ((), (), True)],
)  # fmt: skip
def test_strides(shape, strides, dense):
    given = exporter(shape=shape, strides=strides, data=(ADDRESS + 4096, False))
    with take(given) as taken:
        assert taken.shape == shape and taken.contiguous() == dense
        assert taken.strides == strides or (dense and taken.strides is None)
    if dense:
        take(given, c_contiguous=True).release()
    else:
        refused(given, BufferError, "strides", "CONVERT_CONTIGUOUS", c_contiguous=True)


@pytest.mark.parametrize("strides", [(), (4,), (64, 16, 4)])
def test_another_number_of_strides(strides):
    refused(exporter(strides=strides), ValueError, f"{CAI}['strides']")


def test_scalars_have_no_strides():
    with take(exporter(shape=(), strides=())) as taken:
        assert taken.ndim == 0 and taken.shape == () and taken.contiguous()
    refused(exporter(shape=(), strides=(4,)), ValueError, f"{CAI}['strides']")


# --- 8: empty arrays


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (0, 0), (2, 0, 2**62)])
@pytest.mark.parametrize("pointer", [0, None, ADDRESS, 0xDEAD_BEEF, 2**64 - 1])
def test_empty(shape, pointer):
    with take(exporter(shape=shape, data=(pointer, False), strides=None), device=True) as taken:
        assert taken.data == 0 and taken.shape == shape
    given = exporter(shape=shape, data=(pointer, True), strides=(2**62,) * len(shape))
    with take(given) as taken:
        assert taken.data == 0 and taken.readonly


@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 0, 2**62)])
def test_strict_wants_no_address_for_no_elements(shape):
    """Versions 2 and 3 say so; 0 and 1 leave it open."""
    for version in (2, 3):
        changes = dict(shape=shape, version=version, stream=MISSING)
        for address in (1, ADDRESS, 2**64 - 1):
            given = exporter(data=(address, False), **changes)
            refused(given, ValueError, f"{CAI}['data'][0]", "DATA_NOT_NULL", strict=True)
            take(given).release()
        take(exporter(data=(0, False), **changes), strict=True).release()
    for version in (0, 1):
        given = exporter(shape=shape, version=version, stream=MISSING)
        with take(given, strict=True) as taken:
            assert taken.data == 0


def test_elements_need_an_address():
    refused(exporter(data=(0, False)), ValueError, f"{CAI}['data'][0]", "DATA_NULL")
    refused(exporter(data=(None, False)), TypeError, f"{CAI}['data'][0]", "TYPE")
    refused(exporter(shape=(), data=(0, False)), ValueError, f"{CAI}['data'][0]", "DATA_NULL")


# --- 9, 10: streams


@pytest.mark.parametrize(
    "stream", [1, 2, 3, STREAM, 2**63 - 1, 2**63, 2**64 - 3, Index(STREAM), np.uint64(2**63 + 5)]
)
@pytest.mark.parametrize("version", [2, 3])
def test_streams(stream, version):
    """That there is one decides, not the version."""
    with take(exporter(stream=stream, version=version)) as taken:
        assert taken.stream == stream.__index__() and taken.version == 3


@pytest.mark.parametrize("kind", MAPPINGS)
def test_no_stream(kind):
    for version, stream in ((3, None), (3, MISSING), (2, None)):
        with take(Exporter(kind(interface(stream=stream, version=version)))) as taken:
            assert taken.stream is None and taken.version == 3
    for version in (0, 1, 2):
        with take(Exporter(kind(interface(stream=MISSING, version=version)))) as taken:
            assert taken.stream == P.STREAM_UNKNOWN and taken.version == version


@pytest.mark.parametrize("stream", [0, Index(0), np.int64(0)])
def test_stream_zero(stream):
    refused(exporter(stream=stream), ValueError, f"{CAI}['stream']", "STREAM_ZERO")
    with take(exporter(stream=stream), lenient=True) as taken:
        assert taken.stream == P.STREAM_LEGACY


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("stream", [0, Index(0), np.int64(0)])
def test_stream_zero_before_version_3(version, lenient, stream):
    """Those versions have no such key, so it says nothing."""
    with take(exporter(stream=stream, version=version), lenient=lenient) as taken:
        assert taken.stream == P.STREAM_UNKNOWN and taken.version == version


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("stream", [None, 0, 1, 2, STREAM])
def test_strict_wants_no_stream_before_version_3(version, stream):
    given = exporter(stream=stream, version=version)
    words = refused(given, ValueError, f"{CAI}['stream']", "STREAM_VERSION", strict=True)
    assert f"version {version}" in words
    take(exporter(stream=MISSING, version=version), strict=True).release()
    if stream != 0:
        take(exporter(stream=stream), strict=True).release()


@pytest.mark.parametrize("stream", [-1, 2**64, 2**200, -(2**200), 2**64 - 1, 2**64 - 2])
@pytest.mark.parametrize("lenient", [False, True])
def test_streams_out_of_range(stream, lenient):
    refused(exporter(stream=stream), ValueError, f"{CAI}['stream']", lenient=lenient)


@pytest.mark.parametrize("stream", [True, False, 1.0, "1", (1,), object()])
def test_no_number_of_a_stream(stream):
    refused(exporter(stream=stream), TypeError, f"{CAI}['stream']", "TYPE")


# --- 12: read-only


@pytest.mark.parametrize("flag", [True, False, 1, 0, np.True_, np.False_])
def test_readonly(flag):
    given = exporter(data=(ADDRESS, flag))
    with take(given) as taken:
        assert taken.readonly == bool(flag)
    if flag:
        refused(given, BufferError, "data", "READONLY", writable=True)
    else:
        take(given, writable=True).release()


@pytest.mark.parametrize("flag", [None, "False", b"", 0.0, ()])
def test_no_flag(flag):
    refused(exporter(data=(ADDRESS, flag)), TypeError, f"{CAI}['data'][1]", "TYPE")


def test_strict_wants_a_bool():
    refused(exporter(data=(ADDRESS, 0)), TypeError, f"{CAI}['data'][1]", "TYPE", strict=True)


def test_a_flag_that_raises():
    class Undecided:
        def __bool__(self):
            raise error

    error = Boom()
    with pytest.raises(Boom) as info:
        take(exporter(data=(ADDRESS, Undecided())))
    assert info.value is error
