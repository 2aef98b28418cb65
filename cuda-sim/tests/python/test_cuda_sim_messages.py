"""Messages of the simulated driver beside the races: calls that do nothing, and functions that are lacking."""

import re

import pytest

from commands import COMMAND, SCHEDULES, compile_text, run, sim

INSIDE = """
static void touches(void *data) {
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
        if (argc > 1) cudasim_launch(NULL, "a kernel", touches, &p, sizeof p, NULL, 0);
        else cuLaunchHostFunc(NULL, touches, p);
    }
    return cuCtxSynchronize();
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("argument", [[], ["kernel"]])
def test_an_annotation_that_does_nothing(driver, tmp_path, schedule, argument):
    """In a host function or a kernel it is ignored, and says so once."""
    program = compile_text(driver, tmp_path / "inside", INSIDE)
    done = sim(f"--schedule={schedule}", "--", program, *argument)
    lines = done.stderr.splitlines()
    names = [line.split(" does nothing in a host function or a kernel: ")[0] for line in lines]
    expected = [f"cuda-sim: cudasim_{name}" for name in ["host_write", "host_read", "label"]]
    assert names == expected and "cudasim_accesses" in lines[0], done.stderr


DROPPED = r"""
static int touch(CUstream stream, const char *name, CUdeviceptr at, size_t nbytes, unsigned mode) {
    const cudasim_access access = {.address = at, .nbytes = nbytes, .mode = mode};
    return cudasim_launch(stream, name, NULL, NULL, 0, &access, 1);
}

int main(void) {
    CUdevice device; CUcontext context; CUstream a, b; CUdeviceptr p, q; char report[4096]; unsigned char bytes[64];
    cudasim_label("early");
    cuInit(0); cuDeviceGet(&device, 0); cuDevicePrimaryCtxRetain(&context, device); cuCtxSetCurrent(context);
    cuStreamCreate(&a, CU_STREAM_NON_BLOCKING); cuStreamCreate(&b, CU_STREAM_NON_BLOCKING);
    cuMemAlloc(&p, 64); cuMemAlloc(&q, 512);
    for (int i = 0; i < 2; ++i) {
        if (touch(a, "nowhere", 4096, 8, CUDASIM_WRITE) != 0) return 2;
        touch(a, "beyond", p + 32, 64, CUDASIM_READ | CUDASIM_WRITE);
        touch(a, "modeless", p, 64, 4);
        touch(a, "reader", p, 32, CUDASIM_READ);
        touch(a, "nothing", 0, 0, CUDASIM_READ);
        cudasim_name_stream((void *)4096, "none");
        cudasim_accesses((void *)4096, "none", NULL, 0);
        cudasim_suballoc((void *)4096, 8, CUDASIM_HOST);
        cudasim_subfree((void *)4096, 8, CUDASIM_HOST);
    }
    cudasim_name_stream(a, "one");
    cudasim_suballoc((void *)q, 8, CUDASIM_HOST);
    cudasim_subfree((void *)q, 8, CUDASIM_HOST);
    cuStreamSynchronize(a);
    cuMemcpyDtoH(bytes, p, 64);
    for (int i = 0; i < 64; ++i) if ((bytes[i] == 0xff) != (i >= 32)) return 3;
    /* The label from before cuInit; other ranges of the same two calls. */
    for (int i = 0; i < 4; ++i) { touch(a, "first", q + 64 * i, 64, CUDASIM_WRITE); touch(b, "second", q + 64 * i, 64, CUDASIM_READ); }
    if (cudasim_take_report(report, sizeof report) != 1) return 4;
    return strstr(report, "write by early (first)") != NULL && strstr(report, ", and on 3 more ranges\n") != NULL ? 0 : 5;
}
"""


def test_what_is_dropped_is_reported(driver, tmp_path):
    """Accesses that no memory has, and annotations that fail: once for each."""
    program = compile_text(driver, tmp_path / "dropped", DROPPED)
    done = sim("--", program, check=False)
    assert done.returncode == 0, done.stderr
    assert re.sub("0x[0-9a-f]{5,}", "P", done.stderr).splitlines() == [
        "cuda-sim: nowhere declares 8 bytes at 0x1000, where no memory of the device is: not checked",
        "cuda-sim: beyond declares 64 bytes at P, which an allocation of 64 bytes at P does not contain: the rest is not checked",
        "cuda-sim: modeless declares an access of mode 4 and ndim 0, which is not valid",
        "cuda-sim: cudasim_name_stream has no effect: CUDA_ERROR_INVALID_HANDLE",
        "cuda-sim: cudasim_accesses has no effect: CUDA_ERROR_INVALID_HANDLE",
        "cuda-sim: cudasim_suballoc has no effect: CUDA_ERROR_INVALID_VALUE",
        "cuda-sim: cudasim_subfree has no effect: CUDA_ERROR_INVALID_VALUE",
    ]


LACKING = r"""
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
    CUmodule module; CUfunction function;
    cuModuleLoadData(&module, "any image");
    cuModuleGetFunction(&function, module, "undeclared");
    printf("%d\n", cuGraphClone(&clone, graph));
    return 0;
}
"""


def test_each_way_to_lack_a_function_has_its_list(driver, tmp_path):
    program = compile_text(driver, tmp_path / "lacking", LACKING)
    done = run(COMMAND, "--missing", program, check=False)
    lists, name = {}, None
    for line in done.stdout.splitlines():
        if line.startswith("  "):
            lists[name].append(line.strip())
        elif line.startswith(("not ", "simulated", "looked", "kernels")):
            name = line.split(": ")[0]
            lists[name] = []
    assert done.returncode == 1 and done.stdout.startswith("801\n")
    assert lists == {
        "not simulated, and called": ["cuArrayCreate_v2"],
        "kernels that are not declared": ["undeclared"],
        "simulated, and refused with CUDA_ERROR_NOT_SUPPORTED": ["cuGraphClone"],
        "not simulated, and looked up with cuGetProcAddress only": ["cuArrayDestroy"],
        "looked up with cuGetProcAddress, and not found": ["cuInventedHere"],
        f"not simulated, and named in {program}": ["cuArrayCreate", "cuArrayCreate_v2", "cuArrayDestroy"],
    }, done.stdout
