/*
 * The demo's consumer: checks what it is handed, computes over it through its strides, and prints a row.
 * Stands for a library that reads arrays; knows nothing of who made them.
 */
#include "plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t valid, counted, total;
    double least, most, sum;
} summary;

static void add(summary *s, double value) {
    if (value == value) {
        s->least = s->counted == 0 || value < s->least ? value : s->least;
        s->most = s->counted == 0 || value > s->most ? value : s->most;
        s->sum += value;
        s->counted++;
    }
}

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

/* One element as a number; false if this consumer cannot compute with its type. */
static bool number(const cai_dtype *type, const void *at, double *out) {
    union {
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
    char kind = type->kind;
    int64_t size = type->itemsize;
    char bytes[8];
    if (type->code != CAI_DTYPE_NONE || (kind != 'b' && kind != 'i' && kind != 'u' && kind != 'f') ||
        size < 1 || size > 8) {
        return false;
    }
    memcpy(bytes, at, (size_t)size); /* elements need not be aligned */
    if (!cai_dtype_is_native(type)) {
        int64_t i;
        for (i = 0; i < size / 2; i++) {
            char swapped = bytes[i];
            bytes[i] = bytes[size - 1 - i];
            bytes[size - 1 - i] = swapped;
        }
    }
    memcpy(&v, bytes, (size_t)size);
    if (kind == 'f') {
        if (size < 2) {
            return false;
        }
        *out = size == 2 ? half(v.u2) : size == 4 ? (double)v.f4 : v.f8;
    } else if (kind == 'i') {
        *out = size == 1 ? v.i1 : size == 2 ? v.i2 : size == 4 ? v.i4 : (double)v.i8;
    } else {
        *out = size == 1 ? v.u1 : size == 2 ? v.u2 : size == 4 ? v.u4 : (double)v.u8;
    }
    return true;
}

/* Does the mask call the element with this index valid? Extents of one are broadcast. */
static bool is_valid(const cai_array *mask, const int64_t *strides, const cai_dtype *type,
                     const int64_t *index, int32_t ndim) {
    const char *at = mask->data;
    double value = 0;
    int32_t d;
    for (d = 0; d < mask->ndim; d++) {
        at += mask->shape[d] == 1 ? 0 : index[ndim - mask->ndim + d] * strides[d];
    }
    return number(type, at, &value) && value != 0;
}

/* Goes over all elements. False if they are no numbers; then only the valid ones are counted. */
static bool summarize(const cai_array *array, const cai_dtype *type, int64_t offset, summary *out) {
    int64_t strides[CAI_MAX_NDIM] = {0}, mask_strides[CAI_MAX_NDIM] = {0}, index[CAI_MAX_NDIM] = {0}, n;
    cai_dtype mask_type = {0};
    bool numbers = true;
    memset(out, 0, sizeof(*out));
    if (cai_array_count(array, &out->total, NULL) != CAI_OK ||
        cai_array_strides(array, CAI_MAX_NDIM, strides, NULL) != CAI_OK) {
        return false;
    }
    if (array->mask != NULL && (cai_array_strides(array->mask, CAI_MAX_NDIM, mask_strides, NULL) != CAI_OK ||
                                cai_array_dtype(array->mask, &mask_type, NULL) != CAI_OK)) {
        return false;
    }
    for (n = 0; n < out->total; n++) {
        const char *at = array->data;
        double value = 0;
        int32_t d;
        for (d = 0; d < array->ndim; d++) {
            at += index[d] * strides[d];
        }
        if (array->mask == NULL || is_valid(array->mask, mask_strides, &mask_type, index, array->ndim)) {
            out->valid++;
            numbers = numbers && number(type, at + offset, &value);
            if (numbers) {
                add(out, value);
            }
        }
        for (d = array->ndim - 1; d >= 0 && ++index[d] == array->shape[d]; d--) {
            index[d] = 0;
        }
    }
    return numbers && out->counted > 0;
}

/* "(7, 24)" */
static void tuple(char *out, size_t size, const int64_t *values, int32_t count) {
    size_t used = (size_t)snprintf(out, size, "(");
    int32_t d;
    for (d = 0; d < count && used + 24 < size; d++) {
        used += (size_t)snprintf(out + used, size - used, "%s%lld", d > 0 ? ", " : "", (long long)values[d]);
    }
    snprintf(out + used, size - used, d < count ? ", ...)" : count == 1 ? ",)" : ")");
}

#define LINE "%-19.19s %-9.9s %-15.15s %-15.15s %-5.5s %-4.4s %15s %11s %9s %9s %9s\n"

void consumer_begin(void) {
    printf("  " LINE, "array", "typestr", "shape", "strides", "order", "mode", "bytes reached", "valid",
           "least", "mean", "most");
    printf("  ──────────────────────────────────────────────────────────────────────────────────────────"
           "──────────────────────────────────────────\n");
}

static void row(const char *name, const cai_array *array, const char *typestr, const char *order,
                const char *span, const summary *s, bool numbers) {
    char shape[256], strides[256], valid[64], least[32] = "", mean[32] = "", most[32] = "";
    tuple(shape, sizeof(shape), array->shape, array->ndim);
    if (array->strides == NULL) {
        snprintf(strides, sizeof(strides), "-");
    } else {
        tuple(strides, sizeof(strides), array->strides, array->ndim);
    }
    snprintf(valid, sizeof(valid), "%lld/%lld", (long long)s->valid, (long long)s->total);
    if (numbers) {
        snprintf(least, sizeof(least), "%.5g", s->least);
        snprintf(mean, sizeof(mean), "%.5g", s->sum / (double)s->counted);
        snprintf(most, sizeof(most), "%.5g", s->most);
    }
    printf("✓ " LINE, name, typestr, shape, strides, order, array->flags & CAI_FLAG_READONLY ? "r" : "rw",
           span, valid, least, mean, most);
}

/* A line for each field at the top that holds a number. */
static void fields(const cai_array *array) {
    uint64_t i;
    for (i = 0; i < array->descr->count; i++) {
        const cai_field *field =
            (const cai_field *)((const char *)array->descr->fields + i * array->descr->field_size);
        const cai_field *found = NULL;
        char label[64];
        int64_t offset = 0;
        cai_dtype type;
        summary s;
        if (field->name[0] == '\0' || field->nested != NULL || field->ndim != 0 ||
            cai_descr_find(array->descr, field->name, &found, &offset, NULL) != CAI_OK ||
            cai_dtype_parse(field->typestr, &type, NULL) != CAI_OK || !summarize(array, &type, offset, &s)) {
            continue;
        }
        snprintf(label, sizeof(label), "  .%s", field->name);
        printf("  %-19.19s %-9.9s %66s %11s %9.5g %9.5g %9.5g\n", label, field->typestr, "", "", s.least,
               s.sum / (double)s.counted, s.most);
    }
}

cai_status consumer_show(const char *name, const cai_array *given) {
    cai_array array = CAI_ARRAY_INIT;
    cai_error why;
    cai_dtype type;
    int64_t lower = 0, upper = 0;
    bool c = false, f = false, numbers;
    char span[48];
    summary s;
    /* Checked, then kept for as long as it is computed with. */
    cai_status status = cai_array_validate(given, CAI_CHECK_LAYOUT, &why);
    if (status != CAI_OK || (status = cai_array_share(given, &array, &why)) != CAI_OK) {
        printf("✗ %-19s %s: %s\n", name, cai_status_name(status), why.message);
        return status;
    }
    status = cai_array_dtype(&array, &type, NULL);
    if (status == CAI_OK && (status = cai_array_span(&array, &lower, &upper, NULL)) == CAI_OK &&
        (status = cai_array_is_c_contiguous(&array, &c, NULL)) == CAI_OK &&
        (status = cai_array_is_f_contiguous(&array, &f, NULL)) == CAI_OK) {
        snprintf(span, sizeof(span), "[%lld, %lld)", (long long)lower, (long long)upper);
        numbers = summarize(&array, &type, 0, &s);
        row(name, &array, array.typestr, c && f ? "C, F" : c ? "C" : f ? "F" : "-", span, &s, numbers);
        if (array.descr != NULL) {
            fields(&array);
        }
    }
    cai_array_release(&array);
    return status;
}

void consumer_end(void) { fflush(stdout); }

cai_status consumer_refuse(const char *name, const cai_array *array) {
    cai_error why;
    cai_status status = cai_array_validate(array, CAI_CHECK_LAYOUT, &why);
    if (status == CAI_OK) {
        printf("? %s was not refused\n", name);
    } else {
        printf("✗ %-22s %s, at %s\n  %-22s %s\n", name, cai_status_name(status), why.field, "", why.message);
    }
    fflush(stdout);
    return status;
}
