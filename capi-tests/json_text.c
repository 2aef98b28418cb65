/* The array interface as JSON text: members, sizes of buffers, what it cannot express.
 * run: plain asan valgrind */
#include "tests.h"

#include <inttypes.h>
#include <stdint.h>
#include <cai/unstable/json.h>

static void is(const cai_array *array, const char *expected) {
    char text[1024], exact[1024];
    size_t length = 0, asked = 0;
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_json(array, text, sizeof text, &length, NULL));
    ASSERT_TEXT(expected, text);
    ASSERT(length == strlen(expected));
    /* The length alone; a buffer of exactly that size; one character less. */
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_json(array, NULL, 0, &asked, NULL));
    ASSERT(asked == length);
    memset(exact, '#', sizeof exact);
    ASSERT_STATUS(CAI_OK, cai_unstable_array_to_json(array, exact, length + 1, NULL, NULL));
    ASSERT(strcmp(exact, expected) == 0 && exact[length + 1] == '#');
    memset(exact, '#', sizeof exact);
    asked = 0;
    ASSERT_STATUS(CAI_ERR_BUFFER_SIZE,
                  cai_unstable_array_to_json(array, exact, length, &asked, &error));
    ASSERT_TEXT("size", error.field);
    ASSERT(exact[0] == '#' && asked == 0);
}

static void refuses(const cai_array *array, cai_status status, const char *field) {
    char text[1024] = "#";
    cai_error error;
    ASSERT_STATUS(status, cai_unstable_array_to_json(array, text, sizeof text, NULL, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT(text[0] == '#');
}

static char *at(const cai_array *array, const char *rest) {
    static char text[1024];
    snprintf(text, sizeof text, "{\"data\": [%" PRIuPTR ", %s", (uintptr_t)array->data, rest);
    return text;
}

/* Each row changes something in a valid array, and states what differs in its text. */
#define IS(change, readonly, extents, strides, typestr, version)               \
    (test_row = #change, a = valid_array(), (void)(change),                    \
     is(&a, at(&a, readonly "], \"shape\": " extents ", \"strides\": " strides \
                            ", \"typestr\": \"" typestr "\", \"version\": " version "}")))

static void on_device(cai_array *array, cai_stream stream) {
    array->device.type = CAI_DEVICE_CUDA;
    array->stream = stream;
}

TEST(members) {
    static const int64_t columns[2] = {4, 12}, rows[2] = {16, 4}, s0[2] = {0, 4}, s12[1] = {12};
    cai_array a;
    IS(a = valid_array(), "false", "[3, 4]", "null", "<f4", "3");
    IS(a.flags = CAI_ARRAY_READONLY, "true", "[3, 4]", "null", "<f4", "3");
    IS(a.strides = rows, "false", "[3, 4]", "null", "<f4", "3");
    IS(a.strides = columns, "false", "[3, 4]", "[4, 12]", "<f4", "3");
    IS((a.ndim = 0, set_typestr(&a, "<M8[25us]")), "false", "[]", "null", "<M8[25us]", "3");
    IS((a.shape = s0, a.data = NULL), "false", "[0, 4]", "null", "<f4", "3");
    IS((a.ndim = 1, a.shape = s12, set_typestr(&a, "|t1")), "false", "[12]", "null", "|t1", "3");
    /* Without a driver, a stream is a number. */
    IS(on_device(&a, 140123), "false", "[3, 4]", "null", "<f4", "3, \"stream\": 140123");
    IS(on_device(&a, CAI_STREAM_NONE), "false", "[3, 4]", "null", "<f4", "3, \"stream\": null");
    IS(on_device(&a, CAI_STREAM_UNKNOWN), "false", "[3, 4]", "null", "<f4", "2");
    test_row = NULL;
}

TEST(masks) {
    static const int64_t s12[1] = {12};
    cai_array a = valid_array(), mask = valid_array();
    char rest[512];
    a.ndim = mask.ndim = 1;
    a.shape = mask.shape = s12;
    set_typestr(&mask, "|t1");
    mask.data = test_data + 64;
    mask.flags = CAI_ARRAY_READONLY;
    a.mask = &mask;
    snprintf(rest, sizeof rest,
             "false], \"shape\": [12], \"strides\": null, \"typestr\": \"<f4\", \"version\": 3, "
             "\"mask\": {\"data\": [%" PRIuPTR
             ", true], \"shape\": [12], \"strides\": null, \"typestr\": \"|t1\", \"version\": 3}}",
             (uintptr_t)mask.data);
    is(&a, at(&a, rest));
    /* In device memory, a mask has the stream of the array. */
    a.device.type = mask.device.type = CAI_DEVICE_CUDA;
    a.stream = mask.stream = 140123;
    snprintf(rest, sizeof rest,
             "false], \"shape\": [12], \"strides\": null, \"typestr\": \"<f4\", \"version\": 3, "
             "\"stream\": 140123, \"mask\": {\"data\": [%" PRIuPTR
             ", true], \"shape\": [12], \"strides\": null, \"typestr\": \"|t1\", \"version\": 3, "
             "\"stream\": 140123}}",
             (uintptr_t)mask.data);
    is(&a, at(&a, rest));
    /* An unknown stream is that of version 2: version 3 without one means that nothing is
     * pending. */
    a.stream = mask.stream = CAI_STREAM_UNKNOWN;
    snprintf(rest, sizeof rest,
             "false], \"shape\": [12], \"strides\": null, \"typestr\": \"<f4\", \"version\": 2, "
             "\"mask\": {\"data\": [%" PRIuPTR
             ", true], \"shape\": [12], \"strides\": null, \"typestr\": \"|t1\", \"version\": 2}}",
             (uintptr_t)mask.data);
    is(&a, at(&a, rest));
    set_typestr(&mask, ">i4");
    refuses(&a, CAI_ERR_CONVERT_BYTE_ORDER, "mask.typestr");
}

TEST(what_it_cannot_express) {
    static const cai_field field = {.name = "x", .typestr = "<f4"};
    static const cai_descr descr = {sizeof descr, sizeof field, 1, &field};
    cai_array a;
#define REFUSED(change, status, field) \
    (test_row = #change, a = valid_array(), (void)(change), refuses(&a, status, field))
    REFUSED(set_typestr(&a, ">f4"), CAI_ERR_CONVERT_BYTE_ORDER, "typestr");
    REFUSED((set_typestr(&a, "<V2"), a.dtype_code = CAI_DTYPE_BFLOAT16), CAI_ERR_CONVERT_TYPE,
            "dtype_code");
    REFUSED((set_typestr(&a, "|V4"), a.descr = &descr), CAI_ERR_CONVERT_TYPE, "descr");
    REFUSED(a.device.type = CAI_DEVICE_ONEAPI, CAI_ERR_CONVERT_DEVICE, "device.type");
    REFUSED(a.data = NULL, CAI_ERR_DATA_NULL, "data");
    REFUSED(set_typestr(&a, "<f3"), CAI_ERR_TYPESTR_SIZE, "typestr");
}

/* The message names the type of the code. */
TEST(types_with_a_code) {
    static const struct {
        uint16_t code;
        const char *typestr, *name;
    } rows[] = {
        {CAI_DTYPE_BFLOAT16, "<V2", "bfloat16"},
        {CAI_DTYPE_FLOAT4_E2M1FN_X2, "<V1", "float4_e2m1fn_x2"},
        {CAI_DTYPE_INT1, "<V1", "int1"},
        {CAI_DTYPE_UINT1, "<V1", "uint1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cai_array a = valid_array();
        char text[1024];
        cai_error error;
        test_row = rows[i].name;
        set_typestr(&a, rows[i].typestr);
        a.dtype_code = rows[i].code;
        ASSERT_STATUS(CAI_ERR_CONVERT_TYPE,
                      cai_unstable_array_to_json(&a, text, sizeof text, NULL, &error));
        snprintf(text, sizeof text, "dtype_code: found %s, expected", rows[i].name);
        ASSERT(strstr(error.message, text) != NULL);
    }
}
