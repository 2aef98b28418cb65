/* Every rule of the array, broken one at a time: its status, its field, both values. And what is
 * unusual but right passes.
 * run: plain asan valgrind ages */
#include "tests.h"

/* What each row changes before the array is validated. */
static cai_array a, mask, inner;

static void start(const char *row) {
    test_row = row;
    a = valid_array();
    mask = inner = valid_array();
    set_typestr(&mask, "|b1");
    set_typestr(&inner, "|b1");
}

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
}

static void passes(void) {
    cai_error error;
    memset(&error, 0x55, sizeof(error));
    cai_status status = cai_array_validate(&a, CAI_CHECK_LAYOUT, &error);
    if (status != CAI_OK) FAIL("%s", error.message);
    ASSERT(error.code == 0x55555555); /* not touched on success */
    /* Any check besides the layout takes the slow path, which agrees. Alignment is the last one. */
    status = cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, NULL);
    ASSERT(status == CAI_OK || status == CAI_ERR_ALIGNMENT);
}

/* The rows: how the array differs from a valid one, and what validation says of it. */
#define ROW(change) start(#change), (void)(change)
#define REFUSED(change, status, field, part) (ROW(change), refused(status, field, part))
#define PASSES(change) (ROW(change), passes())

static const int64_t none[2] = {3, 0};

TEST(structure) {
    PASSES(a = valid_array());
    REFUSED(a.struct_size = 0, CAI_ERR_STRUCT_SIZE, "struct_size", "found 0");
    REFUSED(a.struct_size = 80, CAI_ERR_STRUCT_SIZE, "struct_size", "found 80");
    REFUSED(a.struct_size = 127, CAI_ERR_STRUCT_SIZE, "struct_size", "found 127");
    REFUSED(a.struct_size = 520, CAI_ERR_STRUCT_SIZE, "struct_size", "found 520");
    REFUSED(a.struct_size = 0xffffffffu, CAI_ERR_STRUCT_SIZE, "struct_size", "found 4294967295");
    PASSES(a.flags = CAI_ARRAY_READONLY);
    REFUSED(a.flags = 2, CAI_ERR_FLAGS, "flags", "found 0x2");
    REFUSED(a.flags = 0x80000001u, CAI_ERR_FLAGS, "flags", "found CAI_ARRAY_READONLY | 0x80000000");
    /* Above 3 means at least 3: what must be understood is in the flags. */
    PASSES(a.version = 4);
    PASSES(a.version = 0xffff);
    REFUSED(a.ndim = -1, CAI_ERR_NDIM, "ndim", "found -1, expected 0 to 64");
    REFUSED(a.ndim = 65, CAI_ERR_NDIM, "ndim", "found 65");
}

TEST(shapes) {
    static const int64_t negative[2] = {3, -4}, and_none[2] = {0, -4}, huge[2] = {INT64_MAX, 2},
                         wide[2] = {INT64_MAX / 4, 1};
    static const int64_t zeros[2] = {0, 0}, reach[2] = {4, INT64_MAX / 2},
                         far[2] = {INT64_MIN / 2, 4};
    uint16_t v;
    REFUSED(a.shape = NULL, CAI_ERR_SHAPE_NULL, "shape", "found NULL, expected 2 extents");
    PASSES((a.shape = NULL, a.ndim = 0));
    REFUSED(a.shape = negative, CAI_ERR_SHAPE_NEGATIVE, "shape[1]",
            "found -4, expected at least 0");
    REFUSED((a.shape = and_none, a.data = NULL), CAI_ERR_SHAPE_NEGATIVE, "shape[1]", "found -4");
    REFUSED(a.shape = huge, CAI_ERR_SIZE_OVERFLOW, "shape[1]", "found 2");
    REFUSED((a.shape = wide, set_typestr(&a, "<f8")), CAI_ERR_SIZE_OVERFLOW, "shape",
            "elements of 64 bits");
    /* Reaches four bytes, but no consumer could count the bytes of the elements. */
    REFUSED((a.shape = wide, a.strides = zeros, set_typestr(&a, "<f8")), CAI_ERR_SIZE_OVERFLOW,
            "shape", "elements of 64 bits");
    REFUSED(a.strides = reach, CAI_ERR_SPAN_OVERFLOW, "strides[1]",
            "found 4611686018427387903 over an extent of 4");
    /* 2^63 down: exactly the most that is allowed, but before the start of memory. */
    REFUSED(a.strides = far, CAI_ERR_ADDRESS_RANGE, "data", "reach 9223372036854775808 bytes down");
    PASSES((a.shape = none, a.data = NULL, a.strides = reach));
    /* In every version, also in those that leave it open. */
    for (v = 0; v <= 3; v++) {
        REFUSED((a.version = v, a.data = NULL), CAI_ERR_DATA_NULL, "data", "12 elements");
        REFUSED((a.version = v, a.shape = none), CAI_ERR_DATA_NOT_NULL, "data", "expected NULL");
        PASSES((a.version = v, a.shape = none, a.data = NULL));
    }
    REFUSED(a.data = (void *)(uintptr_t)(UINT64_MAX - 40), CAI_ERR_ADDRESS_RANGE, "data",
            "48 bytes up");
    PASSES(a.data = (void *)(uintptr_t)(UINT64_MAX - 48));
}

/* The grammar of typestr is tested in dtype_typestr.c. */
TEST(types) {
    REFUSED(memset(a.typestr, 0, sizeof(a.typestr)), CAI_ERR_TYPESTR_LENGTH, "typestr", "empty");
    REFUSED(memset(a.typestr, '<', sizeof(a.typestr)), CAI_ERR_TYPESTR_LENGTH, "typestr",
            "no NUL in 16 bytes");
    REFUSED(set_typestr(&a, "<f5"), CAI_ERR_TYPESTR_SIZE, "typestr", "\"<f5\"");
    REFUSED(set_typestr(&a, "|S0"), CAI_ERR_ITEMSIZE, "typestr", "0 bytes");
    REFUSED(a.dtype_code = 1000, CAI_ERR_DTYPE_CODE, "dtype_code", "found 1000");
    PASSES(set_typestr(&a, "|t1"));
    REFUSED((set_typestr(&a, "|t1"), a.strides = test_shape), CAI_ERR_BIT_STRIDES, "strides",
            "1 bit");
    PASSES(set_typestr(&a, ">f8")); /* CAI_CHECK_NATIVE refuses it: see byte_order() */
}

static void on_device(cai_stream stream) {
    a.device.type = CAI_DEVICE_CUDA;
    a.stream = stream;
}

TEST(streams) {
    static char event;
    uint16_t v;
    REFUSED(on_device(0), CAI_ERR_STREAM_ZERO, "stream", "CAI_STREAM_NONE");
    PASSES(on_device(CAI_STREAM_LEGACY));
    PASSES(on_device(CAI_STREAM_PER_THREAD));
    PASSES(a.stream = CAI_STREAM_UNKNOWN);
    PASSES((on_device(0x7f0012345678u), a.stream_id = 17, a.event = &event));
    for (v = 0; v < 3; v++) {
        PASSES((a.version = v, a.stream = CAI_STREAM_UNKNOWN));
        PASSES((a.version = v, on_device(CAI_STREAM_NONE)));
        REFUSED((a.version = v, on_device(CAI_STREAM_LEGACY)), CAI_ERR_STREAM_VERSION, "stream",
                "found 0x1 in version");
        /* Arrays without dimensions take another fast path. */
        REFUSED((a.version = v, on_device(CAI_STREAM_LEGACY), a.ndim = 0), CAI_ERR_STREAM_VERSION,
                "stream", "found 0x1 in version");
        REFUSED((a.version = v, on_device(0)), CAI_ERR_STREAM_ZERO, "stream", "found 0");
    }
    REFUSED((on_device(CAI_STREAM_NONE), a.stream_id = 17), CAI_ERR_STREAM_ID, "stream_id",
            "found 17");
    REFUSED((on_device(CAI_STREAM_UNKNOWN), a.stream_id = 17), CAI_ERR_STREAM_ID, "stream_id",
            "found 17");
    REFUSED((on_device(CAI_STREAM_NONE), a.event = &event), CAI_ERR_EVENT, "event",
            "expected NULL");
    PASSES((on_device(CAI_STREAM_UNKNOWN), a.event = &event));
    /* No driver orders host memory. */
    REFUSED(a.stream = CAI_STREAM_LEGACY, CAI_ERR_STREAM_DEVICE, "device.type",
            "with a stream or an event");
    REFUSED((a.stream = CAI_STREAM_UNKNOWN, a.event = &event), CAI_ERR_STREAM_DEVICE, "device.type",
            "with a stream or an event");
    PASSES((on_device(CAI_STREAM_LEGACY), a.device.type = CAI_DEVICE_CUDA_HOST));
    REFUSED((a.mask = &mask, mask.stream = CAI_STREAM_LEGACY), CAI_ERR_STREAM_DEVICE,
            "mask.device.type", "with a stream or an event");
}

TEST(devices) {
    static const int64_t down[2] = {-16, 4};
    int32_t type;
    for (type = 0; type <= 21; type++) {
        PASSES(a.device.type = type);
    }
    REFUSED(a.device.type = 30, CAI_ERR_DEVICE_TYPE, "device.type", "found 30");
    REFUSED(a.device.type = -1, CAI_ERR_DEVICE_TYPE, "device.type", "found -1");
    PASSES((a.device.type = CAI_DEVICE_CUDA, a.device.id = 7));
    /* -1: not known. CUDA's numbers always are, and the host has one. */
    for (type = 1; type <= 21; type++) {
        if (type == CAI_DEVICE_CPU || type == CAI_DEVICE_CUDA || type == CAI_DEVICE_CUDA_HOST ||
            type == CAI_DEVICE_CUDA_MANAGED) {
            REFUSED((a.device.type = type, a.device.id = -1), CAI_ERR_DEVICE_ID, "device.id",
                    "found -1, expected at least 0");
        } else {
            PASSES((a.device.type = type, a.device.id = -1));
        }
        REFUSED((a.device.type = type, a.device.id = -2), CAI_ERR_DEVICE_ID, "device.id",
                "found -2, expected at least 0");
    }
    /* What the driver says of memory that it does not know. */
    PASSES((a.device.type = CAI_DEVICE_UNKNOWN, a.device.id = -2));
    REFUSED(a.byte_offset = 64, CAI_ERR_BYTE_OFFSET, "byte_offset", "found 64");
    PASSES((a.device.type = CAI_DEVICE_OPENCL, a.byte_offset = 64));
    REFUSED((a.device.type = CAI_DEVICE_OPENCL, a.byte_offset = 64, a.shape = none, a.data = NULL),
            CAI_ERR_BYTE_OFFSET, "byte_offset", "found 64, expected 0, for data is NULL");
    REFUSED((a.device.type = CAI_DEVICE_OPENCL, a.strides = down, a.byte_offset = 31),
            CAI_ERR_ADDRESS_RANGE, "byte_offset", "32 bytes down");
    PASSES((a.device.type = CAI_DEVICE_OPENCL, a.strides = down, a.byte_offset = 32));
    REFUSED((a.device.type = CAI_DEVICE_OPENCL, a.byte_offset = UINT64_MAX), CAI_ERR_ADDRESS_RANGE,
            "byte_offset", "48 bytes up");
}

/* The array's device can read the mask, as far as both are known. */
TEST(mask_devices) {
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
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const cai_device of = cases[i].array, masks = cases[i].mask;
        char name[80];
        snprintf(name, sizeof(name), "array on %d:%d, mask on %d:%d", of.type, of.id, masks.type,
                 masks.id);
        start(name);
        a.device = of;
        a.mask = &mask;
        mask.device = masks;
        if (cases[i].status == CAI_OK) {
            passes();
        } else {
            refused(cases[i].status, "mask.device", "can read");
        }
        /* Through a mask of unknown device, which is where the array is. */
        mask.device.type = CAI_DEVICE_UNKNOWN;
        mask.device.id = 0;
        mask.mask = &inner;
        inner.device = masks;
        if (cases[i].status == CAI_OK) {
            passes();
        } else {
            refused(cases[i].status, "mask.mask.device", "can read");
        }
    }
    /* Without elements nothing is read. */
    PASSES((a.mask = &mask, mask.device.type = CAI_DEVICE_CPU, a.shape = mask.shape = none,
            a.data = mask.data = NULL));
}

TEST(masks) {
    static const int64_t row[1] = {4}, wrong[1] = {3}, ones[2] = {3, 1}, more[3] = {1, 3, 4};
    static const char *good[] = {"|b1", "|u1", "<i4", ">u8", "|t1", "<t8"};
    static const char *bad[] = {"<f4", "<c8", "|V1", "|S1", "<M8[s]", "|O", "<U1"};
    cai_array chain[CAI_MAX_MASKS + 1];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        PASSES((a.mask = &mask, set_typestr(&mask, good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        REFUSED((a.mask = &mask, set_typestr(&mask, bad[i])), CAI_ERR_MASK_TYPE, "mask.typestr",
                bad[i]);
    }
    REFUSED((a.mask = &mask, set_typestr(&mask, "|u1"), mask.dtype_code = CAI_DTYPE_FLOAT8_E5M2),
            CAI_ERR_MASK_TYPE, "mask.typestr", "|u1");
    REFUSED((a.mask = &mask, a.version = 0, a.stream = CAI_STREAM_UNKNOWN), CAI_ERR_MASK_VERSION,
            "mask", "version 0");
    PASSES((a.mask = &mask, a.version = 1));

    /* Broadcasting, from the last dimension. */
    PASSES((a.mask = &mask, mask.ndim = 1, mask.shape = row));
    PASSES((a.mask = &mask, mask.ndim = 0));
    PASSES((a.mask = &mask, mask.shape = ones));
    REFUSED((a.mask = &mask, mask.ndim = 1, mask.shape = wrong), CAI_ERR_MASK_SHAPE,
            "mask.shape[0]", "found 3, expected 4");
    REFUSED((a.mask = &mask, mask.ndim = 3, mask.shape = more), CAI_ERR_MASK_SHAPE, "mask.ndim",
            "found 3, expected at most the array's 2");
    REFUSED((a.mask = &mask, mask.shape = none, mask.data = NULL), CAI_ERR_MASK_SHAPE,
            "mask.shape[1]", "found 0, expected 4");
    PASSES((a.mask = &mask, mask.shape = a.shape = none, mask.data = a.data = NULL));
    /* The mask broadcasts to the array, not the array to the mask. */
    REFUSED((a.mask = &mask, mask.ndim = 1, mask.shape = wrong, a.shape = ones), CAI_ERR_MASK_SHAPE,
            "mask.shape[0]", "found 3, expected 1");

    /* Every rule holds inside a mask. */
    REFUSED((a.mask = &mask, mask.struct_size = 3), CAI_ERR_STRUCT_SIZE, "mask.struct_size",
            "found 3");
    REFUSED((a.mask = &mask, mask.stream = 0), CAI_ERR_STREAM_ZERO, "mask.stream", "found 0");
    REFUSED((a.mask = &mask, mask.data = NULL), CAI_ERR_DATA_NULL, "mask.data", "found NULL");
    REFUSED((a.mask = &mask, mask.mask = &inner, inner.stream_id = 3), CAI_ERR_STREAM_ID,
            "mask.mask.stream_id", "found 3");

    /* Chains: bounded, and never around in a circle. */
    for (size_t i = 0; i <= CAI_MAX_MASKS; i++) {
        chain[i] = mask;
        chain[i].stream_id = 0;
        chain[i].mask = i == CAI_MAX_MASKS ? NULL : &chain[i + 1];
    }
    PASSES((a.mask = &chain[0], chain[CAI_MAX_MASKS - 1].mask = NULL));
    REFUSED((a.mask = &chain[0], chain[CAI_MAX_MASKS - 1].mask = &chain[CAI_MAX_MASKS]),
            CAI_ERR_MASK_DEPTH, "mask.mask.mask.mask.mask.mask.mask.mask.mask", "9 masks");
    REFUSED((a.mask = &chain[0], chain[2].mask = &chain[1]), CAI_ERR_MASK_CYCLE,
            "mask.mask.mask.mask", "is a mask of");
    REFUSED((a.mask = &a, set_typestr(&a, "|b1")), CAI_ERR_MASK_CYCLE, "mask", "is a mask of");
}

static void misaligned(const char *field) {
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL));
    ASSERT_STATUS(CAI_ERR_ALIGNMENT,
                  cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, &error));
    ASSERT_STATUS(CAI_ERR_ALIGNMENT, cai_array_validate(&a, CAI_CHECK_ALIGNMENT, NULL));
    ASSERT_TEXT(field, error.field);
    ASSERT_CONTAINS(error.message, "a multiple of");
}

#define MISALIGNED(change, field) (ROW(change), misaligned(field))
#define ALIGNED(change)                 \
    ASSERT_STATUS(CAI_OK, (ROW(change), \
                           cai_array_validate(&a, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, NULL)))

static void foreign(const char *field) {
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL));
    ASSERT_STATUS(CAI_ERR_CONVERT_BYTE_ORDER, cai_array_validate(&a, CAI_CHECK_NATIVE, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT_CONTAINS(error.message, "expected the byte order of this machine");
    /* The path of every rule. */
    ASSERT_STATUS(CAI_ERR_CONVERT_BYTE_ORDER,
                  cai_array_validate(&a, CAI_CHECK_NATIVE | CAI_CHECK_ALIGNMENT, NULL));
    /* The layout is checked as well, and before. */
    a.ndim = -1;
    ASSERT_STATUS(CAI_ERR_NDIM, cai_array_validate(&a, CAI_CHECK_NATIVE, NULL));
}

#define FOREIGN(change, field) (ROW(change), foreign(field))
#define NATIVE(change) \
    ASSERT_STATUS(CAI_OK, (ROW(change), cai_array_validate(&a, CAI_CHECK_NATIVE, NULL)))

/* Fields are tested in descr_fields.c. */
TEST(byte_order) {
    NATIVE(a = valid_array());
    NATIVE(set_typestr(&a, "|f4"));
    NATIVE((set_typestr(&a, ">S4"), a.version = 2));
    FOREIGN(set_typestr(&a, ">f4"), "typestr");
    FOREIGN((set_typestr(&a, ">U1"), a.device.id = 3), "typestr");
    FOREIGN((set_typestr(&a, ">V2"), a.dtype_code = CAI_DTYPE_BFLOAT16), "typestr");
    /* Nonzero in either order. */
    NATIVE((a.mask = &mask, set_typestr(&mask, ">i4")));
}

/* An array of a type, so many bytes behind an address that is aligned for every type. */
static void at(int bytes, const char *typestr) {
    a.data = (char *)test_data + bytes;
    set_typestr(&a, typestr);
}

TEST(alignment) {
    static const int64_t odd[2] = {18, 4}, odder[2] = {18, 3}, ones[2] = {1, 4}, empty[2] = {0, 4};
    ALIGNED(a = valid_array());
    MISALIGNED(at(2, "<f4"), "data");
    MISALIGNED(a.strides = odd, "strides[0]");
    ALIGNED((a.strides = odd, a.shape = ones));
    ALIGNED((a.strides = odder, a.shape = empty, a.data = NULL));
    ALIGNED(at(1, "|S3"));
    ALIGNED(at(4, "<c8"));
    ALIGNED(at(4, "<f12"));
    ALIGNED(at(8, "<f12"));
    MISALIGNED(at(2, "<f12"), "data");
    MISALIGNED(at(2, "<U3"), "data");
    ALIGNED(at(1, "<V2"));
    MISALIGNED((at(1, "<V2"), a.dtype_code = CAI_DTYPE_BFLOAT16), "data");
    ALIGNED((at(2, "<V4"), a.dtype_code = CAI_DTYPE_BCOMPLEX32));
    MISALIGNED((a.device.type = CAI_DEVICE_OPENCL, a.byte_offset = 6), "byte_offset");
    MISALIGNED((a.mask = &mask, set_typestr(&mask, "<i4"), mask.data = (char *)test_data + 2),
               "mask.data");
}

TEST(checks) {
    cai_error error;
    start("an unknown check");
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_validate(&a, 0x40000000u, &error));
    ASSERT_TEXT("checks", error.field);
    ASSERT_CONTAINS(error.message, "0x40000000");
}
