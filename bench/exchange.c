/*
 * What one exchange of a 4-dimensional array costs, side by side in one run: the producer fills a
 * description, the consumer checks it, retains it, releases it.
 *
 * Every variant runs in every round, in turn, on one core; the figure is the median of the rounds.
 * Only the ratios carry over to another machine. Allocations are counted by standing in for malloc.
 */
#define _GNU_SOURCE
#include "exchange.h"
#include "timing.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 41, TIMES = 200000, MOST = 16 };

static unsigned long allocations;
void *__libc_malloc(size_t size);
void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

static tensor t;
static long failed;

static void tensor_retain(cai_owner *owner) { hand_retain((tensor *)owner); }
static void tensor_release(cai_owner *owner) { hand_release((tensor *)owner); }
static const cai_owner_ops tensor_ops = {sizeof(cai_owner_ops), 0, tensor_retain, tensor_release};

static cai_owner *library_owner;

/* The compiler must believe that the description is read and that memory may have changed. */
#define KEEP(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

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

static void with_library(void) {
    cai_array a;
    fill(&a, library_owner);
    failed += cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK;
    failed += cai_array_retain(&a, NULL) != CAI_OK;
    cai_array_release(&a);
}

static void with_library_and_share(void) {
    cai_array a, kept = CAI_ARRAY_INIT;
    fill(&a, library_owner);
    failed += cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK;
    failed += cai_array_share(&a, &kept, NULL) != CAI_OK;
    KEEP(&kept);
    cai_array_release(&kept);
}

static void with_own_owner(void) {
    cai_array a;
    fill(&a, &t.owner);
    failed += cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK;
    failed += cai_array_retain(&a, NULL) != CAI_OK;
    cai_array_release(&a);
}

static void with_header_only(void) {
    cai_array a;
    fill(&a, &t.owner);
    failed += cai_inline_retain(&a) != CAI_OK;
    KEEP(&a);
    cai_inline_release(&a);
}

static void by_hand(void) {
    cai_array a;
    fill(&a, &t.owner);
    failed += hand_validate(&a) != 0;
    hand_retain(&t);
    KEEP(&a);
    hand_release(&t);
}

static void with_dlpack(void) {
    dl_managed *m = dl_make(&t);
    KEEP(m);
    failed += dl_consume(m) != 0;
    m->deleter(m);
}

static void only_fill(void) {
    cai_array a;
    fill(&a, &t.owner);
}

static void only_validate(void) {
    static cai_array a;
    if (a.struct_size == 0) {
        fill(&a, &t.owner);
    }
    failed += cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK;
}

/* With a mask of the same shape, which is validated as well. */
static void only_validate_mask(void) {
    static cai_array a, mask;
    if (a.struct_size == 0) {
        fill(&a, &t.owner);
        fill(&mask, &t.owner);
        strcpy(mask.typestr, "|b1");
        mask.strides = NULL;
        a.mask = &mask;
    }
    failed += cai_array_validate(&a, CAI_CHECK_LAYOUT, NULL) != CAI_OK;
}

static void only_validate_by_hand(void) {
    static cai_array a;
    if (a.struct_size == 0) {
        fill(&a, &t.owner);
    }
    failed += hand_validate(&a) != 0;
}

static void only_count(void) {
    hand_retain(&t);
    hand_release(&t);
}

static void copy_into_block(void) {
    cai_array a, out = CAI_ARRAY_INIT;
    fill(&a, &t.owner);
    failed += cai_array_create(&a, NULL, NULL, &out, NULL) != CAI_OK;
    cai_array_release(&out);
}

static const struct {
    const char *name;
    void (*run)(void);
} variants[] = {
    {"by hand: fill, same checks, retain, release", by_hand},
    {"libcai: fill, validate, retain, release", with_library},
    {"libcai: the same, owner is the producer's own", with_own_owner},
    {"libcai: fill, validate, share, release", with_library_and_share},
    {"DLPack: managed tensor made, read, deleted", with_dlpack},
    {"header only: fill, retain, release", with_header_only},
    {"libcai: copy into a block (cai_array_create), release", copy_into_block},
    {"  part: fill", only_fill},
    {"  part: validate", only_validate},
    {"  part: validate, with a mask", only_validate_mask},
    {"  part: the same checks by hand", only_validate_by_hand},
    {"  part: retain and release by hand", only_count},
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

int main(void) {
    static double times[VARIANTS][ROUNDS];
    unsigned long allocated[VARIANTS];
    double base;
    int round, v;
    long i;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    (void)sched_setaffinity(0, sizeof(one), &one);

    t.owner.ops = &tensor_ops;
    t.count = 1;
    t.data = (void *)(uintptr_t)0x7f0000000000;
    for (i = 0; i < NDIM; i++) {
        t.shape[i] = 8 + i;
    }
    if (cai_layout_strides('C', t.shape, NDIM, 4, t.strides, NULL) != CAI_OK ||
        cai_owner_create(&t, NULL, &library_owner, NULL) != CAI_OK) {
        return 1;
    }
    for (round = 0; round < ROUNDS; round++) {
        for (v = 0; v < VARIANTS; v++) {
            unsigned long before = allocations;
            double start;
            start = now();
            for (i = 0; i < TIMES; i++) {
                variants[v].run();
            }
            times[v][round] = (now() - start) / TIMES;
            allocated[v] = (allocations - before) / TIMES;
        }
    }
    if (failed != 0) {
        printf("%ld exchanges failed\n", failed);
        return 1;
    }
    for (v = 0; v < VARIANTS; v++) {
        sort_times(times[v], ROUNDS);
    }
    base = times[0][ROUNDS / 2];
    printf("%-52s %9s %9s %8s %12s\n", "one exchange of a 4-dimensional array", "median ns",
           "least ns", "ratio", "allocations");
    for (v = 0; v < VARIANTS; v++) {
        printf("%-52s %9.1f %9.1f %7.2fx %12lu\n", variants[v].name, times[v][ROUNDS / 2],
               times[v][0], times[v][ROUNDS / 2] / base, allocated[v]);
    }
    cai_owner_release(library_owner);
    return 0;
}
