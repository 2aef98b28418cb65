//! Import from interface dictionaries.

use std::ffi::c_char;
use std::ptr::{self, NonNull};

use crate::abi::{self, cai_array};
use crate::dtype::fields::Fields;
use crate::error::Result;
use crate::owner::{Destructor, description};
use crate::python::capi::Object;
use crate::python::import::dict_fast::Fast;
use crate::python::import::dict_keys::{Extras, KEYS, Protocol, in_dictionary};
use crate::python::import::options::ImportOptions;
use crate::python::import::{dict_fast, dict_reader, fields, sycl};
use crate::python::owner::{Description, attach, attach_with_fields};
use crate::python::py::{Name, Owned, Py};
use crate::{dtype, validate};

/// What [`read`] found.
pub enum Found<'py> {
    /// The object has no such attribute.
    Nothing,
    /// An array that needs nothing more.
    Array,
    /// An array without an owner, for [`finish`].
    Parts(Extras<'py>),
}

/// Reads the dictionary in an attribute into `to`.
pub fn read<'py>(
    py: Py<'py>,
    object: NonNull<Object>,
    protocol: Protocol,
    name: Name,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found<'py>> {
    let Some(dictionary) = py.attribute(object.as_ptr(), name)? else { return Ok(Found::Nothing) };
    read_general(py, &dictionary, None, protocol, options, to)
}

/// Reads the dictionary of CUDA's protocol into `to`.
#[inline(always)]
pub fn read_cuda<'py>(
    py: Py<'py>,
    object: NonNull<Object>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found<'py>> {
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
    // SAFETY: the array was described above, with `ndim` values.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| in_dictionary(Protocol::Cuda, failure))?;
    attach(py, &mut to.array, Owned::share(py, object), None)?;
    Ok(Found::Array)
}

/// Reads a dictionary that comes without its object.
pub fn read_given<'py>(
    py: Py<'py>,
    dictionary: &Owned,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found<'py>> {
    read_general(py, dictionary, None, protocol, options, to)
}

#[inline(never)]
fn read_general<'py>(
    py: Py<'py>,
    dictionary: &Owned,
    values: Option<&[*mut Object; KEYS]>,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Found<'py>> {
    match values {
        Some(values) => dict_reader::read_values(py, values, protocol, options, to),
        None => dict_reader::read(py, dictionary, protocol, options, to),
    }
    .map(Found::Parts)
}

/// Attaches an owner that also holds the fields.
#[inline(never)]
fn attach_with_descr<'py>(
    py: Py<'py>,
    to: &mut Description,
    object: Owned<'py>,
    more: Option<Owned<'py>>,
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
pub fn finish<'py>(
    py: Py<'py>,
    object: NonNull<Object>,
    protocol: Protocol,
    options: &ImportOptions,
    extras: Extras<'py>,
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
    if mask_found.is_null() {
        return Ok(());
    }
    let described = cai_array { mask: mask_found, ..to.array };
    // SAFETY: validated above; the owner is the one that was attached, and `mask` holds those of
    // the masks.
    let copy = unsafe { description::prepare(&described) }?.finish(Destructor::NONE);
    to.set(copy.into_raw());
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
