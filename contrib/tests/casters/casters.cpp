// The functions that inside.py calls, bound with pybind11 and, with -DUSE_NANOBIND, with nanobind.
#ifdef USE_NANOBIND
#include <cai/nanobind.hpp>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
namespace py = nanobind;
using function = py::callable;
#define MODULE NB_MODULE(casters_nanobind, m)
#else
#include <cai/pybind11.hpp>
#include <pybind11/stl.h>
namespace py = pybind11;
using function = py::function;
#ifndef NAME
#define NAME casters_pybind11
#endif
#define MODULE PYBIND11_MODULE(NAME, m)
#endif

#include <cuda_runtime_api.h>

#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct bfloat16 {
    std::uint16_t bits;
};
template <> struct cai::element<bfloat16> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_BFLOAT16;
};

namespace {

template <std::size_t N> using numbers = cai::view<float, N>;
using read_only = cai::view<const float, 1>;

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorName(code));
}

// Work on a stream, standing for kernels.
template <std::size_t N> void write(const numbers<N> &to, int byte, cudaStream_t stream) {
    check(cudaMemsetAsync(to.data(), byte, static_cast<std::size_t>(to.size()) * sizeof(float),
                          stream));
}
void copy(const read_only &from, const numbers<1> &to, cudaStream_t stream) {
    check(cudaMemcpyAsync(to.data(), from.data(),
                          static_cast<std::size_t>(from.size()) * sizeof(float),
                          cudaMemcpyDeviceToDevice, stream));
}

void copy_on(read_only from, const numbers<1> &to, cai::stream s) { copy(from, to, s); }
std::int64_t scaled(int factor, read_only v) { return factor * v.size(); }
std::int64_t length(const read_only &v) { return v.size(); }
std::int64_t length_by_two_names(const read_only &v) { return v.size(); }
std::size_t total(const std::vector<cai::array> &arrays, const std::vector<cai::masked_array> &m) {
    return arrays.size() + m.size();
}

std::vector<cai::array> kept;

// A foreign buffer class.
struct buffer {
    std::shared_ptr<void> memory;
    std::int64_t shape[1];
    bool same_size(const read_only &other) const { return other.size() == shape[0]; }
};

// A class whose methods are those of a base that is not bound.
struct base {
    std::int64_t add = 1;
    std::int64_t plus(const read_only &v) const & { return v.size() + add; }
    std::int64_t grow(const read_only &v) & noexcept { return add += v.size(); }
};
struct derived : base {};
std::int64_t plus(const derived &it, const read_only &v) { return it.plus(v); }

// A class with a caster of its own, which asks for more than that of cai::array.
struct own {
    std::int32_t device = -1;
};
cai_import_options own_options() {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = CAI_IMPORT_QUERY_DEVICE;
    return options;
}
bool take_own(py::handle source, bool convert, own &value) {
    const std::optional<cai::array> found = cai::from_python(source, own_options(), convert);
    if (found) value.device = found->get().device.id;
    return found.has_value();
}

cai::array describe(const buffer &it) {
    if (it.shape[0] == 0)
        throw cai::error(CAI_ERR_UNSUPPORTED, "buffer", "found no elements, expected some");
    return cai::array::make(static_cast<float *>(it.memory.get()), {it.shape[0]}, CAI_STREAM_NONE,
                            cai::cuda_device(0), cai::make_owner(it.memory));
}

buffer make_buffer(std::int64_t count) {
    void *memory = nullptr;
    check(cudaMalloc(&memory, 16 + static_cast<std::size_t>(count) * sizeof(float)));
    return {std::shared_ptr<void>(memory, [](void *it) { cudaFree(it); }), {count}};
}

} // namespace

#ifdef USE_NANOBIND
template <> struct nanobind::detail::type_caster<own> {
    NB_TYPE_CASTER(own, const_name("libcai.ArrayLike"))
    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept try {
        return take_own(source, (flags & cast_flags::convert) != 0, value);
    } catch (const nanobind::python_error &) {
        return false;
    }
    static handle from_cpp(const own &, rv_policy, cleanup_list *) noexcept { return nullptr; }
};
#else
template <> struct pybind11::detail::type_caster<own> {
    PYBIND11_TYPE_CASTER(own, const_name("libcai.ArrayLike"));
    bool load(handle source, bool convert) { return take_own(source, convert, value); }
};
#endif

MODULE {
    // What ages.py calls: all that the module of the later age has.
    m.def("keep", [](cai::array given) { kept.push_back(std::move(given)); });
    m.def("drop", [] { kept.clear(); }, py::call_guard<py::gil_scoped_release>());
    m.def("echo", [](const cai::array &given) { return given.share(); });
    m.def("has_mask", [](const cai::masked_array &given) { return given.mask() != nullptr; });
    m.def("size", [](read_only v) { return v.size(); });
    m.def("size2", [](const cai::view<const float, 2> &v) { return v.size(); });
    m.def("size_mutable", [](numbers<1> v) { return v.size(); });
    m.def("flat", [](cai::contiguous_view<const float> v) { return v.size(); });
    m.def(
        "fill", [](numbers<1> to, int byte, cai::stream s) { write(to, byte, s); }, py::arg("to"),
        py::arg("byte"), py::arg("stream") = py::none());
    py::class_<buffer> bound(m, "Memory");
    cai::def<&buffer::same_size>(bound, "same_size", py::arg("other"));
    m.def("buffer", &make_buffer);
    cai::publish<&describe>(bound);

#ifndef LATER
    // Arrays.
    m.def("pass_on", [](cai::array given) { return given; });
    m.def("stream", [](const cai::array &given) { return given.stream(); });
    m.def("count", [](const std::vector<cai::array> &given) { return given.size(); });
    m.def(
        "maybe_array",
        [](std::optional<cai::array> given) { return given ? given->layout().count : -1; },
        py::arg("given") = py::none());
    m.def("nothing", [] { return cai::array(); });
    m.def("view_inside",
          [](const cai::array &given) { return cai::view<const double, 3>(given).size(); });

    // Views.
    m.def("size_or", [](read_only v, int) { return v.size(); }, py::arg("v"), py::arg("other") = 1);
    m.def("flat2", [](cai::contiguous_view<const float, 2> v) { return v.size(); });
    m.def("flat_mutable", [](cai::contiguous_view<float> v) { return v.ndim(); });
    m.def(
        "maybe_flat",
        [](std::optional<cai::contiguous_view<const float>> v) { return v ? v->size() : -1; },
        py::arg("v") = py::none());
    m.def("fill_flat", [](cai::contiguous_view<float> to, int byte, cai::stream s) {
        check(cudaMemsetAsync(to.data(), byte, static_cast<std::size_t>(to.size()) * sizeof(float),
                              s));
    });
    m.def("bytes", [](cai::view<const std::byte, 1> v) { return v.size(); });
    m.def("brains", [](cai::view<const bfloat16, 1> v) { return v.size(); });
    m.def("complexes", [](cai::view<std::complex<double>, 0>) {});
    m.def(
        "maybe", [](std::optional<read_only> v) { return v ? v->size() : -1; },
        py::arg("v") = py::none());
    m.def(
        "released", [](read_only v) { return v.size(); }, py::call_guard<py::gil_scoped_release>());

    // Either kind of memory, and results of the argument's library.
    cai::def(
        m, "fill_any",
        [](cai::any_view<float, 1> to, int byte, cai::stream s) {
            return to.visit(
                [byte](const cai::host_view<float, 1> &host) {
                    for (std::int64_t at = 0; at < host.size(); ++at)
                        host(at) = static_cast<float>(byte);
                    return std::string("host");
                },
                [byte, s](const numbers<1> &device) {
                    write(device, byte, s);
                    return std::string("device");
                });
        },
        py::arg("to"), py::arg("byte"), py::arg("stream") = py::none());
    m.def(
        "maybe_any",
        [](std::optional<cai::any_view<const float, 1>> v) { return v ? v->size() : -1; },
        py::arg("v") = py::none());
    m.def("copy_like", [](const cai::like<read_only> &from, cai::stream s) {
        auto out = cai::empty_like<numbers<1>>(from, s);
        copy(*from, *out, s);
        return out;
    });
    m.def("rows_like", [](const cai::like<read_only> &from, std::int64_t rows, cai::stream s) {
        auto out = cai::empty_like<numbers<2>>(from, s, {rows, from->size()});
        write(*out, 7, s);
        return out;
    });
    m.def("brain_like", [](const cai::like<read_only> &from, cai::stream s) {
        return cai::empty_like<cai::view<bfloat16, 1>>(from, s);
    });
    m.def("fail_like",
          [](const cai::like<read_only> &from, cai::stream s) -> cai::result<numbers<1>> {
              const auto out = cai::empty_like<numbers<1>>(from, s);
              throw std::runtime_error("own");
          });
    m.def("twice", [](const cai::like<cai::any_view<const double, 1>> &from) {
        auto out = cai::empty_like<cai::any_view<double, 1>>(from, CAI_STREAM_LEGACY);
        for (std::int64_t at = 0; at < out->size(); ++at)
            out->as_host()(at) = 2 * from->as_host()(at);
        return out;
    });

    // Casters of the extension's own.
    m.def("own", [](const own &given) { return given.device; });
    m.def("own_or", [](const own &) { return "own"; });
    m.def("own_or", [](const std::string &) { return "text"; });
    m.def("own_or", [](read_only) { return "view"; });
    m.def(
        "from_python",
        [](py::object given) {
            const std::optional<cai::array> found = cai::from_python(given, own_options());
            return found ? found->get().device.id : -2;
        },
        py::arg("given").none());

    // Overloads.
    m.def("which", [](read_only, double) { return "float32"; });
    m.def("which", [](cai::view<const double, 1>, double) { return "float64"; });
    m.def("which", [](cai::view<const float, 2>, double) { return "float32, 2"; });
    m.def("view_or_array", [](read_only) { return "view"; });
    m.def("view_or_array", [](const cai::array &) { return "array"; });
    m.def("device_of", [](read_only) { return "gpu"; });
    m.def("device_of", [](py::object) { return "any"; });
    m.def(
        "scalar_first", [](double, read_only) { return "float32"; }, py::arg(),
        py::arg().noconvert());
    m.def(
        "scalar_first", [](double, cai::view<const double, 1>) { return "float64"; }, py::arg(),
        py::arg().noconvert());
    m.def("scalar_first_plain", [](double, read_only) { return "float32"; });
    m.def("scalar_first_plain", [](double, cai::view<const double, 1>) { return "float64"; });

    // Order.
    m.def("fill_after", [](cai::stream s, int byte, numbers<1> to) { write(to, byte, s); });
    m.def("fill_default", [](numbers<1> to, int byte) { write(to, byte, nullptr); });
    m.def(
        "fill_maybe",
        [](std::optional<numbers<1>> to, int byte, std::optional<cai::stream> s) {
            if (to) write(*to, byte, s ? *s : cai::stream(cai::stream_of(nullptr)));
        },
        py::arg("to").none(), py::arg("byte"), py::arg("stream").none());
    m.def("copy", [](read_only from, numbers<1> to, cai::stream s) { copy(from, to, s); });
    m.def(
        "copy_released", [](read_only from, numbers<1> to, cai::stream s) { copy(from, to, s); },
        py::call_guard<py::gil_scoped_release>());
    m.def("by_hand", [](const cai::array &to, int byte, cai::stream s) {
        const numbers<1> v(to);
        const cai::consumer work(to, s, CAI_ACCESS_READ | CAI_ACCESS_WRITE);
        write(v, byte, s);
    });
    m.def("unordered",
          [](const cai::array &to, int byte, cai::stream s) { write(numbers<1>(to), byte, s); });
    // The function that it calls must not take this call's stream for its own.
    m.def("call_back", [](numbers<1> to, int byte, cai::stream s, function then) {
        write(to, byte, s);
        then();
    });
    m.def("handle", [](cai::stream s) { return s.get(); });

    // Functions whose messages name the argument.
    cai::def<&copy_on>(m, "named_copy", py::arg("source"), py::arg("to"), py::arg("stream"));
    cai::def<&scaled>(m, "unnamed");
    cai::def(
        m, "named_lambda",
        [](double factor, const cai::array &a, std::optional<numbers<1>> b, cai::stream s) {
            return factor + static_cast<double>(a.layout().count + (b ? b->size() : 0)) +
                   static_cast<double>(s.get());
        },
        py::arg("factor"), py::arg("a"), py::arg("b") = py::none(), py::arg("s") = py::none());
    cai::def(m, "named_which", [](read_only) { return "float32"; }, py::arg("v"));
    cai::def(m, "named_which", [](cai::view<const double, 1>) { return "float64"; }, py::arg("v"));
    cai::def(m, "named_strict", [](read_only) { return "float32"; }, py::arg("v").noconvert());
    cai::def(
        m, "named_strict", [](cai::view<const int, 1>) { return "int32"; },
        py::arg("v").noconvert());
    cai::def<&total>(m, "named_total", py::arg("arrays"), py::arg("masked"));
    cai::def<&length>(m, "length", py::arg("v"));
    cai::def<&length>(m, "length_again", py::arg("v"));
    cai::def<&length_by_two_names>(m, "length_x", py::arg("x"));
    cai::def<&length_by_two_names>(m, "length_y", py::arg("y"));
    py::class_<derived> methods(m, "Derived");
    methods.def(py::init<>());
    cai::def<&derived::plus>(methods, "plus", py::arg("v"));
    cai::def<&derived::grow>(methods, "grow", py::arg("v"));
    cai::def<&plus>(methods, "plus_bound_twice", py::arg("v"));
    cai::def<&plus>(m, "plus", py::arg("it"), py::arg("v"));
#endif
}
