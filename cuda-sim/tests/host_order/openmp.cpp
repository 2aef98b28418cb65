// OpenMP, with GCC's library. Teams have two threads.
#include "host_order.hpp"

#include <omp.h>

PROGRAM(openmp_begin_and_end) {
    work();
#pragma omp parallel num_threads(2)
    {
        // The second thread's work comes after that before the region, and before that after it.
        if (racy || omp_get_thread_num() == 1) work();
    }
    work();
}

PROGRAM(openmp_second_region) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) work();
#pragma omp parallel num_threads(2)
    if (racy || omp_get_thread_num() == 0) work();
}

PROGRAM(openmp_barrier) {
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
PROGRAM(openmp_two_barriers) {
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

PROGRAM(openmp_critical) {
#pragma omp parallel num_threads(2)
    {
#pragma omp critical
        if (!racy) work();
        if (racy) work();
    }
}

PROGRAM(openmp_critical_with_a_name) {
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

PROGRAM(openmp_loop_static) {
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

PROGRAM(openmp_loop_dynamic) {
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

PROGRAM(openmp_region_and_loop) {
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

PROGRAM(openmp_sections) {
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

PROGRAM(openmp_single) {
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

PROGRAM(openmp_copyprivate) {
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

PROGRAM(openmp_ordered) {
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int i = 0; i < 4; ++i) {
        if (racy) work();
#pragma omp ordered
        if (!racy) work();
    }
}

PROGRAM(openmp_locks) {
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

PROGRAM(openmp_nested_locks) {
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
PROGRAM(openmp_taskwait) {
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

PROGRAM(openmp_taskgroup) {
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

PROGRAM(openmp_tasks_before_a_barrier) {
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

PROGRAM(openmp_dependences) {
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

PROGRAM(openmp_nested_regions) {
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
PROGRAM(openmp_arguments) {
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
