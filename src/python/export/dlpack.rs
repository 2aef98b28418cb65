//! `__dlpack__` and `__dlpack_device__` of an exported array.

use std::ptr::NonNull;

use crate::abi::{self, cai_array};
use crate::copy::HostCopy;
use crate::device;
use crate::dlpack::{self, ManagedTensor};
use crate::error::{Count, Failure, Result, fail};
use crate::python::capi::Object;
use crate::python::capsules::{UNVERSIONED, VERSIONED};
use crate::python::class::Instance;
use crate::python::error::raise_as;
use crate::python::export::object::{Exported, Reading};
use crate::python::py::{Dict, Exception, Int, Obj, Owned, Py, Tuple};
use crate::read::{Given, Unchecked};
use crate::sync::consume::{self, Phase};
use crate::sync::outgoing;
use crate::unwind;
use crate::validate::Valid;

pub fn dlpack_device<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    let (r#type, id) = dlpack::device_of(&*this.array()?).map_err(|failure| cannot(py, failure))?;
    py.tuple_of_ints(&[r#type.into(), id.into()])
}

/// Raises BufferError, which DLPack requires if an array cannot be exported.
pub fn cannot(py: Py, failure: Failure) -> Failure {
    raise_as(py, Exception::Buffer, failure)
}

pub fn dlpack<'py>(
    py: Py<'py>,
    this: Instance<'_, Exported>,
    arguments: Tuple<'_>,
    keywords: Option<Dict<'_>>,
) -> Result<Owned<'py>> {
    let array = this.array()?;
    let request = Request::read(py, arguments, keywords)?;
    let versioned = request.versioned(py)?;
    let device = dlpack::device_of(&array).map_err(|failure| cannot(py, failure))?;
    let tensor = if request.copies(py, device).map_err(|failure| cannot(py, failure))? {
        copy_to_host(py, &array, device.0, versioned).map_err(|failure| cannot(py, failure))?
    } else {
        let stream = request.stream.as_ref().map(Owned::obj);
        tensor(py, &array, this.flags(), device.0, versioned, stream)?
    };
    into_capsule(py, tensor)
}

/// Makes a tensor, and the consumer's stream wait for the array's work.
pub fn tensor(
    py: Py,
    array: &Reading,
    flags: u32,
    device_type: i32,
    versioned: bool,
    stream: Option<Obj>,
) -> Result<ManagedTensor> {
    let mut shown = **array;
    if flags & abi::CAI_EXPORT_HIDE_READONLY != 0 {
        shown.flags &= !abi::CAI_ARRAY_READONLY;
    }
    // The conversion comes first, so that a failure orders no stream.
    // SAFETY: the array was validated when the object was made, and no rule depends on the flag.
    let valid = unsafe { Valid::assume(&shown) };
    let tensor = convert(&valid, versioned).map_err(|failure| cannot(py, failure))?;
    order(py, &shown, device_type, stream)?;
    Ok(tensor)
}

/// Makes a tensor of a copy in host memory. The work that is pending on the array is done then.
fn copy_to_host(
    py: Py,
    array: &Reading,
    device_type: i32,
    versioned: bool,
) -> Result<ManagedTensor> {
    // SAFETY: the array was validated when the object was made, and so was that of the copy. A copy
    // uses no Python.
    unsafe {
        let array = &Valid::assume(&raw const **array);
        let copy = HostCopy::new(array)?;
        let given = Given::new(copy.array());
        // The conversion comes first, so that a failure copies nothing.
        let mut tensor = convert(&given.valid(abi::CAI_CHECK_LAYOUT)?, versioned)?;
        // Other threads may have to run: a function that a stream calls may need the lock.
        py.without_lock(|| copy.fill(array, device_type))?;
        tensor.mark_copied();
        Ok(tensor)
    }
}

fn convert(array: &Valid, versioned: bool) -> Result<ManagedTensor> {
    if versioned { dlpack::to_versioned(array, 0) } else { dlpack::to_unversioned(array, 0) }
}

/// The arguments of `__dlpack__`. None is no argument.
#[derive(Default)]
struct Request<'py> {
    stream: Option<Owned<'py>>,
    max_version: Option<Owned<'py>>,
    device: Option<Owned<'py>>,
    copy: Option<bool>,
}

impl<'py> Request<'py> {
    fn read(py: Py<'py>, arguments: Tuple, keywords: Option<Dict>) -> Result<Self> {
        let mut request = Request::default();
        match arguments.len(py) {
            0 => {}
            // Early versions of DLPack passed the stream by position.
            1 => {
                let stream = arguments.get(py, 0).filter(|stream| !stream.is_none(py));
                request.stream = stream.map(|stream| stream.share(py));
            }
            more => {
                return fail!(CAI_ERR_TYPE, "__dlpack__";
                    found "{}", Count(more, "argument"); expected "keywords");
            }
        }
        // The conversion to a boolean, and a string without UTF-8, may run code, which may change a
        // dictionary that the caller passed.
        let (mut position, keywords) = (0, keywords.into_iter());
        for keywords in keywords {
            while let Some((key, value)) = keywords.next(py, &mut position) {
                request.take(py, key.obj().text(py).unwrap_or_default(), value)?;
            }
        }
        Ok(request)
    }

    fn take(&mut self, py: Py<'py>, key: &[u8], value: Owned<'py>) -> Result<()> {
        let value = (!value.obj().is_none(py)).then_some(value);
        match key {
            b"stream" => self.stream = value,
            b"max_version" => self.max_version = value,
            b"dl_device" => self.device = value,
            b"copy" => self.copy = value.map(|value| value.obj().is_true(py)).transpose()?,
            other => {
                return fail!(CAI_ERR_TYPE, "__dlpack__";
                    found "a keyword {}", other.escape_ascii();
                    expected "stream, max_version, dl_device or copy");
            }
        }
        Ok(())
    }

    /// Returns true if the consumer supports DLPack 1.
    fn versioned(&self, py: Py) -> Result<bool> {
        match &self.max_version {
            Some(version) => Ok(version.obj().two_ints(py, "max_version")?.0 >= 1),
            None => Ok(false),
        }
    }

    /// Returns true if a host copy is wanted. Fails for a copy or a device that is not offered.
    fn copies(&self, py: Py, device: (i32, i32)) -> Result<bool> {
        const HOST: (i64, i64) = (abi::CAI_DEVICE_CPU as i64, 0);
        let here = (device.0.into(), device.1.into());
        let wanted = match &self.device {
            Some(wanted) => wanted.obj().two_ints(py, "dl_device")?,
            None => here,
        };
        match (self.copy, wanted) {
            (Some(true), HOST) => Ok(true),
            (Some(true), _) if wanted == here => fail!(CAI_ERR_UNSUPPORTED, "copy";
                found "True"; expected "None, False, or a copy in host memory: dl_device=(1, 0)"),
            (Some(false), HOST) if wanted != here => fail!(CAI_ERR_UNSUPPORTED, "copy";
                found "False, for an array on device {device:?}";
                expected "None or True, because host memory needs a copy"),
            _ if wanted == here => Ok(false),
            (_, HOST) => Ok(true),
            _ => fail!(CAI_ERR_CONVERT_DEVICE, "dl_device";
                found "{wanted:?}";
                expected "{device:?}, where the data is, or (1, 0), a copy in host memory"),
        }
    }
}

/// Makes the consumer's stream wait for the array's work. `stream`: `__dlpack__`'s argument.
fn order(py: Py, array: &cai_array, device_type: i32, stream: Option<Obj>) -> Result<()> {
    let is_rocm = device::is_rocm(device_type);
    if !is_rocm && !device::is_cuda(device_type) {
        return Ok(());
    }
    let stream = match stream {
        None => abi::CAI_STREAM_LEGACY,
        Some(stream) => match stream_of(py, stream, is_rocm)? {
            Some(stream) => stream,
            None => return Ok(()),
        },
    };
    let access = consume::access(array);
    let mut located = *array;
    if is_rocm && array.device.r#type == abi::CAI_DEVICE_UNKNOWN {
        located.device = abi::cai_device { r#type: device_type, id: -1 };
    }
    let array = &located;
    let replaced = outgoing::replaced(array)?;
    let array = replaced.as_ref().unwrap_or(array);
    // On one stream nothing is ordered, and so nothing looks whether it is the same stream.
    if stream == array.stream {
        outgoing::is_alive(array)?;
    }
    // What consumers may ignore, a producer orders all the same.
    let flags = access | abi::CAI_SYNC_THIS_CALL;
    // SAFETY: the array was validated when the object was made.
    let array = unsafe { Unchecked::new(array) };
    // DLPack cannot express work on an unknown stream.
    consume::exchange_all_work(Phase::Begin, array, stream, flags)
}

/// Returns the stream that a consumer passed as an integer; `None` if nothing is to be ordered.
fn stream_of(py: Py, stream: Obj, is_rocm: bool) -> Result<Option<u64>> {
    const EXPECTED: &str = "None or 1 (legacy default stream), 2 (per-thread default stream), -1 \
                            (no order) or a cudaStream_t";
    match stream.index(py)?.obj().int(py)? {
        Int::Value(-1) => Ok(None),
        Int::Value(value @ 1..) => Ok(Some(value as u64)),
        // The number of HIP's default stream in DLPack.
        Int::Value(0) if is_rocm => Ok(Some(abi::CAI_STREAM_LEGACY)),
        Int::Value(0) => {
            fail!(CAI_ERR_STREAM_ZERO, "stream"; found "0"; expected "{EXPECTED}")
        }
        Int::Value(value) => {
            fail!(CAI_ERR_VALUE, "stream"; found "{value}"; expected "{EXPECTED}")
        }
        Int::Above | Int::Below => fail!(CAI_ERR_VALUE, "stream";
            found "an integer of more than 63 bits"; expected "{EXPECTED}"),
    }
}

fn into_capsule(py: Py<'_>, tensor: ManagedTensor) -> Result<Owned<'_>> {
    let name = if tensor.is_versioned() { VERSIONED } else { UNVERSIONED };
    let (_, managed) = tensor.deleter();
    // SAFETY: a tensor of the kind that the name states, which the capsule owns from here on.
    let capsule = unsafe { py.capsule(managed, name, Some(capsule_ends)) }?;
    tensor.into_raw();
    Ok(capsule)
}

/// The destructor of the capsule. A consumer that took the tensor has renamed the capsule.
unsafe extern "C-unwind" fn capsule_ends(capsule: *mut Object) {
    let _ = unwind::catch(|| {
        Py::with(|py| {
            // SAFETY: CPython passes a live capsule, which is about to end.
            let Some(capsule) = (unsafe { Obj::from_ptr(capsule) }) else { return Ok(()) };
            let pointer = |name| capsule.capsule(py, Some(name)).map(NonNull::as_ptr);
            // SAFETY: a capsule with this name contains a tensor that no consumer took.
            py.keeping_exception(|| unsafe {
                if let Some(tensor) = pointer(VERSIONED) {
                    drop(ManagedTensor::versioned(tensor.cast()));
                } else if let Some(tensor) = pointer(UNVERSIONED) {
                    drop(ManagedTensor::unversioned(tensor.cast()));
                }
            });
            Ok(())
        })
    });
}
