// A kernel that scales the array of another library. The same source runs on a GPU and, without
// one, on the simulated driver.
//
//     nvcc -std=c++17 07_kernel.cu $(pkg-config --cflags --libs cai) -lcuda && ./a.out
//
// Without a GPU:
//
//     g++ -std=c++17 -x c++ 07_kernel.cu $(pkg-config --cflags --libs cai) -lcuda
//     cuda-sim run ./a.out
//
// Only `scale` has two versions: a kernel for nvcc, and a host function for other compilers. The
// latter states which bytes it reads and writes, so that the race checker can check them.
#include <cai/cai.hpp>
#include <cuda.h>

#include <cstdio>
#include <vector>

#ifdef __CUDACC__

__global__ void scale_kernel(cai::view<float, 1> x, float factor) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i < x.extent(0)) {
        x(i) *= factor;
    }
}

static void scale(cai::view<float, 1> x, float factor, CUstream stream) {
    const auto blocks = static_cast<unsigned>((x.extent(0) + 255) / 256);
    if (blocks > 0) {
        scale_kernel<<<blocks, 256, 0, stream>>>(x, factor);
    }
}

#else

#include <cudasim.h>

struct scale_arguments {
    float *data;
    std::int64_t count, stride;
    float factor;
};

static void scale_function(void *arguments) {
    const auto &a = *static_cast<scale_arguments *>(arguments);
    for (std::int64_t i = 0; i < a.count; ++i) {
        *reinterpret_cast<float *>(reinterpret_cast<char *>(a.data) + i * a.stride) *= a.factor;
    }
}

static void scale(cai::view<float, 1> x, float factor, CUstream stream) {
    const scale_arguments arguments = {x.data(), x.extent(0), x.stride_bytes(0), factor};
    cudasim_access access = {};
    access.address = reinterpret_cast<std::uintptr_t>(x.data());
    access.nbytes = sizeof(float);
    access.mode = CUDASIM_READ | CUDASIM_WRITE;
    access.ndim = 1;
    access.count[0] = x.extent(0);
    access.stride[0] = x.stride_bytes(0);
    cudasim_launch(stream, "scale", scale_function, &arguments, sizeof arguments, &access, 1);
}

#endif

// The consumer: accepts any one-dimensional array of float. Its stream waits for the producer.
static void scale_in_place(const cai_array &array, float factor, CUstream stream) {
    cai::consumer work(array, cai::stream_of(stream), CAI_ACCESS_READ | CAI_ACCESS_WRITE);
    scale(cai::view<float, 1>(array), factor, stream);
    work.end();
}

int main() try {
    CUdevice device;
    CUcontext context;
    CUstream producer, consumer;
    CUdeviceptr memory;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuStreamCreate(&producer, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&consumer, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuMemAlloc(&memory, 1000 * sizeof(float)) != CUDA_SUCCESS) {
        std::puts("no device");
        return 1;
    }
    // Every second of 1000 elements, in reverse order.
    std::vector<float> host(1000, 1.0f);
    const std::int64_t step = -2 * static_cast<std::int64_t>(sizeof(float));
    cuMemcpyHtoDAsync(memory, host.data(), host.size() * sizeof(float), producer);
    // This program frees the memory itself, so the owner has nothing to keep alive.
    const cai::array array =
        cai::array::make(cai::describe(reinterpret_cast<float *>(memory) + 999, {500}, {step}),
                         cai::stream_of(producer), cai::cuda_device(0), cai::make_owner(0));
    scale_in_place(array.get(), 3.0f, consumer);
    // Copies back on the producer's stream, which waits for the kernel.
    cuMemcpyDtoHAsync(host.data(), memory, host.size() * sizeof(float), producer);
    cuStreamSynchronize(producer);
    std::printf("%g %g %g\n", host[0], host[1], host[999]);
    cuMemFree(memory);
    return 0;
} catch (const cai::error &why) {
    std::puts(why.what());
    return 1;
}
