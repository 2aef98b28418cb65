"""What the tests of `libcai.inspect` share: producers of dictionaries, and a checked inspection."""

import ctypes
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]

import libcai
from dlpack_ctypes import new_capsule  # noqa: F401

P = 0x7F0000000000


LIBRARY = os.environ.get("CAI_LIBRARY", str(ROOT / "target/release/libcai.so"))


def look(obj, library=LIBRARY):
    found = libcai.inspect(obj, library)
    text = str(found)
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) <= 100
    json.loads(found.to_json())
    assert [finding.number for finding in found.findings] == list(range(1, len(found.findings) + 1))
    return found


def rules(found, protocol=None):
    return {finding.rule for finding in found.findings if protocol in (None, finding.protocol)}


class Fresh:
    """A new dictionary for each reading, as most libraries make it."""

    def __init__(self, said, **attributes):
        self._said = said
        vars(self).update(attributes)

    @property
    def __cuda_array_interface__(self):
        return dict(self._said)


class Raises:
    def __init__(self, error):
        self._error = error

    @property
    def __cuda_array_interface__(self):
        raise self._error


def cai(shape, typestr, data, version, **more):
    return {"shape": shape, "typestr": typestr, "data": data, "version": version, **more}


def shared(said):
    holder = type("Holder", (), {})()
    holder.__cuda_array_interface__ = said
    return holder


DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
