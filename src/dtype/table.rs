//! The table of element types, which the build script makes from `src/abi/dtypes.txt`.

use std::ffi::{CStr, c_char};

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_dtype};
use crate::dtype::NATIVE;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No byte order, no alignment.
    Plain,
    /// A byte order; aligned to the size.
    Number,
    /// A byte order; aligned to half the size.
    Complex,
    /// A byte order; aligned to 4 bytes.
    Text,
    /// No byte order; aligned to the size.
    Object,
    /// Bytes that only a code explains.
    Opaque,
}

#[derive(Clone, Copy)]
pub enum Sizes {
    /// A set of bytes: bit 8 is set if there is a type of 8 bytes.
    Bytes(u64),
    /// Any number of bytes.
    Any,
    /// Any number of characters of 4 bytes.
    Characters,
    /// Any number of bits but 0.
    Bits,
}

impl Sizes {
    /// Returns the bits of an element whose typestr has this size, or `None` if it cannot.
    #[inline]
    pub fn bits(self, size: i64) -> Option<i64> {
        match self {
            Sizes::Bytes(set) if size < 64 && set >> size & 1 == 1 => Some(size << 3),
            Sizes::Any => size.checked_mul(8),
            Sizes::Characters => size.checked_mul(32),
            Sizes::Bits if size > 0 => Some(size),
            Sizes::Bytes(_) | Sizes::Bits => None,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Kind {
    pub class: Class,
    pub sizes: Sizes,
    pub expected: &'static str,
}

/// A type that others have a name for.
pub struct Type {
    /// The name that libraries for machine learning use.
    pub name: &'static str,
    /// `CAI_DTYPE_`; `CAI_DTYPE_NONE` if the typestr says it all.
    pub code: u16,
    pub kind: u8,
    /// Bytes of an element; bits of the kind `t`.
    pub size: u8,
    /// Bytes; 0: that of the kind.
    pub alignment: u8,
    /// Code, bits and lanes of DLPack's type.
    pub dlpack: Option<(u8, u8, u16)>,
    pub arrow: Option<&'static CStr>,
}

include!(concat!(env!("OUT_DIR"), "/dtype_table.rs"));

pub fn of(dtype: &cai_dtype) -> Option<&'static Type> {
    if dtype.code != abi::CAI_DTYPE_NONE {
        return of_code(dtype.code);
    }
    let size = if dtype.kind as u8 == b't' { dtype.bits } else { dtype.itemsize };
    TYPES
        .iter()
        .find(|of| of.kind == dtype.kind as u8 && i64::from(of.size) == size && of.code == 0)
}

/// Formats a typestr of at most 99 bytes or bits. Opaque bytes get a byte order, as producers do.
pub const fn typestr(kind: u8, size: u8) -> [c_char; CAI_TYPESTR_SIZE] {
    const fn digit(digit: u8) -> c_char {
        b'0'.wrapping_add(digit) as c_char
    }
    let order = if size == 1 && kind != b'V' { b'|' } else { NATIVE };
    let (tens, ones) = ((size / 10) % 10, size % 10);
    let mut text = [0; CAI_TYPESTR_SIZE];
    let [first, second, third, fourth, ..] = &mut text;
    (*first, *second) = (order as c_char, kind as c_char);
    if tens == 0 {
        *third = digit(ones);
    } else {
        (*third, *fourth) = (digit(tens), digit(ones));
    }
    text
}
