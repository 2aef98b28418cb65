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
use crate::python::cache::{Grad, Offer};
use crate::python::capi::Object;
use crate::python::import::options::ImportOptions;
use crate::python::interpreter::{Owned, Py};
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
    if matches!(offer.grad, Grad::Never) || options.grad() {
        return Ok(());
    }
    ask(py, object, offer.grad)
}

/// The same for a type of which `offer` is known, or nothing yet.
pub fn check_any(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    offer: Option<Offer>,
) -> Result<()> {
    let offer = match offer {
        Some(offer) => offer,
        None => offers::offer(py, object.as_ptr())?,
    };
    check(py, object, options, &offer)
}

#[inline(never)]
fn ask(py: Py, object: NonNull<Object>, grad: Grad) -> Result<()> {
    let value = match grad {
        Grad::Never => return Ok(()),
        // SAFETY: the GIL is held; the function belongs to the object's type.
        Grad::Getter(get, closure) => Owned::new(py, unsafe { get(object.as_ptr(), closure) })?,
        Grad::Attribute => match py.attribute(object.as_ptr(), py.names.requires_grad)? {
            Some(value) => value,
            None => return Ok(()),
        },
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
