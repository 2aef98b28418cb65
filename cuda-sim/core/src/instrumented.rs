//! Accesses of the host that its compiler reports (`-fsanitize=thread`, see `host/host.c`): where there
//! may be memory of the device, and what records the accesses that a thread has collected.

use std::mem::transmute;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The unit of addresses in the table, and the number of its bytes.
const UNIT: u32 = 16;
const UNITS: usize = 1 << 20;

/// Addresses share a byte: 0 means that there is no memory of the device at any of them.
static MEMORY: [AtomicU8; UNITS] = [const { AtomicU8::new(0) }; UNITS];

/// One of each module that contains instrumented code.
static FLUSHES: [AtomicUsize; 32] = [const { AtomicUsize::new(0) }; 32];

/// Adds what runs before each call. Returns the table.
pub fn watch(flush: extern "C" fn()) -> *const u8 {
    for slot in &FLUSHES {
        let flush = flush as usize;
        match slot.compare_exchange(0, flush, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return MEMORY.as_ptr().cast(),
            Err(other) if other == flush => return MEMORY.as_ptr().cast(),
            Err(_) => {}
        }
    }
    std::ptr::null()
}

/// Records that there is memory of the device at an address.
pub fn add(address: u64, size: u64) {
    let (first, last) = (address >> UNIT, address.saturating_add(size.max(1) - 1) >> UNIT);
    for unit in first..=last.min(first.saturating_add(UNITS as u64)) {
        MEMORY[unit as usize % UNITS].store(1, Ordering::Relaxed);
    }
}

/// Makes instrumented modules record what this thread has accessed since its last call. The caller
/// does not have the lock of the state.
pub fn flush() {
    for slot in &FLUSHES {
        let flush = slot.load(Ordering::Acquire);
        if flush == 0 {
            break;
        }
        // SAFETY: `watch` stored a function of this type. cudasim.h requires it to stay loaded.
        unsafe { transmute::<usize, extern "C" fn()>(flush)() };
    }
}
