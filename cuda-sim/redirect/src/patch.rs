//! Memory near a module, and jumps that are written into its code.
//!
//! A function's entry gets a jump of a few bytes to a stub near the module, which loads the address
//! of a slot into a scratch register and jumps to the address in the slot.

use crate::elf::mappings;
use libc::c_void;
use std::sync::atomic::AtomicUsize;

/// The bytes that a jump takes.
pub const JUMP: usize = if cfg!(target_arch = "aarch64") { 4 } else { 5 };
/// Reach of a jump, with a reserve for the size of the stubs.
const REACH: usize = if cfg!(target_arch = "aarch64") { 127 << 20 } else { 2047 << 20 };
const STUB: usize = if cfg!(target_arch = "aarch64") { 24 } else { 16 };
/// Page sizes are at most this.
const PAGE: usize = 1 << 16;

/// Stubs for a module.
pub struct Stubs {
    start: usize,
    size: usize,
    used: usize,
}

fn page_size() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns addresses for a mapping of `size` bytes from which jumps reach all of `low` to `high`,
/// and the other way round, the nearest first.
fn candidates(low: usize, high: usize, size: usize) -> Vec<usize> {
    let Ok(mapped) = mappings() else { return Vec::new() };
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut previous = (PAGE, "");
    for (range, name) in &mapped {
        let gap = previous.0..range.start;
        if gap.len() >= size + 2 * PAGE {
            // Below the next mapping. A stack, which grows downwards, is above all modules.
            if gap.end <= low {
                let at = gap.end - size;
                found.push((high - at, at));
            }
            // Above the one before, unless it grows upwards.
            if gap.start >= high && previous.1 != "[heap]" {
                found.push((gap.start + size - low, gap.start));
            }
        }
        previous = (range.end, name);
    }
    found.retain(|(distance, _)| *distance < REACH);
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}

impl Stubs {
    /// Maps memory for `count` stubs from which jumps reach `low` to `high`.
    pub fn new(low: usize, high: usize, count: usize) -> Option<Stubs> {
        let page = page_size();
        let size = (count * STUB).next_multiple_of(page);
        candidates(low, high, size).into_iter().take(16).find_map(|at| {
            // SAFETY: a new mapping, which replaces none.
            let mapped = unsafe {
                libc::mmap(
                    at as *mut c_void,
                    size,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            if mapped == libc::MAP_FAILED {
                return None;
            }
            let stubs = Stubs { start: mapped as usize, size, used: 0 };
            // A kernel that does not know the flag takes the address as a hint.
            if stubs.start != at {
                drop(stubs);
                return None;
            }
            Some(stubs)
        })
    }

    /// Writes a stub that jumps to the address in a slot, and returns its address. The slot is
    /// never freed. None: the mapping has no space left.
    pub fn add(&mut self, slot: &'static AtomicUsize) -> Option<usize> {
        let at = self.start + self.used;
        if self.used + STUB > self.size {
            return None;
        }
        self.used += STUB;
        let bytes = stub(slot as *const AtomicUsize as u64);
        // SAFETY: `at` to `at + STUB` lies in the mapping, checked above, which is writable until
        // `seal`, and this value alone refers to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, STUB) };
        Some(at)
    }

    /// Makes the stubs executable.
    pub fn seal(&self) -> bool {
        flush(self.start, self.size);
        let rights = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the mapping is ours.
        unsafe { libc::mprotect(self.start as *mut c_void, self.size, rights) == 0 }
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its module, the only one that jumps into it, is gone.
        unsafe { libc::munmap(self.start as *mut c_void, self.size) };
    }
}

#[cfg(not(target_arch = "aarch64"))]
fn stub(slot: u64) -> [u8; STUB] {
    let mut bytes = [0xcc; STUB];
    // movabs r11, slot; jmp [r11]
    bytes[..2].copy_from_slice(&[0x49, 0xbb]);
    bytes[2..10].copy_from_slice(&slot.to_le_bytes());
    bytes[10..13].copy_from_slice(&[0x41, 0xff, 0x23]);
    bytes
}

#[cfg(target_arch = "aarch64")]
fn stub(slot: u64) -> [u8; STUB] {
    let mut bytes = [0; STUB];
    // ldr x16, the slot's address, 16 bytes from here; ldr x17, [x16]; br x17
    for (at, word) in [0x5800_0090_u32, 0xf940_0211, 0xd61f_0220].into_iter().enumerate() {
        bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes[16..].copy_from_slice(&slot.to_le_bytes());
    bytes
}

/// Returns the instruction at `from` that jumps to `to`. None: it does not reach.
#[cfg(not(target_arch = "aarch64"))]
pub fn jump(from: usize, to: usize) -> Option<[u8; JUMP]> {
    let distance = (to as i64).checked_sub(from as i64)?.checked_sub(JUMP as i64)?;
    let mut bytes = [0xe9; JUMP];
    bytes[1..].copy_from_slice(&i32::try_from(distance).ok()?.to_le_bytes());
    Some(bytes)
}

/// Returns the instruction at `from` that jumps to `to`. None: it does not reach.
#[cfg(target_arch = "aarch64")]
pub fn jump(from: usize, to: usize) -> Option<[u8; JUMP]> {
    let distance = (to as i64).checked_sub(from as i64)?;
    let reach = 1_i64 << 27;
    if distance % 4 != 0 || !(-reach..reach).contains(&distance) {
        return None;
    }
    let word = 0x1400_0000 | ((distance >> 2) as u32 & 0x03ff_ffff);
    Some(word.to_le_bytes())
}

/// Makes code that was written visible to the processor.
fn flush(_start: usize, _size: usize) {
    #[cfg(target_arch = "aarch64")]
    {
        unsafe extern "C" {
            fn __clear_cache(start: *mut c_void, end: *mut c_void);
        }
        // SAFETY: the range is mapped; the function of the compiler's library changes no memory.
        unsafe { __clear_cache(_start as *mut c_void, (_start + _size) as *mut c_void) };
    }
}

/// Writes jumps into code, all or none of them, and restores the protection of its pages.
///
/// # Safety
///
/// Each jump lies in executable pages of one mapped module, with the protection `rights`, and no
/// thread executes the bytes that it replaces.
pub unsafe fn write(jumps: &[(usize, [u8; JUMP])], rights: libc::c_int) -> bool {
    let Some(low) = jumps.iter().map(|jump| jump.0).min() else { return true };
    let Some(high) = jumps.iter().map(|jump| jump.0 + JUMP).max() else { return true };
    let page = page_size();
    let start = low / page * page;
    let size = high.next_multiple_of(page) - start;
    // Other threads may execute other functions in these pages.
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the caller guarantees that the pages belong to the module.
    if unsafe { libc::mprotect(start as *mut c_void, size, all) } != 0 {
        return false;
    }
    for (at, bytes) in jumps {
        // SAFETY: the page was made writable above; the caller guarantees that no thread executes
        // the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *at as *mut u8, JUMP) };
    }
    flush(start, size);
    // SAFETY: as for the first call.
    unsafe { libc::mprotect(start as *mut c_void, size, rights) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_reach_as_far_as_their_instruction() {
        let at = 0x7000_0000_0000_usize;
        assert!(jump(at, at + REACH).is_some() && jump(at, at - REACH).is_some());
        assert!(jump(at, at + (1 << 32)).is_none() && jump(at, at - (1 << 32)).is_none());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_jump_counts_from_its_end() {
        assert_eq!(jump(0x1000, 0x1005), Some([0xe9, 0, 0, 0, 0]));
        assert_eq!(jump(0x1000, 0x1000), Some([0xe9, 0xfb, 0xff, 0xff, 0xff]));
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn a_jump_counts_from_its_begin() {
        assert_eq!(jump(0x1000, 0x1000), Some(0x1400_0000_u32.to_le_bytes()));
        assert_eq!(jump(0x1000, 0x0ffc), Some(0x17ff_ffff_u32.to_le_bytes()));
    }

    #[test]
    fn stubs_are_near_and_jump() {
        extern "C" fn target() -> usize {
            42
        }
        static SLOT: AtomicUsize = AtomicUsize::new(0);
        SLOT.store(target as *const () as usize, std::sync::atomic::Ordering::Relaxed);
        let own = jumps_reach_as_far_as_their_instruction as *const () as usize;
        let mut stubs = Stubs::new(own, own + 1, 1).expect("memory near this program");
        let at = stubs.add(&SLOT).expect("one stub");
        assert!(jump(own, at).is_some() && stubs.seal());
        // SAFETY: `add` wrote a function of this type, which `seal` made executable.
        let function = unsafe { std::mem::transmute::<usize, extern "C" fn() -> usize>(at) };
        assert_eq!(function(), 42);
    }
}
