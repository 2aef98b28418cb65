// Shared by the tests of cai.hpp: an owner's object that counts its destruction, exceptions.
#ifndef CPP_TEST_HPP
#define CPP_TEST_HPP

#include <cai/cai.hpp>

#include "tests.h"

#include <utility>

namespace {

struct counted {
    int *destroyed;
    explicit counted(int *count) : destroyed(count) {}
    counted(counted &&other) noexcept : destroyed(std::exchange(other.destroyed, nullptr)) {}
    ~counted() {
        if (destroyed != nullptr) {
            ++*destroyed;
        }
    }
};

template <class F> void throws(cai_status code, const char *field, const char *part, F &&body) {
    try {
        body();
    } catch (const cai::error &error) {
        ASSERT_STATUS(code, error.code());
        ASSERT_TEXT(cai_status_name(code), error.name());
        ASSERT_TEXT(field, error.field());
        ASSERT_CONTAINS(error.what(), part);
        return;
    }
    FAIL("nothing was thrown for %s, %s", field, part);
}

} // namespace

#endif
