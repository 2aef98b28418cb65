/* Imports of DLPack tensors whose elements have several lanes.
 * run: plain asan valgrind */
#include "dlpack_test.h"

#include <cai/unstable/dlpack.h>

static void with_lanes(unsigned code, unsigned bits, unsigned lanes, const char *typestr) {
    static const int64_t strides[2] = {-8, 2};
    versioned *given = some_versioned(2, test_shape, strides);
    int64_t itemsize = bits / 8;
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    given->dl_tensor.dtype.code = (uint8_t)code;
    given->dl_tensor.dtype.bits = (uint8_t)bits;
    given->dl_tensor.dtype.lanes = (uint16_t)lanes;
    given->dl_tensor.data = test_data + 1000;
    /* Only who asks for them gets lanes; the refusal says how. */
    ASSERT_STATUS(CAI_ERR_CONVERT_TYPE,
                  cai_array_from_dlpack(given, CAI_STREAM_LEGACY, 0, &array, &error));
    ASSERT_TEXT("dtype", error.field);
    ASSERT_CONTAINS(error.message, "CAI_UNSTABLE_DLPACK_LANES");
    array = taken(given);
    ASSERT(array.ndim == 3 && array.shape[0] == 3 && array.shape[1] == 4);
    ASSERT(array.shape[2] == (int64_t)lanes && array.strides[2] == itemsize);
    ASSERT(array.strides[0] == -8 * itemsize * (int64_t)lanes);
    ASSERT(array.strides[1] == 2 * itemsize * (int64_t)lanes);
    ASSERT(array.data == test_data + 1000 && array.stream == CAI_STREAM_LEGACY);
    ASSERT_TEXT(typestr, array.typestr);
    release_last(&array);
}

static versioned *two_lanes(int ndim, const int64_t *shape, const int64_t *strides) {
    versioned *given = some_versioned(ndim, shape, strides);
    given->dl_tensor.dtype.lanes = 2;
    return given;
}

static void refused_lanes(versioned *given, cai_status status, const char *field) {
    refuse(status, field, given, CAI_STREAM_LEGACY);
}

TEST(lanes) {
    static const int64_t empty[2] = {5, 0}, single[2] = {1, 5}, negative[2] = {3, -1};
    static const int64_t wide[2] = {INT64_MAX, 1}, half[2] = {INT64_MAX / 4, 1};
    static const int64_t huge[2] = {(int64_t)1 << 59, 4};
    int64_t many[64];
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    import_flags = CAI_UNSTABLE_DLPACK_LANES;
    for (unsigned count = 0; count < 64; count++)
        many[count] = 1;
    for (unsigned count = 2; count <= 5; count++) {
        with_lanes(INT, 8, count, "|i1");
        with_lanes(UINT, 16, count, "<u2");
        with_lanes(FLOAT, 32, count, "<f4");
        with_lanes(COMPLEX, 64, count, "<c8");
        with_lanes(BFLOAT, 16, count, "<V2");
    }
    with_lanes(UINT, 8, 65535, "|u1");
    /* C order stays C order. */
    array = taken(two_lanes(2, test_shape, NULL));
    ASSERT(array.ndim == 3 && array.shape[2] == 2 && array.strides == NULL);
    release_last(&array);
    array = taken(two_lanes(0, NULL, NULL));
    ASSERT(array.ndim == 1 && array.shape[0] == 2 && array.strides == NULL);
    release_last(&array);
    /* A stride that is not used may be any number; without elements none is used. */
    array = taken(two_lanes(2, single, wide));
    ASSERT(array.strides[0] == 8 && array.strides[1] == 8 && array.strides[2] == 4);
    release_last(&array);
    array = taken(two_lanes(2, empty, wide));
    ASSERT(array.data == NULL && array.shape[1] == 0 && array.shape[2] == 2);
    release_last(&array);
    refused_lanes(two_lanes(2, test_shape, wide), CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    refused_lanes(two_lanes(2, test_shape, half), CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    refused_lanes(two_lanes(2, huge, NULL), CAI_ERR_SIZE_OVERFLOW, "shape");
    refused_lanes(two_lanes(2, negative, NULL), CAI_ERR_SHAPE_NEGATIVE, "shape[1]");
    /* The lanes need a dimension. */
    array = taken(two_lanes(63, many, NULL));
    ASSERT(array.ndim == 64 && array.shape[63] == 2);
    release_last(&array);
    refused_lanes(two_lanes(64, many, NULL), CAI_ERR_NDIM, "ndim");
    versioned *given = two_lanes(2, test_shape, NULL);
    given->dl_tensor.ndim = 65;
    refused_lanes(given, CAI_ERR_NDIM, "ndim");
    given = two_lanes(2, test_shape, NULL);
    given->dl_tensor.dtype.bits = 1; /* less than a byte, and three bytes */
    refused_lanes(given, CAI_ERR_CONVERT_TYPE, "dtype");
    given = two_lanes(2, test_shape, NULL);
    given->dl_tensor.dtype.bits = 24;
    refused_lanes(given, CAI_ERR_CONVERT_TYPE, "dtype");
    given = two_lanes(2, test_shape, NULL);
    given->dl_tensor.dtype.lanes = 0;
    refused_lanes(given, CAI_ERR_CONVERT_TYPE, "dtype");
    /* Without lanes the flag changes nothing. */
    given = some_versioned(2, test_shape, NULL);
    array = taken(given);
    ASSERT(array.ndim == 2 && array.shape[1] == 4);
    release_last(&array);
    /* The structure without a version. */
    unversioned *old = some_unversioned(2, test_shape, NULL);
    old->dl_tensor.dtype.lanes = 4;
    deleted = 0;
    ASSERT_STATUS(CAI_ERR_CONVERT_TYPE, cai_array_from_dlpack_unversioned(
                                            (void *)old, CAI_STREAM_NONE, 0, &array, &error));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_from_dlpack_unversioned(
                                            (void *)old, CAI_STREAM_NONE, 1, &array, &error));
    ASSERT_TEXT("flags", error.field);
    ASSERT(deleted == 0);
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned((void *)old, CAI_STREAM_NONE,
                                                    CAI_UNSTABLE_DLPACK_LANES, &array, &error));
    ASSERT(array.ndim == 3 && array.shape[2] == 4);
    release_last(&array);
    given = some_versioned(2, test_shape, NULL);
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_array_from_dlpack((void *)given, CAI_STREAM_NONE,
                                        CAI_UNSTABLE_DLPACK_LANES | 1, &array, &error));
    given->deleter(given);
}
