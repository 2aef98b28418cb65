/* Parts of an array: addresses, shapes and strides; masks; bit fields; handles; what is refused;
 * the life of the owner.
 *
 * run: plain asan valgrind */
#include "tests.h"
#include <cai/unstable/slice.h>

static int destroyed;

/* An array of its own, which each row changes before it is cut. */
static cai_array a, mask;

static void start(const char *row) {
    test_row = row;
    a = valid_array();
    mask = valid_array();
    set_typestr(&mask, "|b1");
    destroyed = 0;
    a.owner = counting_owner(&destroyed);
}

/* Cuts the array and gives the first reference back: the part keeps the owner alive. */
static cai_array cut(int32_t dimension, int64_t first, int64_t stop, int64_t step) {
    cai_array part = CAI_ARRAY_INIT;
    cai_error error;
    cai_status status = cai_unstable_array_slice(&a, dimension, first, stop, step, &part, &error);
    if (status != CAI_OK) FAIL("%s", error.message);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&part, CAI_CHECK_LAYOUT, &error));
    ASSERT(part.struct_size == sizeof part && part.ndim == a.ndim && part.flags == a.flags);
    ASSERT(part.stream == a.stream && part.event == a.event && part.context == a.context);
    ASSERT(part.device.type == a.device.type && part.device.id == a.device.id);
    ASSERT(part.version == a.version && part.dtype_code == a.dtype_code);
    ASSERT(part.shape != a.shape && part.owner != a.owner && destroyed == 0);
    cai_owner_release(a.owner);
    ASSERT(destroyed == 0);
    return part;
}

static void end(cai_array *part) {
    cai_array_release(part);
    ASSERT(destroyed == 1);
}

/* The part begins so many bytes behind the array, has this shape, and these strides. */
static void check(cai_array part, int64_t offset, int64_t rows, int64_t columns, int64_t row,
                  int64_t column) {
    int64_t strides[2];
    ASSERT((char *)part.data == (char *)a.data + offset);
    ASSERT(part.shape[0] == rows && part.shape[1] == columns);
    ASSERT_STATUS(CAI_OK, cai_array_strides(&part, strides, 2, NULL));
    if (rows > 1) ASSERT(strides[0] == row);
    if (columns > 1) ASSERT(strides[1] == column);
    end(&part);
}

static void check_empty(cai_array part, int64_t rows, int64_t columns) {
    ASSERT(part.data == NULL && part.byte_offset == 0);
    ASSERT(part.shape[0] == rows && part.shape[1] == columns);
    end(&part);
}

#define CUT(change, ...) (start(#change #__VA_ARGS__), (void)(change), cut(__VA_ARGS__))

static const int64_t back[2] = {-16, -4}, zero[2] = {0, 4}, far[2] = {INT64_MAX / 2, 4},
                     none[2] = {3, 0}, one_row[2] = {1, 4}, odd[2] = {3, 8}, wide[2] = {4, 16};

TEST(places) {
    check(CUT(0, 0, 0, 3, 1), 0, 3, 4, 16, 4);
    check(CUT(0, 0, 1, 3, 1), 16, 2, 4, 16, 4);
    check(CUT(0, 1, 1, 3, 1), 4, 3, 2, 16, 4);
    check(CUT(0, 1, 0, 4, 2), 0, 3, 2, 16, 8);
    check(CUT(0, 1, 0, 4, 3), 0, 3, 2, 16, 12);
    check(CUT(0, 1, 3, 4, INT64_MAX), 12, 3, 1, 16, 4);
    check(CUT(0, 0, 0, 3, 2), 0, 2, 4, 32, 4);
    check(CUT((a.strides = back, a.data = &test_data[11]), 0, 1, 3, 1), -16, 2, 4, -16, -4);
    check(CUT((a.strides = back, a.data = &test_data[11]), 1, 1, 4, 2), -4, 3, 2, -16, -8);
    check(CUT(a.strides = zero, 0, 2, 3, 1), 0, 1, 4, 0, 4);
    check(CUT((a.shape = one_row, a.strides = far), 0, 0, 1, 7), 0, 1, 4, 0, 4);
    check_empty(CUT(0, 0, 3, 3, 1), 0, 4);
    check_empty(CUT(0, 1, 2, 2, 1), 3, 0);
    check_empty(CUT((a.shape = none, a.data = NULL), 0, 1, 3, 1), 2, 0);
    check_empty(CUT((a.shape = none, a.data = NULL, a.strides = far), 0, 0, 3, 2), 2, 0);
}

/* Without gaps as before: strides are stated only where the array states them, or must. */
TEST(stated_strides) {
    cai_array part = CUT(0, 0, 1, 3, 1);
    ASSERT(part.strides == NULL);
    end(&part);
    part = CUT(a.shape = one_row, 1, 1, 3, 1);
    ASSERT(part.strides == NULL);
    end(&part);
    part = CUT(0, 1, 1, 3, 1);
    ASSERT(part.strides != NULL);
    end(&part);
    part = CUT(0, 0, 0, 3, 2);
    ASSERT(part.strides != NULL);
    end(&part);
}

/* A part of a part, whose array is released first. */
TEST(nested) {
    cai_array rows = CUT(a.flags = CAI_ARRAY_READONLY, 0, 1, 3, 1), part = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_slice(&rows, 1, 1, 4, 2, &part, NULL));
    cai_array_release(&rows);
    ASSERT(destroyed == 0 && part.data == &test_data[5] && part.flags == CAI_ARRAY_READONLY);
    ASSERT(part.shape[0] == 2 && part.shape[1] == 2);
    ASSERT(part.strides[0] == 16 && part.strides[1] == 8);
    end(&part);
}

/* An offset, where the address is a handle. */
TEST(handles) {
    cai_array part = CUT((a.device.type = CAI_DEVICE_OPENCL, a.byte_offset = 8), 0, 1, 3, 1);
    ASSERT(part.data == a.data && part.byte_offset == 24);
    end(&part);
    part = CUT((a.device.type = CAI_DEVICE_OPENCL, a.byte_offset = 8), 0, 3, 3, 1);
    check_empty(part, 0, 4);
}

TEST(masks) {
    static const int64_t of_columns[1] = {4}, of_rows[2] = {3, 1};
    int of_mask = 0;
    cai_array part, inner;
    mask.owner = counting_owner(&of_mask);
    {
        cai_owner *owner = mask.owner;
        part = CUT((mask.owner = owner, a.mask = &mask), 0, 1, 3, 1);
        ASSERT((char *)part.mask->data == (char *)mask.data + 4 && part.mask->shape[0] == 2);
        cai_owner_release(owner);
        ASSERT(of_mask == 0);
        end(&part);
        ASSERT(of_mask == 1);
    }
    /* Masks without a dimension, or with one element along it, are the same for each part. */
    part = CUT((a.mask = &mask, mask.ndim = 1, mask.shape = of_columns), 0, 1, 3, 1);
    ASSERT(part.mask->data == mask.data && part.mask->ndim == 1 && part.mask->shape[0] == 4);
    end(&part);
    part = CUT((a.mask = &mask, mask.ndim = 1, mask.shape = of_columns), 1, 1, 3, 1);
    ASSERT((char *)part.mask->data == (char *)mask.data + 1 && part.mask->shape[0] == 2);
    end(&part);
    part = CUT((a.mask = &mask, mask.shape = of_rows), 1, 1, 3, 1);
    ASSERT(part.mask->data == mask.data && part.mask->shape[0] == 3);
    end(&part);
    /* A mask of a mask, and a mask without elements. */
    start("inner"), inner = mask, inner.ndim = 1, inner.shape = of_columns;
    mask.mask = &inner, a.mask = &mask;
    part = cut(1, 2, 4, 1);
    ASSERT((char *)part.mask->data == (char *)mask.data + 2 && part.mask->shape[0] == 3);
    ASSERT((char *)part.mask->mask->data == (char *)inner.data + 2);
    ASSERT(part.mask->mask->shape[0] == 2);
    end(&part);
    part = CUT(a.mask = &mask, 0, 1, 1, 1);
    ASSERT(part.mask->data == NULL && part.mask->shape[0] == 0);
    end(&part);
}

TEST(bits) {
    cai_array part = CUT((set_typestr(&a, "|t1"), a.shape = odd), 0, 1, 3, 1);
    ASSERT((char *)part.data == (char *)a.data + 1 && part.shape[0] == 2 && part.strides == NULL);
    end(&part);
    part = CUT((set_typestr(&a, "|t1"), a.shape = odd), 0, 2, 3, 5);
    ASSERT((char *)part.data == (char *)a.data + 2 && part.shape[0] == 1);
    end(&part);
    /* A part without elements has no first bit. */
    check_empty(CUT(set_typestr(&a, "|t1"), 1, 3, 3, 1), 3, 0);
    /* The mask's bits. */
    part = CUT((a.shape = wide, a.mask = &mask, mask.shape = wide, set_typestr(&mask, "|t1")), 0, 1,
               2, 1);
    ASSERT((char *)part.mask->data == (char *)mask.data + 2);
    end(&part);
}

static void refused(cai_status status, const char *field, const char *part, int32_t dimension,
                    int64_t first, int64_t stop, int64_t step) {
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    ASSERT_STATUS(status, cai_unstable_array_slice(&a, dimension, first, stop, step, &out, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT_CONTAINS(error.message, part);
    ASSERT(out.owner == NULL && out.data == NULL);
    if (a.owner != NULL) {
        ASSERT(destroyed == 0);
        cai_owner_release(a.owner);
        ASSERT(destroyed == 1);
    }
}

#define REFUSED(change, ...) (start(#change #__VA_ARGS__), (void)(change), refused(__VA_ARGS__))

TEST(refusals) {
    cai_owner *owner;
    REFUSED(0, CAI_ERR_ARGUMENT, "dimension", "found -1, expected at least 0 and below ndim, 2", -1,
            0, 1, 1);
    REFUSED(0, CAI_ERR_ARGUMENT, "dimension", "found 2", 2, 0, 1, 1);
    REFUSED((a.ndim = 0, a.shape = NULL), CAI_ERR_ARGUMENT, "dimension", "below ndim, 0", 0, 0, 1,
            1);
    REFUSED(0, CAI_ERR_ARGUMENT, "start", "found -1, expected 0 to 3", 0, -1, 2, 1);
    REFUSED(0, CAI_ERR_ARGUMENT, "start", "found 4", 0, 4, 4, 1);
    REFUSED(0, CAI_ERR_ARGUMENT, "stop", "found 0, expected 1 to 3", 0, 1, 0, 1);
    REFUSED(0, CAI_ERR_ARGUMENT, "stop", "found 4", 0, 1, 4, 1);
    REFUSED(0, CAI_ERR_ARGUMENT, "stop", "found -1", 0, 1, -1, 1);
    REFUSED(0, CAI_ERR_ARGUMENT, "step", "found 0, expected at least 1", 0, 0, 1, 0);
    REFUSED(0, CAI_ERR_ARGUMENT, "step", "found -1", 0, 0, 1, -1);
    REFUSED(a.stream = 0, CAI_ERR_STREAM_ZERO, "stream", "found 0", 0, 0, 1, 1);
    REFUSED((set_typestr(&a, "|t1"), a.shape = odd), CAI_ERR_BIT_STRIDES, "typestr",
            "elements of 1 bit, and a part with gaps", 1, 0, 4, 1);
    REFUSED((set_typestr(&a, "|t1"), a.shape = odd), CAI_ERR_BIT_STRIDES, "typestr", "gaps", 0, 0,
            3, 2);
    REFUSED(set_typestr(&a, "|t1"), CAI_ERR_CONVERT_BIT_OFFSET, "start", "1, which is bit 4", 0, 1,
            2, 1);
    REFUSED((a.mask = &mask, set_typestr(&mask, "|t1")), CAI_ERR_CONVERT_BIT_OFFSET, "mask.start",
            "bit 4", 0, 1, 2, 1);
    start("borrowed");
    owner = a.owner;
    a.owner = NULL;
    refused(CAI_ERR_BORROWED, "owner", "", 0, 0, 1, 1);
    ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_unstable_array_slice(&a, 0, 0, 1, 1, &a, NULL));
    cai_owner_release(owner);
    /* The owner of a mask that cannot be released. */
    start("mask's owner");
    {
        static const cai_owner_ops broken = {0};
        cai_owner of_mask = {&broken};
        mask.owner = &of_mask;
        a.mask = &mask;
        refused(CAI_ERR_OWNER_OPS, "mask.owner.ops.struct_size", "", 0, 0, 1, 1);
    }
}
