//! Conversion between the element types of DLPack and of the array interface.

use std::ffi::c_char;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_dtype};
use crate::dlpack::abi::DataType;
use crate::dtype::NATIVE;

const INT: u8 = 0;

const UINT: u8 = 1;

const FLOAT: u8 = 2;

const BFLOAT: u8 = 4;

const COMPLEX: u8 = 5;

const BOOL: u8 = 6;

/// Bits are packed in both; all other types of less than a byte are padded in the array interface.
pub(crate) const BIT: DataType = DataType { code: UINT, bits: 1, lanes: 1 };

/// Types that both sides name by kind and size: the kind, DLPack's code, and the sizes in bytes.
///
/// Floats of 16 bytes and complex numbers of 32 are not included: DLPack's are those of IEEE 754,
/// while `f16` is C's `long double`, which depends on the machine.
const PLAIN: [(u8, u8, &[u8]); 5] = [
    (b'i', INT, &[1, 2, 4, 8, 16]),
    (b'u', UINT, &[1, 2, 4, 8, 16]),
    (b'f', FLOAT, &[2, 4, 8]),
    (b'c', COMPLEX, &[4, 8, 16]),
    (b'b', BOOL, &[1]),
];

/// `PLAIN` by DLPack's code and by the size, a power of two: how the typestr begins, whose other
/// characters are NUL. Four NULs: there is no such type.
const TEXTS: [[[c_char; 4]; 5]; 8] = {
    let mut texts = [[[0; 4]; 5]; 8];
    let mut row = 0;
    while row < PLAIN.len() {
        let (kind, code, sizes) = PLAIN[row];
        let mut index = 0;
        while index < sizes.len() {
            let size = sizes[index];
            let [first, second, third, fourth, ..] = typestr(kind, size);
            texts[code as usize][size.trailing_zeros() as usize] = [first, second, third, fourth];
            index += 1;
        }
        row += 1;
    }
    texts
};

/// Returns the typestr of a plain type, or `None`.
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

/// A type that the array interface names by opaque bytes and a code.
struct Coded {
    /// `CAI_DTYPE_`
    ours: u16,
    theirs: DataType,
}

const fn coded(ours: u16, code: u8, bits: u8, lanes: u16) -> Coded {
    Coded { ours, theirs: DataType { code, bits, lanes } }
}

/// Types with a code. Types with less than 8 bits and one lane occupy one byte each. Two lanes of 4
/// bits fill a byte, which is how PyTorch exports two floats in a byte: extents and strides count
/// bytes there as well.
const CODED: [Coded; 19] = [
    coded(abi::CAI_DTYPE_BFLOAT16, BFLOAT, 16, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E3M4, 7, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3, 8, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3B11FNUZ, 9, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3FN, 10, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3FNUZ, 11, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E5M2, 12, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E5M2FNUZ, 13, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E8M0FNU, 14, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT6_E2M3FN, 15, 6, 1),
    coded(abi::CAI_DTYPE_FLOAT6_E3M2FN, 16, 6, 1),
    coded(abi::CAI_DTYPE_FLOAT4_E2M1FN, 17, 4, 1),
    coded(abi::CAI_DTYPE_FLOAT4_E2M1FN_X2, 17, 4, 2),
    coded(abi::CAI_DTYPE_INT4, INT, 4, 1),
    coded(abi::CAI_DTYPE_UINT4, UINT, 4, 1),
    coded(abi::CAI_DTYPE_INT2, INT, 2, 1),
    coded(abi::CAI_DTYPE_UINT2, UINT, 2, 1),
    coded(abi::CAI_DTYPE_INT1, INT, 1, 1),
    coded(abi::CAI_DTYPE_UINT1, UINT, 1, 1),
];

impl DataType {
    /// Returns true if one element, with all its lanes, fills less than a byte. Then its layout
    /// (packed or padded) must be stated separately.
    pub fn is_below_a_byte(self) -> bool {
        u32::from(self.bits).saturating_mul(u32::from(self.lanes)) < 8
    }
}

/// Returns DLPack's type for an array's, or `None`.
pub fn to_dlpack(dtype: &cai_dtype) -> Option<DataType> {
    if dtype.code != abi::CAI_DTYPE_NONE {
        return CODED.iter().find(|coded| coded.ours == dtype.code).map(|coded| coded.theirs);
    }
    let (kind, bits) = (dtype.kind as u8, u8::try_from(dtype.bits).ok()?);
    if (kind, bits) == (b't', BIT.bits) {
        return Some(BIT);
    }
    let (_, code, sizes) = PLAIN.iter().find(|(ours, ..)| *ours == kind)?;
    (bits % 8 == 0 && sizes.contains(&(bits / 8))).then_some(DataType {
        code: *code,
        bits,
        lanes: 1,
    })
}

/// Returns the typestr and the code for a tensor's type, or `None`.
#[inline]
pub fn from_dlpack(dtype: DataType, padded: bool) -> Option<([c_char; CAI_TYPESTR_SIZE], u16)> {
    let DataType { code, bits, lanes } = dtype;
    match plain_typestr(code, bits).filter(|_| lanes == 1) {
        Some(typestr) => Some((typestr, abi::CAI_DTYPE_NONE)),
        None => coded_from_dlpack(dtype, padded),
    }
}

/// Returns the typestr and the code for a type that is not plain, or `None`.
#[cold]
fn coded_from_dlpack(dtype: DataType, padded: bool) -> Option<([c_char; CAI_TYPESTR_SIZE], u16)> {
    let DataType { bits, lanes, .. } = dtype;
    if dtype == BIT && !padded {
        return Some((typestr(b't', 1), abi::CAI_DTYPE_NONE));
    }
    // The array interface has no name for packed elements of less than a byte. Padded lanes have no
    // meaning.
    if (dtype.is_below_a_byte() && !padded) || (lanes > 1 && padded) {
        return None;
    }
    let coded = CODED.iter().find(|coded| coded.theirs == dtype)?;
    Some((typestr(b'V', if bits > 8 { bits / 8 } else { 1 }), coded.ours))
}

/// Formats a typestr of at most 99 bytes or bits. Opaque bytes have a byte order, as their
/// producers write them.
#[inline]
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
