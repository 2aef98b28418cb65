// A program of two ages: one of today's headers and one of later ones, linked in either order, with
// two settings of the default stream.
// run: by tests/python/test_cpp_ages.py
#include "cpp_ages.h"

#include <cai/abi.hpp>

#include <cstdio>

extern const age today, later;

namespace {

int check(const char *name, int line) {
    if (line != 0) std::fprintf(stderr, "%s failed in line %d\n", name, line);
    return line != 0;
}

// Errors of each age are caught by the class of this file's.
int caught(const age &thrower) {
    try {
        return thrower.refuse();
    } catch (const cai::error &error) {
        return error.code() == CAI_ERR_BORROWED && error.what()[0] == 'o' ? 0 : __LINE__;
    }
}

} // namespace

int main() {
    int failed = check("sizes", later.array_size > today.array_size ? 0 : __LINE__);
    for (const age *one : {&today, &later, &today}) {
        failed += check("use", one->use());
        failed += check("default_stream", one->default_stream());
        failed += check("refuse", caught(*one));
    }
    failed += check("later to today", later.give(today.keep));
    failed += check("today to later", today.give(later.keep));
    failed += check("code", today.code() != later.code() ? 0 : __LINE__);
    return failed;
}
