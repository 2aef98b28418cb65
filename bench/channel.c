/*
 * Arrays from one process to another and back: through a channel, with functions for single arrays,
 * and by hand. By hand, the exporter finds the allocation and records an event for each array, the
 * importer waits for it and records one of its own when it is done, and the exporter waits for
 * that; or a stream writes a number, and the other waits for that. Nothing counts importers or
 * checks.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/cai.h>
#include <cai/unstable/ipc.h>

#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first array of each allocation is not measured: of a channel's, the importer has it all the
 * time. */
enum { MANY = 10000, SINGLE = 100, WAYS = 6, PARTS = 4, PITCH = 64, RECORD = 500 };

typedef struct handle {
    char bytes[64];
} handle;

#define FUNCTIONS(X)                                                                      \
    X(cuInit, (unsigned flags))                                                           \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                             \
    X(cuCtxSetCurrent, (void *context))                                                   \
    X(cuStreamCreate, (void **stream, unsigned flags))                                    \
    X(cuStreamSynchronize, (void *stream))                                                \
    X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                     \
    X(cuStreamWriteValue64_v2, (void *stream, uint64_t to, uint64_t value, unsigned))     \
    X(cuStreamWaitValue64_v2, (void *stream, uint64_t address, uint64_t value, unsigned)) \
    X(cuEventCreate, (void **event, unsigned flags))                                      \
    X(cuEventRecord, (void *event, void *stream))                                         \
    X(cuEventDestroy_v2, (void *event))                                                   \
    X(cuMemAlloc_v2, (uint64_t *address, size_t size))                                    \
    X(cuPointerGetAttribute, (void *value, int attribute, uint64_t address))              \
    X(cuIpcGetMemHandle, (handle * made, uint64_t address))                               \
    X(cuIpcOpenMemHandle_v2, (uint64_t *address, handle from, unsigned flags))            \
    X(cuIpcCloseMemHandle, (uint64_t address))                                            \
    X(cuIpcGetEventHandle, (handle * made, void *event))                                  \
    X(cuIpcOpenEventHandle, (void **event, handle from))

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)

enum { RANGE_START = 11, INTERPROCESS = 2 | 4, LAZY_PEERS = 1 };

/* What the exporter carries to the importer: bytes, or what a program by hand needs. */
typedef struct record {
    uint64_t size, offset, number;
    handle memory, event;
    unsigned char bytes[RECORD];
} record;

static struct shared {
    handle memory[WAYS], numbers, ready, done;
    double importing, releasing;
    record records[MANY + 1];
} *shared;

static int at;    /* the way */
static int other; /* a socket to the other process */
static uint64_t channels[WAYS];
static void *stream;

/* The exporter's: arrays of each way, and their exports. */
static uint64_t memory[WAYS], exports[WAYS][MANY + 1];
static cai_array arrays[WAYS][MANY + 1];
static cai_owner *kept[SINGLE + 1];
static void *events[SINGLE + 1];

/* The importer's: what it has. `first` are the arrays that it keeps. */
static cai_array imported[MANY + 1], first[WAYS];
static uint64_t opened[WAYS], addresses[MANY + 1];

/* Each process records one event and waits for the other's; or it writes one number. */
static void *mine, *theirs;
static uint64_t numbers, written, waited;

static uint64_t address(int i) { return memory[at] + (uint64_t)(PITCH * i); }

/* --- by hand, with events */

static int offset_of(int i) {
    uint64_t start = 0;
    const int status = cuPointerGetAttribute(&start, RANGE_START, address(i));
    shared->records[i].offset = address(i) - start;
    return status;
}

static int record_mine(int i) { return (void)i, cuEventRecord(mine, stream); }
static int wait_for_theirs(int i) { return (void)i, cuStreamWaitEvent(stream, theirs, 0); }
static int hand_export(int i) { return offset_of(i) || record_mine(i); }

static int hand_import(int i) {
    addresses[i] = opened[at] + shared->records[i].offset;
    return wait_for_theirs(i);
}

/* --- by hand, with numbers: the exporter's, and the importer's */

static int write_number(int i) {
    (void)i;
    return cuStreamWriteValue64_v2(stream, numbers, ++written, 0);
}

static int number_export(int i) {
    const int failed = offset_of(i) || write_number(i);
    shared->records[i].number = written;
    return failed;
}

static int number_import(int i) {
    addresses[i] = opened[at] + shared->records[i].offset;
    return cuStreamWaitValue64_v2(stream, numbers, shared->records[i].number, 0);
}

static int number_release(int i) {
    (void)i;
    return cuStreamWriteValue64_v2(stream, numbers + 8, ++written, 0);
}

static int number_end(int i) {
    (void)i;
    return cuStreamWaitValue64_v2(stream, numbers + 8, ++waited, 0);
}

/* --- by hand, each array alone */

static int alone_export(int i) {
    record *it = &shared->records[i];
    return offset_of(i) || cuIpcGetMemHandle(&it->memory, address(i)) ||
           cuEventCreate(&events[i], INTERPROCESS) || cuEventRecord(events[i], stream) ||
           cuIpcGetEventHandle(&it->event, events[i]);
}

static int alone_import(int i) {
    const record *it = &shared->records[i];
    const int failed = cuIpcOpenMemHandle_v2(&addresses[i], it->memory, LAZY_PEERS) ||
                       cuIpcOpenEventHandle(&events[i], it->event);
    addresses[i] += it->offset;
    return failed;
}

static int alone_release(int i) {
    return cuEventDestroy_v2(events[i]) ||
           cuIpcCloseMemHandle(addresses[i] - shared->records[i].offset);
}

static int alone_end(int i) { return cuEventDestroy_v2(events[i]); }

/* --- with the library */

static int channel_export(int i) {
    record *it = &shared->records[i];
    return cai_unstable_channel_export(channels[at], 0, &arrays[at][i], it->bytes, RECORD,
                                       &it->size, &exports[at][i], NULL);
}

static int channel_import(int i) {
    const record *it = &shared->records[i];
    return cai_unstable_channel_import(channels[at], it->bytes, it->size, &imported[i], NULL);
}

static int release(int i) { return cai_array_release(&imported[i]), 0; }
static int withdraw(int i) {
    return cai_unstable_channel_withdraw(channels[at], exports[at][i], NULL);
}

static int ipc_export(int i) {
    record *it = &shared->records[i];
    int32_t fd = -1;
    return cai_unstable_ipc_export(&arrays[at][i], 0, it->bytes, RECORD, &it->size, &fd, &kept[i],
                                   NULL);
}

static int ipc_import(int i) {
    const record *it = &shared->records[i];
    return cai_unstable_ipc_import(it->bytes, it->size, -1, 0, &imported[i], NULL);
}

static int ipc_end(int i) {
    cai_owner_release(kept[i]);
    return kept[i] = NULL, 0;
}

/* Functions of the exporter, of the importer, and of the exporter once all are released. */
typedef struct way {
    const char *item, *name;
    int count, uses_channel;
    uint32_t flags;
    int (*export)(int i), (*import)(int i), (*release)(int i), (*end)(int i);
} way;

static const way ways[WAYS] = {
    {"a channel, events", "by hand", MANY, 0, 0, hand_export, hand_import, record_mine,
     wait_for_theirs},
    {"a channel, events", "libcai", MANY, 1, 0, channel_export, channel_import, release, withdraw},
    {"a channel, numbers", "by hand", MANY, 0, 0, number_export, number_import, number_release,
     number_end},
    {"a channel, numbers", "libcai", MANY, 1, CAI_UNSTABLE_CHANNEL_NUMBERS, channel_export,
     channel_import, release, withdraw},
    {"each array alone", "by hand", SINGLE, 0, 0, alone_export, alone_import, alone_release,
     alone_end},
    {"each array alone", "libcai", SINGLE, 0, 0, ipc_export, ipc_import, release, ipc_end},
};

/* --- the processes */

static void need(int is_right, const char *what) {
    if (is_right) return;
    at %= WAYS; /* it may be behind the last one */
    fprintf(stderr, "%d, %s, %s: %s failed\n", (int)getpid(), ways[at].item, ways[at].name, what);
    exit(1);
}

static int is_library(void) { return strcmp(ways[at].name, "libcai") == 0; }

static void tell(char word) { need(write(other, &word, 1) == 1, "write"); }

static char hear(void) {
    char word = 0;
    return read(other, &word, 1) == 1 ? word : 0;
}

static void poll_until(uint64_t left) {
    uint64_t found = 0;
    do
        need(cai_unstable_channel_poll(channels[at], &found, NULL) == CAI_OK, "poll");
    while (found > left);
}

static double each(int (*run)(int i), const char *what) {
    int failed = 0;
    const double begun = now();
    for (int i = 1; i <= ways[at].count; i++)
        failed |= run(i);
    const double spent = now() - begun;
    need(!failed, what);
    return spent;
}

static void settle(void) { need(cuStreamSynchronize(stream) == 0, "cuStreamSynchronize"); }

/* CUDA does not work after fork(): each process begins on its own. */
static void start(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    need(driver != NULL, "to load the driver");
#define FIND(name, arguments) need((*(void **)&name = dlsym(driver, #name)) != NULL, #name);
    FUNCTIONS(FIND)
    need(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
             cuCtxSetCurrent(context) == 0 && cuStreamCreate(&stream, 1) == 0 &&
             cuEventCreate(&mine, INTERPROCESS) == 0,
         "to begin");
    for (at = 0; at < WAYS; at++)
        if (ways[at].uses_channel)
            need(cai_unstable_channel_create(0, ways[at].flags, &channels[at], NULL) == CAI_OK,
                 "create");
    one_core();
}

static void make_arrays(void) {
    static const int64_t shape[1] = {PITCH / 4};
    const cai_array init = CAI_ARRAY_INIT;
    need(cuMemAlloc_v2(&memory[at], PITCH * (MANY + 1)) == 0, "cuMemAlloc");
    need(cuIpcGetMemHandle(&shared->memory[at], memory[at]) == 0, "cuIpcGetMemHandle");
    for (int i = 0; i <= ways[at].count && is_library(); i++) {
        cai_array array = init;
        array.data = (void *)(uintptr_t)address(i);
        array.shape = shape;
        array.ndim = 1;
        memcpy(array.typestr, "<f4", sizeof("<f4"));
        array.device.type = CAI_DEVICE_CUDA;
        array.stream = (cai_stream)(uintptr_t)stream;
        arrays[at][i] = init;
        need(cai_array_create(&array, NULL, NULL, &arrays[at][i], NULL) == CAI_OK, "create");
    }
}

/* The importer connects meanwhile. */
static char poll_and_hear(void) {
    char word = 0;
    ssize_t count;
    while ((count = recv(other, &word, 1, MSG_DONTWAIT)) < 0) {
        for (at = 0; at < WAYS; at++)
            if (ways[at].uses_channel) poll_until(1);
        usleep(1000);
    }
    return count == 1 ? word : 0;
}

static void exporter(void) {
    const int rounds = (int)bench_setting("BENCH_ROUNDS", 2);
    static double spent[WAYS][PARTS];
    start();
    need(cuMemAlloc_v2(&numbers, 16) == 0 && cuIpcGetMemHandle(&shared->numbers, numbers) == 0 &&
             cuIpcGetEventHandle(&shared->ready, mine) == 0,
         "handles");
    for (at = 0; at < WAYS; at++) {
        make_arrays();
        if (!is_library()) continue;
        void *right = arrays[at][0].data;
        arrays[at][0].data = (void *)(uintptr_t)PITCH;
        need(ways[at].export(0) != CAI_OK, "to refuse what is wrong");
        arrays[at][0].data = right;
        need(ways[at].export(0) == CAI_OK, "export");
        shared->records[1 + at] = shared->records[0];
    }
    tell('s');
    need(poll_and_hear() == 's', "the importer");
    need(cuIpcOpenEventHandle(&theirs, shared->done) == 0, "cuIpcOpenEventHandle");
    for (int round = -1; round < rounds; round++) { /* the first one is not counted */
        for (at = 0; at < WAYS; at++) {
            const way *it = &ways[at];
            const double exporting = each(it->export, "export");
            settle();
            tell('i');
            need(hear() == 'r', "the importer");
            const double begun = now();
            (void)each(it->end, "end");
            if (it->uses_channel) poll_until(1);
            const double ending = now() - begun;
            settle();
            const double ns[PARTS] = {exporting, shared->importing, shared->releasing, ending};
            for (int part = 0; part < PARTS; part++)
                spent[at][part] = ns[part] / it->count;
        }
        for (int i = 0; i < WAYS * PARTS && round >= 0; i++) { /* both ways of a part together */
            const int part = i / 2 % PARTS, which = i / 2 / PARTS * 2 + i % 2;
            const char *const parts[PARTS] = {"export", "import", "release",
                                              ways[which].count == MANY ? "withdraw, poll"
                                                                        : "release the owner"};
            printf("an array for another process, the simulated driver\t%s: %s | %s\t%.1f\n",
                   ways[which].item, parts[part], ways[which].name, spent[which][part]);
        }
    }
    shutdown(other, SHUT_WR);
}

static int importer(void) {
    const cai_array init = CAI_ARRAY_INIT;
    need(hear() == 's', "the exporter");
    start();
    need(cuIpcOpenMemHandle_v2(&numbers, shared->numbers, LAZY_PEERS) == 0 &&
             cuIpcOpenEventHandle(&theirs, shared->ready) == 0 &&
             cuIpcGetEventHandle(&shared->done, mine) == 0,
         "handles");
    for (int i = 0; i <= MANY; i++)
        imported[i] = init;
    for (at = 0; at < WAYS; at++) {
        if (!is_library()) {
            /* Each array alone opens it. */
            need(ways[at].count == SINGLE ||
                     cuIpcOpenMemHandle_v2(&opened[at], shared->memory[at], LAZY_PEERS) == 0,
                 "open");
            continue;
        }
        cai_status status;
        while ((status = ways[at].import(1 + at)) == CAI_ERR_IPC_PENDING) {
            usleep(1000);
            poll_until(0);
        }
        need(status == CAI_OK, "import");
        if (ways[at].uses_channel) first[at] = imported[1 + at];
        else cai_array_release(&imported[1 + at]);
        imported[1 + at] = init;
        shared->records[1 + at].size--;
        need(ways[at].import(1 + at) != CAI_OK, "to refuse what is wrong");
    }
    tell('s');
    for (at = 0; hear() == 'i'; at = (at + 1) % WAYS) {
        shared->importing = each(ways[at].import, "import");
        shared->releasing = each(ways[at].release, "release");
        settle();
        tell('r');
    }
    for (at = 0; at < WAYS; at++)
        cai_array_release(&first[at]);
    return 0;
}

int main(void) {
    int both[2], status = -1;
    /* Memory stays with the process: fresh pages take as long as what is measured here. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) return 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) return 1;
    other = both[child != 0];
    close(both[child == 0]);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return importer();
    }
    exporter();
    need(waitpid(child, &status, 0) == child && status == 0, "the importer");
    return 0;
}
