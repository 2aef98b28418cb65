//! A cache of objects that belong to short texts, such as typestrs.

use std::cell::Cell;
use std::ptr;

use crate::python::capi::Object;
use crate::python::interpreter::Here;
use crate::python::py::Obj;

const PLACES: usize = 64;

/// Objects by texts of up to eight bytes. Not used in free-threaded builds: nothing protects it.
pub struct Texts([Cell<(u64, *mut Object)>; PLACES]);

impl Texts {
    pub fn new() -> Self {
        Texts([const { Cell::new((0, ptr::null_mut())) }; PLACES])
    }
}

impl<'py> Here<'py, Texts> {
    /// Returns a text as a number, and the place of its object.
    #[inline]
    fn place(&self, text: &[u8]) -> Option<(u64, &Cell<(u64, *mut Object)>)> {
        if text.len() > 8 || self.py().capi().facts.free_threaded {
            return None;
        }
        let mut key = [0; 8];
        key[..text.len()].copy_from_slice(text);
        let key = u64::from_le_bytes(key);
        Some((key, &self.0[(key ^ key >> 8 ^ key >> 13) as usize % PLACES]))
    }

    #[inline]
    pub fn get(self, text: &[u8]) -> Option<Obj<'py>> {
        let (key, place) = self.place(text)?;
        let (known, object) = place.get();
        if known != key {
            return None;
        }
        // SAFETY: `add` stored NULL or a reference that is never released.
        unsafe { Obj::from_ptr(object) }
    }

    /// Adds the object of a text, for good, unless the place is taken.
    pub fn add(self, text: &[u8], object: Obj) {
        if let Some((key, place)) = self.place(text).filter(|(_, place)| place.get().1.is_null()) {
            place.set((key, object.share(self.py()).into_raw()));
        }
    }
}
