/*
 * errors.c: names, the last error of each thread, and what an unknown number becomes.
 */
#include "test.h"

#include <pthread.h>

static void *in_another_thread(void *argument) {
    (void)argument;
    EXPECT(cudaPeekAtLastError() == cudaSuccess);
    return NULL;
}

int main(void) {
    pthread_t thread;
    int count, device;

    EXPECT(strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
    EXPECT(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
    EXPECT(strcmp(cudaGetErrorName(2), "cudaErrorMemoryAllocation") == 0);
    EXPECT(strcmp(cudaGetErrorName(908), "cudaErrorStreamCaptureWrongThread") == 0);
    EXPECT(strcmp(cudaGetErrorName(12345), "unrecognized error code") == 0);

    /* An error stays until it is read, successes in between notwithstanding; and it is this
     * thread's. */
    EXPECT(cudaRuntimeGetVersion(NULL) == cudaErrorInvalidValue);
    EXPECT(cudaRuntimeGetVersion(&count) == cudaSuccess);
    EXPECT(cudaPeekAtLastError() == cudaErrorInvalidValue);
    EXPECT(pthread_create(&thread, NULL, in_another_thread, NULL) == 0);
    pthread_join(thread, NULL);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);

    require_driver();
    OK(cudaGetDeviceCount(&count));
    ANSWERS(cudaErrorInvalidDevice, cudaSetDevice(count));
    ANSWERS(cudaErrorInvalidDevice, cudaSetDevice(-1));
    OK(cudaGetDevice(&device));
    EXPECT(device == 0);
    ANSWERS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
    ANSWERS(cudaErrorInvalidValue, cudaMalloc(NULL, 4));
    ANSWERS(cudaErrorNotSupported, cudaMallocArray(NULL, NULL, 1, 1, 0));
    ANSWERS(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(NULL, NULL, NULL, NULL));
    return 0;
}
