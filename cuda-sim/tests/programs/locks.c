// Host threads that are ordered by pthread_once, a spin lock, or a mutex of C11.
#include "race_test.h"

#include <threads.h>

static CUdeviceptr p;
static CUstream a;
static char *pinned;

static void write_and_wait(void) {
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
}

static void both(void *(*one)(void *), void *(*other)(void *)) {
    p = alloc(N);
    a = make_nonblocking();
    pinned = alloc_pinned(N);
    pthread_t threads[] = {start(one, NULL), start(other, NULL)};
    finish(threads[0]);
    finish(threads[1]);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *initializes_and_reads(void *none) {
    CHECK(pthread_once(&once, write_and_wait));
    reads(make_nonblocking(), p, N);
    return none;
}

// What pthread_once ran comes before its return in every thread.
static void initialized_once(void) { both(initializes_and_reads, initializes_and_reads); }

static pthread_spinlock_t spinlock;

static void *writes_pinned_spinning(void *none) {
    pthread_spin_lock(&spinlock);
    host_writes(pinned, N);
    pthread_spin_unlock(&spinlock);
    return none;
}

// A spin lock of POSIX.
static void hosts_with_a_spin_lock(void) {
    CHECK(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE));
    both(writes_pinned_spinning, writes_pinned_spinning);
}

static mtx_t c_mutex;

static void *writes_pinned_locked_by_c(void *none) {
    CHECK(mtx_lock(&c_mutex) != thrd_success);
    host_writes(pinned, N);
    CHECK(mtx_unlock(&c_mutex) != thrd_success);
    return none;
}

// A mutex of C11.
static void hosts_with_a_mutex_of_c(void) {
    CHECK(mtx_init(&c_mutex, mtx_plain) != thrd_success);
    both(writes_pinned_locked_by_c, writes_pinned_locked_by_c);
}

const struct race_program programs_locks[] = {
    CORRECT(initialized_once),
    CORRECT(hosts_with_a_spin_lock),
    CORRECT(hosts_with_a_mutex_of_c),
    END_OF_PROGRAMS,
};
