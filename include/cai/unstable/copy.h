/*
 * cai/unstable/copy.h: copies of arrays to host memory, and from it; bytes for code that moves memory.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/copy.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         static double data[6] = {1, 2, 3, 4, 5, 6};
 *         static const int64_t shape[2] = {3, 2}, columns[2] = {8, 24};
 *         cai_array array = CAI_ARRAY_INIT, copy = CAI_ARRAY_INIT;
 *         void *address;
 *         int64_t nbytes;
 *         array.data = data;
 *         array.shape = shape;
 *         array.strides = columns;
 *         array.ndim = 2;
 *         array.device.type = CAI_DEVICE_CPU;
 *         memcpy(array.typestr, "<f8", sizeof("<f8"));
 *         array.stream = CAI_STREAM_NONE;
 *         if (cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &copy, NULL) != CAI_OK)
 *             return 1;
 *         printf("%g\n", ((double *)copy.data)[1]); // 4
 *         if (cai_unstable_array_bytes(&copy, CAI_STREAM_NONE, NULL, CAI_ACCESS_READ, &address, &nbytes,
 *                                      NULL) != CAI_OK)
 *             return 1;
 *         printf("%d bytes to send\n", (int)nbytes); // from `address`
 *         if (cai_unstable_array_copy_from_host(&array, CAI_STREAM_NONE, 0, copy.data, sizeof data, NULL))
 *             return 1;
 *         cai_array_release(&copy);
 *         return 0;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_COPY_H
#define CAI_UNSTABLE_COPY_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/copy.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// Copies an array to host memory, in C order, after the work that is pending on it. Gaps between
/// elements are not read. The driver copies the rows; if the elements are then not in C order, the
/// host reorders them.
///
/// | array | `stream` | `buffer` | the call |
/// |---|---|---|---|
/// | device or managed memory | `CAI_STREAM_NONE` | any | blocks; uses a stream of its own |
/// | device or managed memory | another | page-locked | enqueues the copies and returns |
/// | device or managed memory | another | NULL or pageable | blocks until the stream is done |
/// | host memory | any | any | blocks for the pending work; the host copies |
///
/// If the host has to put the copies in order, the call blocks until they are done.
///
/// `array`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; a borrowed one is accepted.
/// `stream`: waits for the pending work, and the array's stream then waits for it, as with
/// `cai_array_consume_begin` and `cai_array_consume_end`. Default streams are those of the calling
/// thread's current context. `CAI_STREAM_NONE` copies on a stream of its own. If the array's stream
/// is `CAI_STREAM_UNKNOWN`, and `stream` is not being captured, the copy waits for the array's
/// `event`, and without one for every stream of its context.
/// `flags`: 0 or any of `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`, `CAI_SYNC_THIS_CALL`.
/// `buffer`, `size`: host memory for the copy, of at least `nbytes` of `cai_array_layout`, of any
/// alignment, that does not overlap the array. NULL with a `size` of 0 allocates it, aligned to 64
/// bytes.
/// `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not
/// be `array`. A writable array of the same type and shape, without strides. Its `device` is
/// `CAI_DEVICE_CPU`, and its `stream` is `CAI_STREAM_NONE`. If the copies are still pending, its
/// device is `CAI_DEVICE_CUDA_HOST`, and its stream is `stream`: call `cai_array_synchronize`
/// before you read it, and keep `array` and `buffer` until then. Its owner owns the memory that was
/// allocated, never `buffer`. Written on success only; release it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_CONVERT_MASK`,
/// `CAI_ERR_CONVERT_DEVICE` for another device than CUDA's, `CAI_ERR_CAPTURE_HOST` if a stream is
/// being captured and the call would block, `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`,
/// of `cai_array_consume_begin`, or of `cai_array_synchronize`. After a failure, no copy is
/// pending; the buffer may have been written, and a capture may contain some of the copies.
/// Thread safety: any thread. Allocates one block, and others for a new buffer and for copies that
/// the host puts in order. Source: CUDA driver API, `cuMemcpyDtoHAsync`, `cuMemcpy2DAsync`.
CAI_API
cai_status cai_unstable_array_copy_to_host(const cai_array *array,
                                           cai_stream stream,
                                           uint32_t flags,
                                           void *buffer,
                                           size_t size,
                                           cai_array *out,
                                           cai_error *error);

/// Copies host memory, in C order, to the elements of an array, after the work that is pending on
/// it: the inverse of `cai_unstable_array_copy_to_host`. Gaps between elements are not written.
///
/// | array | `stream` | `buffer` | the call |
/// |---|---|---|---|
/// | device or managed memory | `CAI_STREAM_NONE` | any | blocks; uses a stream of its own |
/// | device or managed memory | another | page-locked | enqueues the copies and returns |
/// | device or managed memory | another | pageable | blocks until the stream is done |
/// | host memory | any | any | blocks for the pending work; the host copies |
///
/// If rows of the array are not in C order, the host puts the elements in order first, and the call
/// blocks until the copies are done.
///
/// `array`: must be writable and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; a borrowed one
/// is accepted. No two elements may share bytes. A stride of 0 and neighbours that overlap are
/// refused; if others share bytes, either may be written last.
/// `stream`: waits for the pending work, and the array's stream then waits for it, as with
/// `cai_array_consume_begin` and `cai_array_consume_end`. Default streams are those of the calling
/// thread's current context. `CAI_STREAM_NONE` copies on a stream of its own. For the array's
/// `CAI_STREAM_UNKNOWN` see `cai_unstable_array_copy_to_host`.
/// `flags`: 0 or any of `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`, `CAI_SYNC_THIS_CALL`.
/// `buffer`, `size`: host memory with at least `nbytes` of `cai_array_layout`, of any alignment,
/// that does not overlap the array; NULL with a `size` of 0 for an array without elements.
/// Page-locked memory must not change before `stream` has read it.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for `CAI_STREAM_UNKNOWN`, a stride
/// of 0 and neighbours that overlap, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`,
/// `CAI_ERR_READONLY`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_CONVERT_MASK`,
/// `CAI_ERR_CONVERT_DEVICE` for another device than CUDA's, `CAI_ERR_CAPTURE_HOST` if a stream is
/// being captured and the call would block, `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`,
/// of `cai_array_consume_begin`, or of `cai_array_synchronize`. After a failure, no copy is
/// pending; the array may have been written in part, and a capture may contain some of the copies.
/// Thread safety: any thread; allocates only for elements that the host puts in order. Source: CUDA
/// driver API, `cuMemcpyHtoDAsync`, `cuMemcpy2DAsync`.
CAI_API
cai_status cai_unstable_array_copy_from_host(const cai_array *array,
                                             cai_stream stream,
                                             uint32_t flags,
                                             const void *buffer,
                                             size_t size,
                                             cai_error *error);

/// Waits for the pending work on an array and reports the address and the number of bytes of its
/// elements, for code that moves memory itself: to a network, a file or a cache.
///
/// | `stream` | `event` | the call |
/// |---|---|---|
/// | `CAI_STREAM_NONE` | NULL | blocks the host, as `cai_array_synchronize` |
/// | another | NULL | makes the stream wait, as `cai_array_consume_begin` |
/// | another | an event | the same, and records the event on it: poll the event, outside of a capture |
///
/// After a move on a stream, call `cai_array_consume_end`. After one that the host knows to be done,
/// nothing is needed. Keep the array until then. Release an interpreter's lock before a call that
/// blocks.
///
/// `array`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`, and be C- or
/// Fortran-contiguous, so that its elements fill one block; a borrowed one is accepted. If its
/// stream is `CAI_STREAM_UNKNOWN`, the call waits for its `event`, and without one for every stream
/// of its context.
/// `event`: NULL, or a `CUevent` of the stream's context, which stays the caller's.
/// `flags`: as in `cai_array_consume_begin`, `CAI_ACCESS_WRITE` to receive into the array. No
/// `CAI_CAPTURE_` bits if `stream` is `CAI_STREAM_NONE`, or with an event.
/// `address`, `nbytes`: need no initialization; written on success only. An array without elements
/// has NULL and 0.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for an event without a stream,
/// `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_DEVICE` for memory that has no addresses,
/// `CAI_ERR_CONVERT_TYPE` for Python objects, `CAI_ERR_CONVERT_CONTIGUOUS`, a status of
/// `cai_array_validate`, of `cai_array_consume_begin`, or of `cai_array_synchronize`.
/// Thread safety: any thread, also several on one array; allocates nothing unless a list has more
/// than 32 fields. Source: CAI version 3, "Interface Requirements"; `cuEventRecord`.
CAI_API
cai_status cai_unstable_array_bytes(const cai_array *array,
                                    cai_stream stream,
                                    void *event,
                                    uint32_t flags,
                                    void **address,
                                    int64_t *nbytes,
                                    cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_COPY_H */
