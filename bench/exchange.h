/* The ways to hand an array from one library to another that bench/exchange.c compares. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "dlpack.h"

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

/* DLPack by hand: a managed tensor in one allocation, as producers make it. */
dl_managed *dl_make(tensor *t);
/* What a careful consumer of DLPack looks at: version, device, dtype, shape, strides. */
int dl_consume(const dl_managed *m);

#endif
