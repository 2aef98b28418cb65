/*
 * Arrow's device structures of an array, and an array of Arrow's structures, beside the C library
 * of nanoarrow: the same structures, made and released.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <nanoarrow/nanoarrow_device.h>

#include <cai/unstable/arrow.h>
#include <cai/cai.h>

enum { ROWS = 8, COLUMNS = 9 };

static float values[ROWS * COLUMNS];
static cai_array arrays[2];
static int wrong;

static void release_both(struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    if (array->array.release != NULL) array->array.release(&array->array);
    if (schema->release != NULL) schema->release(schema);
}

/* --- out: as many references to the owner are added and released */

/* `with`: the array. */
static int out_libcai(const void *with) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    if (cai_unstable_array_to_arrow(with, 0, &array, &schema, NULL) != CAI_OK) return 1;
    release_both(&array, &schema);
    return 0;
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

static int nanoarrow_out(const cai_array *from, struct ArrowDeviceArray *array,
                         struct ArrowSchema *schema) {
    const int ndim = from->ndim;
    struct ArrowArray plain, *inner;
    if (nanoarrow_schema(ndim, schema) != 0) return 1;
    if (ArrowArrayInitFromSchema(&plain, schema, NULL) != 0) return 1;
    inner = ndim == 1 ? &plain : plain.children[0];
    struct ArrowBuffer *buffer = ArrowArrayBuffer(inner, 1);
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

static int out_nanoarrow(const void *with) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    if (nanoarrow_out(with, &array, &schema) != 0) return 1;
    release_both(&array, &schema);
    return 0;
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
    if (wrong) array->array.n_buffers = 7;
    *schema = ndim == 1 ? number : lists;
}

static int in_libcai(const void *with) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    cai_array out = CAI_ARRAY_INIT;
    const int ndim = ((const cai_array *)with)->ndim;
    produce(ndim, &array, &schema);
    int failed = cai_unstable_array_from_arrow(&array, &schema, &out, NULL) != CAI_OK ||
                 out.data != values || out.ndim != ndim;
    schema.release(&schema);
    cai_array_release(&out);
    return failed;
}

static int in_nanoarrow(const void *with) {
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    struct ArrowDeviceArrayView view;
    const struct ArrowArrayView *inner = &view.array_view;
    const int ndim = ((const cai_array *)with)->ndim;
    produce(ndim, &array, &schema);
    ArrowDeviceArrayViewInit(&view);
    int failed = ArrowArrayViewInitFromSchema(&view.array_view, &schema, NULL) != 0 ||
                 ArrowDeviceArrayViewSetArray(&view, &array, NULL) != 0;
    if (!failed && ndim == 2) inner = view.array_view.children[0];
    failed = failed || inner->buffer_views[1].data.data != values;
    ArrowDeviceArrayViewReset(&view);
    release_both(&array, &schema);
    return failed;
}

static const bench_row rows[] = {
    {"out, 1 dimension | nanoarrow", out_nanoarrow, 0, &arrays[0]},
    {"out, 1 dimension | libcai", out_libcai, 1, &arrays[0]},
    {"out, 2 dimensions | nanoarrow", out_nanoarrow, 0, &arrays[1]},
    {"out, 2 dimensions | libcai", out_libcai, 1, &arrays[1]},
    {"in, 1 dimension | nanoarrow", in_nanoarrow, 1, &arrays[0]},
    {"in, 1 dimension | libcai", in_libcai, 1, &arrays[0]},
    {"in, 2 dimensions | nanoarrow", in_nanoarrow, 1, &arrays[1]},
    {"in, 2 dimensions | libcai", in_libcai, 1, &arrays[1]},
};

static void spoil(const bench_row *row, int now_wrong) {
    wrong = now_wrong;
    ((cai_array *)row->with)->byte_offset = now_wrong ? 1 : 0;
}

int main(void) {
    static const int64_t one[1] = {ROWS * COLUMNS}, two[2] = {ROWS, COLUMNS};
    const cai_array init = CAI_ARRAY_INIT;
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
    puts("with\tnanoarrow 0.9.0");
    BENCH("Arrow's device structures, made and released", rows, spoil, NULL);
    return 0;
}
