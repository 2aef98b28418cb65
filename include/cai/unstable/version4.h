/*
 * cai/unstable/version4.h: dictionaries of the proposed version 4 of the CUDA Array Interface.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/version4.h>
 *
 *     // The object's dictionary also states device, context, stream id, event and the name of the type.
 *     static cai_status give(const cai_array *array, struct _object **out, cai_error *error) {
 *         cai_export_options options = CAI_EXPORT_OPTIONS_INIT;
 *         options.flags = CAI_UNSTABLE_EXPORT_VERSION_4;
 *         return cai_array_to_python(array, &options, out, error);
 *     }
 *
 *     int main(void) {
 *         struct _object *object;
 *         return give(NULL, &object, NULL) == CAI_ERR_NULL_ARGUMENT ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_VERSION4_H
#define CAI_UNSTABLE_VERSION4_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/version4.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// For `cai_export_options.flags`: dictionaries of the proposed version 4, which state what else is
/// known: `device`, `context`, `stream_id`, `event` and `dtype`. The other keys are those of
/// version 3, for readers that know no more. If the stream is not known, the version is 2, as
/// without this flag. Contradicts `CAI_EXPORT_VERSION_2`.
#define CAI_UNSTABLE_EXPORT_VERSION_4 1073741824

/// For `cai_import_options.flags`: reads those keys in dictionaries of any version but 3.
/// Contradicts `CAI_IMPORT_STRICT`.
#define CAI_UNSTABLE_IMPORT_VERSION_4 536870912

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_VERSION4_H */
