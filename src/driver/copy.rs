//! Copies to and from the host, on a stream of their own or on another one.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUmemorytype_enum as MemoryType, CUstream};

use crate::driver::load::Driver;
use crate::error::Result;

/// `CU_STREAM_NON_BLOCKING`: neither default stream waits for it, so no capture of another stream
/// is touched.
const NON_BLOCKING: u32 = 1;

/// The greatest pitch of a copy of rows: `CU_DEVICE_ATTRIBUTE_MAX_PITCH` of every device so far.
const MAX_PITCH: usize = i32::MAX as usize;

#[derive(Clone, Copy)]
pub struct Rows {
    pub width: usize,
    pub height: usize,
    /// Bytes from one row to the next on the device, at least `width`.
    pub pitch: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum To {
    Host,
    Device,
}

/// Copies between the device and the host, which are done after `finish`. Dropping it waits for
/// them as well: the host's memory may be freed then.
pub struct Copies<'a> {
    driver: &'a Driver,
    stream: CUstream,
    /// The stream is destroyed afterwards.
    is_own: bool,
    /// Dropping this waits.
    waits: bool,
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        // After a failure of the driver there is nothing left to wait for.
        if self.waits {
            let _ = self.driver.stream_synchronize(self.stream);
        }
        self.destroy();
    }
}

impl<'a> Copies<'a> {
    /// Begins copies from memory that the current context can access.
    pub fn begin(driver: &'a Driver) -> Result<Self> {
        let mut stream = ptr::null_mut();
        driver.stream_create(&raw mut stream, NON_BLOCKING).ok()?;
        Ok(Copies { driver, stream, is_own: true, waits: true })
    }

    /// Begins copies on a stream. A default stream is that of the current context. Dropping the
    /// result waits for the copies only if `waits` is true.
    pub fn on(driver: &'a Driver, stream: u64, waits: bool) -> Self {
        Copies { driver, stream: stream as CUstream, is_own: false, waits }
    }

    fn destroy(&self) {
        if self.is_own {
            let _ = self.driver.stream_destroy(self.stream);
        }
    }

    pub fn leave(self) {
        let copies = ManuallyDrop::new(self);
        copies.destroy();
    }

    /// Enqueues a copy of rows, which are adjacent at `host`. [cuMemcpy2DAsync]
    pub fn rows(&self, to: To, host: *mut c_void, device: u64, rows: Rows) -> Result<()> {
        let Rows { width, height, pitch } = rows;
        if height == 1 || pitch == width {
            return self.bytes(to, host, device, width * height);
        }
        if pitch > MAX_PITCH {
            for row in 0..height {
                let host = host.wrapping_byte_add(row * width);
                self.bytes(to, host, device + (row * pitch) as u64, width)?;
            }
            return Ok(());
        }
        let (on_device, on_host) =
            (MemoryType::CU_MEMORYTYPE_DEVICE, MemoryType::CU_MEMORYTYPE_HOST);
        let to_host = to == To::Host;
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: if to_host { on_device } else { on_host },
            srcHost: if to_host { ptr::null() } else { host },
            srcDevice: if to_host { device } else { 0 },
            srcArray: ptr::null_mut(),
            srcPitch: if to_host { pitch } else { width },
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: if to_host { on_host } else { on_device },
            dstHost: if to_host { host } else { ptr::null_mut() },
            dstDevice: if to_host { 0 } else { device },
            dstArray: ptr::null_mut(),
            dstPitch: if to_host { width } else { pitch },
            WidthInBytes: width,
            Height: height,
        };
        self.driver.copy_rows(&raw const copy, self.stream).ok()
    }

    /// Enqueues a copy. [cuMemcpyDtoHAsync, cuMemcpyHtoDAsync]
    fn bytes(&self, to: To, host: *mut c_void, device: u64, count: usize) -> Result<()> {
        match to {
            To::Host => self.driver.copy_to_host(host, device, count, self.stream).ok(),
            To::Device => self.driver.copy_to_device(device, host, count, self.stream).ok(),
        }
    }

    /// Blocks the host until the copies are done.
    pub fn finish(mut self) -> Result<()> {
        let done = self.driver.stream_synchronize(self.stream).ok();
        // If the call failed and not the copies, these are still pending: dropping waits again.
        self.waits = done.is_err();
        done
    }
}
