/* Copies of arrays to and from host memory: layouts, buffers, what is refused, and owners. Those of
 * arrays on a device are in sync/copies.c.
 * run: plain asan valgrind */
#include "tests.h"
#include <cai/unstable/copy.h>

static int16_t values[4][6];

TEST(fill) {
    for (int i = 0; i < 24; ++i)
        values[i / 6][i % 6] = (int16_t)(100 + i);
}

static cai_array host(const int64_t *shape, const int64_t *strides, int32_t ndim, void *data) {
    cai_array array = CAI_ARRAY_INIT;
    array.data = data;
    array.shape = shape;
    array.strides = strides;
    array.ndim = ndim;
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    memcpy(array.typestr, "<i2", 4);
    return array;
}

TEST(layouts) {
    static const int64_t shape[2] = {3, 2}, backwards[2] = {-12, 4};
    const cai_array array = host(shape, backwards, 2, values[3]);
    cai_array out = CAI_ARRAY_INIT;
    int16_t buffer[6] = {0};
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    const int16_t *found = (const int16_t *)out.data;
    ASSERT((uintptr_t)found % 64 == 0 && out.strides == NULL && out.shape != shape);
    ASSERT(out.ndim == 2 && out.shape[0] == 3 && out.shape[1] == 2 && out.owner != NULL);
    ASSERT(out.device.type == CAI_DEVICE_CPU && out.stream == CAI_STREAM_NONE && out.flags == 0);
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 2; ++column)
            ASSERT(found[2 * row + column] == values[3 - row][2 * column]);
    cai_array_release(&out);
    ASSERT_STATUS(CAI_OK, cai_unstable_array_copy_to_host(&array, CAI_STREAM_LEGACY, 0, buffer,
                                                          sizeof buffer, &out, NULL));
    ASSERT(out.data == buffer && buffer[0] == values[3][0] && buffer[5] == values[1][2]);
    cai_array_release(&out);
    ASSERT(buffer[5] == values[1][2]);
}

/* Every order and direction of three dimensions, with gaps and without, compared element by
 * element. Bytes behind the buffer stay as they were. */
TEST(every_layout) {
    static const int64_t lengths[] = {1, 2, 3}, strides[] = {0, 2, -2, 4, 6, -6, 12, 18};
    static int16_t memory[256];
    for (int i = 0; i < 256; ++i)
        memory[i] = (int16_t)i;
    for (int number = 0; number < 27 * 512; ++number) {
        const int e = number % 27, s = number / 27;
        const int64_t shape[3] = {lengths[e % 3], lengths[e / 3 % 3], lengths[e / 9]};
        const int64_t steps[3] = {strides[s % 8], strides[s / 8 % 8], strides[s / 64]};
        const cai_array array = host(shape, steps, 3, memory + 128);
        const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
        cai_array out = CAI_ARRAY_INIT;
        int16_t buffer[28];
        size_t at = 0;
        memset(buffer, 0x55, sizeof buffer);
        ASSERT_STATUS(CAI_OK, cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, buffer,
                                                              2 * count, &out, NULL));
        for (int64_t i = 0; i < shape[0]; ++i)
            for (int64_t j = 0; j < shape[1]; ++j)
                for (int64_t k = 0; k < shape[2]; ++k)
                    ASSERT(buffer[at++] == 128 + (i * steps[0] + j * steps[1] + k * steps[2]) / 2);
        ASSERT(buffer[at] == 0x5555 && out.strides == NULL);
        cai_array_release(&out);
    }
}

TEST(read_only_and_without_elements) {
    static const int64_t shape[2] = {2, 3}, none[2] = {2, 0};
    cai_array array = host(shape, NULL, 2, values), out = CAI_ARRAY_INIT;
    array.flags = CAI_ARRAY_READONLY;
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    ASSERT(out.flags == 0 && memcmp(out.data, values, 12) == 0);
    cai_array_release(&out);
    array = host(none, NULL, 2, NULL);
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    ASSERT(out.data == NULL && out.owner != NULL && out.shape[1] == 0);
    cai_array_release(&out);
    /* Without elements, no driver is needed. */
    array.device.type = CAI_DEVICE_CUDA;
    array.stream = CAI_STREAM_LEGACY;
    ASSERT_STATUS(
        CAI_OK, cai_unstable_array_copy_to_host(&array, CAI_STREAM_LEGACY, 0, NULL, 0, &out, NULL));
    ASSERT(out.data == NULL && out.stream == CAI_STREAM_NONE);
    cai_array_release(&out);
    /* Nor for page-locked memory on which no work is pending. */
    array = host(shape, NULL, 2, values);
    array.device.type = CAI_DEVICE_CUDA_HOST;
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    ASSERT(out.device.type == CAI_DEVICE_CPU && memcmp(out.data, values, 12) == 0);
    cai_array_release(&out);
}

static const int64_t extents[2] = {2, 3};

/* Each row changes something in an array of 12 bytes, and names the stream, the flags, the buffer
 * and its size. */
#define REFUSED(change, status, path, stream, flags, buffer, size)              \
    do {                                                                        \
        cai_array array = host(extents, NULL, 2, values), out = CAI_ARRAY_INIT; \
        cai_error error;                                                        \
        test_row = #change ", " #stream ", " #flags ", " #buffer ", " #size;    \
        (void)(change);                                                         \
        ASSERT_STATUS(status, COPY(stream, flags, buffer, size));               \
        ASSERT(error.code == (status));                                         \
        ASSERT_TEXT(path, error.field);                                         \
        ASSERT(out.owner == NULL && out.data == NULL);                          \
        test_row = NULL;                                                        \
    } while (0)

TEST(refusals) {
    const cai_stream none = CAI_STREAM_NONE;
    cai_array same = host(extents, NULL, 2, values), mask = same;
    cai_error why;
    char buffer[12];
#define COPY(stream, flags, buffer, size) \
    cai_unstable_array_copy_to_host(&array, stream, flags, buffer, size, &out, &error)
    REFUSED(0, CAI_ERR_BUFFER_SIZE, "size", none, 0, buffer, 11);
    REFUSED(0, CAI_ERR_NULL_ARGUMENT, "buffer", none, 0, NULL, 12);
    REFUSED(0, CAI_ERR_STREAM_ZERO, "stream", 0, 0, NULL, 0);
    REFUSED(0, CAI_ERR_ARGUMENT, "stream", CAI_STREAM_UNKNOWN, 0, NULL, 0);
    REFUSED(0, CAI_ERR_NEWER_CALLER, "flags", none, CAI_ACCESS_WRITE, NULL, 0);
    REFUSED(array.mask = &mask, CAI_ERR_CONVERT_MASK, "mask", none, 0, NULL, 0);
    REFUSED(array.device.type = CAI_DEVICE_ROCM, CAI_ERR_CONVERT_DEVICE, "device.type", none, 0,
            NULL, 0);
    REFUSED(array.ndim = -1, CAI_ERR_NDIM, "ndim", none, 0, NULL, 0);
#undef COPY
    ASSERT_STATUS(CAI_ERR_ARGUMENT,
                  cai_unstable_array_copy_to_host(&same, none, 0, NULL, 0, &same, &why));
    ASSERT_TEXT("out", why.field);
}

/* Each row changes something in an array of 12 bytes. */
#define BYTES_REFUSED(change, status, path, event, flags)                                     \
    do {                                                                                      \
        cai_array array = host(extents, NULL, 2, values);                                     \
        cai_error error;                                                                      \
        void *address = &array;                                                               \
        int64_t nbytes = -1;                                                                  \
        test_row = #change ", " #event ", " #flags;                                           \
        (void)(change);                                                                       \
        ASSERT_STATUS(status, cai_unstable_array_bytes(&array, CAI_STREAM_NONE, event, flags, \
                                                       &address, &nbytes, &error));           \
        ASSERT_TEXT(path, error.field);                                                       \
        ASSERT(address == &array && nbytes == -1);                                            \
        test_row = NULL;                                                                      \
    } while (0)

static void is_block(cai_array array, cai_stream stream, int64_t size) {
    void *address = values;
    int64_t nbytes = -1;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_bytes(&array, stream, NULL, CAI_ACCESS_READ, &address,
                                                   &nbytes, NULL));
    ASSERT(address == array.data && nbytes == size);
}

TEST(bytes) {
    static const int64_t shape[2] = {2, 3}, gaps[2] = {8, 2}, columns[2] = {2, 4};
    static const int64_t none[2] = {2, 0};
    const uint32_t reads = CAI_ACCESS_READ;
    cai_array mask = host(extents, NULL, 2, values);
    is_block(mask, CAI_STREAM_NONE, 12);
    is_block(host(shape, columns, 2, values), CAI_STREAM_LEGACY, 12);
    is_block(host(none, NULL, 2, NULL), CAI_STREAM_NONE, 0);
    BYTES_REFUSED(array.strides = gaps, CAI_ERR_CONVERT_CONTIGUOUS, "strides", NULL, reads);
    BYTES_REFUSED(array.mask = &mask, CAI_ERR_CONVERT_MASK, "mask", NULL, reads);
    BYTES_REFUSED(memcpy(array.typestr, "|O8", 4), CAI_ERR_CONVERT_TYPE, "typestr", NULL, reads);
    BYTES_REFUSED(array.device.type = CAI_DEVICE_OPENCL, CAI_ERR_CONVERT_DEVICE, "device.type",
                  NULL, reads);
    BYTES_REFUSED(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags", NULL,
                  CAI_ACCESS_WRITE);
    BYTES_REFUSED(0, CAI_ERR_ARGUMENT, "flags", NULL, 0);
    BYTES_REFUSED(0, CAI_ERR_ARGUMENT, "event", &mask, reads);
    BYTES_REFUSED(array.ndim = -1, CAI_ERR_NDIM, "ndim", NULL, reads);
}

TEST(back) {
    static const int64_t shape[2] = {3, 2}, backwards[2] = {-12, 4}, columns[2] = {2, 12};
    static const int64_t none[2] = {2, 0};
    static const int16_t source[6] = {1, 2, 3, 4, 5, 6};
    int16_t target[4][6] = {{0}};
    cai_array array = host(shape, backwards, 2, target[3]);
    ASSERT_STATUS(CAI_OK, cai_unstable_array_copy_from_host(&array, CAI_STREAM_NONE, 0, source,
                                                            sizeof source, NULL));
    for (int i = 0; i < 24; ++i) {
        const int row = i / 6, column = i % 6;
        const int inside = row > 0 && column % 2 == 0 && column < 4;
        ASSERT(target[row][column] == (inside ? 2 * (3 - row) + column / 2 + 1 : 0));
    }
    array = host(shape, columns, 2, target);
    ASSERT_STATUS(
        CAI_OK, cai_unstable_array_copy_from_host(&array, CAI_STREAM_LEGACY, 0, source, 12, NULL));
    ASSERT(target[0][0] == 1 && target[1][0] == 2 && target[0][1] == 3 && target[1][2] == 6);
    array = host(shape, NULL, 2, target);
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_array_copy_from_host(&array, CAI_STREAM_NONE, 0, source, 12, NULL));
    ASSERT(memcmp(target, source, 12) == 0);
    array = host(none, NULL, 2, NULL);
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_array_copy_from_host(&array, CAI_STREAM_NONE, 0, NULL, 0, NULL));
}

TEST(refusals_back) {
    static const int64_t repeated[2] = {0, 2}, windows[2] = {2, 2}, nothing[2] = {0, 3};
    const cai_stream none = CAI_STREAM_NONE;
    cai_array mask = host(extents, NULL, 2, values);
    const char buffer[12] = {0};
#define COPY(stream, flags, buffer, size) \
    cai_unstable_array_copy_from_host(&array, stream, flags, buffer, size, &error)
    REFUSED(0, CAI_ERR_BUFFER_SIZE, "size", none, 0, buffer, 11);
    REFUSED(0, CAI_ERR_BUFFER_SIZE, "size", none, 0, NULL, 0);
    REFUSED((array.shape = nothing, array.data = NULL), CAI_ERR_NULL_ARGUMENT, "buffer", none, 0,
            NULL, 4);
    REFUSED(0, CAI_ERR_STREAM_ZERO, "stream", 0, 0, buffer, 12);
    REFUSED(0, CAI_ERR_ARGUMENT, "stream", CAI_STREAM_UNKNOWN, 0, buffer, 12);
    REFUSED(0, CAI_ERR_NEWER_CALLER, "flags", none, CAI_ACCESS_READ, buffer, 12);
    REFUSED(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags", none, 0, buffer, 12);
    /* Before the buffer is looked at. */
    REFUSED(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags", none, 0, buffer, 11);
    REFUSED(array.strides = repeated, CAI_ERR_ARGUMENT, "strides", none, 0, buffer, 12);
    REFUSED(array.strides = windows, CAI_ERR_ARGUMENT, "strides", none, 0, buffer, 12);
    REFUSED(array.mask = &mask, CAI_ERR_CONVERT_MASK, "mask", none, 0, buffer, 12);
    REFUSED(array.device.type = CAI_DEVICE_ROCM, CAI_ERR_CONVERT_DEVICE, "device.type", none, 0,
            buffer, 12);
    REFUSED(array.ndim = -1, CAI_ERR_NDIM, "ndim", none, 0, buffer, 12);
}
