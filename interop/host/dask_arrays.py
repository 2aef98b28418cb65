"""For test_dask.py, whose workers import it: a class of arrays that Dask does not know, and functions that are its tasks."""

import ctypes as c

import distributed_ucxx.ucxx as comm
from cai_python import LIBRARY
from race_checker import Driver

import libcai.dask
from libcai import _paths

_paths.library = lambda: str(LIBRARY)


class Memory:
    """Of the device. In place of RMM's, whose runtime library is inside and stripped."""

    live = 0

    def __init__(self, nbytes):
        self.driver, self.nbytes, self.address = Driver(), nbytes, c.c_uint64()
        self.driver.call("cuMemAlloc_v2", c.byref(self.address), c.c_size_t(max(nbytes, 1)))
        Memory.live += 1

    @property
    def __cuda_array_interface__(self):
        data = self.address.value if self.nbytes else 0, False
        return {"shape": (self.nbytes,), "typestr": "|u1", "version": 0, "strides": (1,), "data": data}

    def __del__(self):
        self.driver.call("cuCtxSetCurrent", self.driver.context)
        self.driver.call("cuCtxSynchronize")
        self.driver.call("cuMemFree_v2", self.address)
        Memory.live -= 1


comm.device_array = Memory
# It waits for the whole device through a runtime library that is inside as well: without it, only libcai waits.
comm.synchronize_stream = lambda *_: None


class Array:
    def __init__(self, interface, memory):
        self.__cuda_array_interface__, self.memory = interface, memory


libcai.dask.register(Array, lambda array: Array(array.__cuda_array_interface__, array))


def make(nbytes, **interface):
    """An array of bytes of 7, which a stream writes."""
    memory = Memory(nbytes)
    stream = memory.driver.stream()
    if nbytes:
        memory.driver.call("cuMemsetD8Async", memory.address, 7, c.c_size_t(nbytes), c.c_void_p(stream))
    data = memory.__cuda_array_interface__["data"]
    return Array({"version": 3, "stream": stream, "data": data, **interface}, memory)


def look(array, nbytes):
    """What another worker sees: the keys, the bytes, and races."""
    driver, interface, out = Driver(), array.__cuda_array_interface__, (c.c_uint8 * nbytes)()
    if nbytes:
        driver.call("cuMemcpyDtoH_v2", out, c.c_uint64(interface["data"][0]), c.c_size_t(nbytes))
    keys = {key: interface.get(key) for key in ("shape", "strides", "typestr", "descr")}
    return keys, bytes(out), driver.take_report()[0]


def live():
    return Memory.live
