//! Bits that are used in place, or copied so that the first one begins a byte.

use std::ffi::c_void;
use std::{mem, slice};

use crate::error::{Failure, Result};

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
    /// The bits are in host memory.
    #[inline(never)]
    unsafe fn copy(&self, to: &mut [u8]) {
        let shift = (self.start % 8) as u32;
        let last = (self.start + self.count - 1) / 8 - self.start / 8;
        // SAFETY: the bitmap has these bytes, because the bits are in them (this function's
        // contract).
        let from = unsafe { slice::from_raw_parts(self.address(), last as usize + 1) };
        for (index, to) in to.iter_mut().enumerate() {
            let low = from.get(index).copied().unwrap_or_default() >> shift;
            let next = from.get(index + 1).copied().unwrap_or_default();
            *to = low | next.checked_shl(8 - shift).unwrap_or_default();
            let rest = self.count - index as i64 * 8;
            if rest < 8 {
                *to &= (1 << rest) - 1;
            }
        }
    }
}

pub struct Copies<'a>(&'a mut [u8]);

impl<'a> Copies<'a> {
    /// # Safety
    /// All bits that are not aligned are in host memory.
    pub unsafe fn new(space: &'a mut [u8]) -> Self {
        Copies(space)
    }

    /// Returns an address that begins with the first bit: of the bits, or else of a copy.
    pub fn address_of(&mut self, bits: &Bits) -> Result<*mut c_void> {
        if bits.is_aligned() {
            return Ok(bits.address().cast_mut().cast());
        }
        let space = mem::take(&mut self.0);
        let (to, rest) = space.split_at_mut_checked(bits.bytes()).ok_or_else(Failure::internal)?;
        self.0 = rest;
        // SAFETY: in host memory (the contract of `new`).
        unsafe { bits.copy(to) };
        Ok(to.as_mut_ptr().cast())
    }
}
