"""`libcai.dask` between two workers of a real Dask, over UCX, on the simulated driver: its schedule runs only what a wait
requires, so a worker that sent without waiting would send other bytes."""

import os
import pathlib
import time

import dask_arrays
import distributed
import numpy as np
import pytest
from distributed.protocol import serialize

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
FIELDS = [("a", "<f4"), ("", "|V4"), ("b", "<i8")]


@pytest.fixture(scope="module")
def workers():
    """A client, and the addresses of two workers."""
    paths = [HERE, ROOT / "python", ROOT / "tests/python"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")])
    options = {"n_workers": 2, "threads_per_worker": 1, "protocol": "ucxx", "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, timeout=60) as client:
        yield client, *client.scheduler_info()["workers"]


@pytest.mark.parametrize(
    "interface",
    [
        {"shape": (1000,), "typestr": "<i4"},
        {"shape": (3, 4), "typestr": "<c8"},
        {"shape": (3, 4), "typestr": "<f2", "strides": (2, 6)},
        {"shape": (), "typestr": "|b1"},
        {"shape": (0, 4), "typestr": "<f4"},
        {"shape": (5,), "typestr": "|V16", "descr": FIELDS},
        {"shape": (5,), "typestr": "<V2"},
    ],
    ids=str,
)
def test_between_workers(workers, interface):
    client, sender, receiver = workers
    nbytes = int(np.prod(interface["shape"], dtype=int)) * np.dtype(interface["typestr"]).itemsize
    array = client.submit(dask_arrays.make, nbytes, **interface, workers=[sender], pure=False)
    seen = client.submit(dask_arrays.look, array, nbytes, workers=[receiver], pure=False)
    keys, data, races = seen.result(timeout=60)
    assert {key: value for key, value in keys.items() if value is not None} == interface
    assert data == bytes([7]) * nbytes and races == 0
    # Nothing keeps the memory on either side.
    del array, seen
    until = time.monotonic() + 30
    while any(client.run(dask_arrays.live).values()):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    "interface, why",
    [
        ({"shape": (3, 2), "strides": (16, 8), "typestr": "<f4"}, "contiguous"),
        ({"shape": (3,), "typestr": "<f4", "mask": dask_arrays.Array({"shape": (3,), "typestr": "|b1", "version": 3}, None)}, "mask"),
    ],
    ids=["gaps", "mask"],
)
def test_others_are_left_to_dask(interface, why):
    array = dask_arrays.make(48, **interface)
    if "mask" in interface:
        interface["mask"].__cuda_array_interface__["data"] = array.__cuda_array_interface__["data"]
    with pytest.raises(TypeError) as error:
        serialize(array, serializers=["cuda"], on_error="raise")
    assert error.value.__cause__ is None  # not a failure: no serializer was willing
    header, _ = serialize(array, serializers=["cuda", "pickle"], on_error="message")
    assert header["serializer"] != "cuda"


def test_wrong_arrays_are_errors():
    array = dask_arrays.make(48, shape=(3,), typestr="<f5")
    with pytest.raises(TypeError) as error:
        serialize(array, serializers=["cuda", "pickle"], on_error="raise")
    assert "typestr" in str(error.value.__cause__)
