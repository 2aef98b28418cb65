"""Work that one Python thread hands to another: python.py [CONSTRUCT [racy]]. Without arguments,
lists the constructs.

`racy` leaves out the wait of the second thread's stream, which no order of the threads replaces.
"""

import asyncio
import concurrent.futures
import ctypes as c
import queue
import sys
import threading

cuda = c.CDLL("libcuda.so.1")


def ok(code):
    assert code == 0, code


class Work:
    def __init__(self, racy):
        self.racy = racy
        self.context, self.memory, self.event = c.c_void_p(), c.c_uint64(), c.c_void_p()
        self.streams = [c.c_void_p(), c.c_void_p()]
        ok(cuda.cuInit(0))
        ok(cuda.cuDevicePrimaryCtxRetain(c.byref(self.context), 0))
        ok(cuda.cuCtxSetCurrent(self.context))
        ok(cuda.cuMemAlloc_v2(c.byref(self.memory), c.c_size_t(64)))
        ok(cuda.cuEventCreate(c.byref(self.event), 2))
        for stream in self.streams:
            ok(cuda.cuStreamCreate(c.byref(stream), 1))

    def write(self, stream):
        ok(cuda.cuMemsetD8Async(self.memory, c.c_ubyte(1), c.c_size_t(64), stream))

    def first(self):
        ok(cuda.cuCtxSetCurrent(self.context))
        self.write(self.streams[0])
        ok(cuda.cuEventRecord(self.event, self.streams[0]))

    def second(self):
        ok(cuda.cuCtxSetCurrent(self.context))
        if not self.racy:
            ok(cuda.cuStreamWaitEvent(self.streams[1], self.event, 0))
        self.write(self.streams[1])
        ok(cuda.cuStreamSynchronize(self.streams[1]))


def on_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def handed_on(work, give, take):
    on_threads(lambda: (work.first(), give()), lambda: (take(), work.second()))


def queues(work, kind=queue.Queue):
    one = kind()
    handed_on(work, lambda: one.put(1), one.get)


def simple_queues(work):
    queues(work, queue.SimpleQueue)


def events(work):
    event = threading.Event()
    handed_on(work, event.set, event.wait)


def conditions(work):
    condition, done = threading.Condition(), []

    def give():
        with condition:
            done.append(1)
            condition.notify()

    def take():
        with condition:
            condition.wait_for(lambda: done)

    handed_on(work, give, take)


def barriers(work):
    barrier = threading.Barrier(2)
    handed_on(work, barrier.wait, barrier.wait)


def semaphores(work):
    semaphore = threading.Semaphore(0)
    handed_on(work, semaphore.release, semaphore.acquire)


def joins(work):
    on_threads(work.first)
    work.second()


def starts(work):
    work.first()
    on_threads(work.second)


def futures(work):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(work.first)
        pool.submit(lambda: (first.result(), work.second())).result()


def coroutines(work):
    async def both():
        await asyncio.to_thread(work.first)
        await asyncio.to_thread(work.second)

    asyncio.run(both())


CONSTRUCTS = [
    queues, simple_queues, events, conditions, barriers, semaphores, joins, starts, futures,
    coroutines,
]  # fmt: skip

if len(sys.argv) == 1:
    print(*(construct.__name__ for construct in CONSTRUCTS))
else:
    globals()[sys.argv[1]](Work(racy="racy" in sys.argv))
    print("done")
