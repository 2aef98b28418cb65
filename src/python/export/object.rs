//! Objects of the type `libcai.Array`: the array inside, and the functions that every object has.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{self, cai_array};
use crate::device::{Name, is_opaque};
use crate::error::{Failure, Result, Text, fail};
use crate::python::capi::{self, Capi, Object, TP_ALLOC, TP_DEALLOC, TP_FREE};
use crate::python::error::{self, raise_as};
use crate::python::py::{Exception, Owned, Py};
use crate::{owner, read, unwind, validate};

/// The contents of an object behind its head.
#[repr(C)]
pub struct Body {
    pub array: cai_array,
    /// `CAI_EXPORT_` bits.
    pub flags: u32,
    /// For arrays behind a handle: the number of [`Reading`]s, and [`RELEASED`].
    state: AtomicU32,
    pub weak_references: *mut Object,
}

/// The object's reference to the array's owner was given up by `release()`.
const RELEASED: u32 = 1 << 31;

/// In `Body.flags`, beside the `CAI_EXPORT_` bits: the object may be released while others use it,
/// because it gives out its array through no protocol.
pub(crate) const CAN_BE_RELEASED: u32 = 1 << 31;

impl Body {
    /// Returns true if the object may be released while others use it. Its address was then given
    /// out only by the buffer interface, whose consumers keep the handle, or by no protocol.
    fn can_be_released(&self) -> bool {
        is_opaque(self.array.device.r#type) || self.flags & CAN_BE_RELEASED != 0
    }

    /// Gives up the reference to the array's owner, at once or when the last call that reads the
    /// array ends. Does nothing if it was given up before, and for arrays that are read through
    /// protocols whose consumers rely on the object.
    ///
    /// # Safety
    /// The object is alive.
    pub unsafe fn release(&self) {
        if self.array.owner.is_null() || !self.can_be_released() {
            return;
        }
        // Release: what this thread did with the array happens before the last reader's release.
        // Acquire: what earlier readers did happens before the release here.
        if self.state.fetch_or(RELEASED, Ordering::AcqRel) == 0 {
            // SAFETY: no call reads the array, and none begins; the flag was set by this call.
            unsafe { owner::release(self.array.owner) };
        }
    }

    /// Returns true if the object still holds its reference.
    fn holds_owner(&self) -> bool {
        !self.array.owner.is_null() && self.state.load(Ordering::Acquire) & RELEASED == 0
    }
}

/// The array of an object while a call reads it. The call may run Python code, which may release
/// the object.
pub struct Reading {
    body: &'static Body,
}

impl Reading {
    /// Begins to read. `None` if there is no array.
    ///
    /// # Safety
    /// `body` is that of an object that stays alive meanwhile.
    #[inline(always)]
    pub unsafe fn of(body: *const Body) -> Option<Reading> {
        // SAFETY: alive (this function's contract).
        let body = unsafe { &*body };
        if body.array.owner.is_null() {
            return None;
        }
        if body.can_be_released() {
            let more = |state| (state & RELEASED == 0).then_some(state + 1);
            body.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).ok()?;
        }
        Some(Reading { body })
    }
}

impl Deref for Reading {
    type Target = cai_array;

    #[inline(always)]
    fn deref(&self) -> &cai_array {
        &self.body.array
    }
}

impl Drop for Reading {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.body.can_be_released() {
            return;
        }
        // Ordered as in `Body::release`.
        if self.body.state.fetch_sub(1, Ordering::AcqRel) == RELEASED | 1 {
            // SAFETY: the last reader after `release`; none begins.
            unsafe { owner::release(self.body.array.owner) };
        }
    }
}

/// Returns the address of an object's contents.
pub fn body(capi: &Capi, object: *mut Object) -> *mut Body {
    object.cast::<u8>().wrapping_add(capi.facts.head).cast()
}

/// Returns the size of the head that objects begin with, behind which their contents are.
pub fn checked_head(capi: &Capi) -> Result<usize> {
    let head = capi.facts.head;
    if head < 2 * size_of::<usize>() || head > 64 || head % align_of::<Body>() != 0 {
        return fail!(
            CAI_ERR_PYTHON_VERSION,
            "python",
            found = "objects with a head of {head} bytes",
            expected = "16 to 64"
        );
    }
    Ok(head)
}

/// Returns true for an object of the type `libcai.Array` of any interpreter. Other types may
/// publish the same tables.
pub fn is_ours(capi: &Capi, object: *mut Object) -> bool {
    // SAFETY: the GIL is held; the object is alive. The type cannot be derived from.
    unsafe {
        let slot = (capi.type_slot)(capi.type_of(object), TP_DEALLOC);
        // Before 3.10, static types set an exception here.
        if slot.is_null() {
            (capi.error_clear)();
        }
        slot == dealloc as *mut c_void
    }
}

pub fn not_ours<T>(py: Py, object: *mut Object) -> Result<T> {
    fail!(
        CAI_ERR_TYPE,
        "object",
        found = ("an object of type {}", py.type_name(object)),
        expected = "a libcai.Array"
    )
}

/// Returns the array of an object, and its flags.
pub fn array_of(py: Py, object: *mut Object) -> Result<(Reading, u32)> {
    let body = body(py.capi(), object);
    // SAFETY: callers pass objects of this type, which are alive during the call.
    let (reading, flags) = unsafe { (Reading::of(body), (*body).flags) };
    let Some(reading) = reading else {
        return fail!(
            CAI_ERR_VALUE,
            "self",
            found = "an object without an array",
            expected = "an object made by cai_array_to_python that was not released"
        );
    };
    Ok((reading, flags))
}

/// Runs the body of a function that CPython calls: failures and panics become exceptions.
pub fn run_for_python(body: impl for<'py> FnOnce(Py<'py>) -> Result<*mut Object>) -> *mut Object {
    unwind::guarded(|| Py::with(body)).unwrap_or_else(raise)
}

/// The length of an array for Python: the first extent. Returns -1 if an exception is set.
pub fn length(array: impl for<'py> FnOnce(Py<'py>) -> Result<Reading>) -> isize {
    let body = |py: Py<'_>| {
        let array = array(py)?;
        // SAFETY: the array was validated when the object was made.
        match unsafe { read::shape_and_strides(&array) }?.0.first() {
            Some(&extent) => Ok(extent as isize),
            None => fail!(
                CAI_ERR_TYPE,
                "shape",
                found = "no dimensions",
                expected = "at least one for len()"
            ),
        }
    };
    unwind::guarded(|| Py::with(body)).unwrap_or_else(|failure| {
        error::raise_failure(&failure);
        -1
    })
}

pub unsafe extern "C-unwind" fn get_length(object: *mut Object) -> isize {
    length(|py| array_of(py, object).map(|(array, _)| array))
}

/// The object itself is true: that does not depend on values, which Python cannot read, and an
/// array without elements is an array.
pub unsafe extern "C-unwind" fn get_bool(_: *mut Object) -> c_int {
    1
}

/// The result of a function of Python that failed.
#[cold]
#[inline(never)]
fn raise(failure: Failure) -> *mut Object {
    error::raise_failure(&failure);
    ptr::null_mut()
}

/// Runs the body of a getter: a failure means that the object has no such attribute.
pub fn attribute(body: impl for<'py> FnOnce(Py<'py>) -> Result<*mut Object>) -> *mut Object {
    run_for_python(|py| body(py).map_err(|failure| no_attribute(py, failure)))
}

#[cold]
#[inline(never)]
fn no_attribute(py: Py, failure: Failure) -> Failure {
    match failure.status() {
        abi::CAI_ERR_PYTHON_EXCEPTION | abi::CAI_ERR_NO_MEMORY => failure,
        _ => raise_as(py, Exception::Attribute, &failure),
    }
}

/// Unguarded, because nothing in it can panic.
pub unsafe extern "C-unwind" fn dealloc(object: *mut Object) {
    // The functions were found before the type was made.
    let Some(capi) = capi::found() else { return };
    // SAFETY: the GIL is held, and the last reference to an object of this type was released.
    unsafe {
        let r#type = capi.type_of(object);
        let body = body(capi, object);
        // In a free-threaded build another thread may be adding one, and CPython has to look.
        if !(*body).weak_references.is_null() || capi.facts.free_threaded {
            (capi.clear_weakrefs)(object);
        }
        if (*body).holds_owner() {
            capi.keeping_exception(|| owner::release((*body).array.owner));
        }
        let free: unsafe extern "C-unwind" fn(*mut c_void) =
            std::mem::transmute((capi.type_slot)(r#type, TP_FREE));
        free(object.cast());
        // An object of a heap type holds a reference to its type.
        (capi.decref)(r#type);
    }
}

pub unsafe extern "C-unwind" fn repr(object: *mut Object) -> *mut Object {
    run_for_python(|py| {
        let Ok((array, _)) = array_of(py, object) else {
            return py.string(b"<libcai.Array, empty>").map(Owned::into_raw);
        };
        py.string(shown("libcai.Array", &array).as_str().as_bytes()).map(Owned::into_raw)
    })
}

/// Formats one line about an array in an object of a type.
pub fn shown(r#type: &str, array: &cai_array) -> Text<400> {
    let mut text: Text<400> = Text::new(format_args!("<{type} shape=("));
    // SAFETY: the array was validated when the object was made.
    let (shape, strides) = unsafe { read::shape_and_strides(array) }.unwrap_or_default();
    // A full text ends in a mark; nothing else can fail.
    let _ = (|| {
        for (index, extent) in shape.iter().enumerate() {
            write!(text, "{}{extent}", if index == 0 { "" } else { ", " })?;
        }
        let comma = if shape.len() == 1 { "," } else { "" };
        write!(
            text,
            "{comma}) typestr='{}'",
            read::typestr(&array.typestr).unwrap_or_default().escape_ascii()
        )?;
        if array.dtype_code != 0 {
            write!(text, " dtype_code={}", array.dtype_code)?;
        }
        if let Some(strides) = strides {
            write!(text, " strides=(")?;
            for (index, step) in strides.iter().enumerate() {
                write!(text, "{}{step}", if index == 0 { "" } else { ", " })?;
            }
            write!(text, "{comma})")?;
        }
        write!(text, " data={:#x}", array.data as usize)?;
        if array.byte_offset != 0 {
            write!(text, "+{}", array.byte_offset)?;
        }
        if array.device.r#type != abi::CAI_DEVICE_UNKNOWN {
            write!(text, " device={}", Name(array.device.r#type))?;
            // A negative number is not known.
            if array.device.id >= 0 {
                write!(text, ":{}", array.device.id)?;
            }
        }
        match array.stream {
            abi::CAI_STREAM_NONE => write!(text, " stream=None")?,
            abi::CAI_STREAM_UNKNOWN => write!(text, " stream=unknown")?,
            stream => write!(text, " stream={stream:#x}")?,
        }
        if array.flags & abi::CAI_ARRAY_READONLY != 0 {
            write!(text, " read-only")?;
        }
        if !array.mask.is_null() {
            write!(text, " masked")?;
        }
        write!(text, ">")
    })();
    text
}

/// Makes an object around an array. Takes over the reference to the array's owner, also on failure.
///
/// # Safety
/// The array was validated and has an owner.
pub unsafe fn wrap(
    py: Py,
    r#type: Result<*mut Object>,
    array: &cai_array,
    flags: u32,
) -> Result<*mut Object> {
    let made = r#type.and_then(|r#type| {
        // SAFETY: the GIL is held; the slot was read from this type.
        unsafe {
            let alloc: unsafe extern "C-unwind" fn(*mut Object, isize) -> *mut Object =
                std::mem::transmute((py.capi().type_slot)(r#type, TP_ALLOC));
            Owned::new(py, alloc(r#type, 0))
        }
    });
    match made {
        Ok(object) => {
            let object = object.into_raw();
            let body = body(py.capi(), object);
            // SAFETY: objects of this type have space for a body, to which nothing else refers yet.
            // All zeros, as allocated, its other members are as they have to be. Members are
            // written in place: on the way through the stack the array would be copied once more.
            unsafe {
                (&raw mut (*body).array).write(*array);
                // Every field is present now, whatever size the array came with.
                (&raw mut (*body).array.struct_size).write(size_of::<cai_array>() as u32);
                (&raw mut (*body).flags).write(flags);
            }
            Ok(object)
        }
        Err(failure) => {
            // SAFETY: the reference was taken over (this function's contract).
            unsafe { owner::release(array.owner) };
            Err(failure)
        }
    }
}

/// Makes an object of a type, with a reference of its own to the array.
///
/// # Safety
/// `array` is readable as [`validate::array`] requires.
pub unsafe fn export(
    py: Py,
    r#type: Result<*mut Object>,
    array: &cai_array,
    flags: u32,
) -> Result<*mut Object> {
    // SAFETY: the array is readable (this function's contract), and has an owner as checked below.
    unsafe {
        validate::array(array, abi::CAI_CHECK_LAYOUT)?;
        if array.owner.is_null() {
            return fail!(
                CAI_ERR_BORROWED,
                "owner",
                found = "NULL, a borrowed array",
                expected = "an owner that keeps the data alive"
            );
        }
        owner::retain(array.owner)?;
        wrap(py, r#type, array, flags)
    }
}
