// Functions that test_results.py calls, bound with pybind11 and, with -DUSE_NANOBIND, with
// nanobind: their results are arrays of the argument's library.
#ifdef USE_NANOBIND
#include <cai/nanobind.hpp>
#define MODULE NB_MODULE(results_nanobind, m)
#else
#include <cai/pybind11.hpp>
#define MODULE PYBIND11_MODULE(results_pybind11, m)
#endif

#include <cuda.h>

namespace {

void copy(const float *from, float *to, std::int64_t count, CUstream stream) {
    const auto address = [](const float *of) { return reinterpret_cast<CUdeviceptr>(of); };
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (cuMemcpyDtoDAsync(address(to), address(from), bytes, stream) != CUDA_SUCCESS)
        throw std::runtime_error("cuMemcpyDtoDAsync");
}

} // namespace

MODULE {
    m.def("copy_like", [](const cai::like<cai::view<const float, 1>> &from, cai::stream s) {
        auto out = cai::empty_like<cai::view<float, 1>>(from, s);
        copy(from->data(), out->data(), from->size(), s);
        return out;
    });
    m.def("any_like", [](const cai::like<cai::any_view<const float, 1>> &from, cai::stream s) {
        auto out = cai::empty_like<cai::any_view<float, 1>>(from, s);
        from->visit(
            [&out](const cai::host_view<const float, 1> &host) {
                for (std::int64_t at = 0; at < host.size(); ++at)
                    out->as_host()(at) = host(at);
            },
            [&out, s](const cai::view<const float, 1> &device) {
                copy(device.data(), out->as_device().data(), device.size(), s);
            });
        return out;
    });
    m.def("fail_like",
          [](const cai::like<cai::view<const float, 1>> &from,
             cai::stream s) -> cai::result<cai::view<float, 1>> {
              const auto out = cai::empty_like<cai::view<float, 1>>(from, s);
              throw std::runtime_error("own");
          });
}
