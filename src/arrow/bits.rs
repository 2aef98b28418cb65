//! Bits that are used in place, or copied so that the first one begins a byte.

use std::ffi::c_void;
use std::slice;

/// Bits of a bitmap.
#[derive(Clone, Copy)]
pub struct Bits {
    pub bitmap: *const u8,
    /// The first bit.
    pub start: i64,
    pub count: i64,
}

impl Bits {
    /// Returns true if the first bit begins a byte.
    pub fn is_aligned(&self) -> bool {
        self.start % 8 == 0
    }

    /// The bytes of a copy that begins with its first bit.
    pub fn bytes(&self) -> usize {
        // At most 2^60.
        (self.count as u64).div_ceil(8) as usize
    }

    /// Returns the address of the byte that the first bit is in.
    fn address(&self) -> *const u8 {
        self.bitmap.wrapping_add((self.start / 8) as usize)
    }

    /// Copies the bits to `to`, where the first one begins a byte. Bits behind the last one become
    /// zero.
    ///
    /// # Safety
    /// The bits are in host memory, and `to` has space for [`bytes`](Self::bytes).
    #[inline(never)]
    unsafe fn copy(&self, to: *mut u8) {
        let (shift, count) = ((self.start % 8) as u32, self.bytes());
        let last = (self.start + self.count - 1) / 8 - self.start / 8;
        // SAFETY: the bitmap has these bytes, because the bits are in them (this function's
        // contract).
        let from = unsafe { slice::from_raw_parts(self.address(), last as usize + 1) };
        for index in 0..count {
            let low = from.get(index).copied().unwrap_or_default() >> shift;
            let next = from.get(index + 1).copied().unwrap_or_default();
            let mut byte = low | next.checked_shl(8 - shift).unwrap_or_default();
            let rest = self.count - index as i64 * 8;
            if rest < 8 {
                byte &= (1 << rest) - 1;
            }
            // SAFETY: below the number of bytes that `to` has (this function's contract).
            unsafe { to.add(index).write(byte) };
        }
    }
}

/// Space for copies of bits.
pub struct Copies(*mut u8);

impl Copies {
    /// Uses the space at `start`.
    ///
    /// # Safety
    /// All bits that are not aligned are in host memory, and `start` has space for them.
    pub unsafe fn new(start: *mut u8) -> Self {
        Copies(start)
    }

    /// Returns an address that begins with the first bit: of the bits, or else of a copy.
    pub fn address_of(&mut self, bits: &Bits) -> *mut c_void {
        if bits.is_aligned() {
            return bits.address().cast_mut().cast();
        }
        let to = self.0;
        // SAFETY: in host memory, and there is space for the copy (the contract of `new`).
        unsafe { bits.copy(to) };
        self.0 = to.wrapping_add(bits.bytes());
        to.cast()
    }
}
