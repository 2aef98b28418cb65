# Renames for code written against the headers of libcai 0.1, for those of ABI 1.0 and later:
#
#     sed -E -i -f rename_0_1_to_1_0.sed file.c ...
#
# It applies to C, C++, Python (ctypes, cffi), Rust and prose; running it twice changes nothing. These
# changed more than their names, and need an edit by hand (the old names no longer compile):
#
#   cai_array_new(&a, &out, &e)      cai_array_create(&a, context, destroy, &out, &e): copies the
#                                    description, which keeps its own reference
#   cai_to_python(a, options, &e)    cai_array_to_python(a, options, &object, &e), which returns a status
#   cai_array_count, _nbytes, _span, _is_c_contiguous, _is_f_contiguous
#                                    members of cai_layout, filled by cai_array_layout
#   cai_dtype_format(&d, text, &e)   cai_dtype_format(&d, text, sizeof(text), NULL, &e)
#   cai_device_pointer               the member device_pointer of cai_pointer_info
#   cai_abi_major, cai_abi_minor     cai_abi_version() >> 16 and cai_abi_version() & 0xffff
#   cai_driver_info.simulated        removed
#   CAI_IMPORT_NO_MASK               the default; CAI_IMPORT_ALLOW_MASK accepts masks
#   CAI_ERR_CHECKS                   CAI_ERR_NEWER_CALLER
#   cai::view with elements read on  cai::host_view
#     the host
#   cai::consumer without access     CAI_ACCESS_READ or CAI_ACCESS_WRITE, stated
#   cai::allow_mask                  cai::allow::mask
#   array.keep, array.count, ...     array.attach, array.layout().count, ...
#   CAI_ERR_UNSUPPORTED of a view    the status of cai_array_from_python: CAI_ERR_CONVERT_TYPE, ...
#
# One change compiles as before: a stream of 0 is refused everywhere. cai_import_options.stream begins as
# CAI_STREAM_UNKNOWN, and cai_array_produce without streams takes CAI_STREAM_NONE as export_stream.

# Functions.
s/\bcai_consume_(begin|end)\b/cai_array_consume_\1/g
s/\bcai_synchronize\b/cai_array_synchronize/g
s/\bcai_produce\b/cai_array_produce/g
s/\bcai_(from|to)_dlpack(_unversioned)?\b/cai_array_\1_dlpack\2/g
s/\bcai_(from|to)_python\b/cai_array_\1_python/g
s/\bcai_array_keep\b/cai_array_attach/g
s/\bcai_array_new\b/cai_array_create/g
s/\bcai_owner_new\b/cai_owner_create/g
s/\bcai_dense_strides\b/cai_layout_strides/g
s/\bcai_pointer_attributes\b/cai_pointer_info_get/g
s/\bcai_driver_find\b/cai_driver_info_get/g
s/\bcai_set_sync\b/cai_sync_policy_set/g
s/\bcai_get_sync\b/cai_sync_policy_get/g

# Constants.
s/\bCAI_VIA_/CAI_PROTOCOL_/g
s/\bCAI_PROTOCOL_VERSION\b/CAI_INTERFACE_VERSION/g
s/\bCAI_FLAG_READONLY\b/CAI_ARRAY_READONLY/g
s/\bCAI_IMPORT_(WRITABLE|C_CONTIGUOUS|F_CONTIGUOUS|NATIVE|NDIM)\b/CAI_IMPORT_REQUIRE_\1/g
s/\bCAI_IMPORT_HOST\b/CAI_IMPORT_ALLOW_HOST/g
s/\bCAI_IMPORT_LENIENT\b/CAI_IMPORT_ALLOW_STREAM_ZERO/g
s/\bCAI_IMPORT_DEVICE\b/CAI_IMPORT_QUERY_DEVICE/g
s/\bCAI_IMPORT_QUIET\b/CAI_IMPORT_NO_EXCEPTION/g

# Members of cai_import_options.
s/\bopaque1\b/opaque_8bit/g
s/\bopaque2\b/opaque_16bit/g
