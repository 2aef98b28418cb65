//! Events and memory that processes share, and their handles.
//!
//! May use: `memory`, `results`. Unsafe: maps shared pages and accesses them as atomics.
//!
//! A handle contains a process and one of its open files; another process opens it through /proc
//! while the first one lives. Nothing is left behind.

use crate::memory::{map_file, map_shared, size_of_file};
use crate::results::{Code, Result};
use std::ffi::CString;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event that several processes share: the number of its records, and the number of records that
/// were reached.
pub struct SharedEvent {
    page: u64,
    fd: RawFd,
}

impl SharedEvent {
    pub fn new() -> Result<SharedEvent> {
        let (page, fd) = map_shared(4096)?;
        Ok(SharedEvent { page, fd })
    }

    fn counters(&self) -> &[AtomicU64; 2] {
        // SAFETY: `new` and `open` map a whole page, which is aligned and stays mapped until this
        // object is dropped. All processes access it as atomics only.
        unsafe { &*(self.page as *const [AtomicU64; 2]) }
    }

    /// Announces a record and returns its number.
    pub fn record(&self) -> u64 {
        self.counters()[0].fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn reach(&self, number: u64) {
        self.counters()[1].fetch_max(number, Ordering::AcqRel);
    }

    pub fn newest(&self) -> u64 {
        self.counters()[0].load(Ordering::Acquire)
    }

    pub fn reached(&self, number: u64) -> bool {
        self.counters()[1].load(Ordering::Acquire) >= number
    }

    pub fn handle(&self) -> [u8; 64] {
        Handle {
            magic: EVENT,
            fd: self.fd,
            pid: std::process::id(),
            offset: 0,
            size: 4096,
            total: 4096,
        }
        .bytes()
    }

    pub fn open(handle: &[u8; 64]) -> Result<SharedEvent> {
        let (fd, _) = open(handle, EVENT)?;
        match map_file(fd, 0, 4096) {
            Ok(page) if size_of_file(fd) == Some(4096) => Ok(SharedEvent { page, fd }),
            result => {
                // SAFETY: `open` opened the file for this function; a page is mapped or not.
                unsafe {
                    if let Ok(page) = result {
                        libc::munmap(page as *mut _, 4096);
                    }
                    libc::close(fd);
                }
                Err(Code::INVALID_VALUE)
            }
        }
    }
}

impl Drop for SharedEvent {
    fn drop(&mut self) {
        // SAFETY: the page and the file belong to this object, which created them in `new` or
        // `open` and is not used afterwards.
        unsafe {
            libc::munmap(self.page as *mut _, 4096);
            libc::close(self.fd);
        }
    }
}

const EVENT: u64 = 0x6e65_7665_6d69_7363;
pub const MEMORY: u64 = 0x796d_656d_6d69_7363;

/// The content of the 64 bytes of an IPC handle.
#[derive(Clone, Copy)]
pub struct Handle {
    pub magic: u64,
    pub fd: RawFd,
    pub pid: u32,
    pub offset: u64,
    pub size: u64,
    /// Bytes of the whole file.
    pub total: u64,
}

impl Handle {
    pub fn bytes(&self) -> [u8; 64] {
        let words =
            [self.magic, self.fd as u64, u64::from(self.pid), self.offset, self.size, self.total];
        let mut bytes = [0; 64];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub fn parse(bytes: &[u8; 64], magic: u64) -> Result<Handle> {
        let word =
            |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap_or_default());
        let handle = Handle {
            magic: word(0),
            fd: word(1) as RawFd,
            pid: word(2) as u32,
            offset: word(3),
            size: word(4),
            total: word(5),
        };
        if handle.magic == magic { Ok(handle) } else { Err(Code::INVALID_VALUE) }
    }
}

/// Unmaps memory of another process.
///
/// # Safety
/// `base` and `size` are those of memory that was mapped from a handle; nothing uses it any more.
pub unsafe fn unmap(base: u64, size: u64) {
    // Files are mapped in whole pages; allocations may begin anywhere in a page.
    let page = base & !4095;
    // SAFETY: these pages were mapped for the memory alone (this function's contract).
    unsafe { libc::munmap(page as *mut _, (size + base - page) as usize) };
}

/// Opens the file that a handle names.
pub fn open(bytes: &[u8; 64], magic: u64) -> Result<(RawFd, Handle)> {
    let handle = Handle::parse(bytes, magic)?;
    let path = CString::new(format!("/proc/{}/fd/{}", handle.pid, handle.fd))
        .map_err(|_| Code::INVALID_VALUE)?;
    // SAFETY: `path` is NUL-terminated and outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(Code::MAP_FAILED);
    }
    // Pages behind the end of a file can be mapped, but not accessed.
    let end = handle.offset.checked_add(handle.size).filter(|_| handle.size > 0);
    if end.is_none_or(|end| size_of_file(fd).is_none_or(|size| end > size)) {
        // SAFETY: opened above, and not returned.
        unsafe { libc::close(fd) };
        return Err(Code::INVALID_VALUE);
    }
    Ok((fd, handle))
}
