/*
 * A channel without memory: what importers may have open is not freed. Stands in for malloc, so
 * it is a program of its own.
 * run: sim hidden
 */
#include "channel_test.h"

#include <errno.h>
#include <sys/syscall.h>

void *__libc_malloc(size_t size);

/* No message can be received: the system has no memory. */
static bool is_deaf;

ssize_t recvmsg(int from, struct msghdr *message, int how) {
    if (is_deaf) {
        errno = ENOMEM;
        return -1;
    }
    return syscall(SYS_recvmsg, from, message, how);
}

/* Whether all allocations of this thread fail, or the small ones, or which one of 16 bytes: with so
 * many, a list of slots begins. */
static _Thread_local bool is_full, is_short;
static _Thread_local int failing = -1;

void *malloc(size_t size) {
    const bool fails =
        is_full || (is_short && size < 512) || (size == 16 && failing >= 0 && failing-- == 0);
    return fails ? NULL : __libc_malloc(size);
}

PART(imports) {
    packet unused;
    create(8);
    receive_packet(from, &unused);
    cai_array array = import_array(from);
    tell(from, 'd');
    ASSERT(hear(from) == 'e');
    cai_array_release(&array);
}

/* What it has no memory to close stays open until it has. */
PART(closes) {
    create(8);
    cai_array array = import_array(from);
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(hear(from) == 'e');
    is_full = true;
    cai_unstable_channel_poll(the_channel, NULL, NULL);
    is_full = false;
    tell(from, 'd');
    ASSERT(hear(from) == 'e');
    polled();
    tell(from, 'd');
    ASSERT(word_from(from) == 'e'); /* the work is done, if there is any */
    end_channel();
}

/* An importer that is connected may have it open. */
CASE(no_memory_for_a_reference) {
    cai_array first = owned(new_buffer(), CAI_STREAM_NONE);
    cai_array second = owned(new_buffer(), CAI_STREAM_NONE);
    create(8);
    start_peer("imports");
    uint64_t unused = export_array(&first);
    export_array(&second);
    ASSERT(word_from(peer_socket) == 'd');
    is_full = true;
    cai_unstable_channel_withdraw(the_channel, unused, NULL);
    is_full = false;
    ASSERT(freed == 0);
    tell(peer_socket, 'e');
    end_peer();
    wait_until(1);
    ASSERT(freed == 1);
}

/* Only the channel itself is allocated as a whole. */
CASE(no_memory_to_create) {
    uint64_t unused;
    is_short = true;
    ASSERT_STATUS(CAI_ERR_NO_MEMORY, cai_unstable_channel_create(8, 0, &unused, NULL));
    is_short = false;
    create(8);
    end_channel();
}

CASE(no_memory_to_release) {
    cai_array array = owned(new_buffer(), CAI_STREAM_NONE);
    packet it;
    uint64_t made;
    create(8);
    OK(cai_unstable_channel_export(the_channel, 0, &array, it.bytes, sizeof it.bytes, NULL, &made,
                                   error));
    cai_array_release(&array);
    is_full = true;
    cai_unstable_channel_withdraw(the_channel, made, NULL);
    is_full = false;
    ASSERT(freed == 0);
    ASSERT(polled() == 0);
    ASSERT(freed == 1);
    end_channel();
}

CASE(no_memory_to_close) {
    cai_array array = owned(new_buffer(), CAI_STREAM_NONE);
    create(8);
    start_peer("closes");
    uint64_t made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    withdraw(made);
    polled();
    tell(peer_socket, 'e');
    ASSERT(hear(peer_socket) == 'd');
    polled();
    ASSERT(freed == 0);
    tell(peer_socket, 'e');
    ASSERT(hear(peer_socket) == 'd');
    wait_until(0);
    ASSERT(comes_true(is_one, &freed));
    tell(peer_socket, 'e');
    end_peer();
}

PART(closes_late) {
    create(8);
    cai_array array = import_array(from);
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(word_from(from) == 'e');
    end_channel();
}

/* That says nothing about the importer, which has the allocation open. */
CASE(no_memory_for_messages) {
    cai_array array = owned(new_buffer(), CAI_STREAM_NONE);
    uint64_t made;
    create(8);
    start_peer("closes_late");
    made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'd');
    is_deaf = true;
    withdraw(made);
    ASSERT(polled() == 1);
    is_deaf = false;
    ASSERT(freed == 0);
    wait_until(0);
    ASSERT(comes_true(is_one, &freed));
    tell(peer_socket, 'e');
    end_peer();
}

/* An export that failed is none that is left. */
CASE(no_memory_for_a_slot) {
    cai_array array = owned(new_buffer(), CAI_STREAM_NONE);
    packet it;
    uint64_t made;
    int failures = 0;
    /* First, none fails: the driver allocates what it needs. */
    for (int number = -1; number < 8; ++number) {
        create(8);
        failing = number;
        cai_status status = cai_unstable_channel_export(the_channel, 0, &array, it.bytes,
                                                        sizeof it.bytes, NULL, &made, NULL);
        failing = -1;
        ASSERT(polled() == (status == CAI_OK));
        failures += status != CAI_OK;
        end_channel();
    }
    ASSERT(failures == 2);
    cai_array_release(&array);
}

int main(int count, char **words) {
    /* The race checker, which the locks of a channel notify, needs memory. */
    setenv("CUDASIM_RACES", "off", 1);
    return ipc_main(count, words);
}
