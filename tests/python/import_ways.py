"""The ways on which the entries of a dictionary reach the library, each of which every row of import_rows.py takes.

`check(way, row)` imports the row's entries in each mode, with and without an exception, and compares the array, or the
status and the path. Where a way differs from the dictionary of CUDA, its class says how and why. Needs nothing but the
standard library: test_import_rows.py runs it under pytest, every_python.py under every CPython.
"""

import ast
import collections.abc
import contextlib
import ctypes as c
import re
import sys
import types

import cai_ctypes as T
import cai_python as P
from importing import ADDRESS, CAI, MISSING, interface, same_type

HOST, SYCL = "__array_interface__", "__sycl_usm_array_interface__"
QUEUE = 0x5151_0000
MODES = {"default": {}, "strict": {"strict": True}, "lenient": {"lenient": True}}
FIELDS = "shape strides typestr data readonly stream version device dtype_code context byte_offset descr mask event".split()


class Row:
    """`entries` replace those of a sound dictionary; `outcome` is what comes of them.

    A dictionary has the fields of the array that differ from those of the sound one: the array comes in. A text is the
    status without CAI_ERR_, and the path: behind the first key of `entries`, or from `['` on in the whole, or as it is
    behind `=`. An exception is passed through. `strict` and `lenient` say what comes in these modes, if it differs.
    `only` names the ways, if the row makes no sense on the others; `says` is a part of the message. A class of exceptions is raised by Python itself.
    """

    def __init__(self, entries, outcome, only=None, says="", options=None, **modes):
        self.entries, self.only, self.says, self.options = entries, only and only.split(), says, options or {}
        self.outcomes = {mode: modes.get(mode, outcome) for mode in MODES}
        assert not set(modes) - set(MODES)

    @property
    def key(self):
        return next(iter(self.entries), "")

    @property
    def comes_in(self):
        return any(isinstance(outcome, dict) for outcome in self.outcomes.values())

    def __repr__(self):
        entries, options = (", ".join(f"{key}={shown(found[key])}" for key in found) for found in (self.entries, self.options))
        return (entries or "sound") + f" with {options}" * bool(options)


def near_address(found):
    distance = int(found[0]) - ADDRESS
    return f"ADDRESS + {distance}" if 0 < distance < 1 << 14 else "ADDRESS" if not distance else found[0]


def shown(value):
    """A short text of a value, the same in every process."""
    if value is MISSING:
        return "missing"
    if type(value).__repr__ in (tuple.__repr__, list.__repr__):
        text = ", ".join(map(shown, value[:5])) + ", ..." * (len(value) > 5)
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    if isinstance(value, (type, types.FunctionType)):
        return value.__name__
    if isinstance(value, int) and not -(1 << 300) < value < 1 << 300:
        return "huge"
    if type(value) in (str, bytes, int, float, bool, type(None)) or type(value).__module__ == "numpy" and not value.shape:
        text = repr(value)
        text = re.sub(r"\d{9,}", near_address, text)
        return text if len(text) < 40 else text[:36] + "..."
    return type(value).__name__ + getattr(value, "text", "")


class Mask:
    """A mask of the same interface as the array around it."""

    def __init__(self, **changes):
        self.changes = {"typestr": "|b1", "data": (ADDRESS + 1024, False), **changes}
        self.text = "".join(f" {key}={shown(value)}" for key, value in changes.items())


class Offers:
    """An object with one attribute."""

    def __init__(self, name, value):
        setattr(self, name, value)


class Derived(dict):
    pass


class Mapping(collections.abc.Mapping):
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class Way:
    """`__cuda_array_interface__`, as a dictionary or as something like it."""

    name, options, kind = CAI, {}, dict
    fields = {"stream": None, "version": 3, "device": (P.UNKNOWN, 0)}

    def __init__(self, kind=dict):
        self.kind = kind

    def takes(self, row):
        """Whether the row makes sense on this way."""
        return self.follows(row)

    @staticmethod
    def follows(row):
        return row.only is None or "cuda" in row.only

    def sound(self):
        return interface()

    def dictionary(self, changes, kind=dict):
        found = {**self.sound(), **changes}
        if isinstance(found.get("mask"), Mask):
            found["mask"] = self.offer_mask(self.dictionary(found["mask"].changes))
        return kind({key: value for key, value in found.items() if value is not MISSING})

    def offer(self, dictionary):
        return Offers(self.name, dictionary)

    def offer_mask(self, dictionary):
        return self.offer(dictionary)

    def make(self, row):
        if "" in row.entries:
            whole = row.entries[""]
            return self.offer(whole(self.dictionary({})) if isinstance(whole, (type, types.FunctionType)) else whole)
        return self.offer(self.dictionary(row.entries, self.kind))

    def expected(self, row, mode):
        """What comes of the row on this way: the same as of a dictionary."""
        return row.outcomes[mode]

    def take(self, obj, **options):
        return P.take(obj, **options)

    def path(self, key, rest):
        if rest.startswith("="):
            return rest[1:]
        rest = rest.replace("*", self.name)
        return self.name + (rest if rest.startswith("['") else f"['{key}']{rest}" if key else rest)

    def array(self, taken):
        return taken


class OfMapping(Way):
    """A mapping that is no dictionary, which strict mode does not take."""

    def takes(self, row):
        return self.follows(row) and "" not in row.entries

    def expected(self, row, mode):
        return "TYPE =" + self.name if mode == "strict" else row.outcomes[mode]


class Bare(Way):
    """The dictionary itself, and its owner."""

    def takes(self, row):
        return self.follows(row) and "" not in row.entries

    def offer(self, dictionary):
        return dictionary

    def offer_mask(self, dictionary):
        return super().offer(dictionary)

    def take(self, obj, **options):
        array, P.take.error = T.new_array(stream=0), T.Error()
        arguments = id(obj), id(self), c.byref(P.import_options(**options)), c.byref(array), c.byref(P.take.error)
        status = P.held.cai_array_from_python_dict(*arguments)
        if status:
            assert status == P.take.error.code and not array.owner
            raise P.Refused(status, P.take.error.message.decode())
        return P.Taken(array)


class OfMask(Way):
    """The mask of an array of the same shape. Refusals name the whole way to it."""

    name = f"{CAI}['mask'].{CAI}"
    options = {"allow_mask": True}

    def takes(self, row):
        if not self.follows(row) or row.options or {"mask", ""} & set(row.entries):
            return False
        # Bytes, of which other strides are dense.
        is_dense = any("contiguous" in outcome for outcome in row.outcomes.values() if isinstance(outcome, dict))
        return not row.comes_in or not ({"typestr", "descr"} & set(row.entries) or is_dense)

    def sound(self):
        return {**interface(), "typestr": "|b1"}

    def offer(self, dictionary):
        return P.Exporter(dictionary)

    def make(self, row):
        outcome = row.outcomes["default"]
        shape = outcome.get("shape", (3, 4)) if isinstance(outcome, dict) else (3, 4)
        return P.Exporter(interface(shape=shape, data=(0 if 0 in shape else ADDRESS, False), mask=super().make(row)))

    def expected(self, row, mode):
        outcome = row.outcomes[mode]
        return {"typestr": "|b1", **outcome} if isinstance(outcome, dict) else outcome

    def array(self, taken):
        return taken.mask


class OfHost(Way):
    """`__array_interface__`. NumPy's specification has one version, no stream, and no rule for the address of arrays
    without elements."""

    name, options = HOST, {"host": True, "protocols": [P.ARRAY_INTERFACE]}
    fields = {**Way.fields, "device": (P.CPU, 0)}

    @staticmethod
    def follows(row):
        return row.only is None or "host" in row.only

    def takes(self, row):
        return self.follows(row) and "stream" not in row.entries

    def sound(self):
        return interface(stream=MISSING)

    def expected(self, row, mode):
        outcome = row.outcomes[mode]
        if isinstance(outcome, str) and outcome.startswith("DATA_NOT_NULL"):
            return row.outcomes["default"]
        return outcome


def of_other_kind(row):
    """Whether the row has fields of another kind than V, which only the specifications with `descr` check."""
    return row.key == "descr" and row.entries.get("typestr", "<f4")[1] != "V"


def in_elements(strides):
    """Strides in elements of four bytes, if they are whole."""
    if type(strides) is tuple and all(type(stride) is int and stride % 4 == 0 for stride in strides):
        return tuple(stride // 4 for stride in strides)


class OfSycl(Way):
    """`__sycl_usm_array_interface__`. Its strides count elements, it has one version and no stream; in strict mode its
    types are numbers and booleans. It does not name `descr`, which is looked at for types of fields only."""

    name, options = SYCL, {"protocols": [P.SYCL_USM]}
    fields = {"stream": QUEUE, "version": 3, "device": (P.ONEAPI, -1)}

    @staticmethod
    def follows(row):
        return row.only is None or "sycl" in row.only

    def takes(self, row):
        strides = row.entries.get("strides")
        in_bytes = row.only is None and row.comes_in and strides is not None and strides is not MISSING
        return self.follows(row) and "stream" not in row.entries and (not in_bytes or in_elements(strides) is not None)

    def sound(self):
        return interface(version=1, stream=MISSING, syclobj=capsule("SyclQueueRef"))

    def make(self, row):
        strides = in_elements(row.entries.get("strides")) if row.only is None and row.comes_in else None
        changes = row.entries if strides is None else {**row.entries, "strides": strides}
        return super().make(Row(changes, row.outcomes["default"]))

    def expected(self, row, mode):
        outcome, typestr = row.outcomes[mode], row.entries.get("typestr")
        refused = isinstance(outcome, str)
        if mode == "strict" and refused and (outcome.startswith("DATA_NOT_NULL") or of_other_kind(row)):
            outcome = row.outcomes["default"]
        is_other = isinstance(typestr, str) and typestr[1:2] in tuple("VSUMmtO")
        if mode == "strict" and is_other and (row.comes_in or row.key == "descr" or outcome == "ITEMSIZE"):
            return "TYPESTR_KIND ['typestr']"
        return outcome


class OfBuffer(Way):
    """The attributes of the buffer interface, of which `shape`, `strides` and `dtype` are the entries of a dictionary."""

    name, options = "buffer interface", {"opencl": True, "protocols": [P.BUFFER]}
    fields = {"stream": P.STREAM_UNKNOWN, "version": 3, "device": (P.OPENCL, -1)}

    @staticmethod
    def follows(row):
        return row.only is None or "buffer" in row.only

    def takes(self, row):
        is_text = isinstance(row.entries.get("typestr", ""), str)
        is_array = row.entries.get("shape") is not MISSING
        return self.follows(row) and is_text and is_array and not set(row.entries) - {"shape", "strides", "typestr", "descr"}

    def make(self, row):
        found = {"shape": (3, 4), "strides": None, "typestr": "<f4", **row.entries}
        dtype = found.pop("typestr")
        if "descr" in found:
            dtype = types.SimpleNamespace(str=dtype, descr=found.pop("descr"))
        buffer = types.SimpleNamespace(_ptr=ADDRESS)
        found = {key: value for key, value in found.items() if value is not MISSING}
        return types.SimpleNamespace(buffer=buffer, offset=0, dtype=dtype, **found)

    def expected(self, row, mode):
        return row.outcomes["default" if of_other_kind(row) else mode]

    def path(self, key, rest):
        path = super().path(key, rest)
        for entry, name in (("typestr", "dtype"), ("descr", "dtype"), ("data", "buffer")):
            path = path.replace(f"{self.name}['{entry}']", f"{self.name}['{name}']")
        return path


NAMES = {}


def capsule(name, address=QUEUE):
    api = c.pythonapi
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
    return api.PyCapsule_New(address, NAMES.setdefault(name, name.encode()), None)


WAYS = {"dict": Way(), "derived": Way(Derived), "mapping": OfMapping(Mapping), "bare": Bare(), "mask": OfMask(),
        "host": OfHost(), "sycl": OfSycl(), "buffer": OfBuffer()}  # fmt: skip


def check_fields(taken, expected, of=None):
    """Compares every field with the expected ones, and with those of the sound dictionary for the rest."""
    given = dict(shape=(3, 4), strides=None, typestr="<f4", data=ADDRESS, readonly=False, dtype_code=0, context=None,
                 byte_offset=0, descr=None, mask=None, event=None)  # fmt: skip
    given.update(of or Way.fields)
    given.update(expected)
    for name, value in given.items():
        found = getattr(taken, name)
        if name == "typestr":
            assert same_type(found, value), (found, value)
            # A text that the specification allows stays as it was written.
            assert found == value or value[0] not in "<>|", (found, value)
        elif name == "mask" and value:
            assert {key: getattr(found, key) for key in value} == value
        elif name == "descr" and isinstance(value, list):
            assert ast.literal_eval(found) == value, found
        elif name == "contiguous":
            assert found() == value
        else:
            assert found == value, (name, found, value)


def kind_of(status):
    """The exception of a status."""
    kinds = {"KEY": KeyError, "TYPE": TypeError, "NO_PROTOCOL": TypeError, "READONLY": BufferError, "HOST_MEMORY": BufferError}
    return kinds.get(status, BufferError if status.startswith("CONVERT_") else ValueError)


@contextlib.contextmanager
def unchanged(obj, row):
    """What happens inside leaves the reference counts of the object and of the row's entries as they were."""
    objects = [obj, *(value for value in row.entries.values() if type(value) not in (int, str, bool, type(None), type))]
    before = list(map(sys.getrefcount, objects))
    yield
    assert list(map(sys.getrefcount, objects)) == before or P.soon(lambda: list(map(sys.getrefcount, objects)) == before, 1)


def attempt(way, obj, **options):
    """The exception, without its traceback, which holds everything; None if the array comes in."""
    try:
        way.take(obj, **options).release()
    except BaseException as error:
        return error.with_traceback(None)


def check(way, row):
    way = WAYS[way]
    for mode, flags in MODES.items():
        outcome, obj = way.expected(row, mode), way.make(row)
        options = {**way.options, **row.options, **flags}
        if isinstance(outcome, type):
            assert {type(attempt(way, obj, quiet=quiet, **options)) for quiet in (False, True)} == {outcome}, mode
        elif isinstance(outcome, BaseException):
            for quiet in (False, True):
                found = attempt(way, obj, quiet=quiet, **options)
                assert found is outcome and found.__context__ is None, (mode, found)
        elif isinstance(outcome, dict):
            with unchanged(obj, row):
                taken = way.take(obj, **options)
                check_fields(way.array(taken), outcome, way.fields)
                taken.release()
                del taken
        else:
            status, _, rest = outcome.partition(" ")
            path, code = way.path(row.key, rest), P.ERRORS[status]
            with unchanged(obj, row):
                found = attempt(way, obj, **options)
                error = P.take.error
                words = error.message.decode()
                assert type(found) is kind_of(status), (mode, found)
                assert (error.code, error.field.decode()) == (code, path), (mode, words)
                assert found.args == (words,) and words.isprintable(), (mode, words)
                assert outcome != row.outcomes["default"] or row.says in words, words
                found = attempt(way, obj, quiet=True, **options)
                assert type(found) is P.Refused and found.code == code and P.take.error.field == error.field, (mode, found)
