/* The lifetime of arrays: sharing, creating, attaching and releasing, and no reference is lost or
 * duplicated on any failing path.
 * run: plain asan valgrind ages */
#include "tests.h"

TEST(borrowed) {
    cai_array array = valid_array(), out = CAI_ARRAY_INIT;
    cai_error error;
    ASSERT_STATUS(CAI_ERR_BORROWED, cai_array_retain(&array, &error));
    ASSERT_TEXT("owner", error.field);
    ASSERT_STATUS(CAI_ERR_BORROWED, cai_array_share(&array, &out, &error));
    ASSERT(cai_inline_retain(&array) == CAI_ERR_BORROWED);
    cai_array_release(&array);
    ASSERT(array.data == NULL && array.struct_size == sizeof(array));
}

TEST(cleared_structures) {
    static const cai_array zeros;
    int destroyed = 0;
    cai_array array = valid_array(), garbage;
    array.owner = counting_owner(&destroyed);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
    ASSERT(array.struct_size == sizeof(array));
    ASSERT(memcmp((char *)&array + 4, (const char *)&zeros + 4, sizeof(array) - 4) == 0);
    cai_array_release(&array);
    cai_inline_release(&array);
    ASSERT(destroyed == 1);
    /* Never initialized, but zeroed: the common way to prepare for an early exit. */
    array = zeros;
    cai_array_release(&array);
    cai_inline_release(&array);
    ASSERT(memcmp(&array, &zeros, sizeof(array)) == 0);
    /* Without a struct_size nothing is lost: the first 16 bytes are enough to release it. */
    array = valid_array();
    array.struct_size = 0;
    array.owner = counting_owner(&destroyed);
    cai_array_release(&array);
    ASSERT(destroyed == 2 && array.owner == NULL && array.data == test_data);
    memset(&garbage, 0x55, sizeof(garbage));
    garbage.owner = counting_owner(&destroyed);
    cai_inline_release(&garbage);
    ASSERT(destroyed == 3 && garbage.owner == NULL && garbage.ndim == 0x55555555);
}

/* A structure of a longer header keeps its size. What this library does not know becomes 0, and is
 * not cleared by a release. */
TEST(longer_structures) {
    union {
        cai_array array;
        uint64_t words[32];
    } out;
    int destroyed = 0;
    cai_array array = valid_array();
    array.owner = counting_owner(&destroyed);
    memset(&out, 0, sizeof(out));
    for (size_t i = sizeof(cai_array) / 8; i < 32; i++)
        out.words[i] = 0x5555555555555555u;
    out.array.struct_size = sizeof(out);
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &out.array, NULL));
    ASSERT(out.array.struct_size == sizeof(out) && out.array.data == array.data);
    for (size_t i = sizeof(cai_array) / 8; i < 32; i++) {
        ASSERT(out.words[i] == 0);
        out.words[i] = 7;
    }
    cai_array_release(&out.array);
    ASSERT(out.array.struct_size == sizeof(out) && out.array.data == NULL);
    for (size_t i = sizeof(cai_array) / 8; i < 32; i++)
        ASSERT(out.words[i] == 7);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* Looks at the structure from inside the callback: it is cleared already. */
static cai_array *released;
static void look(void *context) {
    ASSERT(released->owner == NULL && released->data == NULL);
    cai_array_release(released);
    ++*(int *)context;
}

TEST(cleared_first) {
    int destroyed = 0;
    cai_array array = valid_array();
    released = &array;
    ASSERT_STATUS(CAI_OK, cai_owner_create(&destroyed, look, &array.owner, NULL));
    cai_array_release(&array);
    ASSERT(destroyed == 1);
    array = valid_array();
    ASSERT_STATUS(CAI_OK, cai_owner_create(&destroyed, look, &array.owner, NULL));
    cai_inline_release(&array);
    ASSERT(destroyed == 2);
}

TEST(sharing) {
    int destroyed = 0;
    cai_array array = valid_array(), shared = CAI_ARRAY_INIT, again = CAI_ARRAY_INIT;
    array.owner = counting_owner(&destroyed);
    array.flags = CAI_ARRAY_READONLY;
    ASSERT_STATUS(CAI_OK, cai_array_share(&array, &shared, NULL));
    ASSERT(memcmp(&array, &shared, sizeof(array)) == 0);
    ASSERT_STATUS(CAI_OK, cai_array_share(&shared, &again, NULL));
    cai_array_release(&array);
    cai_array_release(&again);
    ASSERT(destroyed == 0);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&shared, CAI_CHECK_LAYOUT, NULL));
    cai_array_release(&shared);
    ASSERT(destroyed == 1);
    /* What the library does not understand is not passed on. */
    array = valid_array();
    array.owner = counting_owner(&destroyed);
    array.flags = 0x100;
    ASSERT_STATUS(CAI_ERR_FLAGS, cai_array_share(&array, &shared, NULL));
    memset(&shared, 0, sizeof(shared));
    array.flags = 0;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai_array_share(&array, &shared, NULL));
    cai_array_release(&array);
    ASSERT(destroyed == 2);
}

/* A memset that the compiler keeps, for what is about to leave its scope. */
static void overwrite(void *at, size_t size) {
    volatile unsigned char *bytes = at;
    while (size-- > 0)
        bytes[size] = 0x55;
}

/* Everything that a description points to lives on a stack that is gone when the copy is used. */
static void describe(cai_array *out, int *destroyed, int *mask_destroyed, int *context) {
    int64_t shape[2] = {3, 4}, strides[2] = {-64, 16}, mask_shape[1] = {4}, sub[2] = {2, 1};
    char name[] = "vector", inner_name[] = "x", title[] = "direction";
    cai_field inner, rows[2];
    cai_descr nested = {sizeof(cai_descr), sizeof(cai_field), 1, &inner};
    cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 2, rows};
    cai_array array = valid_array(), mask = valid_array(), mask_of_mask = valid_array();
    cai_owner *owner;
    cai_error error;

    memset(&inner, 0, sizeof(inner));
    memset(rows, 0, sizeof(rows));
    inner.name = inner_name;
    memcpy(inner.typestr, "<f4", 4);
    rows[0].name = name;
    rows[0].title = title;
    rows[0].nested = &nested;
    rows[0].ndim = 2;
    rows[0].shape = sub;
    rows[1].name = "";
    memcpy(rows[1].typestr, "|V8", 4);

    /* Masks in memory that the device of the array can read. */
    mask.device.type = mask_of_mask.device.type = CAI_DEVICE_CUDA;
    mask.device.id = mask_of_mask.device.id = 3;
    set_typestr(&mask_of_mask, "|t1");
    mask_of_mask.ndim = 0;
    set_typestr(&mask, "|b1");
    mask.ndim = 1;
    mask.shape = mask_shape;
    mask.owner = counting_owner(mask_destroyed);
    mask.mask = &mask_of_mask;

    array.shape = shape;
    array.strides = strides;
    array.data = test_data + 1000;
    array.descr = &descr;
    array.mask = &mask;
    array.flags = CAI_ARRAY_READONLY;
    array.stream = CAI_STREAM_LEGACY;
    array.stream_id = 77;
    array.event = shape;
    array.context = strides;
    array.device.type = CAI_DEVICE_CUDA;
    array.device.id = 3;
    array.owner = counting_owner(destroyed);
    set_typestr(&array, "|V16");
    owner = array.owner;
    cai_status status = cai_array_create(&array, context, count_destroy, out, &error);
    if (status != CAI_OK) fprintf(stderr, "%s\n", error.message);
    ASSERT_STATUS(CAI_OK, status);
    /* What may not be written cannot be written through the copy either. */
    ASSERT(out->flags == CAI_ARRAY_READONLY);
    /* The description is unchanged and keeps its references; the new array has its own. */
    ASSERT(array.owner == owner && array.data == test_data + 1000 && array.shape == shape);
    cai_array_release(&array);
    cai_array_release(&mask);
    ASSERT(*destroyed == 0 && *mask_destroyed == 0 && *context == 0);
    ASSERT(out->event == shape && out->context == strides);
    overwrite(&shape, sizeof(shape));
    overwrite(&strides, sizeof(strides));
    overwrite(&mask_shape, sizeof(mask_shape));
    overwrite(&sub, sizeof(sub));
    overwrite(&name, sizeof(name));
    overwrite(&title, sizeof(title));
    overwrite(&inner_name, sizeof(inner_name));
    overwrite(&rows, sizeof(rows));
    overwrite(&nested, sizeof(nested));
    overwrite(&descr, sizeof(descr));
    overwrite(&inner, sizeof(inner));
    overwrite(&mask, sizeof(mask));
    overwrite(&array, sizeof(array));
}

TEST(blocks) {
    int destroyed = 0, mask_destroyed = 0, context = 0;
    cai_array array = CAI_ARRAY_INIT, mask = CAI_ARRAY_INIT, inner = CAI_ARRAY_INIT;
    char text[128];
    describe(&array, &destroyed, &mask_destroyed, &context);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
    ASSERT(array.shape[0] == 3 && array.shape[1] == 4 && array.strides[0] == -64 &&
           array.strides[1] == 16);
    ASSERT(array.data == test_data + 1000 && array.flags == CAI_ARRAY_READONLY && array.ndim == 2);
    ASSERT(array.stream == CAI_STREAM_LEGACY && array.stream_id == 77);
    ASSERT(array.device.type == CAI_DEVICE_CUDA && array.device.id == 3);
    ASSERT_STATUS(CAI_OK, cai_descr_format(array.descr, text, sizeof(text), NULL, NULL));
    ASSERT_TEXT("[(('direction', 'vector'), [('x', '<f4')], (2, 1)), ('', '|V8')]", text);
    ASSERT(array.mask->shape[0] == 4 && array.mask->mask->ndim == 0);
    ASSERT_TEXT("|t1", array.mask->mask->typestr);
    /* Each mask can be shared by itself, also one whose description had no owner. */
    ASSERT_STATUS(CAI_OK, cai_array_share(array.mask, &mask, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_share(array.mask->mask, &inner, NULL));
    cai_array_release(&array);
    ASSERT(destroyed == 0 && mask_destroyed == 0 && context == 0);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&mask, CAI_CHECK_LAYOUT, NULL));
    cai_array_release(&mask);
    ASSERT(destroyed == 0 && mask_destroyed == 0 && context == 0);
    ASSERT_TEXT("|t1", inner.typestr);
    cai_array_release(&inner);
    ASSERT(destroyed == 1 && mask_destroyed == 1 && context == 1);
}

/* The data of a description without an owner lives until the context is destroyed; without a
 * destroy function, for as long as the program. */
TEST(descriptions_without_owner) {
    int destroyed = 0;
    cai_array array = valid_array(), out = CAI_ARRAY_INIT, shared = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, &destroyed, count_destroy, &out, NULL));
    ASSERT(array.owner == NULL && out.owner != NULL);
    ASSERT(out.shape != test_shape && out.shape[1] == 4 && out.strides == NULL);
    ASSERT_STATUS(CAI_OK, cai_array_share(&out, &shared, NULL));
    cai_array_release(&out);
    ASSERT(destroyed == 0);
    cai_array_release(&shared);
    ASSERT(destroyed == 1);
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, &destroyed, NULL, &out, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out, CAI_CHECK_LAYOUT, NULL));
    cai_array_release(&out);
    ASSERT(destroyed == 1);
}

/* An allocator may give an address for no bytes, and a slice may begin at the end. Masks follow the
   same rule, at every depth; an array that is not copied must still state NULL. */
TEST(empty_descriptions) {
    static const int64_t empty[2] = {3, 0};
    cai_array array = valid_array(), mask = valid_array(), inner = valid_array();
    cai_array out = CAI_ARRAY_INIT;
    cai_error error;
    array.shape = empty;
    array.ndim = 2;
    ASSERT(array.data != NULL && array.strides == NULL);
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, NULL, NULL, &out, NULL));
    ASSERT(out.data == NULL && array.data != NULL && out.shape[1] == 0);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out, CAI_CHECK_LAYOUT, NULL));
    cai_array_release(&out);
    mask.shape = inner.shape = empty;
    mask.ndim = inner.ndim = 2;
    set_typestr(&mask, "|b1");
    set_typestr(&inner, "|t1");
    mask.mask = &inner;
    array.mask = &mask;
    ASSERT(mask.data != NULL && inner.data != NULL);
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, NULL, NULL, &out, NULL));
    ASSERT(out.mask->data == NULL && out.mask->mask->data == NULL);
    ASSERT(mask.data != NULL && inner.data != NULL && out.mask->mask->shape[1] == 0);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&out, CAI_CHECK_LAYOUT, NULL));
    cai_array_release(&out);
    array.data = NULL;
    ASSERT_STATUS(CAI_ERR_DATA_NOT_NULL, cai_array_validate(&array, CAI_CHECK_LAYOUT, &error));
    ASSERT_TEXT("mask.data", error.field);
    array.data = mask.data;
    inner.stream = 0; /* the other rules hold */
    ASSERT_STATUS(CAI_ERR_STREAM_ZERO, cai_array_create(&array, NULL, NULL, &out, &error));
    ASSERT_TEXT("mask.mask.stream", error.field);
    array.mask = NULL;
    array.device.type = CAI_DEVICE_OPENCL;
    array.stream = CAI_STREAM_NONE;
    array.byte_offset = 64;
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, NULL, NULL, &out, NULL));
    ASSERT(out.data == NULL && out.byte_offset == 0);
    cai_array_release(&out);
}

/* An array cannot be copied onto itself: nothing would be left that holds its reference. */
TEST(onto_itself) {
    int destroyed = 0, context = 0;
    cai_array array = valid_array(), before;
    cai_error error;
    array.owner = counting_owner(&destroyed);
    before = array;
    ASSERT_STATUS(CAI_ERR_ARGUMENT,
                  cai_array_create(&array, &context, count_destroy, &array, &error));
    ASSERT_TEXT("out", error.field);
    ASSERT(memcmp(&array, &before, sizeof(array)) == 0);
    cai_array_release(&array);
    ASSERT(destroyed == 1 && context == 0);
}

/* A mask's owner may depend on the data's, and both on the context: the context goes last. */
static int order[3], ordered;
static void note(void *context) { order[ordered++] = *(int *)context; }

TEST(context_goes_last) {
    static int of_data = 1, of_mask = 2, of_context = 3;
    cai_array array = valid_array(), mask = valid_array(), out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_owner_create(&of_data, note, &array.owner, NULL));
    ASSERT_STATUS(CAI_OK, cai_owner_create(&of_mask, note, &mask.owner, NULL));
    set_typestr(&mask, "|b1");
    array.mask = &mask;
    ASSERT_STATUS(CAI_OK, cai_array_create(&array, &of_context, note, &out, NULL));
    cai_array_release(&mask);
    cai_array_release(&array);
    ASSERT(ordered == 0);
    cai_array_release(&out);
    ASSERT(ordered == 3 && order[0] == 2 && order[1] == 1 && order[2] == 3);
}

/* What is attached to an array is kept alive by each of its masks too: a mask that is shared by
 * itself may be read on the stream that was attached. */
TEST(attaching) {
    int destroyed = 0, mask_destroyed = 0, attached = 0;
    cai_array array = valid_array(), mask = valid_array(), inner = valid_array();
    cai_array shared = CAI_ARRAY_INIT, deepest = CAI_ARRAY_INIT;
    array.owner = counting_owner(&destroyed);
    set_typestr(&mask, "|b1");
    set_typestr(&inner, "|b1");
    mask.owner = counting_owner(&mask_destroyed);
    inner.owner = mask.owner;
    mask.mask = &inner;
    array.mask = &mask;
    ASSERT_STATUS(CAI_OK, cai_array_attach(&array, &attached, count_destroy, NULL));
    cai_array_release(&mask);
    ASSERT(array.data == test_data && array.shape[1] == 4 && array.mask->mask->ndim == 2);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_share(array.mask, &shared, NULL));
    ASSERT_STATUS(CAI_OK, cai_array_share(array.mask->mask, &deepest, NULL));
    cai_array_release(&array);
    cai_array_release(&shared);
    ASSERT(destroyed == 0 && mask_destroyed == 0 && attached == 0);
    cai_array_release(&deepest);
    ASSERT(destroyed == 1 && mask_destroyed == 1 && attached == 1);

    /* A failure changes nothing: the context is still the caller's. */
    array = valid_array();
    array.owner = counting_owner(&destroyed);
    mask = valid_array();
    array.mask = &mask;
    ASSERT_STATUS(CAI_ERR_MASK_TYPE, cai_array_attach(&array, &attached, count_destroy, NULL));
    ASSERT(array.mask == &mask);
    cai_array_release(&array);
    ASSERT(destroyed == 2 && attached == 1);
}

/* Each failure leaves every reference where it was. */
TEST(failures) {
    int destroyed = 0, mask_destroyed = 0, context = 0;
    cai_array array = valid_array(), mask = valid_array(), inner = valid_array(),
              out = CAI_ARRAY_INIT;
    static const cai_owner_ops broken_ops = {sizeof(cai_owner_ops), 0, NULL, NULL};
    cai_owner broken = {&broken_ops}, *owner;
    cai_error error;
    array.owner = owner = counting_owner(&destroyed);
    set_typestr(&mask, "|b1");
    mask.owner = counting_owner(&mask_destroyed);
    array.mask = &mask;

    array.stream = 0;
    ASSERT_STATUS(CAI_ERR_STREAM_ZERO,
                  cai_array_create(&array, &context, count_destroy, &out, NULL));
    array.stream = CAI_STREAM_NONE;
    out.struct_size = 12;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE,
                  cai_array_create(&array, &context, count_destroy, &out, &error));
    ASSERT_TEXT("out->struct_size", error.field);
    out.struct_size = sizeof(out);
    /* The inner mask's owner is broken: those retained before it are released again. */
    set_typestr(&inner, "|b1");
    inner.owner = &broken;
    mask.mask = &inner;
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, cai_array_create(&array, &context, count_destroy, &out, NULL));
    mask.mask = NULL;
    array.owner = &broken;
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, cai_array_create(&array, &context, count_destroy, &out, NULL));
    array.owner = owner;
    ASSERT(out.owner == NULL && out.data == NULL);
    ASSERT(destroyed == 0 && mask_destroyed == 0);
    cai_array_release(&array);
    cai_array_release(&mask);
    ASSERT(destroyed == 1 && mask_destroyed == 1 && context == 0);
}

/* An array that is part of what its owner frees. */
typedef struct {
    cai_array array;
    int *freed;
} holder;

static void free_holder(void *context) {
    holder *held = (holder *)context;
    static const cai_array zeros;
    ASSERT(memcmp((char *)&held->array + 4, (const char *)&zeros + 4, sizeof(zeros) - 4) == 0);
    ++*held->freed;
    free(held);
}

TEST(inside_of_its_owner) {
    int freed = 0, later;
    for (later = 0; later < 2; later++) {
        holder *held = (holder *)malloc(sizeof(*held));
        ASSERT(held != NULL);
        held->array = valid_array();
        held->freed = &freed;
        ASSERT_STATUS(CAI_OK, cai_owner_create(held, free_holder, &held->array.owner, NULL));
        if (later) {
            const cai_array before = held->array;
            ASSERT_STATUS(CAI_ERR_STREAM_ZERO, cai_array_release_after(&held->array, 0, NULL));
            ASSERT(memcmp(&held->array, &before, sizeof(before)) == 0 && freed == 1);
            ASSERT_STATUS(CAI_OK, cai_array_release_after(&held->array, CAI_STREAM_NONE, NULL));
        } else {
            cai_array_release(&held->array);
        }
    }
    ASSERT(freed == 2);
}
