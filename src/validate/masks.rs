//! The rules of masks.

use std::mem::MaybeUninit;
use std::ptr;

use super::common::common_bits;
use super::without_mask;
use crate::abi::{self, CAI_MAX_MASKS, cai_array, cai_device};
use crate::device::{Name, can_read};
use crate::error::{Failure, Result, Text, fail};
use crate::read::{self, Unchecked};

const MASKS: usize = CAI_MAX_MASKS as usize;

/// Reads the mask of an array.
type Read<'a> = for<'s, 't> fn(
    &Unchecked<'s, 'a>,
    &'t mut MaybeUninit<cai_array>,
) -> Result<Option<Unchecked<'t, 'a>>>;

/// Returns true if an array, which was checked, has a sound mask of the most common kind, without
/// fields and a mask of its own. [`check`] decides about all others. Cannot panic.
#[inline(never)]
pub fn is_common(array: Unchecked) -> bool {
    let mut scratch = MaybeUninit::uninit();
    let Ok(Some(mask)) = array.mask(&mut scratch) else { return false };
    let dimensions = (mask.common_dimensions(), array.common_dimensions());
    let (Some((shape, _)), Some((extents, _))) = dimensions else { return false };
    array.version >= 1
        && mask.mask.is_null()
        && mask.descr.is_null()
        && common_bits(mask).is_some()
        && check_type(&mask).is_ok()
        && shape.len() <= extents.len()
        && shape.iter().rev().zip(extents.iter().rev()).all(|(&of, &to)| of == to || of == 1)
        && (mask.data.is_null() || can_read(array.device, mask.device))
}

/// Follows the chain of masks of an array that was checked, whose structure is at `first`. Each
/// mask is checked as an array of its own, and then against the array that it is the mask of.
pub fn check<'a>(
    first: *const cai_array,
    array: Unchecked<'_, 'a>,
    checks: u32,
    read_mask: Read<'a>,
) -> Result<()> {
    let mut scratch = [const { MaybeUninit::uninit() }; MASKS];
    let mut places = scratch.iter_mut();
    let mut chain = [ptr::null(); MASKS];
    let (mut parent, (mut extents, _)) = (array, array.dimensions()?);
    let mut device = array.device;
    for depth in 0.. {
        if parent.mask.is_null() {
            break;
        }
        let outside = |failure: Failure| failure.in_mask(depth);
        let inside = |failure: Failure| failure.in_mask(depth + 1);
        if parent.version < 1 {
            return fail!(CAI_ERR_MASK_VERSION, "mask";
                found "a mask in version {}", parent.version; expected "version 1 or later")
            .map_err(outside);
        }
        if parent.mask == first || chain[..depth].contains(&parent.mask) {
            return fail!(CAI_ERR_MASK_CYCLE, "mask";
                found "an array that it is a mask of"; expected "another array")
            .map_err(outside);
        }
        let Some(place) = places.next() else {
            return fail!(CAI_ERR_MASK_DEPTH, "mask";
                found "{} masks on one another", depth + 1; expected "at most {CAI_MAX_MASKS}")
            .map_err(outside);
        };
        chain[depth] = parent.mask;
        let Some(mask) = read_mask(&parent, place).map_err(inside)? else { break };
        // A nonzero element is set, in whichever order its bytes are.
        without_mask(mask, checks & !abi::CAI_CHECK_NATIVE).map_err(inside)?;
        check_type(&mask).map_err(inside)?;
        let (shape, _) = mask.dimensions()?;
        check_shape(shape, extents).map_err(inside)?;
        // Without elements there is nothing to read.
        if !mask.data.is_null() {
            mask_device(mask.device, device).map_err(inside)?;
        }
        // What a mask leaves unknown is the same as for the array.
        if mask.device.r#type != abi::CAI_DEVICE_UNKNOWN {
            device = mask.device;
        }
        (parent, extents) = (mask, shape);
    }
    Ok(())
}

fn check_type(mask: &cai_array) -> Result<()> {
    let [_, kind, ..] = *read::typestr_bytes(&mask.typestr);
    if matches!(kind, b'b' | b't' | b'i' | b'u') && mask.dtype_code == abi::CAI_DTYPE_NONE {
        return Ok(());
    }
    let text = read::typestr(&mask.typestr).unwrap_or_default();
    let hint = match kind {
        b'f' | b'c' => ": the bits of -0.0 are not those of false; pass mask != 0",
        _ => "",
    };
    fail!(CAI_ERR_MASK_TYPE, "typestr";
        found "\"{}\"", text.escape_ascii();
        expected "a boolean (b), integer (i, u) or bit field (t){hint}")
}

/// Checks that the device of an array can read the array's mask.
pub fn mask_device(mask: cai_device, array: cai_device) -> Result<()> {
    if can_read(array, mask) {
        return Ok(());
    }
    let shown = |device: cai_device| -> Text<48> {
        match device.r#type {
            abi::CAI_DEVICE_CPU => Text::new(format_args!("host memory")),
            abi::CAI_DEVICE_UNKNOWN => Text::new(format_args!("a CUDA device")),
            of if device.id < 0 => Text::new(format_args!("{}", Name(of))),
            of => Text::new(format_args!("{}:{}", Name(of), device.id)),
        }
    };
    fail!(CAI_ERR_MASK_DEVICE, "device";
        found "{}", shown(mask);
        expected "memory that {} can read, where the array is", shown(array))
}

/// Checks that a mask's shape broadcasts to the array's as in NumPy: compared from the last
/// dimension, each extent is equal or 1, and the mask has no more dimensions.
fn check_shape(mask: &[i64], array: &[i64]) -> Result<()> {
    if mask.len() > array.len() {
        return fail!(CAI_ERR_MASK_SHAPE, "ndim";
            found "{}", mask.len(); expected "at most the array's {}", array.len());
    }
    let lead = array.len() - mask.len();
    for (index, (&extent, &wanted)) in mask.iter().zip(array.iter().skip(lead)).enumerate() {
        if extent != wanted && extent != 1 {
            return fail!(CAI_ERR_MASK_SHAPE, "shape[{index}]";
                found "{extent}"; expected "{wanted} as in the array, or 1");
        }
    }
    Ok(())
}
