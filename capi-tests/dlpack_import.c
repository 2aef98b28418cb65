/* Imports of DLPack tensors: every refusal with its field, and every type in both directions.
 * run: plain asan valgrind ages */
#include "dlpack_test.h"

/* Each row makes a tensor, or changes something in one of 3 x 4 floats. */
#define REFUSED_TENSOR(tensor, status, field) \
    (test_row = #tensor, refuse(status, field, tensor, CAI_STREAM_LEGACY), test_row = NULL)
#define REFUSED(change, status, field)                    \
    (test_row = #change, given = plain(), (void)(change), \
     refuse(status, field, given, CAI_STREAM_LEGACY), test_row = NULL)

/* --- in */

TEST(in_plainly) {
    static const int64_t strides[2] = {-8, 2};
    versioned *given = plain();
    cai_array array, second = CAI_ARRAY_INIT;
    given->dl_tensor.device_id = 3;
    array = taken(given);
    ASSERT(array.data == test_data && array.flags == 0 && array.ndim == 2 && array.strides == NULL);
    ASSERT(array.shape[0] == 3 && array.shape[1] == 4 && array.shape != given->dl_tensor.shape);
    ASSERT(array.stream == CAI_STREAM_LEGACY && array.stream_id == 0 && array.event == NULL);
    ASSERT(array.device.type == CAI_DEVICE_CUDA && array.device.id == 3 && array.context == NULL);
    ASSERT(array.descr == NULL && array.mask == NULL && array.byte_offset == 0 &&
           array.dtype_code == 0);
    ASSERT_TEXT("<f4", array.typestr);
    /* The last reference counts. */
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &second, NULL));
    cai_array_release(&array);
    release_last(&second);

    given = some_versioned(2, test_shape, strides);
    given->flags = READ_ONLY | COPIED;
    given->minor = 77;
    given->dl_tensor.data = test_data + 1000;
    given->dl_tensor.byte_offset = 8;
    array = taken(given);
    ASSERT(array.data == test_data + 1002 && array.byte_offset == 0 &&
           array.flags == CAI_ARRAY_READONLY);
    ASSERT(array.strides[0] == -32 && array.strides[1] == 8);
    release_last(&array);

    /* Without dimensions there may or may not be lists. */
    array = taken(some_versioned(0, NULL, NULL));
    ASSERT(array.ndim == 0 && array.shape == NULL && array.strides == NULL &&
           array.data == test_data);
    release_last(&array);
    array = taken(some_versioned(0, test_shape, strides));
    ASSERT(array.ndim == 0 && array.shape == NULL && array.strides == NULL);
    release_last(&array);
}

TEST(in_unversioned) {
    static const int64_t strides[2] = {1, 3};
    unversioned *given = some_unversioned(2, test_shape, strides);
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    deleted = 0;
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_UNKNOWN, 0, &array, NULL));
    ASSERT(array.strides[0] == 4 && array.strides[1] == 12 && array.stream == CAI_STREAM_UNKNOWN);
    ASSERT(array.flags == 0 && array.data == test_data && array.shape[1] == 4);
    release_last(&array);

    /* It does not say whether these are packed. */
    given = some_unversioned(2, test_shape, NULL);
    given->dl_tensor.dtype.code = UINT;
    given->dl_tensor.dtype.bits = 1;
    deleted = 0;
    memset(&array, 0, sizeof(array));
    array.struct_size = sizeof(array);
    ASSERT_STATUS(CAI_ERR_CONVERT_TYPE,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_NONE, 0, &array, &error));
    ASSERT_TEXT("dtype", error.field);
    given->dl_tensor.dtype.bits = 16;
    given->dl_tensor.shape[1] = -4;
    ASSERT_STATUS(CAI_ERR_SHAPE_NEGATIVE,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_NONE, 0, &array, &error));
    ASSERT_TEXT("shape[1]", error.field);
    ASSERT(array.data == NULL && array.owner == NULL && deleted == 0);
    /* NULL is a deleter too. */
    given->dl_tensor.shape[1] = 4;
    given->deleter = NULL;
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_NONE, 0, &array, &error));
    cai_array_release(&array);
    ASSERT(deleted == 0);
    delete_unversioned(given);
}

TEST(in_without_a_deleter) {
    versioned *given = plain();
    given->deleter = NULL;
    cai_array array = taken(given);
    cai_array_release(&array);
    ASSERT(deleted == 0);
    delete_versioned(given);
}

/* Of another major version nothing but that is read: the rest is not there. */
TEST(in_other_versions) {
    uint32_t *version = malloc(2 * sizeof(*version));
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    ASSERT(version != NULL);
    version[0] = 2;
    version[1] = 7;
    ASSERT_STATUS(CAI_ERR_DLPACK_VERSION,
                  cai_array_from_dlpack((versioned *)(void *)version, 0, 0, &out, &error));
    ASSERT_TEXT("version", error.field);
    ASSERT_CONTAINS(error.message, "2.7");
    untouched(&out);
    free(version);
}

TEST(in_refused) {
    static const int64_t one[1] = {1};
    static const int64_t too_far[2] = {INT64_MAX / 2, 1}, too_far_second[2] = {1, INT64_MIN / 2};
    static const int64_t down[2] = {-(INT64_C(1) << 61), 1}, below[2] = {-(INT64_C(1) << 60), 1},
                         large[3] = {1 << 30, 1 << 30, 1 << 30}, bytes[3] = {1 << 30, 1 << 30, 4};
    int64_t many[65];
    versioned *given;
    cai_array out = CAI_ARRAY_INIT;
    for (int i = 0; i < 65; i++)
        many[i] = 1;

    REFUSED(given->major = 0, CAI_ERR_DLPACK_VERSION, "version");
    REFUSED(given->flags = 8, CAI_ERR_FLAGS, "flags");
    REFUSED(given->flags = UINT64_C(1) << 40, CAI_ERR_FLAGS, "flags");

    for (int i = 1; i <= 21; i++) {
        given = plain();
        given->dl_tensor.device_type = i;
        cai_array array = taken(given);
        ASSERT(array.device.type == i);
        release_last(&array);
    }
    REFUSED(given->dl_tensor.device_type = -1, CAI_ERR_DEVICE_TYPE, "device.device_type");
    REFUSED(given->dl_tensor.device_type = 0, CAI_ERR_DEVICE_TYPE, "device.device_type");
    REFUSED(given->dl_tensor.device_type = 30, CAI_ERR_DEVICE_TYPE, "device.device_type");
    REFUSED(given->dl_tensor.device_type = 31, CAI_ERR_DEVICE_TYPE, "device.device_type");
    REFUSED(given->dl_tensor.device_id = -1, CAI_ERR_DEVICE_ID, "device.device_id");
    /* In an array that is a device that is not known; DLPack has none. */
    REFUSED((given->dl_tensor.device_type = CAI_DEVICE_ONEAPI, given->dl_tensor.device_id = -1),
            CAI_ERR_DEVICE_ID, "device.device_id");

    REFUSED(given->dl_tensor.ndim = -1, CAI_ERR_NDIM, "ndim");
    REFUSED(given->dl_tensor.shape[0] = -3, CAI_ERR_SHAPE_NEGATIVE, "shape[0]");
    REFUSED_TENSOR(some_versioned(65, many, many), CAI_ERR_NDIM, "ndim");
    REFUSED_TENSOR(some_versioned(1, NULL, one), CAI_ERR_SHAPE_NULL, "shape");
    REFUSED_TENSOR(some_versioned(3, large, NULL), CAI_ERR_SIZE_OVERFLOW, "shape[2]");
    /* 2^62 elements, 2^64 bytes. */
    REFUSED_TENSOR(some_versioned(3, bytes, NULL), CAI_ERR_SIZE_OVERFLOW, "shape");
    REFUSED_TENSOR(some_versioned(2, test_shape, too_far), CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    REFUSED_TENSOR(some_versioned(2, test_shape, too_far_second), CAI_ERR_SPAN_OVERFLOW,
                   "strides[1]");
    REFUSED_TENSOR(some_versioned(2, test_shape, down), CAI_ERR_SPAN_OVERFLOW, "strides[0]");
    /* Two steps down by 2^62 bytes are a number, but no address lies there. */
    REFUSED_TENSOR(some_versioned(2, test_shape, below), CAI_ERR_ADDRESS_RANGE, "data");

    REFUSED(given->dl_tensor.data = NULL, CAI_ERR_DATA_NULL, "data");
    /* The offset would hide it. */
    REFUSED((given->dl_tensor.data = NULL, given->dl_tensor.byte_offset = 64), CAI_ERR_DATA_NULL,
            "data");
    REFUSED(given->dl_tensor.byte_offset = UINT64_MAX, CAI_ERR_ADDRESS_RANGE, "byte_offset");
    REFUSED(given->dl_tensor.byte_offset = UINT64_MAX - (uint64_t)(uintptr_t)test_data - 8,
            CAI_ERR_ADDRESS_RANGE, "data");

    refuse(CAI_ERR_STREAM_ZERO, "stream", plain(), 0);

    /* Shorter than any age of the header, and no size at all: the tensor is not taken. */
    given = plain();
    given->dl_tensor.device_type = CAI_DEVICE_OPENCL;
    given->dl_tensor.byte_offset = 256;
    deleted = 0;
    out.struct_size = 120;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE,
                  cai_array_from_dlpack(given, CAI_STREAM_NONE, 0, &out, NULL));
    out.struct_size = 0;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE,
                  cai_array_from_dlpack(given, CAI_STREAM_NONE, 0, &out, NULL));
    ASSERT(deleted == 0 && out.owner == NULL);
    out.struct_size = sizeof out;
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(given, CAI_STREAM_NONE, 0, &out, NULL));
    ASSERT(out.byte_offset == 256 && out.device.type == CAI_DEVICE_OPENCL);
    release_last(&out);
}

/* Without elements: no address, and steps that mean nothing may be anything. */
TEST(in_empty) {
    static const int64_t shape[3] = {2, 0, 5}, strides[3] = {INT64_MAX, INT64_MIN, 7};
    versioned *given = some_versioned(3, shape, strides);
    given->dl_tensor.byte_offset = 12;
    cai_array array = taken(given);
    ASSERT(array.data == NULL && array.byte_offset == 0 && array.strides[2] == 28 &&
           array.strides[0] == 4);
    release_last(&array);
    given = some_versioned(3, shape, NULL);
    given->dl_tensor.device_type = CAI_DEVICE_OPENCL;
    given->dl_tensor.byte_offset = 12;
    array = taken(given);
    ASSERT(array.data == NULL && array.byte_offset == 0 && array.strides == NULL);
    release_last(&array);
}

/* The step of an extent of 1 is never taken. */
TEST(in_single) {
    static const int64_t shape[2] = {1, 5}, strides[2] = {INT64_MAX, 1}, kept[2] = {-3, 1};
    cai_array array = taken(some_versioned(2, shape, strides));
    ASSERT(array.strides[0] == 4 && array.strides[1] == 4);
    release_last(&array);
    array = taken(some_versioned(2, shape, kept));
    ASSERT(array.strides[0] == -12);
    release_last(&array);
}

TEST(in_handles) {
    static const int32_t handles[] = {CAI_DEVICE_OPENCL, 7, 8, 15};
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        versioned *given = plain();
        given->dl_tensor.device_type = handles[i];
        given->dl_tensor.byte_offset = 256;
        cai_array array = taken(given);
        ASSERT(array.data == test_data && array.byte_offset == 256 &&
               array.device.type == handles[i]);
        release_last(&array);
    }
}

/* Host memory has no streams, whatever stream is passed; but 0 is not a stream here either. */
TEST(in_host_memory) {
    static const cai_stream streams[] = {CAI_STREAM_LEGACY, 0x1234, CAI_STREAM_UNKNOWN,
                                         CAI_STREAM_NONE};
    versioned *host = plain();
    host->dl_tensor.device_type = CAI_DEVICE_CPU;
    refuse(CAI_ERR_STREAM_ZERO, "stream", host, 0);
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        versioned *given = plain();
        cai_array array = CAI_ARRAY_INIT;
        given->dl_tensor.device_type = CAI_DEVICE_CPU;
        deleted = 0;
        ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(given, streams[i], 0, &array, NULL));
        ASSERT(array.stream == CAI_STREAM_NONE);
        release_last(&array);
    }
}

/* --- types */

static const struct {
    const char *typestr;
    uint16_t dtype_code;
    data_type theirs;
    uint64_t flags;
} types[] = {
    {"|i1", 0, {INT, 8, 1}, 0},
    {"<i2", 0, {INT, 16, 1}, 0},
    {"<i4", 0, {INT, 32, 1}, 0},
    {"<i8", 0, {INT, 64, 1}, 0},
    {"<i16", 0, {INT, 128, 1}, 0},
    {"|u1", 0, {UINT, 8, 1}, 0},
    {"<u2", 0, {UINT, 16, 1}, 0},
    {"<u4", 0, {UINT, 32, 1}, 0},
    {"<u8", 0, {UINT, 64, 1}, 0},
    {"<u16", 0, {UINT, 128, 1}, 0},
    {"<f2", 0, {FLOAT, 16, 1}, 0},
    {"<f4", 0, {FLOAT, 32, 1}, 0},
    {"<f8", 0, {FLOAT, 64, 1}, 0},
    {"<c4", 0, {COMPLEX, 32, 1}, 0},
    {"<c8", 0, {COMPLEX, 64, 1}, 0},
    {"<c16", 0, {COMPLEX, 128, 1}, 0},
    {"|b1", 0, {BOOL, 8, 1}, 0},
    {"|t1", 0, {UINT, 1, 1}, 0},
    {"<V2", CAI_DTYPE_BFLOAT16, {BFLOAT, 16, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E3M4, {7, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E4M3, {8, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E4M3B11FNUZ, {9, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E4M3FN, {10, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E4M3FNUZ, {11, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E5M2, {12, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E5M2FNUZ, {13, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT8_E8M0FNU, {14, 8, 1}, 0},
    {"<V1", CAI_DTYPE_FLOAT6_E2M3FN, {15, 6, 1}, PADDED},
    {"<V1", CAI_DTYPE_FLOAT6_E3M2FN, {16, 6, 1}, PADDED},
    {"<V1", CAI_DTYPE_FLOAT4_E2M1FN, {17, 4, 1}, PADDED},
    {"<V1", CAI_DTYPE_FLOAT4_E2M1FN_X2, {17, 4, 2}, 0},
    {"<V4", CAI_DTYPE_BCOMPLEX32, {18, 32, 1}, 0},
    {"<V1", CAI_DTYPE_INT4, {INT, 4, 1}, PADDED},
    {"<V1", CAI_DTYPE_UINT4, {UINT, 4, 1}, PADDED},
    {"<V1", CAI_DTYPE_INT2, {INT, 2, 1}, PADDED},
    {"<V1", CAI_DTYPE_UINT2, {UINT, 2, 1}, PADDED},
    {"<V1", CAI_DTYPE_INT1, {INT, 1, 1}, PADDED},
    {"<V1", CAI_DTYPE_UINT1, {UINT, 1, 1}, PADDED},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

/* In and out again, of which nothing is lost but what the older structure has no words for. */
TEST(types_both_ways) {
    for (size_t i = 0; i < TYPES; i++) {
        static const int64_t dense[2] = {4, 1};
        versioned *given = some_versioned(2, test_shape, dense), *back = NULL;
        unversioned *older = NULL;
        bool below = types[i].theirs.bits * types[i].theirs.lanes < 8;
        cai_dtype dtype;
        cai_error error;
        test_row = types[i].typestr;
        given->flags = types[i].flags;
        given->dl_tensor.dtype = types[i].theirs;
        cai_array array = taken(given);
        ASSERT_TEXT(types[i].typestr, array.typestr);
        ASSERT(array.dtype_code == types[i].dtype_code);
        ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
        if (dtype.kind == 't') {
            ASSERT(array.strides == NULL);
        } else {
            ASSERT(array.strides[0] == 4 * dtype.itemsize && array.strides[1] == dtype.itemsize);
        }
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &back, NULL));
        ASSERT(back->major == 1 && back->minor == 3 && back->flags == types[i].flags);
        ASSERT(memcmp(&back->dl_tensor.dtype, &types[i].theirs, sizeof(data_type)) == 0);
        ASSERT(back->dl_tensor.strides[0] == 4 && back->dl_tensor.strides[1] == 1);
        if (below) {
            ASSERT_STATUS(CAI_ERR_CONVERT_TYPE,
                          cai_array_to_dlpack_unversioned(&array, 0, &older, &error));
            ASSERT_TEXT("typestr", error.field);
            ASSERT(older == NULL);
        } else {
            ASSERT_STATUS(CAI_OK, cai_array_to_dlpack_unversioned(&array, 0, &older, NULL));
            ASSERT(memcmp(&older->dl_tensor, &back->dl_tensor, offsetof(dltensor, shape)) == 0);
            older->deleter(older);
        }
        cai_array_release(&array);
        ASSERT(deleted == 0);
        back->deleter(back);
        ASSERT(deleted == 1);
    }
    test_row = NULL;
}

/* Everything else that three numbers can say is refused, and nothing that is taken is ambiguous. */
TEST(types_of_theirs) {
    unsigned code, bits, lanes, padded;
    size_t i, taken_types = 0;
    for (padded = 0; padded < 2; padded++) {
        for (code = 0; code < 20; code++) {
            for (bits = 0; bits < 256; bits++) {
                for (lanes = 0; lanes < 5; lanes++) {
                    versioned *given = plain();
                    cai_array out = CAI_ARRAY_INIT;
                    cai_error error;
                    bool known = false;
                    data_type dtype;
                    dtype.code = (uint8_t)code;
                    dtype.bits = (uint8_t)bits;
                    dtype.lanes = (uint16_t)lanes;
                    given->flags = padded ? PADDED : 0;
                    given->dl_tensor.dtype = dtype;
                    for (i = 0; i < TYPES; i++) {
                        /* The flag means something for elements of less than a byte only. */
                        bool flag = types[i].flags == given->flags || (bits >= 8 && lanes == 1);
                        known |= memcmp(&types[i].theirs, &dtype, sizeof(dtype)) == 0 && flag;
                    }
                    deleted = 0;
                    cai_status status =
                        cai_array_from_dlpack(given, CAI_STREAM_NONE, 0, &out, &error);
                    if (status == CAI_OK) {
                        taken_types++;
                        release_last(&out);
                    } else {
                        ASSERT_STATUS(CAI_ERR_CONVERT_TYPE, status);
                        ASSERT_TEXT("dtype", error.field);
                        delete_versioned(given);
                    }
                    ASSERT((status == CAI_OK) == known);
                }
            }
        }
    }
    /* Packed bits and two floats in a byte go without the flag, nine types with it, the others
     * either way. */
    ASSERT(taken_types == 2 + 9 + 2 * (TYPES - 11));
}

/* A tensor of bits. */
static versioned *bits(const int64_t *shape, const int64_t *strides) {
    versioned *made = some_versioned(2, shape, strides);
    const data_type bit = {UINT, 1, 1};
    made->dl_tensor.dtype = bit;
    made->dl_tensor.byte_offset = 3;
    return made;
}

/* Packed bits have no steps, so the tensor's must be those of C order. */
TEST(types_packed_bits) {
    static const int64_t shape[2] = {3, 12}, dense[2] = {12, 1}, gaps[2] = {16, 1},
                         other[2] = {1, 3};
    static const int64_t single[2] = {1, 12}, any[2] = {99, 1};
    cai_array array = taken(bits(shape, dense));
    ASSERT(array.strides == NULL && array.data == (char *)test_data + 3);
    release_last(&array);
    array = taken(bits(single, any));
    release_last(&array);
    REFUSED_TENSOR(bits(shape, gaps), CAI_ERR_BIT_STRIDES, "strides");
    REFUSED_TENSOR(bits(shape, other), CAI_ERR_BIT_STRIDES, "strides");
    /* One in a byte: strides as ever. */
    versioned *given = bits(shape, gaps);
    given->flags = PADDED;
    array = taken(given);
    ASSERT(array.strides[0] == 16 && array.strides[1] == 1 && array.dtype_code == CAI_DTYPE_UINT1);
    release_last(&array);
}
