//! Objects of the type `libcai.View`: what they hold, how they begin and end.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::{self, cai_array};
use crate::error::{Failure, Result, Text, fail};
use crate::python::capi::{self, Object};
use crate::python::convert::{none, shared};
use crate::python::export::object::{self, Body, CAN_BE_RELEASED, Reading, run_for_python, wrap};
use crate::python::owner::Description;
use crate::python::py::{Owned, Py};
use crate::sync::consume::{self, Phase};
use crate::sync::notify::{self, Kind};

/// The contents of a view behind its head.
#[repr(C)]
pub struct View {
    /// The array. First, so that functions for exported arrays find it.
    pub body: Body,
    /// The object that was viewed; NULL after the release.
    pub exporter: AtomicPtr<Object>,
    /// The stream as it was passed, kept alive while the view uses it; or NULL.
    stream_object: AtomicPtr<Object>,
    /// The stream that is ordered; `CAI_STREAM_NONE` for none.
    stream: u64,
}

/// What a view is made of besides its array.
pub struct Ordered {
    /// The stream that is ordered; `CAI_STREAM_NONE` for none.
    pub stream: u64,
    /// The object of the stream, or NULL.
    pub object: *mut Object,
    /// The object that is viewed.
    pub exporter: *mut Object,
}

/// Returns the contents of a view.
pub fn contents(py: Py, object: *mut Object) -> *mut View {
    // SAFETY: an object of the type has space for a `View` behind its head.
    unsafe { object.byte_add(py.capi().facts.head).cast() }
}

/// Returns how the data of a view is used.
#[inline]
fn access(array: &cai_array) -> u32 {
    match array.flags & abi::CAI_ARRAY_READONLY {
        0 => abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE,
        _ => abi::CAI_ACCESS_READ,
    }
}

/// Orders a view's stream and that of its array.
#[inline]
fn order(phase: Phase, array: &cai_array, stream: u64) -> Result<()> {
    let access = access(array);
    // SAFETY: the array was imported, and so validated.
    if unsafe { consume::is_fast_path(array, stream, access) } && !notify::is_watched() {
        return Ok(());
    }
    order_slowly(phase, array, stream, access)
}

#[inline(never)]
fn order_slowly(phase: Phase, array: &cai_array, stream: u64, access: u32) -> Result<()> {
    // SAFETY: the array was imported, and so validated.
    let result = unsafe { consume::exchange(phase, array, stream, access) };
    if notify::is_watched() {
        let kind = if phase == Phase::Begin { Kind::Begin } else { Kind::End };
        let status = result.as_ref().map_or_else(Failure::status, |()| abi::CAI_OK);
        // SAFETY: the array was imported, and so validated.
        unsafe { notify::array(kind, array, stream, access, status) };
    }
    result
}

/// Makes a view and orders its stream after the array's.
///
/// # Safety
/// `type` is that of views; `to` was imported; the objects are alive or NULL.
#[inline]
pub unsafe fn make(
    py: Py,
    r#type: *mut Object,
    mut to: Description,
    ordered: Ordered,
    readonly: bool,
) -> Result<*mut Object> {
    if readonly {
        to.array.flags |= abi::CAI_ARRAY_READONLY;
    }
    // The object comes first, so that a failure orders no stream.
    let array = to.array;
    to.taken();
    // SAFETY: the array was imported, and has an owner, whose reference is passed on.
    let object = unsafe { wrap(py, Ok(r#type), &array, CAN_BE_RELEASED) }?;
    // SAFETY: the object was made of this type, and nothing else refers to it.
    let view = unsafe { &mut *contents(py, object) };
    view.stream = abi::CAI_STREAM_NONE;
    // SAFETY: the GIL is held; the objects are alive (this function's contract).
    unsafe {
        (py.capi().incref)(ordered.exporter);
        *view.exporter.get_mut() = ordered.exporter;
        if ordered.stream != abi::CAI_STREAM_NONE {
            if let Err(failure) = order(Phase::Begin, &array, ordered.stream) {
                py.release(object);
                return Err(failure);
            }
            view.stream = ordered.stream;
            if !ordered.object.is_null() {
                (py.capi().incref)(ordered.object);
                *view.stream_object.get_mut() = ordered.object;
            }
        }
    }
    Ok(object)
}

/// Makes the producer wait for the view's stream, and gives up what the view holds. Does nothing
/// if it was released before. On failure nothing is given up.
fn release(py: Py, object: *mut Object) -> Result<()> {
    let view = contents(py, object);
    // SAFETY: the caller of a method keeps the object alive.
    let view = unsafe { &*view };
    // SAFETY: as above.
    let Some(array) = (unsafe { Reading::of(&view.body) }) else { return Ok(()) };
    if view.stream != abi::CAI_STREAM_NONE {
        order(Phase::End, &array, view.stream)?;
    }
    drop(array);
    // SAFETY: the object is alive.
    unsafe { view.body.release() };
    py.release(view.stream_object.swap(ptr::null_mut(), Ordering::AcqRel));
    // In a free-threaded build, another thread may be reading it.
    if !py.capi().facts.free_threaded {
        py.release(view.exporter.swap(ptr::null_mut(), Ordering::AcqRel));
    }
    Ok(())
}

pub unsafe extern "C-unwind" fn release_method(object: *mut Object, _: *mut Object) -> *mut Object {
    run_for_python(|py| {
        release(py, object)?;
        Ok(none(py).into_raw())
    })
}

pub unsafe extern "C-unwind" fn enter_method(object: *mut Object, _: *mut Object) -> *mut Object {
    run_for_python(|py| {
        // SAFETY: the caller of a method keeps the object alive.
        if unsafe { Reading::of(&(*contents(py, object)).body) }.is_none() {
            return released();
        }
        Ok(shared(py, object).into_raw())
    })
}

pub unsafe extern "C-unwind" fn repr(object: *mut Object) -> *mut Object {
    run_for_python(|py| {
        // SAFETY: CPython keeps the object alive during the call.
        let text = match unsafe { Reading::of(&(*contents(py, object)).body) } {
            Some(array) => object::shown("libcai.View", &array),
            None => Text::new(format_args!("<libcai.View, released>")),
        };
        py.string(text.as_str().as_bytes()).map(Owned::into_raw)
    })
}

pub unsafe extern "C-unwind" fn get_length(object: *mut Object) -> isize {
    object::length(|py| {
        // SAFETY: CPython keeps the object alive during the call.
        unsafe { Reading::of(&(*contents(py, object)).body) }.map_or_else(released, Ok)
    })
}

/// Fails for a view that was released.
#[cold]
pub fn released<T>() -> Result<T> {
    fail!(CAI_ERR_VALUE, "view", found = "one that was released", expected = "a view in use")
}

/// Unguarded, because nothing in it can panic. The producer is not made to wait: an integer is no
/// reference to a stream, which may be gone by now.
pub unsafe extern "C-unwind" fn dealloc(object: *mut Object) {
    let Some(capi) = capi::found() else { return };
    // SAFETY: the GIL is held, and the last reference to a view was released.
    unsafe {
        let view: *const View = object.byte_add(capi.facts.head).cast();
        for held in [&(*view).stream_object, &(*view).exporter] {
            let held = held.swap(ptr::null_mut(), Ordering::AcqRel);
            if !held.is_null() {
                (capi.decref)(held);
            }
        }
        object::dealloc(object);
    }
}
