// cai/mdspan.hpp with the mdspan that FAMILY names: 1 for std, 2 for cuda::std, 3 for Kokkos.
// run: clang libc++; flags -DFAMILY=1
#include <cai/mdspan.hpp>

#include "cpp_test.hpp"

#include <limits>
#include <memory>
#include <vector>

#if FAMILY == 1
#include <mdspan>
namespace md = std;
#elif FAMILY == 2
#include <cuda/std/mdspan>
namespace md = cuda::std;
#else
#include <mdspan/mdspan.hpp>
namespace md = Kokkos;
#endif

namespace {

constexpr auto any = md::dynamic_extent;
using two = md::dextents<std::int64_t, 2>;
template <class T, class Extents, class Layout = md::layout_right>
using span_of = md::mdspan<T, Extents, Layout>;

// 0 to 23, in host memory that stands for a device's.
float numbers[24];

cai::array make(std::initializer_list<std::int64_t> shape,
                std::initializer_list<std::int64_t> strides = {},
                std::int32_t type = CAI_DEVICE_CPU, std::size_t first = 0, bool readonly = false) {
    auto what = strides.size() == 0 ? cai::describe(numbers + first, shape)
                                    : cai::describe(numbers + first, shape, strides);
    cai_array raw = what.get();
    if (readonly) raw.flags = CAI_ARRAY_READONLY;
    raw.stream = CAI_STREAM_NONE;
    raw.device.type = type;
    return cai::array::make(raw, cai::make_owner(0));
}

template <class Mdspan> float at(const Mdspan &span, int i, int j) {
    return span.data_handle()[span.mapping()(i, j)];
}

// Extents, strides and elements are those of the array.
template <class Mdspan> void same(const cai::array &array) {
    const auto span = cai::to_host_mdspan<Mdspan>(array);
    for (std::size_t d = 0; d < 2; ++d)
        ASSERT(static_cast<std::int64_t>(span.extent(d)) == array.shape()[d]);
    const auto steps = array.strides();
    for (int i = 0; i < static_cast<int>(span.extent(0)); ++i) {
        for (int j = 0; j < static_cast<int>(span.extent(1)); ++j) {
            const auto *bytes = static_cast<const char *>(array.data());
            float expected;
            memcpy(&expected, bytes + i * steps[0] + j * steps[1], sizeof expected);
            ASSERT(at(span, i, j) == expected);
        }
    }
    // And back: an array that is equal.
    const auto back = cai::array::make(cai::describe(span), CAI_STREAM_NONE, cai::host_device(),
                                       cai::make_owner(0));
    ASSERT(back.data() == array.data() && back.ndim() == 2);
    const auto again = back.strides();
    for (std::size_t d = 0; d < 2; ++d) {
        ASSERT(back.shape()[d] == array.shape()[d]);
        ASSERT(again[d] == steps[d] || array.shape()[d] <= 1 || array.data() == nullptr);
    }
    ASSERT(back.readonly() == std::is_const_v<typename Mdspan::element_type>);
}

TEST(layouts) {
    for (int i = 0; i < 24; ++i)
        numbers[i] = static_cast<float>(i);
    const auto whole = make({4, 6});
    same<span_of<float, two>>(whole);
    same<span_of<const float, two>>(whole);
    same<span_of<float, two, md::layout_stride>>(whole);
    same<span_of<float, md::dextents<int, 2>>>(whole);
    same<span_of<float, md::extents<int, 4, any>>>(whole);
    same<span_of<float, md::extents<std::size_t, 4, 6>, md::layout_stride>>(whole);
    const auto columns = make({4, 6}, {4, 16});
    same<span_of<float, two, md::layout_left>>(columns);
    same<span_of<float, two, md::layout_stride>>(columns);
    same<span_of<float, two, md::layout_stride>>(make({2, 3}, {48, 8}));
    same<span_of<float, two, md::layout_stride>>(make({2, 3}, {4, 8}, CAI_DEVICE_CPU, 2));
    // Strides that are not used may be anything.
    same<span_of<float, two, md::layout_stride>>(make({1, 3}, {-4, 4}));
    same<span_of<float, two>>(make({1, 3}, {0, 4}));
    same<span_of<float, two>>(make({3, 1}, {4, 400}));
    same<span_of<float, two>>(make({0, 3}));
    same<span_of<float, two, md::layout_left>>(make({3, 0}, {0, 0}));
    same<span_of<float, two, md::layout_stride>>(make({0, 3}, {-8, 2}));
}

TEST(ranks) {
    const auto single = make({}, {}, CAI_DEVICE_CPU, 5);
    const auto none = cai::to_host_mdspan<span_of<float, md::extents<int>>>(single);
    ASSERT(none.data_handle()[0] == 5);
    const auto strided = make({}, {}, CAI_DEVICE_CPU, 7);
    const auto zero =
        cai::to_host_mdspan<span_of<float, md::extents<int>, md::layout_stride>>(strided);
    ASSERT(zero.data_handle()[0] == 7);
    const auto back = cai::array::make(cai::describe(none), CAI_STREAM_NONE, cai::host_device(),
                                       cai::make_owner(0));
    ASSERT(back.ndim() == 0 && back.data() == numbers + 5);
    const auto three = make({2, 3, 4});
    const auto cube = cai::to_host_mdspan<span_of<float, md::dextents<int, 3>>>(three);
    ASSERT(cube.data_handle()[cube.mapping()(1, 2, 3)] == 23);
    throws(CAI_ERR_CONVERT_NDIM, "ndim", "",
           [&] { (void)cai::to_host_mdspan<span_of<float, two>>(three); });
}

template <class Mdspan> void refused(cai_status code, const char *field, const cai::array &array) {
    throws(code, field, "", [&] { (void)cai::to_host_mdspan<Mdspan>(array); });
}

TEST(refusals) {
    using right = span_of<float, two>;
    using strided = span_of<float, two, md::layout_stride>;
    refused<right>(CAI_ERR_CONVERT_CONTIGUOUS, "strides[0]", make({4, 6}, {4, 16}));
    refused<span_of<float, two, md::layout_left>>(CAI_ERR_CONVERT_CONTIGUOUS, "strides[0]",
                                                  make({4, 6}));
    refused<strided>(CAI_ERR_CONVERT_STRIDES, "strides[1]", make({4, 6}, {24, -4}, 1, 5));
    refused<strided>(CAI_ERR_CONVERT_STRIDES, "strides[0]", make({4, 6}, {0, 4}));
    refused<strided>(CAI_ERR_ALIGNMENT, "strides[0]", make({2, 3}, {18, 4}));
    refused<strided>(CAI_ERR_CONVERT_STRIDES, "strides[1]", make({3, 3}, {4, 4}));
    refused<strided>(CAI_ERR_CONVERT_STRIDES, "strides[0]", make({3, 3}, {8, 4}));
    refused<strided>(CAI_ERR_CONVERT_STRIDES, "strides[1]", make({3, 3}, {4, 8}));
    refused<span_of<double, two>>(CAI_ERR_CONVERT_TYPE, "typestr", make({4, 6}));
    refused<right>(CAI_ERR_READONLY, "flags", make({4, 6}, {}, CAI_DEVICE_CPU, 0, true));
    same<span_of<const float, two>>(make({4, 6}, {}, CAI_DEVICE_CPU, 0, true));
    refused<span_of<float, md::extents<int, 4, 5>>>(CAI_ERR_ARGUMENT, "shape[1]", make({4, 6}));
    refused<right>(CAI_ERR_CONVERT_DEVICE, "device.type", make({4, 6}, {}, CAI_DEVICE_CUDA));

    // More than index_type can count: in one extent, and in the product.
    static char bytes[16 * 16];
    using small = md::mdspan<char, md::dextents<signed char, 2>>;
    const auto wide = [&](std::int64_t rows, std::int64_t columns) {
        return cai::array::make(bytes, {rows, columns}, CAI_STREAM_NONE, cai::host_device(),
                                cai::make_owner(0));
    };
    (void)cai::to_host_mdspan<small>(wide(7, 16).get());
    refused<small>(CAI_ERR_SIZE_OVERFLOW, "shape[1]", wide(1, 128));
    refused<small>(CAI_ERR_SIZE_OVERFLOW, "shape", wide(16, 16));
}

TEST(devices) {
    const auto device = make({4, 6}, {}, CAI_DEVICE_CUDA);
    ASSERT((cai::to_mdspan<span_of<float, two>>(device).data_handle() == numbers));
    throws(CAI_ERR_HOST_MEMORY, "device.type", "",
           [] { (void)cai::to_mdspan<span_of<float, two>>(make({4, 6}).get()); });
    const auto host = make({4, 6});
    (void)cai::to_mdspan<span_of<float, two>>(host, cai::allow::any_device);
    (void)cai::to_host_mdspan<span_of<float, two>>(make({4, 6}, {}, CAI_DEVICE_CUDA_HOST).get());
    (void)cai::to_host_mdspan<span_of<float, two>>(make({4, 6}, {}, CAI_DEVICE_CUDA_MANAGED).get());
}

// An mdspan holds no reference; the array of one keeps what its owner is.
TEST(owners) {
    auto memory = std::make_shared<std::vector<float>>(24, 1.0F);
    const span_of<float, two, md::layout_left> span(memory->data(), 4, 6);
    auto array =
        cai::array::make(cai::describe(span), 0x7000, cai::cuda_device(1), cai::make_owner(memory));
    ASSERT(memory.use_count() == 2 && array.stream() == 0x7000 && array.device().id == 1);
    ASSERT_TEXT("<f4", array->typestr);
    {
        const auto back = cai::to_mdspan<span_of<float, two, md::layout_left>>(array);
        ASSERT(memory.use_count() == 2 && back.data_handle() == memory->data());
    }
    array = {};
    ASSERT(memory.use_count() == 1);
}

} // namespace
