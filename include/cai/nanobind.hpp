// nanobind.hpp: GPU arrays as arguments and results of functions bound with nanobind. One include does it:
//
//   #include <cai/nanobind.hpp>
//
//   void scale(cai::view<float, 2> data, float factor, cai::stream stream) { ... }   // enqueues on `stream`
//
//   NB_MODULE(mine, m) { m.def("scale", &scale); }
//
// What arguments and results may be, which errors they raise and in which order streams are: as the beginning
// of <cai/pybind11.hpp> says.
//
// nanobind's casters cannot throw. An argument that must raise passes for loaded, and raises when the
// function is about to be called with it; so where a second argument is wrong too, nanobind speaks of that
// one.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_NANOBIND_HPP
#define CAI_NANOBIND_HPP

#include <nanobind/nanobind.h>

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
inline void nanobind_translate() noexcept {
    static const bool once = [] {
        nanobind::register_exception_translator([](const std::exception_ptr &thrown, void *) {
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

// An exception that waits for the moment when it may be thrown.
class nanobind_raise {
  public:
    bool after(outcome loaded) noexcept {
        raised_.reset();
        if (loaded == outcome::raised) {
            raised_.emplace();
            return true;
        }
        return loaded == outcome::taken;
    }
    bool waits() const noexcept { return raised_.has_value(); }
    void go() {
        if (raised_) {
            first_pass::over();
            throw nanobind::python_error(std::move(*raised_));
        }
    }

  private:
    std::optional<nanobind::python_error> raised_;
};

inline nanobind::handle nanobind_export(const array &result) noexcept {
    nanobind_translate();
    return export_array(result);
}

} // namespace detail
} // namespace cai

namespace NB_NAMESPACE {
namespace detail {

template <> struct type_caster<cai::array> {
    using Value = cai::array;
    static constexpr auto Name = const_name("Array");
    template <class T> using Cast = movable_cast_t<T>;
    // Asked by containers, which cannot wait for the exception.
    template <class T> bool can_cast() const noexcept { return !raise_.waits(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept {
        static constexpr char kind = 0;
        cai::detail::nanobind_translate();
        return raise_.after(cai::detail::load_array(source.ptr(), (flags & cast_flags::convert) != 0,
                                                    cai::detail::array_options(), &kind, value_));
    }
    static handle from_cpp(const cai::array &result, rv_policy, cleanup_list *) noexcept {
        return cai::detail::nanobind_export(result);
    }
    static handle from_cpp(const cai::array *result, rv_policy, cleanup_list *) noexcept {
        return result == nullptr ? none().release() : cai::detail::nanobind_export(*result);
    }

    explicit operator cai::array *() { return raise_.go(), &value_; }
    explicit operator cai::array &() { return raise_.go(), value_; }
    explicit operator cai::array &&() { return raise_.go(), std::move(value_); }

  private:
    cai::array value_;
    cai::detail::nanobind_raise raise_;
};

template <class T, std::size_t N> struct type_caster<cai::view<T, N>> {
    using Value = cai::view<T, N>;
    static constexpr auto Name = const_name(cai::detail::view_name<T, N>.value);
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return !raise_.waits(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept {
        if ((flags & cast_flags::manual) != 0) {
            return false; // nb::cast: the view would outlive its array
        }
        cai::detail::nanobind_translate();
        return raise_.after(argument_.load(source.ptr(), (flags & cast_flags::convert) != 0));
    }
    explicit operator Value &() { return raise_.go(), argument_.begin(); }

  private:
    cai::detail::view_argument<T, N> argument_;
    cai::detail::nanobind_raise raise_;
};

// Not that of <nanobind/stl/optional.h>, which would let the view's array go before the call.
template <class T, std::size_t N> struct type_caster<std::optional<cai::view<T, N>>> {
    using Value = std::optional<cai::view<T, N>>;
    static constexpr auto Name = optional_name(type_caster<cai::view<T, N>>::Name);
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return argument_.template can_cast<Value>(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        none_ = source.is_none();
        return none_ || argument_.from_python(source, flags, cleanup);
    }
    explicit operator Value &() {
        if (!none_) {
            value_.emplace(argument_.operator cai::view<T, N> &());
        }
        return value_;
    }

  private:
    type_caster<cai::view<T, N>> argument_;
    Value value_;
    bool none_ = false;
};
template <class T, std::size_t N>
struct remove_opt_mono<std::optional<cai::view<T, N>>> : remove_opt_mono<cai::view<T, N>> {};

template <class T, std::size_t N, class Allocator>
struct type_caster<std::vector<cai::view<T, N>, Allocator>> {
    static_assert(cai::detail::never<T>, "views would outlive their arrays: take std::vector<cai::array>");
};

template <> struct type_caster<cai::stream> {
    using Value = cai::stream;
    static constexpr auto Name = const_name("Stream");
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return !raise_.waits(); }

    bool from_python(handle source, std::uint32_t, cleanup_list *) noexcept {
        cai_stream found = 0;
        const bool loaded = raise_.after(cai::detail::load_stream(source.ptr(), found));
        if (loaded && !raise_.waits()) {
            argument_.load(found);
        }
        return loaded;
    }
    static handle from_cpp(cai::stream source, rv_policy, cleanup_list *) noexcept {
        return PyLong_FromUnsignedLongLong(source.get());
    }
    explicit operator Value &() { return raise_.go(), argument_.hand_over(); }

  private:
    cai::detail::call_stream argument_;
    cai::detail::nanobind_raise raise_;
};

// Not that of <nanobind/stl/optional.h>: the views would not find the stream any more.
template <> struct type_caster<std::optional<cai::stream>> {
    using Value = std::optional<cai::stream>;
    static constexpr auto Name = optional_name(type_caster<cai::stream>::Name);
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return argument_.template can_cast<Value>(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        none_ = source.is_none();
        return none_ || argument_.from_python(source, flags, cleanup);
    }
    explicit operator Value &() {
        if (!none_) {
            value_ = argument_.operator cai::stream &();
        }
        return value_;
    }

  private:
    type_caster<cai::stream> argument_;
    Value value_;
    bool none_ = false;
};
template <> struct remove_opt_mono<std::optional<cai::stream>> : remove_opt_mono<cai::stream> {};

// What takes None by itself. Older versions of nanobind have to be told, by nb::arg("...").none().
#if NB_VERSION_MAJOR >= 3
template <> struct has_arg_defaults<cai::stream> : std::true_type {};
template <> struct has_arg_defaults<std::optional<cai::stream>> : std::true_type {};
template <class T, std::size_t N> struct has_arg_defaults<std::optional<cai::view<T, N>>> : std::true_type {};
#endif

} // namespace detail
} // namespace NB_NAMESPACE

namespace cai {
namespace detail {

template <class T, auto Describe> struct nanobind_producer {
    static array describe(nanobind::handle self) {
        return std::invoke(Describe, nanobind::cast<const T &>(self));
    }
    static nanobind::object export_of(nanobind::handle self) {
        nanobind::object made = nanobind::steal(nanobind_export(describe(self)));
        if (!made.is_valid()) {
            throw nanobind::python_error();
        }
        return made;
    }
    static cai_status from_object(void *object, cai_array *out, cai_error *why) noexcept {
        return fill(out, why, [object] {
            try {
                return describe(static_cast<PyObject *>(object));
            } catch (nanobind::python_error &raised) {
                raised.restore();
                throw;
            }
        });
    }
    static constexpr cai_exchange_api table = {sizeof(cai_exchange_api), CAI_ABI_MAJOR, from_object, nullptr};
};

} // namespace detail

// Makes a bound class a producer: `Describe` is called with a `const T &` and returns a cai::array, whose
// owner keeps the data alive (a std::shared_ptr to it, say: cai::make_owner). Consumers that know libcai take
// its objects without going through Python, all others through `__cuda_array_interface__` and DLPack.
//
//   cai::publish<&describe>(nanobind::class_<Buffer>(m, "Buffer"));
template <auto Describe, class T, class... Options> void publish(nanobind::class_<T, Options...> cls) {
    using producer = detail::nanobind_producer<T, Describe>;
    detail::nanobind_translate();
    cai_error why;
    if (cai_python_publish(cls.ptr(), &producer::table, &why) != CAI_OK) {
        cai_python_raise(&why); // has raised already, unless something is very wrong
        throw nanobind::python_error();
    }
    cls.def_prop_ro("__cuda_array_interface__", [](nanobind::handle_t<T> self) -> nanobind::object {
        return producer::export_of(self).attr("__cuda_array_interface__");
    });
    cls.def("__dlpack__",
            [](nanobind::handle_t<T> self, const nanobind::kwargs &options) -> nanobind::object {
                return producer::export_of(self).attr("__dlpack__")(**options);
            });
    cls.def("__dlpack_device__", [](nanobind::handle_t<T> self) -> nanobind::object {
        return producer::export_of(self).attr("__dlpack_device__")();
    });
}

} // namespace cai

#endif // CAI_NANOBIND_HPP
