"""Messages of the simulated driver beside the races: calls that do nothing, and functions that are lacking."""

import pytest

from commands import COMMAND, SCHEDULES, compile_program, run, sim

INSIDE = """
#include <cuda.h>
#include <cudasim.h>

static void access(void *data) {
    cudasim_host_write(data, 64);
    cudasim_host_write(data, 64);
    cudasim_host_read(data, 64);
    cudasim_label("inside");
    cudasim_hb_before(data);
}

int main(int argc, char **argv) {
    CUdevice device; CUcontext context; void *p;
    (void)argv;
    cuInit(0); cuDeviceGet(&device, 0); cuDevicePrimaryCtxRetain(&context, device); cuCtxSetCurrent(context);
    cuMemHostAlloc(&p, 64, 0);
    cudasim_host_write(p, 64);
    cudasim_label("outside");
    for (int i = 0; i < 3; ++i) {
        if (argc > 1) cudasim_launch(NULL, "a kernel", access, &p, sizeof p, NULL, 0);
        else cuLaunchHostFunc(NULL, access, p);
    }
    return cuCtxSynchronize();
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("argument", [[], ["kernel"]])
def test_an_annotation_that_does_nothing(driver, tmp_path, schedule, argument):
    """In a host function or a kernel it is ignored, and says so once."""
    (tmp_path / "inside.c").write_text(INSIDE)
    program = compile_program(driver, tmp_path / "inside", [tmp_path / "inside.c"])
    done = sim(f"--schedule={schedule}", "--", program, *argument)
    lines = done.stderr.splitlines()
    names = [line.split(" does nothing in a host function or a kernel: ")[0] for line in lines]
    expected = [f"cuda-sim: cudasim_{name}" for name in ["host_write", "host_read", "label"]]
    assert names == expected and "cudasim_accesses" in lines[0], done.stderr


LACKING = r"""
#include <cuda.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    CUdevice device; CUcontext context; CUgraph graph, clone; CUgraphNode node; void *found;
    CUdriverProcAddressQueryResult state;
    cuInit(0); cuDeviceGet(&device, 0); cuDevicePrimaryCtxRetain(&context, device); cuCtxSetCurrent(context);
    CUDA_ARRAY_DESCRIPTOR how = {0};
    CUarray array;
    cuArrayCreate(&array, &how);
    for (int i = 0; i < 2; ++i) {
        cuGetProcAddress("cuArrayDestroy", &found, CUDA_VERSION, 0, &state);
        cuGetProcAddress("cuArrayCreate", &found, CUDA_VERSION, 0, &state);
        cuGetProcAddress("cuMemAlloc", &found, CUDA_VERSION, 0, &state);
        cuGetProcAddress("cuInventedHere", &found, CUDA_VERSION, 0, &state);
    }
    CUDA_MEM_ALLOC_NODE_PARAMS of = {.bytesize = 64};
    of.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    cuGraphCreate(&graph, 0);
    cuGraphAddMemAllocNode(&node, graph, NULL, 0, &of);
    printf("%d\n", cuGraphClone(&clone, graph));
    return 0;
}
"""


def test_each_way_to_lack_a_function_has_its_list(driver, tmp_path):
    (tmp_path / "lacking.c").write_text(LACKING)
    program = compile_program(driver, tmp_path / "lacking", [tmp_path / "lacking.c"])
    done = run(COMMAND, "--missing", program, check=False)
    lists, name = {}, None
    for line in done.stdout.splitlines():
        if line.startswith("  "):
            lists[name].append(line.strip())
        elif line.startswith(("not ", "simulated", "looked")):
            name = line.split(": ")[0]
            lists[name] = []
    assert done.returncode == 1 and done.stdout.startswith("801\n")
    assert lists == {
        "not simulated, and called": ["cuArrayCreate_v2"],
        "simulated, and refused with CUDA_ERROR_NOT_SUPPORTED": ["cuGraphClone"],
        "not simulated, and looked up with cuGetProcAddress only": ["cuArrayDestroy"],
        "looked up with cuGetProcAddress, and not found": ["cuInventedHere"],
        f"not simulated, and named in {program}": ["cuArrayCreate", "cuArrayCreate_v2", "cuArrayDestroy"],
    }, done.stdout
