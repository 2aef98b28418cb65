/*
 * What the programs about several processes share: bytes and descriptors over a Unix socket, a
 * child that runs the same program with the name of a part, and memory of every kind.
 */
#ifndef IPC_TEST_H
#define IPC_TEST_H

#include "sync_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <cai/unstable/ipc.h>

/* --- the socket */

typedef struct packet {
    uint64_t size;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
} packet;

/* Sends bytes, and a descriptor if there is one. Returns 0 if not all bytes were sent. */
static inline int send_with(int to, const void *bytes, size_t size, int fd, int how) {
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr message = {0};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    return sendmsg(to, &message, how) == (ssize_t)size;
}

static inline void send_packet(int to, const packet *it, int fd) {
    ASSERT(send_with(to, it, sizeof *it, fd, 0));
}

/* Returns the descriptor, or -1. */
static inline int receive_packet(int from, packet *it) {
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {it, sizeof *it};
    struct msghdr message = {0};
    int fd = -1;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.space;
    message.msg_controllen = sizeof control.space;
    ASSERT(recvmsg(from, &message, MSG_WAITALL) == (ssize_t)sizeof *it);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head != NULL && head->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

static inline void tell(int to, char word) { ASSERT(write(to, &word, 1) == 1); }
/* The next word of the other process, or 0 if it has ended. */
static inline char hear(int from) {
    char word = 0;
    return read(from, &word, 1) == 1 ? word : 0;
}

/* --- the other process */

static int peer_socket;
static pid_t peer;

static inline void start_peer(const char *part) {
    int both[2];
    char number[16];
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0);
    peer_socket = both[0];
    fcntl(both[0], F_SETFD, FD_CLOEXEC);
    snprintf(number, sizeof number, "%d", both[1]);
    fflush(NULL);
    peer = fork();
    ASSERT(peer >= 0);
    if (peer == 0) {
        /* Otherwise a peer that waits for a process that has failed keeps the test running. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "ipc", "peer", part, number, (char *)NULL);
        _exit(3);
    }
    close(both[1]);
}

static inline void end_peer(void) {
    int status = -1;
    ASSERT(waitpid(peer, &status, 0) == peer);
    ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(peer_socket);
}

/* --- export and import */

static atomic_int freed;

static inline cai_owner *export_to(int to, const cai_array *array) {
    packet it = {0};
    size_t size = 0;
    int fd = -2;
    cai_owner *kept = NULL;
    OK(cai_unstable_ipc_export(array, 0, it.bytes, sizeof it.bytes, &size, &fd, &kept, error));
    it.size = size;
    ASSERT(kept != NULL && fd >= -1);
    send_packet(to, &it, fd);
    if (fd >= 0) close(fd);
    return kept;
}

/* Passes an array to a process that runs `part` with its bytes, and releases it after that. */
static inline void pass_to(const char *part, cai_array *array) {
    start_peer(part);
    cai_owner *kept = export_to(peer_socket, array);
    ASSERT(hear(peer_socket) == 'd');
    cai_owner_release(kept);
    cai_array_release(array);
    ASSERT(freed == 1);
    end_peer();
}

static inline cai_array import_from(int from) {
    packet it;
    cai_array array = CAI_ARRAY_INIT;
    const int fd = receive_packet(from, &it);
    OK(cai_unstable_ipc_import(it.bytes, it.size, fd, 0, &array, error));
    if (fd >= 0) close(fd);
    ASSERT(cai_array_validate(&array, CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT | CAI_CHECK_DEVICE,
                              NULL) == CAI_OK);
    return array;
}

/* --- kinds of memory */

static inline CUmemoryPool new_pool_on(int on, int handle_types) {
    CUmemPoolProps props = {0};
    CUmemoryPool pool;
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = (CUmemAllocationHandleType)handle_types;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device[on];
    CU(cuMemPoolCreate(&pool, &props));
    return pool;
}

static inline CUmemoryPool new_pool(int handle_types) { return new_pool_on(0, handle_types); }

static inline CUdeviceptr pool_buffer(CUmemoryPool pool) {
    CUstream stream = new_stream();
    CUdeviceptr buffer, other;
    CU(cuMemAllocFromPoolAsync(&other, 1000, pool, stream));
    CU(cuMemAllocFromPoolAsync(&buffer, BYTES, pool, stream));
    CU(cuStreamSynchronize(stream));
    return buffer;
}

static inline CUdeviceptr mapped_buffer(int handle_types) {
    CUmemAllocationProp props = {0};
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr buffer;
    size_t granularity;
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.requestedHandleTypes = (CUmemAllocationHandleType)handle_types;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemGetAllocationGranularity(&granularity, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(cuMemCreate(&handle, granularity, &props, 0));
    CU(cuMemAddressReserve(&buffer, 2 * granularity, 0, 0, 0));
    CU(cuMemMap(buffer, granularity, 0, handle, 0));
    CU(cuMemRelease(handle));
    access.location = props.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemSetAccess(buffer, granularity, &access, 1));
    return buffer;
}

/* --- parts */

typedef struct part {
    const char *name;
    void (*run)(int socket);
    struct part *next;
} part;

static part *all_parts;

/* What the other process does. */
#define PART(part_name)                                                        \
    static void peer_##part_name(int from);                                    \
    __attribute__((constructor)) static void register_peer_##part_name(void) { \
        static part self = {#part_name, peer_##part_name, NULL};               \
        self.next = all_parts;                                                 \
        all_parts = &self;                                                     \
    }                                                                          \
    static void peer_##part_name(int from)

static inline int ipc_main(int count, char **words) {
    alarm(120);
    if (count != 4 || strcmp(words[1], "peer") != 0) return run_cases(count, words);
    for (const part *it = all_parts; it != NULL; it = it->next) {
        if (strcmp(it->name, words[2]) == 0) {
            find_shim();
            set_up();
            it->run(atoi(words[3]));
            if (getenv("CALLS") != NULL) print_calls();
            return 0;
        }
    }
    return 3;
}

#endif /* IPC_TEST_H */
