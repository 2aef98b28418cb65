//! A cache of objects that belong to short texts, such as typestrs.

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

use crate::python::capi::{Capi, Object};

const PLACES: usize = 64;

/// Objects by texts of up to eight bytes. Not used in free-threaded builds, where nothing protects
/// it.
pub struct Texts(UnsafeCell<[(u64, *mut Object); PLACES]>);

impl Texts {
    /// An empty cache.
    pub fn new() -> Self {
        Texts(UnsafeCell::new([(0, ptr::null_mut()); PLACES]))
    }

    /// Returns a text as a number, and the place of its object.
    #[inline]
    fn place(capi: &Capi, text: &[u8]) -> Option<(u64, usize)> {
        if text.len() > 8 || capi.facts.free_threaded {
            return None;
        }
        let mut key = [0; 8];
        key[..text.len()].copy_from_slice(text);
        let key = u64::from_le_bytes(key);
        Some((key, (key ^ key >> 8 ^ key >> 13) as usize % PLACES))
    }

    /// Returns the object of a text, borrowed, if it was added before.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub unsafe fn get(&self, capi: &Capi, text: &[u8]) -> Option<NonNull<Object>> {
        let (key, place) = Self::place(capi, text)?;
        // SAFETY: the GIL is held (this function's contract), and nothing here releases it.
        let (known, object) = unsafe { (*self.0.get())[place] };
        NonNull::new(object).filter(|_| known == key)
    }

    /// Adds the object of a text, for good, unless the place is taken.
    ///
    /// # Safety
    /// The GIL is held; the object is alive.
    pub unsafe fn add(&self, capi: &Capi, text: &[u8], object: *mut Object) {
        let Some((key, place)) = Self::place(capi, text) else { return };
        // SAFETY: the GIL is held (this function's contract), and nothing here releases it. The
        // table takes one reference.
        unsafe {
            if (*self.0.get())[place].1.is_null() {
                (capi.incref)(object);
                (*self.0.get())[place] = (key, object);
            }
        }
    }
}
