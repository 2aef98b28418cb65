/*
 * A producer and a consumer that work on different streams. The streams wait for each other; the
 * host does not wait.
 *
 *     cc 06_streams.c $(pkg-config --cflags --libs cai) -lcuda && ./a.out
 *     cuda-sim run ./a.out            on a machine without a GPU
 *     cuda-sim run ./a.out forget     leaves out one call
 *
 * With `forget`, the consumer does not wait for the producer. On a GPU the sum may then be wrong or
 * right, depending on timing. The simulator reports the race in every run.
 */
#include <cai/cai.h>
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 1024 * 1024 };

static int failed(CUresult result, const char *call) {
    if (result != CUDA_SUCCESS) {
        printf("%s: %d\n", call, (int)result);
    }
    return result != CUDA_SUCCESS;
}
#define TRY(call)                    \
    do {                             \
        if (failed((call), #call)) { \
            return 1;                \
        }                            \
    } while (0)

/* --- the producer: a library that computes on its own stream and exports the result */

typedef struct {
    CUdeviceptr memory;
    CUstream stream;
    int64_t shape[1];
} buffer;

static void destroy(void *context) {
    buffer *it = (buffer *)context;
    /* Runs after the work of all consumers, because this stream waits for them. */
    cuMemFreeAsync(it->memory, it->stream);
    cuStreamSynchronize(it->stream);
    cuStreamDestroy(it->stream);
    puts("producer: buffer and stream are gone");
}

static void compute(buffer *it, unsigned char value) {
    cuMemsetD8Async(it->memory, value, COUNT, it->stream); /* in place of a kernel */
}

static cai_status export_buffer(buffer *it, cai_array *out, cai_error *why) {
    const cai_stream work = cai_inline_stream(it->stream);
    const cai_array init = CAI_ARRAY_INIT;
    *out = init;
    out->data = (void *)(uintptr_t)it->memory;
    out->shape = it->shape;
    out->ndim = 1;
    memcpy(out->typestr, "|u1", 4);
    out->device.type = CAI_DEVICE_CUDA;
    /* The owner keeps the buffer and its stream alive. */
    cai_status status = cai_owner_create(it, destroy, &out->owner, why);
    if (status == CAI_OK) {
        status = cai_array_produce(out, &work, 1, work, 0, why);
    }
    return status;
}

/* --- the consumer: another library, with another stream */

static cai_status read_all(const cai_array *array, CUdeviceptr into, CUstream stream, int forget,
                           cai_error *why) {
    const cai_stream mine = cai_inline_stream(stream);
    cai_status status = cai_array_validate(array, CAI_CHECK_LAYOUT | CAI_CHECK_DEVICE, why);
    if (status == CAI_OK && !forget) {
        /* The consumer's stream waits for the producer's. */
        status = cai_array_consume_begin(array, mine, CAI_ACCESS_READ, why);
    }
    if (status == CAI_OK) {
        /* In place of a kernel. */
        cuMemcpyDtoDAsync(into, (CUdeviceptr)(uintptr_t)array->data, COUNT, stream);
        /* The producer's next work waits for the consumer's stream. */
        status = cai_array_consume_end(array, mine, CAI_ACCESS_READ, why);
    }
    return status;
}

/* --- the program that uses both libraries */

static unsigned long sum_of(CUdeviceptr memory) {
    static unsigned char host[COUNT];
    unsigned long sum = 0;
    if (failed(cuMemcpyDtoH(host, memory, COUNT), "cuMemcpyDtoH")) {
        return 0;
    }
    for (size_t i = 0; i < COUNT; i++) {
        sum += host[i];
    }
    return sum;
}

int main(int count, char **words) {
    const int forget = count > 1 && strcmp(words[1], "forget") == 0;
    static buffer produced;
    CUdevice device;
    CUcontext context;
    CUstream consumers;
    CUdeviceptr seen;
    cai_array array;
    cai_error why;
    cai_driver_info driver;
    if (cai_driver_info_get(&driver, &why) != CAI_OK) {
        puts(why.message);
        return 1;
    }
    printf("driver: %s, CUDA %d.%d\n", driver.path, driver.version / 1000,
           driver.version % 1000 / 10);
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    TRY(cuStreamCreate(&produced.stream, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&consumers, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc(&seen, COUNT));
    TRY(cuMemAllocAsync(&produced.memory, COUNT, produced.stream));
    produced.shape[0] = COUNT;

    compute(&produced, 3);
    if (export_buffer(&produced, &array, &why) != CAI_OK ||
        read_all(&array, seen, consumers, forget, &why) != CAI_OK) {
        puts(why.message);
        return 1;
    }
    compute(&produced, 9); /* the consumer's copy may not have begun */
    TRY(cuStreamSynchronize(consumers));
    printf("consumer: the sum is %lu, expected %lu\n", sum_of(seen), 3ul * COUNT);
    cai_array_release(&array);
    TRY(cuMemFree(seen));
    TRY(cuStreamDestroy(consumers));
    return 0;
}
