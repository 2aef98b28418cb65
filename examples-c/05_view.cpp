// C++17: an array keeps a std::vector alive, and a view reads its elements. The view checks the
// element type and the number of dimensions, and throws if they do not match.
//
//     c++ -std=c++17 05_view.cpp $(pkg-config --cflags --libs cai) && ./a.out
#include <cai/cai.hpp>

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

static cai::array produce() {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    float *data = values.data(); // does not change when the vector is moved
    return cai::array::make(data, {2, 3}, CAI_STREAM_NONE, cai::host_device(),
                            cai::make_owner(std::move(values)));
}

int main() {
    const cai::array array = produce();
    const cai::host_view<const float, 2> view(array);
    double total = 0;
    for (std::int64_t i = 0; i < view.extent(0); ++i) {
        for (std::int64_t j = 0; j < view.extent(1); ++j) {
            total += static_cast<double>(view(i, j));
        }
    }
    std::printf("sum %g\n", total);
    try {
        const cai::host_view<const double, 2> wrong(array);
    } catch (const cai::error &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}
