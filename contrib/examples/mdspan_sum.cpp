// make() makes an array from an mdspan, sum() reads an array as one. It prints 12:
//
//     clang++ -std=c++23 -stdlib=libc++ mdspan_sum.cpp -o mdspan_sum $(pkg-config --cflags --libs
//     cai)
//
// Without std::mdspan, include <cuda/std/mdspan> or Kokkos' <mdspan/mdspan.hpp> instead.
#include <cai/mdspan.hpp>

#include <cstdio>
#include <mdspan>
#include <vector>

using matrix = std::mdspan<float, std::dextents<std::int64_t, 2>, std::layout_stride>;

float sum(const cai::array &array) { // of any producer
    array.synchronize(CAI_ACCESS_READ);
    const auto values = cai::to_host_mdspan<matrix>(array);
    float total = 0;
    for (std::int64_t i = 0; i < values.extent(0); ++i)
        for (std::int64_t j = 0; j < values.extent(1); ++j)
            total += values[i, j];
    return total;
}

cai::array make() {
    auto memory = std::vector<float>(12, 1);
    const std::mdspan span(memory.data(), 3, 4);
    return cai::array::make(cai::describe(span), CAI_STREAM_NONE, cai::host_device(),
                            cai::make_owner(std::move(memory)));
}

int main() { std::printf("%g\n", static_cast<double>(sum(make()))); }
