"""cai/xla_ffi.h: buffers of JAX to arrays and back, in handlers that JAX calls on the processor."""

import ctypes as c
import pathlib
import sys

import cai_ctypes as T
import cai_python as P
import numpy as np
import pytest
from cai_python import give, make, take
from commands import ROOT, STRICT, compile, python_of, run, simulated

HERE = pathlib.Path(__file__).resolve().parent

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


class Buffer(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("extension", c.c_void_p), ("dtype", c.c_int), ("data", c.c_void_p),
                ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64))]  # fmt: skip


class Seen(c.Structure):
    _fields_ = [("array", T.Array), ("shape", c.c_int64 * 8), ("error", T.Error), ("calls", c.c_int32),
                ("borrowed", c.c_int32)]  # fmt: skip


def library_of(source, folder):
    flags = ["-std=c99", *STRICT, "-Wcast-qual"] if source.suffix == ".c" else ["-fpermissive", "-w"]
    return c.CDLL(str(compile(source, folder / f"{source.stem}.so", "-shared", *flags, "-isystem", jax.ffi.include_dir())))


@pytest.fixture(scope="module")
def handlers(tmp_path_factory):
    library = library_of(HERE / "xla_ffi.c", tmp_path_factory.mktemp("xla"))
    for name in ("copy", "through", "wrong_platform"):
        jax.ffi.register_ffi_target(f"cai_{name}", jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return library


def call(name, value):
    return jax.ffi.ffi_call(f"cai_{name}", jax.ShapeDtypeStruct(value.shape, value.dtype))(value)


TYPES = [
    ("bool", "|b1", 0), ("int8", "|i1", 0), ("int16", "<i2", 0), ("int32", "<i4", 0), ("int64", "<i8", 0),
    ("uint8", "|u1", 0), ("uint16", "<u2", 0), ("uint32", "<u4", 0), ("uint64", "<u8", 0), ("float16", "<f2", 0),
    ("float32", "<f4", 0), ("float64", "<f8", 0), ("complex64", "<c8", 0), ("complex128", "<c16", 0),
    ("bfloat16", "<V2", 4), ("float8_e3m4", "<V1", 7), ("float8_e4m3", "<V1", 8), ("float8_e4m3b11fnuz", "<V1", 9),
    ("float8_e4m3fn", "<V1", 10), ("float8_e4m3fnuz", "<V1", 11), ("float8_e5m2", "<V1", 12),
    ("float8_e5m2fnuz", "<V1", 13), ("float8_e8m0fnu", "<V1", 14),
]  # fmt: skip


@pytest.mark.parametrize("name", ["copy", "through"])
@pytest.mark.parametrize("dtype, typestr, code", TYPES, ids=[row[0] for row in TYPES])
def test_types(handlers, name, dtype, typestr, code):
    value = jnp.asarray(np.arange(12).reshape(3, 4) % 2).astype(dtype)
    back = call(name, value)
    assert back.dtype == value.dtype
    assert np.asarray(back).tobytes() == np.asarray(value).tobytes()
    seen = Seen.in_dll(handlers, "last")
    assert (seen.array.typestr.decode(), seen.array.dtype_code) == (typestr, code)
    assert seen.array.flags == T.FLAG_READONLY and seen.borrowed == 1


@pytest.mark.parametrize("name", ["copy", "through"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,), (2, 0, 3), (2, 3, 4), (1, 2, 1, 2, 1, 2)])
def test_shapes(handlers, name, shape):
    value = jnp.asarray(np.random.default_rng(1).random(shape))
    assert np.array_equal(call(name, value), value)
    if value.size == 0:
        return  # JAX leaves such calls out
    seen = Seen.in_dll(handlers, "last")
    assert tuple(seen.shape[: seen.array.ndim]) == shape
    assert seen.array.data and not seen.array.strides
    assert (seen.array.device.type, seen.array.device.id) == (P.CPU, 0)
    assert seen.array.stream == P.STREAM_NONE and not seen.array.owner


def test_under_jit(handlers):
    value = jnp.arange(100.0)
    function = jax.jit(lambda x: call("copy", x * 2) + 1)
    assert np.array_equal(function(value), value * 2 + 1)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_types_below_a_byte_are_refused(handlers, dtype):
    with pytest.raises(Exception, match="dtype: found .*, expected a type of whole bytes"):
        call("copy", jnp.asarray([0, 1]).astype(dtype)).block_until_ready()
    assert Seen.in_dll(handlers, "last").error.code == P.ERRORS["CONVERT_TYPE"]


def test_the_host_has_no_stream(handlers):
    with pytest.raises(Exception, match="stream: "):
        call("wrong_platform", jnp.zeros(3)).block_until_ready()
    assert Seen.in_dll(handlers, "last").error.code == P.ERRORS["CONVERT_DEVICE"]


@pytest.mark.parametrize("stream, expected", [(None, 1), (0x7000_1000, 0x7000_1000)])
def test_streams(handlers, stream, expected):
    found, device = c.c_uint64(), (c.c_int32 * 2)()
    assert handlers.stream_of(c.c_void_p(stream), c.byref(found), device) == 0
    assert found.value == expected and tuple(device) == (P.CUDA, 3)


def test_without_elements(handlers):
    """XLA may give an address, where an array has none."""
    buffer = Buffer(c.sizeof(Buffer), None, 11, 0x1000, 2, (c.c_int64 * 2)(3, 0))
    out = T.new_array()
    assert handlers.from_xla(c.byref(buffer), c.c_uint64(1), P.CUDA, 0, 0, c.byref(out), None) == 0
    assert not out.data and tuple(out.shape[:2]) == (3, 0)
    back = Buffer()
    assert handlers.to_xla(c.byref(out), c.c_uint64(1), 1, c.byref(back), None) == 0
    assert (back.dtype, back.data, back.rank, tuple(back.dims[:2])) == (11, None, 2, (3, 0))


def refused(function, *arguments):
    error = T.Error()
    status = function(*arguments, c.byref(error))
    assert status != 0
    return P.STATUS[status], error.field.decode()


def test_buffers_that_are_refused(handlers):
    buffer = Buffer(c.sizeof(Buffer), None, 11, 0x1000, 1, (c.c_int64 * 1)(3))
    out = T.Array()

    def take(**changes):
        changed = Buffer.from_buffer_copy(buffer)
        for name, value in changes.items():
            setattr(changed, name, value)
        out.struct_size = 128
        return refused(handlers.from_xla, c.byref(changed), c.c_uint64(1), P.CUDA, 0, 0, c.byref(out))

    assert take(struct_size=8) == ("STRUCT_SIZE", "buffer.struct_size")
    assert take(dtype=17) == ("CONVERT_TYPE", "dtype")
    assert take(dtype=0) == ("CONVERT_TYPE", "dtype")
    assert take(dims=None) == ("SHAPE_NULL", "shape")
    assert take(rank=65) == ("NDIM", "ndim")
    assert take(rank=-1) == ("NDIM", "ndim")
    assert take(data=None) == ("DATA_NULL", "data")
    assert take(dims=(c.c_int64 * 1)(-1)) == ("SHAPE_NEGATIVE", "shape[0]")
    out.struct_size = 128
    assert refused(handlers.from_xla, None, c.c_uint64(1), P.CUDA, 0, 0, c.byref(out)) == ("NULL_ARGUMENT", "buffer")
    assert refused(handlers.from_xla, c.byref(buffer), c.c_uint64(0), P.CUDA, 0, 0, c.byref(out))[0] == "STREAM_ZERO"
    out.struct_size = 7
    assert refused(handlers.from_xla, c.byref(buffer), c.c_uint64(1), P.CUDA, 0, 0, c.byref(out))[0] == "STRUCT_SIZE"
    assert refused(handlers.from_xla, c.byref(buffer), c.c_uint64(1), P.CUDA, 0, 0, None) == ("NULL_ARGUMENT", "out")


def test_arrays_that_are_refused(handlers):
    memory = np.zeros((3, 4), "f4")
    out = Buffer()

    def give(access=1, stream=P.STREAM_NONE, shape=(3, 4), dtype="<f4", device=(P.CPU, 0), **options):
        with make(shape, dtype, memory.ctypes.data, device=device, **options) as array:
            result = refused(handlers.to_xla, c.byref(array.array), c.c_uint64(stream), access, c.byref(out))
        assert array.counted.gone == 1
        return result

    with make((3, 4), "<f4", memory.ctypes.data, device=(P.CPU, 0)) as array:
        assert refused(handlers.to_xla, c.byref(array.array), c.c_uint64(P.STREAM_NONE), 1, None) == ("NULL_ARGUMENT", "out")
    assert give(strides=(4, 12)) == ("CONVERT_CONTIGUOUS", "strides")
    assert give(dtype=">f4") == ("CONVERT_BYTE_ORDER", "typestr")
    assert give(dtype="|V4") == ("CONVERT_TYPE", "typestr")
    assert give(dtype="<M8[s]") == ("CONVERT_TYPE", "typestr")
    assert give(access=2, readonly=True)[0] == "READONLY"
    assert give(stream=1) == ("CONVERT_DEVICE", "device.type")
    assert give(device=(P.CUDA, 0)) == ("CONVERT_DEVICE", "device.type")
    assert give(device=(P.ONEAPI, 0)) == ("CONVERT_DEVICE", "device.type")
    mask = make((3, 4), "|b1", memory.ctypes.data, device=(P.CPU, 0))
    assert give(mask=mask) == ("CONVERT_MASK", "mask")
    mask.release()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_order(tmp_path, schedule):
    """On the simulated driver: no race, and one if the order is left out."""
    headers = ["-I", ROOT / "capi-tests", "-isystem", jax.ffi.include_dir()]
    program = compile(HERE / "xla_streams.c", tmp_path / "program", "-Wall", "-Wextra", "-Werror", *headers, cuda=True)
    simulated(program, schedule=schedule)
    done = simulated(program, "wrong", schedule=schedule, check=False)
    assert done.returncode == 66 and "race" in done.stderr + done.stdout, done.stdout + done.stderr


def test_handler_of_cpp(tmp_path):
    """XLA's C++ interface hides the buffer of C. GCC takes XLA's header as C++ only with -fpermissive."""
    library = library_of(HERE / "xla_ffi.cpp", tmp_path)
    jax.ffi.register_ffi_target("cai_reverse", jax.ffi.pycapsule(library.reverse_bytes), platform="cpu")
    value = np.arange(6, dtype="i4").reshape(2, 3)
    assert np.asarray(call("reverse", jnp.asarray(value))).tobytes() == value.tobytes()[::-1]
    with pytest.raises(Exception, match="dtype: found"):
        call("reverse", jnp.zeros(2, "int4")).block_until_ready()


def test_arrays_without_a_handler():
    """The host waits for the array; on a GPU, the stream that DLPack passes would. JAX has no other handle for order."""
    value = jax.jit(lambda x: jnp.cumsum(x @ x, 0))(jnp.ones((600, 600)))
    with take(value, host=True, protocols=[P.DLPACK]) as taken:
        last = np.ctypeslib.as_array((c.c_double * 600).from_address(taken.data + 8 * 600 * 599))
        assert (last == 600.0 * 600).all() and taken.shape == (600, 600)
    with pytest.raises(RuntimeError, match="WaitUntilBufferReadyOnStream"):
        value.__dlpack__(stream=1)
    memory = np.arange(4.0)
    with make((4,), "<f8", memory.ctypes.data, device=(P.CPU, 0)) as array:
        assert np.array_equal(jax.dlpack.from_dlpack(give(array)), memory)


def test_example(tmp_path):
    source = ROOT / "contrib/examples/xla_twice.c"
    library = library_of(source, tmp_path)
    jax.ffi.register_ffi_target("cai_twice", jax.ffi.pycapsule(library.twice), platform="cpu")
    value = jnp.arange(6, dtype="float32")
    assert np.array_equal(call("twice", value), value * 2)
    with pytest.raises(Exception, match="x: expected float32"):
        call("twice", jnp.arange(6.0)).block_until_ready()
    with pytest.raises(Exception, match="args: expected one argument and one result"):
        jax.ffi.ffi_call("cai_twice", jax.ShapeDtypeStruct((6,), "float32"))(value, value).block_until_ready()
    assert run(sys.executable, "-c", python_of(source), cwd=tmp_path).stdout == "[ 0.  2.  4.  6.  8. 10.]\n"
