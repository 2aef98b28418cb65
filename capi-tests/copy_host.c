/* Copies of arrays to and from host memory: layouts, buffers, what is refused, and owners. Those of
 * arrays on a device are in sync/copies.c. */
#include "cai_test.h"

#define REFUSED(status, path, call)                    \
    do {                                               \
        cai_error why_;                                \
        cai_error *error = &why_;                      \
        ASSERT_STATUS(status, call);                   \
        ASSERT(why_.code == (status));                 \
        ASSERT_TEXT(path, why_.field);                 \
        ASSERT(out.owner == NULL && out.data == NULL); \
    } while (0)

static int16_t values[4][6];

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

static void layouts(void) {
    static const int64_t shape[2] = {3, 2}, backwards[2] = {-12, 4};
    const cai_array array = host(shape, backwards, 2, values[3]);
    cai_array out = CAI_ARRAY_INIT;
    int16_t buffer[6] = {0};
    const int16_t *found;
    ASSERT_STATUS(CAI_OK, cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    found = (const int16_t *)out.data;
    ASSERT((uintptr_t)found % 64 == 0 && out.strides == NULL && out.shape != shape);
    ASSERT(out.ndim == 2 && out.shape[0] == 3 && out.shape[1] == 2 && out.owner != NULL);
    ASSERT(out.device.type == CAI_DEVICE_CPU && out.stream == CAI_STREAM_NONE && out.flags == 0);
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 2; ++column)
            ASSERT(found[2 * row + column] == values[3 - row][2 * column]);
    cai_array_release(&out);
    ASSERT_STATUS(CAI_OK, cai_array_copy_to_host(&array, CAI_STREAM_LEGACY, 0, buffer,
                                                 sizeof buffer, &out, NULL));
    ASSERT(out.data == buffer && buffer[0] == values[3][0] && buffer[5] == values[1][2]);
    cai_array_release(&out);
    ASSERT(buffer[5] == values[1][2]);
}

static void read_only_and_without_elements(void) {
    static const int64_t shape[2] = {2, 3}, none[2] = {2, 0};
    cai_array array = host(shape, NULL, 2, values), out = CAI_ARRAY_INIT;
    array.flags = CAI_ARRAY_READONLY;
    ASSERT_STATUS(CAI_OK, cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    ASSERT(out.flags == 0 && memcmp(out.data, values, 12) == 0);
    cai_array_release(&out);
    array = host(none, NULL, 2, NULL);
    ASSERT_STATUS(CAI_OK, cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, NULL));
    ASSERT(out.data == NULL && out.owner != NULL && out.shape[1] == 0);
    cai_array_release(&out);
}

static void refusals(void) {
    static const int64_t shape[2] = {2, 3};
    const cai_array good = host(shape, NULL, 2, values);
    cai_array array = good, mask = good, out = CAI_ARRAY_INIT;
    char buffer[12];
    REFUSED(CAI_ERR_BUFFER_SIZE, "size",
            cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, buffer, 11, &out, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "buffer",
            cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 12, &out, error));
    REFUSED(CAI_ERR_STREAM_ZERO, "stream",
            cai_array_copy_to_host(&array, 0, 0, NULL, 0, &out, error));
    REFUSED(CAI_ERR_ARGUMENT, "stream",
            cai_array_copy_to_host(&array, CAI_STREAM_UNKNOWN, 0, NULL, 0, &out, error));
    REFUSED(
        CAI_ERR_NEWER_CALLER, "flags",
        cai_array_copy_to_host(&array, CAI_STREAM_NONE, CAI_ACCESS_WRITE, NULL, 0, &out, error));
    REFUSED(CAI_ERR_ARGUMENT, "out",
            cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &array, error));
    array.mask = &mask;
    REFUSED(CAI_ERR_CONVERT_MASK, "mask",
            cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, error));
    array = good;
    array.device.type = CAI_DEVICE_ROCM;
    REFUSED(CAI_ERR_CONVERT_DEVICE, "device.type",
            cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, error));
    array = good;
    array.ndim = -1;
    REFUSED(CAI_ERR_NDIM, "ndim",
            cai_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &out, error));
}

static void back(void) {
    static const int64_t shape[2] = {3, 2}, backwards[2] = {-12, 4}, columns[2] = {2, 12};
    static const int64_t none[2] = {2, 0};
    static const int16_t source[6] = {1, 2, 3, 4, 5, 6};
    int16_t target[4][6] = {{0}};
    cai_array array = host(shape, backwards, 2, target[3]);
    ASSERT_STATUS(
        CAI_OK, cai_array_copy_from_host(&array, CAI_STREAM_NONE, 0, source, sizeof source, NULL));
    for (int i = 0; i < 24; ++i) {
        const int row = i / 6, column = i % 6;
        const int inside = row > 0 && column % 2 == 0 && column < 4;
        ASSERT(target[row][column] == (inside ? 2 * (3 - row) + column / 2 + 1 : 0));
    }
    array = host(shape, columns, 2, target);
    ASSERT_STATUS(CAI_OK, cai_array_copy_from_host(&array, CAI_STREAM_LEGACY, 0, source, 12, NULL));
    ASSERT(target[0][0] == 1 && target[1][0] == 2 && target[0][1] == 3 && target[1][2] == 6);
    array = host(shape, NULL, 2, target);
    ASSERT_STATUS(CAI_OK, cai_array_copy_from_host(&array, CAI_STREAM_NONE, 0, source, 12, NULL));
    ASSERT(memcmp(target, source, 12) == 0);
    array = host(none, NULL, 2, NULL);
    ASSERT_STATUS(CAI_OK, cai_array_copy_from_host(&array, CAI_STREAM_NONE, 0, NULL, 0, NULL));
}

static void refusals_back(void) {
    static const int64_t shape[2] = {2, 3}, repeated[2] = {0, 2}, windows[2] = {2, 2};
    const cai_array good = host(shape, NULL, 2, values), out = CAI_ARRAY_INIT;
    cai_array array = good, mask = good;
    const char buffer[12] = {0};
    const cai_stream none = CAI_STREAM_NONE;
    REFUSED(CAI_ERR_BUFFER_SIZE, "size",
            cai_array_copy_from_host(&array, none, 0, buffer, 11, error));
    REFUSED(CAI_ERR_BUFFER_SIZE, "size", cai_array_copy_from_host(&array, none, 0, NULL, 0, error));
    REFUSED(CAI_ERR_STREAM_ZERO, "stream",
            cai_array_copy_from_host(&array, 0, 0, buffer, 12, error));
    REFUSED(CAI_ERR_ARGUMENT, "stream",
            cai_array_copy_from_host(&array, CAI_STREAM_UNKNOWN, 0, buffer, 12, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags",
            cai_array_copy_from_host(&array, none, CAI_ACCESS_READ, buffer, 12, error));
    array.flags = CAI_ARRAY_READONLY;
    REFUSED(CAI_ERR_READONLY, "flags",
            cai_array_copy_from_host(&array, none, 0, buffer, 12, error));
    array = good;
    array.strides = repeated;
    REFUSED(CAI_ERR_ARGUMENT, "strides",
            cai_array_copy_from_host(&array, none, 0, buffer, 12, error));
    array.strides = windows;
    REFUSED(CAI_ERR_ARGUMENT, "strides",
            cai_array_copy_from_host(&array, none, 0, buffer, 12, error));
    array = good;
    array.mask = &mask;
    REFUSED(CAI_ERR_CONVERT_MASK, "mask",
            cai_array_copy_from_host(&array, none, 0, buffer, 12, error));
    array = good;
    array.device.type = CAI_DEVICE_ROCM;
    REFUSED(CAI_ERR_CONVERT_DEVICE, "device.type",
            cai_array_copy_from_host(&array, none, 0, buffer, 12, error));
    array = good;
    array.ndim = -1;
    REFUSED(CAI_ERR_NDIM, "ndim", cai_array_copy_from_host(&array, none, 0, buffer, 12, error));
}

int main(void) {
    for (int i = 0; i < 24; ++i)
        values[i / 6][i % 6] = (int16_t)(100 + i);
    layouts();
    read_only_and_without_elements();
    refusals();
    back();
    refusals_back();
    return 0;
}
