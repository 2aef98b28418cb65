/*
 * cai/abi.h without the library: lifetime through an owner's own table, arrays and lists of other
 * sizes, and streams. Compiled as every version of C and C++, with nothing linked.
 * run: by tests/python/test_headers.py
 */
#include <cai/abi.h>

#include <stdio.h>

#define ASSERT(condition)                                          \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                              \
        }                                                          \
    } while (0)

static int count;

static void retain(cai_owner *owner) {
    (void)owner;
    count++;
}

static void release(cai_owner *owner) {
    (void)owner;
    count--;
}

static const cai_owner_ops ops = {sizeof(cai_owner_ops), 0, retain, release};

/* A later version's array: longer, and followed by bytes that must not be touched. */
typedef struct {
    cai_array array;
    uint64_t tail[4];
    uint64_t canary;
} later;

static int lifetime(void) {
    cai_owner owner = {&ops};
    cai_array array = CAI_ARRAY_INIT, copy = CAI_ARRAY_INIT;
    count = 1;
    ASSERT(array.struct_size == 128 && array.version == 3 && array.stream == 0);
    ASSERT(cai_inline_retain(NULL) == CAI_ERR_NULL_ARGUMENT);
    ASSERT(cai_inline_retain(&array) == CAI_ERR_BORROWED);
    ASSERT(cai_inline_share(&array, &copy) == CAI_ERR_BORROWED && count == 1);
    array.owner = &owner;
    array.ndim = 7;
    array.byte_offset = 99;
    ASSERT(cai_inline_retain(&array) == CAI_OK && count == 2);
    cai_inline_release(&array);
    ASSERT(count == 1 && array.owner == NULL && array.ndim == 0 && array.struct_size == 128);
    cai_inline_release(&array);
    cai_inline_release(NULL);
    ASSERT(count == 1);
    return 0;
}

static int copies(void) {
    cai_owner owner = {&ops};
    later from, to;
    uint32_t bad[] = {0, 88, 127, 129, 132, 520, 0xffffffffu};
    memset(&from, 0x55, sizeof(from));
    memset(&from.array, 0, sizeof(from.array));
    from.array.struct_size = sizeof(cai_array) + sizeof(from.tail);
    from.array.owner = &owner;
    from.array.byte_offset = 99;
    count = 1;

    /* The longer array in a short structure: the copy and its release keep to its own size. */
    memset(&to, 0x77, sizeof(to));
    to.array.struct_size = sizeof(cai_array);
    ASSERT(cai_inline_share(&from.array, &to.array) == CAI_OK && count == 2);
    ASSERT(to.array.struct_size == sizeof(cai_array) && to.array.byte_offset == 99);
    cai_inline_release(&to.array);
    ASSERT(count == 1 && to.tail[0] == 0x7777777777777777u && to.array.byte_offset == 0);

    /* The short array in a longer structure: what it does not have is zero. */
    from.array.struct_size = sizeof(cai_array);
    to.array.struct_size = sizeof(cai_array) + sizeof(to.tail);
    ASSERT(cai_inline_share(&from.array, &to.array) == CAI_OK && count == 2);
    ASSERT(to.array.struct_size == 160 && to.array.byte_offset == 99);
    ASSERT(to.tail[0] == 0 && to.tail[3] == 0 && to.canary == 0x7777777777777777u);
    memset(to.tail, 0x66, sizeof(to.tail));
    cai_inline_release(&to.array);
    /* The size that it states may be that of the structure which it was copied from. */
    ASSERT(count == 1 && to.tail[3] == 0x6666666666666666u && to.array.byte_offset == 0);

    /* Sizes that no version has are refused, and release touches 16 bytes only. */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(&to, 0x77, sizeof(to));
        to.array.struct_size = bad[i];
        ASSERT(cai_inline_share(&from.array, &to.array) == CAI_ERR_STRUCT_SIZE);
        ASSERT(cai_inline_share(&to.array, &from.array) == CAI_ERR_STRUCT_SIZE);
        to.array.owner = &owner;
        ASSERT(cai_inline_retain(&to.array) == CAI_ERR_STRUCT_SIZE && count == 1);
        count++;
        cai_inline_release(&to.array);
        ASSERT(count == 1 && to.array.owner == NULL && to.array.struct_size == bad[i]);
        ASSERT(to.array.stream == 0x7777777777777777u);
    }

    /* A flag that this header does not know announces a member that must not be ignored. */
    from.array.flags = 2;
    to.array.struct_size = sizeof(cai_array);
    ASSERT(cai_inline_share(&from.array, &to.array) == CAI_ERR_FLAGS && count == 1);
    from.array.flags = CAI_ARRAY_READONLY;
    ASSERT(cai_inline_share(&from.array, &to.array) == CAI_OK && count == 2);
    cai_inline_release(&to.array);
    return 0;
}

static int tables(void) {
    cai_owner_ops table = {16, 0, retain, release};
    cai_owner owner = {&table};
    cai_array array = CAI_ARRAY_INIT;
    array.owner = &owner;
    count = 1;
    ASSERT(cai_inline_retain(&array) == CAI_ERR_OWNER_OPS);
    table.struct_size = 32; /* one more operation than this header knows */
    ASSERT(cai_inline_retain(&array) == CAI_OK && count == 2);
    table.retain = NULL;
    ASSERT(cai_inline_retain(&array) == CAI_ERR_OWNER_OPS);
    table.retain = retain;
    table.release = NULL;
    ASSERT(cai_inline_retain(&array) == CAI_ERR_OWNER_OPS);
    cai_inline_release(&array); /* leaked: there is no way to release it */
    ASSERT(count == 2 && array.owner == NULL);
    array.owner = &owner;
    owner.ops = NULL;
    ASSERT(cai_inline_retain(&array) == CAI_ERR_OWNER_OPS);
    return 0;
}

static int fields(void) {
    struct {
        cai_field field;
        uint64_t tail;
    } rows[2];
    cai_descr descr = {sizeof(cai_descr), sizeof(rows[0]), 2, NULL};
    memset(rows, 0, sizeof(rows));
    ASSERT(cai_inline_field(&descr, 0) == NULL && cai_inline_field(NULL, 0) == NULL);
    descr.fields = &rows[0].field;
    ASSERT(cai_inline_field(&descr, 1) == &rows[1].field && cai_inline_field(&descr, 2) == NULL);
    return 0;
}

static int streams(void) {
    int stream = 0;
    ASSERT(cai_inline_stream(NULL) == CAI_STREAM_LEGACY);
    ASSERT(cai_inline_stream(&stream) == (size_t)&stream);
    ASSERT(CAI_STREAM_NONE == 0xffffffffffffffffu && CAI_STREAM_UNKNOWN == CAI_STREAM_NONE - 1);
    return 0;
}

int main(void) { return lifetime() || copies() || tables() || fields() || streams(); }
