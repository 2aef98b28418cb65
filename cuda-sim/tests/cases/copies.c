// When a copy makes the host wait, and when it does not. [API synchronization behavior]
#include "case.h"

static char pageable[N];

// To pageable memory a copy returns when it is done, also the asynchronous one.
static void out_to_pageable_then_freed(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    OK(cuMemcpyDtoHAsync(pageable, p, N, a));
    OK(cuMemFree(p));
}

static void out_to_pinned_then_freed(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    OK(cuMemcpyDtoHAsync(pinned(N), p, N, a));
    OK(cuMemFree(p));
}

// It waits for its own stream only.
static void out_to_pageable_on_another_stream(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    OK(cuMemcpyDtoHAsync(pageable, p, N, b));
}

static void synchronous_out_orders_the_host(void) {
    CUdeviceptr p = device(N);
    writes(CU_STREAM_LEGACY, p, N);
    OK(cuMemcpyDtoH(pageable, p, N));
    writes(nonblocking(), p, N);
}

// The default stream waits for blocking streams, so the copy does.
static void synchronous_out_after_a_blocking_stream(void) {
    CUdeviceptr p = device(N);
    writes(blocking(), p, N);
    OK(cuMemcpyDtoH(pageable, p, N));
}

static void synchronous_out_after_a_nonblocking_stream(void) {
    CUdeviceptr p = device(N);
    writes(nonblocking(), p, N);
    OK(cuMemcpyDtoH(pageable, p, N));
}

// From pinned memory a synchronous copy is done when it returns.
static void synchronous_in_from_pinned(void) {
    CUdeviceptr p = device(N);
    OK(cuMemcpyHtoD(p, pinned(N), N));
    reads(nonblocking(), p, N);
}

// From pageable memory only the reading of the host is done.
static void synchronous_in_from_pageable(void) {
    CUdeviceptr p = device(N);
    OK(cuMemcpyHtoD(p, pageable, N));
    reads(nonblocking(), p, N);
}

static void synchronous_in_from_pageable_on_a_blocking_stream(void) {
    CUdeviceptr p = device(N);
    OK(cuMemcpyHtoD(p, pageable, N));
    reads(blocking(), p, N);
}

static void synchronous_in_from_pageable_then_free(void) {
    CUdeviceptr p = device(N);
    OK(cuMemcpyHtoD(p, pageable, N));
    OK(cuMemFree(p));
}

// Between two places on the device the host does not wait, also in the synchronous call.
static void synchronous_device_to_device(void) {
    CUdeviceptr p = device(N), q = device(N);
    OK(cuMemcpyDtoD(q, p, N));
    reads(nonblocking(), q, N);
}

static void synchronous_device_to_device_and_a_wait(void) {
    CUdeviceptr p = device(N), q = device(N);
    OK(cuMemcpyDtoD(q, p, N));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    reads(nonblocking(), q, N);
}

static void a_fill_of_device_memory(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8(p, 1, N));
    reads(nonblocking(), p, N);
}

// Of host memory a synchronous fill is done when it returns.
static void a_fill_of_pinned_memory(void) {
    char *host = pinned(N);
    OK(cuMemsetD8((CUdeviceptr)host, 1, N));
    host_reads(host, N);
}

static void an_asynchronous_fill_of_pinned_memory(void) {
    char *host = pinned(N);
    OK(cuMemsetD8Async((CUdeviceptr)host, 1, N, nonblocking()));
    host_reads(host, N);
}

static void the_source_is_overwritten(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    OK(cuMemcpyDtoDAsync(q, p, N, a));
    writes(b, p, N);
}

static void the_source_is_read(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    OK(cuMemcpyDtoDAsync(q, p, N, a));
    reads(b, p, N);
}

// The host may change pageable memory at once: it was read during the call.
static void pageable_is_read_during_the_call(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    for (int i = 0; i < 3; ++i) {
        memset(pageable, i, N);
        OK(cuMemcpyHtoDAsync(p, pageable, N, a));
    }
    OK(cuMemcpyDtoHAsync(pageable, p, N, a));
    if (pageable[N - 1] != 2) {
        exit(2);
    }
}

const struct race_case copies_cases[] = {
    CORRECT(out_to_pageable_then_freed),
    RACY(out_to_pinned_then_freed),
    RACY(out_to_pageable_on_another_stream),
    CORRECT(synchronous_out_orders_the_host),
    CORRECT(synchronous_out_after_a_blocking_stream),
    RACY(synchronous_out_after_a_nonblocking_stream),
    CORRECT(synchronous_in_from_pinned),
    RACY(synchronous_in_from_pageable),
    CORRECT(synchronous_in_from_pageable_on_a_blocking_stream),
    CORRECT(synchronous_in_from_pageable_then_free),
    RACY(synchronous_device_to_device),
    CORRECT(synchronous_device_to_device_and_a_wait),
    RACY(a_fill_of_device_memory),
    CORRECT(a_fill_of_pinned_memory),
    RACY(an_asynchronous_fill_of_pinned_memory),
    RACY(the_source_is_overwritten),
    CORRECT(the_source_is_read),
    CORRECT(pageable_is_read_during_the_call),
    {NULL, 0, NULL},
};
