// The same from C++: through cai.hpp.
// run: by tests/python/test_package.py
#include <cai/cai.hpp>

#include <cstdio>
#include <memory>
#include <vector>

int main() {
    auto data = std::make_shared<std::vector<float>>(6);
    {
        const cai::array array = cai::array::make(data->data(), {2, 3}, CAI_STREAM_NONE,
                                                  cai::host_device(), cai::make_owner(data));
        const cai::array shared = array.share();
        cai::host_view<float, 2> view(shared);
        view(1, 2) = 42;
    }
    if (data.use_count() != 1 || (*data)[5] != 42) return 1;
    std::printf("ok %s\n", cai_version());
    return 0;
}
