/*
 * Sums one array of each device with NCCL. A producer fills each array on its own stream; NCCL
 * works on another one, and the host does not wait. It prints the number of devices:
 *
 *     gcc nccl_sum.c $(pkg-config --cflags --libs cai) -lnccl -lcudart -o nccl_sum && ./nccl_sum
 */
#include <nccl.h>

#include <cai/nccl.h>
#include <stdio.h>

enum { N = 1024, MOST = 8 };

#define CHECK(call) \
    if ((call) != CAI_OK) return fprintf(stderr, "%s\n", error.message), 1

int main(void) {
    static const int64_t shape[1] = {N};
    static float ones[N], sums[N];
    const uint32_t access = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    cudaStream_t producer[MOST], reducer[MOST];
    ncclComm_t communicator[MOST];
    cai_array array[MOST];
    cai_nccl_buffer it[MOST];
    cai_error error;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices > MOST) return 1;
    if (ncclCommInitAll(communicator, devices, NULL) != ncclSuccess) return 1;
    for (int i = 0; i < N; ++i)
        ones[i] = 1;
    for (int d = 0; d < devices; ++d) {
        const cai_array init = CAI_ARRAY_INIT;
        void *memory;
        cudaSetDevice(d);
        cudaStreamCreate(&producer[d]);
        cudaStreamCreate(&reducer[d]);
        cudaMalloc(&memory, sizeof ones);
        cudaMemcpyAsync(memory, ones, sizeof ones, cudaMemcpyHostToDevice, producer[d]);
        array[d] = init;
        array[d].data = memory;
        array[d].shape = shape;
        array[d].ndim = 1;
        memcpy(array[d].typestr, "<f4", sizeof("<f4"));
        array[d].device.type = CAI_DEVICE_CUDA;
        array[d].device.id = d;
        array[d].stream = cai_inline_stream(producer[d]);
    }

    for (int d = 0; d < devices; ++d)
        CHECK(cai_nccl_begin(&array[d], CAI_NCCL_SUM, cai_inline_stream(reducer[d]), access, &it[d],
                             &error));
    ncclGroupStart();
    for (int d = 0; d < devices; ++d)
        ncclAllReduce(it[d].address, it[d].address, it[d].count, (ncclDataType_t)it[d].datatype,
                      ncclSum, communicator[d], reducer[d]);
    CHECK(cai_nccl_result(ncclGroupEnd(), communicator[0], "ncclGroupEnd", &error));
    for (int d = 0; d < devices; ++d)
        CHECK(cai_array_consume_end(&array[d], cai_inline_stream(reducer[d]), access, &error));

    /* The producers go on; their next work comes after NCCL's. */
    cudaMemcpyAsync(sums, array[0].data, sizeof sums, cudaMemcpyDeviceToHost, producer[0]);
    cudaStreamSynchronize(producer[0]);
    printf("%g\n", sums[0]); /* the number of devices */
    for (int d = 0; d < devices; ++d)
        ncclCommDestroy(communicator[d]);
    return 0;
}
