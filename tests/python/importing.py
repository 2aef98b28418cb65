"""What the tests of imports share: exporters of dictionaries, and checked refusals."""

import ctypes as c
import sys

import cai_ctypes as T
import cai_python as P
from cai_python import ERRORS, Exporter, Refused, even, take
from dlpack_ctypes import CAI_FROM_OBJECT, CaiTable, address_of
from producers import ADDRESS

CAI = "__cuda_array_interface__"

MISSING = object()

# Before 3.11, CPython may give a type the version that it had before a change: no type is remembered.
REMEMBERS_TYPES = sys.version_info >= (3, 11)


def interface(**changes):
    found = dict(shape=(3, 4), typestr="<f4", data=(ADDRESS, False), version=3, strides=None, stream=None)
    found.update(changes)
    return {key: value for key, value in found.items() if value is not MISSING}


def exporter(**changes):
    return Exporter(interface(**changes))


def same_type(a, b):
    """Whether two typestrs mean the same; NumPy's letters mean this machine's type."""
    letters = {"f": "<f4", "d": "<f8", "i": "<i4", "B": "|u1", "b": "|i1", "?": "|b1"}
    types = T.Dtype(), T.Dtype()
    for text, dtype in zip((a, b), types):
        assert P.held.cai_dtype_parse(letters.get(text, text).encode(), c.byref(dtype), None) == 0
    return P.held.cai_dtype_equal(*map(c.byref, types))


def refused(obj, kind, text="", status=None, **options):
    """The exception, the key it names, the status; the same status when no exception is wanted; nothing is held."""

    def attempt(**more):
        try:
            take(obj, **options, **more).release()
        except BaseException as error:
            # Without its traceback, which holds everything.
            return type(error), str(error.args[0]), getattr(error, "code", None)
        raise AssertionError("it came in")

    with even(obj):
        found, words, _ = attempt()
    assert found is kind, (found, words)
    assert text in words and words == take.error.message.decode(), words
    assert not P.ONE_IN_THE_PLURAL.search(words), words
    code, field = take.error.code, take.error.field
    assert status is None or code == ERRORS[status], words
    with even(obj):
        found, _, quiet_code = attempt(quiet=True)
    assert found is Refused and quiet_code == code and take.error.field == field
    return words


class Index:
    """A number that is none of the built-in ones."""

    def __init__(self, value):
        self.value, self.text = value, f" {value}" if type(value) is int and value < 1 << 20 else ""

    def __index__(self):
        return self.value


class Boom(Exception):
    pass


class Raises:
    """Raises whatever is done with it."""

    def __init__(self, error):
        self.error = error

    def _raise(self, *_):
        raise self.error

    __index__ = __len__ = __getitem__ = __bool__ = __iter__ = __int__ = _raise


class Property:
    def __init__(self, found):
        self.found, self.reads = found, 0

    @property
    def __cuda_array_interface__(self):
        self.reads += 1
        if isinstance(self.found, AttributeError):
            # The caller drops it. From CPython 3.12 on, it keeps the frames that it passed, and with them this object.
            raise type(self.found)(*self.found.args)
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


def mask_of(**changes):
    return exporter(**(dict(typestr="|b1", data=(ADDRESS + 1024, False)) | changes))


KEPT = []


def publish(kind, function, size=None, data_abi=1, to=None):
    """A table of a type, whose function describes its objects. Tables live as long as the process."""
    from_object = CAI_FROM_OBJECT(function)
    table = CaiTable(c.sizeof(CaiTable) if size is None else size, data_abi, address_of(from_object), to)
    KEPT.append((table, from_object))
    error = T.Error()
    return P.held.cai_unstable_python_publish(kind, c.byref(table), c.byref(error)), error


def share(array, seen=None):
    """A function for a table: it hands out an array, and notes the types of the objects."""

    def describe(obj, out, error):
        if seen is not None:
            seen.append(type(obj))
        return P.held.cai_array_share(c.byref(array.array), out, error)

    return describe
