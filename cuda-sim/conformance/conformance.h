// Rules of the driver, each a function that states one and looks whether it holds. The same program
// runs on the simulated driver and on a real one; where they differ, the simulated one is wrong.
//
//     conformance                  every rule in a process of its own; one line each
//     conformance --json FILE      and what was found, to be compared by compare.py
//     conformance list
//     conformance run THEME/NAME   one rule in this process
//
// Sources: names of functions mean their documentation in cuda.h; "synchronization" is the chapter
// on API synchronization behavior, "capture" that on stream capture; "observed" is what others
// report of real drivers, and "undocumented" what no documentation states.
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void (*rule_function)(void);
void add_rule(const char *theme, const char *name, const char *rule, const char *source,
              rule_function run);
void failed(const char *file, int line, const char *what, long long found, long long expected);
void observed(const char *key, long long value);
_Noreturn void skip(const char *why);

// States a rule. What follows is the body of the function that checks it.
#define RULE(theme, name, rule, source)                                   \
    static void theme##_##name(void);                                     \
    __attribute__((constructor)) static void add_##theme##_##name(void) { \
        add_rule(#theme, #name, rule, source, theme##_##name);            \
    }                                                                     \
    static void theme##_##name(void)

#define EXPECT(found, expected)                                                         \
    do {                                                                                \
        const long long found_ = (long long)(found), expected_ = (long long)(expected); \
        if (found_ != expected_) {                                                      \
            failed(__FILE__, __LINE__, #found, found_, expected_);                      \
        }                                                                               \
    } while (0)
#define OK(call) EXPECT(call, CUDA_SUCCESS)
// What only a real driver can settle: compared between two runs, without an expectation.
#define OBSERVE(key, value) observed(key, (long long)(value))

enum { N = 4096 };

extern CUcontext ctx; // of device 0, primary and current
CUstream stream(unsigned flags);
CUevent event(void);
CUdeviceptr device(size_t n);
int first_byte(CUdeviceptr p);
CUgraph new_graph(void);
CUgraphExec instantiate(CUgraph graph);
CUgraphNode add_memset(CUgraph graph, CUdeviceptr p, unsigned value); // of N bytes
void launch(CUgraphExec exec, CUstream a);                            // until it is done
CUstreamCaptureStatus status(CUstream of);

// A stream that is held up until `open_gate`: a host function waits. Whatever may wait for the
// stream comes after.
void close_gate(CUstream stream);
void open_gate(void);

// A second context, and how many devices there are.
CUcontext another_context(void);
int devices(void);

#endif
