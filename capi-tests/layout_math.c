/* Counts, sizes, spans, contiguity, strides and overlap on hand-picked arrays. The property tests
 * hold the same functions against a big-integer model.
 * run: plain asan valgrind */
#include "cai_test.h"

static cai_array make(int32_t ndim, const int64_t *shape, const int64_t *strides,
                      const char *typestr) {
    cai_array array = valid_array();
    int32_t d;
    array.ndim = ndim;
    array.shape = shape;
    array.strides = strides;
    set_typestr(&array, typestr);
    for (d = 0; d < ndim; d++) {
        array.data = shape[d] == 0 ? NULL : array.data;
    }
    return array;
}

static void is(const cai_array *a, int64_t count, int64_t nbytes, int64_t lower, int64_t upper,
               bool c, bool f) {
    static const cai_layout zeros;
    cai_layout layout;
    memset(&layout, 0x55, sizeof(layout));
    ASSERT_STATUS(CAI_OK, cai_array_layout(a, &layout, NULL));
    ASSERT(layout.count == count && layout.nbytes == nbytes);
    ASSERT(layout.lower == lower && layout.upper == upper);
    ASSERT(layout.flags == (c ? CAI_LAYOUT_C_CONTIGUOUS : 0u) + (f ? CAI_LAYOUT_F_CONTIGUOUS : 0u));
    /* What this version does not define is zero. */
    layout.count = layout.nbytes = layout.lower = layout.upper = 0;
    layout.flags = 0;
    ASSERT(memcmp(&layout, &zeros, sizeof(layout)) == 0);
}

static void measures(void) {
    static const int64_t s34[2] = {3, 4}, c34[2] = {16, 4}, f34[2] = {4, 12},
                         reversed[2] = {-16, -4};
    static const int64_t s134[3] = {1, 3, 4}, odd[3] = {-999, 16, 4}, s0[3] = {3, 0, 4},
                         wild[3] = {7, -9, 0};
    static const int64_t rows[2] = {0, 4}, pitched[2] = {512, 4}, unaligned[1] = {3}, s5[1] = {5};
    static const int64_t one[2] = {1, 1}, far[2] = {INT64_MIN, INT64_MAX}, s8[1] = {8}, s9[1] = {9};
    cai_array a;

    a = make(2, s34, NULL, "<f4");
    is(&a, 12, 48, 0, 48, true, false);
    a = make(2, s34, c34, "<f4");
    is(&a, 12, 48, 0, 48, true, false);
    a = make(2, s34, f34, "<f4");
    is(&a, 12, 48, 0, 48, false, true);
    a = make(2, s34, reversed, "<f4");
    is(&a, 12, 48, -44, 4, false, false);
    a = make(2, s34, rows, "<f4");
    is(&a, 12, 48, 0, 16, false, false);
    a = make(2, s34, pitched, "<f4");
    is(&a, 12, 48, 0, 1040, false, false);
    /* The stride of an extent of one does not matter, whatever it is. */
    a = make(3, s134, odd, "<f4");
    is(&a, 12, 48, 0, 48, true, false);
    a = make(2, one, far, "<f4");
    is(&a, 1, 4, 0, 4, true, true);
    /* Nor do those of an empty array. */
    a = make(3, s0, wild, "<f4");
    is(&a, 0, 0, 0, 0, true, true);
    a = make(3, s0, NULL, "<f4");
    is(&a, 0, 0, 0, 0, true, true);
    a = make(1, s5, unaligned, "|i1");
    is(&a, 5, 5, 0, 13, false, false);
    /* No dimensions: one element. */
    a = make(0, NULL, NULL, "<c16");
    is(&a, 1, 16, 0, 16, true, true);
    a = make(0, NULL, s5, "<c16");
    is(&a, 1, 16, 0, 16, true, true);
    /* Bit fields are packed, and rounded up once. */
    a = make(2, s34, NULL, "|t1");
    is(&a, 12, 2, 0, 2, true, false);
    a = make(1, s5, NULL, "|t3");
    is(&a, 5, 2, 0, 2, true, true);
    /* Whole bytes of them need no further byte. */
    a = make(1, s8, NULL, "|t1");
    is(&a, 8, 1, 0, 1, true, true);
    a = make(1, s8, NULL, "|t3");
    is(&a, 8, 3, 0, 3, true, true);
    a = make(1, s9, NULL, "|t1");
    is(&a, 9, 2, 0, 2, true, true);
    a = make(1, s5, unaligned, "|t16");
    is(&a, 5, 10, 0, 14, false, false);
}

/* cai_array_layout fails with the same status and field as cai_array_validate, and writes nothing.
 */
static void fails(const cai_array *a, cai_status status, const char *field) {
    cai_layout layout, before;
    cai_error error, validated;
    memset(&layout, 0x55, sizeof(layout));
    before = layout;
    ASSERT_STATUS(status, cai_array_layout(a, &layout, &error));
    ASSERT_STATUS(status, cai_array_validate(a, CAI_CHECK_LAYOUT, &validated));
    ASSERT_TEXT(field, error.field);
    ASSERT_TEXT(validated.message, error.message);
    ASSERT(memcmp(&layout, &before, sizeof(layout)) == 0);
}

static int64_t count_of(const cai_array *a) {
    cai_layout layout;
    ASSERT_STATUS(CAI_OK, cai_array_layout(a, &layout, NULL));
    return layout.count;
}

static void overflows(void) {
    static const int64_t big[3] = {INT64_MAX, 2, 1}, fits[2] = {INT64_MAX, 1}, zeros[2] = {0, 0};
    static const int64_t edge[1] = {INT64_MAX}, reach[2] = {INT64_MAX, INT64_MIN}, two[2] = {2, 2};
    int64_t twos[CAI_MAX_NDIM], ones[CAI_MAX_NDIM];
    cai_array a = make(3, big, NULL, "|i1");
    cai_layout layout;
    int i;
    for (i = 0; i < CAI_MAX_NDIM; i++) {
        twos[i] = i < 62 ? 2 : 1;
        ones[i] = 1;
    }
    fails(&a, CAI_ERR_SIZE_OVERFLOW, "shape[1]");
    a = make(2, fits, NULL, "|i1");
    ASSERT_STATUS(CAI_OK, cai_array_layout(&a, &layout, NULL));
    ASSERT(layout.nbytes == INT64_MAX && layout.upper == INT64_MAX);
    a = make(2, fits, NULL, "<i2");
    fails(&a, CAI_ERR_SIZE_OVERFLOW, "shape");
    a.strides = zeros; /* broadcast: reaches two bytes, but its elements' bytes overflow */
    fails(&a, CAI_ERR_SIZE_OVERFLOW, "shape");
    a = make(CAI_MAX_NDIM, twos, NULL, "|i1");
    ASSERT(count_of(&a) == INT64_C(1) << 62);
    twos[62] = 2;
    fails(&a, CAI_ERR_SIZE_OVERFLOW, "shape[62]");
    twos[63] = 0; /* an empty array has no elements, however long its other extents are */
    a.data = NULL;
    ASSERT(count_of(&a) == 0);
    a = make(CAI_MAX_NDIM, ones, NULL, "|i1");
    ASSERT(count_of(&a) == 1);
    a = make(1, edge, edge, "|i1");
    fails(&a, CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    a = make(2, two, reach,
             "|i1"); /* 2^63 - 1 up and 2^63 down: the first is one too many for the end */
    fails(&a, CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    /* 2^63 - 1 elements of 9 bits are 10376293541461622784 bytes. */
    a = make(1, edge, NULL, "|t9");
    fails(&a, CAI_ERR_SIZE_OVERFLOW, "shape");
    a = make(1, edge, NULL, "|t7");
    ASSERT_STATUS(CAI_OK, cai_array_layout(&a, &layout, NULL));
    ASSERT(layout.nbytes == INT64_C(8070450532247928832));
}

/* An array that breaks any rule has no layout, also where the rule is about something else. */
static void unsound(void) {
    static const int64_t negative[1] = {-1};
    cai_array a = valid_array(), mask = valid_array();
    a.stream = 0;
    fails(&a, CAI_ERR_STREAM_ZERO, "stream");
    a = valid_array();
    a.flags = 0x100;
    fails(&a, CAI_ERR_FLAGS, "flags");
    a = valid_array();
    a.data = NULL;
    fails(&a, CAI_ERR_DATA_NULL, "data");
    a = valid_array();
    a.mask = &mask;
    fails(&a, CAI_ERR_MASK_TYPE, "mask.typestr");
    a = make(1, negative, NULL, "<f4");
    fails(&a, CAI_ERR_SHAPE_NEGATIVE, "shape[0]");
    a = valid_array();
    a.struct_size = 8;
    fails(&a, CAI_ERR_STRUCT_SIZE, "struct_size");
}

static void strides(void) {
    static const int64_t shape[3] = {2, 0, 5}, given[3] = {7, -8, 9}, big[3] = {1, INT64_MAX, 2};
    int64_t out[4] = {-1, -1, -1, -1};
    cai_array a = make(3, shape, NULL, "<f8");
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_array_strides(&a, 4, out, NULL));
    ASSERT(out[0] == 40 && out[1] == 40 && out[2] == 8 && out[3] == -1);
    ASSERT_STATUS(CAI_ERR_BUFFER_SIZE, cai_array_strides(&a, 2, out, &error));
    ASSERT_TEXT("capacity", error.field);
    a.strides = given;
    ASSERT_STATUS(CAI_OK, cai_array_strides(&a, 3, out, NULL));
    ASSERT(out[0] == 7 && out[1] == -8 && out[2] == 9);
    a = make(0, NULL, NULL, "<f8");
    ASSERT_STATUS(CAI_OK, cai_array_strides(&a, 0, NULL, NULL));
    a = make(3, shape, NULL, "|t1");
    ASSERT_STATUS(CAI_ERR_BIT_STRIDES, cai_array_strides(&a, 3, out, NULL));

    ASSERT_STATUS(CAI_OK, cai_layout_strides('C', 3, shape, 2, out, NULL));
    ASSERT(out[0] == 10 && out[1] == 10 && out[2] == 2);
    ASSERT_STATUS(CAI_OK, cai_layout_strides('F', 3, shape, 2, out, NULL));
    ASSERT(out[0] == 2 && out[1] == 4 && out[2] == 4);
    ASSERT_STATUS(CAI_OK, cai_layout_strides('F', 0, NULL, 2, NULL, NULL));
    ASSERT_STATUS(CAI_OK, cai_layout_strides('F', 3, big, 1, out, NULL));
    ASSERT(out[0] == 1 && out[1] == 1 && out[2] == INT64_MAX);
    out[0] = 99;
    ASSERT_STATUS(CAI_ERR_SIZE_OVERFLOW, cai_layout_strides('C', 3, big, 1, out, NULL));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_layout_strides('A', 3, shape, 1, out, NULL));
    ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_layout_strides('C', 3, shape, 0, out, NULL));
    ASSERT_STATUS(CAI_ERR_NDIM, cai_layout_strides('C', -1, shape, 1, out, NULL));
    ASSERT_STATUS(CAI_ERR_NDIM, cai_layout_strides('C', 65, shape, 1, out, NULL));
    ASSERT_STATUS(CAI_ERR_SHAPE_NULL, cai_layout_strides('C', 1, NULL, 1, out, NULL));
    ASSERT_STATUS(CAI_ERR_SHAPE_NEGATIVE, cai_layout_strides('C', 3, given, 1, out, NULL));
    ASSERT(out[0] == 99);
}

static void overlap(bool expected, const cai_array *a, const cai_array *b) {
    bool got = !expected;
    ASSERT_STATUS(CAI_OK, cai_array_may_overlap(a, b, &got, NULL));
    ASSERT(got == expected);
    got = !expected;
    ASSERT_STATUS(CAI_OK, cai_array_may_overlap(b, a, &got, NULL));
    ASSERT(got == expected);
}

static void overlaps(void) {
    static const int64_t four[1] = {4}, none[1] = {0}, back[1] = {-4};
    cai_array a = make(1, four, NULL, "<f4"), b = a;
    cai_error error;
    bool truth = false;
    overlap(true, &a, &b);
    b.data = test_data + 4;
    overlap(false, &a, &b);
    b.data = (char *)test_data + 15;
    overlap(true, &a, &b);
    b.data = test_data + 7;
    b.strides = back;
    overlap(false, &a, &b);
    b.data = test_data + 6;
    overlap(true, &a, &b);
    b = a;
    b.shape = none;
    b.data = NULL;
    overlap(false, &a, &b);
    /* Opaque handles: one buffer is compared by offsets, two buffers may be windows of one. */
    a.device.type = b.device.type = CAI_DEVICE_OPENCL;
    b.shape = four;
    b.data = a.data;
    b.byte_offset = 16;
    overlap(false, &a, &b);
    b.byte_offset = 12;
    overlap(true, &a, &b);
    b.data = test_data + 1000;
    overlap(true, &a, &b);
    /* Offsets of different handles are not comparable, also where the ranges are apart. */
    b.byte_offset = 4096;
    overlap(true, &a, &b);
    /* A handle without elements has no bytes, wherever its offset is. */
    b.shape = none;
    b.data = NULL;
    b.byte_offset = 4;
    overlap(false, &a, &b);
    b.shape = four;
    b.data = test_data + 1000;
    b.device.type = CAI_DEVICE_CUDA;
    ASSERT_STATUS(CAI_ERR_BYTE_OFFSET, cai_array_may_overlap(&a, &b, &truth, &error));
    ASSERT_TEXT("b.byte_offset", error.field);
    b.byte_offset = 0;
    overlap(true, &a, &b);
    a.ndim = -1;
    ASSERT_STATUS(CAI_ERR_NDIM, cai_array_may_overlap(&a, &b, &truth, &error));
    ASSERT_TEXT("a.ndim", error.field);
}

int main(void) {
    measures();
    overflows();
    unsound();
    strides();
    overlaps();
    return 0;
}
