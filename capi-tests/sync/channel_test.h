/*
 * What the programs about channels share: a channel of this process, exports that are sent over the
 * socket, and imports that wait until the exporter has answered.
 */
#ifndef CHANNEL_TEST_H
#define CHANNEL_TEST_H

#include "ipc_test.h"

#include <dirent.h>
#include <poll.h>

static uint64_t the_channel;
/* Of the exporter's channel; an importer's has none. */
static unsigned flags;

static inline void create(unsigned slots) {
    the_channel = 0;
    OK(cai_unstable_channel_create(slots, flags, &the_channel, error));
}

static inline uint64_t polled(void) {
    uint64_t left = 99;
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_poll(the_channel, &left, NULL));
    return left;
}

/* Polls while this is true, but not for ever. */
#define POLL_WHILE(condition)                   \
    for (int tries_ = 0; condition; ++tries_) { \
        ASSERT(tries_ < 10000);                 \
        usleep(1000);                           \
        polled();                               \
    }

/* Polls until so many exports are left. */
static inline void wait_until(uint64_t left) { POLL_WHILE(polled() != left); }

/* The next word of the other process, while the channel is polled. */
static inline char word_from(int from) {
    struct pollfd wait[2] = {{from, POLLIN, 0}, {-1, POLLIN, 0}};
    OK(cai_unstable_channel_fd(the_channel, &wait[1].fd, error));
    for (;;) {
        ASSERT(poll(wait, 2, 60000) > 0);
        if (wait[1].revents != 0) polled();
        if (wait[0].revents != 0) return hear(from);
    }
}

/* An owned array over a buffer. */
static inline cai_array owned(CUdeviceptr buffer, cai_stream stream) {
    cai_array borrowed = array_of(buffer, stream), array = CAI_ARRAY_INIT;
    OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
    return array;
}

/* Exports an array, and releases it. */
static inline uint64_t record_of(cai_array *array, packet *it) {
    uint64_t made = 0;
    size_t size = 0;
    memset(it, 0, sizeof *it);
    OK(cai_unstable_channel_export(the_channel, 0, array, it->bytes, sizeof it->bytes, &size, &made,
                                   error));
    ASSERT(size > 100 && size < 600 && made != 0);
    it->size = size;
    cai_array_release(array);
    return made;
}

/* The same, and sends the record. */
static inline uint64_t export_array(cai_array *array) {
    packet it;
    const uint64_t made = record_of(array, &it);
    send_packet(peer_socket, &it, -1);
    return made;
}

static inline void withdraw(uint64_t made) {
    OK(cai_unstable_channel_withdraw(the_channel, made, error));
}

/* Withdraws the only export that is left. */
static inline void withdraw_last(uint64_t made) {
    withdraw(made);
    wait_until(0);
}

static inline void kill_peer(void) {
    int status;
    ASSERT(kill(peer, SIGKILL) == 0 && waitpid(peer, &status, 0) == peer);
    close(peer_socket);
}

static inline cai_status try_import(const packet *it, cai_array *out, cai_error *why) {
    const cai_array init = CAI_ARRAY_INIT;
    *out = init;
    return cai_unstable_channel_import(the_channel, it->bytes, it->size, out, why);
}

/* Imports, once the exporter has accepted. */
static inline cai_array import_packet(const packet *it) {
    cai_array array;
    cai_error why;
    int fd;
    OK(cai_unstable_channel_fd(the_channel, &fd, error));
    for (int i = 0; i < 100; ++i) {
        const cai_status status = try_import(it, &array, &why);
        struct pollfd wait = {fd, POLLIN, 0};
        if (status == CAI_OK) return array;
        if (status != CAI_ERR_IPC_PENDING) FAIL("%s", why.message);
        poll(&wait, 1, 60000);
        polled();
    }
    FAIL("%s", "never accepted");
    return array;
}

static inline cai_array import_array(int from) {
    packet it;
    receive_packet(from, &it);
    return import_packet(&it);
}

static inline void end_channel(void) {
    OK(cai_unstable_channel_release(the_channel, error));
    ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_unstable_channel_release(the_channel, NULL));
}

/* The number of descriptors of this process. */
static inline int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = -3;
    ASSERT(folder != NULL);
    while (readdir(folder) != NULL)
        ++count;
    closedir(folder);
    return count;
}

/* The channel's end of its only connection. */
static inline int connection(void) {
    for (int fd = 3; fd < 1000; ++fd) {
        int type = 0, listens = 1;
        socklen_t size = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens)
            return fd;
    }
    FAIL("%s", "no connection");
    return -1;
}

static inline size_t races(void) {
    char report[1 << 14];
    return cudasim_take_report(report, sizeof report);
}

#endif /* CHANNEL_TEST_H */
