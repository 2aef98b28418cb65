"""How many calls of the driver an exchange makes, counted on a driver that does nothing. The page on streams states most
of the numbers."""

import re
import sys

import pytest
from commands import ROOT, compile, run

COUNT = """
import ctypes as c, os, sys
sys.path.insert(0, {folder!r})
import cai_ctypes as T, cai_python as P
from cai_python import Exporter, held as cai, take
READ, NONE, OTHER = 1, P.STREAM_NONE, 0x7777
driver = c.CDLL(os.environ["CAI_CUDA_DRIVER"])
driver.null_driver_calls.restype = c.c_long
driver.cuCtxSetCurrent(c.c_void_p(0x1000))
shape = (c.c_int64 * 1)(4)

def array(stream, **members):
    a = T.new_array(typestr=b"<i4", stream=stream, ndim=1, version=3, **members)
    a.data, a.shape = 0x7000_0000, shape
    return a

def owned(stream):
    # It remembers the context of the memory.
    return array(stream, owner=P.Counted().owner())

def calls(body):
    # The first calls fill the pool and the table.
    for _ in range(3):
        driver.null_driver_calls()
        assert body() == 0
    return driver.null_driver_calls()

def pair(a, consumer):
    return [calls(lambda: half(c.byref(a), consumer, READ, None)) for half in (cai.cai_array_consume_begin, cai.cai_array_consume_end)]

def produce(*streams):
    a, all = array(0), (c.c_uint64 * len(streams))(*streams)
    return calls(lambda: cai.cai_array_produce(c.byref(a), all, len(streams), 0x2001, 0, None))

def imported(stream):
    obj = Exporter(dict(shape=(4,), typestr="<i4", data=(0x7000_0000, False), version=3, stream=stream))
    def once():
        take(obj).release()
        return 0
    return calls(once)

event = dict(event=0x9000, flags=T.FLAG_READONLY)
print("the same handle; no stream; no elements", *pair(array(0x3002), 0x3002))
print("two handles", *pair(array(0x2001), 0x3002))
print("two handles, stream_id known", *pair(array(0x2001, stream_id=0x2001), 0x3002))
print("two handles, a read-only array with an event", *pair(array(0x2001, **event), 0x3002))
print("a handle, and a default stream as yours", *pair(array(0x2001), 1))
print("a default stream of the current context, and a handle as yours", *pair(array(1, context=0x1000), 0x3002))
print("a default stream of another context, and a handle as yours", *pair(array(1, context=OTHER), 0x3002))
print("a default stream without context, and a handle as yours", *pair(owned(1), 0x3002))
driver.cuCtxSetCurrent(c.c_void_p(OTHER))
print("the same, and memory of another context than the current one", *pair(owned(1), 0x3002))
driver.cuCtxSetCurrent(c.c_void_p(0x1000))
print("the same default stream", *pair(array(1, context=0x1000), 1))
assert pair(owned(1), 1) == pair(array(1, context=0x1000), 1)
print("the same, of a borrowed array without context", *pair(array(1), 1))
two = [owned(1), owned(1)]
pointers = (c.POINTER(T.Array) * 2)(*map(c.pointer, two))
many = (cai.cai_unstable_arrays_consume_begin, cai.cai_unstable_arrays_consume_end)
print("the same, of two arrays in a list", *[calls(lambda: half(pointers, 2, 1, READ, None)) for half in many])
first = owned(1)
driver.null_driver_calls()
assert cai.cai_array_consume_begin(c.byref(first), 1, READ, None) == 0 and driver.null_driver_calls() == 2
assert cai.cai_array_consume_end(c.byref(first), 1, READ, None) == 0 and driver.null_driver_calls() == 1
print("produce: one stream, the exported one", produce(0x2001))
print("produce: another stream, joined", produce(0x3002))
print("produce: each further stream", produce(0x3002, 0x4003) - produce(0x3002))
print("import of the legacy default stream, or of a handle", imported(1))
print("import of the per-thread default stream", imported(2))
assert pair(array(NONE), 0x3002) == [0, 0] and imported(None) == 0 and imported(0x2001) == imported(1)
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    target = tmp_path_factory.mktemp("null") / "null_driver.so"
    compile(ROOT / "bench/null_driver.c", target, "-shared", "-O1", "-Wall", "-Wextra", "-Werror", library=None)
    text = COUNT.format(folder=str(ROOT / "tests/python"))
    done = run(sys.executable, "-c", text, env={"CAI_CUDA_DRIVER": str(target)}, timeout=60)
    rows = [re.fullmatch(r"(.*?) ([0-9 ]+)", line) for line in done.stdout.splitlines()]
    return {row[1]: [int(number) for number in row[2].split()] for row in rows}


def test_the_numbers(counted):
    assert counted == {
        "the same handle; no stream; no elements": [0, 0],
        "two handles": [5, 5],
        "two handles, stream_id known": [5, 6],
        "two handles, a read-only array with an event": [3, 5],
        "a handle, and a default stream as yours": [6, 6],
        "a default stream of the current context, and a handle as yours": [6, 6],
        "a default stream of another context, and a handle as yours": [8, 8],
        "a default stream without context, and a handle as yours": [6, 6],
        "the same, and memory of another context than the current one": [18, 18],
        "the same default stream": [1, 1],
        "the same, of a borrowed array without context": [2, 2],
        "the same, of two arrays in a list": [1, 1],
        "produce: one stream, the exported one": [2],
        "produce: another stream, joined": [6],
        "produce: each further stream": [4],
        "import of the legacy default stream, or of a handle": [0],
        "import of the per-thread default stream": [4],
    }


def test_the_page_states_them(counted):
    page = (ROOT / "docs/src/streams.md").read_text()
    table = page.split("## Driver calls")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]
    stated = {row[0]: [int(cell) for cell in row[1:] if cell.isdigit()] for row in rows[2:]}
    assert len(stated) > 8 and stated == {row: counted[row] for row in stated}
