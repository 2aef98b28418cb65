//! The exchange tables that types publish in their attributes.
//!
//! The attributes are looked up as Python looks up special methods: in the type and its bases,
//! neither in the object nor in the metaclass. So the version of the type covers them.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use crate::abi::{self, cai_unstable_exchange_api};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR};
use crate::error::{Result, fail};
use crate::python::cache::{Facts, FromObject, GradGetter, Missing, OfferedTables, Version};
use crate::python::capi::{GetSetDef, Object, TP_GETATTRO};
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::py::{Builtin, Int, Obj, Owned, Py, Type};
use crate::read::sizes;

#[inline]
pub fn offer(py: Py, object: Obj) -> Result<OfferedTables> {
    let version = object.version(py);
    if py.types.offers_nothing(version) {
        return Ok(OfferedTables::NOTHING);
    }
    known_or_asked(py, object, version)
}

/// Returns what an object's type offers, which is not known to be nothing: from the caches, or, if
/// they have no entry for this version of the type, from the type.
#[inline]
pub fn known_or_asked(py: Py, object: Obj, version: Version) -> Result<OfferedTables> {
    match py.types.get(version) {
        Some(offer) => Ok(offer),
        None => recall_or_ask(py, object, version),
    }
}

#[cold]
#[inline(never)]
fn recall_or_ask(py: Py, object: Obj, version: Version) -> Result<OfferedTables> {
    py.types.recall(version).map_or_else(|| ask(py, object), Ok)
}

/// A type is asked this often if it changes meanwhile.
const ATTEMPTS: usize = 8;

fn ask(py: Py, object: Obj) -> Result<OfferedTables> {
    for _ in 0..ATTEMPTS {
        // Looking an attribute up may change the object's type, so a reference to this one is held.
        let r#type = Type::of(py, object);
        let version = r#type.assign_version(py)?;
        let (tables, getter, is_lasting) = look(py, &r#type)?;
        let missing = match tables.is_nothing() && is_lasting && version.number != 0 {
            true => missing(py, object, &r#type)?,
            false => Missing::NONE,
        };
        // The answers come before this look at the version.
        fence(Ordering::Acquire);
        if object.version(py) == version {
            if is_lasting {
                py.types.add(version, &Facts { tables, getter, missing });
            }
            return Ok(tables);
        }
    }
    fail!(CAI_ERR_TYPE, "object";
        found "an object whose type changes while it is read";
        expected "a type that stays the same during a call")
}

/// Returns what a type offers, and whether only a change of the type can change that.
fn look<'py>(py: Py<'py>, r#type: &Type<'py>) -> Result<(OfferedTables, GradGetter, bool)> {
    let is_lasting = Cell::new(true);
    let raw = |name| -> Result<Option<Owned>> {
        let (found, is_known) = r#type.lookup(py, name)?;
        is_lasting.set(is_lasting.get() && is_known);
        Ok(found)
    };
    let grad = raw(py.names.requires_grad)?;
    let getter = match &grad {
        Some(descriptor) => getter(py, r#type, descriptor.obj())?,
        None => None,
    };
    let may_be_conjugate = raw(py.names.is_conj)?.is_some();
    let value = |name| -> Result<Option<Owned>> {
        let Some(found) = raw(name)? else { return Ok(None) };
        let is_plain = found.obj().is_exactly(py, Builtin::Tuple)
            || found.obj().is_none(py)
            || [EXCHANGE_CAPSULE, DLPACK_CAPSULE]
                .iter()
                .any(|name| found.obj().capsule(py, Some(name)).is_some());
        if is_plain {
            return Ok(Some(found));
        }
        // A descriptor may return something else each time.
        is_lasting.set(false);
        r#type.obj().optional_attr(py, name)
    };
    let (ours, dlpacks) = (value(py.names.exchange)?, value(py.names.dlpack_exchange)?);
    let offer = OfferedTables {
        exchange: exchange(py, ours)?,
        dlpack: dlpack(py, dlpacks),
        may_require_grad: grad.is_some(),
        may_be_conjugate,
    };
    Ok((offer, getter, is_lasting.get()))
}

/// Returns the protocols that no object of a type without tables can have: the type lacks their
/// attributes, and its objects have no attributes of their own.
fn missing<'py>(py: Py<'py>, object: Obj, r#type: &Type<'py>) -> Result<Missing> {
    let names = &py.names;
    let mut missing = Missing::NONE;
    let (of_struct, is_known) = r#type.lookup(py, names.array_struct)?;
    if !is_known {
        return Ok(missing);
    }
    let is_generic = object.type_slot(py.capi(), TP_GETATTRO) == py.capi().generic_get_attr();
    // A metaclass may state another offset than that of the object's dictionary.
    if !is_generic || !r#type.obj().is_exactly(py, Builtin::Type) {
        return Ok(missing);
    }
    match r#type.obj().optional_attr(py, names.dictoffset)? {
        Some(offset) if offset.obj().int(py)? == Int::Value(0) => {}
        _ => return Ok(missing),
    }
    missing = missing.with(abi::CAI_PROTOCOL_EXCHANGE).with(abi::CAI_PROTOCOL_DLPACK_EXCHANGE);
    // An attribute without which there is no array of the protocol, or two of which one is needed.
    let needed = [
        (abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, [names.cuda_array_interface; 2]),
        (abi::CAI_PROTOCOL_DLPACK, [names.dlpack_device; 2]),
        (abi::CAI_PROTOCOL_SYCL_USM, [names.sycl_usm_array_interface; 2]),
        (abi::CAI_PROTOCOL_OPENCL_BUFFER, [names.base_data, names.buffer]),
        (abi::CAI_UNSTABLE_PROTOCOL_ARROW, [names.arrow_device_array, names.arrow_array]),
        (abi::CAI_PROTOCOL_ARRAY_STRUCT, [names.array_struct; 2]),
        (abi::CAI_PROTOCOL_ARRAY_INTERFACE, [names.array_interface; 2]),
    ];
    for (protocol, [first, second]) in needed {
        if r#type.lookup(py, first)?.0.is_none() && r#type.lookup(py, second)?.0.is_none() {
            missing = missing.with(protocol);
        }
    }
    // A class that derives from NumPy's may have methods of its own, which decide then.
    let in_c = |found: Option<Owned>, r#type| found.is_some_and(|f| f.obj().is_exactly(py, r#type));
    let own_method = |name| -> Result<bool> {
        let found = r#type.lookup(py, name)?.0;
        Ok(found.is_some() && !in_c(found, Builtin::Method))
    };
    let comes_first = missing.has(abi::CAI_PROTOCOL_SYCL_USM)
        && missing.has(abi::CAI_PROTOCOL_OPENCL_BUFFER)
        && !own_method(names.dlpack)?
        && !own_method(names.dlpack_device)?;
    if comes_first && in_c(of_struct, Builtin::GetSet) {
        missing = missing.with_struct();
    }
    Ok(missing)
}

/// `PyGetSetDescrObject` behind its head: an attribute that is implemented in C.
#[repr(C)]
struct GetSetDescriptor {
    r#type: *mut Object,
    name: *mut Object,
    qualified_name: *mut Object,
    definition: *const GetSetDef,
}

/// Returns the function of the attribute `requires_grad` and its argument, if the attribute is
/// implemented in C. It is called directly then, which takes a third of the time.
fn getter<'py>(py: Py<'py>, r#type: &Type<'py>, descriptor: Obj) -> Result<GradGetter> {
    if !descriptor.is_exactly(py, Builtin::GetSet) {
        return Ok(None);
    }
    // Objects may look their attributes up in another way.
    let look_up = |of: &Type<'py>| of.lookup(py, py.names.get_attribute);
    let Some(base) = Type::new(py, py.builtin(Builtin::Object)) else { return Ok(None) };
    let (own, usual) = (look_up(r#type)?.0, look_up(&base)?.0);
    if own.map(|own| own.get()) != usual.map(|usual| usual.get()) {
        return Ok(None);
    }
    // The layout is CPython's own: it is used if the size and the name confirm it.
    let head = py.capi().facts.head;
    let Some(size) = py.builtin(Builtin::GetSet).optional_attr(py, py.names.basicsize)? else {
        return Ok(None);
    };
    let expected = Int::Value((head + size_of::<GetSetDescriptor>()) as i64);
    if head == 0 || size.obj().int(py)? != expected {
        return Ok(None);
    }
    // SAFETY: the object has as many bytes behind its head, and every bit pattern is a valid
    // pointer. If the name, which is interned, is where it is expected, the rest is as well: the
    // type that has the attribute, and its definition, which lives as long as the descriptor.
    unsafe {
        let found = descriptor.as_ptr().byte_add(head).cast::<GetSetDescriptor>().read_unaligned();
        if found.name != py.names.requires_grad.as_ptr() || found.definition.is_null() {
            return Ok(None);
        }
        let base = Obj::from_ptr(found.r#type).and_then(|base| base.type_obj(py));
        if !base.is_some_and(|base| base.is_base_of(py, r#type.type_obj())) {
            return Ok(None);
        }
        let definition = found.definition.read();
        Ok(definition.get.map(|get| (get, definition.closure)))
    }
}

/// Returns the pointer in a capsule of this name, or in the first one of a tuple: a type that
/// serves two data ABIs has one for each. Other values are ignored.
fn capsule(py: Py, value: Option<Owned>, name: &CStr) -> Option<NonNull<c_void>> {
    let value = value?;
    match value.obj().tuple(py) {
        None => value.obj().capsule(py, Some(name)),
        Some(tuple) => tuple.items(py).find_map(|item| item.capsule(py, Some(name))),
    }
}

fn exchange(py: Py, value: Option<Owned>) -> Result<Option<FromObject>> {
    let Some(table) = capsule(py, value, EXCHANGE_CAPSULE) else { return Ok(None) };
    let table = table.cast::<cai_unstable_exchange_api>().as_ptr().cast_const();
    // SAFETY: published under the contract of `cai_unstable_exchange_api`. Tables of every version begin
    // with their size and their data ABI.
    unsafe {
        if (&raw const (*table).data_abi).read() != abi::CAI_DATA_ABI {
            return Ok(None);
        }
        check_table(table).map(Some)
    }
}

fn dlpack(py: Py, value: Option<Owned>) -> Option<&'static ExchangeTable> {
    let mut table = capsule(py, value, DLPACK_CAPSULE)?.cast::<ExchangeTable>().as_ptr();
    // Newer tables refer to their predecessors.
    for _ in 0..8 {
        if table.is_null() {
            break;
        }
        // SAFETY: DLPack requires that a table lives as long as the process and that every version
        // begins with number and predecessor. The major version, if it is this one, has the other
        // members.
        unsafe {
            if (&raw const (*table).major).read() == MAJOR {
                return Some(&*table).filter(|table| table.from_object.is_some());
            }
            table = (&raw const (*table).previous).read().cast_mut();
        }
    }
    None
}

/// Checks a table of any version and returns the one function of it that is called.
///
/// # Safety
/// `table` points to a table of the size that it states, which lives as long as the process.
pub unsafe fn check_table(table: *const cai_unstable_exchange_api) -> Result<FromObject> {
    // SAFETY: tables of every version begin with these two.
    let (size, data_abi) = unsafe {
        ((&raw const (*table).struct_size).read(), (&raw const (*table).data_abi).read())
    };
    if (size as usize) < sizes::EXCHANGE_API {
        return fail!(CAI_ERR_EXCHANGE_TABLE, "__cai_exchange_api__.struct_size";
            found "{size}"; expected "at least {}", sizes::EXCHANGE_API);
    }
    if data_abi != abi::CAI_DATA_ABI {
        return fail!(CAI_ERR_EXCHANGE_TABLE, "__cai_exchange_api__.data_abi";
            found "{data_abi}"; expected "{}", abi::CAI_DATA_ABI);
    }
    // SAFETY: a table of that size has this member; no reference to the whole is made.
    match unsafe { (&raw const (*table).from_object).read() } {
        Some(from_object) => Ok(from_object),
        None => fail!(CAI_ERR_EXCHANGE_TABLE, "__cai_exchange_api__.from_object";
            found "NULL"; expected "a function"),
    }
}
