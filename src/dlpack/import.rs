//! Arrays from DLPack tensors.

use std::ffi::{c_char, c_void};
use std::mem::{ManuallyDrop, MaybeUninit, size_of};
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_device};
use crate::device::{is_addressed, is_opaque};
use crate::dlpack::abi::{DIMENSIONS, DataType, IS_COPIED, PADDED, READ_ONLY, Tensor, VERSION};
use crate::dlpack::dtype::{BIT, from_dlpack, plain_typestr};
use crate::dlpack::managed::{Expanded, ManagedTensor, View};
use crate::error::{Count, Failure, Result, fail};
use crate::layout::{self, Layout};
use crate::owner::{Array, Destructor, shape};
use crate::read::Unchecked;
use crate::{read, validate};

/// The flags of a versioned tensor that this library knows.
const KNOWN_FLAGS: u64 = READ_ONLY | IS_COPIED | PADDED;

/// Scratch memory for the strides of any array.
pub type Steps = [MaybeUninit<i64>; DIMENSIONS];

/// What becomes of elements with several lanes, which the array interface does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    Refused,
    /// The lanes are a last dimension.
    Dimension,
}

/// As [`describe`]. If lanes become a dimension, the shape is written to `shape`.
#[cold]
pub fn describe_lanes(
    view: View,
    stream: u64,
    shape: &mut Steps,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    if !is_vector(view.dtype) {
        return describe(view, stream, steps, to);
    }
    let mut expanded = Expanded::new(shape);
    describe(view.with_lanes(&mut expanded)?, stream, steps, to)
}

/// Returns true for an element of several lanes that are numbers by themselves.
fn is_vector(dtype: DataType) -> bool {
    let lane = DataType { lanes: 1, ..dtype };
    dtype.lanes > 1 && !lane.is_below_a_byte() && from_dlpack(lane, false).is_some()
}

/// Writes to `to` the array that a tensor describes, borrowed and validated. Its shape is the
/// tensor's; its strides are written to `steps`. The paths of failures are the names in the tensor.
/// After a failure `to` has no owner and must not be used.
pub fn describe(view: View, stream: u64, steps: &mut Steps, to: &mut cai_array) -> Result<()> {
    describe_inlined(view, stream, steps, to)
}

/// As [`describe`], without a call for most tensors.
#[inline(always)]
pub fn describe_inlined(
    view: View,
    stream: u64,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    // For every device, also for host memory, where the stream is not used: 0 is never a stream.
    if stream == 0 {
        return fail!(CAI_ERR_STREAM_ZERO, "stream";
            found "0"; expected "CAI_STREAM_NONE if no work is pending, else 1, 2 or a CUstream");
    }
    if describe_plain(view, stream, steps, to) {
        return Ok(());
    }
    describe_any(view, stream, steps, to)
}

/// Fast path of [`describe`] for tensors of whole bytes at an address, with elements: describes and
/// validates them in one pass. A result of false means nothing: [`describe_any`] decides, and is
/// the only place where the rules are written down; a test compares both.
#[inline(always)]
fn describe_plain(view: View, stream: u64, steps: &mut Steps, to: &mut cai_array) -> bool {
    let (tensor, flags) = (&*view, view.flags().unwrap_or_default());
    let plain = flags & !KNOWN_FLAGS == 0
        && tensor.device_type != abi::CAI_DEVICE_UNKNOWN
        && is_addressed(tensor.device_type)
        && tensor.device_id >= 0
        && tensor.dtype.lanes == 1
        && (1..=abi::CAI_MAX_NDIM).contains(&tensor.ndim)
        && !tensor.shape.is_null()
        && !tensor.data.is_null()
        && tensor.byte_offset == 0;
    if !plain {
        return false;
    }
    let Some(typestr) = plain_typestr(tensor.dtype.code, tensor.dtype.bits) else { return false };
    let itemsize = i64::from(tensor.dtype.bits / 8);
    let Ok((shape, strides)) = view.shape_and_strides() else { return false };
    let (bytes, strides) = match strides {
        None => (layout::measure_dense(shape, itemsize), ptr::null()),
        Some(strides) => {
            let in_bytes =
                shape.iter().zip(strides).zip(&mut *steps).map(|((&extent, &stride), step)| {
                    Some((extent, *step.write(stride.checked_mul(itemsize)?)))
                });
            (layout::measure_strided(in_bytes, itemsize), steps.as_ptr().cast())
        }
    };
    if !bytes.is_some_and(|bytes| bytes.span.fits(tensor.data as u64)) {
        return false;
    }
    let parts = Parts { typestr, dtype_code: abi::CAI_DTYPE_NONE, strides, data: tensor.data };
    write(tensor, flags, stream, parts, 0, to);
    true
}

/// The slow path of [`describe`].
#[cold]
fn describe_any(view: View, stream: u64, steps: &mut Steps, to: &mut cai_array) -> Result<()> {
    describe_unchecked(view, stream, steps, to)?;
    // SAFETY: `to` refers to the shape of the view, which is alive, and to `steps`.
    unsafe { validate::array(to, abi::CAI_CHECK_LAYOUT) }.map_err(named)
}

/// Renames the array's fields in a failure to those of the tensor.
#[cold]
fn named(failure: Failure) -> Failure {
    let name = match failure.details().map(|details| details.field.as_str()) {
        Some("device.type") => "device.device_type",
        Some("device.id") => "device.device_id",
        Some("typestr") => "dtype",
        _ => return failure,
    };
    failure.at(format_args!("{name}"))
}

fn describe_unchecked(
    view: View,
    stream: u64,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    let (tensor, flags) = (&*view, view.flags());
    let tensor_flags = flags.unwrap_or_default();
    // DLPack calls minor versions compatible, but one of them added the padding of elements of less
    // than a byte as a flag, which changes the meaning of the data.
    if tensor_flags & !KNOWN_FLAGS != 0 {
        return fail!(CAI_ERR_FLAGS, "flags";
            found "{tensor_flags:#x}";
            expected "bits of DLPack {}.{} only", VERSION.major, VERSION.minor);
    }
    if tensor.device_type == abi::CAI_DEVICE_UNKNOWN {
        return fail!(CAI_ERR_DEVICE_TYPE, "device.device_type";
            found "0"; expected "a device type of DLPack");
    }
    // DLPack has no number for a device that is not known, as arrays have.
    if tensor.device_id < 0 {
        return fail!(CAI_ERR_DEVICE_ID, "device.device_id";
            found "{}", tensor.device_id; expected "at least 0");
    }
    let dtype = tensor.dtype;
    let converted = from_dlpack(dtype, tensor_flags & PADDED != 0);
    // The structure without a version does not specify whether such elements are packed or padded,
    // and both were in use.
    let Some((typestr, dtype_code)) =
        converted.filter(|_| flags.is_some() || !dtype.is_below_a_byte())
    else {
        return no_type(dtype, flags);
    };
    let (shape, strides) = view.shape_and_strides()?;
    let mut is_empty = false;
    for &extent in shape {
        if extent <= 0 {
            // Everything else about the extents is validated with the array.
            layout::check_shape(shape)?;
            is_empty = true;
        }
    }
    let strides = match strides {
        Some(strides) if dtype == BIT && dtype_code == abi::CAI_DTYPE_NONE => {
            // Strides of elements are compared as if elements were bytes.
            if !(Layout { shape, strides: Some(strides), bits: 8 }).is_c_contiguous() {
                return fail!(CAI_ERR_BIT_STRIDES, "strides";
                    found "packed bits with gaps or in another order";
                    expected "packed bits in C order");
            }
            ptr::null()
        }
        Some(strides) => {
            // All types except bits have whole bytes in the array interface.
            let itemsize = (i64::from(dtype.bits) / 8).max(1);
            byte_steps(shape, strides, itemsize, is_empty, steps)?;
            steps.as_ptr().cast()
        }
        None => ptr::null(),
    };
    let is_handle = is_opaque(tensor.device_type);
    let (data, byte_offset) = if is_empty {
        (ptr::null_mut(), 0)
    } else if is_handle || tensor.data.is_null() {
        // NULL stays NULL, so that validation finds it.
        (tensor.data, if is_handle { tensor.byte_offset } else { 0 })
    } else {
        match (tensor.data as u64).checked_add(tensor.byte_offset) {
            Some(address) => (address as *mut c_void, 0),
            None => {
                return fail!(CAI_ERR_ADDRESS_RANGE, "byte_offset";
                    found "{} from {:p}", tensor.byte_offset, tensor.data;
                    expected "an address below 2^64");
            }
        }
    };
    let parts = Parts { typestr, dtype_code, strides, data };
    write(tensor, tensor_flags, stream, parts, byte_offset, to);
    Ok(())
}

/// The members of an array that a tensor expresses in another way.
struct Parts {
    typestr: [c_char; CAI_TYPESTR_SIZE],
    dtype_code: u16,
    strides: *const i64,
    data: *mut c_void,
}

#[inline(always)]
fn write(
    tensor: &Tensor,
    tensor_flags: u64,
    stream: u64,
    parts: Parts,
    byte_offset: u64,
    to: &mut cai_array,
) {
    let Parts { typestr, dtype_code, strides, data } = parts;
    *to = cai_array {
        struct_size: size_of::<cai_array>() as u32,
        flags: if tensor_flags & READ_ONLY != 0 { abi::CAI_ARRAY_READONLY } else { 0 },
        owner: ptr::null_mut(),
        data,
        shape: tensor.shape,
        strides,
        ndim: tensor.ndim,
        version: abi::CAI_INTERFACE_VERSION,
        dtype_code,
        typestr,
        descr: ptr::null(),
        mask: ptr::null(),
        // Memory that only the host uses has no pending work.
        stream: if tensor.device_type == abi::CAI_DEVICE_CPU {
            abi::CAI_STREAM_NONE
        } else {
            stream
        },
        stream_id: 0,
        event: ptr::null_mut(),
        device: cai_device { r#type: tensor.device_type, id: tensor.device_id },
        context: ptr::null_mut(),
        byte_offset,
    };
}

#[cold]
fn no_type<T>(dtype: DataType, flags: Option<u64>) -> Result<T> {
    let DataType { code, bits, lanes } = dtype;
    if dtype.is_below_a_byte() {
        let padding =
            if flags.is_some_and(|flags| flags & PADDED != 0) { "padded" } else { "packed" };
        return fail!(CAI_ERR_CONVERT_TYPE, "dtype";
            found "code {code}, bits {bits}, lanes {lanes}, {padding}";
            expected "elements of whole bytes, or, in a versioned tensor, padded ones or packed \
                bits");
    }
    let hint = match is_vector(dtype) {
        true => {
            ": CAI_UNSTABLE_DLPACK_LANES, and CAI_UNSTABLE_IMPORT_LANES for Python objects, make \
             lanes a dimension"
        }
        false => "",
    };
    fail!(CAI_ERR_CONVERT_TYPE, "dtype";
        found "code {code}, bits {bits}, lanes {lanes}";
        expected "a number of 1 to 8 bytes, an integer or complex number of 16, or a bool, in one \
            lane{hint}")
}

/// Converts strides in elements to strides in bytes. A stride that is never used may be any number:
/// without an equivalent, it becomes one element.
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
                return fail!(CAI_ERR_SPAN_OVERFLOW, "strides[{index}]";
                    found "{} of {}", Count(stride, "element"), Count(itemsize, "byte");
                    expected "a stride within 2^63 bytes");
            }
        });
    }
    Ok(())
}

impl ManagedTensor {
    /// Makes an array that owns the tensor. One block holds shape and strides, and calls the deleter
    /// when it is destroyed. A failure returns the tensor.
    pub fn into_array(
        self,
        stream: u64,
        lanes: Lanes,
    ) -> std::result::Result<Array, (Failure, Self)> {
        // After a panic, which is a defect, a caller of the C interface still owns the tensor.
        let tensor = ManuallyDrop::new(self);
        let make = || {
            let mut rows = [[MaybeUninit::uninit(); DIMENSIONS]; 2];
            let ([extents, steps], mut array) = (&mut rows, read::NOTHING);
            match lanes {
                Lanes::Refused => describe(tensor.view()?, stream, steps, &mut array)?,
                Lanes::Dimension => {
                    describe_lanes(tensor.view()?, stream, extents, steps, &mut array)?;
                }
            }
            // SAFETY: the array was described, which refers to the tensor, which is alive, and to
            // `rows`. It has no owner.
            let (shape, strides) = unsafe { Unchecked::new(&array) }.dimensions()?;
            let prepared = shape::prepare(shape, strides)?;
            let (deleter, managed) = tensor.deleter();
            // SAFETY: the deleter takes this tensor, which is given up: nothing fails from here on.
            let destructor = unsafe { Destructor::new(deleter, managed) };
            let shape::Owned { owner, shape, strides } = prepared.finish(None, destructor);
            Ok(Array::new(cai_array { shape, strides, ..array }, owner))
        };
        make().map_err(|failure| (failure, ManuallyDrop::into_inner(tensor)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            12 => -3i64..6,
            1 => any::<i64>(),
            1 => (0u32..63, -1i64..2).prop_map(|(power, near)| (1i64 << power).wrapping_add(near)),
        ]
    }

    fn dtype() -> impl Strategy<Value = DataType> {
        let plain =
            prop::sample::select(vec![(0, 8), (1, 64), (2, 32), (5, 128), (6, 8), (2, 128)]);
        let any =
            (0..20u8, prop::sample::select(vec![0u8, 1, 4, 8, 16, 24, 32, 64, 128, 192, 255]));
        let lanes = prop_oneof![8 => Just(1), 1 => 0..4u16];
        (prop_oneof![3 => plain, 1 => any], lanes).prop_map(|((code, bits), lanes)| DataType {
            code,
            bits,
            lanes,
        })
    }

    /// The members of an array, and the values that its strides refer to.
    fn shown(array: &cai_array) -> String {
        // SAFETY: shape and strides were validated.
        let values = unsafe { Unchecked::new(array) }.dimensions();
        let cai_array { flags, data, shape, ndim, version, dtype_code, stream, .. } = *array;
        let place = (data, shape, ndim, array.device, array.context, array.byte_offset);
        let nothing = (array.owner, array.descr, array.mask, array.event, array.stream_id);
        let head = (array.struct_size, flags, version, dtype_code, array.typestr, stream);
        format!("{head:?} {place:?} {nothing:?} {:?}", values.ok())
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 20000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// The slow path describes every tensor that the fast path accepts in the same way.
        #[test]
        fn both_paths_agree(
            mut shape in prop::collection::vec(number(), 0..5),
            mut strides in prop::collection::vec(number(), 4),
            is_strided in any::<bool>(),
            dtype in dtype(),
            data in prop_oneof![
                4 => Just(1u64 << 46),
                1 => Just(0),
                1 => (0u64..64).prop_map(|below| u64::MAX - below),
                1 => 0u64..64,
            ],
            byte_offset in prop_oneof![4 => Just(0u64), 1 => any::<u64>()],
            device in prop_oneof![4 => Just((2, 0)), 1 => (-1i32..33, -1i32..2)],
            flags in prop_oneof![4 => 0u64..8, 1 => any::<u64>()],
            versioned in any::<bool>(),
            stream in prop_oneof![Just(abi::CAI_STREAM_NONE), 1..9u64],
            change in 0..32,
        ) {
            let tensor = Tensor {
                data: data as *mut c_void,
                device_type: device.0,
                device_id: device.1,
                ndim: if change == 0 { -1 } else { shape.len() as i32 },
                dtype,
                shape: if change == 1 { ptr::null_mut() } else { shape.as_mut_ptr() },
                strides: if is_strided { strides.as_mut_ptr() } else { ptr::null_mut() },
                byte_offset,
            };
            let flags = versioned.then_some(flags);
            let mut steps = [[MaybeUninit::uninit(); DIMENSIONS]; 2];
            let [first, second] = &mut steps;
            let (mut fast, mut slow) = (read::NOTHING, read::NOTHING);
            // SAFETY: shape and strides have at least `ndim` values, as constructed above.
            let view = unsafe { View::new(&tensor, flags) };
            let is_plain = describe_plain(view, stream, first, &mut fast);
            let described = describe_any(view, stream, second, &mut slow);
            if is_plain {
                prop_assert!(described.is_ok(), "{:?}", described.err().map(|it| it.status()));
                prop_assert_eq!(shown(&fast), shown(&slow));
            } else {
                // The fast path takes all of these.
                let plain = (dtype.code, dtype.bits, dtype.lanes) == (2, 32, 1)
                    && device == (2, 0)
                    && byte_offset == 0
                    && !shape.is_empty()
                    && !shape.contains(&0)
                    && shape.iter().chain(&strides).all(|value| (-3..6).contains(value));
                prop_assert!(!plain || described.is_err());
            }
        }
    }
}
