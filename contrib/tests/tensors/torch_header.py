"""cai/torch.h, compiled for releases of PyTorch: tensors through its stable C interface."""

import ctypes as c
import functools
import pathlib
import tempfile

import pytest
import torch

import cai_ctypes as T
import cai_python as P
from commands import STRICT, compile

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(torch.__file__).parent
STATUS = P.STATUS
OPTIONS = {
    # The oldest release that the header takes, as far as its Python functions allow.
    "2.11": ["-DTORCH_TARGET_VERSION=0x020B000000000000", "-DUSE_CUDA", "-DPYTHON_BY_HAND", "-ltorch_cuda"],
    "2.15": [],
    "rocm": ["-DUSE_ROCM"],
}


def refused(function, *arguments):
    """The status and the field with which a function of a Library refuses its arguments."""
    with pytest.raises(BufferError) as raised:
        function(*arguments)
    return raised.value.args[:2]


class Library:
    def __init__(self, path):
        self.c = c.PyDLL(str(path))
        self.c.measure.restype = c.c_double
        self.error = T.Error()

    def checked(self, status):
        if status:
            raise BufferError(STATUS[status], self.error.field.decode(), self.error.message.decode())

    def look(self, tensor):
        out = T.new_array()
        self.checked(self.c.from_torch(c.py_object(tensor), c.byref(out), c.byref(self.error)))
        return P.Taken(out)

    def give(self, array, access=3):
        made = c.c_void_p()
        self.checked(self.c.to_torch(c.byref(array.array), access, c.byref(made), c.byref(self.error)))
        return P.adopt(made)

    def end(self, array, stream):
        status = P.held.cai_array_consume_end(c.byref(array.array), c.c_uint64(stream), 3, c.byref(self.error))
        assert status == 0, self.error.message

    @staticmethod
    def as_torch(tensor):
        return tensor

    @staticmethod
    def current(stream):
        return torch.cuda.stream(stream)


def compiled(source, folder, *more):
    return compile(
        source, folder / f"{source.stem}.so", "-shared", "-O1", *STRICT, "-isystem", FOLDER / "include", "-L", FOLDER / "lib",
        f"-Wl,-rpath,{FOLDER / 'lib'}", "-ltorch_cpu", *more, "-Wl,--allow-shlib-undefined", cuda=True,
    )  # fmt: skip


@functools.cache
def build(version):
    folder = tempfile.TemporaryDirectory(prefix="cai-torch-")
    library = Library(compiled(HERE / "torch_abi.cpp", pathlib.Path(folder.name), *OPTIONS[version]))
    library.folder = folder  # deleted with the process
    return library
