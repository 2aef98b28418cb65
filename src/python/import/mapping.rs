//! The values of a dictionary that is read through CPython's functions.

use crate::error::{Result, Text, fail};
use crate::python::import::dict_keys::{Held, OFFSET, Protocol, STREAM};
use crate::python::import::options::ImportOptions;
use crate::python::py::{Builtin, Name, Obj, Owned, Py, Type};

/// Returns true for an object that has values by keys, and is not something else that has items.
fn is_mapping(py: Py, object: Obj) -> bool {
    const OTHERS: [Builtin; 5] =
        [Builtin::Str, Builtin::Bytes, Builtin::ByteArray, Builtin::List, Builtin::Tuple];
    object.is_mapping(py) && !OTHERS.iter().any(|&of| object.is_a(py, of))
}

/// Returns a mapping's values: no exact dictionary, or one with keys that define comparison.
pub fn look_up<'py>(
    py: Py<'py>,
    mapping: Obj,
    protocol: Protocol,
    options: &ImportOptions,
) -> Result<Held<'py>> {
    let is_dict = mapping.is_a(py, Builtin::Dict);
    if !is_dict && (options.strict() || !is_mapping(py, mapping)) {
        let found = match mapping.is_none(py) {
            true => Text::new(format_args!("None")),
            false => mapping.type_name(py),
        };
        let hint = match found.as_str() {
            "method" | "function" | "builtin_function_or_method" => ": make it a property",
            "property" | "getset_descriptor" | "member_descriptor" => {
                ": pass an instance, not the class"
            }
            _ => "",
        };
        return fail!(CAI_ERR_TYPE, "{}", protocol.name();
            found "{found}"; expected "a dictionary{hint}");
    }
    let makes_up = makes_up(py, mapping)?;
    let mut values = Held::default();
    for (index, (&key, value)) in py.names.keys().iter().zip(&mut values).enumerate() {
        let wanted = match protocol {
            Protocol::Cuda | Protocol::Buffer => index < OFFSET,
            Protocol::Host => index <= OFFSET,
            Protocol::Sycl => index != STREAM,
        };
        if wanted {
            *value = item(py, mapping, key, makes_up)?;
        }
    }
    Ok(values)
}

/// Returns true for a type that makes up what is missing, and may store it: it is asked first which
/// keys there are.
pub fn makes_up(py: Py, mapping: Obj) -> Result<bool> {
    Ok(mapping.is_a(py, Builtin::Dict) && Type::of(py, mapping).has(py, py.names.missing)?)
}

/// Returns the value of a key.
pub fn item<'py>(
    py: Py<'py>,
    mapping: Obj,
    key: Name,
    makes_up: bool,
) -> Result<Option<Owned<'py>>> {
    if makes_up && !mapping.contains(py, key)? {
        return Ok(None);
    }
    mapping.optional_item(py, key)
}
