/*
 * The demo's producer: exports one loaded array in the forms that consumers meet, among them some that are
 * wrong. Stands for a library that has data; knows nothing of who reads it.
 */
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cai_array source = CAI_ARRAY_INIT; /* the data as loaded */
static int made, destroyed;

typedef struct {
    void (*destroy)(void *);
    void *context;
} watched;

static void on_destroy(void *context) {
    watched *w = context;
    w->destroy(w->context);
    free(w);
    destroyed++;
}

/* An owner whose making and destruction are counted. */
static cai_status new_owner(void (*destroy)(void *), void *context, cai_owner **out, cai_error *why) {
    watched *w = malloc(sizeof(*w));
    cai_status status;
    if (w == NULL) {
        return CAI_ERR_NO_MEMORY;
    }
    w->destroy = destroy;
    w->context = context;
    status = cai_owner_new(w, on_destroy, out, why);
    if (status == CAI_OK) {
        made++;
    } else {
        free(w);
    }
    return status;
}

/* A new array: the description, copied, with `owner`, which is let go if that fails. */
static cai_status make(cai_array *description, cai_owner *owner, cai_array *out, cai_error *why) {
    cai_status status;
    description->owner = owner;
    status = cai_array_new(description, out, why);
    if (status != CAI_OK) {
        cai_owner_release(owner);
    }
    return status;
}

/* The same for another form of the source's own data. */
static cai_status make_of_source(cai_array *description, cai_array *out, cai_error *why) {
    cai_status status = cai_owner_retain(source.owner, why);
    return status == CAI_OK ? make(description, source.owner, out, why) : status;
}

cai_status producer_open(const demo_source *s, cai_error *why) {
    cai_array array = CAI_ARRAY_INIT;
    const cai_descr *descr = NULL;
    cai_owner *owner = NULL, *descr_owner = NULL;
    int64_t extents = 1;
    int32_t i;
    cai_status status;
    if (strlen(s->typestr) >= sizeof(array.typestr)) {
        cai_dtype dtype; /* says what is wrong with it, in the library's words */
        return cai_dtype_parse(s->typestr, &dtype, why);
    }
    for (i = 0; i < s->ndim; i++) {
        extents *= s->shape[i] != 0;
    }
    array.data = extents == 0 ? NULL : s->data;
    array.shape = s->shape;
    array.strides = s->strides;
    array.ndim = s->ndim;
    array.flags = s->readonly ? CAI_FLAG_READONLY : 0;
    array.stream = CAI_STREAM_NONE; /* host memory that nobody works on */
    array.device.type = CAI_DEVICE_CPU;
    memcpy(array.typestr, s->typestr, strlen(s->typestr));
    if (s->descr != NULL) {
        status = cai_descr_parse(s->descr, &descr, &descr_owner, why);
        if (status != CAI_OK) {
            return status;
        }
        array.descr = descr;
    }
    status = new_owner(s->drop, s->keeper, &owner, why);
    if (status == CAI_OK) {
        status = make(&array, owner, &source, why);
    }
    cai_owner_release(descr_owner); /* the copy has its own list of fields */
    return status;
}

void producer_close(void) { cai_array_release(&source); }

void producer_owners(int *out_made, int *out_destroyed) {
    *out_made = made;
    *out_destroyed = destroyed;
}

static cai_status as_loaded(cai_array *out, cai_error *why) { return cai_array_share(&source, out, why); }

/* Every second element of the first dimension, the last dimension backwards. */
static cai_status sliced(cai_array *out, cai_error *why) {
    cai_array array = source;
    int64_t shape[CAI_MAX_NDIM] = {0}, strides[CAI_MAX_NDIM] = {0};
    int32_t last = source.ndim - 1;
    cai_status status = cai_array_strides(&source, CAI_MAX_NDIM, strides, why);
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

/* A mask of booleans that marks as invalid: floats that are not numbers, and otherwise every seventh element.
 */
static cai_status masked(cai_array *out, cai_error *why) {
    cai_array array = source, mask = CAI_ARRAY_INIT;
    int64_t strides[CAI_MAX_NDIM] = {0}, index[CAI_MAX_NDIM] = {0}, count = 0, n;
    bool *valid;
    cai_dtype dtype;
    cai_status status = cai_array_count(&source, &count, why);
    if (status != CAI_OK || (status = cai_array_dtype(&source, &dtype, why)) != CAI_OK ||
        (status = cai_array_strides(&source, CAI_MAX_NDIM, strides, why)) != CAI_OK) {
        return status;
    }
    valid = malloc(count > 0 ? (size_t)count : 1);
    if (valid == NULL) {
        return CAI_ERR_NO_MEMORY;
    }
    for (n = 0; n < count; n++) {
        const char *at = source.data;
        int32_t d;
        for (d = 0; d < source.ndim; d++) {
            at += index[d] * strides[d];
        }
        valid[n] = n % 7 != 6;
        if (dtype.kind == 'f' && cai_dtype_is_native(&dtype) && dtype.itemsize == 4) {
            float value;
            memcpy(&value, at, sizeof(value));
            valid[n] = value == value;
        } else if (dtype.kind == 'f' && cai_dtype_is_native(&dtype) && dtype.itemsize == 8) {
            double value;
            memcpy(&value, at, sizeof(value));
            valid[n] = value == value;
        }
        for (d = source.ndim - 1; d >= 0 && ++index[d] == source.shape[d]; d--) {
            index[d] = 0;
        }
    }
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

/* Records of a number, padding and an element: the first elements of the source, copied. */
static cai_status structured(cai_array *out, cai_error *why) {
    enum { MOST = 24, HEAD = 8 };
    static const char begin[] = "[('index', '<i4'), ('', '|V4'), ('value', ", end[] = ")]";
    cai_array array = source;
    const cai_descr *descr = NULL;
    cai_owner *descr_owner = NULL, *owner = NULL;
    int64_t strides[CAI_MAX_NDIM] = {0}, index[CAI_MAX_NDIM] = {0}, shape[1], count = 0, n;
    size_t length = 0, itemsize;
    char *text, *records;
    cai_dtype dtype;
    cai_status status = cai_array_count(&source, &count, why);
    if (status != CAI_OK || (status = cai_array_dtype(&source, &dtype, why)) != CAI_OK ||
        (status = cai_array_strides(&source, CAI_MAX_NDIM, strides, why)) != CAI_OK ||
        (source.descr != NULL &&
         (status = cai_descr_format(source.descr, NULL, 0, &length, why)) != CAI_OK)) {
        return status;
    }
    itemsize = (size_t)dtype.itemsize;
    shape[0] = count < MOST ? count : MOST;
    text = malloc(sizeof(begin) + sizeof(end) + length + CAI_TYPESTR_SIZE + 3);
    records = calloc((size_t)shape[0] + 1, HEAD + itemsize);
    if (text == NULL || records == NULL) {
        free(text);
        free(records);
        return CAI_ERR_NO_MEMORY;
    }
    strcpy(text, begin);
    if (source.descr != NULL) {
        status = cai_descr_format(source.descr, text + strlen(text), length + 1, NULL, why);
    } else {
        sprintf(text + strlen(text), "'%s'", source.typestr);
    }
    strcat(text, end);
    if (status == CAI_OK) {
        status = cai_descr_parse(text, &descr, &descr_owner, why);
    }
    free(text);
    if (status == CAI_OK) {
        status = new_owner(free, records, &owner, why);
    }
    if (status != CAI_OK) {
        cai_owner_release(descr_owner);
        free(records);
        return status;
    }
    for (n = 0; n < shape[0]; n++) {
        char *record = records + (size_t)n * (HEAD + itemsize);
        const char *at = source.data;
        int32_t number = (int32_t)n, d;
        for (d = 0; d < source.ndim; d++) {
            at += index[d] * strides[d];
        }
        memcpy(record, &number, sizeof(number));
        memcpy(record + HEAD, at, itemsize);
        for (d = source.ndim - 1; d >= 0 && ++index[d] == source.shape[d]; d--) {
            index[d] = 0;
        }
    }
    array.data = shape[0] > 0 ? records : NULL;
    array.shape = shape;
    array.strides = NULL;
    array.ndim = 1;
    array.flags = 0;
    array.descr = descr;
    memset(array.typestr, 0, sizeof(array.typestr));
    snprintf(array.typestr, sizeof(array.typestr), "|V%u", (unsigned)(HEAD + itemsize));
    status = make(&array, owner, out, why);
    cai_owner_release(descr_owner);
    return status;
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
    array.flags |= CAI_FLAG_READONLY;
    return make_of_source(&array, out, why);
}

/* Three that are wrong. A producer that uses cai_array_new cannot make them; one that fills by hand can. */
static cai_status by_hand(const cai_array *array, cai_array *out, cai_error *why) {
    cai_status status = cai_owner_retain(source.owner, why);
    if (status == CAI_OK) {
        *out = *array;
        out->owner = source.owner;
    }
    return status;
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
} forms[] = {
    {"as loaded", as_loaded},
    {"sliced, backwards", sliced},
    {"masked", masked},
    {"structured", structured},
    {"empty", empty},
    {"read-only", readonly},
    {"forgot its stream", no_stream},
    {"negative extent", negative_extent},
    {"mask of another shape", wrong_mask},
};

int producer_count(void) { return (int)(sizeof(forms) / sizeof(forms[0])); }

const char *producer_name(int index) { return forms[index].name; }

cai_status producer_export(int index, cai_array *out, cai_error *why) {
    return forms[index].export(out, why);
}
