"""cai_array_from_python and cai_array_to_python for tests: options by name, arrays as Python values.

    taken = take(obj, writable=True, ndim=2)     what cai_array_from_python says of an object
    taken.release()                              ... and its reference given up
    obj = give(taken)                            what cai_array_to_python makes of an array

Both are called through ctypes.PyDLL, which keeps the interpreter's lock and raises the exception that was set.
"""

import contextlib
import ctypes as c
import gc
import os
import pathlib
import re
import sys
import threading
import time

import cai_ctypes as T

STREAM_LEGACY, STREAM_PER_THREAD = 1, 2
STREAM_NONE, STREAM_UNKNOWN = T.STREAM_NONE, T.STREAM_UNKNOWN

# EXCHANGE, DLPACK, ...
PROTOCOLS = {
    name.split("PROTOCOL_")[1]: number for name, number in vars(T.abi).items() if name.startswith(("CAI_PROTOCOL_", "CAI_UNSTABLE_PROTOCOL_"))
}
globals().update(PROTOCOLS)

UNKNOWN, CPU, CUDA, CUDA_HOST, OPENCL, CUDA_MANAGED, ONEAPI = 0, 1, 2, 3, 4, 13, 14

BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2 = 4, 10, 12

IMPORT = {
    "strict": 1, "lenient": 2, "writable": 4, "c_contiguous": 8, "f_contiguous": 16, "native": 32, "allow_mask": 128,
    "host": 256, "device": 512, "quiet": 1024, "no_objects": T.abi.CAI_IMPORT_REFUSE_OBJECTS,
    "grad": T.abi.CAI_IMPORT_ALLOW_GRAD, "opencl": T.abi.CAI_IMPORT_OPENCL_BUFFER_CL_MEM, "cuda": T.abi.CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS,
    "identify_stream": T.abi.CAI_IMPORT_IDENTIFY_STREAM, "require_stream": T.abi.CAI_IMPORT_REQUIRE_STREAM,
    "packed_mask": T.abi.CAI_IMPORT_ALLOW_PACKED_MASK, "lanes": T.abi.CAI_UNSTABLE_IMPORT_LANES,
    "version_4": T.abi.CAI_UNSTABLE_IMPORT_VERSION_4,
}  # fmt: skip
IMPORT_NDIM = 64
EXPORT = {"version_2": 1, "strides": 2, "hide_readonly": 4, "version_4": T.abi.CAI_UNSTABLE_EXPORT_VERSION_4}

ERRORS = {name[len("CAI_ERR_") :]: number for name, number in vars(T.abi).items() if name.startswith("CAI_ERR_")}
STATUS = {number: name for name, number in ERRORS.items()}

ImportOptions, ExportOptions = T.abi.cai_import_options, T.abi.cai_export_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Another build of it, for machines where nothing is built.
LIBRARY = pathlib.Path(os.environ.get("CAI_LIBRARY", ROOT / "target/release/libcai.so"))


def declare(library):
    T.declare(library)
    # NULL is passed for objects, and what comes out is looked at before it becomes an object.
    library.cai_array_to_python.argtypes = [
        c.POINTER(T.Array), c.POINTER(ExportOptions), c.POINTER(c.c_void_p), c.POINTER(T.Error),
    ]  # fmt: skip
    library.cai_array_from_python_dict.argtypes = [
        c.c_void_p, c.c_void_p, c.POINTER(ImportOptions), c.POINTER(T.Array), c.POINTER(T.Error),
    ]  # fmt: skip
    library.cai_unstable_python_publish.argtypes = [c.py_object, c.c_void_p, c.POINTER(T.Error)]
    library.cai_unstable_python_table.argtypes = [c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(T.Error)]
    library.cai_python_raise.restype = c.c_void_p
    return library


if not LIBRARY.exists():
    raise ImportError(f"no {LIBRARY}: run `make lib` first")
held = declare(c.PyDLL(str(LIBRARY)))  # the interpreter's lock stays held
free = declare(c.CDLL(str(LIBRARY)))  # it is given up during the call


def import_options(*, ndim=None, protocols=(), stream=STREAM_UNKNOWN, dtype_code=0, opaque_8bit=0, opaque_16bit=0, typestr="", **flags):
    options = ImportOptions(struct_size=c.sizeof(ImportOptions))
    for position, protocol in enumerate(protocols):
        options.protocols[position] = protocol
    options.dlpack_stream, options.dtype_code, options.opaque_8bit, options.opaque_16bit = stream, dtype_code, opaque_8bit, opaque_16bit
    options.typestr = typestr.encode()
    if ndim is not None:
        options.ndim, options.flags = ndim, IMPORT_NDIM
    for name, value in flags.items():
        options.flags |= IMPORT[name] if value else 0
    return options


def export_options(**flags):
    options = ExportOptions(struct_size=c.sizeof(ExportOptions))
    for name, value in flags.items():
        options.flags |= EXPORT[name] if value else 0
    return options


def descr_text(descr):
    """The fields, as cai_descr_format writes them."""
    if not descr:
        return None
    size = c.c_size_t()
    error = T.Error()
    assert held.cai_descr_format(descr, None, 0, c.byref(size), c.byref(error)) == 0, error.message
    text = c.create_string_buffer(size.value + 1)
    assert held.cai_descr_format(descr, text, len(text), c.byref(size), c.byref(error)) == 0, error.message
    return text.value.decode()


class Taken:
    """An array's fields as Python values: shape and strides are tuples, no strides are None, no stream is None."""

    def __init__(self, array, owned=True):
        self.array = array
        self._owned = owned
        self.ndim = array.ndim
        self.shape = tuple(array.shape[: array.ndim]) if array.ndim else ()
        self.strides = tuple(array.strides[: array.ndim]) if array.strides else None
        self.typestr = array.typestr.decode()
        self.data = array.data or 0
        self.readonly = bool(array.flags & T.FLAG_READONLY)
        self.stream = None if array.stream == STREAM_NONE else array.stream
        self.version = array.version
        self.device = (array.device.type, array.device.id)
        self.dtype_code = array.dtype_code
        self.context = array.context
        self.byte_offset = array.byte_offset
        self.event = array.event
        self.stream_id = array.stream_id
        self.descr = descr_text(array.descr)
        self.mask = Taken(array.mask.contents, owned=False) if array.mask else None

    def release(self, library=None):
        """With `library=free`, without the interpreter's lock."""
        if self._owned:
            (library or held).cai_array_release(c.byref(self.array))

    def share(self):
        other = T.new_array()
        error = T.Error()
        assert held.cai_array_share(c.byref(self.array), c.byref(other), c.byref(error)) == 0, error.message
        return Taken(other)

    def contiguous(self):
        layout = T.Layout()
        assert held.cai_array_layout(c.byref(self.array), c.byref(layout), None) == 0
        return layout.flags & T.LAYOUT_C_CONTIGUOUS != 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def __repr__(self):
        return f"Taken({', '.join(f'{k}={v!r}' for k, v in vars(self).items() if k not in ('array', '_owned'))})"


# What no message says.
ONE_IN_THE_PLURAL = re.compile(r"\b(?:found|expected|of|has) 1 (?!is\b)[a-z]+s\b")


class Refused(Exception):
    """A status without a Python exception: what `quiet` asks for."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def take(obj, /, **options):
    """cai_array_from_python. Raises what it set, or Refused. The last error is in `take.error`."""
    array, take.error = T.new_array(stream=0), T.Error()
    given = c.byref(import_options(**options)) if options else None
    status = held.cai_array_from_python(obj, given, c.byref(array), c.byref(take.error))
    if status != 0:
        assert take.error.code == status and not array.owner
        raise Refused(status, take.error.message.decode())
    checked = T.Error()
    assert held.cai_array_validate(c.byref(array), T.CHECK_LAYOUT, c.byref(checked)) == 0, checked.message
    return Taken(array)


def give(array, **options):
    """cai_array_to_python. Raises what it set. The last error is in `give.error`."""
    give.error, out = T.Error(), c.c_void_p()
    given = c.byref(export_options(**options)) if options else None
    status = held.cai_array_to_python(c.byref(getattr(array, "array", array)), given, c.byref(out), c.byref(give.error))
    assert status == 0, "a failure without an exception"
    return adopt(out)


def adopt(reference):
    """The object of a new reference in a c_void_p."""
    obj = c.cast(reference, c.py_object).value
    c.pythonapi.Py_DecRef(c.py_object(obj))
    return obj


class Exporter:
    """An object with a dictionary, and nothing else."""

    def __init__(self, interface, **others):
        self.__cuda_array_interface__ = interface
        self.__dict__.update(others)


class Counted:
    """The context of an owner: counts how often it was released."""

    def __init__(self):
        self.gone = 0
        # The callback must outlive the owner.
        self.destroy = T.DESTROY(self._let_go)
        _alive.append(self)

    def _let_go(self, _):
        self.gone += 1

    def owner(self):
        owner = c.c_void_p()
        assert held.cai_owner_create(None, self.destroy, c.byref(owner), None) == 0
        return owner.value


_alive = []


def make(shape=(2, 3), typestr="<f4", data=0x7000_0000, strides=None, counted=None, *, mask=None, descr=None,
         stream=STREAM_NONE, device=(CUDA, 0), readonly=False, version=3, dtype_code=0, **others):  # fmt: skip
    """An array with an owner, as a C program would fill it; `counted` counts its release."""
    counted = counted or Counted()
    description = T.new_array(typestr=typestr.encode(), stream=stream, version=version, ndim=len(shape), **others)
    description.data = data if 0 not in shape else None
    description.shape = (c.c_int64 * max(1, len(shape)))(*shape)
    if strides is not None:
        description.strides = (c.c_int64 * max(1, len(strides)))(*strides)
    if readonly:
        description.flags = T.FLAG_READONLY
    description.device.type, description.device.id = device
    description.dtype_code = dtype_code
    if mask is not None:
        description.mask = c.pointer(mask.array)
    rows, rows_owner, error = c.POINTER(T.Descr)(), c.c_void_p(), T.Error()
    if descr is not None:
        status = held.cai_descr_parse(descr.encode(), c.byref(rows), c.byref(rows_owner), c.byref(error))
        assert status == 0, error.message
        description.descr = rows
    out = T.new_array()
    status = held.cai_array_create(c.byref(description), None, counted.destroy, c.byref(out), c.byref(error))
    assert status == 0, error.message
    if rows_owner:
        held.cai_owner_release(rows_owner)
    taken = Taken(out)
    taken.counted = counted
    return taken


@contextlib.contextmanager
def even(*objects):
    """What happens inside leaves the objects' reference counts as they were, also where it raises."""
    objects = [obj for obj in objects if type(obj).__module__ != "builtins"]  # None is held everywhere
    gc.collect()
    before = [sys.getrefcount(obj) for obj in objects]
    yield
    gc.collect()
    soon(lambda: [sys.getrefcount(obj) for obj in objects] == before, 1)
    assert [sys.getrefcount(obj) for obj in objects] == before


def at_once(*works):
    """Runs each function in a thread of its own, and waits for all of them."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def soon(condition, seconds=5.0):
    """Waits for what the interpreter does between two instructions of its main thread."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()
