//! Memory that an object lends: the buffer protocol of PEP 3118.

use std::alloc::Layout;
use std::ffi::{CStr, c_void};
use std::mem::zeroed;
use std::ptr::NonNull;
use std::slice;

use super::{Obj, Py, done};
use crate::error::Result;
use crate::memory::Memory;
use crate::owner::Destructor;
use crate::python::capi::{self, BUFFER_FULL_RO, PyBuffer};

/// Memory of an object with its description. Given back when dropped.
pub struct Buffer<'py> {
    /// On the heap: producers let pointers in it refer to itself.
    view: NonNull<PyBuffer>,
    py: Py<'py>,
}

/// One word more than is zeroed: the compiler would merge both into a slower function.
const LAYOUT: Layout = Layout::new::<(PyBuffer, usize)>();

impl<'py> Buffer<'py> {
    /// Requests strides, shape and format, of read-only memory too. `None` for an object that does
    /// not offer memory. May run Python code.
    pub fn request(py: Py<'py>, object: Obj) -> Result<Option<Self>> {
        if (py.capi().buffer_check)(object) == 0 {
            return Ok(None);
        }
        let memory = Memory::new(LAYOUT)?;
        let view = memory.start().cast::<PyBuffer>();
        // SAFETY: memory for one view, in which all bits zero are valid. The GIL is held, and the
        // object is alive. The view stays where it is until it is released.
        done(unsafe {
            view.write(zeroed());
            (py.capi().buffer_get)(object.as_ptr(), view, BUFFER_FULL_RO)
        })?;
        Ok(NonNull::new(memory.into_raw().cast()).map(|view| Buffer { view, py }))
    }

    pub fn view(&self) -> &PyBuffer {
        // SAFETY: `request` had it filled; producers do not change it before its release.
        unsafe { self.view.as_ref() }
    }

    /// Returns the format. One that is not stated means unsigned bytes.
    pub fn format(&self) -> &[u8] {
        match self.view().format {
            format if format.is_null() => b"B",
            // SAFETY: a text with a NUL by PEP 3118, which lives until the release.
            format => unsafe { CStr::from_ptr(format) }.to_bytes(),
        }
    }

    /// Returns the extents, if they are stated.
    pub fn shape(&self) -> Option<&[isize]> {
        self.row(self.view().shape)
    }

    /// Returns the strides in bytes, if they are stated.
    pub fn strides(&self) -> Option<&[isize]> {
        self.row(self.view().strides)
    }

    fn row(&self, values: *const isize) -> Option<&[isize]> {
        let count = usize::try_from(self.view().ndim).unwrap_or(0);
        // SAFETY: only members of the view are passed: NULL, or `ndim` values by PEP 3118, which
        // live until the release.
        (!values.is_null()).then(|| unsafe { slice::from_raw_parts(values, count) })
    }

    /// Returns what gives the memory back. It has to run with the GIL held.
    pub fn into_destructor(self) -> Destructor {
        let view = self.view;
        std::mem::forget(self);
        // SAFETY: the view was filled, and this value no longer releases it.
        unsafe { Destructor::new(Some(release), view.as_ptr().cast()) }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let view = self.view.as_ptr().cast();
        // SAFETY: `py` proves that the GIL is held. The view was filled, and nothing else releases
        // it.
        self.py.keeping_exception(|| unsafe { release(view) });
    }
}

/// Releases a view and frees its memory, even if code of the producer ends the thread.
///
/// # Safety
/// The GIL is held, and nothing else releases the view.
unsafe extern "C-unwind" fn release(view: *mut c_void) {
    // SAFETY: `request` allocated the memory for a view, and gave it up.
    let _memory = unsafe { Memory::from_raw(view.cast(), LAYOUT) };
    if let Some(capi) = capi::found() {
        // SAFETY: this function's contract.
        unsafe { (capi.buffer_release)(view.cast()) };
    }
}
