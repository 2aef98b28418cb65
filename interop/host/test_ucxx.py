"""ucxx sends from our objects and receives into them. Host memory is in place of the device's: UCX without a driver
copies it either way."""

import asyncio
import gc
import multiprocessing

import numpy as np
import pytest
import ucxx
from cai_python import give, make
from host_arrays import out
from ucxx._lib.arr import Array


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f8", "c16", "?"])
def test_what_it_sees(hide, dtype):
    memory = np.zeros((3, 4), dtype)
    seen = Array(out(memory, hide))
    assert seen.ptr == memory.ctypes.data and seen.nbytes == memory.nbytes and seen.shape == (3, 4)
    assert seen.cuda and seen.c_contiguous and not seen.readonly


def test_readonly_and_order():
    memory = np.zeros((3, 4), order="F")
    seen = Array(out(memory, True, readonly=True, strides=memory.strides))
    assert seen.readonly and seen.f_contiguous and not seen.c_contiguous and seen.strides == (8, 24)


def test_what_it_refuses():
    """Masks."""
    memory, mask = np.zeros(12), make((12,), "|b1")
    with pytest.raises(NotImplementedError):
        Array(out(memory, True, mask=mask))
    mask.release()


def test_it_keeps_the_object():
    memory = np.zeros(12)
    array = make((12,), "<f8", memory.ctypes.data)
    seen = Array(give(array))
    array.release()
    gc.collect()
    assert array.counted.gone == 0
    del seen
    gc.collect()
    assert array.counted.gone == 1


def receive(pipe):
    """In a process of its own."""
    target = np.zeros(5000)

    async def accept():
        received = asyncio.get_running_loop().create_future()

        async def serve(endpoint):
            await endpoint.recv(out(target))
            await endpoint.close()
            received.set_result(None)

        listener = ucxx.create_listener(serve)
        pipe.send(listener.port)
        await received
        listener.close()

    ucxx.init()
    asyncio.run(asyncio.wait_for(accept(), 30))
    ucxx.reset()
    pipe.send(target)


def test_messages():
    """Between two processes."""
    source = np.arange(5000.0)
    spawn = multiprocessing.get_context("spawn")
    pipe, other = spawn.Pipe()
    receiver = spawn.Process(target=receive, args=(other,))
    receiver.start()
    other.close()
    port = pipe.recv()

    async def send():
        endpoint = await ucxx.create_endpoint("127.0.0.1", port)
        await endpoint.send(out(source))
        await endpoint.close()

    ucxx.init()
    asyncio.run(asyncio.wait_for(send(), 30))
    ucxx.reset()
    assert (pipe.recv() == source).all()
    receiver.join()
