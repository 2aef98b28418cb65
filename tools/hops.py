"""What an array keeps when it leaves through one protocol and comes back: the table of docs/src/specification.md.

    cuda-sim run -- python tools/hops.py write       writes the table
    cuda-sim run -- python tools/hops.py check       compares it, and tries random arrays and pairs of protocols

Every array is a choice along each axis below: type, layout, access, stream, mask, memory. A cell is what one choice
becomes through one protocol, beside choices that the protocol keeps; the page has the cells that are not equal, in one
row for each protocol. The
random part checks the cells: an array is refused if a cell of its choices says so, with a status that such a cell
states; otherwise each choice becomes what its cell says, and every byte is the same. What came back leaves through a
second protocol, which must do as much. Between processes, another one says what it found; what comes back is made of that.
"""

import collections
import ctypes as c
import json
import math
import pathlib
import random
import subprocess
import sys
from multiprocessing import connection

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))

import cai_ctypes as T  # noqa: E402
import cai_python as P  # noqa: E402
from race_checker import Driver  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
import libcai.dask  # noqa: E402
from libcai import _paths  # noqa: E402

_paths.library = lambda: str(P.LIBRARY)

PAGE = ROOT / "docs/src/specification.md"
BEGIN, END = "<!-- table: made by `tools/hops.py` -->\n", "<!-- end of the table -->\n"
NAMES = P.STATUS
LOST = object()


class Refused(Exception):
    """The status, without its CAI_ERR_, or the Python exception that a protocol refuses an array with."""


def ask(name, *arguments):
    status = getattr(P.held, f"cai_{name}")(*arguments, None)
    if status != 0:
        raise Refused(NAMES[status])


# --- the machine


class Machine(Driver):
    """Memory of each kind, filled with the same bytes."""

    USED = 4096

    def __init__(self):
        super().__init__()
        self.stream, self.event = c.c_void_p(), c.c_void_p()
        self.call("cuStreamCreate", c.byref(self.stream), 1)
        self.call("cuEventCreate", c.byref(self.event), 2)
        self.bytes = bytes(random.Random(1).randbytes(self.USED))
        self.host = c.create_string_buffer(self.USED + 64)
        host = (c.addressof(self.host) + 63) // 64 * 64
        self.at = {P.CPU: host, P.CUDA: self.allocated("cuMemAlloc_v2"), P.CUDA_MANAGED: self.allocated("cuMemAllocManaged", 1)}
        c.memmove(host, self.bytes, self.USED)
        for device in (P.CUDA, P.CUDA_MANAGED):
            self.call("cuMemcpyHtoD_v2", c.c_uint64(self.at[device]), self.bytes, c.c_size_t(self.USED))
        self.call("cuCtxSynchronize")
        # Addresses and handles that nothing reads.
        self.at |= {ROCM: host, P.ONEAPI: host, P.OPENCL: host}

    def allocated(self, function, *flags):
        pointer = c.c_uint64()
        self.call(function, c.byref(pointer), c.c_size_t(self.USED), *flags)
        return pointer.value


ROCM = T.abi.CAI_DEVICE_ROCM
READABLE = (P.CPU, P.CUDA, P.CUDA_MANAGED)

# --- the axes: what is chosen, and what is found in an array

TYPES = {
    "`b1`": ("|b1", 0), "`i1`": ("|i1", 0), "`i4`": ("<i4", 0), "`u8`": ("<u8", 0), "`f2`": ("<f2", 0), "`f4`": ("<f4", 0),
    "`f8`": ("<f8", 0), "`f16`": ("<f16", 0), "`c8`": ("<c8", 0), "`c16`": ("<c16", 0), "`M8[ns]`": ("<M8[ns]", 0),
    "`M8[D]`": ("<M8[D]", 0), "`m8[us]`": ("<m8[us]", 0), "`S4`": ("|S4", 0), "`U2`": ("<U2", 0), "`V4`": ("|V4", 0),
    "packed bits `t1`": ("|t1", 0), "`bfloat16`": ("<V2", P.BFLOAT16), "`float8_e4m3fn`": ("|V1", P.FLOAT8_E4M3FN),
    "fields": ("|V8", 0), "other byte order `>f4`": (">f4", 0),
}  # fmt: skip
FIELDS = "[('x', '<f4'), ('y', '<i4')]"
# Shapes, and strides in elements; packed bits have none.
LAYOUTS = {
    "C order": [((3, 4), None), ((7,), None), ((2, 3, 2), None), ((1, 5), None)],
    "Fortran order": [((3, 4), (1, 3)), ((2, 3, 2), (1, 2, 6))],
    "gaps": [((3, 4), (8, 2)), ((5,), (3,)), ((2, 2, 2), (12, 4, 1))],
    "negative strides": [((3, 4), (-4, 1)), ((6,), (-1,)), ((3, 2), (-2, -1))],
    "strides of 0": [((3, 4), (0, 1)), ((5,), (0,))],
    "no elements": [((0,), None), ((3, 0), None), ((0, 4), None)],
    "no dimensions": [((), None)],
}
ACCESS = ["writable", "read-only"]
STREAMS = ["no stream", "a stream", "unknown stream", "unknown stream and event"]
MASKS = ["no mask", "a bit for each element", "a bit for each row", "a byte for each element"]
MEMORY = {"host": P.CPU, "CUDA": P.CUDA, "CUDA managed": P.CUDA_MANAGED, "ROCm": ROCM, "oneAPI": P.ONEAPI, "OpenCL": P.OPENCL}
AXES = {"type": list(TYPES), "layout": list(LAYOUTS), "access": ACCESS, "stream": STREAMS, "mask": MASKS, "memory": list(MEMORY)}
BASE = {"type": "`f4`", "layout": "C order", "access": "writable", "stream": "no stream", "mask": "no mask", "memory": "CUDA"}


def size_of(typestr):
    digits = typestr[2:].split("[")[0]
    return int(digits) * (4 if typestr[1] == "U" else 1)


class Subject:
    """One array of some choices."""

    def __init__(self, machine, choices, dice):
        typestr, code = TYPES[choices["type"]]
        shape, steps = dice.choice(LAYOUTS[choices["layout"]])
        self.device = MEMORY[choices["memory"]]
        strides = None if steps is None else tuple(step * size_of(typestr) for step in steps)
        # Not at the beginning of the allocation: IPC states an offset, and a handle has one.
        offset = 512 - sum(min(0, stride * (extent - 1)) for stride, extent in zip(strides or (), shape))
        data, others = machine.at[self.device], {}
        if self.device != P.OPENCL:
            data += offset
        elif 0 not in shape:
            others["byte_offset"] = offset
        if self.device == P.ONEAPI:
            others["context"] = machine.context.value
        stream = {"no stream": P.STREAM_NONE, "a stream": machine.stream.value}.get(choices["stream"], P.STREAM_UNKNOWN)
        if choices["stream"] == "unknown stream and event":
            others["event"] = machine.event.value
        self.mask = None
        if choices["mask"] != "no mask":
            bits = choices["mask"] != "a byte for each element"
            rows = choices["mask"].endswith("row")
            extents = (shape[0],) + (1,) * (len(shape) - 1) if rows and shape else shape
            self.mask = P.make(extents, "|t1" if bits else "|b1", machine.at[self.device] + 2048, device=(self.device, 0))
        descr = FIELDS if choices["type"] == "fields" else None
        self.array = P.make(shape, typestr, data, strides, stream=stream, device=(self.device, 0), dtype_code=code,
                            readonly=choices["access"] == "read-only", mask=self.mask, descr=descr, **others)  # fmt: skip
        self.owners = [self.array.counted] + ([self.mask.counted] if self.mask else [])
        if self.mask:
            self.mask.release()

    def end(self):
        self.array.release()
        return all(owner.gone == 1 for owner in self.owners)


def strides_of(array):
    """In bytes, of dimensions with more than one index."""
    size = 1 if array.typestr[1] == "t" else size_of(array.typestr)
    steps = array.strides or [size * math.prod(array.shape[index + 1 :]) for index in range(array.ndim)]
    return None if 0 in array.shape else [step for step, extent in zip(steps, array.shape) if extent > 1]


def bytes_of(array):
    """The elements, in C order."""
    if array.device[0] not in READABLE or 0 in array.shape:
        return None
    plain = T.Array.from_buffer_copy(array.array)
    plain.mask = type(plain.mask)()
    layout = T.Layout()
    with to_host(plain) as found:
        ask("array_layout", c.byref(found.array), c.byref(layout))
        return c.string_at(found.data, layout.nbytes)


def to_host(array):
    out = T.new_array()
    ask("unstable_array_copy_to_host", c.byref(array), c.c_uint64(P.STREAM_NONE), c.c_uint32(T.abi.CAI_SYNC_CONSERVATIVE), None,
        c.c_size_t(0), c.byref(out))  # fmt: skip
    return P.Taken(out)


def type_of(array):
    for name, (typestr, code) in TYPES.items():
        same = array.typestr == typestr or (code and array.typestr[1:] == typestr[1:])
        if same and array.dtype_code == code and (array.descr is not None) == (name == "fields"):
            return name
    return f"`{array.typestr[1:]}`"


def found_in(array, before, choices):
    """The choices that an array shows. What cannot be told from another array is as it was before."""
    found = {"type": type_of(array), "access": "read-only" if array.readonly else "writable"}
    found["memory"] = {value: name for name, value in MEMORY.items()}.get(array.device[0], "unknown")
    found["layout"] = LOST
    if array.shape == before.shape:
        same = strides_of(array) == strides_of(before)
        found["layout"] = choices["layout"] if same else "C order" if array.contiguous() else LOST
    found["stream"] = {None: "no stream", P.STREAM_UNKNOWN: "unknown stream"}.get(array.stream, "a stream")
    if found["stream"] == "unknown stream" and array.event:
        found["stream"] += " and event"
    found["mask"] = "no mask"
    if array.mask:
        same = before.mask and (array.mask.typestr, array.mask.shape) == (before.mask.typestr, before.mask.shape)
        found["mask"] = choices["mask"] if same else "a bit for each element"
    return found


# --- the protocols


class Only:
    """An object that offers some attributes of another, and nothing else."""

    def __init__(self, obj, *names):
        for name in names:
            try:
                setattr(self, name, getattr(obj, name))
            except AttributeError:
                raise Refused("AttributeError") from None


def take(obj, **options):
    try:
        return P.take(obj, allow_mask=True, host=True, quiet=True, **options)
    except P.Refused as refused:
        raise Refused(NAMES[refused.code]) from None
    except BufferError:
        # The exception of an exchange table.
        raise Refused("BufferError") from None


def through(protocol, *names, exported=None, **options):
    """Out as an object, of which the protocol may see these attributes, and in again."""

    def there_and_back(array):
        obj = P.give(array, **(exported or {}))
        return take(Only(obj, *names) if names else obj, protocols=[protocol], **options)

    return there_and_back


def tensor(name):
    def there_and_back(array):
        out, back = c.c_void_p(), T.new_array()
        ask(f"array_to_{name}", c.byref(array.array), c.c_uint32(0), c.byref(out))
        ask(f"array_from_{name}", out, c.c_uint64(P.STREAM_UNKNOWN), c.c_uint32(0), c.byref(back))
        return P.Taken(back)

    return there_and_back


def array_struct(array):
    import numpy as np

    try:
        view = np.asarray(Only(P.give(array), "__array_interface__"))
    except (TypeError, ValueError) as error:
        raise Refused(type(error).__name__) from None
    return take(Only(view, "__array_struct__"), protocols=[P.ARRAY_STRUCT])


def json_text(array):
    length, text = c.c_size_t(), c.create_string_buffer(4096)
    ask("unstable_array_to_json", c.byref(array.array), text, c.c_size_t(len(text)), c.byref(length))

    def read(found):
        found = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
        if "mask" in found:
            found["mask"] = P.Exporter(read(found["mask"]))
        return found

    # The text has no owner: what it describes must stay alive.
    return take(P.Exporter(read(json.loads(text.value))), protocols=[P.CUDA_ARRAY_INTERFACE], device=True)


def arrow(array):
    values, schema, back = (c.c_uint64 * 16)(), (c.c_uint64 * 9)(), T.new_array()
    ask("unstable_array_to_arrow", c.byref(array.array), c.c_uint32(0), values, schema)
    try:
        ask("unstable_array_from_arrow", values, schema, c.byref(back))
    finally:
        c.CFUNCTYPE(None, c.c_void_p)(schema[7])(c.addressof(schema))
    return P.Taken(back)


# --- another process, which CUDA and channels need for arrays between processes


def base_of_allocation(array):
    """The address of its allocation in this process."""
    if 0 in array.shape:
        return 0
    info = T.abi.cai_pointer_info()
    ask("pointer_info_get", c.c_void_p(array.data), c.byref(info))
    return info.base


def told(array):
    """What this process can say of an array, and its masks, to the other one. Addresses are offsets in the allocation."""
    return {
        "shape": array.shape, "typestr": array.typestr, "strides": array.strides, "data": array.data - base_of_allocation(array),
        "stream": {None: "none", P.STREAM_UNKNOWN: "unknown"}.get(array.stream, "some"), "event": array.event is not None,
        "readonly": array.readonly, "flags": array.array.flags, "device": array.device, "dtype_code": array.dtype_code,
        "descr": array.descr, "byte_offset": array.byte_offset, "bytes": bytes_of(array), "mask": told(array.mask) if array.mask else None,
    }  # fmt: skip


class Channel:
    def __init__(self, flags):
        self.flags = flags
        self.number, descriptor = c.c_uint64(), c.c_int32()
        ask("unstable_channel_create", c.c_uint32(0), c.c_uint32(flags), c.byref(self.number))
        ask("unstable_channel_fd", self.number, c.byref(descriptor))
        self.descriptor = descriptor.value

    def poll(self):
        """The number of exports that have their array."""
        exports = c.c_uint64()
        ask("unstable_channel_poll", self.number, c.byref(exports))
        return exports.value

    def end(self):
        ask("unstable_channel_release", self.number)


class Importer:
    """The other process: gets bytes, and tells what array they become."""

    def __init__(self, descriptor):
        self.driver, self.exporter, self.channel = Driver(), connection.Connection(descriptor), Channel(0)
        while True:
            ready = connection.wait([self.exporter, self.channel.descriptor])
            self.channel.poll()
            if self.exporter in ready:
                try:
                    way, data = self.exporter.recv()
                except EOFError:
                    break
                self.exporter.send(self.answer(way, data))
        self.channel.end()

    def answer(self, way, data):
        try:
            with getattr(self, way)(data) as back:
                return told(back)
        except Refused as refused:
            return Refused(str(refused))

    def bytes(self, data):
        back = T.new_array()
        ask("unstable_ipc_import", data, c.c_size_t(len(data)), c.c_int32(-1), c.c_uint32(0), c.byref(back))
        return P.Taken(back)

    def record(self, data):
        while True:
            back = T.new_array()
            try:
                ask("unstable_channel_import", self.channel.number, data, c.c_size_t(len(data)), c.byref(back))
            except Refused as refused:
                if str(refused) != "IPC_PENDING":
                    raise
                connection.wait([self.channel.descriptor], 0.01)
                self.channel.poll()
            else:
                return P.Taken(back)


class Exporter:
    """This process, and the other one, to which all arrays go."""

    def __init__(self, machine):
        self.machine = machine
        self.importer, there = connection.Pipe()
        command = [sys.executable, __file__, "importer", str(there.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[there.fileno()])
        there.close()
        self.channels = [Channel(0), Channel(T.abi.CAI_UNSTABLE_CHANNEL_NUMBERS)]
        self.buffer = c.create_string_buffer(T.abi.CAI_UNSTABLE_IPC_SIZE)
        # While an array of the memory is exported, the other process does not open it again for each.
        with P.make(data=machine.at[P.CUDA]) as array:
            self.kept = {channel: self.export(channel, array)[1] for channel in self.channels}
        self.owner = array.counted

    def ask(self, way, data):
        """What the other process says of these bytes. Accepts its connection."""
        self.importer.send((way, data))
        while self.importer not in connection.wait([self.importer, *(channel.descriptor for channel in self.channels)]):
            for channel in self.channels:
                channel.poll()
        found = self.importer.recv()
        if isinstance(found, Refused):
            raise found
        return found

    def made(self, said, array):
        """An array of what the other process said: with this one's memory, and a stream and event in place of those there."""
        # The device of a mask may not be known here.
        assert bytes_of(array) in (said["bytes"], None), said
        assert said["flags"] == (T.FLAG_READONLY if said["readonly"] else 0) and said["byte_offset"] == 0, said
        mask = self.made(said["mask"], array.mask) if said["mask"] else None
        stream = {"none": P.STREAM_NONE, "unknown": P.STREAM_UNKNOWN}.get(said["stream"], self.machine.stream.value)
        event = self.machine.event.value if said["event"] else None
        kept = {name: said[name] for name in ("shape", "typestr", "strides", "readonly", "device", "dtype_code", "descr")}
        back = P.make(data=said["data"] + base_of_allocation(array), stream=stream, event=event, mask=mask, **kept)
        if mask:
            mask.release()
        return back

    def by_bytes(self, array):
        data, size, fd, owner = self.buffer, c.c_size_t(), c.c_int32(), c.c_void_p()
        ask("unstable_ipc_export", c.byref(array.array), c.c_uint32(0), data, c.c_size_t(len(data)), c.byref(size), c.byref(fd),
            c.byref(owner))  # fmt: skip
        try:
            assert fd.value == -1
            return self.made(self.ask("bytes", data[: size.value]), array)
        finally:
            P.held.cai_owner_release(owner)

    def by_record(self, array):
        """Through the channels in turn, which must do the same: each cell of the table has several arrays."""
        channel = self.channels[0]
        self.channels.reverse()
        record, number = self.export(channel, array)
        try:
            said = self.ask("record", record)
        finally:
            self.withdraw(channel, number, 1)
        for part in filter(None, (said, said["mask"])):
            # Where there are events, readers wait for the exporter's alone if nobody writes.
            assert part["event"] <= (channel.flags == 0 and said["readonly"]), said
        return self.made(said, array)

    def export(self, channel, array):
        """The record, and the export."""
        size, number = c.c_size_t(), c.c_uint64()
        ask("unstable_channel_export", channel.number, c.c_uint64(0), c.byref(array.array), self.buffer, c.c_size_t(len(self.buffer)),
            c.byref(size), c.byref(number))  # fmt: skip
        return self.buffer[: size.value], number

    def withdraw(self, channel, number, others):
        ask("unstable_channel_withdraw", channel.number, number)
        assert P.soon(lambda: channel.poll() <= others)

    def end(self):
        for channel in self.channels:
            self.withdraw(channel, self.kept[channel], 0)
            channel.end()
        self.importer.close()
        assert self.process.wait() == 0 and P.soon(lambda: self.owner.gone == 1)


class Received:
    """In place of what RMM allocates and UCX writes: the bytes of a frame, writable, in a dictionary without a stream."""

    def __init__(self, frame):
        address, _ = frame.__cuda_array_interface__["data"]
        self.frame = frame
        self.__cuda_array_interface__ = {"shape": (frame.nbytes,), "typestr": "|u1", "version": 0, "strides": (1,), "data": (address, False)}


def dask(array):
    try:
        header, frames = libcai.dask._serialize(P.give(array))
    except NotImplementedError:
        raise Refused("NotImplementedError") from None
    return libcai.dask._deserialize(take, header, [Received(frame) for frame in frames])


exporter = None

# The title, the function, and the memory that arrays of the table have.
PROTOCOLS = {
    "dictionary": (through(P.CUDA_ARRAY_INTERFACE, "__cuda_array_interface__", device=True), "CUDA"),
    "dictionary, version 4": (
        through(P.CUDA_ARRAY_INTERFACE, "__cuda_array_interface__", exported={"version_4": True}, version_4=True, device=True), "CUDA",
    ),
    "exchange table": (through(P.EXCHANGE), "CUDA"),
    "DLPack": (tensor("dlpack"), "CUDA"),
    "unversioned DLPack": (tensor("dlpack_unversioned"), "CUDA"),
    "DLPack's exchange table": (through(P.DLPACK_EXCHANGE), "CUDA"),
    "`__array_interface__`": (through(P.ARRAY_INTERFACE, "__array_interface__"), "host"),
    "`__array_struct__`": (array_struct, "host"),
    "SYCL": (through(P.SYCL_USM, "__sycl_usm_array_interface__"), "oneAPI"),
    "buffer interface": (through(P.OPENCL_BUFFER, "buffer", "_ptr", "int_ptr", "offset", "dtype", "shape", "strides", opencl=True), "OpenCL"),
    "Arrow": (arrow, "CUDA"),
    "JSON": (json_text, "CUDA"),
    "IPC": (lambda array: exporter.by_bytes(array), "CUDA"),
    "IPC, channel": (lambda array: exporter.by_record(array), "CUDA"),
    "Dask, over UCX": (dask, "CUDA"),
    "copy to the host": (lambda array: to_host(array.array), "CUDA"),
}
# Those that take as long as ten others: a quarter of the arrays goes through them.
BETWEEN_PROCESSES = {"IPC", "IPC, channel"}
# Refusals that are not a status, as the page calls them.
REFUSALS = {"AttributeError": "absent", "BufferError": "BufferError", "NotImplementedError": "left to Dask"}


def hop(protocol, array, choices):
    """What comes back, with the same bytes, and the choices that it shows; or None, and what refuses the array."""
    try:
        back = PROTOCOLS[protocol][0](array)
    except Refused as refused:
        # Without the traceback, which refers to objects.
        return None, Refused(str(refused))
    try:
        before, after = bytes_of(array), bytes_of(back)
        if choices["type"] == "packed bits `t1`" and before:
            # Bits behind the last one have no meaning.
            rest = len(before) * 8 - math.prod(array.shape)
            before, after = (text[:-1] + bytes([text[-1] & 0xFF >> rest]) for text in (before, after))
        assert before is None or after is None or before == after, (protocol, choices, before, after)
        if protocol != "copy to the host" and back.device[0] in READABLE:
            assert back.data == array.data, (protocol, choices)
        return back, found_in(back, array, choices)
    except BaseException:
        back.release()
        raise


def outcome(machine, protocol, choices, dice):
    """What becomes of the choices. Every owner is released once."""
    subject = Subject(machine, choices, dice)
    back, found = hop(protocol, subject.array, choices)
    if back:
        back.release()
    assert P.soon(subject.end, 2), (protocol, choices)
    return found


def base_of(protocol):
    return BASE | {"memory": PROTOCOLS[protocol][1]}


def valid(choices):
    """Packed bits have no strides; streams are CUDA's."""
    bits = choices["type"] == "packed bits `t1`"
    ordered = choices["memory"] in ("CUDA", "CUDA managed")
    return (not bits or choices["layout"] in ("C order", "no elements", "no dimensions")) and (
        ordered or choices["stream"] == "no stream"
    )


def table(machine):
    """For each axis, choice and protocol: what the choice becomes, or the refusal; None if there is no such array."""
    cells = {}
    for axis, all_choices in AXES.items():
        for choice in all_choices:
            for protocol in PROTOCOLS:
                choices = base_of(protocol) | {axis: choice}
                found = {}
                seeds = 2 if protocol in BETWEEN_PROCESSES else 6
                for seed in range(seeds if valid(choices) else 0):
                    back = outcome(machine, protocol, choices, random.Random(seed))
                    cell = back if isinstance(back, Refused) else back[axis]
                    found[str(cell)] = cell
                assert len(found) <= 1, (axis, choice, protocol, found)
                cells[axis, choice, protocol] = next(iter(found.values()), None)
    return cells


def text_of(cells):
    """A row for each protocol: what does not come back as it was, grouped by what becomes of it."""

    def listed(axis, choices):
        if axis == "mask":
            return "masks" if choices == MASKS[1:] else f"masks of {', '.join(choices)}"
        return ", ".join(choices) + (" memory" if axis == "memory" else "")

    def grouped(protocol, kind, shown):
        groups = collections.defaultdict(lambda: collections.defaultdict(list))
        for (axis, choice, through), found in cells.items():
            if through == protocol and found not in (None, choice) and isinstance(found, Refused) == kind:
                groups[str(found)][axis].append(choice)
        parts = (shown(name, ", ".join(listed(*item) for item in axes.items())) for name, axes in groups.items())
        return "; ".join(parts) or "nothing"

    def refused(name, choices):
        return f"{REFUSALS.get(name, f'`{name}`')}: {choices}"

    lines = ["| protocol | changes | refuses |", "|---|---|---|"]
    for protocol in PROTOCOLS:
        changes = grouped(protocol, False, lambda becomes, choices: f"{choices} → {becomes}")
        lines.append(f"| {protocol} | {changes} | {grouped(protocol, True, refused)} |")
    return "\n".join(lines) + "\n"


def compare(cells, protocol, choices, found):
    """Fails if the table has another outcome. Without elements no work is pending, no mask has bits and nothing can be
    written: these may be kept or not. The table's streams are those of the memory that the protocol is for."""
    becomes = {axis: cells[axis, choice, protocol] for axis, choice in choices.items()}
    if isinstance(found, Refused):
        refusals = {str(cell) for cell in becomes.values() if isinstance(cell, Refused)}
        assert str(found) in refusals, (protocol, choices, str(found), refusals)
        return
    other = choices["memory"].split()[0] != PROTOCOLS[protocol][1]
    lenient = ("access", "stream", "mask", "memory") if choices["layout"] == "no elements" else ("stream",) if other else ()
    for axis, choice in found.items():
        assert axis in lenient or choice == becomes[axis], (protocol, choices, axis, choice, becomes[axis])


def random_choices(protocol, dice):
    """Each axis is another choice than that of the table's other cells in one of three arrays."""
    while True:
        choices = {axis: dice.choice(AXES[axis]) if dice.random() < 0.33 else base for axis, base in base_of(protocol).items()}
        if valid(choices):
            return choices


def one_random_array(machine, cells, protocol, dice):
    """An array through one protocol and then through another. Returns true if it came back."""
    choices = random_choices(protocol, dice)
    subject = Subject(machine, choices, dice)
    back, found = hop(protocol, subject.array, choices)
    compare(cells, protocol, choices, found)
    if back:
        second = dice.choice([name for name in PROTOCOLS if name not in BETWEEN_PROCESSES or dice.random() < 0.25])
        known = LOST not in found.values() and all(found[axis] in AXES[axis] for axis in found) and valid(found)
        # What came back is an array of the table, too, where the other protocol's part of it is for that memory.
        if known and cells["memory", found["memory"], second] is not None:
            again, becomes = hop(second, back, found)
            compare(cells, second, found, becomes)
            if again:
                again.release()
        back.release()
    assert P.soon(subject.end, 2), (protocol, choices)
    return back is not None


def try_random_arrays(machine, cells, count, seed):
    dice, came_back = random.Random(seed), collections.Counter()
    for number in range(count):
        for protocol in PROTOCOLS:
            if number % 4 == 0 or protocol not in BETWEEN_PROCESSES:
                came_back[protocol] += one_random_array(machine, cells, protocol, dice)
    assert all(count // 20 <= came_back[protocol] for protocol in PROTOCOLS), came_back
    return came_back


def main(what, count="200", seed="1"):
    global exporter
    machine = Machine()
    exporter = Exporter(machine)
    cells = table(machine)
    before = PAGE.read_text()
    head, rest = before.split(BEGIN)
    tail = rest.split(END, 1)[1]
    after = head + BEGIN + "\n" + text_of(cells) + "\n" + END + tail
    if what == "write":
        PAGE.write_text(after)
    elif before != after:
        sys.exit("docs/src/specification.md is stale: run `cuda-sim run -- python tools/hops.py write`")
    print("came back:", dict(try_random_arrays(machine, cells, int(count), int(seed))))
    exporter.end()


if __name__ == "__main__":
    if sys.argv[1] == "importer":
        Importer(int(sys.argv[2]))
    else:
        main(*sys.argv[1:])
