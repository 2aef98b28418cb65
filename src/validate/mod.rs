//! The rules of the array, one status each.
//!
//! Reads the structure, shape, strides, fields and masks. Never reads the data, and allocates
//! nothing for arrays without fields. Each rule stands here once, in the order in which the rules
//! are tried; those of masks are in [`masks`], those that need the driver in [`device`].
//! [`common`] only accepts: it saves nearly all arrays the way through the rules.

mod common;
mod device;
mod masks;
#[cfg(test)]
mod tests;
mod valid;

use crate::abi::{self, cai_array, cai_device, cai_dtype};
use crate::device::{LAST, Name, is_opaque, is_type, may_have_id};
use crate::dtype;
use crate::error::{Count, Result, Text, fail};
use crate::layout::{self, Bytes, Layout};
use crate::read::Given;
use crate::read::{self, Unchecked};

use common::{common_bits, common_layout, is_common};

pub use masks::mask_device;
pub use valid::Valid;

/// Statuses of the rules in the order in which they are tried. The manual of `cai_array_validate` is
/// made from this list (tools/headers), and a test breaks two rules at once to see which one is
/// reported. A name that ends in `_` stands for all that begin with it; other words are those of the
/// manual.
#[cfg(test)]
#[rustfmt::skip]
const ORDER: &[&str] = &[
    "CAI_ERR_STRUCT_SIZE", "CAI_ERR_FLAGS", "CAI_ERR_TYPESTR_", "CAI_ERR_DTYPE_CODE",
    "CAI_ERR_NDIM", "CAI_ERR_SHAPE_NULL", "CAI_ERR_SHAPE_NEGATIVE", "CAI_ERR_ITEMSIZE",
    "CAI_ERR_BIT_STRIDES", "CAI_ERR_SIZE_OVERFLOW", "CAI_ERR_SPAN_OVERFLOW", "CAI_ERR_DEVICE_TYPE",
    "CAI_ERR_DEVICE_ID", "CAI_ERR_DATA_NULL", "CAI_ERR_DATA_NOT_NULL", "CAI_ERR_BYTE_OFFSET",
    "CAI_ERR_ADDRESS_RANGE", "CAI_ERR_STREAM_ZERO", "CAI_ERR_STREAM_VERSION", "CAI_ERR_STREAM_ID",
    "CAI_ERR_EVENT", "CAI_ERR_STREAM_DEVICE", "CAI_ERR_DESCR_",
    "with CAI_CHECK_NATIVE", "CAI_ERR_CONVERT_BYTE_ORDER",
    "with CAI_CHECK_ALIGNMENT", "CAI_ERR_ALIGNMENT",
    "with CAI_CHECK_DEVICE", "CAI_ERR_NOT_DEVICE_POINTER", "CAI_ERR_DEVICE_MISMATCH",
    "CAI_ERR_NOT_ACCESSIBLE", "CAI_ERR_OUT_OF_ALLOCATION",
    "with CAI_CHECK_STREAM", "CAI_ERR_STREAM_HANDLE", "CAI_ERR_STREAM_DETACHED",
    "CAI_ERR_STREAM_STALE", "CAI_ERR_STREAM_THREAD", "CAI_ERR_STREAM_CONTEXT", "CAI_ERR_NO_CONTEXT",
    "CAI_ERR_CAPTURE_LEGACY",
    "for each mask", "CAI_ERR_MASK_VERSION", "CAI_ERR_MASK_CYCLE", "CAI_ERR_MASK_DEPTH",
    "a status of the mask itself", "CAI_ERR_MASK_TYPE", "CAI_ERR_MASK_SHAPE", "CAI_ERR_MASK_DEVICE",
];

/// Type and layout of an array.
#[derive(Clone, Copy)]
pub struct Described<'a> {
    /// Element type.
    pub dtype: cai_dtype,
    /// Shape, strides and size of elements.
    pub layout: Layout<'a>,
}

impl<'a> Described<'a> {
    /// Checks the type and the layout of an array, as far as the functions of `dtype` and `layout`
    /// require.
    pub fn new(array: Unchecked<'_, 'a>) -> Result<Self> {
        let dtype = dtype::of_array(&array)?;
        let (shape, strides) = array.dimensions()?;
        layout::check_shape(shape)?;
        if dtype.bits == 0 {
            return fail!(CAI_ERR_ITEMSIZE, "typestr";
                found "elements of 0 bytes"; expected "at least 1 byte");
        }
        let layout = Layout { shape, strides, bits: dtype.bits };
        if layout.is_packed_bits() && strides.is_some() {
            return fail!(CAI_ERR_BIT_STRIDES, "strides";
                found "strides for elements of {}", Count(dtype.bits, "bit");
                expected "NULL: bit fields are packed in C order");
        }
        Ok(Described { dtype, layout })
    }
}
/// Checks an array and its masks.
///
/// # Safety
/// As for [`Given::new`].
#[inline]
pub unsafe fn array(array: *const cai_array, checks: u32) -> Result<()> {
    // SAFETY: this function requires what `Given::new` does.
    unsafe { Given::new(array) }.validate(checks)
}

/// Checks the layout of an array without fields and without a mask, whose members besides type,
/// shape, strides and address are known to be sound.
///
/// # Safety
/// `shape`, and `strides` unless NULL, refer to `ndim` values. The owner is NULL or alive.
#[inline(always)]
pub unsafe fn described_layout(array: &cai_array) -> Result<()> {
    debug_assert!(array.descr.is_null() && array.mask.is_null());
    // SAFETY: there are shape and strides of so many values and perhaps an owner (this function's
    // contract), and nothing else.
    let local = unsafe { Unchecked::new(array) };
    if common_layout(local, array.data as u64).is_some() {
        return Ok(());
    }
    check(array, local, abi::CAI_CHECK_LAYOUT)
}

/// Checks an array, whose structure is at `address`, and its masks.
fn check(address: *const cai_array, array: Unchecked, checks: u32) -> Result<()> {
    if checks & !abi::CAI_CHECK_LAYOUT == 0 && is_common(array) {
        return Ok(());
    }
    without_mask(array, checks)?;
    if array.mask.is_null() {
        Ok(())
    } else {
        masks::check(address, array, checks, |of, to| of.mask(to))
    }
}

/// Checks one array without its mask.
fn without_mask(array: Unchecked, checks: u32) -> Result<()> {
    match common_bits(array) {
        Some(bits) if checks & !(abi::CAI_CHECK_LAYOUT | abi::CAI_CHECK_NATIVE) == 0 => {
            if !array.descr.is_null() {
                fields(array, bits)?;
            }
            if checks & abi::CAI_CHECK_NATIVE != 0 {
                byte_order(array, &dtype::of_array(&array)?)?;
            }
            Ok(())
        }
        _ => rules(array, checks),
    }
}

/// Every rule of one array without its mask.
fn rules(array: Unchecked, checks: u32) -> Result<()> {
    let (described, bytes) = located(array)?;
    stream(&array)?;
    fields(array, described.dtype.bits)?;
    if checks & abi::CAI_CHECK_NATIVE != 0 {
        byte_order(array, &described.dtype)?;
    }
    if checks & abi::CAI_CHECK_ALIGNMENT != 0 && bytes.all > 0 {
        alignment(&array, described)?;
    }
    if checks & abi::CAI_CHECK_DEVICE != 0 {
        device::memory(&array, bytes.span)?;
    }
    if checks & abi::CAI_CHECK_STREAM != 0 {
        device::stream(&array)?;
    }
    Ok(())
}

/// Checks the type, the layout and the place of an array.
fn located<'a>(array: Unchecked<'_, 'a>) -> Result<(Described<'a>, Bytes)> {
    let described = Described::new(array)?;
    let bytes = described.layout.bytes()?;
    place(&array, described.layout.shape, bytes)?;
    Ok((described, bytes))
}

/// Returns the address of the element at index zero, or its offset behind a handle, and the name of
/// that member.
fn start(array: &cai_array) -> (u64, &'static str) {
    if is_opaque(array.device.r#type) {
        (array.byte_offset, "byte_offset")
    } else {
        (array.data as u64, "data")
    }
}

/// Checks device, address and offset against the bytes of the array.
fn place(array: &cai_array, shape: &[i64], bytes: Bytes) -> Result<()> {
    let device = array.device;
    if !is_type(device.r#type) {
        return fail!(CAI_ERR_DEVICE_TYPE, "device.type";
            found "{}", device.r#type;
            expected "0 (not known) or a device type of DLPack, 1 to {LAST}");
    }
    if device.id < 0 && !may_have_id(device) {
        let or_unknown = match may_have_id(cai_device { id: -1, ..device }) {
            true => ", or -1 if it is not known",
            false => "",
        };
        return fail!(CAI_ERR_DEVICE_ID, "device.id";
            found "{}", device.id; expected "at least 0{or_unknown}");
    }
    if bytes.all > 0 && array.data.is_null() {
        return fail!(CAI_ERR_DATA_NULL, "data";
            found "NULL";
            expected "an address, because the array has {}", Count(layout::count(shape)?, "element"));
    }
    if bytes.all == 0 && !array.data.is_null() {
        return fail!(CAI_ERR_DATA_NOT_NULL, "data";
            found "{:p}", array.data; expected "NULL, because the array has no elements");
    }
    let is_handle = is_opaque(device.r#type) && !array.data.is_null();
    if array.byte_offset != 0 && !is_handle {
        let reason: Text<48> = if array.data.is_null() {
            Text::new(format_args!("NULL"))
        } else {
            Text::new(format_args!("an address on device {}", Name(device.r#type)))
        };
        return fail!(CAI_ERR_BYTE_OFFSET, "byte_offset";
            found "{}", array.byte_offset; expected "0, for data is {reason}");
    }
    let (start, field) = start(array);
    if bytes.span.fits(start) {
        return Ok(());
    }
    let (down, up) = (bytes.span.lower.unsigned_abs(), bytes.span.upper);
    if start < down {
        return fail!(CAI_ERR_ADDRESS_RANGE, "{field}";
            found "{start:#x}, from which the strides reach {} down", Count(down, "byte");
            expected "at least {down:#x}");
    }
    fail!(CAI_ERR_ADDRESS_RANGE, "{field}";
        found "{start:#x}, from which the array reaches {} up", Count(up, "byte");
        expected "an end below 2^64")
}

/// Checks the stream and the fields that belong to it.
fn stream(array: &cai_array) -> Result<()> {
    let nothing = matches!(array.stream, abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN);
    // 0 has another meaning in CUDA, DLPack and Python each. It is what CAI_ARRAY_INIT leaves: with
    // CAI_STREAM_NONE there, a forgotten stream would be a silent race.
    if array.stream == 0 {
        return fail!(CAI_ERR_STREAM_ZERO, "stream";
            found "0";
            expected "CAI_STREAM_NONE if no work is pending, else 1 (legacy default), 2 \
                (per-thread default) or a CUstream");
    }
    if array.version < 3 && !nothing {
        return fail!(CAI_ERR_STREAM_VERSION, "stream";
            found "{:#x} in version {}", array.stream, array.version;
            expected "CAI_STREAM_UNKNOWN below version 3");
    }
    if array.stream_id != 0 && nothing {
        return fail!(CAI_ERR_STREAM_ID, "stream_id";
            found "{}", array.stream_id; expected "0, for stream names none");
    }
    if !array.event.is_null() && array.stream == abi::CAI_STREAM_NONE {
        return fail!(CAI_ERR_EVENT, "event";
            found "{:p}", array.event; expected "NULL, for stream is CAI_STREAM_NONE");
    }
    if array.device.r#type == abi::CAI_DEVICE_CPU && !(nothing && array.event.is_null()) {
        return fail!(CAI_ERR_STREAM_DEVICE, "device.type";
            found "{}, with a stream or an event", Name(array.device.r#type);
            expected "a device, or CAI_STREAM_NONE: no driver orders host memory (page-locked \
                memory is CAI_DEVICE_CUDA_HOST)");
    }
    Ok(())
}

/// Checks the fields of a structured type against the size in the typestr.
fn fields(array: Unchecked, expected: i64) -> Result<()> {
    let Some(fields) = array.fields().map_err(|failure| failure.within(format_args!("descr")))?
    else {
        return Ok(());
    };
    let bits =
        dtype::descr::bits(fields).map_err(|failure| failure.within(format_args!("descr")))?;
    if bits == expected {
        return Ok(());
    }
    let text = read::typestr(&array.typestr).unwrap_or_default().escape_ascii();
    if bits % 8 == 0 && expected % 8 == 0 {
        fail!(CAI_ERR_DESCR_SIZE, "descr";
            found "fields of {} in all", Count(bits / 8, "byte");
            expected "{} as in typestr \"{text}\"; padding needs rows of its own",
                Count(expected / 8, "byte"))
    } else {
        fail!(CAI_ERR_DESCR_SIZE, "descr";
            found "fields of {} in all", Count(bits, "bit");
            expected "{} as in typestr \"{text}\"", Count(expected, "bit"))
    }
}

/// Checks the byte order of the elements of this type: for kind `V` without a code, of all fields,
/// which were checked.
fn byte_order(array: Unchecked, dtype: &cai_dtype) -> Result<()> {
    match array.fields()? {
        Some(fields) if dtype::has_fields(&array) => dtype::descr::byte_order(fields)
            .map_err(|failure| failure.within(format_args!("descr"))),
        _ => dtype::byte_order(dtype, &array.typestr),
    }
}

/// Checks the address, or the offset, and the strides in use against the alignment of the element's
/// C type.
fn alignment(array: &cai_array, Described { dtype, layout }: Described) -> Result<()> {
    let alignment = dtype::alignment(&dtype);
    let (start, field) = start(array);
    if start % alignment as u64 != 0 {
        return fail!(CAI_ERR_ALIGNMENT, "{field}";
            found "{start:#x}"; expected "a multiple of {alignment}");
    }
    for (index, (&extent, &stride)) in
        layout.shape.iter().zip(layout.strides.unwrap_or_default()).enumerate()
    {
        if extent > 1 && stride % alignment != 0 {
            return fail!(CAI_ERR_ALIGNMENT, "strides[{index}]";
                found "{stride}"; expected "a multiple of {alignment}");
        }
    }
    Ok(())
}

/// Returns true if two arrays may share bytes. Their spans are compared, so interleaved arrays
/// count as overlapping. `false` is certain for memory that has one address.
pub fn may_overlap(a: Unchecked, b: Unchecked) -> Result<bool> {
    let ends = |array: Unchecked| -> Result<(u64, u64)> {
        let (_, Bytes { span, .. }) = located(array)?;
        let (start, _) = start(&array);
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
