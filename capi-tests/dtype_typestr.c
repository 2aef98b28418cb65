/* The grammar of typestr: what is taken and how it is taken apart, what is refused and why, and
 * that what is formatted reads back. tests/python holds the same parser against NumPy.
 * run: plain asan valgrind */
#include "cai_test.h"

static void takes(const char *typestr, char kind, int64_t itemsize, int64_t bits, int32_t unit,
                  int64_t count) {
    cai_dtype dtype;
    char again[CAI_TYPESTR_SIZE];
    size_t length = 0;
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
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(a, &x, NULL));
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(b, &y, NULL));
    ASSERT(cai_dtype_equal(&x, &y) == expected);
    ASSERT(cai_dtype_equal(&y, &x) == expected);
}

static void native(bool expected, const char *typestr) {
    cai_dtype dtype;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse(typestr, &dtype, NULL));
    ASSERT(cai_dtype_is_native(&dtype) == expected);
}

static void codes(void) {
    cai_array array = valid_array();
    cai_error error;
    cai_dtype dtype, plain, other;
    set_typestr(&array, "<V2");
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &plain, NULL));
    ASSERT(plain.code == CAI_DTYPE_NONE && cai_dtype_is_native(&plain));
    array.dtype_code = CAI_DTYPE_BFLOAT16;
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
    ASSERT(dtype.code == CAI_DTYPE_BFLOAT16 && dtype.itemsize == 2 &&
           !cai_dtype_equal(&dtype, &plain));
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
    set_typestr(&array, ">V2");
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
    ASSERT(!cai_dtype_is_native(&dtype));
    /* Two-byte codes do not fit one byte; a code explains opaque bytes, not a float that has a
     * meaning. */
    set_typestr(&array, "<V1");
    ASSERT_STATUS(CAI_ERR_DTYPE_CODE, cai_array_dtype(&array, &dtype, &error));
    ASSERT_TEXT("dtype_code", error.field);
    ASSERT_CONTAINS(error.message, "found 4 with typestr \"<V1\"");
    set_typestr(&array, "<f2");
    ASSERT_STATUS(CAI_ERR_DTYPE_CODE, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
    array.dtype_code = CAI_DTYPE_FLOAT8_E5M2;
    ASSERT_STATUS(CAI_ERR_DTYPE_CODE, cai_array_dtype(&array, &dtype, NULL));
    set_typestr(&array, "<f1");
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
    /* Nor a signed integer. */
    set_typestr(&array, "|i1");
    ASSERT_STATUS(CAI_ERR_DTYPE_CODE, cai_array_dtype(&array, &dtype, NULL));
    /* The code is part of the type. */
    set_typestr(&array, "|V1");
    ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
    other = dtype;
    ASSERT(cai_dtype_equal(&dtype, &other));
    other.code = CAI_DTYPE_FLOAT8_E4M3;
    ASSERT(!cai_dtype_equal(&dtype, &other) && !cai_dtype_equal(&other, &dtype));
    set_typestr(&array, "<f1");
    set_typestr(&array, "|V1");
    for (array.dtype_code = CAI_DTYPE_FLOAT8_E3M4; array.dtype_code <= CAI_DTYPE_FLOAT4_E2M1FN;
         array.dtype_code++) {
        ASSERT_STATUS(CAI_OK, cai_array_dtype(&array, &dtype, NULL));
        ASSERT(dtype.code == array.dtype_code);
    }
    array.dtype_code = 9999;
    ASSERT_STATUS(CAI_ERR_DTYPE_CODE, cai_array_dtype(&array, &dtype, &error));
    ASSERT_CONTAINS(error.message, "9999");
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
    /* What a newer header describes there, no typestr of this version can express. */
    dtype.reserved[1] = 1;
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_dtype_format(&dtype, text, sizeof(text), NULL, &error));
    ASSERT_TEXT("dtype.reserved", error.field);
    dtype.reserved[1] = 0;
    dtype.kind = 'q';
    ASSERT_STATUS(CAI_ERR_TYPESTR_KIND, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.kind = 'i';
    dtype.byte_order = '=';
    ASSERT_STATUS(CAI_ERR_TYPESTR_ORDER, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.byte_order = '<';
    dtype.itemsize = 3;
    ASSERT_STATUS(CAI_ERR_TYPESTR_SIZE, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.itemsize = 4;
    dtype.bits = 31;
    ASSERT_STATUS(CAI_ERR_TYPESTR_SIZE, cai_dtype_format(&dtype, text, sizeof(text), NULL, &error));
    ASSERT_TEXT("dtype.bits", error.field);
    dtype.bits = 32;
    dtype.unit = CAI_UNIT_SECOND;
    ASSERT_STATUS(CAI_ERR_TYPESTR_UNIT, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.kind = 'M';
    dtype.itemsize = 8;
    dtype.bits = 64;
    dtype.unit_count = 2147483647;
    dtype.unit = CAI_UNIT_MICROSECOND;
    ASSERT_STATUS(CAI_ERR_TYPESTR_LENGTH, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.unit = 99;
    ASSERT_STATUS(CAI_ERR_TYPESTR_UNIT, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.unit = -1;
    ASSERT_STATUS(CAI_ERR_TYPESTR_UNIT, cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL));
    dtype.unit = INT32_MIN;
    dtype.unit_count = INT32_MIN;
    dtype.itemsize = INT64_MIN;
    dtype.bits = INT64_MIN;
    dtype.kind = 'U';
    ASSERT(cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL) != CAI_OK);
    dtype.kind = 't';
    ASSERT(cai_dtype_format(&dtype, text, sizeof(text), NULL, NULL) != CAI_OK);
}

int main(void) {
    takes("|b1", 'b', 1, 8, 0, 1);
    takes("|i1", 'i', 1, 8, 0, 1);
    takes("<i8", 'i', 8, 64, 0, 1);
    takes(">i8", 'i', 8, 64, 0, 1);
    takes("|i8", 'i', 8, 64, 0, 1);
    takes("<u16", 'u', 16, 128, 0, 1);
    takes("<f1", 'f', 1, 8, 0, 1);
    takes("<f2", 'f', 2, 16, 0, 1);
    takes("<f16", 'f', 16, 128, 0, 1);
    takes("<c4", 'c', 4, 32, 0, 1);
    takes("<c32", 'c', 32, 256, 0, 1);
    takes("|S5", 'S', 5, 40, 0, 1);
    takes("|S0", 'S', 0, 0, 0, 1);
    takes("<U4", 'U', 16, 128, 0, 1);
    takes("|V12", 'V', 12, 96, 0, 1);
    takes("<V2", 'V', 2, 16, 0, 1);
    takes("|O", 'O', 8, 64, 0, 1);
    takes("<M8", 'M', 8, 64, CAI_UNIT_GENERIC, 1);
    takes("<M8[s]", 'M', 8, 64, CAI_UNIT_SECOND, 1);
    takes("<M8[25us]", 'M', 8, 64, CAI_UNIT_MICROSECOND, 25);
    takes("<m8[Y]", 'm', 8, 64, CAI_UNIT_YEAR, 1);
    takes("<m8[M]", 'm', 8, 64, CAI_UNIT_MONTH, 1);
    takes("<m8[as]", 'm', 8, 64, CAI_UNIT_ATTOSECOND, 1);
    takes("<M8[99999999us]", 'M', 8, 64, CAI_UNIT_MICROSECOND, 99999999);
    takes("|t1", 't', 0, 1, 0, 1);
    takes("<t12", 't', 0, 12, 0, 1);
    takes("|t16", 't', 2, 16, 0, 1);
    takes("|V9999999999999", 'V', 9999999999999, 79999999999992, 0, 1);

    refuses(CAI_ERR_TYPESTR_LENGTH, "", "empty");
    refuses(CAI_ERR_TYPESTR_LENGTH, "<M8[2147483647us]", "at most 15");
    refuses(CAI_ERR_TYPESTR_ORDER, "i4", "byte order");
    refuses(CAI_ERR_TYPESTR_ORDER, "=i4", "byte order");
    refuses(CAI_ERR_TYPESTR_ORDER, "B", "byte order");
    refuses(CAI_ERR_TYPESTR_ORDER, " <i4", "byte order");
    refuses(CAI_ERR_TYPESTR_KIND, "<", "no kind");
    refuses(CAI_ERR_TYPESTR_KIND, "<l8", "kind 'l'");
    refuses(CAI_ERR_TYPESTR_KIND, "<e2", "kind 'e'");
    refuses(CAI_ERR_TYPESTR_KIND, "<44", "kind '4'");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i", "1, 2, 4, 8 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i3", "1, 2, 4, 8 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i04", "1, 2, 4, 8 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i-4", "1, 2, 4, 8 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i4 ", "nothing after \"<i4\"");
    refuses(CAI_ERR_TYPESTR_SIZE, "<i4,<i4", "nothing after \"<i4\"");
    refuses(CAI_ERR_TYPESTR_SIZE, "<f4x", "nothing after \"<f4\"");
    refuses(CAI_ERR_TYPESTR_SIZE, "|S5z", "nothing after \"|S5\"");
    refuses(CAI_ERR_TYPESTR_SIZE, "<f3x", "12 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "|b2", "1 byte");
    refuses(CAI_ERR_TYPESTR_SIZE, "<f3", "12 or 16");
    refuses(CAI_ERR_TYPESTR_SIZE, "<c2", "24 or 32");
    refuses(CAI_ERR_TYPESTR_SIZE, "<M4[s]", "8 bytes");
    refuses(CAI_ERR_TYPESTR_SIZE, "|O4", "8 bytes");
    refuses(CAI_ERR_TYPESTR_SIZE, "|t0", "at least 1");
    refuses(CAI_ERR_TYPESTR_SIZE, "|V", "number of bytes");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[s", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8s]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[0s]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[07s]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[B]", "unit");
    refuses(CAI_ERR_TYPESTR_UNIT, "<M8[25]", "unit");
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

    codes();
    formats();
    return 0;
}
