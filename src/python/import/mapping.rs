//! The values of a dictionary that is read through CPython's functions.

use std::ptr::{self, NonNull};

use crate::error::{Result, Text, fail};
use crate::python::capi::Object;
use crate::python::import::dict_keys::{OFFSET, Protocol, STREAM, Values};
use crate::python::import::options::ImportOptions;
use crate::python::py::{Owned, Py, raised};

/// Returns the values of a mapping that is no exact dictionary, or that other threads may change.
pub fn look_up<'py>(
    py: Py<'py>,
    mapping: *mut Object,
    exact: bool,
    protocol: Protocol,
    options: &ImportOptions,
) -> Result<Values<'py>> {
    let capi = py.capi();
    let names = &py.names;
    let keys = [
        names.shape,
        names.typestr,
        names.data,
        names.version,
        names.strides,
        names.descr,
        names.mask,
        names.stream,
        names.offset,
        names.syclobj,
    ];
    let is_mapping = |object: *mut Object| {
        // SAFETY: the GIL is held; any object may be passed.
        let maps = unsafe { (capi.mapping_check)(object) } != 0;
        let other =
            [capi.str_type, capi.bytes_type, capi.bytearray_type, capi.list_type, capi.tuple_type];
        maps && !other.iter().any(|&of| py.is(object, of))
    };
    let welcome = py.is(mapping, capi.dict_type) || (!options.strict() && is_mapping(mapping));
    if !welcome {
        let found = if mapping == capi.none {
            Text::new(format_args!("None"))
        } else {
            py.type_name(mapping)
        };
        let hint = match found.as_str() {
            "method" | "function" | "builtin_function_or_method" => ": make it a property",
            "property" | "getset_descriptor" | "member_descriptor" => {
                ": pass an instance, not the class"
            }
            _ => "",
        };
        return fail!(
            CAI_ERR_TYPE,
            ("{}", protocol.name()),
            found = "{found}",
            expected = "a dictionary{hint}"
        );
    }
    // A dictionary with a default factory would store what it makes, so membership is tested first.
    let derived = py.is(mapping, capi.dict_type);
    let mut values: Values = Default::default();
    for (index, (&key, value)) in keys.iter().zip(&mut values).enumerate() {
        let wanted = match protocol {
            Protocol::Cuda | Protocol::Host | Protocol::Buffer => index < OFFSET,
            Protocol::Sycl => index != STREAM,
        };
        if !wanted {
            continue;
        }
        if let Some(get) = capi.dict_get_ref.filter(|_| exact) {
            let mut found = ptr::null_mut();
            // SAFETY: the GIL is held; an exact dictionary.
            if unsafe { get(mapping, key.as_ptr(), &raw mut found) } < 0 {
                return raised();
            }
            *value = NonNull::new(found).map(|_| Owned::new(py, found)).transpose()?;
            continue;
        }
        if derived {
            // SAFETY: the GIL is held; both objects are alive.
            match unsafe { (capi.contains)(mapping, key.as_ptr()) } {
                0 => continue,
                1.. => {}
                _ => return raised(),
            }
        }
        // SAFETY: the GIL is held; both objects are alive.
        let found = unsafe { (capi.get_item)(mapping, key.as_ptr()) };
        if found.is_null() {
            // SAFETY: the GIL is held.
            unsafe {
                if (capi.error_matches)(*capi.key_error) == 0 {
                    return raised();
                }
                (capi.error_clear)();
            }
        } else {
            *value = Some(Owned::new(py, found)?);
        }
    }
    Ok(values)
}
