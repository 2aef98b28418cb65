//! Tensors that require grad.
//!
//! May use: `error`, `python::cache`, `python::capi`, `python::import::options`,
//! `python::interpreter`, `python::offers`.
//! Unsafe: calls the function of an attribute with the GIL held.
//!
//! PyTorch's own dictionary and `__dlpack__` refuse such a tensor, its exchange table does not.
//! What is written to it then changes the results of automatic differentiation without a trace.

use std::ptr::NonNull;

use crate::error::{Result, fail};
use crate::python::cache::Offer;
use crate::python::capi::Object;
use crate::python::import::options::ImportOptions;
use crate::python::interpreter::{Owned, Py, raised};
use crate::python::offers;

/// Fails for a tensor that requires grad, unless the options allow it. Whether objects of a type
/// may require grad is remembered with the type; `offer` is what is known of it.
#[inline(always)]
pub fn check(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    offer: &Offer,
) -> Result<()> {
    if !offer.may_require_grad || options.grad() {
        return Ok(());
    }
    read(py, object)
}

/// The same for a type of which nothing is known, or nothing any more: code of the producer ran.
#[inline(never)]
pub fn check_anew(py: Py, object: NonNull<Object>, options: &ImportOptions) -> Result<()> {
    if options.grad() {
        return Ok(());
    }
    check(py, object, options, &offers::offer(py, object.as_ptr())?)
}

#[inline(never)]
fn read(py: Py, object: NonNull<Object>) -> Result<()> {
    // Of the type as it is now: code of the producer may have changed it since the offer was found.
    let by_function = match py.types.grad_getter(py.version_of(object.as_ptr())) {
        // SAFETY: the GIL is held; the function belongs to the object's type.
        Some((get, closure)) => NonNull::new(unsafe { get(object.as_ptr(), closure) }),
        None => None,
    };
    let value = match by_function {
        Some(object) => Owned { object, py },
        None => {
            // The function may have raised AttributeError: then the type may have another answer.
            if py.has_exception() {
                // SAFETY: the GIL is held, and an exception is set.
                if unsafe { (py.capi().error_matches)(*py.capi().attribute_error) } == 0 {
                    return raised();
                }
                py.clear();
            }
            match py.attribute(object.as_ptr(), py.names.requires_grad)? {
                Some(value) => value,
                None => return Ok(()),
            }
        }
    };
    if value.get() != py.capi().r#true {
        return Ok(());
    }
    refuse()
}

#[cold]
fn refuse() -> Result<()> {
    fail!(
        CAI_ERR_CONVERT_GRAD,
        "requires_grad",
        found = "a tensor that requires grad",
        expected = "one that does not: pass tensor.detach(), or set CAI_IMPORT_ALLOW_GRAD"
    )
}
