/*
 * What the demo's consumer computes: the least, the greatest and the mean of an array's valid
 * elements, whatever its strides, byte order, mask and fields.
 */
#ifndef DEMO_STATISTICS_H
#define DEMO_STATISTICS_H

#include <cai/cai.h>

/* An array has up to CAI_MAX_NDIM dimensions, and a field's sub-arrays add theirs. */
enum { MOST_DIMENSIONS = 2 * CAI_MAX_NDIM };

/* Addresses and strides of the elements. */
typedef struct {
    const char *data, *mask; /* mask NULL: all are valid */
    int32_t ndim;
    int64_t shape[MOST_DIMENSIONS], strides[MOST_DIMENSIONS], mask_strides[MOST_DIMENSIONS];
    cai_dtype type, mask_type;
} strided;

typedef struct {
    int64_t total, valid;
    int64_t numbers; /* valid elements that are neither NaN nor of a type that has no order */
    double least, most, sum;
} summary;

/* Opens a validated array. Returns NULL on success, otherwise the reason why it cannot be read. */
const char *strided_open(const cai_array *array, strided *out);

/* Selects a field at `offset` with elements of `itemsize` bytes in C order. Returns false if there
 * are too many dimensions. */
bool strided_enter(strided *self, int64_t offset, int32_t ndim, const int64_t *shape,
                   int64_t itemsize);

/* Reads all elements. Elements that are not numbers are only counted. */
void summarize(const strided *self, summary *out);

#endif
