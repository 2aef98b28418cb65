//! The rules of the array, one status each.
//!
//! Reads the structure, shape, strides, fields and masks. Never reads the data, and allocates
//! nothing for arrays without fields. [`fast_path`] accepts the common cases and has no rules of
//! its own. [`device`] is the only file here that calls the driver.

mod device;
mod fast_path;
mod valid;

use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, CAI_MAX_MASKS, cai_array, cai_device, cai_dtype};
use crate::device::{LAST, Name, can_read, is_opaque, may_have_id};
use crate::dtype;
use crate::error::{Failure, Result, Text, fail};
use crate::layout::{self, Layout, Span};
use crate::read::{self, Descr};

pub use valid::Valid;

/// What is known of an array whose layout is sound.
#[derive(Clone, Copy)]
pub struct Described<'a> {
    /// Element type.
    pub dtype: cai_dtype,
    /// Shape, strides and size of elements.
    pub layout: Layout<'a>,
}

/// Returns type and layout of an array, checked as far as the functions of `dtype` and `layout`
/// require.
///
/// # Safety
/// `shape`, and `strides` unless NULL, point to `ndim` values that stay unchanged for `'a`.
pub unsafe fn describe<'a>(array: &cai_array) -> Result<Described<'a>> {
    let dtype = dtype::of_array(array)?;
    // SAFETY: shape and strides refer to `ndim` values (this function's contract).
    let (shape, strides) = unsafe { read::shape_and_strides(array) }?;
    layout::check_shape(shape)?;
    if dtype.bits == 0 {
        return fail!(
            CAI_ERR_ITEMSIZE,
            "typestr",
            found = "elements of 0 bytes",
            expected = "at least 1 byte"
        );
    }
    let layout = Layout { shape, strides, bits: dtype.bits };
    if layout.is_packed_bits() && strides.is_some() {
        return fail!(
            CAI_ERR_BIT_STRIDES,
            "strides",
            found = ("strides for elements of {} bits", dtype.bits),
            expected = "NULL: bit fields are packed in C order"
        );
    }
    Ok(Described { dtype, layout })
}

/// Checks an array and its masks.
///
/// # Safety
/// `array` points to a structure of the size that it states, and what that points to is readable.
#[inline]
pub unsafe fn array(array: *const cai_array, checks: u32) -> Result<()> {
    let mut scratch = MaybeUninit::uninit();
    // SAFETY: `array` refers to as many bytes as it states (this function's contract).
    let local = unsafe { read::view(array, &mut scratch) }?;
    if checks & !abi::CAI_CHECK_LAYOUT == 0 {
        // SAFETY: shape and strides are readable (this function's contract).
        if unsafe { fast_path::is_common(local) } {
            return Ok(());
        }
        // SAFETY: the contract is that of this function; `local` was read from `array`.
        return unsafe { second_path(array, local) };
    }
    // SAFETY: the contract is that of this function; `local` was read from `array`.
    unsafe { slow_path(array, local, checks) }
}

/// The fast path for all arrays that are not of the most common kind.
///
/// # Safety
/// As for [`array`]; `local` is what `array` points to.
#[inline(never)]
unsafe fn second_path(array: *const cai_array, local: &cai_array) -> Result<()> {
    // SAFETY: shape and strides are readable (this function's contract).
    if let Some(bits) = unsafe { fast_path::sound_bits(local) } {
        if !local.descr.is_null() {
            // SAFETY: not NULL, and readable (this function's contract).
            unsafe { fields(local, bits) }?;
        }
        // SAFETY: sound, with a mask; all is readable (this function's contract).
        if local.mask.is_null() || unsafe { fast_path::has_sound_mask(local) } {
            return Ok(());
        }
    }
    // SAFETY: the contract is that of this function.
    unsafe { slow_path(array, local, abi::CAI_CHECK_LAYOUT) }
}

/// Returns true if type, layout and address of an array are sound. A result of false means nothing:
/// [`array`] decides, and says what is wrong.
///
/// # Safety
/// `ndim` is 0 to 64, and `shape`, and `strides` unless NULL, refer to as many values.
#[inline(always)]
pub unsafe fn is_layout_sound(array: &cai_array) -> bool {
    // SAFETY: the contract is that of this function.
    unsafe { fast_path::layout_bits(array, array.data as u64) }.is_some()
}

/// Checks an array of which only the structure's size is known to be sound.
///
/// # Safety
/// As for [`array`]; `local` is what `array` points to.
#[cold]
#[inline(never)]
unsafe fn slow_path(array: *const cai_array, local: &cai_array, checks: u32) -> Result<()> {
    // SAFETY: what `local` points to is readable (this function's contract).
    let (_, shape) = unsafe { one(local, checks) }?;
    if local.mask.is_null() {
        return Ok(());
    }
    // SAFETY: `array` is readable (this function's contract), and so are the masks that it points
    // to.
    unsafe { masks(array, *local, shape, checks) }
}

/// Follows the chain of masks. Each mask is first compared with its parent (type and shape), then
/// checked as an array of its own.
///
/// # Safety
/// As for [`array`].
unsafe fn masks(
    first: *const cai_array,
    parent: cai_array,
    shape: &[i64],
    checks: u32,
) -> Result<()> {
    let mut chain = [ptr::null(); CAI_MAX_MASKS as usize];
    let mut length = 0;
    let (mut parent, mut shape) = (parent, shape);
    let mut device = parent.device;
    while !parent.mask.is_null() {
        let inside = |failure: Failure| failure.in_mask(length + 1);
        let outside = |failure: Failure| failure.in_mask(length);
        if parent.version < 1 {
            return fail!(
                CAI_ERR_MASK_VERSION,
                "mask",
                found = ("a mask in version {}", parent.version),
                expected = "version 1 or later"
            )
            .map_err(outside);
        }
        if parent.mask == first || chain[..length].contains(&parent.mask) {
            return fail!(
                CAI_ERR_MASK_CYCLE,
                "mask",
                found = "an array that it is a mask of",
                expected = "another array"
            )
            .map_err(outside);
        }
        if length == chain.len() {
            return fail!(
                CAI_ERR_MASK_DEPTH,
                "mask",
                found = ("{} masks on one another", length + 1),
                expected = "at most {CAI_MAX_MASKS}"
            )
            .map_err(outside);
        }
        // SAFETY: not NULL by the loop's condition, and readable (this function's contract).
        let mask = unsafe { read::array(parent.mask) }.map_err(inside)?;
        // SAFETY: what the mask points to is readable (this function's contract).
        let (dtype, mask_extents) = unsafe { one(&mask, checks) }.map_err(inside)?;
        mask_type(&mask, &dtype).map_err(inside)?;
        mask_shape(mask_extents, shape).map_err(inside)?;
        // Without elements there is nothing to read.
        if !mask.data.is_null() {
            mask_device(mask.device, device).map_err(inside)?;
        }
        chain[length] = parent.mask;
        length += 1;
        shape = mask_extents;
        // What a mask leaves unknown is the same as for the array.
        if mask.device.r#type != abi::CAI_DEVICE_UNKNOWN {
            device = mask.device;
        }
        parent = mask;
    }
    Ok(())
}

fn mask_type(mask: &cai_array, dtype: &cai_dtype) -> Result<()> {
    let is_mask_kind = matches!(dtype.kind as u8, b'b' | b't' | b'i' | b'u');
    if is_mask_kind && dtype.code == abi::CAI_DTYPE_NONE {
        return Ok(());
    }
    let text = read::typestr(&mask.typestr).unwrap_or_default();
    let hint = match dtype.kind as u8 {
        b'f' | b'c' => ": the bits of -0.0 are not those of false; pass mask != 0",
        _ => "",
    };
    fail!(
        CAI_ERR_MASK_TYPE,
        "typestr",
        found = ("\"{}\"", text.escape_ascii()),
        expected = "a boolean (b), integer (i, u) or bit field (t){hint}"
    )
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
    fail!(
        CAI_ERR_MASK_DEVICE,
        "device",
        found = ("{}", shown(mask)),
        expected = ("memory that {} can read, where the array is", shown(array))
    )
}

/// Checks that a mask's shape broadcasts to the array's as in NumPy: compared from the last
/// dimension, each extent is equal or 1, and the mask has no more dimensions.
fn mask_shape(mask: &[i64], array: &[i64]) -> Result<()> {
    if mask.len() > array.len() {
        return fail!(
            CAI_ERR_MASK_SHAPE,
            "ndim",
            found = ("{}", mask.len()),
            expected = ("at most the array's {}", array.len())
        );
    }
    let lead = array.len() - mask.len();
    for (index, (&extent, &wanted)) in mask.iter().zip(&array[lead..]).enumerate() {
        if extent != wanted && extent != 1 {
            return fail!(
                CAI_ERR_MASK_SHAPE,
                "shape[{index}]",
                found = "{extent}",
                expected = "{wanted} as in the array, or 1"
            );
        }
    }
    Ok(())
}

/// Checks one array without its mask. Returns its type and its shape.
///
/// # Safety
/// As for [`array`].
unsafe fn one<'a>(array: &cai_array, checks: u32) -> Result<(cai_dtype, &'a [i64])> {
    // SAFETY: shape and strides are readable (this function's contract).
    let Described { dtype, layout } = unsafe { describe(array) }?;
    let count = layout::count(layout.shape)?;
    // Broadcast arrays span fewer bytes than their elements count. Both numbers must fit.
    layout.nbytes()?;
    let span = layout.span()?;
    place(array, count, span)?;
    stream(array)?;
    if !array.descr.is_null() {
        // SAFETY: `descr` is not NULL here, and readable (this function's contract).
        unsafe { fields(array, dtype.bits) }?;
    }
    if checks & abi::CAI_CHECK_ALIGNMENT != 0 && count > 0 {
        alignment(array, dtype, layout)?;
    }
    if checks & abi::CAI_CHECK_DEVICE != 0 {
        device::memory(array, span)?;
    }
    if checks & abi::CAI_CHECK_STREAM != 0 {
        device::stream(array)?;
    }
    Ok((dtype, layout.shape))
}

/// Checks device, address and offset against the bytes that the array spans.
fn place(array: &cai_array, count: i64, span: Span) -> Result<()> {
    let device = array.device;
    if !(0..=LAST).contains(&device.r#type) {
        return fail!(
            CAI_ERR_DEVICE_TYPE,
            "device.type",
            found = ("{}", device.r#type),
            expected = "0 (not known) or a device type of DLPack, 1 to {LAST}"
        );
    }
    if device.id < 0 && !may_have_id(device) {
        return bad_id(device);
    }
    if (count == 0) != array.data.is_null() {
        return if count == 0 {
            fail!(
                CAI_ERR_DATA_NOT_NULL,
                "data",
                found = ("{:p}", array.data),
                expected = "NULL, for the array has no elements"
            )
        } else {
            fail!(
                CAI_ERR_DATA_NULL,
                "data",
                found = "NULL",
                expected = "an address, for the array has {count} elements"
            )
        };
    }
    let opaque = is_opaque(device.r#type);
    if array.byte_offset != 0 && !opaque {
        return fail!(
            CAI_ERR_BYTE_OFFSET,
            "byte_offset",
            found = ("{}", array.byte_offset),
            expected = ("0, for data is an address on device {}", Name(device.r#type))
        );
    }
    let (start, field) =
        if opaque { (array.byte_offset, "byte_offset") } else { (array.data as u64, "data") };
    let below = start.checked_add_signed(span.lower);
    let above = start.checked_add_signed(span.upper);
    match (below, above) {
        (Some(_), Some(_)) => Ok(()),
        (None, _) => {
            fail!(
                CAI_ERR_ADDRESS_RANGE,
                "{field}",
                found = (
                    "{start:#x}, from which the strides reach {} bytes down",
                    span.lower.unsigned_abs()
                ),
                expected = ("at least {:#x}", span.lower.unsigned_abs())
            )
        }
        (_, None) => {
            fail!(
                CAI_ERR_ADDRESS_RANGE,
                "{field}",
                found = ("{start:#x}, from which the array reaches {} bytes up", span.upper),
                expected = "an end below 2^64"
            )
        }
    }
}

#[cold]
fn bad_id(device: cai_device) -> Result<()> {
    let unknown = match may_have_id(cai_device { id: -1, ..device }) {
        true => ", or -1 if it is not known",
        false => "",
    };
    fail!(
        CAI_ERR_DEVICE_ID,
        "device.id",
        found = ("{}", device.id),
        expected = "at least 0{unknown}"
    )
}

/// Checks the stream and the fields that belong to it.
fn stream(array: &cai_array) -> Result<()> {
    let nothing = matches!(array.stream, abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN);
    if array.stream == 0 {
        return fail!(
            CAI_ERR_STREAM_ZERO,
            "stream",
            found = "0",
            expected = "CAI_STREAM_NONE if no work is pending, else 1 (legacy default), 2 \
             (per-thread default) or a CUstream"
        );
    }
    if array.version < 3 && !nothing {
        return fail!(
            CAI_ERR_STREAM_VERSION,
            "stream",
            found = ("{:#x} in version {}", array.stream, array.version),
            expected = "CAI_STREAM_UNKNOWN below version 3"
        );
    }
    if array.stream_id != 0 && nothing {
        return fail!(
            CAI_ERR_STREAM_ID,
            "stream_id",
            found = ("{}", array.stream_id),
            expected = "0, for stream names none"
        );
    }
    if !array.event.is_null() && array.stream == abi::CAI_STREAM_NONE {
        return fail!(
            CAI_ERR_EVENT,
            "event",
            found = ("{:p}", array.event),
            expected = "NULL, for stream is CAI_STREAM_NONE"
        );
    }
    if array.device.r#type == abi::CAI_DEVICE_CPU && !(nothing && array.event.is_null()) {
        return fail!(
            CAI_ERR_STREAM_DEVICE,
            "device.type",
            found = ("{}, with a stream or an event", Name(array.device.r#type)),
            expected = "a device, or CAI_STREAM_NONE: no driver orders host memory (page-locked \
             memory is CAI_DEVICE_CUDA_HOST)"
        );
    }
    Ok(())
}

/// Checks the fields of a structured type against the size in the typestr.
///
/// # Safety
/// `array.descr` is not NULL; as for [`array`].
unsafe fn fields(array: &cai_array, expected: i64) -> Result<()> {
    // SAFETY: not NULL, and readable (this function's contract).
    let descr = unsafe { Descr::new(array.descr) }
        .map_err(|failure| failure.within(format_args!("descr")))?;
    let bits =
        dtype::descr::bits(descr).map_err(|failure| failure.within(format_args!("descr")))?;
    if bits == expected {
        return Ok(());
    }
    let text = read::typestr(&array.typestr).unwrap_or_default().escape_ascii();
    if bits % 8 == 0 && expected % 8 == 0 {
        fail!(
            CAI_ERR_DESCR_SIZE,
            "descr",
            found = ("fields of {} bytes in all", bits / 8),
            expected =
                ("{} bytes as in typestr \"{text}\"; padding needs rows of its own", expected / 8)
        )
    } else {
        fail!(
            CAI_ERR_DESCR_SIZE,
            "descr",
            found = "fields of {bits} bits in all",
            expected = ("{} bits as in typestr \"{text}\"", expected)
        )
    }
}

/// Checks the address, or the offset, and the strides in use against the alignment of the element's
/// C type.
fn alignment(array: &cai_array, dtype: cai_dtype, layout: Layout) -> Result<()> {
    let alignment = dtype::alignment(&dtype);
    let (start, field) = if is_opaque(array.device.r#type) {
        (array.byte_offset, "byte_offset")
    } else {
        (array.data as u64, "data")
    };
    if start % alignment as u64 != 0 {
        return fail!(
            CAI_ERR_ALIGNMENT,
            "{field}",
            found = "{start:#x}",
            expected = "a multiple of {alignment}"
        );
    }
    for (index, (&extent, &stride)) in
        layout.shape.iter().zip(layout.strides.unwrap_or_default()).enumerate()
    {
        if extent > 1 && stride % alignment != 0 {
            return fail!(
                CAI_ERR_ALIGNMENT,
                "strides[{index}]",
                found = "{stride}",
                expected = "a multiple of {alignment}"
            );
        }
    }
    Ok(())
}

/// Returns true if two arrays may share bytes. Their spans are compared, so interleaved arrays
/// count as overlapping. `false` is certain for memory that has one address.
///
/// # Safety
/// As for [`array`], for both; both layouts must be sound.
pub unsafe fn may_overlap(a: &cai_array, b: &cai_array) -> Result<bool> {
    let ends = |array: &cai_array| -> Result<(u64, u64)> {
        // SAFETY: shape and strides of both arrays are readable (this function's contract).
        let described = unsafe { describe(array) }?;
        let count = layout::count(described.layout.shape)?;
        let span = described.layout.span()?;
        place(array, count, span)?;
        let start =
            if is_opaque(array.device.r#type) { array.byte_offset } else { array.data as u64 };
        // `place` has checked that neither wraps around.
        Ok((start.wrapping_add_signed(span.lower), start.wrapping_add_signed(span.upper)))
    };
    let (a_start, a_end) = ends(a).map_err(|failure| failure.within(format_args!("a.")))?;
    let (b_start, b_end) = ends(b).map_err(|failure| failure.within(format_args!("b.")))?;
    if a_start == a_end || b_start == b_end {
        return Ok(false);
    }
    let opaque = (is_opaque(a.device.r#type), is_opaque(b.device.r#type));
    let comparable = match opaque {
        (false, false) => true,
        // Two handles may be windows of one buffer. Offsets can be compared only within one handle.
        (true, true) => a.data == b.data,
        _ => false,
    };
    Ok(!comparable || (a_start < b_end && b_start < a_end))
}
