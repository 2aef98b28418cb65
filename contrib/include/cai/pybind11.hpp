// cai/pybind11.hpp (unstable): GPU arrays as arguments and results of functions bound with
// pybind11.
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
// the signatures. A cai::error that leaves a bound function becomes the Python exception of its
// status.
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
#include <functional>
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

template <class Array, std::uint32_t Flags> struct cai_array_caster {
    static constexpr auto name = const_name("Array");
    template <class T> using cast_op_type = movable_cast_op_type<T>;

    bool load(handle source, bool convert) {
        static constexpr char kind = 0;
        cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
        options.flags = Flags;
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
    static constexpr auto name = const_name(cai::detail::view_name<View>.value);
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

// The caster of <pybind11/stl.h> would release the view's array before the call.
template <class View> struct cai_optional_view_caster {
    static constexpr auto name =
        const_name(cai::detail::view_name<View>.value) + const_name(" | None");
    template <class> using cast_op_type = std::optional<View> &;

    bool load(handle source, bool convert) {
        none_ = source.is_none();
        if (none_) {
            return true;
        }
        cai::detail::pybind11_translate();
        return cai::detail::pybind11_loaded(
            argument_.load(source.ptr(), convert, cai::detail::view_name<View>.value));
    }
    operator std::optional<View> &() {
        if (!none_) {
            value_.emplace(argument_.begin());
        }
        return value_;
    }

  private:
    cai::detail::view_argument<View> argument_;
    std::optional<View> value_;
    bool none_ = false;
};
template <class T, std::size_t N>
struct type_caster<std::optional<cai::view<T, N>>> : cai_optional_view_caster<cai::view<T, N>> {};
template <class T, int N>
struct type_caster<std::optional<cai::contiguous_view<T, N>>>
    : cai_optional_view_caster<cai::contiguous_view<T, N>> {};

template <class T, std::size_t N, class Allocator>
struct type_caster<std::vector<cai::view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>,
                  "views would outlive their arrays: take std::vector<cai::array>");
};
template <class T, int N, class Allocator>
struct type_caster<std::vector<cai::contiguous_view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>,
                  "views would outlive their arrays: take std::vector<cai::array>");
};

template <> struct type_caster<cai::stream> {
    static constexpr auto name = const_name("Stream");
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

// With the caster of <pybind11/stl.h>, the views would not find the stream.
template <> struct type_caster<std::optional<cai::stream>> {
    static constexpr auto name = const_name("Stream | None");
    template <class T> using cast_op_type = std::optional<cai::stream> &;

    bool load(handle source, bool convert) {
        none_ = source.is_none();
        return none_ || argument_.load(source, convert);
    }
    operator std::optional<cai::stream> &() {
        if (!none_) {
            value_ = static_cast<cai::stream &>(argument_);
        }
        return value_;
    }

  private:
    type_caster<cai::stream> argument_;
    std::optional<cai::stream> value_;
    bool none_ = false;
};

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

struct pybind11_cast {
    template <class A> static decltype(auto) from(void *caster) {
        return pybind11::detail::cast_op<A>(
            std::move(*static_cast<pybind11::detail::make_caster<A> *>(caster)));
    }
};

// Returns the name of an annotation, and whether the annotation is an argument.
struct pybind11_name_of {
    template <class Extra>
    std::pair<const char *, bool> operator()(const Extra &extra) const noexcept {
        if constexpr (std::is_base_of_v<pybind11::arg, Extra>) {
            return {extra.name, true};
        } else {
            return {nullptr, false};
        }
    }
};

// C++ class of a bound class; void for a module.
template <class Target, class = void> struct pybind11_class {
    using type = void;
};
template <class Target> struct pybind11_class<Target, std::void_t<typename Target::type>> {
    using type = typename Target::type;
};

template <class T, auto Describe> struct pybind11_producer {
    static array describe(pybind11::handle self) {
        return std::invoke(Describe, self.cast<const T &>());
    }
    static pybind11::object export_of(pybind11::handle self) {
        return pybind11::reinterpret_steal<pybind11::object>(pybind11_export(describe(self)));
    }
    static cai_status from_object(PyObject *object, cai_array *out, cai_error *why) noexcept {
        return fill(out, why, [object] {
            try {
                return describe(object);
            } catch (pybind11::error_already_set &raised) {
                raised.restore();
                throw;
            }
        });
    }
    static constexpr cai_unstable_exchange_api table = {sizeof(cai_unstable_exchange_api),
                                                        CAI_DATA_ABI, from_object, nullptr};
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

// Binds a function, as `target.def(name, function, extra...)` does. Messages then name the
// argument, with the name of its `pybind11::arg`: `argument 2 ("to"): typestr: found <f8, expected
// <f4`. Throws what `target.def` throws.
//
//   using pybind11::arg;
//   cai::def<&scale>(m, "scale", arg("data"), arg("factor"), arg("stream"));
//   cai::def(m, "size", [](cai::view<const float, 1> v) { return v.size(); }, arg("v"));
template <auto Function, class Target, class... Extra>
CAI_PRIVATE_HIDDEN void def(Target &&target, const char *name, const Extra &...extra) {
    using made = detail::constant<Function>;
    using bound_class = typename detail::pybind11_class<std::decay_t<Target>>::type;
    using bound =
        typename detail::signature<decltype(Function),
                                   bound_class>::type::template bound<made, detail::pybind11_cast>;
    constexpr bool is_module = std::is_base_of_v<pybind11::module_, std::decay_t<Target>>;
    detail::define(target, is_module ? 0 : 1, name, bound(made{}), detail::pybind11_name_of{},
                   extra...);
}
template <class Target, class Function, class... Extra>
CAI_PRIVATE_HIDDEN void def(Target &&target, const char *name, Function function,
                            const Extra &...extra) {
    static_assert(std::is_class_v<Function>, "write cai::def<&function>(target, name, ...)");
    using bound = typename detail::signature<Function, void>::of_object::template bound<
        Function, detail::pybind11_cast>;
    constexpr bool is_module = std::is_base_of_v<pybind11::module_, std::decay_t<Target>>;
    detail::define(target, is_module ? 0 : 1, name, bound(std::move(function)),
                   detail::pybind11_name_of{}, extra...);
}

// Makes a bound class a producer. Each export calls `Describe` with a `const T &`. It returns a
// cai::array, whose owner keeps the data alive (for example cai::make_owner of a std::shared_ptr).
// Consumers that use libcai read the objects without calling Python; others read them through
// `__cuda_array_interface__` and DLPack. Throws pybind11::error_already_set.
//
//   cai::publish<&describe>(pybind11::class_<Buffer>(m, "Buffer"));
template <auto Describe, class T, class... Options>
CAI_PRIVATE_HIDDEN void publish(pybind11::class_<T, Options...> cls) {
    using producer = detail::pybind11_producer<T, Describe>;
    detail::pybind11_translate();
    cai_error why;
    if (cai_unstable_python_publish(cls.ptr(), &producer::table, &why) != CAI_OK) {
        cai_python_raise(&why); // keeps the exception that is set already
        throw pybind11::error_already_set();
    }
    cls.def_property_readonly("__cuda_array_interface__",
                              [](pybind11::handle self) -> pybind11::object {
                                  return producer::export_of(self).attr("__cuda_array_interface__");
                              });
    cls.def("__dlpack__",
            [](pybind11::handle self, const pybind11::kwargs &options) -> pybind11::object {
                return producer::export_of(self).attr("__dlpack__")(**options);
            });
    cls.def("__dlpack_device__", [](pybind11::handle self) -> pybind11::object {
        return producer::export_of(self).attr("__dlpack_device__")();
    });
}

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_PYBIND11_HPP
