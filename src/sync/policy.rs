//! What users override: per call, for the process, and in the environment. Off by default, as the
//! specification demands ("Design Motivations" 3, "Interface Requirements").

use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi;
use crate::error::{Result, fail};

/// The bits that can be set for the whole process.
pub(super) const BITS: u32 =
    abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_EXPORT_NONE | abi::CAI_SYNC_CONSERVATIVE;

const VARIABLE: &str = "CAI_SYNC";

/// The process's bits, once they are known.
static POLICY: AtomicU32 = AtomicU32::new(UNREAD);
const UNREAD: u32 = u32::MAX;

/// What counts in one call whose flags are given.
#[inline]
pub fn in_force(flags: u32) -> Result<u32> {
    if flags & abi::CAI_SYNC_THIS_CALL != 0 {
        return Ok(flags & BITS);
    }
    Ok((flags & BITS) | process()?)
}

/// What is set for the process.
#[inline]
pub fn process() -> Result<u32> {
    // Relaxed: the bits stand for themselves.
    match POLICY.load(Ordering::Relaxed) {
        UNREAD => read(),
        bits => Ok(bits),
    }
}

/// Sets it, over what the environment says.
pub fn set(bits: u32) -> Result<()> {
    if bits & !BITS != 0 {
        return fail!(
            CAI_ERR_ARGUMENT,
            "policy",
            found = "{bits:#x}",
            expected = "bits of {BITS:#x} only"
        );
    }
    POLICY.store(bits, Ordering::Relaxed);
    Ok(())
}

#[cold]
fn read() -> Result<u32> {
    let mut bits = 0;
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    for word in text.to_string_lossy().split(',').map(str::trim) {
        bits |= match word {
            "" | "1" => 0,
            "0" => abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_EXPORT_NONE,
            "ignore" => abi::CAI_SYNC_IGNORE,
            "export-none" => abi::CAI_SYNC_EXPORT_NONE,
            "conservative" => abi::CAI_SYNC_CONSERVATIVE,
            // A misspelt word must neither switch synchronization off nor be overlooked.
            _ => {
                return fail!(
                    CAI_ERR_ENVIRONMENT,
                    "{VARIABLE}",
                    found = "\"{word}\"",
                    expected = "words out of 0, 1, ignore, export-none, conservative, with commas between them"
                );
            }
        };
    }
    // Whoever set it in the meantime wins.
    match POLICY.compare_exchange(UNREAD, bits, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(bits),
        Err(set) => Ok(set),
    }
}
