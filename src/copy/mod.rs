//! Copies of arrays to and from host memory, in C order, and bytes for others who copy.

pub mod bytes;
mod plan;
mod transfer;

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, cai_array, cai_device, cai_stream};
use crate::driver::{self, To};
use crate::error::{Result, fail};
use crate::owner::{self, Array, Destructor, description};
use crate::read::Unchecked;
use crate::validate::Valid;
use plan::Plan;
use transfer::{Host, Transfer, allocate, data_of};

/// The description of a copy in host memory, without an owner.
fn copy_of(array: &cai_array, data: *mut c_void) -> cai_array {
    cai_array {
        flags: 0,
        owner: ptr::null_mut(),
        data: if array.data.is_null() { ptr::null_mut() } else { data },
        strides: ptr::null(),
        stream: abi::CAI_STREAM_NONE,
        stream_id: 0,
        event: ptr::null_mut(),
        context: ptr::null_mut(),
        device: cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 },
        byte_offset: 0,
        version: abi::CAI_INTERFACE_VERSION,
        ..*array
    }
}

/// A copy of an array in host memory, whose data is not written yet.
pub struct HostCopy {
    array: Array,
}

impl HostCopy {
    pub fn new(array: &Valid) -> Result<Self> {
        let mut block = allocate(Plan::new(&array.layout())?.bytes)?;
        let data = data_of(&mut block);
        let owner = owner::prepare()?.finish(None, Destructor::drops_extended(block)).owner;
        Ok(HostCopy { array: Array::new(copy_of(array, data.cast()), owner) })
    }

    /// The array, with an owner of its own and the shape of the original. A mask stays that of the
    /// original: it is not copied.
    pub fn array(&self) -> &cai_array {
        &self.array
    }

    /// Waits for the work that is pending on the original, and copies its data. Blocks the host.
    ///
    /// # Safety
    /// `from` is the array that this was made for, and its data is alive; `device_type` is the type
    /// of its device.
    pub unsafe fn fill(&self, from: &Valid, device_type: i32) -> Result<()> {
        let host = Host {
            to: To::Host,
            memory: self.array.data.cast(),
            stream: abi::CAI_STREAM_NONE,
            flags: 0,
            may_return: false,
        };
        let plan = &Plan::new(&from.layout())?;
        // SAFETY: `new` allocated as many bytes as the plan copies; the rest is this function's
        // contract.
        let transfer = unsafe { Transfer::new(plan, from, device_type, host) };
        transfer.run().map_err(|failure| match failure.status() {
            abi::CAI_ERR_CONVERT_DEVICE => failure.at(format_args!("dl_device")),
            _ => failure,
        })?;
        Ok(())
    }
}

/// Refuses an array with a mask.
fn without_mask(array: &cai_array) -> Result<()> {
    if !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "mask";
            found "a mask";
            expected "an array without a mask: copy the mask as an array of its own");
    }
    Ok(())
}

/// Refuses what neither direction copies: an array with a mask, and what is not a stream.
fn check(array: &cai_array, stream: cai_stream) -> Result<()> {
    without_mask(array)?;
    if stream == 0 {
        return fail!(CAI_ERR_STREAM_ZERO, "stream";
            found "0"; expected "CAI_STREAM_NONE, or the stream to copy on: 1, 2 or a CUstream");
    }
    if stream == abi::CAI_STREAM_UNKNOWN {
        return fail!(CAI_ERR_ARGUMENT, "stream";
            found "CAI_STREAM_UNKNOWN";
            expected "CAI_STREAM_NONE, or the stream to copy on: 1, 2 or a CUstream");
    }
    Ok(())
}

fn large_enough(size: usize, plan: &Plan) -> Result<()> {
    if size < plan.bytes {
        return fail!(CAI_ERR_BUFFER_SIZE, "size";
            found "{size}"; expected "at least {}", plan.bytes);
    }
    Ok(())
}

/// Copies an array to the caller's buffer, or to a new one if `buffer` is NULL. Returns an array
/// with an owner, and with the stream that the copies are pending on, if they are.
///
/// # Safety
/// The array's data is alive; `buffer` is NULL or has `size` writable bytes.
pub unsafe fn to_host(
    array: &Valid,
    stream: cai_stream,
    flags: u32,
    buffer: *mut c_void,
    size: usize,
) -> Result<Array> {
    check(array, stream)?;
    let plan = &Plan::new(&array.layout())?;
    if !buffer.is_null() {
        large_enough(size, plan)?;
    }
    let device_type = type_of(array)?;
    let mut memory = if buffer.is_null() { Some(allocate(plan.bytes)?) } else { None };
    let data = memory.as_mut().map_or(buffer, |block| data_of(block).cast());
    // The owner is made first, so that a failure copies nothing.
    let copy = copy_of(array, data);
    // SAFETY: shape and fields are those of a validated array; owner, strides and mask are NULL.
    let prepared = description::prepare(unsafe { Unchecked::new(&copy) })?;
    let mut copy = prepared.finish(memory.map_or(Destructor::NONE, Destructor::drops_extended));
    let host =
        Host { to: To::Host, memory: data.cast(), stream, flags, may_return: !buffer.is_null() };
    // SAFETY: the data is alive, and `data` has space (this function's contract, or allocated
    // above).
    let transfer = unsafe { Transfer::new(plan, array, device_type, host) };
    if let Some((context, id)) = transfer.run()? {
        copy.change(|copy| {
            copy.device.r#type = abi::CAI_DEVICE_CUDA_HOST;
            copy.stream = stream;
            copy.stream_id = id;
            copy.context = context.cast();
        });
    }
    Ok(copy)
}

/// Returns the type of an array's device; the driver knows that of an unknown one.
fn type_of(array: &cai_array) -> Result<i32> {
    if array.device.r#type != abi::CAI_DEVICE_UNKNOWN || array.data.is_null() {
        return Ok(array.device.r#type);
    }
    Ok(driver::location(driver::driver()?, array.data)?.0.r#type)
}

/// Copies the caller's buffer, in C order, to an array. Returns before the copies are done only if
/// they can be left to the stream.
///
/// # Safety
/// The array's data is alive; `size` bytes at `buffer` are readable. It is NULL only if `size` is 0.
pub unsafe fn from_host(
    array: &Valid,
    stream: cai_stream,
    flags: u32,
    buffer: *const c_void,
    size: usize,
) -> Result<()> {
    check(array, stream)?;
    let plan = &Plan::new(&array.layout())?;
    if array.flags & abi::CAI_ARRAY_READONLY != 0 {
        return fail!(CAI_ERR_READONLY, "flags";
            found "CAI_ARRAY_READONLY"; expected "a writable array");
    }
    if plan.repeats {
        return fail!(CAI_ERR_ARGUMENT, "strides";
            found "elements that share bytes";
            expected "bytes of its own for each element that is written");
    }
    large_enough(size, plan)?;
    let device_type = type_of(array)?;
    let memory = buffer.cast_mut().cast();
    let host = Host { to: To::Device, memory, stream, flags, may_return: true };
    // SAFETY: the buffer has `plan.bytes` readable bytes: `size` was checked above. The rest is
    // this function's contract.
    unsafe { Transfer::new(plan, array, device_type, host) }.run()?;
    Ok(())
}
