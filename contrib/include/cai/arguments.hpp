// cai/arguments.hpp (unstable: may change in any minor release): the common part of
// <cai/pybind11.hpp> and <cai/nanobind.hpp>. Include one of those instead.
//
//   cai::stream        a CUDA stream that a bound function takes as an argument
//   cai::masked_array  an array argument that may have a mask
//   cai::like          a view argument whose library allocates the result
//   cai::result        an array of that library, made by cai::empty_like
//
// Thread safety: functions run with the interpreter's lock held, unless their comment states
// otherwise.
// Only Python's limited API is used.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_ARGUMENTS_HPP
#define CAI_ARGUMENTS_HPP

#include <Python.h>

#include <cai/cai.hpp>
#include <cai/unstable/exchange.h>
#include <cai/unstable/view.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#if CAI_PRIVATE_HPP != 0x03a12b90
#error "cai/cai.hpp of another version was included before cai/arguments.hpp"
#endif

// Type that CUstream and cudaStream_t point to.
struct CUstream_st;

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {

// Stream argument of a bound function. Python callers pass an integer
// (`torch.cuda.current_stream().cuda_stream`), an object that `cai_unstable_stream_from_python`
// accepts (cuda.core, PyTorch, CuPy, Numba), or None for the default stream that the compiler's
// options choose. Converts to a cudaStream_t and to a cai_stream. It does not own the stream.
//
// The views among the arguments of the same function are ordered on this stream. A Python caller's
// 0 is always the legacy default stream: the function receives cudaStreamLegacy.
//
// It has no default constructor, because files may be compiled for different default streams: write
// `cai::stream(cai::stream_of(nullptr))`.
class stream {
  public:
    explicit stream(cai_stream value) noexcept : value_(value) {}
    cai_stream get() const noexcept { return value_; }
    operator cai_stream() const noexcept { return value_; }
    operator CUstream_st *() const noexcept {
        return reinterpret_cast<CUstream_st *>(static_cast<std::uintptr_t>(value_));
    }

  private:
    cai_stream value_;
};

// Array argument that may have a mask. The function is responsible for reading mask(). An argument
// of type cai::array rejects such an object with CAI_ERR_CONVERT_MASK.
class masked_array : public array {
  public:
    masked_array() noexcept = default;
    masked_array(array &&other) noexcept : array(std::move(other)) {}
};

namespace detail CAI_PRIVATE_HIDDEN {

// --- the default stream
//
// All files of an extension share the code below, but compiler options may give them different
// default streams. Every file adds its own default stream to this set when the extension is loaded.
// If the set has two elements, a call that needs the default stream fails.
inline std::uint32_t default_streams = 0;

} // namespace detail CAI_PRIVATE_HIDDEN
} // namespace CAI_PRIVATE_NAMESPACE

namespace {
[[maybe_unused]] const std::uint32_t cai_private_default_stream = detail::default_streams |=
    1u << stream_of(nullptr);
} // namespace

inline namespace CAI_PRIVATE_NAMESPACE {
namespace detail CAI_PRIVATE_HIDDEN {

// Returns false if the files of the extension disagree.
inline bool find_default_stream(cai_stream &out) noexcept {
    out =
        default_streams == 1u << CAI_STREAM_PER_THREAD ? CAI_STREAM_PER_THREAD : CAI_STREAM_LEGACY;
    return default_streams == 1u << out;
}
inline cai_stream default_stream() {
    cai_stream found;
    if (!find_default_stream(found)) {
        refuse(CAI_ERR_ARGUMENT, "stream",
               "the default stream, in an extension whose files are compiled for different ones",
               "CUDA_API_PER_THREAD_DEFAULT_STREAM in all of them or in none");
    }
    return found;
}

// --- which stream a call's views are ordered on
//
// Arguments are loaded one after another, and the stream may come last. Views are therefore ordered
// just before the function is called: after all arguments were loaded, and after every other
// overload was ruled out. They find the stream through the thread. These are not streams of the
// call:
//
//   - the stream of a call that is made while an argument is being read, because a producer's
//     property may be a bound function: the outer stream is hidden for that time (`pause`);
//   - the stream of a call that the function's body makes: its arguments are loaded after the outer
//     stream was passed to the function.

class call_stream;

// Argument that is being loaded, for messages. Only `cai::def` sets it.
struct argument_place {
    std::size_t number; // counted from 1, without `self`
    const char *name;   // or NULL
};

struct thread_state {
    call_stream *innermost = nullptr;
    const argument_place *argument = nullptr;
    std::uint64_t clock = 0;
    // Objects that the first pass over overloads refused: see `first_pass`.
    struct refusal {
        const void *object;
        const void *kind;
    } refused[16] = {};
    unsigned next = 0;
};

inline thread_local thread_state this_thread;

// Stream of a call, from loading it until the end of the call.
class call_stream {
  public:
    call_stream() = default;
    call_stream(const call_stream &) = delete;
    call_stream &operator=(const call_stream &) = delete;
    ~call_stream() {
        if (active_) {
            this_thread.innermost = outer_;
        }
    }
    void load(cai_stream value) noexcept {
        value_ = stream(value);
        if (!active_) {
            thread_state &state = this_thread;
            outer_ = state.innermost;
            state.innermost = this;
            active_ = true;
        }
    }
    // Called when the function receives the stream. Later arguments belong to other calls.
    stream &hand_over() noexcept {
        handed_over_ = ++this_thread.clock;
        return value_;
    }
    // Returns the stream of the call whose argument was loaded at `time`; 0 if that call has none.
    static cai_stream at(const thread_state &state, std::uint64_t time) noexcept {
        const call_stream *found = state.innermost;
        const bool same =
            found != nullptr && (found->handed_over_ == 0 || time < found->handed_over_);
        return same ? found->value_.get() : 0;
    }

  private:
    stream value_{0};
    call_stream *outer_ = nullptr;
    std::uint64_t handed_over_ = 0;
    bool active_ = false;
};

// Hides the call's stream while a foreign object is read: calls of the object have other streams.
class pause {
  public:
    explicit pause(thread_state &state) noexcept
        : state_(state), innermost_(std::exchange(state.innermost, nullptr)),
          argument_(std::exchange(state.argument, nullptr)) {}
    pause(const pause &) = delete;
    pause &operator=(const pause &) = delete;
    ~pause() {
        state_.innermost = innermost_;
        state_.argument = argument_;
    }

  private:
    thread_state &state_;
    call_stream *innermost_;
    const argument_place *argument_;
};

// --- refusals
//
// For a function without overloads, the message says what is wrong with an argument. With
// overloads, the next one must be tried, and the binding library lists all of them at the end.
// Neither library reports whether there are overloads, but both try them in two passes, the first
// without conversions. An argument that was refused in the first pass is therefore refused without
// a message in the second. Functions of `cai::def` distinguish their own refusals. For other
// functions, the refusal of an earlier call may be taken for one of this call, whose exception then
// has the signature instead of the reason.
struct first_pass {
    static void refused(const void *object, const void *kind) noexcept {
        thread_state &state = this_thread;
        state.refused[state.next++ % (sizeof state.refused / sizeof state.refused[0])] = {object,
                                                                                          kind};
    }
    // Returns whether the object was refused, and removes the record.
    static bool take(const void *object, const void *kind) noexcept {
        for (auto &slot : this_thread.refused) {
            if (slot.object == object && slot.kind == kind) {
                slot = {};
                return true;
            }
        }
        return false;
    }
    // Called when an overload was found.
    static void over() noexcept {
        thread_state &state = this_thread;
        if (state.next == 0) {
            return;
        }
        state.next = 0;
        for (auto &slot : state.refused) {
            slot = {};
        }
    }
};

// Result of loading an argument.
enum class outcome {
    taken,
    declined, // another overload may take it
    raised    // a Python exception is set
};

// Prefixes a message with the argument: its number and name if they are known, otherwise its type
// as in the signature. Neither binding library passes the position to the caster.
inline void name_argument(cai_error &why, const char *type) noexcept {
    char prefix[160];
    const argument_place *place = this_thread.argument;
    if (place == nullptr) {
        std::snprintf(prefix, sizeof prefix, "argument (%s): ", type);
    } else if (place->name == nullptr) {
        std::snprintf(prefix, sizeof prefix, "argument %zu (%s): ", place->number, type);
    } else {
        std::snprintf(prefix, sizeof prefix, "argument %zu (\"%s\"): ", place->number, place->name);
    }
    const std::size_t length = std::strlen(prefix);
    std::memmove(why.message + length, why.message, sizeof why.message - length);
    std::memcpy(why.message, prefix, length);
    why.message[sizeof why.message - 1] = 0;
}

// Converts a refusal of this library to a result. `type`: the argument's type in signatures.
inline outcome refuse_argument(PyObject *object, bool convert, const void *kind, const char *type,
                               cai_error why) noexcept {
    if (this_thread.argument != nullptr) {
        kind = this_thread.argument;
    }
    if (!convert) {
        first_pass::refused(object, kind);
        return outcome::declined;
    }
    // For an object that is not an array, the signature is enough.
    if (first_pass::take(object, kind) || why.code == CAI_ERR_NO_PROTOCOL) {
        return outcome::declined;
    }
    name_argument(why, type);
    cai_python_raise(&why);
    return outcome::raised;
}

// --- arrays and views

// Access to what the casters fill without a copy.
struct imported {
    // `out` holds no reference afterwards, as a function of C wants it.
    static cai_array *empty(array &out) noexcept {
        if (out) {
            out = array(); // of an earlier pass
        }
        return &out.raw_;
    }
    // Makes a view of an array that was imported with the options of its `view_traits`.
    template <class T, std::size_t N>
    static cai_status view_of(const cai_array &array, view<T, N> &out, cai_error *why) noexcept {
        constexpr auto wanted = requirements::of<T>(static_cast<std::int32_t>(N), false, false);
        const cai_status status = require_of_import(array, wanted, why);
        return status == CAI_OK ? out.fill(array, why) : status;
    }
    template <class T, int N>
    static cai_status view_of(const cai_array &array, contiguous_view<T, N> &out,
                              cai_error *why) noexcept {
        constexpr auto wanted = requirements::of<T>(N, true, false);
        const cai_status status = require_of_import(array, wanted, why);
        return status == CAI_OK ? out.fill(array, why) : status;
    }
    template <class T, std::size_t N>
    static cai_status view_of(const cai_array &array, any_view<T, N> &out,
                              cai_error *why) noexcept {
        return any_view<T, N>::try_make(array, out, why);
    }
};

// Each array has an owner, although the function's caller holds the object during the call. A
// borrowed import would save at most 15 % for NumPy's arrays and 7 % for CuPy's; 12 % for PyTorch's
// tensors, but their storage may be replaced during the call. Views would take 12 % more: without
// an owner, cai_array_consume_end asks the driver once more.
//
// Imports an object to `out`. `convert`: the binding library's flag. `kind`: an address that
// identifies the caster's type. `type`: the name of that type.
inline outcome load_array(PyObject *object, bool convert, cai_import_options options,
                          const void *kind, const char *type, array &out) noexcept {
    thread_state &state = this_thread;
    // Exceptions are set here, where it is known whether the caller will see them.
    options.flags |= CAI_IMPORT_NO_EXCEPTION;
    options.dlpack_stream = call_stream::at(state, ++state.clock);
    // A producer that orders its work needs a stream for that.
    if (options.dlpack_stream == 0 && !find_default_stream(options.dlpack_stream)) {
        options.dlpack_stream = CAI_STREAM_LEGACY; // begin() refuses the call
    }
    cai_array *const raw = imported::empty(out);
    cai_error why;
    {
        const pause paused(state);
        if (cai_array_from_python(object, &options, raw, &why) == CAI_OK) {
            return outcome::taken;
        }
    }
    if (PyErr_Occurred() != nullptr) {
        return outcome::raised; // the producer's exception, which passes unchanged
    }
    return refuse_argument(object, convert, kind, type, why);
}

constexpr cai_import_options options_with(std::uint32_t flags) noexcept {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = flags;
    return options;
}

// Returns the requirements of a view on the object that it is made of.
template <class T> constexpr cai_import_options element_options() noexcept {
    using value_type = std::remove_cv_t<T>;
    cai_import_options options = options_with(CAI_IMPORT_REQUIRE_NATIVE);
    if constexpr (!std::is_const_v<T>) {
        options.flags |= CAI_IMPORT_REQUIRE_WRITABLE;
    }
    if constexpr (kind_of<value_type>() != 0) {
        write_typestr<value_type>(options.typestr);
        constexpr std::uint16_t code = code_of<value_type>::value;
        options.dtype_code = code;
        // Dictionaries have no name for such types: the function determines the type of the bytes.
        if constexpr (code != CAI_DTYPE_NONE && sizeof(T) == 1) {
            options.opaque_8bit = code;
        } else if constexpr (code != CAI_DTYPE_NONE && sizeof(T) == 2) {
            options.opaque_16bit = code;
        }
    }
    return options;
}

template <class View> struct view_traits;
template <class T, std::size_t N> struct view_traits<view<T, N>> {
    static constexpr int ndim = static_cast<int>(N);
    static constexpr bool contiguous = false;
    static constexpr cai_import_options options() noexcept {
        cai_import_options made = element_options<T>();
        made.flags |= CAI_IMPORT_REQUIRE_NDIM;
        made.ndim = ndim;
        return made;
    }
};
template <class T, std::size_t N> struct view_traits<any_view<T, N>> : view_traits<view<T, N>> {
    static constexpr cai_import_options options() noexcept {
        cai_import_options made = view_traits<view<T, N>>::options();
        made.flags |= CAI_IMPORT_ALLOW_HOST;
        return made;
    }
};
template <class T, int N> struct view_traits<contiguous_view<T, N>> {
    static constexpr int ndim = N;
    static constexpr bool contiguous = true;
    static constexpr cai_import_options options() noexcept {
        cai_import_options made = element_options<T>();
        made.flags |= CAI_IMPORT_REQUIRE_C_CONTIGUOUS;
        if constexpr (N != any_rank) {
            made.flags |= CAI_IMPORT_REQUIRE_NDIM;
            made.ndim = N;
        }
        return made;
    }
};

// Array of a call: orders streams from `begin` until the end of the call.
class ordered_array {
  public:
    ordered_array() = default;
    ordered_array(const ordered_array &) = delete;
    ordered_array &operator=(const ordered_array &) = delete;
    ~ordered_array() {
        if (!work_) {
            return;
        }
        try {
            work_->end();
            // A producer without a stream cannot be made to wait, and would free the data at once.
            // The host is done with its memory when the function returns.
            if (value.stream() >= CAI_STREAM_UNKNOWN && value.get().data != nullptr &&
                value.get().device.type != CAI_DEVICE_CPU) {
                value.release_after(stream_);
            }
        } catch (const error &) {
            // There is no caller left to which it could be reported.
            PyThreadState *state = PyEval_SaveThread();
            wait_on_host(value.get(), stream_);
            PyEval_RestoreThread(state);
        }
    }
    bool begun() const noexcept { return work_.has_value(); }
    // Makes the stream wait for the producer. Throws error. Needs no lock.
    void begin(cai_stream stream, std::uint32_t access) {
        stream_ = stream;
        work_.emplace(value, stream, access);
    }

    array value;

  private:
    std::optional<consumer> work_; // ends before the array is released
    cai_stream stream_ = 0;
};

// View among the arguments of a call. It keeps its array alive, and orders streams from the moment
// at which the function receives it until the end of the call.
template <class View> class view_argument {
  public:
    // `type` is the view's name in signatures.
    outcome load(PyObject *object, bool convert, const char *type) noexcept {
        static constexpr cai_import_options options = view_traits<View>::options();
        const outcome loaded = load_array(object, convert, options, &kind, type, array_.value);
        if (loaded != outcome::taken) {
            return loaded;
        }
        cai_error why;
        if (imported::view_of(array_.value.get(), view_, &why) != CAI_OK) {
            return refuse_argument(object, convert, &kind, type, why);
        }
        loaded_at_ = ++this_thread.clock;
        return outcome::taken;
    }

    // Makes the call's stream wait for the producer. Throws error. Needs no lock.
    View &begin() {
        if (!array_.begun()) {
            first_pass::over();
            const cai_stream stream = call_stream::at(this_thread, loaded_at_);
            array_.begin(stream != 0 ? stream : default_stream(), access);
        }
        return view_;
    }

  private:
    static constexpr std::uint32_t access = std::is_const_v<typename View::element_type>
                                                ? CAI_ACCESS_READ
                                                : CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    static constexpr char kind = 0;

    ordered_array array_;
    View view_;
    std::uint64_t loaded_at_ = 0;
};

// --- streams

inline outcome load_stream(PyObject *object, bool convert, cai_stream &out) noexcept {
    static constexpr char kind = 0;
    cai_stream none = 0;
    if (object == Py_None && !find_default_stream(none)) {
        PyErr_SetString(PyExc_ValueError,
                        "stream: found None in an extension whose files are compiled for different "
                        "default streams, expected a stream");
        return outcome::raised;
    }
    if (none == 0) {
        none = CAI_STREAM_LEGACY; // names None among what is expected
    }
    cai_error why;
    {
        const pause paused(this_thread); // the object may run code
        const std::uint32_t flags = CAI_IMPORT_ALLOW_STREAM_ZERO | CAI_IMPORT_NO_EXCEPTION;
        if (cai_unstable_stream_from_python(object, none, flags, &out, nullptr, &why) == CAI_OK) {
            return outcome::taken;
        }
    }
    if (PyErr_Occurred() != nullptr) {
        return outcome::raised;
    }
    // The message names the argument instead. Another overload may take the object.
    static constexpr char field[] = "stream: ";
    if (std::strncmp(why.message, field, sizeof field - 1) == 0) {
        std::memmove(why.message, why.message + sizeof field - 1,
                     std::strlen(why.message) - sizeof field + 2);
    }
    why.code = CAI_ERR_TYPE;
    why.field[0] = 0;
    return refuse_argument(object, convert, &kind, "Stream", why);
}

// For refusing containers of views.
template <class> inline constexpr bool never = false;

// --- results

// Object of another library, and its array. Made and destroyed with the interpreter's lock held.
struct new_object {
    PyObject *object = nullptr;
    ordered_array array; // has a reference of its own: the object outlives the work

    new_object() = default;
    new_object(const new_object &) = delete;
    new_object &operator=(const new_object &) = delete;
    ~new_object() { Py_XDECREF(object); }
};

struct results;

// Returns a new reference to an object, or NULL with an exception set.
inline PyObject *export_array(const array &result) noexcept {
    PyObject *made = nullptr;
    cai_error why;
    if (cai_array_to_python(&result.get(), nullptr, &made, &why) != CAI_OK) {
        return cai_python_raise(&why); // keeps the exception that is set already
    }
    return made;
}

// --- producers

// What differs between pybind11 and nanobind for a module or a class: each header specializes it.
template <class Target, class = void> struct library;

// Fills an array with the result of `make`, in a callback of an exchange table. Throws nothing,
// because C calls it.
template <class Make> cai_status fill(cai_array *out, cai_error *why, Make make) noexcept {
    try {
        array made = make();
        return cai_array_share(&made.get(), out, why); // `out` may be a shorter structure
    } catch (const error &failed) {
        if (why != nullptr) {
            *why = failed.get();
        }
        return failed.code();
    } catch (const std::exception &failed) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_SetString(PyExc_RuntimeError, failed.what());
        }
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "a C++ exception");
    }
    return cai_error_set(why, CAI_ERR_PYTHON_EXCEPTION, "object", "could not be described");
}

// std::invoke for functions and member functions: <functional> alone takes a compiler longer than
// this header.
template <class F, class Object, class... A>
decltype(auto) invoke_member(F function, Object &&object, A &&...given) {
    return (std::forward<Object>(object).*function)(std::forward<A>(given)...);
}
template <class F, class... A> decltype(auto) invoke(F &&function, A &&...given) {
    if constexpr (std::is_member_function_pointer_v<std::decay_t<F>>) {
        return invoke_member(function, std::forward<A>(given)...);
    } else {
        return std::forward<F>(function)(std::forward<A>(given)...);
    }
}

template <class Class, auto Describe> struct producer {
    using binding = library<Class>;
    using object = typename binding::object;

    static array describe(PyObject *self) {
        return detail::invoke(Describe, binding::instance(self));
    }
    static object export_of(PyObject *self) {
        PyObject *made = export_array(describe(self));
        if (made == nullptr) {
            throw typename binding::python_error();
        }
        return binding::steal(made);
    }
    static cai_status from_object(PyObject *self, cai_array *out, cai_error *why) noexcept {
        return fill(out, why, [self] {
            try {
                return describe(self);
            } catch (typename binding::python_error &raised) {
                raised.restore();
                throw;
            }
        });
    }
    static constexpr cai_unstable_exchange_api table = {sizeof(cai_unstable_exchange_api),
                                                        CAI_DATA_ABI, from_object, nullptr};
};

} // namespace detail CAI_PRIVATE_HIDDEN

// View argument of a function that returns an array of the argument's own library: what
// cai::empty_like allocates is a NumPy array if the caller passed one of NumPy, and so on.
//
//   auto scaled(cai::like<cai::view<const float, 1>> in, float factor, cai::stream stream) {
//       auto out = cai::empty_like<cai::view<float, 1>>(in, stream);
//       ... // enqueues work on `*in` and `*out`
//       return out;
//   }
template <class View> class like {
  public:
    const View &operator*() const noexcept { return view_; }
    const View *operator->() const noexcept { return &view_; }
    // Returns a borrowed reference, for the time of the call.
    PyObject *object() const noexcept { return object_; }

  private:
    friend struct detail::results;
    View view_;
    PyObject *object_ = nullptr;
};

// Result of a bound function: an object of another library and a view of its array. When the
// function returns it, the library's current stream waits for the work. Use it with the
// interpreter's lock held.
template <class View> class CAI_PRIVATE_HIDDEN result {
  public:
    const View &operator*() const noexcept { return view_; }
    const View *operator->() const noexcept { return &view_; }
    // Returns a borrowed reference; NULL for an object that was moved.
    PyObject *object() const noexcept { return made_ ? made_->object : nullptr; }

  private:
    friend struct detail::results;
    View view_;
    std::unique_ptr<detail::new_object> made_;
};

namespace detail CAI_PRIVATE_HIDDEN {

struct results {
    template <class View> static void set(like<View> &out, const View &view) { out.view_ = view; }
    template <class View> static void set(like<View> &out, PyObject *object) {
        out.object_ = object;
    }
    // Ends the work, and gives the reference away.
    template <class View> static PyObject *take(result<View> &given) noexcept {
        if (!given.made_) {
            PyErr_SetString(PyExc_ValueError, "a cai::result that was moved");
            return nullptr;
        }
        PyObject *object = std::exchange(given.made_->object, nullptr);
        given.made_.reset();
        return object;
    }
    template <class View>
    static result<View> make(PyObject *prototype, cai_stream stream,
                             const std::array<std::int64_t, View::rank()> &shape) {
        using value_type = typename View::value_type;
        cai_array wanted = CAI_ARRAY_INIT;
        wanted.ndim = static_cast<std::int32_t>(shape.size());
        wanted.shape = shape.data();
        write_typestr<value_type>(wanted.typestr);
        wanted.dtype_code = code_of<value_type>::value;
        result<View> made;
        made.made_ = std::make_unique<new_object>();
        array &described = made.made_->array.value;
        cai_error why;
        // The memory belongs to the library's current stream, on which the caller goes on to use
        // it, and may drop it at any time.
        check(cai_unstable_python_empty_like(prototype, &wanted, 0, nullptr, nullptr,
                                             &made.made_->object, imported::empty(described), &why),
              why);
        check(imported::view_of(described.get(), made.view_, &why), why);
        made.made_->array.begin(stream, CAI_ACCESS_READ | CAI_ACCESS_WRITE);
        return made;
    }
};

} // namespace detail CAI_PRIVATE_HIDDEN

// Allocates an array through the library of an argument, on its device, in C order: NumPy, CuPy,
// PyTorch, or any with `__array_namespace__`. `View` is a cai::view or a cai::any_view of elements
// that are not const. The stream is ordered after the library's current one, until the function
// ends. Throws error; the exception of the library stays set, and passes on.
template <class View, class Given>
CAI_PRIVATE_HIDDEN result<View> empty_like(const like<Given> &given, cai_stream stream,
                                           const std::array<std::int64_t, View::rank()> &shape) {
    return detail::results::make<View>(given.object(), stream, shape);
}
// The same, of the shape of the argument.
template <class View, class Given>
CAI_PRIVATE_HIDDEN result<View> empty_like(const like<Given> &given, cai_stream stream) {
    static_assert(View::rank() == Given::rank(), "pass a shape");
    std::array<std::int64_t, View::rank()> shape{};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        shape[d] = given->extent(d);
    }
    return empty_like<View>(given, stream, shape);
}

// Makes a bound class a producer. Each export calls `Describe` with a `const T &`. It returns a
// cai::array, whose owner keeps the data alive (for example cai::make_owner of a std::shared_ptr).
// Consumers that use libcai read the objects without calling Python; others read them through
// `__cuda_array_interface__` and DLPack. Throws the binding library's exception for one of Python.
//
//   cai::publish<&describe>(pybind11::class_<Buffer>(m, "Buffer"));
template <auto Describe, class Class> CAI_PRIVATE_HIDDEN void publish(Class cls) {
    using producer = detail::producer<Class, Describe>;
    using library = detail::library<Class>;
    using self_type = typename library::self;
    using object = typename library::object;
    library::translate();
    cai_error why;
    if (cai_unstable_python_publish(cls.ptr(), &producer::table, &why) != CAI_OK) {
        cai_python_raise(&why); // keeps the exception that is set already
        throw typename library::python_error();
    }
    library::property(cls, "__cuda_array_interface__", [](self_type self) -> object {
        return producer::export_of(self.ptr()).attr("__cuda_array_interface__");
    });
    cls.def("__dlpack__", [](self_type self, const typename library::kwargs &options) -> object {
        return producer::export_of(self.ptr()).attr("__dlpack__")(**options);
    });
    cls.def("__dlpack_device__", [](self_type self) -> object {
        return producer::export_of(self.ptr()).attr("__dlpack_device__")();
    });
}

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_ARGUMENTS_HPP
