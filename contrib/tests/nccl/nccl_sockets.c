/*
 * In place of NCCL, whose ranks need a GPU each: communicators of one or two ranks, connected by a
 * Unix socket. As with NCCL, the host only enqueues, when the outermost group ends: the stream
 * copies to the host, calls a function that uses the socket, and copies back. Both ranks must
 * enqueue in the same order.
 */
#include <cuda.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DO(condition)                                          \
    do {                                                       \
        if (!(condition)) {                                    \
            fprintf(stderr, "NCCL, failed: %s\n", #condition); \
            _exit(2);                                          \
        }                                                      \
    } while (0)

enum { SEND, REDUCE, RECEIVE, MOST = 64 };

struct ncclComm {
    int ranks, peer, from, to; /* the other rank, or this one */
    CUdevice device;
};

typedef struct {
    int kind;
    CUdeviceptr memory;
    size_t count, bytes;
    ncclDataType_t type;
    ncclRedOp_t op;
    const struct ncclComm *communicator;
    CUstream stream;
    char *stage, *theirs; /* what is sent, or received; and what is added to it */
} operation;

/* For the tests: what calls and ends of groups return, and what was enqueued. */
ncclResult_t nccl_fails, nccl_group_fails;
int nccl_asked, nccl_enqueued;
ncclRedOp_t nccl_op;

/* Never freed: the streams use them. */
static operation *operations[MOST];
static int count, depth, listener;

/* --- communicators */

static struct sockaddr_un address(const ncclUniqueId *id) {
    struct sockaddr_un it = {.sun_family = AF_UNIX};
    memcpy(it.sun_path + 1, id->internal, 32); /* behind a NUL: a name without a file */
    return it;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    memset(id, 0, sizeof *id);
    snprintf(id->internal, 32, "nccl %d", (int)getpid());
    const struct sockaddr_un at = address(id);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    DO(bind(listener, (const struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
    const struct sockaddr_un at = address(&id);
    struct ncclComm *it = (struct ncclComm *)malloc(sizeof *it);
    int ends[2];
    DO(ranks <= 2 && cuCtxGetDevice(&it->device) == CUDA_SUCCESS);
    if (ranks == 1) {
        DO(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    } else if (rank == 0) {
        ends[0] = ends[1] = accept(listener, NULL, NULL);
    } else {
        ends[0] = ends[1] = socket(AF_UNIX, SOCK_STREAM, 0);
        DO(connect(ends[0], (const struct sockaddr *)&at, sizeof at) == 0);
    }
    it->ranks = ranks;
    it->peer = ranks - 1 - rank;
    it->from = ends[0];
    it->to = ends[1];
    *out = it;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
    DO(cuCtxSynchronize() == CUDA_SUCCESS);
    free(communicator);
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int *out) {
    if (communicator == NULL) return ncclInvalidArgument;
    *out = communicator->device;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *out) {
    DO(communicator != NULL);
    *out = ++nccl_asked < 3 ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclInvalidUsage ? "invalid usage" : "another error";
}

/* --- what a stream calls */

static void CUDA_CB use_socket(void *operand) {
    const operation *it = (const operation *)operand;
    ssize_t more;
    if (it->kind == REDUCE && it->communicator->ranks == 1) return;
    for (size_t done = 0; it->kind != RECEIVE && done < it->bytes; done += (size_t)more)
        DO((more = write(it->communicator->to, it->stage + done, it->bytes - done)) > 0);
    for (size_t done = 0; it->kind != SEND && done < it->bytes; done += (size_t)more)
        DO((more = read(it->communicator->from, it->theirs + done, it->bytes - done)) > 0);
    if (it->kind != REDUCE) return;
    DO(it->type == ncclFloat32 && it->op == ncclSum);
    for (size_t i = 0; i < it->count; ++i)
        ((float *)it->stage)[i] += ((const float *)it->theirs)[i];
}

/* --- operations */

static void enqueue(operation *it) {
    DO(cuMemAllocHost((void **)&it->stage, 2 * it->bytes) == CUDA_SUCCESS);
    it->theirs = it->kind == REDUCE ? it->stage + it->bytes : it->stage;
    if (it->kind != RECEIVE)
        DO(cuMemcpyDtoHAsync(it->stage, it->memory, it->bytes, it->stream) == CUDA_SUCCESS);
    DO(cuLaunchHostFunc(it->stream, use_socket, it) == CUDA_SUCCESS);
    if (it->kind != SEND)
        DO(cuMemcpyHtoDAsync(it->memory, it->stage, it->bytes, it->stream) == CUDA_SUCCESS);
    nccl_op = it->op;
    ++nccl_enqueued;
}

ncclResult_t ncclGroupStart(void) {
    ++depth;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    DO(--depth >= 0);
    if (depth > 0) return ncclSuccess;
    for (int kind = SEND; kind <= RECEIVE; ++kind) /* it may send to itself */
        for (int i = 0; i < count; ++i)
            if (operations[i]->kind == kind) enqueue(operations[i]);
    count = 0;
    return nccl_group_fails;
}

static ncclResult_t add(int kind, const void *memory, size_t n, ncclDataType_t type, ncclRedOp_t op,
                        ncclComm_t communicator, cudaStream_t stream) {
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    const operation it = {kind,
                          (CUdeviceptr)memory,
                          n,
                          n * sizes[type],
                          type,
                          op,
                          communicator,
                          (CUstream)stream,
                          NULL,
                          NULL};
    if (nccl_fails != ncclSuccess) return nccl_fails;
    DO(count < MOST);
    operations[count] = (operation *)malloc(sizeof it);
    *operations[count++] = it;
    ncclGroupStart(); /* enqueues, unless there is a group */
    return ncclGroupEnd();
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
    DO(peer == communicator->peer);
    return add(SEND, from, n, type, ncclSum, communicator, stream);
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
    DO(peer == communicator->peer);
    return add(RECEIVE, to, n, type, ncclSum, communicator, stream);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
    DO(from == to);
    return add(REDUCE, to, n, type, op, communicator, stream);
}
