//! The structures of the Arrow C data and C device data interfaces.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{MaybeUninit, size_of};

/// A release callback, which takes the structure that it is a member of.
pub type Release<T> = Option<unsafe extern "C-unwind" fn(*mut T)>;

/// `ArrowSchema`: the type of an array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Schema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut Schema,
    pub dictionary: *mut Schema,
    /// NULL in a structure that was released or moved.
    pub release: Release<Schema>,
    pub private_data: *mut c_void,
}

/// `ArrowArray`: the values.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Array {
    pub length: i64,
    /// -1: not computed.
    pub null_count: i64,
    /// Elements before the first one, in all buffers.
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut Array,
    pub dictionary: *mut Array,
    /// NULL in a structure that was released or moved.
    pub release: Release<Array>,
    pub private_data: *mut c_void,
}

/// `ArrowDeviceArray`: the values, and where they are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceArray {
    pub array: Array,
    pub device_id: i64,
    pub device_type: i32,
    /// NULL, or the address of an event (`CUevent *`).
    pub sync_event: *mut c_void,
    /// Producers may leave it uninitialized, and nothing reads it.
    pub reserved: [MaybeUninit<i64>; 3],
}

/// A stream of batches: `ArrowDeviceArrayStream`, or `ArrowArrayStream`, which states no device.
#[repr(C)]
pub struct Stream<B: Batch> {
    pub device: B::Device,
    pub get_schema: unsafe extern "C-unwind" fn(*mut Self, *mut Schema) -> c_int,
    pub get_next: unsafe extern "C-unwind" fn(*mut Self, *mut B) -> c_int,
    pub get_last_error: unsafe extern "C-unwind" fn(*mut Self) -> *const c_char,
    /// NULL in a structure that was released or moved.
    pub release: Release<Self>,
    pub private_data: *mut c_void,
}

/// The structure of a batch.
pub trait Batch: 'static {
    /// What the stream states of the device.
    type Device;
}

impl Batch for DeviceArray {
    type Device = i32;
}

impl Batch for Array {
    type Device = [i32; 0];
}

const _: () = assert!(size_of::<Stream<DeviceArray>>() == 48);
const _: () = assert!(size_of::<Stream<Array>>() == 40 && align_of::<Stream<Array>>() == 8);
const _: () = assert!(size_of::<Schema>() == 72);
const _: () = assert!(size_of::<Array>() == 80);
const _: () = assert!(size_of::<DeviceArray>() == 128);

/// `ARROW_FLAG_NULLABLE`.
pub(crate) const NULLABLE: i64 = 2;

/// A structure of a tree. It owns its children, and its release callback ends it.
pub trait Structure: Copy {
    /// The callback, which is `None` in a structure that was released or moved.
    fn release(&mut self) -> &mut Release<Self>;
    fn children(&self) -> (i64, *mut *mut Self);
    /// The producer's own pointer.
    fn private_data(&self) -> *mut c_void;
}

macro_rules! structure {
    ($($name:ident)*) => {$(
        impl Structure for $name {
            fn release(&mut self) -> &mut Release<Self> {
                &mut self.release
            }

            fn children(&self) -> (i64, *mut *mut Self) {
                (self.n_children, self.children)
            }

            fn private_data(&self) -> *mut c_void {
                self.private_data
            }
        }
    )*};
}

structure!(Schema Array);
