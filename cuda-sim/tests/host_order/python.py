"""Work that one Python thread hands to another: python.py [CONSTRUCT [racy]]. Without arguments,
lists the constructs.

`racy` leaves out the first thread's wait for its stream, which no order of the threads replaces.
"""

import asyncio
import concurrent.futures
import ctypes as c
import os
import queue
import socket
import sys
import threading

cuda = c.CDLL("libcuda.so.1")


def ok(code):
    assert code == 0, code


class Work:
    def __init__(self, racy):
        self.racy = racy
        self.context, self.memory = c.c_void_p(), c.c_uint64()
        self.streams = [c.c_void_p(), c.c_void_p()]
        ok(cuda.cuInit(0))
        ok(cuda.cuDevicePrimaryCtxRetain(c.byref(self.context), 0))
        ok(cuda.cuCtxSetCurrent(self.context))
        ok(cuda.cuMemAlloc_v2(c.byref(self.memory), c.c_size_t(64)))
        for stream in self.streams:
            ok(cuda.cuStreamCreate(c.byref(stream), 1))

    def write(self, stream, waits):
        ok(cuda.cuCtxSetCurrent(self.context))
        ok(cuda.cuMemsetD8Async(self.memory, c.c_ubyte(1), c.c_size_t(64), stream))
        if waits:
            ok(cuda.cuStreamSynchronize(stream))

    def first(self):
        self.write(self.streams[0], not self.racy)

    def second(self):
        self.write(self.streams[1], True)


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


def locks(work):
    lock = threading.Lock()
    lock.acquire()
    handed_on(work, lock.release, lock.acquire)


def pipes(work):
    read, write = os.pipe()
    handed_on(work, lambda: os.write(write, b"x"), lambda: os.read(read, 1))


def sockets(work):
    one, other = socket.socketpair()
    handed_on(work, lambda: one.send(b"x"), lambda: other.recv(1))


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
    queues, simple_queues, events, conditions, barriers, semaphores, locks, pipes, sockets, joins,
    starts, futures, coroutines,
]  # fmt: skip

if len(sys.argv) == 1:
    print(*(construct.__name__ for construct in CONSTRUCTS))
else:
    globals()[sys.argv[1]](Work(racy="racy" in sys.argv))
    print("done")
