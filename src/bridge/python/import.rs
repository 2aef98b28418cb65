//! Python objects in: which ways are tried, in which order, and what the caller demands of the result.
//!
//! May use: `abi`, `error`, `dtype`, `layout`, `driver`, `owner`, `validate`, `bridge::dlpack`; of this folder all but
//! `export`. `unsafe`: calls CPython with its lock held, and follows the pointers of foreign structures.

use std::alloc::{Layout, alloc};
use std::ffi::{CStr, c_char, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use super::capi::Object;
use super::dictionary::{self, Protocol, in_dictionary};
use super::interpreter::{Owned, Py, raised};
use super::keeper::{Description, keep, keep_tensor};
use super::types::{DlpackExchange, Offer};
use super::{buffer, numpy, sycl};
use crate::abi::{
    self, DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_error, cai_exchange_api,
    cai_import_options, cai_owner,
};
use crate::bridge::dlpack;
use crate::driver;
use crate::dtype;
use crate::error::{Failure, Result, Text, fail};
use crate::owner::{self, block};
use crate::raw::Descr;
use crate::sync::consume;
use crate::validate;

/// The default order. The last two are for host memory.
const ORDER: [u8; 8] = [
    abi::CAI_VIA_EXCHANGE,
    abi::CAI_VIA_DLPACK_EXCHANGE,
    abi::CAI_VIA_CUDA_ARRAY_INTERFACE,
    abi::CAI_VIA_DLPACK,
    abi::CAI_VIA_SYCL_USM,
    abi::CAI_VIA_BUFFER,
    abi::CAI_VIA_ARRAY_STRUCT,
    abi::CAI_VIA_ARRAY_INTERFACE,
];
const HOST_WAYS: usize = 2;

/// What the caller wishes.
pub struct Wishes {
    options: cai_import_options,
}

impl Wishes {
    /// Nothing in particular.
    pub const NONE: Wishes = Wishes {
        options: cai_import_options {
            struct_size: size_of::<cai_import_options>() as u32,
            flags: 0,
            protocols: [0; 8],
            stream: 0,
            ndim: 0,
            dtype_code: 0,
            opaque1: 0,
            opaque2: 0,
            reserved: [0; 3],
            typestr: [0; abi::CAI_TYPESTR_SIZE],
        },
    };

    /// A caller's options.
    ///
    /// # Safety
    /// `options` points to a structure of the size that it says.
    pub unsafe fn new(options: *const cai_import_options) -> Result<Self> {
        const LEAST: usize = offset_of!(cai_import_options, stream);
        // SAFETY: the first field is there by contract; no reference to the whole is made.
        let size = unsafe { (&raw const (*options).struct_size).read() } as usize;
        if !(LEAST..=4096).contains(&size) || size % 8 != 0 {
            return fail!(CAI_ERR_STRUCT_SIZE, "options->struct_size"; found "{size}";
                expected "sizeof(cai_import_options), which is {} here", size_of::<cai_import_options>());
        }
        let mut wishes = Self::NONE;
        let known = size.min(size_of::<cai_import_options>());
        // SAFETY: as many bytes are there on both sides.
        unsafe {
            ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut wishes.options).cast::<u8>(), known);
        }
        let options = &wishes.options;
        const FLAGS: u32 = 2 * abi::CAI_IMPORT_QUIET - 1;
        if options.flags & !FLAGS != 0 {
            return fail!(CAI_ERR_ARGUMENT, "options->flags"; found "{:#x}", options.flags; expected "bits of {FLAGS:#x} only");
        }
        if wishes.strict() && wishes.lenient() {
            return fail!(CAI_ERR_ARGUMENT, "options->flags"; found "CAI_IMPORT_STRICT and CAI_IMPORT_LENIENT"; expected "one of them");
        }
        if let Some(index) = options.protocols.iter().position(|&via| via > abi::CAI_VIA_ARRAY_INTERFACE) {
            return fail!(CAI_ERR_ARGUMENT, "options->protocols[{index}]"; found "{}", options.protocols[index];
                expected "0 or a CAI_VIA_ number, 1 to {}", abi::CAI_VIA_ARRAY_INTERFACE);
        }
        if options.reserved != [0; 3] {
            return fail!(CAI_ERR_ARGUMENT, "options->reserved"; found "a value"; expected "0");
        }
        if options.typestr[0] != 0 {
            dtype::from_field(&options.typestr, options.dtype_code)
                .map_err(|failure| failure.within("options->"))?;
        }
        Ok(wishes)
    }

    fn has(&self, flag: u32) -> bool {
        self.options.flags & flag != 0
    }

    /// Only what the specification says.
    pub fn strict(&self) -> bool {
        self.has(abi::CAI_IMPORT_STRICT)
    }

    /// Also what it forbids.
    pub fn lenient(&self) -> bool {
        self.has(abi::CAI_IMPORT_LENIENT)
    }

    /// No exceptions of this library's.
    pub fn quiet(&self) -> bool {
        self.has(abi::CAI_IMPORT_QUIET)
    }

    /// Arrays in host memory are welcome.
    pub fn host(&self) -> bool {
        self.has(abi::CAI_IMPORT_HOST)
    }

    /// Is there nothing to look at after an import?
    fn are_none(&self) -> bool {
        const LOOKS: u32 = abi::CAI_IMPORT_WRITABLE
            | abi::CAI_IMPORT_C_CONTIGUOUS
            | abi::CAI_IMPORT_F_CONTIGUOUS
            | abi::CAI_IMPORT_NATIVE
            | abi::CAI_IMPORT_NDIM
            | abi::CAI_IMPORT_NO_MASK
            | abi::CAI_IMPORT_DEVICE;
        let options = &self.options;
        options.flags & LOOKS == 0
            && options.typestr[0] == 0
            && options.dtype_code | options.opaque1 | options.opaque2 == 0
    }

    fn ways(&self) -> &[u8] {
        let ways = &self.options.protocols;
        if ways[0] == 0 {
            return if self.host() { &ORDER } else { &ORDER[..ORDER.len() - HOST_WAYS] };
        }
        let end = ways.iter().position(|&via| via == 0).unwrap_or(ways.len());
        &ways[..end]
    }
}

/// Imports an object into `to`.
///
/// # Safety
/// `object` is alive.
#[inline(always)]
pub unsafe fn import(
    object: NonNull<Object>,
    wishes: &Wishes,
    size: usize,
    to: &mut Description,
) -> Result<()> {
    let py = Py::here()?;
    find(py, object, wishes, 0, to)?;
    if wishes.are_none() && size >= size_of::<cai_array>() {
        return Ok(());
    }
    satisfy(to, wishes, size)
}

/// Tries the ways in. `depth`: how many masks hang above.
#[inline]
fn find(py: Py, object: NonNull<Object>, wishes: &Wishes, depth: i32, to: &mut Description) -> Result<()> {
    let usual = wishes.options.protocols[0] == 0;
    let mut offer = None;
    if usual {
        let offered = py.types.offer(py, py.type_of(object.as_ptr()))?;
        if offered.is_nothing() {
            // What nearly everybody has.
            let found = from_dictionary(
                py,
                object,
                Protocol::Cuda,
                py.names.cuda_array_interface,
                wishes,
                depth,
                to,
            )?;
            if found {
                return Ok(());
            }
        }
        offer = Some(offered);
    }
    try_all(py, object, wishes, depth, offer, to)
}

#[inline(never)]
fn try_all(
    py: Py,
    object: NonNull<Object>,
    wishes: &Wishes,
    depth: i32,
    mut offer: Option<Offer>,
    to: &mut Description,
) -> Result<()> {
    // Where the type offers nothing, the dictionary was tried already, and is not read twice.
    let tried = offer.is_some_and(|offer| offer.is_nothing());
    let mut host_only = false;
    let mut declined = None;
    if try_ways(py, object, wishes, depth, &mut offer, tried, &mut host_only, &mut declined, to)? {
        return Ok(());
    }
    // What was remembered of the type may be of another one, that had its address before.
    if offer.is_some_and(|offer| offer.is_nothing()) {
        let mut anew = Some(py.types.ask(py, py.type_of(object.as_ptr()))?);
        if anew.is_some_and(|anew| !anew.is_nothing())
            && try_ways(py, object, wishes, depth, &mut anew, true, &mut host_only, &mut declined, to)?
        {
            return Ok(());
        }
    }
    if let Some(declined) = declined {
        return declined.again();
    }
    not_found(py, object, wishes, host_only)
}

/// A BufferError that a producer raised instead of a tensor.
struct Declined {
    py: Py,
    exception: [*mut Object; 3],
}

impl Declined {
    /// What is set, if it is one. Everything else is passed on.
    fn of(py: Py, failure: Failure) -> Result<Self> {
        let capi = py.capi();
        // SAFETY: the lock is held.
        unsafe {
            let says_so = failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION
                && (capi.error_matches)(*capi.buffer_error) != 0;
            if !says_so {
                return Err(failure);
            }
            let mut exception = [ptr::null_mut(); 3];
            let [kind, value, trace] = &mut exception;
            (capi.error_fetch)(kind, value, trace);
            Ok(Declined { py, exception })
        }
    }

    /// Raises it again.
    fn again(mut self) -> Result<()> {
        let [kind, value, trace] = std::mem::replace(&mut self.exception, [ptr::null_mut(); 3]);
        // SAFETY: the lock is held; the references were ours.
        unsafe { (self.py.capi().error_restore)(kind, value, trace) };
        raised()
    }
}

impl Drop for Declined {
    fn drop(&mut self) {
        for object in self.exception {
            self.py.let_go(object);
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn try_ways(
    py: Py,
    object: NonNull<Object>,
    wishes: &Wishes,
    depth: i32,
    offer: &mut Option<Offer>,
    tried: bool,
    host_only: &mut bool,
    declined: &mut Option<Declined>,
    to: &mut Description,
) -> Result<bool> {
    for &via in wishes.ways() {
        let mut offers = || -> Result<Offer> {
            match offer {
                Some(offer) => Ok(*offer),
                None => Ok(*offer.insert(py.types.offer(py, py.type_of(object.as_ptr()))?)),
            }
        };
        let found = match via {
            abi::CAI_VIA_EXCHANGE => match offers()?.exchange {
                Some(table) => from_table(py, object, table, to)?,
                None => false,
            },
            abi::CAI_VIA_DLPACK_EXCHANGE => match offers()?.dlpack {
                Some(table) => from_dlpack_table(py, object, table, wishes, host_only, to)?,
                None => false,
            },
            abi::CAI_VIA_CUDA_ARRAY_INTERFACE if tried => false,
            abi::CAI_VIA_CUDA_ARRAY_INTERFACE => {
                from_dictionary(py, object, Protocol::Cuda, py.names.cuda_array_interface, wishes, depth, to)?
            }
            abi::CAI_VIA_DLPACK => match from_dlpack(py, object, wishes, host_only, to) {
                Ok(found) => found,
                // DLPack's Python side: what it cannot say. Another protocol may.
                Err(failure) => {
                    to.reset();
                    *declined = Some(Declined::of(py, failure)?);
                    false
                }
            },
            abi::CAI_VIA_SYCL_USM => from_dictionary(
                py,
                object,
                Protocol::Sycl,
                py.names.sycl_usm_array_interface,
                wishes,
                depth,
                to,
            )?,
            abi::CAI_VIA_BUFFER => buffer::import(py, object, wishes, to)?,
            abi::CAI_VIA_ARRAY_STRUCT => numpy::import(py, object, to)?,
            _ => from_dictionary(py, object, Protocol::Host, py.names.array_interface, wishes, depth, to)?,
        };
        if found {
            if to.array.device.r#type == abi::CAI_DEVICE_CPU && !wishes.host() {
                *host_only = true;
                to.reset();
                continue;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

#[cold]
fn not_found(py: Py, object: NonNull<Object>, wishes: &Wishes, host_only: bool) -> Result<()> {
    let name = py.type_name(object.as_ptr());
    if host_only {
        return fail!(CAI_ERR_HOST_MEMORY, "object"; found "an array in host memory, of type {name}";
            expected "one in device memory");
    }
    let mut list: Text<200> = Text::new(format_args!(""));
    for (index, via) in wishes.ways().iter().enumerate() {
        use std::fmt::Write;
        let name = match *via {
            abi::CAI_VIA_EXCHANGE => "__cai_exchange_api__",
            abi::CAI_VIA_DLPACK_EXCHANGE => "__dlpack_c_exchange_api__",
            abi::CAI_VIA_CUDA_ARRAY_INTERFACE => "__cuda_array_interface__",
            abi::CAI_VIA_DLPACK => "__dlpack__",
            abi::CAI_VIA_SYCL_USM => "__sycl_usm_array_interface__",
            abi::CAI_VIA_BUFFER => "buffer",
            abi::CAI_VIA_ARRAY_STRUCT => "__array_struct__",
            _ => "__array_interface__",
        };
        // A text that is full says so by itself.
        let _ = write!(list, "{}{name}", if index == 0 { "" } else { ", " });
    }
    fail!(CAI_ERR_NO_PROTOCOL, "object"; found "an object of type {name}, which offers none"; expected "one of {list}")
}

/// Through a table of this library's.
#[inline]
fn from_table(
    py: Py,
    object: NonNull<Object>,
    table: &cai_exchange_api,
    to: &mut Description,
) -> Result<bool> {
    const NAME: &str = "__cai_exchange_api__";
    let Some(from_object) = table.from_object else { return raised() };
    // As `CAI_ARRAY_INIT` leaves it: a table that forgets the stream is told so.
    to.array.stream = 0;
    let mut error = MaybeUninit::<cai_error>::uninit();
    // A table that fails without a word has said nothing.
    // SAFETY: inside the structure.
    unsafe {
        (&raw mut (*error.as_mut_ptr()).field).cast::<c_char>().write(0);
        (&raw mut (*error.as_mut_ptr()).message).cast::<c_char>().write(0);
    }
    // SAFETY: published under the contract of `cai_exchange_api`; the object is alive and of a type with this table.
    let status = unsafe { from_object(object.as_ptr().cast(), &raw mut to.array, error.as_mut_ptr()) };
    if status != abi::CAI_OK {
        // Whatever it wrote, it says that it gave no reference.
        to.taken();
        // SAFETY: filled where the function failed, by the same contract.
        return Err(unsafe { foreign(py, status, error.as_ptr()) });
    }
    // SAFETY: as it says, filled in by the table's function.
    unsafe { validate::array(&raw const to.array, abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| failure.within(format_args!("{NAME}.")))?;
    if to.array.owner.is_null() {
        return fail!(CAI_ERR_BORROWED, "{NAME}.owner"; found "NULL"; expected "an owner that keeps the data alive");
    }
    Ok(true)
}

/// A failure in another library's words.
///
/// # Safety
/// `error` was filled in.
#[cold]
unsafe fn foreign(py: Py, status: abi::cai_status, error: *const cai_error) -> Failure {
    if py.has_exception() {
        return match raised::<()>() {
            Err(failure) => failure,
            Ok(()) => Failure::no_memory(0),
        };
    }
    if matches!(status, abi::CAI_ERR_PYTHON_EXCEPTION | abi::CAI_OK) {
        return Failure::new(
            abi::CAI_ERR_EXCHANGE_TABLE,
            format_args!("__cai_exchange_api__.from_object"),
            format_args!("a failure that says that an exception is set, and none is"),
            format_args!("one"),
        );
    }
    // SAFETY: `from_table` terminated it before the function was called.
    if unsafe { (&raw const (*error).message).cast::<c_char>().read() } == 0 {
        return Failure::new(
            status,
            format_args!("__cai_exchange_api__.from_object"),
            format_args!("a failure without a word"),
            format_args!("an array"),
        );
    }
    // SAFETY: by contract, with terminated texts.
    let (field, message) = unsafe {
        (
            CStr::from_ptr((&raw const (*error).field).cast()),
            CStr::from_ptr((&raw const (*error).message).cast()),
        )
    };
    Failure::new(
        status,
        format_args!("{}", field.to_string_lossy()),
        format_args!(""),
        format_args!("{}", message.to_string_lossy()),
    )
}

/// Fields of arrays and tensors, as those see them who offered them.
fn of(name: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| failure.within(format_args!("{name}."))
}

/// Through DLPack's table. A managed tensor is asked for, and not the view that the table may lend as well: a view is good
/// for the time of a call only, and cannot say that it is read-only.
#[inline]
fn from_dlpack_table(
    py: Py,
    object: NonNull<Object>,
    table: &DlpackExchange,
    wishes: &Wishes,
    host_only: &mut bool,
    to: &mut Description,
) -> Result<bool> {
    const NAME: &str = "__dlpack_c_exchange_api__";
    let Some(from_object) = table.from_object else { return Ok(false) };
    let mut tensor: *mut DLManagedTensorVersioned = ptr::null_mut();
    // SAFETY: DLPack's table, for an object of a type with this table.
    if unsafe { from_object(object.as_ptr().cast(), &raw mut tensor) } != 0 || tensor.is_null() {
        return failed(py, NAME, "managed_tensor_from_py_object_no_sync");
    }
    let tensor = Tensor::Versioned(tensor);
    // SAFETY: the tensor is ours.
    let (inside, flags) = unsafe { tensor.inside() }.map_err(of(NAME))?;
    // SAFETY: as above.
    let device = unsafe { (*inside).device() };
    if device.0 == abi::CAI_DEVICE_CPU && !wishes.host() {
        *host_only = true;
        return Ok(false);
    }
    let stream = match table.current_stream.filter(|_| on_device(device.0)) {
        Some(current) => {
            let mut stream: *mut c_void = ptr::null_mut();
            // SAFETY: DLPack's table; the function gets what it expects.
            if unsafe { current(device.0, device.1, &raw mut stream) } != 0 {
                return failed(py, NAME, "current_work_stream");
            }
            if stream.is_null() { abi::CAI_STREAM_LEGACY } else { stream as u64 }
        }
        None => abi::CAI_STREAM_UNKNOWN,
    };
    let Description { array, strides, .. } = to;
    // SAFETY: the tensor is alive until it is kept or deleted.
    unsafe { dlpack::describe(inside, flags, stream, strides, array) }.map_err(of(NAME))?;
    tensor.keep(py, array)?;
    resolved(py, object, &to.array, NAME)?;
    Ok(true)
}

/// Does a producer have a current stream for this device? Page-locked memory is the host's: nobody enqueues on it unasked.
fn on_device(device_type: i32) -> bool {
    dlpack::has_streams(device_type) && device_type != abi::CAI_DEVICE_CUDA_HOST
}

/// A managed tensor that is ours: deleted unless it is kept.
enum Tensor {
    Versioned(*mut DLManagedTensorVersioned),
    Unversioned(*mut DLManagedTensor),
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe {
            match *self {
                Tensor::Versioned(tensor) => dlpack::delete_versioned(tensor),
                Tensor::Unversioned(tensor) => dlpack::delete_unversioned(tensor),
            }
        }
    }
}

impl Tensor {
    /// The tensor inside, and the flags where there are any.
    ///
    /// # Safety
    /// The tensor is alive.
    unsafe fn inside(&self) -> Result<(*const dlpack::Tensor, Option<u64>)> {
        // SAFETY: by contract.
        unsafe {
            match *self {
                Tensor::Versioned(tensor) => {
                    dlpack::inside_versioned(tensor).map(|(inside, flags)| (inside, Some(flags)))
                }
                Tensor::Unversioned(tensor) => Ok((dlpack::inside_unversioned(tensor), None)),
            }
        }
    }

    /// Makes it the owner of the array that it describes.
    fn keep(self, py: Py, array: &mut cai_array) -> Result<()> {
        // SAFETY: alive.
        let (deleter, tensor): (_, *mut c_void) = unsafe {
            match self {
                Tensor::Versioned(tensor) => (dlpack::deleter_versioned(tensor), tensor.cast()),
                Tensor::Unversioned(tensor) => (dlpack::deleter_unversioned(tensor), tensor.cast()),
            }
        };
        keep_tensor(py, array, deleter, tensor)?;
        std::mem::forget(self);
        Ok(())
    }
}

/// A function of DLPack's table failed: with an exception, as it should.
#[cold]
fn failed<T>(py: Py, table: &str, function: &str) -> Result<T> {
    if py.has_exception() {
        return raised();
    }
    fail!(CAI_ERR_VALUE, "{table}.{function}"; found "a failure without an exception"; expected "a tensor")
}

/// Through a dictionary.
#[inline]
fn from_dictionary(
    py: Py,
    object: NonNull<Object>,
    protocol: Protocol,
    name: *mut Object,
    wishes: &Wishes,
    depth: i32,
    to: &mut Description,
) -> Result<bool> {
    let Some(dictionary) = py.attribute(object.as_ptr(), name)? else { return Ok(false) };
    if protocol != Protocol::Cuda || !dictionary::is_usual(py, &dictionary, to) {
        return with_rest(py, object, &dictionary, protocol, wishes, depth, to).map(|()| true);
    }
    // SAFETY: described just now.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| in_dictionary(protocol, failure))?;
    keep(py, &mut to.array, Owned::share(py, object), None)?;
    resolved(py, object, &to.array, protocol.name())?;
    Ok(true)
}

/// PyTorch has tensors whose values are the conjugates, or the negatives, of what lies in memory: views that remember to
/// compute that later. No protocol can say so, and most of PyTorch's exports do not look. Here it is looked at where it can be:
/// in complex tensors, and in those that may be the imaginary part of one, which lie every other number.
#[inline(always)]
fn resolved(py: Py, object: NonNull<Object>, array: &cai_array, name: &'static str) -> Result<()> {
    let [_, kind, size, ..] = array.typestr.map(|byte| byte as u8);
    let every_other = || {
        // SAFETY: sound, with `ndim` values where there are any.
        let Ok((shape, strides)) = (unsafe { crate::raw::shape_and_strides(array) }) else { return true };
        // Of two elements, which are a power of two bytes where the size has one digit; the others may be asked.
        let within = 2 * i64::from(size.wrapping_sub(b'0')) - 1;
        match strides {
            None => shape.iter().all(|&extent| extent < 2),
            // The last is the one that tells, nearly always.
            Some(strides) => {
                let mut dimensions = shape.iter().zip(strides).rev();
                dimensions.all(|(&extent, &stride)| extent < 2 || stride & within == 0)
            }
        }
    };
    if kind == b'c' || (kind == b'f' && every_other()) { ask_resolved(py, object, name) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn ask_resolved(py: Py, object: NonNull<Object>, name: &'static str) -> Result<()> {
    let capi = py.capi();
    // Only tensors have both.
    for (method, bit) in [(py.names.is_conj, "conjugate"), (py.names.is_neg, "negative")] {
        if py.type_attribute(object.as_ptr(), method)?.is_none() {
            return Ok(());
        }
        let Some(method) = py.attribute(object.as_ptr(), method)? else { return Ok(()) };
        // SAFETY: the lock is held.
        let set = unsafe {
            let nothing = Owned::new(py, (capi.tuple_new)(0))?;
            let answer = Owned::new(py, (capi.call)(method.get(), nothing.get(), ptr::null_mut()))?;
            (capi.is_true)(answer.get())
        };
        if set < 0 {
            return raised();
        }
        if set > 0 {
            return fail!(CAI_ERR_CONVERT_TYPE, "{name}"; found "a tensor with the {bit} bit: its values are not those in memory";
                expected "one without (resolve_conj(), resolve_neg())");
        }
    }
    Ok(())
}

/// What is not usual: other types than the built-in ones, fields, masks, SYCL's objects, and all that is wrong.
#[cold]
#[inline(never)]
fn with_rest(
    py: Py,
    object: NonNull<Object>,
    dictionary: &Owned,
    protocol: Protocol,
    wishes: &Wishes,
    depth: i32,
    to: &mut Description,
) -> Result<()> {
    let rest = dictionary::read(py, dictionary, protocol, wishes, to)?;
    let mut more = None;
    if let Some(syclobj) = &rest.syclobj {
        more = sycl::context(py, syclobj, &mut to.array)?;
    }
    if let Some(fields) = &rest.fields {
        to.array.descr = fields.as_ptr();
    }
    let mut mask = None;
    if let Some(object) = rest.mask.as_ref().and_then(|mask| NonNull::new(mask.get())) {
        if depth >= abi::CAI_MAX_MASKS {
            return fail!(CAI_ERR_MASK_DEPTH, "{}['mask']", protocol.name(); found "more masks on one another";
                expected "at most {}", abi::CAI_MAX_MASKS);
        }
        let plain = Wishes {
            options: cai_import_options {
                flags: wishes.options.flags
                    & (abi::CAI_IMPORT_STRICT | abi::CAI_IMPORT_LENIENT | abi::CAI_IMPORT_HOST),
                ..Wishes::NONE.options
            },
        };
        let found = mask.insert(Description::new());
        find(py, object, &plain, depth + 1, found)
            .map_err(|failure| failure.within(format_args!("{}['mask'].", protocol.name())))?;
        as_bits(py, object, wishes, to, &mut found.array);
    }
    to.array.mask = mask.as_ref().map_or(ptr::null(), |mask| &raw const mask.array);
    // SAFETY: described just now; fields and mask are alive.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| in_dictionary(protocol, failure))?;
    let described = *to.array();
    to.array.descr = ptr::null();
    to.array.mask = ptr::null();
    keep(py, &mut to.array, Owned::share(py, object), more)?;
    resolved(py, object, &to.array, protocol.name())?;
    if described.descr.is_null() && described.mask.is_null() {
        return Ok(());
    }
    // SAFETY: validated above; the reference goes to the block.
    let array = unsafe { block::new(&cai_array { owner: to.array.owner, ..described }) }?;
    to.taken();
    to.set(array);
    Ok(())
}

/// cuDF's masks are bit fields that call themselves bytes: one bit for each element, in a buffer whose length is
/// padded. Nothing but whose object it is tells them from bytes.
fn as_bits(py: Py, object: NonNull<Object>, wishes: &Wishes, array: &Description, mask: &mut cai_array) {
    let [extent] = *array.extents() else { return };
    if mask.ndim != 1
        || mask.typestr[1] as u8 != b'u'
        || mask.typestr[2] as u8 != b'1'
        || mask.shape.is_null()
    {
        return;
    }
    // SAFETY: an array that was imported, with one dimension.
    let (bytes, stride) = unsafe { (*mask.shape, if mask.strides.is_null() { 1 } else { *mask.strides }) };
    let enough = bytes.checked_mul(8).is_none_or(|bits| bits >= extent);
    let module = py.type_attribute(object.as_ptr(), py.names.module);
    let of_cudf = match &module {
        Ok(Some(module)) if py.is(module.get(), py.capi().str_type) => {
            let text = py.text(module.get()).unwrap_or_default();
            text == b"cudf" || text.starts_with(b"cudf.")
        }
        Ok(_) => false,
        Err(_) => {
            py.clear();
            false
        }
    };
    if stride == 1 && enough && (of_cudf || (wishes.lenient() && bytes != extent)) {
        mask.typestr[..4].copy_from_slice(&[b'|', b't', b'1', 0].map(|byte| byte as c_char));
        mask.shape = array.shape.as_ptr().cast();
        mask.strides = ptr::null();
    }
}

/// Through the methods `__dlpack_device__` and `__dlpack__`.
#[cold]
fn from_dlpack(
    py: Py,
    object: NonNull<Object>,
    wishes: &Wishes,
    host_only: &mut bool,
    to: &mut Description,
) -> Result<bool> {
    const NAME: &str = "__dlpack__";
    let capi = py.capi();
    let Some(device) = py.attribute(object.as_ptr(), py.names.dlpack_device)? else { return Ok(false) };
    let Some(method) = py.attribute(object.as_ptr(), py.names.dlpack)? else { return Ok(false) };
    // SAFETY: the lock is held.
    let nothing = Owned::new(py, unsafe { (capi.tuple_new)(0) })?;
    // SAFETY: the lock is held.
    let device = Owned::new(py, unsafe { (capi.call)(device.get(), nothing.get(), ptr::null_mut()) })?;
    let device_type = first_integer(py, &device)?;
    if device_type == i64::from(abi::CAI_DEVICE_CPU) && !wishes.host() {
        *host_only = true;
        return Ok(false);
    }
    // oneAPI's dictionary says more: on which queue work may be pending.
    let prefers_sycl = device_type == i64::from(abi::CAI_DEVICE_ONEAPI) && wishes.options.protocols[0] == 0;
    if prefers_sycl && py.type_attribute(object.as_ptr(), py.names.sycl_usm_array_interface)?.is_some() {
        return Ok(false);
    }
    const ROCM: i64 = 10;
    let wished = wishes.options.stream;
    // What the producer shall order its work before, and where the work is then.
    let (asked, stream) = match device_type {
        _ if !i32::try_from(device_type).is_ok_and(on_device) && device_type != ROCM => {
            let cpu = device_type == i64::from(abi::CAI_DEVICE_CPU);
            (None, if cpu { abi::CAI_STREAM_NONE } else { abi::CAI_STREAM_UNKNOWN })
        }
        // HIP's default stream is 0 there, and 1 and 2 are no streams.
        ROCM if wished == 0 => (Some(0), abi::CAI_STREAM_LEGACY),
        _ => match wished {
            0 => (Some(1), abi::CAI_STREAM_LEGACY),
            abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN => (Some(-1), abi::CAI_STREAM_UNKNOWN),
            stream => (Some(stream as i64), stream),
        },
    };
    // SAFETY: the lock is held throughout; what is new is owned, what is put into a tuple is given away.
    let capsule = unsafe {
        let (keywords, older) = (Owned::new(py, (capi.dict_new)())?, Owned::new(py, (capi.dict_new)())?);
        if let Some(asked) = asked {
            let number = Owned::new(py, (capi.long_from_signed)(asked))?;
            for keywords in [&keywords, &older] {
                if (capi.dict_set)(keywords.get(), py.names.stream, number.get()) != 0 {
                    return raised();
                }
            }
        }
        let version = pair(py, 1, 3)?;
        if (capi.dict_set)(keywords.get(), py.names.max_version, version.get()) != 0 {
            return raised();
        }
        let mut capsule = (capi.call)(method.get(), nothing.get(), keywords.get());
        if capsule.is_null() && (capi.error_matches)(*capi.type_error) != 0 {
            // Producers from before DLPack 1.0 know no versions.
            (capi.error_clear)();
            capsule = (capi.call)(method.get(), nothing.get(), older.get());
        }
        Owned::new(py, capsule)?
    };
    let pointer = |name: &CStr| -> *mut c_void {
        // SAFETY: the lock is held; any object may be asked.
        unsafe {
            if (capi.capsule_is)(capsule.get(), name.as_ptr()) == 0 {
                return ptr::null_mut();
            }
            (capi.capsule_pointer)(capsule.get(), name.as_ptr())
        }
    };
    let (versioned, unversioned) = (pointer(c"dltensor_versioned"), pointer(c"dltensor"));
    let (tensor, used) = if !versioned.is_null() {
        (Tensor::Versioned(versioned.cast()), c"used_dltensor_versioned")
    } else if !unversioned.is_null() {
        (Tensor::Unversioned(unversioned.cast()), c"used_dltensor")
    } else {
        let is_used = ["used_dltensor_versioned", "used_dltensor"];
        let used = [c"used_dltensor_versioned", c"used_dltensor"].map(|name| !pointer(name).is_null());
        let name = is_used.iter().zip(used).find(|(_, is)| *is).map_or("", |(name, _)| name);
        return fail!(CAI_ERR_TYPE, "{NAME}"; found "an object of type {} {name}", py.type_name(capsule.get());
            expected "a capsule named dltensor_versioned or dltensor");
    };
    // Renamed, it is ours, and nobody else takes it.
    // SAFETY: the lock is held; a capsule, and a constant name.
    if unsafe { (capi.capsule_rename)(capsule.get(), used.as_ptr()) } != 0 {
        std::mem::forget(tensor);
        return raised();
    }
    // SAFETY: the tensor is ours.
    let (inside, flags) = unsafe { tensor.inside() }.map_err(of(NAME))?;
    let Description { array, strides, .. } = to;
    // SAFETY: alive until it is kept or deleted.
    unsafe { dlpack::describe(inside, flags, stream, strides, array) }.map_err(of(NAME))?;
    tensor.keep(py, array)?;
    if stream < abi::CAI_STREAM_UNKNOWN {
        later(array)?;
    }
    resolved(py, object, &to.array, NAME)?;
    Ok(true)
}

/// A tensor of `__dlpack__`, and the array that it became: where its receiver works.
struct Later {
    tensor: *mut cai_owner,
    array: cai_array,
}

/// The producer has ordered its work before the receiver's stream, and nothing tells it when the receiver is done: it may
/// free or use the memory as soon as the deleter has run. So the tensor goes when the stream gets there.
fn later(array: &mut cai_array) -> Result<()> {
    // SAFETY: not empty.
    let later = unsafe { alloc(Layout::new::<Later>()) }.cast::<Later>();
    if later.is_null() {
        return Err(Failure::no_memory(size_of::<Later>()));
    }
    // SAFETY: fresh memory of this layout, which is that of a `Box`.
    let later = unsafe {
        later.write(Later { tensor: array.owner, array: *array });
        Box::from_raw(later)
    };
    array.owner = owner::new((&raw const *later).cast_mut().cast(), Some(let_go_later))?;
    std::mem::forget(later);
    Ok(())
}

unsafe extern "C" fn let_go_later(later: *mut c_void) {
    // SAFETY: `later` made it, and this runs once.
    let Later { tensor, array } = *unsafe { Box::from_raw(later.cast::<Later>()) };
    // Without elements there is no work; where the stream cannot be asked, there is nothing to wait for.
    // SAFETY: the reference is ours.
    let run = || !array.data.is_null() && unsafe { consume::release_after_own(tensor, &array) }.is_ok();
    if !catch_unwind(AssertUnwindSafe(run)).unwrap_or(false) {
        // SAFETY: it was not given up.
        unsafe { owner::release(tensor) };
    }
}

/// A tuple of two integers.
pub fn pair(py: Py, first: i64, second: i64) -> Result<Owned> {
    let capi = py.capi();
    // SAFETY: the lock is held; what is put into a tuple is given away.
    unsafe {
        let pair = Owned::new(py, (capi.tuple_new)(2))?;
        for (index, number) in [first, second].into_iter().enumerate() {
            let number = Owned::new(py, (capi.long_from_signed)(number))?;
            (capi.tuple_set)(pair.get(), index as isize, number.into_raw());
        }
        Ok(pair)
    }
}

/// The first item of what `__dlpack_device__` answers.
fn first_integer(py: Py, tuple: &Owned) -> Result<i64> {
    let capi = py.capi();
    let expected = || {
        fail!(CAI_ERR_TYPE, "__dlpack_device__"; found "an object of type {}", py.type_name(tuple.get());
            expected "a tuple of two integers")
    };
    if !py.is(tuple.get(), capi.tuple_type) {
        return expected();
    }
    // SAFETY: the lock is held; enumerations are integers by their index.
    unsafe {
        if (capi.tuple_size)(tuple.get()) != 2 {
            return expected();
        }
        let number = Owned::new(py, (capi.index)((capi.tuple_get)(tuple.get(), 0)))?;
        let mut overflow = 0;
        let value = (capi.long_as_signed)(number.get(), &raw mut overflow);
        if overflow != 0 { expected() } else { Ok(value) }
    }
}

/// What the caller demands.
#[cold]
#[inline(never)]
fn satisfy(to: &mut Description, wishes: &Wishes, size: usize) -> Result<()> {
    let options = &wishes.options;
    let array = &mut to.array;
    if array.dtype_code == 0 && matches!(array.typestr[1] as u8, b'V' | b'f') && array.descr.is_null() {
        let meant = match (array.typestr[1] as u8, array.typestr[2] as u8, array.typestr[3]) {
            (_, b'1', 0) => options.opaque1,
            (b'V', b'2', 0) => options.opaque2,
            _ => 0,
        };
        dtype::from_field(&array.typestr, meant).map_err(|failure| failure.within("options->"))?;
        array.dtype_code = meant;
    }
    if wishes.has(abi::CAI_IMPORT_DEVICE)
        && array.device.r#type == abi::CAI_DEVICE_UNKNOWN
        && !array.data.is_null()
    {
        ask_device(array)?;
        if array.device.r#type == abi::CAI_DEVICE_CPU && !wishes.host() {
            return fail!(CAI_ERR_HOST_MEMORY, "data"; found "{:p}, memory that the CUDA driver does not know", array.data;
                expected "device memory");
        }
    }
    if wishes.has(abi::CAI_IMPORT_WRITABLE) && array.flags & abi::CAI_FLAG_READONLY != 0 {
        return fail!(CAI_ERR_READONLY, "data"; found "a read-only array"; expected "a writable one");
    }
    if wishes.has(abi::CAI_IMPORT_NO_MASK) && !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "mask"; found "an array with a mask"; expected "one without");
    }
    if wishes.has(abi::CAI_IMPORT_NDIM) && array.ndim != options.ndim {
        return fail!(CAI_ERR_CONVERT_NDIM, "shape"; found "{} dimensions", array.ndim; expected "{}", options.ndim);
    }
    // SAFETY: imported, and so sound.
    let described = unsafe { validate::describe(array) }?;
    let native = || -> Result<bool> {
        if array.descr.is_null() {
            return Ok(dtype::is_native(&described.dtype));
        }
        // SAFETY: as above.
        dtype::descr::is_native(unsafe { Descr::new(array.descr) }?)
    };
    if wishes.has(abi::CAI_IMPORT_NATIVE) && !native()? {
        return fail!(CAI_ERR_CONVERT_BYTE_ORDER, "typestr"; found "{}", text_of(array); expected "the byte order of this machine");
    }
    if options.typestr[0] != 0 {
        let wanted = dtype::from_field(&options.typestr, options.dtype_code)?;
        if !dtype::equal(&described.dtype, &wanted) {
            let demanded = cai_array { typestr: options.typestr, dtype_code: options.dtype_code, ..*array };
            return fail!(CAI_ERR_CONVERT_TYPE, "typestr"; found "{}", text_of(array); expected "{}", text_of(&demanded));
        }
    }
    let (c, f) = (wishes.has(abi::CAI_IMPORT_C_CONTIGUOUS), wishes.has(abi::CAI_IMPORT_F_CONTIGUOUS));
    let layout = &described.layout;
    if (c || f) && !(c && layout.is_c_contiguous()) && !(f && layout.is_f_contiguous()) {
        let strides: Text<80> = match layout.strides {
            Some(strides) => Text::new(format_args!("{strides:?}")),
            None => Text::new(format_args!("None, which is C order,")),
        };
        let wanted = match (c, f) {
            (true, false) => "C-contiguous",
            (false, _) => "Fortran-contiguous",
            _ => "C- or Fortran-contiguous",
        };
        return fail!(CAI_ERR_CONVERT_CONTIGUOUS, "strides"; found "{strides}"; expected "a {wanted} array");
    }
    let covered = offset_of!(cai_array, byte_offset) + size_of::<u64>();
    if array.byte_offset != 0 && size < covered {
        return fail!(CAI_ERR_STRUCT_SIZE, "out->struct_size"; found "{size}";
            expected "at least {covered}, for the array has a byte_offset");
    }
    Ok(())
}

/// A type for messages.
fn text_of(array: &cai_array) -> Text<40> {
    let text = crate::raw::typestr(&array.typestr).unwrap_or_default().escape_ascii();
    if array.dtype_code == 0 {
        Text::new(format_args!("{text}"))
    } else {
        Text::new(format_args!("{text} with dtype_code {}", array.dtype_code))
    }
}

/// Device, and context where no stream has one.
fn ask_device(array: &mut cai_array) -> Result<()> {
    let driver = driver::driver()?;
    let (device, context) = driver.relaxed(|| driver::whereabouts(driver, array.data))?;
    array.device = device;
    let streamless = array.stream >= abi::CAI_STREAM_UNKNOWN;
    if streamless && array.context.is_null() {
        array.context = context.cast();
    }
    Ok(())
}
