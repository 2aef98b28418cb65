/*
 * Every function that allocates, with the n-th allocation failing, for every n: the status says so,
 * nothing has changed hands, nothing leaks, and the next call works. Stands in for malloc, so it is
 * a program of its own.
 * run: plain; flags -std=gnu99
 */
#include "cai_test.h"
#include <cai/unstable/arrow.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *memory);

static long budget = -1; /* allocations until the next one fails; negative: none fails */
static long balance;     /* allocations that were not freed */

static bool fails(void) {
    if (budget == 0) return true;
    budget -= budget > 0;
    return false;
}

static void *count(void *memory) {
    balance += memory != NULL;
    return memory;
}

void *malloc(size_t size) { return fails() ? NULL : count(__libc_malloc(size)); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : count(__libc_calloc(n, size)); }
void *realloc(void *old, size_t size) {
    void *memory = fails() ? NULL : __libc_realloc(old, size);
    balance += memory != NULL && old == NULL;
    return memory;
}
void free(void *memory) {
    balance -= memory != NULL;
    __libc_free(memory);
}

static int destroyed;
static cai_array description, mask;

static cai_status owner_create(cai_error *error) {
    cai_owner *owner = NULL;
    cai_status status = cai_owner_create(&destroyed, count_destroy, &owner, error);
    ASSERT((status == CAI_OK) == (owner != NULL));
    cai_owner_release(owner);
    return status;
}

static cai_status array_create(cai_error *error) {
    cai_array out = CAI_ARRAY_INIT;
    int context = 0;
    cai_status status = cai_array_create(&description, &context, count_destroy, &out, error);
    ASSERT((status == CAI_OK) == (out.owner != NULL));
    cai_array_release(&out);
    ASSERT(context == (status == CAI_OK) && destroyed == 0);
    return status;
}

/* With a mask, which gets a new description. */
static cai_status array_attach(cai_error *error) {
    cai_array mine = description;
    int context = 0;
    ASSERT_STATUS(CAI_OK, cai_array_retain(&mine, NULL));
    cai_status status = cai_array_attach(&mine, &context, count_destroy, error);
    ASSERT((status == CAI_OK) == (mine.mask != description.mask));
    cai_array_release(&mine);
    ASSERT(context == (status == CAI_OK) && destroyed == 0);
    return status;
}

static cai_status descr_parse(cai_error *error) {
    const cai_descr *descr = NULL;
    cai_owner *owner = NULL;
    cai_status status = cai_descr_parse(
        "[('x', '<f4'), (('title', 'y'), [('a', '<i4', (2, 3)), ('b', '|u1')]), ('', '|V4')]",
        &descr, &owner, error);
    ASSERT((status == CAI_OK) == (owner != NULL) && (status == CAI_OK) == (descr != NULL));
    cai_owner_release(owner);
    return status;
}

static cai_descr many;

static cai_status many_fields(cai_error *error) {
    int64_t size;
    return cai_descr_itemsize(&many, &size, error);
}

/* The part of a DLManagedTensorVersioned that is called. */
struct DLManagedTensorVersioned {
    uint32_t version[2];
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
};

/* Out and in again: where either fails, the tensor is still the caller's. */
static cai_status dlpack(cai_error *error) {
    struct DLManagedTensorVersioned *tensor = NULL;
    cai_array array = description, out = CAI_ARRAY_INIT;
    array.mask = NULL;
    cai_status status = cai_array_to_dlpack(&array, 0, &tensor, error);
    ASSERT((status == CAI_OK) == (tensor != NULL));
    if (status != CAI_OK) return status;
    status = cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, &out, error);
    ASSERT((status == CAI_OK) == (out.owner != NULL));
    if (status != CAI_OK) tensor->deleter(tensor);
    cai_array_release(&out);
    return status;
}

/* The same with a mask that is copied: the bits that come back begin inside a byte. */
static cai_status arrow(cai_error *error) {
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    cai_array array = description, bits = mask, out = CAI_ARRAY_INIT;
    set_typestr(&bits, "|t1");
    array.mask = &bits;
    values.array.release = NULL;
    schema.release = NULL;
    cai_status status = cai_unstable_array_to_arrow(&array, 0, &values, &schema, error);
    ASSERT((status == CAI_OK) == (values.array.release != NULL));
    ASSERT((status == CAI_OK) == (schema.release != NULL));
    if (status != CAI_OK) return status;
    values.array.children[0]->offset = 1;
    values.array.children[0]->length -= 1;
    values.array.length -= 1;
    status = cai_unstable_array_from_arrow(&values, &schema, &out, error);
    ASSERT((status == CAI_OK) == (out.owner != NULL));
    ASSERT((status == CAI_OK) == (values.array.release == NULL));
    ASSERT(status != CAI_OK || out.mask->data != bits.data);
    if (status != CAI_OK) values.array.release(&values.array);
    schema.release(&schema);
    cai_array_release(&out);
    ASSERT(destroyed == 0);
    return status;
}

static cai_status batch(cai_error *error) {
    static const char *const names[2] = {"x", "y"};
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    cai_array array = description, bits = mask;
    const cai_array *const arrays[2] = {&array, &array};
    set_typestr(&bits, "|t1");
    array.mask = &bits;
    values.array.release = NULL;
    schema.release = NULL;
    cai_status status = cai_unstable_arrays_to_arrow(arrays, names, 2, 0, &values, &schema, error);
    ASSERT((status == CAI_OK) == (values.array.release != NULL));
    ASSERT((status == CAI_OK) == (schema.release != NULL));
    if (status == CAI_OK) {
        values.array.release(&values.array);
        schema.release(&schema);
    }
    ASSERT(destroyed == 0);
    return status;
}

/* Fails anyway; without memory for the words, that is the status. */
static cai_status refused(cai_error *error) {
    cai_array array = description;
    array.stream = 0;
    cai_status status = cai_array_validate(&array, CAI_CHECK_LAYOUT, error);
    return status == CAI_ERR_STREAM_ZERO ? CAI_OK : status;
}

static void drive(const char *name, cai_status (*call)(cai_error *), long least) {
    long n, before;
    cai_status status;
    cai_error error;
    for (n = 0;; n++) {
        before = balance;
        memset(&error, 0x55, sizeof(error));
        budget = n;
        status = call(&error);
        budget = -1;
        ASSERT(balance == before);
        if (status == CAI_OK) break;
        ASSERT_STATUS(CAI_ERR_NO_MEMORY, status);
        ASSERT(error.code == CAI_ERR_NO_MEMORY && strlen(error.message) > 0);
        ASSERT_STATUS(CAI_OK, call(&error));
    }
    printf("%s: %ld allocations\n", name, n);
    ASSERT(n >= least);
}

int main(void) {
    static cai_field rows[40];
    static char names[40][16];
    for (int i = 0; i < 40; i++) {
        sprintf(names[i], "f%d", i % 100);
        rows[i].name = names[i];
        memcpy(rows[i].typestr, "|u1", 4);
    }
    many.struct_size = sizeof(many);
    many.field_size = sizeof(rows[0]);
    many.count = 40;
    many.fields = rows;

    description = valid_array();
    description.owner = counting_owner(&destroyed);
    mask = valid_array();
    set_typestr(&mask, "|b1");
    mask.owner = counting_owner(&destroyed);
    description.mask = &mask;

    puts("begin"); /* lets stdio have its buffer */
    drive("cai_owner_create", owner_create, 1);
    destroyed = 0;
    drive("cai_array_create", array_create, 1);
    drive("cai_array_attach", array_attach, 1);
    drive("cai_descr_parse", descr_parse, 10);
    drive("more than 32 fields", many_fields, 1);
    drive("cai_array_to_dlpack and cai_array_from_dlpack", dlpack, 2);
    drive("cai_unstable_array_to_arrow and cai_unstable_array_from_arrow", arrow, 4);
    drive("cai_unstable_arrays_to_arrow", batch, 10);
    drive("a refusal", refused, 1);
    destroyed = 0;
    cai_array_release(&description);
    cai_array_release(&mask);
    ASSERT(destroyed == 2);
    return 0;
}
