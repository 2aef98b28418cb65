/* Rows of a bench in C, measured and printed as run.py reads them: `group<TAB>row<TAB>ns`, a line
 * for each round. */
#ifndef TIMING_H
#define TIMING_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* `run(with)` returns 0 if what it did was right. `refuses`: other than 0 if it was given what
 * `spoil` made wrong. */
typedef struct bench_row {
    const char *name;
    int (*run)(const void *with);
    int refuses;
    const void *with;
} bench_row;

/* The compiler must believe that this is read, and that memory may have changed. */
#define KEEP(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

/* The time that this thread ran: other programs on the machine do not count. */
#ifndef BENCH_CLOCK
#define BENCH_CLOCK CLOCK_THREAD_CPUTIME_ID
#endif

/* Nanoseconds. */
static inline double now(void) {
    struct timespec time;
    clock_gettime(BENCH_CLOCK, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline void one_core(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

static inline double bench_setting(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text != NULL ? atof(text) : otherwise;
}

/* What one of `times` takes; ends the program if one fails. `settle` empties queues, and is not
 * counted. */
static inline double bench_ns(const bench_row *row, long times, void (*settle)(void)) {
    int failed = 0;
    double spent = now();
    for (long i = 0; i < times; i++)
        failed |= row->run(row->with);
    spent = (now() - spent) / (double)times;
    if (settle != NULL) settle();
    if (failed) {
        fprintf(stderr, "%s failed\n", row->name);
        exit(1);
    }
    return spent;
}

/* Every row runs in every round, in turn. `spoil` makes the input of a row wrong, and right again;
 * `settle` may be NULL. */
static inline void bench(const char *group, const bench_row *rows, int count,
                         void (*spoil)(const bench_row *row, int wrong), void (*settle)(void)) {
    const int rounds = (int)bench_setting("BENCH_ROUNDS", 15);
    const double round_ns = bench_setting("BENCH_NS", 2e6);
    double *spent = calloc((size_t)(count * rounds), sizeof *spent);
    long *times = calloc((size_t)count, sizeof *times);
    if (spent == NULL || times == NULL) exit(1);
    one_core();
    for (int i = 0; i < count; i++) {
        if (rows[i].refuses) {
            spoil(&rows[i], 1);
            if (rows[i].run(rows[i].with) == 0) {
                fprintf(stderr, "%s: %s accepted what is wrong\n", group, rows[i].name);
                exit(1);
            }
            spoil(&rows[i], 0);
        }
        (void)bench_ns(&rows[i], 16, settle);
        times[i] = (long)(round_ns / bench_ns(&rows[i], 16, settle)) + 1;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++)
            spent[round * count + i] = bench_ns(&rows[i], times[i], settle);
    for (int i = 0; i < count * rounds; i++)
        printf("%s\t%s\t%.4f\n", group, rows[i % count].name, spent[i]);
    free(spent);
    free(times);
}
#define BENCH(group, rows, spoil, settle) \
    bench(group, rows, (int)(sizeof(rows) / sizeof((rows)[0])), spoil, settle)

#endif
