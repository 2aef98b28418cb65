//! Copies to the host, on a stream of their own or on another one.
//!
//! May use: `driver::load`, `error`.
//! Unsafe: none.

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

/// Rows of bytes.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Bytes in a row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Bytes from one row to the next in the source, at least `width`.
    pub pitch: usize,
}

/// Copies from the device, which are done after `finish`. Dropping it waits for them as well: the
/// memory that they write to may be freed then.
pub struct ToHost<'a> {
    driver: &'a Driver,
    stream: CUstream,
    /// The stream is destroyed afterwards.
    is_own: bool,
    /// Dropping this waits.
    waits: bool,
}

impl Drop for ToHost<'_> {
    fn drop(&mut self) {
        // After a failure of the driver there is nothing left to wait for.
        if self.waits {
            let _ = self.driver.stream_synchronize(self.stream);
        }
        self.destroy();
    }
}

impl<'a> ToHost<'a> {
    /// Begins copies from memory that the current context can access.
    pub fn begin(driver: &'a Driver) -> Result<Self> {
        let mut stream = ptr::null_mut();
        driver.stream_create(&raw mut stream, NON_BLOCKING).ok()?;
        Ok(ToHost { driver, stream, is_own: true, waits: true })
    }

    /// Begins copies on a stream. A default stream is that of the current context. Dropping the
    /// result waits for the copies only if `waits` is true.
    pub fn on(driver: &'a Driver, stream: u64, waits: bool) -> Self {
        ToHost { driver, stream: stream as CUstream, is_own: false, waits }
    }

    fn destroy(&self) {
        if self.is_own {
            let _ = self.driver.stream_destroy(self.stream);
        }
    }

    /// Leaves the copies to the stream.
    pub fn leave(self) {
        let copies = ManuallyDrop::new(self);
        copies.destroy();
    }

    /// Enqueues a copy of rows, which are adjacent at `to`. [cuMemcpy2DAsync]
    pub fn rows(&self, to: *mut c_void, from: u64, rows: Rows) -> Result<()> {
        let Rows { width, height, pitch } = rows;
        if height == 1 || pitch == width {
            return self.bytes(to, from, width * height);
        }
        if pitch > MAX_PITCH {
            for row in 0..height {
                let to = to.wrapping_byte_add(row * width);
                self.bytes(to, from + (row * pitch) as u64, width)?;
            }
            return Ok(());
        }
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
            srcHost: ptr::null(),
            srcDevice: from,
            srcArray: ptr::null_mut(),
            srcPitch: pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
            dstHost: to,
            dstDevice: 0,
            dstArray: ptr::null_mut(),
            dstPitch: width,
            WidthInBytes: width,
            Height: height,
        };
        self.driver.copy_rows(&raw const copy, self.stream).ok()
    }

    /// Enqueues a copy. [cuMemcpyDtoHAsync]
    fn bytes(&self, to: *mut c_void, from: u64, count: usize) -> Result<()> {
        self.driver.copy_to_host(to, from, count, self.stream).ok()
    }

    /// Blocks the host until the copies are done.
    pub fn finish(self) -> Result<()> {
        // Not dropped: that would wait once more.
        let copies = ManuallyDrop::new(self);
        let done = copies.driver.stream_synchronize(copies.stream).ok();
        copies.destroy();
        done
    }
}
