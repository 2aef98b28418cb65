/*
 * cai/mpi_types.h (unstable: may change in any minor release): MPI types of elements, and of
 * elements with strides. A part of cai/mpi.h: include that header instead.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_MPI_TYPES_H
#define CAI_MPI_TYPES_H

#include "messages.h"

#include <limits.h>
#include <mpi.h>

/**
 * Returns the MPI type of an element type: the integer, float, complex or boolean type of the same
 * size, `MPI_INT64_T` for times, and `MPI_BYTE` for types that MPI does not have: 2-byte floats,
 * bfloat16, 8-bit floats, text, structures, bit fields. Do not free it.
 *
 * Thread safety: any thread.
 */
static inline MPI_Datatype cai_mpi_type(const cai_dtype *dtype) {
#define CAI_PRIVATE_RETURN(kind, bytes, code, type) \
    if (CAI_PRIVATE_IS_TYPE(dtype, kind, bytes, code)) return type;
    CAI_PRIVATE_MPI_TYPES(CAI_PRIVATE_RETURN)
#undef CAI_PRIVATE_RETURN
    return MPI_BYTE;
}

/* --- derived datatypes */

/* MPI_Type_create_hvector. Open MPI 5.0 gives some vectors with negative strides a wrong layout;
 * elements with a negative extent are right everywhere. */
static inline int cai_private_mpi_hvector(int count, int block, int64_t stride, MPI_Datatype old,
                                          MPI_Datatype *out) {
    MPI_Datatype row = old, step = MPI_DATATYPE_NULL;
    int code = MPI_SUCCESS;
    if (stride >= 0) return MPI_Type_create_hvector(count, block, stride, old, out);
    if (block != 1) code = MPI_Type_contiguous(block, old, &row);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Type_create_resized(row, 0, stride, &step);
    if (block != 1) (void)MPI_Type_free(&row);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Type_contiguous(count, step, out);
    (void)MPI_Type_free(&step);
    return code;
}

/* The same for any count: more than 2^30 blocks become types of 2^30 blocks, and one of the rest.
 * Replaces `type` by the result, and frees the former type if `*made`. */
static inline int cai_private_mpi_vector(int64_t count, int64_t block, int64_t stride,
                                         int64_t itemsize, MPI_Datatype *type, int *made) {
    const int64_t most = CAI_PRIVATE_CAST(int64_t, 1) << 30;
    const int rest = CAI_PRIVATE_CAST(int, count % most);
    MPI_Datatype old = *type, out = MPI_DATATYPE_NULL;
    int code = MPI_SUCCESS, inner = 0, blocks = 1;
    if (block > INT_MAX) code = cai_private_mpi_vector(block, 1, itemsize, itemsize, &old, &inner);
    else blocks = CAI_PRIVATE_CAST(int, block);
    if (code == MPI_SUCCESS && count <= INT_MAX) {
        code = cai_private_mpi_hvector(CAI_PRIVATE_CAST(int, count), blocks, stride, old, &out);
    } else if (code == MPI_SUCCESS) {
        const int one[2] = {1, 1};
        const MPI_Aint at[2] = {0, stride * (count / most * most)};
        MPI_Datatype chunk = MPI_DATATYPE_NULL, parts[2];
        parts[0] = parts[1] = MPI_DATATYPE_NULL;
        code = cai_private_mpi_hvector(CAI_PRIVATE_CAST(int, most), blocks, stride, old, &chunk);
        if (code == MPI_SUCCESS) {
            code = cai_private_mpi_hvector(CAI_PRIVATE_CAST(int, count / most), 1, stride * most,
                                           chunk, &parts[0]);
            (void)MPI_Type_free(&chunk);
        }
        if (code == MPI_SUCCESS && rest > 0)
            code = cai_private_mpi_hvector(rest, blocks, stride, old, &parts[1]);
        if (code == MPI_SUCCESS)
            code = MPI_Type_create_struct(rest > 0 ? 2 : 1, one, at, parts, &out);
        if (parts[0] != MPI_DATATYPE_NULL) (void)MPI_Type_free(&parts[0]);
        if (parts[1] != MPI_DATATYPE_NULL) (void)MPI_Type_free(&parts[1]);
    }
    if (inner) (void)MPI_Type_free(&old);
    if (code != MPI_SUCCESS) return code;
    if (*made) (void)MPI_Type_free(type);
    *type = out;
    *made = 1;
    return MPI_SUCCESS;
}

/* Writes the dimensions with extents above 1, outermost first, and merges dimensions that continue
 * each other. Returns their number. */
static inline int cai_private_mpi_axes(const cai_array *array, const int64_t *strides,
                                       int64_t *extents, int64_t *steps) {
    int used = 0, i;
    for (i = 0; i < array->ndim; ++i) {
        if (array->shape[i] == 1) continue;
        if (used > 0 && steps[used - 1] == strides[i] * array->shape[i]) {
            extents[used - 1] *= array->shape[i];
            steps[used - 1] = strides[i];
            continue;
        }
        extents[used] = array->shape[i];
        steps[used] = strides[i];
        ++used;
    }
    return used;
}

/* Returns whether some elements certainly share bytes, as with a stride of 0. */
static inline int cai_private_mpi_repeats(int used, const int64_t *extents, const int64_t *steps,
                                          int64_t itemsize) {
    int64_t pitch[CAI_MAX_NDIM], extent[CAI_MAX_NDIM], row = itemsize;
    int i, j;
    for (i = 0; i < used; ++i) {
        const int64_t step = steps[i] < 0 ? -steps[i] : steps[i];
        for (j = i; j > 0 && pitch[j - 1] > step; --j) {
            pitch[j] = pitch[j - 1];
            extent[j] = extent[j - 1];
        }
        pitch[j] = step;
        extent[j] = extents[i];
    }
    for (i = 0; i < used && pitch[i] <= row; ++i) {
        if (pitch[i] < row) return 1;
        row = pitch[i] * extent[i];
    }
    return 0;
}

#endif /* CAI_MPI_TYPES_H */
