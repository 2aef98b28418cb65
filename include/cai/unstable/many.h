/*
 * cai/unstable/many.h: order of many arrays at once, with one event for each stream.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/many.h>
 *
 *     int main(void) {
 *         cai_array pages[2] = {CAI_ARRAY_INIT, CAI_ARRAY_INIT};
 *         const cai_array *arrays[2] = {&pages[0], &pages[1]};
 *         cai_stream stream = CAI_STREAM_LEGACY;
 *         uint32_t flags = CAI_ACCESS_READ;
 *         pages[0].stream = pages[1].stream = CAI_STREAM_NONE; // nothing is pending
 *         if (cai_unstable_arrays_consume_begin(arrays, 2, stream, flags, NULL) != CAI_OK) return 1;
 *         // ... launch kernels on `stream` ...
 *         if (cai_unstable_arrays_consume_end(arrays, 2, stream, flags, NULL) != CAI_OK) return 1;
 *         // Without a stream: waits on the host, once for each stream.
 *         return cai_unstable_arrays_synchronize(arrays, 2, flags, NULL) != CAI_OK;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_MANY_H
#define CAI_UNSTABLE_MANY_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/many.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// Makes `consumer_stream` wait for the producers' pending work on many arrays and their masks, as
/// `cai_array_consume_begin` for each of them. Arrays with the same stream cost one event and one
/// wait as long as arrays of at most 8 streams alternate; then a stream is ordered again.
///
/// `arrays`, `count`: pointers to arrays, in any order, of any version and device; the same one may
/// occur twice. `arrays` may be NULL if `count` is 0.
/// `consumer_stream`, `flags`: as in `cai_array_consume_begin`, the same for all arrays.
///
/// On failure the consumer must not touch the data of any of the arrays, and no end is needed:
/// `error->field` begins with the first array that failed (`arrays[17].stream`).
///
/// Returns a status of `cai_array_consume_begin`.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3,
/// "Interface Requirements"; `cuEventRecord`, `cuStreamWaitEvent`.
CAI_API
cai_status cai_unstable_arrays_consume_begin(const cai_array *const *arrays,
                                             size_t count,
                                             cai_stream consumer_stream,
                                             uint32_t flags,
                                             cai_error *error);

/// Makes the streams of many arrays and of their masks wait for everything that was enqueued on
/// `consumer_stream`, as `cai_array_consume_end` for each of them, with one event for each stream as
/// in `cai_unstable_arrays_consume_begin`.
///
/// `arrays`, `count`, `consumer_stream`, `flags`: those of `cai_unstable_arrays_consume_begin`.
///
/// A failure does not end the call: the streams of the other arrays wait all the same.
/// `error->field` begins with the first array that failed. Synchronize `consumer_stream` before
/// control returns to its producer.
///
/// Returns a status of `cai_array_consume_begin`.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3,
/// "Interface Requirements": "Placing a wait on an event in the provided stream".
CAI_API
cai_status cai_unstable_arrays_consume_end(const cai_array *const *arrays,
                                           size_t count,
                                           cai_stream consumer_stream,
                                           uint32_t flags,
                                           cai_error *error);

/// Blocks the host until the producers' pending work on many arrays and their masks is done, as
/// `cai_array_synchronize` for each of them. Waits once for each stream, event or context as long as
/// arrays of at most 8 of them alternate.
///
/// Release an interpreter's lock before the call: the pending work may need it.
///
/// `arrays`, `count`: as in `cai_unstable_arrays_consume_begin`.
/// `flags`: as in `cai_array_synchronize`.
///
/// On failure work may be pending on any of the arrays; `error->field` begins with the first array
/// that failed.
///
/// Returns a status of `cai_array_synchronize`.
/// Thread safety: any thread; allocates nothing. Source: CAI version 3, "Interface Requirements";
/// `cuStreamSynchronize`, `cuEventSynchronize`.
CAI_API
cai_status cai_unstable_arrays_synchronize(const cai_array *const *arrays,
                                           size_t count,
                                           uint32_t flags,
                                           cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_MANY_H */
