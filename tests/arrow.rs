//! Arrays to Arrow and back, through the exported functions: an array comes back equal, or is refused with the status
//! that its type, its layout or its masks have.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use cai::abi::*;
use cai::ffi::array::cai_array_release;
use cai::ffi::layout::cai_array_layout;
use cai::ffi::owner::{cai_owner_create, cai_owner_release};
use cai::ffi::unstable::arrow::{cai_unstable_array_from_arrow, cai_unstable_array_to_arrow};
use proptest::prelude::*;

/// As Arrow declares it; only `release` is used here.
#[repr(C)]
struct Schema {
    members: [u64; 7],
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct DeviceArray {
    members: [u64; 8],
    release: Option<unsafe extern "C" fn(*mut DeviceArray)>,
    more: [u64; 7],
}

/// Types, and what comes back. `None`: Arrow does not have them.
const TYPES: [(&str, u16, Option<&str>); 34] = [
    ("|i1", 0, Some("|i1")),
    ("<i2", 0, Some("<i2")),
    ("<i4", 0, Some("<i4")),
    ("<i8", 0, Some("<i8")),
    ("|u1", 0, Some("|u1")),
    ("<u2", 0, Some("<u2")),
    ("<u4", 0, Some("<u4")),
    ("<u8", 0, Some("<u8")),
    ("<f2", 0, Some("<f2")),
    ("<f4", 0, Some("<f4")),
    ("<f8", 0, Some("<f8")),
    ("|b1", 0, Some("|b1")),
    ("|t1", 0, Some("|t1")),
    ("<M8[s]", 0, Some("<M8[s]")),
    ("<M8[ms]", 0, Some("<M8[ms]")),
    ("<M8[us]", 0, Some("<M8[us]")),
    ("<M8[ns]", 0, Some("<M8[ns]")),
    ("<m8[s]", 0, Some("<m8[s]")),
    ("<m8[ms]", 0, Some("<m8[ms]")),
    ("<m8[us]", 0, Some("<m8[us]")),
    ("<m8[ns]", 0, Some("<m8[ns]")),
    ("|V3", 0, Some("|V3")),
    ("|S7", 0, Some("|V7")),
    ("<c8", 0, None),
    ("<c16", 0, None),
    ("<i16", 0, None),
    ("<f16", 0, None),
    ("<U2", 0, None),
    ("|O8", 0, None),
    ("<M8[D]", 0, None),
    ("<m8[7s]", 0, None),
    ("|t4", 0, None),
    ("<V2", CAI_DTYPE_BFLOAT16, None),
    ("|V1", CAI_DTYPE_INT4, None),
];

fn typestr(text: &str) -> [c_char; CAI_TYPESTR_SIZE] {
    let mut out = [0; CAI_TYPESTR_SIZE];
    out.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
    out
}

unsafe extern "C-unwind" fn count(context: *mut c_void) {
    // SAFETY: the context is a counter that outlives the owner.
    unsafe { *context.cast::<usize>() += 1 };
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_array_comes_back(
        shape in prop::collection::vec(prop_oneof![1 => Just(0i64), 9 => 1i64..5], 0..5),
        kind in 0..TYPES.len(),
        foreign in prop::bool::weighted(0.1),
        reversed in prop::bool::weighted(0.1),
        (turned, tensor) in (prop::bool::weighted(0.2), prop::bool::weighted(0.2)),
        unaligned in prop::bool::weighted(0.1),
        device in prop::sample::select(vec![(1, 0), (2, 0), (2, 3), (3, 1), (13, 0), (10, 2), (11, 0), (4, 0)]),
        event in any::<bool>(),
        masks in prop::collection::vec((0usize..4, 0u8..8), 0..4),
    ) {
        let (text, code, back) = TYPES[kind];
        let is_foreign = foreign && text.starts_with('<') && code == 0;
        let given = if is_foreign { text.replace('<', ">") } else { text.to_owned() };
        let is_empty = shape.contains(&0);
        let is_bits = text.starts_with("|t");
        let mut array = cai_array {
            struct_size: size_of::<cai_array>() as u32,
            flags: 0,
            owner: null_mut(),
            data: if is_empty { null_mut() } else { ((1usize << 40) + usize::from(unaligned)) as *mut c_void },
            shape: shape.as_ptr(),
            strides: null(),
            ndim: shape.len() as i32,
            version: 3,
            dtype_code: code,
            typestr: typestr(&given),
            descr: null(),
            mask: null(),
            stream: CAI_STREAM_NONE,
            stream_id: 0,
            event: null_mut(),
            device: cai_device { r#type: device.0, id: device.1 },
            context: null_mut(),
            byte_offset: 0,
        };
        // Only CUDA and ROCm have events.
        if event && !matches!(device.0, 1 | 4) {
            (array.stream, array.event) = (CAI_STREAM_UNKNOWN, 0x77 as *mut c_void);
        }
        let mut layout = MaybeUninit::<cai_layout>::uninit();
        // SAFETY: the array is described by the values above.
        prop_assert_eq!(unsafe { cai_array_layout(&array, layout.as_mut_ptr(), null_mut()) }, CAI_OK);
        let strides: Vec<i64> = shape.iter().map(|_| 1 << 20).collect();
        let is_strided = reversed && !is_bits && shape.iter().any(|&extent| extent > 1) && !is_empty;
        if is_strided {
            array.strides = strides.as_ptr();
        }
        // The dimensions after the first are stored in the opposite order.
        // SAFETY: written by the successful call above.
        let itemsize = unsafe { layout.assume_init_ref() }.nbytes / shape.iter().product::<i64>().max(1);
        let turned_strides: Vec<i64> = (0..shape.len())
            .map(|index| {
                let inside = if index == 0 { &shape[1..] } else { &shape[1..index] };
                inside.iter().product::<i64>() * itemsize
            })
            .collect();
        let is_turned = turned && !is_strided && !is_bits && !is_empty && shape.len() > 1;
        if is_turned {
            array.strides = turned_strides.as_ptr();
        }
        let of_tensor = !is_empty && shape.len() > 1 && (is_turned || tensor);
        // From the innermost level on, at most one mask for each.
        let mut levels: Vec<_> = masks.iter().filter(|(level, _)| *level < shape.len()).collect();
        levels.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        levels.dedup_by_key(|(level, _)| *level);
        let extents: Vec<Vec<i64>> = levels
            .iter()
            .map(|(level, _)| (0..shape.len()).map(|index| if index <= *level { shape[index] } else { 1 }).collect())
            .collect();
        let mut chain: Vec<cai_array> = levels
            .iter()
            .zip(&extents)
            .enumerate()
            .map(|(number, ((_, kind), shape))| cai_array {
                data: if shape.contains(&0) { null_mut() } else { ((2usize << 40) + number * 4096) as *mut c_void },
                shape: shape.as_ptr(),
                strides: null(),
                dtype_code: 0,
                // Sometimes a mask that is no bitmap.
                typestr: typestr(if *kind == 0 { "|b1" } else { "|t1" }),
                ..array
            })
            .collect();
        for number in (1..chain.len()).rev() {
            let next: *const cai_array = &raw const chain[number];
            chain[number - 1].mask = next;
        }
        array.mask = chain.first().map_or(null(), |mask| mask);
        let has_other_mask = !is_empty && levels.iter().any(|(_, kind)| *kind == 0);

        let mut destroyed = 0usize;
        // SAFETY: all pointers are valid, and structures are released once.
        unsafe {
            let counter = (&raw mut destroyed).cast();
            prop_assert_eq!(cai_owner_create(counter, Some(count), &raw mut array.owner, null_mut()), CAI_OK);
            let flags = if tensor { CAI_UNSTABLE_ARROW_TENSOR } else { 0 };
            let (mut values, mut schema) = (MaybeUninit::<DeviceArray>::uninit(), MaybeUninit::<Schema>::uninit());
            let status =
                cai_unstable_array_to_arrow(&array, flags, values.as_mut_ptr().cast(), schema.as_mut_ptr().cast(), null_mut());
            // Of a handle, the offset counts.
            let is_aligned = is_empty
                || device.0 == 4
                || !unaligned
                || &text[2..] == "1"
                || (code == 0 && matches!(text.as_bytes()[1], b'V' | b'S' | b't'));
            let expected = if !is_aligned {
                CAI_ERR_ALIGNMENT
            } else if back.is_none() {
                CAI_ERR_CONVERT_TYPE
            } else if is_foreign {
                CAI_ERR_CONVERT_BYTE_ORDER
            } else if shape.is_empty() {
                CAI_ERR_CONVERT_NDIM
            } else if is_strided {
                CAI_ERR_CONVERT_CONTIGUOUS
            } else if has_other_mask {
                CAI_ERR_CONVERT_MASK
            } else if device.0 == 4 {
                CAI_ERR_CONVERT_DEVICE
            } else {
                CAI_OK
            };
            // A tensor has nulls as a whole, or in all its elements.
            let may_fail = of_tensor && levels.iter().any(|(level, _)| *level > 0) && status == CAI_ERR_CONVERT_MASK;
            let innermost = levels.iter().all(|(level, _)| [0, shape.len() - 1].contains(level));
            prop_assert!(status == expected || (may_fail && (is_turned || !innermost)), "{} {:?} {}", given, shape, status);
            if status == CAI_OK {
                let mut out = cai_array { owner: null_mut(), ..array };
                let (values, schema) = (values.assume_init_mut(), schema.assume_init_mut());
                let status = cai_unstable_array_from_arrow(
                    (&raw mut *values).cast(),
                    (&raw const *schema).cast(),
                    &mut out,
                    null_mut(),
                );
                prop_assert_eq!(status, CAI_OK);
                prop_assert!(values.release.is_none());
                schema.release.unwrap()(schema);
                prop_assert!(schema.release.is_none());
                prop_assert_eq!((out.data, out.ndim, out.typestr), (array.data, array.ndim, typestr(back.unwrap())));
                prop_assert_eq!(std::slice::from_raw_parts(out.shape, shape.len()), &shape[..]);
                let is_permuted = is_turned && shape[1..].iter().filter(|&&extent| extent > 1).count() > 1;
                prop_assert!(!is_permuted || !out.strides.is_null());
                if is_turned && !out.strides.is_null() {
                    let found = std::slice::from_raw_parts(out.strides, shape.len());
                    let steps = |strides: &[i64]| -> Vec<i64> {
                        strides.iter().zip(&shape).filter(|(_, extent)| **extent > 1).map(|(step, _)| *step).collect()
                    };
                    prop_assert_eq!(steps(found), steps(&turned_strides));
                }
                prop_assert_eq!((out.device, out.flags, out.dtype_code), (array.device, CAI_ARRAY_READONLY, 0));
                // Without elements, nothing is pending.
                let pending = if is_empty { (CAI_STREAM_NONE, null_mut()) } else { (array.stream, array.event) };
                prop_assert_eq!((out.stream, out.event), pending);
                let mut mask = out.mask;
                for (level, extents) in chain.iter().zip(&extents).filter(|_| !is_empty) {
                    prop_assert!(!mask.is_null());
                    prop_assert_eq!((*mask).data, level.data);
                    prop_assert_eq!(std::slice::from_raw_parts((*mask).shape, extents.len()), &extents[..]);
                    mask = (*mask).mask;
                }
                prop_assert!(mask.is_null());
                cai_owner_release(array.owner);
                prop_assert_eq!(destroyed, 0);
                cai_array_release(&mut out);
            } else {
                cai_owner_release(array.owner);
            }
        }
        prop_assert_eq!(destroyed, 1);
    }
}
