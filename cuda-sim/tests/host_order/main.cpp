// `host_order list` lists all; `host_order run NAME` runs one and compares its result: exit status
// 0 as expected, 1 not, 2 an error.
#include "host_order.hpp"

#include <atomic>
#include <string>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static CUcontext context;
static CUdeviceptr buffer;

void work() {
    CUstream stream;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemsetD8Async(buffer, 1, 64, stream));
    CHECK(cuStreamSynchronize(stream));
}

static void *call(void *function) {
    reinterpret_cast<void (*)()>(function)();
    return nullptr;
}

void both(void (*one)(), void (*other)()) {
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], nullptr, call, reinterpret_cast<void *>(one)));
    CHECK(pthread_create(&threads[1], nullptr, call, reinterpret_cast<void *>(other)));
    CHECK(pthread_join(threads[0], nullptr));
    CHECK(pthread_join(threads[1], nullptr));
}

static const handover *chosen;
static bool is_racy;
static std::atomic<long> waiter;

// Waits in real time, which the checker does not observe.
static void await_sleeper() {
    long thread;
    while ((thread = waiter.load(std::memory_order_relaxed)) == 0)
        sched_yield();
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%ld/stat", thread);
    for (int asleep = 0; asleep < 3;) {
        char text[256] = "";
        FILE *file = std::fopen(path, "r");
        if (file == nullptr || std::fgets(text, sizeof text, file) == nullptr) std::abort();
        std::fclose(file);
        const char *end = std::strrchr(text, ')');
        asleep = end != nullptr && end[2] == 'S' ? asleep + 1 : 0;
        usleep(2000);
    }
}

static void run_from() {
    if (!is_racy) work();
    if (chosen->sleeps) await_sleeper();
    chosen->from();
    if (is_racy) work();
}

static void run_to() {
    waiter.store(syscall(SYS_gettid), std::memory_order_relaxed);
    chosen->to();
    work();
}

static int result(bool racy) {
    static char report[64 << 10];
    const size_t found = cudasim_take_report(report, sizeof report);
    std::printf("%s%zu races found, %s expected\n", report, found, racy ? "at least one" : "none");
    return (found > 0) == racy ? 0 : 1;
}

static void start() {
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&buffer, 64));
}

static const program *programs;

program::program(const char *its_name, void (*runs)(bool racy))
    : name(its_name), run(runs), next(programs) {
    programs = this;
}

int main(int argc, char **argv) {
    const bool listing = argc == 2 && std::strcmp(argv[1], "list") == 0;
    if (!listing && argc != 3) return 2;
    const auto is_wanted = [&](const char *construct, bool racy) {
        const std::string name = std::string(construct) + (racy ? "-racy" : "-correct");
        if (listing) std::puts(name.c_str());
        return !listing && name == argv[2];
    };
    for (const bool racy : {false, true}) {
        for (const handover *theme : {handovers_cpp, handovers_posix}) {
            for (const handover *at = theme; at->name != nullptr; ++at) {
                if (!is_wanted(at->name, racy)) continue;
                start();
                chosen = at;
                is_racy = racy;
                if (at->prepare != nullptr) at->prepare();
                both(run_from, run_to);
                return result(racy);
            }
        }
        for (const program *at = programs; at != nullptr; at = at->next) {
            if (!is_wanted(at->name, racy)) continue;
            start();
            at->run(racy);
            return result(racy);
        }
    }
    return listing ? 0 : 2;
}
