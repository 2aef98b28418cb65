//! Sound arrays, recognized in a few nanoseconds.
//!
//! The rules accept whatever this accepts, and decide about all else. A test compares the two,
//! and fails if a rule is added that this overlooks.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use crate::abi;
use crate::device::{is_addressed, is_opaque, is_type, may_have_id};
use crate::layout::{Bytes, Layout};
use crate::read::Unchecked;
use crate::{dtype, layout};

use super::masks;

/// Returns true for most of the arrays that [`is_common`] accepts, without a call.
#[inline(always)]
pub fn is_plain(array: Unchecked) -> bool {
    plain_itemsize(array)
        .is_some_and(|itemsize| whole_bytes(array, itemsize, array.data as u64).is_some())
}

/// Returns the layout and the bytes of an array that [`is_plain`] accepts, if it has elements.
#[inline(always)]
pub fn plain_layout<'a>(array: Unchecked<'_, 'a>) -> Option<(Layout<'a>, Bytes)> {
    let itemsize = plain_itemsize(array)?;
    let (shape, strides) = array.common_dimensions()?;
    let bytes = layout::measure(shape, strides, itemsize)?;
    let fits = !array.data.is_null() && bytes.span.fits(array.data as u64);
    fits.then_some((Layout { shape, strides, bits: itemsize << 3 }, bytes))
}

/// Returns the bytes of an element if all but the layout is as in most arrays.
#[inline(always)]
fn plain_itemsize(array: Unchecked) -> Option<i64> {
    // The cheapest first: an array with fields or a mask is looked at again by others.
    let is_plain = array.mask.is_null()
        && array.descr.is_null()
        && array.dtype_code == abi::CAI_DTYPE_NONE
        && is_plainly_placed(array)
        && has_common_stream(array);
    if is_plain { dtype::common_itemsize(&array.typestr) } else { None }
}

/// Returns true for a sound array, if its fields and its mask are of the most common kind.
#[inline]
pub fn is_common(array: Unchecked) -> bool {
    common_bits(array).is_some_and(|bits| {
        (array.descr.is_null() || has_common_fields(array, bits))
            && (array.mask.is_null() || masks::is_common(array))
    })
}

/// Returns the bits of an element of a sound array, apart from its fields and its mask.
#[inline(never)]
pub fn common_bits(array: Unchecked) -> Option<i64> {
    if !has_common_stream(array) {
        return None;
    }
    let start = if is_plainly_placed(array) { array.data as u64 } else { start_elsewhere(array)? };
    common_layout(array, start)
}

/// Returns the same for an array whose type, shape, strides and place are sound. The place is that
/// of the element at index zero. The other members are not looked at.
#[inline(always)]
pub fn common_layout(array: Unchecked, start: u64) -> Option<i64> {
    match dtype::common_itemsize(&array.typestr) {
        Some(itemsize) if array.dtype_code == abi::CAI_DTYPE_NONE => {
            whole_bytes(array, itemsize, start)
        }
        itemsize => other_layout(array, start, itemsize),
    }
}

/// Returns true for an address in memory of a device that has addresses.
#[inline(always)]
fn is_plainly_placed(array: Unchecked) -> bool {
    is_addressed(array.device.r#type) && array.device.id >= 0 && array.byte_offset == 0
}

/// Returns true if the flags, the stream and what belongs to it are sound.
#[inline(always)]
fn has_common_stream(array: Unchecked) -> bool {
    let is_host = array.device.r#type == abi::CAI_DEVICE_CPU;
    if array.flags > abi::CAI_ARRAY_READONLY {
        return false;
    }
    if array.stream < abi::CAI_STREAM_UNKNOWN {
        return array.stream != 0 && array.version >= abi::CAI_INTERFACE_VERSION && !is_host;
    }
    let may_have_event = array.stream == abi::CAI_STREAM_UNKNOWN && !is_host;
    array.stream_id == 0 && (array.event.is_null() || may_have_event)
}

/// Returns the bits of an element for elements of so many bytes, as [`common_layout`] does.
#[inline(always)]
fn whole_bytes(array: Unchecked, itemsize: i64, start: u64) -> Option<i64> {
    let (shape, strides) = array.common_dimensions()?;
    let is_sound = match layout::measure(shape, strides, itemsize) {
        Some(bytes) => !array.data.is_null() && bytes.span.fits(start),
        None => array.data.is_null() && is_empty(shape),
    };
    is_sound.then_some(itemsize << 3)
}

/// Does the same for all types. A wrong one is looked at again by the rules, which explain it.
#[cold]
#[inline(never)]
fn other_layout(array: Unchecked, start: u64, itemsize: Option<i64>) -> Option<i64> {
    let bits = dtype::other_bits(&array.typestr, array.dtype_code, itemsize)?;
    if bits & 7 == 0 {
        return if bits == 0 { None } else { whole_bytes(array, bits >> 3, start) };
    }
    let (shape, strides) = array.common_dimensions()?;
    let all = layout::measure_dense(shape, bits)?.all;
    let bytes = (all >> 3).checked_add(i64::from(all & 7 != 0))?;
    let fits = start.checked_add_signed(bytes).is_some();
    (strides.is_none() && !array.data.is_null() && fits).then_some(bits)
}

/// Returns the place of the element at index zero for other devices.
#[cold]
#[inline(never)]
fn start_elsewhere(array: Unchecked) -> Option<u64> {
    let device = array.device;
    if !is_type(device.r#type) || (device.id < 0 && !may_have_id(device)) {
        return None;
    }
    if is_opaque(device.r#type) && !array.data.is_null() {
        return Some(array.byte_offset);
    }
    (array.byte_offset == 0).then_some(array.data as u64)
}

/// Returns true if an array's fields are of the most common kind, and have so many bits in all.
#[inline(never)]
fn has_common_fields(array: Unchecked, bits: i64) -> bool {
    let fields = array.fields().ok().flatten();
    fields.is_some_and(|fields| dtype::descr::common_bits(fields) == Some(bits))
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
    use std::ffi::{c_char, c_void};
    use std::ptr;

    use proptest::prelude::*;
    use proptest::sample::select;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::abi::{CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_device, cai_field};
    use crate::device::LAST;
    use crate::error::Result;
    use crate::read::NOTHING;
    use crate::validate::{Described, fields, masks, rules};

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

    fn typestr() -> impl Strategy<Value = [c_char; CAI_TYPESTR_SIZE]> {
        let common = "[<>|]([fiu][1248]|b1|c[48]|V[1248])|[<>](c16|[Mm]8\\[([mun]s|s|D)\\])";
        let text = prop_oneof![
            30 => common,
            10 => "[<>|](f12|[fiu]16|c24|c32|S[1-9]|U[1-9]|V[1-9]|O8?|t[1-9]|[Mm]8(\\[[1-9]?ps\\])?)",
            1 => "[<>|=]?[fiucbVMmtSUO]?[0-9]{0,3}(\\[[0-9]?[munsDY]{0,2}\\]?)?",
            1 => select(vec!["|t9223372036854775", "<U9999999999999", "<f4", "|b1", "|t99999"])
                .prop_map(String::from),
        ];
        text.prop_map(|text| {
            let mut typestr = [0; CAI_TYPESTR_SIZE];
            for (to, from) in typestr.iter_mut().zip(text.bytes()) {
                *to = from as c_char;
            }
            typestr
        })
    }

    fn device() -> impl Strategy<Value = cai_device> {
        let id = prop_oneof![20 => select(vec![0, 1, 7]), 2 => Just(-1), 1 => any::<i32>()];
        (prop_oneof![4 => Just(abi::CAI_DEVICE_CUDA), 4 => -1..=LAST + 1], id)
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
                (mostly(vec![0, 1]), mostly(vec![3]), prop_oneof![9 => Just(0), 1 => 0u16..19]),
            (stream, stream_id, event) in prop_oneof![
                4 => (mostly(vec![abi::CAI_STREAM_UNKNOWN, abi::CAI_STREAM_NONE]),
                    mostly(vec![0]), prop_oneof![30 => Just(0), 1 => address()]),
                4 => (mostly(vec![1, 2, 1 << 45]), any::<u64>(), address()),
                1 => (any::<u64>(), any::<u64>(), address()),
            ],
            (owner, data, context) in (address(), address(), address()),
            (device, byte_offset) in (device(), mostly(vec![0, 0, 0, 64])),
            old in prop::bool::weighted(0.2),
            typestr in typestr(),
        ) -> cai_array {
            cai_array {
                flags,
                owner: owner as *mut _,
                data: data as *mut c_void,
                version: if old { version % 3 } else { version },
                dtype_code,
                typestr,
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

    prop_compose! {
        /// A row of fields that refers to nothing but constants.
        fn field()(
            name in select(vec![c"x", c"y", c"z", c"", c"\xff"]),
            (has_name, has_title, is_nested) in (
                prop::bool::weighted(0.99), prop::bool::weighted(0.02), prop::bool::weighted(0.02),
            ),
            typestr in typestr(),
            (ndim, dtype_code, reserved) in (mostly(vec![0, 0, 1, 2]), mostly(vec![0]), mostly(vec![0])),
            shape in prop::option::weighted(0.95, select(&SUB_ARRAYS[..])),
        ) -> cai_field {
            cai_field {
                name: if has_name { name.as_ptr() } else { ptr::null() },
                title: if has_title { c"x".as_ptr() } else { ptr::null() },
                typestr,
                nested: if is_nested { &raw const NO_FIELDS.0 } else { ptr::null() },
                shape: shape.map_or(ptr::null(), |shape| shape.as_ptr()),
                // What is behind the extents is not read.
                ndim: if ndim > 2 && ndim <= abi::CAI_MAX_NDIM { 2 } else { ndim },
                dtype_code,
                reserved,
            }
        }
    }

    static SUB_ARRAYS: [&[i64; 2]; 6] =
        [&[2, 3], &[1, 1], &[1, 2], &[0, -1], &[3, -1], &[i64::MAX, 2]];

    struct Constant(cai_descr);
    // SAFETY: it refers to nothing.
    unsafe impl Sync for Constant {}

    static NO_FIELDS: Constant = Constant(descr(&[]));

    const fn descr(fields: &[cai_field]) -> cai_descr {
        let (struct_size, field_size) = (size_of::<cai_descr>() as u32, 56);
        cai_descr { struct_size, field_size, count: fields.len() as u64, fields: fields.as_ptr() }
    }

    /// The rules accept whatever this accepts. Every member varies, so that this also fails for a new
    /// rule that is overlooked.
    #[test]
    fn the_rules_accept_common_arrays() {
        const CASES: u32 = 20_000;
        let config =
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
        let count = Cell::new([0; 4]);
        let rows = prop::option::weighted(0.2, prop::collection::vec(field(), 0..4));
        let mask = prop::option::weighted(0.2, (members(), dimensions(), 0usize..4));
        let inputs = (members(), dimensions(), 0..30, any::<i32>(), rows, mask);
        TestRunner::new(config)
            .run(&inputs, |(members, (shape, strides), change, ndim, rows, mask)| {
                let of_mask = mask.map(|(members, (mut extents, _), change)| {
                    if change > 0 {
                        extents = shape.iter().skip(change - 1).copied().collect();
                        extents.iter_mut().take(change - 1).for_each(|extent| *extent = 1);
                    }
                    (members, extents, change)
                });
                // Mostly a type and a device that a mask may have.
                let mask = of_mask.as_ref().map(|(of, extents, change)| cai_array {
                    typestr: if *change == 3 { of.typestr } else { dtype::table::typestr(b'b', 1) },
                    device: if *change == 3 { of.device } else { members.device },
                    dtype_code: if *change == 3 { of.dtype_code } else { abi::CAI_DTYPE_NONE },
                    data: if extents.contains(&0) { ptr::null_mut() } else { of.data },
                    shape: extents.as_ptr(),
                    ndim: extents.len() as i32,
                    ..*of
                });
                let descr = rows.as_deref().map(descr);
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
                    descr: descr.as_ref().map_or(ptr::null(), ptr::from_ref),
                    mask: mask.as_ref().map_or(ptr::null(), ptr::from_ref),
                    ..members
                };
                // SAFETY: shape and strides have at least `ndim` values, the fields are readable,
                // and so is the mask, which has none. Nothing asks for the owner.
                let unchecked = unsafe { Unchecked::new(&array) };
                let status = |checked: Result<()>| checked.err().map(|failure| failure.status());
                let by_rules = status(rules(unchecked, abi::CAI_CHECK_LAYOUT));
                if let Some(bits) = common_bits(unchecked) {
                    prop_assert_eq!(by_rules, status(fields(unchecked, bits)));
                }
                prop_assert!(!is_plain(unchecked) || is_common(unchecked));
                let plain = plain_layout(unchecked);
                prop_assert_eq!(plain.is_some(), is_plain(unchecked) && !array.data.is_null());
                if let Some((layout, bytes)) = plain {
                    prop_assert_eq!(Some(bytes), layout.bytes().ok());
                    let described = Described::new(unchecked).ok().map(|found| found.layout);
                    prop_assert_eq!(Some(layout), described);
                }
                if is_common(unchecked) {
                    let [all, empty, with_fields, with_masks] = count.get();
                    count.set([
                        all + 1,
                        empty + u32::from(array.data.is_null()),
                        with_fields + u32::from(!array.descr.is_null()),
                        with_masks + u32::from(!array.mask.is_null()),
                    ]);
                    prop_assert_eq!(by_rules, None);
                    let masks = masks::check(&raw const array, unchecked, 0, |of, to| of.mask(to));
                    prop_assert_eq!(status(masks), None);
                }
                Ok(())
            })
            .unwrap();
        let [all, empty, with_fields, with_masks] = count.get();
        assert!(all > CASES / 5, "{all} of {CASES} are common");
        assert!(empty > CASES / 200, "{empty} of {CASES} are empty");
        assert!(with_fields > CASES / 4000, "{with_fields} of {CASES} have fields");
        assert!(with_masks > CASES / 400, "{with_masks} of {CASES} have masks");
    }
}
