"""Arrays on a GPU between actors of Ray on one machine: by handle instead of a copy, and in stream order.

    libcai.ray.register()                     once, before the actors are created
    @ray.method(tensor_transport="cai")       on a method that returns libcai.ray.Array(x)
    libcai.view(array, stream)                in the method that gets the Array

The transport plugs into Ray Direct Transport of Ray 2.55 and newer, which Ray calls alpha. `pip install libcai[ray]`
installs it. Importing this module imports nothing of Ray; in a worker of Ray it registers the transport, so that actors
that were restarted have it too.
"""

from __future__ import annotations

import atexit
import ctypes as c
import dataclasses
import importlib
import logging
import os
import pickle
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn, final

from . import _abi, _raw
from ._raw import release as _release  # in the class, _raw is the array

__all__ = ["Array", "register"]

NAME = "cai"
# Longer than an exporter that runs needs to accept a connection, shorter than Ray's own limit of 60 seconds.
_ACCEPTED_WITHIN = 30.0
_log = logging.getLogger(__name__)


@final
class Array:
    """An array of any library, which Ray passes to another actor without copying it.

    `obj`: an object with `__cuda_array_interface__`, `__dlpack__` or another protocol that `libcai.inspect` lists. Its
    stream is the one that is current now, and must exist until the array is released. An array in host memory is
    accepted, but only pickled: Ray copies those itself.

    An Array has the protocols of what it wraps. The actor that gets it calls `libcai.view(array, stream)`, or brackets
    its work with `begin` and `end`: its stream then waits for the producer's, and the producer's memory is not freed
    before that work. When the last reference ends, the producer may free the memory.

    Pickled, as for `ray.get(ref, _use_object_store=True)`, it becomes an Array in host memory with a copy of the
    elements. Thread safety: any thread. Raises what `libcai.export` raises; RuntimeError for the driver.
    """

    __slots__ = ("__weakref__", "_is_received", "_raw")
    _raw: _abi.cai_array
    _is_received: bool

    def __init__(self, obj: object) -> None:
        self._raw, self._is_received = _raw.read(obj), False

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("a subclass of libcai.ray.Array: Ray copies objects that are not of the very class")

    @classmethod
    def _of(cls, raw: _abi.cai_array, is_received: bool) -> Array:
        array = cls.__new__(cls)
        array._raw, array._is_received = raw, is_received
        return array

    def _made(self) -> Any:
        return _raw.to_python(self._raw)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._raw.shape[: self._raw.ndim]) if self._raw.ndim else ()

    @property
    def dtype(self) -> Any:
        return self._made().dtype

    @property
    def device(self) -> str | None:
        device: str | None = self._made().device
        return device

    # Absent where the array has no such form: an AttributeError.
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        dictionary: dict[str, Any] = self._made().__cuda_array_interface__
        return dictionary

    @property
    def __array_interface__(self) -> dict[str, Any]:
        dictionary: dict[str, Any] = self._made().__array_interface__
        return dictionary

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        method: Callable[..., Any] = self._made().__dlpack__
        return method

    @property
    def __dlpack_device__(self) -> Callable[[], tuple[int, int]]:
        method: Callable[[], tuple[int, int]] = self._made().__dlpack_device__
        return method

    def begin(self, stream: int, write: bool = False) -> None:
        """Makes a stream, given by its handle, wait for the work that is pending on the array.

        `write`: whether your work writes; the stream then also waits for readers. Raises BufferError for a read-only
        array, or if the process that exported the array has ended; RuntimeError for the driver.
        """
        self._half("cai_array_consume_begin", stream, write)

    def end(self, stream: int, write: bool = False) -> None:
        """Makes the array's stream, and through it the producer, wait for your work on `stream`. As `begin`."""
        self._half("cai_array_consume_end", stream, write)

    def _half(self, name: str, stream: int, write: bool) -> None:
        access = _abi.CAI_ACCESS_READ | (_abi.CAI_ACCESS_WRITE if write else 0)
        error = _abi.cai_error()
        _raw.check(getattr(_raw.lib().free, name)(self._raw, stream, access, error), error)

    def release(self) -> None:
        """Gives the memory back now, instead of with the last reference. The work that `end` named may still run."""
        _raw.lib().held.cai_array_release(self._raw)

    def __del__(self, release: Callable[[_abi.cai_array], None] = _release) -> None:
        if hasattr(self, "_raw"):  # not if the import failed
            release(self._raw)

    def __repr__(self) -> str:
        return f"libcai.ray.Array(shape={self.shape}, typestr={self._raw.typestr.decode()!r})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        held, free, error = _raw.lib().held, _raw.lib().free, _abi.cai_error()
        layout, copy = _abi.cai_layout(), _raw.new()
        _raw.check(held.cai_array_layout(self._raw, layout, error), error)
        size = layout.nbytes
        buffer = bytearray(size)
        place = (c.c_char * size).from_buffer(buffer) if size else None
        _raw.check(
            free.cai_unstable_array_copy_to_host(self._raw, _abi.CAI_STREAM_NONE, 0, place, size, copy, error), error
        )
        held.cai_array_release(copy)
        # Without another copy, where the pickler can; writable, unless the unpickler lends memory that is not.
        data = pickle.PickleBuffer(buffer) if protocol >= 5 else buffer
        return _unpickled, (data, _raw.description(self._raw, with_strides=False))


def _unpickled(data: Any, described: _raw.Description) -> Array:
    return Array._of(_raw.over(_raw.read(memoryview(data)), described), False)


class _Channel:
    """The channel of this process, and a thread that polls it.

    Ray calls a transport only when it has something to do, on threads that a long method blocks. An importer that
    connects, a process that ends and memory to close do not wait for that.
    """

    def __init__(self) -> None:
        self._libraries, error = _raw.lib(), _abi.cai_error()
        number, descriptor = c.c_uint64(), c.c_int32()
        _raw.check(self._libraries.held.cai_unstable_channel_create(0, 0, number, error), error)
        self._number = number.value
        _raw.check(self._libraries.held.cai_unstable_channel_fd(self._number, descriptor, error), error)
        self._descriptor = descriptor.value
        self._live: set[int] = set()
        self._kept = 0
        self._complaint: bytes = b""
        self._is_over = False
        self._awake, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        thread = threading.Thread(target=self._run, name="libcai.ray", daemon=True)
        thread.start()

        def end() -> None:
            # CUDA must not be called any more when the process ends.
            self._is_over = True
            self.wake()
            thread.join(5)

        atexit.register(end)

    def wake(self) -> None:
        try:
            os.write(self._wake, b".")
        except BlockingIOError:
            pass

    def _run(self) -> None:
        events = select.poll()
        for descriptor in (self._descriptor, self._awake):
            events.register(descriptor, select.POLLIN)
        while not self._is_over:
            # Importers write to memory that they no longer use an array, and send no message.
            events.poll(20 if self._kept > len(self._live) else 1000)
            try:
                os.read(self._awake, 4096)
            except BlockingIOError:
                pass
            if not self._is_over:
                self.poll()

    def poll(self) -> None:
        """Without the interpreter's lock: closing memory waits for its work."""
        kept, error = c.c_uint64(), _abi.cai_error()
        if self._libraries.free.cai_unstable_channel_poll(self._number, kept, error):
            if error.message != self._complaint:
                self._complaint = error.message
                _log.warning("libcai.ray: %s", error.message.decode(errors="replace"))
            time.sleep(0.02)
        self._kept = kept.value
        # Objects that were released without the lock end when the library is next called with it.
        self._libraries.held.cai_array_release(_raw.read(b""))

    def wait(self) -> None:
        """Until something happened, or for a moment."""
        events = select.poll()
        events.register(self._descriptor, select.POLLIN)
        events.poll(10)
        self.poll()

    def export(self, array: Array) -> tuple[int, bytes]:
        buffer = c.create_string_buffer(_abi.CAI_UNSTABLE_IPC_SIZE)
        size, made, error = c.c_size_t(), c.c_uint64(), _abi.cai_error()
        status = self._libraries.free.cai_unstable_channel_export(
            self._number, 0, array._raw, buffer, len(buffer), size, made, error
        )
        _raw.check(status, error)
        self._live.add(made.value)
        return made.value, buffer.raw[: size.value]

    def withdraw(self, number: int) -> None:
        error = _abi.cai_error()
        self._live.discard(number)
        _raw.check(self._libraries.free.cai_unstable_channel_withdraw(self._number, number, error), error)

    def receive(self, record: bytes) -> Array:
        limit = time.monotonic() + _ACCEPTED_WITHIN
        while True:
            array, error = _raw.new(), _abi.cai_error()
            status = self._libraries.free.cai_unstable_channel_import(self._number, record, len(record), array, error)
            if status != _abi.CAI_ERR_IPC_PENDING:
                _raw.check(status, error)
                return Array._of(array, True)
            if time.monotonic() > limit:
                raise TimeoutError(error.message.decode(errors="replace"))
            self.wait()


@dataclasses.dataclass
class _Object:
    """`TensorTransportMetadata` of Ray, with the records of the arrays."""

    tensor_meta: list[tuple[tuple[int, ...], str]]
    tensor_device: str | None
    node: str
    records: tuple[bytes, ...]


def _node() -> str:
    ray: Any = importlib.import_module("ray")
    return f"{ray.get_runtime_context().get_node_id()} ({socket.gethostname()})"


class _Methods:
    """What Ray calls. `Transport` is this and Ray's class."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: _Channel | None = None
        # Of each object that Ray has: the arrays, the numbers of their exports, and what Ray was told.
        self._exports: dict[str, tuple[list[Array], list[int], _Object]] = {}

    def tensor_transport_backend(self) -> str:
        return NAME.upper()

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        # Otherwise, Ray kills both actors after a transfer that failed.
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def _opened(self) -> _Channel:
        with self._lock:
            if self._channel is None:
                self._channel = _Channel()
            return self._channel

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Array]) -> _Object:
        with self._lock:
            known = self._exports.get(obj_id)
        # A task whose answer was lost runs again; Ray keeps the arrays of the first time.
        if known is not None and len(known[0]) == len(rdt_object) and all(map(_same, known[0], rdt_object)):
            return known[2]
        made: list[tuple[int, bytes]] = []
        try:
            for array in rdt_object:
                if array._raw.device.type == _abi.CAI_DEVICE_CPU:
                    raise BufferError(f"{array!r} is in host memory: return it without tensor_transport, and Ray copies it")
                if array._is_received:
                    raise BufferError(f"{array!r} belongs to another actor: pass its reference on, or a copy")
                made.append(self._opened().export(array))
        except BaseException:
            for number, _ in made:
                self._opened().withdraw(number)
            # Ray has stored the list already, and would never free it.
            rdt_object.clear()
            raise
        described = [(array.shape, array._raw.typestr.decode()) for array in rdt_object]
        result = _Object(described, "cuda" if made else None, _node(), tuple(record for _, record in made))
        with self._lock:
            known = self._exports.pop(obj_id, None)
            self._exports[obj_id] = rdt_object, [number for number, _ in made], result
        self._withdraw(known)
        return result

    def _withdraw(self, known: tuple[list[Array], list[int], _Object] | None) -> None:
        if known is not None and known[1]:
            channel = self._opened()
            for number in known[1]:
                channel.withdraw(number)
            channel.wake()

    def get_communicator_metadata(self, src_actor: Any, dst_actor: Any, backend: str | None = None) -> Any:
        # Ray runs a transfer to such an actor behind the call that waits for it: for a minute.
        refusal = ""
        if dst_actor is not None and not getattr(dst_actor, "_ray_enable_tensor_transport", True):
            refusal = f"{dst_actor} gets an array: its class needs @ray.remote(enable_tensor_transport=True)"
            if not isinstance(threading.current_thread(), threading._DummyThread):
                raise ValueError(refusal)
            # A thread of Ray, which has sent the call before and takes no exception.
            _log.error("libcai.ray: %s", refusal)
        experimental: Any = importlib.import_module("ray.experimental")
        communicator = experimental.CommunicatorMetadata()
        communicator.refusal = refusal
        return communicator

    def recv_multiple_tensors(
        self, obj_id: str, tensor_transport_metadata: _Object, communicator_metadata: Any, target_buffers: Any = None
    ) -> list[Array]:
        if target_buffers:
            raise ValueError("libcai.ray does not copy into buffers: copy from the array that you get")
        if communicator_metadata.refusal:
            raise ValueError(communicator_metadata.refusal)
        try:
            return [self._opened().receive(record) for record in tensor_transport_metadata.records]
        except (BufferError, ValueError, RuntimeError) as error:
            # Of another machine, or of a process that has ended.
            message = f"object {obj_id} of node {tensor_transport_metadata.node}, for node {_node()}: {error}"
            raise type(error)(message) from None

    def send_multiple_tensors(self, tensors: Any, tensor_transport_metadata: Any, communicator_metadata: Any) -> None:
        raise NotImplementedError("the consumer opens the memory")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: Any) -> None:
        # Consumers may still have the arrays, and the channel knows it.
        with self._lock:
            known = self._exports.pop(obj_id, None)
        if known is not None and known[0] is not tensors:
            # Ray 2.55 stores what a repeated task returns beside the first, and frees only that.
            known[0].clear()
        self._withdraw(known)

    def abort_transport(self, obj_id: str, communicator_metadata: Any) -> None:
        # No transfer waits: `recv_multiple_tensors` has a limit of its own.
        pass


def _same(one: object, other: object) -> bool:
    return one is other


def __getattr__(name: str) -> Any:
    # The class that Ray pickles by its name, made where Ray is.
    if name != "Transport":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    experimental: Any = importlib.import_module("ray.experimental")
    made = type(name, (_Methods, experimental.TensorTransportManager), {"__module__": __name__, "__doc__": _Methods.__doc__})
    return globals().setdefault(name, made)


def register() -> None:
    """Registers the transport "cai" with Ray, once for this process.

    Call it in the process that creates the actors, before it does. Raises ImportError without Ray 2.55 or newer.
    """
    ray: Any = importlib.import_module("ray")
    if tuple(map(int, ray.__version__.split(".")[:2])) < (2, 55):
        raise ImportError(f"libcai.ray needs ray>=2.55; found {ray.__version__}")
    util: Any = importlib.import_module("ray.experimental.rdt.util")
    known = util.transport_manager_info.get(NAME.upper())
    if known is None or known.data_type is not Array:
        experimental: Any = importlib.import_module("ray.experimental")
        experimental.register_tensor_transport(NAME, ["cuda"], __getattr__("Transport"), Array)


# Ray has imported itself in its workers before anything else. The metadata of an object, an Array and the class of the
# actor import this module there: also in an actor that was restarted, to which the owner sends no registration.
if "ray" in sys.modules:
    register()
