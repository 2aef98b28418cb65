//! Arrays from and to DLPack tensors and Python objects, and to JSON.

use std::ffi::c_char;
use std::ptr::null_mut;

use crate::array::{Array, ArrayRef};
use crate::device::Stream;
use crate::element::Element;
use crate::error::{Error, Result, call};
use crate::sys::{self, DLManagedTensorVersioned, cai_export_options, cai_import_options};

/// A `PyObject`. Pointers to that of other crates are cast: `object.as_ptr().cast()` with pyo3.
pub type PyObject = sys::_object;

/// Import options for Python objects: requirements, and what is allowed beyond the default.
///
/// ```
/// use libcai::{ImportOptions, sys};
///
/// // Matrices of `f32`, also in host memory.
/// let options = ImportOptions::new(sys::CAI_IMPORT_ALLOW_HOST).element::<f32>().ndim(2);
/// # assert_eq!(options.as_raw().ndim, 2);
/// ```
#[derive(Clone, Copy)]
pub struct ImportOptions(cai_import_options);

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions::new(0)
    }
}

impl ImportOptions {
    /// `CAI_IMPORT_` flags of [`sys`], and no other requirements.
    #[must_use]
    pub const fn new(flags: u32) -> Self {
        ImportOptions(cai_import_options {
            struct_size: size_of::<cai_import_options>() as u32,
            flags,
            protocols: [0; 16],
            dlpack_stream: sys::CAI_STREAM_UNKNOWN,
            ndim: 0,
            dtype_code: 0,
            opaque_8bit: 0,
            opaque_16bit: 0,
            reserved: [0; 3],
            typestr: [0; sys::CAI_TYPESTR_SIZE],
        })
    }

    /// Requires elements of this type.
    #[must_use]
    pub fn element<T: Element>(mut self) -> Self {
        self.0.typestr = [0; sys::CAI_TYPESTR_SIZE];
        for (to, byte) in self.0.typestr.iter_mut().zip(T::TYPESTR.bytes()) {
            *to = byte as c_char;
        }
        self.0.dtype_code = T::CODE;
        self
    }

    /// Requires this number of dimensions.
    #[must_use]
    pub fn ndim(mut self, ndim: usize) -> Self {
        self.0.flags |= sys::CAI_IMPORT_REQUIRE_NDIM;
        self.0.ndim = i32::try_from(ndim).unwrap_or(i32::MAX);
        self
    }

    /// Sets the stream that the caller will work on, which is passed to `__dlpack__`. The array is
    /// released on it, so it must exist as long as the array.
    #[must_use]
    pub fn dlpack_stream(mut self, stream: Stream<'static>) -> Self {
        self.0.dlpack_stream = stream.as_raw();
        self
    }

    /// Sets the protocols that are tried: `CAI_PROTOCOL_` numbers of [`sys`] in this order, up to
    /// the first 0.
    #[must_use]
    pub fn protocols(mut self, protocols: [u8; 16]) -> Self {
        self.0.protocols = protocols;
        self
    }

    /// Sets the meaning of opaque types of one byte and of two bytes, which dictionaries do not
    /// state: `CAI_DTYPE_` constants of [`sys`], or `CAI_DTYPE_NONE`.
    #[must_use]
    pub fn opaque(mut self, one_byte: u16, two_bytes: u16) -> Self {
        (self.0.opaque_8bit, self.0.opaque_16bit) = (one_byte, two_bytes);
        self
    }

    /// Returns the structure of the C interface.
    #[must_use]
    pub fn as_raw(&self) -> &cai_import_options {
        &self.0
    }
}

impl std::fmt::Debug for ImportOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let mut text = f.debug_struct("ImportOptions");
        text.field("flags", &format_args!("{:#x}", self.0.flags));
        text.field("protocols", &self.0.protocols).finish_non_exhaustive()
    }
}

impl Error {
    /// Sets the Python exception for this error: TypeError, ValueError, BufferError and so on. If
    /// an exception is set already, it stays. Returns NULL, for a function that returns it to
    /// Python.
    ///
    /// # Safety
    /// The calling thread holds the interpreter's lock (is attached).
    pub unsafe fn raise_python(&self) -> *mut PyObject {
        // SAFETY: the structure is filled in; the thread holds the lock (this function's contract).
        unsafe { sys::cai_python_raise(self.as_raw()) }
    }
}

impl Array {
    /// Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or any other
    /// object with `__cuda_array_interface__`, DLPack or a related protocol. The array keeps the
    /// object alive. Order your work with a [`Consumer`](crate::Consumer) before you use the data.
    ///
    /// Host memory needs `CAI_IMPORT_ALLOW_HOST`.
    ///
    /// ```no_run
    /// use libcai::{Array, ImportOptions, Ix, PyObject, Result, sys};
    ///
    /// /// A function of a Python extension.
    /// unsafe extern "C" fn double(_: *mut PyObject, object: *mut PyObject) -> *mut PyObject {
    ///     // SAFETY: Python calls this function with its lock held, and no other thread writes.
    ///     let result = unsafe { doubled(object).and_then(|array| array.to_python()) };
    ///     result.unwrap_or_else(|why| unsafe { why.raise_python() })
    /// }
    ///
    /// unsafe fn doubled(object: *mut PyObject) -> Result<Array> {
    ///     let options = ImportOptions::new(sys::CAI_IMPORT_ALLOW_HOST);
    ///     let array = unsafe { Array::from_python(object, &options) }?;
    ///     let values = array.to_vec::<f32>()?;
    ///     Array::from_vec(values.iter().map(|value| value * 2.0).collect(), array.shape())
    /// }
    /// ```
    ///
    /// Fails with a status of `cai_array_from_python`. A Python exception is then set, unless the
    /// flags contain `CAI_IMPORT_NO_EXCEPTION`: return NULL to Python, or with pyo3
    /// `PyErr::fetch(py)`.
    ///
    /// # Safety
    /// - `object` is NULL or points to a Python object, and the calling thread holds the
    ///   interpreter's lock (is attached).
    /// - While a view of the array or of a clone exists, nothing writes to the data; while a
    ///   mutable view does, nothing else accesses it.
    pub unsafe fn from_python(object: *mut PyObject, options: &ImportOptions) -> Result<Array> {
        // SAFETY: `new` stated the size of the options; the rest is this function's contract. A
        // successful import writes an array with a reference.
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
    /// - The stream exists as long as the array and its clones.
    /// - While a view of the array or of a clone exists, nothing writes to the data; while a
    ///   mutable view does, nothing else accesses it.
    pub unsafe fn from_dlpack(
        tensor: *mut DLManagedTensorVersioned,
        stream: Stream<'_>,
    ) -> Result<Array> {
        // SAFETY: this function's contract; a successful import writes an array with a reference.
        unsafe {
            Array::receive(|out, error| {
                sys::cai_array_from_dlpack(tensor, stream.as_raw(), 0, out, error)
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
    /// called once; until then it belongs to the caller. A DLPack tensor states no stream: make the
    /// receiver's stream wait before you hand it over, with a [`Consumer`](crate::Consumer).
    ///
    /// `flags`: `CAI_DLPACK_` bits of [`sys`].
    ///
    /// ```
    /// use libcai::{Array, Stream};
    ///
    /// let tensor = Array::from_vec(vec![1.0f32, 2.0], &[2])?.to_dlpack(0)?;
    /// // SAFETY: the tensor belongs to this function, and is given up.
    /// let array = unsafe { Array::from_dlpack(tensor, Stream::NONE) }?;
    /// assert_eq!(array.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with a status of `cai_array_to_dlpack`.
    pub fn to_dlpack(&self, flags: u32) -> Result<*mut DLManagedTensorVersioned> {
        let mut out = null_mut();
        // SAFETY: the array is valid and `out` writable.
        call(|error| unsafe { sys::cai_array_to_dlpack(self.as_ptr(), flags, &mut out, error) })?;
        Ok(out)
    }

    /// Writes the array interface as JSON, as XGBoost's C functions take it. The text states the
    /// address and keeps nothing alive.
    ///
    /// ```
    /// let array = libcai::Array::from_vec(vec![1.0f32; 6], &[2, 3])?;
    /// assert!(array.to_json()?.contains(r#""shape": [2, 3]"#));
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with a status of `cai_unstable_array_to_json`.
    pub fn to_json(&self) -> Result<String> {
        let mut buffer = vec![0u8; 512];
        loop {
            let mut length = 0;
            let (to, size) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: the array is valid, and `size` characters are writable.
            let result = call(|error| unsafe {
                sys::cai_unstable_array_to_json(self.as_ptr(), to, size, &mut length, error)
            });
            match result {
                Ok(()) => {
                    buffer.truncate(length);
                    return Ok(String::from_utf8_lossy(&buffer).into_owned());
                }
                Err(error) if error.status() == sys::CAI_ERR_BUFFER_SIZE => {
                    buffer.resize(buffer.len() * 2, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
