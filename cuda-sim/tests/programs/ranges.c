// Which bytes: two streams without order may touch different ones.
//
// What a row can say about this is in tests/litmus/ranges.txt.
#include "race_test.h"

static CUstream a, b;

static CUdeviceptr two_streams(size_t n) {
    a = make_nonblocking();
    b = make_nonblocking();
    return alloc(n);
}

static CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from, size_t pitch, size_t width,
                          size_t height) {
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = pitch,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

// An offset inside the pitch: two copies fill the left and the right of an image.
static void two_copies_side_by_side(void) {
    CUdeviceptr p = two_streams(64 * 8), q = alloc(64 * 8);
    const CUDA_MEMCPY2D left = rows(p, q, 64, 32, 8);
    CUDA_MEMCPY2D right = left;
    right.srcXInBytes = right.dstXInBytes = 32;
    CHECK(cuMemcpy2DAsync(&left, a));
    CHECK(cuMemcpy2DAsync(&right, b));
}

// Rows 0 to 4 and rows 3 to 7.
static void two_copies_with_common_rows(void) {
    CUdeviceptr p = two_streams(64 * 8), q = alloc(64 * 8);
    const CUDA_MEMCPY2D upper = rows(p, q, 64, 64, 5);
    CUDA_MEMCPY2D lower = upper;
    lower.srcY = lower.dstY = 3;
    CHECK(cuMemcpy2DAsync(&upper, a));
    CHECK(cuMemcpy2DAsync(&lower, b));
}

// Many small writes; the reader knows of all.
static void many_small_writes(void) {
    CUdeviceptr p = two_streams(N);
    for (unsigned i = 0; i < N; ++i)
        writes(a, p + (i * 37) % N, 1);
    order(a, b);
    reads(b, p, N);
}

// Of all but the last, somewhere in the middle.
static void many_small_writes_but_one(void) {
    CUdeviceptr p = two_streams(N);
    for (unsigned i = 0; i < N; ++i) {
        if (i == N - 1) order(a, b);
        writes(a, p + (i * 37) % N, 1);
    }
    reads(b, p, N);
}

const struct race_program programs_ranges[] = {
    CORRECT(two_copies_side_by_side),
    RACY(two_copies_with_common_rows),
    CORRECT(many_small_writes),
    RACY(many_small_writes_but_one),
    END_OF_PROGRAMS,
};
