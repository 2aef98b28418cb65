/*
 * memory.c: every kind of memory, copies and fills between them, and what is said about pointers.
 */
#include "test.h"

#define SIZE 4096

static void expect_type(const void *address, enum cudaMemoryType type) {
    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, address));
    EXPECT(attributes.type == type);
    switch (type) {
    case cudaMemoryTypeUnregistered:
        EXPECT(attributes.devicePointer == NULL && attributes.device == -2);
        break;
    case cudaMemoryTypeDevice:
        EXPECT(attributes.hostPointer == NULL && attributes.devicePointer == address);
        break;
    case cudaMemoryTypeHost:
        EXPECT(attributes.hostPointer == address && attributes.devicePointer != NULL);
        break;
    default: EXPECT(attributes.hostPointer == address && attributes.devicePointer == address);
    }
}

static void kinds_of_memory(void) {
    void *device, *pinned, *managed, *empty = &empty;
    static char registered[2 * SIZE] __attribute__((aligned(SIZE)));
    size_t free_bytes, total;

    OK(cudaMalloc(&device, SIZE));
    OK(cudaMallocHost(&pinned, SIZE));
    OK(cudaMallocManaged(&managed, SIZE, 1));
    expect_type(device, cudaMemoryTypeDevice);
    expect_type(pinned, cudaMemoryTypeHost);
    expect_type(managed, cudaMemoryTypeManaged);
    expect_type(registered, cudaMemoryTypeUnregistered);
    OK(cudaHostRegister(registered, sizeof registered, 0));
    expect_type(registered, cudaMemoryTypeHost);
    OK(cudaHostUnregister(registered));
    expect_type(registered, cudaMemoryTypeUnregistered);
    OK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes < total);
    OK(cudaFree(device));
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
    OK(cudaMalloc(&empty, 0));
    EXPECT(empty == NULL);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    ANSWERS(cudaErrorInvalidValue, cudaFree(registered));
    ANSWERS(cudaErrorMemoryAllocation, cudaMalloc(&device, (size_t)1 << 60));
}

static void copies(void) {
    unsigned char in[SIZE], out[SIZE];
    void *a, *b;
    for (int i = 0; i < SIZE; i++)
        in[i] = (unsigned char)(i * 7);
    OK(cudaMalloc(&a, SIZE));
    OK(cudaMalloc(&b, SIZE));
    OK(cudaMemcpy(a, in, SIZE, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, a, SIZE, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(out, b, SIZE, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(in, out, SIZE) == 0);
    OK(cudaMemset(a, 0x5a, SIZE));
    OK(cudaMemcpy_ptds(out, a, SIZE, cudaMemcpyDefault));
    EXPECT(out[0] == 0x5a && out[SIZE - 1] == 0x5a);
    OK(cudaMemcpy(out, in, SIZE, cudaMemcpyHostToHost));
    EXPECT(memcmp(in, out, SIZE) == 0);
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
    ANSWERS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(a, in, SIZE, 5));
    OK(cudaFree(a));
    OK(cudaFree(b));
}

static void rectangles(void) {
    enum { WIDTH = 24, HEIGHT = 5 };
    unsigned char in[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
    void *device;
    size_t pitch;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        in[i / WIDTH][i % WIDTH] = (unsigned char)i;
    OK(cudaMallocPitch(&device, &pitch, WIDTH, HEIGHT));
    EXPECT(pitch >= WIDTH);
    OK(cudaMemcpy2D(device, pitch, in, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
    OK(cudaMemset2D((char *)device + pitch, pitch, 9, 3, 2));
    OK(cudaMemcpy2D(out, WIDTH, device, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    memset(in[1], 9, 3);
    memset(in[2], 9, 3);
    EXPECT(memcmp(in, out, sizeof in) == 0);
    ANSWERS(cudaErrorInvalidPitchValue,
            cudaMemcpy2D(out, WIDTH - 1, device, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    OK(cudaFree(device));
}

static void boxes(void) {
    enum { WIDTH = 8, HEIGHT = 3, DEPTH = 2 };
    unsigned char in[DEPTH][HEIGHT][WIDTH], out[DEPTH][HEIGHT][WIDTH];
    struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
    struct cudaPitchedPtr device;
    for (int i = 0; i < WIDTH * HEIGHT * DEPTH; i++)
        ((unsigned char *)in)[i] = (unsigned char)(3 * i);
    OK(cudaMalloc3D(&device, extent));
    EXPECT(device.xsize == WIDTH && device.ysize == HEIGHT);
    struct cudaMemcpy3DParms there = {
        .srcPtr = {in, WIDTH, WIDTH, HEIGHT}, .dstPtr = device, .extent = extent};
    struct cudaMemcpy3DParms back = {
        .srcPtr = device, .dstPtr = {out, WIDTH, WIDTH, HEIGHT}, .extent = extent};
    there.kind = cudaMemcpyHostToDevice;
    back.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&there));
    OK(cudaMemcpy3D(&back));
    EXPECT(memcmp(in, out, sizeof in) == 0);
    OK(cudaFree(device.ptr));
}

static void stream_ordered(void) {
    void *device;
    char out[16] = {0};
    cudaStream_t stream;
    cudaMemPool_t pool = NULL;
    OK(cudaStreamCreate(&stream));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT(pool != NULL);
    OK(cudaMallocAsync(&device, sizeof out, stream));
    OK(cudaMemsetAsync(device, 'x', sizeof out, stream));
    OK(cudaMemcpyAsync(out, device, sizeof out, cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(device, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(out[0] == 'x' && out[15] == 'x');
    OK(cudaStreamDestroy(stream));
}

int main(void) {
    require_driver();
    kinds_of_memory();
    copies();
    rectangles();
    boxes();
    stream_ordered();
    return 0;
}
