/*
 * A CUDA driver that passes every call on to the one behind it (libcuda.so.1), remembers which ones
 * came, and lets one of them fail or be left out. CAI_CUDA_DRIVER makes the library use it; the
 * test program itself uses the driver behind it. It has just the functions that the library looks
 * for.
 *
 * SHIM="cuEventRecord:2:400": the second call of cuEventRecord returns 400.
 * "cuEventRecord:2:+400": it does its work and then returns 400, as a call does that reports the
 * failure of earlier work. "cuEventRecord:2:skip": it returns 0 and does nothing. Only calls while
 * the program has switched that on (shim_arm) are counted. A driver without a function is this one
 * compiled with the function under another name: -DcuEventQuery=without_cuEventQuery.
 *
 * With -DHIP it is a HIP runtime instead (CAI_HIP_DRIVER), and hip_on_cuda.c is behind it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HIP
#include "hip_functions.h"
#define FIND(name) find_behind(name)
void *find_behind(const char *name);
#else
#define FIND(name) dlsym(driver, name)
#define FUNCTIONS(X)                      \
    X(cuInit)                             \
    X(cuDriverGetVersion)                 \
    X(cuGetErrorName)                     \
    X(cuGetErrorString)                   \
    X(cuDeviceGetCount)                   \
    X(cuDevicePrimaryCtxRetain)           \
    X(cuDevicePrimaryCtxRelease_v2)       \
    X(cuCtxGetCurrent)                    \
    X(cuCtxSetCurrent)                    \
    X(cuCtxPushCurrent_v2)                \
    X(cuCtxPopCurrent_v2)                 \
    X(cuCtxGetDevice)                     \
    X(cuCtxGetId)                         \
    X(cuCtxSynchronize)                   \
    X(cuCtxRecordEvent)                   \
    X(cuCtxWaitEvent)                     \
    X(cuCtxFromGreenCtx)                  \
    X(cuStreamGetCtx)                     \
    X(cuStreamGetCtx_v2)                  \
    X(cuStreamGetId)                      \
    X(cuStreamGetFlags)                   \
    X(cuStreamWaitEvent)                  \
    X(cuStreamSynchronize)                \
    X(cuStreamIsCapturing)                \
    X(cuStreamGetCaptureInfo_v2)          \
    X(cuThreadExchangeStreamCaptureMode)  \
    X(cuEventCreate)                      \
    X(cuEventDestroy_v2)                  \
    X(cuEventRecord)                      \
    X(cuEventQuery)                       \
    X(cuEventSynchronize)                 \
    X(cuUserObjectCreate)                 \
    X(cuUserObjectRelease)                \
    X(cuGraphRetainUserObject)            \
    X(cuPointerGetAttributes)             \
    X(cuPointerGetAttribute)              \
    X(cuMemGetAddressRange_v2)            \
    X(cuStreamCreate)                     \
    X(cuStreamDestroy_v2)                 \
    X(cuMemcpyDtoHAsync_v2)               \
    X(cuMemcpyHtoDAsync_v2)               \
    X(cuMemcpy2DAsync_v2)                 \
    X(cuDeviceGetUuid_v2)                 \
    X(cuIpcGetMemHandle)                  \
    X(cuIpcGetEventHandle)                \
    X(cuIpcCloseMemHandle)                \
    X(cuMemPoolExportPointer)             \
    X(cuMemPoolExportToShareableHandle)   \
    X(cuMemPoolImportFromShareableHandle) \
    X(cuMemPoolImportPointer)             \
    X(cuMemPoolDestroy)                   \
    X(cuMemFree_v2)                       \
    X(cuMemRetainAllocationHandle)        \
    X(cuMemExportToShareableHandle)       \
    X(cuMemImportFromShareableHandle)     \
    X(cuMemRelease)                       \
    X(cuMemAddressReserve)                \
    X(cuMemAddressFree)                   \
    X(cuMemMap)                           \
    X(cuMemUnmap)                         \
    X(cuMemSetAccess)                     \
    X(cuDeviceGetAttribute)               \
    X(cuMemAlloc_v2)                      \
    X(cuMemsetD8Async)                    \
    X(cuStreamWriteValue64_v2)            \
    X(cuStreamWaitValue64_v2)
/* Handles of other processes are passed by value. */
#define WITH_HANDLE(X)       \
    X(cuIpcOpenMemHandle_v2) \
    X(cuIpcOpenEventHandle)
#endif

typedef uintptr_t word;
typedef word (*function)(word, word, word, word, word, word);

#ifndef WITH_HANDLE
#define WITH_HANDLE(X)
#endif

#define INDEX(name) I_##name,
enum { FUNCTIONS(INDEX) WITH_HANDLE(INDEX) COUNT };
#define NAME(name) #name,
static const char *const names[COUNT] = {FUNCTIONS(NAME) WITH_HANDLE(NAME)};

static function behind[COUNT];
static atomic_int armed;
static atomic_long calls[COUNT];
static char fault_name[64];
static long fault_number;
static int fault_code, fault_is_late;
static atomic_int fired;

#define SKIP (-1)

__attribute__((constructor)) static void look(void) {
    const char *text = getenv("SHIM");
    char code[16] = "";
    /* Not linked: the library would find functions that this driver lacks in the one behind it. */
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == NULL) {
        fprintf(stderr, "shim: %s\n", dlerror());
        abort();
    }
    for (int i = 0; i < COUNT; ++i)
        *(void **)&behind[i] = FIND(names[i]);
    if (text != NULL && sscanf(text, "%63[^:]:%ld:%15s", fault_name, &fault_number, code) == 3) {
        fault_code = strcmp(code, "skip") == 0 ? SKIP : atoi(code);
        fault_is_late = code[0] == '+';
    }
}

/* From now on calls are counted, and may fail; or no longer. Returns what it was. */
int shim_arm(int on) { return atomic_exchange(&armed, on); }

/*
 * The race checker's table, from the driver behind: the library asks the driver that it uses.
 */
const void *cudasim_get_api(unsigned version);
const void *cudasim_get_api(unsigned version) {
    const void *(*get)(unsigned);
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&get = driver != NULL ? dlsym(driver, "cudasim_get_api") : NULL;
    return get != NULL ? get(version) : NULL;
}

/* How many calls of a function were counted, or of all for NULL. */
long shim_count(const char *name) {
    long sum = 0;
    for (int i = 0; i < COUNT; ++i) {
        if (name == NULL || strcmp(name, names[i]) == 0) sum += atomic_load(&calls[i]);
    }
    return sum;
}

void shim_reset(void) {
    for (int i = 0; i < COUNT; ++i)
        atomic_store(&calls[i], 0);
}

/* Has the call failed that was to fail? Each failure is reported once. Returns the code. */
int shim_fired(void) { return atomic_exchange(&fired, 0); }

/* Prints "name count" for each function that was called. */
void shim_print(void) {
    for (int i = 0; i < COUNT; ++i) {
        if (calls[i] > 0) printf("called %s %ld\n", names[i], atomic_load(&calls[i]));
    }
}

/* Counts a call. Returns true if it is the one that fails. */
static int is_fault(int index) {
    if (atomic_load(&armed) != 0) {
        long number = atomic_fetch_add(&calls[index], 1) + 1;
        if (number == fault_number && strcmp(names[index], fault_name) == 0) {
            fault_number = 0;
            return 1;
        }
    }
    return 0;
}

static word call(int index, word a, word b, word c, word d, word e, word f) {
    if (is_fault(index)) {
        if (fault_code == SKIP) return 0;
        if (fault_is_late) behind[index](a, b, c, d, e, f);
        atomic_store(&fired, fault_code);
        return (word)fault_code;
    }
    return behind[index](a, b, c, d, e, f);
}

#define DEFINE(name)                                            \
    word name(word a, word b, word c, word d, word e, word f);  \
    word name(word a, word b, word c, word d, word e, word f) { \
        return call(I_##name, a, b, c, d, e, f);                \
    }
FUNCTIONS(DEFINE)

typedef struct handle {
    char bytes[64];
} handle;

/* Such a call always fails before it has opened anything. */
#define DEFINE_WITH_HANDLE(name)                                        \
    word name(void *out, handle it, unsigned flags);                    \
    word name(void *out, handle it, unsigned flags) {                   \
        typedef word (*with_handle)(void *, handle, unsigned);          \
        if (is_fault(I_##name)) {                                       \
            atomic_store(&fired, fault_code);                           \
            return (word)fault_code;                                    \
        }                                                               \
        return ((with_handle)(void *)behind[I_##name])(out, it, flags); \
    }
WITH_HANDLE(DEFINE_WITH_HANDLE)
