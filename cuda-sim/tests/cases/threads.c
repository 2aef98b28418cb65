// Host threads are ordered by what they synchronize with, not by the time of their calls.
#include "case.h"

static CUdeviceptr p;
static CUstream a, b;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int ready;
static atomic_int flag;

static void setup(void) {
    p = device(N);
    a = nonblocking();
    b = nonblocking();
    ready = 0;
    OK(sem_init(&semaphore, 0, 0));
}

// Nothing that the checker knows of orders the two threads; the flag only makes them come one after another.
static void *write_then_flag(void *data) {
    (void)data;
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    return NULL;
}

static void wait_for_flag(void) {
    while (atomic_load_explicit(&flag, memory_order_relaxed) == 0) {
    }
}

static void by_nothing(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_then_flag, NULL);
    wait_for_flag();
    reads(b, p, N);
    join(thread);
}

static void by_joining(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_then_flag, NULL);
    join(thread);
    reads(b, p, N);
}

static void *write_only(void *data) {
    (void)data;
    writes(a, p, N);
    return NULL;
}

// Joining orders the threads; the stream's work goes on.
static void by_joining_without_a_wait(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_only, NULL);
    join(thread);
    reads(b, p, N);
}

static void *read_in_thread(void *data) {
    (void)data;
    reads(b, p, N);
    return NULL;
}

static void by_starting(void) {
    pthread_t thread;
    setup();
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    spawn(&thread, read_in_thread, NULL);
    join(thread);
}

static void by_starting_without_a_wait(void) {
    pthread_t thread;
    setup();
    writes(a, p, N);
    spawn(&thread, read_in_thread, NULL);
    join(thread);
}

static void *write_then_signal(void *data) {
    (void)data;
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void by_a_condition(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_then_signal, NULL);
    pthread_mutex_lock(&mutex);
    while (!ready) {
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    reads(b, p, N);
    join(thread);
}

static void *signal_too_early(void *data) {
    (void)data;
    writes(a, p, N);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    OK(cuStreamSynchronize(a));
    return NULL;
}

static void by_a_condition_before_the_wait(void) {
    pthread_t thread;
    setup();
    spawn(&thread, signal_too_early, NULL);
    pthread_mutex_lock(&mutex);
    while (!ready) {
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    reads(b, p, N);
    join(thread);
}

static void *write_then_post(void *data) {
    (void)data;
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    sem_post(&semaphore);
    return NULL;
}

static void by_a_semaphore(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_then_post, NULL);
    sem_wait(&semaphore);
    reads(b, p, N);
    join(thread);
}

static void *write_then_say(void *data) {
    (void)data;
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    cudasim_hb_before(&flag);
    atomic_store(&flag, 1);
    return NULL;
}

static void by_an_annotation(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_then_say, NULL);
    wait_for_flag();
    cudasim_hb_after(&flag);
    reads(b, p, N);
    join(thread);
}

static void by_an_annotation_of_something_else(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_then_say, NULL);
    wait_for_flag();
    cudasim_hb_after(&mutex);
    reads(b, p, N);
    join(thread);
}

// Two threads take turns with one buffer and one stream, under a mutex: the stream orders their work.
static void *take_turns(void *data) {
    (void)data;
    for (int i = 0; i < 50; ++i) {
        pthread_mutex_lock(&mutex);
        writes(a, p, N);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void turns_on_one_stream(void) {
    pthread_t one, two;
    setup();
    spawn(&one, take_turns, NULL);
    spawn(&two, take_turns, NULL);
    join(one);
    join(two);
}

// The same with a stream for each.
static void *take_turns_on_mine(void *data) {
    CUstream mine = *(CUstream *)data;
    for (int i = 0; i < 5; ++i) {
        pthread_mutex_lock(&mutex);
        writes(mine, p, N);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void turns_on_two_streams(void) {
    pthread_t one, two;
    setup();
    spawn(&one, take_turns_on_mine, &a);
    spawn(&two, take_turns_on_mine, &b);
    join(one);
    join(two);
}

static void *take_turns_and_wait(void *data) {
    CUstream mine = *(CUstream *)data;
    for (int i = 0; i < 20; ++i) {
        pthread_mutex_lock(&mutex);
        writes(mine, p, N);
        OK(cuStreamSynchronize(mine));
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void turns_on_two_streams_with_waits(void) {
    pthread_t one, two;
    setup();
    spawn(&one, take_turns_and_wait, &a);
    spawn(&two, take_turns_and_wait, &b);
    join(one);
    join(two);
}

// Waiting for a stream teaches the thread that waits, and nobody else.
static void *synchronize_only(void *data) {
    (void)data;
    OK(cuStreamSynchronize(a));
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    return NULL;
}

static void somebody_else_waited(void) {
    pthread_t thread;
    setup();
    writes(a, p, N);
    spawn(&thread, synchronize_only, NULL);
    wait_for_flag();
    reads(b, p, N);
    join(thread);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *write_under_rwlock(void *data) {
    (void)data;
    pthread_rwlock_wrlock(&rwlock);
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&rwlock);
    return NULL;
}

static void by_a_read_write_lock(void) {
    pthread_t thread;
    setup();
    spawn(&thread, write_under_rwlock, NULL);
    wait_for_flag();
    pthread_rwlock_rdlock(&rwlock);
    reads(b, p, N);
    pthread_rwlock_unlock(&rwlock);
    join(thread);
}

// A host function runs after what came before it in its stream; whoever waits for it may read.
static void CUDA_CB post(void *data) { sem_post(data); }

static void by_a_host_function(void) {
    setup();
    char *host = pinned(N);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    OK(cuLaunchHostFunc(a, post, &semaphore));
    OK(sem_wait(&semaphore));
    host_reads(host, N);
}

const struct race_case threads_cases[] = {
    RACY(by_nothing),
    CORRECT(by_joining),
    RACY(by_joining_without_a_wait),
    CORRECT(by_starting),
    RACY(by_starting_without_a_wait),
    CORRECT(by_a_condition),
    RACY(by_a_condition_before_the_wait),
    CORRECT(by_a_semaphore),
    CORRECT(by_an_annotation),
    RACY(by_an_annotation_of_something_else),
    CORRECT(turns_on_one_stream),
    RACY(turns_on_two_streams),
    CORRECT(turns_on_two_streams_with_waits),
    RACY(somebody_else_waited),
    CORRECT(by_a_read_write_lock),
    CORRECT(by_a_host_function),
    {NULL, 0, NULL},
};
