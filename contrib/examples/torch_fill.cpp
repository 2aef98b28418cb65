/*
 * An operator of PyTorch that fills a matrix on the GPU, on the caller's stream. One build works
 * with PyTorch 2.13 and later; for 2.11, define TORCH_TARGET_VERSION and USE_CUDA, and link
 * libtorch_cuda.
 *
 *     torch=$(python -c "import torch; print(torch.__path__[0])")
 *     g++ -std=c++17 -fPIC -shared torch_fill.cpp -o torch_fill.so -I "$torch/include" \
 *         -I "$CUDA_HOME/include" -L "$torch/lib" -ltorch_cpu -lcuda \
 *         $(pkg-config --cflags --libs cai)
 *     python -c "
 *     import torch
 *     torch.ops.load_library('./torch_fill.so')
 *     tensor = torch.ones(4, 6).cuda()
 *     torch.ops.mine.fill(tensor[::2, 1:4], 0)
 *     print(tensor.cpu().sum().item())"
 */
#include <cai/torch.h>
#include <cuda.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

// Fills a matrix with a byte. There may be gaps between rows, but not inside a row.
static cai_status fill_rows(const cai_array &a, uint8_t value, cai_error *error) {
    int64_t strides[CAI_MAX_NDIM];
    cai_dtype dtype;
    cai_status status = cai_array_dtype(&a, &dtype, error);
    if (status == CAI_OK) status = cai_array_strides(&a, strides, CAI_MAX_NDIM, error);
    if (status != CAI_OK || a.data == nullptr) return status; // NULL: there are no elements
    if (a.ndim != 2 || strides[1] != dtype.itemsize)
        return cai_error_set(error, CAI_ERR_CONVERT_STRIDES, "tensor",
                             "expected rows without gaps");
    const CUresult code = cuMemsetD2D8Async(
        reinterpret_cast<CUdeviceptr>(a.data), static_cast<size_t>(strides[0]), value,
        static_cast<size_t>(a.shape[1] * dtype.itemsize), static_cast<size_t>(a.shape[0]),
        reinterpret_cast<CUstream>(a.stream)); // PyTorch's current stream
    if (code == CUDA_SUCCESS) return CAI_OK;
    return cai_error_set(error, CAI_ERR_DRIVER, "cuMemsetD2D8Async", "the driver reports an error");
}

void fill(torch::stable::Tensor tensor, int64_t value) {
    STD_TORCH_CHECK(tensor.is_cuda(), "expected a CUDA tensor");
    const torch::stable::accelerator::DeviceGuard guard(tensor.get_device_index());
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    cai_status status = cai_array_from_torch(tensor.get(), &array, &error);
    if (status == CAI_OK) status = fill_rows(array, static_cast<uint8_t>(value), &error);
    cai_array_release(&array);
    STD_TORCH_CHECK(status == CAI_OK, error.message);
}

// The other direction: a tensor over the memory of an array, here of the tensor that is passed.
torch::stable::Tensor share(torch::stable::Tensor tensor) {
    cai_array array = CAI_ARRAY_INIT;
    AtenTensorHandle made = nullptr;
    cai_stream stream = CAI_STREAM_NONE;
    cai_error error;
    cai_status status = cai_array_from_torch(tensor.get(), &array, &error);
    if (status == CAI_OK) status = cai_array_to_torch(&array, CAI_ACCESS_WRITE, &made, &error);
    // ... work on the tensor, on PyTorch's current stream ...
    if (status == CAI_OK && array.device.type == CAI_DEVICE_CUDA) {
        status = cai_torch_stream(array.device.id, &stream, &error);
        if (status == CAI_OK)
            status = cai_array_consume_end(&array, stream, CAI_ACCESS_WRITE, &error);
    }
    cai_array_release(&array);
    STD_TORCH_CHECK(status == CAI_OK, error.message);
    return torch::stable::Tensor(made);
}

STABLE_TORCH_LIBRARY(mine, m) {
    m.def("fill(Tensor(a!) tensor, int value) -> ()");
    m.def("share(Tensor(a) tensor) -> Tensor(a)");
}
STABLE_TORCH_LIBRARY_IMPL(mine, CompositeExplicitAutograd, m) {
    m.impl("fill", TORCH_BOX(&fill));
    m.impl("share", TORCH_BOX(&share));
}
