//! Element types: the typestr grammar of NumPy's array interface, and structured types.
//!
//! [`parse`] reads a typestr and [`format`] writes one. [`table`] has their kinds, and the types
//! that others have a name for. [`descr`] checks the fields of structured types, [`fields`] holds
//! them while they are read, and [`text`] reads and writes them as NumPy prints `descr`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

pub mod descr;
pub mod fields;
pub mod table;
pub mod text;

use std::ffi::c_char;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_dtype};
use crate::error::{Count, Result, Text, fail};
use crate::read;

use table::Class;

/// The byte order of this machine, as a typestr writes it.
pub const NATIVE: u8 = if cfg!(target_endian = "little") { b'<' } else { b'>' };

/// The largest multiple of a time unit: NumPy stores it in 32 bits.
const MAX_UNIT_COUNT: i64 = i32::MAX as i64;

/// Time units, in the order of `CAI_UNIT_YEAR` = 1 and up.
const UNITS: [&[u8]; 13] =
    [b"Y", b"M", b"W", b"D", b"h", b"m", b"s", b"ms", b"us", b"ns", b"ps", b"fs", b"as"];

/// Parses a typestr. A message ends in the typestr that was most likely meant.
pub fn parse(text: &[u8]) -> Result<cai_dtype> {
    parse_exact(text).map_err(|failure| match suggestion(text) {
        Some(meant) => {
            let meant = meant.split(|byte| *byte == 0).next().unwrap_or_default();
            failure.hint(format_args!(": did you mean \"{}\"?", meant.escape_ascii()))
        }
        None => failure,
    })
}

fn parse_exact(text: &[u8]) -> Result<cai_dtype> {
    let (order, kind, rest) = match text {
        [order, kind, rest @ ..] => (*order, *kind, rest),
        [] => {
            return fail!(CAI_ERR_TYPESTR_LENGTH, "typestr";
                found "an empty text"; expected "a type such as <f4");
        }
        [order] => {
            return if matches!(order, b'<' | b'>' | b'|') {
                bad_kind(text, None)
            } else {
                bad_order(text)
            };
        }
    };
    if text.len() >= CAI_TYPESTR_SIZE {
        return bad_length(text);
    }
    if !matches!(order, b'<' | b'>' | b'|') {
        return bad_order(text);
    }
    let Some(known) = table::kind(kind) else { return bad_kind(text, Some(kind)) };
    let (size, rest) = if known.class == Class::Object && rest.is_empty() {
        // NumPy writes the type of Python objects without a size.
        (size_of::<*const ()>() as i64, rest)
    } else {
        number(rest).ok_or(()).or_else(|()| bad_size(text, kind))?
    };
    let Some(bits) = known.sizes.bits(size) else { return bad_size(text, kind) };
    let (unit, unit_count) = match (kind, rest) {
        (_, []) => (abi::CAI_UNIT_GENERIC, 1),
        (b'm' | b'M', [b'[', inner @ .., b']']) => time_unit(text, inner)?,
        (b'm' | b'M', _) => return bad_unit(text),
        (_, [b'[', ..]) => return bad_unit(text),
        (_, rest) => return bad_end(text, rest),
    };
    Ok(cai_dtype {
        kind: kind as c_char,
        byte_order: order as c_char,
        code: abi::CAI_DTYPE_NONE,
        unit,
        unit_count,
        reserved: [0; 2],
        itemsize: if bits % 8 == 0 { bits / 8 } else { 0 },
        bits,
    })
}

/// Completes a type that some producers write and NumPy understands: without its byte order (`f4`,
/// `=f4`), or as a single letter (`f`, `|i`, `B`). Returns `None` for anything else.
pub fn parse_lenient(text: &[u8]) -> Option<[u8; CAI_TYPESTR_SIZE]> {
    let (order, rest) = match text {
        [order @ (b'<' | b'>' | b'|'), rest @ ..] => (*order, rest),
        [b'=' | b'@', rest @ ..] => (NATIVE, rest),
        rest => (NATIVE, rest),
    };
    let long = if cfg!(windows) { b"4" } else { b"8" };
    let (kind, size): (u8, &[u8]) = match rest {
        [letter] => match letter {
            b'?' => (b'b', b"1"),
            b'b' => (b'i', b"1"),
            b'B' => (b'u', b"1"),
            b'h' => (b'i', b"2"),
            b'H' => (b'u', b"2"),
            b'i' => (b'i', b"4"),
            b'I' => (b'u', b"4"),
            b'l' => (b'i', long),
            b'L' => (b'u', long),
            b'q' => (b'i', b"8"),
            b'Q' => (b'u', b"8"),
            b'e' => (b'f', b"2"),
            b'f' => (b'f', b"4"),
            b'd' => (b'f', b"8"),
            b'F' => (b'c', b"8"),
            b'D' => (b'c', b"16"),
            _ => return None,
        },
        [kind, size @ ..] => (*kind, size),
        [] => return None,
    };
    let order = if size == b"1" && matches!(kind, b'b' | b'i' | b'u') { b'|' } else { order };
    let mut out = [0; CAI_TYPESTR_SIZE];
    let mut written = 0usize;
    for (to, from) in out.iter_mut().zip([order, kind].iter().chain(size)) {
        *to = *from;
        written = written.saturating_add(1);
    }
    parse_exact(out.get(..written)?).is_ok().then_some(out)
}

/// Returns the typestr that a wrong one most likely means: `<f4` for `f4` or `torch.float32`.
#[cold]
fn suggestion(text: &[u8]) -> Option<[u8; CAI_TYPESTR_SIZE]> {
    if let Some(complete) = parse_lenient(text) {
        return Some(complete);
    }
    let name = text.rsplit(|byte| *byte == b'.').next()?;
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (letters, bits) = name.split_at_checked(name.len().checked_sub(digits)?)?;
    let (kind, bits) = match (letters, number(bits)) {
        (b"bool" | b"bool_", None) => (b'b', 8),
        (b"half", None) => (b'f', 16),
        (b"double", None) => (b'f', 64),
        (b"int", Some((bits, _))) => (b'i', bits),
        (b"uint", Some((bits, _))) => (b'u', bits),
        (b"float", Some((bits, _))) => (b'f', bits),
        (b"complex", Some((bits, _))) => (b'c', bits),
        _ => return None,
    };
    let size: Text<24> = Text::new(format_args!("{}{}", char::from(kind), bits.checked_div(8)?));
    parse_lenient(size.as_str().as_bytes()).filter(|_| bits.checked_rem(8) == Some(0))
}

/// Splits a text into its leading decimal digits, without leading zeros, and the rest.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let (digits, rest) =
        text.split_at_checked(text.iter().take_while(|b| b.is_ascii_digit()).count())?;
    if matches!(digits, [] | [b'0', _, ..]) {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        value = value.checked_mul(10)?.checked_add(i64::from(digit.wrapping_sub(b'0')))?;
    }
    Some((value, rest))
}

fn time_unit(text: &[u8], inner: &[u8]) -> Result<(i32, i32)> {
    let has_count = inner.first().is_some_and(u8::is_ascii_digit);
    let (count, name) = if has_count {
        match number(inner) {
            Some((count @ 1..=MAX_UNIT_COUNT, name)) => (count as i32, name),
            _ => return bad_unit(text),
        }
    } else {
        (1, inner)
    };
    match UNITS.iter().zip(1..).find(|(unit, _)| **unit == name) {
        Some((_, unit)) => Ok((unit, count)),
        None => bad_unit(text),
    }
}

#[cold]
fn bad_length<T>(text: &[u8]) -> Result<T> {
    fail!(CAI_ERR_TYPESTR_LENGTH, "typestr";
        found "\"{}\"", text.escape_ascii(); expected "at most {} characters", CAI_TYPESTR_SIZE - 1)
}

#[cold]
fn bad_order<T>(text: &[u8]) -> Result<T> {
    fail!(CAI_ERR_TYPESTR_ORDER, "typestr";
        found "\"{}\"", text.escape_ascii();
        expected "a byte order first, < (little-endian), > (big-endian) or | (not relevant)")
}

#[cold]
fn bad_kind<T>(text: &[u8], kind: Option<u8>) -> Result<T> {
    match kind {
        Some(kind) => fail!(CAI_ERR_TYPESTR_KIND, "typestr";
            found "kind '{}' in \"{}\"", [kind].escape_ascii(), text.escape_ascii();
            expected "one of {}", table::KINDS),
        None => fail!(CAI_ERR_TYPESTR_KIND, "typestr";
            found "no kind in \"{}\"", text.escape_ascii(); expected "one of {}", table::KINDS),
    }
}

#[cold]
fn bad_size<T>(text: &[u8], kind: u8) -> Result<T> {
    let Some(known) = table::kind(kind) else { return bad_kind(text, Some(kind)) };
    fail!(CAI_ERR_TYPESTR_SIZE, "typestr";
        found "\"{}\"", text.escape_ascii();
        expected "for kind '{}': {}", kind as char, known.expected)
}

/// The type is complete before `rest`.
#[cold]
fn bad_end<T>(text: &[u8], rest: &[u8]) -> Result<T> {
    let complete = text.strip_suffix(rest).unwrap_or(text);
    fail!(CAI_ERR_TYPESTR_SIZE, "typestr";
        found "\"{}\"", text.escape_ascii();
        expected "nothing after \"{}\"", complete.escape_ascii())
}

#[cold]
fn bad_unit<T>(text: &[u8]) -> Result<T> {
    fail!(CAI_ERR_TYPESTR_UNIT, "typestr";
        found "\"{}\"", text.escape_ascii();
        expected "a unit, for kinds m and M only: [unit] or [count unit], unit one of Y M W D h m \
            s ms us ns ps fs as")
}

/// Formats a typestr, NUL-padded. The result of [`parse`] formats to the same letters, except that
/// a multiple of one and the size of an object are not written.
pub fn format(dtype: &cai_dtype) -> Result<[u8; CAI_TYPESTR_SIZE]> {
    if dtype.reserved != [0; 2] {
        return fail!(CAI_ERR_NEWER_CALLER, "dtype.reserved";
            found "{:?}", dtype.reserved; expected "zeros");
    }
    let kind = dtype.kind as u8;
    let size = match kind {
        b't' => dtype.bits,
        b'U' if dtype.itemsize % 4 == 0 => dtype.itemsize / 4,
        b'U' => {
            return fail!(CAI_ERR_TYPESTR_SIZE, "dtype.itemsize";
                found "{}", dtype.itemsize; expected "a multiple of 4 for kind 'U'");
        }
        _ => dtype.itemsize,
    };
    let (order, shown) = (char::from(dtype.byte_order as u8), char::from(kind));
    let text: Text<48> = match (kind, dtype.unit, dtype.unit_count) {
        (b'O', _, _) if size == size_of::<*const ()>() as i64 => {
            Text::new(format_args!("{order}O"))
        }
        (b'm' | b'M', abi::CAI_UNIT_GENERIC, _) => Text::new(format_args!("{order}{shown}{size}")),
        (b'm' | b'M', unit, count) => {
            let Some(name) =
                usize::try_from(unit).ok().and_then(|unit| UNITS.get(unit.checked_sub(1)?))
            else {
                return fail!(CAI_ERR_TYPESTR_UNIT, "dtype.unit";
                    found "{unit}"; expected "0 to {}", UNITS.len());
            };
            let name = name.escape_ascii();
            if count == 1 {
                Text::new(format_args!("{order}{shown}{size}[{name}]"))
            } else {
                Text::new(format_args!("{order}{shown}{size}[{count}{name}]"))
            }
        }
        _ => Text::new(format_args!("{order}{shown}{size}")),
    };
    let bytes = text.as_str().as_bytes();
    // Whatever the caller put into the fields, the returned typestr must parse as the same type.
    let again = parse(bytes)?;
    if again.itemsize != dtype.itemsize || again.bits != dtype.bits {
        return fail!(CAI_ERR_TYPESTR_SIZE, "dtype.bits";
            found "{} and {}", Count(dtype.bits, "bit"), Count(dtype.itemsize, "byte");
            expected "{} and {} for \"{}\"",
                Count(again.bits, "bit"), Count(again.itemsize, "byte"), text);
    }
    if (again.unit, again.unit_count) != (dtype.unit, dtype.unit_count) {
        return fail!(CAI_ERR_TYPESTR_UNIT, "dtype.unit_count";
            found "unit {} times {}", dtype.unit, dtype.unit_count;
            expected "unit {} times {} for \"{}\"", again.unit, again.unit_count, text);
    }
    let mut out = [0; CAI_TYPESTR_SIZE];
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    Ok(out)
}

fn order_matters(dtype: &cai_dtype) -> bool {
    match class(dtype) {
        Class::Number | Class::Text => dtype.itemsize > 1,
        Class::Complex => true,
        // A code makes it a number.
        Class::Opaque => dtype.code != abi::CAI_DTYPE_NONE && dtype.itemsize > 1,
        Class::Plain | Class::Object => false,
    }
}

fn class(dtype: &cai_dtype) -> Class {
    table::kind(dtype.kind as u8).map_or(Class::Plain, |kind| kind.class)
}

/// Returns the byte order of one element, or `None` if it makes no difference.
fn effective_order(dtype: &cai_dtype) -> Option<u8> {
    order_matters(dtype).then_some(match dtype.byte_order as u8 {
        b'|' => NATIVE,
        order => order,
    })
}

/// Returns true if this machine's processor and GPU can use the elements as they are.
pub fn is_native(dtype: &cai_dtype) -> bool {
    effective_order(dtype).is_none_or(|order| order == NATIVE)
}

/// Fails unless [`is_native`] is true of a type, which was parsed from this text.
pub fn byte_order(dtype: &cai_dtype, typestr: &[c_char; CAI_TYPESTR_SIZE]) -> Result<()> {
    if is_native(dtype) {
        return Ok(());
    }
    fail!(CAI_ERR_CONVERT_BYTE_ORDER, "typestr";
        found "\"{}\"", read::typestr(typestr).unwrap_or_default().escape_ascii();
        expected "the byte order of this machine, '{}'", NATIVE as char)
}

/// Returns true if two types describe the same bytes. Byte orders count only where they differ.
pub fn equal(a: &cai_dtype, b: &cai_dtype) -> bool {
    a.kind == b.kind
        && a.code == b.code
        && a.unit == b.unit
        && a.unit_count == b.unit_count
        && a.reserved == b.reserved
        && a.itemsize == b.itemsize
        && a.bits == b.bits
        && effective_order(a) == effective_order(b)
}

/// Returns the natural alignment of an element in bytes: that of the C type a kernel would use.
pub fn alignment(dtype: &cai_dtype) -> i64 {
    let scalar = match class(dtype) {
        Class::Number | Class::Object => dtype.itemsize,
        Class::Complex => dtype.itemsize / 2,
        Class::Text => 4,
        Class::Opaque => match table::of_code(dtype.code) {
            Some(of) if of.alignment > 0 => of.alignment.into(),
            Some(_) => dtype.itemsize,
            None => 1,
        },
        Class::Plain => 1,
    };
    // 12-byte long doubles are aligned like their 4-byte words.
    if scalar == 12 { 4 } else { scalar.clamp(1, 16) }
}

/// Adds a code to a type, or fails if the two contradict each other.
pub fn with_code(mut dtype: cai_dtype, code: u16) -> Result<cai_dtype> {
    if code == abi::CAI_DTYPE_NONE {
        return Ok(dtype);
    }
    let Some(of) = table::of_code(code) else {
        return fail!(CAI_ERR_DTYPE_CODE, "dtype_code";
            found "{code}"; expected "0 or one of the CAI_DTYPE_ codes");
    };
    let size = i64::from(of.size);
    // Raw bytes, the unsigned integer of that size, or the one-byte float that only codes explain.
    let carries = match dtype.kind as u8 {
        b'u' => true,
        b'f' => dtype.itemsize == 1,
        _ => class(&dtype) == Class::Opaque,
    };
    if !carries || dtype.itemsize != size {
        let written = format(&dtype)?;
        return fail!(CAI_ERR_DTYPE_CODE, "dtype_code";
            found "{code} with typestr \"{}\"",
                written.split(|b| *b == 0).next().unwrap_or_default().escape_ascii();
            expected "a typestr of {size} opaque byte(s): V{size} or u{size}");
    }
    dtype.code = code;
    Ok(dtype)
}

/// Returns the name that libraries for machine learning use for a code.
pub fn code_name(code: u16) -> Option<&'static str> {
    table::of_code(code).map(|of| of.name)
}

/// Returns the type that a name of [`code_name`], or one such as `float32`, adds to a typestr's: its
/// code, which is 0 if the typestr says it all. `None` if the name is not known. Fails if it is that
/// of another type.
pub fn code_of_name(name: &[u8], typestr: &cai_dtype) -> Option<Result<u16>> {
    let named = table::TYPES.iter().find(|of| of.name.as_bytes() == name)?;
    let is_same = match named.code {
        abi::CAI_DTYPE_NONE => table::of(typestr).is_some_and(|of| of.name == named.name),
        code => with_code(*typestr, code).is_ok(),
    };
    Some(if is_same {
        Ok(named.code)
    } else {
        fail!(CAI_ERR_DTYPE_CODE, "dtype";
            found "\"{}\" for another typestr", named.name;
            expected "a name for the type in typestr, as \"bfloat16\" for \"<V2\"")
    })
}

/// Returns an array's element type: typestr and code. The fields are checked by [`descr`].
pub fn of_array(array: &cai_array) -> Result<cai_dtype> {
    from_field(&array.typestr, array.dtype_code)
}

/// Returns true if fields define the elements of an array: only those of kind V without a code.
/// The fields of any other array have to be right as well, but its type says what its elements are:
/// many producers write `descr` for every type, and NumPy reads it for this kind only.
pub fn has_fields(array: &cai_array) -> bool {
    let [_, kind, ..] = array.typestr;
    !array.descr.is_null() && kind as u8 == b'V' && array.dtype_code == abi::CAI_DTYPE_NONE
}

/// Returns the size of the most common types: of booleans, of integers, floats and complex numbers
/// of up to 16 bytes, of times and of opaque bytes. `None` says nothing: [`parse_exact`] decides, and
/// a test compares the two.
#[inline(always)]
pub fn common_itemsize(typestr: &[c_char; CAI_TYPESTR_SIZE]) -> Option<i64> {
    let (kind, digit) = match *read::typestr_bytes(typestr) {
        [b'<' | b'>' | b'|', kind, digit, 0, ..] => (kind, digit),
        [b'<' | b'>', b'c', b'1', b'6', 0, ..] => return Some(16),
        [b'<' | b'>', b'M' | b'm', b'8', b'[', b'm' | b'u' | b'n', b's', b']', 0, ..] => {
            return Some(8);
        }
        [b'<' | b'>', b'M' | b'm', b'8', b'[', b's' | b'D', b']', 0, ..] => return Some(8),
        _ => return None,
    };
    let sizes: u32 = match kind {
        b'f' | b'i' | b'u' => 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
        b'b' => 1 << 1,
        b'c' => 1 << 4 | 1 << 8,
        b'V' => 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
        _ => return None,
    };
    let size = digit.wrapping_sub(b'0');
    (size < 32 && sizes >> size & 1 == 1).then_some(i64::from(size))
}

/// Returns the most common types but times, as [`parse_exact`] does. `None` says nothing.
#[inline]
fn common(typestr: &[c_char; CAI_TYPESTR_SIZE]) -> Option<cai_dtype> {
    let itemsize = common_itemsize(typestr)?;
    let [byte_order, kind, ..] = *typestr;
    let of_time = matches!(kind as u8, b'm' | b'M');
    (!of_time).then_some(cai_dtype {
        kind,
        byte_order,
        code: abi::CAI_DTYPE_NONE,
        unit: abi::CAI_UNIT_GENERIC,
        unit_count: 1,
        reserved: [0; 2],
        itemsize,
        bits: itemsize.wrapping_mul(8),
    })
}

pub fn from_field(typestr: &[c_char; CAI_TYPESTR_SIZE], code: u16) -> Result<cai_dtype> {
    if code == abi::CAI_DTYPE_NONE {
        if let Some(dtype) = common(typestr) {
            return Ok(dtype);
        }
    }
    let Some(text) = read::typestr(typestr) else {
        return fail!(CAI_ERR_TYPESTR_LENGTH, "typestr";
            found "no NUL in {} bytes", CAI_TYPESTR_SIZE;
            expected "at most {} characters and a NUL", CAI_TYPESTR_SIZE - 1);
    };
    let dtype = parse(text)?;
    if code == abi::CAI_DTYPE_NONE { Ok(dtype) } else { with_code(dtype, code) }
}

/// Returns the bits of a sound type that is none of the most common ones, or has a code.
pub fn other_bits(
    typestr: &[c_char; CAI_TYPESTR_SIZE],
    code: u16,
    itemsize: Option<i64>,
) -> Option<i64> {
    let text = read::typestr_bytes(typestr);
    let bits = match (*text, itemsize) {
        ([_, b'V', ..], Some(itemsize)) if code != abi::CAI_DTYPE_NONE => {
            table::of_code(code).filter(|of| i64::from(of.size) == itemsize).map(|_| itemsize << 3)
        }
        ([b'<' | b'>' | b'|', b'm' | b'M', b'8', b'[', ref unit @ ..], _)
            if code == abi::CAI_DTYPE_NONE && is_common_unit(unit) =>
        {
            Some(64)
        }
        ([b'<' | b'>' | b'|', kind, ref rest @ ..], _) if code == abi::CAI_DTYPE_NONE => {
            let size = match rest {
                [ones @ b'1'..=b'9', 0, ..] => ones & 15,
                [0, ..] if kind == b'O' => size_of::<*const ()>() as u8,
                [tens @ b'1'..=b'9', ones @ b'0'..=b'9', 0, ..] => {
                    (tens & 15).saturating_mul(10).saturating_add(ones & 15)
                }
                _ => 0,
            };
            let kind = table::kind(kind).filter(|_| size > 0);
            kind.and_then(|kind| kind.sizes.bits(size.into()))
        }
        _ => None,
    };
    bits.or_else(|| from_field(typestr, code).ok().map(|dtype| dtype.bits))
}

/// Returns true for a unit of time, perhaps behind a count of up to three digits, that ends the type.
fn is_common_unit(text: &[u8]) -> bool {
    let unit = match text {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9', unit @ ..] => unit,
        [b'1'..=b'9', b'0'..=b'9', unit @ ..] => unit,
        [b'1'..=b'9', unit @ ..] => unit,
        unit => unit,
    };
    matches!(
        unit,
        [b'Y' | b'M' | b'W' | b'D' | b'h' | b'm' | b's', b']', 0, ..]
            | [b'm' | b'u' | b'n' | b'p' | b'f' | b'a', b's', b']', 0, ..]
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 3_000, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// The grammar has the types that are recognized without it, and finds the same in them.
        #[test]
        fn the_grammar_has_the_common_types(
            text in "[<>|=][fiucbVMmOtSUW](0|1|2|3|4|5|8|9|16|32|64|[:-@])\
                (\\[(0?[0-9]{0,4}([munpfa]s|[YMWDhmsun])?)\\])?x?",
        ) {
            compare(&text);
        }
    }

    /// Those that random texts rarely hit.
    #[test]
    fn the_grammar_has_the_common_types_of_times() {
        for unit in ["s", "D", "ms", "us", "ns", "ps", "h"] {
            for kind in ["<m", "<M", ">m", ">M"] {
                compare(&format!("{kind}8[{unit}]"));
            }
        }
    }

    fn compare(text: &str) {
        let mut typestr = [0; CAI_TYPESTR_SIZE];
        for (to, from) in typestr.iter_mut().zip(text.bytes()) {
            *to = from as c_char;
        }
        let parsed = parse_exact(text.as_bytes()).ok();
        if let Some(itemsize) = common_itemsize(&typestr) {
            assert_eq!(parsed.map(|parsed| parsed.itemsize), Some(itemsize), "{text}");
        }
        if let Some(found) = common(&typestr) {
            assert_eq!(parsed, Some(found), "{text}");
        }
        let bits = other_bits(&typestr, abi::CAI_DTYPE_NONE, None);
        assert_eq!(bits, parsed.map(|parsed| parsed.bits), "{text}");
    }
}
