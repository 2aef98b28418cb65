// cai/nanobind.hpp (unstable: may change in any minor release): GPU arrays as arguments and results
// of functions bound with nanobind.
//
//   #include <cai/nanobind.hpp>
//
//   // enqueues work on `stream`
//   void scale(cai::view<float, 2> data, float factor, cai::stream stream) { ... }
//
//   NB_MODULE(mine, m) { m.def("scale", &scale); }
//
// The first comment of <cai/pybind11.hpp> describes the arguments and results, their exceptions,
// the order of streams and thread safety.
//
// nanobind's casters cannot throw. An argument that must raise an exception counts as loaded, and
// raises it just before the function is called. If a later argument is wrong as well, nanobind
// reports that one instead.
//
// nanobind's stubgen has no name for the type of `__cai_exchange_api__`, an attribute that
// cai::publish sets. A line `__cai_exchange_api__$:` in its pattern file leaves it out.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_NANOBIND_HPP
#define CAI_NANOBIND_HPP

#include <nanobind/nanobind.h>

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
inline void nanobind_translate() noexcept {
    static const bool once = [] {
        nanobind::register_exception_translator([](const std::exception_ptr &thrown, void *) {
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

// Exception that is thrown later, when that is allowed.
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

} // namespace detail CAI_PRIVATE_HIDDEN
} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

namespace NB_NAMESPACE {
namespace detail {

// Annotations of an argument and of a result. Before 3.0 there is one for both.
#if NB_VERSION_MAJOR >= 3
#define CAI_PRIVATE_IO_NAME(argument, result) io_name(argument, result)
#else
#define CAI_PRIVATE_IO_NAME(argument, result) const_name(argument)
#endif

template <class Array, std::uint32_t Flags> struct cai_array_caster {
    using Value = Array;
    static constexpr auto Name = CAI_PRIVATE_IO_NAME("libcai.ArrayLike", "libcai.Array");
    template <class T> using Cast = movable_cast_t<T>;
    // Called by containers, which cannot wait for the exception.
    template <class> bool can_cast() const noexcept { return !raise_.waits(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept {
        static constexpr char kind = 0;
        static constexpr cai_import_options options = cai::detail::options_with(Flags);
        cai::detail::nanobind_translate();
        return raise_.after(cai::detail::load_array(
            source.ptr(), (flags & cast_flags::convert) != 0, options, &kind, "Array", value_));
    }
    static handle from_cpp(const cai::array &result, rv_policy, cleanup_list *) noexcept {
        return cai::detail::nanobind_export(result);
    }
    static handle from_cpp(const cai::array *result, rv_policy, cleanup_list *) noexcept {
        return result == nullptr ? none().release() : cai::detail::nanobind_export(*result);
    }

    explicit operator Array *() { return &operator Array &(); }
    explicit operator Array &() {
        raise_.go();
        cai::detail::first_pass::over();
        return value_;
    }
    // Called by containers, too, while other overloads may still be tried.
    explicit operator Array &&() { return raise_.go(), std::move(value_); }

  private:
    Array value_;
    cai::detail::nanobind_raise raise_;
};
template <> struct type_caster<cai::array> : cai_array_caster<cai::array, 0> {};
template <>
struct type_caster<cai::masked_array> : cai_array_caster<cai::masked_array, CAI_IMPORT_ALLOW_MASK> {
};

template <class View> struct cai_view_caster {
    using Value = View;
    static constexpr auto Name = const_name(cai::detail::view_annotation<View>.value);
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return !raise_.waits(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept {
        if ((flags & cast_flags::manual) != 0) {
            return false; // nb::cast: the view would outlive its array
        }
        cai::detail::nanobind_translate();
        return raise_.after(argument_.load(source.ptr(), (flags & cast_flags::convert) != 0,
                                           cai::detail::view_name<View>.value));
    }
    explicit operator Value &() { return raise_.go(), argument_.begin(); }

  private:
    cai::detail::view_argument<View> argument_;
    cai::detail::nanobind_raise raise_;
};
template <class T, std::size_t N>
struct type_caster<cai::view<T, N>> : cai_view_caster<cai::view<T, N>> {};
template <class T, int N>
struct type_caster<cai::contiguous_view<T, N>> : cai_view_caster<cai::contiguous_view<T, N>> {};
template <class T, std::size_t N>
struct type_caster<cai::any_view<T, N>> : cai_view_caster<cai::any_view<T, N>> {};

template <class View> struct type_caster<cai::like<View>> {
    using Value = cai::like<View>;
    static constexpr auto Name = type_caster<View>::Name;
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return argument_.template can_cast<View>(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        cai::detail::results::set(value_, source.ptr());
        return argument_.from_python(source, flags, cleanup);
    }
    explicit operator Value &() {
        cai::detail::results::set(value_, argument_.operator View &());
        return value_;
    }

  private:
    type_caster<View> argument_;
    Value value_;
};

template <class View> struct type_caster<cai::result<View>> {
    using Value = cai::result<View>;
    static constexpr auto Name = const_name("typing.Any");
    static handle from_cpp(Value &&source, rv_policy, cleanup_list *) noexcept {
        return cai::detail::results::take(source);
    }
};

// The caster of <nanobind/stl/optional.h> would release a view's array before the call, and hide a
// stream from the views.
template <class T> struct cai_optional_caster {
    using Value = std::optional<T>;
    static constexpr auto Name = optional_name(type_caster<T>::Name);
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return argument_.template can_cast<Value>(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        none_ = source.is_none();
        return none_ || argument_.from_python(source, flags, cleanup);
    }
    explicit operator Value &() {
        if (!none_) {
            value_.emplace(argument_.operator T &());
        }
        return value_;
    }

  private:
    type_caster<T> argument_;
    Value value_;
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
template <class T, std::size_t N>
struct remove_opt_mono<std::optional<cai::any_view<T, N>>> : remove_opt_mono<cai::any_view<T, N>> {
};
template <class T, std::size_t N>
struct remove_opt_mono<std::optional<cai::view<T, N>>> : remove_opt_mono<cai::view<T, N>> {};
template <class T, int N>
struct remove_opt_mono<std::optional<cai::contiguous_view<T, N>>>
    : remove_opt_mono<cai::contiguous_view<T, N>> {};

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
    using Value = cai::stream;
    static constexpr auto Name = CAI_PRIVATE_IO_NAME("libcai.StreamLike", "int");
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return !raise_.waits(); }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept {
        cai_stream found = 0;
        const bool loaded = raise_.after(
            cai::detail::load_stream(source.ptr(), (flags & cast_flags::convert) != 0, found));
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

template <> struct type_caster<std::optional<cai::stream>> : cai_optional_caster<cai::stream> {};
template <> struct remove_opt_mono<std::optional<cai::stream>> : remove_opt_mono<cai::stream> {};
#undef CAI_PRIVATE_IO_NAME

// An argument of a function bound with cai::def.
template <class Function, std::size_t Index, std::size_t Count, class A>
struct type_caster<cai::detail::placed<Function, Index, Count, A>> {
    using Value = cai::detail::placed<Function, Index, Count, A>;
    static constexpr auto Name = make_caster<remove_opt_mono_t<intrinsic_t<A>>>::Name;
    template <class> using Cast = Value &;
    template <class> bool can_cast() const noexcept { return true; }

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        const cai::detail::loading<Function, Index, Count> here;
        return caster_.from_python(source, flags, cleanup);
    }
    explicit operator Value &() {
        value_.caster = &caster_;
        return value_;
    }

  private:
    make_caster<A> caster_;
    Value value_;
};

// Types that accept None. Older versions of nanobind need nb::arg("...").none().
#if NB_VERSION_MAJOR >= 3
template <class Function, std::size_t Index, std::size_t Count, class A>
struct has_arg_defaults<cai::detail::placed<Function, Index, Count, A>>
    : has_arg_defaults<intrinsic_t<A>> {};
template <> struct has_arg_defaults<cai::stream> : std::true_type {};
template <> struct has_arg_defaults<std::optional<cai::stream>> : std::true_type {};
template <class T, std::size_t N>
struct has_arg_defaults<std::optional<cai::view<T, N>>> : std::true_type {};
template <class T, std::size_t N>
struct has_arg_defaults<std::optional<cai::any_view<T, N>>> : std::true_type {};
template <class T, int N>
struct has_arg_defaults<std::optional<cai::contiguous_view<T, N>>> : std::true_type {};
#endif

} // namespace detail
} // namespace NB_NAMESPACE

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {
namespace detail CAI_PRIVATE_HIDDEN {

// C++ class of a bound class; void for a module.
template <class Target, class = void> struct nanobind_class {
    using type = void;
};
template <class Target> struct nanobind_class<Target, std::void_t<typename Target::Type>> {
    using type = typename Target::Type;
};

template <class Target>
struct library<Target, std::enable_if_t<std::is_base_of_v<nanobind::handle, Target>>> {
    using bound_class = typename nanobind_class<Target>::type;
    static constexpr bool is_module = std::is_base_of_v<nanobind::module_, Target>;
    using self = nanobind::handle_t<bound_class>;
    using object = nanobind::object;
    using kwargs = nanobind::kwargs;
    using python_error = nanobind::python_error;

    static void translate() noexcept { nanobind_translate(); }
    static object steal(PyObject *made) { return nanobind::steal(made); }
    static decltype(auto) instance(PyObject *object) {
        return nanobind::cast<const bound_class &>(nanobind::handle(object));
    }
    template <class Getter> static void property(Target &cls, const char *name, Getter getter) {
        cls.def_prop_ro(name, getter);
    }
    template <class A> static decltype(auto) value_of(void *caster) {
        return static_cast<nanobind::detail::make_caster<A> *>(caster)
            ->operator nanobind::detail::cast_t<A>();
    }
    template <class Extra>
    static std::pair<const char *, bool> name_of(const Extra &extra) noexcept {
        return name_of(extra, 0);
    }

  private:
    template <class Extra>
    static auto name_of(const Extra &extra, int) noexcept
        -> decltype(extra.signature_, std::pair<const char *, bool>(extra.name_, true)) {
        return {extra.name_, true};
    }
    template <class Extra>
    static std::pair<const char *, bool> name_of(const Extra &, long) noexcept {
        return {nullptr, false};
    }
};

} // namespace detail CAI_PRIVATE_HIDDEN

// Imports an object with options of your own, in the `from_python` of a caster of yours or in a
// function that takes any object. Returns nothing if the object is no array, or if `convert` is
// false and the array does not match: another overload may take it. Otherwise throws
// nanobind::python_error: the reason why the array does not match, or the object's exception. A
// caster, which is noexcept, must catch it. The stream of the options is that of the call.
//
//   bool from_python(handle source, std::uint8_t flags, cleanup_list *) noexcept try {
//       cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
//       options.flags = CAI_IMPORT_QUERY_DEVICE;
//       std::optional<cai::array> found =
//           cai::from_python(source, options, (flags & cast_flags::convert) != 0);
//       if (found) value = Buffer(std::move(*found));
//       return found.has_value();
//   } catch (const nanobind::python_error &) {
//       return false; // the exception of the call has the signature, not the reason
//   }
CAI_PRIVATE_HIDDEN inline std::optional<array>
from_python(nanobind::handle source, const cai_import_options &options, bool convert = true) {
    static constexpr char kind = 0;
    std::optional<array> found(std::in_place);
    const auto loaded = detail::load_array(source.ptr(), convert, options, &kind, "Array", *found);
    if (loaded == detail::outcome::raised) {
        throw nanobind::python_error();
    }
    if (loaded == detail::outcome::declined) {
        found.reset();
    }
    return found;
}

} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_NANOBIND_HPP
