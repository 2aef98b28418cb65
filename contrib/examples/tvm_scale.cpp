/*
 * A function of Apache TVM FFI that doubles floats in host memory. It prints [
 * 0.  2.  4.  6.  8. 10.]:
 *
 *     g++ -fPIC -shared tvm_scale.cpp -o tvm_scale.so $(tvm-ffi-config --cxxflags --ldflags --libs)
 *     \
 *         $(pkg-config --cflags --libs cai)
 *     python -c "
 *     import numpy, tvm_ffi
 *     numbers = numpy.arange(6, dtype='float32')
 *     tvm_ffi.load_module('./tvm_scale.so').scale(tvm_ffi.from_dlpack(numbers))
 *     print(numbers)"
 */
#include <cai/tvm_ffi.h>

// Doubles the elements of an array in C order.
static cai_status twice(const cai_array &a, cai_error *error) {
    cai_layout layout;
    const cai_status status = cai_array_layout(&a, &layout, error);
    if (status != CAI_OK) return status;
    if (strcmp(a.typestr, "<f4") != 0 || a.device.type != CAI_DEVICE_CPU)
        return cai_error_set(error, CAI_ERR_CONVERT_TYPE, "x", "expected float32 in host memory");
    if ((layout.flags & CAI_LAYOUT_C_CONTIGUOUS) == 0)
        return cai_error_set(error, CAI_ERR_CONVERT_CONTIGUOUS, "x", "expected C order");
    float *data = static_cast<float *>(a.data);
    for (int64_t i = 0; i < layout.count; ++i)
        data[i] *= 2;
    return CAI_OK;
}

extern "C" int __tvm_ffi_scale(void *, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
    cai_array array = CAI_ARRAY_INIT;
    int64_t strides[CAI_MAX_NDIM]; // A DLTensor's array does not own its strides.
    cai_error error;
    cai_status status = CAI_OK;
    if (count != 1) status = cai_error_set(&error, CAI_ERR_ARGUMENT, "args", "expected one");
    if (status == CAI_OK) status = cai_array_from_tvm_ffi(&args[0], strides, &array, &error);
    if (status == CAI_OK) status = twice(array, &error);
    cai_array_release(&array);
    if (status != CAI_OK) return cai_tvm_ffi_raise(&error); // a ValueError in Python
    result->type_index = kTVMFFINone;
    return 0;
}

// The other direction: a Tensor over the memory of an array, here of the argument.
extern "C" int __tvm_ffi_share(void *, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
    cai_array array = CAI_ARRAY_INIT;
    TVMFFIObjectHandle made = nullptr;
    cai_error error;
    cai_status status = CAI_OK;
    if (count != 1) status = cai_error_set(&error, CAI_ERR_ARGUMENT, "args", "expected one");
    if (status == CAI_OK) status = cai_array_from_tvm_ffi(&args[0], nullptr, &array, &error);
    if (status == CAI_OK) status = cai_array_to_tvm_ffi(&array, CAI_ACCESS_READ, &made, &error);
    // ... work on the tensor, on the environment's stream ...
    const cai_stream stream = cai_tvm_ffi_stream(array.device);
    if (status == CAI_OK && stream != CAI_STREAM_NONE) // device memory
        status = cai_array_consume_end(&array, stream, CAI_ACCESS_READ, &error);
    cai_array_release(&array);
    if (status != CAI_OK) return cai_tvm_ffi_raise(&error);
    result->type_index = kTVMFFITensor;
    result->v_obj = static_cast<TVMFFIObject *>(made);
    return 0;
}
