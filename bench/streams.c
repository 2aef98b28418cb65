/*
 * What begin and end cost. Run with a driver that does nothing (the first word is its name), it
 * shows the library's own share beside a program that makes the same calls by hand; with a real or
 * simulated one, what the whole exchange costs.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/cai.h>

#include <dlfcn.h>
#include <string.h>

/* The same functions as the library uses, found as it finds them. */
#define FUNCTIONS(X)                                                  \
    X(cuInit, (unsigned flags))                                       \
    X(cuCtxSetCurrent, (void *context))                               \
    X(cuStreamGetId, (void *stream, uint64_t *id))                    \
    X(cuStreamIsCapturing, (void *stream, int *status))               \
    X(cuEventCreate, (void **event, unsigned flags))                  \
    X(cuEventRecord, (void *event, void *stream))                     \
    X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags)) \
    X(cuStreamSynchronize, (void *stream))                            \
    X(cuStreamCreate, (void **stream, unsigned flags))                \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)

/* An import's owner remembers the memory's context, as that of `by_default` does. */
static cai_array array, none, read_only, by_default, borrowed;
static void *producer, *consumer, *event;
#define STREAM(handle) ((cai_stream)(uintptr_t)(handle))

/* `with`: an array. */
static int begin_and_end(const void *with) {
    return cai_array_consume_begin(with, STREAM(consumer), CAI_ACCESS_READ, NULL) != CAI_OK ||
           cai_array_consume_end(with, STREAM(consumer), CAI_ACCESS_READ, NULL) != CAI_OK;
}

static int on_its_stream(const void *with) {
    const cai_array *on = with;
    return cai_array_consume_begin(on, on->stream, CAI_ACCESS_READ, NULL) != CAI_OK ||
           cai_array_consume_end(on, on->stream, CAI_ACCESS_READ, NULL) != CAI_OK;
}

static int order_by_hand(void *from, void *to) {
    int status = 0, other = 0;
    uint64_t id = 0;
    return cuStreamIsCapturing(from, &status) || cuStreamIsCapturing(to, &other) || status != 0 ||
           other != 0 || cuStreamGetId(from, &id) || cuEventRecord(event, from) ||
           cuStreamWaitEvent(to, event, 0);
}

static int same_calls_by_hand(const void *with) {
    return (void)with, order_by_hand(producer, consumer) || order_by_hand(consumer, producer);
}

static int least_calls_by_hand(const void *with) {
    (void)with;
    return cuEventRecord(event, producer) || cuStreamWaitEvent(consumer, event, 0) ||
           cuEventRecord(event, consumer) || cuStreamWaitEvent(producer, event, 0);
}

static int produce(const void *with) {
    const cai_stream streams[3] = {STREAM(producer), STREAM(consumer), STREAM(producer)};
    cai_array out = *(const cai_array *)with;
    return cai_array_produce(&out, streams, 3, streams[0], 0, NULL) != CAI_OK;
}

static const bench_row rows[] = {
    {"by hand: the same calls", same_calls_by_hand, 0, NULL},
    {"libcai: two streams", begin_and_end, 1, &array},
    {"by hand, unchecked: record, wait, record, wait", least_calls_by_hand, 0, NULL},
    {"libcai: two streams, read-only array with an event", begin_and_end, 1, &read_only},
    {"libcai: nothing to order, one stream", on_its_stream, 1, &array},
    {"libcai: both on the default stream 1", on_its_stream, 1, &by_default},
    {"libcai: both on the default stream 1, without an owner", on_its_stream, 1, &borrowed},
    {"libcai: nothing to order, CAI_STREAM_NONE", begin_and_end, 1, &none},
    {"libcai: produce, one stream joined", produce, 1, &array},
};

static void nothing(void *context) { (void)context; }

/* A caller of another age. */
static void spoil(const bench_row *row, int wrong) {
    ((cai_array *)row->with)->struct_size = wrong ? 0 : sizeof(cai_array);
}

static void settle(void) {
    if (cuStreamSynchronize != NULL &&
        (cuStreamSynchronize(producer) || cuStreamSynchronize(consumer)))
        exit(1);
}

int main(int count, char **words) {
    static const int64_t shape[1] = {1024};
    const cai_array init = CAI_ARRAY_INIT;
    const char *file = getenv("CAI_CUDA_DRIVER");
    void *driver = dlopen(file != NULL ? file : "libcuda.so.1", RTLD_NOW);
    void *context = (void *)0x1000;
    char group[80];
    int failed = 0;
    if (driver == NULL) {
        puts("without\ta driver");
        return 1;
    }
#define FIND(name, arguments) *(void **)&name = dlsym(driver, #name);
    FUNCTIONS(FIND)
    failed |= cuInit(0);
    producer = (void *)0x2000;
    consumer = (void *)0x3000;
    if (cuStreamCreate != NULL) { /* a driver with streams */
        failed |= cuDevicePrimaryCtxRetain(&context, 0);
        failed |= cuCtxSetCurrent(context);
        failed |= cuStreamCreate(&producer, 1);
        failed |= cuStreamCreate(&consumer, 1);
    }
    failed |= cuCtxSetCurrent(context);
    failed |= cuEventCreate(&event, 2);
    failed |= cuEventRecord(event, producer);
    array = init;
    array.data = (void *)(uintptr_t)0x7f0000000000;
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "<f4", 4);
    array.device.type = CAI_DEVICE_CUDA;
    none = by_default = array;
    none.stream = CAI_STREAM_NONE;
    by_default.stream = CAI_STREAM_LEGACY;
    borrowed = by_default;
    failed |= cai_owner_create(NULL, nothing, &by_default.owner, NULL) != CAI_OK;
    array.stream = STREAM(producer);
    read_only = array;
    read_only.event = event;
    read_only.flags = CAI_ARRAY_READONLY;
    snprintf(group, sizeof group, "begin and end, %s",
             count > 1 ? words[1] : "the driver of this machine");
    if (!failed) BENCH(group, rows, spoil, settle);
    return failed;
}
