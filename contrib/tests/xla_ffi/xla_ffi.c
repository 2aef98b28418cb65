/* Handlers of XLA that go through arrays, for test_xla_ffi.py. */
#include <cai/xla_ffi.h>

/* What a handler has seen, for ctypes. */
typedef struct seen {
    cai_array array;
    int64_t shape[8];
    cai_error error;
    int32_t calls, borrowed;
} seen;
seen last;

static cai_status look(const XLA_FFI_CallFrame *frame, cai_array *in, cai_array *out,
                       cai_error *error) {
    cai_stream stream = 0;
    cai_device device;
    cai_status status = cai_xla_stream(frame, CAI_DEVICE_CPU, &stream, &device, error);
    if (status == CAI_OK) {
        status =
            cai_array_from_xla(frame->args.args[0], stream, device, CAI_ARRAY_READONLY, in, error);
    }
    if (status == CAI_OK)
        status = cai_array_from_xla(frame->rets.rets[0], stream, device, 0, out, error);
    return status;
}

static XLA_FFI_Error *finish(const XLA_FFI_CallFrame *frame, cai_status status,
                             const cai_error *error) {
    last.calls++;
    if (status == CAI_OK) return NULL;
    last.error = *error;
    return cai_xla_error(frame->api, error);
}

/* Copies its argument to its result, and notes what it was. */
XLA_FFI_Error *copy(XLA_FFI_CallFrame *frame) {
    cai_array in = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT, kept = CAI_ARRAY_INIT;
    cai_layout layout;
    cai_error error;
    if (cai_xla_metadata(frame)) return NULL;
    cai_status status = look(frame, &in, &out, &error);
    if (status == CAI_OK) status = cai_array_layout(&in, &layout, &error);
    if (status == CAI_OK) {
        last.array = in;
        last.borrowed = cai_array_share(&in, &kept, NULL) == CAI_ERR_BORROWED;
        for (int32_t d = 0; d < in.ndim && d < 8; ++d)
            last.shape[d] = in.shape[d];
        if (layout.nbytes > 0) memcpy(out.data, in.data, (size_t)layout.nbytes);
    }
    return finish(frame, status, &error);
}

/* Calls `copy` with buffers made of arrays. */
XLA_FFI_Error *through(XLA_FFI_CallFrame *frame) {
    cai_array in = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    XLA_FFI_Buffer source, target;
    cai_error error;
    if (cai_xla_metadata(frame)) return NULL;
    cai_status status = look(frame, &in, &out, &error);
    if (status == CAI_OK)
        status = cai_array_to_xla(&in, CAI_STREAM_NONE, CAI_ACCESS_READ, &source, &error);
    if (status == CAI_OK)
        status = cai_array_to_xla(&out, CAI_STREAM_NONE, CAI_ACCESS_WRITE, &target, &error);
    if (status != CAI_OK) return finish(frame, status, &error);
    void *args[] = {&source}, *rets[] = {&target};
    XLA_FFI_CallFrame inner = *frame;
    inner.args.args = args;
    inner.rets.rets = rets;
    XLA_FFI_Error *failed = copy(&inner);
    cai_array_consume_end(&in, CAI_STREAM_LEGACY, CAI_ACCESS_READ, NULL);
    cai_array_consume_end(&out, CAI_STREAM_LEGACY, CAI_ACCESS_WRITE, NULL);
    return failed;
}

/* Registered for the host, asks for a stream of CUDA. */
XLA_FFI_Error *wrong_platform(XLA_FFI_CallFrame *frame) {
    cai_stream stream = 0;
    cai_device device;
    cai_error error;
    if (cai_xla_metadata(frame)) return NULL;
    return finish(frame, cai_xla_stream(frame, CAI_DEVICE_CUDA, &stream, &device, &error), &error);
}

/* The inline functions, for ctypes. */
cai_status from_xla(const XLA_FFI_Buffer *buffer, cai_stream stream, int32_t type, int32_t id,
                    uint32_t flags, cai_array *out, cai_error *error) {
    const cai_device device = {type, id};
    return cai_array_from_xla(buffer, stream, device, flags, out, error);
}
cai_status to_xla(const cai_array *array, cai_stream stream, uint32_t access, XLA_FFI_Buffer *out,
                  cai_error *error) {
    return cai_array_to_xla(array, stream, access, out, error);
}

/* XLA's functions with a stream and a device of the caller's choice. */
static void *its_stream;
static XLA_FFI_Error *stream_get(XLA_FFI_Stream_Get_Args *args) {
    args->stream = its_stream;
    return NULL;
}
static XLA_FFI_Error *ordinal_get(XLA_FFI_DeviceOrdinal_Get_Args *args) {
    args->device_ordinal = 3;
    return NULL;
}
cai_status stream_of(void *stream, cai_stream *out, cai_device *device) {
    XLA_FFI_Api api = {0};
    XLA_FFI_CallFrame frame = {0};
    api.XLA_FFI_Stream_Get = stream_get;
    api.XLA_FFI_DeviceOrdinal_Get = ordinal_get;
    frame.api = &api;
    its_stream = stream;
    return cai_xla_stream(&frame, CAI_DEVICE_CUDA, out, device, NULL);
}
