// The same from C++: through cai.hpp.
#include <cai/cai.hpp>

#include <cstdio>
#include <memory>
#include <vector>

int main() {
    auto data = std::make_shared<std::vector<float>>(6);
    const std::int64_t shape[2] = {2, 3};
    cai_array description = CAI_ARRAY_INIT;
    description.data = data->data();
    description.shape = shape;
    description.ndim = 2;
    std::snprintf(description.typestr, sizeof description.typestr, "<f4");
    description.stream = CAI_STREAM_NONE;
    {
        const cai::array array = cai::array::make(description, cai::make_owner(data));
        const cai::array shared = array.share();
        cai::view<float, 2> view(shared);
        view(1, 2) = 42;
    }
    if (data.use_count() != 1 || (*data)[5] != 42) {
        return 1;
    }
    std::printf("ok %s\n", cai_version());
    return 0;
}
