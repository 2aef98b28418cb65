//! Options of any size with any bits, on objects of every protocol: what is taken meets the options, a failure raises
//! unless the options forbid it, and no reference is lost.
#![no_main]

use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::unstable::view::*;
use cai::ffi::{array::*, dtype::*, layout::*, python::*, validate::*};
use cai_fuzz::python::{Object, exported, python};
use cai_fuzz::{CANARY, Placed, Size, is_legal, typestr};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    object: u8,
    out: Size,
    without: bool,
    size: Size,
    tail: Option<(u16, u8)>,
    /// Bits, of which most inputs have few.
    flags: (u16, u16, bool),
    any_flags: Option<u32>,
    protocols: Option<[u8; 16]>,
    stream: Option<u64>,
    ndim: i8,
    codes: [(bool, u16); 3],
    reserved: (bool, [u16; 3]),
    typestr: Option<([u8; 16], u8)>,
}

struct Objects(Vec<Object>);
// SAFETY: one thread runs.
unsafe impl Send for Objects {}
// SAFETY: one thread runs.
unsafe impl Sync for Objects {}

fn objects() -> &'static [Object] {
    static OBJECTS: OnceLock<Objects> = OnceLock::new();
    &OBJECTS
        .get_or_init(|| {
            let python = python();
            let main = python.run("");
            // SAFETY: the interpreter has started, and this is its thread.
            unsafe {
                let made = [
                    (c"host", exported(CAI_DEVICE_CPU, false)),
                    (c"device", exported(CAI_DEVICE_CUDA, false)),
                    (c"mask", exported(CAI_DEVICE_CUDA, true)),
                ];
                for (name, object) in made {
                    assert_eq!((python.set_attribute)(main, name.as_ptr(), object), 0);
                }
                python.run(include_str!("../src/objects.py"));
                let list = (python.attribute)(main, c"OBJECTS".as_ptr());
                Objects((0..(python.length)(list)).map(|index| (python.item)(list, index)).collect())
            }
        })
        .0
}

fuzz_target!(|input: Input| {
    let (python, objects) = (python(), objects());
    let object = objects[usize::from(input.object) % objects.len()];
    let least = size_of::<cai_import_options>();
    let size = input.size.of(least);
    let code = |(is_set, code): (bool, u16)| if is_set { code % 300 } else { 0 };
    let flags = input.any_flags.unwrap_or(match input.flags {
        // 29 and 30 are those of the headers in `unstable`.
        (one, _, true) => 1 << [one % 18, 29, 30][usize::from(one / 0x5556)],
        (one, other, false) => u32::from(one & other),
    });
    let options = cai_import_options {
        struct_size: size,
        flags,
        protocols: input.protocols.map_or([0; 16], |list| list.map(|number| number % 10)),
        dlpack_stream: input.stream.unwrap_or(CAI_STREAM_UNKNOWN),
        ndim: input.ndim.into(),
        dtype_code: code(input.codes[0]),
        opaque_8bit: code(input.codes[1]),
        opaque_16bit: code(input.codes[2]),
        reserved: if input.reserved.0 { input.reserved.1 } else { [0; 3] },
        typestr: input.typestr.map_or([0; 16], |(raw, plain)| typestr(raw, plain)),
    };
    let placed = Placed::new(&options, size, least, 4);
    if placed.size > least {
        let tail = placed.size - least;
        // SAFETY: inside the block.
        unsafe {
            placed.start.add(least).write_bytes(0, tail);
            if let Some((at, byte)) = input.tail {
                placed.start.add(least + usize::from(at) % tail).write(byte);
            }
        }
    }
    let claimed = input.out.of(size_of::<cai_array>());
    let out = Placed::init(claimed);
    let before = python.references(object);
    // CPython itself refers to None and to small numbers, and drops some when it collects garbage.
    let is_common = before > 1000;
    // SAFETY: pointers are NULL or valid; the thread holds the lock.
    unsafe {
        let mut error = std::mem::MaybeUninit::<cai_error>::zeroed().assume_init();
        (error.field[95], error.message[407]) = (CANARY as _, CANARY as _);
        // None of the objects has a library that allocates: the wanted array is read, and nothing is held.
        let like = Placed::init(size_of::<cai_array>() as u32);
        let extents = [1i64; CAI_MAX_NDIM as usize];
        (*like.array()).ndim = options.ndim;
        (*like.array()).shape = extents.as_ptr();
        (*like.array()).typestr = options.typestr;
        (*like.array()).dtype_code = options.dtype_code;
        let mut made = null_mut();
        let status = cai_unstable_python_empty_like(
            object,
            like.array(),
            options.dlpack_stream,
            None,
            null_mut(),
            &mut made,
            null_mut(),
            null_mut(),
        );
        assert!(status != CAI_OK && made.is_null() && python.raised());
        assert!(is_common || python.references(object) == before, "references after status {status}");
        let given = if input.without { null() } else { placed.start.cast() };
        let status = cai_array_from_python(object, given, out.array(), &mut error);
        let raised = python.raised();
        if status != CAI_OK {
            assert_eq!(error.code, status);
            assert!(error.field[95] == 0 && error.message[407] == 0);
            assert!(raised || (!input.without && flags & CAI_IMPORT_NO_EXCEPTION != 0));
            out.assert_untouched(claimed);
            assert!(is_common || python.references(object) == before, "references after status {status}");
            return;
        }
        assert!(!raised && is_legal(claimed, size_of::<cai_array>()));
        out.assert_written(claimed);
        let array = out.array();
        assert_eq!(cai_array_validate(array, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
        assert!(!(*array).owner.is_null());
        let has = |flag: u32| !input.without && flags & flag != 0;
        let mut layout = std::mem::MaybeUninit::<cai_layout>::zeroed().assume_init();
        assert_eq!(cai_array_layout(array, &mut layout, null_mut()), CAI_OK);
        let (c, f) = (CAI_IMPORT_REQUIRE_C_CONTIGUOUS, CAI_IMPORT_REQUIRE_F_CONTIGUOUS);
        if has(c) || has(f) {
            let allowed = if has(c) { CAI_LAYOUT_C_CONTIGUOUS } else { 0 }
                | if has(f) { CAI_LAYOUT_F_CONTIGUOUS } else { 0 };
            assert_ne!(layout.flags & allowed, 0);
        }
        let is_native = cai_array_validate(array, CAI_CHECK_NATIVE, null_mut()) == CAI_OK;
        assert!(is_native || !has(CAI_IMPORT_REQUIRE_NATIVE));
        assert!((*array).flags & CAI_ARRAY_READONLY == 0 || !has(CAI_IMPORT_REQUIRE_WRITABLE));
        assert!((*array).ndim == options.ndim || !has(CAI_IMPORT_REQUIRE_NDIM));
        assert!((*array).mask.is_null() || has(CAI_IMPORT_ALLOW_MASK));
        let is_known = (*array).stream != CAI_STREAM_UNKNOWN || !(*array).event.is_null();
        assert!(is_known || !has(CAI_IMPORT_REQUIRE_STREAM));
        assert!((*array).device.r#type != CAI_DEVICE_CPU || has(CAI_IMPORT_ALLOW_HOST));
        if !input.without && options.typestr[0] != 0 {
            let (mut required, mut found) = (std::mem::zeroed::<cai_dtype>(), std::mem::zeroed::<cai_dtype>());
            assert_eq!(cai_dtype_parse(options.typestr.as_ptr(), &mut required, null_mut()), CAI_OK);
            assert_eq!(cai_dtype_parse((*array).typestr.as_ptr(), &mut found, null_mut()), CAI_OK);
            (required.code, found.code) = (options.dtype_code, (*array).dtype_code);
            assert!(cai_dtype_equal(&required, &found));
        }
        cai_array_release(array);
        assert!(is_common || python.references(object) == before, "references after a release");
        assert!(!python.raised());
    }
});
