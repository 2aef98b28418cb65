//! Shared parts of the targets: structures of any size in blocks of exactly that size, tensors, and hostile peers.

pub mod peer;
pub mod python;
pub mod tensor;

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use arbitrary::Arbitrary;
use cai::abi::*;

/// The limits of the first release; the library states them in `read::sizes`.
pub const MOST: usize = 512;
pub const PREFIX: usize = 16;
pub const CANARY: u8 = 0xca;
pub const TAIL: u8 = 0x5a;

/// The size of a structure: mostly one that some age of the headers can have.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Size {
    Ours,
    Legal(u8),
    Any(u16),
    Garbage(u32),
}

impl Size {
    pub fn of(self, least: usize) -> u32 {
        match self {
            Size::Ours => least as u32,
            Size::Legal(steps) => (least + 8 * (usize::from(steps) % ((MOST - least) / 8 + 1))) as u32,
            Size::Any(size) => u32::from(size) % 600,
            Size::Garbage(size) => size,
        }
    }
}

pub fn is_legal(size: u32, least: usize) -> bool {
    (least..=MOST).contains(&(size as usize)) && size % 8 == 0
}

/// A structure in a block of its own: as many bytes as it claims where that is legal, else only the prefix that a
/// reader may look at. Behind it lies a canary.
pub struct Placed {
    pub start: *mut u8,
    pub size: usize,
}

impl Placed {
    const BEHIND: usize = 8;

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.size + Self::BEHIND, 8).unwrap()
    }

    pub fn new<T>(value: &T, claimed: u32, least: usize, prefix: usize) -> Self {
        let size = if is_legal(claimed, least) { claimed as usize } else { prefix };
        let mut placed = Placed { start: null_mut(), size };
        // SAFETY: the layout is not empty; the copy stays inside both values.
        unsafe {
            placed.start = alloc(placed.layout());
            placed.start.write_bytes(TAIL, size);
            placed.start.copy_from((&raw const *value).cast(), size.min(size_of::<T>()));
            placed.start.cast::<u32>().write(claimed);
            placed.start.add(size).write_bytes(CANARY, Self::BEHIND);
        }
        placed
    }

    /// An array structure of this size, as `CAI_ARRAY_INIT` leaves it.
    pub fn init(claimed: u32) -> Self {
        // SAFETY: all zeros is an array without an owner.
        let zero = unsafe { MaybeUninit::<cai_array>::zeroed().assume_init() };
        Placed::new(&zero, claimed, size_of::<cai_array>(), PREFIX)
    }

    pub fn array(&self) -> *mut cai_array {
        self.start.cast()
    }

    /// Checks that nothing was written since `init`, for a size that is legal or not.
    pub fn assert_untouched(&self, claimed: u32) {
        // SAFETY: the block has `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.size) };
        assert_eq!(bytes[..4], claimed.to_ne_bytes());
        let expected = |offset| if offset < size_of::<cai_array>() { 0 } else { TAIL };
        assert!((4..self.size).all(|offset| bytes[offset] == expected(offset)));
    }

    /// Checks an array structure after a release: zeros behind its size, as far as every version has members.
    pub fn assert_cleared(&self, claimed: u32) {
        // SAFETY: the block has `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.size) };
        assert_eq!(bytes[..4], claimed.to_ne_bytes());
        assert!(bytes[4..self.size.min(size_of::<cai_array>())].iter().all(|&byte| byte == 0));
    }

    /// Checks an array structure that a function has written: its size is kept, the tail it does not know is zero.
    pub fn assert_written(&self, claimed: u32) {
        // SAFETY: the block has `size` bytes, of an array.
        unsafe {
            assert_eq!((*self.array()).struct_size, claimed);
            assert!((size_of::<cai_array>()..self.size).all(|offset| self.start.add(offset).read() == 0));
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        for offset in 0..Self::BEHIND {
            // SAFETY: inside the block.
            assert_eq!(unsafe { self.start.add(self.size + offset).read() }, CANARY, "written past the end");
        }
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.start, self.layout()) };
    }
}

/// An owner of another library, whose table has any size. Its last release passes the number to `gone`.
#[repr(C)]
pub struct Foreign {
    base: cai_owner,
    references: usize,
    number: usize,
    gone: fn(usize),
    _table: Placed,
}

impl Foreign {
    const LEAST: usize = 24;

    pub fn make(size: Size, number: usize, gone: fn(usize)) -> *mut cai_owner {
        let size = size.of(Self::LEAST);
        let (retain, release) = (Some(Self::retain as _), Some(Self::release as _));
        let table = cai_owner_ops { struct_size: size, reserved: 0, retain, release };
        // A table has no greatest size: what it claims beyond ours is never read.
        let table = Placed::new(&table, size, Self::LEAST, if size < 24 { 4 } else { Self::LEAST });
        let base = cai_owner { ops: table.start.cast() };
        Box::into_raw(Box::new(Foreign { base, references: 1, number, gone, _table: table })).cast()
    }

    unsafe extern "C-unwind" fn retain(owner: *mut cai_owner) {
        // SAFETY: only owners of this kind have this function.
        unsafe { (*owner.cast::<Foreign>()).references += 1 };
    }

    /// # Safety
    /// `make` made the owner, which is alive.
    pub unsafe extern "C-unwind" fn release(owner: *mut cai_owner) {
        let foreign = owner.cast::<Foreign>();
        // SAFETY: of this kind (this function's contract); the last reference is gone when it frees.
        unsafe {
            (*foreign).references -= 1;
            if (*foreign).references == 0 {
                let foreign = Box::from_raw(foreign);
                (foreign.gone)(foreign.number);
            }
        }
    }

    /// # Safety
    /// `make` made the owner, which is alive.
    pub unsafe fn references(owner: *mut cai_owner) -> usize {
        // SAFETY: this function's contract.
        unsafe { (*owner.cast::<Foreign>()).references }
    }

    /// Whether the table of an owner of any library is long enough.
    ///
    /// # Safety
    /// The owner is alive.
    pub unsafe fn is_sound(owner: *mut cai_owner) -> bool {
        // SAFETY: alive (this function's contract), and its table has at least its size.
        unsafe { (*(*owner).ops).struct_size as usize >= Self::LEAST }
    }
}

/// An array without elements, dimensions or an owner.
pub fn new_array() -> cai_array {
    // SAFETY: all zeros is an array without an owner.
    let zeros = unsafe { MaybeUninit::<cai_array>::zeroed().assume_init() };
    cai_array { struct_size: size_of::<cai_array>() as u32, version: 3, stream: CAI_STREAM_NONE, ..zeros }
}

/// An array of bytes on a device.
pub fn filled(extents: &[i64], owner: *mut cai_owner) -> cai_array {
    cai_array {
        owner,
        data: 0x7000_0000 as *mut c_void,
        ndim: extents.len() as i32,
        shape: if extents.is_empty() { null() } else { extents.as_ptr() },
        typestr: typestr([0; 16], 2),
        device: cai_device { r#type: CAI_DEVICE_CUDA, id: 0 },
        ..new_array()
    }
}

/// Mostly types that exist, so that the fuzzer gets past them.
pub fn typestr(raw: [u8; 16], plain: u8) -> [c_char; 16] {
    const PLAIN: [&str; 12] =
        ["<f4", "|b1", "|u1", ">i8", "<c16", "|V4", "|V16", "<M8[25us]", "|t1", "|t12", "<U3", "|S0"];
    let mut out = [0; 16];
    match PLAIN.get(plain as usize % 16) {
        Some(text) => out.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char),
        None => out = raw.map(|byte| byte as c_char),
    }
    out
}

/// Space for as many extents as `ndim` states, so that the pointer refers to a real array of that size.
pub fn extents(given: &Option<Vec<i64>>, ndim: i32) -> Option<Vec<i64>> {
    given.as_ref().map(|values| {
        let mut values = values.clone();
        values.resize(values.len().max(ndim.clamp(0, 64) as usize), 1);
        values
    })
}
