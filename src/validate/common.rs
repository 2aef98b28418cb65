//! The most common arrays, recognized in a few nanoseconds.
//!
//! The rules accept whatever this accepts, and decide about all else. A test compares the two,
//! and fails if a rule is added that this overlooks.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use crate::abi;
use crate::device::is_addressed;
use crate::read::Unchecked;
use crate::{dtype, layout};

/// Returns the size of the elements in bytes for a sound array of the most common kind, apart from
/// its fields and its mask: numbers, booleans, times or opaque elements at an address.
#[inline(always)]
pub fn common_itemsize(array: Unchecked) -> Option<i64> {
    let device = array.device;
    let streamless = array.stream >= abi::CAI_STREAM_UNKNOWN;
    let plain = array.flags <= abi::CAI_ARRAY_READONLY
        && (array.version >= abi::CAI_INTERFACE_VERSION || streamless)
        && array.dtype_code == abi::CAI_DTYPE_NONE
        && array.stream != 0
        && (!streamless || (array.stream_id == 0 && array.event.is_null()))
        && (streamless || device.r#type != abi::CAI_DEVICE_CPU)
        && is_addressed(device.r#type)
        && device.id >= 0
        && array.byte_offset == 0;
    if !plain {
        return None;
    }
    common_layout(array)
}

/// Returns the same for an array whose type, shape, strides and address are of this kind. Its other
/// members are not looked at.
#[inline(always)]
pub fn common_layout(array: Unchecked) -> Option<i64> {
    let itemsize = dtype::common_itemsize(&array.typestr)?;
    let (shape, strides) = array.common_dimensions()?;
    let Some(bytes) = layout::measure(shape, strides, itemsize) else {
        return (array.data.is_null() && is_empty(shape)).then_some(itemsize);
    };
    let address = array.data as u64;
    (address != 0 && bytes.span.fits(address)).then_some(itemsize)
}

/// Returns true for a shape of no elements without negative extents. A call, or a loop that the
/// compiler makes vectors of, would take registers from the arrays that have elements.
#[inline(always)]
fn is_empty(shape: &[i64]) -> bool {
    let mut is_empty = false;
    for &extent in shape {
        if extent < 0 {
            return false;
        }
        is_empty |= extent == 0;
    }
    is_empty
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ffi::c_void;
    use std::ptr;

    use proptest::prelude::*;
    use proptest::sample::select;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::abi::{CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_device};
    use crate::device::LAST;
    use crate::error::Result;
    use crate::read::NOTHING;
    use crate::validate::{fields, rules};

    /// Mostly one of the values that many arrays have, and sometimes any other.
    fn mostly<T: Arbitrary + Clone + 'static>(common: Vec<T>) -> impl Strategy<Value = T> {
        prop_oneof![30 => select(common), 1 => any::<T>()]
    }

    fn extent() -> impl Strategy<Value = i64> {
        prop_oneof![
            60 => 1i64..6,
            4 => -1i64..1,
            1 => any::<i64>(),
            2 => (0u32..63, -1i64..2).prop_map(|(power, near)| (1i64 << power).wrapping_add(near)),
        ]
    }

    fn stride() -> impl Strategy<Value = i64> {
        prop_oneof![
            10 => (-40i64..40).prop_map(|steps| steps * 4),
            10 => -40i64..40,
            1 => any::<i64>(),
        ]
    }

    /// Shapes and as many strides, sometimes of many dimensions.
    fn dimensions() -> impl Strategy<Value = (Vec<i64>, Option<Vec<i64>>)> {
        let ndim = prop_oneof![12 => 0usize..6, 1 => 6usize..=64];
        ndim.prop_flat_map(|ndim| {
            let extent = if ndim < 6 { extent().boxed() } else { (1i64..3).boxed() };
            (
                prop::collection::vec(extent, ndim),
                prop::option::of(prop::collection::vec(stride(), ndim)),
            )
        })
    }

    fn typestr() -> impl Strategy<Value = String> {
        let common = "[<>|]([fiu][1248]|b1|c[48]|V[1248])|[<>](c16|[Mm]8\\[([mun]s|s|D)\\])";
        prop_oneof![
            30 => common,
            1 => "[<>|=]?[fiucbVMmtSUO]?[0-9]{0,3}(\\[[0-9]?[munsDY]{0,2}\\]?)?",
            1 => select(vec!["|t9223372036854775", "<U9999999999999", "<f4", "|b1"])
                .prop_map(String::from),
        ]
    }

    const ADDRESSED: &[i32] = &[
        abi::CAI_DEVICE_UNKNOWN,
        abi::CAI_DEVICE_CPU,
        abi::CAI_DEVICE_CUDA,
        abi::CAI_DEVICE_CUDA_HOST,
        abi::CAI_DEVICE_CUDA_MANAGED,
        abi::CAI_DEVICE_ROCM,
        abi::CAI_DEVICE_ROCM_HOST,
        abi::CAI_DEVICE_ONEAPI,
    ];

    fn device() -> impl Strategy<Value = cai_device> {
        (prop_oneof![4 => select(ADDRESSED), 1 => -1..=LAST + 1], mostly(vec![0, 1, 7]))
            .prop_map(|(r#type, id)| cai_device { r#type, id })
    }

    /// A place that an address may have, which nothing reads.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![
            1 => Just(0u64),
            20 => Just(1 << 46),
            2 => any::<u64>(),
            2 => (0u64..256).prop_map(|below| u64::MAX - below),
            2 => 1u64..256,
        ]
    }

    prop_compose! {
        /// An array whose every member varies, without shape, strides and fields. Mostly each
        /// has a value that common arrays have, so that the whole is often accepted.
        fn members()(
            (flags, version, dtype_code) in
                (mostly(vec![0, 1]), mostly(vec![3]), mostly(vec![abi::CAI_DTYPE_NONE])),
            (stream, stream_id, event) in prop_oneof![
                4 => (mostly(vec![abi::CAI_STREAM_UNKNOWN, abi::CAI_STREAM_NONE]),
                    mostly(vec![0]), prop_oneof![30 => Just(0), 1 => address()]),
                4 => (mostly(vec![1, 2, 1 << 45]), any::<u64>(), address()),
                1 => (any::<u64>(), any::<u64>(), address()),
            ],
            (owner, data, context) in (address(), address(), address()),
            (device, byte_offset) in (device(), mostly(vec![0])),
            old in prop::bool::weighted(0.2),
            typestr in typestr(),
        ) -> cai_array {
            let mut text = [0; CAI_TYPESTR_SIZE];
            for (to, from) in text.iter_mut().zip(typestr.bytes()) {
                *to = from as std::ffi::c_char;
            }
            cai_array {
                flags,
                owner: owner as *mut _,
                data: data as *mut c_void,
                version: if old { version % 3 } else { version },
                dtype_code,
                typestr: text,
                stream,
                stream_id,
                event: event as *mut _,
                device,
                context: context as *mut _,
                byte_offset,
                ..NOTHING
            }
        }
    }

    /// The rules accept whatever this accepts. Every member varies, so that this also fails for a new
    /// rule that is overlooked.
    #[test]
    fn the_rules_accept_common_arrays() {
        const CASES: u32 = 20_000;
        let config =
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
        let (accepted, empty) = (Cell::new(0), Cell::new(0));
        let inputs = (members(), dimensions(), 0..30, any::<i32>());
        TestRunner::new(config)
            .run(&inputs, |(members, (shape, strides), change, ndim)| {
                let (struct_size, field_size) = (size_of::<cai_descr>() as u32, 56);
                let descr = cai_descr { struct_size, field_size, count: 0, fields: ptr::null() };
                let array = cai_array {
                    data: if shape.contains(&0) && change % 2 == 0 {
                        ptr::null_mut()
                    } else {
                        members.data
                    },
                    shape: if change == 0 { ptr::null() } else { shape.as_ptr() },
                    strides: strides.as_ref().map_or(ptr::null(), |strides| strides.as_ptr()),
                    ndim: if change == 1 {
                        ndim.min(shape.len() as i32)
                    } else {
                        shape.len() as i32
                    },
                    descr: if change == 2 { &raw const descr } else { ptr::null() },
                    ..members
                };
                // SAFETY: shape and strides have at least `ndim` values, the fields are readable,
                // and there is no mask. Nothing asks for the owner.
                let array = unsafe { Unchecked::new(&array) };
                if let Some(itemsize) = common_itemsize(array) {
                    accepted.set(accepted.get() + 1);
                    empty.set(empty.get() + u32::from(array.data.is_null()));
                    let status =
                        |checked: Result<()>| checked.err().map(|failure| failure.status());
                    let by_rules = status(rules(array, abi::CAI_CHECK_LAYOUT));
                    prop_assert_eq!(by_rules, status(fields(array, itemsize * 8)));
                }
                Ok(())
            })
            .unwrap();
        assert!(accepted.get() > CASES / 4, "{} of {CASES} are common", accepted.get());
        assert!(empty.get() > CASES / 200, "{} of {CASES} are empty", empty.get());
    }
}
