/*
 * devices.c: the device of each thread, and attributes of devices.
 */
#include "test.h"

#include <pthread.h>

static void *in_another_thread(void *last_device) {
    int device = -1;
    void *address;
    OK(cudaGetDevice(&device));
    EXPECT(device == 0); /* whatever others chose */
    OK(cudaSetDevice(*(int *)last_device));
    OK(cudaGetDevice(&device));
    EXPECT(device == *(int *)last_device);
    OK(cudaMalloc(&address, 16));
    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, address));
    EXPECT(attributes.device == *(int *)last_device);
    OK(cudaFree(address));
    return NULL;
}

int main(void) {
    int count, version, value, device;
    enum cudaDriverEntryPointQueryResult status;
    unsigned flags;
    char id[32];
    void *function, *address;
    struct cudaDeviceProp properties;
    pthread_t thread;

    require_driver();
    OK(cudaDriverGetVersion(&version));
    EXPECT(version / 1000 >= CUDART_MAJOR);
    OK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);

    memset(&properties, 0xff, sizeof properties);
    OK(cudaGetDeviceProperties(&properties, 0));
    EXPECT(properties.name[0] != 0 && memchr(properties.name, 0, sizeof properties.name) != NULL);
    EXPECT(properties.totalGlobalMem > 0 && properties.warpSize == 32 &&
           properties.maxThreadsPerBlock == 1024);
    OK(cudaDeviceGetAttribute(&value, 75, 0));
    EXPECT(value == properties.major && value > 0);
    ANSWERS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, count));

    OK(cudaDeviceGetPCIBusId(id, sizeof id, count - 1));
    OK(cudaDeviceGetByPCIBusId(&device, id));
    EXPECT(device == count - 1);
    OK(cudaGetDeviceFlags(&flags));
    EXPECT((flags & cudaDeviceMapHost) != 0);

    device = count - 1;
    EXPECT(pthread_create(&thread, NULL, in_another_thread, &device) == 0);
    pthread_join(thread, NULL);
    OK(cudaGetDevice(&value));
    EXPECT(value == 0);

    OK(cudaGetDriverEntryPoint("cuMemAlloc", &function, 0, &status));
    EXPECT(function != NULL && status == 0);
    cudaGetDriverEntryPoint("cuNoSuchFunction", &function, 0, &status);
    EXPECT(function == NULL && status == 1);
    (void)cudaGetLastError();

    /* A reset ends the context, and the thread continues with a new one. */
    OK(cudaMalloc(&address, 16));
    OK(cudaDeviceReset());
    OK(cudaMalloc(&address, 16));
    OK(cudaFree(address));
    OK(cudaDeviceSynchronize());
    return 0;
}
