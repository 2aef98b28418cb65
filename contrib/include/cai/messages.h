/*
 * cai/messages.h (unstable: may change in any minor release): the common part of cai/mpi.h and
 * cai/nccl.h. Include one of those instead. C99 and C++11; link the library as for cai.h. It
 * declares nothing public.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_MESSAGES_H
#define CAI_MESSAGES_H

#include <cai/array.h>
#include <cai/dtype.h>
#include <cai/type_table.h>

/* Whether a type is that of a row of cai/type_table.h. */
#define CAI_PRIVATE_IS_TYPE(dtype, letter, bytes, number)         \
    ((dtype)->code == (number) && (dtype)->itemsize == (bytes) && \
     ((dtype)->code != CAI_DTYPE_NONE || (dtype)->kind == (letter)))

/* Returns whether a field, at any depth, consists of Python objects. The fields were validated. */
static inline int cai_private_has_objects(const cai_descr *descr) {
    const cai_field *field;
    cai_dtype dtype;
    uint64_t i;
    for (i = 0; (field = cai_inline_field(descr, i)) != NULL; ++i) {
        if (field->nested != NULL) {
            if (cai_private_has_objects(field->nested)) return 1;
        } else if (cai_field_dtype(field, &dtype, NULL) == CAI_OK && dtype.kind == 'O') {
            return 1;
        }
    }
    return 0;
}

/* Validates an array, and requires elements that have the same meaning in another process: no mask,
 * the byte order of this machine, no Python objects. */
static inline cai_status cai_private_message(const cai_array *array, cai_layout *layout,
                                             cai_dtype *dtype, cai_error *error) {
    cai_status status = cai_array_validate(array, CAI_CHECK_NATIVE, error);
    if (status == CAI_OK) status = cai_array_layout(array, layout, error);
    if (status == CAI_OK) status = cai_array_dtype(array, dtype, error);
    if (status != CAI_OK) return status;
    if (array->mask != NULL)
        return cai_error_set(error, CAI_ERR_CONVERT_MASK, "mask",
                             "found a mask, expected none: send it as an array of its own");
    if (dtype->kind == 'O' || (dtype->kind == 'V' && cai_private_has_objects(array->descr)))
        return cai_error_set(error, CAI_ERR_CONVERT_TYPE, dtype->kind == 'O' ? "typestr" : "descr",
                             "found Python objects, which are addresses in this process");
    return CAI_OK;
}

#endif /* CAI_MESSAGES_H */
