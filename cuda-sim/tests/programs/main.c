// `programs list` lists all; `programs run theme/name` runs one and compares its result: exit
// status 0 as expected, 1 not, 2 an error of the driver or of the program. `programs trace
// theme/name` prints the statements of a row as they run, and `programs row "name racy: ..."` runs
// the row that it is given. Programs are rows (litmus.c).
#include "litmus.h"

#include <sched.h>

CUstream make_stream(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    return stream;
}

CUstream make_nonblocking(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

CUevent make_event(void) {
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

CUdeviceptr alloc(size_t n) {
    CUdeviceptr at;
    CHECK(cuMemAlloc(&at, n));
    return at;
}

CUdeviceptr alloc_managed(size_t n) {
    CUdeviceptr at;
    CHECK(cuMemAllocManaged(&at, n, CU_MEM_ATTACH_GLOBAL));
    return at;
}

void *alloc_pinned(size_t n) {
    void *at;
    CHECK(cuMemHostAlloc(&at, n, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    return at;
}

struct touch {
    size_t count;
    cudasim_access accesses[MAX_ACCESSES];
};

static void touch_block(volatile unsigned char *bytes, uint64_t n, uint32_t mode) {
    for (uint64_t i = 0; i < n; ++i) {
        const unsigned char old = mode & CUDASIM_READ ? bytes[i] : 7;
        if (mode & CUDASIM_WRITE) {
            bytes[i] = (unsigned char)(old + 1);
        }
    }
}

static void run_touch(void *data) {
    const struct touch *touch = data;
    for (size_t a = 0; a < touch->count; ++a) {
        const cudasim_access *access = &touch->accesses[a];
        const int64_t rows = access->ndim == 0 ? 1 : access->count[0];
        unsigned char *first = cudasim_host_address((const void *)(uintptr_t)access->address);
        for (int64_t row = 0; row < rows; ++row) {
            touch_block(first + row * access->stride[0], access->nbytes, access->mode);
        }
    }
}

static void run_nothing(void *data) { (void)data; }

void touches(CUstream stream, const char *label, const cudasim_access *accesses, size_t count) {
    struct touch touch = {.count = count};
    if (count > MAX_ACCESSES) {
        abort();
    }
    memcpy(touch.accesses, accesses, count * sizeof *accesses);
    CHECK(cudasim_launch(stream, label, run_touch, &touch, sizeof touch, accesses, count));
}

static void touches_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count,
                            int64_t stride, unsigned mode) {
    cudasim_access access = range(at, n, mode);
    access.ndim = 1;
    access.count[0] = count;
    access.stride[0] = stride;
    touches(stream, mode == CUDASIM_WRITE ? "strided writer" : "strided reader", &access, 1);
}

void writes_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count, int64_t stride) {
    touches_strided(stream, at, n, count, stride, CUDASIM_WRITE);
}

void reads_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count, int64_t stride) {
    touches_strided(stream, at, n, count, stride, CUDASIM_READ);
}

void writes(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_WRITE);
    touches(stream, "writer", &access, 1);
}

void reads(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_READ);
    touches(stream, "reader", &access, 1);
}

void claims_write(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_WRITE);
    CHECK(cudasim_launch(stream, "claimed write", run_nothing, NULL, 0, &access, 1));
}

void claims_read(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_READ);
    CHECK(cudasim_launch(stream, "claimed read", run_nothing, NULL, 0, &access, 1));
}

void host_writes(void *at, size_t n) {
    cudasim_host_write(at, n);
    touch_block(at, n, CUDASIM_WRITE);
}

void host_reads(const void *at, size_t n) {
    cudasim_host_read(at, n);
    touch_block((unsigned char *)(uintptr_t)at, n, CUDASIM_READ);
}

void order(CUstream from, CUstream to) {
    CUevent event = make_event();
    CHECK(cuEventRecord(event, from));
    CHECK(cuStreamWaitEvent(to, event, 0));
    CHECK(cuEventDestroy(event));
}

struct begin {
    CUcontext context;
    void *(*run)(void *);
    void *data;
};

static void *begin(void *data) {
    struct begin begin = *(struct begin *)data;
    free(data);
    use(begin.context);
    return begin.run(begin.data);
}

pthread_t start(void *(*run)(void *), void *data) {
    struct begin *how = malloc(sizeof *how);
    pthread_t thread;
    CHECK(how == NULL);
    how->run = run;
    how->data = data;
    CHECK(cuCtxGetCurrent(&how->context));
    CHECK(pthread_create(&thread, NULL, begin, how));
    return thread;
}

void finish(pthread_t thread) { CHECK(pthread_join(thread, NULL)); }

CUcontext primary(int device) {
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

CUcontext second_context(void) {
    CUcontext context;
#if CUDA_VERSION >= 13000
    CHECK(cuCtxCreate(&context, NULL, 0, 0));
#else
    CHECK(cuCtxCreate(&context, 0, 0));
#endif
    return context;
}

void use(CUcontext context) { CHECK(cuCtxSetCurrent(context)); }

void raise_flag(atomic_int *flag) { atomic_store_explicit(flag, 1, memory_order_relaxed); }

void await_flag(atomic_int *flag) {
    while (!atomic_load_explicit(flag, memory_order_relaxed)) {
        sched_yield();
    }
}

static int run_program(const struct race_program *chosen) {
    static char report[64 << 10];
    CHECK(cuInit(0));
    use(primary(0));
    chosen->run();
    const size_t found = cudasim_take_report(report, sizeof report);
    printf("%s%zu races found, %s expected\n", report, found, chosen->expected);
    const int racy = strncmp(chosen->expected, "racy", 4) == 0,
              remark = strcmp(chosen->expected, "remark") == 0;
    // A program with the name "r3_..." must be reported with the rule R3.
    char rule[8] = "";
    const int named = sscanf(chosen->name, "r%2[0-9]", rule) == 1;
    if (named) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, " R%s", rule);
        const char *at = strstr(report, wanted);
        if (at == NULL || strchr(": ", at[strlen(wanted)]) == NULL) {
            printf("the report does not name \"%s\"\n", wanted + 1);
            return 1;
        }
    } else if ((remark || racy) != (report[0] != '\0')) {
        return 1;
    }
    const char *number = chosen->expected + strcspn(chosen->expected, "123456789");
    if (*number != '\0') return found == strtoul(number, NULL, 10) ? 0 : 1;
    return (found > 0) == racy ? 0 : 1;
}

static const char *wanted; // the name of the one to run; all are listed if it is NULL
static int status = 2;

static int visit(const char *theme, const struct race_program *program) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", theme, program->name);
    if (wanted == NULL) {
        printf("%.*s %s\n", (int)strcspn(program->expected, "123456789"), program->expected, name);
        return 0;
    }
    if (strcmp(name, wanted) != 0 && strcmp(theme, "row") != 0) return 0;
    status = run_program(program);
    return 1;
}

static int visit_all(int trace) {
    return litmus_visit(visit, trace) || litmus_visit_per_thread(visit, trace);
}

int main(int argc, char **argv) {
    const int listing = argc == 2 && strcmp(argv[1], "list") == 0;
    const int tracing = argc == 3 && strcmp(argv[1], "trace") == 0;
    if (listing) {
        visit_all(0);
        return 0;
    }
    if (tracing || (argc == 3 && strcmp(argv[1], "run") == 0)) {
        wanted = argv[2];
        if (visit_all(tracing)) return status;
        fprintf(stderr, "no program is called %s\n", wanted);
        return 2;
    }
    if (argc == 3 && strcmp(argv[1], "row") == 0) {
        wanted = "";
        litmus_visit_row(argv[2], visit);
        return status;
    }
    fprintf(stderr, "usage: %s list | run theme/name | trace theme/name | row text\n", argv[0]);
    return 2;
}
