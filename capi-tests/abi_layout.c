/* Sizes, offsets and constants of the header, as C sees them. The Rust side asserts the same
 * numbers.
 * run: plain asan valgrind */
#include "cai_test.h"

#define SIZE(type, size) typedef char size_of_##type[sizeof(type) == (size) ? 1 : -1]
#define AT(type, field, offset) \
    typedef char at_##type##_##field[offsetof(type, field) == (offset) ? 1 : -1]

SIZE(cai_array, 128);
AT(cai_array, struct_size, 0);
AT(cai_array, flags, 4);
AT(cai_array, owner, 8);
AT(cai_array, data, 16);
AT(cai_array, shape, 24);
AT(cai_array, strides, 32);
AT(cai_array, ndim, 40);
AT(cai_array, version, 44);
AT(cai_array, dtype_code, 46);
AT(cai_array, typestr, 48);
AT(cai_array, descr, 64);
AT(cai_array, mask, 72);
AT(cai_array, stream, 80);
AT(cai_array, stream_id, 88);
AT(cai_array, event, 96);
AT(cai_array, device, 104);
AT(cai_array, context, 112);
AT(cai_array, byte_offset, 120);
SIZE(cai_device, 8);
SIZE(cai_owner, 8);
SIZE(cai_owner_ops, 24);
AT(cai_owner_ops, retain, 8);
AT(cai_owner_ops, release, 16);
SIZE(cai_error, 512);
AT(cai_error, driver_code, 4);
AT(cai_error, field, 8);
AT(cai_error, message, 104);
SIZE(cai_dtype, 32);
AT(cai_dtype, byte_order, 1);
AT(cai_dtype, code, 2);
AT(cai_dtype, unit, 4);
AT(cai_dtype, unit_count, 8);
AT(cai_dtype, itemsize, 16);
AT(cai_dtype, bits, 24);
SIZE(cai_descr, 24);
AT(cai_descr, field_size, 4);
AT(cai_descr, count, 8);
AT(cai_descr, fields, 16);
SIZE(cai_field, 56);
AT(cai_field, title, 8);
AT(cai_field, typestr, 16);
AT(cai_field, nested, 32);
AT(cai_field, shape, 40);
AT(cai_field, ndim, 48);
AT(cai_field, dtype_code, 52);
SIZE(cai_layout, 64);
AT(cai_layout, nbytes, 8);
AT(cai_layout, lower, 16);
AT(cai_layout, upper, 24);
AT(cai_layout, flags, 32);
SIZE(cai_driver_info, 512);
AT(cai_driver_info, devices, 4);
AT(cai_driver_info, path, 64);
SIZE(cai_pointer_info, 128);
AT(cai_pointer_info, context, 8);
AT(cai_pointer_info, device_pointer, 16);
AT(cai_pointer_info, host_pointer, 24);
AT(cai_pointer_info, base, 32);
AT(cai_pointer_info, size, 40);
AT(cai_pointer_info, buffer_id, 48);
AT(cai_pointer_info, pool, 56);
AT(cai_pointer_info, host_accessible, 64);
AT(cai_pointer_info, managed, 65);
AT(cai_pointer_info, mapped, 66);
SIZE(cai_import_options, 56);
AT(cai_import_options, flags, 4);
AT(cai_import_options, protocols, 8);
AT(cai_import_options, stream, 16);
AT(cai_import_options, ndim, 24);
AT(cai_import_options, dtype_code, 28);
AT(cai_import_options, opaque_8bit, 30);
AT(cai_import_options, opaque_16bit, 32);
AT(cai_import_options, reserved, 34);
AT(cai_import_options, typestr, 40);
SIZE(cai_export_options, 8);
AT(cai_export_options, flags, 4);
SIZE(cai_exchange_api, 24);
AT(cai_exchange_api, data_abi, 4);
AT(cai_exchange_api, from_object, 8);
AT(cai_exchange_api, to_object, 16);

int main(void) {
    const cai_array empty = CAI_ARRAY_INIT;
    const cai_import_options in = CAI_IMPORT_OPTIONS_INIT;
    const cai_export_options out = CAI_EXPORT_OPTIONS_INIT;
    ASSERT(in.struct_size == sizeof(in) && in.flags == 0 && in.protocols[0] == 0 &&
           in.typestr[0] == 0 && in.stream == CAI_STREAM_UNKNOWN);
    ASSERT(out.struct_size == sizeof(out) && out.flags == 0);
    ASSERT(empty.struct_size == sizeof(cai_array) && empty.version == 3 && empty.stream == 0);
    ASSERT(empty.owner == NULL && empty.data == NULL && empty.device.type == CAI_DEVICE_UNKNOWN);
    /* The numbers that files and other languages may have written down. */
    ASSERT(CAI_STREAM_NONE == 0xffffffffffffffffu && CAI_STREAM_UNKNOWN == 0xfffffffffffffffeu);
    ASSERT(CAI_ACCESS_READ == 1 && CAI_ACCESS_WRITE == 2 && CAI_SYNC_IGNORE == 16 &&
           CAI_SYNC_EXPORT_NONE == 32);
    ASSERT(CAI_SYNC_CONSERVATIVE == 64 && CAI_SYNC_THIS_CALL == 128 && CAI_CAPTURE_JOIN == 256);
    ASSERT(CAI_CAPTURE_EXTERNAL == 512 && CAI_CHECK_DEVICE == 4 && CAI_CHECK_STREAM == 8);
    ASSERT(CAI_PROTOCOL_EXCHANGE == 1 && CAI_PROTOCOL_DLPACK_EXCHANGE == 2 &&
           CAI_PROTOCOL_CUDA_ARRAY_INTERFACE == 3);
    ASSERT(CAI_PROTOCOL_DLPACK == 4 && CAI_PROTOCOL_SYCL_USM == 5 && CAI_PROTOCOL_BUFFER == 6 &&
           CAI_PROTOCOL_ARRAY_STRUCT == 7);
    ASSERT(CAI_PROTOCOL_ARRAY_INTERFACE == 8 && CAI_IMPORT_STRICT == 1 &&
           CAI_IMPORT_ALLOW_STREAM_ZERO == 2);
    ASSERT(CAI_IMPORT_REQUIRE_WRITABLE == 4 && CAI_IMPORT_REQUIRE_C_CONTIGUOUS == 8 &&
           CAI_IMPORT_REQUIRE_F_CONTIGUOUS == 16);
    ASSERT(CAI_IMPORT_REQUIRE_NATIVE == 32 && CAI_IMPORT_REQUIRE_NDIM == 64 &&
           CAI_IMPORT_ALLOW_MASK == 128);
    ASSERT(CAI_IMPORT_ALLOW_HOST == 256 && CAI_IMPORT_QUERY_DEVICE == 512 &&
           CAI_IMPORT_NO_EXCEPTION == 1024);
    ASSERT(CAI_IMPORT_REFUSE_OBJECTS == 2048 && CAI_IMPORT_ALLOW_GRAD == 4096 &&
           CAI_IMPORT_BUFFER_OPENCL == 8192 && CAI_IMPORT_BUFFER_CUDA == 16384);
    ASSERT(CAI_EXPORT_VERSION_2 == 1 && CAI_EXPORT_STRIDES == 2 && CAI_EXPORT_HIDE_READONLY == 4);
    ASSERT(CAI_STREAM_LEGACY == 1 && CAI_STREAM_PER_THREAD == 2 && CAI_ARRAY_READONLY == 1);
    ASSERT(CAI_DEVICE_CUDA == 2 && CAI_DEVICE_CUDA_HOST == 3 && CAI_DEVICE_CUDA_MANAGED == 13);
    ASSERT(CAI_DTYPE_BFLOAT16 == 4 && CAI_DTYPE_FLOAT8_E5M2 == 12 && CAI_DTYPE_FLOAT4_E2M1FN == 17);
    ASSERT(cai_abi_version() == ((uint32_t)CAI_ABI_MAJOR << 16 | (uint32_t)CAI_ABI_MINOR));
    ASSERT(strchr(cai_version(), '.') != NULL);
    return 0;
}
