// Functions that the driver calls in the order of a stream. They see what came before them in the
// stream, and what they post is an order for who waits for it.
//
// What a row can say about this is in tests/litmus/host_functions.txt.
#include "race_test.h"

#include <semaphore.h>

static CUdeviceptr p;
static char *pinned;
static CUstream a, b;
static sem_t semaphore;
static atomic_int flag;

static void prepare(void) {
    p = alloc(N);
    pinned = alloc_pinned(N);
    a = make_nonblocking();
    b = make_nonblocking();
    CHECK(sem_init(&semaphore, 0, 0));
}

static void post(void *data) {
    (void)data;
    sem_post(&semaphore);
}

static void await_post(void) {
    while (sem_wait(&semaphore) != 0) {
    }
}

static void raise_only(void *data) {
    (void)data;
    raise_flag(&flag);
}

static void say_and_raise(void *data) {
    cudasim_hb_before(&flag);
    raise_only(data);
}

// A flag that is only raised orders nothing.
static void relaxed_flag(void) {
    prepare();
    writes(a, at_device(pinned), N);
    CHECK(cuLaunchHostFunc(a, raise_only, NULL));
    await_flag(&flag);
    host_reads(pinned, N);
}

// With annotations it does.
static void annotated_flag(void) {
    prepare();
    writes(a, at_device(pinned), N);
    CHECK(cuLaunchHostFunc(a, say_and_raise, NULL));
    await_flag(&flag);
    cudasim_hb_after(&flag);
    host_reads(pinned, N);
}

static void *reads_after_the_post(void *none) {
    await_post();
    reads(b, p, N);
    return none;
}

// Another thread waits for the semaphore and enqueues.
static void posted_to_another_thread(void) {
    prepare();
    pthread_t thread = start(reads_after_the_post, NULL);
    writes(a, p, N);
    CHECK(cuLaunchHostFunc(a, post, NULL));
    finish(thread);
}

// The post was enqueued before the write.
static void posted_to_another_thread_too_early(void) {
    prepare();
    pthread_t thread = start(reads_after_the_post, NULL);
    CHECK(cuLaunchHostFunc(a, post, NULL));
    writes(a, p, N);
    finish(thread);
}

const struct race_program programs_host_functions[] = {
    RACY(relaxed_flag),
    CORRECT(annotated_flag),
    CORRECT(posted_to_another_thread),
    RACY(posted_to_another_thread_too_early),
    END_OF_PROGRAMS,
};
