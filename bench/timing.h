/* Times, and their median. */
#ifndef TIMING_H
#define TIMING_H

#include <stdlib.h>
#include <time.h>

/* Nanoseconds. */
static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least is first then, and the median in the middle. */
static inline void sort_times(double *times, size_t count) {
    qsort(times, count, sizeof(double), ascending);
}

#endif
