// A handler that is bound with XLA's C++ interface, for test_xla_ffi.py.
#include <cai/xla_ffi.h>
#include <xla/ffi/api/ffi.h>

namespace ffi = xla::ffi;

// Reverses the order of the bytes of its argument.
static ffi::Error reverse(ffi::AnyBuffer argument, ffi::Result<ffi::AnyBuffer> result) {
    cai_array in = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    const cai_device host = {CAI_DEVICE_CPU, 0};
    const XLA_FFI_Buffer from = cai_xla_buffer(argument), to = cai_xla_buffer(*result);
    cai_layout layout;
    cai_error error;
    cai_status status =
        cai_array_from_xla(&from, CAI_STREAM_NONE, host, CAI_ARRAY_READONLY, &in, &error);
    if (status == CAI_OK) status = cai_array_from_xla(&to, CAI_STREAM_NONE, host, 0, &out, &error);
    if (status == CAI_OK) status = cai_array_layout(&in, &layout, &error);
    if (status != CAI_OK) return ffi::Error::InvalidArgument(error.message);
    const auto *source = static_cast<const char *>(in.data);
    std::reverse_copy(source, source + layout.nbytes, static_cast<char *>(out.data));
    return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(reverse_bytes, reverse,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
