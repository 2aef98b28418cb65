// view.hpp: typed access to the elements of arrays; part of cai.hpp, which includes it.
//
//   cai::view, cai::contiguous_view             elements of device memory, accessible in kernels
//   cai::host_view, cai::host_contiguous_view   elements of memory that the host can reach
//   cai::any_view                               one of cai::view and cai::host_view
//
// A view checks the array once, when it is constructed. It owns nothing and allocates nothing.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_VIEW_HPP
#define CAI_VIEW_HPP

#include "cai.hpp"

#if CAI_PRIVATE_HPP != 0x03a12b90
#error "cai/cai.hpp of another version was included before cai/view.hpp: include one of them only"
#endif

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {

// Arrays that a view accepts in addition. Combine with |.
enum class allow : std::uint32_t {
    nothing = 0,
    // Arrays with a mask. The caller is responsible for reading the mask.
    mask = 1,
    // Memory of any kind. The caller is responsible for accessing elements only in code that can
    // reach them.
    any_device = 2,
};
constexpr allow operator|(allow a, allow b) noexcept {
    return static_cast<allow>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

namespace detail CAI_PRIVATE_HIDDEN {

constexpr bool has(allow all, allow one) noexcept {
    return (static_cast<std::uint32_t>(all) & static_cast<std::uint32_t>(one)) != 0;
}

// Requirements of a view on its array.
struct requirements {
    bool host;
    bool writable;
    std::int32_t ndim; // -1: any
    bool contiguous;
    char kind; // of the typestr; 0: any
    std::uint16_t code;
    std::size_t size, alignment;
    char typestr[CAI_TYPESTR_SIZE];

    template <class T>
    static constexpr requirements of(std::int32_t ndim, bool contiguous, bool host) noexcept {
        using value_type = std::remove_cv_t<T>;
        requirements made = {};
        made.host = host;
        made.writable = !std::is_const_v<T>;
        made.ndim = ndim;
        made.contiguous = contiguous;
        made.kind = kind_of<value_type>();
        made.code = code_of<value_type>::value;
        made.size = sizeof(T);
        made.alignment = alignof(T);
        write_typestr<value_type>(made.typestr);
        return made;
    }
};

inline void describe_type(char (&out)[64], const char *typestr, std::uint16_t code) noexcept {
    std::snprintf(out, sizeof out, code == CAI_DTYPE_NONE ? "%.16s" : "%.16s with dtype_code %u",
                  typestr, static_cast<unsigned>(code));
}

inline cai_status reject_number(cai_error *why, cai_status code, const char *field,
                                std::int64_t found, const char *expected) noexcept {
    char text[32];
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(found));
    return reject(why, code, field, text, expected);
}

inline cai_status require_device(const cai_array &array, bool host, allow allowed,
                                 cai_error *why) noexcept {
    const std::int32_t type = array.device.type;
    if (CAI_PRIVATE_IS_IN(CAI_PRIVATE_HANDLES, type)) {
        return reject_number(why, CAI_ERR_CONVERT_DEVICE, "device.type", type,
                             "memory with an address, not a handle");
    }
    if (has(allowed, allow::any_device)) {
        return CAI_OK;
    }
    if (!host && type == CAI_DEVICE_CPU) {
        return reject(why, CAI_ERR_HOST_MEMORY, "device.type", "host memory",
                      "device memory, a cai::host_view, or cai::allow::any_device");
    }
    if (host && !CAI_PRIVATE_IS_IN(CAI_PRIVATE_HOST_READABLE, type) && array.data != nullptr) {
        return reject_number(why, CAI_ERR_CONVERT_DEVICE, "device.type", type,
                             "host memory, a cai::view, or cai::allow::any_device");
    }
    return CAI_OK;
}

inline cai_status reject_type(const cai_array &array, const requirements &wanted,
                              cai_error *why) noexcept {
    char found[64], expected[64] = "elements of 1 byte";
    describe_type(found, array.typestr, array.dtype_code);
    if (wanted.kind != 0) {
        describe_type(expected, wanted.typestr, wanted.code);
    }
    return reject(why, CAI_ERR_CONVERT_TYPE, "typestr", found, expected);
}

inline cai_status reject_alignment(const char *field, const char *found, std::size_t alignment,
                                   cai_error *why) noexcept {
    char expected[48];
    std::snprintf(expected, sizeof expected, "a multiple of %zu", alignment);
    return reject(why, CAI_ERR_ALIGNMENT, field, found, expected);
}

// The library knows the alignment of numbers; the compiler knows that of every type.
inline cai_status require_alignment(const cai_array &array, std::size_t alignment,
                                    cai_error *why) noexcept {
    char field[32], found[32];
    if (reinterpret_cast<std::uintptr_t>(array.data) % alignment != 0) {
        std::snprintf(found, sizeof found, "%p", array.data);
        return reject_alignment("data", found, alignment, why);
    }
    if (array.data == nullptr || array.strides == nullptr) {
        return CAI_OK;
    }
    for (int d = 0; d < array.ndim; ++d) {
        const std::int64_t stride = array.strides[d];
        if (array.shape[d] > 1 && stride % static_cast<std::int64_t>(alignment) != 0) {
            std::snprintf(field, sizeof field, "strides[%d]", d);
            std::snprintf(found, sizeof found, "%lld", static_cast<long long>(stride));
            return reject_alignment(field, found, alignment, why);
        }
    }
    return CAI_OK;
}

// Returns why an array does not meet the requirements: the status is the one that
// cai_array_from_python has for the same requirement, and the order of the checks is the same.
inline cai_status require(const cai_array &array, const requirements &wanted, allow allowed,
                          cai_error *why) noexcept {
    cai_status status = cai_array_validate(&array, CAI_CHECK_LAYOUT, why);
    if (status == CAI_OK) {
        status = require_device(array, wanted.host, allowed, why);
    }
    if (status != CAI_OK) {
        return status;
    }
    if (wanted.writable && (array.flags & CAI_ARRAY_READONLY) != 0) {
        return reject(why, CAI_ERR_READONLY, "flags", "a read-only array",
                      "a writable one, or a view of const elements");
    }
    if (array.mask != nullptr && !has(allowed, allow::mask)) {
        return reject(why, CAI_ERR_CONVERT_MASK, "mask", "a mask", "none, or cai::allow::mask");
    }
    if (wanted.ndim >= 0 && array.ndim != wanted.ndim) {
        char expected[32];
        std::snprintf(expected, sizeof expected, "%d dimension%s", static_cast<int>(wanted.ndim),
                      wanted.ndim == 1 ? "" : "s");
        return reject_number(why, CAI_ERR_CONVERT_NDIM, "ndim", array.ndim, expected);
    }
    cai_dtype dtype;
    status = cai_array_dtype(&array, &dtype, why);
    if (status != CAI_OK) {
        return status;
    }
    status = cai_array_validate(&array, CAI_CHECK_NATIVE, why);
    if (status != CAI_OK) {
        return status;
    }
    // If there is a code, it alone determines the type.
    const bool same_kind =
        wanted.kind == 0 ||
        (dtype.code == wanted.code && (wanted.code != CAI_DTYPE_NONE || dtype.kind == wanted.kind));
    if (!same_kind || dtype.itemsize != static_cast<std::int64_t>(wanted.size)) {
        return reject_type(array, wanted, why);
    }
    if (wanted.contiguous) {
        cai_layout layout;
        status = cai_array_layout(&array, &layout, why);
        if (status != CAI_OK) {
            return status;
        }
        if ((layout.flags & CAI_LAYOUT_C_CONTIGUOUS) == 0) {
            return reject(why, CAI_ERR_CONVERT_CONTIGUOUS, "strides", "other strides",
                          "a C-contiguous array");
        }
    }
    return require_alignment(array, wanted.alignment, why);
}

// The same for an array that cai_array_from_python imported with `element_options`, which checked
// everything but what follows.
inline cai_status require_of_import(const cai_array &array, const requirements &wanted,
                                    cai_error *why) noexcept {
    if (wanted.kind == 0) {
        return require(array, wanted, allow::nothing, why);
    }
    const cai_status status = require_device(array, wanted.host, allow::nothing, why);
    return status == CAI_OK ? require_alignment(array, wanted.alignment, why) : status;
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Base classes of the views. They are not hidden, so that a class of yours may have a view as a
// member.
namespace parts {

// Common base of view and host_view.
template <class T, std::size_t N> class strided {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    static constexpr std::size_t rank() noexcept { return N; }

    // Returns the address of the element whose indices are all zero; NULL if there are no elements.
    CAI_PRIVATE_HOST_DEVICE T *data() const noexcept { return data_; }
    CAI_PRIVATE_HOST_DEVICE std::int64_t extent(std::size_t dimension) const noexcept {
        return shape_[dimension];
    }
    CAI_PRIVATE_HOST_DEVICE std::int64_t stride_bytes(std::size_t dimension) const noexcept {
        return strides_[dimension];
    }
    // Returns the number of elements.
    CAI_PRIVATE_HOST_DEVICE std::int64_t size() const noexcept {
        if (data_ == nullptr) {
            return 0; // the extents need not have a product
        }
        std::int64_t product = 1;
        for (std::size_t d = 0; d < N; ++d) {
            product *= shape_[d];
        }
        return product;
    }
    CAI_PRIVATE_HOST_DEVICE bool empty() const noexcept { return data_ == nullptr; }
    // Returns whether the elements are in C order without gaps. True if there are no elements.
    CAI_PRIVATE_HOST_DEVICE bool is_contiguous() const noexcept {
        std::int64_t step = sizeof(T);
        for (std::size_t d = N; data_ != nullptr && d-- > 0;) {
            if (shape_[d] != 1 && strides_[d] != step) {
                return false;
            }
            step *= shape_[d];
        }
        return true;
    }

  protected:
    strided() noexcept = default;
    strided(const cai_array &array, allow allowed, bool host) {
        cai_error why;
        check(set(array, allowed, host, &why), why);
    }
    cai_status set(const cai_array &array, allow allowed, bool host, cai_error *why) noexcept {
        const auto wanted = detail::requirements::of<T>(ndim, false, host);
        const cai_status status = detail::require(array, wanted, allowed, why);
        return status == CAI_OK ? fill(array, why) : status;
    }
    cai_status fill(const cai_array &array, cai_error *why) noexcept {
        const cai_status status = cai_array_strides(&array, strides_, ndim, why);
        if (status == CAI_OK) {
            for (std::size_t d = 0; d < N; ++d) {
                shape_[d] = array.shape[d];
            }
            data_ = static_cast<T *>(array.data);
        }
        return status;
    }
    // Elements that may be written may also be read.
    explicit strided(const strided<value_type, N> &other, int) noexcept : data_(other.data()) {
        for (std::size_t d = 0; d < N; ++d) {
            shape_[d] = other.extent(d);
            strides_[d] = other.stride_bytes(d);
        }
    }

    template <class... Index> CAI_PRIVATE_HOST_DEVICE T &element_at(Index... index) const noexcept {
        static_assert(sizeof...(Index) == N, "one index for each dimension");
        using bytes = std::conditional_t<std::is_const_v<T>, const char, char>;
        const std::int64_t at[N + 1] = {static_cast<std::int64_t>(index)..., 0};
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < N; ++d) {
            offset += at[d] * strides_[d];
        }
        return *reinterpret_cast<T *>(reinterpret_cast<bytes *>(data_) + offset);
    }

  private:
    friend struct detail::imported;
    static constexpr auto ndim = static_cast<std::int32_t>(N);

    T *data_ = nullptr;
    // One more than needed, so that a view of no dimensions has an array too.
    std::int64_t shape_[N + 1] = {};
    std::int64_t strides_[N + 1] = {};
};

// Common base of contiguous_view and host_contiguous_view.
template <class T> class dense {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    CAI_PRIVATE_HOST_DEVICE T *data() const noexcept { return data_; }
    // Returns the number of elements.
    CAI_PRIVATE_HOST_DEVICE std::int64_t size() const noexcept { return size_; }
    CAI_PRIVATE_HOST_DEVICE bool empty() const noexcept { return size_ == 0; }
    CAI_PRIVATE_HOST_DEVICE std::size_t ndim() const noexcept { return ndim_; }
    // Returns the array's own extents, which are in host memory and must outlive the result.
    extents shape() const noexcept { return {shape_, ndim_}; }

  protected:
    dense() noexcept = default;
    dense(const cai_array &array, allow allowed, int ndim, bool host) {
        cai_error why;
        check(set(array, allowed, ndim, host, &why), why);
    }
    cai_status set(const cai_array &array, allow allowed, int ndim, bool host,
                   cai_error *why) noexcept {
        const auto wanted = detail::requirements::of<T>(ndim, true, host);
        const cai_status status = detail::require(array, wanted, allowed, why);
        return status == CAI_OK ? fill(array, why) : status;
    }
    cai_status fill(const cai_array &array, cai_error *why) noexcept {
        cai_layout layout;
        const cai_status status = cai_array_layout(&array, &layout, why);
        if (status == CAI_OK) {
            data_ = static_cast<T *>(array.data);
            size_ = layout.count;
            ndim_ = static_cast<std::size_t>(array.ndim);
            shape_ = array.shape;
        }
        return status;
    }
    explicit dense(const dense<value_type> &other, int) noexcept
        : data_(other.data()), size_(other.size()), ndim_(other.ndim()),
          shape_(other.shape().data()) {}

  private:
    friend struct detail::imported;

    T *data_ = nullptr;
    std::int64_t size_ = 0;
    std::size_t ndim_ = 0;
    const std::int64_t *shape_ = nullptr;
};

} // namespace parts

namespace detail CAI_PRIVATE_HIDDEN {

template <class T, class U>
using if_const_of = std::enable_if_t<!std::is_same_v<T, U> && std::is_same_v<T, const U>>;

// Checks an index, and steps to the next dimension.
inline void check_index(std::size_t &dimension, std::int64_t index, std::int64_t extent) {
    if (index < 0 || index >= extent) {
        char field[32], found[32], expected[48];
        std::snprintf(field, sizeof field, "index[%zu]", dimension);
        std::snprintf(found, sizeof found, "%lld", static_cast<long long>(index));
        std::snprintf(expected, sizeof expected, "0 to below %lld", static_cast<long long>(extent));
        refuse(CAI_ERR_ARGUMENT, field, found, expected);
    }
    ++dimension;
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Elements of device memory with a checked type and number of dimensions, and strides in bytes.
// Pass it to kernels by value. It owns nothing, so the array must outlive it. It does not order
// streams: use cai::consumer.
//
// The constructor throws what cai_array_validate returns, or for an array that does not match:
// CAI_ERR_HOST_MEMORY, CAI_ERR_CONVERT_DEVICE (data is a handle), CAI_ERR_READONLY (unless T is
// const), CAI_ERR_CONVERT_MASK, CAI_ERR_CONVERT_NDIM, CAI_ERR_CONVERT_BYTE_ORDER,
// CAI_ERR_CONVERT_TYPE, CAI_ERR_ALIGNMENT.
//
// Elements are accessible in device code only. On the host, use cai::host_view.
template <class T, std::size_t N> class view : public parts::strided<T, N> {
    using base = parts::strided<T, N>;

  public:
    // A view of no elements.
    view() noexcept = default;
    // Makes `out` a view of the array. On failure, its elements are unchanged.
    [[nodiscard]] static cai_status try_make(const cai_array &array, view &out,
                                             cai_error *why = nullptr,
                                             allow allowed = allow::nothing) noexcept {
        return out.set(array, allowed, false, why);
    }
    explicit view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, false) {}
    explicit view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, false) {}
    // It would outlive its array.
    explicit view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    view(const view<U, N> &other) noexcept : base(other, 0) {}

    // Returns the element at these indices, which are not checked.
#if defined(__CUDACC__) || defined(__HIPCC__)
    template <class... Index> __device__ T &operator()(Index... index) const noexcept {
        return base::element_at(index...);
    }
#else
    template <class... Index> T &operator()(Index... index) const = delete;
#endif
};

// Elements of memory that the host can reach: host memory, page-locked or managed memory. Otherwise
// as cai::view. For memory of another device or of an unknown one, the constructor throws
// CAI_ERR_CONVERT_DEVICE. Call array::synchronize before the first access.
template <class T, std::size_t N> class host_view : public parts::strided<T, N> {
    using base = parts::strided<T, N>;

  public:
    // A view of no elements.
    host_view() noexcept = default;
    // Makes `out` a view of the array. On failure, its elements are unchanged.
    [[nodiscard]] static cai_status try_make(const cai_array &array, host_view &out,
                                             cai_error *why = nullptr,
                                             allow allowed = allow::nothing) noexcept {
        return out.set(array, allowed, true, why);
    }
    explicit host_view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, true) {}
    explicit host_view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, true) {}
    explicit host_view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    host_view(const host_view<U, N> &other) noexcept : base(other, 0) {}

    // Returns the element at these indices, which are not checked.
    template <class... Index> T &operator()(Index... index) const noexcept {
        return base::element_at(index...);
    }
    // Returns the element at these indices. Throws CAI_ERR_ARGUMENT if one is out of range.
    template <class... Index> T &at(Index... index) const {
        static_assert(sizeof...(Index) == N, "one index for each dimension");
        [[maybe_unused]] std::size_t d = 0;
        (detail::check_index(d, static_cast<std::int64_t>(index), base::extent(d)), ...);
        return base::element_at(index...);
    }

#if defined(__cpp_lib_mdspan)
    // Returns the elements as a std::mdspan. Throws CAI_ERR_CONVERT_STRIDES for strides that it
    // cannot express: negative, zero over more than one element, or not a multiple of the element's
    // size.
    using mdspan_type = std::mdspan<T, std::dextents<std::int64_t, N>, std::layout_stride>;
    mdspan_type mdspan() const {
        std::array<std::int64_t, N> shape{}, steps{};
        for (std::size_t d = 0; d < N; ++d) {
            constexpr auto size = static_cast<std::int64_t>(sizeof(T));
            const std::int64_t step = base::stride_bytes(d);
            shape[d] = base::extent(d);
            // Over at most one element the stride is not used: any positive one will do.
            const bool used = shape[d] > 1 && !base::empty();
            if (used && (step <= 0 || step % size != 0)) {
                char field[32], found[32];
                std::snprintf(field, sizeof field, "strides[%zu]", d);
                std::snprintf(found, sizeof found, "%lld", static_cast<long long>(step));
                detail::refuse(CAI_ERR_CONVERT_STRIDES, field, found,
                               "a positive multiple of the element's size");
            }
            steps[d] = used ? step / size : 1;
        }
        using extents_type = std::dextents<std::int64_t, N>;
        using mapping = typename std::layout_stride::template mapping<extents_type>;
        return mdspan_type(base::data(), mapping(extents_type(shape), steps));
    }
#endif
};

// Elements of host memory or of device memory, for functions that accept both. It has no access to
// elements: only the view of the right kind does. For managed and page-locked memory both exist.
// Otherwise as cai::view; no array is refused because of its device, unless its data is a handle.
template <class T, std::size_t N> class any_view {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    static constexpr std::size_t rank() noexcept { return N; }

    // A view of no elements, in host memory.
    any_view() noexcept = default;
    // Makes `out` a view of the array. On failure, its elements are unchanged.
    [[nodiscard]] static cai_status try_make(const cai_array &array, any_view &out,
                                             cai_error *why = nullptr,
                                             allow allowed = allow::nothing) noexcept {
        any_view made;
        cai_status status = CAI_OK;
        made.has_device_ = array.device.type != CAI_DEVICE_CPU;
        made.has_host_ = CAI_PRIVATE_IS_IN(CAI_PRIVATE_HOST_READABLE, array.device.type);
        if (made.has_device_) {
            status = view<T, N>::try_make(array, made.device_, why, allowed);
        }
        if (status == CAI_OK && made.has_host_) {
            status = host_view<T, N>::try_make(array, made.host_, why, allowed);
        }
        if (status == CAI_OK) {
            out = made;
        }
        return status;
    }
    explicit any_view(const cai_array &array, allow allowed = allow::nothing) {
        cai_error why;
        check(try_make(array, *this, &why, allowed), why);
    }
    explicit any_view(const cai::array &array, allow allowed = allow::nothing)
        : any_view(array.get(), allowed) {}
    explicit any_view(const cai::array &&, allow = allow::nothing) = delete;

    bool is_host() const noexcept { return has_host_; }
    bool is_device() const noexcept { return has_device_; }
    std::int64_t extent(std::size_t d) const noexcept {
        return has_device_ ? device_.extent(d) : host_.extent(d);
    }
    std::int64_t size() const noexcept { return has_device_ ? device_.size() : host_.size(); }
    bool empty() const noexcept { return has_device_ ? device_.empty() : host_.empty(); }

    // Returns the view of host memory. Throws CAI_ERR_CONVERT_DEVICE if the host cannot reach it.
    const host_view<T, N> &as_host() const {
        if (!has_host_) {
            detail::refuse(CAI_ERR_CONVERT_DEVICE, "device.type", "device memory",
                           "memory that the host can reach");
        }
        return host_;
    }
    // Returns the view of device memory. Throws CAI_ERR_HOST_MEMORY for host memory.
    const view<T, N> &as_device() const {
        if (!has_device_) {
            detail::refuse(CAI_ERR_HOST_MEMORY, "device.type", "host memory", "device memory");
        }
        return device_;
    }
    // Calls `on_device` with the view of device memory if there is one, otherwise `on_host` with
    // that of host memory, and returns the result. Both must return the same type.
    template <class Host, class Device>
    decltype(auto) visit(Host &&on_host, Device &&on_device) const {
        static_assert(std::is_same_v<decltype(on_host(host_)), decltype(on_device(device_))>,
                      "both functions must return the same type");
        return has_device_ ? on_device(device_) : on_host(host_);
    }

  private:
    view<T, N> device_;
    host_view<T, N> host_;
    bool has_device_ = false;
    bool has_host_ = true;
};

// Rank of a contiguous view that accepts any number of dimensions.
inline constexpr int any_rank = -1;

// Elements of device memory in C order without gaps: a pointer, a count and a shape. It accepts any
// number of dimensions, or only N. Otherwise as cai::view. For an array with other strides, the
// constructor throws CAI_ERR_CONVERT_CONTIGUOUS.
template <class T, int N = any_rank> class contiguous_view : public parts::dense<T> {
    using base = parts::dense<T>;

  public:
    // A view of no elements.
    contiguous_view() noexcept = default;
    // Makes `out` a view of the array. On failure, its elements are unchanged.
    [[nodiscard]] static cai_status try_make(const cai_array &array, contiguous_view &out,
                                             cai_error *why = nullptr,
                                             allow allowed = allow::nothing) noexcept {
        return out.set(array, allowed, N, false, why);
    }
    explicit contiguous_view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, N, false) {}
    explicit contiguous_view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, N, false) {}
    explicit contiguous_view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    contiguous_view(const contiguous_view<U, N> &other) noexcept : base(other, 0) {}

    // Returns the element at this position in C order, which is not checked.
#if defined(__CUDACC__) || defined(__HIPCC__)
    __device__ T &operator[](std::int64_t place) const noexcept { return base::data()[place]; }
#else
    T &operator[](std::int64_t) const = delete;
#endif
};

// Elements in C order without gaps of memory that the host can reach, as cai::host_view. A range.
template <class T, int N = any_rank> class host_contiguous_view : public parts::dense<T> {
    using base = parts::dense<T>;

  public:
    // A view of no elements.
    host_contiguous_view() noexcept = default;
    // Makes `out` a view of the array. On failure, its elements are unchanged.
    [[nodiscard]] static cai_status try_make(const cai_array &array, host_contiguous_view &out,
                                             cai_error *why = nullptr,
                                             allow allowed = allow::nothing) noexcept {
        return out.set(array, allowed, N, true, why);
    }
    explicit host_contiguous_view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, N, true) {}
    explicit host_contiguous_view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, N, true) {}
    explicit host_contiguous_view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    host_contiguous_view(const host_contiguous_view<U, N> &other) noexcept : base(other, 0) {}

    T &operator[](std::int64_t place) const noexcept { return base::data()[place]; }
    T *begin() const noexcept { return base::data(); }
    T *end() const noexcept { return base::data() + base::size(); }
};

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_VIEW_HPP
