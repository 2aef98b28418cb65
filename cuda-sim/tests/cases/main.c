#include "case.h"

// clang-format off
#define THEMES(X)                                                                                              \
    X(events) X(legacy) X(per_thread) X(contexts) X(handles) X(ordered_memory) X(host_memory) X(copies)        \
    X(threads) X(graphs) X(ranges) X(allocators) X(frees) X(values)
// clang-format on

#define DECLARE(theme) extern const struct race_case theme##_cases[];
THEMES(DECLARE)

static const struct {
    const char *theme;
    const struct race_case *cases;
} themes[] = {
#define ROW(theme) {#theme, theme##_cases},
    THEMES(ROW)};

CUcontext ctx;

static CUstream stream(unsigned flags) {
    CUstream made;
    OK(cuStreamCreate(&made, flags));
    return made;
}
CUstream blocking(void) { return stream(CU_STREAM_DEFAULT); }
CUstream nonblocking(void) { return stream(CU_STREAM_NON_BLOCKING); }

CUevent event(void) {
    CUevent made;
    OK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    return made;
}

CUdeviceptr device(size_t n) {
    CUdeviceptr made;
    OK(cuMemAlloc(&made, n));
    return made;
}

CUdeviceptr managed(size_t n) {
    CUdeviceptr made;
    OK(cuMemAllocManaged(&made, n, CU_MEM_ATTACH_GLOBAL));
    return made;
}

char *pinned(size_t n) {
    void *made;
    OK(cuMemAllocHost(&made, n));
    return made;
}

struct touch {
    CUdeviceptr at;
    size_t width;
    int64_t count, stride;
    unsigned mode;
};

static void run_touch(void *data) {
    const struct touch *touch = data;
    volatile char sum = 0;
    for (int64_t row = 0; row < touch->count; ++row) {
        volatile char *bytes = (volatile char *)touch->at + row * touch->stride;
        for (size_t i = 0; i < touch->width; ++i) {
            if (touch->mode & CUDASIM_WRITE) {
                bytes[i] = (char)(bytes[i] + 1);
            } else {
                sum = (char)(sum + bytes[i]);
            }
        }
    }
}

void touches(CUstream on, CUdeviceptr at, size_t width, int64_t count, int64_t stride, unsigned mode) {
    const struct touch touch = {at, width, count, stride, mode};
    cudasim_access access = {.address = at, .nbytes = width, .mode = mode, .ndim = 1};
    access.count[0] = count;
    access.stride[0] = stride;
    OK(cudasim_launch(on, mode & CUDASIM_WRITE ? "a writing kernel" : "a reading kernel", run_touch, &touch,
                      sizeof touch, &access, 1));
}

void writes(CUstream on, CUdeviceptr at, size_t n) { touches(on, at, n, 1, 0, CUDASIM_WRITE); }
void reads(CUstream on, CUdeviceptr at, size_t n) { touches(on, at, n, 1, 0, CUDASIM_READ); }

void host_reads(const void *at, size_t n) { cudasim_host_read(at, n); }
void host_writes(void *at, size_t n) {
    cudasim_host_write(at, n);
    memset(at, 1, n);
}

void after(CUstream to, CUstream from) {
    CUevent made = event();
    OK(cuEventRecord(made, from));
    OK(cuStreamWaitEvent(to, made, 0));
    OK(cuEventDestroy(made));
}

struct start {
    void *(*run)(void *);
    void *data;
};

static void *begin(void *start) {
    const struct start copy = *(struct start *)start;
    OK(cuCtxSetCurrent(ctx));
    return copy.run(copy.data);
}

void spawn(pthread_t *thread, void *(*run)(void *), void *data) {
    // One at a time is enough; it lives as long as the program.
    struct start *start = malloc(sizeof *start);
    *start = (struct start){run, data};
    OK(pthread_create(thread, NULL, begin, start));
}
void join(pthread_t thread) { OK(pthread_join(thread, NULL)); }
void use(CUcontext context) { OK(cuCtxSetCurrent(context)); }

int main(int argc, char **argv) {
    const char *wanted = argc == 3 && strcmp(argv[1], "run") == 0 ? argv[2] : NULL;
    for (size_t t = 0; t < sizeof themes / sizeof themes[0]; ++t) {
        for (const struct race_case *c = themes[t].cases; c->name != NULL; ++c) {
            char name[128];
            snprintf(name, sizeof name, "%s/%s", themes[t].theme, c->name);
            if (wanted == NULL) {
                printf("%s %s\n", c->racy ? "racy" : "correct", name);
            } else if (strcmp(name, wanted) == 0) {
                OK(cuInit(0));
                OK(cuDevicePrimaryCtxRetain(&ctx, 0));
                use(ctx);
                c->run();
                static char text[1 << 16];
                const size_t found = cudasim_take_report(text, sizeof text);
                printf("%s%zu races\n", text, found);
                return (found > 0) == (c->racy != 0) ? 0 : 1;
            }
        }
    }
    if (wanted != NULL) {
        fprintf(stderr, "there is no case %s\n", wanted);
        return 2;
    }
    return 0;
}
