/*
 * A handler that JAX calls on the processor. It prints [ 0.  2.  4.  6.  8. 10.]:
 *
 *     gcc -std=c99 -fPIC -shared xla_twice.c -o xla_twice.so $(pkg-config --cflags --libs cai) \
 *         -I "$(python -c 'import jax; print(jax.ffi.include_dir())')"
 *     python -c "
 *     import ctypes, jax
 *     handler = jax.ffi.pycapsule(ctypes.CDLL('./xla_twice.so').twice)
 *     jax.ffi.register_ffi_target('twice', handler, platform='cpu')
 *     x = jax.numpy.arange(6.0)
 *     print(jax.ffi.ffi_call('twice', jax.ShapeDtypeStruct(x.shape, x.dtype))(x))"
 */
#include <cai/xla_ffi.h>

/* Writes twice the elements of `in` to `out`. */
static cai_status compute(const cai_array *in, const cai_array *out, cai_error *error) {
    cai_layout from, to;
    cai_status status = cai_array_layout(in, &from, error);
    if (status == CAI_OK) status = cai_array_layout(out, &to, error);
    if (status != CAI_OK) return status;
    if (strcmp(in->typestr, "<f4") != 0 || strcmp(out->typestr, "<f4") != 0 ||
        from.count != to.count)
        return cai_error_set(error, CAI_ERR_CONVERT_TYPE, "x",
                             "expected float32, and a result of the same size");
    for (int64_t i = 0; i < to.count; ++i)
        ((float *)out->data)[i] = 2 * ((const float *)in->data)[i];
    return CAI_OK;
}

/* Registered for the platform "cpu". */
XLA_FFI_Error *twice(XLA_FFI_CallFrame *frame) {
    cai_array in = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    cai_stream stream;
    cai_device device;
    cai_error error;
    if (cai_xla_metadata(frame)) return NULL; /* the call that registers the handler */
    cai_status status = cai_xla_stream(frame, CAI_DEVICE_CPU, &stream, &device, &error);
    if (status == CAI_OK && (frame->args.size != 1 || frame->rets.size != 1))
        status =
            cai_error_set(&error, CAI_ERR_ARGUMENT, "args", "expected one argument and one result");
    if (status == CAI_OK)
        status = cai_array_from_xla(frame->args.args[0], stream, device, CAI_ARRAY_READONLY, &in,
                                    &error);
    if (status == CAI_OK)
        status = cai_array_from_xla(frame->rets.rets[0], stream, device, 0, &out, &error);
    if (status == CAI_OK) status = compute(&in, &out, &error);
    return status == CAI_OK ? NULL : cai_xla_error(frame->api, &error);
}

/* The other direction: an array of another library as an argument of a handler in this process. */
cai_status lend(const cai_array *array, XLA_FFI_Buffer *out, cai_error *error) {
    return cai_array_to_xla(array, CAI_STREAM_NONE, CAI_ACCESS_READ, out, error);
}
