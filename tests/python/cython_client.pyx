# cython: language_level=3
"""A Cython module that uses the library through the declarations as shipped: `cai/cai.pxd`."""

from cai.cai cimport *
from cpython.object cimport PyObject
from libc.string cimport memcpy, memset

cdef int destroyed = 0

cdef void destroy(void *context) noexcept nogil:
    global destroyed
    destroyed += (<int *>context)[0]

cdef float data[12]
cdef int64_t[2] shape = [3, 4]
cdef int step = 1


def once():
    """A new owner, an array, a copy by the library and one by the header, and the release of all."""
    cdef cai_array described, array, shared, inlined
    cdef cai_error error
    cdef cai_layout layout
    global destroyed
    destroyed = 0
    for each in (<size_t>&described, <size_t>&array, <size_t>&shared, <size_t>&inlined):
        memset(<void *>each, 0, sizeof(cai_array))
        (<cai_array *>each).struct_size = sizeof(cai_array)
        (<cai_array *>each).version = CAI_INTERFACE_VERSION
    described.data = data
    described.shape = shape
    described.ndim = 2
    described.device.type = CAI_DEVICE_CPU
    memcpy(described.typestr, b"<f4", 4)
    with nogil:
        status = cai_array_validate(&described, CAI_CHECK_LAYOUT, &error)
    assert status == CAI_ERR_STREAM_ZERO and cai_status_name(status) == b"CAI_ERR_STREAM_ZERO"
    described.stream = CAI_STREAM_NONE
    assert cai_array_create(&described, &step, destroy, &array, &error) == CAI_OK, error.message
    assert cai_array_layout(&array, &layout, &error) == CAI_OK and layout.nbytes == 48
    assert cai_array_share(&array, &shared, NULL) == CAI_OK
    assert cai_inline_share(&shared, &inlined) == CAI_OK
    cai_array_release(&array)
    cai_inline_release(&shared)
    assert destroyed == 0
    cai_inline_release(&inlined)
    return destroyed


def exchange(produced):
    """A Python object, imported and exported."""
    cdef cai_array array
    cdef cai_import_options options
    cdef cai_error error
    cdef PyObject *out = NULL
    memset(&array, 0, sizeof(array))
    array.struct_size = sizeof(array)
    memset(&options, 0, sizeof(options))
    options.struct_size = sizeof(options)
    options.stream = CAI_STREAM_UNKNOWN
    options.flags = CAI_IMPORT_ALLOW_HOST
    assert cai_array_from_python(<PyObject *>produced, &options, &array, &error) == CAI_OK, error.message
    assert cai_array_to_python(&array, NULL, &out, &error) == CAI_OK, error.message
    cai_array_release(&array)
    return <object>out
