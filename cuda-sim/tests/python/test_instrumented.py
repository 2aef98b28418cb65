"""Accesses of the host that compilers report (`-fsanitize=thread`), without annotations in the program."""

import pytest

from commands import compile_text, libdir, run, sim

PROGRAM = r"""
#define N 1000
static float *data, copy[N + 1];
static CUstream stream;
static atomic_int ready, counter;

static float sum(const float *values, int n) {
    float all = 0;
    for (int i = 0; i < n; ++i)
        all += values[i];
    return all;
}

static void *wait_and_read(void *unused) {
    while (!atomic_load_explicit(&ready, memory_order_acquire)) {}
    copy[0] = data[0];
    return unused;
}

static void in_host_function(void *value) { *(float *)value = 1; }

int main(int argc, char **argv) {
    const char *what = argv[argc - 1];
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (what[0] == 'm') cuMemAllocManaged((CUdeviceptr *)&data, N * sizeof *data, CU_MEM_ATTACH_GLOBAL);
    else cuMemHostAlloc((void **)&data, N * sizeof *data, 0);
    ++what;
    for (int i = 0; i < N; ++i) /* before the work */
        data[i] = 1;
    if (!strcmp(what, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, wait_and_read, NULL);
        cuMemsetD32Async((CUdeviceptr)data, 0, N, stream);
        cuStreamSynchronize(stream);
        atomic_store_explicit(&ready, 1, memory_order_release);
        pthread_join(thread, NULL);
        return 0;
    }
    if (!strcmp(what, "function")) {
        cuLaunchHostFunc(stream, in_host_function, data);
        cuStreamSynchronize(stream);
        return 0;
    }
    /* Only the second half. */
    cuMemsetD32Async((CUdeviceptr)(data + N / 2), 0, N / 2, stream);
    if (!strcmp(what, "read")) printf("%d\n", sum(data, N) > 0); /* READ */
    if (!strcmp(what, "half")) printf("%d\n", sum(data, N / 2) > 0);
    if (!strcmp(what, "memcpy")) memcpy(copy, data, (size_t)(N + argc - argc) * sizeof *data);
    if (!strcmp(what, "write")) data[N - 1] = 2;
    if (!strcmp(what, "backward")) for (int i = N - 1; i >= 0; --i) copy[i] = data[i];
    if (!strcmp(what, "unaligned")) memcpy(copy, (char *)data + N * 4 - 7, 4);
    if (!strcmp(what, "atomic")) atomic_fetch_add(&counter, 1);
    cuStreamSynchronize(stream);
    if (!strcmp(what, "waited")) printf("%d\n", sum(data, N) > 0);
    if (!strcmp(what, "last")) {
        cuMemsetD32Async((CUdeviceptr)data, 0, N, stream);
        copy[0] = data[3]; /* reported at exit */
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("instrumented")
    compile_text(driver, folder / "program.o", PROGRAM, flags=["-O0", "-fsanitize=thread", "-c"])
    run("gcc", folder / "program.o", "-o", folder / "program", f"-L{driver}", "-lcudasim_host", "-lcuda", "-lpthread", "-ldl")
    return folder / "program"


@pytest.mark.parametrize(
    "what, races",
    {"read": 1, "half": 0, "memcpy": 1, "write": 1, "backward": 1, "unaligned": 1, "atomic": 0, "waited": 0, "last": 1,
     "thread": 0, "function": 0}.items(),
)  # fmt: skip
@pytest.mark.parametrize("memory", ["managed", "pinned"])
def test_accesses(program, memory, what, races):
    done = sim(program, memory[0] + what, check=False)
    assert done.returncode == (66 if races else 0), done.stdout + done.stderr
    assert f"{races} race found" in done.stderr if races else done.stderr == ""


def test_the_place_and_the_bytes(program):
    done = sim(program, "pread", check=False)
    assert "race on 2000 bytes" in done.stderr, done.stderr
    place = done.stderr[done.stderr.index("second, not ordered after it: read by the host") :].splitlines()[1:3]
    lines = [number for number, text in enumerate(PROGRAM.splitlines(), 1) if "all += values[i]" in text or "/* READ */" in text]
    assert [one.split()[0] for one in place] == ["sum", "main"]
    assert [one.rsplit(":")[-1] for one in place] == [str(line) for line in lines]


def test_ordered_threads(program):
    """Without the order of threads, accesses are not collected: they count in the order of the calls."""
    done = sim("--host-threads=ordered", program, "pread", check=False)
    assert done.returncode == 66 and "race on 4 bytes" in done.stderr


def test_without_the_command(program):
    """On another driver, or none, the hooks do nothing."""
    done = run(program, "pread", env={"LD_LIBRARY_PATH": libdir(), "CUDASIM_RACES": "off"})
    assert done.stdout == "1\n" and done.stderr == ""

    assert "tsan" not in run("ldd", program).stdout
