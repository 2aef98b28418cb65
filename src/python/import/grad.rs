//! Tensors whose memory is not all that there is to know: they require grad, or their values are
//! the conjugates or the negatives of those in memory.
//!
//! PyTorch's own dictionary and `__dlpack__` refuse such a tensor, its exchange table does not.
//! A write to it then changes the results of automatic differentiation without a trace.
//!
//! PyTorch computes conjugates and negatives lazily, of views of any type and with any strides. No
//! protocol can express it, and most of PyTorch's exports do not check it.

use crate::abi::{self, cai_array};
use crate::error::{Result, fail};
use crate::python::cache::OfferedTables;
use crate::python::import::options::ImportOptions;
use crate::python::offers;
use crate::python::py::{Exception, Obj, Owned, Py, Type};

/// Fails for a tensor that requires grad, unless the options allow it, and for one whose values are
/// not those in memory. Whether objects of a type may be such tensors is remembered with the type;
/// `offer` is what is known of it. `array` is the one that was imported.
#[inline(always)]
pub fn check(
    py: Py,
    object: Obj,
    options: &ImportOptions,
    offer: &OfferedTables,
    array: &cai_array,
) -> Result<()> {
    if offer.may_be_conjugate {
        check_values(py, object, array)?;
    }
    if !offer.may_require_grad || options.has(abi::CAI_IMPORT_ALLOW_GRAD) {
        return Ok(());
    }
    read(py, object)
}

/// The same for a type of which nothing is known, or nothing any more: code of the producer ran.
#[inline(never)]
pub fn check_anew(py: Py, object: Obj, options: &ImportOptions, array: &cai_array) -> Result<()> {
    let offer = offers::offer(py, object)?;
    check(py, object, options, &offer, array)
}

#[inline(never)]
fn read(py: Py, object: Obj) -> Result<()> {
    // Of the type as it is now: code of the producer may have changed it since the offer was found.
    let by_function = match py.types.grad_getter(object.version(py)) {
        // SAFETY: the GIL is held; the function belongs to the object's type. It returns NULL or a
        // new reference.
        Some((get, closure)) => unsafe { Owned::from_ptr(py, get(object.as_ptr(), closure)) },
        None => None,
    };
    let value = match by_function {
        Some(value) => value,
        None => {
            // The function may have raised AttributeError: then the type may have another answer.
            if py.has_exception() {
                py.clear_if(Exception::Attribute)?;
            }
            match object.optional_attr(py, py.names.requires_grad)? {
                Some(value) => value,
                None => return Ok(()),
            }
        }
    };
    if value.obj() != py.bool(true) {
        return Ok(());
    }
    refuse()
}

#[cold]
fn refuse() -> Result<()> {
    fail!(CAI_ERR_CONVERT_GRAD, "requires_grad";
        found "a tensor that requires grad";
        expected "one that does not: pass tensor.detach(), or set CAI_IMPORT_ALLOW_GRAD")
}

/// Fails for a tensor whose values are the conjugates or the negatives of those in memory. The
/// conjugate of a real number is that number, so only the other question is asked of it.
#[inline(never)]
pub fn check_values(py: Py, object: Obj, array: &cai_array) -> Result<()> {
    let names = &py.names;
    // Only tensors have both methods.
    let has = |name| Type::of(py, object).has(py, name);
    if !has(names.is_conj)? || !has(names.is_neg)? {
        return Ok(());
    }
    let is_real = matches!(array.typestr[1] as u8, b'f' | b'i' | b'u' | b'b');
    if !is_real && object.call_method(py, names.is_conj)?.obj().is_true(py)? {
        return refuse_values("is_conj", "conjugate");
    }
    if object.call_method(py, names.is_neg)?.obj().is_true(py)? {
        return refuse_values("is_neg", "negative");
    }
    Ok(())
}

#[cold]
fn refuse_values(method: &str, bit: &str) -> Result<()> {
    fail!(CAI_ERR_CONVERT_TYPE, "{method}";
        found "a tensor with the {bit} bit: its values are not those in memory";
        expected "a tensor without it: call resolve_conj() or resolve_neg() first")
}
