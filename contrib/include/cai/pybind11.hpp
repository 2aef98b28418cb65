// cai/pybind11.hpp (unstable: may change in any minor release): GPU arrays as arguments and results
// of functions bound with pybind11.
//
//   #include <cai/pybind11.hpp>
//
//   // enqueues work on `stream`
//   void scale(cai::view<float, 2> data, float factor, cai::stream stream) { ... }
//
//   PYBIND11_MODULE(mine, m) { m.def("scale", &scale); }
//
//   cai::view<T, N>          accepts any GPU array of that type and number of dimensions: of CuPy,
//                            PyTorch, Numba, JAX and others. While the function runs, the array is
//                            kept alive, and the call's stream is ordered with the producer's
//                            stream. The call's stream is the cai::stream among the arguments, or
//                            else the default stream that the compiler's options choose. Make T
//                            const if the function only reads.
//   cai::contiguous_view<T>  the same for C-contiguous arrays, with any number of dimensions, or
//                            with N (cai::contiguous_view<T, N>).
//   cai::any_view<T, N>      accepts host memory as well, as of NumPy: the function asks which,
//                            and is done with host memory when it returns.
//   cai::like<View>          a view, and the object, whose library cai::empty_like allocates in: a
//                            function returns the cai::result, an object of that library.
//   cai::array               accepts any GPU array without a mask. The function may keep it, and
//                            must order streams itself: see cai::consumer. As a result, it becomes
//                            an object that all those libraries accept.
//   cai::masked_array        a cai::array that may have a mask.
//   cai::stream              a CUDA stream.
//   cai::from_python         imports an object with options of your own: for your own casters.
//   cai::publish             makes a bound class of yours a producer.
//   cai::def                 binds a function whose messages name the argument.
//
// std::optional of each accepts None as well. A cai::stream accepts None as the default stream. An
// argument that does not match raises the exception of cai_array_from_python, whose message has the
// argument's type, the value found and the value expected; for overloaded functions, pybind11 lists
// the signatures. A cai::error that leaves a bound function becomes its status's Python exception.
//
// Signatures name libcai.ArrayLike, libcai.Array and libcai.StreamLike, types of the Python package
// `libcai`. Stub files that are made of them import it, which only type checkers do.
//
// Link the library as for cai.h; nothing needs to be installed for Python. Thread safety: all
// conversions run with the interpreter's lock held, as pybind11 calls them. A function may release
// it (pybind11::call_guard<pybind11::gil_scoped_release>).
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_PYBIND11_HPP
#define CAI_PYBIND11_HPP

#include <pybind11/pybind11.h>

#include "named.hpp"

#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {
namespace detail CAI_PRIVATE_HIDDEN {

// Errors that leave a function's body become Python exceptions. Set up when the first argument or
// result is converted: no function can throw one earlier.
inline void pybind11_translate() {
    static const bool once = [] {
        pybind11::register_local_exception_translator([](std::exception_ptr thrown) {
            try {
                std::rethrow_exception(thrown);
            } catch (const error &failed) {
                const cai_error why = failed.get();
                cai_python_raise(&why);
            }
        });
        return true;
    }();
    (void)once;
}

inline bool pybind11_loaded(outcome loaded) {
    if (loaded == outcome::raised) {
        throw pybind11::error_already_set();
    }
    return loaded == outcome::taken;
}

inline pybind11::handle pybind11_export(const array &result) {
    pybind11_translate();
    PyObject *made = export_array(result);
    if (made == nullptr) {
        throw pybind11::error_already_set();
    }
    return made;
}

} // namespace detail CAI_PRIVATE_HIDDEN
} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

namespace PYBIND11_NAMESPACE {
namespace detail {

// Annotations of an argument and of a result. Before 3.0 there is one for both.
#if PYBIND11_VERSION_MAJOR >= 3
#define CAI_PRIVATE_IO_NAME(argument, result) io_name(argument, result)
#else
#define CAI_PRIVATE_IO_NAME(argument, result) const_name(argument)
#endif

template <class Array, std::uint32_t Flags> struct cai_array_caster {
    static constexpr auto name = CAI_PRIVATE_IO_NAME("libcai.ArrayLike", "libcai.Array");
    template <class T> using cast_op_type = movable_cast_op_type<T>;

    bool load(handle source, bool convert) {
        static constexpr char kind = 0;
        static constexpr cai_import_options options = cai::detail::options_with(Flags);
        cai::detail::pybind11_translate();
        return cai::detail::pybind11_loaded(
            cai::detail::load_array(source.ptr(), convert, options, &kind, "Array", value_));
    }
    static handle cast(const cai::array &result, return_value_policy, handle) {
        return cai::detail::pybind11_export(result);
    }
    static handle cast(const cai::array *result, return_value_policy, handle) {
        return result == nullptr ? none().release() : cai::detail::pybind11_export(*result);
    }

    explicit operator Array *() { return cai::detail::first_pass::over(), &value_; }
    explicit operator Array &() { return cai::detail::first_pass::over(), value_; }
    // Called by containers, too, while other overloads may still be tried.
    explicit operator Array &&() && { return std::move(value_); }

  private:
    Array value_;
};
template <> struct type_caster<cai::array> : cai_array_caster<cai::array, 0> {};
template <>
struct type_caster<cai::masked_array> : cai_array_caster<cai::masked_array, CAI_IMPORT_ALLOW_MASK> {
};

template <class View> struct cai_view_caster {
    static constexpr auto name = const_name(cai::detail::view_annotation<View>.value);
    template <class> using cast_op_type = View &;

    bool load(handle source, bool convert) {
        cai::detail::pybind11_translate();
        return cai::detail::pybind11_loaded(
            argument_.load(source.ptr(), convert, cai::detail::view_name<View>.value));
    }
    operator View &() { return argument_.begin(); }

  private:
    cai::detail::view_argument<View> argument_;
};
template <class T, std::size_t N>
struct type_caster<cai::view<T, N>> : cai_view_caster<cai::view<T, N>> {};
template <class T, int N>
struct type_caster<cai::contiguous_view<T, N>> : cai_view_caster<cai::contiguous_view<T, N>> {};
template <class T, std::size_t N>
struct type_caster<cai::any_view<T, N>> : cai_view_caster<cai::any_view<T, N>> {};

template <class View> struct type_caster<cai::like<View>> {
    static constexpr auto name = type_caster<View>::name;
    template <class> using cast_op_type = cai::like<View> &;

    bool load(handle source, bool convert) {
        cai::detail::results::set(value_, source.ptr());
        return argument_.load(source, convert);
    }
    operator cai::like<View> &() {
        cai::detail::results::set(value_, argument_.operator View &());
        return value_;
    }

  private:
    type_caster<View> argument_;
    cai::like<View> value_;
};

template <class View> struct type_caster<cai::result<View>> {
    static constexpr auto name = const_name("typing.Any");
    static handle cast(cai::result<View> &&source, return_value_policy, handle) {
        PyObject *made = cai::detail::results::take(source);
        if (made == nullptr) {
            throw error_already_set();
        }
        return made;
    }
};

// The caster of <pybind11/stl.h> would release a view's array before the call, and hide a stream
// from the views.
template <class T> struct cai_optional_caster {
    static constexpr auto name = type_caster<T>::name + const_name(" | None");
    template <class> using cast_op_type = std::optional<T> &;

    bool load(handle source, bool convert) {
        none_ = source.is_none();
        return none_ || argument_.load(source, convert);
    }
    operator std::optional<T> &() {
        if (!none_) {
            value_.emplace(argument_.operator T &());
        }
        return value_;
    }

  private:
    type_caster<T> argument_;
    std::optional<T> value_;
    bool none_ = false;
};
template <class T, std::size_t N>
struct type_caster<std::optional<cai::view<T, N>>> : cai_optional_caster<cai::view<T, N>> {};
template <class T, int N>
struct type_caster<std::optional<cai::contiguous_view<T, N>>>
    : cai_optional_caster<cai::contiguous_view<T, N>> {};

template <class T, std::size_t N>
struct type_caster<std::optional<cai::any_view<T, N>>> : cai_optional_caster<cai::any_view<T, N>> {
};

template <class T, std::size_t N, class Allocator>
struct type_caster<std::vector<cai::view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>,
                  "views would outlive their arrays: take std::vector<cai::array>");
};
template <class T, std::size_t N, class Allocator>
struct type_caster<std::vector<cai::any_view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>,
                  "views would outlive their arrays: take std::vector<cai::array>");
};
template <class T, int N, class Allocator>
struct type_caster<std::vector<cai::contiguous_view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>,
                  "views would outlive their arrays: take std::vector<cai::array>");
};

template <> struct type_caster<cai::stream> {
    static constexpr auto name = CAI_PRIVATE_IO_NAME("libcai.StreamLike | None", "int");
    template <class T> using cast_op_type = cai::stream &;

    bool load(handle source, bool convert) {
        cai_stream found = 0;
        if (!cai::detail::pybind11_loaded(cai::detail::load_stream(source.ptr(), convert, found))) {
            return false;
        }
        argument_.load(found);
        return true;
    }
    static handle cast(cai::stream source, return_value_policy, handle) {
        return PyLong_FromUnsignedLongLong(source.get());
    }
    operator cai::stream &() { return argument_.hand_over(); }

  private:
    cai::detail::call_stream argument_;
};

template <> struct type_caster<std::optional<cai::stream>> : cai_optional_caster<cai::stream> {
    static constexpr auto name = type_caster<cai::stream>::name;
};
#undef CAI_PRIVATE_IO_NAME

// An argument of a function bound with cai::def.
template <class Function, std::size_t Index, std::size_t Count, class A>
struct type_caster<cai::detail::placed<Function, Index, Count, A>> {
    using placed = cai::detail::placed<Function, Index, Count, A>;
    static constexpr auto name = make_caster<A>::name;
    template <class> using cast_op_type = placed &;

    bool load(handle source, bool convert) {
        const cai::detail::loading<Function, Index, Count> here;
        return caster_.load(source, convert);
    }
    operator placed &() {
        value_.caster = &caster_;
        return value_;
    }

  private:
    make_caster<A> caster_;
    placed value_;
};

} // namespace detail
} // namespace PYBIND11_NAMESPACE

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {
namespace detail CAI_PRIVATE_HIDDEN {

// C++ class of a bound class; void for a module.
template <class Target, class = void> struct pybind11_class {
    using type = void;
};
template <class Target> struct pybind11_class<Target, std::void_t<typename Target::type>> {
    using type = typename Target::type;
};

template <class Target>
struct library<Target, std::enable_if_t<std::is_base_of_v<pybind11::handle, Target>>> {
    using bound_class = typename pybind11_class<Target>::type;
    static constexpr bool is_module = std::is_base_of_v<pybind11::module_, Target>;
    using self = pybind11::handle;
    using object = pybind11::object;
    using kwargs = pybind11::kwargs;
    using python_error = pybind11::error_already_set;

    static void translate() { pybind11_translate(); }
    static object steal(PyObject *made) { return pybind11::reinterpret_steal<object>(made); }
    static decltype(auto) instance(PyObject *object) {
        return self(object).cast<const bound_class &>();
    }
    template <class Getter> static void property(Target &cls, const char *name, Getter getter) {
        cls.def_property_readonly(name, getter);
    }
    template <class A> static decltype(auto) value_of(void *caster) {
        return pybind11::detail::cast_op<A>(
            std::move(*static_cast<pybind11::detail::make_caster<A> *>(caster)));
    }
    template <class Extra>
    static std::pair<const char *, bool> name_of(const Extra &extra) noexcept {
        if constexpr (std::is_base_of_v<pybind11::arg, Extra>) {
            return {extra.name, true};
        } else {
            return {nullptr, false};
        }
    }
};

} // namespace detail CAI_PRIVATE_HIDDEN

// Imports an object with options of your own, in the `load` of a caster of yours or in a function
// that takes any object. Returns nothing if the object is no array, or if `convert` is false and
// the array does not match: another overload may take it. Otherwise throws
// pybind11::error_already_set: the reason why the array does not match, or the object's exception.
// The stream of the options is that of the call.
//
//   bool load(handle source, bool convert) {
//       cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
//       options.flags = CAI_IMPORT_QUERY_DEVICE;
//       std::optional<cai::array> found = cai::from_python(source, options, convert);
//       if (found) value = Buffer(std::move(*found));
//       return found.has_value();
//   }
CAI_PRIVATE_HIDDEN inline std::optional<array>
from_python(pybind11::handle source, const cai_import_options &options, bool convert = true) {
    static constexpr char kind = 0;
    std::optional<array> found(std::in_place);
    if (!detail::pybind11_loaded(
            detail::load_array(source.ptr(), convert, options, &kind, "Array", *found))) {
        found.reset();
    }
    return found;
}

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_PYBIND11_HPP
