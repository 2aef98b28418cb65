// cai.hpp: cai.h for C++17, header-only. Link the library as for cai.h.
//
//   cai::array     owns a reference to an array; moves, and shares when told to
//   cai::view      an array's elements with a checked type and number of dimensions
//   cai::owner     owns a reference to an owner; cai::make_owner keeps any C++ object alive
//   cai::consumer  begins on construction, ends on destruction: the consumer's stream and the producer's in
//   order cai::error     what a failing function throws: the cai_error, as an exception
//
// Nothing here allocates but make_owner, array::make and array::keep. No exception crosses into C: callbacks
// are noexcept. Objects follow the rules of standard containers: several threads may read one, each thread
// may change its own.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_HPP
#define CAI_HPP

#include <cai/cai.h>

#include <array>
#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

// Functions that also run on the device.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CAI_HD __host__ __device__
#else
#define CAI_HD
#endif

namespace cai {

// A failure: what a cai_error says, as an exception. Copies without allocating.
class error : public std::exception {
  public:
    explicit error(const cai_error &what) noexcept : error_(what) {}

    // A failure that this header finds itself: the field, and a sentence about it.
    error(cai_status code, const char *field, const char *message) noexcept {
        cai_error_set(&error_, code, field, message);
    }

    const char *what() const noexcept override { return error_.message; }
    cai_status code() const noexcept { return error_.code; }
    const char *name() const noexcept { return cai_status_name(error_.code); }
    const char *field() const noexcept { return error_.field; }
    std::int32_t driver_code() const noexcept { return error_.driver_code; }
    const cai_error &get() const noexcept { return error_; }

  private:
    cai_error error_;
};

// Throws what a function of cai.h reported: `cai::check(cai_array_validate(&array, 0, &why), why)`.
inline void check(cai_status status, const cai_error &why) {
    if (status != CAI_OK) {
        throw error(why);
    }
}

namespace detail {

// Calls a function of cai.h with all its arguments but the last, and throws what it reports.
template <class... Parameters, class... Arguments>
void call(cai_status (*function)(Parameters...), Arguments &&...arguments) {
    cai_error why;
    const cai_status status = function(std::forward<Arguments>(arguments)..., &why);
    check(status, why);
}

// An object behind a cai_owner with a count of its own: one allocation, no call into the library.
template <class T> class owned final : public cai_owner {
  public:
    explicit owned(T &&object) : cai_owner{&table}, object_(std::move(object)) {}

  private:
    static void retain(cai_owner *owner) noexcept {
        // A count that wraps would free an object in use. Half the range is left to threads on their way
        // here.
        if (static_cast<owned *>(owner)->count_.fetch_add(1, std::memory_order_relaxed) > SIZE_MAX / 2) {
            std::abort();
        }
    }
    static void release(cai_owner *owner) noexcept {
        auto *self = static_cast<owned *>(owner);
        if (self->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete self;
        }
    }
    static constexpr cai_owner_ops table = {sizeof(cai_owner_ops), 0, retain, release};

    std::atomic<std::size_t> count_{1};
    T object_;
};

} // namespace detail

// Owns one reference to a cai_owner.
class owner {
  public:
    owner() noexcept = default;
    owner(owner &&other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    owner &operator=(owner &&other) noexcept {
        owner(std::move(other)).swap(*this);
        return *this;
    }
    ~owner() { cai_owner_release(owner_); }

    // Takes over a reference that the caller holds.
    [[nodiscard]] static owner adopt(cai_owner *reference) noexcept {
        owner made;
        made.owner_ = reference;
        return made;
    }
    // One more reference to the same owner. Throws error for a broken table.
    [[nodiscard]] owner share() const {
        if (owner_ != nullptr) {
            detail::call(cai_owner_retain, owner_);
        }
        return adopt(owner_);
    }
    // Gives the reference to the caller.
    [[nodiscard]] cai_owner *release() noexcept { return std::exchange(owner_, nullptr); }
    cai_owner *get() const noexcept { return owner_; }
    explicit operator bool() const noexcept { return owner_ != nullptr; }
    void swap(owner &other) noexcept { std::swap(owner_, other.owner_); }

  private:
    cai_owner *owner_ = nullptr;
};

// An owner that keeps an object alive: a std::shared_ptr, a std::vector, a buffer class of yours. It is
// destroyed with the last reference, on whatever thread that happens; its destructor must not throw.
template <class T> [[nodiscard]] owner make_owner(T object) {
    static_assert(std::is_nothrow_destructible_v<T>, "the last release has nobody to throw to");
    return owner::adopt(new detail::owned<T>(std::move(object)));
}

// Numbers, one for each dimension: a range without memory of its own.
class extents {
  public:
    extents(const std::int64_t *first, std::size_t count) noexcept : first_(first), count_(count) {}
    const std::int64_t *begin() const noexcept { return first_; }
    const std::int64_t *end() const noexcept { return first_ + count_; }
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    std::int64_t operator[](std::size_t dimension) const noexcept { return first_[dimension]; }

  private:
    const std::int64_t *first_;
    std::size_t count_;
};

// Steps in bytes, one for each dimension: a range that holds them, also where the array leaves them out.
class strides {
  public:
    explicit strides(const cai_array &array)
        : count_(array.ndim > 0 ? static_cast<std::size_t>(array.ndim) : 0) {
        detail::call(cai_array_strides, &array, CAI_MAX_NDIM, steps_.data());
    }
    const std::int64_t *begin() const & noexcept { return steps_.data(); }
    const std::int64_t *end() const & noexcept { return steps_.data() + count_; }
    // Of a temporary they would dangle.
    const std::int64_t *begin() const && = delete;
    const std::int64_t *end() const && = delete;
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    std::int64_t operator[](std::size_t dimension) const noexcept { return steps_[dimension]; }

  private:
    std::array<std::int64_t, CAI_MAX_NDIM> steps_;
    std::size_t count_;
};

struct span {
    std::int64_t lower, upper;
};

// Owns one reference to an array. Moves; is copied only by share(). A default or moved-from array holds none.
class array {
  public:
    array() noexcept : raw_(cai_array(CAI_ARRAY_INIT)) {}
    array(array &&other) noexcept : raw_(std::exchange(other.raw_, cai_array(CAI_ARRAY_INIT))) {}
    array &operator=(array &&other) noexcept {
        array(std::move(other)).swap(*this);
        return *this;
    }
    ~array() { cai_array_release(&raw_); }

    // Takes over the reference that `source` holds, and clears `source`. Any version's structure is welcome.
    [[nodiscard]] static array adopt(cai_array &source) {
        array made;
        if (source.owner != nullptr) {
            // Two steps, because a plain copy would read past the end of a shorter structure.
            detail::call(cai_array_share, &source, &made.raw_);
            cai_array_release(&source);
        }
        return made;
    }
    // A reference of its own to somebody's array, which is checked first.
    [[nodiscard]] static array from(const cai_array &source) {
        detail::call(cai_array_validate, &source, std::uint32_t{CAI_CHECK_LAYOUT});
        array made;
        detail::call(cai_array_share, &source, &made.raw_);
        return made;
    }
    // A new array: `description` is checked and copied with all that it points to; `keeper` keeps the data
    // alive.
    [[nodiscard]] static array make(cai_array description, owner keeper) {
        array made;
        description.owner = keeper.get();
        detail::call(cai_array_create, &description, nullptr, nullptr, &made.raw_);
        return made;
    }
    // One more reference to the same array.
    [[nodiscard]] array share() const {
        array made;
        detail::call(cai_array_share, &raw_, &made.raw_);
        return made;
    }
    // Gives structure and reference to the caller, who releases it.
    [[nodiscard]] cai_array release() noexcept { return std::exchange(raw_, cai_array(CAI_ARRAY_INIT)); }
    void swap(array &other) noexcept { std::swap(raw_, other.raw_); }

    const cai_array &get() const noexcept { return raw_; }
    const cai_array *operator->() const noexcept { return &raw_; }
    explicit operator bool() const noexcept { return raw_.owner != nullptr; }

    void *data() const noexcept { return raw_.data; }
    std::size_t ndim() const noexcept { return static_cast<std::size_t>(raw_.ndim); }
    extents shape() const noexcept { return {raw_.shape, ndim()}; }
    cai::strides strides() const { return cai::strides(raw_); }
    bool readonly() const noexcept { return (raw_.flags & CAI_ARRAY_READONLY) != 0; }
    cai_stream stream() const noexcept { return raw_.stream; }
    cai_device device() const noexcept { return raw_.device; }
    const cai_array *mask() const noexcept { return raw_.mask; }

    void validate(std::uint32_t checks = CAI_CHECK_LAYOUT) const {
        detail::call(cai_array_validate, &raw_, checks);
    }
    cai_dtype dtype() const { return ask<cai_dtype>(cai_array_dtype); }
    cai_layout layout() const { return ask<cai_layout>(cai_array_layout); }
    std::int64_t count() const { return layout().count; }
    std::int64_t nbytes() const { return layout().nbytes; }
    bool is_c_contiguous() const { return (layout().flags & CAI_LAYOUT_C_CONTIGUOUS) != 0; }
    bool is_f_contiguous() const { return (layout().flags & CAI_LAYOUT_F_CONTIGUOUS) != 0; }
    bool is_native() const { return ask<bool>(cai_array_is_native); }
    cai::span span() const {
        const cai_layout measured = layout();
        return {measured.lower, measured.upper};
    }

    // Before it is handed out: joins the streams that work is pending on into the exported one. With none,
    // nothing is pending.
    void produce(std::initializer_list<cai_stream> streams, cai_stream export_stream = CAI_STREAM_NONE,
                 std::uint32_t flags = 0) {
        detail::call(cai_array_produce, &raw_, streams.begin(), streams.size(), export_stream, flags);
    }
    // Keeps something else alive as well, until after the data is let go: the stream it is exported with.
    template <class T> void keep(T object) {
        static_assert(std::is_nothrow_destructible_v<T>, "the last release has nobody to throw to");
        auto *kept = new T(std::move(object));
        cai_error why;
        const cai_status status = cai_array_attach(
            &raw_, kept, [](void *context) noexcept { delete static_cast<T *>(context); }, &why);
        if (status != CAI_OK) {
            delete kept;
            throw error(why);
        }
    }
    // Blocks until the producer's pending work is done.
    void synchronize(std::uint32_t flags = CAI_ACCESS_READ) const {
        detail::call(cai_array_synchronize, &raw_, flags);
    }
    // Gives up the reference once the work enqueued on `stream` so far is done, without blocking.
    void release_after(cai_stream stream) { detail::call(cai_array_release_after, &raw_, stream); }

  private:
    template <class T> T ask(cai_status (*function)(const cai_array *, T *, cai_error *)) const {
        T answer{};
        detail::call(function, &raw_, &answer);
        return answer;
    }

    cai_array raw_;
};

// A CUstream or cudaStream_t; 0 is the default stream that the compiler's options choose.
inline cai_stream stream_of(const void *cuda_stream) noexcept { return cai_inline_stream(cuda_stream); }

// A consumer's work on an array: construct it, enqueue the work on `stream`, call end() or let it go out of
// scope.
//
//   {
//       cai::consumer work(array.get(), cai::stream_of(stream));
//       kernel<<<blocks, threads, 0, stream>>>(...);
//   }
//
// The array must outlive it.
class consumer {
  public:
    explicit consumer(const cai_array &array, cai_stream stream, std::uint32_t flags = CAI_ACCESS_READ)
        : array_(&array), stream_(stream), flags_(flags) {
        detail::call(cai_array_consume_begin, array_, stream_, flags_);
    }
    explicit consumer(const cai::array &array, cai_stream stream, std::uint32_t flags = CAI_ACCESS_READ)
        : consumer(array.get(), stream, flags) {}
    // A temporary would be gone before the end.
    explicit consumer(const cai::array &&, cai_stream, std::uint32_t = CAI_ACCESS_READ) = delete;
    consumer(consumer &&other) noexcept
        : array_(std::exchange(other.array_, nullptr)), stream_(other.stream_), flags_(other.flags_) {}
    consumer &operator=(consumer &&) = delete;
    // Cannot throw: where holding back the producer fails here, nobody hears of it. Call end() to hear.
    ~consumer() {
        if (array_ != nullptr) {
            (void)cai_array_consume_end(array_, stream_, flags_, nullptr);
        }
    }
    // Makes the producer's stream wait for the work. Throws error; then synchronize `stream` before going on.
    void end() {
        if (const cai_array *array = std::exchange(array_, nullptr)) {
            detail::call(cai_array_consume_end, array, stream_, flags_);
        }
    }

  private:
    const cai_array *array_;
    cai_stream stream_;
    std::uint32_t flags_;
};

// Which elements a C++ type is: specialize it for your own, with static constexpr members `kind` (a character
// of the typestr), and optionally `code` (CAI_DTYPE_...):
//
//   template <> struct cai::element<__nv_bfloat16> {
//       static constexpr char kind = 'V';
//       static constexpr std::uint16_t code = CAI_DTYPE_BFLOAT16;
//   };
template <class T, class = void> struct element;
template <> struct element<bool> {
    static constexpr char kind = 'b';
};
template <class T> struct element<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static constexpr char kind = std::is_signed_v<T> ? 'i' : 'u';
};
template <class T> struct element<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static constexpr char kind = 'f';
};
template <class T> struct element<std::complex<T>> {
    static constexpr char kind = 'c';
};
// std::byte takes the bytes of any type whose elements are one byte.
template <> struct element<std::byte> {
    static constexpr char kind = 0;
};

namespace detail {

template <class T, class = void> struct code_of : std::integral_constant<std::uint16_t, CAI_DTYPE_NONE> {};
template <class T>
struct code_of<T, std::void_t<decltype(element<T>::code)>>
    : std::integral_constant<std::uint16_t, element<T>::code> {};

[[noreturn]] inline void refuse(cai_status code, const char *field, const char *found, const char *expected) {
    char message[256];
    std::snprintf(message, sizeof message, "found %s, expected %s", found, expected);
    throw error(code, field, message);
}

} // namespace detail

// Allows a view of an array with a mask: the caller looks at the mask by itself.
struct allow_mask_t {};
inline constexpr allow_mask_t allow_mask{};

// The elements of an array, by type and number of dimensions, through strides in bytes. Owns nothing: the
// array must outlive it. Constructing it checks everything that reading or writing relies on, and throws
// error: the layout and alignment, the type and its byte order, the number of dimensions, that no mask is
// dropped, and that T is const where the array is read-only. Where the data lies on a device, so must the
// code that reads it.
template <class T, std::size_t N> class view {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    static constexpr std::size_t rank() noexcept { return N; }

    explicit view(const cai_array &array) : view(array, false) {}
    explicit view(const cai::array &array) : view(array.get(), false) {}
    view(const cai_array &array, allow_mask_t) : view(array, true) {}
    view(const cai::array &array, allow_mask_t) : view(array.get(), true) {}
    // It would outlive its array.
    explicit view(const cai::array &&) = delete;
    view(const cai::array &&, allow_mask_t) = delete;

    // Elements that may be written may also be read.
    template <class U, class = std::enable_if_t<!std::is_same_v<U, T> && std::is_same_v<const U, T>>>
    view(const view<U, N> &other) noexcept : data_(other.data_) {
        for (std::size_t d = 0; d < N; ++d) {
            shape_[d] = other.shape_[d];
            strides_[d] = other.strides_[d];
        }
    }

    CAI_HD T *data() const noexcept { return data_; }
    CAI_HD std::int64_t extent(std::size_t dimension) const noexcept { return shape_[dimension]; }
    CAI_HD std::int64_t stride_bytes(std::size_t dimension) const noexcept { return strides_[dimension]; }
    CAI_HD std::int64_t size() const noexcept {
        if (empty()) {
            return 0; // the other extents need not have a product
        }
        std::int64_t product = 1;
        for (std::size_t d = 0; d < N; ++d) {
            product *= shape_[d];
        }
        return product;
    }
    CAI_HD bool empty() const noexcept {
        for (std::size_t d = 0; d < N; ++d) {
            if (shape_[d] == 0) {
                return true;
            }
        }
        return false;
    }

    // Whether the elements lie one after another, in C order. A view of no elements does.
    CAI_HD bool is_contiguous() const noexcept {
        if (empty()) {
            return true;
        }
        std::int64_t step = sizeof(T);
        for (std::size_t d = N; d-- > 0;) {
            if (shape_[d] != 1 && strides_[d] != step) {
                return false;
            }
            step *= shape_[d];
        }
        return true;
    }

    // The element at these indices, which are not checked.
    template <class... Index> CAI_HD T &operator()(Index... index) const noexcept {
        static_assert(sizeof...(Index) == N, "one index for each dimension");
        const std::int64_t at[N + 1] = {static_cast<std::int64_t>(index)..., 0};
        return *address(at);
    }
    // The same, checked. Throws error.
    template <class... Index> T &at(Index... index) const {
        static_assert(sizeof...(Index) == N, "one index for each dimension");
        const std::int64_t at[N + 1] = {static_cast<std::int64_t>(index)..., 0};
        for (std::size_t d = 0; d < N; ++d) {
            if (at[d] < 0 || at[d] >= shape_[d]) {
                char field[32], found[32], expected[48];
                std::snprintf(field, sizeof field, "index[%zu]", d);
                std::snprintf(found, sizeof found, "%lld", static_cast<long long>(at[d]));
                std::snprintf(expected, sizeof expected, "0 to below %lld",
                              static_cast<long long>(shape_[d]));
                detail::refuse(CAI_ERR_ARGUMENT, field, found, expected);
            }
        }
        return *address(at);
    }

#if defined(__cpp_lib_mdspan)
    // As std::mdspan. Throws error for what that cannot say: strides that are negative, zero over more than
    // one element, or no multiple of the element.
    using mdspan_type = std::mdspan<T, std::dextents<std::int64_t, N>, std::layout_stride>;
    mdspan_type mdspan() const {
        std::array<std::int64_t, N> shape{}, steps{};
        for (std::size_t d = 0; d < N; ++d) {
            constexpr auto size = static_cast<std::int64_t>(sizeof(T));
            shape[d] = shape_[d];
            // The step of an extent of at most one is never taken; any positive one will do.
            const bool used = shape_[d] > 1 && this->size() > 0;
            if (used && (strides_[d] <= 0 || strides_[d] % size != 0)) {
                char field[32], found[32];
                std::snprintf(field, sizeof field, "strides[%zu]", d);
                std::snprintf(found, sizeof found, "%lld", static_cast<long long>(strides_[d]));
                detail::refuse(CAI_ERR_UNSUPPORTED, field, found,
                               "a positive multiple of the element's size");
            }
            steps[d] = used ? strides_[d] / size : 1;
        }
        using mapping = typename std::layout_stride::template mapping<std::dextents<std::int64_t, N>>;
        return mdspan_type(data_, mapping(std::dextents<std::int64_t, N>(shape), steps));
    }
#endif

  private:
    template <class, std::size_t> friend class view;

    view(const cai_array &array, bool masked) {
        detail::call(cai_array_validate, &array, std::uint32_t{CAI_CHECK_LAYOUT | CAI_CHECK_ALIGNMENT});
        cai_dtype dtype;
        detail::call(cai_array_dtype, &array, &dtype);
        constexpr char kind = element<value_type>::kind;
        constexpr std::uint16_t code = detail::code_of<value_type>::value;
        // A code says what the elements are, whatever kind carries them.
        const bool fits =
            dtype.itemsize == static_cast<std::int64_t>(sizeof(T)) &&
            (kind == 0 || (dtype.code == code && (code != CAI_DTYPE_NONE || dtype.kind == kind)));
        if (!fits) {
            char expected[64];
            if constexpr (kind == 0) {
                std::snprintf(expected, sizeof expected, "elements of %zu byte", sizeof(T));
            } else if constexpr (code == CAI_DTYPE_NONE) {
                std::snprintf(expected, sizeof expected, "kind %c of %zu bytes", kind, sizeof(T));
            } else {
                std::snprintf(expected, sizeof expected, "kind %c of %zu bytes, dtype_code %u", kind,
                              sizeof(T), static_cast<unsigned>(code));
            }
            char found[sizeof array.typestr + 32];
            std::snprintf(found, sizeof found,
                          array.dtype_code == CAI_DTYPE_NONE ? "%s" : "%s, dtype_code %u", array.typestr,
                          static_cast<unsigned>(array.dtype_code));
            detail::refuse(CAI_ERR_UNSUPPORTED, "typestr", found, expected);
        }
        if (!cai_dtype_is_native(&dtype)) {
            detail::refuse(CAI_ERR_UNSUPPORTED, "typestr", array.typestr, "the machine's byte order");
        }
        bool native = false;
        detail::call(cai_array_is_native, &array, &native);
        if (!native) {
            detail::refuse(CAI_ERR_UNSUPPORTED, "descr", "fields in the other byte order",
                           "the machine's byte order");
        }
        refuse_handles(array);
        if (array.ndim != static_cast<std::int32_t>(N)) {
            char found[16], expected[32];
            std::snprintf(found, sizeof found, "%d", static_cast<int>(array.ndim));
            std::snprintf(expected, sizeof expected, "%zu dimensions", N);
            detail::refuse(CAI_ERR_UNSUPPORTED, "ndim", found, expected);
        }
        if (!std::is_const_v<T> && (array.flags & CAI_ARRAY_READONLY) != 0) {
            detail::refuse(CAI_ERR_UNSUPPORTED, "flags", "a read-only array",
                           "a writable one, or a view of const elements");
        }
        if (!masked && array.mask != nullptr) {
            detail::refuse(CAI_ERR_UNSUPPORTED, "mask", "a mask", "none, unless cai::allow_mask is given");
        }
        detail::call(cai_array_strides, &array, static_cast<std::int32_t>(N), strides_);
        for (std::size_t d = 0; d < N; ++d) {
            shape_[d] = array.shape[d];
        }
        data_ = static_cast<T *>(array.data);
        refuse_misalignment();
    }

    // Elsewhere `data` is a handle, which nobody may index.
    static void refuse_handles(const cai_array &array) {
        // A structure of an older header ends before its device.
        if (array.struct_size < offsetof(cai_array, device) + sizeof(cai_device)) {
            return;
        }
        switch (array.device.type) {
        case CAI_DEVICE_OPENCL:
        case 7:  // DLPack's Vulkan,
        case 8:  // Metal
        case 15: // and WebGPU
            char found[48];
            std::snprintf(found, sizeof found, "%d, where data is a handle",
                          static_cast<int>(array.device.type));
            detail::refuse(CAI_ERR_UNSUPPORTED, "device.type", found, "an address");
        default: break;
        }
    }

    // The library knows the alignment of numbers; that of T only its compiler.
    void refuse_misalignment() const {
        constexpr std::size_t alignment = alignof(T);
        if (empty()) {
            return;
        }
        char field[32] = "data", found[32], expected[48];
        std::snprintf(expected, sizeof expected, "a multiple of %zu", alignment);
        if (reinterpret_cast<std::uintptr_t>(data_) % alignment != 0) {
            std::snprintf(found, sizeof found, "%p", const_cast<void *>(static_cast<const void *>(data_)));
            detail::refuse(CAI_ERR_ALIGNMENT, field, found, expected);
        }
        for (std::size_t d = 0; d < N; ++d) {
            if (shape_[d] > 1 && strides_[d] % static_cast<std::int64_t>(alignment) != 0) {
                std::snprintf(field, sizeof field, "strides[%zu]", d);
                std::snprintf(found, sizeof found, "%lld", static_cast<long long>(strides_[d]));
                detail::refuse(CAI_ERR_ALIGNMENT, field, found, expected);
            }
        }
    }

    CAI_HD T *address(const std::int64_t *index) const noexcept {
        using bytes = std::conditional_t<std::is_const_v<T>, const char, char>;
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < N; ++d) {
            offset += index[d] * strides_[d];
        }
        return reinterpret_cast<T *>(reinterpret_cast<bytes *>(data_) + offset);
    }

    T *data_ = nullptr;
    // One more than needed, so that a view of no dimensions has an array too.
    std::int64_t shape_[N + 1] = {};
    std::int64_t strides_[N + 1] = {};
};

} // namespace cai

#endif // CAI_HPP
