/*
 * cai/tvm_ffi.h (unstable: may change in any minor release): tensors of Apache TVM FFI to arrays
 * and back. Header-only; C++11. Link libtvm_ffi and libcai.
 *
 *     #include <cai/tvm_ffi.h>
 *
 *     extern "C" int __tvm_ffi_scale(void *, const TVMFFIAny *args, int32_t, TVMFFIAny *result) {
 *         cai_array array = CAI_ARRAY_INIT;
 *         int64_t strides[CAI_MAX_NDIM];
 *         cai_error error;
 *         cai_status status = cai_array_from_tvm_ffi(&args[0], strides, &array, &error);
 *         if (status == CAI_OK) status = my_kernel(&array, &error);
 *         cai_array_release(&array);
 *         if (status != CAI_OK) return cai_tvm_ffi_raise(&error);
 *         result->type_index = kTVMFFINone;
 *         return 0;
 *     }
 *
 * A tensor has no stream. `array.stream` is the stream of TVM FFI's environment for the tensor's
 * device in the calling thread (TVMFFIEnvGetStream). Python callers set it to their current stream.
 * In C++, `tvm::ffi::AnyView(tensor).CopyToTVMFFIAny()` makes an argument of a Tensor or
 * TensorView.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_TVM_FFI_H
#define CAI_TVM_FFI_H

#include "frameworks.h"

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

/**
 * Returns the stream of TVM FFI's environment for a GPU, or `CAI_STREAM_NONE` for the host. The
 * stream stays the environment's.
 *
 * Thread safety: any thread; each thread has its own environment.
 */
static inline cai_stream cai_tvm_ffi_stream(cai_device device) {
    if (device.type == CAI_DEVICE_CPU) return CAI_STREAM_NONE;
    const int32_t type = device.type == CAI_DEVICE_ROCM ? kDLROCM : kDLCUDA;
    const void *stream = TVMFFIEnvGetStream(type, device.id);
    return stream == NULL ? CAI_STREAM_LEGACY : reinterpret_cast<cai_stream>(stream);
}

/**
 * Raises a cai_error as TVM FFI's ValueError. Returns -1, which a function of TVM FFI's C ABI must
 * return after a failure.
 *
 * Thread safety: any thread.
 */
static inline int cai_tvm_ffi_raise(const cai_error *error) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", error->message);
    return -1;
}

/* Finds the type of a tensor. Rejects types below 8 bits and vectors. */
static inline cai_status cai_private_tvm_type(DLDataType type, cai_private_type *out,
                                              cai_error *error) {
    static const cai_private_type types[] = {
        CAI_PRIVATE_DLPACK_TYPES(CAI_PRIVATE_TYPE){0, 0, 0, 0}};
    char found[64];
    for (const cai_private_type *one = types; one->kind != 0 && type.lanes == 1; ++one) {
        if (one->number != (type.code << 8 | type.bits)) continue;
        *out = *one;
        return CAI_OK;
    }
    snprintf(found, sizeof(found), "code %d, %d bit%s, %d lane%s", type.code, type.bits,
             type.bits == 1 ? "" : "s", type.lanes, type.lanes == 1 ? "" : "s");
    return cai_private_refuse(error, CAI_ERR_CONVERT_TYPE, "dtype", found,
                              "a number of whole bytes");
}

static inline void cai_private_tvm_release(void *tensor) { TVMFFIObjectDecRef(tensor); }

/**
 * Creates an array from an argument. The array of a Tensor object holds a reference to it. The
 * array of a DLTensor is borrowed, as the DLTensor is: it refers to the shape of the DLTensor. No
 * data is copied.
 *
 * `strides`: memory for the strides of a borrowed array, one for each dimension; `CAI_MAX_NDIM`
 * suffice. May be NULL for a Tensor object, and for a DLTensor without strides.
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Never
 * read-only, because a tensor does not state whether it is. Written on success only; release it
 * with `cai_array_release`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for an argument that is not a
 * tensor, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_CONVERT_DEVICE` for memory of neither a GPU nor the
 * host, or a status of `cai_array_create`.
 * Thread safety: any thread. Allocates one block for a Tensor object.
 */
static inline cai_status cai_array_from_tvm_ffi(const TVMFFIAny *argument, int64_t *strides,
                                                cai_array *out, cai_error *error) {
    if (argument == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "argument", "found NULL");
    const bool owned = argument->type_index == kTVMFFITensor;
    if (!owned && argument->type_index != kTVMFFIDLTensorPtr) {
        return cai_private_refuse_number(error, CAI_ERR_ARGUMENT, "argument.type_index",
                                         argument->type_index, "70, a tensor, or 7, a DLTensor");
    }
    if (argument->v_ptr == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "argument.v_ptr", "found NULL");
    const DLTensor *tensor = static_cast<const DLTensor *>(argument->v_ptr);
    if (owned) tensor = TVMFFITensorGetDLTensorPtr(argument->v_obj);
    int64_t copied[CAI_MAX_NDIM]; // by cai_array_create
    if (owned) strides = copied;
    if (strides == NULL && tensor->strides != NULL) {
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "strides", "found NULL");
    }
    cai_array made = CAI_ARRAY_INIT;
    cai_private_type type = {0, 0, 0, 0};
    cai_status status = cai_private_tvm_type(tensor->dtype, &type, error);
    if (status != CAI_OK) return status;
    cai_private_write_type(&made, &type);
    made.device.type = tensor->device.device_type;
    made.device.id = tensor->device.device_id;
    if (made.device.type != CAI_DEVICE_CPU && made.device.type != CAI_DEVICE_CUDA &&
        made.device.type != CAI_DEVICE_CUDA_HOST && made.device.type != CAI_DEVICE_CUDA_MANAGED &&
        made.device.type != CAI_DEVICE_ROCM) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_DEVICE, "device.device_type",
                                         made.device.type, "memory of the host or of a GPU");
    }
    made.data = static_cast<char *>(tensor->data) + tensor->byte_offset;
    made.stream = cai_tvm_ffi_stream(made.device);
    status = cai_private_shape(&made, &type, tensor->ndim, tensor->shape, tensor->strides, strides,
                               error);
    if (status != CAI_OK) return status;
    if (!owned) return cai_private_lend(&made, out, error);
    TVMFFIObjectIncRef(argument->v_obj);
    status = cai_array_create(&made, argument->v_obj, cai_private_tvm_release, out, error);
    if (status != CAI_OK) TVMFFIObjectDecRef(argument->v_obj);
    return status;
}

/**
 * Creates a Tensor object over the memory of an array, and makes the environment's stream wait for
 * the array's pending work. After you have enqueued the work on the tensor, call
 * `cai_array_consume_end` with the same stream (`cai_tvm_ffi_stream`) and `access`.
 *
 * `array`: must have an owner. The tensor holds a reference of its own. The last release of the
 * tensor releases it, on any thread, after the work that is then on that stream. If the stream is a
 * default stream, the array's device must be the current device in both calls; this is not checked.
 * `access`: as in `cai_array_consume_begin`. TVM FFI has no read-only tensors: pass
 * `CAI_ACCESS_READ` for a read-only array, and do not write to the tensor.
 * `out`: a reference to the tensor, which the caller must release. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_CONVERT_DEVICE`, `CAI_ERR_NO_MEMORY`, or a status of
 * `cai_array_to_dlpack` or `cai_array_consume_begin`.
 * Thread safety: any thread.
 */
static inline cai_status cai_array_to_tvm_ffi(const cai_array *array, uint32_t access,
                                              TVMFFIObjectHandle *out, cai_error *error) {
    cai_device location = {0, 0};
    cai_array held = CAI_ARRAY_INIT, *kept = NULL;
    DLManagedTensorVersioned *tensor = NULL;
    cai_status status = cai_private_require(array, out, NULL, NULL, 0, &location, error);
    if (status == CAI_OK) status = cai_private_keep(array, location, &kept, error);
    if (status != CAI_OK) return status;
    memcpy(&held, array, sizeof(held)); /* no version is smaller */
    held.struct_size = sizeof(held);
    held.device = location;
    held.owner = NULL;
    status = cai_owner_create(kept, cai_private_release_kept, &held.owner, error);
    if (status != CAI_OK) {
        cai_private_release_kept(kept);
        return status;
    }
    status = cai_array_to_dlpack(&held, CAI_DLPACK_HIDE_READONLY, &tensor, error);
    cai_owner_release(held.owner); /* the tensor has a reference of its own */
    if (status != CAI_OK) return status;
    status = cai_private_begin(array, cai_tvm_ffi_stream(location), access, kept, error);
    if (status == CAI_OK && TVMFFITensorFromDLPackVersioned(tensor, 0, 0, out) != 0) {
        status = cai_error_set(error, CAI_ERR_NO_MEMORY, "out", "TVM FFI made no tensor");
    }
    if (status != CAI_OK) tensor->deleter(tensor);
    return status;
}

#endif /* CAI_TVM_FFI_H */
