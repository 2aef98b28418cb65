"""cai/tvm_ffi.h in a module of Apache TVM FFI."""

import contextlib
import ctypes as c
import functools
import pathlib
import tempfile

import torch
import tvm_ffi
from tvm_ffi import libinfo

import cai_ctypes as T
import cai_python as P
from commands import STRICT, compile

HERE = pathlib.Path(__file__).resolve().parent


class Seen(c.Structure):
    _fields_ = [("array", T.Array), ("shape", c.c_int64 * 8), ("strides", c.c_int64 * 8), ("error", T.Error),
                ("borrowed", c.c_int32)]  # fmt: skip


class Library:
    def __init__(self, path):
        self.module = tvm_ffi.load_module(str(path))
        self.last = Seen.in_dll(c.CDLL(str(path)), "last")

    def __getattr__(self, name):
        """A function of the module, whose refusals are those of cai/torch.h."""
        function = getattr(self.module, name)

        def call(*arguments):
            try:
                return function(*arguments)
            except ValueError as raised:
                error = self.last.error
                assert error.message.decode() in str(raised)
                raise BufferError(P.STATUS[error.code], error.field.decode()) from None

        return call

    def give(self, array, access=3):
        return self.__getattr__("give")(c.addressof(array.array), access)

    def end(self, array, stream):
        self.__getattr__("end")(c.addressof(array.array), 3)

    @staticmethod
    def as_torch(tensor):
        return torch.from_dlpack(tensor)

    @staticmethod
    @contextlib.contextmanager
    def current(stream):
        with torch.cuda.stream(stream), tvm_ffi.use_torch_stream():
            yield


def compiled(source, folder):
    tvm = pathlib.Path(libinfo.find_libtvm_ffi())
    headers = ["-isystem", libinfo.find_include_path(), "-isystem", libinfo.find_dlpack_include_path()]
    return compile(source, folder / f"{source.stem}.so", "-shared", *STRICT, *headers, tvm, f"-Wl,-rpath,{tvm.parent}")


@functools.cache
def build():
    folder = tempfile.TemporaryDirectory(prefix="cai-tvm-")
    library = Library(compiled(HERE / "tvm_ffi.cpp", pathlib.Path(folder.name)))
    library.folder = folder  # deleted with the process
    return library
