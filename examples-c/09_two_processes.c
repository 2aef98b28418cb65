/*
 * A server that owns GPU memory, and clients in other processes that work on it, over a Unix
 * socket.
 *
 *     cc 09_two_processes.c $(pkg-config --cflags --libs cai) -lcuda && ./a.out
 *     cuda-sim run ./a.out            on a machine without a GPU
 *
 * The program starts two clients itself. The first client is killed while it has the memory: the
 * server detects that the connection has ended, and continues. The second client reads the array,
 * writes to it, and reports to the server.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <cai/cai.h>
#include <cai/unstable/copy.h>
#include <cai/unstable/ipc.h>
#include <cuda.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1024 };

#define CU(call)                                              \
    do {                                                      \
        CUresult result_ = (call);                            \
        if (result_ != CUDA_SUCCESS) {                        \
            fprintf(stderr, "%s: %d\n", #call, (int)result_); \
            exit(1);                                          \
        }                                                     \
    } while (0)

#define CAI(call)                                 \
    do {                                          \
        cai_error why;                            \
        cai_error *error = &why;                  \
        if ((call) != CAI_OK) {                   \
            fprintf(stderr, "%s\n", why.message); \
            exit(1);                              \
        }                                         \
    } while (0)

/* --- bytes and a file descriptor over a Unix socket */

typedef struct {
    size_t size;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
} message;

typedef union {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
} descriptor;

static int send_array(int to, message *it, int fd) {
    descriptor control = {0};
    struct iovec part;
    struct msghdr head = {0};
    part.iov_base = it;
    part.iov_len = sizeof *it;
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    if (fd >= 0) { /* memory of pools and of cuMemCreate */
        head.msg_control = control.space;
        head.msg_controllen = sizeof control.space;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    return sendmsg(to, &head, MSG_NOSIGNAL) == (ssize_t)sizeof *it;
}

static int receive_array(int from, message *it, int *fd) {
    descriptor control;
    struct iovec part;
    struct msghdr head = {0};
    part.iov_base = it;
    part.iov_len = sizeof *it;
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    head.msg_control = control.space;
    head.msg_controllen = sizeof control.space;
    if (recvmsg(from, &head, MSG_WAITALL) != (ssize_t)sizeof *it) return 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
    *fd = -1;
    if (rights != NULL && rights->cmsg_type == SCM_RIGHTS) {
        memcpy(fd, CMSG_DATA(rights), sizeof *fd);
    }
    return 1;
}

static void start_cuda(CUstream *stream) {
    CUcontext context;
    CUdevice device;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
}

/* --- the client */

static int client(int server, int is_killed) {
    const cai_array init = CAI_ARRAY_INIT;
    cai_array array = init, copy = init;
    CUstream stream;
    message it;
    int fd;
    long sum = 0;
    start_cuda(&stream);
    if (!receive_array(server, &it, &fd)) return 1;
    CAI(cai_unstable_ipc_import(it.bytes, it.size, fd, 0, &array, error));
    if (fd >= 0) close(fd);
    if (is_killed) raise(SIGKILL);
    /* The copy waits for the server's pending work. */
    CAI(cai_unstable_array_copy_to_host(&array, (cai_stream)(uintptr_t)stream, 0, NULL, 0, &copy,
                                        error));
    for (int i = 0; i < COUNT; ++i) {
        sum += ((const int32_t *)copy.data)[i];
    }
    printf("client: the sum is %ld\n", sum);
    cai_array_release(&copy);
    CU(cuMemsetD32Async((CUdeviceptr)(uintptr_t)array.data, 2, COUNT, stream));
    /* The server does not wait for this stream: finish and close the memory before the message. */
    CU(cuStreamSynchronize(stream));
    cai_array_release(&array);
    if (write(server, "d", 1) != 1) return 1;
    return read(server, &it, 1) != 0; /* the server closes the connection */
}

/* --- the server */

static void destroy(void *context) {
    (void)context;
    puts("server: the array is released");
}

static cai_array new_array(CUdeviceptr memory, CUstream stream) {
    const cai_array init = CAI_ARRAY_INIT;
    const int64_t shape[1] = {COUNT};
    cai_array description = init, array = init;
    description.data = (void *)(uintptr_t)memory;
    description.shape = shape;
    description.ndim = 1;
    description.stream = (cai_stream)(uintptr_t)stream;
    memcpy(description.typestr, "<i4", sizeof("<i4"));
    CAI(cai_array_create(&description, NULL, destroy, &array, error));
    return array;
}

static void serve(int peer, const cai_array *array) {
    cai_owner *kept = NULL;
    message it = {0};
    char word;
    int fd = -1;
    CAI(cai_unstable_ipc_export(array, 0, it.bytes, sizeof it.bytes, &it.size, &fd, &kept, error));
    if (send_array(peer, &it, fd) && read(peer, &word, 1) == 1) {
        puts("server: the client is done");
    } else {
        puts("server: the client has ended");
    }
    if (fd >= 0) close(fd);
    cai_owner_release(kept); /* the memory and the event may be released */
    close(peer);
}

int main(void) {
    int sockets[2][2];
    CUstream stream;
    CUdeviceptr memory;
    int32_t first = 0;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* whole lines, although processes share stdout */
    /* CUDA does not work after fork(), so the clients are started before CUDA is initialized. */
    for (int i = 0; i < 2; ++i) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]) != 0) return 1;
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) {
            for (int j = 0; j <= i; ++j)
                close(sockets[j][0]);
            _exit(client(sockets[i][1], i == 0));
        }
        close(sockets[i][1]);
    }
    start_cuda(&stream);
    CU(cuMemAlloc(&memory, COUNT * sizeof(int32_t)));
    cai_array array = new_array(memory, stream);
    CU(cuMemsetD32Async(memory, 1, COUNT, stream)); /* in place of a kernel */
    for (int i = 0; i < 2; ++i)
        serve(sockets[i][0], &array);
    cai_array_release(&array);
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(&first, memory, sizeof first));
    printf("server: the memory holds %d\n", (int)first);
    CU(cuMemFree(memory));
    while (wait(NULL) > 0) {
    }
    return 0;
}
