"""Types for annotations: arguments that the library imports as arrays and streams.

They are structural. Functions that are bound with cai/pybind11.hpp or cai/nanobind.hpp have them in their signatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HasCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


class HasSyclUsmArrayInterface(Protocol):
    @property
    def __sycl_usm_array_interface__(self) -> Mapping[str, Any]: ...


class HasDlpack(Protocol):
    # Parameters differ between libraries: `max_version` is of DLPack 1.0.
    @property
    def __dlpack__(self) -> Any: ...
    @property
    def __dlpack_device__(self) -> Any: ...


class HasDlpackExchange(Protocol):
    @property
    def __dlpack_c_exchange_api__(self) -> object: ...


class HasCaiExchange(Protocol):
    @property
    def __cai_exchange_api__(self) -> object: ...


class HasArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> Mapping[str, Any]: ...


class HasArrayStruct(Protocol):
    @property
    def __array_struct__(self) -> object: ...


class HasArrowDeviceArray(Protocol):
    @property
    def __arrow_c_device_array__(self) -> Any: ...


class HasArrowArray(Protocol):
    @property
    def __arrow_c_array__(self) -> Any: ...


class HasCudaStream(Protocol):
    """Streams of cuda.core and others."""

    # The pair itself in the first releases of cuda.core.
    @property
    def __cuda_stream__(self) -> Any: ...


class HasTorchStream(Protocol):
    @property
    def cuda_stream(self) -> Any: ...


class HasCupyStream(Protocol):
    @property
    def ptr(self) -> Any: ...


class HasNumbaStream(Protocol):
    @property
    def handle(self) -> Any: ...


# An array of a GPU library.
ArrayLike = Union[
    HasCudaArrayInterface, HasDlpack, HasDlpackExchange, HasCaiExchange, HasSyclUsmArrayInterface,
    HasArrowDeviceArray,
]  # fmt: skip
# An array in host memory. Those of NumPy are both.
HostArrayLike = Union["Buffer", HasArrayInterface, HasArrayStruct, HasArrowArray]
# A CUDA stream: an object of cuda.core, PyTorch, CuPy or Numba, or the number of one.
StreamLike = Union[SupportsIndex, HasCudaStream, HasTorchStream, HasCupyStream, HasNumbaStream]
