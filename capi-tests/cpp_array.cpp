// cai.hpp: owners, arrays and views. Every reference is released exactly once, exceptions or not.
// run: plain asan valgrind ages clang
#include "cpp_test.hpp"

#include <complex>
#include <memory>
#include <thread>
#include <vector>

namespace {

cai_array describe(const char *typestr = "<f4") {
    cai_array array = valid_array();
    set_typestr(&array, typestr);
    return array;
}

TEST(owners) {
    int destroyed = 0;
    {
        cai::owner a = cai::make_owner(counted(&destroyed));
        cai::owner b = a.share();
        ASSERT(a.get() == b.get() && destroyed == 0);
        a = std::move(b);
        ASSERT(!b && a && destroyed == 0);
        cai::owner c = cai::owner::adopt(a.release());
        ASSERT(!a && c);
        ASSERT_STATUS(CAI_OK, cai_owner_retain(c.get(), nullptr));
        cai_owner_release(c.get());
        ASSERT(destroyed == 0);
    }
    ASSERT(destroyed == 1);
    auto shared = std::make_shared<int>(7);
    {
        cai::owner a = cai::make_owner(shared);
        ASSERT(shared.use_count() == 2);
        ASSERT(!cai::owner().share());
    }
    ASSERT(shared.use_count() == 1);
}

TEST(arrays) {
    int destroyed = 0;
    {
        cai::array a = cai::array::make(describe(), cai::make_owner(counted(&destroyed)));
        cai::array b = std::move(a);
        ASSERT(!a && b && a.data() == nullptr);
        cai::array &same = b;
        b = std::move(same);
        ASSERT(b && b.ndim() == 2 && destroyed == 0);
        // What was there is released when the other one is in its place.
        cai::array later;
        bool was_moved = false;
        later = cai::array::make(describe(),
                                 cai::make_owner(std::shared_ptr<void>(
                                     nullptr, [&](void *) { was_moved = later.ndim() == 1; })));
        float one = 1;
        later = cai::array::make(&one, {1}, CAI_STREAM_NONE, {CAI_DEVICE_CPU, 0}, cai::owner());
        ASSERT(was_moved);
        cai::array c = b.share();
        b = cai::array();
        ASSERT(destroyed == 0 && c.ndim() == 2 && c.layout().count == 12 &&
               c.layout().nbytes == 48 && c.layout().lower == 0 && c.layout().upper == 48);
        ASSERT(c.layout().flags == CAI_LAYOUT_C_CONTIGUOUS && c.is_native() && !c.readonly());
        ASSERT(c.dtype().kind == 'f' && c.stream() == CAI_STREAM_NONE && c.mask() == nullptr);
        ASSERT(c.device().type == CAI_DEVICE_CPU);
        std::vector<std::int64_t> shape(c.shape().begin(), c.shape().end());
        ASSERT((shape == std::vector<std::int64_t>{3, 4}));
        const cai::strides steps = c.strides(); // left out by the producer
        ASSERT(steps.size() == 2 && steps[0] == 16 && steps[1] == 4);
        std::int64_t sum = 0;
        for (std::int64_t extent : c.shape())
            sum += extent;
        ASSERT(sum == 7);
        c.validate(CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT);
        cai::array d = cai::array::from(c.get());
        cai_array raw = CAI_ARRAY_INIT;
        d.release(raw);
        ASSERT(!d && raw.owner != nullptr);
        d = cai::array::adopt(raw);
        ASSERT(raw.owner == nullptr && d);
        c.swap(d);
    }
    ASSERT(destroyed == 1);
    throws(CAI_ERR_BORROWED, "owner", "borrowed", [] { (void)cai::array::from(describe()); });
    throws(CAI_ERR_STREAM_ZERO, "stream", "found 0", [&] {
        cai_array bad = describe();
        bad.stream = 0;
        (void)cai::array::make(bad, cai::make_owner(counted(&destroyed)));
    });
    ASSERT(destroyed == 2);
    throws(CAI_ERR_BORROWED, "owner", "borrowed", [] { (void)cai::array().share(); });
}

TEST(views) {
    float values[12];
    for (int i = 0; i < 12; ++i)
        values[i] = static_cast<float>(i);
    const std::int64_t back[2] = {-16, -4};
    cai_array a = describe();
    a.data = values;
    cai::host_view<float, 2> v(a);
    ASSERT(v(2, 3) == 11 && v.at(1, 0) == 4 && v.extent(1) == 4 && v.stride_bytes(0) == 16 &&
           v.size() == 12);
    v(0, 0) = 100;
    ASSERT(values[0] == 100);
    a.data = &values[11];
    a.strides = back;
    cai::host_view<const float, 2> r(a);
    ASSERT(r(0, 0) == 11 && r(2, 3) == 100 && r(1, 1) == 6);
    throws(CAI_ERR_ARGUMENT, "index[1]", "found 4, expected 0 to below 4",
           [&] { (void)r.at(0, 4); });
    throws(CAI_ERR_ARGUMENT, "index[0]", "found -1", [&] { (void)r.at(-1, 0); });
    throws(CAI_ERR_CONVERT_TYPE, "typestr", "found <f4, expected <f8",
           [&] { cai::host_view<double, 2> x(a); });
    throws(CAI_ERR_CONVERT_TYPE, "typestr", "expected <i4",
           [&] { cai::host_view<std::int32_t, 2> x(a); });
    throws(CAI_ERR_CONVERT_NDIM, "ndim", "found 2, expected 3",
           [&] { cai::host_view<float, 3> x(a); });
    throws(CAI_ERR_CONVERT_NDIM, "ndim", "found 2, expected 0",
           [&] { cai::host_view<float, 0> x(a); });

    a = describe();
    a.flags = CAI_ARRAY_READONLY;
    throws(CAI_ERR_READONLY, "flags", "read-only", [&] { cai::host_view<float, 2> x(a); });
    cai::host_view<const float, 2> constant(a);
    a = describe(">f4");
    throws(CAI_ERR_CONVERT_BYTE_ORDER, "typestr", ">f4", [&] { cai::host_view<float, 2> x(a); });
    a = describe();
    a.data = reinterpret_cast<char *>(test_data) + 2;
    throws(CAI_ERR_ALIGNMENT, "data", "multiple of 4", [&] { cai::host_view<float, 2> x(a); });

    cai_array mask = describe("|b1");
    a = describe();
    a.mask = &mask;
    throws(CAI_ERR_CONVERT_MASK, "mask", "cai::allow::mask",
           [&] { cai::host_view<float, 2> x(a); });
    cai::host_view<float, 2> masked(a, cai::allow::mask);
    cai::host_view<bool, 2> valid(mask);
    cai::host_view<std::byte, 2> bytes(mask);

    const std::int64_t none[2] = {3, 0};
    a = describe("<c16");
    a.shape = none;
    a.data = nullptr;
    cai::host_view<std::complex<double>, 2> empty(a);
    ASSERT(empty.size() == 0);
    a = describe("<i8");
    a.ndim = 0;
    std::int64_t one = 42;
    a.data = &one;
    cai::host_view<long long, 0> scalar(a);
    ASSERT(scalar() == 42 && scalar.at() == 42 && scalar.size() == 1);
}

struct brain_float {
    std::uint16_t bits;
};

} // namespace

template <> struct cai::element<brain_float> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_BFLOAT16;
};

namespace {

TEST(own_types) {
    cai_array a = describe("<V2");
    throws(CAI_ERR_CONVERT_TYPE, "typestr", "expected <V2 with dtype_code 4",
           [&] { cai::host_view<brain_float, 2> x(a); });
    a.dtype_code = CAI_DTYPE_BFLOAT16;
    cai::host_view<brain_float, 2> v(a);
    ASSERT(v.extent(0) == 3);
}

TEST(threads) {
    int destroyed = 0;
    {
        cai::array a = cai::array::make(describe(), cai::make_owner(counted(&destroyed)));
        std::vector<std::thread> all;
        for (int t = 0; t < 8; ++t) {
            all.emplace_back([mine = a.share()] {
                for (int i = 0; i < 10000; ++i) {
                    cai::array one = mine.share(), other = std::move(one);
                    ASSERT(other.data() == test_data);
                }
            });
        }
        for (std::thread &thread : all)
            thread.join();
        ASSERT(destroyed == 0);
    }
    ASSERT(destroyed == 1);
}

TEST(spans) {
#if defined(__cpp_lib_mdspan)
    cai_array a = describe();
    auto s = cai::host_view<float, 2>(a).mdspan();
    s[1, 2] = 5;
    ASSERT(test_data[6] == 5 && s.extent(1) == 4 && s.stride(0) == 4);
#endif
}

} // namespace

static_assert(!std::is_copy_constructible_v<cai::array> &&
              std::is_nothrow_move_constructible_v<cai::array>);
