/*
 * cai/dlpack.h: DLPack tensors to arrays and back. The structures are those of dlpack.h, which may
 * be included before or after this file, or not at all.
 *
 *     #include <cai/cai.h>
 *
 *     static cai_status there_and_back(const cai_array *array, cai_array *out, cai_error *error) {
 *         struct DLManagedTensorVersioned *tensor;
 *         cai_status status = cai_array_to_dlpack(array, 0, &tensor, error);
 *         if (status != CAI_OK) return status;
 *         return cai_array_from_dlpack(tensor, array->stream, 0, out, error); // takes it over
 *     }
 *
 *     // For consumers that know no DLPack 1.
 *     static cai_status unversioned(const cai_array *array, cai_array *out, cai_error *error) {
 *         struct DLManagedTensor *tensor;
 *         cai_status status = cai_array_to_dlpack_unversioned(array, 0, &tensor, error);
 *         if (status != CAI_OK) return status;
 *         return cai_array_from_dlpack_unversioned(tensor, array->stream, 0, out, error);
 *     }
 *
 *     int main(void) {
 *         float number = 1;
 *         cai_array array = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
 *         array.data = &number;
 *         array.device.type = CAI_DEVICE_CPU;
 *         memcpy(array.typestr, "<f4", sizeof("<f4"));
 *         array.stream = CAI_STREAM_NONE;
 *         if (there_and_back(&array, &out, NULL) != CAI_ERR_BORROWED) return 1; // it has no owner
 *         return unversioned(&array, &out, NULL) == CAI_ERR_BORROWED ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_DLPACK_H
#define CAI_DLPACK_H

#include "status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/dlpack.h: include the newest one first"
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

#if defined(__cplusplus)
extern "C" {
#endif

/// Makes a tensor of a read-only array that does not state so, for consumers that reject those.
#define CAI_DLPACK_HIDE_READONLY 4

/// Creates an array from a DLPack tensor, which it takes over: the deleter runs exactly once, when
/// the last reference to the array is released, on that thread.
///
/// `tensor`: belongs to the array if the function succeeds. If it fails, nothing has changed: the
/// caller must still call the deleter, also after `CAI_ERR_DLPACK_VERSION`.
/// `stream`: the stream on which work on the data may be pending, which a tensor does not contain:
/// the stream that was passed to `__dlpack__`, the result of `current_work_stream` of an exchange
/// table (whose 0 is `CAI_STREAM_LEGACY` here), `CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`. 0 is
/// refused. An array in host memory (`CAI_DEVICE_CPU`) always gets `CAI_STREAM_NONE`.
/// `flags`: 0, or `CAI_UNSTABLE_DLPACK_LANES` of `cai/unstable/dlpack.h`.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost.
/// Strides are in bytes. `byte_offset` of the tensor is added to `data`, unless `data` is a handle.
/// `data` is NULL if there are no elements. It is read-only if the tensor is. Written on success
/// only; release it with `cai_array_release`.
///
/// Types of DLPack that NumPy does not have get a `dtype_code`. Not representable, and refused with
/// `CAI_ERR_CONVERT_TYPE`: handles, floats of more than 64 bits, packed elements of less than a
/// byte other than bits, and vectors (`lanes` above 1) other than two 4-bit floats in a byte.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`,
/// `CAI_ERR_STREAM_ZERO`, `CAI_ERR_DLPACK_VERSION` for another major version, `CAI_ERR_FLAGS` for a flag that DLPack 1.3
/// does not have, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_NO_MEMORY`, or a status of `cai_array_validate`
/// with `CAI_CHECK_LAYOUT`, where `error->field` is a member of the tensor (`device.device_type`,
/// `strides[1]`).
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
CAI_API
cai_status cai_array_from_dlpack(struct DLManagedTensorVersioned *tensor,
                                 cai_stream stream,
                                 uint32_t flags,
                                 cai_array *out,
                                 cai_error *error);

/// Creates an array from a tensor of DLPack's older structure, which has no version and cannot
/// express that it is read-only. The array is writable: DLPack requires that producers refuse to
/// export read-only memory in this structure. (`numpy.from_dlpack` returns a read-only array
/// instead.) If you know that the memory is read-only, set `CAI_ARRAY_READONLY` in the flags of the
/// array. Because it does not specify whether elements of less than a byte are packed, these
/// are refused with `CAI_ERR_CONVERT_TYPE`, bits included.
///
/// Parameters and thread safety: as for `cai_array_from_dlpack`.
///
/// Returns a status of `cai_array_from_dlpack` other than `CAI_ERR_DLPACK_VERSION` and
/// `CAI_ERR_FLAGS`.
CAI_API
cai_status cai_array_from_dlpack_unversioned(struct DLManagedTensor *tensor,
                                             cai_stream stream,
                                             uint32_t flags,
                                             cai_array *out,
                                             cai_error *error);

/// Creates a DLPack tensor from an array, with a reference of its own, which the tensor's deleter
/// releases. The deleter must be called once, from any thread.
///
/// DLPack has no streams. Before you pass the tensor on, make the receiver's stream wait for the
/// array's work (`cai_array_consume_begin` with that stream), or tell the receiver to use the
/// array's stream.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`. If `device`
/// is not known, the CUDA driver is queried; an array without elements is then on the device of its
/// context, or else of the current context, or else on CUDA device 0.
/// `flags`: `CAI_DLPACK_` bits. With `CAI_DLPACK_HIDE_READONLY`, the caller must ensure that
/// nothing writes to the data of a read-only array.
/// `out`: a tensor of version 1.3. `strides` is NULL only without dimensions. The id of host and
/// managed memory is 0, as DLPack requires. Written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_CONVERT_MASK` for an array with a mask, `CAI_ERR_CONVERT_TYPE` for
/// structures, text, times, objects, floats of more than 8 bytes and opaque types without a
/// `dtype_code`, `CAI_ERR_CONVERT_STRIDES` for strides that are used and are not a whole number of
/// elements, `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_DEVICE` if the device is not known,
/// `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`, or, if the driver is queried, of
/// `cai_driver_info_get`.
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
CAI_API
cai_status cai_array_to_dlpack(const cai_array *array,
                               uint32_t flags,
                               struct DLManagedTensorVersioned **out,
                               cai_error *error);

/// Makes a tensor of DLPack's older structure. It cannot express how elements of less than a byte
/// are packed (`CAI_ERR_CONVERT_TYPE`).
///
/// Parameters and thread safety: as for `cai_array_to_dlpack`.
///
/// Returns a status of `cai_array_to_dlpack`, or `CAI_ERR_CONVERT_READONLY` for a read-only array,
/// unless `flags` contain `CAI_DLPACK_HIDE_READONLY`.
CAI_API
cai_status cai_array_to_dlpack_unversioned(const cai_array *array,
                                           uint32_t flags,
                                           struct DLManagedTensor **out,
                                           cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_DLPACK_H */
