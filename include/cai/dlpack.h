/*
 * cai/dlpack.h: DLPack tensors to arrays and back. The structures are those of dlpack.h, which may
 * be included before or after this file, or not at all.
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

/**
 * Makes an array of a DLPack tensor, and takes the tensor over: its deleter runs exactly once, when
 * the last reference to the array is gone, on the thread where that happens.
 *
 * `tensor`: belongs to the array from success on. On failure nothing has changed: the caller still
 * has to call its deleter, also after `CAI_ERR_DLPACK_VERSION`.
 * `stream`: DLPack does not say which stream work on the data is pending on; the caller does. The
 * stream that it passed to `__dlpack__`, the one that `current_work_stream` of an exchange table
 * answered (0 there is `CAI_STREAM_LEGACY`), `CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`. An array in
 * host memory (`CAI_DEVICE_CPU`) always has `CAI_STREAM_NONE`. 0 is refused with
 * `CAI_ERR_STREAM_ZERO`, for host memory too.
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Strides
 * are in bytes; `byte_offset` of the tensor goes into `data`, except for devices whose data is a
 * handle. `data` is NULL where there are no elements, whatever the tensor says. Read-only if the
 * tensor says so. Release it with `cai_array_release`.
 *
 * Types that DLPack knows and the array interface does not get a `dtype_code`. Handles, floats of
 * more than 64 bits, packed elements of less than a byte other than bits, and vectors (`lanes`
 * above 1) other than two 4-bit floats in a byte are refused with `CAI_ERR_CONVERT_TYPE`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_DLPACK_VERSION` for
 * another major number, `CAI_ERR_FLAGS` for a flag that DLPack 1.3 does not have,
 * `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_NO_MEMORY`, or what `cai_array_validate` with `CAI_CHECK_LAYOUT`
 * says; `field` is then the name in the tensor (`device.device_type`, `strides[1]`).
 * Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
 */
CAI_API cai_status cai_array_from_dlpack(
    struct DLManagedTensorVersioned *tensor, cai_stream stream, cai_array *out, cai_error *error);

/**
 * The same for DLPack's older structure, which has no version and cannot say that it is read-only.
 * Nor does it say whether elements of less than a byte are packed, so they are refused with
 * `CAI_ERR_CONVERT_TYPE`, bits too.
 *
 * Parameters, statuses and thread safety: as `cai_array_from_dlpack`, without
 * `CAI_ERR_DLPACK_VERSION` and `CAI_ERR_FLAGS`.
 */
CAI_API cai_status cai_array_from_dlpack_unversioned(
    struct DLManagedTensor *tensor, cai_stream stream, cai_array *out, cai_error *error);

/**
 * Makes a DLPack tensor of an array. The tensor holds a reference of its own; calling its deleter,
 * once, from any thread, gives it up.
 *
 * DLPack has no streams: whoever hands the tensor out first makes the receiver's stream wait for
 * the array's work (`cai_array_consume_begin` with that stream), or says that it works on the
 * array's stream.
 *
 * `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`. Where `device`
 * is not known, the CUDA driver is asked; an array without elements is then on CUDA device 0.
 * `flags`: 0.
 * `out`: written on success only. Its version is 1.3; `strides` are never NULL, but for no
 * dimensions. The id of host memory and managed memory is 0, as DLPack demands.
 *
 * What does not convert says so: a mask (`CAI_ERR_CONVERT_MASK`); structures, texts, times,
 * objects, floats of more than 8 bytes and opaque types without a `dtype_code`
 * (`CAI_ERR_CONVERT_TYPE`); strides that are no whole number of elements
 * (`CAI_ERR_CONVERT_STRIDES`), unless nothing takes that step; foreign byte order
 * (`CAI_ERR_CONVERT_BYTE_ORDER`); an address whose device neither the array nor the driver knows
 * (`CAI_ERR_CONVERT_DEVICE`).
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_BORROWED`,
 * `CAI_ERR_OWNER_OPS`, the five above, `CAI_ERR_NO_MEMORY`, what `cai_array_validate` says, or what
 * the driver may answer to any call.
 * Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
 */
CAI_API cai_status cai_array_to_dlpack(
    const cai_array *array, uint32_t flags, struct DLManagedTensorVersioned **out,
    cai_error *error);

/**
 * The same as DLPack's older structure, which cannot say that it is read-only: read-only arrays are
 * refused with `CAI_ERR_CONVERT_READONLY`. Nor can it say how elements of less than a byte lie:
 * `CAI_ERR_CONVERT_TYPE`.
 *
 * Parameters, other statuses and thread safety: as `cai_array_to_dlpack`.
 */
CAI_API cai_status cai_array_to_dlpack_unversioned(
    const cai_array *array, uint32_t flags, struct DLManagedTensor **out, cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_DLPACK_H */
