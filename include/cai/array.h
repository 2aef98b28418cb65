/*
 * cai/array.h: validation, lifetime and layout of arrays, and owners.
 *
 *     #include <cai/cai.h>
 *
 *     static void close_pool(void *pool) { *(int *)pool = 0; }
 *
 *     int main(void) {
 *         static float data[12];
 *         static int pool = 1;
 *         const int64_t shape[2] = {3, 4}; // copied by cai_array_create
 *         int64_t strides[2];
 *         cai_array description = CAI_ARRAY_INIT, array = CAI_ARRAY_INIT, again;
 *         cai_layout layout;
 *         bool overlap;
 *         if (cai_layout_strides('F', shape, 2, 4, strides, NULL) != CAI_OK) return 1;
 *         description.data = data;
 *         description.shape = shape;
 *         description.strides = strides; // 4, 12
 *         description.ndim = 2;
 *         memcpy(description.typestr, "<f4", sizeof("<f4"));
 *         description.stream = CAI_STREAM_NONE;
 *         description.device.type = CAI_DEVICE_CPU;
 *         if (cai_array_create(&description, NULL, NULL, &array, NULL) != CAI_OK) return 1;
 *         if (cai_array_attach(&array, &pool, close_pool, NULL) != CAI_OK) return 1;
 *         if (cai_array_layout(&array, &layout, NULL) != CAI_OK) return 1;
 *
 *         again = array; // adds no reference
 *         if (cai_array_retain(&again, NULL) != CAI_OK) return 1;
 *         if (cai_array_may_overlap(&array, &again, &overlap, NULL) != CAI_OK) return 1;
 *         if (cai_owner_retain(array.owner, NULL) != CAI_OK) return 1;
 *         cai_owner_release(array.owner);
 *         cai_array_release(&array);
 *         cai_array_release(&again); // the last reference: closes the pool
 *         return layout.nbytes == 48 && overlap && pool == 0 ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_ARRAY_H
#define CAI_ARRAY_H

#include "status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/array.h: include the newest one first"
#endif

#include <stdbool.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_layout cai_layout;

/// Structure, shape, strides, fields and masks obey every rule. Makes no driver call.
#define CAI_CHECK_LAYOUT 1

/// `data` and every stride that is used are multiples of the element's natural alignment.
#define CAI_CHECK_ALIGNMENT 2

/// Asks the CUDA driver for the kind, device, extent and accessibility of the memory.
#define CAI_CHECK_DEVICE 4

/// Asks the CUDA driver whether `stream` is alive and agrees with `stream_id` and `context`.
#define CAI_CHECK_STREAM 8

/// The elements, or all of their fields, have the machine's byte order, or none. Masks are exempt:
/// an element is set in either order. Makes no driver call.
#define CAI_CHECK_NATIVE 16

/// The elements lie in C order (last dimension fastest) without gaps.
#define CAI_LAYOUT_C_CONTIGUOUS 1

/// The elements lie in Fortran order (first dimension fastest) without gaps.
#define CAI_LAYOUT_F_CONTIGUOUS 2

/// Size and extent of an array, filled by `cai_array_layout`.
///
/// The size never changes: later versions use reserved space, which is zero until then.
struct cai_layout {
    /// Number of elements: the product of all extents; 1 if there are no dimensions.
    int64_t count;
    /// Bytes of all elements without gaps, as a dense copy needs. Bit fields are packed and rounded
    /// up.
    int64_t nbytes;
    /// First byte that the array touches, relative to `data` (to `data` plus `byte_offset` for a
    /// handle): 0 or negative.
    int64_t lower;
    /// End of the bytes that the array touches, relative to the same address. 0 if there are no
    /// elements.
    int64_t upper;
    /// `CAI_LAYOUT_` bits. Strides of extents below 2 do not matter. An array can be both.
    uint32_t flags;
    /// Zero.
    uint32_t reserved;
    /// Bytes of one element; 0 for bit fields that are not a whole number of bytes.
    int64_t itemsize;
    /// Zero.
    uint64_t reserved_tail[2];
};

/// Validates an array and its masks against every rule of the CUDA Array Interface and of
/// `cai/abi.h`. A consumer calls it first; it takes nanoseconds.
///
/// `checks`: `CAI_CHECK_` bits. The layout is always checked; 0 means `CAI_CHECK_LAYOUT`.
///
/// It reads the structure, shape, strides, fields and masks, and never the data. Only
/// `CAI_CHECK_DEVICE` and `CAI_CHECK_STREAM` call the CUDA driver. `CAI_CHECK_DEVICE` accepts
/// arrays without elements, in host memory and behind handles without querying the driver.
/// `CAI_CHECK_STREAM` cannot detect a stream that was destroyed and whose handle was not reused: do
/// not pass one.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, or the status of the first
/// violated rule, in this order: `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, a `CAI_ERR_TYPESTR_`
/// status, `CAI_ERR_DTYPE_CODE`, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE`,
/// `CAI_ERR_ITEMSIZE`, `CAI_ERR_BIT_STRIDES`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_SPAN_OVERFLOW`,
/// `CAI_ERR_DEVICE_TYPE`, `CAI_ERR_DEVICE_ID`, `CAI_ERR_DATA_NULL`, `CAI_ERR_DATA_NOT_NULL`,
/// `CAI_ERR_BYTE_OFFSET`, `CAI_ERR_ADDRESS_RANGE`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`,
/// `CAI_ERR_STREAM_ID`, `CAI_ERR_EVENT`, `CAI_ERR_STREAM_DEVICE`, a `CAI_ERR_DESCR_` status; with
/// `CAI_CHECK_NATIVE`: `CAI_ERR_CONVERT_BYTE_ORDER`; with `CAI_CHECK_ALIGNMENT`:
/// `CAI_ERR_ALIGNMENT`; with `CAI_CHECK_DEVICE`: `CAI_ERR_NOT_DEVICE_POINTER`,
/// `CAI_ERR_DEVICE_MISMATCH`, `CAI_ERR_NOT_ACCESSIBLE`, `CAI_ERR_OUT_OF_ALLOCATION`; with
/// `CAI_CHECK_STREAM`: `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_STREAM_STALE`,
/// `CAI_ERR_STREAM_THREAD`, `CAI_ERR_STREAM_CONTEXT`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_CAPTURE_LEGACY`; for each mask: `CAI_ERR_MASK_VERSION`, `CAI_ERR_MASK_CYCLE`,
/// `CAI_ERR_MASK_DEPTH`, a status of the mask itself, `CAI_ERR_MASK_TYPE`, `CAI_ERR_MASK_SHAPE`,
/// `CAI_ERR_MASK_DEVICE`. For a list of more than 32 fields also `CAI_ERR_NO_MEMORY`.
/// `CAI_CHECK_DEVICE` and `CAI_CHECK_STREAM` add the statuses of `cai_driver_info_get`. For a
/// violation inside a mask, `error->field` begins with `mask.`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API cai_status cai_array_validate(const cai_array *array, uint32_t checks, cai_error *error);

/// Initializes an array as `CAI_ARRAY_INIT` does, for languages that declare `cai_array` by
/// themselves.
///
/// `array`: memory that holds no reference, which would be lost. It need not be initialized. All
/// `size` bytes are written: members that this library does not know become 0.
/// `size`: the size of the caller's own declaration, never a number that the library or a header of
/// another version states. It becomes `struct_size`, which limits what every function writes. A size
/// that no version has is refused, and nothing is written: below 128, above 512, or not a multiple
/// of 8.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_STRUCT_SIZE`.
/// Thread safety: any thread; allocates nothing.
CAI_API
cai_status cai_array_init(void *array,
                          size_t size);

/// Adds a reference to the owner of an array. The data, and everything that the structure points
/// to, stays alive until the reference is released with `cai_array_release` of this structure or of
/// a copy.
///
/// An array without an owner is borrowed: it cannot be kept alive, and the status is
/// `CAI_ERR_BORROWED`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED` or
/// `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
CAI_API cai_status cai_array_retain(const cai_array *array, cai_error *error);

/// Releases the reference that a structure holds on its owner, and clears the structure: sets its
/// first 128 bytes, which every version has, to 0, except `struct_size`. A borrowed array is only
/// cleared. Does nothing for NULL, a zeroed structure, `CAI_ARRAY_INIT`, and an array that was
/// already released.
///
/// The structure is cleared before the owner is released. Arrays of every version of `cai/abi.h`
/// are accepted.
///
/// Cannot fail. Thread safety: any thread, but not two on one structure at once; allocates nothing.
CAI_API void cai_array_release(cai_array *array);

/// Makes a second structure for the same array, with a reference of its own. Use it instead of an
/// assignment, which reads past the end of a shorter structure and copies a `struct_size` that can
/// exceed the copy.
///
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It
/// keeps its `struct_size`, which limits what is written, and is written on success only. Release
/// it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_BORROWED` or `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
CAI_API cai_status cai_array_share(const cai_array *array, cai_array *out, cai_error *error);

/// Creates an array from a description, which may lie on the stack: copies shape, strides, fields
/// and masks into one block, which is the owner of the new array. The data is not copied.
///
/// `description`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; but without elements,
/// `data` of the array and of each mask may be any address, and the copy's is NULL. It is not
/// changed. If it has an owner, the new array holds a reference of its own to that owner, and the
/// caller keeps the one in `description`. The same holds for the owners of masks. Each mask of
/// `out` can be shared by itself.
/// `context`, `destroy`: `destroy(context)` is called once, after the last reference to the new
/// array and its masks and the references to the owners above have been released. It runs on any
/// thread, with or without an interpreter's lock, with any CUDA context current or none, and
/// perhaps during a stream capture, where `cudaFree` fails or blocks. It must not throw (an
/// exception passes through the library), and leaving it by `longjmp` is undefined. Its code must
/// stay loaded. `destroy` may be NULL. If the function fails, `destroy` is not called,
/// and `context` still belongs to the caller.
/// `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not
/// be `description`. It is written on success only. Release it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` if `out` is `description`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`, or a status of
/// `cai_array_validate`.
/// Thread safety: any thread; allocates one block.
CAI_API
cai_status cai_array_create(const cai_array *description,
                            void *context,
                            void (*destroy)(void *context),
                            cai_array *out,
                            cai_error *error);

/// Attaches something to an array that must live as long as the array: the stream that it is
/// exported with, an event, a pool. Replaces the owner of the array and of its masks. The new owner
/// first releases the old owners and then calls `destroy(context)`, so an attached stream still
/// exists when the data is freed on it.
///
/// `array`: must have an owner. On success it holds the only reference to the new owner; on failure
/// it is unchanged. If it has a mask, it must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`,
/// and `mask` is replaced by a copy: a mask that is shared by itself keeps the attachment alive.
/// `context`, `destroy`: as in `cai_array_create`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY` or, if there is a mask, a status of
/// `cai_array_validate`.
/// Thread safety: any thread, but not two on one structure at once; allocates one block. Source:
/// CAI version 3, "Lifetime management", "Streams".
CAI_API
cai_status cai_array_attach(cai_array *array,
                            void *context,
                            void (*destroy)(void *context),
                            cai_error *error);

/// Creates an owner with one reference, for producers that have no reference-counted object of
/// their own.
///
/// `context`, `destroy`: `destroy(context)` is called once, when the last reference is released, as
/// in `cai_array_create`. `destroy` may be NULL: the data then lives as long as the program. While
/// the owner lives, its data is not freed: the library remembers which context the memory has.
/// `out`: the owner, whose reference belongs to the caller. It is written on success only; on
/// failure `context` still belongs to the caller.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread; allocates one block.
CAI_API
cai_status cai_owner_create(void *context,
                            void (*destroy)(void *context),
                            cai_owner **out,
                            cai_error *error);

/// Adds a reference to an owner of any library. The owner must stay alive during the call: the
/// caller, or other code on its behalf, holds a reference.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
CAI_API cai_status cai_owner_retain(cai_owner *owner, cai_error *error);

/// Releases a reference to an owner of any library. The last release destroys the owner, on this
/// thread.
///
/// Does nothing for NULL. An owner whose table of operations is broken is leaked.
///
/// Cannot fail. Thread safety: any thread; allocates nothing.
CAI_API void cai_owner_release(cai_owner *owner);

/// Reports the number of elements of an array, the bytes of one and of all of them, the bytes that
/// the array spans, and whether it is contiguous.
///
/// `out`: needs no initialization; written on success only.
///
/// Returns a status of `cai_array_validate` with `CAI_CHECK_LAYOUT`, or `CAI_ERR_NULL_ARGUMENT` for
/// `out`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API cai_status cai_array_layout(const cai_array *array, cai_layout *out, cai_error *error);

/// Writes the strides of an array in bytes, also if `strides` is NULL. Extents of 0 count as 1.
///
/// `out`: gets `array->ndim` strides, on success only. May be NULL if the array has no dimensions.
/// `capacity`: number of strides that fit in `out`, at least `array->ndim`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_BUFFER_SIZE` if `capacity` is too small,
/// `CAI_ERR_BIT_STRIDES` for bit fields that are not a whole number of bytes,
/// `CAI_ERR_SIZE_OVERFLOW`, or the status of `cai_array_validate` for an invalid type, shape or
/// strides.
/// Thread safety: any thread; allocates nothing.
CAI_API
cai_status cai_array_strides(const cai_array *array,
                             int64_t *out,
                             int32_t capacity,
                             cai_error *error);

/// Writes the strides in bytes of an array of this shape without gaps.
///
/// `order`: `'C'` (last dimension fastest) or `'F'` (first dimension fastest).
/// `shape`, `ndim`: the extents, 0 to `CAI_MAX_NDIM` of them; `shape` may be NULL if `ndim` is 0.
/// Extents of 0 count as 1.
/// `itemsize`: bytes of one element, at least 1.
/// `out`: gets `ndim` strides, on success only. May be NULL if `ndim` is 0.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER` for another `order`,
/// `CAI_ERR_ARGUMENT` for another `itemsize`, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`,
/// `CAI_ERR_SHAPE_NEGATIVE` or `CAI_ERR_SIZE_OVERFLOW`.
/// Thread safety: any thread; allocates nothing.
CAI_API
cai_status cai_layout_strides(char order,
                              const int64_t *shape,
                              int32_t ndim,
                              int64_t itemsize,
                              int64_t *out,
                              cai_error *error);

/// Reports whether two arrays may share bytes. `false` is certain: the spans are disjoint. `true`
/// may be a false alarm: interleaved arrays have overlapping spans, and different handles may be
/// windows of one buffer. Aliased mappings of the same physical memory are not detected. Masks are
/// ignored.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, or the status
/// of `cai_array_validate` for an invalid type, shape, strides, device or address; `error->field`
/// then begins with `a.` or `b.`.
/// Thread safety: any thread; allocates nothing.
CAI_API
cai_status cai_array_may_overlap(const cai_array *a,
                                 const cai_array *b,
                                 bool *out,
                                 cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_ARRAY_H */
