//! Arrays with any numbers in them, masks and fields included; only pointers are valid or NULL. Each structure lies
//! in a block of exactly its size, with a canary behind it, so that one byte too many is found by AddressSanitizer
//! or by the canary. Every function of the ABI that takes an array takes it, and no reference is lost.
#![no_main]

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, dlpack::*, layout::*, owner::*, sync::*, validate::*};
use cai_fuzz::{Foreign, PREFIX, Placed, Size, TAIL, extents, is_legal, new_array, typestr};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    array: One,
    masks: Vec<One>,
    fields: Vec<Row>,
    cycle: Option<u8>,
    out: Size,
    small_out: Size,
    descr: Size,
    row: Size,
    operations: Size,
    checks: u8,
    access: u8,
    count: Option<u64>,
}

#[derive(Arbitrary, Debug)]
struct One {
    struct_size: Size,
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

thread_local!(static DESTROYED: Cell<usize> = const { Cell::new(0) });

unsafe extern "C-unwind" fn destroy(_: *mut c_void) {
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
    let row_size = input.row.of(size_of::<cai_field>());
    let descr_size = input.descr.of(size_of::<cai_descr>());
    let mut descr = cai_descr { struct_size: descr_size, field_size: row_size, count: 0, fields: null() };
    let placed_descr = Placed::new(&descr, descr_size, size_of::<cai_descr>(), 4);
    let itself: *const cai_descr = placed_descr.start.cast();
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
    let inner = cai_descr {
        struct_size: size_of::<cai_descr>() as u32,
        field_size: size_of::<cai_field>() as u32,
        count: 1,
        fields: inner_rows.as_ptr(),
    };
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
    // Rows of the size that the list states, one behind the other.
    let step = if is_legal(row_size, size_of::<cai_field>()) { row_size as usize } else { 0 };
    let mut table = vec![u64::from_ne_bytes([TAIL; 8]); step / 8 * rows.len()];
    for (index, row) in rows.iter().enumerate().take(if step == 0 { 0 } else { rows.len() }) {
        // SAFETY: the table has `step` bytes for each row, which is at least as long as ours.
        unsafe { table.as_mut_ptr().cast::<u8>().add(index * step).cast::<cai_field>().write(*row) };
    }
    descr.fields = table.as_ptr().cast();
    if is_legal(descr_size, size_of::<cai_descr>()) {
        // SAFETY: the block is as long as ours, or longer.
        unsafe { placed_descr.start.cast::<cai_descr>().write(descr) };
    }

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
            struct_size: one.struct_size.of(size_of::<cai_array>()),
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
    let place = |array: cai_array| Placed::new(&array, array.struct_size, size_of::<cai_array>(), PREFIX);
    let mut array = make(&input.array);
    let mut masks: Vec<Placed> = input.masks.iter().map(|one| place(make(one))).collect();
    let mask_at = |index: usize| masks[index].array().cast_const();
    let set_mask = |index: usize, mask: *const cai_array| {
        if masks[index].size >= size_of::<cai_array>() {
            // SAFETY: the block is as long as ours.
            unsafe { (*masks[index].array()).mask = mask };
        }
    };
    for index in 1..masks.len() {
        set_mask(index - 1, mask_at(index));
    }
    if let (Some(back), Some(last)) = (input.cycle, masks.len().checked_sub(1)) {
        set_mask(last, mask_at(back as usize % masks.len()));
    }
    array.mask = if masks.is_empty() { null() } else { mask_at(0) };
    let placed = place(array);
    let is_whole = is_legal(array.struct_size, size_of::<cai_array>());

    // SAFETY: pointers are NULL or valid, and each structure has the size that it claims, or the prefix of one whose
    // size is refused; every reference is released.
    unsafe {
        DESTROYED.set(0);
        let array = placed.array();
        let mut error = std::mem::MaybeUninit::<cai_error>::zeroed().assume_init();
        let mut layout = std::mem::MaybeUninit::<cai_layout>::zeroed().assume_init();
        let mut overlaps = false;
        let status = cai_array_validate(array, CAI_CHECK_LAYOUT, &mut error);
        assert!(is_whole || status == CAI_ERR_STRUCT_SIZE);
        assert!(status == CAI_OK || (error.code == status && error.message[407] == 0 && error.field[95] == 0));
        cai_array_validate(array, u32::from(input.checks), null_mut());
        assert_eq!(cai_array_layout(array, &mut layout, null_mut()), status);
        if status == CAI_OK {
            assert!(layout.count >= 0 && layout.nbytes >= 0 && layout.lower <= 0 && layout.upper >= 0);
            let native = cai_array_validate(array, CAI_CHECK_NATIVE, null_mut());
            assert!(native == CAI_OK || native == CAI_ERR_CONVERT_BYTE_ORDER);
            assert_eq!(cai_array_may_overlap(array, array, &mut overlaps, null_mut()), CAI_OK);
            assert_eq!(overlaps, layout.upper > layout.lower);
        }
        exchange(array, u32::from(input.access));
        copies(array, status, input.out, &input);
        foreign_owner(array, is_whole, input.operations);
        produce(array, is_whole);

        let owner = (*array).owner;
        cai_array_release(array);
        assert!((*array).owner.is_null() && (*array).flags == 0);
        assert!(owner.is_null() || DESTROYED.get() == 1);
        for mask in &mut masks {
            cai_array_release(mask.array());
        }
        assert_eq!(DESTROYED.get(), owners);
    }
});

/// Streams that need no driver, and those that find none.
unsafe fn exchange(array: *mut cai_array, access: u32) {
    // SAFETY: as in the caller.
    unsafe {
        let begun = cai_array_consume_begin(array, 1, access, null_mut());
        let ended = cai_array_consume_end(array, 1, access, null_mut());
        assert!(begun != CAI_OK || ended == CAI_OK || ended == CAI_ERR_NO_DRIVER);
        cai_array_synchronize(array, access, null_mut());
    }
}

/// Into structures of any size.
unsafe fn copies(array: *mut cai_array, status: cai_status, size: Size, input: &Input) {
    let least = size_of::<cai_array>();
    let (claimed, other) = (size.of(least), input.small_out.of(least));
    // SAFETY: as in the caller; each `out` has the size that it claims, or the prefix of one that is refused.
    unsafe {
        let (out, again) = (Placed::init(claimed), Placed::init(other));
        let created = cai_array_create(array, null_mut(), None, out.array(), null_mut());
        // It takes any address of an array without elements.
        let is_taken = [CAI_OK, CAI_ERR_DATA_NOT_NULL, CAI_ERR_BYTE_OFFSET].contains(&status);
        assert!(created != CAI_OK || (is_taken && is_legal(claimed, least)));
        if created == CAI_OK {
            out.assert_written(claimed);
            assert_eq!(cai_array_validate(out.array(), CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
            assert_eq!(cai_array_attach(out.array(), null_mut(), None, null_mut()), CAI_OK);
            let shared = cai_array_share(out.array(), again.array(), null_mut());
            assert_eq!(shared == CAI_OK, is_legal(other, least));
            cai_array_release(again.array());
        }
        assert_eq!(cai_array_release_after(out.array(), CAI_STREAM_NONE, null_mut()) == CAI_OK, is_legal(claimed, least));
        cai_array_release(out.array());

        let out = Placed::init(claimed);
        if cai_array_share(array, out.array(), null_mut()) == CAI_OK {
            out.assert_written(claimed);
        }
        cai_array_release(out.array());

        let out = Placed::init(claimed);
        let mut tensor = null_mut();
        if cai_array_to_dlpack(array, 0, &mut tensor, null_mut()) == CAI_OK {
            if cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, out.array(), null_mut()) == CAI_OK {
                out.assert_written(claimed);
            } else {
                let whole = Placed::init(least as u32);
                assert_eq!(cai_array_from_dlpack(tensor, CAI_STREAM_NONE, 0, whole.array(), null_mut()), CAI_OK);
                cai_array_release(whole.array());
            }
        }
        cai_array_release(out.array());
    }
}

/// An owner whose table has any size is retained and released as often.
unsafe fn foreign_owner(array: *mut cai_array, is_whole: bool, size: Size) {
    if !is_whole {
        return;
    }
    let foreign = Foreign::make(size, 0, |_| ());
    // SAFETY: as in the caller; the foreign owner outlives its references.
    unsafe {
        let before = (*array).owner;
        (*array).owner = foreign;
        let mut out = new_array();
        let retained = cai_array_retain(array, null_mut());
        assert_eq!(retained == CAI_OK, Foreign::is_sound(foreign));
        if retained == CAI_OK {
            cai_owner_release((*array).owner);
        }
        if cai_array_share(array, &mut out, null_mut()) == CAI_OK {
            cai_array_release(&mut out);
        }
        if cai_array_create(array, null_mut(), None, &mut out, null_mut()) == CAI_OK {
            cai_array_release(&mut out);
        }
        assert_eq!(Foreign::references(foreign), 1);
        Foreign::release(foreign);
        (*array).owner = before;
    }
}

/// Without streams, `produce` writes three members and no byte behind the first release's.
unsafe fn produce(array: *mut cai_array, is_whole: bool) {
    // SAFETY: as in the caller.
    unsafe {
        let produced = cai_array_produce(array, null(), 0, CAI_STREAM_LEGACY, 0, null_mut());
        assert!(is_whole || produced == CAI_ERR_STRUCT_SIZE);
        if produced == CAI_OK {
            assert_eq!((*array).stream, CAI_STREAM_NONE);
            let size = (*array).struct_size as usize;
            assert!((size_of::<cai_array>()..size).all(|offset| array.cast::<u8>().add(offset).read() == TAIL));
        }
    }
}
