"""One Ray for all tests, on the simulated driver: `make interop-ray` starts pytest under `cuda-sim run`."""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/interop-ray"

# As an installed package: the sources, and the library beside them. Workers of Ray inherit the variables.
SITE = BUILD / "site"
shutil.rmtree(SITE, ignore_errors=True)
shutil.copytree(ROOT / "python/libcai", SITE / "libcai", ignore=shutil.ignore_patterns("__pycache__"))
(SITE / "libcai/lib").mkdir()
(SITE / "libcai/lib/libcai.so.1").symlink_to(ROOT / "target/release/libcai.so")
PATHS = [str(SITE), str(pathlib.Path(__file__).parent), str(ROOT / "tests/python")]
sys.path[:0] = PATHS
FETCH_SECONDS = 3
os.environ |= {
    "PYTHONPATH": os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]),
    "HOME": str(BUILD / "home"),
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_rdt_fetch_fail_timeout_milliseconds": str(FETCH_SECONDS * 1000),
}
(BUILD / "home").mkdir(exist_ok=True)


@pytest.fixture(scope="session", autouse=True)
def cluster():
    import ray

    import libcai.ray

    folder = tempfile.mkdtemp(prefix="ray")  # short: it contains sockets
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, _temp_dir=folder, log_to_driver=False)
    libcai.ray.register()
    yield ray
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def actors(cluster):
    import actors

    return actors


@pytest.fixture(scope="session")
def shared(actors):
    """A producer and a consumer for all tests that do not end them."""
    return actors.Producer.remote(), actors.Consumer.remote()


@pytest.fixture
def pair(cluster, shared):
    """In the end nothing is left, and nothing was a race."""
    yield shared
    producer, consumer = shared
    cluster.get(consumer.drop.remote())
    settled(cluster, producer)
    assert cluster.get([producer.races.remote(), consumer.races.remote()]) == [0, 0]


def settled(ray, producer, count=0):
    """Until the producer has that many buffers: releases of other processes take a moment."""
    for _ in range(300):
        if (live := ray.get(producer.live.remote())) <= count:
            break
    assert live == count
