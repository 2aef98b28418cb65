/*
 * cai/cai.h: everything. Programs include this file, or only the headers that they need.
 *
 * What holds for every function:
 *   - A function that can fail returns a cai_status (0 is success). Its last parameter is a
 *     cai_error *, which may be NULL. No error is kept anywhere else.
 *   - Outputs are written on success only, the error on failure only.
 *   - NULL for a required pointer is CAI_ERR_NULL_ARGUMENT; functions that cannot fail accept NULL.
 *     Other pointers must be valid.
 *   - An unknown bit or mode in an argument, or tail of options, is CAI_ERR_NEWER_CALLER. An
 *     unknown flag of an array is CAI_ERR_FLAGS.
 *   - A function throws nothing, prints nothing and does not abort. It starts a thread or calls
 *     CUDA only if its comment states it.
 *   - "Allocates nothing" is about success. Formatting an error message may allocate; if that
 *     fails, the status is CAI_ERR_NO_MEMORY. A bug of the library is CAI_ERR_INTERNAL.
 *   - Text is written through (char *buffer, size_t size, size_t *out_length). Text that a function
 *     returns is constant.
 *   - A stream of 0 is invalid: use CAI_STREAM_LEGACY, CAI_STREAM_PER_THREAD or CAI_STREAM_NONE.
 *   - Sizes, strides and offsets are in bytes, extents in elements.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_H
#define CAI_H

#include "abi.h"
#include "status.h"
#include "array.h"
#include "dtype.h"
#include "sync.h"
#include "driver.h"
#include "dlpack.h"
#include "python.h"

#endif /* CAI_H */
