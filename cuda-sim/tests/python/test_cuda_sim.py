"""The simulated driver from outside: programs in C against NVIDIA's own headers, under `cuda-sim run`."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time

import pytest

from commands import BUILT, COMMAND, HEADERS, SCHEDULES, SIM, WORKERS, compile_once, compile_program, compile_text, run, sim


def test_help():
    for words in (["--help"], ["-h"], ["run", "--help"], ["run", "--races=warn", "-h"], ["--missing", "--help"]):
        assert "cuda-sim run [options]" in run(COMMAND, *words).stdout
    # The program's own arguments are the program's.
    for words in (["--", "echo", "--help"], ["echo", "--help"], ["--races=warn", "echo", "-h"]):
        assert "cuda-sim run" not in sim(*words).stdout


# --- the checker --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=["12", "13"])
def programs(request, driver):
    return compile_once(driver, "programs", sorted((SIM / "tests/programs").glob("*.c")), request.param)


def list_programs(program):
    return [line.split() for line in sim("--", program, "list").stdout.splitlines()]


def test_there_are_enough_programs(programs):
    kinds, names = zip(*list_programs(programs))
    assert kinds.count("racy") >= 200 and kinds.count("correct") >= 200
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row, message", [
    ("x racy: a=nb b=nb p=mem; w a p; r b p", None),
    ("x correct: a=nb p=mem; 2x(w a p; r a p)", None),
    ("x odd: a=nb", "row/x: odd: neither racy nor correct"),
    ("x racy a=nb", 'expected "name racy: ..."'),
    ("x correct: ;", "no statements"),
    ("x correct: a=nbb", "row/x: a=nbb: unknown: nbb"),
    ("x correct: a=nb; write a a", "row/x: write a a: unknown: write"),
    ("x correct: a=nb; w a q", "nothing is called q"),
    ("x correct: a=nb; w a", 'w takes "spN", found 1'),
    ("x correct: a=nb p=mem; w a p N N", "found N as well"),
    ("x correct: a=nb p=mem; w p a", 'w takes "spN", and p is of kind p'),
    ("x correct: a=nb p=mem; w a p-", "expected a name or a number"),
    ("x correct: a=nb p=mem; w a p 3k", "3k is no number"),
    ("x correct: a=nb p=mem; w a p N/0", "division by 0"),
    ("x correct: N=mem", "N has a meaning of its own"),
    ("x correct: a=nb p", "p is no declaration"),
    ("x correct: 0x(csync)", "repeated 0 times"),
    ("x correct: 2x(csync", 'no ")"'),
    ("x correct: thread(csync", 'no ")"'),
    ("x correct: csync)", '")" without "("'),
    ("x correct: 2x(2x(csync))", 'no ")"'),
])  # fmt: skip
def test_a_row_that_is_not_understood_fails(programs, row, message):
    """Nothing in a row of tests/litmus is passed over."""
    done = sim("--", programs, "row", row, check=message is None)
    assert message is None or (done.returncode == 2 and message in done.stderr), done


STARTING = re.compile(r"^ +(_start|__libc_start\w*|start_thread|__clone\w*|clone\w*) |\(libc\.so", re.M)


def options_of(program):
    return {"rules": ["--rules=strict"], "docs_": ["--docs=11"]}.get(program[:5], [])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_expected_results(programs, schedule):
    """With the calls of CUDA 12, of which few differ, each program runs under one of the schedules."""
    wanted = list_programs(programs)
    if programs.name.startswith("programs-12"):
        wanted = wanted[SCHEDULES.index(schedule) :: len(SCHEDULES)]

    def result(one):
        done = sim("--devices=2", f"--schedule={schedule}", *options_of(one[1]), "--", programs, "run", one[1], check=False)
        return one, done

    with concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool:
        for one, done in pool.map(result, wanted):
            assert done.returncode == 0, f"{one}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            # The frames that start programs and threads are left out, by their addresses, and those of own libraries.
            assert not STARTING.search(done.stdout), f"{one}: {done.stdout}"
            assert not re.search("libcudasim|cuda-sim/(threads|redirect)/", done.stdout), f"{one}: {done.stdout}"


def test_a_wait_that_may_run_first_is_named(programs):
    """The report of the race has the event, its record and the wait, with the stack of each."""
    for program, call in [("the_wait_may_run_first", "cuStreamWaitEvent"), ("the_host_may_wait_first", "cuEventSynchronize")]:
        done = sim("--", programs, "run", f"thread_events/{program}")
        event = re.search(r"record: cuEventRecord\(event (0x\w+), non-blocking stream \d+ .*called by host thread \d+\n +do_rec ", done.stdout)
        assert event, done.stdout
        assert re.search(rf"wait: {call}\(event {event[1]}.*called by host thread \d+\n +\w+ ", done.stdout), done.stdout
        # Where calls order host threads, the wait counts.
        ordered = sim("--host-threads=ordered", "--", programs, "run", f"thread_events/{program}", check=False)
        assert ordered.returncode == 1 and "\n0 races" in f"\n{ordered.stdout}", ordered.stdout


@pytest.mark.parametrize("row, rule, advice", [
    ("p=mem a=nb b=nb x=arrn:p; w a p; look x b", "rule R1: .*; the array names no stream", r"\1 as the array's stream, in its"),
    ("p=mem a=nb b=nb x=arrn:p; look x b; w a p", "rule R3: .*, or the array does not name the producer's stream",
     "where that is the producer's, non-blocking stream [0-9]+ of device 0 as the array's"),
    ("p=mem a=nb b=nb x=arr:p:L; w a p; look x b", "rule R2: .*; the array names another stream than that of the first",
     r"\1 as the array's stream, or a wait of the array's stream for it"),
    ("p=mem a=nb b=nb x=arru:p; w a p; look x b", "the array's stream is unknown", "CAI_SYNC_CONSERVATIVE, or cai_array_synchronize"),
], ids=["no stream", "producer later", "another stream", "unknown stream"])  # fmt: skip
def test_why_a_begin_did_not_help(programs, row, rule, advice):
    """A consumer whose begin is there learns what the array lacks."""
    done = sim("--", programs, "row", f"x racy1: {row}", check=False)
    report = rf"\n  {rule}\n  first: \w+ by .*, on (.*), enqueued(?s:.*)\n  missing: (.*{advice}.*; by hand: cuEventRecord)"
    assert re.search(report, done.stdout), done.stdout


def test_order_that_is_not_observed_has_its_remedy(programs):
    """The report names what the program may have done, and the annotation for it."""
    done = sim("--", programs, "run", "values/host_polls_unseen")
    assert re.search(r"the number at 0x\w+, which a stream wrote after the first.*cudasim_host_waited", done.stdout), done.stdout
    done = sim("--", programs, "run", "threads/freed_by_the_last_reference")
    assert re.search(r"missing: Host thread \d+ has waited for the first: order it before host thread \d+", done.stdout), done.stdout
    assert "counter of references" in done.stdout and "--host-threads=ordered" in done.stdout
    ordered = sim("--host-threads=ordered", "--", programs, "run", "threads/freed_by_the_last_reference", check=False)
    assert ordered.returncode == 1 and "\n0 races" in f"\n{ordered.stdout}", ordered.stdout


def test_missing_before_pinned_memory_is_freed(programs):
    """cuMemFreeAsync does not free memory of the host."""
    done = sim("--", programs, "run", "memory_free/pinned_freed_while_read")
    assert re.search(r"missing: cuStreamSynchronize\(.*\) before freeing\.$", done.stdout, re.MULTILINE), done.stdout


@pytest.fixture(scope="session")
def processes(driver, tmp_path_factory):
    return compile_program(driver, tmp_path_factory.mktemp("processes") / "processes", [SIM / "tests/processes.c"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_processes(processes, schedule):
    """Accesses of two processes to memory that they share race unless an event orders them, or their hosts do."""
    cases = [line.split() for line in run(processes, env={"LD_LIBRARY_PATH": str(BUILT / "cuda-sim-driver")}).stdout.splitlines()]
    assert len(cases) >= 10

    def one(expected, case):
        return expected, case, sim(f"--schedule={schedule}", "--", processes, case, check=False)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for expected, case, done in pool.map(lambda job: one(*job), cases):
            assert done.returncode == (66 if expected == "racy" else 0), f"{case}: {done.returncode}\n{done.stderr}"
            # Both accesses are of one process there.
            if expected == "racy" and case != "opened_twice":
                assert re.search(r"first: (read|write|read and write) by .* of process \d+", done.stderr), f"{case}: {done.stderr}"


# --- rules of the driver --------------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=["12", "13"])
def conformance(request, driver):
    return compile_once(driver, "conformance", sorted((SIM / "conformance").glob("*.c")), request.param)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_conformance(conformance, schedule, tmp_path):
    options = ["--races=off", "--devices=2", f"--schedule={schedule}"]
    done = sim(*options, "--", conformance, "--json", tmp_path / "found.json", check=False, timeout=300)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if not line.startswith("ok "))
    rules = [json.loads(line) for line in (tmp_path / "found.json").read_text().splitlines()]
    assert len(rules) >= 100 and all(rule["rule"] and rule["source"] for rule in rules)
    # A table of a run against itself has no difference.
    table = run(sys.executable, SIM / "conformance/compare.py", tmp_path / "found.json", tmp_path / "found.json")
    assert f"0 of {len(rules)} rules differ" in table.stdout


def test_generated_page_of_rules(conformance):
    """The page that `make docs` writes has every rule."""
    page = (SIM / "docs/driver_rules.md").read_text()
    lines = sim("--races=off", "--", conformance, "list").stdout.splitlines()
    assert len(lines) >= 100 and all(f"| {re.split('[/:]', line)[1]} | {line.split(': ', 1)[1][:20]}" in page for line in lines)


def test_generated_page_of_entry_points():
    page = (SIM / "docs/entry_points.md").read_text()
    rows = [re.fullmatch(r"(\S+) \(\S+ since \S+\): (.*)", line).groups() for line in run(COMMAND, "entries").stdout.splitlines()]
    simulated = [symbol for symbol, state in rows if state == "simulated"]
    assert len(simulated) >= 300 and f"{len(simulated)} of {len(rows)} are simulated" in page
    marked = dict(re.findall(r"^\| (cu\w+) \| [\d.]+ \| (yes)? *\|$", page, re.M))
    assert {symbol for symbol, mark in marked.items() if mark} == set(simulated) and len(marked) == len({symbol for symbol, _ in rows})


def test_generated_manual_page():
    """It has every option of the help, and the kinds of lines that man knows."""
    usage, page = run(COMMAND, "--help").stdout, run(COMMAND, "manual").stdout
    options = set(re.findall(r"^ +(--[a-z-]+)[^ ]*  ", usage, re.M))
    assert len(options) > 15 and options <= set(re.findall(r"^\\fB(\S*?)[=\[\\]", page.replace(r"\-", "-"), re.M))
    assert page.count(".RS\n") == page.count(".RE\n") == 2 and page.startswith(".TH CUDA-SIM 1\n.SH NAME\ncuda\\-sim, cai\\-race")


@pytest.mark.parametrize(
    "words, first, last",
    [
        (["librid"], "found the command librid, expected one of run, ", "did you mean cuda-sim libdir?"),
        (["-version"], "found the command -version, ", "did you mean cuda-sim --version?"),
        (["bogus"], "found the command bogus, ", "cuda-sim --help describes all of them"),
        (["sh"], "found the command sh, ", "to run this program: cuda-sim run sh"),
        ([], "expected a command: run, ", "cuda-sim --help describes all of them"),
        (["run", "--shedule=lazy", "sh"], "unknown option --shedule: did you mean --schedule?", None),
        (["run", "--bogus", "sh"], "unknown option --bogus; see cuda-sim --help", None),
        (["--missing", "--report=x.xml", "sh"], "--missing writes no report, and has no --shadow", None),
    ],
)
def test_a_wrong_command(words, first, last):
    done = run(COMMAND, *words, check=False)
    said = [line.removeprefix("cuda-sim: ") for line in done.stderr.splitlines()]
    assert done.returncode == 2 and said[0].startswith(first) and said[1:] == ([last] if last else [])


def test_commands_are_in_the_help():
    """Those of a message about a wrong one."""
    usage = run(COMMAND, "--help").stdout
    (listed,) = re.findall("expected a command: (.*)", run(COMMAND, check=False).stderr)
    commands = set(re.findall(r"^    cuda-sim (\S+)", usage, re.M))
    assert commands == set(listed.split(", "))


def test_conformance_can_fail(conformance):
    """A driver that breaks a rule is found out."""
    done = sim("--races=off", "--fail=cuEventQuery=999", "--", conformance, "run", "events/never_recorded", check=False)
    assert done.returncode == 1 and "found 999, expected 0" in done.stdout


KERNELS = r"""
static void add_run(const cudasim_grid *grid, void **args) {
    float *to = *(float **)args[0];
    const float *from = *(const float **)args[1];
    const unsigned n = grid->grid[0] * grid->block[0];
    for (unsigned i = 0; i < n && i < *(unsigned *)args[2]; ++i) to[i] += from[i];
}
static size_t add_accesses(const cudasim_grid *grid, void **args, cudasim_access *out, size_t capacity) {
    const uint64_t bytes = *(unsigned *)args[2] * sizeof(float);
    (void)grid;
    if (capacity >= 2) {
        out[0] = (cudasim_access){.address = *(uint64_t *)args[0], .nbytes = bytes, .mode = CUDASIM_READ | CUDASIM_WRITE};
        out[1] = (cudasim_access){.address = *(uint64_t *)args[1], .nbytes = bytes, .mode = CUDASIM_READ};
    }
    return 2;
}
static void fail_run(const cudasim_grid *grid, void **args) { (void)grid; (void)args; cudasim_fail_kernel(700); }
static const size_t sizes[] = {8, 8, 4};
static const cudasim_kernel kernels[] = {{"add", add_run, add_accesses, 3, sizes}, {"fail", fail_run, NULL, 0, NULL}};

int main(void) {
    CUcontext context; CUmodule module; CUfunction add, fail, none; CUstream a; CUdeviceptr p, q;
    cudasim_register(kernels, 2);
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, "any image"));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&fail, module, "fail"));
    if (cuModuleGetFunction(&none, module, "none") != CUDA_ERROR_NOT_FOUND) return 4;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, 400)); OK(cuMemAlloc(&q, 400));
    float host[100];
    OK(cuMemsetD32Async(p, 0x3f800000, 100, a)); OK(cuMemsetD32Async(q, 0x40000000, 100, a));
    unsigned n = 100;
    void *args[] = {&p, &q, &n};
    OK(cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, a, args, NULL));
    struct { CUdeviceptr to, from; unsigned n; } packed = {p, q, 50};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, a, NULL, extra));
    n = 0; /* copied at the launch */
    memset(&packed, 0, sizeof packed);
    OK(cuMemcpyDtoHAsync(host, p, sizeof host, a));
    OK(cuStreamSynchronize(a));
    if (host[0] != 5 || host[99] != 3) { printf("%f %f\\n", host[0], host[99]); return 5; }
    if (cuLaunchKernel(add, 0, 1, 1, 32, 1, 1, 0, a, args, NULL) != CUDA_ERROR_INVALID_VALUE) return 6;
    if (cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, a, args, NULL) != CUDA_ERROR_INVALID_VALUE) return 7;
    char report[4096];
    if (cudasim_races() != 0) return 8;
    n = 100;
    OK(cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    OK(cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, a, args, NULL));
    if (cudasim_take_report(report, sizeof report) == 0 || strstr(report, "by add,") == NULL) return 9;
    /* A kernel that fails takes its context with it. */
    OK(cuCtxSynchronize());
    OK(cuLaunchKernel(fail, 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL));
    if (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS) return 10;
    if (cuMemFree(p) != CUDA_ERROR_ILLEGAL_ADDRESS) return 11;
    return 0;
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_kernels(driver, tmp_path, schedule):
    program = compile_text(driver, tmp_path / "kernels", KERNELS)
    done = sim(f"--schedule={schedule}", "--undeclared=warn", "--", program, check=False)
    assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"
    assert re.search(r"kernel none is not declared.*\n +main \S+kernels\.c:\d+\n", done.stderr), done.stderr
    # Before the program goes on without it, once for each process; how often it is looked for is counted.
    first, *others = done.stderr.splitlines()
    said = "cuda-sim: kernels are not executed: declare them with --kernels or cudasim_register, or use --shadow with a GPU"
    assert first == said and said not in others, done.stderr
    missing = run(COMMAND, "--missing", program, check=False)
    assert missing.returncode == 1 and "not declared: \n  none\n" in missing.stdout
    # By default it is no success.
    assert sim(f"--schedule={schedule}", "--", program, check=False).returncode == 67


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_example(driver, schedule):
    program = compile_once(driver, "declare", [SIM / "examples/declare.c"])
    assert sim(f"--schedule={schedule}", "--", program).stdout == "4 4, then 1 race\n"


DECLARED = r"""
static CUresult inside;
static size_t bad_accesses(const cudasim_grid *grid, void **args, cudasim_access *out, size_t capacity) {
    size_t free_bytes, total;
    (void)grid; (void)capacity;
    inside = cuMemGetInfo(&free_bytes, &total);
    cudasim_host_write(args, 1);
    cudasim_hb_before(args);
    cudasim_register(NULL, 0);
    out[0] = (cudasim_access){.address = *(uint64_t *)args[0], .nbytes = 4, .mode = CUDASIM_WRITE};
    return cudasim_races() == 0;
}
static const size_t sizes[] = {8};
static const cudasim_kernel kernels[] = {{"declared", NULL, bad_accesses, 1, sizes}, {NULL, NULL, bad_accesses, 1, sizes}};

/* Before anything of the program runs. */
__attribute__((constructor)) static void first(void) { cudasim_register(kernels, 2); }

int main(int argc, char **argv) {
    CUcontext context; CUmodule module; CUfunction declared; CUstream a; CUdeviceptr p; unsigned word = 1;
    (void)argv;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, "any image"));
    OK(cuModuleGetFunction(&declared, module, "declared"));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING)); OK(cuMemAlloc(&p, 4)); OK(cuMemsetD32(p, 5, 1)); OK(cuCtxSynchronize());
    void *args[] = {&p};
    OK(cuLaunchKernel(declared, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
    if (inside != CUDA_ERROR_NOT_PERMITTED) return 4;
    if (argc > 1) OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH(&word, p, 4));
    return argc == 1 || word == 0xffffffff ? 0 : 5;
}
"""


def test_kernels_that_declare_only(driver, tmp_path):
    """No function to run, which overwrites, calls where none is permitted, and a registration before the driver is loaded."""
    program = compile_text(driver, tmp_path / "declared", DECLARED)
    for ordered in ([], ["ordered"]):
        done = sim("--", program, *ordered, check=False)
        assert done.returncode == (0 if ordered else 66), done.stdout + done.stderr
        assert "cuMemGetInfo_v2 is refused in a function that declares the accesses of a kernel" in done.stderr
        assert "cudasim_host_write is refused in a function" in done.stderr
        assert "a kernel without a name is ignored" in done.stderr
        assert ("by declared," in done.stderr) == (not ordered)


EARLY = r"""
#include <cudasim.h>
#include <dlfcn.h>
static size_t none(const cudasim_grid *grid, void **args, cudasim_access *out, size_t capacity) {
    (void)grid; (void)args; (void)out; (void)capacity;
    return 0;
}
int main(void) {
    static const cudasim_kernel kernel = {"early", NULL, none, 0, NULL};
    void *context, *module, *function;
    cudasim_register(&kernel, 1);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) return 2;
#define CALL(name, types, ...) if (((int (*)types)dlsym(driver, #name))(__VA_ARGS__) != 0) return 3
    CALL(cuInit, (unsigned), 0);
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    CALL(cuCtxSetCurrent, (void *), context);
    CALL(cuModuleLoadData, (void **, const void *), &module, "any image");
    CALL(cuModuleGetFunction, (void **, void *, const char *), &function, module, "early");
    return 0;
}
"""


def test_registration_before_the_driver_is_loaded(tmp_path):
    (tmp_path / "early.c").write_text(EARLY)
    run("gcc", "-std=gnu11", "-I", SIM / "include", tmp_path / "early.c", "-ldl", "-o", tmp_path / "early")
    assert sim("--", tmp_path / "early", check=False).returncode == 0


RUNTIME = r"""
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#define OK(call) do { cudaError_t r = (call); if (r) { printf("%s = %s\\n", #call, cudaGetErrorName(r)); return 3; } } while (0)
int main(int argc, char **argv) {
    cudaStream_t a, b; cudaEvent_t e; char *p, *q, host[1000]; struct cudaDeviceProp prop; int n; (void)argv;
    OK(cudaGetDeviceCount(&n)); OK(cudaGetDeviceProperties(&prop, 0));
    if (n < 1 || prop.major != 9 || prop.totalGlobalMem != (size_t)8 << 30) return 4;
    OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)); OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaMalloc((void **)&p, sizeof host)); OK(cudaMallocAsync((void **)&q, sizeof host, a));
    OK(cudaMemsetAsync(p, 7, sizeof host, a)); OK(cudaMemcpyAsync(q, p, sizeof host, cudaMemcpyDeviceToDevice, a));
    OK(cudaEventRecord(e, a));
    if (argc == 1) OK(cudaStreamWaitEvent(b, e, 0));
    OK(cudaMemcpyAsync(host, q, sizeof host, cudaMemcpyDeviceToHost, b));
    if (argc == 1 && host[999] != 7) return 5;
    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, p + 5));
    if (attributes.type != cudaMemoryTypeDevice || attributes.device != 0) return 6;
    OK(cudaPointerGetAttributes(&attributes, host));
    if (attributes.type != cudaMemoryTypeUnregistered) return 7;
    cudaGraph_t graph; cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal)); OK(cudaMemsetAsync(p, 8, sizeof host, a));
    OK(cudaStreamEndCapture(a, &graph)); OK(cudaGraphInstantiate(&exec, graph, 0)); OK(cudaGraphLaunch(exec, a));
    OK(cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDeviceToHost, a)); OK(cudaStreamSynchronize(a));
    if (host[0] != 8) return 8;
    if (cudaMalloc((void **)&p, (size_t)1 << 60) != cudaErrorMemoryAllocation) return 9;
    if (cudaGetLastError() != cudaErrorMemoryAllocation || cudaGetLastError() != cudaSuccess) return 10;
    OK(cudaStreamSynchronize(b)); OK(cudaFreeAsync(q, a)); OK(cudaDeviceSynchronize());
    return 0;
}
"""


@pytest.mark.parametrize("major", ["12", "13"])
def test_runtime_library(tmp_path, major):
    """A program written for the runtime library, with NVIDIA's header, linked with the replacement library."""
    (tmp_path / "runtime.c").write_text(RUNTIME)
    run(
        "gcc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-isystem", HEADERS[major], "-isystem", HEADERS["13"],
        tmp_path / "runtime.c", "-o", tmp_path / "runtime", BUILT / f"libcudart.so.{major}",
    )  # fmt: skip
    for schedule in SCHEDULES:
        done = sim("--runtime", f"--schedule={schedule}", "--", tmp_path / "runtime", check=False)
        assert done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}"
        assert sim("--runtime", f"--schedule={schedule}", "--", tmp_path / "runtime", "race", check=False).returncode == 66


def test_registered_memory_with_another_address(conformance):
    done = sim("--races=off", "--register=shifted", "--", conformance, "run", "attributes/registered")
    assert "observed the same address 0" in done.stdout


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("races", ["off", "error"])
def test_stress(driver, tmp_path, schedule, races):
    """8 host threads, 16 streams each, a million operations: nothing lost, no deadlock, memory bounded. Where streams have
    threads of their own, each operation takes longer: a fifth of them."""
    program = compile_program(driver, tmp_path / "stress", [SIM / "tests/stress.c"])
    operations = 200_000 if schedule == "threads" else 1_000_000
    done = sim(f"--races={races}", f"--schedule={schedule}", "--", program, "8", "16", operations, timeout=300)
    assert f"{operations} operations" in done.stdout


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("races", ["off", "error"])
def test_random_programs(driver, tmp_path, schedule, races):
    """Streams of all kinds, events, values, callbacks, graphs, on up to 3 threads and 2 devices: nothing hangs, nothing is
    lost, nothing is called a race. CUDASIM_TEST_PROGRAMS makes it more of them, from a seed that depends on the time."""
    program = compile_program(driver, tmp_path / "random", [SIM / "tests/random.c"])
    more = os.environ.get("CUDASIM_TEST_PROGRAMS")
    seed, count = (int(time.time()), int(more)) if more else (0, 200)
    done = sim(f"--races={races}", f"--schedule={schedule}", "--devices=2", "--", program, seed, count, timeout=120 + count)
    assert f"{count} programs" in done.stdout


def test_devices_that_are_no_peers(programs):
    for row in ["not_a_peer", "peer_for_a_while"]:
        sim("--devices=2", "--races=off", "--", programs, "run", f"devices/{row}")
    sim("--devices=2", "--peers=none", "--", programs, "row", "x correct: second=prim:1; fails 217 peers second")


@pytest.mark.parametrize("schedule", ["lazy", "random:1"])
def test_what_is_gone_costs_nothing(driver, tmp_path, schedule):
    """Ten times as many streams, events, captures and threads that ended need no more memory; those that stay, 3 kB each."""
    program = compile_program(driver, tmp_path / "gone", [SIM / "bench/gone.c"])
    done = sim(f"--schedule={schedule}", "--", program, timeout=300)
    grown = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    live = int(grown.pop("live streams"))
    assert len(grown) == 5 and all(int(kilobytes) < 4096 for kilobytes in grown.values()), grown
    assert live < 9000 * 3, live


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_kernel_ends_a_loop_of_a_graph(driver, tmp_path, schedule):
    """Each launch assigns the default value; the accesses of the body are the node's."""
    program = compile_program(driver, tmp_path / "loops", [SIM / "tests/loops.c"])
    for arguments, status in ([], 0), (["beside"], 66):
        done = sim("--races=error", f"--schedule={schedule}", "--", program, *arguments, check=False)
        assert (done.returncode, done.stdout.split()) == (status, ["3", "3"]), done.stderr


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_library_waits_while_it_is_loaded(driver, tmp_path, schedule):
    """Its constructor has the dynamic linker's lock: what it waits for must not need that."""
    source = SIM / "tests/constructor.c"
    program = compile_program(driver, tmp_path / "program", [source], flags=["-DPROGRAM"])
    libraries = [compile_program(driver, tmp_path / f"{name}.so", [source], flags=["-shared", "-fPIC"]) for name in "abcd"]
    # A deadlock needs a thread that starts at the wrong moment.
    for _ in range(4):
        done = sim(f"--schedule={schedule}", "--", program, *libraries, timeout=60)
        assert done.stdout == "loaded\n", done.stderr


# --- the command --------------------------------------------------------------------------------------------

RACE = r"""
int main(int argc, char **argv) {
    CUcontext context; CUstream a, b; CUdeviceptr p; char host[100];
    (void)argv;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING)); OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, 100));
    OK(cuMemsetD8Async(p, 5, 100, a));
    if (argc > 1) OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoHAsync(host, p, 100, b));
    printf("%d\n", host[99]);
    return 7;
}
"""


@pytest.fixture(scope="session")
def race(driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    return compile_text(driver, folder / "race", RACE)


def test_exit_codes_and_report(race, tmp_path):
    done = sim("--", race, check=False)
    assert done.returncode == 66
    assert "cuMemsetD8Async" in done.stderr and len(re.findall(r"main \S+race\.c:\d+", done.stderr)) == 2
    assert "missing: cuEventRecord" in done.stderr and "1 race found" in done.stderr
    assert done.stdout == "0\n", "nothing waited, so nothing ran"
    assert sim("--races=warn", "--", race, check=False).returncode == 7
    quiet = sim("--races=off", "--", race, check=False)
    assert quiet.returncode == 7 and quiet.stderr == ""
    ordered = sim("--", race, "wait", check=False)
    assert ordered.returncode == 7 and ordered.stdout == "5\n" and ordered.stderr == ""
    report = tmp_path / "report.json"
    sim(f"--report={report}", "--", race, check=False)
    found = json.loads(report.read_text())
    assert found["count"] == 1 and found["races"][0]["first"]["mode"] == "write"
    assert found["races"][0]["second"]["label"] == "cuMemcpyDtoHAsync"
    assert any("race.c" in line for line in found["races"][0]["second"]["stack"])


ATOMIC = """
#include <sched.h>
static CUcontext context;
static CUdeviceptr buffer;
static atomic_int done;
static void *fill(void *second) {
    CUstream stream;
    while (second != NULL && atomic_load(&done) == 0) sched_yield();
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8Async(buffer, 1, 64, stream));
    OK(cuStreamSynchronize(stream));
    atomic_store(&done, 1);
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&buffer, 64));
    OK(pthread_create(&threads[0], NULL, fill, NULL));
    OK(pthread_create(&threads[1], NULL, fill, &buffer));
    OK(pthread_join(threads[0], NULL) + pthread_join(threads[1], NULL));
    return 0;
}
"""


def test_a_report_names_what_it_cannot_see(driver, race, tmp_path):
    program = compile_text(driver, tmp_path / "atomic", ATOMIC)
    report = tmp_path / "report.json"
    done = sim(f"--report={report}", "--", program, check=False)
    assert done.returncode == 66 and "by atomics" in done.stderr and "--host-threads=ordered" in done.stderr
    assert "by atomics" in json.loads(report.read_text())["races"][0]["note"]
    # The option that it names, and a race on one thread.
    assert sim("--host-threads=ordered", "--", program).returncode == 0
    assert "by atomics" not in sim("--", race, check=False).stderr


def test_report_of_several_processes(race, tmp_path):
    report = tmp_path / "report.json"
    report.write_text("of an earlier run\n")
    done = sim(f"--report={report}", "--", "sh", "-c", '"$1" & "$1" wait; "$1"; wait', "sh", race, check=False)
    assert done.returncode == 66
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted(line["count"] for line in lines) == [0, 1, 1] and len({line["process"] for line in lines}) == 3


def test_stderr_may_be_closed(race):
    done = sim("--", "sh", "-c", '"$1" 2>&-', "sh", race, check=False)
    assert done.returncode == 66


def test_random_schedules_repeat(race):
    def seen():
        return [sim("--races=off", f"--schedule=random:{seed}", "--", race, check=False).stdout for seed in range(30)]

    first = seen()
    assert first == seen()
    assert set(first) == {"0\n", "5\n"}, "some seed shows the damage, some hides it"


@pytest.mark.parametrize(
    "option, output",
    [
        ("--fail=cuMemAlloc=2", "cuMemAlloc(&p, 100) = 2"),
        ("--fail=cuMemAlloc=OUT_OF_MEMORY", "cuMemAlloc(&p, 100) = 2"),
        ("--fail=cuStreamCreate:2=CUDA_ERROR_UNKNOWN", "cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) = 999"),
        ("--fail=cuMemsetD8Async=lost", "cuMemsetD8Async(p, 5, 100, a) = 719"),
        ("--fail=*:3=700", "cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) = 700"),
        ("--memory=50", "cuMemAlloc(&p, 100) = 2"),
        ("--devices=0", "cuInit(0) = 100"),
        ("--stub", "cuInit(0) = 34"),
    ],
)
def test_faults(race, option, output):
    done = sim("--races=off", option, "--", race, check=False)
    assert done.returncode == 2 and output in done.stderr, done.stdout + done.stderr


def test_a_lost_device_stays_lost(driver, tmp_path):
    text = RACE.replace("OK(cuMemsetD8Async(p, 5, 100, a));", "cuMemsetD8Async(p, 5, 100, a);")
    program = compile_text(driver, tmp_path / "lost", text)
    done = sim("--fail=cuMemsetD8Async=lost", "--", program, "wait", check=False)
    assert "cuStreamSynchronize(a) = 719" in done.stderr


def test_missing_functions(race):
    done = sim("--without=cuMemsetD8Async", "--", race, check=False, env={"LD_BIND_NOW": "1"})
    assert done.returncode != 7 and "cuMemsetD8Async" in done.stderr
    done = sim("--driver-version=3010", "--", race, check=False, env={"LD_BIND_NOW": "1"})
    assert done.returncode != 7 and "undefined symbol" in done.stderr


def test_guarded_memory(race, driver, tmp_path):
    touch = RACE.replace('printf("%d\\n", host[99]);', 'printf("%d\\n", *(volatile char *)p);')
    program = compile_text(driver, tmp_path / "touch", touch)
    for schedule in SCHEDULES:
        done = sim("--guard", f"--schedule={schedule}", "--", program, "wait", check=False)
        assert done.returncode == 128 + signal.SIGSEGV
    assert sim("--", program, "wait", check=False).returncode == 7
    assert sim("--guard", "--", race, "wait", check=False).returncode == 7


def test_missing_is_listed(driver, tmp_path):
    text = RACE.replace("return 7;", "CUarray array; CUDA_ARRAY_DESCRIPTOR d = {0}; return cuArrayCreate(&array, &d);")
    program = compile_text(driver, tmp_path / "array", text)
    done = run(COMMAND, "--missing", program, check=False)
    assert done.returncode == 1 and "cuArrayCreate_v2" in done.stdout and "race" not in done.stderr
    done = run(COMMAND, "--missing", "--races=warn", "--schedule=lazy", "--", program, check=False)
    assert done.returncode == 1 and "race on " in done.stderr
    done = run(COMMAND, "--missing", "--without=cuMemAlloc_v2", "--", program, check=False)
    assert "the program ended with exit status: 127" in done.stdout
    assert sim("--races=off", "--", program, check=False).returncode == 801 % 256


def test_private_tables_are_listed(driver, tmp_path):
    """A program that asks for a private table of the driver fails in ways that do not name the reason."""
    text = RACE.replace("return 7;", "const void *table; CUuuid id = {{0}}; return cuGetExportTable(&table, &id);")
    program = compile_text(driver, tmp_path / "table", text)
    done = run(COMMAND, "--missing", program, check=False)
    assert done.returncode == 1 and done.stdout.count("  cuGetExportTable\n") == 2
    done = sim("--races=off", "--", program, check=False)
    assert done.returncode == 500 % 256 and "cuGetExportTable is not simulated and was called 1 time;" in done.stderr
    assert "CUDA_ERROR_NOT_FOUND" in done.stderr


def test_found_by_library_path_alone(race, driver):
    done = run(race, "wait", check=False, env={"LD_LIBRARY_PATH": driver})
    assert done.returncode == 7 and done.stdout == "5\n"


NULLS = r"""
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
assert cu.cuInit(0) == 0
context = ctypes.c_void_p()
assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
buffer = ctypes.create_string_buffer(4096)
storage = ctypes.addressof(buffer)
# What is called as a function must be one.
calls = ("HostFunc", "HostNode", "Callback", "cuUserObjectCreate", "cuInit")
for name in sys.argv[1].split(","):
    if not any(part in name for part in calls):
        for arguments in ([0] * 11, [storage] + [0] * 10, [0, storage] + [0] * 9, [storage] * 2 + [0] * 9, [storage] * 3 + [0] * 8):
            cu.cuCtxSetCurrent(context)
            ctypes.memset(storage, 0, len(buffer))
            answer = getattr(cu, name)(*map(ctypes.c_uint64, arguments))
            assert 0 <= answer < 999, (name, answer)
"""


@pytest.mark.parametrize("schedule", ["lazy", "random:1"])
def test_null_arguments(schedule):
    """No function crashes or panics on NULL, whatever else it is given."""
    names = ",".join(sorted({line.split()[0] for line in run(COMMAND, "entries").stdout.splitlines()}))
    sim("--races=warn", f"--schedule={schedule}", "--", sys.executable, "-c", NULLS, names)


def test_installed(race, tmp_path):
    """Installed elsewhere, moved, and read-only."""
    run("make", "install", "PREFIX=/opt/sim", f"DESTDIR={tmp_path}/stage", timeout=300)
    shutil.move(tmp_path / "stage/opt/sim", tmp_path / "moved")
    command = tmp_path / "moved/bin/cuda-sim"
    for folder in ("bin", "lib/cuda-sim", "lib/cuda-sim/driver", "lib/cuda-sim/shadow"):
        (tmp_path / "moved" / folder).chmod(0o555)
    assert run(command, "run", "--", race, check=False).returncode == 66
    assert run(command, "run", "--without=cuMemAllocAsync", "--", race, "wait", check=False).returncode == 7
    # Beside the driver that is installed with it.
    beside = ["--shadow=" + str(tmp_path / "moved/lib/cuda-sim/driver"), "--", race]
    assert run(command, "run", *beside, env={"CUDASIM_RACES": "off"}, check=False).returncode == 66
    folder = pathlib.Path(run(command, "libdir").stdout.strip()).resolve()
    assert folder == (tmp_path / "moved/lib/cuda-sim/driver").resolve()
    assert (tmp_path / "moved/include/cudasim.h").exists() and (tmp_path / "moved/share/man/man1/cai-race.1").exists()
    loaded = run(command, "run", "--runtime", "--", "sh", "-c", "echo $LD_LIBRARY_PATH").stdout
    assert "lib/cuda-sim/runtime" in loaded


def test_wrong_options():
    for option in (
        *("--races=maybe", "--schedule=soon", "--devices=many", "--devices=17", "--fail=cuInit", "--fail=cuNope:1=2"),
        *("--rules=off", "--driver-version=13", "--driver-version=99000", "--without=cuNope", "--without=cuInit,,x", "--nonsense"),
        *("--schedule=random:", "--schedule=random:x", "--schedule=threads:3", "--races=warn:x", "--runtime=12:x"),
        *("--guard=off", "--stub=0", "--explain=1", "--report=", "--fail=cuInit:1"),
    ):
        done = sim(option, "--", "true", check=False)
        assert done.returncode == 2 and re.search(r"expected|unknown|no function", done.stderr), option


def test_exported_names():
    """Nothing but the driver's functions and the one that cudasim.h looks for."""
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", BUILT / "libcuda.so").stdout.splitlines()}
    entries = {line.split()[0] for line in run(COMMAND, "entries").stdout.splitlines()}
    assert entries <= names
    # All that NVIDIA's headers declare.
    for folder in HEADERS.values():
        headers = "".join((pathlib.Path(folder) / name).read_text() for name in ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"))
        declared = set(re.findall(r"CUDAAPI\s+(cu\w+)\(", headers)) - {"cuWGLGetDevice"}
        pointers = re.findall(r"PFN_(cuProfiler\w+?)_v\d+\)", (pathlib.Path(folder) / "cudaProfilerTypedefs.h").read_text())
        assert len(declared) > 400 and len(pointers) >= 2
        assert set(declared) | set(pointers) <= names
    assert {name for name in names if not name.startswith("cu")} == set()
    assert "SONAME" in run("readelf", "-d", BUILT / "libcuda.so").stdout


def test_header_compiles_everywhere(tmp_path):
    (tmp_path / "h.c").write_text("#include <cudasim.h>\nint main(void) { return cudasim_present(); }\n")
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-I", SIM / "include"]
    for compiler, standard in [("gcc", "c99"), ("gcc", "c11"), ("gcc", "c17")]:
        run(compiler, f"-std={standard}", *strict, tmp_path / "h.c", "-ldl", "-o", tmp_path / "h")
    for standard in ["c++11", "c++17", "c++20"]:
        run("g++", f"-std={standard}", *strict, "-x", "c++", tmp_path / "h.c", "-ldl", "-o", tmp_path / "h")
    run(tmp_path / "h")


def test_a_library_that_starts_threads_while_it_is_loaded(driver, tmp_path):
    """The loader's lock and the simulator's are taken in one order: OpenBLAS starts its threads like this."""
    (tmp_path / "plugin.c").write_text(r"""
        #include <pthread.h>
        #include <stdlib.h>
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static void *work(void *ignored) {
            for (int i = 0; i < 50; i++) {
                pthread_mutex_lock(&mutex);
                pthread_mutex_unlock(&mutex);
            }
            return ignored;
        }
        __attribute__((constructor)) static void start(void) {
            pthread_t threads[8];
            for (int i = 0; i < 8; i++) {
                if (pthread_create(&threads[i], NULL, work, NULL) != 0) abort();
            }
            work(NULL);
            for (int i = 0; i < 8; i++) pthread_detach(threads[i]);
        }
    """)  # fmt: skip
    program = compile_text(driver, tmp_path / "program", r"""
        int main(int count, char **names) {
            if (cuInit(0) != CUDA_SUCCESS) return 2;
            for (int i = 1; i < count; i++) {
                if (dlopen(names[i], RTLD_NOW) == NULL) return fprintf(stderr, "%s\n", dlerror()), 3;
            }
            usleep(20000);
            return 0;
        }
    """)  # fmt: skip
    plugins = [tmp_path / f"plugin{number}.so" for number in range(8)]
    for plugin in plugins:
        run("gcc", "-shared", "-fPIC", "-O1", tmp_path / "plugin.c", "-o", plugin, "-lpthread")
    for schedule in SCHEDULES * 5:
        sim(f"--schedule={schedule}", "--", program, *plugins, timeout=30)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuda-sim-$$", ["run", "--without=cuMemAllocAsync", "--", "true"]),
        ("cuda-sim-missing-$$", ["--missing", "--", "true"]),
        ("cuda-sim-report-$$", ["run", "--report=report.json", "--", "true"]),
    ],
)
def test_links_of_others_are_not_followed(tmp_path, name, arguments):
    """A link that someone prepared in the folder for temporary files leads nowhere."""
    for folder in ("shared", "victim"):
        (tmp_path / folder).mkdir()
    prepare = f'ln -s "$PWD/victim" "$TMPDIR/{name}"; exec "$@"'
    done = run("sh", "-c", prepare, "sh", COMMAND, *arguments, cwd=tmp_path, env={"TMPDIR": str(tmp_path / "shared")})
    assert done.returncode == 0
    assert list((tmp_path / "victim").iterdir()) == []
    assert (tmp_path / "victim").is_dir() and len(list((tmp_path / "shared").iterdir())) == 1


ENDS = r"""
#include <signal.h>
#include <sys/wait.h>

static void race(void) {
    CUcontext context; CUstream a, b; CUdeviceptr p;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING)); OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, 100));
    OK(cuMemsetD8Async(p, 1, 100, a)); OK(cuMemsetD8Async(p, 2, 100, b));
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "worker") == 0 || strcmp(how, "ignored") == 0) {
        const pid_t child = fork();
        if (child == 0) {
            if (strcmp(how, "ignored") == 0) execl(argv[0], argv[0], NULL);
            race();
            _exit(0);
        }
        waitpid(child, NULL, 0);
        return 0;
    }
    race();
    if (strcmp(how, "_exit") == 0) _exit(0);
    if (strcmp(how, "quick_exit") == 0) quick_exit(0);
    if (strcmp(how, "exec") == 0) execl("/bin/true", "true", NULL);
    if (strcmp(how, "status") == 0) _exit(5);
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "abort") == 0) abort();
    return 0;
}
"""


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_findings_outlive_their_process(driver, tmp_path, schedule):
    program = compile_text(driver, tmp_path / "ends", ENDS)
    ends = {"": 66, "_exit": 66, "quick_exit": 66, "exec": 66, "worker": 66, "ignored": 66, "status": 5, "kill": 137, "abort": 134}
    for how, status in ends.items():
        report = tmp_path / f"{how}.json"
        for option in ("--print=now", "--print=exit"):
            done = sim(f"--schedule={schedule}", option, f"--report={report}", "--", program, *([how] if how else []), check=False)
            assert done.returncode == status, (how, done.stderr)
            found = [json.loads(line) for line in report.read_text().splitlines()]
            assert [line["count"] for line in found] == [1], how
            assert found[0].get("ended_early", False) == (how not in ("", "ignored")), how
        warned = sim("--races=warn", "--", program, *([how] if how else []), check=False)
        assert warned.returncode == (0 if status == 66 else status), how


def test_python_workers(driver, tmp_path):
    """Workers end by os._exit, and their parent sees no status."""
    library = compile_text(driver, tmp_path / "ends.so", ENDS.replace("static void race", "void race"), flags=("-shared", "-fPIC"))
    (tmp_path / "pool.py").write_text(
        "import ctypes, multiprocessing, sys\n"
        f"def work(_): ctypes.CDLL({str(library)!r}).race()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool: pool.map(work, [1])\n"
    )
    for method in ("fork", "spawn"):
        assert sim("--", sys.executable, tmp_path / "pool.py", method, check=False).returncode == 66, method
