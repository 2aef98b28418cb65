"""The order of host threads as `cuda-sim run` observes it: locks of languages, channels, OpenMP, signals."""

import concurrent.futures
import os
import shutil
import sys

import pytest

from test_cuda_sim import BUILT, HEADERS, ROOT, SIM, WORKERS, driver, run, sim  # noqa: F401

SOURCES = SIM / "tests/host_order"


@pytest.fixture(scope="module")
def host_order(driver, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("host_order")
    flags = ["g++", "-std=c++20", "-g", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fopenmp"]
    objects = []
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        done = []
        for source in sorted(SOURCES.glob("*.cpp")):
            objects.append(folder / f"{source.stem}.o")
            include = ["-isystem", HEADERS["13"], "-I", SIM / "include"]
            done.append(pool.submit(run, *flags, *include, "-c", source, "-o", objects[-1]))
        [one.result() for one in done]
    program = folder / "host_order"
    run("g++", "-rdynamic", "-fopenmp", *objects, "-o", program, "-L", driver, "-lcuda", "-lpthread", "-lrt", "-ldl")
    return program


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_constructs(host_order, schedule):
    """Each construct with an order that it gives, and with work that it does not order."""

    def result(name):
        return name, sim(f"--schedule={schedule}", "--", host_order, "run", name, check=False)

    names = sim("--", host_order, "list").stdout.split()
    assert len(names) >= 100 and len(set(names)) == len(names)
    with concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool:
        wrong = [f"{name}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
                 for name, done in pool.map(result, names) if done.returncode != 0]  # fmt: skip
    assert not wrong, "\n".join(wrong)
