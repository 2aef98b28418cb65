"""The producers with their expected descriptions, row by row, and those that must be refused."""

import cai_python as P
from producers import (
    ADDRESS,
    STREAM,
    CTranslate2,
    CuCim,
    CudfBuffer,
    CudfCategorical,
    CudfColumn,
    CudfColumn3,
    CudfStrings,
    CuPy,
    CuPyOnHip,
    CuVec,
    CvCuda,
    Dali,
    Genn,
    Holoscan,
    Hoomd,
    IsaacTeleop,
    Jax,
    JaxFfi,
    JaxOnCpu,
    Mirheo,
    Numba,
    NvImageCodec,
    Paddle,
    PyAmrex,
    PyCuda,
    Pylibcudf,
    Pylibraft,
    Rmm,
    SlangPy,
    Spdl,
    Stf,
    TensorRt,
    Torch,
    Ucxx,
    Vali,
    Vpf,
    Warp,
    XgBoost,
)


def changed(obj, **attributes):
    for name, value in attributes.items():
        setattr(obj, name, value)
    return obj


def rows():
    """(name, how to make it, what must come in). Left out: the shape of the call, `<f4`, dense, writable, no mask."""
    unknown, none = P.STREAM_UNKNOWN, None
    column = (4, 48)
    structured = [("a", "<i4"), ("b", "|i1"), ("", "|V3")]
    yield "numba", lambda: Numba(), dict(version=3, stream=none)
    yield (
        "numba-strided",
        lambda: Numba((4, 3), strides=(4, 16)),
        dict(shape=(4, 3), strides=(4, 16), stream=none),
    )
    yield "numba-stream", lambda: Numba(stream=STREAM), dict(stream=STREAM)
    yield "numba-empty", lambda: Numba((0, 4)), dict(shape=(0, 4), data=0, stream=none)
    yield "numba-scalar", lambda: Numba(()), dict(shape=(), stream=none)
    yield "cupy", lambda: CuPy(), dict(version=3, stream=1)
    yield "cupy-stream", lambda: CuPy(stream=STREAM), dict(stream=STREAM)
    yield "cupy-per-thread", lambda: CuPy(stream=2), dict(stream=2)
    yield "cupy-version-2", lambda: changed(CuPy(), version=2), dict(version=2, stream=unknown)
    yield "cupy-empty", lambda: CuPy((0,)), dict(shape=(0,), data=0, stream=1)
    yield (
        "cupy-strided",
        lambda: CuPy((3, 2), strides=column),
        dict(shape=(3, 2), strides=column, stream=1),
    )
    yield (
        "cupy-backwards",
        lambda: CuPy((4,), strides=(-4,)),
        dict(shape=(4,), strides=(-4,), stream=1),
    )
    yield "cupy-broadcast", lambda: CuPy((3, 4), strides=(0, 4)), dict(strides=(0, 4), stream=1)
    yield "cupy-bfloat16", lambda: CuPy(typestr="<V2"), dict(typestr="<V2", dtype_code=0, stream=1)
    yield "cupy-datetime", lambda: CuPy(typestr="<M8[us]"), dict(typestr="<M8[us]", stream=1)
    yield (
        "cupy-structured",
        lambda: changed(CuPy(typestr="|V8"), descr=structured),
        dict(typestr="|V8", descr="[('a', '<i4'), ('b', '|i1'), ('', '|V3')]", stream=1),
    )
    yield "torch", lambda: Torch(), dict(version=2, stream=unknown)
    yield (
        "torch-strided",
        lambda: Torch((4, 3), strides=(4, 16)),
        dict(shape=(4, 3), strides=(4, 16), stream=unknown),
    )
    yield (
        "torch-expanded",
        lambda: Torch((3, 4), strides=(0, 4)),
        dict(strides=(0, 4), stream=unknown),
    )
    yield (
        "torch-bfloat16",
        lambda: changed(Torch(typestr="<V2"), scalar="bfloat16"),
        dict(typestr="<V2", stream=unknown),
    )
    yield "torch-empty", lambda: Torch((0, 4)), dict(shape=(0, 4), data=0, stream=unknown)
    yield "torch-scalar", lambda: Torch(()), dict(shape=(), stream=unknown)
    yield "jax", lambda: Jax(), dict(version=2, stream=unknown, readonly=True)
    yield "jax-ffi", lambda: JaxFfi(typestr="<V2"), dict(version=2, stream=unknown, typestr="<V2")
    yield "jax-ffi-argument", lambda: JaxFfi(readonly=True), dict(stream=unknown, readonly=True)
    yield (
        "rmm",
        lambda: Rmm((100,), "|u1"),
        dict(version=0, shape=(100,), typestr="|u1", stream=unknown),
    )
    yield (
        "rmm-empty",
        lambda: Rmm((0,), "|u1"),
        dict(shape=(0,), typestr="|u1", data=0, stream=unknown),
    )
    yield (
        "cudf",
        lambda: CudfColumn((5,)),
        dict(version=1, shape=(5,), strides=(4,), stream=unknown),
    )
    yield (
        "cudf-3",
        lambda: CudfColumn3((5,)),
        dict(version=3, shape=(5,), strides=(4,), stream=none),
    )
    yield (
        "cudf-empty",
        lambda: CudfColumn((0,)),
        dict(shape=(0,), strides=(4,), data=0, stream=unknown),
    )
    for name, kind, stream in (
        ("cudf-mask", CudfColumn, unknown),
        ("cudf-3-mask", CudfColumn3, none),
    ):
        yield (
            name,  # as many bytes as fill 64, and one bit for each element
            lambda kind=kind: changed(
                kind((100,)), mask=CudfBuffer((64,), "|u1", data=ADDRESS + 4096)
            ),
            dict(
                shape=(100,),
                strides=(4,),
                stream=stream,
                mask=dict(shape=(100,), typestr="|t1", data=ADDRESS + 4096),
            ),
        )
    yield "pylibcudf", lambda: Pylibcudf(), dict(version=3, stream=STREAM)
    yield (
        "pylibraft",
        lambda: Pylibraft((4, 3), strides=(4, 16)),
        dict(shape=(4, 3), strides=(4, 16), stream=none),
    )
    yield "pylibraft-dense", lambda: Pylibraft(), dict(version=3, stream=none)
    yield "dali", lambda: Dali(), dict(version=2, stream=unknown)
    yield "pycuda", lambda: PyCuda(), dict(version=3, strides=(16, 4), stream=none)
    yield (
        "pycuda-empty",
        lambda: PyCuda((0, 4)),
        dict(shape=(0, 4), strides=(16, 4), data=0, stream=none),
    )
    yield "warp", lambda: Warp(), dict(version=2, strides=(16, 4), stream=unknown)
    yield "warp-vec3", lambda: Warp((10, 3)), dict(shape=(10, 3), strides=(12, 4), stream=unknown)
    yield (
        "warp-bfloat16",
        lambda: Warp(typestr="<u2"),
        dict(typestr="<u2", strides=(8, 2), stream=unknown),
    )
    yield "warp-empty", lambda: Warp((0,)), dict(shape=(0,), strides=(4,), data=0, stream=unknown)
    yield (
        "cv-cuda",
        lambda: CvCuda((1, 4, 6, 3), "|u1"),
        dict(version=2, shape=(1, 4, 6, 3), typestr="|u1", strides=(72, 18, 3, 1), stream=unknown),
    )
    yield (
        "nvimagecodec",
        lambda: NvImageCodec((4, 6, 3), "|u1"),
        dict(version=3, shape=(4, 6, 3), typestr="|u1", stream=1),
    )
    yield (
        "nvimagecodec-pitch",
        lambda: NvImageCodec((4, 6, 3), "|u1", strides=(32, 3, 1), stream=STREAM),
        dict(shape=(4, 6, 3), typestr="|u1", strides=(32, 3, 1), stream=STREAM),
    )
    yield "holoscan", lambda: Holoscan(), dict(version=3, strides=(16, 4), stream=1)
    yield (
        "cucim",
        lambda: CuCim((4, 6, 3), "|u1"),
        dict(version=3, shape=(4, 6, 3), typestr="|u1", stream=1),
    )
    yield (
        "tensorrt",
        lambda: TensorRt(stream=STREAM),
        dict(version=3, strides=(16, 4), stream=STREAM),
    )
    yield (
        "vpf",
        lambda: Vpf((6, 4), "|u1"),
        dict(version=2, shape=(6, 4), typestr="B", stream=unknown),
    )
    yield (
        "vali",
        lambda: Vali((4, 6, 3), "|u1", stream=STREAM),
        dict(version=3, shape=(4, 6, 3), typestr="|u1", strides=(18, 3, 1), stream=STREAM),
    )
    yield (
        "spdl",
        lambda: Spdl((4, 6), "|f4", stream=STREAM),
        dict(shape=(4, 6), typestr="|f4", stream=STREAM),
    )
    yield (
        "spdl-u2",
        lambda: Spdl((4, 6), "|u2", stream=STREAM),
        dict(shape=(4, 6), typestr="|u2", stream=STREAM),
    )
    yield "hoomd", lambda: Hoomd(), dict(version=2, typestr="f", strides=(16, 4), stream=unknown)
    yield (
        "hoomd-double",
        lambda: Hoomd(typestr="<f8", readonly=True),
        dict(typestr="d", strides=(32, 8), readonly=True, stream=unknown),
    )
    yield (
        "hoomd-int",
        lambda: Hoomd(typestr="<i4"),
        dict(typestr="i", strides=(16, 4), stream=unknown),
    )
    yield (
        "hoomd-empty",
        lambda: Hoomd((0, 4)),
        dict(typestr="f", shape=(0,), strides=(0,), data=0, stream=unknown),
    )
    yield "mirheo", lambda: Mirheo(), dict(version=2, strides=(16, 4), stream=unknown)
    yield "ctranslate2", lambda: CTranslate2(), dict(version=3, stream=none)
    yield (
        "pyamrex",
        lambda: PyAmrex((3, 4), strides=(4, 12)),
        dict(version=3, strides=(4, 12), stream=none),
    )
    yield "genn", lambda: Genn(), dict(version=3, stream=none)
    yield "cuvec", lambda: CuVec(), dict(version=3, stream=none)
    yield (
        "slangpy-bfloat16",
        lambda: SlangPy(typestr="<V2"),
        dict(version=3, typestr="<V2", strides=(8, 2), stream=none),
    )
    yield (
        "ucxx",
        lambda: Ucxx((100,), "|u1"),
        dict(version=2, shape=(100,), typestr="|u1", stream=unknown),
    )
    yield "isaac-teleop", lambda: IsaacTeleop(), dict(version=3, strides=(16, 4), stream=1)
    yield "stf", lambda: Stf(), dict(version=3, stream=none)
    yield "stf-argument", lambda: Stf(readonly=True), dict(readonly=True, stream=none)
    yield "stf-empty", lambda: Stf((0, 4)), dict(shape=(0, 4), data=0, stream=none)
    yield "paddle", lambda: Paddle(), dict(version=2, stream=unknown)
    yield "xgboost", lambda: XgBoost(), dict(version=3, readonly=True, stream=2)


PRODUCERS = list(rows())

# (name, how to make it, the exception, a part of its text)
KEY = "__cuda_array_interface__"
REFUSALS = [
    ("cupy-on-hip", lambda: CuPyOnHip(), TypeError, KEY),
    ("cupy-version-1", lambda: changed(CuPy(), version=1), ValueError, "EXPORT_VERSION"),
    ("torch-on-cpu", lambda: changed(Torch(), is_cuda=False), TypeError, KEY),
    (
        "torch-requires-grad",
        lambda: changed(Torch(), requires_grad=True),
        RuntimeError,
        "requires grad",
    ),
    ("torch-float8", lambda: changed(Torch(), scalar="float8_e4m3fn"), KeyError, "float8_e4m3fn"),
    ("jax-on-cpu", lambda: JaxOnCpu(), TypeError, KEY),
    (
        "jax-ffi-on-cpu",
        lambda: changed(JaxFfi(), platform="Host"),
        RuntimeError,
        "Unsupported platform",
    ),
    ("cudf-strings", lambda: CudfStrings(), NotImplementedError, "Strings are not yet"),
    ("cudf-categorical", lambda: CudfCategorical(), TypeError, "Categorical does not support"),
    ("warp-on-cpu", lambda: changed(Warp(), on_cpu=True), TypeError, KEY),
    (
        "nvimagecodec-on-host",
        lambda: changed(NvImageCodec(), on_host=True),
        RuntimeError,
        "host buffer",
    ),
    ("holoscan-null", lambda: Holoscan((0,)), TypeError, KEY),
    (
        "tensorrt-bfloat16",
        lambda: changed(TensorRt(), scalar="BF16"),
        ValueError,
        "bfloat16 is not supported",
    ),
    ("vali-default-stream", lambda: Vali(), ValueError, KEY + "['stream']"),
    ("tensorrt-null-stream", lambda: TensorRt(stream=0), ValueError, KEY + "['stream']"),
    ("genn-on-cpu", lambda: changed(Genn(), backend="CPU"), RuntimeError, "CUDA backend"),
    ("isaac-teleop-null", lambda: IsaacTeleop((0,)), RuntimeError, "no device memory"),
]
