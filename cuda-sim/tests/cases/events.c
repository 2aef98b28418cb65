// Events order streams by what was recorded last at the time of the wait. [cuEventRecord, cuStreamWaitEvent]
#include "case.h"

static void record_then_wait(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    after(b, a);
    reads(b, p, N);
}

static void no_event_at_all(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    reads(b, p, N);
}

static void recorded_too_early(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    OK(cuEventRecord(e, a));
    writes(a, p, N);
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void waited_too_late(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    reads(b, p, N);
    OK(cuStreamWaitEvent(b, e, 0));
}

// The wait is for the newest record, which is of another stream.
static void recorded_again_elsewhere_before_the_wait(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    OK(cuEventRecord(e, c));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// A record after the wait changes nothing for it.
static void recorded_again_after_the_wait(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventRecord(e, c));
    reads(b, p, N);
}

// Recorded again on the same stream, later: that covers the earlier work, too.
static void recorded_again_later_on_the_same_stream(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    writes(a, q, N);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
    reads(b, q, N);
}

static void work_after_the_record(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    writes(a, p, N);
    after(b, a);
    writes(a, q, N);
    reads(b, p, N);
    reads(b, q, N);
}

static void destroyed_after_the_wait(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy(e));
    // The handle comes back at once and means something else.
    CUevent other = event();
    OK(cuEventRecord(other, nonblocking()));
    reads(b, p, N);
}

// A wait for an event that was never recorded is no wait.
static void never_recorded(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void the_wrong_event(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    CUevent right = event(), wrong = event();
    writes(a, p, N);
    OK(cuEventRecord(right, a));
    OK(cuEventRecord(wrong, c));
    OK(cuStreamWaitEvent(b, wrong, 0));
    reads(b, p, N);
}

static void write_after_read(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    reads(a, p, N);
    writes(b, p, N);
}

static void write_after_read_in_order(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    reads(a, p, N);
    after(b, a);
    writes(b, p, N);
}

static void write_after_write(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    writes(b, p, N);
}

static void two_readers(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    after(b, a);
    after(c, a);
    reads(b, p, N);
    reads(c, p, N);
    reads(a, p, N);
}

static void the_writer_forgets_one_reader(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    after(b, a);
    after(c, a);
    reads(b, p, N);
    reads(c, p, N);
    after(a, b);
    writes(a, p, N);
}

static void the_writer_waits_for_all_readers(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    writes(a, p, N);
    after(b, a);
    after(c, a);
    reads(b, p, N);
    reads(c, p, N);
    after(a, b);
    after(a, c);
    writes(a, p, N);
}

static void a_chain_of_eight(void) {
    CUdeviceptr p = device(N);
    CUstream before = nonblocking();
    writes(before, p, N);
    for (int i = 0; i < 7; ++i) {
        CUstream next = nonblocking();
        after(next, before);
        before = next;
    }
    reads(before, p, N);
}

static void a_chain_with_a_gap(void) {
    CUdeviceptr p = device(N);
    CUstream before = nonblocking();
    writes(before, p, N);
    for (int i = 0; i < 7; ++i) {
        CUstream next = nonblocking();
        if (i != 3) {
            after(next, before);
        }
        before = next;
    }
    reads(before, p, N);
}

static void a_diamond(void) {
    CUstream top = nonblocking(), left = nonblocking(), right = nonblocking(), bottom = nonblocking();
    CUdeviceptr p = device(N), l = device(N), r = device(N);
    writes(top, p, N);
    after(left, top);
    after(right, top);
    reads(left, p, N);
    writes(left, l, N);
    reads(right, p, N);
    writes(right, r, N);
    after(bottom, left);
    after(bottom, right);
    reads(bottom, l, N);
    reads(bottom, r, N);
    writes(bottom, p, N);
}

static void a_diamond_with_one_edge_missing(void) {
    CUstream top = nonblocking(), left = nonblocking(), right = nonblocking(), bottom = nonblocking();
    CUdeviceptr p = device(N), r = device(N);
    writes(top, p, N);
    after(left, top);
    after(right, top);
    writes(right, r, N);
    after(bottom, left);
    reads(bottom, r, N);
}

// The specification's example: several streams into one.
static void a_join(void) {
    CUstream parts[3] = {nonblocking(), nonblocking(), nonblocking()}, out = nonblocking(),
             user = nonblocking();
    CUdeviceptr p = device(3 * N);
    for (int i = 0; i < 3; ++i) {
        writes(parts[i], p + (CUdeviceptr)i * N, N);
        after(out, parts[i]);
    }
    after(user, out);
    reads(user, p, 3 * N);
}

static void a_join_that_forgets_one(void) {
    CUstream parts[3] = {nonblocking(), nonblocking(), nonblocking()}, out = nonblocking(),
             user = nonblocking();
    CUdeviceptr p = device(3 * N);
    for (int i = 0; i < 3; ++i) {
        writes(parts[i], p + (CUdeviceptr)i * N, N);
        if (i != 1) {
            after(out, parts[i]);
        }
    }
    after(user, out);
    reads(user, p, 3 * N);
}

// One event, used in turns, as pools do.
static void one_event_for_many_waits(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    for (int i = 0; i < 20; ++i) {
        writes(a, p, N);
        OK(cuEventRecord(e, a));
        OK(cuStreamWaitEvent(b, e, 0));
        reads(b, p, N);
        OK(cuEventRecord(e, b));
        OK(cuStreamWaitEvent(a, e, 0));
    }
}

static void one_direction_only(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    for (int i = 0; i < 3; ++i) {
        writes(a, p, N);
        OK(cuEventRecord(e, a));
        OK(cuStreamWaitEvent(b, e, 0));
        reads(b, p, N);
    }
}

static void recorded_by_a_stream_that_waited(void) {
    CUstream a = nonblocking(), b = nonblocking(), c = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventRecord(e, b));
    OK(cuStreamWaitEvent(c, e, 0));
    reads(c, p, N);
}

const struct race_case events_cases[] = {
    CORRECT(record_then_wait),
    RACY(no_event_at_all),
    RACY(recorded_too_early),
    RACY(waited_too_late),
    RACY(recorded_again_elsewhere_before_the_wait),
    CORRECT(recorded_again_after_the_wait),
    CORRECT(recorded_again_later_on_the_same_stream),
    RACY(work_after_the_record),
    CORRECT(destroyed_after_the_wait),
    RACY(never_recorded),
    RACY(the_wrong_event),
    RACY(write_after_read),
    CORRECT(write_after_read_in_order),
    RACY(write_after_write),
    CORRECT(two_readers),
    RACY(the_writer_forgets_one_reader),
    CORRECT(the_writer_waits_for_all_readers),
    CORRECT(a_chain_of_eight),
    RACY(a_chain_with_a_gap),
    CORRECT(a_diamond),
    RACY(a_diamond_with_one_edge_missing),
    CORRECT(a_join),
    RACY(a_join_that_forgets_one),
    CORRECT(one_event_for_many_waits),
    RACY(one_direction_only),
    CORRECT(recorded_by_a_stream_that_waited),
    {NULL, 0, NULL},
};
