#ifndef BENCH_DLPACK_H
#define BENCH_DLPACK_H

#include <stdint.h>

/* DLPack 1.3. */
typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_managed *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

typedef struct dl_exchange {
    uint32_t major, minor;
    struct dl_exchange *previous;
    void *allocator;
    int (*from_object)(void *object, dl_managed **out);
    int (*to_object)(dl_managed *tensor, void **out);
    int (*view)(void *object, dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} dl_exchange;

#endif
