//! Arrays with any numbers in them, masks and fields included; only pointers are what they are said to be, or
//! NULL. What validates is measured, shared, copied and released, and no reference is lost.
#![no_main]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, dtype::*, layout::*, owner::*, validate::*};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    array: One,
    masks: Vec<One>,
    fields: Vec<Row>,
    cycle: Option<u8>,
    out_size: u32,
    checks: u8,
    count: Option<u64>,
    field_size: Option<u32>,
}

#[derive(Arbitrary, Debug)]
struct One {
    struct_size: Option<u32>,
    flags: u32,
    data: u64,
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    ndim: Option<i32>,
    version: u16,
    code: u16,
    typestr: [u8; 16],
    plain: u8,
    stream: u64,
    stream_id: u64,
    event: u64,
    device: (i32, i32),
    byte_offset: u64,
    has_fields: bool,
    owned: bool,
}

#[derive(Arbitrary, Debug)]
struct Row {
    name: Option<CString>,
    title: Option<CString>,
    typestr: [u8; 16],
    plain: u8,
    shape: Option<Vec<i64>>,
    ndim: Option<i32>,
    nested: Option<u8>,
    code: u16,
}

/// Mostly types that exist, so that the fuzzer gets past them.
fn typestr(raw: [u8; 16], plain: u8) -> [c_char; 16] {
    const PLAIN: [&str; 12] =
        ["<f4", "|b1", "|u1", ">i8", "<c16", "|V4", "|V16", "<M8[25us]", "|t1", "|t12", "<U3", "|S0"];
    let mut out = [0; 16];
    match PLAIN.get(plain as usize % 16) {
        Some(text) => out.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char),
        None => out = raw.map(|byte| byte as c_char),
    }
    out
}

/// Room for as many extents as `ndim` says, so that a true array of that many is behind the pointer.
fn extents(given: &Option<Vec<i64>>, ndim: i32) -> Option<Vec<i64>> {
    given.as_ref().map(|values| {
        let mut values = values.clone();
        values.resize(values.len().max(ndim.clamp(0, 64) as usize), 1);
        values
    })
}

thread_local!(static DESTROYED: Cell<usize> = const { Cell::new(0) });

unsafe extern "C" fn destroy(_: *mut c_void) {
    DESTROYED.set(DESTROYED.get() + 1);
}

fuzz_target!(|input: Input| {
    let mut keep: Vec<Vec<i64>> = Vec::new();
    let mut pointer = |values: Option<Vec<i64>>| match values {
        Some(values) => {
            keep.push(values);
            keep.last().map_or(null(), |values| values.as_ptr())
        }
        None => null(),
    };
    let mut descr = Box::new(cai_descr {
        struct_size: size_of::<cai_descr>() as u32,
        field_size: size_of::<cai_field>() as u32,
        count: 0,
        fields: null(),
    });
    let inner_rows = [cai_field {
        name: c"inner".as_ptr(),
        title: null(),
        typestr: typestr([0; 16], 0),
        nested: null(),
        shape: null(),
        ndim: 0,
        dtype_code: 0,
        reserved: 0,
    }];
    let inner = cai_descr { count: 1, fields: inner_rows.as_ptr(), ..*descr };
    let itself: *const cai_descr = &raw const *descr;
    let rows: Vec<cai_field> = input
        .fields
        .iter()
        .map(|row| {
            let ndim = row.ndim.unwrap_or(row.shape.as_ref().map_or(0, Vec::len) as i32);
            cai_field {
                name: row.name.as_ref().map_or(null(), |name| name.as_ptr()),
                title: row.title.as_ref().map_or(null(), |title| title.as_ptr()),
                typestr: if row.nested.is_some() { [0; 16] } else { typestr(row.typestr, row.plain) },
                nested: match row.nested {
                    Some(way) if way % 4 == 0 => itself,
                    Some(_) => &raw const inner,
                    None => null(),
                },
                shape: pointer(extents(&row.shape, ndim)),
                ndim,
                dtype_code: if row.code % 4 == 0 { row.code / 4 } else { 0 },
                reserved: 0,
            }
        })
        .collect();
    descr.count = input.count.filter(|count| *count > CAI_MAX_FIELDS).unwrap_or(rows.len() as u64);
    descr.field_size = input.field_size.filter(|size| *size < 56).unwrap_or(size_of::<cai_field>() as u32);
    descr.fields = rows.as_ptr();

    let mut owners = 0;
    let mut make = |one: &One| {
        let ndim = one.ndim.unwrap_or(one.shape.as_ref().map_or(0, Vec::len) as i32);
        let mut owner = null_mut();
        if one.owned {
            // SAFETY: all pointers are valid.
            assert_eq!(unsafe { cai_owner_create(null_mut(), Some(destroy), &mut owner, null_mut()) }, CAI_OK);
            owners += 1;
        }
        cai_array {
            // Never longer than what is there.
            struct_size: one.struct_size.filter(|size| *size <= 128).unwrap_or(128),
            flags: one.flags % 3,
            owner,
            data: one.data as *mut c_void,
            shape: pointer(extents(&one.shape, ndim)),
            strides: pointer(extents(&one.strides, ndim)),
            ndim,
            version: one.version % 5,
            dtype_code: if one.code % 4 == 0 { one.code / 4 } else { 0 },
            typestr: typestr(one.typestr, one.plain),
            descr: if one.has_fields { itself } else { null() },
            mask: null(),
            stream: if one.stream % 3 == 0 { CAI_STREAM_NONE - one.stream % 2 } else { one.stream },
            stream_id: if one.stream_id % 2 == 0 { 0 } else { one.stream_id },
            event: if one.event % 2 == 0 { null_mut() } else { one.event as *mut c_void },
            device: cai_device { r#type: one.device.0 % 24, id: one.device.1 },
            context: null_mut(),
            byte_offset: if one.byte_offset % 2 == 0 { 0 } else { one.byte_offset },
        }
    };
    let mut array = make(&input.array);
    let mut masks: Vec<cai_array> = input.masks.iter().map(&mut make).collect();
    for index in (1..masks.len()).rev() {
        masks[index - 1].mask = &raw const masks[index];
    }
    if let (Some(back), Some(last)) = (input.cycle, masks.len().checked_sub(1)) {
        masks[last].mask = &raw const masks[back as usize % masks.len()];
    }
    array.mask = masks.first().map_or(null(), |mask| &raw const *mask);

    // SAFETY: pointers are NULL or what they are said to be; every reference is released.
    unsafe {
        DESTROYED.set(0);
        let mut error = std::mem::MaybeUninit::<cai_error>::zeroed().assume_init();
        let mut layout = std::mem::MaybeUninit::<cai_layout>::zeroed().assume_init();
        let mut truth = false;
        let status = cai_array_validate(&array, CAI_CHECK_LAYOUT, &mut error);
        assert!(status == CAI_OK || (error.code == status && error.message[407] == 0 && error.field[95] == 0));
        cai_array_validate(&array, u32::from(input.checks), null_mut());
        assert_eq!(cai_array_layout(&array, &mut layout, null_mut()), status);
        if status == CAI_OK {
            let cai_layout { count, nbytes, lower, upper, .. } = layout;
            assert!(count >= 0 && nbytes >= 0 && lower <= 0 && upper >= 0);
            assert_eq!(cai_array_is_native(&array, &mut truth, null_mut()), CAI_OK);
            assert_eq!(cai_array_may_overlap(&array, &array, &mut truth, null_mut()), CAI_OK);
            assert_eq!(truth, upper > lower);
        }
        let mut out = [0u64; 32];
        let out = out.as_mut_ptr().cast::<cai_array>();
        (*out).struct_size = if input.out_size % 2 == 0 { 128 } else { input.out_size % 257 };
        let destroyed = DESTROYED.get();
        if cai_array_create(&array, null_mut(), Some(destroy), out, &mut error) == CAI_OK {
            owners += 1;
            assert_eq!(status, CAI_OK);
            if (*out).struct_size >= 128 {
                assert_eq!(cai_array_validate(out, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
            }
            let mut copy = array;
            copy.struct_size = 128;
            copy.owner = null_mut();
            if cai_array_share(out, &mut copy, null_mut()) == CAI_OK {
                cai_array_release(&mut copy);
            }
            cai_array_release(out);
            assert_eq!(DESTROYED.get(), destroyed + 1);
        }
        cai_array_release(&mut array);
        for mask in &mut masks {
            cai_array_release(mask);
        }
        assert_eq!(DESTROYED.get(), owners);
    }
});
