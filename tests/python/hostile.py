"""Objects that lie, raise, change under one's hands and call back, at random: what a library must survive.

    python hostile.py --seed 7 --seconds 20       random objects
    python hostile.py --seed 7 --only 1234        one of them again
    python hostile.py --case types_that_vanish    one of the cases with names

Whatever cai_array_from_python is given: either an array that validates, or an output that is as before, an error that is filled,
and an exception of a sane type. The number of the object that is being tried stands in the file --progress.
"""

import argparse
import ctypes as c
import faulthandler
import gc
import itertools
import os
import sys
import threading
import time
import warnings

import cai_ctypes as T
import cai_python as P
from dlpack_ctypes import CaiTable
from hostile_values import ADDRESS, EXCEPTIONS, api, FROM_OBJECT, FOREVER, Bomb
from hostile_world import COUNTS, EXPORTED, STATUS, T_MAJOR, World


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


def changing(make):
    """Garbage changes the only dictionary that has the values when it is collected, after so many allocations."""
    for after in range(1, 25):
        values = dict(make())
        obj = P.Exporter(values)

        def change(values=values):
            values.clear()
            values.update((str(n), (n, n)) for n in range(50))

        yield try_all(obj, after, change)


def entries(typestr):
    return [("shape", (len(sys.argv) + 1000, 3)), ("typestr", "".join(typestr)), ("data", (ADDRESS, False)), ("version", 3)]


def keys_without_text():
    """To make an UnicodeEncodeError is to allocate, and to collect garbage, which runs code."""
    surrogate = [("\ud800", 1)]
    for make in (lambda: surrogate + entries("<f4"), lambda: entries("<f4") + surrogate):
        for found in changing(make):
            assert isinstance(found, (T.Array, KeyError)), found


def types_without_text():
    for found in changing(lambda: entries("\ud800" + "4" * len(sys.argv))):
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
        kind = type(
            "Silent", (), {"__cai_exchange_api__": api.PyCapsule_New(c.addressof(table), b"cai_exchange_api_1", None)}
        )
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
    # Tricks that raise where it cannot be passed on.
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
