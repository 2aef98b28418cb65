//! A shared library in Rust for Python: functions that accept and return arrays of PyTorch, NumPy,
//! CuPy and others.
//!
//!     cargo build --release
//!     python use.py target/release/libextension.so
//!
//! There is no binding generator. `ctypes.PyDLL` calls the functions with the interpreter's lock
//! held. If a function returns NULL, it raises the exception that the function has set.

use cudarc::driver::CudaContext;
use libcai::cudarc::{Imported, array_of};
use libcai::{Array, ImportOptions, IxDyn, PyObject, Result, sys};

/// Imports an object, in host memory as well.
///
/// # Safety
/// As [`Array::from_python`].
unsafe fn import(object: *mut PyObject) -> Result<Array> {
    let options = ImportOptions::new(sys::CAI_IMPORT_ALLOW_HOST);
    // SAFETY: this function's contract.
    unsafe { Array::from_python(object, &options) }
}

/// Returns the result to Python, with an exception if it is an error.
///
/// # Safety
/// The thread holds the interpreter's lock.
unsafe fn to_python(result: Result<Array>) -> *mut PyObject {
    // SAFETY: this function's contract.
    unsafe {
        result
            .and_then(|array| array.to_python())
            .unwrap_or_else(|error| error.raise_python())
    }
}

/// Returns the sums of the rows of a `float32` array, in host memory. An array of a device is
/// copied, after the work that is pending on it.
fn row_sums(array: &Array) -> Result<Array> {
    let array = if array.device().is_host_readable() {
        array.clone()
    } else {
        Array::from_vec(array.to_vec::<f32>()?, array.shape())?
    };
    let view = array.view::<f32, IxDyn>()?;
    let sums: Vec<f32> = view.rows().map(|row| row.iter().sum()).collect();
    let shape = array.shape().split_last().map_or(&[][..], |(_, outer)| outer);
    Array::from_vec(sums, shape)
}

/// Returns a copy of a `float32` array of a device. cudarc makes it on a stream of its own, after
/// the work that is pending on the array. Consumers of the result wait for the copy.
fn device_copy(array: Array) -> Result<Array> {
    let fail = |why: cudarc::driver::DriverError| {
        libcai::Error::custom(sys::CAI_ERR_DRIVER, "cudarc", &why.to_string())
    };
    let shape = array.shape().to_vec();
    let context = CudaContext::new(array.device().id as usize).map_err(fail)?;
    let stream = context.new_stream().map_err(fail)?;
    let imported = Imported::<f32>::read(array, &stream)?;
    let copy = stream.clone_dtod(&imported.view(&stream)?).map_err(fail)?;
    array_of(copy, &shape)
}

/// # Safety
/// `object` points to a Python object, and the thread holds the interpreter's lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extension_row_sums(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: this function's contract. No other thread runs Python code while a view exists.
    unsafe { to_python(import(object).and_then(|array| row_sums(&array))) }
}

/// # Safety
/// As [`extension_row_sums`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extension_device_copy(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: this function's contract.
    unsafe { to_python(import(object).and_then(device_copy)) }
}
