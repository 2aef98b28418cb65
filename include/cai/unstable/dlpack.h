/*
 * cai/unstable/dlpack.h: DLPack tensors whose elements have several lanes.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/dlpack.h>
 *
 *     // Elements of 4 floats become an array of floats with 4 of them in the last dimension.
 *     static cai_status take(struct DLManagedTensorVersioned *tensor, cai_stream stream,
 *                            cai_array *out, cai_error *error) {
 *         uint32_t flags = CAI_UNSTABLE_DLPACK_LANES;
 *         return cai_array_from_dlpack(tensor, stream, flags, out, error);
 *     }
 *
 *     int main(void) {
 *         cai_array array = CAI_ARRAY_INIT;
 *         return take(NULL, CAI_STREAM_NONE, &array, NULL) == CAI_ERR_NULL_ARGUMENT ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_DLPACK_H
#define CAI_UNSTABLE_DLPACK_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/dlpack.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// Imports elements of several lanes, such as `float4`: with this flag of `cai_array_from_dlpack`
/// and `cai_array_from_dlpack_unversioned`, elements of `lanes` numbers of whole bytes are numbers of
/// an array with one more dimension: the last one, of `lanes` contiguous numbers. A tensor of shape
/// (3, 5) with elements of 2 floats is an array of shape (3, 5, 2) of floats. Its other strides are
/// those of the tensor, in bytes. Tensors of one lane come in as without the flag. For lanes in a
/// tensor of 64 dimensions, the status is `CAI_ERR_NDIM`.
#define CAI_UNSTABLE_DLPACK_LANES 8

/// The same for `cai_import_options.flags`: tensors of `__dlpack__` and of DLPack's exchange table.
#define CAI_UNSTABLE_IMPORT_LANES 1073741824

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_DLPACK_H */
