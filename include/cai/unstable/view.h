/*
 * cai/unstable/view.h: the Python function `libcai.view`, streams of Python objects, and results.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/view.h>
 *
 *     int main(void) {
 *         struct _object *view, *result;
 *         cai_stream stream;
 *         cai_status status = cai_unstable_stream_from_python(NULL, 0, 0, &stream, NULL, NULL);
 *         if (cai_unstable_python_view(&view, NULL) != CAI_ERR_NO_PYTHON) return 1; // in this process
 *         if (cai_unstable_python_empty_like(NULL, NULL, 0, NULL, NULL, &result, NULL, NULL) !=
 *             CAI_ERR_NULL_ARGUMENT) // no prototype
 *             return 1;
 *         return status == CAI_ERR_NULL_ARGUMENT ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_VIEW_H
#define CAI_UNSTABLE_VIEW_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/view.h: include the newest one first"
#endif

struct _object;

#if defined(__cplusplus)
extern "C" {
#endif

/// Returns the CUDA stream of a Python object: of cuda.core, PyTorch, CuPy, Numba, of any other
/// object with `__cuda_stream__`, or of an integer.
///
/// `object`: a `PyObject *`. In this order: None; an integer, 1 (`CAI_STREAM_LEGACY`), 2
/// (`CAI_STREAM_PER_THREAD`) or a `cudaStream_t`; an object with the method `__cuda_stream__`, or
/// the attribute in the first releases of cuda.core, whose value is (0, handle); with `cuda_stream`
/// (PyTorch); with `ptr` (CuPy) or `handle` (older Numba), if the name of its type contains
/// "Stream", because events and buffers have these attributes as well; an object with `__index__`
/// (`CUstream` of cuda-bindings). A handle of 0 in a stream object is the legacy default stream; in
/// Numba, whose default stream NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM changes, pass 2 then.
/// `none`: the value to return for None, for example a stream. 0: None is refused.
/// `flags`: 0, or any of `CAI_IMPORT_ALLOW_STREAM_ZERO` (the integer 0 is the legacy default stream
/// as well) and `CAI_IMPORT_NO_EXCEPTION`. Without the first one the integer 0 is refused.
/// `out`: the stream. It is no reference: the object must live as long as the stream is used.
/// `out_device`: NULL, or the number of the device that the object states; -1 if it states none, as
/// for integers. A default stream is that of the calling thread's current context: if the context
/// is of another device, set a context of this device first. Both are written on success only.
///
/// On failure a Python exception is set, unless `CAI_IMPORT_NO_EXCEPTION` is set: TypeError for an
/// object that is no stream, ValueError for a wrong integer. Exceptions of the object stay set.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_TYPE`, `CAI_ERR_VALUE`,
/// `CAI_ERR_VERSION`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
/// `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock. Makes no driver call. Source:
/// cuda.core, "CUDA stream protocol".
CAI_API
cai_status cai_unstable_stream_from_python(struct _object *object,
                                           cai_stream none,
                                           uint32_t flags,
                                           cai_stream *out,
                                           int32_t *out_device,
                                           cai_error *error);

/// Returns the Python function `view(obj, /, stream=None, *, readonly=False)`, which makes objects
/// of the type `libcai.View`: the attributes of cuda.core's StridedMemoryView, and `release()`. The
/// Python package has it as `libcai.view`; its `__self__` is the type.
///
/// A view holds a reference to the array of `obj`, which it imports as `cai_array_from_python` does
/// with `CAI_IMPORT_ALLOW_HOST`. It makes `stream` wait for the producer's pending work, and keeps
/// the stream object alive. `release()`, or the end of a `with` block, makes the producer wait for
/// `stream` and releases the array. A view that is destroyed without `release()` makes no driver
/// call.
///
/// `out`: a new reference. Each interpreter has one function.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
/// `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates.
CAI_API cai_status cai_unstable_python_view(struct _object **out, cai_error *error);

/// Allocates an array through the library of a Python object, so that a function returns the type
/// that it received: `numpy.empty`, `cupy.empty`, `new_empty` of PyTorch and of libraries that have
/// this method too, or `empty` of the object's `__array_namespace__`. The array is on the device of
/// `prototype`, in C order, and its elements are not set.
///
/// `prototype`: a `PyObject *`. An array of JAX is refused, because nothing may write to arrays of
/// JAX.
/// `like`: NULL for the shape and the type of `prototype`, or an array of which only `ndim`, `shape`,
/// `typestr` and `dtype_code` are read. If its typestr is empty, the type is that of `prototype`.
/// `stream`: 0, or the stream that the memory belongs to. With 0 it belongs to the library's current
/// stream: the right one for a result that the Python caller goes on to use. CuPy and PyTorch
/// allocate with `stream` as their current stream; others do not read it.
/// `allocate`: NULL, or a function that is called if the object's library is none of those, or JAX.
/// `like` describes the wanted array, without data; `out` is initialized, gets a reference of its own
/// to a writable array of that shape and type, and becomes a `libcai.Array`. `context` is passed to
/// it. It is called with the interpreter's lock held, and may set a Python exception if it fails.
/// `out`: a new reference.
/// `out_array`: NULL, or an initialized array that holds no reference. It describes the new array,
/// with a reference of its own; its stream is that of the memory, or `CAI_STREAM_UNKNOWN` if the
/// library does not name it. Call `cai_array_consume_begin` before you write, and
/// `cai_array_consume_end` before you return `out`. If the library's arrays can be read only, the
/// call fails. Both outputs are written on success only.
///
/// On failure a Python exception is set. Exceptions of the library stay set.
///
/// Returns a status of `cai_array_from_python` or of `allocate`: `CAI_ERR_NO_PROTOCOL` if no library
/// is known that allocates for the object, `CAI_ERR_READONLY` for JAX; or `CAI_ERR_CONVERT_TYPE` for a
/// type that the library has no name for, or a status of `cai_array_to_python`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates only what the library does.
/// Source: Python array API standard, `empty`; PyTorch, `Tensor.new_empty`.
CAI_API
cai_status cai_unstable_python_empty_like(struct _object *prototype,
                                          const cai_array *like,
                                          cai_stream stream,
                                          cai_status (*allocate)(const cai_array *like,
                                                                 cai_stream stream,
                                                                 void *context,
                                                                 cai_array *out,
                                                                 cai_error *error),
                                          void *context,
                                          struct _object **out,
                                          cai_array *out_array,
                                          cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_VIEW_H */
