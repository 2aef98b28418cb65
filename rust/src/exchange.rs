//! Arrays from and to DLPack tensors and Python objects.
//!
//! May use: `array`, `device`, `error`, `sys`.
//! Unsafe: takes pointers of other libraries.

use std::ptr::null_mut;

use crate::array::{Array, ArrayRef};
use crate::device::Stream;
use crate::error::{Result, call};
use crate::sys::{self, DLManagedTensorVersioned, cai_export_options, cai_import_options};

/// A `PyObject`.
pub type PyObject = sys::_object;

/// Import options for Python objects: requirements, and what is allowed beyond the default.
#[derive(Clone, Copy)]
pub struct ImportOptions(pub cai_import_options);

impl ImportOptions {
    /// `CAI_IMPORT_` flags of [`sys`], and no other requirements.
    #[must_use]
    pub const fn new(flags: u32) -> Self {
        ImportOptions(cai_import_options {
            struct_size: size_of::<cai_import_options>() as u32,
            flags,
            protocols: [0; 8],
            stream: sys::CAI_STREAM_UNKNOWN,
            ndim: 0,
            dtype_code: 0,
            opaque_8bit: 0,
            opaque_16bit: 0,
            reserved: [0; 3],
            typestr: [0; sys::CAI_TYPESTR_SIZE],
        })
    }
}

impl Array {
    /// Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or any other
    /// object with `__cuda_array_interface__`, DLPack or a related protocol. The array keeps the
    /// object alive. Order your work with a [`Consumer`](crate::Consumer) before you use the data.
    ///
    /// Host memory needs `CAI_IMPORT_ALLOW_HOST`.
    ///
    /// Fails with a status of `cai_array_from_python`. A Python exception is then set, unless the
    /// flags contain `CAI_IMPORT_NO_EXCEPTION`: return NULL to Python.
    ///
    /// # Safety
    /// - `object` is NULL or points to a Python object, and the calling thread holds the
    ///   interpreter's lock (is attached).
    /// - While a view of the array or of a clone exists, nothing writes to the data; while a
    ///   mutable view does, nothing else accesses it.
    pub unsafe fn from_python(object: *mut PyObject, options: &ImportOptions) -> Result<Array> {
        // SAFETY: the options are complete; the rest is this function's contract. A successful
        // import writes an array with a reference.
        unsafe {
            Array::receive(|out, error| sys::cai_array_from_python(object, &options.0, out, error))
        }
    }

    /// Takes over a DLPack tensor, whose deleter runs when the last reference is released. `stream`
    /// is where work on the data may be pending: the stream that was passed to `__dlpack__`.
    ///
    /// Fails with a status of `cai_array_from_dlpack`; the tensor then still belongs to the caller.
    ///
    /// # Safety
    /// - `tensor` is NULL or points to a tensor that belongs to the caller.
    /// - While a view of the array or of a clone exists, nothing writes to the data; while a
    ///   mutable view does, nothing else accesses it.
    pub unsafe fn from_dlpack(
        tensor: *mut DLManagedTensorVersioned,
        stream: Stream,
    ) -> Result<Array> {
        // SAFETY: this function's contract; a successful import writes an array with a reference.
        unsafe {
            Array::receive(|out, error| {
                sys::cai_array_from_dlpack(tensor, stream.as_raw(), out, error)
            })
        }
    }
}

impl ArrayRef {
    /// Returns a new Python object with the array, which offers `__cuda_array_interface__` (for
    /// host memory `__array_interface__`), `__dlpack__` and the exchange tables. The reference to
    /// it belongs to the caller.
    ///
    /// Fails with a status of `cai_array_to_python`. A Python exception is then set.
    ///
    /// # Safety
    /// The calling thread holds the interpreter's lock (is attached). What Python code does with
    /// the data is ordered with views as [`Array::from_raw`] requires.
    pub unsafe fn to_python(&self) -> Result<*mut PyObject> {
        let options: *const cai_export_options = std::ptr::null();
        let mut out = null_mut();
        // SAFETY: the array is valid and `out` writable; the thread holds the lock (this function's
        // contract).
        call(|error| unsafe { sys::cai_array_to_python(self.as_ptr(), options, &mut out, error) })?;
        Ok(out)
    }

    /// Returns a DLPack tensor of version 1 with a reference to the array. Its deleter must be
    /// called once; until then it belongs to the caller. DLPack has no streams: make the receiver's
    /// stream wait first, or state the array's.
    ///
    /// `flags`: `CAI_DLPACK_` bits of [`sys`].
    ///
    /// Fails with a status of `cai_array_to_dlpack`.
    pub fn to_dlpack(&self, flags: u32) -> Result<*mut DLManagedTensorVersioned> {
        let mut out = null_mut();
        // SAFETY: the array is valid and `out` writable.
        call(|error| unsafe { sys::cai_array_to_dlpack(self.as_ptr(), flags, &mut out, error) })?;
        Ok(out)
    }
}
