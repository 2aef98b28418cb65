/*
 * cai/torch.h (unstable: may change in any minor release): PyTorch's tensors to arrays and back. It
 * uses the stable C interface of libtorch, so one build works with several releases of PyTorch.
 * Header-only; C++17. Link libtorch_cpu and libcai. PyTorch 2.11 or later. Below 2.13, define
 * USE_CUDA and link libtorch_cuda for tensors in CUDA memory. If PyTorch was built for ROCm, define
 * USE_ROCM.
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
 * A tensor has no stream. `array.stream` is PyTorch's current stream of the tensor's device in the
 * calling thread. Work that you enqueue there is in order. Work on another stream needs
 * `cai_array_consume_begin` and `cai_array_consume_end`. The conversion does not change the current
 * device, and ignores requires_grad, as operators do.
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

/* The device type of PyTorch's CUDA devices, which are ROCm devices if it was built for ROCm. */
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

/* PyTorch's types. Functions return their numbers, which may differ between releases. */
static inline const cai_private_type *cai_private_torch_types() {
    static const cai_private_type types[] = {CAI_PRIVATE_TORCH_TYPES(CAI_PRIVATE_TYPE){0, 0, 0, 0}};
    return types;
}

/**
 * Reports PyTorch's current stream of a CUDA device in the calling thread.
 *
 * `device`: index of the device.
 * `out`: the stream, which belongs to PyTorch. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_ARGUMENT` with PyTorch's message, or `CAI_ERR_CONVERT_DEVICE` if the
 * program is built for a release below 2.13 without USE_CUDA.
 * Thread safety: any thread; each thread has its own current stream.
 */
static inline cai_status cai_torch_stream(int32_t device, cai_stream *out, cai_error *error) {
    void *native = NULL;
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
    StreamHandle stream = NULL;
    CAI_PRIVATE_TORCH(aoti_torch_get_current_stream, device, &stream);
    const AOTITorchError failed = torch_stream_native_handle(stream, &native);
    (void)aoti_torch_delete_stream(stream);
    if (failed) return cai_private_torch_failed(error, "torch_stream_native_handle");
#elif defined(USE_CUDA)
    CAI_PRIVATE_TORCH(aoti_torch_get_current_cuda_stream, device, &native);
#else
    return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device", "compile with USE_CUDA defined");
#endif
    *out = native == NULL ? CAI_STREAM_LEGACY : reinterpret_cast<cai_stream>(native);
    return CAI_OK;
}

/* Rejects a view whose memory contains other values: the operator `name` returns true for it. */
static inline cai_status cai_private_torch_refuse(const char *name, AtenTensorHandle tensor,
                                                  cai_error *error) {
    AtenTensorHandle argument = NULL; /* taken over by the call */
    CAI_PRIVATE_TORCH(aoti_torch_new_tensor_handle, tensor, &argument);
    StableIValue stack[1] = {reinterpret_cast<StableIValue>(argument)};
    CAI_PRIVATE_TORCH(torch_call_dispatcher, name, "", stack, TORCH_ABI_VERSION);
    if ((stack[0] & 0xff) == 0) return CAI_OK;
    return cai_private_refuse(error, CAI_ERR_CONVERT_TYPE, "tensor", name,
                              "the result of resolve_conj() and resolve_neg()");
}

static inline void cai_private_torch_release(void *tensor) {
    (void)aoti_torch_delete_tensor_object(static_cast<AtenTensorHandle>(tensor));
}

/**
 * Creates an array from a tensor, with a reference of its own to the tensor. No data is copied.
 *
 * `tensor`: stays the caller's. Do not resize it while the array exists.
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost.
 * `stream` is PyTorch's current stream of the device, or `CAI_STREAM_NONE` in host memory. Written
 * on success only; release it with `cai_array_release`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` with PyTorch's message,
 * `CAI_ERR_CONVERT_STRIDES` for a tensor that is not strided, `CAI_ERR_CONVERT_DEVICE` for memory
 * of neither the host nor CUDA, `CAI_ERR_CONVERT_TYPE` for a type that only PyTorch has and for
 * conjugated and negated views, whose memory contains other values, or a status of
 * `cai_array_create`.
 * Thread safety: any thread that may use the tensor. Allocates one block, and what PyTorch
 * allocates for a reference.
 */
static inline cai_status cai_array_from_torch(AtenTensorHandle tensor, cai_array *out,
                                              cai_error *error) {
    cai_array made = CAI_ARRAY_INIT;
    const cai_private_type *type = NULL;
    bool defined = false;
    int32_t layout = 0, dtype = 0, device = 0;
    int64_t ndim = 0, bytes[CAI_MAX_NDIM], *sizes = NULL, *steps = NULL;
    if (tensor != NULL) CAI_PRIVATE_TORCH(aoti_torch_is_defined, tensor, &defined);
    if (!defined) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "tensor", "it is undefined");
    CAI_PRIVATE_TORCH(aoti_torch_get_layout, tensor, &layout);
    if (layout != aoti_torch_layout_strided())
        return cai_error_set(error, CAI_ERR_CONVERT_STRIDES, "layout", "expected a strided tensor");
    CAI_PRIVATE_TORCH(aoti_torch_get_device_type, tensor, &device);
    const bool host = device == aoti_torch_device_type_cpu();
    if (!host && device != aoti_torch_device_type_cuda())
        return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device", "expected the host or CUDA");
    made.device.type = host ? CAI_DEVICE_CPU : CAI_PRIVATE_TORCH_DEVICE;
    if (!host) CAI_PRIVATE_TORCH(aoti_torch_get_device_index, tensor, &made.device.id);
    CAI_PRIVATE_TORCH(aoti_torch_get_dtype, tensor, &dtype);
    CAI_PRIVATE_TORCH(aoti_torch_get_dim, tensor, &ndim);
    CAI_PRIVATE_TORCH(aoti_torch_get_sizes, tensor, &sizes);
    CAI_PRIVATE_TORCH(aoti_torch_get_strides, tensor, &steps);
    CAI_PRIVATE_TORCH(aoti_torch_get_data_ptr, tensor, &made.data);
    cai_status status = cai_private_set_type(&made, cai_private_torch_types(), dtype, &type, error);
    /* Only complex numbers have other conjugates; any tensor can be the negative of its memory. */
    if (status == CAI_OK && type->kind == 'c') {
        status = cai_private_torch_refuse("aten::is_conj", tensor, error);
    }
    if (status == CAI_OK) status = cai_private_torch_refuse("aten::is_neg", tensor, error);
    if (status == CAI_OK) status = cai_private_shape(&made, type, ndim, sizes, steps, bytes, error);
    made.stream = CAI_STREAM_NONE;
    if (status == CAI_OK && !host) status = cai_torch_stream(made.device.id, &made.stream, error);
    if (status != CAI_OK) return status;
    AtenTensorHandle kept = NULL;
    CAI_PRIVATE_TORCH(aoti_torch_new_tensor_handle, tensor, &kept);
    status = cai_array_create(&made, kept, cai_private_torch_release, out, error);
    if (status != CAI_OK) cai_private_torch_release(kept);
    return status;
}

static inline void cai_private_torch_deleter(void *, void *kept) { cai_private_release_kept(kept); }

/**
 * Creates a tensor over the memory of an array, and makes PyTorch's current stream of the device
 * wait for the array's pending work. After you have enqueued the work on the tensor, call
 * `cai_array_consume_end` with the same stream (`cai_torch_stream`) and `access`.
 *
 * `array`: must have an owner. The tensor holds a reference of its own. The last release of the
 * tensor's memory releases it, on any thread, after the work that is then on that stream; without
 * elements, this function releases it at once. If PyTorch's current stream is the default stream,
 * the array's device must be the current device (torch::stable::accelerator::DeviceGuard), also
 * during `cai_array_consume_end`.
 * `access`: as in `cai_array_consume_begin`. PyTorch has no read-only tensors: pass
 * `CAI_ACCESS_READ` for a read-only array, and do not write to the tensor.
 * `out`: the tensor, which the caller must delete. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_CONVERT_MASK`,
 * `CAI_ERR_STREAM_DEVICE` if the array's device must be current and is not,
 * `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_DEVICE`, `CAI_ERR_CONVERT_STRIDES` for strides
 * that are negative or not a whole number of elements, `CAI_ERR_BORROWED`, `CAI_ERR_ARGUMENT` with
 * PyTorch's message, `CAI_ERR_NO_MEMORY`, or a status of `cai_array_consume_begin`.
 * Thread safety: any thread.
 */
static inline cai_status cai_array_to_torch(const cai_array *array, uint32_t access,
                                            AtenTensorHandle *out, cai_error *error) {
    cai_device location = {0, 0};
    const cai_private_type *type = NULL;
    int64_t strides[CAI_MAX_NDIM];
    int32_t current = 0;
    cai_stream stream = CAI_STREAM_NONE;
    cai_array *kept = NULL;
    cai_status status = cai_private_require(array, out, cai_private_torch_types(), &type,
                                            CAI_PRIVATE_TORCH_DEVICE, &location, error);
    if (status == CAI_OK) status = cai_private_steps(array, type->bytes, strides, error);
    if (status != CAI_OK) return status;
    const bool host = location.type == CAI_DEVICE_CPU;
    if (!host) {
        CAI_PRIVATE_TORCH(aoti_torch_get_current_device_index, &current);
        status = cai_torch_stream(location.id, &stream, error);
    }
    if (status == CAI_OK && stream == CAI_STREAM_LEGACY && current != location.id) {
        return cai_private_refuse_number(error, CAI_ERR_STREAM_DEVICE, "device.id", location.id,
                                         "the current device, as the stream is the default one");
    }
    if (status == CAI_OK) status = cai_private_keep(array, location, &kept, error);
    if (status == CAI_OK) status = cai_private_begin(array, stream, access, kept, error);
    if (status == CAI_OK &&
        torch_from_blob(array->data, array->ndim, array->shape, strides, 0, type->number,
                        host ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda(),
                        host ? -1 : location.id, out, aoti_torch_layout_strided(), NULL, 0,
                        array->data == NULL ? NULL : cai_private_torch_deleter,
                        kept) != TORCH_SUCCESS) {
        status = cai_private_torch_failed(error, "torch_from_blob");
    }
    /* PyTorch calls no deleter for memory at NULL. */
    if (kept != NULL && (status != CAI_OK || array->data == NULL)) cai_private_release_kept(kept);
    return status;
}

#undef CAI_PRIVATE_TORCH
#endif /* CAI_TORCH_H */
