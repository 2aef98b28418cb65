/*
 * cai/torch.h: PyTorch's tensors to arrays and back, through the stable C interface of libtorch, so
 * that one build works with several releases of PyTorch. Header-only; C++17. Link libtorch_cpu and
 * libcai. PyTorch 2.11 or newer; before 2.13, define USE_CUDA and link libtorch_cuda for tensors in
 * CUDA's memory. For a build of PyTorch for ROCm, define USE_ROCM.
 *
 *     #include <cai/torch.h>
 *     #include <torch/csrc/stable/library.h>
 *     #include <torch/csrc/stable/tensor.h>
 *
 *     void scale(torch::stable::Tensor tensor, double factor) { // registered as an operator
 *         cai_array array = CAI_ARRAY_INIT;
 *         cai_error error;
 *         cai_status status = cai_array_from_torch(tensor.get(), &array, &error);
 *         if (status == CAI_OK) status = my_kernel(&array, factor, &error);
 *         cai_array_release(&array);
 *         STD_TORCH_CHECK(status == CAI_OK, error.message);
 *     }
 *
 * A tensor has no stream: its work is on PyTorch's current stream of its device in the calling
 * thread. Whether a tensor requires grad is not looked at, as in any operator.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_TORCH_H
#define CAI_TORCH_H

#include "frameworks.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#if TORCH_FEATURE_VERSION < TORCH_VERSION_2_11_0
#error "cai/torch.h requires PyTorch 2.11: TORCH_TARGET_VERSION or the headers are older"
#endif

/* What PyTorch calls a CUDA device, which is one of ROCm in its builds for that. */
#if defined(USE_ROCM)
#define CAI_PRIVATE_TORCH_DEVICE CAI_DEVICE_ROCM
#else
#define CAI_PRIVATE_TORCH_DEVICE CAI_DEVICE_CUDA
#endif

/* Reports a failed call of libtorch. */
static inline cai_status cai_private_torch_failed(cai_error *error, const char *function) {
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
    const char *what = torch_exception_get_what_without_backtrace();
#else
    const char *what = "PyTorch reported an error";
#endif
    return cai_error_set(error, CAI_ERR_ARGUMENT, function, what);
}
#define CAI_PRIVATE_TORCH(function, ...) \
    if (function(__VA_ARGS__) != TORCH_SUCCESS) return cai_private_torch_failed(error, #function)

struct cai_private_torch_type {
    int32_t (*torch)();
    char kind;
    int bytes;
    uint16_t code;
};
static const cai_private_torch_type cai_private_torch_types[] = {
    {aoti_torch_dtype_float32, 'f', 4, 0},
    {aoti_torch_dtype_float16, 'f', 2, 0},
    {aoti_torch_dtype_bfloat16, 'V', 2, CAI_DTYPE_BFLOAT16},
    {aoti_torch_dtype_int64, 'i', 8, 0},
    {aoti_torch_dtype_int32, 'i', 4, 0},
    {aoti_torch_dtype_float64, 'f', 8, 0},
    {aoti_torch_dtype_uint8, 'u', 1, 0},
    {aoti_torch_dtype_bool, 'b', 1, 0},
    {aoti_torch_dtype_int8, 'i', 1, 0},
    {aoti_torch_dtype_int16, 'i', 2, 0},
    {aoti_torch_dtype_uint16, 'u', 2, 0},
    {aoti_torch_dtype_uint32, 'u', 4, 0},
    {aoti_torch_dtype_uint64, 'u', 8, 0},
    {aoti_torch_dtype_complex32, 'c', 4, 0},
    {aoti_torch_dtype_complex64, 'c', 8, 0},
    {aoti_torch_dtype_complex128, 'c', 16, 0},
    {aoti_torch_dtype_float8_e4m3fn, 'V', 1, CAI_DTYPE_FLOAT8_E4M3FN},
    {aoti_torch_dtype_float8_e4m3fnuz, 'V', 1, CAI_DTYPE_FLOAT8_E4M3FNUZ},
    {aoti_torch_dtype_float8_e5m2, 'V', 1, CAI_DTYPE_FLOAT8_E5M2},
    {aoti_torch_dtype_float8_e5m2fnuz, 'V', 1, CAI_DTYPE_FLOAT8_E5M2FNUZ},
    {torch_dtype_float8_e8m0fnu, 'V', 1, CAI_DTYPE_FLOAT8_E8M0FNU},
    {torch_dtype_float4_e2m1fn_x2, 'V', 1, CAI_DTYPE_FLOAT4_E2M1FN_X2},
};

/* Reports PyTorch's current stream of a CUDA device in the calling thread. Returns CAI_OK or
   CAI_ERR_ARGUMENT with PyTorch's message. */
static inline cai_status cai_torch_stream(int32_t device, cai_stream *out, cai_error *error) {
    void *native = NULL;
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
    StreamHandle stream = NULL;
    CAI_PRIVATE_TORCH(aoti_torch_get_current_stream, device, &stream);
    const AOTITorchError failed = torch_stream_native_handle(stream, &native);
    CAI_PRIVATE_TORCH(aoti_torch_delete_stream, stream);
    if (failed != TORCH_SUCCESS) {
        return cai_private_torch_failed(error, "torch_stream_native_handle");
    }
#elif defined(USE_CUDA)
    CAI_PRIVATE_TORCH(aoti_torch_get_current_cuda_stream, device, &native);
#else
    return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device", "compile with USE_CUDA defined");
#endif
    *out = native == NULL ? CAI_STREAM_LEGACY : reinterpret_cast<cai_stream>(native);
    return CAI_OK;
}

/* Calls an operator of one tensor that returns a boolean. */
static inline cai_status cai_private_torch_ask(const char *name, AtenTensorHandle tensor, bool *out,
                                               cai_error *error) {
    AtenTensorHandle argument = NULL; /* taken over by the call */
    CAI_PRIVATE_TORCH(aoti_torch_new_tensor_handle, tensor, &argument);
    StableIValue stack[1] = {reinterpret_cast<StableIValue>(argument)};
    if (torch_call_dispatcher(name, "", stack, TORCH_ABI_VERSION) != TORCH_SUCCESS) {
        return cai_private_torch_failed(error, name);
    }
    *out = (stack[0] & 0xff) != 0;
    return CAI_OK;
}

static inline void cai_private_torch_release(void *tensor) {
    (void)aoti_torch_delete_tensor_object(static_cast<AtenTensorHandle>(tensor));
}

/* Makes an array of a tensor, to which it holds a reference. `tensor` stays the caller's. Do not
   resize the tensor while the array exists.
   Returns CAI_OK, CAI_ERR_NULL_ARGUMENT, CAI_ERR_ARGUMENT with PyTorch's message,
   CAI_ERR_CONVERT_STRIDES for a tensor that is not strided, CAI_ERR_CONVERT_DEVICE for another
   device than the host's or CUDA's, CAI_ERR_CONVERT_TYPE for a type that only PyTorch has, and for
   conjugate and negative views, whose memory has other values, or a status of cai_array_create.
   Allocates one block, and what PyTorch allocates for a reference. */
static inline cai_status cai_array_from_torch(AtenTensorHandle tensor, cai_array *out,
                                              cai_error *error) {
    cai_array made = CAI_ARRAY_INIT;
    bool defined = false, conjugate = false, negative = false;
    int32_t layout = 0, dtype = 0, device = 0;
    int64_t ndim = 0, count = 0, bytes[CAI_MAX_NDIM], *sizes = NULL, *strides = NULL;
    if (tensor == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "tensor", "found NULL");
    CAI_PRIVATE_TORCH(aoti_torch_is_defined, tensor, &defined);
    if (!defined) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "tensor", "it is undefined");
    CAI_PRIVATE_TORCH(aoti_torch_get_layout, tensor, &layout);
    if (layout != aoti_torch_layout_strided()) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_STRIDES, "layout", layout,
                                         "a strided tensor");
    }
    CAI_PRIVATE_TORCH(aoti_torch_get_device_type, tensor, &device);
    CAI_PRIVATE_TORCH(aoti_torch_get_device_index, tensor, &made.device.id);
    if (device != aoti_torch_device_type_cpu() && device != aoti_torch_device_type_cuda()) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_DEVICE, "device", device,
                                         "the host or CUDA");
    }
    const bool host = device == aoti_torch_device_type_cpu();
    made.device.type = host ? CAI_DEVICE_CPU : CAI_PRIVATE_TORCH_DEVICE;
    if (host) made.device.id = 0;
    CAI_PRIVATE_TORCH(aoti_torch_get_dtype, tensor, &dtype);
    const cai_private_torch_type *row = NULL;
    for (const cai_private_torch_type &each : cai_private_torch_types) {
        if (row == NULL && each.torch() == dtype) row = &each;
    }
    if (row == NULL) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_TYPE, "dtype", dtype,
                                         "a type that NumPy or DLPack has");
    }
    cai_private_type(&made, row->kind, row->bytes, row->code);
    cai_status status = CAI_OK;
    if (row->kind == 'c') {
        status = cai_private_torch_ask("aten::is_conj", tensor, &conjugate, error);
    }
    if (status == CAI_OK && (row->kind == 'c' || row->kind == 'f')) {
        status = cai_private_torch_ask("aten::is_neg", tensor, &negative, error);
    }
    if (status != CAI_OK) return status;
    if (conjugate || negative) {
        return cai_private_refuse(error, CAI_ERR_CONVERT_TYPE, "tensor",
                                  conjugate ? "a conjugate view" : "a negative view",
                                  "the result of resolve_conj() and resolve_neg()");
    }
    CAI_PRIVATE_TORCH(aoti_torch_get_dim, tensor, &ndim);
    CAI_PRIVATE_TORCH(aoti_torch_get_sizes, tensor, &sizes);
    CAI_PRIVATE_TORCH(aoti_torch_get_strides, tensor, &strides);
    CAI_PRIVATE_TORCH(aoti_torch_get_numel, tensor, &count);
    if (ndim > CAI_MAX_NDIM) {
        return cai_private_refuse_number(error, CAI_ERR_NDIM, "dim", ndim, "0 to 64");
    }
    for (int64_t d = 0; d < ndim; ++d) {
        bytes[d] = strides[d] * row->bytes; /* PyTorch has computed the size of the storage so */
    }
    if (count > 0) CAI_PRIVATE_TORCH(aoti_torch_get_data_ptr, tensor, &made.data);
    made.ndim = static_cast<int32_t>(ndim);
    made.shape = sizes;
    made.strides = ndim > 0 ? bytes : NULL;
    made.stream = CAI_STREAM_NONE;
    if (!host) status = cai_torch_stream(made.device.id, &made.stream, error);
    if (status != CAI_OK) return status;
    AtenTensorHandle kept = NULL;
    CAI_PRIVATE_TORCH(aoti_torch_new_tensor_handle, tensor, &kept);
    status = cai_array_create(&made, kept, cai_private_torch_release, out, error);
    if (status != CAI_OK) cai_private_torch_release(kept);
    return status;
}

static inline void cai_private_torch_deleter(void *, void *context) {
    cai_private_release_later(context);
}

/* Makes a tensor of an array, with a reference to its owner, and makes PyTorch's current stream of
   the device wait for the array's work. The reference is released after the work that is on that
   stream when the tensor's memory is no longer used. Call cai_array_consume_end with the same
   stream (cai_torch_stream) and `access` after the work on the tensor has been enqueued.
   `access`: as in cai_array_consume_begin. PyTorch has no read-only tensors: for one that is only
   read, pass CAI_ACCESS_READ. Returns CAI_OK, CAI_ERR_CONVERT_TYPE, CAI_ERR_CONVERT_MASK,
   CAI_ERR_CONVERT_BYTE_ORDER, CAI_ERR_CONVERT_DEVICE, CAI_ERR_CONVERT_STRIDES for negative strides
   too, CAI_ERR_BORROWED, CAI_ERR_ARGUMENT with PyTorch's message, CAI_ERR_NO_MEMORY, or a status of
   cai_array_consume_begin. */
static inline cai_status cai_array_to_torch(const cai_array *array, uint32_t access,
                                            AtenTensorHandle *out, cai_error *error) {
    cai_device location = {0, 0};
    cai_dtype dtype;
    int64_t strides[CAI_MAX_NDIM];
    cai_status status = cai_private_require(array, &dtype, &location, error);
    if (status == CAI_OK) status = cai_array_strides(array, CAI_MAX_NDIM, strides, error);
    if (status != CAI_OK) return status;
    const cai_private_torch_type *row = NULL;
    for (const cai_private_torch_type &each : cai_private_torch_types) {
        const bool same = each.code == dtype.code && each.bytes == dtype.itemsize &&
                          (each.code != CAI_DTYPE_NONE || each.kind == dtype.kind);
        if (row == NULL && same) row = &each;
    }
    if (row == NULL) {
        return cai_private_refuse(error, CAI_ERR_CONVERT_TYPE, "typestr", array->typestr,
                                  "a type that PyTorch has");
    }
    for (int32_t d = 0; d < array->ndim; ++d) {
        const bool used = array->data != NULL && array->shape[d] > 1;
        if (used && (strides[d] < 0 || strides[d] % row->bytes != 0)) {
            return cai_private_refuse_number(error, CAI_ERR_CONVERT_STRIDES, "strides", strides[d],
                                             "0 or a positive multiple of the element's size");
        }
        strides[d] = used ? strides[d] / row->bytes : 1;
    }
    const bool host = location.type == CAI_DEVICE_CPU;
    if (!host && location.type != CAI_PRIVATE_TORCH_DEVICE) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                                         location.type, "a device of this build of PyTorch");
    }
    cai_stream stream = CAI_STREAM_NONE;
    if (!host) status = cai_torch_stream(location.id, &stream, error);
    if (status == CAI_OK) {
        status = cai_array_consume_begin(array, host ? CAI_STREAM_LEGACY : stream, access, error);
    }
    cai_private_later *later = NULL;
    if (status == CAI_OK) status = cai_private_keep(array, location, stream, &later, error);
    if (status != CAI_OK) return status;
    const int32_t type = host ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda();
    if (torch_from_blob(array->data, array->ndim, array->shape, strides, 0, row->torch(), type,
                        host ? -1 : location.id, out, aoti_torch_layout_strided(), NULL, 0,
                        cai_private_torch_deleter, later) != TORCH_SUCCESS) {
        status = cai_private_torch_failed(error, "torch_from_blob");
        cai_private_release_later(later);
    }
    return status;
}

#undef CAI_PRIVATE_TORCH
#endif /* CAI_TORCH_H */
