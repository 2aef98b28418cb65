/*
 * The main function of programs that consist of tests, which run in their order. Each is
 * `TEST(name) { ... }`.
 */
#ifndef TESTS_H
#define TESTS_H

#include "cai_test.h"

/* By their lines, because constructors run in another order on some systems. */
static void (*all_tests[1000])(void);

#define TEST(name)                                                                            \
    static void name(void);                                                                   \
    __attribute__((constructor)) static void add_##name(void) { all_tests[__LINE__] = name; } \
    static void name(void)

int main(void) {
    int tests = 0;
    for (size_t line = 0; line < sizeof all_tests / sizeof *all_tests; ++line)
        if (all_tests[line] != NULL) ++tests, all_tests[line]();
    ASSERT(tests > 0);
    return 0;
}

#endif
