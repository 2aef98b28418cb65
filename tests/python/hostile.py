"""Objects that lie, raise, change under one's hands and call back, at random: what a library must survive.

    python hostile.py --seed 7 --seconds 20       random objects
    python hostile.py --seed 7 --only 1234        one of them again
    python hostile.py --case types_that_vanish    one of the cases with names

Whatever cai_array_from_python is given: either an array that validates, or an output that is as before, an error that is filled,
and an exception of a sane type. The number of the object that is being tried stands in the file --progress.
"""

import argparse
import array
import collections
import ctypes as c
import faulthandler
import gc
import itertools
import os
import random
import sys
import threading
import time
import types
import warnings
import weakref

import cai_ctypes as T
import cai_python as P
from dlpack_ctypes import CaiTable, DlpackTable, Managed, Tensor, Versioned

KEYS = ["shape", "typestr", "data", "version", "strides", "descr", "mask", "stream", "offset", "syclobj"]
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


class ArrayInterface(c.Structure):
    _fields_ = [
        ("two", c.c_int), ("nd", c.c_int), ("typekind", c.c_char), ("itemsize", c.c_int), ("flags", c.c_int),
        ("shape", POINTER(c.c_ssize_t)), ("strides", POINTER(c.c_ssize_t)), ("data", c.c_void_p), ("descr", c.c_void_p),
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


class World:
    """One random object and everything that hangs on it."""

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
        self.random.choice(World.ACTS)(self)

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
            return type("Int", (int,), {"__index__": lambda me: self.answer(value), "__repr__": lambda me: self.answer("x")})(
                value
            )
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
        return self.any(self.garbage, lambda: (n for n in items), lambda: range(count), lambda: array.array("q", [1] * count))

    def typestr(self):
        text = self.random.choice(["<f4", "<f4", "|b1", "<i8", "|u1", "|t1", "<V2", "|V8", "<c16", "<U3", "|S5", "<M8[ns]", "f4",
                                   "d", ">f8", "<f1", "|V1"])  # fmt: skip
        roll = self.random.random()
        if roll < 0.75:
            return text
        if roll < 0.85:
            return type("Str", (str,), {"__eq__": lambda me, o: self.answer(True), "__hash__": lambda me: self.answer(1)})(text)
        return self.any(self.garbage, lambda: "<f4\0", lambda: "\udc80f4", lambda: "<" * 10000, lambda: "<f" + "9" * 400)

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
        methods = {"__eq__": lambda me, other: self.answer(str.__eq__(me, other)), "__hash__": lambda me: self.answer(hash(text))}
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
        if chance() < 0.1:
            values.pop(self.random.choice(list(values)))
        if chance() < 0.15:
            values[self.random.choice(["\ud800", "é", "other", "x" * 5000])] = self.garbage()
        if chance() < 0.05:
            values = {self.random.choice([1, (1, 2), None, b"shape"]): 1, **values}
        items = list(values.items())
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
            return type("Maps", (), {"__getitem__": lambda me, key: self.answer(made[key]), "__len__": lambda me: self.answer(3)})()
        return self.any(self.garbage, lambda: types.MappingProxyType(made), lambda: collections.ChainMap(made))

    def capsule(self, address, *names):
        name = self.random.choice(names if self.random.random() < 0.8 else NAMES)
        return api.PyCapsule_New(address, name, None)

    def syclobj(self):
        return self.any(
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

    def table(self):
        """An exchange table of this library's kind."""
        mode = self.random.randrange(7)

        def from_object(obj, out, error):
            if mode == 0:
                return 508  # without a word
            if mode == 1:
                error[0] = T.Error(code=507, field=b"f" * 95, message=b"\xff\xfe" + b"m" * 400)
                return self.random.choice([507, -1, 504, 2**31 - 1])
            if mode == 2:
                return 0  # nothing was written
            described = P.make(shape=(2, 3), typestr=self.random.choice(["<f4", "|V4"]))
            out[0] = described.array
            if mode == 3:
                out[0].ndim = self.random.choice([-1, 65, 2**31 - 1])
            elif mode == 4:
                out[0].typestr = self.random.choice([b"", b"xxxxxxxxxxxxxxxx", b"<f0"])
            elif mode == 5:
                out[0].struct_size = self.random.choice([0, 1, 88, 2**32 - 1])
            return 0

        function = FROM_OBJECT(from_object)
        table = CaiTable(c.sizeof(CaiTable), T_MAJOR, c.cast(function, c.c_void_p).value, None)
        roll = self.random.random()
        if roll < 0.1:
            table.struct_size = self.random.choice([0, 8, 2**32 - 1])
        elif roll < 0.2:
            table.data_abi = self.random.choice([0, 99])
        elif roll < 0.3:
            table.from_object = None
        FOREVER.append((table, function))
        return self.capsule(c.addressof(table), b"cai_exchange_api_1")

    def dlpack_table(self):
        made = []

        def from_object(obj, out):
            if self.random.random() < 0.3:
                return self.random.choice([-1, 0])
            tensor = Versioned(major=self.random.choice([1, 1, 2]), flags=self.random.choice([0, 1]))
            self.tensor(tensor.tensor)
            made.append((tensor, list(self.keep)))
            out[0] = c.addressof(tensor)
            return 0

        def view(obj, out):
            if self.random.random() < 0.3:
                return -1
            self.tensor(out[0])
            made.append(list(self.keep))
            return 0

        def stream(kind, number, out):
            out[0] = self.random.choice([0, 1, 77, 2**64 - 1])
            return self.random.choice([0, 0, -1])

        functions = DL_FROM_OBJECT(from_object), DL_VIEW(view), DL_STREAM(stream)
        address = [c.cast(function, c.c_void_p).value for function in functions]
        table = DlpackTable(self.random.choice([1, 1, 1, 2, 0]), 3, None, None, address[0], None)
        if self.random.random() < 0.5:
            table.view = address[1]
        if self.random.random() < 0.5:
            table.stream = address[2]
        if self.random.random() < 0.1:
            table.from_object = None
        if self.random.random() < 0.3:
            table.previous = c.addressof(table)
        FOREVER.append((table, functions, made))
        return self.capsule(c.addressof(table), b"dlpack_exchange_api")

    def producer(self, depth=0):
        chance = self.random.random
        methods, instance = {}, {}
        calm, self.calm = self.calm, 2

        def offer(name, make):
            if chance() < 0.5:
                instance[name] = make()
            else:
                methods[name] = property(lambda me: self.answer(make()))

        if chance() < 0.75:
            value = self.dictionary(depth)
            offer("__cuda_array_interface__", lambda: value)
        if chance() < 0.15:
            offer("__sycl_usm_array_interface__", lambda: self.dictionary(depth))
        if chance() < 0.15:
            offer("__array_interface__", lambda: self.dictionary(depth))
        if chance() < 0.15:
            offer("__array_struct__", self.array_struct)
        if chance() < 0.3:
            methods["__dlpack__"] = self.dlpack
            device = self.row(2, 2, 2, 1, 13, 4, 10) if chance() < 0.3 else (self.integer(2, 1, 13, 4, 10), 0)
            methods["__dlpack_device__"] = lambda me: self.answer(device)
        if chance() < 0.15:
            handle = type("Buffer", (), {self.random.choice(["_ptr", "int_ptr"]): self.integer(ADDRESS)})()
            instance[self.random.choice(["buffer", "base_data"])] = self.any(lambda: handle, lambda: None, self.garbage)
            instance["dtype"] = self.any(self.typestr, lambda: types.SimpleNamespace(str="<f4"), self.garbage)
            instance["shape"] = self.row(1, 2)
            instance["strides"], instance["offset"] = self.row(1, 4), self.integer(0)
            if chance() < 0.3:
                instance["queue"] = types.SimpleNamespace(int_ptr=self.integer(5))
        if chance() < 0.06:
            methods["__cai_exchange_api__"] = self.any(self.table, self.garbage, lambda: self.capsule(ADDRESS, b"other"))
        if chance() < 0.06:
            methods["__dlpack_c_exchange_api__"] = self.any(self.dlpack_table, self.garbage)
        if chance() < 0.05:
            # Somebody else's tables: our objects' type's.
            methods["__cai_exchange_api__"] = type(EXPORTED).__cai_exchange_api__
        if chance() < 0.05:
            methods["__dlpack_c_exchange_api__"] = type(EXPORTED).__dlpack_c_exchange_api__
        if chance() < 0.1:
            methods["__class__"] = property(lambda me: self.answer(self.random.choice([int, dict, str, 5])))
        if chance() < 0.1:
            methods["__getattr__"] = lambda me, name: self.answer(self.garbage())
        if chance() < 0.1:
            methods["__getattribute__"] = lambda me, name: self.answer(object.__getattribute__(me, name))
        if chance() < 0.2:
            methods["__del__"] = lambda me: self.act()
        meta = type
        if chance() < 0.15:

            def lookup(cls, name):
                self.act()
                raise AttributeError(name)

            meta = type("Meta", (type,), {"__getattr__": lookup})
            if chance() < 0.3:
                meta.__getattribute__ = lambda cls, name: self.answer(type.__getattribute__(cls, name))
            if chance() < 0.3:
                meta.__name__ = property(lambda cls: self.answer(self.garbage()))
        try:
            obj = meta(self.random.choice(["Plain", "é", "x" * 300]), (object,), methods)()
        finally:
            self.calm = calm
        try:
            for name, value in instance.items():
                object.__setattr__(obj, name, value)
        except AttributeError:
            pass
        self.producers.append(obj)
        if chance() < 0.1:
            self.keep.append(weakref.ref(obj, lambda _: self.act()))
        return obj

    # --- the library ----------------------------------------------------------------------------------------

    def options(self):
        chance = self.random.random
        if chance() < 0.3:
            return None
        options = P.import_options()
        for flag in (1, 2, 4, 8, 16, 32, 64, 512):
            if chance() < 0.07:
                options.flags |= flag
        if chance() < 0.8:
            options.flags |= 128
        if chance() < 0.5:
            options.flags |= 256
        if chance() < 0.2:
            options.flags |= 1024
        if chance() < 0.5:
            for index in range(self.random.randrange(1, 9)):
                options.protocols[index] = self.random.randrange(1, 9)
        options.ndim = self.random.randrange(3)
        if chance() < 0.1:
            options.typestr = self.random.choice([b"<f4", b"|V2", b"junk", b"x" * 15])
        if chance() < 0.1:
            options.dtype_code = self.random.choice([4, 10, 60000])
        if chance() < 0.1:
            options.opaque_8bit, options.opaque_16bit = 10, 4
        if chance() < 0.2:
            options.stream = self.random.choice([0, 1, 2, 77, 2**64 - 1, 2**64 - 2])
        if chance() < 0.02:
            options.flags = 2**32 - 1
        if chance() < 0.02:
            options.struct_size = self.random.choice([0, 7, 8, 24, 512, 520])
            if options.struct_size == 512:
                options = c.cast(c.create_string_buffer(bytes(options) + b"\0" * 4096), POINTER(P.ImportOptions)).contents
        return options

    def take(self, obj):
        options = self.options()
        quiet = options is not None and 56 <= options.struct_size <= 512
        quiet = quiet and options.struct_size % 8 == 0 and bool(options.flags & 1024)
        out, error = T.new_array(stream=self.random.choice([0, 5])), T.Error()
        out.flags, out.data = 0x55AA, 0x1234
        before = bytes(out)
        self.depth += 1
        status, raised = None, None
        try:
            status = STATUS(id(obj), c.byref(options) if options is not None else None, c.byref(out), c.byref(error))
        except BaseException as exception:
            raised = exception
        finally:
            self.depth -= 1
        if raised is None and status == 0:
            checked = T.Error()
            assert P.held.cai_array_validate(c.byref(out), T.CHECK_LAYOUT, c.byref(checked)) == 0, checked.message
            self.held.append(out)
            return True
        assert bytes(out) == before, "the output was written"
        code = error.code
        assert code != 0 and error.message, (code, raised)
        error.message.decode(), error.field.decode()
        assert status is None or status == code
        COUNTS[code] += 1
        if code == 504:
            assert raised is not None, "no exception is set"
        elif quiet and error.field.startswith(b"options->") and raised is not None:
            assert type(raised) is ValueError  # options that are not understood are not followed
        elif quiet:
            assert raised is None, (code, error.message, raised)
        else:
            assert type(raised) in SANE, (code, error.message, raised)
            if type(raised) is not MemoryError:
                assert raised.args == (error.message.decode(),), (raised, error.message)
        return False

    def release(self, out):
        library = P.free if self.random.random() < 0.3 else P.held
        if self.random.random() < 0.1:
            thread = threading.Thread(target=library.cai_array_release, args=(c.byref(out),))
            thread.start()
            thread.join()
        else:
            library.cai_array_release(c.byref(out))

    def give(self, out):
        error, made = T.Error(), c.c_void_p()
        options = self.random.choice([None, P.ExportOptions(8, self.random.randrange(9))])
        try:
            given = c.byref(options) if options else None
            P.held.cai_array_to_python(c.byref(out), given, c.byref(made), c.byref(error))
            obj = P.adopt(made)
        except BaseException as exception:
            assert error.code == 504 or type(exception) in SANE, (error.code, exception)
            return
        repr(obj)
        for name in dir(obj):
            try:
                getattr(obj, name)
            except (AttributeError, KeyboardInterrupt):
                pass
        for name in ("__cuda_array_interface__", "__array_interface__", "__sycl_usm_array_interface__"):
            try:
                hash(str(getattr(obj, name)))
            except AttributeError:
                pass
        for _ in range(3):
            words = {}
            for word in ("stream", "max_version", "dl_device", "copy", "\ud800", "other"):
                if self.random.random() < 0.35:
                    words[word] = self.any(self.garbage, lambda: self.row(2, 1, 2, 0), lambda: self.integer(-1, 0, 1, 2), self.flag)
            self.things.append(words)
            try:
                obj.__dlpack_device__()
                capsule = obj.__dlpack__(*([1] if self.random.random() < 0.1 else []), **words)
                if self.random.random() < 0.3:
                    api.PyCapsule_SetName(capsule, b"odd")  # the tensor is lost
            except BaseException:
                pass
        if self.depth < 3:
            self.take(obj)
        if self.random.random() < 0.5:
            self.keep.append(weakref.ref(obj, lambda _: self.act()))
        self.keep.append(obj)

    def wild(self):
        """An array as a careless C program would fill it in."""
        count = self.random.choice([0, 1, 2, 64])
        out = T.new_array(ndim=count, typestr=self.random.choice([b"<f4", b"|V2", b"|t1", b"", b"x" * 15, b"<U3"]))
        shape, strides = self.numbers(count), self.numbers(count)
        self.keep += [shape, strides]
        out.shape = shape
        if self.random.random() < 0.5:
            out.strides = strides
        out.data = self.random.choice([ADDRESS, None, 2**64 - 1])
        out.stream = self.random.choice([0, 1, 2, 77, 2**64 - 1, 2**64 - 2])
        out.device.type = self.random.choice([0, 1, 2, 3, 4, 13, 14, 99])
        out.flags = self.random.choice([0, 1, 2**32 - 1])
        out.version = self.random.choice([0, 3, 9])
        out.dtype_code = self.random.choice([0, 4, 65535])
        out.byte_offset = self.random.choice([0, 0, 16])
        out.ndim = self.random.choice([count] * 5 + [-1, 65])
        if self.random.random() < 0.8:
            out.owner = P.Counted().owner()
            P._alive.clear()
            FOREVER.append(out)
        self.give(out)

    def run(self):
        often = self.random.random() < 0.15
        obj = self.producer()
        if self.random.random() < 0.1:
            return self.wild()
        if often:
            gc.collect()
            Bomb(self.act)
            gc.set_threshold(self.random.choice([1, 2, 3, 5, 8, 13, 21]))
        try:
            for _ in range(self.random.choice([1, 1, 2])):
                self.take(obj)
        finally:
            gc.set_threshold(700)
        if self.held and self.random.random() < 0.5:
            self.give(self.held[-1])
        del obj
        if self.random.random() < 0.3:
            self.producers.clear()
            self.things.clear()
        while self.held:
            self.release(self.held.pop())


COUNTS = collections.Counter()
# The address of the object: to take an object, ctypes asks it for its class.
STATUS = c.PYFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)(("cai_array_from_python", P.held))
P.held.cai_abi_version.restype = c.c_uint32
T_MAJOR = P.held.cai_abi_version() >> 16
EXPORTED = P.give(P.make())


def run(seed, seconds, only, progress):
    gc.collect()
    gc.freeze()
    end = time.monotonic() + seconds
    numbers = itertools.count() if only is None else [only]
    number = -1
    for number in numbers:
        if progress:
            os.pwrite(progress, b"%12d\n" % number, 0)
        world = World(f"{seed}:{number}")
        try:
            world.run()
        except AssertionError:
            print(f"hostile.py --seed {seed} --only {number}", flush=True)
            raise
        except BaseException as exception:  # what the hostile objects themselves raise on the way
            if not isinstance(exception, tuple(EXCEPTIONS)) or isinstance(exception, (NameError, UnboundLocalError)):
                raise
        world.acts = 0
        if number % 500 == 0:
            gc.collect()
        if time.monotonic() > end and only is None:
            break
    print(f"seed {seed}: {number + 1} objects, {sum(COUNTS.values())} failures of {len(COUNTS)} kinds", flush=True)


def threads(seed, seconds):
    """Several threads at once, each with objects of its own."""
    end = time.monotonic() + seconds
    failures = []

    def work(index):
        number = 0
        while time.monotonic() < end and not failures:
            number += 1
            world = World(f"{seed}:thread{index}:{number}")
            world.random.choice([1])
            try:
                world.take(world.producer())
            except AssertionError as failure:
                failures.append((seed, index, number, failure))
            except BaseException:
                pass
            world.acts = 0
            while world.held:
                world.release(world.held.pop())

    workers = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
    print(f"seed {seed}: threads", flush=True)


# --- cases with names -------------------------------------------------------------------------------------------


def interface(**changes):
    return dict(shape=(2, 3), typestr="<f4", data=(ADDRESS, False), version=3) | changes


def try_all(obj, after=1, act=None):
    """The default import, while garbage is collected after so many allocations."""
    out, error = T.new_array(), T.Error()
    gc.collect()
    gc.disable()
    if act:
        Bomb(act)
    gc.set_threshold(gc.get_count()[0] + after)
    gc.enable()
    try:
        return STATUS(id(obj), None, c.byref(out), c.byref(error)) or out
    except Exception as exception:
        return exception
    finally:
        gc.set_threshold(700)


def keys_without_text():
    """To make an UnicodeEncodeError is to allocate, and to collect garbage, which runs code."""
    for position in (0, 4):
        for after in range(1, 25):
            items = [("shape", (len(sys.argv) + 1000, 3)), ("typestr", "".join(["<", "f4"])), ("data", (ADDRESS, False)),
                     ("version", 3)]  # fmt: skip
            items.insert(position, ("\ud800", 1))
            values = dict(items)
            items.clear()
            obj = P.Exporter(values)

            def change(values=values):
                values.clear()
                values.update((str(n), (n, n)) for n in range(50))

            found = try_all(obj, after, change)
            assert isinstance(found, (T.Array, KeyError)), found


def types_without_text():
    for after in range(1, 25):
        values = dict(shape=(len(sys.argv) + 1000, 3), typestr="\ud800" + "4" * len(sys.argv), data=(ADDRESS, False), version=3)
        obj = P.Exporter(values)

        def change(values=values):
            values.clear()
            values.update((str(n), (n, n)) for n in range(50))

        found = try_all(obj, after, change)
        assert isinstance(found, (ValueError, KeyError)), found


def types_that_vanish():
    """A metaclass that gives the object another class while the first one is being asked."""
    for name in ("__cai_exchange_api__", "__dlpack_c_exchange_api__", "__name__", "__module__"):
        for hook in ("__getattr__", "__getattribute__"):
            for _ in range(3):
                objects = []

                def look(cls, asked, name=name, hook=hook, objects=objects):
                    if asked == name and objects:
                        objects.pop().__class__ = type("Other", (), {})
                        del cls
                        gc.collect()
                        raise AttributeError(asked)
                    if hook == "__getattribute__":
                        return type.__getattribute__(cls, asked)
                    raise AttributeError(asked)

                def make(look=look, hook=hook):
                    meta = type("Meta", (type,), {hook: look})
                    return meta("Class", (), {})()

                obj = make()
                objects.append(obj)
                gc.collect()
                found = try_all(obj)
                assert isinstance(found, TypeError), found


def tables_of_others():
    """A class that shows another type's table: its functions must not take the objects for that type's."""
    exports = type(EXPORTED)
    for name in ("__cai_exchange_api__", "__dlpack_c_exchange_api__"):
        for bases in ((), (list,), (dict,), (int,)):
            fake = type("Fake", bases, {name: vars(exports)[name]})()
            found = try_all(fake)
            assert isinstance(found, TypeError), found


def tables_that_say_nothing():
    """A function that fails without a word, or says that an exception is set where none is."""
    for status in (508, 504, -7):
        function = FROM_OBJECT(lambda obj, out, error, status=status: status)
        table = CaiTable(c.sizeof(CaiTable), T_MAJOR, c.cast(function, c.c_void_p).value, None)
        FOREVER.append((table, function))
        kind = type("Silent", (), {"__cai_exchange_api__": api.PyCapsule_New(c.addressof(table), b"cai_exchange_api_1", None)})
        for _ in range(3):
            found = try_all(kind())
            assert isinstance(found, (ValueError, SystemError)), found
        silent, out, error = kind(), T.new_array(), T.Error(message=b"x" * 400)
        options = P.import_options(quiet=True)
        found = STATUS(id(silent), c.byref(options), c.byref(out), c.byref(error))
        assert found == error.code != 0, found
        assert b"x" not in error.message[:2], error.message


def words_that_change():
    """The thread module hands over a dictionary as it is; its values may go while the words are read."""
    import _thread

    for _ in range(6):
        done = []
        words = {}

        class Evil:
            def __bool__(self, words=words):
                words.clear()
                gc.collect()
                return False

        def change(words=words):
            words.clear()

        class Last:
            def __bool__(self, done=done):
                return False

            def __del__(self, done=done):
                done.append(1)  # no event: the interrupted code may hold its lock

        words.update({"copy": Evil(), "\ud800": [Last()], "stream": [1]})
        Bomb(change)
        hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
        gc.set_threshold(1)
        _thread.start_new_thread(EXPORTED.__dlpack__, (), words)
        P.soon(lambda: done, 0.2)
        time.sleep(0.005)
        gc.set_threshold(700)
        sys.unraisablehook = hook


def big_versions():
    """Numbers beyond 64 bits are still numbers."""
    host = P.give(P.make(device=(P.CPU, 0)))
    assert "dltensor_versioned" in repr(host.__dlpack__(max_version=(10**30, 0)))
    assert '"dltensor"' in repr(host.__dlpack__(max_version=(-(10**30), 0)))

    class Interrupts(list):
        def __len__(self):
            raise KeyboardInterrupt

    try:
        host.__dlpack__(max_version=Interrupts())
    except KeyboardInterrupt:
        return
    raise AssertionError("the exception was lost")


def deep_recursion():
    """A property that imports itself, until Python says that it is enough; on a thread, whose stack is smaller."""

    class Loop:
        @property
        def __cuda_array_interface__(self):
            return P.take(self)

    def work():
        try:
            P.take(Loop())
        except (RecursionError, c.ArgumentError):
            ends.append(1)

    ends = []
    work()
    threading.stack_size(8 << 20)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(ends) == 2, ends


CASES = [keys_without_text, types_without_text, types_that_vanish, tables_of_others, tables_that_say_nothing, words_that_change,
         big_versions, deep_recursion]  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", type=int)
    parser.add_argument("--case")
    parser.add_argument("--progress")
    parser.add_argument("--threads", action="store_true")
    arguments = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    # Tricks that raise where nobody can pass it on.
    sys.unraisablehook = lambda *_: None
    threading.excepthook = lambda *_: None
    if arguments.case:
        next(case for case in CASES if case.__name__ == arguments.case)()
    elif arguments.threads:
        threads(arguments.seed, arguments.seconds)
    else:
        progress = arguments.progress and os.open(arguments.progress, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        run(arguments.seed, arguments.seconds, arguments.only, progress)


if __name__ == "__main__":
    main()
