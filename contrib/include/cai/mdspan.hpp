// cai/mdspan.hpp (unstable: may change in any minor release): arrays as mdspan and back, for
// std::mdspan, cuda::std::mdspan (CCCL) and Kokkos' mdspan. Header-only, C++17; include the mdspan
// of your choice yourself. Link libcai.
//
//   #include <cai/mdspan.hpp>
//   #include <cuda/std/mdspan>
//
//   using matrix = cuda::std::mdspan<const float, cuda::std::dims<2>, cuda::std::layout_stride>;
//   kernel<<<blocks, threads, 0, stream>>>(cai::to_mdspan<matrix>(array));
//
//   auto made = cai::array::make(cai::describe(span), stream, cai::cuda_device(0), owner);
//
// An mdspan owns nothing, so the array must outlive it. It does not order streams: use
// cai::consumer. Supported layouts are layout_stride, and layouts whose mapping is constructed from
// the extents only, such as layout_right and layout_left.
//
// Thread safety: any thread; the array is only read.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_MDSPAN_HPP
#define CAI_MDSPAN_HPP

#include <cai/cai.hpp>

#include <limits>

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {
namespace detail CAI_PRIVATE_HIDDEN {

[[noreturn]] inline void refuse_at(cai_status code, const char *member, std::size_t dimension,
                                   std::int64_t value, const char *expected) {
    char field[32], found[32];
    std::snprintf(field, sizeof field, "%s[%zu]", member, dimension);
    std::snprintf(found, sizeof found, "%lld", static_cast<long long>(value));
    refuse(code, field, found, expected);
}

// Strides in elements, positive and of elements that do not overlap, as layout_stride requires.
// Strides that are not used become 1.
inline void check_strides(const cai_array &array, std::int64_t size, std::int64_t *steps) {
    call(cai_array_strides, &array, steps, std::int32_t{CAI_MAX_NDIM});
    const auto ndim = static_cast<std::size_t>(array.ndim);
    for (std::size_t d = 0; d < ndim; ++d) {
        const bool used = array.data != nullptr && array.shape[d] > 1;
        if (used && (steps[d] <= 0 || steps[d] % size != 0)) {
            refuse_at(CAI_ERR_CONVERT_STRIDES, "strides", d, steps[d],
                      "a positive multiple of the element's size");
        }
        steps[d] = used ? steps[d] / size : 1;
    }
    // In ascending order, each stride must reach beyond the elements of the smaller strides.
    bool done[CAI_MAX_NDIM] = {};
    std::int64_t reach = 1;
    for (std::size_t count = 0; array.data != nullptr && count < ndim; ++count) {
        std::size_t next = ndim;
        for (std::size_t d = 0; d < ndim; ++d) {
            const auto before = [&](std::size_t other) {
                return steps[d] != steps[other] ? steps[d] < steps[other]
                                                : array.shape[d] < array.shape[other];
            };
            if (!done[d] && (next == ndim || before(next))) {
                next = d;
            }
        }
        done[next] = true;
        if (array.shape[next] > 1 && steps[next] < reach) {
            refuse_at(CAI_ERR_CONVERT_STRIDES, "strides", next, steps[next] * size,
                      "elements that do not overlap");
        }
        reach = steps[next] * array.shape[next];
    }
}

template <class Mdspan, std::size_t... D>
Mdspan make_mdspan(const cai_array &array, allow allowed, bool host, std::index_sequence<D...>) {
    using element_type = typename Mdspan::element_type;
    using extents_type = typename Mdspan::extents_type;
    using mapping_type = typename Mdspan::mapping_type;
    using index_type = typename Mdspan::index_type;
    using accessor_type = typename Mdspan::accessor_type;
    static_assert(std::is_same_v<typename accessor_type::offset_policy, accessor_type>,
                  "an accessor that requires more of the memory than an array states");
    constexpr auto size = static_cast<std::int64_t>(sizeof(element_type));
    constexpr auto rank = static_cast<std::int32_t>(sizeof...(D));
    call(require, array, requirements::of<element_type>(rank, false, host), allowed);
    cai_layout layout;
    call(cai_array_layout, &array, &layout);
    [[maybe_unused]] constexpr auto most = std::numeric_limits<index_type>::max();
    [[maybe_unused]] const auto check = [&](std::size_t d, std::size_t fixed, std::int64_t extent) {
        if (fixed != std::numeric_limits<std::size_t>::max() &&
            static_cast<std::size_t>(extent) != fixed) {
            refuse_at(CAI_ERR_ARGUMENT, "shape", d, extent, "the extent of the mdspan's type");
        }
        if (static_cast<std::uint64_t>(extent) > static_cast<std::uint64_t>(most)) {
            refuse_at(CAI_ERR_SIZE_OVERFLOW, "shape", d, extent, "one that fits in index_type");
        }
    };
    (check(D, extents_type::static_extent(D), array.shape[D]), ...);
    if (static_cast<std::uint64_t>(layout.upper) / sizeof(element_type) >
        static_cast<std::uint64_t>(most)) {
        refuse(CAI_ERR_SIZE_OVERFLOW, "shape", "more elements", "offsets that fit in index_type");
    }
    const extents_type extents(static_cast<index_type>(array.shape[D])...);
    auto *data = static_cast<element_type *>(array.data);
    [[maybe_unused]] std::int64_t steps[CAI_MAX_NDIM];
    if constexpr (std::is_constructible_v<mapping_type, extents_type>) {
        const mapping_type mapping(extents);
        call(cai_array_strides, &array, steps, std::int32_t{CAI_MAX_NDIM});
        [[maybe_unused]] const auto same = [&](std::size_t d, std::int64_t step) {
            if (array.data != nullptr && array.shape[d] > 1 && steps[d] != step * size) {
                refuse_at(CAI_ERR_CONVERT_CONTIGUOUS, "strides", d, steps[d],
                          "the stride of the mdspan's layout");
            }
        };
        (same(D, static_cast<std::int64_t>(mapping.stride(D))), ...);
        return Mdspan(data, mapping);
    } else {
        check_strides(array, size, steps);
        // The array class of this mdspan's family.
        std::decay_t<decltype(std::declval<const mapping_type &>().strides())> family{};
        ((family[D] = static_cast<index_type>(steps[D])), ...);
        return Mdspan(data, mapping_type(extents, family));
    }
}

template <class Mdspan, std::size_t... D>
description describe_mdspan(const Mdspan &span, std::index_sequence<D...>) {
    using element_type = typename Mdspan::element_type;
    static_assert(std::is_convertible_v<typename Mdspan::data_handle_type, element_type *>,
                  "the data handle of the mdspan is not a pointer");
    static_assert(std::is_same_v<typename Mdspan::reference, element_type &>,
                  "the accessor of the mdspan computes elements that are not in memory");
    if (!span.mapping().is_strided()) {
        refuse(CAI_ERR_CONVERT_STRIDES, "mapping", "no strides", "a mapping with strides");
    }
    constexpr auto size = static_cast<std::int64_t>(sizeof(element_type));
    const bool empty = ((span.extent(D) == 0) || ... || false);
    const std::array<std::int64_t, sizeof...(D)> shape{
        {static_cast<std::int64_t>(span.extent(D))...}};
    const std::array<std::int64_t, sizeof...(D)> steps{
        {static_cast<std::int64_t>(span.mapping().stride(D)) * size...}};
    element_type *data = span.data_handle();
    return describe(empty ? data : data + span.mapping()((D * 0)...), shape, steps);
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Returns an mdspan over the elements of an array in device memory, which must outlive it. Checks
// the array as cai::view does, and that the layout can express the strides.
//
// Throws what cai::view throws, CAI_ERR_CONVERT_CONTIGUOUS for strides that are not the layout's,
// CAI_ERR_CONVERT_STRIDES for strides that layout_stride cannot have (negative, 0, not a multiple
// of the element's size, overlapping), CAI_ERR_ARGUMENT for an extent that is not the static one,
// and CAI_ERR_SIZE_OVERFLOW for an extent that index_type cannot express.
template <class Mdspan> Mdspan to_mdspan(const cai_array &array, allow allowed = allow::nothing) {
    return detail::make_mdspan<Mdspan>(array, allowed, false,
                                       std::make_index_sequence<Mdspan::rank()>());
}
// Returns an mdspan over the elements of an array in memory that the host can reach. Checks and
// exceptions: as to_mdspan, with cai::host_view. Call array::synchronize before the first access.
template <class Mdspan>
Mdspan to_host_mdspan(const cai_array &array, allow allowed = allow::nothing) {
    return detail::make_mdspan<Mdspan>(array, allowed, true,
                                       std::make_index_sequence<Mdspan::rank()>());
}
template <class Mdspan> Mdspan to_mdspan(const cai::array &array, allow allowed = allow::nothing) {
    return to_mdspan<Mdspan>(array.get(), allowed);
}
template <class Mdspan>
Mdspan to_host_mdspan(const cai::array &array, allow allowed = allow::nothing) {
    return to_host_mdspan<Mdspan>(array.get(), allowed);
}
// The mdspan would outlive its array.
template <class Mdspan> Mdspan to_mdspan(const cai::array &&, allow = allow::nothing) = delete;
template <class Mdspan> Mdspan to_host_mdspan(const cai::array &&, allow = allow::nothing) = delete;

// Describes the elements of an mdspan for array::make. The description is read-only if they are
// const; it refers to their memory and owns nothing. An mdspan whose accessor computes its elements
// (std::linalg::scaled) does not compile.
//
// Throws CAI_ERR_CONVERT_STRIDES for a mapping without strides.
template <class Mdspan, class = typename Mdspan::mapping_type>
description describe(const Mdspan &span) {
    return detail::describe_mdspan(span, std::make_index_sequence<Mdspan::rank()>());
}

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_MDSPAN_HPP
