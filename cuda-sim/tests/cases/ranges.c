// Which bytes: what does not overlap does not race, however it is interleaved.
#include "case.h"

#define W CUDASIM_WRITE
#define R CUDASIM_READ

static void adjacent(void) {
    CUdeviceptr p = device(N);
    writes(nonblocking(), p, N / 2);
    writes(nonblocking(), p + N / 2, N / 2);
}

static void one_byte(void) {
    CUdeviceptr p = device(N);
    writes(nonblocking(), p, N / 2 + 1);
    writes(nonblocking(), p + N / 2, N / 2);
}

static void neighbours_in_the_arena(void) {
    CUdeviceptr p = device(512), q = device(512);
    writes(nonblocking(), p, 512);
    writes(nonblocking(), q, 512);
}

// Even and odd columns.
static void interleaved(void) {
    CUdeviceptr p = device(N);
    touches(nonblocking(), p, 4, N / 8, 8, W);
    touches(nonblocking(), p + 4, 4, N / 8, 8, W);
}

static void interleaved_and_too_wide(void) {
    CUdeviceptr p = device(N);
    touches(nonblocking(), p, 5, N / 8, 8, W);
    touches(nonblocking(), p + 4, 4, N / 8, 8, W);
}

static void backwards(void) {
    CUdeviceptr p = device(N);
    touches(nonblocking(), p + N - 8, 4, N / 8, -8, W);
    touches(nonblocking(), p + 4, 4, N / 8, 8, W);
}

static void backwards_over_the_same(void) {
    CUdeviceptr p = device(N);
    touches(nonblocking(), p + N - 4, 4, N / 8, -8, W);
    touches(nonblocking(), p + 4, 4, N / 8, 8, R);
}

// Rows 0 to 3 and rows 4 to 7.
static void rows(void) {
    CUdeviceptr p = device(N);
    touches(nonblocking(), p, 100, 4, 512, W);
    touches(nonblocking(), p + 4 * 512, 100, 4, 512, W);
}

static void a_column_against_a_row(void) {
    CUdeviceptr p = device(N);
    touches(nonblocking(), p, 4, 8, 512, W);
    writes(nonblocking(), p + 512, 512);
}

static void two_dimensional_copies(int overlap) {
    CUdeviceptr p = device(N), q = device(N);
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = q;
    copy.srcPitch = copy.dstPitch = 64;
    copy.dstDevice = p;
    copy.WidthInBytes = 32;
    copy.Height = N / 64;
    OK(cuMemcpy2DAsync(&copy, nonblocking()));
    copy.dstXInBytes = overlap ? 31 : 32;
    OK(cuMemcpy2DAsync(&copy, nonblocking()));
}

static void left_and_right_halves(void) { two_dimensional_copies(0); }
static void halves_that_overlap(void) { two_dimensional_copies(1); }

static void fills_of_two_columns(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD2D8Async(p, 64, 1, 16, N / 64, nonblocking()));
    OK(cuMemsetD2D8Async(p + 16, 64, 2, 48, N / 64, nonblocking()));
}

static void fills_of_two_columns_that_overlap(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD2D8Async(p, 64, 1, 17, N / 64, nonblocking()));
    OK(cuMemsetD2D8Async(p + 16, 64, 2, 48, N / 64, nonblocking()));
}

// A part was written in order, another part was not.
static void half_in_order(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    writes(a, p, N / 2);
    writes(b, p + N / 2, N / 2);
    after(c, a);
    reads(c, p, N);
}

static void both_halves_in_order(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    writes(a, p, N / 2);
    writes(b, p + N / 2, N / 2);
    after(c, a);
    after(c, b);
    reads(c, p, N);
}

static void nothing(void) {
    CUdeviceptr p = device(N);
    writes(nonblocking(), p, 0);
    writes(nonblocking(), p, N);
}

const struct race_case ranges_cases[] = {
    CORRECT(adjacent),
    RACY(one_byte),
    CORRECT(neighbours_in_the_arena),
    CORRECT(interleaved),
    RACY(interleaved_and_too_wide),
    CORRECT(backwards),
    RACY(backwards_over_the_same),
    CORRECT(rows),
    RACY(a_column_against_a_row),
    CORRECT(left_and_right_halves),
    RACY(halves_that_overlap),
    CORRECT(fills_of_two_columns),
    RACY(fills_of_two_columns_that_overlap),
    RACY(half_in_order),
    CORRECT(both_halves_in_order),
    CORRECT(nothing),
    {NULL, 0, NULL},
};
