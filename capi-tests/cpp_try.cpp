// cai.hpp without exceptions and run-time types: every constructor that can fail has a form
// try_..., which fills the object on success and leaves it as it was on failure.
// run: plain asan clang; flags -fno-exceptions -fno-rtti -fno-threadsafe-statics
#include <cai/cai.hpp>

#include "cai_test.h"

#include <memory>
#include <vector>

namespace {

const auto kept = std::make_shared<int>(7);
cai_error why;

void owners() {
    cai::owner first, second;
    ASSERT_STATUS(CAI_OK, cai::try_make_owner(kept, first));
    ASSERT_STATUS(CAI_OK, first.try_share(second));
    ASSERT(first.get() == second.get() && kept.use_count() == 2);
    cai_owner_ops bad = {8, 0, nullptr, nullptr};
    cai_owner foreign = {&bad};
    const cai::owner broken = cai::owner::adopt(&foreign);
    ASSERT_STATUS(CAI_ERR_OWNER_OPS, broken.try_share(second));
    ASSERT(second.get() == first.get());
}

cai::owner keep() {
    cai::owner made;
    ASSERT_STATUS(CAI_OK, cai::try_make_owner(kept, made));
    return made;
}

void arrays() {
    cai::array array, second;
    cai_array raw = valid_array();
    ASSERT_STATUS(CAI_ERR_BORROWED, cai::array::try_from(raw, array, &why));
    ASSERT_TEXT("owner", why.field);
    ASSERT_STATUS(CAI_ERR_BORROWED, cai::array::try_from_unchecked(raw, array));
    ASSERT_STATUS(CAI_ERR_BORROWED, array.try_share(second));
    raw.struct_size = 8;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai::array::try_make(raw, keep(), array, &why));
    ASSERT_CONTAINS(why.message, "struct_size: found");
    ASSERT(!array);

    float data[6] = {};
    const auto host = cai::host_device();
    ASSERT_STATUS(CAI_ERR_SHAPE_NEGATIVE,
                  cai::array::try_make(data, {-3}, CAI_STREAM_NONE, host, keep(), array, &why));
    ASSERT(!array && kept.use_count() == 1);
    ASSERT_STATUS(CAI_OK, cai::array::try_make(data, {2, 3}, CAI_STREAM_NONE, host, keep(), array));
    ASSERT_STATUS(CAI_OK, array.try_attach(kept));
    ASSERT_STATUS(CAI_OK, array.try_share(second));
    ASSERT(kept.use_count() == 3 && second.data() == data);

    cai_array given = CAI_ARRAY_INIT;
    second.release(given);
    ASSERT_STATUS(CAI_OK, cai::array::try_adopt(given, second));
    ASSERT(second && given.owner == nullptr);
    ASSERT_STATUS(CAI_OK, cai::array::try_from(second.get(), array, &why));

    cai::description what;
    ASSERT_STATUS(CAI_ERR_ARGUMENT, cai::try_describe(data, {2, 3}, {4}, what, &why));
    ASSERT_TEXT("strides", why.field);
    ASSERT_STATUS(CAI_OK, cai::try_describe(data, {2, 3}, {4, 8}, what));
    ASSERT_STATUS(CAI_OK, cai::array::try_make(what, CAI_STREAM_NONE, host, keep(), second));
    cai::strides steps;
    ASSERT(steps.empty());
    ASSERT_STATUS(CAI_OK, cai::strides::try_make(second.get(), steps));
    ASSERT(steps.size() == 2 && steps[0] == 4 && steps[1] == 8);
    raw.struct_size = 8;
    ASSERT_STATUS(CAI_ERR_STRUCT_SIZE, cai::strides::try_make(raw, steps, &why));
    ASSERT(steps.size() == 2 && steps[1] == 8);
}

template <class View> void views(const cai::array &array, cai_status code) {
    View view;
    ASSERT(view.empty() && view.size() == 0 && view.data() == nullptr);
    ASSERT_STATUS(code, View::try_make(array.get(), view, &why));
    ASSERT(view.empty() == (code != CAI_OK));
    ASSERT_STATUS(CAI_OK, View::try_make(array.get(), view, nullptr, cai::allow::any_device));
    ASSERT(view.size() == 6 && view.data() == array.data());
}

void consumers(const cai::array &array) {
    cai::consumer work;
    ASSERT_STATUS(CAI_OK, work.try_end(&why));
    ASSERT_STATUS(CAI_ERR_NEWER_CALLER,
                  cai::consumer::try_begin(array.get(), CAI_STREAM_NONE, 1u << 30, work, &why));
    ASSERT_STATUS(CAI_OK, work.try_end(&why));
}

// What depends on the version of the headers is found in the interface of a library.
struct derived : cai::array {};
struct library {
    int numbers(const cai_array *, cai_error *) const noexcept;
    int more(const cai::array &) const;
};
using stable = cai_status(cai_array *, const cai_array &, const std::vector<float> &, cai_stream);
using error_of = const cai::error *(const cai_error &) noexcept;
using result = cai::array();
using parameter = void(int, const cai::array *) noexcept;
using view_of = void(cai::host_view<float, 2>);
using container = void(const std::vector<cai::array> &);
using base = void(derived &&);
static_assert(cai::is_stable_interface<stable>);
static_assert(cai::is_stable_interface<stable *>);
static_assert(cai::is_stable_interface<error_of>);
static_assert(cai::is_stable_interface<decltype(&library::numbers)>);
static_assert(!cai::is_stable_interface<decltype(&library::more)>);
static_assert(!cai::is_stable_interface<result>);
static_assert(!cai::is_stable_interface<parameter *>);
static_assert(!cai::is_stable_interface<view_of>);
static_assert(!cai::is_stable_interface<container>);
static_assert(!cai::is_stable_interface<base>);

} // namespace

int main() {
    owners();
    arrays();
    float data[6] = {};
    cai::array array;
    ASSERT_STATUS(CAI_OK, cai::array::try_make(data, {2, 3}, CAI_STREAM_NONE, cai::host_device(),
                                               keep(), array));
    views<cai::view<float, 2>>(array, CAI_ERR_HOST_MEMORY);
    views<cai::contiguous_view<float>>(array, CAI_ERR_HOST_MEMORY);
    views<cai::host_view<float, 2>>(array, CAI_OK);
    views<cai::host_contiguous_view<const float>>(array, CAI_OK);
    using of_double = cai::host_view<double, 2>;
    of_double doubles;
    ASSERT_STATUS(CAI_ERR_CONVERT_TYPE, of_double::try_make(array.get(), doubles, &why));
    ASSERT_CONTAINS(why.message, "typestr: found <f4, expected <f8");
    consumers(array);
    return 0;
}
