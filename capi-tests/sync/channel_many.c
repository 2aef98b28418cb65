/*
 * A hundred thousand arrays at one time, of which neither process may have more than 256
 * descriptors.
 * run: sim hidden; devices 1
 */
#include "ipc_test.h"

#include <dirent.h>
#include <sys/resource.h>

enum { COUNT = 100000, ALLOCATIONS = 16, STREAMS = 4, EACH = COUNT / ALLOCATIONS };

typedef struct record {
    uint32_t size;
    unsigned char bytes[340];
} record;

static uint64_t channel;
static record *records;
static cai_array *arrays;

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = -3;
    ASSERT(folder != NULL);
    while (readdir(folder) != NULL)
        ++count;
    closedir(folder);
    return count;
}

static void limit(void) {
    const struct rlimit few = {256, 256};
    ASSERT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    records = calloc(COUNT, sizeof *records);
    arrays = calloc(COUNT, sizeof *arrays);
    ASSERT(records != NULL && arrays != NULL);
    OK(cai_unstable_channel_create(COUNT, 0, &channel, error));
}

static uint64_t polled(void) {
    uint64_t left = 0;
    OK(cai_unstable_channel_poll(channel, &left, error));
    return left;
}

PART(imports) {
    const cai_array init = CAI_ARRAY_INIT;
    CUstream stream = new_stream();
    size_t at = 0;
    cai_error why;
    int before, value;
    limit();
    while (at < COUNT * sizeof *records) {
        const ssize_t part = read(from, (char *)records + at, COUNT * sizeof *records - at);
        ASSERT(part > 0);
        at += (size_t)part;
    }
    before = open_files();
    for (int i = 0; i < COUNT;) {
        arrays[i] = init;
        if (cai_unstable_channel_import(channel, records[i].bytes, records[i].size, &arrays[i],
                                        &why) == CAI_OK) {
            ++i;
        } else {
            ASSERT_STATUS(CAI_ERR_IPC_PENDING, why.code);
            usleep(1000);
            polled();
        }
    }
    for (int i = 0; i < COUNT; i += 997) {
        OK(cai_array_consume_begin(&arrays[i], as_value(stream), CAI_ACCESS_READ, error));
        CU(cuMemcpyDtoHAsync(&value, (CUdeviceptr)(uintptr_t)arrays[i].data, 4, stream));
        CU(cuStreamSynchronize(stream));
        OK(cai_array_consume_end(&arrays[i], as_value(stream), CAI_ACCESS_READ, error));
        ASSERT(value == i);
    }
    ASSERT(open_files() - before < 60);
    for (int i = 0; i < COUNT; ++i)
        cai_array_release(&arrays[i]);
    tell(from, 'd');
    while (recv(from, &value, 1, MSG_DONTWAIT) != 1) {
        polled();
        usleep(1000);
    }
    OK(cai_unstable_channel_release(channel, error));
}

CASE(a_hundred_thousand_arrays) {
    static const int64_t shape[1] = {1};
    static int values[EACH];
    static uint64_t made[COUNT];
    CUdeviceptr buffers[ALLOCATIONS];
    CUstream streams[STREAMS];
    int before;
    char word;
    limit();
    start_peer("imports");
    for (int i = 0; i < STREAMS; ++i)
        streams[i] = new_stream();
    before = open_files();
    for (int i = 0; i < COUNT; ++i) {
        CUdeviceptr *buffer = &buffers[i / EACH];
        CUstream stream = streams[i / EACH % STREAMS];
        cai_array borrowed = array_of(0, as_value(stream)), array = CAI_ARRAY_INIT;
        size_t size;
        if (i % EACH == 0) {
            for (int at = 0; at < EACH; ++at)
                values[at] = i + at;
            CU(cuMemAlloc(buffer, sizeof values));
            CU(cuMemcpyHtoDAsync(*buffer, values, sizeof values, stream));
        }
        borrowed.data = (char *)(uintptr_t)*buffer + 4 * (i % EACH);
        borrowed.shape = shape;
        OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
        OK(cai_unstable_channel_export(channel, 0, &array, records[i].bytes,
                                       sizeof records[i].bytes, &size, &made[i], error));
        records[i].size = (uint32_t)size;
        cai_array_release(&array);
    }
    ASSERT(open_files() - before < 60);
    for (size_t at = 0; at < COUNT * sizeof *records;) {
        const ssize_t part = write(peer_socket, (char *)records + at, COUNT * sizeof *records - at);
        ASSERT(part > 0);
        at += (size_t)part;
    }
    while (recv(peer_socket, &word, 1, MSG_DONTWAIT) != 1) {
        ASSERT(polled() == COUNT);
        usleep(1000);
    }
    ASSERT(word == 'd' && freed == 0);
    for (int i = 0; i < COUNT; ++i)
        OK(cai_unstable_channel_withdraw(channel, made[i], error));
    while (polled() > 0)
        usleep(1000);
    ASSERT(freed == COUNT);
    tell(peer_socket, 'e');
    end_peer();
    OK(cai_unstable_channel_release(channel, error));
}

int main(int count, char **words) { return ipc_main(count, words); }
