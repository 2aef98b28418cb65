"""Actors with a stream of their own, and a class that only has `__cuda_array_interface__`."""

import ctypes as c
import os
import time

import ray
from race_checker import Driver, Simulator

import libcai
import libcai.ray


class Buffer:
    """Numbers on the device, filled on a stream, on which they are freed too."""

    live = 0

    def __init__(self, driver, stream, count, value):
        self.driver, self.stream, self.count, self.address = driver, stream, count, c.c_uint64()
        driver.call("cuCtxSetCurrent", driver.context)
        driver.call("cuMemAlloc_v2", c.byref(self.address), c.c_size_t(4 * max(count, 1)))
        driver.call("cuMemsetD32Async", self.address, value, c.c_size_t(count), c.c_void_p(stream))
        Buffer.live += 1

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": (self.count,),
            "typestr": "<i4",
            "version": 3,
            "data": (self.address.value if self.count else 0, False),
            "stream": self.stream,
        }

    def __del__(self):
        Buffer.live -= 1
        self.driver.call("cuCtxSetCurrent", self.driver.context)
        self.driver.call("cuMemFreeAsync", self.address, c.c_void_p(self.stream))


def races_of(actor):
    return Simulator().take_report()[0]


class Actor:
    def __init__(self):
        self.driver = Driver()
        self.stream = self.driver.stream()
        self.kept = []

    def races(self):
        return self.driver.take_report()[0]

    def pid(self):
        return os.getpid()


class Making(Actor):
    def make(self, count=1000, value=1):
        return libcai.ray.Array(Buffer(self.driver, self.stream, count, value))

    def live(self):
        return Buffer.live


@ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
class Producer(Making):
    @ray.method(tensor_transport="cai")
    def array(self, count=1000, value=1, delay=0):
        time.sleep(delay)
        return self.make(count, value)

    @ray.method(tensor_transport="cai")
    def several(self):
        return {"text": "two", "arrays": [self.make(10, 2), self.make(0), {"more": self.make(20, 3)}]}

    @ray.method(tensor_transport="cai")
    def nothing(self):
        return "nothing"

    @ray.method(tensor_transport="cai")
    def hosts(self):
        return [self.make(), libcai.ray.Array(bytearray(8))]

    @ray.method(tensor_transport="cai")
    def passed_on(self, array):
        return array

    @ray.method(tensor_transport="cai")
    def dies_once(self, file):
        if not os.path.exists(file):
            open(file, "w").close()
            os._exit(1)
        return self.make(10, 5)

    @ray.method(tensor_transport="cai", retry_exceptions=True)
    def fails_once(self):
        self.kept.append(None)
        if len(self.kept) == 1:
            raise ValueError("the first time")
        self.kept.clear()
        return self.make(10, 6)

    @ray.method(tensor_transport="cai")
    def elsewhere(self):
        """As if on another machine: records contain its boot id and the number of the process."""
        export = libcai.ray._Channel.export

        def altered(channel, array):
            libcai.ray._Channel.export = export
            number, record = export(channel, array)
            return number, record[:16] + bytes(16) + record[32:40] + bytes(16) + record[56:]

        libcai.ray._Channel.export = altered
        return self.make()

    def put(self, value):
        return [ray.put(self.make(10, value), _tensor_transport="cai")]

    def accepts_nothing(self, is_deaf):
        """The thread that accepts connections waits."""
        poll = libcai.ray._Channel.poll
        if is_deaf:
            self.kept.append(poll)
            libcai.ray._Channel.poll = lambda channel: None
        else:
            libcai.ray._Channel.poll = self.kept.pop()


class Using(Actor):
    def sum(self, array, keeps=False):
        numbers = (c.c_int32 * array.shape[0])()
        self.driver.call("cuCtxSetCurrent", self.driver.context)
        array.begin(self.stream)
        address = array.__cuda_array_interface__["data"][0]
        self.driver.call("cuMemcpyDtoHAsync_v2", numbers, c.c_uint64(address), c.c_size_t(c.sizeof(numbers)), c.c_void_p(self.stream))
        array.end(self.stream)
        self.synchronize()
        if keeps:
            self.kept.append(array)
        return sum(numbers)

    def fill(self, address, count):
        self.driver.call("cuCtxSetCurrent", self.driver.context)
        self.driver.call("cuMemsetD32Async", c.c_uint64(address), 2, c.c_size_t(count), c.c_void_p(self.stream))

    def synchronize(self):
        self.driver.call("cuStreamSynchronize", c.c_void_p(self.stream))

    def write(self, array, begins=True, ends=True):
        """Releases the array before the work has run."""
        if begins:
            array.begin(self.stream, write=True)
        self.fill(array.__cuda_array_interface__["data"][0], array.shape[0])
        if ends:
            array.end(self.stream, write=True)

    def view(self, array):
        with libcai.view(array, self.stream) as view:
            self.fill(view.ptr, view.size)

    def sums(self, value):
        first, second, third = value["arrays"]
        return value["text"], self.sum(first), second.shape, self.sum(third["more"])

    def fetched(self, references):
        return self.sum(ray.get(references[0]))

    def again(self):
        return [self.sum(array) for array in self.kept]

    def drop(self):
        self.kept.clear()

    def description(self, value):
        return repr(value)

    def patience(self, seconds):
        libcai.ray._ACCEPTED_WITHIN = seconds


@ray.remote(num_cpus=0, max_restarts=1, enable_tensor_transport=True)
class Consumer(Using):
    @ray.method(tensor_transport="cai")
    def passed_on(self, array):
        return array


@ray.remote(num_cpus=0)
class Unprepared(Using):
    pass


@ray.remote(num_cpus=0)
def task(array):
    return repr(array)
