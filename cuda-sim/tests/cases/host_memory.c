// The host and the device touch the same memory: pinned, registered, managed.
#include "case.h"

static void copied_out_and_read_at_once(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    host_reads(host, N);
}

static void copied_out_and_read_after_the_stream(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuStreamSynchronize(a));
    host_reads(host, N);
}

static void copied_out_and_read_after_an_event(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    CUevent e = event();
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuEventRecord(e, a));
    OK(cuEventSynchronize(e));
    host_reads(host, N);
}

static void an_event_from_before_the_copy(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    CUevent e = event();
    OK(cuEventRecord(e, a));
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuEventSynchronize(e));
    host_reads(host, N);
}

static void copied_out_and_read_after_the_context(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuCtxSynchronize());
    host_reads(host, N);
}

// Success of a query is as good as waiting. [cuStreamQuery]
static void read_after_the_stream_was_found_done(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    CUresult answer;
    while ((answer = cuStreamQuery(a)) == CUDA_ERROR_NOT_READY) {
    }
    OK(answer);
    host_reads(host, N);
}

static void read_after_the_event_was_found_done(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    CUevent e = event();
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuEventRecord(e, a));
    while (cuEventQuery(e) == CUDA_ERROR_NOT_READY) {
    }
    host_reads(host, N);
}

static void the_wrong_stream(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuStreamSynchronize(b));
    host_reads(host, N);
}

static void a_stream_that_waited(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    after(b, a);
    OK(cuStreamSynchronize(b));
    host_reads(host, N);
}

// The copy reads the buffer some time later.
static void overwritten_while_it_is_copied_in(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    host_writes(host, N);
    OK(cuMemcpyHtoDAsync(p, host, N, a));
    host_writes(host, N);
}

static void overwritten_after_it_was_copied_in(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    for (int i = 0; i < 3; ++i) {
        host_writes(host, N);
        OK(cuMemcpyHtoDAsync(p, host, N, a));
        OK(cuStreamSynchronize(a));
    }
}

static void read_while_it_is_copied_in(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    host_writes(host, N);
    OK(cuMemcpyHtoDAsync(p, host, N, a));
    host_reads(host, N);
}

static void two_halves(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    char *host = pinned(N);
    OK(cuMemcpyHtoDAsync(p, host, N / 2, a));
    host_writes(host + N / 2, N / 2);
}

static void managed_without_a_wait(void) {
    CUdeviceptr p = managed(N);
    writes(nonblocking(), p, N);
    host_reads((void *)p, N);
}

static void managed_after_a_wait(void) {
    CUdeviceptr p = managed(N);
    CUstream a = nonblocking();
    host_writes((void *)p, N);
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    host_reads((void *)p, N);
}

static void registered_without_a_wait(void) {
    static char memory[2 * N];
    CUdeviceptr p = device(N);
    OK(cuMemHostRegister(memory, sizeof memory, 0));
    OK(cuMemcpyDtoHAsync(memory + 100, p, N, nonblocking()));
    host_reads(memory + 100, 1);
}

static void registered_after_a_wait(void) {
    static char memory[2 * N];
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    OK(cuMemHostRegister(memory, sizeof memory, 0));
    OK(cuMemcpyDtoHAsync(memory + 100, p, N, a));
    OK(cuStreamSynchronize(a));
    host_reads(memory, sizeof memory);
    OK(cuMemHostUnregister(memory));
}

static void a_kernel_on_pinned_memory(void) {
    char *host = pinned(N);
    writes(nonblocking(), (CUdeviceptr)host, N);
    host_reads(host, N);
}

static void unregistered_while_in_use(void) {
    static char memory[N];
    OK(cuMemHostRegister(memory, sizeof memory, 0));
    CUdeviceptr p = device(N);
    OK(cuMemcpyDtoHAsync(memory, p, N, nonblocking()));
    OK(cuMemHostUnregister(memory));
}

const struct race_case host_memory_cases[] = {
    RACY(copied_out_and_read_at_once),
    CORRECT(copied_out_and_read_after_the_stream),
    CORRECT(copied_out_and_read_after_an_event),
    RACY(an_event_from_before_the_copy),
    CORRECT(copied_out_and_read_after_the_context),
    CORRECT(read_after_the_stream_was_found_done),
    CORRECT(read_after_the_event_was_found_done),
    RACY(the_wrong_stream),
    CORRECT(a_stream_that_waited),
    RACY(overwritten_while_it_is_copied_in),
    CORRECT(overwritten_after_it_was_copied_in),
    CORRECT(read_while_it_is_copied_in),
    CORRECT(two_halves),
    RACY(managed_without_a_wait),
    CORRECT(managed_after_a_wait),
    RACY(registered_without_a_wait),
    CORRECT(registered_after_a_wait),
    RACY(a_kernel_on_pinned_memory),
    RACY(unregistered_while_in_use),
    {NULL, 0, NULL},
};
