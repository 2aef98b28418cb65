/*
 * no_driver.c: without libcuda.so.1, every function returns an error, and none crashes.
 */
#include "test.h"

#include <dlfcn.h>
#include <unistd.h>

static int host_side_of_kernel;

int main(int count, char **arguments) {
    (void)count;
    if (getenv("LD_LIBRARY_PATH") != NULL) { /* where `make check` has the driver */
        unsetenv("LD_LIBRARY_PATH");
        execv(arguments[0], arguments);
        return 1;
    }
    if (dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        fprintf(stderr, "skipped: this machine has a driver\n");
        return SKIPPED;
    }
    int value = -1;
    void *address;
    cudaStream_t stream;
    struct cudaPointerAttributes attributes;
    dim3 one = {1, 1, 1};

    OK(cudaRuntimeGetVersion(&value));
    EXPECT(value / 1000 == CUDART_MAJOR);
    OK(cudaDriverGetVersion(&value));
    EXPECT(value == 0);
    value = -1;
    ANSWERS(cudaErrorInsufficientDriver, cudaGetDeviceCount(&value));
    EXPECT(value == 0);
    ANSWERS(cudaErrorInsufficientDriver, cudaGetDevice(&value));
    ANSWERS(cudaErrorInsufficientDriver, cudaSetDevice(0));
    ANSWERS(cudaErrorInsufficientDriver, cudaMalloc(&address, 4));
    ANSWERS(cudaErrorInsufficientDriver, cudaFree(NULL));
    ANSWERS(cudaErrorInsufficientDriver, cudaStreamCreate(&stream));
    ANSWERS(cudaErrorInsufficientDriver, cudaPointerGetAttributes(&attributes, &value));
    ANSWERS(cudaErrorInsufficientDriver, cudaDeviceReset());

    /* Programs register their kernels on such machines too. */
    static const struct {
        unsigned magic, version;
        const void *image;
    } wrapper = {0x466243b1u, 1, "image"};
    void **binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(binary, (char *)&host_side_of_kernel, NULL, "kernel", -1, NULL, NULL,
                           NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(binary);
    ANSWERS(cudaErrorInsufficientDriver,
            cudaLaunchKernel(&host_side_of_kernel, one, one, NULL, 0, NULL));
    __cudaUnregisterFatBinary(binary);
    return 0;
}
