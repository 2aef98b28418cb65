//! Fast path through validation, for the arrays that are exchanged most often.
//!
//! May use: `abi`, `device`, `read`.
//! Unsafe: reads shape and strides.
//!
//! A result of true means that every rule holds. A result of false means nothing: the slow path
//! decides. The fast path builds no messages, so it keeps nothing for them. The slow path is the
//! only place where the rules are written down; a test compares every true with it.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use crate::abi::{self, cai_array};
use crate::device::is_addressed;
use crate::read;

/// Returns true for a sound, non-empty array of numbers or booleans without mask and fields.
///
/// # Safety
/// As for `validate::array`.
#[inline(always)]
pub unsafe fn is_sound(array: &cai_array) -> bool {
    let device = array.device;
    let streamless = array.stream >= abi::CAI_STREAM_UNKNOWN;
    let plain = array.flags <= abi::CAI_ARRAY_READONLY
        && (array.version >= abi::CAI_INTERFACE_VERSION || streamless)
        && array.dtype_code == abi::CAI_DTYPE_NONE
        && array.descr.is_null()
        && array.mask.is_null()
        && array.stream != 0
        && (!streamless || (array.stream_id == 0 && array.event.is_null()))
        && is_addressed(device.r#type)
        && device.id >= 0
        && array.byte_offset == 0
        && !array.data.is_null();
    if !plain || array.ndim < 1 || array.ndim > abi::CAI_MAX_NDIM || array.shape.is_null() {
        return false;
    }
    let Some(itemsize) = itemsize(read::typestr_bytes(&array.typestr)) else { return false };
    // SAFETY: not NULL here, so it refers to `ndim` extents (this function's contract).
    let shape = unsafe { read::values(array.shape, array.ndim as usize) };
    let span = if array.strides.is_null() {
        dense_span(shape, itemsize)
    } else {
        // SAFETY: not NULL here, so it refers to `ndim` strides (this function's contract).
        strided_span(shape, unsafe { read::values(array.strides, shape.len()) }, itemsize)
    };
    let Some((lower, upper)) = span else { return false };
    let address = array.data as u64;
    address.checked_add_signed(lower).is_some() && address.checked_add_signed(upper).is_some()
}

/// Returns the size of booleans, and of integers, floats and complex numbers of up to 8 bytes.
#[inline(always)]
fn itemsize(typestr: &[u8; abi::CAI_TYPESTR_SIZE]) -> Option<i64> {
    let [b'<' | b'>' | b'|', kind, digit, 0, ..] = *typestr else { return None };
    let sizes: u32 = match kind {
        b'f' | b'i' | b'u' => 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
        b'b' => 1 << 1,
        b'c' => 1 << 4 | 1 << 8,
        _ => return None,
    };
    let size = digit.wrapping_sub(b'0');
    (size < 32 && sizes >> size & 1 == 1).then_some(i64::from(size))
}

#[inline(always)]
fn dense_span(shape: &[i64], itemsize: i64) -> Option<(i64, i64)> {
    let mut bytes = itemsize;
    for &extent in shape {
        bytes = if extent > 0 { bytes.checked_mul(extent)? } else { return None };
    }
    Some((0, bytes))
}

#[inline(always)]
fn strided_span(shape: &[i64], strides: &[i64], itemsize: i64) -> Option<(i64, i64)> {
    let (mut bytes, mut lower, mut upper) = (itemsize, 0i64, itemsize);
    for (&extent, &stride) in shape.iter().zip(strides) {
        bytes = if extent > 0 { bytes.checked_mul(extent)? } else { return None };
        let reach = extent.saturating_sub(1).checked_mul(stride)?;
        if reach < 0 {
            lower = lower.checked_add(reach)?;
        } else {
            upper = upper.checked_add(reach)?;
        }
    }
    Some((lower, upper))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => -3i64..6,
            1 => any::<i64>(),
            1 => (0u32..63, -1i64..2).prop_map(|(power, near)| (1i64 << power).wrapping_add(near)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 20000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Arrays with one or two fields that are often wrong: the slow path accepts whatever the
        /// fast path accepts.
        #[test]
        fn a_yes_is_a_yes_the_long_way(
            shape in prop::collection::vec(number(), 1..5),
            strides in prop::collection::vec(number(), 4),
            strided in any::<bool>(),
            typestr in prop::sample::select(vec![
                "<f4", "|b1", ">c8", "<i8", "|u1", "<f3", "<c2", "|b2", "<V2", "<f", "f4", "<f4[",
                "<u9", "<M8", "|t1", "",
            ]),
            address in prop_oneof![
                1 => Just(0u64),
                2 => Just(1 << 46),
                1 => any::<u64>(),
                4 => (0u64..64).prop_map(|below| u64::MAX - below),
                1 => 0u64..64,
            ],
            change in 0..14,
            value in number(),
        ) {
            let other = [0u8; 8];
            let mut array = cai_array {
                struct_size: size_of::<cai_array>() as u32,
                flags: 0,
                owner: ptr::null_mut(),
                data: address as *mut _,
                shape: shape.as_ptr(),
                strides: if strided { strides.as_ptr() } else { ptr::null() },
                ndim: shape.len() as i32,
                version: 3,
                dtype_code: 0,
                typestr: [0; abi::CAI_TYPESTR_SIZE],
                descr: ptr::null(),
                mask: ptr::null(),
                stream: abi::CAI_STREAM_LEGACY,
                stream_id: 0,
                event: ptr::null_mut(),
                device: abi::cai_device { r#type: abi::CAI_DEVICE_CUDA, id: 0 },
                context: ptr::null_mut(),
                byte_offset: 0,
            };
            for (to, from) in array.typestr.iter_mut().zip(typestr.bytes()) {
                *to = from as std::ffi::c_char;
            }
            match change {
                0 => array.flags = value as u32,
                1 => array.version = value as u16,
                2 => array.dtype_code = value as u16,
                3 => array.stream = value as u64,
                4 => (array.stream, array.stream_id) = (abi::CAI_STREAM_NONE, value as u64),
                5 => {
                    array.stream = abi::CAI_STREAM_NONE;
                    array.event = other.as_ptr().cast_mut().cast();
                }
                6 => array.device.r#type = value as i32,
                7 => array.device.id = value as i32,
                8 => array.byte_offset = value as u64,
                9 => array.ndim = (value as i32).min(shape.len() as i32),
                10 => array.shape = ptr::null(),
                11 => array.stream_id = value as u64,
                _ => {}
            }
            // SAFETY: shape and strides have at least `ndim` values, as constructed above.
            unsafe {
                if is_sound(&array) {
                    let long = crate::validate::one(&array, abi::CAI_CHECK_LAYOUT);
                    let status = long.map_or_else(|failure| failure.status(), |_| 0);
                    prop_assert!(status == 0, "status {status}");
                }
            }
        }
    }
}
