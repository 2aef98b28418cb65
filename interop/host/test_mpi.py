"""mpi4py sends from our objects and receives into them. Host memory stands in for the device's: MPI copies it either way."""

import gc

import numpy as np
import pytest
from mpi4py import MPI

import cai_python as P
from cai_python import give, make, take
from host_arrays import out


def exchange(source, target):
    MPI.COMM_SELF.Sendrecv(source, 0, recvbuf=target, source=0)


@pytest.mark.parametrize("device", [(P.CUDA, 0), (P.CPU, 0)])
@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", "c16", "?"])
def test_send_and_receive(device, dtype):
    source, target = np.arange(12).astype(dtype), np.zeros(12, dtype)
    exchange(out(source, device=device), out(target, device=device))
    assert (target == source).all()


@pytest.mark.parametrize("dtype", ["f8", "i4", "u1"])
def test_by_the_dictionary(dtype):
    source, target = np.arange(12).astype(dtype), np.zeros(12, dtype)
    exchange(out(source, True), out(target, True))
    assert (target == source).all()


def test_random_layouts():
    """Every type and shape, in C and in Fortran order. mpi4py takes no gaps."""
    random = np.random.default_rng(1)
    for _ in range(300):
        dtype = np.dtype(random.choice(["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16", "?"]))
        shape = tuple(random.integers(1, 5, random.integers(0, 5)).tolist())
        count = int(np.prod(shape))
        order = random.choice(["C", "F"])
        source = np.frombuffer(random.bytes(count * dtype.itemsize), "u1").copy()
        source = (source % 2 if dtype == "?" else source).view(dtype).reshape(shape, order=order)
        target = np.zeros(shape, dtype, order)
        as_dictionary = bool(random.integers(2)) and dtype != "?"
        strides = source.strides if order == "F" else None
        exchange(*(out(array, as_dictionary, strides=strides) for array in (source, target)))
        assert source.tobytes("A") == target.tobytes("A"), (dtype, shape, order)


def test_fortran_order():
    source, target = np.asfortranarray(np.arange(12.0).reshape(3, 4)), np.zeros((3, 4), order="F")
    exchange(out(source, True, strides=source.strides), out(target, True, strides=target.strides))
    assert (target == source).all()


def test_readonly():
    """May be sent from, not received into."""
    source, target = np.arange(12.0), np.zeros(12)
    exchange(out(source, True, readonly=True), out(target, True))
    assert (target == source).all()
    with pytest.raises(BufferError):
        exchange(out(source, True), out(target, True, readonly=True))


def test_what_it_refuses():
    memory = np.arange(12.0)
    with pytest.raises(BufferError):
        exchange(out(memory[:6], True, strides=(16,)), np.zeros(6))
    mask = make((12,), "|b1")
    with pytest.raises(BufferError):
        exchange(out(memory, True, mask=mask), np.zeros(12))
    mask.release()


def test_empty():
    exchange(out(np.zeros(0), True), out(np.zeros(0), True))
    exchange(out(np.zeros((0, 4))), out(np.zeros((0, 4))))


def test_object_dropped_first():
    """A request keeps the object until it is done."""
    memory, target = np.arange(12.0), np.zeros(12)
    array = make((12,), "<f8", memory.ctypes.data)
    request = MPI.COMM_SELF.Isend(give(array), 0)
    array.release()
    gc.collect()
    assert array.counted.gone == 0
    MPI.COMM_SELF.Recv(target, 0)
    request.Wait()
    del request
    gc.collect()
    assert (target == memory).all() and array.counted.gone == 1


def test_in():
    """mpi4py's own buffers are Python buffers, which are NumPy's affair."""
    memory = MPI.memory.allocate(64)
    array = np.frombuffer(memory, "f8")
    with take(array, host=True) as taken:
        assert taken.data == memory.address and taken.shape == (8,)


def test_streams_are_not_looked_at():
    """mpi4py ignores the stream, and says so in its manual: synchronize first."""
    source, target = np.arange(12.0), np.zeros(12)
    exchange(out(source, True, stream=0x7000_0000), out(target, True, stream=2))
    assert (target == source).all()
