/* What operations take as their input grows. scale.py loads this file into any CPython; it needs no
 * header of Python. */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/cai.h>

#include <limits.h>
#include <malloc.h>
#include <string.h>

enum { DIMENSIONS = 64 };

static long count;
static cai_array array, made, *many;
static int64_t shape[DIMENSIONS], strides[DIMENSIONS];
static char *text;
static size_t text_size;
static const cai_descr *fields;
static cai_owner *fields_owner;

/* Memory stays with the process: fresh pages take longer than all that is measured here. */
__attribute__((constructor)) static void keep_memory(void) {
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

/* --- dimensions --- */

/* Two elements in each of up to 40 dimensions, with gaps; one in the others. */
static int dimensions(long n) {
    const cai_array init = CAI_ARRAY_INIT;
    int64_t stride = 8;
    for (long i = n - 1; i >= 0; i--) {
        shape[i] = i < 40 ? 2 : 1;
        strides[i] = stride;
        stride *= shape[i];
    }
    array = made = init;
    array.data = (void *)(uintptr_t)0x7f0000000000;
    array.shape = shape;
    array.strides = strides;
    array.ndim = (int32_t)n;
    memcpy(array.typestr, "<f4", sizeof("<f4"));
    array.device.type = CAI_DEVICE_CUDA;
    array.stream = CAI_STREAM_NONE;
    return 0;
}

static int validate(void) { return cai_array_validate(&array, 0, NULL); }

static int layout(void) {
    cai_layout out;
    return cai_array_layout(&array, &out, NULL);
}

static int copy(void) {
    const cai_status status = cai_array_create(&array, NULL, NULL, &made, NULL);
    cai_array_release(&made);
    return status;
}

/* --- fields --- */

static int some_fields(long n) {
    cai_owner_release(fields_owner);
    fields_owner = NULL;
    text_size = (size_t)n * 32 + 8;
    char *end = text = realloc(text, text_size);
    if (text == NULL) return -1;
    for (long i = 0; i < n; i++)
        end += sprintf(end, "%s('f%ld', '<f4')", i == 0 ? "[" : ", ", i);
    strcpy(end, "]");
    dimensions(1);
    sprintf(array.typestr, "|V%ld", 4 * n);
    strides[0] = 4 * n;
    const cai_status status = cai_descr_parse(text, &fields, &fields_owner, NULL);
    array.descr = fields;
    return status;
}

static int parse(void) {
    const cai_descr *found;
    cai_owner *owner = NULL;
    const cai_status status = cai_descr_parse(text, &found, &owner, NULL);
    cai_owner_release(owner);
    return status;
}

static int format(void) { return cai_descr_format(fields, text, text_size, NULL, NULL); }

static int find(void) {
    const cai_field *found;
    int64_t offset;
    char last[24];
    sprintf(last, "f%ld", count - 1);
    return cai_descr_find(fields, last, &found, &offset, NULL);
}

static int equal(void) {
    bool are_equal = false;
    return cai_descr_equal(fields, fields, &are_equal, NULL) != CAI_OK || !are_equal;
}

/* --- owners --- */

static int owners(long n) {
    many = realloc(many, 2 * (size_t)n * sizeof(cai_array));
    return many == NULL ? -1 : dimensions(2);
}

/* All are alive before the first one is released. */
static int live(void) {
    const cai_array init = CAI_ARRAY_INIT;
    int failed = 0;
    for (long i = 0; i < count; i++) {
        many[i] = many[count + i] = init;
        failed |= cai_array_create(&array, NULL, NULL, &many[i], NULL);
    }
    for (long i = 0; i < count; i++)
        failed |= cai_array_share(&many[i], &many[count + i], NULL);
    for (long i = 0; i < 2 * count; i++)
        cai_array_release(&many[i]);
    return failed;
}

/* The same with counted blocks of the same size. */
static int live_by_hand(void) {
    int failed = 0;
    for (long i = 0; i < count; i++) {
        long *block = malloc(176);
        if (block == NULL) return -1;
        __atomic_store_n(block, 1, __ATOMIC_RELAXED);
        many[i] = many[count + i] = array;
        many[i].owner = (cai_owner *)block;
    }
    for (long i = 0; i < count; i++) {
        many[count + i] = many[i];
        __atomic_fetch_add((long *)many[i].owner, 1, __ATOMIC_RELAXED);
    }
    for (long i = 0; i < 2 * count; i++)
        if (__atomic_fetch_sub((long *)many[i].owner, 1, __ATOMIC_ACQ_REL) == 1)
            free(many[i].owner);
    return failed;
}

static const struct row {
    const char *name;
    int (*prepare)(long n);
    int (*run)(void);
} rows[] = {
    {"validate", dimensions, validate},
    {"layout", dimensions, layout},
    {"copy, release", dimensions, copy},
    {"parse", some_fields, parse},
    {"format", some_fields, format},
    {"find the last", some_fields, find},
    {"compare", some_fields, equal},
    {"validate an array", some_fields, validate},
    {"copy an array, release", some_fields, copy},
    {"libcai: create, share, release", owners, live},
    {"by hand: the same", owners, live_by_hand},
};

/* Nanoseconds of one run of a row with `n` of what it is about; 0: it failed. */
double scale(const char *name, long n) {
    const struct row *row = rows;
    double best = 0;
    while (strcmp(row->name, name) != 0)
        row++;
    count = n;
    if (row->prepare(n) != 0 || row->run() != 0) return 0;
    for (long times = 1, rounds = 0; rounds < 3;) {
        const double start = now();
        for (long i = 0; i < times; i++)
            if (row->run() != 0) return 0;
        const double spent = now() - start;
        if (spent < 3e5) {
            times *= 2;
            continue;
        }
        if (rounds++ == 0 || spent / (double)times < best) best = spent / (double)times;
    }
    return best;
}

/* --- Python objects --- */

struct _object *PyObject_GetAttr(struct _object *object, struct _object *name);
void Py_DecRef(struct _object *object);

/* Imports each of `n` objects `times` times, in any number of threads. */
int import_each(struct _object *const *objects, long n, long times) {
    cai_array got = CAI_ARRAY_INIT;
    int failed = 0;
    while (times-- > 0)
        for (long i = 0; i < n; i++) {
            failed |= cai_array_from_python(objects[i], NULL, &got, NULL);
            cai_array_release(&got);
        }
    return failed;
}

/* CPython's part of it: the attribute. */
int get_each(struct _object *const *objects, long n, long times, struct _object *name) {
    while (times-- > 0)
        for (long i = 0; i < n; i++) {
            struct _object *found = PyObject_GetAttr(objects[i], name);
            if (found == NULL) return -1;
            Py_DecRef(found);
        }
    return 0;
}

int import_many(struct _object *object, long n) {
    const cai_array init = CAI_ARRAY_INIT;
    int failed = owners(n);
    for (long i = 0; i < n && !failed; i++) {
        many[i] = init;
        failed |= cai_array_from_python(object, NULL, &many[i], NULL);
    }
    return failed;
}

void release_many(long n) {
    for (long i = 0; i < n; i++)
        cai_array_release(&many[i]);
}
