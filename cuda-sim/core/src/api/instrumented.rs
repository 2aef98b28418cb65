//! The functions of cudasim.h for instrumented code.

use crate::access::Access;
use crate::ffi;
use crate::instrumented;
use crate::sim::{EXITED, is_locked_here, lock};
use crate::work::INSIDE;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

/// The flag of a place whose accesses are recorded at once.
const AT_ONCE: u32 = 1 << 31;

pub extern "C" fn watch_host(flush: extern "C" fn()) -> *const u8 {
    instrumented::watch(flush)
}

pub extern "C" fn host_place(pc: usize) -> u32 {
    let gone = EXITED.load(Ordering::Acquire) || ffi::FORKED.load(Ordering::Relaxed);
    if gone || INSIDE.get() || is_locked_here() {
        return 0;
    }
    let Some(mut sim) = lock() else { return 0 };
    // Host threads are ordered by their calls: an access must not seem to be after another's.
    let at_once = if sim.config.threads_seen { 0 } else { AT_ONCE };
    let Some(checker) = &mut sim.checker else { return 0 };
    let place = checker.stacks.here_from(pc).number().wrapping_add(1) & !AT_ONCE;
    place | if place == 0 { 0 } else { at_once }
}

pub extern "C" fn host_access_at(address: u64, nbytes: usize, mode: u32, place: u32) {
    if INSIDE.get() {
        return;
    }
    ffi::note(|sim| {
        let Some(checker) = &mut sim.checker else { return };
        checker.place = (place & !AT_ONCE).checked_sub(1).and_then(|n| checker.stacks.numbered(n));
        let access = Access::range(address, nbytes as u64, mode);
        sim.check_host(&[access], Cow::Borrowed("the host"));
        sim.publish_host();
    });
}
