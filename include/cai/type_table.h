/*
 * cai/type_table.h: the element types that other libraries have, and sets of device types, for the other headers. C99 and
 * C++. It declares nothing public.
 *
 * CAI_PRIVATE_..._TYPES(X) is X(kind, bytes, dtype_code, type of the other library) for each type.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_TYPE_TABLE_H
#define CAI_TYPE_TABLE_H

/* The types with a code, and their names. */
#define CAI_PRIVATE_CODED_TYPES(X) \
    X('V', 2, 4, "bfloat16") \
    X('V', 1, 7, "float8_e3m4") \
    X('V', 1, 8, "float8_e4m3") \
    X('V', 1, 9, "float8_e4m3b11fnuz") \
    X('V', 1, 10, "float8_e4m3fn") \
    X('V', 1, 11, "float8_e4m3fnuz") \
    X('V', 1, 12, "float8_e5m2") \
    X('V', 1, 13, "float8_e5m2fnuz") \
    X('V', 1, 14, "float8_e8m0fnu") \
    X('V', 1, 15, "float6_e2m3fn") \
    X('V', 1, 16, "float6_e3m2fn") \
    X('V', 1, 17, "float4_e2m1fn") \
    X('V', 4, 18, "bcomplex32") \
    X('V', 1, 256, "int4") \
    X('V', 1, 257, "uint4") \
    X('V', 1, 258, "int2") \
    X('V', 1, 259, "uint2") \
    X('V', 1, 260, "float4_e2m1fn_x2") \
    X('V', 1, 261, "int1") \
    X('V', 1, 262, "uint1")

/* DLPack's types of whole bytes and one lane: the code times 256, and the bits. */
#define CAI_PRIVATE_DLPACK_TYPES(X) \
    X('b', 1, 0, 0x0608) \
    X('i', 1, 0, 0x0008) \
    X('i', 2, 0, 0x0010) \
    X('i', 4, 0, 0x0020) \
    X('i', 8, 0, 0x0040) \
    X('i', 16, 0, 0x0080) \
    X('u', 1, 0, 0x0108) \
    X('u', 2, 0, 0x0110) \
    X('u', 4, 0, 0x0120) \
    X('u', 8, 0, 0x0140) \
    X('u', 16, 0, 0x0180) \
    X('f', 2, 0, 0x0210) \
    X('f', 4, 0, 0x0220) \
    X('f', 8, 0, 0x0240) \
    X('c', 4, 0, 0x0520) \
    X('c', 8, 0, 0x0540) \
    X('c', 16, 0, 0x0580) \
    X('V', 2, 4, 0x0410) \
    X('V', 1, 7, 0x0708) \
    X('V', 1, 8, 0x0808) \
    X('V', 1, 9, 0x0908) \
    X('V', 1, 10, 0x0a08) \
    X('V', 1, 11, 0x0b08) \
    X('V', 1, 12, 0x0c08) \
    X('V', 1, 13, 0x0d08) \
    X('V', 1, 14, 0x0e08) \
    X('V', 4, 18, 0x1220)

/* MPI's. */
#define CAI_PRIVATE_MPI_TYPES(X) \
    X('b', 1, 0, MPI_C_BOOL) \
    X('i', 1, 0, MPI_INT8_T) \
    X('i', 2, 0, MPI_INT16_T) \
    X('i', 4, 0, MPI_INT32_T) \
    X('i', 8, 0, MPI_INT64_T) \
    X('u', 1, 0, MPI_UINT8_T) \
    X('u', 2, 0, MPI_UINT16_T) \
    X('u', 4, 0, MPI_UINT32_T) \
    X('u', 8, 0, MPI_UINT64_T) \
    X('f', 4, 0, MPI_FLOAT) \
    X('f', 8, 0, MPI_DOUBLE) \
    X('c', 8, 0, MPI_C_FLOAT_COMPLEX) \
    X('c', 16, 0, MPI_C_DOUBLE_COMPLEX) \
    X('m', 8, 0, MPI_INT64_T) \
    X('M', 8, 0, MPI_INT64_T)

/* NCCL's, as cai/nccl.h has them. */
#define CAI_PRIVATE_NCCL_TYPES(X) \
    X('i', 1, 0, CAI_NCCL_INT8) \
    X('i', 4, 0, CAI_NCCL_INT32) \
    X('i', 8, 0, CAI_NCCL_INT64) \
    X('u', 1, 0, CAI_NCCL_UINT8) \
    X('u', 4, 0, CAI_NCCL_UINT32) \
    X('u', 8, 0, CAI_NCCL_UINT64) \
    X('f', 2, 0, CAI_NCCL_FLOAT16) \
    X('f', 4, 0, CAI_NCCL_FLOAT32) \
    X('f', 8, 0, CAI_NCCL_FLOAT64) \
    X('V', 2, 4, CAI_NCCL_BFLOAT16) \
    X('V', 1, 10, CAI_NCCL_FLOAT8_E4M3) \
    X('V', 1, 12, CAI_NCCL_FLOAT8_E5M2)

/* PyTorch's, as its stable C interface returns them. */
#define CAI_PRIVATE_TORCH_TYPES(X) \
    X('b', 1, 0, aoti_torch_dtype_bool()) \
    X('i', 1, 0, aoti_torch_dtype_int8()) \
    X('i', 2, 0, aoti_torch_dtype_int16()) \
    X('i', 4, 0, aoti_torch_dtype_int32()) \
    X('i', 8, 0, aoti_torch_dtype_int64()) \
    X('u', 1, 0, aoti_torch_dtype_uint8()) \
    X('u', 2, 0, aoti_torch_dtype_uint16()) \
    X('u', 4, 0, aoti_torch_dtype_uint32()) \
    X('u', 8, 0, aoti_torch_dtype_uint64()) \
    X('f', 2, 0, aoti_torch_dtype_float16()) \
    X('f', 4, 0, aoti_torch_dtype_float32()) \
    X('f', 8, 0, aoti_torch_dtype_float64()) \
    X('c', 4, 0, aoti_torch_dtype_complex32()) \
    X('c', 8, 0, aoti_torch_dtype_complex64()) \
    X('c', 16, 0, aoti_torch_dtype_complex128()) \
    X('V', 2, 4, aoti_torch_dtype_bfloat16()) \
    X('V', 1, 10, aoti_torch_dtype_float8_e4m3fn()) \
    X('V', 1, 11, aoti_torch_dtype_float8_e4m3fnuz()) \
    X('V', 1, 12, aoti_torch_dtype_float8_e5m2()) \
    X('V', 1, 13, aoti_torch_dtype_float8_e5m2fnuz()) \
    X('V', 1, 14, torch_dtype_float8_e8m0fnu()) \
    X('V', 1, 260, torch_dtype_float4_e2m1fn_x2())

/* XLA's, without those below 8 bits: whether it packs them depends on the platform. */
#define CAI_PRIVATE_XLA_TYPES(X) \
    X('b', 1, 0, XLA_FFI_DataType_PRED) \
    X('i', 1, 0, XLA_FFI_DataType_S8) \
    X('i', 2, 0, XLA_FFI_DataType_S16) \
    X('i', 4, 0, XLA_FFI_DataType_S32) \
    X('i', 8, 0, XLA_FFI_DataType_S64) \
    X('u', 1, 0, XLA_FFI_DataType_U8) \
    X('u', 2, 0, XLA_FFI_DataType_U16) \
    X('u', 4, 0, XLA_FFI_DataType_U32) \
    X('u', 8, 0, XLA_FFI_DataType_U64) \
    X('f', 2, 0, XLA_FFI_DataType_F16) \
    X('f', 4, 0, XLA_FFI_DataType_F32) \
    X('f', 8, 0, XLA_FFI_DataType_F64) \
    X('c', 8, 0, XLA_FFI_DataType_C64) \
    X('c', 16, 0, XLA_FFI_DataType_C128) \
    X('V', 2, 4, XLA_FFI_DataType_BF16) \
    X('V', 1, 7, XLA_FFI_DataType_F8E3M4) \
    X('V', 1, 8, XLA_FFI_DataType_F8E4M3) \
    X('V', 1, 9, XLA_FFI_DataType_F8E4M3B11FNUZ) \
    X('V', 1, 10, XLA_FFI_DataType_F8E4M3FN) \
    X('V', 1, 11, XLA_FFI_DataType_F8E4M3FNUZ) \
    X('V', 1, 12, XLA_FFI_DataType_F8E5M2) \
    X('V', 1, 13, XLA_FFI_DataType_F8E5M2FNUZ) \
    X('V', 1, 14, XLA_FFI_DataType_F8E8M0FNU)

/* CUDA's types of C++ that the language does not have. */
#define CAI_PRIVATE_CUDA_TYPES(X) \
    X('f', 2, 0, __half) \
    X('V', 2, 4, __nv_bfloat16) \
    X('V', 1, 10, __nv_fp8_e4m3) \
    X('V', 1, 12, __nv_fp8_e5m2)

/* Sets of device types: bit 2 is set if CAI_DEVICE_CUDA is one. */
#define CAI_PRIVATE_HANDLES 0x8190u
#define CAI_PRIVATE_HOST_READABLE 0x280au
#define CAI_PRIVATE_IS_IN(set, device_type) \
    ((device_type) >= 0 && (device_type) < 32 && ((set) >> (device_type) & 1u) != 0)

#endif /* CAI_TYPE_TABLE_H */
