// Which bytes: two streams without order may touch different ones.
#include "race_test.h"

static CUstream a, b;

static CUdeviceptr two_streams(size_t n) {
    a = make_nonblocking();
    b = make_nonblocking();
    return alloc(n);
}

// Two halves.
static void halves(void) {
    CUdeviceptr p = two_streams(2 * N);
    writes(a, p, N);
    writes(b, p + N, N);
}

// Halves that share one byte.
static void halves_with_a_common_byte(void) {
    CUdeviceptr p = two_streams(2 * N);
    writes(a, p, N + 1);
    writes(b, p + N, N);
}

// Two bytes side by side.
static void adjacent_bytes(void) {
    CUdeviceptr p = two_streams(N);
    writes(a, p + 10, 1);
    writes(b, p + 11, 1);
}

// The same byte, in the middle of an allocation.
static void the_same_byte(void) {
    CUdeviceptr p = two_streams(N);
    writes(a, p + 10, 1);
    writes(b, p + 10, 1);
}

// A small range inside a large one.
static void one_inside_the_other(void) {
    CUdeviceptr p = two_streams(N);
    writes(a, p, N);
    reads(b, p + N / 2, 1);
}

// Ranges that overlap in the middle of both.
static void overlapping_ends(void) {
    CUdeviceptr p = two_streams(3 * N);
    reads(a, p, 2 * N);
    writes(b, p + N, 2 * N);
}

// Two allocations that may lie side by side.
static void two_allocations(void) {
    CUdeviceptr p = two_streams(256), q = alloc(256);
    writes(a, p, 256);
    writes(b, q, 256);
}

// A hole in the written range is left to the other stream.
static void hole(void) {
    CUdeviceptr p = two_streams(3 * N);
    writes(a, p, N);
    writes(a, p + 2 * N, N);
    writes(b, p + N, N);
}

// Even and odd elements: the hulls overlap, the bytes do not.
static void even_and_odd(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 4, N / 8, 8);
    writes_strided(b, p + 4, 4, N / 8, 8);
}

// Both even.
static void even_and_even(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 4, N / 8, 8);
    writes_strided(b, p, 4, N / 8, 8);
}

// Elements of 4 bytes at steps of 8, and elements of 5 bytes between them: each touches its
// neighbour.
static void elements_that_are_too_wide(void) {
    CUdeviceptr p = two_streams(N + 8);
    writes_strided(a, p, 4, N / 8, 8);
    writes_strided(b, p + 4, 5, N / 8, 8);
}

// Steps of 6 and of 10 bytes, one byte each: they meet at each multiple of 30 only.
static void steps_that_meet(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 1, 20, 6);
    writes_strided(b, p, 1, 12, 10);
}

// Steps of 6 from 1 and of 10 from 0: odd and even bytes never meet.
static void steps_that_never_meet(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p + 1, 1, 20, 6);
    writes_strided(b, p, 1, 12, 10);
}

// The same steps, but they would meet only behind the end of one.
static void steps_that_end_before_they_meet(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p + 6, 1, 4, 6);   // 6 12 18 24
    writes_strided(b, p + 10, 1, 8, 10); // 10 20 30 ... 80
}

// A contiguous range between two strided blocks.
static void range_between_blocks(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 16, 4, 64);
    writes(b, p + 16, 48);
}

// One byte longer, it touches the next block.
static void range_into_a_block(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 16, 4, 64);
    writes(b, p + 16, 49);
}

// Columns of a matrix with rows of 64 bytes.
static void left_and_right_columns(void) {
    CUdeviceptr p = two_streams(64 * 8);
    writes_strided(a, p, 32, 8, 64);
    writes_strided(b, p + 32, 32, 8, 64);
}

// A row and a column meet in one element.
static void row_and_column(void) {
    CUdeviceptr p = two_streams(64 * 8);
    writes(a, p + 3 * 64, 64);
    writes_strided(b, p + 5 * 4, 4, 8, 64);
}

// A row and what is left of the column above it.
static void row_and_column_above(void) {
    CUdeviceptr p = two_streams(64 * 8);
    writes(a, p + 3 * 64, 64);
    writes_strided(b, p + 5 * 4, 4, 3, 64);
}

// A negative stride extends below the address.
static void backwards(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p + 64, 4, 5, -16); // 64 48 32 16 0
    reads(b, p, 4);
}

// It does not go up.
static void backwards_and_above(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p + 64, 4, 5, -16);
    writes(b, p + 68, 64);
}

// A stride of zero is one block.
static void stride_of_zero(void) {
    CUdeviceptr p = two_streams(N);
    reads_strided(a, p, 4, 100, 0);
    writes(b, p + 4, N - 4);
}

// No elements, no access.
static void nothing(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 4, 0, 8);
    writes(b, p, N);
    writes(a, p, 0);
}

// Even elements are ordered by an event, odd ones come later in the first stream and are not.
static void half_of_the_elements_ordered(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 4, N / 8, 8);
    order(a, b);
    writes_strided(a, p + 4, 4, N / 8, 8);
    reads(b, p, N);
}

// Only the even ones are read.
static void only_the_ordered_elements(void) {
    CUdeviceptr p = two_streams(N);
    writes_strided(a, p, 4, N / 8, 8);
    order(a, b);
    writes_strided(a, p + 4, 4, N / 8, 8);
    reads_strided(b, p, 4, N / 8, 8);
}

// The first half was written again and ordered; the second half was written again and was not.
static void half_written_again(void) {
    CUdeviceptr p = two_streams(N);
    CUstream c = make_nonblocking();
    writes(a, p, N);
    order(a, b);
    writes(b, p, N / 2);
    order(b, c);
    writes(a, p + N / 2, N / 2);
    reads(c, p, N);
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

// A 2D copy does not touch what is between the ends of its rows and the pitch.
static void behind_the_rows_of_a_copy(void) {
    CUdeviceptr p = two_streams(64 * 8), q = alloc(64 * 8);
    const CUDA_MEMCPY2D copy = rows(p, q, 64, 40, 8);
    CHECK(cuMemcpy2DAsync(&copy, a));
    writes_strided(b, p + 40, 24, 8, 64);
}

// It does touch the last byte of its last row.
static void last_byte_of_a_copy(void) {
    CUdeviceptr p = two_streams(64 * 8), q = alloc(64 * 8);
    const CUDA_MEMCPY2D copy = rows(p, q, 64, 40, 8);
    CHECK(cuMemcpy2DAsync(&copy, a));
    reads(b, p + 7 * 64 + 39, 1);
}

// It reads its source: a write there races.
static void source_of_a_copy(void) {
    CUdeviceptr p = two_streams(64 * 8), q = alloc(64 * 8);
    const CUDA_MEMCPY2D copy = rows(p, q, 64, 40, 8);
    CHECK(cuMemcpy2DAsync(&copy, a));
    writes(b, q + 64, 1);
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

// A 2D fill touches `width` elements of each row.
static void behind_the_rows_of_a_fill(void) {
    CUdeviceptr p = two_streams(64 * 8);
    CHECK(cuMemsetD2D32Async(p, 64, 1, 10, 8, a));
    writes_strided(b, p + 40, 24, 8, 64);
}

// Of 4 bytes each.
static void last_element_of_a_fill(void) {
    CUdeviceptr p = two_streams(64 * 8);
    CHECK(cuMemsetD2D32Async(p, 64, 1, 10, 8, a));
    reads(b, p + 39, 1);
}

static void run_nothing(void *data) { (void)data; }

// A kernel on `rows` rows of `columns` elements of 4 bytes with steps between them; only claimed.
static void matrix(CUstream stream, CUdeviceptr at, int64_t rows, int64_t row_step, int64_t columns,
                   int64_t column_step) {
    cudasim_access access = range(at, 4, CUDASIM_WRITE);
    access.ndim = 2;
    access.count[0] = rows;
    access.stride[0] = row_step;
    access.count[1] = columns;
    access.stride[1] = column_step;
    CHECK(cudasim_launch(stream, "matrix", run_nothing, NULL, 0, &access, 1));
}

// Even columns of all rows, and odd columns of all rows.
static void columns_in_turn(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p, 8, 64, 8, 8);
    matrix(b, p + 4, 8, 64, 8, 8);
}

// The fields of a chess board: black ones and white ones.
static void chess_board(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p, 4, 128, 8, 8);
    matrix(a, p + 64 + 4, 4, 128, 8, 8);
    matrix(b, p + 4, 4, 128, 8, 8);
    matrix(b, p + 64, 4, 128, 8, 8);
}

// Both take the black ones of the last row.
static void chess_board_with_a_wrong_row(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p, 4, 128, 8, 8);
    matrix(a, p + 64 + 4, 4, 128, 8, 8);
    matrix(b, p + 4, 4, 128, 8, 8);
    matrix(b, p + 7 * 64 + 4, 1, 128, 8, 8);
}

// Tiles that touch at a corner.
static void tiles(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p, 4, 64, 8, 4);
    matrix(b, p + 4 * 64 + 32, 4, 64, 8, 4);
}

// Tiles that share the element at the corner.
static void tiles_with_a_common_corner(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p, 5, 64, 9, 4);
    matrix(b, p + 4 * 64 + 32, 4, 64, 8, 4);
}

// The upper left tile, written from its last element backwards; the lower right one from its first.
static void tiles_backwards(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p + 3 * 64 + 28, 4, -64, 8, -4);
    matrix(b, p + 4 * 64 + 32, 4, 64, 8, 4);
}

// Backwards it comes to the first element.
static void first_element_of_a_tile_backwards(void) {
    CUdeviceptr p = two_streams(64 * 8);
    matrix(a, p + 3 * 64 + 28, 4, -64, 8, -4);
    reads(b, p + 3, 1);
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
    CORRECT(halves),
    RACY(halves_with_a_common_byte),
    CORRECT(adjacent_bytes),
    RACY(the_same_byte),
    RACY(one_inside_the_other),
    RACY(overlapping_ends),
    CORRECT(two_allocations),
    CORRECT(hole),
    CORRECT(even_and_odd),
    RACY(even_and_even),
    RACY(elements_that_are_too_wide),
    RACY(steps_that_meet),
    CORRECT(steps_that_never_meet),
    CORRECT(steps_that_end_before_they_meet),
    CORRECT(range_between_blocks),
    RACY(range_into_a_block),
    CORRECT(left_and_right_columns),
    RACY(row_and_column),
    CORRECT(row_and_column_above),
    RACY(backwards),
    CORRECT(backwards_and_above),
    CORRECT(stride_of_zero),
    CORRECT(nothing),
    RACY(half_of_the_elements_ordered),
    CORRECT(only_the_ordered_elements),
    RACY(half_written_again),
    CORRECT(behind_the_rows_of_a_copy),
    RACY(last_byte_of_a_copy),
    RACY(source_of_a_copy),
    CORRECT(two_copies_side_by_side),
    RACY(two_copies_with_common_rows),
    CORRECT(behind_the_rows_of_a_fill),
    RACY(last_element_of_a_fill),
    CORRECT(columns_in_turn),
    CORRECT(chess_board),
    RACY(chess_board_with_a_wrong_row),
    CORRECT(tiles),
    RACY(tiles_with_a_common_corner),
    CORRECT(tiles_backwards),
    RACY(first_element_of_a_tile_backwards),
    CORRECT(many_small_writes),
    RACY(many_small_writes_but_one),
    END_OF_PROGRAMS,
};
