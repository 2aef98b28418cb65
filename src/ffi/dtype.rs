//! Element types, for C.

use std::ffi::c_char;
use std::fmt::Write as _;

use super::guard::{guard_bool, guard_local};
use super::text::{Output, length as text_length};
use crate::abi::{
    self, cai_array, cai_descr, cai_dtype, cai_error, cai_field, cai_owner, cai_status,
};
use crate::argument::{In, Out, Text, Typestr, arguments};
use crate::dtype::{self, descr, text};
use crate::error::{Count, Result, fail};
use crate::owner::description;
use crate::read::Descr;

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_dtype_parse(
    typestr: *const c_char,
    out: *mut cai_dtype,
    error: *mut cai_error,
) -> cai_status {
    arguments!(text: Typestr(typestr), out: Out, error: Out);
    guard_local(error, || {
        let text = text.given("typestr")?;
        let out = out.given("out")?;
        let Some(text) = text else {
            return fail!(CAI_ERR_TYPESTR_LENGTH, "typestr";
                found "no NUL in {} characters", abi::CAI_TYPESTR_SIZE;
                expected "at most {} characters and a NUL", abi::CAI_TYPESTR_SIZE - 1);
        };
        out.write(dtype::parse(text)?);
        Ok(())
    })
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_dtype_format(
    dtype: *const cai_dtype,
    buffer: *mut c_char,
    size: usize,
    out_length: *mut usize,
    error: *mut cai_error,
) -> cai_status {
    arguments!(dtype: In, output: Output(buffer, size, out_length), error: Out);
    guard_local(error, || {
        let text = dtype::format(&dtype.given("dtype")?.read())?;
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        output.write(length, |to| {
            let _ = to.write_str(std::str::from_utf8(&text[..length]).unwrap_or_default());
            Ok(())
        })
    })
}

/// Returns whether two types describe the same bytes. Byte orders count only if they make a
/// difference: `|u1` equals `<u1`, and `|i8` equals the machine's own order. Codes are compared.
///
/// Returns false if either pointer is NULL. Cannot fail. Thread safety: any thread; allocates
/// nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_dtype_equal(a: *const cai_dtype, b: *const cai_dtype) -> bool {
    arguments!(a: In, b: In);
    guard_bool(|| match (a.optional(), b.optional()) {
        (Some(a), Some(b)) => dtype::equal(&a.read(), &b.read()),
        _ => false,
    })
}

/// Returns whether a type has the machine's byte order, or none. Opaque bytes (`V` without a code)
/// count as native.
///
/// Returns false for NULL. Cannot fail. Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_dtype_is_native(dtype: *const cai_dtype) -> bool {
    arguments!(dtype: In);
    guard_bool(|| dtype.optional().is_some_and(|dtype| dtype::is_native(&dtype.read())))
}

/// Reports the type of an array's elements: the parsed `typestr`, with `dtype_code` as `code`.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, a
/// `CAI_ERR_TYPESTR_` status or `CAI_ERR_DTYPE_CODE`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_dtype(
    array: *const cai_array,
    out: *mut cai_dtype,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, out: Out, error: Out);
    guard_local(error, || {
        let array = array.given("array")?.array()?;
        out.fill("out", || dtype::of_array(&array))
    })
}

/// Fails unless a list of fields obeys the rules.
fn checked<'a>(list: Result<Descr<'a>>, parameter: &str) -> Result<Descr<'a>> {
    list.and_then(|fields| descr::bits(fields).map(|_| fields))
        .map_err(|failure| failure.within(format_args!("{parameter}")))
}

/// Reports the size of one element of a structured type: the sum of its fields, padding rows
/// included. Validates every rule about fields.
///
/// `out`: bytes; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, a `CAI_ERR_DESCR_` or `CAI_ERR_TYPESTR_` status,
/// `CAI_ERR_DTYPE_CODE`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_DESCR_BIT_OFFSET` if bit fields are not
/// a whole number of bytes, or, for a list of more than 32 fields, `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_descr_itemsize(
    descr: *const cai_descr,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(descr: In, out: Out, error: Out);
    guard_local(error, || {
        let descr = descr.given("descr")?;
        let out = out.given("out")?;
        let bits = descr
            .fields()
            .and_then(descr::bits)
            .map_err(|failure| failure.within(format_args!("descr")))?;
        if bits % 8 != 0 {
            return fail!(CAI_ERR_DESCR_BIT_OFFSET, "descr";
                found "{} in all", Count(bits, "bit"); expected "whole bytes");
        }
        out.write(bits / 8);
        Ok(())
    })
}

/// Reports whether two lists describe the same fields: the same names, titles, types and shapes in
/// the same order.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or the status of `cai_descr_itemsize` for an invalid
/// list.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_descr_equal(
    a: *const cai_descr,
    b: *const cai_descr,
    out: *mut bool,
    error: *mut cai_error,
) -> cai_status {
    arguments!(a: In, b: In, out: Out, error: Out);
    guard_local(error, || {
        let (a, b) = (a.given("a")?, b.given("b")?);
        out.fill("out", || descr::equal(checked(a.fields(), "a")?, checked(b.fields(), "b")?))
    })
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_descr_find(
    descr: *const cai_descr,
    name: *const c_char,
    out_field: *mut *const cai_field,
    out_offset: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(descr: In, name: Text, out_field: Out, out_offset: Out, error: Out);
    guard_local(error, || {
        let descr = descr.given("descr")?;
        let name = name.given("name")?;
        let out_field = out_field.given("out_field")?;
        let out_offset = out_offset.given("out_offset")?;
        let fields = checked(descr.fields(), "descr")?;
        let Ok(name) = name.to_str() else {
            return fail!(CAI_ERR_DESCR_NAME, "name";
                found "\"{}\"", name.to_bytes().escape_ascii(); expected "UTF-8");
        };
        let (index, offset) = descr::find(fields, name)?;
        out_field.write(fields.row(index));
        out_offset.write(offset);
        Ok(())
    })
}

/// Reports the type of one element of a field: its parsed typestr and code, or, for nested fields,
/// opaque bytes (`V`) of their size.
///
/// `field`: a row of a list, from `cai_descr_find` or `cai_inline_field`.
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or the status of `cai_descr_itemsize` for an invalid
/// field.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_field_dtype(
    field: *const cai_field,
    out: *mut cai_dtype,
    error: *mut cai_error,
) -> cai_status {
    arguments!(field: In, out: Out, error: Out);
    guard_local(error, || {
        let field = field.given("field")?;
        let out = out.given("out")?;
        out.write(
            descr::element(field.field())
                .map_err(|failure| failure.within(format_args!("field")))?,
        );
        Ok(())
    })
}

/// Reports the bytes of a field, all elements of its sub-array together. The sum of all rows before
/// a field is its offset.
///
/// `field`: a row of a list, from `cai_descr_find` or `cai_inline_field`.
/// `out`: bytes; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_BIT_OFFSET` for bit fields that are
/// not a whole number of bytes, or the status of `cai_descr_itemsize` for an invalid field.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_field_nbytes(
    field: *const cai_field,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(field: In, out: Out, error: Out);
    guard_local(error, || {
        let field = field.given("field")?;
        let out = out.given("out")?;
        let bits = descr::field_bits(field.field())
            .map_err(|failure| failure.within(format_args!("field")))?;
        if bits % 8 != 0 {
            return fail!(CAI_ERR_DESCR_BIT_OFFSET, "field";
                found "{}", Count(bits, "bit"); expected "whole bytes");
        }
        out.write(bits / 8);
        Ok(())
    })
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_descr_parse(
    text: *const c_char,
    out_descr: *mut *const cai_descr,
    out_owner: *mut *mut cai_owner,
    error: *mut cai_error,
) -> cai_status {
    arguments!(text: Text, out_descr: Out, out_owner: Out, error: Out);
    guard_local(error, || {
        let text = text.given("text")?;
        let out_descr = out_descr.given("out_descr")?;
        let out_owner = out_owner.given("out_owner")?;
        let Ok(text) = text.to_str() else {
            return fail!(CAI_ERR_DESCR_SYNTAX, "text";
                found "bytes that are not UTF-8"; expected "UTF-8");
        };
        let list = description::new_descr(&text::parse(text)?)?;
        list.fields()
            .and_then(descr::bits)
            .map_err(|failure| failure.within(format_args!("descr")))?;
        let (descr, owner) = list.into_parts();
        out_descr.write(descr);
        out_owner.write(owner.into_raw());
        Ok(())
    })
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_descr_format(
    descr: *const cai_descr,
    buffer: *mut c_char,
    size: usize,
    out_length: *mut usize,
    error: *mut cai_error,
) -> cai_status {
    arguments!(descr: In, output: Output(buffer, size, out_length), error: Out);
    guard_local(error, || {
        let fields = checked(descr.given("descr")?.fields(), "descr")?;
        let length = text_length(|to| text::format(fields, to))?;
        output.write(length, |to| text::format(fields, to))
    })
}
