//! `__dlpack__` and `__dlpack_device__` of an exported array.

use std::ptr;

use crate::abi::{self, cai_array};
use crate::copy::HostCopy;
use crate::device;
use crate::dlpack::{self, ManagedTensor};
use crate::error::{Failure, Result, fail};
use crate::python::capi::Object;
use crate::python::capsules::{UNVERSIONED, VERSIONED};
use crate::python::convert::{pair, two_integers};
use crate::python::error::raise_as;
use crate::python::export::object::{array_of, run_for_python};
use crate::python::py::{Exception, Owned, Py, raised};
use crate::sync::consume::{self, Phase};
use crate::sync::outgoing;
use crate::unwind;

pub unsafe extern "C-unwind" fn dlpack_device_method(
    object: *mut Object,
    _: *mut Object,
) -> *mut Object {
    run_for_python(|py| {
        let (array, _) = array_of(py, object)?;
        let (r#type, id) = dlpack::device_of(&array).map_err(|failure| cannot(py, failure))?;
        pair(py, r#type.into(), id.into()).map(Owned::into_raw)
    })
}

/// Raises BufferError, which DLPack requires if an array cannot be exported.
pub fn cannot(py: Py, failure: Failure) -> Failure {
    if failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION
        || failure.status() == abi::CAI_ERR_NO_MEMORY
    {
        return failure;
    }
    raise_as(py, Exception::Buffer, &failure)
}

pub unsafe extern "C-unwind" fn dlpack_method(
    object: *mut Object,
    arguments: *mut Object,
    keywords: *mut Object,
) -> *mut Object {
    run_for_python(|py| {
        let (reading, flags) = array_of(py, object)?;
        let request = DlpackRequest::read(py, arguments, keywords)?;
        let versioned = request.versioned(py)?;
        let device = dlpack::device_of(&reading).map_err(|failure| cannot(py, failure))?;
        if request.copies(py, device).map_err(|failure| cannot(py, failure))? {
            return into_capsule(py, copy_to_host(py, &reading, device.0, versioned)?);
        }
        let mut array = *reading;
        if flags & abi::CAI_EXPORT_HIDE_READONLY != 0 {
            array.flags &= !abi::CAI_ARRAY_READONLY;
        }
        // The conversion comes first, so that a failure orders no stream.
        let tensor = tensor_of(&array, versioned).map_err(|failure| cannot(py, failure))?;
        request.order(py, &array, device.0)?;
        into_capsule(py, tensor)
    })
}

/// Makes a tensor of a copy in host memory. The work that is pending on the array is done then.
fn copy_to_host(
    py: Py,
    array: &cai_array,
    device_type: i32,
    versioned: bool,
) -> Result<ManagedTensor> {
    // SAFETY: the array was validated when the object was made.
    let copy = unsafe { HostCopy::new(array) }.map_err(|failure| cannot(py, failure))?;
    // The conversion comes first, so that a failure copies nothing.
    let mut tensor = tensor_of(copy.array(), versioned).map_err(|failure| cannot(py, failure))?;
    // Other threads may have to run meanwhile: a function that a stream calls may need the lock.
    // SAFETY: the caller holds a reference to the object, which keeps the array alive. A copy uses no
    // Python.
    unsafe { py.without_lock(|| copy.fill(array, device_type)) }
        .map_err(|failure| cannot(py, failure))?;
    tensor.mark_copied();
    Ok(tensor)
}

/// The arguments of `__dlpack__`.
pub struct DlpackRequest<'py> {
    pub stream: Option<Owned<'py>>,
    pub max_version: Option<Owned<'py>>,
    pub device: Option<Owned<'py>>,
    /// A copy was requested or forbidden.
    pub copy: Option<bool>,
}

impl<'py> DlpackRequest<'py> {
    fn read(py: Py<'py>, arguments: *mut Object, keywords: *mut Object) -> Result<Self> {
        let capi = py.capi();
        let mut request =
            DlpackRequest { stream: None, max_version: None, device: None, copy: None };
        let mut take = |key: &[u8], value: *mut Object| -> Result<()> {
            let value = ptr::NonNull::new(value).filter(|value| value.as_ptr() != capi.none);
            let value = value.map(|value| Owned::share(py, value));
            match key {
                b"stream" => request.stream = value,
                b"max_version" => request.max_version = value,
                b"dl_device" => request.device = value,
                b"copy" => {
                    let copies = match &value {
                        // SAFETY: the GIL is held.
                        Some(copy) => unsafe { (capi.is_true)(copy.get()) },
                        None => 0,
                    };
                    if copies < 0 {
                        return raised();
                    }
                    request.copy = value.map(|_| copies > 0);
                }
                other => {
                    return fail!(
                        CAI_ERR_TYPE,
                        "__dlpack__",
                        found = ("a keyword {}", other.escape_ascii()),
                        expected = "stream, max_version, dl_device or copy"
                    );
                }
            }
            Ok(())
        };
        // SAFETY: the GIL is held. CPython passes a tuple, and NULL or a dictionary with strings
        // for keys.
        unsafe {
            match (capi.tuple_size)(arguments) {
                0 => {}
                // Early versions of DLPack passed the stream by position.
                1 => take(b"stream", (capi.tuple_get)(arguments, 0))?,
                more => {
                    return fail!(
                        CAI_ERR_TYPE,
                        "__dlpack__",
                        found = "{more} arguments",
                        expected = "keywords"
                    );
                }
            }
            if !keywords.is_null() {
                let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
                while (capi.dict_next)(keywords, &raw mut position, &raw mut key, &raw mut value)
                    != 0
                {
                    // A truth value, and a string without UTF-8, may run code, which may change a
                    // dictionary that the caller passed.
                    let kept = [key, value].map(|object| {
                        ptr::NonNull::new(object).map(|object| Owned::share(py, object))
                    });
                    take(py.text(key).unwrap_or_default(), value)?;
                    drop(kept);
                }
            }
        }
        Ok(request)
    }

    /// Returns true if the consumer supports DLPack 1.
    fn versioned(&self, py: Py) -> Result<bool> {
        match &self.max_version {
            Some(version) => Ok(two_integers(py, version, "max_version")?.0 >= 1),
            None => Ok(false),
        }
    }

    /// Returns true if a copy in host memory is wanted. Fails for a copy or a device that this
    /// library does not offer.
    fn copies(&self, py: Py, device: (i32, i32)) -> Result<bool> {
        const HOST: (i64, i64) = (abi::CAI_DEVICE_CPU as i64, 0);
        let here = (device.0.into(), device.1.into());
        let wanted = match &self.device {
            Some(wanted) => two_integers(py, wanted, "dl_device")?,
            None => here,
        };
        match (self.copy, wanted) {
            (Some(true), HOST) => Ok(true),
            (Some(true), _) if wanted == here => fail!(
                CAI_ERR_UNSUPPORTED,
                "copy",
                found = "True",
                expected = "None, False, or a copy in host memory: dl_device=(1, 0)"
            ),
            (Some(false), HOST) if wanted != here => fail!(
                CAI_ERR_UNSUPPORTED,
                "copy",
                found = "False, for an array on device {device:?}",
                expected = "None or True, because host memory needs a copy"
            ),
            _ if wanted == here => Ok(false),
            (_, HOST) => Ok(true),
            _ => fail!(
                CAI_ERR_CONVERT_DEVICE,
                "dl_device",
                found = "{wanted:?}",
                expected = "{device:?}, where the data is, or (1, 0), a copy in host memory"
            ),
        }
    }

    /// Makes the consumer's stream wait for the array's work.
    pub fn order(&self, py: Py, array: &cai_array, device_type: i32) -> Result<()> {
        let capi = py.capi();
        let is_rocm = device::is_rocm(device_type);
        if !is_rocm && !device::is_cuda(device_type) {
            return Ok(());
        }
        let stream = match &self.stream {
            None => abi::CAI_STREAM_LEGACY,
            // SAFETY: the GIL is held.
            Some(stream) => unsafe {
                const EXPECTED: &str = "None or 1 (legacy default stream), 2 (per-thread default \
                                        stream), -1 (no order) or a cudaStream_t";
                let number = Owned::new(py, (capi.index)(stream.get()))?;
                let mut overflow = 0;
                match (capi.long_as_signed)(number.get(), &raw mut overflow) {
                    -1 if overflow == 0 => return Ok(()),
                    value @ 1.. if overflow == 0 => value as u64,
                    // The number of HIP's default stream in DLPack.
                    0 if overflow == 0 && is_rocm => abi::CAI_STREAM_LEGACY,
                    0 if overflow == 0 => {
                        return fail!(
                            CAI_ERR_STREAM_ZERO,
                            "stream",
                            found = "0",
                            expected = "{EXPECTED}"
                        );
                    }
                    _ if overflow != 0 => {
                        return fail!(
                            CAI_ERR_VALUE,
                            "stream",
                            found = "an integer of more than 63 bits",
                            expected = "{EXPECTED}"
                        );
                    }
                    value => {
                        return fail!(
                            CAI_ERR_VALUE,
                            "stream",
                            found = "{value}",
                            expected = "{EXPECTED}"
                        );
                    }
                }
            },
        };
        let access = if array.flags & abi::CAI_ARRAY_READONLY == 0 {
            abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE
        } else {
            abi::CAI_ACCESS_READ
        };
        // DLPack cannot express work on an unknown stream, so the host waits for it.
        let unknown =
            if array.stream == abi::CAI_STREAM_UNKNOWN { abi::CAI_SYNC_CONSERVATIVE } else { 0 };
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
        let flags = access | unknown | abi::CAI_SYNC_THIS_CALL;
        // SAFETY: the array was validated when the object was made.
        unsafe { consume::exchange(Phase::Begin, array, stream, flags) }
    }
}

/// Makes a tensor of an array that was validated.
fn tensor_of(array: &cai_array, versioned: bool) -> Result<ManagedTensor> {
    // SAFETY: the array was validated, when its object was made or as that of a copy.
    unsafe {
        if versioned { dlpack::to_versioned(array, 0) } else { dlpack::to_unversioned(array, 0) }
    }
}

fn into_capsule(py: Py, tensor: ManagedTensor) -> Result<*mut Object> {
    let name = if tensor.is_versioned() { VERSIONED } else { UNVERSIONED };
    let (_, managed) = tensor.deleter();
    // SAFETY: the GIL is held, and the tensor is alive.
    let capsule = unsafe { (py.capi().capsule_new)(managed, name.as_ptr(), Some(capsule_ends)) };
    if capsule.is_null() {
        return raised();
    }
    tensor.into_raw();
    Ok(capsule)
}

/// The destructor of the capsule. A consumer that took the tensor has renamed the capsule.
unsafe extern "C-unwind" fn capsule_ends(capsule: *mut Object) {
    let _ = unwind::catch(|| {
        let _ = Py::with(|py| {
            let capi = py.capi();
            // SAFETY: the GIL is held. A capsule with this name contains a tensor that no consumer
            // took.
            unsafe {
                capi.keeping_exception(|| {
                    if (capi.capsule_is)(capsule, VERSIONED.as_ptr()) != 0 {
                        let tensor = (capi.capsule_pointer)(capsule, VERSIONED.as_ptr());
                        drop(ManagedTensor::versioned(tensor.cast()));
                    } else if (capi.capsule_is)(capsule, UNVERSIONED.as_ptr()) != 0 {
                        let tensor = (capi.capsule_pointer)(capsule, UNVERSIONED.as_ptr());
                        drop(ManagedTensor::unversioned(tensor.cast()));
                    }
                });
            }
            Ok(())
        });
    });
}
