"""Two extension modules, compiled with headers of different ages, exchange arrays in one process:
called by test_casters.py on the simulated driver."""

import gc

import casters_later as later
import casters_pybind11 as today
import pytest
from inside import Array, driver, no_races  # noqa: F401

PAIRS = [(today, later), (later, today)]
pairs = pytest.mark.parametrize("one, other", PAIRS, ids=["today-later", "later-today"])


@pairs
def test_arrays_pass_through_both(one, other):
    given = Array((2, 3), stream=1)
    back = other.echo(one.echo(given))
    del given
    gc.collect()
    found = back.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["stream"] == 1
    assert one.size2(back) == other.size2(back) == one.flat(back) == other.flat(back) == 6


@pairs
def test_masks(one, other):
    masked = Array(mask=Array(typestr="|b1"))
    assert one.has_mask(masked) and other.has_mask(masked)
    with pytest.raises((BufferError, TypeError)):
        other.echo(masked)


@pairs
def test_a_class_that_one_of_them_publishes(one, other):
    """Through the exchange table of one age, with structures of the other."""
    buffer = one.buffer(6)
    assert other.size(buffer) == other.size_mutable(buffer) == 6
    back = other.echo(buffer)
    del buffer
    gc.collect()
    assert one.size(back) == 6
    with pytest.raises((BufferError, ValueError, TypeError), match="buffer: found no elements"):
        other.size(one.buffer(0))


@pairs
def test_arrays_are_kept_by_one_and_released_by_the_other(one, other):
    for _ in range(100):
        one.keep(other.echo(one.buffer(3)))
    one.drop()
    gc.collect()


@pairs
def test_both_are_in_order(one, other):
    theirs, first, second = driver.stream(), driver.stream(), driver.stream()
    given = Array((1 << 16,), stream=theirs)
    driver.write(given, 1, theirs)
    one.fill(given, 2, first)
    other.fill(given, 3, second)
    driver.write(given, 4, theirs)
    assert driver.read(given) == 4
