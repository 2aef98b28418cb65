// Kernels that take views by value, with every element type that a header of CUDA defines.
#include <cai/cai.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

__global__ void scale(cai::view<float, 2> x, float factor) {
    const std::int64_t i = blockIdx.x, j = threadIdx.x;
    if (i < x.extent(0) && j < x.extent(1)) x(i, j) *= factor;
}

__global__ void sum(cai::view<const float, 1> from, cai::view<float, 0> to) {
    if (!from.empty() && from.is_contiguous() && from.stride_bytes(0) == sizeof(float)) {
        to() = 0;
        for (std::int64_t i = 0; i < from.size(); ++i)
            to() += from(i);
    }
}

template <class T, class U>
__global__ void convert(cai::contiguous_view<const T> from, cai::contiguous_view<U> to) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i < from.size() && from.ndim() == to.ndim())
        to[i] = static_cast<U>(static_cast<float>(from[i]));
}

// Takes any array, orders, launches, orders the producer.
void scale_in_place(const cai::array &array, float factor, cudaStream_t stream) {
    const cai::view<float, 2> x(array);
    cai::consumer work(array, cai::stream_of(stream), CAI_ACCESS_READ | CAI_ACCESS_WRITE);
    if (!x.empty()) scale<<<static_cast<unsigned>(x.extent(0)), 256, 0, stream>>>(x, factor);
    work.end();
}

// Takes an array in host or device memory: a loop or a kernel.
void scale_any(const cai::array &array, float factor, cudaStream_t stream) {
    const cai::any_view<float, 2> x(array);
    cai::consumer work(array, cai::stream_of(stream), CAI_ACCESS_READ | CAI_ACCESS_WRITE);
    x.visit(
        [factor](const cai::host_view<float, 2> &host) {
            for (std::int64_t i = 0; i < host.extent(0); ++i) {
                for (std::int64_t j = 0; j < host.extent(1); ++j)
                    host(i, j) *= factor;
            }
        },
        [factor, stream](const cai::view<float, 2> &device) {
            scale<<<static_cast<unsigned>(device.extent(0)), 256, 0, stream>>>(device, factor);
        });
    work.end();
}

template <class T, class U>
void launch(const cai::array &from, const cai::array &to, cudaStream_t stream) {
    const cai::contiguous_view<T> source(from); // writable, passed as read-only
    convert<T, U><<<1, 256, 0, stream>>>(source, cai::contiguous_view<U>(to));
}

void convert_all(const cai::array &from, const cai::array &to, cudaStream_t stream) {
    launch<float, __half>(from, to, stream);
    launch<__half, __nv_bfloat16>(from, to, stream);
    launch<__nv_bfloat16, __nv_fp8_e4m3>(from, to, stream);
    launch<__nv_fp8_e4m3, __nv_fp8_e5m2>(from, to, stream);
    launch<__nv_fp8_e5m2, double>(from, to, stream);
    sum<<<1, 1, 0, stream>>>(cai::view<const float, 1>(from), cai::view<float, 0>(to));
}

cai::array make(__half *data, cudaStream_t stream, cai::owner owner) {
    return cai::array::make(data, {4, 4}, cai::stream_of(stream), cai::cuda_device(0),
                            std::move(owner));
}
