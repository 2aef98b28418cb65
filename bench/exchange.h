/* The ways to hand an array from one library to another that bench/exchange.c compares. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <cai/cai.h>

#include <stdlib.h>

enum { NDIM = 4 };

/* What a producer has: an allocation, its shape and steps, and a count of references. */
typedef struct {
    cai_owner owner; /* in front, so that the object exports without an allocation */
    long count;
    void *data;
    int64_t shape[NDIM], strides[NDIM];
} tensor;

/* By hand: the checks of cai_array_validate, in C, for what the exchange needs. 0 if all hold. */
int hand_validate(const cai_array *array);
void hand_retain(tensor *t);
void hand_release(tensor *t);

/* DLPack 1.x by hand: a managed tensor in one allocation, as producers make it. */
typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct dl_managed *);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

dl_managed *dl_make(tensor *t);
/* What a careful consumer of DLPack looks at: version, device, dtype, shape, strides. */
int dl_consume(const dl_managed *m);

#endif
