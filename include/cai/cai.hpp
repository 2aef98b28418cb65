// cai.hpp: cai.h for C++17, header-only. Link the library as for cai.h.
//
//   cai::array           owns a reference to an array; moves, and is shared by share()
//   cai::owner           owns a reference to an owner; cai::make_owner keeps any C++ object alive
//   cai::describe        describes memory of a C++ type: typestr, dtype_code, shape and strides
//   cai::consumer        orders the streams of consumer and producer while it exists
//   cai::view            elements of device memory, with a checked type and number of dimensions
//   cai::host_view       the same for host memory
//   cai::contiguous_view, cai::host_contiguous_view
//                        elements in C order without gaps, of any number of dimensions or of one
//   cai::error           the exception that all functions throw
//
// The first two and the last are in cai/abi.hpp, which needs no library. The views are in
// cai/view.hpp, which this header includes.
//
// Only make_owner, array::make, array::attach, their forms try_... and failing calls allocate.
// Callbacks are noexcept: no exception passes into C. Thread safety: several threads may read one
// object; a change of an object needs exclusive access to it, as with the containers of the
// standard library.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_HPP
#define CAI_HPP

#include "abi.hpp"

#if CAI_PRIVATE_HPP != 0x03a12b90
#error "cai/abi.hpp of another version was included before cai/cai.hpp: include cai/cai.hpp first"
#endif

#include "cai.h"
#include "type_table.h"

#include <cstring>

// CUDA's types for elements that C++ has no type for.
#define CAI_PRIVATE_DECLARE(kind, bytes, code, type) struct type;
CAI_PRIVATE_CUDA_TYPES(CAI_PRIVATE_DECLARE)
#undef CAI_PRIVATE_DECLARE

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

// Throws cai::error with `why` if `status` is not CAI_OK:
// `cai::check(cai_array_validate(&array, CAI_CHECK_LAYOUT, &why), why)`.
inline void check(cai_status status, const cai_error &why) {
    if (status != CAI_OK) {
        detail::raise(error(why));
    }
}

namespace detail CAI_PRIVATE_HIDDEN {

static_assert(no_memory == CAI_ERR_NO_MEMORY, "cai/abi.hpp knows its number");

// Fills an error and returns its status.
inline cai_status reject(cai_error *why, cai_status code, const char *field, const char *found,
                         const char *expected) noexcept {
    char message[256];
    std::snprintf(message, sizeof message, "found %s, expected %s", found, expected);
    return cai_error_set(why, code, field, message);
}

// Calls a function with all its arguments but the last, and throws what it reports.
template <class... Parameters, class... Arguments>
void call(cai_status (*function)(Parameters...), Arguments &&...arguments) {
    cai_error why;
    const cai_status status = function(std::forward<Arguments>(arguments)..., &why);
    check(status, why);
}

// Copies the members that an array of any version has in common with this header's, without a
// reference. `from` has a size that some version has.
inline void copy_members(const cai_array &from, cai_array &to) noexcept {
    const std::uint32_t size = from.struct_size;
    initialize(to);
    std::memcpy(&to, &from, size < sizeof to ? size : sizeof to);
    to.struct_size = sizeof to;
}

// Blocks until the work of a consumer on `stream` is done, if the producer could not be made to
// wait for it.
inline void wait_on_host(const cai_array &consumed, cai_stream stream) noexcept {
    cai_array mine;
    copy_members(consumed, mine); // a size that cai_array_consume_begin accepted
    mine.version = CAI_INTERFACE_VERSION;
    mine.stream = stream;
    mine.stream_id = 0;
    mine.event = nullptr;
    mine.context = nullptr;
    mine.mask = nullptr;
    (void)cai_array_synchronize(&mine, CAI_ACCESS_READ, nullptr);
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Complex numbers of any library, known by their parts, which lie in this order: <complex> alone
// takes a compiler longer than this header.
template <class T, class = void> struct complex_number {};
template <template <class> class Complex, class T>
struct complex_number<
    Complex<T>,
    std::enable_if_t<std::is_floating_point_v<T> &&
                     std::is_same_v<T, typename Complex<T>::value_type> &&
                     std::is_same_v<T, decltype(std::declval<const Complex<T>>().real())> &&
                     std::is_same_v<T, decltype(std::declval<const Complex<T>>().imag())>>> {
    static_assert(sizeof(Complex<T>) == 2 * sizeof(T), "a complex number has two parts");
    static constexpr char kind = 'c';
};

// Element type of an array whose elements are of the C++ type T. Specialize it for a type of your
// own, with static constexpr members `kind` (of the typestr) and, for opaque types, `code`
// (CAI_DTYPE_...):
//
//   template <> struct cai::element<my_float8> {
//       static constexpr char kind = 'V';
//       static constexpr std::uint16_t code = CAI_DTYPE_FLOAT8_E4M3FN;
//   };
template <class T, class = void> struct element : complex_number<T> {};
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
// std::byte matches every type whose elements are one byte.
template <> struct element<std::byte> {
    static constexpr char kind = 0;
};
#define CAI_PRIVATE_ELEMENT(letter, bytes, number, type) \
    template <> struct element<type> {                   \
        static constexpr char kind = letter;             \
        static constexpr std::uint16_t code = number;    \
    };
CAI_PRIVATE_CUDA_TYPES(CAI_PRIVATE_ELEMENT)
#undef CAI_PRIVATE_ELEMENT
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

template <class T, class = void> struct has_kind : std::false_type {};
template <class T> struct has_kind<T, std::void_t<decltype(element<T>::kind)>> : std::true_type {};
template <class T> constexpr char kind_of() noexcept {
    static_assert(has_kind<T>::value, "specialize cai::element for the type of the elements");
    return element<T>::kind;
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
inline constexpr char native_order = '>';
#else
inline constexpr char native_order = '<';
#endif

// Writes the typestr of a C++ type, in the byte order of this machine.
template <class T> constexpr void write_typestr(char (&out)[CAI_TYPESTR_SIZE]) noexcept {
    static_assert(sizeof(T) < 1000000, "a typestr holds six digits");
    constexpr char kind = kind_of<T>() == 0 ? 'V' : kind_of<T>();
    constexpr bool ordered = sizeof(T) > 1 && (kind != 'V' || code_of<T>::value != CAI_DTYPE_NONE);
    std::size_t length = 0, power = 1;
    out[length++] = ordered ? native_order : '|';
    out[length++] = kind;
    while (sizeof(T) / power >= 10) {
        power *= 10;
    }
    for (; power > 0; power /= 10) {
        out[length++] = static_cast<char>('0' + sizeof(T) / power % 10);
    }
    out[length] = 0;
}

} // namespace detail CAI_PRIVATE_HIDDEN

class description;

// As `describe` below, into `out`, which is unchanged on failure.
template <class T>
[[nodiscard]] cai_status try_describe(T *data, const extents &shape, description &out,
                                      cai_error *why = nullptr) noexcept;
template <class T>
[[nodiscard]] cai_status try_describe(T *data, const extents &shape, const extents &strides,
                                      description &out, cai_error *why = nullptr) noexcept;

// Description of memory for array::make, which copies it. Contains shape and strides, and refers to
// the data, which it does not own.
class description {
  public:
    // Describes nothing: array::make refuses it.
    description() noexcept : shape_(), strides_() { detail::initialize(fields_); }
    description(const description &other) noexcept { *this = other; }
    description &operator=(const description &other) noexcept {
        fields_ = other.fields_;
        shape_ = other.shape_;
        strides_ = other.strides_;
        fields_.shape = other.fields_.shape != nullptr ? shape_.data() : nullptr;
        fields_.strides = other.fields_.strides != nullptr ? strides_.data() : nullptr;
        return *this;
    }
    // Returns a structure without an owner, a stream or a device. It points into this object.
    const cai_array &get() const & noexcept { return fields_; }
    // It would be part of a temporary.
    const cai_array &get() const && = delete;

  private:
    template <class T>
    friend cai_status try_describe(T *, const extents &, description &, cai_error *) noexcept;
    template <class T>
    friend cai_status try_describe(T *, const extents &, const extents &, description &,
                                   cai_error *) noexcept;

    // `strides` is NULL for C order without gaps.
    template <class T>
    cai_status set(T *data, const extents &shape, const extents *strides, cai_error *why) noexcept {
        using value_type = std::remove_cv_t<T>;
        char typestr[CAI_TYPESTR_SIZE] = {};
        detail::write_typestr<value_type>(typestr);
        return set(data, typestr, detail::code_of<value_type>::value, std::is_const_v<T>, shape,
                   strides, why);
    }
    cai_status set(const void *data, const char (&typestr)[CAI_TYPESTR_SIZE], std::uint16_t code,
                   bool readonly, const extents &shape, const extents *strides,
                   cai_error *why) noexcept {
        if (shape.size() > CAI_MAX_NDIM) {
            return reject_count(CAI_ERR_NDIM, "shape", shape.size(), "0 to 64", why);
        }
        if (strides != nullptr && strides->size() != shape.size()) {
            return reject_count(CAI_ERR_ARGUMENT, "strides", strides->size(),
                                "one for each dimension", why);
        }
        detail::initialize(fields_);
        bool empty = false;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            shape_[d] = shape[d];
            strides_[d] = strides != nullptr ? (*strides)[d] : 0;
            empty = empty || shape[d] == 0;
        }
        fields_.ndim = static_cast<std::int32_t>(shape.size());
        fields_.shape = shape.empty() ? nullptr : shape_.data();
        fields_.strides = strides == nullptr || shape.empty() ? nullptr : strides_.data();
        fields_.data = empty ? nullptr : const_cast<void *>(data);
        fields_.flags = readonly ? CAI_ARRAY_READONLY : 0;
        fields_.dtype_code = code;
        std::memcpy(fields_.typestr, typestr, sizeof typestr);
        return CAI_OK;
    }

    static cai_status reject_count(cai_status code, const char *field, std::size_t count,
                                   const char *expected, cai_error *why) noexcept {
        char found[32];
        std::snprintf(found, sizeof found, "%zu number%s", count, count == 1 ? "" : "s");
        return detail::reject(why, code, field, found, expected);
    }

    cai_array fields_;
    std::array<std::int64_t, CAI_MAX_NDIM> shape_;
    std::array<std::int64_t, CAI_MAX_NDIM> strides_;
};

// Describes elements of type T in C order without gaps. The description is read-only if T is const;
// its data is NULL if there are no elements.
// Throws CAI_ERR_NDIM for more than CAI_MAX_NDIM extents.
template <class T> description describe(T *data, const extents &shape) {
    description made;
    cai_error why;
    check(try_describe(data, shape, made, &why), why);
    return made;
}
// Describes elements of type T with strides in bytes, one for each dimension. Otherwise as above.
// Throws CAI_ERR_NDIM, or CAI_ERR_ARGUMENT for another number of strides.
template <class T> description describe(T *data, const extents &shape, const extents &strides) {
    description made;
    cai_error why;
    check(try_describe(data, shape, strides, made, &why), why);
    return made;
}
template <class T>
cai_status try_describe(T *data, const extents &shape, description &out, cai_error *why) noexcept {
    return out.set(data, shape, nullptr, why);
}
template <class T>
cai_status try_describe(T *data, const extents &shape, const extents &strides, description &out,
                        cai_error *why) noexcept {
    return out.set(data, shape, &strides, why);
}

inline strides::strides(const cai_array &array) : strides() {
    detail::call(try_make, array, *this);
}
inline cai_status strides::try_make(const cai_array &array, strides &out, cai_error *why) noexcept {
    const cai_status status = cai_array_strides(&array, out.steps_.data(), CAI_MAX_NDIM, why);
    if (status == CAI_OK) {
        out.count_ = static_cast<std::size_t>(array.ndim);
    }
    return status;
}

inline array array::from(const cai_array &source) {
    array made;
    detail::call(try_from, source, made);
    return made;
}
inline cai_status array::try_from(const cai_array &source, array &out, cai_error *why) noexcept {
    cai_status status = cai_array_validate(&source, CAI_CHECK_LAYOUT, why);
    if (status == CAI_OK) {
        array made;
        status = cai_array_share(&source, &made.raw_, why);
        if (status == CAI_OK) {
            out = std::move(made);
        }
    }
    return status;
}
inline array array::make(const cai_array &description, owner data_owner) {
    array made;
    cai_error why;
    check(try_make(description, std::move(data_owner), made, &why), why);
    return made;
}
inline array array::make(const description &what, cai_stream stream, cai_device device,
                         owner data_owner) {
    array made;
    cai_error why;
    check(try_make(what, stream, device, std::move(data_owner), made, &why), why);
    return made;
}
template <class T>
array array::make(T *data, const extents &shape, cai_stream stream, cai_device device,
                  owner data_owner) {
    array made;
    cai_error why;
    check(try_make(data, shape, stream, device, std::move(data_owner), made, &why), why);
    return made;
}
inline cai_status array::try_make(const cai_array &description, owner data_owner, array &out,
                                  cai_error *why) noexcept {
    if (!CAI_PRIVATE_SIZE_OK(description.struct_size)) {
        return detail::reject(why, CAI_ERR_STRUCT_SIZE, "struct_size", "a size of no version",
                              "an array that was initialized");
    }
    array made;
    cai_array copy;
    detail::copy_members(description, copy);
    copy.owner = data_owner.get(); // the new array holds a reference of its own
    const cai_status status = cai_array_create(&copy, nullptr, nullptr, &made.raw_, why);
    if (status == CAI_OK) {
        out = std::move(made);
    }
    return status;
}
inline cai_status array::try_make(const description &what, cai_stream stream, cai_device device,
                                  owner data_owner, array &out, cai_error *why) noexcept {
    cai_array raw = what.get();
    raw.stream = stream;
    raw.device = device;
    return try_make(raw, std::move(data_owner), out, why);
}
template <class T>
cai_status array::try_make(T *data, const extents &shape, cai_stream stream, cai_device device,
                           owner data_owner, array &out, cai_error *why) noexcept {
    description what;
    const cai_status status = try_describe(data, shape, what, why);
    return status == CAI_OK ? try_make(what, stream, device, std::move(data_owner), out, why)
                            : status;
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
    cai_error why;
    const cai_status status = cai_array_validate(&raw_, CAI_CHECK_NATIVE, &why);
    if (status != CAI_ERR_CONVERT_BYTE_ORDER) {
        check(status, why);
    }
    return status == CAI_OK;
}
inline cai::strides array::strides() const { return cai::strides(raw_); }
inline cai_layout array::layout() const {
    cai_layout answer{};
    detail::call(cai_array_layout, &raw_, &answer);
    return answer;
}
inline void array::produce(std::initializer_list<cai_stream> streams, cai_stream export_stream,
                           std::uint32_t flags) {
    cai_error why;
    check(try_produce(streams, export_stream, flags, &why), why);
}
inline cai_status array::try_produce(std::initializer_list<cai_stream> streams,
                                     cai_stream export_stream, std::uint32_t flags,
                                     cai_error *why) noexcept {
    return cai_array_produce(&raw_, streams.begin(), streams.size(), export_stream, flags, why);
}
template <class T> void array::attach(T object) {
    cai_error why;
    check(try_attach(std::move(object), &why), why);
}
template <class T> cai_status array::try_attach(T object, cai_error *why) {
    static_assert(std::is_nothrow_destructible_v<T>, "a destructor must not throw into C");
    auto *attached = new (std::nothrow) T(std::move(object));
    if (attached == nullptr) {
        return cai_error_set(why, CAI_ERR_NO_MEMORY, "object", "no memory for a copy");
    }
    const cai_status status = cai_array_attach(
        &raw_, attached, [](void *context) noexcept { delete static_cast<T *>(context); }, why);
    if (status != CAI_OK) {
        delete attached;
    }
    return status;
}
inline void array::synchronize(std::uint32_t access) const {
    detail::call(cai_array_synchronize, &raw_, access);
}
inline void array::release_after(cai_stream stream) {
    detail::call(cai_array_release_after, &raw_, stream);
}
inline cai_status array::try_release_after(cai_stream stream, cai_error *why) noexcept {
    return cai_array_release_after(&raw_, stream, why);
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
// cai_array_consume_begin accepts. It has no default: a wrong one is a race, or lost overlap, which
// no test shows. It holds no reference: the array must outlive the consumer.
class consumer {
  public:
    // Does nothing until try_begin fills it.
    consumer() noexcept : array_(nullptr), stream_(CAI_STREAM_NONE), access_(0) {}
    // Makes `stream` wait for the producer's work. Throws what cai_array_consume_begin returns.
    consumer(const cai_array &array, cai_stream stream, std::uint32_t access)
        : array_(&array), stream_(stream), access_(access) {
        detail::call(cai_array_consume_begin, array_, stream_, access_);
    }
    consumer(const cai::array &array, cai_stream stream, std::uint32_t access)
        : consumer(array.get(), stream, access) {}
    // The same, into `out`, whose own work is ended. On failure, `out` is unchanged.
    [[nodiscard]] static cai_status try_begin(const cai_array &array, cai_stream stream,
                                              std::uint32_t access, consumer &out,
                                              cai_error *why = nullptr) noexcept {
        const cai_status status = cai_array_consume_begin(&array, stream, access, why);
        if (status == CAI_OK) {
            const consumer ended(std::move(out));
            out.array_ = &array;
            out.stream_ = stream;
            out.access_ = access;
        }
        return status;
    }
    // A temporary would be destroyed before the end.
    consumer(const cai::array &&, cai_stream, std::uint32_t) = delete;
    consumer(consumer &&other) noexcept
        : array_(std::exchange(other.array_, nullptr)), stream_(other.stream_),
          access_(other.access_) {}
    consumer &operator=(consumer &&) = delete;
    // Ends the work as try_end() does, and tells nobody of a failure. Call end() to hear of it.
    ~consumer() { (void)try_end(); }
    // Makes the producer's next work wait for this work. Later calls do nothing.
    //
    // If that fails, the host waits until the work on `stream` is done, before this function throws
    // or returns what cai_array_consume_end returned: the array may be released in any case. The
    // wait fails in turn, which is not reported, while `stream` is being captured (none of the work
    // has run: discard the capture), and after the driver has failed for good (none will run).
    void end() {
        cai_error why;
        check(try_end(&why), why);
    }
    [[nodiscard]] cai_status try_end(cai_error *why = nullptr) noexcept {
        const cai_array *array = std::exchange(array_, nullptr);
        if (array == nullptr) {
            return CAI_OK;
        }
        const cai_status status = cai_array_consume_end(array, stream_, access_, why);
        if (status != CAI_OK) {
            detail::wait_on_host(*array, stream_);
        }
        return status;
    }

  private:
    const cai_array *array_;
    cai_stream stream_;
    std::uint32_t access_;
};

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#include "view.hpp"

#endif // CAI_HPP
