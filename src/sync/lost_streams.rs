//! Streams whose work may wait for a process that has ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::abi::cai_stream;
use crate::error::{Result, fail};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LOST: Mutex<Vec<cai_stream>> = Mutex::new(Vec::new());

/// Lets every wait for this stream fail.
#[cfg(target_os = "linux")]
pub fn add(stream: cai_stream) {
    let mut all = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = crate::memory::push(&mut all, stream);
    COUNT.store(all.len(), Ordering::Relaxed);
}

/// Forgets a stream before it is destroyed.
#[cfg(target_os = "linux")]
pub fn remove(stream: cai_stream) {
    if !are_none() {
        let mut all = LOST.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| *other != stream);
        COUNT.store(all.len(), Ordering::Relaxed);
    }
}

#[inline(always)]
pub fn are_none() -> bool {
    COUNT.load(Ordering::Relaxed) == 0
}

/// Fails if a stream is lost.
#[inline(always)]
pub fn check(stream: cai_stream) -> Result<()> {
    if are_none() { Ok(()) } else { check_all(stream) }
}

#[cold]
#[inline(never)]
fn check_all(stream: cai_stream) -> Result<()> {
    if !LOST.lock().unwrap_or_else(PoisonError::into_inner).contains(&stream) {
        return Ok(());
    }
    fail!(CAI_ERR_IPC_PEER, "stream";
        found "an array of a process that has ended"; expected "a process that runs: release the array")
}
