//! Element types of DLPack and of the array interface.

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

/// Bits, as opposed to anything else of less than a byte, are packed on both sides.
pub(crate) const BIT: DataType = DataType { code: UINT, bits: 1, lanes: 1 };

/// Types that both sides can name by kind and size: the kind, DLPack's code, and the sizes in
/// bytes.
///
/// Floats of 16 bytes, and complex numbers of 32, are not among them: DLPack's are IEEE's, while
/// `f16` is whatever C's `long double` is on the machine.
const PLAIN: [(u8, u8, &[u8]); 5] = [
    (b'i', INT, &[1, 2, 4, 8, 16]),
    (b'u', UINT, &[1, 2, 4, 8, 16]),
    (b'f', FLOAT, &[2, 4, 8]),
    (b'c', COMPLEX, &[4, 8, 16]),
    (b'b', BOOL, &[1]),
];

/// A type that is opaque bytes with a code on our side.
struct Coded {
    /// `CAI_DTYPE_`.
    ours: u16,
    theirs: DataType,
}

const fn coded(ours: u16, code: u8, bits: u8, lanes: u16) -> Coded {
    Coded { ours, theirs: DataType { code, bits, lanes } }
}

/// Those types. What has less than 8 bits and one lane lies one in a byte. Two lanes of 4 bits fill
/// theirs, which is how PyTorch exports two floats in a byte: extents and steps count bytes there
/// as well.
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
    /// Does one element, with all its lanes, fill no whole byte? Then somebody has to say how they
    /// lie.
    pub fn is_below_a_byte(self) -> bool {
        u32::from(self.bits).saturating_mul(u32::from(self.lanes)) < 8
    }
}

/// An array's type as DLPack has it, or `None`.
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

/// A tensor's type as a typestr and a code, or `None`.
pub fn from_dlpack(dtype: DataType, padded: bool) -> Option<([c_char; CAI_TYPESTR_SIZE], u16)> {
    let DataType { code, bits, lanes } = dtype;
    if lanes == 1 && bits % 8 == 0 {
        let plain =
            PLAIN.iter().find(|(_, theirs, sizes)| *theirs == code && sizes.contains(&(bits / 8)));
        if let Some((kind, ..)) = plain {
            return Some((typestr(*kind, bits / 8), abi::CAI_DTYPE_NONE));
        }
    }
    if dtype == BIT && !padded {
        return Some((typestr(b't', 1), abi::CAI_DTYPE_NONE));
    }
    // Packed elements of less than a byte have no name on our side; padded lanes have none at all.
    if (dtype.is_below_a_byte() && !padded) || (lanes > 1 && padded) {
        return None;
    }
    let coded = CODED.iter().find(|coded| coded.theirs == dtype)?;
    Some((typestr(b'V', if bits > 8 { bits / 8 } else { 1 }), coded.ours))
}

/// A typestr of at most 99 bytes or bits. Opaque bytes are written as their producers do, with a
/// byte order.
pub fn typestr(kind: u8, size: u8) -> [c_char; CAI_TYPESTR_SIZE] {
    let order = if size == 1 && kind != b'V' { b'|' } else { NATIVE };
    let (tens, ones) = ((size / 10) % 10, size % 10);
    let digit = |digit: u8| b'0'.wrapping_add(digit) as c_char;
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
