"""The race checker beside a driver: the simulated one as the real one, and a small one without simulator functions."""

import concurrent.futures
import json
import shutil
import subprocess
import sys

import pytest

from commands import BUILT, COMMAND, HEADERS, SIM, WORKERS, compile_once, compile_program, compile_text, run, sim
from test_cuda_sim import KERNELS, NULLS, RUNTIME, list_programs, options_of

SCHEDULES = ["lazy", "threads"]

# Beside a driver, which memory a descriptor names is not known.
# In the second one, a driver without a checker waits for the number, which is written after the call. Memory of graphs is
# not followed.
SIMULATED_ONLY = ("mappings/imported_again", "memory_free/freed_before_the_number_is_written", "graph_memory/")


def shadow(real, *arguments, schedule="lazy", **more):
    """Runs a program under the checker on a driver. The variables are for that driver, if it is the simulated one."""
    environment = {"CUDASIM_RACES": "off", "CUDASIM_SCHEDULE": schedule, "CUDASIM_DEVICES": "2", **more.pop("env", {})}
    return run(COMMAND, "run", f"--shadow={real}", "--print=exit", *arguments, env=environment, **more)


@pytest.fixture(scope="session")
def simulated(tmp_path_factory):
    """The simulated driver under another path: a library of its own beside the checker's."""
    return shutil.copy(BUILT / "libcuda.so", tmp_path_factory.mktemp("real") / "libcuda.so.1")


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A driver that is not simulated."""
    path = tmp_path_factory.mktemp("small") / "libcuda.so.1"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
    run("gcc", *flags, SIM / "shadow/tests/driver.c", "-o", path)
    return path


@pytest.fixture(scope="session")
def program(driver, tmp_path_factory):  # noqa: F811
    return compile_program(driver, tmp_path_factory.mktemp("program") / "program", [SIM / "shadow/tests/program.c"])


@pytest.fixture(scope="session")
def programs(driver):  # noqa: F811
    return compile_once(driver, "programs", sorted((SIM / "tests/programs").glob("*.c")))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_expected_results(simulated, programs, schedule):
    """Every test program has the result beside a driver that it has on the simulated one."""

    def result(one):
        return one, shadow(simulated, *options_of(one[1]), "--", programs, "run", one[1], schedule=schedule, check=False)

    with concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool:
        for one, done in pool.map(result, [one for one in list_programs(programs) if not one[1].startswith(SIMULATED_ONLY)]):
            assert done.returncode == 0, f"{one}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            assert "does not follow" not in done.stderr, one


def test_conformance(simulated, driver, tmp_path):  # noqa: F811
    """What the program sees is the driver's: every rule has the result that it has without the checker."""
    conformance = compile_once(driver, "conformance", sorted((SIM / "conformance").glob("*.c")))
    alone, followed = tmp_path / "alone.json", tmp_path / "followed.json"
    options = ["--races=off", "--devices=2", "--print=exit"]
    run(COMMAND, "run", *options, "--", conformance, "--json", alone, timeout=300)
    shadow(simulated, "--races=warn", "--", conformance, "--json", followed, timeout=300)

    def results(path):
        rules = [json.loads(line) for line in path.read_text().splitlines()]
        return {(rule["theme"], rule["name"]): rule["result"] for rule in rules}

    assert results(alone) == results(followed)


def test_many_threads(simulated, driver, tmp_path):  # noqa: F811
    """Addresses and handles come back to other threads at once; nothing is mixed up."""
    stress = compile_program(driver, tmp_path / "stress", [SIM / "tests/stress.c"])
    for schedule in SCHEDULES:
        done = shadow(simulated, "--", stress, "8", "16", "200000", schedule=schedule, timeout=300)
        assert "200000 operations" in done.stdout


@pytest.mark.parametrize("what", ["pass_through", "missing", "ordered_kernels", "real", "refused", "changed_graph"])
def test_a_driver_of_its_own(small, program, what):
    done = shadow(small, "--", program, what, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["racy_kernels", "racy_graph", "racy_wait"])
def test_races_on_a_driver_of_its_own(small, program, what):
    done = shadow(small, "--", program, what, check=False)
    assert done.returncode == 66 and "1 race found" in done.stderr, done.stdout + done.stderr


def test_results_without_the_checker(small, program):
    """The program judges the driver, not the checker."""
    run(program, "pass_through", env={"LD_LIBRARY_PATH": str(small.parent)})


def test_declared_accesses(small, program, tmp_path):
    report = tmp_path / "report.json"
    done = shadow(small, f"--report={report}", "--", program, "racy_kernels", check=False)
    assert done.returncode == 66, done.stdout + done.stderr
    assert 'write by writer, on non-blocking stream' in done.stderr and '"producer" of device 0' in done.stderr
    (line,) = report.read_text().splitlines()
    (race,) = json.loads(line)["races"]
    assert race["second"]["label"] == "reader" and race["nbytes"] == 4096
    # Warnings leave the exit code to the program.
    assert shadow(small, "--races=warn", "--", program, "racy_kernels", check=False).returncode == 0
    assert "race" not in shadow(small, "--races=off", "--", program, "racy_kernels").stderr


DECLARED = r"""
static void add_one(const cudasim_grid *grid, void **args) { (void)grid; ++**(volatile int **)args[0]; }
static const size_t sizes[] = {8};
static const cudasim_kernel kernels[] = {{"add_one", add_one, NULL, 1, sizes}};
int main(int argc, char **argv) {
    const int capture = argc > 1 && strcmp(argv[1], "capture") == 0, order = argc > 2;
    CUcontext context; CUmodule module; CUfunction f; CUstream a, b; CUevent e; CUdeviceptr p;
    cudasim_register(kernels, 1);
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, "any image")); OK(cuModuleGetFunction(&f, module, "add_one"));
    OK(cuStreamCreate(&a, 1)); OK(cuStreamCreate(&b, 1)); OK(cuEventCreate(&e, 2)); OK(cuMemAlloc(&p, 4));
    const cudasim_access access = {.address = p, .nbytes = 4, .mode = CUDASIM_READ | CUDASIM_WRITE};
    void *args[] = {&p};
    OK(cuMemsetD32Async(p, 0, 1, a));
    if (capture) OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    cudasim_accesses(a, "first", &access, 1);
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
    if (capture) {
        CUgraph graph; CUgraphExec exec;
        OK(cuStreamEndCapture(a, &graph)); OK(cuGraphInstantiate(&exec, graph, 0)); OK(cuGraphLaunch(exec, a));
    }
    OK(cuEventRecord(e, a));
    if (order) OK(cuStreamWaitEvent(b, e, 0));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, b, args, NULL));
    cudasim_accesses(b, "second", &access, 1);
    OK(cuCtxSynchronize()); OK(cuMemFree(p));
    return 0;
}
"""


@pytest.mark.parametrize("how", ["direct", "capture"])
@pytest.mark.parametrize("where", ["simulated", "beside"])
def test_accesses_of_a_launch(simulated, driver, tmp_path, where, how):  # noqa: F811
    """Accesses are declared before or after a launch, captured or not, on the simulated driver and beside it."""
    program = compile_text(driver, tmp_path / "declared", DECLARED)

    def start(*arguments):
        return sim("--", *arguments, check=False) if where == "simulated" else shadow(simulated, "--", *arguments, check=False)

    done = start(program, how)
    assert done.returncode == 66 and "by first, on" in done.stderr and "by second, on" in done.stderr
    done = start(program, how, "ordered")
    assert done.returncode == 0, done.stderr


def test_registered_kernels(simulated, driver, tmp_path):  # noqa: F811
    """Registered kernels name the real ones and declare their accesses."""
    program = compile_text(driver, tmp_path / "kernels", KERNELS)
    done = shadow(simulated, "--", program, check=False)
    assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"


def test_runtime_library(simulated, tmp_path):
    """The runtime library finds the driver's functions by itself."""
    (tmp_path / "runtime.c").write_text(RUNTIME)
    includes = ["-isystem", HEADERS["13"]]
    run("gcc", "-std=gnu11", "-g", *includes, tmp_path / "runtime.c", "-o", tmp_path / "runtime", BUILT / "libcudart.so.13")
    path = {"LD_LIBRARY_PATH": str(BUILT)}
    done = shadow(simulated, "--", tmp_path / "runtime", env=path, check=False)
    assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"
    assert shadow(simulated, "--", tmp_path / "runtime", "race", env=path, check=False).returncode == 66


def test_null_arguments(simulated):
    """What the driver refuses is not followed, and does no harm."""
    names = ",".join(sorted({line.split()[0] for line in run(COMMAND, "entries").stdout.splitlines()}))
    shadow(simulated, "--races=warn", "--", sys.executable, "-c", NULLS, names)


FINDING = r"""
#define SAME(a, b) do { if ((void *)(a) != (void *)(b)) { printf("%s is not %s\n", #a, #b); return 1; } } while (0)
int main(void) {
    void *v1 = NULL, *v2 = NULL, *twin = NULL, *old = NULL, *other = NULL, *none = &v1;
    CUdriverProcAddressQueryResult status;
    CUresult (*first)(const char *, void **, int, cuuint64_t);
    if (cuInit(0)) return 2;
    *(void **)&first = dlsym(RTLD_DEFAULT, "cuGetProcAddress");
    if (cuGetProcAddress("cuMemcpyAsync", &v2, 13000, 1, &status) || first("cuMemcpyAsync", &v1, 12000, 0)) return 3;
    if (cuGetProcAddress("cuMemcpyAsync", &twin, 13000, 2, &status)) return 4;
    if (cuGetProcAddress("cuMemAlloc", &old, 13000, 0, &status)) return 5;
    if (cuGetProcAddress("cuDriverGetVersion", &other, 13000, 0, &status)) return 6;
    if (cuGetProcAddress("cuNoSuchThing", &none, 13000, 0, &status) || none || !status) return 7;
    SAME(v1, dlsym(RTLD_DEFAULT, "cuMemcpyAsync"));
    SAME(v2, dlsym(RTLD_DEFAULT, "cuMemcpyAsync"));
    SAME(twin, dlsym(RTLD_DEFAULT, "cuMemcpyAsync_ptsz"));
    SAME(old, dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    int version = 0;
    if (((CUresult (*)(int *))other)(&version) || version != 13050) return 8;
    return 0;
}
"""


def test_functions_that_are_looked_up(simulated, driver, tmp_path):  # noqa: F811
    program = compile_text(driver, tmp_path / "finding", FINDING)
    done = shadow(simulated, "--", program, check=False)
    assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"


def test_every_function_is_there(simulated):
    def names(path):
        return {line.split()[-1] for line in run("nm", "-D", "--defined-only", path).stdout.splitlines()}

    assert names(BUILT / "libcuda.so") <= names(BUILT / "libcudasim_shadow.so")


def test_command(simulated, tmp_path):
    def fails(*options):
        done = run(COMMAND, "run", *options, "--", "true", check=False)
        assert done.returncode == 2
        return done.stderr

    assert "--schedule is for the simulated driver" in fails(f"--shadow={simulated}", "--schedule=lazy")
    assert "there is no driver at" in fails(f"--shadow={tmp_path}/none")
    # By its folder, too.
    assert run(COMMAND, "run", f"--shadow={simulated.parent}", "true").returncode == 0


OBJECT = r"""
#include <semaphore.h>
static sem_t ended;
static void end(void *data) { ++*(int *)data; sem_post(&ended); }
int main(int argc, char **argv) {
    CUcontext context; CUstream a; CUdeviceptr p; CUgraph graph; CUgraphExec exec; CUuserObject object; CUgraphNode node;
    int ends = 0;
    const int waits = argc < 2 || strcmp(argv[1], "early");
    sem_init(&ended, 0, 0);
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, 1)); OK(cuMemAlloc(&p, 64));
    if (cuUserObjectCreate(&object, &ends, end, 0, 1) != CUDA_ERROR_INVALID_VALUE) return 2;
    OK(cuGraphCreate(&graph, 0)); OK(cuUserObjectCreate(&object, &ends, end, 1, 1));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = p, .value = 7, .elementSize = 1, .width = 64, .height = 1};
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context));
    OK(cuGraphInstantiate(&exec, graph, 0)); OK(cuGraphLaunch(exec, a));
    OK(cuGraphDestroy(graph)); OK(cuGraphExecDestroy(exec));
    if (waits) while (sem_wait(&ended)) { }
    OK(cuMemFree(p));
    return waits && ends != 1;
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_user_objects(simulated, driver, tmp_path, schedule):  # noqa: F811
    """A destructor comes after the work that used the object, as on the simulated driver."""
    program = compile_text(driver, tmp_path / "object", OBJECT)
    for run_it in (lambda *words: shadow(simulated, *words, schedule=schedule, check=False), lambda *words: sim(*words, check=False)):
        done = run_it("--", program)
        assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"
        done = run_it("--docs=11", "--", program, "early")
        assert done.returncode == 66, f"{done.returncode} {done.stdout}{done.stderr}"


CONDITIONAL = r"""
int main(void) {
    CUcontext context; CUstream a; CUdeviceptr p; CUgraph graph; CUgraphExec exec; CUgraphNode node;
    CUgraphConditionalHandle handle; unsigned char found = 0;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, 1)); OK(cuMemAlloc(&p, 64)); OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = handle; params.conditional.size = 1; params.conditional.ctx = context;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = p, .value = 7, .elementSize = 1, .width = 64, .height = 1};
    OK(cuGraphAddMemsetNode(&node, params.conditional.phGraph_out[0], NULL, 0, &fill, context));
    OK(cuGraphInstantiate(&exec, graph, 0)); OK(cuGraphLaunch(exec, a)); OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH(&found, p, 1));
    return found != 7;
}
"""


def test_conditional_nodes_are_not_followed(simulated, driver, tmp_path):  # noqa: F811
    """The report says so."""
    program = compile_text(driver, tmp_path / "conditional", CONDITIONAL)
    done = shadow(simulated, "--", program, check=False)
    assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"
    assert "cuGraphAddNode was called 1 time in ways that the checker does not follow" in done.stderr


def test_the_checker_is_no_driver(program):
    library = BUILT / "libcudasim_shadow.so"
    done = subprocess.run([program, "real"], capture_output=True, text=True, env={"LD_PRELOAD": str(library), "CUDASIM_REAL": str(library)})
    assert done.returncode != 0 and "names the checker itself" in done.stderr
