"""Functions of a program that end the thread of the driver which calls them: CPython up to 3.13 does that to host
functions in Python that are called while the interpreter ends. Only that thread ends, and its stream continues."""

import pytest

from commands import SCHEDULES, compile_text, sim

PROGRAM = """
static atomic_int calls, destroyed;
static void end(void *data) { atomic_fetch_add((atomic_int *)data, 1); pthread_exit(NULL); }
static void end_callback(CUstream s, CUresult status, void *data) { (void)s; (void)status; end(data); }
static void go_on(void *data) { atomic_fetch_add((atomic_int *)data, 1); }
int main(void) {
    CUcontext context; CUstream a, b; CUuserObject object;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, 1)); OK(cuStreamCreate(&b, 0));
    for (int round = 0; round < 20; ++round) {
        OK(cuLaunchHostFunc(a, end, &calls));
        OK(cuLaunchHostFunc(b, go_on, &calls));
        OK(cuStreamAddCallback(a, end_callback, &calls, 0));
        OK(cuLaunchHostFunc(a, go_on, &calls));
        OK(cuUserObjectCreate(&object, &destroyed, end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        OK(cuUserObjectRelease(object, 1));
        if (round % 3 == 0) OK(cuCtxSynchronize());
    }
    OK(cuCtxSynchronize());
    while (atomic_load(&destroyed) < 20) usleep(1000);
    printf("%d calls\\n", atomic_load(&calls));
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(driver, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("ended")
    return compile_text(driver, folder / "ended", PROGRAM)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("threads", ["seen", "ordered"])
def test_a_function_ends_its_thread(program, schedule, threads):
    done = sim(f"--schedule={schedule}", f"--host-threads={threads}", "--", program)
    assert done.stdout == "80 calls\n"
