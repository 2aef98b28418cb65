/*
 * cai/unstable/slice.h: parts of an array, which share its data.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/slice.h>
 *
 *     int main(void) {
 *         static float data[12];
 *         static const int64_t shape[2] = {4, 3};
 *         cai_array whole = CAI_ARRAY_INIT, array = CAI_ARRAY_INIT, rows = CAI_ARRAY_INIT;
 *         whole.data = data;
 *         whole.shape = shape;
 *         whole.ndim = 2;
 *         memcpy(whole.typestr, "<f4", sizeof("<f4"));
 *         whole.stream = CAI_STREAM_NONE;
 *         whole.device.type = CAI_DEVICE_CPU;
 *         if (cai_array_create(&whole, NULL, NULL, &array, NULL) != CAI_OK) return 1;
 *         if (cai_unstable_array_slice(&array, 0, 1, 3, 1, &rows, NULL) != CAI_OK) return 1;
 *         cai_array_release(&array); // `rows` keeps the data alive
 *         if (rows.data != &data[3] || rows.shape[0] != 2) return 1;
 *         cai_array_release(&rows);
 *         return 0;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_SLICE_H
#define CAI_UNSTABLE_SLICE_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/slice.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// Makes an array of some elements along one dimension: `start`, `start + step`, ... below `stop`. The
/// data is shared, not copied. The masks are cut as well, except where they are broadcast along the
/// dimension. Call it again for another dimension.
///
/// The result has the type, device, stream, event and flags of `array`; its strides are stated, unless
/// the elements follow each other without gaps as they did. An array without elements has no address.
/// Behind a handle, `byte_offset` grows instead of `data`.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
/// `dimension`: at least 0, below `array->ndim`.
/// `start`, `stop`: 0 to the extent of the dimension, `start` not above `stop`. Nothing counts from the
/// end, and nothing is cut to the extent: what NumPy would read as another range is refused.
/// `step`: at least 1.
/// `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not be
/// `array`. Its owner, in which its shape and strides lie, holds a reference to that of `array`.
/// Written on success only; release it with `cai_array_release`.
///
/// Elements of bit fields that are no whole bytes (`|t1`, in masks as well) can be cut along the
/// outermost dimension only, and at the beginning of a byte.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_ARGUMENT` for a
/// dimension or a range that does not exist, or if `out` is `array`, `CAI_ERR_BIT_STRIDES` or
/// `CAI_ERR_CONVERT_BIT_OFFSET` for bit fields that cannot be cut there, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`, or a status of `cai_array_validate`.
/// Thread safety: any thread; allocates one block. Makes no driver call.
CAI_API
cai_status cai_unstable_array_slice(const cai_array *array,
                                    int32_t dimension,
                                    int64_t start,
                                    int64_t stop,
                                    int64_t step,
                                    cai_array *out,
                                    cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_SLICE_H */
