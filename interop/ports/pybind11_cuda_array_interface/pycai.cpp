// What the test module of pybind11_cuda_array_interface offers, written with cai/pybind11.hpp:
// arguments of one C++ type and any number of dimensions, arrays that are made in C++, and results
// that keep their memory alive. Its kernel is a loop on the host here, so that no compiler for
// kernels is needed.
#include <cai/pybind11.hpp>
#include <pybind11/stl.h>

#include <cuda.h>

#include <stdexcept>

namespace py = pybind11;

static void call(CUresult code) {
    if (code != CUDA_SUCCESS) throw std::runtime_error("CUDA driver: " + std::to_string(code));
}

struct device_memory {
    CUdeviceptr address = 0;
    explicit device_memory(std::size_t bytes) { call(cuMemAlloc(&address, bytes)); }
    device_memory(device_memory &&other) noexcept : address(std::exchange(other.address, 0)) {}
    ~device_memory() { cuMemFree(address); }
};

static void saxpy(cai::contiguous_view<float> s, cai::contiguous_view<const float> x,
                  cai::contiguous_view<const float> y, int a, cai::stream stream) {
    const std::size_t count = static_cast<std::size_t>(s.size()), bytes = count * sizeof(float);
    std::vector<float> left(count), right(count);
    const CUstream on = reinterpret_cast<CUstream>(stream.get());
    call(cuMemcpyDtoHAsync(left.data(), reinterpret_cast<CUdeviceptr>(x.data()), bytes, on));
    call(cuMemcpyDtoHAsync(right.data(), reinterpret_cast<CUdeviceptr>(y.data()), bytes, on));
    call(cuStreamSynchronize(on));
    for (std::size_t i = 0; i < count; ++i)
        left[i] = static_cast<float>(a) * left[i] + right[i];
    call(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(s.data()), left.data(), bytes, on));
    call(cuStreamSynchronize(on));
}

template <class T> static cai::array receive_and_return(cai::array given) {
    (void)cai::contiguous_view<const T>(given);
    return given;
}

static cai::array make(const std::vector<std::int64_t> &shape, bool readonly) {
    std::size_t bytes = sizeof(float);
    for (std::int64_t extent : shape)
        bytes *= static_cast<std::size_t>(extent);
    device_memory memory(bytes);
    float *data = reinterpret_cast<float *>(memory.address);
    const cai::extents extents(shape);
    cai::owner owner = cai::make_owner(std::move(memory));
    const cai_device device = {CAI_DEVICE_CUDA, 0};
    return readonly
               ? cai::array::make<const float>(data, extents, CAI_STREAM_NONE, device,
                                               std::move(owner))
               : cai::array::make<float>(data, extents, CAI_STREAM_NONE, device, std::move(owner));
}

static cai::array with_memory_copy(const std::vector<float> &values, bool readonly) {
    cai::array made = make({static_cast<std::int64_t>(values.size())}, readonly);
    const cai::contiguous_view<float> view(made); // refuses a read-only array
    call(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(view.data()), values.data(),
                      values.size() * sizeof(float)));
    return made;
}

PYBIND11_MODULE(pycai, module) {
    module.def("saxpy", &saxpy, py::arg("s"), py::arg("x"), py::arg("y"), py::arg("a"),
               py::arg("stream") = py::none());
    module.def("receive_and_return_cuda_array_interface_float", &receive_and_return<float>);
    module.def("receive_and_return_cuda_array_interface_int", &receive_and_return<int>);
    module.def("return_cuda_array_interface", &make,
               py::arg("shape") = std::vector<std::int64_t>{3, 4, 5}, py::arg("readonly") = false);
    module.def("return_cuda_array_interface_with_memory_copy", &with_memory_copy,
               py::arg("vec") = std::vector<float>{1, 2, 3, 4, 5}, py::arg("readonly") = false);
}
