//! Import through `__dlpack__` and through DLPack's exchange table.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::abi::{self, DLManagedTensorVersioned, cai_array, cai_owner};
use crate::dlpack::{self, ManagedTensor, View};
use crate::driver::{self, CallingThread, Capture, Stream};
use crate::error::{Failure, Result, fail};
use crate::owner::{self, Destructor};
use crate::python::cache::OfferedTables;
use crate::python::import::options::ImportOptions;
use crate::python::owner::{Description, attach_tensor};
use crate::python::py::{Builtin, Exception, Name, Obj, Owned, Py, raised};
use crate::sync::{identity, release_in_order};
use crate::{device, memory};

/// Prefixes the field of a failure with the name of the protocol.
pub fn of(name: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| failure.within(format_args!("{name}."))
}

/// Explains a tensor that has elements, but no memory.
#[cold]
fn without_memory(failure: Failure) -> Failure {
    if failure.status() != abi::CAI_ERR_DATA_NULL {
        return failure;
    }
    failure.hint(format_args!(
        ": a tensor without memory, such as a FakeTensor of PyTorch, has no values"
    ))
}

const TABLE: &str = "__dlpack_c_exchange_api__";

/// Imports through DLPack's table, if the object's type offers one: then `to` has an owner, unless
/// the memory is not wanted. Requests a managed tensor and not the view that the table may offer as
/// well: a view is valid only during a call, and cannot express that it is read-only.
#[inline(never)]
pub fn from_dlpack_table(
    py: Py,
    object: Obj,
    offer: &OfferedTables,
    options: &ImportOptions,
    host_only: &mut bool,
    to: &mut Description,
) -> Result<()> {
    let Some(table) = offer.dlpack else { return Ok(()) };
    let Some(from_object) = table.from_object else { return Ok(()) };
    let mut managed: *mut DLManagedTensorVersioned = ptr::null_mut();
    // SAFETY: the table belongs to the object's type, and its functions take such objects.
    if unsafe { from_object(object.as_ptr().cast(), &raw mut managed) } != 0 || managed.is_null() {
        return failed(py, TABLE, "managed_tensor_from_py_object_no_sync");
    }
    // SAFETY: the table gave the tensor to this function.
    let tensor = unsafe { ManagedTensor::versioned(managed) };
    let view = tensor.view().map_err(of(TABLE))?;
    let device = view.device();
    if !view.has_data() {
        // Checked before the device, which means nothing if there is no memory.
        describe(view, abi::CAI_STREAM_NONE, options, to)
            .map_err(without_memory)
            .map_err(of(TABLE))?;
    }
    if device.0 == abi::CAI_DEVICE_CPU && !options.host() {
        *host_only = true;
        return Ok(());
    }
    let stream = match table.current_stream.filter(|_| on_device(device.0)) {
        Some(current) => {
            let mut stream: *mut c_void = ptr::null_mut();
            // SAFETY: the function of DLPack's table writes one pointer, to a local.
            if unsafe { current(device.0, device.1, &raw mut stream) } != 0 {
                return failed(py, TABLE, "current_work_stream");
            }
            if stream.is_null() { abi::CAI_STREAM_LEGACY } else { stream as u64 }
        }
        None => abi::CAI_STREAM_UNKNOWN,
    };
    match options.has(abi::CAI_UNSTABLE_IMPORT_LANES) {
        true => describe(view, stream, options, to),
        false => dlpack::describe_inlined(view, stream, &mut to.strides, &mut to.array),
    }
    .map_err(of(TABLE))?;
    attach_tensor(py, &mut to.array, tensor)
}

/// Describes a tensor in `to`, borrowed.
#[cold]
fn describe(view: View, stream: u64, options: &ImportOptions, to: &mut Description) -> Result<()> {
    let Description { array, shape, strides, .. } = to;
    if options.has(abi::CAI_UNSTABLE_IMPORT_LANES) {
        return dlpack::describe_lanes(view, stream, shape, strides, array);
    }
    dlpack::describe(view, stream, strides, array)
}

/// Returns true if a producer has a current stream for this device. Page-locked memory belongs to
/// the host, so nothing is enqueued on it implicitly.
fn on_device(device_type: i32) -> bool {
    device_type == abi::CAI_DEVICE_ROCM
        || (device::is_cuda(device_type) && device_type != abi::CAI_DEVICE_CUDA_HOST)
}

/// Fails after a function of DLPack's table failed, which sets an exception.
#[cold]
fn failed<T>(py: Py, table: &str, function: &str) -> Result<T> {
    if py.has_exception() {
        return raised();
    }
    fail!(CAI_ERR_VALUE, "{table}.{function}";
        found "a failure without an exception"; expected "a tensor")
}

/// Result of the methods of DLPack.
pub enum Method {
    /// The object does not have them, or its memory is not wanted.
    Nothing,
    Array,
    /// An array of oneAPI, which was not taken yet: its dictionary comes first.
    OneApi,
}

/// Imports through the methods `__dlpack_device__` and `__dlpack__`. With `stop_at_oneapi`, an
/// array of oneAPI is left to the caller.
#[cold]
pub fn from_dlpack(
    py: Py,
    object: Obj,
    options: &ImportOptions,
    stop_at_oneapi: bool,
    host_only: &mut bool,
    to: &mut Description,
) -> Result<Method> {
    const NAME: &str = "__dlpack__";
    let Some(device) = object.optional_attr(py, py.names.dlpack_device)? else {
        return Ok(Method::Nothing);
    };
    let Some(method) = object.optional_attr(py, py.names.dlpack)? else {
        return Ok(Method::Nothing);
    };
    let device = device.obj().call(py, [])?;
    let device_type = i64::from(device_of(py, device.obj())?);
    if device_type == i64::from(abi::CAI_DEVICE_CPU) && !options.host() {
        *host_only = true;
        return Ok(Method::Nothing);
    }
    if stop_at_oneapi && device_type == i64::from(abi::CAI_DEVICE_ONEAPI) {
        return Ok(Method::OneApi);
    }
    const ROCM: i64 = abi::CAI_DEVICE_ROCM as i64;
    let wished = options.raw.dlpack_stream;
    // The stream that the producer has to order its work before; the array's stream afterwards.
    let (asked, stream) = match device_type {
        _ if !i32::try_from(device_type).is_ok_and(on_device) => {
            let cpu = device_type == i64::from(abi::CAI_DEVICE_CPU);
            (None, if cpu { abi::CAI_STREAM_NONE } else { abi::CAI_STREAM_UNKNOWN })
        }
        // HIP's default stream is 0 there, and 1 and 2 are no streams.
        ROCM if matches!(wished, abi::CAI_STREAM_UNKNOWN | abi::CAI_STREAM_LEGACY) => {
            (Some(0), abi::CAI_STREAM_LEGACY)
        }
        _ => match wished {
            abi::CAI_STREAM_UNKNOWN => (Some(1), abi::CAI_STREAM_LEGACY),
            abi::CAI_STREAM_NONE => (Some(-1), abi::CAI_STREAM_UNKNOWN),
            stream => (Some(stream as i64), stream),
        },
    };
    let (capsule, stream) = match capsule(py, method.obj(), asked) {
        Ok(capsule) => (capsule, stream),
        // TensorFlow refuses every stream, and blocks the host instead.
        Err(_)
            if asked.is_some()
                && py.raised(Exception::Runtime)
                && (device_type == ROCM || !is_captured(wished)) =>
        {
            (capsule_without_stream(py, method.obj())?, abi::CAI_STREAM_LEGACY)
        }
        Err(failure) => return Err(failure),
    };
    let pointer = |name: &CStr| capsule.obj().capsule(py, Some(name));
    let (versioned, unversioned) = (pointer(c"dltensor_versioned"), pointer(c"dltensor"));
    let Some(managed) = versioned.or(unversioned) else {
        let used = [c"used_dltensor_versioned", c"used_dltensor"];
        if used.into_iter().any(|name| pointer(name).is_some()) {
            return fail!(CAI_ERR_TYPE, "{NAME}";
                found "a capsule that was already consumed";
                expected "a new capsule from each call");
        }
        return fail!(CAI_ERR_TYPE, "{NAME}";
            found "an object of type {}", capsule.obj().type_name(py);
            expected "a capsule named dltensor_versioned or dltensor");
    };
    let used = if versioned.is_some() { c"used_dltensor_versioned" } else { c"used_dltensor" };
    capsule.obj().rename_capsule(py, used)?;
    // SAFETY: after the renaming, no other consumer takes the tensor out of the capsule. The name
    // of the capsule stated the type of the structure.
    let tensor = unsafe {
        match versioned {
            Some(_) => ManagedTensor::versioned(managed.as_ptr().cast()),
            None => ManagedTensor::unversioned(managed.as_ptr().cast()),
        }
    };
    tensor
        .view()
        .and_then(|view| describe(view, stream, options, to).map_err(without_memory))
        .map_err(of(NAME))?;
    let array = &mut to.array;
    attach_tensor(py, array, tensor)?;
    if stream < abi::CAI_STREAM_UNKNOWN {
        // Identified before the release refers to it, so that the reuse of a handle for another
        // stream is noticed, and a release by another thread.
        if stream == abi::CAI_STREAM_PER_THREAD {
            identity::identify_per_thread(array);
        } else if stream > abi::CAI_STREAM_PER_THREAD && driver::is_present() {
            // Without an identity, the release does not notice it.
            let _ = identity::identify(array);
        }
        defer_release(array)?;
    }
    Ok(Method::Array)
}

/// Calls `__dlpack__` with the stream that it has to order its work before, if there is one.
fn capsule<'py>(py: Py<'py>, method: Obj, stream: Option<i64>) -> Result<Owned<'py>> {
    let stream = stream.map(|stream| py.int(stream)).transpose()?;
    let constants = py.dlpack_keywords().get(make_keywords)?;
    let constant = |index: usize| {
        let item = constants.tuple(py).and_then(|all| all.get(py, index));
        item.ok_or_else(Failure::internal)
    };
    let call = |names: usize, values: &[Obj]| {
        let names = constant(names)?.tuple(py).ok_or_else(Failure::internal)?;
        method.call_keywords(py, names, values)
    };
    let version = constant(VERSION)?;
    let capsule = match &stream {
        Some(stream) => call(BOTH_NAMES, &[stream.obj(), version]),
        None => call(VERSION_NAME, &[version]),
    };
    match (capsule, &stream) {
        // Producers from before DLPack 1.0 have no versions.
        (Err(_), Some(stream)) if py.raised(Exception::Type) => {
            py.clear();
            call(STREAM_NAME, &[stream.obj()])
        }
        (Err(_), None) if py.raised(Exception::Type) => {
            py.clear();
            method.call(py, [])
        }
        (capsule, _) => capsule,
    }
}

/// Items of the tuple that [`make_keywords`] makes.
const VERSION: usize = 0;
const VERSION_NAME: usize = 1;
const STREAM_NAME: usize = 2;
const BOTH_NAMES: usize = 3;

/// Makes what each call of `__dlpack__` takes: the version, and the names of keywords.
#[cold]
fn make_keywords(py: Py<'_>) -> Result<Owned<'_>> {
    let names =
        |names: &[Name]| py.tuple(names.len(), |index| Ok(Obj::from(names[index]).share(py)));
    let (version, stream) = (py.names.max_version, py.names.stream);
    py.tuple(4, |index| match index {
        VERSION => py.tuple_of_ints(&[1, 3]),
        VERSION_NAME => names(&[version]),
        STREAM_NAME => names(&[stream]),
        _ => names(&[stream, version]),
    })
}

/// Returns true if a capture of this stream, or of one that waits for the legacy default stream, is
/// in progress: a wait of the legacy stream would be no part of the graph, or break the capture.
fn is_captured(stream: u64) -> bool {
    let driver = driver::is_present().then(driver::driver);
    let Some(Ok(driver)) = driver else { return false };
    let stream = if stream < abi::CAI_STREAM_UNKNOWN { stream } else { abi::CAI_STREAM_LEGACY };
    let found = Stream::from_handle(stream, 0).capture_here(&CallingThread::new(driver));
    !matches!(found, Ok(Capture::None))
}

/// Calls `__dlpack__` without a stream, which means the legacy default stream, after a RuntimeError.
/// That is raised again if this call fails as well, unless with a KeyboardInterrupt or the like.
fn capsule_without_stream<'py>(py: Py<'py>, method: Obj) -> Result<Owned<'py>> {
    let first = py.take_exception();
    let capsule = capsule(py, method, None);
    if capsule.is_err() && py.raised(Exception::Any) {
        first.restore();
    }
    capsule
}

fn device_of(py: Py, device: Obj) -> Result<i32> {
    const NAME: &str = "__dlpack_device__";
    if !device.is_a(py, Builtin::Tuple) {
        return fail!(CAI_ERR_TYPE, "{NAME}";
            found "an object of type {}", device.type_name(py); expected "a tuple of two integers");
    }
    let (r#type, id) = device.two_ints(py, NAME)?;
    match (i32::try_from(r#type), i32::try_from(id)) {
        (Ok(found @ 1..=device::LAST), Ok(0..)) => Ok(found),
        _ => fail!(CAI_ERR_VALUE, "{NAME}";
            found "({}, {id})", r#type;
            expected "a device type of DLPack, 1 to {}, and an id of at least 0", device::LAST),
    }
}

/// A tensor of `__dlpack__` with its array, which states the stream of the consumer.
struct Deferred {
    tensor: *mut cai_owner,
    array: cai_array,
    /// The context that was current at the import, of which a default stream may be: the release may
    /// run in a thread with another one.
    begun: driver::CUcontext,
}

/// Defers the release of a tensor. The producer may free or use the memory as soon as the deleter
/// has run, whatever work the consumer has enqueued. So the tensor is released in stream order, on
/// the stream that was passed to `__dlpack__`.
fn defer_release(array: &mut cai_array) -> Result<()> {
    let begun = release_in_order::current_context(array)?;
    let later = memory::boxed(Deferred { tensor: array.owner, array: *array, begun })?;
    let owner = owner::prepare()?;
    // SAFETY: `release_deferred` takes such a box.
    let destructor =
        unsafe { Destructor::new(Some(release_deferred), Box::into_raw(later).cast()) };
    array.owner = owner.finish(None, destructor).owner.into_raw();
    Ok(())
}

unsafe extern "C-unwind" fn release_deferred(later: *mut c_void) {
    // SAFETY: `defer_release` made it, and this runs once.
    let Deferred { tensor, array, begun } = *unsafe { Box::from_raw(later.cast::<Deferred>()) };
    // SAFETY: the reference was taken over by `defer_release`, and this runs once. An owner that
    // cannot be released leaks.
    if let Ok(tensor) = unsafe { owner::Ref::adopt(tensor) } {
        release_in_order::release(tensor, &array, begun);
    }
}
