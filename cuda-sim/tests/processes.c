// Two processes that share memory: `processes CASE`. The second is this program again. The exit
// status is the larger one of both.
#include "programs/race_test.h"

#include <sys/wait.h>
#include <unistd.h>

struct message {
    CUipcMemHandle memory;
    CUipcEventHandle written, read;
};

static int second;        // whether this is the second process
static int input, output; // pipes from and to the other
static CUstream a;
static CUdeviceptr p;
static CUevent written, has_read;

static void tell(void) {
    char byte = 0;
    CHECK(write(output, &byte, 1) != 1);
}

static void await(void) {
    char byte;
    CHECK(read(input, &byte, 1) != 1);
}

static CUevent shared_event(void) {
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    return event;
}

static CUipcMemHandle handle;

static void send_handles(void) {
    struct message message;
    CHECK(cuIpcGetMemHandle(&message.memory, p));
    CHECK(cuIpcGetEventHandle(&message.written, written));
    CHECK(cuIpcGetEventHandle(&message.read, has_read));
    CHECK(write(output, &message, sizeof message) != sizeof message);
}

static void receive_handles(void) {
    struct message message;
    CHECK(read(input, &message, sizeof message) != sizeof message);
    handle = message.memory;
    CHECK(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(cuIpcOpenEventHandle(&written, message.written));
    CHECK(cuIpcOpenEventHandle(&has_read, message.read));
}

// What both have after the exchange of handles: the memory, two events, a stream.
static void begin(int early) {
    a = make_nonblocking();
    if (second) {
        receive_handles();
        return;
    }
    p = alloc(2 * N);
    CHECK(cuMemsetD8(p + N, 0, N));
    CHECK(cuCtxSynchronize());
    written = shared_event(), has_read = shared_event();
    if (early) claims_write(a, p, N);
    send_handles();
}

// The first process writes, the second reads.
static void write_and_read(int record, int synchronize, int wait) {
    begin(0);
    if (!second) {
        claims_write(a, p, N);
        if (record) CHECK(cuEventRecord(written, a));
        if (synchronize) CHECK(cuStreamSynchronize(a));
        tell();
        await();
        return;
    }
    await();
    if (wait) CHECK(cuStreamWaitEvent(a, written, 0));
    claims_read(a, p, N);
    tell();
}

static void unordered(void) { write_and_read(0, 0, 0); }
static void event_waited_for(void) { write_and_read(1, 0, 1); }
static void event_not_waited_for(void) { write_and_read(1, 0, 0); }
static void host_waited_first(void) { write_and_read(0, 1, 0); }

// What the checker does not observe orders this thread and the main one.
static atomic_int turn;

static void *calls_in_between(void *context) {
    CHECK(cuCtxSetCurrent(context));
    CUstream b = make_nonblocking();
    while (turn != 1)
        sched_yield();
    CHECK(cuMemsetD8Async(p + N, 0, 1, b));
    turn = 2;
    return NULL;
}

// Each thread of the second process knows what the first one waited for.
static void host_waited_first_for_all_threads(void) {
    pthread_t thread;
    CUcontext context;
    if (!second) {
        write_and_read(0, 1, 0);
        return;
    }
    begin(0);
    CHECK(cuCtxGetCurrent(&context));
    CHECK(pthread_create(&thread, NULL, calls_in_between, context));
    await();
    turn = 1;
    while (turn != 2)
        sched_yield();
    claims_read(a, p, N);
    CHECK(pthread_join(thread, NULL));
    tell();
}

// The access was there before the handle.
static void written_before_the_export(void) {
    begin(1);
    if (second) {
        claims_read(a, p, N);
        tell();
    } else {
        await();
    }
}

static void halves(int overlap) {
    begin(0);
    if (second) {
        claims_write(a, p + (overlap ? N / 2 - 1 : N / 2), N / 2);
        tell();
        await();
    } else {
        claims_write(a, p, N / 2);
        await();
        tell();
    }
}

static void two_halves(void) { halves(0); }
static void one_byte_in_common(void) { halves(1); }

static void both_read(void) {
    begin(0);
    if (!second) CHECK(cuStreamSynchronize(a));
    claims_read(a, p, N);
    tell();
    await();
}

// There and back: the first process knows its own work from the event of the second.
static void back_again(int wait_back) {
    begin(0);
    CUstream b = make_nonblocking();
    for (int i = 0; i < 5; ++i) {
        if (!second) {
            claims_write(a, p, N);
            CHECK(cuEventRecord(written, a));
            tell();
            await();
            if (wait_back) CHECK(cuStreamWaitEvent(b, has_read, 0));
            claims_write(b, p, N);
            CHECK(cuEventRecord(written, b));
            CHECK(cuStreamWaitEvent(a, written, 0));
        } else {
            await();
            CHECK(cuStreamWaitEvent(a, written, 0));
            claims_read(a, p, N);
            CHECK(cuEventRecord(has_read, a));
            tell();
        }
    }
    // The other lives until the last round is checked.
    if (second) await();
    else tell();
}

static void there_and_back(void) { back_again(1); }
static void there_without_a_way_back(void) { back_again(0); }

// The same order by numbers in the memory, behind what is used.
static void wait_for_number(CUstream stream, int word, unsigned long long value) {
    CHECK(cuStreamWaitValue64(stream, p + N + 8 * word, value, CU_STREAM_WAIT_VALUE_GEQ));
}

static void write_number(CUstream stream, int word, unsigned long long value) {
    CHECK(cuStreamWriteValue64(stream, p + N + 8 * word, value, 0));
}

static void numbers(unsigned long long less, int wait_back) {
    begin(0);
    CUstream b = make_nonblocking();
    for (unsigned long long i = 1; i < 100; ++i) {
        if (!second) {
            claims_write(a, p, N);
            write_number(a, 0, i);
            tell();
            await();
            if (wait_back) wait_for_number(b, 1, i);
            claims_write(b, p, N);
            write_number(b, 2, i);
            wait_for_number(a, 2, i);
        } else {
            await();
            if (less < i) wait_for_number(a, 0, i - less);
            claims_read(a, p, N);
            write_number(a, 1, i);
            tell();
        }
    }
    if (second) await();
    else tell();
}

static void numbers_there_and_back(void) { numbers(0, 1); }
static void numbers_there_without_a_way_back(void) { numbers(0, 0); }
static void number_of_the_round_before(void) { numbers(1, 1); }

// Numbers from 1 to `most`, of which number `late` comes after the write; then `others` elsewhere.
static void write_many(int most, int late, int others) {
    begin(0);
    if (!second) {
        for (int i = 1; i <= most; ++i) {
            if (i == late) writes(a, p, N);
            write_number(a, 0, (unsigned long long)i);
        }
        for (int i = 0; i < others; ++i)
            write_number(a, 1 + i % 100, 1);
        tell();
        await();
        return;
    }
    await();
    wait_for_number(a, 0, 50);
    reads(a, p, N);
    tell();
}

static void number_before_many_of_others(void) { write_many(50, 50, 5000); }
static void number_before_many_of_others_too_early(void) { write_many(51, 51, 5000); }
static void number_before_many(void) { write_many(5000, 50, 0); }
static void number_far_before_many(void) { write_many(5000, 1000, 0); }

// One stream waits for 300 others, the last of which writes.
static void number_of_many_streams(int late) {
    begin(0);
    if (!second) {
        for (int i = 0; i < 300; ++i) {
            CUstream other = make_nonblocking();
            if (i == 299 && !late) writes(other, p, N);
            CHECK(cuEventRecord(written, other));
            CHECK(cuStreamWaitEvent(a, written, 0));
        }
        write_number(a, 0, 1);
        if (late) writes(a, p, N);
        tell();
        await();
        return;
    }
    await();
    wait_for_number(a, 0, 1);
    reads(a, p, N);
    tell();
}

static void number_after_many_streams(void) { number_of_many_streams(0); }
static void number_after_many_streams_too_early(void) { number_of_many_streams(1); }

// A number that is written and waited for in another way than by `write_number` in a stream.
enum way { PLAIN, IN_A_GRAPH, BY_A_FILL, HALF };

static void number_passed(enum way put, enum way get, int early) {
    begin(0);
    const int captures = (second ? get : put) == IN_A_GRAPH;
    CUgraph graph;
    CUgraphExec executable;
    if (second) await();
    if (captures) CHECK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (second) {
        if (get == HALF) {
            CHECK(cuStreamWaitValue32(a, p + N + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
        } else {
            wait_for_number(a, 0, 1ull << 32);
        }
        reads(a, p, N);
    } else {
        if (!early) writes(a, p, N);
        if (put == BY_A_FILL) {
            CHECK(cuMemsetD32Async(p + N + 4, 1, 1, a));
        } else {
            write_number(a, 0, 1ull << 32);
        }
        if (early) writes(a, p, N);
    }
    if (captures) {
        CHECK(cuStreamEndCapture(a, &graph));
        CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        CHECK(cuGraphLaunch(executable, a));
    }
    if (second) CHECK(cuStreamSynchronize(a));
    tell();
    if (!second) await();
}

static void half_of_a_number(void) { number_passed(PLAIN, HALF, 0); }
static void half_of_a_number_too_early(void) { number_passed(PLAIN, HALF, 1); }
static void number_by_a_fill(void) { number_passed(BY_A_FILL, HALF, 0); }
static void number_by_a_fill_too_early(void) { number_passed(BY_A_FILL, HALF, 1); }
static void number_in_a_graph(void) { number_passed(IN_A_GRAPH, PLAIN, 0); }
static void number_in_a_graph_too_early(void) { number_passed(IN_A_GRAPH, PLAIN, 1); }
static void number_waited_for_in_a_graph(void) { number_passed(PLAIN, IN_A_GRAPH, 0); }
static void number_waited_for_in_a_graph_too_early(void) { number_passed(PLAIN, IN_A_GRAPH, 1); }

static void host_waits_for_the_event_of_the_other(void) {
    begin(0);
    if (second) {
        claims_write(a, p, N);
        CHECK(cuEventRecord(has_read, a));
        tell();
        await();
        return;
    }
    await();
    CHECK(cuEventSynchronize(has_read));
    claims_read(a, p, N);
    tell();
}

static void freed_while_the_other_reads(int synchronize) {
    begin(0);
    if (second) {
        CHECK(cuStreamSynchronize(a));
        claims_read(a, p, N);
        if (synchronize) CHECK(cuStreamSynchronize(a));
        tell();
        await();
        return;
    }
    await();
    CHECK(cuMemFree(p));
    tell();
}

static void freed_too_early(void) { freed_while_the_other_reads(0); }
static void freed_afterwards(void) { freed_while_the_other_reads(1); }

// A handle that is open gives the same address again, until it is closed as often.
static void opened_again(int ordered) {
    begin(0);
    if (!second) {
        await();
        return;
    }
    CUdeviceptr q;
    CUstream b = make_nonblocking();
    CHECK(cuIpcOpenMemHandle(&q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(q != p);
    claims_write(a, p, N);
    if (ordered) CHECK(cuStreamSynchronize(a));
    claims_read(b, q, N);
    CHECK(cuIpcCloseMemHandle(q));
    CHECK(cuStreamSynchronize(b));
    CHECK(cuIpcCloseMemHandle(p));
    tell();
}

static void opened_twice(void) { opened_again(0); }
static void opened_twice_in_order(void) { opened_again(1); }

// Nothing runs any more when the second process has ended.
static void after_its_end(void) {
    begin(0);
    if (second) {
        claims_write(a, p, N);
        tell();
        return;
    }
    await();
    CHECK(wait(NULL) < 0);
    claims_read(a, p, N);
}

// clang-format off
static const struct {
    const char *name;
    void (*run)(void);
    int racy;
} cases[] = {
    {"unordered", unordered, 1},
    {"event_waited_for", event_waited_for, 0},
    {"event_not_waited_for", event_not_waited_for, 1},
    {"host_waited_first", host_waited_first, 0},
    {"host_waited_first_for_all_threads", host_waited_first_for_all_threads, 0},
    {"written_before_the_export", written_before_the_export, 1},
    {"two_halves", two_halves, 0},
    {"one_byte_in_common", one_byte_in_common, 1},
    {"both_read", both_read, 0},
    {"there_and_back", there_and_back, 0},
    {"there_without_a_way_back", there_without_a_way_back, 1},
    {"numbers_there_and_back", numbers_there_and_back, 0},
    {"numbers_there_without_a_way_back", numbers_there_without_a_way_back, 1},
    {"number_of_the_round_before", number_of_the_round_before, 1},
    {"number_before_many_of_others", number_before_many_of_others, 0},
    {"number_before_many_of_others_too_early", number_before_many_of_others_too_early, 1},
    {"number_before_many", number_before_many, 0},
    {"number_far_before_many", number_far_before_many, 1},
    {"number_after_many_streams", number_after_many_streams, 0},
    {"number_after_many_streams_too_early", number_after_many_streams_too_early, 1},
    {"half_of_a_number", half_of_a_number, 0},
    {"half_of_a_number_too_early", half_of_a_number_too_early, 1},
    {"number_by_a_fill", number_by_a_fill, 0},
    {"number_by_a_fill_too_early", number_by_a_fill_too_early, 1},
    {"number_in_a_graph", number_in_a_graph, 0},
    {"number_in_a_graph_too_early", number_in_a_graph_too_early, 1},
    {"number_waited_for_in_a_graph", number_waited_for_in_a_graph, 0},
    {"number_waited_for_in_a_graph_too_early", number_waited_for_in_a_graph_too_early, 1},
    {"host_waits_for_the_event_of_the_other", host_waits_for_the_event_of_the_other, 0},
    {"freed_too_early", freed_too_early, 1},
    {"freed_afterwards", freed_afterwards, 0},
    {"opened_twice", opened_twice, 1},
    {"opened_twice_in_order", opened_twice_in_order, 0},
    {"after_its_end", after_its_end, 0},
};
// clang-format on

int main(int argc, char **argv) {
    if (argc < 2) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
            printf("%s %s\n", cases[i].racy ? "racy" : "correct", cases[i].name);
        return 0;
    }
    second = argc == 4;
    pid_t child = 0;
    if (second) {
        input = atoi(argv[2]), output = atoi(argv[3]);
    } else {
        int to[2], from[2];
        char texts[2][16];
        CHECK(pipe(to) || pipe(from));
        child = fork();
        if (child == 0) {
            snprintf(texts[0], sizeof texts[0], "%d", to[0]);
            snprintf(texts[1], sizeof texts[1], "%d", from[1]);
            execl("/proc/self/exe", argv[0], argv[1], texts[0], texts[1], (char *)NULL);
            _exit(126);
        }
        input = from[0], output = to[1];
    }
    CHECK(cuInit(0));
    use(primary(0));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        if (strcmp(cases[i].name, argv[1]) == 0) cases[i].run();
    }
    int status = 0;
    if (!second && waitpid(child, &status, 0) == child) return WEXITSTATUS(status);
    return 0;
}
