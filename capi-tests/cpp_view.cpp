// cai.hpp: views. Which arrays they refuse with which status, which elements they find, and that
// they hold no reference.
// run: plain asan valgrind ages
#include "cpp_test.hpp"

#include <cai/unstable/kernel.hpp>

#include <complex>
#include <memory>
#include <vector>

namespace {

struct brain_float {
    std::uint16_t bits;
};
struct tiny_float {
    std::uint8_t bits;
};
struct record {
    double weight;
    std::int32_t index, padding;
};
template <class T> struct complex_of_another_library {
    using value_type = T;
    T parts[2];
    T real() const { return parts[0]; }
    T imag() const { return parts[1]; }
};

} // namespace

template <> struct cai::element<brain_float> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_BFLOAT16;
};
template <> struct cai::element<tiny_float> {
    static constexpr char kind = 'V';
    static constexpr std::uint16_t code = CAI_DTYPE_FLOAT8_E5M2;
};
template <> struct cai::element<record> {
    static constexpr char kind = 'V';
};

namespace {

// 3 x 4 elements of any size, aligned for all of them.
alignas(64) char memory[3 * 4 * 64];

cai_array describe(const char *typestr = "<f4") {
    cai_array array = valid_array();
    set_typestr(&array, typestr);
    array.data = memory;
    return array;
}

template <class T, std::size_t N = 2>
void refuses(const cai_array &array, cai_status code, const char *field, const char *part) {
    throws(code, field, part, [&] { cai::host_view<T, N> refused(array); });
}

// The typestr in which a type travels, and the refusals of similar ones.
template <class T> void travels_as(const char *typestr, const char *expected) {
    const cai_array fitting = describe(typestr);
    const cai::host_view<T, 2> v(fitting);
    const cai::host_view<const T, 2> r(fitting);
    ASSERT(v.size() == 12 && v.stride_bytes(1) == static_cast<std::int64_t>(sizeof(T)) &&
           static_cast<const void *>(r.data()) == memory);
    for (const char *other :
         {"|b1", "|i1", "|u1",  "<i2", "<u2",    "<f2", "<i4", "<u4", "<f4", "<i8",  "<u8",
          "<f8", "<c8", "<c16", "<m8", "<M8[s]", "|S4", "<U1", "|V4", "|V8", "|V16", "|O8"}) {
        if (strcmp(typestr, other) != 0)
            refuses<T>(describe(other), CAI_ERR_CONVERT_TYPE, "typestr", expected);
    }
    char swapped[8];
    snprintf(swapped, sizeof swapped, ">%s", typestr + 1);
    if (typestr[0] == '<') {
        refuses<T>(describe(swapped), CAI_ERR_CONVERT_BYTE_ORDER, "typestr",
                   "expected the byte order of this machine");
    }
    // The same text, written by describe.
    const std::int64_t shape[2] = {3, 4};
    T *none = nullptr;
    const cai::description made = cai::describe(none, cai::extents(shape, 2));
    ASSERT_TEXT(typestr, made.get().typestr);
}

TEST(types) {
    travels_as<bool>("|b1", "expected |b1");
    travels_as<std::int8_t>("|i1", "expected |i1");
    travels_as<std::uint8_t>("|u1", "expected |u1");
    travels_as<std::int16_t>("<i2", "expected <i2");
    travels_as<std::uint16_t>("<u2", "expected <u2");
    travels_as<std::int32_t>("<i4", "expected <i4");
    travels_as<std::uint32_t>("<u4", "expected <u4");
    travels_as<std::int64_t>("<i8", "expected <i8");
    travels_as<std::uint64_t>("<u8", "expected <u8");
    travels_as<float>("<f4", "expected <f4");
    travels_as<double>("<f8", "expected <f8");
    travels_as<std::complex<float>>("<c8", "expected <c8");
    travels_as<std::complex<double>>("<c16", "expected <c16");
    travels_as<complex_of_another_library<float>>("<c8", "expected <c8");
    travels_as<record>("|V16", "expected |V16");
    for (const char *one : {"|b1", "|i1", "|u1", "<f1", "|S1", "|V1", "|t8"}) {
        const cai::host_view<std::byte, 2> bytes(describe(one));
        ASSERT(bytes.size() == 12);
    }
    refuses<std::byte>(describe("<f4"), CAI_ERR_CONVERT_TYPE, "typestr",
                       "expected elements of 1 byte");
    // Another spelling of the machine's byte order.
    const cai::host_view<long long, 2> longs(describe("|i8"));
    ASSERT(longs.size() == 12);
}

TEST(codes) {
    for (const char *carrier : {"<V2", "|V2", "<u2"}) {
        cai_array a = describe(carrier);
        refuses<brain_float>(a, CAI_ERR_CONVERT_TYPE, "typestr", "expected <V2 with dtype_code 4");
        a.dtype_code = CAI_DTYPE_BFLOAT16;
        const cai::host_view<brain_float, 2> v(a);
        ASSERT(v.size() == 12);
        refuses<std::uint16_t>(a, CAI_ERR_CONVERT_TYPE, "typestr",
                               " with dtype_code 4, expected <u2");
    }
    for (const char *carrier : {"|V1", "|u1", "<f1"}) {
        cai_array a = describe(carrier);
        a.dtype_code = CAI_DTYPE_FLOAT8_E5M2;
        const cai::host_view<tiny_float, 2> v(a);
        const cai::host_view<std::byte, 2> bytes(a);
        ASSERT(v.size() == 12 && bytes.size() == 12);
        a.dtype_code = CAI_DTYPE_FLOAT8_E4M3;
        refuses<tiny_float>(a, CAI_ERR_CONVERT_TYPE, "typestr",
                            "with dtype_code 8, expected |V1 with dtype_code 12");
    }
    cai_array swapped = describe(">V2");
    swapped.dtype_code = CAI_DTYPE_BFLOAT16;
    refuses<brain_float>(swapped, CAI_ERR_CONVERT_BYTE_ORDER, "typestr", ">V2");
}

TEST(structs) {
    const cai_descr *fields = nullptr;
    cai_owner *owner = nullptr;
    const auto parse = [&](const char *text) {
        cai_owner_release(owner);
        ASSERT_STATUS(CAI_OK, cai_descr_parse(text, &fields, &owner, nullptr));
    };
    parse("[('weight', '<f8'), ('index', '<i4'), ('', '|V4')]");
    cai_array a = describe("|V16");
    a.descr = fields;
    const cai::host_view<record, 2> v(a);
    v(2, 3).index = 9;
    ASSERT(reinterpret_cast<const record *>(memory)[11].index == 9);
    parse("[('weight', '<f8'), ('index', '>i4'), ('', '|V4')]");
    a.descr = fields;
    refuses<record>(a, CAI_ERR_CONVERT_BYTE_ORDER, "descr[1].typestr", "expected the byte order");
    cai_owner_release(owner);
    // Opaque bytes may lie anywhere; a record may not.
    a = describe("|V16");
    a.data = memory + 4;
    refuses<record>(a, CAI_ERR_ALIGNMENT, "data", "expected a multiple of 8");
    a.data = memory;
    const std::int64_t odd[2] = {100, 20};
    a.strides = odd;
    refuses<record>(a, CAI_ERR_ALIGNMENT, "strides[0]", "found 100, expected a multiple of 8");
    const std::int64_t one_row[2] = {1, 4};
    const std::int64_t unused[2] = {100, 24};
    a.shape = one_row;
    a.strides = unused;
    const cai::host_view<record, 2> row(a);
    ASSERT(reinterpret_cast<const char *>(&row(0, 3)) == memory + 72);
}

// Memory that a view reaches: of a device for cai::view, of the host for cai::host_view.
TEST(places) {
    const auto throws_code = [](auto make) {
        try {
            make();
        } catch (const cai::error &error) {
            ASSERT_TEXT("device.type", error.field());
            return error.code();
        }
        return cai_status{CAI_OK};
    };
    struct {
        int type;
        cai_status of_device, of_host;
    } const table[] = {
        {CAI_DEVICE_UNKNOWN, CAI_OK, CAI_ERR_CONVERT_DEVICE},
        {CAI_DEVICE_CPU, CAI_ERR_HOST_MEMORY, CAI_OK},
        {CAI_DEVICE_CUDA, CAI_OK, CAI_ERR_CONVERT_DEVICE},
        {CAI_DEVICE_CUDA_HOST, CAI_OK, CAI_OK},
        {CAI_DEVICE_CUDA_MANAGED, CAI_OK, CAI_OK},
        {CAI_DEVICE_ROCM, CAI_OK, CAI_ERR_CONVERT_DEVICE},
        {CAI_DEVICE_ROCM_HOST, CAI_OK, CAI_OK},
        {CAI_DEVICE_ONEAPI, CAI_OK, CAI_ERR_CONVERT_DEVICE},
    };
    for (const auto &row : table) {
        cai_array a = describe();
        a.device.type = row.type;
        const auto checked = [&](cai::allow allowed) {
            const bool any = allowed == cai::allow::any_device;
            const cai_status of_device = any ? CAI_OK : row.of_device;
            const cai_status of_host = any ? CAI_OK : row.of_host;
            ASSERT_STATUS(of_device, throws_code([&] { cai::view<float, 2> v(a, allowed); }));
            ASSERT_STATUS(of_device,
                          throws_code([&] { cai::contiguous_view<float> v(a, allowed); }));
            ASSERT_STATUS(of_host, throws_code([&] { cai::host_view<float, 2> v(a, allowed); }));
            ASSERT_STATUS(of_host,
                          throws_code([&] { cai::host_contiguous_view<float> v(a, allowed); }));
        };
        checked(cai::allow::nothing);
        checked(cai::allow::any_device);
    }
    for (int handle : {CAI_DEVICE_OPENCL, CAI_DEVICE_VULKAN, CAI_DEVICE_METAL, CAI_DEVICE_WEBGPU}) {
        cai_array a = describe();
        a.device.type = handle;
        a.byte_offset = 16;
        throws(CAI_ERR_CONVERT_DEVICE, "device.type", "not a handle",
               [&] { cai::view<float, 2> v(a, cai::allow::any_device); });
        refuses<float>(a, CAI_ERR_CONVERT_DEVICE, "device.type", "not a handle");
    }
    // Without elements there is no memory that the host could not reach.
    cai_array none = describe();
    const std::int64_t shape[2] = {0, 4};
    none.shape = shape;
    none.data = nullptr;
    none.device.type = CAI_DEVICE_CUDA;
    const cai::host_view<float, 2> v(none);
    ASSERT(v.empty());
    // Of a newer header: what lies behind the members that are known is not read.
    cai_array a = describe();
    a.struct_size = 144;
    const std::unique_ptr<void, void (*)(void *)> newer(malloc(144), free);
    memcpy(newer.get(), &a, sizeof a);
    const cai::host_view<float, 2> longer(*static_cast<const cai_array *>(newer.get()));
    ASSERT(longer.size() == 12);
}

// An element is accessible where the view's memory is: no host loop over device memory compiles.
template <class V, class = void> struct indexed : std::false_type {};
template <class V>
struct indexed<V, std::void_t<decltype(std::declval<V &>()(0, 0))>> : std::true_type {};
template <class V, class = void> struct subscripted : std::false_type {};
template <class V>
struct subscripted<V, std::void_t<decltype(std::declval<V &>()[0])>> : std::true_type {};
static_assert(!indexed<cai::view<float, 2>>::value && indexed<cai::host_view<float, 2>>::value);
static_assert(!subscripted<cai::contiguous_view<float>>::value);
static_assert(subscripted<cai::host_contiguous_view<float>>::value);

TEST(contiguous) {
    cai_array a = describe();
    float sum = 0;
    for (int i = 0; i < 12; ++i)
        reinterpret_cast<float *>(memory)[i] = static_cast<float>(i);
    const cai::host_contiguous_view<const float> v(a);
    for (const float &value : v)
        sum += value;
    ASSERT(sum == 66 && v.size() == 12 && v.ndim() == 2 && v.shape()[1] == 4 && v[5] == 5);
    static_assert(!std::is_constructible_v<cai::host_contiguous_view<float>, decltype(v)>);
    const cai::host_contiguous_view<float> writable(a);
    const cai::host_contiguous_view<const float> same(writable);
    ASSERT(same.data() == v.data() && same.shape().size() == 2);
    std::vector<std::int64_t> ones(64, 1);
    a.ndim = 64;
    a.shape = ones.data();
    ASSERT(cai::host_contiguous_view<float>(a).size() == 1);
    a.ndim = 0;
    a.shape = nullptr;
    ASSERT(cai::host_contiguous_view<float>(a).size() == 1);
    const std::int64_t two[2] = {3, 4}, steps[2] = {4, 12};
    a = describe();
    a.shape = two;
    a.strides = steps;
    throws(CAI_ERR_CONVERT_CONTIGUOUS, "strides", "expected a C-contiguous array",
           [&] { cai::host_contiguous_view<float> refused(a); });
    throws(CAI_ERR_CONVERT_TYPE, "typestr", "expected <f8",
           [&] { cai::host_contiguous_view<double> refused(a); });
    a = describe();
    ASSERT((cai::host_contiguous_view<float, 2>(a).size() == 12));
    throws(CAI_ERR_CONVERT_NDIM, "ndim", "found 2, expected 3 dimensions",
           [&] { cai::host_contiguous_view<float, 3> refused(a); });
}

TEST(dimensions) {
    cai_array a = describe();
    refuses<float, 0>(a, CAI_ERR_CONVERT_NDIM, "ndim", "found 2, expected 0 dimensions");
    refuses<float, 1>(a, CAI_ERR_CONVERT_NDIM, "ndim", "found 2, expected 1 dimension");
    refuses<float, 3>(a, CAI_ERR_CONVERT_NDIM, "ndim", "found 2, expected 3 dimensions");
    a.ndim = 0;
    a.shape = nullptr;
    const cai::host_view<float, 0> scalar(a);
    scalar() = 42;
    const cai::unstable::kernel_view<const float, 0> plain(scalar);
    ASSERT(plain() == 42.0F && plain.shape[0] == 1);
    ASSERT(scalar.at() == 42.0F && scalar.size() == 1 && scalar.is_contiguous() &&
           scalar.rank() == 0);
    std::vector<std::int64_t> ones(64, 1);
    a.ndim = 64;
    a.shape = ones.data();
    const cai::host_view<float, 64> most(a);
    ASSERT(most.size() == 1 && most.is_contiguous() && most.extent(63) == 1);
}

TEST(access) {
    cai_array a = describe();
    a.flags = CAI_ARRAY_READONLY;
    refuses<float>(a, CAI_ERR_READONLY, "flags",
                   "found a read-only array, expected a writable one");
    const cai::host_view<const float, 2> constant(a);
    static_assert(std::is_same_v<decltype(constant(0, 0)), const float &>);
    static_assert(std::is_same_v<decltype(constant.at(0, 0)), const float &>);
    static_assert(std::is_same_v<decltype(constant.data()), const float *>);

    cai_array mask = describe("|b1");
    a = describe();
    a.mask = &mask;
    refuses<float>(a, CAI_ERR_CONVERT_MASK, "mask", "expected none, or cai::allow::mask");
    memset(memory, 0, sizeof memory);
    memory[5] = 1;
    const cai::host_view<float, 2> masked(a, cai::allow::mask);
    const cai::host_view<const bool, 2> valid(*a.mask);
    ASSERT(masked.size() == 12 && valid(1, 1) && !valid(1, 2));
    // Sound first, then fitting.
    mask.ndim = -1;
    throws(CAI_ERR_NDIM, "mask.ndim", "-1",
           [&] { cai::host_view<float, 2> v(a, cai::allow::mask); });
    a = describe();
    a.stream = 0;
    refuses<double>(a, CAI_ERR_STREAM_ZERO, "stream", "found 0");
    a = describe();
    a.data = memory + 2;
    refuses<float>(a, CAI_ERR_ALIGNMENT, "data", "expected a multiple of 4");
}

TEST(elements) {
    std::int32_t values[3][4];
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 4; ++j)
            values[i][j] = 10 * i + j;
    }
    cai_array a = describe("<i4");
    const auto view = [&](void *data, const std::int64_t (&shape)[2],
                          const std::int64_t (&strides)[2]) {
        a.data = data;
        a.shape = shape;
        a.strides = strides;
        return cai::host_view<std::int32_t, 2>(a);
    };
    const auto all = [](const cai::host_view<const std::int32_t, 2> &v, int origin, int by_i,
                        int by_j) {
        for (int i = 0; i < v.extent(0); ++i) {
            for (int j = 0; j < v.extent(1); ++j)
                ASSERT(v(i, j) == origin + by_i * i + by_j * j && &v(i, j) == &v.at(i, j));
        }
    };
    const auto dense = view(values, {3, 4}, {16, 4});
    all(dense, 0, 10, 1);
    ASSERT(dense.is_contiguous());
    const auto backwards = view(&values[2][3], {3, 4}, {-16, -4});
    all(backwards, 23, -10, -1);
    ASSERT(!backwards.is_contiguous());
    const cai::unstable::kernel_view<const std::int32_t, 2> argument(backwards);
    static_assert(std::is_trivially_copyable_v<decltype(argument)>);
    static_assert(std::is_standard_layout_v<decltype(argument)> && sizeof argument == 40);
    ASSERT(argument.extent(1) == 4 && argument.stride_bytes(0) == -16);
    ASSERT(&argument(2, 1) == &backwards(2, 1) && argument.data == backwards.data());
    const auto transposed = view(values, {4, 3}, {4, 16});
    all(transposed, 0, 1, 10);
    ASSERT(!transposed.is_contiguous());
    const auto column = view(&values[0][1], {3, 1}, {16, 1000});
    all(column, 1, 10, 0);
    ASSERT(!column.is_contiguous());
    const auto broadcast = view(&values[1][0], {5, 4}, {0, 4});
    all(broadcast, 10, 0, 1);
    ASSERT(!broadcast.is_contiguous());
    const auto sliced = view(&values[0][3], {2, 2}, {32, -8});
    all(sliced, 3, 20, -2);
    ASSERT(view(&values[1][0], {1, 4}, {-7 * 4, 4}).is_contiguous());
    sliced(1, 1) = -1;
    ASSERT(values[2][1] == -1);

    throws(CAI_ERR_ARGUMENT, "index[0]", "found 3, expected 0 to below 3",
           [&] { (void)dense.at(3, 0); });
    throws(CAI_ERR_ARGUMENT, "index[0]", "found -1, expected 0 to below 3",
           [&] { (void)dense.at(-1, 0); });
    throws(CAI_ERR_ARGUMENT, "index[1]", "found 4, expected 0 to below 4",
           [&] { (void)dense.at(0, 4u); });
    throws(CAI_ERR_ARGUMENT, "index[1]", "expected 0 to below 4",
           [&] { (void)dense.at(0, ~std::size_t{0}); });
    ASSERT(dense.at(std::size_t{1}, std::int8_t{2}) == 12);
}

TEST(empty) {
    const std::int64_t none[3] = {3, 0, 4};
    cai_array a = describe();
    a.ndim = 3;
    a.shape = none;
    a.data = nullptr;
    const cai::host_view<float, 3> v(a);
    ASSERT(v.size() == 0 && v.data() == nullptr && v.is_contiguous() && v.extent(2) == 4);
    throws(CAI_ERR_ARGUMENT, "index[1]", "found 0, expected 0 to below 0",
           [&] { (void)v.at(0, 0, 0); });
    // Extents whose product would not fit, were one of them not zero.
    const std::int64_t huge[3] = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0},
                       steps[3] = {-3, 5, 7};
    a.shape = huge;
    a.strides = steps;
    const cai::host_view<const float, 3> h(a);
    ASSERT(h.size() == 0 && h.is_contiguous() && h.stride_bytes(0) == -3);
}

// One type for both kinds of memory: which of the two views there is, and what is refused.
TEST(any_view) {
    using any = cai::any_view<float, 2>;
    static_assert(!std::is_constructible_v<any, cai::array> && std::is_trivially_copyable_v<any>);
    const struct {
        std::int32_t device;
        bool host, on_device;
    } rows[] = {
        {CAI_DEVICE_CPU, true, false},      {CAI_DEVICE_CUDA, false, true},
        {CAI_DEVICE_CUDA_HOST, true, true}, {CAI_DEVICE_CUDA_MANAGED, true, true},
        {CAI_DEVICE_UNKNOWN, false, true},
    };
    for (const auto &row : rows) {
        cai_array a = describe();
        a.device.type = row.device;
        const any v(a);
        ASSERT(v.is_host() == row.host && v.is_device() == row.on_device);
        ASSERT(v.size() == 12 && v.extent(1) == 4 && !v.empty());
        const auto seen = v.visit([](const cai::host_view<float, 2> &) { return 'h'; },
                                  [](const cai::view<float, 2> &) { return 'd'; });
        ASSERT(seen == (row.on_device ? 'd' : 'h'));
        if (row.host) {
            ASSERT(static_cast<void *>(&v.as_host()(1, 2)) == memory + 6 * sizeof(float));
        } else {
            throws(CAI_ERR_CONVERT_DEVICE, "device.type", "found device memory",
                   [&] { (void)v.as_host(); });
        }
        if (row.on_device) {
            ASSERT(static_cast<void *>(v.as_device().data()) == memory);
        } else {
            throws(CAI_ERR_HOST_MEMORY, "device.type", "found host memory",
                   [&] { (void)v.as_device(); });
        }
        a.typestr[2] = '8';
        any kept = v;
        cai_error why;
        ASSERT_STATUS(CAI_ERR_CONVERT_TYPE, any::try_make(a, kept, &why));
        ASSERT(kept.size() == 12 && kept.is_host() == row.host);
        throws(CAI_ERR_CONVERT_TYPE, "typestr", "found <f8", [&] { any refused(a); });
    }
    cai_array handle = describe();
    handle.device.type = CAI_DEVICE_OPENCL;
    throws(CAI_ERR_CONVERT_DEVICE, "device.type", "not a handle", [&] { any refused(handle); });
    const any nothing;
    ASSERT(nothing.empty() && nothing.is_host() && !nothing.is_device() &&
           nothing.as_host().empty());
}

// A view takes no reference, also where it throws.
TEST(references) {
    static_assert(std::is_constructible_v<cai::host_view<float, 2>, cai::array &>);
    static_assert(!std::is_constructible_v<cai::host_view<float, 2>, cai::array>);
    static_assert(!std::is_constructible_v<cai::host_view<float, 2>, const cai::array>);
    static_assert(!std::is_constructible_v<cai::host_view<float, 2>, cai::array, cai::allow>);
    static_assert(std::is_convertible_v<cai::host_view<float, 2>, cai::host_view<const float, 2>>);
    static_assert(!std::is_convertible_v<cai::host_view<const float, 2>, cai::host_view<float, 2>>);
    static_assert(!std::is_convertible_v<cai::host_view<float, 2>, cai::host_view<const float, 1>>);
    static_assert(
        !std::is_convertible_v<cai::host_view<float, 2>, cai::host_view<const double, 2>>);
    static_assert(std::is_trivially_copyable_v<cai::host_view<float, 2>>,
                  "kernels take it by value");
    int destroyed = 0;
    {
        cai_array raw = describe();
        raw.owner = counting_owner(&destroyed);
        const cai::array array = cai::array::adopt(raw);
        const cai::host_view<float, 2> v(array), again(array, cai::allow::mask);
        throws(CAI_ERR_CONVERT_NDIM, "ndim", "found 2",
               [&] { cai::host_view<float, 1> refused(array); });
        ASSERT(v.data() == again.data() && destroyed == 0);
    }
    ASSERT(destroyed == 1);
}

} // namespace
