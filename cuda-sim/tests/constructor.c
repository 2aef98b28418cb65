/* A library that uses the driver while it is loaded, and waits: for its own threads, which use the
 * driver as well, for a stream and for a host function. With -DPROGRAM: a program that loads it,
 * and meanwhile enqueues work on other threads. */
#include "programs/race_test.h"

#include <dlfcn.h>

enum { THREADS = 8 };

static CUcontext context;

/* Copies a value to the device and back, in the default stream, which all threads use. */
static void *copy_and_back(void *unused) {
    CUdeviceptr memory;
    int value = 7, found = 0;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&memory, sizeof(value)));
    OK(cuMemcpyHtoD(memory, &value, sizeof(value)));
    OK(cuMemcpyDtoH(&found, memory, sizeof(value)));
    OK(found != value);
    OK(cuMemFree(memory));
    return unused;
}

#ifdef PROGRAM

static void *again(void *unused) {
    for (int round = 0; round < 200; round++)
        copy_and_back(unused);
    return unused;
}

int main(int count, char **arguments) {
    OK(cuInit(0));
    use(context = primary(0));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], NULL, again, NULL));
    for (int i = 1; i < count; i++) {
        if (dlopen(arguments[i], RTLD_NOW) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
    }
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(threads[i], NULL));
    puts("loaded");
    return 0;
}

#else

static void called(void *count) { ++*(int *)count; }

__attribute__((constructor)) static void start_all(void) {
    OK(cuInit(0));
    use(context = primary(0));

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], NULL, copy_and_back, NULL));
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(threads[i], NULL));

    int count = 0;
    CUstream stream = make_nonblocking();
    CUdeviceptr memory = alloc(16);
    OK(cuMemsetD8Async(memory, 1, 16, stream));
    OK(cuLaunchHostFunc(stream, called, &count));
    OK(cuStreamSynchronize(stream));
    OK(count != 1);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(memory));
}

#endif
