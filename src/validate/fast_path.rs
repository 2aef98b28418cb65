//! Fast path through validation.
//!
//! A result of true means that every rule holds. A result of false means nothing: the slow path
//! decides. The fast path builds no messages, so it keeps nothing for them. The slow path is the
//! only place where the rules are written down; a test compares both.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use crate::abi::{self, cai_array};
use crate::device::{LAST, can_read, is_addressed, is_opaque, may_have_id};
use crate::dtype;
use crate::read;

/// Returns true for a sound array of the most common kind: numbers or booleans at an address, with
/// elements, without fields and mask. [`sound_bits`] decides about all others; its larger code
/// would cost these arrays a fifth of their time.
///
/// # Safety
/// As for `validate::array`.
#[inline(always)]
pub unsafe fn is_common(array: &cai_array) -> bool {
    let device = array.device;
    let streamless = array.stream >= abi::CAI_STREAM_UNKNOWN;
    let plain = array.flags <= abi::CAI_ARRAY_READONLY
        && (array.version >= abi::CAI_INTERFACE_VERSION || streamless)
        && array.dtype_code == abi::CAI_DTYPE_NONE
        && array.descr.is_null()
        && array.mask.is_null()
        && array.stream != 0
        && (!streamless || (array.stream_id == 0 && array.event.is_null()))
        && (streamless || device.r#type != abi::CAI_DEVICE_CPU)
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

/// Returns the size of an element in bits if the array is sound, apart from its fields and its
/// mask.
///
/// # Safety
/// As for `validate::array`.
#[inline]
pub unsafe fn sound_bits(array: &cai_array) -> Option<i64> {
    let device = array.device;
    let streamless = array.stream >= abi::CAI_STREAM_UNKNOWN;
    let plain = array.flags <= abi::CAI_ARRAY_READONLY
        && (array.version >= abi::CAI_INTERFACE_VERSION || streamless)
        && array.stream != 0
        && (array.stream_id == 0 || !streamless)
        && (array.event.is_null() || array.stream != abi::CAI_STREAM_NONE)
        && (device.r#type != abi::CAI_DEVICE_CPU || (streamless && array.event.is_null()))
        && (0..=LAST).contains(&device.r#type)
        && (device.id >= 0 || may_have_id(device))
        && (0..=abi::CAI_MAX_NDIM).contains(&array.ndim)
        && (array.ndim == 0 || !array.shape.is_null());
    if !plain {
        return None;
    }
    let start = if array.byte_offset == 0 && device.r#type <= abi::CAI_DEVICE_CUDA_HOST {
        array.data as u64
    } else if is_opaque(device.r#type) {
        array.byte_offset
    } else if array.byte_offset == 0 {
        array.data as u64
    } else {
        return None;
    };
    // SAFETY: `ndim` is in range and the shape is there, as checked above; both are readable (this
    // function's contract).
    unsafe { layout_bits(array, start) }
}

/// Returns the size of an element in bits if type, layout and address are sound. `start` is the
/// address, or the offset behind a handle.
///
/// # Safety
/// `ndim` is 0 to 64, and `shape`, and `strides` unless NULL, refer to as many values.
#[inline(always)]
pub unsafe fn layout_bits(array: &cai_array, start: u64) -> Option<i64> {
    let bits = match itemsize(read::typestr_bytes(&array.typestr)) {
        Some(itemsize) if array.dtype_code == abi::CAI_DTYPE_NONE => itemsize << 3,
        _ => other_bits(array)?,
    };
    // SAFETY: `ndim` values (this function's contract).
    let shape = unsafe { read::values(array.shape, array.ndim as usize) };
    let span = if bits % 8 != 0 {
        if !array.strides.is_null() {
            return None;
        }
        packed_span(shape, bits)
    } else if array.strides.is_null() {
        dense_span(shape, bits >> 3)
    } else {
        // SAFETY: `ndim` values (this function's contract).
        strided_span(shape, unsafe { read::values(array.strides, shape.len()) }, bits >> 3)
    };
    let (lower, upper) = match span {
        Some(span) => span,
        None if is_empty(shape) => (0, 0),
        None => return None,
    };
    let sound = array.data.is_null() == (upper == 0)
        && start.checked_add_signed(lower).is_some()
        && start.checked_add_signed(upper).is_some();
    sound.then_some(bits)
}

/// Returns true if the mask of an array is sound and fits. The mask has no fields and no mask of
/// its own.
///
/// # Safety
/// As for `validate::array`; `array` was found to be sound, and has a mask.
#[inline]
pub unsafe fn has_sound_mask(array: &cai_array) -> bool {
    // SAFETY: not NULL, and at least the size is readable (this function's contract).
    let size = unsafe { (&raw const (*array.mask).struct_size).read() };
    if size as usize != size_of::<cai_array>() || array.version < 1 {
        return false;
    }
    // SAFETY: a structure of this library's size, as checked above.
    let mask = unsafe { &*array.mask };
    let [_, kind, ..] = mask.typestr;
    if !mask.descr.is_null()
        || !mask.mask.is_null()
        || mask.dtype_code != abi::CAI_DTYPE_NONE
        || !matches!(kind as u8, b'b' | b't' | b'i' | b'u')
        || mask.ndim > array.ndim
        || (mask.device != array.device
            && !mask.data.is_null()
            && !can_read(array.device, mask.device))
        // SAFETY: what the mask points to is readable (this function's contract).
        || unsafe { sound_bits(mask) }.is_none()
    {
        return false;
    }
    // SAFETY: both were found to be sound, so their shapes have `ndim` values.
    let (inner, outer) = unsafe {
        (
            read::values(mask.shape, mask.ndim as usize),
            read::values(array.shape, array.ndim as usize),
        )
    };
    inner.iter().rev().zip(outer.iter().rev()).all(|(&extent, &of)| extent == of || extent == 1)
}

/// Returns the size of booleans, of integers, floats and complex numbers of up to 16 bytes, and of
/// the most common times and opaque types.
#[inline(always)]
fn itemsize(typestr: &[u8; abi::CAI_TYPESTR_SIZE]) -> Option<i64> {
    let (kind, digit) = match *typestr {
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

/// Returns the bits of any other type that an array can have.
#[inline(never)]
fn other_bits(array: &cai_array) -> Option<i64> {
    dtype::of_array(array).ok().map(|dtype| dtype.bits).filter(|&bits| bits > 0)
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

/// The span of bit fields that are no whole bytes.
#[inline(never)]
fn packed_span(shape: &[i64], bits: i64) -> Option<(i64, i64)> {
    let mut count = 1i64;
    for &extent in shape {
        count = if extent > 0 { count.checked_mul(extent)? } else { return None };
    }
    let bits = i128::from(count).saturating_mul(i128::from(bits));
    i64::try_from(bits.saturating_add(7) >> 3).ok().map(|bytes| (0, bytes))
}

/// Returns true for a shape of no elements, which may be too large without its extent of 0.
#[inline(never)]
fn is_empty(shape: &[i64]) -> bool {
    shape.contains(&0) && shape.iter().all(|&extent| extent >= 0)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use proptest::prelude::*;

    use super::*;
    use crate::validate;

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => -3i64..6,
            1 => any::<i64>(),
            1 => (0u32..63, -1i64..2).prop_map(|(power, near)| (1i64 << power).wrapping_add(near)),
        ]
    }

    fn typestr() -> impl Strategy<Value = &'static str> {
        prop_oneof![
            1 => prop::sample::select(vec!["<f4", "|b1", ">c8", "<i8", "|u1", "<c16", "|t1"]),
            1 => prop::sample::select(vec![
                "<f4", "|b1", ">c8", "<i8", "|u1", "<f3", "<c2", "|b2", "<V2", "<f", "f4", "<f4[",
                "<u9", "<M8", "|t1", "", "<c16", "|c16", "<f16", "<f12", "<c32", "<c24", "<i16",
                "|V0", "|V12", "|S3", "<U4", "<U0", "<M8[ns]", "<m8[25us]", "<M8[]", "|O", "|O8",
                ">m8[ms]", "<M8[D]", "|M8[s]", "<M8[ns", "<m8[xs]", "|V8", "<V3",
                "|t8", "|t12", "|t0", "<V1", "<f1", "<c4", "<t9223372036854775", "<U9999999999999",
            ]),
        ]
    }

    fn array<'a>(shape: &'a [i64], strides: Option<&'a [i64]>, typestr: &str) -> cai_array {
        let mut array = cai_array {
            struct_size: size_of::<cai_array>() as u32,
            flags: 0,
            owner: ptr::null_mut(),
            data: ptr::null_mut(),
            shape: shape.as_ptr(),
            strides: strides.map_or(ptr::null(), <[i64]>::as_ptr),
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
        array
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 20000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Arrays with one or two fields that are often wrong: the fast path accepts what the slow
        /// path accepts, and nothing else.
        #[test]
        fn both_paths_agree(
            shape in prop::collection::vec(number(), 0..5),
            strides in prop::collection::vec(number(), 4),
            strided in any::<bool>(),
            typestr in typestr(),
            address in prop_oneof![
                1 => Just(0u64),
                2 => Just(1 << 46),
                1 => any::<u64>(),
                4 => (0u64..64).prop_map(|below| u64::MAX - below),
                1 => 0u64..64,
            ],
            fits in any::<bool>(),
            change in 0..16,
            value in number(),
            device in -1i32..20,
        ) {
            let other = [0u8; 8];
            let mut array = array(&shape, strided.then_some(&strides), typestr);
            array.data = address as *mut _;
            if fits {
                array.data = if shape.contains(&0) { ptr::null_mut() } else { (1u64 << 46) as _ };
            }
            match change {
                0 => array.flags = (value as u32) & 1,
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
                12 => (array.device.r#type, array.byte_offset) = (device, value as u64),
                13 => (array.device.r#type, array.device.id) = (device, value as i32),
                14 => {
                    array.stream = abi::CAI_STREAM_UNKNOWN;
                    array.event = other.as_ptr().cast_mut().cast();
                    array.version = value as u16;
                }
                _ => {}
            }
            // SAFETY: shape and strides have at least `ndim` values, as constructed above.
            unsafe {
                let slow = validate::one(&array, abi::CAI_CHECK_LAYOUT);
                let fast = sound_bits(&array);
                prop_assert!(!is_common(&array) || slow.is_ok());
                match slow {
                    Ok((dtype, _)) => prop_assert_eq!(fast, Some(dtype.bits)),
                    Err(failure) => {
                        prop_assert!(fast.is_none(), "status {}", failure.status());
                    }
                }
            }
        }

        /// The fast path accepts the masks that the slow path accepts. None has a mask of its own.
        #[test]
        fn both_paths_agree_about_masks(
            shape in prop::collection::vec(0i64..4, 0..4),
            skipped in 0usize..4,
            ones in prop::collection::vec(any::<bool>(), 4),
            typestr in typestr(),
            change in 0..12,
            value in number(),
            places in prop::option::of((0i32..19, -1i32..2, 0i32..19, -1i32..2)),
        ) {
            let mut outer = array(&shape, None, "<f4");
            let inner: Vec<i64> = shape
                .iter()
                .zip(&ones)
                .skip(skipped)
                .map(|(&extent, &one)| if one { 1 } else { extent })
                .chain((change == 0).then_some(value))
                .collect();
            let mut mask = array(&inner, None, typestr);
            for array in [&mut outer, &mut mask] {
                // SAFETY: the shape has `ndim` values, as constructed above.
                let shape = unsafe { read::values(array.shape, array.ndim as usize) };
                array.data = if shape.contains(&0) { ptr::null_mut() } else { (1u64 << 46) as _ };
            }
            match change {
                1 => outer.version = value as u16,
                2 => mask.dtype_code = value as u16,
                3 => mask.stream = value as u64,
                4 => mask.data = value as *mut _,
                _ => {}
            }
            if outer.version < 3 {
                outer.stream = abi::CAI_STREAM_UNKNOWN;
            }
            if let Some((of, id, mask_of, mask_id)) = places {
                outer.device = abi::cai_device { r#type: of, id: id.max(0) };
                mask.device = abi::cai_device { r#type: mask_of, id: mask_id };
            }
            // Host memory has no stream, unless a change states one for the mask.
            for (array, changed) in [(&mut outer, false), (&mut mask, matches!(change, 3 | 5))] {
                if array.device.r#type == abi::CAI_DEVICE_CPU && !changed && array.version >= 3 {
                    array.stream = abi::CAI_STREAM_NONE;
                }
            }
            outer.mask = &raw const mask;
            // SAFETY: both shapes have `ndim` values, as constructed above.
            unsafe {
                prop_assert!(sound_bits(&outer).is_some());
                let slow = validate::masks(&raw const outer, outer, &shape, abi::CAI_CHECK_LAYOUT);
                prop_assert_eq!(has_sound_mask(&outer), slow.is_ok());
            }
        }
    }
}
