/*
 * Threads that end inside the library: pthread_exit and pthread_cancel in code that it calls back.
 * Only the thread ends; the process goes on, and so does the library, on other threads and in what
 * still runs of this one. MinGW lacks what this needs, and musl runs no destructors there.
 * run: plain asan valgrind; not windows musl
 */
#define _POSIX_C_SOURCE 200809L
#include "tests.h"

#include <pthread.h>
#include <unistd.h>

typedef struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    struct {
        void *data;
        int32_t device_type, device_id, ndim;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } tensor;
} versioned;

static int ended, rest;

/* --- what ends a thread */

static void by_exit(void *context) {
    ASSERT(context == &ended);
    ++ended;
    pthread_exit(&ended);
}

static void by_cancellation(void *context) {
    ASSERT(context == &ended);
    ++ended;
    ASSERT(pthread_cancel(pthread_self()) == 0);
    for (;;)
        pause();
}

static void (*const ways[])(void *) = {by_exit, by_cancellation};
static void (*way)(void *);

static cai_owner *ending(void) {
    cai_owner *owner = NULL;
    ASSERT_STATUS(CAI_OK, cai_owner_create(&ended, way, &owner, NULL));
    return owner;
}

static cai_array ending_array(void) {
    cai_array array = valid_array();
    array.owner = ending();
    return array;
}

static void end_tensor(versioned *tensor) { way(tensor->manager_ctx); }

/* --- where it ends */

static void in_owner_release(void) { cai_owner_release(ending()); }

static void in_array_release(void) {
    static cai_array array; /* must survive the thread */
    array = ending_array();
    cai_array_release(&array);
}

static void in_inline_release(void) {
    cai_owner *owner = ending();
    owner->ops->release(owner);
}

static void in_release_after_nothing(void) {
    ASSERT_STATUS(CAI_OK, cai_owner_release_after(ending(), CAI_STREAM_NONE, NULL));
    ASSERT(!"reached");
}

static void in_array_release_after_nothing(void) {
    static cai_array array;
    array = ending_array();
    ASSERT_STATUS(CAI_OK, cai_array_release_after(&array, CAI_STREAM_NONE, NULL));
    ASSERT(!"reached");
}

static void in_a_created_array(void) {
    cai_array description = ending_array();
    static cai_array out;
    cai_array empty = CAI_ARRAY_INIT;
    out = empty;
    ASSERT_STATUS(CAI_OK, cai_array_create(&description, NULL, NULL, &out, NULL));
    cai_array_release(&description);
    cai_array_release(&out);
}

static void in_an_attachment(void) {
    static cai_array array;
    array = valid_array();
    array.owner = counting_owner(&rest);
    ASSERT_STATUS(CAI_OK, cai_array_attach(&array, &ended, way, NULL));
    cai_array_release(&array);
}

static void in_a_dlpack_tensor(void) {
    static versioned tensor;
    static int64_t shape[1] = {4};
    static cai_array array;
    cai_array empty = CAI_ARRAY_INIT;
    array = empty;
    memset(&tensor, 0, sizeof(tensor));
    tensor.major = 1;
    tensor.manager_ctx = &ended;
    tensor.deleter = end_tensor;
    tensor.tensor.data = test_data;
    tensor.tensor.device_type = CAI_DEVICE_CPU;
    tensor.tensor.ndim = 1;
    tensor.tensor.code = 2;
    tensor.tensor.bits = 32;
    tensor.tensor.lanes = 1;
    tensor.tensor.shape = shape;
    ASSERT_STATUS(CAI_OK, cai_array_from_dlpack(&tensor, CAI_STREAM_NONE, 0, &array, NULL));
    cai_array_release(&array);
}

static void in_our_dlpack_tensor(void) {
    versioned *tensor = NULL;
    cai_array array = ending_array();
    ASSERT_STATUS(CAI_OK, cai_array_to_dlpack(&array, 0, &tensor, NULL));
    cai_array_release(&array);
    tensor->deleter(tensor);
}

/* Another library's operations end the thread. */
static void foreign_retain(cai_owner *owner) {
    (void)owner;
    way(&ended);
}

static void foreign_release(cai_owner *owner) {
    (void)owner;
    way(&ended);
}

static const cai_owner_ops foreign_ops = {sizeof(cai_owner_ops), 0, foreign_retain,
                                          foreign_release};
static cai_owner foreign = {&foreign_ops};

static void in_a_foreign_retain(void) { (void)cai_owner_retain(&foreign, NULL); }
static void in_a_foreign_release(void) { cai_owner_release(&foreign); }

static void in_a_foreign_retain_of_share(void) {
    cai_array array = valid_array(), out = CAI_ARRAY_INIT;
    array.owner = &foreign;
    (void)cai_array_share(&array, &out, NULL);
}

static void in_a_foreign_retain_of_dlpack(void) {
    versioned *tensor = NULL;
    cai_array array = valid_array();
    array.owner = &foreign;
    (void)cai_array_to_dlpack(&array, 0, &tensor, NULL);
}

static void (*const places[])(void) = {
    in_owner_release,
    in_array_release,
    in_inline_release,
    in_release_after_nothing,
    in_array_release_after_nothing,
    in_a_created_array,
    in_an_attachment,
    in_a_dlpack_tensor,
    in_our_dlpack_tensor,
    in_a_foreign_retain,
    in_a_foreign_release,
    in_a_foreign_retain_of_share,
    in_a_foreign_retain_of_dlpack,
};

static void *run(void *place) {
    (*(void (*const *)(void))place)();
    ASSERT(!"the thread goes on");
    return NULL;
}

TEST(every_place) {
    size_t i, w, times;
    for (w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        way = ways[w];
        for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            for (times = 0; times < 3; times++) {
                pthread_t thread;
                void *result = NULL, *place = NULL;
                int before = ended;
                void (*const *const address)(void) = &places[i];
                memcpy(&place, &address, sizeof(place));
                ASSERT(pthread_create(&thread, NULL, run, place) == 0);
                ASSERT(pthread_join(thread, &result) == 0);
                ASSERT(ended == before + 1);
                ASSERT(result == (way == by_exit ? (void *)&ended : PTHREAD_CANCELED));
            }
        }
    }
}

/* --- what is left of a chain */

/* A thread that ends far down in a chain of owners does not take the others with it that were
 * waiting for their turn: another thread's next release destroys them. */
static int released;

typedef struct {
    cai_owner *next[2];
} fork_of_two;

static void release_both(void *context) {
    fork_of_two *both = context;
    cai_owner *next[2] = {both->next[0], both->next[1]};
    free(both);
    released++;
    cai_owner_release(next[0]);
    cai_owner_release(next[1]);
}

static cai_owner *tree(int depth) {
    cai_owner *owner = NULL;
    fork_of_two *both;
    if (depth == 0) return counting_owner(&rest);
    both = malloc(sizeof(*both));
    ASSERT(both != NULL);
    both->next[0] = tree(depth - 1);
    both->next[1] = tree(depth - 1);
    ASSERT_STATUS(CAI_OK, cai_owner_create(both, release_both, &owner, NULL));
    return owner;
}

static void *end_after_a_chain(void *argument) {
    /* The top holds a deep tree and an owner that ends the thread. The tree's lower part waits when
     * the thread ends. */
    fork_of_two *both = malloc(sizeof(*both));
    cai_owner *owner = NULL;
    (void)argument;
    ASSERT(both != NULL);
    both->next[0] = tree(12);
    both->next[1] = ending();
    ASSERT_STATUS(CAI_OK, cai_owner_create(both, release_both, &owner, NULL));
    cai_owner_release(owner);
    ASSERT(!"the thread goes on");
    return NULL;
}

TEST(nothing_else_is_lost) {
    enum { LEAVES = 1 << 12 };
    pthread_t thread;
    way = by_exit;
    rest = released = 0;
    ASSERT(pthread_create(&thread, NULL, end_after_a_chain, NULL) == 0);
    ASSERT(pthread_join(thread, NULL) == 0);
    cai_owner_release(counting_owner(&rest));
    ASSERT(rest == LEAVES + 1 && released == LEAVES);
}

/* --- what runs while a thread ends */

static pthread_key_t key;

/* A destructor of the thread's own data uses the library. */
static void at_thread_end(void *owner) {
    cai_owner *chain = owner;
    for (int i = 0; i < 100; i++) {
        cai_array description = valid_array(), out = CAI_ARRAY_INIT;
        description.owner = chain;
        ASSERT_STATUS(CAI_OK, cai_array_create(&description, NULL, NULL, &out, NULL));
        cai_array_release(&description);
        chain = out.owner;
    }
    cai_owner_release(chain);
}

static void *end_with_data(void *argument) {
    (void)argument;
    ASSERT(pthread_setspecific(key, counting_owner(&rest)) == 0);
    cai_owner_release(ending());
    return NULL;
}

TEST(the_rest_of_a_thread) {
    pthread_t thread;
    rest = 0;
    ASSERT(pthread_key_create(&key, at_thread_end) == 0);
    ASSERT(pthread_create(&thread, NULL, end_with_data, NULL) == 0);
    ASSERT(pthread_join(thread, NULL) == 0);
    ASSERT(rest == 1);
}
