// Order between streams by events.
#include "race_test.h"

// Two streams have no order of their own.
static void no_event(void) {
    CUdeviceptr p = alloc(N);
    writes(make_nonblocking(), p, N);
    reads(make_nonblocking(), p, N);
}

// Two writers race as well as a writer and a reader.
static void two_writers(void) {
    CUdeviceptr p = alloc(N);
    writes(make_nonblocking(), p, N);
    writes(make_nonblocking(), p, N);
}

// A reader that comes first races with the writer: the write may overtake it.
static void write_after_unordered_read(void) {
    CUdeviceptr p = alloc(N);
    reads(make_nonblocking(), p, N);
    writes(make_nonblocking(), p, N);
}

// Record after the write, wait before the read: ordered.
static void event_between(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// Record after the read, wait before the write: ordered.
static void write_after_ordered_read(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    reads(a, p, N);
    order(a, b);
    writes(b, p, N);
}

// An event that was never recorded is done: waiting for it waits for nothing.
static void wait_for_an_unrecorded_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// The record comes after the wait was enqueued: the wait was for nothing.
static void recorded_after_the_wait(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
    CHECK(cuEventRecord(e, a));
    reads(b, p, N);
}

// An event captures what the stream had when it was recorded, not what comes later.
static void recorded_too_early(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    writes(a, p, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// The event covers the first of two writes, not the second.
static void recorded_between_two_writes(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    writes(a, p + N, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, 2 * N);
}

// As before, but only what the event covers is read.
static void reads_only_what_the_event_covers(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    writes(a, p + N, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// A record elsewhere takes the place of the earlier one before the wait is enqueued.
static void re_recorded_elsewhere_before_the_wait(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), other = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventRecord(e, other));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// A wait is for the record at the time of the call; later records do not matter.
static void re_recorded_elsewhere_after_the_wait(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), other = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    CHECK(cuEventRecord(e, other));
    reads(b, p, N);
}

// The wait got the first record; the second one, after the second write, is not waited for.
static void re_recorded_after_the_wait_covers_nothing(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    reads(b, p, N);
}

// A later record in the same stream covers what an earlier one did.
static void re_recorded_in_the_same_stream(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// One event, recorded by two streams in turn, each record waited for before the next.
static void one_event_for_two_producers(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(c, e, 0));
    writes(b, p + N, N);
    CHECK(cuEventRecord(e, b));
    CHECK(cuStreamWaitEvent(c, e, 0));
    reads(c, p, 2 * N);
}

// One event, recorded by two streams before the one wait: only the second record counts.
static void one_event_for_two_producers_waited_for_once(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    writes(b, p + N, N);
    CHECK(cuEventRecord(e, b));
    CHECK(cuStreamWaitEvent(c, e, 0));
    reads(c, p, 2 * N);
}

// A wait holds up what is enqueued after it, not what was before.
static void wait_after_the_access(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    reads(b, p, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
}

// Two producers, two events; the consumer waits for the other one's.
static void wait_for_the_wrong_event(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUevent of_a = make_event(), of_b = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(of_a, a));
    writes(b, q, N);
    CHECK(cuEventRecord(of_b, b));
    CHECK(cuStreamWaitEvent(c, of_b, 0));
    reads(c, p, N);
}

// The same with the right event.
static void wait_for_the_right_event(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUevent of_a = make_event(), of_b = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(of_a, a));
    writes(b, q, N);
    CHECK(cuEventRecord(of_b, b));
    CHECK(cuStreamWaitEvent(c, of_a, 0));
    reads(c, p, N);
}

// The event was recorded in the consumer, which knows nothing of the producer.
static void recorded_in_the_wrong_stream(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, b));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// Another stream waits, but not the one that reads.
static void wrong_stream_waits(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), other = make_nonblocking();
    writes(a, p, N);
    order(a, other);
    reads(b, p, N);
}

// The direction is wrong: the producer waits for the consumer.
static void producer_waits_for_consumer(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, p, N);
    order(b, a);
    reads(b, p, N);
}

// An event may be destroyed once the wait is enqueued; the wait stays.
static void event_destroyed_after_the_wait(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    CHECK(cuEventDestroy(e));
    reads(b, p, N);
}

// A wait covers all that the recorded stream had waited for: chains of three.
static void chain_of_three(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    writes(a, p, N);
    order(a, b);
    order(b, c);
    reads(c, p, N);
}

// The same over eight streams, with no work in those between.
static void chain_of_eight(void) {
    CUdeviceptr p = alloc(N);
    CUstream streams[8];
    for (int i = 0; i < 8; ++i)
        streams[i] = make_nonblocking();
    writes(streams[0], p, N);
    for (int i = 1; i < 8; ++i)
        order(streams[i - 1], streams[i]);
    writes(streams[7], p, N);
}

// The link in the middle of eight is missing.
static void chain_of_eight_without_one_link(void) {
    CUdeviceptr p = alloc(N);
    CUstream streams[8];
    for (int i = 0; i < 8; ++i)
        streams[i] = make_nonblocking();
    writes(streams[0], p, N);
    for (int i = 1; i < 8; ++i) {
        if (i != 4) order(streams[i - 1], streams[i]);
    }
    writes(streams[7], p, N);
}

// The second link was made before the first: nothing of `a` had come to `b` yet.
static void links_in_the_wrong_order(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    writes(a, p, N);
    order(b, c);
    order(a, b);
    reads(c, p, N);
}

// Fork and join on both sides: a diamond.
static void diamond(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream top = make_nonblocking(), left = make_nonblocking(), right = make_nonblocking();
    CUstream bottom = make_nonblocking();
    writes(top, p, 2 * N);
    order(top, left);
    order(top, right);
    writes(left, p, N);
    writes(right, p + N, N);
    order(left, bottom);
    order(right, bottom);
    reads(bottom, p, 2 * N);
}

// A diamond whose right side does not join.
static void diamond_without_one_join(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream top = make_nonblocking(), left = make_nonblocking(), right = make_nonblocking();
    CUstream bottom = make_nonblocking();
    writes(top, p, 2 * N);
    order(top, left);
    order(top, right);
    writes(left, p, N);
    writes(right, p + N, N);
    order(left, bottom);
    reads(bottom, p, 2 * N);
}

// A diamond whose right side starts without the top; the join below does not help it.
static void diamond_without_one_fork(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream top = make_nonblocking(), left = make_nonblocking(), right = make_nonblocking();
    CUstream bottom = make_nonblocking();
    writes(top, p, 2 * N);
    order(top, left);
    reads(left, p, N);
    reads(right, p + N, N);
    order(left, bottom);
    order(right, bottom);
    writes(bottom, p, 2 * N);
}

// The sides of a diamond are not ordered with each other.
static void diamond_with_overlapping_sides(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream top = make_nonblocking(), left = make_nonblocking(), right = make_nonblocking();
    writes(top, p, 2 * N);
    order(top, left);
    order(top, right);
    writes(left, p, N + 1);
    writes(right, p + N, N);
}

// Two streams take turns; each turn waits for the one before.
static void ping_pong(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    for (int i = 0; i < 4; ++i) {
        writes(a, p, N);
        order(a, b);
        reads(b, p, N);
        order(b, a);
    }
}

// The way back is missing: the second write may overtake the first read.
static void ping_without_pong(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    for (int i = 0; i < 2; ++i) {
        writes(a, p, N);
        order(a, b);
        reads(b, p, N);
    }
}

// Two buffers: the producer waits for the reader of the buffer that it fills again.
static void double_buffering(void) {
    CUdeviceptr p[2] = {alloc(N), alloc(N)};
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent empty[2] = {make_event(), make_event()};
    for (int i = 0; i < 6; ++i) {
        CHECK(cuStreamWaitEvent(a, empty[i % 2],
                                0)); // not recorded in the first round: nothing to wait for
        writes(a, p[i % 2], N);
        order(a, b);
        reads(b, p[i % 2], N);
        CHECK(cuEventRecord(empty[i % 2], b));
    }
}

// The producer waits for the reader of the first buffer each time, also when it fills the second
// one again.
static void double_buffering_with_the_wrong_event(void) {
    CUdeviceptr p[2] = {alloc(N), alloc(N)};
    CUstream a = make_nonblocking(), b[2] = {make_nonblocking(), make_nonblocking()};
    CUevent empty[2] = {make_event(), make_event()};
    for (int i = 0; i < 4; ++i) {
        CHECK(cuStreamWaitEvent(a, empty[0], 0));
        writes(a, p[i % 2], N);
        order(a, b[i % 2]);
        reads(b[i % 2], p[i % 2], N);
        CHECK(cuEventRecord(empty[i % 2], b[i % 2]));
    }
}

// The host waits for the event; what it enqueues afterwards comes after the write.
static void host_waits_for_the_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventSynchronize(e));
    reads(b, p, N);
}

// The host waits for an event that was recorded before the write.
static void host_waits_for_an_early_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    writes(a, p, N);
    CHECK(cuEventSynchronize(e));
    reads(b, p, N);
}

// The host waits for the event after it enqueued the read: too late for the order on the device.
static void host_waits_after_the_read_was_enqueued(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    reads(b, p, N);
    CHECK(cuEventSynchronize(e));
}

// A query that succeeds orders like a wait of the host.
static void queried_until_done(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CUresult result;
    while ((result = cuEventQuery(e)) == CUDA_ERROR_NOT_READY) {
    }
    CHECK(result);
    reads(b, p, N);
}

// The event of a destroyed stream still covers its work.
static void stream_destroyed_after_the_record(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamDestroy(a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// Waiting once is enough for all that follows in the stream.
static void one_wait_for_many_reads(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, p, N);
    order(a, b);
    for (int i = 0; i < 5; ++i)
        reads(b, p, N);
}

// Work in one stream is done in order.
static void one_stream(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    reads(a, p, N);
    writes(a, p, N);
}

const struct race_program programs_events[] = {
    RACY(no_event),
    RACY(two_writers),
    RACY(write_after_unordered_read),
    CORRECT(event_between),
    CORRECT(write_after_ordered_read),
    RACY(wait_for_an_unrecorded_event),
    RACY(recorded_after_the_wait),
    RACY(recorded_too_early),
    RACY(recorded_between_two_writes),
    CORRECT(reads_only_what_the_event_covers),
    RACY(re_recorded_elsewhere_before_the_wait),
    CORRECT(re_recorded_elsewhere_after_the_wait),
    RACY(re_recorded_after_the_wait_covers_nothing),
    CORRECT(re_recorded_in_the_same_stream),
    CORRECT(one_event_for_two_producers),
    RACY(one_event_for_two_producers_waited_for_once),
    RACY(wait_after_the_access),
    RACY(wait_for_the_wrong_event),
    CORRECT(wait_for_the_right_event),
    RACY(recorded_in_the_wrong_stream),
    RACY(wrong_stream_waits),
    RACY(producer_waits_for_consumer),
    CORRECT(event_destroyed_after_the_wait),
    CORRECT(chain_of_three),
    CORRECT(chain_of_eight),
    RACY(chain_of_eight_without_one_link),
    RACY(links_in_the_wrong_order),
    CORRECT(diamond),
    RACY(diamond_without_one_join),
    RACY(diamond_without_one_fork),
    RACY(diamond_with_overlapping_sides),
    CORRECT(ping_pong),
    RACY(ping_without_pong),
    CORRECT(double_buffering),
    RACY(double_buffering_with_the_wrong_event),
    CORRECT(host_waits_for_the_event),
    RACY(host_waits_for_an_early_event),
    RACY(host_waits_after_the_read_was_enqueued),
    CORRECT(queried_until_done),
    CORRECT(stream_destroyed_after_the_record),
    CORRECT(one_wait_for_many_reads),
    CORRECT(one_stream),
    END_OF_PROGRAMS,
};
