"""libcai: the C side of the CUDA Array Interface, for programs that build with it, and arrays in Python.

    libcai.cmakedir(), includedir(), libdir(), pkgconfigdir(), library(), load()
    libcai.inspect(object)
    libcai.view(object, stream)
    libcai.export(object)
    libcai.empty_like(prototype)
    libcai.arrow_batches(object), arrow_stream(batches)
    libcai.testing: checks for types that exchange arrays

Importing this loads neither the library nor any other package.
"""

from __future__ import annotations

from ._paths import cmakedir, includedir, libdir, library, load, pkgconfigdir

TYPE_CHECKING = False  # without `typing`, whose import takes time
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal

    from ._annotations import ArrayLike, HostArrayLike, StreamLike
    from ._arrow import ArrowBatches, ArrowStream
    from ._native import Array, View, empty_like, view
    from ._report import Finding, Inspection

    __version__: str

__all__ = [
    "Array",
    "ArrayLike",
    "Finding",
    "HostArrayLike",
    "Inspection",
    "StreamLike",
    "View",
    "arrow_batches",
    "arrow_stream",
    "cmakedir",
    "empty_like",
    "export",
    "includedir",
    "inspect",
    "libdir",
    "library",
    "load",
    "pkgconfigdir",
    "view",
]


# Imported when asked for. `_native` loads the library.
_LATER = {
    "Array": "_native", "ArrayLike": "_annotations", "Finding": "_report", "HostArrayLike": "_annotations",
    "Inspection": "_report", "StreamLike": "_annotations", "View": "_native", "empty_like": "_native",
    "view": "_native",
}  # fmt: skip

if not TYPE_CHECKING:  # with this function, every name would have the type Any

    def __getattr__(name):
        # Read when asked for: it takes longer than everything else here.
        if name == "__version__":
            from importlib import metadata

            return metadata.version("libcai")
        if name in _LATER:
            from importlib import import_module

            found = getattr(import_module(f"libcai.{_LATER[name]}"), name)
            globals()[name] = found
            return found
        raise AttributeError(f"module 'libcai' has no attribute {name!r}")


def inspect(obj: object, library: str | Literal[False] | None = None) -> Inspection:
    """How `obj` describes its array through each protocol, and what is wrong with it.

    Returns an `Inspection`: `.protocols`, `.findings`, `.as_dict()`, `.to_json()`; as text it is a table. Whatever the
    object does, nothing is raised. Every attribute is read, some of them more than once; a producer for which that
    has consequences shows them.

    `library`: the shared library that reads the object; by default that of this package. If it is False, only the
    names of the protocols are found.
    """
    from . import _inspect

    return _inspect.inspect(obj, library)


def export(obj: object) -> Array:
    """Returns an object that offers the array of `obj.__cuda_array_interface__` through every protocol.

    An array in host memory, such as one of NumPy, has `obj.__array_interface__` instead, which is read if the first is
    absent. For an object with the buffer protocol alone, pass `numpy.asarray(memoryview(obj))`.

    A class whose objects have one of these attributes gets DLPack with it: its `__dlpack__` returns
    `libcai.export(self).__dlpack__(**options)`. The result keeps `obj` alive. No other attributes that offer arrays are
    read, so `obj` may call this function in any of them.

    Raises TypeError if `obj` has neither attribute, otherwise what is wrong with its value: ValueError, KeyError or
    BufferError, as `cai_array_from_python` does. Any thread may call it.
    """
    from . import _export

    return _export.export(obj)


def arrow_batches(obj: object, columns: Iterable[str] | None = None) -> ArrowBatches:
    """Returns an iterator of the record batches of `obj`: each is a dictionary of arrays by the names of its columns.

    `obj` has `__arrow_c_device_stream__` or `__arrow_c_stream__`: a table or a reader of pyarrow, nanoarrow, Polars,
    DuckDB or ADBC. Each array keeps its batch alive. `columns`: the names of those to read; the others may have any type.

    The iterator is also a context manager, and has `close()`. Raises OSError with the producer's message if the producer
    fails, and what `cai_unstable_arrays_from_arrow` refuses as `cai_python_raise` does. One thread at a time may use it.
    """
    from . import _arrow

    return _arrow.ArrowBatches(obj, columns)


def arrow_stream(
    batches: Mapping[str, ArrayLike | HostArrayLike] | Iterable[Mapping[str, ArrayLike | HostArrayLike]], *, tensors: bool = False
) -> ArrowStream:
    """Returns an object with `__arrow_c_device_stream__` and, if all arrays are in host memory, `__arrow_c_stream__`.

    `batches`: a mapping of names and arrays of the same length, or several with the same names and types. They are read
    at once. `tensors`: arrays of more than one dimension become `arrow.fixed_shape_tensor`; otherwise they become lists,
    except for those that only a permutation describes.

    Each call of a method makes a new stream. Arrays that Arrow cannot express raise BufferError then. Any thread may call
    it.
    """
    from . import _arrow

    return _arrow.arrow_stream(batches, tensors=tensors)
