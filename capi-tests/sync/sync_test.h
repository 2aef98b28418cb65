/*
 * What the programs about streams share: two devices, work that takes a while, arrays over device
 * memory, and cases that are run one in a process. All work is fills and copies of the driver
 * itself, so that the same program runs on a GPU. Whether waits are missing is found by the race
 * checker, and by the data.
 */
#ifndef SYNC_TEST_H
#define SYNC_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda.h>
#include <cudasim.h>

#include "../status_asserts.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASSERT_CU(expected, call)                                         \
    do {                                                                  \
        CUresult result_ = (call);                                        \
        if (result_ != (CUresult)(expected)) {                            \
            FAIL("%s: %d, expected %d", #call, result_, (int)(expected)); \
        }                                                                 \
    } while (0)

/* The library that orders the streams: CUDA's driver, or HIP in hip.c. */
#ifdef ON_HIP
#define SHIM_VARIABLE "CAI_HIP_DRIVER"
#define STATUS_OF_709 CAI_ERR_STREAM_HANDLE
#else
#define SHIM_VARIABLE "CAI_CUDA_DRIVER"
#define STATUS_OF_709 CAI_ERR_CONTEXT_DESTROYED
#endif

/* --- the driver in between */

typedef struct shim {
    int (*arm)(int on);
    long (*count)(const char *name);
    void (*reset)(void);
    int (*fired)(void);
    void (*print)(void);
} shim;

static shim the_shim;

/* True about counted calls; or there is no driver in between to count them, or it made one fail. */
#define COUNTED(condition) (the_shim.print == no_print || getenv("SHIM") != NULL || (condition))

static inline int no_arm(int on) { return on; }
static inline long no_count(const char *name) { return (void)name, 0; }
static inline void no_reset(void) {}
static inline int no_fired(void) { return 0; }
static inline void no_print(void) {}

/* The library under test uses the driver that SHIM_VARIABLE names. */
static inline void find_shim(void) {
    const char *path = getenv(SHIM_VARIABLE);
    void *library = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
    *(void **)&the_shim.arm = library != NULL ? dlsym(library, "shim_arm") : NULL;
    if (the_shim.arm == NULL) {
        const shim none = {no_arm, no_count, no_reset, no_fired, no_print};
        the_shim = none;
        return;
    }
    *(void **)&the_shim.count = dlsym(library, "shim_count");
    *(void **)&the_shim.reset = dlsym(library, "shim_reset");
    *(void **)&the_shim.fired = dlsym(library, "shim_fired");
    *(void **)&the_shim.print = dlsym(library, "shim_print");
}

static inline void print_calls(void) {
    ASSERT(the_shim.print != no_print);
    the_shim.print();
}

/* The status that a code of the driver becomes. */
static inline cai_status status_of(int code) {
    switch (code) {
    case 3: return CAI_ERR_FORKED;
    case 4: return CAI_ERR_DRIVER_EXIT;
    case 201: return CAI_ERR_NO_CONTEXT;
    case 400: return CAI_ERR_STREAM_HANDLE;
    case 700:
    case 719: return CAI_ERR_DEVICE_LOST;
    /* HIP says so of a stream that does not exist. */
    case 709: return STATUS_OF_709;
    case 900: return CAI_ERR_CAPTURE;
    case 906: return CAI_ERR_CAPTURE_LEGACY;
    case 917: return CAI_ERR_STREAM_DETACHED;
    default: return CAI_ERR_DRIVER;
    }
}

/*
 * A call of the library that must succeed. Where the driver in between let one of its own calls
 * fail, the library must say so, or have done without; and then the same call must succeed.
 */
#undef OK
#define OK(call)                                                              \
    do {                                                                      \
        cai_error why_;                                                       \
        cai_error *error = &why_;                                             \
        cai_status first_;                                                    \
        int fault_;                                                           \
        the_shim.arm(1);                                                      \
        first_ = (call);                                                      \
        the_shim.arm(0);                                                      \
        fault_ = the_shim.fired();                                            \
        if (first_ != CAI_OK && fault_ != 0) {                                \
            ASSERT_STATUS(status_of(fault_), first_);                         \
            ASSERT(why_.code == first_ && why_.driver_code == fault_);        \
            the_shim.arm(1);                                                  \
            first_ = (call);                                                  \
            the_shim.arm(0);                                                  \
        }                                                                     \
        if (first_ != CAI_OK) {                                               \
            FAIL("%s: %s: %s", #call, cai_status_name(first_), why_.message); \
        }                                                                     \
    } while (0)

/* REFUSED as a row of a table: an array that differs in this from `good`. */
#define REFUSED_ARRAY(change, status, path, call) \
    do {                                          \
        cai_array array = good;                   \
        test_row = #change;                       \
        (void)(change);                           \
        REFUSED(status, path, call);              \
        test_row = NULL;                          \
    } while (0)

/* --- devices, streams, memory */

#define N 4096
#define BYTES (N * sizeof(int))

static CUdevice device[2];
static CUcontext context[2];
static int devices;

#ifdef ON_HIP
/* HIP as the program uses it, which is not what the library calls: nothing of it is counted. */
static int (*set_device)(int);
static int (*get_device)(int *);
#endif

/* Makes a context current, and with HIP its device. */
static inline void use(CUcontext wanted) {
    CU(cuCtxSetCurrent(wanted));
#ifdef ON_HIP
    ASSERT(set_device(wanted == context[0] ? 0 : 1) == 0);
#endif
}

static inline void set_up(void) {
#ifdef ON_HIP
    void *library = dlopen(getenv(SHIM_VARIABLE), RTLD_NOW);
    ASSERT(library != NULL);
    *(void **)&set_device = dlsym(library, "hipSetDevice");
    *(void **)&get_device = dlsym(library, "hipGetDevice");
#endif
    CU(cuInit(0));
    CU(cuDeviceGetCount(&devices));
    if (devices > 2) devices = 2;
    for (int i = devices - 1; i >= 0; --i) {
        CU(cuDeviceGet(&device[i], i));
        CU(cuDevicePrimaryCtxRetain(&context[i], device[i]));
        CU(cuCtxSetCurrent(context[i]));
    }
    use(context[0]);
}

/* Another context of the first device, which is current afterwards. */
static inline CUcontext second_context(void) {
    CUcontext other;
#if CUDA_VERSION >= 13000
    CU(cuCtxCreate(&other, NULL, 0, device[0]));
#else
    CU(cuCtxCreate(&other, 0, device[0]));
#endif
    return other;
}

/* The context in which a producer works on memory of the first one. A device of HIP has one. */
static inline CUcontext working_context(void) {
    CUcontext other = context[devices - 1];
#ifndef ON_HIP
    if (devices == 1) other = second_context();
#endif
    CU(cuCtxSetCurrent(context[0]));
    return other;
}

static inline CUstream new_stream(void) {
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline CUstream blocking_stream(void) {
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    return stream;
}

static inline CUevent new_event(void) {
    CUevent event;
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static inline CUdeviceptr new_buffer(void) {
    CUdeviceptr buffer;
    CU(cuMemAlloc(&buffer, BYTES));
    CU(cuMemsetD32(buffer, 0, N));
    CU(cuCtxSynchronize());
    return buffer;
}

/* A handle, 1 or 2 as a stream of the driver. */
static inline CUstream as_stream(uint64_t value) { return (CUstream)(uintptr_t)value; }
static inline cai_stream as_value(CUstream stream) { return (cai_stream)(uintptr_t)stream; }

/* Work that writes, and takes a while. */
static inline void fill(CUdeviceptr buffer, int value, CUstream stream) {
    for (int i = 0; i < 8; ++i)
        CU(cuMemsetD32Async(buffer, i < 7 ? 0xbad : (unsigned)value, N, stream));
}

/* Work that reads one buffer and writes another. */
static inline void copy(CUdeviceptr to, CUdeviceptr from, CUstream stream) {
    CU(cuMemcpyDtoDAsync(to, from, BYTES, stream));
}

/* Is the buffer full of this value, once the stream is done? */
static inline int holds(CUdeviceptr buffer, int value, CUstream stream) {
    static int host[N];
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(host, buffer, BYTES));
    for (int i = 0; i < N; ++i) {
        if (host[i] != value) {
            fprintf(stderr, "element %d is %#x, not %#x\n", i, (unsigned)host[i], (unsigned)value);
            return 0;
        }
    }
    return 1;
}

static const int64_t the_shape[1] = {N};

/* A borrowed array over a buffer, with HIP on the current device. */
static inline cai_array array_of(CUdeviceptr buffer, cai_stream stream) {
    cai_array array = CAI_ARRAY_INIT;
    array.data = (void *)(uintptr_t)buffer;
    array.shape = the_shape;
    array.ndim = 1;
    memcpy(array.typestr, "<i4", 4);
    array.stream = stream;
#ifdef ON_HIP
    array.device.type = CAI_DEVICE_ROCM;
    ASSERT(get_device(&array.device.id) == 0);
#endif
    return array;
}

/* What the context of an array is on a device. HIP has none: the device's number plus one. */
static inline void *context_on(int id) {
#ifdef ON_HIP
    return (void *)(uintptr_t)(id + 1);
#else
    return context[id];
#endif
}

/* An array that says neither: the memory knows. */
static inline cai_array array_by_memory(CUdeviceptr buffer, cai_stream stream) {
    cai_array array = array_of(buffer, stream);
#ifdef ON_HIP
    array.device.id = -1;
#endif
    return array;
}

/* A consumer that reads, properly. */
static inline void read_into(CUdeviceptr to, const cai_array *array, CUstream stream) {
    OK(cai_array_consume_begin(array, as_value(stream), CAI_ACCESS_READ, error));
    copy(to, (CUdeviceptr)(uintptr_t)array->data, stream);
    OK(cai_array_consume_end(array, as_value(stream), CAI_ACCESS_READ, error));
}

/* A consumer that writes, properly. */
static inline void write_from(const cai_array *array, int value, CUstream stream) {
    OK(cai_array_consume_begin(array, as_value(stream), CAI_ACCESS_WRITE, error));
    fill((CUdeviceptr)(uintptr_t)array->data, value, stream);
    OK(cai_array_consume_end(array, as_value(stream), CAI_ACCESS_WRITE, error));
}

/* Runs a function to its end in another thread. */
static inline void in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    ASSERT(pthread_create(&thread, NULL, run, argument) == 0);
    ASSERT(pthread_join(thread, NULL) == 0);
}

/* Waits for something that another thread does. */
static inline int comes_true(int (*condition)(void *), void *argument) {
    for (int i = 0; i < 10000; ++i) {
        if (condition(argument)) return 1;
        usleep(1000);
    }
    return 0;
}
static inline int is_one(void *number) { return atomic_load((atomic_int *)number) == 1; }

static inline void count_destroyed(void *number) { atomic_fetch_add((atomic_int *)number, 1); }

/* --- cases */

typedef struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
} test_case;

static test_case *all_cases;

/* SHARED_CASE: hip.c includes exchange.c, and runs these of its cases. */
#define CASE(case_name) SHARED_CASE(case_name)
#define SHARED_CASE(case_name)                                            \
    static void case_name(void);                                          \
    __attribute__((constructor)) static void register_##case_name(void) { \
        static test_case self = {#case_name, case_name, NULL};            \
        self.next = all_cases;                                            \
        all_cases = &self;                                                \
    }                                                                     \
    static void case_name(void)

/* Runs a case, and then prints the calls that the library made, if that is wanted. */
static inline int run_case(const test_case *it, int with_calls) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (with_calls) setenv("CALLS", "1", 1);
    find_shim();
    set_up();
    it->run();
    /* The library has left the thread as it was. */
    ASSERT(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS &&
           mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (with_calls) print_calls();
    puts("passed");
    return 0;
}

static inline const test_case *find_case(const char *name) {
    const test_case *it = all_cases;
    while (it != NULL && strcmp(name, it->name) != 0)
        it = it->next;
    return it;
}

/*
 * `each`: runs the cases that the standard input names, one in a line, each in a child process, and
 * writes "ended NUMBER STATUS" after its output. The parent has loaded the libraries and called
 * none of them, so a child is like a new process, without the time that the dynamic linker takes,
 * or valgrind for reading symbols. In a line, a case may be followed by `calls` or by a value of
 * SHIM.
 */
static inline int run_each(void) {
    char line[256], name[128], more[128];
    for (int number = 0; fgets(line, sizeof line, stdin) != NULL; ++number) {
        const int words = sscanf(line, "%127s %127s", name, more);
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        ASSERT(words >= 1 && child >= 0);
        if (child == 0) {
            const test_case *found = find_case(name);
            const int with_calls = words > 1 && strcmp(more, "calls") == 0;
            alarm(120);
            close(STDIN_FILENO); /* what a child leaves unread is the parent's */
            dup2(STDOUT_FILENO, STDERR_FILENO);
            if (words > 1 && !with_calls) setenv("SHIM", more, 1);
            exit(found == NULL ? 2 : run_case(found, with_calls));
        }
        ASSERT(waitpid(child, &status, 0) == child);
        printf("\nended %d %d\n", number,
               WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    return 0;
}

/* `list`, `each`, or the name of a case; `NAME calls` also prints the calls. */
static inline int run_cases(int count, char **words) {
    ASSERT(count >= 2);
    if (strcmp(words[1], "each") == 0) return run_each();
    if (strcmp(words[1], "list") == 0) {
        for (const test_case *it = all_cases; it != NULL; it = it->next)
            puts(it->name);
        return 0;
    }
    const test_case *found = find_case(words[1]);
    return found == NULL ? 2 : run_case(found, count > 2);
}

#endif
