"""The ways on which the entries of a dictionary reach the library, each of which every row of import_rows.py takes.

`check(way, row)` imports the row's entries in each mode, with and without an exception, and compares the array, or the
status and the path. Where a way differs from the dictionary of CUDA, its class says how and why. Needs nothing but the
standard library: test_import_rows.py runs it under pytest, every_python.py under every CPython.
"""

import ast
import collections.abc
import contextlib
import ctypes as c
import gc
import re
import sys
import types

import cai_ctypes as T
import cai_python as P
from dlpack_ctypes import ArrayInterface, Tensor, Versioned, new_capsule
from importing import ADDRESS, CAI, MISSING, interface, publish, same_type
from lending import Lender

QUEUE = 0x5151_0000
MODES = {"default": {}, "strict": {"strict": True}, "lenient": {"lenient": True}}
FIELDS = "shape strides typestr data readonly stream version device dtype_code context byte_offset descr mask event".split()


class Row:
    """Entries that replace those of a sound dictionary, and the outcome of an import.

    entries     by key; under the key "" an object in place of the dictionary, or what makes one of the sound dictionary
    outcome     a dictionary: the array comes in, with these fields, and others as the entries state them, or as they are
                in the sound dictionary
                a text: the status without CAI_ERR_, and the path behind `['key']`, of the first of the entries; a path that begins with `['` replaces `['key']`, one behind `=` is the whole, and `*` is the interface
                an exception, which is passed through; or its class, if Python makes it
    strict, lenient     the outcomes in these modes, if they differ
    options     those of the import, in every mode
    only        the ways on which the row makes sense, if not on all: cuda, host, sycl, buffer
    says        a part of the message
    """

    def __init__(self, entries, outcome, only=None, says="", options=None, **modes):
        self.entries, self.only, self.says, self.options = entries, only and only.split(), says, options or {}
        outcomes = {mode: modes.get(mode, outcome) for mode in MODES}
        self.outcomes = {mode: {**stated(entries), **found} if type(found) is dict else found for mode, found in outcomes.items()}
        assert not set(modes) - set(MODES)

    @property
    def key(self):
        return next(iter(self.entries), "")

    @property
    def fields(self):
        """The fields of the array, if it comes in in any mode."""
        return next((outcome for outcome in self.outcomes.values() if isinstance(outcome, dict)), None)

    def __repr__(self):
        entries, options = (", ".join(f"{key}={shown(found[key])}" for key in found) for found in (self.entries, self.options))
        return (entries or "sound") + f" with {options}" * bool(options)


def stated(entries):
    """The fields that plain entries state."""
    fields = {key: entries[key] for key in ("shape", "strides") if is_row(entries.get(key))}
    data, typestr, stream = (entries.get(key) for key in ("data", "typestr", "stream"))
    if type(data) is tuple and [type(item) for item in data] == [int, bool]:
        fields.update(data=0 if 0 in fields.get("shape", ()) else data[0], readonly=data[1])
    if type(typestr) is str:
        fields["typestr"] = typestr
    if type(stream) is int:
        fields["stream"] = stream
    return fields


def is_row(numbers):
    return type(numbers) is tuple and all(type(number) is int and -(1 << 63) <= number < 1 << 63 for number in numbers)


def near(distance, number):
    return f"ADDRESS + {distance}" if 0 < distance < 1 << 14 else "ADDRESS" if not distance else number


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
        text = re.sub(r"\d{9,}", lambda found: near(int(found[0]) - ADDRESS, found[0]), repr(value))
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
    """`__cuda_array_interface__`, which is the dictionary or something like it."""

    word, name, options = "cuda", CAI, {}
    fields = {"stream": None, "version": 3, "device": (P.UNKNOWN, 0)}

    def __init__(self, kind=dict):
        self.kind = kind

    def takes(self, row):
        """Whether the row makes sense on this way."""
        return row.only is None or self.word in row.only

    def sound(self):
        return interface()

    def dictionary(self, changes, kind=dict):
        found = {**self.sound(), **changes}
        if isinstance(found.get("mask"), Mask):
            found["mask"] = Offers(self.name, self.dictionary(found["mask"].changes))
        return kind({key: value for key, value in found.items() if value is not MISSING})

    def make(self, row):
        whole = row.entries.get("", self.kind)
        if isinstance(whole, (type, types.FunctionType)):
            whole = self.dictionary({key: value for key, value in row.entries.items() if key != ""}, whole)
        return Offers(self.name, whole)

    def expected(self, row, mode):
        return row.outcomes[mode]

    def take(self, obj, **options):
        return P.take(obj, **options)

    def path(self, status, key, rest):
        if rest.startswith("="):
            return rest[1:]
        rest = rest.replace("*", self.name)
        return self.name + (rest if rest.startswith("['") or not key else f"['{key}']{rest}")

    def array(self, taken):
        return taken


class OfMapping(Way):
    """A mapping that is no dictionary, which strict mode does not take."""

    def takes(self, row):
        return super().takes(row) and "" not in row.entries

    def expected(self, row, mode):
        return "TYPE =" + self.name if mode == "strict" else row.outcomes[mode]


class Bare(Way):
    """The dictionary itself, and an owner."""

    def takes(self, row):
        return super().takes(row) and "" not in row.entries

    def make(self, row):
        return self.dictionary(row.entries)

    def take(self, obj, **options):
        array, P.take.error = T.new_array(stream=0), T.Error()
        arguments = id(obj), id(self), c.byref(P.import_options(**options)), c.byref(array), c.byref(P.take.error)
        status = P.held.cai_array_from_python_dict(*arguments)
        if status:
            assert status == P.take.error.code and not array.owner
            raise P.Refused(status, P.take.error.message.decode())
        return P.Taken(array)


class OfMask(Way):
    """The mask of an array of the same shape, of bytes. Refusals name the whole path to it."""

    name, options = f"{CAI}['mask'].{CAI}", {"allow_mask": True}

    def takes(self, row):
        of_bytes = {"typestr", "descr"} & set(row.entries) or row.fields and "contiguous" in row.fields
        nested = row.options or {"mask", ""} & set(row.entries)
        return super().takes(row) and not nested and (row.fields is None or not of_bytes)

    def sound(self):
        return {**interface(), "typestr": "|b1"}

    def make(self, row):
        shape = (row.fields or {}).get("shape", (3, 4))
        mask = P.Exporter(self.dictionary(row.entries))
        return P.Exporter(interface(shape=shape, data=(0 if 0 in shape else ADDRESS, False), mask=mask))

    def expected(self, row, mode):
        outcome = row.outcomes[mode]
        return {"typestr": "|b1", **outcome} if isinstance(outcome, dict) else outcome

    def array(self, taken):
        return taken.mask


class OfHost(Way):
    """`__array_interface__`. NumPy's specification has one version, no stream, and no rule for the address of an array
    without elements."""

    word, name, options = "host", "__array_interface__", {"host": True, "protocols": [P.ARRAY_INTERFACE]}
    fields = {**Way.fields, "device": (P.CPU, 0)}

    def takes(self, row):
        return super().takes(row) and "stream" not in row.entries

    def sound(self):
        return interface(stream=MISSING)

    def expected(self, row, mode):
        return row.outcomes["default" if str(row.outcomes[mode]).startswith("DATA_NOT_NULL") else mode]


def of_other_kind(row):
    """Whether the row has fields of another kind than V, which only the specifications with `descr` check."""
    return row.key == "descr" and row.entries.get("typestr", "<f4")[1] != "V"


def in_elements(strides):
    """Strides in elements of four bytes, if they are whole."""
    if type(strides) is tuple and all(type(stride) is int and stride % 4 == 0 for stride in strides):
        return tuple(stride // 4 for stride in strides)


class OfSycl(OfHost):
    """`__sycl_usm_array_interface__`. Its strides count elements; in strict mode its types are numbers and booleans. It
    does not name `descr`, which is read for types of fields only."""

    word, name, options = "sycl", "__sycl_usm_array_interface__", {"protocols": [P.SYCL_USM]}
    fields = {"stream": QUEUE, "version": 3, "device": (P.ONEAPI, -1)}

    def converts(self, row):
        return row.only is None and row.fields is not None and isinstance(row.entries.get("strides"), collections.abc.Iterable)

    def takes(self, row):
        return super().takes(row) and (not self.converts(row) or in_elements(row.entries["strides"]) is not None)

    def sound(self):
        return interface(version=1, stream=MISSING, syclobj=capsule("SyclQueueRef"))

    def make(self, row):
        if self.converts(row):
            row = Row({**row.entries, "strides": in_elements(row.entries["strides"])}, None)
        return super().make(row)

    def expected(self, row, mode):
        outcome = super().expected(row, "default" if of_other_kind(row) else mode)
        typestr = row.entries.get("typestr")
        if mode == "strict" and isinstance(typestr, str) and re.match("[<>|][^biufc]", typestr):
            if row.fields or row.key == "descr" or outcome == "ITEMSIZE":
                return "TYPESTR_KIND ['typestr']"
        return outcome


class OfBuffer(Way):
    """The buffer interface: `shape` and `strides` are attributes, and so is `dtype`, which has the rest of the type. Its
    own rows have `dtype`, `buffer`, `_ptr` and `offset`, too."""

    word, name, options = "buffer", "buffer interface", {"opencl": True, "protocols": [P.OPENCL_BUFFER]}
    fields = {"stream": P.STREAM_UNKNOWN, "version": 3, "device": (P.OPENCL, -1)}

    def takes(self, row):
        is_array = row.entries.get("shape") is not MISSING and isinstance(row.entries.get("typestr", ""), str)
        return row.only == ["buffer"] or super().takes(row) and is_array and not set(row.entries) - {"shape", "strides", "typestr", "descr"}

    def make(self, row):
        found = {"shape": (3, 4), "strides": None, "typestr": "<f4", "offset": 0, "_ptr": ADDRESS, **row.entries}
        typestr, pointer = found.pop("typestr"), found.pop("_ptr")
        more = {"descr": found.pop("descr")} if "descr" in found else {}
        found.setdefault("dtype", types.SimpleNamespace(str=typestr, **more) if more else typestr)
        found.setdefault("buffer", types.SimpleNamespace(_ptr=pointer))
        return types.SimpleNamespace(**{key: value for key, value in found.items() if value is not MISSING})

    def expected(self, row, mode):
        return row.outcomes["default" if of_other_kind(row) else mode]

    def path(self, status, key, rest):
        return re.sub(r"(?<=face\[')(typestr|descr)(?='\])", "dtype", super().path(status, key, rest))


NAMES = {}


def capsule(name, address=QUEUE):
    return new_capsule(address, NAMES.setdefault(name, name and name.encode()), None)


class InC(Way):
    """Structures of C, for rows of plain integers. Modes are about objects, and do not matter."""

    CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
    fields = {**Way.fields, "device": (P.CPU, 0)}
    # The members that are not called as the keys.
    called = {"data[0]": "data"}

    def takes(self, row):
        if not super().takes(row) or row.options or set(row.entries) - {"shape", "strides", "data", "typestr"}:
            return False
        shape, strides, data, typestr = self.values(row)
        is_pair = type(data) is tuple and [type(item) for item in data] == [int, bool] and 0 <= data[0] < 1 << 64
        is_strides = strides is None or is_row(strides) and is_row(shape) and len(strides) == len(shape) > 0
        return is_pair and is_row(shape) and is_strides and isinstance(typestr, str) and self.has(typestr)

    def has(self, typestr):
        """Whether the type can be stated in numbers."""
        return re.fullmatch("[|][biu]1|<[iuf][248]|<c(8|16)", typestr)

    def values(self, row):
        found = {"shape": (3, 4), "strides": None, "data": (ADDRESS, False), "typestr": "<f4", **row.entries}
        return [found[key] for key in ("shape", "strides", "data", "typestr")]

    def expected(self, row, mode):
        return row.outcomes["default"]

    def members(self, row, integer=c.c_int64):
        shape, strides, (address, readonly), typestr = self.values(row)
        rows = [numbers and (integer * len(numbers))(*numbers) for numbers in (shape or (0,), strides)]
        return len(shape), *rows, address, readonly, typestr

    def path(self, status, key, rest):
        # ['shape'][1] is the member shape[1].
        found = "ndim" if status == "NDIM" else re.sub(r"^(\w*)\['(\w+)'\]", r"\2", key + rest)
        return self.name + self.called.get(found, found)


class OfStruct(InC):
    """`__array_struct__`"""

    name, options, called = "__array_struct__.", {"host": True, "protocols": [P.ARRAY_STRUCT]}, {**InC.called, "ndim": "nd"}

    def make(self, row):
        ndim, shape, strides, address, readonly, typestr = self.members(row, c.c_ssize_t)
        flags = 0x001 | 0x100 | 0x200 | (0 if readonly else 0x400)
        made = ArrayInterface(2, ndim, typestr[1].encode(), int(typestr[2:]), flags, shape, strides, address)
        return types.SimpleNamespace(__array_struct__=capsule(None, c.addressof(made)), made=made)


class OfPep3118(InC):
    """`Py_buffer` of PEP 3118"""

    name, options = "Py_buffer.", {"host": True, "protocols": [P.PEP3118]}
    FORMATS = {"b1": b"?", "i1": b"b", "u1": b"B", "i2": b"h", "u2": b"H", "i4": b"i", "u4": b"I", "i8": b"q", "u8": b"Q",
               "f2": b"e", "f4": b"f", "f8": b"d", "c8": b"Zf", "c16": b"Zd"}  # fmt: skip

    def make(self, row):
        shape, strides, (address, readonly), typestr = self.values(row)
        format = b"<" + self.FORMATS[typestr[1:]]
        return Lender(address, format, int(typestr[2:]), len(shape), shape or None, strides, readonly=readonly)


class OfDlpack(InC):
    """`__dlpack__`, whose strides count elements."""

    name, options = "__dlpack__.", {"host": True, "protocols": [P.DLPACK]}

    def takes(self, row):
        return super().takes(row) and (row.entries.get("strides") is None or in_elements(row.entries["strides"]) is not None)

    def make(self, row):
        ndim, shape, strides, address, readonly, typestr = self.members(row)
        size = int(typestr[2:])
        for index in range(ndim if strides else 0):
            strides[index] //= size
        tensor = Tensor(address, P.CPU, 0, ndim, self.CODES[typestr[1]], 8 * size, 1, shape, strides, 0)
        made = Versioned(1, 0, None, None, int(readonly), tensor)
        make = lambda **_: capsule("dltensor_versioned", c.addressof(made))  # noqa: E731
        return types.SimpleNamespace(__dlpack__=make, __dlpack_device__=lambda: (P.CPU, 0))


class OfArray(InC):
    """A `cai_array`, for functions that check it. It has to be as the specification asks for: as in strict mode."""

    name, fields = "", Way.fields

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def has(self, typestr):
        is_native = self.function is not P.held.cai_unstable_array_to_json or typestr[:1] != ">"
        return is_native and len(typestr) < 16 and typestr.isascii() and "\0" not in typestr

    def make(self, row):
        ndim, shape, strides, address, readonly, typestr = self.members(row)
        return T.new_array(ndim=ndim, shape=shape, strides=strides, data=address, flags=readonly, stream=P.STREAM_NONE, version=3,
                           typestr=typestr.encode())  # fmt: skip

    def expected(self, row, mode):
        return row.outcomes["strict"]

    def take(self, obj, quiet=False, **_):
        P.take.error = T.Error()
        status = self.function(c.byref(obj), *self.arguments, c.byref(P.take.error))
        if status and quiet:
            raise P.Refused(status, P.take.error.message.decode())
        if status:
            P.held.cai_python_raise(c.byref(P.take.error))
        return P.Taken(obj, owned=False)


class OfTable(OfArray):
    """The table of a type, whose arrays are checked like all others, and released if they are refused."""

    name, options = "__cai_exchange_api__.", {"protocols": [P.EXCHANGE]}

    def __init__(self):
        super().__init__(None)
        self.counted, self.given = P.Counted(), 0
        self.type = type("Tabled", (Offers,), {})
        assert publish(self.type, self.describe)[0] == 0

    def describe(self, obj, out, error):
        out[0] = obj.array
        out[0].owner = self.counted.owner()
        self.given += 1
        return 0

    def make(self, row):
        return self.type("array", super().make(row))

    def take(self, obj, **options):
        try:
            return P.take(obj, **options)
        except Exception:
            assert self.counted.gone == self.given
            raise


WAYS = {
    "dict": Way(), "derived": Way(Derived), "mapping": OfMapping(Mapping), "bare": Bare(), "mask": OfMask(), "host": OfHost(),
    "sycl": OfSycl(), "buffer": OfBuffer(), "struct": OfStruct(), "pep3118": OfPep3118(), "dlpack": OfDlpack(), "table": OfTable(),
    "array": OfArray(P.held.cai_array_validate, T.CHECK_LAYOUT), "json": OfArray(P.held.cai_unstable_array_to_json, None, 0, None),
}  # fmt: skip


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
    # A collection in between would take references that earlier failures left in cycles.
    gc.disable()
    try:
        before = list(map(sys.getrefcount, objects))
        yield
        assert list(map(sys.getrefcount, objects)) == before or P.soon(lambda: list(map(sys.getrefcount, objects)) == before, 1)
    finally:
        gc.enable()


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
        if mode == "strict":  # which excludes it
            options.pop("packed_mask", None)
            options.pop("version_4", None)
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
            path, code = way.path(status, row.key, rest), P.ERRORS[status]
            with unchanged(obj, row):
                found = attempt(way, obj, **options)
                error = P.take.error
                words = error.message.decode()
                assert type(found) is kind_of(status), (mode, found)
                assert (error.code, error.field.decode()) == (code, path), (mode, words)
                assert found.args == (words,) and words.isprintable(), (mode, words)
                assert not P.ONE_IN_THE_PLURAL.search(words), words
                assert outcome != row.outcomes["default"] or row.says in words, words
                found = attempt(way, obj, quiet=True, **options)
                assert type(found) is P.Refused and found.code == code and P.take.error.field == error.field, (mode, found)
