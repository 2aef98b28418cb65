//! Arrow arrays and schemas with any numbers in them: what is taken obeys every rule, goes out again as an equal array,
//! and each structure is released exactly once. Only pointers are valid or NULL, and buffers in host memory as long as
//! Arrow requires.
#![no_main]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, unstable::arrow::*, validate::*};
use cai_fuzz::Placed;
use libfuzzer_sys::fuzz_target;

/// Arrow's structures, declared by hand as a stranger would.
#[repr(C)]
#[derive(Clone, Copy)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C-unwind" fn(*mut Schema)>,
    private: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C-unwind" fn(*mut Array)>,
    private: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceArray {
    array: Array,
    device_id: i64,
    device_type: i32,
    sync_event: *mut c_void,
    reserved: [i64; 3],
}

/// One level: small numbers mostly, so that the fuzzer gets past them.
#[derive(Arbitrary, Debug)]
struct Level {
    format: u8,
    text: Option<Vec<u8>>,
    size: u8,
    length: u8,
    offset: u8,
    slack: u8,
    null_count: Option<i8>,
    bitmap: Option<[u8; 8]>,
    has_data: bool,
    broken: Option<(u8, i64)>,
    metadata: Option<bool>,
}

#[derive(Arbitrary, Debug)]
struct Input {
    levels: Vec<Level>,
    device: (u8, i8),
    event: Option<Option<u64>>,
    reserved: i64,
    flags: Option<u32>,
    batch: Option<Batch>,
}

/// A record batch whose columns all have the same levels.
#[derive(Arbitrary, Debug)]
struct Batch {
    columns: u8,
    wanted: u8,
    offset: u8,
    length: u8,
    null_count: Option<i8>,
    validity: Option<[u8; 16]>,
    broken: Option<(u8, i8)>,
}

/// Memory that a structure's release frees.
#[derive(Default)]
struct Kept {
    arrays: Vec<Array>,
    schemas: Vec<Schema>,
    buffers: Vec<[*const c_void; 3]>,
    array_children: Vec<*mut Array>,
    schema_children: Vec<*mut Schema>,
    formats: Vec<CString>,
    blocks: Vec<Vec<u8>>,
    event: u64,
}

thread_local! {
    static ARRAYS: Cell<usize> = const { Cell::new(0) };
    static SCHEMAS: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C-unwind" fn release_array(array: *mut Array) {
    ARRAYS.set(ARRAYS.get() + 1);
    // SAFETY: only structures of `main` have this callback, each once.
    unsafe {
        drop(Box::from_raw((*array).private.cast::<Kept>()));
        (*array).release = None;
    }
}

unsafe extern "C-unwind" fn release_schema(schema: *mut Schema) {
    SCHEMAS.set(SCHEMAS.get() + 1);
    // SAFETY: only schemas of `main` have this callback, each once.
    unsafe {
        drop(Box::from_raw((*schema).private.cast::<Kept>()));
        (*schema).release = None;
    }
}

struct Columns {
    arrays: Vec<Array>,
    places: Vec<*mut Array>,
    buffers: [*const c_void; 1],
    validity: [u8; 16],
}

unsafe extern "C-unwind" fn release_batch(batch: *mut Array) {
    // SAFETY: only `import_batch` makes structures with this callback, and releases each once.
    unsafe {
        let mut columns = Box::from_raw((*batch).private.cast::<Columns>());
        for array in &mut columns.arrays {
            array.release.unwrap()(array);
        }
        (*batch).release = None;
    }
}

/// Imports a batch: each column is released once, and all that come in are arrays of the same length.
fn import_batch(input: &Input, batch: &Batch) {
    let count = usize::from(batch.columns % 4);
    let (arrays, schemas) = (ARRAYS.get(), SCHEMAS.get());
    let made: Vec<_> = (0..count).map(|_| make(input)).collect();
    let mut types: Vec<Schema> = made.iter().map(|(_, schema)| *schema).collect();
    let mut type_places: Vec<_> = types.iter_mut().map(|schema| schema as *mut Schema).collect();
    let columns = Box::into_raw(Box::new(Columns {
        arrays: made.iter().map(|(device, _)| device.array).collect(),
        places: vec![],
        buffers: [null()],
        validity: batch.validity.unwrap_or_default(),
    }));
    // SAFETY: all structures are alive until they are released.
    unsafe {
        (*columns).places = (*columns).arrays.iter_mut().map(|array| array as *mut Array).collect();
        if batch.validity.is_some() {
            (*columns).buffers[0] = (&raw const (*columns).validity).cast();
        }
        let array = Array {
            length: i64::from(batch.length % 40),
            null_count: i64::from(batch.null_count.unwrap_or(0)),
            offset: i64::from(batch.offset % 20),
            n_buffers: 1,
            n_children: count as i64,
            buffers: (*columns).buffers.as_mut_ptr(),
            children: (*columns).places.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_batch),
            private: columns.cast(),
        };
        let (first, mut schema) = match made.first() {
            Some((device, schema)) => (*device, *schema),
            None => return drop(Box::from_raw(columns)),
        };
        let format = c"+s";
        (schema.format, schema.metadata, schema.n_children) = (format.as_ptr(), null(), count as i64);
        schema.children = type_places.as_mut_ptr();
        let mut device = DeviceArray { array, ..first };
        match batch.broken {
            Some((0, value)) => device.array.n_children = value.into(),
            Some((1, value)) => device.array.n_buffers = value.into(),
            Some((2, _)) => schema.children = null_mut(),
            Some((3, _)) => device.array.children = null_mut(),
            Some((4, _)) => device.array.children.add(count - 1).write(null_mut()),
            Some((5, _)) => schema.release = None,
            _ => {}
        }
        let least = size_of::<cai_array>() as u32;
        let places: Vec<_> = (0..count).map(|_| Placed::init(least)).collect();
        let wanted = |index: usize| batch.wanted >> index & 1 == 1;
        let out: Vec<_> =
            places.iter().enumerate().map(|(index, place)| if wanted(index) { place.array() } else { null_mut() }).collect();
        let (source, of) = ((&raw mut device).cast(), (&raw const schema).cast());
        let status = cai_unstable_arrays_from_arrow(source, of, count as i64, out.as_ptr(), null_mut());
        assert_eq!(status == CAI_OK, device.array.release.is_none());
        assert_eq!(SCHEMAS.get(), schemas);
        if status == CAI_OK {
            export_batch(&out, batch);
        }
        for (index, place) in places.iter().enumerate() {
            if status != CAI_OK || !wanted(index) {
                place.assert_untouched(least);
                continue;
            }
            let array = place.array();
            assert_eq!(cai_array_validate(array, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
            assert_eq!(*(*array).shape, i64::from(batch.length % 40));
            assert_eq!(ARRAYS.get(), arrays);
            cai_array_release(array);
        }
        if status != CAI_OK {
            release_batch(&raw mut device.array);
        }
        for schema in &mut types {
            release_schema(schema);
        }
        assert_eq!((ARRAYS.get(), SCHEMAS.get()), (arrays + count, schemas + count));
    }
}

/// Exports the columns that came in as a batch, and releases it.
fn export_batch(columns: &[*mut cai_array], batch: &Batch) {
    let arrays: Vec<_> = columns.iter().filter(|array| !array.is_null()).map(|array| array.cast_const()).collect();
    let names = vec![c"x".as_ptr(); arrays.len()];
    let (mut again, mut theirs) = (MaybeUninit::<DeviceArray>::uninit(), MaybeUninit::<Schema>::uninit());
    let (to, of) = (again.as_mut_ptr().cast(), theirs.as_mut_ptr().cast());
    let count = arrays.len() as i64;
    // SAFETY: live arrays and texts, and places for both structures, which are released once.
    unsafe {
        let status = cai_unstable_arrays_to_arrow(arrays.as_ptr(), names.as_ptr(), count, 0, to, of, null_mut());
        assert_eq!(status == CAI_ERR_VALUE, arrays.is_empty(), "{status}");
        if status == CAI_OK {
            let (again, theirs) = (again.assume_init_mut(), theirs.assume_init_mut());
            assert_eq!((again.array.n_children, theirs.n_children), (count, count));
            assert_eq!(again.array.length, i64::from(batch.length % 40));
            again.array.release.unwrap()(&mut again.array);
            theirs.release.unwrap()(theirs);
        }
    }
}

unsafe extern "C-unwind" fn inner_array(_: *mut Array) {}
unsafe extern "C-unwind" fn inner_schema(_: *mut Schema) {}

fn bool8() -> Vec<u8> {
    let parts: [&[u8]; 4] = [b"ARROW:extension:name", b"arrow.bool8", b"k", b""];
    let mut out = 2i32.to_ne_bytes().to_vec();
    for part in parts {
        out.extend((part.len() as i32).to_ne_bytes());
        out.extend(part);
    }
    out
}

/// The formats of the outer levels are mostly lists.
fn format_of(level: &Level, is_last: bool) -> Vec<u8> {
    const VALUES: [&str; 12] =
        ["f", "b", "c", "tdD", "tss:", "tsn:UTC", "tDu", "w:4", "w:0", "g", "u", "ttn"];
    match (&level.text, is_last) {
        (Some(text), _) => text.iter().copied().filter(|byte| *byte != 0).collect(),
        (None, true) => VALUES[usize::from(level.format) % VALUES.len()].into(),
        (None, false) => format!("+w:{}", level.size % 6).into_bytes(),
    }
}

/// Makes both structures. Their inner ones stay where `Kept` is, which is boxed.
fn make(input: &Input) -> (DeviceArray, Schema) {
    let count = input.levels.len().min(70);
    let levels = &input.levels[..count];
    let (mut one, mut other) = (Box::<Kept>::default(), Box::<Kept>::default());
    let has_broken = levels.iter().any(|level| level.broken.is_some());
    // Numbers that are wrong may ask for any bytes, which only a device's memory is never read for.
    let device = if has_broken { 2 } else { i32::from(input.device.0 % 16) };
    let mut needed = 0;
    for (index, level) in levels.iter().enumerate() {
        let is_last = index + 1 == count;
        let format = format_of(level, is_last);
        let size = std::str::from_utf8(format.get(3..).unwrap_or_default()).ok();
        let size: i64 = size.and_then(|text| text.parse().ok()).unwrap_or(0);
        let offset = i64::from(level.offset % 20);
        let length = if index == 0 { i64::from(level.length % 40) } else { needed + i64::from(level.slack % 3) };
        let bytes = ((offset + length + 7) / 8) as usize;
        // Many levels of large lists: the memory stays small.
        let is_small = bytes < 1 << 16;
        // At most what the next level can still add to without an overflow.
        needed = (offset + length).saturating_mul(size.clamp(0, 6)).min(i64::MAX / 8);
        let mut buffers = [null(); 3];
        if let Some(bits) = level.bitmap.filter(|_| is_small) {
            one.blocks.push(bits.iter().copied().cycle().take(bytes).collect());
            buffers[0] = one.blocks.last().unwrap().as_ptr().cast();
        }
        if is_last && level.has_data {
            let block = if is_small { bytes * 8 * 8 } else { 8 };
            one.blocks.push(vec![0x5a; block]);
            buffers[1] = one.blocks.last().unwrap().as_ptr().cast();
        }
        one.buffers.push(buffers);
        let mut array = Array {
            length,
            null_count: i64::from(level.null_count.unwrap_or(0)),
            offset,
            n_buffers: if is_last { 2 } else { 1 },
            n_children: i64::from(!is_last),
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: if index == 0 { Some(release_array) } else { Some(inner_array) },
            private: null_mut(),
        };
        let mut children = i64::from(!is_last);
        match level.broken {
            Some((0, value)) => array.length = value,
            Some((1, value)) => array.offset = value,
            Some((2, value)) => array.null_count = value,
            Some((3, value)) => array.n_buffers = value.clamp(-1, 3),
            Some((4, _)) => array.n_children = 0,
            Some((5, _)) => children = 0,
            Some((6, _)) if index > 0 => array.release = None,
            _ => {}
        }
        one.arrays.push(array);
        other.formats.push(CString::new(format).unwrap());
        if level.metadata.is_some() {
            let mut metadata = bool8();
            if level.metadata == Some(false) {
                metadata[33] ^= 1;
            }
            other.blocks.push(metadata);
        }
        other.schemas.push(Schema {
            format: other.formats.last().unwrap().as_ptr(),
            name: null(),
            metadata: if level.metadata.is_some() { other.blocks.last().unwrap().as_ptr().cast() } else { null() },
            flags: 2,
            n_children: children,
            children: null_mut(),
            dictionary: null_mut(),
            release: if index == 0 { Some(release_schema) } else { Some(inner_schema) },
            private: null_mut(),
        });
    }
    for index in 0..count {
        one.arrays[index].buffers = one.buffers[index].as_mut_ptr();
    }
    one.array_children = (1..=count).map(|index| one.arrays.as_mut_ptr().wrapping_add(index)).collect();
    other.schema_children = (1..=count).map(|index| other.schemas.as_mut_ptr().wrapping_add(index)).collect();
    for index in 0..count.saturating_sub(1) {
        one.arrays[index].children = one.array_children.as_mut_ptr().wrapping_add(index);
        other.schemas[index].children = other.schema_children.as_mut_ptr().wrapping_add(index);
    }
    one.event = input.event.flatten().unwrap_or(0);
    let sync_event = if input.event.is_some() { (&raw mut one.event).cast() } else { null_mut() };
    let (mut array, mut schema) = (one.arrays[0], other.schemas[0]);
    array.private = Box::into_raw(one).cast();
    schema.private = Box::into_raw(other).cast();
    let reserved = [0, 0, input.reserved];
    (
        DeviceArray { array, device_id: input.device.1.into(), device_type: device, sync_event, reserved },
        schema,
    )
}

fuzz_target!(|input: Input| {
    if input.levels.is_empty() {
        return;
    }
    if let Some(batch) = &input.batch {
        import_batch(&input, batch);
    }
    let (arrays, schemas) = (ARRAYS.get(), SCHEMAS.get());
    // SAFETY: both structures are alive until they are released.
    unsafe {
        let (mut array, mut schema) = make(&input);
        let least = size_of::<cai_array>() as u32;
        let out = Placed::init(least);
        let status =
            cai_unstable_array_from_arrow((&raw mut array).cast(), (&raw const schema).cast(), out.array(), null_mut());
        assert_eq!((ARRAYS.get(), SCHEMAS.get()), (arrays, schemas));
        assert_eq!(status == CAI_OK, array.array.release.is_none());
        release_schema(&mut schema);
        if status != CAI_OK {
            out.assert_untouched(least);
            release_array(&mut array.array);
            return;
        }
        let taken = &*out.array();
        assert_eq!(cai_array_validate(taken, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
        assert_eq!(taken.flags, CAI_ARRAY_READONLY);
        let flags = input.flags.unwrap_or(0);
        let (mut again, mut theirs) = (MaybeUninit::<DeviceArray>::uninit(), MaybeUninit::<Schema>::uninit());
        let status = cai_unstable_array_to_arrow(
            taken,
            flags,
            again.as_mut_ptr().cast(),
            theirs.as_mut_ptr().cast(),
            null_mut(),
        );
        assert!(status == CAI_OK || status == CAI_ERR_ALIGNMENT || flags != 0 || status == CAI_ERR_SIZE_OVERFLOW, "{status}");
        if status == CAI_OK {
            let (again, theirs) = (again.assume_init_mut(), theirs.assume_init_mut());
            let back = Placed::init(least);
            let status = cai_unstable_array_from_arrow(
                (&raw mut *again).cast(),
                (&raw const *theirs).cast(),
                back.array(),
                null_mut(),
            );
            assert_eq!(status, CAI_OK);
            let found = &*back.array();
            assert_eq!((found.data, found.typestr, found.ndim), (taken.data, taken.typestr, taken.ndim));
            assert_eq!(found.device, taken.device);
            if !taken.data.is_null() {
                assert_eq!((found.event, found.stream), (taken.event, taken.stream));
            }
            let (mut one, mut other) = (taken.mask, found.mask);
            while !one.is_null() {
                assert_eq!((*one).data, (*other).data);
                (one, other) = ((*one).mask, (*other).mask);
            }
            assert!(other.is_null());
            theirs.release.unwrap()(theirs);
            cai_array_release(back.array());
        }
        assert_eq!(ARRAYS.get(), arrays);
        cai_array_release(out.array());
        assert_eq!((ARRAYS.get(), SCHEMAS.get()), (arrays + 1, schemas + 1));
    }
});
