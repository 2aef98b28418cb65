//! Imports Python objects: tries the protocols in order and checks the requirements of the caller.

pub mod array_struct;
pub mod arrow;
pub mod buffer;
pub mod dict;
pub mod dict_explained;
pub mod dict_in_place;
pub mod dict_keys;
pub mod dict_reader;
pub mod dict_version4;
pub mod dlpack;
pub mod exchange_table;
pub mod fields;
pub mod grad;
mod host_memory;
pub mod mapping;
pub mod options;
pub mod pep3118;
pub mod requirements;
pub mod sycl;

use crate::abi;
use crate::argument::{In, Out};
use crate::error::{Failure, Result, Text, fail, failure};
use crate::python::cache::{Missing, OfferedTables};
use crate::python::export::exchange_table::share_as_is;
use crate::python::import::dict_keys::{OtherObjects, Protocol};
use crate::python::import::dlpack::{Method, from_dlpack, from_dlpack_table};
use crate::python::import::exchange_table::{Answer, from_table};
use crate::python::import::options::ImportOptions;
use crate::python::import::requirements::{are_met, check, left_to_others, refuse_mask};
use crate::python::offers;
use crate::python::owner::{Description, Holder};
use crate::python::py::{Builtin, Exception, Name, Obj, Pending, Py, raised};
use crate::sync::identity;

/// Imports an object of this copy of the library, if that takes no more than another reference to
/// the array, which meets the requirements as it is. Returns false where there is more to do, and
/// has done nothing then. Calls nothing foreign.
#[inline]
pub fn share_own(
    py: Py,
    object: Obj,
    options: In<abi::cai_import_options>,
    out: Out<abi::cai_array>,
) -> bool {
    let Some(own) = py.exports().instance(object) else { return false };
    let Some(options) = options::common(options) else { return false };
    share_as_is(&own, out, |array| are_met(array, options))
}

#[inline(always)]
pub fn import(py: Py, object: Obj, options: &ImportOptions, to: &mut Description) -> Result<()> {
    find(py, object, options, 0, to)?;
    identify(to);
    check(to, options)
}

/// Finds out which stream is meant by 2, which another thread would take for its own. 1 is that of
/// the memory's context for every thread, which a begin finds out anyway.
#[inline]
fn identify(to: &mut Description) {
    if to.array.stream == abi::CAI_STREAM_PER_THREAD {
        identity::identify_per_thread(&mut to.array);
    }
}

/// Imports a dictionary that comes without its object. `owner` keeps the data alive.
#[inline(never)]
pub fn import_dictionary(
    py: Py,
    dictionary: Obj,
    owner: Obj,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<()> {
    let protocol = match options.raw.protocols {
        [0 | abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, 0, ..] => Protocol::Cuda,
        [abi::CAI_PROTOCOL_SYCL_USM, 0, ..] => Protocol::Sycl,
        [abi::CAI_PROTOCOL_ARRAY_INTERFACE, 0, ..] => Protocol::Host,
        [first, second, ..] => {
            return fail!(CAI_ERR_ARGUMENT, "options->protocols";
                found "{first}, {second}";
                expected "at most one, which has a dictionary: CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, \
                    _SYCL_USM or _ARRAY_INTERFACE");
        }
    };
    if protocol == Protocol::Host && !options.host() {
        return fail!(CAI_ERR_HOST_MEMORY, "dictionary";
            found "an array in host memory"; expected "CAI_IMPORT_ALLOW_HOST among the flags");
    }
    // The caller's reference may go while code of the producer runs.
    let held = dictionary.share(py);
    let read = match protocol {
        Protocol::Cuda => from_cuda(py, owner, Some(held.obj()), options, 0, to),
        _ => dict_explained::read(py, held.obj(), protocol, options, to)
            .and_then(|extras| from_parts(py, owner, protocol, options, 0, extras, to)),
    };
    read.map_err(|failure| match is_no_dictionary(&failure) {
        true => instead_of_dictionary(py, held.obj()).unwrap_or(failure),
        false => failure,
    })?;
    // A plain dictionary, which is its own owner if the caller names none, is no tensor.
    if !owner.is_exactly(py, Builtin::Dict) {
        grad::check_values(py, owner, &to.array)?;
    }
    identify(to);
    check(to, options)
}

/// Returns true for a failure about the whole, and not about the value of a key.
#[cold]
fn is_no_dictionary(failure: &Failure) -> bool {
    failure.status() == abi::CAI_ERR_TYPE
        && failure.details().is_some_and(|details| !details.field.as_str().contains('['))
}

/// The failure for an object that was passed in place of its dictionary.
#[cold]
fn instead_of_dictionary(py: Py, object: Obj) -> Option<Failure> {
    // The attribute only makes a message better. An exception is not the caller's.
    let attribute = object.optional_attr(py, py.names.cuda_array_interface);
    attribute.unwrap_or_else(|_| (py.clear(), None).1)?;
    Some(failure!(abi::CAI_ERR_TYPE, "dictionary";
        found "an object of type {}", object.type_name(py);
        expected "its dictionary; cai_array_from_python takes the object"))
}

/// Imports through the dictionary of CUDA's protocol if the object has one, or through the one that
/// is given with it: then `to` has an owner. Most imports are made by this one function, whose
/// arguments and result fit into registers.
#[inline(never)]
fn from_cuda(
    py: Py,
    object: Obj,
    given: Option<Obj>,
    options: &ImportOptions,
    depth: i32,
    to: &mut Description,
) -> Result<()> {
    match dict::read_cuda(py, object, given, options, to)? {
        None => Ok(()),
        Some(extras) => from_parts(py, object, Protocol::Cuda, options, depth, extras, to),
    }
}

/// Imports through a dictionary; its mask is imported by any protocol.
fn from_dictionary(
    py: Py,
    object: Obj,
    protocol: Protocol,
    name: Name,
    options: &ImportOptions,
    depth: i32,
    to: &mut Description,
) -> Result<bool> {
    let Some(extras) = dict::read(py, object, protocol, name, options, to)? else {
        return Ok(false);
    };
    from_parts(py, object, protocol, options, depth, extras, to).map(|()| true)
}

fn from_sycl(
    py: Py,
    object: Obj,
    options: &ImportOptions,
    depth: i32,
    to: &mut Description,
) -> Result<bool> {
    let name = py.names.sycl_usm_array_interface;
    from_dictionary(py, object, Protocol::Sycl, name, options, depth, to)
}

#[cold]
#[inline(never)]
fn from_parts<'py>(
    py: Py<'py>,
    object: Obj,
    protocol: Protocol,
    options: &ImportOptions,
    depth: i32,
    extras: OtherObjects<'py>,
    to: &mut Description,
) -> Result<()> {
    let mut mask = None;
    if let Some(object) = extras.mask_object() {
        if !options.has(abi::CAI_IMPORT_ALLOW_MASK) {
            return Err(refuse_mask(format_args!("{}['mask']", protocol.name())));
        }
        if depth >= abi::CAI_MAX_MASKS {
            return fail!(CAI_ERR_MASK_DEPTH, "{}['mask']", protocol.name();
                found "a longer chain of masks"; expected "at most {}", abi::CAI_MAX_MASKS);
        }
        let found = mask.insert(Description::new());
        found.holder = Holder::CallerIfAsked;
        let of_mask = options.of_mask(protocol.number());
        find(py, object, &of_mask, depth + 1, found)
            .map_err(|failure| in_mask(py, object, protocol.name(), options, failure))?;
        identify(found);
    }
    dict::finish(py, object, protocol, options, extras, mask.as_mut(), to)
}

#[cold]
fn in_mask(
    py: Py,
    mask: Obj,
    field: &'static str,
    options: &ImportOptions,
    failure: Failure,
) -> Failure {
    let wanted = if options.strict() { ["an object with ", field] } else { ["an ", "array"] };
    if failure.status() == abi::CAI_ERR_NO_PROTOCOL {
        // The message about an object alone names no field.
        return failure!(abi::CAI_ERR_NO_PROTOCOL, "{field}['mask']";
            found "an object of type {}", mask.type_name(py);
            expected "{}{}, or None", wanted[0], wanted[1]);
    }
    failure.within(format_args!("{field}['mask']."))
}

/// Tries the protocols. `depth` is the number of arrays that the object is a mask of.
#[inline]
pub fn find(
    py: Py,
    object: Obj,
    options: &ImportOptions,
    depth: i32,
    to: &mut Description,
) -> Result<()> {
    let default_order = options.raw.protocols[0] == 0;
    if !default_order {
        return try_all(py, object, options, depth, FirstAttempt::default(), to);
    }
    // The most common cases, each the first protocol of the default order for its objects.
    let version = object.version(py);
    let known = py.types.missing(version);
    if known.is_none() {
        if let Some(offer @ OfferedTables { exchange: None, dlpack: Some(_), .. }) =
            py.types.get(version)
        {
            return from_tensor(py, object, &offer, options, depth, to);
        }
    }
    let offer = match known {
        Some(_) => OfferedTables::NOTHING,
        None => offers::known_or_asked(py, object, version)?,
    };
    let mut first = FirstAttempt::default();
    if known.is_some() || offer.is_nothing() {
        let missing = known.unwrap_or(Missing::NONE);
        if !missing.has(abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE) {
            from_cuda(py, object, None, options, depth, to)?;
            if to.is_found() {
                let unmet = left_to_others(abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, to, options);
                let Some(failure) = unmet else { return Ok(()) };
                first.leave(failure, to);
            }
        }
        if missing.has_struct() && options.host() && from_struct(py, object, to)? {
            return grad::check_anew(py, object, options, &to.array);
        }
        first.tried = abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE;
    } else if let Some(table) = offer.exchange {
        match from_table(py, object, table, options, to)? {
            Answer::Array if is_allowed(to, options) => {
                return grad::check(py, object, options, &offer, &to.array);
            }
            Answer::Array => first.host_only = true,
            Answer::Refused(failure) => first.refused = Some(failure),
        }
        to.reset();
        first.tried = abi::CAI_PROTOCOL_EXCHANGE;
    } else if offer.dlpack.is_some() {
        return from_tensor(py, object, &offer, options, depth, to);
    }
    try_all(py, object, options, depth, first, to)
}

/// Imports an array of NumPy through its structure, which says as much as its `__dlpack__` in a
/// fourth of the time. Returns false for all others, which the protocols take in their order.
#[inline(never)]
fn from_struct(py: Py, object: Obj, to: &mut Description) -> Result<bool> {
    match array_struct::import_numpys(py, object, to) {
        Ok(Some(Answer::Array)) => return Ok(true),
        Ok(_) => {}
        // It is raised again if the protocol's turn comes.
        Err(_) => py.clear(),
    }
    to.reset();
    Ok(false)
}

/// Imports through DLPack's table, or else through any other protocol.
#[inline(never)]
fn from_tensor(
    py: Py,
    object: Obj,
    offer: &OfferedTables,
    options: &ImportOptions,
    depth: i32,
    to: &mut Description,
) -> Result<()> {
    let tried = abi::CAI_PROTOCOL_DLPACK_EXCHANGE;
    let mut first = FirstAttempt { tried, ..FirstAttempt::default() };
    from_dlpack_table(py, object, offer, options, &mut first.host_only, to)?;
    if to.is_found() {
        let Some(failure) = left_to_others(tried, to, options) else {
            return grad::check(py, object, options, offer, &to.array);
        };
        first.leave(failure, to);
    } else {
        to.reset();
    }
    try_all(py, object, options, depth, first, to)
}

/// Result of the attempt that [`find`] makes before it tries all protocols.
#[derive(Default)]
struct FirstAttempt {
    /// The protocol that was tried, or 0.
    tried: u8,
    /// The table refused the object, or its array lacks what another protocol may state.
    refused: Option<Failure>,
    /// The object has an array in host memory, which is not allowed.
    host_only: bool,
    /// `CAI_ARRAY_READONLY` if that array is read-only: the others may not be able to state it.
    readonly: u32,
}

impl FirstAttempt {
    #[cold]
    fn leave(&mut self, failure: Failure, to: &mut Description) {
        self.readonly = to.array.flags & abi::CAI_ARRAY_READONLY;
        self.refused = Some(failure);
        to.reset();
    }
}

/// Returns false for an array in host memory, unless the caller allows it.
#[inline]
fn is_allowed(to: &Description, options: &ImportOptions) -> bool {
    to.array.device.r#type != abi::CAI_DEVICE_CPU || options.host()
}

#[inline(never)]
fn try_all(
    py: Py,
    object: Obj,
    options: &ImportOptions,
    depth: i32,
    mut first: FirstAttempt,
    to: &mut Description,
) -> Result<()> {
    let mut declined = match first.refused.take() {
        Some(failure) => Some(Declined::status(py, failure)?),
        None => None,
    };
    if try_protocols(py, object, options, depth, &mut first, &mut declined, to)? {
        to.array.flags |= first.readonly;
        return Ok(());
    }
    if let Some(declined) = declined {
        return declined.again();
    }
    not_found(py, object, options, first.host_only)
}

/// The refusal of a producer that may offer another protocol.
enum Declined<'py> {
    /// A BufferError, or a TypeError of `__dlpack__`.
    Exception(Pending<'py>),
    /// A status without an exception.
    Status(Failure),
}

impl<'py> Declined<'py> {
    /// The BufferError that is set. Every other failure is passed on.
    fn buffer_error(py: Py<'py>, failure: Failure) -> Result<Self> {
        let is_exception = failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION;
        if !is_exception || !py.raised(Exception::Buffer) {
            return Err(failure);
        }
        Ok(Declined::Exception(py.take_exception()))
    }

    /// The same, or the TypeError that is set, if the object offers Arrow: PyArrow's `__dlpack__`
    /// raises it for nulls and for types that DLPack lacks.
    fn of_dlpack(py: Py<'py>, object: Obj, failure: Failure) -> Result<Self> {
        let is_exception = failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION;
        if !is_exception || !py.raised(Exception::Type) {
            return Self::buffer_error(py, failure);
        }
        let exception = py.take_exception();
        let names = [py.names.arrow_device_array, py.names.arrow_array];
        if names.into_iter().any(|name| offers(py, object, name)) {
            return Ok(Declined::Exception(exception));
        }
        exception.restore();
        Err(failure)
    }

    /// The BufferError that is set, or a status without an exception. Missing memory and internal
    /// errors are passed on: another protocol would not do better.
    fn status(py: Py<'py>, failure: Failure) -> Result<Self> {
        match failure.status() {
            abi::CAI_ERR_PYTHON_EXCEPTION => Self::buffer_error(py, failure),
            abi::CAI_ERR_NO_MEMORY | abi::CAI_ERR_INTERNAL => Err(failure),
            _ => Ok(Declined::Status(failure)),
        }
    }

    /// Fails with it after all.
    fn again(self) -> Result<()> {
        match self {
            Declined::Exception(exception) => {
                exception.restore();
                raised()
            }
            Declined::Status(failure) => Err(failure),
        }
    }
}

/// Returns true if a protocol has given an array, whose object does not require grad.
fn try_protocols<'py>(
    py: Py<'py>,
    object: Obj,
    options: &ImportOptions,
    depth: i32,
    first: &mut FirstAttempt,
    declined: &mut Option<Declined<'py>>,
    to: &mut Description,
) -> Result<bool> {
    let default_order = options.raw.protocols[0] == 0;
    let missing = || py.types.missing(object.version(py));
    let mut missed = missing();
    for &via in options.protocols() {
        if via == first.tried || missed.is_some_and(|missed| missed.has(via)) {
            continue;
        }
        // Each time: the other protocols run code that may change the type.
        let offered = || offers::offer(py, object);
        let found = match via {
            abi::CAI_PROTOCOL_EXCHANGE => match offered()?.exchange {
                Some(table) => match from_table(py, object, table, options, to)? {
                    Answer::Array => true,
                    Answer::Refused(failure) => {
                        to.reset();
                        *declined = Some(Declined::status(py, failure)?);
                        false
                    }
                },
                None => false,
            },
            abi::CAI_PROTOCOL_DLPACK_EXCHANGE => {
                from_dlpack_table(py, object, &offered()?, options, &mut first.host_only, to)?;
                to.is_found()
            }
            abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE => {
                from_cuda(py, object, None, options, depth, to)?;
                to.is_found()
            }
            abi::CAI_PROTOCOL_DLPACK => {
                let mut method =
                    from_dlpack(py, object, options, default_order, &mut first.host_only, to);
                if let Ok(Method::OneApi) = method {
                    // The dictionary contains more: the queue that may have pending work.
                    if from_sycl(py, object, options, depth, to)? {
                        grad::check_anew(py, object, options, &to.array)?;
                        return Ok(true);
                    }
                    method = from_dlpack(py, object, options, false, &mut first.host_only, to);
                }
                match method {
                    Ok(method) => matches!(method, Method::Array),
                    // DLPack cannot express the array. Another protocol may.
                    Err(failure) => {
                        to.reset();
                        // The first refusal is reported.
                        let refusal = Declined::of_dlpack(py, object, failure)?;
                        declined.get_or_insert(refusal);
                        false
                    }
                }
            }
            abi::CAI_PROTOCOL_SYCL_USM => from_sycl(py, object, options, depth, to)?,
            abi::CAI_PROTOCOL_OPENCL_BUFFER => buffer::import(py, object, options, to)?,
            abi::CAI_PROTOCOL_ARRAY_STRUCT
            | abi::CAI_PROTOCOL_PEP3118
            | abi::CAI_UNSTABLE_PROTOCOL_ARROW => {
                let answer = match via {
                    abi::CAI_UNSTABLE_PROTOCOL_ARROW => arrow::import(py, object, options, to)?,
                    abi::CAI_PROTOCOL_PEP3118 => pep3118::import(py, object, to)?,
                    _ => array_struct::import(py, object, to)?,
                };
                match answer {
                    Some(Answer::Array) => true,
                    Some(Answer::Refused(failure)) => {
                        // The first refusal is reported.
                        let refusal = Declined::status(py, failure)?;
                        declined.get_or_insert(refusal);
                        false
                    }
                    None => false,
                }
            }
            _ => from_dictionary(
                py,
                object,
                Protocol::Host,
                py.names.array_interface,
                options,
                depth,
                to,
            )?,
        };
        // Code of the producer ran, which may have changed the type.
        missed = missing();
        if found {
            if !is_allowed(to, options) {
                first.host_only = true;
                to.reset();
                continue;
            }
            if let Some(failure) = left_to_others(via, to, options) {
                if via != abi::CAI_UNSTABLE_PROTOCOL_ARROW {
                    first.readonly |= to.array.flags & abi::CAI_ARRAY_READONLY;
                }
                let refusal = Declined::status(py, failure)?;
                declined.get_or_insert(refusal);
                to.reset();
                continue;
            }
            // Objects of a type that offers nothing require no grad.
            if missed.is_none() {
                grad::check_anew(py, object, options, &to.array)?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

#[cold]
fn not_found(py: Py, object: Obj, options: &ImportOptions, host_only: bool) -> Result<()> {
    let name = object.type_name(py);
    if host_only || offers_host_memory(py, object, options) {
        return fail!(CAI_ERR_HOST_MEMORY, "object";
            found "an array in host memory, of type {name}";
            expected "an array in device memory: copy it first, e.g. cupy.asarray(x), or allow \
                host memory (CAI_IMPORT_ALLOW_HOST)");
    }
    let mut list: Text<240> = Text::new(format_args!(""));
    for (index, via) in options.protocols().iter().enumerate() {
        let name = match *via {
            abi::CAI_PROTOCOL_EXCHANGE => "__cai_exchange_api__",
            abi::CAI_PROTOCOL_DLPACK_EXCHANGE => "__dlpack_c_exchange_api__",
            abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE => "__cuda_array_interface__",
            // The other method of the two that DLPack needs.
            abi::CAI_PROTOCOL_DLPACK if offers(py, object, py.names.dlpack) => "__dlpack_device__",
            abi::CAI_PROTOCOL_DLPACK => "__dlpack__",
            abi::CAI_PROTOCOL_SYCL_USM => "__sycl_usm_array_interface__",
            abi::CAI_PROTOCOL_OPENCL_BUFFER => "buffer of OpenCL",
            abi::CAI_PROTOCOL_ARRAY_STRUCT => "__array_struct__",
            abi::CAI_PROTOCOL_PEP3118 => "Py_buffer",
            abi::CAI_UNSTABLE_PROTOCOL_ARROW => "__arrow_c_device_array__",
            _ => "__array_interface__",
        };
        // A full text ends in a mark.
        let _ = write!(list, "{}{name}", if index == 0 { "" } else { ", " });
    }
    let (kind, advice) = match options.host() {
        true => ("an array", ""),
        false => ("a GPU array", "; convert it, e.g. cupy.asarray(x)"),
    };
    // The whole message: the type comes first.
    fail!(CAI_ERR_NO_PROTOCOL, "object";
        found ""; expected "{name} is not {kind}{advice}. It has none of {list}")
}

/// Returns true if protocols for host memory were not tried although the object offers one.
fn offers_host_memory(py: Py, object: Obj, options: &ImportOptions) -> bool {
    let untried = !options.host() && options.raw.protocols[0] == 0;
    untried
        && [py.names.array_struct, py.names.array_interface]
            .into_iter()
            .any(|name| offers(py, object, name))
}

/// Returns true if the object has an attribute. An exception is not the caller's.
fn offers(py: Py, object: Obj, name: Name) -> bool {
    object.optional_attr(py, name).unwrap_or_else(|_| (py.clear(), None).1).is_some()
}
