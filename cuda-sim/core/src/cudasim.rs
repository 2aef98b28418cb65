//! The structures of cudasim.h.

use crate::access::Access;
use std::ffi::{c_char, c_void};

/// `cudasim_grid` of cudasim.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Grid {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

/// `cudasim_kernel` of cudasim.h.
#[repr(C)]
pub struct Kernel {
    pub name: *const c_char,
    pub run: Option<unsafe extern "C" fn(*const Grid, *mut *mut c_void)>,
    pub accesses:
        Option<unsafe extern "C" fn(*const Grid, *mut *mut c_void, *mut Access, usize) -> usize>,
    pub nargs: usize,
    pub sizes: *const usize,
}

/// `cudasim_api` of cudasim.h.
#[repr(C)]
pub struct Api {
    pub struct_size: u32,
    pub version: u32,
    pub register_kernels: extern "C" fn(*const Kernel, usize),
    pub launch: extern "C" fn(
        u64,
        *const c_char,
        Option<unsafe extern "C" fn(*mut c_void)>,
        *const u8,
        usize,
        *const Access,
        usize,
    ) -> i32,
    pub host_access: extern "C" fn(u64, usize, u32, *const c_char),
    pub hb_before: extern "C" fn(usize),
    pub hb_after: extern "C" fn(usize),
    pub suballoc: extern "C" fn(u64, usize, u64),
    pub subfree: extern "C" fn(u64, usize, u64),
    pub name_stream: extern "C" fn(u64, *const c_char),
    pub label: extern "C" fn(*const c_char),
    pub races: extern "C" fn() -> usize,
    pub step: extern "C" fn(usize) -> usize,
    pub host_address: extern "C" fn(u64) -> u64,
    pub take_report: extern "C" fn(*mut u8, usize) -> usize,
    pub fail_kernel: extern "C" fn(i32),
    /// `None` if the environment hides exchanges.
    pub cai: Option<extern "C" fn(*const Note)>,
    pub accesses: extern "C" fn(u64, *const c_char, *const Access, usize),
    pub simulated: extern "C" fn() -> i32,
    pub take_json: extern "C" fn(*mut u8, usize) -> usize,
    pub synchronize: extern "C" fn(u32) -> i32,
    pub set_condition: extern "C" fn(u64, u32),
    pub host_waited: extern "C" fn(u64, usize, u64, u32),
    pub watch_host: extern "C" fn(extern "C" fn()) -> *const u8,
    pub host_place: extern "C" fn(usize) -> u32,
    pub host_access_at: extern "C" fn(u64, usize, u32, u32),
}

/// `cudasim_cai_note` of cudasim.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Note {
    pub struct_size: u32,
    pub kind: u32,
    pub owner: u64,
    pub bytes: Access,
    pub flags: u32,
    pub status: i32,
    pub stream: u64,
    pub stream_id: u64,
    pub context: u64,
    pub consumer: u64,
    pub consumer_context: u64,
    pub rule: *const c_char,
}
