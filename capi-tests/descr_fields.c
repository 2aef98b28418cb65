/* Structured types: measured, compared, searched, read from text, and refused rule by rule.
 * run: plain asan valgrind ages */
#include "tests.h"

static cai_field field(const char *name, const char *typestr) {
    cai_field f = {0};
    f.name = name;
    memcpy(f.typestr, typestr, strlen(typestr));
    return f;
}

static cai_descr list(const cai_field *fields, uint64_t count) {
    cai_descr d;
    d.struct_size = sizeof(cai_descr);
    d.field_size = sizeof(cai_field);
    d.count = count;
    d.fields = fields;
    return d;
}

static void refuses(cai_status status, const char *path, const cai_descr *given, const char *part) {
    cai_error error;
    int64_t size = -7;
    ASSERT_STATUS(status, cai_descr_itemsize(given, &size, &error));
    ASSERT(size == -7 && error.code == status);
    ASSERT_TEXT(path, error.field);
    ASSERT_CONTAINS(error.message, part);
    /* Common fields of an array take a shorter way, which refuses them, too. */
    cai_array array = valid_array();
    array.descr = given;
    set_typestr(&array, "|V8");
    ASSERT(cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL) != CAI_OK);
}

static void finds(const cai_descr *descr, const char *name, const cai_field *row, int64_t at) {
    const cai_field *found = NULL;
    int64_t offset = -1;
    test_row = name;
    ASSERT_STATUS(CAI_OK, cai_descr_find(descr, name, &found, &offset, NULL));
    ASSERT(found == row && offset == at);
    test_row = NULL;
}

TEST(measures) {
    static const int64_t shape[2] = {2, 3};
    cai_field inner[2] = {field("re", "<f4"), field("im", "<f4")};
    cai_descr complex = list(inner, 2);
    cai_field rows[4] = {field("id", "<u2"), field("", "|V2"), field("m", "<i4"), field("z", "")};
    cai_descr descr = list(rows, 4);
    const cai_field *found = NULL;
    int64_t size = 0, offset = -1;
    char text[256];
    size_t length = 0;
    rows[2].ndim = 2;
    rows[2].shape = shape;
    rows[3].nested = &complex;
    rows[3].title = "impedance";
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&descr, &size, NULL));
    ASSERT(size == 2 + 2 + 24 + 8);
    finds(&descr, "m", &rows[2], 4);
    finds(&descr, "impedance", &rows[3], 28);
    finds(&complex, "im", &inner[1], 4);
    ASSERT_STATUS(CAI_ERR_DESCR_NO_FIELD, cai_descr_find(&descr, "nope", &found, &offset, NULL));
    ASSERT_STATUS(CAI_OK, cai_descr_format(&descr, text, sizeof(text), &length, NULL));
    ASSERT_TEXT(
        "[('id', '<u2'), ('', '|V2'), ('m', '<i4', (2, 3)), (('impedance', 'z'), [('re', '<f4'), "
        "('im', '<f4')])]",
        text);
    ASSERT(length == strlen(text));
    length = 0;
    ASSERT_STATUS(CAI_OK, cai_descr_format(&descr, NULL, 0, &length, NULL));
    ASSERT(length == strlen(text));
    ASSERT_STATUS(CAI_ERR_BUFFER_SIZE, cai_descr_format(&descr, text, length, NULL, NULL));
    ASSERT_STATUS(CAI_OK, cai_descr_format(&descr, text, length + 1, NULL, NULL));
}

/* A field that begins inside a byte has no offset in bytes; those around it have one. */
TEST(bit_offsets) {
    cai_field rows[4] = {field("a", "|t3"), field("b", "|t5"), field("c", "|t1"),
                         field("d", "|t7")};
    cai_descr descr = list(rows, 4);
    const cai_field *found = NULL;
    int64_t size = 0, offset = -1;
    cai_error error;
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&descr, &size, NULL));
    ASSERT(size == 2);
    finds(&descr, "a", &rows[0], 0);
    finds(&descr, "c", &rows[2], 1);
    ASSERT_STATUS(CAI_ERR_DESCR_BIT_OFFSET, cai_descr_find(&descr, "b", &found, &offset, &error));
    ASSERT_TEXT("descr[1]", error.field);
    ASSERT_CONTAINS(error.message, "found bit 3");
    ASSERT_STATUS(CAI_ERR_DESCR_BIT_OFFSET, cai_descr_find(&descr, "d", &found, &offset, NULL));
    ASSERT(found == NULL && offset == -1);
}

/* A field is found by its name or by its title. */
TEST(names_and_titles) {
    cai_field rows[3] = {field("x", "<f4"), field("y", "<f8"), field("z", "<i2")};
    cai_descr descr = list(rows, 3);
    rows[0].title = "first";
    rows[2].title = "last";
    finds(&descr, "first", &rows[0], 0);
    finds(&descr, "last", &rows[2], 12);
    finds(&descr, "y", &rows[1], 4);
}

/* Each row changes something in a list of two fields of 4 bytes. */
#define REFUSED(change, status, path, part)                                                       \
    (test_row = #change, memcpy(rows, good, sizeof(rows)), descr = list(rows, 2), (void)(change), \
     refuses(status, path, &descr, part))

TEST(rules) {
    static const int64_t negative[1] = {-1}, huge[3] = {INT64_MAX, INT64_MAX, 0};
    static char unended[CAI_TYPESTR_SIZE];
    const cai_field good[3] = {field("x", "<f4"), field("y", "<f4"), field("z", "<i2")};
    cai_field rows[3], inner = field("z", "|u1");
    cai_descr descr, nested = list(&inner, 1);
    int64_t size = -1;
    memset(unended, '<', sizeof(unended));

    REFUSED(descr.struct_size = 16, CAI_ERR_DESCR_STRUCT, "descr.struct_size", "16");
    REFUSED(descr.field_size = 48, CAI_ERR_DESCR_STRUCT, "descr.field_size", "48");
    REFUSED(descr.field_size = 60, CAI_ERR_DESCR_STRUCT, "descr.field_size", "60");
    REFUSED(descr.fields = NULL, CAI_ERR_DESCR_STRUCT, "descr.fields", "NULL");
    REFUSED(descr.count = CAI_MAX_FIELDS + 1, CAI_ERR_DESCR_COUNT, "descr.count", "65537");

    REFUSED(rows[1].name = NULL, CAI_ERR_DESCR_NAME, "descr[1].name", "NULL");
    REFUSED(rows[1].name = "\xff", CAI_ERR_DESCR_NAME, "descr[1].name", "\\xff");
    REFUSED(rows[1].title = "\xc3\x28", CAI_ERR_DESCR_NAME, "descr[1].title", "UTF-8");
    /* No name is used twice, as a name or as a title, whichever of both comes first. */
    REFUSED(rows[1].name = "x", CAI_ERR_DESCR_NAME, "descr[1].name", "found \"x\"");
    REFUSED(rows[1].title = "x", CAI_ERR_DESCR_NAME, "descr[1].name", "found \"x\"");
    REFUSED(rows[1].title = "y", CAI_ERR_DESCR_NAME, "descr[1].name", "found \"y\"");
    REFUSED(rows[0].title = "y", CAI_ERR_DESCR_NAME, "descr[1].name", "found \"y\"");
    REFUSED((descr.count = 3, rows[2].title = "y"), CAI_ERR_DESCR_NAME, "descr[2].name",
            "found \"y\"");
    REFUSED((descr.count = 3, rows[1].title = rows[2].title = "t"), CAI_ERR_DESCR_NAME,
            "descr[2].name", "found \"t\"");

    REFUSED(rows[1] = field("y", ""), CAI_ERR_DESCR_FIELD, "descr[1].typestr", "neither");
    REFUSED(rows[1].nested = &nested, CAI_ERR_DESCR_FIELD, "descr[1].nested", "both");
    REFUSED(rows[1] = field("y", "<f3"), CAI_ERR_TYPESTR_SIZE, "descr[1].typestr", "<f3");
    REFUSED(memcpy(rows[1].typestr, unended, sizeof(unended)), CAI_ERR_TYPESTR_LENGTH,
            "descr[1].typestr", "no NUL");
    REFUSED((rows[1] = field("y", "<V2"), rows[1].dtype_code = CAI_DTYPE_FLOAT8_E5M2),
            CAI_ERR_DTYPE_CODE, "descr[1].dtype_code", "found 12");
    REFUSED((rows[1] = field("y", ""), rows[1].nested = &nested,
             rows[1].dtype_code = CAI_DTYPE_FLOAT8_E5M2),
            CAI_ERR_DTYPE_CODE, "descr[1].dtype_code", "found 12");
    REFUSED(rows[1].reserved = 3, CAI_ERR_DESCR_STRUCT, "descr[1].reserved", "found 3");

    REFUSED(rows[1].ndim = -1, CAI_ERR_DESCR_SHAPE, "descr[1].ndim", "-1");
    REFUSED(rows[1].ndim = 65, CAI_ERR_DESCR_SHAPE, "descr[1].ndim", "65");
    REFUSED(rows[1].ndim = 1, CAI_ERR_DESCR_SHAPE, "descr[1].shape", "NULL");
    REFUSED((rows[1].ndim = 1, rows[1].shape = negative), CAI_ERR_DESCR_SHAPE, "descr[1].shape[0]",
            "-1");
    REFUSED((rows[1].ndim = 2, rows[1].shape = huge), CAI_ERR_SIZE_OVERFLOW, "descr[1].shape",
            "2^63");
    /* An extent of 0 makes the size 0, whatever the others are. */
    rows[1].ndim = 3;
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&descr, &size, NULL));
    ASSERT(size == 4);
    REFUSED(rows[1] = field("y", "|t3"), CAI_ERR_DESCR_BIT_OFFSET, "descr", "35 bits");
    test_row = NULL;
}

/* Lists that contain themselves, and lists that double at every level. */
TEST(nesting) {
    cai_field self[1] = {field("a", "")};
    cai_descr cycle = list(self, 1);
    cai_field pair[16][16];
    cai_descr level[16];
    cai_field chain_rows[17];
    cai_descr chain[17];
    cai_error error;
    int64_t size;
    int i, j;
    for (i = 0; i < 17; i++) {
        chain_rows[i] = field("a", i == 16 ? "<f4" : "");
        chain_rows[i].nested = i == 16 ? NULL : &chain[i + 1];
        chain[i] = list(&chain_rows[i], 1);
    }
    ASSERT_STATUS(CAI_ERR_DESCR_DEPTH, cai_descr_itemsize(&chain[0], &size, NULL));
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&chain[1], &size, NULL)); /* 16 deep */
    ASSERT(size == 4);
    self[0].nested = &cycle;
    ASSERT_STATUS(CAI_ERR_DESCR_DEPTH, cai_descr_itemsize(&cycle, &size, &error));
    ASSERT_CONTAINS(error.field, "descr[0].nested[0].nested[0]");
    for (i = 0; i < 16; i++) {
        static char names[16][2];
        for (j = 0; j < 16; j++) {
            names[j][0] = (char)('a' + j);
            pair[i][j] = field(names[j], i == 15 ? "<f4" : "");
            pair[i][j].nested = i == 15 ? NULL : &level[i + 1];
        }
        level[i] = list(pair[i], 16);
    }
    ASSERT_STATUS(CAI_ERR_DESCR_COUNT, cai_descr_itemsize(&level[0], &size, NULL));
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&level[13], &size, NULL));
    ASSERT(size == 16 * 16 * 16 * 4);
}

TEST(many_names) {
    static cai_field rows[1000];
    static char names[1000][16];
    cai_descr descr = list(rows, 1000);
    int64_t size = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof(names[i]), "f%d", i);
        rows[i] = field(names[i], "|u1");
    }
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&descr, &size, NULL));
    ASSERT(size == 1000);
    rows[999].name = "f0";
    refuses(CAI_ERR_DESCR_NAME, "descr[999].name", &descr, "found \"f0\"");
    /* The first mistake is reported, whether it is a name, a title, or a text that is not UTF-8. */
    rows[700].title = "f700";
    refuses(CAI_ERR_DESCR_NAME, "descr[700].name", &descr, "found \"f700\"");
    rows[600].name = "\xff";
    refuses(CAI_ERR_DESCR_NAME, "descr[600].name", &descr, "expected UTF-8");
    rows[500].title = "f499";
    refuses(CAI_ERR_DESCR_NAME, "descr[500].name", &descr, "found \"f499\"");
    rows[500].name = "f498";
    refuses(CAI_ERR_DESCR_NAME, "descr[500].name", &descr, "found \"f498\"");
}

static void parses(const char *text, const char *again, int64_t size) {
    const cai_descr *descr = NULL;
    cai_owner *owner = NULL;
    cai_error error;
    char buffer[512];
    int64_t got = -1;
    test_row = text;
    if (cai_descr_parse(text, &descr, &owner, &error) != CAI_OK) FAIL("%s", error.message);
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(descr, &got, NULL));
    ASSERT(got == size);
    ASSERT_STATUS(CAI_OK, cai_descr_format(descr, buffer, sizeof(buffer), NULL, NULL));
    ASSERT_TEXT(again, buffer);
    cai_owner_release(owner);
    test_row = NULL;
}

static void does_not_parse(cai_status status, const char *text, const char *part) {
    const cai_descr *descr = NULL;
    cai_owner *owner = NULL;
    cai_error error;
    test_row = text;
    ASSERT_STATUS(status, cai_descr_parse(text, &descr, &owner, &error));
    ASSERT(descr == NULL && owner == NULL);
    ASSERT_CONTAINS(error.message, part);
    test_row = NULL;
}

TEST(texts) {
    parses("[]", "[]", 0);
    parses(" [ ] ", "[]", 0);
    parses("[('', '<V2')]", "[('', '<V2')]", 2);
    parses("[('x','<f4'),('y','<i4',(2,3)),]", "[('x', '<f4'), ('y', '<i4', (2, 3))]", 28);
    parses("[('x','<f4',3)]", "[('x', '<f4', (3,))]", 12);
    parses("[('x','<f4',())]", "[('x', '<f4')]", 4);
    parses("[('x','<f4',(0,))]", "[('x', '<f4', (0,))]", 0);
    parses("[(('t','x'),'<f4')]", "[(('t', 'x'), '<f4')]", 4);
    parses("[('p',[('x','<f4'),('',  '|V4')])]", "[('p', [('x', '<f4'), ('', '|V4')])]", 8);
    parses("[[\"x\", \"<f4\"], [[\"t\", \"y\"], \"<i4\", [2, 3]]]",
           "[('x', '<f4'), (('t', 'y'), '<i4', (2, 3))]", 28);
    parses("[('it\\'s \\\\ \\x41\\u00e4', '|u1')]", "[('it\\'s \\\\ A\xc3\xa4', '|u1')]", 1);
    parses("[(\"\\ud83d\\ude00\", '|u1')]", "[('\xf0\x9f\x98\x80', '|u1')]", 1);

    does_not_parse(CAI_ERR_DESCR_SYNTAX, "", "the end");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "<f4", "'<' at byte 0");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[", "the end");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[]x", "'x' at byte 2");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x')]", "type");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x' '<f4')]", "','");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x', '<f4', -1)]", "extent");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x', '<f4', (99999999999999999999,))]", "extent");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x', '<f4', 1, 2)]", "end of the field");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x, '<f4')]", "','");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('x\\q', '<f4')]", "backslash");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\\ud800', '<f4')]", "code");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\\u12', '<f4')]", "hexadecimal");
    parses("[('a\\x01\\x1f\\x7f', '|u1')]", "[('a\\x01\\x1f\\x7f', '|u1')]", 1);
    /* The second half of a pair is in DC00 to DFFF, nothing below or above. */
    parses("[('\\ud800\\udc00\\udbff\\udfff', '|u1')]",
           "[('\xf0\x90\x80\x80\xf4\x8f\xbf\xbf', '|u1')]", 1);
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\\ud83d\\udbff', '<f4')]", "code");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\\ud83d\\ue000', '<f4')]", "code");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\\ud83d\\u0041', '<f4')]", "code");
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\\udc00', '<f4')]", "code");
    parses("[('\\ud7ff\\ue000', '|u1')]", "[('\xed\x9f\xbf\xee\x80\x80', '|u1')]", 1);
    does_not_parse(CAI_ERR_DESCR_SYNTAX, "[('\xff', '<f4')]", "UTF-8");
    does_not_parse(CAI_ERR_DESCR_NAME, "[('a\\x00b', '<f4')]", "NUL");
    does_not_parse(CAI_ERR_DESCR_NAME, "[('a', '<f4'), ('a', '<f4')]", "another field has");
    does_not_parse(CAI_ERR_TYPESTR_KIND, "[('a', '<q4')]", "kind");
    does_not_parse(CAI_ERR_TYPESTR_LENGTH, "[('a', '')]", "1 to 15");
    does_not_parse(CAI_ERR_TYPESTR_LENGTH, "[('a', '<V1111111111111111')]", "1 to 15");
    does_not_parse(
        CAI_ERR_DESCR_DEPTH,
        "[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a'"
        ",[('a',[('a',"
        "'<f4')])])])])])])])])])])])])])])])])]",
        "17 deep");
}

/* A text that nests without end is refused before it is read to its end. */
TEST(deep_text) {
    static const char level[] = "[('a',";
    enum { LEVELS = 200000, WIDTH = sizeof(level) - 1 };
    static char text[LEVELS * WIDTH + 1];
    for (size_t i = 0; i < LEVELS; i++)
        memcpy(text + i * WIDTH, level, WIDTH);
    does_not_parse(CAI_ERR_DESCR_DEPTH, text, "17 deep");
}

/* As many extents as an array may have, and one more. */
TEST(extents) {
    char text[512] = "[('x', '<f4', (";
    size_t i, length = strlen(text);
    for (i = 0; i < CAI_MAX_NDIM; i++)
        memcpy(text + length + 2 * i, "1,", 2);
    strcpy(text + length + 2 * i, "))]");
    {
        const cai_descr *descr = NULL;
        cai_owner *owner = NULL;
        ASSERT_STATUS(CAI_OK, cai_descr_parse(text, &descr, &owner, NULL));
        ASSERT(cai_inline_field(descr, 0)->ndim == CAI_MAX_NDIM);
        cai_owner_release(owner);
    }
    strcpy(text + length + 2 * i, "1))]");
    does_not_parse(CAI_ERR_DESCR_SHAPE, text, "at most 64");
}

TEST(compares) {
    static const char *texts[] = {
        "[('x', '<f4'), ('y', '<i4')]",          "[('x', '<f4'), ('z', '<i4')]",
        "[('x', '<f4'), ('y', '>i4')]",          "[('x', '<f4'), ('y', '<i4', 2)]",
        "[('x', '<f4'), (('t', 'y'), '<i4')]",   "[('x', '<f4')]",
        "[('x', '<f4'), ('y', [('y', '<i4')])]", "[('x', '<f4'), ('y', [('y', '<u4')])]",
    };
    enum { N = sizeof(texts) / sizeof(texts[0]) };
    int i, j;
    for (i = 0; i < N; i++) {
        for (j = 0; j < N; j++) {
            const cai_descr *a = NULL, *b = NULL;
            cai_owner *owner_a = NULL, *owner_b = NULL;
            bool equal = i != j;
            ASSERT_STATUS(CAI_OK, cai_descr_parse(texts[i], &a, &owner_a, NULL));
            ASSERT_STATUS(CAI_OK, cai_descr_parse(texts[j], &b, &owner_b, NULL));
            ASSERT_STATUS(CAI_OK, cai_descr_equal(a, b, &equal, NULL));
            ASSERT(equal == (i == j));
            cai_owner_release(owner_a);
            cai_owner_release(owner_b);
        }
    }
}

/* Any check besides the layout takes the slow path, which agrees. */
static cai_status validate(const cai_array *array, cai_error *error) {
    cai_status status = cai_array_validate(array, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, error);
    ASSERT_STATUS(status, cai_array_validate(array, CAI_CHECK_LAYOUT, error));
    return status;
}

static void not_native(const cai_array *array, const char *field) {
    cai_error error;
    ASSERT_STATUS(CAI_OK, validate(array, NULL));
    ASSERT_STATUS(CAI_ERR_CONVERT_BYTE_ORDER, cai_array_validate(array, CAI_CHECK_NATIVE, &error));
    ASSERT_TEXT(field, error.field);
    ASSERT_CONTAINS(error.message, "found \">i4\", expected the byte order of this machine");
}

TEST(in_arrays) {
    cai_array array = valid_array();
    cai_field rows[3] = {field("a", "<i4"), field("b", "|i1"), field("", "|V3")};
    cai_descr descr = list(rows, 3);
    cai_error error;
    array.descr = &descr;
    set_typestr(&array, "|V8");
    ASSERT_STATUS(CAI_OK, validate(&array, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_NATIVE, NULL));
    /* Without its padding row the list is three bytes short. */
    descr.count = 2;
    ASSERT_STATUS(CAI_ERR_DESCR_SIZE, validate(&array, &error));
    ASSERT_TEXT("descr", error.field);
    ASSERT_CONTAINS(error.message, "found fields of 5 bytes");
    ASSERT_CONTAINS(error.message, "expected 8 bytes");
    descr.count = 3;
    rows[0] = field("a", ">i4");
    not_native(&array, "descr[0].typestr");
    /* Any other rule comes before. */
    rows[1] = field("b", ">q1");
    ASSERT_STATUS(CAI_ERR_TYPESTR_KIND, cai_array_validate(&array, CAI_CHECK_NATIVE, &error));
    rows[1] = field("b", "|i1");
    /* Fields of fields count as well. */
    {
        cai_field inner = field("i", "<i4");
        cai_descr nested = list(&inner, 1);
        rows[0] = field("a", "");
        rows[0].nested = &nested;
        ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_NATIVE, NULL));
        inner = field("i", ">i4");
        not_native(&array, "descr[0].nested[0].typestr");
        rows[0] = field("a", ">i4");
    }
    rows[1] = field("x", "<q1");
    ASSERT_STATUS(CAI_ERR_TYPESTR_KIND, validate(&array, &error));
    ASSERT_TEXT("descr[1].typestr", error.field);
    /* The description of a plain type, as NumPy and CuPy write it. */
    rows[0] = field("", "<f4");
    descr.count = 1;
    set_typestr(&array, "<f4");
    ASSERT_STATUS(CAI_OK, validate(&array, NULL));
    set_typestr(&array, "<f8");
    ASSERT_STATUS(CAI_ERR_DESCR_SIZE, validate(&array, NULL));
    /* Bits against bits. */
    rows[0] = field("", "|t3");
    set_typestr(&array, "|t4");
    ASSERT_STATUS(CAI_ERR_DESCR_SIZE, validate(&array, &error));
    ASSERT_CONTAINS(error.message, "3 bits");
    set_typestr(&array, "|t3");
    ASSERT_STATUS(CAI_OK, validate(&array, NULL));
    /* Those of a mask. */
    cai_array masked = valid_array();
    array = valid_array();
    set_typestr(&array, "|b1");
    masked.mask = &array;
    array.descr = &descr;
    rows[0] = field("", "|b1");
    ASSERT_STATUS(CAI_OK, validate(&masked, NULL));
    rows[0] = field("", "<i2");
    ASSERT_STATUS(CAI_ERR_DESCR_SIZE, validate(&masked, &error));
    ASSERT_TEXT("mask.descr", error.field);
}

/* A filler that was compiled against longer structures: the rows lie further apart. */
TEST(longer_rows) {
    struct longer {
        cai_field field;
        uint64_t more[2];
    } rows[2];
    int64_t size = 0;
    memset(rows, 0x55, sizeof(rows));
    rows[0].field = field("a", "<i4");
    rows[1].field = field("b", "<i8");
    cai_descr descr = list(&rows[0].field, 2);
    descr.field_size = sizeof(struct longer);
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(&descr, &size, NULL));
    ASSERT(size == 12);
    finds(&descr, "b", &rows[1].field, 4);
    ASSERT(cai_inline_field(&descr, 1) == &rows[1].field);
}

/* A walk over all rows, as a consumer that takes structures apart does it. */
TEST(walk) {
    static const char text[] =
        "[('id', '<u2'), ('', '|V2'), ('m', '<i4', (2, 3)), ('z', [('re', '<f4'), "
        "('im', '<f4')], (2,)), ('b', '<V2')]";
    static const int64_t offsets[] = {0, 2, 4, 28, 44, 46};
    static const char kinds[] = "uViVV";
    const cai_descr *descr = NULL;
    cai_owner *owner = NULL;
    cai_field row;
    cai_error error;
    cai_dtype dtype;
    int64_t offset = 0, size = -1;
    ASSERT_STATUS(CAI_OK, cai_descr_parse(text, &descr, &owner, NULL));
    for (uint64_t i = 0; i < descr->count; i++) {
        const cai_field *field = cai_inline_field(descr, i);
        ASSERT(field == cai_inline_field(descr, (uint64_t)i) && offset == offsets[i]);
        ASSERT_STATUS(CAI_OK, cai_field_nbytes(field, &size, NULL));
        ASSERT_STATUS(CAI_OK, cai_field_dtype(field, &dtype, NULL));
        ASSERT(dtype.kind == kinds[i]);
        offset += size;
    }
    ASSERT(offset == offsets[5] && cai_inline_field(descr, 5) == NULL);
    ASSERT_STATUS(CAI_OK, cai_field_dtype(cai_inline_field(descr, 3), &dtype, NULL));
    ASSERT(dtype.itemsize == 8 && dtype.bits == 64);
    /* The code is part of the type; a malformed row says where. */
    row = *cai_inline_field(descr, 4);
    row.dtype_code = CAI_DTYPE_BFLOAT16;
    ASSERT_STATUS(CAI_OK, cai_field_dtype(&row, &dtype, NULL));
    ASSERT(dtype.code == CAI_DTYPE_BFLOAT16);
    row = field("t", "|t3");
    ASSERT_STATUS(CAI_OK, cai_field_dtype(&row, &dtype, NULL));
    ASSERT(dtype.bits == 3 && dtype.itemsize == 0);
    ASSERT_STATUS(CAI_ERR_DESCR_BIT_OFFSET, cai_field_nbytes(&row, &size, &error));
    ASSERT_TEXT("field", error.field);
    row = field("t", "<f3");
    ASSERT_STATUS(CAI_ERR_TYPESTR_SIZE, cai_field_nbytes(&row, &size, &error));
    ASSERT_TEXT("field.typestr", error.field);
    ASSERT_STATUS(CAI_ERR_TYPESTR_SIZE, cai_field_dtype(&row, &dtype, NULL));
    cai_owner_release(owner);
}
