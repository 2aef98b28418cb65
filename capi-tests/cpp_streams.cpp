// cai::consumer, produce, keep and release_after, where no driver is needed. With one: capi-tests/sync.
#include "cai_test.h"

#include <cai/cai.hpp>

#include <memory>
#include <utility>

namespace {

cai::array make(int &destroyed, cai_stream stream) {
    cai_array description = valid_array();
    description.stream = stream;
    return cai::array::make(description, cai::owner::adopt(counting_owner(&destroyed)));
}

template <class F> cai_status thrown_by(F &&call) {
    try {
        call();
    } catch (const cai::error &why) {
        return why.code();
    }
    return CAI_OK;
}

void consumers() {
    int destroyed = 0;
    cai::array array = make(destroyed, CAI_STREAM_NONE);
    {
        cai::consumer work(array, cai::stream_of(reinterpret_cast<void *>(0x1000)));
        cai::consumer moved(std::move(work));
        moved.end();
        moved.end();
    }
    ASSERT(thrown_by([&] { cai::consumer(array.get(), 0); }) == CAI_ERR_STREAM_ZERO);
    ASSERT(thrown_by([&] { cai::consumer(array.get(), CAI_STREAM_NONE); }) == CAI_ERR_ARGUMENT);
    ASSERT(thrown_by([&] { cai::consumer(array.get(), 1, 0); }) == CAI_ERR_ARGUMENT);
    cai_array readonly = array.get();
    readonly.flags = CAI_ARRAY_READONLY;
    ASSERT(thrown_by([&] { cai::consumer(readonly, 1, CAI_ACCESS_WRITE); }) == CAI_ERR_READONLY);
    array.synchronize();
    array.release_after(CAI_STREAM_NONE);
    ASSERT(destroyed == 1 && !array);
}

struct kept_stream {
    kept_stream(int *where, const int *what) : seen(where), data(what) {}
    kept_stream(kept_stream &&other) noexcept : seen(std::exchange(other.seen, nullptr)), data(other.data) {}
    ~kept_stream() {
        if (seen != nullptr) {
            *seen = 1 + *data;
        }
    }
    int *seen;
    const int *data;
};

void producers() {
    int destroyed = 0, seen = 0;
    cai::array array = make(destroyed, CAI_STREAM_LEGACY);
    array.produce({});
    ASSERT(array.stream() == CAI_STREAM_NONE);
    array.produce({3, 4}, 5, CAI_SYNC_EXPORT_NONE);
    ASSERT(array.stream() == CAI_STREAM_NONE);
    ASSERT(thrown_by([&] { array.produce({0}, 5); }) == CAI_ERR_STREAM_ZERO);
    array.keep(kept_stream(&seen, &destroyed));
    cai::array again = array.share();
    array = cai::array();
    ASSERT(destroyed == 0 && seen == 0);
    again = cai::array();
    // The data went first.
    ASSERT(destroyed == 1 && seen == 2);
    cai::array empty;
    ASSERT(thrown_by([&] { empty.keep(kept_stream(&seen, &destroyed)); }) == CAI_ERR_BORROWED);
}

} // namespace

int main() {
    consumers();
    producers();
    ASSERT(cai::stream_of(nullptr) == CAI_STREAM_LEGACY);
    return 0;
}
