"""Imports: masks of other objects, in other memory, and how long they live."""

import gc
import weakref

import cai_python as P
import numpy as np
import pytest
from cai_python import ERRORS, Exporter, even, give, make, take
from importing import CAI, Boom, Property, exporter, interface, mask_of, refused
from producers import ADDRESS
from test_import_protocols import Dlpack


def test_masks_must_be_allowed():
    """Who does not ask for masks gets no array that has one, and the mask is not even looked at."""
    refused(exporter(mask=Property(Boom())), BufferError, "['mask']", "CONVERT_MASK")
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
        assert taken.mask.mask.shape == (4,) and taken.mask.mask.mask is None and taken.mask.stream == 2


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


def test_a_mask_that_raises():
    error = Boom()
    with pytest.raises(Boom) as info:
        take(exporter(mask=Property(error)), allow_mask=True)
    assert info.value is error


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
