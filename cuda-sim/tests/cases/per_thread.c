// The per-thread default stream is one for each thread and context, and a blocking stream. Handle 2 names it,
// and so does handle 0 in the functions whose names end in _ptsz. [API synchronization behavior]
#include "case.h"

#define PER_THREAD CU_STREAM_PER_THREAD

static CUdeviceptr shared;

static void *write_on_mine(void *data) {
    (void)data;
    writes(PER_THREAD, shared, N);
    return NULL;
}

static void *write_on_mine_and_wait(void *data) {
    (void)data;
    writes(PER_THREAD, shared, N);
    OK(cuStreamSynchronize(PER_THREAD));
    return NULL;
}

static void *write_and_record(void *data) {
    writes(PER_THREAD, shared, N);
    OK(cuEventRecord(*(CUevent *)data, PER_THREAD));
    return NULL;
}

static void in_one_thread(void) {
    CUdeviceptr p = device(N);
    writes(PER_THREAD, p, N);
    reads(PER_THREAD, p, N);
}

static void against_legacy(void) {
    CUdeviceptr p = device(N);
    writes(PER_THREAD, p, N);
    reads(CU_STREAM_LEGACY, p, N);
    writes(PER_THREAD, p, N);
}

static void against_a_stream(void) {
    CUdeviceptr p = device(N);
    writes(PER_THREAD, p, N);
    reads(blocking(), p, N);
}

// Joining the thread orders the host, not its stream.
static void of_two_threads(void) {
    pthread_t thread;
    shared = device(N);
    spawn(&thread, write_on_mine, NULL);
    join(thread);
    reads(PER_THREAD, shared, N);
}

static void of_two_threads_with_a_wait(void) {
    pthread_t thread;
    shared = device(N);
    spawn(&thread, write_on_mine_and_wait, NULL);
    join(thread);
    reads(PER_THREAD, shared, N);
}

static void of_two_threads_with_an_event(void) {
    pthread_t thread;
    CUevent e = event();
    shared = device(N);
    spawn(&thread, write_and_record, &e);
    join(thread);
    OK(cuStreamWaitEvent(PER_THREAD, e, 0));
    reads(PER_THREAD, shared, N);
}

// The token means this thread's stream here, which never did anything.
static void the_token_of_another_thread(void) {
    pthread_t thread;
    shared = device(N);
    spawn(&thread, write_on_mine, NULL);
    join(thread);
    CUevent e = event();
    CUstream user = nonblocking();
    OK(cuEventRecord(e, PER_THREAD));
    OK(cuStreamWaitEvent(user, e, 0));
    reads(user, shared, N);
}

static void legacy_between_two_threads(void) {
    pthread_t thread;
    CUdeviceptr q = device(N);
    shared = device(N);
    spawn(&thread, write_on_mine, NULL);
    join(thread);
    writes(CU_STREAM_LEGACY, q, N);
    reads(PER_THREAD, shared, N);
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr at, unsigned char value, size_t n, CUstream stream);

static void zero_in_ptsz_functions(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8Async_ptsz(p, 1, N, NULL));
    reads(PER_THREAD, p, N);
}

// 0 there is not the legacy stream here: but both are ordered by its rule.
static void zero_in_ptsz_functions_against_nonblocking(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8Async_ptsz(p, 1, N, NULL));
    reads(nonblocking(), p, N);
}

static void zero_in_ptsz_functions_against_a_blocking_stream(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8Async_ptsz(p, 1, N, NULL));
    reads(blocking(), p, N);
}

static void zero_in_plain_functions_against_a_blocking_stream(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8Async(p, 1, N, NULL));
    reads(blocking(), p, N);
}

const struct race_case per_thread_cases[] = {
    CORRECT(in_one_thread),
    CORRECT(against_legacy),
    RACY(against_a_stream),
    RACY(of_two_threads),
    CORRECT(of_two_threads_with_a_wait),
    CORRECT(of_two_threads_with_an_event),
    RACY(the_token_of_another_thread),
    CORRECT(legacy_between_two_threads),
    CORRECT(zero_in_ptsz_functions),
    RACY(zero_in_ptsz_functions_against_nonblocking),
    RACY(zero_in_ptsz_functions_against_a_blocking_stream),
    CORRECT(zero_in_plain_functions_against_a_blocking_stream),
    {NULL, 0, NULL},
};
