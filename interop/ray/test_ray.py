"""`libcai.ray` with Ray itself: values, order, lifetime, and what is promised when something fails.

Under the lazy schedule only a wait makes the device work: a wait that is left out is a race."""

import contextlib
import os
import pathlib
import pickle
import re
import runpy
import signal
import subprocess
import sys

import pytest
import ray
from conftest import settled

import libcai.ray

VERSION = tuple(map(int, ray.__version__.split(".")[:2]))
get = ray.get


def test_values(pair):
    producer, consumer = pair
    assert get([consumer.sum.remote(producer.array.remote(100, value)) for value in range(5)]) == [0, 100, 200, 300, 400]
    assert get(consumer.sums.remote(producer.several.remote())) == ("two", 20, (0,), 60)
    assert get(consumer.description.remote(producer.nothing.remote())) == "'nothing'"


def test_order_of_writes(pair):
    """The producer's copy waits for what the consumer wrote."""
    producer, consumer = pair
    array = producer.array.remote(100, 1)
    get(consumer.view.remote(array))
    assert get(consumer.sum.remote(array)) == 200
    assert bytes(get(array, _use_object_store=True)._made())[:4] == b"\2\0\0\0"


@pytest.mark.parametrize("left_out", ["begins", "ends"])
def test_a_wait_left_out(pair, left_out):
    producer, consumer = pair
    get(consumer.write.remote(producer.array.remote(), **{left_out: False}))
    settled(ray, producer)
    get(consumer.synchronize.remote())
    assert sum(get([producer.races.remote(), consumer.races.remote()])) > 0


def test_consumer_keeps(pair):
    """Ray's references are gone, and the producer keeps the memory for the consumer."""
    producer, consumer = pair
    array = producer.array.remote(10, 4)
    get(consumer.sum.remote(array, keeps=True))
    del array
    unused = producer.array.remote(10, 4)
    get(consumer.description.remote(unused))
    del unused
    settled(ray, producer, 1)
    assert get(consumer.again.remote()) == [40]


def test_never_received(pair):
    producer, _ = pair
    array = producer.array.remote()
    assert get(producer.live.remote()) == 1
    del array
    settled(ray, producer)


def test_two_consumers(pair, actors):
    producer, consumer = pair
    other = actors.Consumer.remote()
    array = producer.array.remote(10, 4)
    assert get([one.sum.remote(array, keeps=True) for one in (consumer, other)]) == [40, 40]
    del array
    get(consumer.drop.remote())
    assert get(other.again.remote()) == [40]
    settled(ray, producer, 1)
    # Killed while it has the array.
    os.kill(get(other.pid.remote()), signal.SIGKILL)
    settled(ray, producer)


def test_references(pair):
    producer, consumer = pair
    array = producer.array.remote(10, 4)
    assert get(array).shape == (10,)
    assert get(consumer.fetched.remote([array])) == 40
    assert get(consumer.fetched.remote(get(producer.put.remote(5)))) == 50
    # The producer itself gets its own array, and returns it again.
    assert get(producer.passed_on.remote(array), _use_object_store=True).shape == (10,)


@pytest.mark.skipif(VERSION < (2, 59), reason="arrays of the driver come with Ray 2.59")
def test_put_by_the_driver(pair, actors):
    making = actors.Making()
    array = ray.put(making.make(10, 4), _tensor_transport="cai")
    assert get(pair[1].sum.remote(array)) == 40
    del array
    for _ in range(300):
        get(pair[1].drop.remote())
        if making.live() == 0:
            break
    assert making.live() == 0 and making.races() == 0


def test_pickled(pair):
    """Copied in stream order, with all that describes it."""
    producer, _ = pair
    copy = get(producer.array.remote(10, 4), _use_object_store=True)
    assert (copy.shape, copy.device, bytes(copy._made())) == ((10,), "cpu", b"\4\0\0\0" * 10)


KEYS = "shape", "typestr", "descr"


class Described:
    def __init__(self, **described):
        self.memory = bytearray(range(24))
        address = (libcai.ray.c.c_char * 24).from_buffer(self.memory)
        self.__array_interface__ = {"version": 3, "data": (libcai.ray.c.addressof(address), False)} | described


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({"shape": (3, 2), "typestr": "<f4"}, bytes(range(24))),
        ({"shape": (3,), "strides": (8,), "typestr": "<i4"}, bytes([0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19])),
        ({"shape": (2,), "typestr": "|V12", "descr": [("a", "<i4"), ("b", "<f8")]}, bytes(range(24))),
        ({"shape": (), "typestr": "<M8[us]"}, bytes(range(8))),
        ({"shape": (0, 4), "typestr": "<f4"}, b""),
    ],
)
def test_pickled_types(described, expected, protocol):
    array = libcai.ray.Array(Described(**described))
    copy = pickle.loads(pickle.dumps(array, protocol))
    one, other = array.__array_interface__, copy.__array_interface__
    assert [one.get(key) for key in KEYS] == [other.get(key) for key in KEYS]
    assert libcai.ray.c.string_at(other["data"][0], len(expected)) == expected
    assert other["data"][1] is False


def test_pickled_out_of_band():
    """Memory of the pickler's buffers, such as Ray's object store, is read-only where it is."""
    buffers = []
    data = pickle.dumps(libcai.ray.Array(Described(shape=(3,), typestr="<f8")), 5, buffer_callback=buffers.append)
    store = bytes(buffers[0])
    copy = pickle.loads(data, buffers=[store])
    assert copy.__array_interface__["data"][1] is True and bytes(copy._made()) == store


# --- what is refused, by whom and with what text

REFUSED = {
    "in host memory": lambda producer, consumer, actors: get(consumer.sum.remote(producer.hosts.remote())),
    "pass its reference on": lambda producer, consumer, actors: get(consumer.passed_on.remote(producer.array.remote())),
    "enable_tensor_transport=True": lambda producer, consumer, actors: refused_at_once(producer, actors),
    "only support 1 return value": lambda producer, consumer, actors: producer.array.options(num_returns=2).remote(),
    "rdt_tensors": lambda producer, consumer, actors: get(actors.task.remote(producer.array.remote())),
    "not created on the owner": lambda producer, consumer, actors: get(consumer.fetched.remote([producer.array.remote()])),
}


def refused_at_once(producer, actors):
    array = producer.array.remote()
    get(array)
    actors.Unprepared.remote().sum.remote(array)


@pytest.mark.parametrize("text", REFUSED)
def test_refused(pair, actors, text):
    """Both actors live, and nothing stays behind."""
    with pytest.raises(Exception, match=text):
        REFUSED[text](*pair, actors)
    assert get(pair[1].sum.remote(pair[0].array.remote(10, 1))) == 10


def test_consumer_without_the_transport(pair, actors, caplog):
    """A call that was sent before the array exists: it fails in the end, the owner says why, and the array is freed."""
    consumer = actors.Unprepared.remote()
    get(consumer.races.remote())
    with pytest.raises(ray.exceptions.RayTaskError, match="TimeoutError"):
        get(consumer.sum.remote(pair[0].array.remote(delay=1)))
    assert "needs @ray.remote(enable_tensor_transport=True)" in caplog.text


def test_no_subclass():
    with pytest.raises(TypeError, match="the very class"):
        type("Sub", (libcai.ray.Array,), {})


def test_another_node(pair):
    """The error names both, and the next transfer works."""
    producer, consumer = pair
    node = ray.get_runtime_context().get_node_id()
    with pytest.raises(ray.exceptions.RayTaskError, match=rf"of node {node} .*for node {node} .*boot id"):
        get(consumer.sum.remote(producer.elsewhere.remote()))
    assert get(consumer.sum.remote(producer.array.remote(10, 1))) == 10


def test_not_accepted(pair, actors):
    """The producer does not answer: an error instead of a wait, and both live."""
    producer, _ = pair
    consumer = actors.Consumer.remote()
    get([consumer.patience.remote(0.1), producer.accepts_nothing.remote(True)])
    with pytest.raises(ray.exceptions.RayTaskError, match="has not accepted the connection"):
        get(consumer.sum.remote(producer.array.remote()))
    get([consumer.patience.remote(30), producer.accepts_nothing.remote(False)])
    assert get(consumer.sum.remote(producer.array.remote(10, 1))) == 10


# --- tasks that are repeated, actors that are restarted or end


def test_retried(pair):
    producer, consumer = pair
    assert get(consumer.sum.remote(producer.fails_once.remote())) == 60


def test_same_object_again(actors):
    """Ray asks again with the arrays of the first time, or, after a failure, with others."""
    making, transport = actors.Making(), libcai.ray.Transport()
    first, other = [making.make()], [making.make()]
    one = transport.extract_tensor_transport_metadata("id", first)
    assert transport.extract_tensor_transport_metadata("id", list(first)).records == one.records
    assert transport.extract_tensor_transport_metadata("id", other).records != one.records
    assert making.live() == 2
    del first
    transport._channel.poll()
    assert making.live() == 1
    for _ in range(2):
        transport.garbage_collect("id", one, other)
    del other
    transport._channel.poll()
    assert making.live() == 0 and making.races() == 0


def restart(actor):
    before = get(actor.pid.remote())
    os.kill(before, signal.SIGKILL)
    for _ in range(1000):
        with contextlib.suppress(ray.exceptions.ActorUnavailableError):
            if get(actor.pid.remote()) != before:
                return
    raise TimeoutError("the actor was not restarted")


def test_restarted(pair, actors, tmp_path):
    """Neither side is registered again by Ray. Records of the old process are refused."""
    producer, consumer = actors.Producer.remote(), actors.Consumer.remote()
    kept = producer.array.remote(10, 4)
    assert get(consumer.sum.remote(kept, keeps=True)) == 40
    restart(producer)
    assert get(consumer.sum.remote(producer.array.remote(10, 5))) == 50
    # The array of the process that has ended: no call blocks, and releasing it works.
    with pytest.raises(ray.exceptions.RayTaskError, match="has ended"):
        get(consumer.again.remote())
    get(consumer.drop.remote())
    with pytest.raises(ray.exceptions.RayError):
        get(consumer.sum.remote(kept))
    del kept
    restart(consumer)
    assert get(consumer.sum.remote(producer.array.remote(10, 6))) == 60
    dying = actors.Producer.remote()
    assert get(consumer.sum.remote(dying.dies_once.remote(str(tmp_path / "died")))) == 50
    assert get([one.races.remote() for one in (producer, consumer, dying)]) == [0, 0, 0]
    for one in (producer, consumer, dying):
        ray.kill(one)


# --- the programs of the page

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/src/ray.md").read_text()
PROGRAMS = re.findall(r"^```python\n# (\S+)\n(.*?)^```\n\nIt prints `(.*?)`", PAGE, re.M | re.S)


def test_there_are_programs():
    assert [name for name, _, _ in PROGRAMS] == ["with_cupy.py", "with_torch.py", "own_class.py"]


@pytest.mark.parametrize("name, text, printed", PROGRAMS, ids=[name for name, _, _ in PROGRAMS])
def test_program(name, text, printed, tmp_path, capfd, actors):
    if name.startswith("with_"):
        pytest.importorskip(name.removeprefix("with_").removesuffix(".py"))
    (tmp_path / name).write_text(text)
    values = runpy.run_path(str(tmp_path / name), run_name="__main__").values()
    made = [value for value in values if isinstance(value, ray.actor.ActorHandle)]
    try:
        assert capfd.readouterr().out.splitlines()[-1] == printed
        assert get([actor.__ray_call__.remote(actors.races_of) for actor in made]) == [0, 0]
    finally:
        for actor in made:
            # Ray keeps handles of the newest transfer, and so the GPU that the next program needs.
            ray.kill(actor)


def test_program_with_nixl():
    """Two processes; the arrays are on the host."""
    pytest.importorskip("torch")
    program = pathlib.Path(__file__).with_name("nixl_read.py")
    done = subprocess.run([sys.executable, program], check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "DONE [0.0, 1.0, 2.0, 3.0]"
