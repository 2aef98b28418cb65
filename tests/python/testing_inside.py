"""The project's own producers, checked by `libcai.testing`. Run by test_testing.py on the simulated driver."""

import pytest

from libcai import _export, _view
from libcai.testing._producer import PARTS, producer_report
from libcai.testing.test_self import DRIVER, LIBRARY, Sound, broadcast, current, device, on, seen

VIEW = _view.function(LIBRARY)

KNOWN = {
    "order-table": "the library has no current stream: the array is ordered on the legacy default one",
    "device-current": "a stream of 1 is another stream where another device is current, so no dictionary is offered",
}


def export(array):
    return _export.export(array, LIBRARY)


def view(array):
    return VIEW(array, current[-1])


@pytest.mark.parametrize("convert", [export, view])
def test_own(convert):
    """Both are made of an array that is correct. What they are made of is known where parts of it are wanted."""
    sources = []

    def make(shape, dtype):
        sources[:] = [Sound(shape, dtype)]
        return convert(sources[0])

    def part(how):
        return lambda _: convert(how(sources[0]))

    parts = {name: part(how or broadcast) for name, (how, *_) in PARTS.items()}
    found = producer_report(make, on=on, device=device, parts=parts, library=LIBRARY, known=KNOWN)
    assert DRIVER and found.count("pass") > 28 and set(seen(found)) <= set(KNOWN), str(found)
