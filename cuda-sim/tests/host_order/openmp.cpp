// OpenMP, with GCC's library. Teams have two threads.
#include "host_order.hpp"

#include <omp.h>

static void begin_and_end(bool racy) {
    work();
#pragma omp parallel num_threads(2)
    {
        // The second thread's work comes after that before the region, and before that after it.
        if (racy || omp_get_thread_num() == 1) work();
    }
    work();
}

static void second_region(bool racy) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) work();
#pragma omp parallel num_threads(2)
    if (racy || omp_get_thread_num() == 0) work();
}

static void barriers(bool racy) {
#pragma omp parallel num_threads(2)
    {
        for (int round = 0; round < 6; ++round) {
            if (omp_get_thread_num() == round % 2) work();
            if (racy && round == 3) continue;
#pragma omp barrier
        }
    }
}

// A barrier orders what came before it, not what comes between it and the next.
static void two_barriers(bool racy) {
#pragma omp parallel num_threads(2)
    {
#pragma omp barrier
        if (omp_get_thread_num() == 0) work();
        if (!racy) {
#pragma omp barrier
        }
        if (omp_get_thread_num() == 1) work();
#pragma omp barrier
    }
}

static void critical(bool racy) {
#pragma omp parallel num_threads(2)
    {
#pragma omp critical
        if (!racy) work();
        if (racy) work();
    }
}

static void critical_with_a_name(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (racy && omp_get_thread_num() == 0) {
#pragma omp critical(other)
            work();
        } else {
#pragma omp critical(one)
            work();
        }
    }
}

static void loop_static(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (racy) {
#pragma omp for schedule(static) nowait
            for (int i = 0; i < 2; ++i)
                if (i == 0) work();
        } else {
#pragma omp for schedule(static)
            for (int i = 0; i < 2; ++i)
                if (i == 0) work();
        }
        if (omp_get_thread_num() == 1) work();
    }
}

static void loop_dynamic(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (racy) {
#pragma omp for schedule(dynamic) nowait
            for (int i = 0; i < 2; ++i)
                if (i == 0) work();
            work();
        } else {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 2; ++i)
                if (i == 0) work();
            if (omp_get_thread_num() == 1) work();
        }
    }
}

static void region_and_loop(bool racy) {
#pragma omp parallel for num_threads(2) schedule(dynamic)
    for (int i = 0; i < 2; ++i) {
        if (i == 0) work();
    }
    if (racy) {
        both(work, work);
    } else {
        work();
    }
}

static void sections(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (racy) {
#pragma omp sections nowait
            {
#pragma omp section
                work();
            }
            work();
        } else {
#pragma omp sections
            {
#pragma omp section
                work();
            }
            if (omp_get_thread_num() == 1) work();
        }
    }
}

static void single(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (racy) {
#pragma omp single nowait
            work();
            work();
        } else {
#pragma omp single
            work();
            if (omp_get_thread_num() == 1) work();
        }
    }
}

static void copyprivate(bool racy) {
#pragma omp parallel num_threads(2)
    {
        int value = 0;
#pragma omp single copyprivate(value)
        {
            value = 1;
            if (!racy) work();
        }
        CHECK(value != 1);
        if (racy || omp_get_thread_num() == 1) work();
    }
}

static void ordered(bool racy) {
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int i = 0; i < 4; ++i) {
        if (racy) work();
#pragma omp ordered
        if (!racy) work();
    }
}

static void locks(bool racy) {
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
    {
        omp_set_lock(&lock);
        if (!racy) work();
        omp_unset_lock(&lock);
        while (!omp_test_lock(&lock)) {
        }
        if (!racy) work();
        omp_unset_lock(&lock);
        if (racy) work();
    }
    omp_destroy_lock(&lock);
}

static void nested_locks(bool racy) {
    omp_nest_lock_t lock;
    omp_init_nest_lock(&lock);
#pragma omp parallel num_threads(2)
    {
        omp_set_nest_lock(&lock);
        omp_set_nest_lock(&lock);
        omp_unset_nest_lock(&lock);
        if (!racy) work();
        omp_unset_nest_lock(&lock);
        if (racy) work();
    }
    omp_destroy_nest_lock(&lock);
}

// Which thread runs a task is not fixed, so the twin of each has a race whatever runs it.
static void taskwait(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            work();
#pragma omp task
            work();
#pragma omp taskwait
            work();
        } else if (racy) {
            work();
        }
    }
}

static void taskgroup(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            work();
#pragma omp taskgroup
            {
#pragma omp task
                work();
            }
            work();
        } else if (racy) {
            work();
        }
    }
}

static void tasks_before_a_barrier(bool racy) {
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp task
            work();
        }
        // In both threads: if only the second one worked here, it might run the task as well, and
        // everything would be in order.
        if (racy) work();
#pragma omp barrier
        if (omp_get_thread_num() == 1) work();
    }
    work();
}

static void dependences(bool racy) {
    char token = 0, other = 0;
    (void)token, (void)other;
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        {
#pragma omp task depend(out : token)
            work();
#pragma omp task depend(inout : token)
            work();
#pragma omp task depend(in : token)
            work();
        }
        if (racy) work();
    }
}

static void nested_regions(bool racy) {
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        if (racy || omp_get_thread_num() == 0) {
#pragma omp parallel num_threads(2)
            {
                if (omp_get_thread_num() == 1) work();
#pragma omp barrier
                if (omp_get_thread_num() == 0) work();
            }
        }
#pragma omp barrier
        if (omp_get_thread_num() == 1) work();
    }
}

// The copy of what a task was given: aligned, with constructors and without.
struct alignas(64) counted {
    int value = 0;
    counted() = default;
    counted(const counted &other) : value(other.value + 1) {}
};
static void arguments(bool racy) {
    counted one;
    one.value = 10;
    int plain = 7;
    bool right = false;
#pragma omp parallel num_threads(2) shared(right)
#pragma omp single
    {
#pragma omp task firstprivate(one, plain) shared(right)
        right = one.value > 10 && plain == 7 && reinterpret_cast<size_t>(&one) % 64 == 0;
    }
    CHECK(!right);
    if (racy) {
        both(work, work);
    } else {
        work();
    }
}

const program programs_openmp[] = {
    {"openmp_begin_and_end", begin_and_end},
    {"openmp_second_region", second_region},
    {"openmp_barrier", barriers},
    {"openmp_two_barriers", two_barriers},
    {"openmp_critical", critical},
    {"openmp_critical_with_a_name", critical_with_a_name},
    {"openmp_loop_static", loop_static},
    {"openmp_loop_dynamic", loop_dynamic},
    {"openmp_region_and_loop", region_and_loop},
    {"openmp_sections", sections},
    {"openmp_single", single},
    {"openmp_copyprivate", copyprivate},
    {"openmp_ordered", ordered},
    {"openmp_locks", locks},
    {"openmp_nested_locks", nested_locks},
    {"openmp_taskwait", taskwait},
    {"openmp_taskgroup", taskgroup},
    {"openmp_tasks_before_a_barrier", tasks_before_a_barrier},
    {"openmp_dependences", dependences},
    {"openmp_nested_regions", nested_regions},
    {"openmp_arguments", arguments},
    {nullptr, nullptr},
};
