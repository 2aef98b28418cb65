/* Counts, sizes, spans, contiguity, strides and overlap on hand-picked arrays. The property tests
 * hold the same functions against a big-integer model.
 * run: plain asan valgrind */
#include "tests.h"

static cai_array make(int32_t ndim, const int64_t *shape, const int64_t *strides,
                      const char *typestr) {
    cai_array array = valid_array();
    int32_t d;
    array.ndim = ndim;
    array.shape = shape;
    array.strides = strides;
    set_typestr(&array, typestr);
    for (d = 0; d < ndim; d++)
        array.data = shape[d] == 0 ? NULL : array.data;
    return array;
}

enum { NEITHER, C = CAI_LAYOUT_C_CONTIGUOUS, F = CAI_LAYOUT_F_CONTIGUOUS, BOTH = C | F };

static void is(cai_array a, int64_t count, int64_t nbytes, int64_t lower, int64_t upper,
               uint32_t flags) {
    static const cai_layout zeros;
    cai_layout layout;
    cai_dtype dtype;
    memset(&layout, 0x55, sizeof(layout));
    ASSERT_STATUS(CAI_OK, cai_array_layout(&a, &layout, NULL));
    ASSERT(layout.count == count && layout.nbytes == nbytes);
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&a, &dtype, NULL));
    ASSERT(layout.itemsize == dtype.itemsize);
    ASSERT(layout.lower == lower && layout.upper == upper && layout.flags == flags);
    /* What this version does not define is zero. */
    layout.count = layout.nbytes = layout.lower = layout.upper = layout.itemsize = 0;
    layout.flags = 0;
    ASSERT(memcmp(&layout, &zeros, sizeof(layout)) == 0);
}

/* cai_array_layout fails with the status and field of cai_array_validate, and writes nothing. */
static void fails(cai_array a, cai_status status, const char *field) {
    cai_layout layout, before;
    cai_error error, validated;
    memset(&layout, 0x55, sizeof(layout));
    before = layout;
    ASSERT_STATUS(status, cai_array_layout(&a, &layout, &error));
    ASSERT_STATUS(status, cai_array_validate(&a, CAI_CHECK_LAYOUT, &validated));
    ASSERT_TEXT(field, error.field);
    ASSERT_TEXT(validated.message, error.message);
    ASSERT(memcmp(&layout, &before, sizeof(layout)) == 0);
}

/* The rows: extents, strides and a type; and the count, the bytes of the elements, the span from
 * the first byte to behind the last, and the order of the elements, or what is wrong. */
#define IS(ndim, shape, strides, typestr, ...)                \
    (test_row = #ndim ", " #shape ", " #strides ", " typestr, \
     is(make(ndim, shape, strides, typestr), __VA_ARGS__))
#define FAILS(ndim, shape, strides, typestr, status, field)   \
    (test_row = #ndim ", " #shape ", " #strides ", " typestr, \
     fails(make(ndim, shape, strides, typestr), status, field))

TEST(measures) {
    static const int64_t s34[2] = {3, 4}, c34[2] = {16, 4}, f34[2] = {4, 12},
                         reversed[2] = {-16, -4}, rows[2] = {0, 4}, pitched[2] = {512, 4};
    static const int64_t s134[3] = {1, 3, 4}, odd[3] = {-999, 16, 4}, s0[3] = {3, 0, 4},
                         wild[3] = {7, -9, 0}, one[2] = {1, 1}, far[2] = {INT64_MIN, INT64_MAX};
    static const int64_t s5[1] = {5}, s8[1] = {8}, s9[1] = {9}, unaligned[1] = {3};
    IS(2, s34, NULL, "<f4", 12, 48, 0, 48, C);
    IS(2, s34, c34, "<f4", 12, 48, 0, 48, C);
    IS(2, s34, f34, "<f4", 12, 48, 0, 48, F);
    IS(2, s34, reversed, "<f4", 12, 48, -44, 4, NEITHER);
    IS(2, s34, rows, "<f4", 12, 48, 0, 16, NEITHER);
    IS(2, s34, pitched, "<f4", 12, 48, 0, 1040, NEITHER);
    IS(1, s5, unaligned, "|i1", 5, 5, 0, 13, NEITHER);
    /* The stride of an extent of one does not matter, whatever it is. */
    IS(3, s134, odd, "<f4", 12, 48, 0, 48, C);
    IS(2, one, far, "<f4", 1, 4, 0, 4, BOTH);
    /* Nor do those of an empty array. */
    IS(3, s0, wild, "<f4", 0, 0, 0, 0, BOTH);
    IS(3, s0, NULL, "<f4", 0, 0, 0, 0, BOTH);
    /* No dimensions: one element. */
    IS(0, NULL, NULL, "<c16", 1, 16, 0, 16, BOTH);
    IS(0, NULL, s5, "<c16", 1, 16, 0, 16, BOTH);
    /* Bit fields are packed, and rounded up once. */
    IS(2, s34, NULL, "|t1", 12, 2, 0, 2, C);
    IS(1, s5, NULL, "|t3", 5, 2, 0, 2, BOTH);
    /* Whole bytes of them need no further byte. */
    IS(1, s8, NULL, "|t1", 8, 1, 0, 1, BOTH);
    IS(1, s8, NULL, "|t3", 8, 3, 0, 3, BOTH);
    IS(1, s9, NULL, "|t1", 9, 2, 0, 2, BOTH);
    IS(1, s5, unaligned, "|t16", 5, 10, 0, 14, NEITHER);
}

TEST(overflows) {
    static const int64_t big[3] = {INT64_MAX, 2, 1}, fits[2] = {INT64_MAX, 1}, zeros[2] = {0, 0};
    static const int64_t edge[1] = {INT64_MAX}, reach[2] = {INT64_MAX, INT64_MIN}, two[2] = {2, 2};
    int64_t twos[CAI_MAX_NDIM];
    for (int i = 0; i < CAI_MAX_NDIM; i++)
        twos[i] = i < 62 ? 2 : 1;
    FAILS(3, big, NULL, "|i1", CAI_ERR_SIZE_OVERFLOW, "shape[1]");
    IS(2, fits, NULL, "|i1", INT64_MAX, INT64_MAX, 0, INT64_MAX, BOTH);
    FAILS(2, fits, NULL, "<i2", CAI_ERR_SIZE_OVERFLOW, "shape");
    /* Broadcast: reaches two bytes, but its elements' bytes overflow. */
    FAILS(2, fits, zeros, "<i2", CAI_ERR_SIZE_OVERFLOW, "shape");
    IS(CAI_MAX_NDIM, twos, NULL, "|i1", INT64_C(1) << 62, INT64_C(1) << 62, 0, INT64_C(1) << 62, C);
    twos[62] = 2;
    FAILS(CAI_MAX_NDIM, twos, NULL, "|i1", CAI_ERR_SIZE_OVERFLOW, "shape[62]");
    /* An empty array has no elements, however long its other extents are. */
    twos[63] = 0;
    IS(CAI_MAX_NDIM, twos, NULL, "|i1", 0, 0, 0, 0, BOTH);
    FAILS(1, edge, edge, "|i1", CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    /* 2^63 - 1 up and 2^63 down: the first is one too many for the end. */
    FAILS(2, two, reach, "|i1", CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    /* 2^63 - 1 elements of 9 bits are 10376293541461622784 bytes. */
    FAILS(1, edge, NULL, "|t9", CAI_ERR_SIZE_OVERFLOW, "shape");
    IS(1, edge, NULL, "|t7", INT64_MAX, INT64_C(8070450532247928832), 0,
       INT64_C(8070450532247928832), BOTH);
}

/* An array that breaks any rule has no layout, also where the rule is about something else. */
TEST(unsound) {
    static const int64_t negative[1] = {-1};
    cai_array a, mask = valid_array();
#define UNSOUND(change, status, field) \
    (test_row = #change, a = valid_array(), (change), fails(a, status, field))
    UNSOUND(a.stream = 0, CAI_ERR_STREAM_ZERO, "stream");
    UNSOUND(a.flags = 0x100, CAI_ERR_FLAGS, "flags");
    UNSOUND(a.data = NULL, CAI_ERR_DATA_NULL, "data");
    UNSOUND(a.data = (void *)UINTPTR_MAX, CAI_ERR_ADDRESS_RANGE, "data");
    UNSOUND(a.mask = &mask, CAI_ERR_MASK_TYPE, "mask.typestr");
    UNSOUND((a.ndim = 1, a.shape = negative), CAI_ERR_SHAPE_NEGATIVE, "shape[0]");
    UNSOUND(a.struct_size = 8, CAI_ERR_STRUCT_SIZE, "struct_size");
}

TEST(strides) {
    static const int64_t shape[3] = {2, 0, 5}, given[3] = {7, -8, 9};
    int64_t out[4] = {-1, -1, -1, -1};
    cai_array a = make(3, shape, NULL, "<f8");
    cai_error error;
    test_row = "cai_array_strides";
    ASSERT_STATUS(CAI_OK, cai_array_strides(&a, out, 4, NULL));
    ASSERT(out[0] == 40 && out[1] == 40 && out[2] == 8 && out[3] == -1);
    ASSERT_STATUS(CAI_ERR_BUFFER_SIZE, cai_array_strides(&a, out, 2, &error));
    ASSERT_TEXT("capacity", error.field);
    a.strides = given;
    ASSERT_STATUS(CAI_OK, cai_array_strides(&a, out, 3, NULL));
    ASSERT(out[0] == 7 && out[1] == -8 && out[2] == 9);
    a = make(0, NULL, NULL, "<f8");
    ASSERT_STATUS(CAI_OK, cai_array_strides(&a, NULL, 0, NULL));
    a = make(3, shape, NULL, "|t1");
    ASSERT_STATUS(CAI_ERR_BIT_STRIDES, cai_array_strides(&a, out, 3, NULL));
}

/* What a call with wrong arguments does not touch stays 99. */
static void strides_of(const char *row, cai_status status, char order, int32_t ndim,
                       const int64_t *shape, int64_t itemsize, int64_t a, int64_t b, int64_t c) {
    int64_t out[3] = {99, 99, 99};
    test_row = row;
    ASSERT_STATUS(status,
                  cai_layout_strides(order, shape, ndim, itemsize, ndim == 0 ? NULL : out, NULL));
    ASSERT(out[0] == a && out[1] == b && out[2] == c);
}

TEST(layout_strides) {
    static const int64_t s205[3] = {2, 0, 5}, negative[3] = {7, -8, 9}, big[3] = {1, INT64_MAX, 2};
    strides_of("C order", CAI_OK, 'C', 3, s205, 2, 10, 10, 2);
    strides_of("F order", CAI_OK, 'F', 3, s205, 2, 2, 4, 4);
    strides_of("no dimensions", CAI_OK, 'F', 0, NULL, 2, 99, 99, 99);
    strides_of("the longest", CAI_OK, 'F', 3, big, 1, 1, 1, INT64_MAX);
    strides_of("longer", CAI_ERR_SIZE_OVERFLOW, 'C', 3, big, 1, 99, 99, 99);
    strides_of("another order", CAI_ERR_NEWER_CALLER, 'A', 3, s205, 1, 99, 99, 99);
    strides_of("no bytes", CAI_ERR_ARGUMENT, 'C', 3, s205, 0, 99, 99, 99);
    strides_of("ndim -1", CAI_ERR_NDIM, 'C', -1, s205, 1, 99, 99, 99);
    strides_of("ndim 65", CAI_ERR_NDIM, 'C', 65, s205, 1, 99, 99, 99);
    strides_of("no extents", CAI_ERR_SHAPE_NULL, 'C', 1, NULL, 1, 99, 99, 99);
    strides_of("an extent of -8", CAI_ERR_SHAPE_NEGATIVE, 'C', 3, negative, 1, 99, 99, 99);
}

static void overlap(bool expected, const cai_array *a, const cai_array *b) {
    bool got = !expected;
    ASSERT_STATUS(CAI_OK, cai_array_may_overlap(a, b, &got, NULL));
    ASSERT(got == expected);
    got = !expected;
    ASSERT_STATUS(CAI_OK, cai_array_may_overlap(b, a, &got, NULL));
    ASSERT(got == expected);
}

TEST(overlaps) {
    static const int64_t four[1] = {4}, none[1] = {0}, back[1] = {-4};
    const cai_array floats = make(1, four, NULL, "<f4");
    cai_array a, b, handle = floats;
    cai_error error;
    bool truth = false;
    handle.device.type = CAI_DEVICE_OPENCL;
    /* The rows: how the second array differs from the first. */
#define OVERLAP(expected, both, change) \
    (test_row = #both ", " #change, a = b = both, (change), overlap(expected, &a, &b))
    OVERLAP(true, floats, b.data = test_data);
    OVERLAP(false, floats, b.data = test_data + 4);
    OVERLAP(true, floats, b.data = (char *)test_data + 15);
    OVERLAP(false, floats, (b.data = test_data + 7, b.strides = back));
    OVERLAP(true, floats, (b.data = test_data + 6, b.strides = back));
    OVERLAP(false, floats, (b.data = NULL, b.shape = none));
    /* Opaque handles: one buffer is compared by offsets, two buffers may be windows of one. */
    OVERLAP(false, handle, b.byte_offset = 16);
    OVERLAP(true, handle, b.byte_offset = 12);
    OVERLAP(true, handle, (b.data = test_data + 1000, b.byte_offset = 12));
    /* Offsets of different handles are not comparable, also where the ranges are apart. */
    OVERLAP(true, handle, (b.data = test_data + 1000, b.byte_offset = 4096));
    /* Without elements there are no bytes, whatever the buffer is. */
    OVERLAP(false, handle, (b.data = NULL, b.shape = none));
    OVERLAP(true, handle, (b.data = test_data + 1000, b.device.type = CAI_DEVICE_CUDA));
    b.byte_offset = 4;
    ASSERT_STATUS(CAI_ERR_BYTE_OFFSET, cai_array_may_overlap(&a, &b, &truth, &error));
    ASSERT_TEXT("b.byte_offset", error.field);
    a.ndim = -1;
    ASSERT_STATUS(CAI_ERR_NDIM, cai_array_may_overlap(&a, &b, &truth, &error));
    ASSERT_TEXT("a.ndim", error.field);
}
