// cai.hpp: cai.h for C++17, header-only. Link the library as for cai.h.
//
//   cai::array           owns a reference to an array; moves, and is shared by share()
//   cai::owner           owns a reference to an owner; cai::make_owner keeps any C++ object alive
//   cai::describe        describes memory of a C++ type: typestr, dtype_code, shape and strides
//   cai::consumer        orders a consumer's stream and the producer's, for its own lifetime
//   cai::view            elements of device memory, with a checked type and number of dimensions
//   cai::host_view       the same of host memory
//   cai::contiguous_view, cai::host_contiguous_view
//                        elements in C order without gaps, of any number of dimensions or of one
//   cai::error           the exception that all functions throw
//
// The first two and the last are in cai/abi.hpp, which needs no library.
//
// Only make_owner, array::make, array::attach and failing calls allocate. Callbacks are noexcept:
// no exception passes into C. Thread safety: as the containers of the standard library.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_HPP
#define CAI_HPP

#include "abi.hpp"

#if CAI_HPP_VERSION != 1
#error "cai/abi.hpp of another version was included before cai/cai.hpp: include cai/cai.hpp first"
#endif

#include "cai.h"

#include <complex>
#include <cstring>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

// CUDA's types for elements that C++ has no type for.
struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace cai {

inline error::error(const cai_error &what) noexcept
    : code_(what.code), driver_code_(what.driver_code) {
    static_assert(sizeof field_ == sizeof what.field && sizeof message_ == sizeof what.message);
    std::memcpy(field_, what.field, sizeof field_);
    std::memcpy(message_, what.message, sizeof message_);
}
inline const char *error::name() const noexcept { return cai_status_name(code_); }
inline cai_error error::get() const noexcept {
    cai_error made;
    made.code = code_;
    made.driver_code = driver_code_;
    std::memcpy(made.field, field_, sizeof field_);
    std::memcpy(made.message, message_, sizeof message_);
    return made;
}

inline namespace CAI_PRIVATE_NAMESPACE {

// Throws what a function of cai.h reported:
// `cai::check(cai_array_validate(&array, CAI_CHECK_LAYOUT, &why), why)`.
inline void check(cai_status status, const cai_error &why) {
    if (status != CAI_OK) {
        throw error(why);
    }
}

namespace detail CAI_PRIVATE_HIDDEN {

// Calls a function of cai.h with all its arguments but the last, and throws what it reports.
template <class... Parameters, class... Arguments>
void call(cai_status (*function)(Parameters...), Arguments &&...arguments) {
    cai_error why;
    const cai_status status = function(std::forward<Arguments>(arguments)..., &why);
    check(status, why);
}

} // namespace detail CAI_PRIVATE_HIDDEN

// The element type that a C++ type stands for. Specialize it for a type of your own, with static
// constexpr members `kind` (of the typestr) and, for opaque types, `code` (CAI_DTYPE_...):
//
//   template <> struct cai::element<my_float8> {
//       static constexpr char kind = 'V';
//       static constexpr std::uint16_t code = CAI_DTYPE_FLOAT8_E4M3FN;
//   };
template <class T, class = void> struct element;
template <> struct element<bool> {
    static constexpr char kind = 'b';
};
template <class T>
struct element<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static constexpr char kind = std::is_signed_v<T> ? 'i' : 'u';
};
template <class T> struct element<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static constexpr char kind = 'f';
};
template <class T> struct element<std::complex<T>> {
    static constexpr char kind = 'c';
};
// std::byte stands for the bytes of any type whose elements are one byte.
template <> struct element<std::byte> {
    static constexpr char kind = 0;
};
template <> struct element<__half> {
    static constexpr char kind = 'f';
};
template <> struct element<__nv_bfloat16> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_BFLOAT16;
};
template <> struct element<__nv_fp8_e4m3> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_FLOAT8_E4M3FN;
};
template <> struct element<__nv_fp8_e5m2> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_FLOAT8_E5M2;
};
#if defined(__STDCPP_BFLOAT16_T__)
template <> struct element<decltype(0.0bf16)> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_BFLOAT16;
};
#endif

namespace detail CAI_PRIVATE_HIDDEN {

template <class T, class = void>
struct code_of : std::integral_constant<std::uint16_t, CAI_DTYPE_NONE> {};
template <class T>
struct code_of<T, std::void_t<decltype(element<T>::code)>>
    : std::integral_constant<std::uint16_t, element<T>::code> {};

// Writes the typestr of a C++ type, in the byte order of this machine.
template <class T> void write_typestr(char (&out)[CAI_TYPESTR_SIZE]) noexcept {
    static_assert(sizeof(T) < 1000000, "a typestr holds six digits");
    constexpr char kind = element<T>::kind == 0 ? 'V' : element<T>::kind;
    constexpr bool ordered = sizeof(T) > 1 && (kind != 'V' || code_of<T>::value != CAI_DTYPE_NONE);
    const std::uint16_t probe = 1;
    unsigned char first;
    std::memcpy(&first, &probe, 1);
    const char order = !ordered ? '|' : first == 1 ? '<' : '>';
    std::snprintf(out, sizeof out, "%c%c%u", order, kind, static_cast<unsigned>(sizeof(T)));
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Memory of a C++ type, described: what array::make copies. Holds its shape and strides itself;
// refers to the data.
class description {
  public:
    // A structure that points into this object, without an owner, a stream or a device.
    cai_array get() const & noexcept {
        cai_array made = fields_;
        made.shape = made.ndim > 0 ? shape_.data() : nullptr;
        made.strides = strided_ ? strides_.data() : nullptr;
        return made;
    }
    // It would point into a temporary.
    cai_array get() const && = delete;

  private:
    template <class T> friend description describe(T *, const extents &);
    template <class T> friend description describe(T *, const extents &, const extents &);

    // `strides` is NULL for C order without gaps.
    description(const void *data, const char *typestr, std::uint16_t code, bool readonly,
                const extents &shape, const extents *strides)
        : fields_(cai_array(CAI_ARRAY_INIT)) {
        if (shape.size() > CAI_MAX_NDIM) {
            refuse_count(CAI_ERR_NDIM, "shape", shape.size(), "0 to 64");
        }
        if (strides != nullptr && strides->size() != shape.size()) {
            refuse_count(CAI_ERR_ARGUMENT, "strides", strides->size(), "one for each dimension");
        }
        bool empty = false;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            shape_[d] = shape[d];
            strides_[d] = strides != nullptr ? (*strides)[d] : 0;
            empty = empty || shape[d] == 0;
        }
        strided_ = strides != nullptr && !shape.empty();
        fields_.ndim = static_cast<std::int32_t>(shape.size());
        fields_.data = empty ? nullptr : const_cast<void *>(data);
        fields_.flags = readonly ? CAI_ARRAY_READONLY : 0;
        fields_.dtype_code = code;
        std::snprintf(fields_.typestr, sizeof fields_.typestr, "%s", typestr);
    }

    [[noreturn]] static void refuse_count(cai_status code, const char *field, std::size_t count,
                                          const char *expected) {
        char found[32];
        std::snprintf(found, sizeof found, "%zu numbers", count);
        detail::refuse(code, field, found, expected);
    }

    cai_array fields_;
    std::array<std::int64_t, CAI_MAX_NDIM> shape_;
    std::array<std::int64_t, CAI_MAX_NDIM> strides_;
    bool strided_ = false;
};

// Describes elements of type T in C order without gaps; read-only where T is const.
// Throws CAI_ERR_NDIM for more than CAI_MAX_NDIM extents. Without elements, data becomes NULL.
template <class T> description describe(T *data, const extents &shape) {
    using value_type = std::remove_cv_t<T>;
    char typestr[CAI_TYPESTR_SIZE];
    detail::write_typestr<value_type>(typestr);
    constexpr std::uint16_t code = detail::code_of<value_type>::value;
    return description(data, typestr, code, std::is_const_v<T>, shape, nullptr);
}
// The same with strides in bytes, one for each dimension.
// Throws CAI_ERR_NDIM, or CAI_ERR_ARGUMENT for another number of strides.
template <class T> description describe(T *data, const extents &shape, const extents &strides) {
    using value_type = std::remove_cv_t<T>;
    char typestr[CAI_TYPESTR_SIZE];
    detail::write_typestr<value_type>(typestr);
    constexpr std::uint16_t code = detail::code_of<value_type>::value;
    return description(data, typestr, code, std::is_const_v<T>, shape, &strides);
}

inline strides::strides(const cai_array &array)
    : count_(array.ndim > 0 ? static_cast<std::size_t>(array.ndim) : 0) {
    detail::call(cai_array_strides, &array, CAI_MAX_NDIM, steps_.data());
}

inline array array::from(const cai_array &source) {
    detail::call(cai_array_validate, &source, std::uint32_t{CAI_CHECK_LAYOUT});
    return from_unchecked(source);
}
inline array array::make(cai_array description, owner data_owner) {
    array made;
    description.owner = data_owner.get(); // the new array holds a reference of its own
    detail::call(cai_array_create, &description, nullptr, nullptr, &made.raw_);
    return made;
}
inline array array::make(const description &what, cai_stream stream, cai_device device,
                         owner data_owner) {
    cai_array raw = what.get();
    raw.stream = stream;
    raw.device = device;
    return make(raw, std::move(data_owner));
}
template <class T>
array array::make(T *data, const extents &shape, cai_stream stream, cai_device device,
                  owner data_owner) {
    return make(describe(data, shape), stream, device, std::move(data_owner));
}
inline void array::validate(std::uint32_t checks) const {
    detail::call(cai_array_validate, &raw_, checks);
}
inline cai_dtype array::dtype() const {
    cai_dtype answer{};
    detail::call(cai_array_dtype, &raw_, &answer);
    return answer;
}
inline bool array::is_native() const {
    bool answer = false;
    detail::call(cai_array_is_native, &raw_, &answer);
    return answer;
}
inline cai::strides array::strides() const { return cai::strides(raw_); }
inline cai_layout array::layout() const {
    cai_layout answer{};
    detail::call(cai_array_layout, &raw_, &answer);
    return answer;
}
inline void array::produce(std::initializer_list<cai_stream> streams, cai_stream export_stream,
                           std::uint32_t flags) {
    detail::call(cai_array_produce, &raw_, streams.begin(), streams.size(), export_stream, flags);
}
template <class T> void array::attach(T object) {
    static_assert(std::is_nothrow_destructible_v<T>, "a destructor must not throw into C");
    auto *attached = new T(std::move(object));
    cai_error why;
    const cai_status status = cai_array_attach(
        &raw_, attached, [](void *context) noexcept { delete static_cast<T *>(context); }, &why);
    if (status != CAI_OK) {
        delete attached;
        throw error(why);
    }
}
inline void array::synchronize(std::uint32_t access) const {
    detail::call(cai_array_synchronize, &raw_, access);
}
inline void array::release_after(cai_stream stream) {
    detail::call(cai_array_release_after, &raw_, stream);
}

// A consumer's work on an array. Construct it, enqueue the work on `stream`, then call end() or
// leave the scope:
//
//   {
//       cai::consumer work(array, cai::stream_of(stream), CAI_ACCESS_READ);
//       kernel<<<blocks, threads, 0, stream>>>(...);
//   }
//
// `access` is CAI_ACCESS_READ, CAI_ACCESS_WRITE or both, and may have the other bits that
// cai_array_consume_begin takes. The array must outlive the consumer.
class consumer {
  public:
    // Makes `stream` wait for the producer's work. Throws what cai_array_consume_begin returns.
    consumer(const cai_array &array, cai_stream stream, std::uint32_t access)
        : array_(&array), stream_(stream), access_(access) {
        detail::call(cai_array_consume_begin, array_, stream_, access_);
    }
    consumer(const cai::array &array, cai_stream stream, std::uint32_t access)
        : consumer(array.get(), stream, access) {}
    // A temporary would be destroyed before the end.
    consumer(const cai::array &&, cai_stream, std::uint32_t) = delete;
    consumer(consumer &&other) noexcept
        : array_(std::exchange(other.array_, nullptr)), stream_(other.stream_),
          access_(other.access_) {}
    consumer &operator=(consumer &&) = delete;
    // Ends the work, and ignores a failure: call end() to notice it.
    ~consumer() {
        if (array_ != nullptr) {
            (void)cai_array_consume_end(array_, stream_, access_, nullptr);
        }
    }
    // Makes the producer's next work wait for this work. Later calls do nothing.
    // Throws what cai_array_consume_end returns; then synchronize `stream` before going on.
    void end() {
        if (const cai_array *array = std::exchange(array_, nullptr)) {
            detail::call(cai_array_consume_end, array, stream_, access_);
        }
    }

  private:
    const cai_array *array_;
    cai_stream stream_;
    std::uint32_t access_;
};

// What a view accepts beyond the default. Combine with |.
enum class allow : std::uint32_t {
    nothing = 0,
    // An array with a mask. The caller is responsible for reading the mask.
    mask = 1,
    // Memory of any kind. The caller is responsible for accessing elements only where they can be
    // reached.
    any_device = 2,
};
constexpr allow operator|(allow a, allow b) noexcept {
    return static_cast<allow>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

namespace detail CAI_PRIVATE_HIDDEN {

constexpr bool has(allow all, allow one) noexcept {
    return (static_cast<std::uint32_t>(all) & static_cast<std::uint32_t>(one)) != 0;
}

// What a view requires of its array.
struct requirements {
    bool host;
    allow allowed;
    bool writable;
    std::int32_t ndim; // -1: any
    bool contiguous;
    char kind; // of the typestr; 0: any
    std::uint16_t code;
    std::size_t size, alignment;
    char typestr[CAI_TYPESTR_SIZE];

    template <class T>
    static requirements of(allow allowed, std::int32_t ndim, bool contiguous, bool host) noexcept {
        using value_type = std::remove_cv_t<T>;
        requirements made = {};
        made.host = host;
        made.allowed = allowed;
        made.writable = !std::is_const_v<T>;
        made.ndim = ndim;
        made.contiguous = contiguous;
        made.kind = element<value_type>::kind;
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

inline void require_device(const cai_array &array, const requirements &wanted) {
    char found[64];
    std::snprintf(found, sizeof found, "%d", static_cast<int>(array.device.type));
    switch (array.device.type) {
    case CAI_DEVICE_OPENCL:
    case CAI_DEVICE_VULKAN:
    case CAI_DEVICE_METAL:
    case CAI_DEVICE_WEBGPU:
        refuse(CAI_ERR_CONVERT_DEVICE, "device.type", found,
               "memory with an address, not a handle");
    default: break;
    }
    if (has(wanted.allowed, allow::any_device)) {
        return;
    }
    const bool on_host = array.device.type == CAI_DEVICE_CPU;
    if (!wanted.host && on_host) {
        refuse(CAI_ERR_HOST_MEMORY, "device.type", "host memory",
               "device memory, a cai::host_view, or cai::allow::any_device");
    }
    const bool reachable = on_host || array.device.type == CAI_DEVICE_CUDA_HOST ||
                           array.device.type == CAI_DEVICE_CUDA_MANAGED ||
                           array.device.type == CAI_DEVICE_ROCM_HOST;
    if (wanted.host && !reachable && array.data != nullptr) {
        refuse(CAI_ERR_CONVERT_DEVICE, "device.type", found,
               "host memory, a cai::view, or cai::allow::any_device");
    }
}

// Throws where an array does not meet the requirements: the status is the one that
// cai_array_from_python has for the same requirement, and the order of the checks is the same.
inline void require(const cai_array &array, const requirements &wanted) {
    call(cai_array_validate, &array, std::uint32_t{CAI_CHECK_LAYOUT});
    require_device(array, wanted);
    if (wanted.writable && (array.flags & CAI_ARRAY_READONLY) != 0) {
        refuse(CAI_ERR_READONLY, "flags", "a read-only array",
               "a writable one, or a view of const elements");
    }
    if (array.mask != nullptr && !has(wanted.allowed, allow::mask)) {
        refuse(CAI_ERR_CONVERT_MASK, "mask", "a mask", "none, or cai::allow::mask");
    }
    if (wanted.ndim >= 0 && array.ndim != wanted.ndim) {
        char found[16], expected[32];
        std::snprintf(found, sizeof found, "%d", static_cast<int>(array.ndim));
        std::snprintf(expected, sizeof expected, "%d dimensions", static_cast<int>(wanted.ndim));
        refuse(CAI_ERR_CONVERT_NDIM, "ndim", found, expected);
    }
    char found[64], expected[64];
    describe_type(found, array.typestr, array.dtype_code);
    cai_dtype dtype;
    call(cai_array_dtype, &array, &dtype);
    bool native = false;
    call(cai_array_is_native, &array, &native);
    if (!native) {
        refuse(CAI_ERR_CONVERT_BYTE_ORDER, array.descr != nullptr ? "descr" : "typestr", found,
               "the byte order of this machine");
    }
    // A code names the elements, whatever kind carries them.
    const bool same_kind =
        wanted.kind == 0 ||
        (dtype.code == wanted.code && (wanted.code != CAI_DTYPE_NONE || dtype.kind == wanted.kind));
    if (!same_kind || dtype.itemsize != static_cast<std::int64_t>(wanted.size)) {
        if (wanted.kind == 0) {
            std::snprintf(expected, sizeof expected, "elements of 1 byte");
        } else {
            describe_type(expected, wanted.typestr, wanted.code);
        }
        refuse(CAI_ERR_CONVERT_TYPE, "typestr", found, expected);
    }
    if (wanted.contiguous) {
        cai_layout layout;
        call(cai_array_layout, &array, &layout);
        if ((layout.flags & CAI_LAYOUT_C_CONTIGUOUS) == 0) {
            refuse(CAI_ERR_CONVERT_CONTIGUOUS, "strides", "other strides", "a C-contiguous array");
        }
    }
    // The library knows the alignment of numbers; the compiler knows that of every type.
    const auto alignment = static_cast<std::int64_t>(wanted.alignment);
    std::snprintf(expected, sizeof expected, "a multiple of %zu", wanted.alignment);
    if (reinterpret_cast<std::uintptr_t>(array.data) % wanted.alignment != 0) {
        std::snprintf(found, sizeof found, "%p", array.data);
        refuse(CAI_ERR_ALIGNMENT, "data", found, expected);
    }
    for (std::int32_t d = 0; array.data != nullptr && d < array.ndim; ++d) {
        if (array.strides != nullptr && array.shape[d] > 1 && array.strides[d] % alignment != 0) {
            char field[32];
            std::snprintf(field, sizeof field, "strides[%d]", static_cast<int>(d));
            std::snprintf(found, sizeof found, "%lld", static_cast<long long>(array.strides[d]));
            refuse(CAI_ERR_ALIGNMENT, field, found, expected);
        }
    }
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Bases of the views. Not hidden, so that a class of the caller's may have a view as a member.
namespace parts {

// What both views of N dimensions have in common.
template <class T, std::size_t N> class strided {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    static constexpr std::size_t rank() noexcept { return N; }

    // The element whose indices are all zero; NULL where there are no elements.
    CAI_PRIVATE_HOST_DEVICE T *data() const noexcept { return data_; }
    CAI_PRIVATE_HOST_DEVICE std::int64_t extent(std::size_t dimension) const noexcept {
        return shape_[dimension];
    }
    CAI_PRIVATE_HOST_DEVICE std::int64_t stride_bytes(std::size_t dimension) const noexcept {
        return strides_[dimension];
    }
    // Number of elements.
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
    // Whether the elements lie in C order without gaps. A view without elements does.
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
    strided(const cai_array &array, allow allowed, bool host) {
        constexpr auto ndim = static_cast<std::int32_t>(N);
        detail::require(array, detail::requirements::of<T>(allowed, ndim, false, host));
        detail::call(cai_array_strides, &array, static_cast<std::int32_t>(N), strides_);
        for (std::size_t d = 0; d < N; ++d) {
            shape_[d] = array.shape[d];
        }
        data_ = static_cast<T *>(array.data);
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
    T *data_ = nullptr;
    // One more than needed, so that a view of no dimensions has an array too.
    std::int64_t shape_[N + 1] = {};
    std::int64_t strides_[N + 1] = {};
};

// What both contiguous views have in common.
template <class T> class dense {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    CAI_PRIVATE_HOST_DEVICE T *data() const noexcept { return data_; }
    // Number of elements.
    CAI_PRIVATE_HOST_DEVICE std::int64_t size() const noexcept { return size_; }
    CAI_PRIVATE_HOST_DEVICE bool empty() const noexcept { return size_ == 0; }
    CAI_PRIVATE_HOST_DEVICE std::size_t ndim() const noexcept { return ndim_; }
    // The array's own extents, in host memory.
    extents shape() const noexcept { return {shape_, ndim_}; }

  protected:
    dense(const cai_array &array, allow allowed, int ndim, bool host) {
        detail::require(array, detail::requirements::of<T>(allowed, ndim, true, host));
        cai_layout layout;
        detail::call(cai_array_layout, &array, &layout);
        data_ = static_cast<T *>(array.data);
        size_ = layout.count;
        ndim_ = static_cast<std::size_t>(array.ndim);
        shape_ = array.shape;
    }
    explicit dense(const dense<value_type> &other, int) noexcept
        : data_(other.data()), size_(other.size()), ndim_(other.ndim()),
          shape_(other.shape().data()) {}

  private:
    T *data_;
    std::int64_t size_;
    std::size_t ndim_;
    const std::int64_t *shape_;
};

} // namespace parts

namespace detail CAI_PRIVATE_HIDDEN {

template <class T, class U>
using if_const_of = std::enable_if_t<!std::is_same_v<T, U> && std::is_same_v<T, const U>>;

// Steps to the next dimension.
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

// Elements of device memory with a checked type and number of dimensions, through strides in bytes.
// Pass it to kernels by value. Owns nothing: the array must outlive it, and orders nothing: that is
// done by cai::consumer.
//
// Construction checks all that access to elements relies on. It throws what cai_array_validate
// returns, or for an array that does not fit: CAI_ERR_HOST_MEMORY, CAI_ERR_CONVERT_DEVICE (data is
// a handle), CAI_ERR_READONLY (unless T is const), CAI_ERR_CONVERT_MASK, CAI_ERR_CONVERT_NDIM,
// CAI_ERR_CONVERT_BYTE_ORDER, CAI_ERR_CONVERT_TYPE, CAI_ERR_ALIGNMENT.
//
// Elements are accessible in device code only. On the host, use cai::host_view.
template <class T, std::size_t N> class view : public parts::strided<T, N> {
    using base = parts::strided<T, N>;

  public:
    explicit view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, false) {}
    explicit view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, false) {}
    // It would outlive its array.
    explicit view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    view(const view<U, N> &other) noexcept : base(other, 0) {}

    // The element at these indices, which are not checked.
#if defined(__CUDACC__) || defined(__HIPCC__)
    template <class... Index> __device__ T &operator()(Index... index) const noexcept {
        return base::element_at(index...);
    }
#else
    template <class... Index> T &operator()(Index... index) const = delete;
#endif
};

// Elements of memory that the host can reach: of the host, page-locked or managed. Otherwise as
// cai::view. Memory of another device, or of one that is not known, is refused with
// CAI_ERR_CONVERT_DEVICE. Call array::synchronize before the first access.
template <class T, std::size_t N> class host_view : public parts::strided<T, N> {
    using base = parts::strided<T, N>;

  public:
    explicit host_view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, true) {}
    explicit host_view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, true) {}
    explicit host_view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    host_view(const host_view<U, N> &other) noexcept : base(other, 0) {}

    // The element at these indices, which are not checked.
    template <class... Index> T &operator()(Index... index) const noexcept {
        return base::element_at(index...);
    }
    // The element at these indices. Throws CAI_ERR_ARGUMENT where one is out of range.
    template <class... Index> T &at(Index... index) const {
        static_assert(sizeof...(Index) == N, "one index for each dimension");
        [[maybe_unused]] std::size_t d = 0;
        (detail::check_index(d, static_cast<std::int64_t>(index), base::extent(d)), ...);
        return base::element_at(index...);
    }

#if defined(__cpp_lib_mdspan)
    // The same elements as a std::mdspan. Throws CAI_ERR_CONVERT_STRIDES for strides that it cannot
    // express: negative, zero over more than one element, or no multiple of the element.
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

// The rank of a contiguous view that accepts any number of dimensions.
inline constexpr int any_rank = -1;

// Elements of device memory in C order without gaps: a pointer, a count and a shape, with a checked
// number of dimensions N or with any (as `nb::ndarray<float, nb::c_contig>`). Otherwise as
// cai::view; an array with other strides is refused with CAI_ERR_CONVERT_CONTIGUOUS.
template <class T, int N = any_rank> class contiguous_view : public parts::dense<T> {
    using base = parts::dense<T>;

  public:
    explicit contiguous_view(const cai_array &array, allow allowed = allow::nothing)
        : base(array, allowed, N, false) {}
    explicit contiguous_view(const cai::array &array, allow allowed = allow::nothing)
        : base(array.get(), allowed, N, false) {}
    explicit contiguous_view(const cai::array &&, allow = allow::nothing) = delete;
    template <class U, class = detail::if_const_of<T, U>>
    contiguous_view(const contiguous_view<U, N> &other) noexcept : base(other, 0) {}

    // The element at this place in C order, which is not checked.
#if defined(__CUDACC__) || defined(__HIPCC__)
    __device__ T &operator[](std::int64_t place) const noexcept { return base::data()[place]; }
#else
    T &operator[](std::int64_t) const = delete;
#endif
};

// The same of memory that the host can reach, as cai::host_view. A range.
template <class T, int N = any_rank> class host_contiguous_view : public parts::dense<T> {
    using base = parts::dense<T>;

  public:
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

#endif // CAI_HPP
