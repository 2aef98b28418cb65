// Runs on driver.c, with or without the checker: result codes and arguments are the driver's.
// `program WHAT` with one of the names at the end; 0 where all is as it should be.
#include <cuda.h>
#include <cudasim.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(expected, value)                                                        \
    do {                                                                               \
        const long long found = (long long)(value);                                    \
        if (found != (long long)(expected)) {                                          \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #value, found, \
                   (long long)(expected));                                             \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

enum { SIZE = 4096 };

struct three {
    uint64_t words[3];
};

static int pass_through(CUcontext context) {
    int (*many)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                uint64_t, struct three);
    int (*bias)(void *, float, double);
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    *(void **)&many = dlsym(driver, "cuTexRefSetAddress2D_v3");
    *(void **)&bias = dlsym(driver, "cuTexRefSetMipmapLevelBias");
    EXPECT(285 + 10 * 15, many(1, 2, 3, 4, 5, 6, 7, 8, 9, (struct three){{4, 5, 6}}));
    EXPECT(6, bias(NULL, 1.5f, 3.0));

    CUstream stream;
    CUdeviceptr at;
    unsigned long long id;
    EXPECT(1, cuInit(7));
    EXPECT(0, cuStreamCreate(&stream, 1));
    EXPECT(1, cuStreamCreate(&stream, 8));
    EXPECT(600, cuStreamQuery(NULL));
    EXPECT(719, cuStreamSynchronize(NULL));
    EXPECT(0, cuStreamQuery(stream));
    EXPECT(0, cuStreamGetId(stream, &id));
    EXPECT((uintptr_t)stream, id);
    EXPECT(0, cuMemAlloc(&at, SIZE));
    EXPECT(717, cuMemFree(1));
    EXPECT(0, cuMemsetD8Async(at, 9, SIZE, stream));
    EXPECT(9, *(unsigned char *)(uintptr_t)(at + SIZE - 1));
    EXPECT(400, cuMemsetD8Async(at, 9, SIZE, NULL));
    EXPECT(28, cuLaunchKernel(NULL, 1, 2, 3, 4, 5, 6, 7, stream, NULL, NULL));
    EXPECT(0, cuStreamSynchronize(stream));
    EXPECT(0, cuMemFree(at));
    EXPECT(709, cuStreamDestroy(stream));
    EXPECT(0, cuStreamDestroy(stream));
    EXPECT(0, (uintptr_t)context == 0);
    return 0;
}

static int missing(CUcontext context) {
    // The driver lacks it: the replacement function returns CUDA_ERROR_NOT_FOUND.
    int number = 0;
    (void)context;
    EXPECT(500, cuDriverGetVersion(&number));
    EXPECT(0, number);
    return 0;
}

// A kernel whose accesses only the program declares.
static int launch(CUstream stream, const char *label, CUdeviceptr at, unsigned mode) {
    const cudasim_access access = {.address = at, .nbytes = SIZE, .mode = mode};
    EXPECT(0, cuLaunchKernel((CUfunction)&launch, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    cudasim_accesses(stream, label, &access, 1);
    return 0;
}

static int kernels(int ordered) {
    CUstream a, b;
    CUdeviceptr at;
    EXPECT(0, cuStreamCreate(&a, 1));
    EXPECT(0, cuStreamCreate(&b, 1));
    EXPECT(0, cuMemAlloc(&at, SIZE));
    cudasim_name_stream(a, "producer");
    EXPECT(0, launch(a, "writer", at, CUDASIM_WRITE));
    if (ordered) EXPECT(0, cuStreamSynchronize(a));
    EXPECT(0, launch(b, "reader", at, CUDASIM_READ));
    EXPECT(0, cuStreamSynchronize(a));
    EXPECT(0, cuStreamSynchronize(b));
    EXPECT(0, cuMemFree(at));
    return 0;
}

static int racy_kernels(CUcontext context) { return (void)context, kernels(0); }
static int ordered_kernels(CUcontext context) { return (void)context, kernels(1); }

static void nothing(void *data) { (void)data; }

// There are no functions of the host on a real device.
static int real(CUcontext context) {
    (void)context;
    EXPECT(0, cudasim_present());
    EXPECT(801, cudasim_launch(NULL, "none", nothing, NULL, 0, NULL, 0));
    EXPECT(0, cudasim_step(1));
    EXPECT((uintptr_t)&nothing, (uintptr_t)cudasim_host_address((const void *)(uintptr_t)&nothing));
    return 0;
}

// A graph that was changed may touch anything: it is not judged.
static int graph(int changed) {
    CUstream a, b;
    CUdeviceptr at;
    CUgraph graph;
    CUgraphExec exec;
    EXPECT(0, cuStreamCreate(&a, 1));
    EXPECT(0, cuStreamCreate(&b, 1));
    EXPECT(0, cuMemAlloc(&at, SIZE));
    EXPECT(0, cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(0, cuMemsetD8Async(at, 1, SIZE, a));
    EXPECT(0, cuStreamEndCapture(a, &graph));
    EXPECT(0, cuMemsetD8Async(at, 1, SIZE, b));
    EXPECT(0, cuGraphInstantiate(&exec, graph, 0));
    if (changed) {
        const CUDA_MEMSET_NODE_PARAMS params = {0};
        EXPECT(1, cuGraphExecMemsetNodeSetParams(exec, NULL, NULL, NULL));
        EXPECT(0, cuGraphExecMemsetNodeSetParams(exec, NULL, &params, NULL));
    }
    EXPECT(0, cuGraphLaunch(exec, a));
    EXPECT(0, cuStreamSynchronize(a));
    EXPECT(0, cuStreamSynchronize(b));
    EXPECT(0, cuMemFree(at));
    return 0;
}

static int racy_graph(CUcontext context) { return (void)context, graph(0); }
static int changed_graph(CUcontext context) { return (void)context, graph(1); }

void (*meanwhile)(void);
static CUstream shared;
static CUdeviceptr written;

static void *write_more(void *none) {
    cuMemsetD8Async(written, 2, SIZE, shared);
    return none;
}

static void write_on_another_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, write_more, NULL);
    pthread_join(thread, NULL);
}

// A wait does not cover what came while it lasted.
static int racy_wait(CUcontext context) {
    (void)context;
    EXPECT(0, cuStreamCreate(&shared, 1));
    EXPECT(0, cuMemAlloc(&written, SIZE));
    EXPECT(0, cuMemsetD8Async(written, 1, SIZE, shared));
    meanwhile = write_on_another_thread;
    EXPECT(0, cuStreamSynchronize(shared));
    cudasim_host_read((const void *)(uintptr_t)written, SIZE);
    return 0;
}

// A destruction that the driver refuses changes nothing: the stream is still ordered.
static int refused(CUcontext context) {
    CUstream a;
    CUdeviceptr at;
    (void)context;
    EXPECT(0, cuStreamCreate(&a, 1));
    EXPECT(0, cuMemAlloc(&at, SIZE));
    EXPECT(0, cuMemsetD8Async(at, 1, SIZE, a));
    EXPECT(709, cuStreamDestroy(a));
    EXPECT(0, cuMemsetD8Async(at, 2, SIZE, a));
    EXPECT(717, cuMemFree(1));
    EXPECT(0, cuStreamSynchronize(a));
    EXPECT(0, cuMemFree(at));
    EXPECT(0, cuMemAlloc(&at, SIZE));
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(CUcontext);
    } all[] = {{"pass_through", pass_through},
               {"missing", missing},
               {"racy_kernels", racy_kernels},
               {"ordered_kernels", ordered_kernels},
               {"real", real},
               {"racy_graph", racy_graph},
               {"changed_graph", changed_graph},
               {"racy_wait", racy_wait},
               {"refused", refused}};
    CUcontext context;
    EXPECT(2, argc);
    EXPECT(0, cuInit(0));
    EXPECT(0, cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT(0, cuCtxSetCurrent(context));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        if (strcmp(argv[1], all[i].name) == 0) return all[i].run(context);
    }
    return 2;
}
