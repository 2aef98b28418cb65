/*
 * As 09_two_processes.c, through a channel: for any number of arrays, and without waits of the
 * host. Linux only.
 *
 *     cc 11_channel.c $(pkg-config --cflags --libs cai) -lcuda && ./a.out
 *     cuda-sim run ./a.out            on a machine without a GPU
 *
 * The first client is killed while it has the memory: the server notices the end of the process.
 * The second client reads the array and writes to it.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <cai/cai.h>
#include <cai/unstable/ipc.h>
#include <cuda.h>

#include <poll.h>
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

typedef struct {
    size_t size;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
} record;

static CUstream stream;
static uint64_t channel;

static void start(void) {
    CUcontext context;
    CUdevice device;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CAI(cai_unstable_channel_create(0, 0, &channel, error));
}

/* Waits until the other process needs something, at most for a while, and does it. */
static uint64_t progress(void) {
    struct pollfd it = {-1, POLLIN, 0};
    uint64_t exports = 0;
    CAI(cai_unstable_channel_fd(channel, &it.fd, error));
    poll(&it, 1, 10);
    CAI(cai_unstable_channel_poll(channel, &exports, error));
    return exports;
}

/* --- the client */

static int client(int server, int is_killed) {
    const uint32_t both = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    const cai_array init = CAI_ARRAY_INIT;
    cai_array array = init;
    cai_status status;
    cai_error found;
    int32_t values[COUNT];
    long sum = 0;
    record it;
    start();
    cai_stream consumer = (cai_stream)(uintptr_t)stream;
    if (read(server, &it, sizeof it) != (ssize_t)sizeof it) return 1;
    /* Until the server has accepted the connection. */
    while ((status = cai_unstable_channel_import(channel, it.bytes, it.size, &array, &found)) ==
           CAI_ERR_IPC_PENDING) {
        progress();
    }
    if (status != CAI_OK) return fputs(found.message, stderr), 1;
    if (is_killed) raise(SIGKILL);
    /* The stream waits for the server's pending work, and the server's stream for this one. */
    CAI(cai_array_consume_begin(&array, consumer, both, error));
    CU(cuMemcpyDtoHAsync(values, (CUdeviceptr)(uintptr_t)array.data, sizeof values, stream));
    CU(cuMemsetD32Async((CUdeviceptr)(uintptr_t)array.data, 2, COUNT, stream));
    CAI(cai_array_consume_end(&array, consumer, both, error));
    cai_array_release(&array);
    CU(cuStreamSynchronize(stream));
    for (int i = 0; i < COUNT; ++i) {
        sum += values[i];
    }
    printf("client: the sum is %ld\n", sum);
    if (write(server, "d", 1) != 1) return 1;
    /* Closes the memory when the server asks for it. */
    while (recv(server, &it, 1, MSG_DONTWAIT) != 0)
        progress();
    CAI(cai_unstable_channel_release(channel, error));
    return 0;
}

/* --- the server */

static void destroy(void *context) {
    (void)context;
    puts("server: the array is released");
}

static uint64_t export_array(CUdeviceptr memory, record *it) {
    const cai_array init = CAI_ARRAY_INIT;
    const int64_t shape[1] = {COUNT};
    cai_array description = init, array = init;
    uint64_t made = 0;
    description.data = (void *)(uintptr_t)memory;
    description.shape = shape;
    description.ndim = 1;
    description.stream = (cai_stream)(uintptr_t)stream;
    memcpy(description.typestr, "<i4", sizeof("<i4"));
    memset(it, 0, sizeof *it);
    CAI(cai_array_create(&description, NULL, destroy, &array, error));
    CAI(cai_unstable_channel_export(channel, 0, &array, it->bytes, sizeof it->bytes, &it->size,
                                    &made, error));
    cai_array_release(&array); /* the channel has a reference */
    return made;
}

static void serve(int peer, const record *it) {
    char word;
    ssize_t count = -1;
    if (send(peer, it, sizeof *it, MSG_NOSIGNAL) != (ssize_t)sizeof *it) exit(1);
    while ((count = recv(peer, &word, 1, MSG_DONTWAIT)) < 0)
        progress();
    puts(count == 1 ? "server: the client is done" : "server: the client has ended");
}

int main(void) {
    int sockets[2][2];
    CUdeviceptr memory;
    record it;
    int32_t first = 0;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* whole lines, although processes share stdout */
    /* CUDA does not work after fork(), so the clients are started before CUDA is initialized. */
    for (int i = 0; i < 2; ++i) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[i]) != 0) return 1;
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) {
            for (int j = 0; j <= i; ++j)
                close(sockets[j][0]);
            _exit(client(sockets[i][1], i == 0));
        }
        close(sockets[i][1]);
    }
    start();
    CU(cuMemAlloc(&memory, COUNT * sizeof(int32_t)));
    CU(cuMemsetD32Async(memory, 1, COUNT, stream)); /* in place of a kernel */
    uint64_t made = export_array(memory, &it);
    for (int i = 0; i < 2; ++i)
        serve(sockets[i][0], &it);
    CAI(cai_unstable_channel_withdraw(channel, made, error));
    while (progress() > 0) {
    }
    for (int i = 0; i < 2; ++i)
        close(sockets[i][0]);
    CU(cuStreamSynchronize(stream)); /* it waits for the client's work */
    CU(cuMemcpyDtoH(&first, memory, sizeof first));
    printf("server: the memory holds %d\n", (int)first);
    CAI(cai_unstable_channel_release(channel, error));
    CU(cuMemFree(memory));
    while (wait(NULL) > 0) {
    }
    return 0;
}
