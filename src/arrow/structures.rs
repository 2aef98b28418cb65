//! Owned structures, and views of structures that live elsewhere.

use std::ffi::{CStr, c_void};
use std::mem;
use std::ops::Deref;
use std::ptr;

use crate::arrow::abi::{Array, DeviceArray, Schema, Structure};
use crate::arrow::malformed;
use crate::arrow::metadata::extension;
use crate::error::{Result, Text};

/// A structure that this value owns: dropping it calls the release callback, unless it was moved out.
#[repr(transparent)]
pub struct Owned<T: Structure>(T);

// SAFETY: a structure may be released by any thread. ["The Arrow C data interface", "Release
// callback semantics"]
unsafe impl<T: Structure> Send for Owned<T> {}

impl<T: Structure> Owned<T> {
    /// # Safety
    /// The structure is live, and has no other owner.
    pub unsafe fn new(structure: T) -> Self {
        Owned(structure)
    }

    /// Moves a structure out of its place, which is marked as moved.
    ///
    /// # Safety
    /// `place` points to a live structure that the caller owns.
    pub unsafe fn move_from(place: *mut T) -> Self {
        // SAFETY: live, and owned by the caller, who has no reference to it (this function's
        // contract). Arrow's structures can be moved.
        unsafe {
            let structure = place.read();
            *(*place).release() = None;
            Owned(structure)
        }
    }

    /// Returns the structure, which the caller owns from now on.
    pub fn into_raw(self) -> T {
        let structure = self.0;
        mem::forget(self);
        structure
    }
}

impl<T: Structure> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(release) = *self.0.release() {
            // SAFETY: the callback is that of this structure, which this value owns and gives up.
            unsafe { release(&raw mut self.0) };
        }
    }
}

/// The same for an array with its device.
#[repr(transparent)]
pub struct OwnedDeviceArray(DeviceArray);

impl OwnedDeviceArray {
    /// # Safety
    /// The array is live, and has no other owner.
    pub unsafe fn new(array: DeviceArray) -> Self {
        OwnedDeviceArray(array)
    }

    pub fn device_type(&self) -> i32 {
        self.0.device_type
    }

    /// Returns the array alone. Its event is not lost: it belongs to the array.
    pub fn into_array(mut self) -> Owned<Array> {
        // SAFETY: live, and this value is its owner.
        unsafe { Owned::move_from(&raw mut self.0.array) }
    }

    /// Returns the structure, which the caller owns from now on.
    pub fn into_raw(self) -> DeviceArray {
        let array = self.0;
        mem::forget(self);
        array
    }
}

impl Drop for OwnedDeviceArray {
    fn drop(&mut self) {
        // SAFETY: live or moved out, and this value is its owner.
        drop(unsafe { Owned::move_from(&raw mut self.0.array) });
    }
}

/// A live structure. All that it points to, its children included, is readable and stays unchanged
/// for `'a`: an array of `n_children` addresses, one of `n_buffers` addresses, a terminated format,
/// encoded metadata, the handle of an event. Any of these pointers may be NULL.
pub struct Live<'a, T>(&'a T);

impl<T> Clone for Live<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Live<'_, T> {}

impl<T> Deref for Live<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<'a, T> Live<'a, T> {
    /// # Safety
    /// `structure` points to a live structure, as [`Live`] describes it.
    pub unsafe fn new(structure: *const T) -> Self {
        // SAFETY: live and unchanged for `'a` (this function's contract).
        Live(unsafe { &*structure })
    }
}

impl<'a, T: Structure> Live<'a, T> {
    /// Returns the only child.
    pub fn child(self) -> Result<Live<'a, T>> {
        self.child_at(0)
    }

    pub fn child_at(self, index: usize) -> Result<Live<'a, T>> {
        let (count, children) = self.0.children();
        if !usize::try_from(count).is_ok_and(|count| index < count) || children.is_null() {
            return Err(malformed("children", &"NULL", "an array of pointers to all children"));
        }
        // SAFETY: not NULL, so it points to `count` addresses, each of which is NULL or that of a
        // live structure (an invariant of this type).
        match unsafe { children.add(index).read().as_ref() } {
            Some(child) => Ok(Live(child)),
            None => {
                let field: Text<40> = Text::new(format_args!("children[{index}]"));
                Err(malformed(field.as_str(), &"NULL", "a structure"))
            }
        }
    }
}

impl<'a> Live<'a, Schema> {
    /// Returns the format, which is required.
    pub fn format(self) -> Result<&'a [u8]> {
        if self.format.is_null() {
            return Err(malformed("format", &"NULL", "a format string"));
        }
        // SAFETY: not NULL, so it is terminated (an invariant of this type).
        Ok(unsafe { CStr::from_ptr(self.format) }.to_bytes())
    }

    /// Returns the name and the metadata of the extension type; empty texts if none.
    pub fn extension(self) -> Result<[&'a [u8]; 2]> {
        // SAFETY: NULL or encoded metadata (an invariant of this type).
        unsafe { extension(self.metadata) }
    }
}

impl Live<'_, Array> {
    /// Returns the address of a buffer: NULL if there is none of this number.
    pub fn buffer(self, index: u8) -> *const c_void {
        if i64::from(index) >= self.n_buffers || self.buffers.is_null() {
            return ptr::null();
        }
        // SAFETY: not NULL, and the number is below that of the buffers (an invariant of this type).
        unsafe { self.buffers.add(index.into()).read() }
    }
}

impl<'a> Live<'a, DeviceArray> {
    pub fn array(self) -> Live<'a, Array> {
        Live(&self.0.array)
    }

    /// Returns the event that `sync_event` points to, or `None` if that is NULL.
    pub fn event(self) -> Option<*mut c_void> {
        // SAFETY: NULL, or the address of a handle (an invariant of this type).
        unsafe { self.sync_event.cast::<*mut c_void>().as_ref() }.copied()
    }
}
