//! Memory that an object lends: the buffer protocol of PEP 3118.

use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::zeroed;
use std::ptr::{self, NonNull};
use std::slice;

use super::{Obj, Owned, Py, done};
use crate::error::Result;
use crate::memory::{Extended, Memory};
use crate::owner::Destructor;
use crate::python::capi::{self, BUFFER_FULL_RO, PyBuffer};
use crate::python::formats::Format;

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
        // SAFETY: `request` filled the view, and the GIL is held (this function's contract).
        unsafe { (capi.buffer_release)(view.cast()) };
    }
}

/// Memory that an object of this library lends, described for one consumer.
pub struct Lent<'py> {
    view: PyBuffer,
    /// Released with the view.
    owner: Owned<'py>,
    block: Block,
}

/// The format, and behind it the extents and the strides.
type Block = Extended<[c_char; 16], isize>;

/// What a view states besides its rows.
pub struct Stated {
    pub data: *mut c_void,
    pub len: i64,
    pub itemsize: i64,
    pub readonly: bool,
}

impl<'py> Lent<'py> {
    /// Describes memory that `owner` keeps. `format`, `shape` and `strides` are those that the
    /// consumer wants; without a shape, the memory is bytes.
    pub fn new(
        owner: Owned<'py>,
        stated: Stated,
        format: Option<Format>,
        shape: Option<&[i64]>,
        strides: Option<&[i64]>,
    ) -> Result<Self> {
        let ndim = shape.map_or(0, <[i64]>::len);
        let mut text = [0; 16];
        for (to, from) in text.iter_mut().zip(format.iter().flat_map(|f| f.as_str().bytes())) {
            *to = from as c_char;
        }
        let mut block = Block::new(text, 2 * ndim, 0)?;
        let (text, rows) = block.parts();
        let values = shape.into_iter().chain(strides).flatten();
        rows.iter_mut().zip(values).for_each(|(to, from)| *to = *from as isize);
        let (extents, steps) = rows.split_at(ndim);
        let given = |row: &[isize], is_given: bool| match is_given && ndim > 0 {
            true => row.as_ptr(),
            false => ptr::null(),
        };
        let view = PyBuffer {
            // Memory without elements is at no address, which consumers take for a failure.
            buf: if stated.data.is_null() { text.as_mut_ptr().cast() } else { stated.data },
            obj: ptr::null_mut(),
            len: stated.len as isize,
            itemsize: stated.itemsize as isize,
            readonly: stated.readonly.into(),
            ndim: if shape.is_none() { 1 } else { ndim as c_int },
            format: if format.is_some() { text.as_ptr() } else { ptr::null() },
            shape: given(extents, shape.is_some()),
            strides: given(steps, strides.is_some()),
            suboffsets: ptr::null(),
            internal: ptr::null_mut(),
        };
        Ok(Lent { view, owner, block })
    }

    /// Gives all to the consumer, who has it released with [`release_lent`].
    pub fn into_view(self) -> PyBuffer {
        let Lent { view, owner, block } = self;
        PyBuffer { obj: owner.into_raw(), internal: block.into_raw().cast(), ..view }
    }
}

/// Frees what [`Lent::into_view`] gave away, except the reference to the object.
///
/// # Safety
/// `view` was returned by it, and is released once.
pub unsafe fn release_lent(view: &PyBuffer) {
    // SAFETY: `into_view` set the member (this function's contract).
    drop(unsafe { Block::from_raw(view.internal.cast()) });
}
