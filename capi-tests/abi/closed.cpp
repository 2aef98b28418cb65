// A plug-in without -z nodelete whose owners outlive it: HEADER_ONLY, its own code releases them;
// otherwise that of libcai and of the program, which stay loaded.
#include <cai/cai.hpp>

struct counter {
    int *count;
    explicit counter(int *where) : count(where) {}
    counter(counter &&other) noexcept : count(other.count) { other.count = nullptr; }
    ~counter() {
        if (count != nullptr) ++*count;
    }
};

extern "C" void count_up(void *count);
extern "C" __attribute__((visibility("default"))) cai_owner *extension_owner(int *count);

cai_owner *extension_owner(int *count) {
    cai_owner *made = nullptr;
#ifdef HEADER_ONLY
    made = cai::make_owner(counter(count)).release();
#else
    cai_owner_create(count, count_up, &made, nullptr);
#endif
    return made;
}
