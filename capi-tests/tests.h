/*
 * The main function of programs that consist of tests, which run in their order. Each is
 * `TEST(name) { ... }`.
 */
#ifndef TESTS_H
#define TESTS_H

#include "cai_test.h"

static void (*all_tests[16])(void);
static int tests;

#define TEST(name)                                                                           \
    static void name(void);                                                                  \
    __attribute__((constructor)) static void add_##name(void) { all_tests[tests++] = name; } \
    static void name(void)

int main(void) {
    ASSERT(tests > 0);
    for (int i = 0; i < tests; ++i)
        all_tests[i]();
    return 0;
}

#endif
