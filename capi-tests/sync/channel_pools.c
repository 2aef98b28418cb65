/*
 * Channels and memory that needs a descriptor, of pools and of cuMemCreate: the importer asks for
 * it over the connection. Order is tested in channel.c, and descriptors are counted here.
 * run: sim lazy threads hidden; devices 2; with KIND= pool mapped
 */
#include "channel_test.h"

#include <sys/resource.h>

/* --- memory that needs a descriptor */

static CUmemoryPool the_pool;
static size_t granularity;

static int is_pool(void) { return strcmp(getenv("KIND"), "pool") == 0; }

static CUdeviceptr new_shared(void) {
    const int type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUdeviceptr buffer;
    CUstream stream = new_stream();
    if (!is_pool()) return mapped_buffer(type);
    if (the_pool == NULL) the_pool = new_pool(type);
    CU(cuMemAllocFromPoolAsync(&buffer, BYTES, the_pool, stream));
    CU(cuStreamSynchronize(stream));
    return buffer;
}

/* Ends the memory, so that the next one may be at the same address. */
static void end_shared(CUdeviceptr buffer) {
    if (is_pool()) {
        CU(cuMemFree(buffer));
    } else {
        CU(cuMemGetAddressRange(NULL, &granularity, buffer));
        CU(cuMemUnmap(buffer, granularity));
        CU(cuMemAddressFree(buffer, 2 * granularity));
    }
}

/* --- descriptors */

enum { WANTED = 4, DESCRIPTOR = 5 };

/* Sends what the library would not. Returns 0 if the connection takes no more. */
static int say(uint64_t word, uint64_t number, int fd) {
    const uint64_t words[2] = {word, number};
    return send_with(connection(), words, sizeof words, fd, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Where a record has the number of the descriptor that it needs. */
static unsigned char *number_in(packet *it) { return it->bytes + (is_pool() ? 96 : 104); }

/* --- importers */

/* Imports what the exporter sends, with the value that it says, and counts descriptors. */
PART(reads) {
    CUstream stream = new_stream();
    CUdeviceptr out = new_buffer();
    int before = 0;
    create(0);
    for (char word; (word = word_from(from)) != 'e';) {
        if (word == 'c' || word == 'b') {
            before = open_files();
        } else if (word == 'a') {
            ASSERT(open_files() == before);
        } else {
            cai_array array = import_array(from);
            ASSERT((array.mask != NULL) == (word == 'm'));
            read_into(out, &array, stream);
            ASSERT(holds(out, word == 'm' ? 1 : word - '0', stream));
            if (word == 'm') {
                const cai_array mask = *array.mask;
                ASSERT(mask.data != array.data);
                read_into(out, &mask, stream);
                ASSERT(holds(out, 0x01010101, stream));
            }
            cai_array_release(&array);
        }
        tell(from, 'd');
    }
    end_channel();
}

static CUstream the_stream;

static cai_array filled(CUdeviceptr buffer, int value) {
    if (the_stream == NULL) the_stream = new_stream();
    fill(buffer, value, the_stream);
    return owned(buffer, as_value(the_stream));
}

static void ask(char word) {
    tell(peer_socket, word);
    ASSERT(word_from(peer_socket) == 'd');
}

static uint64_t pass(char word, cai_array array) {
    tell(peer_socket, word);
    uint64_t made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    return made;
}

/* An array with a mask in plain memory. */
static uint64_t pass_masked(CUdeviceptr buffer, CUdeviceptr plain) {
    static const int64_t shape[1] = {N};
    cai_array mask = array_of(plain, as_value(the_stream)), kept = CAI_ARRAY_INIT;
    cai_array array = array_of(buffer, as_value(the_stream));
    fill(buffer, 1, the_stream);
    fill(plain, 0x01010101, the_stream);
    mask.shape = shape;
    memcpy(mask.typestr, "|b1", 4);
    array.mask = &mask;
    OK(cai_array_create(&array, &freed, count_destroyed, &kept, error));
    return pass('m', kept);
}

/* Afterwards, the two processes have all that is needed whatever the number of arrays, and no
 * memory open.
 */
static void connect_to(const char *part) {
    create(0);
    start_peer(part);
    withdraw(pass('1', filled(new_buffer(), 1)));
    withdraw(pass('1', filled(new_shared(), 1)));
    withdraw_last(pass_masked(new_shared(), new_buffer()));
    ask('c');
}

/* The other side of it, for parts that do not take turns. */
static void connected_to(int from) {
    CUstream stream = new_stream();
    create(0);
    while (word_from(from) != 'c') {
        cai_array array = import_array(from);
        read_into(new_buffer(), &array, stream);
        cai_array_release(&array);
        tell(from, 'd');
    }
    tell(from, 'd');
}

static void end_both(void) {
    tell(peer_socket, 'e');
    end_peer();
    end_channel();
}

CASE(the_importer_connects_with_it) {
    create(0);
    start_peer("reads");
    uint64_t made = pass('2', filled(new_shared(), 2));
    atomic_store(&freed, 0);
    withdraw_last(made);
    ASSERT(freed == 1);
    end_both();
}

CASE(arrays_of_one_pool_and_masks) {
    const CUdeviceptr buffers[3] = {new_shared(), new_shared(), new_shared()};
    const CUdeviceptr plain = new_buffer();
    uint64_t made[3];
    connect_to("reads");
    int before = open_files();
    ask('b');
    made[0] = pass('1', filled(buffers[0], 1));
    made[1] = pass('2', filled(buffers[1], 2));
    made[2] = pass_masked(buffers[2], plain);
    /* The exporter keeps that of a pool, to send it to others. */
    ASSERT(open_files() == before + is_pool());
    atomic_store(&freed, 0);
    for (int i = 0; i < 3; ++i)
        withdraw(made[i]);
    wait_until(0);
    ASSERT(freed == 3);
    ASSERT(open_files() == before);
    ask('a');
    end_both();
}

/* The second importer asks for a pool that the first one has. */
CASE(two_importers) {
    const CUdeviceptr buffer = new_shared();
    int sockets[2];
    packet it;
    cai_array array = filled(buffer, 2);
    create(0);
    uint64_t made = record_of(&array, &it);
    for (int i = 0; i < 2; ++i) {
        start_peer("reads");
        sockets[i] = peer_socket;
        tell(peer_socket, '2');
        send_packet(peer_socket, &it, -1);
        ASSERT(word_from(peer_socket) == 'd');
    }
    withdraw_last(made);
    for (int i = 0; i < 2; ++i)
        tell(sockets[i], 'e');
    while (wait(NULL) > 0) {
    }
    end_channel();
}

/* What is at an address is another allocation, also in a pool that the importer has closed. */
CASE(an_address_is_used_again) {
    CUdeviceptr last = 0;
    int same = 0;
    connect_to("reads");
    for (int i = 1; i < 9; ++i) {
        const CUdeviceptr buffer = new_shared();
        same += buffer == last;
        last = buffer;
        withdraw_last(pass((char)('0' + i), filled(buffer, i)));
        end_shared(buffer);
    }
    ASSERT(same > 0 || !is_pool());
    end_both();
}

/* --- processes that end */

PART(exports) {
    CUdeviceptr buffer = new_buffer(), other = new_shared();
    create(0);
    peer_socket = from;
    cai_array plain = filled(buffer, 1);
    cai_array shared = filled(other, 2);
    export_array(&plain);
    export_array(&shared);
    ASSERT(word_from(from) == 'p');
    /* It polls no more until then. */
    ASSERT(hear(from) == 'q');
    word_from(from);
}

enum { IMPORTED, ANSWERED, ASKED };

static void the_exporter_ends(int state) {
    CUstream stream = new_stream();
    cai_array plain, array;
    cai_error why;
    packet it;
    create(0);
    start_peer("exports");
    plain = import_array(peer_socket);
    int before = open_files();
    receive_packet(peer_socket, &it);
    tell(peer_socket, 'p');
    if (state != ASKED) tell(peer_socket, 'q');
    if (state == IMPORTED) {
        array = import_packet(&it);
        read_into(new_buffer(), &array, stream);
        CU(cuStreamSynchronize(stream));
    } else {
        ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
        ASSERT(strstr(why.message, "file descriptor") != NULL);
    }
    POLL_WHILE(state == ANSWERED && open_files() == before);
    kill_peer();
    --before; /* its socket */
    polled();
    if (state == IMPORTED) {
        REFUSED(CAI_ERR_IPC_PEER, "stream",
                cai_array_consume_begin(&array, as_value(stream), CAI_ACCESS_READ, error));
        cai_array_release(&array);
    }
    ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&it, &array, &why));
    /* With an array, the importer has its part of the order between streams, too. */
    if (state == IMPORTED) cai_array_release(&plain);
    POLL_WHILE(open_files() > before);
    if (state != IMPORTED) cai_array_release(&plain);
    polled();
    end_channel();
}

CASE(the_exporter_is_killed) { the_exporter_ends(IMPORTED); }
CASE(the_exporter_is_killed_before_the_import) { the_exporter_ends(ANSWERED); }
CASE(the_exporter_is_killed_before_the_answer) { the_exporter_ends(ASKED); }

PART(is_killed) {
    cai_array array;
    cai_error why;
    packet it;
    connected_to(from);
    receive_packet(from, &it);
    if (word_from(from) == 'i') {
        array = import_packet(&it);
    } else {
        ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    }
    tell(from, 'd');
    pause();
}

static void the_importer_ends(char word) {
    const CUdeviceptr buffer = new_shared();
    connect_to("is_killed");
    cai_array array = filled(buffer, 1);
    atomic_store(&freed, 0);
    uint64_t made = export_array(&array);
    tell(peer_socket, word);
    if (word == 'i') {
        ASSERT(word_from(peer_socket) == 'd');
        withdraw(made);
        ASSERT(polled() == 1 && freed == 0);
        kill_peer();
    } else {
        ASSERT(hear(peer_socket) == 'd');
        kill_peer();
        ASSERT(polled() == 1 && freed == 0);
        withdraw(made);
    }
    wait_until(0);
    ASSERT(freed == 1);
    end_channel();
}

CASE(the_importer_is_killed) { the_importer_ends('i'); }
CASE(the_importer_is_killed_before_the_answer) { the_importer_ends('a'); }

/* --- processes that break the rules */

/* Numbers that no exporter gave. */
enum { FIRST_NUMBER = 100000, MANY_NUMBERS = 100 };

static void next(int from) {
    tell(from, 'n');
    ASSERT(hear(from) == 'n');
    polled();
}

PART(is_lied_to) {
    cai_array array;
    cai_error why;
    packet it, good;
    connected_to(from);
    receive_packet(from, &it);
    good = it;
    int before = open_files();
    /* Nothing was asked for yet. */
    next(from);
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    ASSERT(open_files() == before);
    /* A file that is no memory. */
    next(from);
    ASSERT_STATUS(CAI_ERR_IPC_MEMORY, try_import(&it, &array, &why));
    ASSERT(open_files() == before);
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    /* None. */
    next(from);
    ASSERT_STATUS(CAI_ERR_IPC_SYSTEM, try_import(&it, &array, &why));
    ASSERT(strcmp(why.field, "channel") == 0);
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    /* Many, while this process polls. */
    tell(from, 'n');
    ASSERT(word_from(from) == 'n');
    polled();
    ASSERT(open_files() == before);
    /* Two of the one that is needed. */
    next(from);
    ASSERT(open_files() == before + 1);
    ASSERT_STATUS(CAI_ERR_IPC_MEMORY, try_import(&it, &array, &why));
    ASSERT(open_files() == before);
    /* Those of records that nobody wrote are asked for, but few are kept. */
    for (uint64_t i = 0; i < MANY_NUMBERS; ++i) {
        const uint64_t number = FIRST_NUMBER + i;
        memcpy(number_in(&it), &number, sizeof number);
        ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    }
    next(from);
    ASSERT(open_files() > before && open_files() <= before + 64);
    memcpy(&it, &good, sizeof it);
    tell(from, 'n');
    array = import_packet(&it);
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    ASSERT(open_files() <= before + 64);
    end_channel();
}

CASE(the_exporter_lies) {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const CUdeviceptr buffer = new_shared();
    uint64_t number, made;
    packet it;
    connect_to("is_lied_to");
    cai_array array = filled(buffer, 1);
    made = record_of(&array, &it);
    memcpy(&number, number_in(&it), sizeof number);
    ASSERT(number != 0);
    send_packet(peer_socket, &it, -1);
    ASSERT(hear(peer_socket) == 'n' && say(DESCRIPTOR, number, file));
    tell(peer_socket, 'n');
    ASSERT(hear(peer_socket) == 'n' && say(DESCRIPTOR, number, file));
    tell(peer_socket, 'n');
    ASSERT(hear(peer_socket) == 'n' && say(DESCRIPTOR, number, -1));
    tell(peer_socket, 'n');
    ASSERT(hear(peer_socket) == 'n');
    for (uint64_t i = 1000; i < 21000; ++i) {
        while (!say(DESCRIPTOR, i, file))
            usleep(100);
    }
    tell(peer_socket, 'n');
    ASSERT(hear(peer_socket) == 'n');
    ASSERT(say(DESCRIPTOR, number, file) && say(DESCRIPTOR, number, file));
    tell(peer_socket, 'n');
    ASSERT(hear(peer_socket) == 'n');
    for (uint64_t i = 0; i < MANY_NUMBERS; ++i)
        ASSERT(say(DESCRIPTOR, FIRST_NUMBER + i, file));
    tell(peer_socket, 'n');
    ASSERT(hear(peer_socket) == 'n');
    ASSERT(word_from(peer_socket) == 'd');
    atomic_store(&freed, 0);
    withdraw_last(made);
    ASSERT(freed == 1);
    end_both();
}

PART(asks_for_anything) {
    connected_to(from);
    ASSERT(word_from(from) == 'n');
    for (uint64_t i = 0; i < 20000; ++i) {
        while (!say(WANTED, i < 10000 ? 1 : i, -1))
            usleep(100);
    }
    tell(from, 'd');
    cai_array array = import_array(from);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    cai_array_release(&array);
    end_channel();
}

CASE(the_importer_asks_for_anything) {
    const CUdeviceptr buffer = new_shared();
    connect_to("asks_for_anything");
    int before = open_files();
    ask('n');
    ASSERT(open_files() == before);
    cai_array array = filled(buffer, 1);
    export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    ASSERT(open_files() == before + is_pool());
    end_both();
}

/* A descriptor that came too late is closed when the exporter says that its memory is. */
PART(is_late) {
    cai_array array;
    cai_error why;
    packet it;
    connected_to(from);
    receive_packet(from, &it);
    int before = open_files();
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    tell(from, 'd');
    ASSERT(word_from(from) == 'n');
    polled();
    ASSERT(open_files() == before + 1);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    ASSERT(open_files() == before);
    ASSERT_STATUS(CAI_ERR_IPC_SLOT, try_import(&it, &array, &why));
    end_channel();
}

CASE(the_importer_is_late) {
    connect_to("is_late");
    cai_array array = filled(new_shared(), 1);
    atomic_store(&freed, 0);
    uint64_t made = export_array(&array);
    ASSERT(hear(peer_socket) == 'd');
    polled();
    ask('n');
    withdraw_last(made);
    ASSERT(freed == 1);
    end_both();
}

/* --- more than a connection takes at one time */

/* Polls until the other process says something: what a connection did not take wakes nobody. */
static void poll_until_word(int from) {
    char word;
    for (ssize_t count; (count = recv(from, &word, 1, MSG_DONTWAIT)) != 1;) {
        ASSERT(count != 0);
        polled();
        usleep(1000);
    }
}

/* What cannot be asked for at once is asked for by a later poll, and sent by one. */
PART(asks_later) {
    cai_array array;
    cai_error why;
    packet it;
    connected_to(from);
    receive_packet(from, &it);
    int is_full = hear(from) == 'i';
    int before = open_files();
    while (is_full && say(0, 0, -1)) {
    }
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    tell(from, 'd');
    ASSERT(hear(from) == 'n');
    POLL_WHILE(open_files() == before);
    ASSERT_STATUS(CAI_OK, try_import(&it, &array, &why));
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    end_channel();
}

static void a_connection_is_full(int is_importers) {
    connect_to("asks_later");
    cai_array array = filled(new_shared(), 1);
    uint64_t made = export_array(&array);
    tell(peer_socket, is_importers ? 'i' : 'e');
    ASSERT(hear(peer_socket) == 'd');
    while (!is_importers && say(0, 0, -1)) {
    }
    polled();
    tell(peer_socket, 'n');
    poll_until_word(peer_socket);
    withdraw_last(made);
    end_both();
}

CASE(the_importer_cannot_ask_at_once) { a_connection_is_full(1); }
CASE(the_exporter_cannot_answer_at_once) { a_connection_is_full(0); }

/* The importer has no descriptor for what it asked for; then it has. */
PART(has_no_descriptor) {
    const struct rlimit few = {100, 100};
    int files[100], count = 0;
    cai_array array;
    cai_error why;
    packet it;
    connected_to(from);
    receive_packet(from, &it);
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, &why));
    ASSERT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while ((files[count] = dup(from)) >= 0)
        ++count;
    tell(from, 'd');
    ASSERT(hear(from) == 'n');
    /* Nor for a connection that may wait. */
    ASSERT_STATUS(CAI_ERR_IPC_SYSTEM, cai_unstable_channel_poll(the_channel, NULL, NULL));
    ASSERT_STATUS(CAI_ERR_IPC_SYSTEM, try_import(&it, &array, &why));
    ASSERT(strstr(why.message, "descriptor is missing") != NULL);
    while (count > 0)
        close(files[--count]);
    array = import_packet(&it);
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    end_channel();
}

CASE(the_importer_has_no_free_descriptor) {
    connect_to("has_no_descriptor");
    cai_array array = filled(new_shared(), 1);
    uint64_t made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    polled();
    ask('n');
    withdraw_last(made);
    end_both();
}

enum { MANY = 400 };

PART(needs_many) {
    static packet all[MANY];
    static cai_array arrays[MANY];
    CUstream stream = new_stream();
    CUdeviceptr out = new_buffer();
    cai_error why;
    int left = MANY;
    connected_to(from);
    for (int i = 0; i < MANY; ++i)
        receive_packet(from, &all[i]);
    for (int round = 0; left > 0; ++round) {
        ASSERT(round < 10000);
        for (int i = 0; i < MANY; ++i) {
            if (arrays[i].owner != NULL) continue;
            cai_status status = try_import(&all[i], &arrays[i], &why);
            if (status != CAI_OK) ASSERT_STATUS(CAI_ERR_IPC_PENDING, status);
            left -= status == CAI_OK;
        }
        usleep(1000);
        if (round % 2 == 0) polled();
    }
    for (int i = 0; i < MANY; ++i) {
        read_into(out, &arrays[i], stream);
        ASSERT(holds(out, i, stream));
        cai_array_release(&arrays[i]);
    }
    tell(from, 'd');
    /* More is closed than the connection takes. */
    poll_until_word(from);
    end_channel();
}

CASE(many_at_one_time) {
    static uint64_t made[MANY];
    connect_to("needs_many");
    for (int i = 0; i < MANY; ++i) {
        cai_array array = filled(new_shared(), i);
        made[i] = export_array(&array);
    }
    ASSERT(word_from(peer_socket) == 'd');
    for (int i = 0; i < MANY; ++i)
        withdraw(made[i]);
    wait_until(0);
    end_both();
}

int main(int count, char **words) {
    /* The race checker opens files, too. */
    setenv("CUDASIM_RACES", "off", 1);
    return ipc_main(count, words);
}
