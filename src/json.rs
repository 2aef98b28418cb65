//! The array interface as JSON text, which XGBoost's C functions take.
//!
//! The members are those of the dictionary. A reader of JSON gets no fields and no type beyond the
//! typestr, so arrays that need them are refused; so are foreign byte orders, which XGBoost reads
//! as native ones.

use std::fmt::{self, Write};

use crate::abi::{self, CAI_MAX_NDIM, cai_array};
use crate::device::{self, Name};
use crate::error::{Failure, Result, fail};
use crate::sync::{mark, outgoing};
use crate::validate::Valid;
use crate::{dtype, read};

/// An array whose every rule was checked, and the stream that its text states, if any.
pub struct Text<'a> {
    array: Valid<'a>,
    stream: Option<u64>,
}

impl<'a> Text<'a> {
    /// Joins the stream of an array into one that the reader can name.
    pub fn new(array: Valid<'a>) -> Result<Self> {
        check(&array)?;
        array
            .masks()
            .zip(1..)
            .try_for_each(|(mask, depth)| check(&mask).map_err(|failure| failure.in_mask(depth)))?;
        let is_cuda = device::may_be_cuda(array.device.r#type);
        // XGBoost takes a text with the member for one of device memory, even if it is null.
        let stream =
            if is_cuda { Some(outgoing::for_dictionary(array.unchecked())?) } else { None };
        // Not if the policy of the process is that no stream is stated.
        if is_cuda && (stream != Some(abi::CAI_STREAM_NONE) || array.stream == abi::CAI_STREAM_NONE)
        {
            mark::wait_for_masks(&array)?;
        }
        Ok(Text { array, stream })
    }

    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        object(out, &self.array, self.stream, &self.array)
    }
}

/// Fails for what the text cannot express, in an array or a mask.
fn check(array: &Valid) -> Result<()> {
    let r#type = array.device.r#type;
    if !device::may_be_cuda(r#type) && r#type != abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_CONVERT_DEVICE, "device.type";
            found "{}", Name(r#type); expected "a CUDA device or the host");
    }
    let dtype = array.dtype();
    if dtype::has_fields(array) || dtype.code != abi::CAI_DTYPE_NONE {
        return fail!(CAI_ERR_CONVERT_TYPE, "{}", if dtype.code == abi::CAI_DTYPE_NONE { "descr" } else { "dtype_code" };
            found "{}", dtype::code_name(dtype.code).unwrap_or("fields");
            expected "a type that the typestr alone describes");
    }
    array.byte_order()
}

fn typestr(array: &cai_array) -> &str {
    std::str::from_utf8(read::typestr(&array.typestr).unwrap_or_default()).unwrap_or_default()
}

/// Writes one object, with the object of its mask inside. `stream` is that of `outermost`, the
/// array whose mask, or mask of a mask, this is.
fn object(
    out: &mut dyn Write,
    array: &Valid,
    stream: Option<u64>,
    outermost: &Valid,
) -> Result<()> {
    let layout = array.layout();
    let readonly = array.flags & abi::CAI_ARRAY_READONLY != 0;
    text(write!(out, "{{\"data\": [{}, {readonly}], \"shape\": ", array.data as usize))?;
    list(out, layout.shape)?;
    text(out.write_str(", \"strides\": "))?;
    if layout.is_packed_bits() || layout.is_c_contiguous() {
        text(out.write_str("null"))?;
    } else {
        let mut steps = [0; CAI_MAX_NDIM as usize];
        let steps = steps.get_mut(..layout.shape.len()).ok_or_else(Failure::internal)?;
        layout.write_strides(steps)?;
        list(out, steps)?;
    }
    // The stream of an array that does not state one is a matter of version 2.
    let version = if stream == Some(abi::CAI_STREAM_UNKNOWN) { 2 } else { 3 };
    text(write!(out, ", \"typestr\": \"{}\", \"version\": {version}", typestr(array)))?;
    match stream {
        Some(abi::CAI_STREAM_NONE) => text(out.write_str(", \"stream\": null"))?,
        Some(stream) if version == 3 => text(write!(out, ", \"stream\": {stream}"))?,
        _ => {}
    }
    if let Some(mask) = array.mask() {
        text(out.write_str(", \"mask\": "))?;
        // Nothing is pending on other masks, because they were waited for.
        let stream = match stream {
            Some(stream) if stream != abi::CAI_STREAM_NONE => {
                mark::has_work_of(&mask, outermost)?.then_some(stream)
            }
            _ => None,
        };
        object(out, &mask, stream, outermost)?;
    }
    text(out.write_char('}'))
}

fn list(out: &mut dyn Write, values: &[i64]) -> Result<()> {
    text(out.write_char('['))?;
    for (index, value) in values.iter().enumerate() {
        text(write!(out, "{}{value}", if index == 0 { "" } else { ", " }))?;
    }
    text(out.write_char(']'))
}

/// Writers here are buffers that never fail.
fn text(result: fmt::Result) -> Result<()> {
    result.map_err(|_| Failure::internal())
}
