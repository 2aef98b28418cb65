// Memory that host and device both touch: pinned, managed, registered. What the host does comes
// before what it enqueues later; what the device does comes before the host only after a wait.
#include "race_test.h"

// The host reads what a kernel may still write.
static void read_without_a_wait(void) {
    char *host = alloc_pinned(N);
    writes(make_nonblocking(), at_device(host), N);
    host_reads(host, N);
}

// The host writes what a kernel may still read.
static void written_without_a_wait(void) {
    char *host = alloc_pinned(N);
    reads(make_nonblocking(), at_device(host), N);
    host_writes(host, N);
}

// Both read.
static void both_read(void) {
    char *host = alloc_pinned(N);
    reads(make_nonblocking(), at_device(host), N);
    host_reads(host, N);
}

// What the host wrote before the launch is there for the kernel.
static void written_before_the_launch(void) {
    char *host = alloc_pinned(N);
    host_writes(host, N);
    reads(make_nonblocking(), at_device(host), N);
}

// What the host read before the launch may be overwritten by the kernel.
static void read_before_the_launch(void) {
    char *host = alloc_pinned(N);
    host_reads(host, N);
    writes(make_nonblocking(), at_device(host), N);
}

// cuStreamSynchronize waits for all that the stream was given.
static void read_after_the_stream(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamSynchronize(a));
    host_reads(host, N);
}

// Another stream was waited for.
static void read_after_another_stream(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamSynchronize(b));
    host_reads(host, N);
}

// Another stream, which itself waits for the writer.
static void read_after_a_stream_that_waits(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, at_device(host), N);
    order(a, b);
    CHECK(cuStreamSynchronize(b));
    host_reads(host, N);
}

// cuEventSynchronize.
static void read_after_the_event(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, at_device(host), N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventSynchronize(e));
    host_reads(host, N);
}

// The event is from before the write.
static void read_after_an_early_event(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    writes(a, at_device(host), N);
    CHECK(cuEventSynchronize(e));
    host_reads(host, N);
}

// The event was never recorded.
static void read_after_an_unrecorded_event(void) {
    char *host = alloc_pinned(N);
    CUevent e = make_event();
    writes(make_nonblocking(), at_device(host), N);
    CHECK(cuEventSynchronize(e));
    host_reads(host, N);
}

// A query of the event that succeeds is as good as a wait.
static void read_after_a_query_of_the_event(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    CUresult result;
    writes(a, at_device(host), N);
    CHECK(cuEventRecord(e, a));
    while ((result = cuEventQuery(e)) == CUDA_ERROR_NOT_READY) {
    }
    CHECK(result);
    host_reads(host, N);
}

// So is a query of the stream.
static void read_after_a_query_of_the_stream(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CUresult result;
    writes(a, at_device(host), N);
    while ((result = cuStreamQuery(a)) == CUDA_ERROR_NOT_READY) {
    }
    CHECK(result);
    host_reads(host, N);
}

// cuCtxSynchronize waits for all streams of the context, non-blocking ones too.
static void read_after_the_context(void) {
    char *host = alloc_pinned(N);
    writes(make_nonblocking(), at_device(host), N);
    writes(make_stream(), alloc(N), N);
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// A synchronous copy to the host waits for blocking streams.
static void read_after_a_synchronous_copy(void) {
    char *host = alloc_pinned(N), other[N];
    CUdeviceptr p = alloc(N);
    writes(make_stream(), at_device(host), N);
    CHECK(cuMemcpyDtoH(other, p, N));
    host_reads(host, N);
}

// It does not wait for non-blocking ones.
static void read_after_a_synchronous_copy_elsewhere(void) {
    char *host = alloc_pinned(N), other[N];
    CUdeviceptr p = alloc(N);
    writes(make_nonblocking(), at_device(host), N);
    CHECK(cuMemcpyDtoH(other, p, N));
    host_reads(host, N);
}

// A synchronous copy from device to device does not hold up the host.
static void read_after_a_copy_on_the_device(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr p = alloc(N), q = alloc(N);
    writes(make_stream(), at_device(host), N);
    CHECK(cuMemcpyDtoD(p, q, N));
    host_reads(host, N);
}

// More work after the wait is not waited for.
static void second_launch_after_the_wait(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamSynchronize(a));
    writes(a, at_device(host), N);
    host_reads(host, N);
}

// Host and device take turns.
static void taking_turns(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    for (int i = 0; i < 3; ++i) {
        host_writes(host, N);
        writes(a, at_device(host), N);
        CHECK(cuStreamSynchronize(a));
        host_reads(host, N);
    }
}

// The host waits in every second round only.
static void taking_turns_carelessly(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    for (int i = 0; i < 3; ++i) {
        host_writes(host, N);
        writes(a, at_device(host), N);
        if (i % 2 == 1) CHECK(cuStreamSynchronize(a));
    }
}

// The other half.
static void apart(void) {
    char *host = alloc_pinned(N);
    writes(make_nonblocking(), at_device(host), N / 2);
    host_writes(host + N / 2, N / 2);
}

// One byte too many.
static void one_byte_too_many(void) {
    char *host = alloc_pinned(N);
    writes(make_nonblocking(), at_device(host), N / 2 + 1);
    host_writes(host + N / 2, N / 2);
}

// Managed memory: a kernel may still write what the host reads.
static void managed_without_a_wait(void) {
    CUdeviceptr p = alloc_managed(N);
    writes(make_nonblocking(), p, N);
    host_reads((void *)(uintptr_t)p, N);
}

// Managed memory after a wait.
static void managed_after_the_stream(void) {
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    host_writes((void *)(uintptr_t)p, N);
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    host_reads((void *)(uintptr_t)p, N);
}

// Managed memory filled asynchronously.
static void managed_after_an_asynchronous_fill(void) {
    CUdeviceptr p = alloc_managed(N);
    CHECK(cuMemsetD8Async(p, 1, N, make_nonblocking()));
    host_reads((void *)(uintptr_t)p, N);
}

// Managed memory copied to asynchronously, then an event.
static void managed_after_a_copy_and_an_event(void) {
    CUdeviceptr p = alloc_managed(N), q = alloc(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuMemcpyDtoDAsync(p, q, N, a));
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventSynchronize(e));
    host_reads((void *)(uintptr_t)p, N);
}

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

// Memory that the device cannot touch is the program's own business.
static void pageable_memory(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking();
    host_writes(host, N);
    CHECK(cuMemcpyHtoDAsync(p, host, N, a));
    host_writes(host, N);
    CHECK(cuMemcpyHtoDAsync(p, host, N, a));
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
    CORRECT(unregistered_and_copied),
    RACY(read_without_a_wait),
    RACY(written_without_a_wait),
    CORRECT(both_read),
    CORRECT(written_before_the_launch),
    CORRECT(read_before_the_launch),
    CORRECT(read_after_the_stream),
    RACY(read_after_another_stream),
    CORRECT(read_after_a_stream_that_waits),
    CORRECT(read_after_the_event),
    RACY(read_after_an_early_event),
    RACY(read_after_an_unrecorded_event),
    CORRECT(read_after_a_query_of_the_event),
    CORRECT(read_after_a_query_of_the_stream),
    CORRECT(read_after_the_context),
    CORRECT(read_after_a_synchronous_copy),
    RACY(read_after_a_synchronous_copy_elsewhere),
    RACY(read_after_a_copy_on_the_device),
    RACY(second_launch_after_the_wait),
    CORRECT(taking_turns),
    RACY(taking_turns_carelessly),
    CORRECT(apart),
    RACY(one_byte_too_many),
    RACY(managed_without_a_wait),
    CORRECT(managed_after_the_stream),
    RACY(managed_after_an_asynchronous_fill),
    CORRECT(managed_after_a_copy_and_an_event),
    RACY(registered_without_a_wait),
    CORRECT(registered_after_the_stream),
    RACY(registered_source_changed),
    RACY(registered_in_two_streams),
    CORRECT(pageable_memory),
    END_OF_PROGRAMS,
};
