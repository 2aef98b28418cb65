/*
 * What one exchange of a 4-dimensional array costs: the producer fills a description, the consumer
 * checks it, retains it, releases it. And what validating an array costs.
 */
#define _GNU_SOURCE
#include "exchange.h"
#include "timing.h"

#include <string.h>

static tensor t;

static void tensor_retain(cai_owner *owner) { hand_retain((tensor *)owner); }
static void tensor_release(cai_owner *owner) { hand_release((tensor *)owner); }
static const cai_owner_ops tensor_ops = {sizeof(cai_owner_ops), 0, tensor_retain, tensor_release};

static cai_owner *library_owner;

static inline void fill(cai_array *a, cai_owner *owner) {
    const cai_array init = CAI_ARRAY_INIT;
    *a = init;
    a->owner = owner;
    a->data = t.data;
    a->shape = t.shape;
    a->strides = t.strides;
    a->ndim = NDIM;
    memcpy(a->typestr, "<f4", 4);
    a->stream = CAI_STREAM_LEGACY;
    a->device.type = CAI_DEVICE_CUDA;
    KEEP(a);
}

static int retained(cai_owner *owner) {
    cai_array a;
    fill(&a, owner);
    if (cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK) return 1;
    if (cai_array_retain(&a, NULL) != CAI_OK) return 1;
    cai_array_release(&a);
    return 0;
}

static int with_library(const void *with) { return (void)with, retained(library_owner); }
static int with_own_owner(const void *with) { return (void)with, retained(&t.owner); }

static int with_share(const void *with) {
    cai_array a, kept = CAI_ARRAY_INIT;
    (void)with;
    fill(&a, library_owner);
    if (cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK) return 1;
    if (cai_array_share(&a, &kept, NULL) != CAI_OK) return 1;
    KEEP(&kept);
    cai_array_release(&kept);
    return 0;
}

static int with_header_only(const void *with) {
    cai_array a;
    (void)with;
    fill(&a, &t.owner);
    if (cai_inline_retain(&a) != CAI_OK) return 1;
    KEEP(&a);
    cai_inline_release(&a);
    return 0;
}

static int by_hand(const void *with) {
    cai_array a;
    (void)with;
    fill(&a, &t.owner);
    if (hand_validate(&a) != 0) return 1;
    hand_retain(&t);
    KEEP(&a);
    hand_release(&t);
    return 0;
}

static int with_dlpack(const void *with) {
    dl_managed *m = dl_make(&t);
    int failed = dl_consume(m) != 0;
    (void)with;
    KEEP(m);
    m->deleter(m);
    return failed;
}

static int copy_into_block(const void *with) {
    cai_array a, out = CAI_ARRAY_INIT;
    (void)with;
    fill(&a, &t.owner);
    if (cai_array_create(&a, NULL, NULL, &out, NULL) != CAI_OK) return 1;
    cai_array_release(&out);
    return 0;
}

static const bench_row exchanges[] = {
    {"by hand: fill, same checks, retain, release", by_hand, 1, NULL},
    {"libcai: fill, validate, retain, release", with_library, 1, NULL},
    {"libcai: the same, owner is the producer's own", with_own_owner, 1, NULL},
    {"libcai: fill, validate, share, release", with_share, 1, NULL},
    {"libcai: copy into a block (cai_array_create), release", copy_into_block, 1, NULL},
    {"header only: fill, retain, release", with_header_only, 0, NULL},
    {"DLPack: managed tensor made, read, deleted", with_dlpack, 1, NULL},
};

/* --- what validating costs; `with`: the array */

static cai_array plain, mask, masked;

/* Other arrays: types in C order, devices, streams, fields. */
enum {
    REAL128,
    INT128,
    COMPLEX256,
    OPAQUE12,
    BYTES5,
    TEXT4,
    TIME,
    OBJECT,
    BITS,
    BFLOAT16,
    FIELDS,
    UNKNOWN,
    HANDLE,
    EVENT,
    OTHERS
};
static cai_array other[OTHERS];
static const char other_typestr[FIELDS + 1][5] = {"<f16", "<i16", "<c32", "|V12", "|S5", "<U4",
                                                  "<M8",  "|O",   "|t1",  "|V2",  "|V8"};

static void fill_others(void) {
    static cai_field fields[2];
    static const cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 2, fields};
    for (int i = 0; i < OTHERS; i++) {
        other[i] = plain;
        if (i <= FIELDS) {
            memcpy(other[i].typestr, other_typestr[i], sizeof other_typestr[i]);
            other[i].strides = NULL;
        }
    }
    for (int i = 0; i < 2; i++) {
        fields[i].name = i == 0 ? "x" : "y";
        memcpy(fields[i].typestr, "<f4", 4);
    }
    other[BFLOAT16].dtype_code = CAI_DTYPE_BFLOAT16;
    other[FIELDS].descr = &descr;
    other[UNKNOWN].device = (cai_device){CAI_DEVICE_UNKNOWN, -1};
    other[HANDLE].device.type = CAI_DEVICE_OPENCL;
    other[HANDLE].byte_offset = 64;
    other[EVENT].stream = CAI_STREAM_UNKNOWN;
    other[EVENT].event = &other;
}

static int validate(const void *with) {
    return cai_array_validate(with, CAI_CHECK_LAYOUT, NULL) != CAI_OK;
}
static int validate_by_hand(const void *with) { return hand_validate(with); }

static const bench_row validations[] = {
    {"4 dimensions, with strides | by hand", validate_by_hand, 1, &plain},
    {"4 dimensions, with strides | libcai", validate, 1, &plain},
    {"with a mask (by hand: without) | by hand", validate_by_hand, 1, &plain},
    {"with a mask (by hand: without) | libcai", validate, 1, &masked},
    {"floats of 16 bytes | libcai", validate, 1, &other[REAL128]},
    {"integers of 16 bytes | libcai", validate, 1, &other[INT128]},
    {"complex numbers of 32 bytes | libcai", validate, 1, &other[COMPLEX256]},
    {"opaque bytes, V12 | libcai", validate, 1, &other[OPAQUE12]},
    {"bytes, S5 | libcai", validate, 1, &other[BYTES5]},
    {"text, U4 | libcai", validate, 1, &other[TEXT4]},
    {"times without a unit | libcai", validate, 1, &other[TIME]},
    {"Python objects | libcai", validate, 1, &other[OBJECT]},
    {"bits | libcai", validate, 1, &other[BITS]},
    {"bfloat16 | libcai", validate, 1, &other[BFLOAT16]},
    {"two fields | libcai", validate, 1, &other[FIELDS]},
    {"a device that is not known | libcai", validate, 1, &other[UNKNOWN]},
    {"behind a handle | libcai", validate, 1, &other[HANDLE]},
    {"a stream that is not known, and an event | libcai", validate, 1, &other[EVENT]},
};

static void spoil(const bench_row *row, int wrong) {
    (void)row;
    t.shape[1] = wrong ? -1 : 9;
}

int main(void) {
    t.owner.ops = &tensor_ops;
    t.count = 1;
    t.data = (void *)(uintptr_t)0x7f0000000000;
    for (int i = 0; i < NDIM; i++)
        t.shape[i] = 8 + i;
    if (cai_layout_strides('C', t.shape, NDIM, 4, t.strides, NULL) != CAI_OK ||
        cai_owner_create(&t, NULL, &library_owner, NULL) != CAI_OK)
        return 1;
    fill(&plain, &t.owner);
    mask = masked = plain;
    memcpy(mask.typestr, "|b1", 4);
    mask.strides = NULL;
    masked.mask = &mask;
    fill_others();
    puts("with\tgcc " __VERSION__);
    BENCH("an array of 4 dimensions from C to C", exchanges, spoil, NULL);
    BENCH("cai_array_validate", validations, spoil, NULL);
    cai_owner_release(library_owner);
    return 0;
}
