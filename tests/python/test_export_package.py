"""`libcai.export`: every protocol from the dictionary of a class of one's own."""

import gc
import sys
import weakref

import cai_python as P
import pytest
from producers import ADDRESS

from libcai import _export


def export(obj):
    return _export.export(obj, str(P.LIBRARY))


class Array:
    def __init__(self, **changes):
        self.interface = dict(shape=(3, 4), typestr="<f4", data=(ADDRESS, False), version=3, stream=None) | changes

    @property
    def __cuda_array_interface__(self):
        return self.interface

    def __dlpack__(self, **options):
        return export(self).__dlpack__(**options)

    def __dlpack_device__(self):
        return export(self).__dlpack_device__()


def test_what_the_result_offers():
    made = export(Array())
    interface = made.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"], interface["data"]) == ((3, 4), "<f4", (ADDRESS, False))
    assert interface["stream"] is None
    # What DLPack needs of the driver: docs/src/python.md, which test_pages.py runs on the simulated one.
    assert callable(made.__dlpack__) and callable(made.__dlpack_device__)


class Host:
    """An array of NumPy, by its dictionary alone."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


@pytest.mark.parametrize("wrap", [lambda array: array, Host])
def test_host_memory(wrap):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(12, dtype="f4").reshape(3, 4)[:, ::-2]
    made = export(wrap(array))
    assert made.device == "cpu" and made.shape == (3, 2) and not hasattr(made, "__cuda_array_interface__")
    del wrap
    for back in (numpy.asarray(made), numpy.from_dlpack(made)):
        assert (back == array).all() and numpy.shares_memory(back, array)
    array.flags.writeable = False
    assert not numpy.asarray(export(array)).flags.writeable
    # The CUDA dictionary comes first.
    both = Array()
    both.__array_interface__ = array.__array_interface__
    assert export(both).__cuda_array_interface__["data"] == (ADDRESS, False)
    for found in (object(), b"bytes", [1, 2]):
        with pytest.raises(TypeError, match="none of __cuda_array_interface__, __array_interface__"):
            export(found)


def test_it_keeps_the_object_alive_and_no_longer():
    array = Array()
    alive = weakref.ref(array)
    made = [export(array) for _ in range(3)]
    del array
    gc.collect()
    assert alive() is not None
    made.clear()
    gc.collect()
    assert alive() is None


def test_the_mask_stays():
    mask = Array(shape=(3, 1), typestr="|b1")
    assert export(Array(mask=mask)).__cuda_array_interface__["mask"].__cuda_array_interface__["shape"] == (3, 1)


def test_a_wrong_dictionary():
    array = Array(shape=(-1,))
    before = sys.getrefcount(array)
    with pytest.raises(ValueError, match=r"\['shape'\]\[0\]: found -1"):
        export(array)
    assert sys.getrefcount(array) == before


def test_only_the_dictionary_is_read():
    """Where it is not offered, `__dlpack__` is not tried: it may be what asks."""

    class Without(Array):
        @property
        def __cuda_array_interface__(self):
            raise AttributeError("not now")

    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        Without().__dlpack__()


def test_the_package_has_it(monkeypatch):
    import libcai

    monkeypatch.setattr("libcai._paths.library", lambda: str(P.LIBRARY))
    assert libcai.export(Array()).__cuda_array_interface__["shape"] == (3, 4)
    assert "export" in libcai.__all__
