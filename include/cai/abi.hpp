// abi.hpp: abi.h for C++17, header-only. It needs no library: copy the two files into your tree.
//
//   cai::array  owns a reference to an array; moves, and is shared by share()
//   cai::owner  owns a reference to an owner; cai::make_owner keeps any C++ object alive
//   cai::error  the exception that all functions throw: a status, a field and a message
//
// Members that are commented "Needs the library" are defined in cai/cai.hpp.
//
// Every function that throws cai::error has a form try_..., which returns the status and fills its
// last arguments, or is one function in C: `cai_array_layout(&array.get(), ...)`. With exceptions
// off (-fno-exceptions), using a function that throws is an error of the compiler.
//
// These types do not belong into the interface of your shared library: another version of the
// headers has other types of the same names, in another inline namespace, so that the program does
// not link. Pass a cai_array, which every version reads:
//
//   void take(cai_array *given) { auto mine = cai::array::adopt(*given); }
//   void give(cai_array *out) { make_one().release(*out); }
//   static_assert(cai::is_stable_interface<decltype(take)>);
//
// Everything here may be compiled into several shared objects of one process, from headers of
// different versions: names lie in an inline namespace that is named after their contents.
// cai::error lies outside of it, so that each of them catches the errors of the others.
//
// Thread safety: as the containers of the standard library. Several threads may read one object at
// once; each may change its own.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_ABI_HPP
#define CAI_ABI_HPP

#if defined(_MSVC_LANG) ? _MSVC_LANG < 201703L : __cplusplus < 201703L
#error "cai/abi.hpp and cai/cai.hpp require C++17: compile with -std=c++17 or later"
#endif

#include "abi.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

// Number of cai/*.hpp: another one for all code of the C++ headers and of the C headers that they
// use. `make header` writes it.
#define CAI_PRIVATE_HPP 0x03a12b90

// The inline namespace: v<number of the .hpp files>_<version of abi.h>.
#define CAI_PRIVATE_JOIN_NOW(a, b) v##a##_##b
#define CAI_PRIVATE_JOIN(a, b) CAI_PRIVATE_JOIN_NOW(a, b)
#define CAI_PRIVATE_NAMESPACE CAI_PRIVATE_JOIN(CAI_PRIVATE_HPP, CAI_ABI_H_VERSION)

// Hidden: each shared object has its own copy, which is not replaced by that of another.
#if defined(__GNUC__) && !defined(_WIN32)
#define CAI_PRIVATE_HIDDEN __attribute__((visibility("hidden")))
#define CAI_PRIVATE_VISIBLE __attribute__((visibility("default")))
#else
#define CAI_PRIVATE_HIDDEN
#define CAI_PRIVATE_VISIBLE
#endif

// A function with a stack frame of its own.
#if defined(__GNUC__)
#define CAI_PRIVATE_NOINLINE __attribute__((noinline))
#else
#define CAI_PRIVATE_NOINLINE __declspec(noinline)
#endif

// Whether the compiler can refuse the call of a function.
#if defined(__has_attribute)
#define CAI_PRIVATE_HAS_ERROR __has_attribute(error)
#else
#define CAI_PRIVATE_HAS_ERROR 0
#endif

// Functions that also run on the device.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CAI_PRIVATE_HOST_DEVICE __host__ __device__
#else
#define CAI_PRIVATE_HOST_DEVICE
#endif

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunknown-warning-option"
// cai::error has no file of its own.
#pragma clang diagnostic ignored "-Wweak-vtables"
// Each shared object counts by itself.
#pragma clang diagnostic ignored "-Wunique-object-duplication"
#endif

// Declared in cai/status.h and cai/dtype.h.
struct cai_error;
struct cai_dtype;
struct cai_layout;

namespace cai {

// Exception that every function of these headers throws. Copies without allocating.
//
// Its members and functions never change: an extension can catch the errors of another extension
// that was compiled with headers of another version.
class CAI_PRIVATE_VISIBLE error : public std::exception {
  public:
    // Makes an error of the caller's own. what() returns "field: message". Long texts are cut.
    error(cai_status code, const char *field, const char *message) noexcept : code_(code) {
        std::snprintf(field_, sizeof field_, "%s", field);
        std::snprintf(message_, sizeof message_, "%s: %s", field_, message);
    }
    // Makes an error from the one that a function of the library reported. Needs the library.
    explicit error(const cai_error &what) noexcept;

    // Returns one line: the field, the value found and the value expected.
    const char *what() const noexcept override { return message_; }
    // Returns the status.
    cai_status code() const noexcept { return code_; }
    // Returns the path of the field or the name of the parameter that was wrong.
    const char *field() const noexcept { return field_; }
    // Returns the CUDA driver's CUresult if a call of the driver failed, otherwise 0.
    std::int32_t driver_code() const noexcept { return driver_code_; }
    // Returns the name of the status, such as `CAI_ERR_NDIM`. Needs the library.
    const char *name() const noexcept;
    // Returns the error as a structure of C. Needs the library.
    cai_error get() const noexcept;

  private:
    cai_status code_;
    std::int32_t driver_code_ = 0;
    char field_[96] = {};
    char message_[408] = {};
};

inline namespace CAI_PRIVATE_NAMESPACE {

namespace detail CAI_PRIVATE_HIDDEN {

// Throws, in the one place that does.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
[[noreturn]] inline void raise(const error &what) { throw what; }
#elif CAI_PRIVATE_HAS_ERROR
[[noreturn]] void raise(const error &what)
    __attribute__((error("exceptions are off: use the form try_... of the function, or C's")));
#else
[[noreturn]] inline void raise(const error &what) {
    std::fprintf(stderr, "%s\n", what.what());
    std::abort();
}
#endif

[[noreturn]] inline void refuse(cai_status code, const char *field, const char *found,
                                const char *expected) {
    char message[256];
    std::snprintf(message, sizeof message, "found %s, expected %s", found, expected);
    raise(error(code, field, message));
}

// CAI_ERR_NO_MEMORY of cai/status.h.
constexpr cai_status no_memory = 601;

// Throws the status that an inline function of abi.h returned.
inline void check_reference(cai_status status) {
    switch (status) {
    case CAI_OK: return;
    case CAI_ERR_BORROWED:
        refuse(status, "owner", "NULL, a borrowed array", "an array with an owner");
    case CAI_ERR_FLAGS: refuse(status, "flags", "an unknown bit", "CAI_ARRAY_READONLY or 0");
    case CAI_ERR_STRUCT_SIZE:
        refuse(status, "struct_size", "a size of no version", "an array that was initialized");
    default: refuse(status, "owner.ops", "an incomplete table", "one with retain and release");
    }
}

// Sets what CAI_ARRAY_INIT sets.
inline void initialize(cai_array &array) noexcept {
    CAI_PRIVATE_CLEAR(&array);
    array.struct_size = sizeof array;
    array.version = CAI_INTERFACE_VERSION;
}

// Object behind a cai_owner, with a reference count of its own: one allocation, no library.
//
// Objects are destroyed where they are released, also while others are being destroyed, up to
// 64 of them inside one another on a thread. What the innermost of these releases is queued, and
// destroyed in a loop before its destruction ends: a chain of any length takes no more stack than
// that many of its objects.
struct counted : cai_owner {
    counted(const cai_owner_ops *operations, void (*destroy)(counted *) noexcept) noexcept
        : cai_owner{operations}, destroy_(destroy) {}
    counted(const counted &) = delete;
    counted &operator=(const counted &) = delete;

    static void retain(cai_owner *owner) noexcept {
        // A count that wraps would destroy an object in use. Half of the range is enough for
        // threads that increment it concurrently.
        if (static_cast<counted *>(owner)->count_.fetch_add(1, std::memory_order_relaxed) >
            SIZE_MAX / 2) {
            std::abort();
        }
    }
    static void release(cai_owner *owner) noexcept {
        auto *self = static_cast<counted *>(owner);
        if (self->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            destroy_nested(self);
        }
    }

  private:
    // Destructions of a thread. Without a constructor and a destructor, so that it can be used for
    // the whole life of the thread.
    struct nesting {
        // How many run inside one another, times `one`, and the address of the stack frame of the
        // outermost one; 0: none runs.
        std::uint64_t running;
        counted *pending;
    };

    CAI_PRIVATE_NOINLINE static void destroy_nested(counted *self) noexcept {
        static thread_local nesting thread = {0, nullptr};
        constexpr std::uint64_t deepest = 64;
        constexpr std::uint64_t one = std::uint64_t{1} << 56; // above all addresses of frames
        nesting &now = thread;
#if defined(__GNUC__) && !defined(__wasm__)
        // Not the address of a variable, which an address sanitizer may place elsewhere.
        const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#else
        volatile char local = 0; // the frame of a function without variables may take no stack
        const auto frame = reinterpret_cast<std::uintptr_t>(&local);
#endif
        std::uint64_t outer = now.running / one;
        std::uint64_t outermost = now.running % one;
        // A stack grows downwards: this destruction runs in others only if its frame is below.
        // Otherwise they were left by longjmp, or run on another stack of the same thread.
        if (frame >= outermost) {
            outer = 0;
            outermost = frame;
        } else if (outer >= deepest) {
            self->next_ = std::exchange(now.pending, self);
            return; // the loop below, further up on this stack, destroys it
        }
        now.running = outermost + (outer + 1) * one;
        self->destroy_(self);
        if (outer == 0 || outer == deepest - 1) {
            while (counted *first = now.pending) {
                now.pending = first->next_;
                first->destroy_(first);
            }
        }
        if (outer == 0) {
            now.running = 0;
            return;
        }
        // One less, but not more than there were before this one: longjmp skips the end of those
        // inside it; nor more than now, if the end of another stack's has come first.
        const std::uint64_t depth = now.running / one;
        const std::uint64_t less = depth == 0 ? 0 : depth - 1;
        now.running = now.running % one + (less < outer ? less : outer) * one;
    }

    std::atomic<std::size_t> count_{1};
    counted *next_ = nullptr;
    void (*destroy_)(counted *) noexcept;
};

template <class T> struct owned final : counted {
    explicit owned(T &&object) noexcept(std::is_nothrow_move_constructible_v<T>)
        : counted(&table, destroy), object_(std::move(object)) {}

  private:
    static void destroy(counted *self) noexcept { delete static_cast<owned *>(self); }
    static constexpr cai_owner_ops table = {sizeof(cai_owner_ops), 0, retain, release};

    T object_;
};

} // namespace detail CAI_PRIVATE_HIDDEN

// Owner of one reference to a cai_owner. Moves; share() adds a second reference.
class owner {
  public:
    owner() noexcept = default;
    owner(owner &&other) noexcept : owner_(other.release()) {}
    owner &operator=(owner &&other) noexcept {
        owner moved(std::move(other));
        moved.swap(*this);
        return *this;
    }
    ~owner() {
        if (owner_ != nullptr && CAI_PRIVATE_OPS_OK(owner_->ops)) {
            owner_->ops->release(owner_);
        }
    }

    // Takes over a reference that the caller holds. NULL makes an object without a reference.
    [[nodiscard]] static owner adopt(cai_owner *reference) noexcept {
        owner made;
        made.owner_ = reference;
        return made;
    }
    // Returns one more reference to the same owner, or none if this object has none.
    // Throws CAI_ERR_OWNER_OPS for an incomplete table of operations.
    [[nodiscard]] owner share() const {
        owner made;
        detail::check_reference(try_share(made));
        return made;
    }
    // The same, into `out`, which is unchanged on failure.
    [[nodiscard]] cai_status try_share(owner &out) const noexcept {
        if (owner_ != nullptr) {
            cai_array array = CAI_ARRAY_INIT;
            array.owner = owner_;
            const cai_status status = cai_inline_retain(&array);
            if (status != CAI_OK) {
                return status;
            }
        }
        out = adopt(owner_);
        return CAI_OK;
    }
    // Transfers the reference to the caller.
    [[nodiscard]] cai_owner *release() noexcept { return std::exchange(owner_, nullptr); }
    // Returns the owner without a reference of its own; NULL if there is none.
    cai_owner *get() const noexcept { return owner_; }
    explicit operator bool() const noexcept { return owner_ != nullptr; }
    void swap(owner &other) noexcept { std::swap(owner_, other.owner_); }

  private:
    cai_owner *owner_ = nullptr;
};

// Returns an owner that keeps `object` alive: a std::shared_ptr, a std::vector, or a buffer class
// of the caller's. The last release destroys the object before it returns, on the thread that
// releases, also while another such object is being destroyed: members are destroyed in the order
// of C++. Only if 64 of them are being destroyed inside one another, what the innermost one
// releases is destroyed directly after it, so that a chain of any length takes a bounded stack. A
// destructor must return: leaving it by longjmp is undefined. Throws what T's move constructor and
// operator new throw. Allocates one block.
template <class T> [[nodiscard]] CAI_PRIVATE_HIDDEN owner make_owner(T object) {
    static_assert(std::is_nothrow_destructible_v<T>, "a destructor must not throw into C");
    return owner::adopt(new detail::owned<T>(std::move(object)));
}

// The same, into `out`. Returns CAI_ERR_NO_MEMORY instead of throwing std::bad_alloc; then `out` is
// unchanged, and the object is destroyed.
template <class T>
[[nodiscard]] CAI_PRIVATE_HIDDEN cai_status try_make_owner(T object, owner &out) {
    static_assert(std::is_nothrow_destructible_v<T>, "a destructor must not throw into C");
    auto *made = new (std::nothrow) detail::owned<T>(std::move(object));
    if (made == nullptr) {
        return detail::no_memory;
    }
    out = owner::adopt(made);
    return CAI_OK;
}

// Range of numbers, one for each dimension. It refers to memory that it does not own. Pass a shape
// as `{rows, columns}`, or as a std::vector or std::array of std::int64_t.
class extents {
  public:
    extents() noexcept = default;
    extents(const std::int64_t *first, std::size_t count) noexcept : first_(first), count_(count) {}
    // For arguments only: the list is destroyed at the end of the full expression.
    extents(std::initializer_list<std::int64_t> list) noexcept : count_(list.size()) {
        first_ = list.begin();
    }
    template <class Container,
              class = std::enable_if_t<std::is_same_v<
                  const std::int64_t *, decltype(std::declval<const Container &>().data())>>>
    extents(const Container &numbers) noexcept : first_(numbers.data()), count_(numbers.size()) {}

    const std::int64_t *data() const noexcept { return first_; }
    const std::int64_t *begin() const noexcept { return first_; }
    const std::int64_t *end() const noexcept { return first_ + count_; }
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    std::int64_t operator[](std::size_t dimension) const noexcept { return first_[dimension]; }

  private:
    const std::int64_t *first_ = nullptr;
    std::size_t count_ = 0;
};

// Range of strides in bytes, one for each dimension. It contains copies, and computes the strides
// of an array that has none because it is C-contiguous. Needs the library.
class strides {
  public:
    // Those of no dimensions.
    strides() noexcept : steps_(), count_(0) {}
    // Throws what cai_array_strides returns.
    explicit strides(const cai_array &array);
    [[nodiscard]] static cai_status try_make(const cai_array &array, strides &out,
                                             cai_error *why = nullptr) noexcept;
    const std::int64_t *begin() const & noexcept { return steps_.data(); }
    const std::int64_t *end() const & noexcept { return steps_.data() + count_; }
    // Iterators into a temporary would dangle.
    const std::int64_t *begin() const && = delete;
    const std::int64_t *end() const && = delete;
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    std::int64_t operator[](std::size_t dimension) const noexcept { return steps_[dimension]; }

  private:
    std::array<std::int64_t, CAI_MAX_NDIM> steps_;
    std::size_t count_;
};

class description;

namespace detail CAI_PRIVATE_HIDDEN {
struct imported; // of the casters
}

// Owner of one reference to an array. Moves; share() adds a second reference. A default-constructed
// or moved-from array holds none.
//
// Functions try_... release what `out` held. On failure, it is unchanged, and `why`, which may be
// NULL, says why.
class array {
  public:
    array() noexcept { detail::initialize(raw_); }
    array(array &&other) noexcept { other.release(raw_); }
    array &operator=(array &&other) noexcept {
        if (this != &other) {
            const owner before = owner::adopt(raw_.owner); // released when the other one is here
            other.release(raw_);
        }
        return *this;
    }
    ~array() { const owner last = owner::adopt(raw_.owner); }

    // Takes over the reference that `source` holds, and clears `source`, which may be a structure
    // of any version. Without an owner, nothing changes, and the result holds no reference. Throws
    // what from_unchecked throws; then nothing has changed.
    [[nodiscard]] static array adopt(cai_array &source) {
        array made;
        detail::check_reference(try_adopt(source, made));
        return made;
    }
    [[nodiscard]] static cai_status try_adopt(cai_array &source, array &out) noexcept {
        array made;
        if (source.owner != nullptr && source.struct_size == sizeof source) {
            made.raw_ = source;
            source.owner = nullptr;
            cai_inline_release(&source); // clears it
        } else if (source.owner != nullptr) {
            const cai_status status = try_from_unchecked(source, made);
            if (status != CAI_OK) {
                return status;
            }
            cai_inline_release(&source);
        }
        out = std::move(made);
        return CAI_OK;
    }
    // Adds a reference to an array of any version, without a check of its contents.
    // Throws CAI_ERR_STRUCT_SIZE, CAI_ERR_FLAGS, CAI_ERR_BORROWED or CAI_ERR_OWNER_OPS.
    [[nodiscard]] static array from_unchecked(const cai_array &source) {
        array made;
        detail::check_reference(try_from_unchecked(source, made));
        return made;
    }
    [[nodiscard]] static cai_status try_from_unchecked(const cai_array &source,
                                                       array &out) noexcept {
        array made;
        const cai_status status = cai_inline_share(&source, &made.raw_);
        if (status == CAI_OK) {
            out = std::move(made);
        }
        return status;
    }
    // Validates an array of any version (CAI_CHECK_LAYOUT) and adds a reference to it.
    // Throws what cai_array_validate and from_unchecked report. Needs the library.
    [[nodiscard]] static array from(const cai_array &source);
    [[nodiscard]] static cai_status try_from(const cai_array &source, array &out,
                                             cai_error *why = nullptr) noexcept;

    // Makes an array over memory that `data_owner` keeps alive. Checks and copies the description.
    //
    // `stream`: the stream on which work on the data is pending, or CAI_STREAM_NONE. It must
    // outlive the array: attach() keeps it alive.
    // Throws what cai_array_create returns. Allocates one block. Needs the library.
    template <class T>
    [[nodiscard]] static array make(T *data, const extents &shape, cai_stream stream,
                                    cai_device device, owner data_owner);
    [[nodiscard]] static array make(const description &what, cai_stream stream, cai_device device,
                                    owner data_owner);
    // Makes an array from a description in C of any version, whose own `owner` is ignored.
    [[nodiscard]] static array make(const cai_array &description, owner data_owner);
    template <class T>
    [[nodiscard]] static cai_status try_make(T *data, const extents &shape, cai_stream stream,
                                             cai_device device, owner data_owner, array &out,
                                             cai_error *why = nullptr) noexcept;
    [[nodiscard]] static cai_status try_make(const description &what, cai_stream stream,
                                             cai_device device, owner data_owner, array &out,
                                             cai_error *why = nullptr) noexcept;
    [[nodiscard]] static cai_status try_make(const cai_array &description, owner data_owner,
                                             array &out, cai_error *why = nullptr) noexcept;

    // Returns one more reference to the same array.
    // Throws CAI_ERR_BORROWED for an array that holds none, or CAI_ERR_OWNER_OPS.
    [[nodiscard]] array share() const { return from_unchecked(raw_); }
    [[nodiscard]] cai_status try_share(array &out) const noexcept {
        return try_from_unchecked(raw_, out);
    }
    // Transfers the structure and its reference to `out`, which must hold no reference, and which
    // the caller must release. Functions take and return no cai_array by value: its size depends on
    // the version of the header.
    void release(cai_array &out) noexcept {
        out = raw_;
        detail::initialize(raw_);
    }
    // Uses no template of the standard library on cai_array, here and above: files that use other
    // versions have a function of the same name for a structure of another size.
    void swap(array &other) noexcept {
        const cai_array mine = raw_;
        raw_ = other.raw_;
        other.raw_ = mine;
    }

    // Returns the structure, which stays this object's.
    const cai_array &get() const noexcept { return raw_; }
    const cai_array *operator->() const noexcept { return &raw_; }
    // Returns whether this object holds a reference.
    explicit operator bool() const noexcept { return raw_.owner != nullptr; }

    // Members of the structure. Pointers and ranges are valid as long as this array.
    void *data() const noexcept { return raw_.data; }
    std::size_t ndim() const noexcept { return static_cast<std::size_t>(raw_.ndim); }
    extents shape() const noexcept { return {raw_.shape, ndim()}; }
    bool readonly() const noexcept { return (raw_.flags & CAI_ARRAY_READONLY) != 0; }
    cai_stream stream() const noexcept { return raw_.stream; }
    cai_device device() const noexcept { return raw_.device; }
    // Returns the mask, or NULL if there is none. This array keeps it alive.
    const cai_array *mask() const noexcept { return raw_.mask; }

    // --- The functions below need the library. Each throws what the C function returns.

    // Calls cai_array_validate.
    void validate(std::uint32_t checks) const;
    // Returns the element type.
    cai_dtype dtype() const;
    // Returns whether the elements, or all of their fields, have the byte order of this machine, as
    // cai_array_validate with CAI_CHECK_NATIVE.
    bool is_native() const;
    cai::strides strides() const;
    // Returns the number of elements and bytes, the range of bytes around `data`, and contiguity.
    cai_layout layout() const;
    // Calls cai_array_produce before an export: joins `streams`, which have pending work, into the
    // exported stream. Without streams, no work is pending.
    void produce(std::initializer_list<cai_stream> streams,
                 cai_stream export_stream = CAI_STREAM_NONE, std::uint32_t flags = 0);
    [[nodiscard]] cai_status try_produce(std::initializer_list<cai_stream> streams,
                                         cai_stream export_stream, std::uint32_t flags,
                                         cai_error *why = nullptr) noexcept;
    // Calls cai_array_attach: keeps another object alive, such as the exported stream, until after
    // the data has been released.
    template <class T> CAI_PRIVATE_HIDDEN void attach(T object);
    template <class T>
    [[nodiscard]] CAI_PRIVATE_HIDDEN cai_status try_attach(T object, cai_error *why = nullptr);
    // Calls cai_array_synchronize: blocks until the producer's pending work is done. `access` is
    // CAI_ACCESS_READ, CAI_ACCESS_WRITE or both.
    void synchronize(std::uint32_t access) const;
    // Calls cai_array_release_after: releases the reference after the work that is now enqueued on
    // `stream`, without blocking.
    void release_after(cai_stream stream);
    [[nodiscard]] cai_status try_release_after(cai_stream stream,
                                               cai_error *why = nullptr) noexcept;

  private:
    friend struct detail::imported;
    cai_array raw_;
};

namespace detail CAI_PRIVATE_HIDDEN {

// Whether T is, is derived from or is made with a type of the inline namespace: the compiler looks
// for the function in the namespaces of T.
template <class T> auto is_private(int) -> decltype(cai_private_type(static_cast<T *>(nullptr)));
template <class T> std::false_type is_private(...);

template <class T>
inline constexpr bool is_stable =
    !decltype(is_private<std::remove_cv_t<
                  std::remove_pointer_t<std::remove_cv_t<std::remove_reference_t<T>>>>>(0))::value;
template <class R, class... P>
inline constexpr bool is_stable<R(P...)> = is_stable<R> && (is_stable<P> && ...);
template <class R, class... P>
inline constexpr bool is_stable<R(P...) noexcept> = is_stable<R(P...)>;
template <class R, class... P> inline constexpr bool is_stable<R(P...) const> = is_stable<R(P...)>;
template <class R, class... P>
inline constexpr bool is_stable<R(P...) const noexcept> = is_stable<R(P...)>;
template <class F, class C> inline constexpr bool is_stable<F C::*> = is_stable<F>;

} // namespace detail CAI_PRIVATE_HIDDEN

template <class T> std::true_type cai_private_type(const volatile T *);
std::false_type cai_private_type(const volatile error *);

// Whether a function, or a pointer to one, or to a member function, has no parameter and no result
// whose type depends on the version of these headers, such as cai::array or
// std::vector<cai::array>. Members of other classes are not seen. Check what your library exports:
// `static_assert(cai::is_stable_interface<decltype(my_function)>)`. cai::error is stable.
template <class F>
inline constexpr bool is_stable_interface = detail::is_stable<std::remove_pointer_t<F>>;

// Returns the location of memory of a CUDA device.
constexpr cai_device cuda_device(std::int32_t id) noexcept { return {CAI_DEVICE_CUDA, id}; }
// Returns the location of host memory.
constexpr cai_device host_device() noexcept { return {CAI_DEVICE_CPU, 0}; }

// Converts a CUstream, cudaStream_t or hipStream_t. NULL becomes the default stream that the
// compiler options of this file choose. The function has internal linkage, because files of one
// program may be compiled with different options.
static inline cai_stream stream_of(const void *cuda_stream) noexcept {
    return cai_inline_stream(cuda_stream);
}

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif // CAI_ABI_HPP
