/* The array interface as JSON text: members, sizes of buffers, what it cannot express.
 * run: plain asan valgrind */
#include "cai_test.h"

#include <inttypes.h>
#include <stdint.h>

static void is(const cai_array *array, const char *expected) {
    char text[1024], exact[1024];
    size_t length = 0, asked = 0;
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_array_to_json(array, text, sizeof text, &length, NULL));
    ASSERT_TEXT(expected, text);
    ASSERT(length == strlen(expected));
    /* The length alone; a buffer of exactly that size; one character less. */
    ASSERT_STATUS(CAI_OK, cai_array_to_json(array, NULL, 0, &asked, NULL));
    ASSERT(asked == length);
    memset(exact, '#', sizeof exact);
    ASSERT_STATUS(CAI_OK, cai_array_to_json(array, exact, length + 1, NULL, NULL));
    ASSERT(strcmp(exact, expected) == 0 && exact[length + 1] == '#');
    memset(exact, '#', sizeof exact);
    asked = 0;
    ASSERT_STATUS(CAI_ERR_BUFFER_SIZE, cai_array_to_json(array, exact, length, &asked, &error));
    ASSERT_TEXT("size", error.field);
    ASSERT(exact[0] == '#' && asked == 0);
}

static void refuses(const cai_array *array, cai_status status, const char *field) {
    char text[1024] = "#";
    cai_error error;
    ASSERT_STATUS(status, cai_array_to_json(array, text, sizeof text, NULL, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT(text[0] == '#');
}

static char *at(const cai_array *array, const char *rest) {
    static char text[1024];
    snprintf(text, sizeof text, "{\"data\": [%" PRIuPTR ", %s", (uintptr_t)array->data, rest);
    return text;
}

static void members(void) {
    static const int64_t columns[2] = {4, 12}, rows[2] = {16, 4}, s0[2] = {0, 4}, s12[1] = {12};
    cai_array a = valid_array();
    is(&a, at(&a, "false], \"shape\": [3, 4], \"strides\": null, \"typestr\": \"<f4\", "
                  "\"version\": 3}"));
    a.flags = CAI_ARRAY_READONLY;
    a.strides = rows;
    is(&a, at(&a, "true], \"shape\": [3, 4], \"strides\": null, \"typestr\": \"<f4\", "
                  "\"version\": 3}"));
    a.strides = columns;
    is(&a, at(&a, "true], \"shape\": [3, 4], \"strides\": [4, 12], \"typestr\": \"<f4\", "
                  "\"version\": 3}"));
    a = valid_array();
    a.ndim = 0;
    set_typestr(&a, "<M8[25us]");
    is(&a, at(&a, "false], \"shape\": [], \"strides\": null, \"typestr\": \"<M8[25us]\", "
                  "\"version\": 3}"));
    a = valid_array();
    a.shape = s0;
    a.data = NULL;
    is(&a, "{\"data\": [0, false], \"shape\": [0, 4], \"strides\": null, \"typestr\": \"<f4\", "
           "\"version\": 3}");
    a = valid_array();
    a.ndim = 1;
    a.shape = s12;
    set_typestr(&a, "|t1");
    is(&a, at(&a, "false], \"shape\": [12], \"strides\": null, \"typestr\": \"|t1\", "
                  "\"version\": 3}"));
}

static void streams(void) {
    cai_array a = valid_array();
    /* Without a driver, a stream is a number. */
    a.device.type = CAI_DEVICE_CUDA;
    a.stream = 140123;
    is(&a, at(&a, "false], \"shape\": [3, 4], \"strides\": null, \"typestr\": \"<f4\", "
                  "\"version\": 3, \"stream\": 140123}"));
    a.stream = CAI_STREAM_NONE;
    is(&a, at(&a, "false], \"shape\": [3, 4], \"strides\": null, \"typestr\": \"<f4\", "
                  "\"version\": 3, \"stream\": null}"));
    a.stream = CAI_STREAM_UNKNOWN;
    is(&a, at(&a, "false], \"shape\": [3, 4], \"strides\": null, \"typestr\": \"<f4\", "
                  "\"version\": 2}"));
}

static void masks(void) {
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

static void what_it_cannot_express(void) {
    cai_field field;
    cai_descr descr;
    cai_array a = valid_array();
    set_typestr(&a, ">f4");
    refuses(&a, CAI_ERR_CONVERT_BYTE_ORDER, "typestr");
    set_typestr(&a, "<V2");
    a.dtype_code = CAI_DTYPE_BFLOAT16;
    refuses(&a, CAI_ERR_CONVERT_TYPE, "dtype_code");
    a = valid_array();
    memset(&field, 0, sizeof field);
    memset(&descr, 0, sizeof descr);
    field.name = "x";
    memcpy(field.typestr, "<f4", 4);
    descr.struct_size = sizeof descr;
    descr.field_size = sizeof field;
    descr.count = 1;
    descr.fields = &field;
    set_typestr(&a, "|V4");
    a.descr = &descr;
    refuses(&a, CAI_ERR_CONVERT_TYPE, "descr");
    a = valid_array();
    a.device.type = CAI_DEVICE_ONEAPI;
    refuses(&a, CAI_ERR_CONVERT_DEVICE, "device.type");
    a = valid_array();
    a.data = NULL;
    refuses(&a, CAI_ERR_DATA_NULL, "data");
    a = valid_array();
    set_typestr(&a, "<f3");
    refuses(&a, CAI_ERR_TYPESTR_SIZE, "typestr");
}

int main(void) {
    members();
    streams();
    masks();
    what_it_cannot_express();
    return 0;
}
