//! The layout arithmetic held against a slow model, through the exported functions.
//!
//! Small arrays are enumerated element by element. Large ones, up to 64 dimensions and extents near 2^63, are
//! computed in integers without bounds.

use std::ptr;

use cai::abi::*;
use cai::ffi::array::cai_array_create;
use cai::ffi::layout::*;
use cai::ffi::owner::cai_owner_release;
use cai::ffi::validate::cai_array_validate;
use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};
use proptest::prelude::*;

fn array(shape: &[i64], strides: Option<&[i64]>, typestr: &str) -> cai_array {
    let mut text = [0; CAI_TYPESTR_SIZE];
    for (to, from) in text.iter_mut().zip(typestr.bytes()) {
        *to = from as std::ffi::c_char;
    }
    cai_array {
        struct_size: size_of::<cai_array>() as u32,
        flags: 0,
        owner: ptr::null_mut(),
        data: if shape.contains(&0) { ptr::null_mut() } else { (1usize << 62) as *mut _ },
        shape: shape.as_ptr(),
        strides: strides.map_or(ptr::null(), |strides| strides.as_ptr()),
        ndim: shape.len() as i32,
        version: 3,
        dtype_code: 0,
        typestr: text,
        descr: ptr::null(),
        mask: ptr::null(),
        stream: CAI_STREAM_NONE,
        stream_id: 0,
        event: ptr::null_mut(),
        device: cai_device { r#type: CAI_DEVICE_CUDA, id: 0 },
        context: ptr::null_mut(),
        byte_offset: 0,
    }
}

/// A layout as a Rust value: count, bytes, lower and upper end, C and Fortran order.
type Measured = (i64, i64, i64, i64, bool, bool);

fn measure(array: &cai_array) -> Result<Measured, cai_status> {
    let mut out = std::mem::MaybeUninit::<cai_layout>::uninit();
    // SAFETY: all pointers are valid; `out` is initialized on success.
    let layout = unsafe {
        match cai_array_layout(array, out.as_mut_ptr(), ptr::null_mut()) {
            CAI_OK => out.assume_init(),
            status => return Err(status),
        }
    };
    let is = |flag: u32| layout.flags & flag != 0;
    let orders = (is(CAI_LAYOUT_C_CONTIGUOUS), is(CAI_LAYOUT_F_CONTIGUOUS));
    Ok((layout.count, layout.nbytes, layout.lower, layout.upper, orders.0, orders.1))
}

fn strides_of(array: &cai_array) -> Result<Vec<i64>, cai_status> {
    let mut out = vec![0; array.ndim as usize];
    // SAFETY: all pointers are valid.
    match unsafe { cai_array_strides(array, out.as_mut_ptr(), array.ndim, ptr::null_mut()) } {
        CAI_OK => Ok(out),
        status => Err(status),
    }
}

/// All indices of a small shape, in C order.
fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &extent in shape {
        all = all
            .into_iter()
            .flat_map(|index: Vec<i64>| {
                (0..extent).map(move |last| index.iter().copied().chain([last]).collect())
            })
            .collect();
    }
    all
}

fn offset(index: &[i64], strides: &[i64]) -> i64 {
    index.iter().zip(strides).map(|(index, stride)| index * stride).sum()
}

/// Steps of a dense array, `fastest` dimension first.
fn dense(shape: &[i64], itemsize: i64, fastest_last: bool) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = itemsize;
    let order: Vec<usize> =
        if fastest_last { (0..shape.len()).rev().collect() } else { (0..shape.len()).collect() };
    for dimension in order {
        strides[dimension] = step;
        step *= shape[dimension].max(1);
    }
    strides
}

fn small_shape() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(0i64..5, 0..5)
}

fn some_item() -> impl Strategy<Value = (&'static str, i64)> {
    prop::sample::select(vec![
        ("|i1", 1),
        ("<f2", 2),
        ("<f4", 4),
        ("<c16", 16),
        ("|V12", 12),
        ("|t24", 3),
    ])
}

/// Strides that are often dense and sometimes almost dense, so that contiguity is really put to the test.
fn small_array() -> impl Strategy<Value = (Vec<i64>, Option<Vec<i64>>, &'static str, i64)> {
    (small_shape(), some_item(), 0..5, any::<prop::sample::Index>(), -40i64..40).prop_flat_map(
        |(shape, (typestr, size), form, place, wild)| {
            let ndim = shape.len();
            let (c, f) = (dense(&shape, size, true), dense(&shape, size, false));
            let changed = |mut strides: Vec<i64>| {
                if ndim > 0 {
                    strides[place.index(ndim)] = wild;
                }
                strides
            };
            let strides = match form {
                0 => Just(None).boxed(),
                1 => Just(Some(c)).boxed(),
                2 => Just(Some(f)).boxed(),
                3 => prop::sample::select(vec![Some(changed(c)), Some(changed(f))]).boxed(),
                _ => prop::collection::vec(-40i64..40, ndim).prop_map(Some).boxed(),
            };
            (Just(shape), strides, Just(typestr), Just(size))
        },
    )
}

fn large_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(2),
        Just(i64::MAX),
        Just(i64::MIN),
        1i64..100,
        -100i64..100,
        any::<i64>(),
        (0u32..63).prop_map(|power| 1i64 << power),
        (0u32..63).prop_map(|power| -(1i64 << power)),
        (0u32..63, -2i64..3).prop_map(|(power, near)| (1i64 << power).wrapping_add(near)),
    ]
}

fn large_array() -> impl Strategy<Value = (Vec<i64>, Option<Vec<i64>>, &'static str, i64)> {
    let extent = prop_oneof![
        6 => Just(1i64),
        3 => Just(2),
        1 => Just(3),
        2 => large_number().prop_map(|number| number.checked_abs().unwrap_or(i64::MAX)),
    ];
    (prop::collection::vec(extent, 0..=64), some_item(), any::<bool>()).prop_flat_map(
        |(shape, (typestr, size), given)| {
            let ndim = shape.len();
            let small = prop_oneof![3 => -64i64..64, 1 => large_number()];
            let strides = prop::collection::vec(small, ndim)
                .prop_map(move |strides| given.then_some(strides));
            (Just(shape), strides, Just(typestr), Just(size))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_arrays_are_what_enumeration_says((shape, strides, typestr, size) in small_array()) {
        let a = array(&shape, strides.as_deref(), typestr);
        let all = indices(&shape);
        let steps = strides.clone().unwrap_or_else(|| dense(&shape, size, true));
        let offsets: Vec<i64> = all.iter().map(|index| offset(index, &steps)).collect();

        let lower = offsets.iter().min().map_or(0, |least| *least);
        let upper = offsets.iter().max().map_or(0, |most| most + size);
        prop_assert_eq!(strides_of(&a), Ok(steps));

        // Contiguous: in that order, every element begins where the one before it ends.
        let in_order = |offsets: &[i64]| offsets.iter().enumerate().all(|(n, offset)| *offset == n as i64 * size);
        let c_order = in_order(&offsets);
        let mut transposed: Vec<(Vec<i64>, i64)> =
            all.iter().map(|index| index.iter().rev().copied().collect()).zip(offsets).collect();
        transposed.sort();
        let offsets: Vec<i64> = transposed.into_iter().map(|(_, offset)| offset).collect();
        let (count, bytes) = (all.len() as i64, all.len() as i64 * size);
        prop_assert_eq!(measure(&a), Ok((count, bytes, lower, upper, c_order, in_order(&offsets))));
    }

    #[test]
    fn overlap_never_misses((shape, strides, typestr, size) in small_array(), (shape2, strides2, typestr2, size2) in small_array(), shift in -60isize..60) {
        let a = array(&shape, strides.as_deref(), typestr);
        let mut b = array(&shape2, strides2.as_deref(), typestr2);
        if !b.data.is_null() {
            b.data = b.data.wrapping_byte_offset(shift);
        }
        let bytes = |shape: &[i64], strides: &Option<Vec<i64>>, size: i64, shift: i64| {
            let steps = strides.clone().unwrap_or_else(|| dense(shape, size, true));
            let mut bytes: Vec<i64> = indices(shape).iter().flat_map(|index| {
                let start = offset(index, &steps) + shift;
                start..start + size
            }).collect();
            bytes.sort_unstable();
            bytes
        };
        let (x, y) = (bytes(&shape, &strides, size, 0), bytes(&shape2, &strides2, size2, shift as i64));
        let share = x.iter().any(|byte| y.binary_search(byte).is_ok());
        let apart = x.is_empty() || y.is_empty() || x[x.len() - 1] < y[0] || y[y.len() - 1] < x[0];
        let mut out = false;
        // SAFETY: all pointers are valid.
        prop_assert_eq!(unsafe { cai_array_may_overlap(&a, &b, &mut out, ptr::null_mut()) }, CAI_OK);
        prop_assert!(out || !share);
        prop_assert_eq!(out, !apart);
    }

    #[test]
    fn large_arrays_are_what_unbounded_integers_say((shape, strides, typestr, size) in large_array()) {
        let a = array(&shape, strides.as_deref(), typestr);
        let count: BigInt = shape.iter().map(|extent| BigInt::from(*extent)).product();
        let fits = |number: &BigInt, error: cai_status| number.to_i64().ok_or(error);
        let nbytes = fits(&count, CAI_ERR_SIZE_OVERFLOW).and_then(|count| fits(&(BigInt::from(count) * size), CAI_ERR_SIZE_OVERFLOW));

        let (mut lower, mut upper) = (BigInt::zero(), BigInt::zero());
        if !count.is_zero() {
            upper += size;
            match &strides {
                Some(strides) => for (extent, stride) in shape.iter().zip(strides) {
                    let reach = (BigInt::from(*extent) - BigInt::one()) * stride;
                    if reach.is_negative() { lower += reach } else { upper += reach }
                },
                None => upper = &count * size,
            }
        }
        let span = match &strides {
            Some(_) => fits(&lower, CAI_ERR_SPAN_OVERFLOW).and_then(|lower| Ok((lower, fits(&upper, CAI_ERR_SPAN_OVERFLOW)?))),
            None => nbytes.map(|nbytes| (0, nbytes)),
        };

        // What is contiguous has the strides that contiguity means.
        let is_dense = |last: bool| {
            let mut step = BigInt::from(size);
            let mut is = true;
            let order: Vec<usize> = if last { (0..shape.len()).rev().collect() } else { (0..shape.len()).collect() };
            let given: Vec<BigInt> = match &strides {
                Some(strides) => strides.iter().map(|stride| BigInt::from(*stride)).collect(),
                None => {
                    let mut step = BigInt::from(size);
                    let mut c = vec![BigInt::zero(); shape.len()];
                    for dimension in (0..shape.len()).rev() {
                        c[dimension] = step.clone();
                        step *= shape[dimension];
                    }
                    c
                }
            };
            for dimension in order {
                if shape[dimension] != 1 {
                    is &= given[dimension] == step;
                    step *= shape[dimension];
                }
            }
            count.is_zero() || is
        };

        // All numbers must fit, and the bytes must lie in the address space.
        let address = BigInt::from(a.data as u64);
        let top = BigInt::from(u64::MAX);
        let addressable = !(&address + &lower).is_negative() && (&address + &upper) <= top;
        let expected = nbytes.and_then(|nbytes| {
            let (lower, upper) = span?;
            let count = fits(&count, CAI_ERR_SIZE_OVERFLOW)?;
            let sound = Ok((count, nbytes, lower, upper, is_dense(true), is_dense(false)));
            if addressable { sound } else { Err(CAI_ERR_ADDRESS_RANGE) }
        });
        prop_assert_eq!(measure(&a), expected);
        // SAFETY: all pointers are valid.
        let status = unsafe { cai_array_validate(&a, CAI_CHECK_LAYOUT, ptr::null_mut()) };
        prop_assert_eq!(status, expected.err().unwrap_or(CAI_OK));
    }

    #[test]
    fn dense_strides_are_contiguous((shape, _, typestr, size) in large_array(), fortran in any::<bool>()) {
        let mut out = vec![0; shape.len()];
        let order = if fortran { b'F' } else { b'C' } as std::ffi::c_char;
        // SAFETY: all pointers are valid.
        let status = unsafe { cai_layout_strides(order, shape.as_ptr(), shape.len() as i32, size, out.as_mut_ptr(), ptr::null_mut()) };
        if status == CAI_OK {
            let a = array(&shape, Some(&out), typestr);
            // Its bytes may be too many for the address space, or for a number.
            if let Ok((_, _, _, _, c_order, f_order)) = measure(&a) {
                let dense = if fortran { f_order } else { c_order };
                prop_assert!(dense);
            }
        } else {
            // Some stride is a product of all but one extent: it does not fit.
            prop_assert_eq!(status, CAI_ERR_SIZE_OVERFLOW);
            let product: BigInt = shape.iter().map(|extent| BigInt::from(*extent.max(&1))).product();
            prop_assert!((product * size).to_i64().is_none());
        }
    }

    #[test]
    fn copies_describe_the_same((shape, strides, typestr, _) in small_array()) {
        let a = array(&shape, strides.as_deref(), typestr);
        let mut out = a;
        // SAFETY: all pointers are valid; the owner is released.
        unsafe {
            prop_assert_eq!(cai_array_create(&a, ptr::null_mut(), None, &mut out, ptr::null_mut()), CAI_OK);
            prop_assert_eq!(cai_array_validate(&out, CAI_CHECK_LAYOUT, ptr::null_mut()), CAI_OK);
            prop_assert_eq!(std::slice::from_raw_parts(if shape.is_empty() { ptr::dangling() } else { out.shape }, shape.len()), &shape[..]);
            prop_assert_eq!(measure(&out), measure(&a));
            prop_assert_eq!(strides_of(&out), strides_of(&a));
            cai_owner_release(out.owner);
        }
    }
}
