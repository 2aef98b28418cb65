"""Exports as a table: an array, and what each protocol offers of it. What goes out comes in again as it was.

Each row goes out on every way: as the dictionary of CUDA and the same as JSON, NumPy's, SYCL's, the attributes of a
buffer, and a tensor of DLPack; with each of the options.
"""

import ast
import ctypes as c
import json

import cai_ctypes as T
import cai_python as P
import numpy as np
import pytest
from cai_python import give, make, take
from exporting import CAI, HOST, SYCL, exact, versioned
from import_ways import shown
from importing import same_type
from producers import ADDRESS, STREAM

OPTIONS = [{}, {"version_2": True}, {"strides": True}, {"hide_readonly": True}, {"version_4": True}]


class Row:
    """An array, the entries of its dictionary that do not follow from that, and the ways that cannot express it."""

    def __init__(self, array, lacks="", **entries):
        self.array, self.lacks, self.entries = {"data": ADDRESS, **array}, set(lacks.split()), entries
        self.name = ", ".join(f"{key}={shown(value)}" for key, value in array.items()) or "dense"

    def expected(self, version_2=False, strides=False, hide_readonly=False, version_4=False):
        with make(**self.array) as array:
            found = dict(shape=array.shape, typestr=array.typestr, data=(array.data, array.readonly and not hide_readonly),
                         version=3, strides=None, stream=array.stream)  # fmt: skip
            if array.descr:
                found["descr"] = ast.literal_eval(array.descr)
        found.update(self.entries)
        if strides and found["strides"] is None:
            found["strides"] = self.array.get("strides") or dense(found["shape"], np.dtype(found["typestr"]).itemsize)
        if version_2 or found["stream"] == P.STREAM_UNKNOWN:
            found["version"] = 2
            del found["stream"]
        elif version_4:
            found["version"] = 4
        return found


def dense(shape, size):
    strides = ()
    for extent in reversed(shape):
        strides, size = (size, *strides), size * max(extent, 1)
    return strides


def reach(row):
    """How far the strides reach down, in bytes."""
    steps = zip(row.array.get("shape", ()), row.array.get("strides") or ())
    return sum(-stride * (extent - 1) for extent, stride in steps if stride < 0)


class Cuda:
    device, protocol = (P.CUDA, 0), P.CUDA_ARRAY_INTERFACE

    def members(self, row):
        """What an array of this device has besides."""
        return {}

    def seen(self, array, **options):
        return getattr(give(array, **options), CAI, None)

    def expected(self, row, version_4=False, **options):
        more = {"device": self.device} if version_4 else {}
        return {**row.expected(version_4=version_4, **options), **more}

    def same(self, found, expected, options):
        # Strides of extents of one, or of no elements, are as the array has them: they do not matter.
        exact(found)
        assert found == expected, options


class Json(Cuda):
    """The same as a text, without options. A reader of it has only the typestr."""

    protocol = None

    def seen(self, array, **options):
        size, error = c.c_size_t(), T.Error()
        text = c.create_string_buffer(4096)
        status = P.held.cai_unstable_array_to_json(c.byref(array.array), text, len(text), c.byref(size), c.byref(error))
        return None if status else json.loads(text.value, object_hook=lambda found: {
            key: tuple(value) if type(value) is list else value for key, value in found.items()})  # fmt: skip

    def expected(self, row, **options):
        return row.expected()


class Host(Cuda):
    device, protocol = (P.CPU, 0), P.ARRAY_INTERFACE

    def seen(self, array, **options):
        return getattr(give(array, **options), HOST, None)

    def expected(self, row, version_2=False, version_4=False, **options):
        found = row.expected(**options)
        found.pop("stream", None)
        return {**found, "version": 3}


class Sycl(Cuda):
    """Strides and the offset count elements; the offset is what strides reach down."""

    device, protocol = (P.ONEAPI, 0), P.SYCL_USM

    def members(self, row):
        return {"context": 0x5151_0000}

    def seen(self, array, **options):
        found = getattr(give(array, **options), SYCL, None)
        if found:
            assert "SyclContextRef" in repr(found.pop("syclobj"))
        return found

    def expected(self, row, **options):
        found = row.expected(hide_readonly="hide_readonly" in options, strides="strides" in options)
        size = np.dtype(found["typestr"]).itemsize
        found.pop("stream", None)
        down, strides = reach(row), found["strides"]
        if strides is not None:
            found["strides"] = tuple(stride // size for stride in strides)
        return {**found, "version": 1, "offset": down // size, "data": (found["data"][0] - down, found["data"][1])}


class Buffer(Cuda):
    """Attributes, whose strides are stated always."""

    device, protocol = (P.OPENCL, -1), P.OPENCL_BUFFER

    def members(self, row):
        return {"byte_offset": reach(row)}

    def seen(self, array, **options):
        obj = give(array, **options)
        if not hasattr(obj, "buffer"):
            return None
        assert type(obj.offset) is int and obj.device == "opencl" and isinstance(obj.dtype, np.dtype)
        return {"shape": obj.shape, "dtype": obj.dtype, "strides": obj.strides, "data": obj.buffer._ptr,
                "int_ptr": obj.buffer.int_ptr, "offset": obj.offset}  # fmt: skip

    def expected(self, row, **options):
        found = row.expected(strides=True)
        address = found["data"][0]
        dtype = np.lib.format.descr_to_dtype(found.get("descr") or found["typestr"])
        return {"shape": found["shape"], "dtype": dtype, "strides": found["strides"], "data": address, "int_ptr": address,
                "offset": reach(row)}  # fmt: skip

    def same(self, found, expected, options):
        assert found == expected and type(found["strides"]) is type(found["shape"]) is tuple, options


class Dlpack(Cuda):
    protocol = P.DLPACK

    def seen(self, array, **options):
        try:
            capsule = give(array, **options).__dlpack__(max_version=(1, 3), stream=-1)
        except BufferError:
            return None
        tensor = versioned(capsule)
        t = tensor.tensor
        assert t.lanes == 1 and (t.device_type, t.device_id) == self.device
        return {"shape": tuple(t.shape[: t.ndim]), "strides": tuple(t.strides[: t.ndim]), "readonly": bool(tensor.flags & 1),
                "data": (t.data or 0) + t.byte_offset, "bits": t.bits, "code": t.code}  # fmt: skip

    def expected(self, row, **options):
        found = row.expected(strides=True, hide_readonly="hide_readonly" in options)
        size, code = np.dtype(found["typestr"]).itemsize, {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[found["typestr"][1]]
        return {"shape": found["shape"], "strides": tuple(stride // size for stride in found["strides"]), "readonly": found["data"][1],
                "data": found["data"][0], "bits": 8 * size, "code": code}  # fmt: skip

    def same(self, found, expected, options):
        assert found == expected, options


WAYS = {"cuda": Cuda(), "json": Json(), "host": Host(), "sycl": Sycl(), "buffer": Buffer(), "dlpack": Dlpack()}
FIELDS = [("a", "<i4"), ("b", "|i1"), ("", "|V3")]
STRUCTURES = [
    FIELDS,
    [("x", "<f8", (2, 3)), (("title", "y"), "|S3")],
    [("o", [("i", ">i2"), ("j", [("k", "<M8[us]")])]), ("ä", "|u1")],
    [("it's", "<i4"), ('"', "<i4"), ("back\\slash", "<U2")],
]

ROWS = [
    Row({}),
    *[
        Row(dict(shape=shape, strides=strides, data=ADDRESS + 4096), lacks, strides=None if is_dense else strides)
        for shape, strides, is_dense, lacks in [
            ((3, 4), None, True, ""), ((3, 4), (16, 4), True, ""), ((3, 4), (4, 12), False, ""),
            ((3, 4), (0, 4), False, ""), ((3, 4), (0, 0), False, ""), ((4, 3), (16, 4), False, ""),
            ((3, 4), (32, -4), False, ""), ((3, 4), (64, -4), False, ""), ((4,), (-4,), False, ""),
            ((1, 4), (8, 4), True, ""), ((1, 1), (0, 0), True, ""), ((1, 4), (4, 0), False, ""),
            ((3, 4), (17, 5), False, "sycl dlpack"), ((3, 4), (33, 4), False, "sycl dlpack"), ((), None, True, ""),
            ((), (), True, ""),
        ]
    ],
    *[Row(dict(stream=stream)) for stream in (1, 2, 3, STREAM, 2**63 + 1, 2**64 - 3)],
    # Version 3 without a stream would state that nothing is pending, which is not known.
    *[Row(dict(stream=P.STREAM_UNKNOWN, version=version)) for version in range(4)],
    Row(dict(readonly=True), "buffer"),
    *[Row(dict(data=address)) for address in (1, 2**31, 2**32 + 8, 2**63, 2**63 + 4096, 2**64 - 32)],
    *[Row(dict(shape=shape)) for shape in ((0,), (0, 4), (3, 0))],
    Row(dict(shape=(), typestr="<i8")),
    Row(dict(shape=(1,) * 64)),
    *[
        Row(dict(typestr=typestr), lacks)
        for typestr, lacks in [
            ("<f4", ""), (">f4", "json dlpack"), (">f8", "json dlpack"), ("|f4", ""), ("|b1", ""), ("|u1", ""),
            ("<i2", ""), ("<c8", ""), ("<c16", ""), ("<M8[25us]", "sycl dlpack"), ("|S5", "sycl dlpack"),
            ("<U3", "sycl dlpack"), ("|V7", "sycl dlpack"), ("<V2", "sycl dlpack"),
        ]
    ],
    *[
        Row(dict(shape=(3,), typestr=np.dtype(descr).str, descr=repr(descr)), "json sycl dlpack")
        for descr in STRUCTURES
    ],
]  # fmt: skip

CASES = [
    pytest.param(WAYS[name], row, name, id=f"{name}: {row.name}")
    for name in WAYS
    for row in ROWS
    if "stream" not in row.array or name in ("cuda", "json")
]


@pytest.mark.parametrize("way, row, name", CASES)
def test_rows(way, row, name):
    array = make(**{**row.array, "device": way.device, **way.members(row)})
    with array:
        for options in OPTIONS:
            found = way.seen(array, **options)
            if name in row.lacks and not (options and found):
                assert found is None
                continue
            assert found is not None, options
            way.same(found, way.expected(row, **options), options)
        # Without an option, the table of the type hands the array on, or the next protocol does.
        protocols = [[], [way.protocol]] if way.protocol and name not in row.lacks else [[]]
        for protocol in protocols:
            come_and_go(array, protocols=protocol, host=way.device[0] == P.CPU, stream=1 if name == "dlpack" else P.STREAM_UNKNOWN)
    assert array.counted.gone == 1


def come_and_go(array, **options):
    """In and out again, three times: once by DLPack, after which work may be pending on the stream that was asked for."""
    obj = give(array)
    for _ in range(1 if options["protocols"] == [P.DLPACK] else 3):
        with take(obj, **options) as again:
            obj = give(again)
            for field in ("shape", "data", "readonly", "descr", "byte_offset"):
                assert getattr(again, field) == getattr(array, field), field
            assert same_type(again.typestr, array.typestr) and again.contiguous() == array.contiguous()
            assert again.strides == array.strides or array.contiguous()
            if options["protocols"] in ([], [P.CUDA_ARRAY_INTERFACE]):
                assert again.stream == array.stream
            if not options["protocols"]:
                assert again.device == array.device and again.context == array.context
    assert array.counted.gone == 0
