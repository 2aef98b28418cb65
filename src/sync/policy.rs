//! The synchronization policy: what users override per call, for the process, and in the
//! environment. Nothing is overridden by default, as the specification requires ("Design
//! Motivations" 3, "Interface Requirements").

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi;
use crate::environment::Variable;
use crate::error::{Result, Shown, fail};

/// The bits that can be set for the whole process.
pub(super) const BITS: u32 =
    abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_EXPORT_NONE | abi::CAI_SYNC_CONSERVATIVE;

const VARIABLE: &CStr = c"CAI_SYNC";

/// The process's bits, once they are read.
static POLICY: AtomicU32 = AtomicU32::new(UNREAD);
const UNREAD: u32 = u32::MAX;

#[inline(always)]
pub fn in_force(flags: u32) -> Result<u32> {
    if flags & abi::CAI_SYNC_THIS_CALL != 0 {
        return Ok(flags & BITS);
    }
    Ok((flags & BITS) | process()?)
}

/// As [`in_force`], if the process's bits were read.
#[inline(always)]
pub fn known(flags: u32) -> Option<u32> {
    let process = POLICY.load(Ordering::Relaxed);
    match flags & abi::CAI_SYNC_THIS_CALL != 0 {
        true => Some(flags & BITS),
        false => (process != UNREAD).then_some(flags & BITS | process),
    }
}

#[inline(always)]
pub fn process() -> Result<u32> {
    // Relaxed: the bits publish no other memory.
    match POLICY.load(Ordering::Relaxed) {
        UNREAD => read(),
        bits => Ok(bits),
    }
}

/// Sets the policy of the process. It takes precedence over the environment.
pub fn set(bits: u32) -> Result<()> {
    if bits & !BITS != 0 {
        return Err(super::bad_flags(bits, "policy", BITS));
    }
    POLICY.store(bits, Ordering::Relaxed);
    Ok(())
}

#[cold]
#[inline(never)]
fn read() -> Result<u32> {
    let mut bits = 0;
    let variable = Variable::read(VARIABLE);
    let text = variable.as_ref().map_or(c"", Variable::as_c_str).to_bytes();
    for word in text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        bits |= match word {
            b"" | b"1" => 0,
            b"0" => abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_EXPORT_NONE,
            b"ignore" => abi::CAI_SYNC_IGNORE,
            b"export-none" => abi::CAI_SYNC_EXPORT_NONE,
            b"conservative" => abi::CAI_SYNC_CONSERVATIVE,
            // A misspelt word must neither disable synchronization nor be ignored.
            _ => {
                return fail!(CAI_ERR_ENVIRONMENT, "CAI_SYNC";
                    found "\"{}\"", Shown(word);
                    expected "words out of 0, 1, ignore, export-none, conservative, with commas \
                        between them");
            }
        };
    }
    // A value that another thread has set in the meantime stays.
    match POLICY.compare_exchange(UNREAD, bits, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(bits),
        Err(set) => Ok(set),
    }
}
