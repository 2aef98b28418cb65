//! `syclobj`: the context or the queue that memory of oneAPI is bound to, in all its forms.
//!
//! May use: `abi`, `error`; of this folder `capi`, `interpreter`. `unsafe`: calls CPython with its
//! lock held.
//!
//! A queue becomes the array's `stream`, for work may be pending on it; a context its `context`.
//! The references are those of SYCL's C interface (`DPCTLSyclQueueRef`, `DPCTLSyclContextRef`). A
//! filter string names the default context of a device, which nobody but SYCL's runtime can find:
//! both stay unknown then.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::abi::cai_array;
use crate::error::{Result, fail};
use crate::python::capsules::{CONTEXT, QUEUE};
use crate::python::interpreter::{Owned, Py};

/// Writes down what an object stands for. Answers what has to be kept alive for it.
pub fn context(py: Py, syclobj: &Owned, array: &mut cai_array) -> Result<Option<Owned>> {
    const FIELD: &str = "__sycl_usm_array_interface__['syclobj']";
    let capi = py.capi();
    if py.is(syclobj.get(), capi.str_type) {
        return Ok(None);
    }
    let pointer = |capsule: &Owned, name: &CStr| -> *mut c_void {
        // SAFETY: the lock is held; any object may be asked.
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
    // dpctl's own types, and whoever else has the method.
    if let Some(method) = py.attribute(syclobj.get(), py.names.get_capsule)? {
        // SAFETY: the lock is held.
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
        expected = "a filter string, a context, a queue, a capsule SyclContextRef or SyclQueueRef, or an object with _get_capsule"
    )
}
