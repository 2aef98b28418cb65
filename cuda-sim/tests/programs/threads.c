// Host threads: their calls are ordered by locks, conditions, semaphores, barriers, start and join,
// or annotations. A flag that one thread sees by a relaxed load orders nothing, though it makes the
// order in real time certain.
#include "race_test.h"

#include <semaphore.h>

static CUdeviceptr p, q;
static CUstream a, b;
static char *pinned;
static CUevent event;
static atomic_int flag, second_flag;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int ready; // guarded by the mutex

static void prepare(void) {
    p = alloc(N);
    q = alloc(N);
    a = make_nonblocking();
    b = make_nonblocking();
    event = make_event();
    pinned = alloc_pinned(N);
    CHECK(sem_init(&semaphore, 0, 0));
    CHECK(pthread_barrier_init(&barrier, NULL, 2));
}

static void signal_ready(void) {
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static void await_ready(void) {
    pthread_mutex_lock(&mutex);
    while (!ready)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void write_and_wait(void) {
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
}

static void both(void *(*one)(void *), void *(*other)(void *)) {
    prepare();
    pthread_t threads[] = {start(one, NULL), start(other, NULL)};
    finish(threads[0]);
    finish(threads[1]);
}

// --- what threads do ---

static void *waits_and_signals(void *none) {
    write_and_wait();
    signal_ready();
    return none;
}

static void *signals_too_early(void *none) {
    signal_ready();
    write_and_wait();
    return none;
}

static void *signals_without_waiting(void *none) {
    writes(a, p, N);
    signal_ready();
    return none;
}

static void *records_and_signals(void *none) {
    writes(a, p, N);
    CHECK(cuEventRecord(event, a));
    signal_ready();
    return none;
}

static void *reads_when_ready(void *none) {
    await_ready();
    reads(b, p, N);
    return none;
}

static void *reads_in_the_same_stream_when_ready(void *none) {
    await_ready();
    reads(a, p, N);
    return none;
}

static void *waits_for_the_event_when_ready(void *none) {
    await_ready();
    CHECK(cuStreamWaitEvent(b, event, 0));
    reads(b, p, N);
    return none;
}

static void *waits_for_the_stream_when_ready(void *none) {
    await_ready();
    CHECK(cuStreamSynchronize(a));
    reads(b, p, N);
    return none;
}

static void *writes_waits_and_raises(void *none) {
    write_and_wait();
    raise_flag(&flag);
    return none;
}

static void *reads_after_the_flag(void *none) {
    await_flag(&flag);
    reads(b, p, N);
    return none;
}

// --- programs ---

// Thread A waits for its stream and signals; thread B enqueues after the signal.
static void relay_by_condition(void) { both(waits_and_signals, reads_when_ready); }

// A signals before it writes: what B does after the signal is not ordered with the write.
static void relay_too_early(void) { both(signals_too_early, reads_when_ready); }

// A signals without waiting for its stream: that orders the hosts, not the streams.
static void relay_without_a_wait(void) { both(signals_without_waiting, reads_when_ready); }

// The same, but B works in the same stream.
static void relay_in_one_stream(void) {
    both(signals_without_waiting, reads_in_the_same_stream_when_ready);
}

// A records, signals; B lets its stream wait for the event.
static void relay_of_an_event(void) { both(records_and_signals, waits_for_the_event_when_ready); }

// A records and signals; B does not wait for the event.
static void relay_of_an_event_not_waited_for(void) { both(records_and_signals, reads_when_ready); }

// A signals; B waits for A's stream itself.
static void wait_in_the_other_thread(void) {
    both(signals_without_waiting, waits_for_the_stream_when_ready);
}

// B comes later only because it saw a relaxed flag, which orders nothing.
static void relay_by_a_relaxed_flag(void) { both(writes_waits_and_raises, reads_after_the_flag); }

static void *says_before(void *none) {
    write_and_wait();
    cudasim_hb_before(&flag);
    raise_flag(&flag);
    return none;
}

static void *says_after(void *none) {
    await_flag(&flag);
    cudasim_hb_after(&flag);
    reads(b, p, N);
    return none;
}

// With annotations, the flag orders.
static void relay_by_an_annotated_flag(void) { both(says_before, says_after); }

// Only the one side is annotated.
static void annotation_on_one_side(void) { both(writes_waits_and_raises, says_after); }

static void *says_after_of_another_flag(void *none) {
    await_flag(&flag);
    cudasim_hb_after(&second_flag);
    reads(b, p, N);
    return none;
}

// The two annotations name different objects.
static void annotations_of_two_flags(void) { both(says_before, says_after_of_another_flag); }

static void *says_before_too_early(void *none) {
    cudasim_hb_before(&flag);
    write_and_wait();
    raise_flag(&flag);
    return none;
}

// The annotation comes before the work that it should hand over.
static void annotation_too_early(void) { both(says_before_too_early, says_after); }

static void *waits_and_releases(void *annotated) {
    CHECK(cuStreamSynchronize(a));
    if (annotated != NULL) cudasim_hb_before(&flag);
    raise_flag(&flag);
    return NULL;
}

// A counter of references, as of Rust's Arc: the other thread waited, this one frees.
static void last_reference(int annotated) {
    prepare();
    writes(a, p, N);
    pthread_t other = start(waits_and_releases, annotated ? &flag : NULL);
    await_flag(&flag);
    if (annotated) cudasim_hb_after(&flag);
    CHECK(cuMemFree(p));
    finish(other);
}

static void freed_by_the_last_reference(void) { last_reference(0); }
static void freed_by_the_annotated_last_reference(void) { last_reference(1); }

static void *posts(void *none) {
    write_and_wait();
    sem_post(&semaphore);
    return none;
}

static void *reads_after_the_post(void *none) {
    while (sem_wait(&semaphore) != 0) {
    }
    reads(b, p, N);
    return none;
}

// A semaphore.
static void relay_by_semaphore(void) { both(posts, reads_after_the_post); }

static void *posts_too_early(void *none) {
    sem_post(&semaphore);
    write_and_wait();
    return none;
}

// Posted before the write.
static void semaphore_posted_too_early(void) { both(posts_too_early, reads_after_the_post); }

static void *comes_to_the_barrier(void *none) {
    write_and_wait();
    pthread_barrier_wait(&barrier);
    return none;
}

static void *reads_after_the_barrier(void *none) {
    pthread_barrier_wait(&barrier);
    reads(b, p, N);
    return none;
}

// A barrier.
static void relay_by_barrier(void) { both(comes_to_the_barrier, reads_after_the_barrier); }

static void *passes_the_barrier_first(void *none) {
    pthread_barrier_wait(&barrier);
    write_and_wait();
    return none;
}

// The write comes after the barrier in its thread.
static void write_after_the_barrier(void) {
    both(passes_the_barrier_first, reads_after_the_barrier);
}

static void *writes_pinned_locked(void *none) {
    pthread_mutex_lock(&mutex);
    host_writes(pinned, N);
    pthread_mutex_unlock(&mutex);
    return none;
}

// Two threads write pinned memory under one mutex: ordered, whichever comes first.
static void hosts_with_a_mutex(void) { both(writes_pinned_locked, writes_pinned_locked); }

static void *writes_pinned(void *none) {
    host_writes(pinned, N);
    return none;
}

// Without the mutex.
static void hosts_without_a_mutex(void) { both(writes_pinned, writes_pinned); }

// One of the two does not take it.
static void mutex_on_one_side(void) { both(writes_pinned_locked, writes_pinned); }

static void *uses_the_device_locked(void *none) {
    pthread_mutex_lock(&mutex);
    CUstream own = make_nonblocking();
    writes(own, p, N);
    CHECK(cuStreamSynchronize(own));
    pthread_mutex_unlock(&mutex);
    return none;
}

// Each thread uses the device under the mutex and waits for it there.
static void device_with_a_mutex(void) { both(uses_the_device_locked, uses_the_device_locked); }

static void *leaves_work_behind(void *none) {
    pthread_mutex_lock(&mutex);
    writes(make_nonblocking(), p, N);
    pthread_mutex_unlock(&mutex);
    return none;
}

// Each leaves work pending when it unlocks.
static void pending_work_at_unlock(void) { both(leaves_work_behind, leaves_work_behind); }

static void *writes_in_a(void *none) {
    writes(a, p, N);
    return none;
}

// Two threads without any order enqueue in one stream: it does one after the other.
static void two_threads_in_one_stream(void) { both(writes_in_a, writes_in_a); }

static void *writes_in_b(void *none) {
    writes(b, p, N);
    return none;
}

// In two streams.
static void two_threads_in_two_streams(void) { both(writes_in_a, writes_in_b); }

static void *writes_locked_for_reading(void *none) {
    pthread_rwlock_rdlock(&rwlock);
    raise_flag(&flag);
    await_flag(&second_flag);
    host_writes(pinned, N);
    pthread_rwlock_unlock(&rwlock);
    return none;
}

static void *reads_locked_for_reading(void *none) {
    pthread_rwlock_rdlock(&rwlock);
    raise_flag(&second_flag);
    await_flag(&flag);
    host_reads(pinned, N);
    pthread_rwlock_unlock(&rwlock);
    return none;
}

// Two holders of a lock for reading, at the same time, are not ordered.
static void both_locked_for_reading(void) {
    both(writes_locked_for_reading, reads_locked_for_reading);
}

static void *writes_locked_for_writing(void *none) {
    pthread_rwlock_wrlock(&rwlock);
    host_writes(pinned, N);
    pthread_rwlock_unlock(&rwlock);
    return none;
}

static void *reads_under_the_lock(void *none) {
    pthread_rwlock_rdlock(&rwlock);
    host_reads(pinned, N);
    pthread_rwlock_unlock(&rwlock);
    return none;
}

// One holder for writing and one for reading are.
static void one_locked_for_writing(void) { both(writes_locked_for_writing, reads_under_the_lock); }

// What was waited for before a thread is started comes before what the thread does.
static void wait_before_the_start(void) {
    prepare();
    write_and_wait();
    finish(start(writes_in_b, NULL));
}

static void *writes_b_when_flagged(void *none) {
    await_flag(&flag);
    writes(b, p, N);
    return none;
}

// What was waited for after the start does not.
static void wait_after_the_start(void) {
    prepare();
    pthread_t thread = start(writes_b_when_flagged, NULL);
    write_and_wait();
    raise_flag(&flag);
    finish(thread);
}

// Starting a thread orders hosts; the stream was not waited for.
static void start_without_a_wait(void) {
    prepare();
    writes(a, p, N);
    finish(start(writes_in_b, NULL));
}

static void *only_write_and_wait(void *none) {
    write_and_wait();
    return none;
}

// What a thread waited for comes before what follows the join.
static void join_after_a_wait(void) {
    prepare();
    finish(start(only_write_and_wait, NULL));
    reads(b, p, N);
}

// A thread that did not wait leaves its work pending; the join does not wait for it.
static void join_without_a_wait(void) {
    prepare();
    finish(start(writes_in_a, NULL));
    reads(b, p, N);
}

static void *raises_after_the_wait(void *none) {
    write_and_wait();
    raise_flag(&flag);
    return none;
}

// The reader sees a flag and joins the thread only afterwards.
static void join_after_the_read(void) {
    prepare();
    pthread_t thread = start(raises_after_the_wait, NULL);
    await_flag(&flag);
    reads(b, p, N);
    finish(thread);
}

static void *waits_for_the_context(void *none) {
    await_ready();
    CHECK(cuCtxSynchronize());
    host_reads(pinned, N);
    return none;
}

static void *writes_pinned_in_a_and_signals(void *none) {
    writes(a, at_device(pinned), N);
    signal_ready();
    return none;
}

// One thread waits for the context, in which another thread's work is.
static void context_waited_for_by_another_thread(void) {
    both(writes_pinned_in_a_and_signals, waits_for_the_context);
}

static void *waits_for_a_raises(void *none) {
    CHECK(cuStreamSynchronize(a));
    raise_flag(&flag);
    return none;
}

// Another thread waited for the stream; only that thread knows.
static void waited_for_by_another_thread_only(void) {
    prepare();
    writes(a, at_device(pinned), N);
    pthread_t thread = start(waits_for_a_raises, NULL);
    await_flag(&flag);
    host_reads(pinned, N);
    finish(thread);
}

static void *waits_for_a(void *none) {
    CHECK(cuStreamSynchronize(a));
    return none;
}

// It is joined, so this thread knows, too.
static void waited_for_by_a_joined_thread(void) {
    prepare();
    writes(a, at_device(pinned), N);
    finish(start(waits_for_a, NULL));
    host_reads(pinned, N);
}

static void *writes_in_turn_locked_for_reading(void *none) {
    pthread_rwlock_rdlock(&rwlock);
    host_writes(pinned, N);
    pthread_rwlock_unlock(&rwlock);
    raise_flag(&flag);
    return none;
}

static void *reads_in_turn_locked_for_reading(void *none) {
    await_flag(&flag);
    pthread_rwlock_rdlock(&rwlock);
    host_reads(pinned, N);
    pthread_rwlock_unlock(&rwlock);
    return none;
}

// Nor are they one after the other: who takes a lock for reading waits for writers only.
static void locked_for_reading_in_turn(void) {
    both(writes_in_turn_locked_for_reading, reads_in_turn_locked_for_reading);
}

static void *holds_the_mutex(void *none) {
    pthread_mutex_lock(&mutex);
    host_writes(pinned, N);
    raise_flag(&flag);
    await_flag(&second_flag);
    pthread_mutex_unlock(&mutex);
    return none;
}

static void *tries_the_mutex(void *none) {
    await_flag(&flag);
    CHECK(pthread_mutex_trylock(&mutex) == 0);
    host_reads(pinned, N);
    raise_flag(&second_flag);
    return none;
}

// A lock that could not be taken orders nothing.
static void mutex_not_taken(void) { both(holds_the_mutex, tries_the_mutex); }

static pthread_mutex_t second_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *writes_under_another_mutex(void *none) {
    pthread_mutex_lock(&second_mutex);
    host_writes(pinned, N);
    pthread_mutex_unlock(&second_mutex);
    return none;
}

// Each takes a mutex of its own.
static void two_mutexes(void) { both(writes_pinned_locked, writes_under_another_mutex); }

static void *posts_and_takes_back(void *none) {
    write_and_wait();
    sem_post(&semaphore);
    CHECK(sem_trywait(&semaphore));
    raise_flag(&flag);
    return none;
}

static void *tries_the_semaphore(void *none) {
    await_flag(&flag);
    CHECK(sem_trywait(&semaphore) == 0);
    reads(b, p, N);
    return none;
}

// A semaphore that could not be taken orders nothing.
static void semaphore_not_taken(void) { both(posts_and_takes_back, tries_the_semaphore); }

const struct race_program programs_threads[] = {
    CORRECT(relay_by_condition),
    RACY(relay_too_early),
    RACY(relay_without_a_wait),
    CORRECT(relay_in_one_stream),
    CORRECT(relay_of_an_event),
    RACY(relay_of_an_event_not_waited_for),
    CORRECT(wait_in_the_other_thread),
    RACY(relay_by_a_relaxed_flag),
    CORRECT(relay_by_an_annotated_flag),
    RACY(annotation_on_one_side),
    RACY(annotations_of_two_flags),
    RACY(annotation_too_early),
    CORRECT(relay_by_semaphore),
    RACY(semaphore_posted_too_early),
    CORRECT(relay_by_barrier),
    RACY(write_after_the_barrier),
    CORRECT(hosts_with_a_mutex),
    RACY(hosts_without_a_mutex),
    RACY(mutex_on_one_side),
    CORRECT(device_with_a_mutex),
    RACY(pending_work_at_unlock),
    CORRECT(two_threads_in_one_stream),
    RACY(two_threads_in_two_streams),
    RACY(both_locked_for_reading),
    CORRECT(one_locked_for_writing),
    CORRECT(wait_before_the_start),
    RACY(wait_after_the_start),
    RACY(start_without_a_wait),
    CORRECT(join_after_a_wait),
    RACY(join_without_a_wait),
    RACY(join_after_the_read),
    CORRECT(context_waited_for_by_another_thread),
    RACY(waited_for_by_another_thread_only),
    CORRECT(waited_for_by_a_joined_thread),
    RACY(locked_for_reading_in_turn),
    RACY(mutex_not_taken),
    RACY(two_mutexes),
    RACY(semaphore_not_taken),
    RACY(freed_by_the_last_reference),
    CORRECT(freed_by_the_annotated_last_reference),
    END_OF_PROGRAMS,
};
