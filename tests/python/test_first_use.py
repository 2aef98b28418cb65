"""The first use of the driver, of the release thread and of Python's part of the library, with the n-th allocation
failing, for every n: a status, and the next call works. Each first use is in a process of its own, forked from one
that has used nothing yet."""

import pytest

from test_driver import ending, python  # noqa: F401
from commands import TESTS, compile

BODY = """
preloaded = c.PyDLL(None)
call = preloaded.failing_malloc_call
call.argtypes = [c.c_long, c.c_void_p] + [c.c_size_t] * 4
failures = preloaded.failing_malloc_failures
pointer = c.addressof(error)
{prepare}

def use(n):
    error.code = 0
    try:
        return call(n, c.cast(function, c.c_void_p), *arguments)
    except (MemoryError, AttributeError):
        # From CPython 3.13 on, a type without memory for an attribute raises the latter.
        return error.code

def first_use(n):
    child = os.fork()
    if child == 0:
        code = 9
        try:
            status = use(n)
            if failures() == 0:
                code = 3 if status == 0 else 4
            else:
                # The loader and CPython can do without some memory.
                good = status == 0 or status in {statuses} and error.code == status and error.message
                if status == 0:
                    renew()
                code = 0 if good and use(-1) == 0 else 5
            if code not in (0, 3):
                print("allocation", n, "status", status, error.message, file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

results = []
while not results or results[-1] != 3:
    results.append(first_use(len(results)))
    assert len(results) < 3000
assert set(results[:-1]) == {{0}} and len(results) > {least}, results
"""


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    target = tmp_path_factory.mktemp("preload") / "failing_malloc.so"
    source = TESTS.parent / "special/failing_malloc.c"
    return compile(source, target, "-shared", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin", library=None)


def every_allocation(preload, prepare, least, statuses="(601,)", **env):
    body = BODY.format(prepare=prepare, least=least, statuses=statuses)
    python(body, LD_PRELOAD=str(preload), **env)


def test_driver(preload, ending):  # noqa: F811
    prepare = """
a = array(0x1000)
function, arguments = cai.cai_array_consume_begin, (c.addressof(a), 0x2000, READ, pointer)
def renew(): pass
"""
    every_allocation(preload, prepare, 3, CAI_CUDA_DRIVER=str(ending))


def test_release_thread(preload, ending):  # noqa: F811
    prepare = """
def new_owner():
    owner = c.c_void_p()
    assert cai.cai_owner_create(None, cai_ctypes.DESTROY(0), c.byref(owner), None) == 0
    return owner.value
function, arguments = cai.cai_owner_release_after, (new_owner(), 0x2000, pointer, 0)
def renew():
    global arguments
    arguments = (new_owner(), 0x2000, pointer, 0)
"""
    every_allocation(preload, prepare, 5, CAI_CUDA_DRIVER=str(ending))


def test_python(preload):
    """Python's own allocations fail too, where they need more than its pools; its MemoryError is passed on."""
    prepare = """
class Producer:
    pass
producer = Producer()
producer.__cuda_array_interface__ = dict(shape=(1,), typestr="<i4", data=(c.addressof(data), False), version=3)
a = cai_ctypes.Array()
a.struct_size = c.sizeof(a)
function, arguments = cai.cai_array_from_python, (id(producer), 0, c.addressof(a), pointer)
def renew():
    a.owner = None
"""
    every_allocation(preload, prepare, 2, "(601, 504)")


def test_python_export(preload):
    prepare = """
keep = c.c_void_p()
assert cai.cai_owner_create(None, cai_ctypes.DESTROY(0), c.byref(keep), None) == 0
a, out = array(NONE), c.c_void_p()
a.owner = keep
function, arguments = cai.cai_array_to_python, (c.addressof(a), 0, c.addressof(out), pointer)
def renew(): pass
"""
    every_allocation(preload, prepare, 2, "(601, 504)")
