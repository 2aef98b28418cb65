// Functions whose arguments are arrays, called by python_bench.py: bound with pybind11, or with
// nanobind where USE_NANOBIND is defined.
#ifdef USE_NANOBIND
#include <cai/nanobind.hpp>
#include <nanobind/ndarray.h>
namespace py = nanobind;
#define MODULE NB_MODULE(nanobind_casters, m)
#else
#include <cai/pybind11.hpp>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
namespace py = pybind11;
#define MODULE PYBIND11_MODULE(pybind11_casters, m)
#endif

// The compiler must believe that the argument is used.
#define KEEP(value) __asm__ volatile("" : : "r"(&(value)) : "memory")

namespace {

// An array in memory of any kind: the caster of an extension's own class.
struct anywhere {
    cai::array array;
};
bool take(py::handle source, bool convert, anywhere &out) {
    cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
    options.flags = CAI_IMPORT_ALLOW_HOST;
    std::optional<cai::array> found = cai::from_python(source, options, convert);
    if (found) out.array = std::move(*found);
    return found.has_value();
}

} // namespace

#ifdef USE_NANOBIND
template <> struct nanobind::detail::type_caster<anywhere> {
    NB_TYPE_CASTER(anywhere, const_name("Array"))
    bool from_python(handle source, std::uint32_t flags, cleanup_list *) noexcept try {
        return take(source, (flags & cast_flags::convert) != 0, value);
    } catch (const nanobind::python_error &) {
        return false;
    }
    static handle from_cpp(const anywhere &, rv_policy, cleanup_list *) noexcept { return nullptr; }
};
#else
template <> struct pybind11::detail::type_caster<anywhere> {
    PYBIND11_TYPE_CASTER(anywhere, const_name("Array"));
    bool load(handle source, bool convert) { return take(source, convert, value); }
};
#endif

MODULE {
    m.def("array", [](const cai::array &given) { KEEP(given); });
    m.def("anywhere", [](const anywhere &given) { KEEP(given); });
    m.def("view", [](cai::view<const float, 2> given) { KEEP(given); });
#ifdef USE_NANOBIND
    m.def("own", [](py::ndarray<const float, py::ndim<2>> given) { KEEP(given); });
#else
    m.def("own", [](py::array_t<float, py::array::c_style> given) {
        const auto elements = given.unchecked<2>();
        KEEP(elements);
    });
    // The dictionary's five keys, without an order of streams.
    m.def("by_hand", [](py::handle given) {
        auto interface = given.attr("__cuda_array_interface__").cast<py::dict>();
        auto shape = interface["shape"].cast<std::vector<std::int64_t>>();
        auto typestr = interface["typestr"].cast<std::string>();
        auto data = interface["data"].cast<py::tuple>();
        auto address = data[0].cast<std::uintptr_t>();
        bool readonly = data[1].cast<bool>();
        std::vector<std::int64_t> strides;
        if (interface.contains("strides") && !interface["strides"].is_none())
            strides = interface["strides"].cast<std::vector<std::int64_t>>();
        std::uintptr_t stream = 0;
        if (interface.contains("stream") && !interface["stream"].is_none())
            stream = interface["stream"].cast<std::uintptr_t>();
        KEEP(shape);
        KEEP(typestr);
        KEEP(address);
        KEEP(readonly);
        KEEP(strides);
        KEEP(stream);
    });
#endif
}
