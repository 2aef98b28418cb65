// A Python extension with pybind11. `cut` accepts a GPU array of any library, copies its first rows
// and columns to a new array, and enqueues all work on the caller's stream.
//
//     pip install .                    in this folder; CMakeLists.txt has the options
//     python
//     >>> import cut_pybind11, cupy
//     >>> part = cupy.asarray(cut_pybind11.cut(cupy.ones((4, 6), "float32"), 2, 3))
#include <cai/pybind11.hpp>
#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>

static void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

// Returns a copy of the rectangle, and sets it to zero in `image`. The stream must outlive the
// result.
static cai::array cut(cai::view<float, 2> image, std::int64_t rows, std::int64_t columns,
                      cai::stream stream) {
    const std::int64_t step = image.stride_bytes(0), width = columns * std::int64_t{sizeof(float)};
    if (rows < 1 || rows > image.extent(0) || columns < 1 || columns > image.extent(1) ||
        step < width || image.stride_bytes(1) != sizeof(float))
        throw std::invalid_argument(
            "the image must have that many rows and columns, and rows without gaps");
    const auto pitch = static_cast<std::size_t>(step), bytes = static_cast<std::size_t>(width),
               height = static_cast<std::size_t>(rows);

    void *memory = nullptr;
    check(cudaMallocAsync(&memory, bytes * height, stream));
    const std::shared_ptr<void> owner(memory, [stream](void *it) { cudaFreeAsync(it, stream); });
    check(cudaMemcpy2DAsync(memory, bytes, image.data(), pitch, bytes, height,
                            cudaMemcpyDeviceToDevice, stream));
    check(cudaMemset2DAsync(image.data(), pitch, 0, bytes, height, stream)); // in place of a kernel

    return cai::array::make(static_cast<float *>(memory), {rows, columns}, stream,
                            cai::cuda_device(0), cai::make_owner(owner));
}

PYBIND11_MODULE(cut_pybind11, m) {
    cai::def<&cut>(m, "cut", pybind11::arg("image"), pybind11::arg("rows"),
                   pybind11::arg("columns"), pybind11::arg("stream") = pybind11::none());
}
