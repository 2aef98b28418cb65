//! `syclobj`: the context or the queue that memory of oneAPI is bound to, in all its forms.
//!
//! A queue becomes the array's `stream`, because work may be pending on it; a context becomes its
//! `context`. The references are those of SYCL's C interface (`DPCTLSyclQueueRef`,
//! `DPCTLSyclContextRef`). A filter string names the default context of a device's platform, which
//! only SYCL's runtime can find: dpctl is asked for it.
//!
//! The device's number is that of DLPack, which `__dlpack_device__` and dpctl's devices state. The
//! dictionary has none, and a capsule none either: then it is not known (-1).

use crate::abi::{self, cai_array};
use crate::error::{Failure, Result, Text, fail, failure};
use crate::python::capsules::{CONTEXT, QUEUE};
use crate::python::py::{Builtin, Exception, Int, Name, Obj, Owned, Py, raised};

const FIELD: &str = "__sycl_usm_array_interface__['syclobj']";

/// The device number of an array whose device is not known.
const UNKNOWN_ID: i32 = -1;

/// Writes the queue or the context of `syclobj`, and the number of the device, into the array.
/// Returns what must live as long as the array: `syclobj`, and what was made of it on the way.
pub fn bind<'py>(
    py: Py<'py>,
    object: Obj,
    syclobj: Obj,
    array: &mut cai_array,
) -> Result<Owned<'py>> {
    array.device.id = UNKNOWN_ID;
    let (kept, device) = if syclobj.is_a(py, Builtin::Str) {
        let (context, device) = find(py, syclobj)?;
        let Some(capsule) = capsule_of(py, context.obj(), array)? else {
            return fail!(CAI_ERR_VALUE, "{FIELD}";
                found "{}, whose context has no capsule SyclContextRef", shown(py, syclobj);
                expected "a filter string that dpctl finds a context for");
        };
        (py.pair(context, capsule)?, Some(device))
    } else if point(py, syclobj, array) {
        (syclobj.share(py), None)
    } else {
        // The types of dpctl, and others with the method.
        let Some(capsule) = capsule_of(py, syclobj, array)? else {
            return Err(no_syclobj(py, syclobj));
        };
        let device = syclobj.optional_attr(py, py.names.sycl_device)?;
        // The capsule refers to what the object owns.
        (py.pair(syclobj.share(py), capsule)?, device)
    };
    let id = match dlpack_id(py, object)? {
        None => device.map_or(Ok(None), |device| device_id(py, device.obj()))?,
        id => id,
    };
    array.device.id = id.unwrap_or(UNKNOWN_ID);
    Ok(kept)
}

#[cold]
fn no_syclobj(py: Py, syclobj: Obj) -> Failure {
    failure!(abi::CAI_ERR_TYPE, "{FIELD}";
        found "an object of type {}", syclobj.type_name(py);
        expected "a filter string, a context, a queue, a capsule SyclContextRef or SyclQueueRef, \
            or an object with _get_capsule")
}

/// Writes what a capsule refers to into the array. Returns false for any other object.
fn point(py: Py, capsule: Obj, array: &mut cai_array) -> bool {
    if let Some(queue) = capsule.capsule(py, Some(QUEUE)) {
        array.stream = queue.as_ptr() as u64;
    } else if let Some(context) = capsule.capsule(py, Some(CONTEXT)) {
        array.context = context.as_ptr();
    } else {
        return false;
    }
    true
}

/// Calls a method without arguments. `None` if the object does not have it.
fn call<'py>(py: Py<'py>, object: Obj, name: Name) -> Result<Option<Owned<'py>>> {
    let Some(method) = object.optional_attr(py, name)? else { return Ok(None) };
    method.obj().call(py, []).map(Some)
}

/// Returns the capsule of an object, after [`point`] has accepted it.
fn capsule_of<'py>(py: Py<'py>, object: Obj, array: &mut cai_array) -> Result<Option<Owned<'py>>> {
    let capsule = call(py, object, py.names.get_capsule)?;
    Ok(capsule.filter(|capsule| point(py, capsule.obj(), array)))
}

/// Finds the device that a filter string selects, and the default context of its platform.
fn find<'py>(py: Py<'py>, filter: Obj) -> Result<(Owned<'py>, Owned<'py>)> {
    const EXPECTED: &str =
        "a queue, a context, a capsule of either, or a module dpctl that finds the device";
    let module = match py.import(c"dpctl") {
        Err(_) if py.raised(Exception::Import) => {
            py.clear();
            return fail!(CAI_ERR_VALUE, "{FIELD}";
                found "the filter string {}, and no module dpctl", shown(py, filter);
                expected "{EXPECTED}");
        }
        module => module?,
    };
    let attribute = |of: &Option<Owned>, name| match of {
        Some(object) => object.obj().optional_attr(py, name),
        None => Ok(None),
    };
    let device = match module.obj().optional_attr(py, py.names.sycl_device_type)? {
        // An exception of dpctl, which has the reason, is passed on.
        Some(r#type) => Some(r#type.obj().call(py, [filter])?),
        None => None,
    };
    let platform = attribute(&device, py.names.sycl_platform)?;
    let context = attribute(&platform, py.names.default_context)?;
    match context.zip(device) {
        Some(found) => Ok(found),
        None => fail!(CAI_ERR_VALUE, "{FIELD}";
            found "the filter string {}, which dpctl finds no context for", shown(py, filter);
            expected "{EXPECTED}"),
    }
}

fn shown(py: Py, filter: Obj) -> Text<48> {
    let text = filter.text(py).unwrap_or_default();
    Text::new(format_args!("'{}'", text.escape_ascii()))
}

/// Returns the number of oneAPI's device that an object of DLPack states.
fn dlpack_id(py: Py, object: Obj) -> Result<Option<i32>> {
    let Some(pair) = optional(py, call(py, object, py.names.dlpack_device))? else {
        return Ok(None);
    };
    let Some(pair) = pair.obj().tuple(py).filter(|pair| pair.len(py) == 2) else {
        return Ok(None);
    };
    let item = |index| match pair.get(py, index) {
        Some(item) => optional(py, integer(py, item)),
        None => Ok(None),
    };
    if item(0)? != Some(abi::CAI_DEVICE_ONEAPI) {
        return Ok(None);
    }
    item(1)
}

fn device_id(py: Py, device: Obj) -> Result<Option<i32>> {
    match optional(py, call(py, device, py.names.get_device_id))? {
        Some(number) => optional(py, integer(py, number.obj())),
        None => Ok(None),
    }
}

/// Converts the number of a device. `None` if it is none.
fn integer(py: Py, object: Obj) -> Result<Option<i32>> {
    match object.index(py)?.obj().int(py)? {
        Int::Value(value) => Ok(i32::try_from(value).ok().filter(|&value| value >= 0)),
        Int::Above | Int::Below => Ok(None),
    }
}

/// Leaves out what an object cannot state: an exception means that it is not known. What ends a
/// program (KeyboardInterrupt), and missing memory, is passed on.
fn optional<T>(py: Py, result: Result<Option<T>>) -> Result<Option<T>> {
    match result {
        Err(failure) if failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION => {
            if py.raised(Exception::Memory) {
                return raised();
            }
            py.clear_if(Exception::Any).map(|()| None)
        }
        result => result,
    }
}
