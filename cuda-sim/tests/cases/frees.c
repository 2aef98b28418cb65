// Freeing is a write of all bytes: cuMemFree may wait for the device, and need not. [cuMemFree]
#include "case.h"

static void freed_while_in_use(void) {
    CUdeviceptr p = device(N);
    reads(nonblocking(), p, N);
    OK(cuMemFree(p));
}

static void freed_after_the_stream(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    reads(a, p, N);
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(p));
}

static void freed_after_the_wrong_stream(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = nonblocking();
    reads(a, p, N);
    OK(cuStreamSynchronize(b));
    OK(cuMemFree(p));
}

static void freed_after_the_context(void) {
    CUdeviceptr p = device(N);
    writes(nonblocking(), p, N);
    writes(nonblocking(), device(N), N);
    OK(cuCtxSynchronize());
    OK(cuMemFree(p));
}

// The address comes back; the memory is another.
static void the_address_comes_back(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(p));
    CUdeviceptr q = device(N);
    if (p != q) {
        exit(2);
    }
    writes(b, q, N);
}

static void pinned_memory_freed_while_in_use(void) {
    char *host = pinned(N);
    CUdeviceptr p = device(N);
    OK(cuMemcpyHtoDAsync(p, host, N, nonblocking()));
    OK(cuMemFreeHost(host));
}

static void pinned_memory_freed_after_an_event(void) {
    char *host = pinned(N);
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    CUevent e = event();
    OK(cuMemcpyHtoDAsync(p, host, N, a));
    OK(cuEventRecord(e, a));
    OK(cuEventSynchronize(e));
    OK(cuMemFreeHost(host));
}

static void allocated_copied_freed(void) {
    static char host[N];
    for (int i = 0; i < 3; ++i) {
        CUdeviceptr p = device(N);
        OK(cuMemcpyHtoD(p, host, N));
        OK(cuMemcpyDtoH(host, p, N));
        OK(cuMemFree(p));
    }
}

static void filled_and_freed(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8(p, 0, N));
    OK(cuMemFree(p));
}

static void used_after_it_was_freed(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    OK(cuMemFree(p));
    writes(a, p, N);
}

// What was registered is ordinary memory afterwards.
static void unregistered_and_used(void) {
    static char memory[N];
    CUdeviceptr p = device(N);
    OK(cuMemHostRegister(memory, sizeof memory, 0));
    OK(cuMemHostUnregister(memory));
    OK(cuMemcpy(p, (CUdeviceptr)memory, N));
    OK(cuMemcpy((CUdeviceptr)memory, p, N));
}

const struct race_case frees_cases[] = {
    RACY(freed_while_in_use),
    CORRECT(freed_after_the_stream),
    RACY(freed_after_the_wrong_stream),
    CORRECT(freed_after_the_context),
    CORRECT(the_address_comes_back),
    RACY(pinned_memory_freed_while_in_use),
    CORRECT(pinned_memory_freed_after_an_event),
    CORRECT(allocated_copied_freed),
    CORRECT(filled_and_freed),
    RACY(used_after_it_was_freed),
    CORRECT(unregistered_and_used),
    {NULL, 0, NULL},
};
