// Which copies and fills the host waits for, and what they touch. [synchronization behavior of
// memcpy and memset]
#include "race_test.h"

// An asynchronous copy to pinned memory is not done when the call returns.
static void to_pinned_read_at_once(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemcpyDtoHAsync(host, alloc(N), N, make_nonblocking()));
    host_reads(host, N);
}

// It is done when the stream is.
static void to_pinned_read_after_the_stream(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CHECK(cuMemcpyDtoHAsync(host, alloc(N), N, a));
    CHECK(cuStreamSynchronize(a));
    host_reads(host, N);
}

// A copy to pageable memory returns when it is done, also the asynchronous one.
static void to_pageable_read_at_once(void) {
    static char host[N];
    CHECK(cuMemcpyDtoHAsync(host, alloc(N), N, make_nonblocking()));
    host_reads(host, N);
}

// When it returns, all that came before it in its stream is done, too.
static void to_pageable_waits_for_its_stream(void) {
    static char other[N];
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuMemcpyDtoHAsync(other, alloc(N), N, a));
    host_reads(host, N);
}

// It does not order other streams.
static void to_pageable_does_not_wait_for_other_streams(void) {
    static char other[N];
    char *host = alloc_pinned(N);
    writes(make_nonblocking(), at_device(host), N);
    CHECK(cuMemcpyDtoHAsync(other, alloc(N), N, make_nonblocking()));
    host_reads(host, N);
}

// The source of an asynchronous copy from pinned memory is read later.
static void from_pinned_changed_at_once(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, make_nonblocking()));
    host_writes(host, N);
}

// It may be read by the host meanwhile.
static void from_pinned_read_at_once(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, make_nonblocking()));
    host_reads(host, N);
}

// And changed after an event.
static void from_pinned_changed_after_an_event(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, a));
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventSynchronize(e));
    host_writes(host, N);
}

// Pageable memory was read, or staged, when the call returns.
static void from_pageable_changed_at_once(void) {
    static char host[N];
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, make_nonblocking()));
    host_writes(host, N);
}

// But the device may not have the bytes yet: another stream has to wait.
static void from_pageable_read_in_another_stream(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    CHECK(cuMemcpyHtoDAsync(p, host, N, make_nonblocking()));
    reads(make_nonblocking(), p, N);
}

// A staging buffer filled again for each copy in the same stream, without waiting.
static void staging_buffer_filled_again(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr p = alloc(2 * N);
    CUstream a = make_nonblocking();
    for (unsigned i = 0; i < 2; ++i) {
        host_writes(host, N);
        CHECK(cuMemcpyHtoDAsync(p + i * N, host, N, a));
    }
}

// With an event behind each copy.
static void staging_buffer_filled_again_after_an_event(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr p = alloc(3 * N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(cuEventSynchronize(e));
        host_writes(host, N);
        CHECK(cuMemcpyHtoDAsync(p + i * N, host, N, a));
        CHECK(cuEventRecord(e, a));
    }
}

// cuMemcpyDtoH returns when the copy is done.
static void synchronous_to_pinned(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemcpyDtoH(host, alloc(N), N));
    host_reads(host, N);
}

// So its source may be written by any stream afterwards.
static void synchronous_to_host_then_overwritten(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    CHECK(cuMemcpyDtoH(host, p, N));
    writes(make_nonblocking(), p, N);
}

// It runs in the legacy stream and does not wait for a non-blocking one.
static void synchronous_to_host_before_the_write_is_done(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    writes(make_nonblocking(), p, N);
    CHECK(cuMemcpyDtoH(host, p, N));
}

// It waits for a blocking one.
static void synchronous_to_host_after_a_blocking_stream(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    writes(make_stream(), p, N);
    CHECK(cuMemcpyDtoH(host, p, N));
}

// cuMemcpyHtoD from pinned memory returns when the copy is done.
static void synchronous_from_pinned(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr p = alloc(N);
    CHECK(cuMemcpyHtoD(p, host, N));
    host_writes(host, N);
    reads(make_nonblocking(), p, N);
}

// From pageable memory it may return when the bytes are staged: a non-blocking stream may come too
// early.
static void synchronous_from_pageable(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    CHECK(cuMemcpyHtoD(p, host, N));
    reads(make_nonblocking(), p, N);
}

// A blocking stream waits for the legacy stream in which it runs.
static void synchronous_from_pageable_read_in_blocking(void) {
    static char host[N];
    CUdeviceptr p = alloc(N);
    CHECK(cuMemcpyHtoD(p, host, N));
    reads(make_stream(), p, N);
}

// It overwrites what a non-blocking stream may still read.
static void synchronous_from_host_while_read(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr p = alloc(N);
    reads(make_nonblocking(), p, N);
    CHECK(cuMemcpyHtoD(p, host, N));
}

// cuMemcpyDtoD does not wait for the copy: a non-blocking stream may come too early.
static void synchronous_on_the_device(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CHECK(cuMemcpyDtoD(p, q, N));
    reads(make_nonblocking(), p, N);
}

// Nor does it keep its source.
static void synchronous_on_the_device_source_overwritten(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CHECK(cuMemcpyDtoD(p, q, N));
    writes(make_nonblocking(), q, N);
}

// A wait for the legacy stream in between.
static void synchronous_on_the_device_and_a_wait(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CHECK(cuMemcpyDtoD(p, q, N));
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    writes(make_nonblocking(), q, N);
    writes(make_nonblocking(), p, N);
}

// cuMemsetD8 of device memory does not wait for the fill.
static void synchronous_fill_of_device_memory(void) {
    CUdeviceptr p = alloc(N);
    CHECK(cuMemsetD8(p, 1, N));
    reads(make_nonblocking(), p, N);
}

// Of pinned memory it does.
static void synchronous_fill_of_pinned_memory(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemsetD8(at_device(host), 1, N));
    host_reads(host, N);
}

// The asynchronous one does not, whatever the memory.
static void asynchronous_fill_of_pinned_memory(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemsetD8Async(at_device(host), 1, N, make_nonblocking()));
    host_reads(host, N);
}

// A fill with larger elements touches as many bytes as they have.
static void fill_with_words(void) {
    CUdeviceptr p = alloc(N);
    CHECK(cuMemsetD32Async(p, 1, N / 4, make_nonblocking()));
    reads(make_nonblocking(), p + N - 1, 1);
}

// And not more.
static void fill_with_half_words(void) {
    CUdeviceptr p = alloc(N);
    CHECK(cuMemsetD16Async(p, 1, N / 4, make_nonblocking()));
    reads(make_nonblocking(), p + N / 2, N / 2);
}

// Two copies to one destination.
static void two_copies_to_one_place(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    CHECK(cuMemcpyDtoDAsync(p, q, N, make_nonblocking()));
    CHECK(cuMemcpyDtoDAsync(p, r, N, make_nonblocking()));
}

// Two copies from one source.
static void two_copies_from_one_place(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    CHECK(cuMemcpyDtoDAsync(p, r, N, make_nonblocking()));
    CHECK(cuMemcpyDtoDAsync(q, r, N, make_nonblocking()));
}

// The destination of one is the source of the other.
static void copy_of_a_copy(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    CHECK(cuMemcpyDtoDAsync(q, p, N, make_nonblocking()));
    CHECK(cuMemcpyDtoDAsync(r, q, N, make_nonblocking()));
}

// cuMemcpyAsync finds out by itself what its addresses are: pinned memory here, which it leaves
// pending.
static void copy_by_addresses_from_pinned(void) {
    char *host = alloc_pinned(N);
    CHECK(cuMemcpyAsync(alloc(N), at_device(host), N, make_nonblocking()));
    host_writes(host, N);
}

static CUDA_MEMCPY2D rows_to_host(void *to, CUdeviceptr from) {
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = 64,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = to,
                           .dstPitch = 64,
                           .WidthInBytes = 40,
                           .Height = 8};
}

// A 2D copy to pinned memory: its rows are not there yet.
static void rows_to_pinned_read_at_once(void) {
    char *host = alloc_pinned(64 * 8);
    const CUDA_MEMCPY2D how = rows_to_host(host, alloc(64 * 8));
    CHECK(cuMemcpy2DAsync(&how, make_nonblocking()));
    host_reads(host + 3 * 64 + 8, 8);
}

// What is between the rows is not touched.
static void between_rows_to_pinned(void) {
    char *host = alloc_pinned(64 * 8);
    const CUDA_MEMCPY2D how = rows_to_host(host, alloc(64 * 8));
    CHECK(cuMemcpy2DAsync(&how, make_nonblocking()));
    for (int row = 0; row < 8; ++row)
        host_writes(host + row * 64 + 40, 24);
}

// Without "Async", the rows are there.
static void rows_to_pinned_synchronously(void) {
    char *host = alloc_pinned(64 * 8);
    const CUDA_MEMCPY2D how = rows_to_host(host, alloc(64 * 8));
    CHECK(cuMemcpy2D(&how));
    host_reads(host, 64 * 8);
}

const struct race_program programs_copies[] = {
    RACY(to_pinned_read_at_once),
    CORRECT(to_pinned_read_after_the_stream),
    CORRECT(to_pageable_read_at_once),
    CORRECT(to_pageable_waits_for_its_stream),
    RACY(to_pageable_does_not_wait_for_other_streams),
    RACY(from_pinned_changed_at_once),
    CORRECT(from_pinned_read_at_once),
    CORRECT(from_pinned_changed_after_an_event),
    CORRECT(from_pageable_changed_at_once),
    RACY(from_pageable_read_in_another_stream),
    RACY(staging_buffer_filled_again),
    CORRECT(staging_buffer_filled_again_after_an_event),
    CORRECT(synchronous_to_pinned),
    CORRECT(synchronous_to_host_then_overwritten),
    RACY(synchronous_to_host_before_the_write_is_done),
    CORRECT(synchronous_to_host_after_a_blocking_stream),
    CORRECT(synchronous_from_pinned),
    RACY(synchronous_from_pageable),
    CORRECT(synchronous_from_pageable_read_in_blocking),
    RACY(synchronous_from_host_while_read),
    RACY(synchronous_on_the_device),
    RACY(synchronous_on_the_device_source_overwritten),
    CORRECT(synchronous_on_the_device_and_a_wait),
    RACY(synchronous_fill_of_device_memory),
    CORRECT(synchronous_fill_of_pinned_memory),
    RACY(asynchronous_fill_of_pinned_memory),
    RACY(fill_with_words),
    CORRECT(fill_with_half_words),
    RACY(two_copies_to_one_place),
    CORRECT(two_copies_from_one_place),
    RACY(copy_of_a_copy),
    RACY(copy_by_addresses_from_pinned),
    RACY(rows_to_pinned_read_at_once),
    CORRECT(between_rows_to_pinned),
    CORRECT(rows_to_pinned_synchronously),
    END_OF_PROGRAMS,
};
