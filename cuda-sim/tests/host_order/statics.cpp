// Local variables that are initialized at first use.
#include "host_order.hpp"

#include <atomic>
#include <sched.h>
#include <stdexcept>
#include <unistd.h>

// Steps in real time, which the checker does not observe.
static std::atomic<int> steps;
static void await(int step) {
    while (steps.load(std::memory_order_relaxed) < step)
        sched_yield();
}
static void reach(int step) { steps.store(step, std::memory_order_relaxed); }

static bool is_racy;

struct worker {
    worker() {
        if (!is_racy) work();
    }
};

static worker &instance() {
    static worker one;
    return one;
}

static void initializes() {
    instance();
    if (is_racy) work();
    reach(1);
}
static void finds_it_initialized() {
    await(1);
    instance();
    work();
    // Again, now that this thread knows it.
    instance();
}
PROGRAM(static_found_initialized) {
    is_racy = racy;
    both(initializes, finds_it_initialized);
}

struct slow_worker {
    slow_worker() {
        reach(1);
        usleep(20000);
        if (!is_racy) work();
    }
};
static void use_slow() { static slow_worker one; }
static void initializes_slowly() {
    use_slow();
    if (is_racy) work();
}
static void waits_for_the_initialization() {
    await(1);
    use_slow();
    work();
}
PROGRAM(static_waited_for) {
    is_racy = racy;
    both(initializes_slowly, waits_for_the_initialization);
}

// The first attempt ends by an exception, and the next one comes after it.
struct thrower {
    thrower() {
        if (steps.load(std::memory_order_relaxed) == 0) {
            if (!is_racy) work();
            throw std::runtime_error("first");
        }
        work();
    }
};
static void use_thrower() { static thrower one; }
static void fails() {
    try {
        use_thrower();
    } catch (const std::runtime_error &) {
        if (is_racy) work();
        reach(1);
        return;
    }
    std::abort();
}
static void initializes_again() {
    await(1);
    use_thrower();
}
PROGRAM(static_failed_first) {
    is_racy = racy;
    both(fails, initializes_again);
}

// Exported by programs that are linked with -rdynamic: other modules may have the same variable.
inline worker &inline_instance() {
    static worker one;
    return one;
}
static void initializes_inline() {
    inline_instance();
    if (is_racy) work();
}
PROGRAM(static_of_an_inline_function) {
    is_racy = racy;
    initializes_inline();
    if (racy) {
        both(work, work);
    } else {
        both([] { inline_instance(); }, [] { inline_instance(); });
    }
}
