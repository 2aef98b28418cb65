/*
 * A hundred thousand arrays at one time, or ten thousand allocations of a pool, for which neither
 * process may have more than 256 descriptors.
 * run: sim hidden; devices 1
 */
#include "channel_test.h"

#include <sys/resource.h>

enum { ALLOCATIONS = 16, MOST = 100000, EACH = MOST / ALLOCATIONS, OF_A_POOL = 10000, STREAMS = 4 };

typedef struct record {
    uint32_t size;
    unsigned char bytes[348];
} record;

static int total; /* arrays */
static record *records;
static cai_array *arrays;

static void limit(void) {
    const struct rlimit few = {256, 256};
    ASSERT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    records = calloc((size_t)total, sizeof *records);
    arrays = calloc((size_t)total, sizeof *arrays);
    ASSERT(records != NULL && arrays != NULL);
    create((unsigned)total);
}

static void imports(int from) {
    const cai_array init = CAI_ARRAY_INIT;
    CUstream stream = new_stream();
    size_t at = 0;
    cai_error why;
    int before, value;
    limit();
    while (at < (size_t)total * sizeof *records) {
        const ssize_t part = read(from, (char *)records + at, (size_t)total * sizeof *records - at);
        ASSERT(part > 0);
        at += (size_t)part;
    }
    before = open_files();
    for (int i = 0; i < total;) {
        arrays[i] = init;
        if (cai_unstable_channel_import(the_channel, records[i].bytes, records[i].size, &arrays[i],
                                        &why) == CAI_OK) {
            ++i;
        } else {
            ASSERT_STATUS(CAI_ERR_IPC_PENDING, why.code);
            usleep(1000);
            polled();
        }
    }
    for (int i = 0; i < total; i += 997) {
        OK(cai_array_consume_begin(&arrays[i], as_value(stream), CAI_ACCESS_READ, error));
        CU(cuMemcpyDtoHAsync(&value, (CUdeviceptr)(uintptr_t)arrays[i].data, 4, stream));
        CU(cuStreamSynchronize(stream));
        OK(cai_array_consume_end(&arrays[i], as_value(stream), CAI_ACCESS_READ, error));
        ASSERT(value == i);
    }
    ASSERT(open_files() - before < 60);
    for (int i = 0; i < total; ++i)
        cai_array_release(&arrays[i]);
    tell(from, 'd');
    while (recv(from, &value, 1, MSG_DONTWAIT) != 1) {
        polled();
        usleep(1000);
    }
    end_channel();
}

PART(imports_arrays) {
    total = MOST;
    imports(from);
}

PART(imports_of_a_pool) {
    total = OF_A_POOL;
    imports(from);
}

/* Each allocation has so many arrays. */
static void exports(const char *part, CUmemoryPool pool, int each) {
    static const int64_t shape[1] = {1};
    static int values[EACH];
    static uint64_t made[MOST];
    CUdeviceptr buffer = 0;
    CUstream streams[STREAMS];
    char word;
    limit();
    start_peer(part);
    for (int i = 0; i < STREAMS; ++i)
        streams[i] = new_stream();
    int before = open_files();
    for (int i = 0; i < total; ++i) {
        CUstream stream = streams[i / each % STREAMS];
        cai_array borrowed = array_of(0, as_value(stream)), array = CAI_ARRAY_INIT;
        size_t size;
        if (i % each == 0) {
            const size_t bytes = (size_t)each * sizeof *values;
            for (int at = 0; at < each; ++at)
                values[at] = i + at;
            CU(pool != NULL ? cuMemAllocFromPoolAsync(&buffer, bytes, pool, stream)
                            : cuMemAlloc(&buffer, bytes));
            CU(cuMemcpyHtoDAsync(buffer, values, bytes, stream));
        }
        borrowed.data = (char *)(uintptr_t)buffer + 4 * (i % each);
        borrowed.shape = shape;
        OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
        OK(cai_unstable_channel_export(the_channel, 0, &array, records[i].bytes,
                                       sizeof records[i].bytes, &size, &made[i], error));
        records[i].size = (uint32_t)size;
        cai_array_release(&array);
    }
    ASSERT(open_files() - before < 60);
    for (size_t at = 0; at < (size_t)total * sizeof *records;) {
        const ssize_t size =
            write(peer_socket, (char *)records + at, (size_t)total * sizeof *records - at);
        ASSERT(size > 0);
        at += (size_t)size;
    }
    while (recv(peer_socket, &word, 1, MSG_DONTWAIT) != 1) {
        ASSERT(polled() == (uint64_t)total);
        usleep(1000);
    }
    ASSERT(word == 'd' && freed == 0);
    for (int i = 0; i < total; ++i)
        withdraw(made[i]);
    wait_until(0);
    ASSERT(freed == total);
    tell(peer_socket, 'e');
    end_peer();
    end_channel();
}

CASE(a_hundred_thousand_arrays) {
    total = MOST;
    exports("imports_arrays", NULL, EACH);
}

CASE(ten_thousand_allocations_of_a_pool) {
    total = OF_A_POOL;
    exports("imports_of_a_pool", new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 1);
}

int main(int count, char **words) {
    /* The race checker opens a file for each allocation that is shared. */
    if (count > 1 && strstr(words[1], "pool") != NULL) setenv("CUDASIM_RACES", "off", 1);
    return ipc_main(count, words);
}
