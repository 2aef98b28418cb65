"""The protocols: whether an object offers them, and what the library does not report of DLPack and buffers."""

from __future__ import annotations

from typing import Any

from . import _dlpack
from ._ask import ask, attribute, describe
from ._report import Add, Array, State
from ._rules import Severity

# CAI_PROTOCOL_ numbers, in the order in which the library tries them.
NAMES = (
    ("__cai_exchange_api__", 1), ("__dlpack_c_exchange_api__", 2), ("__cuda_array_interface__", 3), ("__dlpack__", 4),
    ("__sycl_usm_array_interface__", 5), ("buffer", 6), ("__array_struct__", 7), ("__array_interface__", 8),
    ("__arrow_c_device_array__", 10), ("Py_buffer", 9),
)  # fmt: skip
ARROW = "__arrow_c_device_array__"
TENSORS = ("__dlpack__", "__dlpack_c_exchange_api__")


def offered(obj: object, name: str, add: Add) -> tuple[State, str | None]:
    """The state, and the message if it is declined or has failed."""
    if name == "buffer":
        return _buffer(obj)
    if name == "Py_buffer":
        return _pep3118(obj)
    on = type(obj) if name.endswith("_api__") else obj
    _, state, message = attribute(on, name, add)
    if name == ARROW and state == "absent":
        # Of host memory, which the library takes as well.
        _, state, message = attribute(obj, "__arrow_c_array__", add)
    return state, message


def _buffer(obj: object) -> tuple[State, str | None]:
    """The OpenCL/CUDA buffer interface. Attributes of such common names may be anything."""

    def has(name: str) -> bool:
        return attribute(obj, name, _ignore)[1] == "offered"

    is_one = (has("buffer") or has("base_data")) and has("dtype") and has("shape")
    return ("offered" if is_one else "absent"), None


def _ignore(rule: str, message: str, severity: Severity | None = None) -> None:
    pass


def _pep3118(obj: object) -> tuple[State, str | None]:
    """The buffer protocol of PEP 3118. An object without it is a TypeError."""
    view, error = ask(memoryview, obj)
    if error is None:
        view.release()
        return "offered", None
    return ("absent", None) if isinstance(error, TypeError) else ("declined", describe(error))


def raised(name: str, error: BaseException, add: Add) -> tuple[State, str]:
    """The state after an exception of the producer."""
    if isinstance(error, (BufferError, AttributeError)) or name.endswith("_api__"):
        return "declined", describe(error)
    if name == "__dlpack__":
        add("dlpack-raises",
            f"it raises {describe(error)}, expected BufferError if an array cannot be exported")  # fmt: skip
    else:
        add("unreadable", f"reading it ended in {describe(error)}")
    return "failed", describe(error)


def notes(obj: Any, name: str, array: Array, add: Add) -> None:
    """What the library accepts and some consumers do not."""
    if name == "__dlpack__":
        _dlpack.notes(obj, array, add)
    if name == "buffer":
        if ask(getattr, obj, "offset", None)[0] is None:
            add("buffer-offset", "there is no offset: the specification asks for it")
        base, error = ask(getattr, obj, "base_data")
        if error is None:
            add("buffer-name",
                "the attribute is called base_data, as pyopencl does; the specification calls it buffer")  # fmt: skip
        else:
            base, _ = ask(getattr, obj, "buffer")
        if ask(getattr, base, "int_ptr")[1] is None:
            add("buffer-name", "the buffer has int_ptr, as pyopencl's do; the specification calls it _ptr")
