# cython: language_level=3
"""A Python extension with Cython: `clear` sets a GPU array of any library to zero.

    pip install .                    in this folder
    python
    >>> import clear, cupy
    >>> clear.clear(cupy.ones(3))
"""

from cai.cai cimport *
from cai.unstable cimport cai_unstable_stream_from_python
from cpython.object cimport PyObject

cdef extern from "cuda_runtime_api.h" nogil:
    ctypedef void *cudaStream_t
    int cudaMemsetAsync(void *address, int value, size_t size, cudaStream_t stream)
    int cudaStreamSynchronize(cudaStream_t stream)


def clear(obj, stream=None):
    cdef cai_array array = cai_inline_array_init()
    cdef cai_import_options options = cai_inline_import_options_init()
    cdef cai_layout layout
    cdef cai_error error
    cdef cai_stream on
    cdef int failed
    cai_check(cai_unstable_stream_from_python(
        <PyObject *>stream, CAI_STREAM_LEGACY, 0, &on, NULL, &error), &error)
    options.flags = CAI_IMPORT_REQUIRE_WRITABLE | CAI_IMPORT_REQUIRE_C_CONTIGUOUS
    options.dlpack_stream = on
    cai_check(cai_array_from_python(<PyObject *>obj, &options, &array,
                                    &error), &error)
    try:
        cai_check(cai_array_layout(&array, &layout, &error), &error)
        cai_check(cai_array_consume_begin(&array, on, CAI_ACCESS_WRITE,
                                          &error), &error)
        with nogil:
            failed = cudaMemsetAsync(array.data, 0, layout.nbytes,
                                     <cudaStream_t><size_t>on)
        cai_check(cai_array_consume_end(&array, on, CAI_ACCESS_WRITE,
                                        &error), &error)
        cai_check(cai_array_release_after(&array, on, &error), &error)
    except:
        with nogil:
            # nothing else orders the release
            cudaStreamSynchronize(<cudaStream_t><size_t>on)
        raise
    finally:
        cai_array_release(&array)  # does nothing after cai_array_release_after
    if failed:
        raise RuntimeError(f"cudaMemsetAsync failed: {failed}")
