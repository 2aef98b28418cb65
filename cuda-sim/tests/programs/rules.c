// The rules of exchanging arrays. A program sends the events that a library would send, after the
// calls of the driver that the library would make. The name of a racy program begins with the rule
// that its report must name.
#include "exchange.h"

// --- R1: without a stream only what is done ---

static void r1_write_pending(void) {
    struct array a = make_array(alloc(N), NULL);
    a.stream = NO_STREAM;
    writes(make_nonblocking(), a.at, N);
    exports(&a);
}

static void r1_read_pending_of_a_writable_array(void) {
    struct array a = make_array(alloc(N), NULL);
    a.stream = NO_STREAM;
    reads(make_nonblocking(), a.at, N);
    exports(&a);
}

static void r1_only_one_of_two_waited_for(void) {
    struct array a = make_array(alloc(N), NULL);
    CUstream one = make_nonblocking();
    a.stream = NO_STREAM;
    writes(one, a.at, N / 2);
    writes(make_nonblocking(), a.at + N / 2, N / 2);
    CHECK(cuStreamSynchronize(one));
    exports(&a);
}

static void nothing_pending(void) {
    struct array a = make_array(alloc(N), NULL);
    CUstream s = make_nonblocking();
    a.stream = NO_STREAM;
    writes(s, a.at, N);
    CHECK(cuStreamSynchronize(s));
    exports(&a);
    reads_properly(&a, make_nonblocking());
}

static void read_pending_of_a_read_only_array(void) {
    struct array a = make_array(alloc(N), NULL);
    a.stream = NO_STREAM;
    a.flags = CUDASIM_CAI_READONLY;
    reads(make_nonblocking(), a.at, N);
    exports(&a);
    reads_properly(&a, make_nonblocking());
}

static void pending_beside_the_bytes(void) {
    struct array a = make_array(alloc(2 * N), NULL);
    a.stream = NO_STREAM;
    writes(make_nonblocking(), a.at + N, N);
    exports(&a);
}

// --- R2: the exported stream is enough ---

static void r2_join_forgotten(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    writes(make_nonblocking(), a.at, N);
    exports(&a);
}

static void r2_one_join_of_three_forgotten(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream parts[3];
    for (int i = 0; i < 3; ++i) {
        parts[i] = make_nonblocking();
        writes(parts[i], a.at + (CUdeviceptr)i * 64, 64);
        if (i != 1) order(parts[i], stream_of(&a));
    }
    exports(&a);
}

static void r2_readers_of_a_writable_array(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    reads(make_nonblocking(), a.at, N);
    exports(&a);
}

static void r2_legacy_does_not_cover_non_blocking(void) {
    struct array a = make_array(alloc(N), CU_STREAM_LEGACY);
    writes(make_nonblocking(), a.at, N);
    exports(&a);
}

static void joined(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    for (int i = 0; i < 3; ++i) {
        CUstream part = make_nonblocking();
        writes(part, a.at + (CUdeviceptr)i * 64, 64);
        order(part, stream_of(&a));
    }
    exports(&a);
    reads_properly(&a, make_nonblocking());
    writes(stream_of(&a), a.at, N);
}

static void legacy_covers_blocking(void) {
    struct array a = make_array(alloc(N), CU_STREAM_LEGACY);
    writes(make_stream(), a.at, N);
    exports(&a);
}

static void waited_for_by_the_host(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream other = make_nonblocking();
    writes(other, a.at, N);
    CHECK(cuStreamSynchronize(other));
    exports(&a);
    reads_properly(&a, make_nonblocking());
}

static void exported_again_while_it_is_read(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream reader = make_nonblocking();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    begins(&a, reader, CUDASIM_READ);
    reads(reader, a.at, N);
    exports(&a);
    reads_properly(&a, make_nonblocking());
    ends(&a, reader, CUDASIM_READ);
}

// --- R3 and R4: races with a name ---

static void r3_begin_forgotten(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    writes(stream_of(&a), a.at, N);
    exports(&a);
    reads(make_nonblocking(), a.at, N);
}

static void r3_begin_on_another_stream(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    begins(&a, make_nonblocking(), CUDASIM_READ);
    reads(mine, a.at, N);
}

static void r3_host_reads_at_once(void) {
    char *host = alloc_pinned(N);
    struct array a = make_array(at_device(host), make_nonblocking());
    writes(stream_of(&a), a.at, N);
    exports(&a);
    host_reads(host, N);
}

static void r4_end_forgotten(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, a.at, N);
    writes(stream_of(&a), a.at, N);
}

static void r4_second_consumer_overtakes_a_writer(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    begins(&a, mine, CUDASIM_WRITE);
    writes(mine, a.at, N);
    reads_properly(&a, make_nonblocking());
}

static void r4_without_an_owner(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    a.owner = NULL;
    exports(&a);
    begins(&a, mine, CUDASIM_WRITE);
    writes(mine, a.at, N);
    reads(stream_of(&a), a.at, N);
}

static void ping_pong(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    for (int i = 0; i < 3; ++i) {
        writes(stream_of(&a), a.at, N);
        exports(&a);
        begins(&a, mine, CUDASIM_READ | CUDASIM_WRITE);
        writes(mine, a.at, N);
        ends(&a, mine, CUDASIM_READ | CUDASIM_WRITE);
    }
    writes(stream_of(&a), a.at, N);
}

static void readers_one_after_another(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    writes(stream_of(&a), a.at, N);
    exports(&a);
    for (int i = 0; i < 4; ++i) {
        reads_properly(&a, make_nonblocking());
    }
    writes(stream_of(&a), a.at, N);
}

static void readers_at_once(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUevent written = make_event();
    CUstream readers[3];
    writes(stream_of(&a), a.at, N);
    CHECK(cuEventRecord(written, stream_of(&a)));
    exports(&a);
    for (int i = 0; i < 3; ++i) {
        readers[i] = make_nonblocking();
        CHECK(cuStreamWaitEvent(readers[i], written, 0));
        notify(CUDASIM_CAI_BEGIN, &a, readers[i], CUDASIM_READ);
        reads(readers[i], a.at, N);
    }
    for (int i = 0; i < 3; ++i) {
        ends(&a, readers[i], CUDASIM_READ);
    }
    writes(stream_of(&a), a.at, N);
}

static void on_the_producers_stream(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    writes(stream_of(&a), a.at, N);
    exports(&a);
    reads_properly(&a, stream_of(&a));
    writes(stream_of(&a), a.at, N);
}

static void r9_host_waited(void) {
    char *host = alloc_pinned(N);
    struct array a = make_array(at_device(host), make_nonblocking());
    writes(stream_of(&a), a.at, N);
    exports(&a);
    CHECK(cuStreamSynchronize(stream_of(&a)));
    notify(CUDASIM_CAI_SYNCHRONIZE, &a, NULL, CUDASIM_READ);
    host_reads(host, N);
    writes(stream_of(&a), a.at, N);
}

// --- R5: the owner lives until the last use ---

static void r5_destroyed_while_it_is_read(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, a.at, N);
    destroys(&a);
}

static void r5_without_a_stream_nothing_is_held_back(void) {
    struct array a = make_array(alloc(N), NULL);
    a.stream = NO_STREAM;
    exports(&a);
    reads_properly(&a, make_nonblocking());
    destroys(&a);
}

static void r5_one_of_two_consumers(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, a.at, N);
    reads_properly(&a, make_nonblocking());
    destroys(&a);
}

static void destroyed_after_the_end(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    exports(&a);
    reads_properly(&a, make_nonblocking());
    destroys(&a);
    writes(stream_of(&a), a.at, N);
}

static void destroyed_after_an_event(void) {
    struct array a = make_array(alloc(N), NULL);
    CUstream mine = make_nonblocking();
    CUevent used = make_event();
    a.stream = NO_STREAM;
    exports(&a);
    reads_properly(&a, mine);
    CHECK(cuEventRecord(used, mine));
    notify(CUDASIM_CAI_RELEASE_AFTER, &a, mine, 0);
    CHECK(cuEventSynchronize(used));
    destroys(&a);
    CHECK(cuMemFree(a.at));
}

static void destroyed_while_the_producer_works(void) {
    // The producer's own business, who sees to it in its destroy function.
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream inner = make_nonblocking();
    exports(&a);
    writes(inner, a.at, N);
    destroys(&a);
    CHECK(cuStreamSynchronize(inner));
    CHECK(cuMemFree(a.at));
}

// --- R6: the exported stream lives as long ---

static void r6_stream_destroyed_first(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    exports(&a);
    CHECK(cuStreamDestroy(stream_of(&a)));
}

static void r6_between_two_uses(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    exports(&a);
    reads_properly(&a, make_nonblocking());
    CHECK(cuStreamDestroy(stream_of(&a)));
    destroys(&a);
}

static void r6_of_the_newer_export(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    exports(&a);
    a.stream = (uint64_t)(uintptr_t)make_nonblocking();
    exports(&a);
    CHECK(cuStreamDestroy(stream_of(&a)));
}

static void stream_destroyed_after_the_array(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    exports(&a);
    reads_properly(&a, make_nonblocking());
    destroys(&a);
    CHECK(cuStreamDestroy(stream_of(&a)));
}

static void stream_of_the_older_export(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream older = stream_of(&a);
    exports(&a);
    a.stream = (uint64_t)(uintptr_t)make_nonblocking();
    exports(&a);
    CHECK(cuStreamDestroy(older));
}

static void consumers_stream_destroyed(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    exports(&a);
    reads_properly(&a, mine);
    CHECK(cuStreamDestroy(mine));
    writes(stream_of(&a), a.at, N);
}

// --- R7: what is only to be read ---

static void r7_written_after_begin_for_reading(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    writes(mine, a.at, N);
    ends(&a, mine, CUDASIM_READ);
}

static void r7_read_only_array_written(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    a.flags = CUDASIM_CAI_READONLY;
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    writes(mine, a.at + 8, 8);
    ends(&a, mine, CUDASIM_READ);
}

static void r7_default_stream(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    exports(&a);
    begins(&a, CU_STREAM_PER_THREAD, CUDASIM_READ);
    writes(CU_STREAM_PER_THREAD, a.at, N);
    ends(&a, CU_STREAM_PER_THREAD, CUDASIM_READ);
}

static void written_after_begin_for_writing(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    CUstream mine = make_nonblocking();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, a.at, N);
    ends(&a, mine, CUDASIM_READ);
    begins(&a, mine, CUDASIM_WRITE);
    writes(mine, a.at, N);
    ends(&a, mine, CUDASIM_WRITE);
}

static void output_beside_the_input(void) {
    struct array a = make_array(alloc(2 * N), make_nonblocking());
    CUstream mine = make_nonblocking();
    a.flags = CUDASIM_CAI_READONLY;
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, a.at, N);
    writes(mine, a.at + N, N);
    ends(&a, mine, CUDASIM_READ);
}

static void producer_writes_its_read_only_array(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    a.flags = CUDASIM_CAI_READONLY;
    exports(&a);
    reads_properly(&a, make_nonblocking());
    writes(stream_of(&a), a.at, N);
    exports(&a);
}

// --- look-alikes ---

static void owner_addresses_come_back(void) {
    CUstream mine = make_nonblocking();
    for (int i = 0; i < 3; ++i) {
        struct array a = make_array(alloc(N), make_nonblocking());
        writes(stream_of(&a), a.at, N);
        exports(&a);
        reads_properly(&a, mine);
        destroys(&a);
        CHECK(cuStreamSynchronize(stream_of(&a)));
        CHECK(cuStreamDestroy(stream_of(&a)));
        CHECK(cuMemFree(a.at));
    }
}

static void columns_of_two_owners(void) {
    // Interleaved, and each exported by its own stream.
    CUdeviceptr at = alloc(N);
    for (int i = 0; i < 2; ++i) {
        CUstream producer = make_nonblocking(), mine = make_nonblocking();
        cudasim_cai_note note = {
            .struct_size = sizeof note,
            .kind = CUDASIM_CAI_EXPORT,
            .owner = &owners[i],
            .bytes = {.address = at + (CUdeviceptr)i * 4,
                      .nbytes = 4,
                      .mode = CUDASIM_READ | CUDASIM_WRITE,
                      .ndim = 1,
                      .count = {N / 8},
                      .stride = {8}},
            .stream = (uint64_t)(uintptr_t)producer,
        };
        writes_strided(producer, at + (CUdeviceptr)i * 4, 4, N / 8, 8);
        cudasim_cai(&note);
        order(producer, mine);
        note.kind = CUDASIM_CAI_BEGIN;
        note.consumer = (uint64_t)(uintptr_t)mine;
        cudasim_cai(&note);
        writes_strided(mine, at + (CUdeviceptr)i * 4, 4, N / 8, 8);
    }
}

static void stream_that_is_unknown(void) {
    struct array a = make_array(alloc(N), NULL);
    CUstream s = make_nonblocking(), mine = make_nonblocking();
    a.stream = UNKNOWN_STREAM;
    writes(s, a.at, N);
    exports(&a);
    order(s, mine);
    reads_properly(&a, mine);
}

static void legacy_stream_of_another_device(void) {
    CUcontext here = primary(0), there = primary(1);
    use(here);
    struct array a = make_array(alloc(N), CU_STREAM_LEGACY);
    a.context = here;
    CUevent done = make_event();
    writes(CU_STREAM_LEGACY, a.at, N);
    exports(&a);
    CHECK(cuEventRecord(done, CU_STREAM_LEGACY));
    use(there);
    CUstream mine = make_nonblocking();
    CHECK(cuStreamWaitEvent(mine, done, 0));
    notify(CUDASIM_CAI_BEGIN, &a, mine, CUDASIM_READ);
    reads(mine, a.at, N);
}

const struct race_program programs_rules[] = {
    RACY(r1_write_pending),
    RACY(r1_read_pending_of_a_writable_array),
    RACY(r1_only_one_of_two_waited_for),
    CORRECT(nothing_pending),
    CORRECT(read_pending_of_a_read_only_array),
    CORRECT(pending_beside_the_bytes),
    RACY(r2_join_forgotten),
    RACY(r2_one_join_of_three_forgotten),
    RACY(r2_readers_of_a_writable_array),
    RACY(r2_legacy_does_not_cover_non_blocking),
    CORRECT(joined),
    CORRECT(legacy_covers_blocking),
    CORRECT(waited_for_by_the_host),
    CORRECT(exported_again_while_it_is_read),
    RACY(r3_begin_forgotten),
    RACY(r3_begin_on_another_stream),
    RACY(r3_host_reads_at_once),
    RACY(r4_end_forgotten),
    RACY(r4_second_consumer_overtakes_a_writer),
    RACY(r4_without_an_owner),
    CORRECT(ping_pong),
    CORRECT(readers_one_after_another),
    CORRECT(readers_at_once),
    CORRECT(on_the_producers_stream),
    REMARK(r9_host_waited),
    RACY(r5_destroyed_while_it_is_read),
    RACY(r5_without_a_stream_nothing_is_held_back),
    RACY(r5_one_of_two_consumers),
    CORRECT(destroyed_after_the_end),
    CORRECT(destroyed_after_an_event),
    CORRECT(destroyed_while_the_producer_works),
    RACY(r6_stream_destroyed_first),
    RACY(r6_between_two_uses),
    RACY(r6_of_the_newer_export),
    CORRECT(stream_destroyed_after_the_array),
    CORRECT(stream_of_the_older_export),
    CORRECT(consumers_stream_destroyed),
    RACY(r7_written_after_begin_for_reading),
    RACY(r7_read_only_array_written),
    RACY(r7_default_stream),
    CORRECT(written_after_begin_for_writing),
    CORRECT(output_beside_the_input),
    CORRECT(producer_writes_its_read_only_array),
    CORRECT(owner_addresses_come_back),
    CORRECT(columns_of_two_owners),
    CORRECT(stream_that_is_unknown),
    CORRECT(legacy_stream_of_another_device),
    END_OF_PROGRAMS,
};
