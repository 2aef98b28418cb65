"""The first part of `make demo`: NumPy loads a .npy file, a C plug-in exports it in several forms, and another
plug-in validates and reads them.

The plug-ins are compiled separately and share only cai.h. Python passes the structures from one to the other. The
data is not copied, and the last consumer releases NumPy's array.

    make demo NPY=file.npy                                builds the plug-ins and runs this file
    python demo.py FOLDER file.npy                        runs it with the plug-ins in FOLDER
"""

import ctypes
import pathlib
import sys

import numpy

DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Source(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int32),
        ("readonly", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("typestr", ctypes.c_char_p),
        ("descr", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("drop", DROP),
    ]


class Error(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int32),
        ("driver_code", ctypes.c_int32),
        ("field", ctypes.c_char * 96),
        ("message", ctypes.c_char * 408),
    ]


kept = {}


@DROP
def drop(context):
    del kept[context]


def open_source(producer, array):
    extents = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    steps = (ctypes.c_int64 * max(1, array.ndim))(*array.strides)
    kept[1] = array
    source = Source(
        data=array.ctypes.data,
        ndim=array.ndim,
        readonly=not array.flags.writeable,
        shape=extents,
        strides=steps,
        typestr=array.dtype.str.encode(),
        descr=repr(array.dtype.descr).encode() if array.dtype.names else None,
        context=1,
        drop=drop,
    )
    error = Error()
    if producer.producer_open(ctypes.byref(source), ctypes.byref(error)):
        sys.exit(f"the producer cannot export this file: {error.message.decode()}")


def load(path):
    """Maps the file copy-on-write: the array is writable, and the file does not change."""
    try:
        array = numpy.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as reason:  # NumPy does not document its exceptions for broken files
        sys.exit(f"NumPy cannot load {path}: {reason or type(reason).__name__}")
    if not isinstance(array, numpy.ndarray):
        sys.exit(f"{path} holds several arrays: give a .npy file")
    return array


def main(folder, path):
    producer = ctypes.CDLL(str(folder / "libdemo_producer.so"))
    consumer = ctypes.CDLL(str(folder / "libdemo_consumer.so"))
    producer.producer_name.restype = ctypes.c_char_p
    array = load(path)
    fields = len(array.dtype.names or ())
    kind = f"{fields} field{'s' * (fields != 1)}" if fields else array.dtype
    print(f"\n{path}: {kind}, shape {array.shape}, in host memory\n", flush=True)
    open_source(producer, array)
    del array  # from here on, an owner keeps it alive

    error, failures = Error(), []
    for index in range(producer.producer_count()):
        name = producer.producer_name(index)
        # A cai_array: 128 bytes, of which the first four contain this size.
        structure = ctypes.create_string_buffer(128)
        ctypes.c_uint32.from_buffer(structure).value = 128
        if producer.producer_export(index, structure, ctypes.byref(error)):
            failures.append(f"{name.decode()}: {error.message.decode()}")
            continue
        if consumer.consumer_take(name, structure) != producer.producer_expected(index):
            failures.append(f"{name.decode()} was judged wrongly")
        library.cai_array_release(structure)
    producer.producer_close()
    consumer.consumer_print()
    if not kept:
        failures.append("NumPy's array was released while it was still read")
    consumer.consumer_close()

    made, gone = ctypes.c_int(), ctypes.c_int()
    producer.producer_owners(ctypes.byref(made), ctypes.byref(gone))
    print(f"\nOwners: {made.value} made, {gone.value} released; NumPy's array is {'still held' if kept else 'free'}.")
    if made.value != gone.value or kept:
        failures.append("an owner was lost")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]).resolve()
    library = ctypes.CDLL(str(folder / "libcai.so.1"))
    library.cai_array_release.restype = None
    sys.exit(main(folder, sys.argv[2]))
