//! One optional observer of exchanges: a race checker.
//!
//! The simulated driver offers one in a table of functions. On other drivers there is none, and an
//! event costs one load.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;

use crate::library::Library;
use crate::published::Published;

/// Blocks of bytes, repeated at strides: `cudasim_access` of `cudasim.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Bytes {
    /// Address of the block at index (0, 0, ...).
    pub address: u64,
    /// Bytes of one block.
    pub nbytes: u64,
    /// Bit 1: read, bit 2: written.
    pub mode: u32,
    /// Dimensions in use.
    pub ndim: u32,
    /// Number of repetitions.
    pub count: [i64; MAX_NDIM],
    /// Bytes from one repetition to the next.
    pub stride: [i64; MAX_NDIM],
}

/// `CUDASIM_MAX_NDIM`.
pub(crate) const MAX_NDIM: usize = 8;

/// `cudasim_cai_note` of `cudasim.h`.
#[repr(C)]
pub struct Event {
    pub struct_size: u32,
    pub kind: Kind,
    pub owner: *const c_void,
    /// Bytes that the array can touch.
    pub bytes: Bytes,
    /// 1: read-only. 2: an owner with functions of its own, whose end is not reported. 4: a begin
    /// that ordered nothing, because the stream is unknown. An older observer ignores that bit.
    pub flags: u32,
    pub status: i32,
    pub stream: u64,
    pub stream_id: u64,
    pub context: *mut c_void,
    /// Stream of the other side.
    pub consumer: u64,
    pub consumer_context: *mut c_void,
    /// The rule because of which the library itself refused.
    pub rule: *const c_char,
}

#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `cai_array_produce`
    Export = 1,
    /// `cai_array_consume_begin`
    Begin = 2,
    /// `cai_array_consume_end`
    End = 3,
    /// `cai_array_synchronize`
    Synchronize = 4,
    /// `cai_owner_release_after`
    ReleaseAfter = 5,
    /// Release of the last reference.
    Destroy = 6,
}

impl Event {
    pub fn new(kind: Kind) -> Event {
        Event {
            struct_size: size_of::<Event>() as u32,
            kind,
            owner: ptr::null(),
            bytes: Bytes::default(),
            flags: 0,
            status: 0,
            stream: 0,
            stream_id: 0,
            context: ptr::null_mut(),
            consumer: 0,
            consumer_context: ptr::null_mut(),
            rule: ptr::null(),
        }
    }
}

/// The first members of `cudasim_api`. The functions read an event only during the call, and only
/// compare addresses.
#[repr(C)]
struct Api {
    struct_size: u32,
    version: u32,
    before: [usize; 3],
    hb_before: Option<extern "C-unwind" fn(*const c_void)>,
    hb_after: Option<extern "C-unwind" fn(*const c_void)>,
    between: [usize; 9],
    cai: Option<extern "C-unwind" fn(&Event)>,
}

/// The checker's table, if there is one, or [`NOT_LOOKED`].
static API: Published<Api> = Published::new(&NOT_LOOKED);
/// The same table, also if it does not observe exchanges. The order of the library's threads is part
/// of what a program does, whether or not its arrays are observed.
static ORDER: Published<Api> = Published::nothing();
/// Stands for a checker until a driver was asked for one: the first event makes `sync` look for it.
static NOT_LOOKED: Api = Api {
    struct_size: 0,
    version: 0,
    before: [0; 3],
    hb_before: None,
    hb_after: None,
    between: [0; 9],
    cai: None,
};

/// `cudasim_get_api`
type Get = unsafe extern "C-unwind" fn(u32) -> *const Api;
pub(crate) const NAME: &CStr = c"cudasim_get_api";
const VERSION: u32 = 3;

/// Takes the table that a driver offers, if any.
pub fn accept(driver: Option<&Library>) {
    // SAFETY: the type is that of cudasim.h.
    let get = driver.and_then(|driver| unsafe { driver.get::<Get>(NAME) });
    let api = get.and_then(|get| {
        // SAFETY: the function returns NULL or a constant table, which begins with its size; one of
        // this size has all the members.
        unsafe {
            let api = get(VERSION);
            let is_known = !api.is_null() && (*api).struct_size as usize >= size_of::<Api>();
            is_known.then(|| &*api)
        }
    });
    ORDER.set(api);
    API.set(api.filter(|api| api.cai.is_some()));
}

/// Returns true if there is an observer, or none was searched for yet.
#[inline]
pub fn is_watched() -> bool {
    !API.is_empty()
}

/// Returns true if no driver was asked for an observer yet.
pub fn is_unknown() -> bool {
    API.get().is_some_and(|api| ptr::eq(api, &NOT_LOOKED))
}

/// Removes the observer: after a fork, in the child.
#[cfg(unix)]
pub fn detach() {
    API.set(None);
    ORDER.set(None);
}

pub fn notify(event: &Event) {
    if let Some(cai) = API.get().and_then(|api| api.cai) {
        cai(event);
    }
}

/// Notifies the observer that what this thread did happens before what a thread does after
/// [`notify_after`] with the same address. An observer cannot see atomic operations.
pub fn notify_before(address: *const c_void) {
    if let Some(hb_before) = ORDER.get().and_then(|api| api.hb_before) {
        hb_before(address);
    }
}

/// The other side of [`notify_before`].
pub fn notify_after(address: *const c_void) {
    if let Some(hb_after) = ORDER.get().and_then(|api| api.hb_after) {
        hb_after(address);
    }
}

/// Notifies the observer that an owner of this library is about to be destroyed.
#[inline]
pub fn notify_destroy(owner: *const c_void) {
    if is_watched() && !is_unknown() {
        notify(&Event { owner, ..Event::new(Kind::Destroy) });
    }
}

const _: () = assert!(size_of::<Bytes>() == 152);
const _: () = assert!(size_of::<Event>() == 224);
const _: () = assert!(offset_of!(Api, hb_before) == 32);
const _: () = assert!(offset_of!(Api, cai) == 120);
