"""Imports: each row of the table, on every way on which it makes sense, and dictionaries that change meanwhile."""

import collections
import itertools
import traceback
import types

import import_ways
import pytest
from cai_python import Exporter, take
from import_rows import ROWS
from importing import Boom, interface
from producers import ADDRESS, STREAM

CASES = {}
for name, way in import_ways.WAYS.items():
    for row in filter(way.takes, ROWS):
        CASES.setdefault((name, row.key or "whole"), []).append(row)


@pytest.mark.parametrize("way, key", CASES)
def test_rows(way, key):
    """The rows of a key in one test: pytest and its processes take longer for a test than a row takes."""
    failed = []
    for row in CASES[way, key]:
        try:
            import_ways.check(way, row)
        except Exception:
            failed.append(f"{row}\n{traceback.format_exc()}")
    if failed:
        pytest.fail(f"{len(failed)} of {len(CASES[way, key])} rows:\n" + "\n".join(failed), pytrace=False)


def test_order_of_keys():
    entries = list(interface(stream=STREAM, descr=[("", "<f4")]).items())
    for order in itertools.islice(itertools.permutations(entries), 0, 5040, 97):
        with take(Exporter(dict(order))) as taken:
            assert (taken.shape, taken.typestr, taken.data, taken.stream) == ((3, 4), "<f4", ADDRESS, STREAM)


def test_keys_that_compare_as_they_like():
    class Key:
        def __init__(self, error=None):
            self.error = error

        def __hash__(self):
            return hash("shape")

        def __eq__(self, other):
            if self.error:
                raise self.error
            return False

    take(Exporter({Key(): 1, **interface()})).release()
    with pytest.raises(Boom):
        take(Exporter({Key(Boom()): 1, **{k: v for k, v in interface().items() if k != "shape"}}))


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, types.MappingProxyType])
def test_a_key_is_compared_once(kind):
    """One look-up finds a value: a key that defines comparison sees each of the library's keys at most once."""
    asked = []

    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            asked.append(str(other))
            return str.__eq__(self, other)

    given = kind(collections.OrderedDict((Key(key), value) for key, value in interface().items()))
    asked.clear()
    take(Exporter(given)).release()
    assert sorted(asked) == sorted(set(asked)) and {"shape", "typestr", "data"} <= set(asked)
