/* Arrays from Arrow: types, levels, nulls, offsets, devices, events; and that each array and schema
 * is released exactly once.
 * run: plain asan valgrind */
#include "arrow_test.h"

/* Imports, and releases the schema, which stays the caller's. */
static cai_array imported(struct ArrowDeviceArray *array, struct ArrowSchema *schema) {
    cai_array out = CAI_ARRAY_INIT;
    const int arrays = released_arrays, schemas = released_schemas;
    cai_error error;
    const cai_status status = cai_unstable_array_from_arrow(array, schema, &out, &error);
    if (status != CAI_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    ASSERT(array->array.release == NULL && schema->release != NULL);
    ASSERT(released_arrays == arrays && released_schemas == schemas);
    schema->release(schema);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out, CAI_CHECK_LAYOUT, NULL));
    ASSERT(out.flags == CAI_ARRAY_READONLY && (schema->metadata != NULL || out.strides == NULL) &&
           out.owner != NULL);
    return out;
}

/* Releases an array, and with it Arrow's. */
static void end(cai_array *array) {
    const int arrays = released_arrays;
    cai_array_release(array);
    ASSERT(released_arrays == arrays + 1);
}

/* Imports what is refused; both stay the caller's. */
static void refused(struct ArrowDeviceArray array, struct ArrowSchema schema, cai_status status,
                    const char *field) {
    const int arrays = released_arrays, schemas = released_schemas;
    const struct ArrowDeviceArray before = array;
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    ASSERT_STATUS(status, cai_unstable_array_from_arrow(&array, &schema, &out, &error));
    ASSERT_TEXT(field, error.field);
    /* Members by themselves: what lies between them is not initialized. */
    ASSERT(memcmp(&before.array, &array.array, sizeof array.array) == 0 &&
           before.device_id == array.device_id && before.device_type == array.device_type &&
           before.sync_event == array.sync_event && out.owner == NULL && out.data == NULL);
    ASSERT(released_arrays == arrays && released_schemas == schemas);
    if (array.array.release != NULL) array.array.release(&array.array);
    if (schema.release != NULL) schema.release(&schema);
    ASSERT(released_arrays <= arrays + 1 && released_schemas <= schemas + 1);
}

TEST(types) {
    static const char *const known[][2] = {
        {"c", "|i1"},        {"C", "|u1"},
        {"s", "<i2"},        {"S", "<u2"},
        {"i", "<i4"},        {"I", "<u4"},
        {"l", "<i8"},        {"L", "<u8"},
        {"e", "<f2"},        {"f", "<f4"},
        {"g", "<f8"},        {"b", "|t1"},
        {"tdD", "<i4"},      {"tdm", "<M8[ms]"},
        {"tts", "<i4"},      {"ttm", "<i4"},
        {"ttu", "<m8[us]"},  {"ttn", "<m8[ns]"},
        {"tss:", "<M8[s]"},  {"tsm:", "<M8[ms]"},
        {"tsu:", "<M8[us]"}, {"tsn:Asia/Tokyo", "<M8[ns]"},
        {"tDs", "<m8[s]"},   {"tDm", "<m8[ms]"},
        {"tDu", "<m8[us]"},  {"tDn", "<m8[ns]"},
        {"w:4", "|V4"},      {"w:131", "|V131"},
    };
    static const char *const unknown[] = {
        "n",    "z",      "Z",
        "u",    "U",      "vz",
        "vu",   "d:10,2", "d:5,2,256",
        "tiM",  "tiD",    "tin",
        "+l",   "+L",     "+vl",
        "+s",   "+m",     "+ud:0,1",
        "+r",   "",       "x",
        "ts",   "tss",    "w",
        "w:",   "w:-1",   "w:+1",
        "w:1x", "w: 1",   "+w",
        "+w:",  "+w:-2",  "w:2147483648",
        "tsx:", "ff",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        struct ArrowSchema schema = schema_of_values(known[i][0]);
        struct ArrowDeviceArray array = foreign_values(3, test_data);
        test_row = known[i][0];
        cai_array out = imported(&array, &schema);
        ASSERT_TEXT(known[i][1], out.typestr);
        ASSERT(out.data == test_data && out.ndim == 1 && out.shape[0] == 3 && out.mask == NULL);
        ASSERT(out.stream == CAI_STREAM_NONE && out.device.type == CAI_DEVICE_CPU);
        ASSERT(out.device.id == 0);
        end(&out);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
        test_row = unknown[i];
        refused(foreign_values(3, test_data), schema_of_values(unknown[i]), CAI_ERR_CONVERT_TYPE,
                "schema.format");
    }
    test_row = NULL;
    refused(foreign_values(3, test_data), schema_of_values("w:0"), CAI_ERR_ITEMSIZE, "typestr");
    {
        struct ArrowSchema schema = schema_of_values("i"), values = schema_of_values("u");
        schema.dictionary = &values;
        refused(foreign_values(3, test_data), schema, CAI_ERR_CONVERT_TYPE, "schema.dictionary");
        values.release(&values);
    }
}

/* The metadata of a schema: pairs of texts, each behind its size. */
static char *metadata(int pairs, const char *const *texts) {
    static char out[512];
    int32_t number = pairs;
    char *at = out + 4;
    memcpy(out, &number, 4);
    for (int i = 0; i < 2 * pairs; ++i) {
        number = (int32_t)strlen(texts[i]);
        memcpy(at, &number, 4);
        memcpy(at + 4, texts[i], (size_t)number);
        at += 4 + number;
    }
    return out;
}

static char *tensor_metadata(const char *text) {
    const char *const texts[4] = {"ARROW:extension:name", "arrow.fixed_shape_tensor",
                                  "ARROW:extension:metadata", text};
    return metadata(2, texts);
}

TEST(extension_types) {
    static const struct {
        const char *pair[2], *storage, *typestr;
    } rows[] = {
        {{"ARROW:extension:name", "arrow.bool8"}, "c", "|b1"},
        {{"ARROW:extension:name", "arrow.bool8"}, "i", NULL},
        /* Of another extension type, the storage is what counts. */
        {{"ARROW:extension:name", "arrow.other"}, "i", "<i4"},
        /* Nor does its name count under another key. */
        {{"ARROW:extension:note", "arrow.bool8"}, "c", "|i1"},
    };
    const int32_t negative = -1;
    struct ArrowSchema schema;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        struct ArrowDeviceArray array = foreign_values(3, test_data);
        test_row = rows[i].pair[1];
        schema = schema_of_values(rows[i].storage);
        schema.metadata = metadata(1, rows[i].pair);
        if (rows[i].typestr == NULL) {
            refused(array, schema, CAI_ERR_CONVERT_TYPE, "schema.format");
            continue;
        }
        cai_array out = imported(&array, &schema);
        ASSERT_TEXT(rows[i].typestr, out.typestr);
        end(&out);
    }
    test_row = "a text of a negative size";
    schema = schema_of_values("i");
    char *wrong = metadata(1, rows[0].pair);
    memcpy(wrong + 28, &negative, 4);
    schema.metadata = wrong;
    refused(foreign_values(3, test_data), schema, CAI_ERR_ARROW, "schema.metadata");
    test_row = NULL;
}

TEST(tensors) {
    static const char *const formats[2] = {"+w:6", "f"}, *const bits[2] = {"+w:6", "b"};
    static const int64_t lengths[2] = {2, 12};
    static const struct {
        const char *metadata;
        int64_t ndim, shape[4], strides[4];
    } known[] = {
        {"{\"shape\":[2,3]}", 3, {2, 2, 3}, {0}},
        {"{\"shape\": [2, 3], \"permutation\": [0, 1]}", 3, {2, 2, 3}, {0}},
        {" { \"dim_names\" : [\"a]\\\"\", \"b\"], \"permutation\":[1,0],\"shape\":[2,3]}",
         3,
         {2, 3, 2},
         {24, 4, 12}},
        {"{\"permutation\":[2,0,1],\"shape\":[3,1,2],\"x\":{\"y\":[1]}}",
         4,
         {2, 2, 3, 1},
         {24, 4, 8, 8}},
        {"{\"shape\":[6],\"permutation\":null,\"dim_names\":null}", 2, {2, 6}, {0}},
    };
    static const char *const wrong[] = {
        "",
        "{",
        "{}",
        "[2,3]",
        "{\"shape\":[2,2]}",
        "{\"shape\":[-2,-3]}",
        "{\"shape\":[2,3",
        "{\"shape\":\"[2,3]\"}",
        "{\"shape\":[2,3],\"permutation\":[0]}",
        "{\"shape\":[2,3],\"permutation\":[1,1]}",
        "{\"shape\":[2,3],\"permutation\":[1,2]}",
        "{\"shape\":[99999999999999999999]}",
        "{\"shape\":[4294967296,4294967296]}",
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        struct ArrowDeviceArray array = foreign(2, lengths, test_data);
        struct ArrowSchema schema = schema_of(2, formats);
        test_row = known[i].metadata;
        schema.metadata = tensor_metadata(known[i].metadata);
        cai_array out = imported(&array, &schema);
        ASSERT(out.ndim == known[i].ndim && out.data == test_data);
        for (int at = 0; at < out.ndim; ++at) {
            ASSERT(out.shape[at] == known[i].shape[at]);
            ASSERT(out.strides == NULL ? known[i].strides[0] == 0
                                       : out.strides[at] == known[i].strides[at]);
        }
        end(&out);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        struct ArrowSchema schema = schema_of(2, formats);
        test_row = wrong[i];
        schema.metadata = tensor_metadata(wrong[i]);
        refused(foreign(2, lengths, test_data), schema, CAI_ERR_ARROW, "schema.metadata");
    }
    test_row = NULL;
    {
        struct ArrowSchema schema = schema_of(2, bits);
        schema.metadata = tensor_metadata("{\"shape\":[2,3],\"permutation\":[1,0]}");
        refused(foreign(2, lengths, test_data), schema, CAI_ERR_CONVERT_STRIDES, "schema.metadata");
    }
    { /* Bits of the tensors' elements, which are lists. */
        static const char *const lists[3] = {"+w:6", "+w:2", "f"};
        static const int64_t long_enough[3] = {2, 12, 24};
        struct ArrowSchema schema = schema_of(3, lists);
        struct ArrowDeviceArray array = foreign(3, long_enough, test_data);
        schema.metadata = tensor_metadata("{\"shape\":[2,3],\"permutation\":[1,0]}");
        level_of(&array, 1)->null_count = -1;
        level_of(&array, 1)->buffers[0] = test_data;
        refused(array, schema, CAI_ERR_CONVERT_STRIDES, "schema.metadata");
    }
    { /* No elements, and strides that no number can express. */
        static const char *const none[2] = {"+w:0", "g"};
        static const int64_t no_values[2] = {2, 0};
        struct ArrowSchema schema = schema_of(2, none);
        schema.metadata =
            tensor_metadata("{\"shape\":[0,4611686018427387904],\"permutation\":[1,0]}");
        refused(foreign(2, no_values, test_data), schema, CAI_ERR_ARROW, "schema.metadata");
    }
}

TEST(levels) {
    static const char *const formats[3] = {"+w:4", "+w:5", "f"};
    static const int64_t lengths[3] = {3, 12, 60};
    struct ArrowSchema schema = schema_of(3, formats);
    struct ArrowDeviceArray array = foreign(3, lengths, test_data);
    cai_array out = imported(&array, &schema);
    ASSERT(out.ndim == 3 && out.shape[0] == 3 && out.shape[1] == 4 && out.shape[2] == 5);
    ASSERT(out.data == test_data && out.mask == NULL);
    end(&out);
    /* The offset of each level counts in its own elements. */
    schema = schema_of(3, formats);
    array = foreign(3, lengths, test_data);
    array.array.length = 2;
    array.array.offset = 1;
    level_of(&array, 1)->offset = 10;
    level_of(&array, 2)->length = 110;
    level_of(&array, 2)->offset = 7;
    out = imported(&array, &schema);
    ASSERT(out.shape[0] == 2 && out.data == test_data + 7 + (10 + 1 * 4) * 5);
    end(&out);
    /* The children need all that the parent refers to, and no more. */
    array = foreign(3, lengths, test_data);
    level_of(&array, 2)->length = 59;
    refused(array, schema_of(3, formats), CAI_ERR_ARROW, "array.children[0].children[0].length");
    array = foreign(3, lengths, test_data);
    array.array.offset = 1;
    refused(array, schema_of(3, formats), CAI_ERR_ARROW, "array.children[0].length");
    schema = schema_of(3, formats);
    array = foreign(3, lengths, test_data);
    level_of(&array, 1)->length = 500;
    level_of(&array, 2)->length = 5000;
    out = imported(&array, &schema);
    ASSERT(out.shape[0] == 3 && out.shape[1] == 4);
    end(&out);
}

TEST(the_deepest) {
    const char *formats[MOST_LEVELS];
    int64_t lengths[MOST_LEVELS];
    for (int levels = 64; levels <= 65; ++levels) {
        for (int i = 0; i < levels; ++i) {
            formats[i] = i + 1 < levels ? "+w:1" : "i";
            lengths[i] = 3;
        }
        struct ArrowSchema schema = schema_of(levels, formats);
        struct ArrowDeviceArray array = foreign(levels, lengths, test_data);
        if (levels == 64) {
            cai_array out = imported(&array, &schema);
            ASSERT(out.ndim == 64 && out.shape[0] == 3 && out.shape[63] == 1);
            end(&out);
        } else {
            refused(array, schema, CAI_ERR_NDIM, "schema");
        }
    }
}

TEST(no_elements) {
    static const char *const formats[2] = {"+w:0", "f"}, *const lists[2] = {"+w:3", "f"};
    static const int64_t none[2] = {0, 0}, some[2] = {3, 0};
    struct ArrowSchema schema = schema_of_values("f");
    struct ArrowDeviceArray array = foreign_values(0, NULL);
    cai_array out = imported(&array, &schema);
    ASSERT(out.data == NULL && out.shape[0] == 0);
    end(&out);
    schema = schema_of_values("b");
    array = foreign_values(0, test_data);
    array.array.offset = 3;
    out = imported(&array, &schema);
    ASSERT(out.data == NULL && out.shape[0] == 0);
    end(&out);
    for (int i = 0; i < 2; ++i) {
        schema = schema_of(2, formats);
        array = foreign(2, i == 0 ? none : some, test_data);
        array.array.null_count = i == 0 ? 0 : -1;
        level_of(&array, 0)->buffers[0] = test_data;
        out = imported(&array, &schema);
        ASSERT(out.data == NULL && out.shape[0] == 3 * i && out.shape[1] == 0);
        ASSERT(out.mask == NULL);
        end(&out);
    }
    /* The offset of a parent without lists refers to nothing. */
    schema = schema_of(2, lists);
    array = foreign(2, none, test_data);
    array.array.offset = 5;
    level_of(&array, 1)->length = 0;
    out = imported(&array, &schema);
    ASSERT(out.data == NULL && out.shape[0] == 0 && out.shape[1] == 3);
    end(&out);
    refused(foreign_values(3, NULL), schema_of_values("f"), CAI_ERR_DATA_NULL, "array.buffers[1]");
    array = foreign_values(3, (void *)(UINTPTR_MAX - 15));
    array.array.offset = 4;
    refused(array, schema_of_values("g"), CAI_ERR_ADDRESS_RANGE, "array.offset");
}

static int bit(const cai_array *bits, int64_t index) {
    return ((const uint8_t *)bits->data)[index / 8] >> (index % 8) & 1;
}

TEST(nulls) {
    static const uint8_t bitmap[3] = {0xb5, 0x5c, 0x07};
    for (int64_t count = -1; count <= 3; ++count) {
        struct ArrowSchema schema = schema_of_values("i");
        struct ArrowDeviceArray array = foreign_values(20, test_data);
        array.array.null_count = count;
        array.array.buffers[0] = bitmap;
        cai_array out = imported(&array, &schema);
        ASSERT((out.mask != NULL) == (count != 0));
        if (out.mask != NULL) {
            ASSERT(out.mask->data == bitmap && out.mask->ndim == 1 && out.mask->shape[0] == 20);
            ASSERT_TEXT("|t1", out.mask->typestr);
        }
        end(&out);
    }
    /* Every offset: bits that begin a byte are used in place, others are copied. */
    for (int64_t offset = 0; offset <= 20; ++offset) {
        for (int64_t length = 1; offset + length <= 24; ++length) {
            struct ArrowSchema schema = schema_of_values("b");
            struct ArrowDeviceArray array = foreign_values(length, bitmap);
            uint8_t *exact = malloc((size_t)(offset + length + 7) / 8);
            ASSERT(exact != NULL);
            memcpy(exact, bitmap, (size_t)(offset + length + 7) / 8);
            array.array.offset = offset;
            array.array.null_count = -1;
            array.array.buffers[0] = exact;
            array.array.buffers[1] = exact;
            cai_array out = imported(&array, &schema);
            ASSERT((out.data == exact + offset / 8) == (offset % 8 == 0));
            ASSERT((out.mask->data == exact + offset / 8) == (offset % 8 == 0));
            ASSERT(out.shape[0] == length && out.mask->shape[0] == length);
            /* Bits behind the last one of a copy are zero. */
            for (int64_t i = length; offset % 8 != 0 && i % 8 != 0; ++i)
                ASSERT(bit(&out, i) == 0 && bit(out.mask, i) == 0);
            for (int64_t i = 0; i < length; ++i) {
                const int expected = bitmap[(offset + i) / 8] >> ((offset + i) % 8) & 1;
                ASSERT(bit(&out, i) == expected && bit(out.mask, i) == expected);
            }
            end(&out);
            free(exact);
        }
    }
    {
        struct ArrowSchema schema = schema_of_values("i");
        struct ArrowDeviceArray array = foreign_values(3, test_data);
        array.array.null_count = 1;
        refused(array, schema_of_values("i"), CAI_ERR_ARROW, "array.buffers[0]");
        /* A count that is not computed, and no bitmap: no nulls. */
        array = foreign_values(3, test_data);
        array.array.null_count = -1;
        cai_array out = imported(&array, &schema);
        ASSERT(out.mask == NULL);
        end(&out);
    }
}

/* Nulls of each level, and offsets in bits of each. */
TEST(nulls_of_levels) {
    static const char *const formats[3] = {"+w:3", "+w:2", "f"};
    static const int64_t lengths[3] = {4, 12, 24};
    static const uint8_t outer[1] = {0x0d}, inner[2] = {0x5a, 0x0b}, all[3] = {0x81, 0x42, 0x24};
    struct ArrowSchema schema = schema_of(3, formats);
    struct ArrowDeviceArray array = foreign(3, lengths, test_data);
    const cai_array *mask;
    for (int i = 0; i < 3; ++i) {
        level_of(&array, i)->null_count = -1;
        level_of(&array, i)->buffers[0] = i == 0 ? outer : i == 1 ? inner : all;
    }
    array.array.offset = 1;
    array.array.length = 3;
    cai_array out = imported(&array, &schema);
    ASSERT(out.data == test_data + 6 && out.shape[0] == 3);
    mask = out.mask;
    ASSERT(mask->ndim == 3 && mask->shape[0] == 3 && mask->shape[1] == 3 && mask->shape[2] == 2);
    for (int64_t i = 0; i < 18; ++i)
        ASSERT(bit(mask, i) == (all[(i + 6) / 8] >> ((i + 6) % 8) & 1));
    mask = mask->mask;
    ASSERT(mask->ndim == 3 && mask->shape[0] == 3 && mask->shape[1] == 3 && mask->shape[2] == 1);
    for (int64_t i = 0; i < 9; ++i)
        ASSERT(bit(mask, i) == (inner[(i + 3) / 8] >> ((i + 3) % 8) & 1));
    mask = mask->mask;
    ASSERT(mask->ndim == 3 && mask->shape[0] == 3 && mask->shape[1] == 1 && mask->shape[2] == 1);
    for (int64_t i = 0; i < 3; ++i)
        ASSERT(bit(mask, i) == (outer[0] >> (i + 1) & 1));
    ASSERT(mask->mask == NULL);
    end(&out);
    {
        const char *deep[9];
        int64_t ones[9];
        for (int i = 0; i < 9; ++i) {
            deep[i] = i < 8 ? "+w:1" : "f";
            ones[i] = 4;
        }
        for (int masked = 8; masked <= 9; ++masked) {
            schema = schema_of(9, deep);
            array = foreign(9, ones, test_data);
            for (int i = 0; i < masked; ++i) {
                level_of(&array, i)->null_count = -1;
                level_of(&array, i)->buffers[0] = outer;
            }
            if (masked == 8) {
                out = imported(&array, &schema);
                end(&out);
            } else {
                refused(array, schema, CAI_ERR_MASK_DEPTH,
                        "array.children[0].children[0].children[0].children[0].children[0]."
                        "children[0].children[0].ch...");
            }
        }
    }
}

TEST(devices_and_events) {
    static const struct {
        int32_t type;
        int64_t id;
        cai_status status;
        int32_t out;
    } cases[] = {
        {ARROW_DEVICE_CPU, 7, CAI_OK, 0},
        {ARROW_DEVICE_CUDA, 3, CAI_OK, 3},
        {ARROW_DEVICE_CUDA, -1, CAI_ERR_DEVICE_ID, 0},
        {ARROW_DEVICE_CUDA, INT64_C(1) << 32, CAI_ERR_DEVICE_ID, 0},
        {ARROW_DEVICE_CUDA_HOST, 1, CAI_OK, 1},
        {ARROW_DEVICE_CUDA_HOST, -1, CAI_OK, 0},
        {ARROW_DEVICE_CUDA_HOST, -2, CAI_ERR_DEVICE_ID, 0},
        {ARROW_DEVICE_CUDA_MANAGED, -1, CAI_OK, 0},
        {ARROW_DEVICE_ROCM, 2, CAI_OK, 2},
        {ARROW_DEVICE_ROCM, -1, CAI_ERR_DEVICE_ID, 0},
        {ARROW_DEVICE_ROCM_HOST, -1, CAI_OK, 0},
    };
    static const int32_t others[] = {0, 4, 5, 7, 8, 9, 12, 14, 15, 16, 99, -1};
    static int event;
    void *handle = &event, *nothing = NULL;
    struct ArrowDeviceArray array;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        for (int has_event = 0; has_event < 2; ++has_event) {
            struct ArrowSchema schema = schema_of_values("f");
            array = foreign_values(3, test_data);
            array.device_type = cases[i].type;
            array.device_id = cases[i].id;
            array.sync_event = has_event ? &handle : NULL;
            if (cases[i].status != CAI_OK) {
                refused(array, schema, cases[i].status, "device_id");
                continue;
            }
            if (has_event && cases[i].type == ARROW_DEVICE_CPU) {
                refused(array, schema, CAI_ERR_EVENT, "sync_event");
                continue;
            }
            cai_array out = imported(&array, &schema);
            ASSERT(out.device.type == cases[i].type && out.device.id == cases[i].out);
            ASSERT(out.event == (has_event ? handle : NULL));
            ASSERT(out.stream == (has_event ? CAI_STREAM_UNKNOWN : CAI_STREAM_NONE));
            ASSERT(out.stream_id == 0 && out.context == NULL);
            end(&out);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
        array = foreign_values(3, test_data);
        array.device_type = others[i];
        refused(array, schema_of_values("f"), CAI_ERR_CONVERT_DEVICE, "device_type");
    }
    array = foreign_values(3, test_data);
    array.device_type = ARROW_DEVICE_CUDA;
    array.device_id = 0;
    array.sync_event = &nothing;
    refused(array, schema_of_values("f"), CAI_ERR_EVENT, "sync_event");
    /* Bits on a device are used in place, or refused. */
    for (int64_t offset = 8; offset <= 9; ++offset) {
        for (int is_mask = 0; is_mask < 2; ++is_mask) {
            struct ArrowSchema schema = schema_of_values(is_mask ? "f" : "b");
            array = foreign_values(3, test_data);
            array.device_type = ARROW_DEVICE_CUDA;
            array.device_id = 0;
            array.array.offset = offset;
            if (is_mask) array.array.buffers[0] = test_data;
            if (is_mask) array.array.null_count = 1;
            if (offset == 8) {
                cai_array out = imported(&array, &schema);
                ASSERT((is_mask ? out.mask : &out)->data == (char *)test_data + 1);
                if (is_mask) ASSERT(out.mask->device.type == CAI_DEVICE_CUDA);
                end(&out);
            } else {
                refused(array, schema, CAI_ERR_CONVERT_BIT_OFFSET, "array.offset");
            }
        }
    }
}

TEST(malformed) {
    static const char *const formats[2] = {"+w:4", "f"};
    static const int64_t lengths[2] = {3, 12};
#define BROKEN(change, status, field)                                         \
    do {                                                                      \
        struct ArrowDeviceArray array = foreign(2, lengths, test_data);       \
        struct ArrowSchema schema = schema_of(2, formats);                    \
        struct ArrowArray *outer = &array.array, *inner = outer->children[0]; \
        struct ArrowSchema *type = schema.children[0];                        \
        (void)outer, (void)inner, (void)type;                                 \
        test_row = #change;                                                   \
        change;                                                               \
        refused(array, schema, status, field);                                \
    } while (0)
    BROKEN(outer->length = -1, CAI_ERR_ARROW, "array.length");
    BROKEN(outer->offset = -1, CAI_ERR_ARROW, "array.offset");
    BROKEN(outer->offset = INT64_MAX - 2, CAI_ERR_ARROW, "array.length");
    BROKEN(outer->null_count = -2, CAI_ERR_ARROW, "array.null_count");
    BROKEN(outer->null_count = 4, CAI_ERR_ARROW, "array.null_count");
    BROKEN(outer->n_buffers = 2, CAI_ERR_ARROW, "array.n_buffers");
    BROKEN(outer->buffers = NULL, CAI_ERR_ARROW, "array.buffers");
    BROKEN(outer->n_children = 0, CAI_ERR_ARROW, "array.n_children");
    BROKEN(outer->children = NULL, CAI_ERR_ARROW, "array.children");
    BROKEN(outer->children[0] = NULL, CAI_ERR_ARROW, "array.children[0]");
    BROKEN(outer->dictionary = inner, CAI_ERR_ARROW, "array.dictionary");
    BROKEN(inner->length = 11, CAI_ERR_ARROW, "array.children[0].length");
    BROKEN(inner->offset = -1, CAI_ERR_ARROW, "array.children[0].offset");
    BROKEN(inner->offset = INT64_MAX, CAI_ERR_ARROW, "array.children[0].length");
    BROKEN(inner->n_buffers = 3, CAI_ERR_ARROW, "array.children[0].n_buffers");
    BROKEN(inner->n_children = 1, CAI_ERR_ARROW, "array.children[0].n_children");
    BROKEN(inner->release = NULL, CAI_ERR_ARROW, "array.children[0].release");
    BROKEN(inner->buffers[1] = NULL, CAI_ERR_DATA_NULL, "array.children[0].buffers[1]");
    BROKEN(schema.n_children = 0, CAI_ERR_ARROW, "schema.n_children");
    BROKEN(schema.children = NULL, CAI_ERR_ARROW, "schema.children");
    BROKEN(schema.children[0] = NULL, CAI_ERR_ARROW, "schema.children[0]");
    BROKEN(schema.format = NULL, CAI_ERR_ARROW, "schema.format");
    BROKEN(type->format = "u", CAI_ERR_CONVERT_TYPE, "schema.children[0].format");
    BROKEN(type->n_children = 1, CAI_ERR_ARROW, "schema.children[0].n_children");
    BROKEN(type->release = NULL, CAI_ERR_ARROW, "schema.children[0].release");
    /* Numbers that overflow. */
    BROKEN((outer->offset = INT64_MAX / 2, inner->length = INT64_MAX), CAI_ERR_ARROW,
           "array.children[0].length");
    BROKEN((outer->length = INT64_MAX / 4, inner->length = INT64_MAX), CAI_ERR_SIZE_OVERFLOW,
           "shape");
    BROKEN((inner->length = 12, inner->offset = INT64_MAX / 2), CAI_ERR_ADDRESS_RANGE,
           "array.offset");
    test_row = NULL;
    {
        struct ArrowDeviceArray array = foreign_values(3, test_data);
        struct ArrowSchema schema = schema_of_values("f");
        void (*release)(struct ArrowArray *) = array.array.release;
        void (*release_schema)(struct ArrowSchema *) = schema.release;
        cai_array out = CAI_ARRAY_INIT;
        cai_error error;
        array.array.release = NULL;
        ASSERT_STATUS(CAI_ERR_ARROW, cai_unstable_array_from_arrow(&array, &schema, &out, &error));
        ASSERT_TEXT("array.release", error.field);
        array.array.release = release;
        schema.release = NULL;
        ASSERT_STATUS(CAI_ERR_ARROW, cai_unstable_array_from_arrow(&array, &schema, &out, &error));
        ASSERT_TEXT("schema.release", error.field);
        schema.release = release_schema;
        release_both(&array, &schema);
    }
}

/* No version of Arrow reads these members, and pyarrow does not write them. */
TEST(members_without_a_meaning) {
    struct ArrowDeviceArray array = foreign_values(3, test_data);
    struct ArrowSchema schema = schema_of_values("f");
    memset(array.reserved, 0xa5, sizeof array.reserved);
    schema.flags = -1;
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_from_arrow(&array, &schema, &out, &error));
    schema.release(&schema);
    end(&out);
}

/* Nothing of the tests above is left. One schema was that of a dictionary. */
TEST(releases) { ASSERT(released_arrays + 1 == released_schemas); }

/* A batch of columns that are children of one structure, which releases them. */
enum { COLUMNS = 3 };

typedef struct {
    struct ArrowArray arrays[COLUMNS], *places[COLUMNS];
    const void *validity[1];
    void *event;
} batch_memory;

static void release_batch(struct ArrowArray *self) {
    batch_memory *memory = self->private_data;
    for (int i = 0; i < COLUMNS; ++i)
        if (memory->arrays[i].release != NULL) memory->arrays[i].release(&memory->arrays[i]);
    ++released_arrays;
    free(memory);
    self->release = NULL;
}

static struct ArrowDeviceArray batch_of(int64_t length, int64_t offset, const void *validity) {
    struct ArrowDeviceArray batch = foreign_values(length, NULL);
    batch_memory *memory = calloc(1, sizeof *memory);
    ASSERT(memory != NULL);
    batch.array.release(&batch.array);
    for (int i = 0; i < COLUMNS; ++i) {
        memory->arrays[i] = foreign_values(length + offset, test_data).array;
        memory->places[i] = &memory->arrays[i];
    }
    memory->validity[0] = validity;
    batch.array.offset = offset;
    batch.array.n_buffers = 1;
    batch.array.buffers = memory->validity;
    batch.array.null_count = validity != NULL ? -1 : 0;
    batch.array.n_children = COLUMNS;
    batch.array.children = memory->places;
    batch.array.release = release_batch;
    batch.array.private_data = memory;
    return batch;
}

TEST(batches) {
    static const char *const formats[COLUMNS] = {"f", "u", "l"};
    static uint64_t validity = 0xf5;
    struct ArrowSchema children[COLUMNS], *places[COLUMNS], schema = schema_of_values("+s");
    cai_error error;
    for (int i = 0; i < COLUMNS; ++i) {
        children[i] = schema_of_values(formats[i]);
        places[i] = &children[i];
    }
    schema.n_children = COLUMNS;
    schema.children = places;
    for (int left_out = 0; left_out < 2; ++left_out) {
        const int before = released_arrays;
        struct ArrowDeviceArray batch = batch_of(3, 2, left_out ? &validity : NULL);
        cai_array first = CAI_ARRAY_INIT, last = CAI_ARRAY_INIT;
        cai_array *out[COLUMNS] = {&first, NULL, left_out ? NULL : &last};
        const int made = released_arrays;
        ASSERT(made == before + 1);
        ASSERT_STATUS(CAI_OK,
                      cai_unstable_arrays_from_arrow(&batch, &schema, COLUMNS, out, &error));
        ASSERT(batch.array.release == NULL && released_arrays == made);
        ASSERT_STATUS(CAI_OK, cai_array_validate(&first, CAI_CHECK_LAYOUT, NULL));
        /* The offset of the batch is that of its columns, too. */
        ASSERT(first.data == (const char *)test_data + 8 && first.shape[0] == 3);
        ASSERT_TEXT("<f4", first.typestr);
        if (left_out) {
            ASSERT(first.mask != NULL && *(const unsigned char *)first.mask->data == 5);
            ASSERT(last.owner == NULL);
        } else {
            ASSERT(last.data == (const char *)test_data + 16 && last.owner != first.owner);
            ASSERT(first.mask == NULL);
        }
        cai_array_release(&first);
        ASSERT(released_arrays == (left_out ? made + 4 : made));
        cai_array_release(&last);
        ASSERT(released_arrays == made + 4);
    }
    for (int row = 0; row < 14; ++row) {
        int at = 0;
        cai_status status = CAI_OK;
        struct ArrowDeviceArray batch = batch_of(3, 0, NULL);
        struct ArrowSchema given = schema;
        const int before = released_arrays;
        int64_t count = COLUMNS;
        cai_array arrays[COLUMNS] = {CAI_ARRAY_INIT, CAI_ARRAY_INIT, CAI_ARRAY_INIT};
        cai_array *out[COLUMNS] = {&arrays[0], NULL, &arrays[2]};
        void (*release)(struct ArrowArray *) = batch.array.release;
        WRONG("count", CAI_ERR_VALUE, count = 2);
        WRONG("schema.format", CAI_ERR_CONVERT_TYPE, given.format = "+w:3");
        WRONG("schema.release", CAI_ERR_ARROW, given.release = NULL);
        WRONG("array.release", CAI_ERR_ARROW, batch.array.release = NULL);
        WRONG("array.length", CAI_ERR_ARROW, batch.array.length = -1);
        WRONG("array.n_children", CAI_ERR_ARROW, batch.array.n_children = 2);
        WRONG("columns[2].array.length", CAI_ERR_ARROW, batch.array.children[2]->length = 2);
        WRONG("columns[1].schema.format", CAI_ERR_CONVERT_TYPE, out[1] = &arrays[1]);
        WRONG("columns[0].schema.children", CAI_ERR_ARROW, given.children = NULL);
        WRONG("columns[0].array.children", CAI_ERR_ARROW, batch.array.children = NULL);
        WRONG("device_type", CAI_ERR_CONVERT_DEVICE, batch.device_type = ARROW_DEVICE_METAL);
        WRONG("columns[0].buffers[0]", CAI_ERR_ARROW, batch.array.null_count = 1);
        WRONG("count", CAI_ERR_VALUE, count = -1);
        WRONG("out->struct_size", CAI_ERR_STRUCT_SIZE, arrays[2].struct_size = 1);
        ASSERT(at == 14);
        ASSERT_STATUS(status, cai_unstable_arrays_from_arrow(&batch, &given, count, out, &error));
        ASSERT_TEXT(test_row, error.field);
        if (strcmp(test_row, "array.n_children") == 0)
            ASSERT_TEXT("array.n_children: found 2, expected 3, as in the schema", error.message);
        ASSERT(arrays[0].owner == NULL && released_arrays == before);
        release(&batch.array);
        ASSERT(released_arrays == before + 4);
    }
    test_row = NULL;
    for (int i = 0; i < COLUMNS; ++i)
        children[i].release(&children[i]);
    schema.release(&schema);
}
