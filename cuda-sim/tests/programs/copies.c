// Which copies and fills the host waits for, and what they touch. [synchronization behavior of
// memcpy and memset]
//
// What a row can say about this is in tests/litmus/copies.txt.
#include "race_test.h"

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

// Without "Async", the rows are there.
static void rows_to_pinned_synchronously(void) {
    char *host = alloc_pinned(64 * 8);
    const CUDA_MEMCPY2D how = rows_to_host(host, alloc(64 * 8));
    CHECK(cuMemcpy2D(&how));
    host_reads(host, 64 * 8);
}

const struct race_program programs_copies[] = {
    RACY(fill_with_words),
    CORRECT(fill_with_half_words),
    RACY(copy_by_addresses_from_pinned),
    CORRECT(rows_to_pinned_synchronously),
    END_OF_PROGRAMS,
};
