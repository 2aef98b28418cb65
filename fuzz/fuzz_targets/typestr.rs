//! Any 16 bytes as a typestr: what is taken can be written, and reads back as an equal type; and any
//! `cai_dtype` either formats into something that parses, or is refused.
#![no_main]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use cai::abi::*;
use cai::ffi::dtype::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 16], (u8, u8, u16, i32, i32, i64, i64))| {
    let (text, (kind, byte_order, code, unit, unit_count, itemsize, bits)) = input;
    let mut dtype = MaybeUninit::uninit();
    let mut written = [0 as c_char; CAI_TYPESTR_SIZE];
    // SAFETY: all pointers are valid.
    unsafe {
        if cai_dtype_parse(text.as_ptr().cast(), dtype.as_mut_ptr(), null_mut()) == CAI_OK {
            let dtype = dtype.assume_init();
            assert_eq!(cai_dtype_format(&dtype, written.as_mut_ptr(), written.len(), null_mut(), null_mut()), CAI_OK);
            let mut again = MaybeUninit::uninit();
            assert_eq!(cai_dtype_parse(written.as_ptr(), again.as_mut_ptr(), null_mut()), CAI_OK);
            assert!(cai_dtype_equal(&dtype, again.as_ptr()));
        }
        let made = cai_dtype {
            kind: kind as c_char,
            byte_order: byte_order as c_char,
            code,
            unit,
            unit_count,
            reserved: [0; 2],
            itemsize,
            bits,
        };
        cai_dtype_is_native(&made);
        if cai_dtype_format(&made, written.as_mut_ptr(), written.len(), null_mut(), null_mut()) == CAI_OK {
            assert_eq!(cai_dtype_parse(written.as_ptr(), dtype.as_mut_ptr(), null_mut()), CAI_OK);
            assert_eq!(dtype.assume_init(), cai_dtype { code: 0, ..made });
        }
    }
});
