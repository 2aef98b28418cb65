/* Every rule of the array, broken one at a time: its status, its field, both values. And what is
 * unusual but right passes.
 * run: plain asan valgrind ages */
#include "cai_test.h"

static cai_array a;

static void refused(cai_status status, const char *field, const char *part) {
    cai_error error;
    memset(&error, 0x55, sizeof(error));
    ASSERT_STATUS(status, cai_array_validate(&a, CAI_CHECK_LAYOUT, &error));
    ASSERT(error.code == status && error.driver_code == 0);
    ASSERT_TEXT(field, error.field);
    ASSERT_CONTAINS(error.message, field);
    ASSERT_CONTAINS(error.message, "found ");
    ASSERT_CONTAINS(error.message, part);
    ASSERT_CONTAINS(error.message, ", expected ");
    /* The same without an error to write to, and with everything checked. */
    ASSERT_STATUS(status, cai_array_validate(&a, 0, NULL));
    ASSERT_STATUS(status, cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, NULL));
    a = valid_array();
}

static void passes(void) {
    cai_error error;
    cai_status status;
    memset(&error, 0x55, sizeof(error));
    status = cai_array_validate(&a, CAI_CHECK_LAYOUT, &error);
    if (status != CAI_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    ASSERT_STATUS(CAI_OK, status);
    ASSERT(error.code == 0x55555555); /* not touched on success */
    /* Any check besides the layout takes the slow path, which agrees. Alignment is the last one. */
    status = cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, NULL);
    ASSERT(status == CAI_OK || status == CAI_ERR_ALIGNMENT);
    a = valid_array();
}

static void structure(void) {
    a.struct_size = 0;
    refused(CAI_ERR_STRUCT_SIZE, "struct_size", "found 0");
    a.struct_size = 80;
    refused(CAI_ERR_STRUCT_SIZE, "struct_size", "found 80");
    a.struct_size = 127;
    refused(CAI_ERR_STRUCT_SIZE, "struct_size", "found 127");
    a.struct_size = 520;
    refused(CAI_ERR_STRUCT_SIZE, "struct_size", "found 520");
    a.struct_size = 0xffffffffu;
    refused(CAI_ERR_STRUCT_SIZE, "struct_size", "found 4294967295");
    a.flags = CAI_ARRAY_READONLY;
    passes();
    a.flags = 2;
    refused(CAI_ERR_FLAGS, "flags", "found 0x2");
    a.flags = 0x80000001u;
    refused(CAI_ERR_FLAGS, "flags", "found CAI_ARRAY_READONLY | 0x80000000");
    /* Above 3 means at least 3: what must be understood is in the flags. */
    a.version = 4;
    passes();
    a.version = 0xffff;
    passes();
    a.ndim = -1;
    refused(CAI_ERR_NDIM, "ndim", "found -1, expected 0 to 64");
    a.ndim = 65;
    refused(CAI_ERR_NDIM, "ndim", "found 65");
}

static void shapes(void) {
    static const int64_t negative[2] = {3, -4}, huge[2] = {INT64_MAX, 2},
                         wide[2] = {INT64_MAX / 4, 1};
    static const int64_t zeros[2] = {0, 0}, empty[2] = {3, 0}, reach[2] = {4, INT64_MAX / 2},
                         far[2] = {INT64_MIN / 2, 4};
    uint16_t version;
    a.shape = NULL;
    refused(CAI_ERR_SHAPE_NULL, "shape", "found NULL, expected 2 extents");
    a.shape = NULL;
    a.ndim = 0;
    passes();
    a.shape = negative;
    refused(CAI_ERR_SHAPE_NEGATIVE, "shape[1]", "found -4, expected at least 0");
    a.shape = huge;
    refused(CAI_ERR_SIZE_OVERFLOW, "shape[1]", "found 2");
    a.shape = wide;
    set_typestr(&a, "<f8");
    refused(CAI_ERR_SIZE_OVERFLOW, "shape", "elements of 64 bits");
    a.shape = wide;
    a.strides =
        zeros; /* reaches four bytes, but no consumer could count the bytes of the elements */
    set_typestr(&a, "<f8");
    refused(CAI_ERR_SIZE_OVERFLOW, "shape", "elements of 64 bits");
    a.strides = reach;
    refused(CAI_ERR_SPAN_OVERFLOW, "strides[1]", "found 4611686018427387903 over an extent of 4");
    a.strides =
        far; /* 2^63 down: exactly the most that is allowed, but before the start of memory */
    refused(CAI_ERR_ADDRESS_RANGE, "data", "reach 9223372036854775808 bytes down");
    a.shape = empty;
    refused(CAI_ERR_DATA_NOT_NULL, "data", "expected NULL");
    a.shape = empty;
    a.data = NULL;
    passes();
    a.shape = empty;
    a.data = NULL;
    a.strides = reach;
    passes();
    a.data = NULL;
    refused(CAI_ERR_DATA_NULL, "data", "12 elements");
    /* In every version, also in those that leave it open. */
    for (version = 0; version < 3; version++) {
        a.version = version;
        a.data = NULL;
        refused(CAI_ERR_DATA_NULL, "data", "12 elements");
        a.version = version;
        a.shape = empty;
        refused(CAI_ERR_DATA_NOT_NULL, "data", "expected NULL");
        a.version = version;
        a.shape = empty;
        a.data = NULL;
        passes();
    }
    a.data = (void *)(uintptr_t)(UINT64_MAX - 40);
    refused(CAI_ERR_ADDRESS_RANGE, "data", "48 bytes up");
    a.data = (void *)(uintptr_t)(UINT64_MAX - 48);
    passes();
}

static void types(void) {
    memset(a.typestr, 0, sizeof(a.typestr));
    refused(CAI_ERR_TYPESTR_LENGTH, "typestr", "empty");
    memset(a.typestr, '<', sizeof(a.typestr));
    refused(CAI_ERR_TYPESTR_LENGTH, "typestr", "no NUL in 16 bytes");
    set_typestr(&a, "f4");
    refused(CAI_ERR_TYPESTR_ORDER, "typestr", "\"f4\"");
    set_typestr(&a, "<x4");
    refused(CAI_ERR_TYPESTR_KIND, "typestr", "'x'");
    set_typestr(&a, "<f5");
    refused(CAI_ERR_TYPESTR_SIZE, "typestr", "\"<f5\"");
    set_typestr(&a, "<M8[x]");
    refused(CAI_ERR_TYPESTR_UNIT, "typestr", "\"<M8[x]\"");
    set_typestr(&a, "|S0");
    refused(CAI_ERR_ITEMSIZE, "typestr", "0 bytes");
    a.dtype_code = 1000;
    refused(CAI_ERR_DTYPE_CODE, "dtype_code", "found 1000");
    set_typestr(&a, "|t1");
    a.strides = test_shape;
    refused(CAI_ERR_BIT_STRIDES, "strides", "1 bits");
    set_typestr(&a, "|t1");
    passes();
    set_typestr(&a, ">f8"); /* foreign order is legal; cai_array_is_native detects it */
    passes();
}

static void on_device(cai_stream stream) {
    a.device.type = CAI_DEVICE_CUDA;
    a.stream = stream;
}

static void streams(void) {
    static char event;
    cai_array mask;
    on_device(0);
    refused(CAI_ERR_STREAM_ZERO, "stream", "CAI_STREAM_NONE");
    on_device(CAI_STREAM_LEGACY);
    passes();
    on_device(CAI_STREAM_PER_THREAD);
    passes();
    a.stream = CAI_STREAM_UNKNOWN;
    passes();
    on_device(0x7f0012345678u);
    a.stream_id = 17;
    a.event = &event;
    passes();
    for (a.version = 0; a.version < 3; a.version++) {
        uint16_t version = a.version;
        a.stream = CAI_STREAM_UNKNOWN;
        passes();
        a.version = version;
        on_device(CAI_STREAM_NONE);
        passes();
        a.version = version;
        on_device(CAI_STREAM_LEGACY);
        refused(CAI_ERR_STREAM_VERSION, "stream", "found 0x1 in version");
        /* Arrays without dimensions take another fast path. */
        a.version = version;
        on_device(CAI_STREAM_LEGACY);
        a.ndim = 0;
        refused(CAI_ERR_STREAM_VERSION, "stream", "found 0x1 in version");
        a.version = version;
        on_device(0);
        refused(CAI_ERR_STREAM_ZERO, "stream", "found 0");
        a.version = version;
    }
    a = valid_array();
    on_device(CAI_STREAM_NONE);
    a.stream_id = 17;
    refused(CAI_ERR_STREAM_ID, "stream_id", "found 17");
    on_device(CAI_STREAM_UNKNOWN);
    a.stream_id = 17;
    refused(CAI_ERR_STREAM_ID, "stream_id", "found 17");
    on_device(CAI_STREAM_NONE);
    a.event = &event;
    refused(CAI_ERR_EVENT, "event", "expected NULL");
    on_device(CAI_STREAM_UNKNOWN);
    a.event = &event;
    passes();
    /* No driver orders host memory. */
    a.stream = CAI_STREAM_LEGACY;
    refused(CAI_ERR_STREAM_DEVICE, "device.type", "with a stream or an event");
    a.stream = CAI_STREAM_UNKNOWN;
    a.event = &event;
    refused(CAI_ERR_STREAM_DEVICE, "device.type", "with a stream or an event");
    a.stream = CAI_STREAM_UNKNOWN;
    passes();
    on_device(CAI_STREAM_LEGACY);
    a.device.type = CAI_DEVICE_CUDA_HOST;
    passes();
    mask = valid_array();
    set_typestr(&mask, "|b1");
    mask.stream = CAI_STREAM_LEGACY;
    a.mask = &mask;
    refused(CAI_ERR_STREAM_DEVICE, "mask.device.type", "with a stream or an event");
}

static void devices(void) {
    static const int64_t down[2] = {-16, 4};
    int32_t type;
    for (type = 0; type <= 18; type++) {
        a.device.type = type;
        passes();
    }
    a.device.type = 19;
    refused(CAI_ERR_DEVICE_TYPE, "device.type", "found 19");
    a.device.type = -1;
    refused(CAI_ERR_DEVICE_TYPE, "device.type", "found -1");
    a.device.type = CAI_DEVICE_CUDA;
    a.device.id = 7;
    passes();
    a.device.id = -2;
    refused(CAI_ERR_DEVICE_ID, "device.id", "found -2");
    /* -1: not known. CUDA's numbers always are, and the host has one. */
    for (type = 1; type <= 18; type++) {
        a.device.type = type;
        a.device.id = -1;
        if (type == CAI_DEVICE_CPU || type == CAI_DEVICE_CUDA || type == CAI_DEVICE_CUDA_HOST ||
            type == CAI_DEVICE_CUDA_MANAGED) {
            refused(CAI_ERR_DEVICE_ID, "device.id", "found -1, expected at least 0");
        } else {
            passes();
        }
        a.device.type = type;
        a.device.id = -2;
        refused(CAI_ERR_DEVICE_ID, "device.id", "found -2, expected at least 0");
    }
    a.device.type = CAI_DEVICE_UNKNOWN;
    a.device.id = -2; /* what the driver says of memory that it does not know */
    passes();
    a.byte_offset = 64;
    refused(CAI_ERR_BYTE_OFFSET, "byte_offset", "found 64");
    a.device.type = CAI_DEVICE_OPENCL;
    a.byte_offset = 64;
    passes();
    a.device.type = CAI_DEVICE_OPENCL;
    a.strides = down;
    a.byte_offset = 31;
    refused(CAI_ERR_ADDRESS_RANGE, "byte_offset", "32 bytes down");
    a.device.type = CAI_DEVICE_OPENCL;
    a.strides = down;
    a.byte_offset = 32;
    passes();
    a.device.type = CAI_DEVICE_OPENCL;
    a.byte_offset = UINT64_MAX;
    refused(CAI_ERR_ADDRESS_RANGE, "byte_offset", "48 bytes up");
}

static cai_array mask_array(void) {
    cai_array mask = valid_array();
    set_typestr(&mask, "|b1");
    return mask;
}

/* The array's device can read the mask, as far as both are known. */
static void mask_devices(void) {
    static const struct {
        cai_device array, mask;
        cai_status status;
    } cases[] = {
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_UNKNOWN, 0}, CAI_OK},
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_CUDA, 1}, CAI_OK},
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_CUDA_HOST, 0}, CAI_OK},
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_CUDA_MANAGED, 0}, CAI_OK},
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_CUDA, 0}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_CPU, 0}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_CUDA, 1}, {CAI_DEVICE_ONEAPI, 1}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_UNKNOWN, 0}, {CAI_DEVICE_CPU, 0}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_UNKNOWN, 0}, {CAI_DEVICE_CUDA, 3}, CAI_OK},
        {{CAI_DEVICE_CUDA_HOST, 0}, {CAI_DEVICE_CPU, 0}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_CUDA_HOST, 0}, {CAI_DEVICE_CUDA, 1}, CAI_OK},
        {{CAI_DEVICE_CUDA_MANAGED, 0}, {CAI_DEVICE_CUDA, 1}, CAI_OK},
        {{CAI_DEVICE_CPU, 0}, {CAI_DEVICE_CPU, 0}, CAI_OK},
        {{CAI_DEVICE_CPU, 0}, {CAI_DEVICE_CUDA_HOST, 0}, CAI_OK},
        {{CAI_DEVICE_CPU, 0}, {CAI_DEVICE_CUDA_MANAGED, 0}, CAI_OK},
        {{CAI_DEVICE_CPU, 0}, {CAI_DEVICE_CUDA, 0}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_ONEAPI, 1}, {CAI_DEVICE_ONEAPI, 1}, CAI_OK},
        {{CAI_DEVICE_ONEAPI, 1}, {CAI_DEVICE_ONEAPI, -1}, CAI_OK},
        {{CAI_DEVICE_ONEAPI, -1}, {CAI_DEVICE_ONEAPI, 2}, CAI_OK},
        {{CAI_DEVICE_ONEAPI, 1}, {CAI_DEVICE_ONEAPI, 2}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_ONEAPI, 1}, {CAI_DEVICE_OPENCL, 1}, CAI_ERR_MASK_DEVICE},
        {{CAI_DEVICE_ONEAPI, 1}, {CAI_DEVICE_CPU, 0}, CAI_ERR_MASK_DEVICE},
    };
    static const int64_t none[2] = {3, 0};
    cai_array mask = mask_array(), inner = mask_array();
    size_t i;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        a.device = cases[i].array;
        mask.device = cases[i].mask;
        a.mask = &mask;
        if (cases[i].status == CAI_OK) {
            passes();
        } else {
            refused(cases[i].status, "mask.device", "can read");
        }
        /* Through a mask of unknown device, which is where the array is. */
        a.device = cases[i].array;
        inner = mask;
        mask = mask_array();
        mask.device.type = CAI_DEVICE_UNKNOWN;
        mask.mask = &inner;
        a.mask = &mask;
        if (cases[i].status == CAI_OK) {
            passes();
        } else {
            refused(cases[i].status, "mask.mask.device", "can read");
        }
        mask = mask_array();
    }
    /* Without elements nothing is read. */
    a.shape = mask.shape = none;
    a.data = mask.data = NULL;
    mask.device.type = CAI_DEVICE_CPU;
    a.mask = &mask;
    passes();
}

static void masks(void) {
    static const int64_t row[1] = {4}, wrong[1] = {3}, ones[2] = {3, 1}, more[3] = {1, 3, 4},
                         none[2] = {3, 0};
    cai_array mask = mask_array(), chain[CAI_MAX_MASKS + 1];
    const char *good[] = {"|b1", "|u1", "<i4", ">u8", "|t1", "<t8"};
    const char *bad[] = {"<f4", "<c8", "|V1", "|S1", "<M8[s]", "|O", "<U1"};
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        set_typestr(&mask, good[i]);
        a.mask = &mask;
        passes();
    }
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set_typestr(&mask, bad[i]);
        a.mask = &mask;
        refused(CAI_ERR_MASK_TYPE, "mask.typestr", bad[i]);
    }
    set_typestr(&mask, "|u1");
    mask.dtype_code = CAI_DTYPE_FLOAT8_E5M2;
    a.mask = &mask;
    refused(CAI_ERR_MASK_TYPE, "mask.typestr", "|u1");
    mask = mask_array();

    a.mask = &mask;
    a.version = 0;
    a.stream = CAI_STREAM_UNKNOWN;
    refused(CAI_ERR_MASK_VERSION, "mask", "version 0");
    a.mask = &mask;
    a.version = 1;
    passes();

    /* Broadcasting, from the last dimension. */
    mask.ndim = 1;
    mask.shape = row;
    a.mask = &mask;
    passes();
    mask.ndim = 0;
    a.mask = &mask;
    passes();
    mask.ndim = 2;
    mask.shape = ones;
    a.mask = &mask;
    passes();
    mask.ndim = 1;
    mask.shape = wrong;
    a.mask = &mask;
    refused(CAI_ERR_MASK_SHAPE, "mask.shape[0]", "found 3, expected 4");
    mask.ndim = 3;
    mask.shape = more;
    a.mask = &mask;
    refused(CAI_ERR_MASK_SHAPE, "mask.ndim", "found 3, expected at most the array's 2");
    mask.ndim = 2;
    mask.shape = none;
    mask.data = NULL;
    a.mask = &mask;
    refused(CAI_ERR_MASK_SHAPE, "mask.shape[1]", "found 0, expected 4");
    a.mask = &mask;
    a.shape = none;
    a.data = NULL;
    passes();

    /* The mask broadcasts to the array, not the array to the mask. */
    mask = mask_array();
    mask.ndim = 1;
    mask.shape = wrong;
    a.mask = &mask;
    a.shape = ones;
    refused(CAI_ERR_MASK_SHAPE, "mask.shape[0]", "found 3, expected 1");

    /* Every rule holds inside a mask. */
    mask = mask_array();
    mask.struct_size = 3;
    a.mask = &mask;
    refused(CAI_ERR_STRUCT_SIZE, "mask.struct_size", "found 3");
    mask = mask_array();
    mask.stream = 0;
    a.mask = &mask;
    refused(CAI_ERR_STREAM_ZERO, "mask.stream", "found 0");
    mask = mask_array();
    mask.data = NULL;
    a.mask = &mask;
    refused(CAI_ERR_DATA_NULL, "mask.data", "found NULL");

    /* Chains: bounded, and never around in a circle. */
    for (i = 0; i <= CAI_MAX_MASKS; i++) {
        chain[i] = mask_array();
        chain[i].mask = i == CAI_MAX_MASKS ? NULL : &chain[i + 1];
    }
    chain[CAI_MAX_MASKS - 1].mask = NULL;
    a.mask = &chain[0];
    passes();
    chain[CAI_MAX_MASKS - 1].mask = &chain[CAI_MAX_MASKS];
    a.mask = &chain[0];
    refused(CAI_ERR_MASK_DEPTH, "mask.mask.mask.mask.mask.mask.mask.mask.mask", "9 masks");
    chain[2].mask = &chain[1];
    a.mask = &chain[0];
    refused(CAI_ERR_MASK_CYCLE, "mask.mask.mask.mask", "is a mask of");
    set_typestr(&a, "|b1");
    a.mask = &a;
    refused(CAI_ERR_MASK_CYCLE, "mask", "is a mask of");
    chain[0].shape = wrong;
    chain[0].ndim = 1;
    chain[1].mask = NULL;
    chain[0].mask = &chain[1];
    chain[1].stream_id = 3;
    chain[0] = mask_array();
    chain[0].mask = &chain[1];
    a.mask = &chain[0];
    refused(CAI_ERR_STREAM_ID, "mask.mask.stream_id", "found 3");
}

static void misaligned(const char *field) {
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL));
    ASSERT_STATUS(CAI_ERR_ALIGNMENT,
                  cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, &error));
    ASSERT_STATUS(CAI_ERR_ALIGNMENT, cai_array_validate(&a, CAI_CHECK_ALIGNMENT, NULL));
    ASSERT_TEXT(field, error.field);
    ASSERT_CONTAINS(error.message, "a multiple of");
    a = valid_array();
}

static void aligned(void) {
    ASSERT_STATUS(CAI_OK, cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, NULL));
    a = valid_array();
}

static void alignment(void) {
    static const int64_t odd[2] = {18, 4}, odder[2] = {18, 3}, ones[2] = {1, 4}, empty[2] = {0, 4};
    cai_array mask = mask_array();
    aligned();
    a.data = (char *)test_data + 2;
    misaligned("data");
    a.strides = odd;
    misaligned("strides[0]");
    a.strides = odd;
    a.shape = ones;
    aligned();
    a.shape = empty;
    a.data = NULL;
    a.strides = odder;
    aligned();
    a.data = (char *)test_data + 1;
    set_typestr(&a, "|S3");
    aligned();
    a.data = (char *)test_data + 4;
    set_typestr(&a, "<c8");
    aligned();
    a.data = (char *)test_data + 4;
    set_typestr(&a, "<f12");
    aligned();
    a.data = (char *)test_data + 2;
    set_typestr(&a, "<f12");
    misaligned("data");
    a.data = (char *)test_data + 2;
    set_typestr(&a, "<U3");
    misaligned("data");
    a.data = (char *)test_data + 1;
    set_typestr(&a, "<V2");
    aligned();
    a.data = (char *)test_data + 1;
    set_typestr(&a, "<V2");
    a.dtype_code = CAI_DTYPE_BFLOAT16;
    misaligned("data");
    a.device.type = CAI_DEVICE_OPENCL;
    a.byte_offset = 6;
    misaligned("byte_offset");
    set_typestr(&mask, "<i4");
    mask.data = (char *)test_data + 2;
    a.mask = &mask;
    misaligned("mask.data");
}

static void checks(void) {
    cai_error error;
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_validate(&a, 0x40000000u, &error));
    ASSERT_TEXT("checks", error.field);
    ASSERT_CONTAINS(error.message, "0x40000000");
}

int main(void) {
    a = valid_array();
    passes();
    structure();
    shapes();
    types();
    streams();
    devices();
    masks();
    mask_devices();
    alignment();
    checks();
    return 0;
}
