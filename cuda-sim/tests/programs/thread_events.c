// An event that one host thread records and another waits for. Unless the threads are ordered, the
// wait may run before the record, and then it orders nothing. [cuStreamWaitEvent]
#include "race_test.h"

#include <semaphore.h>

static CUdeviceptr p, q;
static CUstream a, b;
static CUevent event;
static atomic_int flag;
static sem_t semaphore;

static void both(void *(*one)(void *), void *(*other)(void *)) {
    p = alloc(N), q = alloc(N);
    a = make_nonblocking(), b = make_nonblocking();
    event = make_event();
    CHECK(sem_init(&semaphore, 0, 0));
    pthread_t threads[] = {start(one, NULL), start(other, NULL)};
    finish(threads[0]);
    finish(threads[1]);
}

static void *records(void *none) {
    writes(a, p, N);
    CHECK(cuEventRecord(event, a));
    raise_flag(&flag);
    return none;
}

static void *waits(void *none) {
    await_flag(&flag);
    CHECK(cuStreamWaitEvent(b, event, 0));
    reads(b, p, N);
    return none;
}

static void the_wait_may_run_first(void) { both(records, waits); }

static void *synchronizes(void *none) {
    await_flag(&flag);
    CHECK(cuEventSynchronize(event));
    reads(b, p, N);
    return none;
}

static void the_host_may_wait_first(void) { both(records, synchronizes); }

static void *queries(void *none) {
    await_flag(&flag);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
    }
    reads(b, p, N);
    return none;
}

static void the_query_may_run_first(void) { both(records, queries); }

static void *records_and_announces(void *none) {
    writes(a, p, N);
    CHECK(cuEventRecord(event, a));
    cudasim_hb_before(&event);
    raise_flag(&flag);
    return none;
}

static void *waits_after_the_announcement(void *none) {
    await_flag(&flag);
    cudasim_hb_after(&event);
    CHECK(cuStreamWaitEvent(b, event, 0));
    reads(b, p, N);
    return none;
}

static void order_by_annotations(void) {
    both(records_and_announces, waits_after_the_announcement);
}

static void *announces_too_early(void *none) {
    writes(a, p, N);
    cudasim_hb_before(&event);
    CHECK(cuEventRecord(event, a));
    raise_flag(&flag);
    return none;
}

static void announced_before_the_record(void) {
    both(announces_too_early, waits_after_the_announcement);
}

static void *runs_ahead(void *none) {
    writes(a, p, N);
    CHECK(cuEventRecord(event, a));
    sem_post(&semaphore);
    writes(a, q, N);
    CHECK(cuEventRecord(event, a));
    raise_flag(&flag);
    return none;
}

static void *reads_the_first(void *none) {
    while (sem_wait(&semaphore) != 0) {
    }
    await_flag(&flag);
    CHECK(cuStreamWaitEvent(b, event, 0));
    reads(b, p, N);
    return none;
}

// The wait comes after the first record, whichever of the two it sees.
static void recorded_again_meanwhile(void) { both(runs_ahead, reads_the_first); }

static void *reads_the_second(void *none) {
    while (sem_wait(&semaphore) != 0) {
    }
    await_flag(&flag);
    CHECK(cuStreamWaitEvent(b, event, 0));
    reads(b, q, N);
    return none;
}

static void the_second_record_may_be_missed(void) { both(runs_ahead, reads_the_second); }

static void *nothing(void *none) { return none; }

static void recorded_by_a_joined_thread(void) {
    both(records, nothing);
    CHECK(cuStreamWaitEvent(b, event, 0));
    reads(b, p, N);
}

static void recorded_before_the_start(void) {
    p = alloc(N);
    a = make_nonblocking(), b = make_nonblocking();
    event = make_event();
    records(NULL);
    finish(start(waits, NULL));
}

const struct race_program programs_thread_events[] = {
    RACY(the_wait_may_run_first),          RACY(the_host_may_wait_first),
    RACY(the_query_may_run_first),         CORRECT(order_by_annotations),
    RACY(announced_before_the_record),     CORRECT(recorded_again_meanwhile),
    RACY(the_second_record_may_be_missed), CORRECT(recorded_by_a_joined_thread),
    CORRECT(recorded_before_the_start),    END_OF_PROGRAMS,
};
