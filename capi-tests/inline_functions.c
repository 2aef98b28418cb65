/* The inline functions of cai/abi.h against the functions of the library that they stand for, on
 * generated structures: every combination of sizes, flags, owners and pointers.
 * run: plain asan valgrind ages */
#include "tests.h"

#define LENGTH(list) (sizeof(list) / sizeof(*(list)))

enum { LONGEST = 512 };

/* Legal sizes, sizes beside them, and what a structure contains that was never initialized. */
static const uint32_t sizes[] = {128, 136, 192, 504, 512, 0,   4,
                                 16,  120, 127, 132, 516, 520, 0xcccccccc};
static const uint32_t flags[] = {0, CAI_ARRAY_READONLY, 2, 3, 0x80000000u};

typedef struct {
    cai_owner owner;
    int retains, releases;
} object;

static void object_retain(cai_owner *owner) { ((object *)owner)->retains++; }
static void object_release(cai_owner *owner) { ((object *)owner)->releases++; }

/* Tables of owners, the first three of them in order. */
static const cai_owner_ops tables[] = {
    {24, 0, object_retain, object_release},
    {32, 0, object_retain, object_release},
    {1024, 0, object_retain, object_release},
    {16, 0, object_retain, object_release},
    {0, 0, object_retain, object_release},
    {24, 0, NULL, object_release},
    {24, 0, object_retain, NULL},
};

/* An array, its owner and an output, in memory of the longest structure. */
typedef struct {
    union {
        cai_array array;
        unsigned char bytes[LONGEST];
    } from, to;
    object owned;
} place;

/* `table` is an index, or -1 for a borrowed array, or LENGTH(tables) for an owner without one. */
static void generate(place *p, uint32_t size, uint32_t out_size, uint32_t bits, int table) {
    for (size_t i = 0; i < LONGEST; i++) {
        p->from.bytes[i] = (unsigned char)(i * 7 + 1);
        p->to.bytes[i] = (unsigned char)(i * 11 + 5);
    }
    p->from.array.struct_size = size;
    p->from.array.flags = bits;
    p->to.array.struct_size = out_size;
    p->owned.retains = p->owned.releases = 0;
    p->owned.owner.ops = table >= 0 && table < (int)LENGTH(tables) ? &tables[table] : NULL;
    p->from.array.owner = table < 0 ? NULL : &p->owned.owner;
}

/* Both places are equal, but for the owners' addresses, and for members behind those of the first
 * version, which are 0 in the library's output if it does not know them. */
static void compare(place *a, place *b) {
    const size_t known = 128;
    cai_owner *const owners[2] = {a->from.array.owner, a->to.array.owner};
    ASSERT(a->owned.retains == b->owned.retains && a->owned.releases == b->owned.releases);
    if (owners[0] == &a->owned.owner) a->from.array.owner = &b->owned.owner;
    if (owners[1] == &a->owned.owner) a->to.array.owner = &b->owned.owner;
    ASSERT(memcmp(a->from.bytes, b->from.bytes, LONGEST) == 0);
    ASSERT(memcmp(a->to.bytes, b->to.bytes, known) == 0);
    for (size_t i = known; i < LONGEST; i++)
        ASSERT(a->to.bytes[i] == b->to.bytes[i] || b->to.bytes[i] == 0);
    a->from.array.owner = owners[0];
    a->to.array.owner = owners[1];
}

TEST(arrays) {
    static place a, b;
    size_t s, o, f;
    int table, passed = 0;
    for (s = 0; s < LENGTH(sizes); s++) {
        for (f = 0; f < LENGTH(flags); f++) {
            for (table = -1; table <= (int)LENGTH(tables); table++) {
                generate(&a, sizes[s], sizeof(cai_array), flags[f], table);
                generate(&b, sizes[s], sizeof(cai_array), flags[f], table);
                ASSERT_STATUS(cai_inline_retain(&a.from.array),
                              cai_array_retain(&b.from.array, NULL));
                compare(&a, &b);
                cai_inline_release(&a.from.array);
                cai_array_release(&b.from.array);
                compare(&a, &b);
                for (o = 0; o < LENGTH(sizes); o++) {
                    generate(&a, sizes[s], sizes[o], flags[f], table);
                    generate(&b, sizes[s], sizes[o], flags[f], table);
                    cai_status status = cai_inline_share(&a.from.array, &a.to.array);
                    ASSERT_STATUS(status, cai_array_share(&b.from.array, &b.to.array, NULL));
                    compare(&a, &b);
                    passed += status == CAI_OK;
                }
                generate(&a, sizes[s], 0, flags[f], table);
                ASSERT_STATUS(cai_inline_share(&a.from.array, NULL),
                              cai_array_share(&a.from.array, NULL, NULL));
            }
        }
    }
    ASSERT(passed == 5 * 2 * 3 * 5);
    ASSERT_STATUS(cai_inline_share(NULL, &a.to.array), cai_array_share(NULL, &a.to.array, NULL));
    ASSERT_STATUS(cai_inline_retain(NULL), cai_array_retain(NULL, NULL));
    cai_inline_release(NULL);
}

/* The rows that the library finds by their names, for every distance that rows can have. */
TEST(rows) {
    static const char names[4][2] = {"a", "b", "c", "d"};
    static union {
        cai_field field;
        unsigned char bytes[4 * LONGEST];
    } list;
    uint64_t i, count;
    for (uint32_t size = 56; size <= LONGEST; size += 8) {
        for (count = 0; count <= 4; count++) {
            cai_descr descr = {sizeof(cai_descr), 0, 0, NULL};
            descr.field_size = size;
            descr.count = count;
            descr.fields = &list.field;
            memset(&list, 0, sizeof(list));
            for (i = 0; i < count; i++) {
                cai_field *field = (cai_field *)(void *)(list.bytes + i * size);
                field->name = names[i];
                memcpy(field->typestr, "<i4", 4);
            }
            for (i = 0; i < 4; i++) {
                const cai_field *found = NULL;
                int64_t offset = -1;
                const cai_status status = cai_descr_find(&descr, names[i], &found, &offset, NULL);
                ASSERT(status == (i < count ? CAI_OK : CAI_ERR_DESCR_NO_FIELD));
                ASSERT(found == cai_inline_field(&descr, i));
            }
            ASSERT(cai_inline_field(&descr, UINT64_MAX) == NULL);
        }
    }
}

/* No function of the library takes a CUstream. Its validation knows which values are streams. */
TEST(streams) {
    for (size_t handle = 0; handle < 64; handle++) {
        const cai_stream stream = cai_inline_stream((const void *)handle);
        cai_array array = valid_array();
        ASSERT(stream == (handle == 0 ? CAI_STREAM_LEGACY : handle));
        array.device.type = CAI_DEVICE_CUDA;
        array.stream = stream;
        ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
    }
}
