"""What must hold under every CPython that the library takes, with nothing but its standard library: python every_python.py

Run by test_every_python.py for each one that it finds.
"""

import ctypes as c
import gc
import os
import platform
import subprocess
import sys
import sysconfig
import warnings
import weakref

import cai_ctypes as T
import cai_python as P
import hostile
import import_rows
import import_ways

DEBUG = hasattr(sys, "gettotalrefcount")
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def interface(**changes):
    return dict(shape=(2, 3), typestr="<f4", data=(0x7000_0000, True), version=3, stream=7) | changes


def imports():
    for name, way in import_ways.WAYS.items():
        for row in import_rows.ROWS:
            if way.takes(row):
                try:
                    import_ways.check(name, row)
                except BaseException:
                    print(f"{name}: {row}", file=sys.stderr)
                    raise


def refused(obj):
    try:
        P.take(obj).release()
    except Exception as error:
        return type(error)


def types_that_change():
    """Under the metaclass `type` and under one that has something to say about each look-up."""
    own = P.give(P.make((7,)))
    P.take(own).release()
    tables = type(own).__cai_exchange_api__

    class Meta(type):
        def __getattribute__(cls, name):
            return type.__getattribute__(cls, name)

        def mro(cls):
            return type.mro(cls)

        __mro__ = property(lambda cls: 5 / 0)

    for meta in (type, Meta):
        base = meta("Base", (P.Exporter,), {})
        obj = meta("Late", (base,), {})(interface())
        # More often than newer versions of CPython give a type another version.
        for _ in range(600):
            P.take(obj).release()
            base.requires_grad = True
            assert refused(obj) is BufferError
            base.requires_grad = False
            P.take(obj).release()
            del base.requires_grad
        base.__cai_exchange_api__ = tables
        with P.take(obj) as taken:  # this library's table refuses objects of other types
            assert taken.shape == (2, 3)
        del base.__cai_exchange_api__
        P.take(obj).release()
    # Some versions of CPython begin anew with the numbers of types then.
    slotless = type("Slotless", (), {"__slots__": ()})
    obj = slotless()
    for _ in range(5):
        c.pythonapi.PyType_ClearCache()
        assert refused(obj) is TypeError
        slotless.__cuda_array_interface__ = property(lambda self: interface())
        c.pythonapi.PyType_ClearCache()
        P.take(obj).release()
        del slotless.__cuda_array_interface__


def exports():
    taken = P.make()
    obj = P.give(taken)
    assert type(obj).__name__ == "Array" and "float" not in repr(obj)
    found = obj.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["strides"] is None and type(found) is dict
    with P.take(obj) as again:
        assert again.shape == (2, 3)
    seen = weakref.ref(obj)
    try:
        obj.__array_interface__
        raise AssertionError
    except AttributeError:
        pass
    try:
        type(obj)()
        raise AssertionError("an object without an array")
    except TypeError:
        pass
    except AssertionError:
        assert sys.version_info < (3, 10)
    host = P.give(P.make(device=(P.CPU, 0)))
    assert host.__dlpack_device__() == (1, 0)
    assert '"dltensor_versioned"' in repr(host.__dlpack__(max_version=(1, 0)))
    for protocols in ([P.DLPACK], [P.DLPACK_EXCHANGE], [P.EXCHANGE], [P.ARRAY_INTERFACE]):
        with P.take(host, host=True, protocols=protocols) as again:
            assert again.device == (P.CPU, 0)
    counted = taken.counted
    taken.release()
    assert counted.gone == 0
    del obj, again
    gc.collect()
    assert counted.gone == 1 and seen() is None


def releases():
    """By many threads at once, with the lock and without it, of a dictionary that changes."""

    class Seen(P.Exporter):
        pass

    shared, problems = P.Exporter(interface()), []

    def work():
        try:
            for number in range(300):
                with P.take(shared):
                    P.take(Seen(interface(shape=(number,)))).release(P.free)
                shared.__cuda_array_interface__["extra"] = number
                shared.__cuda_array_interface__.pop("extra", None)
        except BaseException as problem:
            problems.append(problem)

    with P.even(shared):
        P.at_once(*[work] * 6)
    assert not problems, problems


def the_lock():
    array, error = T.new_array(), T.Error()
    assert P.free.cai_array_from_python(object(), None, c.byref(array), c.byref(error)) == P.ERRORS["PYTHON_LOCK"]


def sub_interpreters():
    """Where the modules that this needs can be had in one."""
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        try:
            import _interpreters as interpreters
        except ImportError:
            return "none"
    text = """if True:
        import sys
        sys.path[:0] = [%r]
        try:
            import cai_python as P
        except ImportError as error:
            assert "subinterpreters" in str(error), error  # ctypes of 3.12
        else:
            obj = P.Exporter(dict(shape=(2,), typestr="<f4", data=(4096, False), version=3))
            with P.even(obj):
                P.take(obj).release()
            P.take(P.give(P.make())).release()
    """ % os.path.dirname(os.path.abspath(__file__))
    obj = P.Exporter(interface())
    taken = P.take(obj)
    for _ in range(2):
        number = interpreters.create()
        problem = interpreters.run_string(number, text)
        assert problem is None, problem
        interpreters.destroy(number)
        P.take(obj).release()
    taken.release()


def the_end():
    """Arrays that outlive the interpreter."""
    text = "import cai_python as P, atexit, sys\n"
    text += "obj = P.Exporter(dict(shape=(2,), typestr='<f4', data=(4096, False), version=3))\n"
    text += "arrays = [P.take(obj) for _ in range(9)]; sys.kept = P.give(arrays[0])\n"
    text += "atexit.register(arrays[1].release)\n"
    text += "class Last:\n    def __del__(self, array=arrays[2]): array.release()\n"
    text += "sys.last = Last(); obj.me = P.give(arrays[3]); obj.it = obj\n"
    here = os.path.dirname(os.path.abspath(__file__))
    found = subprocess.run([sys.executable, "-c", text], env=os.environ | {"PYTHONPATH": here}, capture_output=True, text=True)
    assert found.returncode == 0 and not found.stderr, found


def view_function():
    library = c.PyDLL(str(P.LIBRARY))
    library.cai_unstable_python_view.argtypes = [c.POINTER(c.py_object), c.c_void_p]
    made = c.py_object()
    assert library.cai_unstable_python_view(c.byref(made), None) == 0
    return made.value


def views():
    view = view_function()
    obj = P.Exporter(interface(strides=(12, 4)))
    before = sys.getrefcount(obj)
    for _ in range(200):
        with view(obj, -1) as seen:
            assert (seen.ptr, seen.shape, seen.strides, seen.size) == (0x7000_0000, (2, 3), (3, 1), 6)
            assert seen.exporting_obj is obj and seen.readonly and seen.is_device_accessible
            reference = weakref.ref(seen)
        assert repr(seen) == "<libcai.View, released>"
        del seen
        assert reference() is None
        view(obj, stream=7)
        for wrong in ({}, {"stream": 0}, {"stream": "1"}, {"stream": -1, "other": 1}):
            try:
                view(obj, **wrong)
            except (TypeError, ValueError):
                pass
            else:
                raise AssertionError(wrong)
    gc.collect()
    assert sys.getrefcount(obj) == before


def nothing_is_left():
    """In debug builds CPython counts all references."""
    if not DEBUG:
        return "no debug build"
    objects = [P.Exporter(interface()), P.Exporter(interface(shape=(-1,))), object(), P.give(P.make()),
               P.Exporter(interface(mask=P.Exporter(interface(typestr="|b1")))), P.Exporter(interface(typestr="\ud800"))]  # fmt: skip

    def run():
        for obj in objects:
            for _ in range(200):
                try:
                    P.take(obj, allow_mask=True).release()
                except (ValueError, TypeError):
                    pass
        gc.collect()
        return sys.gettotalrefcount()

    run(), run()
    counts = [run() for _ in range(4)]
    assert abs(counts[-1] - counts[0]) < 100, counts


def cases():
    for case in hostile.CASES:
        case()


def main():
    for check in (imports, types_that_change, exports, views, releases, the_lock, sub_interpreters, the_end, nothing_is_left, cases):
        skipped = check()
        if skipped:
            print(f"{check.__name__}: {skipped}")
    hook, sys.unraisablehook = sys.unraisablehook, lambda *_: None
    warnings.simplefilter("ignore")
    hostile.run("every", float(os.environ.get("CAI_FUZZ_SECONDS", "1.5")), None, None)
    hostile.threads("every", 0.7)
    sys.unraisablehook = hook
    build = " debug" * DEBUG + " free-threaded" * FREE
    print(f"{platform.python_implementation()} {platform.python_version()}{build}: good", flush=True)


if __name__ == "__main__":
    main()
