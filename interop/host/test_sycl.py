"""dpctl's memory, and what is peculiar to SYCL's dictionaries, on Intel's runtime for processors."""

import gc
import weakref

import dpctl
import dpctl.memory
import dpnp
import numpy as np
import pytest

import cai_python as P
from cai_python import give, make, take

SYCL = [P.SYCL_USM]
MEMORY = [dpctl.memory.MemoryUSMShared, dpctl.memory.MemoryUSMDevice, dpctl.memory.MemoryUSMHost]


class Offers:
    """An object of another library with a dictionary."""

    def __init__(self, **interface):
        self.__sycl_usm_array_interface__ = interface


@pytest.mark.parametrize("kind", MEMORY)
def test_memory(kind):
    memory = kind(64)
    found = memory.__sycl_usm_array_interface__
    with take(memory) as taken:
        assert taken.shape == (64,) and taken.typestr == "|u1" and taken.data == found["data"][0] == memory._pointer
        assert taken.device == (P.ONEAPI, memory.sycl_device.get_device_id())
        # dpctl writes True where the protocol has the read-only flag. The protocol's word counts.
        assert found["data"][1] is True and taken.readonly
        again = dpctl.memory.as_usm_memory(give(taken))
        assert type(again) is kind and again._pointer == memory._pointer and again.nbytes == 64


@pytest.mark.parametrize("index", [np.s_[:], np.s_[:, 1:3], np.s_[1:], np.s_[1, 2]])
def test_memory_of_arrays(index):
    array = dpnp.arange(12, dtype="f4").reshape(3, 4)[index]
    with take(array, protocols=SYCL, typestr="<f4") as taken:  # dpnp writes "|f4"
        obj = give(taken)
        found = obj.__sycl_usm_array_interface__
        assert found["version"] == 1 and found["data"] == (taken.data, False)
        assert dpctl.memory.as_usm_memory(obj)._pointer == taken.data


def test_back_from_the_end():
    """Negative steps: `data` is where the memory begins, and `offset` leads to the first element. dpctl makes the same memory of it as
    of dpnp's own dictionary. (dpnp itself takes neither: it leaves out the offset.)"""
    array = dpnp.arange(12, dtype="f4").reshape(3, 4)[:, ::-2]

    class Own:
        __sycl_usm_array_interface__ = array.__sycl_usm_array_interface__

    with take(array, protocols=SYCL) as taken:
        obj = give(taken)
        ours, own = obj.__sycl_usm_array_interface__, Own.__sycl_usm_array_interface__
        assert ours["data"][0] + 4 * ours["offset"] == own["data"][0] + 4 * own["offset"] == taken.data
        assert ours["strides"] == own["strides"] and ours["shape"] == own["shape"]
        memory, expected = dpctl.memory.as_usm_memory(obj), dpctl.memory.as_usm_memory(Own())
        assert (memory._pointer, memory.nbytes) == (expected._pointer, expected.nbytes)


def test_object_dropped_first():
    memory = dpctl.memory.MemoryUSMShared(64)
    memory.copy_from_host(np.arange(64, dtype="u1"))
    address = memory._pointer
    taken = take(memory)
    obj = give(taken)
    again = dpctl.memory.as_usm_memory(obj)
    taken.release()
    del memory, obj
    gc.collect()
    others = [dpctl.memory.MemoryUSMShared(64) for _ in range(50)]
    assert all(other._pointer != address for other in others)
    assert bytes(again) == bytes(range(64))


def test_array_dropped_first():
    class Mine(Offers):
        pass

    array = dpnp.arange(12, dtype="i4")
    mine = Mine(**array.__sycl_usm_array_interface__)
    alive = weakref.ref(mine)
    taken = take(mine)
    del mine
    gc.collect()
    assert alive() is not None
    taken.release(P.free)
    assert P.soon(lambda: alive() is None)


def test_what_syclobj_may_be():
    memory = dpctl.memory.MemoryUSMShared(64)
    given = memory.__sycl_usm_array_interface__
    queue, context = memory.sycl_queue, memory.sycl_context
    for syclobj in (queue, queue._get_capsule()):
        with take(Offers(**dict(given, syclobj=syclobj))) as taken:
            assert taken.stream not in (None, P.STREAM_UNKNOWN) and taken.context is None
            assert dpctl.memory.as_usm_memory(give(taken))._pointer == memory._pointer
    for syclobj in (context, context._get_capsule()):
        with take(Offers(**dict(given, syclobj=syclobj))) as taken:
            assert taken.stream in (None, P.STREAM_UNKNOWN) and taken.context
            assert dpctl.memory.as_usm_memory(give(taken))._pointer == memory._pointer
    # dpctl finds the device and the default context of a filter string.
    with take(Offers(**dict(given, syclobj="cpu"))) as taken:
        assert taken.context and taken.device == (P.ONEAPI, dpctl.SyclDevice("cpu").get_device_id())
        assert dpctl.memory.as_usm_memory(give(taken))._pointer == memory._pointer
    with pytest.raises(Exception):
        take(Offers(**dict(given, syclobj="no such device")))


def test_readonly():
    memory = dpctl.memory.MemoryUSMShared(64)
    given = dict(memory.__sycl_usm_array_interface__, data=(memory._pointer, True))
    with take(Offers(**given)) as taken:
        assert taken.readonly and give(taken).__sycl_usm_array_interface__["data"] == (memory._pointer, True)
    with pytest.raises(BufferError):
        take(Offers(**given), writable=True)


def test_dpctl_does_not_take_cuda():
    with make() as array, pytest.raises(ValueError):
        dpctl.memory.as_usm_memory(give(array))
