//! Conversion between the element types of DLPack and of the array interface.

use std::ffi::c_char;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_dtype};
use crate::dlpack::abi::DataType;
use crate::dtype::table::{self, TYPES, Type, typestr};

/// Bits are packed in both; all other types of less than a byte are padded in the array interface.
pub(crate) const BIT: DataType = DataType { code: 1, bits: 1, lanes: 1 };

/// The types without a code by DLPack's code and by the size, a power of two: how the typestr
/// begins, whose other characters are NUL. Four NULs: there is no such type.
const TEXTS: [[[c_char; 4]; 5]; 8] = {
    let mut texts = [[[0; 4]; 5]; 8];
    let mut row = 0;
    while row < TYPES.len() {
        if let Type {
            code: abi::CAI_DTYPE_NONE, kind, size, dlpack: Some((code, 8.., 1)), ..
        } = TYPES[row]
        {
            let [first, second, third, fourth, ..] = typestr(kind, size);
            texts[code as usize][size.trailing_zeros() as usize] = [first, second, third, fourth];
        }
        row += 1;
    }
    texts
};

#[inline(always)]
pub fn plain_typestr(code: u8, bits: u8) -> Option<[c_char; CAI_TYPESTR_SIZE]> {
    let size = bits.trailing_zeros().wrapping_sub(3) as usize;
    let begin = *TEXTS.get(usize::from(code))?.get(size)?;
    if !bits.is_power_of_two() || begin == [0; 4] {
        return None;
    }
    let mut text = [0; CAI_TYPESTR_SIZE];
    let [first, second, third, fourth, ..] = &mut text;
    [*first, *second, *third, *fourth] = begin;
    Some(text)
}

/// Returns DLPack's type of a row of the table, or `None`.
fn data_type(of: &Type) -> Option<DataType> {
    of.dlpack.map(|(code, bits, lanes)| DataType { code, bits, lanes })
}

impl DataType {
    /// Returns true if one element, with all its lanes, fills less than a byte. Then its layout
    /// (packed or padded) must be stated separately.
    pub fn is_below_a_byte(self) -> bool {
        u32::from(self.bits).saturating_mul(u32::from(self.lanes)) < 8
    }
}

/// Returns DLPack's type for an array's, or `None`.
pub fn to_dlpack(dtype: &cai_dtype) -> Option<DataType> {
    table::of(dtype).and_then(data_type)
}

/// Returns the typestr and the code for a tensor's type, or `None`.
pub fn from_dlpack(dtype: DataType, padded: bool) -> Option<([c_char; CAI_TYPESTR_SIZE], u16)> {
    let DataType { code, bits, lanes } = dtype;
    match plain_typestr(code, bits).filter(|_| lanes == 1) {
        Some(typestr) => Some((typestr, abi::CAI_DTYPE_NONE)),
        None => coded_from_dlpack(dtype, padded),
    }
}

#[cold]
fn coded_from_dlpack(dtype: DataType, padded: bool) -> Option<([c_char; CAI_TYPESTR_SIZE], u16)> {
    if dtype == BIT && !padded {
        return Some((typestr(b't', 1), abi::CAI_DTYPE_NONE));
    }
    // The array interface has no name for packed elements of less than a byte. Padded lanes have no
    // meaning.
    if (dtype.is_below_a_byte() && !padded) || (dtype.lanes > 1 && padded) {
        return None;
    }
    let of =
        TYPES.iter().find(|of| of.code != abi::CAI_DTYPE_NONE && data_type(of) == Some(dtype))?;
    Some((typestr(of.kind, of.size), of.code))
}
