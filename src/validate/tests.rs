//! The order in which the rules are tried, held against [`ORDER`].

use std::ffi::{CStr, c_char};
use std::ptr;

use super::ORDER;
use crate::abi::{
    self, CAI_CHECK_ALIGNMENT, CAI_CHECK_NATIVE, CAI_MAX_MASKS, CAI_TYPESTR_SIZE, cai_array,
    cai_descr, cai_status,
};
use crate::ffi::library::cai_status_name;
use crate::read::NOTHING;

/// Breaks one rule of an array that is sound otherwise.
type Break = fn(&mut cai_array);

const BREAKS: &[(cai_status, Break)] = &[
    (abi::CAI_ERR_STRUCT_SIZE, |a| a.struct_size = 4),
    (abi::CAI_ERR_FLAGS, |a| a.flags = 4),
    (abi::CAI_ERR_TYPESTR_KIND, |a| a.typestr = typestr("<q4")),
    (abi::CAI_ERR_DTYPE_CODE, |a| a.dtype_code = 999),
    (abi::CAI_ERR_NDIM, |a| a.ndim = -1),
    (abi::CAI_ERR_SHAPE_NULL, |a| a.shape = ptr::null()),
    (abi::CAI_ERR_SHAPE_NEGATIVE, |a| a.shape = at(&[-1, 3])),
    (abi::CAI_ERR_ITEMSIZE, |a| a.typestr = typestr("|V0")),
    (abi::CAI_ERR_BIT_STRIDES, |a| a.typestr = typestr("|t1")),
    (abi::CAI_ERR_SIZE_OVERFLOW, |a| a.shape = at(&[1 << 40, 1 << 40])),
    (abi::CAI_ERR_SPAN_OVERFLOW, |a| a.strides = at(&[i64::MAX, 4])),
    (abi::CAI_ERR_DEVICE_TYPE, |a| a.device.r#type = 99),
    (abi::CAI_ERR_DEVICE_ID, |a| a.device.id = -5),
    (abi::CAI_ERR_DATA_NULL, |a| a.data = ptr::null_mut()),
    (abi::CAI_ERR_DATA_NOT_NULL, |a| a.shape = at(&[0, 3])),
    (abi::CAI_ERR_BYTE_OFFSET, |a| a.byte_offset = 8),
    (abi::CAI_ERR_ADDRESS_RANGE, |a| a.data = (u64::MAX - 3) as *mut _),
    (abi::CAI_ERR_STREAM_ZERO, |a| a.stream = 0),
    (abi::CAI_ERR_STREAM_VERSION, |a| a.version = 2),
    (abi::CAI_ERR_STREAM_ID, |a| a.stream = abi::CAI_STREAM_NONE),
    (abi::CAI_ERR_EVENT, |a| {
        (a.stream, a.stream_id, a.event) = (abi::CAI_STREAM_NONE, 0, ptr::dangling_mut());
    }),
    (abi::CAI_ERR_STREAM_DEVICE, |a| a.device.r#type = abi::CAI_DEVICE_CPU),
    (abi::CAI_ERR_DESCR_SIZE, |a| {
        let (struct_size, field_size) = (size_of::<cai_descr>() as u32, 56);
        a.descr = leak(cai_descr { struct_size, field_size, count: 0, fields: ptr::null() });
    }),
    (abi::CAI_ERR_CONVERT_BYTE_ORDER, |a| a.typestr[0] = b'>' as c_char),
    (abi::CAI_ERR_ALIGNMENT, |a| a.data = ((1u64 << 46) + 1) as *mut _),
    (abi::CAI_ERR_MASK_VERSION, |a| {
        (a.stream, a.stream_id) = (abi::CAI_STREAM_UNKNOWN, 0);
        (a.mask, a.version) = (leak(mask()), 0);
    }),
    (abi::CAI_ERR_MASK_CYCLE, |a| {
        let mask = Box::leak(Box::new(mask()));
        mask.mask = &raw const *mask;
        a.mask = mask;
    }),
    (abi::CAI_ERR_MASK_DEPTH, |a| {
        for _ in 0..=CAI_MAX_MASKS {
            a.mask = leak(cai_array { mask: a.mask, ..mask() });
        }
    }),
    (abi::CAI_ERR_MASK_TYPE, |a| {
        a.mask = leak(cai_array { typestr: typestr("<f4"), ..mask() });
    }),
    (abi::CAI_ERR_MASK_SHAPE, |a| a.mask = leak(cai_array { shape: at(&[7, 3]), ..mask() })),
    (abi::CAI_ERR_MASK_DEVICE, |a| {
        let (device, stream) = (abi::cai_device { r#type: 1, id: 0 }, abi::CAI_STREAM_NONE);
        a.mask = leak(cai_array { device, stream, stream_id: 0, ..mask() });
    }),
];

/// Pairs in which the second makes that the first is not broken any more.
const CURES: &[(cai_status, cai_status)] = &[
    (abi::CAI_ERR_SPAN_OVERFLOW, abi::CAI_ERR_DATA_NOT_NULL),
    (abi::CAI_ERR_DATA_NULL, abi::CAI_ERR_DATA_NOT_NULL),
    (abi::CAI_ERR_DATA_NULL, abi::CAI_ERR_ALIGNMENT),
    (abi::CAI_ERR_STREAM_VERSION, abi::CAI_ERR_STREAM_ID),
    (abi::CAI_ERR_STREAM_VERSION, abi::CAI_ERR_EVENT),
    (abi::CAI_ERR_STREAM_DEVICE, abi::CAI_ERR_MASK_VERSION),
];

fn typestr(text: &str) -> [c_char; CAI_TYPESTR_SIZE] {
    let mut typestr = [0; CAI_TYPESTR_SIZE];
    for (to, from) in typestr.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    typestr
}

fn at(values: &'static [i64]) -> *const i64 {
    values.as_ptr()
}

fn leak<T>(value: T) -> *mut T {
    Box::leak(Box::new(value))
}

fn sound() -> cai_array {
    cai_array {
        data: (1u64 << 46) as *mut _,
        shape: at(&[4, 3]),
        strides: at(&[12, 4]),
        ndim: 2,
        typestr: typestr("<f4"),
        stream: abi::CAI_STREAM_LEGACY,
        stream_id: 7,
        device: abi::cai_device { r#type: abi::CAI_DEVICE_CUDA, id: 0 },
        ..NOTHING
    }
}

fn mask() -> cai_array {
    cai_array { typestr: typestr("|b1"), strides: ptr::null(), ..sound() }
}

fn status_of(array: &cai_array) -> cai_status {
    // SAFETY: all that the array refers to is constant or leaked.
    let checked = unsafe { super::array(array, CAI_CHECK_ALIGNMENT | CAI_CHECK_NATIVE) };
    checked.err().map_or(abi::CAI_OK, |failure| failure.status())
}

fn name(status: cai_status) -> &'static str {
    // SAFETY: the name is constant, and NUL-terminated.
    unsafe { CStr::from_ptr(cai_status_name(status)) }.to_str().unwrap()
}

/// Returns true for each member that is not that of a sound array.
fn changed(array: cai_array) -> Vec<bool> {
    let (before, after) = (format!("{:?}", sound()), format!("{array:?}"));
    before.split(", ").zip(after.split(", ")).map(|(before, after)| before != after).collect()
}

/// Returns the place of a status in the order.
fn place(status: cai_status) -> usize {
    let is_it = |entry: &&&str| match entry.strip_suffix('_') {
        Some(_) => name(status).starts_with(**entry),
        None => name(status) == **entry,
    };
    ORDER.iter().position(|entry| is_it(&entry)).unwrap_or_else(|| panic!("no {}", name(status)))
}

/// Every rule that needs no driver is broken by a row. tests/python/test_driver.py breaks those of
/// the driver.
#[test]
fn every_rule_has_a_row() {
    let needs_driver = |group: &str| matches!(group, "CAI_CHECK_DEVICE" | "CAI_CHECK_STREAM");
    let mut group = "";
    for (index, entry) in ORDER.iter().enumerate() {
        if let Some((_, last)) = entry.rsplit_once(' ') {
            group = last;
        } else if !needs_driver(group) {
            assert!(BREAKS.iter().any(|&(status, _)| place(status) == index), "{entry}");
        }
    }
}

#[test]
fn the_rules_are_tried_in_order() {
    assert_eq!(status_of(&sound()), abi::CAI_OK);
    for &(status, change) in BREAKS {
        let mut array = sound();
        change(&mut array);
        assert_eq!(name(status_of(&array)), name(status));
    }
    let mut wrong = Vec::new();
    for (index, &(first, change_first)) in BREAKS.iter().enumerate() {
        for &(second, change_second) in &BREAKS[index + 1..] {
            let (mut array, mut one, mut other) = (sound(), sound(), sound());
            change_first(&mut one);
            change_second(&mut other);
            if changed(one).iter().zip(changed(other)).any(|(&one, other)| one && other) {
                continue;
            }
            change_first(&mut array);
            change_second(&mut array);
            let found = status_of(&array);
            if CURES.contains(&(first, second)) {
                continue;
            }
            let expected = if place(first) <= place(second) { first } else { second };
            if found != expected {
                wrong.push(format!("{} and {}: {}", name(first), name(second), name(found)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
