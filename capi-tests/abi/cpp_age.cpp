// One file of a program whose files are compiled with headers of different ages and with different
// default streams. AGE is its name in cpp_ages.cpp, LATER is defined for the later headers, and
// WITHOUT_LIBRARY for a program that links no library, and OWN_RUNTIME for a C++ library that is
// not the program's: no exception may leave such a file.
#include "cpp_ages.h"

#ifdef WITHOUT_LIBRARY
#include <cai/abi.hpp>
#else
#include <cai/cai.hpp>
#endif

#include <cstdio>
#include <memory>
#include <utility>

namespace {

#define REQUIRE(condition)                                                              \
    do {                                                                                \
        if (!(condition)) {                                                             \
            std::fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #condition); \
            return __LINE__;                                                            \
        }                                                                               \
    } while (0)

float values[6] = {0, 1, 2, 3, 4, 5};
const std::int64_t shape[2] = {2, 3};

cai_array describe_values() {
    cai_array raw = CAI_ARRAY_INIT;
    raw.data = values;
    raw.shape = shape;
    raw.ndim = 2;
    raw.typestr[0] = '<';
    raw.typestr[1] = 'f';
    raw.typestr[2] = '4';
    raw.stream = CAI_STREAM_NONE;
    raw.device = cai::host_device();
    return raw;
}

// Everything that the headers define on objects of this file's age. The arrays lie between two
// numbers, which a constructor of another age would overwrite.
int use() {
    struct {
        std::uint64_t before = 0x0123456789abcdef;
        cai::array array;
        std::uint64_t between = 0x0123456789abcdef;
        cai::array other;
        std::uint64_t after = 0x0123456789abcdef;
    } on_stack;
    const auto intact = [&] {
        return on_stack.before == 0x0123456789abcdef && on_stack.between == on_stack.before &&
               on_stack.after == on_stack.before;
    };
    REQUIRE(intact() && !on_stack.array && on_stack.array->struct_size == sizeof(cai_array));
    const auto kept = std::make_shared<int>(7);
    cai_array raw = describe_values();
    raw.owner = cai::make_owner(kept).release();
    on_stack.array = cai::array::adopt(raw);
    on_stack.other = on_stack.array.share();
    REQUIRE(intact() && kept.use_count() == 2 && raw.owner == nullptr);
    std::swap(on_stack.array, on_stack.other);
    on_stack.array = std::move(on_stack.other);
    REQUIRE(intact() && on_stack.array && !on_stack.other && on_stack.array.data() == values);
#ifndef WITHOUT_LIBRARY
    on_stack.other = cai::array::make(values, {2, 3}, CAI_STREAM_NONE, cai::host_device(),
                                      cai::make_owner(kept));
    REQUIRE(intact() && kept.use_count() == 3 && on_stack.other.layout().count == 6);
    const cai::host_view<const float, 2> view(on_stack.other);
    REQUIRE(view.at(1, 2) == 5);
    on_stack.other.attach(kept);
    REQUIRE(kept.use_count() == 4);
#endif
    on_stack.array = cai::array();
    on_stack.other = cai::array();
    REQUIRE(intact() && kept.use_count() == 1);
    return 0;
}

int default_stream() {
    std::uint64_t expected = CAI_STREAM_LEGACY;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    expected = CAI_STREAM_PER_THREAD;
#endif
    REQUIRE(cai::stream_of(nullptr) == expected);
    return 0;
}

int refuse() {
    cai_array raw = describe_values();
#ifdef OWN_RUNTIME
    try {
        (void)cai::array::from_unchecked(raw);
    } catch (const cai::error &error) {
        return error.code() == CAI_ERR_BORROWED ? 0 : __LINE__;
    }
#else
    (void)cai::array::from_unchecked(raw); // throws: it is borrowed
#endif
    return __LINE__;
}

// Keeps an array of another age, of which only the first 128 bytes are common to both.
int keep(const void *foreign) {
    const auto *source = static_cast<const cai_array *>(foreign);
    cai::array mine = cai::array::from_unchecked(*source);
    REQUIRE(mine->struct_size == sizeof(cai_array) && mine.ndim() == 2 && mine.data() != nullptr);
    REQUIRE(mine.stream() == CAI_STREAM_NONE && mine->byte_offset == 0);
#ifndef WITHOUT_LIBRARY
    const cai::array checked = cai::array::from(*source);
    const cai::host_view<const float, 2> view(*source);
    REQUIRE(view(1, 2) == 5 && checked.data() == view.data());
    const cai::array made = cai::array::make(*source, cai::make_owner(0));
    REQUIRE(made->struct_size == sizeof(cai_array) && made.data() == view.data());
    REQUIRE(made->owner != source->owner && made->byte_offset == 0);
#endif
    return 0;
}

int give(int (*receiver)(const void *)) {
    cai_array raw = describe_values();
    raw.owner = cai::make_owner(std::make_shared<int>(1)).release();
    const cai::array array = cai::array::adopt(raw);
    return receiver(&array.get());
}

// Where the code of the owners of this file lies.
const void *code() {
    const cai::owner owner = cai::make_owner(std::make_shared<int>(1));
    return reinterpret_cast<const void *>(owner.get()->ops);
}

} // namespace

extern const age AGE;
const age AGE = {sizeof(cai_array), use, default_stream, refuse, keep, give, code};
