/* What the demo's consumer computes: see statistics.h. */
#include "statistics.h"

#include <math.h>
#include <string.h>

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

static bool is_number(const cai_dtype *type) {
    int64_t size = type->itemsize;
    bool power_of_two = size == 1 || size == 2 || size == 4 || size == 8;
    bool whole = type->kind == 'b' || type->kind == 'i' || type->kind == 'u';
    return type->code == CAI_DTYPE_NONE && power_of_two &&
           (whole || (type->kind == 'f' && size > 1));
}

/* Copies an element to aligned memory, in the machine's byte order. */
static void load(const cai_dtype *type, const char *at, char *out) {
    int64_t size = type->itemsize, i;
    memcpy(out, at, (size_t)size);
    if (!cai_dtype_is_native(type)) {
        for (i = 0; i < size; i++) {
            out[i] = at[size - 1 - i];
        }
    }
}

/* Returns an element as a number. is_number accepted its type. */
static double number(const cai_dtype *type, const char *at) {
    union {
        char bytes[8];
        int8_t i1;
        uint8_t u1;
        int16_t i2;
        uint16_t u2;
        int32_t i4;
        uint32_t u4;
        int64_t i8;
        uint64_t u8;
        float f4;
        double f8;
    } v;
    int64_t size = type->itemsize;
    load(type, at, v.bytes);
    switch (type->kind) {
    case 'f': return size == 2 ? half(v.u2) : size == 4 ? (double)v.f4 : v.f8;
    case 'i': return size == 1 ? v.i1 : size == 2 ? v.i2 : size == 4 ? v.i4 : (double)v.i8;
    default: return size == 1 ? v.u1 : size == 2 ? v.u2 : size == 4 ? v.u4 : (double)v.u8;
    }
}

/* Returns why the CPU cannot read an array, or NULL. A consumer on a device would make its own
 * stream wait for array->stream instead. */
static const char *cannot_read(const cai_array *array) {
    if (array->device.type != CAI_DEVICE_CPU) {
        return "not in host memory";
    }
    return array->stream == CAI_STREAM_NONE ? NULL : "work may be pending on it";
}

/* A mask's last dimensions are the array's; extents of one, and dimensions it lacks, repeat. */
static const char *open_mask(const cai_array *mask, strided *out) {
    int64_t steps[CAI_MAX_NDIM] = {0};
    int32_t d, lacks = out->ndim - mask->ndim;
    const char *reason = cannot_read(mask);
    if (reason != NULL) {
        return reason;
    }
    if (mask->mask != NULL || cai_array_dtype(mask, &out->mask_type, NULL) != CAI_OK ||
        !is_number(&out->mask_type) ||
        cai_array_strides(mask, steps, CAI_MAX_NDIM, NULL) != CAI_OK) {
        return "a mask that this consumer cannot read";
    }
    for (d = 0; d < mask->ndim; d++) {
        out->mask_strides[lacks + d] = mask->shape[d] == 1 ? 0 : steps[d];
    }
    out->mask = mask->data;
    return NULL;
}

const char *strided_open(const cai_array *array, strided *out) {
    const char *reason = cannot_read(array);
    memset(out, 0, sizeof(*out));
    if (reason != NULL) {
        return reason;
    }
    if (cai_array_dtype(array, &out->type, NULL) != CAI_OK ||
        cai_array_strides(array, out->strides, MOST_DIMENSIONS, NULL) != CAI_OK) {
        return "elements that are no whole bytes";
    }
    out->data = array->data;
    out->ndim = array->ndim;
    if (array->ndim > 0) {
        memcpy(out->shape, array->shape, sizeof(int64_t) * (size_t)array->ndim);
    }
    return array->mask == NULL ? NULL : open_mask(array->mask, out);
}

bool strided_enter(strided *self, int64_t offset, int32_t ndim, const int64_t *shape,
                   int64_t itemsize) {
    int32_t d;
    if (ndim > MOST_DIMENSIONS - self->ndim) {
        return false;
    }
    /* An array without elements has no address to add to. */
    self->data = self->data == NULL ? NULL : self->data + offset;
    for (d = ndim - 1; d >= 0; d--) {
        self->shape[self->ndim + d] = shape[d];
        self->strides[self->ndim + d] = itemsize;
        self->mask_strides[self->ndim + d] = 0; /* a mask says one thing for the whole element */
        itemsize *= shape[d];
    }
    self->ndim += ndim;
    return true;
}

static void add(summary *s, double value) {
    if (value != value) {
        return; /* NaN */
    }
    s->least = s->numbers == 0 || value < s->least ? value : s->least;
    s->most = s->numbers == 0 || value > s->most ? value : s->most;
    s->sum += value;
    s->numbers++;
}

/* The next index, the last dimension fastest. False after the last one. */
static bool advance(const strided *self, int64_t *index) {
    int32_t d = self->ndim - 1;
    while (d >= 0 && ++index[d] == self->shape[d]) {
        index[d--] = 0;
    }
    return d >= 0;
}

static int64_t distance(const int64_t *index, const int64_t *strides, int32_t ndim) {
    int64_t bytes = 0;
    int32_t d;
    for (d = 0; d < ndim; d++) {
        bytes += index[d] * strides[d];
    }
    return bytes;
}

static bool is_empty(const strided *self) {
    int32_t d;
    for (d = 0; d < self->ndim; d++) {
        if (self->shape[d] == 0) {
            return true;
        }
    }
    return false;
}

void summarize(const strided *self, summary *out) {
    int64_t index[MOST_DIMENSIONS] = {0};
    bool numbers = is_number(&self->type);
    memset(out, 0, sizeof(*out));
    if (is_empty(self)) {
        return;
    }
    do {
        const char *mask = self->mask;
        out->total++;
        if (mask == NULL ||
            number(&self->mask_type, mask + distance(index, self->mask_strides, self->ndim)) != 0) {
            out->valid++;
            if (numbers) {
                add(out,
                    number(&self->type, self->data + distance(index, self->strides, self->ndim)));
            }
        }
    } while (advance(self, index));
}
