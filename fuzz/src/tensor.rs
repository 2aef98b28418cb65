//! DLPack's structures, declared by hand as a stranger would, and tensors with any numbers in them. Only pointers are
//! valid or NULL. Each tensor lies in a block of its own, which its deleter frees.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;

use crate::extents;
use arbitrary::Arbitrary;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    pub data: u64,
    pub device: (i32, i32),
    pub ndim: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

pub type Deleter = Option<unsafe extern "C-unwind" fn(*mut c_void)>;

#[repr(C)]
pub struct Versioned {
    pub major: u32,
    pub minor: u32,
    pub context: *mut c_void,
    pub deleter: Deleter,
    pub flags: u64,
    pub tensor: Tensor,
}

#[repr(C)]
pub struct Unversioned {
    pub tensor: Tensor,
    pub context: *mut c_void,
    pub deleter: Deleter,
}

/// A tensor, and how it is wrapped.
#[derive(Arbitrary, Clone, Debug)]
pub struct Given {
    pub is_versioned: bool,
    major: Option<u32>,
    minor: u8,
    flags: u16,
    many_flags: bool,
    has_deleter: bool,
    data: u64,
    device: (u8, Option<i32>),
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    ndim: Option<i32>,
    dtype: (u8, u8, u8, u16),
    byte_offset: Option<u64>,
}

thread_local!(static DELETED: Cell<usize> = const { Cell::new(0) });

/// Returns the number of tensors that were deleted.
pub fn deleted() -> usize {
    DELETED.get()
}

/// Memory that the deleter frees, beside the tensor.
struct Kept {
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    free: unsafe fn(*mut c_void),
}

unsafe extern "C-unwind" fn delete<T: Managed>(managed: *mut c_void) {
    DELETED.set(DELETED.get() + 1);
    // SAFETY: only `Given::make` installs this function, on a `T` that it allocated, with a `Kept` as its context.
    unsafe {
        let kept = Box::from_raw(T::context(managed.cast()).cast::<Kept>());
        (kept.free)(managed);
    }
}

unsafe fn free<T>(managed: *mut c_void) {
    // SAFETY: allocated as such in `Given::make`.
    drop(unsafe { Box::from_raw(managed.cast::<T>()) });
}

trait Managed {
    /// # Safety
    /// `managed` is alive.
    unsafe fn context(managed: *mut Self) -> *mut c_void;
}

impl Managed for Versioned {
    unsafe fn context(managed: *mut Self) -> *mut c_void {
        // SAFETY: alive, as the trait requires. Of another major version, this member is there as well.
        unsafe { (&raw const (*managed).context).read() }
    }
}

impl Managed for Unversioned {
    unsafe fn context(managed: *mut Self) -> *mut c_void {
        // SAFETY: alive, as the trait requires.
        unsafe { (*managed).context }
    }
}

/// The members that every major version has.
#[repr(C)]
struct Head {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Deleter,
}

impl Given {
    /// The same tensor in the newer structure.
    pub fn versioned(self) -> Self {
        Given { is_versioned: true, ..self }
    }

    pub fn major(&self) -> u32 {
        self.major.unwrap_or(1)
    }

    /// The device, mostly one that exists.
    pub fn device(&self) -> (i32, i32) {
        (i32::from(self.device.0 % 22), self.device.1.unwrap_or(0))
    }

    /// Without a deleter nothing is freed, as DLPack allows: then it leaks, and so it is kept by the caller.
    pub fn has_deleter(&self) -> bool {
        self.has_deleter
    }

    fn tensor(&self, kept: &mut Kept) -> Tensor {
        // (code, bits, lanes) of types that both sides have, packed and padded ones among them.
        const PLAIN: [(u8, u8, u16); 14] = [
            (2, 32, 1), (2, 64, 1), (0, 8, 1), (1, 64, 1), (1, 128, 1), (5, 64, 1), (6, 8, 1), (4, 16, 1), (10, 8, 1),
            (15, 6, 1), (17, 4, 1), (17, 4, 2), (1, 1, 1), (0, 4, 1),
        ];
        let ndim = self.ndim.unwrap_or(self.shape.as_ref().map_or(0, Vec::len) as i32);
        kept.shape = extents(&self.shape, ndim);
        kept.strides = extents(&self.strides, ndim);
        let (plain, code, bits, lanes) = self.dtype;
        let (code, bits, lanes) = *PLAIN.get(usize::from(plain % 18)).unwrap_or(&(code, bits, lanes));
        Tensor {
            data: self.data,
            device: self.device(),
            ndim,
            code,
            bits,
            lanes,
            shape: kept.shape.as_mut().map_or(null_mut(), Vec::as_mut_ptr),
            strides: kept.strides.as_mut().map_or(null_mut(), Vec::as_mut_ptr),
            byte_offset: self.byte_offset.unwrap_or(0),
        }
    }

    /// A managed tensor of this kind. Of another major version only the first members are allocated.
    pub fn make(&self) -> *mut c_void {
        let mut kept = Box::new(Kept { shape: None, strides: None, free: free::<Unversioned> });
        let tensor = self.tensor(&mut kept);
        if !self.is_versioned {
            let deleter: Deleter = self.has_deleter.then_some(delete::<Unversioned>);
            return Box::into_raw(Box::new(Unversioned { tensor, context: Box::into_raw(kept).cast(), deleter })).cast();
        }
        let deleter: Deleter = self.has_deleter.then_some(delete::<Versioned>);
        let (major, minor) = (self.major(), u32::from(self.minor));
        if major != 1 {
            kept.free = free::<Head>;
            let context = Box::into_raw(kept).cast();
            return Box::into_raw(Box::new(Head { major, minor, context, deleter })).cast();
        }
        kept.free = free::<Versioned>;
        let flags = if self.many_flags { u64::from(self.flags) } else { u64::from(self.flags % 8) };
        let context = Box::into_raw(kept).cast();
        Box::into_raw(Box::new(Versioned { major, minor, context, deleter, flags, tensor })).cast()
    }

    /// Deletes a tensor that `make` made, whether it has a deleter or not, without counting it.
    ///
    /// # Safety
    /// The tensor is alive, and nothing uses it any more.
    pub unsafe fn free(&self, managed: *mut c_void) {
        let before = DELETED.get();
        // SAFETY: made by `make` (this function's contract), which decided on the kind in the same way.
        unsafe {
            if self.is_versioned { delete::<Versioned>(managed) } else { delete::<Unversioned>(managed) }
        }
        DELETED.set(before);
    }
}

/// # Safety
/// The tensor is alive and of this kind.
pub unsafe fn inside(managed: *mut c_void, is_versioned: bool) -> Tensor {
    // SAFETY: alive and of this kind (this function's contract).
    unsafe {
        if is_versioned { (*managed.cast::<Versioned>()).tensor } else { (*managed.cast::<Unversioned>()).tensor }
    }
}

/// # Safety
/// The tensor is alive and of this kind, and nothing uses it any more.
pub unsafe fn call_deleter(managed: *mut c_void, is_versioned: bool) {
    // SAFETY: alive and of this kind (this function's contract).
    unsafe {
        let deleter = if is_versioned {
            (*managed.cast::<Versioned>()).deleter
        } else {
            (*managed.cast::<Unversioned>()).deleter
        };
        if let Some(deleter) = deleter {
            deleter(managed);
        }
    }
}
