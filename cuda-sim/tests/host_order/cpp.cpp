// What C++20 builds on futexes.
#include "host_order.hpp"

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>

static std::promise<void> promise;
static std::future<void> future;
static void prepare_promise() { future = promise.get_future(); }
static void keep_promise() { promise.set_value(); }
static void await_promise() { future.get(); }

static std::packaged_task<void()> task([] {});
static void prepare_task() { future = task.get_future(); }
static void run_task() { task(); }

static std::shared_future<void> shared;
static void prepare_shared() { shared = promise.get_future().share(); }
static void await_shared() { std::shared_future<void>(shared).wait(); }

static std::latch latch(1);
static void count_down() { latch.count_down(); }
static void await_latch() { latch.wait(); }

static std::latch two(2);
static void arrive_first() { two.count_down(); }
static void arrive_and_wait() { two.arrive_and_wait(); }

static std::barrier<> barrier(2);
static void arrive() { (void)barrier.arrive(); }
static void arrive_and_wait_at_barrier() { barrier.arrive_and_wait(); }

static std::counting_semaphore<> counting(0);
static void release() { counting.release(); }
static void acquire() { counting.acquire(); }

static std::binary_semaphore binary(0);
static void release_binary() { binary.release(); }
static void acquire_in_time() {
    if (!binary.try_acquire_for(std::chrono::seconds(60))) std::abort();
}

static std::atomic<int> number(0);
static void store_and_notify() {
    number.store(1);
    number.notify_all();
}
static void await_number() { number.wait(0); }

static std::atomic<long> wide(0);
static void store_and_notify_wide() {
    wide.store(1);
    wide.notify_one();
}
static void await_wide() { wide.wait(0); }

static std::atomic_flag flag;
static void set_flag() {
    flag.test_and_set();
    flag.notify_one();
}
static void await_flag() { flag.wait(false); }

static std::mutex mutex;
static std::condition_variable condition;
static bool ready;
static void signal_condition() {
    const std::lock_guard lock(mutex);
    ready = true;
    condition.notify_one();
}
static void await_condition() {
    std::unique_lock lock(mutex);
    condition.wait(lock, [] { return ready; });
}

const handover handovers_cpp[] = {
    {"promise", prepare_promise, keep_promise, await_promise, true},
    {"shared_future", prepare_shared, keep_promise, await_shared, true},
    {"packaged_task", prepare_task, run_task, await_promise, true},
    {"latch", nullptr, count_down, await_latch, true},
    {"latch_arrive_and_wait", nullptr, arrive_first, arrive_and_wait, true},
    {"barrier", nullptr, arrive, arrive_and_wait_at_barrier, true},
    {"counting_semaphore", nullptr, release, acquire, true},
    {"semaphore_in_time", nullptr, release_binary, acquire_in_time, true},
    {"atomic_wait", nullptr, store_and_notify, await_number, true},
    {"atomic_wait_wide", nullptr, store_and_notify_wide, await_wide, true},
    {"atomic_flag_wait", nullptr, set_flag, await_flag, true},
    {"condition_variable", nullptr, signal_condition, await_condition, false},
    {nullptr, nullptr, nullptr, nullptr, false},
};
