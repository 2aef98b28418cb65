/* DLPack tensors in and out: every type, every refusal with its field, and who lets what go on
 * every path. DLPack's structures are written down here as a stranger reads them in dlpack.h. */
#include "cai_test.h"

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} data_type;

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    data_type dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dltensor;

typedef struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    dltensor dl_tensor;
} versioned;

typedef struct DLManagedTensor {
    dltensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *);
} unversioned;

enum { READ_ONLY = 1, COPIED = 2, PADDED = 4 };
enum { INT, UINT, FLOAT, HANDLE, BFLOAT, COMPLEX, BOOL };

/* --- tensors that count */

static int deleted;

/* The tensor's memory is freed with it, so a later access or a second deletion is detected. */
static void delete_versioned(versioned *self) {
    ++deleted;
    free(self->dl_tensor.shape);
    free(self->dl_tensor.strides);
    free(self);
}

static void delete_unversioned(unversioned *self) {
    ++deleted;
    free(self->dl_tensor.shape);
    free(self->dl_tensor.strides);
    free(self);
}

static int64_t *copied(int32_t count, const int64_t *numbers) {
    int64_t *copy;
    if (numbers == NULL) {
        return NULL;
    }
    copy = malloc((size_t)(count > 0 ? count : 1) * sizeof(*copy));
    ASSERT(copy != NULL);
    if (count > 0) {
        memcpy(copy, numbers, (size_t)count * sizeof(*copy));
    }
    return copy;
}

static dltensor some_tensor(int32_t ndim, const int64_t *shape, const int64_t *strides) {
    dltensor made;
    memset(&made, 0, sizeof(made));
    made.data = test_data;
    made.device_type = CAI_DEVICE_CUDA;
    made.ndim = ndim;
    made.dtype.code = FLOAT;
    made.dtype.bits = 32;
    made.dtype.lanes = 1;
    made.shape = copied(ndim, shape);
    made.strides = copied(ndim, strides);
    return made;
}

static versioned *some_versioned(int32_t ndim, const int64_t *shape, const int64_t *strides) {
    versioned *made = calloc(1, sizeof(*made));
    ASSERT(made != NULL);
    made->major = 1;
    made->minor = 1;
    made->deleter = delete_versioned;
    made->dl_tensor = some_tensor(ndim, shape, strides);
    return made;
}

static unversioned *some_unversioned(int32_t ndim, const int64_t *shape, const int64_t *strides) {
    unversioned *made = calloc(1, sizeof(*made));
    ASSERT(made != NULL);
    made->deleter = delete_unversioned;
    made->dl_tensor = some_tensor(ndim, shape, strides);
    return made;
}

/* 3 x 4 floats. */
static versioned *plain(void) { return some_versioned(2, test_shape, NULL); }

/* An array that nobody may have touched. */
static void untouched(const cai_array *array) {
    const cai_array fresh = CAI_ARRAY_INIT;
    ASSERT(memcmp(array, &fresh, sizeof(fresh)) == 0);
}

/* A tensor is refused, the array and the tensor stay as they were, and the tensor is deleted by its
 * owner. */
static void refuse_with(int line, cai_status status, const char *field, versioned *given,
                        cai_stream stream) {
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    versioned before = *given;
    cai_status got;
    deleted = 0;
    got = cai_array_from_dlpack(given, stream, &out, &error);
    if (got != status || strcmp(error.field, field) != 0) {
        fprintf(stderr, "line %d: %s at %s: %s\n", line, cai_status_name(got),
                got ? error.field : "", got ? error.message : "");
        exit(1);
    }
    ASSERT(error.code == status && deleted == 0);
    untouched(&out);
    ASSERT(memcmp(&before, given, sizeof(before)) == 0);
    ASSERT_STATUS(status, cai_array_from_dlpack(given, stream, &out, NULL));
    given->deleter(given);
    ASSERT(deleted == 1);
}
#define REFUSED(status, field, given) refuse_with(__LINE__, status, field, given, CAI_STREAM_LEGACY)

static cai_array taken(versioned *given) {
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    cai_status status;
    deleted = 0;
    status = cai_array_from_dlpack(given, CAI_STREAM_LEGACY, &out, &error);
    if (status != CAI_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    ASSERT_STATUS(CAI_OK, status);
    ASSERT(deleted == 0 && out.owner != NULL && out.struct_size == sizeof(out) && out.version == 3);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out, CAI_CHECK_LAYOUT, NULL));
    return out;
}

static void let_go(cai_array *array) {
    ASSERT(deleted == 0);
    cai_array_release(array);
    ASSERT(deleted == 1);
}

/* --- in */

static void in_plainly(void) {
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
    let_go(&second);

    given = some_versioned(2, test_shape, strides);
    given->flags = READ_ONLY | COPIED;
    given->minor = 77;
    given->dl_tensor.data = test_data + 1000;
    given->dl_tensor.byte_offset = 8;
    array = taken(given);
    ASSERT(array.data == test_data + 1002 && array.byte_offset == 0 &&
           array.flags == CAI_ARRAY_READONLY);
    ASSERT(array.strides[0] == -32 && array.strides[1] == 8);
    let_go(&array);

    /* Without dimensions there may or may not be lists. */
    array = taken(some_versioned(0, NULL, NULL));
    ASSERT(array.ndim == 0 && array.shape == NULL && array.strides == NULL &&
           array.data == test_data);
    let_go(&array);
    array = taken(some_versioned(0, test_shape, strides));
    ASSERT(array.ndim == 0 && array.shape == NULL && array.strides == NULL);
    let_go(&array);
}

static void in_unversioned(void) {
    static const int64_t strides[2] = {1, 3};
    unversioned *given = some_unversioned(2, test_shape, strides);
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    deleted = 0;
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_UNKNOWN, &array, NULL));
    ASSERT(array.strides[0] == 4 && array.strides[1] == 12 && array.stream == CAI_STREAM_UNKNOWN);
    ASSERT(array.flags == 0 && array.data == test_data && array.shape[1] == 4);
    let_go(&array);

    /* It does not say whether these are packed. */
    given = some_unversioned(2, test_shape, NULL);
    given->dl_tensor.dtype.code = UINT;
    given->dl_tensor.dtype.bits = 1;
    deleted = 0;
    memset(&array, 0, sizeof(array));
    array.struct_size = sizeof(array);
    ASSERT_STATUS(CAI_ERR_CONVERT_TYPE,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_NONE, &array, &error));
    ASSERT_TEXT("dtype", error.field);
    given->dl_tensor.dtype.bits = 16;
    given->dl_tensor.shape[1] = -4;
    ASSERT_STATUS(CAI_ERR_SHAPE_NEGATIVE,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_NONE, &array, &error));
    ASSERT_TEXT("shape[1]", error.field);
    ASSERT(array.data == NULL && array.owner == NULL && deleted == 0);
    /* NULL is a deleter too. */
    given->dl_tensor.shape[1] = 4;
    given->deleter = NULL;
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned(given, CAI_STREAM_NONE, &array, &error));
    cai_array_release(&array);
    ASSERT(deleted == 0);
    delete_unversioned(given);
}

static void in_without_a_deleter(void) {
    versioned *given = plain();
    cai_array array;
    given->deleter = NULL;
    array = taken(given);
    cai_array_release(&array);
    ASSERT(deleted == 0);
    delete_versioned(given);
}

/* Of another major version nothing but that is read: the rest is not there. */
static void in_other_versions(void) {
    uint32_t *version = malloc(2 * sizeof(*version));
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    versioned *given = plain();
    ASSERT(version != NULL);
    version[0] = 2;
    version[1] = 7;
    ASSERT_STATUS(CAI_ERR_DLPACK_VERSION,
                  cai_array_from_dlpack((versioned *)(void *)version, 0, &out, &error));
    ASSERT_TEXT("version", error.field);
    ASSERT_CONTAINS(error.message, "2.7");
    untouched(&out);
    free(version);
    given->major = 0;
    REFUSED(CAI_ERR_DLPACK_VERSION, "version", given);
}

static void in_refused(void) {
    static const int64_t one[1] = {1};
    static const int64_t too_far[2] = {INT64_MAX / 2, 1}, too_far_second[2] = {1, INT64_MIN / 2};
    static const int64_t down[2] = {-(INT64_C(1) << 61), 1}, below[2] = {-(INT64_C(1) << 60), 1},
                         large[3] = {1 << 30, 1 << 30, 1 << 30};
    int64_t many[65];
    versioned *given = plain();
    int i;
    cai_array out = CAI_ARRAY_INIT;

    given->flags = 8;
    REFUSED(CAI_ERR_FLAGS, "flags", given);
    given = plain();
    given->flags = UINT64_C(1) << 40;
    REFUSED(CAI_ERR_FLAGS, "flags", given);

    for (i = -1; i < 21; i++) {
        given = plain();
        given->dl_tensor.device_type = i;
        if (i >= 1 && i <= 18) {
            cai_array array = taken(given);
            ASSERT(array.device.type == i);
            let_go(&array);
        } else {
            REFUSED(CAI_ERR_DEVICE_TYPE, "device.device_type", given);
        }
    }
    given = plain();
    given->dl_tensor.device_id = -1;
    REFUSED(CAI_ERR_DEVICE_ID, "device.device_id", given);

    given = plain();
    given->dl_tensor.ndim = -1;
    REFUSED(CAI_ERR_NDIM, "ndim", given);
    for (i = 0; i < 65; i++) {
        many[i] = 1;
    }
    REFUSED(CAI_ERR_NDIM, "ndim", some_versioned(65, many, many));
    REFUSED(CAI_ERR_SHAPE_NULL, "shape", some_versioned(1, NULL, one));
    given = plain();
    given->dl_tensor.shape[0] = -3;
    REFUSED(CAI_ERR_SHAPE_NEGATIVE, "shape[0]", given);
    REFUSED(CAI_ERR_SIZE_OVERFLOW, "shape[2]", some_versioned(3, large, NULL));
    given = some_versioned(3, large, NULL);
    given->dl_tensor.shape[2] = 4; /* 2^62 elements, 2^64 bytes */
    REFUSED(CAI_ERR_SIZE_OVERFLOW, "shape", given);

    REFUSED(CAI_ERR_SPAN_OVERFLOW, "strides[0]", some_versioned(2, test_shape, too_far));
    REFUSED(CAI_ERR_SPAN_OVERFLOW, "strides[1]", some_versioned(2, test_shape, too_far_second));
    REFUSED(CAI_ERR_SPAN_OVERFLOW, "strides[0]", some_versioned(2, test_shape, down));
    /* Two steps down by 2^62 bytes are a number, but no address lies there. */
    REFUSED(CAI_ERR_ADDRESS_RANGE, "data", some_versioned(2, test_shape, below));

    given = plain();
    given->dl_tensor.data = NULL;
    REFUSED(CAI_ERR_DATA_NULL, "data", given);
    given = plain();
    given->dl_tensor.data = NULL;
    given->dl_tensor.byte_offset = 64; /* would hide it */
    REFUSED(CAI_ERR_DATA_NULL, "data", given);
    given = plain();
    given->dl_tensor.byte_offset = UINT64_MAX;
    REFUSED(CAI_ERR_ADDRESS_RANGE, "byte_offset", given);
    given = plain();
    given->dl_tensor.byte_offset = UINT64_MAX - (uint64_t)(uintptr_t)test_data - 8;
    REFUSED(CAI_ERR_ADDRESS_RANGE, "data", given);

    refuse_with(__LINE__, CAI_ERR_STREAM_ZERO, "stream", plain(), 0);

    /* Shorter than any age of the header, and no size at all: the tensor is not taken. */
    given = plain();
    given->dl_tensor.device_type = CAI_DEVICE_OPENCL;
    given->dl_tensor.byte_offset = 256;
    deleted = 0;
    out.struct_size = 120;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_from_dlpack(given, CAI_STREAM_NONE, &out, NULL));
    out.struct_size = 0;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_from_dlpack(given, CAI_STREAM_NONE, &out, NULL));
    ASSERT(deleted == 0 && out.owner == NULL);
    out.struct_size = sizeof out;
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(given, CAI_STREAM_NONE, &out, NULL));
    ASSERT(out.byte_offset == 256 && out.device.type == CAI_DEVICE_OPENCL);
    let_go(&out);
}

/* Without elements: no address, and steps that mean nothing may be anything. */
static void in_empty(void) {
    static const int64_t shape[3] = {2, 0, 5}, strides[3] = {INT64_MAX, INT64_MIN, 7};
    versioned *given = some_versioned(3, shape, strides);
    cai_array array;
    given->dl_tensor.byte_offset = 12;
    array = taken(given);
    ASSERT(array.data == NULL && array.byte_offset == 0 && array.strides[2] == 28 &&
           array.strides[0] == 4);
    let_go(&array);
    given = some_versioned(3, shape, NULL);
    given->dl_tensor.device_type = CAI_DEVICE_OPENCL;
    given->dl_tensor.byte_offset = 12;
    array = taken(given);
    ASSERT(array.data == NULL && array.byte_offset == 0 && array.strides == NULL);
    let_go(&array);
}

/* The step of an extent of 1 is never taken. */
static void in_single(void) {
    static const int64_t shape[2] = {1, 5}, strides[2] = {INT64_MAX, 1}, kept[2] = {-3, 1};
    cai_array array = taken(some_versioned(2, shape, strides));
    ASSERT(array.strides[0] == 4 && array.strides[1] == 4);
    let_go(&array);
    array = taken(some_versioned(2, shape, kept));
    ASSERT(array.strides[0] == -12);
    let_go(&array);
}

static void in_handles(void) {
    static const int32_t handles[] = {CAI_DEVICE_OPENCL, 7, 8, 15};
    size_t i;
    for (i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        versioned *given = plain();
        cai_array array;
        given->dl_tensor.device_type = handles[i];
        given->dl_tensor.byte_offset = 256;
        array = taken(given);
        ASSERT(array.data == test_data && array.byte_offset == 256 &&
               array.device.type == handles[i]);
        let_go(&array);
    }
}

/* Host memory has no streams, whatever stream is passed; but 0 is not a stream here either. */
static void in_host_memory(void) {
    static const cai_stream streams[] = {CAI_STREAM_LEGACY, 0x1234, CAI_STREAM_UNKNOWN,
                                         CAI_STREAM_NONE};
    size_t i;
    versioned *host = plain();
    host->dl_tensor.device_type = CAI_DEVICE_CPU;
    refuse_with(__LINE__, CAI_ERR_STREAM_ZERO, "stream", host, 0);
    for (i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        versioned *given = plain();
        cai_array array = CAI_ARRAY_INIT;
        given->dl_tensor.device_type = CAI_DEVICE_CPU;
        deleted = 0;
        ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(given, streams[i], &array, NULL));
        ASSERT(array.stream == CAI_STREAM_NONE);
        let_go(&array);
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
    {"<V1", CAI_DTYPE_INT4, {INT, 4, 1}, PADDED},
    {"<V1", CAI_DTYPE_UINT4, {UINT, 4, 1}, PADDED},
    {"<V1", CAI_DTYPE_INT2, {INT, 2, 1}, PADDED},
    {"<V1", CAI_DTYPE_UINT2, {UINT, 2, 1}, PADDED},
    {"<V1", CAI_DTYPE_INT1, {INT, 1, 1}, PADDED},
    {"<V1", CAI_DTYPE_UINT1, {UINT, 1, 1}, PADDED},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

/* In and out again, of which nothing is lost but what the older structure has no words for. */
static void types_both_ways(void) {
    size_t i;
    for (i = 0; i < TYPES; i++) {
        static const int64_t dense[2] = {4, 1};
        versioned *given = some_versioned(2, test_shape, dense), *back = NULL;
        unversioned *older = NULL;
        bool below = types[i].theirs.bits * types[i].theirs.lanes < 8;
        cai_array array;
        cai_dtype dtype;
        cai_error error;
        given->flags = types[i].flags;
        given->dl_tensor.dtype = types[i].theirs;
        array = taken(given);
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
}

/* Everything else that three numbers can say is refused, and nothing that is taken is ambiguous. */
static void types_of_theirs(void) {
    unsigned code, bits, lanes, padded;
    size_t i, taken_types = 0;
    for (padded = 0; padded < 2; padded++) {
        for (code = 0; code < 20; code++) {
            for (bits = 0; bits < 256; bits++) {
                for (lanes = 0; lanes < 5; lanes++) {
                    versioned *given = plain();
                    cai_array out = CAI_ARRAY_INIT;
                    cai_error error;
                    cai_status status;
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
                    status = cai_array_from_dlpack(given, CAI_STREAM_NONE, &out, &error);
                    if (status == CAI_OK) {
                        taken_types++;
                        let_go(&out);
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

/* Packed bits have no steps, so the tensor's must be those of C order. */
static void types_packed_bits(void) {
    static const int64_t shape[2] = {3, 12}, dense[2] = {12, 1}, gaps[2] = {16, 1},
                         other[2] = {1, 3};
    static const int64_t single[2] = {1, 12}, any[2] = {99, 1};
    versioned *given = some_versioned(2, shape, dense);
    data_type bit;
    cai_array array;
    bit.code = UINT;
    bit.bits = 1;
    bit.lanes = 1;
    given->dl_tensor.dtype = bit;
    given->dl_tensor.byte_offset = 3;
    array = taken(given);
    ASSERT(array.strides == NULL && array.data == (char *)test_data + 3);
    let_go(&array);
    given = some_versioned(2, single, any);
    given->dl_tensor.dtype = bit;
    array = taken(given);
    let_go(&array);
    given = some_versioned(2, shape, gaps);
    given->dl_tensor.dtype = bit;
    REFUSED(CAI_ERR_BIT_STRIDES, "strides", given);
    given = some_versioned(2, shape, other);
    given->dl_tensor.dtype = bit;
    REFUSED(CAI_ERR_BIT_STRIDES, "strides", given);
    /* One in a byte: strides as ever. */
    given = some_versioned(2, shape, gaps);
    given->dl_tensor.dtype = bit;
    given->flags = PADDED;
    array = taken(given);
    ASSERT(array.strides[0] == 16 && array.strides[1] == 1 && array.dtype_code == CAI_DTYPE_UINT1);
    let_go(&array);
}

/* --- out */

static void out_plainly(void) {
    static const int64_t strides[2] = {-64, 8};
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    unversioned *older = NULL;
    array.owner = counting_owner(&destroyed);
    array.device.type = CAI_DEVICE_CUDA;
    array.device.id = 2;
    array.stream = CAI_STREAM_LEGACY;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->major == 1 && tensor->minor == 3 && tensor->flags == 0 &&
           tensor->deleter != NULL);
    ASSERT(tensor->dl_tensor.data == test_data && tensor->dl_tensor.byte_offset == 0);
    ASSERT(tensor->dl_tensor.device_type == CAI_DEVICE_CUDA && tensor->dl_tensor.device_id == 2);
    ASSERT(tensor->dl_tensor.ndim == 2 && tensor->dl_tensor.shape != test_shape);
    ASSERT(tensor->dl_tensor.shape[0] == 3 && tensor->dl_tensor.shape[1] == 4);
    ASSERT(tensor->dl_tensor.strides[0] == 4 && tensor->dl_tensor.strides[1] == 1);
    /* Each holds a reference of its own; the array may go first. */
    array.strides = strides;
    array.data = test_data + 1000;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack_unversioned(&array, 0, &older, NULL));
    ASSERT(older->dl_tensor.strides[0] == -16 && older->dl_tensor.strides[1] == 2);
    ASSERT(older->dl_tensor.data == test_data + 1000);
    cai_array_release(&array);
    tensor->deleter(tensor);
    ASSERT(destroyed == 0);
    /* What the receiver writes into its tensor does not matter to the deleter. */
    older->dl_tensor.ndim = 77;
    older->manager_ctx = older;
    older->deleter(older);
    ASSERT(destroyed == 1);
}

static void out_readonly(void) {
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    unversioned *older = NULL;
    cai_error error;
    array.owner = counting_owner(&destroyed);
    array.flags = CAI_ARRAY_READONLY;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->flags == READ_ONLY);
    tensor->deleter(tensor);
    ASSERT_STATUS(CAI_ERR_CONVERT_READONLY,
                  cai_array_to_dlpack_unversioned(&array, 0, &older, &error));
    ASSERT_TEXT("flags", error.field);
    ASSERT(older == NULL && destroyed == 0);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* A deleter of NULL does nothing, as free. */
static void out_deleter_of_null(void) {
    int destroyed = 0;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    array.owner = counting_owner(&destroyed);
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    tensor->deleter(NULL);
    tensor->deleter(tensor);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

static void steps(int line, int32_t ndim, const int64_t *shape, const int64_t *strides,
                  const int64_t *expected) {
    int destroyed = 0;
    int32_t i;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    cai_error error;
    array.owner = counting_owner(&destroyed);
    array.ndim = ndim;
    array.shape = shape;
    array.strides = strides;
    array.data = (char *)test_data + 4096;
    for (i = 0; i < ndim; i++) {
        if (shape[i] == 0) {
            array.data = NULL;
        }
    }
    if (cai_array_to_dlpack(&array, 0, &tensor, &error) != CAI_OK) {
        fprintf(stderr, "line %d: %s\n", line, error.message);
        exit(1);
    }
    ASSERT(tensor->dl_tensor.data == array.data && tensor->dl_tensor.ndim == ndim);
    ASSERT((tensor->dl_tensor.strides == NULL) == (ndim == 0));
    ASSERT((tensor->dl_tensor.shape == NULL) == (ndim == 0));
    for (i = 0; i < ndim; i++) {
        if (tensor->dl_tensor.strides[i] != expected[i] || tensor->dl_tensor.shape[i] != shape[i]) {
            fprintf(stderr, "line %d: strides[%d] is %lld\n", line, i,
                    (long long)tensor->dl_tensor.strides[i]);
            exit(1);
        }
    }
    tensor->deleter(tensor);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

static void out_steps(void) {
    static const int64_t two[2] = {3, 4}, one_row[2] = {1, 4}, none[2] = {0, 4},
                         huge[3] = {0, INT64_MAX, 9};
    static const int64_t transposed[2] = {4, 12}, broadcast[2] = {0, 4}, odd_row[2] = {7, 4},
                         kept[2] = {-400, 4};
    static const int64_t odd[2] = {3, 5}, odd_large[3] = {1, -1, INT64_MIN};
    static const int64_t of_two[2] = {4, 1}, of_transposed[2] = {1, 3}, of_broadcast[2] = {0, 1};
    static const int64_t of_odd_row[2] = {1, 1}, of_kept[2] = {-100, 1}, ones[3] = {1, 1, 1};
    static const int64_t of_huge[3] = {1, 1, INT64_MIN / 4};
    int64_t most[64];
    int i;
    steps(__LINE__, 2, two, NULL, of_two);
    steps(__LINE__, 2, two, transposed, of_transposed);
    steps(__LINE__, 2, two, broadcast, of_broadcast);
    steps(__LINE__, 0, NULL, NULL, NULL);
    steps(__LINE__, 0, two, transposed, NULL);
    /* A step that nothing takes: kept where it can be said, else one element. */
    steps(__LINE__, 2, one_row, odd_row, of_odd_row);
    steps(__LINE__, 2, one_row, kept, of_kept);
    steps(__LINE__, 2, none, odd, ones);
    steps(__LINE__, 2, none, NULL, of_two);
    steps(__LINE__, 3, huge, NULL, ones);
    steps(__LINE__, 3, huge, odd_large, of_huge);
    for (i = 0; i < 64; i++) {
        most[i] = 1;
    }
    steps(__LINE__, 64, most, NULL, most);
}

/* An array is refused, its owner keeps its count, and the tensor's place stays as it was. */
static void refuse_out(int line, cai_status status, const char *field, cai_array array) {
    versioned *out = (versioned *)&array;
    unversioned *older = (unversioned *)&array;
    cai_error error;
    cai_status got = cai_array_to_dlpack(&array, 0, &out, &error);
    if (got != status || strcmp(error.field, field) != 0) {
        fprintf(stderr, "line %d: %s at %s\n", line, cai_status_name(got),
                got ? error.message : "");
        exit(1);
    }
    ASSERT_STATUS(status, cai_array_to_dlpack_unversioned(&array, 0, &older, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT(out == (versioned *)&array && older == (unversioned *)&array);
}
#define REFUSED_OUT(status, field, array) refuse_out(__LINE__, status, field, array)

static void out_refused(void) {
    static const int64_t odd[2] = {16, 6}, odd_first[2] = {-7, 4};
    static const char *no_counterpart[] = {"|S4",  "<U4", "<M8[s]", "<m8",  "|O",   "|V4",
                                           "<V2",  "|V1", "<f1",    "<f12", "<f16", "<c24",
                                           "<c32", "|t8", "|t2",    "<t16"};
    static const char *foreign[] = {">f4", ">i2", ">u8", ">c8", ">c4"};
    static const cai_owner_ops broken_ops = {sizeof(cai_owner_ops), 0, NULL, NULL};
    cai_owner broken = {&broken_ops};
    int destroyed = 0;
    cai_array good = valid_array(), array, mask = valid_array();
    cai_field row, two_rows[2];
    cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 1, &row};
    versioned *out = NULL;
    cai_error error;
    size_t i;

    good.owner = counting_owner(&destroyed);
    array = good;
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_to_dlpack(&array, 1, &out, &error));
    ASSERT_TEXT("flags", error.field);
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_to_dlpack_unversioned(
                                            &array, 0x80000000u, (unversioned **)&out, &error));
    ASSERT(out == NULL);

    array.owner = NULL;
    REFUSED_OUT(CAI_ERR_BORROWED, "owner", array);
    array.owner = &broken;
    REFUSED_OUT(CAI_ERR_OWNER_OPS, "owner.ops.retain", array);

    array = good;
    set_typestr(&mask, "|b1");
    array.mask = &mask;
    REFUSED_OUT(CAI_ERR_CONVERT_MASK, "mask", array);

    for (i = 0; i < sizeof(no_counterpart) / sizeof(no_counterpart[0]); i++) {
        array = good;
        set_typestr(&array, no_counterpart[i]);
        REFUSED_OUT(CAI_ERR_CONVERT_TYPE, "typestr", array);
    }
    for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        array = good;
        set_typestr(&array, foreign[i]);
        REFUSED_OUT(CAI_ERR_CONVERT_BYTE_ORDER, "typestr", array);
    }
    array = good;
    set_typestr(&array, ">V2");
    array.dtype_code = CAI_DTYPE_BFLOAT16;
    REFUSED_OUT(CAI_ERR_CONVERT_BYTE_ORDER, "typestr", array);
    /* Of one byte, or not relevant: that is no foreign order. */
    set_typestr(&array, "|V2");
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &out, NULL));
    out->deleter(out);
    array = good;
    set_typestr(&array, ">u1");
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &out, NULL));
    out->deleter(out);

    array = good;
    array.strides = odd;
    REFUSED_OUT(CAI_ERR_CONVERT_STRIDES, "strides[1]", array);
    array.strides = odd_first;
    REFUSED_OUT(CAI_ERR_CONVERT_STRIDES, "strides[0]", array);

    /* Whatever is no sound array has the words of validation. */
    array = good;
    array.ndim = 65;
    REFUSED_OUT(CAI_ERR_NDIM, "ndim", array);
    array = good;
    array.stream = 0;
    REFUSED_OUT(CAI_ERR_STREAM_ZERO, "stream", array);
    array = good;
    array.data = NULL;
    REFUSED_OUT(CAI_ERR_DATA_NULL, "data", array);
    array = good;
    array.struct_size = 3;
    REFUSED_OUT(CAI_ERR_STRUCT_SIZE, "struct_size", array);

    /* A structure is none of DLPack's types; the one row of a plain type changes nothing. */
    memset(&row, 0, sizeof(row));
    memset(two_rows, 0, sizeof(two_rows));
    row.name = "";
    memcpy(row.typestr, "<f4", 4);
    array = good;
    array.descr = &descr;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &out, NULL));
    out->deleter(out);
    two_rows[0].name = "x";
    two_rows[1].name = "y";
    memcpy(two_rows[0].typestr, "<i2", 4);
    memcpy(two_rows[1].typestr, "<i2", 4);
    descr.count = 2;
    descr.fields = two_rows;
    set_typestr(&array, "|V4");
    REFUSED_OUT(CAI_ERR_CONVERT_TYPE, "typestr", array);

    ASSERT(destroyed == 0);
    cai_array_release(&good);
    ASSERT(destroyed == 1);
}

static void out_devices(void) {
    static const int32_t of_no_device[] = {CAI_DEVICE_CPU, CAI_DEVICE_CUDA_HOST,
                                           CAI_DEVICE_CUDA_MANAGED, 11};
    static const int32_t handles[] = {CAI_DEVICE_OPENCL, 7, 8, 15};
    static const int64_t none[2] = {0, 4};
    int destroyed = 0;
    size_t i;
    cai_array array = valid_array();
    versioned *tensor = NULL;
    array.owner = counting_owner(&destroyed);
    for (i = 0; i < 4; i++) {
        array.device.type = of_no_device[i];
        array.device.id = 5;
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
        ASSERT(tensor->dl_tensor.device_type == of_no_device[i] &&
               tensor->dl_tensor.device_id == 0);
        tensor->deleter(tensor);
    }
    for (i = 0; i < 4; i++) {
        array.device.type = handles[i];
        array.byte_offset = 512;
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
        ASSERT(tensor->dl_tensor.device_type == handles[i] && tensor->dl_tensor.device_id == 5);
        ASSERT(tensor->dl_tensor.data == test_data && tensor->dl_tensor.byte_offset == 512);
        tensor->deleter(tensor);
    }
    /* Nothing there, and nowhere: no driver is asked. */
    array.shape = none;
    array.data = NULL;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->dl_tensor.data == NULL && tensor->dl_tensor.byte_offset == 0);
    tensor->deleter(tensor);
    array.byte_offset = 0;
    array.device.type = CAI_DEVICE_UNKNOWN;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    ASSERT(tensor->dl_tensor.data == NULL && tensor->dl_tensor.device_type == CAI_DEVICE_CUDA);
    ASSERT(tensor->dl_tensor.device_id == 0 && tensor->dl_tensor.shape[0] == 0);
    tensor->deleter(tensor);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* --- there and back */

/* A tensor of ours is a tensor like any other: taken in again, it holds the first array's owner. */
static void round_trip(void) {
    static const int64_t strides[2] = {-64, 8};
    int destroyed = 0, i;
    cai_array array = valid_array(), last = CAI_ARRAY_INIT;
    array.owner = counting_owner(&destroyed);
    array.strides = strides;
    array.data = test_data + 1000;
    array.flags = CAI_ARRAY_READONLY;
    array.device.type = CAI_DEVICE_CUDA;
    array.device.id = 1;
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &last, NULL));
    for (i = 0; i < 10; i++) {
        versioned *tensor = NULL;
        cai_array next = CAI_ARRAY_INIT;
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&last, 0, &tensor, NULL));
        cai_array_release(&last);
        ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(tensor, CAI_STREAM_NONE, &next, NULL));
        last = next;
        ASSERT(last.data == array.data && last.flags == array.flags && last.ndim == 2);
        ASSERT(last.strides[0] == -64 && last.strides[1] == 8 && last.shape[0] == 3 &&
               last.shape[1] == 4);
        ASSERT(last.device.type == CAI_DEVICE_CUDA && last.device.id == 1);
        ASSERT_TEXT("<f4", last.typestr);
    }
    cai_array_release(&array);
    ASSERT(destroyed == 0);
    cai_array_release(&last);
    ASSERT(destroyed == 1);
}

/* The deleter may look at the library: nothing is held while it runs. */
static void delete_and_use(versioned *self) {
    cai_array array = CAI_ARRAY_INIT;
    versioned *inner = self->manager_ctx;
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(inner, CAI_STREAM_NONE, &array, NULL));
    cai_array_release(&array);
    delete_versioned(self);
}

static void nested(void) {
    versioned *outer = plain();
    cai_array array;
    outer->manager_ctx = plain();
    outer->deleter = delete_and_use;
    array = taken(outer);
    cai_array_release(&array);
    ASSERT(deleted == 2);
}

int main(void) {
    ASSERT(sizeof(dltensor) == 48 && sizeof(versioned) == 80 && sizeof(unversioned) == 64);
    in_plainly();
    in_unversioned();
    in_without_a_deleter();
    in_other_versions();
    in_refused();
    in_empty();
    in_single();
    in_handles();
    in_host_memory();
    types_both_ways();
    types_of_theirs();
    types_packed_bits();
    out_plainly();
    out_readonly();
    out_deleter_of_null();
    out_steps();
    out_refused();
    out_devices();
    round_trip();
    nested();
    return 0;
}
