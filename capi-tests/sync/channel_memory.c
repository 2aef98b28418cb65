/*
 * A channel without memory: what importers may have open is not freed. Stands in for malloc, so
 * it is a program of its own.
 * run: sim hidden
 */
#include "ipc_test.h"

#include <poll.h>

void *__libc_malloc(size_t size);

/* Whether all allocations of this thread fail, or which one of 16 bytes: with so many, a list of
 * slots begins. */
static _Thread_local bool is_full;
static _Thread_local int failing = -1;

void *malloc(size_t size) {
    const bool fails = is_full || (size == 16 && failing >= 0 && failing-- == 0);
    return fails ? NULL : __libc_malloc(size);
}

static uint64_t the_channel;

static cai_status poll_channel(void) { return cai_unstable_channel_poll(the_channel, NULL, NULL); }

static void create(void) { OK(cai_unstable_channel_create(8, 0, &the_channel, error)); }

PART(imports) {
    cai_array array = CAI_ARRAY_INIT;
    cai_status status = CAI_ERR_IPC_PENDING;
    packet it;
    create();
    receive_packet(from, &it);
    for (int i = 0; status == CAI_ERR_IPC_PENDING && i < 10000; ++i) {
        status = cai_unstable_channel_import(the_channel, it.bytes, it.size, &array, NULL);
        if (status == CAI_ERR_IPC_PENDING) usleep(1000);
        ASSERT_STATUS(CAI_OK, poll_channel());
    }
    ASSERT_STATUS(CAI_OK, status);
    tell(from, 'd');
    ASSERT(hear(from) == 'e');
    cai_array_release(&array);
}

static uint64_t export_to_channel(packet *it) {
    cai_array borrowed = array_of(new_buffer(), CAI_STREAM_NONE), array = CAI_ARRAY_INIT;
    uint64_t made = 0;
    size_t size = 0;
    OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
    OK(cai_unstable_channel_export(the_channel, 0, &array, it->bytes, sizeof it->bytes, &size,
                                   &made, error));
    cai_array_release(&array);
    it->size = size;
    return made;
}

/* An importer that is connected may have it open. */
CASE(no_memory_for_a_reference) {
    struct pollfd word = {-1, POLLIN, 0};
    uint64_t unused;
    packet it = {0};
    create();
    unused = export_to_channel(&it);
    export_to_channel(&it);
    start_peer("imports");
    send_packet(peer_socket, &it, -1);
    word.fd = peer_socket;
    while (poll(&word, 1, 1) == 0)
        ASSERT_STATUS(CAI_OK, poll_channel());
    ASSERT(hear(peer_socket) == 'd');
    is_full = true;
    cai_unstable_channel_withdraw(the_channel, unused, NULL);
    is_full = false;
    ASSERT(freed == 0);
    tell(peer_socket, 'e');
    end_peer();
}

/* An export that failed is none that is left. */
CASE(no_memory_for_a_slot) {
    cai_array borrowed = array_of(new_buffer(), CAI_STREAM_NONE), array = CAI_ARRAY_INIT;
    uint64_t made, left;
    packet it = {0};
    int failures = 0;
    OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
    create();
    export_to_channel(&it); /* the driver has allocated what it needs */
    for (int number = 0; number < 8; ++number) {
        cai_status status;
        create();
        failing = number;
        status = cai_unstable_channel_export(the_channel, 0, &array, it.bytes, sizeof it.bytes,
                                             NULL, &made, NULL);
        failing = -1;
        OK(cai_unstable_channel_poll(the_channel, &left, error));
        ASSERT(left == (status == CAI_OK));
        failures += status != CAI_OK;
        OK(cai_unstable_channel_release(the_channel, error));
    }
    ASSERT(failures == 2);
    cai_array_release(&array);
}

int main(int count, char **words) { return ipc_main(count, words); }
