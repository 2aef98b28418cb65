/* Arrow structures from arrays: types, levels, masks, what Arrow cannot express; the life of owner,
 * parents and children in any order of release; the way back; and record batches.
 * run: plain asan valgrind */
#include "arrow_test.h"

static int destroyed;

static cai_array owned(const char *typestr, int32_t ndim, const int64_t *shape) {
    cai_array array = valid_array();
    set_typestr(&array, typestr);
    array.ndim = ndim;
    array.shape = shape;
    for (int32_t i = 0; i < ndim; ++i)
        if (shape[i] == 0) array.data = NULL;
    destroyed = 0;
    array.owner = counting_owner(&destroyed);
    return array;
}

static void refused(cai_array *array, cai_status status, const char *field) {
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    cai_error error;
    memset(&values, 0x5a, sizeof values);
    memset(&schema, 0x5a, sizeof schema);
    ASSERT_STATUS(status, cai_unstable_array_to_arrow(array, 0, &values, &schema, &error));
    ASSERT_TEXT(field, error.field);
    for (size_t i = 0; i < sizeof values; ++i)
        ASSERT(((char *)&values)[i] == 0x5a);
    for (size_t i = 0; i < sizeof schema; ++i)
        ASSERT(((char *)&schema)[i] == 0x5a);
    if (array->owner != NULL) {
        ASSERT(destroyed == 0);
        cai_owner_release(array->owner);
        ASSERT(destroyed == 1);
    }
}

/* Each row changes something in an array of floats with the extents `shape`. */
#define REFUSED(change, status, field)                                              \
    (test_row = #change, array = owned("<f4", sizeof shape / sizeof *shape, shape), \
     (void)(change), refused(&array, status, field))

/* Compares what comes back with what went out. */
static void back(cai_array *array, struct ArrowDeviceArray *values, struct ArrowSchema *schema,
                 const char *typestr) {
    cai_array out = CAI_ARRAY_INIT;
    const cai_array *one = array, *other = &out;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_from_arrow(values, schema, &out, NULL));
    ASSERT_TEXT(typestr, out.typestr);
    ASSERT(out.data == array->data && out.ndim == array->ndim);
    for (int32_t i = 0; i < out.ndim; ++i)
        ASSERT(out.shape[i] == array->shape[i]);
    for (; one->mask != NULL && array->data != NULL; one = one->mask, other = other->mask)
        ASSERT(other->mask != NULL && other->mask->data == one->mask->data);
    ASSERT(other->mask == NULL);
    schema->release(schema);
    cai_owner_release(array->owner);
    ASSERT(destroyed == 0);
    cai_array_release(&out);
    ASSERT(destroyed == 1);
}

TEST(types) {
    static const char *const known[][3] = {
        {"|i1", "c", "|i1"},
        {"|u1", "C", "|u1"},
        {"<i2", "s", "<i2"},
        {"<u2", "S", "<u2"},
        {"<i4", "i", "<i4"},
        {"<u4", "I", "<u4"},
        {"<i8", "l", "<i8"},
        {"<u8", "L", "<u8"},
        {"<f2", "e", "<f2"},
        {"<f4", "f", "<f4"},
        {"<f8", "g", "<f8"},
        {"|t1", "b", "|t1"},
        {"|b1", "c", "|b1"},
        {"|V4", "w:4", "|V4"},
        {"|S12", "w:12", "|V12"},
        {"<V2", "w:2", "|V2"},
        {"<M8[s]", "tss:", "<M8[s]"},
        {"<M8[ms]", "tsm:", "<M8[ms]"},
        {"<M8[us]", "tsu:", "<M8[us]"},
        {"<M8[ns]", "tsn:", "<M8[ns]"},
        {"<m8[s]", "tDs", "<m8[s]"},
        {"<m8[ms]", "tDm", "<m8[ms]"},
        {"<m8[us]", "tDu", "<m8[us]"},
        {"<m8[ns]", "tDn", "<m8[ns]"},
    };
    static const char *const unknown[] = {
        "<c8",     "<c16", "<i16",      "<u16",   "<f16", "<f12", "<U3", "|O8",          "<M8[D]",
        "<M8[ps]", "<M8",  "<m8[25us]", "<m8[h]", "|t4",  "|t8",  "|f1", "|V2147483648", "<m8",
    };
    static const int64_t shape[1] = {3};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        cai_array array = owned(known[i][0], 1, shape);
        struct ArrowDeviceArray values;
        struct ArrowSchema schema;
        test_row = known[i][0];
        ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
        ASSERT_TEXT(known[i][1], schema.format);
        ASSERT_TEXT("", schema.name);
        ASSERT((schema.metadata != NULL) == (strcmp(known[i][0], "|b1") == 0));
        ASSERT(schema.flags == ARROW_FLAG_NULLABLE && schema.n_children == 0);
        ASSERT(schema.children == NULL && schema.dictionary == NULL);
        ASSERT(values.array.length == 3 && values.array.null_count == 0);
        ASSERT(values.array.offset == 0 && values.array.n_buffers == 2);
        ASSERT(values.array.buffers[0] == NULL && values.array.buffers[1] == test_data);
        ASSERT(values.array.n_children == 0 && values.array.dictionary == NULL);
        ASSERT(values.device_type == ARROW_DEVICE_CPU && values.device_id == -1);
        ASSERT(values.sync_event == NULL && values.reserved[0] == 0);
        back(&array, &values, &schema, known[i][2]);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
        cai_array array = owned(unknown[i], 1, shape);
        test_row = unknown[i];
        refused(&array, CAI_ERR_CONVERT_TYPE, "typestr");
    }
}

TEST(levels) {
    static const int64_t shape[3] = {3, 4, 5}, empty[3] = {3, 0, 5}, none[1] = {0};
    cai_array array = owned("<f4", 3, shape);
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    ASSERT_TEXT("+w:4", schema.format);
    ASSERT_TEXT("+w:5", schema.children[0]->format);
    ASSERT_TEXT("item", schema.children[0]->name);
    ASSERT_TEXT("f", schema.children[0]->children[0]->format);
    ASSERT(values.array.length == 3 && values.array.n_buffers == 1 && values.array.n_children == 1);
    ASSERT(values.array.children[0]->length == 12 && values.array.children[0]->n_buffers == 1);
    ASSERT(values.array.children[0]->children[0]->length == 60);
    ASSERT(values.array.children[0]->children[0]->buffers[1] == test_data);
    back(&array, &values, &schema, "<f4");
    array = owned("<f4", 3, empty);
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    ASSERT(values.array.length == 3 && values.array.children[0]->length == 0);
    back(&array, &values, &schema, "<f4");
    array = owned("|t1", 1, none);
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    back(&array, &values, &schema, "|t1");
    /* Without a schema. */
    array = owned("<f4", 3, shape);
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, NULL, NULL));
    cai_owner_release(array.owner);
    values.array.release(&values.array);
    ASSERT(destroyed == 1);
}

/* Children may be moved out; a parent releases those that were not. */
TEST(moved_children) {
    static const int64_t shape[3] = {3, 4, 5};
    for (int order = 0; order < 4; ++order) {
        cai_array array = owned("<f4", 3, shape);
        struct ArrowDeviceArray values, moved;
        struct ArrowSchema schema, type;
        ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
        cai_owner_release(array.owner);
        moved = values;
        values.array.release = NULL;
        struct ArrowArray inner = *moved.array.children[0];
        moved.array.children[0]->release = NULL;
        type = *schema.children[0];
        schema.children[0]->release = NULL;
        if (order & 1) {
            moved.array.release(&moved.array);
            ASSERT(inner.children[0]->buffers[1] == test_data && inner.children[0]->length == 60);
            ASSERT(destroyed == 0);
            inner.release(&inner);
        } else {
            inner.release(&inner);
            ASSERT(destroyed == 0 && moved.array.length == 3);
            moved.array.release(&moved.array);
        }
        ASSERT(destroyed == 1 && inner.release == NULL && moved.array.release == NULL);
        if (order & 2) {
            schema.release(&schema);
            ASSERT_TEXT("+w:5", type.format);
            ASSERT_TEXT("f", type.children[0]->format);
            type.release(&type);
        } else {
            type.release(&type);
            ASSERT_TEXT("+w:4", schema.format);
            schema.release(&schema);
        }
        ASSERT(type.release == NULL && schema.release == NULL);
    }
}

/* A packed mask in test_data. */
static cai_array mask_of(int32_t ndim, const int64_t *shape, int place) {
    cai_array mask = valid_array();
    set_typestr(&mask, "|t1");
    mask.ndim = ndim;
    mask.shape = shape;
    mask.data = (char *)test_data + place;
    return mask;
}

TEST(masks) {
    static const int64_t shape[3] = {3, 4, 5}, all[3] = {3, 4, 5}, two[3] = {3, 4, 1};
    static const int64_t one[3] = {3, 1, 1}, last[1] = {5}, middle[3] = {1, 4, 1};
    static const int64_t single[3] = {1, 1, 1}, same[2] = {3, 1}, empty[2] = {3, 0};
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    cai_array array = owned("<f4", 3, shape);
    cai_array m1 = mask_of(3, one, 1), m2 = mask_of(3, two, 2), m3 = mask_of(3, all, 3);
    m3.mask = &m2;
    m2.mask = &m1;
    array.mask = &m3;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    for (int i = 0; i < 3; ++i) {
        ASSERT(level_of(&values, i)->null_count == -1);
        ASSERT(level_of(&values, i)->buffers[0] == (char *)test_data + 1 + i);
    }
    back(&array, &values, &schema, "<f4");
    array = owned("<f4", 3, shape);
    m2.mask = NULL;
    array.mask = &m2;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    ASSERT(values.array.null_count == 0 && values.array.buffers[0] == NULL);
    ASSERT(level_of(&values, 1)->buffers[0] == m2.data && level_of(&values, 2)->null_count == 0);
    back(&array, &values, &schema, "<f4");
    /* Extents of 1 make two levels with as many elements. */
    array = owned("<f4", 2, same);
    m1 = mask_of(2, same, 1);
    m2 = mask_of(2, same, 2);
    m3 = mask_of(2, same, 3);
    m1.mask = &m2;
    array.mask = &m1;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    ASSERT(values.array.buffers[0] == m2.data && level_of(&values, 1)->buffers[0] == m1.data);
    values.array.release(&values.array);
    schema.release(&schema);
    m2.mask = &m3;
    refused(&array, CAI_ERR_CONVERT_MASK, "mask.mask.mask.shape");
    /* Without elements, nothing is null. */
    array = owned("<f4", 2, empty);
    m1 = mask_of(2, same, 1);
    array.mask = &m1;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    ASSERT(values.array.null_count == 0 && values.array.buffers[0] == NULL);
    back(&array, &values, &schema, "<f4");
    REFUSED((array.mask = &m1, m1 = mask_of(1, last, 1)), CAI_ERR_CONVERT_MASK, "mask.shape");
    REFUSED((array.mask = &m1, m1 = mask_of(3, middle, 1)), CAI_ERR_CONVERT_MASK, "mask.shape");
    REFUSED((array.mask = &m1, m1 = mask_of(3, single, 1)), CAI_ERR_CONVERT_MASK, "mask.shape");
    REFUSED((array.mask = &m1, m1 = mask_of(0, NULL, 1)), CAI_ERR_CONVERT_MASK, "mask.shape");
    REFUSED((array.mask = &m1, m1 = mask_of(3, all, 1), set_typestr(&m1, "|b1")),
            CAI_ERR_CONVERT_MASK, "mask.typestr");
    REFUSED((array.mask = &m1, m1 = mask_of(3, all, 1), array.device.type = CAI_DEVICE_CUDA,
             m1.device.type = CAI_DEVICE_CUDA_MANAGED),
            CAI_ERR_CONVERT_MASK, "mask.device");
    test_row = NULL;
    m1 = mask_of(3, all, 1);
    m1.device.type = CAI_DEVICE_UNKNOWN;
    array = owned("<f4", 3, shape);
    array.mask = &m1;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, &schema, NULL));
    back(&array, &values, &schema, "<f4");
}

TEST(what_it_cannot_express) {
    static const int64_t shape[2] = {3, 4}, swapped[2] = {4, 12}, wide[2] = {1, INT64_C(1) << 31};
    static const int64_t overflow[3] = {INT64_C(1) << 62, 4, 0};
    /* Tensors whose two dimensions are swapped, without and with gaps between them. */
    static const int64_t tensors[3] = {3, 2, 2}, permuted[3] = {16, 4, 8}, apart[3] = {32, 4, 8};
    static const cai_field field = {.name = "x", .typestr = "<f4"};
    static const cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 1, &field};
    static int event;
    struct ArrowDeviceArray values;
    cai_error error;
    cai_array array, mask = CAI_ARRAY_INIT;
    mask.data = test_data;
    mask.shape = tensors;
    mask.ndim = 3;
    set_typestr(&mask, "|t1");
    mask.device.type = CAI_DEVICE_CPU;
    mask.stream = CAI_STREAM_NONE;
    REFUSED((array.ndim = 3, array.shape = tensors, array.strides = permuted, array.mask = &mask),
            CAI_ERR_CONVERT_MASK, "mask");
    REFUSED((set_typestr(&array, "|V4"), array.descr = &descr), CAI_ERR_CONVERT_TYPE, "typestr");
    REFUSED((set_typestr(&array, "<V2"), array.dtype_code = CAI_DTYPE_BFLOAT16),
            CAI_ERR_CONVERT_TYPE, "typestr");
    REFUSED(set_typestr(&array, ">f4"), CAI_ERR_CONVERT_BYTE_ORDER, "typestr");
    REFUSED(array.strides = swapped, CAI_ERR_CONVERT_CONTIGUOUS, "strides");
    REFUSED((array.ndim = 3, array.shape = tensors, array.strides = apart),
            CAI_ERR_CONVERT_CONTIGUOUS, "strides");
    REFUSED(array.ndim = 0, CAI_ERR_CONVERT_NDIM, "ndim");
    REFUSED((set_typestr(&array, "|i1"), array.shape = wide), CAI_ERR_CONVERT_TYPE, "shape[1]");
    REFUSED((array.ndim = 3, array.shape = overflow, array.data = NULL), CAI_ERR_SIZE_OVERFLOW,
            "shape[1]");
    REFUSED(array.data = (char *)test_data + 1, CAI_ERR_ALIGNMENT, "data");
    REFUSED(array.device.type = CAI_DEVICE_ONEAPI, CAI_ERR_CONVERT_DEVICE, "device");
    REFUSED((array.device.type = CAI_DEVICE_ROCM, array.device.id = -1), CAI_ERR_CONVERT_DEVICE,
            "device");
    REFUSED(array.stream = 77, CAI_ERR_STREAM_DEVICE, "device.type");
    REFUSED((array.stream = CAI_STREAM_UNKNOWN, array.event = &event), CAI_ERR_STREAM_DEVICE,
            "device.type");
    REFUSED((cai_owner_release(array.owner), array.owner = NULL), CAI_ERR_BORROWED, "owner");
    test_row = NULL;
    array = owned("<f4", 2, shape);
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_unstable_array_to_arrow(&array, 2, &values, NULL, &error));
    ASSERT_TEXT("flags", error.field);
    /* The flags come before the rules of the array. */
    array.ndim = 65;
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_unstable_array_to_arrow(&array, 2, &values, NULL, &error));
    ASSERT_TEXT("flags", error.field);
    array.ndim = 2;
    /* An event of an unknown stream stays what it is. */
    array.device.type = CAI_DEVICE_ROCM;
    array.device.id = 2;
    array.stream = CAI_STREAM_UNKNOWN;
    array.event = &event;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_arrow(&array, 0, &values, NULL, NULL));
    ASSERT(values.device_type == ARROW_DEVICE_ROCM && values.device_id == 2);
    ASSERT(*(void **)values.sync_event == &event);
    values.array.release(&values.array);
    cai_owner_release(array.owner);
    ASSERT(destroyed == 1);
}

/* Two arrays of one length, one with a mask, each with an owner that counts. */
enum { COLUMNS = 2 };

static int ended[COLUMNS];
static const char *const names[COLUMNS] = {"x", "\303\251t\303\251"}; /* in UTF-8 */

static void columns_of(cai_array arrays[COLUMNS], const cai_array *places[COLUMNS],
                       const cai_array *mask) {
    static const int64_t shape[1] = {3}, tensors[3] = {3, 2, 2};
    for (int i = 0; i < COLUMNS; ++i) {
        arrays[i] = owned(i == 0 ? "<f4" : "<i4", i == 0 ? 1 : 3, i == 0 ? shape : tensors);
        cai_owner_release(arrays[i].owner);
        ended[i] = 0;
        arrays[i].owner = counting_owner(&ended[i]);
        places[i] = &arrays[i];
    }
    arrays[0].mask = mask;
}

TEST(batches) {
    static const int64_t shape[1] = {3};
    const cai_array mask = mask_of(1, shape, 1);
    cai_array arrays[COLUMNS];
    const cai_array *places[COLUMNS];
    char texts[COLUMNS][8];
    const char *copied[COLUMNS] = {texts[0], texts[1]};
    for (int first = 0; first < 2; ++first) {
        struct ArrowDeviceArray batch;
        struct ArrowSchema schema;
        cai_array x = CAI_ARRAY_INIT, y = CAI_ARRAY_INIT, *out[COLUMNS] = {&x, &y};
        columns_of(arrays, places, &mask);
        for (int i = 0; i < COLUMNS; ++i)
            strcpy(texts[i], names[i]);
        ASSERT_STATUS(CAI_OK, cai_unstable_arrays_to_arrow(places, copied, COLUMNS, 0, &batch,
                                                           &schema, NULL));
        memset(texts, 'z', sizeof texts);
        ASSERT_TEXT("+s", schema.format);
        ASSERT(batch.array.length == 3 && batch.array.n_children == COLUMNS);
        ASSERT(batch.array.null_count == 0 && batch.array.n_buffers == 1);
        ASSERT(batch.device_type == ARROW_DEVICE_CPU && batch.device_id == -1);
        ASSERT(batch.sync_event == NULL && batch.array.children[0]->buffers[0] == mask.data);
        ASSERT(schema.n_children == COLUMNS);
        for (int i = 0; i < COLUMNS; ++i)
            ASSERT_TEXT(names[i], schema.children[i]->name);
        ASSERT_STATUS(CAI_OK, cai_unstable_arrays_from_arrow(&batch, &schema, COLUMNS, out, NULL));
        schema.release(&schema);
        ASSERT_TEXT("<f4", x.typestr);
        ASSERT_TEXT("<i4", y.typestr);
        ASSERT(x.data == arrays[0].data && x.mask->data == mask.data && y.mask == NULL);
        ASSERT(y.ndim == 3 && y.shape[0] == 3 && y.shape[2] == 2);
        /* The columns keep the batch, and the batch keeps the arrays. */
        for (int i = 0; i < COLUMNS; ++i)
            cai_owner_release(arrays[i].owner);
        cai_array_release(out[first]);
        ASSERT(ended[0] == 0 && ended[1] == 0);
        cai_array_release(out[1 - first]);
        ASSERT(ended[0] == 1 && ended[1] == 1);
    }
    {
        /* A column outlives the batch. */
        struct ArrowDeviceArray batch;
        columns_of(arrays, places, NULL);
        ASSERT_STATUS(CAI_OK,
                      cai_unstable_arrays_to_arrow(places, names, COLUMNS,
                                                   CAI_UNSTABLE_ARROW_TENSOR, &batch, NULL, NULL));
        struct ArrowArray column = *batch.array.children[1];
        batch.array.children[1]->release = NULL;
        ASSERT(column.children[0]->length == 12); /* a tensor is one list */
        for (int i = 0; i < COLUMNS; ++i)
            cai_owner_release(arrays[i].owner);
        batch.array.release(&batch.array);
        ASSERT(batch.array.release == NULL && ended[0] == 1 && ended[1] == 0);
        column.release(&column);
        ASSERT(ended[1] == 1);
    }
}

TEST(batches_that_are_refused) {
    static const int64_t shorter[3] = {2, 2, 2};
    for (int row = 0; row < 14; ++row) {
        int at = 0;
        cai_status status = CAI_OK;
        cai_array arrays[COLUMNS];
        const cai_array *places[COLUMNS];
        const char *given[COLUMNS] = {names[0], names[1]};
        struct ArrowDeviceArray batch;
        struct ArrowSchema schema;
        int64_t count = COLUMNS;
        uint32_t flags = 0;
        cai_owner *owner;
        cai_error error;
        columns_of(arrays, places, NULL);
        owner = arrays[1].owner;
        WRONG("count", CAI_ERR_VALUE, count = 0);
        WRONG("count", CAI_ERR_VALUE, count = -1);
        WRONG("flags", CAI_ERR_NEWER_CALLER, flags = CAI_UNSTABLE_ARROW_HOST);
        WRONG("names", CAI_ERR_NULL_ARGUMENT, given[1] = NULL);
        WRONG("arrays", CAI_ERR_NULL_ARGUMENT, places[1] = NULL);
        WRONG("columns[1].shape[0]", CAI_ERR_VALUE, arrays[1].shape = shorter);
        WRONG("columns[1].device", CAI_ERR_CONVERT_DEVICE,
              arrays[1].device.type = CAI_DEVICE_CUDA_HOST);
        WRONG("columns[0].device", CAI_ERR_CONVERT_DEVICE,
              arrays[0].device.type = CAI_DEVICE_ONEAPI);
        WRONG("columns[1].typestr", CAI_ERR_CONVERT_TYPE, set_typestr(&arrays[1], "<c8"));
        WRONG("columns[1].ndim", CAI_ERR_CONVERT_NDIM, arrays[1].ndim = 0);
        WRONG("columns[1].typestr", CAI_ERR_TYPESTR_KIND, set_typestr(&arrays[1], "<q4"));
        WRONG("columns[1].owner", CAI_ERR_BORROWED, arrays[1].owner = NULL);
        WRONG("columns[1].device.type", CAI_ERR_STREAM_DEVICE, arrays[1].stream = 77);
        WRONG("columns[1].data", CAI_ERR_ALIGNMENT, arrays[1].data = (char *)test_data + 1);
        ASSERT(at == 14);
        memset(&batch, 0x5a, sizeof batch);
        memset(&schema, 0x5a, sizeof schema);
        ASSERT_STATUS(status, cai_unstable_arrays_to_arrow(places, given, count, flags, &batch,
                                                           &schema, &error));
        ASSERT_TEXT(test_row, error.field);
        for (size_t i = 0; i < sizeof batch; ++i)
            ASSERT(((char *)&batch)[i] == 0x5a);
        for (size_t i = 0; i < sizeof schema; ++i)
            ASSERT(((char *)&schema)[i] == 0x5a);
        ASSERT(ended[0] == 0 && ended[1] == 0);
        cai_owner_release(arrays[0].owner);
        cai_owner_release(owner);
        ASSERT(ended[0] == 1 && ended[1] == 1);
    }
    test_row = NULL;
}
