/*
 * cai/xla_ffi.h (unstable: may change in any minor release): buffers of XLA's foreign functions
 * (jax.ffi) to arrays and back. Header-only; C99 and C++17. Needs the headers of jaxlib
 * (`jax.ffi.include_dir()`). Link libcai.
 *
 *     #include <cai/xla_ffi.h>
 *
 *     XLA_FFI_Error *twice(XLA_FFI_CallFrame *frame) { // registered for platform "CUDA"
 *         cai_array in = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
 *         cai_stream stream;
 *         cai_device device;
 *         cai_error error;
 *         if (cai_xla_metadata(frame)) return NULL;
 *         cai_status status = cai_xla_stream(frame, CAI_DEVICE_CUDA, &stream, &device, &error);
 *         if (status == CAI_OK) status = cai_array_from_xla(frame->args.args[0], stream, device,
 *                                                           CAI_ARRAY_READONLY, &in, &error);
 *         if (status == CAI_OK) status = cai_array_from_xla(frame->rets.rets[0], stream, device,
 *                                                           0, &out, &error);
 *         if (status == CAI_OK) status = my_kernel(&in, &out, &error);
 *         return status == CAI_OK ? NULL : cai_xla_error(frame->api, &error);
 *     }
 *
 * Arrays of buffers are borrowed: XLA owns the memory, which is valid during the call only. They
 * are in C order. Work that you enqueue on `stream` is in order. Work on another stream needs
 * `cai_array_consume_begin` and `cai_array_consume_end`. A handler must check `frame->args.size`
 * and `frame->rets.size` if callers can pass another number of buffers.
 *
 * Thread safety of all functions: any thread, during the call of the handler.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_XLA_FFI_H
#define CAI_XLA_FFI_H

#include "frameworks.h"

#include <xla/ffi/api/c_api.h>

/* XLA's types. */
static const cai_private_type cai_private_xla_types[] = {
    CAI_PRIVATE_XLA_TYPES(CAI_PRIVATE_TYPE){XLA_FFI_DataType_INVALID, 0, 0, 0}};

/**
 * Writes the version of XLA's interface if the call requests it. XLA makes such a call, without
 * buffers, when a handler is registered. Handlers that are bound with XLA's C++ macros do not need
 * this function.
 *
 * Returns true if the call requested the version: the handler must then return NULL.
 */
static inline bool cai_xla_metadata(const XLA_FFI_CallFrame *frame) {
    XLA_FFI_Extension_Base *base = frame->extension_start;
    XLA_FFI_Metadata_Extension *extension;
    while (base != NULL && base->type != XLA_FFI_Extension_Metadata)
        base = base->next;
    if (base == NULL) return false;
    memcpy(&extension, &base, sizeof(base)); /* it is the first member */
    extension->metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    extension->metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return true;
}

/**
 * Creates an XLA error from a cai_error. The handler returns it, which passes its ownership to XLA.
 */
static inline XLA_FFI_Error *cai_xla_error(const XLA_FFI_Api *api, const cai_error *error) {
    XLA_FFI_Error_Create_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    args.message = error->message;
    args.errc = error->code == CAI_ERR_NO_MEMORY ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
                                                 : XLA_FFI_Error_Code_INVALID_ARGUMENT;
    return api->XLA_FFI_Error_Create(&args);
}

/**
 * Reports the stream and the device of a call.
 *
 * `device_type`: the device type of the platform for which the handler was registered, such as
 * `CAI_DEVICE_CUDA`, or `CAI_DEVICE_CPU`, which has no stream.
 * `stream`: XLA's stream, which stays XLA's, or `CAI_STREAM_NONE`. Both outputs are written on
 * success only.
 *
 * Returns `CAI_OK`, or `CAI_ERR_CONVERT_DEVICE` with XLA's message.
 */
static inline cai_status cai_xla_stream(const XLA_FFI_CallFrame *frame, int32_t device_type,
                                        cai_stream *stream, cai_device *device, cai_error *error) {
    XLA_FFI_Stream_Get_Args get;
    XLA_FFI_DeviceOrdinal_Get_Args ordinal;
    XLA_FFI_Error *failed = NULL;
    memset(&get, 0, sizeof(get));
    memset(&ordinal, 0, sizeof(ordinal));
    if (device_type != CAI_DEVICE_CPU) {
        get.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
        get.ctx = ordinal.ctx = frame->ctx;
        ordinal.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
        failed = frame->api->XLA_FFI_Stream_Get(&get);
        if (failed == NULL) failed = frame->api->XLA_FFI_DeviceOrdinal_Get(&ordinal);
    }
    if (failed != NULL) {
        XLA_FFI_Error_GetMessage_Args message;
        XLA_FFI_Error_Destroy_Args destroy;
        memset(&message, 0, sizeof(message));
        memset(&destroy, 0, sizeof(destroy));
        message.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
        destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
        message.error = destroy.error = failed;
        frame->api->XLA_FFI_Error_GetMessage(&message);
        cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "stream", message.message);
        frame->api->XLA_FFI_Error_Destroy(&destroy);
        return CAI_ERR_CONVERT_DEVICE;
    }
    *stream = CAI_STREAM_NONE;
    if (device_type != CAI_DEVICE_CPU) *stream = get.stream == NULL ? CAI_STREAM_LEGACY : 0;
    if (*stream == 0) memcpy(stream, &get.stream, sizeof(get.stream));
    device->type = device_type;
    device->id = ordinal.device_ordinal;
    return CAI_OK;
}

/**
 * Describes a buffer of XLA as a borrowed array, which refers to the buffer's memory and shape.
 * Allocates nothing.
 *
 * `stream`, `device`: of `cai_xla_stream`.
 * `flags`: `CAI_ARRAY_READONLY` for arguments, 0 for results.
 * `out`: must be initialized (`CAI_ARRAY_INIT`). Valid during the call only. Written on success
 * only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_CONVERT_TYPE` for
 * tokens and types below 8 bits, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`, or a status of
 * `cai_array_validate`.
 */
static inline cai_status cai_array_from_xla(const XLA_FFI_Buffer *buffer, cai_stream stream,
                                            cai_device device, uint32_t flags, cai_array *out,
                                            cai_error *error) {
    cai_array made = CAI_ARRAY_INIT;
    const cai_private_type *type = NULL;
    cai_status status;
    if (buffer == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "buffer", "found NULL");
    if (buffer->struct_size < XLA_FFI_Buffer_STRUCT_SIZE) {
        return cai_error_set(error, CAI_ERR_STRUCT_SIZE, "buffer.struct_size", "too small");
    }
    status = cai_private_set_type(&made, cai_private_xla_types,
                                  CAI_PRIVATE_CAST(int32_t, buffer->dtype), &type, error);
    if (status != CAI_OK) return status;
    made.flags = flags;
    made.data = buffer->data;
    made.stream = stream;
    made.device = device;
    status = cai_private_shape(&made, type, buffer->rank, buffer->dims, NULL, NULL, error);
    return status == CAI_OK ? cai_private_lend(&made, out, error) : status;
}

/**
 * Describes an array as a buffer for a call of a handler, and makes `stream` wait for the array's
 * pending work. Call `cai_array_consume_end` after the handler.
 *
 * `array`: must outlive the buffer, which refers to its data and shape. No reference is held.
 * `stream`: the stream of the call; `CAI_STREAM_NONE` for host memory. A default stream is that of
 * the current device.
 * `access`: as in `cai_array_consume_begin`.
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_CONVERT_CONTIGUOUS`,
 * `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_DEVICE`, or a status of
 * `cai_array_validate` or `cai_array_consume_begin`.
 */
static inline cai_status cai_array_to_xla(const cai_array *array, cai_stream stream,
                                          uint32_t access, XLA_FFI_Buffer *out, cai_error *error) {
    const cai_private_type *type = NULL;
    cai_layout layout;
    cai_device location = {0, 0};
    cai_status status =
        cai_private_require(array, out, cai_private_xla_types, &type, 0, &location, error);
    if (status == CAI_OK) status = cai_array_layout(array, &layout, error);
    if (status != CAI_OK) return status;
    if ((layout.flags & CAI_LAYOUT_C_CONTIGUOUS) == 0) {
        return cai_private_refuse(error, CAI_ERR_CONVERT_CONTIGUOUS, "strides", "other strides",
                                  "a C-contiguous array");
    }
    if ((location.type == CAI_DEVICE_CPU) != (stream == CAI_STREAM_NONE)) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                                         location.type, "the device of the handler's stream");
    }
    status = cai_private_begin(array, stream, access, NULL, error);
    if (status != CAI_OK) return status;
    memset(out, 0, sizeof(*out));
    out->struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
    out->dtype = CAI_PRIVATE_CAST(XLA_FFI_DataType, type->number);
    out->data = array->data;
    out->rank = array->ndim;
    memcpy(&out->dims, &array->shape, sizeof(out->dims)); /* dims is not const, but not written */
    return CAI_OK;
}

#if defined(__cplusplus)
/**
 * Converts an xla::ffi::AnyBuffer or Buffer to the buffer of XLA's C interface. The result refers
 * to the shape of `buffer`.
 */
template <class Buffer> XLA_FFI_Buffer cai_xla_buffer(const Buffer &buffer) {
    XLA_FFI_Buffer made = {};
    made.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
    made.dtype = static_cast<XLA_FFI_DataType>(buffer.element_type());
    made.data = buffer.untyped_data();
    made.rank = static_cast<int64_t>(buffer.dimensions().size());
    made.dims = const_cast<int64_t *>(buffer.dimensions().begin()); /* not written */
    return made;
}
#endif

#endif /* CAI_XLA_FFI_H */
