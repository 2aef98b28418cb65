//! `syclobj`: the context or the queue that memory of oneAPI is bound to, in all its forms.
//!
//! A queue becomes the array's `stream`, because work may be pending on it; a context becomes its
//! `context`. The references are those of SYCL's C interface (`DPCTLSyclQueueRef`,
//! `DPCTLSyclContextRef`). A filter string names the default context of a device's platform, which
//! only SYCL's runtime can find: dpctl is asked for it.
//!
//! The device's number is that of DLPack, which `__dlpack_device__` and dpctl's devices state. The
//! dictionary has none, and a capsule none either: then it is not known (-1).

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use crate::abi::{self, cai_array};
use crate::error::{Failure, Result, fail, failure};
use crate::python::capi::Object;
use crate::python::capsules::{CONTEXT, QUEUE};
use crate::python::convert::tuple;
use crate::python::py::{Name, Owned, Py, raised};

const FIELD: &str = "__sycl_usm_array_interface__['syclobj']";

/// The device number of an array whose device is not known.
const UNKNOWN_ID: i32 = -1;

/// Writes the queue or the context of `syclobj`, and the number of the device, into the array.
/// Returns what must live as long as the array: `syclobj`, and what was made of it on the way.
pub fn bind<'py>(
    py: Py<'py>,
    object: NonNull<Object>,
    syclobj: &Owned,
    array: &mut cai_array,
) -> Result<Owned<'py>> {
    array.device.id = UNKNOWN_ID;
    let (kept, device) = if py.is(syclobj.get(), py.capi().str_type) {
        let (context, device) = find(py, syclobj)?;
        let Some(capsule) = capsule_of(py, context.get())?.filter(|it| point(py, it, array)) else {
            return fail!(
                CAI_ERR_VALUE,
                "{FIELD}",
                found = ("{}, whose context has no capsule SyclContextRef", shown(py, syclobj)),
                expected = "a filter string that dpctl finds a context for"
            );
        };
        (tuple(py, [context, capsule])?, Some(device))
    } else if point(py, syclobj, array) {
        (share(py, syclobj), None)
    } else {
        // The types of dpctl, and others with the method.
        let Some(capsule) =
            capsule_of(py, syclobj.get())?.filter(|capsule| point(py, capsule, array))
        else {
            return Err(no_syclobj(py, syclobj));
        };
        let device = py.attribute(syclobj.get(), py.names.sycl_device)?;
        // The capsule refers to what the object owns.
        (tuple(py, [share(py, syclobj), capsule])?, device)
    };
    let id = match dlpack_id(py, object)? {
        None => device.map_or(Ok(None), |device| device_id(py, &device))?,
        id => id,
    };
    array.device.id = id.unwrap_or(UNKNOWN_ID);
    Ok(kept)
}

#[cold]
fn no_syclobj(py: Py, syclobj: &Owned) -> Failure {
    failure!(
        abi::CAI_ERR_TYPE,
        "{FIELD}",
        found = ("an object of type {}", py.type_name(syclobj.get())),
        expected = "a filter string, a context, a queue, a capsule SyclContextRef or \
                    SyclQueueRef, or an object with _get_capsule"
    )
}

fn share<'py>(py: Py<'py>, object: &Owned) -> Owned<'py> {
    Owned::share(py, object.object)
}

/// Writes what a capsule refers to into the array. Returns false for any other object.
fn point(py: Py, capsule: &Owned, array: &mut cai_array) -> bool {
    let capi = py.capi();
    let pointer = |name: &CStr| -> *mut c_void {
        // SAFETY: the GIL is held; `capsule_is` accepts any object.
        unsafe {
            if (capi.capsule_is)(capsule.get(), name.as_ptr()) == 0 {
                return ptr::null_mut();
            }
            (capi.capsule_pointer)(capsule.get(), name.as_ptr())
        }
    };
    let (queue, context) = (pointer(QUEUE), pointer(CONTEXT));
    if !queue.is_null() {
        array.stream = queue as u64;
    } else if !context.is_null() {
        array.context = context;
    }
    !queue.is_null() || !context.is_null()
}

/// Calls a method without arguments. `None` if the object does not have it.
fn call<'py>(py: Py<'py>, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
    let capi = py.capi();
    let Some(method) = py.attribute(object, name)? else { return Ok(None) };
    // SAFETY: the GIL is held.
    let result = unsafe {
        let nothing = Owned::new(py, (capi.tuple_new)(0))?;
        (capi.call)(method.get(), nothing.get(), ptr::null_mut())
    };
    Owned::new(py, result).map(Some)
}

fn capsule_of<'py>(py: Py<'py>, object: *mut Object) -> Result<Option<Owned<'py>>> {
    call(py, object, py.names.get_capsule)
}

/// Finds the device that a filter string selects, and the default context of its platform.
fn find<'py>(py: Py<'py>, filter: &Owned) -> Result<(Owned<'py>, Owned<'py>)> {
    let capi = py.capi();
    let expected =
        "a queue, a context, a capsule of either, or a module dpctl that finds the device";
    // SAFETY: the GIL is held.
    let module = unsafe {
        let module = (capi.import)(c"dpctl".as_ptr());
        if module.is_null() && (capi.error_matches)(*capi.import_error) != 0 {
            (capi.error_clear)();
            return fail!(
                CAI_ERR_VALUE,
                "{FIELD}",
                found = ("the filter string {}, and no module dpctl", shown(py, filter)),
                expected = "{expected}"
            );
        }
        Owned::new(py, module)?
    };
    let device = match py.attribute(module.get(), py.names.sycl_device_type)? {
        Some(r#type) => {
            let arguments = tuple(py, [share(py, filter)])?;
            // An exception of dpctl, which has the reason, is passed on.
            // SAFETY: the GIL is held.
            Some(Owned::new(py, unsafe {
                (capi.call)(r#type.get(), arguments.get(), ptr::null_mut())
            })?)
        }
        None => None,
    };
    let platform = match &device {
        Some(device) => py.attribute(device.get(), py.names.sycl_platform)?,
        None => None,
    };
    let context = match platform {
        Some(platform) => py.attribute(platform.get(), py.names.default_context)?,
        None => None,
    };
    match context.zip(device) {
        Some(found) => Ok(found),
        None => fail!(
            CAI_ERR_VALUE,
            "{FIELD}",
            found = ("the filter string {}, which dpctl finds no context for", shown(py, filter)),
            expected = "{expected}"
        ),
    }
}

fn shown(py: Py, filter: &Owned) -> crate::error::Text<48> {
    let text = py.text(filter.get()).unwrap_or_default();
    crate::error::Text::new(format_args!("'{}'", text.escape_ascii()))
}

/// Returns the number of oneAPI's device that an object of DLPack states.
fn dlpack_id(py: Py, object: NonNull<Object>) -> Result<Option<i32>> {
    let capi = py.capi();
    let Some(pair) = optional(py, call(py, object.as_ptr(), py.names.dlpack_device))? else {
        return Ok(None);
    };
    // SAFETY: the GIL is held; a tuple, and positions below its size.
    let items = unsafe {
        if !py.is(pair.get(), capi.tuple_type) || (capi.tuple_size)(pair.get()) != 2 {
            return Ok(None);
        }
        [(capi.tuple_get)(pair.get(), 0), (capi.tuple_get)(pair.get(), 1)]
    };
    let r#type = optional(py, integer(py, items[0]))?;
    if r#type != Some(abi::CAI_DEVICE_ONEAPI) {
        return Ok(None);
    }
    optional(py, integer(py, items[1]))
}

/// Returns the number of one of dpctl's devices.
fn device_id(py: Py, device: &Owned) -> Result<Option<i32>> {
    match optional(py, call(py, device.get(), py.names.get_device_id))? {
        Some(number) => optional(py, integer(py, number.get())),
        None => Ok(None),
    }
}

/// Converts the number of a device. `None` if it is none.
fn integer(py: Py, object: *mut Object) -> Result<Option<i32>> {
    let capi = py.capi();
    let mut overflow = 0;
    // SAFETY: the GIL is held, and the object alive.
    let value = unsafe {
        let number = Owned::new(py, (capi.index)(object))?;
        (capi.long_as_signed)(number.get(), &raw mut overflow)
    };
    Ok(i32::try_from(value).ok().filter(|&value| overflow == 0 && value >= 0))
}

/// Leaves out what an object cannot state: an exception means that it is not known. What ends a
/// program (KeyboardInterrupt), and missing memory, is passed on.
fn optional<T>(py: Py, result: Result<Option<T>>) -> Result<Option<T>> {
    let capi = py.capi();
    match result {
        Err(failure) if failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION => {
            // SAFETY: the GIL is held; the variables hold exceptions.
            unsafe {
                let passes = (capi.error_matches)(*capi.exception) == 0
                    || (capi.error_matches)(*capi.memory_error) != 0;
                if passes {
                    return raised();
                }
                (capi.error_clear)();
            }
            Ok(None)
        }
        result => result,
    }
}
