//! `syclobj`: the context or the queue that memory of oneAPI is bound to, in all its forms.
//!
//! May use: `abi`, `error`, `python::capsules`, `python::interpreter`.
//! Unsafe: calls CPython with the GIL held.
//!
//! A queue becomes the array's `stream`, because work may be pending on it; a context becomes its
//! `context`. The references are those of SYCL's C interface (`DPCTLSyclQueueRef`,
//! `DPCTLSyclContextRef`). A filter string names the default context of a device, which only SYCL's
//! runtime can find: then both stay unknown.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::abi::cai_array;
use crate::error::{Result, fail};
use crate::python::capsules::{CONTEXT, QUEUE};
use crate::python::interpreter::{Owned, Py};

/// Writes the queue or the context of an object into the array. Returns what has to be kept alive
/// for it.
pub fn context(py: Py, syclobj: &Owned, array: &mut cai_array) -> Result<Option<Owned>> {
    const FIELD: &str = "__sycl_usm_array_interface__['syclobj']";
    let capi = py.capi();
    if py.is(syclobj.get(), capi.str_type) {
        return Ok(None);
    }
    let pointer = |capsule: &Owned, name: &CStr| -> *mut c_void {
        // SAFETY: the GIL is held; `capsule_is` accepts any object.
        unsafe {
            if (capi.capsule_is)(capsule.get(), name.as_ptr()) == 0 {
                return ptr::null_mut();
            }
            (capi.capsule_pointer)(capsule.get(), name.as_ptr())
        }
    };
    let mut take = |capsule: Owned| -> Option<Owned> {
        let (queue, context) = (pointer(&capsule, QUEUE), pointer(&capsule, CONTEXT));
        if !queue.is_null() {
            array.stream = queue as u64;
        } else if !context.is_null() {
            array.context = context;
        } else {
            return None;
        }
        Some(capsule)
    };
    let object = std::ptr::NonNull::new(syclobj.get()).map(|object| Owned::share(py, object));
    if let Some(kept) = object.and_then(&mut take) {
        return Ok(Some(kept));
    }
    // The types of dpctl, and others with the method.
    if let Some(method) = py.attribute(syclobj.get(), py.names.get_capsule)? {
        // SAFETY: the GIL is held.
        let capsule = unsafe {
            let nothing = Owned::new(py, (capi.tuple_new)(0))?;
            Owned::new(py, (capi.call)(method.get(), nothing.get(), ptr::null_mut()))?
        };
        if let Some(kept) = take(capsule) {
            return Ok(Some(kept));
        }
    }
    fail!(
        CAI_ERR_TYPE,
        "{FIELD}",
        found = ("an object of type {}", py.type_name(syclobj.get())),
        expected = "a filter string, a context, a queue, a capsule SyclContextRef or \
         SyclQueueRef, or an object with _get_capsule"
    )
}
