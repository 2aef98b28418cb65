/*
 * Structures of every size that some age of the headers can have, through every function: each lies
 * at the end of a page that is followed by one without access, so that one byte too many, read or
 * written, ends the program.
 *
 * The program is built with the headers of two ages and runs with the library of two ages. It knows
 * no size but those of the first release.
 * run: asan ages later; flags -std=gnu99
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "../tests.h"

#include <sys/mman.h>
#include <unistd.h>
#include <cai/unstable/release.h>

enum { ARRAY = 128, OPERATIONS = 24, DESCR = 24, FIELD = 56, MOST = 512, PREFIX = 16, TAIL = 0x5a };

static int destroyed;

/* --- memory with an end */

static size_t page;
static char *pages[512];
static size_t pages_used;

/* `size` bytes, a multiple of 8, in front of a page that must not be touched. */
static void *bytes(size_t size, int fill) {
    if (page == 0) page = (size_t)sysconf(_SC_PAGESIZE);
    ASSERT(pages_used < sizeof pages / sizeof *pages && size <= page);
    char *start = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(start != MAP_FAILED && mprotect(start + page, page, PROT_NONE) == 0);
    pages[pages_used++] = start;
    memset(start + page - size, fill, size);
    return start + page - size;
}

static void free_bytes(void) {
    while (pages_used > 0)
        ASSERT(munmap(pages[--pages_used], 2 * page) == 0);
}

static int all(const void *memory, size_t from, size_t to, int value) {
    for (size_t i = from; i < to; ++i) {
        if (((const unsigned char *)memory)[i] != value) return 0;
    }
    return 1;
}

/* --- structures of a size */

/* What the first release knows of `from`, and a tail without a meaning. */
static cai_array *array_of(const cai_array *from, size_t size) {
    cai_array *array = bytes(size, TAIL);
    memcpy(array, from, size < ARRAY ? size : ARRAY);
    array->struct_size = (uint32_t)size;
    return array;
}

static cai_array *empty(size_t size) {
    cai_array init = CAI_ARRAY_INIT;
    return array_of(&init, size);
}

static void count_reference(cai_owner *owner);
static void drop_reference(cai_owner *owner);

typedef struct counted {
    cai_owner base;
    int references;
} counted;

static void count_reference(cai_owner *owner) { ++((counted *)(void *)owner)->references; }
static void drop_reference(cai_owner *owner) {
    if (--((counted *)(void *)owner)->references == 0) ++destroyed;
}

/* An owner whose table has a size. */
static counted *owner_of(size_t size) {
    counted *owner = bytes(sizeof *owner, 0);
    cai_owner_ops ops = {0};
    void *table = bytes(size, TAIL);
    ops.struct_size = (uint32_t)size;
    ops.retain = count_reference;
    ops.release = drop_reference;
    memcpy(table, &ops, size < OPERATIONS ? size : OPERATIONS);
    owner->base.ops = table;
    owner->references = 1;
    return owner;
}

/* A list of two fields, <f4 and <i4, with rows of a size. */
static cai_descr *descr_of(size_t size, size_t row) {
    cai_descr *descr = bytes(size, TAIL), head;
    char *rows = bytes(2 * row, TAIL);
    cai_field field = {0};
    memset(&head, 0, sizeof head);
    head.struct_size = (uint32_t)size;
    head.field_size = (uint32_t)row;
    head.count = 2;
    head.fields = (const cai_field *)(const void *)rows;
    memcpy(descr, &head, size < DESCR ? size : DESCR);
    field.name = "a";
    memcpy(field.typestr, "<f4", 4);
    memcpy(rows, &field, row < FIELD ? row : FIELD);
    field.name = "b";
    memcpy(field.typestr, "<i4", 4);
    memcpy(rows + row, &field, row < FIELD ? row : FIELD);
    return descr;
}

static int is_legal(size_t size) { return size >= ARRAY && size <= MOST && size % 8 == 0; }

/* --- arrays */

/* Every function that reads an array, through which nothing changes hands. */
static void read_everywhere(cai_status expected, const cai_array *array) {
    const cai_array other = valid_array();
    int64_t strides[CAI_MAX_NDIM];
    cai_layout layout;
    cai_dtype dtype;
    bool overlap = false;
    cai_error why;
    ASSERT_STATUS(expected,
                  cai_array_validate(array, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT, &why));
    ASSERT_STATUS(expected, cai_array_layout(array, &layout, &why));
    ASSERT_STATUS(expected, cai_array_strides(array, strides, CAI_MAX_NDIM, &why));
    ASSERT_STATUS(expected, cai_array_dtype(array, &dtype, &why));
    ASSERT_STATUS(expected, cai_array_validate(array, CAI_CHECK_NATIVE, &why));
    ASSERT_STATUS(expected, cai_array_may_overlap(array, &other, &overlap, &why));
    ASSERT_STATUS(expected, cai_array_may_overlap(&other, array, &overlap, &why));
    ASSERT_STATUS(expected, cai_array_consume_begin(array, 1, CAI_ACCESS_READ, &why));
    ASSERT_STATUS(expected, cai_array_consume_end(array, 1, CAI_ACCESS_READ, &why));
    ASSERT_STATUS(expected, cai_array_synchronize(array, CAI_ACCESS_READ, &why));
    if (expected == CAI_OK) ASSERT(layout.nbytes == 48 && layout.count == 12 && strides[0] == 16);
}

/* A structure that was written: its own size, what the first release knows, and no change to the
 * other bytes. */
static void check_written(const cai_array *out, size_t size, const cai_array *from) {
    ASSERT(out->struct_size == size && out->owner != NULL && out->data == from->data &&
           out->ndim == 2);
    ASSERT(out->shape[0] == 3 && out->shape[1] == 4 && out->stream == CAI_STREAM_NONE);
    ASSERT(out->device.type == CAI_DEVICE_CPU && out->byte_offset == 0);
    /* 16 bytes that a later library knows may have come along. */
    ASSERT(all(out, ARRAY + 16 < size ? ARRAY + 16 : size, size, 0));
    ASSERT_STATUS(CAI_OK, cai_array_validate(out, CAI_CHECK_LAYOUT, NULL));
}

/* The members that every age has are cleared, and nothing behind them is written. */
static void check_cleared(const cai_array *array, size_t size, const void *before) {
    ASSERT(array->struct_size == size && all(array, 4, ARRAY, 0));
    ASSERT(memcmp((const char *)array + ARRAY, (const char *)before + ARRAY, size - ARRAY) == 0);
}

enum { RELEASE, INLINE, AFTER, IN_ORDER, RELEASES };

static void release_by(int way, cai_array *array) {
    if (way == RELEASE) cai_array_release(array);
    if (way == INLINE) cai_inline_release(array);
    if (way == AFTER) ASSERT_STATUS(CAI_OK, cai_array_release_after(array, CAI_STREAM_NONE, NULL));
    if (way == IN_ORDER) cai_unstable_array_release_in_order(array);
}

static void check_released_by(int way, cai_array *array, size_t size) {
    char before[MOST];
    memcpy(before, array, size);
    release_by(way, array);
    check_cleared(array, size, before);
    release_by(way, array);
}

static void check_released(cai_array *array, size_t size) {
    check_released_by(RELEASE, array, size);
}

/* `cai_array copy = *longer;`: 128 bytes that state more. */
TEST(assigned_copies) {
    size_t size;
    for (int way = 0; way < RELEASES; ++way) {
        for (size = ARRAY; size <= MOST; size += 8) {
            counted *owner = owner_of(OPERATIONS);
            cai_array source = valid_array(), *copy;
            source.owner = &owner->base;
            copy = array_of(&source, ARRAY);
            copy->struct_size = (uint32_t)size;
            destroyed = 0;
            release_by(way, copy);
            ASSERT(destroyed == 1 && copy->struct_size == size && all(copy, 4, ARRAY, 0));
            release_by(way, copy);
            free_bytes();
        }
    }
}

static void copy_everywhere(const cai_array *array, size_t out_size, counted *owner) {
    cai_array *out = empty(out_size);
    cai_error why;
    struct DLManagedTensorVersioned *versioned = NULL;
    struct DLManagedTensor *tensor = NULL;
    const int references = owner->references;

    ASSERT_STATUS(CAI_OK, cai_array_share(array, out, &why));
    check_written(out, out_size, array);
    ASSERT(owner->references == references + 1);
    ASSERT_STATUS(CAI_OK, cai_array_retain(out, &why));
    cai_owner_release(out->owner);
    check_released(out, out_size);

    out = empty(out_size);
    ASSERT_STATUS(CAI_OK, cai_array_create(array, NULL, NULL, out, &why));
    check_written(out, out_size, array);
    check_released(out, out_size);

    out = empty(out_size);
    ASSERT_STATUS(CAI_OK, cai_array_share(array, out, &why));
    ASSERT_STATUS(CAI_OK, cai_array_attach(out, NULL, NULL, &why));
    check_written(out, out_size, array);
    check_released_by(AFTER, out, out_size);

    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(array, 0, &versioned, &why));
    out = empty(out_size);
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(versioned, CAI_STREAM_NONE, 0, out, &why));
    check_written(out, out_size, array);
    check_released(out, out_size);

    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack_unversioned(array, 0, &tensor, &why));
    out = empty(out_size);
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack_unversioned(tensor, CAI_STREAM_NONE, 0, out, &why));
    check_written(out, out_size, array);
    check_released(out, out_size);

    out = empty(out_size);
    ASSERT_STATUS(CAI_OK, cai_array_share(array, out, &why));
    check_released_by(INLINE, out, out_size);
    ASSERT(owner->references == references);
}

TEST(arrays_of_every_size) {
    static const size_t outs[] = {128, 136, 144, 152, 504, 512};
    size_t size, i;
    for (size = ARRAY; size <= MOST; size += 8) {
        cai_array source = valid_array(), *array;
        counted *owner = owner_of(OPERATIONS);
        source.owner = &owner->base;
        array = array_of(&source, size);
        read_everywhere(CAI_OK, array);
        for (i = 0; i < sizeof outs / sizeof *outs; ++i)
            copy_everywhere(array, outs[i], owner);
        ASSERT(size <= ARRAY + 16 || all(array, ARRAY, size, TAIL));
        ASSERT(owner->references == 1);
        check_released(array, size);
        ASSERT(owner->references == 0);
        free_bytes();
    }
}

TEST(masks_of_every_size) {
    for (size_t size = ARRAY; size <= MOST; size += 8) {
        cai_array source = valid_array(), bits = valid_array(), *out = empty(MOST);
        counted *owner = owner_of(OPERATIONS);
        set_typestr(&bits, "|b1");
        source.mask = array_of(&bits, size);
        source.owner = &owner->base;
        read_everywhere(CAI_OK, &source);
        ASSERT_STATUS(CAI_OK, cai_array_create(&source, NULL, NULL, out, NULL));
        ASSERT(out->mask != source.mask && out->mask->shape[1] == 4);
        cai_array_release(out);
        cai_array_release(&source);
        ASSERT(owner->references == 0);
        free_bytes();
    }
}

/* `size` bytes that hold anything become a structure of that size, or stay as they are. */
static void initialize(const char *name, cai_status (*init)(void *, size_t), size_t first,
                       const void *expected) {
    static const size_t huge[] = {(size_t)1 << 31, ((size_t)1 << 32) + ARRAY, SIZE_MAX - 7,
                                  SIZE_MAX};
    test_row = name;
    for (size_t size = 0; size <= MOST + 16; ++size) {
        char *memory = bytes(size, TAIL);
        if (size >= first && size <= MOST && size % 8 == 0) {
            uint32_t stated;
            ASSERT_STATUS(CAI_OK, init(memory, size));
            memcpy(&stated, memory, sizeof stated);
            ASSERT(stated == size && all(memory, first, size, 0));
            ASSERT(memcmp(memory + sizeof stated, (const char *)expected + sizeof stated,
                          first - sizeof stated) == 0);
        } else {
            ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, init(memory, size));
            ASSERT(all(memory, 0, size, TAIL));
        }
        free_bytes();
    }
    for (size_t i = 0; i < sizeof huge / sizeof *huge; ++i)
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, init(bytes(0, 0), huge[i]));
    free_bytes();
    test_row = NULL;
}

TEST(structures_of_every_size) {
    const cai_array array = CAI_ARRAY_INIT;
    const cai_import_options import = CAI_IMPORT_OPTIONS_INIT;
    const cai_export_options export = CAI_EXPORT_OPTIONS_INIT;
    const size_t import_size = offsetof(cai_import_options, typestr) + CAI_TYPESTR_SIZE;
    initialize("array", cai_array_init, ARRAY, &array);
    initialize("import options", cai_import_options_init, import_size, &import);
    initialize("export options", cai_export_options_init, 8, &export);
}

/* Sizes that no age has: nothing behind the prefix is touched, for there may be nothing. */
TEST(garbage) {
    static const uint32_t sizes[] = {
        0,    1,    8,          15,       16,          24,          64,         88,  120,
        127,  129,  130,        132,      135,         511,         513,        516, 520,
        1024, 4096, 160 * 1024, 1u << 31, 0xfffffff8u, 0xffffffffu, 0xdeadbeefu};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        cai_array *array = bytes(PREFIX, 0);
        const cai_array good = valid_array();
        struct DLManagedTensorVersioned *tensor = NULL;
        counted *owner = owner_of(OPERATIONS);
        cai_array source = good;
        source.owner = &owner->base;
        ASSERT(!is_legal(sizes[i]));
        array->struct_size = sizes[i];
        array->flags = 0x77;
        read_everywhere(CAI_ERR_STRUCT_SIZE, array);
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_retain(array, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_share(array, empty(ARRAY), NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_share(&source, array, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_create(&source, NULL, NULL, array, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_create(array, NULL, NULL, empty(ARRAY), NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_attach(array, NULL, NULL, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_release_after(array, CAI_STREAM_NONE, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE,
                      cai_array_produce(array, NULL, 0, CAI_STREAM_LEGACY, 0, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_to_dlpack(array, 0, &tensor, NULL));
        ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&source, 0, &tensor, NULL));
        ASSERT_STATUS(CAI_ERR_STRUCT_SIZE,
                      cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, array, NULL));
        {
            cai_array back = CAI_ARRAY_INIT;
            ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, &back, NULL));
            cai_array_release(&back);
        }
        ASSERT(array->struct_size == sizes[i] && array->flags == 0x77 && owner->references == 1);
        cai_array_release(array);
        ASSERT(array->struct_size == sizes[i] && array->flags == 0 && array->owner == NULL);
        array->flags = 0x77;
        cai_inline_release(array);
        ASSERT(array->struct_size == sizes[i] && array->flags == 0 && array->owner == NULL);
        free_bytes();
    }
}

/* What is not known must not be ignored, unless it is a tail of an array or a version. */
TEST(flags_and_versions) {
    static const uint16_t versions[] = {3, 4, 5, 0xffff};
    counted *owner = owner_of(OPERATIONS);
    cai_array source = valid_array();
    source.owner = &owner->base;
    for (uint32_t bit = 2; bit != 0; bit <<= 1) {
        struct DLManagedTensorVersioned *tensor = NULL;
        cai_array array = source, out = CAI_ARRAY_INIT;
        array.flags = bit;
        read_everywhere(CAI_ERR_FLAGS, &array);
        ASSERT_STATUS(CAI_ERR_FLAGS, cai_array_share(&array, &out, NULL));
        ASSERT_STATUS(CAI_ERR_FLAGS, cai_array_create(&array, NULL, NULL, &out, NULL));
        ASSERT_STATUS(CAI_ERR_FLAGS,
                      cai_array_produce(&array, NULL, 0, CAI_STREAM_LEGACY, 0, NULL));
        ASSERT_STATUS(CAI_ERR_FLAGS, cai_array_to_dlpack(&array, 0, &tensor, NULL));
        ASSERT(owner->references == 1 && out.owner == NULL);
    }
    for (size_t i = 0; i < sizeof versions / sizeof *versions; ++i) {
        cai_array array = source, out = CAI_ARRAY_INIT;
        array.version = versions[i];
        read_everywhere(CAI_OK, &array);
        copy_everywhere(&array, ARRAY, owner);
        ASSERT_STATUS(CAI_OK, cai_array_produce(&array, NULL, 0, CAI_STREAM_LEGACY, 0, NULL));
        ASSERT_STATUS(CAI_OK, cai_array_share(&array, &out, NULL));
        ASSERT(out.version == versions[i]);
        cai_array_release(&out);
    }
    free_bytes();
}

/* Bits of arguments that no function knows. */
TEST(unknown_bits) {
    const uint32_t unknown = 0x40000000u;
    const cai_array array = valid_array();
    cai_array copy = array;
    cai_error why;
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_array_validate(&array, unknown, &why));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_array_consume_begin(&array, 1, CAI_ACCESS_READ | unknown, &why));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_array_consume_end(&array, 1, CAI_ACCESS_READ | unknown, &why));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_array_synchronize(&array, CAI_ACCESS_READ | unknown, &why));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai_array_produce(&copy, NULL, 0, CAI_STREAM_LEGACY, unknown, &why));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER, cai_sync_policy_set(unknown, &why));
}

/* The members that cai_array_produce names, and no others. */
TEST(produce_writes_four_members) {
    for (size_t size = ARRAY; size <= MOST; size += 8) {
        cai_array source = valid_array(), *array;
        unsigned char before[MOST];
        source.stream = 0;
        source.stream_id = 5;
        source.event = &source;
        array = array_of(&source, size);
        memcpy(before, array, size);
        ASSERT_STATUS(CAI_OK, cai_array_produce(array, NULL, 0, CAI_STREAM_LEGACY, 0, NULL));
        ASSERT(array->stream == CAI_STREAM_NONE && array->stream_id == 0 && array->event == NULL);
        array->stream = 0;
        array->stream_id = 5;
        array->event = &source;
        ASSERT(memcmp(before, array, size) == 0);
        free_bytes();
    }
}

/* --- owners */

TEST(operations_of_every_size) {
    for (size_t size = 8; size <= 256; size += 8) {
        counted *owner = owner_of(size);
        const cai_status expected = size < OPERATIONS ? CAI_ERR_OWNER_OPS : CAI_OK;
        cai_array source = valid_array(), out = CAI_ARRAY_INIT;
        source.owner = &owner->base;
        ASSERT_STATUS(expected, cai_owner_retain(&owner->base, NULL));
        cai_owner_release(&owner->base);
        ASSERT(owner->references == 1);
        ASSERT_STATUS(expected, cai_inline_retain(&source));
        out = source;
        cai_inline_release(&out);
        ASSERT(owner->references == 1);
        ASSERT_STATUS(expected, cai_array_share(&source, &out, NULL));
        if (expected == CAI_OK) cai_array_release(&out);
        ASSERT_STATUS(expected, cai_array_create(&source, NULL, NULL, &out, NULL));
        if (expected == CAI_OK) cai_array_release(&out);
        ASSERT(owner->references == 1);
        free_bytes();
    }
}

/* --- fields */

static void use_descr(const cai_descr *descr) {
    char text[128];
    size_t length = 0;
    int64_t size = 0, offset = 0;
    const cai_field *field = NULL;
    cai_dtype dtype;
    bool equal = false;
    cai_array array = valid_array(), out = CAI_ARRAY_INIT;
    counted *owner = owner_of(OPERATIONS);
    cai_error why;
    ASSERT_STATUS(CAI_OK, cai_descr_format(descr, text, sizeof text, &length, &why));
    ASSERT_TEXT("[('a', '<f4'), ('b', '<i4')]", text);
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(descr, &size, &why));
    ASSERT(size == 8);
    ASSERT_STATUS(CAI_OK, cai_descr_find(descr, "b", &field, &offset, &why));
    ASSERT(offset == 4 && field == cai_inline_field(descr, 1) &&
           cai_inline_field(descr, 2) == NULL);
    ASSERT_STATUS(CAI_OK, cai_field_dtype(field, &dtype, &why));
    ASSERT(dtype.kind == 'i');
    ASSERT_STATUS(CAI_OK, cai_field_nbytes(field, &size, &why));
    ASSERT_STATUS(CAI_OK, cai_descr_equal(descr, descr, &equal, &why));
    ASSERT(equal);
    set_typestr(&array, "|V8");
    array.descr = descr;
    array.owner = &owner->base;
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, &why));
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, NULL, NULL, &out, &why));
    ASSERT_STATUS(CAI_OK, cai_descr_equal(out.descr, descr, &equal, &why));
    ASSERT(equal && out.descr->struct_size >= DESCR && out.descr->field_size >= FIELD);
    cai_array_release(&out);
}

TEST(fields_of_every_size) {
    char text[64];
    size_t size, length;
    cai_error why;
    for (size = 8; size <= MOST + 8; size += 8) {
        cai_descr *head = descr_of(size, FIELD), *rows = descr_of(DESCR, size);
        if (size >= DESCR && size <= MOST) {
            use_descr(head);
        } else {
            ASSERT_STATUS(CAI_ERR_DESCR_STRUCT,
                          cai_descr_format(head, text, sizeof text, &length, &why));
        }
        if (size >= FIELD && size <= MOST) {
            use_descr(rows);
        } else {
            ASSERT_STATUS(CAI_ERR_DESCR_STRUCT,
                          cai_descr_format(rows, text, sizeof text, &length, &why));
        }
        free_bytes();
    }
}
