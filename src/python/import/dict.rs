//! Import from interface dictionaries.
//!
//! May use: `abi`, `dtype`, `dtype::fields`, `error`, `owner::description`, `python::capi`,
//! `python::import::dict_fast`, `python::import::dict_keys`, `python::import::dict_reader`,
//! `python::import::fields`, `python::import::options`, `python::import::sycl`,
//! `python::interpreter`, `python::owner`, `read`, `validate`.
//! Unsafe: calls CPython with the GIL held, and reads validated arrays.

use std::ffi::c_char;
use std::ptr::{self, NonNull};

use crate::abi::{self, cai_array};
use crate::dtype::fields::Fields;
use crate::error::{Result, fail};
use crate::owner::description;
use crate::python::capi::Object;
use crate::python::import::dict_fast::Fast;
use crate::python::import::dict_keys::{Extras, KEYS, Protocol, in_dictionary};
use crate::python::import::options::ImportOptions;
use crate::python::import::{dict_fast, dict_reader, fields, sycl};
use crate::python::interpreter::{Owned, Py, raised};
use crate::python::owner::{Description, attach, attach_with_fields};
use crate::{dtype, validate};

/// What [`read`] found.
pub enum Found {
    /// The object has no such attribute.
    Nothing,
    /// An array that needs nothing more.
    Array,
    /// An array without an owner, for [`finish`].
    Parts(Extras),
}

/// Reads the dictionary in an attribute into `to`.
pub fn read(
    py: Py,
    object: NonNull<Object>,
    protocol: Protocol,
    name: *mut Object,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found> {
    let Some(dictionary) = py.attribute(object.as_ptr(), name)? else { return Ok(Found::Nothing) };
    read_general(py, &dictionary, None, protocol, options, to)
}

/// Reads the dictionary of CUDA's protocol into `to`. `may_be_conjugate`: [`resolved`] has to be
/// asked, because the object's type is not known to offer nothing.
#[inline(always)]
pub fn read_cuda(
    py: Py,
    object: NonNull<Object>,
    may_be_conjugate: bool,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found> {
    let name = py.names.cuda_array_interface;
    let Some(dictionary) = py.attribute_inlined(object.as_ptr(), name)? else {
        return Ok(Found::Nothing);
    };
    if !dict_fast::is_in_place(py, &dictionary) {
        return read_general(py, &dictionary, None, Protocol::Cuda, options, to);
    }
    let mut values = [ptr::null_mut(); KEYS];
    let found = if dict_fast::entries(py, dictionary.get(), &mut values) {
        dict_fast::read::<true>(py, &values, options.strict(), to)
    } else {
        Fast::Stale
    };
    match found {
        Fast::Read { descr, mask } if descr.is_null() && mask.is_null() => {}
        Fast::Read { descr, mask } => return Ok(Found::Parts(Extras::share(py, descr, mask))),
        Fast::General => {
            return read_general(py, &dictionary, Some(&values), Protocol::Cuda, options, to);
        }
        Fast::Stale => return read_general(py, &dictionary, None, Protocol::Cuda, options, to),
    }
    // SAFETY: the array was described above, with `ndim` values. Its other members are those that
    // `dict_fast` sets.
    if !unsafe { validate::is_layout_sound(to.array()) } {
        not_sound(to)?;
    }
    attach(py, &mut to.array, Owned::share(py, object), None)?;
    if may_be_conjugate && may_be_unresolved(to) {
        resolved(py, object, &to.array, Protocol::Cuda.name())?;
    }
    Ok(Found::Array)
}

/// Reads a dictionary that comes without its object.
pub fn read_given(
    py: Py,
    dictionary: &Owned,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found> {
    read_general(py, dictionary, None, protocol, options, to)
}

/// Fails, unless the array is sound after all.
#[cold]
#[inline(never)]
fn not_sound(to: &mut Description) -> Result<()> {
    // SAFETY: the array was described, with `ndim` values.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| in_dictionary(Protocol::Cuda, failure))
}

/// Returns false for arrays of which [`resolved`] is true without asking: those of other kinds, and
/// floats in C order of at least two elements.
#[inline(always)]
fn may_be_unresolved(to: &Description) -> bool {
    match to.array.typestr[1] as u8 {
        b'c' => true,
        b'f' => to.has_strides || !to.extents().iter().any(|&extent| extent > 1),
        _ => false,
    }
}

#[inline(never)]
fn read_general(
    py: Py,
    dictionary: &Owned,
    values: Option<&[*mut Object; KEYS]>,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found> {
    match values {
        Some(values) => dict_reader::read_values(py, values, protocol, options, to),
        None => dict_reader::read(py, dictionary, protocol, options, to),
    }
    .map(Found::Parts)
}

/// Fails for tensors of PyTorch whose values are the conjugates, or the negatives, of those in
/// memory: views that compute that later. No protocol can express it, and most of PyTorch's exports
/// do not check. It is checked here for complex tensors, and for tensors that may be the imaginary
/// part of one, whose strides are even.
#[inline(always)]
pub fn resolved(
    py: Py,
    object: NonNull<Object>,
    array: &cai_array,
    name: &'static str,
) -> Result<()> {
    let [_, kind, size, ..] = array.typestr.map(|byte| byte as u8);
    let every_other = || {
        // SAFETY: the array was validated, so shape and strides refer to `ndim` values.
        let Ok((shape, strides)) = (unsafe { crate::read::shape_and_strides(array) }) else {
            return true;
        };
        // The size of two elements, less one. The size is a power of two if it has one digit;
        // tensors of other sizes may be asked as well.
        let within = 2 * i64::from(size.wrapping_sub(b'0')) - 1;
        match strides {
            None => shape.iter().all(|&extent| extent < 2),
            // The last dimension decides nearly always.
            Some(strides) => {
                let mut dimensions = shape.iter().zip(strides).rev();
                dimensions.all(|(&extent, &stride)| extent < 2 || stride & within == 0)
            }
        }
    };
    if kind == b'c' || (kind == b'f' && every_other()) {
        ask_resolved(py, object, name)
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn ask_resolved(py: Py, object: NonNull<Object>, name: &'static str) -> Result<()> {
    let capi = py.capi();
    // Only tensors have both methods.
    for (method, bit) in [(py.names.is_conj, "conjugate"), (py.names.is_neg, "negative")] {
        if !py.type_has(object.as_ptr(), method)? {
            return Ok(());
        }
        let Some(method) = py.attribute(object.as_ptr(), method)? else { return Ok(()) };
        // SAFETY: the GIL is held.
        let set = unsafe {
            let nothing = Owned::new(py, (capi.tuple_new)(0))?;
            let answer = Owned::new(py, (capi.call)(method.get(), nothing.get(), ptr::null_mut()))?;
            (capi.is_true)(answer.get())
        };
        if set < 0 {
            return raised();
        }
        if set > 0 {
            return fail!(
                CAI_ERR_CONVERT_TYPE,
                "{name}",
                found = "a tensor with the {bit} bit: its values are not those in memory",
                expected = "a tensor without it: call resolve_conj() or resolve_neg() first"
            );
        }
    }
    Ok(())
}

/// Attaches an owner that also holds the fields.
#[inline(never)]
fn attach_with_descr(
    py: Py,
    to: &mut Description,
    object: Owned,
    more: Option<Owned>,
    descr: &Owned,
    options: &ImportOptions,
) -> Result<()> {
    let mut fields = Fields::new();
    fields::read(py, descr, options.strict(), &mut fields)
        .map_err(|failure| failure.within(format_args!("descr")))?;
    let given = !fields.is_trivial(&to.array.typestr);
    to.array();
    attach_with_fields(py, &mut to.array, object, more, given.then_some(&fields))
}

/// Completes what [`read`] left open: fields, the mask, SYCL's objects, and the owner.
pub fn finish(
    py: Py,
    object: NonNull<Object>,
    protocol: Protocol,
    options: &ImportOptions,
    extras: Extras,
    mut mask: Option<Description>,
    to: &mut Description,
) -> Result<()> {
    let mut more = None;
    if let Some(syclobj) = &extras.syclobj {
        more = Some(sycl::bind(py, object, syclobj, &mut to.array)?);
    }
    let in_dictionary = |failure| in_dictionary(protocol, failure);
    let held = Owned::share(py, object);
    match &extras.descr {
        Some(descr) => {
            attach_with_descr(py, to, held, more, descr, options).map_err(in_dictionary)?;
        }
        None => {
            to.array();
            attach(py, &mut to.array, held, more)?;
        }
    }
    if let (Some(mask), Some(of)) = (&mut mask, extras.mask_object()) {
        as_bits(py, of, options, to, &mut mask.array);
    }
    to.array.mask = mask.as_ref().map_or(ptr::null(), |mask| &raw const mask.array);
    // SAFETY: the array was described above; its fields and its mask are alive.
    let sound = unsafe { validate::array(&to.array, abi::CAI_CHECK_LAYOUT) };
    let mask_found = std::mem::replace(&mut to.array.mask, ptr::null());
    if !dtype::has_fields(&to.array) {
        // The typestr alone says what the elements are. The fields were only checked.
        to.array.descr = ptr::null();
    }
    sound.map_err(in_dictionary)?;
    resolved(py, object, &to.array, protocol.name())?;
    if mask_found.is_null() {
        return Ok(());
    }
    let described = cai_array { mask: mask_found, ..to.array };
    // SAFETY: validated above; the owner is the one that was attached, and `mask` holds those of
    // the masks.
    let array = unsafe { description::new(&described, ptr::null_mut(), None) }?;
    to.set(array);
    Ok(())
}

/// Corrects the masks of cuDF, which are bit fields declared as bytes: one bit for each element, in
/// a padded buffer. Only the object's module distinguishes them from bytes.
fn as_bits(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    array: &Description,
    mask: &mut cai_array,
) {
    let [extent] = *array.extents() else { return };
    if mask.ndim != 1
        || mask.typestr[1] as u8 != b'u'
        || mask.typestr[2] as u8 != b'1'
        || mask.shape.is_null()
    {
        return;
    }
    // SAFETY: the mask was imported, so it was validated, and has one dimension.
    let (bytes, stride) =
        unsafe { (*mask.shape, if mask.strides.is_null() { 1 } else { *mask.strides }) };
    let enough = bytes.checked_mul(8).is_none_or(|bits| bits >= extent);
    let module = py.type_attribute(object.as_ptr(), py.names.module);
    let of_cudf = match &module {
        Ok(Some(module)) if py.is(module.get(), py.capi().str_type) => {
            let text = py.text(module.get()).unwrap_or_default();
            text == b"cudf" || text.starts_with(b"cudf.")
        }
        Ok(_) => false,
        Err(_) => {
            py.clear();
            false
        }
    };
    if stride == 1 && enough && (of_cudf || (options.lenient() && bytes != extent)) {
        mask.typestr[..4].copy_from_slice(&[b'|', b't', b'1', 0].map(|byte| byte as c_char));
        mask.shape = array.shape.as_ptr().cast();
        mask.strides = ptr::null();
    }
}
