"""Runtimes that load the library by its path, and declare its structures without the C headers. ctypes is also what most
other tests use.

LuaJIT goes once around: a new owner with a callback, an array filled and checked, shared, retained and released,
and the callback seen exactly once. And it meets an error.
"""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


CDEF = (ROOT / "include/cai/cai.cdef").read_text()


LUA = r"""
local ffi = require("ffi")
local text, path = ...
ffi.cdef(text)
local lib = ffi.load(path)
assert(ffi.sizeof("cai_array") == 128)
local seen = 0
local destroy = ffi.cast("void (*)(void *)", function(context)
    assert(ffi.cast("int *", context)[0] == 4711)
    seen = seen + 1
end)
local context = ffi.new("int[1]", 4711)
local err = ffi.new("cai_error[1]")
local owner = ffi.new("cai_owner *[1]")
assert(lib.cai_owner_create(context, destroy, owner, err) == 0)
local data = ffi.new("float[12]")
local shape = ffi.new("int64_t[2]", 3, 4)
local array = ffi.new("cai_array[1]")
assert(lib.cai_array_init(array, ffi.sizeof("cai_array")) == 0)
array[0].owner = owner[0]
array[0].data = data
array[0].shape = shape
array[0].ndim = 2
array[0].typestr = "<f4"
array[0].stream = 0xffffffffffffffffULL
assert(lib.cai_array_validate(array, 1, err) == 0, ffi.string(err[0].message))
array[0].ndim = 65
local status = lib.cai_array_validate(array, 1, err)
assert(ffi.string(lib.cai_status_name(status)) == "CAI_ERR_NDIM")
local message = ffi.string(err[0].message)
array[0].ndim = 2
local shared = ffi.new("cai_array[1]")
assert(lib.cai_array_init(shared, ffi.sizeof("cai_array")) == 0)
assert(lib.cai_array_share(array, shared, err) == 0)
assert(lib.cai_array_retain(shared, err) == 0)
lib.cai_owner_release(shared[0].owner)
lib.cai_array_release(array)
assert(seen == 0)
lib.cai_array_release(shared)
lib.cai_array_release(shared)
assert(shared[0].data == nil)
destroy:free()
return seen, message
"""


def test_luajit(library_path):
    import lupa.luajit21 as luajit

    runtime = luajit.LuaRuntime()
    run = runtime.eval("function(source, ...) return assert(loadstring(source))(...) end")
    seen, message = run(LUA, CDEF, library_path)
    assert seen == 1
    assert message == "ndim: found 65, expected 0 to 64"


def test_cffi(library_path):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    lib = ffi.dlopen(library_path)
    for name in ("cai_array", "cai_import_options", "cai_export_options"):
        structure = ffi.new(f"{name} *")
        assert getattr(lib, f"{name}_init")(structure, ffi.sizeof(name)) == lib.CAI_OK
        assert structure.struct_size == ffi.sizeof(name) and structure.flags == 0


def test_released_at_exit(library_path):
    """The last reference is released when the C library ends the process, long after the interpreter."""
    program = f"""
import ctypes
lib = ctypes.CDLL({library_path!r})
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
owner = ctypes.c_void_p()
lib.cai_owner_create.argtypes = [ctypes.c_void_p] * 4
# puts() as the destructor: it shows on standard output that it ran.
text = ctypes.c_char_p(b"destroyed")
assert lib.cai_owner_create(text, ctypes.cast(libc.puts, ctypes.c_void_p), ctypes.byref(owner), None) == 0
cxa_atexit = libc.__cxa_atexit
cxa_atexit.argtypes = [ctypes.c_void_p] * 3
assert cxa_atexit(ctypes.cast(lib.cai_owner_release, ctypes.c_void_p), owner, None) == 0
ctypes.pythonapi.Py_IncRef(ctypes.py_object(text))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "destroyed\n"), done.stderr
