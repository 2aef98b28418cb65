// A kernel as NVRTC sees it: no header but the one of views, and no standard library.
// run: by tests/python/test_headers.py
#if defined(__clang__) // which has these words in a header
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#endif

#include <cai/unstable/kernel.hpp>

extern "C" __global__ void scale(cai::unstable::kernel_view<float, 2> v,
                                 cai::unstable::kernel_view<const double, 0> factor) {
    for (long long i = 0; i < v.extent(0); ++i) {
        v(i, 1) *= static_cast<float>(factor());
    }
}
