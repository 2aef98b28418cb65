// pybind11.hpp: GPU arrays as arguments and results of functions bound with pybind11. One include does it:
//
//   #include <cai/pybind11.hpp>
//
//   void scale(cai::view<float, 2> data, float factor, cai::stream stream) { ... }   // enqueues on `stream`
//
//   PYBIND11_MODULE(mine, m) { m.def("scale", &scale); }
//
//   cai::view<T, N>  takes any GPU array of that type and number of dimensions: of CuPy, PyTorch, Numba,
//   JAX...
//                    While the function runs, its array is kept alive, and the producer's stream and the
//                    call's are in order: the call's is that of the cai::stream among the arguments, else the
//                    default stream that the compiler's options choose. T is const where the function only
//                    reads.
//   cai::array       takes any GPU array, masks and all, and may be kept. Nothing is ordered: see
//   cai::consumer.
//                    As a result, an object that all those libraries take.
//   cai::stream      a CUDA stream.
//   cai::publish     makes a bound class of yours a producer.
//
// std::optional of each takes None, too; a cai::stream takes it as the default stream. An argument that does
// not fit raises what cai_array_from_python says, with what was found and what was expected; of overloaded
// functions pybind11 lists the signatures. A cai::error that leaves a bound function becomes the Python
// exception that belongs to it.
//
// Link the library as for cai.h; python-side nothing is needed.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_PYBIND11_HPP
#define CAI_PYBIND11_HPP

#include <pybind11/pybind11.h>

#include <cai/arguments.hpp>

#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace cai {
namespace detail {

// Errors that leave a function's body become the exceptions that they mean. Set up when the first argument or
// result is looked at: no function can throw one earlier.
inline void pybind11_translate() {
    static const bool once = [] {
        pybind11::register_local_exception_translator([](std::exception_ptr thrown) {
            try {
                std::rethrow_exception(thrown);
            } catch (const error &failed) {
                cai_python_raise(&failed.get());
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

} // namespace detail
} // namespace cai

namespace PYBIND11_NAMESPACE {
namespace detail {

template <> struct type_caster<cai::array> {
    static constexpr auto name = const_name("Array");
    template <class T> using cast_op_type = movable_cast_op_type<T>;

    bool load(handle source, bool convert) {
        static constexpr char kind = 0;
        cai::detail::pybind11_translate();
        return cai::detail::pybind11_loaded(
            cai::detail::load_array(source.ptr(), convert, cai::detail::array_options(), &kind, value_));
    }
    static handle cast(const cai::array &result, return_value_policy, handle) {
        return cai::detail::pybind11_export(result);
    }
    static handle cast(const cai::array *result, return_value_policy, handle) {
        return result == nullptr ? none().release() : cai::detail::pybind11_export(*result);
    }

    explicit operator cai::array *() { return &value_; }
    explicit operator cai::array &() { return value_; }
    explicit operator cai::array &&() && { return std::move(value_); }

  private:
    cai::array value_;
};

template <class T, std::size_t N> struct type_caster<cai::view<T, N>> {
    static constexpr auto name = const_name(cai::detail::view_name<T, N>.value);
    template <class U> using cast_op_type = cai::view<T, N> &;

    bool load(handle source, bool convert) {
        cai::detail::pybind11_translate();
        return cai::detail::pybind11_loaded(argument_.load(source.ptr(), convert));
    }
    operator cai::view<T, N> &() { return argument_.begin(); }

  private:
    cai::detail::view_argument<T, N> argument_;
};

// Not that of <pybind11/stl.h>, which would let the view's array go before the call.
template <class T, std::size_t N> struct type_caster<std::optional<cai::view<T, N>>> {
    static constexpr auto name = const_name(cai::detail::view_name<T, N>.value) + const_name(" | None");
    template <class U> using cast_op_type = std::optional<cai::view<T, N>> &;

    bool load(handle source, bool convert) {
        none_ = source.is_none();
        if (none_) {
            return true;
        }
        cai::detail::pybind11_translate();
        return cai::detail::pybind11_loaded(argument_.load(source.ptr(), convert));
    }
    operator std::optional<cai::view<T, N>> &() {
        if (!none_) {
            value_.emplace(argument_.begin());
        }
        return value_;
    }

  private:
    cai::detail::view_argument<T, N> argument_;
    std::optional<cai::view<T, N>> value_;
    bool none_ = false;
};

template <class T, std::size_t N, class Allocator>
struct type_caster<std::vector<cai::view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>, "views would outlive their arrays: take std::vector<cai::array>");
};

template <> struct type_caster<cai::stream> {
    static constexpr auto name = const_name("Stream");
    template <class T> using cast_op_type = cai::stream &;

    bool load(handle source, bool) {
        cai_stream found = 0;
        if (!cai::detail::pybind11_loaded(cai::detail::load_stream(source.ptr(), found))) {
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

// Not that of <pybind11/stl.h>: the views would not find the stream any more.
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

} // namespace detail
} // namespace PYBIND11_NAMESPACE

namespace cai {
namespace detail {

template <class T, auto Describe> struct pybind11_producer {
    static array describe(pybind11::handle self) { return std::invoke(Describe, self.cast<const T &>()); }
    static pybind11::object export_of(pybind11::handle self) {
        return pybind11::reinterpret_steal<pybind11::object>(pybind11_export(describe(self)));
    }
    static cai_status from_object(void *object, cai_array *out, cai_error *why) noexcept {
        return fill(out, why, [object] {
            try {
                return describe(static_cast<PyObject *>(object));
            } catch (pybind11::error_already_set &raised) {
                raised.restore();
                throw;
            }
        });
    }
    static constexpr cai_exchange_api table = {sizeof(cai_exchange_api), CAI_ABI_MAJOR, from_object, nullptr};
};

} // namespace detail

// Makes a bound class a producer: `describe` is called with a `const T &` and returns a cai::array, whose
// owner keeps the data alive (a std::shared_ptr to it, say: cai::make_owner). Consumers that know libcai take
// its objects without going through Python, all others through `__cuda_array_interface__` and DLPack.
//
//   cai::publish<&describe>(pybind11::class_<Buffer>(m, "Buffer"));
template <auto Describe, class T, class... Options> void publish(pybind11::class_<T, Options...> cls) {
    using producer = detail::pybind11_producer<T, Describe>;
    detail::pybind11_translate();
    cai_error why;
    if (cai_python_publish(cls.ptr(), &producer::table, &why) != CAI_OK) {
        cai_python_raise(&why); // has raised already, unless something is very wrong
        throw pybind11::error_already_set();
    }
    cls.def_property_readonly("__cuda_array_interface__", [](pybind11::handle self) -> pybind11::object {
        return producer::export_of(self).attr("__cuda_array_interface__");
    });
    cls.def("__dlpack__", [](pybind11::handle self, const pybind11::kwargs &options) -> pybind11::object {
        return producer::export_of(self).attr("__dlpack__")(**options);
    });
    cls.def("__dlpack_device__", [](pybind11::handle self) -> pybind11::object {
        return producer::export_of(self).attr("__dlpack_device__")();
    });
}

} // namespace cai

#endif // CAI_PYBIND11_HPP
