//! Arrays of NumPy, read in place.
//!
//! `numpy/ndarraytypes.h` publishes the structure, which every extension that was compiled with NumPy
//! reads. It is read once a first array of the type was found to contain what its `__array_struct__`
//! says of it, and in builds with the GIL, without which another thread may change an array
//! meanwhile. `__array_struct__` tells the same in four times as many instructions.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

use crate::error::Result;
use crate::python::capi::Object;
use crate::python::interpreter::Here;
use crate::python::py::{Builtin, Int, Obj, Type};

/// `PyArrayObject_fields` behind the head, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Fields {
    pub data: *mut c_void,
    pub ndim: c_int,
    pub shape: *const isize,
    pub strides: *const isize,
    pub base: *mut Object,
    pub dtype: *mut Object,
    pub flags: c_int,
}

impl Fields {
    pub const NONE: Fields = Fields {
        data: ptr::null_mut(),
        ndim: 0,
        shape: ptr::null(),
        strides: ptr::null(),
        base: ptr::null_mut(),
        dtype: ptr::null_mut(),
        flags: 0,
    };
}

/// What a typestr of a number consists of.
#[derive(Clone, Copy)]
pub struct Element {
    pub order: u8,
    pub kind: u8,
    pub size: c_int,
}

const PLACES: usize = 64;

/// NumPy's own type of arrays, and the elements of its dtypes.
pub struct Arrays {
    /// NULL until an array was compared.
    r#type: Cell<*mut Object>,
    elements: [Cell<(*mut Object, Element)>; PLACES],
}

impl Arrays {
    pub fn new() -> Self {
        const NONE: Element = Element { order: 0, kind: 0, size: 0 };
        Arrays {
            r#type: Cell::new(ptr::null_mut()),
            elements: [const { Cell::new((ptr::null_mut(), NONE)) }; PLACES],
        }
    }

    fn place(&self, dtype: *mut Object) -> &Cell<(*mut Object, Element)> {
        let address = dtype as usize;
        &self.elements[(address >> 4 ^ address >> 10) % PLACES]
    }
}

impl Here<'_, Arrays> {
    /// Returns what is in an array, if its type and its dtype are known.
    #[inline(always)]
    pub fn read(self, object: Obj) -> Option<(Fields, Element)> {
        let places = self.py().capi().facts.places.filter(|places| {
            // No object has the type NULL.
            places.type_of(object) == self.r#type.get()
        })?;
        // SAFETY: objects of this type contain the structure (`learn`). This one is alive, and does
        // not change while the GIL is held and no code of others runs.
        let fields = unsafe { places.contents(object).cast::<Fields>().read() };
        let (dtype, element) = self.place(fields.dtype).get();
        (dtype == fields.dtype).then_some((fields, element))
    }

    /// Remembers the dtype of an array whose `__array_struct__` returned these `fields`, but for the
    /// objects, and its type if the array contains the same.
    pub fn learn(self, object: Obj, told: &Fields, element: Element) -> Result<()> {
        let py = self.py();
        let Some(places) = py.capi().facts.places.filter(|_| !py.capi().facts.free_threaded) else {
            return Ok(());
        };
        let r#type = Type::of(py, object);
        if r#type.obj().as_ptr() != self.r#type.get() {
            // One type is enough: those derived from it are rare.
            if !self.r#type.get().is_null() || !is_numpys(self, &r#type)? {
                return Ok(());
            }
        }
        // SAFETY: the object is larger than the structure, as `is_numpys` found for its type now or
        // before. The values are compared before they are used.
        let fields = unsafe { places.contents(object).cast::<Fields>().read() };
        let place = self.place(fields.dtype);
        if !place.get().0.is_null() {
            return Ok(());
        }
        let dtype = object.attr(py, py.names.dtype)?;
        // Others, such as those of another byte order, may change (`__setstate__`), and there may be
        // any number of them.
        if !matches!(dtype.obj().attr(py, py.names.isbuiltin)?.obj().int(py)?, Int::Value(1)) {
            return Ok(());
        }
        let is_same = fields.data == told.data
            && fields.ndim == told.ndim
            && fields.dtype == dtype.obj().as_ptr()
            && (fields.flags ^ told.flags) & LASTING == 0;
        // SAFETY: all other members are right, so these are the addresses of as many values.
        if !is_same || !unsafe { are_equal(&fields, told) } {
            return Ok(());
        }
        if self.r#type.get().is_null() {
            self.r#type.set(r#type.obj().share(py).into_raw());
        }
        place.set((dtype.into_raw(), element));
        Ok(())
    }
}

/// `NPY_ARRAY_C_CONTIGUOUS`, `_F_CONTIGUOUS`, `_ALIGNED`, `_WRITEABLE`: `__array_struct__` says so too.
pub const LASTING: c_int = 0x1 | 0x2 | 0x100 | 0x400;

/// Returns true for the class `numpy.ndarray`, if its objects are at least as large as what is read.
fn is_numpys(arrays: Here<Arrays>, r#type: &Type) -> Result<bool> {
    let py = arrays.py();
    for (name, text) in [(py.names.module, b"numpy".as_slice()), (py.names.name, b"ndarray")] {
        match r#type.obj().optional_attr(py, name)? {
            Some(found)
                if found.obj().is_a(py, Builtin::Str) && found.obj().text(py) == Some(text) => {}
            _ => return Ok(false),
        }
    }
    let least = py.capi().facts.head + size_of::<Fields>();
    let size = r#type.obj().optional_attr(py, py.names.basicsize)?;
    let size = size.map(|size| size.obj().int(py)).transpose()?;
    Ok(matches!(size, Some(Int::Value(size)) if size >= least as i64))
}

/// Compares shapes and strides, of at least one dimension: nothing else shows where they are.
///
/// # Safety
/// Both have `ndim` values of each.
unsafe fn are_equal(one: &Fields, other: &Fields) -> bool {
    one.ndim > 0
        && (0..one.ndim as usize).all(|index| {
            // SAFETY: within the values (this function's contract).
            unsafe {
                one.shape.add(index).read() == other.shape.add(index).read()
                    && one.strides.add(index).read() == other.strides.add(index).read()
            }
        })
}
