//! Any bytes as an exported array: a status, or an array that obeys every rule and is inside the memory that the driver
//! mapped. Most inputs have the form of the bytes, with masks and fields, but for a few bytes: nothing checks them before
//! the numbers are compared. Run it on the simulated driver (`LD_LIBRARY_PATH`), or without a driver: then only arrays
//! without elements are made.
#![no_main]

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, unstable::ipc::*, validate::*};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Allocation {
    kind: u8,
    uuid: [u8; 16],
    size: u64,
    handle: u8,
}

#[derive(Arbitrary, Debug)]
struct Part {
    place: u8,
    bits: u8,
    dtype_code: u8,
    typestr: [u8; 4],
    offset: u32,
    shape: Vec<i16>,
    strides: Vec<i64>,
}

#[derive(Arbitrary, Debug)]
enum Input {
    Any(Vec<u8>),
    Message {
        event: Option<u8>,
        allocations: Vec<Allocation>,
        array: Part,
        masks: Vec<Part>,
        fields: Option<String>,
        changes: Vec<(u16, u8)>,
    },
}

impl Input {
    fn bytes(self) -> Vec<u8> {
        let (event, allocations, array, masks, fields, changes) = match self {
            Input::Any(bytes) => return bytes,
            Input::Message { event, allocations, array, masks, fields, changes } => {
                (event, allocations, array, masks, fields, changes)
            }
        };
        let fields = fields.unwrap_or_default();
        let mut bytes = Vec::new();
        let numbers = [event.is_some() as usize, allocations.len(), 1 + masks.len(), fields.len()];
        for number in numbers {
            bytes.extend((number as u32).to_le_bytes());
        }
        bytes.extend(event.map(|byte| [byte; 64]).iter().flatten());
        for allocation in allocations {
            let kind = 1 + u32::from(allocation.kind % 3);
            bytes.extend(kind.to_le_bytes());
            bytes.extend(allocation.uuid);
            bytes.extend(allocation.size.to_le_bytes());
            if kind != 3 {
                bytes.extend([allocation.handle; 64]);
            }
        }
        for part in std::iter::once(array).chain(masks) {
            let has_strides = part.bits & 2 != 0;
            for number in [part.place, part.bits & 3, part.shape.len() as u8, part.dtype_code] {
                bytes.extend(u32::from(number).to_le_bytes());
            }
            bytes.extend(part.typestr);
            bytes.extend([0; 12]);
            bytes.extend(u64::from(part.offset).to_le_bytes());
            part.shape.iter().for_each(|extent| bytes.extend(i64::from(*extent).to_le_bytes()));
            let strides = part.strides.iter().chain(std::iter::repeat(&0)).take(part.shape.len());
            strides.filter(|_| has_strides).for_each(|stride| bytes.extend(stride.to_le_bytes()));
        }
        bytes.extend(fields.as_bytes());
        let mut head = b"CAI IPC\0\x02\0\0\0".to_vec();
        head.extend((16 + bytes.len() as u32).to_le_bytes());
        bytes.splice(..0, head);
        for (place, value) in changes {
            let length = bytes.len();
            bytes[usize::from(place) % length] ^= value;
        }
        bytes
    }
}

fuzz_target!(|input: Input| {
    let bytes = input.bytes();
    let mut out = MaybeUninit::<cai_array>::zeroed();
    // SAFETY: a zeroed structure is a valid one; all pointers are valid. The descriptor is that of this process:
    // the driver opens a memory file, or refuses it. The standard input is not such a file.
    unsafe {
        let array = out.as_mut_ptr();
        (*array).struct_size = size_of::<cai_array>() as u32;
        let mut error = MaybeUninit::<cai_error>::zeroed();
        let fd = bytes.len() as i32 % 2 - 1;
        let status = cai_unstable_ipc_import(bytes.as_ptr().cast(), bytes.len(), fd, 0, array, error.as_mut_ptr());
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
