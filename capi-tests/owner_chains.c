/*
 * Chains of owners: each link holds the next one, and the release of the first destroys them all.
 * That must not take more stack the longer the chain is, whatever the links are made of; and what a
 * link promises about the order of its parts holds at any depth.
 * run: plain asan valgrind
 */
#define _POSIX_C_SOURCE 200809L
#include "cai_test.h"

#include <pthread.h>

/* Sanitizers and builds that are not optimized need more for every call; sync/stack.c measures. */
enum { STACK = 512 * 1024 };

/* Of each kind, and ten times as many of all in turn: too many for this stack if one calls the
 * next. The sanitizer makes each ten times as slow. */
#ifdef __SANITIZE_ADDRESS__
static long links = 20 * 1000;
#else
static long links = 100 * 1000;
#endif
static long alive;

/* --- links */

static cai_array boxed(cai_owner *owner) {
    cai_array array = valid_array();
    array.owner = owner;
    return array;
}

/* An array on the heap, the context of an owner that holds one. */
static cai_array *boxed_on_heap(cai_owner *owner) {
    cai_array *array = malloc(sizeof(*array));
    ASSERT(array != NULL);
    *array = boxed(owner);
    ++alive;
    return array;
}

static void release_boxed(void *context) {
    cai_array_release(context);
    free(context);
    --alive;
}

static void release_owner(void *context) {
    cai_owner_release(context);
    --alive;
}

static void end(void *context) {
    ASSERT(context == &alive);
    --alive;
}

static cai_owner *first(void) {
    cai_owner *owner = NULL;
    ++alive;
    ASSERT_STATUS(CAI_OK, cai_owner_create(&alive, end, &owner, NULL));
    return owner;
}

/* Each of these takes over `next` and returns an owner that holds it. */

static cai_owner *owner_of_owner(cai_owner *next) {
    cai_owner *owner = NULL;
    ++alive;
    ASSERT_STATUS(CAI_OK, cai_owner_create(next, release_owner, &owner, NULL));
    return owner;
}

static cai_owner *owner_of_array(cai_owner *next) {
    cai_owner *owner = NULL;
    ASSERT_STATUS(CAI_OK, cai_owner_create(boxed_on_heap(next), release_boxed, &owner, NULL));
    return owner;
}

static cai_owner *created_with_owner(cai_owner *next) {
    cai_array description = boxed(next), out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_array_create(&description, NULL, NULL, &out, NULL));
    cai_array_release(&description);
    return out.owner;
}

static cai_owner *created_with_context(cai_owner *next) {
    cai_array description = boxed(NULL), out = CAI_ARRAY_INIT;
    cai_array *context = boxed_on_heap(next);
    ASSERT_STATUS(CAI_OK, cai_array_create(&description, context, release_boxed, &out, NULL));
    return out.owner;
}

static cai_owner *created_with_both(cai_owner *next) {
    cai_array description = boxed(first()), out = CAI_ARRAY_INIT;
    cai_array *context = boxed_on_heap(next);
    ASSERT_STATUS(CAI_OK, cai_array_create(&description, context, release_boxed, &out, NULL));
    cai_array_release(&description);
    return out.owner;
}

static cai_owner *created_with_mask(cai_owner *next) {
    cai_array description = boxed(first()), mask = boxed(next), out = CAI_ARRAY_INIT;
    set_typestr(&mask, "|b1");
    description.mask = &mask;
    ASSERT_STATUS(CAI_OK, cai_array_create(&description, NULL, NULL, &out, NULL));
    cai_array_release(&description);
    cai_array_release(&mask);
    return out.owner;
}

static cai_owner *attached_to_data(cai_owner *next) {
    cai_array array = boxed(next);
    ++alive;
    ASSERT_STATUS(CAI_OK, cai_array_attach(&array, &alive, end, NULL));
    return array.owner;
}

static cai_owner *attached_array(cai_owner *next) {
    cai_array array = boxed(first());
    ASSERT_STATUS(CAI_OK, cai_array_attach(&array, boxed_on_heap(next), release_boxed, NULL));
    return array.owner;
}

static cai_owner *through_dlpack(cai_owner *next) {
    struct DLManagedTensorVersioned *tensor = NULL;
    cai_array array = boxed(next), out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    cai_array_release(&array);
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, &out, NULL));
    return out.owner;
}

static cai_owner *through_unversioned_dlpack(cai_owner *next) {
    struct DLManagedTensor *tensor = NULL;
    cai_array array = boxed(next), out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack_unversioned(&array, 0, &tensor, NULL));
    cai_array_release(&array);
    ASSERT_STATUS(CAI_OK,
                  cai_array_from_dlpack_unversioned(tensor, CAI_STREAM_NONE, 0, &out, NULL));
    return out.owner;
}

/* Another library's owner. */
typedef struct {
    cai_owner base;
    cai_array array;
} foreign;

static void foreign_retain(cai_owner *owner) {
    (void)owner;
    ASSERT(!"retained");
}

static void foreign_release(cai_owner *owner) {
    cai_array_release(&((foreign *)owner)->array);
    free(owner);
    --alive;
}

static const cai_owner_ops foreign_ops = {sizeof(cai_owner_ops), 0, foreign_retain,
                                          foreign_release};

static cai_owner *foreign_of_array(cai_owner *next) {
    foreign *owner = malloc(sizeof(*owner));
    ASSERT(owner != NULL);
    ++alive;
    owner->base.ops = &foreign_ops;
    owner->array = boxed(next);
    return owner_of_owner(&owner->base);
}

typedef cai_owner *(*link)(cai_owner *);

static const struct {
    const char *name;
    link make;
} kinds[] = {
    {"owner of an owner", owner_of_owner},
    {"owner of an array", owner_of_array},
    {"created, with an owner", created_with_owner},
    {"created, with a context", created_with_context},
    {"created, with an owner and a context", created_with_both},
    {"created, with a mask", created_with_mask},
    {"attached to data", attached_to_data},
    {"attached array", attached_array},
    {"DLPack out and in", through_dlpack},
    {"unversioned DLPack out and in", through_unversioned_dlpack},
    {"another library's owner", foreign_of_array},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* --- chains */

static void chain_of(int kind) {
    cai_owner *owner = first();
    long count = kind < KINDS ? links : 10 * links;
    for (long i = 0; i < count; i++)
        owner = kinds[kind < KINDS ? kind : i % KINDS].make(owner);
    cai_owner_release(owner);
    ASSERT(alive == 0);
}

static void *chains(void *argument) {
    (void)argument;
    for (int kind = 0; kind <= KINDS; kind++) {
        printf("%s\n", kind < KINDS ? kinds[kind].name : "all in turn");
        fflush(stdout);
        chain_of(kind);
    }
    return NULL;
}

/* --- the order of the parts */

/* What was attached later is destroyed later, and the data before all of it. */
enum { PARTS = 100 };
static char parts[PARTS];
static int next_in_order;

static void in_order(void *context) {
    ASSERT((char *)context == &parts[next_in_order]);
    next_in_order++;
}

static void attachments_outlive_the_data(void) {
    cai_array array = boxed(NULL);
    next_in_order = 0;
    ASSERT_STATUS(CAI_OK, cai_owner_create(&parts[0], in_order, &array.owner, NULL));
    for (int i = 1; i < PARTS; i++)
        ASSERT_STATUS(CAI_OK, cai_array_attach(&array, &parts[i], in_order, NULL));
    cai_array_release(&array);
    ASSERT(next_in_order == PARTS);
}

/* A mask's owner may need the data's owner. */
static int data_alive, masks_alive;

static void data_ends(void *context) {
    (void)context;
    ASSERT(masks_alive == 0);
    data_alive = 0;
}

static void mask_ends(void *context) {
    (void)context;
    ASSERT(data_alive == 1);
    masks_alive--;
}

static void data_outlives_masks(void) {
    int depth, i;
    for (depth = 0; depth < 20; depth++) {
        cai_array description = boxed(NULL), mask = boxed(NULL), inner = boxed(NULL),
                  out = CAI_ARRAY_INIT;
        cai_owner *owner;
        ASSERT_STATUS(CAI_OK, cai_owner_create(NULL, data_ends, &description.owner, NULL));
        ASSERT_STATUS(CAI_OK, cai_owner_create(NULL, mask_ends, &mask.owner, NULL));
        ASSERT_STATUS(CAI_OK, cai_owner_create(NULL, mask_ends, &inner.owner, NULL));
        data_alive = 1;
        masks_alive = 2;
        set_typestr(&mask, "|b1");
        set_typestr(&inner, "|b1");
        mask.mask = &inner;
        description.mask = &mask;
        ASSERT_STATUS(CAI_OK, cai_array_create(&description, NULL, NULL, &out, NULL));
        cai_array_release(&description);
        cai_array_release(&mask);
        cai_array_release(&inner);
        owner = out.owner;
        for (i = 0; i < depth; i++)
            owner = owner_of_owner(owner);
        cai_owner_release(owner);
        ASSERT(data_alive == 0 && masks_alive == 0 && alive == 0);
    }
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;
    const char *preloaded = getenv("LD_PRELOAD");
    if (argc > 1) {
        links = atol(argv[1]);
    } else if (preloaded != NULL && strstr(preloaded, "valgrind") != NULL) {
        links = 2000;
    }
    attachments_outlive_the_data();
    data_outlives_masks();
    ASSERT(pthread_attr_init(&attributes) == 0);
    if (pthread_attr_setstacksize(&attributes, STACK) != 0) {
        /* The least that some platforms have. */
        ASSERT(pthread_attr_setstacksize(&attributes, 2 * STACK) == 0);
    }
    ASSERT(pthread_create(&thread, &attributes, chains, NULL) == 0);
    ASSERT(pthread_join(thread, NULL) == 0);
    return 0;
}
