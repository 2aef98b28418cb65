//! One optional observer of exchanges: a race checker.
//!
//! The simulated driver offers one in a table of functions. On other drivers there is none, and an
//! event costs one load.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

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
    /// Size of the structure.
    pub struct_size: u32,
    /// Kind of event.
    pub kind: Kind,
    /// Address of the owner.
    pub owner: *const c_void,
    /// Bytes that the array can touch.
    pub bytes: Bytes,
    /// 1: read-only. 2: an owner with functions of its own, whose end is not reported.
    pub flags: u32,
    /// Status that the library returns.
    pub status: i32,
    /// Stream of the array.
    pub stream: u64,
    /// Id of that stream.
    pub stream_id: u64,
    /// Context of that stream.
    pub context: *mut c_void,
    /// Stream of the other side.
    pub consumer: u64,
    /// Context of that stream.
    pub consumer_context: *mut c_void,
    /// The rule because of which the library itself refused.
    pub rule: *const c_char,
}

/// Kind of event.
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
    /// An event without details.
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

/// The first members of `cudasim_api`.
#[repr(C)]
pub struct Api {
    struct_size: u32,
    version: u32,
    before: [*const c_void; 3],
    hb_before: Option<unsafe extern "C-unwind" fn(*const c_void)>,
    hb_after: Option<unsafe extern "C-unwind" fn(*const c_void)>,
    between: [*const c_void; 9],
    cai: Option<unsafe extern "C-unwind" fn(*const Event)>,
}

/// The checker's table, NULL, or [`NOT_LOOKED`].
static API: AtomicPtr<Api> = AtomicPtr::new(NOT_LOOKED);
/// The same table, also if it does not observe exchanges; NULL if there is none. The order of the
/// library's threads is part of what a program does, whether or not its arrays are observed.
static ORDER: AtomicPtr<Api> = AtomicPtr::new(ptr::null_mut());
/// No driver was asked for a checker yet. At first it counts as one, so that the first event makes
/// `sync` look for it.
const NOT_LOOKED: *mut Api = ptr::without_provenance_mut(1);

/// `cudasim_get_api`
pub type Get = unsafe extern "C-unwind" fn(u32) -> *mut Api;
/// The name of the function that returns the table.
pub(crate) const NAME: &CStr = c"cudasim_get_api";
const VERSION: u32 = 3;

/// Takes the table that a driver offers; `None` if it offers none.
pub fn accept(get: Option<Get>) {
    // SAFETY: the function has the type of cudasim.h and returns NULL or a constant table.
    let api = get.map_or(ptr::null_mut(), |get| unsafe { get(VERSION) });
    // SAFETY: not NULL here, and every table begins with its size; one of this size has the member.
    let known = !api.is_null() && unsafe { (*api).struct_size } as usize >= size_of::<Api>();
    // SAFETY: not NULL, and long enough.
    let observes = known && unsafe { (*api).cai.is_some() };
    ORDER.store(if known { api } else { ptr::null_mut() }, Ordering::Release);
    API.store(if observes { api } else { ptr::null_mut() }, Ordering::Release);
}

/// Returns true if there is an observer, or none was searched for yet.
#[inline]
pub fn is_watched() -> bool {
    !API.load(Ordering::Relaxed).is_null()
}

/// Returns true if no driver was asked for an observer yet.
pub fn is_unknown() -> bool {
    API.load(Ordering::Relaxed) == NOT_LOOKED
}

/// Removes the observer: after a fork, in the child.
#[cfg(unix)]
pub fn detach() {
    API.store(ptr::null_mut(), Ordering::Relaxed);
    ORDER.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Notifies the observer, if there is one.
pub fn notify(event: &Event) {
    let api = API.load(Ordering::Acquire);
    if api == NOT_LOOKED {
        return;
    }
    // SAFETY: NULL, or a constant table that `accept` found to be long enough.
    if let Some(cai) = unsafe { api.as_ref() }.and_then(|api| api.cai) {
        // SAFETY: the event is initialized, and the observer reads it only during the call.
        unsafe { cai(event) };
    }
}

/// Returns the table for the order of threads, if there is one.
fn table() -> Option<&'static Api> {
    // SAFETY: NULL, or a constant table that `accept` found to be long enough.
    unsafe { ORDER.load(Ordering::Acquire).as_ref() }
}

/// Notifies the observer that what this thread did happens before what a thread does after
/// [`notify_after`] with the same address. An observer cannot see atomic operations.
pub fn notify_before(address: *const c_void) {
    if let Some(hb_before) = table().and_then(|api| api.hb_before) {
        // SAFETY: the address is only compared.
        unsafe { hb_before(address) };
    }
}

/// The other side of [`notify_before`].
pub fn notify_after(address: *const c_void) {
    if let Some(hb_after) = table().and_then(|api| api.hb_after) {
        // SAFETY: the address is only compared.
        unsafe { hb_after(address) };
    }
}

/// Notifies the observer that an owner of this library is about to be destroyed.
#[inline]
pub fn notify_destroy(owner: *const c_void) {
    let api = API.load(Ordering::Acquire);
    if !api.is_null() && api != NOT_LOOKED {
        notify(&Event { owner, ..Event::new(Kind::Destroy) });
    }
}

const _: () = assert!(size_of::<Bytes>() == 152);
const _: () = assert!(size_of::<Event>() == 224);
const _: () = assert!(offset_of!(Api, hb_before) == 32);
const _: () = assert!(offset_of!(Api, cai) == 120);
