//! Import from interface dictionaries.

use std::ffi::c_char;
use std::ptr;

use crate::abi::{self, cai_array};
use crate::dtype::fields::Fields;
use crate::error::Result;
use crate::owner::{Destructor, description};
use crate::python::import::dict_keys::{Held, OtherObjects, Protocol, in_dictionary};
use crate::python::import::options::ImportOptions;
use crate::python::import::{dict_explained, dict_in_place, dict_version4, fields, sycl};
use crate::python::owner::{Description, Holder, attach, attach_with_fields, attach_with_mask};
use crate::python::py::{Builtin, Name, Obj, Owned, Py, Type};
use crate::read::Unchecked;
use crate::{dtype, validate};

/// Reads the dictionary in an attribute into `to`: an array without an owner, for [`finish`]. `None`:
/// the object has no such attribute.
pub fn read<'py>(
    py: Py<'py>,
    object: Obj,
    protocol: Protocol,
    name: Name,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Option<OtherObjects<'py>>> {
    let Some(dictionary) = object.optional_attr(py, name)? else { return Ok(None) };
    dict_explained::read(py, dictionary.obj(), protocol, options, to).map(Some)
}

/// Reads a dictionary of CUDA's protocol into `to`: the one that is `given` with the object that keeps
/// its data alive, or that of the object, if it has one. The array has an owner then, or it is one
/// for [`finish`], with the objects that are returned.
#[inline(always)]
pub fn read_cuda<'py>(
    py: Py<'py>,
    object: Obj,
    given: Option<Obj>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Option<OtherObjects<'py>>> {
    let attribute;
    let dictionary = match given {
        Some(dictionary) => dictionary,
        None => match object.optional_attr_inlined(py, py.names.cuda_array_interface)? {
            Some(found) => {
                attribute = found;
                attribute.obj()
            }
            None => return Ok(None),
        },
    };
    let mut values = None;
    let extras = match dict_in_place::read(py, dictionary, options, to, &mut values)? {
        Some(extras) => extras,
        None => explain(py, dictionary, &values, options, to)?,
    };
    if extras.descr.is_some() || extras.mask.is_some() {
        return Ok(Some(extras));
    }
    // SAFETY: the array was described above, with `ndim` values, and has neither fields nor a mask.
    // `describe` refuses what is wrong in its other members.
    unsafe { validate::described_layout(to.array()) }
        .map_err(|failure| in_dictionary(Protocol::Cuda, failure))?;
    match to.holder {
        Holder::Owner => attach(py, &mut to.array, object.share(py), None)?,
        _ => to.holder = Holder::Caller,
    }
    Ok(None)
}

/// Reads the dictionary of CUDA's protocol again, or its values.
#[cold]
#[inline(never)]
fn explain<'py>(
    py: Py<'py>,
    dictionary: Obj,
    values: &Option<Held<'py>>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<OtherObjects<'py>> {
    let extras = match values {
        Some(values) => dict_explained::read_values(py, values, Protocol::Cuda, options, to)?,
        None => dict_explained::read(py, dictionary, Protocol::Cuda, options, to)?,
    };
    if options.has(abi::CAI_UNSTABLE_IMPORT_VERSION_4) {
        dict_version4::read(py, dictionary, to)?;
    }
    Ok(extras)
}

/// Attaches an owner that also holds the fields.
#[inline(never)]
fn attach_with_descr<'py>(
    py: Py<'py>,
    to: &mut Description,
    object: Obj,
    more: Option<Owned<'py>>,
    descr: Obj,
    options: &ImportOptions,
) -> Result<()> {
    let [_, kind, ..] = to.array().typestr;
    if kind as u8 == b'V'
        && more.is_none()
        && dict_in_place::attach_fields(py, &mut to.array, object, descr)?
    {
        return Ok(());
    }
    let mut fields = Fields::new();
    fields::read(py, descr, options.strict(), &mut fields)
        .map_err(|failure| failure.within(format_args!("descr")))?;
    let given = !fields.is_trivial(&to.array.typestr);
    attach_with_fields(py, &mut to.array, object.share(py), more, given.then_some(&fields))
}

/// Attaches an owner that also holds a mask, of which only the layout was checked, and the mask's
/// object. Returns false, and has done nothing, if there is no space for it.
fn attach_with_lent(
    py: Py,
    to: &mut Description,
    object: Obj,
    mask: &Description,
    of: Obj,
) -> Result<bool> {
    to.array();
    // SAFETY: it was described, with as many extents and strides as it says, and nothing else.
    let mask = unsafe { Unchecked::new(&mask.array) };
    attach_with_mask(py, &mut to.array, object, mask, of)
}

/// Completes what [`read`] left open: fields, the mask, SYCL's objects, and the owner.
pub fn finish<'py>(
    py: Py<'py>,
    object: Obj,
    protocol: Protocol,
    options: &ImportOptions,
    mut extras: OtherObjects<'py>,
    mut mask: Option<&mut Description>,
    to: &mut Description,
) -> Result<()> {
    let mut more = extras.lent.take();
    if let Some(syclobj) = &extras.syclobj {
        more = Some(sycl::bind(py, object, syclobj.obj(), &mut to.array)?);
    }
    let in_dictionary = |failure| in_dictionary(protocol, failure);
    let mut is_in_owner = false;
    if let (Some(mask), Some(of)) = (&mut mask, extras.mask_object()) {
        as_bits(py, of, options, to, &mut mask.array);
        if mask.holder == Holder::Caller {
            is_in_owner = extras.descr.is_none()
                && more.is_none()
                && attach_with_lent(py, to, object, mask, of)?;
            if !is_in_owner {
                attach(py, &mut mask.array, of.share(py), None)?;
            }
        }
    }
    if !is_in_owner {
        match &extras.descr {
            Some(descr) => {
                attach_with_descr(py, to, object, more, descr.obj(), options)
                    .map_err(in_dictionary)?;
            }
            None => {
                to.array();
                attach(py, &mut to.array, object.share(py), more)?;
            }
        }
        to.array.mask = mask.as_ref().map_or(ptr::null(), |mask| &raw const mask.array);
    }
    // SAFETY: the array was described above; its fields and its mask are alive.
    let sound = unsafe { validate::array(&to.array, abi::CAI_CHECK_LAYOUT) };
    if is_in_owner {
        return sound.map_err(in_dictionary);
    }
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
    let described = unsafe { Unchecked::new(&described) };
    let copy = description::prepare(described)?.finish(Destructor::NONE);
    to.set(copy.into_raw());
    Ok(())
}

/// Corrects the masks of cuDF, which are bit fields declared as bytes: one bit for each element, in
/// a padded buffer. Only the object's module distinguishes them from bytes.
fn as_bits(
    py: Py,
    object: Obj,
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
    let module = Type::of(py, object).obj().optional_attr(py, py.names.module);
    let of_cudf = match &module {
        Ok(Some(module)) if module.obj().is_a(py, Builtin::Str) => {
            let text = module.obj().text(py).unwrap_or_default();
            text == b"cudf" || text.starts_with(b"cudf.")
        }
        Ok(_) => false,
        Err(_) => {
            py.clear();
            false
        }
    };
    let of_others = options.has(abi::CAI_IMPORT_ALLOW_PACKED_MASK) && bytes != extent;
    if stride == 1 && enough && (of_cudf || of_others) {
        mask.typestr[..4].copy_from_slice(&[b'|', b't', b'1', 0].map(|byte| byte as c_char));
        mask.shape = array.shape.as_ptr().cast();
        mask.strides = ptr::null();
        if extent == 0 {
            // The padding alone is no element.
            mask.data = ptr::null_mut();
        }
    }
}
