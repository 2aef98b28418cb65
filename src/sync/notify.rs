//! Reports exchanges to the observer, if there is one.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, cai_status};
use crate::device;
use crate::driver;
pub use crate::observer::Kind;
use crate::observer::{self, Bytes, Event, MAX_NDIM};
use crate::read::Unchecked;
use crate::sync::consume;
use crate::validate::Described;

pub use observer::is_watched;

/// `CUDASIM_CAI_FOREIGN_OWNER`.
const FOREIGN_OWNER: u32 = 2;
/// `CUDASIM_CAI_UNORDERED`.
const UNORDERED: u32 = 4;

/// Notifies the observer, after looking for one in a driver that is loaded already.
fn notify(event: &Event) {
    if driver::is_forked() {
        return;
    }
    if observer::is_unknown() {
        driver::find_observer();
    }
    observer::notify(event);
}

/// Reports an event of an array and its masks.
pub fn array(kind: Kind, array: Unchecked, consumer: u64, access: u32, status: cai_status) {
    array_at(0, kind, array, consumer, access, status);
}

/// Reports an event of an array that is a mask at this depth, and of its masks.
#[cold]
fn array_at(
    depth: i32,
    kind: Kind,
    array: Unchecked,
    consumer: u64,
    access: u32,
    status: cai_status,
) {
    // The observer watches CUDA's streams alone.
    if depth > abi::CAI_MAX_MASKS || device::is_rocm(array.device.r#type) {
        return;
    }
    let mut bytes = bytes(array);
    bytes.mode = access & (abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE);
    // The owner of an array that was refused may be no owner.
    let accepted = array.owner().filter(|_| status == abi::CAI_OK);
    let foreign = accepted.is_some_and(|owner| !owner.is_own());
    let unordered =
        kind == Kind::Begin && status == abi::CAI_OK && consume::is_left_unordered(&array, access);
    let flags = array.flags & abi::CAI_ARRAY_READONLY
        | if foreign { FOREIGN_OWNER } else { 0 }
        | if unordered { UNORDERED } else { 0 };
    notify(&Event {
        owner: array.owner.cast_const().cast::<c_void>(),
        bytes,
        flags,
        status,
        stream: array.stream,
        stream_id: array.stream_id,
        context: array.context,
        consumer,
        rule: rule(status).map_or(ptr::null(), CStr::as_ptr),
        ..Event::new(kind)
    });
    let mut scratch = MaybeUninit::uninit();
    if let Ok(Some(mask)) = array.mask(&mut scratch) {
        array_at(depth + 1, kind, mask, consumer, access, status);
    }
}

pub fn release_after(owner: *const c_void, stream: u64, status: cai_status) {
    let rule = rule(status).map_or(ptr::null(), CStr::as_ptr);
    notify(&Event { owner, consumer: stream, status, rule, ..Event::new(Kind::ReleaseAfter) });
}

/// Returns the checker's rule because of which the library refused.
fn rule(status: cai_status) -> Option<&'static CStr> {
    match status {
        abi::CAI_ERR_READONLY => Some(c"R7"),
        abi::CAI_ERR_STREAM_ZERO | abi::CAI_ERR_STREAM_THREAD => Some(c"R8"),
        400..=499 => Some(c"R10"),
        _ => None,
    }
}

/// Returns the bytes that an array can touch: exact for up to eight dimensions with gaps, otherwise
/// everything between the first and the last byte. Returns no bytes for arrays that are not valid.
fn bytes(array: Unchecked) -> Bytes {
    let nothing = Bytes::default();
    let Ok(described) = Described::new(array) else { return nothing };
    let layout = described.layout;
    let (Ok(span), Ok(nbytes)) = (layout.span(), layout.nbytes()) else { return nothing };
    let address = array.data as u64;
    let Some(strides) = layout.strides.filter(|_| nbytes > 0) else {
        return Bytes { address, nbytes: nbytes as u64, ..nothing };
    };
    let mut exact = Bytes { address, nbytes: (layout.bits / 8) as u64, ..nothing };
    // Starts with the last dimension, which most often has no gaps.
    for (&extent, &stride) in layout.shape.iter().zip(strides).rev() {
        if extent == 1 {
            continue;
        }
        let used = exact.ndim as usize;
        if used == 0 && stride == exact.nbytes as i64 {
            exact.nbytes *= extent as u64;
        } else if used < MAX_NDIM {
            (exact.count[used], exact.stride[used]) = (extent, stride);
            exact.ndim += 1;
        } else {
            let low = address.wrapping_add_signed(span.lower);
            return Bytes { address: low, nbytes: (span.upper - span.lower) as u64, ..nothing };
        }
    }
    exact
}
