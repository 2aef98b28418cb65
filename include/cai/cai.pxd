# cai.pxd: the declarations of cai/cai.h for Cython 3. The folder of this file's folder is the
# include path: `from cai.cai cimport cai_array` in Cython, `#include <cai/cai.h>` in C.
#
# SPDX-License-Identifier: MIT OR Apache-2.0
# Generated from the sources of libcai: do not edit.

from cpython.object cimport PyObject
from libc.stdint cimport (
    int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)

cdef extern from "<stdbool.h>":
    ctypedef bint cai_bool "bool"

cdef extern from "cai/cai.h":
    """
    static inline cai_array cai_inline_array_init(void) {
        cai_array array = CAI_ARRAY_INIT;
        return array;
    }
    static inline cai_import_options cai_inline_import_options_init(void) {
        cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
        return options;
    }
    static inline cai_export_options cai_inline_export_options_init(void) {
        cai_export_options options = CAI_EXPORT_OPTIONS_INIT;
        return options;
    }
    """
    cdef struct cai_DLManagedTensor "DLManagedTensor":
        pass
    cdef struct cai_DLManagedTensorVersioned "DLManagedTensorVersioned":
        pass
    cdef struct cai_ArrowDeviceArray "ArrowDeviceArray":
        pass
    cdef struct cai_ArrowSchema "ArrowSchema":
        pass
    ctypedef int32_t cai_status
    ctypedef uint64_t cai_stream

    enum:
        CAI_ABI_MAJOR
        CAI_ABI_MINOR
        CAI_DATA_ABI
        CAI_INTERFACE_VERSION
        CAI_TYPESTR_SIZE
        CAI_MAX_NDIM
        CAI_MAX_MASKS
        CAI_MAX_FIELDS
        CAI_MAX_DESCR_DEPTH
        CAI_ARRAY_READONLY
        CAI_DEVICE_UNKNOWN
        CAI_DEVICE_CPU
        CAI_DEVICE_CUDA
        CAI_DEVICE_CUDA_HOST
        CAI_DEVICE_OPENCL
        CAI_DEVICE_VULKAN
        CAI_DEVICE_METAL
        CAI_DEVICE_VPI
        CAI_DEVICE_ROCM
        CAI_DEVICE_ROCM_HOST
        CAI_DEVICE_EXT_DEV
        CAI_DEVICE_CUDA_MANAGED
        CAI_DEVICE_ONEAPI
        CAI_DEVICE_WEBGPU
        CAI_DEVICE_HEXAGON
        CAI_DEVICE_MAIA
        CAI_DEVICE_TRN
        CAI_DTYPE_NONE
        CAI_DTYPE_BFLOAT16
        CAI_DTYPE_FLOAT8_E3M4
        CAI_DTYPE_FLOAT8_E4M3
        CAI_DTYPE_FLOAT8_E4M3B11FNUZ
        CAI_DTYPE_FLOAT8_E4M3FN
        CAI_DTYPE_FLOAT8_E4M3FNUZ
        CAI_DTYPE_FLOAT8_E5M2
        CAI_DTYPE_FLOAT8_E5M2FNUZ
        CAI_DTYPE_FLOAT8_E8M0FNU
        CAI_DTYPE_FLOAT6_E2M3FN
        CAI_DTYPE_FLOAT6_E3M2FN
        CAI_DTYPE_FLOAT4_E2M1FN
        CAI_DTYPE_INT4
        CAI_DTYPE_UINT4
        CAI_DTYPE_INT2
        CAI_DTYPE_UINT2
        CAI_DTYPE_FLOAT4_E2M1FN_X2
        CAI_DTYPE_INT1
        CAI_DTYPE_UINT1
        CAI_ERROR_FIELD_SIZE
        CAI_ERROR_MESSAGE_SIZE
        CAI_CHECK_LAYOUT
        CAI_CHECK_ALIGNMENT
        CAI_CHECK_DEVICE
        CAI_CHECK_STREAM
        CAI_LAYOUT_C_CONTIGUOUS
        CAI_LAYOUT_F_CONTIGUOUS
        CAI_UNIT_GENERIC
        CAI_UNIT_YEAR
        CAI_UNIT_MONTH
        CAI_UNIT_WEEK
        CAI_UNIT_DAY
        CAI_UNIT_HOUR
        CAI_UNIT_MINUTE
        CAI_UNIT_SECOND
        CAI_UNIT_MILLISECOND
        CAI_UNIT_MICROSECOND
        CAI_UNIT_NANOSECOND
        CAI_UNIT_PICOSECOND
        CAI_UNIT_FEMTOSECOND
        CAI_UNIT_ATTOSECOND
        CAI_ACCESS_READ
        CAI_ACCESS_WRITE
        CAI_SYNC_IGNORE
        CAI_SYNC_EXPORT_NONE
        CAI_SYNC_CONSERVATIVE
        CAI_SYNC_THIS_CALL
        CAI_CAPTURE_JOIN
        CAI_CAPTURE_EXTERNAL
        CAI_DRIVER_PATH_SIZE
        CAI_DLPACK_HIDE_READONLY
        CAI_IPC_SIZE
        CAI_IPC_FIELDS
        CAI_PROTOCOL_EXCHANGE
        CAI_PROTOCOL_DLPACK_EXCHANGE
        CAI_PROTOCOL_CUDA_ARRAY_INTERFACE
        CAI_PROTOCOL_DLPACK
        CAI_PROTOCOL_SYCL_USM
        CAI_PROTOCOL_BUFFER
        CAI_PROTOCOL_ARRAY_STRUCT
        CAI_PROTOCOL_ARRAY_INTERFACE
        CAI_IMPORT_STRICT
        CAI_IMPORT_ALLOW_STREAM_ZERO
        CAI_IMPORT_REQUIRE_WRITABLE
        CAI_IMPORT_REQUIRE_C_CONTIGUOUS
        CAI_IMPORT_REQUIRE_F_CONTIGUOUS
        CAI_IMPORT_REQUIRE_NATIVE
        CAI_IMPORT_REQUIRE_NDIM
        CAI_IMPORT_ALLOW_MASK
        CAI_IMPORT_ALLOW_HOST
        CAI_IMPORT_QUERY_DEVICE
        CAI_IMPORT_NO_EXCEPTION
        CAI_IMPORT_REFUSE_OBJECTS
        CAI_IMPORT_ALLOW_GRAD
        CAI_IMPORT_BUFFER_OPENCL
        CAI_IMPORT_BUFFER_CUDA
        CAI_IMPORT_IDENTIFY_STREAM
        CAI_EXPORT_VERSION_2
        CAI_EXPORT_STRIDES
        CAI_EXPORT_HIDE_READONLY
        CAI_STREAM_LEGACY
        CAI_STREAM_PER_THREAD
        CAI_STATUS_THIRD_PARTY
        CAI_OK
        CAI_ERR_NULL_ARGUMENT
        CAI_ERR_ARGUMENT
        CAI_ERR_BUFFER_SIZE
        CAI_ERR_NEWER_CALLER
        CAI_ERR_UNSUPPORTED
        CAI_ERR_STRUCT_SIZE
        CAI_ERR_FLAGS
        CAI_ERR_VERSION
        CAI_ERR_NDIM
        CAI_ERR_SHAPE_NULL
        CAI_ERR_SHAPE_NEGATIVE
        CAI_ERR_SIZE_OVERFLOW
        CAI_ERR_SPAN_OVERFLOW
        CAI_ERR_ADDRESS_RANGE
        CAI_ERR_DATA_NULL
        CAI_ERR_DATA_NOT_NULL
        CAI_ERR_BIT_STRIDES
        CAI_ERR_ITEMSIZE
        CAI_ERR_ALIGNMENT
        CAI_ERR_BORROWED
        CAI_ERR_OWNER_OPS
        CAI_ERR_STREAM_ZERO
        CAI_ERR_STREAM_VERSION
        CAI_ERR_STREAM_ID
        CAI_ERR_EVENT
        CAI_ERR_DEVICE_TYPE
        CAI_ERR_DEVICE_ID
        CAI_ERR_BYTE_OFFSET
        CAI_ERR_READONLY
        CAI_ERR_MASK_VERSION
        CAI_ERR_MASK_TYPE
        CAI_ERR_MASK_SHAPE
        CAI_ERR_MASK_CYCLE
        CAI_ERR_MASK_DEPTH
        CAI_ERR_MASK_DEVICE
        CAI_ERR_TYPESTR_LENGTH
        CAI_ERR_TYPESTR_ORDER
        CAI_ERR_TYPESTR_KIND
        CAI_ERR_TYPESTR_SIZE
        CAI_ERR_TYPESTR_UNIT
        CAI_ERR_DTYPE_CODE
        CAI_ERR_DESCR_STRUCT
        CAI_ERR_DESCR_NAME
        CAI_ERR_DESCR_FIELD
        CAI_ERR_DESCR_SHAPE
        CAI_ERR_DESCR_SIZE
        CAI_ERR_DESCR_DEPTH
        CAI_ERR_DESCR_COUNT
        CAI_ERR_DESCR_SYNTAX
        CAI_ERR_DESCR_NO_FIELD
        CAI_ERR_DESCR_BIT_OFFSET
        CAI_ERR_NO_DRIVER
        CAI_ERR_DRIVER_FUNCTION
        CAI_ERR_FORKED
        CAI_ERR_DRIVER_EXIT
        CAI_ERR_DRIVER
        CAI_ERR_DEVICE_LOST
        CAI_ERR_NO_CONTEXT
        CAI_ERR_CONTEXT_DESTROYED
        CAI_ERR_STREAM_HANDLE
        CAI_ERR_STREAM_STALE
        CAI_ERR_STREAM_THREAD
        CAI_ERR_STREAM_DETACHED
        CAI_ERR_STREAM_DEVICE
        CAI_ERR_STREAM_CONTEXT
        CAI_ERR_NOT_DEVICE_POINTER
        CAI_ERR_DEVICE_MISMATCH
        CAI_ERR_OUT_OF_ALLOCATION
        CAI_ERR_NOT_ACCESSIBLE
        CAI_ERR_CAPTURE_PRODUCER
        CAI_ERR_CAPTURE_CONSUMER
        CAI_ERR_CAPTURE_MERGE
        CAI_ERR_CAPTURE_INVALIDATED
        CAI_ERR_CAPTURE_LEGACY
        CAI_ERR_CAPTURE_HOST
        CAI_ERR_CAPTURE_STREAMS
        CAI_ERR_CAPTURE
        CAI_ERR_NO_PYTHON
        CAI_ERR_PYTHON_VERSION
        CAI_ERR_PYTHON_LOCK
        CAI_ERR_PYTHON_EXCEPTION
        CAI_ERR_NO_PROTOCOL
        CAI_ERR_KEY
        CAI_ERR_TYPE
        CAI_ERR_VALUE
        CAI_ERR_EXCHANGE_TABLE
        CAI_ERR_NO_MEMORY
        CAI_ERR_THREAD
        CAI_ERR_ENVIRONMENT
        CAI_ERR_HOST_MEMORY
        CAI_ERR_CONVERT_MASK
        CAI_ERR_CONVERT_TYPE
        CAI_ERR_CONVERT_BYTE_ORDER
        CAI_ERR_CONVERT_STRIDES
        CAI_ERR_CONVERT_CONTIGUOUS
        CAI_ERR_CONVERT_NDIM
        CAI_ERR_CONVERT_READONLY
        CAI_ERR_CONVERT_DEVICE
        CAI_ERR_CONVERT_GRAD
        CAI_ERR_DLPACK_VERSION
        CAI_ERR_ARROW
        CAI_ERR_CONVERT_BIT_OFFSET
        CAI_ERR_IPC_MEMORY
        CAI_ERR_IPC_BYTES
        CAI_ERR_IPC_VERSION
        CAI_ERR_IPC_DEVICE
        CAI_ERR_INTERNAL
    const uint64_t CAI_STREAM_NONE
    const uint64_t CAI_STREAM_UNKNOWN

    ctypedef struct cai_device
    ctypedef struct cai_owner
    ctypedef struct cai_owner_ops
    ctypedef struct cai_field
    ctypedef struct cai_descr
    ctypedef struct cai_array
    ctypedef struct cai_error
    ctypedef struct cai_dtype
    ctypedef struct cai_layout
    ctypedef struct cai_driver_info
    ctypedef struct cai_pointer_info
    ctypedef struct cai_import_options
    ctypedef struct cai_export_options
    ctypedef struct cai_exchange_api

    ctypedef struct cai_device:
        int32_t type
        int32_t id

    ctypedef struct cai_owner:
        const cai_owner_ops *ops

    ctypedef struct cai_owner_ops:
        uint32_t struct_size
        uint32_t reserved
        void (*retain)(cai_owner *owner) noexcept nogil
        void (*release)(cai_owner *owner) noexcept nogil

    ctypedef struct cai_field:
        const char *name
        const char *title
        char typestr[CAI_TYPESTR_SIZE]
        const cai_descr *nested
        const int64_t *shape
        int32_t ndim
        uint16_t dtype_code
        uint16_t reserved

    ctypedef struct cai_descr:
        uint32_t struct_size
        uint32_t field_size
        uint64_t count
        const cai_field *fields

    ctypedef struct cai_array:
        uint32_t struct_size
        uint32_t flags
        cai_owner *owner
        void *data
        const int64_t *shape
        const int64_t *strides
        int32_t ndim
        uint16_t version
        uint16_t dtype_code
        char typestr[CAI_TYPESTR_SIZE]
        const cai_descr *descr
        const cai_array *mask
        cai_stream stream
        uint64_t stream_id
        void *event
        cai_device device
        void *context
        uint64_t byte_offset

    ctypedef struct cai_error:
        cai_status code
        int32_t driver_code
        char field[CAI_ERROR_FIELD_SIZE]
        char message[CAI_ERROR_MESSAGE_SIZE]

    ctypedef struct cai_dtype:
        char kind
        char byte_order
        uint16_t code
        int32_t unit
        int32_t unit_count
        uint16_t reserved[2]
        int64_t itemsize
        int64_t bits

    ctypedef struct cai_layout:
        int64_t count
        int64_t nbytes
        int64_t lower
        int64_t upper
        uint32_t flags
        uint32_t reserved[7]

    ctypedef struct cai_driver_info:
        int32_t version
        int32_t devices
        uint64_t reserved[7]
        char path[CAI_DRIVER_PATH_SIZE]

    ctypedef struct cai_pointer_info:
        cai_device device
        void *context
        void *device_pointer
        void *host_pointer
        void *base
        uint64_t size
        uint64_t buffer_id
        void *pool
        cai_bool host_accessible
        cai_bool managed
        cai_bool mapped
        uint8_t reserved[61]

    ctypedef struct cai_import_options:
        uint32_t struct_size
        uint32_t flags
        uint8_t protocols[8]
        cai_stream stream
        int32_t ndim
        uint16_t dtype_code
        uint16_t opaque_8bit
        uint16_t opaque_16bit
        uint16_t reserved[3]
        char typestr[CAI_TYPESTR_SIZE]

    ctypedef struct cai_export_options:
        uint32_t struct_size
        uint32_t flags

    ctypedef struct cai_exchange_api:
        uint32_t struct_size
        uint32_t data_abi
        cai_status (*from_object)(void *object, cai_array *out, cai_error *error) noexcept
        cai_status (*to_object)(const cai_array *array, void **out, cai_error *error) noexcept

    uint32_t cai_abi_version() noexcept nogil
    const char *cai_version() noexcept nogil
    const char *cai_status_name(cai_status status) noexcept nogil
    const char *cai_status_message(cai_status status) noexcept nogil
    cai_status cai_error_set(
        cai_error *error,
        cai_status code,
        const char *field,
        const char *message
    ) noexcept nogil
    cai_status cai_dtype_parse(const char *typestr, cai_dtype *out, cai_error *error) noexcept nogil
    cai_status cai_dtype_format(
        const cai_dtype *dtype,
        char *buffer,
        size_t size,
        size_t *out_length,
        cai_error *error
    ) noexcept nogil
    cai_bool cai_dtype_equal(const cai_dtype *a, const cai_dtype *b) noexcept nogil
    cai_bool cai_dtype_is_native(const cai_dtype *dtype) noexcept nogil
    cai_status cai_array_dtype(
        const cai_array *array,
        cai_dtype *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_is_native(
        const cai_array *array,
        cai_bool *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_descr_itemsize(
        const cai_descr *descr,
        int64_t *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_descr_equal(
        const cai_descr *a,
        const cai_descr *b,
        cai_bool *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_descr_find(
        const cai_descr *descr,
        const char *name,
        const cai_field **out_field,
        int64_t *out_offset,
        cai_error *error
    ) noexcept nogil
    cai_status cai_field_dtype(
        const cai_field *field,
        cai_dtype *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_field_nbytes(
        const cai_field *field,
        int64_t *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_descr_parse(
        const char *text,
        const cai_descr **out_descr,
        cai_owner **out_owner,
        cai_error *error
    ) noexcept nogil
    cai_status cai_descr_format(
        const cai_descr *descr,
        char *buffer,
        size_t size,
        size_t *out_length,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_layout(
        const cai_array *array,
        cai_layout *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_strides(
        const cai_array *array,
        int32_t capacity,
        int64_t *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_layout_strides(
        char order,
        int32_t ndim,
        const int64_t *shape,
        int64_t itemsize,
        int64_t *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_may_overlap(
        const cai_array *a,
        const cai_array *b,
        cai_bool *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_owner_create(
        void *context,
        void (*destroy)(void *context) noexcept nogil,
        cai_owner **out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_owner_retain(cai_owner *owner, cai_error *error) noexcept nogil
    void cai_owner_release(cai_owner *owner) noexcept nogil
    cai_status cai_array_retain(const cai_array *array, cai_error *error) noexcept nogil
    void cai_array_release(cai_array *array) noexcept nogil
    cai_status cai_array_share(
        const cai_array *array,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_create(
        const cai_array *description,
        void *context,
        void (*destroy)(void *context) noexcept nogil,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_attach(
        cai_array *array,
        void *context,
        void (*destroy)(void *context) noexcept nogil,
        cai_error *error
    ) noexcept nogil
    cai_status cai_driver_info_get(cai_driver_info *out, cai_error *error) noexcept nogil
    cai_status cai_pointer_info_get(
        const void *pointer,
        cai_pointer_info *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_validate(
        const cai_array *array,
        uint32_t checks,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_consume_begin(
        const cai_array *array,
        cai_stream consumer_stream,
        uint32_t flags,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_consume_end(
        const cai_array *array,
        cai_stream consumer_stream,
        uint32_t flags,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_synchronize(
        const cai_array *array,
        uint32_t flags,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_produce(
        cai_array *array,
        const cai_stream *streams,
        size_t count,
        cai_stream export_stream,
        uint32_t flags,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_identify(cai_array *array, cai_error *error) noexcept nogil
    cai_status cai_owner_release_after(
        cai_owner *owner,
        cai_stream stream,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_release_after(
        cai_array *array,
        cai_stream stream,
        cai_error *error
    ) noexcept nogil
    void cai_array_release_in_order(cai_array *array) noexcept nogil
    cai_status cai_sync_policy_set(uint32_t policy, cai_error *error) noexcept nogil
    cai_status cai_sync_policy_get(uint32_t *out, cai_error *error) noexcept nogil
    cai_status cai_array_copy_to_host(
        const cai_array *array,
        cai_stream stream,
        uint32_t flags,
        void *buffer,
        size_t size,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_copy_from_host(
        const cai_array *array,
        cai_stream stream,
        uint32_t flags,
        const void *buffer,
        size_t size,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_from_dlpack(
        cai_DLManagedTensorVersioned *tensor,
        cai_stream stream,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_from_dlpack_unversioned(
        cai_DLManagedTensor *tensor,
        cai_stream stream,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_to_dlpack(
        const cai_array *array,
        uint32_t flags,
        cai_DLManagedTensorVersioned **out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_to_dlpack_unversioned(
        const cai_array *array,
        uint32_t flags,
        cai_DLManagedTensor **out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_from_arrow(
        cai_ArrowDeviceArray *array,
        const cai_ArrowSchema *schema,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_to_arrow(
        const cai_array *array,
        uint32_t flags,
        cai_ArrowDeviceArray *out_array,
        cai_ArrowSchema *out_schema,
        cai_error *error
    ) noexcept nogil
    cai_status cai_ipc_export(
        const cai_array *array,
        uint32_t flags,
        void *buffer,
        size_t size,
        size_t *out_size,
        int32_t *out_fd,
        cai_owner **out_owner,
        cai_error *error
    ) noexcept nogil
    cai_status cai_ipc_import(
        const void *bytes,
        size_t size,
        int32_t fd,
        uint32_t flags,
        cai_array *out,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_to_json(
        const cai_array *array,
        char *buffer,
        size_t size,
        size_t *out_length,
        cai_error *error
    ) noexcept nogil
    cai_status cai_array_from_python(
        PyObject *object,
        const cai_import_options *options,
        cai_array *out,
        cai_error *error
    ) noexcept
    cai_status cai_array_from_python_dict(
        PyObject *dictionary,
        PyObject *owner,
        const cai_import_options *options,
        cai_array *out,
        cai_error *error
    ) noexcept
    cai_status cai_array_to_python(
        const cai_array *array,
        const cai_export_options *options,
        PyObject **out,
        cai_error *error
    ) noexcept
    cai_status cai_stream_from_python(
        PyObject *object,
        cai_stream none,
        uint32_t flags,
        cai_stream *out,
        int32_t *out_device,
        cai_error *error
    ) noexcept
    cai_status cai_python_view(PyObject **out, cai_error *error) noexcept
    PyObject *cai_python_raise(const cai_error *error) noexcept
    cai_status cai_python_publish(
        PyObject *type,
        const cai_exchange_api *table,
        cai_error *error
    ) noexcept
    # Inline functions of cai/abi.h, which need no library.
    cai_status cai_inline_retain(const cai_array *array) noexcept nogil
    cai_status cai_inline_share(const cai_array *array, cai_array *out) noexcept nogil
    void cai_inline_release(cai_array *array) noexcept nogil
    const cai_field *cai_inline_field(const cai_descr *descr, uint64_t index) noexcept nogil
    cai_stream cai_inline_stream(const void *cuda_stream) noexcept nogil
    # CAI_ARRAY_INIT, CAI_IMPORT_OPTIONS_INIT and CAI_EXPORT_OPTIONS_INIT as functions.
    cai_array cai_inline_array_init() noexcept nogil
    cai_import_options cai_inline_import_options_init() noexcept nogil
    cai_export_options cai_inline_export_options_init() noexcept nogil
