# cython: language_level=3
"""A Cython module that uses the library through the declarations as shipped: `cai/cai.pxd`."""

from libc.stdint cimport int64_t

# A module that has declarations of DLPack and Arrow already.
cdef extern from "cai/unstable/arrow.h":
    """
    #include <stdint.h>
    typedef struct {
        void *data;
        int32_t device_type, device_id, ndim;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } DLTensor;
    typedef struct DLManagedTensor {
        DLTensor dl_tensor;
        void *manager_ctx;
        void (*deleter)(struct DLManagedTensor *);
    } DLManagedTensor;
    """
    ctypedef struct DLTensor:
        int ndim
        int64_t *shape

    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void *manager_ctx
        void (*deleter)(DLManagedTensor *) noexcept

    cdef struct ArrowSchema:
        const char *format

from cai.cai cimport *
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
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
    options.dlpack_stream = CAI_STREAM_UNKNOWN
    options.flags = CAI_IMPORT_ALLOW_HOST
    assert cai_array_from_python(<PyObject *>produced, &options, &array, &error) == CAI_OK, error.message
    assert cai_array_to_python(&array, NULL, &out, &error) == CAI_OK, error.message
    cai_array_release(&array)
    result = <object>out
    Py_DECREF(result)
    return result


def through_dlpack(produced):
    """The shape of the DLPack tensor that is made of a Python object."""
    cdef cai_array array = cai_inline_array_init()
    cdef cai_import_options options = cai_inline_import_options_init()
    cdef cai_error error
    cdef DLManagedTensor *tensor = NULL
    cdef ArrowSchema schema
    schema.format = "C"
    options.flags = CAI_IMPORT_ALLOW_HOST
    assert cai_array_from_python(<PyObject *>produced, &options, &array, &error) == CAI_OK, error.message
    status = cai_array_to_dlpack_unversioned(&array, 0, <cai_DLManagedTensor **>&tensor, &error)
    assert status == CAI_OK, error.message
    cai_array_release(&array)
    found = [tensor.dl_tensor.shape[d] for d in range(tensor.dl_tensor.ndim)]
    array = cai_inline_array_init()
    status = cai_array_from_dlpack_unversioned(<cai_DLManagedTensor *>tensor, CAI_STREAM_NONE, 0, &array, &error)
    assert status == CAI_OK, error.message
    cai_array_release(&array)
    return found, schema.format
