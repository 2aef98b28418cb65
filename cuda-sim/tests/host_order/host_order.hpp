// Test programs of the order between host threads: each construct once with an order that it gives,
// and once with work that it does not order. The expected result is that of `cuda-sim run`.
//
// Work is a fill that the calling thread waits for, always of the same bytes: two threads that do
// it without an order race.
#ifndef HOST_ORDER_HPP
#define HOST_ORDER_HPP

#include "../ok.h"

#include <cuda.h>
#include <cudasim.h>

#include <cstdio>
#include <cstdlib>

#define CHECK OK

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

extern const handover handovers_cpp[];
extern const handover handovers_posix[];

// A program that has both forms itself.
struct program {
    const char *name;
    void (*run)(bool racy);
    const program *next;
    program(const char *its_name, void (*runs)(bool racy));
};
#define PROGRAM(name)                                 \
    static void name(bool racy);                      \
    static const program program_##name(#name, name); \
    static void name(bool racy)

void work();

// Runs both on threads of their own.
void both(void (*one)(), void (*other)());

#endif
