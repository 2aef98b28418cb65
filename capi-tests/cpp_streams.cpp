// cai::consumer, make, produce, attach and release_after, where no driver is needed. With one:
// capi-tests/sync.
// run: plain asan valgrind
#include "tests.h"

#include <cai/cai.hpp>

#include <array>
#include <complex>
#include <utility>
#include <vector>

namespace {

cai::array make(int &destroyed, cai_stream stream) {
    cai_array description = valid_array();
    description.stream = stream;
    description.device.type = CAI_DEVICE_CUDA;
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

TEST(consumers) {
    ASSERT(cai::stream_of(nullptr) == CAI_STREAM_LEGACY);
    int destroyed = 0;
    cai::array array = make(destroyed, CAI_STREAM_NONE);
    {
        cai::consumer work(array, cai::stream_of(reinterpret_cast<void *>(0x1000)),
                           CAI_ACCESS_READ);
        cai::consumer moved(std::move(work));
        moved.end();
        moved.end();
    }
    ASSERT(thrown_by([&] { cai::consumer(array.get(), 0, CAI_ACCESS_READ); }) ==
           CAI_ERR_STREAM_ZERO);
    ASSERT(thrown_by([&] { cai::consumer(array.get(), CAI_STREAM_NONE, CAI_ACCESS_READ); }) ==
           CAI_ERR_ARGUMENT);
    ASSERT(thrown_by([&] { cai::consumer(array.get(), 1, 0); }) == CAI_ERR_ARGUMENT);
    cai_array readonly = array.get();
    readonly.flags = CAI_ARRAY_READONLY;
    ASSERT(thrown_by([&] { cai::consumer(readonly, 1, CAI_ACCESS_WRITE); }) == CAI_ERR_READONLY);
    array.synchronize(CAI_ACCESS_READ);
    array.release_after(CAI_STREAM_NONE);
    ASSERT(destroyed == 1 && !array);
}

struct attached_stream {
    attached_stream(int *where, const int *what) : seen(where), data(what) {}
    attached_stream(attached_stream &&other) noexcept
        : seen(std::exchange(other.seen, nullptr)), data(other.data) {}
    ~attached_stream() {
        if (seen != nullptr) *seen = 1 + *data;
    }
    int *seen;
    const int *data;
};

TEST(producers) {
    int destroyed = 0, seen = 0;
    cai::array array = make(destroyed, CAI_STREAM_LEGACY);
    array.produce({});
    ASSERT(array.stream() == CAI_STREAM_NONE);
    array.produce({3, 4}, 5, CAI_SYNC_EXPORT_NONE);
    ASSERT(array.stream() == CAI_STREAM_NONE);
    ASSERT(thrown_by([&] { array.produce({0}, 5); }) == CAI_ERR_STREAM_ZERO);
    array.attach(attached_stream(&seen, &destroyed));
    cai::array again = array.share();
    array = cai::array();
    ASSERT(destroyed == 0 && seen == 0);
    again = cai::array();
    // The data went first.
    ASSERT(destroyed == 1 && seen == 2);
    cai::array empty;
    ASSERT(thrown_by([&] { empty.attach(attached_stream(&seen, &destroyed)); }) ==
           CAI_ERR_BORROWED);
}

// The producer's stream is an argument; typestr, strides and access come from the C++ type.
TEST(makes) {
    int destroyed = 0;
    const auto keep = [&] { return cai::owner::adopt(counting_owner(&destroyed)); };
    std::int64_t rows = 3;
    {
        cai::array a =
            cai::array::make(test_data, {rows, 4}, CAI_STREAM_LEGACY, cai::cuda_device(1), keep());
        ASSERT(a.stream() == CAI_STREAM_LEGACY && a.device().type == CAI_DEVICE_CUDA);
        ASSERT(a.device().id == 1 && a.data() == test_data && !a.readonly());
        ASSERT_TEXT("<f4", a->typestr);
        ASSERT(a.shape().size() == 2 && a.shape()[0] == 3 && a.layout().nbytes == 48);
        ASSERT(a.layout().flags == CAI_LAYOUT_C_CONTIGUOUS && destroyed == 0);
    }
    ASSERT(destroyed == 1);
    const std::vector<std::int64_t> shape{2, 3};
    const std::complex<double> *none = nullptr;
    const cai::array constant =
        cai::array::make(reinterpret_cast<const std::complex<double> *>(test_data), shape,
                         CAI_STREAM_NONE, cai::host_device(), keep());
    ASSERT(constant.readonly() && constant.layout().nbytes == 96);
    ASSERT_TEXT("<c16", constant->typestr);
    const std::array<std::int64_t, 2> strides{-16, 4};
    const cai::array strided = cai::array::make(cai::describe(test_data + 8, {3, 4}, strides),
                                                CAI_STREAM_NONE, cai::host_device(), keep());
    ASSERT(strided.strides()[0] == -16 && strided.strides()[1] == 4);
    ASSERT(strided.layout().lower == -32 && strided.layout().flags == 0);
    const cai::array scalar =
        cai::array::make(test_data, {}, CAI_STREAM_NONE, cai::host_device(), keep());
    ASSERT(scalar.ndim() == 0 && scalar.layout().count == 1);
    // An allocation of no elements may have an address; an array of none has not.
    const cai::array empty =
        cai::array::make(test_data, {3, 0}, CAI_STREAM_NONE, cai::host_device(), keep());
    ASSERT(empty.data() == nullptr && empty.layout().count == 0);
    ASSERT(destroyed == 1);

    const std::vector<std::int64_t> many(65, 1);
    ASSERT(thrown_by([&] { (void)cai::describe(none, many); }) == CAI_ERR_NDIM);
    ASSERT(thrown_by([&] { (void)cai::describe(test_data, shape, {4}); }) == CAI_ERR_ARGUMENT);
    destroyed = 0;
    ASSERT(thrown_by([&] {
               (void)cai::array::make(test_data, {3}, 0, cai::host_device(), keep());
           }) == CAI_ERR_STREAM_ZERO);
    ASSERT(thrown_by([&] {
               (void)cai::array::make(test_data, {-3}, CAI_STREAM_NONE, cai::host_device(), keep());
           }) == CAI_ERR_SHAPE_NEGATIVE);
    ASSERT(thrown_by([&] {
               (void)cai::array::make(none, {3}, CAI_STREAM_NONE, cai::host_device(), keep());
           }) == CAI_ERR_DATA_NULL);
    ASSERT(destroyed == 3);
}

} // namespace

// The caller of a consumer states what it does with the data.
static_assert(!std::is_constructible_v<cai::consumer, const cai::array &, cai_stream>);
static_assert(!std::is_constructible_v<cai::consumer, cai::array, cai_stream, std::uint32_t>);
