/*
 * error.c: the last error of each thread, and the names of errors.
 */
#include "runtime.h"

#include <stdatomic.h>

static const struct {
    int number;
    const char *name, *description;
} errors[] = {
#define ERROR(name, number, description) {number, #name, description},
#include "errors.h"
#undef ERROR
};

/* Counts the resets that ended corruption, so that each thread can determine whether its sticky
 * error is history.
 */
static atomic_uint sticky_epoch;

static _Thread_local struct {
    cudaError_t last;
    unsigned epoch;
} thread_error;

/* The index of an error in the table, or -1. */
static int find_error(int number) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].number == number) return (int)i;
    }
    return -1;
}

/* Errors after which the context is unusable: every later call meets them again, so reading one
 * does not clear it. */
static bool is_sticky(cudaError_t error) {
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak: return true;
    default: return false;
    }
}

static bool last_error_sticks(void) {
    return is_sticky(thread_error.last) &&
           thread_error.epoch == atomic_load_explicit(&sticky_epoch, memory_order_relaxed);
}

cudaError_t record(int result) {
    if (result == cudaSuccess) return cudaSuccess;
    if (find_error(result) < 0) result = cudaErrorUnknown;
    if (!last_error_sticks()) {
        thread_error.last = result;
        thread_error.epoch = atomic_load_explicit(&sticky_epoch, memory_order_relaxed);
    }
    return result;
}

void end_sticky_errors(void) { atomic_fetch_add_explicit(&sticky_epoch, 1, memory_order_relaxed); }

API cudaError_t cudaPeekAtLastError(void) {
    if (is_sticky(thread_error.last) && !last_error_sticks()) thread_error.last = cudaSuccess;
    return thread_error.last;
}

API cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();
    if (!last_error_sticks()) thread_error.last = cudaSuccess;
    return error;
}

API const char *cudaGetErrorName(cudaError_t error) {
    int index = find_error(error);
    return index < 0 ? "unrecognized error code" : errors[index].name;
}

API const char *cudaGetErrorString(cudaError_t error) {
    int index = find_error(error);
    return index < 0 ? "unrecognized error code" : errors[index].description;
}
