"""Races at many kinds of Python places, under `cuda-sim run`: prints those whose frames are reported otherwise than
`sys._getframe` has them. Each is found by a driver call with the interpreter lock released, and by one that keeps it."""

import asyncio
import ctypes
import functools
import sys
import threading

from cuda_sim import _driver

FREE, HELD = ctypes.CDLL("libcuda.so.1"), ctypes.PyDLL("libcuda.so.1")
for cu in (FREE, HELD):
    cu.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
context = ctypes.c_void_p()
assert FREE.cuInit(0) == 0 and FREE.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert FREE.cuCtxSetCurrent(context) == 0
streams = [ctypes.c_void_p(), ctypes.c_void_p()]
for stream in streams:
    assert FREE.cuStreamCreate(ctypes.byref(stream), 1) == 0
expected, touch, memory = [], None, ctypes.c_uint64()
DEPTH = 32


def frames():
    frame, found = sys._getframe(1), []
    while frame and len(found) < DEPTH:
        code = frame.f_code
        place = f"{code.co_filename}:{frame.f_lineno}"
        found.append((place, getattr(code, "co_qualname", code.co_name)))
        frame = frame.f_back
    return found


def toucher(cu):
    fill = cu.cuMemsetD8Async
    # fmt: off
    def touch(): expected.append(frames()); assert fill(memory, 1, 64, streams[1]) == 0
    # fmt: on
    return touch


def on_thread(run):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def generator():
    touch()
    yield


def delegating():
    yield from generator()


async def coroutine():
    touch()


async def awaiting():
    await coroutine()


class Named:
    def __enter__(self):
        touch()
        return self

    def __exit__(self, *_):
        touch()

    def __del__(self):
        touch()

    def __eq__(self, _):
        touch()
        return True

    @property
    def ünïcödé_名(self):
        touch()


def handled():
    try:
        raise ValueError
    except ValueError:
        touch()


def spread():
    return functools.reduce(
        lambda one, other: one,
        [1, 2],
        touch(),
    )


def recursive(n):
    recursive(n - 1) if n else touch()


def traced():
    sys.settrace(lambda *_: None)
    touch()
    sys.settrace(None)


def profiled():
    sys.setprofile(lambda *_: None)
    touch()
    sys.setprofile(None)


def monitored():
    monitoring = getattr(sys, "monitoring", None)
    if monitoring:
        monitoring.use_tool_id(3, "test")
        monitoring.register_callback(3, monitoring.events.LINE, lambda *_: None)
        monitoring.set_events(3, monitoring.events.LINE)
        touch()
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)


def with_block():
    with Named():
        pass


def generated():
    """Fresh code has the address of code that is gone."""
    for at in range(100):
        name = f"<made {at}>" if at % 2 else f"/no/such/folder/made_{at}.py"
        exec(compile(("\n" * at) + f"def f{at}(): touch()\nf{at}()", name, "exec"), {"touch": touch})


def in_callback():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    order = kind(lambda *_: touch() or 0)
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(), ctypes.c_size_t(2), ctypes.c_size_t(4), order)


SHAPES = {
    "plain": lambda: touch(),
    "a thread": lambda: on_thread(lambda: touch()),
    "a thread's recursion": lambda: on_thread(lambda: recursive(3)),
    "a generator": lambda: list(generator()),
    "yield from": lambda: list(delegating()),
    "a coroutine": lambda: asyncio.run(awaiting()),
    "a comprehension": lambda: [touch() for _ in range(2)],
    "with": with_block,
    "a finalizer": lambda: Named() and None,
    "list.index": lambda: [Named()].index(1),
    "sorted": lambda: sorted([2, 1], key=lambda _: touch() or 0),
    "a property": lambda: Named().ünïcödé_名,
    "an except block": handled,
    "several lines": spread,
    "recursion": lambda: recursive(3),
    "deep recursion": lambda: recursive(60),
    "settrace": traced,
    "setprofile": profiled,
    "monitoring": monitored,
    "generated code": generated,
    "a callback from C": in_callback,
}


def reported(race):
    found = []
    for frame in race["second"]["frames"]:
        if frame.get("language") == "python":
            found.append((frame.get("module") or f"{frame['file']}:{frame['line']}", frame["function"]))
    return found


def check(name, shape):
    global touch, memory
    wrong = 0
    for cu in (FREE, HELD):
        memory, touch = ctypes.c_uint64(), toucher(cu)
        assert FREE.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
        original, results = touch, []

        def touch():  # noqa: F811
            # A race with the first stream each time.
            assert FREE.cuStreamSynchronize(streams[1]) == 0
            assert FREE.cuMemsetD8Async(memory, 1, 64, streams[0]) == 0
            original()
            assert FREE.cuStreamSynchronize(streams[0]) == 0
            results.extend(reported(race) for race in _driver.loaded().take())

        del expected[:]
        shape()
        if not expected and name != "monitoring" or results != expected:
            wrong += 1
            pairs = [pair for found in zip(results, expected) for pair in zip(*found) if pair[0] != pair[1]]
            print(f"{name}: {len(results)} of {len(expected)}", pairs[:1])
    return wrong


wrong = sum(check(name, shape) for name, shape in SHAPES.items())
print("wrong:", wrong, "of", len(SHAPES))
sys.exit(wrong != 0)
