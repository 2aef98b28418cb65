//! Checks of the memory and the stream of an array that need the driver.

use crate::abi::{self, cai_array};
use crate::device::{Name, may_be_cuda};
use crate::driver::{self, CUcontext, CallingThread, Capture, Stream};
use crate::error::{Result, fail};
use crate::layout::Span;

/// Checks `CAI_CHECK_DEVICE` for an array whose layout is sound.
pub fn memory(array: &cai_array, span: Span) -> Result<()> {
    if !may_be_cuda(array.device.r#type) || array.data.is_null() {
        return Ok(());
    }
    let thread = CallingThread::new(driver::driver()?);
    thread.relaxed(|| memory_on(&thread, array, span))
}

fn memory_on(thread: &CallingThread, array: &cai_array, span: Span) -> Result<()> {
    let stated = array.device;
    // With negative strides `data` is not the lowest address.
    let low = (array.data as u64).wrapping_add_signed(span.lower);
    let high = (array.data as u64).wrapping_add_signed(span.upper);
    let info = driver::attributes(thread, array.data)?;
    if info.device.r#type == abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_NOT_DEVICE_POINTER, "data";
            found "{:p}, which the CUDA driver does not know", array.data;
            expected "memory of the device, or page-locked, registered or managed memory");
    }
    let same_kind = stated.r#type == info.device.r#type
        || (stated.r#type == abi::CAI_DEVICE_CUDA && info.managed)
        || stated.r#type == abi::CAI_DEVICE_UNKNOWN;
    if !same_kind {
        return fail!(CAI_ERR_DEVICE_MISMATCH, "device.type";
            found "{}", Name(stated.r#type);
            expected "{}, the kind of memory at {:p}", Name(info.device.r#type), array.data);
    }
    if stated.r#type == abi::CAI_DEVICE_CUDA && !info.managed && stated.id != info.device.id {
        return fail!(CAI_ERR_DEVICE_MISMATCH, "device.id";
            found "{}", stated.id;
            expected "{}, where the memory at {:p} is", info.device.id, array.data);
    }
    if !info.mapped {
        return fail!(CAI_ERR_NOT_ACCESSIBLE, "data";
            found "{:p}, an address that was reserved", array.data;
            expected "one with memory behind it");
    }
    if !thread.current()?.is_null() {
        driver::device_pointer(thread, array.data)
            .map_err(|failure| failure.at(format_args!("data")))?;
    }
    if info.size > 0 && !driver::is_inside(thread, &info, low, high)? {
        let base = info.base as u64;
        return fail!(CAI_ERR_OUT_OF_ALLOCATION, "data";
            found "bytes from {low:#x} up to {high:#x}";
            expected "bytes of the allocation from {base:#x} up to {:#x}",
                base.saturating_add(info.size));
    }
    Ok(())
}

/// Checks `CAI_CHECK_STREAM`.
pub fn stream(array: &cai_array) -> Result<()> {
    if matches!(array.stream, abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN) {
        return Ok(());
    }
    let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
    if array.stream <= abi::CAI_STREAM_PER_THREAD {
        let context =
            if array.context.is_null() { thread.some_current()? } else { array.context.cast() };
        let check = |context| {
            let stream = Stream::from_array(thread, array.stream, context, array.stream_id);
            match stream.capture(thread)? {
                Capture::None => stream.check_id(thread),
                _ => Ok(()),
            }
        };
        return match check(context) {
            // An id without a context may also be that of the stream in the memory's context.
            Err(failure) if array.context.is_null() && array.stream_id != 0 => {
                in_context_of_memory(thread, array, check).unwrap_or(Err(failure))
            }
            checked => checked,
        };
    }
    let stream = Stream::from_array(thread, array.stream, std::ptr::null_mut(), array.stream_id);
    // The id can be queried only outside of a capture. An answer shows that the stream is alive.
    if stream.capture(thread)? != Capture::None {
        return Ok(());
    }
    stream.check_id(thread)?;
    let context = stream.context(thread)?;
    if !array.context.is_null() && array.context != context.cast() {
        return fail!(CAI_ERR_STREAM_CONTEXT, "stream";
            found "a stream of context {context:p}";
            expected "a stream of context {:p}, as in the array", array.context);
    }
    Ok(())
}

/// Calls `check` with the context that the memory belongs to. `None` if it is not known.
fn in_context_of_memory(
    thread: &CallingThread,
    array: &cai_array,
    check: impl FnOnce(CUcontext) -> Result<()>,
) -> Option<Result<()>> {
    let home = driver::home(thread, array.data as u64).ok()?;
    if !home.context.is_null() {
        return Some(check(home.context));
    }
    let device = home.device?;
    let primary = thread.relaxed(|| thread.primary(device)).ok()?;
    let checked = check(primary);
    thread.release_primary(device);
    Some(checked)
}
