/*
 * cai/dtype.h: element types: typestr and fields.
 *
 *     #include <cai/cai.h>
 *
 *     // The offset of a field of floats.
 *     static cai_status offset_of(const cai_descr *descr, const char *name, int64_t *out,
 *                                 cai_error *error) {
 *         const cai_field *field;
 *         cai_dtype float32, dtype;
 *         cai_status status = cai_dtype_parse("<f4", &float32, error);
 *         if (status == CAI_OK) status = cai_descr_find(descr, name, &field, out, error);
 *         if (status == CAI_OK) status = cai_field_dtype(field, &dtype, error);
 *         if (status == CAI_OK && !cai_dtype_equal(&dtype, &float32))
 *             status = cai_error_set(error, CAI_ERR_UNSUPPORTED, name, "expected <f4");
 *         return status;
 *     }
 *
 *     int main(void) {
 *         const cai_descr *a, *b;
 *         cai_owner *owner_a, *owner_b;
 *         int64_t itemsize = 0, offset = 0;
 *         bool same = false;
 *         char text[64];
 *         const char *numpy = "[('id', '<i4'), ('x', '<f4', (2,))]";
 *         if (cai_descr_parse(numpy, &a, &owner_a, NULL) != CAI_OK) return 1;
 *         if (cai_descr_itemsize(a, &itemsize, NULL) != CAI_OK) return 1; // 12
 *         if (offset_of(a, "x", &offset, NULL) != CAI_OK) return 1;       // 4
 *         if (cai_descr_format(a, text, sizeof text, NULL, NULL) != CAI_OK) return 1;
 *         if (cai_descr_parse(text, &b, &owner_b, NULL) != CAI_OK) return 1;
 *         if (cai_descr_equal(a, b, &same, NULL) != CAI_OK) return 1;
 *         cai_owner_release(owner_a);
 *         cai_owner_release(owner_b);
 *         return itemsize == 12 && offset == 4 && same ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_DTYPE_H
#define CAI_DTYPE_H

#include "status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/dtype.h: include the newest one first"
#endif

#include <stdbool.h>

/*
 * Kinds, values of cai_dtype.kind, and the sizes that each has in bytes:
 *
 *   b  1                    boolean
 *   i  1, 2, 4, 8, 16       signed integer
 *   u  1, 2, 4, 8, 16       unsigned integer
 *   f  1, 2, 4, 8, 12, 16   float
 *   c  4, 8, 16, 24, 32     complex number
 *   m  8                    time difference, with an optional unit: [s], [25us]
 *   M  8                    point in time, with an optional unit
 *   O  8                    Python object; the size may be missing
 *   S  any                  bytes
 *   U  characters           UCS-4 text; the size counts characters, so U4 has 16 bytes
 *   V  any                  opaque bytes, and structured types
 *   W  4                    opaque bytes: the complex numbers of two 16-bit floats of ml_dtypes
 *   t  bits                 bit field; the size counts bits
 */

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_dtype cai_dtype;

/// Generic, or not a time.
#define CAI_UNIT_GENERIC 0

/// Years.
#define CAI_UNIT_YEAR 1

/// Months.
#define CAI_UNIT_MONTH 2

/// Weeks.
#define CAI_UNIT_WEEK 3

/// Days.
#define CAI_UNIT_DAY 4

/// Hours.
#define CAI_UNIT_HOUR 5

/// Minutes.
#define CAI_UNIT_MINUTE 6

/// Seconds.
#define CAI_UNIT_SECOND 7

/// Milliseconds.
#define CAI_UNIT_MILLISECOND 8

/// Microseconds.
#define CAI_UNIT_MICROSECOND 9

/// Nanoseconds.
#define CAI_UNIT_NANOSECOND 10

/// Picoseconds.
#define CAI_UNIT_PICOSECOND 11

/// Femtoseconds.
#define CAI_UNIT_FEMTOSECOND 12

/// Attoseconds.
#define CAI_UNIT_ATTOSECOND 13

/// Parsed typestr: byte order, kind, size in bytes (characters for `U`, bits for `t`), and for `m`
/// and `M` the unit in brackets, as in NumPy's array interface.
///
/// The size never changes: later versions use reserved space, which is zero until then.
struct cai_dtype {
    /// One of the kinds above.
    char kind;
    /// `<` little-endian, `>` big-endian, `|` not relevant. As written: `<V2` and `|V2` differ
    /// here, and `|i8`, which some producers write, means the machine's own order.
    char byte_order;
    /// Meaning of an opaque type (`CAI_DTYPE_BFLOAT16`, ...), or `CAI_DTYPE_NONE`.
    uint16_t code;
    /// Time unit of the kinds `m` and `M` (`CAI_UNIT_SECOND`, ...), otherwise `CAI_UNIT_GENERIC`.
    int32_t unit;
    /// Number of units in a step of the kinds `m` and `M` (25 in `<M8[25us]`), otherwise 1.
    int32_t unit_count;
    /// Zero. Reserved for packed and vector types.
    uint16_t reserved[2];
    /// Bytes of one element; 0 for bit fields that are not a whole number of bytes.
    int64_t itemsize;
    /// Bits of one element.
    int64_t bits;
};

/// Parses a typestr in the grammar of NumPy's array interface: byte order (`<`, `>` or `|`), kind,
/// size in bytes (characters for `U`, bits for `t`), and for `m` and `M` a unit: `<f4`, `|b1`,
/// `<U16`, `|V12`, `<M8[25us]`. The size of `|O` may be omitted. It also accepts the types of GPU
/// libraries that NumPy does not have: `<f1`, `<c4`, 16-byte integers, and `|i8` for the machine's
/// own order.
///
/// `typestr`: at most `CAI_TYPESTR_SIZE` characters with the NUL.
/// `out`: the type, with `CAI_DTYPE_NONE` as `code`. Written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPESTR_LENGTH`, `CAI_ERR_TYPESTR_ORDER`,
/// `CAI_ERR_TYPESTR_KIND`, `CAI_ERR_TYPESTR_SIZE` or `CAI_ERR_TYPESTR_UNIT`.
/// Thread safety: any thread; allocates nothing. Source: NumPy, "The array interface protocol".
CAI_API cai_status cai_dtype_parse(const char *typestr, cai_dtype *out, cai_error *error);

/// Writes the typestr of a type: the inverse of `cai_dtype_parse`. A unit count of 1 and the size
/// of `O` are omitted.
///
/// `dtype`: `code` is not part of a typestr and is ignored. All other members must agree as
/// `cai_dtype_parse` leaves them: `bits` is 8 times `itemsize` (for bit fields, any number), and
/// `unit_count` is 1 for types without a unit.
/// `buffer`, `size`: gets the NUL-terminated text; `CAI_TYPESTR_SIZE` characters always suffice.
/// NULL with a `size` of 0 asks for the length only.
/// `out_length`: number of characters without the NUL; may be NULL. Both outputs are written on
/// success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_NEWER_CALLER` if
/// `reserved` is not zero, `CAI_ERR_TYPESTR_LENGTH` if the text exceeds a typestr, or the status of
/// the invalid part: `CAI_ERR_TYPESTR_ORDER`, `CAI_ERR_TYPESTR_KIND`, `CAI_ERR_TYPESTR_SIZE`,
/// `CAI_ERR_TYPESTR_UNIT`.
/// Thread safety: any thread; allocates nothing.
CAI_API
cai_status cai_dtype_format(const cai_dtype *dtype,
                            char *buffer,
                            size_t size,
                            size_t *out_length,
                            cai_error *error);

/// Returns whether two types describe the same bytes. Byte orders count only if they make a
/// difference: `|u1` equals `<u1`, and `|i8` equals the machine's own order. Codes are compared.
///
/// Returns false if either pointer is NULL. Cannot fail. Thread safety: any thread; allocates
/// nothing.
CAI_API bool cai_dtype_equal(const cai_dtype *a, const cai_dtype *b);

/// Returns whether a type has the machine's byte order, or none. Opaque bytes (`V` without a code)
/// count as native.
///
/// Returns false for NULL. Cannot fail. Thread safety: any thread; allocates nothing.
CAI_API bool cai_dtype_is_native(const cai_dtype *dtype);

/// Reports the type of an array's elements: the parsed `typestr`, with `dtype_code` as `code`.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, a
/// `CAI_ERR_TYPESTR_` status or `CAI_ERR_DTYPE_CODE`.
/// Thread safety: any thread; allocates nothing.
CAI_API cai_status cai_array_dtype(const cai_array *array, cai_dtype *out, cai_error *error);

/// Reports the size of one element of a structured type: the sum of its fields, padding rows
/// included. Validates every rule about fields.
///
/// `out`: bytes; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, a `CAI_ERR_DESCR_` or `CAI_ERR_TYPESTR_` status,
/// `CAI_ERR_DTYPE_CODE`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_DESCR_BIT_OFFSET` if bit fields are not
/// a whole number of bytes, or, for a list of more than 32 fields, `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API cai_status cai_descr_itemsize(const cai_descr *descr, int64_t *out, cai_error *error);

/// Reports whether two lists describe the same fields: the same names, titles, types and shapes in
/// the same order.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or the status of `cai_descr_itemsize` for an invalid
/// list.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API
cai_status cai_descr_equal(const cai_descr *a,
                           const cai_descr *b,
                           bool *out,
                           cai_error *error);

/// Finds a field by its name, or else by its title, and reports its offset.
///
/// `name`: NUL-terminated UTF-8.
/// `out_field`: the row, inside `descr`. Its `nested` list can be searched in turn.
/// `out_offset`: bytes from the start of the element. Both outputs are written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_NAME` for a name that is not UTF-8,
/// `CAI_ERR_DESCR_NO_FIELD`, `CAI_ERR_DESCR_BIT_OFFSET`, or the status of `cai_descr_itemsize` for
/// an invalid list.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API
cai_status cai_descr_find(const cai_descr *descr,
                          const char *name,
                          const cai_field **out_field,
                          int64_t *out_offset,
                          cai_error *error);

/// Reports the type of one element of a field: its parsed typestr and code, or, for nested fields,
/// opaque bytes (`V`) of their size.
///
/// `field`: a row of a list, from `cai_descr_find` or `cai_inline_field`.
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or the status of `cai_descr_itemsize` for an invalid
/// field.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API cai_status cai_field_dtype(const cai_field *field, cai_dtype *out, cai_error *error);

/// Reports the bytes of a field, all elements of its sub-array together. The sum of all rows before
/// a field is its offset.
///
/// `field`: a row of a list, from `cai_descr_find` or `cai_inline_field`.
/// `out`: bytes; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_BIT_OFFSET` for bit fields that are
/// not a whole number of bytes, or the status of `cai_descr_itemsize` for an invalid field.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API cai_status cai_field_nbytes(const cai_field *field, int64_t *out, cai_error *error);

/// Parses a list of fields in the form in which NumPy prints `dtype.descr`: `[('x', '<f4'), ('m',
/// '<i4', (2, 3))]`, with nested lists, `(title, name)` pairs and padding rows `('', '|V4')`.
/// JSON's brackets and quotes are accepted as well. Validates every rule about fields.
///
/// `text`: NUL-terminated UTF-8.
/// `out_descr`: the list, which is valid until `out_owner` is released.
/// `out_owner`: the owner of the list, with one reference, which the caller must release with
/// `cai_owner_release`. Both outputs are written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_SYNTAX`, `CAI_ERR_NO_MEMORY`, or the
/// status of `cai_descr_itemsize` for an invalid list.
/// Thread safety: any thread; allocates.
CAI_API
cai_status cai_descr_parse(const char *text,
                           const cai_descr **out_descr,
                           cai_owner **out_owner,
                           cai_error *error);

/// Writes a list of fields in the form in which NumPy prints `dtype.descr`.
///
/// `buffer`, `size`: gets the NUL-terminated text. NULL with a `size` of 0 asks for the length
/// only.
/// `out_length`: number of characters without the NUL; may be NULL. Both outputs are written on
/// success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE`, or the status of
/// `cai_descr_itemsize` for an invalid list.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
CAI_API
cai_status cai_descr_format(const cai_descr *descr,
                            char *buffer,
                            size_t size,
                            size_t *out_length,
                            cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_DTYPE_H */
