/*
 * cai/unstable/capture.h: external waits in the capture of a CUDA graph.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/capture.h>
 *
 *     // Each launch of the graph that `stream` captures waits for the producer's work. Call
 *     // cai_array_consume_end after each launch.
 *     static cai_status read(const cai_array *array, cai_stream stream, cai_error *error) {
 *         uint32_t flags = CAI_ACCESS_READ | CAI_UNSTABLE_CAPTURE_EXTERNAL;
 *         return cai_array_consume_begin(array, stream, flags, error);
 *     }
 *
 *     int main(void) {
 *         cai_array array = CAI_ARRAY_INIT;
 *         array.stream = CAI_STREAM_NONE; // nothing is pending
 *         return read(&array, CAI_STREAM_LEGACY, NULL) == CAI_OK ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_CAPTURE_H
#define CAI_UNSTABLE_CAPTURE_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/capture.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// A capturing stream gets a graph node that waits, at each launch, for the work that is pending on
/// the other stream now. After a begin with it, call `cai_array_consume_end` after each launch, on
/// the launch's stream.
#define CAI_UNSTABLE_CAPTURE_EXTERNAL 512

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_CAPTURE_H */
