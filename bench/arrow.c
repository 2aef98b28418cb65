/*
 * Arrow's device structures of an array, and an array of Arrow's structures, beside the C library
 * of nanoarrow: the same structures, made and released.
 *
 * Every variant runs in every round, in turn, on one core; the figure is the median of the rounds.
 * Allocations are counted by standing in for malloc and realloc.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <nanoarrow/nanoarrow_device.h>

#include <cai/unstable/arrow.h>
#include <cai/cai.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 21, TIMES = 100000, ROWS = 8, COLUMNS = 9 };

static unsigned long allocations;
void *__libc_malloc(size_t size);
void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}
void *realloc(void *old, size_t size) {
    allocations += old == NULL;
    return __libc_realloc(old, size);
}

static float values[ROWS * COLUMNS];
static cai_array arrays[2];
static long failed;

static void release_both(struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    if (array->array.release != NULL) array->array.release(&array->array);
    if (schema->release != NULL) schema->release(schema);
}

/* --- out: as many references to the owner are added and released */

static void out_libcai(int ndim) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    if (cai_unstable_array_to_arrow(&arrays[ndim - 1], 0, &array, &schema, NULL) != CAI_OK) {
        failed++;
        return;
    }
    release_both(&array, &schema);
}

static void free_buffer(struct ArrowBufferAllocator *self, uint8_t *data, int64_t size) {
    (void)data, (void)size;
    cai_owner_release((cai_owner *)self->private_data);
}

static int nanoarrow_schema(int ndim, struct ArrowSchema *schema) {
    if (ndim == 1) return ArrowSchemaInitFromType(schema, NANOARROW_TYPE_FLOAT);
    ArrowSchemaInit(schema);
    if (ArrowSchemaSetTypeFixedSize(schema, NANOARROW_TYPE_FIXED_SIZE_LIST, COLUMNS) != 0) return 1;
    return ArrowSchemaSetType(schema->children[0], NANOARROW_TYPE_FLOAT);
}

static int nanoarrow_out(int ndim, struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    const cai_array *from = &arrays[ndim - 1];
    struct ArrowArray plain, *inner;
    struct ArrowBuffer *buffer;
    if (nanoarrow_schema(ndim, schema) != 0) return 1;
    if (ArrowArrayInitFromSchema(&plain, schema, NULL) != 0) return 1;
    inner = ndim == 1 ? &plain : plain.children[0];
    buffer = ArrowArrayBuffer(inner, 1);
    if (cai_owner_retain(from->owner, NULL) != CAI_OK) return 1;
    if (ArrowBufferSetAllocator(buffer, ArrowBufferDeallocator(free_buffer, from->owner)) != 0)
        return 1;
    buffer->data = from->data;
    buffer->size_bytes = sizeof values;
    plain.length = from->shape[0];
    inner->length = ndim == 1 ? from->shape[0] : ROWS * COLUMNS;
    if (ArrowArrayFinishBuildingDefault(&plain, NULL) != 0) return 1;
    return ArrowDeviceArrayInit(ArrowDeviceCpu(), array, &plain, NULL);
}

static void out_nanoarrow(int ndim) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    if (nanoarrow_out(ndim, &array, &schema) != 0) {
        failed++;
        return;
    }
    release_both(&array, &schema);
}

/* --- in: structures of a producer that allocates nothing */

static void release_array(struct ArrowArray *self) { self->release = NULL; }
static void release_schema(struct ArrowSchema *self) { self->release = NULL; }

static void produce(int ndim, struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    static struct ArrowArray inner, *inners[1] = {&inner};
    static struct ArrowSchema item, *items[1] = {&item};
    static const void *buffers[2] = {NULL, values}, *none[1] = {NULL};
    const struct ArrowArray plain = {ROWS * COLUMNS, 0,   0, 2, 0, buffers, NULL, NULL,
                                     release_array,  NULL};
    const struct ArrowSchema number = {
        "f", "", NULL, ARROW_FLAG_NULLABLE, 0, NULL, NULL, release_schema, NULL};
    const struct ArrowArray list = {ROWS, 0, 0, 1, 1, none, inners, NULL, release_array, NULL};
    const struct ArrowSchema lists = {
        "+w:9", "", NULL, ARROW_FLAG_NULLABLE, 1, items, NULL, release_schema, NULL};
    inner = plain;
    item = number;
    memset(array, 0, sizeof *array);
    array->device_type = ARROW_DEVICE_CPU;
    array->device_id = -1;
    array->array = ndim == 1 ? plain : list;
    *schema = ndim == 1 ? number : lists;
}

static void in_libcai(int ndim) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    cai_array out = CAI_ARRAY_INIT;
    produce(ndim, &array, &schema);
    failed += cai_unstable_array_from_arrow(&array, &schema, &out, NULL) != CAI_OK;
    failed += out.data != values || out.ndim != ndim;
    schema.release(&schema);
    cai_array_release(&out);
}

static void in_nanoarrow(int ndim) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    struct ArrowDeviceArrayView view;
    const struct ArrowArrayView *inner = &view.array_view;
    produce(ndim, &array, &schema);
    ArrowDeviceArrayViewInit(&view);
    failed += ArrowArrayViewInitFromSchema(&view.array_view, &schema, NULL) != 0;
    failed += ArrowDeviceArrayViewSetArray(&view, &array, NULL) != 0;
    if (ndim == 2) inner = view.array_view.children[0];
    failed += inner->buffer_views[1].data.data != values;
    ArrowDeviceArrayViewReset(&view);
    release_both(&array, &schema);
}

/* Only what the two above have in common. */
static void in_nothing(int ndim) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    produce(ndim, &array, &schema);
    __asm__ volatile("" : : "r"(&array), "r"(&schema) : "memory");
    release_both(&array, &schema);
}

static const struct {
    const char *name;
    void (*run)(int ndim);
    int ndim;
} variants[] = {
    {"libcai: out, 1 dimension", out_libcai, 1},
    {"nanoarrow: out, 1 dimension", out_nanoarrow, 1},
    {"libcai: out, 2 dimensions", out_libcai, 2},
    {"nanoarrow: out, 2 dimensions", out_nanoarrow, 2},
    {"libcai: in, 1 dimension", in_libcai, 1},
    {"nanoarrow: in, 1 dimension", in_nanoarrow, 1},
    {"libcai: in, 2 dimensions", in_libcai, 2},
    {"nanoarrow: in, 2 dimensions", in_nanoarrow, 2},
    {"  part: structures filled and released", in_nothing, 2},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

int main(void) {
    static const int64_t one[1] = {ROWS * COLUMNS}, two[2] = {ROWS, COLUMNS};
    static double times[VARIANTS][ROUNDS];
    unsigned long allocated[VARIANTS];
    const cai_array init = CAI_ARRAY_INIT;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(sched_getcpu(), &cpu);
    (void)sched_setaffinity(0, sizeof cpu, &cpu);
    for (int ndim = 1; ndim <= 2; ndim++) {
        cai_array *array = &arrays[ndim - 1];
        *array = init;
        array->data = values;
        array->shape = ndim == 1 ? one : two;
        array->ndim = ndim;
        array->stream = CAI_STREAM_NONE;
        array->device.type = CAI_DEVICE_CPU;
        memcpy(array->typestr, "<f4", 4);
        if (cai_owner_create(NULL, NULL, &array->owner, NULL) != CAI_OK) return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int v = 0; v < VARIANTS; v++) {
            const unsigned long before = allocations;
            const double start = now();
            for (long i = 0; i < TIMES; i++)
                variants[v].run(variants[v].ndim);
            times[v][round] = (now() - start) / TIMES;
            allocated[v] = (allocations - before) / TIMES;
        }
    }
    if (failed != 0) {
        printf("%ld exchanges failed\n", failed);
        return 1;
    }
    printf("%-52s %9s %9s %12s\n", "Arrow's device structures, made and released", "median ns",
           "least ns", "allocations");
    for (int v = 0; v < VARIANTS; v++) {
        sort_times(times[v], ROUNDS);
        printf("%-52s %9.1f %9.1f %12lu\n", variants[v].name, times[v][ROUNDS / 2], times[v][0],
               allocated[v]);
    }
    for (int ndim = 1; ndim <= 2; ndim++)
        cai_owner_release(arrays[ndim - 1].owner);
    return 0;
}
