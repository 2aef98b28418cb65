/*
 * cai/array.h: validation, lifetime and layout of arrays, and owners.
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

/* Bits of the argument `checks` of cai_array_validate. */
/** Structure, shape, strides, fields and masks obey every rule. Makes no driver call. */
#define CAI_CHECK_LAYOUT 1
/** `data` and every stride that is used are multiples of the element's natural alignment. */
#define CAI_CHECK_ALIGNMENT 2
/** Asks the CUDA driver for the kind, device, extent and accessibility of the memory. */
#define CAI_CHECK_DEVICE 4
/** Asks the CUDA driver whether `stream` is alive and agrees with `stream_id` and `context`. */
#define CAI_CHECK_STREAM 8

/**
 * Checks an array and its masks against every rule of the CUDA Array Interface and of this header.
 * A consumer calls it first; it costs nanoseconds.
 *
 * `checks`: `CAI_CHECK_LAYOUT`, and what is wanted of `CAI_CHECK_ALIGNMENT`, `CAI_CHECK_DEVICE` and
 * `CAI_CHECK_STREAM`. The layout is always checked: 0 means `CAI_CHECK_LAYOUT`.
 *
 * Reads the structure, shape, strides, fields and masks; never the data. Only the last two ask the
 * driver. Every NULL is found; other pointers must be what they are said to be.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, or the status of the first
 * broken rule: `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, `CAI_ERR_VERSION`, a `CAI_ERR_TYPESTR_`
 * status, `CAI_ERR_DTYPE_CODE`, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE`,
 * `CAI_ERR_ITEMSIZE`, `CAI_ERR_BIT_STRIDES`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_SPAN_OVERFLOW`,
 * `CAI_ERR_DEVICE_TYPE`, `CAI_ERR_DEVICE_ID`, `CAI_ERR_DATA_NULL`, `CAI_ERR_DATA_NOT_NULL`,
 * `CAI_ERR_BYTE_OFFSET`, `CAI_ERR_ADDRESS_RANGE`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`,
 * `CAI_ERR_STREAM_ID`, `CAI_ERR_EVENT`, a `CAI_ERR_DESCR_` status, `CAI_ERR_ALIGNMENT`,
 * `CAI_ERR_MASK_VERSION`, `CAI_ERR_MASK_TYPE`, `CAI_ERR_MASK_SHAPE`, `CAI_ERR_MASK_CYCLE`,
 * `CAI_ERR_MASK_DEPTH` or, where a list has more than 32 fields, `CAI_ERR_NO_MEMORY`.
 * `CAI_CHECK_DEVICE` adds `CAI_ERR_NOT_DEVICE_POINTER`, `CAI_ERR_DEVICE_MISMATCH`,
 * `CAI_ERR_NOT_ACCESSIBLE` and `CAI_ERR_OUT_OF_ALLOCATION`; `CAI_CHECK_STREAM` adds
 * `CAI_ERR_STREAM_STALE`, `CAI_ERR_STREAM_THREAD`, `CAI_ERR_STREAM_CONTEXT` and
 * `CAI_ERR_NO_CONTEXT`; both add what the driver may answer to any call (see
 * `cai_driver_info_get`). What is wrong inside a mask has a `field` that begins with `mask.`.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API cai_status cai_array_validate(const cai_array *array, uint32_t checks, cai_error *error);

/**
 * Adds a reference to the owner of an array: from now on the data, and all that the structure
 * points to, stays alive until `cai_array_release` of this structure or of a copy of it.
 *
 * An array without an owner is borrowed: nothing can be kept alive, and the function says so.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED` or
 * `CAI_ERR_OWNER_OPS`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API cai_status cai_array_retain(const cai_array *array, cai_error *error);

/**
 * Gives up the reference that this structure holds on its owner, and clears the structure: all
 * fields but `struct_size` become 0. So a second release does nothing, and neither does one of
 * `CAI_ARRAY_INIT`, of a zeroed structure, of a borrowed array, or of NULL.
 *
 * Works on arrays of every version of this header, past and future.
 *
 * Cannot fail. Thread safety: any thread, but not two on one structure at once; allocates nothing.
 */
CAI_API void cai_array_release(cai_array *array);

/**
 * Makes a second structure for the same array: copies it, whatever header the other side was
 * compiled with, and adds a reference. A consumer that keeps an array it was handed uses this
 * instead of `*out = *array`, which reads past the end of a shorter structure.
 *
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Gets as
 * much as its `struct_size` covers, on success only; release it with `cai_array_release`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
 * `CAI_ERR_BORROWED` or `CAI_ERR_OWNER_OPS`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API cai_status cai_array_share(const cai_array *array, cai_array *out, cai_error *error);

/**
 * Creates an array from a description: copies shape, strides, fields and masks into one block,
 * which is the owner of the new array. For producers whose shape and strides live on the stack. The
 * data is not copied.
 *
 * `description`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; mind that `data` is NULL
 * if there are no elements. It is not changed. If it has an owner, the new array holds a reference
 * of its own to it, and the caller keeps the one in `description`. The same holds for the owners of
 * masks. Each mask of `out` can be shared by itself.
 * `context`, `destroy`: `destroy(context)` is called once, when the last reference to the new array
 * and its masks was released, after the owners above were released. It may be called on any thread,
 * with or without an interpreter's lock, and must not throw. `destroy` may be NULL. On failure it
 * is not called: `context` is still the caller's.
 * `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not be
 * `description`. Gets as much as its `struct_size` covers, on success only; release it with
 * `cai_array_release`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` if `out` is `description`,
 * `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`, or what `cai_array_validate`
 * returns.
 * Thread safety: any thread; allocates one block.
 */
CAI_API cai_status cai_array_create(
    const cai_array *description, void *context, void (*destroy)(void *context), cai_array *out,
    cai_error *error);

/**
 * Attaches something to an array that must live as long as the array: the stream that it is
 * exported with, an event, a pool. Replaces the owner of the array and of its masks by one that
 * first releases the old owners and then calls `destroy(context)`. So a stream that is attached is
 * still there when the data is freed on it.
 *
 * `array`: must have an owner; holds the only reference to the new one on success, and is unchanged
 * on failure. If it has a mask, it must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`, and
 * `mask` is replaced by a copy: a mask that is shared by itself keeps what was attached.
 * `context`, `destroy`: as in `cai_array_create`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`,
 * `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY` or, if there is a mask, what `cai_array_validate`
 * returns.
 * Thread safety: any thread, but not two on one structure at once; allocates one block. Source: CAI
 * version 3, "Lifetime management", "Streams".
 */
CAI_API cai_status cai_array_attach(
    cai_array *array, void *context, void (*destroy)(void *context), cai_error *error);

/**
 * Makes an owner with one reference, for producers that have no counted object of their own.
 *
 * `context`: handed to `destroy`; may be NULL.
 * `destroy`: called once with `context` when the last reference is gone, on whatever thread that
 * happens, with or without an interpreter's lock. It must not throw. NULL: nothing needs to be
 * done, because the data lives as long as the program.
 * `out`: the owner; the caller holds its reference. Written on success only; on failure `context`
 * is still the caller's.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_NO_MEMORY`.
 * Thread safety: any thread.
 */
CAI_API cai_status cai_owner_create(
    void *context, void (*destroy)(void *context), cai_owner **out, cai_error *error);

/**
 * Adds a reference to an owner of any library, through its table.
 *
 * The caller must hold a reference, or know that somebody does for the length of this call.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_OWNER_OPS`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API cai_status cai_owner_retain(cai_owner *owner, cai_error *error);

/**
 * Gives up a reference to an owner of any library, through its table. The last one destroys the
 * owner, on this thread.
 *
 * Does nothing with NULL. An owner whose table is broken cannot be released and is leaked.
 *
 * Cannot fail. Thread safety: any thread; allocates nothing.
 */
CAI_API void cai_owner_release(cai_owner *owner);

/* Bits of cai_layout.flags. */
/** The elements lie in C order (last dimension fastest) without gaps. */
#define CAI_LAYOUT_C_CONTIGUOUS 1
/** The elements lie in Fortran order (first dimension fastest) without gaps. */
#define CAI_LAYOUT_F_CONTIGUOUS 2

/**
 * Size and extent of an array, filled by `cai_array_layout`.
 *
 * The size never changes: later versions use reserved space, which is zero until then.
 */
struct cai_layout {
    /** Number of elements: the product of all extents; 1 if there are no dimensions. */
    int64_t count;
    /** Bytes of all elements without gaps, as a dense copy needs. Bit fields are packed and
     *  rounded up. */
    int64_t nbytes;
    /** First byte that the array touches, relative to `data` (to `data` plus `byte_offset` for a
     *  handle): 0 or negative. */
    int64_t lower;
    /** End of the bytes that the array touches, relative to the same address. 0 if there are no
     *  elements. */
    int64_t upper;
    /** `CAI_LAYOUT_` bits. Strides of extents below 2 do not matter. An array can be both. */
    uint32_t flags;
    /** Zero. */
    uint32_t reserved[7];
};

/**
 * Measures an array: its elements, their bytes, the bytes that it spans, and whether it is
 * contiguous.
 *
 * `out`: written on success only.
 *
 * Returns what `cai_array_validate` with `CAI_CHECK_LAYOUT` returns.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API cai_status cai_array_layout(const cai_array *array, cai_layout *out, cai_error *error);

/**
 * The steps in bytes of an array, also where it leaves them out (`strides` NULL). Extents of 0
 * count as 1.
 *
 * `out`: room for `capacity` steps, of which `array->ndim` are written, on success only. May be
 * NULL if the array has no dimensions.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE` if `capacity` is below
 * `array->ndim`, `CAI_ERR_BIT_STRIDES` for bit fields that are no whole bytes,
 * `CAI_ERR_SIZE_OVERFLOW`, or what `cai_array_validate` says of a malformed type, shape or strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API cai_status cai_array_strides(
    const cai_array *array, int32_t capacity, int64_t *out, cai_error *error);

/**
 * The steps in bytes that a dense array of this shape has: what a producer writes into `strides`.
 *
 * `order`: `'C'` (last dimension fastest) or `'F'` (first dimension fastest).
 * `ndim`: 0 to `CAI_MAX_NDIM`. `shape`: `ndim` extents; may be NULL if `ndim` is 0. Extents of 0
 * count as 1.
 * `itemsize`: bytes of one element, at least 1.
 * `out`: gets `ndim` steps, on success only; may be NULL if `ndim` is 0.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER` (another `order`),
 * `CAI_ERR_ARGUMENT` (`itemsize`), `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE`
 * or `CAI_ERR_SIZE_OVERFLOW`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API cai_status cai_layout_strides(
    char order, int32_t ndim, const int64_t *shape, int64_t itemsize, int64_t *out,
    cai_error *error);

/**
 * May two arrays share bytes? `false` is certain: the spans do not meet. `true` may be a false
 * alarm: interleaved arrays have overlapping spans, and different opaque handles may be windows of
 * one buffer. Memory that is mapped at two addresses is seen at neither through the other. Masks
 * are not looked at.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type,
 * shape, strides, device or address; the error's `field` begins with `a.` or `b.`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API cai_status cai_array_may_overlap(
    const cai_array *a, const cai_array *b, bool *out, cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_ARRAY_H */
