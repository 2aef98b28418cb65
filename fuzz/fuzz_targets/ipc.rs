//! Any bytes as an exported array: a status, or an array that obeys every rule and is inside the memory that the driver
//! mapped. Half of the inputs are right but for a few bytes: nothing checks them before the numbers are compared. Run it
//! on the simulated driver (`LD_LIBRARY_PATH`), or without a driver: then only arrays without elements are made.
#![no_main]

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, ipc::*, validate::*};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    /// The head with its first words right, or as it comes.
    is_repaired: bool,
    has_strides: bool,
    has_event: bool,
    ndim: u8,
    kind: u8,
    fd: i8,
    bytes: Vec<u8>,
}

const HEAD: usize = 208;

impl Input {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if self.is_repaired {
            let ndim = usize::from(self.ndim % 66);
            let bits = u32::from(self.has_strides) * 2 | u32::from(self.has_event) * 4;
            bytes.resize(HEAD + 8 * ndim * if self.has_strides { 2 } else { 1 }, 0);
            bytes[..8].copy_from_slice(b"CAI IPC\0");
            let numbers = [1, bytes.len() as u32, u32::from(self.kind % 5), bits, ndim as u32];
            for (to, number) in bytes[8..].chunks_exact_mut(4).zip(numbers) {
                to.copy_from_slice(&number.to_le_bytes());
            }
        }
        bytes
    }
}

fuzz_target!(|input: Input| {
    let bytes = input.bytes();
    let mut out = MaybeUninit::<cai_array>::zeroed();
    // SAFETY: a zeroed structure is a valid one; all pointers are valid. The descriptors are those of this process:
    // the driver opens a memory file, or refuses it. Standard input, output and errors are not such files.
    unsafe {
        let array = out.as_mut_ptr();
        (*array).struct_size = size_of::<cai_array>() as u32;
        let mut error = MaybeUninit::<cai_error>::zeroed();
        let fd = i32::from(input.fd.clamp(-1, 2));
        let status = cai_ipc_import(bytes.as_ptr().cast(), bytes.len(), fd, 0, array, error.as_mut_ptr());
        if status != CAI_OK {
            assert_eq!(error.assume_init().code, status);
            assert_ne!(status, CAI_ERR_INTERNAL);
            assert!((*array).owner.is_null() && (*array).data.is_null());
            return;
        }
        assert_eq!(cai_array_validate(array, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
        assert!(!(*array).owner.is_null());
        cai_array_release(array);
    }
});
