# The array interface of CUDA for MPI buffers, read by libcai. Takes the place of the file of this name in mpi4py.

from cai.cai cimport (
    CAI_ARRAY_READONLY, CAI_ERR_NO_PROTOCOL, CAI_ERR_SHAPE_NEGATIVE, CAI_ERR_TYPESTR_ORDER, CAI_IMPORT_NO_EXCEPTION,
    CAI_IMPORT_REQUIRE_NATIVE, CAI_IMPORT_REQUIRE_WRITABLE,
    CAI_LAYOUT_C_CONTIGUOUS, CAI_LAYOUT_F_CONTIGUOUS, CAI_OK, CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, cai_array, cai_array_from_python,
    cai_array_layout, cai_array_release, cai_error, cai_import_options, cai_inline_array_init, cai_inline_import_options_init,
    cai_layout, cai_python_raise, cai_status,
)
from cpython.object cimport PyObject as cai_pyobject

# Formats of the buffer protocol by kind and size. The texts live as long as the module.
cdef dict cai_formats = {
    b"b1": b"?", b"i1": b"b", b"i2": b"h", b"i4": b"i", b"i8": b"l", b"u1": b"B", b"u2": b"H", b"u4": b"I", b"u8": b"L",
    b"f2": b"e", b"f4": b"f", b"f8": b"d", b"f16": b"g", b"c4": b"Ze", b"c8": b"Zf", b"c16": b"Zd", b"c32": b"Zg",
}

cdef int Py_CheckCAIBuffer(object obj) noexcept:
    try:    return <bint>hasattr(obj, '__cuda_array_interface__')
    except: return 0

cdef int Py_GetCAIBuffer(object obj, Py_buffer *view, int flags) except -1:
    cdef cai_array array = cai_inline_array_init()
    cdef cai_import_options options = cai_inline_import_options_init()
    cdef cai_layout layout
    cdef cai_error error
    cdef cai_status status
    cdef bytes text = None
    options.protocols[0] = CAI_PROTOCOL_CUDA_ARRAY_INTERFACE
    options.flags = CAI_IMPORT_NO_EXCEPTION
    if (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE:
        options.flags |= CAI_IMPORT_REQUIRE_WRITABLE
    if (flags & PyBUF_FORMAT) == PyBUF_FORMAT:
        options.flags |= CAI_IMPORT_REQUIRE_NATIVE
    status = cai_array_from_python(<cai_pyobject*>obj, &options, &array, &error)
    if status == CAI_ERR_NO_PROTOCOL:
        raise NotImplementedError("missing CUDA array interface")
    # A ValueError of libcai, a BufferError of mpi4py.
    if status == CAI_ERR_SHAPE_NEGATIVE or status == CAI_ERR_TYPESTR_ORDER:
        raise BufferError(error.message.decode())
    if status != CAI_OK:
        cai_python_raise(&error)
        return -1
    try:
        cai_array_layout(&array, &layout, NULL)
        if not layout.flags & (CAI_LAYOUT_C_CONTIGUOUS | CAI_LAYOUT_F_CONTIGUOUS):
            raise BufferError("__cuda_array_interface__: buffer is not contiguous")
        if array.descr != NULL:
            PyErr_WarnFormat(RuntimeWarning, 1, b"__cuda_array_interface__: %s", b"ignoring 'descr' key")
        PyBuffer_FillInfo(view, obj, array.data, layout.nbytes, array.flags & CAI_ARRAY_READONLY, flags)
        if (flags & PyBUF_FORMAT) == PyBUF_FORMAT:
            text = cai_formats.get((<char*>array.typestr)[1:])
            view.format = BYTE_FMT
            if text is not None:
                view.format = <char*>text
                view.itemsize = layout.nbytes // layout.count if layout.count else 0
    finally:
        cai_array_release(&array)
    return <int> kDLCUDA
