// C++17: an array keeps a std::vector alive; a view reads it with a checked type and number of
// dimensions.
//
//     c++ -std=c++17 05_view.cpp $(pkg-config --cflags --libs cai) && ./a.out
#include <cai/cai.hpp>

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

static cai::array produce() {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    const std::int64_t shape[2] = {2, 3};
    cai_array description = CAI_ARRAY_INIT;
    description.data = values.data();
    description.shape = shape;
    description.ndim = 2;
    std::snprintf(description.typestr, sizeof description.typestr, "<f4");
    description.stream = CAI_STREAM_NONE;
    description.device.type = CAI_DEVICE_CPU;
    // Moving a vector leaves its elements where they are.
    return cai::array::make(description, cai::make_owner(std::move(values)));
}

int main() {
    const cai::array array = produce();
    const cai::view<const float, 2> view(array);
    double total = 0;
    for (std::int64_t i = 0; i < view.extent(0); ++i) {
        for (std::int64_t j = 0; j < view.extent(1); ++j) {
            total += static_cast<double>(view(i, j));
        }
    }
    std::printf("sum %g\n", total);
    try {
        const cai::view<const double, 2> wrong(array);
    } catch (const cai::error &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}
