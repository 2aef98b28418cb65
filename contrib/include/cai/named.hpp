// cai/named.hpp (unstable: may change in any minor release): names of arguments in signatures, and
// in the messages of functions that `cai::def` binds. A part of cai/pybind11.hpp and
// cai/nanobind.hpp, which include it.
//
// Neither binding library passes the position of an argument to its caster. `cai::def` therefore
// binds a function that has a separate parameter type for each position.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_NAMED_HPP
#define CAI_NAMED_HPP

#include "arguments.hpp"

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cai {
inline namespace CAI_PRIVATE_NAMESPACE {
namespace detail CAI_PRIVATE_HIDDEN {

// --- names

constexpr const char *code_name(std::uint16_t code) noexcept {
#define CAI_PRIVATE_NAME(kind, bytes, number, name) \
    if (code == number) return name;
    CAI_PRIVATE_CODED_TYPES(CAI_PRIVATE_NAME)
#undef CAI_PRIVATE_NAME
    return "opaque";
}

// Name of a view in messages: `Array[float32, 2]` or `Array[float32, 2, contiguous]`, with
// `, writable` if T is not const. In signatures it is an annotation that type checkers understand:
// `typing.Annotated[libcai.ArrayLike, "float32, 2"]`.
template <std::size_t Length> struct name_text {
    char value[Length + 1];
};

template <class View> constexpr std::size_t write_name(char *out, bool annotation) {
    using T = typename View::element_type;
    using value_type = std::remove_cv_t<T>;
    constexpr char kind = kind_of<value_type>();
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
    constexpr bool host = (view_traits<View>::options().flags & CAI_IMPORT_ALLOW_HOST) != 0;
    put(!annotation ? "Array["
        : host      ? "typing.Annotated[libcai.ArrayLike | libcai.HostArrayLike, \""
                    : "typing.Annotated[libcai.ArrayLike, \"");
    if constexpr (kind == 0) {
        put("byte");
    } else if constexpr (kind == 'b') {
        put("bool");
    } else if constexpr (code != CAI_DTYPE_NONE) {
        put(code_name(code));
    } else {
        put(kind == 'i'   ? "int"
            : kind == 'u' ? "uint"
            : kind == 'f' ? "float"
            : kind == 'c' ? "complex"
                          : "opaque");
        number(sizeof(T) * 8);
    }
    if constexpr (view_traits<View>::ndim != any_rank) {
        put(", ");
        number(static_cast<std::size_t>(view_traits<View>::ndim));
    }
    if constexpr (view_traits<View>::contiguous) {
        put(", contiguous");
    }
    put(std::is_const_v<T> ? "" : ", writable");
    put(annotation ? "\"]" : "]");
    return length;
}

template <class View, bool Annotation> constexpr auto make_name() {
    name_text<write_name<View>(nullptr, Annotation)> text{};
    write_name<View>(text.value, Annotation);
    return text;
}

template <class View> inline constexpr auto view_name = make_name<View, false>();
template <class View> inline constexpr auto view_annotation = make_name<View, true>();

// --- functions

// Types whose casters name the argument.
template <class T> struct is_named : std::false_type {};
template <> struct is_named<array> : std::true_type {};
template <> struct is_named<masked_array> : std::true_type {};
template <> struct is_named<stream> : std::true_type {};
template <class T, std::size_t N> struct is_named<view<T, N>> : std::true_type {};
template <class T, int N> struct is_named<contiguous_view<T, N>> : std::true_type {};
template <class T, std::size_t N> struct is_named<any_view<T, N>> : std::true_type {};
template <class View> struct is_named<like<View>> : std::true_type {};
template <class T> struct is_named<std::optional<T>> : is_named<T> {};
template <class Allocator> struct is_named<std::vector<array, Allocator>> : std::true_type {};
template <class Allocator>
struct is_named<std::vector<masked_array, Allocator>> : std::true_type {};

// Positions and names of a function's arguments, which `cai::def` sets. `Function` is a different
// type for each function. A function that is bound several times has one table, without the entries
// that differ, because a caster does not know which binding is called.
template <class Function, std::size_t Count> struct argument_places {
    static inline std::array<argument_place, Count> places = {};
    static inline std::array<std::string, Count> names = {};
    static inline bool bound = false;

    // `self` is 1 for a method, whose first argument has neither a number nor a name.
    static void set(std::size_t self, const std::array<const char *, Count + 1> &given) {
        for (std::size_t index = 0; index < Count; ++index) {
            argument_place &place = places[index];
            const std::size_t number = index < self ? 0 : index - self + 1;
            const char *name = number != 0 ? given[number - 1] : nullptr;
            if (!bound) {
                names[index] = name != nullptr ? name : "";
                place = {number, name != nullptr ? names[index].c_str() : nullptr};
                continue;
            }
            if (place.number != number) {
                place.number = 0;
            }
            if (name == nullptr || names[index] != name) {
                place.name = nullptr;
            }
        }
        bound = true;
    }
};

// Parameter at a position: refers to the caster that loaded it.
template <class Function, std::size_t Index, std::size_t Count, class A> struct placed {
    void *caster = nullptr;
};

// Records the argument that is being loaded, while it exists.
template <class Function, std::size_t Index, std::size_t Count> class loading {
  public:
    loading() noexcept : before_(this_thread.argument) {
        const argument_place &place = argument_places<Function, Count>::places[Index];
        this_thread.argument = place.number != 0 ? &place : nullptr;
    }
    loading(const loading &) = delete;
    loading &operator=(const loading &) = delete;
    ~loading() { this_thread.argument = before_; }

  private:
    const argument_place *before_;
};

template <class Function, std::size_t Index, std::size_t Count, class A>
using parameter = std::conditional_t<is_named<std::remove_cv_t<std::remove_reference_t<A>>>::value,
                                     placed<Function, Index, Count, A> &, A>;

// Bound function: calls the function with the values that the casters loaded.
template <class Function, class Library, class R, class Indices, class... A> class named_function;
template <class Function, class Library, class R, std::size_t... Index, class... A>
class named_function<Function, Library, R, std::index_sequence<Index...>, A...> {
  public:
    static constexpr std::size_t count = sizeof...(A);
    using places = argument_places<Function, count>;

    explicit named_function(Function given) : function_(std::move(given)) {}
    R operator()(parameter<Function, Index, sizeof...(A), A>... given) const {
        return detail::invoke(function_, pass<A>(given)...);
    }

  private:
    template <class T, std::size_t I>
    static decltype(auto) pass(placed<Function, I, count, T> &given) {
        return Library::template value_of<T>(given.caster);
    }
    template <class T> static T &&pass(std::remove_reference_t<T> &given) {
        return static_cast<T &&>(given);
    }

    mutable Function function_;
};

// Result and parameters of a callable type. The parameters of a member function begin with the
// object. Its type is `T`, the class for which the function is bound, if `T` is derived from the
// function's own class.
template <class R, class... A> struct parameters {
    template <class Function, class Library>
    using bound = named_function<Function, Library, R, std::index_sequence_for<A...>, A...>;
};
template <class C, class T>
using object_type = std::conditional_t<std::is_base_of_v<std::remove_const_t<C>, T>,
                                       std::conditional_t<std::is_const_v<C>, const T, T>, C>;
template <class R, class C, class T, class... A> struct member_signature {
    using type = parameters<R, object_type<C, T> &, A...>;
    using without_object = parameters<R, A...>;
};
template <class F, class T> struct signature : signature<decltype(&F::operator()), T> {
    using of_object = typename signature<decltype(&F::operator()), T>::without_object;
};
template <class R, class T, class... A> struct signature<R (*)(A...), T> {
    using type = parameters<R, A...>;
};
template <class R, class T, class... A>
struct signature<R (*)(A...) noexcept, T> : signature<R (*)(A...), T> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...), T> : member_signature<R, C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) const, T> : member_signature<R, const C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) &, T> : member_signature<R, C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) const &, T> : member_signature<R, const C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) noexcept, T> : member_signature<R, C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) const noexcept, T> : member_signature<R, const C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) & noexcept, T> : member_signature<R, C, T, A...> {};
template <class R, class C, class T, class... A>
struct signature<R (C::*)(A...) const & noexcept, T> : member_signature<R, const C, T, A...> {};

// Type that calls one function.
template <auto Pointer> struct constant {
    template <class... A> decltype(auto) operator()(A &&...given) const {
        return detail::invoke(Pointer, std::forward<A>(given)...);
    }
};

// Binds `bound` with the names that are among the annotations.
template <class Library, class Bound, class Target, class... Extra>
void define(Target &target, const char *name, Bound bound, const Extra &...extra) {
    std::array<const char *, Bound::count + 1> names = {};
    [[maybe_unused]] std::size_t next = 0;
    [[maybe_unused]] const auto take = [&](std::pair<const char *, bool> found) {
        if (found.second && next < names.size()) {
            names[next++] = found.first;
        }
    };
    (take(Library::name_of(extra)), ...);
    Bound::places::set(Library::is_module ? 0 : 1, names);
    target.def(name, std::move(bound), extra...);
}

} // namespace detail CAI_PRIVATE_HIDDEN

// Binds a function, as `target.def(name, function, extra...)` does. Messages then name the
// argument, with the name of its `arg` of the binding library: `argument 2 ("to"): typestr: found
// <f8, expected <f4`. Throws what `target.def` throws.
//
//   using pybind11::arg;
//   cai::def<&scale>(m, "scale", arg("data"), arg("factor"), arg("stream"));
//   cai::def(m, "size", [](cai::view<const float, 1> v) { return v.size(); }, arg("v"));
template <auto Function, class Target, class... Extra>
CAI_PRIVATE_HIDDEN void def(Target &&target, const char *name, const Extra &...extra) {
    using library = detail::library<std::decay_t<Target>>;
    using made = detail::constant<Function>;
    using found = detail::signature<decltype(Function), typename library::bound_class>;
    using bound = typename found::type::template bound<made, library>;
    detail::define<library>(target, name, bound(made{}), extra...);
}
template <class Target, class Function, class... Extra>
CAI_PRIVATE_HIDDEN void def(Target &&target, const char *name, Function function,
                            const Extra &...extra) {
    static_assert(std::is_class_v<Function>, "write cai::def<&function>(target, name, ...)");
    using library = detail::library<std::decay_t<Target>>;
    using found = typename detail::signature<Function, void>::of_object;
    using bound = typename found::template bound<Function, library>;
    detail::define<library>(target, name, bound(std::move(function)), extra...);
}
} // namespace CAI_PRIVATE_NAMESPACE
} // namespace cai

#endif // CAI_NAMED_HPP
