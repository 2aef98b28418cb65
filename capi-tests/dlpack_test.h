/*
 * What the tests of DLPack share: its structures, declared independently of dlpack.h, and tensors
 * that count how often they are deleted.
 */
#ifndef DLPACK_TEST_H
#define DLPACK_TEST_H

#include "tests.h"

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

TEST(sizes) {
    ASSERT(sizeof(dltensor) == 48 && sizeof(versioned) == 80 && sizeof(unversioned) == 64);
}

static int deleted;

/* The tensor's memory is freed with it, so a later access or a second deletion is detected. */
static inline void delete_versioned(versioned *self) {
    ++deleted;
    free(self->dl_tensor.shape);
    free(self->dl_tensor.strides);
    free(self);
}

static inline void delete_unversioned(unversioned *self) {
    ++deleted;
    free(self->dl_tensor.shape);
    free(self->dl_tensor.strides);
    free(self);
}

static inline int64_t *copied(int32_t count, const int64_t *numbers) {
    int64_t *copy;
    if (numbers == NULL) return NULL;
    copy = malloc((size_t)(count > 0 ? count : 1) * sizeof(*copy));
    ASSERT(copy != NULL);
    if (count > 0) memcpy(copy, numbers, (size_t)count * sizeof(*copy));
    return copy;
}

static inline dltensor some_tensor(int32_t ndim, const int64_t *shape, const int64_t *strides) {
    dltensor made = {0};
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

static inline versioned *some_versioned(int32_t ndim, const int64_t *shape,
                                        const int64_t *strides) {
    versioned *made = calloc(1, sizeof(*made));
    ASSERT(made != NULL);
    made->major = 1;
    made->minor = 1;
    made->deleter = delete_versioned;
    made->dl_tensor = some_tensor(ndim, shape, strides);
    return made;
}

static inline unversioned *some_unversioned(int32_t ndim, const int64_t *shape,
                                            const int64_t *strides) {
    unversioned *made = calloc(1, sizeof(*made));
    ASSERT(made != NULL);
    made->deleter = delete_unversioned;
    made->dl_tensor = some_tensor(ndim, shape, strides);
    return made;
}

/* 3 x 4 floats. */
static inline versioned *plain(void) { return some_versioned(2, test_shape, NULL); }

/* An array that must be unchanged. */
static inline void untouched(const cai_array *array) {
    const cai_array fresh = CAI_ARRAY_INIT;
    ASSERT(memcmp(array, &fresh, sizeof(fresh)) == 0);
}

/* The flags with which tensors are taken. */
static unsigned import_flags;

/* A tensor is refused, the array and the tensor stay as they were, and the tensor is deleted by its
 * owner. */
static inline void refuse(cai_status status, const char *field, versioned *given,
                          cai_stream stream) {
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    versioned before = *given;
    deleted = 0;
    ASSERT_STATUS(status, cai_array_from_dlpack(given, stream, import_flags, &out, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT(error.code == status && deleted == 0);
    untouched(&out);
    ASSERT(memcmp(&before, given, sizeof(before)) == 0);
    ASSERT_STATUS(status, cai_array_from_dlpack(given, stream, import_flags, &out, NULL));
    given->deleter(given);
    ASSERT(deleted == 1);
}

static inline cai_array taken(versioned *given) {
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    deleted = 0;
    if (cai_array_from_dlpack(given, CAI_STREAM_LEGACY, import_flags, &out, &error) != CAI_OK)
        FAIL("%s", error.message);
    ASSERT(deleted == 0 && out.owner != NULL && out.struct_size == sizeof(out) && out.version == 3);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out, CAI_CHECK_LAYOUT, NULL));
    return out;
}

static inline void release_last(cai_array *array) {
    ASSERT(deleted == 0);
    cai_array_release(array);
    ASSERT(deleted == 1);
}

#endif /* DLPACK_TEST_H */
