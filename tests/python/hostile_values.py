"""Values for hostile objects: what the entries of dictionaries, tensors and tables can be."""

import array
import collections
import ctypes as c
import gc
import random
import sys
import threading
import types

import cai_ctypes as T
import cai_python as P
import import_rows
from dlpack_ctypes import ArrayInterface, Managed, Tensor, Versioned

KEYS = "shape typestr data version strides descr mask stream offset syclobj".split()
# What the tests of imports put under each key: each row is a value for hostile dictionaries, too.
ENTRIES = [row.entries for row in import_rows.ROWS if not {"", "mask"} & set(row.entries)]
FOUND = {key: [entries[key] for entries in ENTRIES if key in entries] for key in KEYS}
SANE = {KeyError, TypeError, ValueError, BufferError, MemoryError, RuntimeError}
MEMORY = c.create_string_buffer(1 << 12)
ADDRESS = c.addressof(MEMORY)
POINTER = c.POINTER


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Both(KeyError, AttributeError):
    pass


EXCEPTIONS = [
    ValueError, TypeError, KeyError, AttributeError, IndexError, StopIteration, KeyboardInterrupt, SystemExit, GeneratorExit,
    MemoryError, RecursionError, OverflowError, UnicodeError, Odd, Both, BaseException, OSError, BufferError, RuntimeError,
    type(import_rows.BOOM),
]  # fmt: skip

api = c.pythonapi
api.PyCapsule_New.restype = c.py_object
api.PyCapsule_New.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
api.PyCapsule_SetName.argtypes = [c.py_object, c.c_char_p]
api.PyCapsule_GetPointer.restype = c.c_void_p
api.PyCapsule_GetPointer.argtypes = [c.py_object, c.c_char_p]

# Capsules keep the address of their name.
NAMES = [
    b"dltensor", b"dltensor_versioned", b"used_dltensor", b"cai_exchange_api_1", b"dlpack_exchange_api", b"SyclContextRef",
    b"SyclQueueRef", b"", b"\xff\xfe", None,
]  # fmt: skip


FROM_OBJECT = c.PYFUNCTYPE(c.c_int32, c.c_void_p, POINTER(T.Array), POINTER(T.Error))
DL_FROM_OBJECT = c.PYFUNCTYPE(c.c_int, c.c_void_p, POINTER(c.c_void_p))
DL_VIEW = c.PYFUNCTYPE(c.c_int, c.c_void_p, POINTER(Tensor))
DL_STREAM = c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, POINTER(c.c_void_p))


# Tables and what they point to live as long as the process, as their contract says.
FOREVER = []


class Bomb:
    """Garbage that does something when it is collected."""

    def __init__(self, act):
        self.act, self.me = act, self

    def __del__(self):
        self.act()


class Values:
    """Random values of every key, and actions on them; deterministic for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.things = []  # dictionaries and lists that can be changed
        self.producers = []
        self.held = []  # arrays that were taken
        self.keep = []
        self.depth = 0  # of calls inside calls
        self.acts = 60
        self.thread = threading.get_ident()
        self.calm = self.random.random() * 0.9

    # --- what happens in the middle -------------------------------------------------------------------------

    def act(self):
        """Something nasty, or nothing."""
        if self.acts <= 0 or self.random.random() < self.calm:
            return
        self.acts -= 1
        self.random.choice(self.ACTS)(self)

    def act_raise(self):
        raise self.random.choice(EXCEPTIONS)("boom")

    def act_change(self):
        for thing in self.random.sample(self.things, min(2, len(self.things))):
            if isinstance(thing, dict):
                self.random.choice([thing.clear, lambda: thing.update({str(n): n for n in range(40)}),
                                    lambda: thing.pop(self.random.choice(KEYS), None)])()  # fmt: skip
            else:
                self.random.choice([thing.clear, lambda: thing.extend([1] * 70), lambda: thing.append(thing)])()

    def act_drop(self):
        self.random.choice([self.things, self.producers, self.keep, self.held])
        for obj in self.producers:
            attributes = getattr(obj, "__dict__", None)
            if isinstance(attributes, dict):
                attributes.clear()
        if self.random.random() < 0.5:
            self.things.clear()
            self.producers.clear()

    def act_collect(self):
        gc.collect()

    def act_take(self):
        if self.depth < 3 and self.producers:
            self.take(self.random.choice(self.producers))

    def act_release(self):
        if self.held:
            self.release(self.held.pop())

    def act_give(self):
        if self.held and self.depth < 3:
            self.depth += 1
            try:
                self.give(self.held[-1])
            finally:
                self.depth -= 1

    def act_class(self):
        """Another class for a producer, so that its own may go."""
        for obj in self.producers:
            try:
                obj.__class__ = type("Other", (object,), {})
            except TypeError:
                pass
        gc.collect()

    def act_bomb(self):
        Bomb(self.act)

    ACTS = [act_raise, act_raise, act_raise, act_change, act_change, act_drop, act_collect, act_take, act_release, act_give,
            act_class, act_bomb]  # fmt: skip

    # --- values ---------------------------------------------------------------------------------------------

    def any(self, *makers):
        return self.random.choice(makers)()

    def garbage(self):
        return self.random.choice(
            [None, True, 1.5, float("nan"), 1j, "text", "\ud800", "a\0b", b"<f4", bytearray(3), (), [], {}, set(), object, type,
             Ellipsis, NotImplemented, len, iter([1]), range(3), memoryview(b"ab"), (n for n in (1, 2)), 10**5000, "é" * 3000,
             array.array("q", [1, 2]), types.MappingProxyType({"shape": (1,)}), collections.deque([1, 2]), lambda: 1]
        )  # fmt: skip

    def integer(self, *likely):
        roll = self.random.random()
        value = self.random.choice(likely or (0, 1, 2, 3))
        if roll < 0.6:
            return value
        if roll < 0.7:
            return self.random.choice(
                [0, -1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64 - 2, 2**64, -(2**63) - 1, 10**10000,
                 -(10**10000)]
            )  # fmt: skip
        if roll < 0.78:
            return type(
                "Int", (int,), {"__index__": lambda me: self.answer(value), "__repr__": lambda me: self.answer("x")}
            )(value)
        if roll < 0.95:
            lie = self.garbage() if self.random.random() < 0.2 else value
            return type("Index", (), {"__index__": lambda me: self.answer(lie)})()
        return self.garbage()

    def answer(self, value):
        self.act()
        return value

    def row(self, count, *likely):
        items = [self.integer(*likely) for _ in range(count)]
        roll = self.random.random()
        if roll < 0.55:
            return tuple(items)
        if roll < 0.75:
            self.things.append(items)
            return items
        if roll < 0.93:
            sizes = [count] * 5 + [0, count + 1, -1, 64, 65, 2**62, 10**30, "2"]
            size = self.random.choice(sizes)
            methods = {"__len__": lambda me: self.answer(size)}
            if self.random.random() < 0.7:
                methods["__getitem__"] = lambda me, index: self.answer(items[index] if index < len(items) else 1)
            base = self.random.choice([object, tuple, list, object])
            made = type("Row", (base,), methods)
            made = made(items) if base is not object else made()
            if base is list:
                self.things.append(made)
            return made
        return self.any(
            self.garbage, lambda: (n for n in items), lambda: range(count), lambda: array.array("q", [1] * count)
        )

    def typestr(self):
        text = self.random.choice(["<f4", "<f4", "|b1", "<i8", "|u1", "|t1", "<V2", "|V8", "<c16", "<U3", "|S5", "<M8[ns]", "f4",
                                   "d", ">f8", "<f1", "|V1"])  # fmt: skip
        roll = self.random.random()
        if roll < 0.75:
            return text
        if roll < 0.85:
            return type(
                "Str", (str,), {"__eq__": lambda me, o: self.answer(True), "__hash__": lambda me: self.answer(1)}
            )(text)
        return self.any(self.garbage, lambda: self.random.choice(FOUND["typestr"]), lambda: "<f" + "9" * 400)

    def flag(self):
        roll = self.random.random()
        if roll < 0.7:
            return self.random.random() < 0.5
        if roll < 0.9:
            return type("Truth", (), {"__bool__": lambda me: self.answer(self.random.choice([True, False, 2]))})()
        return self.garbage()

    def data(self):
        items = [self.integer(ADDRESS, ADDRESS, ADDRESS + 1024), self.flag()]
        roll = self.random.random()
        if roll < 0.7:
            return tuple(items)
        if roll < 0.8:
            self.things.append(items)
            return items
        if roll < 0.92:
            row = self.row(2, ADDRESS)
            return row
        return self.any(self.garbage, lambda: (None, False), lambda: (*items, 1), lambda: items[:1])

    def descr(self, depth=0):
        roll = self.random.random()
        if roll < 0.1:
            return self.garbage()
        if roll < 0.15:
            loop = []
            loop.append(("x", loop))
            self.things.append(loop)
            return loop
        if roll < 0.2:
            deep = [("x", "<f4")]
            for _ in range(self.random.choice([10, 40, 70, 3000])):
                deep = [("x", deep)]
            return deep
        if roll < 0.25:
            return [(f"field{n}", "<f4") for n in range(self.random.choice([10, 3000]))]
        if roll < 0.35:
            text = self.random.choice(["[('x', '<f4')]", "[" * 5000, "", "[('a\0', '<i4')]", "\ud800"])
            return type("Rows", (list,), {"__repr__": lambda me: self.answer(text)})([("x", "<f4")])
        if roll < 0.5:
            return self.random.choice(FOUND["descr"])
        names = ["", "x", "y", "é", "\ud800", "a\0b", "'", '"', "\\", "x" * 3000, ("title", "z"), 5, None]
        rows = []
        for _ in range(self.random.randrange(4)):
            kind = self.descr(depth + 1) if depth < 3 and self.random.random() < 0.3 else self.typestr()
            row = (self.random.choice(names), kind)
            if self.random.random() < 0.3:
                row += (self.row(self.random.randrange(3), 1, 2),)
            rows.append(row)
        self.things.append(rows)
        return tuple(rows) if self.random.random() < 0.1 else rows

    def mask(self, depth):
        roll = self.random.random()
        if roll < 0.2 and self.producers:
            return self.random.choice(self.producers)
        if roll < 0.3:
            mask = None
            for _ in range(20):
                mask = P.Exporter(dict(shape=(2,), typestr="|b1", data=(ADDRESS, False), version=3, mask=mask))
            return mask
        if roll < 0.9 and depth < 4:
            return self.producer(depth + 1)
        return self.garbage()

    def key(self, text):
        roll = self.random.random()
        if roll < 0.85:
            return text
        if roll < 0.92:
            return "".join(text)  # not the interned one
        methods = {
            "__eq__": lambda me, other: self.answer(str.__eq__(me, other)),
            "__hash__": lambda me: self.answer(hash(text)),
        }
        return type("Key", (str,), methods)(text)

    def dictionary(self, depth=0):
        count = self.random.choice([0, 1, 1, 2, 2, 3, 64, 65])
        values = {
            "shape": self.row(count, 1, 2, 3, 0),
            "typestr": self.typestr(),
            "data": self.data(),
            "version": self.integer(3, 3, 3, 2, 1, 0),
        }
        chance = self.random.random
        if chance() < 0.3:
            values["strides"] = self.row(count, 4, 8, -4, 0)
        if chance() < 0.3:
            values["descr"] = self.descr()
            if chance() < 0.5:
                values["typestr"] = self.random.choice(["|V4", "|V8", "|V12"])
        if chance() < 0.25:
            values["mask"] = self.mask(depth)
        if chance() < 0.3:
            values["stream"] = self.any(lambda: self.integer(1, 2, 7 << 20, 0), lambda: None)
        if chance() < 0.2:
            values["offset"] = self.integer(0, 1, -1)
        if chance() < 0.3:
            values["syclobj"] = self.syclobj()
        if chance() < 0.3:
            values.update(self.random.choice(ENTRIES))
        if chance() < 0.1:
            values.pop(self.random.choice(list(values)))
        if chance() < 0.15:
            values[self.random.choice(["\ud800", "é", "other", "x" * 5000])] = self.garbage()
        if chance() < 0.05:
            values = {self.random.choice([1, (1, 2), None, b"shape"]): 1, **values}
        items = [(key, value) for key, value in values.items() if value is not import_rows.MISSING]
        self.random.shuffle(items)
        calm, self.calm = self.calm, 2
        made = {self.key(key) if isinstance(key, str) else key: value for key, value in items}
        self.calm = calm
        self.things.append(made)
        roll = chance()
        if roll < 0.6:
            return made
        if roll < 0.75:
            methods = {}
            if chance() < 0.6:
                methods["__getitem__"] = lambda me, key: self.answer(dict.__getitem__(me, key))
            if chance() < 0.3:
                methods["__missing__"] = lambda me, key: self.answer(self.garbage())
            made = type("Dict", (dict,), methods)(made)
            self.things.append(made)
            return made
        if roll < 0.9:
            return type(
                "Maps",
                (),
                {"__getitem__": lambda me, key: self.answer(made[key]), "__len__": lambda me: self.answer(3)},
            )()
        return self.any(self.garbage, lambda: types.MappingProxyType(made), lambda: collections.ChainMap(made))

    def capsule(self, address, *names):
        name = self.random.choice(names if self.random.random() < 0.8 else NAMES)
        return api.PyCapsule_New(address, name, None)

    def dtype(self):
        made = types.SimpleNamespace(str=self.any(lambda: "|V8", self.typestr))
        if self.random.random() < 0.8:
            made.descr = self.any(self.garbage, lambda: [("a", "<i4"), ("b", "<f4")], lambda: [("", "|V8")])
        if self.random.random() < 0.3:
            made.fields = self.garbage()
        return made

    def device(self):
        """What dpctl's devices have."""
        number = self.any(lambda: lambda: self.answer(self.integer(0, 1, -1)), self.garbage)
        return types.SimpleNamespace(get_device_id=number)

    def dpctl(self):
        """A module that finds devices of filter strings."""

        def find(selector):
            made = self.device()
            context = lambda: self.answer(self.capsule(ADDRESS, b"SyclContextRef"))  # noqa: E731
            platform = types.SimpleNamespace(
                default_context=self.any(lambda: types.SimpleNamespace(_get_capsule=context), self.garbage)
            )
            made.sycl_platform = self.any(lambda: platform, lambda: platform, self.garbage)
            return self.answer(made)

        return types.SimpleNamespace(SyclDevice=self.any(lambda: find, lambda: find, self.garbage))

    def syclobj(self):
        sys.modules["dpctl"] = self.any(lambda: None, self.dpctl)
        return self.any(
            lambda: types.SimpleNamespace(
                _get_capsule=lambda: self.answer(self.capsule(ADDRESS, b"SyclQueueRef")),
                sycl_device=self.any(self.device, self.garbage),
            ),
            lambda: "level_zero:gpu:0", self.garbage, lambda: self.capsule(ADDRESS, b"SyclContextRef", b"SyclQueueRef"),
            lambda: type("Q", (), {"_get_capsule": lambda me: self.answer(self.capsule(ADDRESS, b"SyclQueueRef"))})(),
            lambda: type("Q", (), {"_get_capsule": property(lambda me: self.answer(self.garbage()))})(),
            lambda: type("Q", (), {"_get_capsule": lambda me: self.answer(self.garbage())})(),
        )  # fmt: skip

    def numbers(self, count, kind=c.c_int64):
        values = (kind * max(1, count))()
        for index in range(count):
            values[index] = self.random.choice([1, 2, 3, 0, 4, -1, 2**62, 2**63 - 1])
        return values

    def tensor(self, to):
        count = self.random.choice([0, 1, 2, 3, 64, 65])
        to.ndim = count if self.random.random() < 0.9 else self.random.choice([-1, 2**31 - 1, -(2**31), 1000])
        shape, strides = self.numbers(count), self.numbers(count)
        if self.random.random() < 0.9:
            to.shape = shape
        if self.random.random() < 0.5:
            to.strides = strides
        to.data = self.random.choice([ADDRESS, ADDRESS, None, 1, 2**64 - 1])
        to.device_type = self.random.choice([2, 2, 2, 1, 3, 13, 4, 14, 7, 10, -1, 2**31 - 1])
        to.device_id = self.random.choice([0, 0, 1, -1])
        to.code, to.bits, to.lanes = self.random.choice([(2, 32, 1), (0, 8, 1), (1, 1, 1), (4, 16, 1), (6, 8, 1), (2, 0, 0),
                                                         (255, 255, 65535), (5, 64, 1), (10, 8, 2), (17, 4, 2)])  # fmt: skip
        to.byte_offset = self.random.choice([0, 0, 16, 2**64 - 1])
        self.keep += [shape, strides]

    def managed(self):
        if self.random.random() < 0.6:
            made = Versioned(major=self.random.choice([1, 1, 1, 0, 2, 2**32 - 1]), minor=self.random.choice([0, 3, 9999]),
                             flags=self.random.choice([0, 1, 2, 3, 2**64 - 1]))  # fmt: skip
            name = b"dltensor_versioned"
        else:
            made, name = Managed(), b"dltensor"
        self.tensor(made.tensor)
        FOREVER.append((made, self.keep)) if self.random.random() < 0.001 else self.keep.append(made)
        # Memory of ctypes stays alive with the world; the capsules have no destructors.
        return c.addressof(made), name

    def dlpack(self, me, *args, **kwargs):
        self.act()
        if self.random.random() < 0.1:
            return self.garbage()
        address, name = self.managed()
        capsule = self.capsule(address, name)
        if self.random.random() < 0.1:
            api.PyCapsule_SetName(capsule, b"used_dltensor")
        self.keep.append(capsule)
        return capsule

    def array_struct(self):
        count = self.random.choice([0, 1, 2, 64, 65])
        made = ArrayInterface(two=self.random.choice([2, 2, 2, 2, 3, -1]), nd=self.random.choice([count] * 6 + [-1, 2**31 - 1]),
                              typekind=self.random.choice([b"f", b"i", b"u", b"b", b"c", b"V", b"\xff", b"\0"]),
                              itemsize=self.random.choice([4, 8, 1, 0, -1, 2**31 - 1]),
                              flags=self.random.choice([0, 0x701, -1]),
                              data=self.random.choice([ADDRESS, None, 2**64 - 1]))  # fmt: skip
        shape, strides = self.numbers(count, c.c_ssize_t), self.numbers(count, c.c_ssize_t)
        if made.nd > 65 or self.random.random() < 0.1:
            made.shape = POINTER(c.c_ssize_t)()
        else:
            made.shape = shape
        if self.random.random() < 0.5:
            made.strides = strides
        self.keep += [made, shape, strides]
        self.act()
        return self.any(lambda: self.capsule(c.addressof(made), None), self.garbage)
