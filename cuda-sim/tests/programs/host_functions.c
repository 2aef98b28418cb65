// Functions that the driver calls in the order of a stream. They see what came before them in the
// stream, and what they post is an order for who waits for it.
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

static void do_nothing(void *data) { (void)data; }

static void post(void *data) {
    (void)data;
    sem_post(&semaphore);
}

static void CUDA_CB post_from_callback(CUstream stream, CUresult result, void *data) {
    (void)stream;
    (void)result;
    post(data);
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

// A host function is work like any other: an event behind it is behind what came before it.
static void link_in_a_chain(void) {
    prepare();
    writes(a, p, N);
    CHECK(cuLaunchHostFunc(a, do_nothing, NULL));
    order(a, b);
    CHECK(cuLaunchHostFunc(b, do_nothing, NULL));
    reads(b, p, N);
}

// Host functions in two streams do not order the streams.
static void in_both_streams(void) {
    prepare();
    writes(a, p, N);
    CHECK(cuLaunchHostFunc(a, do_nothing, NULL));
    CHECK(cuLaunchHostFunc(b, do_nothing, NULL));
    reads(b, p, N);
}

// It posts a semaphore behind the write; who waits for the semaphore may read.
static void posted_behind_the_write(void) {
    prepare();
    writes(a, at_device(pinned), N);
    CHECK(cuLaunchHostFunc(a, post, NULL));
    await_post();
    host_reads(pinned, N);
}

// It posts before the write.
static void posted_before_the_write(void) {
    prepare();
    CHECK(cuLaunchHostFunc(a, post, NULL));
    writes(a, at_device(pinned), N);
    await_post();
    host_reads(pinned, N);
}

// It posts from another stream.
static void posted_from_another_stream(void) {
    prepare();
    writes(a, at_device(pinned), N);
    CHECK(cuLaunchHostFunc(b, post, NULL));
    await_post();
    host_reads(pinned, N);
}

// From another stream that waits for the first.
static void posted_from_a_stream_that_waits(void) {
    prepare();
    writes(a, at_device(pinned), N);
    order(a, b);
    CHECK(cuLaunchHostFunc(b, post, NULL));
    await_post();
    host_reads(pinned, N);
}

// What is enqueued after the semaphore comes after the write, in every stream.
static void enqueued_after_the_post(void) {
    prepare();
    writes(a, p, N);
    CHECK(cuLaunchHostFunc(a, post, NULL));
    await_post();
    writes(b, p, N);
}

// It was enqueued before the wait for the semaphore: the device need not keep that order.
static void enqueued_before_the_post(void) {
    prepare();
    writes(a, p, N);
    CHECK(cuLaunchHostFunc(a, post, NULL));
    writes(b, p, N);
    await_post();
}

// A callback posts as well as a host function.
static void posted_by_a_callback(void) {
    prepare();
    writes(a, at_device(pinned), N);
    CHECK(cuStreamAddCallback(a, post_from_callback, NULL, 0));
    await_post();
    host_reads(pinned, N);
}

// A callback before the write.
static void posted_by_a_callback_too_early(void) {
    prepare();
    CHECK(cuStreamAddCallback(a, post_from_callback, NULL, 0));
    writes(a, at_device(pinned), N);
    await_post();
    host_reads(pinned, N);
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

// A host function in the legacy stream holds up blocking streams.
static void barrier_in_legacy(void) {
    CUstream blocking[] = {make_stream(), make_stream()};
    prepare();
    writes(blocking[0], p, N);
    CHECK(cuLaunchHostFunc(CU_STREAM_LEGACY, do_nothing, NULL));
    reads(blocking[1], p, N);
}

// Not non-blocking ones.
static void no_barrier_for_nonblocking(void) {
    prepare();
    writes(a, p, N);
    CHECK(cuLaunchHostFunc(CU_STREAM_LEGACY, do_nothing, NULL));
    reads(b, p, N);
}

// Waiting for the stream waits for its host function and what came before.
static void stream_with_a_host_function_at_its_end(void) {
    prepare();
    writes(a, at_device(pinned), N);
    CHECK(cuLaunchHostFunc(a, do_nothing, NULL));
    CHECK(cuStreamSynchronize(a));
    host_reads(pinned, N);
}

const struct race_program programs_host_functions[] = {
    CORRECT(link_in_a_chain),
    RACY(in_both_streams),
    CORRECT(posted_behind_the_write),
    RACY(posted_before_the_write),
    RACY(posted_from_another_stream),
    CORRECT(posted_from_a_stream_that_waits),
    CORRECT(enqueued_after_the_post),
    RACY(enqueued_before_the_post),
    CORRECT(posted_by_a_callback),
    RACY(posted_by_a_callback_too_early),
    RACY(relaxed_flag),
    CORRECT(annotated_flag),
    CORRECT(posted_to_another_thread),
    RACY(posted_to_another_thread_too_early),
    CORRECT(barrier_in_legacy),
    RACY(no_barrier_for_nonblocking),
    CORRECT(stream_with_a_host_function_at_its_end),
    END_OF_PROGRAMS,
};
