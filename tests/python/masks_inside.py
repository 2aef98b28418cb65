"""`CAI_IMPORT_QUERY_DEVICE` of arrays with masks, called by test_host_copy.py within a process on the simulated driver."""

import ctypes as c

import cai_python as P
import numpy as np
import pytest
from cai_python import even, give, make, take
from host_copy_inside import driver
from importing import exporter, mask_of, refused

VALUES, FLAGS = np.ones((3, 4), "<f4"), np.ones((3, 4), "|b1")


@pytest.fixture(scope="module")
def places():
    """An array on device 0, and masks in all places."""
    other = c.c_void_p()
    found = {"array": driver.memory(VALUES), "device 0": driver.memory(FLAGS), "managed": driver.memory(FLAGS, managed=True)}
    driver.call("cuDevicePrimaryCtxRetain", c.byref(other), 1)
    driver.call("cuCtxSetCurrent", other)
    found["device 1"] = driver.memory(FLAGS)
    driver.call("cuCtxSetCurrent", driver.context)
    found["host"] = FLAGS.ctypes.data
    return found


def masked(places, name, deep=False):
    mask = mask_of(data=(places[name], False))
    if deep:
        mask = mask_of(data=(places["device 0"], False), mask=mask)
    return exporter(data=(places["array"], False), mask=mask)


@pytest.mark.parametrize("name", ["device 0", "managed"])
def test_masks_that_the_device_can_read(places, name):
    for deep in (False, True):
        obj = masked(places, name, deep)
        with even(obj), take(obj, device=True, allow_mask=True) as taken:
            assert taken.device == (P.CUDA, 0) and taken.mask.data


@pytest.mark.parametrize("name", ["device 1", "host"])
def test_masks_that_the_device_cannot_read(places, name):
    """The dictionary does not state where memory is; the driver knows it."""
    take(masked(places, name), allow_mask=True).release()
    refused(masked(places, name), ValueError, "mask.device", "MASK_DEVICE", allow_mask=True, device=True)
    text = refused(masked(places, name, True), ValueError, "mask.mask.device", "MASK_DEVICE", allow_mask=True, device=True)
    assert "cuda:0 can read" in text


@pytest.mark.parametrize("name", ["device 1", "host"])
def test_masks_of_no_elements(places, name):
    """Without elements, nothing is read through the mask, which may have elements; but through the mask's own mask."""
    mask = mask_of(data=(places[name], False), shape=(3, 1))
    with take(exporter(data=(0, False), shape=(3, 0), mask=mask), device=True, allow_mask=True) as taken:
        assert taken.device[0] == P.CUDA and taken.mask.data == places[name]
    empty = mask_of(data=(0, False), shape=(3, 0), mask=mask)
    take(exporter(data=(0, False), shape=(3, 0), mask=empty), device=True, allow_mask=True).release()
    mask = mask_of(data=(places["device 0"], False), shape=(3, 1), mask=mask)
    obj = exporter(data=(0, False), shape=(3, 0), mask=mask)
    refused(obj, ValueError, "mask.mask.device", "MASK_DEVICE", allow_mask=True, device=True)


def test_a_mask_of_known_place(places):
    """The array's own place becomes known by the question."""
    for device, name, fits in (
        ((P.CUDA, 0), "device 0", True), ((P.CUDA, 1), "device 1", False), ((P.CUDA_MANAGED, 0), "managed", True),
    ):  # fmt: skip
        with make((3, 4), "|b1", places[name], device=device) as mask:
            obj = exporter(data=(places["array"], False), mask=give(mask))
            take(obj, allow_mask=True).release()
            if fits:
                take(obj, allow_mask=True, device=True).release()
            else:
                refused(obj, ValueError, "mask.device", "MASK_DEVICE", allow_mask=True, device=True)
