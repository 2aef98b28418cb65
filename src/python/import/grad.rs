//! Tensors whose memory is not all that there is to know: they require grad, or their values are
//! the conjugates or the negatives of those in memory.
//!
//! PyTorch's own dictionary and `__dlpack__` refuse such a tensor, its exchange table does not.
//! What is written to it then changes the results of automatic differentiation without a trace.
//!
//! PyTorch computes conjugates and negatives lazily, of views of any type and with any strides. No
//! protocol can express it, and most of PyTorch's exports do not check it.

use std::ptr::{self, NonNull};

use crate::abi::cai_array;
use crate::error::{Result, fail};
use crate::python::cache::Offer;
use crate::python::capi::Object;
use crate::python::import::options::ImportOptions;
use crate::python::offers;
use crate::python::py::{Name, Obj, Owned, Py, raised};

/// Fails for a tensor that requires grad, unless the options allow it, and for one whose values are
/// not those in memory. Whether objects of a type may be such tensors is remembered with the type;
/// `offer` is what is known of it. `array` is the one that was imported.
#[inline(always)]
pub fn check(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    offer: &Offer,
    array: &cai_array,
) -> Result<()> {
    if offer.may_be_conjugate {
        check_values(py, object, array)?;
    }
    if !offer.may_require_grad || options.grad() {
        return Ok(());
    }
    read(py, object)
}

/// The same for a type of which nothing is known, or nothing any more: code of the producer ran.
#[inline(never)]
pub fn check_anew(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    array: &cai_array,
) -> Result<()> {
    // SAFETY: the object is alive.
    let offer = offers::offer(py, unsafe { Obj::new(object) })?;
    check(py, object, options, &offer, array)
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

/// Fails for a tensor whose values are the conjugates or the negatives of those in memory. The
/// conjugate of a real number is that number, so only the other question is asked of it.
#[inline(never)]
pub fn check_values(py: Py, object: NonNull<Object>, array: &cai_array) -> Result<()> {
    let names = &py.names;
    // Only tensors have both methods.
    if !py.type_has(object.as_ptr(), names.is_conj)?
        || !py.type_has(object.as_ptr(), names.is_neg)?
    {
        return Ok(());
    }
    let is_real = matches!(array.typestr[1] as u8, b'f' | b'i' | b'u' | b'b');
    if !is_real && answers_true(py, object, names.is_conj)? {
        return refuse_values("is_conj", "conjugate");
    }
    if answers_true(py, object, names.is_neg)? {
        return refuse_values("is_neg", "negative");
    }
    Ok(())
}

/// Calls a method without arguments. Returns whether its result is true.
fn answers_true(py: Py, object: NonNull<Object>, method: Name) -> Result<bool> {
    let capi = py.capi();
    // SAFETY: the GIL is held; the arguments are one object, which is alive.
    let answer = unsafe {
        match capi.call_method {
            Some(call) => {
                Owned::new(py, call(method.as_ptr(), &object.as_ptr(), 1, ptr::null_mut()))?
            }
            None => {
                let method = Owned::new(py, (capi.get_attr)(object.as_ptr(), method.as_ptr()))?;
                let nothing = Owned::new(py, (capi.tuple_new)(0))?;
                Owned::new(py, (capi.call)(method.get(), nothing.get(), ptr::null_mut()))?
            }
        }
    };
    if answer.get() == capi.r#false {
        return Ok(false);
    }
    // SAFETY: the GIL is held; the object is alive.
    match unsafe { (capi.is_true)(answer.get()) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => raised(),
    }
}

#[cold]
fn refuse_values(method: &str, bit: &str) -> Result<()> {
    fail!(
        CAI_ERR_CONVERT_TYPE,
        "{method}",
        found = "a tensor with the {bit} bit: its values are not those in memory",
        expected = "a tensor without it: call resolve_conj() or resolve_neg() first"
    )
}
