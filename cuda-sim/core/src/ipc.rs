//! Events and memory that processes share, and their handles.
//!
//! A handle contains a process and one of its open files; another process opens it through /proc
//! while the first one lives. Nothing is left behind.

use crate::memory::size_of_file;
use crate::processes::{Count, SharedClock, open_file};
use crate::results::{Code, Result};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// An event that several processes share: the number of its records, the number of records that
/// were reached, and the clock of the newest record.
pub struct SharedEvent(SharedClock);

impl SharedEvent {
    pub fn new() -> Result<SharedEvent> {
        SharedClock::new().map(SharedEvent)
    }

    /// Announces a record, which happens after `known`, and returns its number.
    pub fn record(&self, known: &[Count]) -> u64 {
        self.0.set(known, || self.0.counter(0).fetch_add(1, Ordering::AcqRel) + 1)
    }

    pub fn reach(&self, number: u64) {
        self.0.counter(1).fetch_max(number, Ordering::AcqRel);
    }

    pub fn newest(&self) -> u64 {
        self.0.counter(0).load(Ordering::Acquire)
    }

    /// Returns what happens before the newest record.
    pub fn known(&self) -> Vec<Count> {
        self.0.counts()
    }

    pub fn reached(&self, number: u64) -> bool {
        self.0.counter(1).load(Ordering::Acquire) >= number
    }

    pub fn handle(&self) -> [u8; 64] {
        let (fd, pid) = (self.0.file(), std::process::id());
        Handle { magic: EVENT, fd, pid, history: -1, ..Handle::default() }.bytes()
    }

    pub fn open(handle: &[u8; 64]) -> Result<SharedEvent> {
        let handle = Handle::parse(handle, EVENT)?;
        SharedClock::open(handle.pid, handle.fd).map(SharedEvent)
    }
}

const EVENT: u64 = 0x6e65_7665_6d69_7363;
pub const MEMORY: u64 = 0x796d_656d_6d69_7363;

/// The content of the 64 bytes of an IPC handle.
#[derive(Clone, Copy, Default)]
pub struct Handle {
    pub magic: u64,
    pub fd: RawFd,
    pub pid: u32,
    pub offset: u64,
    pub size: u64,
    /// Bytes of the whole file.
    pub total: u64,
    /// The file of the history of the memory; -1 for none.
    pub history: RawFd,
}

impl Handle {
    pub fn bytes(&self) -> [u8; 64] {
        let words = [
            self.magic,
            self.fd as u64,
            u64::from(self.pid),
            self.offset,
            self.size,
            self.total,
            self.history as u64,
        ];
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
            history: word(6) as RawFd,
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

pub fn open(bytes: &[u8; 64], magic: u64) -> Result<(RawFd, Handle)> {
    let handle = Handle::parse(bytes, magic)?;
    let fd = open_file(handle.pid, handle.fd)?;
    // Pages behind the end of a file can be mapped, but not accessed.
    let end = handle.offset.checked_add(handle.size).filter(|_| handle.size > 0);
    if end.is_none_or(|end| size_of_file(fd).is_none_or(|size| end > size)) {
        // SAFETY: opened above, and not returned.
        unsafe { libc::close(fd) };
        return Err(Code::INVALID_VALUE);
    }
    Ok((fd, handle))
}
