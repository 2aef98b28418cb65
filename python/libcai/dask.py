"""Arrays on a GPU between workers of Dask that use UCX: without a copy through the host, after the work on any stream.

    libcai.dask.register(torch.Tensor, torch.from_dlpack)              on the client
    client.run(libcai.dask.register, torch.Tensor, torch.from_dlpack)  on its workers

Over UCX, Dask passes CuPy's, Numba's and RMM's arrays itself. Those of other classes it pickles, which copies them through
the host or fails. Importing this module imports nothing of Dask.
"""

from __future__ import annotations

import ctypes as c
import functools
import importlib
from collections.abc import Callable
from typing import Any

from . import _abi, _raw

__all__ = ["register"]


def register(cls: type, make: Callable[[Any], Any]) -> None:
    """Lets objects of `cls` and its subclasses pass between Dask's processes: call it in each of them.

    `make(array)` makes one of what arrived, an object as `libcai.export` returns it: `cupy.from_dlpack`,
    `torch.from_dlpack`, or a function of yours. Its memory is RMM's, on the device that is current in the process.

    The sender waits for all streams of the array's context, because Dask sends on a thread of its own, on which another
    stream is current than where the array was made. The receiver has no work to wait for; the memory is freed when
    nothing refers to it, so wait for your work on streams other than RMM's before.

    Arrays with gaps or masks, or in host memory, go on to Dask's other serializers.
    """
    cuda = importlib.import_module("distributed.protocol.cuda")
    cuda.cuda_serialize.register(cls)(_serialize)
    cuda.cuda_deserialize.register(cls)(functools.partial(_deserialize, make))


class _Frame:
    """The bytes of an array, which is kept."""

    def __init__(self, array: _abi.cai_array) -> None:
        self._array = array
        self.__cuda_array_interface__: dict[str, Any] = {}
        self.nbytes = 0

    def __del__(self, release: Callable[[_abi.cai_array], None] = _raw.release) -> None:
        release(self._array)


def _serialize(obj: Any) -> tuple[_raw.Description, list[_Frame]]:
    frame = _Frame(_raw.read(obj))
    array, error = _abi.cai_array.from_buffer_copy(frame._array), _abi.cai_error()
    if array.device.type not in (_abi.CAI_DEVICE_CUDA, _abi.CAI_DEVICE_CUDA_MANAGED):
        raise NotImplementedError("an array in host memory")
    # The context's streams, whatever the array says.
    array.stream, array.stream_id, array.event = _abi.CAI_STREAM_UNKNOWN, 0, None
    address, size = c.c_void_p(), c.c_int64()
    status = _raw.lib().free.cai_unstable_array_bytes(
        array, _abi.CAI_STREAM_NONE, None, _abi.CAI_ACCESS_READ, address, size, error
    )
    if status in (_abi.CAI_ERR_CONVERT_CONTIGUOUS, _abi.CAI_ERR_CONVERT_MASK):
        raise NotImplementedError(error.message.decode())
    _raw.check(status, error)
    frame.nbytes = size.value
    frame.__cuda_array_interface__ = {
        "shape": (size.value,),
        "typestr": "|u1",
        "version": 3,
        "data": (address.value or 0, bool(array.flags & _abi.CAI_ARRAY_READONLY)),
        "stream": None,
    }
    return _raw.description(array, with_strides=True), [frame]


def _deserialize(make: Callable[[Any], Any], header: Any, frames: list[Any]) -> Any:
    array = _raw.over(_raw.read(frames[0]), _raw.Description(*header))
    try:
        return make(_raw.to_python(array))
    finally:
        _raw.release(array)
