//! Any text as a list of fields: what is read can be written, and reads back as an equal list.
#![no_main]

use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

use cai::abi::*;
use cai::ffi::dtype::*;
use cai::ffi::owner::cai_owner_release;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: all pointers are valid, and both owners are released.
    unsafe {
        let (mut descr, mut owner) = (null(), null_mut());
        if cai_descr_parse(text.as_ptr(), &mut descr, &mut owner, null_mut()) != CAI_OK {
            return;
        }
        let mut length = 0;
        assert_eq!(cai_descr_format(descr, null_mut(), 0, &mut length, null_mut()), CAI_OK);
        let mut written = vec![0 as c_char; length + 1];
        assert_eq!(cai_descr_format(descr, written.as_mut_ptr(), length + 1, null_mut(), null_mut()), CAI_OK);
        let (mut again, mut owner_of_again) = (null(), null_mut());
        let status = cai_descr_parse(written.as_ptr(), &mut again, &mut owner_of_again, null_mut());
        assert_eq!(status, CAI_OK);
        let mut equal = false;
        assert_eq!(cai_descr_equal(descr, again, &mut equal, null_mut()), CAI_OK);
        assert!(equal);
        cai_owner_release(owner);
        cai_owner_release(owner_of_again);
    }
});
