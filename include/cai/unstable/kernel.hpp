// kernel.hpp: views as arguments of kernels, for compilers without a standard library, such as
// NVRTC: it includes nothing. C++11.
//
// Unstable: a minor release may change or remove what this header declares; the change log says so.
// It has not run on a GPU yet, and nobody outside this repository uses it.
//
// A kernel_view is a plain structure of one layout in all compilers and in all releases that have
// it: another layout gets another name. The host makes one of a cai::view, which has checked the
// array, and passes its address to cuLaunchKernel:
//
//   cai::unstable::kernel_view<float, 2> argument(cai::view<float, 2>(array));
//   void *arguments[] = {&argument};
//
// The kernel, in a file for NVRTC:
//
//   #include <cai/unstable/kernel.hpp>
//   extern "C" __global__ void scale(cai::unstable::kernel_view<float, 2> v) {
//       v(blockIdx.x, threadIdx.x) *= 2;
//   }
//
// It owns nothing, as a view: the array must outlive the kernel.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef CAI_UNSTABLE_KERNEL_HPP
#define CAI_UNSTABLE_KERNEL_HPP

#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#define CAI_UNSTABLE_HOST_DEVICE __host__ __device__
#else
#define CAI_UNSTABLE_HOST_DEVICE
#endif

namespace cai {
namespace unstable {

// Elements of type T in N dimensions: 8 bytes for the address, then the extents, then the strides
// in bytes, 8 bytes for each dimension; one of each if N is 0.
template <class T, unsigned N> struct kernel_view {
    T *data;
    long long shape[N > 0 ? N : 1];
    long long strides[N > 0 ? N : 1];

    kernel_view() = default;
#if !defined(__CUDACC_RTC__) && !defined(__HIPCC_RTC__) // which refuse functions of the host
    // From a cai::view or cai::host_view of the same dimensions, or another class with data(),
    // rank(), extent() and stride_bytes().
    template <class View> explicit kernel_view(const View &view) : data(view.data()) {
        static_assert(View::rank() == N, "a view of another number of dimensions");
        shape[0] = 1;
        strides[0] = 0;
        for (unsigned d = 0; d < N; ++d) {
            shape[d] = static_cast<long long>(view.extent(d));
            strides[d] = static_cast<long long>(view.stride_bytes(d));
        }
    }
#endif

    CAI_UNSTABLE_HOST_DEVICE long long extent(unsigned dimension) const { return shape[dimension]; }
    CAI_UNSTABLE_HOST_DEVICE long long stride_bytes(unsigned dimension) const {
        return strides[dimension];
    }
    // Returns the element at these indices, which are not checked.
    template <class... Index> CAI_UNSTABLE_HOST_DEVICE T &operator()(Index... index) const {
        static_assert(sizeof...(Index) == N, "one index for each dimension");
        const long long at[N + 1] = {static_cast<long long>(index)..., 0};
        long long offset = 0;
        for (unsigned d = 0; d < N; ++d) {
            offset += at[d] * strides[d];
        }
        return *reinterpret_cast<T *>(reinterpret_cast<unsigned long long>(data) +
                                      static_cast<unsigned long long>(offset));
    }
};

static_assert(sizeof(kernel_view<char, 0>) == 24 && sizeof(kernel_view<char, 3>) == 56,
              "the layout is the same in all compilers");

} // namespace unstable
} // namespace cai

#endif // CAI_UNSTABLE_KERNEL_HPP
