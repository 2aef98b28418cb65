// Kernels that take a cuda::std::mdspan made of an array, and an array made of one.
#include <cai/mdspan.hpp>

#include <cuda/std/mdspan>

namespace {

using strided =
    cuda::std::mdspan<const float, cuda::std::dextents<int, 2>, cuda::std::layout_stride>;
using dense = cuda::std::mdspan<float, cuda::std::dextents<int, 2>>;

__global__ void copy(strided from, dense to) {
    const auto i = static_cast<int>(blockIdx.x), j = static_cast<int>(threadIdx.x);
    if (i < to.extent(0) && j < to.extent(1)) {
        to.data_handle()[to.mapping()(i, j)] = from.data_handle()[from.mapping()(i, j)];
    }
}

} // namespace

cai::array copied(const cai::array &from, float *memory, cudaStream_t stream, cai::owner owner) {
    const auto source = cai::to_mdspan<strided>(from);
    const dense target(memory, source.extent(0), source.extent(1));
    {
        cai::consumer reading(from, cai::stream_of(stream), CAI_ACCESS_READ);
        copy<<<256, 256, 0, stream>>>(source, target);
    }
    return cai::array::make(cai::describe(target), cai::stream_of(stream), cai::cuda_device(0),
                            std::move(owner));
}
