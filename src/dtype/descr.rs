//! Structured types: checks, measures, compares and searches the fields of a `cai_descr`.
//!
//! Fields follow each other in the order of the rows: NumPy writes padding as rows of its own, so
//! offsets are sums. Sizes are counted in bits, because of bit fields.

use std::ffi::c_char;
use std::hash::{BuildHasher, RandomState};

use crate::abi::{self, cai_dtype};
use crate::dtype;
use crate::error::{Count, Failure, Result, fail, failure};
use crate::read::{Descr, Field};

/// Lists of up to this many fields are checked without an allocation.
const FEW_FIELDS: usize = 32;

/// Returns the size of one element in bits for a sound list of the most common kind: up to eight
/// fields with a name, a type and perhaps a sub-array. [`bits`] decides about all others. Cannot
/// panic.
pub fn common_bits(descr: Descr) -> Option<i64> {
    let (mut names, mut total) = ([&[][..]; 8], 0i64);
    for (index, field) in descr.fields().enumerate() {
        if field.reserved != 0 || !field.title.is_null() || !field.nested.is_null() {
            return None;
        }
        let name = field.name_or_none()?;
        let (earlier, rest) = names.split_at_mut_checked(index)?;
        if !name.is_empty() && earlier.contains(&name) {
            return None;
        }
        *rest.first_mut()? = name;
        let mut bits = match dtype::common_itemsize(&field.typestr) {
            Some(bytes) if field.dtype_code == abi::CAI_DTYPE_NONE => bytes << 3,
            itemsize => dtype::other_bits(&field.typestr, field.dtype_code, itemsize)?,
        };
        if field.ndim != 0 {
            bits = times(bits, field.shape().ok()?).ok()?;
        }
        total = total.checked_add(bits)?;
    }
    Some(total)
}

/// Returns the size of one element in bits, after checking every rule about fields.
pub fn bits(descr: Descr) -> Result<i64> {
    let mut fields_left = abi::CAI_MAX_FIELDS;
    checked_bits(descr, 1, &mut fields_left)
}

fn checked_bits(descr: Descr, depth: i32, fields_left: &mut u64) -> Result<i64> {
    if depth > abi::CAI_MAX_DESCR_DEPTH {
        return fail!(CAI_ERR_DESCR_DEPTH, "";
            found "fields nested {depth} deep";
            expected "at most {} deep", abi::CAI_MAX_DESCR_DEPTH);
    }
    // One budget for the whole tree: rows that several parents share count each time.
    *fields_left = match fields_left.checked_sub(descr.count) {
        Some(left) => left,
        None => {
            return fail!(CAI_ERR_DESCR_COUNT, ".count";
                found "{} more fields", descr.count;
                expected "at most {} fields in all", abi::CAI_MAX_FIELDS);
        }
    };
    names_are_unique(descr)?;
    let mut total = 0i64;
    for (index, field) in descr.fields().enumerate() {
        let at = |failure: Failure| failure.within(format_args!("[{index}]"));
        let size = checked_field_bits(field, depth, fields_left).map_err(at)?;
        total = match total.checked_add(size) {
            Some(total) => total,
            None => return too_large(".typestr").map_err(at),
        };
    }
    Ok(total)
}

/// Returns the bits of a field, including its sub-array, after checking every rule about it.
pub fn field_bits(field: Field) -> Result<i64> {
    checked_field_bits(field, 0, &mut { abi::CAI_MAX_FIELDS })
}

fn checked_field_bits(field: Field, depth: i32, fields_left: &mut u64) -> Result<i64> {
    if field.reserved != 0 {
        return fail!(CAI_ERR_DESCR_STRUCT, ".reserved"; found "{}", field.reserved; expected "0");
    }
    let item = match field.nested()? {
        Some(_) if field.dtype_code != abi::CAI_DTYPE_NONE => {
            return fail!(CAI_ERR_DTYPE_CODE, ".dtype_code";
                found "{}", field.dtype_code; expected "0 for nested fields");
        }
        Some(nested) => checked_bits(nested, depth.saturating_add(1), fields_left)
            .map_err(|f| f.within(format_args!(".nested")))?,
        None => field_dtype(&field)?.bits,
    };
    times(item, field.shape()?)
}

/// Returns the type of one element of a field. Nested fields are opaque bytes of their size.
pub fn element(field: Field) -> Result<cai_dtype> {
    let bits = field_bits(field.element())?;
    if field.nested.is_null() {
        return field_dtype(&field);
    }
    Ok(cai_dtype {
        kind: b'V' as c_char,
        byte_order: b'|' as c_char,
        code: abi::CAI_DTYPE_NONE,
        unit: abi::CAI_UNIT_GENERIC,
        unit_count: 1,
        reserved: [0; 2],
        itemsize: if bits % 8 == 0 { bits / 8 } else { 0 },
        bits,
    })
}

/// Returns the type of a field that does not consist of fields.
fn field_dtype(field: &Field) -> Result<cai_dtype> {
    dtype::from_field(&field.typestr, field.dtype_code)
        .map_err(|failure| failure.within(format_args!(".")))
}

/// Multiplies `bits` by all extents. An extent of 0 makes the product 0, whatever the others are.
fn times(bits: i64, shape: &[i64]) -> Result<i64> {
    if bits == 0 || shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(bits, |product, &extent| product.checked_mul(extent));
    product.ok_or(()).or_else(|()| too_large(".shape"))
}

#[cold]
fn too_large<T>(field: &str) -> Result<T> {
    fail!(CAI_ERR_SIZE_OVERFLOW, "{field}";
        found "a size above 2^63 - 1 bits"; expected "at most 2^63 - 1 bits")
}

/// Fails if a name or title is used twice, as in NumPy. Padding rows share the empty name.
///
/// A hash table of rows says so. An entry is small, so that the table of the longest list stays
/// near the processor: the row, and bits of the hash.
fn names_are_unique(descr: Descr) -> Result<()> {
    const IS_USED: u32 = 1 << 16;
    const HASH: u32 = !0 << 17;
    const _: () = assert!(abi::CAI_MAX_FIELDS <= 1 << 16);
    // A third is free if each row has a title.
    const ENTRIES: usize = 3;
    let size = (descr.count as usize).saturating_mul(ENTRIES);
    let (mut few, mut many) = ([0_u32; FEW_FIELDS * ENTRIES], Vec::new());
    let table = match few.get_mut(..size) {
        Some(table) => table,
        None if many.try_reserve_exact(size).is_err() => {
            return Err(Failure::no_memory(size.saturating_mul(size_of::<u32>())));
        }
        None => {
            many.resize(size, 0);
            &mut many[..]
        }
    };
    let hasher = RandomState::new();
    for (index, field) in (0..).zip(descr.fields()) {
        let at = |failure: Failure| failure.within(format_args!("[{index}]"));
        let (name, title) = (field.name().map_err(at)?, field.title().map_err(at)?);
        for name in [Some(name), title].into_iter().flatten().filter(|name| !name.is_empty()) {
            let hash = hasher.hash_one(name);
            let start = u128::from(hash).saturating_mul(size as u128) >> 64;
            let (before, after) = table.split_at_mut(start as usize);
            for entry in after.iter_mut().chain(before) {
                if *entry == 0 {
                    *entry = hash as u32 & HASH | IS_USED | index;
                    break;
                }
                if (*entry ^ hash as u32) & HASH == 0 {
                    let other = *entry & !HASH & !IS_USED;
                    let field = descr.field(u64::from(other));
                    // A title is compared with the name of its own row, not with itself.
                    if field.name()? == name || other != index && field.title()? == Some(name) {
                        return Err(duplicate(index, name));
                    }
                }
            }
        }
    }
    Ok(())
}

#[cold]
fn duplicate(index: u32, name: &str) -> Failure {
    failure!(abi::CAI_ERR_DESCR_NAME, "[{index}].name";
        found "\"{name}\", which another field has"; expected "a unique name")
}

/// Fails unless every field is in the machine's byte order. The fields must have been checked.
pub fn byte_order(descr: Descr) -> Result<()> {
    for (index, field) in descr.fields().enumerate() {
        match field.nested()? {
            Some(nested) => byte_order(nested).map_err(|f| f.within(format_args!(".nested"))),
            None => dtype::byte_order(&field_dtype(&field)?, &field.typestr)
                .map_err(|f| f.within(format_args!("."))),
        }
        .map_err(|failure| failure.within(format_args!("[{index}]")))?;
    }
    Ok(())
}

/// Returns true for fields in the machine's byte order, as typestrs write it, without Python objects
/// and nested fields. `false` says nothing. The fields must have been checked.
pub fn are_commonly_native(descr: Descr) -> bool {
    descr.fields().all(|field| {
        let [order, kind, ..] = field.typestr.map(|byte| byte as u8);
        field.nested.is_null() && (order == dtype::NATIVE || order == b'|') && kind != b'O'
    })
}

/// Returns true if a field consists of Python objects. The fields must have been checked.
pub fn has_objects(descr: Descr) -> Result<bool> {
    for field in descr.fields() {
        let has_objects = match field.nested()? {
            Some(nested) => has_objects(nested)?,
            None => field_dtype(&field)?.kind as u8 == b'O',
        };
        if has_objects {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if two checked lists describe the same fields: names, titles, types, shapes.
pub fn equal(a: Descr, b: Descr) -> Result<bool> {
    if a.count != b.count {
        return Ok(false);
    }
    for (a, b) in a.fields().zip(b.fields()) {
        let types = match (a.nested()?, b.nested()?) {
            (Some(a), Some(b)) => equal(a, b)?,
            (None, None) => dtype::equal(&field_dtype(&a)?, &field_dtype(&b)?),
            _ => false,
        };
        if !types
            || a.name()? != b.name()?
            || a.title()? != b.title()?
            || a.shape()? != b.shape()?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the row with this name, or else with this title, and its offset in the element in bytes.
/// The fields must have been checked.
pub fn find(descr: Descr, name: &str) -> Result<(u64, i64)> {
    let matches = |title: bool| -> Result<Option<(u64, i64)>> {
        let mut offset = 0i64;
        for (index, field) in descr.fields().enumerate() {
            let found = if title { field.title()? == Some(name) } else { field.name()? == name };
            if found {
                return Ok(Some((index as u64, offset)));
            }
            offset = offset
                .checked_add(field_bits(field)?)
                .ok_or(())
                .or_else(|()| too_large(".shape"))?;
        }
        Ok(None)
    };
    let found = match matches(false)? {
        None => matches(true)?,
        found => found,
    };
    match found {
        Some((index, offset)) if offset % 8 == 0 => Ok((index, offset / 8)),
        Some((index, offset)) => fail!(CAI_ERR_DESCR_BIT_OFFSET, "descr[{index}]";
            found "bit {offset}"; expected "a multiple of 8 bits"),
        None => fail!(CAI_ERR_DESCR_NO_FIELD, "name";
            found "\"{name}\""; expected "a name in the list of {}", Count(descr.count, "field")),
    }
}
