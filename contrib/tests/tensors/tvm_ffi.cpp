// Functions in TVM FFI's C ABI that go through arrays, for test_tvm_ffi.py.
#include <cai/tvm_ffi.h>

#include <cstdint>

// What the last function has seen, for ctypes.
extern "C" {
struct seen {
    cai_array array;
    std::int64_t shape[8], strides[8];
    cai_error error;
    std::int32_t borrowed;
};
seen last;
}

namespace {

cai_array kept = CAI_ARRAY_INIT;

int fail(const cai_error &error) {
    last.error = error;
    return cai_tvm_ffi_raise(&error);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Notes what its argument is.
EXPORT int __tvm_ffi_look(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *result) {
    cai_array array = CAI_ARRAY_INIT, second = CAI_ARRAY_INIT;
    std::int64_t strides[CAI_MAX_NDIM];
    cai_error error;
    if (cai_array_from_tvm_ffi(&args[0], strides, &array, &error) != CAI_OK) return fail(error);
    last.array = array;
    last.borrowed = cai_array_share(&array, &second, nullptr) == CAI_ERR_BORROWED;
    cai_array_release(&second);
    for (std::int32_t d = 0; d < array.ndim && d < 8; ++d) {
        last.shape[d] = array.shape[d];
        last.strides[d] = array.strides == nullptr ? 0 : array.strides[d];
    }
    cai_array_release(&array);
    result->type_index = kTVMFFINone;
    return 0;
}

// The same of a borrowed tensor, as callers in C++ pass them.
EXPORT int __tvm_ffi_look_view(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *result) {
    TVMFFIAny view = {};
    view.type_index = kTVMFFIDLTensorPtr;
    view.v_ptr = TVMFFITensorGetDLTensorPtr(args[0].v_obj);
    return __tvm_ffi_look(nullptr, &view, 1, result);
}

// Without memory for the strides of a borrowed tensor.
EXPORT int __tvm_ffi_no_strides(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *) {
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    TVMFFIAny view = {};
    view.type_index = kTVMFFIDLTensorPtr;
    view.v_ptr = TVMFFITensorGetDLTensorPtr(args[0].v_obj);
    (void)cai_array_from_tvm_ffi(&view, nullptr, &array, &error);
    return fail(error);
}

// With NULL for one of the pointers.
EXPORT int __tvm_ffi_nothing(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *) {
    std::int64_t which = args[0].v_int64, strides[1];
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    TVMFFIObjectHandle made = nullptr;
    DLTensor tensor = {};
    TVMFFIAny view = {};
    tensor.device = {kDLCPU, 0};
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.ndim = 1;
    view.type_index = kTVMFFIDLTensorPtr;
    view.v_ptr = which == 1 ? nullptr : &tensor;
    memcpy(array.typestr, "|u1", 4);
    array.data = &which;
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    if (which < 3) {
        (void)cai_array_from_tvm_ffi(which == 0 ? nullptr : &view, strides, &array, &error);
    } else {
        (void)cai_array_to_tvm_ffi(which == 3 ? nullptr : &array, 1, which == 4 ? nullptr : &made,
                                   &error);
    }
    return fail(error);
}

// With an output of a size that no version has.
EXPORT int __tvm_ffi_wrong_size(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *) {
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    array.struct_size = 7;
    (void)cai_array_from_tvm_ffi(&args[0], nullptr, &array, &error);
    return fail(error);
}

// Returns a new tensor of its argument's memory, which must be a Tensor object.
EXPORT int __tvm_ffi_through(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *result) {
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    TVMFFIObjectHandle made = nullptr;
    cai_status status = cai_array_from_tvm_ffi(&args[0], nullptr, &array, &error);
    if (status == CAI_OK)
        status = cai_array_to_tvm_ffi(&array, CAI_ACCESS_READ | CAI_ACCESS_WRITE, &made, &error);
    cai_array_release(&array);
    if (status != CAI_OK) return fail(error);
    result->type_index = kTVMFFITensor;
    result->v_obj = static_cast<TVMFFIObject *>(made);
    return 0;
}

// Keeps its argument until the next call.
EXPORT int __tvm_ffi_keep(void *, const TVMFFIAny *args, std::int32_t count, TVMFFIAny *result) {
    cai_error error;
    cai_array_release(&kept);
    result->type_index = kTVMFFINone;
    if (count == 0) return 0;
    return cai_array_from_tvm_ffi(&args[0], nullptr, &kept, &error) == CAI_OK ? 0 : fail(error);
}

// Returns a tensor of the array at an address.
EXPORT int __tvm_ffi_give(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *result) {
    cai_error error;
    TVMFFIObjectHandle made = nullptr;
    const auto *array = reinterpret_cast<const cai_array *>(args[0].v_int64);
    const auto access = static_cast<std::uint32_t>(args[1].v_int64);
    if (cai_array_to_tvm_ffi(array, access, &made, &error) != CAI_OK) return fail(error);
    result->type_index = kTVMFFITensor;
    result->v_obj = static_cast<TVMFFIObject *>(made);
    return 0;
}

// Ends the use of the array at an address, on the stream of its device.
EXPORT int __tvm_ffi_end(void *, const TVMFFIAny *args, std::int32_t, TVMFFIAny *result) {
    cai_error error;
    const auto *array = reinterpret_cast<const cai_array *>(args[0].v_int64);
    const auto access = static_cast<std::uint32_t>(args[1].v_int64);
    const cai_stream stream = cai_tvm_ffi_stream(array->device);
    result->type_index = kTVMFFINone;
    return cai_array_consume_end(array, stream, access, &error) == CAI_OK ? 0 : fail(error);
}
