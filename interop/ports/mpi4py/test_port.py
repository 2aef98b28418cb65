"""What mpi4py's buffers gain with this reader. Its own tests run beside this file."""

import array

import pytest
from mpi4py import MPI

MEMORY = array.array("B", range(64))


class Exporter:
    def __init__(self, **members):
        self.__cuda_array_interface__ = {
            "version": 3, "data": (MEMORY.buffer_info()[0], False), "typestr": "<i4", "shape": (4,), "stream": None, **members,
        }  # fmt: skip


@pytest.mark.parametrize(
    "typestr, shape, nbytes",
    [("<i4", (4,), 16), ("<M8[ns]", (3,), 24), ("<U2", (3,), 24), ("|t1", (20,), 3), ("<c16", (2, 1), 32), ("<f4", (0, 3), 0)],
)
def test_bytes_of_every_type(typestr, shape, nbytes):
    address = MEMORY.buffer_info()[0] if nbytes else 0
    assert MPI.buffer(Exporter(typestr=typestr, shape=shape, data=(address, False))).nbytes == nbytes


@pytest.mark.parametrize(
    "members",
    [
        {"shape": (-2, -2)},
        {"data": (0, False)},
        {"typestr": "<i3"},
        {"shape": (1 << 40, 1 << 40)},
        {"data": ((1 << 64) - 8, False)},
        {"version": 3, "stream": 0},
    ],
    ids=str,
)
def test_dictionaries_without_meaning_are_refused(members):
    with pytest.raises((BufferError, ValueError)):
        MPI.buffer(Exporter(**members))
