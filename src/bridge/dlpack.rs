//! DLPack: tensors in and out.
//!
//! May use: `abi`, `error`, `raw`, `dtype`, `layout`, `owner`, `driver`, `validate`. `unsafe`: follows the pointers of
//! a tensor that the caller vouches for, and writes into the block that it allocated.
//!
//! The differences between the two descriptions: DLPack's steps count elements, ours bytes; its address and offset are
//! two numbers on every device; its types are numbers, in the machine's byte order; it knows neither streams nor masks.
//! [`describe`] is the way in, `Export` the way out; what surrounds them moves ownership. Nothing changes hands
//! before all is known to be sound.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use std::alloc::{Layout as Memory, alloc, dealloc};
use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, align_of, offset_of, size_of};
use std::ptr;

use crate::abi::{
    self, CAI_TYPESTR_SIZE, DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_device, cai_dtype,
    cai_owner,
};
use crate::driver;
use crate::dtype::{self, NATIVE};
use crate::error::{Failure, Result, fail};
use crate::layout::{self, Layout};
use crate::owner::{self, lists};
use crate::raw;
use crate::validate;

const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// Room for as many steps as an array can have.
pub type Steps = [MaybeUninit<i64>; DIMENSIONS];

/// `DLDataType`: the element's type.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`: a tensor without an owner.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    /// In elements.
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// A deleter, which takes the managed tensor itself, and any function like it.
pub type Deleter = Option<unsafe extern "C" fn(*mut c_void)>;

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: Version,
    manager_ctx: *mut c_void,
    deleter: Deleter,
    flags: u64,
    tensor: Tensor,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    manager_ctx: *mut c_void,
    deleter: Deleter,
}

const _: () = assert!(size_of::<DataType>() == 4);
const _: () = assert!(size_of::<Tensor>() == 48);
const _: () = assert!(offset_of!(Tensor, device_type) == 8);
const _: () = assert!(offset_of!(Tensor, ndim) == 16);
const _: () = assert!(offset_of!(Tensor, dtype) == 20);
const _: () = assert!(offset_of!(Tensor, shape) == 24);
const _: () = assert!(offset_of!(Tensor, strides) == 32);
const _: () = assert!(offset_of!(Tensor, byte_offset) == 40);
const _: () = assert!(size_of::<Versioned>() == 80);
const _: () = assert!(offset_of!(Versioned, manager_ctx) == 8);
const _: () = assert!(offset_of!(Versioned, deleter) == 16);
const _: () = assert!(offset_of!(Versioned, flags) == 24);
const _: () = assert!(offset_of!(Versioned, tensor) == 32);
const _: () = assert!(size_of::<Unversioned>() == 64);
const _: () = assert!(offset_of!(Unversioned, manager_ctx) == 48);
const _: () = assert!(offset_of!(Unversioned, deleter) == 56);

/// The version that this file was written after. Another minor number has the same layout.
const VERSION: Version = Version { major: 1, minor: 3 };

const READ_ONLY: u64 = 1;
/// The data belongs to the consumer alone. Nothing follows from it here.
const IS_COPIED: u64 = 2;
/// Elements of less than a byte lie one in a byte each.
const PADDED: u64 = 4;

/// Memory that the host allocates, for ROCm.
const ROCM_HOST: i32 = 11;

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;

/// Bits, as opposed to anything else of less than a byte, are packed on both sides.
const BIT: DataType = DataType { code: UINT, bits: 1, lanes: 1 };

/// Types that both sides can name by kind and size: the kind, DLPack's code, and the sizes in bytes.
///
/// Floats of 16 bytes, and complex numbers of 32, are not among them: DLPack's are IEEE's, while `f16` is whatever C's
/// `long double` is on the machine.
const PLAIN: [(u8, u8, &[u8]); 5] = [
    (b'i', INT, &[1, 2, 4, 8, 16]),
    (b'u', UINT, &[1, 2, 4, 8, 16]),
    (b'f', FLOAT, &[2, 4, 8]),
    (b'c', COMPLEX, &[4, 8, 16]),
    (b'b', BOOL, &[1]),
];

/// A type that is opaque bytes with a code on our side.
struct Coded {
    /// `CAI_DTYPE_`.
    ours: u16,
    theirs: DataType,
}

const fn coded(ours: u16, code: u8, bits: u8, lanes: u16) -> Coded {
    Coded { ours, theirs: DataType { code, bits, lanes } }
}

/// Those types. What has less than 8 bits and one lane lies one in a byte. Two lanes of 4 bits fill theirs, which is how
/// PyTorch exports two floats in a byte: extents and steps count bytes there as well.
const CODED: [Coded; 19] = [
    coded(abi::CAI_DTYPE_BFLOAT16, BFLOAT, 16, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E3M4, 7, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3, 8, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3B11FNUZ, 9, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3FN, 10, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E4M3FNUZ, 11, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E5M2, 12, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E5M2FNUZ, 13, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT8_E8M0FNU, 14, 8, 1),
    coded(abi::CAI_DTYPE_FLOAT6_E2M3FN, 15, 6, 1),
    coded(abi::CAI_DTYPE_FLOAT6_E3M2FN, 16, 6, 1),
    coded(abi::CAI_DTYPE_FLOAT4_E2M1FN, 17, 4, 1),
    coded(abi::CAI_DTYPE_FLOAT4_E2M1FN_X2, 17, 4, 2),
    coded(abi::CAI_DTYPE_INT4, INT, 4, 1),
    coded(abi::CAI_DTYPE_UINT4, UINT, 4, 1),
    coded(abi::CAI_DTYPE_INT2, INT, 2, 1),
    coded(abi::CAI_DTYPE_UINT2, UINT, 2, 1),
    coded(abi::CAI_DTYPE_INT1, INT, 1, 1),
    coded(abi::CAI_DTYPE_UINT1, UINT, 1, 1),
];

impl DataType {
    /// Does one element, with all its lanes, fill no whole byte? Then somebody has to say how they lie.
    fn is_below_a_byte(self) -> bool {
        u32::from(self.bits).saturating_mul(u32::from(self.lanes)) < 8
    }
}

/// An array's type as DLPack has it, or `None`.
fn to_dlpack(dtype: &cai_dtype) -> Option<DataType> {
    if dtype.code != abi::CAI_DTYPE_NONE {
        return CODED.iter().find(|coded| coded.ours == dtype.code).map(|coded| coded.theirs);
    }
    let (kind, bits) = (dtype.kind as u8, u8::try_from(dtype.bits).ok()?);
    if (kind, bits) == (b't', BIT.bits) {
        return Some(BIT);
    }
    let (_, code, sizes) = PLAIN.iter().find(|(ours, ..)| *ours == kind)?;
    (bits % 8 == 0 && sizes.contains(&(bits / 8))).then_some(DataType { code: *code, bits, lanes: 1 })
}

/// A tensor's type as a typestr and a code, or `None`.
fn from_dlpack(dtype: DataType, padded: bool) -> Option<([c_char; CAI_TYPESTR_SIZE], u16)> {
    let DataType { code, bits, lanes } = dtype;
    if lanes == 1 && bits % 8 == 0 {
        let plain = PLAIN.iter().find(|(_, theirs, sizes)| *theirs == code && sizes.contains(&(bits / 8)));
        if let Some((kind, ..)) = plain {
            return Some((typestr(*kind, bits / 8), abi::CAI_DTYPE_NONE));
        }
    }
    if dtype == BIT && !padded {
        return Some((typestr(b't', 1), abi::CAI_DTYPE_NONE));
    }
    // Packed elements of less than a byte have no name on our side; padded lanes have none at all.
    if (dtype.is_below_a_byte() && !padded) || (lanes > 1 && padded) {
        return None;
    }
    let coded = CODED.iter().find(|coded| coded.theirs == dtype)?;
    Some((typestr(b'V', if bits > 8 { bits / 8 } else { 1 }), coded.ours))
}

/// A typestr of at most 99 bytes or bits. Opaque bytes are written as their producers do, with a byte order.
fn typestr(kind: u8, size: u8) -> [c_char; CAI_TYPESTR_SIZE] {
    let order = if size == 1 && kind != b'V' { b'|' } else { NATIVE };
    let (tens, ones) = ((size / 10) % 10, size % 10);
    let digit = |digit: u8| b'0'.wrapping_add(digit) as c_char;
    let mut text = [0; CAI_TYPESTR_SIZE];
    let [first, second, third, fourth, ..] = &mut text;
    (*first, *second) = (order as c_char, kind as c_char);
    if tens == 0 {
        *third = digit(ones);
    } else {
        (*third, *fourth) = (digit(tens), digit(ones));
    }
    text
}

/// Writes to `to` the array that a tensor describes, borrowed and sound: its shape is the tensor's, its steps are written
/// to `steps`. `flags` are those of a versioned tensor. The paths of failures are the names in the tensor; what is in `to`
/// then has no owner and is not to be used.
///
/// # Safety
/// `tensor` points to a live tensor, which stays unchanged while the answer is in use.
pub unsafe fn describe(
    tensor: *const Tensor,
    flags: Option<u64>,
    stream: u64,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    // SAFETY: by contract.
    unsafe { draft(&*tensor, flags, stream, steps, to) }?;
    // SAFETY: a structure of our own, over the tensor's shape and our steps.
    unsafe { validate::array(to, abi::CAI_CHECK_LAYOUT) }.map_err(named)
}

/// Is work on data of this device type enqueued on CUDA's streams?
pub fn has_streams(device_type: i32) -> bool {
    matches!(device_type, abi::CAI_DEVICE_CUDA | abi::CAI_DEVICE_CUDA_HOST | abi::CAI_DEVICE_CUDA_MANAGED)
}

impl Tensor {
    /// Device type and id.
    pub fn device(&self) -> (i32, i32) {
        (self.device_type, self.device_id)
    }
}

/// The tensor in a versioned one, and its flags.
///
/// # Safety
/// `tensor` points to a live managed tensor.
pub unsafe fn inside_versioned(tensor: *const DLManagedTensorVersioned) -> Result<(*const Tensor, u64)> {
    let managed = tensor.cast::<Versioned>();
    // SAFETY: the version comes first in every version; no reference to the whole is made.
    let version = unsafe { (&raw const (*managed).version).read() };
    if version.major != VERSION.major {
        return fail!(CAI_ERR_DLPACK_VERSION, "version"; found "{}.{}", version.major, version.minor;
            expected "{}, with any minor number", VERSION.major);
    }
    // SAFETY: of this version, all fields are there.
    Ok(unsafe { (&raw const (*managed).tensor, (&raw const (*managed).flags).read()) })
}

/// The tensor in one without a version.
///
/// # Safety
/// `tensor` points to a live managed tensor.
pub unsafe fn inside_unversioned(tensor: *const DLManagedTensor) -> *const Tensor {
    // SAFETY: by contract.
    unsafe { &raw const (*tensor.cast::<Unversioned>()).tensor }
}

/// The deleter of a tensor.
///
/// # Safety
/// `tensor` points to a live managed tensor.
pub unsafe fn deleter_versioned(tensor: *const DLManagedTensorVersioned) -> Deleter {
    // SAFETY: every version has the deleter at this place.
    unsafe { (&raw const (*tensor.cast::<Versioned>()).deleter).read() }
}

/// The same for a tensor without a version.
///
/// # Safety
/// As for [`deleter_versioned`].
pub unsafe fn deleter_unversioned(tensor: *const DLManagedTensor) -> Deleter {
    // SAFETY: by contract.
    unsafe { (&raw const (*tensor.cast::<Unversioned>()).deleter).read() }
}

/// Calls the deleter of a tensor.
///
/// # Safety
/// `tensor` points to a live managed tensor that the caller owns; it is gone afterwards.
pub unsafe fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: by contract.
    if let Some(deleter) = unsafe { deleter_versioned(tensor) } {
        // SAFETY: by contract.
        unsafe { deleter(tensor.cast()) };
    }
}

/// The same for a tensor without a version.
///
/// # Safety
/// As for [`delete_versioned`].
pub unsafe fn delete_unversioned(tensor: *mut DLManagedTensor) {
    // SAFETY: by contract.
    if let Some(deleter) = unsafe { deleter_unversioned(tensor) } {
        // SAFETY: by contract.
        unsafe { deleter(tensor.cast()) };
    }
}

/// What validation says of our fields, said of the tensor's.
#[cold]
fn named(failure: Failure) -> Failure {
    let name = match failure.details().map(|details| details.field.as_str()) {
        Some("device.type") => "device.device_type",
        Some("device.id") => "device.device_id",
        Some("typestr") => "dtype",
        _ => return failure,
    };
    failure.at(name)
}

/// As [`describe`], not yet held against the rules of arrays.
///
/// # Safety
/// As for [`describe`].
#[inline(always)]
unsafe fn draft(
    tensor: &Tensor,
    flags: Option<u64>,
    stream: u64,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    let said = flags.unwrap_or_default();
    if said & !(READ_ONLY | IS_COPIED | PADDED) != 0 {
        return fail!(CAI_ERR_FLAGS, "flags"; found "{said:#x}"; expected "bits of DLPack {}.{} only", VERSION.major, VERSION.minor);
    }
    if tensor.device_type == abi::CAI_DEVICE_UNKNOWN {
        return fail!(CAI_ERR_DEVICE_TYPE, "device.device_type"; found "0"; expected "a device type of DLPack");
    }
    let dtype = tensor.dtype;
    let converted = from_dlpack(dtype, said & PADDED != 0);
    // The older structure says nothing about how such elements lie, and both ways were in use.
    let Some((typestr, dtype_code)) = converted.filter(|_| flags.is_some() || !dtype.is_below_a_byte())
    else {
        return no_type(dtype, flags);
    };
    // SAFETY: by contract.
    let shape = unsafe { raw::shape(tensor.ndim, tensor.shape) }?;
    layout::check_shape(shape)?;
    let is_empty = layout::count(shape)? == 0;
    let strides = if tensor.strides.is_null() {
        None
    } else {
        // SAFETY: not NULL; `ndim` steps by contract.
        Some(unsafe { raw::values(tensor.strides, shape.len()) })
    };
    let strides = match strides {
        Some(strides) if dtype == BIT && dtype_code == abi::CAI_DTYPE_NONE => {
            // Steps of single elements are compared as if these were bytes.
            if !(Layout { shape, strides: Some(strides), bits: 8 }).is_c_contiguous() {
                return fail!(CAI_ERR_BIT_STRIDES, "strides"; found "packed bits with gaps or in another order";
                    expected "packed bits in C order");
            }
            ptr::null()
        }
        Some(strides) => {
            // Whatever is no bit has whole bytes on our side.
            let itemsize = (i64::from(dtype.bits) / 8).max(1);
            byte_steps(shape, strides, itemsize, is_empty, steps)?;
            steps.as_ptr().cast()
        }
        None => ptr::null(),
    };
    let is_handle = validate::is_opaque(tensor.device_type);
    let (data, byte_offset) = if is_empty {
        (ptr::null_mut(), 0)
    } else if is_handle || tensor.data.is_null() {
        // NULL stays NULL, so that it is found.
        (tensor.data, if is_handle { tensor.byte_offset } else { 0 })
    } else {
        match (tensor.data as u64).checked_add(tensor.byte_offset) {
            Some(address) => (address as *mut c_void, 0),
            None => {
                return fail!(CAI_ERR_ADDRESS_RANGE, "byte_offset"; found "{} from {:p}", tensor.byte_offset, tensor.data;
                    expected "an address below 2^64");
            }
        }
    };
    *to = cai_array {
        struct_size: size_of::<cai_array>() as u32,
        flags: if said & READ_ONLY != 0 { abi::CAI_FLAG_READONLY } else { 0 },
        owner: ptr::null_mut(),
        data,
        shape: tensor.shape,
        strides,
        ndim: tensor.ndim,
        version: abi::CAI_PROTOCOL_VERSION,
        dtype_code,
        typestr,
        descr: ptr::null(),
        mask: ptr::null(),
        // Nothing is ever pending on memory that only the host works with.
        stream: if tensor.device_type == abi::CAI_DEVICE_CPU { abi::CAI_STREAM_NONE } else { stream },
        stream_id: 0,
        event: ptr::null_mut(),
        device: cai_device { r#type: tensor.device_type, id: tensor.device_id },
        context: ptr::null_mut(),
        byte_offset,
    };
    Ok(())
}

#[cold]
fn no_type<T>(dtype: DataType, flags: Option<u64>) -> Result<T> {
    let DataType { code, bits, lanes } = dtype;
    if dtype.is_below_a_byte() {
        let lie = if flags.is_some_and(|flags| flags & PADDED != 0) { "padded" } else { "packed" };
        return fail!(CAI_ERR_CONVERT_TYPE, "dtype"; found "code {code}, bits {bits}, lanes {lanes}, {lie}";
            expected "elements of whole bytes, or, in a versioned tensor, padded ones or packed bits");
    }
    fail!(CAI_ERR_CONVERT_TYPE, "dtype"; found "code {code}, bits {bits}, lanes {lanes}";
        expected "a number of 1 to 8 bytes, an integer or complex number of 16, or a bool, in one lane")
}

/// Steps of elements as steps in bytes. One that nothing ever takes may be any number: where it has no counterpart, it
/// becomes one element.
fn byte_steps(
    shape: &[i64],
    strides: &[i64],
    itemsize: i64,
    is_empty: bool,
    steps: &mut Steps,
) -> Result<()> {
    for (index, ((&extent, &stride), step)) in shape.iter().zip(strides).zip(steps).enumerate() {
        step.write(match stride.checked_mul(itemsize) {
            Some(bytes) => bytes,
            None if is_empty || extent <= 1 => itemsize,
            None => {
                return fail!(CAI_ERR_SPAN_OVERFLOW, "strides[{index}]"; found "{stride} elements of {itemsize} bytes";
                    expected "a step within 2^63 bytes");
            }
        });
    }
    Ok(())
}

/// Makes a borrowed description one that keeps itself alive: one block holds shape and steps, and calls
/// `destroy(context)` at its end. `size` is that of the structure that the caller is going to write. On failure nothing
/// has changed hands.
///
/// # Safety
/// `array` is what [`describe`] answered; `context` keeps the data alive until it is given to `destroy`.
pub unsafe fn own(
    array: cai_array,
    size: usize,
    context: *mut c_void,
    destroy: Deleter,
) -> Result<cai_array> {
    raw::fits(&array, size)?;
    // SAFETY: described just now.
    let (shape, strides) = unsafe { raw::shape_and_strides(&array) }?;
    let lists::Made { owner, shape, strides } = lists::new(context, destroy, shape, strides)?;
    Ok(cai_array { owner, shape, strides, ..array })
}

/// Makes an array of a tensor and takes the tensor over; on failure nothing has changed hands. `size` is that of the
/// structure that the caller is going to write.
///
/// # Safety
/// `tensor` points to a live managed tensor that the caller may give away.
pub unsafe fn from_versioned(
    tensor: *mut DLManagedTensorVersioned,
    stream: u64,
    size: usize,
) -> Result<cai_array> {
    // SAFETY: by contract.
    let (inside, flags) = unsafe { inside_versioned(tensor) }?;
    // SAFETY: of a version that we know, all fields are there.
    let deleter = unsafe { (&raw const (*tensor.cast::<Versioned>()).deleter).read() };
    let (mut steps, mut array) = ([MaybeUninit::uninit(); DIMENSIONS], raw::NOTHING);
    // SAFETY: handed on.
    unsafe { describe(inside, Some(flags), stream, &mut steps, &mut array) }?;
    // SAFETY: described just now; the tensor is the caller's to give.
    unsafe { own(array, size, tensor.cast(), deleter) }
}

/// The same for the structure without a version.
///
/// # Safety
/// As for [`from_versioned`].
pub unsafe fn from_unversioned(tensor: *mut DLManagedTensor, stream: u64, size: usize) -> Result<cai_array> {
    let managed = tensor.cast::<Unversioned>();
    // SAFETY: by contract.
    let deleter = unsafe { (&raw const (*managed).deleter).read() };
    let (mut steps, mut array) = ([MaybeUninit::uninit(); DIMENSIONS], raw::NOTHING);
    // SAFETY: handed on.
    unsafe { describe(&raw const (*managed).tensor, None, stream, &mut steps, &mut array) }?;
    // SAFETY: described just now; the tensor is the caller's to give.
    unsafe { own(array, size, tensor.cast(), deleter) }
}

/// Where an array is, as DLPack says it: type and id. Where the array does not say it, the driver is asked.
///
/// Host memory and managed memory belong to no single device, so their id is 0.
pub fn device_of(array: &cai_array) -> Result<(i32, i32)> {
    let device = match array.device.r#type {
        abi::CAI_DEVICE_UNKNOWN if array.data.is_null() => cai_device { r#type: abi::CAI_DEVICE_CUDA, id: 0 },
        abi::CAI_DEVICE_UNKNOWN => {
            let driver = driver::driver()?;
            let (found, _) = driver.relaxed(|| driver::whereabouts(driver, array.data))?;
            if found.r#type == abi::CAI_DEVICE_CPU {
                return fail!(CAI_ERR_CONVERT_DEVICE, "device.type"; found "0 (not known), and {:p}, which the CUDA driver does not know either", array.data;
                    expected "a device type");
            }
            found
        }
        _ => array.device,
    };
    let is_of_no_device = matches!(
        device.r#type,
        abi::CAI_DEVICE_CPU | abi::CAI_DEVICE_CUDA_HOST | abi::CAI_DEVICE_CUDA_MANAGED | ROCM_HOST
    );
    Ok((device.r#type, if is_of_no_device { 0 } else { device.id }))
}

/// An array in DLPack's terms.
struct Export<'a> {
    /// Without shape and steps.
    tensor: Tensor,
    flags: u64,
    shape: &'a [i64],
    owner: *mut cai_owner,
}

/// Says an array in DLPack's terms; as many of `steps` as it has dimensions are written.
///
/// # Safety
/// `array` points to what a caller's array may point to.
unsafe fn express<'a>(array: &cai_array, flags: u32, steps: &mut [i64; DIMENSIONS]) -> Result<Export<'a>> {
    if flags != 0 {
        return fail!(CAI_ERR_ARGUMENT, "flags"; found "{flags:#x}"; expected "0");
    }
    // SAFETY: handed on.
    unsafe { validate::array(array, abi::CAI_CHECK_LAYOUT) }?;
    owner::not_borrowed(array.owner)?;
    if !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "mask"; found "a mask"; expected "NULL, for DLPack has none");
    }
    // SAFETY: handed on.
    let validate::Described { dtype, layout } = unsafe { validate::describe(array) }?;
    let Some(theirs) = to_dlpack(&dtype) else {
        let text = raw::typestr(&array.typestr).unwrap_or_default();
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr"; found "\"{}\"", text.escape_ascii();
            expected "a type of DLPack: b1, i and u of 1 to 16 bytes, f2 f4 f8, c4 c8 c16, t1, or a dtype_code");
    };
    if !dtype::is_native(&dtype) {
        let text = raw::typestr(&array.typestr).unwrap_or_default();
        return fail!(CAI_ERR_CONVERT_BYTE_ORDER, "typestr"; found "\"{}\"", text.escape_ascii();
            expected "the machine's order, '{}'", NATIVE as char);
    }
    let is_empty = array.data.is_null();
    element_steps(layout, is_empty, steps)?;
    let (device_type, device_id) = device_of(array)?;
    let read_only = if array.flags & abi::CAI_FLAG_READONLY != 0 { READ_ONLY } else { 0 };
    let is_padded = theirs.is_below_a_byte() && dtype.code != abi::CAI_DTYPE_NONE;
    let padded = if is_padded { PADDED } else { 0 };
    Ok(Export {
        tensor: Tensor {
            data: array.data,
            device_type,
            device_id,
            ndim: array.ndim,
            dtype: theirs,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: if is_empty { 0 } else { array.byte_offset },
        },
        flags: read_only | padded,
        shape: layout.shape,
        owner: array.owner,
    })
}

/// Steps in bytes, stated or not, as steps of elements. One that nothing ever takes may be any number of bytes: where
/// it has no counterpart, it becomes one element.
fn element_steps(layout: Layout, is_empty: bool, steps: &mut [i64; DIMENSIONS]) -> Result<()> {
    let Some(strides) = layout.strides else {
        let steps = steps.get_mut(..layout.shape.len()).unwrap_or_default();
        if layout::c_strides(layout.shape, 1, steps).is_err() {
            // Only an empty array can have extents whose product is not a number.
            steps.fill(1);
        }
        return Ok(());
    };
    // Packed bits have no strides, so elements are whole bytes here.
    let itemsize = (layout.bits / 8).max(1);
    for (index, ((&extent, &stride), step)) in layout.shape.iter().zip(strides).zip(steps).enumerate() {
        *step = match (stride.checked_rem(itemsize), stride.checked_div(itemsize)) {
            (Some(0), Some(elements)) => elements,
            _ if is_empty || extent <= 1 => 1,
            _ => {
                return fail!(CAI_ERR_CONVERT_STRIDES, "strides[{index}]"; found "{stride} bytes";
                    expected "a multiple of the element's {itemsize}");
            }
        };
    }
    Ok(())
}

/// A managed tensor of ours. The shape and the steps follow behind it.
#[repr(C)]
struct Block<T> {
    managed: T,
    owner: *mut cai_owner,
    size: usize,
}

const _: () = assert!(size_of::<Block<Versioned>>() % align_of::<i64>() == 0);
const _: () = assert!(size_of::<Block<Unversioned>>() % align_of::<i64>() == 0);
const _: () = assert!(offset_of!(Block<Versioned>, managed) == 0);
const _: () = assert!(offset_of!(Block<Unversioned>, managed) == 0);

fn memory<T>(size: usize) -> Memory {
    // SAFETY: the alignment is a power of two; the size is that of a block with 128 numbers at most.
    unsafe { Memory::from_size_align_unchecked(size, align_of::<Block<T>>()) }
}

/// Puts a managed tensor into a block of its own, with a reference to the array's owner.
///
/// # Safety
/// The owner is alive; `manage` makes the structure whose deleter is [`delete`] of the same type.
unsafe fn place<T>(
    export: Export,
    steps: &[i64; DIMENSIONS],
    manage: impl FnOnce(Tensor, u64) -> T,
) -> Result<*mut T> {
    let Export { mut tensor, flags, shape, owner } = export;
    let numbers = size_of_val(shape).saturating_mul(2);
    let size = size_of::<Block<T>>().saturating_add(numbers);
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(memory::<T>(size)) }.cast::<Block<T>>();
    if block.is_null() {
        return Err(Failure::no_memory(size));
    }
    // SAFETY: a live owner by contract.
    if let Err(failure) = unsafe { owner::retain(owner) } {
        // SAFETY: allocated just now with this layout.
        unsafe { dealloc(block.cast(), memory::<T>(size)) };
        return Err(failure);
    }
    // SAFETY: there is room for the block and as many numbers twice; an array has no more dimensions than `steps`.
    unsafe {
        let (their_shape, their_steps) =
            (block.add(1).cast::<i64>(), block.add(1).cast::<i64>().add(shape.len()));
        ptr::copy_nonoverlapping(shape.as_ptr(), their_shape, shape.len());
        ptr::copy_nonoverlapping(steps.as_ptr(), their_steps, shape.len());
        if !shape.is_empty() {
            (tensor.shape, tensor.strides) = (their_shape, their_steps);
        }
        block.write(Block { managed: manage(tensor, flags), owner, size });
    }
    Ok(block.cast())
}

/// The deleter of our tensors: gives the owner's reference up. From any thread; of NULL it does nothing.
unsafe extern "C" fn delete<T>(managed: *mut c_void) {
    if managed.is_null() {
        return;
    }
    let block = managed.cast::<Block<T>>();
    // SAFETY: only `place` makes structures with this deleter, in a block of this type. What the receiver may have
    // changed in the tensor is not looked at.
    let (owner, size) = unsafe { ((&raw const (*block).owner).read(), (&raw const (*block).size).read()) };
    // Freed first, so that nothing of ours is lost if the owner never returns.
    // SAFETY: allocated in `place` with this layout.
    unsafe { dealloc(managed.cast(), memory::<T>(size)) };
    // SAFETY: the block held one reference.
    unsafe { owner::release(owner) };
}

/// Makes a tensor of an array, with a reference of its own to the array's owner. `flags` must be 0.
///
/// # Safety
/// `array` points to what a caller's array may point to.
pub unsafe fn to_versioned(array: &cai_array, flags: u32) -> Result<*mut DLManagedTensorVersioned> {
    let mut steps = [0; DIMENSIONS];
    // SAFETY: handed on.
    let export = unsafe { express(array, flags, &mut steps) }?;
    let manage = |tensor, flags| Versioned {
        version: VERSION,
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete::<Versioned>),
        flags,
        tensor,
    };
    // SAFETY: the array keeps its owner alive; the deleter is the one for this structure.
    unsafe { place(export, &steps, manage) }.map(<*mut Versioned>::cast)
}

/// The same as the structure without a version, which can say neither that it is read-only nor how elements of less
/// than a byte lie.
///
/// # Safety
/// As for [`to_versioned`].
pub unsafe fn to_unversioned(array: &cai_array, flags: u32) -> Result<*mut DLManagedTensor> {
    let mut steps = [0; DIMENSIONS];
    // SAFETY: handed on.
    let export = unsafe { express(array, flags, &mut steps) }?;
    if export.flags & READ_ONLY != 0 {
        return fail!(CAI_ERR_CONVERT_READONLY, "flags"; found "CAI_FLAG_READONLY";
            expected "a writable array, or a versioned tensor");
    }
    if export.tensor.dtype.is_below_a_byte() {
        let text = raw::typestr(&array.typestr).unwrap_or_default();
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr"; found "\"{}\", elements of less than a byte", text.escape_ascii();
            expected "elements of whole bytes, or a versioned tensor");
    }
    let manage = |tensor, _| Unversioned {
        tensor,
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete::<Unversioned>),
    };
    // SAFETY: the array keeps its owner alive; the deleter is the one for this structure.
    unsafe { place(export, &steps, manage) }.map(<*mut Unversioned>::cast)
}
