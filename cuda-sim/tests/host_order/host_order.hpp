// Test programs of the order between host threads: each construct once with an order that it gives,
// and once with work that it does not order. The expected result is that of `cuda-sim run`.
//
// Work is a fill that the calling thread waits for, always of the same bytes: two threads that do
// it without an order race.
#ifndef HOST_ORDER_HPP
#define HOST_ORDER_HPP

#include <cuda.h>
#include <cudasim.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                           \
    do {                                                                                      \
        const int check_result = static_cast<int>(call);                                      \
        if (check_result != 0) {                                                              \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, check_result); \
            std::exit(2);                                                                     \
        }                                                                                     \
    } while (0)

// One side of a construct. `from` releases and `to` acquires, each once.
struct handover {
    const char *name;
    // Before the threads start.
    void (*prepare)();
    void (*from)();
    void (*to)();
    // `from` waits until the other thread sleeps in `to`: only waiting is observed.
    bool sleeps;
};

// A program that has both forms itself.
struct program {
    const char *name;
    void (*run)(bool racy);
};

extern const handover handovers_cpp[];
extern const handover handovers_posix[];
extern const program programs_posix[];
extern const program programs_statics[];
extern const program programs_openmp[];

void work();

// Runs both on threads of their own.
void both(void (*one)(), void (*other)());

#endif
