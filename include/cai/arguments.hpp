// arguments.hpp: what <cai/pybind11.hpp> and <cai/nanobind.hpp> have in common. Include one of those.
//
//   cai::stream  a CUDA stream that a bound function takes as an argument
//
// Everything here runs with the interpreter's lock held, unless its comment says otherwise. Only Python's
// limited API is used.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_ARGUMENTS_HPP
#define CAI_ARGUMENTS_HPP

#include <Python.h>

#include <cai/cai.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

// What CUstream and cudaStream_t point to.
struct CUstream_st;

namespace cai {

// A stream that a bound function takes: from Python an integer (`torch.cuda.current_stream().cuda_stream`),
// an object with `__cuda_stream__`, `cuda_stream` or `ptr` (cuda.core, PyTorch, CuPy), or None for the
// default stream that the compiler's options choose. Passes for a cudaStream_t and for a cai_stream.
//
// The views among the arguments of the same function are ordered on it. In Python, 0 is the legacy default
// stream, whatever the options: the body gets cudaStreamLegacy, which says so.
class stream {
  public:
    stream() noexcept : value_(stream_of(nullptr)) {}
    explicit stream(cai_stream value) noexcept : value_(value) {}
    cai_stream get() const noexcept { return value_; }
    operator cai_stream() const noexcept { return value_; }
    operator CUstream_st *() const noexcept {
        return reinterpret_cast<CUstream_st *>(static_cast<std::uintptr_t>(value_));
    }

  private:
    cai_stream value_;
};

namespace detail {

// --- which stream a call's views are ordered on
//
// Arguments are loaded one after another, and the stream may come last. So views are ordered only when the
// function is about to be called with them: after everything was loaded, and after every other overload was
// ruled out. They find the stream through the thread, and must not take that of another call for theirs:
//
//   - a call made while an argument is being read (a producer's property may be a bound function): the stream
//   is
//     hidden for that time (`pause`);
//   - a call made by the function's body: its arguments are loaded after the stream was handed over.

class call_stream;

struct thread_state {
    call_stream *innermost = nullptr;
    std::uint64_t clock = 0;
    // What the first pass over overloads refused: see `first_pass`.
    struct refusal {
        const void *object;
        const void *kind;
    } refused[16] = {};
    unsigned next = 0;
};

// Hidden: each extension has its own, laid out by the header that it was compiled with.
#if defined(__GNUC__)
__attribute__((visibility("hidden")))
#endif
inline thread_local thread_state this_thread;

// A call's stream, from when it is loaded until the call is over.
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
            outer_ = this_thread.innermost;
            this_thread.innermost = this;
            active_ = true;
        }
    }
    // Handed to the function. What is loaded later belongs to other calls.
    stream &hand_over() noexcept {
        handed_over_ = ++this_thread.clock;
        return value_;
    }
    // The stream of the call to which an argument belongs that was loaded at `time`.
    static cai_stream at(std::uint64_t time) noexcept {
        const call_stream *found = this_thread.innermost;
        const bool same = found != nullptr && (found->handed_over_ == 0 || time < found->handed_over_);
        return same ? found->value_.get() : stream_of(nullptr);
    }

  private:
    stream value_;
    call_stream *outer_ = nullptr;
    std::uint64_t handed_over_ = 0;
    bool active_ = false;
};

// While an object of somebody else's is asked: what that calls has streams of its own.
class pause {
  public:
    pause() noexcept : innermost_(this_thread.innermost) { this_thread.innermost = nullptr; }
    pause(const pause &) = delete;
    pause &operator=(const pause &) = delete;
    ~pause() { this_thread.innermost = innermost_; }

  private:
    call_stream *innermost_;
};

// --- refusals
//
// A function without overloads says precisely what is wrong with an argument. Where there are overloads, the
// next one must get its chance, and at the end the binding library lists them all. Neither library says
// whether there are any, but both go over overloads twice, at first without conversions: an argument that was
// refused in the first pass is refused silently in the second.
struct first_pass {
    static void refused(const void *object, const void *kind) noexcept {
        thread_state &state = this_thread;
        state.refused[state.next++ % (sizeof state.refused / sizeof state.refused[0])] = {object, kind};
    }
    // Whether it was; forgets it.
    static bool take(const void *object, const void *kind) noexcept {
        for (auto &slot : this_thread.refused) {
            if (slot.object == object && slot.kind == kind) {
                slot = {};
                return true;
            }
        }
        return false;
    }
    // An overload was found.
    static void over() noexcept {
        for (auto &slot : this_thread.refused) {
            slot = {};
        }
    }
};

// What became of an argument.
enum class outcome {
    taken,
    declined, // another overload may take it
    raised    // a Python exception is set
};

// Decides what a refusal of this library's becomes.
inline outcome refuse_argument(PyObject *object, bool convert, const void *kind,
                               const cai_error &why) noexcept {
    if (!convert) {
        first_pass::refused(object, kind);
        return outcome::declined;
    }
    // Of an object that is no array at all the signature says enough.
    if (first_pass::take(object, kind) || why.code == CAI_ERR_NO_PROTOCOL) {
        return outcome::declined;
    }
    cai_python_raise(&why);
    return outcome::raised;
}

// --- arrays and views

// A function that takes a cai::array sees its mask by array::mask.
inline cai_import_options array_options() noexcept {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = CAI_IMPORT_ALLOW_MASK;
    return options;
}

// Describes an object in `out`. `convert` is the binding library's, `kind` an address that stands for the
// caster's type.
inline outcome load_array(PyObject *object, bool convert, cai_import_options options, const void *kind,
                          array &out) noexcept {
    // Exceptions are set here, where it is known whether anybody shall see them.
    options.flags |= CAI_IMPORT_NO_EXCEPTION;
    options.stream = call_stream::at(++this_thread.clock);
    cai_array raw = CAI_ARRAY_INIT;
    cai_error why;
    cai_status status;
    {
        const pause paused;
        status = cai_array_from_python(object, &options, &raw, &why);
    }
    if (status == CAI_OK) {
        try {
            out = array::adopt(raw);
            return outcome::taken;
        } catch (const error &broken) {
            cai_array_release(&raw);
            why = broken.get();
        }
    }
    if (PyErr_Occurred() != nullptr) {
        return outcome::raised; // by the producer: not this library's to change
    }
    return refuse_argument(object, convert, kind, why);
}

// The typestr that names a type's elements on this machine.
template <class T> void write_typestr(char (&out)[CAI_TYPESTR_SIZE]) noexcept {
    constexpr std::size_t size = sizeof(T);
    static_assert(size < 1000, "as long as elements of that size have a name");
    const std::uint16_t probe = 1;
    unsigned char first;
    std::memcpy(&first, &probe, 1);
    const char order = size == 1 ? '|' : first == 1 ? '<' : '>';
    std::snprintf(out, sizeof out, "%c%c%u", order, element<T>::kind, static_cast<unsigned>(size));
}

// What a view demands of the object that it is made of.
template <class T, std::size_t N> cai_import_options view_options() noexcept {
    using value_type = std::remove_cv_t<T>;
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = CAI_IMPORT_REQUIRE_NDIM | CAI_IMPORT_REQUIRE_NATIVE;
    if constexpr (!std::is_const_v<T>) {
        options.flags |= CAI_IMPORT_REQUIRE_WRITABLE;
    }
    options.ndim = static_cast<std::int32_t>(N);
    if constexpr (element<value_type>::kind != 0) {
        write_typestr<value_type>(options.typestr);
        constexpr std::uint16_t code = code_of<value_type>::value;
        options.dtype_code = code;
        // Dictionaries have no name for such types: what the opaque bytes mean is the function's to say.
        if constexpr (code != CAI_DTYPE_NONE && sizeof(T) == 1) {
            options.opaque_8bit = code;
        } else if constexpr (code == CAI_DTYPE_BFLOAT16) {
            options.opaque_16bit = code;
        }
    }
    return options;
}

// A view among the arguments of a call: keeps its array, and is ordered from when the function gets it until
// the call is over.
template <class T, std::size_t N> class view_argument {
  public:
    view_argument() = default;
    view_argument(const view_argument &) = delete;
    view_argument &operator=(const view_argument &) = delete;
    ~view_argument() {
        if (!work_) {
            return;
        }
        try {
            work_->end();
            // A producer without a stream cannot be made to wait, and would free the data at once.
            if (array_.stream() >= CAI_STREAM_UNKNOWN && !view_->empty()) {
                array_.release_after(stream_);
            }
        } catch (const error &) {
            wait_on_host();
        }
    }

    outcome load(PyObject *object, bool convert) noexcept {
        const outcome loaded = load_array(object, convert, view_options<T, N>(), &kind, array_);
        if (loaded != outcome::taken) {
            return loaded;
        }
        try {
            view_.emplace(array_);
        } catch (const error &refused) {
            return refuse_argument(object, convert, &kind, refused.get());
        }
        loaded_at_ = ++this_thread.clock;
        return outcome::taken;
    }

    // Makes the call's stream wait for the producer. Throws error. Needs no lock.
    view<T, N> &begin() {
        if (!work_) {
            first_pass::over();
            stream_ = call_stream::at(loaded_at_);
            work_.emplace(array_, stream_, access);
        }
        return *view_;
    }

  private:
    static constexpr std::uint32_t access =
        std::is_const_v<T> ? CAI_ACCESS_READ : CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    static constexpr char kind = 0;

    // The producer could not be held back without blocking, and nobody is left to be told: so the host waits.
    void wait_on_host() const noexcept {
        cai_array mine = array_.get();
        mine.version = CAI_INTERFACE_VERSION;
        mine.stream = stream_;
        mine.stream_id = 0;
        mine.event = nullptr;
        mine.mask = nullptr;
        PyThreadState *state = PyEval_SaveThread();
        (void)cai_array_synchronize(&mine, CAI_ACCESS_READ, nullptr);
        PyEval_RestoreThread(state);
    }

    array array_;
    std::optional<view<T, N>> view_;
    std::optional<consumer> work_; // ends before the array goes
    std::uint64_t loaded_at_ = 0;
    cai_stream stream_ = 0;
};

// --- streams

inline outcome read_handle(PyObject *number, cai_stream &out) noexcept {
    if (!PyLong_Check(number) || PyBool_Check(number)) {
        return outcome::declined;
    }
    const unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear(); // negative, or too long
        return outcome::declined;
    }
    if (value >= CAI_STREAM_UNKNOWN) {
        return outcome::declined; // words of this library's, not streams
    }
    out = value == 0 ? CAI_STREAM_LEGACY : static_cast<cai_stream>(value);
    return outcome::taken;
}

// An attribute: a new reference, or NULL, with an exception set where it is there but fails.
inline PyObject *attribute(PyObject *object, const char *name) noexcept {
    PyObject *found = PyObject_GetAttrString(object, name);
    if (found == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError) != 0) {
        PyErr_Clear();
    }
    return found;
}

inline outcome load_stream(PyObject *object, cai_stream &out) noexcept {
    if (object == Py_None) {
        out = stream_of(nullptr);
        return outcome::taken;
    }
    if (PyLong_Check(object)) {
        return read_handle(object, out);
    }
    const pause paused;
    if (PyObject *method = attribute(object, "__cuda_stream__")) {
        PyObject *pair = PyCallable_Check(method) != 0 ? PyObject_CallObject(method, nullptr)
                                                       : (Py_INCREF(method), method);
        Py_DECREF(method);
        if (pair == nullptr) {
            return outcome::raised;
        }
        // (version, handle)
        outcome read = outcome::declined;
        if (PyObject *handle = PySequence_Check(pair) != 0 ? PySequence_GetItem(pair, 1) : nullptr) {
            read = read_handle(handle, out);
            Py_DECREF(handle);
        }
        Py_DECREF(pair);
        return PyErr_Occurred() != nullptr ? outcome::raised : read;
    }
    for (const char *name : {"cuda_stream", "ptr"}) {
        if (PyErr_Occurred() != nullptr) {
            return outcome::raised;
        }
        if (PyObject *handle = attribute(object, name)) {
            const outcome read = read_handle(handle, out);
            Py_DECREF(handle);
            return read;
        }
    }
    return PyErr_Occurred() != nullptr ? outcome::raised : outcome::declined;
}

// --- names

// What signatures in docstrings call a view: `Array[float32, 2]`, with `, writable` where T is not const.
template <std::size_t Length> struct name_text {
    char value[Length + 1];
};

template <class T, std::size_t N> constexpr std::size_t write_name(char *out) {
    using value_type = std::remove_cv_t<T>;
    constexpr char kind = element<value_type>::kind;
    constexpr std::uint16_t code = code_of<value_type>::value;
    std::size_t length = 0;
    const auto put = [&](const char *text) {
        for (; *text != 0; ++text, ++length) {
            if (out != nullptr) {
                out[length] = *text;
            }
        }
    };
    const auto number = [&](std::size_t value) {
        std::size_t power = 1;
        while (value / power >= 10) {
            power *= 10;
        }
        for (; power > 0; power /= 10) {
            const char one[2] = {static_cast<char>('0' + value / power % 10), 0};
            put(one);
        }
    };
    put("Array[");
    if constexpr (kind == 0) {
        put("byte");
    } else if constexpr (kind == 'b') {
        put("bool");
    } else if constexpr (code == CAI_DTYPE_BFLOAT16) {
        put("bfloat16");
    } else {
        put(kind == 'i'   ? "int"
            : kind == 'u' ? "uint"
            : kind == 'f' ? "float"
            : kind == 'c' ? "complex"
                          : "opaque");
        number(sizeof(T) * 8);
    }
    put(", ");
    number(N);
    put(std::is_const_v<T> ? "]" : ", writable]");
    return length;
}

template <class T, std::size_t N> constexpr auto make_name() {
    name_text<write_name<T, N>(nullptr)> text{};
    write_name<T, N>(text.value);
    return text;
}

template <class T, std::size_t N> inline constexpr auto view_name = make_name<T, N>();

// For refusing containers of views.
template <class> inline constexpr bool never = false;

// --- results

// A new reference, or NULL with an exception set.
inline PyObject *export_array(const array &result) noexcept {
    cai_error why;
    PyObject *made = nullptr;
    const cai_status status = cai_array_to_python(&result.get(), nullptr, &made, &why);
    return status == CAI_OK ? made : cai_python_raise(&why);
}

// --- producers

// The body of a callback that makes an array of an object, for an exchange table: no exception gets out of
// it.
template <class Make> cai_status fill(cai_array *out, cai_error *why, Make make) noexcept {
    try {
        array made = make();
        cai_array raw = made.release();
        const cai_status status = cai_array_share(&raw, out, why); // `out` may be a shorter structure
        cai_array_release(&raw);
        return status;
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

} // namespace detail
} // namespace cai

#endif // CAI_ARGUMENTS_HPP
