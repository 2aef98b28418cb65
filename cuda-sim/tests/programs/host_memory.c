// Memory that host and device both touch: pinned, managed, registered. What the host does comes
// before what it enqueues later; what the device does comes before the host only after a wait.
//
// What a row can say about this is in tests/litmus/host_memory.txt.
#include "race_test.h"

static CUdeviceptr registered(void **host) {
    CUdeviceptr at;
    *host = aligned_alloc(4096, 4096);
    memset(*host, 0, 4096);
    CHECK(cuMemHostRegister(*host, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&at, *host, 0));
    return at;
}

// Registered memory: host and device see the same bytes, maybe at two addresses.
static void registered_without_a_wait(void) {
    void *host;
    CUdeviceptr p = registered(&host);
    writes(make_nonblocking(), p, N);
    host_reads(host, N);
}

// After a wait.
static void registered_after_the_stream(void) {
    void *host;
    CUdeviceptr p = registered(&host);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    host_reads(host, N);
}

// Registered memory as the source of an asynchronous copy, which names it by its host address.
static void registered_source_changed(void) {
    void *host;
    CUdeviceptr to = alloc(N);
    registered(&host);
    CHECK(cuMemcpyHtoDAsync(to, host, N, make_nonblocking()));
    host_writes(host, N);
}

// Two kernels name the same registered bytes by the address of the device.
static void registered_in_two_streams(void) {
    void *host;
    CUdeviceptr p = registered(&host);
    writes(make_nonblocking(), p, N);
    writes(make_nonblocking(), p, N);
}

// What was registered is ordinary memory afterwards.
static void unregistered_and_copied(void) {
    static char memory[N];
    CUdeviceptr p = alloc(N);
    CHECK(cuMemHostRegister(memory, sizeof memory, 0));
    CHECK(cuMemHostUnregister(memory));
    CHECK(cuMemcpy(p, (CUdeviceptr)(uintptr_t)memory, N));
    CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)memory, p, N));
}

const struct race_program programs_host_memory[] = {
    CORRECT(unregistered_and_copied),     RACY(registered_without_a_wait),
    CORRECT(registered_after_the_stream), RACY(registered_source_changed),
    RACY(registered_in_two_streams),      END_OF_PROGRAMS,
};
