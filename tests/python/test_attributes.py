"""`shape`, `strides`, `dtype` and `device` of exported arrays, and what NumPy makes of them."""

import operator
import subprocess
import sys
from collections import abc

import cai_python as P
import pytest
from cai_python import ROOT, give, make

from libcai import _view

view = _view.function(str(P.LIBRARY))


def test_shape_and_strides_of_bits():
    """Of other types: test_export_rows.py."""
    with make((16,), "|t1") as array:
        assert give(array).shape == (16,) and give(array).strides is None


def lengths(make_object):
    """`len` is the first extent; it makes the object neither a sequence nor false."""
    for shape in ((3, 4), (1,), (0, 4), (2**40, 0)):
        obj = make_object(shape)
        assert len(obj) == shape[0] and operator.length_hint(obj) == shape[0]
        assert obj and not hasattr(obj, "__iter__") and not hasattr(obj, "__getitem__")
        assert not isinstance(obj, (abc.Sequence, abc.Iterable, abc.Mapping)) and isinstance(obj, abc.Sized)
        for refused in (iter, list, reversed, lambda obj: obj[0], lambda obj: 0 in obj, lambda obj: [*obj]):
            # CPython 3.9 makes a list of this length before it asks for an iterator.
            with pytest.raises((TypeError, MemoryError) if refused is list else TypeError):
                refused(obj)
    with pytest.raises(TypeError, match="shape: found no dimensions"):
        len(make_object(()))
    assert make_object(())


def test_length():
    def exported(shape):
        with make(shape, device=(P.CUDA, 0)) as array:
            return give(array)

    lengths(exported)
    lengths(lambda shape: view(exported(shape), -1))
    with make((16,), "|t1") as array:
        assert len(give(array)) == 16
    with view(exported((3,)), -1) as seen:
        pass
    with pytest.raises(ValueError, match="released"):
        len(seen)
    assert seen


def test_device():
    for device, name in [
        ((P.CPU, 0), "cpu"),
        ((P.CUDA, 0), "cuda:0"),
        ((P.CUDA, 3), "cuda:3"),
        ((P.CUDA_HOST, 0), "cuda_host:0"),
        ((P.CUDA_MANAGED, 1), "cuda_managed:1"),
        ((P.ONEAPI, 1), "oneapi:1"),
        ((10, 2), "rocm:2"),
    ]:
        with make(device=device) as array:
            assert give(array).device == name
            assert f"device={name.partition(':')[0]}:" in repr(give(array))


def test_the_device_is_not_known():
    """No driver knows it either."""
    with make(device=(P.UNKNOWN, 0)) as array:
        assert give(array).device is None


def test_dtype():
    """Fields and other types: test_export_rows.py."""
    numpy = pytest.importorskip("numpy")
    for typestr, fields, expected in [
        ("<f4", None, numpy.dtype("<f4")), ("<M8[us]", None, numpy.dtype("<M8[us]")), ("|t1", None, "|t1"),
        ("|V16", "[('', '|V8'), (('title', 'b'), [('', '|V4'), ('x', '<f4')])]", numpy.dtype(
            {"names": ["b"], "titles": ["title"], "offsets": [8], "itemsize": 16,
             "formats": [numpy.dtype({"names": ["x"], "formats": ["<f4"], "offsets": [4], "itemsize": 8})]})),
    ]:  # fmt: skip
        with make((3,), typestr, descr=fields) as array:
            assert give(array).dtype == expected


@pytest.mark.parametrize(
    "typestr, code, name",
    [("<V2", P.BFLOAT16, "bfloat16"), ("|V1", P.FLOAT8_E4M3FN, "float8_e4m3fn"), ("|u1", P.FLOAT8_E5M2, "float8_e5m2"),
     ("|V1", 256, "int4"), ("|V1", 17, "float4_e2m1fn"), ("|V1", 261, "int1"), ("|V1", 262, "uint1")],
)  # fmt: skip
def test_dtype_of_types_with_a_code(typestr, code, name):
    numpy, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    # Older versions of ml_dtypes lack some.
    expected = getattr(ml_dtypes, name, typestr)
    with make((3,), typestr, dtype_code=code) as array:
        assert give(array).dtype == numpy.dtype(expected)


WITHOUT = """
import sys
sys.modules["numpy"] = None
sys.path.insert(0, {folder!r})
from cai_python import give, make
with make((3,), "<f4") as array:
    assert give(array).dtype == "<f4", give(array).dtype
with make((3,), "<V2", dtype_code=4) as array:
    assert give(array).dtype == "<V2"
with make((3,), "|V12", descr="[('a', '<i4'), ('b', '<f8')]") as array:
    assert give(array).dtype == [("a", "<i4"), ("b", "<f8")]
"""


def test_dtype_without_numpy():
    code = WITHOUT.format(folder=str(ROOT / "tests/python"))
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numpy_refuses_an_array_on_a_device():
    """It would make an array of one Python object."""
    numpy = pytest.importorskip("numpy")
    with make(device=(P.CUDA, 1)) as array:
        obj = give(array)
        for function in (numpy.asarray, numpy.array, lambda x: numpy.asarray(x, dtype="<f4"), lambda x: x.__array__()):
            with pytest.raises(TypeError) as raised:
                function(obj)
            assert str(raised.value) == (
                "__array__: found an array on device cuda:1, expected host memory: copy it with "
                'numpy.from_dlpack(x, device="cpu")'
            )
    with make(device=(P.UNKNOWN, 0)) as array:
        with pytest.raises(TypeError, match="an array on device unknown"):
            numpy.asarray(give(array))


def test_numpy_reads_an_array_in_host_memory():
    numpy = pytest.importorskip("numpy")
    memory = numpy.arange(6, dtype="<f4")
    with make((2, 3), "<f4", memory.ctypes.data, device=(P.CPU, 0)) as array:
        obj = give(array)
        assert obj.__array__().ctypes.data == memory.ctypes.data
        assert obj.__array__("<f8").dtype == "<f8" and obj.__array__(dtype="<f8").tolist() == [[0, 1, 2], [3, 4, 5]]
    with make((48,), "|t1", memory.ctypes.data, device=(P.CPU, 0)) as array:
        with pytest.raises(TypeError, match="cannot express"):
            numpy.asarray(give(array))
