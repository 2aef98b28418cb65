/*
 * The producer of `make demo`: a plug-in that exports one array in several forms, three of which
 * are invalid on purpose. It is compiled separately and does not know the consumer. demo.py loads
 * both.
 */
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cai_array source = CAI_ARRAY_INIT; /* the data as loaded */
static int made, destroyed;

/* Fills an error of this plug-in. */
static cai_status no_memory(cai_error *why) {
    if (why != NULL) {
        memset(why, 0, sizeof(*why));
        why->code = CAI_ERR_NO_MEMORY;
        snprintf(why->message, sizeof(why->message), "%s", cai_status_message(CAI_ERR_NO_MEMORY));
    }
    return CAI_ERR_NO_MEMORY;
}

typedef struct {
    void (*destroy)(void *);
    void *context;
} watched;

/* Runs on the thread that releases the last reference, so the count is atomic. */
static void on_destroy(void *context) {
    watched *w = context;
    w->destroy(w->context);
    free(w);
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

static watched *watch(void (*destroy)(void *), void *context) {
    watched *w = malloc(sizeof(*w));
    if (w != NULL) {
        w->destroy = destroy;
        w->context = context;
    }
    return w;
}

/* Makes an owner, and counts its creation and destruction. */
static cai_status new_owner(void (*destroy)(void *), void *context, cai_owner **out,
                            cai_error *why) {
    watched *w = watch(destroy, context);
    cai_status status = w == NULL ? no_memory(why) : cai_owner_create(w, on_destroy, out, why);
    if (status == CAI_OK) {
        __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    } else {
        free(w);
    }
    return status;
}

/* Makes an array from a description, which is copied. `destroy` frees the data. Counted as well. */
static cai_status make(const cai_array *description, void (*destroy)(void *), void *context,
                       cai_array *out, cai_error *why) {
    watched *w = watch(destroy, context);
    cai_status status =
        w == NULL ? no_memory(why) : cai_array_create(description, w, on_destroy, out, why);
    if (status == CAI_OK) {
        __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    } else {
        free(w);
    }
    return status;
}

/* Makes an array of the source's own data, with a reference to its owner. */
static cai_status make_of_source(cai_array *description, cai_array *out, cai_error *why) {
    description->owner = source.owner;
    return cai_array_create(description, NULL, NULL, out, why);
}

cai_status producer_open(const demo_source *s, cai_error *why) {
    cai_array array = CAI_ARRAY_INIT;
    const cai_descr *descr = NULL;
    cai_owner *descr_owner = NULL;
    int64_t extents = 1;
    int32_t i;
    cai_status status;
    if (strlen(s->typestr) >= sizeof(array.typestr)) {
        cai_dtype dtype; /* only for the message */
        return cai_dtype_parse(s->typestr, &dtype, why);
    }
    for (i = 0; i < s->ndim; i++) {
        extents *= s->shape[i] != 0;
    }
    array.data = extents == 0 ? NULL : s->data;
    array.shape = s->shape;
    array.strides = s->strides;
    array.ndim = s->ndim;
    array.flags = s->readonly ? CAI_ARRAY_READONLY : 0;
    array.stream = CAI_STREAM_NONE; /* host memory without pending work */
    array.device.type = CAI_DEVICE_CPU;
    memcpy(array.typestr, s->typestr, strlen(s->typestr));
    if (s->descr != NULL) {
        status = cai_descr_parse(s->descr, &descr, &descr_owner, why);
        if (status != CAI_OK) {
            return status;
        }
        array.descr = descr;
    }
    status = make(&array, s->drop, s->context, &source, why);
    cai_owner_release(descr_owner); /* the copy has its own list of fields */
    return status;
}

void producer_close(void) { cai_array_release(&source); }

void producer_owners(int *out_made, int *out_destroyed) {
    *out_made = __atomic_load_n(&made, __ATOMIC_RELAXED);
    *out_destroyed = __atomic_load_n(&destroyed, __ATOMIC_RELAXED);
}

static cai_status as_loaded(cai_array *out, cai_error *why) {
    return cai_array_share(&source, out, why);
}

/* Every second element of the first dimension, with the last dimension reversed. */
static cai_status sliced(cai_array *out, cai_error *why) {
    cai_array array = source;
    int64_t shape[CAI_MAX_NDIM] = {0}, strides[CAI_MAX_NDIM] = {0};
    int32_t last = source.ndim - 1;
    cai_status status = cai_array_strides(&source, strides, CAI_MAX_NDIM, why);
    if (status != CAI_OK) {
        return status;
    }
    if (source.ndim > 0) {
        memcpy(shape, source.shape, sizeof(int64_t) * (size_t)source.ndim);
        if (source.data != NULL) {
            array.data = (char *)source.data + (shape[last] - 1) * strides[last];
        }
        strides[last] = -strides[last];
        if (source.ndim > 1) {
            shape[0] = (shape[0] + 1) / 2;
            strides[0] *= 2;
        }
    }
    array.shape = shape;
    array.strides = strides;
    return make_of_source(&array, out, why);
}

/* The n-th element of the source, the last dimension fastest. */
static const char *element(const int64_t *strides, int64_t n) {
    const char *at = source.data;
    int32_t d;
    for (d = source.ndim - 1; d >= 0; d--) {
        at += n % source.shape[d] * strides[d];
        n /= source.shape[d];
    }
    return at;
}

static bool is_nan(const cai_dtype *dtype, const char *at) {
    float single;
    double value;
    if (dtype->kind != 'f' || !cai_dtype_is_native(dtype)) {
        return false;
    }
    if (dtype->itemsize == sizeof(single)) {
        memcpy(&single, at, sizeof(single));
        return single != single;
    }
    if (dtype->itemsize == sizeof(value)) {
        memcpy(&value, at, sizeof(value));
        return value != value;
    }
    return false;
}

/* Marks valid elements with true: floats that are not NaN; for other types, six of seven. */
static void fill_mask(bool *valid, int64_t count, const cai_dtype *dtype, const int64_t *strides) {
    bool floats = dtype->kind == 'f';
    for (int64_t n = 0; n < count; n++) {
        valid[n] = floats ? !is_nan(dtype, element(strides, n)) : n % 7 != 6;
    }
}

static cai_status masked(cai_array *out, cai_error *why) {
    cai_array array = source, mask = CAI_ARRAY_INIT;
    int64_t strides[CAI_MAX_NDIM], count;
    cai_layout layout;
    cai_dtype dtype;
    cai_status status = cai_array_layout(&source, &layout, why);
    if (status != CAI_OK || (status = cai_array_dtype(&source, &dtype, why)) != CAI_OK ||
        (status = cai_array_strides(&source, strides, CAI_MAX_NDIM, why)) != CAI_OK) {
        return status;
    }
    count = layout.count;
    bool *valid = malloc(count > 0 ? (size_t)count : 1);
    if (valid == NULL) {
        return no_memory(why);
    }
    fill_mask(valid, count, &dtype, strides);
    mask.data = count > 0 ? valid : NULL;
    mask.shape = source.shape;
    mask.ndim = source.ndim;
    strcpy(mask.typestr, "|b1");
    mask.stream = CAI_STREAM_NONE;
    mask.device = source.device;
    status = new_owner(free, valid, &mask.owner, why);
    if (status != CAI_OK) {
        free(valid);
        return status;
    }
    array.mask = &mask;
    status = make_of_source(&array, out, why);
    cai_owner_release(mask.owner); /* the new array holds one of its own */
    return status;
}

/* Records of a number, padding and an element: copies of the first elements behind an index. */
enum { MOST_RECORDS = 24, HEAD = 8 };

static char *new_records(int64_t count, size_t itemsize, const int64_t *strides) {
    char *records = calloc((size_t)count + 1, HEAD + itemsize);
    int32_t n;
    for (n = 0; n < count && records != NULL; n++) {
        char *record = records + (size_t)n * (HEAD + itemsize);
        memcpy(record, &n, sizeof(n));
        memcpy(record + HEAD, element(strides, n), itemsize);
    }
    return records;
}

static cai_status records_of(int64_t count, const cai_dtype *dtype, const int64_t *strides,
                             cai_array *out, cai_error *why) {
    cai_array array = CAI_ARRAY_INIT;
    cai_dtype record = {0};
    cai_owner *fields_owner = NULL;
    char *records, text[80];
    record.kind = 'V';
    record.byte_order = '|';
    record.unit_count = 1;
    record.itemsize = HEAD + dtype->itemsize;
    record.bits = 8 * record.itemsize;
    cai_status status = cai_dtype_format(&record, array.typestr, sizeof(array.typestr), NULL, why);
    if (status != CAI_OK) {
        return status;
    }
    snprintf(text, sizeof(text), "[('index', '<i4'), ('', '|V%d'), ('value', '%s')]", HEAD - 4,
             source.typestr);
    status = cai_descr_parse(text, &array.descr, &fields_owner, why);
    if (status != CAI_OK) {
        return status;
    }
    records = new_records(count, (size_t)dtype->itemsize, strides);
    if (records == NULL) {
        cai_owner_release(fields_owner);
        return no_memory(why);
    }
    array.data = count > 0 ? records : NULL;
    array.shape = &count;
    array.ndim = 1;
    array.stream = CAI_STREAM_NONE;
    array.device = source.device;
    status = make(&array, free, records, out, why);
    if (status != CAI_OK) {
        free(records);
    }
    cai_owner_release(fields_owner); /* the new array has its own copy of the fields */
    return status;
}

static cai_status structured(cai_array *out, cai_error *why) {
    int64_t strides[CAI_MAX_NDIM], count;
    cai_layout layout;
    cai_dtype dtype;
    cai_status status = cai_array_layout(&source, &layout, why);
    if (source.descr != NULL) {
        return as_loaded(out, why); /* it has fields of its own */
    }
    if (status != CAI_OK || (status = cai_array_dtype(&source, &dtype, why)) != CAI_OK ||
        (status = cai_array_strides(&source, strides, CAI_MAX_NDIM, why)) != CAI_OK) {
        return status;
    }
    count = layout.count;
    return records_of(count < MOST_RECORDS ? count : MOST_RECORDS, &dtype, strides, out, why);
}

/* No elements, so no address; and strides that do not matter. */
static cai_status empty(cai_array *out, cai_error *why) {
    static const int64_t shape[2] = {0, 24}, strides[2] = {-7, 3};
    cai_array array = source;
    array.data = NULL;
    array.shape = shape;
    array.strides = strides;
    array.ndim = 2;
    return make_of_source(&array, out, why);
}

static cai_status readonly(cai_array *out, cai_error *why) {
    cai_array array = source;
    array.flags |= CAI_ARRAY_READONLY;
    return make_of_source(&array, out, why);
}

/* Three invalid arrays follow. `cai_array_create` would refuse them, so they are filled without
 * it. */
static cai_status by_hand(cai_array *array, cai_array *out, cai_error *why) {
    array->owner = source.owner;
    return cai_array_share(array, out, why);
}

static cai_status no_stream(cai_array *out, cai_error *why) {
    cai_array array = source;
    array.stream = 0;
    return by_hand(&array, out, why);
}

static cai_status negative_extent(cai_array *out, cai_error *why) {
    static const int64_t shape[3] = {2, -3, 4};
    cai_array array = source;
    array.shape = shape;
    array.strides = NULL;
    array.ndim = 3;
    return by_hand(&array, out, why);
}

static cai_status wrong_mask(cai_array *out, cai_error *why) {
    static const int64_t shape[1] = {5}, mask_shape[1] = {3};
    static bool valid[3] = {true, true, false};
    static char five[5 * 16];
    static cai_array mask = CAI_ARRAY_INIT;
    cai_array array = source;
    mask.data = valid;
    mask.shape = mask_shape;
    mask.ndim = 1;
    strcpy(mask.typestr, "|b1");
    mask.stream = CAI_STREAM_NONE;
    mask.device = source.device;
    array.data = five;
    array.shape = shape;
    array.strides = NULL;
    array.ndim = 1;
    array.descr = NULL;
    memset(array.typestr, 0, sizeof(array.typestr));
    strcpy(array.typestr, "<f8");
    array.mask = &mask;
    return by_hand(&array, out, why);
}

static const struct {
    const char *name;
    cai_status (*export)(cai_array *out, cai_error *why);
    cai_status expected;
} forms[] = {
    {"as loaded", as_loaded, CAI_OK},
    {"sliced, backwards", sliced, CAI_OK},
    {"masked", masked, CAI_OK},
    {"structured", structured, CAI_OK},
    {"empty", empty, CAI_OK},
    {"read-only", readonly, CAI_OK},
    {"forgot its stream", no_stream, CAI_ERR_STREAM_ZERO},
    {"negative extent", negative_extent, CAI_ERR_SHAPE_NEGATIVE},
    {"mask of another shape", wrong_mask, CAI_ERR_MASK_SHAPE},
};

int producer_count(void) { return (int)(sizeof(forms) / sizeof(forms[0])); }

const char *producer_name(int index) { return forms[index].name; }

cai_status producer_expected(int index) { return forms[index].expected; }

cai_status producer_export(int index, cai_array *out, cai_error *why) {
    return forms[index].export(out, why);
}
