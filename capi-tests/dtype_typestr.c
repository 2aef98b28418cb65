/* The grammar of typestr: what is taken and how it is taken apart, what is refused and why, and
 * that what is formatted reads back. Which texts are a type, and of which size, is compared with
 * NumPy for some thousands of them in tests/python/test_numpy.py.
 * run: plain asan valgrind */
#include "cai_test.h"

static void takes(const char *typestr, char kind, int64_t itemsize, int64_t bits, int32_t unit,
                  int64_t count) {
    cai_dtype dtype;
    char again[CAI_TYPESTR_SIZE];
    size_t length = 0;
    test_row = typestr;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(typestr, &dtype, NULL));
    ASSERT(dtype.kind == kind && dtype.byte_order == typestr[0] && dtype.code == CAI_DTYPE_NONE);
    ASSERT(dtype.itemsize == itemsize && dtype.bits == bits);
    ASSERT(dtype.unit == unit && dtype.unit_count == count);
    ASSERT_STATUS(CAI_OK, cai_dtype_format(&dtype, again, sizeof(again), &length, NULL));
    ASSERT_TEXT(typestr, again);
    ASSERT(length == strlen(typestr));
}

static void refuses(cai_status status, const char *typestr, const char *expected) {
    cai_dtype dtype;
    cai_error error;
    test_row = typestr;
    memset(&dtype, 0x55, sizeof(dtype));
    ASSERT_STATUS(status, cai_dtype_parse(typestr, &dtype, &error));
    ASSERT(error.code == status && dtype.kind == 0x55);
    ASSERT_TEXT("typestr", error.field);
    ASSERT_CONTAINS(error.message, expected);
    if (strlen(typestr) > 0 && strlen(typestr) < CAI_TYPESTR_SIZE) {
        ASSERT_CONTAINS(error.message, typestr);
    }
}

static void same(bool expected, const char *a, const char *b) {
    cai_dtype x, y;
    test_row = a;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(a, &x, NULL));
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(b, &y, NULL));
    ASSERT(cai_dtype_equal(&x, &y) == expected);
    ASSERT(cai_dtype_equal(&y, &x) == expected);
}

static void native(bool expected, const char *typestr) {
    cai_dtype dtype;
    test_row = typestr;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(typestr, &dtype, NULL));
    ASSERT(cai_dtype_is_native(&dtype) == expected);
}

/* A code explains opaque bytes of its size, not a type that has a meaning. */
static void code(cai_status status, const char *typestr, uint16_t code, const char *found) {
    cai_array array = valid_array();
    cai_error error;
    cai_dtype dtype;
    test_row = typestr;
    set_typestr(&array, typestr);
    array.dtype_code = code;
    ASSERT_STATUS(status, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
    ASSERT_STATUS(status, cai_array_dtype(&array, &dtype, &error));
    if (status == CAI_OK) {
        ASSERT(dtype.code == code && cai_dtype_is_native(&dtype) == (typestr[0] != '>'));
    } else {
        ASSERT_TEXT("dtype_code", error.field);
        ASSERT_CONTAINS(error.message, found);
    }
}

/* The code is part of the type. */
static void codes_differ(void) {
    cai_array array = valid_array();
    cai_dtype dtype, other;
    set_typestr(&array, "<V2");
    array.dtype_code = CAI_DTYPE_BFLOAT16;
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
    other = dtype;
    ASSERT(dtype.itemsize == 2 && cai_dtype_equal(&dtype, &other));
    other.code = CAI_DTYPE_NONE;
    ASSERT(!cai_dtype_equal(&dtype, &other) && !cai_dtype_equal(&other, &dtype));
    other.code = CAI_DTYPE_FLOAT8_E4M3;
    ASSERT(!cai_dtype_equal(&dtype, &other) && !cai_dtype_equal(&other, &dtype));
}

static void formats(void) {
    cai_dtype dtype = {'i', '<', 0, 0, 1, {0, 0}, 4, 32};
    char text[CAI_TYPESTR_SIZE];
    size_t length = 0;
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    ASSERT_TEXT("<i4", text);
    /* The length can be asked first; a buffer that is too small is left as it is. */
    ASSERT_STATUS(CAI_OK, cai_dtype_format(&dtype, NULL, 0, &length, NULL));
    ASSERT(length == 3);
    memset(text, 'x', sizeof(text));
    ASSERT_STATUS(CAI_ERR_BUFFER_SIZE, cai_dtype_format(&dtype, text, length, NULL, &error));
    ASSERT_TEXT("size", error.field);
    ASSERT(text[0] == 'x');
    ASSERT_STATUS(CAI_OK, cai_dtype_format(&dtype, text, length + 1, NULL, NULL));
    ASSERT_TEXT("<i4", text);
    ASSERT(text[4] == 'x');
}

/* Descriptions that no typestr of this version can express. */
static void unformattable(cai_status status, const char *field, const cai_dtype *dtype) {
    char text[CAI_TYPESTR_SIZE] = "x";
    cai_error error;
    ASSERT_STATUS(status, cai_dtype_format(dtype, text, sizeof(text), NULL, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT_TEXT("x", text);
}
#define UNFORMATTABLE(change, status, field) \
    (test_row = #change, dtype = i4, (change), unformattable(status, field, &dtype))

static void no_formats(void) {
    static const cai_dtype i4 = {'i', '<', 0, CAI_UNIT_GENERIC, 1, {0, 0}, 4, 32};
    static const cai_dtype M8 = {'M', '<', 0, CAI_UNIT_MICROSECOND, 1, {0, 0}, 8, 64};
    static const cai_dtype least = {'U',       '<',    0,         INT32_MIN,
                                    INT32_MIN, {0, 0}, INT64_MIN, INT64_MIN};
    cai_dtype dtype;
    UNFORMATTABLE(dtype.reserved[1] = 1, CAI_ERR_NEWER_CALLER, "dtype.reserved");
    UNFORMATTABLE(dtype.kind = 'q', CAI_ERR_TYPESTR_KIND, "typestr");
    UNFORMATTABLE(dtype.byte_order = '=', CAI_ERR_TYPESTR_ORDER, "typestr");
    UNFORMATTABLE(dtype.itemsize = 3, CAI_ERR_TYPESTR_SIZE, "typestr");
    UNFORMATTABLE(dtype.bits = 31, CAI_ERR_TYPESTR_SIZE, "dtype.bits");
    UNFORMATTABLE(dtype.unit = CAI_UNIT_SECOND, CAI_ERR_TYPESTR_UNIT, "dtype.unit_count");
    UNFORMATTABLE((dtype = M8, dtype.unit_count = INT32_MAX), CAI_ERR_TYPESTR_LENGTH, "typestr");
    UNFORMATTABLE((dtype = M8, dtype.unit = 99), CAI_ERR_TYPESTR_UNIT, "dtype.unit");
    UNFORMATTABLE((dtype = M8, dtype.unit = -1), CAI_ERR_TYPESTR_UNIT, "dtype.unit");
    UNFORMATTABLE(dtype = least, CAI_ERR_TYPESTR_LENGTH, "typestr");
    UNFORMATTABLE((dtype = least, dtype.kind = 't'), CAI_ERR_TYPESTR_LENGTH, "typestr");
}

int main(void) {
    uint16_t number;
    takes("|b1", 'b', 1, 8, 0, 1);
    takes("|i8", 'i', 8, 64, 0, 1);
    takes("<u16", 'u', 16, 128, 0, 1);
    takes("<f1", 'f', 1, 8, 0, 1);
    takes("<f16", 'f', 16, 128, 0, 1);
    takes("<c4", 'c', 4, 32, 0, 1);
    takes("<c32", 'c', 32, 256, 0, 1);
    takes("|S0", 'S', 0, 0, 0, 1);
    takes("<U4", 'U', 16, 128, 0, 1);
    takes("|O", 'O', 8, 64, 0, 1);
    takes("<M8", 'M', 8, 64, CAI_UNIT_GENERIC, 1);
    takes("<M8[25us]", 'M', 8, 64, CAI_UNIT_MICROSECOND, 25);
    takes("<M8[99999999us]", 'M', 8, 64, CAI_UNIT_MICROSECOND, 99999999);
    takes("|t1", 't', 0, 1, 0, 1);
    takes("<t12", 't', 0, 12, 0, 1);
    takes("|t16", 't', 2, 16, 0, 1);
    takes("|V9999999999999", 'V', 9999999999999, 79999999999992, 0, 1);
    takes("<W4", 'W', 4, 32, 0, 1);

    refuses(CAI_ERR_TYPESTR_LENGTH, "", "empty");
    refuses(CAI_ERR_TYPESTR_LENGTH, "<M8[2147483647us]", "at most 15");
    refuses(CAI_ERR_TYPESTR_ORDER, "i4", "byte order");
    refuses(CAI_ERR_TYPESTR_ORDER, " <i4", "byte order");
    refuses(CAI_ERR_TYPESTR_KIND, "<", "no kind");
    refuses(CAI_ERR_TYPESTR_KIND, "<44", "kind '4'");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i", "1, 2, 4, 8 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i04", "1, 2, 4, 8 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i4 ", "nothing after \"<i4\"");
    refuses(CAI_ERR_TYPESTR_SIZE, "<f3x", "12 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "|b2", "1 byte");
    refuses(CAI_ERR_TYPESTR_SIZE, "<f3", "12 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<c2", "24 or 32");
    refuses(CAI_ERR_TYPESTR_SIZE, "<M4[s]", "8 bytes");
    refuses(CAI_ERR_TYPESTR_SIZE, "|O4", "8 bytes");
    refuses(CAI_ERR_TYPESTR_SIZE, "<W8", "4 bytes");
    refuses(CAI_ERR_TYPESTR_SIZE, "|t0", "at least 1");
    refuses(CAI_ERR_TYPESTR_SIZE, "|V", "number of bytes");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[s", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[0s]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[B]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[s]x", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<i8[s]", "unit");

    same(true, "|u1", "<u1");
    same(true, "|u1", ">u1");
    same(true, "|b1", "<b1");
    same(true, "|i8", "<i8"); /* this machine is little-endian, as every CUDA platform */
    same(false, "<i8", ">i8");
    same(false, "|i8", ">i8");
    same(true, "<V2", "|V2");
    same(true, "<S3", ">S3");
    same(false, "<U3", ">U3");
    same(false, "<i8", "<u8");
    same(false, "<f4", "<f8");
    same(false, "<M8[s]", "<M8[ms]");
    same(false, "<M8[s]", "<M8[2s]");
    same(true, "<M8[s]", "<M8[1s]");
    same(false, "|t1", "|t2");

    native(true, "<f8");
    native(false, ">f8");
    native(true, "|f8");
    native(true, ">i1");
    native(false, ">c8");
    native(false, ">M8[s]");
    native(false, ">U2");
    native(true, ">S2");
    native(true, ">V2");
    native(true, ">t1");

    code(CAI_OK, "<V2", CAI_DTYPE_NONE, "");
    code(CAI_OK, "<V2", CAI_DTYPE_BFLOAT16, "");
    code(CAI_OK, ">V2", CAI_DTYPE_BFLOAT16, "");
    code(CAI_OK, "<f1", CAI_DTYPE_FLOAT8_E5M2, "");
    code(CAI_OK, "<V4", CAI_DTYPE_BCOMPLEX32, "");
    code(CAI_OK, "<W4", CAI_DTYPE_BCOMPLEX32, "");
    for (number = CAI_DTYPE_FLOAT8_E3M4; number <= CAI_DTYPE_FLOAT4_E2M1FN; number++)
        code(CAI_OK, "|V1", number, "");
    code(CAI_ERR_DTYPE_CODE, "<V1", CAI_DTYPE_BFLOAT16, "found 4 with typestr \"<V1\"");
    code(CAI_ERR_DTYPE_CODE, "<f2", CAI_DTYPE_BFLOAT16, "found 4 with typestr \"<f2\"");
    code(CAI_ERR_DTYPE_CODE, "<f2", CAI_DTYPE_FLOAT8_E5M2, "found 12 with typestr \"<f2\"");
    code(CAI_ERR_DTYPE_CODE, "|i1", CAI_DTYPE_FLOAT8_E5M2, "found 12 with typestr \"|i1\"");
    code(CAI_ERR_DTYPE_CODE, "|V1", 9999, "found 9999");

    test_row = NULL;
    codes_differ();
    formats();
    no_formats();
    return 0;
}
