/*
 * Two processes, the ranks of an NCCL communicator, with a GPU each. Rank 0 sends an array to
 * rank 1, and both add up what they have. The arrays belong to a stream of a producer, and NCCL
 * works on another one. The host waits for neither before it reads. Rank 1 prints 2 4 6:
 *
 *     gcc nccl_sum.c $(pkg-config --cflags --libs cai) -lnccl -lcudart -o nccl_sum && ./nccl_sum
 */
#include <nccl.h>

#include <cai/nccl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1024 };

#define CUDA(call) \
    if ((call) != cudaSuccess) return fprintf(stderr, "%s\n", #call), 1
#define CAI(call) \
    if ((call) != CAI_OK) return fprintf(stderr, "%s\n", error.message), 1

static int work(int rank, ncclUniqueId id) {
    static const int64_t shape[1] = {N};
    static float values[N];
    cai_array array = CAI_ARRAY_INIT;
    cudaStream_t producer, stream;
    ncclComm_t communicator;
    cai_error error;
    int devices = 0;
    CUDA(cudaGetDeviceCount(&devices));
    if (devices < 2) return fprintf(stderr, "found %d GPUs, expected 2\n", devices), 1;
    CUDA(cudaSetDevice(rank));
    CUDA(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&array.data, sizeof values));
    CAI(cai_nccl_result(ncclCommInitRank(&communicator, 2, id, rank), NULL, "ncclCommInitRank",
                        &error));
    cai_stream on = cai_inline_stream(stream);
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "<f4", sizeof("<f4"));
    array.device.type = CAI_DEVICE_CUDA;
    array.device.id = rank;
    array.stream = cai_inline_stream(producer);

    for (int i = 0; i < N; ++i)
        values[i] = rank == 0 ? (float)(i + 1) : 0;
    CUDA(cudaMemcpyAsync(array.data, values, sizeof values, cudaMemcpyHostToDevice, producer));
    if (rank == 0) CAI(cai_nccl_send(&array, 1, communicator, on, &error));
    if (rank == 1) CAI(cai_nccl_recv(&array, 0, communicator, on, &error));
    CAI(cai_nccl_all_reduce(&array, CAI_NCCL_SUM, communicator, on, &error));

    /* The producer goes on: its next work comes after NCCL's. */
    CUDA(cudaMemcpyAsync(values, array.data, sizeof values, cudaMemcpyDeviceToHost, producer));
    CUDA(cudaStreamSynchronize(producer));
    if (rank == 1) printf("%g %g %g\n", values[0], values[1], values[2]);
    CAI(cai_nccl_result(ncclCommDestroy(communicator), NULL, "ncclCommDestroy", &error));
    CUDA(cudaFree(array.data));
    return 0;
}

int main(void) {
    ncclUniqueId id;
    int ends[2], code = 0;
    pid_t child;
    if (pipe(ends) != 0) return 1;
    child = fork(); /* before any call of CUDA, which does not work after it */
    if (child < 0) return 1;
    if (child == 0) {
        close(ends[1]);
        return read(ends[0], &id, sizeof id) == sizeof id ? work(1, id) : 1;
    }
    if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
    if (write(ends[1], &id, sizeof id) != sizeof id || work(0, id) != 0) return 1;
    return waitpid(child, &code, 0) != child || code != 0;
}
