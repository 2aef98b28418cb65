/*
 * Channels between two processes: this one exports, and a child that it starts, this program again
 * with the name of a part, imports. The table of cai_unstable_channel_create is tested row by row.
 * run: sim eager lazy random:7 threads hidden; omit works
 */
#include "channel_test.h"

/* An array whose owner also frees the buffer, on any thread. */
static void free_buffer(void *buffer) {
    CU(cuCtxSetCurrent(context[0]));
    CU(cuMemFree((CUdeviceptr)(uintptr_t)buffer));
    count_destroyed(&freed);
}

static cai_array owning(CUdeviceptr buffer, cai_stream stream) {
    cai_array borrowed = array_of(buffer, stream), array = CAI_ARRAY_INIT;
    OK(cai_array_create(&borrowed, (void *)(uintptr_t)buffer, free_buffer, &array, error));
    return array;
}

/* --- order */

/* Reads an array and writes to it, on a stream of its own; without a wait that `word` names. */
PART(uses) {
    const int access = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    CUstream stream = new_stream();
    CUdeviceptr out = new_buffer();
    create(0);
    cai_array array = import_array(from);
    char word = word_from(from);
    ASSERT(array.ndim == 1 && array.shape[0] == N && array.device.type == CAI_DEVICE_CUDA);
    if (word != 'b') OK(cai_array_consume_begin(&array, as_value(stream), access, error));
    copy(out, (CUdeviceptr)(uintptr_t)array.data, stream);
    fill((CUdeviceptr)(uintptr_t)array.data, 2, stream);
    if (word != 'e') OK(cai_array_consume_end(&array, as_value(stream), access, error));
    /* The work may be running. */
    cai_array_release(&array);
    ASSERT(array.owner == NULL);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    CU(cuStreamSynchronize(stream));
    if (word == 'n') ASSERT(holds(out, 1, stream));
    tell(from, races() > 0 ? 'r' : 'n');
    end_channel();
}

/* Keeps an allocation open in importers, whose closing it would also be an order of work. */
static uint64_t export_nothing_pending(CUdeviceptr buffer) {
    cai_array array = owned(buffer, CAI_STREAM_NONE);
    packet unused;
    return record_of(&array, &unused);
}

static CUdeviceptr of_a_pool(void) {
    return pool_buffer(new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

static CUdeviceptr of_mapped_memory(void) {
    return mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

/* Exports memory with pending work, and uses it once it comes back. Returns the number of races. */
static int exporter(CUdeviceptr new_buffer_of(void), char word, cai_stream stated) {
    CUstream stream = new_stream();
    CUdeviceptr buffer = new_buffer_of(), other = new_buffer();
    create(0);
    unsetenv("CALLS"); /* only those of this process are left out one by one */
    start_peer("uses");
    uint64_t other_array = export_nothing_pending(buffer);
    atomic_store(&freed, 0);
    fill(buffer, 1, stream);
    if (stated == CAI_STREAM_NONE) CU(cuStreamSynchronize(stream));
    cai_array array = stated == 0 ? owned(buffer, as_value(stream)) : owning(buffer, stated);
    if (stated == CAI_STREAM_UNKNOWN) {
        array.event = new_event();
        CU(cuEventRecord(array.event, stream));
    }
    uint64_t made = export_array(&array);
    ASSERT(freed == 0);
    tell(peer_socket, word);
    ASSERT(word_from(peer_socket) == 'd');
    withdraw(made);
    ASSERT_STATUS(CAI_ERR_IPC_SLOT, cai_unstable_channel_withdraw(the_channel, made, NULL));
    wait_until(1);
    /* A stream that is not stated does not wait; then the array is released after the work. */
    ASSERT(stated != 0 || freed == 1);
    ASSERT(comes_true(is_one, &freed));
    if (stated == 0) {
        copy(other, buffer, stream);
        if (word == 'n') ASSERT(holds(buffer, 2, stream));
    }
    CU(cuStreamSynchronize(stream));
    int found = races() > 0;
    tell(peer_socket, 'e');
    found |= word_from(peer_socket) == 'r';
    /* Not counted: nothing used it, so nothing need wait. */
    ASSERT(cai_unstable_channel_withdraw(the_channel, other_array, NULL) == CAI_OK);
    wait_until(0);
    end_peer();
    end_channel();
    if (stated == 0 && new_buffer_of == new_buffer) CU(cuMemFree(buffer));
    return found;
}

static int by_numbers(CUdeviceptr new_buffer_of(void), char word, cai_stream stated) {
    flags = CAI_UNSTABLE_CHANNEL_NUMBERS;
    return exporter(new_buffer_of, word, stated);
}

CASE(works) { ASSERT(!exporter(new_buffer, 'n', 0)); }
CASE(without_a_stream) { ASSERT(!exporter(new_buffer, 'n', CAI_STREAM_NONE)); }
CASE(unknown_stream_with_an_event) { ASSERT(!exporter(new_buffer, 'n', CAI_STREAM_UNKNOWN)); }
CASE(a_begin_is_left_out) { ASSERT(exporter(new_buffer, 'b', 0)); }
CASE(an_end_is_left_out) { ASSERT(exporter(new_buffer, 'e', 0)); }
CASE(a_pool) { ASSERT(!exporter(of_a_pool, 'n', 0)); }
CASE(a_pool_and_a_begin_is_left_out) { ASSERT(exporter(of_a_pool, 'b', 0)); }
CASE(a_pool_and_an_end_is_left_out) { ASSERT(exporter(of_a_pool, 'e', 0)); }
CASE(mapped_memory) { ASSERT(!exporter(of_mapped_memory, 'n', 0)); }
CASE(numbers_work) { ASSERT(!by_numbers(new_buffer, 'n', 0)); }
CASE(numbers_without_a_stream) { ASSERT(!by_numbers(new_buffer, 'n', CAI_STREAM_NONE)); }
CASE(numbers_and_an_unknown_stream) { ASSERT(!by_numbers(new_buffer, 'n', CAI_STREAM_UNKNOWN)); }
CASE(numbers_and_a_begin_is_left_out) { ASSERT(by_numbers(new_buffer, 'b', 0)); }
CASE(numbers_and_an_end_is_left_out) { ASSERT(by_numbers(new_buffer, 'e', 0)); }
CASE(numbers_and_a_pool) { ASSERT(!by_numbers(of_a_pool, 'n', 0)); }
CASE(numbers_and_mapped_memory) { ASSERT(!by_numbers(of_mapped_memory, 'n', 0)); }

/* --- many numbers */

enum { MANY = 100 };

PART(reads_many) {
    static packet packets[MANY];
    CUstream stream = new_stream();
    CUdeviceptr out = new_buffer();
    create(0);
    for (int i = 0; i < MANY; ++i)
        receive_packet(from, &packets[i]);
    ASSERT(word_from(from) == 'g');
    for (int i = 0; i < MANY; ++i) {
        cai_array array = import_packet(&packets[i]);
        read_into(out, &array, stream);
        cai_array_release(&array);
    }
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    CU(cuStreamSynchronize(stream));
    ASSERT(races() == 0);
    end_channel();
}

/* The second importer waits for a number after which the first one has written many. */
CASE(numbers_of_many_arrays) {
    uint64_t made[MANY];
    int sockets[2];
    CUstream stream = new_stream();
    flags = CAI_UNSTABLE_CHANNEL_NUMBERS;
    create(0);
    for (int i = 0; i < 2; ++i) {
        start_peer("reads_many");
        sockets[i] = peer_socket;
    }
    for (int i = 0; i < MANY; ++i) {
        const CUdeviceptr buffer = new_buffer();
        cai_array array = owned(buffer, as_value(stream));
        packet it = {0};
        size_t size;
        fill(buffer, i, stream);
        OK(cai_unstable_channel_export(the_channel, 0, &array, it.bytes, sizeof it.bytes, &size,
                                       &made[i], error));
        it.size = size;
        cai_array_release(&array);
        send_packet(sockets[0], &it, -1);
        send_packet(sockets[1], &it, -1);
    }
    for (int i = 0; i < 2; ++i) {
        tell(sockets[i], 'g');
        ASSERT(word_from(sockets[i]) == 'd');
    }
    for (int i = 0; i < MANY; ++i)
        withdraw(made[i]);
    wait_until(0);
    ASSERT(freed == MANY);
    for (int i = 0; i < 2; ++i)
        tell(sockets[i], 'e');
    for (int status; wait(&status) > 0;)
        ASSERT(status == 0);
    end_channel();
    ASSERT(races() == 0);
}

/* --- threads */

/* Imports the second packet on a thread that nothing orders after the first import but the channel:
 * it does not sleep, so that the race checker observes no other order.
 */
static packet second_packet;
static atomic_int may_import;

static void *imports_second(void *unused) {
    CUstream stream;
    CUdeviceptr out;
    cai_array array;
    CU(cuCtxSetCurrent(context[0]));
    stream = new_stream();
    out = new_buffer();
    while (!atomic_load(&may_import))
        sched_yield();
    array = import_packet(&second_packet);
    read_into(out, &array, stream);
    CU(cuStreamSynchronize(stream));
    cai_array_release(&array);
    return unused;
}

PART(imports_in_two_threads) {
    packet it;
    cai_array connects, array;
    pthread_t thread;
    create(0);
    connects = import_array(from);
    receive_packet(from, &it);
    receive_packet(from, &second_packet);
    ASSERT(pthread_create(&thread, NULL, imports_second, NULL) == 0);
    array = import_packet(&it);
    atomic_store(&may_import, 1);
    ASSERT(pthread_join(thread, NULL) == 0);
    cai_array_release(&array);
    cai_array_release(&connects);
    ASSERT(races() == 0);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    end_channel();
}

/* The locks of the channel order what opens memory before what uses it in another thread. */
static void imported_in_two_threads(CUdeviceptr new_buffer_of(void), unsigned how) {
    const CUdeviceptr buffers[2] = {new_buffer_of(), new_buffer_of()};
    uint64_t made[3];
    flags = how;
    create(0);
    start_peer("imports_in_two_threads");
    for (int i = 0; i < 3; ++i) {
        /* Without work that is pending, no stream orders it either. */
        cai_array array = owned(buffers[i > 0], CAI_STREAM_NONE);
        made[i] = export_array(&array);
    }
    ASSERT(word_from(peer_socket) == 'd');
    for (int i = 0; i < 3; ++i)
        withdraw(made[i]);
    wait_until(0);
    tell(peer_socket, 'e');
    end_peer();
    end_channel();
    ASSERT(races() == 0);
}

CASE(two_threads_import) { imported_in_two_threads(new_buffer, 0); }
CASE(two_threads_import_from_a_pool) { imported_in_two_threads(of_a_pool, 0); }
CASE(two_threads_import_mapped_memory) { imported_in_two_threads(of_mapped_memory, 0); }
CASE(two_threads_import_by_numbers) {
    imported_in_two_threads(of_a_pool, CAI_UNSTABLE_CHANNEL_NUMBERS);
}

/* Reads the masks of two arrays. */
PART(reads_masks) {
    CUstream stream = new_stream();
    CUdeviceptr out = new_buffer();
    cai_array arrays[2];
    create(0);
    for (int i = 0; i < 2; ++i)
        arrays[i] = import_array(from);
    for (int i = 0; i < 2; ++i) {
        OK(cai_array_consume_begin(&arrays[i], as_value(stream), CAI_ACCESS_READ, error));
        copy(out, (CUdeviceptr)(uintptr_t)arrays[i].mask->data, stream);
        OK(cai_array_consume_end(&arrays[i], as_value(stream), CAI_ACCESS_READ, error));
    }
    for (int i = 0; i < 2; ++i)
        cai_array_release(&arrays[i]);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    CU(cuStreamSynchronize(stream));
    tell(from, races() > 0 ? 'r' : 'n');
    end_channel();
}

/* Masks have streams of their own, which wait for the importer, too. */
CASE(arrays_of_one_stream_with_masks_of_others) {
    CUstream stream = new_stream(), of_masks[2] = {new_stream(), new_stream()};
    CUdeviceptr masks[2], buffer = new_buffer();
    uint64_t made[2], others[3];
    create(0);
    start_peer("reads_masks");
    others[2] = export_nothing_pending(buffer);
    for (int i = 0; i < 2; ++i) {
        cai_array array = array_of(buffer, as_value(stream)), kept = CAI_ARRAY_INIT;
        cai_array mask = array_of(masks[i] = new_buffer(), as_value(of_masks[i]));
        memcpy(mask.typestr, "|b1", 4);
        array.mask = &mask;
        others[i] = export_nothing_pending(masks[i]);
        fill(masks[i], 0x01010101, of_masks[i]);
        OK(cai_array_create(&array, &freed, count_destroyed, &kept, error));
        made[i] = export_array(&kept);
    }
    ASSERT(word_from(peer_socket) == 'd');
    atomic_store(&freed, 0);
    for (int i = 0; i < 2; ++i)
        withdraw(made[i]);
    wait_until(3);
    ASSERT(freed == 2);
    for (int i = 0; i < 2; ++i)
        fill(masks[i], 0, of_masks[i]);
    for (int i = 0; i < 2; ++i)
        CU(cuStreamSynchronize(of_masks[i]));
    ASSERT(races() == 0);
    tell(peer_socket, 'e');
    ASSERT(word_from(peer_socket) == 'n');
    for (int i = 0; i < 3; ++i)
        withdraw(others[i]);
    wait_until(0);
    end_peer();
    end_channel();
}

/* More streams than have a ready event of their own: each has one entry all the same. */
CASE(fifty_streams) {
    enum { STREAMS = 50, TIMES = 20 };
    uint64_t made[STREAMS + TIMES + 1];
    packet it;
    int count = 0;
    create(0);
    CUstream stream = NULL;
    while (count < STREAMS + TIMES) {
        if (count < STREAMS) stream = new_stream();
        cai_array array = owned(new_buffer(), as_value(stream));
        made[count++] = record_of(&array, &it);
    }
    use(context[devices - 1]);
    cai_array array = owned(new_buffer(), as_value(new_stream()));
    made[count++] = record_of(&array, &it);
    use(context[0]);
    for (int i = 0; i < count; ++i)
        withdraw(made[i]);
    wait_until(0);
    end_channel();
}

/* Writes to arrays of two devices. */
PART(writes_to_three) {
    cai_array arrays[3];
    create(0);
    for (int i = 0; i < 3; ++i)
        arrays[i] = import_array(from);
    for (int i = 0; i < 3; ++i) {
        use(context[i > 0 ? devices - 1 : 0]);
        write_from(&arrays[i], 2, new_stream());
        cai_array_release(&arrays[i]);
    }
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    end_channel();
}

/* Memory of pools has no context: its device says which default stream is meant, and where numbers
 * are. */
static void default_streams(unsigned how) {
    CUdeviceptr buffers[3];
    uint64_t made[3], others[3];
    flags = how;
    create(0);
    start_peer("writes_to_three");
    for (int i = 0; i < 3; ++i) {
        const int on = i > 0 ? devices - 1 : 0;
        use(context[on]);
        buffers[i] = i == 2
                         ? new_buffer()
                         : pool_buffer(new_pool_on(on, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        cai_array array = owned(buffers[i], CAI_STREAM_LEGACY);
        made[i] = export_array(&array);
        others[i] = export_nothing_pending(buffers[i]);
    }
    ASSERT(word_from(peer_socket) == 'd');
    use(context[0]);
    /* Before the last one, whose stream is that of the second. */
    withdraw(made[0]);
    withdraw(made[1]);
    wait_until(4);
    for (int i = 0; i < 3; ++i) {
        use(context[i > 0 ? devices - 1 : 0]);
        if (i == 2) withdraw(made[i]);
        fill(buffers[i], 3, CU_STREAM_LEGACY);
    }
    wait_until(3);
    CU(cuStreamSynchronize(CU_STREAM_LEGACY));
    ASSERT(races() == 0);
    for (int i = 0; i < 3; ++i)
        withdraw(others[i]);
    wait_until(0);
    use(context[0]);
    tell(peer_socket, 'e');
    end_peer();
    end_channel();
}

CASE(default_streams_of_two_devices) { default_streams(0); }
CASE(numbers_and_default_streams_of_two_devices) { default_streams(CAI_UNSTABLE_CHANNEL_NUMBERS); }

/* --- processes that end */

PART(is_killed) {
    create(0);
    cai_array array = import_array(from);
    write_from(&array, 2, new_stream());
    tell(from, 'd');
    pause();
}

static void the_importer_ends(void) {
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    cai_array array = owned(buffer, as_value(stream));
    create(0);
    start_peer("is_killed");
    export_nothing_pending(buffer);
    atomic_store(&freed, 0);
    uint64_t made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    withdraw(made);
    ASSERT(polled() == 2 && freed == 0);
    kill_peer();
    ASSERT(freed == 0);
    wait_until(1);
    ASSERT(freed == 1);
    /* Not waited for: the event may never complete. */
    CU(cuStreamSynchronize(stream));
    end_channel();
    races();
}

CASE(the_importer_is_killed) { the_importer_ends(); }

CASE(numbers_and_the_importer_is_killed) {
    flags = CAI_UNSTABLE_CHANNEL_NUMBERS;
    the_importer_ends();
}

/* A stream that waits for a number that nothing writes. */
static CUstream new_stuck_stream(void) {
    CUstream stream = new_stream();
    const CUdeviceptr number = new_buffer();
    fill(number, 0, stream);
    CU(cuStreamWaitValue64(stream, number, UINT32_MAX, CU_STREAM_WAIT_VALUE_EQ));
    return stream;
}

PART(is_killed_with_stuck_work) {
    create(0);
    cai_array array = import_array(from);
    write_from(&array, 2, new_stuck_stream());
    cai_array_release(&array);
    tell(from, 'd');
    pause();
}

/* The exporter's stream waits already for what an importer's stream never does, twice. */
CASE(numbers_and_stuck_importers_are_killed) {
    CUdeviceptr buffer = new_buffer(), other = new_buffer();
    CUstream stream = new_stream();
    flags = CAI_UNSTABLE_CHANNEL_NUMBERS;
    create(0);
    for (int i = 1; i < 3; ++i) {
        cai_array array = owned(buffer, as_value(stream));
        start_peer("is_killed_with_stuck_work");
        export_nothing_pending(buffer);
        atomic_store(&freed, 0);
        uint64_t made = export_array(&array);
        ASSERT(word_from(peer_socket) == 'd');
        withdraw(made);
        ASSERT(polled() == (uint64_t)i && freed == 1);
        copy(other, buffer, stream);
        ASSERT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
        kill_peer();
        polled();
        CU(cuStreamSynchronize(stream));
    }
    end_channel();
    races();
}

PART(exports_stuck_work) {
    const CUdeviceptr buffer = new_buffer();
    cai_array array = owned(buffer, as_value(new_stuck_stream()));
    flags = CAI_UNSTABLE_CHANNEL_NUMBERS;
    create(0);
    peer_socket = from;
    export_array(&array);
    word_from(from);
}

/* A consumer's stream waits already for what the exporter's stream never does. */
CASE(numbers_and_a_stuck_exporter_is_killed) {
    CUstream stream = new_stream();
    packet it;
    create(0);
    start_peer("exports_stuck_work");
    receive_packet(peer_socket, &it);
    cai_array array = import_packet(&it);
    OK(cai_array_consume_begin(&array, as_value(stream), CAI_ACCESS_READ, error));
    ASSERT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    kill_peer();
    polled();
    CU(cuStreamSynchronize(stream));
    cai_array_release(&array);
    end_channel();
}

PART(exports) {
    cai_array array = owned(new_buffer(), as_value(new_stream()));
    create(0);
    peer_socket = from;
    export_array(&array);
    word_from(from);
}

/* A process that exports and is killed, and one that follows it. */
CASE(the_exporter_is_killed) {
    CUstream stream = new_stream();
    const cai_stream consumer = as_value(stream);
    cai_array array, other;
    cai_error why;
    packet it, again;
    create(0);
    start_peer("exports");
    receive_packet(peer_socket, &it);
    array = import_packet(&it);
    read_into(new_buffer(), &array, stream);
    kill_peer();
    polled();
    REFUSED(CAI_ERR_IPC_PEER, "stream",
            cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_IPC_PEER, "stream", cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&it, &other, &why));
    OK(cai_array_consume_end(&array, consumer, CAI_ACCESS_READ, error));
    cai_array_release(&array);
    polled();
    start_peer("exports");
    receive_packet(peer_socket, &again);
    array = import_packet(&again);
    ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&it, &other, &why));
    ASSERT(strstr(why.message, "has ended") != NULL);
    read_into(new_buffer(), &array, stream);
    CU(cuStreamSynchronize(stream));
    cai_array_release(&array);
    kill_peer();
    end_channel();
}

PART(exports_two) {
    cai_array arrays[2];
    create(0);
    peer_socket = from;
    for (int i = 0; i < 2; ++i) {
        arrays[i] = owned(new_buffer(), CAI_STREAM_NONE);
        export_array(&arrays[i]);
    }
    word_from(from);
}

/* The second array was sent, but not opened, and nothing has polled since the exporter's end. */
CASE(the_exporter_is_killed_before_an_import) {
    cai_array array, other;
    cai_error why;
    packet first, second;
    create(0);
    start_peer("exports_two");
    receive_packet(peer_socket, &first);
    receive_packet(peer_socket, &second);
    array = import_packet(&first);
    kill_peer();
    ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&second, &other, &why));
    ASSERT(strstr(why.message, "has ended") != NULL);
    cai_array_release(&array);
    polled();
    end_channel();
}

/* --- refusals of the exporter */

CASE(keys_and_a_full_table) {
    const CUdeviceptr buffer = new_buffer();
    cai_array array = owned(buffer, CAI_STREAM_NONE), other = owned(buffer, CAI_STREAM_NONE);
    cai_array pool = owned(pool_buffer(new_pool(0)), CAI_STREAM_NONE);
    cai_array mapped = owned(mapped_buffer(0), CAI_STREAM_NONE);
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE], again[CAI_UNSTABLE_IPC_SIZE];
    uint64_t made[3] = {0, 0, 0};
    size_t size, same;
    create(2);
#define EXPORT(key, array, to, size, made) \
    cai_unstable_channel_export(the_channel, key, array, to, sizeof to, size, made, error)
    OK(EXPORT(7, &array, bytes, &size, &made[0]));
    OK(EXPORT(7, &array, again, &same, &made[1]));
    ASSERT(made[0] == made[1] && same == size && memcmp(bytes, again, size) == 0);
    ASSERT(polled() == 1);
    REFUSED(CAI_ERR_IPC_SLOT, "key", EXPORT(7, &other, bytes, &size, &made[1]));
    OK(EXPORT(0, &array, bytes, &size, &made[1]));
    REFUSED(CAI_ERR_IPC_FULL, "channel", EXPORT(0, &array, bytes, &size, &made[2]));
    ASSERT(made[2] == 0);
    withdraw(made[0]);
    /* The slot is used again, but not its number. */
    OK(EXPORT(7, &other, bytes, &size, &made[2]));
    ASSERT(made[2] != made[0] && (uint32_t)made[2] == (uint32_t)made[0]);
    REFUSED(CAI_ERR_IPC_SLOT, "export", cai_unstable_channel_withdraw(the_channel, made[0], error));
    withdraw(made[1]);
    REFUSED(CAI_ERR_IPC_MEMORY, "data", EXPORT(0, &pool, bytes, &size, &made[0]));
    REFUSED(CAI_ERR_IPC_MEMORY, "data", EXPORT(0, &mapped, bytes, &size, &made[0]));
    REFUSED(CAI_ERR_BUFFER_SIZE, "size",
            cai_unstable_channel_export(the_channel, 0, &array, bytes, size - 1, NULL, &made[0],
                                        error));
    ASSERT(polled() == 1);
    /* Nothing of this process itself, and nothing behind the slots. */
    OK(EXPORT(7, &other, bytes, &size, &made[2]));
    {
        packet it;
        cai_array out;
        cai_error why;
        it.size = size;
        memcpy(it.bytes, bytes, size);
        ASSERT_STATUS(CAI_ERR_IPC_MEMORY, try_import(&it, &out, &why));
        it.bytes[16] ^= 1;
        ASSERT_STATUS(CAI_ERR_IPC_NODE, try_import(&it, &out, &why));
        ASSERT(strstr(why.message, "boot id") != NULL);
        it.bytes[16] ^= 1;
        it.bytes[40] ^= 1;
        ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&it, &out, &why));
        it.bytes[32] ^= 1;
        ASSERT_STATUS(CAI_ERR_IPC_NODE, try_import(&it, &out, &why));
        it.bytes[72] = 2;
        ASSERT_STATUS(CAI_ERR_IPC_BYTES, try_import(&it, &out, &why));
    }
    cai_array_release(&array);
    cai_array_release(&pool);
    cai_array_release(&mapped);
    cai_array_release(&other);
    atomic_store(&freed, 0);
    end_channel();
    ASSERT(freed == 1);
    REFUSED(CAI_ERR_ARGUMENT, "channel", EXPORT(0, &array, bytes, &size, &made[0]));
    REFUSED(CAI_ERR_ARGUMENT, "slots", cai_unstable_channel_create(1u << 21, 0, made, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags", cai_unstable_channel_create(0, 2, made, error));
}

/* The driver in between leaves the question out, so that the answer stays no. */
CASE(a_device_without_numbers) {
    CUstream stream = new_stream();
    cai_array array = owned(new_buffer(), as_value(stream));
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    uint64_t made = 0;
    flags = CAI_UNSTABLE_CHANNEL_NUMBERS;
    create(0);
    the_shim.arm(1);
    REFUSED(CAI_ERR_DRIVER_FUNCTION, "channel",
            cai_unstable_channel_export(the_channel, 0, &array, bytes, sizeof bytes, NULL, &made,
                                        error));
    the_shim.arm(0);
    ASSERT(made == 0 && polled() == 0);
    OK(cai_unstable_channel_export(the_channel, 0, &array, bytes, sizeof bytes, NULL, &made,
                                   error));
    withdraw(made);
    cai_array_release(&array);
    wait_until(0);
    ASSERT(freed == 1);
    /* The stream may still write a number, although no importer has come. */
    end_channel();
}

/* --- refusals of the importer */

/* Every byte of a record altered in several ways, and every length: a failed import leaves no
 * claim.
 */
PART(is_attacked) {
    static const unsigned char changes[] = {1, 2, 0x10, 0x80, 0xff};
    long count[2] = {0, 0};
    cai_array array;
    cai_error why;
    packet it;
    create(0);
    receive_packet(from, &it);
    /* Another number of slots: the exporter refuses that connection, and not the next. */
    it.bytes[60] ^= 1;
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    it.bytes[60] ^= 1;
    array = import_packet(&it);
    cai_array_release(&array);
    for (size_t at = 0; at < 5 * it.size; ++at) {
        packet bad = it;
        bad.bytes[at / 5] ^= changes[at % 5];
        cai_status status = try_import(&bad, &array, &why);
        ASSERT(status == CAI_OK || (array.owner == NULL && why.code == status));
        ASSERT(status != CAI_ERR_INTERNAL);
        ++count[status == CAI_OK];
        if (status == CAI_OK) {
            ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
            cai_array_release(&array);
        }
    }
    ASSERT(count[0] > 500);
    for (size_t size = 0; size < it.size; ++size) {
        packet bad = it;
        bad.size = size;
        ASSERT_STATUS(CAI_ERR_IPC_BYTES, try_import(&bad, &array, &why));
    }
    /* Another slot, and another generation of it. */
    it.bytes[72] ^= 1;
    ASSERT_STATUS(CAI_ERR_IPC_SLOT, try_import(&it, &array, &why));
    it.bytes[72] ^= 1;
    it.bytes[76] ^= 2;
    ASSERT_STATUS(CAI_ERR_IPC_SLOT, try_import(&it, &array, &why));
    it.bytes[76] ^= 2;
    tell(from, 'd');
    ASSERT(hear(from) == 'w');
    /* Nothing is imported after the withdrawal; what was before is not affected by it. */
    ASSERT_STATUS(CAI_ERR_IPC_SLOT, try_import(&it, &array, &why));
    tell(from, 'e');
    ASSERT(word_from(from) == 'e');
    end_channel();
}

CASE(records_are_altered) {
    cai_array array = owned(new_buffer(), as_value(new_stream()));
    create(0);
    start_peer("is_attacked");
    atomic_store(&freed, 0);
    uint64_t made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    withdraw(made);
    /* The importer has given everything back, but has the allocation open. */
    ASSERT(polled() == 1 && freed == 0);
    tell(peer_socket, 'w');
    ASSERT(word_from(peer_socket) == 'e');
    wait_until(0);
    ASSERT(freed == 1);
    tell(peer_socket, 'e');
    end_peer();
    end_channel();
}

/* A mask in another allocation, fields, and two importers of one export that is read-only. */
PART(reads) {
    CUdeviceptr out = new_buffer();
    CUstream stream = new_stream();
    create(0);
    cai_array array = import_array(from);
    ASSERT(array.flags == CAI_ARRAY_READONLY && array.event != NULL && array.mask != NULL);
    ASSERT(array.mask->data != array.data && array.descr != NULL);
    read_into(out, &array, stream);
    ASSERT(holds(out, 1, stream));
    tell(from, 'd');
    ASSERT(word_from(from) == 'g');
    /* The channel may be gone before the array. */
    end_channel();
    cai_array_release(&array);
    tell(from, 'r');
    ASSERT(hear(from) == 'e');
}

CASE(two_importers) {
    CUstream stream = new_stream();
    const CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(stream)), kept = CAI_ARRAY_INIT;
    cai_array mask = array_of(new_buffer(), as_value(stream));
    int sockets[2];
    packet it;
    const cai_descr *fields = NULL;
    cai_owner *fields_owner = NULL;
    OK(cai_descr_parse("[('a', '<i4')]", &fields, &fields_owner, error));
    memcpy(mask.typestr, "|b1", 4);
    memcpy(array.typestr, "|V4", 4);
    array.descr = fields;
    array.mask = &mask;
    array.flags = CAI_ARRAY_READONLY;
    create(0);
    fill(buffer, 1, stream);
    atomic_store(&freed, 0);
    OK(cai_array_create(&array, &freed, count_destroyed, &kept, error));
    uint64_t made = record_of(&kept, &it);
    cai_owner_release(fields_owner);
    for (int i = 0; i < 2; ++i) {
        start_peer("reads");
        sockets[i] = peer_socket;
        send_packet(peer_socket, &it, -1);
        ASSERT(word_from(peer_socket) == 'd');
    }
    withdraw(made);
    for (int i = 0; i < 2; ++i) {
        ASSERT(polled() > 0 && freed == 0);
        tell(sockets[i], 'g');
        ASSERT(word_from(sockets[i]) == 'r');
    }
    wait_until(0);
    ASSERT(freed == 1);
    for (int i = 0; i < 2; ++i)
        tell(sockets[i], 'e');
    while (wait(NULL) > 0) {
    }
    end_channel();
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "a_device_without_numbers") == 0)
        setenv("SHIM", "cuDeviceGetAttribute:1:skip", 1);
    return ipc_main(count, words);
}
