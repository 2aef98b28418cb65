/*
 * Work that the simulator runs in place of kernels, and order and memory that the checker cannot
 * observe, declared with the functions of cudasim.h. It ends with a race that it expects, and
 * prints "4 4, then 1 race":
 *
 *     gcc -g declare.c $HEADERS -L"$(cuda-sim libdir)" -lcuda -lpthread -o declare
 *     cuda-sim run --print=exit ./declare
 *
 * HEADERS: -I"$CUDA_HOME/include", as in docs/using.md, and -I with the folder of cudasim.h.
 */
#include <cuda.h>
#include <cudasim.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 256, BYTES = N * sizeof(float) };

static const char *failed;
#define OK(call) \
    if ((call) != 0 && failed == NULL) failed = #call

/* In place of a kernel that doubles floats: runs later, on a thread of the simulator. */
struct twice {
    CUdeviceptr floats;
};

static void twice(void *data) {
    const struct twice *arguments = (const struct twice *)data;
    float *floats = (float *)cudasim_host_address((const void *)arguments->floats);
    for (int i = 0; i < N; ++i)
        floats[i] *= 2;
}

/* In place of a kernel that ends the loop of a conditional node. */
static void leave(void *data) { cudasim_set_condition(*(CUgraphConditionalHandle *)data, 0); }

/* In place of a kernel that accesses memory that it may not. */
static void crash(void *data) {
    (void)data;
    cudasim_fail_kernel(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static cudasim_access bytes(CUdeviceptr address, uint32_t mode) {
    const cudasim_access access = {.address = address, .nbytes = BYTES, .mode = mode};
    return access;
}

/* The same as a kernel of a module, with the bytes that a launch accesses. */
static void twice_run(const cudasim_grid *grid, void **args) {
    (void)grid;
    twice(args[0]);
}

static size_t twice_accesses(const cudasim_grid *grid, void **args, cudasim_access *out,
                             size_t capacity) {
    (void)grid;
    if (capacity >= 1) out[0] = bytes(*(CUdeviceptr *)args[0], CUDASIM_READ | CUDASIM_WRITE);
    return 1;
}

static void launch_registered(CUdeviceptr floats, CUstream stream) {
    static const size_t sizes[] = {sizeof(CUdeviceptr)};
    static const cudasim_kernel kernel = {"twice", twice_run, twice_accesses, 1, sizes};
    CUmodule module;
    CUfunction function;
    void *args[] = {&floats};
    cudasim_register(&kernel, 1);
    OK(cuModuleLoadData(&module, "the image of your kernels")); /* not read here */
    OK(cuModuleGetFunction(&function, module, "twice"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

/* A host function that a stream calls: it reads what the launch declares. */
static void look(void *floats) { (void)floats; }

/* A thread that waits for an atomic flag, which the checker does not observe. */
static int flag;
static float *shared;

static void *reader(void *result) {
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE))
        ;
    cudasim_hb_after(&flag);
    cudasim_host_read(shared, BYTES);
    *(float *)result = shared[N - 1];
    return NULL;
}

static void run_a_loop(CUcontext context, CUstream stream, CUstream capture) {
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphConditionalHandle handle;
    CUgraphExec exec;
    CUgraphNode loop;
    CUgraph graph, body;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    node.conditional.handle = handle;
    node.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    node.conditional.size = 1;
    node.conditional.ctx = context;
    OK(cuGraphAddNode(&loop, graph, NULL, NULL, 0, &node));
    body = node.conditional.phGraph_out[0];
    OK(cuStreamBeginCaptureToGraph(capture, body, NULL, NULL, 0,
                                   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cudasim_launch(capture, "leave", leave, &handle, sizeof handle, NULL, 0));
    OK(cuStreamEndCapture(capture, &body));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

/* As a library that exchanges an array without libcai: R3 names its consumer in a report. */
static void notify(uint32_t kind, CUdeviceptr floats, CUstream producer, CUstream consumer) {
    const cudasim_cai_note note = {.struct_size = sizeof note,
                                   .kind = kind,
                                   .bytes = bytes(floats, CUDASIM_READ),
                                   .stream = (uint64_t)(uintptr_t)producer,
                                   .consumer = (uint64_t)(uintptr_t)consumer};
    cudasim_cai(&note);
}

int main(void) {
    char report[4096];
    CUdeviceptr pool, floats, number, mapped;
    CUstream stream, other;
    CUcontext context;
    pthread_t thread;
    float *pinned, result = 0;
    volatile uint32_t *counter;
    cudasim_access access;
    size_t races;

    OK(cuInit(0));
    if (!cudasim_present()) return puts("run me with cuda-sim run"), 1;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    cudasim_name_stream(stream, "producer");
    cudasim_name_stream(other, "consumer");

    /* An allocator that divides one allocation. */
    OK(cuMemAlloc(&pool, 4 * BYTES));
    floats = pool + BYTES;
    cudasim_suballoc((const void *)floats, BYTES, stream);

    /* Memory that host and device use: the host's accesses are declared. */
    OK(cuMemAllocHost((void **)&pinned, BYTES));
    OK(cuMemHostGetDevicePointer(&mapped, pinned, 0));
    cudasim_host_write(pinned, BYTES);
    for (int i = 0; i < N; ++i)
        pinned[i] = 1;
    OK(cuMemcpyHtoDAsync(floats, pinned, BYTES, stream));

    /* A kernel, then a host function whose accesses are declared beside it. */
    access = bytes(floats, CUDASIM_READ | CUDASIM_WRITE);
    cudasim_label("the first layer");
    const struct twice arguments = {floats};
    OK(cudasim_launch(stream, "twice", twice, &arguments, sizeof arguments, &access, 1));
    cudasim_label(NULL);
    launch_registered(floats, stream);
    access = bytes(floats, CUDASIM_READ);
    OK(cuLaunchHostFunc(stream, look, NULL));
    cudasim_accesses(stream, "look", &access, 1);
    OK(cuMemcpyDtoHAsync(pinned, floats, BYTES, stream));

    /* The host polls a number that the stream writes. */
    OK(cuMemAllocHost((void **)&counter, sizeof *counter));
    *counter = 0;
    OK(cuMemHostGetDevicePointer(&number, (void *)counter, 0));
    OK(cuStreamWriteValue32(stream, number, 1, 0));
    while (*counter < 1)
        cudasim_step(1); /* with --schedule=lazy, nothing else runs the work */
    cudasim_host_waited((const void *)counter, sizeof *counter, 1, 0);

    /* Another thread reads after an atomic store. */
    shared = pinned;
    OK(pthread_create(&thread, NULL, reader, &result));
    cudasim_hb_before(&flag);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    OK(pthread_join(thread, NULL));
    printf("%g %g, ", pinned[0], result);

    run_a_loop(context, stream, other);
    OK(cudasim_synchronize(1000));
    if (failed == NULL && cudasim_races() != 0) failed = "no race so far";

    /* A consumer on another stream does not wait. The race is expected, so it is not printed at
     * exit. */
    notify(CUDASIM_CAI_EXPORT, floats, stream, NULL);
    OK(cuMemsetD32Async(floats, 0, N, stream));
    OK(cuMemcpyDtoDAsync(pool, floats, BYTES, other));
    OK(cudasim_synchronize(1000));
    if (failed == NULL && cudasim_take_json(report, 0) == 0) failed = "a race";
    races = cudasim_take_report(report, sizeof report);
    printf("then %zu race%s\n", races, races == 1 ? "" : "s");
    if (failed == NULL && strstr(report, "consumer") == NULL) failed = "the name of a stream";

    cudasim_subfree((const void *)floats, BYTES, stream);
    OK(cudasim_launch(stream, "crash", crash, NULL, 0, NULL, 0));
    if (failed == NULL && cuStreamSynchronize(stream) != CUDA_ERROR_ILLEGAL_ADDRESS)
        failed = "an illegal address";
    if (failed != NULL) printf("failed: %s\n", failed);
    return failed != NULL || cudasim_find()->version < CUDASIM_VERSION;
}
