//! The context of an array's default stream.
//!
//! May use: `abi`, `driver`, `error`.
//! Unsafe: none.

use std::ptr;

use crate::abi::{self, cai_array};
use crate::driver::{self, CUcontext, CallingThread, Driver, Stream};
use crate::error::Result;

/// The context of an array, with a reference to it if it is a primary one.
pub struct ArrayContext {
    driver: &'static Driver,
    pub context: CUcontext,
    primary: Option<i32>,
}

impl Drop for ArrayContext {
    fn drop(&mut self) {
        if let Some(device) = self.primary {
            self.driver.release_primary(device);
        }
    }
}

impl ArrayContext {
    /// Returns the context that the array states, or else that of the memory. For memory that
    /// belongs to a device only, it is the device's primary context, in which that memory was made,
    /// or else the current one.
    pub fn of(thread: &CallingThread, array: &cai_array) -> Result<ArrayContext> {
        let driver = thread.driver();
        let found = |context| Ok(ArrayContext { driver, context, primary: None });
        if !array.context.is_null() {
            return found(array.context.cast());
        }
        // A device is all that HIP's memory belongs to.
        if array.device.r#type == abi::CAI_DEVICE_ROCM && array.device.id >= 0 {
            return ArrayContext::primary(driver, array.device.id);
        }
        if let Some(found) = ArrayContext::of_memory(thread, array)? {
            return Ok(found);
        }
        if array.device.r#type == abi::CAI_DEVICE_CUDA {
            return driver.relaxed(|| ArrayContext::primary(driver, array.device.id));
        }
        found(thread.some_current()?)
    }

    /// Returns the context that memory belongs to: for memory that belongs to a device only, the
    /// device's primary one. `None` if the driver does not know the memory.
    pub fn of_memory(thread: &CallingThread, array: &cai_array) -> Result<Option<ArrayContext>> {
        let driver = thread.driver();
        driver.relaxed(|| {
            let (context, device) = driver::owner_context(driver, array.data as u64)?;
            match device {
                _ if !context.is_null() => {
                    Ok(Some(ArrayContext { driver, context, primary: None }))
                }
                Some(device) => ArrayContext::primary(driver, device).map(Some),
                None => Ok(None),
            }
        })
    }

    fn primary(driver: &'static Driver, device: i32) -> Result<ArrayContext> {
        Ok(ArrayContext { driver, context: driver.primary(device)?, primary: Some(device) })
    }
}

/// Calls `body` with the stream of an array, in its context.
#[inline]
pub fn with_stream<T>(
    thread: &CallingThread,
    array: &cai_array,
    body: impl FnOnce(Stream) -> Result<T>,
) -> Result<T> {
    if array.stream > abi::CAI_STREAM_PER_THREAD {
        return body(Stream::from_array(thread, array.stream, ptr::null_mut(), array.stream_id));
    }
    let context = ArrayContext::of(thread, array)?;
    body(Stream::from_array(thread, array.stream, context.context, array.stream_id))
}
