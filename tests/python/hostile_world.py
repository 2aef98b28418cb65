"""Hostile objects: one random producer, the options that it is imported with, and its exports."""

import collections
import ctypes as c
import gc
import threading
import types
import weakref

import cai_ctypes as T
import cai_python as P
from dlpack_ctypes import CaiTable, DlpackTable, Versioned
from hostile_values import ADDRESS, api, Bomb, DL_FROM_OBJECT, DL_STREAM, DL_VIEW, FOREVER, FROM_OBJECT, POINTER, SANE, Values

COUNTS = collections.Counter()
# The address of the object: to take an object, ctypes asks it for its class.
STATUS = c.PYFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)(("cai_array_from_python", P.held))
P.held.cai_abi_version.restype = c.c_uint32
T_MAJOR = P.held.cai_abi_version() >> 16
EXPORTED = P.give(P.make())


class Releases:
    """A number that gives the array up while it is read."""

    def __init__(self, obj):
        self.obj = obj

    def __index__(self):
        self.obj.release()
        return 1


class World(Values):
    """One random object and everything that it refers to."""

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
            instance["dtype"] = self.any(
                self.typestr, lambda: types.SimpleNamespace(str="<f4"), self.garbage, self.dtype
            )
            instance["shape"] = self.row(1, 2)
            instance["strides"], instance["offset"] = self.row(1, 4), self.integer(0)
            if chance() < 0.3:
                instance["queue"] = types.SimpleNamespace(int_ptr=self.integer(5))
        if chance() < 0.15:
            grad = self.any(lambda: True, lambda: False, self.garbage)
            methods["requires_grad"] = property(lambda me: self.answer(grad))
        if chance() < 0.06:
            methods["__cai_exchange_api__"] = self.any(
                self.table, self.garbage, lambda: self.capsule(ADDRESS, b"other")
            )
        if chance() < 0.06:
            methods["__dlpack_c_exchange_api__"] = self.any(self.dlpack_table, self.garbage)
        if chance() < 0.05:
            # Another library's tables: our objects' type's.
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
        for flag in (1, 2, 4, 8, 16, 32, 64, 512, 2048, 65536, 131072):
            if chance() < 0.07:
                options.flags |= flag
        for flag in (4096, 8192, 16384):
            if chance() < 0.4:
                options.flags |= flag
        if chance() < 0.3:
            options.flags |= 1 << 30  # lanes
        if chance() < 0.8:
            options.flags |= 128
        if chance() < 0.5:
            options.flags |= 256
        if chance() < 0.2:
            options.flags |= 1024
        if chance() < 0.5:
            for index in range(self.random.randrange(1, 9)):
                options.protocols[index] = self.random.randrange(1, len(P.PROTOCOLS) + 1)
        options.ndim = self.random.randrange(3)
        if chance() < 0.1:
            options.typestr = self.random.choice([b"<f4", b"|V2", b"junk", b"x" * 15])
        if chance() < 0.1:
            options.dtype_code = self.random.choice([4, 10, 60000])
        if chance() < 0.1:
            options.opaque_8bit, options.opaque_16bit = 10, 4
        if chance() < 0.2:
            options.dlpack_stream = self.random.choice([0, 1, 2, 77, 2**64 - 1, 2**64 - 2])
        if chance() < 0.02:
            options.flags = 2**32 - 1
        if chance() < 0.02:
            options.struct_size = self.random.choice([0, 7, 8, 24, 512, 520])
            if options.struct_size == 512:
                options = c.cast(
                    c.create_string_buffer(bytes(options) + b"\0" * 4096), POINTER(P.ImportOptions)
                ).contents
        return options

    def take(self, obj):
        options = self.options()
        quiet = options is not None and 64 <= options.struct_size <= 512
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
                    words[word] = self.any(
                        self.garbage, lambda: self.row(2, 1, 2, 0), lambda: self.integer(-1, 0, 1, 2), self.flag
                    )
            self.things.append(words)
            try:
                if self.random.random() < 0.3:
                    self.things.append(Releases(obj))
                    words["max_version"] = (self.things[-1], 3)
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
