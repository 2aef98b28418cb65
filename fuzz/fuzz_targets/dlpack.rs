//! DLPack tensors of both kinds with any numbers in them: what is taken obeys every rule, goes out again as an equal
//! tensor of either kind, and each deleter runs exactly once.
#![no_main]

use std::ffi::c_void;
use std::ptr::null_mut;

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, dlpack::*, validate::*};
use cai_fuzz::tensor::{Given, call_deleter, deleted, inside};
use cai_fuzz::{Placed, Size, is_legal};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    tensor: Given,
    stream: Option<u64>,
    out: Size,
    again: Size,
    flags: Option<u32>,
    /// Lanes become a dimension.
    expands: bool,
}

unsafe fn import(tensor: *mut c_void, is_versioned: bool, stream: u64, flags: u32, out: &Placed) -> cai_status {
    // SAFETY: all pointers are valid, as the caller knows.
    unsafe {
        if is_versioned {
            cai_array_from_dlpack(tensor.cast(), stream, flags, out.array(), null_mut())
        } else {
            cai_array_from_dlpack_unversioned(tensor.cast(), stream, flags, out.array(), null_mut())
        }
    }
}

unsafe fn export(array: *const cai_array, is_versioned: bool, flags: u32) -> Result<*mut c_void, cai_status> {
    // SAFETY: all pointers are valid, as the caller knows.
    unsafe {
        let (mut versioned, mut unversioned) = (null_mut(), null_mut());
        let status = if is_versioned {
            cai_array_to_dlpack(array, flags, &mut versioned, null_mut())
        } else {
            cai_array_to_dlpack_unversioned(array, flags, &mut unversioned, null_mut())
        };
        let tensor: *mut c_void = if is_versioned { versioned.cast() } else { unversioned.cast() };
        assert_eq!(status == CAI_OK, !tensor.is_null());
        if status == CAI_OK { Ok(tensor) } else { Err(status) }
    }
}

fuzz_target!(|input: Input| {
    let given = &input.tensor;
    let least = size_of::<cai_array>();
    let claimed = input.out.of(least);
    let stream = input.stream.unwrap_or(CAI_STREAM_NONE);
    let before = deleted();
    // SAFETY: the tensor is alive until its deleter ran; each structure has the size that it claims.
    unsafe {
        let tensor = given.make();
        let out = Placed::init(claimed);
        let status = match input.expands {
            true => import(tensor, given.is_versioned, stream, CAI_UNSTABLE_DLPACK_LANES, &out),
            false => import(tensor, given.is_versioned, stream, 0, &out),
        };
        if status != CAI_OK {
            assert_eq!(deleted(), before, "a tensor that was refused stays its producer's");
            out.assert_untouched(claimed);
            given.free(tensor);
            return;
        }
        out.assert_written(claimed);
        let array = out.array();
        assert_eq!(cai_array_validate(array, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
        let source = inside(tensor, given.is_versioned);
        // As a producer sees it that has no deleter: nothing is called, the memory stays its own.
        let released = || {
            assert_eq!(deleted(), before + usize::from(given.has_deleter()));
            if !given.has_deleter() {
                given.free(tensor);
            }
        };
        if input.expands && (*array).ndim != source.ndim {
            assert!(source.lanes > 1 && (*array).ndim == source.ndim + 1);
            assert_eq!((*array).shape.add(source.ndim as usize).read(), i64::from(source.lanes));
            cai_array_release(array);
            released();
            return;
        }
        assert_eq!((*array).ndim, source.ndim);
        assert_eq!((*array).device.r#type, source.device.0);
        for is_versioned in [true, false] {
            if let Err(status) = export(array, is_versioned, input.flags.unwrap_or(0) | 1 << 31) {
                assert_ne!(status, CAI_OK);
            } else {
                panic!("an unknown flag was taken");
            }
            let Ok(copy) = export(array, is_versioned, 0) else { continue };
            assert_eq!(deleted(), before);
            let found = inside(copy, is_versioned);
            assert_eq!((found.code, found.bits, found.lanes), (source.code, source.bits, source.lanes));
            assert_eq!((found.ndim, found.device.0), (source.ndim, source.device.0));
            let count = source.ndim as usize;
            let is_empty = (*array).data.is_null();
            for index in 0..count {
                let extent = found.shape.add(index).read();
                assert_eq!(extent, source.shape.add(index).read());
                if !is_empty && extent > 1 && !source.strides.is_null() && source.bits > 1 {
                    assert_eq!(found.strides.add(index).read(), source.strides.add(index).read());
                }
            }
            if !is_empty {
                let address = |tensor: &cai_fuzz::tensor::Tensor| tensor.data.wrapping_add(tensor.byte_offset);
                assert_eq!(address(&found), address(&source));
            }
            let size = input.again.of(least);
            let again = Placed::init(size);
            let imported = import(copy, is_versioned, stream, 0, &again);
            assert_eq!(imported == CAI_OK, is_legal(size, least));
            if imported == CAI_OK {
                again.assert_written(size);
                cai_array_release(again.array());
            } else {
                call_deleter(copy, is_versioned);
            }
            assert_eq!(deleted(), before);
        }
        cai_array_release(array);
        out.assert_cleared(claimed);
        released();
    }
});
