"""What the tests of imports share: exporters of dictionaries, and checked refusals."""

import pytest
from cai_python import ERRORS, Exporter, Refused, even, take
from producers import ADDRESS

CAI = "__cuda_array_interface__"

MISSING = object()


def interface(**changes):
    found = dict(
        shape=(3, 4), typestr="<f4", data=(ADDRESS, False), version=3, strides=None, stream=None
    )
    found.update(changes)
    return {key: value for key, value in found.items() if value is not MISSING}


def exporter(**changes):
    return Exporter(interface(**changes))


def refused(obj, kind, text="", status=None, **options):
    """The exception, the key it names, the status; the same status when no exception is wanted; nothing is held."""

    def attempt(**more):
        try:
            take(obj, **options, **more).release()
        except BaseException as error:
            # Without its traceback, which holds everything.
            return type(error), str(error.args[0]), getattr(error, "code", None)
        pytest.fail("it came in")

    with even(obj):
        found, words, _ = attempt()
    assert found is kind, (found, words)
    assert text in words and words == take.error.message.decode(), words
    code, field = take.error.code, take.error.field
    assert status is None or code == ERRORS[status], words
    with even(obj):
        found, _, quiet_code = attempt(quiet=True)
    assert found is Refused and quiet_code == code and take.error.field == field
    return words


class Index:
    """A number that is none of the built-in ones."""

    def __init__(self, value):
        self.value = value

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
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


def mask_of(**changes):
    return exporter(**(dict(typestr="|b1", data=(ADDRESS + 1024, False)) | changes))
