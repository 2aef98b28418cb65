/*
 * Many threads order streams of two devices all the time: `stress THREADS PAIRS`. Each thread reads
 * and writes one of the buffers that it shares with others; what is in them is checked now and
 * then. A million pairs for each of 32 threads take a minute.
 * run: sim eager lazy random:7 threads; devices 2; gpu
 */
#include "sync_test.h"

#include <malloc.h>

enum { STREAMS = 8, MOST_THREADS = 64 };

static CUstream streams[STREAMS];
static cai_array arrays[STREAMS];
static long pairs;
static atomic_long done;

static void *work(void *number) {
    const unsigned self = (unsigned)(uintptr_t)number;
    CU(cuCtxSetCurrent(context[self % (unsigned)devices]));
    CUdeviceptr out = new_buffer();
    for (long i = 0; i < pairs; ++i) {
        /* Each array by turns, on each stream by turns. */
        const cai_array *array = &arrays[(self + (unsigned)i) % STREAMS];
        const cai_stream stream = as_value(streams[(self + (unsigned)i / STREAMS) % STREAMS]);
        if (cai_array_consume_begin(array, stream, CAI_ACCESS_READ, NULL) != CAI_OK) abort();
        if (i % 64 == 0)
            CU(cuMemcpyDtoDAsync(out, (CUdeviceptr)(uintptr_t)array->data, 64, as_stream(stream)));
        if (cai_array_consume_end(array, stream, CAI_ACCESS_READ, NULL) != CAI_OK) abort();
        if (i % 4096 == 0) CU(cuStreamSynchronize(as_stream(stream)));
        atomic_fetch_add(&done, 1);
    }
    return NULL;
}

/* Returns the bytes in use afterwards. */
static size_t run(int threads, long pairs_of_each) {
    pthread_t handles[MOST_THREADS];
    pairs = pairs_of_each;
    atomic_store(&done, 0);
    for (int i = 0; i < threads; ++i)
        ASSERT(pthread_create(&handles[i], NULL, work, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < threads; ++i)
        ASSERT(pthread_join(handles[i], NULL) == 0);
    for (int i = 0; i < STREAMS; ++i)
        ASSERT(holds((CUdeviceptr)(uintptr_t)arrays[i].data, 7, streams[i]));
    ASSERT(atomic_load(&done) == threads * pairs);
    return mallinfo2().uordblks;
}

int main(int count, char **words) {
    const int threads = count > 1 ? atoi(words[1]) : 32;
    const long many = count > 2 ? atol(words[2]) : 1000;
    ASSERT(threads <= MOST_THREADS);
    set_up();
    for (int i = 0; i < STREAMS; ++i) {
        CU(cuCtxSetCurrent(context[i % devices]));
        streams[i] = new_stream();
        CU(cuCtxSetCurrent(context[0]));
        arrays[i] = array_of(new_buffer(), as_value(streams[i]));
        fill((CUdeviceptr)(uintptr_t)arrays[i].data, 7, streams[i]);
    }
    size_t before = run(threads, 50);
    size_t after = run(threads, many);
    for (int i = 0; i < STREAMS; ++i) {
        /* And the producers may go on. */
        fill((CUdeviceptr)(uintptr_t)arrays[i].data, 8, streams[i]);
        ASSERT(holds((CUdeviceptr)(uintptr_t)arrays[i].data, 8, streams[i]));
    }
    printf("%ld pairs, %zu bytes in use, before %zu\n", atomic_load(&done), after, before);
    /* What is left does not grow with the number of pairs. The race checker's part settles at 1 MB,
     * for 32,000 pairs as for 256,000. */
    ASSERT(!cudasim_present() || after < before + 2000000);
    return 0;
}
